//! HTTP/2 against nginx, and against a server that is wrong in every way. It writes frames by hand.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::workload::{Outcome, WorkloadKind as _};
use model::Level;
use testkit::Nginx;

use crate::http::HTTP;
use crate::http::tests::{carried_out, configured, driven, fact, nginx_over_tls, one_by_one, parts, words};
use crate::testing::settings_of;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
/// `:status: 200`, from the static table.
const OK: &[u8] = &[0x88];
/// END_STREAM; of SETTINGS and PING: ACK.
const END: u8 = 1;
const END_HEADERS: u8 = 4;

/// A server of a thread per connection, with one behaviour.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// A connection at the server.
struct Peer {
    stream: TcpStream,
    /// Requests so far.
    requests: usize,
}

/// What the server does with a request on this stream. False: it closes the connection.
type Behaviour = fn(&mut Peer, u32) -> bool;

/// A name, what the server does, a setting, and the words of the failure.
type Case = (&'static str, Behaviour, Option<(&'static str, &'static str)>, &'static str);

impl Peer {
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).is_ok()
    }

    fn answer(&mut self, stream: u32) -> bool {
        self.frame(HEADERS, END_HEADERS, stream, OK) && self.frame(DATA, END, stream, b"hello")
    }

    fn reset(&mut self, stream: u32, reason: u32) -> bool {
        self.frame(RST_STREAM, 0, stream, &reason.to_be_bytes())
    }

    fn go_away(&mut self, last: u32, reason: u32) -> bool {
        let payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
        self.frame(GOAWAY, 0, 0, &payload)
    }

    /// The next frame: its kind, its flags, its stream.
    fn read(&mut self) -> Option<(u8, u8, u32)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        self.stream.read_exact(&mut vec![0; length as usize]).ok()?;
        Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
    }

    fn serve(&mut self, settings: &[u8], behaviour: Behaviour) -> Option<()> {
        self.stream.set_nodelay(true).unwrap();
        self.stream.read_exact(&mut [0; 24]).ok()?;
        self.frame(SETTINGS, 0, 0, settings);
        loop {
            let (kind, flags, stream) = self.read()?;
            match kind {
                SETTINGS if flags & END == 0 => _ = self.frame(SETTINGS, END, 0, &[]),
                HEADERS => {
                    self.requests += 1;
                    if !behaviour(self, stream) {
                        // Unread bytes would make a reset of the end.
                        let _ = self.stream.shutdown(Shutdown::Write);
                        while self.read().is_some() {}
                        return None;
                    }
                }
                _ => {}
            }
        }
    }
}

impl Server {
    fn start(settings: &'static [u8], behaviour: Behaviour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || Peer { stream, requests: 0 }.serve(settings, behaviour));
            }
        });
        Server { address, connections }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Connections, apart from the one that looked whether the server answers.
    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst) as u64 - 1
    }
}

const TWO: (&str, &str) = ("http_version", "2");

#[test]
fn a_connection_carries_as_many_requests_as_it_has_streams() {
    // SETTINGS_MAX_CONCURRENT_STREAMS
    for (settings, streams, connections) in [(&[][..], 8, 4), (&[0, 3, 0, 0, 0, 2], 2, 16)] {
        let server = Server::start(settings, Peer::answer);
        let mut workload = configured(&server.url(), &[TWO]);
        workload.prepare(1, &mut |_| true).unwrap();
        let done = crate::testing::drive(&*workload, 32, 400).unwrap();
        assert_eq!(words(&*workload, &done), [""; 0]);
        assert!(done.iter().all(|done| done.bytes == 5 && done.kind == 0), "{:?}", done[0]);
        assert_eq!(fact(&*workload, "http.streams"), streams);
        assert_eq!(workload.facts()["http.version"], Level::Text("2".into()));
        let opened = fact(&*workload, "connections.opened");
        assert_eq!(opened, server.connections());
        assert!(if streams == 8 { opened == connections } else { opened > 4 }, "{opened}");
        assert_eq!(fact(&*workload, "requests.retried"), 0);
    }
}

#[test]
fn a_connection_for_each_request_carries_one() {
    let server = Server::start(&[], Peer::answer);
    let (workload, done) = driven(&server.url(), &[TWO, ("keep_alive", "false")], 3, 30);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert_eq!(fact(&*workload, "connections.opened"), done.len() as u64);
    assert_eq!(parts(&*workload, 5)[..4], [0, 5, 0, 5]);
}

#[test]
fn every_failure_of_a_stream_or_connection_has_its_words() {
    let timeout = ("timeout", "100ms");
    let patient = ("timeout", "1s");
    let cases: [Case; 13] = [
        (
            "reset",
            |peer, stream| peer.reset(stream, 2),
            None,
            "HTTP/2: the server reset the stream: INTERNAL_ERROR",
        ),
        (
            "refused",
            |peer, stream| peer.reset(stream, 7),
            None,
            "HTTP/2: the server reset the stream: REFUSED_STREAM",
        ),
        (
            "reset in the body",
            |peer, stream| {
                peer.frame(HEADERS, END_HEADERS, stream, OK)
                    && peer.frame(DATA, 0, stream, b"h")
                    && peer.reset(stream, 8)
            },
            None,
            "HTTP/2: the server reset the stream: CANCEL",
        ),
        (
            "calm",
            |peer, _| peer.go_away(0, 11),
            None,
            "HTTP/2: the server ended the connection: ENHANCE_YOUR_CALM",
        ),
        ("hang up", |_, _| false, None, "closed early, before any response"),
        (
            "early",
            |peer, stream| {
                // All three that are in flight have begun.
                peer.frame(HEADERS, END_HEADERS, stream, OK) && peer.requests < 3
            },
            None,
            "closed early, in the middle of a response",
        ),
        ("silent", |_, _| true, Some(timeout), "timeout, before the first byte of the response"),
        (
            "stuck",
            |peer, stream| peer.frame(HEADERS, END_HEADERS, stream, OK) && peer.frame(DATA, 0, stream, b"h"),
            Some(patient),
            "timeout, in the middle of the response",
        ),
        (
            "garbage",
            |peer, _| peer.stream.write_all(b"what did you say?\r\n").is_ok(),
            None,
            "HTTP/2: the server broke the protocol: FRAME_SIZE_ERROR",
        ),
        (
            "no status",
            |peer, stream| peer.frame(HEADERS, END_HEADERS | END, stream, &[0x90]),
            None,
            "HTTP/2: malformed response: PROTOCOL_ERROR",
        ),
        (
            "pings",
            |peer, _| {
                while peer.frame(PING, 0, 0, &[0; 8]) {}
                false
            },
            Some(timeout),
            "timeout, before the first byte of the response",
        ),
        (
            "settings",
            |peer, _| {
                while peer.frame(SETTINGS, 0, 0, &[]) {}
                false
            },
            Some(timeout),
            "timeout, before the first byte of the response",
        ),
        (
            "continuations",
            |peer, stream| {
                peer.frame(HEADERS, 0, stream, OK);
                // A field `a: b`, again and again.
                while peer.frame(CONTINUATION, 0, stream, &[0, 1, b'a', 1, b'b'].repeat(1000)) {}
                false
            },
            None,
            "HTTP/2: the server broke the protocol: ENHANCE_YOUR_CALM",
        ),
    ];
    for (name, behaviour, setting, expected) in cases {
        let server = Server::start(&[], behaviour);
        let mut settings = vec![TWO];
        settings.extend(setting);
        let (workload, done) = driven(&server.url(), &settings, 3, 6);
        assert_eq!(words(&*workload, &done), [expected], "{name}");
        assert!(done.iter().all(|done| done.outcome != Outcome::Well), "{name}");
        // A stream that fails leaves its connection to the others.
        if matches!(name, "reset" | "refused" | "reset in the body" | "stuck" | "no status") {
            assert_eq!(fact(&*workload, "connections.opened"), 1, "{name}");
        }
    }
}

#[test]
fn a_response_that_no_request_asked_for_is_a_failure() {
    let malformed = "HTTP/2: malformed response: PROTOCOL_ERROR";
    let cases: [(&str, Behaviour, &str, &str); 6] = [
        (
            "again, after the next request",
            |peer, stream| (stream < 3 || peer.answer(stream - 2)) && peer.answer(stream),
            "GET",
            "unsolicited: the server sent bytes without a request",
        ),
        (
            "more of the last body",
            |peer, stream| (stream < 3 || peer.frame(DATA, END, stream - 2, b"x")) && peer.answer(stream),
            "GET",
            "unsolicited: the server sent bytes without a request",
        ),
        (
            "of a request that was not sent",
            |peer, stream| peer.answer(stream + 2),
            "GET",
            "HTTP/2: the server broke the protocol: PROTOCOL_ERROR",
        ),
        ("a body of HEAD", Peer::answer, "HEAD", malformed),
        (
            // `:status: 204`
            "a body of 204",
            |peer, stream| {
                peer.frame(HEADERS, END_HEADERS, stream, &[0x89]) && peer.frame(DATA, END, stream, b"x")
            },
            "GET",
            "malformed: bytes follow the end of the response",
        ),
        (
            // `content-length: 1`
            "behind the stated length",
            |peer, stream| {
                peer.frame(HEADERS, END_HEADERS, stream, &[0x88, 0x0f, 0x0d, 1, b'1'])
                    && peer.frame(DATA, END, stream, b"xy")
            },
            "GET",
            malformed,
        ),
    ];
    for (name, behaviour, method, expected) in cases {
        let server = Server::start(&[], behaviour);
        let mut workload = configured(&server.url(), &[TWO, ("method", method)]);
        workload.prepare(1, &mut |_| true).unwrap();
        let done = one_by_one(&*workload, 6, || ());
        assert_eq!(words(&*workload, &done), [expected], "{name}");
        let well = done.iter().filter(|done| done.outcome == Outcome::Well).count();
        // The first request of the connection has none before it.
        assert_eq!(well, usize::from(expected.starts_with("unsolicited")), "{name}");
    }
    // Twice, in one packet.
    let server = Server::start(&[], |peer, stream| peer.answer(stream) && peer.answer(stream));
    let (workload, done) = driven(&server.url(), &[TWO], 1, 10);
    let failed = done.iter().any(|done| done.outcome != Outcome::Well);
    assert!(failed || workload.facts().contains_key("responses.unsolicited"));
}

#[test]
fn a_body_without_end_stops_neither_the_load_nor_its_deadlines() {
    let server = Server::start(&[], |peer, stream| {
        peer.frame(HEADERS, END_HEADERS, stream, OK);
        while peer.frame(DATA, 0, stream, &[b'x'; 16_000]) {}
        false
    });
    let (workload, done) = driven(&server.url(), &[TWO, ("timeout", "500ms")], 3, 6);
    let possible = [
        "HTTP/2: malformed response: FLOW_CONTROL_ERROR",
        "HTTP/2: the server broke the protocol: FLOW_CONTROL_ERROR",
        // The other two.
        "timeout, before the first byte of the response",
        "timeout, in the middle of the response",
    ];
    let words = words(&*workload, &done);
    assert!(words.iter().all(|word| possible.contains(&word.as_str())), "{words:?}");
    assert!(done.iter().all(|done| done.outcome != Outcome::Well));
}

#[test]
fn requests_that_the_server_did_not_process_are_sent_again() {
    // The first request of each connection is refused.
    let refuses = Server::start(&[], |peer, stream| match peer.requests {
        1 => peer.reset(stream, 7),
        _ => peer.answer(stream),
    });
    let (workload, done) = driven(&refuses.url(), &[TWO, ("method", "POST"), ("body", "x")], 3, 30);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert_eq!((fact(&*workload, "requests.retried"), fact(&*workload, "connections.opened")), (1, 1));
    // Each connection answers two requests, and has not processed the third.
    let ends = Server::start(&[], |peer, stream| match peer.requests {
        1 | 2 => peer.answer(stream),
        3 => peer.go_away(stream - 2, 0),
        _ => true,
    });
    let (workload, done) = driven(&ends.url(), &[TWO, ("method", "POST"), ("body", "x")], 3, 30);
    assert_eq!(words(&*workload, &done), [""; 0]);
    let opened = fact(&*workload, "connections.opened");
    assert!(opened >= 15, "{opened}");
    assert!(fact(&*workload, "requests.retried") >= 14);
    assert!(fact(&*workload, "connections.go_away") >= 14);
}

#[test]
fn a_connection_that_was_closed_while_idle_is_opened_again() {
    // The second request is read, and the connection closed without an answer.
    let server = Server::start(&[], |peer, stream| peer.requests == 1 && peer.answer(stream));
    for (method, expected) in [("GET", &[][..]), ("POST", &["closed early, before any response"])] {
        let mut workload = configured(&server.url(), &[TWO, ("method", method)]);
        workload.prepare(1, &mut |_| true).unwrap();
        let done = one_by_one(&*workload, 6, || ());
        assert_eq!(words(&*workload, &done), expected, "{method}");
        assert_eq!(fact(&*workload, "requests.retried"), if method == "GET" { 5 } else { 0 });
    }
    // Closed after each answer: found out before the next request.
    let server = Server::start(&[], |peer, stream| {
        peer.answer(stream);
        false
    });
    let mut workload = configured(&server.url(), &[TWO, ("method", "POST")]);
    workload.prepare(1, &mut |_| true).unwrap();
    let done = one_by_one(&*workload, 2, || std::thread::sleep(std::time::Duration::from_millis(1100)));
    assert_eq!(words(&*workload, &done), [""; 0]);
}

#[test]
fn nginx_is_understood() {
    let server = "keepalive_requests 50; location = /small { return 200 small; }
        location = /form { add_header Set-Cookie sid=7; return 200 \"token='t-7'\"; }
        location = /login { if ($cookie_sid != 7) { return 403; } return 303 /welcome; }
        location = /welcome { return 200 \"Hello $cookie_sid\"; }
        location = /upload { client_max_body_size 9m; proxy_pass http://127.0.0.1:1; error_page 502 =200 /small; }";
    let Some((nginx, authority, _)) = nginx_over_tls("ssl http2", server) else { return };
    let ca = ("ca", authority.file.display().to_string());
    let ca = (ca.0, ca.1.as_str());
    let url = |path: &str| format!("https://127.0.0.1:{}/{path}", nginx.port);
    let (workload, done) = driven(&url("page"), &[ca], 16, 60);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert!(done.iter().all(|done| (100_000..100_300).contains(&done.bytes)), "{:?}", done[0]);
    let facts = workload.facts();
    assert_eq!(facts["http.version"], Level::Text("2".into()));
    assert!(matches!(&facts["server"], Level::Text(server) if server.starts_with("nginx")));
    let (workload, done) = driven(&url("small"), &[ca], 16, 1000);
    assert_eq!(words(&*workload, &done), [""; 0]);
    // 50 requests a connection, then it is ended.
    assert!(fact(&*workload, "connections.opened") >= 20);
    assert!(fact(&*workload, "connections.go_away") >= 18);
    // A body of more than the windows of nginx hold, which is read before it is answered.
    let body = "plimsoll ".repeat(100_000);
    let (workload, done) = driven(&url("upload"), &[ca, ("method", "POST"), ("body", &body)], 4, 8);
    assert_eq!(words(&*workload, &done), [""; 0]);
    let (workload, done) = driven(&url("none"), &[ca, ("method", "HEAD")], 2, 8);
    assert_eq!(words(&*workload, &done), ["http 404"]);
    // The parts: one handshake for all.
    let mut workload = configured(&url("small"), &[ca]);
    workload.prepare(1, &mut |_| true).unwrap();
    assert_eq!(parts(&*workload, 10)[..4], [0, 1, 1, 10]);
    let scenario = format!(
        r#"
base = "https://127.0.0.1:{}"
[data.users]
file = "users.csv"
at_end = "stop"
[[transaction]]
name = "shop"
[[transaction.request]]
name = "form"
url = "/form?${{users.name}}"
extract.token = {{ regex = "token='([^']*)'" }}
[[transaction.request]]
name = "login"
method = "POST"
url = "/login"
body = "token=${{token}}"
follow_redirects = 3
check = [{{ contains = "Hello 7" }}]
"#,
        nginx.port
    );
    for (version, users) in [("auto", 4), ("1.1", 4)] {
        let (counts, words) = carried_out(&scenario, &[ca, ("http_version", version)], users);
        assert_eq!(words, [""; 0], "{version}");
        let count = |name: &str| {
            counts.iter().find(|(known, ..)| known == name).map(|(_, done, failed)| (*done, *failed))
        };
        assert_eq!(count("shop"), Some((10, 0)), "{version}");
        assert_eq!(count("first_byte"), Some((30, 0)), "{version}");
        assert_eq!(count("tls"), Some((if version == "auto" { 1 } else { 4 }, 0)));
    }
}

#[test]
fn the_version_is_what_the_server_offers() {
    let Some((nginx, authority, _)) = nginx_over_tls("ssl", "location = /small { return 200 small; }") else {
        return;
    };
    let ca = authority.file.display().to_string();
    let url = format!("https://127.0.0.1:{}/small", nginx.port);
    let (workload, done) = driven(&url, &[("ca", &ca)], 2, 10);
    assert_eq!(words(&*workload, &done), [""; 0]);
    assert_eq!(workload.facts()["http.version"], Level::Text("1.1".into()));
    let refused = |url: &str, pairs: &[(&str, &str)]| {
        let mut workload = configured(url, pairs);
        workload.prepare(1, &mut |_| true).unwrap_err().what
    };
    let over_tls = refused(&url, &[("ca", &ca), TWO]);
    assert!(over_tls.ends_with("does not offer HTTP/2 over TLS (ALPN h2)"), "{over_tls}");
    let Some(clear) = Nginx::start(testkit::Scratch::new(), "", "", "") else { return };
    let without = refused(&format!("http://127.0.0.1:{}/", clear.port), &[TWO]);
    assert!(without.ends_with("does not answer in HTTP/2 without TLS"), "{without}");
    let problems = |pairs: &[(&str, &str)]| {
        let problems = HTTP.configure(&settings_of(crate::http::settings::SETTINGS, pairs)).err().unwrap();
        problems.0.iter().map(|problem| problem.what.clone()).collect::<Vec<_>>()
    };
    let url = ("url", "http://a/");
    let streams = ("streams", "4");
    assert_eq!(
        problems(&[url, ("http_version", "1.1"), streams]),
        ["a connection of HTTP/1.1 has no streams"]
    );
    assert_eq!(
        problems(&[url, TWO, ("keep_alive", "false"), streams]),
        ["a connection for one request has one stream"]
    );
    assert_eq!(problems(&[url, ("header", "TE: trailers")]), ["the header TE cannot be set"]);
    assert_eq!(problems(&[url, TWO, ("header", "Host: a b")]), ["the request cannot be sent over HTTP/2"]);
}

#[test]
fn an_operation_that_found_no_room_is_accepted_when_there_is_some() {
    // The first connection takes no more requests, and answers nothing.
    let server = Server::start(&[], |_, _| true);
    let settings = [TWO, ("connections", "1"), ("timeout", "100ms"), ("keep_alive", "false")];
    let (workload, done) = driven(&server.url(), &settings, 2, 6);
    assert_eq!(words(&*workload, &done), ["timeout, before the first byte of the response"]);
    assert!(fact(&*workload, "connections.opened") >= 6);
}
