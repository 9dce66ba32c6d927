//! `plimsoll wire` on captures of real servers.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use testkit::slapd::{SUFFIX, SlapdOptions, organization};
use testkit::{Need, Slapd, lacks, need};

use crate::program::{Place, command, run};

const LDAP: &[u8] = include_bytes!("../../../wire/fixtures/ldap.pcap");

/// A place with the capture of a directory.
fn place(name: &str) -> Place {
    let place = Place::new(name);
    fs::write(place.path("ldap.pcap"), LDAP).unwrap();
    place
}

#[test]
fn a_capture_is_summarized_listed_and_written_as_a_page() {
    let place = place("wire");
    let arguments = ["wire", "ldap.pcap", "--decode", "18600=ldap", "--slow", "1ms", "--html", "wire.html"];
    let done = run(&place, &arguments);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    for part in ["43 operations", "invalidCredentials (49)", "(uid=?*)", "took longer than 1.00 ms"] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    let page = fs::read_to_string(place.path("wire.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Operations per second over time"));

    let done = run(&place, &["wire", "ldap.pcap", "--json", "--top", "2"]);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["format"], "plimsoll.wire/1");
    assert_eq!(document["slowest"].as_array().unwrap().len(), 2);

    // On standard input, and only some of them.
    let list = ["wire", "-", "--operations", "--format", "csv", "--where", "kind = search and entries > 0"];
    let mut child = command(&place, &list).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(LDAP).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(0), 10), "{text}");

    let done = run(&place, &["wire", "ldap.pcap", "--operations", "--format", "json"]);
    assert!(done.out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert_eq!(done.out.lines().count(), 43);
    for form in [&page, &text, &done.out] {
        assert!(!form.contains("hidden-value") && !form.contains("wrong-password"));
    }
}

#[test]
fn a_damaged_capture_is_an_error_and_what_was_read_is_shown() {
    let place = Place::new("wire-damaged");
    fs::write(place.path("cut.pcap"), &LDAP[..LDAP.len() - 5]).unwrap();
    fs::write(place.path("text"), "no capture").unwrap();
    let done = run(&place, &["wire", "cut.pcap"]);
    assert_eq!(done.code, 1);
    assert!(done.out.contains("43 operations"), "{}", done.out);
    let at = format!("error: cut.pcap, byte {}: the file ends within a packet", LDAP.len() - 16 - 66);
    assert!(done.err.starts_with(&at), "{}", done.err);
    let done = run(&place, &["wire", "text"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("not pcap, pcapng or snoop"), "{}", done.err);
    assert_eq!(run(&place, &["wire", "missing.pcap"]).code, 2);
}

#[test]
fn all_mistakes_of_a_command_line_are_reported_at_once() {
    let place = place("wire-mistakes");
    let arguments =
        ["wire", "ldap.pcap", "--where", "tim > 1s and code = sucess", "--slow", "1", "--decode", "x=y"];
    let done = run(&place, &arguments);
    assert_eq!(done.code, 2);
    let expected = "error: --decode: `x` is not a port: write PORT=PROTOCOL, such as 3389=ldap or 8081=http
error: --where, column 1: an operation has no property `tim`
  tim > 1s and code = sucess
  ^
  did you mean `time`?
error: --where, column 21: there is no result code `sucess`
  tim > 1s and code = sucess
                      ^
  did you mean `success`?
error: --slow: `1` is not a duration: write a number with us, ms, s, m or h, such as \"30s\"
";
    assert_eq!(done.err, expected);
}

#[test]
fn a_live_capture_without_a_program_for_it_says_what_to_install() {
    let place = Place::new("wire-live");
    let output = command(&place, &["wire", "--live", "lo", "--for", "1s"]).env("PATH", "").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("neither tcpdump nor dumpcap is installed"), "{error}");
    if lacks(Need::Program("tcpdump")) {
        return;
    }
    let done = run(&place, &["wire", "--live", "no-such-interface", "--for", "1s"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("the capture on no-such-interface failed"), "{}", done.err);
}

#[test]
fn a_live_capture_sees_the_operations_of_a_server() {
    if lacks(Need::Root) || lacks(Need::Program("tcpdump")) || lacks(Need::Program("ldapsearch")) {
        return;
    }
    let ldif = organization(&["people"]);
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let place = Place::new("wire-on-lo");
    let decode = format!("{}=ldap", slapd.port());
    let live = ["wire", "--live", "lo", "--decode", &decode, "--operations", "--where", "kind = search"];
    let mut child = command(&place, &live).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = slapd.url();
    // The capture begins some time after the program: until it sees one.
    let (sender, seen) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains("(cn=seen)"));
            let _ = sender.send(line);
            lines.for_each(drop);
        });
        let mut found = None;
        for _ in 0..100 {
            let search = ["-x", "-H", &url, "-b", SUFFIX, "(cn=seen)"];
            Command::new(need::program("ldapsearch").unwrap()).args(search).output().unwrap();
            if let Ok(line) = seen.recv_timeout(std::time::Duration::from_millis(200)) {
                found = line;
                break;
            }
        }
        assert!(found.is_some_and(|line| line.contains("success")));
        // As Ctrl-C does.
        let id = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    });
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{errors}");
}

#[test]
fn the_record_of_a_load_agrees_with_the_wire() {
    if lacks(Need::Root) || lacks(Need::Program("tcpdump")) {
        return;
    }
    let ldif = organization(&["people"]);
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let place = Place::new("wire-against");
    let mut tcpdump = Command::new(need::program("tcpdump").unwrap())
        .args(["-i", "lo", "-U", "-s", "256", "-B", "16384", "-Z", "root", "-w"])
        .arg(place.path("load.pcap"))
        .arg(format!("tcp port {}", slapd.port()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(tcpdump.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = slapd.url();
    let load = ["--rate", "100/s", "--warm-up", "200ms", "--duration", "1s", "--quiet", "--run-dir", "load"];
    assert!(run(&place, &[&["ldap", "search", &url, "--base", SUFFIX][..], &load].concat()).measured());
    // The kernel hands over the last packets within a second.
    let arguments = ["wire", "load.pcap", "--against", "load", "--json"];
    let mut document = serde_json::Value::Null;
    for _ in 0..50 {
        document = serde_json::from_str(&run(&place, &arguments).out).unwrap_or_default();
        if document["against"]["covered"].as_f64().is_some_and(|covered| covered > 0.999) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let id = rustix::process::Pid::from_raw(tcpdump.id() as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    tcpdump.wait().unwrap();
    let against = &document["against"];
    let kind = &against["kinds"][0];
    assert_eq!((&kind["kind"], &kind["counts_agree"]), (&"search".into(), &true.into()), "{against}");
    assert!(kind["client_count"].as_u64().unwrap() > 0);
    let findings = against["findings"].as_array().unwrap();
    assert!(findings[0].as_str().unwrap().contains("the counts agree"), "{against}");
}
