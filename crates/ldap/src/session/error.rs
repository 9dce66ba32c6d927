//! Errors of a session and refused operations. No error contains a password or a value.

use std::fmt;
use std::io;
use std::time::Duration;

use super::Server;
use crate::ResultCode;
use crate::ber::BerError;
use crate::message::{LdapResult, Operation};

/// Limits of the stored text and the stored referrals of a server: many results may be kept.
const TEXT_CHARS_MAX: usize = 1000;
const REFERRALS_MAX: usize = 10;

/// A text from a server, truncated to the limit.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// The result of an operation that a server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The operation, as RFC 4511 names it.
    pub operation: &'static str,
    /// The entry that it was about; empty if there is none.
    pub dn: String,
    /// The result code.
    pub code: ResultCode,
    /// The part of a missing name that exists.
    pub matched_dn: String,
    /// The diagnostic message of the server.
    pub diagnostic: String,
    /// URLs of other servers for the request.
    pub referrals: Vec<String>,
}

impl Outcome {
    /// The outcome of an operation.
    pub fn new(operation: &Operation<'_>, result: &LdapResult<'_>) -> Self {
        let dn = match operation {
            Operation::BindRequest { name: dn, .. }
            | Operation::ModifyRequest { dn, .. }
            | Operation::AddRequest { dn, .. }
            | Operation::DelRequest { dn }
            | Operation::ModifyDnRequest { dn, .. }
            | Operation::CompareRequest { dn, .. } => dn,
            Operation::SearchRequest(search) => search.base,
            _ => "",
        };
        Outcome {
            operation: operation.name(),
            dn: dn.to_string(),
            code: result.code,
            matched_dn: beginning(result.matched_dn),
            diagnostic: beginning(result.diagnostic),
            referrals: result.referrals.iter().take(REFERRALS_MAX).map(beginning).collect(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.operation)?;
        if !self.dn.is_empty() {
            write!(out, " of {}", self.dn)?;
        }
        write!(out, ": {}", self.code)?;
        if !self.diagnostic.is_empty() {
            write!(out, ", {}", self.diagnostic)?;
        }
        if !self.matched_dn.is_empty() {
            write!(out, "; there is {}", self.matched_dn)?;
        }
        if !self.referrals.is_empty() {
            write!(out, "; see {}", self.referrals.join(" "))?;
        }
        match self.code.help() {
            "" => Ok(()),
            help => write!(out, ": {help}"),
        }
    }
}

/// Why an operation or the session failed.
#[derive(Debug)]
pub enum SessionError {
    /// The URL is invalid. The text before an `@` is omitted, because it may be a password.
    Url(String),
    /// The server cannot be reached.
    Connect {
        /// The server.
        server: String,
        /// The reason.
        error: io::Error,
    },
    /// TLS failed: a certificate file, or the server's certificate.
    Tls(String),
    /// A timeout.
    Timeout {
        /// The server.
        server: String,
        /// What the session waited for.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The user interrupted the program.
    Interrupted,
    /// The server closed the connection.
    Closed {
        /// The server.
        server: String,
        /// The server's message, or what was in flight.
        why: String,
    },
    /// The connection failed.
    Io {
        /// The server.
        server: String,
        /// The cause.
        error: io::Error,
    },
    /// The received data is not LDAP.
    Protocol {
        /// The server.
        server: String,
        /// The error in the data.
        error: BerError,
    },
    /// The server refused the operation; the session is still usable.
    Failed(Box<Outcome>),
    /// Other requests are in flight, but this call requires that there are none.
    Pipelined,
    /// A bind name without a password.
    EmptyPassword,
}

impl SessionError {
    pub(super) fn connect(server: &Server, error: io::Error) -> Self {
        SessionError::Connect { server: server.to_string(), error }
    }

    /// The result code, if the server sent one.
    pub fn code(&self) -> Option<ResultCode> {
        match self {
            SessionError::Failed(outcome) => Some(outcome.code),
            _ => None,
        }
    }

    /// Whether the session is still usable.
    pub fn session_goes_on(&self) -> bool {
        matches!(self, SessionError::Failed(_) | SessionError::Pipelined | SessionError::EmptyPassword)
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Url(url) => {
                write!(out, "`{url}` is not a URL of a server: write ldap://host:389, ldaps://host:636 or ldapi://%2Fpath%2Fof%2Fsocket")
            }
            SessionError::Connect { server, error } => {
                write!(out, "{server} cannot be reached: {error}. Check that the server is running and that its port is correct")
            }
            SessionError::Tls(what) => out.write_str(what),
            SessionError::Timeout { server, what, after } => {
                write!(out, "{server}: waited {} s for {what}. Raise the timeout if the server is slow", after.as_secs_f64())
            }
            SessionError::Interrupted => out.write_str("interrupted"),
            SessionError::Closed { server, why } => write!(out, "{server} closed the connection: {why}"),
            SessionError::Io { server, error } => write!(out, "the connection to {server} failed: {error}"),
            SessionError::Protocol { server, error } => write!(out, "{server}: {error}"),
            SessionError::Failed(outcome) => outcome.fmt(out),
            SessionError::Pipelined => {
                out.write_str("other requests are in flight on this session: take their responses first, or use another")
            }
            SessionError::EmptyPassword => out.write_str(
                "the password is empty: a server would take this for an anonymous bind and let it succeed. Give the password",
            ),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SessionError::Connect { error, .. } | SessionError::Io { error, .. } => Some(error),
            SessionError::Protocol { error, .. } => Some(error),
            _ => None,
        }
    }
}
