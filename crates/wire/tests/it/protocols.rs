//! Connections made by hand: what is found, and what is said about the rest.

use ldap::message::{LdapResult, List};
use ldap::message::{Message, NO_ATTRIBUTES, Operation as Of, START_TLS, SearchRequest};
use ldap::{Filter, ResultCode};
use model::wire::MissedKind;
use plimsoll_wire::{Outcome, Protocol, Settings};

use crate::build::{
    ACK, CLIENT_PORT, Client, Connection, FIN, RST, SERVER_PORT, SYN, Server, analyse, decode, file, missed,
    pcap,
};

pub(crate) fn encoded(id: u32, operation: Of<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Message::new(id, operation).encode(&mut out);
    out
}

pub(crate) fn search(id: u32, filter: &str) -> Vec<u8> {
    let filter = Filter::parse(filter).unwrap();
    encoded(id, Of::SearchRequest(SearchRequest::subtree("dc=example,dc=com", &filter)))
}

pub(crate) fn entry(id: u32) -> Vec<u8> {
    encoded(id, Of::SearchResultEntry { dn: "cn=a,dc=example,dc=com", attributes: List::NONE })
}

pub(crate) fn done(id: u32, code: ResultCode) -> Vec<u8> {
    encoded(id, Of::SearchResultDone(LdapResult { code, ..LdapResult::SUCCESS }))
}

pub(crate) fn bind(id: u32, name: &str) -> Vec<u8> {
    encoded(id, Of::simple_bind(name, b"hidden-value"))
}

pub(crate) fn bound(id: u32, code: ResultCode) -> Vec<u8> {
    let result = LdapResult { code, ..LdapResult::SUCCESS };
    encoded(id, Of::BindResponse { result, server_credentials: None })
}

/// A connection with a bind and a search.
fn small(client_port: u16, server_port: u16) -> Connection {
    let mut c = Connection::open(client_port, server_port);
    c.at_us += 50;
    c.send(Client, &bind(1, "cn=a"));
    c.at_us += 200;
    c.send(Server, &bound(1, ResultCode::Success));
    c.at_us += 100;
    c.send(Client, &search(2, "(uid=x)"));
    c.at_us += 300;
    c.send(Server, &entry(2));
    c.at_us += 400;
    c.send(Server, &done(2, ResultCode::Success));
    c
}

#[test]
fn operations_have_their_times_and_the_handshake_too() {
    let (document, operations) =
        analyse(&pcap(&small(CLIENT_PORT, SERVER_PORT).packets, 65_535), Settings::default());
    let times: Vec<_> = operations
        .iter()
        .map(|of| (of.kind.name(), of.time_ns(), of.first_time_ns(), of.entries, of.name.to_string()))
        .collect();
    assert_eq!(
        times,
        [
            ("bind", Some(200_000), None, 0, "cn=a".to_string()),
            ("search", Some(700_000), Some(300_000), 1, "cn=a".to_string())
        ]
    );
    let connections = &document.connections;
    assert_eq!(connections.count, 1);
    assert_eq!(connections.handshake_ms.map(|times| times.max), Some(0.03));
    assert_eq!(connections.handshake_ack_ms.map(|times| times.max), Some(0.02));
    assert_eq!(document.missed, []);
    assert_eq!(operations[1].filter_text(), "(uid=x)");
    assert_eq!(operations[1].client.to_string(), "127.0.0.1:40000");
}

#[test]
fn packets_of_every_link_are_read() {
    let packets = small(CLIENT_PORT, SERVER_PORT).packets;
    let ethernet = |types: &[u8]| [&[2; 12], types].concat();
    let links: Vec<(u32, Vec<u8>)> = vec![
        (1, ethernet(&[8, 0])),
        (1, ethernet(&[0x81, 0, 0, 7, 8, 0])),
        (1, ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 7, 8, 0])),
        (113, [&[0; 14][..], &[8, 0]].concat()),
        (276, [&[8, 0][..], &[0; 18]].concat()),
        (0, vec![2, 0, 0, 0]),
        (0, vec![0, 0, 0, 2]),
        (108, vec![0, 0, 0, 2]),
        (101, Vec::new()),
        (12, Vec::new()),
        (228, Vec::new()),
    ];
    for (link, header) in links {
        let (_, operations) = analyse(&file(&packets, link, &header, 65_535), Settings::default());
        assert_eq!(operations.len(), 2, "link type {link}, header {header:?}");
    }
    let (document, operations) = analyse(&file(&packets, 147, &[], 65_535), Settings::default());
    assert_eq!((operations.len(), missed(&document, MissedKind::OtherLinks).0), (0, packets.len() as u64));
    let (document, _) = analyse(&file(&packets, 1, &ethernet(&[8, 6]), 65_535), Settings::default());
    assert_eq!(missed(&document, MissedKind::OtherPackets).0, packets.len() as u64);
}

/// The same packets over IPv6, with extension headers.
fn over_ipv6(packet: &[u8], next: u8, extensions: &[u8]) -> Vec<u8> {
    let tcp = &packet[20..];
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(((extensions.len() + tcp.len()) as u16).to_be_bytes());
    bytes.extend([next, 64]);
    for end in [&packet[12..16], &packet[16..20]] {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(end);
    }
    bytes.extend_from_slice(extensions);
    bytes.extend_from_slice(tcp);
    bytes
}

#[test]
fn ipv6_is_read_with_its_extension_headers() {
    let packets = small(CLIENT_PORT, SERVER_PORT).packets;
    for (next, extensions, expected) in [
        (6, vec![], 2),
        // Hop-by-hop options, then destination options.
        (0, [&[60, 0][..], &[0; 6], &[6, 1], &[0; 14]].concat(), 2),
        // A fragment that is whole, and one that is not.
        (44, vec![6, 0, 0, 0, 0, 0, 0, 1], 2),
        (44, vec![6, 0, 0, 1, 0, 0, 0, 1], 0),
    ] {
        let packets: Vec<_> =
            packets.iter().map(|(at, packet)| (*at, over_ipv6(packet, next, &extensions))).collect();
        let (document, operations) = analyse(&pcap(&packets, 65_535), Settings::default());
        assert_eq!(operations.len(), expected, "{next} {extensions:?}");
        let fragments = if expected == 0 { packets.len() as u64 } else { 0 };
        assert_eq!(missed(&document, MissedKind::Fragments).0, fragments);
        if expected > 0 {
            assert_eq!(operations[0].server.to_string(), "[fd00::7f00:2]:389");
        }
    }
}

#[test]
fn responses_may_be_out_of_order_and_requests_abandoned() {
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    let requests: Vec<u8> = (1..=4).flat_map(|id| search(id, "(uid=x)")).collect();
    c.send(Client, &requests);
    c.at_us += 10;
    c.send(Client, &encoded(5, Of::AbandonRequest { id: 2 }));
    c.at_us += 10;
    c.send(Server, &[entry(3), done(3, ResultCode::Success), done(1, ResultCode::NoSuchObject)].concat());
    c.at_us += 10;
    // One nobody sent a request for.
    c.send(Server, &done(9, ResultCode::Success));
    c.flags(Client, RST);
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    let ids: Vec<_> = operations.iter().map(|of| (of.id, of.kind.name(), of.outcome)).collect();
    let expected =
        [(5, "abandon", None), (3, "search", Some(Outcome::Ldap(0))), (1, "search", Some(Outcome::Ldap(32)))];
    assert_eq!(ids, expected);
    assert_eq!(missed(&document, MissedKind::UnansweredRequests).0, 1);
    assert_eq!(missed(&document, MissedKind::ResponsesWithoutRequest).0, 1);
    assert_eq!(missed(&document, MissedKind::Abandoned).0, 1);
    assert_eq!(document.connections.resets, 1);
}

#[test]
fn what_is_encrypted_is_counted_and_not_analysed() {
    let tls = [&[0x16, 3, 1, 0, 4][..], &[7; 4]].concat();
    // From the begin, on a port of LDAP and on another one.
    for port in [389, 636] {
        let mut c = Connection::open(CLIENT_PORT, port);
        c.send(Client, &tls);
        c.send(Server, &tls);
        let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
        assert_eq!((operations.len(), missed(&document, MissedKind::Tls)), (0, (1, 18)));
        assert_eq!(document.connections.top[0].protocol, "tls");
    }
    // After StartTLS.
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    c.send(Client, &encoded(1, Of::ExtendedRequest { oid: START_TLS, value: None }));
    let result = LdapResult::SUCCESS;
    c.send(Server, &encoded(1, Of::ExtendedResponse { result, oid: Some(START_TLS), value: None }));
    c.send(Client, &tls);
    c.send(Server, &[tls.clone(), done(2, ResultCode::Success)].concat());
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!(operations.len(), 1);
    assert_eq!(operations[0].base, START_TLS);
    assert_eq!(missed(&document, MissedKind::StartTls).0, 1);
    assert_eq!(missed(&document, MissedKind::SkippedBytes).0, 0);
    // After a SASL bind.
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    let authentication =
        ldap::message::Authentication::Sasl { mechanism: "GSSAPI", credentials: Some(b"hidden-value") };
    c.send(Client, &encoded(1, Of::BindRequest { version: 3, name: "", authentication }));
    c.send(Server, &bound(1, ResultCode::Success));
    c.send(Client, &[0, 0, 0, 4, 1, 2, 3, 4]);
    c.send(Server, &[0, 0, 0, 4, 1, 2, 3, 4]);
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!((&*operations[0].name, missed(&document, MissedKind::SaslLayer).0), ("SASL GSSAPI", 1));
}

#[test]
fn a_capture_begun_in_mid_stream_is_read_from_the_next_message() {
    let mut c = Connection::new(CLIENT_PORT, SERVER_PORT);
    // The rest of an entry, then the end of its search, in one segment.
    c.send(Server, &[&entry(7)[9..], &done(7, ResultCode::Success)].concat());
    c.send(Client, &search(8, "(uid=x)"));
    c.at_us += 100;
    c.send(Server, &[entry(8), done(8, ResultCode::Success)].concat());
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!(operations.iter().map(|of| of.id).collect::<Vec<_>>(), [8]);
    assert_eq!(&*operations[0].name, "(not captured)");
    assert_eq!(document.connections.begun_before, 1);
    assert!(missed(&document, MissedKind::SkippedBytes).1 > 0);
}

#[test]
fn lost_segments_are_gaps_and_the_next_message_is_found() {
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    c.send(Client, &[search(1, "(uid=x)"), search(2, "(uid=y)")].concat());
    let lost = [entry(1), done(1, ResultCode::Success)].concat();
    c.skip(Server, lost.len());
    // The client has acknowledged what was not captured.
    c.flags(Client, ACK);
    c.at_us += 100;
    c.send(Server, &done(2, ResultCode::Success));
    // The gap is given up at once, not when the next segment comes.
    c.at_us += 500;
    c.send(Client, &encoded(3, Of::UnbindRequest));
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    let times: Vec<_> = operations.iter().map(|of| (of.id, of.time_ns())).collect();
    assert_eq!(times, [(2, Some(100_000)), (3, None)]);
    assert_eq!((document.connections.gaps, document.connections.gap_bytes), (1, lost.len() as u64));
    assert_eq!(missed(&document, MissedKind::UnansweredRequests).0, 1);
}

#[test]
fn a_jump_of_the_sequence_numbers_ends_the_current_message() {
    for jump in [100 << 20, 0_u32.wrapping_sub(100 << 20)] {
        let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
        c.send(Client, &search(1, "(uid=x)"));
        // The begin of a message of 60,000 bytes.
        c.send(Server, &[0x30, 0x82, 0xea, 0x60, 2, 1, 1, 0x64, 0x82, 0xea, 0x59, 4, 0]);
        c.next[1] = c.next[1].wrapping_add(jump);
        c.at_us += 100;
        c.send(Server, &done(1, ResultCode::Success));
        let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
        assert_eq!(operations.iter().map(|of| of.time_ns()).collect::<Vec<_>>(), [Some(100_000)]);
        let of = &document.connections;
        assert_eq!((of.gaps, of.gap_bytes, of.retransmissions), (1, 0, 0));
    }
}

#[test]
fn truncated_packets_are_passed_over_by_the_length_of_their_messages() {
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    let long = format!("(uid={})", "x".repeat(300));
    c.send(Client, &search(1, &long));
    c.at_us += 100;
    let dn = format!("cn={}", "y".repeat(400));
    c.send(Server, &encoded(1, Of::SearchResultEntry { dn: &dn, attributes: List::NONE }));
    c.send(Server, &done(1, ResultCode::Success));
    let (document, operations) = analyse(&pcap(&c.packets, 120), Settings::default());
    // The base is there, the filter is not.
    assert_eq!(operations.len(), 1);
    assert_eq!(
        (operations[0].base.as_str(), operations[0].filter_text().as_str()),
        ("dc=example,dc=com", "")
    );
    assert_eq!((operations[0].entries, operations[0].time_ns()), (1, Some(100_000)));
    assert_eq!(missed(&document, MissedKind::TruncatedPackets).0, 2);
    assert_eq!(missed(&document, MissedKind::SkippedBytes).0, 0);
}

#[test]
fn segments_that_are_sent_again_or_change_their_order_are_counted() {
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    c.send(Client, &search(1, "(uid=x)"));
    let again = c.packets.last().unwrap().1.clone();
    c.at_us += 100;
    c.packets.push((c.at_us, again));
    let response = [entry(1), done(1, ResultCode::Success)].concat();
    let (first, second) = response.split_at(20);
    let second_packet = c.segment(Server, c.next[1].wrapping_add(20), ACK, second);
    c.packets.push(second_packet);
    c.at_us += 10;
    c.send(Server, first);
    c.skip(Server, second.len());
    c.window = 0;
    c.flags(Client, ACK);
    c.flags(Client, FIN | ACK);
    c.flags(Server, FIN | ACK);
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!(operations[0].time_ns(), Some(110_000));
    let of = &document.connections;
    assert_eq!((of.retransmissions, of.out_of_order, of.zero_windows, of.gaps), (1, 1, 1, 0));
}

#[test]
fn the_end_of_a_connection_may_come_before_its_last_data() {
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    c.send(Client, &search(1, "(uid=x)"));
    let response = done(1, ResultCode::Success);
    let late = c.segment(Server, c.next[1], ACK, &response);
    c.skip(Server, response.len());
    c.flags(Server, FIN | ACK);
    c.flags(Client, FIN | ACK);
    c.packets.push(late);
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!((operations.len(), document.missed), (1, vec![]));
}

#[test]
fn ldap_is_recognized_on_any_port_and_other_protocols_are_counted() {
    let (document, operations) =
        analyse(&pcap(&small(CLIENT_PORT, 3389).packets, 65_535), Settings::default());
    assert_eq!((operations.len(), document.missed.len()), (2, 0));
    let mut c = Connection::open(CLIENT_PORT, 25);
    c.send(Server, b"220 mail.example.com ESMTP ready, and more words than are needed to be sure of it\r\n");
    c.send(Client, b"EHLO client.example.com, and more words than are needed to be sure of it, really\r\n");
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!((operations.len(), missed(&document, MissedKind::OtherConnections).0), (0, 1));
    assert_eq!(document.connections.count, 0);
}

#[test]
fn bytes_that_are_no_message_are_skipped_on_a_port_of_ldap() {
    let mut c = Connection::open(CLIENT_PORT, SERVER_PORT);
    c.send(Client, &search(1, "(uid=x)"));
    c.send(Server, &[7; 100]);
    c.send(Server, &done(1, ResultCode::Success));
    // A message of an unknown type, then one without a request.
    c.send(Client, &[0x30, 5, 2, 1, 9, 0x5e, 0]);
    let notice = LdapResult { code: ResultCode::Unavailable, ..LdapResult::SUCCESS };
    c.send(
        Server,
        &encoded(0, Of::ExtendedResponse { result: notice, oid: Some(NO_ATTRIBUTES), value: None }),
    );
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!(operations.len(), 1);
    assert_eq!(missed(&document, MissedKind::SkippedBytes).1, 100);
    assert_eq!(missed(&document, MissedKind::UnknownMessages).0, 1);
    assert_eq!(missed(&document, MissedKind::Unsolicited).0, 1);
}

#[test]
fn http_is_followed_over_a_connection() {
    let mut c = Connection::open(CLIENT_PORT, 8081);
    let requests = "GET http://user:hidden-value@h/a?token=hidden-value HTTP/1.1\r\nHost: h\r\n\r\nHEAD /b HTTP/1.1\r\nHost: h\r\n\r\n";
    c.send(Client, requests.as_bytes());
    c.at_us += 100;
    c.send(Server, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    c.at_us += 100;
    c.send(Server, b"lo\r\n0\r\nX: y\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 900\r\n\r\n");
    c.at_us += 100;
    c.send(Client, b"POST /c HTTP/1.1\r\nContent-Length: 4\r\n\r\nab");
    c.at_us += 100;
    c.send(Server, b"HTTP/1.1 100 Continue\r\n\r\n");
    c.send(Client, b"cd");
    c.at_us += 100;
    c.send(Server, b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
    c.at_us += 100;
    c.send(Server, b" of the connection");
    c.flags(Server, FIN | ACK);
    c.at_us += 77;
    c.flags(Client, FIN | ACK);
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    let seen: Vec<_> = operations
        .iter()
        .map(|of| (of.kind.name(), of.path.as_str(), of.outcome, of.time_ns(), of.first_time_ns()))
        .collect();
    assert_eq!(
        seen,
        [
            ("get", "/a", Some(Outcome::Http(200)), Some(200_000), Some(100_000)),
            ("head", "/b", Some(Outcome::Http(404)), Some(200_000), Some(200_000)),
            ("post", "/c", Some(Outcome::Http(200)), Some(200_000), Some(100_000)),
        ]
    );
    assert_eq!(document.missed, []);
    assert!(!format!("{document:?}{operations:?}").contains("hidden"));
}

#[test]
fn other_versions_of_http_and_tunnels_are_counted() {
    let mut c = Connection::open(CLIENT_PORT, 80);
    c.send(Client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let (document, _) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!(missed(&document, MissedKind::Http2).0, 1);
    let mut c = Connection::open(CLIENT_PORT, 80);
    c.send(Client, b"GET /socket HTTP/1.1\r\nUpgrade: websocket\r\n\r\n");
    c.at_us += 5;
    c.send(Server, b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05hello");
    c.send(Client, b"\x81\x05hello");
    let (document, operations) = analyse(&pcap(&c.packets, 65_535), Settings::default());
    assert_eq!(operations[0].time_ns(), Some(5000));
    assert_eq!(
        (missed(&document, MissedKind::Tunnel).0, missed(&document, MissedKind::SkippedBytes).0),
        (1, 0)
    );
}

#[test]
fn ports_are_used_again_by_other_connections() {
    let mut packets = Vec::new();
    for round in 0..3 {
        let mut c = small(CLIENT_PORT, 3389);
        c.packets.iter_mut().for_each(|(at, packet)| {
            *at += round * 10_000;
            // Other sequence numbers.
            packet[24] = packet[24].wrapping_add(round as u8);
        });
        c.packets[0].1[33] = SYN;
        packets.append(&mut c.packets);
    }
    let (document, operations) = analyse(&pcap(&packets, 65_535), decode(3389, Protocol::Ldap));
    assert_eq!((operations.len(), document.connections.count), (6, 3));
}

#[test]
fn more_connections_than_fit_are_forgotten_and_counted() {
    let mut packets = Vec::new();
    for number in 0..70_000_u32 {
        let mut c = Connection::new((number % 60_000 + 1024) as u16, SERVER_PORT);
        c.at_us = u64::from(number);
        c.send(Client, &search(1, "(uid=x)"));
        let (at, mut packet) = c.packets.remove(0);
        packet[14] = (number / 60_000) as u8;
        packets.push((at, packet));
    }
    let (document, operations) = analyse(&pcap(&packets, 65_535), Settings::default());
    assert_eq!((operations.len(), document.connections.count), (0, 70_000));
    assert_eq!(missed(&document, MissedKind::UnansweredRequests).0, 70_000);
    assert!(missed(&document, MissedKind::ConnectionLimit).0 >= 70_000 - 65_536);
}
