//! Finds the journals of unfinished runs: all of this user, or those of one run directory.

use std::ffi::OsStr;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use files::{Directory, Identity};
use rustix::fs::FlockOperation;

use super::bond::Bond;
use super::{
    BYTES_MAX, ENDING, Header, Journal, JournalState, Open, Parsed, State, host, open_folder, parse,
    state_folder,
};
use crate::RecordError;

/// How long a journal may be locked by a process that is ending, or by another one that only looks at it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a process that seems to run is waited for: one that was killed a moment ago may not show it yet.
const ENDING_MOMENT: Duration = Duration::from_millis(100);

/// How long a journal without pending entries is kept when its run directory is not in its place. It may have
/// been moved, and can then still be resumed.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a journal was found for a run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Both have the same identity. In a journal before version 1.4: the same inode, which a file system may
    /// have given to another directory before.
    ByIdentity,
    /// The run began at this path. Its directory is gone, was moved, or was replaced by another one.
    ByPath,
}

/// A journal of a run directory.
#[derive(Debug)]
pub struct FoundJournal {
    /// The journal.
    pub journal: JournalState,
    /// How it was found.
    pub bound: Bound,
}

/// Where the journal of a run directory is, if this user does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// The directory belongs to the user with this number.
    User(u32),
    /// The run is one of this host.
    Host(String),
    /// It is in this state folder.
    State(PathBuf),
    /// The directory does not exist.
    NoDirectory,
    /// There is none: it could not be written, or was removed.
    NoJournal,
}

/// Where the journal of a run directory may be, if [`Journal::of`] did not find it. None if the run is
/// complete, or the directory is none of a run.
pub fn elsewhere(run: &Path) -> Option<Elsewhere> {
    let metadata = match std::fs::metadata(run) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Elsewhere::NoDirectory),
        Err(_) => return None,
    };
    let user = metadata.uid();
    let bond = Directory::open(run).map(|directory| Bond::read(&directory));
    match bond {
        Ok(Some(bond)) if bond.host != host() => Some(Elsewhere::Host(bond.host)),
        // What this user cannot read may be a run.
        Ok(Some(_)) | Err(_) if user != rustix::process::geteuid().as_raw() => Some(Elsewhere::User(user)),
        Ok(Some(bond)) if bond.state.as_os_str().is_empty() => Some(Elsewhere::NoJournal),
        Ok(Some(bond)) if state_folder().is_ok_and(|here| resolved(&here) != resolved(&bond.state)) => {
            Some(Elsewhere::State(bond.state))
        }
        Ok(Some(_)) => Some(Elsewhere::NoJournal),
        _ => None,
    }
}

/// A run directory as a user names it.
pub(super) struct Wanted {
    path: PathBuf,
    /// Its inode and its identity, if it exists and is readable.
    directory: Option<(Identity, Option<String>)>,
}

impl Wanted {
    pub(super) fn new(run: &Path) -> Wanted {
        let read = |run: &Directory| Some((run.identity().ok()?, Bond::read(run).map(|bond| bond.identity)));
        Wanted { path: resolved(run), directory: Directory::open(run).ok().as_ref().and_then(read) }
    }

    pub(super) fn bound(&self, header: &Header) -> Option<Bound> {
        let is_it = self.directory.as_ref().is_some_and(|(inode, identity)| match &header.identity {
            Some(_) => *identity == header.identity,
            None => identity.is_none() && *inode == header.execution.directory(),
        });
        match is_it {
            true => Some(Bound::ByIdentity),
            false => (resolved(&header.execution.run) == self.path).then_some(Bound::ByPath),
        }
    }
}

/// An absolute path without links as far as its directories exist: the last ones may be gone.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(ancestor), path.strip_prefix(ancestor)) {
            // An empty rest would add a separator.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}

impl Journal {
    /// All journals of this user, the one changed last first: its changes may be on top of others.
    ///
    /// # Errors
    /// Why the folder cannot be read.
    pub fn all() -> Result<Vec<JournalState>, String> {
        Ok(find(|_| Some(Bound::ByPath), PATIENCE)?.into_iter().map(|found| found.journal).collect())
    }

    /// The journals of this user that no process uses now, the one changed last first.
    ///
    /// # Errors
    /// As [`Journal::all`].
    pub fn left() -> Result<Vec<Journal>, String> {
        let left = |found: FoundJournal| match found.journal {
            JournalState::Left(journal) => Some(journal),
            _ => None,
        };
        Ok(find(|_| Some(Bound::ByPath), Duration::ZERO)?.into_iter().filter_map(left).collect())
    }

    /// The journals of a run directory: that of the run in it, and those of runs that began at its path and whose
    /// directories are not there any more. Unreadable journals are included if there is no other one, because
    /// they may be of this run. No other journal is locked.
    ///
    /// # Errors
    /// As [`Journal::all`].
    pub fn of(run: &Path) -> Result<Vec<FoundJournal>, String> {
        let wanted = Wanted::new(run);
        let mut found = find(|header| wanted.bound(header), PATIENCE)?;
        let is_damaged = |found: &FoundJournal| matches!(found.journal, JournalState::Damaged(_));
        if !found.iter().all(is_damaged) {
            found.retain(|found| found.bound == Bound::ByIdentity || !is_damaged(found));
        }
        Ok(found)
    }

    /// Opens and locks a journal. Waits a moment for a process that is ending, or that only looks at it.
    pub(super) fn reopen(
        folder: Directory,
        name: &OsStr,
        patience: Duration,
    ) -> Result<JournalState, RecordError> {
        let path = folder.path().join(name);
        let begin = Instant::now();
        loop {
            let mut file = folder.open_file_to_write(name).map_err(RecordError::io("open", &path))?;
            let locked = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => true,
                Err(rustix::io::Errno::WOULDBLOCK) => false,
                Err(error) => return Err(RecordError::io("lock", &path)(error.into())),
            };
            // Removed by its run between the two steps.
            if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
                return Err(RecordError::io("open", &path)(ErrorKind::NotFound.into()));
            }
            let bytes = folder.read(name, BYTES_MAX).map_err(RecordError::io("read", &path))?;
            let Parsed { header, entries, last_id } = parse::<serde::de::IgnoredAny>(&path, &bytes)?;
            if !locked {
                let is_running = header.host == host() && header.execution.is_alive();
                if is_running && begin.elapsed() >= patience.min(ENDING_MOMENT) {
                    return Ok(JournalState::Running(header.execution.run, header.execution.process));
                }
                if !is_running && begin.elapsed() >= patience {
                    return Ok(JournalState::Held(header.execution.run));
                }
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            let lines = entries.into_iter().map(|line| (line.id, line.at, line.bytes)).collect();
            let end = file.seek(SeekFrom::End(0)).map_err(RecordError::io("read", &path))?;
            let next_id = last_id.saturating_add(1);
            let name = name.to_os_string();
            let mut open = Open { folder, name, file, header, directory: None, next_id, lines, end };
            // A line that was truncated by a kill must not affect the next one.
            if bytes.last() != Some(&b'\n') {
                open.append(b"\n")?;
            }
            return Ok(JournalState::Left(Journal(State::Open(Box::new(open)))));
        }
    }
}

/// The journals that `select` selects by their headers, the one changed last first. Unreadable ones are included.
fn find(select: impl Fn(&Header) -> Option<Bound>, patience: Duration) -> Result<Vec<FoundJournal>, String> {
    let folder = open_folder()?;
    let path = folder.path().to_path_buf();
    let described = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut found = Vec::new();
    for name in folder.names().map_err(described)? {
        if !name.to_string_lossy().ends_with(ENDING) {
            continue;
        }
        let header = header_of(&folder, &name);
        let bound = match &header {
            Ok(header) => select(header),
            // Its run ended a moment ago.
            Err(RecordError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(Bound::ByPath),
        };
        let Some(bound) = bound else { continue };
        // Before it is opened, which may add to it.
        let metadata = folder.open_file(&name).and_then(|file| file.metadata());
        let changed = metadata.and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        // A descriptor for each journal, because they outlive this loop.
        let journal = match Journal::reopen(open_folder()?, &name, patience) {
            Ok(journal) => journal,
            Err(RecordError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
            Err(error) => JournalState::Damaged(error.to_string()),
        };
        found.push((changed, FoundJournal { journal, bound }));
    }
    found.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

/// The header of a journal, with the last process that executed the run. Nothing is locked.
fn header_of(folder: &Directory, name: &OsStr) -> Result<Header, RecordError> {
    let path = folder.path().join(name);
    let bytes = folder.read(name, BYTES_MAX).map_err(RecordError::io("read", &path))?;
    match parse::<serde::de::IgnoredAny>(&path, &bytes) {
        Ok(parsed) => Ok(parsed.header),
        // A line of a later version does not hide whose journal it is.
        Err(error) => {
            let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
            parse::<serde::de::IgnoredAny>(&path, first).map(|parsed| parsed.header).map_err(|_| error)
        }
    }
}

/// Removes obsolete journals: those without pending entries whose run directory is not in its place for long.
pub(super) fn remove_forsaken(folder: &Directory) {
    for name in folder.names().unwrap_or_default() {
        let is_gone = |header: &Header| {
            let there = Wanted::new(&header.execution.run);
            there.bound(header) != Some(Bound::ByIdentity)
        };
        let is_old = |open: &Open| {
            let changed = open.file.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
            age.is_some_and(|age| age >= KEPT)
        };
        let again = || Directory::open(folder.path()).map_err(RecordError::io("open", folder.path()));
        if name.to_string_lossy().ends_with(ENDING)
            && header_of(folder, &name).is_ok_and(|header| is_gone(&header))
            && let Ok(Ok(JournalState::Left(journal))) =
                again().map(|folder| Journal::reopen(folder, &name, Duration::ZERO))
            && let State::Open(open) = &journal.0
            && open.lines.is_empty()
            && is_old(open)
        {
            let _ = folder.remove(&name);
        }
    }
}
