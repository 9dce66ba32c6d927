//! A service that speaks SCIM 2.0 (RFC 7643, RFC 7644): users and groups in a database of SQLite.
//!
//! It runs in threads of a test, or by `plimsoll metadir scim-server`: something to try an agent on, and what experiments
//! load. Each connection has a thread, so that a disk that is slow delays no other connection and no timeout; those that write
//! take turns.
#![forbid(unsafe_code)]

mod body;
mod connections;
mod database;
mod filter;
mod guard;
mod patch;
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

/// What is done with a request instead of serving it.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It is answered so, with these headers and this body.
    Answer(u16, Vec<(String, String)>, String),
    /// The connection is closed without an answer.
    HangUp,
    /// It is served, and the connection closed without the answer.
    ServeAndHangUp,
}

/// Looks at each request before it is served, in the thread of its connection.
pub type Watch = Box<dyn Fn(&Request) -> Option<Trouble> + Send + Sync>;

/// How a service is set up.
pub struct Options {
    /// Where it listens; port 0 takes one that is free.
    pub listen: String,
    /// The file of its database, made with mode 0600 when it is not there.
    pub database: PathBuf,
    /// When a change is safe.
    pub durability: Durability,
    /// The bearer token that a request must show; without it, none. Needed where other hosts can connect.
    pub token: Option<String>,
    /// Names by which clients may call the service (`Host`), beside its address, `localhost` and the name in `listen`.
    pub hosts: Vec<String>,
    /// The most resources of one page.
    pub page_max: u64,
    /// Whether it says that it can filter.
    pub filters: bool,
    /// What connections may take.
    pub limits: Limits,
    /// What looks at each request first.
    pub watch: Option<Watch>,
}

impl Options {
    /// A service on a free port of this host that does not wait for the disk.
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

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. One more takes the place of the one that waits longest for its client.
    pub connections: usize,
    /// How long a client may take for each of: the head of its first request; the body of a request; an answer and the
    /// head of the next request. Then its connection is closed.
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
    /// Nothing can listen at this address.
    Listen(String, io::Error),
    /// Other hosts can connect to this address, and there is no token.
    NoToken(SocketAddr),
    /// The token is empty, or has characters that no header can carry.
    UnusableToken,
    /// The database cannot be opened.
    Database(PathBuf, String),
    /// There is no thread for it.
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
