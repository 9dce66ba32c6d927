//! All processes of the host, and the selected ones.
//!
//! Inspecting every process at every sample would cost more than all other sources together. The list is read when
//! a PID was assigned since the last time and the cost is acceptable; a process is inspected when it is new,
//! and later in rotation, because it may execute another program.

use std::fs::File;
use std::mem::MaybeUninit;
use std::path::Path;

use engine::source::HostRoot;
use model::{MILLISECOND, Nanos, SECOND};

use super::parse;
use crate::reader::{Buffer, KernelFile, number};

/// What was written after `process:`.
pub(super) enum Selector {
    /// This process alone: what it starts is the system under test, not itself.
    Myself(u32),
    /// One process and its descendants.
    Pid(u32),
    /// Every process of this name and its descendants.
    Name(Vec<u8>),
}

impl Selector {
    pub(super) fn parse(text: &str) -> Selector {
        match text {
            "self" => Selector::Myself(std::process::id()),
            _ => match text.parse() {
                Ok(pid) => Selector::Pid(pid),
                Err(_) => Selector::Name(text.as_bytes().to_vec()),
            },
        }
    }

    fn matches(&self, pid: u32, name: ShortName, program: &[u8]) -> bool {
        match self {
            Selector::Myself(wanted) | Selector::Pid(wanted) => *wanted == pid,
            Selector::Name(wanted) => {
                (wanted.len() < name.len() && short(wanted) == name) || wanted == program
            }
        }
    }

    fn takes_children(&self) -> bool {
        !matches!(self, Selector::Myself(_))
    }
}

/// The kernel's name of a process, padded with zeros.
type ShortName = [u8; 16];

fn short(name: &[u8]) -> ShortName {
    let mut short = ShortName::default();
    let length = name.len().min(short.len());
    short[..length].copy_from_slice(&name[..length]);
    short
}

/// A set of selections, one bit for each.
type Selected = u64;

/// More selections than bits are refused when the source is opened.
pub(super) const MOST_SELECTIONS: usize = Selected::BITS as usize;

/// One process.
#[derive(Clone, Copy)]
struct Entry {
    pid: u32,
    parent: u32,
    started: u64,
    name: ShortName,
    selected: Selected,
    /// Number of further scans that inspect it again: a new process may soon execute another program.
    young: u8,
}

/// A process that matches a selection.
pub(super) struct MatchedProcess {
    /// Which selection.
    pub(super) selection: usize,
    /// Its PID.
    pub(super) pid: u32,
    /// When it started.
    pub(super) started: u64,
    /// True when it did not exist at the scan before, so that all it ever did belongs to the run.
    pub(super) is_born: bool,
}

/// What `young` is at the scan that finds a process for the first time.
const YOUNG_SCANS: u8 = 3;
/// Known processes looked at again in turn, at most this many a second.
const RECHECKED: usize = 16;

pub(super) struct Table {
    proc: std::path::PathBuf,
    load: KernelFile,
    selectors: Vec<Selector>,
    entries: Vec<Entry>,
    previous: Vec<Entry>,
    pids: Vec<u32>,
    last_pid: Option<u64>,
    scanned_at: Option<Nanos>,
    rechecked_at: Nanos,
    cursor: usize,
}

impl Table {
    pub(super) fn new(root: &HostRoot, selectors: Vec<Selector>) -> Self {
        Table {
            proc: root.join("proc"),
            load: KernelFile::new(root, "proc/loadavg"),
            selectors,
            entries: Vec::new(),
            previous: Vec::new(),
            pids: Vec::new(),
            last_pid: None,
            scanned_at: None,
            rechecked_at: 0,
            cursor: 0,
        }
    }

    /// Updates the list if due; `found` receives the newly selected processes.
    pub(super) fn update(&mut self, now: Nanos, buffer: &mut Buffer, found: &mut Vec<MatchedProcess>) {
        let last_pid = self.load.read(buffer).and_then(parse::last_pid);
        if let Some(scanned_at) = self.scanned_at {
            let since = now.saturating_sub(scanned_at);
            let is_quiet = last_pid.is_some() && last_pid == self.last_pid;
            let any_young = self.entries.iter().any(|entry| entry.young > 0);
            if since < listing_interval(self.entries.len()) || (is_quiet && !any_young && since < SECOND) {
                return;
            }
        }
        let is_first = self.scanned_at.is_none();
        if !numbered_entries(&self.proc, &mut self.pids) {
            return;
        }
        self.scanned_at = Some(now);
        self.last_pid = last_pid;
        self.merge(is_first, buffer, found);
        if is_first {
            self.expect_changes();
        }
        if now.saturating_sub(self.rechecked_at) >= SECOND {
            self.rechecked_at = now;
            self.recheck(buffer, found);
        }
        self.inherit(found);
    }

    /// Removes ended processes, adds new ones, inspects young ones again.
    fn merge(&mut self, is_first: bool, buffer: &mut Buffer, found: &mut Vec<MatchedProcess>) {
        std::mem::swap(&mut self.entries, &mut self.previous);
        let mut known = self.previous.drain(..).peekable();
        for &pid in &self.pids {
            while known.next_if(|entry| entry.pid < pid).is_some() {}
            let entry = match known.next_if(|entry| entry.pid == pid) {
                Some(entry) if entry.young == 0 => Some(entry),
                known => {
                    let known = known.map(|entry| Entry { young: entry.young - 1, ..entry });
                    inspect(&self.proc, pid, &self.selectors, known, buffer, is_first, found)
                }
            };
            self.entries.extend(entry);
        }
    }

    /// Takes for young, at the first scan, what started within a second of the newest: it may not yet be the program it is about
    /// to become, as when the load starts the system under test at that very moment.
    fn expect_changes(&mut self) {
        let newest = self.entries.iter().map(|entry| entry.started).max().unwrap_or(0);
        let second = rustix::param::clock_ticks_per_second();
        for entry in &mut self.entries {
            if newest - entry.started <= second {
                // Not as young as one that was born since the scan before: what it did so far does not belong to the run.
                entry.young = YOUNG_SCANS - 1;
            }
        }
    }

    /// Inspects some of the old processes again.
    fn recheck(&mut self, buffer: &mut Buffer, found: &mut Vec<MatchedProcess>) {
        let count = self.entries.len();
        for _ in 0..RECHECKED.min(count) {
            self.cursor = (self.cursor + 1) % count;
            let known = self.entries[self.cursor];
            if let Some(seen) =
                inspect(&self.proc, known.pid, &self.selectors, Some(known), buffer, false, found)
            {
                self.entries[self.cursor] = seen;
            }
        }
    }

    /// Propagates selections from parents to children until nothing changes: a child may have the lower PID.
    fn inherit(&mut self, found: &mut Vec<MatchedProcess>) {
        let heritable = (0..self.selectors.len())
            .filter(|&index| self.selectors[index].takes_children())
            .fold(0, |bits, index| bits | 1 << index);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for index in 0..self.entries.len() {
                let entry = &self.entries[index];
                let parent = self.entries.binary_search_by_key(&entry.parent, |other| other.pid);
                let Ok(parent) = parent else { continue };
                let inherited = self.entries[parent].selected & heritable & !entry.selected;
                if inherited != 0 {
                    report(entry.pid, entry.started, inherited, entry.young == YOUNG_SCANS, found);
                    self.entries[index].selected |= inherited;
                    changed = true;
                }
            }
        }
    }
}

/// Inspects one process: its identity and the selections that match it directly.
fn inspect(
    proc: &Path,
    pid: u32,
    selectors: &[Selector],
    known: Option<Entry>,
    buffer: &mut Buffer,
    is_first: bool,
    found: &mut Vec<MatchedProcess>,
) -> Option<Entry> {
    let folder = proc.join(pid.to_string());
    let text = KernelFile::at(folder.join("stat")).read_once(buffer)?;
    let stat = parse::stat(text)?;
    let (parent, started) = (stat.parent, stat.started);
    let name = short(stat.name);
    // The same process as before, or another that was given its PID?
    let known = known.filter(|known| known.started == started);
    if let Some(known) = &known
        && known.name == name
    {
        return Some(Entry { parent, ..*known });
    }
    // What has no parent in user space is a thread of the kernel and has no command line.
    let command_line = match parent {
        2 => None,
        _ => KernelFile::at(folder.join("cmdline")).read_once(buffer),
    };
    let program = command_line.map(parse::program).unwrap_or_default();
    let matching = (0..selectors.len())
        .filter(|&index| selectors[index].matches(pid, name, program))
        .fold(0, |bits, index| bits | 1 << index);
    let before = known.as_ref().map_or(0, |known| known.selected);
    report(pid, started, matching & !before, known.is_none() && !is_first, found);
    let young = match (&known, is_first) {
        (_, true) => 0,
        (Some(known), _) => known.young.max(1),
        (None, _) => YOUNG_SCANS,
    };
    Some(Entry { pid, parent, started, name, selected: before | matching, young })
}

fn report(pid: u32, started: u64, selected: Selected, is_born: bool, found: &mut Vec<MatchedProcess>) {
    for selection in 0..MOST_SELECTIONS {
        if selected & (1 << selection) != 0 {
            found.push(MatchedProcess { selection, pid, started, is_born });
        }
    }
}

/// How long to wait between two listings of a folder with this many entries: a listing costs the kernel up to a
/// microsecond an entry and may take 0.05 % of the time.
pub(super) fn listing_interval(entries: usize) -> Nanos {
    (entries as Nanos).saturating_mul(2 * MILLISECOND)
}

/// The entries of a folder whose names are numbers, in order. False when it cannot be read.
pub(crate) fn numbered_entries(folder: &Path, numbers: &mut Vec<u32>) -> bool {
    numbers.clear();
    let Ok(folder) = File::open(folder) else { return false };
    let mut space = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = rustix::fs::RawDir::new(folder, &mut space);
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return false };
        let value = number(entry.file_name().to_bytes()).and_then(|value| u32::try_from(value).ok());
        numbers.extend(value);
    }
    numbers.sort_unstable();
    true
}
