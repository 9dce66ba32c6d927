//! Determines what a sleeping thread waits for from its system call.
//!
//! `/proc/PID/task/TID/syscall` has the number of the call and its arguments; see proc_pid_syscall(5). A lock
//! and an idle thread of a pool look the same here, because both sleep in a futex. The analysis distinguishes
//! them by the number of threads at one address and by whether work waits meanwhile.

/// The system call in which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Waiting at this address for a lock, or for work from another thread.
    Futex(u64),
    /// Waiting for a timeout.
    Timer,
    /// Waiting for any of several descriptors: an event loop.
    Events,
    /// The same, with the descriptors in this `epoll` descriptor.
    Epoll(u32),
    /// The same, with the descriptors in the process: this number of `struct pollfd` at this address.
    Poll(u64, u64),
    /// Waiting for a connection.
    Accept,
    /// Reading from this descriptor, which may be a file or a socket.
    Read(u32),
    /// Writing to this descriptor.
    Write(u32),
    /// Writing to this descriptor at a file offset.
    WriteAt(u32),
    /// Waiting for asynchronous I/O, or reading at a file offset.
    Transfer,
    /// Waiting for a flush to the device.
    Flush,
    /// Anything else.
    Other,
}

/// Parses the text of `syscall`; none for a thread that runs or is not accessible.
pub fn call(text: &[u8]) -> Option<Call> {
    let mut fields = text.trim_ascii_end().split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let first = fields.next()?;
    if first == b"-1" {
        // Asleep, but not in a call: a page fault that reads from a device.
        return Some(Call::Other);
    }
    let argument = fields.next().and_then(hexadecimal);
    let descriptor = || argument.and_then(|value| u32::try_from(value).ok()).unwrap_or(u32::MAX);
    let number: libc::c_long = std::str::from_utf8(first).ok()?.parse().ok()?;
    #[cfg(target_arch = "x86_64")]
    match number {
        libc::SYS_select => return Some(select(argument)),
        libc::SYS_poll => return Some(poll(argument?, fields.next().and_then(hexadecimal)?)),
        libc::SYS_epoll_wait => return Some(Call::Epoll(descriptor())),
        _ => {}
    }
    Some(match number {
        libc::SYS_futex | SYS_FUTEX_WAIT | libc::SYS_futex_waitv => Call::Futex(argument.unwrap_or(0)),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Timer,
        libc::SYS_pselect6 => select(argument),
        libc::SYS_ppoll => poll(argument?, fields.next().and_then(hexadecimal)?),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Call::Epoll(descriptor()),
        libc::SYS_accept | libc::SYS_accept4 => Call::Accept,
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => Call::Read(descriptor()),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            Call::Write(descriptor())
        }
        // The sixth argument has the flags.
        libc::SYS_pwritev2
            if fields.nth(4).and_then(hexadecimal).is_some_and(|flags| flags & SYNCED != 0) =>
        {
            Call::Flush
        }
        libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => Call::WriteAt(descriptor()),
        libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_io_getevents
        | libc::SYS_io_uring_enter => Call::Transfer,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range | libc::SYS_msync => Call::Flush,
        _ => Call::Other,
    })
}

/// A wait for descriptors below this one; for none of them, it is a sleep.
fn select(descriptors: Option<u64>) -> Call {
    if descriptors == Some(0) { Call::Timer } else { Call::Events }
}

/// A wait for this number of descriptors.
fn poll(address: u64, count: u64) -> Call {
    if count == 0 { Call::Timer } else { Call::Poll(address, count) }
}

/// `futex_wait`, since Linux 6.7, which the libc crate does not define yet.
const SYS_FUTEX_WAIT: libc::c_long = 455;

/// Flags of `pwritev2` with which it returns only when the data is durable.
const SYNCED: u64 = (libc::RWF_DSYNC | libc::RWF_SYNC) as u64;

/// Whether a write to a descriptor returns only when the data is durable, according to its `fdinfo`: see
/// proc_pid_fdinfo(5) and open(2). `O_SYNC` includes the bit of `O_DSYNC`.
pub fn is_synced(fdinfo: &[u8]) -> bool {
    let mut lines = fdinfo.split(|byte| *byte == b'\n');
    let flags = lines.find_map(|line| line.strip_prefix(b"flags:")).map(<[u8]>::trim_ascii);
    let flags = flags.and_then(|flags| u32::from_str_radix(std::str::from_utf8(flags).ok()?, 8).ok());
    flags.is_some_and(|flags| flags & libc::O_DSYNC as u32 != 0)
}

/// The descriptors in an array of `struct pollfd`: `int fd; short events, revents;`. Negative ones are
/// skipped.
pub fn polled(array: &[u8]) -> impl Iterator<Item = u32> {
    let descriptors = array.chunks_exact(POLLED_BYTES).filter_map(|one| one.first_chunk());
    descriptors.filter_map(|bytes| u32::try_from(i32::from_ne_bytes(*bytes)).ok())
}

/// The size of a `struct pollfd`.
pub const POLLED_BYTES: usize = 8;

/// The descriptors in an `epoll` descriptor, according to its `fdinfo`.
pub fn watched(fdinfo: &[u8]) -> impl Iterator<Item = u32> {
    let lines = fdinfo.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"tfd:"));
    lines.filter_map(|line| {
        let first = line.trim_ascii_start().split(|byte| byte.is_ascii_whitespace()).next()?;
        std::str::from_utf8(first).ok()?.parse().ok()
    })
}

fn hexadecimal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(field).ok()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_distinguished() {
        let cases: [(&str, Option<Call>); 24] = [
            ("running\n", None),
            ("", None),
            ("-1 0x7ffc 0x7f01\n", Some(Call::Other)),
            ("202 0x7f0a11c0 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f01\n", Some(Call::Futex(0x7f0a_11c0))),
            ("455 0x7f0a11c0 0x80\n", Some(Call::Futex(0x7f0a_11c0))),
            ("230 0x1 0x0 0x7ffc\n", Some(Call::Timer)),
            ("7 0x7ffc 0x2 0x1388\n", Some(Call::Poll(0x7ffc, 2))),
            ("271 0x7ffc 0x1 0x7ffd 0x0\n", Some(Call::Poll(0x7ffc, 1))),
            ("270 0x4 0x7ffc 0x0\n", Some(Call::Events)),
            ("270 0x0 0x0 0x0\n", Some(Call::Timer)),
            ("23 0x0 0x0 0x0 0x0 0x7ffc\n", Some(Call::Timer)),
            ("7 0x0 0x0 0xc8\n", Some(Call::Timer)),
            ("232 0x4 0x7ffc 0x400\n", Some(Call::Epoll(4))),
            ("281 0x4 0x7ffc 0x400\n", Some(Call::Epoll(4))),
            ("288 0x3 0x0 0x0\n", Some(Call::Accept)),
            ("0 0x9 0x7ffc 0x1000\n", Some(Call::Read(9))),
            ("44 0xa 0x7ffc 0x1000\n", Some(Call::Write(10))),
            ("17 0x9 0x7ffc 0x1000 0x0\n", Some(Call::Transfer)),
            ("18 0x7 0x7ffc 0x88 0x10 0x0 0x0 0x7ffc 0x7f01\n", Some(Call::WriteAt(7))),
            ("296 0x7 0x7ffc 0x2 0x1000 0x0 0x0 0x7ffc 0x7f01\n", Some(Call::WriteAt(7))),
            ("328 0x7 0x7ffc 0x2 0x1000 0x0 0x0 0x7ffc 0x7f01\n", Some(Call::WriteAt(7))),
            ("328 0x7 0x7ffc 0x2 0x1000 0x0 0x2 0x7ffc 0x7f01\n", Some(Call::Flush)),
            ("75 0x9\n", Some(Call::Flush)),
            ("61 0xffffffffffffffff\n", Some(Call::Other)),
        ];
        for (text, expected) in cases {
            assert_eq!(call(text.as_bytes()), expected, "{text}");
        }
    }

    /// Texts of the kernel for `open` with `O_RDWR`, also with `O_DSYNC` and with `O_SYNC`.
    #[test]
    fn a_descriptor_shows_whether_its_writes_are_flushed() {
        let of = |flags: &str| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\nino:\t1\n");
        for (text, expected) in [
            (of("0100002"), false),
            (of("0110002"), true),
            (of("04110002"), true),
            (of(""), false),
            (String::new(), false),
        ] {
            assert_eq!(is_synced(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_descriptor_of_epoll_shows_what_it_waits_for() {
        let text = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1066\n\
                    tfd:        6 events: 80000019 data:                0  pos:0 ino:42b sdev:f\n\
                    tfd:       11 events: 8000201d data:     55d0c3a1f2c0  pos:0 ino:9e31 sdev:8\n";
        assert_eq!(watched(text.as_bytes()).collect::<Vec<u32>>(), [6, 11]);
        assert_eq!(watched(b"pos:\t0\ntfd:\n").count(), 0);
    }

    #[test]
    fn descriptors_are_taken_out_of_an_array_for_poll() {
        let mut array = Vec::new();
        for descriptor in [9_i32, -1, 12] {
            array.extend(descriptor.to_ne_bytes());
            array.extend([1, 0, 0, 0]);
        }
        array.truncate(22);
        assert_eq!(polled(&array).collect::<Vec<u32>>(), [9]);
        array.extend([0, 0]);
        assert_eq!(polled(&array).collect::<Vec<u32>>(), [9, 12]);
    }
}
