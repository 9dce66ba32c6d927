//! Tests that changes within a run are found at their true times, and only there.

use model::{Claim, Detector, DoubtKind, Finding, Unit};

use super::read::found;
use crate::random::Random;
use crate::result;
use crate::simulate::{Simulated, single};

/// The document of a run with a given true rate in each second; the observed rates have autocorrelated noise.
fn noisy(truth: &[f64], seed: u64) -> model::result::ResultDocument {
    let mut random = Random::new(seed);
    let mut last = random.normal();
    let mut seen = |rate: &f64| {
        last = 0.5 * last + 0.75_f64.sqrt() * random.normal();
        rate * (1.0 + 0.03 * last)
    };
    let rates = truth.iter().map(&mut seen).collect();
    let run = Simulated {
        workload: "null",
        operation: "nothing",
        bytes: 0,
        rates,
        facts: Default::default(),
        counters: Vec::new(),
        response_ms: 0.0005,
        ..Simulated::closed_disk(8, 1.0, 0.0)
    };
    result(&single(&run))
}

fn change(document: &model::result::ResultDocument) -> Option<&Finding> {
    found(document, Detector::Steadiness)
}

/// Stretches of (seconds, rate).
fn stretches(parts: &[(usize, f64)]) -> Vec<f64> {
    parts.iter().flat_map(|(seconds, rate)| vec![*rate; *seconds]).collect()
}

#[test]
fn changes_are_found_with_their_time_and_rates() {
    for (what, parts) in [
        ("an import in three passes", vec![(20, 4000.0), (25, 9000.0), (20, 2500.0)]),
        ("a cache that is exhausted", vec![(15, 9000.0), (45, 2000.0)]),
        ("throttling that sets in", vec![(30, 5000.0), (30, 4100.0)]),
        ("a long run", vec![(200, 5000.0), (280, 3500.0)]),
    ] {
        let mut right = 0;
        for seed in 0..10 {
            let document = noisy(&stretches(&parts), seed);
            let Some(found) = change(&document) else { continue };
            // Begin, end and rate of each stretch, as in the evidence.
            let mut begin = 1.0;
            let every = found.evidence.len() == parts.len()
                && found.evidence.iter().zip(&parts).all(|(evidence, (seconds, rate))| {
                    let end = begin + *seconds as f64;
                    let near = |seen: f64, true_s: f64| (seen - true_s).abs() <= 4.0;
                    let place = near(evidence.begin_s, begin) && near(evidence.end_s, end);
                    begin = end;
                    place && (evidence.observed.value / rate - 1.0).abs() < 0.05
                });
            let unsteady = document.trials[0].doubts.iter().any(|doubt| doubt.kind == DoubtKind::Unsteady);
            right += usize::from(every && unsteady);
            assert!(
                matches!(found.claim, Claim::RateChanged { unit: Unit::PerSecond, moved_bytes: None, .. }),
                "{found:?}"
            );
        }
        assert!(right >= 9, "{what}: {right} of 10");
    }
}

#[test]
fn a_steady_run_has_no_change() {
    let steady = stretches(&[(60, 5000.0)]);
    let invented = (0..60).filter(|seed| change(&noisy(&steady, *seed)).is_some()).count();
    assert!(invented <= 1, "{invented} of 60");
}
