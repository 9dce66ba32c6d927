//! `plimsoll generate people`: files, pipes, and how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::program::{Place, command, run};

#[test]
fn the_same_people_in_a_file_and_on_a_pipe() {
    let place = Place::new("generate");
    let done = run(&place, &["generate", "people", "--count", "5000", "-o", "people.csv"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.starts_with("people.csv: 5,000 people, 1."), "{}", done.out);
    assert_eq!(done.err, "", "no progress where there is no terminal");
    let file = std::fs::read_to_string(place.path("people.csv")).unwrap();
    assert_eq!(file.lines().count(), 5001);
    let piped = run(&place, &["generate", "people", "--count", "5000"]);
    assert!(piped.out == file && piped.err.is_empty());
    // Fewer people are the first of more.
    let fewer = run(&place, &["generate", "people", "--count", "100"]).out;
    assert!(file.starts_with(&fewer));
    let others = run(&place, &["generate", "people", "--count", "100", "--seed", "2"]).out;
    assert_ne!(fewer, others);
}

#[test]
fn json_shows_what_was_written() {
    let place = Place::new("generate-json");
    let arguments = ["generate", "people", "--count", "300", "--format", "ldif", "--groups", "8"];
    let done = run(&place, &[&arguments[..], &["-o", "p.ldif", "--json"]].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["format"], "plimsoll.generate/1");
    assert_eq!(document["records"], 300);
    assert_eq!(document["groups"], 8);
    assert_eq!(document["whole"], true);
    assert_eq!(document["bytes"], std::fs::metadata(place.path("p.ldif")).unwrap().len());
    assert!(document["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_share_alone_is_the_next_day_and_a_day_alone_is_an_ordinary_one() {
    let place = Place::new("generate-days");
    let people =
        |more: &[&str]| run(&place, &[&["generate", "people", "--count", "2000"], more].concat()).out;
    let base = people(&[]);
    assert_eq!(people(&["--day", "0"]), base);
    assert_eq!(people(&["--joiners", "1%"]).lines().count(), base.lines().count() + 20);
    assert!(people(&["--joiners", "1%"]).starts_with(&base), "nobody leaves or changes unasked");
    let ordinary = people(&["--day", "1"]);
    assert_eq!(ordinary, people(&["--changes", "2%", "--leavers", "1%", "--joiners", "1%"]));
    assert_ne!(ordinary, people(&["--day", "2"]));
}

#[test]
fn memberships_have_a_file_of_their_own_in_csv() {
    let place = Place::new("generate-groups");
    let arguments =
        ["generate", "people", "--count", "40", "--groups", "2", "-o", "p.csv", "--groups-output", "g.csv"];
    let done = run(&place, &arguments);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.starts_with("p.csv: 40 people, 2 groups, "), "{}", done.out);
    let groups = std::fs::read_to_string(place.path("g.csv")).unwrap();
    assert_eq!(groups.lines().next(), Some("group,member"));
    assert_eq!(groups.lines().count(), 1 + 40 + 20);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new("generate-pipe");
    // More than any pipe holds.
    let mut child = command(&place, &["generate", "people", "--count", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("employeeNumber,"), "{line}");
    drop(reader);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn interrupted_it_ends_after_a_whole_person() {
    let place = Place::new("generate-interrupt");
    // It would take hours, so it is certainly still at it.
    let mut child = command(&place, &["generate", "people", "--count", "1000000000", "--format", "avp"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut text = vec![0; 64 * 1024];
    out.read_exact(&mut text).unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    // What was on its way arrives.
    out.read_to_end(&mut text).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(said, "interrupted: standard output is incomplete\n");
    assert!(text.ends_with(b"\n\n"), "after a whole record");
}

#[test]
fn what_cannot_be_written_is_reported() {
    let place = Place::new("generate-full");
    let nowhere = run(&place, &["generate", "people", "-o", "no/such/folder/p.csv"]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.err.contains("no/such/folder/p.csv could not be opened for writing"), "{}", nowhere.err);
    let full = run(&place, &["generate", "people", "--count", "50000", "-o", "/dev/full"]);
    assert_eq!(full.code, 1);
    assert!(full.err.contains("/dev/full could not be written: No space left on device"), "{}", full.err);
}

#[test]
fn a_database_is_made_and_never_written_over() {
    let place = Place::new("generate-sqlite");
    let arguments = ["generate", "people", "--count", "300", "--format", "sqlite", "--groups", "3"];
    let nowhere = run(&place, &arguments);
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.err.contains("--output FILE"), "{}", nowhere.err);
    let done = run(&place, &[&arguments[..], &["-o", "people.db"]].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.starts_with("people.db: 300 people, 3 groups, "), "{}", done.out);
    let made = std::fs::read(place.path("people.db")).unwrap();
    assert!(made.starts_with(b"SQLite format 3\0"));
    let again = run(&place, &[&arguments[..], &["-o", "people.db"]].concat());
    assert_eq!(again.code, 2);
    assert!(again.err.contains("people.db exists already"), "{}", again.err);
    assert!(std::fs::read(place.path("people.db")).unwrap() == made);
}
