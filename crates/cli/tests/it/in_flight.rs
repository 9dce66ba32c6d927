//! Operations that are in flight when the measured time ends: they are in the times and the goals, and what never ends is
//! censored.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use testkit::slapd::{SUFFIX, SlapdOptions, organization};
use testkit::{Need, Slapd};

use crate::program::{Finished, Place, command, run};

/// A server that answers this many requests, and the others only after this time; none for never.
fn freezing(answered: u64, frozen: Option<Duration>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let answer = move |stream: TcpStream, count: &AtomicU64| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        let mut line = String::new();
        while matches!(reader.read_line(&mut line), Ok(1..)) {
            if line == "\r\n" {
                if count.fetch_add(1, Ordering::Relaxed) >= answered {
                    std::thread::sleep(frozen.unwrap_or(Duration::from_secs(600)));
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
            line.clear();
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || answer(stream, &count));
        }
    });
    format!("http://{address}/")
}

/// Reads a stream line by line until a line has these words. Returns what was read.
fn read_until(stream: &mut impl BufRead, words: &str) -> String {
    let mut all = String::new();
    while !all.contains(words) {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "it ended without `{words}`: {all}");
        all.push_str(&line);
    }
    all
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Runs a load, and ends its wait for operations in flight as a user does. Returns what it printed as JSON, too.
fn impatient(place: &Place, arguments: &[&str]) -> (Finished, Value) {
    let mut command = command(place, arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut error = BufReader::new(child.stderr.take().unwrap());
    let mut err =
        read_until(&mut error, "in flight, at most 30 s: Ctrl-C twice ends the wait, with the result");
    interrupt(&child);
    err += &read_until(&mut error, "Ctrl-C again ends the wait, with the result");
    interrupt(&child);
    error.read_to_string(&mut err).unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let document = serde_json::from_str(&out).unwrap();
    (Finished { code: output.status.code().unwrap_or(-1), out, err }, document)
}

/// The code, or that of a load generator which other work leaves no CPU.
fn expected(code: i32, document: &Value) -> i32 {
    if document["verdict"]["kind"] == "generator_bound" { 97 } else { code }
}

fn first(document: &Value) -> &Value {
    &document["trials"][0]["operations"][0]
}

/// A part of the operations.
fn part<'d>(document: &'d Value, name: &str) -> &'d Value {
    let all = document["trials"][0]["derived"].as_array().unwrap();
    all.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{name} in {all:?}"))
}

fn texts(document: &Value) -> String {
    format!("{}{}{}", document["trials"][0]["doubts"], document["doubts"], document["verdict"])
}

#[test]
fn a_server_that_stalls_at_the_end_misses_its_goal() {
    let place = Place::new("stalls-at-the-end");
    let url = freezing(75, Some(Duration::from_secs(2)));
    let load = ["--rate", "50/s", "--duration", "3s", "--warm-up", "0s", "--timeout", "20s", "--json"];
    let goals = ["--goal", "response.p95 <= 300ms", "--run-dir", "r"];
    let done = run(&place, &[&["http", &url][..], &load, &goals].concat());
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let get = first(&document);
    assert_eq!(done.code, expected(99, &document), "{get} {}", done.err);
    // All that were due have a time, and those that were answered later are no throughput.
    let [completed, ended] = [&get["completed"], &get["due"]["ended"]].map(|count| count.as_u64().unwrap());
    assert_eq!((ended, &get["censored"]), (150, &Value::from(0)), "{get}");
    assert!(completed < 100, "{get}");
    assert!(get["response_ms"]["p95"].as_f64().unwrap() > 1000.0, "{get}");
    let texts = texts(&document);
    assert!(!texts.contains("please report"), "{texts}");
    assert!(texts.contains("that were due in the measured time ended after it"), "{texts}");
    // The record says the same.
    let shown = run(&place, &["show", "r", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown.out).unwrap(), document);
}

#[test]
fn what_is_not_answered_is_censored_and_decides_no_goal() {
    let place = Place::new("censored");
    let url = freezing(75, None);
    let load = ["--rate", "50/s", "--duration", "3s", "--warm-up", "0s", "--timeout", "100s", "--json"];
    let goals = ["--goal", "response.p95 <= 60s", "--goal", "get:first_byte.p95 <= 60s", "--run-dir", "r"];
    let (done, document) = impatient(&place, &[&["http", &url][..], &load, &goals].concat());
    let get = first(&document);
    // Nor did their first bytes come.
    let first_byte = part(&document, "get:first_byte");
    assert_eq!(
        (&first_byte["due"]["ended"], &first_byte["censored"]),
        (&75.into(), &75.into()),
        "{first_byte}"
    );
    assert_eq!(document["goal"]["goals"][1]["undecided"], Value::from(true), "{}", document["goal"]);
    assert_eq!(done.code, 130, "{get} {}", done.err);
    let [ended, censored] = [&get["due"]["ended"], &get["censored"]].map(|count| count.as_u64().unwrap());
    assert_eq!((ended, censored), (75, 75), "{get}");
    // The faster half is known.
    let bounds: Vec<&str> = get["response_ms"]["at_least"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part.as_str().unwrap())
        .collect();
    assert_eq!(bounds, ["mean", "p90", "p95", "p99", "p999", "max"], "{get}");
    let goal = &document["goal"]["goals"][0];
    assert_eq!((&goal["met"], &goal["undecided"]), (&Value::from(false), &Value::from(true)), "{goal}");
    assert!(!texts(&document).contains("please report"), "{}", texts(&document));
    let shown = run(&place, &["show", "r"]);
    assert!(shown.out.contains("undecided") && shown.out.contains(">= "), "{}", shown.out);
    // No bound meets a goal, and one can miss it.
    let goals = ["--goal", "response.p95 <= 300ms", "--run-dir", "missed"];
    let url = freezing(75, None);
    let (_, missed) = impatient(&place, &[&["http", &url][..], &load, &goals].concat());
    let goal = &missed["goal"]["goals"][0];
    assert_eq!((&goal["met"], &goal["undecided"]), (&Value::from(false), &Value::Null), "{goal}");
    // Nothing is left to do in either run: their answers decide the exit codes.
    for (directory, code, document) in [("r", 98, &document), ("missed", 99, &missed)] {
        let resumed = run(&place, &["run", "--resume", directory, "--quiet"]);
        assert_eq!(resumed.code, expected(code, document), "{}", resumed.err);
    }
}

/// Starts a load that is killed at once when the condition holds.
fn killed(place: &Place, arguments: &[&str], directory: &str, when: impl Fn(&str) -> bool) -> Value {
    let mut command = command(place, &[arguments, &["--run-dir", directory]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let intervals = place.path(directory).join("trials/001-baseline.r1/intervals.csv");
    let begin = std::time::Instant::now();
    while !when(&std::fs::read_to_string(&intervals).unwrap_or_default()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "it was not reached");
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    serde_json::from_str(&run(place, &["show", directory, "--json"]).out).unwrap()
}

#[test]
fn what_was_in_flight_when_a_run_was_killed_is_censored() {
    let place = Place::new("killed-in-flight");
    let load = ["--rate", "50/s", "--duration", "3s", "--warm-up", "0s", "--timeout", "100s"];
    let goals = ["--goal", "response.p95 <= 60s", "--goal", "response.p95 <= 100ms"];
    type When = fn(&str) -> bool;
    let moments: [(&str, When); 2] = [
        ("while it waits for answers", |intervals| intervals.matches(",cool_down,").count() >= 2),
        ("in the measured time", |intervals| {
            let last = intervals.lines().next_back().and_then(|row| row.split(',').nth(1)?.parse().ok());
            last.is_some_and(|end_s: f64| end_s > 2.2)
        }),
    ];
    for (at, (moment, when)) in moments.into_iter().enumerate() {
        let url = freezing(75, None);
        let directory = format!("r{at}");
        let document = killed(&place, &[&["http", &url][..], &load, &goals].concat(), &directory, when);
        assert_eq!(
            document["trials"][0]["ending"], "running",
            "{moment}: {}",
            document["trials"][0]["ending"]
        );
        let get = first(&document);
        let [due, ended] = [&get["offered"], &get["due"]["ended"]].map(|count| count.as_u64().unwrap());
        assert_eq!((ended, &get["censored"]), (75, &Value::from(due - 75)), "{moment}: {get}");
        assert!(due > 100, "{moment}: {get}");
        let p95 = get["response_ms"]["p95"].as_f64().unwrap();
        let bounds = get["response_ms"]["at_least"].as_array().unwrap();
        assert!(p95 > 300.0 && bounds.contains(&"p95".into()), "{moment}: {get}");
        assert_eq!(document["goal"]["met"], false, "{moment}");
        for goal in document["goal"]["goals"].as_array().unwrap() {
            assert_eq!((&goal["met"], &goal["undecided"]), (&false.into(), &true.into()), "{moment}: {goal}");
        }
        let junit = run(&place, &["export", &directory, "--format", "junit"]).out;
        assert!(
            junit.contains("failures=\"0\"") && junit.matches("<error").count() >= 3,
            "{moment}: {junit}"
        );
        let shown = run(&place, &["show", &directory]).out;
        assert!(shown.contains("because trial 001-baseline.r1 did not complete"), "{moment}: {shown}");
    }
}

#[test]
fn a_frozen_server_is_no_slow_load_generator() {
    let place = Place::new("frozen");
    let url = freezing(0, None);
    let load = [
        "--rate",
        "500/s",
        "--duration",
        "2s",
        "--warm-up",
        "0s",
        "--timeout",
        "100s",
        "--threads",
        "1",
        "--json",
    ];
    let (done, document) = impatient(&place, &[&["http", &url][..], &load, &["--run-dir", "r"]].concat());
    let get = first(&document);
    // 256 are in flight, and the others were due.
    assert_eq!((&get["issued"], &get["censored"]), (&Value::from(256), &Value::from(1000)), "{get}");
    assert_eq!((&get["due"]["unsent"], &get["due"]["held"]), (&Value::from(744), &Value::from(744)), "{get}");
    assert_ne!(document["verdict"]["kind"], "generator_bound", "{}", document["verdict"]);
    assert!(![0, 97].contains(&done.code), "{} {}", done.code, done.err);
    assert!(texts(&document).contains("as many operations as may be in flight"), "{}", texts(&document));
}

#[test]
fn what_timed_out_before_its_first_byte_is_in_the_times_of_that() {
    let place = Place::new("no-first-byte");
    let url = freezing(20, None);
    let load = ["--rate", "20/s", "--duration", "2s", "--warm-up", "0s", "--timeout", "500ms", "--json"];
    let goals = ["--goal", "get:first_byte.p90 <= 100ms", "--max-failures", "100%"];
    let done = run(&place, &[&["http", &url][..], &load, &goals].concat());
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let first_byte = part(&document, "get:first_byte");
    assert_eq!(
        (&first_byte["due"]["ended"], &first_byte["censored"]),
        (&20.into(), &20.into()),
        "{first_byte}"
    );
    // They took 500 ms at least.
    assert_eq!(done.code, expected(99, &document), "{}", done.err);
    assert_eq!(document["goal"]["goals"][0]["undecided"], Value::Null, "{}", document["goal"]);
}

#[test]
fn logins_at_a_directory_that_stops_have_no_bind_and_no_entry() {
    let person =
        format!("dn: uid=a,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: a\ncn: a\nsn: a\nuserPassword: w\n\n");
    let ldif = organization(&[]) + &person;
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let place = Place::new("stopped-directory");
    let (url, person) = (slapd.url(), format!("uid=a,{SUFFIX}"));
    let login =
        ["ldap", "login", &url, "--base", SUFFIX, "--scope", "base", "--dn", &person, "--dn-password", "w"];
    let load = ["--rate", "20/s", "--duration", "2s", "--warm-up", "0s", "--interval", "100ms", "--json"];
    let document = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !crate::kill::load_began(&place.path("r")) {
                std::thread::sleep(Duration::from_millis(10));
            }
            slapd.pause();
        });
        impatient(&place, &[&login[..], &load, &["--run-dir", "r"]].concat()).1
    });
    slapd.resume();
    let counts = |of: &Value| [&of["due"]["ended"], &of["censored"]].map(|count| count.as_u64().unwrap());
    let [ended, censored] = counts(first(&document));
    assert!(ended + censored == 40 && censored > 20, "{}", first(&document));
    for name in ["login:bind", "login:first_entry"] {
        assert_eq!(counts(part(&document, name)), [ended, censored], "{}", part(&document, name));
    }
}

#[test]
fn a_launch_that_hangs_is_one_of_its_kind() {
    let place = Place::new("hangs");
    let script = "echo x >> count; [ $(wc -l < count) -lt 5 ] || sleep 100";
    let load = ["--duration", "1500ms", "--timeout", "200s", "--json", "--run-dir", "r"];
    let (_, document) = impatient(&place, &[&["exec"][..], &load, &["--", "sh", "-c", script]].concat());
    let kinds: Vec<[u64; 2]> = document["trials"][0]["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| [&of["due"]["ended"], &of["censored"]].map(|count| count.as_u64().unwrap_or(0)))
        .collect();
    assert_eq!(kinds, [[1, 0], [3, 1], [4, 1]], "{}", document["trials"][0]["operations"]);
}

#[test]
fn a_system_call_that_does_not_return_is_waited_for_and_nothing_is_lost() {
    let needs =
        [Need::Root, Need::LoopDevice, Need::Mount, Need::Program("mkfs.ext4"), Need::Program("fsfreeze")];
    if needs.into_iter().any(testkit::lacks) {
        return;
    }
    let place = Place::new("frozen-file-system");
    // Longer frozen than the load waits for threads that are to end.
    let script = r#"
        PATH=$PATH:/usr/sbin:/sbin
        truncate -s 32M image && mkfs.ext4 -qF image && mkdir m && mount -o loop image m || exit 77
        trap 'fsfreeze -u m 2>/dev/null' EXIT
        head -c 8M /dev/zero > m/f; sync
        "$0" disk m/f --overwrite m/f --write --random --page-cache --back-end system-calls --rate 100/s --duration 2s --warm-up 0s             --interval 100ms --goal 'response.max <= 1s' --run-dir r --json > out 2> err &
        while ! [ "$(cat r/trials/*/intervals.csv 2>/dev/null | wc -l)" -gt 2 ]; do sleep 0.05; done
        fsfreeze -f m; sleep 4
        kill -INT $!; sleep 0.3; kill -INT $!; sleep 12
        fsfreeze -u m; wait $!
        echo $? > code"#;
    let shell = crate::disturbed::with_mounts(&place, script);
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap_or_default();
    assert_eq!((shell.code, read("code").trim()), (0, "130"), "{}{}", shell.err, read("err"));
    let document: Value = serde_json::from_str(&read("out")).unwrap();
    let write = first(&document);
    let [ended, censored] = [&write["due"]["ended"], &write["censored"]].map(|count| count.as_u64().unwrap());
    assert_eq!(ended + censored, 200, "{write}");
    assert!(censored > 20 && write["response_ms"]["max"].as_f64().unwrap() > 10_000.0, "{write}");
    assert_eq!(document["goal"]["goals"][0]["met"], Value::from(false), "{}", document["goal"]);
}

#[test]
fn a_load_ends_after_a_number_of_operations() {
    let place = Place::new("operations");
    let url = freezing(u64::MAX, None);
    for load in [vec!["--concurrency", "5", "--threads", "2"], vec!["--rate", "1000/s"]] {
        let done = run(&place, &[&["http", &url, "--operations", "303", "--json"][..], &load].concat());
        let document: Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(first(&document)["completed"], 303, "{}", done.err);
        assert_eq!(first(&document)["due"]["ended"], 303, "{}", done.err);
    }
}

#[test]
fn a_trial_of_which_nothing_is_to_be_learned_ends_early() {
    let place = Place::new("end-early");
    let url = format!("http://{}/busy", crate::http::serve());
    let load = ["--rate", "100/s", "--duration", "600s", "--end-early", "--json", "--run-dir", "r"];
    let done = run(&place, &[&["http", &url][..], &load].concat());
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(texts(&document).contains("every operation failed from the start"), "{}", texts(&document));
    assert_eq!(document["trials"][0]["ending"], "completed");
    // Trials of different lengths are not compared.
    let refused =
        run(&place, &["http", &url, "--end-early", "--vary", "concurrency=1,2", "--duration", "1s"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("--end-early has no place in an experiment with comparisons"),
        "{}",
        refused.err
    );
}
