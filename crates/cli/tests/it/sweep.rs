//! One factor at a time, and grids, on real files.

use testkit::Need;

use crate::program::{Place, run};

#[test]
fn a_limited_disk_is_reported_from_an_unlimited_one() {
    let place = Place::new("limit");
    if testkit::lacks(Need::Cgroup("blkio", "io")) || testkit::lacks(Need::BlockDevice(&place.path(""))) {
        return;
    }
    let experiment = r#"
name = "A limit is seen"
replicates = 3
[workload.disk]
files = "f.bin"
size = "16MiB"
outstanding = 4
[load]
warm_up = "200ms"
measure = "1s"
[vary]
"host.disk.io_limit" = { baseline = "400/s", levels = ["200/s"] }
"#;
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let done = run(&place, &["run", "e.toml", "--json", "--quiet"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let row = &document["comparison"].as_array().unwrap()[0];
    assert_eq!(row["metric"], "rate_per_s");
    assert_eq!(row["answer"], "worse", "{row}");
    let ratio = row["ratio"].as_f64().unwrap();
    assert!((0.35..0.65).contains(&ratio), "{ratio}");
}

#[test]
fn a_grid_gives_curves() {
    let place = Place::new("grid");
    let arguments = [
        "disk",
        "f.bin",
        "--size",
        "16MiB",
        "--duration",
        "300ms",
        "--warm-up",
        "0s",
        "--vary",
        "block_size=4KiB,8KiB",
        "--vary",
        "outstanding=1,4",
        "--grid",
        "--json",
        "--quiet",
    ];
    let done = run(&place, &arguments);
    assert!(done.measured(), "{}", done.err);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    // Four cells, and the baseline again at the end.
    assert_eq!(document["trials"].as_array().unwrap().len(), 5);
    let curves = document["curves"].as_array().unwrap();
    assert!(!curves.is_empty());
    for curve in curves {
        let levels: Vec<f64> =
            curve["points"].as_array().unwrap().iter().map(|p| p["level"].as_f64().unwrap()).collect();
        assert!(levels.len() == 2 && levels[0] < levels[1], "{curve}");
    }
}

/// How many descriptors Plimsoll has open in each of twenty trials of one experiment, after the preparation, as a command says.
fn descriptors_by_trial(name: &str, workload: &str) -> Vec<usize> {
    let place = Place::new(name);
    let experiment = format!(
        r#"
name = "Twenty trials"
replicates = 10
{workload}
[vary."target.command"]
baseline = "1"
levels = ["2"]
set = "ls /proc/$PPID/fd | wc -l >> seen"
undo = "true"
"#
    );
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let done = run(&place, &["run", "e.toml", "--quiet"]);
    assert!(done.measured() || done.code == 98, "{} {}", done.code, done.err);
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    assert!(!place.path("f.bin").exists() && !place.path("copy").exists());
    seen.lines().map(|line| line.trim().parse().unwrap()).collect()
}

#[test]
fn trial_after_trial_opens_no_more_files() {
    let load = "[load]\nwarm_up = \"0s\"\nmeasure = \"100ms\"\ninterval = \"50ms\"";
    let disk = "[workload.disk]\nfiles = \"f.bin\"\nsize = \"1MiB\"\nverify = true\nread_percent = \"50%\"";
    let copy = "[workload.copy]\nsource = \"e.toml\"\ndestination = \"copy\"\ndiscard = true";
    for (name, workload) in [("lasting-disk", format!("{disk}\n{load}")), ("lasting-copy", copy.into())] {
        let seen = descriptors_by_trial(name, &workload);
        assert!(seen.len() >= 20, "{name}: {seen:?}");
        // An earlier trial may still be closing a few.
        let (begin, end) = (seen[..5].iter().max(), seen[seen.len() - 5..].iter().min());
        assert!(end <= begin, "{name}: {seen:?}");
    }
}
