//! Copies to a disk with a planted rate behind a planted share of the page cache, and to a share: real loop devices, file
//! systems and caches. Nothing of time is asserted: on a busy machine a rate may honestly be another; what is recorded and said
//! of it may not.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use testkit::{Need, lacks};

use crate::program::{Place, run};

/// The testkit's slow disk, built.
fn slow_disk() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| crate::planted::built("slow_disk"))
}

/// A mounted slow file system, and a disk on it; unmounted when dropped.
pub(crate) struct Slow(Child);

impl Slow {
    /// `words` as on its command line; none where this machine cannot mount it.
    pub(crate) fn start(place: &Place, words: &[&str]) -> Option<Slow> {
        let needs = [Need::Root, Need::LoopDevice, Need::Mount, Need::Program("mkfs.ext4")];
        if needs.into_iter().any(lacks) || !Path::new("/dev/fuse").exists() {
            return None;
        }
        let mut child = Command::new(slow_disk())
            .arg("--folder")
            .arg(place.path(""))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let slow = Slow(child);
        assert_eq!(line.trim(), "ready");
        Some(slow)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_drain_of_a_copy_is_watched_and_sized() {
    let place = Place::new("drain");
    let Some(_slow) = Slow::start(&place, &["--rate-mb", "30", "--disk-mb", "300", "--dirty-mb", "60"])
    else {
        return;
    };
    let done = run(
        &place,
        &[
            "copy",
            "generate:90MB",
            "disk/x",
            "--page-cache",
            "--discard",
            "--run-dir",
            "r",
            "--json",
            "--interval",
            "100ms",
        ],
    );
    assert!(done.measured(), "{}", done.err);
    let document = json(&done.out);
    let trial = &document["trials"][0];
    assert_eq!(trial["facts"]["drain"]["text"], "rest", "{}", trial["facts"]);
    let copy = &trial["copy"];
    assert_eq!(copy["bytes"], 90e6);
    assert_eq!(copy["drain"]["end"], "rest");
    // More than the slack was in memory when the last byte was accepted, whatever the rates: the flush wrote it.
    assert!(copy["cache"]["place"].is_string(), "{copy}");
    assert!(copy["drain"]["end_s"].as_f64().unwrap() > copy["drain"]["begin_s"].as_f64().unwrap(), "{copy}");
    let answer = document["headline"]["details"].as_array().unwrap();
    assert!(answer.iter().any(|text| text.as_str().unwrap().starts_with("Cache: ")), "{answer:?}");
    // The page has the drain in its chart, and the record alone shows the same.
    let page = std::fs::read_to_string(place.path("r/report.html")).unwrap();
    assert!(page.contains(">drain<") || page.contains("writes"), "the chart has no drain");
    let shown = run(&place, &["show", "r"]);
    assert!(shown.out.contains("Cache: "), "{}", shown.out);

    let sized = run(&place, &["size", "r", "--for", "10TB", "--json"]);
    assert_eq!(sized.code, 0, "{}", sized.err);
    let document = json(&sized.out);
    assert_eq!(document["format"], "plimsoll.copy-time/1");
    let time = &document["configurations"][0];
    assert_eq!(time["extrapolated"], true);
    let seconds = |end: &str| time["seconds"][end].as_f64().unwrap();
    assert!(seconds("low") <= seconds("value") && seconds("value") <= seconds("high"), "{time}");
    let text = run(&place, &["size", "r", "--for", "10TB"]).out;
    assert!(text.contains("This is extrapolated: 85.8 MiB were copied."), "{text}");
}

#[test]
fn ctrl_c_during_the_drain_keeps_the_copy() {
    let place = Place::new("drain-interrupted");
    let Some(_slow) = Slow::start(&place, &["--rate-mb", "10", "--disk-mb", "300", "--dirty-mb", "150"])
    else {
        return;
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args([
            "copy",
            "generate:60MB",
            "disk/x",
            "--page-cache",
            "--sync",
            "never",
            "--run-dir",
            "r",
            "--json",
        ])
        .current_dir(place.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let events = place.path("r/trials/001-baseline.r1/events.jsonl");
    let cools_down = || std::fs::read_to_string(&events).is_ok_and(|text| text.contains("cool-down begins"));
    while !cools_down() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let id = rustix::process::Pid::from_child(&child);
    // It may have ended meanwhile.
    let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    let document = json(&String::from_utf8_lossy(&output.stdout));
    let trial = &document["trials"][0];
    assert_eq!(trial["ending"], "completed", "the copy itself was complete");
    assert_eq!(trial["copy"]["bytes"], 60e6);
    match trial["facts"]["drain"]["text"].as_str().unwrap() {
        "interrupted" => assert_eq!(output.status.code(), Some(130)),
        other => assert_eq!(other, "rest"),
    }
    assert!(place.path("disk/x").exists(), "the copy is complete and stays");
}

#[test]
fn a_share_is_measured_without_device_counters_and_says_so() {
    let place = Place::new("share");
    let Some(_slow) = Slow::start(&place, &["--rate-mb", "200"]) else { return };
    let done = run(
        &place,
        &["copy", "generate:20MB", "share/x", "--page-cache", "--discard", "--run-dir", "r", "--json"],
    );
    assert!(done.measured(), "{}", done.err);
    let document = json(&done.out);
    let trial = &document["trials"][0];
    assert_eq!(trial["facts"]["destination.medium"]["text"], "program");
    assert!(trial["facts"]["drain"].is_null() && trial["copy"]["drain"].is_null(), "{}", trial["copy"]);
    let doubts = trial["doubts"].as_array().unwrap();
    let said = doubts.iter().any(|doubt| {
        let text = doubt["text"].as_str().unwrap();
        text.starts_with("the destination is on fuse.slow_disk")
            && text.contains("the drain of the destination was not watched")
    });
    assert!(said, "{doubts:?}");
}

#[test]
fn two_destinations_are_compared_and_each_is_sized() {
    let place = Place::new("destinations");
    for folder in ["a", "b"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    let done = run(
        &place,
        &[
            "copy",
            "generate:4MB",
            "--vary",
            "destination=a,b",
            "--page-cache",
            "--discard",
            "--run-dir",
            "r",
            "--json",
            "--quiet",
        ],
    );
    assert!(done.measured(), "{}", done.err);
    let document = json(&done.out);
    assert_eq!(document["configurations"].as_array().unwrap().len(), 2);
    assert!(!place.path("a/generated").exists() && !place.path("b/generated").exists(), "discarded");
    let sized = json(&run(&place, &["size", "r", "--for", "1GiB", "--json"]).out);
    let names: Vec<&str> = sized["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["configuration"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["destination=a", "destination=b"]);
}

#[test]
fn size_asks_a_copy_for_bytes_and_a_load_for_a_rate() {
    let place = Place::new("size-words");
    let copied = run(
        &place,
        &["copy", "generate:2MB", "x", "--page-cache", "--drain", "none", "--run-dir", "c", "--quiet"],
    );
    assert!(copied.measured(), "{}", copied.err);
    let null = run(&place, &["null", "--duration", "200ms", "--warm-up", "0s", "--run-dir", "n", "--quiet"]);
    assert!(null.measured(), "{}", null.err);
    for (words, expected) in [
        (&["size", "c", "--for", "2000/s"][..], "write bytes with a unit, such as --for 10TB"),
        (&["size", "c", "--for", "lots"], "`lots` is no amount to copy"),
        (&["size", "c", "--for", "1TB", "--up-to", "3"], "--up-to is for a sweep over the load"),
        (&["size", "n", "--for", "10TB"], "a run of `null`, no copy"),
    ] {
        let done = run(&place, words);
        assert_eq!(done.code, 2, "{words:?}: {}", done.err);
        assert!(done.err.contains(expected), "{words:?}: {}", done.err);
    }
}
