//! Why a session cannot go on, or an operation was refused. No error holds a password or a value.

use std::fmt;
use std::io;
use std::time::Duration;

use super::Server;
use crate::ResultCode;
use crate::ber::BerError;
use crate::message::{LdapResult, Operation};

/// The most of a text of a server that is kept, and the most referrals: answers are kept while others come.
const TEXT_CHARS_MAX: usize = 1000;
const REFERRALS_MAX: usize = 10;

/// A text of a server, cut where it is long.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// What a server answered to an operation it did not carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The operation, as RFC 4511 names it.
    pub operation: &'static str,
    /// The entry it was about; empty where there is none.
    pub dn: String,
    /// The result code.
    pub code: ResultCode,
    /// How much of a name that was not found is there.
    pub matched_dn: String,
    /// What the server says, for people.
    pub diagnostic: String,
    /// Where else to ask.
    pub referrals: Vec<String>,
}

impl Outcome {
    /// What became of this operation.
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

/// Why something could not be done.
#[derive(Debug)]
pub enum SessionError {
    /// This is no URL of a server. What stands before an `@` is left out, as it may be a password.
    Url(String),
    /// The server cannot be reached.
    Connect {
        /// The server.
        server: String,
        /// Why.
        error: io::Error,
    },
    /// TLS cannot be set up: files of certificates, or the server's certificate.
    Tls(String),
    /// Nothing came in time.
    Timeout {
        /// The server.
        server: String,
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The program is to end.
    Interrupted,
    /// The server closed the connection.
    Closed {
        /// The server.
        server: String,
        /// What it said, or what was open.
        why: String,
    },
    /// The connection failed.
    Io {
        /// The server.
        server: String,
        /// How.
        error: io::Error,
    },
    /// What came is no LDAP.
    Protocol {
        /// The server.
        server: String,
        /// What is wrong with it.
        error: BerError,
    },
    /// The server refused the operation; the session goes on.
    Failed(Box<Outcome>),
    /// Other requests are in flight, and this call needs the session alone.
    Pipelined,
    /// A name without a password.
    EmptyPassword,
}

impl SessionError {
    pub(super) fn connect(server: &Server, error: io::Error) -> Self {
        SessionError::Connect { server: server.to_string(), error }
    }

    /// The result code, where the server gave one.
    pub fn code(&self) -> Option<ResultCode> {
        match self {
            SessionError::Failed(outcome) => Some(outcome.code),
            _ => None,
        }
    }

    /// Whether the session can be used on.
    pub fn session_goes_on(&self) -> bool {
        matches!(self, SessionError::Failed(_) | SessionError::Pipelined | SessionError::EmptyPassword)
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Url(url) => {
                write!(out, "`{url}` is no URL of a server: write ldap://host:389 or ldaps://host:636")
            }
            SessionError::Connect { server, error } => {
                write!(out, "{server} cannot be reached: {error}. See that the server runs and that its port is right")
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
