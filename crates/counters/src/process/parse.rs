//! The files of one process or thread, as far as they are needed here.

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

/// Reads `/proc/PID/stat`; nothing when it is empty or malformed. The name stands in parentheses and may itself hold
/// blanks and parentheses.
pub(super) fn stat(text: &[u8]) -> Option<Stat<'_>> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let name = text.get(open + 1..close)?;
    let mut fields = fields(text.get(close + 1..)?.trim_ascii_end());
    let letter = *fields.next()?.first()?;
    let rest: [Option<u64>; 21] = numbers(fields);
    let threads = rest[16]?;
    Some(Stat {
        name,
        parent: u32::try_from(rest[0]?).ok()?,
        is_ended: matches!(letter, b'Z' | b'X' | b'x') && threads <= 1,
        minor_faults: [rest[6]?, rest[7]?],
        major_faults: [rest[8]?, rest[9]?],
        user_ticks: [rest[10]?, rest[12]?],
        system_ticks: [rest[11]?, rest[13]?],
        threads,
        started: rest[18]?,
        resident_pages: rest[20]?,
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

/// The nanoseconds a thread ran and waited in the run queue, from its `schedstat`.
pub(super) fn schedstat(text: &[u8]) -> [Option<u64>; 2] {
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
