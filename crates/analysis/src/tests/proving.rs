//! Does the proof find the elasticities of systems whose elasticities are known, and name what they say?

use std::collections::BTreeMap;

use model::result::{ProofAnswer, ResultDocument};
use model::{DesignKind, Experiment, Level, PROOF_SHARE, Shape, Turnable, Verdict};

use crate::result;
use crate::simulate::{Noise, Simulated, carry_out, experiment, level, vary};

const CPU: &str = "host.cpu_quota";
const DISK: &str = "host.disk.io_limit";
const USERS: u32 = 16;

fn proving(seed: u64) -> Experiment {
    let swept = vary("load.closed", Some(USERS.into()), &[4, 8]);
    Experiment { prove: true, seed, ..experiment(vec![swept], DesignKind::OneFactorAtATime, 1) }
}

/// Throughput of a closed system of two queues and a pool of `slots` that each hold an operation `hold_s`, by exact
/// mean value analysis of the queues, bounded by the pool.
fn throughput(users: u32, cpu_s: f64, disk_s: f64, slots: f64, hold_s: f64) -> f64 {
    let (mut cpu, mut disk, mut rate) = (0.0, 0.0, 0.0);
    for n in 1..=users {
        let (at_cpu, at_disk) = (cpu_s * (1.0 + cpu), disk_s * (1.0 + disk));
        rate = f64::from(n) / (at_cpu + at_disk + hold_s);
        (cpu, disk) = (rate * at_cpu, rate * at_disk);
    }
    if hold_s > 0.0 { rate.min(slots / hold_s) } else { rate }
}

/// Carries out the experiment and its proof on such a system, with noise.
fn proved(seed: u64, cpu_s: f64, disk_s: f64, slots: f64, hold_s: f64, quiet: bool) -> ResultDocument {
    let mut noise = Noise::new(seed, 60);
    let study = carry_out(proving(seed), |treatment| {
        let left = |factor: &str, in_force: f64| level(treatment, factor, in_force) / in_force;
        let users = level(treatment, "load.closed", USERS.into()) as u32;
        let rate = throughput(users, cpu_s / left(CPU, 2.0), disk_s / left(DISK, 1000.0), slots, hold_s);
        // The noise of one pair, when all else is quiet.
        let noise = if quiet { 1.0 + 0.02 * (noise.next() - 1.0) } else { noise.next() };
        let mut run = Simulated::of(Shape::closed(users.into()), rate * noise, f64::from(users) / rate * 1e3);
        run.rates.truncate(2);
        run.in_flight = users.into();
        run.workload = "http";
        run.facts.clear();
        let can = |in_force: f64| Turnable::Yes {
            in_force: Level::Number(in_force),
            reduced: Level::Number(in_force * PROOF_SHARE),
        };
        run.turnable = BTreeMap::from([
            (CPU.to_string(), can(2.0)),
            (DISK.to_string(), can(1000.0)),
            ("host.memory".to_string(), Turnable::No("no limit is in force".into())),
        ]);
        run
    });
    result(&study)
}

#[test]
fn the_elasticities_are_those_of_the_queues() {
    for (cpu_s, disk_s) in [(0.008, 0.002), (0.002, 0.008), (0.008, 0.007), (0.010, 0.010)] {
        let truth = |cpu: f64, disk: f64| {
            let at = |cpu: f64, disk: f64| throughput(USERS, cpu_s / cpu, disk_s / disk, 1.0, 0.0);
            (at(cpu, disk) / at(1.0, 1.0)).ln() / PROOF_SHARE.ln()
        };
        let document = proved(7, cpu_s, disk_s, 1.0, 0.0, true);
        let proof = document.proof.unwrap();
        for (row, truth) in proof.rows.iter().zip([truth(PROOF_SHARE, 1.0), truth(1.0, PROOF_SHARE)]) {
            let found = row.elasticity.unwrap();
            assert!((found.value - truth).abs() < 0.02, "{} {found:?} {truth}", row.factor);
        }
        assert_eq!(proof.not_turned.len(), 1);
    }
}

#[test]
fn what_throughput_follows_is_confirmed_and_named() {
    let document = proved(3, 0.010, 0.002, 1.0, 0.0, false);
    let answers: Vec<ProofAnswer> =
        document.proof.as_ref().unwrap().rows.iter().map(|row| row.answer).collect();
    assert_eq!(answers[0], ProofAnswer::Confirmed, "{:?}", document.proof);
    let Verdict::Bottleneck { resource, proof: Some(proof), .. } = &document.verdict else {
        panic!("{:?}", document.verdict)
    };
    assert_eq!(resource, "cpu");
    assert!(proof.contains("throughput followed (elasticity"), "{proof}");
}

#[test]
fn two_limits_at_a_corner_are_mixed() {
    // Deterministic limits that are equal: taking either hurts fully.
    let study = carry_out(proving(5), |treatment| {
        let left = |factor: &str, in_force: f64| level(treatment, factor, in_force) / in_force;
        let rate = 100.0 * left(CPU, 2.0).min(left(DISK, 1000.0));
        let mut run = Simulated::of(Shape::closed(16), rate, 160.0);
        run.workload = "http";
        run.facts.clear();
        run.turnable = [(CPU, 2.0), (DISK, 1000.0)]
            .map(|(factor, in_force)| {
                let reduced = Level::Number(in_force * PROOF_SHARE);
                (factor.to_string(), Turnable::Yes { in_force: Level::Number(in_force), reduced })
            })
            .into();
        run
    });
    let Verdict::Bottleneck { resource, .. } = result(&study).verdict else { panic!() };
    assert_eq!(resource, "mixed: cpu and disk");
}

/// A pool limits: nothing that was turned does, in any of many noisy experiments.
#[test]
fn nothing_is_confirmed_that_does_not_limit() {
    let (mut wrong, mut rejected, rounds) = (0, 0, 30);
    for seed in 0..rounds {
        let document = proved(seed, 0.001, 0.001, 8.0, 0.040, false);
        let proof = document.proof.unwrap();
        wrong += proof.rows.iter().filter(|row| row.answer == ProofAnswer::Confirmed).count();
        rejected += proof.rows.iter().filter(|row| row.answer == ProofAnswer::Rejected).count();
        assert!(!matches!(document.verdict, Verdict::Bottleneck { .. }), "{:?}", document.verdict);
    }
    assert_eq!(wrong, 0);
    assert!(rejected >= rounds as usize, "at least half are rejected: {rejected} of {}", 2 * rounds);
}

/// Fed with what was recorded, the proof goes on as it would have.
#[test]
fn an_interrupted_proof_goes_on() {
    let whole = carry_out(proving(11), |treatment| {
        let users = level(treatment, "load.closed", USERS.into()) as u32;
        let mut run = Simulated::of(Shape::closed(users.into()), 100.0, 160.0);
        let in_force = Level::Number(2.0);
        run.turnable =
            BTreeMap::from([(CPU.to_string(), Turnable::Yes { in_force, reduced: Level::Number(1.4) })]);
        run
    });
    let design = crate::design(&proving(11));
    for kept in 0..whole.runs.len() {
        let mut study = whole.clone();
        study.runs.truncate(kept);
        let model::design::Next::Trial(next) = design.next(&study) else { panic!("{kept}") };
        assert_eq!(next.trial, whole.runs[kept].run.trial);
    }
}
