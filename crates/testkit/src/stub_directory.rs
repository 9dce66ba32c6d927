//! A directory that does nothing: it answers every request at once with success, and a search with one entry. It shows what
//! a client can do, because it is never the limit.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use ldap::ber::application;
use ldap::message::{Attribute, LdapResult, List, Message, Operation, Value, scan};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Most events at a time, and bytes received at a time.
const EVENTS_MAX: usize = 256;
const BUFFER_BYTES: usize = 64 << 10;

/// Starts it on a free port of loopback; it lives until the process ends.
///
/// # Errors
/// If it cannot listen.
pub fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || serve(&listener));
    Ok(address)
}

/// A connection: what came of an incomplete request, and what could not be sent yet.
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    out: Vec<u8>,
}

/// Answers on one thread.
///
/// # Errors
/// If it can no longer wait or accept.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    use epoll::EventFlags as Flags;
    const LISTENER: u64 = u64::MAX;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), Flags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let free = connections.iter().position(Option::is_none);
                    let place = free.unwrap_or_else(|| {
                        connections.push(None);
                        connections.len() - 1
                    });
                    let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
                    epoll::add(&epoll, &stream, epoll::EventData::new_u64(place as u64), flags)?;
                    connections[place] = Some(Connection { stream, input: Vec::new(), out: Vec::new() });
                }
                continue;
            }
            let Some(place) = connections.get_mut(event.data.u64() as usize) else { continue };
            if place.as_mut().is_some_and(|connection| !connection.work(&mut buffer)) {
                *place = None;
            }
        }
    }
}

impl Connection {
    /// Receives, answers and sends. Returns whether the connection goes on.
    fn work(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            if !self.send() {
                return false;
            }
            match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return false,
                Ok((_, bytes)) => {
                    let received = buffer.get(..bytes).unwrap_or_default();
                    if self.input.is_empty() {
                        let Some(taken) = answers(received, &mut self.out) else { return false };
                        self.input.extend_from_slice(received.get(taken..).unwrap_or_default());
                    } else {
                        self.input.extend_from_slice(received);
                        let Some(taken) = answers(&self.input, &mut self.out) else { return false };
                        self.input.drain(..taken);
                    }
                    if bytes < BUFFER_BYTES {
                        return self.send();
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn send(&mut self) -> bool {
        while !self.out.is_empty() {
            match rustix::net::send(&self.stream, &self.out, SendFlags::NOSIGNAL) {
                Ok(bytes) if bytes == self.out.len() => self.out.clear(),
                Ok(bytes) => _ = self.out.drain(..bytes),
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Appends the answers to the requests in these bytes. Returns how many bytes the requests have; none at an unbind, or if
/// they are not LDAP.
fn answers(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut from = 0;
    while let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) {
        let Some(request) = scan(rest, 1 << 20).ok()?.filter(|request| request.length <= rest.len()) else {
            break;
        };
        from += request.length;
        let result = LdapResult::SUCCESS;
        let mut answer = |operation| Message::new(request.id, operation).encode(out);
        const BIND: u8 = application(0, true);
        const UNBIND: u8 = application(2, false);
        const SEARCH: u8 = application(3, true);
        const MODIFY: u8 = application(6, true);
        const ADD: u8 = application(8, true);
        const DELETE: u8 = application(10, false);
        const COMPARE: u8 = application(14, true);
        match request.tag {
            BIND => answer(Operation::BindResponse { result, server_credentials: None }),
            SEARCH => {
                let (cn, mail) = ([Value(b"User 12345")], [Value(b"user.12345@example.com")]);
                let attributes = [
                    Attribute { name: "cn", values: List::from(&cn) },
                    Attribute { name: "mail", values: List::from(&mail) },
                ];
                let dn = "uid=user.12345,ou=people,dc=example,dc=com";
                answer(Operation::SearchResultEntry { dn, attributes: List::from(&attributes) });
                answer(Operation::SearchResultDone(result));
            }
            MODIFY => answer(Operation::ModifyResponse(result)),
            ADD => answer(Operation::AddResponse(result)),
            DELETE => answer(Operation::DelResponse(result)),
            COMPARE => answer(Operation::CompareResponse(result)),
            UNBIND => return None,
            _ => {}
        }
    }
    Some(from)
}
