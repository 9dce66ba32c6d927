//! The universal scalability law and, as its special case, Amdahl's law.
//!
//! `X(N) = g N / (1 + a (N - 1) + b N (N - 1))` is the throughput at concurrency N. Here g is the throughput
//! at concurrency 1, a the contention (serialized share of the work), and b the coherency (cost of
//! consistency for each pair, which makes throughput decrease). With `b = 0` it is Amdahl's law with the
//! serial share a.
//!
//! Gunther, "Guerrilla Capacity Planning" (2007); standard errors as in R's package `usl`.

use model::Estimate;

use super::least_squares::{self, Solution};
use super::{Fitted, Point, checked};
use crate::statistics::{CONFIDENCE, student_t_quantile};

/// The law with its three parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// a: contention, the serialized share of the work, at least 0.
    pub contention: f64,
    /// b: coherency, the cost of consistency for each pair, at least 0.
    pub coherency: f64,
    /// g: throughput at a concurrency of one, per second.
    pub rate_at_one_per_s: f64,
}

impl Scalability {
    /// Throughput per second at a concurrency.
    pub fn throughput_per_s(&self, concurrency: f64) -> f64 {
        self.rate_at_one_per_s * concurrency / self.penalty(concurrency)
    }

    /// Mean response time at a concurrency, including think time: `N / X`, by Little's law.
    pub fn response_s(&self, concurrency: f64) -> f64 {
        self.penalty(concurrency) / self.rate_at_one_per_s
    }

    /// The response time relative to that of a single user.
    fn penalty(&self, n: f64) -> f64 {
        1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0)
    }

    /// The elasticity `d ln X / d ln N`: 1 if throughput is proportional to the users, 0 if more users have
    /// no effect.
    pub fn elasticity(&self, concurrency: f64) -> f64 {
        let n = concurrency;
        (1.0 - self.contention - self.coherency * n * n) / self.penalty(n)
    }

    /// The concurrency and throughput at the maximum: `sqrt((1 - a) / b)`. None if throughput always
    /// increases (b = 0) or always decreases (a of at least 1).
    pub fn peak(&self) -> Option<(f64, f64)> {
        let n = ((1.0 - self.contention) / self.coherency).sqrt();
        (self.coherency > 0.0 && n.is_finite() && n > 0.0).then(|| (n, self.throughput_per_s(n)))
    }

    /// The limit of throughput with contention only: `g / a`. None without contention.
    pub fn contention_limit_per_s(&self) -> Option<f64> {
        (self.contention > 0.0).then(|| self.rate_at_one_per_s / self.contention)
    }

    /// The concurrency at which linear growth would reach that limit: `1 / a`. None without contention.
    pub fn contention_knee(&self) -> Option<f64> {
        (self.contention > 0.0).then(|| 1.0 / self.contention)
    }

    /// The smallest concurrency with the throughput `throughput_per_s`: the exact root on the increasing
    /// branch. None if it is never reached.
    pub fn concurrency_at_throughput(&self, throughput_per_s: f64) -> Option<f64> {
        let (a, b, x) = (self.contention, self.coherency, throughput_per_s);
        // b X N^2 - (g + b X - a X) N + (1 - a) X = 0.
        let linear = self.rate_at_one_per_s + b * x - a * x;
        smaller_root(b * x, linear, (1.0 - a) * x).filter(|n| *n >= 0.0)
    }

    /// The throughput at which the mean response time (including think time) is `response_s`. None if it is
    /// shorter than that of a single user.
    pub fn throughput_at_response(&self, response_s: f64) -> Option<f64> {
        let (a, b) = (self.contention, self.coherency);
        // b N^2 + (a - b) N + 1 - a - g R = 0, of which N is the positive root.
        let constant = self.rate_at_one_per_s * response_s - (1.0 - a);
        let n = match b > 0.0 {
            true => ((b - a) + ((a - b).powi(2) + 4.0 * b * constant).sqrt()) / (2.0 * b),
            false => constant / a,
        };
        (n >= 1.0 && n.is_finite()).then(|| n / response_s)
    }

    /// Partial derivatives of the throughput by contention, coherency and rate at one.
    fn gradient(&self, n: f64) -> [f64; 3] {
        let penalty = self.penalty(n);
        let by_penalty = -self.rate_at_one_per_s * n / (penalty * penalty);
        [by_penalty * (n - 1.0), by_penalty * n * (n - 1.0), n / penalty]
    }
}

/// The smaller root of `square x^2 - linear x + constant = 0` with positive `linear`, without cancellation.
fn smaller_root(square: f64, linear: f64, constant: f64) -> Option<f64> {
    let discriminant = linear * linear - 4.0 * square * constant;
    let root = 2.0 * constant / (linear + discriminant.sqrt());
    (linear > 0.0 && discriminant >= 0.0 && root.is_finite()).then_some(root)
}

/// The parameters to be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All three.
    Universal,
    /// Contention and rate at one; coherency is 0.
    Amdahl,
    /// Contention and coherency; the rate at one is the measured one, which requires a point at 1.
    Relative,
}

/// The law fitted to measured points.
#[derive(Clone, Debug)]
pub struct ScalabilityFit {
    /// The law.
    pub law: Scalability,
    /// Contention with its 95 % interval, truncated at 0.
    pub contention: Estimate,
    /// Coherency with its 95 % interval, truncated at 0.
    pub coherency: Estimate,
    /// Rate at one with its 95 % interval, truncated at 0.
    pub rate_at_one_per_s: Estimate,
    /// Standard errors of the three parameters; 0 for parameters that were not fitted, or without a degree of
    /// freedom.
    pub stderrs: [f64; 3],
    /// The goodness of fit and the fitted range.
    pub fitted: Fitted,
    solution: Solution,
    /// Indexes of the fitted parameters, in order.
    free: &'static [usize],
}

/// The maximum of throughput, inside the measured range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Concurrency at the peak, with its 95 % interval by the delta method.
    pub concurrency: Estimate,
    /// Throughput at the peak, with the interval of the curve.
    pub throughput_per_s: Estimate,
}

/// Why no peak is claimed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoPeak {
    /// The interval of coherency includes 0: a decrease of throughput is not shown.
    CoherencyNotShown,
    /// The peak would be outside the measured range, at this concurrency.
    OutsideData(f64),
}

/// Elasticity with respect to load above which throughput still grows with the load.
pub const GROWING: f64 = 0.8;
/// Elasticity with respect to load below which throughput does not grow any more.
pub const SATURATED: f64 = 0.2;

/// The growth at the last points of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Throughput is still nearly proportional to the load: no limit was seen.
    Linear,
    /// More load increases throughput less than proportionally.
    Bending,
    /// More load does not increase throughput, or decreases it.
    Saturated,
}

impl Growth {
    /// Classifies the elasticity of throughput with respect to load.
    pub fn of(elasticity: f64) -> Self {
        match elasticity {
            e if e > GROWING => Growth::Linear,
            e if e < SATURATED => Growth::Saturated,
            _ => Growth::Bending,
        }
    }
}

/// Fits the law by least squares, with contention and coherency of at least 0. None if there are fewer points
/// or different concurrencies than parameters, or if values are not valid throughputs.
pub fn fit(points: &[Point], form: Form) -> Option<ScalabilityFit> {
    let points = checked(points);
    let free: &'static [usize] = match form {
        Form::Universal => &[0, 1, 2],
        Form::Amdahl => &[0, 2],
        Form::Relative => &[0, 1],
    };
    if super::levels(&points) < free.len() {
        return None;
    }
    let at_one = match form {
        Form::Relative => {
            let ones: Vec<f64> =
                points.iter().filter(|p| p.concurrency == 1.0).map(|p| p.throughput_per_s).collect();
            crate::statistics::mean(&ones)?
        }
        _ => points.iter().map(|p| p.throughput_per_s / p.concurrency).fold(0.0, f64::max),
    };
    let whole = |parameters: &[f64]| {
        let mut law = [0.0, 0.0, at_one];
        for (at, value) in free.iter().zip(parameters) {
            law[*at] = *value;
        }
        Scalability { contention: law[0], coherency: law[1], rate_at_one_per_s: law[2] }
    };
    let values: Vec<f64> = points.iter().map(|point| point.throughput_per_s).collect();
    let curve = |parameters: &[f64]| {
        let law = whole(parameters);
        let gradient = |point: &Point| {
            let all = law.gradient(point.concurrency);
            free.iter().map(|at| all[*at]).collect::<Vec<f64>>()
        };
        let fitted = points.iter().map(|point| law.throughput_per_s(point.concurrency)).collect();
        (fitted, points.iter().map(gradient).collect())
    };
    let lower = vec![0.0; free.len()];
    // Several starts, because the error surface has a long flat valley if the data hardly bend.
    let starts = [[0.02, 0.001, at_one], [0.0, 0.0, at_one], [0.3, 0.0, at_one], [0.0, 0.01, at_one]];
    let linear = linear_start(&points);
    let solution = starts
        .into_iter()
        .chain(linear)
        .filter_map(|start| {
            let start: Vec<f64> = free.iter().map(|at| start[*at]).collect();
            least_squares::curve(&values, &start, &lower, curve)
        })
        .min_by(|a, b| a.residual_sum.total_cmp(&b.residual_sum))?;
    let law = whole(&solution.parameters);
    if !(law.rate_at_one_per_s > 0.0) {
        return None;
    }
    let fitted = Fitted::new(&points, |n| law.throughput_per_s(n), solution.residual_stderr());
    let mut fit = ScalabilityFit {
        law,
        contention: Estimate::exact(law.contention),
        coherency: Estimate::exact(law.coherency),
        rate_at_one_per_s: Estimate::exact(law.rate_at_one_per_s),
        stderrs: [0.0; 3],
        fitted,
        solution,
        free,
    };
    for (place, &at) in free.iter().enumerate() {
        let unit: Vec<f64> = (0..free.len()).map(|i| f64::from(u8::from(i == place))).collect();
        let stderr = fit.solution.stderr(&unit);
        let interval = fit.interval(fit.solution.parameters[place], stderr, 0.0);
        fit.stderrs[at] = stderr.unwrap_or(0.0);
        match at {
            0 => fit.contention = interval,
            1 => fit.coherency = interval,
            _ => fit.rate_at_one_per_s = interval,
        }
    }
    Some(fit)
}

/// The parameters from the linear regression `N / X = 1/g (1 - a) + ...` in 1, N and N^2, which is accurate
/// if the noise is low.
fn linear_start(points: &[Point]) -> Option<[f64; 3]> {
    let rows: Vec<Vec<f64>> = points
        .iter()
        .map(|point| {
            let n = point.concurrency;
            vec![1.0, n - 1.0, n * (n - 1.0)]
        })
        .collect();
    let inverse_rates: Vec<f64> =
        points.iter().map(|point| point.concurrency / point.throughput_per_s).collect();
    let line = least_squares::line(&rows, &inverse_rates)?;
    let first = *line.parameters.first().filter(|first| **first > 0.0)?;
    Some([line.parameters[1] / first, line.parameters[2] / first, 1.0 / first])
}

impl ScalabilityFit {
    fn interval(&self, value: f64, stderr: Option<f64>, lowest: f64) -> Estimate {
        let Some(stderr) = stderr.filter(|_| self.solution.degrees > 0) else {
            return Estimate { value, low: lowest, high: f64::INFINITY };
        };
        let half = student_t_quantile(0.5 + 0.5 * CONFIDENCE, self.solution.degrees as f64) * stderr;
        Estimate { value, low: (value - half).max(lowest), high: value + half }
    }

    /// The standard error of the fitted curve, by the delta method. None without a degree of freedom.
    pub fn throughput_stderr_per_s(&self, concurrency: f64) -> Option<f64> {
        let all = self.law.gradient(concurrency);
        let gradient: Vec<f64> = self.free.iter().map(|at| all[*at]).collect();
        self.solution.stderr(&gradient)
    }

    /// Throughput of the fitted curve with its 95 % interval for noise, provided that the law applies. It
    /// ignores the possibility of other laws; [`super::predict`] includes it.
    pub fn throughput_per_s(&self, concurrency: f64) -> Estimate {
        self.interval(self.law.throughput_per_s(concurrency), self.throughput_stderr_per_s(concurrency), 0.0)
    }

    /// The maximum of throughput.
    ///
    /// # Errors
    /// When the interval of coherency includes 0, or the peak is outside the measured range.
    pub fn peak(&self) -> Result<Peak, NoPeak> {
        let Some((n, _)) = self.law.peak().filter(|_| self.coherency.low > 0.0) else {
            return Err(NoPeak::CoherencyNotShown);
        };
        if !self.fitted.covers(n) {
            return Err(NoPeak::OutsideData(n));
        }
        let (a, b) = (self.law.contention, self.law.coherency);
        let all = [-0.5 * n / (1.0 - a), -0.5 * n / b, 0.0];
        let gradient: Vec<f64> = self.free.iter().map(|at| all[*at]).collect();
        let concurrency = self.interval(n, self.solution.stderr(&gradient), 0.0);
        Ok(Peak { concurrency, throughput_per_s: self.throughput_per_s(n) })
    }

    /// The growth of the curve beyond the largest measured load.
    pub fn growth(&self) -> Growth {
        Growth::of(self.law.elasticity(self.fitted.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Scalability = Scalability { contention: 0.03, coherency: 0.0005, rate_at_one_per_s: 100.0 };

    fn sweep(law: Scalability, levels: &[f64]) -> Vec<Point> {
        levels.iter().map(|n| Point { concurrency: *n, throughput_per_s: law.throughput_per_s(*n) }).collect()
    }

    #[test]
    fn inverse_functions_are_exact() {
        let peak = LAW.peak().unwrap();
        assert!((peak.0 - (0.97_f64 / 0.0005).sqrt()).abs() < 1e-9);
        for n in [1.0, 2.0, 7.5, 40.0] {
            let x = LAW.throughput_per_s(n);
            assert!((LAW.concurrency_at_throughput(x).unwrap() - n).abs() < 1e-9);
            assert!((LAW.throughput_at_response(LAW.response_s(n)).unwrap() - x).abs() < 1e-9);
            let step = 1e-5;
            let slope = (LAW.throughput_per_s(n * (1.0 + step)) / x).ln() / step.ln_1p();
            assert!((LAW.elasticity(n) - slope).abs() < 1e-4);
        }
        assert_eq!(LAW.concurrency_at_throughput(peak.1 * 1.001), None);
        assert_eq!(LAW.throughput_at_response(0.009), None);
        let amdahl = Scalability { coherency: 0.0, ..LAW };
        assert_eq!(amdahl.peak(), None);
        assert!(
            (amdahl.concurrency_at_throughput(amdahl.throughput_per_s(50.0)).unwrap() - 50.0).abs() < 1e-9
        );
        assert!(
            (amdahl.throughput_at_response(amdahl.response_s(50.0)).unwrap() - amdahl.throughput_per_s(50.0))
                .abs()
                < 1e-9
        );
    }

    #[test]
    fn peaks_are_claimed_only_where_they_were_seen() {
        let noisy = |levels: &[f64]| {
            let mut points = sweep(LAW, levels);
            let signs = [1.0, -1.0, -1.0, 1.0].into_iter().cycle();
            points
                .iter_mut()
                .zip(signs)
                .for_each(|(point, sign)| point.throughput_per_s *= 1.0 + 0.002 * sign);
            fit(&points, Form::Universal).unwrap()
        };
        let levels = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 96.0];
        let seen = noisy(&levels);
        let peak = seen.peak().unwrap();
        assert!(peak.concurrency.low < 44.05 && peak.concurrency.high > 44.05, "{peak:?}");
        assert_eq!(seen.growth(), Growth::Saturated);
        // Up to 32 the bend is clear, but the peak at 44 is not reached.
        assert!(matches!(noisy(&levels[..6]).peak(), Err(NoPeak::OutsideData(n)) if n > 32.0 && n < 60.0));
        // Up to 4, coherency cannot be distinguished from noise.
        assert_eq!(noisy(&levels[..4]).peak(), Err(NoPeak::CoherencyNotShown));
        assert_eq!(Growth::of(LAW.elasticity(2.0)), Growth::Linear);
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let two = sweep(LAW, &[1.0, 2.0]);
        assert!(fit(&two, Form::Universal).is_none());
        assert!(fit(&two, Form::Amdahl).is_some());
        assert!(fit(&sweep(LAW, &[2.0, 3.0, 4.0]), Form::Relative).is_none());
        let junk = |x: f64| Point { concurrency: x, throughput_per_s: x };
        assert!(fit(&[junk(f64::NAN), junk(-1.0), junk(0.0), junk(f64::INFINITY)], Form::Amdahl).is_none());
        // Three equal levels count as one.
        assert!(fit(&sweep(LAW, &[3.0, 3.0, 3.0]), Form::Universal).is_none());
    }

    proptest::proptest! {
        #[test]
        fn planted_parameters_are_found(a in 0.0f64..0.3, b in 0.0f64..0.01, g in 0.01f64..1e6) {
            let law = Scalability { contention: a, coherency: b, rate_at_one_per_s: g };
            let fit = fit(&sweep(law, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), Form::Universal).unwrap();
            proptest::prop_assert!((fit.law.contention - a).abs() < 1e-6, "{:?} {:?}", fit.law, law);
            proptest::prop_assert!((fit.law.coherency - b).abs() < 1e-7);
            proptest::prop_assert!((fit.law.rate_at_one_per_s / g - 1.0).abs() < 1e-6);
        }
    }
}
