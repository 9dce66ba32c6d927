//! What a sleeping thread waits for, told from the system call it sleeps in.
//!
//! `/proc/PID/task/TID/syscall` gives the number of the call and its arguments; see proc_pid_syscall(5). A lock and an
//! idle thread of a pool look the same here, both sleep in a futex: which it is shows in how many share one address
//! and in whether work waits meanwhile, and that is for the analysis to judge.

/// The call a thread sleeps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Waiting for a lock, or for another thread to hand over work, at this address.
    Futex(u64),
    /// Waiting for a time to come.
    Timer,
    /// Waiting for any of several descriptors: an event loop.
    Events,
    /// Waiting for a connection to come.
    Accept,
    /// Reading from this descriptor, which may be a file or a socket.
    Read(u32),
    /// Writing to this descriptor.
    Write(u32),
    /// Waiting for asynchronous I/O, or moving data at a place in a file.
    Transfer,
    /// Waiting until data is safe on the device.
    Flush,
    /// Anything else.
    Other,
}

/// Reads the text of `syscall`; nothing for a thread that runs or that may not be looked at.
pub fn call(text: &[u8]) -> Option<Call> {
    let mut fields = text.trim_ascii_end().split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let first = fields.next()?;
    if first == b"-1" {
        // Asleep, but not in a call: a page that is being read.
        return Some(Call::Other);
    }
    let argument = fields.next().and_then(hexadecimal);
    let descriptor = || argument.and_then(|value| u32::try_from(value).ok()).unwrap_or(u32::MAX);
    let number: libc::c_long = std::str::from_utf8(first).ok()?.parse().ok()?;
    #[cfg(target_arch = "x86_64")]
    match number {
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => return Some(Call::Events),
        _ => {}
    }
    Some(match number {
        libc::SYS_futex | SYS_FUTEX_WAIT | libc::SYS_futex_waitv => Call::Futex(argument.unwrap_or(0)),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Timer,
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Call::Events,
        libc::SYS_accept | libc::SYS_accept4 => Call::Accept,
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => Call::Read(descriptor()),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            Call::Write(descriptor())
        }
        libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_io_getevents
        | libc::SYS_io_uring_enter => Call::Transfer,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range | libc::SYS_msync => Call::Flush,
        _ => Call::Other,
    })
}

/// `futex_wait`, since Linux 6.7, which the libc crate does not name yet.
const SYS_FUTEX_WAIT: libc::c_long = 455;

fn hexadecimal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(field).ok()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_told_apart() {
        let cases: [(&str, Option<Call>); 14] = [
            ("running\n", None),
            ("", None),
            ("-1 0x7ffc 0x7f01\n", Some(Call::Other)),
            ("202 0x7f0a11c0 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f01\n", Some(Call::Futex(0x7f0a_11c0))),
            ("455 0x7f0a11c0 0x80\n", Some(Call::Futex(0x7f0a_11c0))),
            ("230 0x1 0x0 0x7ffc\n", Some(Call::Timer)),
            ("232 0x4 0x7ffc 0x400\n", Some(Call::Events)),
            ("281 0x4 0x7ffc 0x400\n", Some(Call::Events)),
            ("288 0x3 0x0 0x0\n", Some(Call::Accept)),
            ("0 0x9 0x7ffc 0x1000\n", Some(Call::Read(9))),
            ("44 0xa 0x7ffc 0x1000\n", Some(Call::Write(10))),
            ("17 0x9 0x7ffc 0x1000 0x0\n", Some(Call::Transfer)),
            ("75 0x9\n", Some(Call::Flush)),
            ("61 0xffffffffffffffff\n", Some(Call::Other)),
        ];
        for (text, expected) in cases {
            assert_eq!(call(text.as_bytes()), expected, "{text}");
        }
    }
}
