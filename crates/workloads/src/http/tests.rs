//! The workload against real servers on loopback: a small one of our own that can be wrong in every way, and nginx.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::inputs::Inputs;
use engine::workload::{Admission, Completion, Done, Operation, Outcome, Share, Workload, WorkloadKind};
use model::{Level, MILLISECOND};
use testkit::{Authority, Bearer, Nginx, SelfSigned};

use super::HTTP;
use super::settings::SETTINGS;
use crate::network::addresses::Addresses;
use crate::testing::{drive, settings_of};

mod ended_tls;
mod unsolicited;

/// A server of a thread per connection. What it does follows the path. It lives until the test's process ends.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                std::thread::spawn(move || {
                    // A connection without a request is one that only looked whether somebody is there.
                    let mut first = true;
                    serve(stream, &mut || {
                        counted.fetch_add(usize::from(std::mem::take(&mut first)), Ordering::SeqCst);
                    });
                });
            }
        });
        Server { address, connections }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Connections over which something was asked.
    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The sessions of the shop.
static NUMBERS: AtomicUsize = AtomicUsize::new(1);

struct Request {
    method: String,
    path: String,
    cookie: String,
    close: bool,
    body: Vec<u8>,
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split_whitespace().map(str::to_string);
    let (method, path) = (words.next()?, words.next()?);
    let (mut length, mut close, mut cookie) = (0, false, String::new());
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).ok()?;
        let Some((name, value)) = field.trim().split_once(": ") else { break };
        match name {
            "Content-Length" => length = value.parse().unwrap(),
            "Connection" => close = value == "close",
            "Cookie" => cookie = value.into(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, cookie, close, body })
}

/// Answers until the connection ends. `asked` is called for each request.
fn serve(mut stream: TcpStream, asked: &mut dyn FnMut()) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut served = 0;
    while let Some(request) = read_request(&mut reader) {
        asked();
        served += 1;
        let plain = |status: &str, body: &[u8]| {
            let mut answer =
                format!("HTTP/1.1 {status}\r\nServer: tiny/1\r\nContent-Length: {}\r\n\r\n", body.len())
                    .into_bytes();
            answer.extend_from_slice(body);
            answer
        };
        let mut close = request.close;
        let answer = match request.path.as_str() {
            _ if request.method == "HEAD" => b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec(),
            "/" => plain("200 OK", b"hello"),
            "/echo" => plain("200 OK", &request.body),
            "/none" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "/busy" => plain("503 Busy", b""),
            "/chunked" => {
                for piece in
                    ["HTTP/1.1 200 OK\r\nTransfer-Enc", "oding: chunked\r\n\r\n5\r", "\nhel", "lo\r\n0\r\n"]
                {
                    stream.write_all(piece.as_bytes()).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
                b"\r\n".to_vec()
            }
            "/until-close" => {
                close = true;
                b"HTTP/1.1 200 OK\r\n\r\nbody".to_vec()
            }
            "/large" => plain("200 OK", &vec![b'x'; 3 << 20]),
            "/early" => {
                close = true;
                b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec()
            }
            "/garbage" => b"what did you say?\r\n".to_vec(),
            "/slow" => {
                std::thread::sleep(Duration::from_secs(30));
                return;
            }
            "/stuck" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1").unwrap();
                std::thread::sleep(Duration::from_secs(30));
                return;
            }
            "/endless" => {
                let piece = vec![b'x'; 1 << 20];
                let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                for number in 0.. {
                    if sent.is_err() {
                        break;
                    }
                    // As fast as it is read, but a fast machine reads the largest response within the timeout.
                    if number >= 3 << 10 {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    sent = stream.write_all(&piece);
                }
                return;
            }
            "/hang-up" => return,
            // A shop: the form sets a cookie and has a token; the login needs both, and leads to a page.
            "/form" => {
                let number = NUMBERS.fetch_add(1, Ordering::SeqCst);
                format!(
                    "HTTP/1.1 200 OK\r\nSet-Cookie: sid={number}\r\nTransfer-Encoding: chunked\r\n\r\n\
                     9\r\n<f token=\r\n{:x}\r\n't-{number}'/>\r\n0\r\n\r\n",
                    format!("'t-{number}'/>").len()
                )
                .into_bytes()
            }
            "/login" => {
                let sid = request.cookie.strip_prefix("sid=").unwrap_or("none").to_string();
                let body = String::from_utf8_lossy(&request.body).into_owned();
                match body
                    .strip_suffix(&format!("&token=t-{sid}"))
                    .and_then(|rest| rest.strip_prefix("user="))
                {
                    Some(user) => format!(
                        "HTTP/1.1 303 See Other\r\nLocation: welcome?{user}\r\nContent-Length: 0\r\n\r\n"
                    )
                    .into_bytes(),
                    None => plain("403 Forbidden", body.as_bytes()),
                }
            }
            welcome if welcome.starts_with("/welcome?") => {
                assert!(
                    request.method == "GET" && request.body.is_empty() && request.cookie.starts_with("sid=")
                );
                plain("200 OK", format!("Hello {}", &welcome[9..]).as_bytes())
            }
            // Says that it stays, and does not.
            "/one-each" => {
                close = true;
                plain("200 OK", b"hello")
            }
            // The second request of a connection is read, and the connection closed without an answer.
            "/second-unanswered" if served == 2 => return,
            "/second-unanswered" => plain("200 OK", b"hello"),
            "/reset" => {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                return;
            }
            other => panic!("what is {other}?"),
        };
        if stream.write_all(&answer).is_err() || close {
            return;
        }
    }
}

pub(super) fn configured(url: &str, pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    let mut all = vec![("url", url)];
    all.extend_from_slice(pairs);
    HTTP.configure(&settings_of(SETTINGS, &all)).unwrap()
}

/// A workload, ready, after so many operations.
pub(super) fn driven(
    url: &str,
    pairs: &[(&str, &str)],
    in_flight: u32,
    operations: usize,
) -> (Box<dyn Workload>, Vec<Done>) {
    let mut workload = configured(url, pairs);
    workload.prepare(1, &mut |_| true).unwrap();
    let done = drive(&*workload, in_flight, operations).unwrap();
    assert!(done.len() >= operations);
    (workload, done)
}

pub(super) fn fact(workload: &dyn Workload, name: &str) -> u64 {
    match workload.facts().get(name) {
        Some(Level::Count(count)) => *count,
        other => panic!("{name}: {other:?}"),
    }
}

/// The words of the failures, each once; nothing for those that went well.
pub(super) fn words(workload: &dyn Workload, done: &[Done]) -> Vec<String> {
    let mut words: Vec<String> = done
        .iter()
        .filter_map(|done| match done.outcome {
            Outcome::Well => None,
            Outcome::Failed(code) => Some(workload.describe_failure(code)),
        })
        .collect();
    words.sort();
    words.dedup();
    words
}

#[test]
fn one_connection_carries_one_request_after_another() {
    let server = Server::start();
    let (workload, done) = driven(&server.url("/"), &[], 4, 200);
    assert_eq!(words(&*workload, &done), [""; 0]);
    // 54 bytes of head, 5 of body.
    assert!(done.iter().all(|done| done.bytes == 59 && done.kind == 0), "{:?}", done[0]);
    assert_eq!((server.connections(), fact(&*workload, "connections.opened")), (4, 4));
    let facts = workload.facts();
    assert_eq!(facts["server"], Level::Text("tiny/1".into()));
    assert_eq!(facts["address"], Level::Text(server.address.to_string()));
}

#[test]
fn without_keep_alive_each_operation_has_a_connection() {
    let server = Server::start();
    let (workload, done) = driven(&server.url("/"), &[("keep_alive", "false")], 3, 30);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert_eq!(server.connections(), done.len());
}

#[test]
fn every_framing_is_read_and_the_connection_used_again_where_it_may() {
    let server = Server::start();
    for (path, method, bytes, once) in [
        ("/chunked", "GET", 62, true),
        ("/until-close", "GET", 23, false),
        ("/none", "GET", 27, true),
        ("/", "HEAD", 38, true),
        ("/", "DELETE", 59, true),
        ("/large", "GET", 60 + (3 << 20), true),
    ] {
        let before = server.connections();
        let (workload, done) = driven(&server.url(path), &[("method", method)], 1, 5);
        assert_eq!(words(&*workload, &done), [""; 0], "{path}");
        assert_eq!(workload.operations()[0], method.to_lowercase());
        let all: Vec<u32> = done.iter().map(|done| done.bytes).collect();
        assert!(all.iter().all(|found| *found == bytes), "{path}: {all:?}");
        let opened = server.connections() - before;
        assert_eq!(opened, if once { 1 } else { done.len() }, "{path}");
    }
}

#[test]
fn a_body_arrives_whole_however_large() {
    let server = Server::start();
    // More than the buffers of both sockets hold.
    let body = "plimsoll ".repeat(1 << 20);
    let (workload, done) = driven(&server.url("/echo"), &[("method", "POST"), ("body", &body)], 2, 4);
    assert_eq!(words(&*workload, &done), [""; 0]);
    // A setting's text is trimmed.
    let sent = body.trim().len() as u32;
    assert!(done.iter().all(|done| (sent + 50..sent + 70).contains(&done.bytes)), "{:?}", done[0]);
    assert_eq!(server.connections(), 2);
}

#[test]
fn every_failure_has_its_own_words() {
    let server = Server::start();
    let timeout = ("timeout", "50ms");
    // The first byte must come before it on a busy machine too.
    let patient = ("timeout", "2s");
    for (path, settings, expected) in [
        ("/busy", &[][..], "http 503"),
        ("/", &[("expect_status", "404")][..], "http 200"),
        ("/early", &[], "closed early, in the middle of a response"),
        ("/garbage", &[], "malformed: no HTTP status line and header fields"),
        ("/hang-up", &[], "closed early, before any response"),
        ("/reset", &[], "connection reset by peer"),
        ("/slow", &[timeout], "timeout, before the first byte of the response"),
        ("/stuck", &[patient], "timeout, in the middle of the response"),
        ("/endless", &[patient], "timeout, in the middle of the response"),
    ] {
        let (workload, done) = driven(&server.url(path), settings, 3, 6);
        assert_eq!(words(&*workload, &done), [expected], "{path}");
        assert!(done.iter().all(|done| done.outcome != Outcome::Well));
        assert_eq!(fact(&*workload, "requests.retried"), 0, "{path}");
    }
}

#[test]
fn abandoned_requests_are_reset_so_that_a_server_can_drop_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // In the order in which they were accepted: those that timed out, and those that the end of the load leaves.
    for timeout in ["20ms", "10s"] {
        let mut workload = configured(&url, &[("timeout", timeout)]);
        workload.prepare(1, &mut |_| true).unwrap();
        let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 1 };
        let mut worker = workload.worker(&share).unwrap();
        assert_eq!(worker.submit(Operation::new(0, 0)), Admission::Accepted);
        let mut done: Vec<Completion> = Vec::new();
        while timeout == "20ms" && done.is_empty() {
            worker.reap(u64::MAX, &mut done).unwrap();
        }
        drop(worker);
        let ends = listener.incoming().map(|stream| {
            // A connection that only looked whether somebody is there sends nothing.
            let (mut stream, mut bytes) = (stream.unwrap(), [0; 512]);
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error.kind()),
                }
            }
        });
        assert_eq!(ends.flatten().next(), Some(std::io::ErrorKind::ConnectionReset), "{timeout}");
    }
}

#[test]
fn a_server_that_is_gone_is_a_failure_of_each_operation() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut workload = configured(&format!("http://{address}/"), &[]);
    assert!(workload.reach(&mut Vec::new()).is_empty());
    workload.prepare(1, &mut |_| true).unwrap();
    drop(listener);
    let done = drive(&*workload, 2, 4).unwrap();
    assert_eq!(words(&*workload, &done), ["connect: connection refused"]);
    let problems = workload.reach(&mut Vec::new());
    let nothing = format!("nothing accepts a connection at {address} ({address}: connection refused)");
    assert_eq!(problems.0[0].what, nothing);
    assert_eq!(workload.prepare(1, &mut |_| true).unwrap_err().what, nothing);
}

#[test]
fn an_address_that_refuses_is_followed_by_one_that_does_not() {
    let server = Server::start();
    let plan =
        super::HttpPlan::read(&settings_of(SETTINGS, &[("url", &server.url("/"))]), &Inputs::host()).unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = vec![gone, server.address];
    let addresses = Addresses::in_order(addresses);
    let all = vec![super::target::Server { addresses, tls: None }];
    let servers = super::target::Servers { all, is_http2: false };
    let workload = super::Http { plan, servers, seen: super::Observations::default() };
    let done = drive(&workload, 2, 10).unwrap();
    assert_eq!(words(&workload, &done), [""; 0]);
    assert_eq!(server.connections(), 2);
}

#[test]
fn connections_are_opened_to_all_addresses_of_a_name_in_turn() {
    let servers = [Server::start(), Server::start()];
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let load = |used: Vec<SocketAddr>, pairs: &[(&str, &str)]| {
        let mut all = vec![("url", "http://multi.test/")];
        all.extend_from_slice(pairs);
        let plan = super::HttpPlan::read(&settings_of(SETTINGS, &all), &Inputs::host()).unwrap();
        let addresses = Addresses { used, are_spread: true, ..Addresses::default() };
        let all = vec![super::target::Server { addresses, tls: None }];
        let servers = super::target::Servers { all, is_http2: false };
        super::Http { plan, servers, seen: super::Observations::default() }
    };
    let used: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let of = |workload: &super::Http, address: &SocketAddr| {
        ["connections", "requests", "failed"].map(|name| fact(workload, &format!("address.{name}.{address}")))
    };
    let workload = load(used.clone(), &[]);
    let done = drive(&workload, 4, 40).unwrap();
    assert_eq!(words(&workload, &done), [""; 0]);
    let counts: Vec<[u64; 3]> = used.iter().map(|address| of(&workload, address)).collect();
    assert!(
        counts
            .iter()
            .all(|[connections, requests, failed]| { (*connections, *failed) == (2, 0) && *requests > 0 }),
        "{counts:?}"
    );
    assert_eq!(counts.iter().map(|[_, requests, _]| *requests as usize).sum::<usize>(), done.len());
    assert!(servers.iter().all(|server| server.connections() == 2));
    // A connection for each request.
    let workload = load(used.clone(), &[("keep_alive", "false")]);
    let done = drive(&workload, 1, 10).unwrap();
    assert_eq!(words(&workload, &done), [""; 0]);
    assert!(used.iter().all(|address| of(&workload, address) == [5, 5, 0]));
    // Another address does not stand in for one that is gone: its operations have failed.
    let workload = load(vec![used[0], gone], &[("keep_alive", "false")]);
    let done = drive(&workload, 1, 10).unwrap();
    assert_eq!(words(&workload, &done), ["connect: connection refused"]);
    assert_eq!((of(&workload, &used[0]), of(&workload, &gone)), ([5, 5, 0], [5, 5, 5]));
}

/// One operation at a time, with something else between them.
pub(super) fn one_by_one(workload: &dyn Workload, operations: usize, mut between: impl FnMut()) -> Vec<Done> {
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 1 };
    let mut worker = workload.worker(&share).unwrap();
    let mut all = Vec::new();
    for number in 0..operations as u64 {
        match worker.submit(Operation::new(0, number)) {
            Admission::Completed(done) => all.push(done),
            Admission::Accepted => {
                let mut done: Vec<Completion> = Vec::new();
                while done.is_empty() {
                    worker.reap(u64::MAX, &mut done).unwrap();
                }
                all.push(done[0].done);
            }
            other => panic!("{other:?}"),
        }
        between();
    }
    all
}

#[test]
fn a_connection_that_broke_while_idle_is_opened_again_and_the_request_sent_once_more() {
    let server = Server::start();
    for (path, method, failures) in [
        // The end of the connection comes before the next request, or is found out by it.
        ("/one-each", "GET", &[][..]),
        // It cannot be reported from a connection closed while idle, and asking again does no harm.
        ("/second-unanswered", "GET", &[]),
        // This one may have been carried out.
        ("/second-unanswered", "POST", &["closed early, before any response"]),
    ] {
        let mut workload = configured(&server.url(path), &[("method", method)]);
        workload.prepare(1, &mut |_| true).unwrap();
        let before = server.connections();
        let done = one_by_one(&*workload, 6, || std::thread::sleep(Duration::from_millis(5)));
        assert_eq!(words(&*workload, &done), failures, "{path} {method}");
        match (path, method) {
            ("/one-each", _) => assert_eq!(server.connections() - before, 6),
            // Each connection answers once: 1, 2 2, 3 3, ... requests.
            (_, "GET") => assert_eq!(fact(&*workload, "requests.retried"), 5),
            _ => assert_eq!(fact(&*workload, "requests.retried"), 0),
        }
    }
}

#[test]
fn an_idle_connection_is_looked_at_before_a_request_that_may_go_only_once() {
    let server = Server::start();
    let mut workload = configured(&server.url("/one-each"), &[("method", "POST")]);
    workload.prepare(1, &mut |_| true).unwrap();
    let done = one_by_one(&*workload, 2, || std::thread::sleep(Duration::from_millis(1100)));
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert_eq!(fact(&*workload, "requests.retried"), 0);
}

#[test]
fn connections_are_limited_and_shared_between_threads() {
    let server = Server::start();
    let mut workload = configured(&server.url("/slow"), &[("connections", "3"), ("threads", "2")]);
    workload.prepare(1, &mut |_| true).unwrap();
    for (index, room) in [(0, 2), (1, 1)] {
        let share = Share { lane: 0, index, of: 2, in_flight_max: 8, is_open: false, seed: 1 };
        let mut worker = workload.worker(&share).unwrap();
        for ticket in 0..room {
            assert_eq!(worker.submit(Operation::new(ticket, 0)), Admission::Accepted);
        }
        assert_eq!(worker.submit(Operation::new(7, 0)), Admission::Busy);
        let mut done = Vec::new();
        worker.reap(MILLISECOND, &mut done).unwrap();
        assert!(done.is_empty(), "it came back at its time, with nothing");
    }
    let shape = |text: &[(&str, Level)]| {
        let mut load = model::Settings::defaults(model::load::LOAD_SETTINGS);
        text.iter().for_each(|(name, level)| load.set(name, level.clone()));
        model::Load::read(&load).unwrap().shape.unwrap()
    };
    assert_eq!(workload.workers(&shape(&[("closed", Level::Count(1))])), 1);
    assert_eq!(workload.workers(&shape(&[("closed", Level::Count(9))])), 2);
    let wide = configured(&server.url("/"), &[("connections", "1000")]);
    assert_eq!(wide.workers(&shape(&[("open", Level::Rate(10.0))])), 4);
}

#[test]
fn nginx_is_understood() {
    let folder = testkit::Scratch::new();
    folder.file("page", "x".repeat(100_000));
    let http = "keepalive_requests 10; gzip on; gzip_types *; gzip_proxied any;";
    let Some(nginx) = Nginx::start(folder, "", http, "") else { return };
    let url = format!("http://127.0.0.1:{}/page", nginx.port);
    let (workload, done) = driven(&url, &[], 3, 60);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert!(done.iter().all(|done| done.bytes > 100_000));
    // Ten requests a connection, then it says that it closes.
    assert!(fact(&*workload, "connections.opened") >= done.len() as u64 / 10);
    let Some(Level::Text(server)) = workload.facts().remove("server") else { panic!("no server") };
    assert!(server.starts_with("nginx"), "{server}");
    // Compressed on the fly, so in chunks.
    let (workload, done) = driven(&url, &[("header", "Accept-Encoding: gzip")], 3, 60);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert!(done.iter().all(|done| done.bytes < 10_000), "{:?}", done[0]);
    let (workload, done) = driven(&format!("{url}/none"), &[("method", "POST")], 1, 5);
    assert!(words(&*workload, &done)[0].starts_with("http 4"));
}

/// nginx over TLS, with its authority, and one that signs the certificates of its clients.
#[test]
fn what_a_server_says_of_its_time_is_a_part() {
    let server = "add_header Server-Timing 'queue;dur=1.5, db;desc=\"a, b\";dur=0.25'; location = /small { return 200 small; }";
    for (listen, version) in [("", "1.1"), ("http2", "2")] {
        let Some(nginx) = Nginx::start(testkit::Scratch::new(), listen, "", server) else { return };
        let url = format!("http://127.0.0.1:{}/small", nginx.port);
        let names = ("server_timing", "db,queue,cache");
        let mut workload = configured(&url, &[("http_version", version), names]);
        workload.prepare(1, &mut |_| true).unwrap();
        let operations = workload.operations();
        assert_eq!(operations[5..], ["get:server:db", "get:server:queue", "get:server:cache"]);
        assert_eq!(parts(&*workload, 10)[5..], [10, 10, 0], "HTTP/{version}");
    }
}

pub(super) fn nginx_over_tls(listen: &str, server: &str) -> Option<(Nginx, Authority, Authority)> {
    let folder = testkit::Scratch::new();
    folder.file("page", "x".repeat(100_000));
    let (authority, clients) = (Authority::new(&folder, "authority"), Authority::new(&folder, "clients"));
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let http = format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; ssl_session_cache shared:a:1m;",
        certificate.display(),
        key.display(),
        clients.file.display()
    );
    Some((Nginx::start(folder, listen, &http, server)?, authority, clients))
}

#[test]
fn nginx_is_understood_over_tls() {
    let Some((nginx, authority, _)) = nginx_over_tls("ssl", "location = /small { return 200 small; }") else {
        return;
    };
    let ca = authority.file.display().to_string();
    for version in ["large", "small"] {
        let path = if version == "large" { "page" } else { "small" };
        let url = format!("https://127.0.0.1:{}/{path}", nginx.port);
        let (workload, done) = driven(&url, &[("ca", &ca)], 3, 60);
        assert_eq!(words(&*workload, &done), [""; 0]);
        assert_eq!((fact(&*workload, "connections.opened"), fact(&*workload, "tls.handshakes")), (3, 3));
        // A new connection each time resumes the session.
        let each = [("ca", ca.as_str()), ("keep_alive", "false")];
        let (workload, done) = driven(&url, &each, 1, 20);
        assert_eq!(words(&*workload, &done), [""; 0]);
        assert_eq!(fact(&*workload, "tls.handshakes"), done.len() as u64);
        // The first one began in the handshake before the load.
        assert_eq!(fact(&*workload, "tls.handshakes_resumed"), done.len() as u64);
        let never = [each[0], each[1], ("tls_resumption", "false")];
        let (workload, done) = driven(&url, &never, 1, 20);
        assert_eq!(words(&*workload, &done), [""; 0]);
        assert_eq!(fact(&*workload, "tls.handshakes_resumed"), 0);
    }
    // A body of more than the buffers of TLS hold.
    let body = "plimsoll ".repeat(100_000);
    let url = format!("https://127.0.0.1:{}/small", nginx.port);
    let (workload, done) = driven(&url, &[("ca", &ca), ("method", "POST"), ("body", &body)], 2, 4);
    assert_eq!(words(&*workload, &done), [""; 0]);
}

#[test]
fn a_server_that_is_not_trusted_is_reported_before_the_load() {
    let Some((nginx, authority, clients)) = nginx_over_tls("ssl", "") else { return };
    let stranger = clients.file.display().to_string();
    let url = format!("https://127.0.0.1:{}/page", nginx.port);
    let prepared = |url: &str, ca: &str| {
        let mut workload = configured(url, &[("ca", ca)]);
        assert_eq!(workload.reach(&mut Vec::new()).is_empty(), workload.prepare(1, &mut |_| true).is_ok());
        workload.prepare(1, &mut |_| true).map_err(|error| error.what)
    };
    let not_trusted = prepared(&url, &stranger).unwrap_err();
    assert!(
        not_trusted
            .ends_with("failed: the certificate of the server is signed by no authority that is trusted"),
        "{not_trusted}"
    );
    let ca = authority.file.display().to_string();
    assert_eq!(prepared(&url, &ca), Ok(()));
    let other_name = url.replace("127.0.0.1", "localhost");
    assert!(prepared(&other_name, &ca).unwrap_err().contains(", and not for "));
    // A port without TLS.
    let server = Server::start();
    let clear = prepared(&format!("https://{}/", server.address), &ca).unwrap_err();
    assert!(clear.contains("failed: "), "{clear}");
    let missing = prepared(&url, "/nowhere/ca.pem").unwrap_err();
    assert!(missing.starts_with("certificates cannot be read from /nowhere/ca.pem"), "{missing}");
}

#[test]
fn a_certificate_that_is_itself_trusted_is_accepted_and_any_other_only_without_verification() {
    for is_authority in [true, false] {
        let folder = testkit::Scratch::new();
        let own = SelfSigned { is_authority, ..SelfSigned::LOOPBACK };
        let ((certificate, key), (other, _)) = (own.make(&folder, "own"), own.make(&folder, "other"));
        let http =
            format!("ssl_certificate {}; ssl_certificate_key {};", certificate.display(), key.display());
        let Some(nginx) = Nginx::start(folder, "ssl", &http, "location = /small { return 200 small; }")
        else {
            return;
        };
        let url = format!("https://127.0.0.1:{}/small", nginx.port);
        let (ca, other) = (certificate.display().to_string(), other.display().to_string());
        let (workload, done) = driven(&url, &[("ca", &ca)], 2, 10);
        assert_eq!(words(&*workload, &done), [""; 0]);
        assert!(!workload.facts().contains_key("tls.insecure"));
        for refused in [&[("ca", other.as_str())][..], &[]] {
            let error = configured(&url, refused).prepare(1, &mut |_| true).unwrap_err();
            assert!(error.what.contains("certificate"), "{}", error.what);
            assert!(error.help.contains("set `insecure`"), "{}", error.help);
        }
        let (workload, done) = driven(&url, &[("insecure", "true")], 2, 10);
        assert_eq!(words(&*workload, &done), [""; 0]);
        assert_eq!(workload.facts()["tls.insecure"], Level::Flag(true));
    }
    let problems = |url: &str, pairs: &[(&str, &str)]| {
        let mut all = vec![("url", url), ("insecure", "true")];
        all.extend_from_slice(pairs);
        HTTP.configure(&settings_of(SETTINGS, &all)).err().unwrap().0.remove(0).what
    };
    assert_eq!(problems("http://a/", &[]), "a:80 is reached without TLS");
    assert!(problems("https://a/", &[("ca", "/x.pem")]).starts_with("`insecure` accepts every certificate"));
}

#[test]
fn a_client_certificate_is_presented() {
    let Some((nginx, authority, clients)) = nginx_over_tls("ssl", "ssl_verify_client on;") else { return };
    let (certificate, key) = clients.sign(&nginx.folder, "client", &["client"], Bearer::Client);
    let url = format!("https://127.0.0.1:{}/page", nginx.port);
    let texts = [&authority.file, &certificate, &key].map(|path| path.display().to_string());
    let [ca, certificate, key] = &texts;
    let settings = [("ca", ca.as_str()), ("client_certificate", certificate), ("client_key", key)];
    let (workload, done) = driven(&url, &settings, 2, 10);
    assert_eq!(words(&*workload, &done), [""; 0]);
    let (workload, done) = driven(&url, &settings[..1], 2, 10);
    assert_eq!(words(&*workload, &done), ["http 400"]);
}

/// The number of parts of each kind, in the order of the operations.
pub(super) fn parts(workload: &dyn Workload, operations: usize) -> Vec<usize> {
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 1 };
    let mut worker = workload.worker(&share).unwrap();
    let mut counts = vec![0; workload.operations().len()];
    for number in 0..operations as u64 {
        let mut done: Vec<Completion> = Vec::new();
        let admission = worker.submit(Operation::new(0, number));
        while admission == Admission::Accepted && done.is_empty() {
            worker.reap(u64::MAX, &mut done).unwrap();
        }
        for part in worker.parts().unwrap().drain(..) {
            assert!(part.begin <= part.end);
            counts[usize::from(part.kind)] += 1;
        }
    }
    counts
}

#[test]
fn the_parts_of_a_request_are_kept_apart() {
    let server = Server::start();
    let mut workload = configured(&server.url("/"), &[]);
    workload.prepare(1, &mut |_| true).unwrap();
    let names = ["get", "get:connect", "get:tls", "get:first_byte", "get:download"];
    assert_eq!(workload.operations(), names);
    for method in ["GET", "POST", "PUT", "HEAD", "DELETE"] {
        let workload = configured(&server.url("/"), &[("method", method)]);
        assert!(workload.operations().iter().all(|name| HTTP.info().operations.contains(&name.as_str())));
    }
    let mut traits = model::run::WorkloadTraits::default();
    workload.describe_operations(&mut traits);
    assert_eq!(traits.derived.iter().map(|name| name.as_ref()).collect::<Vec<_>>(), names[1..]);
    assert_eq!(parts(&*workload, 10), [0, 1, 0, 10, 0]);
    let mut chunked = configured(&server.url("/chunked"), &[("keep_alive", "false")]);
    chunked.prepare(1, &mut |_| true).unwrap();
    assert_eq!(parts(&*chunked, 5), [0, 5, 0, 5, 5]);
    let Some((nginx, authority, _)) = nginx_over_tls("ssl", "location = /small { return 200 small; }") else {
        return;
    };
    let ca = authority.file.display().to_string();
    let url = format!("https://127.0.0.1:{}/small", nginx.port);
    let mut over_tls = configured(&url, &[("ca", &ca), ("keep_alive", "false")]);
    over_tls.prepare(1, &mut |_| true).unwrap();
    assert_eq!(parts(&*over_tls, 5)[..4], [0, 5, 5, 5]);
}

/// Drives a scenario with users who do not think until its data has ended. Returns for each operation its name, its
/// completions and its failures, and the words of the failures.
pub(super) fn carried_out(
    scenario: &str,
    pairs: &[(&str, &str)],
    users: u64,
) -> (Vec<(String, u64, u64)>, Vec<String>) {
    let folder = testkit::Scratch::new();
    folder.file("users.csv", "name\nann\nbob\neve\ncid\ndan\nfay\ngus\nhal\nida\njon\n");
    let file = folder.file("shop.toml", scenario);
    let file = file.display().to_string();
    let mut all = vec![("from", file.as_str())];
    all.extend_from_slice(pairs);
    let mut workload = HTTP.configure(&settings_of(SETTINGS, &all)).unwrap();
    workload.prepare(1, &mut |_| true).unwrap();
    let clock = engine::clock::Clock::get();
    let shape = model::Shape::closed(users);
    let time = engine::arrivals::MeasuredTime::new(u64::MAX);
    let mut arrivals = engine::arrivals::Arrivals::new(&shape, 0, 1, 1, 0, &time);
    let names = workload.operations();
    let book = std::sync::Mutex::new(engine::drive::Book::new(names.len()));
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: users as u32, is_open: false, seed: 1 };
    let mut worker = workload.worker(&share).unwrap();
    let mut pace = engine::pace::Pace::new(&clock, false);
    let numbers = engine::drive::Numbers { first: 0, step: 1 };
    engine::drive::drive(
        &mut *worker,
        &mut arrivals,
        &mut pace,
        &engine::drive::Stop::default(),
        &book,
        numbers,
        users as u32,
    )
    .unwrap();
    drop(worker);
    let book = book.into_inner().unwrap();
    let counts = names.into_iter().zip(&book.kinds).map(|(name, kind)| (name, kind.completed, kind.failed));
    let mut words: Vec<String> = book
        .failures
        .iter()
        .map(|(_, code, count)| format!("{count} x {}", workload.describe_failure(*code)))
        .collect();
    words.sort();
    (counts.collect(), words)
}

#[test]
fn the_users_of_a_scenario_keep_their_cookies_and_tokens_apart() {
    let server = Server::start();
    let scenario = format!(
        r#"
base = "http://{}"
[data.users]
file = "users.csv"
at_end = "stop"
[[transaction]]
name = "shop"
[[transaction.request]]
name = "form"
url = "/form"
extract.token = {{ regex = "token='([^']*)'" }}
[[transaction.request]]
name = "login"
method = "POST"
url = "/login"
body = "user=${{users.name}}&token=${{token}}"
follow_redirects = 3
check = [{{ contains = "Hello ${{users.name}}" }}]
"#,
        server.address
    );
    for users in [1, 4] {
        let (counts, words) = carried_out(&scenario, &[], users);
        assert_eq!(words, [""; 0]);
        let count = |name: &str| {
            counts.iter().find(|(known, ..)| known == name).map(|(_, done, failed)| (*done, *failed))
        };
        for name in ["shop:form", "shop:login", "shop"] {
            assert_eq!(count(name), Some((10, 0)), "{name}");
        }
        assert_eq!(count("connect"), Some((users, 0)));
        // Each redirect is a response too.
        assert_eq!(count("first_byte"), Some((30, 0)));
    }
}

#[test]
fn a_failed_check_has_its_words_and_ends_the_transaction_as_failed() {
    let server = Server::start();
    let scenario = format!(
        r#"
base = "http://{}"
[data.users]
file = "users.csv"
at_end = "stop"
[[transaction]]
name = "shop"
[[transaction.request]]
name = "form"
url = "/form"
check = [{{ contains = "no such text" }}]
[[transaction.request]]
name = "login"
url = "/?${{users.name}}"
"#,
        server.address
    );
    let (counts, words) = carried_out(&scenario, &[], 2);
    assert_eq!(words.len(), 1, "{words:?}");
    assert!(words[0].starts_with("10 x ") && words[0].contains("no such text"), "{words:?}");
    assert_eq!(
        counts[..3],
        [("shop:form".into(), 10, 10), ("shop:login".into(), 0, 0), ("shop".into(), 10, 10)]
    );
}

#[test]
fn mistakes_of_a_scenario_are_reported_with_its_lines() {
    let folder = testkit::Scratch::new();
    let file = folder.file("s.toml", "base = \"http://a\"\n[[transaction]]\nname = \"t\"\nwieght = 3\n");
    let name = file.display().to_string();
    let of = |pairs: &[(&str, &str)]| HTTP.configure(&settings_of(SETTINGS, pairs)).err().unwrap();
    let problems = of(&[("from", &name)]);
    let lines: Vec<bool> =
        problems.0.iter().map(|problem| problem.what.starts_with(&format!("{name}:"))).collect();
    assert_eq!(lines, [true, true], "{problems}");
    assert!(problems.0[1].what.contains(":4: unknown key `wieght`"), "{problems}");
    let problems = of(&[("from", "/nowhere/s.toml")]);
    assert!(problems.0[0].what.starts_with("the scenario /nowhere/s.toml cannot be read"), "{problems}");
    let request = |number| format!("[[transaction.request]]\nname = \"r{number}\"\nurl = \"http://a/\"\n");
    let many: String = (0..252).map(request).collect();
    let many = folder.file("m.toml", format!("[[transaction]]\nname = \"t\"\n{many}")).display().to_string();
    let problems = of(&[("from", &many)]);
    // With the transaction, and with four parts, it is one more than a trial records.
    assert!(
        problems.0[0].what.starts_with(&format!("the scenario {many} has 253 operations"))
            && problems.0[0].what.ends_with("a trial records 252, and `t` is the first above that"),
        "{problems}"
    );
    let whole = folder
        .file("w.toml", "[[transaction]]\nname = \"t\"\n[[transaction.request]]\nurl = \"http://a/\"\n");
    let problems = of(&[("from", &whole.display().to_string()), ("url", "http://b/"), ("body", "x")]);
    let whats: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(whats, ["`url` is given beside a scenario", "`body` is given beside a scenario"]);
}
