//! Files below an open folder: nothing on the way is a link, and the folder is the same whatever has its name.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::allowed::Opener;
use files::Directory;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// A place below a folder.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: Arc<Directory>,
    below: PathBuf,
}

impl Place {
    /// `below` is a path of names, none of them `..`.
    pub(super) fn new(root: &Arc<Directory>, below: &Path) -> Place {
        Place { root: Arc::clone(root), below: below.to_path_buf() }
    }

    /// Where it is; for messages and the journal.
    pub(super) fn path(&self) -> PathBuf {
        self.root.path().join(&self.below)
    }

    /// Does something with the folder that holds it and its name there.
    pub(super) fn act<T>(&self, act: impl FnOnce(&Directory, &OsStr) -> io::Result<T>) -> io::Result<T> {
        let name = self.below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut folder: Option<Directory> = None;
        for part in self.below.parent().into_iter().flat_map(Path::components) {
            folder = Some(folder.as_ref().unwrap_or(&self.root).open_folder(part)?);
        }
        act(folder.as_ref().unwrap_or(&self.root), name)
    }

    /// Makes a folder of this name; false when it was there.
    pub(super) fn make_folder(&self, mode: u32) -> io::Result<bool> {
        self.act(|directory, name| match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => directory.open_folder(name).map(|_| false),
            Err(error) => Err(error.into()),
        })
    }

    /// Opens the regular file of this name for reading.
    pub(super) fn open(&self) -> io::Result<File> {
        self.act(|directory, name| directory.open_file(name))
    }

    /// Makes a file that did not exist, after removing a file or link of its name if that is permitted.
    pub(super) fn make(&self, mode: u32, may_replace: bool) -> io::Result<File> {
        self.act(|directory, name| {
            if may_replace {
                match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(status) => match FileType::from_raw_mode(status.st_mode) {
                        // Removed rather than emptied: it may have other names, and belong to somebody else.
                        FileType::RegularFile | FileType::Symlink => directory.remove(name)?,
                        _ => return Err(not_a_file()),
                    },
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            directory.create_new(name, mode)
        })
    }
}

/// The folder at `path`, as the user named it.
pub(super) fn folder(opener: &Opener, path: &Path) -> io::Result<Directory> {
    // A name that nobody asks for, as the path may end with `.` or be a link.
    Ok(opener.locate(&path.join("any"))?.directory)
}

/// The folder that holds the file that a user named, and the file's name, both without links.
pub(super) fn file(opener: &Opener, path: &Path) -> io::Result<(Directory, PathBuf)> {
    let named = opener.locate(path)?;
    if let Some(found) = named.found {
        let status = rustix::fs::fstat(found)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(not_a_file());
        }
    }
    Ok((named.directory, named.name.into()))
}

fn not_a_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a file; to write a device, use the `disk` workload",
    )
}

/// The same file, past the page cache with `direct`.
pub(super) fn direct(file: File, direct: bool, write: bool) -> io::Result<File> {
    if !direct {
        return Ok(file);
    }
    let mode = if write { OFlags::WRONLY } else { OFlags::RDONLY };
    files::reopen(file, mode | OFlags::DIRECT)
}
