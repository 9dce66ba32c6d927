//! One thread's connections, on one epoll.
//!
//! An operation needs three system calls: send, epoll_wait, receive. Sockets are
//! registered once, edge-triggered, when they are opened.

use std::os::fd::OwnedFd;

use engine::workload::{Admission, Completion, Done, LoadError, Operation, Part, Share, Worker};
use model::{MILLISECOND, Nanos};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::ClientConnection;

use super::failure::{Failure, TimeoutPhase};
use super::load::{Attempt, Load, Result, count};
use super::response::{Answer, Fault, KnownHead, Progress, ResponseReader, ends_idle, status_of};
use super::settings::HttpPlan;
use super::users::{Exchange, Next};
use super::{Observations, RequestPart};
use crate::network::socket::{Poller, is_quiet, reset_on_close};
use crate::network::tls::{self, Plain, TlsClient};

/// Bytes received at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Number of buffers received from one connection before the others continue.
const TURN: usize = 16;

/// How long responses are received before the next requests are sent.
const RECEIVE_TURN: Nanos = MILLISECOND / 20;

/// A connection that has been idle for longer is looked at before it is used again: perhaps the server has closed it, or has
/// sent what no request asked for. Under a load that leaves no connection idle this costs nothing.
const FRESH: Nanos = MILLISECOND;

/// How long responses are awaited after the last one: twice the time of the slowest request, within these bounds.
const LAST_LOOK_MIN: Nanos = 20 * MILLISECOND;
const LAST_LOOK_MAX: Nanos = 500 * MILLISECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Idle,
    Connecting,
    /// TLS begins.
    Handshake,
    InUse,
}

/// A slot for a connection.
#[derive(Debug)]
struct Connection {
    socket: Option<OwnedFd>,
    stage: Stage,
    attempt: Attempt,
    /// Whether a response has come over it, so that the server may have closed it for having been idle.
    used: bool,
    /// The active operation.
    ticket: u32,
    /// What is sent for it, and to which server.
    exchange: Exchange,
    /// The request of a scenario; empty for that of the plan.
    request: Vec<u8>,
    begin: Nanos,
    deadline: Nanos,
    /// Bytes of the request handed over.
    sent: usize,
    retried: bool,
    reader: ResponseReader,
    tls: Option<Box<ClientConnection>>,
    /// When the part of the operation began that it is in: opening, the handshake, the wait, the download.
    since: Nanos,
    /// The part of the operation that it waits for, until the first byte.
    waits: Option<RequestPart>,
    /// Whether some of the response has come, and not all of it.
    is_downloading: bool,
    /// What follows the response of a scenario.
    next: Option<Next>,
}

impl Connection {
    /// The part of the operation that has not ended.
    fn part(&self) -> Option<RequestPart> {
        if self.is_downloading { Some(RequestPart::Download) } else { self.waits }
    }
}

/// Drives the connections of one share of the load.
pub(super) struct HttpWorker<'a> {
    load: Load<'a>,
    poller: Poller,
    connections: Box<[Connection]>,
    /// For each server the slots of idle connections, the most recently used last. A closed one stays until it is used.
    idle: Vec<Vec<u32>>,
    /// Slots without a connection.
    vacant: Vec<u32>,
    /// Whether a connection has more bytes than one turn receives.
    more: bool,
    /// When the last response was complete; 0 where an event completed none.
    complete_at: Nanos,
    /// The longest time of an exchange.
    slowest: Nanos,
    buffer: Box<[u8]>,
    /// Decrypted bytes; empty without TLS.
    plain: Box<[u8]>,
    known: KnownHead,
    /// No operation in flight has a deadline before this.
    deadlines_from: Nanos,
}

impl<'a> HttpWorker<'a> {
    pub(super) fn new(load: Load<'a>, share: &Share) -> std::result::Result<Self, LoadError> {
        let places = load.connections_max(share);
        let connections = (0..places).map(|_| Connection {
            socket: None,
            stage: Stage::Closed,
            attempt: Attempt::default(),
            used: false,
            ticket: 0,
            exchange: Exchange::default(),
            request: Vec::new(),
            begin: 0,
            deadline: 0,
            sent: 0,
            retried: false,
            reader: ResponseReader::default(),
            tls: None,
            since: 0,
            waits: None,
            is_downloading: false,
            next: None,
        });
        let has_tls = load.servers.iter().any(|server| server.tls.is_some());
        Ok(HttpWorker {
            poller: Poller::new()?,
            connections: connections.collect(),
            idle: load.servers.iter().map(|_| Vec::with_capacity(places as usize)).collect(),
            vacant: (0..places).rev().collect(),
            more: false,
            complete_at: 0,
            slowest: 0,
            buffer: vec![0; BUFFER_BYTES].into(),
            plain: vec![0; if has_tls { BUFFER_BYTES } else { 0 }].into(),
            known: KnownHead::default(),
            deadlines_from: Nanos::MAX,
            load,
        })
    }

    /// A slot for the next request to a server: an idle connection, or space for a new one.
    fn take_place(&mut self, server: u32, now: Nanos) -> Option<u32> {
        while let Some(place) = self.idle.get_mut(server as usize).and_then(Vec::pop) {
            let connection = &self.connections[place as usize];
            match &connection.socket {
                None => self.vacant.push(place),
                Some(socket) => {
                    if now.saturating_sub(connection.since) > FRESH && !is_quiet(socket) {
                        self.look_at_idle(place);
                    }
                    return Some(place);
                }
            }
        }
        // An idle connection to another server makes room.
        self.vacant.pop().or_else(|| {
            let place = self.idle.iter_mut().find_map(Vec::pop)?;
            close(&mut self.connections[place as usize]);
            Some(place)
        })
    }

    /// Opens a connection to the next address that has not been tried for this operation.
    fn open(&mut self, place: u32) -> std::result::Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let server = connection.exchange.server;
        let Some(tls) = self.load.servers.get(server as usize).map(|server| &server.tls) else {
            return Err(Failure::Connect(Errno::CONNREFUSED));
        };
        let tls = tls.as_ref().map(TlsClient::begin).transpose();
        connection.tls = tls.map_err(Failure::Tls)?.map(Box::new);
        connection.since = self.load.clock.now();
        connection.waits = Some(RequestPart::Connect);
        let socket = self.load.connect(&self.poller, (server, place), &mut connection.attempt)?;
        connection.socket = Some(socket);
        connection.stage = Stage::Connecting;
        connection.used = false;
        connection.sent = 0;
        connection.reader.begin(connection.exchange.of_head, self.load.wants_server());
        connection.reader.keep(connection.exchange.keep);
        Ok(())
    }

    /// Sends the rest of the handshake or of the request. Ends the operation only on failure.
    fn send(&mut self, place: u32) -> Option<Result> {
        loop {
            let connection = &mut self.connections[place as usize];
            let Some(socket) = &connection.socket else { return Some(Err(Failure::Unanswered)) };
            let request = request_of(self.load.plan, &connection.request);
            let rest = request.get(connection.sent..).unwrap_or_default();
            let sent = match &mut connection.tls {
                Some(tls) => {
                    if !rest.is_empty() && !tls.is_handshaking() {
                        connection.sent += tls::write(tls, rest);
                    }
                    tls::flush(tls, socket).map(|is_whole| if is_whole { 0 } else { usize::MAX })
                }
                None if rest.is_empty() => return None,
                None => rustix::net::send(socket, rest, SendFlags::NOSIGNAL),
            };
            match sent {
                // The socket takes no more encrypted bytes now.
                Ok(usize::MAX) => return None,
                Ok(bytes) => {
                    connection.sent += bytes;
                    if connection.stage == Stage::Connecting {
                        self.connected(place);
                    }
                    let connection = &self.connections[place as usize];
                    let is_ready = connection.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
                    if connection.tls.is_some()
                        && !(is_ready
                            && connection.sent < request_of(self.load.plan, &connection.request).len())
                    {
                        return None;
                    }
                }
                Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => {}
                Err(errno) if connection.stage == Stage::Connecting => {
                    close(connection);
                    match self.open(place) {
                        Ok(()) => {}
                        // The last address was tried before.
                        Err(_) => return Some(Err(Failure::Connect(errno))),
                    }
                }
                Err(errno) => {
                    if let Err(failure) = self.lose(place, Failure::Broken(errno)) {
                        return Some(Err(failure));
                    }
                }
            }
        }
    }

    /// The connection is open.
    fn connected(&mut self, place: u32) {
        let now = self.load.clock.now();
        let connection = &mut self.connections[place as usize];
        connection.stage = if connection.tls.is_some() { Stage::Handshake } else { Stage::InUse };
        self.part(place, RequestPart::Connect, now);
    }

    /// A part of the operation ended, and the next one begins.
    fn part(&mut self, place: u32, part: RequestPart, now: Nanos) {
        let connection = &mut self.connections[place as usize];
        let begin = std::mem::replace(&mut connection.since, now);
        connection.waits = match part {
            RequestPart::Connect if connection.stage == Stage::Handshake => Some(RequestPart::Tls),
            RequestPart::Connect | RequestPart::Tls => Some(RequestPart::FirstByte),
            RequestPart::FirstByte | RequestPart::Download => None,
        };
        self.load.part(part, begin, now);
    }

    /// The connection broke. If it did so while it was idle the request goes over a new one, once; a request that may
    /// have been carried out is not sent again unless that does no harm.
    fn lose(&mut self, place: u32, failure: Failure) -> std::result::Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let was_idle = connection.used && !connection.retried && !connection.reader.has_begun();
        let was_sent = connection.sent > 0;
        close(connection);
        if !was_idle || was_sent && !connection.exchange.idempotent {
            return Err(failure);
        }
        connection.retried = true;
        connection.attempt.tried = 0;
        count(&self.load.seen.lost_idle);
        count(&self.load.seen.retried);
        self.open(place)
    }

    /// Receives the available bytes, up to one turn; more are received after the other connections.
    fn receive(&mut self, place: u32, mut ends: bool) -> Received {
        for _ in 0..TURN {
            let connection = &mut self.connections[place as usize];
            let Some(socket) = &connection.socket else { return Received::Waits };
            let bytes = match rustix::net::recv(socket, &mut *self.buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return self.end(place),
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN) => return Received::Waits,
                Err(Errno::INTR) => continue,
                Err(errno) => return self.go_on_without(place, Failure::Broken(errno)),
            };
            let fed = match &mut connection.tls {
                Some(_) => match self.decrypt(place, bytes) {
                    Ok(Decrypted { has_ended: true, read: None | Some(Progress::More) }) => {
                        return self.end_of_tls(place);
                    }
                    Ok(Decrypted { has_ended, read: Some(progress) }) => {
                        ends |= has_ended;
                        Ok(progress)
                    }
                    // The handshake goes on, or it is over and the request is sent.
                    Ok(Decrypted { read: None, .. }) => match self.send(place) {
                        Some(result) => return Received::Over(result),
                        None => Ok(Progress::More),
                    },
                    Err(Failure::Response(fault)) => Err(fault),
                    Err(failure) => {
                        close(&mut self.connections[place as usize]);
                        return Received::Over(Err(failure));
                    }
                },
                None => {
                    if !connection.reader.has_begun() {
                        let now = self.load.clock.now();
                        self.part(place, RequestPart::FirstByte, now);
                    }
                    let piece = self.buffer.get(..bytes).unwrap_or_default();
                    self.connections[place as usize].reader.feed(piece, &mut self.known)
                }
            };
            let connection = &mut self.connections[place as usize];
            match fed {
                Ok(Progress::Whole(answer, unread)) => {
                    // At the end of the connection, and after a full buffer, there may be more bytes.
                    let more = match unread {
                        0 if ends || bytes == BUFFER_BYTES => self.receive_more(place),
                        0 => More::Nothing,
                        unread => More::Bytes(unread),
                    };
                    return Received::Over(match more {
                        More::Bytes(_) => {
                            close(&mut self.connections[place as usize]);
                            Err(Failure::Response(Fault::Trailing))
                        }
                        More::Nothing => self.finish(place, answer, !ends),
                        More::End => self.finish(place, answer, false),
                    });
                }
                // The buffer was not filled: there are no more bytes, and epoll reports new ones.
                Ok(Progress::More) => {
                    connection.is_downloading = connection.reader.has_begun();
                    if bytes < BUFFER_BYTES && !ends {
                        return Received::Waits;
                    }
                }
                Err(fault) => {
                    close(connection);
                    return Received::Over(Err(Failure::Response(fault)));
                }
            }
        }
        Received::Again
    }

    /// The connection has ended. A server that ends TLS says so before: without that, a response whose end nothing else states may
    /// be cut (RFC 9112, section 9.8).
    fn end(&mut self, place: u32) -> Received {
        if self.connections[place as usize].tls.is_some()
            && self.connections[place as usize].reader.end().is_ok()
        {
            count(&self.load.seen.without_notify);
        }
        self.end_of_tls(place)
    }

    /// The server sends nothing more.
    fn end_of_tls(&mut self, place: u32) -> Received {
        let connection = &mut self.connections[place as usize];
        match connection.reader.end() {
            Ok(answer) => Received::Over(self.finish(place, answer, false)),
            Err(fault) => {
                let failure = match connection.reader.has_begun() {
                    true => Failure::Response(fault),
                    false => Failure::Unanswered,
                };
                self.go_on_without(place, failure)
            }
        }
    }

    /// Receives what comes after the end of a response.
    fn receive_more(&mut self, place: u32) -> More {
        loop {
            let connection = &mut self.connections[place as usize];
            let Some(socket) = &connection.socket else { return More::End };
            let bytes = match rustix::net::recv(socket, &mut *self.buffer, RecvFlags::empty()) {
                Ok((_, bytes @ 1..)) => bytes,
                Err(Errno::AGAIN) => return More::Nothing,
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => return More::End,
            };
            let Some(tls) = &mut connection.tls else { return More::Bytes(bytes) };
            let mut received = self.buffer.get(..bytes).unwrap_or_default();
            while !received.is_empty() {
                if tls::take_in(tls, &mut received).is_err() {
                    return More::End;
                }
                match tls::read(tls, &mut self.plain) {
                    Plain::Bytes(plain) => {
                        let length = plain.min(self.buffer.len());
                        self.buffer[..length].copy_from_slice(&self.plain[..length]);
                        return More::Bytes(length);
                    }
                    Plain::End => return More::End,
                    // Tickets of sessions are no bytes of a response.
                    Plain::Nothing => {}
                }
            }
        }
    }

    /// Looks why an idle connection has something to receive: it has ended, or the server sent what no request asked for. A
    /// server may end it with a response that says so.
    #[cold]
    fn look_at_idle(&mut self, place: u32) {
        let bytes = match self.receive_more(place) {
            More::Nothing => return,
            More::End => return close_idle(&mut self.connections[place as usize], self.load.seen),
            More::Bytes(bytes) => bytes,
        };
        let piece = self.buffer.get(..bytes).unwrap_or_default();
        let (status, ended) = (status_of(piece), ends_idle(piece));
        let is_late = matches!(status, 400 | 408);
        if ended.is_some() || is_late && self.receive_more(place) == More::End {
            self.load.ended_idle(status);
            return close_idle(&mut self.connections[place as usize], self.load.seen);
        }
        self.load.unsolicited(status);
        close(&mut self.connections[place as usize]);
    }

    /// What a server sent on a new connection before the request, if anything.
    #[cold]
    fn greeting(&mut self, place: u32) -> Option<Failure> {
        let connection = &self.connections[place as usize];
        let socket = connection.socket.as_ref().filter(|_| connection.tls.is_none())?;
        match rustix::net::recv(socket, &mut *self.buffer, RecvFlags::PEEK) {
            Ok((_, bytes @ 1..)) => {
                Some(Failure::Unsolicited(status_of(self.buffer.get(..bytes).unwrap_or_default())))
            }
            _ => None,
        }
    }

    /// Decrypts received bytes and reads the response from them.
    fn decrypt(&mut self, place: u32, bytes: usize) -> std::result::Result<Decrypted, Failure> {
        let (mut taken, mut whole, mut is_begun, mut has_ended) = (0, None, false, false);
        while taken < bytes && !has_ended {
            let connection = &mut self.connections[place as usize];
            let Some(tls) = &mut connection.tls else { break };
            let mut received = self.buffer.get(taken..bytes).unwrap_or_default();
            let fault = tls::take_in(tls, &mut received).err();
            taken = bytes - received.len();
            if let Some(fault) = fault {
                // The alert for the server.
                if let Some(socket) = &connection.socket {
                    let _ = tls::flush(tls, socket);
                }
                return Err(Failure::Tls(fault));
            }
            if connection.stage == Stage::Handshake && !tls.is_handshaking() {
                count(&self.load.seen.handshakes);
                if tls::is_resumed(tls) {
                    count(&self.load.seen.resumed);
                }
                connection.stage = Stage::InUse;
                is_begun = true;
                let now = self.load.clock.now();
                self.part(place, RequestPart::Tls, now);
            }
            loop {
                let connection = &mut self.connections[place as usize];
                let Some(tls) = &mut connection.tls else { break };
                let plain = match tls::read(tls, &mut self.plain) {
                    Plain::Bytes(plain) => plain,
                    Plain::Nothing => break,
                    Plain::End => {
                        has_ended = true;
                        break;
                    }
                };
                if !connection.reader.has_begun() {
                    if connection.sent == 0 {
                        let piece = self.plain.get(..plain).unwrap_or_default();
                        return Err(Failure::Unsolicited(status_of(piece)));
                    }
                    let now = self.load.clock.now();
                    self.part(place, RequestPart::FirstByte, now);
                }
                let piece = self.plain.get(..plain).unwrap_or_default();
                match (&mut whole, self.connections[place as usize].reader.feed(piece, &mut self.known)) {
                    (_, Err(fault)) => return Err(Failure::Response(fault)),
                    // Bytes after the response.
                    (Some((_, unread)), _) => *unread += plain,
                    (None, Ok(Progress::Whole(answer, unread))) => whole = Some((answer, unread)),
                    (None, Ok(Progress::More)) => {}
                }
            }
        }
        let connection = &self.connections[place as usize];
        let read = match whole {
            Some((answer, unread)) => Some(Progress::Whole(answer, unread)),
            None if is_begun || connection.stage == Stage::Handshake => None,
            None => Some(Progress::More),
        };
        Ok(Decrypted { read, has_ended })
    }

    /// After a connection broke: a new one, or the failure.
    fn go_on_without(&mut self, place: u32, failure: Failure) -> Received {
        match self.lose(place, failure) {
            Ok(()) => self.send(place).map_or(Received::Waits, Received::Over),
            Err(failure) => Received::Over(Err(failure)),
        }
    }

    /// The response is complete.
    fn finish(&mut self, place: u32, answer: Answer, open: bool) -> Result {
        if std::mem::take(&mut self.connections[place as usize].is_downloading) {
            let now = self.load.clock.now();
            self.part(place, RequestPart::Download, now);
        }
        let connection = &mut self.connections[place as usize];
        self.complete_at = connection.since;
        self.slowest = self.slowest.max(connection.since.saturating_sub(connection.begin));
        connection.used = true;
        if self.load.wants_server() {
            let server = connection.reader.take_server();
            self.load.know_server(server, connection.reader.failure_word());
        }
        let sent_whole = connection.sent == request_of(self.load.plan, &connection.request).len();
        if !(open && answer.persistent && self.load.plan.keep_alive && sent_whole) {
            close(connection);
        }
        let connection = &mut self.connections[place as usize];
        let (exchange, begin) = (connection.exchange, connection.begin);
        let reader = &connection.reader;
        let (next, result) =
            self.load.judge(&exchange, answer, begin, || reader.kept_fields(), reader.kept_body());
        connection.next = next;
        result
    }

    /// The operation of this slot has ended: the connection is idle, or its slot is vacant.
    fn release(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        if connection.socket.is_some() {
            connection.stage = Stage::Idle;
            if let Some(idle) = self.idle.get_mut(connection.exchange.server as usize) {
                idle.push(place);
            }
        } else {
            self.vacant.push(place);
        }
    }

    /// The exchange of a slot is over. Returns the result of the step of its operation, unless another request follows.
    fn over(&mut self, place: u32, result: Result) -> Option<Done> {
        let connection = &mut self.connections[place as usize];
        let (exchange, next) = (connection.exchange, connection.next.take());
        if let (Err(_), Some(part)) = (&result, connection.part()) {
            self.load.left(part, connection.since, connection.begin);
        }
        self.load.count_address(connection.attempt.address, &result);
        self.release(place);
        match self.load.follow(&exchange, next, result) {
            Next::Done(done) => Some(self.load.charge(done)),
            Next::Redirect(operation) => match self.begin(operation, true) {
                Admission::Completed(done) => Some(done),
                Admission::Accepted => None,
                // A slot was released just now.
                _ => match self.load.follow(&exchange, None, Err(Failure::Unanswered)) {
                    Next::Done(done) => Some(done),
                    Next::Redirect(_) => None,
                },
            },
        }
    }

    /// Sends the next request of an operation.
    fn begin(&mut self, operation: Operation, is_redirect: bool) -> Admission {
        match self.load.next(operation, is_redirect) {
            Ok(exchange) => self.start(operation.ticket, exchange),
            Err(admission) => admission,
        }
    }

    /// Starts an exchange. Its request is that of the plan, or the planned one.
    fn start(&mut self, ticket: u32, exchange: Exchange) -> Admission {
        let now = self.load.clock.now();
        let Some(place) = self.take_place(exchange.server, now) else { return Admission::Busy };
        let timeout = self.load.timeout(&exchange);
        let connection = &mut self.connections[place as usize];
        std::mem::swap(&mut connection.request, &mut self.load.planned);
        connection.exchange = exchange;
        connection.ticket = ticket;
        connection.begin = now;
        connection.deadline = now.saturating_add(timeout);
        connection.retried = false;
        connection.attempt.tried = 0;
        connection.sent = 0;
        connection.since = now;
        connection.waits = Some(RequestPart::FirstByte);
        connection.is_downloading = false;
        self.deadlines_from = self.deadlines_from.min(connection.deadline);
        let opened = match connection.socket {
            Some(_) => {
                connection.stage = Stage::InUse;
                connection.reader.begin(exchange.of_head, self.load.wants_server());
                connection.reader.keep(exchange.keep);
                Ok(())
            }
            None => self.open(place),
        };
        let result = match opened {
            Ok(()) => self.send(place),
            Err(failure) => Some(Err(failure)),
        };
        match result.and_then(|result| self.over(place, result)) {
            None => Admission::Accepted,
            Some(done) => Admission::Completed(done),
        }
    }

    /// Processes one event. Returns a completion if an operation has ended.
    fn take(&mut self, event: libc::epoll_event) -> Option<Completion> {
        use epoll::EventFlags as Flags;
        let (data, flags) = (event.u64, Flags::from_bits_retain(event.events));
        let place = data as u32;
        let connection = self.connections.get_mut(place as usize)?;
        if u64::from(connection.attempt.serial) != data >> 32 {
            return None;
        }
        let ends = flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        let came = ends || flags.contains(Flags::IN);
        match connection.stage {
            Stage::Closed => return None,
            Stage::Idle => {
                if came {
                    self.look_at_idle(place);
                }
                return None;
            }
            Stage::Connecting | Stage::Handshake | Stage::InUse => {}
        }
        let ticket = connection.ticket;
        self.complete_at = 0;
        // Before the request nothing is to be received.
        if connection.stage == Stage::Connecting
            && flags.contains(Flags::IN)
            && !flags.intersects(Flags::HUP | Flags::ERR)
            && let Some(failure) = self.greeting(place)
        {
            close(&mut self.connections[place as usize]);
            let done = self.over(place, Err(failure))?;
            return Some(Completion::new(ticket, done));
        }
        let connection = &self.connections[place as usize];
        // A failed connection reports its error at the next send.
        let unsent = connection.sent < request_of(self.load.plan, &connection.request).len()
            || connection.tls.as_ref().is_some_and(|tls| tls.wants_write());
        let mut result = if unsent { self.send(place) } else { None };
        let stage = self.connections[place as usize].stage;
        if result.is_none() && came && matches!(stage, Stage::Handshake | Stage::InUse) {
            result = match self.receive(place, ends) {
                Received::Over(result) => Some(result),
                Received::Waits => None,
                Received::Again => {
                    self.poller.again(event);
                    self.more = true;
                    None
                }
            };
        }
        let at = self.complete_at;
        let done = self.over(place, result?)?;
        Some(Completion { ticket, done, at })
    }

    /// Ends the operations whose timeout has expired.
    #[cold]
    fn expire(&mut self, now: Nanos, done_now: &mut Vec<Completion>) {
        self.deadlines_from = Nanos::MAX;
        for place in 0..self.connections.len() as u32 {
            let connection = &mut self.connections[place as usize];
            let waiting = match connection.stage {
                Stage::Closed | Stage::Idle => continue,
                Stage::Connecting => TimeoutPhase::Connection,
                Stage::Handshake => TimeoutPhase::Handshake,
                Stage::InUse if connection.reader.has_begun() => TimeoutPhase::LastByte,
                Stage::InUse => TimeoutPhase::FirstByte,
            };
            if connection.deadline > now {
                self.deadlines_from = self.deadlines_from.min(connection.deadline);
                continue;
            }
            abandon(connection);
            let ticket = connection.ticket;
            let done = self.over(place, Err(Failure::TimedOut(waiting)));
            done_now.extend(done.map(|done| Completion::new(ticket, done)));
        }
    }
}

impl HttpWorker<'_> {
    /// Looks for responses that come after the last request. A server that sent one too many is always one ahead: each
    /// response seems to be that to the next request, and only the last one shows it.
    fn look_for_more(&mut self) {
        let is_idle = |connection: &Connection| connection.stage == Stage::Idle;
        let wait = self.slowest.saturating_mul(2).clamp(LAST_LOOK_MIN, LAST_LOOK_MAX);
        let until = self.load.clock.now().saturating_add(wait);
        // Until the time is over, or all have been closed.
        while self.connections.iter().any(is_idle) {
            while let Some(event) = self.poller.next() {
                let _ = self.take(event);
            }
            let now = self.load.clock.now();
            if now >= until || self.poller.wait(until, now).is_err() {
                return;
            }
        }
    }
}

impl Drop for HttpWorker<'_> {
    /// Requests that the end of the load leaves unanswered are abandoned.
    fn drop(&mut self) {
        let is_awaited =
            |connection: &&mut Connection| !matches!(connection.stage, Stage::Closed | Stage::Idle);
        self.connections.iter_mut().filter(is_awaited).for_each(abandon);
        self.look_for_more();
    }
}

/// What was decrypted.
struct Decrypted {
    /// None while the handshake goes on, and when it ends.
    read: Option<Progress>,
    /// Whether the server said that nothing follows.
    has_ended: bool,
}

/// What came after the end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Nothing,
    /// So many bytes of the buffer.
    Bytes(usize),
    /// The connection has ended.
    End,
}

/// The result of a turn of receiving.
enum Received {
    Over(Result),
    Waits,
    Again,
}

impl Worker for HttpWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.load.error.is_some() {
            return Admission::Busy;
        }
        self.begin(operation, false)
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.load.remarks);
    }

    fn parts(&mut self) -> Option<&mut Vec<Part>> {
        Some(&mut self.load.parts)
    }

    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        self.load.kind_of(operation, accepted)
    }

    fn leave(&mut self, operation: Operation, accepted: bool, due: Nanos) {
        let in_progress = |connection: &&Connection| {
            connection.ticket == operation.ticket && !matches!(connection.stage, Stage::Closed | Stage::Idle)
        };
        match self.connections.iter().find(in_progress).filter(|_| accepted) {
            Some(connection) => {
                if let Some(part) = connection.part() {
                    self.load.left(part, connection.since, connection.begin);
                }
            }
            None => self.load.left_unsent(due),
        }
    }

    fn whole_of(&self, operation: Operation) -> Option<u16> {
        self.load.whole_of(operation)
    }

    /// Returns the completions of one turn, each with its time. They are received before the next requests are sent: to send
    /// takes much longer than to receive, and the responses that wait meanwhile would seem slower than they are.
    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> std::result::Result<(), LoadError> {
        let mut waited = false;
        loop {
            if let Some(error) = self.load.error.take() {
                return Err(error);
            }
            while let Some(event) = self.poller.next() {
                if let Some(completion) = self.take(event) {
                    done.push(completion);
                    let begin = done.first().map_or(0, |first| first.at);
                    if completion.at.saturating_sub(begin) > RECEIVE_TURN {
                        break;
                    }
                }
                if self.more {
                    break;
                }
            }
            if !done.is_empty() {
                return Ok(());
            }
            let now = self.load.clock.now();
            if now >= self.deadlines_from {
                self.expire(now, done);
                if !done.is_empty() {
                    return Ok(());
                }
            }
            // An endless response must not block the deadlines or the loop.
            if std::mem::take(&mut self.more) || waited && now >= until {
                return Ok(());
            }
            self.poller.wait(until.min(self.deadlines_from), now)?;
            waited = true;
        }
    }
}

/// The request that a connection sends.
fn request_of<'b>(plan: &'b HttpPlan, of_scenario: &'b [u8]) -> &'b [u8] {
    if of_scenario.is_empty() { &plan.request } else { of_scenario }
}

fn close(connection: &mut Connection) {
    connection.socket = None;
    connection.tls = None;
    connection.stage = Stage::Closed;
}

/// Closes a connection whose response is no longer awaited, with a reset: a server that had no time for the request yet can
/// drop it, and the next trial finds no work of this one.
fn abandon(connection: &mut Connection) {
    if let Some(socket) = &connection.socket {
        reset_on_close(socket);
    }
    close(connection);
}

fn close_idle(connection: &mut Connection, seen: &Observations) {
    count(&seen.lost_idle);
    close(connection);
}
