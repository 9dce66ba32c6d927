//! What went wrong with a system call, in words, and what to do.

use std::io;
use std::path::Path;

use engine::workload::LoadError;

/// An error of `doing` something to `path`.
pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> LoadError {
    LoadError::new(format!("could not {doing} `{}`: {}", path.display(), words(error)), advice(error))
}

/// An error of one operation, with its place.
pub(super) fn transfer_failed(
    write: bool,
    path: &Path,
    offset: u64,
    bytes: u32,
    error: &io::Error,
) -> LoadError {
    let verb = if write { "writing" } else { "reading" };
    LoadError::new(
        format!("{verb} {bytes} bytes at offset {offset} of `{}` failed: {}", path.display(), words(error)),
        advice(error),
    )
}

/// An operation that moved fewer bytes than asked.
pub(super) fn transfer_short(write: bool, path: &Path, offset: u64, bytes: u32, moved: u32) -> LoadError {
    let verb = if write { "writing" } else { "reading" };
    LoadError::new(
        format!("{verb} {bytes} bytes at offset {offset} of `{}` moved only {moved}", path.display()),
        "the file became shorter or its disk full while it was measured: let nothing else write to it",
    )
}

fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => match error.raw_os_error().and_then(name) {
            Some(name) => format!("{words} ({name})"),
            None => text,
        },
        None => text,
    }
}

fn name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::ENOSPC => "ENOSPC",
        libc::EDQUOT => "EDQUOT",
        libc::EIO => "EIO",
        libc::EROFS => "EROFS",
        libc::EINVAL => "EINVAL",
        libc::ENOENT => "ENOENT",
        libc::EACCES => "EACCES",
        libc::EPERM => "EPERM",
        libc::EBUSY => "EBUSY",
        libc::EFBIG => "EFBIG",
        libc::ENXIO => "ENXIO",
        libc::ENODEV => "ENODEV",
        libc::ENOMEM => "ENOMEM",
        libc::EMFILE => "EMFILE",
        libc::ESTALE => "ESTALE",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        _ => return None,
    })
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOSPC => "free space, make `size` smaller, or take a file on another disk",
        libc::EDQUOT => "the disk quota is used up: raise it or make `size` smaller",
        libc::EIO => {
            "the device reported an error: look at the kernel log (dmesg) and at the device's health"
        }
        libc::EROFS => "the file system is read-only: remount it, or take another one",
        libc::EINVAL => {
            "direct I/O needs sizes and offsets that are multiples of the device's sector: use larger blocks, or go through the page cache"
        }
        libc::ENOENT => "something removed it meanwhile: let nothing else touch it",
        libc::EACCES | libc::EPERM => "run as a user who may read and write it",
        libc::EBUSY => "something else uses it: unmount it, or stop what holds it",
        libc::EFBIG => "the file system cannot hold a file that large: make `size` smaller",
        libc::ENXIO | libc::ENODEV | libc::ESTALE => {
            "the device is gone: is it still attached and reachable?"
        }
        libc::ENOMEM => "use fewer threads, fewer outstanding operations or smaller blocks",
        libc::EMFILE => "raise the limit of open files (ulimit -n)",
        libc::ETIMEDOUT => "the device stopped answering: look at the kernel log (dmesg)",
        libc::EOPNOTSUPP => "the file system cannot do this: take another one, or go through the page cache",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = transfer_failed(
            true,
            Path::new("/data/f"),
            8192,
            4096,
            &io::Error::from_raw_os_error(libc::ENOSPC),
        );
        assert_eq!(
            error.to_string(),
            "writing 4096 bytes at offset 8192 of `/data/f` failed: No space left on device (ENOSPC)\n  \
             free space, make `size` smaller, or take a file on another disk"
        );
        for errno in [libc::EIO, libc::EROFS, libc::EINVAL, libc::ENOENT] {
            let error = failed("open", Path::new("f"), &io::Error::from_raw_os_error(errno));
            assert!(!error.help.is_empty() && !error.what.contains("os error"), "{error}");
        }
    }
}
