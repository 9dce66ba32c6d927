//! One thread's connections of HTTP/2, on one epoll, each with several requests at a time.
//!
//! The frames are the business of the crate `h2`. It gets no runtime: a connection is polled when epoll reports its
//! socket or when requests were queued, and a stream when `h2` wakes it. The frames of all requests that were queued
//! since the last wait leave in one call.
//!
//! An operation (`operation`) gets a connection from the pool (`pool`), which opens and closes them. What a connection does
//! in its life, from its handshake to its end, is in `events`.

mod connection;
mod events;
mod operation;
mod pool;
mod request;
mod stream;
mod transport;
mod waking;

use std::collections::VecDeque;
use std::sync::Arc;

use engine::workload::{Admission, Completion, LoadError, Operation, Part, Share, Worker};
use model::Nanos;

use super::load::Load;
use super::users::Next;
use crate::network::socket::Poller;
use connection::Connection;
use pool::Assigned;
use request::Http2Request;
use stream::{State, Stream};
use waking::{Woken, waker};

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

impl<'a> Http2Worker<'a> {
    pub(super) fn new(load: Load<'a>, share: &Share) -> Result<Self, LoadError> {
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
                Http2Worker::leave(self, operation.ticket);
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

    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        self.load.kind_of(operation, accepted)
    }

    fn leave(&mut self, operation: Operation, accepted: bool, due: Nanos) {
        match accepted {
            true => Http2Worker::leave(self, operation.ticket),
            false => self.load.left_unsent(due),
        }
    }

    fn whole_of(&self, operation: Operation) -> Option<u16> {
        self.load.whole_of(operation)
    }

    /// Returns the completions of one read together: they came at the same time.
    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
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
