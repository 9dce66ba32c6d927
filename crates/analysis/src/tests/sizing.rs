//! Tests of `plimsoll size` with valid and invalid records.

use model::result::{Direction, ProofAnswer, ProofResult, ProofRow, ResultDocument};
use model::{
    DesignKind, Ending, HostResource, Shape, SizeGoal, SizingDocument, SourceState, SourceStatus, Study,
    Treatment,
};

use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, level, search_for, vary};
use crate::sizing::sizing;

const USERS: u64 = 32;

/// A service with a quota of half a CPU, which needs 0.5 ms of it and 8 ms elsewhere per request: 1000
/// requests per second, minus its use without load.
fn service(users: f64) -> Simulated {
    let (mut queue, mut rate) = (0.0, 0.0);
    for n in 1..=users as u32 {
        let at_cpu = 0.001 * (1.0 + queue);
        rate = f64::from(n) / (at_cpu + 0.008);
        queue = rate * at_cpu;
    }
    let mut run = Simulated::of(Shape::closed(users as u64), rate, users / rate * 1e3).http();
    run.in_flight = users;
    run.counters.extend([
        ("process.busy_cpus", "svc", vec![0.02 + rate * 0.0005]),
        ("process.quota_cpus", "svc", vec![0.5]),
        ("process.threads", "svc", vec![64.0]),
    ]);
    run
}

/// A sweep of it in which `spoil` changes each run.
pub(super) fn swept(replicates: u32, mut spoil: impl FnMut(f64, &mut Simulated)) -> Study {
    let swept = vary("load.closed", Some(USERS), &[1, 2, 4, 8, 16]);
    carry_out(experiment(vec![swept], DesignKind::OneFactorAtATime, replicates), |treatment| {
        let users = level(treatment, "load.closed", USERS as f64);
        let mut run = service(users);
        spoil(users, &mut run);
        run
    })
}

fn asked(study: &Study, question: &str, up_to: Option<f64>) -> (SizingDocument, ResultDocument) {
    let document = result(study);
    let goal = SizeGoal::parse(question, &[]).unwrap();
    (sizing(study, &document, &goal, up_to), document)
}

fn warned(sizing: &SizingDocument, text: &str) -> bool {
    sizing.warnings.iter().any(|warning| warning.contains(text))
}

/// A change that makes a run useless.
type Spoil = fn(&mut Simulated);

#[test]
fn a_sound_sweep_is_answered() {
    let (sizing, _) = asked(&swept(3, |_, _| {}), "800/s", None);
    let answer = sizing.answer.as_ref().unwrap();
    assert_eq!(answer.limit, "CPU of svc", "{sizing:?}");
    assert!((answer.carries_per_s.value / 960.0 - 1.0).abs() < 0.05, "{answer:?}");
    assert!(sizing.left_out.is_empty());
    assert_eq!(sizing.warnings, ["what limits is not proved: run the experiment with --prove"]);
    assert!(sizing.levels.iter().all(|level| level.runs >= 3));
}

#[test]
fn the_loads_of_a_search_are_a_sweep() {
    let experiment = search_for(&[("limit_max", "64"), ("measure", "30s")], &["response.mean <= 35ms"]);
    let study = carry_out(experiment, |treatment| {
        let Treatment::Probe(probe) = treatment else { panic!("{treatment:?}") };
        let mut run = service(probe.at.level.as_number().unwrap());
        run.rates = vec![run.rates[0]; (probe.measure / model::SECOND) as usize * 5];
        run
    });
    let (sizing, document) = asked(&study, "800/s", None);
    let answer = sizing.answer.as_ref().unwrap_or_else(|| panic!("{sizing:?}"));
    assert_eq!(answer.limit, "CPU of svc");
    assert!((answer.carries_per_s.value / 960.0 - 1.0).abs() < 0.05, "{answer:?}");
    let limit = document.limit.unwrap();
    assert_eq!(sizing.levels.len(), limit.configurations[0].points.len());
    // Of the loads with a full-length trial only that one counts.
    assert!(sizing.levels.iter().all(|level| level.runs == 1), "{:?}", sizing.levels);
}

#[test]
fn levels_above_the_requested_one_are_reported_and_their_verdict_is_not_used() {
    // Without counters, the verdict's text about the limit is based on the whole record.
    let study = swept(3, |_, run| run.counters.retain(|(metric, _, _)| *metric != "process.busy_cpus"));
    let (sizing, _) = asked(&study, "800/s", Some(8.0));
    let left_out: Vec<&str> = sizing.left_out.iter().map(|one| one.level.as_str()).collect();
    assert_eq!(left_out, ["baseline (32 in flight)", "load.closed=16"]);
    assert!(sizing.left_out.iter().all(|one| one.why == "more than 8 in flight"));
    assert_eq!(sizing.levels.len(), 4);
    assert!(sizing.answer.is_some_and(|answer| !answer.limit.contains("svc")));
}

#[test]
fn a_level_that_says_nothing_is_left_out_with_the_reason() {
    let cases: [(&str, Spoil); 6] = [
        ("100 % of its operations failed", |run| run.failed_share = 1.0),
        ("60 % of its operations failed", |run| run.failed_share = 0.6),
        ("no operation completed", |run| run.rates.fill(0.0)),
        ("it did not complete", |run| run.ending = Ending::Failed("gone".into())),
        ("the load generator was its limit", |run| run.generator = (0.97, 0.02)),
        ("how many operations were in flight was not recorded", |run| run.in_flight = f64::NAN),
    ];
    for (why, spoil) in cases {
        let study = swept(3, |users, run| {
            if users == 16.0 {
                spoil(run);
            }
        });
        let (sizing, _) = asked(&study, "800/s", None);
        let found: Vec<(&str, &str)> =
            sizing.left_out.iter().map(|one| (one.level.as_str(), one.why.as_str())).collect();
        assert_eq!(found, [("load.closed=16", why)]);
        assert_eq!(sizing.levels.len(), 5, "{why}");
        let answer = sizing.answer.as_ref().unwrap_or_else(|| panic!("{why}: {sizing:?}"));
        assert!((answer.carries_per_s.value / 960.0 - 1.0).abs() < 0.1, "{why}: {answer:?}");
    }
}

#[test]
fn a_sweep_whose_levels_all_say_nothing_has_no_answer() {
    for (why, spoil) in [
        ("100 % of its operations failed", (|run: &mut Simulated| run.failed_share = 1.0) as Spoil),
        ("the load generator was its limit", |run| run.generator = (0.97, 0.02)),
    ] {
        let (sizing, document) = asked(&swept(3, |_, run| spoil(run)), "800/s", None);
        assert!(sizing.answer.is_none(), "{sizing:?}");
        assert!(sizing.refusal.starts_with("0 load levels measured"), "{}", sizing.refusal);
        assert_eq!(sizing.left_out.len(), 6);
        assert!(sizing.left_out.iter().all(|one| one.why == why), "{:?}", sizing.left_out);
        assert!(!matches!(document.verdict, model::Verdict::Bottleneck { .. }), "{:?}", document.verdict);
    }
}

#[test]
fn one_bad_run_of_several_is_reported() {
    let mut first = true;
    let study = swept(3, |users, run| {
        if users == 16.0 && std::mem::take(&mut first) {
            run.failed_share = 0.5;
        }
    });
    let (sizing, _) = asked(&study, "800/s", None);
    assert!(sizing.left_out.is_empty());
    assert!(
        warned(&sizing, "not all runs of load.closed=16 are used: 50 % of its operations failed"),
        "{sizing:?}"
    );
    assert!(sizing.levels.iter().any(|level| level.runs == 2));
}

#[test]
fn levels_measured_once_are_reported() {
    let (sizing, _) = asked(&swept(1, |_, _| {}), "800/s", None);
    assert!(warned(&sizing, "5 of 6 levels were measured once"), "{:?}", sizing.warnings);
    assert!(sizing.answer.is_some());
}

#[test]
fn without_counters_no_resource_is_named() {
    let (sizing, _) = asked(&swept(3, |_, run| run.counters.clear()), "800/s", None);
    let answer = sizing.answer.as_ref().unwrap();
    assert_eq!(answer.limit, "something that was not measured");
    assert!(answer.resources.is_empty());
    assert!(warned(&sizing, "the use of no resource was recorded"), "{:?}", sizing.warnings);
    assert!(!warned(&sizing, "more of a measured resource will not help"));
}

#[test]
fn use_that_does_not_follow_the_load_is_no_demand() {
    let study = swept(3, |_, run| {
        run.counters.retain(|(metric, _, _)| *metric != "process.busy_cpus");
        run.counters.push(("process.busy_cpus", "svc", vec![0.5]));
    });
    let (sizing, _) = asked(&study, "800/s", None);
    assert!(warned(&sizing, "the use of no resource follows the load"), "{:?}", sizing.warnings);
    assert!(sizing.answer.unwrap().resources.is_empty());
}

#[test]
fn what_the_record_lacks_is_reported() {
    let mut study = swept(3, |_, _| {});
    study.damage.push("trials/004: readings.csv is cut off".into());
    for record in &mut study.runs {
        let state = SourceState::Unavailable("no such file".into());
        record.run.sources.push(SourceStatus { source: "disk".into(), state });
    }
    let clock = |record: &mut model::RunRecord| record.run.clock.drift_ppm = 900.0;
    study.runs.iter_mut().filter(|record| record.run.trial.treatment == Treatment::Baseline).for_each(clock);
    let (sizing, _) = asked(&study, "800/s", None);
    for text in [
        "counters that could not be read: disk",
        "the record is damaged in 1 place",
        "trials have doubts; the first, ",
    ] {
        assert!(warned(&sizing, text), "{text}: {:?}", sizing.warnings);
    }
    assert!(sizing.answer.is_some());
}

#[test]
fn a_proof_against_the_answer_is_reported() {
    let study = swept(3, |_, _| {});
    let goal = SizeGoal::parse("800/s", &[]).unwrap();
    for (factor, answer, expected) in [
        ("host.cpu_quota", ProofAnswer::Confirmed, None),
        ("host.cpu_quota", ProofAnswer::Rejected, Some("the proof says that CPU of svc does not limit")),
        (
            "host.cpu_quota",
            ProofAnswer::Unclear,
            Some("the proof does not show that CPU of svc alone limits"),
        ),
        (
            "host.disk.io_limit",
            ProofAnswer::Confirmed,
            Some("the proof says that the disk limits, and not CPU of svc"),
        ),
    ] {
        let mut document = result(&study);
        let resource = if factor.contains("cpu") { HostResource::Cpu } else { HostResource::Disk };
        document.proof = Some(proof(resource, factor, answer));
        let sizing = sizing(&study, &document, &goal, None);
        assert!(!warned(&sizing, "is not proved"));
        let reported = sizing.warnings.iter().find(|text| text.starts_with("the proof"));
        match (reported, expected) {
            (Some(reported), Some(expected)) => assert!(reported.starts_with(expected), "{reported}"),
            (reported, expected) => assert_eq!(reported.map(String::as_str), expected),
        }
    }
}

#[test]
fn a_proof_that_leaves_something_open_beside_what_was_not_measured_is_reported() {
    let study = swept(3, |_, run| run.counters.clear());
    let goal = SizeGoal::parse("800/s", &[]).unwrap();
    for (answer, expected) in [(ProofAnswer::Unclear, true), (ProofAnswer::Rejected, false)] {
        let mut document = result(&study);
        document.proof = Some(proof(HostResource::Cpu, "host.cpu_quota", answer));
        let sizing = sizing(&study, &document, &goal, None);
        assert_eq!(
            warned(&sizing, "the proof does not rule out that the cpu limits"),
            expected,
            "{answer:?}"
        );
    }
}

/// A proof that changed one resource, with this answer.
fn proof(resource: HostResource, factor: &str, answer: ProofAnswer) -> ProofResult {
    let row = ProofRow {
        resource,
        factor: factor.into(),
        in_force: "0.5".into(),
        direction: Direction::Reduced,
        level: "0.35".into(),
        throughput_ratio: None,
        rounds: 4,
        elasticity: None,
        answer,
    };
    ProofResult {
        share: model::PROOF_SHARE,
        host: String::new(),
        rows: vec![row],
        not_varied: Vec::new(),
        residual: None,
        observed: None,
    }
}
