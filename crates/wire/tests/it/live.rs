//! A capture that is made for the test: slapd under searches with several in flight, beside tshark.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use ldap::ResultCode;
use plimsoll_wire::Protocol;
use rustix::process::{Pid, Signal, kill_process};
use testkit::slapd::{self, SlapdOptions};
use testkit::{Need, Scratch, Slapd, lacks, need};

use crate::build::{analyse, decode};
use crate::captures::{times, times_of_tshark};
use crate::protocols::search;

#[test]
fn pipelined_searches_of_a_real_server_are_those_of_tshark() {
    if lacks(Need::Root) || lacks(Need::Program("tcpdump")) || lacks(Need::Program("tshark")) {
        return;
    }
    let options =
        SlapdOptions { ldif: slapd::organization(&["people", "groups"]), ..SlapdOptions::default() };
    let Some(server) = Slapd::start(&options) else { return };
    let folder = Scratch::new();
    let path = folder.join("capture");
    let mut tcpdump = Command::new(need::program("tcpdump").unwrap())
        .args(["-i", "lo", "-U", "-s", "0", "-Z", "root", "-w"])
        .arg(&path)
        .arg(format!("tcp port {}", server.port()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says when it listens.
    let mut said = BufReader::new(tcpdump.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");

    let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let mut requests: Vec<u8> = Vec::new();
    for id in 1..=40 {
        requests.extend(search(id, if id % 2 == 0 { "(objectClass=*)" } else { "(ou=none)" }));
    }
    // In pieces that are no messages.
    for piece in requests.chunks(100) {
        connection.write_all(piece).unwrap();
    }
    let mut received = Vec::new();
    let mut ends = 0;
    let mut buffer = [0; 4096];
    while ends < 40 {
        let count = std::io::Read::read(&mut connection, &mut buffer).unwrap();
        assert!(count > 0, "the server closed the connection");
        received.extend_from_slice(&buffer[..count]);
        while let Ok(Some(summary)) = ldap::message::scan(&received, 1 << 20) {
            if summary.length > received.len() {
                break;
            }
            ends += usize::from(summary.is_last);
            received.drain(..summary.length);
        }
    }
    drop(connection);
    // Until the last response is in the file.
    let is_there = || {
        std::fs::read(&path)
            .is_ok_and(|bytes| analyse(&bytes, decode(server.port(), Protocol::Ldap)).1.len() >= 40)
    };
    for _ in 0..500 {
        if is_there() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill_process(Pid::from_raw(tcpdump.id() as i32).unwrap(), Signal::INT).unwrap();
    tcpdump.wait().unwrap();

    let bytes = std::fs::read(&path).unwrap();
    let (document, operations) = analyse(&bytes, decode(server.port(), Protocol::Ldap));
    assert_eq!(operations.len(), 40);
    assert!(operations.iter().all(|of| of.outcome.unwrap().number() == ResultCode::Success.number()));
    assert_eq!(operations.iter().map(|of| of.entries).sum::<u64>(), 20 * 3);
    assert_eq!(document.kinds[0].results[0].count, 40);
    assert_eq!(times(&operations), times_of_tshark(&bytes, server.port()));
}
