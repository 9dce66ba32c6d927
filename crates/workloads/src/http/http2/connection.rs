//! A connection of HTTP/2, from the socket to its end.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection as Driver, ResponseFuture, SendRequest};
use h2::{Error, Reason};
use model::Nanos;

use super::request::Http2Request;
use super::transport::{Stream, Transport};
use crate::http::failure::{Failure, Http2Fault};
use crate::http::load::Attempt;
use crate::http::response::HEAD_BYTES_MAX;

/// How many bytes of a response the server may send before the first are read, per stream and per connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// How many streams that timed out are remembered, because the server may still send on them.
const RESET_STREAMS_MAX: usize = 256;

/// How often a request is sent again because the server ended one connection after another without an error.
const GRACEFUL_RETRIES_MAX: u32 = 8;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Closed,
    Connecting,
    /// TLS begins.
    Handshake,
    Open,
}

/// A place for a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stage: Stage,
    pub(super) attempt: Attempt,
    /// The index of its server.
    pub(super) server: u32,
    pub(super) transport: Option<Rc<RefCell<Transport>>>,
    pub(super) session: Option<Session>,
    /// Operations on it.
    pub(super) active: u32,
    /// Most operations on it.
    pub(super) limit: u32,
    /// Whether it is in the list of those with room.
    pub(super) is_listed: bool,
    /// Whether it takes no more operations, and is closed after the last one.
    pub(super) is_draining: bool,
    /// Whether a response has come over it.
    pub(super) used: bool,
    /// Operations that wait until it is open.
    pub(super) waiting: Vec<u32>,
    /// When its present part began: opening, or the handshake.
    pub(super) since: Nanos,
    /// When it had an operation for the last time.
    pub(super) last_use: Nanos,
    /// The code with which the server announced its end.
    pub(super) go_away: Option<u8>,
    /// Wakes it.
    pub(super) waker: Waker,
}

impl Connection {
    pub(super) fn new(waker: Waker) -> Connection {
        Connection {
            stage: Stage::Closed,
            attempt: Attempt::default(),
            server: 0,
            transport: None,
            session: None,
            active: 0,
            limit: 0,
            is_listed: false,
            is_draining: false,
            used: false,
            waiting: Vec::new(),
            since: 0,
            last_use: 0,
            go_away: None,
            waker,
        }
    }

    /// Whether it takes another operation.
    pub(super) fn has_room(&self) -> bool {
        self.stage != Stage::Closed && !self.is_draining && self.active < self.limit
    }

    /// How often bytes were received over it.
    pub(super) fn received(&self) -> u64 {
        self.transport.as_ref().map_or(0, |transport| transport.borrow().received())
    }

    /// Why it ended.
    pub(super) fn failure(&self) -> Failure {
        let fault = self.transport.as_ref().and_then(|transport| transport.borrow().fault());
        match (fault, self.go_away) {
            (Some(fault), _) => fault,
            (None, Some(reason @ 1..)) => Failure::Http2(Http2Fault::GoAway(reason)),
            _ => Failure::Unanswered,
        }
    }

    /// Lets `h2` read and write what is possible. Returns whether the connection has ended.
    pub(super) fn advance(&mut self) -> bool {
        let (Some(session), Some(transport)) = (&mut self.session, &self.transport) else { return true };
        transport.borrow_mut().begin_turn();
        let mut context = Context::from_waker(&self.waker);
        if Pin::new(&mut session.driver).poll(&mut context).is_ready() {
            return true;
        }
        // Of TLS: what it wants to send by itself.
        let _ = transport.borrow_mut().flush();
        if transport.borrow().has_more() {
            self.waker.wake_by_ref();
        }
        false
    }
}

/// What `h2` knows of a connection.
pub(super) struct Session {
    driver: Driver<Stream, Bytes>,
    requests: SendRequest<Bytes>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Begins HTTP/2 on an open connection. The preface and the first frames are written with the first request.
    pub(super) fn begin(transport: &Rc<RefCell<Transport>>, streams: u32) -> Option<Session> {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX)
            // Until the server says how many it allows.
            .initial_max_send_streams(streams as usize);
        let handshake = pin!(builder.handshake::<_, Bytes>(Stream(transport.clone())));
        // It only writes the preface, for which there is space.
        match handshake.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok((requests, driver))) => Some(Session { driver, requests }),
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }

    /// How many streams the server allows; before it has said so, how many were assumed.
    pub(super) fn streams_max(&self) -> u32 {
        self.requests.current_max_send_streams().try_into().unwrap_or(u32::MAX)
    }

    /// The error with which the server, or `h2`, ended the connection for new requests.
    pub(super) fn ending(&mut self) -> Option<Error> {
        match self.requests.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => None,
            Poll::Ready(Err(error)) => Some(error),
            Poll::Pending => {
                // The limit became smaller. Another handle may still queue requests.
                self.requests = self.requests.clone();
                None
            }
        }
    }

    /// Queues a request.
    pub(super) fn send(&mut self, request: Http2Request) -> Result<ResponseFuture, Error> {
        let Http2Request { head, body } = request;
        let (response, mut stream) = self.requests.send_request(head, body.is_empty())?;
        if !body.is_empty() {
            // Sent as the windows of the server allow.
            stream.send_data(body, true)?;
        }
        Ok(response)
    }
}

/// What an error of a stream means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The server did not process the request (RFC 9113 section 8.7): it is sent again up to so many times.
    Unprocessed { failure: Failure, retries_max: u32 },
    /// The server has stopped the rest of the request: the response counts.
    Stopped,
    /// The connection broke.
    Broken,
    /// The stream failed.
    Failed(Failure),
}

impl StreamEnd {
    pub(super) fn of(error: &Error) -> StreamEnd {
        let reason = error.reason().map_or(0, code_of);
        let http2 = |fault: Http2Fault| StreamEnd::Failed(Failure::Http2(fault));
        match (error.is_reset(), error.is_go_away(), error.is_remote()) {
            (true, _, true) if error.reason() == Some(Reason::REFUSED_STREAM) => {
                StreamEnd::Unprocessed { failure: Failure::Http2(Http2Fault::Reset(reason)), retries_max: 1 }
            }
            (true, _, true) if error.reason() == Some(Reason::NO_ERROR) => StreamEnd::Stopped,
            (true, _, true) => http2(Http2Fault::Reset(reason)),
            (true, _, false) => http2(Http2Fault::Stream(reason)),
            (_, true, true) => StreamEnd::Unprocessed {
                failure: Failure::Http2(Http2Fault::GoAway(reason)),
                retries_max: if reason == 0 { GRACEFUL_RETRIES_MAX } else { 1 },
            },
            (_, true, false) => http2(Http2Fault::Connection(reason)),
            _ if error.is_io() => StreamEnd::Broken,
            // An error of use: a request that `h2` does not send.
            _ => http2(Http2Fault::Request),
        }
    }
}

/// The error code in a record; the largest one stands for all above.
pub(super) fn code_of(reason: Reason) -> u8 {
    u8::try_from(u32::from(reason)).unwrap_or(u8::MAX)
}
