//! Waits with a deadline and an interrupt. Clients of other protocols use it too.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// The interval at which a wait checks for an interrupt.
pub const SLICE: Duration = Duration::from_millis(100);

/// How long operations may continue after an interrupt, so that a batch can be completed.
pub const GRACE: Duration = Duration::from_secs(2);

/// Ends every wait: a flag that a signal handler sets. The default is never set.
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<Inner>>);

struct Inner {
    flag: &'static AtomicBool,
    /// When the flag was first seen.
    seen: OnceLock<Instant>,
}

impl Interrupt {
    /// An interrupt with this flag.
    pub fn by(flag: &'static AtomicBool) -> Interrupt {
        Interrupt(Some(Arc::new(Inner { flag, seen: OnceLock::new() })))
    }

    /// Whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| {
            let is_set = inner.flag.load(Ordering::Relaxed);
            if is_set {
                inner.seen.get_or_init(Instant::now);
            }
            is_set
        })
    }

    /// Whether it was set longer than [`GRACE`] ago: then no wait continues.
    pub fn is_over(&self) -> bool {
        self.is_set()
            && self
                .0
                .as_ref()
                .is_some_and(|inner| inner.seen.get().is_some_and(|seen| seen.elapsed() >= GRACE))
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Interrupt").field(&self.is_set()).finish()
    }
}

impl PartialEq for Interrupt {
    /// Whether both use the same flag.
    fn eq(&self, other: &Interrupt) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Interrupt {}

/// The error of an interrupted wait. It is not [`ErrorKind::Interrupted`], because callers would try again.
pub fn interrupted() -> io::Error {
    io::Error::other("interrupted")
}

/// Checks whether a wait may continue; returns the time until the next check.
///
/// # Errors
/// [`ErrorKind::TimedOut`] after the deadline, or the error of [`interrupted`] after an interrupt.
pub fn slice(deadline: Instant, interrupt: &Interrupt) -> io::Result<Duration> {
    if interrupt.is_over() {
        return Err(interrupted());
    }
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left.min(SLICE)),
    }
}

/// Waits until a descriptor is ready, at most this long; returns whether it is.
///
/// # Errors
/// When the kernel cannot wait.
pub fn ready(descriptor: impl AsFd, flags: PollFlags, time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).map_err(|_| ErrorKind::InvalidInput)?;
    match poll(&mut [PollFd::new(&descriptor, flags)], Some(&time)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The addresses of a host. The system's resolver cannot be interrupted, so it runs on a thread that is
/// abandoned after the deadline or an interrupt.
///
/// # Errors
/// When the name has no address, or is not resolved in time.
pub fn resolve(
    host: &str,
    port: u16,
    deadline: Instant,
    interrupt: &Interrupt,
) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = channel();
    let host = host.to_string();
    let look_up = move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        // The receiver may be gone.
        let _ = sender.send(found);
    };
    std::thread::Builder::new().name("resolve".into()).spawn(look_up)?;
    loop {
        match receiver.recv_timeout(slice(deadline, interrupt)?) {
            Ok(Ok(found)) if found.is_empty() => {
                return Err(io::Error::new(ErrorKind::NotFound, "the name has no address"));
            }
            Ok(found) => return found,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the resolver broke down")),
        }
    }
}

/// A non-blocking connection to the first of these addresses that accepts one. Each address gets a share of
/// the time.
///
/// # Errors
/// The error of the last address, or of the interrupt.
pub fn open(addresses: &[SocketAddr], deadline: Instant, interrupt: &Interrupt) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for (at, address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        let share = left / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match open_one(address, now + share, interrupt) {
            Ok(stream) => return Ok(stream),
            Err(error) if interrupt.is_over() => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A non-blocking connection to a local socket.
///
/// # Errors
/// When nothing accepts it in time, or the error of the interrupt.
pub fn open_local(path: &Path, deadline: Instant, interrupt: &Interrupt) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            // Too many connections wait to be accepted.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                std::thread::sleep(slice(deadline, interrupt)?.min(Duration::from_millis(10)));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn open_one(address: &SocketAddr, deadline: Instant, interrupt: &Interrupt) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => {}
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {
            while !ready(&socket, PollFlags::OUT, slice(deadline, interrupt)?)? {}
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    // A peer that vanished is noticed within two minutes, also on a connection that only waits.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(&stream, 6)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_lets_a_wait_go_on_for_the_grace_and_no_longer() {
        let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let (interrupt, late) = (Interrupt::by(flag), Instant::now() + Duration::from_secs(3600));
        assert!(!interrupt.is_set() && slice(late, &interrupt).is_ok());
        flag.store(true, Ordering::Relaxed);
        assert!(interrupt.is_set() && !interrupt.is_over());
        while !interrupt.is_over() {
            std::thread::sleep(SLICE);
        }
        assert_eq!(slice(late, &interrupt).unwrap_err().to_string(), "interrupted");
        assert!(!Interrupt::default().is_set());
    }

    #[test]
    fn addresses_are_tried_one_after_the_other() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (deadline, never) = (Instant::now() + Duration::from_secs(60), Interrupt::default());
        assert_eq!(open(&[closed, here], deadline, &never).unwrap().peer_addr().unwrap(), here);
        assert_eq!(open(&[here, closed], deadline, &never).unwrap().peer_addr().unwrap(), here);
        let refused = open(&[closed], deadline, &never).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(resolve("127.0.0.1", 5, deadline, &never).unwrap(), ["127.0.0.1:5".parse().unwrap()]);
        assert!(
            resolve("localhost", 5, deadline, &never).unwrap().iter().all(|found| found.ip().is_loopback())
        );
        assert_eq!(resolve("a.b", 5, Instant::now(), &never).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
