//! The life of a connection: it opens, reads and writes when its socket or `h2` is ready, and ends.

use std::sync::atomic::Ordering;

use engine::workload::Completion;
use model::Nanos;
use rustix::event::epoll;
use rustix::net::sockopt;

use super::Http2Worker;
use super::connection::{Session, Stage, code_of};
use super::stream::State;
use crate::http::RequestPart;
use crate::http::failure::Failure;
use crate::http::load::count;

impl Http2Worker<'_> {
    /// Processes an event.
    pub(super) fn take(&mut self, event: libc::epoll_event, done: &mut Vec<Completion>) {
        use epoll::EventFlags as Flags;
        let (data, flags) = (event.u64, Flags::from_bits_retain(event.events));
        let place = data as u32;
        let Some(connection) = self.connections.get_mut(place as usize) else { return };
        let Some(transport) = &connection.transport else { return };
        if u64::from(connection.attempt.serial) != data >> 32 {
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
    pub(super) fn turn(&mut self, place: u32, done: &mut Vec<Completion>) {
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
        let mut unsolicited = 0;
        if let Some(transport) = &connection.transport {
            let mut transport = transport.borrow_mut();
            self.more |= transport.has_more();
            unsolicited = transport.take_unsolicited();
        }
        for _ in 0..unsolicited {
            self.load.unsolicited(0);
        }
        let connection = &mut self.connections[place as usize];
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

    /// Lets the connections read and write that have something to do.
    pub(super) fn turn_woken(&mut self, done: &mut Vec<Completion>) {
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
}
