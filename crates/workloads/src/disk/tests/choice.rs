//! How the back end is chosen, and that the comparison leaves no trace in what is measured.

use std::fs;

use engine::workload::{Unannounced, Workload};
use model::{Level, Shape};

use super::{Scratch, disk, drive, failed};

fn text(disk: &dyn Workload, name: &str) -> String {
    disk.facts().get(name).map(ToString::to_string).unwrap_or_default()
}

/// What `auto` needs to choose between.
fn has_io_uring() -> bool {
    !testkit::lacks(testkit::Need::IoUring)
}

#[test]
fn one_operation_through_the_page_cache_is_a_system_call_without_a_comparison() {
    let folder = Scratch::new("choice-rule");
    let mut disk = disk(&folder.path("f"), &[("read_percent", "0%"), ("threads", "2")]);
    disk.prepare(1, &mut |_| true).unwrap();
    let before = fs::read(folder.path("f")).unwrap();
    assert_eq!(disk.workers(&disk.default_shape()), 2);
    assert!(before == fs::read(folder.path("f")).unwrap(), "something was written");
    if has_io_uring() {
        assert_eq!(text(disk.as_ref(), "back_end.basis"), "rule");
    }
    assert_eq!(text(disk.as_ref(), "back_end"), "system-calls");
}

#[test]
fn a_queue_is_compared_and_the_record_says_what_the_choice_rests_on() {
    if !has_io_uring() {
        return;
    }
    let folder = Scratch::new("choice-compared");
    for (index, pairs) in [
        &[("read_percent", "0%")][..],
        &[("read_percent", "50%"), ("verify", "on"), ("threads", "2")],
        &[("fsync_every", "3"), ("read_percent", "50%")],
        &[("access", "sequential"), ("block_size", "4KiB,64KiB")],
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path(&format!("f{index}"));
        let mut disk = disk(&path, &[&[("outstanding", "4")], pairs].concat());
        disk.prepare(1, &mut |_| true).unwrap();
        disk.workers(&disk.default_shape());
        let facts = disk.facts();
        // What is in the page cache is known since Linux 6.5 (cachestat).
        if testkit::lacks(testkit::Need::Linux(6, 5)) {
            return;
        }
        assert_eq!(text(disk.as_ref(), "back_end.basis"), "compared", "{facts:?}");
        for back_end in ["io_uring", "system_calls", "system_calls_in_turn"] {
            let rate = facts.get(&format!("back_end.{back_end}.rate"));
            assert!(matches!(rate, Some(Level::Rate(rate)) if *rate > 0.0), "{facts:?}");
        }
        // Blocks that the comparison wrote are known to `verify`.
        let (results, remarks) = drive(disk.as_ref(), 0, 2000, 1);
        assert_eq!((failed(&results), remarks), (0, vec![]), "{pairs:?}");
        // The next trial of the same load has the same back end, without another comparison.
        let mut next = super::disk(&path, &[&[("outstanding", "4")], pairs].concat());
        next.prepare(2, &mut |_| true).unwrap();
        next.workers(&next.default_shape());
        let rates = |facts: std::collections::BTreeMap<String, Level>| {
            facts.into_iter().filter(|(name, _)| name.ends_with(".rate")).collect::<Vec<_>>()
        };
        assert_eq!(rates(next.facts()), rates(facts));
    }
}

#[test]
fn a_comparison_of_reads_writes_nothing_and_leaves_the_page_cache_as_it_was() {
    if !has_io_uring() {
        return;
    }
    let folder = Scratch::new("choice-cold");
    let path = folder.path("f");
    for access in ["random", "sequential"] {
        fs::write(&path, vec![7; 16 << 20]).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let resident = || engine::page_cache::resident_bytes(&file, 0, 16 << 20);
        if testkit::lacks(testkit::Need::BlockDevice(&folder.path("."))) {
            return;
        }
        assert_eq!(resident(), Some(0));
        let pairs = [("size", "16MiB"), ("outstanding", "4"), ("access", access)];
        let mut disk = disk(&path, &pairs);
        disk.prepare(1, &mut |_| true).unwrap();
        disk.workers(&disk.default_shape());
        assert_eq!(text(disk.as_ref(), "back_end.basis"), "compared");
        assert!(resident() < Some(1 << 20), "{access}: {:?} of 16 MiB are in memory", resident());
        drop(disk);
        assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_thread_carries_out_its_queue_in_order_and_each_ticket_once() {
    let folder = Scratch::new("choice-turn");
    let mut disk = disk(&folder.path("f"), &[("read_percent", "0%"), ("access", "sequential")]);
    disk.prepare(1, &mut |_| true).unwrap();
    let plan = super::super::settings::DiskPlan::read(&super::settings(&[
        ("files", folder.path("f").to_str().unwrap()),
        ("size", "1MiB"),
        ("cache", "page-cache"),
        ("read_percent", "0%"),
        ("access", "sequential"),
    ]));
    let plan = plan.unwrap();
    let ready = super::super::prepare::prepare(
        &plan,
        1,
        (&mut super::super::prepare::Kept::default(), &Unannounced),
        &mut |_| true,
    )
    .unwrap();
    let share = super::Share { lane: 0, index: 0, of: 1, in_flight_max: 3, is_open: false, seed: 1 };
    let mut worker = super::super::calls::CallWorker::new(&plan, &ready, &share, true).unwrap();
    use engine::workload::{Admission, Operation, Worker};
    for ticket in 0..3 {
        let number = u64::from(ticket);
        assert_eq!(worker.submit(Operation::new(ticket, number)), Admission::Accepted);
    }
    assert_eq!(worker.submit(Operation::new(3, 3)), Admission::Busy);
    let mut done = Vec::new();
    for ticket in 0..3 {
        worker.reap(0, &mut done).unwrap();
        assert_eq!(done.iter().map(|done| done.ticket).collect::<Vec<_>>(), (0..=ticket).collect::<Vec<_>>());
    }
    worker.reap(0, &mut done).unwrap();
    assert_eq!(done.len(), 3);
}

#[test]
fn an_open_load_past_the_page_cache_keeps_the_ring() {
    let folder = Scratch::new("choice-open");
    let disk = disk(&folder.path("f"), &[("cache", "direct")]);
    let shape =
        Shape::Open { rate_per_s: model::Profile::Constant(100.0), arrivals: model::Process::Poisson };
    let expected = if has_io_uring() { 1 } else { 64 };
    assert_eq!(disk.workers(&shape), expected);
}
