//! The program as a user meets it: real files, real processes, its exit codes and what it prints.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod addresses;
mod audit;
mod bad_rows;
mod closed_terminal;
mod copy;
mod damage;
mod delay;
mod dependencies;
mod disk_lines;
mod diskspd;
mod disturbed;
mod doctor_store;
mod exec;
mod export;
mod export_to;
mod exporters;
mod extremes;
mod filesystem;
mod fio;
mod gate;
mod generate;
mod hostile;
mod http;
mod http_record;
mod import;
mod import_mim;
mod in_flight;
mod kill;
mod kill_statements;
mod killed;
mod ldap;
mod left_files;
mod limit;
mod lost_output;
mod machines;
mod machines_factors;
mod machines_files;
mod machines_kubernetes;
mod machines_nats;
mod machines_waits;
mod manual;
mod metadir;
mod metadir_changes;
mod metadir_check;
mod metadir_full_disk;
mod metadir_hostile;
mod metadir_search;
mod metadir_serve;
mod metadir_watch;
mod mistakes;
mod mutations;
mod neighbour;
mod own_limits;
mod page;
mod planted;
mod program;
mod restore;
mod seccomp;
mod secrets;
mod sweep;
mod sweep_block_size;
mod sync;
mod target;
mod terminal;
mod trace;
mod watch;
mod width;
mod window;
mod wire;
mod words;

use std::io::Write;

use program::{Place, run};

#[test]
fn alone_it_says_what_to_do_next() {
    let place = Place::new("alone");
    let done = run(&place, &[]);
    assert_eq!(done.code, 0);
    assert!(done.out.contains("plimsoll demo"), "{}", done.out);
}

#[test]
fn a_disk_is_measured_and_the_record_shows_the_same_again() {
    let place = Place::new("disk");
    let done = run(
        &place,
        &[
            "disk",
            "f.bin",
            "--size",
            "16MiB",
            "--read-percent",
            "70",
            "--outstanding",
            "4",
            "--duration",
            "2s",
            "--warm-up",
            "0s",
            "--run-dir",
            "r",
            "--quiet",
        ],
    );
    assert!(done.measured(), "{}", done.err);
    assert!(done.out.contains("IOPS"), "{}", done.out);
    assert_eq!(done.err, "");
    // Made, measured and removed.
    assert!(!place.path("f.bin").exists());
    // Honesty rule 10: the record alone prints the same.
    let again = run(&place, &["show", "r"]);
    assert_eq!(again.out, done.out);
    let report = run(&place, &["report", "r"]);
    assert_eq!(report.out, done.out);
    for (file, holds) in [
        ("intervals.csv", "begin_s,end_s,phase"),
        ("response.hlog", "#[Histogram log format version 1.3]"),
        ("run.json", "plimsoll.run/1.1"),
    ] {
        let text = std::fs::read_to_string(place.path("r/trials/001-baseline.r1").join(file)).unwrap();
        assert!(text.contains(holds), "{file}");
    }
    let rows = run(&place, &["export", "r", "--format", "csv"]).out;
    assert_eq!(rows.lines().count(), 4, "a head, read, write and all: {rows}");
}

#[test]
fn json_is_one_document_of_the_promised_shape() {
    let place = Place::new("json");
    let done = run(
        &place,
        &[
            "disk",
            "f.bin",
            "--size",
            "8MiB",
            "--write",
            "--duration",
            "1s",
            "--warm-up",
            "0s",
            "--json",
            "--run-dir",
            "r",
            "--goal",
            "throughput > 1/s",
        ],
    );
    assert!(done.measured(), "{}", done.err);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["format"], "plimsoll.result/1");
    assert_eq!(document["goal"]["met"], true);
    let operation = &document["trials"][0]["operations"][0];
    assert_eq!(operation["name"], "write");
    for key in ["offered", "issued", "completed", "late", "failed", "rate_per_s", "bytes_per_s"] {
        assert!(operation[key].is_number(), "{key}");
    }
    for key in ["min", "mean", "p50", "p90", "p95", "p99", "p999", "max"] {
        for times in ["response_ms", "service_ms", "lag_ms"] {
            assert!(operation[times][key].is_number(), "{times}.{key}");
        }
    }
    let kept = std::fs::read_to_string(place.path("r/result.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&kept).unwrap(), document);
}

#[test]
fn a_missed_goal_is_99_and_an_unknown_metric_is_2() {
    let place = Place::new("goal");
    let load =
        ["disk", "f.bin", "--size", "8MiB", "--duration", "1s", "--warm-up", "0s", "--quiet", "--goal"];
    let missed = run(&place, &[&load[..], &["throughput > 100000k/s", "--run-dir", "a"]].concat());
    // On a busy machine the generator may be the limit, which comes first.
    assert!(matches!(missed.code, 99 | 97), "{}: {}", missed.code, missed.err);
    let unknown = run(&place, &[&load[..], &["respons.p99 < 1s", "--run-dir", "b"]].concat());
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("did you mean `response.p95`?"), "{}", unknown.err);
    assert!(!place.path("b").exists(), "nothing was changed");
}

#[test]
fn sqlio_flags_give_sqlios_report() {
    let place = Place::new("sqlio");
    std::fs::write(place.path("param.txt"), "# made for the test\nsqlio.dat 2 0x0 16\n").unwrap();
    let done =
        run(&place, &["disk", "--sqlio", "-kW", "-s1", "-frandom", "-o8", "-b8", "-LS", "-Fparam.txt"]);
    assert!(done.measured(), "{}", done.err);
    for line in [
        "parameter file used: param.txt",
        "\tfile sqlio.dat with 2 threads (0-1) using mask 0x0 (0)",
        "2 threads writing for 1 secs to file sqlio.dat",
        "\tusing 8KB random IOs",
        "\tenabling multiple I/Os per thread with 8 outstanding",
        "size of file sqlio.dat needs to be: 16777216 bytes",
        "current file size:\t0 bytes",
        "need to expand by:\t16777216 bytes",
        "expanding sqlio.dat ... done.",
        "using specified size: 16 MB for file: sqlio.dat",
        "CUMULATIVE DATA:",
        "ms: 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24+",
    ] {
        assert!(done.out.lines().any(|found| found == line), "{line:?} is missing in\n{}", done.out);
    }
}

#[test]
fn foreign_files_are_not_written_over() {
    let place = Place::new("foreign");
    std::fs::write(place.path("precious.db"), vec![7u8; 1 << 20]).unwrap();
    let load = ["disk", "precious.db", "--write", "--duration", "1s", "--warm-up", "0s"];
    let refused = run(&place, &load);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("or use --overwrite precious.db"), "{}", refused.err);
    assert_eq!(std::fs::read(place.path("precious.db")).unwrap(), vec![7u8; 1 << 20]);
    let named = run(&place, &[&load[..], &["--overwrite", "precious.db", "--quiet"]].concat());
    assert!(named.measured(), "{}", named.err);
    assert_ne!(std::fs::read(place.path("precious.db")).unwrap(), vec![7u8; 1 << 20]);
}

#[test]
fn a_file_larger_than_the_disk_is_refused_before_anything_is_touched() {
    let place = Place::new("large");
    let done = run(&place, &["disk", "f.bin", "--size", "900TiB", "--duration", "1s", "--run-dir", "r"]);
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(!place.path("r").exists() && !place.path("f.bin").exists());
}

#[test]
fn a_full_disk_under_the_record_ends_the_trial_with_what_was_kept() {
    if testkit::lacks(testkit::Need::Mount) {
        return;
    }
    let place = Place::new("full");
    let small = place.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |arguments: &[&str]| {
        std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap().success()
    };
    let at = small.display().to_string();
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", &at]));
    let load = [
        "disk",
        "f.bin",
        "--size",
        "8MiB",
        "--warm-up",
        "0s",
        "--interval",
        "50ms",
        "--sample-every",
        "10ms",
    ];
    let done = run(&place, &[&load[..], &["--duration", "30s", "--run-dir", "small/r", "--quiet"]].concat());
    let shown = run(&place, &["show", "small/r"]);
    let left: Vec<_> = std::fs::read_dir(small.join("r/trials/001-baseline.r1"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(mount(&["umount", &at]));
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.err.contains("No space left on device"), "{}", done.err);
    assert!(!place.path("f.bin").exists(), "the test file was removed all the same");
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.contains("IOPS"), "what was kept is shown: {}", shown.out);
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{left:?}");
}

#[test]
fn a_command_is_timed_first_against_later() {
    let place = Place::new("exec");
    let done = run(&place, &["exec", "--repeat", "4", "--json", "--quiet", "--", "/bin/true"]);
    let document: serde_json::Value =
        serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{}{}", done.out, done.err));
    let names: Vec<&str> = document["trials"][0]["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["first", "later", "all"]);
    assert_eq!(document["trials"][0]["operations"][2]["completed"], 4);
}

#[test]
fn a_command_that_always_fails_is_a_failure() {
    let place = Place::new("fails");
    let load = ["exec", "--repeat", "3", "--allow-failure", "--run-dir", "r", "--quiet", "--", "/bin/false"];
    let done = run(&place, &load);
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.out.contains("Every operation failed."), "{}", done.out);
    assert!(done.out.contains("3 of 3 operations failed (100 %), most often: exit status 1"), "{}", done.out);
    let junit = run(&place, &["export", "r", "--format", "junit"]).out;
    assert!(junit.contains("tests=\"2\" failures=\"2\" errors=\"0\""), "{junit}");
    assert!(junit.contains("<failure message=\"3 of 3 operations failed"), "{junit}");
}

#[test]
fn what_is_not_there_or_there_already_is_a_matter_of_usage() {
    let place = Place::new("usage");
    std::fs::write(place.path("experiment.toml"), "mine").unwrap();
    for (arguments, words) in [
        (&["init", "disk"][..], "experiment.toml exists already"),
        (&["show", "nope"], "`nope` is not a run directory"),
        (&["show", "last"], "there is no run in the folder `runs`"),
        (&["compare", "a", "b"], "`a` is not a run directory"),
    ] {
        let done = run(&place, arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {}", done.err);
        assert!(done.err.contains(words), "{}", done.err);
    }
    assert_eq!(std::fs::read_to_string(place.path("experiment.toml")).unwrap(), "mine");
}

#[test]
fn a_copy_is_a_copy() {
    let place = Place::new("copy");
    let data: Vec<u8> = (0..3_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(place.path("a.bin"), &data).unwrap();
    let done = run(&place, &["copy", "a.bin", "b.bin", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    assert!(std::fs::read(place.path("b.bin")).unwrap() == data);
}

#[test]
fn an_experiment_is_checked_before_anything_is_touched() {
    let place = Place::new("check");
    assert_eq!(run(&place, &["init", "disk"]).code, 0);
    let checked = run(&place, &["check", "experiment.toml"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("15 trials"), "{}", checked.out);
    assert!(!place.path("plimsoll-test.bin").exists());
    let text = std::fs::read_to_string(place.path("experiment.toml")).unwrap();
    std::fs::write(
        place.path("bad.toml"),
        text.replace("block_size =", "blok_size =").replace("\"2s\"", "2"),
    )
    .unwrap();
    let refused = run(&place, &["run", "bad.toml"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("did you mean `block_size`?"), "{}", refused.err);
    assert!(refused.err.contains("mistakes, nothing was run"), "{}", refused.err);
    assert!(!place.path("runs").exists());
}

#[test]
fn every_experiment_to_start_from_is_valid() {
    let place = Place::new("init");
    for kind in ["disk", "http", "ldap", "ldap_import", "copy", "command", "sync"] {
        let file = format!("{kind}.toml");
        assert_eq!(run(&place, &["init", kind, "-o", &file]).code, 0, "{kind}");
        let checked = run(&place, &["check", &file]);
        // A destination is 8 GiB, which not every disk has left.
        let too_small = kind == "copy" && checked.err.contains("free");
        let no_server = kind == "http" && checked.err.contains("there is no program `python3`")
            || kind == "ldap" && checked.err.contains("nothing accepts a connection");
        assert!(checked.code == 0 || too_small || no_server, "{kind}: {}", checked.err);
    }
    let unknown = run(&place, &["init", "htp", "-o", "x.toml"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("did you mean `http`?"), "{}", unknown.err);
}

#[test]
fn damaged_data_is_reported_with_its_place_and_fails() {
    let place = Place::new("damage");
    let load = ["disk", "f.bin", "--size", "1MiB", "--verify", "--sequential", "--duration", "300ms"];
    let more = ["--warm-up", "0s", "--quiet", "--keep"];
    let arguments = [&load[..], &more[..]].concat();
    let sound = run(&place, &arguments);
    assert_ne!(sound.code, 1, "{}", sound.err);
    let mut bytes = std::fs::read(place.path("f.bin")).unwrap();
    bytes[5 * 4096 + 99] ^= 1;
    // In place: a new file would not be Plimsoll's.
    std::fs::OpenOptions::new().write(true).open(place.path("f.bin")).unwrap().write_all(&bytes).unwrap();
    let damaged = run(&place, &arguments);
    assert_eq!(damaged.code, 1, "{}{}", damaged.out, damaged.err);
    let text = damaged.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("f.bin at offset 20480: the block read back does not match"), "{text}");
    assert!(text.contains("VERDICT The data read back differs from the data written"), "{text}");
}

#[test]
fn intervals_are_written_while_they_happen() {
    let place = Place::new("live");
    let load = ["null", "--duration", "600ms", "--interval", "100ms", "--warm-up", "200ms"];
    let done = run(&place, &[&load[..], &["--live", "live.csv", "--run-dir", "r", "-q"]].concat());
    assert!(done.measured(), "{}{}", done.out, done.err);
    let written = std::fs::read_to_string(place.path("live.csv")).unwrap();
    let rows: Vec<Vec<&str>> = written.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{written}");
    let at = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let measured: Vec<_> = rows.iter().filter(|row| row[at("phase")] == "measure").collect();
    assert!(measured.len() >= 3, "{written}");
    assert!(measured.iter().all(|row| row[at("rate_per_s")].parse::<f64>().unwrap() > 0.0));
    let recorded = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/intervals.csv")).unwrap();
    let of_record = recorded.lines().filter(|line| line.contains("measure")).count();
    assert_eq!(measured.len(), of_record);
    let refused = run(&place, &["null", "--live", "/dev/full"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("/dev/full is not a regular file"), "{}", refused.err);
}
