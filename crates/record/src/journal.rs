//! Journals of unfinished runs: what was changed on the host and how to undo it, written and synced *before* the change,
//! so that a run killed at any moment can be undone; what a workload made, so that what a kill leaves is known; and the
//! experiment, so that it can be resumed.
//!
//! A run directory is data that may come from anybody, so nothing of it is ever carried out. What is carried out lives in
//! a folder that nobody else may write: `/var/lib/plimsoll` for root, `$XDG_STATE_HOME/plimsoll` or
//! `~/.local/state/plimsoll` for another user, `$PLIMSOLL_STATE_DIR` where that is set. `docs/formats/journal.md`
//! describes the files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use files::{Directory, Identity, PRIVATE_FILE, PRIVATE_FOLDER, private};
use model::Experiment;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::{RecordError, check_format};

/// The format word of a journal.
const FORMAT: &str = "plimsoll.journal/1.1";

/// The environment variable that names another state folder.
pub const STATE_VARIABLE: &str = "PLIMSOLL_STATE_DIR";

/// The folder of journals in the state folder.
const FOLDER: &str = "runs";

/// The ending of a journal's name.
const ENDING: &str = ".jsonl";

/// More than any journal holds.
const BYTES_MAX: u64 = 64 << 20;

/// The first line of a journal: whose it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    /// The host: its machine id, or its name where it has none.
    pub host: String,
    /// The boot of the kernel in which the run began.
    pub boot: String,
    /// The run directory, absolute.
    pub run: PathBuf,
    /// Device number of the run directory.
    device: u64,
    /// Inode of the run directory.
    inode: u64,
    /// The process that carries the run out.
    pub process: u32,
    /// What is carried out; texts that are secret are not in it.
    pub experiment: Experiment,
}

/// One line of a journal: something is about to be changed, and this is how to undo it; or something was made, and nothing
/// was written to it yet. Once that is over the line is overwritten with blanks, so that nothing of it stays.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "U: Deserialize<'de>"))]
struct Line<U> {
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    factor: Option<String>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    undo: Option<U>,
    /// The kind of workload that made `made`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<Made>,
}

/// What a line is about.
#[derive(Debug)]
enum Entry<U> {
    Change { factor: String, undo: U },
    Made { workload: String, made: Made },
}

impl<U> Line<U> {
    fn of(id: u64, entry: Entry<U>) -> Line<U> {
        let none = Line { id, factor: None, undo: None, workload: None, made: None };
        match entry {
            Entry::Change { factor, undo } => Line { factor: Some(factor), undo: Some(undo), ..none },
            Entry::Made { workload, made } => Line { workload: Some(workload), made: Some(made), ..none },
        }
    }

    /// What it is about; none when this version does not know.
    fn entry(self) -> Option<Entry<U>> {
        match (self.factor, self.undo, self.workload, self.made) {
            (Some(factor), Some(undo), None, None) => Some(Entry::Change { factor, undo }),
            (None, None, Some(workload), Some(made)) => Some(Entry::Made { workload, made }),
            _ => None,
        }
    }
}

/// A file or folder that a workload made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Where, absolute and without links.
    pub path: PathBuf,
    /// Device number of the file system.
    pub device: u64,
    /// Number of the inode in it.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970; none where the file system does not say. An inode's number is given to
    /// another file once it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_unix_ns: Option<u64>,
    /// Bytes it is to have; 0 where that is not known.
    pub bytes: u64,
    /// Whether the run is to leave it there at its end.
    pub keep: bool,
}

impl Made {
    /// Of a file or folder that was just made, at a path without links.
    ///
    /// # Errors
    /// When the kernel cannot say which one it is.
    pub fn new(path: &Path, file: impl AsFd, bytes: u64, keep: bool) -> std::io::Result<Made> {
        let metadata = File::from(file.as_fd().try_clone_to_owned()?).metadata()?;
        let identity = Identity::of_metadata(&metadata);
        Ok(Made {
            path: std::path::absolute(path)?,
            device: identity.device,
            inode: identity.inode,
            born_unix_ns: born_unix_ns(&metadata),
            bytes,
            keep,
        })
    }

    /// Whether this is what was made, whatever was written to it since. Where a file system says when a file was made, the
    /// device number does not count: that of Btrfs and NFS changes with each mount.
    pub fn is(&self, metadata: &std::fs::Metadata) -> bool {
        let found = Identity::of_metadata(metadata);
        let is_born_with_it = match self.born_unix_ns {
            Some(born) => born_unix_ns(metadata) == Some(born),
            None => found.device == self.device,
        };
        found.inode == self.inode && is_born_with_it
    }
}

fn born_unix_ns(metadata: &std::fs::Metadata) -> Option<u64> {
    let since = metadata.created().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Something that was announced as made and not yet crossed off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMade {
    /// Its number in the journal.
    pub id: u64,
    /// The kind of workload that made it.
    pub workload: String,
    /// What was made.
    pub made: Made,
}

/// An undo that was announced and not yet carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending<U> {
    /// Its number in the journal.
    pub id: u64,
    /// Which factor changed it.
    pub factor: String,
    /// How to undo it.
    pub undo: U,
}

/// The journal of one run, locked by whoever holds this value.
#[derive(Debug)]
pub struct Journal(State);

#[derive(Debug)]
enum State {
    Open(Box<Open>),
    /// There is no folder for it: nothing may be changed on this host.
    Unavailable(String),
}

#[derive(Debug)]
struct Open {
    folder: Directory,
    name: OsString,
    file: File,
    header: Header,
    next_id: u64,
    /// The lines of what is pending: number, first byte, bytes without the line's end.
    lines: Vec<(u64, u64, usize)>,
    end: u64,
}

/// A journal that another process may hold.
#[derive(Debug)]
pub enum Found {
    /// Nobody holds it: it is locked now.
    Left(Journal),
    /// The run goes on: its directory and its process.
    Running(PathBuf, u32),
    /// It cannot be read, and why.
    Damaged(String),
}

/// The state folder of this user: see the module's text.
///
/// # Errors
/// When the environment names none.
pub fn state_folder() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set(STATE_VARIABLE) {
        return std::path::absolute(&path).map_err(|error| format!("{STATE_VARIABLE}: {error}"));
    }
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/plimsoll".into());
    }
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.filter(|path| path.is_absolute()).map(|path| path.join("plimsoll")).ok_or_else(|| {
        format!("neither HOME nor XDG_STATE_HOME is set: set {STATE_VARIABLE} to a folder of yours")
    })
}

/// Opens the folder of journals, and makes it where it is missing.
fn open_folder() -> Result<Directory, String> {
    let state = state_folder()?;
    let described = |error: std::io::Error| {
        format!("the state folder {}: {error}; {STATE_VARIABLE} names another one", state.display())
    };
    private::open(&state).and_then(|state| state.make_folder(FOLDER, PRIVATE_FOLDER)).map_err(described)
}

/// Sees to it that there is a folder for journals, for a run that is going to change something on this host.
///
/// # Errors
/// Why there is none, and what to do.
pub fn prepare_state_folder() -> Result<(), String> {
    open_folder().map(|_| ())
}

impl Journal {
    /// Begins the journal of a run. Without a private folder for it there is a journal all the same: one that refuses to
    /// announce a change, so that nothing is changed that could not be undone.
    ///
    /// # Errors
    /// When there is a folder and the journal cannot be written there.
    pub fn begin(run: &Path, experiment: &Experiment) -> Result<Journal, RecordError> {
        let folder = match open_folder() {
            Ok(folder) => folder,
            Err(why) => return Ok(Journal(State::Unavailable(why))),
        };
        remove_forsaken(&folder);
        let failed = |action: &'static str| RecordError::io(action, folder.path());
        let run = std::path::absolute(run).map_err(RecordError::io("find", run))?;
        let identity =
            Directory::open(&run).and_then(|run| run.identity()).map_err(RecordError::io("open", &run))?;
        let header = Header {
            format: FORMAT.into(),
            host: host(),
            boot: boot(),
            run,
            device: identity.device,
            inode: identity.inode,
            process: std::process::id(),
            experiment: experiment.clone(),
        };
        let name = OsString::from(format!("{}{ENDING}", files::random_name().map_err(failed("name"))?));
        let mut replacement =
            folder.replacement(&name, PRIVATE_FILE).map_err(failed("create a journal in"))?;
        let text = line_of(&header).map_err(|error| RecordError::malformed(folder.path(), error))?;
        // Locked and complete before it has a name that others look for.
        rustix::fs::flock(replacement.file(), FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed("lock a journal in")(error.into()))?;
        replacement.file().write_all(&text).map_err(failed("write a journal in"))?;
        replacement.file().sync_data().map_err(failed("sync a journal in"))?;
        let file = replacement.finish_open().map_err(failed("create a journal in"))?;
        folder.sync().map_err(failed("sync"))?;
        let end = text.len() as u64;
        Ok(Journal(State::Open(Box::new(Open {
            folder,
            name,
            file,
            header,
            next_id: 1,
            lines: Vec::new(),
            end,
        }))))
    }

    /// Every journal of this user, oldest run directory first.
    ///
    /// # Errors
    /// Why the folder cannot be read.
    pub fn all() -> Result<Vec<Found>, String> {
        let folder = open_folder()?;
        let path = folder.path().to_path_buf();
        let described = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut found = Vec::new();
        for name in folder.names().map_err(described)? {
            if !name.to_string_lossy().ends_with(ENDING) {
                continue;
            }
            // A descriptor for each, as each journal outlives this loop.
            let folder = open_folder()?;
            found.push(match Journal::reopen(folder, &name) {
                Ok(found) => found,
                // Its run ended a moment ago.
                Err(RecordError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                Err(error) => Found::Damaged(error.to_string()),
            });
        }
        found.sort_by(|a, b| a.run().cmp(&b.run()));
        Ok(found)
    }

    /// The journal of one run directory; none when it has none here.
    ///
    /// # Errors
    /// As [`Journal::all`].
    pub fn of(run: &Path) -> Result<Option<Found>, String> {
        let identity = Directory::open(run).and_then(|run| run.identity()).ok();
        let absolute = std::path::absolute(run).unwrap_or_else(|_| run.to_path_buf());
        let is_it = |found: &Found| match found {
            Found::Left(journal) => match (&journal.0, identity) {
                (State::Open(open), Some(identity)) => open.identity() == identity,
                // The directory may be gone while what was changed is still changed.
                (State::Open(open), None) => open.header.run == absolute,
                (State::Unavailable(_), _) => false,
            },
            Found::Running(run, _) => {
                *run == absolute || std::fs::canonicalize(run).ok() == std::fs::canonicalize(&absolute).ok()
            }
            Found::Damaged(_) => false,
        };
        Ok(Journal::all()?.into_iter().find(is_it))
    }

    fn reopen(folder: Directory, name: &std::ffi::OsStr) -> Result<Found, RecordError> {
        let path = folder.path().join(name);
        let mut file = folder.open_file_to_write(name).map_err(RecordError::io("open", &path))?;
        let locked = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(rustix::io::Errno::WOULDBLOCK) => false,
            Err(error) => return Err(RecordError::io("lock", &path)(error.into())),
        };
        let bytes = folder.read(name, BYTES_MAX).map_err(RecordError::io("read", &path))?;
        let (header, lines) = parse::<serde::de::IgnoredAny>(&path, &bytes)?;
        if !locked {
            return Ok(Found::Running(header.run, header.process));
        }
        let next_id = lines.iter().map(|line| line.id).max().unwrap_or(0).saturating_add(1);
        let lines = lines.into_iter().map(|line| (line.id, line.at, line.bytes)).collect();
        let end = file.seek(SeekFrom::End(0)).map_err(RecordError::io("read", &path))?;
        // A line cut short by a kill must not swallow the next one.
        let mut open = Open { folder, name: name.to_os_string(), file, header, next_id, lines, end };
        if bytes.last() != Some(&b'\n') {
            open.append(b"\n")?;
        }
        Ok(Found::Left(Journal(State::Open(Box::new(open)))))
    }

    /// Whose it is; none without a folder for it.
    pub fn header(&self) -> Option<&Header> {
        match &self.0 {
            State::Open(open) => Some(&open.header),
            State::Unavailable(_) => None,
        }
    }

    /// Writes down how to undo a change that is about to be made, and syncs it. The change may be made once this
    /// returned; the number is for [`Journal::cross_off`].
    ///
    /// # Errors
    /// When it cannot be written; the change must not be made then.
    pub fn pending<U: Serialize>(&mut self, factor: &str, undo: &U) -> Result<u64, RecordError> {
        let open = self.open("nothing is changed on this host without a journal of how to undo it")?;
        open.announce(Entry::Change { factor: factor.into(), undo })
    }

    /// Writes down what a workload of this kind made, and syncs it: what was known of an earlier one at the same path is
    /// crossed off. Without a folder for journals nothing is written down, as what is made is no change of the host.
    ///
    /// # Errors
    /// When there is a folder and it cannot be written.
    pub fn announce_made(&mut self, workload: &str, made: &Made) -> Result<(), RecordError> {
        let earlier = self.read_made()?.into_iter().filter(|earlier| earlier.made.path == made.path);
        let State::Open(open) = &mut self.0 else { return Ok(()) };
        for earlier in earlier {
            open.blank(earlier.id)?;
        }
        open.announce::<()>(Entry::Made { workload: workload.into(), made: made.clone() }).map(|_| ())
    }

    /// Writes down that a change was undone, or that what was made is gone or the user's: what the journal knew of it is
    /// overwritten with blanks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn cross_off(&mut self, id: u64) -> Result<(), RecordError> {
        let open = self.open("it has no entry")?;
        match open.blank(id)? {
            true => open.file.sync_data().map_err(RecordError::io("sync", &open.path())),
            false => Ok(()),
        }
    }

    /// What was announced and not undone, the latest first: the order to undo it in.
    ///
    /// # Errors
    /// When the journal cannot be read, or holds a line that is none of this version's.
    pub fn read_pending<U: for<'de> Deserialize<'de>>(&self) -> Result<Vec<Pending<U>>, RecordError> {
        let State::Open(open) = &self.0 else { return Ok(Vec::new()) };
        let pending = open.read::<U>()?.into_iter().filter_map(Placed::pending);
        Ok(pending.rev().collect())
    }

    /// What was announced as made and not crossed off, in this order.
    ///
    /// # Errors
    /// As [`Journal::read_pending`].
    pub fn read_made(&self) -> Result<Vec<PendingMade>, RecordError> {
        let State::Open(open) = &self.0 else { return Ok(Vec::new()) };
        let made = |line: Placed<serde::de::IgnoredAny>| match line.entry {
            Entry::Made { workload, made } => Some(PendingMade { id: line.id, workload, made }),
            Entry::Change { .. } => None,
        };
        Ok(open.read()?.into_iter().filter_map(made).collect())
    }

    /// Ends it: the run is complete. The file goes, unless something is still to be undone.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn complete(&mut self) -> Result<(), RecordError> {
        match &self.0 {
            State::Open(open) if open.lines.is_empty() => {
                open.folder.remove(&open.name).map_err(RecordError::io("remove", &open.path()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this journal is of this host, and of its present boot.
    pub fn place(&self) -> JournalPlace {
        match &self.0 {
            State::Open(open) if open.header.boot == boot() => JournalPlace::ThisBoot,
            State::Open(open) if open.header.host == host() => JournalPlace::EarlierBoot,
            State::Open(open) => JournalPlace::OtherHost(open.header.host.clone()),
            State::Unavailable(_) => JournalPlace::ThisBoot,
        }
    }

    /// The experiment of an unfinished run, if its directory is the one that was begun here.
    ///
    /// # Errors
    /// Why it is not: another folder has its place, or others may have written into it.
    pub fn experiment(&self, run: &Path) -> Result<Experiment, String> {
        let State::Open(open) = &self.0 else { return Err("it has no journal".into()) };
        let directory = Directory::open(run).map_err(|error| error.to_string())?;
        let status = rustix::fs::fstat(&directory).map_err(|error| error.to_string())?;
        if directory.identity().ok() != Some(open.identity()) {
            return Err("it is not the folder that the run began in".into());
        }
        if status.st_uid != rustix::process::geteuid().as_raw() || status.st_mode & 0o022 != 0 {
            return Err("others may have written into it".into());
        }
        Ok(open.header.experiment.clone())
    }

    fn open(&mut self, why_needed: &str) -> Result<&mut Open, RecordError> {
        match &mut self.0 {
            State::Open(open) => Ok(open),
            State::Unavailable(why) => Err(RecordError::NoJournal { why: format!("{why} ({why_needed})") }),
        }
    }
}

/// Where a journal was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalPlace {
    /// On this host, since it was started.
    ThisBoot,
    /// On this host, before it was started again: its processes and control groups are gone.
    EarlierBoot,
    /// On another host that shares the folder.
    OtherHost(String),
}

impl Found {
    /// The run directory; none when it is not known.
    pub fn run(&self) -> Option<&Path> {
        match self {
            Found::Left(journal) => journal.header().map(|header| header.run.as_path()),
            Found::Running(run, _) => Some(run),
            Found::Damaged(_) => None,
        }
    }
}

impl Open {
    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    fn identity(&self) -> Identity {
        Identity { device: self.header.device, inode: self.header.inode }
    }

    fn read<U: for<'de> Deserialize<'de>>(&self) -> Result<Vec<Placed<U>>, RecordError> {
        let path = self.path();
        let bytes = self.folder.read(&self.name, BYTES_MAX).map_err(RecordError::io("read", &path))?;
        Ok(parse::<U>(&path, &bytes)?.1)
    }

    /// Writes a line, syncs it and returns its number.
    fn announce<U: Serialize>(&mut self, entry: Entry<U>) -> Result<u64, RecordError> {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        let text =
            line_of(&Line::of(id, entry)).map_err(|error| RecordError::malformed(&self.path(), error))?;
        let at = self.end;
        self.append(&text)?;
        self.lines.push((id, at, text.len() - 1));
        Ok(id)
    }

    /// Overwrites a line with blanks, unsynced; false when there is none of this number.
    fn blank(&mut self, id: u64) -> Result<bool, RecordError> {
        let Some(index) = self.lines.iter().position(|line| line.0 == id) else { return Ok(false) };
        let (_, at, bytes) = self.lines.remove(index);
        let written = self.file.write_all_at(&vec![b' '; bytes], at);
        written.map(|()| true).map_err(RecordError::io("write", &self.path()))
    }

    fn append(&mut self, text: &[u8]) -> Result<(), RecordError> {
        let path = self.path();
        self.file.write_all_at(text, self.end).map_err(RecordError::io("write", &path))?;
        self.end += text.len() as u64;
        self.file.sync_data().map_err(RecordError::io("sync", &path))
    }
}

/// Removes the journals that nobody needs any more: nothing is pending, and the run directory is gone.
fn remove_forsaken(folder: &Directory) {
    for name in folder.names().unwrap_or_default() {
        let is_gone = |open: &Open| {
            let there = Directory::open(&open.header.run).and_then(|run| run.identity());
            open.lines.is_empty() && there.ok() != Some(open.identity())
        };
        let again = || Directory::open(folder.path()).map_err(RecordError::io("open", folder.path()));
        if name.to_string_lossy().ends_with(ENDING)
            && let Ok(Ok(Found::Left(journal))) = again().map(|folder| Journal::reopen(folder, &name))
            && let State::Open(open) = &journal.0
            && is_gone(open)
        {
            let _ = folder.remove(&name);
        }
    }
}

/// A line that could be read, and where it stands.
struct Placed<U> {
    id: u64,
    entry: Entry<U>,
    at: u64,
    bytes: usize,
}

impl<U> Placed<U> {
    /// The change that it is about, if it is about one.
    fn pending(self) -> Option<Pending<U>> {
        match self.entry {
            Entry::Change { factor, undo } => Some(Pending { id: self.id, factor, undo }),
            Entry::Made { .. } => None,
        }
    }
}

/// The header and what is pending. A last line without an end announced a change that was not made: the line is synced
/// first. A line that begins with a blank is being overwritten because its change was undone.
fn parse<U: for<'de> Deserialize<'de>>(
    path: &Path,
    bytes: &[u8],
) -> Result<(Header, Vec<Placed<U>>), RecordError> {
    let mut header = None;
    let mut found = Vec::new();
    let mut at = 0_u64;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let begin = at;
        at += line.len() as u64;
        let (line, is_whole) = match line.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (line, false),
        };
        if header.is_none() {
            let value: serde_json::Value =
                serde_json::from_slice(line).map_err(|error| RecordError::malformed(path, error))?;
            check_format(path, value["format"].as_str().unwrap_or_default(), FORMAT)?;
            let read = serde_json::from_value::<Header>(value);
            header = Some(read.map_err(|error| RecordError::malformed(path, error))?);
            continue;
        }
        if line.is_empty() || line.starts_with(b" ") {
            continue;
        }
        let unknown = |why: &dyn std::fmt::Display| {
            Err(RecordError::malformed(path, format!("line {}: {why}", index + 1)))
        };
        match serde_json::from_slice::<Line<U>>(line) {
            Ok(line_read) => {
                let id = line_read.id;
                match line_read.entry() {
                    Some(entry) => found.push(Placed { id, entry, at: begin, bytes: line.len() }),
                    None if !is_whole => {}
                    None => return unknown(&"it is neither a change nor something that was made"),
                }
            }
            Err(_) if !is_whole => {}
            // After a cut the next process begins a line of its own, so a cut line may stand anywhere; but one that is
            // whole JSON is a step that this version does not know, and passing over it would leave the host changed.
            Err(error) if error.is_data() => return unknown(&error),
            Err(_) => {}
        }
    }
    match header {
        Some(header) => Ok((header, found)),
        None => Err(RecordError::malformed(path, "it is empty")),
    }
}

fn line_of(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    Ok(text)
}

/// What is pending in the bytes of a journal: for whoever feeds it bytes of their own.
///
/// # Errors
/// When it has no header of this version's, or a step that this version does not know.
pub fn parse_pending<U: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<Vec<Pending<U>>, RecordError> {
    let (_, lines) = parse::<U>(Path::new("journal"), bytes)?;
    Ok(lines.into_iter().filter_map(Placed::pending).collect())
}

fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_string()
}

fn host() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match id.trim() {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        id => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::experiment::WorkloadSpec;
    use model::{DesignKind, Settings};

    fn experiment() -> Experiment {
        Experiment {
            name: "any".into(),
            goals: Vec::new(),
            max_failures: model::experiment::MAX_FAILURES,
            watch: Vec::new(),
            sample_every: 1,
            replicates: 1,
            seed: 1,
            prove: false,
            folder: PathBuf::new(),
            target: None,
            workload: WorkloadSpec { kind: "null".into(), settings: Settings::default() },
            load: Settings::default(),
            vary: Vec::new(),
            design: DesignKind::OneFactorAtATime,
            show: Vec::new(),
            published: Vec::new(),
        }
    }

    fn header() -> Header {
        Header {
            format: FORMAT.into(),
            host: host(),
            boot: boot(),
            run: "/nowhere".into(),
            device: 0,
            inode: 0,
            process: 1,
            experiment: experiment(),
        }
    }

    fn journal(folder: &Path) -> Journal {
        let folder = Directory::open(folder).unwrap();
        let mut file = folder.create_new("a.jsonl", PRIVATE_FILE).unwrap();
        let text = line_of(&header()).unwrap();
        file.write_all(&text).unwrap();
        let end = text.len() as u64;
        let (name, header) = ("a.jsonl".into(), header());
        Journal(State::Open(Box::new(Open {
            folder,
            name,
            file,
            header,
            next_id: 1,
            lines: Vec::new(),
            end,
        })))
    }

    fn reopened(folder: &Path) -> Journal {
        match Journal::reopen(Directory::open(folder).unwrap(), "a.jsonl".as_ref()).unwrap() {
            Found::Left(journal) => journal,
            other => panic!("{other:?}"),
        }
    }

    fn seen(journal: &Journal) -> Vec<String> {
        journal.read_pending::<Vec<String>>().unwrap().into_iter().map(|line| line.undo[0].clone()).collect()
    }

    #[test]
    fn what_was_not_undone_is_pending_latest_first_and_nothing_stays_of_what_was() {
        let folder = testkit::Scratch::new();
        let mut ours = journal(folder.path());
        let first = ours.pending("host.cpus", &vec!["a secret"]).unwrap();
        ours.pending("host.disk.io_limit", &vec!["b"]).unwrap();
        let third = ours.pending("host.cpus", &vec!["c"]).unwrap();
        ours.cross_off(first).unwrap();
        assert!(!folder.text("a.jsonl").contains("secret"));
        drop(ours);
        // A kill in the middle of a line.
        let mut file = std::fs::OpenOptions::new().append(true).open(folder.join("a.jsonl")).unwrap();
        file.write_all(b"{\"id\":9,\"fac").unwrap();
        // The next line is not swallowed by it, and its number is new.
        let mut ours = reopened(folder.path());
        assert_eq!(seen(&ours), ["c", "b"]);
        ours.cross_off(third).unwrap();
        assert!(ours.pending("x", &vec!["d"]).unwrap() > third);
        assert_eq!(seen(&ours), ["d", "b"]);
        drop(ours);
        // A kill while a line is overwritten.
        let text = folder.text("a.jsonl");
        let at = text.find("{\"id\":2").unwrap();
        folder.file("a.jsonl", format!("{}    {}", &text[..at], &text[at + 4..]));
        assert_eq!(seen(&reopened(folder.path())), ["d"]);
    }

    #[test]
    fn what_was_made_is_known_until_it_is_crossed_off_and_once_for_each_path() {
        let folder = testkit::Scratch::new();
        let file = |name: &str| {
            let path = folder.file(name, "x");
            Made::new(&path, File::open(&path).unwrap(), 8, false).unwrap()
        };
        let mut ours = journal(folder.path());
        let first = file("f.bin");
        ours.announce_made("disk", &first).unwrap();
        ours.announce_made("disk", &file("g.bin")).unwrap();
        let change = ours.pending("host.cpus", &vec!["a"]).unwrap();
        std::fs::rename(&first.path, folder.join("moved")).unwrap();
        let second = file("f.bin");
        ours.announce_made("disk", &second).unwrap();
        drop(ours);
        let mut ours = reopened(folder.path());
        let made = ours.read_made().unwrap();
        let paths: Vec<_> = made.iter().map(|line| line.made.path.file_name().unwrap()).collect();
        assert_eq!(paths, ["g.bin", "f.bin"]);
        assert_eq!((&made[1].made, made[1].workload.as_str()), (&second, "disk"));
        let metadata = |path: &Path| std::fs::metadata(path).unwrap();
        assert!(second.is(&metadata(&second.path)) && !second.is(&metadata(&folder.join("moved"))));
        // Neither kind of line is taken for the other one.
        assert_eq!(seen(&ours), ["a"]);
        ours.cross_off(change).unwrap();
        made.iter().for_each(|line| ours.cross_off(line.id).unwrap());
        assert!(ours.read_made().unwrap().is_empty() && !folder.text("a.jsonl").contains("g.bin"));
        ours.complete().unwrap();
        assert!(!folder.join("a.jsonl").exists());
    }

    #[test]
    fn a_file_that_has_the_inode_of_one_that_was_made_is_another_one() {
        let folder = testkit::Scratch::new();
        let path = folder.file("f", "x");
        let made = Made::new(&path, File::open(&path).unwrap(), 1, false).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert!(made.is(&metadata));
        let Some(born) = made.born_unix_ns else { return };
        assert!(!Made { born_unix_ns: Some(born - 1), ..made.clone() }.is(&metadata));
        // A mount may have another number; where no birth is known the number decides.
        assert!(Made { device: made.device + 1, ..made.clone() }.is(&metadata));
        assert!(!Made { device: made.device + 1, born_unix_ns: None, ..made }.is(&metadata));
    }

    #[test]
    fn the_journal_of_an_older_program_is_read() {
        let folder = testkit::Scratch::new();
        let head =
            String::from_utf8(line_of(&header()).unwrap()).unwrap().replace("journal/1.1", "journal/1.0");
        folder.file("a.jsonl", format!("{head}{{\"id\":1,\"factor\":\"host.cpus\",\"undo\":[\"a\"]}}\n"));
        let ours = reopened(folder.path());
        assert_eq!((seen(&ours), ours.read_made().unwrap().len()), (vec!["a".to_string()], 0));
    }

    #[test]
    fn a_journal_that_is_held_belongs_to_a_running_run() {
        let folder = testkit::Scratch::new();
        let ours = journal(folder.path());
        let State::Open(open) = &ours.0 else { panic!() };
        rustix::fs::flock(&open.file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let found = Journal::reopen(Directory::open(folder.path()).unwrap(), "a.jsonl".as_ref()).unwrap();
        assert!(matches!(found, Found::Running(_, 1)));
    }

    #[test]
    fn an_unknown_step_and_a_foreign_header_are_errors_and_not_passed_over() {
        let head = String::from_utf8(line_of(&header()).unwrap()).unwrap();
        let pending = |text: &str| parse_pending::<Vec<u32>>(text.as_bytes());
        assert_eq!(pending(&format!("{head}{{\"id\":1,\"factor\":\"x\",\"undo\":[7]}}\n")).unwrap().len(), 1);
        assert!(pending(&format!("{head}{{\"id\":1,\"factor\":\"x\",\"undo\":[\"?\"]}}\n")).is_err());
        assert!(pending(&format!("{head}{{\"id\":1,\"factor\":\"x\"}}\n")).is_err());
        assert!(pending(&format!("{head}{{\"id\":1,\"unknown\":[7]}}\n")).is_err());
        assert!(pending(&head.replace("journal/1", "journal/2")).is_err());
        assert!(pending("").is_err() && pending("{}\n").is_err());
    }

    #[test]
    fn without_a_folder_nothing_may_be_changed() {
        let mut journal = Journal(State::Unavailable("no home".into()));
        let error = journal.pending("host.cpus", &1).unwrap_err().to_string();
        assert!(error.contains("no home") && error.contains("nothing is changed"), "{error}");
        let made = Made { path: "/f".into(), device: 1, inode: 1, born_unix_ns: None, bytes: 1, keep: false };
        journal.announce_made("disk", &made).unwrap();
        journal.complete().unwrap();
    }

    #[test]
    fn it_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = testkit::Scratch::new();
        let _ours = journal(folder.path());
        let mode = std::fs::metadata(folder.join("a.jsonl")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
