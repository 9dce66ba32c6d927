//! Unfinished files that killed processes left.
//!
//! A [`Replacement`](crate::Replacement) has a random name until it is complete, and a process that is killed before
//! leaves it behind, possibly with personal data. So each is entered first in the folder `unfinished` of the state
//! folder: a file with its path, locked while its process works on it. An entry that is not locked is that of a
//! process that is gone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use crate::{Directory, PRIVATE_FILE, PRIVATE_FOLDER, private};

/// The folder of entries in the state folder.
const FOLDER: &str = "unfinished";

/// The file that is locked while entries are made, shared, or looked for, exclusively: an entry is created and locked in
/// two steps.
const LOCK: &str = "lock";

/// The size limit of an entry, which is a path.
const BYTES_MAX: u64 = 64 << 10;

/// How long the entry of a file is kept whose folder does not exist: its file system may be mounted again.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

static STATE: OnceLock<PathBuf> = OnceLock::new();

/// Enters the unfinished files of this process in this state folder, from now on. Without this call, nothing is entered.
pub fn record_in(state: PathBuf) {
    let _ = STATE.set(state);
}

fn open_folder(state: &Path) -> io::Result<Directory> {
    private::open(state)?.make_folder(FOLDER, PRIVATE_FOLDER)
}

fn lock(folder: &Directory, how: FlockOperation) -> io::Result<File> {
    let file = folder.open_append(LOCK, PRIVATE_FILE)?;
    flock(&file, how)?;
    Ok(file)
}

/// The entry of an unfinished file of this process. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Entry {
    folder: Directory,
    name: String,
    /// Locked.
    _file: File,
}

impl Entry {
    /// Enters the file `fresh`, which will be created in `directory`. None without a usable state folder: the file is
    /// written all the same.
    pub(crate) fn begin(directory: &Directory, fresh: &str) -> Option<Entry> {
        Entry::begin_in(STATE.get()?, directory, fresh).ok()
    }

    fn begin_in(state: &Path, directory: &Directory, fresh: &str) -> io::Result<Entry> {
        // The path that it has now, without links and independent of the working directory.
        let link = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
        let path = std::fs::read_link(link).or_else(|_| std::path::absolute(directory.path()))?.join(fresh);
        let folder = open_folder(state)?;
        let _shared = lock(&folder, FlockOperation::LockShared)?;
        let mut file = folder.create_new(fresh, PRIVATE_FILE)?;
        let entry = |file| Entry { folder, name: fresh.into(), _file: file };
        match flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(path.as_os_str().as_bytes()))
        {
            Ok(()) => Ok(entry(file)),
            Err(error) => {
                drop(entry(file));
                Err(error)
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = self.folder.remove(&self.name);
    }
}

/// An unfinished file that a killed process left.
#[derive(Debug)]
pub struct Unfinished {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Why it could not be removed.
    pub outcome: io::Result<()>,
}

/// Removes the unfinished files of killed processes that are entered in the state folder of this process, or with
/// `dry_run` only finds them. Those of running processes stay. A file that is not in its place is looked for in the
/// folder `moved`, which may be one of its folders under another name.
pub fn remove_left(dry_run: bool, moved: Option<&Path>) -> Vec<Unfinished> {
    STATE.get().map(|state| remove_left_in(state, dry_run, moved)).unwrap_or_default()
}

fn remove_left_in(state: &Path, dry_run: bool, moved: Option<&Path>) -> Vec<Unfinished> {
    let (Ok(folder), true) = (open_folder(state), state.join(FOLDER).join(LOCK).exists()) else {
        return Vec::new();
    };
    let entries = left(&folder).unwrap_or_default();
    let mut found = Vec::new();
    for (name, file) in entries {
        let bytes = folder.read(&name, BYTES_MAX).unwrap_or_default();
        let path = PathBuf::from(OsString::from_vec(bytes));
        let unfinished = match remove(path.clone(), dry_run) {
            Ok(None) | Err(_) if let Some(found) = moved.and_then(|folder| find_moved(folder, &path)) => {
                remove(found, dry_run)
            }
            unfinished => unfinished,
        };
        let is_over = match &unfinished {
            Ok(Some(unfinished)) => !dry_run && unfinished.outcome.is_ok(),
            Ok(None) => true,
            Err(_) => is_old(&file),
        };
        if is_over {
            let _ = folder.remove(&name);
        }
        found.extend(unfinished.ok().flatten());
    }
    found
}

/// A file below a folder that was moved: with the end of its earlier path.
fn find_moved(folder: &Path, path: &Path) -> Option<PathBuf> {
    let folder = std::fs::canonicalize(folder).ok()?;
    let mut parts = path.components();
    // The first is the root.
    while parts.next().is_some() {
        let here = folder.join(parts.as_path());
        if parts.as_path().file_name().is_some() && std::fs::symlink_metadata(&here).is_ok() {
            return Some(here);
        }
    }
    None
}

/// The entries of processes that are gone, locked: no other process removes the same files.
fn left(folder: &Directory) -> io::Result<Vec<(OsString, File)>> {
    let _exclusive = lock(folder, FlockOperation::LockExclusive)?;
    let mut entries = Vec::new();
    for name in folder.names()? {
        if name != LOCK
            && let Ok(file) = folder.open_file_to_write(&name)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            entries.push((name, file));
        }
    }
    Ok(entries)
}

/// Removes a file. None if there is none.
///
/// # Errors
/// When its folder cannot be opened.
fn remove(path: PathBuf, dry_run: bool) -> io::Result<Option<Unfinished>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let (directory, name) = Directory::of_file(&path)?;
    let file = match directory.open_file(&name) {
        Ok(file) => file,
        // Its process completed or removed it, but not its entry.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Ok(Some(Unfinished { path, bytes: 0, outcome: Err(error) })),
    };
    let bytes = file.metadata()?.len();
    let outcome = if dry_run { Ok(()) } else { directory.remove(&name) };
    Ok(Some(Unfinished { path, bytes, outcome }))
}

fn is_old(file: &File) -> bool {
    let changed = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
    age.is_some_and(|age| age >= KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    #[test]
    fn a_file_of_a_process_that_is_gone_is_removed_and_no_other() {
        let scratch = Scratch::new();
        let state = scratch.join("state");
        let fresh = |name: &str| {
            let path = scratch.file(&format!("{name}/.plimsoll-{name}.new"), "personal");
            let directory = Directory::open(path.parent().unwrap()).unwrap();
            let entry = Entry::begin_in(&state, &directory, &format!(".plimsoll-{name}.new")).unwrap();
            (std::fs::canonicalize(&path).unwrap(), entry)
        };
        let (completed, entry) = fresh("completed");
        drop(entry);
        let (running, running_entry) = fresh("running");
        // A kill closes the file of the entry and leaves it.
        let killed = |name: &str| {
            let (path, entry) = fresh(name);
            let copy = std::fs::read(state.join(FOLDER).join(&entry.name)).unwrap();
            let place = state.join(FOLDER).join(&entry.name);
            drop(entry);
            std::fs::write(place, copy).unwrap();
            path
        };
        let (left, gone, hidden) = (killed("left"), killed("gone"), killed("hidden"));
        std::fs::remove_file(&gone).unwrap();
        std::fs::rename(scratch.join("hidden"), scratch.join("unmounted")).unwrap();
        let removed = |dry_run| {
            let all = remove_left_in(&state, dry_run, None);
            all.into_iter().map(|found| (found.path, found.bytes, found.outcome.is_ok())).collect::<Vec<_>>()
        };
        assert_eq!(removed(true), [(left.clone(), 8, true)]);
        assert!(left.exists());
        assert_eq!(removed(false), [(left.clone(), 8, true)]);
        assert!(!left.exists() && running.exists() && completed.exists());
        assert_eq!(removed(false), []);
        let elsewhere = remove_left_in(&state, true, Some(&scratch.join("unmounted")));
        let unmounted = std::fs::canonicalize(scratch.join("unmounted")).unwrap();
        assert_eq!(elsewhere[0].path, unmounted.join(".plimsoll-hidden.new"));
        // Its folder is there again.
        std::fs::rename(scratch.join("unmounted"), scratch.join("hidden")).unwrap();
        assert_eq!(removed(false), [(hidden, 8, true)]);
        drop(running_entry);
        assert_eq!(std::fs::read_dir(state.join(FOLDER)).unwrap().count(), 1, "only the lock");
    }
}
