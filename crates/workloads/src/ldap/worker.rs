//! One thread's connections, on one epoll.
//!
//! Requests are written into the buffer of a connection, and sent when it takes no more or before the next wait: several in
//! one call where a connection has several in flight. Of responses only the headers are read.

mod prepare;
mod receive;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use engine::clock::Clock;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Part, Share, Worker};
use ldap::message::{ID_MAX, Message, Operation as Request};
use ldap::session::Security;
use ldap::template::ID_MIN;
use model::{MILLISECOND, Nanos};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use rustls::ClientConnection;

use super::failure::{Failure, Fault, TimeoutPhase};
use super::requests::{Begin, Writer};
use super::settings::{Kind, LdapPlan};
use super::{Observations, Pool, Tally, Target};
use crate::network::addresses::{AddressCounts, Turn};
use crate::network::socket::{Poller, reset_on_close};
use crate::network::tls;

/// Bytes received at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Number of buffers received from one connection before the others continue.
const TURN: usize = 16;

/// How long responses are received before the next requests are sent.
const RECEIVE_TURN: Nanos = MILLISECOND / 20;

/// The longest result; entries are not kept, so they may be longer.
const RESULT_BYTES_MAX: usize = 1 << 20;

/// Operations of a connection that are remembered after they were given up.
const GIVEN_UP_MAX: usize = 1024;

/// Connections that are opened at the same time before the load.
const OPENING_MAX: usize = 64;

/// The identifier of requests that prepare a connection.
const PREPARING_ID: u32 = 1;

/// What a server can send that is no part of an operation.
const OWED: [Fault; 4] = [Fault::Unrequested, Fault::Malformed, Fault::TooLong, Fault::Incomplete];

/// After an attempt to open a connection again has failed, the next one waits as long if others are open.
const RETRY: Nanos = 500 * MILLISECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Connecting,
    /// The server was asked to begin TLS.
    StartTls,
    Handshake,
    Binding,
    Open,
}

impl Stage {
    /// What an operation waits for.
    fn phase(self) -> TimeoutPhase {
        match self {
            Stage::Closed | Stage::Connecting => TimeoutPhase::Connection,
            Stage::StartTls | Stage::Handshake => TimeoutPhase::Handshake,
            Stage::Binding => TimeoutPhase::Bind,
            Stage::Open => TimeoutPhase::Response,
        }
    }
}

/// An operation in flight on a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    /// The identifier of its request; 0 if there is no operation.
    id: u32,
    ticket: u32,
    /// The index of the operation, and its step: a login has two.
    operation: u16,
    step: u8,
    begin: Nanos,
    deadline: Nanos,
    entries: u32,
    bytes: u32,
}

/// A slot for a connection.
struct Connection {
    pool: Pool,
    socket: Option<OwnedFd>,
    stage: Stage,
    /// Generation of this slot: an event of the previous connection must not be mistaken for one of this connection.
    serial: u32,
    tls: Option<Box<ClientConnection>>,
    /// Requests that are not sent yet, from offset `sent`.
    out: Vec<u8>,
    sent: usize,
    /// Requests that wait until the connection is ready for them.
    waiting: Vec<u8>,
    /// The begin of a message that has not come whole.
    input: Vec<u8>,
    /// Bytes of an entry that are still to come, and are not read.
    unread: usize,
    /// The number of requests so far.
    count: u32,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// The identifier and the bytes of the second request of a login.
    second: (u32, Vec<u8>),
    /// How many addresses were tried, and the index of the last one.
    tried: usize,
    address: usize,
    /// When the part of the preparation began that it is in, and when all of it has to end.
    since: Nanos,
    deadline: Nanos,
    /// Whether it is in the list of those with room, and in that of those with unsent requests.
    is_listed: bool,
    is_dirty: bool,
    /// The identifiers of operations that were given up: the server may have answered them meanwhile.
    given_up: Vec<u32>,
    /// The identifier of the last response to no request.
    unrequested: u32,
}

/// Drives the connections of one share of the load.
pub(super) struct LdapWorker<'a> {
    plan: &'a LdapPlan,
    target: &'a Target,
    seen: &'a Observations,
    clock: Clock,
    writer: Writer<'a>,
    poller: Poller,
    connections: Vec<Connection>,
    /// Of each pool, open connections with room, in the order in which they get operations; and those that are closed.
    ready: [VecDeque<u32>; 3],
    vacant: [Vec<u32>; 3],
    /// Connections with unsent requests.
    dirty: Vec<u32>,
    /// Not before this is a closed connection opened again while others have room.
    open_from: Nanos,
    completed: Vec<Completion>,
    parts: Vec<Part>,
    /// Ends the load: what `submit` cannot return, and the next `reap` does.
    error: Option<LoadError>,
    /// Whether a connection has more bytes than one turn receives.
    more: bool,
    buffer: Vec<u8>,
    /// Decrypted bytes; empty without TLS.
    plain: Vec<u8>,
    /// No operation has a deadline before this.
    deadlines_from: Nanos,
    tally: Tally,
    /// What a server sent that was no part of an operation: how often of each kind, until an operation has failed for it.
    owed: [u32; OWED.len()],
    /// The order of the addresses, and what went to each of them.
    turn: Turn,
    by_address: Vec<AddressCounts>,
    /// The bind that prepares each connection; empty without one.
    bind: Vec<u8>,
}

impl<'a> LdapWorker<'a> {
    /// Opens the connections, and binds them.
    pub(super) fn new(
        plan: &'a LdapPlan,
        target: &'a Target,
        seen: &'a Observations,
        share: &Share,
    ) -> Result<Self, LoadError> {
        let connection = |pool: Pool, depth: u32| Connection {
            pool,
            socket: None,
            stage: Stage::Closed,
            serial: 0,
            tls: None,
            out: Vec::new(),
            sent: 0,
            waiting: Vec::new(),
            input: Vec::new(),
            unread: 0,
            count: 0,
            flights: vec![Flight::default(); depth.next_power_of_two() as usize],
            free: (0..depth).rev().collect(),
            second: (0, Vec::new()),
            tried: 0,
            address: 0,
            since: 0,
            deadline: 0,
            is_listed: false,
            is_dirty: false,
            given_up: Vec::new(),
            unrequested: 0,
        };
        let mut connections = Vec::new();
        let mut vacant = [const { Vec::new() }; 3];
        for pool in Pool::ALL {
            let (count, depth) = plan.places(pool, share);
            let first = connections.len() as u32;
            connections.extend((0..count).map(|_| connection(pool, depth)));
            vacant[pool as usize] = (first..first + count).rev().collect();
        }
        let places = connections.len();
        let has_tls = plan.server.security != Security::None;
        let mut worker = LdapWorker {
            plan,
            target,
            seen,
            clock: Clock::get(),
            writer: Writer::new(&plan.mix, share.seed ^ u64::from(share.lane) << 32, share.index, share.of)?,
            poller: Poller::new()?,
            connections,
            ready: std::array::from_fn(|_| VecDeque::with_capacity(places)),
            vacant,
            dirty: Vec::with_capacity(places),
            open_from: 0,
            completed: Vec::with_capacity(share.in_flight_max as usize),
            parts: Vec::new(),
            error: None,
            more: false,
            buffer: vec![0; BUFFER_BYTES],
            plain: vec![0; if has_tls { BUFFER_BYTES } else { 0 }],
            deadlines_from: Nanos::MAX,
            tally: Tally::default(),
            owed: [0; OWED.len()],
            turn: Turn::new(share),
            by_address: vec![AddressCounts::default(); target.addresses.used.len()],
            bind: prepare::bind_request(plan),
        };
        // A login opens its own.
        worker.open_all(Pool::Shared)?;
        worker.open_all(Pool::Bind)?;
        Ok(worker)
    }

    /// A slot for the next operation: of a connection with room, or one to open.
    fn find_place(&mut self, pool: Pool, now: Nanos) -> Option<u32> {
        let (ready, vacant) = (&mut self.ready[pool as usize], &self.vacant[pool as usize]);
        while let Some(place) = ready.front().copied() {
            let connection = &mut self.connections[place as usize];
            if connection.stage != Stage::Closed && !connection.free.is_empty() {
                break;
            }
            connection.is_listed = false;
            ready.pop_front();
        }
        match (vacant.last(), ready.front()) {
            (Some(place), None) => Some(*place),
            (Some(place), Some(_)) if now >= self.open_from => Some(*place),
            (_, ready) => ready.copied(),
        }
    }

    /// Lists a connection with room.
    fn list(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        if !connection.is_listed && !connection.free.is_empty() && connection.stage == Stage::Open {
            connection.is_listed = true;
            self.ready[connection.pool as usize].push_back(place);
        }
    }

    /// Sends as much as the socket takes.
    fn send(&mut self, place: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let Connection { socket: Some(socket), tls, out, sent, .. } = connection else { return Ok(()) };
        loop {
            let rest = out.get(*sent..).unwrap_or_default();
            let done = match tls {
                Some(tls) => {
                    if !rest.is_empty() && !tls.is_handshaking() {
                        *sent += tls::write(tls, rest);
                    }
                    match tls::flush(tls, &*socket) {
                        Ok(true) if *sent < out.len() && !tls.is_handshaking() => continue,
                        Ok(_) => break,
                        Err(errno) => Err(errno),
                    }
                }
                None if rest.is_empty() => break,
                None => rustix::net::send(&*socket, rest, SendFlags::NOSIGNAL),
            };
            match done {
                Ok(bytes) => *sent += bytes,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::Broken(errno)),
            }
        }
        if *sent >= out.len() {
            out.clear();
            *sent = 0;
        }
        Ok(())
    }

    /// Sends what was written since the last wait.
    fn flush(&mut self) {
        while let Some(place) = self.dirty.pop() {
            let connection = &mut self.connections[place as usize];
            connection.is_dirty = false;
            if connection.stage == Stage::Open
                && let Err(failure) = self.send(place)
            {
                self.lose(place, failure);
            }
        }
    }

    /// An operation has ended.
    fn complete(&mut self, place: u32, slot: u32, flight: Flight, result: Result<(), Failure>, at: Nanos) {
        if !matches!(result, Ok(()) | Err(Failure::Result(_) | Failure::Bind(_))) {
            self.left_unanswered(place, &flight);
        }
        let connection = &mut self.connections[place as usize];
        connection.flights[slot as usize].id = 0;
        connection.free.push(slot);
        connection.unrequested = 0;
        self.writer.end(flight.ticket);
        if let Some(counts) = self.by_address.get_mut(connection.address) {
            counts.requests += 1;
            counts.failed += u64::from(result.is_err());
        }
        let result = match result {
            Ok(()) => match self.owed.iter().position(|count| *count > 0) {
                Some(at) => {
                    self.owed[at] -= 1;
                    Err(Failure::Response(OWED[at]))
                }
                None => Ok(()),
            },
            failed => failed,
        };
        let (outcome, bytes) = match result {
            Ok(()) => (Outcome::Well, flight.bytes),
            Err(failure) => (Outcome::Failed(failure.code()), 0),
        };
        self.completed.push(Completion {
            ticket: flight.ticket,
            done: Done::new(flight.operation, outcome, bytes),
            at,
        });
        self.list(place);
    }

    /// Ends a connection without operations.
    fn unbind(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        Message::new(PREPARING_ID, Request::UnbindRequest).encode(&mut connection.out);
        let _ = self.send(place);
        self.close(place);
    }

    fn close(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        connection.socket = None;
        connection.tls = None;
        connection.stage = Stage::Closed;
        connection.out.clear();
        connection.sent = 0;
        connection.waiting.clear();
        connection.given_up.clear();
        self.vacant[connection.pool as usize].push(place);
    }

    /// The connection broke, or could not be prepared: its operations have failed.
    fn lose(&mut self, place: u32, failure: Failure) {
        // Another address may accept.
        if self.connections[place as usize].stage == Stage::Connecting && self.open(place).is_ok() {
            return;
        }
        let was_open = self.connections[place as usize].stage == Stage::Open;
        if !was_open {
            self.open_from = self.clock.now().saturating_add(RETRY);
        }
        self.left_unprepared(place);
        let mut has_operations = false;
        for slot in 0..self.connections[place as usize].flights.len() as u32 {
            let flight = self.connections[place as usize].flights[slot as usize];
            if flight.id != 0 {
                has_operations = true;
                self.complete(place, slot, flight, Err(failure), 0);
            }
        }
        if let Failure::Response(fault) = failure
            && !has_operations
        {
            self.owe(fault);
        }
        self.tally.lost += u64::from(was_open);
        self.tally.lost_idle += u64::from(was_open && !has_operations);
        self.close(place);
    }

    /// Processes one event.
    fn take(&mut self, event: libc::epoll_event) -> Result<(), Failure> {
        use rustix::event::epoll::EventFlags as Flags;
        let (data, flags) = (event.u64, Flags::from_bits_retain(event.events));
        let place = data as u32;
        let Some(connection) = self.connections.get_mut(place as usize) else { return Ok(()) };
        if u64::from(connection.serial) != data >> 32 {
            return Ok(());
        }
        let Some(socket) = &connection.socket else { return Ok(()) };
        let ends = flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        let done = match connection.stage {
            Stage::Closed => return Ok(()),
            Stage::Connecting => match sockopt::socket_error(socket) {
                Ok(Ok(())) if flags.contains(Flags::OUT) => self.connected(place),
                Ok(Ok(())) => return Ok(()),
                Ok(Err(errno)) | Err(errno) => Err(Failure::Connect(errno)),
            },
            _ => {
                let is_unsent = connection.sent < connection.out.len()
                    || connection.tls.as_ref().is_some_and(|tls| tls.wants_write());
                if is_unsent { self.send(place) } else { Ok(()) }
            }
        };
        let received = done.and_then(|()| match ends || flags.contains(Flags::IN) {
            true => self.receive(place, ends),
            false => Ok(false),
        });
        match received {
            Ok(true) => {
                self.poller.again(event);
                self.more = true;
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(failure) => {
                self.lose(place, failure);
                match self.connections[place as usize].stage {
                    Stage::Closed => Err(failure),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Ends the operations whose timeout has expired.
    #[cold]
    fn expire(&mut self, now: Nanos) {
        self.deadlines_from = Nanos::MAX;
        for place in 0..self.connections.len() as u32 {
            let connection = &self.connections[place as usize];
            if connection.stage == Stage::Closed {
                continue;
            }
            let phase = connection.stage.phase();
            let is_exclusive = connection.pool != Pool::Shared;
            for slot in 0..self.connections[place as usize].flights.len() as u32 {
                let flight = self.connections[place as usize].flights[slot as usize];
                if flight.id == 0 {
                    continue;
                }
                if flight.deadline > now {
                    self.deadlines_from = self.deadlines_from.min(flight.deadline);
                } else if phase != TimeoutPhase::Response || is_exclusive {
                    // A bind cannot be abandoned.
                    self.abandon_connection(place, Failure::TimedOut(phase));
                    break;
                } else {
                    let id = flight.id;
                    self.complete(place, slot, flight, Err(Failure::TimedOut(phase)), 0);
                    let abandon = Request::AbandonRequest { id };
                    let connection = &mut self.connections[place as usize];
                    if connection.given_up.len() == GIVEN_UP_MAX {
                        connection.given_up.remove(0);
                    }
                    connection.given_up.push(id);
                    Message::new(PREPARING_ID, abandon).encode(&mut connection.out);
                    if let Err(failure) = self.send(place) {
                        self.lose(place, failure);
                        break;
                    }
                }
            }
        }
    }

    /// Closes a connection whose operations are not awaited any more.
    fn abandon_connection(&mut self, place: u32, failure: Failure) {
        let connection = &mut self.connections[place as usize];
        if let Some(socket) = &connection.socket {
            reset_on_close(socket);
        }
        // No other address is tried.
        connection.tried = usize::MAX;
        self.lose(place, failure);
    }

    /// What the operation with this index in the mix is.
    fn kind_at(&self, at: usize) -> Kind {
        self.plan.mix.all.get(at).map_or(Kind::Search, |requests| requests.kind)
    }

    /// Writes the requests of an operation.
    fn start(&mut self, place: u32, at: usize, operation: Operation, now: Nanos) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let Some(slot) = connection.free.pop() else { return Ok(()) };
        let slots = connection.flights.len() as u32;
        let next_id = |connection: &mut Connection| {
            let id = ID_MIN + (connection.count % ((ID_MAX - ID_MIN) / slots)) * slots + slot;
            connection.count = connection.count.wrapping_add(1);
            id
        };
        let deadline = now.saturating_add(self.plan.timeout);
        let id = next_id(connection);
        connection.flights[slot as usize] = Flight {
            id,
            ticket: operation.ticket,
            operation: at as u16,
            begin: now,
            deadline,
            ..Flight::default()
        };
        let is_open = connection.stage == Stage::Open;
        let steps = self.plan.mix.all.get(at).map_or(&[][..], |requests| &requests.steps);
        if let Some(request) = steps.first() {
            let out = if is_open { &mut connection.out } else { &mut connection.waiting };
            self.writer.write(request, id, out);
        }
        if let Some(second) = steps.get(1) {
            let id = next_id(connection);
            connection.second.0 = id;
            connection.second.1.clear();
            self.writer.write(second, id, &mut connection.second.1);
        }
        self.deadlines_from = self.deadlines_from.min(deadline);
        let is_full = connection.free.is_empty();
        if connection.stage == Stage::Closed {
            return self.open(place);
        }
        if !is_open {
            return Ok(());
        }
        if is_full {
            return self.send(place);
        }
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(place);
        }
        Ok(())
    }
}

impl Drop for LdapWorker<'_> {
    /// Ends the connections; operations that the end of the load leaves in flight are abandoned.
    fn drop(&mut self) {
        for place in 0..self.connections.len() as u32 {
            let connection = &self.connections[place as usize];
            let is_idle = connection.flights.iter().all(|flight| flight.id == 0);
            match (&connection.socket, connection.stage) {
                (Some(_), Stage::Open) if is_idle => self.unbind(place),
                (Some(socket), _) => reset_on_close(socket),
                (None, _) => {}
            }
        }
        self.seen.add(&self.tally);
        self.seen.add_addresses(&self.by_address);
    }
}

impl Worker for LdapWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.error.is_some() {
            return Admission::Busy;
        }
        if self.plan.operations.is_some_and(|all| operation.number >= all) {
            return Admission::Exhausted;
        }
        let now = self.clock.now();
        let at = self.writer.choose(operation.number);
        let pool = Pool::of(self.kind_at(at));
        let Some(place) = self.find_place(pool, now) else { return Admission::Busy };
        match self.writer.begin(&operation) {
            Begin::Ready => {}
            Begin::Waits => return Admission::Busy,
            Begin::Ended => return Admission::Exhausted,
            Begin::Faulty(error) => {
                self.error = Some(error);
                return Admission::Busy;
            }
        }
        if self.connections[place as usize].stage == Stage::Closed {
            self.vacant[pool as usize].pop();
            self.begin_open(place, now);
        } else if let Some(first) = self.ready[pool as usize].pop_front() {
            // The next operation gets the next connection.
            let connection = &mut self.connections[first as usize];
            connection.is_listed = connection.free.len() > 1;
            if connection.is_listed {
                self.ready[pool as usize].push_back(first);
            }
        }
        if let Err(failure) = self.start(place, at, operation, now) {
            self.lose(place, failure);
        }
        Admission::Accepted
    }

    fn parts(&mut self) -> Option<&mut Vec<Part>> {
        Some(&mut self.parts)
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        u16::try_from(self.writer.chosen(operation.number)).ok()
    }

    fn leave(&mut self, operation: Operation, accepted: bool, due: Nanos) {
        let is_it = |flight: &Flight| accepted && flight.id != 0 && flight.ticket == operation.ticket;
        let places = self.connections.iter().enumerate();
        let found = places.into_iter().find_map(|(place, connection)| {
            let flight = connection.flights.iter().find(|flight| is_it(flight))?;
            // Once for all operations that wait for the connection.
            let is_first = connection.flights.iter().find(|flight| flight.id != 0).map(|flight| flight.id)
                == Some(flight.id);
            Some((place as u32, *flight, is_first))
        });
        match found {
            Some((place, flight, is_first)) => {
                if is_first {
                    self.left_unprepared(place);
                }
                self.left_unanswered(place, &flight);
            }
            None => {
                let at = self.writer.chosen(operation.number);
                self.left_unsent(self.kind_at(at), due);
            }
        }
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        let mut waited = false;
        loop {
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            self.flush();
            while let Some(event) = self.poller.next() {
                // A failed connection has completed its operations.
                let _ = self.take(event);
                let span = |first: &Completion, last: &Completion| last.at.saturating_sub(first.at);
                let is_long = match (self.completed.first(), self.completed.last()) {
                    (Some(first), Some(last)) => span(first, last) > RECEIVE_TURN,
                    _ => false,
                };
                if self.more || is_long {
                    break;
                }
            }
            if !self.completed.is_empty() {
                done.append(&mut self.completed);
                return Ok(());
            }
            let now = self.clock.now();
            if now >= self.deadlines_from {
                self.expire(now);
                if !self.completed.is_empty() {
                    done.append(&mut self.completed);
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
