//! A synchronization engine driven from outside: ours, through its command line.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Finished, Place, command, run};

/// A metadirectory of staff and phone book, with `people` in the staff file.
fn metadirectory(name: &str, people: &str) -> Place {
    let place = Place::new(name);
    crate::metadir::staff_and_phones(&place);
    let generate =
        ["generate", "people", "--count", people, "--attributes", "8", "--quiet", "--output", "staff.csv"];
    assert_eq!(run(&place, &generate).code, 0);
    place
}

/// A busy machine may leave nothing to be concluded.
fn was_measured(done: &Finished) -> bool {
    matches!(done.code, 0 | 97 | 98)
}

/// What is printed, with every figure and the unit it is in masked, and blanks taken together.
fn masked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut out = String::new();
        let mut in_number = false;
        for c in line.chars() {
            let is_part = c.is_ascii_digit() || (in_number && (c == '.' || c == ','));
            if is_part && !in_number {
                out.push('#');
            } else if !is_part {
                out.push(c);
            }
            in_number = is_part;
        }
        let line = out.split_whitespace().collect::<Vec<_>>().join(" ").replace("# k", "#");
        let unit = ["µs", "ms", "s"].iter().find_map(|unit| line.strip_prefix(&format!("at work, {unit} ")));
        lines.push(unit.map_or(line.clone(), |rest| format!("at work {rest}")));
    }
    lines.join("\n")
}

#[test]
fn an_interval_ends_where_a_step_ends() {
    let place = Place::new("sync-borders");
    std::fs::write(
        place.path("engine"),
        "#!/bin/sh\necho \"progress staff full-import 0\"; sleep 0.4; echo \"progress staff full-import 10 done\"\n",
    )
    .unwrap();
    std::fs::write(
        place.path("rounds.toml"),
        "sample_every = \"100ms\"\n\n[workload.sync]\nrun = \"staff full-import\"\ncommand = \"/bin/sh engine\"\n\
         prepare = \"sleep 0.4\"\nrepeat_for = \"1s\"\n\n[load]\nmeasure = \"until-done\"\ninterval = \"3s\"\n",
    )
    .unwrap();
    let done = run(&place, &["run", "rounds.toml", "--run-dir", "r", "--quiet"]);
    assert!(was_measured(&done), "{}{}", done.out, done.err);
    let table = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/intervals.csv")).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let column = |name: &str| heads.iter().position(|head| *head == name).unwrap();
    let (begin, operation, completed, in_flight) =
        (column("begin_s"), column("operation"), column("completed"), column("concurrency"));
    let rows: Vec<Vec<&str>> = lines.filter(|row| row[operation] == "staging").collect();
    let number = |row: &[&str], at: usize| row[at].parse::<f64>().unwrap();
    // The steps take 0.4 s of every 0.8 s, and a regular interval 3 s: only borders separate them.
    let at_work = rows.iter().filter(|row| number(row, completed) > 0.0);
    let between = rows.iter().filter(|row| number(row, completed) == 0.0 && number(row, in_flight) < 0.5);
    let (at_work, between) = (at_work.count(), between.filter(|row| number(row, begin) > 0.0).count());
    assert!(at_work >= 2 && between >= 1, "{table}");
}

#[test]
fn the_steps_of_a_run_are_distinguished() {
    let place = metadirectory("sync-run", "300");
    let done = run(&place, &["sync", "full", "--run-dir", "r", "--quiet"]);
    assert!(was_measured(&done), "{}{}", done.out, done.err);
    // Above the resources, which are those of the machine.
    let numbers = done.out.split("most saturated").next().unwrap_or_default();
    let table: Vec<String> = masked(numbers).lines().skip(2).take(6).map(String::from).collect();
    insta::assert_snapshot!(table.join("\n"));
    let shown = run(&place, &["show", "r", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    let trial = &document["trials"][0];
    let operations: Vec<(&str, u64)> = trial["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["name"].as_str().unwrap(), of["completed"].as_u64().unwrap()))
        .collect();
    // The phone book is confirmed by what is imported from it, and that is synchronized too.
    assert_eq!(
        operations,
        [("staging", 300), ("synchronization", 600), ("export", 300), ("confirmation", 300), ("all", 1500)]
    );
    for operation in &trial["operations"].as_array().unwrap()[..4] {
        let busy_s = operation["busy_s"].as_f64().unwrap();
        let rate = operation["rate_per_s"].as_f64().unwrap();
        let completed = operation["completed"].as_f64().unwrap();
        assert!((rate * busy_s / completed - 1.0).abs() < 1e-6, "{operation}");
        assert!(busy_s <= trial["measured_s"].as_f64().unwrap() * 1.001, "{operation}");
    }
    assert!(
        trial["facts"]["step.1"]["text"].as_str().unwrap().starts_with("staff full-import: 300 objects in ")
    );
    let again = run(&place, &["show", "r"]);
    assert_eq!(again.out, done.out);
}

const EXPERIMENT: &str = r#"
name = "Two sizes"
[workload.sync]
run = ["staff full-import", "staff full-synchronization"]
directory = "work"
users = 200
prepare = "rm -f m.db*; plimsoll generate people --count {users} --attributes 4 --quiet > staff.csv"
config = "m.toml"
template = """
[store]
sqlite = "m.db"
durability = "off"
commit_objects = 50
[metaverse.person]
attributes = { number = "text", name = "text" }
[agents.staff]
type = "delimited"
path = "staff.csv"
anchor = "employeeNumber"
[[inbound]]
agent = "staff"
to = "person"
join = [{ cs = "employeeNumber", mv = "number" }]
project = true
[inbound.flow]
number = "employeeNumber"
name = { expression = "cs.givenName + ' ' + cs.sn" }
"""
[vary]
"workload.users" = { baseline = 200, levels = [400] }
[[published]]
name = "theirs"
source = "a page of a book"
factor = "workload.users"
staging = { 200 = 10, 400 = 5.5, 800 = 1 }
"#;

#[test]
fn an_experiment_stands_beside_published_figures() {
    let place = Place::new("sync-experiment");
    std::fs::write(place.path("e.toml"), EXPERIMENT).unwrap();
    let done = run(&place, &["run", "e.toml", "--quiet", "--run-dir", "r"]);
    assert!(was_measured(&done), "{}{}", done.out, done.err);
    assert!(!place.path("work").exists(), "it was made, and is removed");
    let published = done.out.split(" staging beside published figures\n").nth(1).unwrap_or_default();
    let published: Vec<String> = masked(published).lines().take(4).map(String::from).collect();
    insta::assert_snapshot!(published.join("\n"));
    let text = std::fs::read_to_string(place.path("r/result.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = document["published"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "of 800 nothing was measured");
    assert_eq!((&rows[1]["level"], &rows[1]["published"][0]["rate_per_s"]), (&"400".into(), &5.5.into()));
    let times = rows[1]["measured_per_s"].as_f64().unwrap() / 5.5;
    assert!((rows[1]["times_largest"].as_f64().unwrap() / times - 1.0).abs() < 1e-9);
    let compared: Vec<&str> = document["comparison"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["metric"].as_str().unwrap())
        .collect();
    assert_eq!(compared, ["staging.rate_per_s", "synchronization.rate_per_s", "rate_per_s"]);
    let page = std::fs::read_to_string(place.path("r/report.html")).unwrap();
    assert!(page.contains("a page of a book"));
}

#[test]
fn a_step_that_fails_is_reported_in_the_engines_words() {
    let place = metadirectory("sync-fails", "10");
    std::fs::remove_file(place.path("staff.csv")).unwrap();
    let done = run(&place, &["sync", "full", "--run-dir", "r", "--quiet"]);
    assert_eq!(done.code, 1, "{}", done.out);
    let reported = done.err.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
    assert!(
        reported.contains("ended with exit status 1: error: staff full-import: reading staff.csv"),
        "{}",
        done.err
    );
    let json = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/run.json")).unwrap();
    assert!(json.contains("reading staff.csv"), "{json}");
    // What is wrong in the settings is reported in flags.
    let wrong = run(&place, &["sync", "nightly", "--progress", "([0-9]+)", "--users", "3"]);
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!(wrong.err);
}

#[test]
fn ctrl_c_ends_the_engine_too() {
    let place = metadirectory("sync-interrupted", "20000");
    // Each object waits for the disk, which takes long enough.
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    std::fs::write(
        place.path("metadirectory.toml"),
        text.replace("commit_objects = 10000", "commit_objects = 1"),
    )
    .unwrap();
    let mut measuring = command(&place, &["sync", "full", "--run-dir", "r", "--quiet"]);
    let mut child = measuring.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let intervals = place.path("r/trials/001-baseline.r1/intervals.csv");
    let begin = Instant::now();
    let staged = || {
        std::fs::read_to_string(&intervals)
            .is_ok_and(|text| text.lines().any(|line| line.contains("measure")))
    };
    while !staged() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let folder = std::fs::canonicalize(place.path(".")).unwrap();
    let left: Vec<String> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
        .map(|entry| entry.path().display().to_string())
        .collect();
    assert_eq!(left, [""; 0]);
    // What was committed stays, and the store can be worked with.
    let shown = run(&place, &["show", "r"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert_eq!(run(&place, &["metadir", "status"]).code, 0);
}

#[test]
fn a_folder_that_is_not_plimsolls_is_never_removed() {
    let place = metadirectory("sync-foreign", "20");
    // What an earlier version took for its own.
    std::fs::write(place.path(".plimsoll-sync"), "").unwrap();
    let done = run(&place, &["sync", "full", "--run-dir", "r", "--quiet"]);
    assert!(was_measured(&done), "{}{}", done.out, done.err);
    assert!(place.path("staff.csv").exists() && place.path("r").exists());
    // Left by a run that was killed: reported, with what to do.
    std::fs::create_dir(place.path("work")).unwrap();
    std::fs::write(place.path("work/.plimsoll-sync"), "").unwrap();
    std::fs::write(place.path("work/precious"), "").unwrap();
    std::fs::write(place.path("e.toml"), EXPERIMENT).unwrap();
    for command in [&["check", "e.toml"][..], &["run", "e.toml"]] {
        let refused = run(&place, command);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains("the folder `work` was left by an earlier run"), "{}", refused.err);
        assert!(refused.err.contains("`rm -r work`"), "{}", refused.err);
    }
    assert!(place.path("work/precious").exists());
}
