//! Answers GET requests with texts.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

/// The content type of metrics.
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of words.
pub const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// Connections at once; further ones wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may last, and how long its client may take for the head of a request.
const CONNECTION: Duration = Duration::from_secs(60);
const HEAD: Duration = Duration::from_secs(10);
/// The size limit of a request head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The pause when no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The content type.
    pub content_type: &'static str,
    /// The text.
    pub text: String,
}

/// Answers the path of a request; none if there is nothing at this path.
type Answering = dyn Fn(&str) -> Option<Answer> + Send + Sync;

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    ending: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on an address of the loopback interface; port 0 selects a free port.
    ///
    /// # Errors
    /// When other hosts can connect to the address, it is in use, or a thread cannot be started.
    pub fn start(
        address: SocketAddr,
        answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
    ) -> io::Result<Server> {
        if !address.ip().to_canonical().is_loopback() {
            let why = format!("other hosts can connect to {address}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (ending, ended) = oneshot::channel();
        let answer: Arc<Answering> = Arc::new(answer);
        let serve = move || {
            runtime.block_on(async {
                let accepting = tokio::spawn(accept(listener, answer));
                // An error means that the sender was dropped.
                let _ = ended.await;
                accepting.abort();
            });
        };
        let thread = std::thread::Builder::new().name("monitor".into()).spawn(serve)?;
        Ok(Server { address, ending: Some(ending), thread: Some(thread) })
    }

    /// The address with its port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, answer: Arc<Answering>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    // A client that leaves, is late or violates the protocol ends only its connection.
                    let _ = tokio::time::timeout(CONNECTION, connection(stream, answer)).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, answer: Arc<Answering>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, answer.as_ref());
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn respond(request: &Request<Incoming>, answer: &Answering) -> Response<Text> {
    let is_head = request.method() == Method::HEAD;
    let refused = |status, text: &str| Answer { status, content_type: TEXT_TYPE, text: text.into() };
    let answer = match () {
        () if !names_this_host(request) => refused(421, "this host has no such name\n"),
        () if request.method() != Method::GET && !is_head => refused(405, "only GET and HEAD\n"),
        () => answer(request.uri().path()).unwrap_or_else(|| refused(404, "not found\n")),
    };
    let mut response =
        Response::new(Text(Some(Bytes::from(if is_head { String::new() } else { answer.text }))));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if answer.status == 405 {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// Whether a request names this host: a web page whose name leads here must not read the answers.
fn names_this_host(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A text in one piece.
struct Text(Option<Bytes>);

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|text| Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |text| text.len() as u64))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_are_answered_or_refused() {
        let answer = |path: &str| {
            let text = format!("you asked {path}\n");
            (path == "/health").then_some(Answer { status: 503, content_type: TEXT_TYPE, text })
        };
        let server = Server::start("127.0.0.1:0".parse().unwrap(), answer).unwrap();
        let ask = |line: &str, host: &str| {
            let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            asked(server.address(), &request)
        };
        let found = ask("GET /health?x=1", "localhost:9464");
        assert!(
            found.starts_with("HTTP/1.1 503 ") && found.ends_with("\r\n\r\nyou asked /health\n"),
            "{found}"
        );
        assert!(found.contains("content-type: text/plain; charset=utf-8\r\n"), "{found}");
        assert!(ask("HEAD /health", "[::1]:1").ends_with("\r\n\r\n"));
        assert!(ask("GET /", "127.0.0.1").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /health", "127.0.0.1").starts_with("HTTP/1.1 405 "));
        assert!(ask("GET /health", "evil.example").starts_with("HTTP/1.1 421 "));
        assert!(ask("nonsense", "127.0.0.1").starts_with("HTTP/1.1 400 "));
        // Clients that say nothing do not keep others from an answer, and do not delay the end.
        let idle: Vec<_> = (0..CONNECTIONS_MAX - 1)
            .map(|_| std::net::TcpStream::connect(server.address()).unwrap())
            .collect();
        assert!(ask("GET /health", "127.0.0.1").starts_with("HTTP/1.1 503 "));
        let address = server.address();
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
        drop(idle);
    }

    #[test]
    fn other_hosts_cannot_be_let_in() {
        let refused = Server::start("0.0.0.0:0".parse().unwrap(), |_| None).unwrap_err();
        assert_eq!(refused.to_string(), "other hosts can connect to 0.0.0.0:0");
    }
}
