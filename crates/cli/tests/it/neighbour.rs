//! A neighbour beside the system under test: its rate, its answer, and its end after a kill.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Place, command, run};

/// The arguments and the state of the neighbours whose environment has this mark of a run's process.
fn neighbours(of_process: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let found = processes.filter_map(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let mark = format!("PLIMSOLL_TARGET={of_process}-");
        environment.split(|byte| *byte == 0).find(|variable| variable.starts_with(mark.as_bytes()))?;
        let arguments = std::fs::read(entry.path().join("cmdline")).ok()?;
        // A process that has ended has none.
        (!arguments.is_empty()).then(|| String::from_utf8_lossy(&arguments).replace('\0', " "))
    });
    found.collect()
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn experiment(place: &Place, measure: &str, levels: &str) {
    let text = format!(
        "name = \"Neighbours\"\nreplicates = 2\n[workload.disk]\nfiles = \"load.bin\"\nsize = \"4MiB\"\n\
         [load]\nwarm_up = \"0s\"\nmeasure = \"{measure}\"\ninterval = \"50ms\"\n[vary]\n\
         \"host.neighbour\" = {{ size = \"4MiB\", {levels} }}\n"
    );
    std::fs::write(place.path("e.toml"), text).unwrap();
}

#[test]
fn a_neighbour_has_its_rate_in_the_record_and_its_sentence_in_the_answer() {
    let place = Place::new("neighbour");
    experiment(&place, "700ms", "baseline = \"none\", levels = [\"cpu 0.05 and disk write 40/s\"]");
    let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--json"]);
    let document: serde_json::Value =
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.err));
    let configurations = document["configurations"].as_array().unwrap();
    assert!(configurations[0].get("neighbour").is_none(), "{}", configurations[0]);
    let rates = configurations[1]["neighbour"].as_array().unwrap();
    let rate = |at: usize, of: &str| (rates[at]["load"].as_str().unwrap(), rates[at][of].clone());
    assert_eq!(rate(0, "stated"), ("cpu", serde_json::json!({"number": 0.05})));
    assert_eq!(rate(1, "stated"), ("disk write", serde_json::json!({"rate": 40.0})));
    for (at, kind) in [(0, "number"), (1, "rate")] {
        let achieved = rates[at]["achieved"][kind].as_f64().unwrap();
        let stated = rates[at]["stated"][kind].as_f64().unwrap();
        // A busy machine achieves less; nothing may achieve more than one operation of each thread.
        assert!(achieved > 0.0 && achieved < 1.5 * stated, "{rates:?}");
    }
    let trials = document["trials"].as_array().unwrap();
    for trial in trials {
        let has_neighbour =
            trial["treatment"]["changes"].as_array().is_some_and(|changes| !changes.is_empty());
        let facts = trial["facts"].as_object().unwrap();
        assert_eq!(facts.contains_key("host.neighbour.process"), has_neighbour, "{facts:?}");
        assert_eq!(facts.contains_key("host.neighbour.cpus"), has_neighbour, "{facts:?}");
    }
    let shown = run(&place, &["show", "r"]).out;
    let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("neighbour with cpu 0.05 and disk write 40/s"), "{shown}");
    assert!(line.contains("Achieved: cpu "), "{shown}");
}

#[test]
fn nothing_is_left_of_a_neighbour_after_a_kill() {
    let place = Place::new("neighbour-kill");
    experiment(
        &place,
        "60s",
        "baseline = \"cpu 0.05 and disk 100/s and network 1MB/s\", levels = [\"none\"]",
    );
    let mut killed = command(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = killed.id();
    let measures = |path: &Path| std::fs::read_dir(path).is_ok_and(|trials| trials.count() > 0);
    wait_for("the neighbour does not start", || {
        measures(&place.path("r/trials"))
            && neighbours(process).iter().any(|of| of.contains("cpu 0.05 and disk 100/s"))
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    // By itself, before anybody restores anything.
    wait_for("the neighbour is left", || neighbours(process).is_empty());
    let restored = run(&place, &["restore"]);
    let ended = "the process of the neighbour has ended";
    assert!(restored.out.contains(ended), "{}{}", restored.out, restored.err);
    assert!(!restored.out.contains(" restored"), "{}", restored.out);
    let again = run(&place, &["restore"]);
    assert!(!again.out.contains(ended), "{}", again.out);
    let files: Vec<String> = std::fs::read_dir(place.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !["e.toml", "load.bin", "r"].contains(&name.as_str()) && !name.contains("state"))
        .collect();
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn a_level_that_cannot_be_is_refused_before_the_run() {
    let place = Place::new("neighbour-wrong");
    for (levels, expected) in [
        ("levels = [\"cpu 100000\"]", "100000 are stated: state at most"),
        ("levels = [\"dsk 1MB/s\"]", "did you mean `disk`?"),
        ("levels = [\"disk 50\"]", "write bytes or operations per"),
        ("cpus = \"x\", levels = [\"cpu 0.1\"]", "which is not a list of CPUs"),
        ("address = \"127.0.0.1:1\", levels = [\"network 1MB/s\"]", "start a service there that reads"),
    ] {
        experiment(&place, "1s", levels);
        let done = run(&place, &["run", "e.toml", "--run-dir", "r"]);
        let said = done.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected) && said.contains("nothing was run"), "{levels}: {said}");
        assert!(!place.path("r").exists());
    }
}
