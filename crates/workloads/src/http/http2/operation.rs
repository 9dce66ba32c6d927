//! An operation: its request, its response, and what follows when it is over, broken or too slow.

use engine::workload::{Admission, Completion, Done};
use model::Nanos;

use super::Http2Worker;
use super::connection::{Stage, StreamEnd};
use super::pool::Assigned;
use super::request::Http2Request;
use super::stream::{Progress, State};
use crate::http::RequestPart;
use crate::http::failure::{Failure, Http2Fault, TimeoutPhase};
use crate::http::load::{Result, count};
use crate::http::response::Fault;
use crate::http::users::{Exchange, Next};

impl Http2Worker<'_> {
    /// Starts an exchange. Its request is that of the plan, or the planned one.
    pub(super) fn start(&mut self, ticket: u32, exchange: Exchange) -> Assigned {
        let now = self.load.clock.now();
        let deadline = now.saturating_add(self.load.timeout(&exchange));
        let wants_server = self.load.wants_server();
        let Some(stream) = self.streams.get_mut(ticket as usize) else { return Assigned::NoRoom };
        std::mem::swap(&mut stream.request, &mut self.load.planned);
        stream.begin(exchange, now, deadline, wants_server);
        self.deadlines_from = self.deadlines_from.min(deadline);
        self.assign(ticket, now)
    }

    /// Queues the request of an operation on its connection, which is open.
    pub(super) fn send(&mut self, ticket: u32, now: Nanos) -> std::result::Result<(), Failure> {
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

    /// Reads what came on a stream.
    pub(super) fn advance(&mut self, ticket: u32, now: Nanos, done: &mut Vec<Completion>) {
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
        // These have no content (RFC 9110, sections 15.3.5 and 15.4.5). That of a response to HEAD is refused by `h2`.
        if matches!(answer.status, 204 | 304) && answer.body_bytes > 0 {
            return Err(Failure::Response(Fault::Trailing));
        }
        let (next, result) = self.load.judge(&exchange, answer, begin, || stream.fields(), stream.body());
        stream.next = next;
        result
    }

    /// The connection of an operation broke. The request goes over another one, once, if nothing has come since it was
    /// sent, and if it does no harm to send it again: then the server has probably closed an idle connection.
    pub(super) fn broke(&mut self, ticket: u32, failure: Failure, done: &mut Vec<Completion>) {
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

    /// An operation no longer uses its connection.
    pub(super) fn release(&mut self, ticket: u32) {
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

    /// An operation failed, or is given up: the part that it is in does not end.
    pub(super) fn leave(&mut self, ticket: u32) {
        let stream = &self.streams[ticket as usize];
        if stream.is_downloading {
            self.load.left(RequestPart::Download, stream.since, stream.begin);
        } else if !stream.has_begun() {
            self.load.left(RequestPart::FirstByte, stream.since, stream.begin);
        }
    }

    /// The exchange of an operation is over. Adds the result of its step, unless another request follows.
    pub(super) fn over(&mut self, ticket: u32, result: Result, done: &mut Vec<Completion>) {
        let stream = &mut self.streams[ticket as usize];
        let (exchange, next) = (stream.exchange, stream.next.take());
        if result.is_err() {
            self.leave(ticket);
        }
        let stream = &self.streams[ticket as usize];
        if !matches!(stream.state, State::Free | State::Postponed) {
            let address = self.connections[stream.connection as usize].attempt.address;
            self.load.count_address(address, &result);
        }
        self.release(ticket);
        if let Some(result) = self.follow(ticket, &exchange, next, result) {
            done.push(Completion::new(ticket, self.load.charge(result)));
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

    /// Ends the operations whose timeout has expired. Their connections survive, unless nothing came over them.
    #[cold]
    pub(super) fn expire(&mut self, now: Nanos, done: &mut Vec<Completion>) {
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
}
