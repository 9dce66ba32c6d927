//! An operation over HTTP/2: its request, and what has come of its response.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::HeaderMap;
use model::Nanos;

use crate::http::response::{Answer, BEGINNING_BYTES, Fault, RESPONSE_BYTES_MAX, failure_word};
use crate::http::users::{Exchange, Next};

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// It waits for a connection with room.
    Postponed,
    /// It waits until its connection is open.
    Waiting,
    /// Its request is sent.
    Sent,
    /// The head of its response has come.
    Body,
}

/// What has come of a response since it was read the last time.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing.
    None,
    /// It is incomplete. `is_begun`: its head came now.
    Waits { is_begun: bool },
    /// It is complete.
    Whole { is_begun: bool },
    /// It is too long.
    Fault(Fault),
    /// The stream has ended without it.
    Error(h2::Error),
}

/// An operation.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) state: State,
    /// The place of its connection.
    pub(super) connection: u32,
    pub(super) exchange: Exchange,
    /// The request of a scenario, as in HTTP/1.1; empty for that of the plan.
    pub(super) request: Vec<u8>,
    pub(super) begin: Nanos,
    pub(super) deadline: Nanos,
    /// When its present part began: the wait for the response, or the download.
    pub(super) since: Nanos,
    /// How often the request was sent again.
    pub(super) retries: u32,
    /// How often its connection had received bytes when the request was sent.
    pub(super) received_before: u64,
    /// Whether the response did not come as a whole.
    pub(super) is_downloading: bool,
    /// What follows the response of a scenario.
    pub(super) next: Option<Next>,
    wants_server: bool,
    response: Option<ResponseFuture>,
    incoming: Option<RecvStream>,
    status: u16,
    header: HeaderMap,
    head_bytes: u64,
    body_bytes: u64,
    /// The kept part of the body.
    body: Vec<u8>,
    waker: Waker,
}

impl Stream {
    pub(super) fn new(waker: Waker) -> Stream {
        Stream {
            state: State::Free,
            connection: 0,
            exchange: Exchange::default(),
            request: Vec::new(),
            begin: 0,
            deadline: 0,
            since: 0,
            retries: 0,
            received_before: 0,
            is_downloading: false,
            next: None,
            wants_server: false,
            response: None,
            incoming: None,
            status: 0,
            header: HeaderMap::new(),
            head_bytes: 0,
            body_bytes: 0,
            body: Vec::new(),
            waker,
        }
    }

    /// An operation begins.
    pub(super) fn begin(&mut self, exchange: Exchange, now: Nanos, deadline: Nanos, wants_server: bool) {
        self.exchange = exchange;
        self.begin = now;
        self.deadline = deadline;
        self.since = now;
        self.retries = 0;
        self.next = None;
        self.wants_server = wants_server;
    }

    /// Its request is sent once more.
    pub(super) fn begin_again(&mut self, wants_server: bool) {
        self.retries += 1;
        self.wants_server = wants_server;
    }

    /// The request was queued.
    pub(super) fn sent(&mut self, response: ResponseFuture, received_before: u64, now: Nanos) {
        self.state = State::Sent;
        self.since = now;
        self.received_before = received_before;
        self.is_downloading = false;
        self.head_bytes = 0;
        self.body_bytes = 0;
        self.body.clear();
        let response = self.response.insert(response);
        // Nothing can have come: this registers the waker. If the connection has failed, the waker says so as well.
        if Pin::new(response).poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.waker.wake_by_ref();
        }
    }

    /// The operation has left its connection. A stream that has not ended is reset.
    pub(super) fn end(&mut self) {
        self.state = State::Free;
        self.response = None;
        self.incoming = None;
    }

    /// Whether the head of the response has come.
    pub(super) fn has_begun(&self) -> bool {
        self.state == State::Body
    }

    /// Reads what has come.
    pub(super) fn read(&mut self) -> Progress {
        let mut context = Context::from_waker(&self.waker);
        let mut is_begun = false;
        if let Some(response) = &mut self.response {
            let (head, incoming) = match Pin::new(response).poll(&mut context) {
                Poll::Pending => return Progress::None,
                Poll::Ready(Err(error)) => return Progress::Error(error),
                Poll::Ready(Ok(response)) => response.into_parts(),
            };
            self.response = None;
            is_begun = true;
            self.state = State::Body;
            self.status = head.status.as_u16();
            let bytes = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
            self.head_bytes = bytes.sum::<usize>() as u64;
            if self.exchange.keep.fields || self.wants_server {
                self.header = head.headers;
            }
            self.incoming = Some(incoming);
        }
        let Some(incoming) = &mut self.incoming else { return Progress::None };
        let kept = self.exchange.keep.body_bytes_max.max(if self.wants_server { BEGINNING_BYTES } else { 0 });
        while !incoming.is_end_stream() {
            let data = match incoming.poll_data(&mut context) {
                Poll::Pending => return Progress::Waits { is_begun },
                // Trailers may follow; they are not needed.
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(error))) => return Progress::Error(error),
                Poll::Ready(Some(Ok(data))) => data,
            };
            self.body_bytes += data.len() as u64;
            let room = kept.saturating_sub(self.body.len());
            self.body.extend_from_slice(&data[..data.len().min(room)]);
            // It fails only for more bytes than came.
            let _ = incoming.flow_control().release_capacity(data.len());
            if self.head_bytes + self.body_bytes > RESPONSE_BYTES_MAX {
                return Progress::Fault(Fault::TooLong);
            }
        }
        Progress::Whole { is_begun }
    }

    /// The complete response.
    pub(super) fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            persistent: true,
            bytes: (self.head_bytes + self.body_bytes) as u32,
            body_bytes: self.body_bytes as u32,
        }
    }

    /// The header fields, if they are kept.
    pub(super) fn fields(&self) -> Vec<(&str, &[u8])> {
        self.header.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    }

    /// The kept part of the body.
    pub(super) fn body(&self) -> &[u8] {
        let kept = self.body.len().min(self.exchange.keep.body_bytes_max);
        self.body.get(..kept).unwrap_or_default()
    }

    /// The field Server.
    pub(super) fn server(&self) -> Option<String> {
        let value = self.header.get(http::header::SERVER)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    /// The word for a failure at the beginning of the body, if it was kept.
    pub(super) fn failure_word(&self) -> Option<&'static str> {
        failure_word(self.body.get(..self.body.len().min(BEGINNING_BYTES)).unwrap_or_default())
    }
}
