//! What is wrong in a source, as the administrator of a metadirectory meets it: counted, reported with its place, and nobody is lost by it.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use crate::program::{Finished, Place, command, run};

const CONFIG: &str = r#"
[store]
sqlite = "metadirectory.db"
durability = "off"

[metaverse.person]
attributes = { id = "text", name = "text", age = "integer", boss = "reference" }
deleted_with = "staff"

[agents.staff]
type = "delimited"
path = "staff.csv"
anchor = "id"
references = "boss"

[agents.phones]
type = "delimited"
path = "phones.csv"
anchor = "number"
references = "boss"

[[inbound]]
agent = "staff"
to = "person"
project = true
flow = { id = "id", name = "name", age = "age", boss = "boss" }

[[outbound]]
agent = "phones"
from = "person"
dn = "mv.id"
deprovision = "delete"
flow = { number = "id", name = "name", age = "age", boss = "boss" }

[runs]
full = ["staff full-import", "staff delta-synchronization", "phones export", "phones full-import", "phones delta-synchronization"]
"#;

// The first two lead each other, the third themselves.
const STAFF: &str = "id,name,age,boss\n1,Ada,36,2\n2,Alan,41,1\n3,Grace,85,3\n4,Edsger,72,1\n";

fn begun(name: &str) -> Place {
    let place = Place::new(name);
    std::fs::write(place.path("metadirectory.toml"), CONFIG).unwrap();
    std::fs::write(place.path("staff.csv"), STAFF).unwrap();
    // The columns that the target has.
    std::fs::write(place.path("phones.csv"), "number,name,age,boss\n").unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(phones(&place), ["1,Ada,36,2", "2,Alan,41,1", "3,Grace,85,3", "4,Edsger,72,1"]);
    place
}

/// The lines of the target but for the first.
fn phones(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path("phones.csv")).unwrap();
    let mut lines: Vec<String> = text.lines().skip(1).map(String::from).collect();
    lines.sort();
    lines
}

/// What a run said of a step: how it ended with its counters, and what was reported of it.
fn step(done: &Finished, title: &str) -> (String, Vec<String>) {
    let mut lines = done.out.lines().skip_while(|line| !line.starts_with(title));
    let first = lines.next().unwrap_or_else(|| panic!("{title}: {}{}", done.out, done.err));
    let (outcome, counters) = first[title.len() + 2..].split_once(" in ").unwrap();
    let counters = counters.split_once(": ").unwrap().1;
    let reported = lines.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_string());
    (format!("{outcome}: {counters}"), reported.collect())
}

#[test]
fn bad_rows_are_counted_and_each_is_reported_with_its_line() {
    let place = begun("metadir-bad-rows");
    let mut bytes =
        b"id,name,age,boss\n1,Ada,37,2\n2,Alan\n3,\xff\xfe,85,3\n,Nobody,1,\n1,Again,1,\n".to_vec();
    bytes.extend(b"5,\"Barbara, L.\",60,4\n6,un\"quoted,1,\n");
    std::fs::write(place.path("staff.csv"), bytes).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    // What is good goes on; the exit code says that something was not.
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    let (ended, reported) = step(&done, "staff full-import");
    assert!(ended.starts_with("completed-discovery-errors: 4 discovery-errors, "), "{ended}");
    assert!(!ended.contains("stage-delete"), "{ended}");
    let expected = [
        "line 3: parse-error: ",
        "line 4: invalid-",
        "line 5: missing-anchor: ",
        "line 6: duplicate-object: the object on line 2 has the same anchor and is kept",
        "because of these errors, nothing counts as deleted, and ",
    ];
    assert_eq!(reported.len(), expected.len(), "{reported:?}");
    for (reported, expected) in reported.iter().zip(expected) {
        assert!(reported.starts_with(expected), "{reported}");
    }
    // Who could not be read is as before; who came and who changed is there.
    let expected = ["1,Ada,37,2", "2,Alan,41,1", "3,Grace,85,3", "4,Edsger,72,1", "5,\"Barbara, L.\",60,4"];
    let found = phones(&place);
    assert_eq!(found[..5], expected, "{found:?}");
    // The history has the same, each with its place.
    let history = run(&place, &["metadir", "history", "--json"]);
    for line in &reported {
        assert!(history.out.contains(&line.replace('"', "\\\"")), "{line}: {}", history.out);
    }
}

#[test]
fn a_value_that_breaks_the_schema_costs_its_object_and_is_reported_by_its_anchor() {
    let place = begun("metadir-bad-value");
    let text = STAFF.replace("2,Alan,41,1", "2,Alan,old,1") + "5,Barbara,60,2\n";
    std::fs::write(place.path("staff.csv"), text).unwrap();
    for _ in 0..2 {
        let done = run(&place, &["metadir", "run", "full"]);
        assert_eq!(done.code, 1, "{}{}", done.out, done.err);
        let (ended, reported) = step(&done, "staff delta-synchronization");
        assert!(ended.starts_with("completed-sync-errors: ") && ended.contains("1 flow-failure"), "{ended}");
        assert!(
            reported.len() == 1 && reported[0].starts_with("2: ") && reported[0].contains("age"),
            "{reported:?}"
        );
        let lines = phones(&place);
        assert_eq!((lines.len(), lines[1].as_str(), lines[4].as_str()), (5, "2,Alan,41,1", "5,Barbara,60,2"));
    }
    let status = run(&place, &["metadir", "status", "--json"]);
    assert!(status.out.contains("\"failures\": 1"), "{}", status.out);
    // Put right, it goes on by itself.
    std::fs::write(place.path("staff.csv"), STAFF.replace("2,Alan,41,1", "2,Alan,42,1")).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(phones(&place)[1], "2,Alan,42,1");
}

/// Somebody leaves, and the object of the metaverse stays because a connector is left that it was itself provisioned to.
#[test]
fn a_line_never_loses_its_anchor() {
    let place = begun("metadir-anchor");
    let config = CONFIG.replace("deleted_with = \"staff\"\n", "");
    std::fs::write(place.path("metadirectory.toml"), config).unwrap();
    std::fs::write(place.path("staff.csv"), STAFF.replace("4,Edsger,72,1\n", "")).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    let (ended, reported) = step(&done, "phones export");
    assert!(ended.starts_with("completed-export-errors: 1 export-failure"), "{ended}");
    assert!(
        reported.len() == 1 && reported[0].ends_with("its anchor would change, which is not allowed"),
        "{reported:?}"
    );
    assert_eq!(phones(&place)[3], "4,Edsger,72,1");
}

/// The most memory that a process had so far, bytes.
fn peak_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

#[test]
fn a_line_of_100_mb_is_reported_in_little_memory_and_what_stands_behind_it_is_read() {
    let place = begun("metadir-long-line");
    let mut file = File::create(place.path("staff.csv")).unwrap();
    file.write_all(STAFF.as_bytes()).unwrap();
    file.write_all(b"9,").unwrap();
    let piece = vec![b'x'; 1 << 20];
    (0..100).for_each(|_| file.write_all(&piece).unwrap());
    file.write_all(b",1,\n5,Barbara,60,4\n").unwrap();
    drop(file);
    let mut child = command(&place, &["metadir", "run", "staff", "full-import"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_bytes(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("line 6: parse-error: ") && out.contains("longer than"), "{out}");
    assert!(out.contains("1 stage-add") && !out.contains("stage-delete"), "{out}");
    // Less than the line alone; the program itself takes most of it.
    assert!(peak > 0 && peak < 100 << 20, "{} MiB", peak >> 20);
}

#[test]
fn a_source_that_is_empty_wrong_or_gone_stops_the_run_and_nobody_is_deleted() {
    let place = begun("metadir-bad-source");
    let before = phones(&place);
    for (text, reported) in [
        (Some("id,name,age,boss\n"), "least_share"),
        (Some(""), "staff.csv"),
        (Some("number;name\n1;Ada\n"), "id"),
        (None, "staff.csv"),
    ] {
        match text {
            Some(text) => std::fs::write(place.path("staff.csv"), text).unwrap(),
            None => std::fs::remove_file(place.path("staff.csv")).unwrap(),
        }
        let done = run(&place, &["metadir", "run", "full"]);
        assert_eq!(done.code, 1, "{text:?}: {}{}", done.out, done.err);
        assert!(
            done.err.contains("staff full-import: ") && done.err.contains(reported),
            "{text:?}: {}",
            done.err
        );
        assert_eq!(phones(&place), before, "{text:?}");
    }
}
