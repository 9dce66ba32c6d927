//! What went wrong with a file, in words, and what to do.

use std::io;
use std::path::Path;

use engine::workload::LoadError;

/// An error of `doing` something with `path`.
pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> LoadError {
    LoadError::new(format!("{doing} `{}` failed: {error}", path.display()), advice(error))
}

/// Advice for the errors a copy meets.
fn advice(error: &io::Error) -> &'static str {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::StorageFull => "free space at the destination, or copy less with `size`",
        ErrorKind::QuotaExceeded => "the disk quota is used up: raise it, or copy less with `size`",
        ErrorKind::ReadOnlyFilesystem => "the destination's file system is read-only",
        ErrorKind::NotFound => "it was removed while it was copied",
        ErrorKind::PermissionDenied => "run as a user who may read the source and write the destination",
        ErrorKind::AlreadyExists => "`overwrite` replaces it; what it holds is lost",
        ErrorKind::InvalidInput if error.raw_os_error().is_some() => {
            "its file system may not allow direct I/O: go through the page cache"
        }
        ErrorKind::FileTooLarge => "the destination's file system cannot hold a file of this size",
        ErrorKind::StaleNetworkFileHandle => "the file server no longer knows the file",
        _ if error.raw_os_error() == Some(libc::EIO) => {
            "the device reported an error: see the kernel's log (dmesg)"
        }
        _ => "",
    }
}
