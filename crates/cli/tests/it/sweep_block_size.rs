//! Sweeps whose levels are quantities have a curve.

use serde_json::Value;

use crate::program::{Finished, Place, run};

/// A file system may refuse direct I/O, and how fast it is has no part here.
const DISK: [&str; 7] = ["disk", "f.bin", "--size", "8MiB", "--cache", "page-cache", "--keep"];

const SHORT: [&str; 8] =
    ["--duration", "300ms", "--warm-up", "0s", "--interval", "100ms", "--json", "--quiet"];

/// What a point has where operations move bytes.
const MEASURED: &[&str] = &["rate_per_s", "bytes_per_s", "mean_ms", "p99_ms"];

/// The levels of the only curve, in their order, which must be over this factor. Each point has these figures.
fn levels_of_the_curve(done: &Finished, factor: &str, figures: &[&str]) -> Vec<f64> {
    // On a busy machine nothing may be concluded, or the generator may be the limit.
    assert!(matches!(done.code, 0 | 97 | 98), "{}{}", done.out, done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let curves = document["curves"].as_array().unwrap();
    assert_eq!(curves.len(), 1, "{curves:?}");
    assert_eq!(curves[0]["factor"], factor);
    let points = curves[0]["points"].as_array().unwrap();
    for point in points {
        for figure in figures {
            assert!(point[figure][0].as_f64().is_some_and(|value| value > 0.0), "{figure}: {point}");
        }
    }
    points.iter().map(|point| point["level"].as_f64().unwrap()).collect()
}

#[test]
fn quantities_that_are_swept_have_a_curve() {
    let place = Place::new("sweep-quantities");
    for (varied, factor, levels) in [
        ("block_size=4KiB,64KiB,1MiB", "workload.block_size", &[4096.0, 65_536.0, 1_048_576.0][..]),
        ("outstanding=1,4", "workload.outstanding", &[1.0, 4.0]),
        ("threads=1,2", "workload.threads", &[1.0, 2.0]),
    ] {
        let done = run(&place, &[&DISK[..], &SHORT, &["--vary", varied]].concat());
        assert_eq!(levels_of_the_curve(&done, factor, MEASURED), levels, "{varied}");
    }
}

#[test]
fn connections_that_are_swept_have_a_curve() {
    let place = Place::new("sweep-http");
    let url = format!("http://{}/", crate::http::serve());
    let done = run(&place, &[&["http", &url, "--vary", "load.closed=2,4"][..], &SHORT].concat());
    assert_eq!(levels_of_the_curve(&done, "load.closed", MEASURED), [2.0, 4.0]);
}

#[test]
fn objects_that_are_swept_have_a_curve() {
    let place = Place::new("sweep-sync");
    let engine = "sh -c 'echo 1 users; sleep 0.1; echo {users} users'";
    let sync = ["sync", "staging: load", "--command", engine, "--progress", "([0-9]+) users"];
    let varied = ["--users", "100", "--vary", "users=200", "--json", "--quiet"];
    let done = run(&place, &[&sync[..], &varied].concat());
    assert_eq!(levels_of_the_curve(&done, "workload.users", &["rate_per_s", "mean_ms"]), [100.0, 200.0]);
}

#[test]
fn a_file_and_flags_give_the_same_levels() {
    let place = Place::new("sweep-file");
    let experiment = r#"
name = "Block sizes"
[workload.disk]
files = "f.bin"
size = "8MiB"
cache = "page-cache"
[load]
measure = "300ms"
warm_up = "0s"
interval = "100ms"
[vary]
"workload.block_size" = { levels = ["64KiB"] }
"#;
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let plan = |arguments: &[&str]| -> Value {
        let done = run(&place, &[&["check", "e.toml", "--json"], arguments].concat());
        assert_eq!(done.code, 0, "{}", done.err);
        serde_json::from_str(&done.out).unwrap()
    };
    let setting = |plan: &Value| plan["experiment"]["workload"]["settings"]["block_size"]["level"].clone();
    assert_eq!(setting(&plan(&[])), serde_json::json!({ "bytes": 4096 }));
    assert_eq!(setting(&plan(&["--set", "workload.block_size=16k"])), serde_json::json!({ "bytes": 16_384 }));
    let levels = &plan(&[])["experiment"]["vary"][0]["levels"];
    assert_eq!(*levels, serde_json::json!([{ "bytes": 65_536 }]));
    let done = run(&place, &["run", "e.toml", "--json", "--quiet"]);
    assert_eq!(levels_of_the_curve(&done, "workload.block_size", MEASURED), [4096.0, 65_536.0]);
}

#[test]
fn a_profile_lists_its_patterns_without_comparing_them() {
    let place = Place::new("profile");
    let done = run(&place, &[&DISK[..], &SHORT, &["--profile", "mail", "--run-dir", "r"]].concat());
    assert!(matches!(done.code, 0 | 97 | 98), "{}{}", done.out, done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["comparison"].as_array().map(Vec::len), Some(0));
    let names =
        |value: &Value| value["treatment"]["levels"][0]["level"]["text"].as_str().unwrap().to_string();
    let names: Vec<String> = document["configurations"].as_array().unwrap().iter().map(names).collect();
    assert_eq!(names, ["RND32K Q1T1 60% read", "RND32K Q8T1 60% read", "RND32K Q32T1 60% read"]);
    // The pattern is what is driven: blocks of 32 KiB, 3 reads to 2 writes, 8 of them in flight.
    let trial = document["trials"].as_array().unwrap().iter();
    let trial = trial.into_iter().find(|of| of["trial"].as_str().unwrap().contains("Q8T1")).unwrap();
    let of = |name: &str, figure: &str| {
        let operation = trial["operations"].as_array().unwrap().iter().find(|of| of["name"] == name).unwrap();
        operation[figure].as_f64().unwrap()
    };
    assert_eq!((of("all", "bytes_per_s") / of("all", "rate_per_s")).round(), 32_768.0);
    let reads = of("read", "completed") / of("all", "completed");
    assert!((0.5..0.7).contains(&reads), "{reads}");
    // How many are in flight on average depends on what else this machine does.
    assert_eq!(trial["load"], "8 in flight");
    let shown = run(&place, &["show", "r"]);
    let line = shown.out.lines().find(|line| line.contains("RND32K Q32T1 60% read")).unwrap();
    assert!(line.split_whitespace().count() >= 8, "{line}");
    assert!(shown.out.contains("ANSWER    RND32K Q1T1 60% read: "), "{}", shown.out);

    // Where every pattern is read and written, a row has both.
    let done = run(&place, &[&DISK[..], &SHORT, &["--profile", "desktop", "--run-dir", "d"]].concat());
    assert!(matches!(done.code, 0 | 97 | 98), "{}{}", done.out, done.err);
    let shown = run(&place, &["show", "d"]).out;
    let mut lines = shown.lines().skip_while(|line| !line.contains("read, "));
    let head = lines.next().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(head.matches("write, ").count(), 3, "{head}");
    for pattern in ["SEQ1M Q8T1", "SEQ1M Q1T1", "RND4K Q32T1", "RND4K Q1T1"] {
        let cells: Vec<&str> = lines.next().unwrap().trim().splitn(3, ' ').collect();
        assert_eq!(cells[..2].join(" "), pattern, "{shown}");
        let figures =
            cells[2].split_whitespace().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(figures.count(), 6, "{shown}");
    }

    // A pattern states what these flags state too, and it must be one.
    let refused =
        run(&place, &[&DISK[..], &["--pattern", "RND4K Q1T1 read", "--block-size", "8KiB"]].concat());
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("contradict each other"), "{}", refused.err);
    let refused = run(&place, &[&DISK[..], &["--pattern", "4K read"]].concat());
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("`4K read` is not a pattern"), "{}", refused.err);
}
