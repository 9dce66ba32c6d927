//! The control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use plimsoll_delay::Change;
use plimsoll_delay::control::{ControlServer, Request, RequestError, request};
use testkit::Scratch;

use crate::net::{connect, echo, proxy};

fn set(words: &str) -> Request {
    Request::Set(Change::parse([words]).unwrap())
}

#[test]
fn settings_are_changed_and_shown_over_the_socket() {
    let (scratch, proxy) = (Scratch::new(), proxy(echo(), "none"));
    let path = scratch.join("private/control");
    let server = ControlServer::start(&path, proxy.handle()).unwrap();
    let mode = std::fs::metadata(scratch.join("private")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let settings = || {
        let answer = request(&path, &Request::Show(false)).unwrap();
        answer["snapshot"]["routes"][0]["settings"].clone()
    };
    request(&path, &set("latency=5ms up.loss=1% down.bandwidth=1.5MB/s")).unwrap();
    assert_eq!(settings(), serde_json::json!(["latency=5ms", "down.bandwidth=1500kB/s", "up.loss=1%"]));
    request(&path, &set("none refuse=10%")).unwrap();
    assert_eq!(settings(), serde_json::json!(["refuse=10%"]));
    for (words, expected) in [
        ("route=other latency=1ms", "there is no route `other`"),
        ("jitter=1ms distribution=constant", "`up.jitter` has no effect"),
        ("stall=2s stall-every=1s", "`up.stall` of 2s lasts until the next stall"),
    ] {
        let Err(RequestError::Rejected(problems)) = request(&path, &set(words)) else { panic!("{words}") };
        assert!(problems.0[0].what.starts_with(expected), "{problems}");
    }
    // A rejected change changes nothing.
    assert_eq!(settings(), serde_json::json!(["refuse=10%"]));
    drop(server);
    assert!(!path.exists());
    assert!(matches!(request(&path, &Request::Show(false)), Err(RequestError::Unreachable(..))));
}

#[test]
fn several_requests_on_one_connection_are_answered_in_order() {
    let (scratch, proxy) = (Scratch::new(), proxy(echo(), "none"));
    let path = scratch.join("private/control");
    let _server = ControlServer::start(&path, proxy.handle()).unwrap();
    // Clients that say nothing delay nobody.
    let _silent: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"{\"command\": \"set\", \"settings\": {\"latency\": \"1ms\"}}\n{}\n\xff\n{\"command\": \"show\"}\n").unwrap();
    let mut lines = BufReader::new(client).lines();
    let mut next = || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next(), serde_json::json!({"ok": true}));
    assert_eq!(next()["errors"][0]["what"], "the request has no valid `command`");
    assert_eq!(next()["errors"][0]["what"], "the request is not a line of text");
    assert_eq!(next()["snapshot"]["routes"][0]["settings"][0], "latency=1ms");
}

#[test]
fn an_endless_request_is_refused() {
    let (scratch, proxy) = (Scratch::new(), proxy(echo(), "none"));
    let path = scratch.join("private/control");
    let _server = ControlServer::start(&path, proxy.handle()).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    // The server closes after the limit, so the last writes may fail.
    let _ = client.write_all(&[b' '; 200_000]);
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer);
    assert!(answer.contains("is not a line of text"), "{answer}");
    request(&path, &Request::Show(false)).unwrap();
}

#[test]
fn a_socket_of_a_killed_proxy_is_replaced_and_others_are_not() {
    let (scratch, proxy) = (Scratch::new(), proxy(echo(), "none"));
    let path = scratch.join("private/control");
    let server = ControlServer::start(&path, proxy.handle()).unwrap();
    let error = ControlServer::start(&path, proxy.handle()).unwrap_err().to_string();
    assert!(error.contains("is in use by another proxy"), "{error}");
    drop(server);
    // A socket without a process.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(ControlServer::start(&path, proxy.handle()).unwrap());
    std::fs::write(&path, "precious").unwrap();
    let error = ControlServer::start(&path, proxy.handle()).unwrap_err().to_string();
    assert!(error.contains("exists and is not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_open_directory_is_refused_and_a_long_path_is_not() {
    let (scratch, proxy) = (Scratch::new(), proxy(echo(), "none"));
    std::fs::create_dir(scratch.join("open")).unwrap();
    std::fs::set_permissions(scratch.join("open"), PermissionsExt::from_mode(0o755)).unwrap();
    let error = ControlServer::start(&scratch.join("open/control"), proxy.handle()).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
    // Longer than an address of a socket may be.
    let path = scratch.join("d".repeat(200)).join("control");
    let _server = ControlServer::start(&path, proxy.handle()).unwrap();
    request(&path, &set("latency=1ms")).unwrap();
}

#[test]
fn a_proxy_that_ended_says_so() {
    let proxy = proxy(echo(), "none");
    let handle = proxy.handle();
    let _client = connect(&proxy);
    drop(proxy);
    let problems = handle.set(Change::parse(["latency=1ms"]).unwrap()).unwrap_err();
    assert!(problems.0[0].what.contains("has ended"), "{problems}");
    assert_eq!(handle.snapshot(false).routes[0].connections.open, 0);
}
