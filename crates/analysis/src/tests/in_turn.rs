//! Tests of consecutive operations, like the steps of a synchronization.

use std::collections::BTreeMap;

use model::claim::ServiceState;
use model::experiment::{FigureName, Published};
use model::result::Configuration;
use model::verdict::InconclusiveReason;
use model::{
    Claim, DesignKind, Detector, Finding, FindingKind, Level, Missing, ReadingTable, RunRecord, SettingPath,
    Shape, Study, Treatment, Trial, Verdict,
};

use super::read::{found, limit, rests_on};
use crate::simulate::{Simulated, carry_out, experiment, level, vary};
use crate::{metric, result};

/// 10 s of a step.
fn step(operation: &'static str, rate: f64) -> Simulated {
    let run = Simulated::of(Shape::closed(1), rate, 1e3 / rate);
    Simulated { workload: "sync", operation, rates: vec![rate; 10], facts: BTreeMap::new(), ..run }
}

/// 10 s of staging at `staging` objects per second, then 10 s of export at `export`.
fn record(trial: Trial, staging: f64, export: f64) -> RunRecord {
    let mut record = step("staging", staging).run(trial.clone());
    let mut second = step("export", export).run(trial);
    for interval in &mut second.intervals {
        interval.begin_s += 10.0;
        interval.end_s += 10.0;
    }
    record.intervals.append(&mut second.intervals);
    for interval in &mut record.intervals {
        interval.service.mean = 1e3 * interval.length_s() / interval.completed as f64;
    }
    record.histograms.append(&mut second.histograms);
    record.run.operations = vec!["staging".into(), "export".into()];
    record.run.operations_in_turn = true;
    record
}

fn study() -> Study {
    let users = vec![vary("workload.users", Some(100), &[400])];
    let mut plan = experiment(users, DesignKind::OneFactorAtATime, 3);
    let figures =
        |figures: &[(u64, f64)]| figures.iter().map(|(users, rate)| (Level::Count(*users), *rate)).collect();
    let published = |name: &str, rates: Vec<(u64, f64)>| Published {
        name: name.into(),
        source: "a book".into(),
        factor: Some(SettingPath("workload.users".into())),
        rates_per_s: BTreeMap::from([("staging".to_string(), figures(&rates))]),
        ..Published::default()
    };
    plan.published = vec![
        published("old", vec![(100, 10.0), (400, 5.0), (900, 1.0)]),
        published("older", vec![(100, 4.0)]),
    ];
    let mut study = carry_out(plan, |_| step("staging", 100.0));
    for of in &mut study.runs {
        let trial = of.run.trial.clone();
        let small = level(&trial.treatment, "workload.users", 100.0) < 200.0;
        *of = record(trial, if small { 1000.0 } else { 800.0 }, 50.0);
    }
    study
}

#[test]
fn each_has_the_rate_of_its_own_time() {
    let document = result(&study());
    let trial = document.trials.iter().find(|trial| trial.treatment.changes.is_empty()).unwrap();
    let reported: Vec<(&str, f64, Option<f64>)> = trial
        .operations
        .iter()
        .map(|of| (of.name.as_str(), of.rate_per_s.round(), of.busy_s.map(f64::round)))
        .collect();
    assert_eq!(
        reported,
        [("staging", 1000.0, Some(10.0)), ("export", 50.0, Some(10.0)), ("all", 525.0, None)]
    );
    assert_eq!(metric(trial, "export.rate_per_s").map(f64::round), Some(50.0));
    assert_eq!(metric(trial, "synchronization.rate_per_s"), None);
    // A step that is slower than the previous one is not a change of throughput, and a long commit is not a
    // pause.
    for detector in [Detector::Steadiness, Detector::Pauses] {
        assert_eq!(found(&document, detector), None);
    }
}

#[test]
fn they_are_compared_and_drawn_one_by_one() {
    let document = result(&study());
    let compared: Vec<(&str, f64)> = document
        .comparison
        .iter()
        .map(|row| (row.metric.as_str(), (row.ratio * 100.0).round() / 100.0))
        .take(2)
        .collect();
    assert_eq!(compared, [("staging.rate_per_s", 0.8), ("export.rate_per_s", 1.0)]);
    assert!(document.comparison.iter().all(|row| !row.metric.starts_with("response_ms.")));
    let curves: Vec<(&str, Vec<f64>)> = document
        .curves
        .iter()
        .map(|curve| {
            (curve.series.as_str(), curve.points.iter().map(|point| point.rate_per_s[0].round()).collect())
        })
        .collect();
    assert_eq!(curves, [("staging", vec![1000.0, 800.0]), ("export", vec![50.0, 50.0])]);
}

#[test]
fn published_figures_stand_beside_what_was_measured() {
    let document = result(&study());
    let rows: Vec<(&str, &str, usize, f64)> = document
        .published
        .iter()
        .map(|row| {
            (row.operation.as_str(), row.level.as_str(), row.published.len(), row.times_largest.round())
        })
        .collect();
    assert_eq!(rows, [("staging", "100", 2, 100.0), ("staging", "400", 1, 160.0)]);
    assert_eq!(document.published[0].published[1].name, "older");
    // Nothing was published about the levels of another factor.
    let mut other = study();
    if let Some(plan) = &mut other.plan {
        plan.experiment.published[0].factor = Some(SettingPath("workload.threads".into()));
        plan.experiment.published.truncate(1);
    }
    assert!(result(&other).published.is_empty());
}

#[test]
fn rates_published_for_levels_that_are_words_stand_beside_theirs() {
    let word = |text: &str| Level::Text(text.into());
    let mut layout = vary("host.layout", None, &[]);
    (layout.baseline, layout.levels) = (Some(word("stripe")), vec![word("parity"), word("mirror")]);
    let mut plan = experiment(vec![layout], DesignKind::OneFactorAtATime, 3);
    let rates = vec![(word("stripe"), 100.0), (word("parity"), 50.0), (word("cached"), 9.0)];
    plan.published.push(Published {
        name: "theirs".into(),
        source: "a page".into(),
        factor: Some(SettingPath("host.layout".into())),
        rates_per_s: BTreeMap::from([("staging".to_string(), rates)]),
        ..Published::default()
    });
    let document = result(&carry_out(plan, |treatment| {
        step("staging", if *treatment == Treatment::Baseline { 200.0 } else { 80.0 })
    }));
    let rows: Vec<(&str, f64, f64)> = document
        .published
        .iter()
        .map(|row| (row.level.as_str(), row.measured_per_s.round(), row.published[0].rate_per_s))
        .collect();
    assert_eq!(rows, [("stripe", 200.0, 100.0), ("parity", 80.0, 50.0)]);
}

#[test]
fn published_changes_stand_beside_measured_ones() {
    let mut study = study();
    assert_eq!(result(&study).published_changes, []);
    let Some(plan) = &mut study.plan else { panic!("a plan") };
    plan.experiment.published.push(Published {
        name: "theirs".into(),
        source: "a page".into(),
        changes: vec![("export.rate_per_s".into(), 1.44), ("propagation.rate_per_s".into(), 2.0)],
        ..Published::default()
    });
    let document = result(&study);
    // An operation without measurements has no row.
    let row = document.comparison.iter().find(|row| row.metric == "export.rate_per_s").unwrap();
    let [change] = document.published_changes.as_slice() else { panic!("{:?}", document.published_changes) };
    assert_eq!((change.metric.as_str(), &change.configuration), ("export.rate_per_s", &row.configuration));
    assert_eq!((change.ratio, change.low, change.high), (row.ratio, row.low, row.high));
    assert_eq!((change.published, change.name.as_str(), change.source.as_str()), (1.44, "theirs", "a page"));
}

#[test]
fn figures_of_no_factor_stand_beside_each_configuration() {
    let mut study = study();
    let Some(plan) = &mut study.plan else { panic!("a plan") };
    let name = |text: &str| FigureName::from(text.to_string());
    plan.experiment.show = vec![name("process.threads"), name("disk.flush_s")];
    plan.experiment.published.push(Published {
        name: "theirs".into(),
        source: "a page".into(),
        figures: vec![(name("export.busy_s"), 1000.0), (name("export.rate_per_s"), 0.5)],
        ..Published::default()
    });
    for of in &mut study.runs {
        // Of two instances, the one with the larger value all the time.
        let small = of.run.trial.treatment == Treatment::Baseline;
        let counters = step("staging", 100.0).counter("process.threads", "other", &[1.0]).counter(
            "process.threads",
            "metadir",
            &[if small { 3.0 } else { 5.0 }],
        );
        of.readings = counters.run(of.run.trial.clone()).readings;
    }
    let rows = result(&study).beside;
    let reported: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.metric.as_str(), row.instance.as_str())).collect();
    assert_eq!(
        reported,
        [
            ("process.threads", "metadir"),
            ("disk.flush_s", ""),
            ("export.busy_s", ""),
            ("export.rate_per_s", "")
        ]
    );
    let measured = |at: usize| {
        let row: &model::result::FigureRow = &rows[at];
        row.measured.iter().map(|figure| figure.value.map(f64::round)).collect::<Vec<_>>()
    };
    assert_eq!(measured(0), [Some(3.0), Some(5.0)]);
    assert_eq!(measured(1), [None, None], "what was not read is no zero");
    assert_eq!(measured(2), [Some(10.0), Some(10.0)]);
    assert_eq!(rows[0].published[0].value, None);
    assert_eq!((rows[2].published[0].value, rows[2].times.map(f64::round)), (Some(1000.0), Some(100.0)));
    assert_eq!((rows[3].times.map(f64::round), rows[0].times), (Some(100.0), None));
}

/// Counters over the 20 s of both steps: the values of staging, then those of export.
fn readings(trial: &Trial, counters: &[(&'static str, &'static str, [f64; 2])]) -> ReadingTable {
    let mut run = Simulated { rates: vec![100.0; 20], ..step("staging", 100.0) };
    for (metric, instance, [staging, export]) in counters {
        let values: Vec<f64> = (0..20).map(|second| if second < 10 { *staging } else { *export }).collect();
        run = run.counter(metric, instance, &values);
    }
    run.run(trial.clone()).readings
}

/// The threads of an engine with one active thread, with its share of CPU time and of flush waits.
fn one_thread(busy: [f64; 2], flush: [f64; 2]) -> Vec<(&'static str, &'static str, [f64; 2])> {
    vec![
        ("process.threads", "metadir", [1.0; 2]),
        ("process.busy_cpus", "metadir", busy),
        ("process.busiest_thread_cpus", "metadir", busy),
        ("process.running_threads", "metadir", busy),
        ("process.run_queue_length", "metadir", [0.0; 2]),
        ("process.lock_wait_threads", "metadir", [0.0; 2]),
        ("process.flush_wait_threads", "metadir", flush),
    ]
}

/// An engine with one thread, with its share of CPU time and of flush waits.
fn engine(busy_cpus: f64, flush: f64) -> Study {
    let mut study = study();
    for of in &mut study.runs {
        of.readings = readings(&of.run.trial, &one_thread([busy_cpus; 2], [flush; 2]));
    }
    study
}

#[test]
fn what_limits_an_engine_of_one_thread_is_named() {
    let state = |busy_cpus, flush, resource: &str| {
        let document = result(&engine(busy_cpus, flush));
        assert_eq!(limit(&document), resource);
        match &rests_on(&document).claim {
            Claim::Service(claim) => (claim.at_work, claim.state.clone()),
            other => panic!("{other:?}"),
        }
    };
    let busy =
        ServiceState::SingleThread { busiest_thread_cpus: 0.97, ready_threads: 0.0, lock_threads: None };
    assert_eq!(state(0.97, 0.02, "single thread of metadir"), (1.0, busy));
    let waiting = ServiceState::Files { threads: 0.75, flushes: true, limit: None, serial_flushes: None };
    assert_eq!(state(0.25, 0.75, "disk of metadir (flushes)"), (1.0, waiting));
}

/// Staging waits for flushes, then export uses the CPU; the disk is busy with flushes, then with writes.
fn shifting() -> Study {
    let mut study = study();
    for of in &mut study.runs {
        let mut counters = one_thread([0.25, 0.97], [0.75, 0.02]);
        counters.extend([
            ("disk.queue_length", "vda", [0.72, 0.31]),
            ("disk.utilization_share", "vda", [0.71, 0.31]),
            ("disk.flushes_per_s", "vda", [500.0, 10.0]),
            ("disk.flush_s", "vda", [0.0014, 0.001]),
            ("disk.writes_per_s", "vda", [100.0, 300.0]),
            ("disk.write_s", "vda", [0.0001, 0.001]),
            ("filesystem.used_share", "/", [0.99; 2]),
        ]);
        of.readings = readings(&of.run.trial, &counters);
    }
    study
}

/// Each step with its limit, the used share of it, and the next resource with its share.
fn limits(of: &Configuration) -> Vec<(String, String, Option<f64>, String, f64)> {
    let step = |step: &model::result::StepVerdict| {
        let next = step.next.as_ref().unwrap();
        let name = |resource: Option<&model::Resource>| resource.map(ToString::to_string).unwrap_or_default();
        let limit = name(step.verdict.resource());
        (step.operation.to_string(), limit, step.used, name(next.resource.as_ref()), next.share)
    };
    of.steps.iter().map(step).collect()
}

#[test]
fn each_step_has_a_verdict_of_its_own_time() {
    let document = result(&shifting());
    let flushes = "disk of metadir (flushes)".to_string();
    let (thread, metadir) = ("single thread of metadir".to_string(), "single thread of metadir".to_string());
    for of in &document.configurations {
        assert_eq!(
            limits(of),
            [
                ("staging".to_string(), flushes.clone(), Some(0.75), metadir.clone(), 0.25),
                ("export".to_string(), thread.clone(), Some(0.97), "disk vda (writes)".to_string(), 0.31),
            ]
        );
        let longest = of.longest_step().unwrap();
        assert_eq!(of.verdict.as_ref(), Some(&longest.verdict));
        assert_eq!((of.used, of.next.as_ref()), (longest.used, longest.next.as_ref()));
    }
    // A claim about staging says nothing about export.
    let claims: Vec<(&str, String, usize)> = document
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Limits)
        .map(|finding: &Finding| {
            let step = finding.step.as_ref().map_or("", |step| step.as_str());
            (step, finding.about.as_ref().unwrap().to_string(), finding.of_trials)
        })
        .collect();
    assert_eq!(claims, [("staging", flushes, 6), ("export", thread, 6)]);
    let evidence = &document.findings.iter().find(|one| one.kind == FindingKind::Limits).unwrap().evidence;
    assert_eq!((evidence[0].begin_s, evidence[0].end_s), (1.0, 11.0));
}

#[test]
fn the_verdict_is_that_of_the_step_that_took_longest() {
    for (longer, resource) in
        [("staging", "disk of metadir (flushes)"), ("export", "single thread of metadir")]
    {
        let mut study = shifting();
        for of in &mut study.runs {
            // The other step takes two seconds less.
            of.intervals.retain(|one| {
                one.operation == longer || one.begin_s < 9.0 || (11.0..19.0).contains(&one.begin_s)
            });
        }
        let document = result(&study);
        assert_eq!(limit(&document), resource);
        let of = &document.configurations[0];
        assert_eq!(of.longest_step().map(|step| step.operation.as_str()), Some(longer));
        assert_eq!(of.verdict.as_ref(), Some(&document.verdict));
    }
}

#[test]
fn a_step_that_did_nothing_is_in_no_table() {
    let mut study = shifting();
    for of in &mut study.runs {
        // Operations that became due while nothing completed are assigned to the first operation.
        let mut idle = of.intervals[0].clone();
        (idle.operation, idle.completed, idle.issued, idle.offered) =
            ("synchronization".into(), 0, Some(0), Some(3));
        of.intervals.insert(0, idle);
        of.run.operations.insert(1, "synchronization".into());
    }
    let document = result(&study);
    let names = |trial: &model::result::TrialResult| {
        trial.operations.iter().map(|operation| operation.name.to_string()).collect::<Vec<String>>()
    };
    assert!(document.trials.iter().all(|trial| names(trial) == ["staging", "export", "all"]));
    for of in &document.configurations {
        let steps: Vec<&str> = of.steps.iter().map(|step| step.operation.as_str()).collect();
        assert_eq!(steps, ["staging", "export"]);
        assert!(of.medians.keys().all(|metric| !metric.starts_with("synchronization")), "{:?}", of.medians);
        assert!(of.costs.iter().all(|cost| !cost.operation.is("synchronization")));
    }
    assert!(document.comparison.iter().all(|row| !row.metric.starts_with("synchronization")));
    assert!(document.curves.iter().all(|curve| curve.operation.as_deref() != Some("synchronization")));
}

#[test]
fn a_step_without_samples_is_not_judged_by_those_of_another() {
    let mut study = shifting();
    for of in &mut study.runs {
        let table = &mut of.readings;
        for column in &mut table.values {
            column.truncate(10);
        }
        table.begin_s.truncate(10);
        table.end_s.truncate(10);
    }
    let of = &result(&study).configurations[0];
    assert_eq!(
        of.steps[0].verdict.resource().map(ToString::to_string).as_deref(),
        Some("disk of metadir (flushes)")
    );
    assert_eq!(of.steps[1].next, None);
    let Verdict::Inconclusive { reason: InconclusiveReason::NothingSaturated { .. }, lacks } =
        &of.steps[1].verdict
    else {
        panic!("{:?}", of.steps[1].verdict)
    };
    assert_eq!(lacks, &[Missing::SamplesOfStep]);
}

/// An engine and another service, with these counters all the time.
fn behind(counters: &[(&'static str, &'static str, f64)]) -> model::result::ResultDocument {
    let mut study = study();
    for of in &mut study.runs {
        let both_steps = Simulated { rates: vec![100.0; 20], ..step("staging", 100.0) };
        let run =
            counters.iter().fold(both_steps, |run, (metric, of, value)| run.counter(metric, of, &[*value]));
        of.readings = run.run(of.run.trial.clone()).readings;
    }
    result(&study)
}

/// The counters of metadir during an export to a directory over four connections.
const EXPORTING: [(&str, &str, f64); 9] = [
    ("process.threads", "metadir", 6.0),
    ("process.busy_cpus", "metadir", 0.06),
    ("process.system_cpus", "metadir", 0.03),
    ("process.running_threads", "metadir", 0.49),
    ("process.run_queue_length", "metadir", 0.13),
    ("process.lock_wait_threads", "metadir", 2.26),
    ("process.same_lock_wait_threads", "metadir", 1.13),
    ("process.peer_wait_threads", "metadir", 3.24),
    ("process.peer_wait_threads", "metadir to 127.0.0.1:3389", 3.24),
];

/// Export to slapd with a flush for each entry, 1,400 per second; without flushes 8,600. A lock lets one
/// thread of its pool flush after the other. So none of them is always busy, and the rest of the pool waits
/// at one address.
#[test]
fn flushes_that_go_round_a_pool_are_named() {
    let slapd = [
        ("process.threads", "target", 18.0),
        ("process.busy_cpus", "target", 0.72),
        ("process.system_cpus", "target", 0.48),
        ("process.running_threads", "target", 0.68),
        ("process.run_queue_length", "target", 0.1),
        ("process.busiest_thread_cpus", "target", 0.05),
        ("process.flush_wait_threads", "target", 0.46),
        ("process.lock_wait_threads", "target", 15.7),
        ("process.same_lock_wait_threads", "target", 14.9),
        ("process.event_wait_threads", "target", 1.0),
        ("process.accept_queue_connections", "target", 0.0),
        ("disk.queue_length", "vda", 2.0),
        ("disk.flushes_per_s", "vda", 2900.0),
        ("disk.flush_s", "vda", 0.0002),
    ];
    let document = behind(&[&EXPORTING[..], &slapd].concat());
    assert_eq!(limit(&document), "disk of target (flushes)", "{:?}", document.findings);
    let Claim::Service(claim) = &rests_on(&document).claim else { panic!() };
    assert!(matches!(claim.state, ServiceState::Files { flushes: true, .. }), "{:?}", claim.state);
}

/// A thread with a single sample seems to do the same all the time: nothing follows from it.
#[test]
fn a_thread_that_was_seen_once_is_no_stage() {
    let seen_once = |run: Simulated| {
        let mut values = vec![f64::NAN; 20];
        values[7] = 1.0;
        let flush = run.counter("process.thread_flush_wait_share", "target thread slapd 6", &values);
        values[7] = 0.05;
        flush.counter("process.thread_cpus", "target thread slapd 6", &values)
    };
    let mut study = study();
    for of in &mut study.runs {
        let both_steps = Simulated { rates: vec![100.0; 20], ..step("staging", 100.0) };
        let target = [
            ("process.threads", 18.0),
            ("process.busy_cpus", 0.3),
            ("process.system_cpus", 0.1),
            ("process.running_threads", 0.3),
            ("process.run_queue_length", 0.0),
            ("process.flush_wait_threads", 0.05),
            ("process.lock_wait_threads", 16.0),
            ("process.event_wait_threads", 1.0),
        ];
        let run =
            target.iter().fold(both_steps, |run, (metric, value)| run.counter(metric, "target", &[*value]));
        let run = EXPORTING.iter().fold(run, |run, (metric, of, value)| run.counter(metric, of, &[*value]));
        of.readings = seen_once(run).run(of.run.trial.clone()).readings;
    }
    assert_eq!(limit(&result(&study)), "downstream 127.0.0.1:3389");
}

/// Staging into PostgreSQL, 820/s; if it answers before the flush, 980/s. Each object has a flush, but kernel
/// time includes other calls: the busiest backend uses the CPU. Its idle background processes are not
/// headroom, and a metadir thread that waits for the work of another one does not wait for a lock.
#[test]
fn a_backend_that_computes_is_not_taken_for_its_flushes() {
    let document = behind(&[
        ("process.threads", "metadir", 1.9),
        ("process.busy_cpus", "metadir", 0.4),
        ("process.system_cpus", "metadir", 0.31),
        ("process.busiest_thread_cpus", "metadir", 0.39),
        ("process.running_threads", "metadir", 0.53),
        ("process.run_queue_length", "metadir", 0.03),
        ("process.lock_wait_threads", "metadir", 0.6),
        ("process.same_lock_wait_threads", "metadir", 0.6),
        ("process.peer_wait_threads", "metadir", 0.64),
        ("process.peer_wait_threads", "metadir to 127.0.0.1:5432", 0.64),
        ("process.thread_cpus", "metadir thread metadir", 0.39),
        ("process.thread_peer_wait_share", "metadir thread metadir", 0.64),
        ("process.threads", "target", 8.0),
        ("process.busy_cpus", "target", 0.65),
        ("process.system_cpus", "target", 0.33),
        ("process.busiest_thread_cpus", "target", 0.64),
        ("process.running_threads", "target", 0.63),
        ("process.run_queue_length", "target", 0.01),
        ("process.flush_wait_threads", "target", 0.065),
        ("process.lock_wait_threads", "target", 0.0),
        ("process.event_wait_threads", "target", 6.16),
        ("process.thread_cpus", "target thread postgres 2", 0.645),
        ("process.thread_ready_share", "target thread postgres 2", 0.013),
        ("process.thread_flush_wait_share", "target thread postgres 2", 0.066),
        ("process.thread_idle_share", "target thread postgres 2", 0.164),
        ("disk.queue_length", "vda", 0.5),
        ("disk.flushes_per_s", "vda", 890.0),
        ("disk.flush_s", "vda", 0.0001),
    ]);
    assert_eq!(limit(&document), "single thread of target", "{:?}", document.findings);
    let about = |class| {
        document.findings.iter().any(|finding| finding.about.as_ref().is_some_and(|of| of.class == class))
    };
    assert!(!about(model::ResourceClass::WorkerPool) && !about(model::ResourceClass::Lock));
}
