//! Tests with clients that keep the service waiting.

use std::time::Duration;

use plimsoll_scim::{Limits, Options};
use serde_json::json;

use crate::common::{Peer, Running, SCIM};

/// Few connections and a short timeout.
fn impatient() -> Running {
    let limits = Limits { connections: 8, wait: Duration::from_secs(2) };
    Running::with(|options| Options { limits, ..options })
}

/// Few connections with a long timeout, so that they are closed for another reason.
fn crowded() -> Running {
    let limits = Limits { connections: 8, wait: Duration::from_secs(3600) };
    Running::with(|options| Options { limits, ..options })
}

#[test]
fn idle_connections_keep_nobody_out() {
    let service = crowded();
    let idle: Vec<Peer> = (0..40).map(|_| service.connect()).collect();
    // A connection that was used, and one that is used repeatedly.
    let mut used = service.connect();
    for _ in 0..40 {
        assert_eq!(used.send("GET", "/Users", &[], "").status, 200);
        assert!(service.is_alive());
    }
    assert!(idle.into_iter().take(30).all(|mut peer| peer.is_closed()));
}

#[test]
fn heads_and_bodies_that_never_end_keep_nobody_out() {
    let service = crowded();
    let host = service.address;
    let mut slow = Vec::new();
    for at in 0..40 {
        let mut peer = service.connect();
        let head = format!(
            "POST /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n{SCIM}\r\nContent-Length: 100\r\n\r\n{{"
        );
        peer.write(if at % 2 == 0 { head.as_bytes() } else { &head.as_bytes()[..40] });
        slow.push(peer);
    }
    assert!(service.is_alive());
}

#[test]
fn a_client_that_sends_nothing_loses_its_connection() {
    let service = impatient();
    assert!(service.connect().is_closed());
}

#[test]
fn a_client_that_sends_its_head_byte_by_byte_loses_its_connection() {
    let service = impatient();
    let mut peer = service.connect();
    peer.write(b"GET /scim/v2/Users HTTP/1.1\r\nX: ");
    let mut writer = peer.writer();
    let dripping = std::thread::spawn(move || {
        // Until the connection is closed.
        while std::io::Write::write_all(&mut writer, b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(peer.is_closed());
    dripping.join().unwrap();
}

#[test]
fn a_client_that_does_not_send_its_body_loses_its_connection() {
    let service = impatient();
    let host = service.address;
    let mut peer = service.connect();
    peer.write(
        format!("POST /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n{SCIM}\r\nContent-Length: 100\r\n\r\n{{")
            .as_bytes(),
    );
    assert!(peer.is_closed());
}

#[test]
fn a_connection_that_is_not_used_again_is_closed() {
    let service = impatient();
    let mut peer = service.connect();
    assert_eq!(peer.send("GET", "/Users", &[], "").status, 200);
    assert!(peer.is_closed());
}

#[test]
fn a_client_that_does_not_read_its_answers_loses_its_connection() {
    let service = impatient();
    let host = service.address;
    let users: Vec<_> = (0..500)
        .map(|at| json!({"method": "POST", "path": "/Users", "data": {"userName": format!("{at}"), "title": "x".repeat(4000)}}))
        .collect();
    let made = service.send("POST", "/Bulk", &[SCIM], &json!({"Operations": users}).to_string());
    assert_eq!(made.status, 200);
    let mut peer = service.connect();
    let list = format!("GET /scim/v2/Users?count=500 HTTP/1.1\r\nHost: {host}\r\n\r\n");
    // More than the sockets buffer, so that the service waits in the middle of a response.
    peer.write(list.repeat(20).as_bytes());
    let mut writer = peer.writer();
    // A write fails when the service has closed the connection; until then nothing is read.
    while std::io::Write::write_all(&mut writer, b"\r\n").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(service.is_alive());
}

#[test]
fn work_that_takes_longer_than_a_client_may_is_finished() {
    let (entered, is_in) = std::sync::mpsc::channel();
    let entered = std::sync::Mutex::new(entered);
    let limits = Limits { connections: 2, wait: Duration::from_millis(100) };
    let service = Running::with(|options| Options {
        limits,
        watch: Some(Box::new(move |request| {
            if request.method == "POST" {
                let _ = entered.lock().unwrap().send(());
                std::thread::sleep(Duration::from_millis(500));
            }
            None
        })),
        ..options
    });
    let mut slow = service.connect();
    slow.begin("POST", "/Users", &[SCIM], "{\"userName\":\"ada\"}");
    is_in.recv().unwrap();
    // It delays no other connection, and its place is not taken.
    let idle = service.connect();
    for _ in 0..5 {
        assert!(service.is_alive());
    }
    assert_eq!(slow.answer().unwrap().status, 201);
    drop(idle);
}

#[test]
fn a_connection_for_which_there_is_no_place_is_answered() {
    let (entered, is_in) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let (entered, goes_on) = (std::sync::Mutex::new(entered), std::sync::Mutex::new(goes_on));
    let limits = Limits { connections: 1, wait: Duration::from_secs(3600) };
    let service = Running::with(|options| Options {
        limits,
        watch: Some(Box::new(move |_| {
            let _ = entered.lock().unwrap().send(());
            let _ = goes_on.lock().unwrap().recv();
            None
        })),
        ..options
    });
    let mut peer = service.connect();
    peer.begin("GET", "/Users", &[], "");
    is_in.recv().unwrap();
    assert_eq!(service.connect().answer().unwrap().status, 503);
    drop(go_on);
    assert_eq!(peer.answer().unwrap().status, 200);
    // Now the connection waits for its client, and another one takes its place.
    assert!(service.is_alive());
}
