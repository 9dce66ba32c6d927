//! The operations of one connection of HTTP/1.

use std::collections::VecDeque;

use model::wire::MissedKind;

use crate::flow::{Conversation, KEPT_MAX, Parsed, Side};
use crate::operation::{Kind, Operation, Outcome};
use crate::packet::Endpoint;
use crate::shared::Shared;

/// The most fields of a header.
const FIELDS_MAX: usize = 128;

/// The longest header.
const HEAD_MAX: usize = 16 << 10;

/// The longest line with the size of a chunk.
const CHUNK_LINE_MAX: usize = 256;

/// The longest path that is kept.
const PATH_MAX: usize = 1024;

/// The most requests that wait on one connection.
const OUTSTANDING_MAX: usize = 1024;

/// What comes next in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Head,
    Chunk,
    Trailer,
}

#[derive(Debug)]
pub(crate) struct Http {
    connection: u64,
    ends: (Endpoint, Endpoint),
    outstanding: VecDeque<Box<Operation>>,
    next: [Next; 2],
    request: Option<Box<Operation>>,
    /// The status of the response that is read.
    status: Option<u16>,
    /// Whether the connection became a tunnel or changed its protocol.
    pub(crate) is_tunnel: bool,
}

/// Whether bytes begin with a method and a blank.
pub(crate) fn begins_with_method(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE ", b"CONNECT "];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

/// Whether bytes begin with a status line.
pub(crate) fn begins_with_status(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.")
}

/// The first request of HTTP/2 without TLS.
pub(crate) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// What the header says of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

impl Http {
    pub(crate) fn new(connection: u64, ends: (Endpoint, Endpoint)) -> Self {
        Http {
            connection,
            ends,
            outstanding: VecDeque::new(),
            next: [Next::Head; 2],
            request: None,
            status: None,
            is_tunnel: false,
        }
    }

    fn head(&mut self, side: Side, bytes: &[u8], is_all: bool, shared: &mut Shared) -> Parsed {
        // Servers skip empty lines before a request (RFC 9112, section 2.2).
        if side == Side::Client && bytes.starts_with(b"\r\n") {
            return Parsed::Take { length: 2, ends: false };
        }
        let begins = match side {
            Side::Client => bytes.first().is_some_and(u8::is_ascii_uppercase),
            Side::Server => bytes.starts_with(&b"HTTP/1."[..bytes.len().min(7)]),
        };
        if !begins {
            return Parsed::Lost;
        }
        let end = memchr::memmem::find(&bytes[..bytes.len().min(HEAD_MAX)], b"\r\n\r\n");
        let Some(length) = end.map(|end| end + 4) else {
            return if is_all || bytes.len() >= HEAD_MAX { Parsed::Lost } else { Parsed::More };
        };
        match side {
            Side::Client => self.request_head(&bytes[..length], shared),
            Side::Server => self.response_head(&bytes[..length], shared),
        }
    }

    fn request_head(&mut self, head: &[u8], shared: &mut Shared) -> Parsed {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
            return Parsed::Lost;
        }
        let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let mut operation = shared.operation(Kind::of_method(method), self.connection, self.ends);
        operation.method.push_str(&method[..method.len().min(32)]);
        operation.path.push_str(path(target));
        self.request = Some(operation);
        let body = match body(request.headers) {
            Body::UntilClose => Body::None,
            body => body,
        };
        self.after_head(Side::Client, head.len() as u64, body)
    }

    fn response_head(&mut self, head: &[u8], shared: &mut Shared) -> Parsed {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        if !matches!(response.parse(head), Ok(httparse::Status::Complete(_))) {
            return Parsed::Lost;
        }
        let length = head.len() as u64;
        let status = response.code.unwrap_or_default();
        let kind = self.outstanding.front().map(|of| of.kind);
        if (100..200).contains(&status) && status != 101 {
            return Parsed::Take { length, ends: false };
        }
        if let Some(operation) = self.outstanding.front_mut() {
            operation.first_ns = Some(shared.now_ns);
        }
        self.status = Some(status);
        let is_tunnel = status == 101 || kind == Some(Kind::CONNECT) && (200..300).contains(&status);
        let body = match status {
            _ if is_tunnel || kind == Some(Kind::HEAD) => Body::None,
            204 | 304 => Body::None,
            _ => body(response.headers),
        };
        let parsed = self.after_head(Side::Server, length, body);
        if is_tunnel {
            self.ended(Side::Server, length, shared);
            self.is_tunnel = true;
            return Parsed::Stop;
        }
        parsed
    }

    fn after_head(&mut self, side: Side, head: u64, body: Body) -> Parsed {
        match body {
            Body::None => Parsed::Take { length: head, ends: true },
            Body::Length(length) => Parsed::Take { length: head.saturating_add(length), ends: true },
            Body::UntilClose => Parsed::Take { length: u64::MAX, ends: true },
            Body::Chunked => {
                self.next[side as usize] = Next::Chunk;
                Parsed::Take { length: head, ends: false }
            }
        }
    }

    fn line(bytes: &[u8], is_all: bool) -> Result<&[u8], Parsed> {
        match memchr::memmem::find(&bytes[..bytes.len().min(CHUNK_LINE_MAX)], b"\r\n") {
            Some(end) => Ok(&bytes[..end]),
            None if is_all || bytes.len() >= CHUNK_LINE_MAX => Err(Parsed::Lost),
            None => Err(Parsed::More),
        }
    }

    fn chunk(&mut self, side: Side, bytes: &[u8], is_all: bool) -> Parsed {
        let line = match Http::line(bytes, is_all) {
            Ok(line) => line,
            Err(parsed) => return parsed,
        };
        let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
        let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let head = line.len() as u64 + 2;
        match size {
            Some(0) => {
                self.next[side as usize] = Next::Trailer;
                Parsed::Take { length: head, ends: false }
            }
            Some(size) => Parsed::Take { length: size.saturating_add(head + 2), ends: false },
            None => Parsed::Lost,
        }
    }

    fn trailer(&mut self, side: Side, bytes: &[u8], is_all: bool) -> Parsed {
        match Http::line(bytes, is_all) {
            Ok(line) => {
                let ends = line.is_empty();
                if ends {
                    self.next[side as usize] = Next::Head;
                }
                Parsed::Take { length: line.len() as u64 + 2, ends }
            }
            Err(parsed) => parsed,
        }
    }

    /// The connection has ended: requests that wait get no response.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        for operation in self.outstanding.drain(..) {
            shared.give_up(operation);
        }
    }
}

/// The path of a request target, without a query, and without the server, in whose name a user may stand.
fn path(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut end = path.len().min(PATH_MAX);
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    &path[..end]
}

fn body(fields: &[httparse::Header<'_>]) -> Body {
    let mut length = None;
    for field in fields {
        if field.name.eq_ignore_ascii_case("transfer-encoding") {
            let value = field.value.to_ascii_lowercase();
            return if value.ends_with(b"chunked") { Body::Chunked } else { Body::UntilClose };
        }
        if field.name.eq_ignore_ascii_case("content-length") {
            length = std::str::from_utf8(field.value).ok().and_then(|value| value.trim().parse().ok());
        }
    }
    match length {
        Some(0) => Body::None,
        Some(length) => Body::Length(length),
        None => Body::UntilClose,
    }
}

impl Conversation for Http {
    fn parse(&mut self, side: Side, bytes: &[u8], is_all: bool, shared: &mut Shared) -> Parsed {
        match self.next[side as usize] {
            Next::Head => self.head(side, bytes, is_all || bytes.len() >= KEPT_MAX, shared),
            Next::Chunk => self.chunk(side, bytes, is_all),
            Next::Trailer => self.trailer(side, bytes, is_all),
        }
    }

    fn ended(&mut self, side: Side, bytes: u64, shared: &mut Shared) {
        match side {
            Side::Client => {
                let Some(mut operation) = self.request.take() else { return };
                operation.request_ns = shared.now_ns;
                operation.end_ns = shared.now_ns;
                operation.request_bytes = bytes;
                if self.outstanding.len() >= OUTSTANDING_MAX || !shared.begin_waiting(&mut operation) {
                    shared.unanswered[operation.kind.index()] += 1;
                    return;
                }
                self.outstanding.push_back(operation);
            }
            Side::Server => {
                let Some(status) = self.status.take() else { return };
                match self.outstanding.pop_front() {
                    None => shared.miss(MissedKind::ResponsesWithoutRequest, bytes),
                    Some(mut operation) => {
                        operation.end_ns = shared.now_ns;
                        operation.outcome = Some(Outcome::Http(status));
                        operation.response_bytes = bytes;
                        shared.complete(operation);
                    }
                }
            }
        }
    }

    fn find(&self, side: Side, bytes: &[u8]) -> Option<usize> {
        let begins = match side {
            Side::Client => begins_with_method(bytes),
            Side::Server => begins_with_status(bytes),
        };
        begins.then_some(0)
    }

    fn lost(&mut self, side: Side, shared: &mut Shared) {
        self.next[side as usize] = Next::Head;
        match side {
            Side::Client => {
                if let Some(operation) = self.request.take() {
                    shared.recycle(operation);
                }
            }
            Side::Server => self.status = None,
        }
        // Which response belongs to which request is no longer known.
        self.close(shared);
    }

    fn has_stopped(&self) -> bool {
        self.is_tunnel
    }
}
