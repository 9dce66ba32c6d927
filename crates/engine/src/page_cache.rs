//! The operating system's cache of files: what is in it, and dropping it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

/// Writing to it drops the page cache.
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Bytes of a range of a file that are in the page cache (cachestat, Linux 6.5); none where the kernel cannot tell.
pub fn resident_bytes(file: &File, from: u64, length: u64) -> Option<u64> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [from, length];
    // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted.
    let mut counts = [0_u64; 5];
    // SAFETY: both pointers are to live arrays laid out as `struct cachestat_range` and `struct cachestat`.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    (result == 0).then(|| counts[0] * rustix::param::page_size() as u64)
}

/// Drops what is cached of every file, and the kernel's caches of names with it. What is not yet on the device cannot be
/// dropped, so it is written first.
///
/// # Errors
/// Without the right to write to [`DROP_CACHES`], which root has.
pub fn drop_all() -> io::Result<()> {
    rustix::fs::sync();
    fs::write(DROP_CACHES, "3\n")
}
