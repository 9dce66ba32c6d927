//! The sockets of a process: how many connections wait to be accepted, and who is at the other end of one.
//!
//! Listening sockets are queried by sock_diag(7), in Plimsoll's network namespace. Connections are
//! not: a scan of their table takes a millisecond even without connections. The one that a thread waits at is inspected
//! by a duplicate of its descriptor (pidfd_getfd(2)), which is closed again at once.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use model::{MILLISECOND, Nanos};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, netlink};
use rustix::process::PidfdGetfdFlags;

/// A listening TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// What `/proc/PID/fd` calls it.
    pub(super) inode: u32,
    pub(super) port: u16,
    /// Connections that wait to be accepted, and the most that may.
    pub(super) waiting: u32,
    pub(super) waiting_limit: u32,
}

/// All listening sockets as of the last time it was worth asking.
pub(super) struct Listeners {
    diagnosis: Option<OwnedFd>,
    /// By inode.
    list: Vec<Listener>,
    buffer: Vec<u8>,
    asked_at: Option<Nanos>,
}

/// The kernel needs about 1 us to describe a socket: at most 0.1 % of the time is used for this.
const TIME_PER_SOCKET: Nanos = MILLISECOND;
/// The two questions, for either version of IP, take 60 us and more.
const PAUSE: Nanos = 200 * MILLISECOND;
/// More sockets than this are not kept.
const MOST_SOCKETS: usize = 10_000;

// From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and net/tcp_states.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x1 | 0x300;
const MESSAGE_DONE: u16 = 3;
const MESSAGE_ERROR: u16 = 2;
const HEADER_BYTES: usize = 16;
const ANSWER_BYTES: usize = 72;
const TCP: u8 = 6;
/// Listening.
const STATES: u32 = 1 << 10;

impl Listeners {
    /// `live`: a fixture has no kernel to ask.
    pub(super) fn new(live: bool) -> Self {
        let open = || {
            let protocol = Some(netlink::SOCK_DIAG);
            rustix::net::socket_with(
                AddressFamily::NETLINK,
                SocketType::RAW,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                protocol,
            )
        };
        let diagnosis = if live { open().ok() } else { None };
        Listeners { diagnosis, list: Vec::new(), buffer: vec![0; 64 << 10], asked_at: None }
    }

    /// Whether the kernel answers.
    pub(super) fn are_known(&self) -> bool {
        self.diagnosis.is_some() && self.asked_at.is_some()
    }

    /// Queries the kernel again if the cost is acceptable.
    pub(super) fn refresh(&mut self, now: Nanos) {
        let pause = PAUSE.max(self.list.len() as Nanos * TIME_PER_SOCKET);
        if self.asked_at.is_some_and(|at| now.saturating_sub(at) < pause) {
            return;
        }
        let Some(diagnosis) = &self.diagnosis else { return };
        self.list.clear();
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            if dump(diagnosis, family, &mut self.buffer, &mut self.list).is_none() {
                // A partly read response would be mistaken for that of the next query.
                self.diagnosis = None;
                self.list.clear();
                return;
            }
        }
        self.list.sort_unstable_by_key(|listener| listener.inode);
        self.asked_at = Some(now);
    }

    /// Whether they were just read: between two reads nothing is known about the queues.
    pub(super) fn are_fresh(&self, now: Nanos) -> bool {
        self.asked_at == Some(now)
    }

    /// Changes when a socket begins or ends to listen.
    pub(super) fn fingerprint(&self) -> u64 {
        self.list.iter().fold(self.list.len() as u64, |sum, listener| {
            sum.wrapping_mul(0x0000_0100_0000_01b3).wrapping_add(u64::from(listener.inode))
        })
    }

    /// The inodes of the sockets that listen on a port.
    pub(super) fn of_port(&self, port: u16) -> Vec<u32> {
        self.list.iter().filter(|listener| listener.port == port).map(|listener| listener.inode).collect()
    }

    /// The listening socket of this inode.
    pub(super) fn find(&self, inode: u32) -> Option<&Listener> {
        let at = self.list.binary_search_by_key(&inode, |listener| listener.inode).ok()?;
        self.list.get(at)
    }
}

/// A descriptor of another process; nothing where it may not be looked at.
fn duplicate(process: &OwnedFd, descriptor: u32) -> Option<OwnedFd> {
    let descriptor = i32::try_from(descriptor).ok()?;
    rustix::process::pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).ok()
}

/// The local port and the peer of a TCP connection of another process; nothing for what is none, or may not be looked at.
pub(super) fn connection(process: &OwnedFd, descriptor: u32) -> Option<(u16, SocketAddr)> {
    connection_of(&duplicate(process, descriptor)?)
}

fn connection_of(socket: &OwnedFd) -> Option<(u16, SocketAddr)> {
    let local = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    let peer = SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()?;
    Some((local.port(), SocketAddr::new(peer.ip().to_canonical(), peer.port())))
}

/// The peer at one of the descriptors that an event loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Clients: it listens, or it was accepted from a Unix socket that does, whose name it has.
    Clients,
    /// A TCP connection with this address.
    Connection(SocketAddr),
    /// Neither, or it may not be looked at: a pipe, a timer, a socket of the process to itself.
    Other,
}

/// What an event loop waits for at one descriptor of another process.
pub(super) fn end(process: &OwnedFd, descriptor: u32) -> End {
    let Some(socket) = duplicate(process, descriptor) else { return End::Other };
    let listens = rustix::net::sockopt::socket_acceptconn(&socket).unwrap_or(false);
    let name = || SocketAddrUnix::try_from(rustix::net::getsockname(&socket).ok()?).ok();
    let is_named = |unix: &SocketAddrUnix| unix.path_bytes().is_some() || unix.abstract_name().is_some();
    match () {
        () if listens || name().as_ref().is_some_and(is_named) => End::Clients,
        () => connection_of(&socket).map_or(End::Other, |(_, peer)| End::Connection(peer)),
    }
}

/// Asks for all sockets of a family; nothing when the kernel does not answer as it should.
fn dump(diagnosis: &OwnedFd, family: u8, buffer: &mut [u8], list: &mut Vec<Listener>) -> Option<()> {
    let mut request = [0_u8; HEADER_BYTES + 56];
    request[0..4].copy_from_slice(&(HEADER_BYTES as u32 + 56).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    request[16] = family;
    request[17] = TCP;
    request[20..24].copy_from_slice(&STATES.to_ne_bytes());
    rustix::net::send(diagnosis, &request, SendFlags::empty()).ok()?;
    // The kernel has the next part of a dump ready before it returns from handing over the last: nothing to wait for.
    loop {
        let (_, received) = rustix::net::recv(diagnosis, &mut *buffer, RecvFlags::empty()).ok()?;
        if answers(buffer.get(..received)?, list)? {
            return Some(());
        }
    }
}

/// Takes the sockets out of one part of a dump. True when it was the last, nothing when it is malformed or an error.
fn answers(mut part: &[u8], list: &mut Vec<Listener>) -> Option<bool> {
    while part.len() >= HEADER_BYTES {
        let length = u32::from_ne_bytes(part.get(0..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(part.get(4..6)?.try_into().ok()?);
        let body = part.get(HEADER_BYTES..length)?;
        match kind {
            MESSAGE_DONE => return Some(true),
            MESSAGE_ERROR => return None,
            SOCK_DIAG_BY_FAMILY if list.len() < MOST_SOCKETS => list.extend(socket(body)),
            _ => {}
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

/// Reads one `struct inet_diag_msg` of a listening socket.
fn socket(body: &[u8]) -> Option<Listener> {
    let body = body.get(..ANSWER_BYTES)?;
    let number = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    Some(Listener {
        inode: number(68)?,
        port: u16::from_be_bytes(body.get(4..6)?.try_into().ok()?),
        waiting: number(56)?,
        waiting_limit: number(60)?,
    })
}

/// The inode in what a link of `/proc/PID/fd` says, such as `socket:[4711]`.
pub(super) fn inode(link: &[u8]) -> Option<u32> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    u32::try_from(crate::reader::number(digits)?).ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use proptest::prelude::*;
    use rustix::process::PidfdFlags;

    use super::*;

    fn inode_of(descriptor: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        inode(link.as_os_str().as_encoded_bytes()).unwrap()
    }

    #[test]
    fn the_kernel_shows_of_connections_that_wait_and_who_is_at_the_other_end() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let at = listener.local_addr().unwrap();
            let _waiting = TcpStream::connect(at).unwrap();
            let client = TcpStream::connect(at).unwrap();
            let mut listeners = Listeners::new(true);
            listeners.refresh(1);
            assert!(listeners.are_known());
            let listening = *listeners.find(inode_of(&listener)).unwrap();
            assert_eq!((listening.port, listening.waiting), (at.port(), 2));
            assert!(listening.waiting_limit > 0);
            let (server, _) = listener.accept().unwrap();
            listeners.refresh(2);
            assert!(!listeners.are_fresh(2), "asked again too early");
            assert_eq!(listeners.find(inode_of(&listener)).unwrap().waiting, 2);
            listeners.refresh(u64::MAX);
            assert_eq!(listeners.find(inode_of(&listener)).unwrap().waiting, 1);

            let myself = rustix::process::getpid();
            let process = rustix::process::pidfd_open(myself, PidfdFlags::empty()).unwrap();
            let of = |socket: &TcpStream| connection(&process, socket.as_raw_fd() as u32);
            assert_eq!(of(&client), Some((client.local_addr().unwrap().port(), at)));
            assert_eq!(of(&server).unwrap().0, at.port());
            let file = std::fs::File::open("/proc/self/stat").unwrap();
            assert_eq!(connection(&process, file.as_raw_fd() as u32), None);
            assert_eq!(connection(&process, u32::MAX), None);
        }
    }

    #[test]
    fn links_name_sockets() {
        assert_eq!(inode(b"socket:[4711]"), Some(4711));
        for other in ["pipe:[4711]", "socket:[]", "socket:[99999999999]", "/tmp/socket:[1]", ""] {
            assert_eq!(inode(other.as_bytes()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(part: Vec<u8>) {
            let _ = answers(&part, &mut Vec::new());
        }
    }
}
