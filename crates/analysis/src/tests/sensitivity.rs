//! The sensitivity to delays of dependencies, on systems with known round trips.

use model::sensitivity::facts::{ADDED_DOWN, ADDED_UP, BYTES, MEASURED_CONNECTIONS, MEASURED_EXCHANGES};
use model::sensitivity::{Sensitivity, SensitivityAnswer};
use model::{DesignKind, DoubtKind, Level, MILLISECOND, Shape, Treatment, Variation};

use crate::random::Random;
use crate::simulate::{Simulated, carry_out, experiment, vary};

/// A dependency: its name, the time that its delay adds, and the exchanges per request that its proxy counts.
type Dependency = (&'static str, fn(f64) -> f64, u64);

const UNDELAYED_MS: f64 = 20.0;

fn path((name, ..): &Dependency) -> String {
    format!("network.delay.{name}")
}

fn delays(dependencies: &[Dependency], levels_ms: &[u64]) -> Vec<Variation> {
    let level = |ms: &u64| Level::Time(ms * MILLISECOND);
    let one = |dependency: &Dependency| Variation {
        baseline: Some(Level::Time(0)),
        levels: levels_ms.iter().map(level).collect(),
        ..vary(&path(dependency), None, &[])
    };
    dependencies.iter().map(one).collect()
}

/// A request waits for its dependencies, and trials scatter with a standard deviation of `noise_ms`.
fn system(
    dependencies: &[Dependency],
    treatment: &Treatment,
    random: &mut Random,
    noise_ms: f64,
) -> Simulated {
    let mut response_ms = UNDELAYED_MS + noise_ms * random.normal();
    let mut facts: Vec<(String, Level)> = Vec::new();
    for dependency in dependencies {
        let changed = treatment.changes().iter().find(|change| change.factor.0 == path(dependency));
        let set_ms = changed.and_then(|change| change.level.as_number()).unwrap_or(0.0) * 1e3;
        // A proxy adds a little more than what was set.
        let half_ns = ((set_ms + 0.06) * 0.5e6) as u64;
        response_ms += dependency.1(set_ms + 0.06);
        let traffic = dependency.2 * 500;
        let mut fact = |name: &str, level| facts.push((format!("{}.{name}", path(dependency)), level));
        fact(ADDED_UP, Level::Time(if traffic == 0 { 0 } else { half_ns }));
        fact(ADDED_DOWN, Level::Time(if traffic == 0 { 0 } else { half_ns }));
        fact(BYTES, Level::Bytes(100 * traffic));
        fact(MEASURED_EXCHANGES, Level::Count(traffic));
        fact(MEASURED_CONNECTIONS, Level::Count(0));
    }
    let mut run = Simulated::of(Shape::closed(1), 25.0, response_ms).http();
    for (name, level) in facts {
        run = run.fact(&name, level);
    }
    run
}

fn rows(dependencies: &[Dependency], replicates: u32, noise_ms: f64, seed: u64) -> Vec<Sensitivity> {
    let mut random = Random::new(seed);
    let vary = delays(dependencies, &[10, 40]);
    let study = carry_out(experiment(vary, DesignKind::OneFactorAtATime, replicates), |treatment| {
        system(dependencies, treatment, &mut random, noise_ms)
    });
    crate::result(&study).sensitivity
}

/// Two round trips, one after the other; one; three at the same time; one beside the request; no traffic.
const SYSTEM: [Dependency; 5] = [
    ("unused", |_| 0.0, 0),
    ("beside", |_| 0.0, 1),
    ("parallel", |added| added, 3),
    ("database", |added| added, 1),
    ("directory", |added| 2.0 * added, 2),
];

#[test]
fn known_round_trips_are_in_their_intervals() {
    // The histogram of a simulated trial has this mean for a time of 1.
    let scale = {
        let run = system(&SYSTEM, &Treatment::Baseline, &mut Random::new(1), 0.0);
        let document = crate::result(&crate::simulate::single(&run));
        document.trials[0].operations[0].response_ms.mean / run.response_ms
    };
    let (mut inside, mut of) = (0, 0);
    for seed in 0..20 {
        let found = rows(&SYSTEM, 3, 1.0, seed);
        assert_eq!(found[0].dependency, "directory");
        for row in &found {
            let (truth, answer) = match row.dependency.as_str() {
                "directory" => (2.0, SensitivityAnswer::Depends),
                "database" | "parallel" => (1.0, SensitivityAnswer::Depends),
                "beside" => (0.0, SensitivityAnswer::None),
                _ => {
                    assert_eq!((row.answer, row.round_trips), (SensitivityAnswer::NoTraffic, None));
                    continue;
                }
            };
            let (low, high) = row.low.zip(row.high).unwrap();
            of += 1;
            inside += usize::from((low..=high).contains(&(truth * scale)));
            // An interval that does not include zero by chance is one of the 5 %.
            assert!(row.answer == answer || truth == 0.0, "{row:?}");
        }
        let parallel = found.iter().find(|row| row.dependency == "parallel").unwrap();
        assert_eq!(parallel.exchanges, Some(3.0), "{parallel:?}");
    }
    assert!(inside * 100 >= of * 88, "{inside} of {of} intervals contain the true value");
}

#[test]
fn without_replicates_the_interval_is_wide() {
    let width = |replicates: u32| -> f64 {
        let of = |seed| rows(&SYSTEM[4..], replicates, 1.0, seed).remove(0);
        (0..10).map(of).map(|row| row.high.unwrap() - row.low.unwrap()).sum()
    };
    let [one, three] = [1, 3].map(width);
    assert!(one > 1.5 * three, "{one} and {three}");
}

#[test]
fn a_timeout_is_not_a_straight_line() {
    let dependencies: [Dependency; 2] =
        [("timeout", |added| (2.0 * added).min(25.0), 2), ("pool", |added| 0.05 * added * added, 1)];
    for row in rows(&dependencies, 3, 1.0, 5) {
        assert_eq!(row.answer, SensitivityAnswer::NotLinear, "{row:?}");
    }
}

#[test]
fn a_proxy_without_traffic_is_a_doubt_of_the_trial() {
    let run = system(&SYSTEM, &Treatment::Baseline, &mut Random::new(1), 0.0);
    let document = crate::result(&crate::simulate::single(&run));
    let doubts = document.trials[0].doubts.iter().filter(|doubt| doubt.kind == DoubtKind::NoTraffic);
    let texts: Vec<&str> = doubts.map(|doubt| doubt.text.as_str()).collect();
    assert_eq!(texts, ["no traffic went through the proxy of `unused`: its delay has no effect"]);
}
