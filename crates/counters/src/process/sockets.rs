//! The TCP sockets of the network namespace Plimsoll runs in, asked of the kernel by sock_diag(7): how many connections
//! wait to be accepted, how much waits to be sent, and who is at the other end. `/proc/net/tcp` has the same and costs
//! sixty times as much.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use model::{MILLISECOND, Nanos};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// One TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    /// What `/proc/PID/fd` calls it; 0 once its process has closed it.
    pub(super) inode: u32,
    pub(super) listens: bool,
    pub(super) local_port: u16,
    pub(super) peer: SocketAddr,
    /// Bytes received and not yet read; of a listening socket, connections that wait to be accepted.
    pub(super) receive_queue: u32,
    /// Bytes not yet acknowledged by the peer; of a listening socket, the most connections that may wait.
    pub(super) send_queue: u32,
}

/// All sockets as of the last time it was worth asking.
pub(super) struct Sockets {
    diagnosis: Option<OwnedFd>,
    /// By inode.
    list: Vec<Socket>,
    buffer: Vec<u8>,
    asked_at: Option<Nanos>,
}

/// What the kernel takes to describe a socket is about 1 us: 0.1 % of the time may go there.
const TIME_PER_SOCKET: Nanos = MILLISECOND;
/// More sockets than this are not kept.
const MOST_SOCKETS: usize = 100_000;

// From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and net/tcp_states.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x1 | 0x300;
const MESSAGE_DONE: u16 = 3;
const MESSAGE_ERROR: u16 = 2;
const HEADER_BYTES: usize = 16;
const ANSWER_BYTES: usize = 72;
const TCP: u8 = 6;
const TCP_LISTEN: u8 = 10;
/// Established, the states of a connection being closed that may still have data to send, and listening.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11;

impl Sockets {
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
        Sockets { diagnosis, list: Vec::new(), buffer: vec![0; 64 << 10], asked_at: None }
    }

    /// Whether the kernel answers.
    pub(super) fn are_known(&self) -> bool {
        self.diagnosis.is_some() && self.asked_at.is_some()
    }

    /// Asks the kernel again when that is worth its cost.
    pub(super) fn refresh(&mut self, now: Nanos) {
        let pause = self.list.len() as Nanos * TIME_PER_SOCKET;
        if self.asked_at.is_some_and(|at| now.saturating_sub(at) < pause) {
            return;
        }
        let Some(diagnosis) = &self.diagnosis else { return };
        self.list.clear();
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            if dump(diagnosis, family, &mut self.buffer, &mut self.list).is_none() {
                // An answer half read would be taken for that of the next question.
                self.diagnosis = None;
                self.list.clear();
                return;
            }
        }
        self.list.sort_unstable_by_key(|socket| socket.inode);
        self.asked_at = Some(now);
    }

    /// The socket of this inode.
    pub(super) fn find(&self, inode: u32) -> Option<&Socket> {
        let at = self.list.binary_search_by_key(&inode, |socket| socket.inode).ok()?;
        self.list.get(at)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.list.iter()
    }
}

/// Asks for all sockets of a family; nothing when the kernel does not answer as it should.
fn dump(diagnosis: &OwnedFd, family: u8, buffer: &mut [u8], list: &mut Vec<Socket>) -> Option<()> {
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
fn answers(mut part: &[u8], list: &mut Vec<Socket>) -> Option<bool> {
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

/// Reads one `struct inet_diag_msg`.
fn socket(body: &[u8]) -> Option<Socket> {
    let body = body.get(..ANSWER_BYTES)?;
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let number = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let address = match i32::from(body[0]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(body.get(24..28)?).ok()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(body.get(24..40)?).ok()?)),
        _ => return None,
    };
    Some(Socket {
        inode: number(68)?,
        listens: body[1] == TCP_LISTEN,
        local_port: port(4)?,
        peer: SocketAddr::new(address.to_canonical(), port(6)?),
        receive_queue: number(56)?,
        send_queue: number(60)?,
    })
}

/// The inode in what a link of `/proc/PID/fd` says, such as `socket:[4711]`.
pub(super) fn inode(link: &[u8]) -> Option<u32> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    u32::try_from(crate::reader::number(digits)?).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use proptest::prelude::*;

    use super::*;

    fn inode_of(descriptor: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        inode(link.as_os_str().as_encoded_bytes()).unwrap()
    }

    #[test]
    fn the_kernel_tells_of_connections_that_wait_and_bytes_that_do() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let at = listener.local_addr().unwrap();
            let mut waiting = TcpStream::connect(at).unwrap();
            let mut accepted = TcpStream::connect(at).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            let _second = (&mut waiting, &mut accepted);
            server.write_all(b"twelve bytes").unwrap();

            let mut sockets = Sockets::new(true);
            sockets.refresh(1);
            assert!(sockets.are_known());
            let listening = sockets.find(inode_of(&listener)).unwrap();
            assert!(listening.listens);
            assert_eq!((listening.local_port, listening.receive_queue), (at.port(), 1));
            assert!(listening.send_queue > 0, "the backlog");
            let serving = sockets.find(inode_of(&server)).unwrap();
            assert!(!serving.listens);
            assert_eq!(serving.local_port, at.port());
            let client = sockets.find(inode_of(&waiting)).unwrap();
            assert_eq!((client.peer, client.receive_queue), (at, 12));
            assert_eq!(serving.peer.port(), client.local_port);

            waiting.read_exact(&mut [0; 12]).unwrap();
            sockets.refresh(2);
            assert_eq!(sockets.find(inode_of(&waiting)).unwrap().receive_queue, 12, "asked again too early");
            sockets.refresh(u64::MAX);
            assert_eq!(sockets.find(inode_of(&waiting)).unwrap().receive_queue, 0);
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
