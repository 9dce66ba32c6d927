//! Real processes: an engine that is a script.

use std::path::Path;

use engine::workload::{Admission, Completion, Operation, Outcome};
use model::{Level, Settings};
use testkit::Scratch;

use super::*;
use crate::testing::{drive, settings_of};

mod ownership;

/// An engine in a shell script: prints what `$1` asks for.
const ENGINE: &str = r#"#!/bin/sh
case $1 in
staging) echo "reading users.csv"; for n in 0 4 8; do echo "progress staff full-import $n"; done
    echo "progress staff full-import 10 done" ;;
sync) echo "progress staff full-synchronization 10 done" ;;
export) echo "progress phones export 3"; echo "progress phones export 7 done" ;;
confirm) echo "progress phones full-import 7 done"; echo "progress phones delta-synchronization 0 done" ;;
users) echo "1,000 users"; echo "2,500 users" ;;
first) if [ -e store ]; then echo "the store is full"; exit 5; fi
    echo stored > store; echo "progress staff full-import 0"; sleep 0.05; echo "progress staff full-import 10 done" ;;
fail) echo "progress staff full-import 5"; echo "error: the store is locked" >&2; exit 3 ;;
kill) kill -9 $$ ;;
hang) echo "progress staff full-import 0"; sleep 60 & wait ;;
silent) echo "all is well" ;;
esac
"#;

fn configured(folder: &Scratch, pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    folder.file("engine", ENGINE);
    let directory = folder.path().display().to_string();
    let mut all = vec![("command", "/bin/sh engine {run}"), ("directory", directory.as_str())];
    all.extend(pairs);
    SYNC.configure(&settings_of(settings::SETTINGS, &all)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn with_runs(folder: &Scratch, runs: &[&str], pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    folder.file("engine", ENGINE);
    let directory = folder.path().display().to_string();
    let mut settings: Settings = settings_of(settings::SETTINGS, pairs);
    settings.set("run", Level::List(runs.iter().map(|run| Level::Text((*run).into())).collect()));
    for (name, text) in [("command", "/bin/sh engine {run}"), ("directory", &directory)] {
        settings.set(name, Level::Text(text.into()));
    }
    SYNC.configure(&settings).unwrap_or_else(|problems| panic!("{problems}"))
}

fn prepared(mut workload: Box<dyn Workload>) -> Box<dyn Workload> {
    workload.prepare(7, &mut |_| true).unwrap();
    workload
}

/// Objects by the names of their operations, in the order they were first met.
fn counted(workload: &dyn Workload) -> Vec<(&'static str, u64)> {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for done in drive(workload, 1, usize::MAX).unwrap() {
        assert_eq!(done.outcome, Outcome::Well);
        let name = OPERATIONS[usize::from(done.kind)];
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += u64::from(done.count),
            None => counts.push((name, u64::from(done.count))),
        }
    }
    counts
}

#[test]
fn objects_are_counted_step_by_step() {
    let folder = Scratch::new();
    let workload = prepared(with_runs(&folder, &["staging", "sync", "export", "confirm"], &[]));
    assert_eq!(
        counted(&*workload),
        [("staging", 10), ("synchronization", 10), ("export", 7), ("confirmation", 7)]
    );
    let facts = workload.facts();
    assert!(facts["step.1"].to_string().starts_with("staff full-import: 10 objects in "), "{facts:?}");
    assert!(
        facts["step.5"].to_string().starts_with("phones delta-synchronization: 0 objects in "),
        "{facts:?}"
    );
    assert_eq!(facts["commands"].to_string().split("; ").nth(2), Some("/bin/sh engine export"));
}

#[test]
fn runs_are_repeated_until_they_have_worked_long_enough() {
    let folder = Scratch::new();
    let prepare = "rm -f store; echo round >> rounds";
    let pairs = [("run", "first"), ("prepare", prepare), ("repeat_for", "400ms")];
    let workload = prepared(configured(&folder, &pairs));
    let objects: u64 = counted(&*workload).iter().map(|(_, count)| count).sum();
    let rounds = folder.text("rounds").lines().count() as u64;
    assert_eq!(objects, 10 * rounds);
    assert!((2..=8).contains(&rounds), "{rounds} rounds of at least 50 ms");
    let facts = workload.facts();
    assert_eq!(facts["rounds"], Level::Count(rounds));
    assert!(facts.contains_key("step.1") && !facts.contains_key("step.2"), "{facts:?}");
    // What the preparation of a later round says is said.
    let pairs = [("run", "first"), ("prepare", "test ! -e store || { echo in use; exit 7; }"), pairs[2]];
    std::fs::remove_file(folder.join("store")).unwrap();
    let error = drive(&*prepared(configured(&folder, &pairs)), 1, usize::MAX).unwrap_err();
    assert_eq!(error.what, "the preparation ended with exit status 7: in use");
    let problems = SYNC.configure(&settings_of(settings::SETTINGS, &[pairs[0], pairs[2]])).err().unwrap();
    assert!(problems.to_string().contains("`repeat_for` needs `prepare`"), "{problems}");
}

#[test]
fn an_engine_that_only_counts_is_reported_what_it_counts() {
    let folder = Scratch::new();
    let pairs = [("run", "export: users"), ("progress", "([0-9,]+) users")];
    assert_eq!(counted(&*prepared(configured(&folder, &pairs))), [("export", 2500)]);
}

#[test]
fn a_run_that_fails_ends_the_trial_with_its_last_words() {
    let folder = Scratch::new();
    for (run, what) in [
        ("fail", "`/bin/sh engine fail` ended with exit status 3: error: the store is locked"),
        ("kill", "`/bin/sh engine kill` ended with signal 9"),
        ("silent", "no line of the output matched"),
    ] {
        let error = drive(&*prepared(configured(&folder, &[("run", run)])), 1, usize::MAX).unwrap_err();
        assert!(error.what.starts_with(what), "{run}: {error}");
    }
    let pairs = [("run", "hang"), ("timeout", "50ms")];
    let error = drive(&*prepared(configured(&folder, &pairs)), 1, usize::MAX).unwrap_err();
    assert_eq!(error.what, "`hang` took longer than 50ms");
    // A step that does not report its kind.
    let pairs = [("run", "users"), ("progress", "(?<objects>[0-9,]+) (?<step>users)")];
    let error = drive(&*prepared(configured(&folder, &pairs)), 1, usize::MAX).unwrap_err();
    assert_eq!(error.what, "the kind of the objects of the step `users` is not known");
}

fn is_running(pattern: &Path) -> bool {
    let wanted = pattern.display().to_string();
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let of = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        // A process that has ended and waits to be reaped has no command line any more.
        String::from_utf8_lossy(&of("cmdline")).contains(&wanted)
    })
}

#[test]
fn a_worker_that_is_dropped_leaves_nothing_running() {
    let folder = Scratch::new();
    let engine = folder.file("engine", ENGINE);
    let command = format!("/bin/sh {} {{run}}", engine.display());
    let pairs = [("command", command.as_str()), ("run", "hang")];
    let workload = SYNC.configure(&settings_of(settings::SETTINGS, &pairs)).unwrap_or_else(|p| panic!("{p}"));
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 1 };
    let mut worker = workload.worker(&share).unwrap();
    let operation = Operation::new(0, 0);
    let mut done: Vec<Completion> = Vec::new();
    while worker.submit(operation) != Admission::Accepted {
        worker.reap(u64::MAX, &mut done).unwrap();
    }
    assert!(is_running(&engine));
    drop(worker);
    assert!(!is_running(&engine));
}

#[test]
fn the_folder_and_the_configuration_are_made_and_removed() {
    let folder = Scratch::new();
    let directory = folder.join("work");
    let place = directory.display().to_string();
    let pairs = [
        ("run", "x full-import"),
        ("command", "/bin/sh -c 'test -f users.csv && cat {config}'"),
        ("config", "engine.conf"),
        ("template", "progress x full-import {users} done\n# {left} as it is {commit_objects}\n"),
        ("users", "12"),
        ("commit_objects", "1"),
        ("prepare", "echo {users} > users.csv"),
        ("directory", place.as_str()),
    ];
    let configure =
        || SYNC.configure(&settings_of(settings::SETTINGS, &pairs)).unwrap_or_else(|p| panic!("{p}"));
    for _ in 0..2 {
        let mut workload = prepared(configure());
        assert_eq!(workload.check().0, []);
        assert_eq!(counted(&*workload), [("staging", 12)]);
        let text = std::fs::read_to_string(directory.join("engine.conf")).unwrap();
        assert_eq!(text, "progress x full-import 12 done\n# {left} as it is 1\n");
        workload.clean_up().unwrap();
        assert!(!directory.exists());
    }
    // A folder of somebody else's is left alone.
    folder.file("work/precious", "");
    assert!(configure().check().to_string().contains("exists already and was not created by Plimsoll"));
}

#[test]
fn a_preparation_that_fails_says_why_and_one_that_is_stopped_ends() {
    let folder = Scratch::new();
    let mut workload = configured(&folder, &[("run", "staging"), ("prepare", "echo no room >&2; exit 4")]);
    let error = workload.prepare(1, &mut |_| true).unwrap_err();
    assert_eq!(error.what, "the preparation ended with exit status 4: no room");
    let mark = folder.join("plimsoll-sync-test-sleep");
    let script = format!("exec sh -c 'sleep 60; : {}'", mark.display());
    let mut workload = configured(&folder, &[("run", "staging"), ("prepare", &script)]);
    let error = workload.prepare(1, &mut |_| false).unwrap_err();
    assert_eq!(error.what, "the preparation was stopped");
    assert!(!is_running(&mark));
}

#[test]
fn a_change_is_timed_until_it_shows() {
    let folder = Scratch::new();
    folder.file("carry", "cp source target\n");
    let pairs = [
        ("change", "echo {number} > source"),
        ("shows", "grep -qx {number} target"),
        ("changes", "3"),
        ("look_every", "1ms"),
        ("run", "carry"),
        ("command", "/bin/sh {run}"),
    ];
    let workload = prepared(configured(&folder, &pairs));
    let done = drive(&*workload, 1, usize::MAX).unwrap();
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|done| OPERATIONS[usize::from(done.kind)] == "propagation"));
    assert!(!workload.operations_in_turn());
    // One that never shows has failed, and the next one is made all the same.
    let pairs = [("change", "true"), ("shows", "false"), ("changes", "2"), ("timeout", "60ms")];
    let done = drive(&*prepared(configured(&folder, &pairs)), 1, usize::MAX).unwrap();
    assert_eq!(done.len(), 2);
    for done in done {
        let Outcome::Failed(code) = done.outcome else { panic!("{done:?}") };
        assert_eq!(workload.describe_failure(code), "the target did not show the change before the timeout");
    }
    // One that cannot be made ends the trial.
    let pairs = [("change", "echo no source >&2; exit 1"), ("shows", "true")];
    let error = drive(&*prepared(configured(&folder, &pairs)), 1, usize::MAX).unwrap_err();
    assert_eq!(error.what, "the command `change` ended with exit status 1: no source");
}
