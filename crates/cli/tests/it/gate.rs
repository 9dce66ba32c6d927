//! `plimsoll gate`: two versions measured in turns, from directories and from commits, and in a CI job.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{Finished, Place, command, run};

/// A program that works this long: CPU time of a launch is compared, so that busy neighbours do not matter.
fn program(rounds: u32) -> String {
    format!("BEGIN {{ for (i = 0; i < {rounds}; i++) sum += i % 7; print sum }}\n")
}

/// Few rounds, and a slowdown that a busy machine does not hide.
const FLAGS: [&str; 6] = ["--metric", "cpu_per_operation", "--slowdown", "20%", "--rounds-max", "30"];

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with three commits: a program in a folder, the same with a comment, and one that takes twice as long. The
/// branch `equal` is the second one.
fn repository(place: &Place) -> PathBuf {
    let folder = place.path("project/sub");
    fs::create_dir_all(&folder).unwrap();
    git(&place.path("project"), &["init", "--quiet"]);
    let commit = |text: &str| {
        fs::write(folder.join("count.in"), text).unwrap();
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "--quiet", "--message", "Count"]);
    };
    commit(&program(60_000));
    commit(&format!("# Counts.\n{}", program(60_000)));
    git(&folder, &["branch", "equal"]);
    commit(&program(120_000));
    folder
}

/// Runs the program in a folder of a place.
fn run_in(folder: &Path, place: &Place, arguments: &[&str]) -> Finished {
    let mut command = command(place, arguments);
    command.current_dir(folder).env("TMPDIR", place.path("tmp")).env_remove("GITHUB_STEP_SUMMARY");
    Finished::of(command)
}

fn gate_of(out: &str) -> Value {
    serde_json::from_str::<Value>(out).unwrap()["gate"].clone()
}

fn lines_of(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn a_commit_that_is_slower_fails_and_an_equal_one_passes() {
    let place = Place::new("gate-commits");
    let folder = repository(&place);
    fs::create_dir(place.path("tmp")).unwrap();
    let build = "echo building; cp count.in count.awk";
    let gate = |commits: &[&str], run: &str| {
        let mut arguments =
            vec!["gate", "--build", build, "--run-dir", run, "--summary", "../summary.md", "--json"];
        arguments.extend(FLAGS.iter().chain(commits).chain(&["--", "awk", "-f", "count.awk"]));
        run_in(&folder, &place, &arguments)
    };
    let slower = gate(&["--base-commit", "equal"], "../slower");
    assert_eq!(slower.code, 99, "{}{}", slower.out, slower.err);
    let answer = gate_of(&slower.out);
    assert_eq!(answer["answer"], "slower");
    let slowdown = answer["metrics"][0]["slowdown"].as_f64().unwrap();
    assert!((0.3..2.0).contains(&slowdown), "{answer}");
    assert!(answer["metrics"][0]["low"].as_f64().unwrap() > 0.0, "{answer}");
    assert!(slower.err.contains("building base") && slower.err.contains("building head"), "{}", slower.err);

    let equal = gate(&["--base-commit", "equal~1", "--head-commit", "equal"], "../equal");
    // A machine that is busy with other tests may be too noisy, but it is no slowdown.
    assert!(matches!(equal.code, 0 | 97 | 98), "{}{}", equal.out, equal.err);
    assert_ne!(gate_of(&equal.out)["answer"], "slower");

    let summary = fs::read_to_string(place.path("project/summary.md")).unwrap();
    assert_eq!(summary.matches("| cpu\\_per\\_operation |").count(), 4, "{summary}");
    assert!(summary.contains(": slower\n") && summary.contains("Head is slower"), "{summary}");
    // Nothing is left of the builds.
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    let worktrees = Command::new("git").arg("-C").arg(&folder).args(["worktree", "list"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&worktrees.stdout).lines().count(), 1);
    // The answer is a function of the record.
    let shown = run_in(&folder, &place, &["show", "../slower", "--json"]);
    assert_eq!(gate_of(&shown.out), answer);
    // Five launches of a trial are enough for a gate, which refuses a proof.
    let page = run_in(&folder, &place, &["show", "../slower"]).out;
    assert!(page.contains("is slower"), "{page}");
    assert!(!page.contains("too few samples") && !page.contains("Run with --prove"), "{page}");
}

#[test]
fn builds_that_stay_are_used_again() {
    let place = Place::new("gate-builds");
    let folder = repository(&place);
    let log = place.path("built");
    // Builds only what has changed, as make does.
    let build =
        format!("cmp -s count.in count.awk || {{ echo >> {}; cp count.in count.awk; }}", log.display());
    let mut arguments =
        vec!["gate", "--base-commit", "equal", "--build", &build, "--builds", "../builds", "--quiet"];
    arguments.extend(FLAGS.iter().chain(&["--", "awk", "-f", "count.awk"]));
    for run in 0..2 {
        let done = run_in(&folder, &place, &arguments);
        assert_eq!(done.code, 99, "{}{}", done.out, done.err);
        assert_eq!(lines_of(&log), 2, "run {run}");
    }
    let failing =
        ["gate", "--base-commit", "equal", "--build", "exit 3", "--builds", "../builds", "--", "true"];
    let done = run_in(&folder, &place, &failing);
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.err.contains("the build of base (") && done.err.contains("exit 3"), "{}", done.err);
}

/// A target that counts its starts where it was started.
const SERVE: &str = "echo >> starts\necho up\nexec sleep 1000\n";

const EXPERIMENT: &str = r#"
[target]
start = "sh serve.sh"
ready = "line:^up"
[workload.command]
command = ["true"]
repeat = 2
[gate]
rounds_max = 12
slowdown = "100%"
"#;

#[test]
fn the_target_of_a_file_is_started_in_both_directories() {
    let place = Place::new("gate-target");
    for version in ["base", "head"] {
        fs::create_dir(place.path(version)).unwrap();
        fs::write(place.path(version).join("serve.sh"), SERVE).unwrap();
    }
    fs::write(place.path("e.toml"), EXPERIMENT).unwrap();
    let checked = run(&place, &["check", "e.toml"]);
    assert!(checked.code == 2 && checked.err.contains("nothing is varied"), "{}", checked.err);
    let done = run(
        &place,
        &["gate", "e.toml", "--base", "base", "--head", "head", "--run-dir", "run", "--json", "--quiet"],
    );
    assert!(done.measured(), "{}{}", done.out, done.err);
    for version in ["base", "head"] {
        assert_eq!(lines_of(&place.path(version).join("starts")), 12, "each trial starts it: {version}");
    }
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["gate"]["metrics"][0]["pairs"], 12);
    assert_eq!(document["trials"].as_array().unwrap().len(), 24);
    let head = place.path("head").display().to_string();
    assert_eq!(document["configurations"][1]["treatment"]["changes"][0]["factor"], "target.directory");
    let trials: Vec<PathBuf> = fs::read_dir(place.path("run/trials"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("run.json"))
        .collect();
    let asked =
        |path: &PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap()["asked"].clone();
    let of_head =
        trials.iter().filter(|path| asked(path)["target.directory"]["text"] == head.as_str()).count();
    assert_eq!(of_head, 12);
    // The recorded experiment is complete: it is the same gate.
    let again = run(&place, &["check", "run/experiment.toml"]);
    assert!(again.code == 0 && again.out.contains("gate on response.p50"), "{}{}", again.out, again.err);
}

#[test]
fn what_cannot_be_a_gate_is_refused() {
    let place = Place::new("gate-mistakes");
    let folder = repository(&place);
    fs::write(folder.join("disk.toml"), "[workload.disk]\nfiles = \"x\"\nsize = \"1MiB\"\n").unwrap();
    let http = "[workload.http]\nurl = \"http://127.0.0.1:9/\"\n[load]\nopen = \"100/s\"\n\
                [vary]\n\"workload.keep_alive\" = { levels = [false] }\n[gate]\nmetric = [\"throughput\", \"respnse.p95\"]\nslowdwn = \"2%\"\n";
    fs::write(folder.join("http.toml"), http).unwrap();
    for (arguments, expected) in [
        (&["gate"][..], "FILE"),
        (&["gate", "--", "true"], "--base"),
        (&["gate", "--base", ".", "--", "true"], "--head"),
        (&["gate", "--base", ".", "--head", ".", "--", "true"], "both are ."),
        (&["gate", "--base", "none", "--head", ".", "--", "true"], "there is no directory `none`"),
        (&["gate", "--base-commit", "nothing", "--", "true"], "nothing is not a commit here"),
        (&["gate", "--base-commit", "HEAD", "--", "true"], "nothing to compare"),
        (
            &["gate", "--base", ".", "--head", "..", "--metric", "failed", "--", "true"],
            "a gate compares no failures",
        ),
        (&["gate", "--base", ".", "--head", "..", "--slowdown", "0%", "--", "true"], "out of range"),
        (&["gate", "--base", ".", "--head", "..", "--rounds-max", "5", "--", "true"], "rounds-max"),
        (&["gate", "disk.toml", "--base", ".", "--head", ".."], "starts neither a target nor a command"),
        (&["gate", "disk.toml"], "nothing is varied"),
        (&["gate", "http.toml"], "unknown key `slowdwn` in [gate]"),
        (&["gate", "http.toml"], "unknown metric `respnse.p95`: did you mean `response.p95`?"),
        (&["gate", "http.toml"], "the throughput of an open load is what it offers"),
    ] {
        let done = run_in(&folder, &place, arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {}{}", done.out, done.err);
        let text = done.err.replace("\n  ", ": ");
        assert!(text.contains(expected), "{arguments:?}: {}", done.err);
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ci/gate.sh")
}

#[test]
fn a_ci_job_compares_with_the_target_branch() {
    let place = Place::new("gate-ci");
    let folder = repository(&place);
    // The target branch as a server has it.
    git(&folder, &["update-ref", "refs/remotes/origin/main", "equal"]);
    let job = |variables: &[(&str, &str)]| {
        let mut command = Command::new(script());
        command.current_dir(&folder).env("PLIMSOLL", env!("CARGO_BIN_EXE_plimsoll"));
        command.env("PLIMSOLL_STATE_DIR", place.path("state")).env("GATE_BUILD", "cp count.in count.awk");
        for name in
            ["GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "GITHUB_BASE_REF", "CI_MERGE_REQUEST_DIFF_BASE_SHA"]
        {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (code, text) = job(&[
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_BASE_REF", "main"),
        ("GITHUB_STEP_SUMMARY", "summary.md"),
        ("GATE_COMMAND", "awk -f count.awk"),
        ("GATE_METRIC", "cpu_per_operation response.min"),
        ("GATE_SLOWDOWN", "20%"),
        ("GATE_ROUNDS_MAX", "12"),
    ]);
    assert_eq!(code, Some(99), "{text}");
    assert!(text.contains("::error::plimsoll gate: the change is slower than origin/main"), "{text}");
    assert!(fs::read_to_string(folder.join("summary.md")).unwrap().contains("response.min"), "{text}");
    // Head takes twice as long as base in one round and half as long in the next: no number of rounds finds a thousandth.
    let alternates = "grep -q 120000 count.in || exec sleep 0.02\n\
                      echo >> launches\n\
                      [ $((($(wc -l < launches) - 1) / 5 % 2)) = 0 ] && exec sleep 0.04\n\
                      exec sleep 0.01";
    for (inconclusive, expected) in [("pass", &[0][..]), ("fail", &[97, 98])] {
        let (code, text) = job(&[
            ("GATE_BASE", "equal~1"),
            ("GATE_COMMAND", alternates),
            ("GATE_SLOWDOWN", "0.1%"),
            ("GATE_ROUNDS_MAX", "12"),
            ("GATE_INCONCLUSIVE", inconclusive),
            ("GATE_RUN_DIR", inconclusive),
        ]);
        assert!(code.is_some_and(|code| expected.contains(&code)), "{code:?}: {text}");
        assert!(text.contains("plimsoll gate: too much noise"), "{text}");
    }
    assert!(folder.join("gate.md").exists());
    assert_eq!(job(&[]).0, Some(2));
}

#[test]
fn the_action_passes_every_input_to_the_script() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let action = fs::read_to_string(root.join("action.yml")).unwrap();
    let script = fs::read_to_string(script()).unwrap();
    let (inputs, runs) = action.split_once("\nruns:").unwrap();
    let declared: BTreeSet<&str> = inputs
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':').filter(|name| !name.starts_with(' ')))
        .collect();
    let used: BTreeSet<&str> =
        runs.split("${{ inputs.").skip(1).filter_map(|part| part.split(' ').next()).collect();
    assert_eq!(declared, used);
    let variables: Vec<&str> = runs
        .lines()
        .filter_map(|line| {
            line.trim().split_once(':').map(|(name, _)| name).filter(|name| name.starts_with("GATE_"))
        })
        .collect();
    assert!(variables.len() >= 8, "{variables:?}");
    for variable in variables {
        assert!(script.contains(&format!("${{{variable}:-")), "{variable} is not read by the script");
    }
}
