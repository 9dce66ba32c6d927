//! The system calls of kernel tracing: bpf(2), perf_event_open(2) and its ioctl(2).
//!
//! The only unsafe code of this crate. Each structure is the kernel's, and each pointer in it is to memory that outlives
//! the call.
#![allow(unsafe_code, reason = "these calls have no safe form in the standard library or rustix")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const MAP_NEXT_KEY: libc::c_int = 4;
const PROGRAM_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const LINK_CREATE: libc::c_int = 28;

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum MapKind {
    Hash = 1,
    /// An array with one copy of each value for each CPU.
    PerCpuArray = 6,
}

/// Kinds of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ProgramKind {
    /// For a probe at an instruction of a program.
    Probe = 2,
    /// For a tracepoint of the kernel.
    Tracepoint = 5,
    /// For a tracepoint of the kernel, with its arguments as they are in the kernel.
    RawTracepoint = 17,
}

/// The attach type of a link to many instructions (Linux 6.6 and newer).
const UPROBE_MULTI: u32 = 48;
/// The link is at the returns of the functions.
const MULTI_RETURN: u32 = 1;

/// The parts of `union bpf_attr` that are used here.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    reference_offsets: u64,
    cookies: u64,
    count: u32,
    multi_flags: u32,
    process: u32,
    padding: u32,
}

/// `struct perf_event_attr` up to `config2`, which the kernel accepts as its first version.
#[repr(C)]
#[derive(Default)]
struct PerfEvent {
    kind: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wake_up: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
}

/// Ioctl numbers of perf events.
const SET_PROGRAM: libc::c_ulong = 0x4004_2408;
const ENABLE: libc::c_ulong = 0x2400;
/// The event starts disabled.
const DISABLED: u64 = 1;
const TRACEPOINT: u32 = 2;
/// A flag of perf_event_open(2).
const CLOSE_ON_EXEC: libc::c_ulong = 8;

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    let bytes = size_of::<T>();
    // SAFETY: the kernel reads `bytes` bytes of the structure, which outlives the call; what its pointers lead to is
    // borrowed by the callers below for as long as the call lasts.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn number(descriptor: &OwnedFd) -> u32 {
    descriptor.as_raw_fd() as u32
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<()>() as u64
}

/// Makes a map.
pub(super) fn create_map(
    kind: MapKind,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
) -> io::Result<OwnedFd> {
    let attributes = MapCreate { kind: kind as u32, key_bytes, value_bytes, entries_max: entries, flags: 0 };
    owned(bpf(MAP_CREATE, &attributes)?)
}

fn element(map: &OwnedFd, key: &u32, value: u64) -> MapElement {
    MapElement { map: number(map), key: address(key), value, flags: 0 }
}

/// Reads the value of a key into `value`, which must be as long as the values of the map, for each possible CPU where it
/// has one for each.
pub(super) fn lookup(map: &OwnedFd, key: u32, value: &mut [u64]) -> io::Result<()> {
    bpf(MAP_LOOKUP, &element(map, &key, value.as_mut_ptr() as u64)).map(drop)
}

/// Sets the value of a key; `value` must be as long as the values of the map.
pub(super) fn update(map: &OwnedFd, key: u32, value: &[u64]) -> io::Result<()> {
    bpf(MAP_UPDATE, &element(map, &key, address(value))).map(drop)
}

/// Removes a key.
pub(super) fn delete(map: &OwnedFd, key: u32) -> io::Result<()> {
    bpf(MAP_DELETE, &element(map, &key, 0)).map(drop)
}

/// The key after `key`, or the first; none after the last.
pub(super) fn next_key(map: &OwnedFd, key: Option<u32>) -> Option<u32> {
    let mut next = 0_u32;
    let before = key.as_ref().map_or(0, address);
    let attributes = MapElement { map: number(map), key: before, value: (&raw mut next) as u64, flags: 0 };
    bpf(MAP_NEXT_KEY, &attributes).ok().map(|_| next)
}

/// Loads a program. After a rejection, the error has the last lines of the verifier's log.
pub(super) fn load(kind: ProgramKind, code: &[[u8; 8]], is_multi: bool) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind: kind as u32,
        instructions: code.len() as u32,
        code: address(code),
        // Tracing programs must be licensed so to call the kernel's helpers.
        licence: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"plimsoll\0\0\0\0\0\0\0\0",
        interface: 0,
        attach_type: if is_multi { UPROBE_MULTI } else { 0 },
    };
    let error = match bpf(PROGRAM_LOAD, &attributes) {
        Ok(descriptor) => return owned(descriptor),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
        Err(error) => error,
    };
    let mut log = vec![0_u8; 64 << 10];
    (attributes.log_level, attributes.log_bytes, attributes.log) =
        (1, log.len() as u32, log.as_mut_ptr() as u64);
    match bpf(PROGRAM_LOAD, &attributes) {
        Ok(descriptor) => owned(descriptor),
        Err(_) => {
            let text =
                CStr::from_bytes_until_nul(&log).map(|text| text.to_string_lossy()).unwrap_or_default();
            let last: Vec<&str> = text.trim_end().lines().rev().take(3).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            Err(io::Error::new(error.kind(), format!("{error}; the verifier says: {}", last.join(" / "))))
        }
    }
}

/// Attaches a program to many instructions of one file, in one process only.
pub(super) fn attach_multi(
    program: &OwnedFd,
    path: &CString,
    offsets: &[u64],
    is_return: bool,
    process: u32,
) -> io::Result<OwnedFd> {
    let attributes = LinkCreate {
        program: number(program),
        target: 0,
        attach_type: UPROBE_MULTI,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: address(offsets),
        reference_offsets: 0,
        cookies: 0,
        count: offsets.len() as u32,
        multi_flags: if is_return { MULTI_RETURN } else { 0 },
        process,
        padding: 0,
    };
    owned(bpf(LINK_CREATE, &attributes)?)
}

fn open_event(event: &PerfEvent, process: i32, cpu: i32) -> io::Result<OwnedFd> {
    let none: libc::c_int = -1;
    let flags: libc::c_ulong = CLOSE_ON_EXEC;
    // SAFETY: the kernel reads the structure, whose size is in it, and it and the path in `config1` outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_perf_event_open, event, process, cpu, none, flags) };
    if result < 0 { Err(io::Error::last_os_error()) } else { owned(result) }
}

fn start(event: OwnedFd, program: &OwnedFd) -> io::Result<OwnedFd> {
    for (request, argument) in [(SET_PROGRAM, program.as_raw_fd()), (ENABLE, 0)] {
        // SAFETY: both requests take a number and no pointer; both descriptors are open.
        if unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}

/// Attaches a program to a tracepoint by its number. It runs on every CPU.
pub(super) fn attach_tracepoint(program: &OwnedFd, id: u64) -> io::Result<OwnedFd> {
    let event = PerfEvent {
        kind: TRACEPOINT,
        bytes: size_of::<PerfEvent>() as u32,
        config: id,
        sample_period: 1,
        flags: DISABLED,
        ..PerfEvent::default()
    };
    start(open_event(&event, -1, 0)?, program)
}

/// Attaches a program to a tracepoint by its name, without the cost of a perf event. It runs on every CPU.
pub(super) fn attach_raw_tracepoint(program: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let attributes = RawTracepointOpen { name: name.as_ptr() as u64, program: number(program), padding: 0 };
    owned(bpf(RAW_TRACEPOINT_OPEN, &attributes)?)
}

/// Attaches a program to one instruction of a file, in one process only. `kind` is the number of the kernel's `uprobe`
/// unit.
pub(super) fn attach_probe(
    program: &OwnedFd,
    kind: u32,
    path: &CString,
    offset: u64,
    return_flag: u64,
    process: u32,
) -> io::Result<OwnedFd> {
    let event = PerfEvent {
        kind,
        bytes: size_of::<PerfEvent>() as u32,
        config: return_flag,
        sample_period: 1,
        flags: DISABLED,
        config1: path.as_ptr() as u64,
        config2: offset,
        ..PerfEvent::default()
    };
    start(open_event(&event, process as i32, -1)?, program)
}
