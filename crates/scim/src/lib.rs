//! A service that speaks SCIM 2.0 (RFC 7643, RFC 7644): users and groups in a database of SQLite.
//!
//! It runs in threads of a test, or by `plimsoll metadir scim-server`: something to try an agent on, and what experiments
//! load. A thread
//! serves a connection with a connection to the database of its own; those that write take turns.

mod database;
mod filter;
mod http;
mod patch;
mod schema;
mod service;
mod time;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

pub use database::Durability;
pub use http::Request;

use database::Database;
use service::Service;

/// Connections served at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 256;

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

/// Looks at each request before it is served.
pub type Watch = Box<dyn Fn(&Request) -> Option<Trouble> + Send + Sync>;

/// How a service is set up.
pub struct Options {
    /// Where it listens; port 0 takes one that is free.
    pub listen: String,
    /// The file of its database, made when it is not there.
    pub database: PathBuf,
    /// When a change is safe.
    pub durability: Durability,
    /// The bearer token that a request must show; without it, none.
    pub token: Option<String>,
    /// The most resources of one page.
    pub page_max: u64,
    /// Whether it says that it can filter.
    pub filters: bool,
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
            page_max: 1000,
            filters: true,
            watch: None,
        }
    }
}

/// A service that runs. It ends when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Shared {
    options: Options,
    is_ending: AtomicBool,
    /// Held by the one that writes.
    writing: Mutex<()>,
    served: AtomicU64,
    /// What is connected, to be hung up at the end.
    connections: Mutex<HashMap<u64, TcpStream>>,
}

impl Server {
    /// Starts a service.
    ///
    /// # Errors
    /// When the port is taken or the database cannot be opened.
    pub fn start(options: Options) -> io::Result<Server> {
        let listener = TcpListener::bind(&options.listen)?;
        let address = listener.local_addr()?;
        Database::open(&options.database, options.durability)
            .map_err(io::Error::other)?
            .prepare()
            .map_err(io::Error::other)?;
        let shared = Arc::new(Shared {
            options,
            is_ending: AtomicBool::new(false),
            writing: Mutex::new(()),
            served: AtomicU64::new(0),
            connections: Mutex::new(HashMap::new()),
        });
        let accepting = {
            let shared = shared.clone();
            Builder::new().name("scim-accept".into()).spawn(move || accept(&shared, &listener))?
        };
        Ok(Server { shared, address, accepting: Some(accepting) })
    }

    /// The base of its URLs.
    pub fn url(&self) -> String {
        format!("http://{}/scim/v2", self.address)
    }

    /// Requests that came.
    pub fn requests(&self) -> u64 {
        self.shared.served.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        // What waits for connections gets one.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    for number in 0.. {
        let Ok((connection, _)) = listener.accept() else { continue };
        if shared.is_ending.load(Ordering::SeqCst) {
            break;
        }
        serving.retain(|thread| !thread.is_finished());
        let Ok(known) = connection.try_clone() else { continue };
        if serving.len() >= CONNECTIONS_MAX {
            continue;
        }
        lock(&shared.connections).insert(number, known);
        let of_thread = shared.clone();
        let thread = Builder::new().name("scim-serve".into()).spawn(move || {
            // A client that goes away in the middle is its own affair.
            let _ = serve(&of_thread, connection);
            lock(&of_thread.connections).remove(&number);
        });
        serving.extend(thread);
    }
    for connection in lock(&shared.connections).values() {
        let _ = connection.shutdown(Shutdown::Both);
    }
    serving.into_iter().for_each(|thread| drop(thread.join()));
}

fn serve(shared: &Shared, connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let database =
        Database::open(&shared.options.database, shared.options.durability).map_err(io::Error::other)?;
    let mut service = Service::new(database, &shared.writing, &shared.options);
    let mut connection = http::Connection::new(connection);
    loop {
        let request = match connection.read()? {
            http::Read::Request(request) => request,
            http::Read::Wrong(status, why) => {
                return connection.write(&service::refused(status, why), false);
            }
            http::Read::End => return Ok(()),
        };
        shared.served.fetch_add(1, Ordering::SeqCst);
        match shared.options.watch.as_ref().and_then(|watch| watch(&request)) {
            None => {
                let reply = service.reply(&request);
                connection.write(&reply, request.keeps_alive)?;
                if !request.keeps_alive {
                    return Ok(());
                }
            }
            Some(Trouble::Answer(status, headers, body)) => {
                connection.write(&service::Reply { status, headers, body }, request.keeps_alive)?;
            }
            Some(Trouble::HangUp) => return Ok(()),
            Some(Trouble::ServeAndHangUp) => {
                service.reply(&request);
                return Ok(());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
