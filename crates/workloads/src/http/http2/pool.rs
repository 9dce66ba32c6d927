//! The connections of a worker: which one an operation gets, and when another is opened or closed.

use std::cell::RefCell;
use std::rc::Rc;

use engine::workload::Completion;
use model::{Nanos, SECOND};
use rustix::io::Errno;

use super::Http2Worker;
use super::connection::{Connection, Stage};
use super::stream::State;
use super::transport::Transport;
use crate::http::failure::Failure;
use crate::network::tls::TlsClient;

/// A connection that had no operation for so long is looked at before it gets one: perhaps the server has closed it.
const FRESH: Nanos = SECOND;

/// Whether an operation found a connection.
pub(super) enum Assigned {
    Yes,
    /// All connections that may be open have as many operations as they may have.
    NoRoom,
    Failed(Failure),
}

impl Http2Worker<'_> {
    /// Gives an operation a connection, and sends its request if that is open.
    pub(super) fn assign(&mut self, ticket: u32, now: Nanos) -> Assigned {
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
            if connection.attempt.serial == serial && connection.has_room() {
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
            if connection.attempt.serial == serial {
                connection.is_listed = false;
            }
            self.roomy.get_mut(server as usize)?.pop();
        }
    }

    /// Begins to open another connection to a server; none if there are as many as there may be.
    fn open_another(&mut self, server: u32) -> Result<Option<u32>, Failure> {
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
        connection.attempt.tried = 0;
        connection.limit = self.load.plan.streams;
        let opened = self.connect(place);
        if opened.is_err() {
            self.vacant.push(place);
        }
        opened.map(|()| Some(place))
    }

    /// Connects to the next address that has not been tried.
    pub(super) fn connect(&mut self, place: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let Some(server) = self.load.servers.get(connection.server as usize) else {
            return Err(Failure::Connect(Errno::CONNREFUSED));
        };
        let tls = server.tls.as_ref().map(TlsClient::begin).transpose().map_err(Failure::Tls)?;
        connection.since = self.load.clock.now();
        let socket = self.load.connect(&self.poller, (connection.server, place), &mut connection.attempt)?;
        connection.transport = Some(Rc::new(RefCell::new(Transport::new(socket, tls))));
        connection.stage = Stage::Connecting;
        connection.used = false;
        connection.is_draining = false;
        connection.go_away = None;
        connection.is_listed = false;
        self.list(place);
        Ok(())
    }

    /// Lists a connection as one with room.
    pub(super) fn list(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        if connection.is_listed || !connection.has_room() {
            return;
        }
        connection.is_listed = true;
        if let Some(roomy) = self.roomy.get_mut(connection.server as usize) {
            roomy.push((place, connection.attempt.serial));
        }
    }

    /// Closes a connection without operations.
    pub(super) fn close(&mut self, place: u32) {
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

    pub(super) fn postpone(&mut self, ticket: u32) {
        self.streams[ticket as usize].state = State::Postponed;
        self.postponed.push_back(ticket);
    }

    /// Gives operations that wait for room a connection, as far as there is room.
    pub(super) fn resume(&mut self, done: &mut Vec<Completion>) {
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
}
