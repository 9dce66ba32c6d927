//! Journals of unfinished runs: what was changed on the host and how to undo it, written and synced *before* the change,
//! so that a run killed at any moment can be undone, and the experiment, so that it can be resumed.
//!
//! A run directory is data that may come from anybody, so nothing of it is ever carried out. What is carried out lives in
//! a folder that nobody else may write: `/var/lib/plimsoll` for root, `$XDG_STATE_HOME/plimsoll` or
//! `~/.local/state/plimsoll` for another user, `$PLIMSOLL_STATE_DIR` where that is set. `docs/formats/journal.md`
//! describes the files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use files::{Directory, Identity, PRIVATE_FILE, PRIVATE_FOLDER, private};
use model::Experiment;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::{RecordError, check_format};

/// The format word of a journal.
const FORMAT: &str = "plimsoll.journal/1.0";

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

/// One line of a journal: something is about to be changed, and this is how to undo it. Once it is undone the line is
/// overwritten with blanks, so that nothing of it stays.
#[derive(Debug, Serialize, Deserialize)]
struct Line<U> {
    id: u64,
    factor: String,
    undo: U,
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
    /// returned; the number is for [`Journal::undone`].
    ///
    /// # Errors
    /// When it cannot be written; the change must not be made then.
    pub fn pending<U: Serialize>(&mut self, factor: &str, undo: &U) -> Result<u64, RecordError> {
        let open = self.open("nothing is changed on this host without a journal of how to undo it")?;
        let id = open.next_id;
        open.next_id = id.saturating_add(1);
        let text = line_of(&Line { id, factor: factor.into(), undo })
            .map_err(|error| RecordError::malformed(&open.path(), error))?;
        let at = open.end;
        open.append(&text)?;
        open.lines.push((id, at, text.len() - 1));
        Ok(id)
    }

    /// Writes down that a change was undone: what the journal knew of it is overwritten with blanks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn undone(&mut self, id: u64) -> Result<(), RecordError> {
        let open = self.open("it has no entry")?;
        let Some(index) = open.lines.iter().position(|line| line.0 == id) else { return Ok(()) };
        let (_, at, bytes) = open.lines.remove(index);
        let path = open.path();
        open.file.write_all_at(&vec![b' '; bytes], at).map_err(RecordError::io("write", &path))?;
        open.file.sync_data().map_err(RecordError::io("sync", &path))
    }

    /// What was announced and not undone, the latest first: the order to undo it in.
    ///
    /// # Errors
    /// When the journal cannot be read, or holds a line that is none of this version's.
    pub fn read_pending<U: for<'de> Deserialize<'de>>(&self) -> Result<Vec<Pending<U>>, RecordError> {
        let State::Open(open) = &self.0 else { return Ok(Vec::new()) };
        let path = open.path();
        let bytes = open.folder.read(&open.name, BYTES_MAX).map_err(RecordError::io("read", &path))?;
        let (_, lines) = parse::<U>(&path, &bytes)?;
        let pending =
            lines.into_iter().map(|line| Pending { id: line.id, factor: line.factor, undo: line.undo });
        Ok(pending.rev().collect())
    }

    /// Ends it: the run is complete. The file goes, unless something is still to be undone.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn complete(self) -> Result<(), RecordError> {
        match self.0 {
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
    factor: String,
    undo: U,
    at: u64,
    bytes: usize,
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
        match serde_json::from_slice::<Line<U>>(line) {
            Ok(Line { id, factor, undo }) => {
                found.push(Placed { id, factor, undo, at: begin, bytes: line.len() });
            }
            Err(_) if !is_whole => {}
            // After a cut the next process begins a line of its own, so a cut line may stand anywhere; but one that is
            // whole JSON is a step that this version does not know, and passing over it would leave the host changed.
            Err(error) if error.is_data() => {
                return Err(RecordError::malformed(path, format!("line {}: {error}", index + 1)));
            }
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
    Ok(lines.into_iter().map(|line| Pending { id: line.id, factor: line.factor, undo: line.undo }).collect())
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
        ours.undone(first).unwrap();
        assert!(!folder.text("a.jsonl").contains("secret"));
        drop(ours);
        // A kill in the middle of a line.
        let mut file = std::fs::OpenOptions::new().append(true).open(folder.join("a.jsonl")).unwrap();
        file.write_all(b"{\"id\":9,\"fac").unwrap();
        // The next line is not swallowed by it, and its number is new.
        let mut ours = reopened(folder.path());
        assert_eq!(seen(&ours), ["c", "b"]);
        ours.undone(third).unwrap();
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
        assert!(pending(&head.replace("journal/1", "journal/2")).is_err());
        assert!(pending("").is_err() && pending("{}\n").is_err());
    }

    #[test]
    fn without_a_folder_nothing_may_be_changed() {
        let mut journal = Journal(State::Unavailable("no home".into()));
        let error = journal.pending("host.cpus", &1).unwrap_err().to_string();
        assert!(error.contains("no home") && error.contains("nothing is changed"), "{error}");
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
