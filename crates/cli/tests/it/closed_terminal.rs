//! A terminal that is closed ends what records nothing. A record goes on, and says so.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use testkit::{Need, lacks};

use crate::http::serve;
use crate::metadir::{staff, staff_and_phones};
use crate::program::{Place, run};
use crate::terminal::{Terminal, process};

/// Waits until a process is gone; ends it if it stays.
fn is_gone(process: i32) -> bool {
    let process = Pid::from_raw(process).unwrap();
    let begin = Instant::now();
    while test_kill_process(process).is_ok() {
        if begin.elapsed() > Duration::from_secs(60) {
            let _ = kill_process(process, Signal::KILL);
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn what_records_nothing_ends_with_its_terminal() {
    if lacks(Need::Program("script")) {
        return;
    }
    let place = Place::new("closed-terminal");
    staff_and_phones(&place);
    fs::write(place.path("staff.csv"), staff(3, |_| "Oslo")).unwrap();
    let config = fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let scheduled = config + "\n[[schedule]]\nrun = \"full\"\nevery = \"1 h\"\n";
    fs::write(place.path("serve.toml"), scheduled).unwrap();
    let url = format!("http://{}/", serve());
    for (line, shown) in [
        ("exec $0 watch", "quit"),
        // Without the signal, its reads and writes fail.
        ("trap '' HUP; exec $0 watch", "quit"),
        ("exec $0 watch --json --every 50ms", "}"),
        ("trap '' HUP; export TERM=dumb; exec $0 watch --every 50ms", ":"),
        ("exec $0 delay --listen 127.0.0.1:0 --to 127.0.0.1:9", "listening"),
        ("exec $0 metadir scim-server --listen 127.0.0.1:0", "listening"),
        ("exec $0 metadir serve --config serve.toml", "next "),
        ("exec $0 http record --listen 127.0.0.1:0 --target URL -o s.toml", "recording"),
        ("exec $0 http URL --header 'Authorization: ${prompt:Token}' --run-dir r", "Token"),
        ("trap '' HUP; exec $0 http URL --header 'Authorization: ${prompt:Token}' --run-dir r", "Token"),
        ("exec $0 doctor --seconds 3600", "measuring"),
    ] {
        let terminal = Terminal::of(&place, &line.replace("URL", &url));
        let out = terminal.until(shown);
        assert!(out.contains(shown), "{line}: {:?}", out.get(..400));
        let process = process(&place);
        terminal.close();
        assert!(is_gone(process), "{line} goes on without its terminal");
    }
    assert!(!place.path("r").exists(), "an empty answer is no secret");
}

#[test]
fn a_recorded_run_goes_on_without_its_terminal() {
    if lacks(Need::Program("script")) {
        return;
    }
    let place = Place::new("closed-terminal-run");
    let load = "null --rate 100/s --interval 100ms --duration 2s --warm-up 0s --run-dir";
    for (name, line) in [
        ("r", format!("exec $0 {load} r")),
        ("ignored", format!("trap '' HUP; exec $0 {load} ignored")),
        // The result goes elsewhere.
        ("printed", format!("exec $0 {load} printed > out")),
    ] {
        let terminal = Terminal::of(&place, &line);
        let out = terminal.until("measure 0/2 s");
        assert!(out.contains("measure 0/2 s"), "{out}");
        let process = process(&place);
        terminal.close();
        assert!(is_gone(process));
        let trial = place.path(&format!("{name}/trials/001-baseline.r1"));
        let trial = |file: &str| fs::read_to_string(trial.join(file)).unwrap();
        assert!(trial("run.json").contains("\"ending\": \"completed\""), "{}", trial("run.json"));
        let remark = "the terminal was closed (hangup) before the end of this trial; the run went on";
        assert!(trial("events.jsonl").contains(remark), "{}", trial("events.jsonl"));
        let shown = run(&place, &["show", name]).out;
        let shown_words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown_words.contains(remark), "{shown}");
        assert!(fs::read_to_string(place.path(name).join("report.html")).unwrap().contains(remark));
    }
    let shown = run(&place, &["show", "printed"]).out;
    assert_eq!(fs::read_to_string(place.path("out")).unwrap(), shown);
}

#[test]
fn a_signal_of_the_terminal_does_not_interrupt_a_run_in_the_background() {
    let place = Place::new("hangup-run");
    let load = ["null", "--rate", "100/s", "--duration", "1s", "--warm-up", "0s", "-q", "--run-dir", "r"];
    let mut child =
        crate::program::command(&place, &load).stdout(std::process::Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while !place.path("r/trials/001-baseline.r1/run.json").exists()
        && begin.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    // A shell and the kernel both send it.
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    }
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 97 | 98)));
    assert!(run(&place, &["show", "r"]).out.contains("the terminal was closed (hangup)"));
}

#[test]
fn a_record_of_watching_has_its_end() {
    if lacks(Need::Program("script")) {
        return;
    }
    let place = Place::new("closed-terminal-watch");
    for (name, flags, then, ending) in [
        ("timed", "--duration 2s", "watching went on", "completed"),
        ("open", "", "watching ended", "completed"),
    ] {
        let terminal = Terminal::of(&place, &format!("exec $0 watch --every 100ms --record {name} {flags}"));
        let out = terminal.until("quit");
        assert!(out.contains("quit"), "{:?}", out.get(..400));
        let process = process(&place);
        terminal.close();
        assert!(is_gone(process), "{name}");
        let trial = fs::read_dir(place.path(name).join("trials")).unwrap().next().unwrap().unwrap().path();
        let trial = |file: &str| fs::read_to_string(trial.join(file)).unwrap();
        assert!(trial("run.json").contains(&format!("\"ending\": \"{ending}\"")), "{}", trial("run.json"));
        let remark = format!("the terminal was closed (hangup); {then}");
        assert!(trial("events.jsonl").contains(&remark), "{}", trial("events.jsonl"));
        let shown = run(&place, &["show", name]).out;
        assert!(shown.contains(&remark), "{shown}");
    }
}
