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

mod bond;
mod find;
mod process;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use files::{Directory, Identity, PRIVATE_FILE, PRIVATE_FOLDER, private};
use model::Experiment;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::{RecordError, check_format};
use bond::Bond;
pub use find::{Bound, Elsewhere, FoundJournal, elsewhere};

/// The format identifier of a journal.
const FORMAT: &str = "plimsoll.journal/1.4";

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
    /// The random identity that the run directory has too; none in a journal before version 1.4, and in that of
    /// an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    /// Where and by which process the run is executed: that of the last `resumed` line, if there is one.
    #[serde(flatten)]
    pub execution: Execution,
    /// The experiment, without secret texts.
    pub experiment: Experiment,
}

/// Where and by which process a run is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The boot id of the kernel.
    pub boot: String,
    /// The absolute path of the run directory.
    pub run: PathBuf,
    /// Device number of the run directory.
    device: u64,
    /// Inode of the run directory.
    inode: u64,
    /// The process.
    pub process: u32,
    /// Its start in clock ticks since boot; none before version 1.4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_ticks: Option<u64>,
}

impl Execution {
    /// That of this process.
    fn here(run: PathBuf, directory: Identity) -> Execution {
        let process = std::process::id();
        Execution {
            boot: boot(),
            run,
            device: directory.device,
            inode: directory.inode,
            process,
            started_ticks: process::started_ticks(process),
        }
    }

    fn directory(&self) -> Identity {
        Identity { device: self.device, inode: self.inode }
    }

    /// Whether its process still exists on this host.
    fn is_alive(&self) -> bool {
        let started = process::started_ticks(self.process);
        self.boot == boot()
            && started.is_some()
            && self.started_ticks.is_none_or(|ticks| started == Some(ticks))
    }
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
    /// The run was resumed by another process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumed: Option<Execution>,
}

/// The content of a line.
#[derive(Debug)]
enum Entry<U> {
    Change { factor: String, undo: U },
    Made { workload: String, made: Made },
    Resumed(Execution),
}

impl<U> Line<U> {
    fn of(id: u64, entry: Entry<U>) -> Line<U> {
        let none = Line { id, factor: None, undo: None, workload: None, made: None, resumed: None };
        match entry {
            Entry::Change { factor, undo } => Line { factor: Some(factor), undo: Some(undo), ..none },
            Entry::Made { workload, made } => Line { workload: Some(workload), made: Some(made), ..none },
            Entry::Resumed(execution) => Line { resumed: Some(execution), ..none },
        }
    }

    /// The content of the line; none if this version does not support it.
    fn entry(self) -> Option<Entry<U>> {
        match (self.factor, self.undo, self.workload, self.made, self.resumed) {
            (Some(factor), Some(undo), None, None, None) => Some(Entry::Change { factor, undo }),
            (None, None, Some(workload), Some(made), None) => Some(Entry::Made { workload, made }),
            (None, None, None, None, Some(execution)) => Some(Entry::Resumed(execution)),
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
    /// Why there is no folder for it: nothing may be changed on this host. With the directory of the run, which says so.
    Unavailable(String, Option<Directory>),
}

#[derive(Debug)]
struct Open {
    folder: Directory,
    name: OsString,
    file: File,
    header: Header,
    /// The run directory that has the identity of the journal, while this process executes the run.
    directory: Option<Directory>,
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
    /// The process of the run with this directory is gone, or not visible from here, and another one has the
    /// journal: for example another `plimsoll restore`.
    Held(PathBuf),
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
    /// Begins the journal of a run, and writes its identity into the run directory. Without a private folder,
    /// the journal refuses to record host changes, so nothing is changed that could not be undone.
    ///
    /// # Errors
    /// When the folder exists, but the journal or the identity cannot be written.
    pub fn begin(run: &Path, experiment: &Experiment) -> Result<Journal, RecordError> {
        let Some((folder, directory)) = Journal::folders(run)? else {
            // So that nobody believes that there is nothing to restore if the run is killed.
            let directory = Directory::open(run).map_err(RecordError::io("open", run))?;
            let bond = Bond::new(host(), state_folder().unwrap_or_default());
            bond.map_err(RecordError::io("name", run))?.write(&directory)?;
            return Ok(Journal::unavailable(Some(directory)));
        };
        let state = folder.path().parent().unwrap_or(folder.path()).to_path_buf();
        let bond = Bond::new(host(), state).map_err(RecordError::io("name", run))?;
        let mut begun = Journal::write_new(folder, &directory, Some(bond.identity.clone()), experiment)?;
        // After the journal: a directory with an identity has a journal, unless its run is complete.
        if let Err(error) = bond.write(&directory) {
            begun.complete()?;
            return Err(error);
        }
        if let State::Open(open) = &mut begun.0 {
            open.directory = Some(directory);
        }
        Ok(begun)
    }

    /// Begins the journal of an agent, which has no run directory: `folder` stands for it, and is shared by all
    /// agents.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn begin_for_agent(folder: &Path, experiment: &Experiment) -> Result<Journal, RecordError> {
        match Journal::folders(folder)? {
            Some((journals, directory)) => Journal::write_new(journals, &directory, None, experiment),
            None => Ok(Journal::unavailable(None)),
        }
    }

    fn unavailable(run: Option<Directory>) -> Journal {
        Journal(State::Unavailable(open_folder().err().unwrap_or_default(), run))
    }

    /// The folder of journals, and a run directory; none without a private folder.
    fn folders(run: &Path) -> Result<Option<(Directory, Directory)>, RecordError> {
        let Ok(folder) = open_folder() else { return Ok(None) };
        find::remove_forsaken(&folder);
        // Without links and `..`, so that the path has a meaning when directories in it are gone.
        let run = std::fs::canonicalize(run).map_err(RecordError::io("find", run))?;
        let directory = Directory::open(&run).map_err(RecordError::io("open", &run))?;
        Ok(Some((folder, directory)))
    }

    fn write_new(
        folder: Directory,
        directory: &Directory,
        identity: Option<String>,
        experiment: &Experiment,
    ) -> Result<Journal, RecordError> {
        let failed = |action: &'static str| RecordError::io(action, folder.path());
        let run = directory.path().to_path_buf();
        let inode = directory.identity().map_err(RecordError::io("open", &run))?;
        let header = Header {
            format: FORMAT.into(),
            host: host(),
            identity,
            execution: Execution::here(run, inode),
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
            directory: None,
            next_id: 1,
            lines: Vec::new(),
            end,
        }))))
    }

    /// The header; none without a folder.
    pub fn header(&self) -> Option<&Header> {
        match &self.0 {
            State::Open(open) => Some(&open.header),
            State::Unavailable(..) => None,
        }
    }

    /// Why there is no journal, and what to do; none where there is one.
    pub fn why_none(&self) -> Option<&str> {
        match &self.0 {
            State::Open(_) => None,
            State::Unavailable(why, _) => Some(why),
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
            Entry::Change { .. } | Entry::Resumed(_) => None,
        };
        Ok(open.read()?.into_iter().filter_map(made).collect())
    }

    /// Ends the journal of a complete run. The file and the identity in the run directory are removed, unless
    /// undo steps are pending.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn complete(&mut self) -> Result<(), RecordError> {
        match &self.0 {
            State::Open(open) if open.lines.is_empty() => {
                open.directory.iter().for_each(Bond::remove);
                open.folder.remove(&open.name).map_err(RecordError::io("remove", &open.path()))
            }
            State::Unavailable(_, directory) => {
                directory.iter().for_each(Bond::remove);
                Ok(())
            }
            State::Open(_) => Ok(()),
        }
    }

    /// Whether this journal is from this host and its present boot.
    pub fn place(&self) -> JournalPlace {
        match &self.0 {
            State::Open(open) if open.header.execution.boot == boot() => JournalPlace::ThisBoot,
            State::Open(open) if open.header.host == host() => JournalPlace::EarlierBoot,
            State::Open(open) => JournalPlace::OtherHost(open.header.host.clone()),
            State::Unavailable(..) => JournalPlace::ThisBoot,
        }
    }

    /// The experiment of an unfinished run, if its directory is the one that this user began.
    ///
    /// # Errors
    /// Why it is not: it is a copy, another folder replaced it, others may have written to it, or the run
    /// changes another host.
    pub fn experiment(&self, run: &Path) -> Result<Experiment, String> {
        let State::Open(open) = &self.0 else { return Err("it has no journal".into()) };
        let Header { identity, execution, experiment, .. } = &open.header;
        if let JournalPlace::OtherHost(host) = self.place() {
            return Err(format!("it was begun on the host {host}"));
        }
        let directory = Directory::open(run).map_err(|error| error.to_string())?;
        let status = rustix::fs::fstat(&directory).map_err(|error| error.to_string())?;
        let inode = directory.identity().map_err(|error| error.to_string())?;
        let has_identity =
            |directory: &Directory| Bond::read(directory).map(|bond| bond.identity) == *identity;
        if !has_identity(&directory) || (identity.is_none() && inode != execution.directory()) {
            return Err("it is not the folder that the run began in".into());
        }
        // A copy has the identity too. It is the run if the original is gone, as after a move to another disk.
        let original = Directory::open(&execution.run).ok().filter(has_identity);
        if original.is_some_and(|original| original.identity().ok() != Some(inode)) {
            return Err(format!("it is a copy of {}, which can be resumed", execution.run.display()));
        }
        if status.st_uid != rustix::process::geteuid().as_raw() || status.st_mode & 0o022 != 0 {
            return Err("other users may have written to it".into());
        }
        Ok(experiment.clone())
    }

    /// Records that this process goes on with the run, in this directory.
    ///
    /// # Errors
    /// When the directory cannot be opened, or the journal cannot be written.
    pub fn resume(&mut self, run: &Path) -> Result<(), RecordError> {
        let State::Open(open) = &mut self.0 else { return Ok(()) };
        let run = std::fs::canonicalize(run).map_err(RecordError::io("find", run))?;
        let directory = Directory::open(&run).map_err(RecordError::io("open", &run))?;
        let inode = directory.identity().map_err(RecordError::io("open", &run))?;
        let execution = Execution::here(run, inode);
        open.announce::<()>(Entry::Resumed(execution.clone()))?;
        // It is no change that could be pending.
        open.lines.pop();
        open.header.execution = execution;
        open.directory = Some(directory);
        Ok(())
    }

    fn open(&mut self, why_needed: &str) -> Result<&mut Open, RecordError> {
        match &mut self.0 {
            State::Open(open) => Ok(open),
            State::Unavailable(why, _) => {
                Err(RecordError::NoJournal { why: format!("{why} ({why_needed})") })
            }
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

impl Open {
    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    fn read<U: for<'de> Deserialize<'de>>(&self) -> Result<Vec<PositionedEntry<U>>, RecordError> {
        let path = self.path();
        let bytes = self.folder.read(&self.name, BYTES_MAX).map_err(RecordError::io("read", &path))?;
        Ok(parse::<U>(&path, &bytes)?.entries)
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
            Entry::Made { .. } | Entry::Resumed(_) => None,
        }
    }
}

/// The content of a journal.
struct Parsed<U> {
    /// With the execution of the last process that resumed the run.
    header: Header,
    /// The pending lines.
    entries: Vec<PositionedEntry<U>>,
    /// The largest number of a line.
    last_id: u64,
}

/// Parses the header and the pending entries. A last line without a line end announced a change that was not
/// made, because the line is synced first. A line that begins with a blank is being overwritten because its
/// change was undone.
fn parse<U: for<'de> Deserialize<'de>>(path: &Path, bytes: &[u8]) -> Result<Parsed<U>, RecordError> {
    let mut header: Option<Header> = None;
    let (mut entries, mut last_id) = (Vec::new(), 0);
    let mut at = 0_u64;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let begin = at;
        at += line.len() as u64;
        let (line, is_whole) = match line.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let Some(header) = &mut header else {
            let value: serde_json::Value =
                serde_json::from_slice(line).map_err(|error| RecordError::malformed(path, error))?;
            check_format(path, value["format"].as_str().unwrap_or_default(), FORMAT)?;
            let read = serde_json::from_value::<Header>(value);
            header = Some(read.map_err(|error| RecordError::malformed(path, error))?);
            continue;
        };
        if line.is_empty() || line.starts_with(b" ") {
            continue;
        }
        let unknown = |why: &dyn std::fmt::Display| {
            Err(RecordError::malformed(path, format!("line {}: {why}", index + 1)))
        };
        match serde_json::from_slice::<Line<U>>(line) {
            Ok(line_read) => {
                let id = line_read.id;
                last_id = last_id.max(id);
                match line_read.entry() {
                    // A line without its end is not synced, and its process did nothing yet.
                    Some(Entry::Resumed(_)) if !is_whole => {}
                    Some(Entry::Resumed(execution)) => header.execution = execution,
                    Some(entry) => entries.push(PositionedEntry { id, entry, at: begin, bytes: line.len() }),
                    None if !is_whole => {}
                    None => return unknown(&"it is no change, no created file and no resumption"),
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
        Some(header) => Ok(Parsed { header, entries, last_id }),
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
    let parsed = parse::<U>(Path::new("journal"), bytes)?;
    Ok(parsed.entries.into_iter().filter_map(PositionedEntry::pending).collect())
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
mod tests;
