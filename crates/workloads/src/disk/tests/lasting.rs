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
