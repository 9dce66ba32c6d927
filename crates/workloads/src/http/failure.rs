//! Why an operation failed, as a code of the record and in words.

use rustix::io::Errno;

use super::response::Fault;
use crate::network::errno_words;
use crate::network::tls::TlsFault;

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// An unexpected status.
    Status(u16),
    /// No connection could be made to any address; the last one's reason.
    Connect(Errno),
    /// A connection in use broke.
    Broken(Errno),
    /// The connection was closed before the first byte of a response.
    Unanswered,
    /// The timeout expired.
    TimedOut(TimeoutPhase),
    /// The response is invalid or incomplete.
    Response(Fault),
    /// TLS with the server failed.
    Tls(TlsFault),
    /// A stream or a connection of HTTP/2 failed.
    Http2(Http2Fault),
    /// A check or an extraction of the scenario failed.
    Scenario(u32),
    /// The server sent a response with this status on a connection without a request; 0 if it was no response.
    Unsolicited(u16),
}

/// The phase in which the timeout expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutPhase {
    Connection,
    Handshake,
    FirstByte,
    LastByte,
}

/// Why a stream or a connection of HTTP/2 failed, with an error code of RFC 9113 section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http2Fault {
    /// The server reset the stream.
    Reset(u8),
    /// The server ended the connection, and did not process the request.
    GoAway(u8),
    /// What the server sent on the stream breaks the protocol.
    Stream(u8),
    /// What the server sent on the connection breaks the protocol.
    Connection(u8),
    /// The server did not choose HTTP/2 in the handshake of TLS.
    NotChosen,
    /// The request has a target, a host or a field that HTTP/2 cannot carry.
    Request,
}

impl Http2Fault {
    /// The lower 16 bits of its code.
    fn code(self) -> u32 {
        let (class, detail) = match self {
            Http2Fault::Reset(reason) => (0, reason),
            Http2Fault::GoAway(reason) => (1, reason),
            Http2Fault::Stream(reason) => (2, reason),
            Http2Fault::Connection(reason) => (3, reason),
            Http2Fault::NotChosen => (4, 0),
            Http2Fault::Request => (5, 0),
        };
        class << 8 | u32::from(detail)
    }

    fn describe(code: u32) -> String {
        let reason = reason_words(code as u8);
        match code >> 8 {
            0 => format!("HTTP/2: the server reset the stream: {reason}"),
            1 => format!("HTTP/2: the server ended the connection: {reason}"),
            2 => format!("HTTP/2: malformed response: {reason}"),
            3 => format!("HTTP/2: the server broke the protocol: {reason}"),
            4 => "TLS: the server did not choose HTTP/2".into(),
            _ => "HTTP/2: the request cannot be sent: its target, host or header fields are invalid".into(),
        }
    }
}

/// The name of an error code of HTTP/2 (RFC 9113 section 7).
fn reason_words(reason: u8) -> String {
    let names = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    names.get(usize::from(reason)).map_or_else(|| format!("error {reason}"), ToString::to_string)
}

const CONNECT: u32 = 1 << 16;
const BROKEN: u32 = 2 << 16;
const UNANSWERED: u32 = 3 << 16;
const TIMED_OUT: u32 = 4 << 16;
const RESPONSE: u32 = 5 << 16;
const TLS: u32 = 6 << 16;
const SCENARIO: u32 = 7 << 16;
const HTTP2: u32 = 8 << 16;
const UNSOLICITED: u32 = 9 << 16;

impl TimeoutPhase {
    const ALL: [TimeoutPhase; 4] =
        [TimeoutPhase::Connection, TimeoutPhase::FirstByte, TimeoutPhase::LastByte, TimeoutPhase::Handshake];

    fn words(self) -> &'static str {
        match self {
            TimeoutPhase::Connection => "timeout, before a connection was established",
            TimeoutPhase::Handshake => "timeout, during the TLS handshake",
            TimeoutPhase::FirstByte => "timeout, before the first byte of the response",
            TimeoutPhase::LastByte => "timeout, in the middle of the response",
        }
    }
}

impl Failure {
    /// The code: a class above, the detail in the lower 16 bits. A status stands for itself.
    pub(super) fn code(self) -> u32 {
        let place = |found: Option<usize>| found.unwrap_or(0) as u32;
        match self {
            Failure::Status(status) => u32::from(status),
            Failure::Connect(errno) => CONNECT | errno.raw_os_error() as u32 & 0xffff,
            Failure::Broken(errno) => BROKEN | errno.raw_os_error() as u32 & 0xffff,
            Failure::Unanswered => UNANSWERED,
            Failure::TimedOut(what) => TIMED_OUT | place(TimeoutPhase::ALL.iter().position(|of| *of == what)),
            Failure::Scenario(code) => SCENARIO | code & 0xffff,
            Failure::Tls(fault) => TLS | fault.code(),
            Failure::Http2(fault) => HTTP2 | fault.code(),
            Failure::Unsolicited(status) => UNSOLICITED | u32::from(status),
            Failure::Response(fault) => RESPONSE | place(Fault::ALL.iter().position(|of| *of == fault)),
        }
    }

    /// The code of the scenario in a code.
    pub(super) fn of_scenario(code: u32) -> Option<u32> {
        (code & !0xffff == SCENARIO).then_some(code & 0xffff)
    }

    /// Words for a code: "http 503", "connect: connection refused".
    pub(super) fn describe(code: u32) -> String {
        let detail = code & 0xffff;
        let words = match code & !0xffff {
            0 => return format!("http {detail}"),
            CONNECT if detail == Errno::ADDRNOTAVAIL.raw_os_error() as u32 => {
                Some("connect: no local port is free; set `keep_alive`, or open fewer connections per second")
            }
            CONNECT => return format!("connect: {}", errno_words(detail as i32)),
            TLS => return TlsFault::describe(detail),
            HTTP2 => return Http2Fault::describe(detail),
            UNSOLICITED if detail > 0 => {
                return format!("unsolicited: the server sent HTTP {detail} without a request");
            }
            UNSOLICITED => Some("unsolicited: the server sent bytes without a request"),
            BROKEN => return errno_words(detail as i32),
            UNANSWERED => Some("closed early, before any response"),
            TIMED_OUT => TimeoutPhase::ALL.get(detail as usize).map(|what| what.words()),
            RESPONSE => Fault::ALL.get(detail as usize).map(|fault| fault.words()),
            _ => None,
        };
        words.map_or_else(|| format!("failure {code}"), str::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_code_and_words() {
        for (failure, words) in [
            (Failure::Status(503), "http 503"),
            (Failure::Connect(Errno::CONNREFUSED), "connect: connection refused"),
            (Failure::Broken(Errno::CONNRESET), "connection reset by peer"),
            (Failure::Unanswered, "closed early, before any response"),
            (Failure::TimedOut(TimeoutPhase::FirstByte), "timeout, before the first byte of the response"),
            (Failure::Response(Fault::Chunk), "malformed: a chunk's size or end"),
            (Failure::Response(Fault::ClosedEarly), "closed early, in the middle of a response"),
            (Failure::Tls(TlsFault::Certificate), "TLS: the certificate of the server is not trusted"),
            (Failure::Tls(TlsFault::Alert(42)), "TLS: refused by the server: BadCertificate"),
            (Failure::Http2(Http2Fault::Reset(2)), "HTTP/2: the server reset the stream: INTERNAL_ERROR"),
            (Failure::Http2(Http2Fault::GoAway(0)), "HTTP/2: the server ended the connection: NO_ERROR"),
            (Failure::Http2(Http2Fault::Stream(1)), "HTTP/2: malformed response: PROTOCOL_ERROR"),
            (Failure::Http2(Http2Fault::Connection(99)), "HTTP/2: the server broke the protocol: error 99"),
            (Failure::Http2(Http2Fault::NotChosen), "TLS: the server did not choose HTTP/2"),
            (Failure::Response(Fault::Trailing), "malformed: bytes follow the end of the response"),
            (Failure::Unsolicited(0), "unsolicited: the server sent bytes without a request"),
            (Failure::Unsolicited(503), "unsolicited: the server sent HTTP 503 without a request"),
        ] {
            assert_eq!(Failure::describe(failure.code()), words);
        }
        for code in [TIMED_OUT | 9, RESPONSE | 99, 10 << 16] {
            assert_eq!(Failure::describe(code), format!("failure {code}"));
        }
    }
}
