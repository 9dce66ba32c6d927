//! A recording reverse proxy for HTTP/1.1: clients connect to it instead of the target, it passes everything on, and
//! reports each exchange of request and response ([`Exchange`]).
//!
//! What a client must not notice is rewritten: the host in `Host`, `Origin` and `Referer` on the way to the target, and
//! the target's host in `Location`, in the domain of cookies (`rewrite`) and in the links of pages (`links`) on the way back.
//! Bodies are passed on as they arrive; a copy, as the target sent it, is kept up to a limit (`tee`).
#![forbid(unsafe_code)]

mod links;
mod origin;
mod proxy;
mod rewrite;
mod tee;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use origin::Origin;

use proxy::Proxy;

/// What is recorded, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on, `HOST:PORT`; port 0 selects a free port.
    pub listen: String,
    /// Whether the address may be one that other hosts can connect to.
    pub allows_other_hosts: bool,
    /// The server that requests are passed on to.
    pub target: Origin,
    /// PEM file of the authorities that are trusted, for a target over TLS; none for those that this host trusts.
    pub authorities: Option<PathBuf>,
    /// The limits of what is kept.
    pub limits: Limits,
}

/// Bytes of bodies that are kept. Larger ones are passed on as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one request; a larger body is not kept.
    pub request_bytes: usize,
    /// Of one response: the begin is kept.
    pub response_bytes: usize,
    /// Of all requests.
    pub requests_bytes: usize,
    /// Of all responses.
    pub responses_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_bytes: 1 << 20,
            response_bytes: 4 << 20,
            requests_bytes: 24 << 20,
            responses_bytes: 256 << 20,
        }
    }
}

/// A request with its response, as they would be without the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// When the request began, in milliseconds since 1970.
    pub started_unix_ms: i64,
    /// The time from the head of the request to the end of the response, in milliseconds.
    pub time_ms: i64,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The header fields of the request.
    pub fields: Vec<(String, String)>,
    /// The body of the request; none if it is larger than the limits.
    pub body: Option<Vec<u8>>,
    /// The size of the body of the request.
    pub body_bytes: u64,
    /// The status of the response; 0 without a response.
    pub status: u16,
    /// The header fields of the response.
    pub response_fields: Vec<(String, String)>,
    /// The body of the response, as far as it is kept.
    pub response_body: Vec<u8>,
    /// The size of the body of the response that was passed on.
    pub response_bytes: u64,
    /// Whether the body of the response is kept completely.
    pub has_whole_response: bool,
    /// Why there is no complete response; empty if there is one.
    pub failure: String,
}

/// What gets the exchanges, each when it has ended.
pub type Sink = Box<dyn Fn(Exchange) + Send + Sync>;

/// Why a recorder cannot start.
#[derive(Debug)]
pub enum StartError {
    /// It cannot listen at this address.
    Listen(String, io::Error),
    /// Other hosts can connect to this address.
    OtherHosts(SocketAddr),
    /// TLS with the target cannot be prepared.
    Tls(String),
    /// A thread cannot be started.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            StartError::OtherHosts(address) => write!(f, "other hosts can connect to {address}"),
            StartError::Tls(why) => f.write_str(why),
            StartError::Thread(error) => write!(f, "a thread cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running recorder. It ends when it is dropped: exchanges that have not ended are reported as they are.
pub struct Recorder {
    address: SocketAddr,
    ending: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts to listen. The target is not contacted before the first request.
    ///
    /// # Errors
    /// When it cannot listen, or the certificates cannot be read.
    pub fn start(options: Options, sink: Sink) -> Result<Recorder, StartError> {
        let listen = |error| StartError::Listen(options.listen.clone(), error);
        let listener = std::net::TcpListener::bind(&options.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        if !options.allows_other_hosts && !address.ip().to_canonical().is_loopback() {
            return Err(StartError::OtherHosts(address));
        }
        listener.set_nonblocking(true).map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener).map_err(listen)?
        };
        let proxy = Proxy::new(&options, address, sink).map_err(StartError::Tls)?;
        let (ending, ended) = oneshot::channel();
        let serve = move || runtime.block_on(proxy.serve(listener, ended));
        let serving = Builder::new().name("recorder".into()).spawn(serve).map_err(StartError::Thread)?;
        Ok(Recorder { address, ending: Some(ending), serving: Some(serving) })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(serving) = self.serving.take() {
            // A panic of the thread has been printed.
            let _ = serving.join();
        }
    }
}
