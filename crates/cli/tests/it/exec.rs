//! Commands that are launched, watched and judged. Nothing of time is asserted: where other tests have the CPUs, a launch
//! honestly waits for one.

use serde_json::Value;

use crate::program::{Place, run};

/// The result of launching a command, with more flags before it.
fn launched(place: &Place, flags: &[&str], command: &[&str]) -> Value {
    let arguments: Vec<&str> =
        ["exec", "--json", "--quiet"].iter().chain(flags).chain(&["--"]).chain(command).copied().collect();
    let done = run(place, &arguments);
    assert!(done.measured(), "{}{}", done.out, done.err);
    serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{}{}", done.out, done.err))
}

fn cost<'a>(document: &'a Value, operation: &str) -> &'a Value {
    let costs = document["configurations"][0]["costs"].as_array().unwrap();
    let of = costs.iter().find(|cost| cost["operation"] == operation);
    of.unwrap_or_else(|| panic!("no cost of {operation}: {costs:?}"))
}

/// How much of a kind one launch took.
fn each(document: &Value, operation: &str, kind: &str) -> Option<f64> {
    let parts = cost(document, operation)["parts"].as_array().unwrap();
    parts.iter().find(|part| part["kind"] == kind)?["each"]["value"].as_f64()
}

fn resource(document: &Value) -> &str {
    document["verdict"]["resource"].as_str().unwrap_or("")
}

/// Whether launches were seen to run, or, where other tests use the CPUs, to wait for one.
fn is_of_the_cpu(document: &Value, command: &str) -> bool {
    let findings = document["findings"].as_array().unwrap();
    let launch = findings.iter().find(|finding| finding["claim"]["sign"] == "launch");
    let Some(launch) = launch else { return false };
    match launch["kind"].as_str() {
        Some("limits") => {
            let of = [format!("single thread of {command}"), format!("cpu of {command}")];
            launch["resource"] == document["verdict"]["resource"]
                && of.iter().any(|of| of == resource(document))
        }
        _ => launch["claim"]["state"] == "ready",
    }
}

#[test]
fn a_command_that_spins_is_limited_by_the_cpu_of_its_thread() {
    let place = Place::new("exec-spin");
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let document = launched(&place, &["--repeat", "5", "--run-dir", "r"], &["sh", "-c", spin]);
    assert!(is_of_the_cpu(&document, "sh"), "{}", document["verdict"]);
    for operation in ["first", "later"] {
        let cpu_s = each(&document, operation, "user_cpu").unwrap();
        assert!(
            cpu_s > 0.0 && cpu_s <= cost(&document, operation)["time_s"]["value"].as_f64().unwrap() * 1.05
        );
        assert!(each(&document, operation, "minor_faults").unwrap() > 0.0);
    }
    // The same in every form.
    let verbose = run(&place, &["show", "r", "--verbose"]).out;
    for words in ["cost of one first", "cost of one later", "sh  CPU (user)", "voluntary context switches"] {
        assert!(verbose.contains(words), "{words}: {verbose}");
    }
    let explained = run(&place, &["explain", "r"]).out;
    assert!(explained.contains("CPU time of a launch over its time, sh"), "{explained}");
    let page = std::fs::read_to_string(place.path("r/report.html")).unwrap();
    assert!(page.contains("minor page faults"), "the page has no costs");
    assert!(!page.contains("launch 1 took"), "launches are no events of the page");
}

#[test]
fn a_command_that_flushes_is_limited_by_the_disk() {
    let place = Place::new("exec-flush");
    let file = format!("of={}", place.path("file").display());
    let write = ["dd", "if=/dev/zero", &file, "bs=4k", "count=200", "oflag=dsync"];
    let document = launched(&place, &["--repeat", "5"], &write);
    assert!(each(&document, "later", "write_calls").unwrap() >= 200.0);
    if each(&document, "later", "written_bytes").is_none() {
        // A file system in memory: there is no disk to wait for.
        return;
    }
    assert!(each(&document, "later", "written_bytes").unwrap() >= 200.0 * 4096.0);
    // A device that answers at once leaves the kernel's own work, or other tests, as the limit.
    let named = resource(&document) == "disk of dd (flushes)" || is_of_the_cpu(&document, "dd");
    assert!(named || document["verdict"]["kind"] == "inconclusive", "{}", document["verdict"]);
}

#[test]
fn a_command_that_sleeps_waits_for_no_resource() {
    let place = Place::new("exec-sleep");
    let document = launched(&place, &["--repeat", "4"], &["sleep", "0.3"]);
    let verdict = &document["verdict"];
    assert_eq!(verdict["kind"], "not_saturated", "{verdict}");
    let text = verdict["text"].as_str().unwrap();
    assert!(text.starts_with("No resource of the host was the limit. sleep slept:"), "{text}");
    assert!(each(&document, "later", "asleep").unwrap() > 0.15, "{:?}", cost(&document, "later"));
}

#[test]
fn a_server_that_is_ready_is_accounted_until_then() {
    let place = Place::new("exec-until");
    let serve = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; exec sleep 60";
    let document = launched(&place, &["--repeat", "3", "--until-line", "ready"], &["sh", "-c", serve]);
    assert!(each(&document, "later", "user_cpu").is_some_and(|cpu_s| cpu_s > 0.0));
    // Not known of a process that goes on.
    assert_eq!(each(&document, "later", "voluntary_switches"), None);
}

/// The published series of launches has exactly such a shift: faster from the fifteenth on.
#[test]
fn a_shift_from_the_fifteenth_launch_on_is_found_and_dated() {
    let place = Place::new("exec-shift");
    let script =
        "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; [ $n -lt 15 ] && sleep 0.25; sleep 0.05";
    let document =
        launched(&place, &["--repeat", "30", "--run-dir", "r"], &["sh", "-c", &format!("{script}; true")]);
    let findings = document["findings"].as_array().unwrap();
    let shift = findings.iter().find(|finding| finding["claim"]["sign"] == "launches_shifted");
    let shift = shift.unwrap_or_else(|| panic!("{findings:?}"));
    let claim = &shift["claim"];
    // A launch beside the change that other tests stall may count to the other side.
    assert!((14..=17).contains(&claim["from_launch"].as_u64().unwrap()), "{claim}");
    assert!(claim["at_s"].as_f64().unwrap() > 13.0 * 0.25, "{claim}");
    assert!(claim["before_ms"].as_f64() > claim["after_ms"].as_f64(), "{claim}");
    // The record has each launch with its resource usage.
    let events = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/events.jsonl")).unwrap();
    assert_eq!(events.lines().filter(|line| line.contains("\"kind\":\"launch\"")).count(), 30);
}

#[test]
fn a_command_that_fails_at_once_loses_no_samples() {
    let place = Place::new("exec-false");
    let done = run(&place, &["exec", "--quiet", "--", "false"]);
    assert_eq!(done.code, 1, "{}", done.out);
    assert!(!done.out.contains("samples of the counters are lost"), "{}", done.out);
    assert!(done.out.contains("`false` ended with exit status 1"), "{}", done.out);
}

#[test]
fn quoted_commands_take_turns_and_are_exported_as_hyperfine_does() {
    let place = Place::new("exec-compare");
    let line = ["exec", "sleep 0.01", "sleep 0.03", "--repeat", "3", "--json", "--run-dir", "r", "-q"];
    let exports = ["--export-json", "h.json", "--export-markdown", "h.md"];
    let done = run(&place, &[&line[..], &exports[..]].concat());
    assert!(done.measured(), "{}{}", done.out, done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let configurations = document["configurations"].as_array().unwrap();
    assert_eq!(configurations.len(), 2);
    for (configuration, least_ms) in configurations.iter().zip([10.0, 30.0]) {
        let launches = &configuration["launches"];
        // One launch of each trial is not counted.
        assert_eq!(launches["launches"], 3, "{configuration}");
        assert!(launches["min_ms"]["value"].as_f64().or(launches["min_ms"].as_f64()).unwrap() >= least_ms);
        assert_eq!(configuration["trials"].as_array().unwrap().len(), 3);
    }
    let exported: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("h.json")).unwrap()).unwrap();
    for (at, command) in ["sleep 0.01", "sleep 0.03"].into_iter().enumerate() {
        let result = &exported["results"][at];
        assert_eq!(result["command"], command);
        assert_eq!(result["times"].as_array().unwrap().len(), 3);
    }
    let markdown = std::fs::read_to_string(place.path("h.md")).unwrap();
    assert!(markdown.contains("| `sleep 0.01` | ") && markdown.contains(" | 1.00 |"), "{markdown}");
    let again = run(&place, &["export", "r", "--format", "hyperfine-markdown"]);
    assert_eq!(again.out, markdown);
}

#[test]
fn quoted_lines_are_commands_and_other_words_are_arguments() {
    let place = Place::new("exec-words");
    std::fs::write(place.path("script name.sh"), "true").unwrap();
    for (words, count) in [
        (&["true", "sleep 0"][..], 2),
        (&["--", "sleep", "0"], 1),
        (&["sh", "script name.sh"], 1),
        (&["sh", "-c", "sleep 0"], 1),
        (&["true", "false"], 1),
    ] {
        let flags = ["exec", "--json", "-q", "--repeat", "1"];
        let done = run(&place, &[&flags[..], words].concat());
        let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{}", done.err));
        assert_eq!(document["configurations"].as_array().unwrap().len(), count, "{words:?}");
    }
}

#[test]
fn a_parameter_makes_a_command_of_each_value() {
    let place = Place::new("exec-parameter");
    let line = ["exec", "--repeat", "1", "-L", "a=1..2", "-L", "b=x,y z", "--json", "-q", "--"];
    let done = run(&place, &[&line[..], &["test", "{a}{b}", "=", "{a}{b}"]].concat());
    assert!(done.measured(), "{}{}", done.out, done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let commands: Vec<&str> = document["trials"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|trial| trial["facts"]["command"]["text"].as_str())
        .collect();
    let mut sorted = commands.clone();
    sorted.sort_unstable();
    // The baseline is measured again at the end.
    sorted.dedup();
    assert_eq!(sorted, ["test '1y z' = '1y z'", "test '2y z' = '2y z'", "test 1x = 1x", "test 2x = 2x"]);
    for (flag, expected) in [
        ("c=1", "error: --parameter c: no command has `{c}`"),
        ("c", "error: --parameter c: no values"),
        ("c=3..1", "error: --parameter c=3..1: the range is empty"),
    ] {
        let refused = run(&place, &["exec", "-L", flag, "--", "true"]);
        assert_eq!(refused.err.lines().next(), Some(expected));
    }
}
