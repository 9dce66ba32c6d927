//! A service that supports SCIM 2.0 (RFC 7643, RFC 7644): users and groups in a SQLite database.
//!
//! It runs in threads of a test, or as `plimsoll metadir scim-server`, to test an agent and as the target of
//! experiments. Each connection has a thread, so a slow disk delays no other connection and no timeout.
//! Writes are serialized.
#![forbid(unsafe_code)]

mod body;
mod connections;
mod database;
mod filter;
mod guard;
mod patch;
mod query;
mod request;
mod schema;
mod server;
mod service;
mod time;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use database::Durability;
pub use request::Request;
pub use server::Server;

/// An injected fault instead of normal service.
#[derive(Clone, Debug)]
pub enum InjectedFault {
    /// The response has this status, these headers and this body.
    Answer(u16, Vec<(String, String)>, String),
    /// The connection is closed without an answer.
    HangUp,
    /// The request is served, but the connection is closed without the response.
    ServeAndHangUp,
}

/// Inspects each request before it is served, on the thread of its connection.
pub type Watch = Box<dyn Fn(&Request) -> Option<InjectedFault> + Send + Sync>;

/// The settings of a service.
pub struct Options {
    /// The listen address; port 0 selects a free port.
    pub listen: String,
    /// The database file, created with mode 0600 if it does not exist.
    pub database: PathBuf,
    /// When a change is durable.
    pub durability: Durability,
    /// The bearer token that requests must have; if none, no token is required. Mandatory if other hosts can
    /// connect.
    pub token: Option<String>,
    /// Names by which clients may address the service (`Host`), besides its address, `localhost` and the name
    /// in `listen`.
    pub hosts: Vec<String>,
    /// Limit of the resources per page.
    pub page_max: u64,
    /// Whether it reports that it supports filters.
    pub filters: bool,
    /// Limits of connections.
    pub limits: Limits,
    /// Inspects each request.
    pub watch: Option<Watch>,
}

impl Options {
    /// A service on a free port of this host, without disk flushes.
    pub fn new(database: impl Into<PathBuf>) -> Options {
        Options {
            listen: "127.0.0.1:0".into(),
            database: database.into(),
            durability: Durability::Off,
            token: None,
            hosts: Vec::new(),
            page_max: 1000,
            filters: true,
            limits: Limits::default(),
            watch: None,
        }
    }
}

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of concurrent connections. A further one replaces the connection that has waited longest for
    /// its client.
    pub connections: usize,
    /// Timeout of the client for each of these: the head of its first request; the body of a request; reading
    /// a response and sending the head of the next request. After the timeout its connection is closed.
    pub wait: Duration,
}

impl Default for Limits {
    /// 128 connections, 30 s.
    fn default() -> Limits {
        Limits { connections: 128, wait: Duration::from_secs(30) }
    }
}

/// Why a service does not start.
#[derive(Debug)]
pub enum StartError {
    /// The service cannot listen at this address.
    Listen(String, io::Error),
    /// Other hosts can connect to this address, but there is no token.
    NoToken(SocketAddr),
    /// The token is empty or contains characters that a header cannot contain.
    UnusableToken,
    /// The database cannot be opened.
    Database(PathBuf, String),
    /// The thread cannot be started.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => write!(f, "cannot listen at {address}: {error}"),
            StartError::NoToken(address) => {
                write!(f, "other hosts can connect to {address}, so a token is required")
            }
            StartError::UnusableToken => {
                f.write_str("the token is empty, or has characters other than printable ASCII")
            }
            StartError::Database(path, why) => {
                write!(f, "the database {} cannot be opened: {why}", path.display())
            }
            StartError::Thread(error) => write!(f, "a thread cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
