//! The exchanges that a proxy sees, and their log.

use std::io::{Read, Write};
use std::time::Duration;

use plimsoll_delay::{Options, Proxy};
use testkit::Scratch;

use crate::net::{connect, options, target, wait_for};

const THINK: Duration = Duration::from_millis(5);

/// A target that answers 10 bytes with 1,000 bytes after a while, and the proxy with a log.
fn with_log(words: &str, scratch: &Scratch) -> Proxy {
    let target = target(|mut client| {
        while client.read_exact(&mut [0; 10]).is_ok() {
            std::thread::sleep(THINK);
            client.write_all(&[1; 1000]).unwrap();
        }
    });
    Proxy::start(Options { exchanges: Some(scratch.join("log.csv")), ..options(target, words) }).unwrap()
}

#[test]
fn exchanges_are_counted_timed_and_logged_without_the_added_delay() {
    let scratch = Scratch::new();
    let proxy = with_log("latency=20ms", &scratch);
    for _ in 0..2 {
        let mut client = connect(&proxy);
        for _ in 0..5 {
            client.write_all(&[0; 10]).unwrap();
            client.read_exact(&mut [0; 1000]).unwrap();
        }
    }
    wait_for("the ends", || proxy.handle().snapshot(false).routes[0].connections.open == 0);
    let snapshot = proxy.stop();
    let exchanges = &snapshot.routes[0].exchanges;
    assert_eq!((exchanges.completed, exchanges.without_reply, exchanges.unrequested_bytes), (10, 0, 0));
    assert_eq!((exchanges.request_bytes, exchanges.reply_bytes), (100, 10_000));
    assert_eq!(exchanges.first_byte_buckets.iter().map(|(_, count)| count).sum::<u64>(), 10);
    assert!(exchanges.first_byte_ms.p50 >= 5.0 * 0.99, "{}", exchanges.first_byte_ms.p50);
    assert!(exchanges.waiting_s >= 0.05, "{}", exchanges.waiting_s);
    // Before the first request of a connection the delay up, before the others also that down.
    assert!(exchanges.idle_s >= 0.04 + 8.0 * 0.04, "{}", exchanges.idle_s);

    let log = snapshot.exchange_log.unwrap();
    assert_eq!((log.written, log.lost), (10, 0));
    let text = scratch.text("log.csv");
    let mut lines = text.lines();
    let header = "route,connection,start_unix_ns,request_bytes,first_byte_ns,last_byte_ns,reply_bytes";
    assert_eq!(lines.next(), Some(header));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 10);
    for row in &rows {
        assert_eq!((row[0], row[3], row[6]), ("route", "10", "1000"));
        let (first_ns, last_ns): (u64, u64) = (row[4].parse().unwrap(), row[5].parse().unwrap());
        assert!(THINK.as_nanos() as u64 <= first_ns && first_ns <= last_ns, "{row:?}");
    }
    assert_eq!(rows.iter().filter(|row| row[1] == "0").count(), 5);
}

#[test]
fn statistics_start_again_on_request() {
    let scratch = Scratch::new();
    let proxy = with_log("none", &scratch);
    let mut client = connect(&proxy);
    let mut exchange = || {
        client.write_all(&[0; 10]).unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
    };
    (0..3).for_each(|_| exchange());
    assert_eq!(proxy.handle().snapshot(true).routes[0].up.bytes, 30);
    exchange();
    let snapshot = proxy.handle().snapshot(false);
    let route = &snapshot.routes[0];
    assert_eq!((route.up.bytes, route.connections.accepted, route.connections.open), (10, 0, 1));
    // The exchange before ended with the request of this one.
    assert_eq!(route.exchanges.completed, 1);
}

#[test]
fn a_full_disk_is_reported_as_lost_exchanges() {
    let target = target(|mut client| {
        while client.read_exact(&mut [0; 10]).is_ok() {
            client.write_all(&[1; 10]).unwrap();
        }
    });
    let full = Some("/dev/full".into());
    let error = Proxy::start(Options { exchanges: full, ..options(target, "none") }).unwrap_err();
    assert!(error.to_string().contains("No space left on device"), "{error}");
}
