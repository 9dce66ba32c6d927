//! One thread's share of the load, apart from its connections: which requests are sent, and what their responses mean.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::clock::Clock;
use engine::workload::{Admission, Done, LoadError, Operation, Outcome, Part, Share, Then};
use model::Nanos;
use rustix::io::Errno;

use super::failure::Failure;
use super::response::Answer;
use super::settings::HttpPlan;
use super::target::Server;
use super::users::{Exchange, Next, Users};
use super::{Observations, RequestPart, Tally};
use crate::network::addresses::{AddressCounts, Turn};
use crate::network::socket::{Address, Poller, exhausted};

/// Most responses without a request that later operations answer for.
const UNSOLICITED_MAX: usize = 10_000;

/// The attempts to open the connection of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    /// How many addresses were tried for this operation.
    pub(super) tried: usize,
    /// Generation of the slot: an event of the previous connection must not be mistaken for one of this connection.
    pub(super) serial: u32,
    /// The address, as an index over all servers.
    pub(super) address: u32,
}

/// The outcome of an operation: success with this number of bytes, or the failure.
pub(super) type Result = std::result::Result<u32, Failure>;

/// One thread's share of the load.
pub(super) struct Load<'a> {
    pub(super) plan: &'a HttpPlan,
    pub(super) servers: &'a [Server],
    /// The users of a scenario.
    pub(super) users: Option<Users<'a>>,
    pub(super) seen: &'a Observations,
    pub(super) clock: Clock,
    /// The request of a scenario that is sent next.
    pub(super) planned: Vec<u8>,
    pub(super) parts: Vec<Part>,
    pub(super) remarks: Vec<String>,
    /// Ends the load: what `submit` cannot return, and the next `reap` does.
    pub(super) error: Option<LoadError>,
    /// The statuses of responses without a request that no operation has answered for; 0 for other bytes.
    unsolicited: Vec<u16>,
    /// For each server, the order of its addresses and the index of the first of them in `by_address`.
    turns: Vec<(Turn, u32)>,
    /// What went to each address of all servers.
    by_address: Vec<AddressCounts>,
    /// The operation of the first part of requests.
    parts_from: u16,
    server_known: bool,
    tally: Tally,
}

impl<'a> Load<'a> {
    pub(super) fn new(
        plan: &'a HttpPlan,
        servers: &'a [Server],
        seen: &'a Observations,
        share: &Share,
    ) -> std::result::Result<Self, LoadError> {
        if servers.iter().any(|server| server.addresses.used.is_empty()) || servers.is_empty() {
            return Err(LoadError::new("the host name was not resolved", ""));
        }
        let mut addresses = 0;
        let turns = servers.iter().map(|server| {
            let first = addresses;
            addresses += server.addresses.used.len() as u32;
            (Turn::new(share), first)
        });
        let turns = turns.collect();
        Ok(Load {
            plan,
            servers,
            users: plan.scenario.as_deref().map(|read| {
                Users::new(&read.scenario, share.seed ^ u64::from(share.lane) << 32, share.index, share.of)
            }),
            seen,
            clock: Clock::get(),
            planned: Vec::new(),
            parts: Vec::new(),
            remarks: if share.index == 0 { notes(plan) } else { Vec::new() },
            error: None,
            unsolicited: Vec::new(),
            turns,
            by_address: vec![AddressCounts::default(); addresses as usize],
            parts_from: plan.scenario.as_ref().map_or(1, |read| read.scenario.operations().len() as u16),
            server_known: false,
            tally: Tally::default(),
        })
    }

    /// How many connections this share may have open: at least 1, and no more than it has operations in flight.
    pub(super) fn connections_max(&self, share: &Share) -> u32 {
        let of_all = self.plan.connections.map_or(u32::MAX, |all| {
            let of = share.of.max(1);
            (all / of + u32::from(share.index < all % of)).max(1)
        });
        share.in_flight_max.clamp(1, of_all.max(1))
    }

    /// The exchange of an operation. Its request is in `planned`, where it is not that of the plan.
    ///
    /// # Errors
    /// The operation ends without being sent.
    pub(super) fn next(
        &mut self,
        operation: Operation,
        is_redirect: bool,
    ) -> std::result::Result<Exchange, Admission> {
        if operation.step == 0 && self.plan.operations.is_some_and(|all| operation.number >= all) {
            return Err(Admission::Exhausted);
        }
        let mut exchange = self.exchange(operation, is_redirect)?;
        exchange.keep.fields |= !self.plan.server_timing.is_empty();
        Ok(exchange)
    }

    fn exchange(
        &mut self,
        operation: Operation,
        is_redirect: bool,
    ) -> std::result::Result<Exchange, Admission> {
        let Some(users) = &mut self.users else {
            let (of_head, idempotent) = (self.plan.of_head, self.plan.idempotent);
            return Ok(Exchange { of_head, idempotent, ..Exchange::default() });
        };
        users.plan(operation, is_redirect, &mut self.planned).map_err(|done| match done {
            Some(done) => Admission::Completed(done),
            None => Admission::Exhausted,
        })
    }

    /// As [`engine::workload::Worker::kind_of`].
    pub(super) fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        match &self.users {
            Some(users) => users.kind_of(operation, accepted || operation.step > 0),
            None => Some(0),
        }
    }

    /// As [`engine::workload::Worker::whole_of`].
    pub(super) fn whole_of(&self, operation: Operation) -> Option<u16> {
        self.users.as_ref()?.whole_of(operation)
    }

    /// How long an exchange may take.
    pub(super) fn timeout(&self, exchange: &Exchange) -> Nanos {
        exchange.timeout.unwrap_or(self.plan.timeout)
    }

    /// A socket that is connecting to the next address of a server that has not been tried. Its events have the place of
    /// the connection, and the serial of this attempt.
    pub(super) fn connect(
        &mut self,
        poller: &Poller,
        (server, place): (u32, u32),
        attempt: &mut Attempt,
    ) -> std::result::Result<OwnedFd, Failure> {
        let mut failure = Failure::Connect(Errno::CONNREFUSED);
        let at = server as usize;
        let (Some(server), Some((turn, first))) = (self.servers.get(at), self.turns.get_mut(at)) else {
            return Err(failure);
        };
        while let Some(at) = server.addresses.next(turn, attempt.tried)
            && let Some(address) = server.addresses.used.get(at)
        {
            attempt.tried += 1;
            attempt.serial = attempt.serial.wrapping_add(1);
            attempt.address = *first + at as u32;
            let data = u64::from(attempt.serial) << 32 | u64::from(place);
            match poller.connect(&Address::Tcp(*address), data) {
                Ok(socket) => {
                    count(&self.seen.opened);
                    if let Some(counts) = self.by_address.get_mut(attempt.address as usize) {
                        counts.connections += 1;
                    }
                    return Ok(socket);
                }
                Err(errno) => {
                    self.error = exhausted(errno).or(self.error.take());
                    failure = Failure::Connect(errno);
                }
            }
        }
        Err(failure)
    }

    /// A request that was sent to an address has ended.
    pub(super) fn count_address(&mut self, address: u32, result: &Result) {
        if let Some(counts) = self.by_address.get_mut(address as usize) {
            counts.requests += 1;
            counts.failed += u64::from(result.is_err());
        }
    }

    /// A server has sent a response, or other bytes, on a connection without a request.
    #[cold]
    pub(super) fn unsolicited(&mut self, status: u16) {
        count(&self.seen.unsolicited);
        if self.unsolicited.len() < UNSOLICITED_MAX {
            self.unsolicited.push(status);
        }
    }

    /// The outcome of an operation. What the server sent without a request is no operation of its own: the next one that went
    /// well has failed for it.
    pub(super) fn charge(&mut self, done: Done) -> Done {
        match self.unsolicited.is_empty() || done.outcome != Outcome::Well {
            true => done,
            false => {
                let status = self.unsolicited.pop().unwrap_or(0);
                Done { outcome: Outcome::Failed(Failure::Unsolicited(status).code()), bytes: 0, ..done }
            }
        }
    }

    /// The server ended an idle connection with a response of this status.
    #[cold]
    pub(super) fn ended_idle(&mut self, status: u16) {
        self.tally.add_idle_status(status, 1);
    }

    /// A part of an operation ended.
    pub(super) fn part(&mut self, part: RequestPart, begin: Nanos, end: Nanos) {
        self.parts.push(Part { kind: self.parts_from + part as u16, begin, end, ended: true });
    }

    /// A request that was begun at `begin` failed, or was given up, in a part that began at `since`.
    #[cold]
    pub(super) fn left(&mut self, part: RequestPart, since: Nanos, begin: Nanos) {
        self.parts.push(Part {
            kind: self.parts_from + part as u16,
            begin: since,
            end: self.clock.now(),
            ended: false,
        });
        if matches!(part, RequestPart::Connect | RequestPart::Tls) {
            self.left_unsent(begin);
        }
    }

    /// A request that was due then was not sent.
    #[cold]
    pub(super) fn left_unsent(&mut self, due: Nanos) {
        let kind = self.parts_from + RequestPart::FirstByte as u16;
        self.parts.push(Part { kind, begin: due, end: due, ended: false });
    }

    /// Whether no response has come yet, so that the field Server and the begin of the body are wanted.
    pub(super) fn wants_server(&self) -> bool {
        !self.server_known
    }

    /// The first response has come, with this field Server, and with this word for a failure in its body.
    #[cold]
    pub(super) fn know_server(&mut self, server: Option<String>, word: Option<&'static str>) {
        self.server_known = true;
        let _ = self.seen.server.set(server.unwrap_or_default());
        if let Some(word) = word {
            let _ = self.seen.failure_word.set(word);
        }
    }

    /// What the server says about the time of a request. Its parts end now, as nobody knows when they ended.
    #[cold]
    fn take_server_timing(&mut self, fields: &[(&str, &[u8])]) {
        let end = self.clock.now();
        let first = self.parts_from + RequestPart::ALL.len() as u16;
        let values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("server-timing"));
        for (_, value) in values {
            super::server_timing::durations(value, &self.plan.server_timing, |at, duration| {
                let begin = end.saturating_sub(duration);
                self.parts.push(Part { kind: first + at as u16, begin, end, ended: true });
            });
        }
    }

    /// Counts and judges a complete response to a request that was sent at `begin`. `fields` are those of its header,
    /// needed by scenarios and for what the server says about its time.
    pub(super) fn judge<'r>(
        &mut self,
        exchange: &Exchange,
        answer: Answer,
        begin: Nanos,
        fields: impl FnOnce() -> Vec<(&'r str, &'r [u8])>,
        body: &[u8],
    ) -> (Option<Next>, Result) {
        self.tally.count(answer);
        let is_timed = !self.plan.server_timing.is_empty();
        let fields = if is_timed || self.users.is_some() { fields() } else { Vec::new() };
        if is_timed {
            self.take_server_timing(&fields);
        }
        if let Some(users) = &mut self.users {
            let time = self.clock.now().saturating_sub(begin);
            return (Some(users.took(exchange, &fields, body, answer, time)), Ok(answer.bytes));
        }
        let result = match self.plan.expects(answer.status) {
            true => Ok(answer.bytes),
            false => Err(Failure::Status(answer.status)),
        };
        (None, result)
    }

    /// What follows the end of an exchange: of one with a judged response, as it was judged.
    pub(super) fn follow(&mut self, exchange: &Exchange, judged: Option<Next>, result: Result) -> Next {
        let Some(users) = &mut self.users else { return Next::Done(exchange.done(result, Then::End)) };
        judged.unwrap_or_else(|| {
            Next::Done(users.failed(exchange, result.err().unwrap_or(Failure::Unanswered)))
        })
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.seen.add(&self.tally);
        self.seen.add_addresses(&self.by_address);
    }
}

/// What was not carried over into the scenario, for the record.
fn notes(plan: &HttpPlan) -> Vec<String> {
    let notes = plan.scenario.iter().flat_map(|read| &read.notes);
    let text = |note: &super::scenario::Note| {
        let place = if note.number > 0 { format!("{}: ", note.number) } else { String::new() };
        let help = if note.help.is_empty() { String::new() } else { format!("; {}", note.help) };
        format!("not carried over: {place}{}{help}", note.what)
    };
    notes.map(text).collect()
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
