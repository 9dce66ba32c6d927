//! The workload as the engine sees it, on files in the temporary directory.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use engine::workload::{Admission, Completion, Done, Operation, Outcome, Share, Workload, WorkloadKind};
use model::{Level, Nanos, Shape};

use super::settings::tests::settings;

mod choice;
mod content;
mod device;
mod lasting;
mod orders;
mod overwriting;
mod ownership;

/// A directory that is removed in the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plimsoll-disk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Page cache, because a temporary directory may be memory; direct I/O has its own test.
fn disk(file: &Path, pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    let mut all = vec![("files", file.to_str().unwrap()), ("size", "1MiB"), ("cache", "page-cache")];
    all.extend_from_slice(pairs);
    super::KIND.configure(&settings(&all)).unwrap()
}

/// Carries out operations `first..first + count` with one worker; what became of each, and what it remarked.
fn drive(workload: &dyn Workload, first: u64, count: u64, seed: u64) -> (Vec<Done>, Vec<String>) {
    const IN_FLIGHT: u32 = 8;
    let mut worker = workload
        .worker(&Share { lane: 0, index: 0, of: 1, in_flight_max: IN_FLIGHT, is_open: false, seed })
        .unwrap();
    let mut free: Vec<u32> = (0..IN_FLIGHT).collect();
    let mut results = Vec::new();
    let mut done: Vec<Completion> = Vec::new();
    let mut number = first;
    while (results.len() as u64) < count {
        while number < first + count
            && let Some(ticket) = free.pop()
        {
            match worker.submit(Operation::new(ticket, number)) {
                Admission::Accepted => number += 1,
                Admission::Completed(done) => {
                    number += 1;
                    results.push(done);
                    free.push(ticket);
                }
                // With `cached_pages` a pass may begin.
                Admission::Busy | Admission::Preparing => {
                    free.push(ticket);
                    break;
                }
                refused => panic!("a disk load never ends meanwhile: {refused:?}"),
            }
        }
        worker.reap(Nanos::MAX, &mut done).unwrap();
        for completion in done.drain(..) {
            assert!(!free.contains(&completion.ticket));
            free.push(completion.ticket);
            results.push(completion.done);
        }
    }
    let mut remarks = Vec::new();
    worker.remarks(&mut remarks);
    (results, remarks)
}

fn failed(results: &[Done]) -> usize {
    results.iter().filter(|done| done.outcome != Outcome::Well).count()
}

/// Those that this kernel has.
fn back_ends() -> Vec<&'static str> {
    match super::probe_io_uring() {
        Ok(_) => vec!["io_uring", "system-calls"],
        Err(_) => vec!["system-calls"],
    }
}

#[test]
fn reads_writes_and_flushes_on_both_back_ends() {
    for back_end in back_ends() {
        let folder = Scratch::new(&format!("mixed-{back_end}"));
        let mut disk = disk(
            &folder.path("f"),
            &[
                ("back_end", back_end),
                ("read_percent", "50%"),
                ("fsync_every", "10"),
                ("block_size", "4KiB,16KiB"),
            ],
        );
        assert!(disk.check().is_empty(), "{}", disk.check());
        assert!(!folder.path("f").exists(), "a check touches nothing");
        disk.prepare(1, &mut |_| true).unwrap();
        let (results, remarks) = drive(disk.as_ref(), 0, 1000, 1);
        assert_eq!((results.len(), failed(&results), remarks.len()), (1000, 0, 0));
        let operations = disk.operations();
        assert_eq!(operations, ["read", "write", "fsync"]);
        let count = |kind: usize| results.iter().filter(|done| usize::from(done.kind) == kind).count();
        assert_eq!(count(2), count(1) / 10);
        assert!(count(0) > 400 && count(1) > 400);
        for done in &results {
            assert!(done.bytes == if done.kind == 2 { 0 } else { done.bytes & (4096 | 16384) }, "{done:?}");
        }
        let facts = disk.facts();
        assert_eq!(facts["file.bytes"], Level::Bytes(1 << 20));
        if let Some(holes) = facts.get("extents.hole_bytes") {
            assert_eq!(holes, &Level::Bytes(0));
        }
        if facts["back_end"] == Level::Text("io_uring".into()) {
            assert!(facts["io_uring.flags"].to_string().contains("registered_files"), "{facts:?}");
        }
        if back_end == "system-calls" {
            assert_eq!(facts["back_end"], Level::Text(back_end.into()));
            assert!(facts.contains_key("back_end.reason"));
        }
        disk.clean_up().unwrap();
        assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0, "nothing is left behind");
    }
}

/// The flags with which this process has a file open, of all its descriptors: those of fdinfo, see proc_pid_fdinfo(5).
fn open_flags(file: &Path) -> Vec<i32> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let of_file = descriptors.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == file));
    let flags = of_file.filter_map(|entry| {
        let text = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(entry.file_name())).ok()?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        i32::from_str_radix(flags.trim(), 8).ok()
    });
    flags.collect()
}

#[test]
fn only_writes_with_metadata_are_o_sync() {
    for back_end in back_ends() {
        for (setting, expected) in
            [("write_through", libc::O_DSYNC), ("write_through_metadata", libc::O_SYNC), ("keep", 0)]
        {
            let folder = Scratch::new(&format!("{setting}-{back_end}"));
            let file = folder.path("f");
            let pairs = [(setting, "true"), ("back_end", back_end), ("read_percent", "50%")];
            let mut disk = disk(&file, &pairs);
            disk.prepare(1, &mut |_| true).unwrap();
            let found = open_flags(&file).into_iter().map(|flags| flags & libc::O_SYNC).max();
            assert_eq!(found, Some(expected), "{setting}, {back_end}");
            disk.clean_up().unwrap();
        }
    }
}

#[test]
fn direct_io_where_the_file_system_has_it() {
    let folder = Scratch::new("direct");
    let mut disk = disk(&folder.path("f"), &[("cache", "direct"), ("read_percent", "30%")]);
    if testkit::lacks(testkit::Need::DirectIo(&std::env::temp_dir())) {
        return;
    }
    assert!(disk.check().is_empty(), "{}", disk.check());
    disk.prepare(1, &mut |_| true).unwrap();
    let (results, _) = drive(disk.as_ref(), 0, 300, 1);
    assert_eq!(failed(&results), 0);
    let facts = disk.facts();
    for name in ["first_touch.mean_ms", "second_touch.mean_ms", "devices", "direct.supported"] {
        assert!(facts.contains_key(name), "{name}");
    }
    disk.clean_up().unwrap();
}

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let content = |back_end: &str, seed: u64| {
        let folder = Scratch::new(&format!("same-{back_end}-{seed}"));
        let mut disk = disk(
            &folder.path("f"),
            &[("read_percent", "0%"), ("back_end", back_end), ("access", "sequential")],
        );
        disk.prepare(seed, &mut |_| true).unwrap();
        drive(disk.as_ref(), 0, 64, seed);
        std::fs::read(folder.path("f")).unwrap()
    };
    let back_end = back_ends()[0];
    assert_eq!(content(back_end, 5), content("system-calls", 5));
    assert_ne!(content(back_end, 5), content(back_end, 6));
}

#[test]
fn a_flush_leaves_no_gap_in_a_sequential_stream() {
    let folder = Scratch::new("log");
    let mut disk = disk(
        &folder.path("f"),
        &[
            ("read_percent", "0%"),
            ("access", "sequential"),
            ("fsync_every", "1"),
            ("back_end", "system-calls"),
        ],
    );
    disk.prepare(1, &mut |_| true).unwrap();
    let before = std::fs::read(folder.path("f")).unwrap();
    drive(disk.as_ref(), 0, 8, 1);
    let after = std::fs::read(folder.path("f")).unwrap();
    let changed: Vec<bool> = before.chunks(4096).zip(after.chunks(4096)).map(|(a, b)| a != b).collect();
    assert_eq!(changed[..6], [true, true, true, true, false, false]);
}

#[test]
fn verify_finds_damaged_torn_and_lost_blocks_and_nothing_else() {
    for back_end in back_ends() {
        let folder = Scratch::new(&format!("verify-{back_end}"));
        let path = folder.path("f");
        let settings = [("verify", "on"), ("read_percent", "50%"), ("back_end", back_end), ("keep", "on")];
        let mut first = disk(&path, &settings);
        first.prepare(1, &mut |_| true).unwrap();
        let older = std::fs::read(&path).unwrap();
        let (results, remarks) = drive(first.as_ref(), 0, 3000, 1);
        assert_eq!((failed(&results), remarks), (0, vec![]), "sound blocks raise no alarm");
        let newer = std::fs::read(&path).unwrap();
        drop(first);

        // Damage one byte of block 3; tear block 5 of the write and what it replaced; put block 9 where 8 belongs.
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[!newer[3 * 4096 + 77]], 3 * 4096 + 77).unwrap();
        assert_ne!(older[5 * 4096..6 * 4096], newer[5 * 4096..6 * 4096]);
        file.write_all_at(&older[5 * 4096 + 2048..6 * 4096], 5 * 4096 + 2048).unwrap();
        file.write_all_at(&newer[9 * 4096..10 * 4096], 8 * 4096).unwrap();
        file.write_all_at(&[0; 4096], 12 * 4096).unwrap();

        let settings = [("verify", "on"), ("access", "sequential"), ("back_end", back_end)];
        let mut second = disk(&path, &settings);
        assert!(second.check().is_empty(), "{}", second.check());
        second.prepare(2, &mut |_| true).unwrap();
        let (results, mut remarks) = drive(second.as_ref(), 0, 256, 2);
        assert_eq!(failed(&results), 4, "{remarks:?}");
        remarks.sort_by_key(|remark| {
            remark.split(' ').nth(3).and_then(|at| at.trim_end_matches(':').parse::<u64>().ok())
        });
        for (remark, (offset, word)) in remarks.iter().zip([
            (3 * 4096, "damaged or torn"),
            (5 * 4096, "damaged or torn"),
            (8 * 4096, "another place"),
            (12 * 4096, "no Plimsoll header"),
        ]) {
            assert!(remark.contains(&format!("{} at offset {offset}:", path.display())), "{remark}");
            assert!(remark.contains(word), "{remark}");
        }
        // Blocks of another size would have to be written anew, and the damage with them.
        let other = disk(&path, &[("verify", "on"), ("block_size", "8KiB"), ("back_end", back_end)]);
        assert!(other.check().to_string().contains("written again"), "{}", other.check());

        let failure = results.iter().find_map(|done| match done.outcome {
            Outcome::Failed(code) => Some(second.describe_failure(code)),
            Outcome::Well => None,
        });
        assert!(failure.unwrap().contains("block read back"));

        // A write that is undone behind the load's back is a lost write.
        let settings = [("verify", "on"), ("read_percent", "50%"), ("back_end", back_end), ("size", "64KiB")];
        let mut third = disk(&folder.path("g"), &settings);
        third.prepare(3, &mut |_| true).unwrap();
        let older = std::fs::read(folder.path("g")).unwrap();
        drive(third.as_ref(), 0, 500, 3);
        std::fs::write(folder.path("g"), older).unwrap();
        let (results, remarks) = drive(third.as_ref(), 500, 100, 3);
        assert!(failed(&results) > 10, "{}", failed(&results));
        assert!(remarks[0].contains("a lost write"), "{}", remarks[0]);
    }
}

#[test]
fn several_threads_verify_the_same_small_file_without_false_alarm() {
    let folder = Scratch::new("threads");
    let mut disk = disk(
        &folder.path("f"),
        &[("verify", "on"), ("read_percent", "50%"), ("size", "256KiB"), ("block_size", "4KiB,12KiB")],
    );
    disk.prepare(1, &mut |_| true).unwrap();
    let disk = disk.as_ref();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|index| scope.spawn(move || drive(disk, index * 10_000, 2000, 1))).collect();
        for thread in threads {
            let (results, remarks) = thread.join().unwrap();
            assert_eq!((failed(&results), remarks), (0, vec![]));
        }
    });
}

#[test]
fn a_file_made_by_plimsoll_is_used_again_and_grown_and_others_are_left_alone() {
    let folder = Scratch::new("reuse");
    let path = folder.path("f");
    let write = [("read_percent", "0%")];
    let mut first = disk(&path, &write);
    first.prepare(1, &mut |_| true).unwrap();
    let content = std::fs::read(&path).unwrap();
    drop(first);
    // A later trial: nothing is written anew, and a larger one only adds.
    let mut second = disk(&path, &[("size", "2MiB"), ("read_percent", "0%")]);
    assert!(second.check().is_empty(), "{}", second.check());
    second.prepare(2, &mut |_| true).unwrap();
    let grown = std::fs::read(&path).unwrap();
    assert_eq!((grown.len(), &grown[..1 << 20]), (2 << 20, &content[..]));
    // It was made without `keep`, if by another trial.
    second.clean_up().unwrap();
    assert!(!path.exists());

    let mut kept = disk(&path, &[("keep", "on")]);
    kept.prepare(1, &mut |_| true).unwrap();
    kept.clean_up().unwrap();
    let mut again = disk(&path, &write);
    again.prepare(1, &mut |_| true).unwrap();
    again.clean_up().unwrap();
    assert!(path.exists(), "made to be kept, so it stays");

    // Someone else's file.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let mut refused = disk(&path, &write);
    assert!(refused.check().to_string().contains("not created by Plimsoll"), "{}", refused.check());
    assert!(refused.prepare(1, &mut |_| true).is_err());
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
    let mut reading = disk(&path, &[]);
    assert!(reading.check().is_empty());
    reading.prepare(1, &mut |_| true).unwrap();
    drive(reading.as_ref(), 0, 10, 1);
    reading.clean_up().unwrap();
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
    let mut permitted = disk(&path, &[("read_percent", "0%"), ("overwrite", path.to_str().unwrap())]);
    assert!(permitted.check().is_empty());
    permitted.prepare(1, &mut |_| true).unwrap();
    drive(permitted.as_ref(), 0, 10, 1);
    permitted.clean_up().unwrap();
    assert!(path.exists(), "not ours to remove");
}

#[test]
fn every_problem_is_reported_at_once() {
    let folder = Scratch::new("problems");
    std::fs::write(folder.path("short"), [0; 100]).unwrap();
    let names =
        ["missing/f", "short", "", "huge"].map(|name| folder.path(name).to_str().unwrap().to_string());
    let mut asked = settings(&[("size", "1000TiB"), ("cache", "page-cache"), ("read_percent", "50%")]);
    asked.set("files", Level::List(names.into_iter().map(Level::Text).collect()));
    let problems = super::KIND.configure(&asked).unwrap().check();
    let text = problems.to_string();
    for expected in
        ["does not exist", "less than the size", "is a folder, and no storage", "1000.0 TiB are needed"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(problems.0.len(), 4, "{text}");
    assert!(problems.0.iter().all(|problem| !problem.help.is_empty()), "{text}");
}

#[test]
fn stopping_while_a_file_is_made_leaves_one_that_can_be_finished() {
    let folder = Scratch::new("stop");
    let path = folder.path("f");
    // Started but not finished: marked, shorter than wanted.
    disk(&path, &[("size", "8KiB")]).prepare(1, &mut |_| true).unwrap();
    let mut disk = disk(&path, &[]);
    disk.prepare(1, &mut |_| true).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
    disk.clean_up().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_vanished_range_fails_the_trial_and_says_where() {
    for back_end in back_ends() {
        let folder = Scratch::new(&format!("short-{back_end}"));
        let path = folder.path("f");
        let mut disk = disk(&path, &[("access", "sequential"), ("back_end", back_end)]);
        disk.prepare(1, &mut |_| true).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        let mut worker = disk
            .worker(&Share { lane: 0, index: 0, of: 1, in_flight_max: 4, is_open: false, seed: 1 })
            .unwrap();
        let mut done = Vec::new();
        let mut error = None;
        for number in 0..4 {
            worker.submit(Operation::new(number as u32, number));
        }
        for _ in 0..4 {
            error = error.or(worker.reap(Nanos::MAX, &mut done).err());
        }
        let error = error.unwrap();
        assert!(error.what.contains("at offset 8192") || error.what.contains("at offset 12288"), "{error}");
        assert!(error.what.contains(path.to_str().unwrap()) && !error.help.is_empty(), "{error}");
    }
}

#[test]
fn reap_returns_when_the_time_is_up() {
    let folder = Scratch::new("until");
    let mut disk = disk(&folder.path("f"), &[("back_end", back_ends()[0])]);
    disk.prepare(1, &mut |_| true).unwrap();
    let mut worker =
        disk.worker(&Share { lane: 0, index: 0, of: 1, in_flight_max: 4, is_open: false, seed: 1 }).unwrap();
    let mut done = Vec::new();
    if testkit::lacks(testkit::Need::IoUring) {
        return;
    }
    worker.reap(Nanos::MAX, &mut done).unwrap();
    assert!(done.is_empty(), "nothing in flight, nothing to wait for");
    assert_eq!(worker.submit(Operation::new(99, 0)), Admission::Busy);
    worker.submit(Operation::new(0, 0));
    while done.is_empty() {
        worker.reap(0, &mut done).unwrap();
    }
    assert_eq!(done[0].ticket, 0);
}

#[test]
fn workers_share_the_load() {
    let folder = Scratch::new("shape");
    let pairs = [("threads", "4"), ("outstanding", "8"), ("back_end", "io_uring")];
    let ring = disk(&folder.path("f"), &pairs);
    assert_eq!(ring.default_shape(), Shape::closed(32));
    let calls =
        disk(&folder.path("f"), &[("threads", "4"), ("outstanding", "8"), ("back_end", "system-calls")]);
    assert_eq!(calls.workers(&calls.default_shape()), 32);
    assert_eq!(calls.workers(&Shape::closed(1000)), 256);
    assert_eq!(calls.workers(&Shape::closed(3)), 3);
    if back_ends().contains(&"io_uring") {
        assert_eq!(ring.workers(&ring.default_shape()), 4);
        assert_eq!(ring.workers(&Shape::closed(2)), 2);
    }
}
