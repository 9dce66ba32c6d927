//! Bytes, ends and resets pass as without the proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use plimsoll_delay::{Options, Proxy, RouteOptions};

use crate::net::{
    PATIENCE, address, bytes, connect, connect_to, echo, options, proxy, read_all, read_until_error, reset,
    target, target_on, wait_for,
};

/// Sends bytes in writes of many sizes, and reads as many at the same time.
fn exchange(stream: TcpStream, sent: &[u8]) -> Vec<u8> {
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || read_all(&mut reader));
    let mut writer = &stream;
    let mut left = sent;
    for size in [1, 7, 1448, 60_000, 3, 250_000].into_iter().cycle() {
        let (part, rest) = left.split_at(left.len().min(size));
        writer.write_all(part).unwrap();
        left = rest;
        if left.is_empty() {
            break;
        }
    }
    stream.shutdown(Shutdown::Write).unwrap();
    reading.join().unwrap()
}

#[test]
fn bytes_arrive_in_order_under_every_impairment() {
    let target = echo();
    for (words, length) in [
        ("none", 8 << 20),
        ("latency=5ms jitter=4ms", 4 << 20),
        ("latency=2ms jitter=3ms distribution=pareto correlation=50%", 1 << 20),
        ("bandwidth=20MB/s", 2 << 20),
        ("up.bandwidth=10MB/s burst=1448B down.latency=1ms", 500_000),
        ("loss=0.5%", 500_000),
        ("stall=20ms stall-every=50ms", 1 << 20),
        ("connect-delay=30ms", 10_000),
    ] {
        let proxy = proxy(target, words);
        let sent = bytes(length as u64, length);
        let found = exchange(connect(&proxy), &sent);
        assert_eq!(found.len(), sent.len(), "{words}");
        assert!(found == sent, "{words}: other bytes, or another order");
        wait_for("the end of the connection", || {
            proxy.handle().snapshot(false).routes[0].connections.open == 0
        });
        let snapshot = proxy.stop();
        let route = &snapshot.routes[0];
        assert_eq!((route.up.bytes, route.down.bytes), (length as u64, length as u64), "{words}");
        let counts = route.connections;
        assert_eq!((counts.reset_by_client, counts.reset_by_target, counts.reset_by_impairment), (0, 0, 0));
    }
}

#[test]
fn each_direction_ends_by_itself() {
    for words in ["none", "latency=3ms"] {
        // The target closes its direction first, and still receives.
        let (received, receives) = channel();
        let target = target(move |mut client| {
            client.write_all(b"banner").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            received.send(read_all(&mut client)).unwrap();
        });
        let proxy = proxy(target, words);
        let mut client = connect(&proxy);
        assert_eq!(read_all(&mut client), b"banner");
        client.write_all(&[7; 100_000]).unwrap();
        client.write_all(b"the end").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let found = receives.recv_timeout(PATIENCE).unwrap();
        assert_eq!(found.len(), 100_007, "{words}");
        assert!(found.ends_with(b"the end"));
        wait_for("the end of the connection", || {
            proxy.handle().snapshot(false).routes[0].connections.open == 0
        });
    }
}

#[test]
fn a_reset_is_passed_on_in_both_directions() {
    for words in ["none", "latency=3ms", "bandwidth=10MB/s"] {
        let (outcome, outcomes) = channel();
        let target = target(move |mut client| {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            if byte == *b"r" {
                return reset(client);
            }
            client.write_all(b"x").unwrap();
            outcome.send(read_until_error(&mut client)).unwrap();
        });
        let proxy = proxy(target, words);
        let mut client = connect(&proxy);
        client.write_all(b"r").unwrap();
        assert_eq!(read_until_error(&mut client), (Vec::new(), ErrorKind::ConnectionReset), "{words}");

        let mut client = connect(&proxy);
        client.write_all(b"s").unwrap();
        client.read_exact(&mut [0]).unwrap();
        reset(client);
        assert_eq!(
            outcomes.recv_timeout(PATIENCE).unwrap(),
            (Vec::new(), ErrorKind::ConnectionReset),
            "{words}"
        );
        wait_for("both ends", || proxy.handle().snapshot(false).routes[0].connections.open == 0);
        let counts = proxy.stop().routes[0].connections;
        assert_eq!((counts.reset_by_target, counts.reset_by_client), (1, 1), "{words}");
    }
}

#[test]
fn bytes_before_a_reset_are_passed_on() {
    for words in ["none", "latency=3ms"] {
        let target = target(|mut client| {
            client.read_exact(&mut [0]).unwrap();
            client.write_all(&[5; 50_000]).unwrap();
            reset(client);
        });
        let proxy = proxy(target, words);
        let mut client = connect(&proxy);
        client.write_all(b"x").unwrap();
        let (found, error) = read_until_error(&mut client);
        assert_eq!((found.len(), error), (50_000, ErrorKind::ConnectionReset), "{words}");
    }
}

#[test]
fn a_client_that_closes_with_unread_data_resets_the_target() {
    let (outcome, outcomes) = channel();
    let target = target(move |mut client| {
        client.write_all(&[1; 1000]).unwrap();
        outcome.send(read_until_error(&mut client).1).unwrap();
    });
    let proxy = proxy(target, "none");
    let mut client = connect(&proxy);
    client.read_exact(&mut [0]).unwrap();
    drop(client);
    assert_eq!(outcomes.recv_timeout(PATIENCE).unwrap(), ErrorKind::ConnectionReset);
    wait_for("the end", || proxy.handle().snapshot(false).routes[0].connections.open == 0);
}

/// A client that ended its direction and then dies is noticed, although nothing is written to it.
#[test]
fn a_client_that_dies_after_its_end_resets_the_target() {
    let (outcome, outcomes) = channel();
    let target = target(move |mut client| {
        assert_eq!(read_all(&mut client), b"request");
        let mut error = None;
        wait_for("an error of the connection", || {
            error = client.take_error().unwrap().map(|error| error.kind());
            error.is_some()
        });
        outcome.send(error.unwrap()).unwrap();
    });
    let proxy = proxy(target, "none");
    let mut client = connect(&proxy);
    client.write_all(b"request").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    wait_for("the request", || proxy.handle().snapshot(false).routes[0].up.bytes == 7);
    reset(client);
    // After the end of its peer, a reset is a broken pipe.
    assert!(matches!(
        outcomes.recv_timeout(PATIENCE).unwrap(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    ));
    wait_for("the end", || proxy.handle().snapshot(false).routes[0].connections.open == 0);
}

#[test]
fn many_connections_do_not_disturb_each_other() {
    // Each has six descriptors in this process, and shells allow 1,024.
    const CONNECTIONS: u64 = 100;
    let proxy = proxy(echo(), "latency=1ms jitter=1ms");
    let mut streams: Vec<(u64, TcpStream)> =
        (0..CONNECTIONS).map(|number| (number, connect(&proxy))).collect();
    for round in 0..5 {
        for (number, stream) in &mut streams {
            stream.write_all(&bytes(*number * 10 + round, 500)).unwrap();
        }
        for (number, stream) in &mut streams {
            let mut found = vec![0; 500];
            stream.read_exact(&mut found).unwrap();
            assert!(found == bytes(*number * 10 + round, 500), "connection {number}");
        }
    }
    let counts = proxy.handle().snapshot(false).routes[0].connections;
    assert_eq!((counts.accepted, counts.open), (CONNECTIONS, CONNECTIONS));
    drop(streams);
    wait_for("the ends", || proxy.handle().snapshot(false).routes[0].connections.open == 0);
}

/// The sender is stopped by TCP, also where a long delay would let the proxy keep more.
#[test]
fn a_sender_waits_for_a_slow_receiver_and_for_memory() {
    const MEMORY: u64 = 8 << 20;
    // More than the buffers of the kernel at four sockets.
    const BOUND: u64 = MEMORY + (48 << 20);
    for words in ["none", "down.latency=1h", "down.bandwidth=1kB/s", "down.black-hole=on"] {
        let (accepted, sent) = channel();
        let target = target(move |client| {
            client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            let (mut total, block) = (0_u64, vec![3; 1 << 16]);
            while total < 2 * BOUND {
                match (&client).write(&block) {
                    Ok(bytes) => total += bytes as u64,
                    Err(_) => break,
                }
            }
            accepted.send((total, client)).unwrap();
        });
        let proxy = Proxy::start(Options { memory_bytes_max: MEMORY, ..options(target, words) }).unwrap();
        let mut client = connect(&proxy);
        let (total, peer) = sent.recv_timeout(PATIENCE).unwrap();
        assert!(total < BOUND, "{words}: {total} bytes were accepted");
        if words == "none" {
            drop(peer);
            assert_eq!(read_all(&mut client).len() as u64, total);
        }
    }
}

#[test]
fn ipv6_and_several_routes_work() {
    let six = target_on("[::1]:0", |mut client| client.write_all(b"six").unwrap());
    let four = target(|mut client| client.write_all(b"four").unwrap());
    let routes = vec![
        RouteOptions::parse(&format!("a=[::1]:0={six}")).unwrap(),
        RouteOptions::parse(&format!("b=127.0.0.1:0=localhost:{}", four.port())).unwrap(),
    ];
    let proxy = Proxy::start(Options::new(routes)).unwrap();
    let read = |at: usize| read_all(&mut connect_to(proxy.routes()[at].listen));
    assert_eq!((read(0), read(1)), (b"six".to_vec(), b"four".to_vec()));
    assert!(proxy.routes()[0].listen.is_ipv6());
    assert_ne!(address(&proxy).port(), 0);
}
