//! `plimsoll metadir run --watch` on a terminal of its own.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use testkit::{Need, lacks};

use crate::metadir::{staff, staff_and_phones};
use crate::program::{Place, run};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// The program on a terminal of 100 columns; its process number is in `pid`.
fn on_a_terminal(place: &Place, arguments: &str) -> (std::process::Child, Receiver<String>) {
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let inner = format!("stty cols 100 rows 30; echo $$ > pid; exec {program} {arguments}");
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &inner, "/dev/null"])
        .current_dir(place.path(""))
        .env("TERM", "xterm")
        .env("PLIMSOLL_STATE_DIR", place.path("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = out.read(&mut buffer) {
            if count == 0 || sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                break;
            }
        }
    });
    (child, receiver)
}

/// All output until it contains a text, or until it ends.
fn until(receiver: &Receiver<String>, text: &str) -> String {
    let (mut out, begin) = (String::new(), Instant::now());
    while !out.contains(text) && begin.elapsed() < Duration::from_secs(60) {
        match receiver.recv_timeout(Duration::from_secs(60)) {
            Ok(more) => out += &more,
            Err(_) => break,
        }
    }
    out
}

#[test]
fn a_run_is_watched_on_a_terminal_and_printed_in_the_end() {
    if lacks(Need::Program("script")) {
        return;
    }
    let place = Place::new("metadir-watch");
    staff_and_phones(&place);
    let bad = staff(300, |_| "Oslo") + "E00300,one field too few\nE00301,and another\n";
    std::fs::write(place.path("staff.csv"), bad).unwrap();
    let (mut child, receiver) = on_a_terminal(&place, "metadir run full --watch");
    let out = until(&receiver, "\u{0}");
    assert_eq!(child.wait().unwrap().code(), Some(1), "{out}");
    let (drawn, printed) = out.split_once(LEAVE).unwrap();
    assert!(drawn.contains(ENTER), "{out}");
    for words in ["full: 0 of 5 steps done", "to come", "phones export"] {
        assert!(drawn.contains(words), "{words}: {drawn}");
    }
    // What a run without --watch prints.
    for words in ["staff full-import: completed-discovery-errors in ", "phones full-import: success in "] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn an_interrupted_run_gives_the_terminal_back() {
    if lacks(Need::Program("script")) {
        return;
    }
    let place = Place::new("metadir-watch-stop");
    staff_and_phones(&place);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text.replace("commit_objects = 10000", "commit_objects = 1");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    std::fs::write(place.path("staff.csv"), staff(30_000, |_| "Oslo")).unwrap();
    let (mut child, receiver) = on_a_terminal(&place, "metadir run full --watch");
    let before = until(&receiver, "/s mean");
    assert!(before.contains("running  staff full-import"), "{before}");
    let process = std::fs::read_to_string(place.path("pid")).unwrap();
    let sent = Command::new("kill").args(["-INT", process.trim()]).status().unwrap();
    assert!(sent.success());
    let after = until(&receiver, "\u{0}");
    assert_eq!(child.wait().unwrap().code(), Some(130), "{after}");
    let (_, printed) = after.split_once(LEAVE).unwrap();
    assert!(printed.contains("staff full-import: interrupted"), "{printed}");
    let history = run(&place, &["metadir", "history"]).out;
    assert!(history.contains("staff full-import: stopped-user"), "{history}");
}

#[test]
fn without_a_terminal_watching_has_no_effect() {
    let place = Place::new("metadir-watch-pipe");
    staff_and_phones(&place);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    let done = run(&place, &["metadir", "run", "full", "--watch"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert!(done.out.starts_with("staff full-import: success in "), "{}", done.out);
    assert!(!done.out.contains('\u{1b}'), "{}", done.out);
}
