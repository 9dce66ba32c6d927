//! What a server sends that no request asked for: bytes behind a response, responses before a request, and on idle connections.

use std::sync::Barrier;

use super::*;

/// A server of a thread per connection. `greet` gets each new connection, `answer` each request with the number of requests of
/// its connection. False: the connection ends.
fn serving(
    greet: fn(&mut TcpStream),
    answer: impl Fn(&mut TcpStream, usize) -> bool + Send + Clone + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                greet(&mut stream);
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut requests = 0;
                while read_request(&mut reader).is_some() {
                    requests += 1;
                    if !answer(&mut stream, requests) {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn nothing(_: &mut TcpStream) {}

fn pause() {
    std::thread::sleep(Duration::from_millis(3));
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";

#[test]
fn bytes_behind_a_response_are_a_failure() {
    for (text, method, keep_alive) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxGARBAGE", "GET", "true"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxGARBAGE", "GET", "false"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx\r\n", "GET", "true"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "GET",
            "true",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 103 Early\r\n\r\n", "GET", "true"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nxy", "GET", "true"),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nxy", "GET", "true"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nmore", "GET", "true"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HEAD", "true"),
        ("HTTP/1.1 204 No\r\n\r\nhello", "GET", "true"),
        ("HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\nhello", "GET", "true"),
    ] {
        for closes in [false, true] {
            let address =
                serving(nothing, move |stream, _| stream.write_all(text.as_bytes()).is_ok() && !closes);
            let settings = [("method", method), ("keep_alive", keep_alive)];
            let (workload, done) = driven(&format!("http://{address}/"), &settings, 2, 10);
            let case = format!("{text:?} {method} {closes}");
            assert!(done.iter().all(|done| done.outcome != Outcome::Well), "{case}");
            let expected = ["malformed: bytes follow the end of the response"];
            assert_eq!(words(&*workload, &done), expected, "{case}");
        }
    }
    // After a full buffer too: epoll does not report these bytes again.
    let length = (64 << 10) - "HTTP/1.1 200 OK\r\nContent-Length: 65493\r\n\r\n".len();
    let address = serving(nothing, move |stream, _| {
        let body = "x".repeat(length);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}more");
        stream.write_all(text.as_bytes()).is_ok()
    });
    let (_, done) = driven(&format!("http://{address}/"), &[], 1, 10);
    // On a loaded machine, the last bytes come when the response has ended already: the next operation fails for them.
    let well = done.iter().filter(|done| done.outcome == Outcome::Well).count();
    assert!(well <= 2, "{well} of 10");
}

#[test]
fn what_comes_over_an_idle_connection_is_told_apart() {
    type After = fn(&mut TcpStream) -> bool;
    // What follows each response; the words of the failures; and the fact that counts the ends, if they are allowed.
    let cases: [(&str, After, &[&str], Option<&str>); 9] = [
        (
            "a second response",
            |stream| stream.write_all(GOOD.as_bytes()).is_ok(),
            &["unsolicited: the server sent HTTP 200 without a request"],
            None,
        ),
        (
            "a second response in pieces",
            |stream| {
                let (first, second) = GOOD.split_at(20);
                stream.write_all(first.as_bytes()).unwrap();
                pause();
                stream.write_all(second.as_bytes()).is_ok()
            },
            &["unsolicited: the server sent HTTP 200 without a request"],
            None,
        ),
        (
            "an interim response",
            |stream| stream.write_all(b"HTTP/1.1 103 Early\r\n\r\n").is_ok(),
            &["unsolicited: the server sent HTTP 103 without a request"],
            None,
        ),
        (
            "a byte",
            |stream| stream.write_all(b"x").is_ok(),
            &["unsolicited: the server sent bytes without a request"],
            None,
        ),
        (
            "a timeout that does not end the connection",
            |stream| stream.write_all(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n").is_ok(),
            &["unsolicited: the server sent HTTP 408 without a request"],
            None,
        ),
        (
            "a failure and the end",
            |stream| {
                stream.write_all(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n").unwrap();
                false
            },
            &["unsolicited: the server sent HTTP 500 without a request"],
            None,
        ),
        (
            "a timeout",
            |stream| stream.write_all(b"HTTP/1.1 408 Late\r\nConnection: close\r\n\r\n").is_ok(),
            &[],
            Some("connections.lost_idle.408"),
        ),
        (
            "a bad request and the end",
            |stream| {
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
                false
            },
            &[],
            Some("connections.lost_idle.400"),
        ),
        ("the end", |_| false, &[], Some("connections.lost_idle")),
    ];
    for (name, after, expected, ends) in cases {
        // It follows when the response was read, and the next request when it was sent.
        let turns = Arc::new((Barrier::new(2), Barrier::new(2)));
        let of_server = turns.clone();
        let address = serving(nothing, move |stream, _| {
            stream.write_all(GOOD.as_bytes()).unwrap();
            of_server.0.wait();
            let goes_on = after(stream);
            if !goes_on {
                stream.shutdown(std::net::Shutdown::Write).unwrap();
            }
            of_server.1.wait();
            goes_on
        });
        let mut workload = configured(&format!("http://{address}/"), &[]);
        workload.prepare(1, &mut |_| true).unwrap();
        let done = one_by_one(&*workload, 4, || {
            turns.0.wait();
            turns.1.wait();
            // Idle for longer than a connection is used again without a look.
            pause();
        });
        assert_eq!(words(&*workload, &done), expected, "{name}");
        let failed = done.iter().filter(|done| done.outcome != Outcome::Well).count();
        match ends {
            // The last one comes after the last request: it is counted all the same.
            None => assert_eq!((failed, fact(&*workload, "responses.unsolicited")), (3, 4), "{name}"),
            Some(of) => {
                assert_eq!((failed, fact(&*workload, of)), (0, 4), "{name}");
                assert_eq!(fact(&*workload, "connections.lost_idle"), 4, "{name}");
                assert!(!workload.facts().contains_key("responses.unsolicited"), "{name}");
            }
        }
    }
}

#[test]
fn a_server_that_is_always_one_response_ahead_is_found_out() {
    // Each request has two responses, the second one a little later: it seems to be that to the next request.
    let address = serving(nothing, |stream, _| {
        let _ = stream.write_all(GOOD.as_bytes());
        std::thread::sleep(Duration::from_micros(300));
        stream.write_all(GOOD.as_bytes()).is_ok()
    });
    let (workload, done) = driven(&format!("http://{address}/"), &[], 2, 100);
    let failed = done.iter().any(|done| done.outcome != Outcome::Well);
    assert!(failed || workload.facts().contains_key("responses.unsolicited"));
    // The first one comes with the connection.
    let greet: fn(&mut TcpStream) = |stream| _ = stream.write_all(GOOD.as_bytes());
    let address = serving(greet, |stream, _| stream.write_all(GOOD.as_bytes()).is_ok());
    let url = format!("http://{address}/");
    // On a busy machine the server may be late.
    let refused = || configured(&url, &[]).prepare(1, &mut |_| true).err();
    let error = (0..50).find_map(|_| refused()).unwrap();
    let expected = format!(
        "{address} sends \"HTTP/1.1 200 OK\" before it gets a request, which no server of HTTP/1.1 does"
    );
    assert_eq!(error.what, expected);
    let problem = || configured(&url, &[]).reach(&mut Vec::new()).0.pop();
    assert_eq!((0..50).find_map(|_| problem()).unwrap().what, expected);
    // Also if it begins to do so during the load.
    let plan =
        crate::http::HttpPlan::read(&settings_of(SETTINGS, &[("url", &url)]), &Inputs::host()).unwrap();
    let all = vec![crate::http::target::Server { addresses: Addresses::in_order(vec![address]), tls: None }];
    let servers = crate::http::target::Servers { all, is_http2: false };
    let workload = crate::http::Http { plan, servers, seen: crate::http::Observations::default() };
    let done = drive(&workload, 2, 20).unwrap();
    let failed = done.iter().any(|done| done.outcome != Outcome::Well);
    assert!(failed || workload.facts().contains_key("responses.unsolicited"));
}
