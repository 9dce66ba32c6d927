//! Opening connections: TCP, TLS, and the bind that comes before operations.

use engine::workload::{LoadError, Part};
use ldap::ResultCode;
use ldap::message::{Authentication, Message, Operation as Request, START_TLS};
use ldap::session::Security;
use model::Nanos;
use rustix::io::Errno;

use super::super::failure::{Failure, TimeoutPhase};
use super::super::settings::{Identity, Kind, LdapPlan};
use super::super::{Pool, RequestPart};
use super::{Connection, Flight, LdapWorker, OPENING_MAX, PREPARING_ID, Stage};
use crate::network::socket::exhausted;
use crate::network::tls;

impl LdapWorker<'_> {
    /// Opens all connections before the load.
    pub(super) fn open_all(&mut self, pool: Pool) -> Result<(), LoadError> {
        let places = self.connections.iter().filter(|connection| connection.pool == pool).count();
        let is_opening = |connection: &&Connection| !matches!(connection.stage, Stage::Closed | Stage::Open);
        while self.ready[pool as usize].len() < places {
            let mut opening = self.connections.iter().filter(is_opening).count();
            while opening < OPENING_MAX
                && let Some(place) = self.vacant[pool as usize].pop()
            {
                let now = self.clock.now();
                self.begin_open(place, now);
                self.connections[place as usize].deadline = now.saturating_add(self.plan.timeout);
                self.open(place).map_err(|failure| self.not_opened(failure))?;
                opening += 1;
            }
            let now = self.clock.now();
            let next = self.connections.iter().filter(is_opening).map(|connection| connection.deadline).min();
            let until = next.unwrap_or(now);
            if now >= until {
                let late = self
                    .connections
                    .iter()
                    .find(|connection| is_opening(connection) && connection.deadline <= now);
                let phase = late.map_or(TimeoutPhase::Connection, |connection| connection.stage.phase());
                return Err(self.not_opened(Failure::TimedOut(phase)));
            }
            self.poller.wait(until, now)?;
            while let Some(event) = self.poller.next() {
                if let Err(failure) = self.take(event) {
                    return Err(self.error.take().unwrap_or_else(|| self.not_opened(failure)));
                }
            }
        }
        // What came before the load is no part of an operation.
        self.parts.clear();
        Ok(())
    }

    pub(super) fn not_opened(&self, failure: Failure) -> LoadError {
        let is_open = |connection: &&Connection| connection.stage == Stage::Open;
        let open = self.connections.iter().filter(is_open).count();
        let all = self.connections.iter().filter(|connection| connection.pool != Pool::Login).count();
        let help = match failure {
            Failure::Bind(number) => ResultCode::from_number(number).help(),
            Failure::Connect(_) | Failure::Closed | Failure::Disconnected(_) => {
                "check that the server is running, and that it allows so many connections"
            }
            _ => "",
        };
        let words = Failure::describe(failure.code());
        LoadError::new(format!("connection {} of {all} was not opened: {words}", open + 1), help)
    }

    pub(super) fn begin_open(&mut self, place: u32, now: Nanos) {
        let connection = &mut self.connections[place as usize];
        connection.tried = 0;
        connection.since = now;
        connection.out.clear();
        connection.sent = 0;
        connection.waiting.clear();
    }

    /// Connects to the next address that has not been tried.
    pub(super) fn open(&mut self, place: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let mut failure = Failure::Connect(Errno::CONNREFUSED);
        connection.input.clear();
        connection.unread = 0;
        while let Some((at, address)) = self.target.next(&mut self.turn, connection.tried) {
            connection.tried += 1;
            connection.address = at;
            connection.serial = connection.serial.wrapping_add(1);
            match self.poller.connect(&address, u64::from(connection.serial) << 32 | u64::from(place)) {
                Ok(socket) => {
                    self.tally.opened += 1;
                    if let Some(counts) = self.by_address.get_mut(at) {
                        counts.connections += 1;
                    }
                    connection.socket = Some(socket);
                    connection.stage = Stage::Connecting;
                    return Ok(());
                }
                Err(errno) => {
                    self.error = exhausted(errno).or(self.error.take());
                    failure = Failure::Connect(errno);
                }
            }
        }
        connection.stage = Stage::Closed;
        Err(failure)
    }

    /// A part of the preparation of a connection has ended.
    pub(super) fn part(&mut self, place: u32, part: RequestPart, end: Nanos) {
        let connection = &mut self.connections[place as usize];
        let begin = std::mem::replace(&mut connection.since, end);
        if let Some(kind) = self.plan.mix.part(part) {
            self.parts.push(Part { kind, begin, end, ended: true });
        }
    }

    /// A part that began at `begin` does not end, or would have been begun later.
    fn left(&mut self, part: RequestPart, begin: Nanos, is_begun: bool) {
        if let Some(kind) = self.plan.mix.part(part) {
            let end = if is_begun { self.clock.now() } else { begin };
            self.parts.push(Part { kind, begin, end, ended: false });
        }
    }

    /// A connection is given up before it is ready for operations.
    #[cold]
    pub(super) fn left_unprepared(&mut self, place: u32) {
        let connection = &self.connections[place as usize];
        let part = match connection.stage {
            Stage::Open => return,
            Stage::Closed | Stage::Connecting => RequestPart::Connect,
            Stage::StartTls | Stage::Handshake => RequestPart::Tls,
            Stage::Binding => RequestPart::Bind,
        };
        self.left(part, connection.since, true);
    }

    /// An operation of a kind was due then, and was not sent.
    #[cold]
    pub(super) fn left_unsent(&mut self, kind: Kind, due: Nanos) {
        if kind == Kind::Login {
            self.left(RequestPart::Bind, due, false);
        }
        if matches!(kind, Kind::Login | Kind::Search) {
            self.left(RequestPart::FirstEntry, due, false);
        }
    }

    /// An operation gets no answer any more.
    #[cold]
    pub(super) fn left_unanswered(&mut self, place: u32, flight: &Flight) {
        let connection = &self.connections[place as usize];
        let kind = self.kind_at(usize::from(flight.operation));
        let since = connection.since;
        match kind {
            _ if connection.stage != Stage::Open => self.left_unsent(kind, flight.begin),
            Kind::Login if flight.step == 0 => {
                self.left(RequestPart::Bind, since, true);
                self.left(RequestPart::FirstEntry, flight.begin, false);
            }
            Kind::Login if flight.entries == 0 => self.left(RequestPart::FirstEntry, since, true),
            Kind::Search if flight.entries == 0 => self.left(RequestPart::FirstEntry, flight.begin, true),
            _ => {}
        }
    }

    /// TCP is connected: what comes first on the connection.
    pub(super) fn connected(&mut self, place: u32) -> Result<(), Failure> {
        self.part(place, RequestPart::Connect, self.clock.now());
        let connection = &mut self.connections[place as usize];
        match self.plan.server.security {
            Security::None => self.secured(place),
            Security::Tls => self.begin_tls(place),
            Security::StartTls => {
                connection.stage = Stage::StartTls;
                let request = Request::ExtendedRequest { oid: START_TLS, value: None };
                Message::new(PREPARING_ID, request).encode(&mut connection.out);
                self.send(place)
            }
        }
    }

    pub(super) fn begin_tls(&mut self, place: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let Some(client) = &self.target.tls else { return Err(Failure::Tls(tls::TlsFault::Other)) };
        connection.tls = Some(Box::new(client.begin().map_err(Failure::Tls)?));
        connection.stage = Stage::Handshake;
        self.send(place)
    }

    /// Requests can be sent: first the bind.
    pub(super) fn secured(&mut self, place: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        // The others bind as part of the operation.
        if self.bind.is_empty() || connection.pool != Pool::Shared {
            return self.opened(place);
        }
        connection.stage = Stage::Binding;
        connection.out.extend_from_slice(&self.bind);
        self.send(place)
    }

    /// Operations can be sent.
    pub(super) fn opened(&mut self, place: u32) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        connection.stage = Stage::Open;
        let Connection { waiting, out, .. } = connection;
        out.append(waiting);
        self.list(place);
        self.send(place)
    }
}

/// The bind that prepares a connection; empty without one.
pub(super) fn bind_request(plan: &LdapPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    let bind = match &plan.identity {
        Identity::Anonymous => return bytes,
        Identity::Simple { dn, password } => Request::BindRequest {
            version: 3,
            name: dn,
            authentication: Authentication::Simple(password.reveal().as_bytes()),
        },
        Identity::External => Request::external_bind(b""),
    };
    Message::new(PREPARING_ID, bind).encode(&mut bytes);
    bytes
}
