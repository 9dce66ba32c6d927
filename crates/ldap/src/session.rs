//! A client session with a server: over a local socket, or over TCP, with TLS from the start or after StartTLS.
//!
//! It blocks, but never longer than its timeouts allow, and not after an [interrupt](wait::Interrupt). It can
//! have any number of requests in flight: [`submit`](Session::submit) them, then read responses as they
//! arrive. Referrals are reported, not followed.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::ber::BerError;
use crate::controls::{PAGED_RESULTS, PagedResults};
use crate::ldif::Record;
use crate::message::{
    self, Attribute, Change, ID_MAX, List, Message, MessageSummary, NOTICE_OF_DISCONNECTION, Operation,
    START_TLS, Scope, SearchRequest, UNSOLICITED, Value, WHO_AM_I,
};
use crate::{Control, ResultCode};

mod error;
mod search;
mod server;
mod start_tls;
pub mod statistics;
#[cfg(test)]
mod tests;
mod transport;
pub mod wait;

pub use error::{Outcome, SessionError};
pub use search::{EMPTY_PAGES_MAX, ENDLESS, Search, SearchItem};
pub use server::{Security, Server};
pub use tls::{ClientCertificate, Trust};
use transport::{ReadOutcome, Socket, Transport};
use wait::Interrupt;

/// Limit of the messages without progress that may arrive while requests are in flight.
const IDLE_MESSAGES_MAX: u32 = 100_000;

/// Size of the send buffer at which requests are sent automatically.
const GATHER_BYTES: usize = 64 << 10;

/// Connection settings and timeouts of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timeout of the connection: name resolution, TCP and TLS together. 10 s.
    pub connect_timeout: Duration,
    /// Timeout of a wait without progress, both for responses and for sending. Progress is a complete result,
    /// or an entry of a search up to the number that the search requested (one for a base search, one page).
    /// Referrals, intermediate responses, notices and unrelated messages are not progress. 60 s.
    pub response_timeout: Duration,
    /// Interrupts every wait.
    pub interrupt: Interrupt,
    /// The size limit of a received message, in bytes. 64 MiB.
    pub message_bytes_max: usize,
    /// The trusted server certificates.
    pub trust: Trust,
    /// A client certificate for a bind with SASL EXTERNAL.
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

/// A session with a server.
pub struct Session {
    transport: Transport,
    options: Options,
    /// The server, for error messages.
    server: Server,
    security: Security,
    /// Requests that are not sent yet, from offset `sent`.
    out: Vec<u8>,
    sent: usize,
    /// Received bytes that are not processed yet, from offset `seen`.
    input: Vec<u8>,
    seen: usize,
    last_id: u32,
    /// Requests without a final response, each with the number of further entries that count as progress.
    in_flight: BTreeMap<u32, u64>,
    /// The waiting time without progress for the requests in flight, and the number of messages received
    /// meanwhile. The time that the caller spends between waits does not count.
    idle: Duration,
    idle_messages: u32,
}

/// A wait for a message.
struct MessageWait {
    /// The clock is read only before a wait, or after a message without progress.
    begin: Option<Instant>,
    limit: Limit,
}

/// The limit of a wait for a message.
#[derive(Clone, Copy)]
enum Limit {
    /// As long as there is progress within the session's timeout.
    Progress,
    /// A fixed time.
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
    /// Connects, with TLS as the server's URL says. The session is anonymous until a bind.
    pub fn connect(server: &Server, options: &Options) -> Result<Session, SessionError> {
        let deadline = after(options.connect_timeout);
        let interrupt = &options.interrupt;
        let failed = |error| match interrupt.is_over() {
            true => SessionError::Interrupted,
            false => SessionError::connect(server, error),
        };
        let socket = match &server.socket {
            Some(path) => wait::open_local(path, deadline, interrupt),
            None => wait::resolve(&server.host, server.port, deadline, interrupt)
                .and_then(|addresses| wait::open(&addresses, deadline, interrupt))
                .map(OwnedFd::from),
        };
        let socket = Socket(socket.map_err(failed)?);
        let mut session = Session {
            transport: Transport::Plain(socket),
            // The connection timeout applies until TLS is established.
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
                    // It arrived before TLS, so its origin is unknown.
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
        let connection = start_tls::begin(&self.server.host, &self.options)?;
        self.transport.begin_tls(connection);
        while self.transport.is_handshaking() {
            self.transport.send_pending().map_err(|error| self.failed(error))?;
            self.receive().map_err(|error| start_tls::refused(&self.server, error))?;
            if self.transport.is_handshaking() {
                self.wait(deadline, self.options.connect_timeout, "TLS")?;
            }
        }
        Ok(())
    }

    /// The transport security of the session.
    pub fn security(&self) -> Security {
        self.security
    }

    /// A warning for users of this session if it is not encrypted, or if the server is not authenticated.
    pub fn warning(&self) -> Option<String> {
        match self.security {
            // Nobody else can read a local socket.
            Security::None if self.server.socket.is_some() => None,
            Security::None => Some(format!(
                "what is exchanged with {} can be read on the way, passwords included",
                self.server
            )),
            _ if self.options.trust == Trust::Insecure => Some(format!(
                "the certificate of {} is not verified: another server can answer and read passwords",
                self.server
            )),
            _ => None,
        }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Number of requests without a processed final response.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Submits a request and returns its identifier, which its responses will have. It is sent when the
    /// buffer has enough requests, by [`flush`](Session::flush), or before a wait for a response.
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

    /// Submits the request for the change in an LDIF record.
    pub fn submit_record(&mut self, record: &Record<'_>) -> Result<u32, SessionError> {
        record.with_operation(|operation, controls| self.submit(operation, controls))
    }

    /// Sends all submitted requests. Responses that arrive meanwhile are buffered, so a server that first
    /// waits for its responses to be read causes no deadlock.
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

    /// The next response to any request.
    pub fn next_response(&mut self) -> Result<Message<'_>, SessionError> {
        match self.take(Limit::Progress)? {
            Some(length) => self.taken(length),
            None => Err(self.late("a response")),
        }
    }

    /// Counts the last response as progress. It is for requested responses that only the caller can recognize
    /// as such.
    pub fn count_progress(&mut self) {
        (self.idle, self.idle_messages) = (Duration::ZERO, 0);
    }

    /// The error of a timeout.
    fn late(&self, what: &'static str) -> SessionError {
        SessionError::Timeout { server: self.server.to_string(), what, after: self.options.response_timeout }
    }

    /// The next response, or `None` if none arrives within this time, as in a synchronization without end.
    pub fn response_within(&mut self, timeout: Duration) -> Result<Option<Message<'_>>, SessionError> {
        match self.take(Limit::Time(timeout))? {
            Some(length) => self.taken(length).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for a message with progress; returns its length. None after the time limit.
    fn take(&mut self, limit: Limit) -> Result<Option<usize>, SessionError> {
        self.flush()?;
        let (mut wait, mut is_looked_again) = (MessageWait { begin: None, limit }, false);
        // With a fixed time, the caller may wait for such messages.
        if matches!(limit, Limit::Progress) && self.idle_messages > IDLE_MESSAGES_MAX {
            let error = BerError("message after message brings nothing that was requested");
            return Err(SessionError::Protocol { server: self.server.to_string(), error });
        }
        loop {
            let broken = |error| SessionError::Protocol { server: self.server.to_string(), error };
            let bytes = &self.input[self.seen..];
            match message::scan(bytes, self.options.message_bytes_max).map_err(broken)? {
                Some(MessageSummary { length, id, is_last, is_entry, .. }) if length <= bytes.len() => {
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
                    // It belongs to an abandoned request, or to none.
                    self.seen += length;
                    if self.deadline(&mut wait)?.is_none() {
                        return Ok(None);
                    }
                }
                _ => match self.deadline(&mut wait)? {
                    Some(deadline) => {
                        if !self.receive()? {
                            self.wait_until(deadline)?;
                        }
                    }
                    // Data that has arrived by now is in time.
                    None if !is_looked_again && self.receive()? => is_looked_again = true,
                    None => return Ok(None),
                },
            }
        }
    }

    /// The deadline of a wait; none if it has passed.
    fn deadline(&self, wait: &mut MessageWait) -> Result<Option<Instant>, SessionError> {
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

    /// Decodes the next message, which has this length.
    fn taken(&mut self, length: usize) -> Result<Message<'_>, SessionError> {
        let begin = self.seen;
        self.seen += length;
        Message::decode(&self.input[begin..begin + length])
            .map_err(|error| SessionError::Protocol { server: self.server.to_string(), error })
    }

    /// Handles an unsolicited message: the only known one announces the disconnection of the server.
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

    /// Sends as much as the network accepts; returns whether everything was sent.
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

    /// Receives available data; returns whether there was any.
    fn receive(&mut self) -> Result<bool, SessionError> {
        // The data is moved to the front if little remains, or if much was processed before it.
        if self.seen > 0 && (self.seen == self.input.len() || self.seen > GATHER_BYTES) {
            self.input.drain(..self.seen);
            self.seen = 0;
        }
        match self.transport.read(&mut self.input) {
            Ok(ReadOutcome::Bytes) => Ok(true),
            Ok(ReadOutcome::Nothing) => Ok(false),
            Ok(ReadOutcome::End) => {
                // The last message may give the reason.
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

    /// Waits until data can be sent or received; returns false after the deadline.
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

    /// Executes one operation with one response, with no other request in flight. A result other than success
    /// is an error.
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
                // An unexpected intermediate response.
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

    /// Asks the server to abandon a request. Its responses are discarded.
    pub fn abandon(&mut self, id: u32) -> Result<(), SessionError> {
        if self.in_flight.remove(&id).is_some() {
            self.submit(&Operation::AbandonRequest { id }, &[])?;
            self.flush()?;
        }
        Ok(())
    }

    /// Binds with a name and a password. An empty password is refused, because servers would treat the bind
    /// as anonymous and accept it.
    pub fn bind(&mut self, name: &str, password: &[u8]) -> Result<(), SessionError> {
        if password.is_empty() && !name.is_empty() {
            return Err(SessionError::EmptyPassword);
        }
        self.perform(&Operation::simple_bind(name, password), &[]).map(drop)
    }

    /// Binds with the identity of the client certificate (SASL EXTERNAL).
    pub fn bind_external(&mut self) -> Result<(), SessionError> {
        self.perform(&Operation::external_bind(b""), &[]).map(drop)
    }

    /// The authorization identity of the session, for example `dn:cn=admin,dc=example,dc=com`; empty if
    /// anonymous.
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

    /// Modifies an entry atomically.
    pub fn modify(&mut self, dn: &str, changes: &[Change<'_>]) -> Result<(), SessionError> {
        self.perform(&Operation::ModifyRequest { dn, changes: List::from(changes) }, &[]).map(drop)
    }

    /// Deletes an entry.
    pub fn delete(&mut self, dn: &str) -> Result<(), SessionError> {
        self.perform(&Operation::DelRequest { dn }, &[]).map(drop)
    }

    /// Renames an entry, optionally below another one. The values of its old relative name are removed.
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

    /// Searches, in pages of `page_size` entries if it is given, so that the server's size limit does not end
    /// the search. No other request may be in flight.
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

/// The instant after a duration. Longer durations are limited to a year, because the clock would overflow.
fn after(time: Duration) -> Instant {
    later(Instant::now(), time)
}

fn later(begin: Instant, time: Duration) -> Instant {
    begin + time.min(Duration::from_secs(365 * 24 * 3600))
}

/// The number of entries that a search requests, if it is limited to one entry or one page.
fn entries_of(operation: &Operation<'_>, controls: &[Control<'_>]) -> u64 {
    let Operation::SearchRequest(request) = operation else { return 0 };
    if request.scope == Scope::Base {
        return 1;
    }
    let paged =
        controls.iter().find(|control| control.oid == PAGED_RESULTS).and_then(|control| control.value);
    let size = paged.and_then(|value| PagedResults::decode(value).ok()).map_or(0, |paged| paged.size);
    if size == 0 { u64::MAX } else { u64::from(size) }
}
