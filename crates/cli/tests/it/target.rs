//! A system under test: started, waited for, watched, limited, ended; also when something goes wrong.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Finished, Place, command, run};

/// A target that says which number its file holds, and then works a little until it is ended.
const SERVE: &str = "echo $$ > pid\n. ./serve.properties\necho up with $threads and $LEVEL\n\
                     while :; do i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; sleep 0.02; done\n";

const EXPERIMENT: &str = r#"
name = "Target"
[target]
start = "sh serve.sh"
ready = "line:^up with"
environment = { LEVEL = "one two" }
RESTART
[workload.command]
command = ["sleep", "0.4"]
repeat = 3
[vary]
"target.config" = { on = "serve.properties:threads", levels = [16] }
QUOTA
"#;

const PROPERTIES: &str = "# of the pool\nthreads=8\n";

/// A folder with a target, and its experiment. As root with a controller for processors its quota is set too.
fn place(name: &str, restart: &str) -> Place {
    let place = Place::new(name);
    let limited = rustix::process::geteuid().is_root() && Path::new("/sys/fs/cgroup/cpu").is_dir();
    let quota = if limited { r#""host.cpu_quota" = { baseline = "unlimited", levels = [0.5] }"# } else { "" };
    let experiment = EXPERIMENT.replace("RESTART", restart).replace("QUOTA", quota);
    for (file, text) in
        [("serve.sh", SERVE), ("serve.properties", PROPERTIES), ("e.toml", experiment.as_str())]
    {
        std::fs::write(place.path(file), text).unwrap();
    }
    place
}

fn text(place: &Place, file: &str) -> String {
    std::fs::read_to_string(place.path(file)).unwrap_or_default()
}

fn is_running(process: &str) -> bool {
    // One that has ended and is not yet waited for is gone.
    std::fs::read_to_string(format!("/proc/{}/stat", process.trim()))
        .is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start(place: &Place, directory: &str) -> Child {
    command(place, &["run", "e.toml", "--run-dir", directory, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The runs of a directory in order, each with its folder.
fn runs(place: &Place, directory: &str) -> Vec<(PathBuf, serde_json::Value)> {
    let mut trials: Vec<PathBuf> = std::fs::read_dir(place.path(directory).join("trials"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    trials.sort();
    let run = |trial: PathBuf| {
        let text = std::fs::read_to_string(trial.join("run.json")).unwrap();
        (trial, serde_json::from_str(&text).unwrap())
    };
    trials.into_iter().map(run).collect()
}

/// Nothing of the target is left: no process, no cgroup, no change to its file.
fn assert_clean(place: &Place, plimsoll: Option<u32>) {
    assert!(!is_running(&text(place, "pid")));
    assert_eq!(text(place, "serve.properties"), PROPERTIES);
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        let groups = std::fs::read_dir(hierarchy.path()).into_iter().flatten().flatten();
        for group in groups {
            let name = group.file_name().to_string_lossy().into_owned();
            let ours = plimsoll.is_some_and(|process| name.contains(&format!("-{process}-")));
            assert!(!(name.starts_with("plimsoll-") && ours), "{name} is left");
        }
    }
}

#[test]
fn a_target_inherits_its_standard_streams_only() {
    let place = place("target-descriptors", "");
    std::fs::write(place.path("lock"), "").unwrap();
    let lock = std::fs::File::open(place.path("lock")).unwrap();
    rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty()).unwrap();
    std::fs::write(place.path("serve.sh"), format!("ls -l /proc/self/fd > descriptors\n{SERVE}")).unwrap();
    let Finished { code, err, .. } = run(&place, &["run", "e.toml", "--quiet"]);
    assert_eq!(code, 0, "{err}");
    let listed = text(&place, "descriptors");
    // The three, the folder that is listed, and the script that the shell reads.
    assert!((4..=5).contains(&listed.matches(" -> ").count()), "{listed}");
    assert!(!listed.contains("/lock"), "{listed}");
}

#[test]
fn a_target_is_started_once_and_anew_for_another_configuration() {
    for (name, restart) in [("target-once", ""), ("target-each", "restart = \"each-trial\"")] {
        let place = place(name, restart);
        let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
        assert!(done.measured(), "{}{}", done.code, done.err);
        let log = text(&place, "r/target.log");
        let ups: Vec<&str> = log.lines().collect();
        assert_eq!(ups.iter().filter(|line| **line == "up with 16 and one two").count(), 1, "{log}");
        let runs = runs(&place, "r");
        // For the first baseline, for the other configuration, and for what follows it.
        let starts = if restart.is_empty() { 3 } else { runs.len() };
        assert_eq!(ups.len(), starts, "{log}");
        for (trial, run) in &runs {
            assert_eq!(run["ending"], "completed", "{}", trial.display());
            assert_eq!(
                run["doubts"].as_array().map_or(0, |doubts| {
                    doubts.iter().filter(|doubt| doubt["kind"] == "not_in_force").count()
                }),
                0,
                "{run}"
            );
            let metrics = std::fs::read_to_string(trial.join("metrics.json")).unwrap();
            assert!(metrics.contains("process.busy_cpus"), "the target is watched");
        }
        let changed = runs.iter().filter(|(_, run)| run["in_force"]["target.config"]["text"] == "16");
        assert_eq!(changed.count(), 1);
        assert_clean(&place, None);
        let restored = run_restore(&place);
        assert_eq!(restored.out, "nothing to restore\n");
    }
}

fn run_restore(place: &Place) -> Finished {
    run(place, &["restore", "r"])
}

#[test]
fn a_target_that_fails_takes_its_trial_with_it_and_says_why() {
    for (name, start, ready, expected) in [
        ("target-ends", "sh -c 'echo out of luck; exit 3'", "tcp://127.0.0.1:9", "exit status 3"),
        (
            "target-never",
            "sh -c 'echo out of luck; sleep 60'",
            "line:^up",
            "was not ready (line:^up) within 300ms",
        ),
        ("target-dies", "sh -c 'echo up; sleep 0.5; echo out of luck; kill -9 $$'", "line:^up", "signal 9"),
        ("target-daemon", "sh -c 'echo out of luck'", "line:^up", "it must stay in the foreground"),
    ] {
        let place = Place::new(name);
        let experiment = format!(
            "[target]\nstart = \"{start}\"\nready = \"{ready}\"\nready_within = \"300ms\"\n\
             [workload.command]\ncommand = [\"sleep\", \"0.2\"]\nrepeat = 50\n"
        );
        std::fs::write(place.path("e.toml"), experiment).unwrap();
        let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
        assert_eq!(finished.code, 1, "{name}: {}", finished.out);
        assert!(finished.err.contains(expected), "{name}: {}", finished.err);
        assert!(finished.err.contains("out of luck"), "{name}: {}", finished.err);
        // The record is kept, with the reason.
        let (_, record) = &runs(&place, "r")[0];
        assert!(record["ending"]["failed"].as_str().unwrap().contains("out of luck"), "{record}");
        assert_eq!(run_restore(&place).out, "nothing to restore\n", "{name}");
    }
}

#[test]
fn a_killed_run_leaves_a_target_that_restore_ends() {
    let place = place("target-killed", "");
    let mut child = start(&place, "r");
    // Somewhere in the trial with the other configuration, or in one with a quota.
    wait_for("no second start", || text(&place, "r/target.log").contains("up with 16"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_running(&text(&place, "pid")), "the target outlives Plimsoll until it is restored");
    let restored = run_restore(&place);
    assert_eq!(restored.code, 0, "{}", restored.err);
    assert!(restored.out.contains("r: target ended"), "{}", restored.out);
    assert_clean(&place, Some(child.id()));
    assert_eq!(run_restore(&place).out, "nothing to restore\n");
}

#[test]
fn an_interrupted_run_ends_its_target() {
    let place = place("target-interrupted", "");
    let mut child = start(&place, "r");
    wait_for("the target does not start", || text(&place, "r/target.log").contains("up with"));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_clean(&place, Some(child.id()));
}

#[test]
fn what_runs_already_is_limited_and_left_running() {
    let place = place("target-attached", "");
    let mut service = std::process::Command::new("sh")
        .arg("serve.sh")
        .current_dir(place.path("."))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let attached = EXPERIMENT
        .lines()
        .filter(|line| {
            !["start", "ready", "environment", "RESTART", "\"target.config"]
                .iter()
                .any(|of| line.starts_with(of))
        })
        .map(|line| {
            line.replace("[target]", &format!("[target]\npid = {}", service.id()))
                .replace("QUOTA", r#""host.cpus" = { levels = [1] }"#)
        })
        .collect::<Vec<_>>()
        .join("\n");
    std::fs::write(place.path("e.toml"), attached).unwrap();
    let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"]);
    assert!(finished.measured(), "{}: {}", finished.code, finished.err);
    assert!(service.try_wait().unwrap().is_none(), "it was stopped");
    assert!(!place.path("r/target.log").exists());
    service.kill().unwrap();
    service.wait().unwrap();
    // Without it the experiment is refused before anything is touched.
    let refused = run(&place, &["check", "e.toml"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("there is no process"), "{}", refused.err);
}
