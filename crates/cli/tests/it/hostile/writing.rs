//! What is written, and by whom it can be read.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{OF_TRIAL, PATIENCE, SWEEP, limited, listing, trials};
use crate::program::{Place, command, run};

/// A run that was interrupted in its second trial.
fn interrupted(place: &Place, name: &str) {
    let mut child = command(place, &["run", "e.toml", "--run-dir", name, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !place.path(name).join("trials/001-baseline.r1/readings.csv.gz").exists() {
        assert!(Instant::now() < deadline, "the first trial did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_run_is_not_gone_on_with_through_links() {
    let place = Place::new("hostile-resume");
    // Long enough to be interrupted, with a target whose output is kept.
    let experiment = SWEEP.replace("\"200ms\"", "\"1s\"")
        + "[target]\nstart = \"sh -c 'echo up; exec sleep 60'\"\nready = \"line:^up\"\n";
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let outside = place.path("outside");
    std::fs::create_dir_all(outside.join("trials")).unwrap();
    std::fs::write(outside.join("precious"), "ssh-ed25519 AAAA me\n").unwrap();
    type Make = fn(&Path, &Path);
    let cases: [(&str, Make, bool); 4] = [
        (
            "trials",
            |run, outside| {
                std::fs::remove_dir_all(run.join("trials")).unwrap();
                symlink(outside.join("trials"), run.join("trials")).unwrap();
            },
            false,
        ),
        (
            "trial",
            |run, outside| {
                let last = trials(run).pop().unwrap();
                std::fs::remove_dir_all(&last).unwrap();
                symlink(outside.join("trials"), &last).unwrap();
            },
            false,
        ),
        (
            "log",
            |run, outside| {
                std::fs::remove_dir_all(run.join("trials")).unwrap();
                std::fs::create_dir(run.join("trials")).unwrap();
                std::fs::remove_file(run.join("target.log")).unwrap();
                symlink(outside.join("precious"), run.join("target.log")).unwrap();
            },
            false,
        ),
        (
            // The files themselves are replaced, and what the links point at is not.
            "files",
            |run, outside| {
                std::fs::remove_dir_all(run.join("trials")).unwrap();
                std::fs::create_dir_all(run.join("trials/001-baseline.r1")).unwrap();
                for name in
                    ["result.json", "report.html", "plan.json.new", "result.json.new", "report.html.new"]
                {
                    let _ = std::fs::remove_file(run.join(name));
                    symlink(outside.join("precious"), run.join(name)).unwrap();
                }
                for name in OF_TRIAL {
                    symlink(outside.join("precious"), run.join("trials/001-baseline.r1").join(name)).unwrap();
                }
            },
            true,
        ),
    ];
    for (name, make, is_done) in cases {
        interrupted(&place, name);
        make(&place.path(name), &outside);
        let before = listing(&outside);
        let done = run(&place, &["run", "--resume", name, "--quiet"]);
        assert!(listing(&outside) == before, "{name}: something outside was changed");
        assert_eq!(done.measured(), is_done, "{name}: {} {}", done.code, done.err);
        assert!(is_done || done.err.contains("symbolic link"), "{name}: {}", done.err);
    }
}

#[test]
fn a_record_is_private() {
    let place = Place::new("hostile-private");
    std::fs::write(place.path("e.toml"), SWEEP).unwrap();
    let done = run(&place, &["run", "e.toml", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&place.path("runs")), 0o700);
    let mut seen = 0;
    for (path, ..) in listing(&place.path("runs")) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
        seen += 1;
    }
    assert!(seen > 15, "{seen}");
    assert!(run(&place, &["runs"]).out.contains("A sweep"));
    assert!(run(&place, &["show", "last"]).out.contains("A sweep"));
}

#[test]
fn an_output_is_written_where_the_user_named_it_and_through_no_foreign_link() {
    let place = Place::new("hostile-output");
    std::fs::write(place.path("e.toml"), SWEEP).unwrap();
    let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    std::fs::write(place.path("real"), "old").unwrap();
    symlink("real", place.path("own")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    for (name, arguments) in [
        ("report", &["report", "r", "--output"][..]),
        ("people", &["generate", "people", "--count", "3", "--quiet", "--output"]),
    ] {
        let to = |output: &str| run(&place, &[arguments, &[output]].concat());
        assert_eq!(to("new").code, 0, "{name}");
        std::fs::remove_file(place.path("new")).unwrap();
        assert_eq!(to("own").code, 0, "{name}");
        assert!(read("real").len() > 100, "{name}");
        assert!(place.path("own").is_symlink(), "{name}");
        let refused = to("dangling");
        assert!(refused.code == 1 && refused.err.contains("symbolic link"), "{name}: {}", refused.err);
        assert!(!place.path("nowhere").exists(), "{name}");
        let printed = to("/dev/stdout");
        assert!(printed.code == 0 && printed.out.len() > 100, "{name}: {}", printed.err);
    }
    let refused = run(
        &place,
        &["exec", "--repeat", "1", "--output", "dangling", "--run-dir", "e", "--quiet", "--", "true"],
    );
    assert!(refused.code == 1 && refused.err.contains("symbolic link"), "{}", refused.err);
    let refused = run(&place, &["init", "disk", "--output", "dangling"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn the_files_of_the_demo_are_put_through_no_link() {
    let place = Place::new("hostile-demo");
    let on = place.path("on");
    std::fs::create_dir_all(&on).unwrap();
    std::fs::write(place.path("precious"), "x").unwrap();
    symlink(place.path("precious"), on.join("plimsoll-demo.flush")).unwrap();
    symlink(place.path("elsewhere"), on.join("plimsoll-demo")).unwrap();
    // It is ended before it measures: the folder is chosen, and the flushes are timed, before anything else.
    let mut child = command(&place, &["demo", "--on", "on", "--run-dir", "r", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !place.path("r/plan.json").exists()
        && Instant::now() < deadline
        && child.try_wait().unwrap().is_none()
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(place.path("precious")).unwrap(), "x");
    assert!(!place.path("elsewhere").exists());
    let plan = std::fs::read_to_string(place.path("r/plan.json")).unwrap();
    assert!(plan.contains("plimsoll-demo-"), "the folder has a name that nobody can know");
    let left: Vec<_> = std::fs::read_dir(&on).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "only the links are left: {left:?}");
}

#[test]
fn a_file_that_never_ends_is_given_up() {
    let place = Place::new("hostile-endless");
    for arguments in [
        &["check", "/dev/zero"][..],
        &["run", "/dev/zero"],
        &["disk", "--fio", "/dev/zero"],
        &["disk", "--sqlio", "-kR", "-F/dev/zero"],
        &["metadir", "check", "--config", "/dev/zero"],
    ] {
        let answer = limited(&place, arguments);
        assert_eq!(answer.code, Some(2), "{arguments:?}: {}", answer.text);
        assert!(answer.text.contains("/dev/zero"), "{arguments:?}: {}", answer.text);
    }
}

#[test]
fn a_mistake_in_the_arguments_is_reported_without_its_escapes() {
    let place = Place::new("hostile-arguments");
    let refused = run(&place, &["show", "x\u{1b}[2J"]);
    assert_eq!(refused.code, 2);
    assert!(!refused.err.contains('\u{1b}') && refused.err.contains("x␛[2J"), "{}", refused.err);
    if testkit::partly_lacks(testkit::Need::Program("script")) {
        return;
    }
    for arguments in ["show r 'x\u{1b}[2J'", "'sh\u{1b}[2Jow'", "show r '--x\u{9b}2J'"] {
        let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_plimsoll"));
        let output = Command::new("/usr/bin/script")
            .args(["-qec", &command, "/dev/null"])
            .current_dir(place.path(""))
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("error"), "{arguments:?}: {shown}");
        assert!(!shown.contains("\u{1b}[2J") && !shown.contains('\u{9b}'), "{arguments:?}: {shown:?}");
    }
}
