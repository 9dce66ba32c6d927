//! A service with a planted limit under load: proved, explained and sized. Nothing of time is asserted: on a machine that is
//! busy with other tests a verdict may honestly be another; that it is there, whole and consistent may not.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::program::{Finished, Place, run};

/// The testkit's service, built.
fn planted() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("planted"))
}

/// Builds a program of the testkit.
pub(crate) fn built(program: &str) -> PathBuf {
    // Two folders up from the program: it may be built optimized, this is not.
    let target = Path::new(env!("CARGO_BIN_EXE_plimsoll")).ancestors().nth(2).unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package", "plimsoll-testkit", "--bin", program])
        .arg("--target-dir")
        .arg(target)
        .status()
        .unwrap();
    assert!(status.success(), "{program} of the testkit is not built");
    target.join("debug").join(program)
}

/// An experiment on it: half a CPU at most and 2 ms of it for each request, where the host permits a quota.
fn experiment(place: &Place) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        r#"
name = "A service with a quota"
sample_every = "50ms"

[target]
start = "{} --listen 127.0.0.1:{port} --workers 32 --sleep-ms 20 --cpu-ms 2"
ready = "tcp://127.0.0.1:{port}"

[workload.http]
url = "http://127.0.0.1:{port}/"
keep_alive = false

[load]
closed = 16
warm_up = "100ms"
measure = "300ms"
interval = "100ms"

[vary]
"load.closed" = {{ levels = [1, 2, 4, 8] }}
{}
"#,
        planted().display(),
        match may_limit() {
            true => r#""host.cpu_quota" = { baseline = "50%", levels = ["100%"] }"#,
            false => "",
        }
    );
    std::fs::write(place.path("e.toml"), text).unwrap();
}

fn may_limit() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/sys/fs/cgroup/cpu").is_dir()
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("{}{}", finished.out, finished.err))
}

fn trials(document: &Value) -> impl Iterator<Item = &Value> {
    document["trials"].as_array().unwrap().iter()
}

#[test]
fn a_limit_is_proved_explained_and_sized() {
    let place = Place::new("planted");
    experiment(&place);
    let checked = run(&place, &["check", "e.toml", "--prove"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("then the proof: 4 to 8 rounds"), "{}", checked.out);
    let plain = run(&place, &["check", "e.toml"]);
    assert!(!plain.out.contains("proof"), "{}", plain.out);

    let done = run(&place, &["run", "e.toml", "--prove", "--run-dir", "r", "--json", "--quiet"]);
    assert!(done.measured(), "{}: {}", done.code, done.err);
    let measured = document(&done);
    for trial in trials(&measured) {
        assert_eq!(trial["ending"], "completed", "{trial}");
        let whole = trial["operations"].as_array().unwrap().last().unwrap();
        assert_eq!(whole["failed"], 0, "{whole}");
    }
    if may_limit() {
        let rows = measured["proof"]["rows"].as_array().unwrap();
        let quota = rows.iter().find(|row| row["factor"] == "host.cpu_quota").unwrap();
        // More is given of it too, in trials of their own.
        let level = format!("proof_+host.cpu_quota={}.", quota["level"].as_str().unwrap());
        let cut = trials(&measured).filter(|trial| trial["trial"].as_str().unwrap().contains(&level)).count()
            as u64;
        assert!((4..=8).contains(&cut), "{cut} rounds");
        // A trial so starved that nothing completes in it is no round.
        assert!(quota["rounds"].as_u64().unwrap() <= cut, "{quota}");
        let answer = quota["answer"].as_str().unwrap();
        assert!(["confirmed", "contributing", "rejected", "unclear"].contains(&answer), "{quota}");
        // What a proof confirms is what the verdict names, unless the generator was the limit.
        if answer == "confirmed" && measured["verdict"]["kind"] != "generator_bound" {
            assert!(
                measured["verdict"]["resource"].as_str().unwrap().contains("cpu"),
                "{}",
                measured["verdict"]
            );
            assert!(measured["verdict"]["proof"].is_string());
        }
    }
    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("r/plan.json")).unwrap()).unwrap();
    assert_eq!(plan["experiment"]["prove"], true);
    assert!(plan["enough"].as_str().unwrap().contains("proof"), "{}", plan["enough"]);

    let explained = run(&place, &["explain", "r"]);
    assert_eq!(explained.code, 0, "{}", explained.err);
    for word in ["VERDICT", "host.cpu_quota"] {
        assert!(explained.out.contains(word) || !may_limit(), "{word}: {}", explained.out);
    }
    assert_eq!(
        document(&run(&place, &["explain", "r", "--json"])),
        measured,
        "the record tells the same again"
    );

    sized(&place);
}

/// `plimsoll size` of the sweep in `r`.
fn sized(place: &Place) {
    let ask = |more: &[&str]| run(place, &[&["size", "r", "--for"][..], more].concat());
    let whole = ask(&["20/s with response.p95 <= 10s", "--json"]);
    let answered = document(&whole);
    assert_eq!(answered["format"], "plimsoll.sizing/1");
    let levels = answered["levels"].as_array().unwrap().len();
    let left_out = |of: &Value| of["left_out"].as_array().map_or(0, Vec::len);
    assert_eq!(levels + left_out(&answered), 5, "each level is used, or it is said why not: {answered}");
    // Few short levels may follow no law; then it is said.
    match &answered["answer"] {
        Value::Null => {
            assert_eq!(whole.code, 98);
            assert!(!answered["refusal"].as_str().unwrap().is_empty());
        }
        answer => {
            let carries = answer["carries_per_s"]["value"].as_f64().unwrap();
            assert_eq!(whole.code, if answer["headroom"].as_f64().unwrap() < 0.0 { 99 } else { 0 });
            assert!(carries > 0.0 && answer["carries_per_s"]["low"].as_f64().unwrap() <= carries, "{answer}");
        }
    }
    let page = ask(&["20/s"]);
    assert!(page.out.contains("ANSWER") && page.out.contains("in flight"), "{}", page.out);

    let part = document(&ask(&["20/s", "--up-to", "4", "--json"]));
    for level in part["levels"].as_array().unwrap() {
        assert!(level["concurrency"].as_f64().unwrap() < 4.1, "{level}");
    }
    assert!(left_out(&part) >= 2, "8 and 16 users are more than 4: {part}");
    assert_eq!(part["verdict"], answered["verdict"], "the verdict is that of the whole record");
    let page = ask(&["20/s", "--up-to", "4"]);
    assert!(page.out.contains("of the whole record: ") && page.out.contains("LEFT OUT"), "{}", page.out);

    // Refusals: what is asked is refused with 2, what cannot be answered with 98, each with what to do.
    for (more, code, words) in [
        (&["fast"][..], 2, "write \"2000/s\""),
        (&["20/s with respons.p95 <= 1s"], 2, "did you mean `response.p95`"),
        (&["20/s with throughput > 3/s"], 2, "not a limit on response times"),
        (&["20/s", "--up-to", "many"], 2, "invalid value"),
        (&["90000/s", "--up-to", "2"], 98, "ANSWER   None: "),
    ] {
        let refused = ask(more);
        assert_eq!(refused.code, code, "{more:?}: {}{}", refused.out, refused.err);
        let said = if code == 2 { &refused.err } else { &refused.out };
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&words), "{more:?}: {said}");
    }
    // What was carried is an answer, however few loads were measured.
    let few = ask(&["20/s", "--up-to", "2"]);
    assert!(few.code == 0 && few.out.contains("few loads were measured"), "{}{}", few.out, few.err);
    let missing = run(place, &["size", "r"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("--for"), "{}", missing.err);
}
