//! Disturbances in the middle of a run, and hosts without files of the kernel: what is lost is said, and nothing is invented.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::Need;

use crate::http::serve;
use crate::program::{Finished, Place, command, run};

/// Waits until the clock of the first trial runs.
fn wait_for_the_load(place: &Place, name: &str) {
    let file = place.path(name).join("trials/001-baseline.r1/intervals.csv");
    let begin = Instant::now();
    while fs::read_to_string(&file).map_or(0, |text| text.lines().count()) < 2 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the load does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a script with a mount namespace of its own, in which `$0` is the program.
pub(crate) fn with_mounts(place: &Place, script: &str) -> Finished {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_plimsoll")]).current_dir(place.path(""));
    command.env("PLIMSOLL_STATE_DIR", place.path("state")).env("NO_COLOR", "1");
    Finished::of(command)
}

#[test]
fn a_file_system_that_gets_full_ends_the_run_with_the_place() {
    if testkit::lacks(Need::Mount) {
        return;
    }
    let place = Place::new("disturbed-full");
    fs::create_dir(place.path("small")).unwrap();
    let done = with_mounts(
        &place,
        "mount -t tmpfs -o size=4m tmpfs small && truncate -s 16M small/f.bin || exit 77
        \"$0\" disk small/f.bin --overwrite small/f.bin --write --page-cache --duration 30s --warm-up 0s -q --run-dir r",
    );
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    for words in
        ["writing 4096 bytes at offset ", " of `small/f.bin` failed: No space left on device (ENOSPC)"]
    {
        assert!(done.err.contains(words), "{}", done.err);
    }
}

#[test]
fn a_device_that_fails_ends_the_run_with_the_place() {
    if testkit::lacks(Need::LoopDevice) {
        return;
    }
    let place = Place::new("disturbed-device");
    let image = place.path("image");
    fs::write(&image, vec![7; 16 << 20]).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let device = String::from_utf8_lossy(&made.stdout).trim().to_string();
    let load = ["disk", &device, "--duration", "30s", "--warm-up", "0s", "--interval", "50ms", "-q"];
    let mut command = command(&place, &[&load[..], &["--run-dir", "r"]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_the_load(&place, "r");
    fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
    let output = child.wait_with_output().unwrap();
    let _ = Command::new("losetup").args(["--detach", &device]).status();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let words = format!(" of `{device}` failed: Input/output error (EIO)");
    assert!(err.contains("reading 4096 bytes at offset ") && err.contains(&words), "{err}");
}

#[test]
fn a_program_that_was_stopped_invents_no_samples() {
    let place = Place::new("disturbed-watch");
    let watch = ["watch", "--json", "--every", "50ms", "--duration", "2s"];
    let mut child = command(&place, &watch).stdout(Stdio::piped()).spawn().unwrap();
    let process = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(process, Signal::CONT).unwrap();
    lines.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let samples: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // One sample covers the second in which the program was stopped.
    assert!((2..=22).contains(&samples.len()), "{text}");
    for pair in samples.windows(2) {
        assert_eq!(pair[0]["end_s"], pair[1]["begin_s"]);
    }
}

#[test]
fn a_load_that_was_stopped_has_its_late_operations_and_a_doubt() {
    let place = Place::new("disturbed-load");
    let url = format!("http://{}/", serve());
    let load =
        ["http", &url, "--rate", "200/s", "--duration", "4s", "--warm-up", "0s", "--interval", "100ms"];
    let mut command = command(&place, &[&load[..], &["--json", "-q", "--run-dir", "r"]].concat());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let process = Pid::from_child(&child);
    wait_for_the_load(&place, "r");
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    kill_process(process, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trial = &document["trials"][0];
    let doubts = trial["doubts"].to_string();
    assert!(doubts.contains("the machine stalled, or the clock jumped"), "{doubts}");
    // The operations that were due meanwhile were sent after it, and their response times say so.
    let operation = &trial["operations"][0];
    assert!(operation["offered"].as_u64().unwrap() >= 790, "{operation}");
    assert!(operation["completed"].as_u64().unwrap() >= 790, "{operation}");
    assert!(operation["late"].as_u64().unwrap() > 100, "{operation}");
}

#[test]
fn without_files_of_the_kernel_a_load_is_measured_and_the_missing_is_named() {
    if testkit::lacks(Need::Mount) {
        return;
    }
    let place = Place::new("disturbed-kernel");
    for (folder, disk, words) in [
        ("/proc/pressure", 0, "pressure could not be read: the kernel keeps no pressure stall information"),
        ("/proc", 1, "cpu could not be read: /proc/stat cannot be read; is /proc mounted?"),
        ("/sys", 0, ""),
    ] {
        let at = folder.replace('/', "-");
        let script = format!(
            "mount -t tmpfs none {folder} || exit 77
            \"$0\" null --rate 100/s --duration 300ms --warm-up 0s -q --run-dir null{at}; echo \"exit $?\"
            \"$0\" disk f.bin --size 1MiB --duration 300ms --warm-up 0s -q --run-dir disk{at}; echo \"exit $?\""
        );
        let done = with_mounts(&place, &script);
        let codes: Vec<i32> =
            done.out.lines().filter_map(|line| line.strip_prefix("exit ")?.parse().ok()).collect();
        let text = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(codes.len() == 2 && matches!(codes[0], 0 | 97 | 98), "{folder}: {}{}", done.out, done.err);
        match disk {
            0 => assert!(matches!(codes[1], 0 | 97 | 98), "{folder}: {}{}", done.out, done.err),
            code => assert_eq!(codes[1], code, "{folder}: {}{}", done.out, done.err),
        }
        assert!(text.contains(words), "{folder}: {}", done.out);
    }
}

#[test]
fn launches_that_fail_or_do_not_end_are_no_results() {
    let place = Place::new("disturbed-exec");
    for (flags, words) in [
        (
            &["--repeat", "5", "--run-dir", "a", "--", "sh", "-c", "exit 3"][..],
            "`sh -c 'exit 3'` ended with exit status 3",
        ),
        (&["--timeout", "300ms", "--run-dir", "b", "--", "sleep", "100"], "`sleep 100` timed out"),
    ] {
        let done = run(&place, &[&["exec", "-q", "--json"][..], flags].concat());
        assert_eq!(done.code, 1, "{}", done.err);
        assert!(done.err.contains(words), "{}", done.err);
        let document: Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(document["trials"][0]["operations"][0]["completed"], 0, "{}", done.out);
    }
    // What a launch leaves running is not waited for.
    let leaves = [
        "exec",
        "-q",
        "--json",
        "--repeat",
        "1",
        "--run-dir",
        "c",
        "--",
        "sh",
        "-c",
        "sleep 600 & echo $! > left",
    ];
    let done = run(&place, &leaves);
    let left = fs::read_to_string(place.path("left")).unwrap().trim().parse().unwrap();
    let _ = kill_process(Pid::from_raw(left).unwrap(), Signal::KILL);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["trials"][0]["operations"][0]["completed"], 1, "{}{}", done.out, done.err);
}

#[test]
fn without_a_success_every_document_is_valid() {
    let place = Place::new("disturbed-failures");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Each connection ends without an answer.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let load = ["http", &url, "--concurrency", "4", "--duration", "300ms", "--warm-up", "0s", "--json", "-q"];
    let done = run(&place, &[&load[..], &["--run-dir", "r"]].concat());
    // The parser accepts no NaN and no infinity.
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let operation = &document["trials"][0]["operations"][0];
    assert!(operation["failed"].as_u64().unwrap() > 0, "{}", done.out);
    assert_eq!(done.code, 1, "{}", done.err);
    for format in ["json", "k6", "otlp"] {
        let exported = run(&place, &["export", "r", "--format", format]);
        assert_eq!(exported.code, 0, "{format}: {}", exported.err);
        let texts =
            if format == "otlp" { exported.out.lines().collect() } else { vec![exported.out.as_str()] };
        texts.iter().for_each(|text| drop(serde_json::from_str::<Value>(text).unwrap()));
    }
}
