//! The threads of a service: one that accepts connections, and one for each connection.
//!
//! The thread of a connection processes HTTP and the database itself. Passing each request to another thread
//! would cost two context switches, as much as a small request.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName};
use hyper::http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::body::{self, Content, Memory, Share};
use super::connections::{Connections, WaitTimer};
use super::database::Database;
use super::guard::Guard;
use super::service::{Refusal, Reply, Service, check_method, refused};
use super::{InjectedFault, Options, Request, StartError, lock};

/// The size limit of a request head. hyper allows 100 headers.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Number of unused database connections that stay open.
const UNUSED_DATABASES_MAX: usize = 16;
/// Larger bodies are processed one after the other: as JSON they take many times their size.
const SMALL_BYTES_MAX: usize = 1 << 20;
/// The pause when the host has no file descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(10);
/// Sent to a connection for which there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// A running service. It ends when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    ending: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Shared {
    options: Options,
    guard: Guard,
    /// Unused database connections.
    databases: Mutex<Vec<Database>>,
    /// Held by the writer.
    writing: Mutex<()>,
    /// Held while a large body is processed.
    large: Mutex<()>,
    bodies: Memory,
    served: AtomicU64,
}

impl Server {
    /// Starts a service.
    ///
    /// # Errors
    /// When it cannot listen at the address, the address requires a token, or the database cannot be opened.
    pub fn start(options: Options) -> Result<Server, StartError> {
        let guard = Guard::new(&options)?;
        let listen = |error| StartError::Listen(options.listen.clone(), error);
        let listener = std::net::TcpListener::bind(&options.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        if options.token.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(StartError::NoToken(address));
        }
        listener.set_nonblocking(true).map_err(listen)?;
        let database = Database::create(&options.database, options.durability)
            .map_err(|why| StartError::Database(options.database.clone(), why))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener).map_err(listen)?
        };
        let shared = Arc::new(Shared {
            options,
            guard,
            databases: Mutex::new(vec![database]),
            writing: Mutex::new(()),
            large: Mutex::new(()),
            bodies: Memory::default(),
            served: AtomicU64::new(0),
        });
        let (ending, ended) = oneshot::channel();
        let serving = {
            let shared = shared.clone();
            let serve = move || serve(&runtime, shared, listener, ended);
            Builder::new().name("scim-serve".into()).spawn(serve).map_err(StartError::Thread)?
        };
        Ok(Server { shared, address, ending: Some(ending), serving: Some(serving) })
    }

    /// The base URL.
    pub fn url(&self) -> String {
        format!("http://{}/scim/v2", self.address)
    }

    /// Number of received requests, including rejected ones.
    pub fn requests(&self) -> u64 {
        self.shared.served.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// Serves until the sender of `ended` is dropped. Then it closes all connections and waits for their threads.
fn serve(runtime: &Runtime, shared: Arc<Shared>, listener: TcpListener, mut ended: oneshot::Receiver<()>) {
    let connections = Arc::new(Connections::new());
    let (running, all_ended) = mpsc::channel();
    runtime.block_on(async {
        let mut accepting = pin!(accept(&shared, &connections, &running, &listener));
        let mut closing = pin!(close_late(&connections, shared.options.limits.wait));
        poll_fn(|context| {
            let is_over = pin!(&mut ended).poll(context).is_ready()
                || accepting.as_mut().poll(context).is_ready()
                || closing.as_mut().poll(context).is_ready();
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    connections.close_all();
    drop(running);
    // Nothing is ever sent: this waits until the last thread has dropped its sender.
    let _ = all_ended.recv();
}

async fn accept(
    shared: &Arc<Shared>,
    connections: &Arc<Connections>,
    running: &mpsc::Sender<()>,
    listener: &TcpListener,
) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The client disconnected before it was accepted.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) =>
            {
                continue;
            }
            Err(_) => {
                // Probably there are no more file descriptors.
                connections.close_longest_waiting();
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if connections.count() >= shared.options.limits.connections && !connections.close_longest_waiting() {
            let _ = stream.try_write(NO_PLACE);
            continue;
        }
        let Ok(stream) = stream.into_std() else { continue };
        let (place, closed) = connections.place();
        let (shared, running) = (shared.clone(), running.clone());
        // If no thread can be started, the connection and its place are dropped.
        let _ = Builder::new().name("scim-serve".into()).spawn(move || {
            // A client that disconnects early is not an error of the service.
            let _ = serve_connection(&shared, stream, &place.turn, closed);
            drop((place, running));
        });
    }
}

/// Closes connections whose clients keep the service waiting for too long.
async fn close_late(connections: &Connections, wait: Duration) {
    let look_every = (wait / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
    loop {
        tokio::time::sleep(look_every).await;
        connections.close_waiting(wait);
    }
}

/// Serves a connection until its client or the sender of `closed` closes it.
fn serve_connection(
    shared: &Shared,
    stream: std::net::TcpStream,
    turn: &WaitTimer,
    mut closed: oneshot::Receiver<()>,
) -> io::Result<()> {
    let local = stream.local_addr()?.ip();
    // A response is sent immediately, not with the following one.
    stream.set_nodelay(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let stream = TokioIo::new(TcpStream::from_std(stream)?);
        let answering = service_fn(|request| answer(shared, turn, local, request));
        let mut serving = pin!(
            http1::Builder::new()
                .max_buf_size(HEAD_BYTES_MAX)
                .max_header_size(HEAD_BYTES_MAX)
                // A client may close its sending side and wait for its responses.
                .half_close(true)
                .serve_connection(stream, answering)
        );
        poll_fn(|context| {
            let is_over =
                pin!(&mut closed).poll(context).is_ready() || serving.as_mut().poll(context).is_ready();
            if is_over { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    })
}

/// The connection is to be closed without a response.
#[derive(Debug)]
struct ConnectionClosed;

impl fmt::Display for ConnectionClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without an answer")
    }
}

impl std::error::Error for ConnectionClosed {}

async fn answer(
    shared: &Shared,
    turn: &WaitTimer,
    local: IpAddr,
    request: hyper::Request<Incoming>,
) -> Result<Response<Content>, ConnectionClosed> {
    // The head is complete; the timeout of the body begins.
    turn.to_client();
    shared.served.fetch_add(1, Ordering::SeqCst);
    let reply = match reply(shared, turn, local, request).await {
        Ok(reply) => reply,
        Err(refusal) => Some(refused(&refusal)),
    };
    turn.to_client();
    reply.map(response).ok_or(ConnectionClosed)
}

/// Reads and serves a request; none if the connection is to be closed.
async fn reply(
    shared: &Shared,
    turn: &WaitTimer,
    local: IpAddr,
    request: hyper::Request<Incoming>,
) -> Result<Option<Reply>, Refusal> {
    let (head, incoming) = request.into_parts();
    shared.guard.check(&head, local)?;
    let mut request = Request::read(&head)?;
    check_method(&request)?;
    shared.guard.check_content_type(&head)?;
    let mut share = Share::of(&shared.bodies);
    request.body = body::read(incoming, &mut share).await?;
    turn.to_service();
    shared.serve(&request)
}

impl Shared {
    /// Serves a request; this may wait for the disk.
    fn serve(&self, request: &Request) -> Result<Option<Reply>, Refusal> {
        match self.options.watch.as_ref().and_then(|watch| watch(request)) {
            None => self.work(request).map(Some),
            Some(InjectedFault::Answer(status, headers, body)) => Ok(Some(Reply { status, headers, body })),
            Some(InjectedFault::HangUp) => Ok(None),
            Some(InjectedFault::ServeAndHangUp) => self.work(request).map(|_| None),
        }
    }

    fn work(&self, request: &Request) -> Result<Reply, Refusal> {
        let _turn = (request.body.len() > SMALL_BYTES_MAX).then(|| lock(&self.large));
        let unused = lock(&self.databases).pop();
        let database = match unused {
            Some(database) => database,
            None => Database::open(&self.options.database, self.options.durability)?,
        };
        let reply = Service::new(&database, &self.writing, &self.options).reply(request);
        let mut unused = lock(&self.databases);
        if unused.len() < UNUSED_DATABASES_MAX {
            unused.push(database);
        }
        Ok(reply)
    }
}

fn response(reply: Reply) -> Response<Content> {
    let is_empty = reply.body.is_empty();
    let mut response = Response::new(Content::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if !is_empty {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/scim+json"));
    }
    if reply.status == 411 {
        // Others may disagree about where this request ends, so no further request is accepted on the
        // connection.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in reply.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    response
}
