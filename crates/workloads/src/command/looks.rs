//! What a launch does, seen by looking at its threads at random moments.
//!
//! The moments are those of a Poisson process, which sees each state as often as it lasts (Wolff, "Poisson Arrivals See Time
//! Averages", Operations Research 30, 1982), also of launches that are shorter than the time between two looks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use engine::process_stat::ProcessStat;
use engine::system_call::{self, Call};
use model::launch::Doing;
use model::random::Random;
use model::{MILLISECOND, Nanos};

/// Mean time between two looks: each takes some 50 µs, most of it on a CPU that the launch does not use.
const EVERY: Nanos = 20 * MILLISECOND;
/// Threads looked at each time: a launch with more is not described by a single state.
const THREADS_MAX: usize = 64;

/// The looks at one launch.
#[derive(Debug)]
pub(super) struct Looks {
    /// When to look again.
    pub(super) due: Nanos,
    pub(super) seen: BTreeMap<Doing, u64>,
    /// Threads that ran or were ready to run, added up over the looks.
    pub(super) running_threads: u64,
    /// The most memory that one of its processes had used when it was looked at.
    peak_bytes: Option<u64>,
    /// When the launch began, and when it was last looked at.
    begin: Nanos,
    last: Nanos,
}

impl Looks {
    pub(super) fn new(now: Nanos, random: &mut Random) -> Looks {
        let due = next(now, random);
        Looks { due, seen: BTreeMap::new(), running_threads: 0, peak_bytes: None, begin: now, last: now }
    }

    /// The peak of memory that was seen, of a launch that has ended by now: none where the last look was in its first half.
    /// A process that has just begun uses next to nothing.
    pub(super) fn peak_bytes(&self, now: Nanos) -> Option<u64> {
        let [seen, whole] = [self.last, now].map(|at| at.saturating_sub(self.begin));
        self.peak_bytes.filter(|_| seen >= whole / 2)
    }

    /// Looks at a process and all below it.
    pub(super) fn look(&mut self, process: i32, now: Nanos, random: &mut Random) {
        self.due = next(now, random);
        self.last = now;
        let mut left = THREADS_MAX;
        let mut found: Option<Doing> = None;
        for process in tree(process) {
            let folder = PathBuf::from(format!("/proc/{process}"));
            for thread in numbered(&folder.join("task")) {
                if left == 0 {
                    break;
                }
                left -= 1;
                let Some(doing) = doing(&folder.join(format!("task/{thread}"))) else { continue };
                self.running_threads += u64::from(doing == Doing::Running);
                found = Some(found.map_or(doing, |known| known.min(doing)));
            }
            self.peak_bytes = self.peak_bytes.max(peak_bytes(&folder));
        }
        if let Some(doing) = found {
            *self.seen.entry(doing).or_default() += 1;
        }
    }
}

fn next(now: Nanos, random: &mut Random) -> Nanos {
    now.saturating_add((-random.open_unit().ln() * EVERY as f64) as Nanos)
}

/// A process and its descendants, those that have ended and were not waited for included.
pub(super) fn tree(process: i32) -> Vec<i32> {
    let mut found = vec![process];
    let mut at = 0;
    while at < found.len() && found.len() < THREADS_MAX {
        let folder = PathBuf::from(format!("/proc/{}/task", found[at]));
        for thread in numbered(&folder) {
            let children = fs::read_to_string(folder.join(format!("{thread}/children"))).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        at += 1;
    }
    found
}

/// The entries of a folder that are numbers.
pub(super) fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The most memory that a process had in use so far.
pub(super) fn peak_bytes(folder: &Path) -> Option<u64> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// What a thread does; none when it has ended, or may not be looked at.
fn doing(thread: &Path) -> Option<Doing> {
    let stat = fs::read(thread.join("stat")).ok()?;
    let state = ProcessStat::parse(&stat)?.state;
    match state {
        b'R' => return Some(Doing::Running),
        b'S' | b'D' => {}
        _ => return None,
    }
    let text = fs::read(thread.join("syscall")).ok()?;
    // It woke up between the two looks.
    let Some(call) = system_call::call(&text) else { return Some(Doing::Running) };
    let on_disk = state == b'D';
    Some(match call {
        Call::Flush => Doing::Flushes,
        Call::Write(descriptor) | Call::WriteAt(descriptor) => match file(thread, descriptor) {
            Some(file) if file.is_durable => Doing::Flushes,
            Some(_) => Doing::Transfers,
            None => other_end(thread, descriptor, on_disk),
        },
        Call::Read(descriptor) => match file(thread, descriptor) {
            Some(_) => Doing::Transfers,
            None => other_end(thread, descriptor, on_disk),
        },
        Call::Transfer => Doing::Transfers,
        Call::Timer => Doing::Asleep,
        Call::Futex(_) => Doing::Lock,
        Call::Accept => Doing::Network,
        // Asleep outside of a call: a page is being read.
        Call::Other if on_disk && text.starts_with(b"-1") => Doing::PageFaults,
        // Names are looked up and folders read in many calls.
        Call::Other if on_disk => Doing::Transfers,
        Call::Events | Call::Epoll(_) | Call::Poll(..) | Call::Other => Doing::Other,
    })
}

/// A regular file, or a device.
struct OpenFile {
    /// Whether a write is over only when the data is safe on the device.
    is_durable: bool,
}

fn file(thread: &Path, descriptor: u32) -> Option<OpenFile> {
    let link = fs::read_link(thread.join(format!("fd/{descriptor}"))).ok()?;
    if !link.is_absolute() || link.starts_with("/dev/pts") || link.starts_with("/dev/tty") {
        return None;
    }
    let about = fs::read(thread.join(format!("fdinfo/{descriptor}"))).unwrap_or_default();
    Some(OpenFile { is_durable: system_call::is_synced(&about) })
}

/// What a thread waits for that reads or writes no file.
fn other_end(thread: &Path, descriptor: u32, on_disk: bool) -> Doing {
    let link = fs::read_link(thread.join(format!("fd/{descriptor}"))).unwrap_or_default();
    match link.to_str() {
        Some(link) if link.starts_with("socket:") => Doing::Network,
        _ if on_disk => Doing::Transfers,
        _ => Doing::Other,
    }
}
