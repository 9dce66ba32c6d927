//! The proxy: a task for each connection of a client, with one connection to the target.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1 as client;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tls::{ClientConfig, Trust};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, oneshot};
use tokio_rustls::TlsConnector;

use crate::links::{Links, may_have_links};
use crate::origin::bare;
use crate::tee::{Budget, Kept, SharedKept, Tee, lock};
use crate::{Exchange, Limits, Options, Origin, Sink, rewrite};

/// The longest time to connect to the target.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The most header fields of a message.
const FIELDS_MAX: usize = 500;

/// The pause when the host has no file descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(10);

/// What all connections share.
pub(crate) struct Proxy {
    address: SocketAddr,
    allows_other_hosts: bool,
    target: Origin,
    tls: Option<(TlsConnector, tokio_rustls::rustls::pki_types::ServerName<'static>)>,
    limits: Limits,
    requests: Arc<Budget>,
    responses: Arc<Budget>,
    sink: Sink,
}

/// A connection to the target.
type Sender = client::SendRequest<Tee>;

impl Proxy {
    pub(crate) fn new(options: &Options, address: SocketAddr, sink: Sink) -> Result<Arc<Proxy>, String> {
        let tls = match options.target.is_tls {
            false => None,
            true => {
                let trust = options.authorities.clone().map_or(Trust::System, Trust::File);
                let mut config: ClientConfig = tls::client(&trust, None)?;
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                let name = tls::server_name(options.target.name())?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Arc::new(Proxy {
            address,
            allows_other_hosts: options.allows_other_hosts,
            target: options.target.clone(),
            tls,
            limits: options.limits,
            requests: Arc::new(Budget::new(options.limits.requests_bytes)),
            responses: Arc::new(Budget::new(options.limits.responses_bytes)),
            sink,
        }))
    }

    /// Accepts connections until `ended`; the tasks of connections end with their runtime.
    pub(crate) async fn serve(self: Arc<Proxy>, listener: TcpListener, ended: oneshot::Receiver<()>) {
        let mut ended = pin!(ended);
        loop {
            let accepted = poll_fn(|context| {
                if ended.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                listener.poll_accept(context).map(Some)
            });
            match accepted.await {
                None => return,
                Some(Ok((stream, _))) => {
                    tokio::spawn(self.clone().connection(stream));
                }
                Some(Err(_)) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn connection(self: Arc<Proxy>, stream: TcpStream) {
        // Small messages are not held back.
        let _ = stream.set_nodelay(true);
        let upstream = Arc::new(Mutex::new(None));
        let service = service_fn(move |request| {
            let (proxy, upstream) = (self.clone(), upstream.clone());
            async move { Ok::<_, Infallible>(proxy.pass_on(request, &upstream).await) }
        });
        // What fails here is the client, or has been answered with 502.
        let _ = server::Builder::new()
            .timer(TokioTimer::new())
            .preserve_header_case(true)
            .max_headers(FIELDS_MAX)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// Passes a request on, and its response back.
    async fn pass_on(
        self: Arc<Proxy>,
        request: Request<Incoming>,
        upstream: &Mutex<Option<Sender>>,
    ) -> Response<Answer> {
        let own = match self.origin_of(&request) {
            Ok(own) => own,
            Err((status, words)) => return refusal(status, words),
        };
        let begun = Begun::now();
        let body = SharedKept::default();
        let (mut head, incoming) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
        rewrite::request(&mut head.headers, &own, &self.target);
        let mut exchange = Exchange {
            started_unix_ms: begun.unix_ms,
            method: head.method.to_string(),
            path: path.clone(),
            fields: pairs(&head.headers),
            ..Exchange::default()
        };
        head.uri = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
        head.version = Version::HTTP_11;
        let tee = Tee::new(incoming, body.clone(), self.limits.request_bytes, self.requests.clone());
        let mut upstream = upstream.lock().await;
        match self.send(&mut upstream, Request::from_parts(head, tee)).await {
            Err(why) => {
                exchange.failure = why.clone();
                self.report(exchange, &begun, &body, &SharedKept::default());
                refusal(StatusCode::BAD_GATEWAY, &format!("the target does not answer: {why}"))
            }
            Ok(response) => {
                let (mut head, incoming) = response.into_parts();
                exchange.status = head.status.as_u16();
                exchange.response_fields = pairs(&head.headers);
                rewrite::response(&mut head.headers, &own, &self.target);
                head.version = Version::HTTP_11;
                let kept = SharedKept::default();
                let tee =
                    Tee::new(incoming, kept.clone(), self.limits.response_bytes, self.responses.clone());
                let proxy = self.clone();
                let tee = tee.at_end(move || proxy.report(exchange, &begun, &body, &kept));
                if !may_have_links(&head.headers) {
                    return Response::from_parts(head, Answer::Passed(tee));
                }
                // It changes.
                head.headers.remove(CONTENT_LENGTH);
                let links = Links::new(tee, &own, &self.target);
                Response::from_parts(head, Answer::Rewritten(Box::new(links)))
            }
        }
    }

    /// The proxy as the client of a request knows it; or why the request is refused.
    fn origin_of(&self, request: &Request<Incoming>) -> Result<Origin, (StatusCode, &'static str)> {
        if *request.method() == Method::CONNECT || request.uri().authority().is_some() {
            return Err((
                StatusCode::BAD_REQUEST,
                "this is a reverse proxy: open its address as if it were the target",
            ));
        }
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let own = match host {
            Some(host) => format!("http://{host}"),
            None => format!("http://{}", self.address),
        };
        let Some((own, "")) = Origin::split(&own) else {
            return Err((StatusCode::BAD_REQUEST, "the field Host is not valid"));
        };
        // A page of another site whose name leads to this address must not use the proxy.
        let address: Option<IpAddr> = bare(&own.host).parse().ok();
        let is_local =
            own.host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback());
        match is_local || self.allows_other_hosts {
            true => Ok(own),
            false => Err((StatusCode::MISDIRECTED_REQUEST, "open the proxy by its address, or as localhost")),
        }
    }

    /// Sends a request over the connection, or over a new one. A request that was not sent because the target had
    /// closed the idle connection is sent again.
    async fn send(
        &self,
        upstream: &mut Option<Sender>,
        request: Request<Tee>,
    ) -> Result<Response<Incoming>, String> {
        let mut request = request;
        let is_usable = match upstream {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if is_usable && let Some(sender) = upstream {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => {
                        *upstream = None;
                        return Err(words(&error.into_error()));
                    }
                },
            }
        }
        *upstream = None;
        let mut sender = match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(connected) => connected?,
            Err(_) => return Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())),
        };
        let response = sender.send_request(request).await.map_err(|error| words(&error));
        if response.is_ok() {
            *upstream = Some(sender);
        }
        response
    }

    /// Opens a connection to the target.
    async fn connect(&self) -> Result<Sender, String> {
        let address = (self.target.name(), self.target.port);
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => handshake(TokioIo::new(stream)).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                handshake(TokioIo::new(stream.map_err(|error| format!("TLS: {error}"))?)).await
            }
        }
    }

    /// Reports an exchange that has ended.
    fn report(&self, mut exchange: Exchange, begun: &Begun, request: &SharedKept, response: &SharedKept) {
        exchange.time_ms = begun.instant.elapsed().as_millis() as i64;
        let mut request = std::mem::take(&mut *lock(request));
        exchange.body_bytes = request.total;
        if request.is_cut {
            request.discard(&self.requests);
        } else if request.has_ended || exchange.status != 0 {
            exchange.body = Some(request.bytes);
        }
        let Kept { bytes, total, is_cut, has_ended, failure } = std::mem::take(&mut *lock(response));
        exchange.response_bytes = total;
        exchange.response_body = bytes;
        exchange.has_whole_response = has_ended && !is_cut;
        if exchange.failure.is_empty() && !has_ended {
            exchange.failure = match failure.is_empty() {
                true => "the client did not read the response to its end".into(),
                false => format!("the response ended early: {failure}"),
            };
        }
        (self.sink)(exchange);
    }
}

/// When an exchange began.
struct Begun {
    instant: Instant,
    unix_ms: i64,
}

impl Begun {
    fn now() -> Begun {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Begun { instant: Instant::now(), unix_ms: since.as_millis() as i64 }
    }
}

/// Begins HTTP on a connection, and starts its task.
async fn handshake<S>(stream: S) -> Result<Sender, String>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = client::Builder::new()
        .preserve_header_case(true)
        .max_headers(FIELDS_MAX)
        .handshake(stream)
        .await
        .map_err(|error| words(&error))?;
    // What fails here fails the request as well.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// An error with its cause.
fn words(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Names and values of header fields.
fn pairs(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// An answer of the proxy itself.
fn refusal(status: StatusCode, words: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::Own(Some(Bytes::from(format!("plimsoll: {words}\n")))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The body of a response.
enum Answer {
    /// That of the target.
    Passed(Tee),
    /// The same with other links.
    Rewritten(Box<Links>),
    /// That of the proxy.
    Own(Option<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Answer::Passed(tee) => Pin::new(tee).poll_frame(context),
            Answer::Rewritten(links) => Pin::new(links.as_mut()).poll_frame(context),
            Answer::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Passed(tee) => tee.is_end_stream(),
            Answer::Rewritten(links) => links.is_end_stream(),
            Answer::Own(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Passed(tee) => tee.size_hint(),
            Answer::Rewritten(links) => links.size_hint(),
            Answer::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
