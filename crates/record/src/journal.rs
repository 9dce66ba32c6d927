//! Journals of unfinished runs.
//!
//! A journal has three kinds of entries. The first is every host change with its undo step, written and
//! synced *before* the change, so that a run that is killed at any moment can be undone. The second is every
//! file that a workload created, so that files left by a kill are known. The third is the experiment, so that
//! it can be resumed.
//!
//! A run directory may come from an untrusted source, so nothing in it is executed. Steps to be executed are
//! stored in a folder that nobody else can write to: `/var/lib/plimsoll` for root, `$XDG_STATE_HOME/plimsoll`
//! or `~/.local/state/plimsoll` for other users, `$PLIMSOLL_STATE_DIR` if it is set.
//! `docs/formats/journal.md` describes the files.

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

/// The format identifier of a journal.
const FORMAT: &str = "plimsoll.journal/1.3";

/// The environment variable that names another state folder.
pub const STATE_VARIABLE: &str = "PLIMSOLL_STATE_DIR";

/// The folder of journals in the state folder.
const FOLDER: &str = "runs";

/// The file name extension of a journal.
const ENDING: &str = ".jsonl";

/// The size limit of a journal.
const BYTES_MAX: u64 = 64 << 20;

/// The first line of a journal, which identifies the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    /// The machine id of the host, or its name if it has none.
    pub host: String,
    /// The boot id of the kernel at the start of the run.
    pub boot: String,
    /// The absolute path of the run directory.
    pub run: PathBuf,
    /// Device number of the run directory.
    device: u64,
    /// Inode of the run directory.
    inode: u64,
    /// The process that executes the run.
    pub process: u32,
    /// The experiment, without secret texts.
    pub experiment: Experiment,
}

/// One line of a journal: a planned host change with its undo step, or a file that was created and not
/// written yet. When the change is undone or the file is gone, the line is overwritten with blanks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "U: Deserialize<'de>"))]
struct Line<U> {
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    factor: Option<String>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    undo: Option<U>,
    /// The kind of workload that created `made`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<Made>,
}

/// The content of a line.
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

    /// The content of the line; none if this version does not support it.
    fn entry(self) -> Option<Entry<U>> {
        match (self.factor, self.undo, self.workload, self.made) {
            (Some(factor), Some(undo), None, None) => Some(Entry::Change { factor, undo }),
            (None, None, Some(workload), Some(made)) => Some(Entry::Made { workload, made }),
            _ => None,
        }
    }
}

/// A file or folder that a workload created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The absolute path, without links.
    pub path: PathBuf,
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// The creation time, in nanoseconds since 1970; none if the file system does not provide it. It is
    /// needed because inode numbers are reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_unix_ns: Option<u64>,
    /// The intended size in bytes; 0 if unknown.
    pub bytes: u64,
    /// Whether the run keeps the file at its end.
    pub keep: bool,
}

impl Made {
    /// Identifies a file or folder that was just created at a path without links.
    ///
    /// # Errors
    /// When the kernel reports an error.
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

    /// Whether this is the created file, even if it was written to since. If the file system provides
    /// creation times, the device number is ignored: that of Btrfs and NFS changes with each mount.
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

/// A created file that is not crossed off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMade {
    /// Its number in the journal.
    pub id: u64,
    /// The kind of workload that created it.
    pub workload: String,
    /// The file.
    pub made: Made,
}

/// An undo step that was not executed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending<U> {
    /// Its number in the journal.
    pub id: u64,
    /// Which factor changed it.
    pub factor: String,
    /// How to undo it.
    pub undo: U,
}

/// The journal of one run, locked while this value exists.
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
    /// The pending lines: number, offset, and length in bytes without the line end.
    lines: Vec<(u64, u64, usize)>,
    end: u64,
}

/// A journal that another process may have locked.
#[derive(Debug)]
pub enum JournalState {
    /// It was not locked; it is locked now.
    Left(Journal),
    /// The run is active: its directory and its process.
    Running(PathBuf, u32),
    /// It cannot be read, and why.
    Damaged(String),
}

/// The state folder of this user, see the module documentation.
///
/// # Errors
/// When the environment does not define one.
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
        format!("neither HOME nor XDG_STATE_HOME is set: set {STATE_VARIABLE} to a folder of this user")
    })
}

/// Opens the folder of journals, and creates it if it does not exist.
fn open_folder() -> Result<Directory, String> {
    let state = state_folder()?;
    let described = |error: std::io::Error| {
        format!("the state folder {}: {error}; {STATE_VARIABLE} names another one", state.display())
    };
    private::open(&state).and_then(|state| state.make_folder(FOLDER, PRIVATE_FOLDER)).map_err(described)
}

/// Ensures that a folder for journals exists, before a run that changes this host.
///
/// # Errors
/// Why there is none, and what to do.
pub fn prepare_state_folder() -> Result<(), String> {
    open_folder().map(|_| ())
}

impl Journal {
    /// Begins the journal of a run. Without a private folder, the journal refuses to record host changes, so
    /// nothing is changed that could not be undone.
    ///
    /// # Errors
    /// When the folder exists, but the journal cannot be written.
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
        // Locked and complete before it gets a name that others look for.
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

    /// All journals of this user, oldest run directory first.
    ///
    /// # Errors
    /// Why the folder cannot be read.
    pub fn all() -> Result<Vec<JournalState>, String> {
        let folder = open_folder()?;
        let path = folder.path().to_path_buf();
        let described = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut found = Vec::new();
        for name in folder.names().map_err(described)? {
            if !name.to_string_lossy().ends_with(ENDING) {
                continue;
            }
            // A descriptor for each journal, because they outlive this loop.
            let folder = open_folder()?;
            found.push(match Journal::reopen(folder, &name) {
                Ok(found) => found,
                // Its run ended a moment ago.
                Err(RecordError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                Err(error) => JournalState::Damaged(error.to_string()),
            });
        }
        found.sort_by(|a, b| a.run().cmp(&b.run()));
        Ok(found)
    }

    /// The journal of a run directory; none if this user has none for it.
    ///
    /// # Errors
    /// As [`Journal::all`].
    pub fn of(run: &Path) -> Result<Option<JournalState>, String> {
        let identity = Directory::open(run).and_then(|run| run.identity()).ok();
        let absolute = std::path::absolute(run).unwrap_or_else(|_| run.to_path_buf());
        let is_it = |found: &JournalState| match found {
            JournalState::Left(journal) => match (&journal.0, identity) {
                (State::Open(open), Some(identity)) => open.identity() == identity,
                // The run directory may be deleted although its host changes are not undone.
                (State::Open(open), None) => open.header.run == absolute,
                (State::Unavailable(_), _) => false,
            },
            JournalState::Running(run, _) => {
                *run == absolute || std::fs::canonicalize(run).ok() == std::fs::canonicalize(&absolute).ok()
            }
            JournalState::Damaged(_) => false,
        };
        Ok(Journal::all()?.into_iter().find(is_it))
    }

    fn reopen(folder: Directory, name: &std::ffi::OsStr) -> Result<JournalState, RecordError> {
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
            return Ok(JournalState::Running(header.run, header.process));
        }
        let next_id = lines.iter().map(|line| line.id).max().unwrap_or(0).saturating_add(1);
        let lines = lines.into_iter().map(|line| (line.id, line.at, line.bytes)).collect();
        let end = file.seek(SeekFrom::End(0)).map_err(RecordError::io("read", &path))?;
        // A line that was truncated by a kill must not affect the next one.
        let mut open = Open { folder, name: name.to_os_string(), file, header, next_id, lines, end };
        if bytes.last() != Some(&b'\n') {
            open.append(b"\n")?;
        }
        Ok(JournalState::Left(Journal(State::Open(Box::new(open)))))
    }

    /// The header; none without a folder.
    pub fn header(&self) -> Option<&Header> {
        match &self.0 {
            State::Open(open) => Some(&open.header),
            State::Unavailable(_) => None,
        }
    }

    /// Records the undo step of a change before it is made, and syncs it. The change may be made after this
    /// call; the returned number is for [`Journal::cross_off`].
    ///
    /// # Errors
    /// When it cannot be written; the change must not be made then.
    pub fn pending<U: Serialize>(&mut self, factor: &str, undo: &U) -> Result<u64, RecordError> {
        let open = self.open("Plimsoll changes nothing on this host without a journal to undo it")?;
        open.announce(Entry::Change { factor: factor.into(), undo })
    }

    /// Records a file that a workload created, and syncs the record. An earlier record for the same path is
    /// crossed off. Without a folder for journals nothing is recorded, because the file is not a host change.
    ///
    /// # Errors
    /// When the folder exists, but the journal cannot be written.
    pub fn announce_made(&mut self, workload: &str, made: &Made) -> Result<(), RecordError> {
        let earlier = self.read_made()?.into_iter().filter(|earlier| earlier.made.path == made.path);
        let State::Open(open) = &mut self.0 else { return Ok(()) };
        for earlier in earlier {
            open.blank(earlier.id)?;
        }
        open.announce::<()>(Entry::Made { workload: workload.into(), made: made.clone() }).map(|_| ())
    }

    /// Overwrites a record with blanks: its change was undone, or its file was removed or now belongs to the
    /// user.
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

    /// The undo steps that are pending, latest first: the order of their execution.
    ///
    /// # Errors
    /// When the journal cannot be read, or contains a line that this version does not support.
    pub fn read_pending<U: for<'de> Deserialize<'de>>(&self) -> Result<Vec<Pending<U>>, RecordError> {
        let State::Open(open) = &self.0 else { return Ok(Vec::new()) };
        let pending = open.read::<U>()?.into_iter().filter_map(PositionedEntry::pending);
        Ok(pending.rev().collect())
    }

    /// The created files that are not crossed off, in this order.
    ///
    /// # Errors
    /// As [`Journal::read_pending`].
    pub fn read_made(&self) -> Result<Vec<PendingMade>, RecordError> {
        let State::Open(open) = &self.0 else { return Ok(Vec::new()) };
        let made = |line: PositionedEntry<serde::de::IgnoredAny>| match line.entry {
            Entry::Made { workload, made } => Some(PendingMade { id: line.id, workload, made }),
            Entry::Change { .. } => None,
        };
        Ok(open.read()?.into_iter().filter_map(made).collect())
    }

    /// Ends the journal of a complete run. The file is removed, unless undo steps are pending.
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

    /// Whether this journal is from this host and its present boot.
    pub fn place(&self) -> JournalPlace {
        match &self.0 {
            State::Open(open) if open.header.boot == boot() => JournalPlace::ThisBoot,
            State::Open(open) if open.header.host == host() => JournalPlace::EarlierBoot,
            State::Open(open) => JournalPlace::OtherHost(open.header.host.clone()),
            State::Unavailable(_) => JournalPlace::ThisBoot,
        }
    }

    /// The experiment of an unfinished run, if its directory is the one that this user began.
    ///
    /// # Errors
    /// Why it is not: another folder replaced it, or others may have written to it.
    pub fn experiment(&self, run: &Path) -> Result<Experiment, String> {
        let State::Open(open) = &self.0 else { return Err("it has no journal".into()) };
        let directory = Directory::open(run).map_err(|error| error.to_string())?;
        let status = rustix::fs::fstat(&directory).map_err(|error| error.to_string())?;
        if directory.identity().ok() != Some(open.identity()) {
            return Err("it is not the folder that the run began in".into());
        }
        if status.st_uid != rustix::process::geteuid().as_raw() || status.st_mode & 0o022 != 0 {
            return Err("other users may have written to it".into());
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

/// Where and when a journal was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalPlace {
    /// On this host, since its last boot.
    ThisBoot,
    /// On this host, before its last boot: its processes and control groups do not exist any more.
    EarlierBoot,
    /// On another host that shares the folder.
    OtherHost(String),
}

impl JournalState {
    /// The run directory; none if it is unknown.
    pub fn run(&self) -> Option<&Path> {
        match self {
            JournalState::Left(journal) => journal.header().map(|header| header.run.as_path()),
            JournalState::Running(run, _) => Some(run),
            JournalState::Damaged(_) => None,
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

    fn read<U: for<'de> Deserialize<'de>>(&self) -> Result<Vec<PositionedEntry<U>>, RecordError> {
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

    /// Overwrites a line with blanks without a sync; returns false if there is no line with this number.
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

/// Removes obsolete journals: those without pending steps whose run directory does not exist any more.
fn remove_forsaken(folder: &Directory) {
    for name in folder.names().unwrap_or_default() {
        let is_gone = |open: &Open| {
            let there = Directory::open(&open.header.run).and_then(|run| run.identity());
            open.lines.is_empty() && there.ok() != Some(open.identity())
        };
        let again = || Directory::open(folder.path()).map_err(RecordError::io("open", folder.path()));
        if name.to_string_lossy().ends_with(ENDING)
            && let Ok(Ok(JournalState::Left(journal))) = again().map(|folder| Journal::reopen(folder, &name))
            && let State::Open(open) = &journal.0
            && is_gone(open)
        {
            let _ = folder.remove(&name);
        }
    }
}

/// A valid line and its position.
struct PositionedEntry<U> {
    id: u64,
    entry: Entry<U>,
    at: u64,
    bytes: usize,
}

impl<U> PositionedEntry<U> {
    /// The pending undo step, if the line has one.
    fn pending(self) -> Option<Pending<U>> {
        match self.entry {
            Entry::Change { factor, undo } => Some(Pending { id: self.id, factor, undo }),
            Entry::Made { .. } => None,
        }
    }
}

/// Parses the header and the pending entries. A last line without a line end announced a change that was not
/// made, because the line is synced first. A line that begins with a blank is being overwritten because its
/// change was undone.
fn parse<U: for<'de> Deserialize<'de>>(
    path: &Path,
    bytes: &[u8],
) -> Result<(Header, Vec<PositionedEntry<U>>), RecordError> {
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
                    Some(entry) => found.push(PositionedEntry { id, entry, at: begin, bytes: line.len() }),
                    None if !is_whole => {}
                    None => return unknown(&"it is neither a change nor a created file"),
                }
            }
            Err(_) if !is_whole => {}
            // The next process begins a new line after a truncated one, so truncated lines may be anywhere.
            // But valid JSON is a step that this version does not support, and ignoring it would leave the
            // host changed.
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

/// The pending undo steps in the bytes of a journal, for callers with their own bytes.
///
/// # Errors
/// When the header is missing or has another version, or a step is not supported.
pub fn parse_pending<U: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<Vec<Pending<U>>, RecordError> {
    let (_, lines) = parse::<U>(Path::new("journal"), bytes)?;
    Ok(lines.into_iter().filter_map(PositionedEntry::pending).collect())
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
            machines: Default::default(),
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
            gate: None,
            show: Vec::new(),
            published: Vec::new(),
            limit: Vec::new(),
            smallest: None,
            dependencies: Vec::new(),
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
            JournalState::Left(journal) => journal,
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
        // A kill while a line is written.
        let mut file = std::fs::OpenOptions::new().append(true).open(folder.join("a.jsonl")).unwrap();
        file.write_all(b"{\"id\":9,\"fac").unwrap();
        // The next line is intact, and its number is new.
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
        // Each kind of line is read only as itself.
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
        // Another mount may have another number; if no creation time is known, the number decides.
        assert!(Made { device: made.device + 1, ..made.clone() }.is(&metadata));
        assert!(!Made { device: made.device + 1, born_unix_ns: None, ..made }.is(&metadata));
    }

    #[test]
    fn the_journal_of_an_older_program_is_read() {
        let folder = testkit::Scratch::new();
        let head =
            String::from_utf8(line_of(&header()).unwrap()).unwrap().replace("journal/1.3", "journal/1.0");
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
        assert!(matches!(found, JournalState::Running(_, 1)));
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
        assert!(error.contains("no home") && error.contains("changes nothing"), "{error}");
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
