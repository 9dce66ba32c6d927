//! The files of one process or thread, as far as they are needed here.

use engine::process_stat::ProcessStat;

use crate::reader::{fields, named_numbers, number, numbers};

/// A thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Sleeping,
    /// Uninterruptible sleep, mostly for a disk.
    DiskWait,
    /// Stopped, traced, ended.
    Other,
}

impl State {
    fn from_letter(letter: u8) -> State {
        match letter {
            b'R' => State::Running,
            b'S' | b'I' => State::Sleeping,
            b'D' => State::DiskWait,
            _ => State::Other,
        }
    }
}

/// What is read from `/proc/PID/stat`.
#[derive(Debug, PartialEq)]
pub(super) struct Stat<'a> {
    /// The name, at most 15 bytes.
    pub(super) name: &'a [u8],
    /// The parent's PID.
    pub(super) parent: u32,
    /// True when only the entry is left, for the parent to collect.
    pub(super) is_ended: bool,
    /// Page faults without I/O; own, and of children that ended and were waited for.
    pub(super) minor_faults: [u64; 2],
    /// Page faults with I/O, likewise.
    pub(super) major_faults: [u64; 2],
    /// Clock ticks in programs, likewise.
    pub(super) user_ticks: [u64; 2],
    /// Clock ticks in the kernel, likewise.
    pub(super) system_ticks: [u64; 2],
    /// Threads.
    pub(super) threads: u64,
    /// When it started, in clock ticks since the machine did.
    pub(super) started: u64,
    /// Pages in memory.
    pub(super) resident_pages: u64,
}

/// Reads `/proc/PID/stat`; nothing when it is empty or malformed.
pub(super) fn stat(text: &[u8]) -> Option<Stat<'_>> {
    let stat = ProcessStat::parse(text)?;
    let pair = |own, of_children| Some([stat.number(own)?, stat.number(of_children)?]);
    let threads = stat.number(20)?;
    Some(Stat {
        name: stat.name,
        parent: stat.parent()?,
        is_ended: matches!(stat.state, b'Z' | b'X' | b'x') && threads <= 1,
        minor_faults: pair(10, 11)?,
        major_faults: pair(12, 13)?,
        user_ticks: pair(14, 16)?,
        system_ticks: pair(15, 17)?,
        threads,
        started: stat.started_ticks()?,
        resident_pages: stat.number(24)?,
    })
}

/// Reads `/proc/PID/io`: bytes of read calls, bytes of write calls, read calls, write calls, bytes from storage,
/// bytes to storage. Children that ended and were waited for are included by the kernel.
pub(super) fn io(text: &[u8]) -> Option<[u64; 6]> {
    let mut values = [None; 6];
    for (name, value) in named_numbers(text) {
        let index = match name {
            b"rchar" => 0,
            b"wchar" => 1,
            b"syscr" => 2,
            b"syscw" => 3,
            b"read_bytes" => 4,
            b"write_bytes" => 5,
            _ => continue,
        };
        values[index] = Some(value);
    }
    let [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)] = values else { return None };
    Some([a, b, c, d, e, f])
}

/// The state and the voluntary and involuntary context switches of a thread, from its `status`. Of its some fifty
/// lines the state is among the first and the switches are among the last, so it is read from both ends.
pub(super) fn status(text: &[u8]) -> Option<(State, u64, u64)> {
    let letter = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"State:"));
    let state = State::from_letter(*fields(letter?).next()?.first()?);
    let mut from_the_end = text.rsplit(|&byte| byte == b'\n');
    let mut switches = |name: &[u8]| {
        let count = from_the_end.find_map(|line| line.strip_prefix(name));
        number(fields(count?).next()?)
    };
    let involuntary = switches(b"nonvoluntary_ctxt_switches:")?;
    let voluntary = switches(b"voluntary_ctxt_switches:")?;
    Some((state, voluntary, involuntary))
}

/// The nanoseconds a thread ran and waited in the run queue, and how often it was given a CPU, from its `schedstat`.
pub(super) fn schedstat(text: &[u8]) -> [Option<u64>; 3] {
    numbers(fields(text.trim_ascii_end()))
}

/// The last part of the path a process was started by, from its `cmdline`.
pub(super) fn program(command_line: &[u8]) -> &[u8] {
    let first = command_line.split(|&byte| byte == 0).next().unwrap_or_default();
    first.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The PID the kernel gave last, from `/proc/loadavg`: while it stays, no process and no thread was made.
pub(super) fn last_pid(loadavg: &[u8]) -> Option<u64> {
    number(fields(loadavg.trim_ascii_end()).nth(4)?)
}
