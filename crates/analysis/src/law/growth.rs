//! How the time of a work grows with its amount, and the time of an amount that was not measured.
//!
//! A bulk import is nearly proportional to the number of entries, with a start that does not depend on it, and with indexes
//! whose depth grows slowly. Three laws describe that. Each predicts each measured amount from the smaller ones, and its errors
//! there say how much it can be trusted farther out. The answer is the mean of the laws weighted by these errors; its interval
//! includes the noise, the errors at the distance, and the disagreement of the laws, as in [`super::predict`].

use model::Estimate;

use super::least_squares;
use super::predict::reach;

/// Different amounts that are needed.
pub(crate) const AMOUNTS_MIN: usize = 3;

/// The prior of a law's error, one standard deviation of the logarithm of a prediction per unit of the logarithm of the
/// distance, and its weight as a number of predictions. Published imports are proportional to their size within some percent per
/// doubling as long as the database stays in memory.
const ERROR_PER_DISTANCE: f64 = 0.05;
const EXPERIENCE: f64 = 2.0;

/// The least error that is assumed for a law.
const LEAST_ERROR: f64 = 0.01;

/// A measured amount of work and its time in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) amount: f64,
    pub(crate) seconds: f64,
}

/// How the time depends on the amount `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `a + b n`
    Linear,
    /// `a + b n ln n`
    Logarithmic,
    /// `b n^p`
    Power,
}

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    form: Form,
    a: f64,
    b: f64,
}

impl Law {
    fn fit(form: Form, works: &[Work]) -> Option<Law> {
        // Relative errors: a small import is as informative as a large one.
        let line = |rows: Vec<Vec<f64>>, values: Vec<f64>| {
            least_squares::line(&rows, &values).map(|fit| fit.parameters)
        };
        let term =
            |amount: f64| if form == Form::Logarithmic { amount * amount.ln().max(1.0) } else { amount };
        if form == Form::Power {
            let rows = works.iter().map(|work| vec![1.0, work.amount.ln()]).collect();
            let fitted = line(rows, works.iter().map(|work| work.seconds.ln()).collect())?;
            return Some(Law { form, a: *fitted.get(1)?, b: fitted.first()?.exp() });
        }
        let rows =
            works.iter().map(|work| vec![1.0 / work.seconds, term(work.amount) / work.seconds]).collect();
        let fitted = line(rows, vec![1.0; works.len()])?;
        let (a, b) = (*fitted.first()?, *fitted.get(1)?);
        if a >= 0.0 && b > 0.0 {
            return Some(Law { form, a, b });
        }
        // Without a start.
        let rows: Vec<Vec<f64>> = works.iter().map(|work| vec![term(work.amount) / work.seconds]).collect();
        let b = *line(rows, vec![1.0; works.len()])?.first()?;
        (b > 0.0).then_some(Law { form, a: 0.0, b })
    }

    fn seconds(&self, amount: f64) -> f64 {
        match self.form {
            Form::Linear => self.a + self.b * amount,
            Form::Logarithmic => self.a + self.b * amount * amount.ln().max(1.0),
            Form::Power => self.b * amount.powf(self.a),
        }
    }

    fn formula(&self) -> String {
        let Law { a, b, .. } = self;
        match self.form {
            Form::Linear => format!("{a:.3} s + {:.4} s per 1000", b * 1000.0),
            Form::Logarithmic => format!("{a:.3} s + {:.5} s per 1000 x ln n", b * 1000.0),
            Form::Power => format!("{:.3e} s x n^{a:.3}", b),
        }
    }
}

/// A predicted time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) seconds: Estimate,
    /// The formula, the time and the weight of each law, in descending order of weight.
    pub(crate) laws: Vec<(String, f64, f64)>,
}

/// The time of an amount, from measured ones. None with fewer than three different amounts, or if no law fits.
pub(crate) fn predict(works: &[Work], amount: f64) -> Option<Answer> {
    let amounts = amounts(works);
    if amounts.len() < AMOUNTS_MIN || !(amount > 0.0) {
        return None;
    }
    let largest = *amounts.last()?;
    let distance = (amount / largest).max(1.0).ln();
    let mut members: Vec<(Law, f64, f64)> = Vec::new();
    for form in [Form::Linear, Form::Logarithmic, Form::Power] {
        let Some(law) = Law::fit(form, works) else { continue };
        let log = law.seconds(amount).ln();
        let noise = root_mean_square(works.iter().map(|work| (law.seconds(work.amount) / work.seconds).ln()));
        let variance =
            per_distance(form, works, &amounts) * distance * distance + noise.powi(2) + LEAST_ERROR.powi(2);
        if log.is_finite() && variance.is_finite() {
            members.push((law, log, variance));
        }
    }
    let sum: f64 = members.iter().map(|(_, _, variance)| variance.powi(-2)).sum();
    let weight = |variance: f64| variance.powi(-2) / sum;
    let mean: f64 = members.iter().map(|(_, log, variance)| weight(*variance) * log).sum();
    let spread: f64 =
        members.iter().map(|(_, log, variance)| weight(*variance) * (variance + (log - mean).powi(2))).sum();
    let half = reach(spread.sqrt());
    let seconds = Estimate { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() };
    if members.is_empty() || !seconds.high.is_finite() || !(seconds.low > 0.0) {
        return None;
    }
    let mut laws: Vec<(String, f64, f64)> =
        members.iter().map(|(law, log, variance)| (law.formula(), log.exp(), weight(*variance))).collect();
    laws.sort_by(|a, b| b.2.total_cmp(&a.2));
    Some(Answer { seconds, laws })
}

/// The different amounts, in ascending order.
pub(crate) fn amounts(works: &[Work]) -> Vec<f64> {
    let mut amounts: Vec<f64> = works.iter().map(|work| work.amount).collect();
    amounts.sort_by(f64::total_cmp);
    amounts.dedup();
    amounts
}

/// Variance of the logarithm of a prediction per squared unit of the logarithm of the distance: from the errors with which the
/// law predicts each amount from the smaller ones, and from experience.
fn per_distance(form: Form, works: &[Work], amounts: &[f64]) -> f64 {
    let mut sum = EXPERIENCE * ERROR_PER_DISTANCE.powi(2);
    let mut count = EXPERIENCE;
    for pair in amounts.windows(2).skip(1) {
        let (&[below, amount], smaller) = (pair, |work: &&Work| work.amount <= pair[0]) else { continue };
        let known: Vec<Work> = works.iter().filter(smaller).copied().collect();
        let Some(law) = Law::fit(form, &known) else { continue };
        let far = (amount / below).ln();
        for work in works.iter().filter(|work| work.amount == amount) {
            let error = (law.seconds(amount) / work.seconds).ln() / far;
            if error.is_finite() {
                sum += error * error;
                count += 1.0;
            }
        }
    }
    sum / count
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value * value, count + 1.0));
    if count > 0.0 { f64::sqrt(sum / count) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use model::random::Random;

    use super::*;

    fn works(amounts: &[f64], time: impl Fn(f64) -> f64, noise: f64, seed: u64) -> Vec<Work> {
        let mut random = Random::stream(seed, 0);
        let mut work = |amount: f64| Work { amount, seconds: time(amount) * (noise * random.normal()).exp() };
        amounts.iter().flat_map(|amount| [*amount; 2]).map(&mut work).collect()
    }

    #[test]
    fn exact_laws_are_found() {
        let sizes = [10e3, 20e3, 40e3, 80e3];
        for time in [
            (|n: f64| 0.5 + n / 14_000.0) as fn(f64) -> f64,
            |n: f64| n * n.ln() / 150_000.0,
            |n: f64| 3e-5 * n.powf(1.1),
        ] {
            let answer = predict(&works(&sizes, time, 0.0, 1), 160e3).unwrap();
            let error = answer.seconds.value / time(160e3) - 1.0;
            assert!(error.abs() < 0.02, "{error} {answer:?}");
            assert!(answer.seconds.low < time(160e3) && time(160e3) < answer.seconds.high);
            assert!((answer.laws.iter().map(|law| law.2).sum::<f64>() - 1.0).abs() < 1e-9);
        }
        assert!(predict(&works(&[1e3, 2e3], |n| n, 0.0, 1), 1e6).is_none());
        assert!(predict(&[], 1e6).is_none());
    }

    #[test]
    fn the_interval_contains_the_time_as_often_as_stated() {
        for (time, amount) in [
            ((|n: f64| 0.3 + n / 14_000.0) as fn(f64) -> f64, 400e3),
            (|n: f64| 1.0 + n * n.ln() / 150_000.0, 400e3),
            (|n: f64| 1.0 + n * n.ln() / 150_000.0, 7.9e6),
            (|n: f64| 2e-5 * n.powf(1.08), 1.6e6),
        ] {
            let mut inside = 0;
            for seed in 0..200 {
                let measured = works(&[12_500.0, 25e3, 50e3, 100e3], time, 0.03, seed);
                let Estimate { low, high, .. } = predict(&measured, amount).unwrap().seconds;
                inside += u32::from(low <= time(amount) && time(amount) <= high);
            }
            assert!(inside >= 170, "{inside} of 200 at {amount}");
        }
    }
}
