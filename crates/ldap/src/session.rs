//! One client session with a server: over TCP, with TLS from the start or after StartTLS. It blocks, never longer than its
//! timeouts, and has as many requests in flight as one likes: [`submit`](Session::submit) them, then take responses as they
//! come. Referrals are reported, not followed.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};

use crate::ber::BerError;
use crate::ldif::Record;
use crate::message::{
    self, Attribute, Change, Frame, Glance, ID_MAX, List, Message, NOTICE_OF_DISCONNECTION, Operation,
    START_TLS, SearchRequest, UNSOLICITED, Value, WHO_AM_I,
};
use crate::{Control, ResultCode};

mod error;
mod search;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

pub use error::{Outcome, SessionError};
pub use search::{Found, Search};
pub use server::{Security, Server};
use transport::{Got, Transport};

/// How long a connection is silent before the system asks whether the other end is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Bytes of requests that are gathered before they are sent without being asked to.
const GATHER_BYTES: usize = 64 << 10;

/// How a session is made and how long it waits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest wait for the connection, with TLS. 10 s. Looking up a name may take longer: that is the system's.
    pub connect_timeout: Duration,
    /// Longest wait for the next response, and for a request to be taken by the network. 60 s.
    pub response_timeout: Duration,
    /// The longest message accepted, in bytes. 64 MiB.
    pub message_bytes_max: usize,
    /// Which certificates of servers are trusted.
    pub trust: Trust,
    /// A certificate to show to the server, for a bind with SASL EXTERNAL.
    pub client_certificate: Option<ClientCertificate>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            message_bytes_max: 64 << 20,
            trust: Trust::System,
            client_certificate: None,
        }
    }
}

/// Which certificates of servers are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by the authorities in the system's file.
    System,
    /// Those signed by the authorities in this PEM file.
    File(PathBuf),
    /// All: whoever answers may be another than the server, and reads along. [`Session::security`] tells it.
    Insecure,
}

/// A certificate with its key, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The file of the certificate, and of those it is signed by.
    pub certificate: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
}

/// A session with a server.
pub struct Session {
    transport: Transport,
    options: Options,
    /// Where, for errors.
    server: Server,
    security: Security,
    /// Requests not sent yet, from `sent`.
    out: Vec<u8>,
    sent: usize,
    /// Bytes received and not looked at yet, from `seen`.
    input: Vec<u8>,
    seen: usize,
    last_id: u32,
    in_flight: BTreeSet<u32>,
}

impl fmt::Debug for Session {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Session")
            .field("server", &self.server)
            .field("security", &self.security)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, with TLS as the server's URL says. It is not bound: anonymous.
    pub fn connect(server: &Server, options: &Options) -> Result<Session, SessionError> {
        let deadline = after(options.connect_timeout);
        let stream = open(server, deadline)?;
        let failed = |error| SessionError::connect(server, error);
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        // A server that vanished is noticed also where nothing is expected of it for long.
        set_socket_keepalive(&stream, true)
            .and_then(|()| set_tcp_keepidle(&stream, KEEP_ALIVE))
            .map_err(|error| failed(error.into()))?;
        let mut session = Session {
            transport: Transport::Plain(stream),
            // Until it is protected, the time to connect counts.
            options: Options { response_timeout: options.connect_timeout, ..options.clone() },
            server: server.clone(),
            security: Security::None,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            seen: 0,
            last_id: 0,
            in_flight: BTreeSet::new(),
        };
        match server.security {
            Security::None => {}
            Security::StartTls => {
                session.perform(&Operation::ExtendedRequest { oid: START_TLS, value: None }, &[])?;
                if session.seen < session.input.len() {
                    // It came before TLS and could be anybody's.
                    return Err(SessionError::Tls(
                        "the server sent data between its answer to StartTLS and TLS".into(),
                    ));
                }
                session.begin_tls(deadline)?;
            }
            Security::Tls => session.begin_tls(deadline)?,
        }
        session.security = server.security;
        session.options.response_timeout = options.response_timeout;
        Ok(session)
    }

    fn begin_tls(&mut self, deadline: Instant) -> Result<(), SessionError> {
        let connection = tls::begin(&self.server.host, &self.options)?;
        self.transport.begin_tls(connection);
        while self.transport.is_handshaking() {
            self.transport.send_pending().map_err(|error| self.failed(error))?;
            self.receive().map_err(|error| tls::refused(&self.server, error))?;
            if self.transport.is_handshaking() {
                self.wait(deadline, self.options.connect_timeout, "TLS")?;
            }
        }
        Ok(())
    }

    /// How it is protected.
    pub fn security(&self) -> Security {
        self.security
    }

    /// What must be said to whoever relies on this session: that nothing protects it, or that nobody knows who answers.
    pub fn warning(&self) -> Option<String> {
        match self.security {
            Security::None => Some(format!(
                "what is exchanged with {} can be read on the way, passwords included",
                self.server
            )),
            _ if self.options.trust == Trust::Insecure => Some(format!(
                "the certificate of {} is not verified: whoever answers may be another and read passwords",
                self.server
            )),
            _ => None,
        }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Requests whose last response has not been taken.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Puts a request on its way; its identifier, which its responses will have. It is sent with others when some have come
    /// together, or with [`flush`](Session::flush), or when a response is waited for.
    pub fn submit(
        &mut self,
        operation: &Operation<'_>,
        controls: &[Control<'_>],
    ) -> Result<u32, SessionError> {
        self.last_id = if self.last_id >= ID_MAX { 1 } else { self.last_id + 1 };
        let id = self.last_id;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        Message { id, operation: *operation, controls: List::from(controls) }.encode(&mut self.out);
        if !matches!(operation, Operation::UnbindRequest | Operation::AbandonRequest { .. }) {
            self.in_flight.insert(id);
        }
        if self.out.len() - self.sent > GATHER_BYTES {
            self.flush()?;
        }
        Ok(id)
    }

    /// Puts the request on its way that carries a record of an LDIF file out.
    pub fn submit_record(&mut self, record: &Record<'_>) -> Result<u32, SessionError> {
        record.with_operation(|operation, controls| self.submit(operation, controls))
    }

    /// Sends what was submitted. Responses that come meanwhile are kept, so that a server that does not read before it was
    /// answered is no deadlock.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        let timeout = self.options.response_timeout;
        let deadline = after(timeout);
        loop {
            if self.send()? {
                return Ok(());
            }
            if self.has_room() {
                self.receive()?;
            }
            self.wait(deadline, timeout, "the server to take a request")?;
        }
    }

    /// The next response, whatever request it belongs to.
    pub fn next_response(&mut self) -> Result<Message<'_>, SessionError> {
        let timeout = self.options.response_timeout;
        match self.take(timeout)? {
            Some(length) => self.taken(length),
            None => Err(SessionError::Timeout {
                server: self.server.to_string(),
                what: "a response",
                after: timeout,
            }),
        }
    }

    /// The next response, or `None` when there is none within this time, as in a synchronization that goes on for ever.
    pub fn response_within(&mut self, timeout: Duration) -> Result<Option<Message<'_>>, SessionError> {
        match self.take(timeout)? {
            Some(length) => self.taken(length).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for a message that is of use; its length.
    fn take(&mut self, timeout: Duration) -> Result<Option<usize>, SessionError> {
        self.flush()?;
        let deadline = after(timeout);
        loop {
            let broken = |error| SessionError::Protocol { server: self.server.to_string(), error };
            let bytes = &self.input[self.seen..];
            match message::frame(bytes, self.options.message_bytes_max).map_err(broken)? {
                Frame::Whole(length) => {
                    let Glance { id, is_last, .. } = message::glance(&bytes[..length]).map_err(broken)?;
                    if id == UNSOLICITED {
                        self.notice(length)?;
                    } else if self.in_flight.contains(&id) {
                        if is_last {
                            self.in_flight.remove(&id);
                        }
                        return Ok(Some(length));
                    }
                    // Of a request that was abandoned, or of none.
                    self.seen += length;
                }
                Frame::More => {
                    if !self.receive()? && !self.wait_until(deadline)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The message of this length that comes next.
    fn taken(&mut self, length: usize) -> Result<Message<'_>, SessionError> {
        let begin = self.seen;
        self.seen += length;
        Message::decode(&self.input[begin..begin + length])
            .map_err(|error| SessionError::Protocol { server: self.server.to_string(), error })
    }

    /// Looks at a message nobody asked for: the only one that is known says the server goes.
    fn notice(&self, length: usize) -> Result<(), SessionError> {
        let message = Message::decode(&self.input[self.seen..self.seen + length])
            .map_err(|error| SessionError::Protocol { server: self.server.to_string(), error })?;
        match message.operation {
            Operation::ExtendedResponse { result, oid: Some(NOTICE_OF_DISCONNECTION), .. } => {
                let why = match result.diagnostic {
                    "" => result.code.to_string(),
                    words => format!("{}: {words}", result.code),
                };
                Err(SessionError::Closed { server: self.server.to_string(), why })
            }
            _ => Ok(()),
        }
    }

    /// Sends what the network takes. Whether that was all.
    fn send(&mut self) -> Result<bool, SessionError> {
        while self.sent < self.out.len() {
            match self.transport.write(&self.out[self.sent..]) {
                Ok(0) => break,
                Ok(sent) => self.sent += sent,
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.transport.send_pending().map_err(|error| self.failed(error))?;
        Ok(self.sent == self.out.len() && !self.transport.has_pending())
    }

    fn has_room(&self) -> bool {
        self.input.len() - self.seen < self.options.message_bytes_max
    }

    /// Takes what has come. Whether there was anything.
    fn receive(&mut self) -> Result<bool, SessionError> {
        // Moved to the front when there is little of it, or much before it.
        if self.seen > 0 && (self.seen == self.input.len() || self.seen > GATHER_BYTES) {
            self.input.drain(..self.seen);
            self.seen = 0;
        }
        match self.transport.read(&mut self.input) {
            Ok(Got::Bytes) => Ok(true),
            Ok(Got::Nothing) => Ok(false),
            Ok(Got::End) => {
                // What came last may say why.
                let why = match self.in_flight.len() {
                    0 => "no request was open".to_string(),
                    1 => "one request was open".to_string(),
                    open => format!("{open} requests were open"),
                };
                Err(SessionError::Closed { server: self.server.to_string(), why })
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: std::io::Error) -> SessionError {
        SessionError::Io { server: self.server.to_string(), error }
    }

    /// Waits until something can be sent or received. False when the time is over.
    fn wait_until(&self, deadline: Instant) -> Result<bool, SessionError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let write = self.sent < self.out.len() || self.transport.has_pending();
        self.transport.wait(write, self.has_room(), left).map_err(|error| self.failed(error))?;
        Ok(true)
    }

    fn wait(&self, deadline: Instant, timeout: Duration, what: &'static str) -> Result<(), SessionError> {
        if self.wait_until(deadline)? {
            return Ok(());
        }
        Err(SessionError::Timeout { server: self.server.to_string(), what, after: timeout })
    }

    /// Carries out one operation that has one response, with no other in flight. A result that is no success is an error.
    pub fn perform(
        &mut self,
        operation: &Operation<'_>,
        controls: &[Control<'_>],
    ) -> Result<Message<'_>, SessionError> {
        if !self.in_flight.is_empty() {
            return Err(SessionError::Pipelined);
        }
        let id = self.submit(operation, controls)?;
        let timeout = self.options.response_timeout;
        loop {
            let Some(length) = self.take(timeout)? else {
                self.abandon(id)?;
                return Err(SessionError::Timeout {
                    server: self.server.to_string(),
                    what: operation.name(),
                    after: timeout,
                });
            };
            if !self.in_flight.is_empty() {
                // An intermediate response, for which nobody asked.
                self.seen += length;
                continue;
            }
            let server = self.server.to_string();
            let message = self.taken(length)?;
            let result = message.operation.result().filter(|_| message.operation.ends(operation));
            return match result {
                Some(result) if result.code.is_success() => Ok(message),
                Some(result) => Err(SessionError::Failed(Box::new(Outcome::new(operation, result)))),
                None => Err(SessionError::Protocol {
                    server,
                    error: BerError("a response of another kind than the request"),
                }),
            };
        }
    }

    /// Tells the server to forget a request. Its responses will not be seen.
    pub fn abandon(&mut self, id: u32) -> Result<(), SessionError> {
        if self.in_flight.remove(&id) {
            self.submit(&Operation::AbandonRequest { id }, &[])?;
            self.flush()?;
        }
        Ok(())
    }

    /// Binds with a name and a password. An empty password is refused: servers take it for an anonymous bind, which succeeds.
    pub fn bind(&mut self, name: &str, password: &[u8]) -> Result<(), SessionError> {
        if password.is_empty() && !name.is_empty() {
            return Err(SessionError::EmptyPassword);
        }
        self.perform(&Operation::simple_bind(name, password), &[]).map(drop)
    }

    /// Binds as whom the certificate shown to the server says (SASL EXTERNAL).
    pub fn bind_external(&mut self) -> Result<(), SessionError> {
        self.perform(&Operation::external_bind(b""), &[]).map(drop)
    }

    /// Who the server says this session is bound as, such as `dn:cn=admin,dc=example,dc=com`; empty when anonymous.
    pub fn who_am_i(&mut self) -> Result<String, SessionError> {
        let message = self.perform(&Operation::ExtendedRequest { oid: WHO_AM_I, value: None }, &[])?;
        match message.operation {
            Operation::ExtendedResponse { value, .. } => {
                Ok(String::from_utf8_lossy(value.unwrap_or_default()).into_owned())
            }
            _ => Ok(String::new()),
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, dn: &str, attributes: &[Attribute<'_>]) -> Result<(), SessionError> {
        self.perform(&Operation::AddRequest { dn, attributes: List::from(attributes) }, &[]).map(drop)
    }

    /// Modifies an entry, all or nothing.
    pub fn modify(&mut self, dn: &str, changes: &[Change<'_>]) -> Result<(), SessionError> {
        self.perform(&Operation::ModifyRequest { dn, changes: List::from(changes) }, &[]).map(drop)
    }

    /// Deletes an entry.
    pub fn delete(&mut self, dn: &str) -> Result<(), SessionError> {
        self.perform(&Operation::DelRequest { dn }, &[]).map(drop)
    }

    /// Renames an entry, below another where one is given; the values of its old name go.
    pub fn rename(
        &mut self,
        dn: &str,
        new_rdn: &str,
        new_superior: Option<&str>,
    ) -> Result<(), SessionError> {
        self.perform(&Operation::ModifyDnRequest { dn, new_rdn, delete_old_rdn: true, new_superior }, &[])
            .map(drop)
    }

    /// Whether an attribute of an entry has a value.
    pub fn compare(&mut self, dn: &str, attribute: &str, value: &[u8]) -> Result<bool, SessionError> {
        let message = self.perform(&Operation::CompareRequest { dn, attribute, value: Value(value) }, &[])?;
        Ok(message.operation.result().is_some_and(|result| result.code == ResultCode::CompareTrue))
    }

    /// Searches; in pages of `page_size` entries where it is given, so that no limit of the server ends it. No other request
    /// may be in flight.
    pub fn search<'s, 'a>(
        &'s mut self,
        request: SearchRequest<'a>,
        page_size: Option<u32>,
    ) -> Result<Search<'s, 'a>, SessionError> {
        Search::begin(self, request, page_size)
    }

    /// Ends the session.
    pub fn unbind(mut self) -> Result<(), SessionError> {
        self.submit(&Operation::UnbindRequest, &[])?;
        self.flush()
    }
}

/// So long from now; a year where somebody writes more, as a clock has an end.
fn after(time: Duration) -> Instant {
    Instant::now() + time.min(Duration::from_secs(365 * 24 * 3600))
}

/// Opens a connection to the first of the server's addresses that takes one.
fn open(server: &Server, deadline: Instant) -> Result<TcpStream, SessionError> {
    let failed = |error| SessionError::connect(server, error);
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in (server.host.as_str(), server.port).to_socket_addrs().map_err(failed)? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            last = std::io::ErrorKind::TimedOut.into();
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}
