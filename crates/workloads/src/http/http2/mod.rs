//! One thread's connections of HTTP/2, on one epoll, each with several requests at a time.
//!
//! The frames are the business of the crate `h2`. It gets no runtime: a connection is polled when epoll reports its
//! socket or when requests were queued, and a stream when `h2` wakes it. The frames of all requests that were queued
//! since the last wait leave in one call.

mod connection;
mod request;
mod stream;
mod transport;
mod waking;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::workload::{Admission, Completion, Done, LoadError, Operation, Part, Share, Worker};
use model::{Nanos, SECOND};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::RequestPart;
use super::failure::{Failure, Http2Fault, TimeoutPhase};
use super::load::{Load, Result, count};
use super::response::Fault;
use super::socket::{Poller, exhausted};
use super::tls::TlsClient;
use super::users::{Exchange, Next};
use connection::{Connection, Session, Stage, StreamEnd, code_of};
use request::Http2Request;
use stream::{Progress, State, Stream};
use transport::Transport;
use waking::{Woken, waker};

/// A connection that had no operation for so long is looked at before it gets one: perhaps the server has closed it.
const FRESH: Nanos = SECOND;

/// Whether a request, written in HTTP/1.1, can be sent over HTTP/2.
pub(super) fn can_send(text: &[u8]) -> bool {
    Http2Request::convert(text, true).is_some()
}

/// Drives the connections of one share of the load.
pub(super) struct Http2Worker<'a> {
    load: Load<'a>,
    poller: Poller,
    connections: Box<[Connection]>,
    /// Places without a connection.
    vacant: Vec<u32>,
    /// For each server the connections with room, and their serials; the first that is used is the last one. One that has
    /// no more room stays until it is looked at.
    roomy: Vec<Vec<(u32, u32)>>,
    /// By ticket.
    streams: Box<[Stream]>,
    /// Operations that were begun, and wait for room on a connection.
    postponed: VecDeque<u32>,
    /// Whether there is room since that was tried.
    freed: bool,
    /// Whether an operation was not accepted since then.
    was_busy: bool,
    /// The request of the plan; none if it cannot be sent.
    request: Option<Http2Request>,
    woken_streams: Arc<Woken>,
    woken_connections: Arc<Woken>,
    /// Numbers that were taken from these.
    taken_streams: Vec<u32>,
    taken_connections: Vec<u32>,
    /// Completions that `submit` cannot return; the next `reap` returns them.
    early: Vec<Completion>,
    /// No operation in flight has a deadline before this.
    deadlines_from: Nanos,
    /// Whether a connection has more bytes than one turn receives.
    more: bool,
}

/// Whether an operation found a connection.
enum Assigned {
    Yes,
    /// All connections that may be open have as many operations as they may have.
    NoRoom,
    Failed(Failure),
}

impl<'a> Http2Worker<'a> {
    pub(super) fn new(load: Load<'a>, share: &Share) -> std::result::Result<Self, LoadError> {
        let places = load.connections_max(share);
        let (woken_streams, woken_connections) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let is_tls = load.plan.origin.is_tls;
        Ok(Http2Worker {
            poller: Poller::new()?,
            connections: (0..places).map(|at| Connection::new(waker(&woken_connections, at))).collect(),
            vacant: (0..places).rev().collect(),
            roomy: load.servers.iter().map(|_| Vec::new()).collect(),
            streams: (0..share.in_flight_max.max(1))
                .map(|ticket| Stream::new(waker(&woken_streams, ticket)))
                .collect(),
            postponed: VecDeque::new(),
            freed: false,
            was_busy: false,
            request: Http2Request::convert(&load.plan.request, is_tls),
            woken_streams,
            woken_connections,
            taken_streams: Vec::new(),
            taken_connections: Vec::new(),
            early: Vec::new(),
            deadlines_from: Nanos::MAX,
            more: false,
            load,
        })
    }

    /// Starts an exchange. Its request is that of the plan, or the planned one.
    fn start(&mut self, ticket: u32, exchange: Exchange) -> Assigned {
        let now = self.load.clock.now();
        let deadline = now.saturating_add(self.load.timeout(&exchange));
        let wants_server = self.load.wants_server();
        let Some(stream) = self.streams.get_mut(ticket as usize) else { return Assigned::NoRoom };
        std::mem::swap(&mut stream.request, &mut self.load.planned);
        stream.begin(exchange, now, deadline, wants_server);
        self.deadlines_from = self.deadlines_from.min(deadline);
        self.assign(ticket, now)
    }

    /// Gives an operation a connection, and sends its request if that is open.
    fn assign(&mut self, ticket: u32, now: Nanos) -> Assigned {
        let server = self.streams[ticket as usize].exchange.server;
        let place = match self.place_with_room(server, now) {
            Some(place) => place,
            None => match self.open_another(server) {
                Ok(Some(place)) => place,
                Ok(None) => return Assigned::NoRoom,
                Err(failure) => return Assigned::Failed(failure),
            },
        };
        let connection = &mut self.connections[place as usize];
        connection.active += 1;
        let stream = &mut self.streams[ticket as usize];
        stream.connection = place;
        stream.state = State::Waiting;
        if connection.stage != Stage::Open {
            connection.waiting.push(ticket);
            return Assigned::Yes;
        }
        match self.send(ticket, now) {
            Ok(()) => Assigned::Yes,
            Err(failure) => {
                self.release(ticket);
                Assigned::Failed(failure)
            }
        }
    }

    /// A connection to a server that takes another operation.
    fn place_with_room(&mut self, server: u32, now: Nanos) -> Option<u32> {
        loop {
            let (place, serial) = *self.roomy.get(server as usize)?.last()?;
            let connection = &mut self.connections[place as usize];
            if connection.serial == serial && connection.has_room() {
                let is_idle = connection.stage == Stage::Open && connection.active == 0;
                if !is_idle || now.saturating_sub(connection.last_use) <= FRESH {
                    return Some(place);
                }
                connection.last_use = now;
                if let Some(transport) = &connection.transport {
                    transport.borrow_mut().readable(false);
                }
                let mut early = std::mem::take(&mut self.early);
                self.turn(place, &mut early);
                self.early = early;
                continue;
            }
            if connection.serial == serial {
                connection.is_listed = false;
            }
            self.roomy.get_mut(server as usize)?.pop();
        }
    }

    /// Begins to open another connection to a server; none if there are as many as there may be.
    fn open_another(&mut self, server: u32) -> std::result::Result<Option<u32>, Failure> {
        if self.vacant.is_empty() {
            // An idle connection to another server makes room.
            let is_idle = |connection: &Connection| {
                connection.stage == Stage::Open && connection.active == 0 && !connection.is_draining
            };
            match self.connections.iter().position(is_idle) {
                Some(idle) => self.close(idle as u32),
                None => return Ok(None),
            }
        }
        let Some(place) = self.vacant.pop() else { return Ok(None) };
        let connection = &mut self.connections[place as usize];
        connection.server = server;
        connection.tried = 0;
        connection.limit = self.load.plan.streams;
        let opened = self.connect(place);
        if opened.is_err() {
            self.vacant.push(place);
        }
        opened.map(|()| Some(place))
    }

    /// Connects to the next address that has not been tried.
    fn connect(&mut self, place: u32) -> std::result::Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let mut failure = Failure::Connect(Errno::CONNREFUSED);
        let Some(server) = self.load.servers.get(connection.server as usize) else { return Err(failure) };
        connection.since = self.load.clock.now();
        while let Some(address) = server.addresses.get(connection.tried) {
            connection.tried += 1;
            connection.serial = connection.serial.wrapping_add(1);
            let data = u64::from(connection.serial) << 32 | u64::from(place);
            match self.poller.connect(address, data) {
                Ok(socket) => {
                    let tls = server.tls.as_ref().map(TlsClient::begin).transpose().map_err(Failure::Tls)?;
                    count(&self.load.seen.opened);
                    connection.transport = Some(Rc::new(RefCell::new(Transport::new(socket, tls))));
                    connection.stage = Stage::Connecting;
                    connection.used = false;
                    connection.is_draining = false;
                    connection.go_away = None;
                    connection.is_listed = false;
                    self.list(place);
                    return Ok(());
                }
                Err(errno) => {
                    self.load.error = exhausted(errno).or(self.load.error.take());
                    failure = Failure::Connect(errno);
                }
            }
        }
        Err(failure)
    }

    /// Lists a connection as one with room.
    fn list(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        if connection.is_listed || !connection.has_room() {
            return;
        }
        connection.is_listed = true;
        if let Some(roomy) = self.roomy.get_mut(connection.server as usize) {
            roomy.push((place, connection.serial));
        }
    }

    /// Queues the request of an operation on its connection, which is open.
    fn send(&mut self, ticket: u32, now: Nanos) -> std::result::Result<(), Failure> {
        const INVALID: Failure = Failure::Http2(Http2Fault::Request);
        let stream = &mut self.streams[ticket as usize];
        let request = match stream.request.is_empty() {
            true => self.request.clone(),
            false => {
                let server = self.load.servers.get(stream.exchange.server as usize);
                Http2Request::convert(&stream.request, server.is_some_and(|server| server.tls.is_some()))
            }
        };
        let connection = &mut self.connections[stream.connection as usize];
        let received = connection.received();
        let Some(session) = &mut connection.session else { return Err(Failure::Unanswered) };
        let response =
            session.send(request.ok_or(INVALID)?).map_err(|error| match StreamEnd::of(&error) {
                StreamEnd::Unprocessed { failure, .. } | StreamEnd::Failed(failure) => failure,
                StreamEnd::Stopped | StreamEnd::Broken => Failure::Unanswered,
            })?;
        stream.sent(response, received, now);
        Ok(())
    }

    /// Processes an event.
    fn take(&mut self, event: libc::epoll_event, done: &mut Vec<Completion>) {
        use epoll::EventFlags as Flags;
        let (data, flags) = (event.u64, Flags::from_bits_retain(event.events));
        let place = data as u32;
        let Some(connection) = self.connections.get_mut(place as usize) else { return };
        let Some(transport) = &connection.transport else { return };
        if u64::from(connection.serial) != data >> 32 {
            return;
        }
        let ends = flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        if ends || flags.contains(Flags::IN) {
            transport.borrow_mut().readable(ends);
        }
        match connection.stage {
            Stage::Closed => {}
            Stage::Connecting => {
                let error = sockopt::socket_error(transport.borrow().socket()).unwrap_or_else(Err);
                match error {
                    Ok(()) => self.connected(place, done),
                    // The last address was tried before.
                    Err(errno) if self.connect(place).is_err() => {
                        self.end(place, Failure::Connect(errno), done);
                    }
                    Err(_) => {}
                }
            }
            Stage::Handshake => self.shake_hands(place, done),
            Stage::Open => self.turn(place, done),
        }
    }

    /// The connection is open.
    fn connected(&mut self, place: u32, done: &mut Vec<Completion>) {
        let now = self.load.clock.now();
        let connection = &mut self.connections[place as usize];
        self.load.part(RequestPart::Connect, connection.since, now);
        connection.since = now;
        let has_tls =
            self.load.servers.get(connection.server as usize).is_some_and(|server| server.tls.is_some());
        if has_tls {
            connection.stage = Stage::Handshake;
            self.shake_hands(place, done);
        } else {
            self.begin_session(place, now, done);
        }
    }

    fn shake_hands(&mut self, place: u32, done: &mut Vec<Completion>) {
        let connection = &mut self.connections[place as usize];
        let Some(transport) = &connection.transport else { return };
        transport.borrow_mut().begin_turn();
        let shaken = transport.borrow_mut().shake_hands();
        match shaken {
            Ok(false) => {}
            Ok(true) => {
                count(&self.load.seen.handshakes);
                if transport.borrow().is_resumed() {
                    count(&self.load.seen.resumed);
                }
                let now = self.load.clock.now();
                self.load.part(RequestPart::Tls, connection.since, now);
                self.begin_session(place, now, done);
            }
            Err(failure) => self.end(place, failure, done),
        }
    }

    /// Sends the requests that waited for the connection.
    fn begin_session(&mut self, place: u32, now: Nanos, done: &mut Vec<Completion>) {
        let connection = &mut self.connections[place as usize];
        let streams = self.load.plan.streams;
        connection.session =
            connection.transport.as_ref().and_then(|transport| Session::begin(transport, streams));
        connection.stage = Stage::Open;
        for ticket in std::mem::take(&mut connection.waiting) {
            if let Err(failure) = self.send(ticket, now) {
                self.over(ticket, Err(failure), done);
            }
        }
        // The preface is sent even if nothing else is.
        self.connections[place as usize].waker.wake_by_ref();
    }

    /// Lets a connection read and write, and processes what came.
    fn turn(&mut self, place: u32, done: &mut Vec<Completion>) {
        let connection = &mut self.connections[place as usize];
        if connection.stage != Stage::Open {
            return;
        }
        let has_ended = connection.advance();
        if let Some(session) = &mut connection.session {
            let streams_max = session.streams_max();
            let limit = self.load.plan.streams.min(streams_max);
            if limit != connection.limit {
                connection.limit = limit;
                self.load.seen.streams.store(u64::from(streams_max), Ordering::Relaxed);
            }
            if let Some(error) = session.ending().filter(|_| connection.go_away.is_none()) {
                connection.is_draining = true;
                if error.is_go_away() && error.is_remote() {
                    count(&self.load.seen.go_away);
                    connection.go_away = error.reason().map(code_of);
                }
            }
        }
        if let Some(transport) = &connection.transport {
            self.more |= transport.borrow().has_more();
        }
        connection.is_draining |= has_ended;
        let mut taken = std::mem::take(&mut self.taken_streams);
        self.woken_streams.take(&mut taken);
        if !taken.is_empty() {
            let now = self.load.clock.now();
            for ticket in &taken {
                self.advance(*ticket, now, done);
            }
        }
        self.taken_streams = taken;
        let connection = &self.connections[place as usize];
        if has_ended {
            let failure = connection.failure();
            if connection.active == 0 && connection.used && connection.go_away.is_none() {
                count(&self.load.seen.lost_idle);
            }
            self.end(place, failure, done);
        } else if connection.is_draining && connection.active == 0 {
            self.close(place);
        } else {
            self.list(place);
        }
    }

    /// Reads what came on a stream.
    fn advance(&mut self, ticket: u32, now: Nanos, done: &mut Vec<Completion>) {
        let Some(stream) = self.streams.get_mut(ticket as usize) else { return };
        match stream.read() {
            Progress::None => {}
            Progress::Waits { is_begun } => {
                if is_begun {
                    self.begun(ticket, now);
                }
                self.streams[ticket as usize].is_downloading = true;
            }
            Progress::Whole { is_begun } => {
                if is_begun {
                    self.begun(ticket, now);
                }
                let result = self.finish(ticket, now);
                self.over(ticket, result, done);
            }
            Progress::Fault(fault) => self.over(ticket, Err(Failure::Response(fault)), done),
            Progress::Error(error) => match StreamEnd::of(&error) {
                StreamEnd::Stopped if self.streams[ticket as usize].has_begun() => {
                    let result = self.finish(ticket, now);
                    self.over(ticket, result, done);
                }
                StreamEnd::Stopped => {
                    self.over(ticket, Err(Failure::Http2(Http2Fault::Reset(0))), done);
                }
                StreamEnd::Unprocessed { retries_max, .. }
                    if self.streams[ticket as usize].retries < retries_max =>
                {
                    self.retry(ticket, done);
                }
                StreamEnd::Unprocessed { failure, .. } => self.over(ticket, Err(failure), done),
                StreamEnd::Broken => {
                    let place = self.streams[ticket as usize].connection;
                    let failure = self.connections[place as usize].failure();
                    self.broke(ticket, failure, done);
                }
                StreamEnd::Failed(failure) => self.over(ticket, Err(failure), done),
            },
        }
    }

    /// The head of a response has come.
    fn begun(&mut self, ticket: u32, now: Nanos) {
        let stream = &mut self.streams[ticket as usize];
        self.connections[stream.connection as usize].used = true;
        let since = std::mem::replace(&mut stream.since, now);
        self.load.part(RequestPart::FirstByte, since, now);
    }

    /// The response is complete.
    fn finish(&mut self, ticket: u32, now: Nanos) -> Result {
        let stream = &mut self.streams[ticket as usize];
        if std::mem::take(&mut stream.is_downloading) {
            self.load.part(RequestPart::Download, stream.since, now);
        }
        if self.load.wants_server() {
            self.load.know_server(stream.server(), stream.failure_word());
        }
        let (exchange, answer, begin) = (stream.exchange, stream.answer(), stream.begin);
        let (next, result) = self.load.judge(&exchange, answer, begin, || stream.fields(), stream.body());
        stream.next = next;
        result
    }

    /// The connection of an operation broke. The request goes over another one, once, if nothing has come since it was
    /// sent, and if it does no harm to send it again: then the server has probably closed an idle connection.
    fn broke(&mut self, ticket: u32, failure: Failure, done: &mut Vec<Completion>) {
        let stream = &self.streams[ticket as usize];
        let connection = &self.connections[stream.connection as usize];
        let was_idle = connection.used
            && stream.state == State::Sent
            && stream.received_before == connection.received()
            && stream.retries == 0
            && stream.exchange.idempotent;
        if was_idle {
            count(&self.load.seen.lost_idle);
            return self.retry(ticket, done);
        }
        let failure = match failure {
            Failure::Unanswered if stream.has_begun() => Failure::Response(Fault::ClosedEarly),
            failure => failure,
        };
        self.over(ticket, Err(failure), done);
    }

    /// Sends the request of an operation again.
    fn retry(&mut self, ticket: u32, done: &mut Vec<Completion>) {
        count(&self.load.seen.retried);
        self.release(ticket);
        let now = self.load.clock.now();
        let wants_server = self.load.wants_server();
        let stream = &mut self.streams[ticket as usize];
        stream.begin_again(wants_server);
        match self.assign(ticket, now) {
            Assigned::Yes => {}
            Assigned::NoRoom => self.postpone(ticket),
            Assigned::Failed(failure) => self.over(ticket, Err(failure), done),
        }
    }

    fn postpone(&mut self, ticket: u32) {
        self.streams[ticket as usize].state = State::Postponed;
        self.postponed.push_back(ticket);
    }

    /// An operation no longer uses its connection.
    fn release(&mut self, ticket: u32) {
        let stream = &mut self.streams[ticket as usize];
        if stream.state == State::Free || stream.state == State::Postponed {
            stream.state = State::Free;
            return;
        }
        let place = stream.connection;
        stream.end();
        let connection = &mut self.connections[place as usize];
        connection.active = connection.active.saturating_sub(1);
        connection.last_use = stream.since;
        self.freed = true;
        connection.is_draining |= !self.load.plan.keep_alive;
        if connection.is_draining && connection.active == 0 && connection.stage == Stage::Open {
            // What waits is sent before it is closed, in its next turn.
            connection.waker.wake_by_ref();
        }
        self.list(place);
    }

    /// The exchange of an operation is over. Adds the result of its step, unless another request follows.
    fn over(&mut self, ticket: u32, result: Result, done: &mut Vec<Completion>) {
        let stream = &mut self.streams[ticket as usize];
        let (exchange, next) = (stream.exchange, stream.next.take());
        self.release(ticket);
        if let Some(result) = self.follow(ticket, &exchange, next, result) {
            done.push(Completion { ticket, done: result });
        }
    }

    /// What follows the end of an exchange: the result of the step, or the next request of it.
    fn follow(
        &mut self,
        ticket: u32,
        exchange: &Exchange,
        next: Option<Next>,
        result: Result,
    ) -> Option<Done> {
        let operation = match self.load.follow(exchange, next, result) {
            Next::Done(done) => return Some(done),
            Next::Redirect(operation) => operation,
        };
        let failure = match self.load.next(operation, true) {
            Ok(exchange) => match self.start(ticket, exchange) {
                Assigned::Yes => return None,
                Assigned::NoRoom => {
                    self.postpone(ticket);
                    return None;
                }
                Assigned::Failed(failure) => failure,
            },
            Err(Admission::Completed(done)) => return Some(done),
            Err(_) => Failure::Unanswered,
        };
        match self.load.follow(exchange, None, Err(failure)) {
            Next::Done(done) => Some(done),
            Next::Redirect(_) => None,
        }
    }

    /// A connection has ended: so have the operations on it.
    fn end(&mut self, place: u32, failure: Failure, done: &mut Vec<Completion>) {
        let connection = &mut self.connections[place as usize];
        connection.is_draining = true;
        connection.waiting.clear();
        if connection.active > 0 {
            for ticket in 0..self.streams.len() as u32 {
                let stream = &self.streams[ticket as usize];
                if stream.connection == place
                    && matches!(stream.state, State::Waiting | State::Sent | State::Body)
                {
                    self.broke(ticket, failure, done);
                }
            }
        }
        self.close(place);
    }

    /// Closes a connection without operations.
    fn close(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        if connection.stage != Stage::Closed {
            connection.stage = Stage::Closed;
            connection.session = None;
            connection.transport = None;
            connection.active = 0;
            self.vacant.push(place);
            self.freed = true;
        }
    }

    /// Gives operations that wait for room a connection, as far as there is room.
    fn resume(&mut self, done: &mut Vec<Completion>) {
        let now = self.load.clock.now();
        while let Some(ticket) = self.postponed.pop_front() {
            // It may have timed out.
            if self.streams[ticket as usize].state != State::Postponed {
                continue;
            }
            match self.assign(ticket, now) {
                Assigned::Yes => {}
                Assigned::NoRoom => return self.postponed.push_front(ticket),
                Assigned::Failed(failure) => self.over(ticket, Err(failure), done),
            }
        }
    }

    /// Ends the operations whose timeout has expired. Their connections survive, unless nothing came over them.
    #[cold]
    fn expire(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.deadlines_from = Nanos::MAX;
        for ticket in 0..self.streams.len() as u32 {
            let stream = &self.streams[ticket as usize];
            if stream.state == State::Free {
                continue;
            }
            if stream.deadline > now {
                self.deadlines_from = self.deadlines_from.min(stream.deadline);
                continue;
            }
            let place = stream.connection;
            let connection = &mut self.connections[place as usize];
            let phase = match (stream.state, connection.stage) {
                (State::Body, _) => TimeoutPhase::LastByte,
                (State::Sent, _) => TimeoutPhase::FirstByte,
                (State::Waiting, Stage::Handshake) => TimeoutPhase::Handshake,
                _ => TimeoutPhase::Connection,
            };
            let is_silent = matches!(stream.state, State::Sent | State::Body)
                && stream.received_before == connection.received();
            let is_unopened = stream.state == State::Waiting;
            connection.is_draining |= is_silent || is_unopened;
            connection.waiting.retain(|waiting| *waiting != ticket);
            self.over(ticket, Err(Failure::TimedOut(phase)), done);
            let connection = &self.connections[place as usize];
            if is_unopened && connection.active == 0 {
                self.close(place);
            }
        }
    }

    /// Lets the connections read and write that have something to do.
    fn turn_woken(&mut self, done: &mut Vec<Completion>) {
        if self.woken_connections.is_empty() {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken_connections);
        self.woken_connections.take(&mut taken);
        for place in &taken {
            self.turn(*place, done);
        }
        self.taken_connections = taken;
    }
}

impl Worker for Http2Worker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.load.error.is_some() || !self.postponed.is_empty() {
            self.was_busy = true;
            return Admission::Busy;
        }
        let exchange = match self.load.next(operation, false) {
            Ok(exchange) => exchange,
            Err(admission) => return admission,
        };
        match self.start(operation.ticket, exchange) {
            Assigned::Yes => Admission::Accepted,
            Assigned::NoRoom => {
                self.was_busy = true;
                self.freed = false;
                Admission::Busy
            }
            Assigned::Failed(failure) => {
                self.streams[operation.ticket as usize].state = State::Free;
                match self.load.follow(&exchange, None, Err(failure)) {
                    Next::Done(done) => Admission::Completed(done),
                    Next::Redirect(_) => Admission::Busy,
                }
            }
        }
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.load.remarks);
    }

    fn parts(&mut self) -> Option<&mut Vec<Part>> {
        Some(&mut self.load.parts)
    }

    /// Returns the completions of one read together: they came at the same time.
    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> std::result::Result<(), LoadError> {
        let mut waited = false;
        loop {
            if let Some(error) = self.load.error.take() {
                return Err(error);
            }
            done.append(&mut self.early);
            if !self.postponed.is_empty() && std::mem::take(&mut self.freed) {
                self.resume(done);
            }
            // What was queued since the last call is sent.
            self.turn_woken(done);
            while let Some(event) = done.is_empty().then(|| self.poller.next()).flatten() {
                self.take(event, done);
            }
            // What the events have queued.
            self.turn_woken(done);
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
            if self.was_busy && self.freed && self.postponed.is_empty() {
                self.was_busy = false;
                return Ok(());
            }
            // An endless response must not block the other connections, the deadlines or the loop.
            let more = std::mem::take(&mut self.more);
            if waited && (more || now >= until) {
                return Ok(());
            }
            let is_blocked = self.postponed.is_empty() || !self.freed;
            let waits = !more && is_blocked && self.woken_connections.is_empty();
            self.poller.wait(if waits { until.min(self.deadlines_from) } else { now }, now)?;
            waited = true;
        }
    }
}

#[cfg(test)]
mod tests;
