//! Sockets of a worker's connections, and the epoll that watches them.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use engine::allowed::Opener;
use engine::workload::LoadError;
use model::{MILLISECOND, Nanos, SECOND};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};

use super::errno_words;

/// Most events taken from epoll at a time.
const EVENTS_MAX: usize = 256;

/// A wait from which milliseconds are enough: nanoseconds cost the kernel more.
const LONG: Nanos = 10 * MILLISECOND;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    /// A socket of this host.
    Local(Opener, PathBuf),
}

/// An epoll with the events that it reported last.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// Number of processed events.
    taken: usize,
    /// Whether epoll waits in whole milliseconds here.
    coarse: bool,
}

impl Poller {
    pub(crate) fn new() -> Result<Poller, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS_MAX), taken: 0, coarse: false })
    }

    /// The next event that was not taken yet.
    pub(crate) fn next(&mut self) -> Option<libc::epoll_event> {
        let event = self.events.get(self.taken).copied()?;
        self.taken += 1;
        Some(event)
    }

    /// Takes an event again, after the others.
    pub(crate) fn again(&mut self, event: libc::epoll_event) {
        if self.taken == self.events.len() {
            self.events.clear();
            self.taken = 0;
        }
        self.events.push(event);
    }

    /// Waits for events, but not past `until`.
    pub(crate) fn wait(&mut self, until: Nanos, now: Nanos) -> Result<(), LoadError> {
        self.events.clear();
        self.taken = 0;
        match wait(&self.epoll, &mut self.events, until.saturating_sub(now), &mut self.coarse) {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// A socket that is connecting to this address. Its events have this data, and are reported once for each change.
    pub(crate) fn connect(&self, address: &Address, data: u64) -> Result<OwnedFd, Errno> {
        use epoll::EventFlags as Flags;
        let family = match address {
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Local(..) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let protocol = if family == AddressFamily::UNIX { None } else { Some(ipproto::TCP) };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, protocol)?;
        let connected = match address {
            Address::Tcp(address) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                rustix::net::connect(&socket, address)
            }
            Address::Local(opener, path) => {
                let connect = |path: &Path| rustix::net::connect(&socket, &SocketAddrUnix::new(path)?);
                let connected = opener.use_socket(path, connect);
                connected.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))?
            }
        };
        let events = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        match connected {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(data), events)?;
        Ok(socket)
    }
}

fn failed(errno: Errno) -> LoadError {
    LoadError::new(format!("epoll: {}", errno_words(errno.raw_os_error())), "")
}

/// The end of the load, if a connection could not be opened because this machine allows no more of them.
pub(crate) fn exhausted(errno: Errno) -> Option<LoadError> {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM).then(|| {
        LoadError::new(
            format!("no more connections can be opened: {}", errno_words(errno.raw_os_error())),
            "raise the limit of open files (ulimit -Hn), or lower the load or `connections`",
        )
    })
}

/// Whether an idle connection is open and has no pending data.
pub(crate) fn is_quiet(socket: &OwnedFd) -> bool {
    let mut byte = [0u8];
    rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) == Err(Errno::AGAIN)
}

/// Lets the close of a socket reset its connection.
pub(crate) fn reset_on_close(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO));
}

/// Waits for as many events as there is room for, at most so long. Nanoseconds need Linux 5.11; `coarse` is set where there
/// are only milliseconds, rounded up. By hand, as rustix rounds to those everywhere.
fn wait(
    epoll: &OwnedFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Nanos,
    coarse: &mut bool,
) -> Result<(), Errno> {
    let room = events.capacity() as i32;
    if !*coarse && timeout < LONG {
        let timeout = Timespec { tv_sec: (timeout / SECOND) as i64, tv_nsec: (timeout % SECOND) as _ };
        // SAFETY: there is room for so many events, the timeout lives across the call, and no signal mask is given.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll.as_raw_fd(),
                events.as_mut_ptr(),
                room,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if found >= 0 {
            // SAFETY: the kernel has written so many events.
            unsafe { events.set_len(found as usize) };
            return Ok(());
        }
        match last_errno() {
            // A sandbox may refuse a call it does not know.
            Errno::NOSYS | Errno::PERM => *coarse = true,
            errno => return Err(errno),
        }
    }
    // A long wait ends a little early, and is continued.
    let timeout_ms = if *coarse { timeout.div_ceil(MILLISECOND) } else { timeout / MILLISECOND };
    let timeout_ms = timeout_ms.min(i32::MAX as u64) as i32;
    // SAFETY: there is room for so many events.
    let found = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, timeout_ms) };
    if found < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel has written so many events.
    unsafe { events.set_len(found as usize) };
    Ok(())
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
