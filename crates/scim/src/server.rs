//! The threads of a service: one that accepts connections, and one for each connection.
//!
//! The thread of a connection speaks HTTP and works on the database itself. Handing each request to another thread costs two
//! switches, which is as much as a small request.

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
use super::connections::{Connections, Turn};
use super::database::Database;
use super::guard::Guard;
use super::service::{Refusal, Reply, Service, refused};
use super::{Options, Request, StartError, Trouble, lock};

/// The longest head of a request. Of headers, hyper allows 100.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Connections to the database that stay open without being used.
const UNUSED_DATABASES_MAX: usize = 16;
/// Larger bodies are worked on one after the other: as JSON they take many times their size.
const SMALL_BYTES_MAX: usize = 1 << 20;
/// How long it waits when the host has no descriptor for one more connection.
const PAUSE: Duration = Duration::from_millis(10);
/// Sent to a connection for which there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// A service that runs. It ends when it is dropped.
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
    /// Connections to the database that nobody uses now.
    databases: Mutex<Vec<Database>>,
    /// Held by the one that writes.
    writing: Mutex<()>,
    /// Held by the one that works on a large body.
    large: Mutex<()>,
    bodies: Memory,
    served: AtomicU64,
}

impl Server {
    /// Starts a service.
    ///
    /// # Errors
    /// When the address cannot be listened at or needs a token, or the database cannot be opened.
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

    /// The base of its URLs.
    pub fn url(&self) -> String {
        format!("http://{}/scim/v2", self.address)
    }

    /// Requests that came, those that were refused included.
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
            // The client went away before it was its turn.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) =>
            {
                continue;
            }
            Err(_) => {
                // Mostly there are no more descriptors.
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
        // Without a thread, the connection and its place are dropped.
        let _ = Builder::new().name("scim-serve".into()).spawn(move || {
            // A client that goes away in the middle is its own affair.
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
    turn: &Turn,
    mut closed: oneshot::Receiver<()>,
) -> io::Result<()> {
    let local = stream.local_addr()?.ip();
    // An answer goes at once, not with what follows it.
    stream.set_nodelay(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let stream = TokioIo::new(TcpStream::from_std(stream)?);
        let answering = service_fn(|request| answer(shared, turn, local, request));
        let mut serving = pin!(
            http1::Builder::new()
                .max_buf_size(HEAD_BYTES_MAX)
                .max_header_size(HEAD_BYTES_MAX)
                // A client may say that it sends nothing more, and wait for its answers.
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

/// That the connection is closed without an answer.
#[derive(Debug)]
struct HungUp;

impl fmt::Display for HungUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without an answer")
    }
}

impl std::error::Error for HungUp {}

async fn answer(
    shared: &Shared,
    turn: &Turn,
    local: IpAddr,
    request: hyper::Request<Incoming>,
) -> Result<Response<Content>, HungUp> {
    // Its head is here; now the body has as long.
    turn.to_client();
    shared.served.fetch_add(1, Ordering::SeqCst);
    let reply = match reply(shared, turn, local, request).await {
        Ok(reply) => reply,
        Err(refusal) => Some(refused(&refusal)),
    };
    turn.to_client();
    reply.map(response).ok_or(HungUp)
}

/// Reads a request and has it served; none when the connection is to be closed.
async fn reply(
    shared: &Shared,
    turn: &Turn,
    local: IpAddr,
    request: hyper::Request<Incoming>,
) -> Result<Option<Reply>, Refusal> {
    let (head, incoming) = request.into_parts();
    shared.guard.check(&head, local)?;
    let mut request = Request::read(&head)?;
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
            Some(Trouble::Answer(status, headers, body)) => Ok(Some(Reply { status, headers, body })),
            Some(Trouble::HangUp) => Ok(None),
            Some(Trouble::ServeAndHangUp) => self.work(request).map(|_| None),
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
        // Where this request ends, others may see differently.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in reply.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    response
}
