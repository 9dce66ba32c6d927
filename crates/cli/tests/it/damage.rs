//! Records that lost a part: every command that reads them answers, and says what is missing.

use std::path::{Path, PathBuf};

use crate::program::{Place, run};

/// A sweep over the load, whose record is then damaged in one way after the other.
const EXPERIMENT: &str = r#"
name = "A sweep"
sample_every = "50ms"
[workload.null]
service = "2ms"
[load]
closed = 8
warm_up = "0s"
measure = "300ms"
interval = "50ms"
[vary]
"load.closed" = { levels = [1, 2, 4] }
"#;

/// The files of the trials, each with its text.
fn edit(run: &Path, only: &str, file: &str, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) {
    for entry in std::fs::read_dir(run.join("trials")).unwrap() {
        let trial = entry.unwrap().path();
        if !trial.to_string_lossy().contains(only) {
            continue;
        }
        let found: Vec<PathBuf> = [file.to_string(), format!("{file}.gz")]
            .iter()
            .map(|name| trial.join(name))
            .filter(|path| path.exists())
            .collect();
        assert!(!found.is_empty(), "{} has no {file}", trial.display());
        for path in found {
            match change(std::fs::read(&path).unwrap()) {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
        }
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn half(bytes: Vec<u8>) -> Option<Vec<u8>> {
    Some(bytes[..bytes.len() / 2].to_vec())
}

/// The head and the first lines, as where a copy ended with a whole line.
fn first_lines(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let head = lines.iter().filter(|line| line.starts_with(['#', '"', 'b'])).count();
    Some(lines[..head + (lines.len() - head) / 2].concat().into_bytes())
}

fn empty(_: Vec<u8>) -> Option<Vec<u8>> {
    Some(Vec::new())
}

/// Removes the folder of the second trial; its name.
fn lose_a_trial(run: &Path) -> String {
    let folders = std::fs::read_dir(run.join("trials")).unwrap().map(|entry| entry.unwrap());
    let second =
        folders.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().starts_with("002-"));
    let second = second.unwrap();
    std::fs::remove_dir_all(run.join("trials").join(&second)).unwrap();
    second.into_string().unwrap()
}

fn gone(_: Vec<u8>) -> Option<Vec<u8>> {
    None
}

fn noise(bytes: Vec<u8>) -> Option<Vec<u8>> {
    Some(bytes.iter().enumerate().map(|(at, byte)| byte ^ (at as u8).wrapping_mul(97)).collect())
}

/// One way to damage a record.
type Damage = fn(&Path);

#[test]
fn a_damaged_record_is_reported_and_never_judged_with_confidence() {
    let place = Place::new("damaged");
    std::fs::write(place.path("e.toml"), EXPERIMENT).unwrap();
    let done = run(&place, &["run", "e.toml", "--run-dir", "sound", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    // What `explain` must say.
    let damages: [(&str, Damage, &str); 22] = [
        ("no-counters", |run| edit(run, "", "readings.csv", gone), "readings.csv is missing"),
        ("counters-cut", |run| edit(run, "", "readings.csv", half), "readings.csv"),
        ("counters-noise", |run| edit(run, "", "readings.csv", noise), "readings.csv"),
        ("no-metrics", |run| edit(run, "", "metrics.json", gone), "metrics.json is missing"),
        ("metrics-cut", |run| edit(run, "", "metrics.json", half), "metrics.json is missing or damaged"),
        ("no-intervals", |run| edit(run, "", "intervals.csv", gone), "recorded no operation"),
        ("intervals-cut", |run| edit(run, "baseline", "intervals.csv", half), "intervals.csv"),
        ("intervals-noise", |run| edit(run, "baseline", "intervals.csv", noise), "intervals.csv"),
        ("no-histograms", |run| edit(run, "", "response.hlog", gone), "upper bound"),
        ("histograms-noise", |run| edit(run, "", "response.hlog", noise), "response.hlog"),
        ("no-service-times", |run| edit(run, "", "service.hlog", gone), "service.hlog is missing"),
        ("histograms-short", |run| edit(run, "", "response.hlog", first_lines), "a part is lost"),
        ("service-short", |run| edit(run, "", "service.hlog", first_lines), "a part is lost"),
        ("intervals-short", |run| edit(run, "", "intervals.csv", first_lines), "a part is lost"),
        ("no-event", |run| edit(run, "", "events.jsonl", empty), "a part is lost"),
        ("no-trial", |run| drop(lose_a_trial(run)), "the record of trial 002-load.closed="),
        (
            "no-more-trials",
            |run| {
                lose_a_trial(run);
                let plan = std::fs::read_to_string(run.join("plan.json")).unwrap();
                let mut plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
                plan["decisions"].as_array_mut().unwrap().retain(|of| of["trial"]["number"] != 2);
                plan.as_object_mut().unwrap().remove("enough");
                std::fs::write(run.join("plan.json"), plan.to_string()).unwrap();
            },
            "4 of 5 planned trials completed",
        ),
        ("no-run", |run| edit(run, "baseline", "run.json", gone), "run.json"),
        ("run-cut", |run| edit(run, "", "run.json", half), "run.json"),
        ("no-plan", |run| std::fs::remove_file(run.join("plan.json")).unwrap(), "the plan is missing"),
        ("no-host", |run| std::fs::remove_file(run.join("host.json")).unwrap(), "host.json is missing"),
        (
            "endings",
            |run| {
                edit(run, "", "run.json", |bytes| {
                    let text = String::from_utf8(bytes).unwrap();
                    Some(text.replace("\"ending\": \"completed\"", "\"ending\": \"running\"").into_bytes())
                })
            },
            "No trial completed",
        ),
    ];
    for (name, damage, expected) in damages {
        let path = place.path(name);
        copy(&place.path("sound"), &path);
        damage(&path);
        for arguments in [
            &["explain"][..],
            &["show", "--json"],
            &["report"],
            &["export"],
            &["size", "--for", "100/s"],
            &["size", "--for", "100/s", "--json"],
        ] {
            let arguments = [&[arguments[0], name], &arguments[1..]].concat();
            let finished = run(&place, &arguments);
            let said = format!("{}{}", finished.out, finished.err);
            assert!(!said.contains("panicked"), "{arguments:?}: {said}");
            // 1 where nothing at all can be read, then with words; no other code.
            let is_size = arguments[0] == "size";
            let allowed: &[i32] = if is_size { &[0, 1, 98, 99] } else { &[0, 1] };
            assert!(allowed.contains(&finished.code), "{arguments:?}: {} {said}", finished.code);
            assert!(finished.code != 1 || finished.err.starts_with("error: "), "{arguments:?}: {said}");
            if arguments[0] == "explain" {
                // The system is a plain wait: whatever is lost, no resource limits it.
                assert!(said.contains("TO DO"), "{name}: {said}");
                let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(said.contains(expected), "{name}: {expected:?} is not said: {said}");
                assert!(!said.contains("NaN") && !said.contains(" inf"), "{said}");
            }
        }
        for arguments in [["compare", "sound", name], ["compare", name, "sound"]] {
            let finished = run(&place, &arguments);
            assert!([0, 1].contains(&finished.code), "{arguments:?}: {}{}", finished.out, finished.err);
        }
    }
}
