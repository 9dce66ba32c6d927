//! Tests of bearer tokens.

use plimsoll_scim::{Options, Server, StartError};
use testkit::Scratch;

use crate::common::{Peer, Running, SCIM};

const TOKEN: &str = "a-token-5e1c";

#[test]
fn a_service_that_other_hosts_reach_needs_a_token() {
    let scratch = Scratch::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let options = || Options { listen: listen.into(), ..Options::new(scratch.join("scim.db")) };
        match Server::start(options()) {
            Err(StartError::NoToken(address)) => assert!(address.ip().is_unspecified()),
            // The host has no IPv6.
            Err(StartError::Listen(..)) if listen.starts_with('[') => continue,
            other => panic!("{other:?}"),
        }
        assert!(!scratch.join("scim.db").exists());
        for token in ["", "\n", "two words"] {
            let started = Server::start(Options { token: Some(token.into()), ..options() });
            assert!(matches!(started, Err(StartError::UnusableToken)), "{token:?}");
        }
    }
    let options = Options {
        listen: "0.0.0.0:0".into(),
        token: Some(TOKEN.into()),
        ..Options::new(scratch.join("scim.db"))
    };
    let server = Server::start(options).unwrap();
    let port = server.url().split([':', '/']).nth(4).unwrap().to_string();
    let mut peer = Peer::new(format!("127.0.0.1:{port}").parse().unwrap());
    assert_eq!(peer.send("GET", "/Users", &[], "").status, 401);
    assert_eq!(peer.send("GET", "/Users", &[&format!("Authorization: Bearer {TOKEN}")], "").status, 200);
}

#[test]
fn only_the_whole_token_is_accepted() {
    let service = Running::with(|options| Options { token: Some(TOKEN.into()), ..options });
    let good = format!("Authorization: Bearer {TOKEN}");
    for (headers, status) in [
        (vec![], 401),
        (vec!["Authorization: Bearer".to_string()], 401),
        (vec!["Authorization: Bearer ".into()], 401),
        (vec![format!("Authorization: {TOKEN}")], 401),
        (vec![format!("Authorization: Basic {TOKEN}")], 401),
        (vec![good[..good.len() - 1].into()], 401),
        (vec![format!("{good}x")], 401),
        (vec![good.clone(), good.clone()], 401),
        (vec![good.clone()], 200),
        (vec![format!("authorization: bearer {TOKEN}")], 200),
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        for path in ["/Users", "/ServiceProviderConfig"] {
            let answer = service.send("GET", path, &headers, "");
            assert_eq!(answer.status, status, "{headers:?}");
            assert!(!answer.body.contains(TOKEN));
        }
    }
}

#[test]
fn without_the_token_no_body_is_read() {
    let service = Running::with(|options| Options { token: Some(TOKEN.into()), ..options });
    let host = service.address;
    let mut peer = service.connect();
    peer.write(
        format!("POST /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n{SCIM}\r\nContent-Length: 1000000\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(peer.answer().unwrap().status, 401);
    assert!(peer.is_closed());
}
