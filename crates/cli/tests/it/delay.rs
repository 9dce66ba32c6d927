//! `plimsoll delay` between real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;

use crate::program::{Place, command, run};

/// A running proxy. It is killed if a test fails before it is stopped.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(place: &Place, arguments: &[&str]) -> Running {
        let mut child =
            command(place, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Ends it by SIGTERM; its exit code, and the rest of its output and messages.
    fn stop(&mut self) -> (i32, String, String) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.output.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code().unwrap(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A target that returns what it receives; its address.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &client, &mut &client));
        }
    });
    address
}

fn ping(address: &str) {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"ping").unwrap();
    let mut found = [0; 4];
    client.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"ping");
}

#[test]
fn a_proxy_is_changed_and_shown_while_it_runs_and_reports_at_the_end() {
    let place = Place::new("delay");
    let target = echo();
    let route = format!("db=127.0.0.1:0={target}");
    let arguments = ["delay", "--route", &route, "--latency", "1ms", "--set", "up.latency=2ms", "--json"];
    let others = ["--control", "control/socket", "--exchanges", "exchanges.csv", "--seed", "7"];
    let mut proxy = Running::start(&place, &[&arguments[..], &others].concat());
    let listening: Value = serde_json::from_str(&proxy.line()).unwrap();
    assert_eq!(listening["event"], "listening");
    assert_eq!(listening["routes"][0]["name"], "db");
    assert_eq!(listening["control"], "control/socket");
    let address = listening["routes"][0]["listen"].as_str().unwrap().to_string();
    ping(&address);

    let ask = |words: &[&str]| run(&place, &[&["delay"], words].concat());
    let show = || -> Value {
        let done = ask(&["show", "--control", "control/socket", "--json"]);
        assert_eq!(done.code, 0, "{}", done.err);
        serde_json::from_str(&done.out).unwrap()
    };
    let shown = show();
    assert_eq!(shown["format"], "plimsoll.delay/1");
    assert_eq!(shown["seed"], 7);
    assert_eq!(shown["routes"][0]["settings"], serde_json::json!(["up.latency=2ms", "down.latency=1ms"]));
    assert_eq!(shown["routes"][0]["up"]["bytes"], 4);

    let done = ask(&["set", "--control", "control/socket", "none", "route=db", "bandwidth=1MB/s"]);
    assert_eq!((done.code, done.out.as_str()), (0, ""), "{}", done.err);
    assert_eq!(show()["routes"][0]["settings"], serde_json::json!(["bandwidth=1MB/s"]));
    ping(&address);
    let done = ask(&["set", "--control", "control/socket", "route=other", "latency=1ms"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("there is no route `other`"), "{}", done.err);
    let done = ask(&["show", "--control", "control/socket", "--restart"]);
    assert!(done.out.contains("  connections   2 accepted"), "{}", done.out);
    assert!(done.out.contains("  exchanges     2: first reply byte after"), "{}", done.out);

    let (code, out, err) = proxy.stop();
    assert_eq!((code, err.as_str()), (0, ""));
    let ended: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(ended["event"], "ended");
    assert_eq!(ended["snapshot"]["routes"][0]["connections"]["accepted"], 0);
    assert_eq!(ended["snapshot"]["exchange_log"], serde_json::json!({"written": 2, "lost": 0}));
    let log = std::fs::read_to_string(place.path("exchanges.csv")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(!place.path("control/socket").exists());
}

#[test]
fn settings_are_changed_while_connections_carry_traffic() {
    let place = Place::new("delay-traffic");
    let arguments = ["delay", "--listen", "127.0.0.1:0", "--to", &echo(), "--latency", "2ms"];
    let mut proxy = Running::start(&place, &[&arguments[..], &["--control", "control/socket"]].concat());
    let line = proxy.line();
    let address = line.trim().strip_prefix("listening on ").unwrap().split(", ").next().unwrap().to_string();
    let (pings, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = TcpStream::connect(&address).unwrap();
                while !is_over.load(Ordering::SeqCst) {
                    client.write_all(b"ping").unwrap();
                    client.read_exact(&mut [0; 4]).unwrap();
                    pings.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let goes_on = || {
            let before = pings.load(Ordering::SeqCst);
            while pings.load(Ordering::SeqCst) < before + 100 {
                std::thread::yield_now();
            }
        };
        goes_on();
        for setting in ["latency=1ms", "black-hole=on", "latency=0ms", "black-hole=off"] {
            let done = run(&place, &["delay", "set", "--control", "control/socket", setting]);
            assert_eq!(done.code, 0, "{setting}: {}", done.err);
        }
        goes_on();
        is_over.store(true, Ordering::SeqCst);
    });
    assert_eq!(proxy.stop().0, 0);
}

#[test]
fn an_unreachable_target_is_reported_and_the_end_is_for_people() {
    let place = Place::new("delay-unreachable");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut proxy = Running::start(&place, &["delay", "--listen", "127.0.0.1:0", "--to", &free]);
    let line = proxy.line();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    let (address, _) = address.split_once(", target ").unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    assert!(client.read(&mut [0]).is_err());
    // Messages that were not printed before it stops are printed at the end.
    let (code, out, err) = proxy.stop();
    assert_eq!(code, 0);
    assert!(out.contains("1 accepted, 0 open, 1 without a reachable target"), "{out}");
    assert!(err.starts_with(&format!("warning: {free} cannot be reached: Connection refused")), "{err}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let place = Place::new("delay-mistakes");
    let arguments = ["delay", "--listen", "0.0.0.0:0", "--to", "db1:389", "--latency", "5", "--loss", "95%"];
    let others = ["--at", "10", "latenzy=1ms", "--set", "down.refuse=1%", "--memory", "1"];
    let done = run(&place, &[&arguments[..], &others].concat());
    assert_eq!(done.code, 2);
    for expected in [
        "other hosts can connect to 0.0.0.0:0, and through it to db1:389",
        "latency: `5` is not a duration",
        "loss: a loss of `95%` passes almost nothing",
        "`10` is not a duration",
        "did you mean `latency`?",
        "`refuse` has no direction",
        "`1` is not a size",
        "7 mistakes, nothing was run",
    ] {
        assert!(done.err.contains(expected), "{expected}: {}", done.err);
    }
    let done = run(&place, &["delay"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("write --listen and --to, or --route"), "{}", done.err);
}
