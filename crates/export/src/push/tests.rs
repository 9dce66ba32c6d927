use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// What a server does with a request.
#[derive(Clone, Copy)]
enum Answer {
    /// Answers with a status line and a body.
    Text(&'static str, &'static str),
    /// Never answers.
    Nothing,
}

/// A server on a port of the loopback interface: the URL, and the requests that came.
fn server(answers: &'static [Answer]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            serve(stream.unwrap(), answers, &mut number, &sender);
        }
    });
    (url, receiver)
}

/// Serves the requests of a connection, which come one after the other.
fn serve(stream: TcpStream, answers: &[Answer], number: &mut usize, sender: &Sender<String>) {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).unwrap();
        sender.send(format!("{head}\r\n{}", String::from_utf8(body).unwrap())).unwrap();
        let answer = answers[(*number).min(answers.len() - 1)];
        *number += 1;
        match answer {
            Answer::Text(status, body) => {
                let length = body.len();
                write!(output, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            }
            // Until the client goes away.
            Answer::Nothing => {
                let _ = input.read(&mut [0]);
                return;
            }
        }
    }
}

fn push(url: &str) -> Push {
    Push::begin(Endpoint::new(url, url, &[]).unwrap()).unwrap()
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn everything_arrives_in_order_with_its_headers() {
    let (url, requests) = server(&[Answer::Text("200 OK", "{}")]);
    let headers = [("Authorization: Bearer sesame".to_string(), "Authorization: ***".to_string())];
    let push = Push::begin(Endpoint::new(&url, &url, &headers).unwrap()).unwrap();
    for at in 0..50 {
        push.add(format!("{{\"n\":{at}}}"));
    }
    let delivery = push.flush(LONG);
    assert_eq!(delivery, Delivery { delivered: 50, ..Delivery::default() });
    let mut seen = Vec::new();
    while let Ok(request) = requests.try_recv() {
        assert!(request.contains("Bearer sesame") && request.contains("application/json"), "{request}");
        let body: serde_json::Value =
            serde_json::from_str(request.split("\r\n\r\n").last().unwrap().trim()).unwrap();
        seen.extend(body["resourceMetrics"].as_array().unwrap().iter().map(|of| of["n"].as_u64().unwrap()));
    }
    assert_eq!(seen, (0..50).collect::<Vec<u64>>());
}

#[test]
fn a_busy_endpoint_gets_the_same_again() {
    let (url, requests) =
        server(&[Answer::Text("503 Service Unavailable", "later"), Answer::Text("200 OK", "{}")]);
    let push = push(&url);
    push.add("{\"n\":1}".into());
    let delivery = push.flush(LONG);
    assert_eq!((delivery.delivered, delivery.dropped, delivery.trouble), (1, 0, None));
    assert_eq!(delivery.first_trouble.as_deref(), Some("status 503: later"));
    let bodies: Vec<String> =
        requests.try_iter().map(|of| of.split("\r\n\r\n").last().unwrap().into()).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn what_an_endpoint_rejects_is_counted_with_its_words() {
    for (status, body, expected, dropped) in [
        ("400 Bad Request", "{\"message\":\"out of\\norder\"}", "status 400: out of order", 1),
        ("401 Unauthorized", "", "status 401. Give credentials with --export-header", 1),
        (
            "404 Not Found",
            "",
            "status 404. Is the path right? An OpenTelemetry Collector has /v1/metrics, Prometheus /api/v1/otlp/v1/metrics",
            1,
        ),
        ("302 Found", "", "status 302. It sends elsewhere: use that URL", 1),
        (
            "200 OK",
            "{\"partialSuccess\":{\"rejectedDataPoints\":\"3\",\"errorMessage\":\"too old\"}}",
            "it rejected 3 values: too old",
            0,
        ),
    ] {
        let answers: &'static [Answer] = Box::leak(Box::new([Answer::Text(status, body)]));
        let (url, _requests) = server(answers);
        let push = push(&url);
        push.add("{}".into());
        let delivery = push.flush(LONG);
        assert_eq!((delivery.dropped, delivery.waiting), (dropped, 0), "{status}");
        assert_eq!(delivery.rejected, if dropped == 0 { 3 } else { 0 });
        assert_eq!(delivery.first_trouble.as_deref(), Some(expected));
    }
}

#[test]
fn a_queue_without_an_answer_keeps_the_newest_and_counts_the_rest() {
    let (url, requests) = server(&[Answer::Nothing]);
    let push = push(&url);
    push.add("{}".into());
    // The thread waits for an answer now.
    let first = requests.recv_timeout(LONG).unwrap();
    assert!(first.contains("[{}]"), "{first}");
    let part = 1 << 20;
    for _ in 0..20 {
        push.add("x".repeat(part));
    }
    let began = Instant::now();
    let delivery = push.flush(Duration::from_millis(50));
    assert!(began.elapsed() < Duration::from_secs(5), "the wait has a limit");
    assert_eq!((delivery.delivered, delivery.dropped), (0, 4));
    assert_eq!(delivery.waiting, 16 + 1);
}

#[test]
fn nobody_listens_and_nothing_is_lost_but_the_figures() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let push = push(&format!("http://{free}/v1/metrics"));
    push.add("{}".into());
    // The first attempt failed when the trouble is known.
    let delivery = (0..300)
        .map(|_| push.flush(Duration::from_millis(100)))
        .find(|delivery| delivery.trouble.is_some())
        .unwrap();
    assert_eq!((delivery.delivered, delivery.dropped, delivery.waiting), (0, 0, 1));
    assert!(delivery.trouble.unwrap().contains("refused"));
}

#[test]
fn a_wrong_endpoint_is_refused_with_what_to_write() {
    let header = |text: &str| vec![(text.to_string(), "HIDDEN".to_string())];
    for (url, headers, expected) in [
        ("collector:4318", vec![], "write http://HOST:4318/v1/metrics"),
        ("ftp://collector/v1/metrics", vec![], "write http://HOST:4318/v1/metrics"),
        ("http://collector:4318/", vec![], "write http://collector:4318/v1/metrics for an OpenTelemetry"),
        ("http://me:pw@collector/v1/metrics", vec![], "others can read credentials in a URL"),
        ("http://collector/v1/metrics", header("sesame"), "HIDDEN: it has no colon"),
        ("http://collector/v1/metrics", header("a b: sesame"), "HIDDEN: this is not a name"),
        ("http://collector/v1/metrics", header("X: ses\names"), "HIDDEN: its value has characters"),
    ] {
        let Err(why) = Endpoint::new(url, url, &headers) else { panic!("{url}") };
        assert!(why.contains(expected) && !why.contains("sesame"), "{why}");
    }
}
