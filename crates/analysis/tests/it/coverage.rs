//! Tests that 95 % intervals of a ratio cover the true one in 95 % of the cases. Experiments with a known
//! ratio are simulated in rounds as in the design, on a machine with drift, stalls and autocorrelation.
//!
//! `cargo run --release -p plimsoll-analysis --example coverage` prints the whole table.

use plimsoll_analysis::random::Random;
use plimsoll_analysis::statistics::{Ratio, mean_ratio, paired_ratio};

/// The disturbances of an experiment's runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// Standard deviation of a run, as a share of its rate.
    pub(crate) deviation: f64,
    /// Autocorrelation of consecutive runs: the coefficient of AR(1).
    pub(crate) memory: f64,
    /// How much the machine slows down over the whole experiment.
    pub(crate) drift: f64,
    /// The probability that a run stalls to 70 %.
    pub(crate) stalls: f64,
}

/// From quiet to all disturbances at once.
pub(crate) const MACHINES: [Machine; 6] = [
    Machine { name: "independent noise", deviation: 0.05, memory: 0.0, drift: 0.0, stalls: 0.0 },
    Machine { name: "AR(1), 0.5", deviation: 0.05, memory: 0.5, drift: 0.0, stalls: 0.0 },
    Machine { name: "AR(1), 0.8", deviation: 0.05, memory: 0.8, drift: 0.0, stalls: 0.0 },
    Machine { name: "drift of 15 %", deviation: 0.05, memory: 0.0, drift: 0.15, stalls: 0.0 },
    Machine { name: "stalls of 30 %", deviation: 0.05, memory: 0.0, drift: 0.0, stalls: 0.05 },
    Machine { name: "all of these", deviation: 0.05, memory: 0.5, drift: 0.15, stalls: 0.05 },
];

/// The rates of an experiment of `rounds` rounds as pairs (baseline, treatment), with a true ratio of
/// `ratio`. The baseline is first in the first round and last in the last one; otherwise its position is
/// random.
pub(crate) fn experiment(
    machine: &Machine,
    rounds: usize,
    ratio: f64,
    random: &mut Random,
) -> Vec<(f64, f64)> {
    let mut remembered = random.normal();
    let mut run = |place: usize, random: &mut Random| {
        remembered =
            machine.memory * remembered + (1.0 - machine.memory * machine.memory).sqrt() * random.normal();
        let drifted = 1.0 - machine.drift * place as f64 / (2 * rounds) as f64;
        let stalled = if random.unit() < machine.stalls { 0.7 } else { 1.0 };
        (1.0 + machine.deviation * remembered) * drifted * stalled
    };
    (0..rounds)
        .map(|round| {
            let baseline_first = match round {
                0 => true,
                last if last + 1 == rounds => false,
                _ => random.below(2) == 0,
            };
            let (first, second) = (run(2 * round, random), run(2 * round + 1, random));
            if baseline_first { (first, ratio * second) } else { (second, ratio * first) }
        })
        .collect()
}

/// The results of many experiments on one machine.
pub(crate) struct Coverage {
    /// Share of the intervals that cover the true ratio.
    pub(crate) covered: f64,
    /// Median width of the interval divided by the ratio.
    pub(crate) width: f64,
}

/// Repeats an experiment and computes the coverage.
pub(crate) fn coverage(machine: &Machine, rounds: usize, experiments: usize, seed: u64) -> Coverage {
    const TRUTH: f64 = 2.14;
    let mut random = Random::new(seed);
    let (mut covered, mut widths) = (0, Vec::new());
    for _ in 0..experiments {
        let Some(Ratio { value, interval: Some((low, high)), .. }) =
            paired_ratio(&experiment(machine, rounds, TRUTH, &mut random))
        else {
            continue;
        };
        covered += usize::from(low <= TRUTH && TRUTH <= high);
        widths.push((high - low) / value);
    }
    widths.sort_by(f64::total_cmp);
    Coverage {
        covered: covered as f64 / experiments as f64,
        width: widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN),
    }
}

/// The coverage of the interval of the ratio of two single runs, derived from the noise within them:
/// `windows` rates each, with the autocorrelation `memory`.
pub(crate) fn coverage_inside(memory: f64, windows: usize, experiments: usize, seed: u64) -> f64 {
    const TRUTH: f64 = 1.1;
    let mut random = Random::new(seed);
    let mut run = |level: f64| -> Vec<f64> {
        let mut remembered = random.normal();
        let mut rate = || {
            remembered = memory * remembered + (1.0 - memory * memory).sqrt() * random.normal();
            level * (1.0 + 0.05 * remembered)
        };
        (0..windows).map(|_| rate()).collect()
    };
    let covers = |_: &usize| {
        let (a, b) = (run(100.0), run(100.0 * TRUTH));
        mean_ratio(&a, &b).is_some_and(|ratio| ratio.low <= TRUTH && TRUTH <= ratio.high)
    };
    (0..experiments).filter(covers).count() as f64 / experiments as f64
}

#[cfg(test)]
mod tests {
    use plimsoll_analysis::statistics::replicates_to_show;

    use super::*;

    #[test]
    fn the_interval_covers_the_true_ratio_on_every_machine() {
        for machine in MACHINES {
            let sizes = [(3, 1500), (5, 1500), (6, 1000), (8, 800), (10, 800), (20, 500), (30, 300)];
            let found = sizes.map(|(pairs, experiments)| {
                let found = coverage(&machine, pairs, experiments, 7);
                let (name, covered) = (machine.name, found.covered);
                assert!((0.92..=0.98).contains(&covered), "{name}, {pairs} pairs: {covered}");
                found.width
            });
            // More pairs give narrower intervals.
            assert!(found[1] < found[0] && found[6] < 0.6 * found[1], "{}: {found:?}", machine.name);
        }
    }

    #[test]
    fn the_noise_inside_a_run_is_not_taken_for_more_than_it_tells() {
        for memory in [0.0, 0.3, 0.5, 0.8] {
            for (windows, experiments) in [(20, 1000), (60, 600), (300, 300)] {
                let covered = coverage_inside(memory, windows, experiments, 11);
                assert!((0.92..=0.985).contains(&covered), "AR(1) {memory}, {windows} windows: {covered}");
            }
        }
    }

    /// The share of experiments with this number of rounds that show a true ratio of 1.05, if a pair has this
    /// `spread`.
    fn power(rounds: u32, spread: f64, experiments: usize, random: &mut Random) -> f64 {
        let shown = (0..experiments).filter(|_| {
            let pairs: Vec<(f64, f64)> =
                (0..rounds).map(|_| (1.0, 1.05 * (spread * random.normal()).exp())).collect();
            paired_ratio(&pairs).unwrap().interval.is_some_and(|(low, _)| low > 1.0)
        });
        shown.count() as f64 / experiments as f64
    }

    #[test]
    fn as_many_replicates_as_promised_show_five_percent() {
        let mut random = Random::new(5);
        // The spread known from 1,000 pairs.
        for spread in [0.03, 0.05, 0.08] {
            let rounds = replicates_to_show(1.05_f64.ln(), spread, 1000).unwrap();
            let shown = power(rounds, spread, 500, &mut random);
            assert!((0.74..=0.93).contains(&shown), "{rounds} rounds at {spread}: {shown}");
        }
        // The spread estimated from a few pairs, as for users: correct on average over the estimates.
        for pilot in [3, 5, 10] {
            let shown: f64 = (0..150)
                .map(|_| {
                    let logs: Vec<f64> = (0..pilot).map(|_| 0.06 * random.normal()).collect();
                    let estimated = plimsoll_analysis::statistics::variance(&logs).unwrap().sqrt();
                    let rounds = replicates_to_show(1.05_f64.ln(), estimated, pilot).unwrap();
                    power(rounds.min(60), 0.06, 8, &mut random)
                })
                .sum::<f64>()
                / 150.0;
            assert!((0.74..=0.93).contains(&shown), "{pilot} pairs: {shown}");
        }
    }
}
