//! One client session with a server: over TCP, with TLS from the start or after StartTLS. It blocks, never longer than its
//! timeouts allow and not after an [interruption](wait::Interrupt), and has as many requests in flight as one likes: [`submit`](Session::submit) them, then take responses as they
//! come. Referrals are reported, not followed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};

use crate::ber::BerError;
use crate::controls::{PAGED_RESULTS, Paged};
use crate::ldif::Record;
use crate::message::{
    self, Attribute, Change, Frame, Glance, ID_MAX, List, Message, NOTICE_OF_DISCONNECTION, Operation,
    START_TLS, Scope, SearchRequest, UNSOLICITED, Value, WHO_AM_I,
};
use crate::{Control, ResultCode};

mod error;
mod search;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
pub mod wait;

pub use error::{Outcome, SessionError};
pub use search::{EMPTY_PAGES_MAX, ENDLESS, Found, Search};
pub use server::{Security, Server};
use transport::{Got, Transport};
use wait::Interrupt;

/// How long a connection is silent before the system asks whether the other end is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The most messages that may come for requests in flight without progress.
const IDLE_MESSAGES_MAX: u32 = 100_000;

/// Bytes of requests that are gathered before they are sent without being asked to.
const GATHER_BYTES: usize = 64 << 10;

/// How a session is made and how long it waits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest wait for the connection: looking up the name, TCP and TLS together. 10 s.
    pub connect_timeout: Duration,
    /// Longest wait without progress, and for requests to be taken by the network. Progress is the result of a request or an
    /// entry of a search, whole, while the search has not brought more than it asked for (one with the scope of the base, a
    /// page). References, intermediate responses, notices, and what belongs to no request are none. 60 s.
    pub response_timeout: Duration,
    /// What ends every wait before its time.
    pub interrupt: Interrupt,
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
            interrupt: Interrupt::default(),
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
    /// Requests whose last response has not come, each with the number of entries that are still progress.
    in_flight: BTreeMap<u32, u64>,
    /// How long the requests in flight were waited for without progress, and how many messages came meanwhile. What the caller
    /// does between two waits takes none of it.
    idle: Duration,
    idle_messages: u32,
}

/// A wait for a message.
struct Wait {
    /// The clock is read only when it is waited, or when something came that is of no use.
    begin: Option<Instant>,
    limit: Limit,
}

/// How long a message is waited for.
#[derive(Clone, Copy)]
enum Limit {
    /// As long as there is progress within the time of the session.
    Progress,
    /// For this time.
    Time(Duration),
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
        let interrupt = &options.interrupt;
        let failed = |error| match interrupt.is_over() {
            true => SessionError::Interrupted,
            false => SessionError::connect(server, error),
        };
        let stream: TcpStream = wait::resolve(&server.host, server.port, deadline, interrupt)
            .and_then(|addresses| wait::open(&addresses, deadline, interrupt))
            .map_err(failed)?;
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
            in_flight: BTreeMap::new(),
            idle: Duration::ZERO,
            idle_messages: 0,
        };
        match server.security {
            Security::None => {}
            Security::StartTls => {
                session.options.response_timeout = deadline.saturating_duration_since(Instant::now());
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
            if self.in_flight.is_empty() {
                self.count_progress();
            }
            self.in_flight.insert(id, entries_of(operation, controls));
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
        match self.take(Limit::Progress)? {
            Some(length) => self.taken(length),
            None => Err(self.late("a response")),
        }
    }

    /// Makes the last response count as progress: one that was asked for and that only who asked can tell from an idle one.
    pub fn count_progress(&mut self) {
        (self.idle, self.idle_messages) = (Duration::ZERO, 0);
    }

    /// That a response did not come in time.
    fn late(&self, what: &'static str) -> SessionError {
        SessionError::Timeout { server: self.server.to_string(), what, after: self.options.response_timeout }
    }

    /// The next response, or `None` when there is none within this time, as in a synchronization that goes on for ever.
    pub fn response_within(&mut self, timeout: Duration) -> Result<Option<Message<'_>>, SessionError> {
        match self.take(Limit::Time(timeout))? {
            Some(length) => self.taken(length).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for a message that is of use; its length. None when its time is over.
    fn take(&mut self, limit: Limit) -> Result<Option<usize>, SessionError> {
        self.flush()?;
        let (mut wait, mut is_looked_again) = (Wait { begin: None, limit }, false);
        // Who waits for a time of their own may wait for such messages.
        if matches!(limit, Limit::Progress) && self.idle_messages > IDLE_MESSAGES_MAX {
            let error = BerError("message after message brings nothing that was requested");
            return Err(SessionError::Protocol { server: self.server.to_string(), error });
        }
        loop {
            let broken = |error| SessionError::Protocol { server: self.server.to_string(), error };
            let bytes = &self.input[self.seen..];
            match message::frame(bytes, self.options.message_bytes_max).map_err(broken)? {
                Frame::Whole(length) => {
                    let Glance { id, is_last, is_entry, .. } =
                        message::glance(&bytes[..length]).map_err(broken)?;
                    if id == UNSOLICITED {
                        self.notice(length)?;
                    } else if let Some(entries) = self.in_flight.get_mut(&id) {
                        if is_last || (is_entry && *entries > 0) {
                            *entries = entries.saturating_sub(1);
                            self.count_progress();
                        } else {
                            self.idle += wait.begin.map_or(Duration::ZERO, |begin| begin.elapsed());
                            self.idle_messages += 1;
                        }
                        if is_last {
                            self.in_flight.remove(&id);
                        }
                        return Ok(Some(length));
                    }
                    // Of a request that was abandoned, or of none.
                    self.seen += length;
                    if self.deadline(&mut wait)?.is_none() {
                        return Ok(None);
                    }
                }
                Frame::More => match self.deadline(&mut wait)? {
                    Some(deadline) => {
                        if !self.receive()? {
                            self.wait_until(deadline)?;
                        }
                    }
                    // What has come by now is in time.
                    None if !is_looked_again && self.receive()? => is_looked_again = true,
                    None => return Ok(None),
                },
            }
        }
    }

    /// When a wait is over; none when it is now.
    fn deadline(&self, wait: &mut Wait) -> Result<Option<Instant>, SessionError> {
        if self.options.interrupt.is_over() {
            return Err(SessionError::Interrupted);
        }
        let now = Instant::now();
        let left = match wait.limit {
            Limit::Time(time) => time,
            Limit::Progress => self.options.response_timeout.saturating_sub(self.idle),
        };
        let deadline = later(*wait.begin.get_or_insert(now), left);
        Ok((now < deadline).then_some(deadline))
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

    /// Waits a while until something can be sent or received. False when the time is over.
    fn wait_until(&self, deadline: Instant) -> Result<bool, SessionError> {
        if self.options.interrupt.is_over() {
            return Err(SessionError::Interrupted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let write = self.sent < self.out.len() || self.transport.has_pending();
        self.transport
            .wait(write, self.has_room(), left.min(wait::SLICE))
            .map_err(|error| self.failed(error))?;
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
        loop {
            let Some(length) = self.take(Limit::Progress)? else {
                self.abandon(id)?;
                return Err(self.late(operation.name()));
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
        if self.in_flight.remove(&id).is_some() {
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
    later(Instant::now(), time)
}

fn later(begin: Instant, time: Duration) -> Instant {
    begin + time.min(Duration::from_secs(365 * 24 * 3600))
}

/// How many entries a request asks for: of a search one or a page, where it says so.
fn entries_of(operation: &Operation<'_>, controls: &[Control<'_>]) -> u64 {
    let Operation::SearchRequest(request) = operation else { return 0 };
    if request.scope == Scope::Base {
        return 1;
    }
    let paged =
        controls.iter().find(|control| control.oid == PAGED_RESULTS).and_then(|control| control.value);
    let size = paged.and_then(|value| Paged::decode(value).ok()).map_or(0, |paged| paged.size);
    if size == 0 { u64::MAX } else { u64::from(size) }
}
