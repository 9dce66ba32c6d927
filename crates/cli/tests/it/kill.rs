//! `kill -9` and Ctrl-C at any moment: the record opens, and nothing that was changed stays changed.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use testkit::Need;

use crate::program::{Place, command, run};

const EXPERIMENT: &str = r#"
name = "Killed"
seed = 7
[workload.disk]
files = "f.bin"
size = "8MiB"
keep = true
[load]
warm_up = "300ms"
measure = "10s"
interval = "100ms"
[vary]
"host.cpus" = { baseline = 1, levels = [2] }
LIMIT
"#;

/// As root with a block controller the I/O limit is set too, which leaves more behind when killed.
fn experiment() -> String {
    let needs = [Need::Cgroup("blkio", "io"), Need::BlockDevice(&std::env::temp_dir())];
    let limited = !needs.into_iter().any(testkit::partly_lacks);
    EXPERIMENT.replace(
        "LIMIT",
        if limited { r#""host.disk.io_limit" = { baseline = "2000/s", levels = ["1000/s"] }"# } else { "" },
    )
}

fn start(place: &Place, directory: &str) -> Child {
    let checked = run(place, &["check", "e.toml"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let mut command = command(place, &["run", "e.toml", "--run-dir", directory, "--quiet"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Cgroups that a process of Plimsoll made and that still exist. Other tests make theirs at the same time.
fn groups(process: u32) -> Vec<String> {
    fn walk(folder: &std::path::Path, of: &str, found: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in
            entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        {
            if entry.file_name().to_string_lossy().starts_with(of) {
                found.push(entry.path().display().to_string());
            }
            walk(&entry.path(), of, found);
        }
    }
    let mut found = Vec::new();
    walk(std::path::Path::new("/sys/fs/cgroup/blkio"), &format!("plimsoll-io-{process}-"), &mut found);
    found
}

/// Whether an interval of a run is recorded.
pub(crate) fn load_began(directory: &std::path::Path) -> bool {
    let trials = std::fs::read_dir(directory.join("trials")).into_iter().flatten();
    trials.filter_map(Result::ok).any(|trial| {
        let intervals = std::fs::read_to_string(trial.path().join("intervals.csv"));
        intervals.is_ok_and(|text| text.lines().nth(1).is_some())
    })
}

pub(crate) fn unix_s() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn an_interrupted_experiment_ends_cleanly_and_resumes() {
    let place = Place::new("interrupt");
    let short = experiment().replace("\"10s\"", "\"600ms\"");
    std::fs::write(place.path("e.toml"), short).unwrap();
    let mut child = start(&place, "r");
    // Until the first trial is over, so that there is something to go on from.
    let deadline = Instant::now() + Duration::from_secs(60);
    let first = place.path("r/trials/001-baseline.r1/readings.csv.gz");
    while !first.exists() {
        assert!(Instant::now() < deadline, "the first trial did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(groups(child.id()), Vec::<String>::new());
    let resumed = run(&place, &["run", "--resume", "r", "--json"]);
    let document: serde_json::Value =
        serde_json::from_str(&resumed.out).unwrap_or_else(|_| panic!("{}", resumed.err));
    let completed =
        document["trials"].as_array().unwrap().iter().filter(|trial| trial["ending"] == "completed").count();
    let planned = run(&place, &["check", "e.toml", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!(completed, plan["trials"].as_array().unwrap().len());
    // The interrupted trial is repeated, and the last one is still the last of all.
    let counted = resumed.err.lines().filter_map(|line| line.strip_prefix('[')?.split_once(']'));
    let counted: Vec<(u32, u32)> = counted
        .map(|(count, _)| count.split_once('/').unwrap())
        .map(|(number, of)| (number.parse().unwrap(), of.parse().unwrap()))
        .collect();
    let trials = std::fs::read_dir(place.path("r/trials")).unwrap().count() as u32;
    assert_eq!(counted.last(), Some(&(trials, trials)), "{}", resumed.err);
    let unknown = run(&place, &["compare", "r:baseline", "r:no such configuration at all"]);
    assert_eq!((unknown.code, unknown.err.matches("`baseline`").count()), (2, 1), "{}", unknown.err);
    // Configurations of the same name are distinguished by their runs.
    let same = run(&place, &["compare", "r:baseline", "./r:baseline"]);
    assert!(same.out.contains("r:baseline against ./r:baseline"), "{}{}", same.out, same.err);
    let unknown = run(&place, &["compare", "r:foo", "r:bar"]);
    assert!(unknown.err.contains("`foo`") && unknown.err.contains("`bar`"), "{}", unknown.err);
}

#[test]
fn interrupted_while_the_data_is_made_it_says_so_and_leaves_nothing() {
    let place = Place::new("interrupt-making");
    let arguments = ["disk", "f.bin", "--size", "256MiB", "--duration", "60s", "--quiet", "--run-dir", "r"];
    let mut child = crate::program::command(&place, &arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !place.path("f.bin").exists() {
        assert!(Instant::now() < deadline, "the file was not made");
        std::thread::sleep(Duration::from_millis(5));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.path("f.bin").exists());
    assert!(place.path("r/trials/001-baseline.r1/run.json").exists());
}

#[test]
fn a_file_left_by_a_kill_is_left_by_a_run_that_reads_and_taken_over_by_one_that_writes() {
    let place = Place::new("left");
    let load = |more: &[&str], directory: &str| {
        let common =
            ["disk", "f.bin", "--size", "8MiB", "--warm-up", "0s", "--quiet", "--run-dir", directory];
        [&common[..], more].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let arguments = load(&["--write", "--duration", "60s", "--interval", "50ms"], "killed");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut child = command(&place, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let intervals = place.path("killed/trials/001-baseline.r1/intervals.csv");
    while std::fs::read_to_string(&intervals).unwrap_or_default().lines().count() < 3 {
        assert!(Instant::now() < deadline, "the load did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let next = |more: &[&str], directory: &str| {
        let arguments = load(&[more, &["--duration", "200ms"]].concat(), directory);
        run(&place, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let read = next(&[], "read");
    assert!(read.measured(), "{}", read.err);
    assert!(place.path("f.bin").exists(), "it did not make it");
    // Other content in the same file.
    let left = std::fs::read(place.path("f.bin")).unwrap();
    std::fs::write(place.path("f.bin"), vec![7; left.len()]).unwrap();
    for (more, code) in [(&[][..], None), (&["--write"][..], Some(2))] {
        let done = next(more, if code.is_some() { "refused" } else { "foreign" });
        assert!(code.map_or(done.measured(), |code| done.code == code), "{}", done.err);
        assert!(std::fs::read(place.path("f.bin")).unwrap() == vec![7; left.len()]);
    }
    std::fs::write(place.path("f.bin"), left).unwrap();
    let written = next(&["--write"], "written");
    assert!(written.measured(), "{}", written.err);
    assert!(!place.path("f.bin").exists(), "it was to be kept by nobody");
}

/// The kernel then gives up the numbers of processes that have ended by itself.
#[test]
fn a_command_is_not_launched_where_the_end_of_processes_is_ignored() {
    let place = Place::new("ignored");
    let done = std::process::Command::new("timeout")
        .args(["60", "env", "--ignore-signal=CHLD", env!("CARGO_BIN_EXE_plimsoll")])
        .args(["exec", "--repeat", "2", "--quiet", "--", "true"])
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{words}");
    assert!(words.contains("ignores SIGCHLD"), "{words}");
}
