//! Each impairment really happens. Times have lower bounds only.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use plimsoll_delay::{Change, Options, Proxy, Scheduled};

use crate::net::{
    PATIENCE, address, bytes, connect, echo, options, proxy, read_all, read_until_error, target, wait_for,
};

/// The time of a small exchange.
fn ping(stream: &mut TcpStream) -> Duration {
    let begin = Instant::now();
    stream.write_all(b"ping").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    begin.elapsed()
}

#[test]
fn a_latency_is_added_to_its_direction() {
    for (words, up_ms, down_ms) in
        [("up.latency=30ms", 30, 0), ("down.latency=30ms", 0, 30), ("latency=30ms", 30, 30)]
    {
        let proxy = proxy(echo(), words);
        let mut client = connect(&proxy);
        for _ in 0..3 {
            assert!(ping(&mut client) >= Duration::from_millis(up_ms + down_ms), "{words}");
        }
        let snapshot = proxy.stop();
        let route = &snapshot.routes[0];
        for (path, asked_ms) in [(route.up, up_ms), (route.down, down_ms)] {
            assert_eq!(path.delay_ms.count, 3, "{words}");
            // Histograms have an error below 1 %.
            assert!(path.delay_ms.p50 >= asked_ms as f64 * 0.99, "{words}: {}", path.delay_ms.p50);
            // The stated error is what is beyond the set delay.
            let difference = path.delay_ms.max - asked_ms as f64 - path.error_ms.max;
            assert!(difference.abs() <= 0.02 * path.delay_ms.max, "{words}: {difference}");
        }
    }
}

#[test]
fn jitter_gives_delays_in_its_range() {
    let proxy = proxy(echo(), "up.latency=10ms up.jitter=5ms");
    let mut client = connect(&proxy);
    let shortest = (0..30).map(|_| ping(&mut client)).min().unwrap();
    assert!(shortest >= Duration::from_millis(5), "{shortest:?}");
    let delay = proxy.stop().routes[0].up.delay_ms;
    // Of 30 uniform delays from 5 to 15 ms one is above 11 ms: all others have a probability of 0.6^30.
    assert!(delay.max > 11.0, "{}", delay.max);
}

#[test]
fn a_bandwidth_is_not_exceeded() {
    let proxy = proxy(echo(), "up.bandwidth=1MB/s");
    let (begin, length) = (Instant::now(), 300_000);
    let client = connect(&proxy);
    let mut reader = client.try_clone().unwrap();
    let reading = std::thread::spawn(move || read_all(&mut reader));
    (&client).write_all(&bytes(1, length)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reading.join().unwrap().len(), length);
    // The burst is 10 ms.
    assert!(begin.elapsed() >= Duration::from_millis(290), "{:?}", begin.elapsed());
}

#[test]
fn losses_stall_the_connection() {
    let proxy = proxy(echo(), "up.loss=30%");
    let mut client = connect(&proxy);
    let begin = Instant::now();
    ping(&mut client);
    while proxy.handle().snapshot(false).routes[0].up.losses == 0 {
        ping(&mut client);
    }
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_stall_stops_all_traffic() {
    // The first stall begins with the proxy.
    let begin = Instant::now();
    let proxy = proxy(echo(), "stall=400ms stall-every=1h");
    ping(&mut connect(&proxy));
    assert!(begin.elapsed() >= Duration::from_millis(400));
    // Another one begins when it is set.
    let begin = Instant::now();
    proxy.handle().set(Change::parse(["down.stall=200ms"]).unwrap()).unwrap();
    ping(&mut connect(&proxy));
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_connection_is_reset_after_its_bytes() {
    for words in ["down.reset-after=10000B", "down.reset-after=10000B latency=3ms"] {
        let (outcome, outcomes) = channel();
        let target = target(move |mut client| {
            client.write_all(&[9; 100_000]).unwrap();
            outcome.send(read_until_error(&mut client).1).unwrap();
        });
        let proxy = proxy(target, words);
        let (found, error) = read_until_error(&mut connect(&proxy));
        assert_eq!((found.len(), error), (10_000, ErrorKind::ConnectionReset), "{words}");
        assert_eq!(outcomes.recv_timeout(PATIENCE).unwrap(), ErrorKind::ConnectionReset, "{words}");
        let counts = proxy.stop().routes[0].connections;
        assert_eq!((counts.reset_by_impairment, counts.open), (1, 0), "{words}");
    }
}

#[test]
fn segments_reset_connections_with_their_probability() {
    let proxy = proxy(echo(), "up.reset=20%");
    let mut resets = 0;
    for _ in 0..100 {
        let mut client = connect(&proxy);
        client.write_all(b"x").unwrap();
        resets += u64::from(client.read_exact(&mut [0]).is_err());
    }
    // Five standard deviations of a binomial with n = 100, p = 0.2.
    assert!((1..=40).contains(&resets), "{resets}");
    assert_eq!(proxy.stop().routes[0].connections.reset_by_impairment, resets);
}

#[test]
fn a_direction_is_closed_after_its_bytes_and_the_other_continues() {
    let (received, receives) = channel();
    let target = target(move |mut client| {
        received.send(read_all(&mut client)).unwrap();
        client.write_all(&[4; 300_000]).unwrap();
    });
    let proxy = proxy(target, "up.close-after=5000B");
    let mut client = connect(&proxy);
    client.write_all(&bytes(1, 200_000)).unwrap();
    assert!(receives.recv_timeout(PATIENCE).unwrap() == bytes(1, 200_000)[..5000]);
    let mut found = vec![0; 300_000];
    client.read_exact(&mut found).unwrap();
    assert_eq!(proxy.handle().snapshot(false).routes[0].connections.closed_by_impairment, 1);
}

#[test]
fn refused_connections_are_refused_by_the_kernel_and_accepted_again() {
    let proxy = proxy(echo(), "refuse=100%");
    let refused = || TcpStream::connect(address(&proxy)).map(|_| ()).unwrap_err().kind();
    assert_eq!(refused(), ErrorKind::ConnectionRefused);
    proxy.handle().set(Change::parse(["none"]).unwrap()).unwrap();
    ping(&mut connect(&proxy));
    proxy.handle().set(Change::parse(["refuse=100%"]).unwrap()).unwrap();
    assert_eq!(refused(), ErrorKind::ConnectionRefused);
    proxy.handle().set(Change::parse(["refuse=off"]).unwrap()).unwrap();
    ping(&mut connect(&proxy));
    assert_eq!(proxy.stop().routes[0].connections.accepted, 2);
}

#[test]
fn a_share_of_connections_is_refused() {
    let proxy = proxy(echo(), "refuse=50%");
    let is_refused = |_: &i32| {
        let mut client = connect(&proxy);
        client.write_all(b"x").and_then(|()| client.read_exact(&mut [0])).is_err()
    };
    let refused = (0..60).filter(is_refused).count() as u64;
    // Five standard deviations of a binomial with n = 60, p = 0.5.
    assert!((11..=49).contains(&refused), "{refused}");
    let counts = proxy.stop().routes[0].connections;
    assert_eq!((counts.accepted, counts.refused), (60, refused));
}

#[test]
fn nothing_leaves_a_black_hole_and_nothing_is_lost() {
    let proxy = proxy(echo(), "none");
    let mut client = connect(&proxy);
    ping(&mut client);
    proxy.handle().set(Change::parse(["black-hole=on"]).unwrap()).unwrap();
    let sent = bytes(2, 100_000);
    client.write_all(&sent).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(proxy.handle().snapshot(false).routes[0].up.bytes, 4);
    proxy.handle().set(Change::parse(["black-hole=off"]).unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut found = vec![0; sent.len()];
    client.read_exact(&mut found).unwrap();
    assert!(found == sent);
}

#[test]
fn the_target_is_connected_after_the_connect_delay() {
    let (accepted, accepts) = channel();
    let target = target(move |_| accepted.send(Instant::now()).unwrap());
    let proxy = proxy(target, "connect-delay=150ms");
    let begin = Instant::now();
    let _client = connect(&proxy);
    assert!(accepts.recv_timeout(PATIENCE).unwrap() - begin >= Duration::from_millis(150));
}

#[test]
fn a_change_never_reorders_bytes() {
    let proxy = proxy(echo(), "up.latency=300ms");
    let mut client = connect(&proxy);
    client.write_all(b"first").unwrap();
    wait_for("the arrival", || proxy.handle().snapshot(false).routes[0].up.arrivals == 1);
    proxy.handle().set(Change::parse(["none"]).unwrap()).unwrap();
    client.write_all(b"second").unwrap();
    let mut found = [0; 11];
    client.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"firstsecond");
}

#[test]
fn the_schedule_is_carried_out_in_order() {
    let scheduled = |at, words| Scheduled::parse(at, &[words]).unwrap();
    let schedule = vec![
        scheduled("300ms", "none"),
        scheduled("100ms", "latency=70ms"),
        scheduled("200ms", "route=route up.latency=off"),
    ];
    let begin = Instant::now();
    let proxy = Proxy::start(Options { schedule, ..options(echo(), "none") }).unwrap();
    let mut seen = Vec::new();
    wait_for("the end of the schedule", || {
        let settings = proxy.handle().snapshot(false).routes[0].settings.join(" ");
        if seen.last() != Some(&settings) {
            seen.push(settings);
        }
        begin.elapsed() >= Duration::from_millis(300) && seen.last().is_some_and(String::is_empty)
    });
    // A busy machine may miss a state between two looks, but not their order.
    let states = ["", "latency=70ms", "down.latency=70ms", ""];
    let mut left = states.iter();
    assert!(seen.iter().all(|state| left.any(|expected| expected == state)), "{seen:?}");
    assert_eq!(proxy.messages().len(), 3);
}
