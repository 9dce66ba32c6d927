//! The proxy between a real client and real servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use plimsoll_recorder::{Exchange, Limits, Options, Origin, Recorder};
use testkit::certificates::{Authority, Bearer};
use testkit::{Nginx, Scratch};

/// A recorder before a target, and what it reports.
fn recorder(target: &str, change: impl FnOnce(&mut Options)) -> (Recorder, Receiver<Exchange>) {
    let mut options = Options {
        listen: "127.0.0.1:0".into(),
        allows_other_hosts: false,
        target: Origin::parse(target).unwrap(),
        authorities: None,
        limits: Limits::default(),
    };
    change(&mut options);
    let (sender, receiver) = channel();
    let recorder = Recorder::start(options, Box::new(move |exchange| drop(sender.send(exchange)))).unwrap();
    (recorder, receiver)
}

fn next(exchanges: &Receiver<Exchange>) -> Exchange {
    exchanges.recv_timeout(Duration::from_secs(20)).unwrap()
}

/// The head of a message, line by line; none at the end of the connection.
fn head(stream: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        match line.trim_end() {
            "" => return Some(lines),
            line => lines.push(line.to_string()),
        }
    }
}

fn has(head: &[String], field: &str) -> bool {
    head.iter().any(|line| line.eq_ignore_ascii_case(field))
}

/// The body of a message, by its length or in chunks.
fn body(stream: &mut impl BufRead, head: &[String]) -> Vec<u8> {
    let mut body = Vec::new();
    if has(head, "Transfer-Encoding: chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).unwrap();
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    let length =
        head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.resize(length.unwrap_or(0), 0);
    stream.read_exact(&mut body).unwrap();
    body
}

/// A server that sends each body back in two chunks; `/close` also closes the connection after the answer.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |stream: TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(head) = head(&mut reader) {
            let body = body(&mut reader, &head);
            let (first, second) = body.split_at(body.len() / 2);
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nX-Host: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
                has(&head, "accept-encoding: gzip")
            )
            .unwrap();
            for chunk in [first, second].into_iter().filter(|chunk| !chunk.is_empty()) {
                write!(stream, "{:x}\r\n", chunk.len()).unwrap();
                stream.write_all(chunk).unwrap();
                stream.write_all(b"\r\n").unwrap();
            }
            stream.write_all(b"0\r\n\r\n").unwrap();
            if head[0].contains("/close") {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    format!("http://{address}")
}

/// A client with one connection to the proxy.
struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    fn of(recorder: &Recorder) -> Client {
        let stream = TcpStream::connect(recorder.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    fn send(&mut self, request: &str, content: &[u8]) -> (Vec<String>, Vec<u8>) {
        let mut stream = self.stream.try_clone().unwrap();
        let (request, content) = (request.to_string(), content.to_vec());
        // The answer to a large body begins before the body has been sent.
        let sending = std::thread::spawn(move || {
            stream.write_all(request.as_bytes()).unwrap();
            stream.write_all(&content).unwrap();
        });
        let head = head(&mut self.reader).unwrap();
        let body = body(&mut self.reader, &head);
        sending.join().unwrap();
        (head, body)
    }
}

#[test]
fn bodies_of_any_size_are_passed_on_and_kept_up_to_the_limits() {
    let limits = Limits { request_bytes: 1000, response_bytes: 2000, ..Limits::default() };
    let (recorder, exchanges) = recorder(&echo(), |options| options.limits = limits);
    let mut client = Client::of(&recorder);

    // In chunks, of a length that is not stated.
    let chunked = "POST /a?b=c HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (head, body) = client.send(chunked, b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    assert!(has(&head, "X-Host: false"), "a compressed response could not be read: {head:?}");
    assert_eq!(body, b"hello world");
    let small = next(&exchanges);
    assert_eq!((small.method.as_str(), small.path.as_str(), small.status), ("POST", "/a?b=c", 200));
    assert_eq!(
        (small.body.as_deref(), small.response_body.as_slice()),
        (Some(&b"hello world"[..]), &b"hello world"[..])
    );
    assert!(small.has_whole_response && small.failure.is_empty(), "{small:?}");

    // Larger than the limits, over the same connection.
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let (_, echoed) = client.send(
        &format!("PUT /large HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", large.len()),
        &large,
    );
    assert!(echoed == large, "{} of {} bytes came back", echoed.len(), large.len());
    let exchange = next(&exchanges);
    assert_eq!((exchange.body, exchange.body_bytes), (None, 3_000_000));
    assert_eq!((exchange.response_body.as_slice(), exchange.response_bytes), (&large[..2000], 3_000_000));
    assert!(!exchange.has_whole_response);

    // The target closes its connection, and that of the client stays open.
    for _ in 0..2 {
        let (head, _) = client.send("GET /close HTTP/1.1\r\nHost: localhost\r\n\r\n", b"");
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert_eq!(next(&exchanges).status, 200);
    }
}

#[test]
fn what_is_not_for_the_target_is_refused() {
    // A port on which nothing listens.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (recorder, exchanges) = recorder(&format!("http://{free}"), |_| {});
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", " 502 "),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", " 421 "),
        ("GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n", " 400 "),
    ] {
        let (head, body) = Client::of(&recorder).send(request, b"");
        assert!(head[0].contains(status), "{request}: {head:?}");
        assert!(body.starts_with(b"plimsoll: "), "{request}");
    }
    let failed = next(&exchanges);
    assert!(failed.status == 0 && failed.failure.contains("refused"), "{failed:?}");
    assert!(exchanges.try_recv().is_err(), "only what is for the target is reported");
}

#[test]
fn a_target_is_reached_over_tls() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["localhost", "127.0.0.1"], Bearer::Server);
    folder.file("index.html", "hello");
    let (certificate, key) = (certificate.display(), key.display());
    let server = format!(
        "ssl_certificate {certificate}; ssl_certificate_key {key};
         location = /old {{ return 302 https://$http_host/index.html; }}
         location = /page {{ default_type text/html; return 200 '<a href=\"https://$http_host/x\">'; }}"
    );
    let Some(nginx) = Nginx::start(folder, "ssl", "", &server) else { return };
    let target = format!("https://localhost:{}", nginx.port);
    let (recorder, exchanges) =
        recorder(&target, |options| options.authorities = Some(authority.file.clone()));
    let own = recorder.address();
    let (head, _) = Client::of(&recorder).send(&format!("GET /old HTTP/1.1\r\nHost: {own}\r\n\r\n"), b"");
    assert!(has(&head, &format!("Location: http://{own}/index.html")), "{head:?}");
    let moved = next(&exchanges);
    let location = ("location".to_string(), format!("{target}/index.html"));
    assert!(moved.response_fields.contains(&location), "{:?}", moved.response_fields);
    let (_, body) =
        Client::of(&recorder).send(&format!("GET /index.html HTTP/1.1\r\nHost: {own}\r\n\r\n"), b"");
    assert_eq!(body, b"hello");
    assert_eq!(next(&exchanges).status, 200);

    // The client stays with the proxy; what is kept is as the target sent it.
    let (_, page) = Client::of(&recorder).send(&format!("GET /page HTTP/1.1\r\nHost: {own}\r\n\r\n"), b"");
    assert_eq!(String::from_utf8_lossy(&page), format!("<a href=\"http://{own}/x\">"));
    let kept = next(&exchanges).response_body;
    assert_eq!(String::from_utf8_lossy(&kept), format!("<a href=\"{target}/x\">"));

    // An authority that is not trusted.
    let (recorder, exchanges) = self::recorder(&target, |_| {});
    let (head, _) = Client::of(&recorder).send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"");
    assert!(head[0].contains(" 502 "), "{head:?}");
    assert!(next(&exchanges).failure.contains("TLS"), "the reason is reported");
}
