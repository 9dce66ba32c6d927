//! What stays of a trial that is over until the experiment ends.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use engine::workload::Workload;

use super::{Scratch, disk, drive};

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, which counts the bytes that each thread holds.
struct Counting;

fn count(bytes: usize, sign: i64) {
    let _ = HELD.try_with(|held| held.set(held.get() + sign * bytes as i64));
}

// SAFETY: everything is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the pointer came from `alloc` above, and so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Descriptors of this process for the folder and what is in it.
fn descriptors(folder: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter(|link| std::fs::read_link(link.path()).is_ok_and(|file| file.starts_with(folder))).count()
}

#[test]
fn a_trial_that_is_over_holds_no_files_and_no_ledger() {
    let folder = Scratch::new("lasting");
    let path = folder.path("f.bin");
    let mut trials: Vec<Box<dyn Workload>> = Vec::new();
    let mut held = Vec::new();
    for seed in 0..20 {
        // A ledger of 4 bytes for every 512: 64 KiB.
        let pairs = [("size", "8MiB"), ("block_size", "512B"), ("verify", "on"), ("read_percent", "50%")];
        let mut trial = disk(&path, &pairs);
        trial.prepare(seed, &mut |_| true).unwrap();
        drive(trial.as_ref(), 0, 200, seed);
        assert!(descriptors(&folder.0) > 0);
        trial.release();
        trials.push(trial);
        held.push((descriptors(&folder.0), HELD.get()));
    }
    // After the first ones, which fill what a process has once.
    let ((files_before, before), (files, after)) = (held[2], held[19]);
    assert_eq!(files, files_before, "{held:?}");
    // Settings, and what is to become of the file.
    assert!((after - before) / 17 < 8 << 10, "{held:?}");
    for trial in trials.iter_mut().rev() {
        trial.clean_up().unwrap();
    }
    assert!(!path.exists());
    drop(trials);
    assert_eq!(descriptors(&folder.0), 0);
}

/// Bytes of the file in the page cache.
fn cached(path: &std::path::Path) -> u64 {
    let file = std::fs::File::open(path).unwrap();
    engine::page_cache::resident_bytes(&file, 0, 1 << 20).unwrap_or(0)
}

#[test]
fn cached_pages_are_dropped_at_the_start_and_with_each_pass() {
    let folder = testkit::Scratch::inside(std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    if testkit::lacks(testkit::Need::BlockDevice(folder.path())) {
        return;
    }
    let path = folder.file("data.bin", vec![1; 1 << 20]);
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    // A pass has 256 blocks.
    for (pages, operations, is_cached) in [
        ("keep", 1, true),
        ("read", 1, true),
        ("drop", 1, false),
        ("drop", 257, true),
        ("drop-each-pass", 1, false),
        ("drop-each-pass", 256, true),
        ("drop-each-pass", 257, false),
        ("drop-each-pass", 513, false),
    ] {
        if pages == "read" {
            let file = std::fs::File::open(&path).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            assert!(cached(&path) < 1 << 19);
        } else {
            std::fs::read(&path).unwrap();
        }
        let run = {
            let mut run = super::disk(
                &path,
                &[("cached_pages", pages), ("access", "random"), ("distribution", "shuffle")],
            );
            run.prepare(1, &mut |_| true).unwrap();
            run
        };
        assert_eq!(super::failed(&super::drive(run.as_ref(), 0, operations, 1).0), 0);
        assert_eq!(cached(&path) > 1 << 19, is_cached, "{pages}, {operations}: {}", cached(&path));
    }
    let direct = super::settings(&[("files", "f"), ("cached_pages", "read")]);
    let problems = super::super::settings::DiskPlan::read(&direct).map(|_| ()).unwrap_err();
    assert!(problems.to_string().contains("direct I/O does not use pages"), "{problems}");
}
