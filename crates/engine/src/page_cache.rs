//! The page cache of the operating system: reads its state and drops it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

/// Writing to this file drops the page cache.
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Bytes of a file range in the page cache (cachestat, Linux 6.5); none if the kernel does not support it.
pub fn resident_bytes(file: &File, from: u64, length: u64) -> Option<u64> {
    Some(cached_pages(file, from, length)?[0] * rustix::param::page_size() as u64)
}

/// Bytes of a file in the page cache that its device does not have yet: dirty, or being written. None if the
/// kernel does not support it.
pub fn unwritten_bytes(file: &File) -> Option<u64> {
    // Length 0 means to the end.
    let [_, dirty, writeback, ..] = cached_pages(file, 0, 0)?;
    Some((dirty + writeback) * rustix::param::page_size() as u64)
}

/// `nr_cache`, `nr_dirty`, `nr_writeback`, `nr_evicted`, `nr_recently_evicted` of `struct cachestat`.
fn cached_pages(file: &File, from: u64, length: u64) -> Option<[u64; 5]> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [from, length];
    let mut counts = [0_u64; 5];
    // SAFETY: both pointers are to live arrays laid out as `struct cachestat_range` and `struct cachestat`.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    (result == 0).then_some(counts)
}

/// Drops the page cache of all files, and the kernel's caches of names and inodes. Dirty pages cannot be
/// dropped, so they are written first.
///
/// # Errors
/// When the permission to write to [`DROP_CACHES`] is missing, which root has.
pub fn drop_all() -> io::Result<()> {
    rustix::fs::sync();
    fs::write(DROP_CACHES, "3\n")
}
