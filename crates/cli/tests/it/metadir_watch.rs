//! `plimsoll metadir run --watch` on a terminal of its own.

use std::process::Command;

use testkit::{Need, lacks};

use crate::metadir::{staff, staff_and_phones};
use crate::program::{Place, run};
use crate::terminal::{Terminal, process};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

#[test]
fn a_run_is_watched_on_a_terminal_and_printed_in_the_end() {
    if lacks(Need::Program("script")) {
        return;
    }
    let place = Place::new("metadir-watch");
    staff_and_phones(&place);
    let bad = staff(300, |_| "Oslo") + "E00300,one field too few\nE00301,and another\n";
    std::fs::write(place.path("staff.csv"), bad).unwrap();
    let terminal = Terminal::of(&place, "exec $0 metadir run full --watch");
    let out = terminal.until("\u{0}");
    assert_eq!(terminal.wait(), Some(1), "{out}");
    let (drawn, printed) = out.split_once(LEAVE).unwrap();
    assert!(drawn.contains(ENTER), "{out}");
    for words in ["full: 0 of 5 steps done", "phones export"] {
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
    let terminal = Terminal::of(&place, "exec $0 metadir run full --watch");
    let before = terminal.until("/s mean");
    assert!(before.contains("running  staff full-import"), "{before}");
    let sent = Command::new("kill").args(["-INT", &process(&place).to_string()]).status().unwrap();
    assert!(sent.success());
    let after = terminal.until("\u{0}");
    assert_eq!(terminal.wait(), Some(130), "{after}");
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
