//! Distributions of the delay.

use std::f64::consts::{PI, SQRT_2};

use model::Nanos;
use model::random::Random;

/// Shape of the Pareto distribution: its variance is finite, its third moment is not.
const PARETO_SHAPE: f64 = 3.0;

/// How a delay varies around the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Always the latency.
    Constant,
    /// Uniform from latency − jitter to latency + jitter.
    #[default]
    Uniform,
    /// Normal: the mean is the latency, the standard deviation is the jitter.
    Normal,
    /// The latency, plus an exponential time whose mean is the jitter.
    Exponential,
    /// The latency, plus a time with a Pareto tail (Lomax, shape 3) whose mean is the jitter.
    Pareto,
}

static NAMES: [(&str, Distribution); 5] = [
    ("constant", Distribution::Constant),
    ("uniform", Distribution::Uniform),
    ("normal", Distribution::Normal),
    ("exponential", Distribution::Exponential),
    ("pareto", Distribution::Pareto),
];

impl Distribution {
    /// The distribution with a name.
    pub fn parse(name: &str) -> Option<Distribution> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, distribution)| *distribution)
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        NAMES.iter().map(|(name, _)| *name).collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// The delay for a standard normal value: its quantile at the probability of the value. A delay is never negative.
    pub fn delay_ns(self, latency_ns: Nanos, jitter_ns: Nanos, normal: f64) -> Nanos {
        let (latency, jitter) = (latency_ns as f64, jitter_ns as f64);
        let delay = match self {
            Distribution::Constant => latency,
            Distribution::Uniform => latency + jitter * (2.0 * probability(normal) - 1.0),
            Distribution::Normal => latency + jitter * normal,
            // The probability of the negative value is one minus that of the value, without its rounding near 1.
            Distribution::Exponential => latency - jitter * probability(-normal).ln(),
            Distribution::Pareto => {
                let scale = jitter * (PARETO_SHAPE - 1.0);
                latency + scale * (probability(-normal).powf(-1.0 / PARETO_SHAPE) - 1.0)
            }
        };
        delay.max(0.0) as Nanos
    }
}

/// A standard normal value (Box and Muller, 1958).
pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.open_unit().ln()).sqrt();
    radius * (2.0 * PI * random.unit()).cos()
}

/// The probability that a standard normal value is at most `value`, with an error below 1.5e-7 (Abramowitz and Stegun,
/// 7.1.26). It is never 0.
fn probability(value: f64) -> f64 {
    let x = value.abs() / SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let tail = 0.5 * polynomial * (-x * x).exp();
    let probability = if value < 0.0 { tail } else { 1.0 - tail };
    probability.clamp(1e-12, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and standard deviation of many delays with a latency of 10 ms and a jitter of 2 ms, in ms.
    fn moments(distribution: Distribution) -> (f64, f64) {
        let mut random = Random::new(1);
        let delays: Vec<f64> = (0..200_000)
            .map(|_| distribution.delay_ns(10_000_000, 2_000_000, normal(&mut random)) as f64 / 1e6)
            .collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn means_and_deviations_are_those_of_the_definitions() {
        // The deviation of a Lomax distribution with shape 3 is its mean times the square root of 3.
        for (distribution, mean, deviation, tolerance) in [
            (Distribution::Constant, 10.0, 0.0, 1e-9_f64),
            (Distribution::Uniform, 10.0, 2.0 / 3f64.sqrt(), 0.02),
            (Distribution::Normal, 10.0, 2.0, 0.02),
            (Distribution::Exponential, 12.0, 2.0, 0.03),
            (Distribution::Pareto, 12.0, 2.0 * 3f64.sqrt(), 0.4),
        ] {
            let found = moments(distribution);
            assert!((found.0 - mean).abs() <= tolerance.min(0.03), "{distribution:?}: mean {}", found.0);
            assert!((found.1 - deviation).abs() <= tolerance, "{distribution:?}: deviation {}", found.1);
        }
    }

    #[test]
    fn a_delay_is_never_negative() {
        for (_, distribution) in NAMES {
            for value in [-40.0, -8.0, -1.0, 0.0, 1.0, 8.0, 40.0] {
                let delay = distribution.delay_ns(1, 1_000_000_000, value);
                assert!(delay < 3_600_000_000_000 * 20, "{distribution:?} {value}: {delay}");
            }
        }
        assert_eq!(Distribution::Normal.delay_ns(5, 1_000_000, -3.0), 0);
    }

    #[test]
    fn the_probability_is_that_of_the_tables() {
        for (value, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9), (3.0, 0.998_650_1)] {
            assert!((probability(value) - expected).abs() < 2e-7, "{value}: {}", probability(value));
        }
    }
}
