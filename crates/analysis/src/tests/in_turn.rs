//! Operations that follow one another, as the steps of a synchronization do.

use std::collections::BTreeMap;

use model::claim::ServiceState;
use model::experiment::{FigureName, Published};
use model::{Claim, DesignKind, Detector, Level, RunRecord, SettingPath, Shape, Study, Treatment, Trial};

use super::read::{found, limit, rests_on};
use crate::simulate::{Simulated, carry_out, experiment, level, vary};
use crate::{metric, result};

/// 10 s of a step.
fn step(operation: &'static str, rate: f64) -> Simulated {
    let run = Simulated::of(Shape::closed(1), rate, 1e3 / rate);
    Simulated { workload: "sync", operation, rates: vec![rate; 10], facts: BTreeMap::new(), ..run }
}

/// 10 s of staging at `staging` objects a second, then 10 s of export at `export`.
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
        figures: Vec::new(),
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
    let told: Vec<(&str, f64, Option<f64>)> = trial
        .operations
        .iter()
        .map(|of| (of.name.as_str(), of.rate_per_s.round(), of.busy_s.map(f64::round)))
        .collect();
    assert_eq!(told, [("staging", 1000.0, Some(10.0)), ("export", 50.0, Some(10.0)), ("all", 525.0, None)]);
    assert_eq!(metric(trial, "export.rate_per_s").map(f64::round), Some(50.0));
    assert_eq!(metric(trial, "synchronization.rate_per_s"), None);
    // A step that is slower than the one before is no change of speed, and a long commit no pause.
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
    // Nothing was published of another factor's levels.
    let mut other = study();
    if let Some(plan) = &mut other.plan {
        plan.experiment.published[0].factor = Some(SettingPath("workload.threads".into()));
        plan.experiment.published.truncate(1);
    }
    assert!(result(&other).published.is_empty());
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
        factor: None,
        rates_per_s: BTreeMap::new(),
        figures: vec![(name("export.busy_s"), 1000.0), (name("export.rate_per_s"), 0.5)],
    });
    for of in &mut study.runs {
        // Of two, the one that had more all the time.
        let small = of.run.trial.treatment == Treatment::Baseline;
        let counters = step("staging", 100.0).counter("process.threads", "other", &[1.0]).counter(
            "process.threads",
            "metadir",
            &[if small { 3.0 } else { 5.0 }],
        );
        of.readings = counters.run(of.run.trial.clone()).readings;
    }
    let rows = result(&study).beside;
    let told: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.metric.as_str(), row.instance.as_str())).collect();
    assert_eq!(
        told,
        [
            ("process.threads", "metadir"),
            ("disk.flush_s", ""),
            ("export.busy_s", ""),
            ("export.rate_per_s", "")
        ]
    );
    let measured = |at: usize| {
        let row: &model::result::BesideRow = &rows[at];
        row.measured.iter().map(|figure| figure.value.map(f64::round)).collect::<Vec<_>>()
    };
    assert_eq!(measured(0), [Some(3.0), Some(5.0)]);
    assert_eq!(measured(1), [None, None], "what was not read is no zero");
    assert_eq!(measured(2), [Some(10.0), Some(10.0)]);
    assert_eq!(rows[0].published[0].value, None);
    assert_eq!((rows[2].published[0].value, rows[2].times.map(f64::round)), (Some(1000.0), Some(100.0)));
    assert_eq!((rows[3].times.map(f64::round), rows[0].times), (Some(100.0), None));
}

/// An engine of one thread, that runs so much of the time and waits for flushes for so much.
fn engine(busy_cpus: f64, flush: f64) -> Study {
    let mut study = study();
    for of in &mut study.runs {
        let counters = step("staging", 100.0)
            .counter("process.threads", "metadir", &[1.0])
            .counter("process.busy_cpus", "metadir", &[busy_cpus])
            .counter("process.busiest_thread_cpus", "metadir", &[busy_cpus])
            .counter("process.running_threads", "metadir", &[busy_cpus])
            .counter("process.run_queue_length", "metadir", &[0.0])
            .counter("process.lock_wait_threads", "metadir", &[0.0])
            .counter("process.flush_wait_threads", "metadir", &[flush]);
        of.readings = counters.run(of.run.trial.clone()).readings;
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

/// An engine and the service behind it, with these counters all the time.
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

/// What metadir does that exports to a directory, over four connections.
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

/// Export to slapd that flushes each entry, 1,400 a second; without flushes it does 8,600. A lock lets one thread of its pool
/// after the other flush, so that none of them is always busy, and the rest of the pool waits at one address.
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

/// A thread that was looked at once did the same thing all of that time: nothing follows from it.
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

/// Staging into PostgreSQL, 820/s; when it answers before it flushes, 980/s. Each object has a flush, but the kernel's time goes
/// to other calls too: the busiest backend computes. Its idle background processes are no headroom, and one thread of
/// metadir that waits for another one's work is at no lock.
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
