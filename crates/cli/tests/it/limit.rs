//! The search for the limit of real services: a worker pool whose capacity is planted, killed and resumed; the
//! mistakes of a user.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::planted::built;
use crate::program::{Finished, Place, command, run};

/// A pool of threads, each of which sleeps 10 ms on average for a request: 1.25 ms between responses with all 8.
const WORKERS: f64 = 8.0;
const SLEEP_MS: f64 = 10.0;

/// An experiment on the service `planted`, with these lines of `[load]`.
fn experiment(place: &Place, load: &str) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        r#"
name = "A worker pool"
sample_every = "200ms"

[target]
start = "{} --listen 127.0.0.1:{port} --workers {WORKERS} --sleep-ms {SLEEP_MS}"
ready = "tcp://127.0.0.1:{port}"

[workload.http]
url = "http://127.0.0.1:{port}/"
keep_alive = false

[load]
warm_up = "300ms"
interval = "100ms"
{load}
"#,
        built("planted").display()
    );
    std::fs::write(place.path("e.toml"), text).unwrap();
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("{}{}", finished.out, finished.err))
}

fn configuration(document: &Value) -> &Value {
    &document["limit"]["configurations"][0]
}

/// The ends of the answer; none where it has none.
fn bounds(document: &Value) -> (Option<f64>, Option<f64>) {
    let goal = &configuration(document)["goals"][0];
    (goal["meets"]["load"].as_f64(), goal["misses"]["load"].as_f64())
}

/// The capacity that the pool has on this machine: its throughput at the loads that miss the goal. A busy machine sleeps
/// longer, so that it is less than planted.
fn carried(document: &Value) -> f64 {
    let points = configuration(document)["points"].as_array().unwrap();
    let missed = points.iter().filter(|point| point["classes"][0] == "misses");
    missed.filter_map(|point| point["rate_per_s"].as_f64()).fold(0.0, f64::max)
}

#[test]
fn the_planted_capacity_is_between_the_bounds() {
    let place = Place::new("limit-rate");
    experiment(
        &place,
        "open = \"600/s\"\nlimit = \"response.p50 <= 100ms\"\nlimit_max = \"3000/s\"\nlimit_width = \"10%\"\nmeasure = \"2s\"",
    );
    let done = run(&place, &["run", "e.toml", "--run-dir", "r", "--json", "--quiet"]);
    let document = document(&done);
    let goal = &configuration(&document)["goals"][0];
    let (Some(lower), Some(upper)) = bounds(&document) else { panic!("no bounds: {goal:#}") };
    let capacity = WORKERS / SLEEP_MS * 1e3;
    let carried = carried(&document);
    assert!(carried > 0.0 && carried <= 1.05 * capacity, "{carried}/s of {capacity}/s");
    // A rate beyond the capacity has a short queue at first: one 10 % larger takes 1 s to a queue of 100 ms.
    assert!(lower <= 1.15 * capacity && upper >= 0.9 * carried, "{lower} to {upper}/s, {carried}/s carried");
    let expected = match (goal["answer"].as_str().unwrap(), &document["verdict"]["kind"]) {
        (_, kind) if kind == "generator_bound" => 97,
        ("found", _) => 0,
        ("unclear", _) => 98,
        (answer, _) => panic!("{answer}: {goal:#}"),
    };
    assert_eq!(done.code, expected, "{goal:#}");
    if goal["answer"] == "found" {
        assert!((upper - lower) / upper <= 0.1, "{lower} to {upper}");
    }
    // The record alone shows the same again, and the plan has a reason for each trial.
    let again = run(&place, &["show", "r", "--json"]);
    let shown: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((&shown["limit"], &shown["headline"]), (&document["limit"], &document["headline"]));
    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("r/plan.json")).unwrap()).unwrap();
    let decisions = plan["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), document["trials"].as_array().unwrap().len());
    assert!(decisions.iter().all(|decision| !decision["reason"].as_str().unwrap().is_empty()));
    let page = std::fs::read_to_string(place.path("r/report.html")).unwrap();
    assert!(page.contains("How much load meets the goal?") && page.contains(">goal</text>"));
}

#[test]
fn a_killed_search_goes_on_where_it_was() {
    let place = Place::new("limit-killed");
    experiment(
        &place,
        // Met by every load, so that the loads do not depend on the machine.
        "limit = \"response.p95 <= 1h\"\nlimit_max = 32\nmeasure = \"1s\"",
    );
    let mut killed = command(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let trials = || std::fs::read_dir(place.path("r/trials")).map_or(0, Iterator::count);
    while trials() < 3 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    run(&place, &["restore", "r"]);
    let plan = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(place.path("r/plan.json")).unwrap()).unwrap()
    };
    let before = plan();
    let done = run(&place, &["run", "--resume", "r", "--json", "--quiet"]);
    let document = document(&done);
    // The limit was not reached; on a machine that is busy with other tests, the generator may be the limit.
    assert!([97, 98].contains(&done.code), "{}{}", done.code, done.err);
    let after = plan();
    let (before, after) = (before["decisions"].as_array().unwrap(), after["decisions"].as_array().unwrap());
    assert_eq!(&after[..before.len()], &before[..]);
    // What was cut off is measured again at the same load.
    assert_eq!(after[before.len()]["trial"]["treatment"], before[before.len() - 1]["trial"]["treatment"]);
    assert_eq!(bounds(&document), (Some(32.0), None), "{:#}", configuration(&document));
}

#[test]
fn every_load_that_meets_or_misses_ends_with_its_code() {
    let place = Place::new("limit-ends");
    let search = |goal: &str| {
        let load = [
            "--limit",
            goal,
            "--limit-max",
            "4",
            "--duration",
            "1s",
            "--warm-up",
            "100ms",
            "--interval",
            "50ms",
        ];
        let service = ["null", "--service", "1ms", "--completion", "queued", "--json", "--quiet"];
        run(&place, &[&service[..], &load[..]].concat())
    };
    // Nothing takes an hour, and nothing takes no time.
    for (goal, answer, code) in
        [("response.p95 <= 1h", "not_reached", 98), ("response.p95 <= 1us", "always_missed", 99)]
    {
        let done = search(goal);
        let document = document(&done);
        assert_eq!(configuration(&document)["goals"][0]["answer"], answer, "{goal}");
        // On a machine that is busy with other tests, the generator may have been the limit.
        let is_ours = document["verdict"]["kind"] == "generator_bound";
        assert_eq!(done.code, if is_ours { 97 } else { code }, "{goal}: {}", done.err);
    }
}

#[test]
fn mistakes_of_a_search_are_reported_together() {
    let place = Place::new("limit-mistakes");
    let goal = ["null", "--limit", "response.p95 <= 1s"];
    let done = run(&place, &[&goal[..], &["--limit", "throughput > 1/s", "--limit-max", "5/s"]].concat());
    assert_eq!(done.code, 2);
    for expected in ["`throughput > 1/s` has no largest load that meets it", "`5/s` is not a number of users"]
    {
        assert!(done.err.contains(expected), "{expected}: {}", done.err);
    }
    let beside = ["--goal", "failed < 1%", "--replicates", "3", "--vary", "concurrency=1,2"];
    let done = run(&place, &[&goal[..], &beside[..]].concat());
    assert_eq!(done.code, 2);
    for expected in ["`goal` cannot be", "`replicates` cannot be", "`load.closed` cannot be varied"] {
        assert!(done.err.contains(expected), "{expected}: {}", done.err);
    }
    let done = run(&place, &["copy", "a", "b", "--limit", "response.p95 <= 1s"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("the copy workload ends by itself"), "{}", done.err);
    std::fs::write(
        place.path("e.toml"),
        "[workload.null]\n[load]\nclosed = 4\nlimit = [\"response.p95 <= 1s\", \"respnse.p95 <= 1s\"]\n",
    )
    .unwrap();
    let done = run(&place, &["check", "e.toml"]);
    assert!(
        done.code == 2 && done.err.contains("e.toml:4") && done.err.contains("did you mean"),
        "{}",
        done.err
    );
    let done = run(&place, &["check", "e.toml", "--set", "load.limit=response.p95 <= 1s"]);
    assert_eq!(done.code, 2, "the file still has its mistake");
}

#[test]
fn the_smallest_pool_that_carries_the_load_is_found() {
    let place = Place::new("smallest");
    experiment(&place, "closed = 8\nmeasure = \"1s\"");
    // Each worker answers 100 requests/s: two carry 200/s, four carry 400/s.
    let text = std::fs::read_to_string(place.path("e.toml")).unwrap();
    let start = format!("--workers {WORKERS}");
    assert!(text.contains(&start));
    let text =
        text.replace(&start, "--workers $(tail -c 2 pool.ini)").replace("[target]", "[target]\nshell = true");
    let vary = "[vary]\n\"target.config.workers\" = { on = \"pool.ini:workers\", levels = [1, 2, 4, 8] }\n";
    std::fs::write(place.path("e.toml"), format!("goal = \"throughput >= 300/s\"\n{text}{vary}")).unwrap();
    std::fs::write(place.path("pool.ini"), "workers = 8\n").unwrap();
    let search = ["e.toml", "--smallest", "target.config.workers"];
    let checked = run(&place, &[&["check"], &search[..]].concat());
    assert!(
        checked.out.contains("search for the smallest target.config.workers"),
        "{}{}",
        checked.out,
        checked.err
    );
    let done = run(&place, &[&["run"], &search[..], &["--run-dir", "r", "--json", "--quiet"]].concat());
    let document = document(&done);
    assert_eq!(bounds(&document), (Some(4.0), Some(2.0)), "{:#}", configuration(&document));
    let is_ours = document["verdict"]["kind"] == "generator_bound";
    assert_eq!(done.code, if is_ours { 97 } else { 0 }, "{}", done.err);
    let answer = document["headline"]["answer"].as_str().unwrap();
    assert!(is_ours || answer.starts_with("The smallest target.config.workers that meets"), "{answer}");
    let shown = run(&place, &["show", "r"]);
    assert!(
        shown.out.contains("Every level") && shown.out.contains("Smallest level for each goal"),
        "{}",
        shown.out
    );
    assert_eq!(std::fs::read_to_string(place.path("pool.ini")).unwrap(), "workers = 8\n");
    // All mistakes of a search at once.
    let wrong =
        ["--smallest", "target.config.wokers", "--set", "replicates=3", "--set", "load.limit=failed < 1%"];
    let refused = run(&place, &[&["check", "e.toml"], &wrong[..]].concat());
    assert_eq!(refused.code, 2);
    for expected in
        ["did you mean `target.config.workers`?", "`smallest` and `limit`", "`smallest` and `replicates`"]
    {
        assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
    }
}
