//! The users of a scenario on one thread: their sessions, and the requests that they send.

use std::time::{SystemTime, UNIX_EPOCH};

use engine::workload::{Done, Operation, Outcome, Then};
use model::Nanos;

use super::failure::Failure;
use super::response::{Answer, Keep};
use super::scenario::{self, After, BODY_KEPT_BYTES_MAX, Scenario, Session, Unplanned};

/// The users of one worker's share of the load.
pub(super) struct Users<'a> {
    scenario: &'a Scenario,
    /// By user of a closed loop, otherwise by ticket.
    sessions: Vec<Session>,
    seed: u64,
    /// The number of the first user, and of the workers that share them.
    first: u64,
    of: u64,
}

/// An exchange of request and response: what was sent, and for whom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchange {
    /// The operation of the request.
    pub(super) kind: u16,
    /// The index of its server.
    pub(super) server: u32,
    pub(super) operation: Option<Operation>,
    /// A response to HEAD has no body.
    pub(super) of_head: bool,
    /// Whether it does no harm to send the request twice (RFC 9110 section 9.2.2).
    pub(super) idempotent: bool,
    /// None for that of the plan.
    pub(super) timeout: Option<Nanos>,
    pub(super) keep: Keep,
}

/// What comes after an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// The step of the operation is done.
    Done(Done),
    /// Another request of the same step.
    Redirect(Operation),
}

impl<'a> Users<'a> {
    /// `first` is the index of the worker among those of its lane, of which there are `of`.
    pub(super) fn new(scenario: &'a Scenario, seed: u64, first: u32, of: u32) -> Users<'a> {
        Users { scenario, sessions: Vec::new(), seed, first: u64::from(first), of: u64::from(of.max(1)) }
    }

    fn session(&mut self, operation: &Operation) -> usize {
        let place = operation.user.unwrap_or(operation.ticket) as usize;
        while self.sessions.len() <= place {
            let user = self.first + self.sessions.len() as u64 * self.of;
            self.sessions.push(Session::new(self.scenario, self.seed, user));
        }
        place
    }

    /// The kind of an operation, or of a step of one in progress.
    pub(super) fn kind_of(&self, operation: Operation, is_in_progress: bool) -> Option<u16> {
        match is_in_progress {
            true => self.present(operation)?.operation_of(self.scenario, operation.step),
            false => Session::first_operation(self.scenario, self.seed, operation.number),
        }
    }

    /// The kind of the whole that an operation in progress is a step of.
    pub(super) fn whole_of(&self, operation: Operation) -> Option<u16> {
        self.present(operation)?.whole(self.scenario)
    }

    fn present(&self, operation: Operation) -> Option<&Session> {
        self.sessions.get(operation.user.unwrap_or(operation.ticket) as usize)
    }

    /// Writes the next request of an operation.
    ///
    /// # Errors
    /// None if there is no more data; otherwise the failed step.
    pub(super) fn plan(
        &mut self,
        operation: Operation,
        is_redirect: bool,
        request: &mut Vec<u8>,
    ) -> Result<Exchange, Option<Done>> {
        let place = self.session(&operation);
        let session = &mut self.sessions[place];
        // Each arrival of an open loop is another user.
        if operation.user.is_none() && operation.step == 0 && !is_redirect {
            session.reset(self.scenario, operation.number);
        }
        let planned = match session.next(self.scenario, operation.number, operation.step, unix_s()) {
            Ok(planned) => planned,
            Err(Unplanned::DataEnded) => return Err(None),
            Err(Unplanned::Failed { operation, code, then }) => {
                let outcome = Outcome::Failed(Failure::Scenario(code).code());
                return Err(Some(Done { then, ..Done::new(operation, outcome, 0) }));
            }
        };
        request.clear();
        request.extend_from_slice(planned.head);
        request.extend_from_slice(planned.body);
        Ok(Exchange {
            kind: planned.operation,
            server: planned.origin,
            operation: Some(operation),
            of_head: planned.method == "HEAD",
            idempotent: matches!(planned.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE"),
            timeout: planned.request.timeout(),
            keep: Keep {
                fields: planned.request.wants_fields(),
                body_bytes_max: if planned.request.wants_body() { BODY_KEPT_BYTES_MAX } else { 0 },
            },
        })
    }

    /// What follows a complete response. The fields and the body are what [`Exchange::keep`] wants.
    pub(super) fn took(
        &mut self,
        exchange: &Exchange,
        fields: &[(&str, &[u8])],
        body: &[u8],
        answer: Answer,
        time: Nanos,
    ) -> Next {
        let Some(operation) = exchange.operation else {
            return Next::Done(exchange.done(Ok(0), Then::End));
        };
        let place = self.session(&operation);
        let response = scenario::Response {
            status: answer.status,
            fields,
            body,
            body_bytes: u64::from(answer.body_bytes),
            is_truncated: body.len() == BODY_KEPT_BYTES_MAX,
            time,
            now_s: unix_s(),
        };
        let outcome = self.sessions[place].took(self.scenario, &response);
        match outcome.after {
            After::Redirect => Next::Redirect(operation),
            After::Then(then) => {
                let failure = outcome.failure.map(|failure| match failure {
                    scenario::Failure::Status(status) => Failure::Status(status),
                    scenario::Failure::Check(code) => Failure::Scenario(code),
                });
                Next::Done(exchange.done(failure.map_or(Ok(answer.bytes), Err), then))
            }
        }
    }

    /// What follows a request without a complete response.
    pub(super) fn failed(&mut self, exchange: &Exchange, failure: Failure) -> Done {
        let then = match exchange.operation {
            Some(operation) => {
                let place = self.session(&operation);
                self.sessions[place].failed(self.scenario)
            }
            None => Then::End,
        };
        exchange.done(Err(failure), then)
    }
}

impl Exchange {
    /// The result of the request: success with this number of bytes, or the failure.
    pub(super) fn done(&self, result: Result<u32, Failure>, then: Then) -> Done {
        let done = match result {
            Ok(bytes) => Done::new(self.kind, Outcome::Well, bytes),
            Err(failure) => Done::new(self.kind, Outcome::Failed(failure.code()), 0),
        };
        Done { then, ..done }
    }
}

/// The time of day, for cookies.
fn unix_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
