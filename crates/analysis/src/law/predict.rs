//! Predicts the throughput of a system at a load that was not measured, with an honest interval.
//!
//! The interval of one fitted curve is too narrow: it includes the noise, but not the possibility that
//! another law applies. Here several laws are fitted. Each predicts the last points of the sweep from the
//! first ones, and its error at that distance is recorded. The prediction is the mean of the laws, weighted
//! by these errors. Its interval includes the noise, the errors at this distance, and the disagreement of the
//! laws. There is no prediction beyond [`FARTHEST`] times the measured load.

use model::Estimate;

use super::mva::{Network, Station, USERS_MAX, solve};
use super::scalability::{self, Form, Growth};
use super::{Fitted, Point, checked, least_squares};
use crate::statistics::student_t_quantile;

/// Beyond this multiple of the largest measured load, a prediction is reported as an extrapolation.
pub const EXTRAPOLATED: f64 = 1.25;
/// Beyond this multiple of the largest measured load, there is no prediction.
pub const FARTHEST: f64 = 2.0;
/// The confidence level of the interval of a prediction.
pub const CONFIDENCE: f64 = 0.9;
/// Number of different loads that are required.
pub const LEVELS_MIN: usize = 4;
/// Limit of the error of the best law at the measured points, as a share of them; above it, no law fits.
pub const MISFIT: f64 = 0.1;

/// The prior from published sweeps: the error of a prediction (one standard deviation of its logarithm) per
/// unit of the logarithm of the distance. In published sweeps, the median error was 3 % at up to 1.25 times
/// the last load and 13 % at up to 2 times; 90 % of the errors were within 8 % and 18 %.
const ERROR_PER_DISTANCE: f64 = 0.2;
/// The weight of the prior, as a number of predictions at 1.5 times the last load.
const EXPERIENCE: f64 = 4.0;
/// Degrees of freedom of the interval: the errors of few predictions are not known better.
const DEGREES: f64 = 6.0;
/// Limit of the loads that are left out one after the other.
const LEFT_OUT_MAX: usize = 10;
/// Limit of the users up to which multi-server stations are solved exactly.
const USERS_MAX_EXACT: u32 = 150;
/// The least error that is assumed for a law.
const LEAST_ERROR: f64 = 0.01;

/// A law in the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The universal scalability law.
    Scalability,
    /// Amdahl's law: contention only.
    Amdahl,
    /// The asymptotic bounds: proportional to the load, then constant.
    Bounds,
    /// A closed network of one queue and a delay, by mean value analysis.
    ClosedQueue,
    /// A closed network of the measured demands and a delay.
    MeasuredDemands,
}

impl Law {
    /// All laws.
    pub const ALL: [Law; 5] =
        [Law::Scalability, Law::Amdahl, Law::Bounds, Law::ClosedQueue, Law::MeasuredDemands];

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Law::Scalability => "universal scalability law",
            Law::Amdahl => "Amdahl's law",
            Law::Bounds => "asymptotic bounds",
            Law::ClosedQueue => "closed queue (MVA)",
            Law::MeasuredDemands => "measured demands (MVA)",
        }
    }

    /// Number of different loads that it requires: one more than its parameters.
    fn levels_min(self) -> usize {
        match self {
            Law::Scalability => 4,
            Law::Amdahl | Law::Bounds | Law::ClosedQueue => 3,
            Law::MeasuredDemands => 2,
        }
    }
}

/// A fitted law.
#[derive(Clone, Debug)]
enum Curve {
    Scalability(scalability::Scalability),
    Bounds { rate_at_one_per_s: f64, highest_per_s: f64 },
    Network(Network),
}

impl Curve {
    fn throughputs(&self, loads: &[f64]) -> Option<Vec<f64>> {
        match self {
            Curve::Scalability(law) => Some(loads.iter().map(|load| law.throughput_per_s(*load)).collect()),
            Curve::Bounds { rate_at_one_per_s, highest_per_s } => {
                Some(loads.iter().map(|load| (rate_at_one_per_s * load).min(*highest_per_s)).collect())
            }
            Curve::Network(network) => network_throughputs(network, loads),
        }
    }

    fn throughput(&self, load: f64) -> Option<f64> {
        let value = *self.throughputs(&[load])?.first()?;
        (value > 0.0 && value.is_finite()).then_some(value)
    }
}

/// Throughputs of a closed network, linearly interpolated between integer numbers of users.
fn network_throughputs(network: &Network, loads: &[f64]) -> Option<Vec<f64>> {
    let users = loads.iter().copied().fold(1.0, f64::max).ceil();
    if users > f64::from(USERS_MAX) {
        return None;
    }
    // A fit solves the network hundreds of times, and the exact solution is slow with several servers and
    // many users.
    let single = (users > f64::from(USERS_MAX_EXACT)).then(|| network.with_single_servers());
    let rates: Vec<f64> = std::iter::once(0.0)
        .chain(
            solve(single.as_ref().unwrap_or(network), users as u32)?
                .into_iter()
                .map(|solution| solution.throughput_per_s),
        )
        .collect();
    let between = |load: &f64| {
        let below = load.max(0.0).floor();
        let (from, to) = (rates[below as usize], rates[(below as usize + 1).min(rates.len() - 1)]);
        from + (load - below) * (to - from)
    };
    Some(loads.iter().map(between).collect())
}

/// Fits one law; `demands` are the measured stations, for the law that needs them.
fn fit(law: Law, points: &[Point], demands: Option<&[Station]>) -> Option<Curve> {
    if super::levels(points) < law.levels_min() {
        return None;
    }
    match law {
        Law::Scalability => Some(Curve::Scalability(scalability::fit(points, Form::Universal)?.law)),
        Law::Amdahl => Some(Curve::Scalability(scalability::fit(points, Form::Amdahl)?.law)),
        Law::Bounds => bounds(points),
        Law::ClosedQueue => closed_queue(points),
        Law::MeasuredDemands => measured_demands(points, demands?),
    }
}

/// The two straight lines with the least relative error: the first points are on the increasing line, the
/// others on the constant one; at least the first point is on the increasing line.
fn bounds(points: &[Point]) -> Option<Curve> {
    let log_mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value.ln(), count + 1));
        (count > 0).then(|| (sum / f64::from(count)).exp())
    };
    let candidates = (1..=points.len()).filter_map(|rising| {
        let (first, rest) = points.split_at(rising);
        let rate_at_one_per_s = log_mean(&mut first.iter().map(|p| p.throughput_per_s / p.concurrency))?;
        let highest_per_s = log_mean(&mut rest.iter().map(|p| p.throughput_per_s)).unwrap_or(f64::INFINITY);
        Some(Curve::Bounds { rate_at_one_per_s, highest_per_s })
    });
    let misfit = |curve: &Curve| {
        let missed =
            |p: &Point| (curve.throughput(p.concurrency).unwrap_or(f64::NAN) / p.throughput_per_s).ln();
        points.iter().map(|point| missed(point).powi(2)).sum::<f64>()
    };
    candidates.min_by(|a, b| misfit(a).total_cmp(&misfit(b)))
}

/// Fits times in a closed network by relative residuals, with a numerical Jacobian.
fn fit_network(
    points: &[Point],
    start: &[f64],
    network: impl Fn(&[f64]) -> Network,
) -> Option<(Network, f64)> {
    let loads: Vec<f64> = points.iter().map(|point| point.concurrency).collect();
    let relative = |parameters: &[f64]| -> Vec<f64> {
        match network_throughputs(&network(parameters), &loads) {
            Some(rates) => {
                rates.iter().zip(points).map(|(rate, point)| rate / point.throughput_per_s).collect()
            }
            None => vec![f64::NAN; points.len()],
        }
    };
    let scale = start.iter().copied().fold(0.0, f64::max);
    let curve = |parameters: &[f64]| {
        let values = relative(parameters);
        let mut jacobian = vec![Vec::with_capacity(parameters.len()); points.len()];
        for at in 0..parameters.len() {
            let step = 1e-5 * parameters[at].max(1e-2 * scale);
            let mut moved = parameters.to_vec();
            moved[at] += step;
            for ((row, new), old) in jacobian.iter_mut().zip(relative(&moved)).zip(&values) {
                row.push((new - old) / step);
            }
        }
        (values, jacobian)
    };
    let solution = least_squares::curve(&vec![1.0; points.len()], start, &vec![0.0; start.len()], curve)?;
    Some((network(&solution.parameters), solution.residual_sum))
}

fn closed_queue(points: &[Point]) -> Option<Curve> {
    // The shortest round trip, either all service time or mostly delay.
    let round_s = points.iter().map(|p| p.concurrency / p.throughput_per_s).fold(f64::INFINITY, f64::min);
    let network = |times: &[f64]| Network {
        stations: vec![Station { demand_s: times[0].max(1e-9 * round_s), servers: 1 }],
        think_s: times[1],
    };
    let starts = [[0.5 * round_s, 0.5 * round_s], [0.02 * round_s, round_s]];
    let fits = starts.iter().filter_map(|start| fit_network(points, start, network));
    fits.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(network, _)| Curve::Network(network))
}

fn measured_demands(points: &[Point], demands: &[Station]) -> Option<Curve> {
    let demanded_s: f64 = demands.iter().map(|station| station.demand_s).sum();
    let round_s = points.iter().map(|p| p.concurrency / p.throughput_per_s).fold(f64::INFINITY, f64::min);
    let network = |times: &[f64]| Network { stations: demands.to_vec(), think_s: times[0] };
    let start = [(round_s - demanded_s).max(1e-3 * round_s)];
    fit_network(points, &start, network).map(|(network, _)| Curve::Network(network))
}

/// The prediction of one law.
#[derive(Clone, Debug, PartialEq)]
pub struct LawAnswer {
    /// The law.
    pub law: Law,
    /// The predicted throughput.
    pub throughput_per_s: f64,
    /// Its weight; all weights add up to 1.
    pub weight: f64,
    /// The goodness of fit and the fitted range.
    pub fitted: Fitted,
    /// Root mean square of the relative errors when the last points were left out; none if it could not be
    /// fitted to fewer points.
    pub left_out_error: Option<f64>,
}

/// A predicted throughput at a load that was not measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The load.
    pub concurrency: f64,
    /// The weighted mean of the laws, with the 90 % interval.
    pub throughput_per_s: Estimate,
    /// The load divided by the largest measured one.
    pub distance: f64,
    /// Whether it is beyond [`EXTRAPOLATED`], which must be reported with the number.
    pub extrapolated: bool,
    /// The largest prediction divided by the smallest, minus 1, among the laws with a weight of at least 0.1.
    pub disagreement: f64,
    /// The growth at the last measured points. If it is [`Growth::Linear`], no limit was seen; one may be
    /// just beyond them, which no law can know.
    pub growth: Growth,
    /// The prediction of each law, in descending order of weight.
    pub laws: Vec<LawAnswer>,
}

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Fewer than [`LEVELS_MIN`] different loads were measured; contains their number.
    TooFewLevels(usize),
    /// The law with the best fit misses the measured points by this share.
    NoLawFits(f64),
    /// The load is too far from the measured ones; contains the largest supported load.
    TooFar(f64),
}

/// A sweep with its fitted laws.
#[derive(Clone, Debug)]
pub struct Predictor {
    points: Vec<Point>,
    high: f64,
    growth: Growth,
    laws: Vec<Member>,
}

#[derive(Clone, Debug)]
struct Member {
    law: Law,
    curve: Curve,
    fitted: Fitted,
    left_out_error: Option<f64>,
    /// Variance of the logarithm of a prediction per squared unit of the logarithm of the distance.
    per_distance: f64,
}

impl Member {
    fn variance(&self, distance: f64) -> f64 {
        let far = distance.max(1.0).ln();
        self.per_distance * far * far + self.fitted.relative_error.powi(2) + LEAST_ERROR * LEAST_ERROR
    }
}

impl Predictor {
    /// Fits the laws to the points of a sweep over closed load. `demands` are the resources with measured
    /// demands, if any, which [`Law::MeasuredDemands`] needs.
    ///
    /// # Errors
    /// When there are too few different loads, or no law fits.
    pub fn new(points: &[Point], demands: Option<&[Station]>) -> Result<Self, Refusal> {
        let points = checked(points);
        let levels = super::levels(&points);
        if levels < LEVELS_MIN {
            return Err(Refusal::TooFewLevels(levels));
        }
        let laws: Vec<Member> =
            Law::ALL.into_iter().filter_map(|law| member(law, &points, demands)).collect();
        let best = laws.iter().map(|member| member.fitted.relative_error).fold(f64::INFINITY, f64::min);
        if !(best <= MISFIT) {
            return Err(Refusal::NoLawFits(best));
        }
        let high = points.iter().map(|point| point.concurrency).fold(0.0, f64::max);
        let mut predictor = Predictor { points, high, growth: Growth::Bending, laws };
        predictor.growth = predictor.growth_at_end();
        Ok(predictor)
    }

    /// The elasticity of throughput with respect to load over the last doubling of the load, according to the
    /// mean of the laws.
    fn growth_at_end(&self) -> Growth {
        let low = 0.5 * self.high;
        match (self.mean(self.high), self.mean(low.max(1.0))) {
            (Some(last), Some(half)) => Growth::of((last - half) / (self.high / low.max(1.0)).ln().max(1e-9)),
            _ => Growth::Bending,
        }
    }

    /// The effect of more load at the end of the measured range.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// The measured points, in ascending order of load.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The part of a round trip that is spent at none of the measured resources, seconds. None without them,
    /// or if a network of them misses the points by more than [`MISFIT`].
    pub fn measured_delay_s(&self) -> Option<f64> {
        let member = self.laws.iter().find(|member| member.law == Law::MeasuredDemands)?;
        match &member.curve {
            Curve::Network(network) if member.fitted.relative_error <= MISFIT => Some(network.think_s),
            _ => None,
        }
    }

    fn answers(&self, concurrency: f64) -> Vec<(&Member, f64, f64)> {
        let distance = concurrency / self.high;
        let answers: Vec<(&Member, f64, f64)> = self
            .laws
            .iter()
            .filter(|member| member.fitted.relative_error <= MISFIT)
            .filter_map(|member| {
                let value = member.curve.throughput(concurrency)?;
                // Twice the error gives a sixteenth of the weight: a law that failed here should have hardly
                // any influence.
                Some((member, value.ln(), member.variance(distance.max(EXTRAPOLATED)).powi(-2)))
            })
            .collect();
        let sum: f64 = answers.iter().map(|(_, _, weight)| weight).sum();
        answers.into_iter().map(|(member, log, weight)| (member, log, weight / sum)).collect()
    }

    /// The logarithm of the weighted mean of the laws.
    fn mean(&self, concurrency: f64) -> Option<f64> {
        let answers = self.answers(concurrency);
        (!answers.is_empty()).then(|| answers.iter().map(|(_, log, weight)| weight * log).sum())
    }

    /// Predicts the throughput at a concurrency.
    ///
    /// # Errors
    /// When it is more than [`FARTHEST`] times the largest measured one, or invalid.
    pub fn throughput(&self, concurrency: f64) -> Result<Prediction, Refusal> {
        let distance = concurrency / self.high;
        if !(concurrency > 0.0 && distance <= FARTHEST) {
            return Err(Refusal::TooFar(FARTHEST * self.high));
        }
        let answers = self.answers(concurrency);
        let mean: f64 = answers.iter().map(|(_, log, weight)| weight * log).sum();
        let variance: f64 = answers
            .iter()
            .map(|(member, log, weight)| weight * (member.variance(distance) + (log - mean).powi(2)))
            .sum();
        let half = reach(variance.sqrt());
        let mut laws: Vec<LawAnswer> = answers
            .iter()
            .map(|(member, log, weight)| LawAnswer {
                law: member.law,
                throughput_per_s: log.exp(),
                weight: *weight,
                fitted: member.fitted,
                left_out_error: member.left_out_error,
            })
            .collect();
        laws.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let heavy = || laws.iter().filter(|law| law.weight >= 0.1).map(|law| law.throughput_per_s);
        let disagreement = heavy().fold(0.0, f64::max) / heavy().fold(f64::INFINITY, f64::min) - 1.0;
        let value = mean.exp();
        if !value.is_finite() || laws.is_empty() {
            return Err(Refusal::NoLawFits(f64::INFINITY));
        }
        Ok(Prediction {
            concurrency,
            throughput_per_s: Estimate { value, low: (mean - half).exp(), high: (mean + half).exp() },
            distance,
            extrapolated: distance > EXTRAPOLATED,
            disagreement,
            growth: self.growth,
            laws,
        })
    }
}

/// The half-width of the interval of a prediction, for a logarithm with this standard deviation.
pub(crate) fn reach(deviation: f64) -> f64 {
    student_t_quantile(0.5 + 0.5 * CONFIDENCE, DEGREES) * deviation
}

/// A law with its errors when the last loads were left out.
fn member(law: Law, points: &[Point], demands: Option<&[Station]>) -> Option<Member> {
    let curve = fit(law, points, demands)?;
    let fitted = Fitted::new(points, |load| curve.throughput(load).unwrap_or(f64::NAN), None);
    if !fitted.relative_error.is_finite() {
        return None;
    }
    let errors = left_out_errors(law, points, demands);
    let far = 1.5_f64.ln().powi(2);
    let noise = 2.0 * fitted.relative_error.powi(2);
    let squared: f64 = errors.iter().map(|(_, error)| (error * error - noise).max(0.0)).sum();
    let distances: f64 = errors.iter().map(|(far, _)| far * far).sum();
    let prior = EXPERIENCE * far;
    let per_distance = (prior * ERROR_PER_DISTANCE.powi(2) + squared) / (prior + distances);
    let mean_square = |sum: f64| (sum / errors.len() as f64).sqrt();
    let left_out_error =
        (!errors.is_empty()).then(|| mean_square(errors.iter().map(|(_, error)| error * error).sum()));
    Some(Member { law, curve, fitted, left_out_error, per_distance })
}

/// For each of the last loads, left out together with all higher ones: the logarithms of distance and error
/// of every prediction up to [`FARTHEST`].
fn left_out_errors(law: Law, points: &[Point], demands: Option<&[Station]>) -> Vec<(f64, f64)> {
    let ends: Vec<usize> =
        (1..points.len()).filter(|at| points[at - 1].concurrency < points[*at].concurrency).collect();
    let mut errors = Vec::new();
    for end in ends.iter().rev().take(LEFT_OUT_MAX) {
        let (kept, left_out) = points.split_at(*end);
        let Some(curve) = fit(law, kept, demands) else { break };
        let Some(last) = kept.last() else { break };
        for point in left_out {
            let distance = point.concurrency / last.concurrency;
            if distance <= 1.05 * FARTHEST
                && let Some(predicted) = curve.throughput(point.concurrency)
            {
                errors.push((distance.ln(), (predicted / point.throughput_per_s).ln()));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<Point> {
        pairs.iter().map(|&(concurrency, throughput_per_s)| Point { concurrency, throughput_per_s }).collect()
    }

    #[test]
    fn each_law_finds_its_own_system() {
        let system = Network { stations: vec![Station { demand_s: 0.01, servers: 1 }], think_s: 0.1 };
        let loads = [1.0, 2.0, 4.0, 8.0, 12.0];
        let rates = network_throughputs(&system, &loads).unwrap();
        let sweep = points(&loads.iter().copied().zip(rates).collect::<Vec<_>>());
        let Some(Curve::Network(found)) = fit(Law::ClosedQueue, &sweep, None) else { panic!("no fit") };
        assert!(
            (found.stations[0].demand_s - 0.01).abs() < 1e-6 && (found.think_s - 0.1).abs() < 1e-5,
            "{found:?}"
        );
        let Some(Curve::Network(found)) = fit(Law::MeasuredDemands, &sweep, Some(&system.stations)) else {
            panic!("no fit")
        };
        assert!((found.think_s - 0.1).abs() < 1e-5, "{found:?}");
        let flat = points(&[(1.0, 10.0), (2.0, 20.0), (4.0, 38.0), (8.0, 38.5), (16.0, 37.5)]);
        let Some(Curve::Bounds { rate_at_one_per_s, highest_per_s }) = fit(Law::Bounds, &flat, None) else {
            panic!("no fit")
        };
        assert!((rate_at_one_per_s - 10.0).abs() < 1e-9 && (highest_per_s - 38.0).abs() < 0.02);
    }

    #[test]
    fn what_is_too_far_or_fits_no_law_is_refused() {
        let system =
            scalability::Scalability { contention: 0.05, coherency: 0.001, rate_at_one_per_s: 100.0 };
        let loads = [1.0, 2.0, 4.0, 8.0, 16.0];
        let sweep = points(&loads.map(|n| (n, system.throughput_per_s(n))));
        let predictor = Predictor::new(&sweep, None).unwrap();
        let near = predictor.throughput(18.0).unwrap();
        assert!(!near.extrapolated && near.distance > 1.0);
        let far = predictor.throughput(32.0).unwrap();
        assert!(far.extrapolated && far.disagreement > 0.0, "{far:?}");
        let width = |p: &Prediction| p.throughput_per_s.high / p.throughput_per_s.low;
        assert!(width(&far) > 1.1 * width(&near), "{far:?} {near:?}");
        assert!((far.laws.iter().map(|law| law.weight).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(predictor.throughput(33.0), Err(Refusal::TooFar(32.0)));
        assert_eq!(predictor.throughput(f64::NAN), Err(Refusal::TooFar(32.0)));
        assert_eq!(Predictor::new(&sweep[..3], None).err(), Some(Refusal::TooFewLevels(3)));
        assert_eq!(Predictor::new(&[], None).err(), Some(Refusal::TooFewLevels(0)));
        // Throughput that collapses and recovers follows no capacity law.
        let broken =
            points(&[(1.0, 100.0), (2.0, 30.0), (4.0, 400.0), (8.0, 90.0), (16.0, 700.0), (32.0, 200.0)]);
        assert!(matches!(Predictor::new(&broken, None), Err(Refusal::NoLawFits(error)) if error > 0.3));
    }
}
