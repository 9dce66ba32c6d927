//! Files and folders in places that other users may write to.
//!
//! Plimsoll often runs as root next to folders that another local user, or the sender of a run directory,
//! controls. Every write to such a place uses this crate, which
//!
//! - works below a directory descriptor, so that a folder cannot be exchanged between two steps;
//! - creates files with `O_EXCL | O_NOFOLLOW` under unpredictable names, so that no link is followed;
//! - replaces a file by a rename, so that a reader, or a kill at any moment, finds the old content or the new one;
//! - reads regular files only, without blocking on a FIFO, and no more bytes than the caller allows;
//! - removes only what this process created, known by device and inode.
//!
//! [`Output`] is the file that a user named to write to. [`secret`] reads files that hold passwords,
//! [`private`] makes folders that nobody else may enter, and [`unfinished`] removes what killed processes left.
#![forbid(unsafe_code)]

mod directory;
mod named;
mod output;
pub mod private;
pub mod secret;
pub mod unfinished;

pub use directory::{
    Directory, Replacement, create_new, open_regular, read, read_named_text, read_text, replace,
};
pub use named::{Named, locate, locate_exactly, reopen};
pub use output::{Output, SHARED_FILE, settle};

/// Mode of a file with possibly sensitive content: only its owner may read and write it.
pub const PRIVATE_FILE: u32 = 0o600;

/// Mode of a folder with possibly sensitive content.
pub const PRIVATE_FOLDER: u32 = 0o700;

/// Device and inode, which identify a file or folder independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Device number of the file system.
    pub device: u64,
    /// Number of the inode in it.
    pub inode: u64,
}

impl Identity {
    /// The identity of an open file or folder.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn of(file: impl std::os::fd::AsFd) -> std::io::Result<Identity> {
        let status = rustix::fs::fstat(file)?;
        Ok(Identity { device: status.st_dev, inode: status.st_ino })
    }

    /// The identity in file metadata.
    pub fn of_metadata(metadata: &std::fs::Metadata) -> Identity {
        use std::os::unix::fs::MetadataExt;
        Identity { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Sixteen unpredictable hexadecimal digits.
///
/// # Errors
/// When the kernel provides no random bytes.
pub fn random_name() -> std::io::Result<String> {
    let mut bytes = [0_u8; 8];
    fill_random(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Fills a buffer with unpredictable bytes of the kernel.
///
/// # Errors
/// When the kernel provides none.
pub fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}
