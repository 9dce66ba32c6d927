//! Operations that were due in the measured time and never ended: nothing that is said of the system is better than they allow.

use model::claim::LoadSweep;
use model::result::{Answer, CurvePoint, GoalLine, ResultDocument};
use model::study::new_histogram;
use model::verdict::{InconclusiveReason, UnsaturatedReason};
use model::{
    Claim, DesignKind, Due, Goal, Interval, LatencySummary, Missing, Phase, Process, Profile, Shape, Study,
    Times, Treatment, Verdict, quantity,
};

use super::services::service;
use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};

/// Seconds for which operations in flight are waited for.
const WAIT_S: f64 = 30.0;

/// A service that answers `rates` in the intervals, and from then on nothing.
fn silent(shape: Shape, rates: &[f64]) -> Simulated {
    let mut run = Simulated::of(shape, rates[0], 2.0).http();
    run.rates = rates.to_vec();
    run
}

/// Sets what became of the operations that were due: `never` were due at these times, seconds since the start of the measured
/// time, and never ended; those from `unsent` on were not sent.
fn censor(study: &mut Study, at: usize, never: &[f64], unsent: usize) {
    let record = &mut study.runs[at];
    let (begin_s, end_s) = (record.intervals[0].begin_s, record.intervals[record.intervals.len() - 1].end_s);
    let operation = record.intervals[0].operation.clone();
    for interval in &mut record.intervals {
        interval.due = Some(Due { ended: interval.completed, failed: interval.failed, ..Due::default() });
        if interval.completed == 0 {
            (interval.response, interval.service) = (LatencySummary::ABSENT, LatencySummary::ABSENT);
        }
    }
    let count = never.len() as u64;
    let due =
        Due { censored: count, unsent: (never.len() - unsent.min(never.len())) as u64, ..Due::default() };
    record.intervals.push(Interval {
        begin_s: end_s,
        end_s: end_s + WAIT_S,
        phase: Phase::CoolDown,
        load: record.intervals[0].load,
        operation: operation.clone(),
        offered: Some(0),
        issued: Some(0),
        completed: 0,
        late: Some(0),
        failed: 0,
        bytes: 0,
        concurrency: 0.0,
        response: LatencySummary::ABSENT,
        service: LatencySummary::ABSENT,
        due: Some(due),
    });
    let mut times = Times::default();
    for (place, due_s) in never.iter().enumerate() {
        let until_s = if place < unsent { end_s + WAIT_S } else { end_s };
        let waited_ns = ((until_s - begin_s - due_s) * 1e9) as u64;
        times.response.record(waited_ns).unwrap();
        if place < unsent {
            times.service.record(waited_ns).unwrap();
        }
    }
    let completed: u64 = record.intervals.iter().map(|interval| interval.completed).sum();
    let histograms = record.histograms.get_mut(&operation).unwrap();
    histograms.censored = (count > 0).then(|| Box::new(times));
    if completed == 0 {
        (histograms.response, histograms.service, histograms.lag) =
            (new_histogram(), new_histogram(), new_histogram());
    }
}

fn document(run: &Simulated, never: &[f64], unsent: usize) -> ResultDocument {
    document_with_goals(run, never, unsent, &[])
}

fn document_with_goals(run: &Simulated, never: &[f64], unsent: usize, goals: &[&str]) -> ResultDocument {
    let mut study = single(run);
    censor(&mut study, 0, never, unsent);
    let plan = study.plan.as_mut().unwrap();
    plan.experiment.goals = goals.iter().map(|goal| Goal::parse(goal, &["get"]).unwrap()).collect();
    result(&study)
}

fn open_steps(rates: &[f64]) -> Shape {
    Shape::Open { rate_per_s: Profile::Steps(rates.to_vec()), arrivals: Process::Constant }
}

fn sweep(document: &ResultDocument) -> &LoadSweep {
    let claims = document.findings.iter().find_map(|finding| match &finding.claim {
        Claim::LoadSweep(sweep) => Some(sweep),
        _ => None,
    });
    claims.unwrap()
}

#[test]
fn a_distribution_without_observations_has_no_value() {
    let run = silent(Shape::closed(4), &[0.0; 12]);
    let document = document(&run, &[], 0);
    let whole = document.trials[0].whole().unwrap();
    for summary in [whole.response_ms, whole.service_ms, whole.lag_ms] {
        for part in LatencySummary::PARTS {
            assert_eq!(summary.bounded(part), None, "{part}");
        }
    }
    let text = serde_json::to_string(&document.trials[0].operations).unwrap();
    assert!(text.contains(r#""mean":null"#) && !text.contains(r#""mean":0.0"#), "{text}");
}

#[test]
fn a_step_that_was_not_answered_has_no_good_times() {
    // 50/s and 100/s are answered; of 150/s nothing is, and what was due in the last second of 100/s is not either.
    let mut rates = [[50.0; 4], [100.0; 4], [0.0; 4]].concat();
    rates[7] = 0.0;
    let mut run = silent(open_steps(&[50.0, 100.0, 150.0]), &rates);
    run.offered_per_s = 150.0;
    let never: Vec<f64> = (0..100)
        .map(|at| 7.005 + f64::from(at) / 100.0)
        .filter(|due_s| *due_s < 7.99)
        .chain((0..600).map(|at| 8.05 + f64::from(at) / 152.0))
        .collect();
    let document = document(&run, &never, never.len());
    let points = &document.curves[0].points;
    let bounds = |point: &CurvePoint| ["mean", "p99"].map(|part| point.at_least.has(part));
    assert_eq!(points.iter().map(bounds).collect::<Vec<_>>(), [[false; 2], [true; 2], [true; 2]]);
    assert!((1.0..3.0).contains(&points[0].mean_ms[0]), "{points:?}");
    // A quarter of the operations of the second step waited for more than 34 s.
    assert!(points[1].mean_ms[0] > 8_000.0 && points[1].p99_ms[0] > 34_000.0, "{points:?}");
    assert!(points[2].mean_ms[0] > 30_000.0 && points[2].rate_per_s[0] == 0.0, "{points:?}");
    // The system stopped answering: this is not where throughput stops growing.
    let sweep = sweep(&document);
    assert_eq!(sweep.stopped.as_ref().map(|of| of.label.as_str()), Some("150/s"));
    assert_eq!((sweep.last.label.as_str(), &sweep.knee), ("100/s", &None));
}

#[test]
fn a_step_of_users_who_wait_for_an_earlier_one_is_not_known() {
    let users = Profile::Steps(vec![1.0, 2.0, 4.0]);
    let shape = Shape::Closed { users, think: 0 };
    let run = silent(shape, &[[400.0; 4], [0.0; 4], [0.0; 4]].concat());
    let document = document(&run, &[4.01, 4.02], 2);
    let points = &document.curves[0].points;
    assert!(points[0].at_least.is_empty() && points[0].mean_ms[0] < 3.0, "{points:?}");
    assert!(points[1].at_least.has("mean") && points[1].mean_ms[0] > 37_000.0, "{points:?}");
    assert!(points[2].mean_ms[0].is_nan() && points[2].p99_ms[0].is_nan(), "{points:?}");
    assert_eq!(sweep(&document).stopped.as_ref().map(|of| of.label.as_str()), Some("2"));
}

#[test]
fn throughput_does_not_stop_growing_where_operations_never_ended() {
    // The freeze begins in the middle of the second step, whose mean rate is then that of the first.
    let shape = Shape::Closed { users: Profile::Steps(vec![1.0, 2.0, 4.0]), think: 0 };
    let run = silent(shape, &[[700.0; 4], [1400.0, 1400.0, 0.0, 0.0], [0.0; 4]].concat());
    let document = document(&run, &[6.01, 6.02, 8.01, 8.02], 4);
    let sweep = sweep(&document);
    assert_eq!(sweep.stopped.as_ref().map(|of| of.label.as_str()), Some("2"));
    assert_eq!((sweep.last.label.as_str(), &sweep.knee), ("1", &None));
}

#[test]
fn one_lost_operation_of_many_hides_no_knee() {
    let shape = Shape::Closed { users: Profile::Steps(vec![32.0, 64.0, 128.0]), think: 0 };
    let mut run = silent(shape, &[[14_000.0; 4], [28_000.0; 4], [28_200.0; 4]].concat());
    run.in_flight = 60.0;
    for lost in [vec![], vec![9.01], vec![5.01, 9.01]] {
        let document = document(&run, &lost, lost.len());
        let sweep = sweep(&document);
        assert_eq!(sweep.stopped, None, "{lost:?}");
        assert_eq!(sweep.knee.as_ref().map(|of| of.label.as_str()), Some("64"), "{lost:?}");
        assert_eq!(sweep.last.at_least.has("mean"), !lost.is_empty(), "{lost:?}");
    }
}

#[test]
fn what_ended_after_the_last_step_is_among_its_times() {
    let mut study = single(&silent(open_steps(&[50.0, 100.0]), &[[50.0; 6], [100.0; 6]].concat()));
    censor(&mut study, 0, &[], 0);
    let late = study.runs[0].intervals.last_mut().unwrap();
    late.due = Some(Due { ended: 200, ..Due::default() });
    late.response = LatencySummary { mean: 5_000.0, p99: 6_000.0, ..LatencySummary::ABSENT };
    let document = result(&study);
    let points = &document.curves[0].points;
    assert!(points[0].mean_ms[0] < 3.0 && points[1].mean_ms[0] > 1_000.0, "{points:?}");
}

#[test]
fn unsent_operations_belong_to_the_step_in_which_they_were_due() {
    let run = silent(open_steps(&[50.0, 100.0, 150.0]), &[[50.0; 4], [100.0; 4], [90.0; 4]].concat());
    let never: Vec<f64> = (0..100).map(|at| 10.0 + f64::from(at) / 60.0).collect();
    let document = document(&run, &never, 0);
    let bounds: Vec<bool> =
        document.curves[0].points.iter().map(|point| point.at_least.has("mean")).collect();
    assert_eq!(bounds, [false, false, true]);
}

#[test]
fn a_goal_on_times_that_nothing_has_is_missed() {
    // Everything that was due was never sent, so that nothing has a service time.
    let run =
        silent(Shape::Open { rate_per_s: Profile::Constant(100.0), arrivals: Process::Constant }, &[0.0; 12]);
    let never: Vec<f64> = (0..1000).map(|at| f64::from(at) / 100.0).collect();
    let goals = [
        "service.p95<=100ms",
        "service.max<=100ms",
        "lag.p99<=1s",
        "get.service.mean<=1s",
        "response.p95<=100ms",
    ];
    let document = document_with_goals(&run, &never, 0, &goals);
    let judged = document.goal.unwrap();
    let is_missed = |line: &GoalLine| !line.met && !line.undecided;
    for line in judged.goals.iter().filter(|line| !line.goal.contains("failed")) {
        assert!(is_missed(line), "{line:?}");
        assert_eq!(line.value.is_some(), line.goal.starts_with("response"), "{line:?}");
    }
    assert_eq!(judged.missed_and_undecided().0, goals.len());
}

#[test]
fn an_operation_without_a_service_time_is_not_hidden_by_another_one() {
    let run = silent(Shape::closed(4), &[100.0; 12]);
    let mut study = single(&run);
    censor(&mut study, 0, &[], 0);
    // A second operation, of which nothing was sent.
    let record = &mut study.runs[0];
    let mut times = Times::default();
    times.response.record_n(5_000_000_000, 50).unwrap();
    let other = model::OperationHistograms { censored: Some(Box::new(times)), ..Default::default() };
    record.histograms.insert("post".into(), other);
    record.run.operations.push("post".into());
    let late = record.intervals.last().unwrap().clone();
    let due = Some(Due { censored: 50, unsent: 50, ..Due::default() });
    record.intervals.push(Interval { operation: "post".into(), due, ..late });
    study.plan.as_mut().unwrap().experiment.goals = vec![Goal::parse("service.p95<=100ms", &[]).unwrap()];
    let goal = result(&study).goal.unwrap();
    assert!(!goal.met && !goal.goals[0].undecided, "{goal:?}");
}

/// 32 users whose service has idle threads: that is what "the load was the limit" rests on.
fn with_room(rates: &[f64]) -> Simulated {
    let mut run = service(64.0, 185.0, &[("process.accept_wait_threads", 63.8)]);
    run.rates = rates.to_vec();
    run
}

#[test]
fn the_load_is_not_the_limit_of_a_system_that_stopped_answering() {
    let users = |due_s: f64| vec![due_s; 32];
    let stopped = |rates: &[f64], due_s: f64| {
        let verdict = document(&with_room(rates), &users(due_s), 32).verdict;
        match verdict {
            Verdict::Inconclusive {
                reason: InconclusiveReason::StoppedAnswering { at_s, in_flight, .. },
                lacks,
            } => {
                assert_eq!(lacks, [Missing::Answers]);
                Some((at_s, in_flight))
            }
            Verdict::NotSaturated { carried: UnsaturatedReason::AllThatUsersAsked { .. } } => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(stopped(&[[185.0; 10], [0.0; 10]].concat(), 10.0), Some((10.0, 32.0)));
    assert_eq!(stopped(&[[185.0; 17].to_vec(), vec![0.0; 3]].concat(), 17.0), Some((17.0, 32.0)));
    // It answered until the end.
    let verdict = document(&with_room(&[185.0; 20]), &[], 0).verdict;
    assert!(matches!(verdict, Verdict::NotSaturated { .. }), "{verdict:?}");
    // It paused, and answered again.
    let rates = [[185.0; 8].to_vec(), vec![0.0; 4], vec![185.0; 8]].concat();
    let verdict = document(&with_room(&rates), &[], 0).verdict;
    let is_stop = |verdict: &Verdict| {
        matches!(verdict, Verdict::Inconclusive { reason: InconclusiveReason::StoppedAnswering { .. }, .. })
    };
    assert!(!is_stop(&verdict), "{verdict:?}");
    // The timeouts of the client are no answers.
    let mut study = single(&with_room(&[185.0; 20]));
    for interval in study.runs[0].intervals.iter_mut().skip(6) {
        (interval.completed, interval.failed) = (32, 32);
        interval.response.max = 1000.0;
    }
    let verdict = result(&study).verdict;
    assert!(is_stop(&verdict), "{verdict:?}");
}

#[test]
fn users_that_wait_for_ever_forbid_a_verdict_on_the_others() {
    // 24 of 32 users wait from the second second on; the others go on.
    let verdict = document(&with_room(&[185.0; 20]), &[2.0; 24], 24).verdict;
    let Verdict::Inconclusive { reason: InconclusiveReason::NeverAnswered { operations, share }, .. } =
        verdict
    else {
        panic!("{verdict:?}")
    };
    assert!(operations == 24 && (0.6..0.75).contains(&share), "{operations} {share}");
}

#[test]
fn a_stop_that_does_not_end_is_no_pause() {
    // Three pauses of a second, and then nothing but timeouts.
    let still: Vec<(f64, f64)> = [2.0, 4.0, 6.0].map(|begin| (begin, begin + 0.6)).to_vec();
    let run = Simulated::pausing((64, 128), 80.0, &still, 0.05, 30.0);
    let pauses = |document: &ResultDocument| {
        document.findings.iter().find_map(|finding| match &finding.claim {
            Claim::Pauses(claim) => Some((claim.count, claim.lost_share)),
            _ => None,
        })
    };
    let before = pauses(&result(&single(&run))).unwrap();
    assert_eq!(before.0, 3);
    let mut study = single(&run);
    for (at, interval) in study.runs[0].intervals.iter_mut().enumerate().skip(160) {
        let timeouts = if at % 60 == 0 { 64 } else { 0 };
        (interval.completed, interval.failed) = (timeouts, timeouts);
        interval.response.max = if timeouts > 0 { 3_000.0 } else { f64::NAN };
    }
    // Of the 30 s, only the pauses are counted as such.
    let after = pauses(&result(&study));
    assert!(after.is_none_or(|(count, lost)| count == 3 && lost < 0.1), "{after:?}");
}

#[test]
fn a_comparison_marks_the_side_of_which_only_a_bound_is_known() {
    let axis = vec![vary("workload.outstanding", Some(1), &[2])];
    let mut study = carry_out(experiment(axis, DesignKind::OneFactorAtATime, 2), |treatment| {
        Simulated::of(Shape::closed(level(treatment, "workload.outstanding", 1.0) as u64), 100.0, 5.0)
    });
    let is_base = |treatment: &Treatment| treatment.changes().is_empty();
    for at in 0..study.runs.len() {
        let never = if is_base(&study.runs[at].run.trial.treatment) { vec![] } else { vec![1.0; 300] };
        censor(&mut study, at, &never, never.len());
    }
    let document = result(&study);
    let row = document.comparison.iter().find(|row| row.metric == "response_ms.mean").unwrap();
    assert_eq!((row.baseline_is_bound, row.treatment_is_bound, row.answer), (false, true, Answer::CantTell));
    let [baseline, treatment] = [0, 1].map(|at| document.configurations[at].at_least.clone());
    assert!(baseline.is_empty() && treatment.contains("response_ms.mean"), "{treatment:?}");
}

#[test]
fn an_open_load_whose_arrivals_end_early_was_offered_while_they_came() {
    let shape = Shape::Open { rate_per_s: Profile::Constant(50.0), arrivals: Process::Constant };
    let mut study = single(&silent(shape, &[50.0; 12]));
    censor(&mut study, 0, &[], 0);
    study.runs[0].run.asked.insert("workload.operations".into(), model::Level::Count(200));
    for interval in study.runs[0].intervals.iter_mut().skip(4).take(8) {
        (interval.offered, interval.issued, interval.completed) = (Some(0), Some(0), 0);
        interval.due = Some(Due::default());
    }
    let document = result(&study);
    assert_eq!(document.trials[0].offered_s, Some(4.0));
    let Verdict::NotSaturated { carried: UnsaturatedReason::Offered { rate_per_s, .. } } = document.verdict
    else {
        panic!("{:?}", document.verdict)
    };
    assert_eq!(quantity::three_figures(rate_per_s), "50.0");
}

#[test]
fn what_used_up_its_operations_in_the_warm_up_says_so() {
    let nothing = |used_up: bool| {
        let mut study = single(&silent(Shape::closed(4), &[0.0; 12]));
        if used_up {
            study.runs[0].run.asked.insert("workload.operations".into(), model::Level::Count(10));
            study.runs[0].intervals[0].phase = Phase::WarmUp;
            study.runs[0].intervals[0].issued = Some(10);
        }
        let document = result(&study);
        let Verdict::Inconclusive { lacks, .. } = document.verdict else { panic!("{:?}", document.verdict) };
        (
            lacks,
            document.trials[0].doubts.iter().map(|doubt| doubt.text.clone()).collect::<Vec<_>>().join("; "),
        )
    };
    let (lacks, doubts) = nothing(true);
    assert_eq!(lacks, [Missing::MoreOperations]);
    assert!(doubts.contains("all 10 operations were issued before the measured time"), "{doubts}");
    let (lacks, doubts) = nothing(false);
    assert_eq!(lacks, [Missing::Answers]);
    assert!(doubts.contains("1 operation waited for an answer until the end"), "{doubts}");
}

#[test]
fn the_share_of_failures_is_that_of_the_judged_operations() {
    let run =
        silent(Shape::Open { rate_per_s: Profile::Constant(50.0), arrivals: Process::Constant }, &[50.0; 12]);
    let mut study = single(&run);
    censor(&mut study, 0, &[], 0);
    // 400 more were due, and failed while they were waited for.
    let late = study.runs[0].intervals.last_mut().unwrap();
    late.due = Some(Due { ended: 400, failed: 400, ..Due::default() });
    let document = result(&study);
    let whole = document.trials[0].whole().unwrap();
    assert_eq!((whole.failed, whole.failed_share()), (0, Some((0.4, 0.4))));
    assert!(
        document.trials[0]
            .doubts
            .iter()
            .any(|doubt| doubt.text.starts_with("400 of 1,000 operations failed (40 %)"))
    );
    let Verdict::Inconclusive { reason, .. } = document.verdict else { panic!("{:?}", document.verdict) };
    assert_eq!(reason, InconclusiveReason::TooManyFailed);
}
