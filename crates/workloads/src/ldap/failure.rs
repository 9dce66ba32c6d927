//! Why an operation failed, as a code of the record and in words.

use ldap::ResultCode;
use rustix::io::Errno;

use crate::network::errno_words;
use crate::network::tls::TlsFault;

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The number of an unexpected result code.
    Result(u32),
    /// No connection could be made to any address; the last one's reason.
    Connect(Errno),
    /// A connection in use broke.
    Broken(Errno),
    /// The server closed the connection without an answer.
    Closed,
    /// The server announced that it closes the connection, with this result code.
    Disconnected(u32),
    /// The timeout expired.
    TimedOut(TimeoutPhase),
    /// A response is invalid.
    Response(Fault),
    /// TLS with the server failed.
    Tls(TlsFault),
    /// The server refused StartTLS, with this result code.
    StartTls(u32),
    /// The bind of a new connection was refused, with this result code.
    Bind(u32),
}

/// The phase in which the timeout expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutPhase {
    Connection,
    Handshake,
    Bind,
    Response,
}

/// Why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not an LDAP message.
    Malformed,
    /// It is longer than any result.
    TooLong,
    /// It answers another kind of request.
    Unrelated,
    /// It ended in the middle.
    Incomplete,
    /// It answers no request in flight.
    Unrequested,
}

/// What a result code of a first attempt often means; empty for the others. Servers seldom say more.
pub(super) fn advice(code: u32) -> &'static str {
    match ResultCode::from_number(code) {
        ResultCode::NoSuchObject => "the server has no entry of this name (see `base` or `dn`)",
        ResultCode::SizeLimitExceeded => {
            "more entries are found than the server, or `size_limit`, allows (see `filter`)"
        }
        ResultCode::InsufficientAccessRights => {
            "the entry that the connections are bound as may not do this (see `bind_dn`)"
        }
        _ => "",
    }
}

const CONNECT: u32 = 1 << 16;
const BROKEN: u32 = 2 << 16;
const CLOSED: u32 = 3 << 16;
const TIMED_OUT: u32 = 4 << 16;
const RESPONSE: u32 = 5 << 16;
const TLS: u32 = 6 << 16;
const DISCONNECTED: u32 = 7 << 16;
const BIND: u32 = 8 << 16;
const START_TLS: u32 = 9 << 16;

/// The phases and faults with their words; the index is the code.
const PHASES: [(TimeoutPhase, &str); 4] = [
    (TimeoutPhase::Connection, "timeout, before a connection was established"),
    (TimeoutPhase::Handshake, "timeout, during the TLS handshake"),
    (TimeoutPhase::Bind, "timeout, before the connection was bound"),
    (TimeoutPhase::Response, "timeout, before the result"),
];
const FAULTS: [(Fault, &str); 5] = [
    (Fault::Malformed, "malformed: not an LDAP message"),
    (Fault::TooLong, "malformed: a result of more than 1 MiB"),
    (Fault::Unrelated, "malformed: a response of another kind than the request"),
    (Fault::Incomplete, "closed early, in the middle of a response"),
    (Fault::Unrequested, "unsolicited: the server sent a response to no request in flight"),
];

impl Failure {
    /// The code: a class above, the detail in the lower 16 bits. A result code stands for itself.
    pub(super) fn code(self) -> u32 {
        let place = |found: Option<usize>| found.unwrap_or(0) as u32;
        let errno = |errno: Errno| errno.raw_os_error() as u32 & 0xffff;
        match self {
            Failure::Result(number) => number.min(0xffff),
            Failure::Connect(reason) => CONNECT | errno(reason),
            Failure::Broken(reason) => BROKEN | errno(reason),
            Failure::Closed => CLOSED,
            Failure::TimedOut(phase) => TIMED_OUT | place(PHASES.iter().position(|(of, _)| *of == phase)),
            Failure::Response(fault) => RESPONSE | place(FAULTS.iter().position(|(of, _)| *of == fault)),
            Failure::Tls(fault) => TLS | fault.code(),
            Failure::Disconnected(number) => DISCONNECTED | number.min(0xffff),
            Failure::StartTls(number) => START_TLS | number.min(0xffff),
            Failure::Bind(number) => BIND | number.min(0xffff),
        }
    }

    /// Words for a code: "noSuchObject (32)", "connect: connection refused".
    pub(super) fn describe(code: u32) -> String {
        let detail = code & 0xffff;
        let result = ResultCode::from_number(detail);
        let words = match code & !0xffff {
            0 => return result.to_string(),
            CONNECT if detail == Errno::ADDRNOTAVAIL.raw_os_error() as u32 => {
                Some("connect: no local port is free; open fewer connections per second")
            }
            CONNECT => return format!("connect: {}", errno_words(detail as i32)),
            BROKEN => return errno_words(detail as i32),
            CLOSED => Some("the server closed the connection"),
            TIMED_OUT => PHASES.get(detail as usize).map(|(_, words)| *words),
            RESPONSE => FAULTS.get(detail as usize).map(|(_, words)| *words),
            TLS => return TlsFault::describe(detail),
            DISCONNECTED => return format!("the server disconnected: {result}"),
            START_TLS => return format!("StartTLS: {result}"),
            BIND => return format!("bind of a new connection: {result}"),
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
            (Failure::Result(32), "noSuchObject (32)"),
            (Failure::Connect(Errno::CONNREFUSED), "connect: connection refused"),
            (Failure::Broken(Errno::CONNRESET), "connection reset by peer"),
            (Failure::Closed, "the server closed the connection"),
            (Failure::Disconnected(52), "the server disconnected: unavailable (52)"),
            (Failure::TimedOut(TimeoutPhase::Response), "timeout, before the result"),
            (Failure::Response(Fault::Malformed), "malformed: not an LDAP message"),
            (
                Failure::Response(Fault::Unrequested),
                "unsolicited: the server sent a response to no request in flight",
            ),
            (Failure::Tls(TlsFault::Certificate), "TLS: the certificate of the server is not trusted"),
            (Failure::StartTls(2), "StartTLS: protocolError (2)"),
            (Failure::Bind(49), "bind of a new connection: invalidCredentials (49)"),
        ] {
            assert_eq!(Failure::describe(failure.code()), words);
        }
        for code in [TIMED_OUT | 9, RESPONSE | 99, 10 << 16] {
            assert_eq!(Failure::describe(code), format!("failure {code}"));
        }
    }
}
