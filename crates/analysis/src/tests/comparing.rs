//! Tests that comparisons cover the true ratio, and that their answers are right.

use std::collections::BTreeMap;

use model::result::{Answer, ComparisonRow, ResultDocument};
use model::{
    DesignKind, DoubtKind, Ending, Goal, Level, Profile, SettingPath, Shape, Study, Treatment, Variation,
};

use crate::random::Random;
use crate::simulate::{Noise, Simulated, carry_out, experiment, level, single, vary};
use crate::{Side, compare, result};

fn row<'a>(document: &'a ResultDocument, metric: &str) -> &'a ComparisonRow {
    document.comparison.iter().find(|row| row.metric == metric).unwrap()
}

fn has(document: &ResultDocument, kind: DoubtKind) -> bool {
    document.doubts.iter().any(|doubt| doubt.kind == kind)
}

/// An experiment with two configurations on a noisy machine; the throughput of the second one is `ratio`
/// times that of the first.
fn noisy(ratio: f64, replicates: u32, seed: u64) -> Study {
    let factor = vec![vary("workload.threads", Some(1), &[2])];
    let mut plan = experiment(factor, DesignKind::OneFactorAtATime, replicates);
    plan.seed = seed;
    let mut noise = Noise::new(seed ^ 0xABCD, 2 * replicates as usize);
    // Times of half a microsecond keep the histograms small: only rates are examined here.
    let base = Simulated {
        rates: vec![1000.0],
        counters: Vec::new(),
        response_ms: 0.0005,
        lag_ms: 0.0005,
        ..Simulated::closed_disk(8, 1.0, 0.0)
    };
    carry_out(plan, |treatment| {
        let truth = if *treatment == Treatment::Baseline { 1.0 } else { ratio };
        base.clone().times(truth * noise.next())
    })
}

#[test]
fn the_interval_covers_the_true_ratio() {
    // Correlated noise, drift and stalls; 200 experiments. The coverage of a 95 % interval is between 90 and
    // 99 %.
    for replicates in [5, 10] {
        let covered = (0..200)
            .filter(|seed| {
                let document = result(&noisy(2.14, replicates, *seed));
                let row = row(&document, "rate_per_s");
                assert_eq!(row.pairs, replicates);
                row.low.unwrap() <= 2.14 && 2.14 <= row.high.unwrap()
            })
            .count();
        println!("{replicates} replicates: {covered}");
        assert!((180..=198).contains(&covered), "{replicates} replicates: {covered} of 200");
    }
}

#[test]
fn a_large_difference_is_reported_and_none_is_rarely_invented() {
    let answers = |ratio: f64| -> Vec<Answer> {
        (0..50).map(|seed| row(&result(&noisy(ratio, 10, seed)), "rate_per_s").answer).collect()
    };
    assert!(answers(2.14).iter().all(|answer| *answer == Answer::Better));
    assert!(answers(0.5).iter().all(|answer| *answer == Answer::Worse));
    let invented = answers(1.0).iter().filter(|a| matches!(a, Answer::Better | Answer::Worse)).count();
    assert!(invented <= 6, "{invented} of 50 differences that do not exist");
}

/// Two configurations with the given back ends.
fn driven_by(factor: &str, baseline: &str, other: &str) -> Study {
    let varied = match factor {
        "workload.back_end" => Variation {
            factor: SettingPath(factor.into()),
            baseline: Some(Level::Text("io_uring".into())),
            levels: vec![Level::Text("system-calls".into())],
            on: None,
            parameters: BTreeMap::new(),
            line: 0,
        },
        factor => vary(factor, Some(1), &[2]),
    };
    carry_out(experiment(vec![varied], DesignKind::OneFactorAtATime, 2), |treatment| {
        let back_end = if *treatment == Treatment::Baseline { baseline } else { other };
        Simulated::closed_disk(8, 1.0, 0.0).fact("back_end", Level::Text(back_end.into()))
    })
}

#[test]
fn configurations_of_different_back_ends_are_a_doubt_unless_the_back_end_was_varied() {
    for (factor, baseline, other, doubted) in [
        ("workload.threads", "io_uring", "system-calls", true),
        ("workload.threads", "system-calls", "io_uring", true),
        ("workload.threads", "io_uring", "io_uring", false),
        ("workload.back_end", "io_uring", "system-calls", false),
    ] {
        let document = result(&driven_by(factor, baseline, other));
        assert_eq!(has(&document, DoubtKind::BackEndsDiffer), doubted, "{factor} {baseline} {other}");
    }
    let document = result(&driven_by("workload.threads", "io_uring", "system-calls"));
    let doubt = document.doubts.iter().find(|doubt| doubt.kind == DoubtKind::BackEndsDiffer).unwrap();
    assert!(doubt.text.contains("io_uring in baseline; system-calls in threads=2"), "{}", doubt.text);
    // Runs that were not planned together: one of each, with the same settings.
    let study = |back_end: &str| {
        single(&Simulated::closed_disk(8, 1.0, 0.0).fact("back_end", Level::Text(back_end.into())))
    };
    let (ring, calls) = (study("io_uring"), study("system-calls"));
    let side = |label, study| Side { label, study, select: None };
    let compared = |a, b| has(&compare(&[side("a", a), side("b", b)]), DoubtKind::BackEndsDiffer);
    assert!(compared(&ring, &calls) && !compared(&ring, &ring));
}

#[test]
fn what_cannot_be_reported_says_how_many_replicates_would() {
    let document = result(&noisy(1.0, 3, 1));
    let unsure = row(&document, "rate_per_s");
    assert_eq!(unsure.answer, Answer::CantTell);
    assert!(unsure.replicates_to_settle.unwrap() > 3, "{unsure:?}");
    // A difference of 5 % is larger than the smallest relevant one: fewer replicates show it.
    assert!(unsure.replicates_to_show <= unsure.replicates_to_settle, "{unsure:?}");
    assert!(unsure.replicates_to_show.is_some());

    let single = result(&noisy(2.14, 1, 1));
    let unsure = row(&single, "rate_per_s");
    assert_eq!((unsure.answer, unsure.low, unsure.pairs), (Answer::CantTell, None, 1));
    // The baseline ran once more at the end: the ratio is that of the two values beside it.
    let shown = unsure.treatment / unsure.baseline;
    assert!((unsure.ratio / shown - 1.0).abs() < 1e-9, "{unsure:?}");
    assert!(has(&single, DoubtKind::Replication));
    assert!(!has(&document, DoubtKind::Replication));
}

#[test]
fn equal_configurations_are_the_same_when_runs_are_quiet() {
    let plan = experiment(vec![vary("workload.threads", Some(1), &[2])], DesignKind::OneFactorAtATime, 4);
    let mut random = Random::new(1);
    let study = carry_out(plan, |_| Simulated::closed_disk(8, 1.0, 0.0).times(1.0 + 0.002 * random.unit()));
    let document = result(&study);
    assert_eq!(row(&document, "rate_per_s").answer, Answer::Same);
    let metrics: Vec<&str> = document.comparison.iter().map(|row| row.metric.as_str()).collect();
    assert_eq!(
        metrics,
        [
            "rate_per_s",
            "bytes_per_s",
            "response_ms.p50",
            "response_ms.p99",
            "response_ms.p999",
            "response_ms.mean",
            "cpu_us_per_operation"
        ]
    );
    assert_eq!(document.configurations[0].treatment.label, "baseline");
    assert_eq!(document.configurations[1].trials.len(), 4);
    assert!(document.configurations[0].spreads["rate_per_s"] < 0.002);
}

#[test]
fn failures_are_compared_from_their_counts() {
    let plan = experiment(vec![vary("workload.threads", Some(1), &[2])], DesignKind::OneFactorAtATime, 4);
    let study = carry_out(plan, |treatment| {
        let failed_share = if *treatment == Treatment::Baseline { 0.0 } else { 0.02 };
        Simulated { failed_share, ..Simulated::closed_disk(8, 1.0, 0.0) }
    });
    let document = result(&study);
    let row = row(&document, "failed_share");
    assert_eq!((row.answer, row.baseline), (Answer::Worse, 0.0));
    assert!((row.treatment - 0.02).abs() < 1e-9);
    assert!(document.trials[1].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Failures));
}

#[test]
fn a_drifting_baseline_is_a_doubt() {
    let plan = experiment(vec![vary("workload.threads", Some(1), &[2])], DesignKind::OneFactorAtATime, 1);
    let mut done = 0;
    let study = carry_out(plan.clone(), |_| {
        done += 1;
        Simulated::closed_disk(8, 1.0, 0.0).times(1.0 - 0.1 * f64::from(done))
    });
    let document = result(&study);
    let drift = document.doubts.iter().find(|doubt| doubt.kind == DoubtKind::Drift).unwrap();
    assert_eq!(drift.text, "the baseline drifted: 900/s in its first trial, 700/s in its last (-22.2 %)");
    let steady = carry_out(plan, |_| Simulated::closed_disk(8, 1.0, 0.0));
    assert!(!has(&result(&steady), DoubtKind::Drift));
}

#[test]
fn directories_are_compared_without_pairs() {
    let side = |factor: f64, runs: u32| {
        let plan = experiment(Vec::new(), DesignKind::OneFactorAtATime, runs);
        let mut random = Random::new(runs.into());
        let mut study = carry_out(plan, |_| {
            Simulated::closed_disk(8, 1.0, 0.0).times(factor * (1.0 + 0.01 * random.unit()))
        });
        study.directory = format!("runs/{factor}");
        study
    };
    let (a, b) = (side(1.0, 5), side(1.5, 4));
    let sides =
        |a, b| [Side { label: "A", study: a, select: None }, Side { label: "B", study: b, select: None }];
    let document = compare(&sides(&a, &b));
    let rate = row(&document, "rate_per_s");
    assert_eq!((rate.answer, rate.configuration.as_str()), (Answer::Better, "B"));
    assert!(rate.method.contains("not paired") && (rate.ratio - 1.5).abs() < 0.02, "{rate:?}");
    assert!(has(&document, DoubtKind::Replication));
    assert_eq!(document.trials.len(), 9);
    assert_eq!(document.trials[0].trial, "A/001-baseline.r1");
    assert_eq!(document.configurations[0].treatment.label, "A");

    // One run each: a ratio without a claim.
    let (a, b) = (side(1.0, 1), side(1.5, 1));
    let document = compare(&sides(&a, &b));
    let rate = row(&document, "rate_per_s");
    assert_eq!((rate.answer, rate.low), (Answer::CantTell, None));
}

#[test]
fn configurations_of_one_directory_keep_their_pairs() {
    let study = noisy(2.14, 10, 3);
    let side = |label, select| Side { label, study: &study, select: Some(select) };
    let document = compare(&[side("one", "baseline"), side("two", "threads=2")]);
    let rate = row(&document, "rate_per_s");
    assert_eq!((rate.answer, rate.pairs), (Answer::Better, 10));
    assert!(!has(&document, DoubtKind::Replication));
    let missing = compare(&[side("one", "baseline"), side("two", "no such trial")]);
    assert!(missing.comparison.is_empty() && has(&missing, DoubtKind::Replication));
    assert!(compare(&[]).trials.is_empty());
}

#[test]
fn sweeps_become_curves() {
    let axes =
        || vec![vary("workload.outstanding", Some(1), &[8, 2]), vary("workload.threads", Some(1), &[2])];
    let system = |treatment: &Treatment| {
        let depth = level(treatment, "workload.outstanding", 1.0) * level(treatment, "workload.threads", 1.0);
        Simulated::closed_disk(depth as u32, 1.0, 3.0)
    };
    let alone = result(&carry_out(experiment(axes(), DesignKind::OneFactorAtATime, 2), system));
    let curves: Vec<(&str, &str, Vec<&str>)> = alone
        .curves
        .iter()
        .map(|c| (c.factor.as_str(), c.series.as_str(), c.points.iter().map(|p| p.label.as_str()).collect()))
        .collect();
    assert_eq!(
        curves,
        [("workload.outstanding", "", vec!["1", "2", "8"]), ("workload.threads", "", vec!["1", "2"])]
    );
    assert_eq!(alone.curves[0].points[0].replicates, 2);
    assert!((alone.curves[0].points[0].rate_per_s[0] - 250.0).abs() < 1.0);

    let grid = result(&carry_out(experiment(axes(), DesignKind::Grid, 1), system));
    let series: Vec<(&str, &str)> =
        grid.curves.iter().map(|curve| (curve.factor.as_str(), curve.series.as_str())).collect();
    assert_eq!(
        series,
        [
            ("workload.outstanding", "threads=1"),
            ("workload.outstanding", "threads=2"),
            ("workload.threads", "outstanding=1"),
            ("workload.threads", "outstanding=8"),
            ("workload.threads", "outstanding=2"),
        ]
    );
}

#[test]
fn steps_of_load_are_a_curve_inside_the_run() {
    let shape = Shape::Closed { users: Profile::Steps(vec![1.0, 2.0, 4.0]), think: 0 };
    let rates = [100.0, 200.0, 300.0].iter().flat_map(|rate| [*rate; 4]).collect();
    let run = Simulated { shape, rates, ..Simulated::closed_disk(4, 1.0, 0.0) };
    let document = result(&single(&run));
    assert_eq!(document.curves.len(), 1);
    let points: Vec<(f64, f64)> =
        document.curves[0].points.iter().map(|point| (point.level, point.rate_per_s[0])).collect();
    assert_eq!(
        (document.curves[0].factor.as_str(), points),
        ("load", vec![(1.0, 100.0), (2.0, 200.0), (4.0, 300.0)])
    );
}

#[test]
fn goals_are_met_by_every_trial_or_missed() {
    let goals = |texts: &[&str], run: &Simulated| {
        let mut study = single(run);
        let plan = study.plan.as_mut().unwrap();
        plan.experiment.goals = texts.iter().map(|text| Goal::parse(text, &["read"]).unwrap()).collect();
        result(&study).goal
    };
    let run = Simulated::closed_disk(8, 1.0, 0.0);
    assert_eq!(goals(&[], &run), None);
    assert!(goals(&["throughput > 900/s", "read.response.mean < 9ms"], &run).unwrap().met);
    let missed = goals(&["throughput > 900/s", "response.p50 < 1ms"], &run).unwrap();
    assert!(!missed.met && missed.goals[0].met && !missed.goals[1].met);
    // What did not complete decides nothing, whatever it has measured so far.
    for ending in [Ending::Failed("gone".into()), Ending::Running, Ending::Interrupted] {
        for rates in [Vec::new(), run.rates.clone()] {
            let open = Simulated { ending: ending.clone(), rates, ..run.clone() };
            for texts in [["throughput > 900/s"], ["throughput < 900/s"]] {
                let judged = goals(&texts, &open).unwrap();
                assert!(!judged.met && judged.is_undecided(), "{ending:?} {texts:?}: {judged:?}");
                assert_eq!(judged.goals[0].value.is_some(), !open.rates.is_empty());
            }
            assert_eq!(goals(&[], &open), None, "{ending:?}");
        }
    }
}

#[test]
fn planned_trials_that_did_not_run_are_named_and_decide_nothing() {
    let mut planned = experiment(Vec::new(), DesignKind::OneFactorAtATime, 4);
    planned.goals = vec![Goal::parse("throughput > 900/s", &["read"]).unwrap()];
    let mut study = carry_out(planned, |_| Simulated::closed_disk(8, 1.0, 0.0));
    let decisions = study
        .runs
        .iter()
        .map(|record| model::Decision { trial: record.run.trial.clone(), reason: String::new() });
    study.plan.as_mut().unwrap().decisions = decisions.collect();
    let whole = result(&study);
    assert_eq!(whole.unfinished, None);
    assert!(whole.goal.unwrap().met);
    let names = |of: &[&str]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
    // One that was recorded, and is gone.
    let mut lost = study.clone();
    lost.runs.remove(1);
    lost.plan.as_mut().unwrap().enough = Some("all 4 trials are done".into());
    let document = result(&lost);
    let unfinished = document.unfinished.unwrap();
    assert_eq!((unfinished.completed, unfinished.planned), (3, Some(4)));
    assert_eq!((unfinished.not_run, unfinished.lost), (names(&[]), names(&["002-baseline.r2"])));
    assert!(document.goal.unwrap().is_undecided());
    assert!(document.doubts.iter().any(|doubt| doubt.text == "the record of trial 002-baseline.r2 is gone"));
    // Those after a kill; a trial that began and did not complete is in the record.
    study.runs.truncate(2);
    study.plan.as_mut().unwrap().decisions.truncate(2);
    study.runs[1].run.ending = Ending::Running;
    let document = result(&study);
    let unfinished = document.unfinished.unwrap();
    assert_eq!((unfinished.completed, unfinished.planned), (1, Some(4)));
    assert_eq!(
        (unfinished.not_run, unfinished.lost),
        (names(&["003-baseline.r3", "004-baseline.r4"]), names(&[]))
    );
    assert!(document.goal.unwrap().is_undecided());
    assert!(document.doubts.iter().any(|doubt| doubt.text == "1 of 4 planned trials completed"));
    // A missed goal stays one.
    study.plan.as_mut().unwrap().experiment.goals = vec![Goal::parse("throughput < 1/s", &["read"]).unwrap()];
    let goal = result(&study).goal.unwrap();
    assert!(!goal.met && !goal.is_undecided());
}

#[test]
fn a_goal_for_each_operation_names_the_worst_one() {
    let mut study = single(&Simulated::closed_disk(8, 1.0, 0.0));
    let plan = study.plan.as_mut().unwrap();
    plan.experiment.goals = ["failed < 10%", "response.p50 < 1us", "throughput > 1/s", "read.failed < 10%"]
        .map(|text| Goal::parse(text, &["read"]).unwrap())
        .to_vec();
    let of = |study: &model::Study| -> Vec<Option<String>> {
        result(study).goal.unwrap().goals.into_iter().map(|line| line.operation).collect()
    };
    assert_eq!(of(&study), vec![None; 4]);
    let record = &mut study.runs[0];
    let others = record.intervals.iter().map(|interval| model::Interval {
        operation: "write".into(),
        failed: interval.completed / 2,
        ..interval.clone()
    });
    let others: Vec<_> = others.collect();
    record.intervals.extend(others);
    record.run.operations.push("write".into());
    let named = of(&study);
    assert_eq!(named[0].as_deref(), Some("write"));
    assert!(named[1].is_some());
    assert_eq!(named[2..], [None, None]);
}
