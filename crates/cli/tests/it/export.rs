//! `plimsoll export` in the formats of other programs: read by their libraries, and by our own importers.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::http::serve;
use crate::program::{Finished, Place, run};

fn export(place: &Place, run_dir: &str, format: &str, more: &[&str]) -> Finished {
    run(place, &[&["export", run_dir, "--format", format][..], more].concat())
}

/// Exports to a file.
fn exported(place: &Place, run_dir: &str, format: &str, file: &str) -> String {
    let done = export(place, run_dir, format, &["-o", file]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{format}");
    // A table has a folder.
    fs::read_to_string(place.path(file)).unwrap_or_default()
}

/// What the library of another program reads.
fn foreign(place: &Place, format: &str, file: &str) -> Value {
    let output = Command::new("foreign-readers").arg(format).arg(place.path(file)).output().unwrap();
    assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The result, and the operation `read` of its first trial.
fn result(place: &Place, run_dir: &str) -> (Value, Value) {
    let document: Value = serde_json::from_str(&run(place, &["show", run_dir, "--json"]).out).unwrap();
    let operation = document["trials"][0]["operations"][0].clone();
    (document, operation)
}

fn disk(place: &Place, run_dir: &str, more: &[&str]) {
    let load =
        ["disk", "f.bin", "--size", "8MiB", "--read-percent", "70", "--duration", "1s", "--warm-up", "0s"];
    let done = run(place, &[&load[..], &["--run-dir", run_dir, "--quiet"], more].concat());
    assert!(done.measured(), "{}", done.err);
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| value.as_f64().unwrap_or_else(|| panic!("{value} is no number")) as u64)
}

#[test]
fn libraries_of_other_programs_read_the_figures_of_the_record() {
    if testkit::lacks(testkit::Need::Package("foreign-readers")) {
        return;
    }
    let place = Place::new("export-foreign");
    disk(&place, "r", &["--vary", "block_size=4KiB,8KiB"]);
    let (document, read) = result(&place, "r");
    let trial = document["trials"][0]["trial"].as_str().unwrap();
    let completed = count(&read["completed"]);
    // The times are of all that were due in the measured time.
    let timed = count(&read["due"]["ended"]);

    exported(&place, "r", "openmetrics", "r.om");
    let families = foreign(&place, "openmetrics", "r.om");
    let samples = |family: &str| families[family]["samples"].as_array().unwrap_or_else(|| panic!("{family}"));
    let is_read = |labels: &Value| {
        labels["trial"] == trial && labels["operation"] == "read" && labels["phase"] == "measure"
    };
    let total = samples("plimsoll_operations_completed").iter().rfind(|of| is_read(&of[1])).unwrap();
    assert_eq!(count(&total[2]), completed);
    let all = samples("plimsoll_response_time_seconds")
        .iter()
        .rfind(|of| is_read(&of[1]) && of[0] == "plimsoll_response_time_seconds_count");
    assert_eq!(count(&all.unwrap()[2]), timed);
    assert_eq!(families["plimsoll_memory_available_bytes"]["unit"], "bytes");
    assert_eq!(families["plimsoll_cpu_busy_ratio"]["type"], "gauge");

    exported(&place, "r", "otlp", "r.jsonl");
    let metrics = foreign(&place, "otlp", "r.jsonl");
    for (name, expected) in [("plimsoll.operations.completed", completed), ("plimsoll.response.time", timed)]
    {
        let points = metrics[name].as_array().unwrap();
        let last = points.iter().rfind(|of| is_read(&of[0])).unwrap();
        assert_eq!(count(&last[1]), expected, "{name}");
    }

    exported(&place, "r", "hdrhistogram", "r.hlog");
    let tags = foreign(&place, "hdrhistogram", "r.hlog");
    for of in document["trials"].as_array().unwrap() {
        for operation in of["operations"].as_array().unwrap().iter().filter(|of| of["name"] != "all") {
            for (times, ending) in [("response_ms", ""), ("service_ms", ".service"), ("lag_ms", ".lag")] {
                let tag = format!(
                    "{}:{}{ending}",
                    of["trial"].as_str().unwrap(),
                    operation["name"].as_str().unwrap()
                );
                assert_eq!(tags[&tag]["count"], operation["due"]["ended"], "{tag}");
                for part in ["p50", "p99", "max"] {
                    let ms = tags[&tag][part].as_f64().unwrap() / 1e6;
                    assert_eq!(Some(ms), operation[times][part].as_f64(), "{tag} {part}");
                }
            }
        }
    }

    exported_tables(&place, &document);
}

/// The tables have what the result and the record have.
fn exported_tables(place: &Place, document: &Value) {
    let done = export(place, "r", "parquet", &["-o", "tables"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let operations = foreign(place, "parquet", "tables/operations.parquet");
    let rows = operations["rows"].as_array().unwrap();
    let expected: Vec<&Value> = document["trials"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|of| of["operations"].as_array().unwrap())
        .collect();
    assert_eq!(rows.len(), expected.len());
    for (row, of) in rows.iter().zip(expected) {
        for name in ["completed", "offered", "late", "rate_per_s", "bytes_per_s", "concurrency"] {
            assert_eq!(row[name].as_f64(), of[name].as_f64(), "{name}");
        }
        assert_eq!(row["response_p99_ms"], of["response_ms"]["p99"]);
        assert_eq!(row["operation"], of["name"]);
    }
    let readings = foreign(place, "parquet", "tables/readings.parquet");
    assert_eq!(readings["types"]["end_time"], "timestamp[us, tz=UTC]");
    let csv = recorded(&place.path("r"));
    assert_eq!(readings["rows"].as_array().unwrap().len(), csv.len());
    for row in readings["rows"].as_array().unwrap() {
        let title = match row["instance"].as_str() {
            Some(instance) => format!("{}{{{instance}}}", row["metric"].as_str().unwrap()),
            None => row["metric"].as_str().unwrap().to_string(),
        };
        let key = (row["trial"].as_str().unwrap().to_string(), title);
        let values = csv.iter().filter(|(known, _)| *known == key);
        assert!(values.clone().any(|(_, value)| Some(*value) == row["value"].as_f64()), "{row}");
    }
    let intervals = foreign(place, "parquet", "tables/intervals.parquet");
    let sum: u64 = intervals["rows"].as_array().unwrap().iter().map(|row| count(&row["completed"])).sum();
    assert!(sum >= count(&document["trials"][0]["operations"][0]["completed"]));
}

/// A reading with its trial and its title, such as `disk.read_s{vda}`.
type Reading = ((String, String), f64);

/// The readings of a record that are not absent.
fn recorded(run_dir: &Path) -> Vec<Reading> {
    let mut found = Vec::new();
    for entry in fs::read_dir(run_dir.join("trials")).unwrap() {
        let folder = entry.unwrap();
        let trial = folder.file_name().into_string().unwrap();
        // That of an import is not compressed.
        let plain = fs::read_to_string(folder.path().join("readings.csv"));
        let text = plain.unwrap_or_else(|_| {
            let zipped = folder.path().join("readings.csv.gz");
            let output = Command::new("gzip").arg("-dc").arg(zipped).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        });
        let mut titles: Vec<String> = Vec::new();
        for line in text.lines() {
            let cells = cells(line);
            if line.starts_with("begin_s") {
                titles = cells;
                continue;
            }
            let values = titles.iter().zip(&cells).skip(2).filter(|(_, cell)| !cell.is_empty());
            found.extend(values.map(|(title, cell)| ((trial.clone(), title.clone()), cell.parse().unwrap())));
        }
    }
    assert!(!found.is_empty());
    found
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match (c, is_quoted) {
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => cells.push(String::new()),
            (c, _) => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

#[test]
fn a_log_for_performance_monitor_is_imported_with_the_same_readings() {
    let place = Place::new("export-perfmon");
    disk(&place, "r", &[]);
    let text = exported(&place, "r", "perfmon-csv", "r.csv");
    let head = text.lines().next().unwrap();
    assert!(head.starts_with("\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\"), "{head}");
    for counter in
        [r"\Memory\Available Bytes", r"\Processor(_Total)\% Processor Time", r"\Plimsoll\memory.total_bytes"]
    {
        assert!(head.contains(counter), "{counter}: {head}");
    }
    let done = run(&place, &["import", "r.csv", "--run-dir", "again"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    let (ours, again) = (recorded(&place.path("r")), recorded(&place.path("again")));
    assert_eq!(ours.len(), again.len());
    let mut by_title: HashMap<&str, Vec<f64>> = HashMap::new();
    for ((_, title), value) in &again {
        by_title.entry(title.strip_prefix(r"Plimsoll\").unwrap_or(title)).or_default().push(*value);
    }
    for ((_, title), value) in &ours {
        let values = by_title.get(title.as_str()).unwrap_or_else(|| panic!("{title} was not imported"));
        // Both records have six digits.
        let is_near = |other: &f64| (other - value).abs() <= 2e-5 * value.abs() + 1e-12;
        assert!(values.iter().any(is_near), "{title}: {value} in {values:?}");
    }
}

#[test]
fn a_summary_for_k6_is_imported_with_the_same_figures() {
    let place = Place::new("export-k6");
    let url = format!("http://{}/", serve());
    let load = ["http", &url, "--concurrency", "2", "--duration", "1s", "--warm-up", "0s", "--quiet"];
    let done = run(&place, &[&load[..], &["--run-dir", "r"]].concat());
    assert!(done.measured(), "{}", done.err);
    exported(&place, "r", "k6", "summary.json");
    let done = run(&place, &["import", "summary.json", "--run-dir", "again"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    let ((_, ours), (document, again)) = (result(&place, "r"), result(&place, "again"));
    assert_eq!(document["load"], "2 in flight");
    assert_eq!((&again["completed"], &again["failed"]), (&ours["completed"], &ours["failed"]));
    let near = |a: &Value, b: &Value| {
        (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= 1e-5 * b.as_f64().unwrap()
    };
    assert!(near(&again["rate_per_s"], &ours["rate_per_s"]), "{again} {ours}");
    assert!(near(&again["bytes_per_s"], &ours["bytes_per_s"]), "{again} {ours}");
    for part in ["min", "mean", "p50", "p90", "p95", "p99", "p999", "max"] {
        assert!(near(&again["service_ms"][part], &ours["service_ms"][part]), "{part} {again} {ours}");
    }
}

#[test]
fn openmetrics_are_imported_with_the_readings() {
    let place = Place::new("export-openmetrics");
    disk(&place, "r", &[]);
    exported(&place, "r", "openmetrics", "r.om");
    let done = run(&place, &["import", "r.om", "--run-dir", "again"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    let again = recorded(&place.path("again"));
    for ((_, title), value) in
        recorded(&place.path("r")).iter().filter(|((_, title), _)| title == "memory.free_bytes")
    {
        let found = again.iter().any(|((_, name), other)| {
            name.starts_with("plimsoll_memory_free_bytes") && (other - value).abs() <= 2e-5 * value
        });
        assert!(found, "{title} {value}");
    }
}

#[test]
fn what_a_record_does_not_have_is_refused_by_name() {
    let place = Place::new("export-refused");
    let sqlio = "sqlio v1.5.SG\r\n1 thread writing for 120 secs to file d:\\test.dat\r\n\tusing 8KB random IOs\r\n\
                 using specified size: 20000 MB for file: d:\\test.dat\r\nCUMULATIVE DATA:\r\nthroughput metrics:\r\n\
                 IOs/sec:   225.80\r\nMBs/sec:     1.76\r\nlatency metrics:\r\nMin_Latency(ms): 0\r\n\
                 Avg_Latency(ms): 4\r\nMax_Latency(ms): 111\r\n";
    fs::write(place.path("sqlio.txt"), sqlio).unwrap();
    assert_eq!(run(&place, &["import", "sqlio.txt", "--run-dir", "i"]).code, 0);
    disk(&place, "r", &["--replicates", "2"]);
    for (run_dir, format, more, expected) in [
        ("i", "hdrhistogram", &[][..], "the report of sqlio v1.5.SG has statistics of the times only"),
        ("i", "perfmon-csv", &[], "this run has no reading of a counter"),
        ("i", "k6", &[], "this run has a load of the kind `disk`"),
        ("r", "parquet", &[], "name a folder for them with --output"),
        ("r", "csv", &["--trial", "001-baseline.r1"], "csv has all trials of the run"),
        ("r", "otlp", &["--trial", "001-baselin.r1"], "did you mean `001-baseline.r1`?"),
        ("r", "openmetrics", &["--export-to", "http://127.0.0.1:1/v1/metrics"], "add --format otlp"),
    ] {
        let done = export(&place, run_dir, format, more);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{format}");
        assert!(done.err.contains(expected), "{format}: {}", done.err);
    }
    // What another tool reports is exported, and nothing beside it.
    let done = export(&place, "i", "openmetrics", &[]);
    assert!(done.err.contains("its times begin with 1970-01-01"), "{}", done.err);
    assert!(
        done.out.contains("plimsoll_response_mean_seconds") && done.out.contains("quantile=\"1\"} 0.111 ")
    );
    for absent in ["quantile=\"0.5\"", "_offered", "_late", "_bucket"] {
        assert!(!done.out.contains(absent), "{absent}: {}", done.out);
    }
    let one = export(&place, "r", "hdrhistogram", &["--trial", "002-baseline.r2"]);
    assert!(one.out.contains("\nTag=read,0.") && !one.out.contains("Tag=002"), "{}", one.out);
    for format in ["csv", "openmetrics", "otlp", "hdrhistogram", "perfmon-csv"] {
        let full = export(&place, "r", format, &["-o", "/dev/full"]);
        assert_eq!(full.code, 1, "{format}: {}", full.err);
        assert!(full.err.contains("/dev/full cannot be written: No space left"), "{format}: {}", full.err);
    }
}
