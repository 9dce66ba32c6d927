//! The search for the smallest level of a resource, on simulated systems of which it is known.

use model::limit::{GoalLimit, LimitAnswer, MissReason};
use model::{Change, Experiment, Goal, Level, Probe, SettingPath, Variation};

use super::limits::{carried_out, exact, found, service};
use crate::law::queue::mmc_response_quantile_s;
use crate::simulate::{experiment, vary};

/// A search for the smallest pool of workers under a Poisson rate.
fn smallest(variation: Variation, goals: &[&str]) -> Experiment {
    let factor = variation.factor.clone();
    let mut experiment = experiment(vec![variation], model::DesignKind::OneFactorAtATime, 1);
    experiment.load = model::Settings::defaults(model::load::LOAD_SETTINGS);
    experiment.load.set("open", Level::Rate(400.0));
    experiment.load.set("measure", Level::Time(60 * model::SECOND));
    experiment.goals = goals.iter().map(|goal| Goal::parse(goal, &["read"]).unwrap()).collect();
    experiment.smallest = Some(factor);
    assert!(model::limit::contradictions(&experiment).is_empty());
    experiment
}

fn workers(baseline: u64, levels: std::ops::Range<u64>) -> Variation {
    vary("target.config.workers", Some(baseline), &levels.collect::<Vec<u64>>())
}

/// The trial of a level as one at a rate.
fn at_rate(probe: &Probe, rate: f64) -> Probe {
    let at = Change { factor: SettingPath("load.open".into()), level: Level::Rate(rate) };
    Probe { at, ..probe.clone() }
}

fn level(probe: &Probe) -> f64 {
    assert_eq!(probe.at.factor.0, "target.config.workers");
    probe.at.level.as_number().unwrap()
}

fn ends(of: &GoalLimit) -> (Option<f64>, Option<f64>) {
    (of.misses.as_ref().map(|bound| bound.load), of.meets.as_ref().map(|bound| bound.load))
}

#[test]
fn the_smallest_pool_of_a_noisy_queue_is_found() {
    let service_s = 0.02;
    for (limit_ms, seed) in [(100.0, 1_u64), (62.0, 2)] {
        let is_enough = |workers: u32| {
            let p95 = mmc_response_quantile_s(400.0, service_s, workers, 0.95);
            p95.is_some_and(|seconds| seconds <= limit_ms / 1e3)
        };
        let truth = f64::from((8..64).find(|workers| is_enough(*workers)).unwrap());
        let experiment = smallest(workers(64, 1..64), &[&format!("response.p95 <= {limit_ms}ms")]);
        let (study, document) = carried_out(&experiment, |probe, trial| {
            service(&at_rate(probe, 400.0), level(probe) as usize, service_s, seed ^ trial)
        });
        let of = found(&document);
        let (misses, meets) = ends(of);
        // A level that is too close to tell makes the answer wider, not wrong.
        assert!(misses < Some(truth) && meets >= Some(truth), "{truth}: {misses:?} to {meets:?}");
        assert!(
            meets <= Some(truth + 1.0) && study.runs.len() <= 24,
            "{meets:?}, {} trials",
            study.runs.len()
        );
        let limit = document.limit.as_ref().unwrap();
        assert_eq!((limit.setting.as_str(), limit.range), ("target.config.workers", [1.0, 64.0]));
        let levels: Vec<f64> = limit.configurations[0].points.iter().map(|point| point.load).collect();
        assert!(levels.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
    }
}

#[test]
fn the_ends_of_the_levels_are_answers() {
    // The response time is 120 ms divided by the level.
    for (levels, goal, answer, expected) in [
        (1..16, "response.mean <= 30.1ms", LimitAnswer::Found, (Some(3.0), Some(4.0))),
        (4..16, "response.mean <= 130ms", LimitAnswer::NotReached, (None, Some(4.0))),
        (1..16, "response.mean <= 5ms", LimitAnswer::AlwaysMissed, (Some(16.0), None)),
        (1..16, "throughput >= 240/s", LimitAnswer::Found, (Some(7.0), Some(8.0))),
    ] {
        let experiment = smallest(workers(16, levels), &[goal]);
        let (study, document) = carried_out(&experiment, |probe, _| {
            let mut run = exact(&at_rate(probe, 400.0), |_| 120.0 / level(probe));
            // Each level carries 30/s, where the goal is a throughput.
            if goal.starts_with("throughput") {
                run = exact(&at_rate(probe, 30.0 * level(probe)), |_| 10.0);
            }
            run
        });
        let of = found(&document);
        assert_eq!((of.answer.clone(), ends(of)), (answer, expected), "{goal}: {of:#?}");
        assert!(of.misses.as_ref().is_none_or(|bound| bound.reason == Some(MissReason::Goal)), "{of:#?}");
        assert!(study.runs.len() <= 14, "{goal}: {} trials", study.runs.len());
    }
}
