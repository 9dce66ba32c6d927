//! A target that is not there, or goes and comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;

use plimsoll_delay::{Options, Proxy, RouteOptions, StartError};

use crate::net::{connect, proxy, read_until_error, wait_for};

#[test]
fn a_target_that_vanishes_is_reported_and_its_clients_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let proxy = proxy(target, "none");
    let mut first = connect(&proxy);
    let (mut peer, _) = listener.accept().unwrap();
    drop(listener);
    for _ in 0..2 {
        assert_eq!(read_until_error(&mut connect(&proxy)), (Vec::new(), ErrorKind::ConnectionReset));
    }
    // The connection before is still there.
    peer.write_all(b"still").unwrap();
    let mut found = [0; 5];
    first.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"still");
    let snapshot = proxy.handle().snapshot(false);
    let route = &snapshot.routes[0];
    assert_eq!((route.connections.unreachable, route.connections.open), (2, 1));
    assert!(route.last_error.contains("Connection refused"), "{}", route.last_error);
    let messages = proxy.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].starts_with(&format!("warning: {target} cannot be reached")), "{messages:?}");

    // The port is that of a socket of this test, so nobody else has it.
    let listener = TcpListener::bind(target).unwrap();
    let _second = connect(&proxy);
    listener.accept().unwrap();
    wait_for("the message", || proxy.messages().iter().any(|message| message.contains("reached again")));
}

#[test]
fn what_cannot_start_says_why() {
    let route = |listen: &str, target: &str| RouteOptions::new("route", listen, target).unwrap();
    let start = |routes: Vec<RouteOptions>| Proxy::start(Options::new(routes)).map(|_| ()).unwrap_err();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    assert!(matches!(start(vec![route(&taken, "127.0.0.1:9")]), StartError::Listen(..)));
    let no_host = route("127.0.0.1:0", "no-such-host.invalid:389");
    assert!(matches!(start(vec![no_host]), StartError::Target(..)));
    let other_hosts = start(vec![route("0.0.0.0:0", "127.0.0.1:9")]).to_string();
    assert!(other_hosts.contains("other hosts can connect"), "{other_hosts}");
    assert!(start(Vec::new()).to_string().contains("no route"));
    let twice = start(vec![route("127.0.0.1:0", "127.0.0.1:9"), route("127.0.0.1:0", "127.0.0.1:9")]);
    assert!(twice.to_string().contains("two routes have the name `route`"), "{twice}");
}

#[test]
fn a_proxy_does_not_connect_to_itself() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let route = RouteOptions::new("route", &free, &free).unwrap();
    let error = Proxy::start(Options::new(vec![route])).unwrap_err();
    assert!(matches!(error, StartError::Loop(_)), "{error}");
}
