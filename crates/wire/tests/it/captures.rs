//! Captures of real servers, beside tshark.

use std::collections::BTreeMap;
use std::process::Command;

use plimsoll_wire::{Kind, Operation, Outcome, Protocol, Settings};
use testkit::{Need, Scratch, lacks, need};

use crate::build::{analyse, decode};

const LDAP: &[u8] = include_bytes!("../../fixtures/ldap.pcap");
const HTTP: &[u8] = include_bytes!("../../fixtures/http.pcapng");

#[test]
fn no_credentials_are_in_anything_that_is_found() {
    for (bytes, settings) in [(LDAP, decode(18600, Protocol::Ldap)), (HTTP, Settings::default())] {
        let (document, operations) = analyse(bytes, settings);
        assert!(!operations.is_empty());
        let texts: String = operations.iter().map(|of| format!("{:?}", of.document(0))).collect();
        let all = format!("{document:?}{texts}");
        for secret in ["hidden-value", "wrong-password", "=secret"] {
            assert!(!all.contains(secret), "{secret}");
        }
    }
}

#[test]
fn a_server_of_http_is_read() {
    let (document, operations) = analyse(HTTP, Settings::default());
    let seen: Vec<_> = operations
        .iter()
        .map(|of| (of.kind.name(), of.path.as_str(), of.outcome, of.response_bytes))
        .collect();
    let status = |status| Some(Outcome::Http(status));
    assert_eq!(
        seen,
        [
            ("get", "/", status(200), 3114),
            ("get", "/chunked", status(200), 262),
            ("get", "/none", status(404), 122),
            ("head", "/", status(200), 114),
            ("post", "/form", status(204), 125),
        ]
    );
    assert_eq!(document.connections.count, 3);
}

/// tshark's fields of the packets that a filter selects, one line each.
fn tshark(bytes: &[u8], decode: &str, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let folder = Scratch::new();
    let path = folder.file("capture", bytes);
    let mut command = Command::new(need::program("tshark").unwrap());
    command.args(["-n", "-d", decode, "-Y", filter, "-T", "fields", "-r"]).arg(path);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.split('\t').map(String::from).collect()).collect()
}

/// Kinds with their response times in microseconds, as often as they occur.
pub(crate) type Times = BTreeMap<(String, i64), usize>;

pub(crate) fn times(operations: &[Operation]) -> Times {
    let mut times = Times::new();
    for operation in operations {
        if let Some(ns) = operation.time_ns() {
            *times.entry((operation.kind.name().to_string(), (ns as i64 + 500) / 1000)).or_default() += 1;
        }
    }
    times
}

/// The same as tshark's fields say it.
pub(crate) fn times_of_tshark(bytes: &[u8], port: u16) -> Times {
    let results = [
        (1, "bind"),
        (5, "search"),
        (7, "modify"),
        (9, "add"),
        (11, "delete"),
        (13, "modrdn"),
        (15, "compare"),
        (24, "extended"),
    ];
    let fields = ["ldap.protocolOp", "ldap.time"];
    let mut times = Times::new();
    for line in tshark(bytes, &format!("tcp.port=={port},ldap"), "ldap.time", &fields) {
        let operations = line[0].split(',').map(|operation| operation.parse::<u32>().unwrap());
        // Entries and references have a time as well; requests do not.
        let responses =
            operations.filter(|of| matches!(of, 4 | 19) || results.iter().any(|(tag, _)| tag == of));
        for (tag, seconds) in responses.zip(line[1].split(',')) {
            let Some((_, kind)) = results.iter().find(|(result, _)| *result == tag) else { continue };
            let us = (seconds.parse::<f64>().unwrap() * 1e6).round() as i64;
            *times.entry((kind.to_string(), us)).or_default() += 1;
        }
    }
    times
}

#[test]
fn counts_and_times_are_those_of_tshark() {
    if lacks(Need::Program("tshark")) {
        return;
    }
    let (_, operations) = analyse(LDAP, decode(18600, Protocol::Ldap));
    assert_eq!(times(&operations), times_of_tshark(LDAP, 18600));
    let requests = tshark(LDAP, "tcp.port==18600,ldap", "ldap", &["ldap.protocolOp"]);
    let requests = requests.iter().flat_map(|line| line[0].split(',').map(|tag| tag.parse::<u32>().unwrap()));
    let searches = requests.filter(|tag| *tag == 3).count();
    let kinds: Vec<Kind> = operations.iter().map(|of| of.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| kind.name() == "search").count(), searches);
}

#[test]
fn times_of_http_are_those_of_tshark() {
    if lacks(Need::Program("tshark")) {
        return;
    }
    let (_, operations) = analyse(HTTP, Settings::default());
    let of_tshark: Vec<(u32, i64)> = tshark(
        HTTP,
        "tcp.port==18610,http",
        "http.time && http.response.code >= 200",
        &["http.response.code", "http.time"],
    )
    .iter()
    .map(|line| (line[0].parse().unwrap(), (line[1].parse::<f64>().unwrap() * 1e6).round() as i64))
    .collect();
    let ours: Vec<(u32, i64)> = operations
        .iter()
        .map(|of| (of.outcome.unwrap().number(), of.time_ns().unwrap() as i64 / 1000))
        .collect();
    assert_eq!(ours, of_tshark);
}
