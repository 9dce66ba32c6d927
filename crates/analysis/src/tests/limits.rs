//! The search for the limit on simulated systems whose limit is known.

use std::collections::BTreeMap;

use model::design::Next;
use model::limit::{GoalLimit, LimitAnswer, LoadClass, MissReason};
use model::{
    Change, Due, Ending, Experiment, Goal, Interval, Level, Probe, Process, Profile, ResultDocument, SECOND,
    SettingPath, Shape, Study, Times, Treatment, Trial, Variation, Verdict,
};

use crate::law::queue::mmc_response_quantile_s;
use crate::limit::classify::classify;
use crate::random::Random;
use crate::simulate::{Simulated, carry_out, planned, search_for, vary};
use crate::{design, result};

/// The load of a trial as a number.
fn probe_load(probe: &Probe) -> f64 {
    probe.at.level.as_number().unwrap()
}

fn probe(treatment: &Treatment) -> &Probe {
    match treatment {
        Treatment::Probe(probe) => probe,
        other => panic!("{other:?} is no load of a search"),
    }
}

/// The arrivals of a load at a service: the user of each, if users wait for their responses.
enum Source {
    Users { ready: Vec<f64> },
    Rate { random: Random, per_s: f64, next: f64 },
}

impl Source {
    /// When the next operation arrives, and the user who waits for it.
    fn next(&mut self) -> (f64, usize) {
        match self {
            Source::Users { ready } => {
                let user = (0..ready.len()).min_by(|a, b| ready[*a].total_cmp(&ready[*b])).unwrap();
                (ready[user], user)
            }
            Source::Rate { random, per_s, next } => {
                *next += -random.open_unit().ln() / *per_s;
                (*next, 0)
            }
        }
    }

    fn ends(&mut self, user: usize, end: f64) {
        if let Source::Users { ready } = self {
            ready[user] = end;
        }
    }
}

/// A service with `servers` and exponential service times, first come first served, under one load of a search.
pub(super) fn service(probe: &Probe, servers: usize, service_s: f64, seed: u64) -> Simulated {
    let seconds = probe.measure as f64 / SECOND as f64;
    let load = probe_load(probe);
    let (shape, mut source) = match probe.at.level {
        Level::Count(users) => (Shape::closed(users), Source::Users { ready: vec![0.0; users as usize] }),
        _ => (
            Shape::Open { rate_per_s: Profile::Constant(load), arrivals: Process::Poisson },
            Source::Rate { random: Random::new(seed ^ 1), per_s: load, next: 0.0 },
        ),
    };
    let warm_up = 5.0;
    let mut random = Random::new(seed);
    let mut free = vec![0.0_f64; servers];
    let (mut ends, mut offered) = (Vec::new(), 0.0);
    loop {
        let (arrival, user) = source.next();
        if arrival >= warm_up + seconds {
            break;
        }
        let server = (0..servers).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
        let end = arrival.max(free[server]) - service_s * random.open_unit().ln();
        free[server] = end;
        source.ends(user, end);
        offered += f64::from(u8::from(arrival >= warm_up));
        if end >= warm_up && end < warm_up + seconds {
            ends.push((end - warm_up, (end - arrival) * 1e3));
        }
    }
    let mut run = Simulated::of(shape, 0.0, service_s * 1e3);
    run.interval_s = 0.5;
    run.rates = vec![0.0; (seconds / run.interval_s).round() as usize];
    for (end, _) in &ends {
        if let Some(rate) = run.rates.get_mut((end / run.interval_s) as usize) {
            *rate += 1.0 / run.interval_s;
        }
    }
    // In the record, an interval has at least as many offered operations as completed ones.
    let is_carried = ends.len() as f64 > 0.97 * offered;
    run.offered_per_s = if is_carried { 0.0 } else { offered / seconds };
    run.ends = ends;
    run
}

/// A system without noise whose response time is a function of the load.
pub(super) fn exact(probe: &Probe, response_ms: impl Fn(f64) -> f64) -> Simulated {
    let load = probe_load(probe);
    let (shape, rate) = match probe.at.level {
        Level::Count(users) => (Shape::closed(users), load / response_ms(load) * 1e3),
        _ => (Shape::Open { rate_per_s: Profile::Constant(load), arrivals: Process::Constant }, load),
    };
    let mut run = Simulated::of(shape, rate, response_ms(load));
    run.rates = vec![rate; (probe.measure / SECOND) as usize * 10];
    run.interval_s = 0.1;
    run
}

pub(super) fn found(document: &ResultDocument) -> &GoalLimit {
    &document.limit.as_ref().unwrap().configurations[0].goals[0]
}

fn bounds(of: &GoalLimit) -> (f64, f64) {
    assert!(of.meets.is_some() && of.misses.is_some(), "{of:#?}");
    (of.meets.as_ref().unwrap().load, of.misses.as_ref().unwrap().load)
}

/// Carries out a search; `system` gets a different seed for each trial.
pub(super) fn carried_out(
    experiment: &Experiment,
    mut system: impl FnMut(&Probe, u64) -> Simulated,
) -> (Study, ResultDocument) {
    let mut trial = 0;
    let mut study = carry_out(experiment.clone(), |treatment| {
        trial += 1;
        system(probe(treatment), model::random::mix(trial))
    });
    if let Next::Enough(why) = design(experiment).next(&study) {
        study.plan.as_mut().unwrap().enough = Some(why);
    }
    let document = result(&study);
    (study, document)
}

#[test]
fn a_closed_load_without_noise_is_found_exactly() {
    // A mean of 40 ms with 40 users.
    let experiment = search_for(&[("measure", "30s")], &["response.mean <= 40.3ms"]);
    let (study, document) = carried_out(&experiment, |probe, _| exact(probe, |users| users.max(8.0)));
    let of = found(&document);
    assert_eq!((of.answer.clone(), bounds(of)), (LimitAnswer::Found, (40.0, 41.0)));
    assert_eq!(of.misses.as_ref().unwrap().reason, Some(MissReason::Goal));
    assert!(study.runs.len() <= 16, "{} trials", study.runs.len());
    let limit = document.limit.as_ref().unwrap();
    let configuration = &limit.configurations[0];
    assert_eq!(configuration.trials as usize, study.runs.len());
    // Verdict and costs are about the load that misses the goal.
    assert_eq!(document.configurations[0].trials, configuration.at_limit);
    assert!(configuration.at_limit.iter().all(|id| id.contains("closed=41")), "{:?}", configuration.at_limit);
    assert_eq!(document.trials.len(), study.runs.len());
    let loads: Vec<f64> = configuration.points.iter().map(|point| point.load).collect();
    assert!(loads.windows(2).all(|pair| pair[0] < pair[1]) && loads.contains(&64.0), "{loads:?}");
}

/// The rate at which 5 % of the operations take longer than `limit_s`.
fn mmc_rate(servers: u32, service_s: f64, limit_s: f64) -> f64 {
    let (mut low, mut high) = (0.0, f64::from(servers) / service_s * 0.9999);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let is_met = mmc_response_quantile_s(middle, service_s, servers, 0.95).is_some_and(|s| s <= limit_s);
        *(if is_met { &mut low } else { &mut high }) = middle;
    }
    low
}

#[test]
fn the_limit_of_a_noisy_queue_is_in_the_interval() {
    for (servers, seed) in [(1_u32, 1_u64), (1, 2), (4, 3), (4, 4), (16, 5)] {
        let service_s = 0.002 * f64::from(servers);
        let truth = mmc_rate(servers, service_s, 5.0 * service_s);
        let experiment = search_for(
            &[("open", "20/s"), ("arrivals", "poisson"), ("measure", "60s"), ("limit_width", "10%")],
            &[&format!("response.p95 <= {}ms", 5e3 * service_s)],
        );
        let (study, document) = carried_out(&experiment, |probe, trial| {
            service(probe, servers as usize, service_s, seed ^ trial)
        });
        let of = found(&document);
        let (lower, upper) = bounds(of);
        // Unclear loads between the bounds make the answer wider, not wrong.
        assert!(lower <= truth && truth < upper, "{truth} is not in {lower} to {upper}");
        assert!(study.runs.len() <= 60, "{} trials", study.runs.len());
        assert!((upper - lower) / upper < 0.25, "{servers} servers: {lower} to {upper}");
    }
}

/// 409/s where 400/s can be carried: the queue grows by 9/s, each second adds 22.5 ms to the response time.
#[test]
fn a_growing_queue_misses_the_goal_in_one_trial() {
    let (rate, capacity) = (409.0, 400.0);
    let experiment = search_for(&[("open", "20/s")], &["response.p95 <= 200ms"]);
    let at = Change { factor: SettingPath("load.open".into()), level: Level::Rate(rate) };
    let probe = Probe { configuration: Vec::new(), at, measure: 15 * SECOND, warm_up: None };
    let class = |response_ms: fn(f64) -> f64| {
        let mut run = exact(&probe, |_| 40.0);
        run.ends = (0..(15.0 * capacity) as usize)
            .map(|at| at as f64 / capacity)
            .map(|end_s| (end_s, response_ms(end_s)))
            .collect();
        let trial = Trial { number: 1, treatment: Treatment::Probe(probe.clone()), replicate: 1 };
        classify(&[&run.run(trial)], &experiment.limit[0], None).class
    };
    assert_eq!(class(|end_s| 40.0 + 22.5 * (end_s + 2.0)), LoadClass::Misses);
    // What the trial before has left shrinks, and one late burst is no growth.
    assert_ne!(class(|end_s| 400.0 - 27.0 * end_s), LoadClass::Misses);
    assert_eq!(class(|end_s| if (12.0..13.0).contains(&end_s) { 400.0 } else { 40.0 }), LoadClass::Unclear);
}

#[test]
fn a_goal_on_a_part_of_the_operations_is_judged_by_that_part() {
    let at = Change { factor: SettingPath("load.open".into()), level: Level::Rate(400.0) };
    let probe = Probe { configuration: Vec::new(), at, measure: 15 * SECOND, warm_up: None };
    let trial = Trial { number: 1, treatment: Treatment::Probe(probe.clone()), replicate: 1 };
    let mut record = exact(&probe, |_| 40.0).run(trial);
    // A part with the times of its operation.
    let whole = record.intervals[0].operation.clone();
    let part = format!("{whole}:queue");
    record.run.traits.derived.to_mut().push(part.clone().into());
    record.histograms.insert(part.clone(), record.histograms[&whole].clone());
    let parts: Vec<Interval> =
        record.intervals.iter().map(|one| Interval { operation: part.clone(), ..one.clone() }).collect();
    record.intervals.extend(parts);
    for (limit, expected) in [
        (format!("{part}.p95 <= 400ms"), LoadClass::Meets),
        (format!("{part}.p95 <= 20ms"), LoadClass::Misses),
        (format!("{whole}:execute.p95 <= 50ms"), LoadClass::Unclear),
    ] {
        let goal = Goal::parse_among(&limit, &[], true).unwrap();
        assert_eq!(classify(&[&record], &goal, None).class, expected, "{limit}");
    }
}

#[test]
fn operations_that_never_ended_are_no_failures_of_a_search() {
    let at = Change { factor: SettingPath("load.open".into()), level: Level::Rate(400.0) };
    let probe = Probe { configuration: Vec::new(), at, measure: 15 * SECOND, warm_up: None };
    let trial = Trial { number: 1, treatment: Treatment::Probe(probe.clone()), replicate: 1 };
    let run = exact(&probe, |_| 40.0).run(trial);
    let class = |goal: &str, waited_ms: u64, max_failures: f64| {
        let mut record = run.clone();
        for interval in &mut record.intervals {
            interval.due = Some(Due { ended: interval.completed, ..Due::default() });
        }
        let last = record.intervals.last_mut().unwrap();
        last.due = last.due.map(|due| Due { censored: 180, ..due });
        let name = last.operation.clone();
        let mut times = Times::default();
        times.response.record_n(waited_ms * 1_000_000, 180).unwrap();
        record.histograms.get_mut(&name).unwrap().censored = Some(Box::new(times));
        let goal = Goal::parse_among(goal, &[], true).unwrap();
        classify(&[&record], &goal, Some(max_failures)).class
    };
    // 3 % never ended. They may have failed, or not.
    assert_eq!(class("response.p95 <= 300ms", 30_000, 0.01), LoadClass::Unclear);
    assert_eq!(class("response.p95 <= 300ms", 30_000, 0.2), LoadClass::Meets);
    // They took longer than the limit, or it is not known whether they do.
    assert_eq!(class("response.p99 <= 300ms", 30_000, 0.2), LoadClass::Misses);
    assert_eq!(class("response.p99 <= 300ms", 200, 0.2), LoadClass::Unclear);
}

/// Exactly at the limit, half of the trials are on either side of it. Only as many as the confidence level allows may be
/// sure of it, although consecutive operations of a busy queue are correlated.
#[test]
fn a_load_at_the_limit_is_rarely_classified() {
    let (service_s, limit_s) = (0.002, 0.010);
    let load = Level::Rate(mmc_rate(1, service_s, limit_s));
    let experiment = search_for(&[("open", "20/s")], &[&format!("response.p95 <= {}ms", 1e3 * limit_s)]);
    let measured = Probe {
        configuration: Vec::new(),
        at: Change { factor: SettingPath("load.open".into()), level: load },
        measure: 30 * SECOND,
        warm_up: None,
    };
    let classes = (0..200).map(|seed| {
        let run = service(&measured, 1, service_s, model::random::mix(seed));
        let trial = Trial { number: 1, treatment: Treatment::Probe(measured.clone()), replicate: 1 };
        classify(&[&run.run(trial)], &experiment.limit[0], None).class
    });
    let classes: Vec<LoadClass> = classes.collect();
    let count = |class| classes.iter().filter(|one| **one == class).count();
    let (meets, misses) = (count(LoadClass::Meets), count(LoadClass::Misses));
    assert!(meets + misses <= 24, "{meets} meet and {misses} miss, of 200");
    assert!(meets + misses > 0, "an interval that is never decided is too wide");
}

#[test]
fn a_planted_capacity_is_found_within_three_percent() {
    // 8 servers of 10 ms: 800/s. An open load beyond it grows a queue without an end.
    for seed in 0..4 {
        let experiment = search_for(&[("open", "100/s"), ("measure", "30s")], &["response.p95 <= 500ms"]);
        let (_, document) = carried_out(&experiment, |probe, trial| {
            let mut run = service(probe, 8, 0.010, seed ^ trial);
            run.shape =
                Shape::Open { rate_per_s: Profile::Constant(probe_load(probe)), arrivals: Process::Poisson };
            run
        });
        let of = found(&document);
        let (lower, upper) = bounds(of);
        assert!(lower > 800.0 * 0.95 && upper < 800.0 * 1.06, "{seed}: {lower} to {upper}");
        assert!(of.answer == LimitAnswer::Unclear || (upper - lower) / upper <= 0.03, "{lower} to {upper}");
    }
}

#[test]
fn a_goal_that_is_always_met_or_never_is_said_so() {
    let experiment = search_for(&[("limit_max", "64")], &["response.p95 <= 50ms"]);
    let (_, document) = carried_out(&experiment, |probe, _| exact(probe, |_| 1.0));
    let of = found(&document);
    assert_eq!((of.answer.clone(), of.meets.as_ref().unwrap().load), (LimitAnswer::NotReached, 64.0));
    assert_eq!((&of.misses, of.width), (&None, None));

    let experiment = search_for(&[("closed", "16"), ("limit_min", "4")], &["response.p95 <= 50ms"]);
    let (_, document) = carried_out(&experiment, |probe, _| exact(probe, |_| 100.0));
    let of = found(&document);
    assert_eq!((of.answer.clone(), of.misses.as_ref().unwrap().load), (LimitAnswer::AlwaysMissed, 4.0));
    assert_eq!(of.meets, None);
}

#[test]
fn two_goals_share_their_trials() {
    let goals = ["response.mean <= 20.3ms", "response.mean <= 40.3ms"];
    let system = |probe: &Probe, _| exact(probe, |users| users.max(4.0));
    let (both, document) = carried_out(&search_for(&[], &goals), system);
    let of = &document.limit.as_ref().unwrap().configurations[0].goals;
    assert_eq!((bounds(&of[0]), bounds(&of[1])), ((20.0, 21.0), (40.0, 41.0)));
    let apart: usize =
        goals.iter().map(|goal| carried_out(&search_for(&[], &[goal]), system).0.runs.len()).sum();
    assert!(both.runs.len() < apart, "{} trials instead of {apart}", both.runs.len());
    // The verdict is about the goal that is missed first.
    assert!(document.configurations[0].trials.iter().all(|id| id.contains("closed=21")));
}

#[test]
fn a_result_that_is_not_monotonic_has_the_lower_limit() {
    // The short trials pass over the gap, full-length ones do not: 30 to 34 users are slow.
    let experiment = search_for(&[("closed", "24"), ("limit_width", "5%")], &["response.mean <= 40.3ms"]);
    let (_, document) = carried_out(&experiment, |probe, _| {
        exact(probe, |users| if (30.0..35.0).contains(&users) { 90.0 } else { users })
    });
    let of = found(&document);
    let (lower, upper) = bounds(of);
    assert!(lower < upper, "{lower} to {upper}");
    let points = &document.limit.as_ref().unwrap().configurations[0].points;
    let confirmed = |class| points.iter().filter(move |point| point.is_full && point.classes[0] == class);
    // The relevant upper bound is the smallest load that misses.
    assert!(confirmed(LoadClass::Misses).all(|point| point.load >= upper));
    assert_eq!(
        confirmed(LoadClass::Meets).filter(|point| point.load < upper).map(|point| point.load).next_back(),
        Some(lower)
    );
}

#[test]
fn failures_end_a_load_although_they_are_fast() {
    let experiment = search_for(&[], &["response.p95 <= 50ms"]);
    let (_, document) = carried_out(&experiment, |probe, _| Simulated {
        failed_share: if probe_load(probe) > 12.0 { 0.3 } else { 0.0 },
        ..exact(probe, |_| 1.0)
    });
    let of = found(&document);
    assert_eq!((of.answer.clone(), bounds(of)), (LimitAnswer::Found, (12.0, 13.0)));
    assert_eq!(of.misses.as_ref().unwrap().reason, Some(MissReason::Failures));
}

#[test]
fn a_few_operations_are_enough_for_a_goal_that_does_not_name_failures() {
    // 300 operations without a failure: at most 1.3 % fail, which is no statement about 1 %.
    let system = |probe: &Probe, _| exact(probe, |users| 100.0 * users.max(1.0));
    let answer = |goals: &[&str]| {
        found(&carried_out(&search_for(&[("limit_max", "4")], goals), system).1).answer.clone()
    };
    assert_eq!(answer(&["response.p50 <= 1s"]), LimitAnswer::NotReached);
    assert_eq!(answer(&["failed <= 0.1%"]), LimitAnswer::Unclear);
}

#[test]
fn a_rate_that_is_not_carried_is_missed() {
    let experiment = search_for(&[("open", "100/s")], &["service.p95 <= 50ms"]);
    let (_, document) = carried_out(&experiment, |probe, _| {
        let mut run = exact(probe, |_| 1.0);
        let rate = probe_load(probe);
        run.offered_per_s = rate;
        run.rates.iter_mut().for_each(|carried| *carried = rate.min(900.0));
        run
    });
    let of = found(&document);
    let (lower, upper) = bounds(of);
    // 5 % of the operations may be missing.
    assert!(lower >= 900.0 && upper <= 900.0 / 0.95 * 1.03, "{lower} to {upper}");
    assert!(
        matches!(of.misses.as_ref().unwrap().reason, Some(MissReason::NotCarried(share)) if share < 0.95)
    );
}

#[test]
fn a_load_that_cannot_be_driven_ends_the_search() {
    let experiment = search_for(&[], &["response.p95 <= 50ms"]);
    let (study, document) = carried_out(&experiment, |probe, _| Simulated {
        ending: match probe_load(probe) > 100.0 {
            true => Ending::Failed("too many open files".into()),
            false => Ending::Completed,
        },
        ..exact(probe, |_| 1.0)
    });
    let of = found(&document);
    let (lower, upper) = bounds(of);
    assert!(of.answer == LimitAnswer::Found && lower <= 100.0 && upper > 100.0, "{lower} to {upper}");
    assert_eq!(
        of.misses.as_ref().unwrap().reason,
        Some(MissReason::TrialFailed("too many open files".into()))
    );
    let failed = study.runs.iter().filter(|record| record.run.ending != Ending::Completed).count();
    assert!(failed <= 16, "{failed} failed trials");
}

#[test]
fn a_generator_at_its_limit_is_no_limit_of_the_system() {
    let experiment = search_for(&[], &["response.mean <= 40.3ms"]);
    let (_, document) = carried_out(&experiment, |probe, _| {
        let mut run = exact(probe, |users| users.max(8.0));
        run.generator = if probe_load(probe) > 30.0 { (0.97, 0.02) } else { (0.3, 0.01) };
        run
    });
    assert!(matches!(document.verdict, Verdict::GeneratorBound { .. }), "{:?}", document.verdict);
    assert_eq!(found(&document).answer, LimitAnswer::GeneratorBound);
    // Below the failing load it may have been as busy as it wants.
    let (_, document) = carried_out(&experiment, |probe, _| {
        let mut run = exact(probe, |users| users.max(8.0));
        run.generator = if probe_load(probe) < 30.0 { (0.97, 0.02) } else { (0.3, 0.01) };
        run
    });
    assert_eq!(found(&document).answer, LimitAnswer::Found);
}

#[test]
fn a_resumed_search_goes_on_as_planned() {
    let experiment = search_for(&[("limit_width", "10%")], &["response.p95 <= 30ms", "response.p99 <= 60ms"]);
    let (study, _) = carried_out(&experiment, |probe, trial| service(probe, 4, 0.004, trial));
    let design = design(&experiment);
    for done in 0..study.runs.len() {
        let mut before = planned(experiment.clone());
        before.runs = study.runs[..done].to_vec();
        // Killed in the middle of a trial: its record counts as nothing.
        for ending in [None, Some(Ending::Running), Some(Ending::Interrupted)] {
            let mut study_then = before.clone();
            if let Some(ending) = &ending {
                let mut killed = study.runs[done].clone();
                killed.run.ending = ending.clone();
                study_then.runs.push(killed);
            }
            let Next::Trial(decision) = design.next(&study_then) else { panic!("{done} trials are enough") };
            assert_eq!(decision.trial.treatment, study.runs[done].run.trial.treatment);
            assert_eq!(decision.trial.replicate, study.runs[done].run.trial.replicate);
        }
    }
}

#[test]
fn each_configuration_has_its_limit_and_the_law_of_them() {
    let mut experiment = search_for(&[], &["response.mean <= 40.3ms"]);
    experiment.vary = vec![Variation { baseline: Some(Level::Count(1)), ..vary("host.cpus", None, &[2, 4]) }];
    let (_, document) = carried_out(&experiment, |probe, _| {
        let cpus = probe.configuration.first().map_or(1.0, |change| change.level.as_number().unwrap());
        // 5 % contention.
        let capacity = cpus / (1.0 + 0.05 * (cpus - 1.0));
        exact(probe, |users| (users / capacity).max(4.0))
    });
    let limit = document.limit.as_ref().unwrap();
    let limits: BTreeMap<&str, f64> = limit
        .configurations
        .iter()
        .map(|of| (of.configuration.as_str(), of.goals[0].meets.as_ref().unwrap().load))
        .collect();
    assert_eq!(limits["baseline"], 40.0);
    assert!(
        (limits["host.cpus=2"] - 76.0).abs() <= 2.0 && (limits["host.cpus=4"] - 139.0).abs() <= 5.0,
        "{limits:?}"
    );
    let law = &limit.laws[0];
    assert_eq!(law.factor, "host.cpus");
    assert!((law.contention - 0.05).abs() < 0.03 && law.error_max < 0.03, "{law:?}");
    let [next, predicted] = law.next.unwrap();
    assert!(next == 8.0 && (predicted - 40.0 * 8.0 / 1.35).abs() < 25.0, "{law:?}");
    assert_eq!(document.configurations.len(), 3);
}

/// What MLRsearch finds; `mlrsearch.py` prints it.
#[derive(serde::Deserialize)]
struct Reference {
    lower: f64,
    upper: f64,
    trials: usize,
    full: usize,
    seconds: f64,
}

/// Runs the reference implementation of RFC 9971 on a system that forwards at most `capacity` per second.
#[expect(clippy::disallowed_types, reason = "a test compares with another program")]
fn reference(capacity: f64, [min, max]: [f64; 2], loss: f64, width: f64) -> Reference {
    let numbers = [capacity, min, max, loss, width, 3.0, 30.0].map(|number| number.to_string());
    let output = std::process::Command::new("mlrsearch").args(numbers).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn the_bounds_agree_with_the_reference_implementation() {
    if testkit::lacks(testkit::Need::Package("mlrsearch")) {
        return;
    }
    // So large that whole numbers of failures in an interval of 0.1 s are exact enough.
    for capacity in [5000.0, 12_345.6, 33_333.0, 81_234.0] {
        let settings =
            [("open", "1000/s"), ("limit_min", "10/s"), ("limit_max", "100000/s"), ("measure", "30s")];
        let experiment = search_for(&settings, &["failed <= 0.5%"]);
        let (study, document) = carried_out(&experiment, |probe, _| {
            let mut run = exact(probe, |_| 1.0);
            run.failed_share = (1.0 - capacity / probe_load(probe)).max(0.0);
            run
        });
        let of = found(&document);
        let (lower, upper) = bounds(of);
        let other = reference(capacity, [10.0, 100_000.0], 0.005, 0.03);
        // The largest load of which at most 0.5 % are lost.
        let truth = capacity / 0.995;
        let full =
            study.runs.iter().filter(|record| probe(&record.run.trial.treatment).measure >= 30 * SECOND);
        let full = full.count();
        println!(
            "{capacity}: {lower} to {upper} in {} trials, {full} of full length; MLRsearch: {:.1} to {:.1} in {}, {} of \
             full length, {:.0} s",
            study.runs.len(),
            other.lower,
            other.upper,
            other.trials,
            other.full,
            other.seconds,
        );
        for (lower, upper) in [(lower, upper), (other.lower, other.upper)] {
            // Counts are whole numbers.
            assert!(lower <= truth * 1.005 && truth * 0.995 < upper, "{truth} is not in {lower} to {upper}");
            assert!((upper - lower) / upper <= 0.0301, "{lower} to {upper}");
        }
        assert!(full <= other.full + 1 && study.runs.len() <= 20, "{full} of {} trials", study.runs.len());
    }
}

#[test]
fn a_damaged_record_of_a_search_is_read() {
    let experiment = search_for(&[("open", "100/s")], &["response.p95 <= 50ms"]);
    let (study, _) = carried_out(&experiment, |probe, trial| service(probe, 2, 0.004, trial));
    let levels = [
        Level::Rate(f64::NAN),
        Level::Rate(-1.0),
        Level::Rate(f64::INFINITY),
        Level::Text("x".into()),
        Level::Count(3),
    ];
    for (at, level) in levels.into_iter().enumerate() {
        let mut damaged = study.clone();
        for record in damaged.runs.iter_mut().skip(at).step_by(2) {
            if let Treatment::Probe(probe) = &mut record.run.trial.treatment {
                probe.at.level = level.clone();
            }
            record.intervals.truncate(7);
        }
        if let Some(plan) = damaged.plan.as_mut().filter(|_| at % 2 == 1) {
            plan.experiment.load.set("open", level);
        }
        let document = result(&damaged);
        assert_eq!(document.trials.len(), study.runs.len());
        let text = serde_json::to_string(&document.limit).unwrap();
        let read: Option<model::LimitResult> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, document.limit, "every number is finite");
        design(&experiment).next(&damaged);
    }
}

#[test]
fn searches_are_compared_at_their_limits() {
    let carried = |users_max: f64| {
        let experiment = search_for(&[], &["response.mean <= 40.3ms"]);
        carried_out(&experiment, |probe, _| exact(probe, |users| (40.0 * users / users_max).max(8.0)))
    };
    let ((one, document), (other, _)) = (carried(40.0), carried(80.0));
    let side = |label, study, select| crate::Side { label, study, select };
    let compared = crate::compare(&[side("one", &one, None), side("other", &other, None)]);
    let trials = |at: usize| compared.configurations[at].trials.len();
    assert_eq!(trials(0), document.limit.unwrap().configurations[0].at_limit.len());
    let rate = compared.comparison.iter().find(|row| row.metric == "rate_per_s").unwrap();
    assert!((rate.ratio - 2.0).abs() < 0.05, "{rate:?}");
    // A trial that is named is compared, whatever its load.
    let first = one.runs[0].run.trial.id();
    let compared =
        crate::compare(&[side("one", &one, Some(&first)), side("other", &other, Some("baseline"))]);
    assert_eq!(compared.configurations[0].trials.len(), 1);
}

#[test]
fn reasons_are_words() {
    let experiment = search_for(&[("limit_max", "16")], &["response.p95 <= 30ms"]);
    let mut study = planned(experiment.clone());
    let design = design(&experiment);
    let mut said = Vec::new();
    loop {
        match design.next(&study) {
            Next::Trial(decision) => {
                said.push(format!("{}: {}", decision.trial.id(), decision.reason));
                let run = exact(probe(&decision.trial.treatment), |users| users);
                study.runs.push(run.run(decision.trial));
            }
            Next::Enough(why) => {
                said.push(why);
                break;
            }
        }
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    001-closed=1+3s.r1: the first guess
    002-closed=2+3s.r1: 1 met response.p95 <= 30ms: a larger load
    003-closed=4+3s.r1: 2 met response.p95 <= 30ms: a larger load
    004-closed=8+3s.r1: 4 met response.p95 <= 30ms: a larger load
    005-closed=16+3s.r1: 8 met response.p95 <= 30ms: a larger load
    006-closed=11+3s.r1: response.p95 <= 30ms was met at 8 and missed at 16: between them
    007-closed=9+3s.r1: response.p95 <= 30ms was met at 8 and missed at 11: between them
    008-closed=10+3s.r1: response.p95 <= 30ms was met at 9 and missed at 11: between them
    009-closed=10+30s.r1: short trials met response.p95 <= 30ms at 10 and missed it at 11: confirm 10
    010-closed=10+30s.r2: the result at 10 is too close to response.p95 <= 30ms to tell: full-length trial 2 of at most 4
    011-closed=10+30s.r3: the result at 10 is too close to response.p95 <= 30ms to tell: full-length trial 3 of at most 4
    012-closed=10+30s.r4: the result at 10 is too close to response.p95 <= 30ms to tell: full-length trial 4 of at most 4
    013-closed=9+30s.r1: 4 full-length trials can't tell whether response.p95 <= 30ms is met at 10: a smaller load
    014-closed=11+30s.r1: 4 full-length trials can't tell whether response.p95 <= 30ms is met at 10: a larger load
    response.p95 <= 30ms is met at 9 and missed at 11; what is between them is not clear
    ");
}
