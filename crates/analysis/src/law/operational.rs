//! The operational laws, which apply to any system over any period, because they only count.
//!
//! Denning and Buzen, ACM Computing Surveys 10 (1978).

use model::Estimate;

use super::least_squares;
use crate::statistics::{CONFIDENCE, student_t_quantile};

/// Throughput: completions divided by time.
pub fn throughput_per_s(completions: u64, seconds: f64) -> f64 {
    completions as f64 / seconds
}

/// The utilization law: `U = X D`, in busy servers.
pub fn utilization(throughput_per_s: f64, demand_s: f64) -> f64 {
    throughput_per_s * demand_s
}

/// The demand law: `D = U / X`, seconds of the resource per operation.
pub fn demand_s(utilization: f64, throughput_per_s: f64) -> f64 {
    utilization / throughput_per_s
}

/// The forced flow law: a resource with `V` visits per operation completes `V X` per second.
pub fn visits_per_s(throughput_per_s: f64, visits: f64) -> f64 {
    throughput_per_s * visits
}

/// Little's law: `N = X (R + Z)`.
pub fn concurrency(throughput_per_s: f64, response_s: f64, think_s: f64) -> f64 {
    throughput_per_s * (response_s + think_s)
}

/// The interactive response time law: `R = N / X - Z`.
pub fn response_s(users: f64, throughput_per_s: f64, think_s: f64) -> f64 {
    users / throughput_per_s - think_s
}

/// The service demand of an operation for a resource, from a regression of its use on throughput.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandFit {
    /// Demand per operation of each class, with its 95 % interval: seconds if the use is in busy servers.
    pub demands: Vec<Estimate>,
    /// Their standard errors.
    pub stderrs: Vec<f64>,
    /// The use without load, with its interval.
    pub background: Estimate,
    /// Its standard error.
    pub background_stderr: f64,
    /// Residual standard error, in the unit of the use.
    pub residual_stderr: f64,
    /// Number of observations.
    pub points: usize,
    /// The largest error in a leave-one-out prediction, as a share of the observation. It is large if the
    /// demand depends on the load.
    pub left_out_error: f64,
}

/// Regresses the use of a resource on throughput: `U = U0 + sum D_c X_c`. `rates_per_s` has one row per
/// observation with the throughput of each class; `uses` has the use in busy servers. If the use is in bytes
/// per second or operations per second, the demand is in bytes or operations per operation. None for fewer
/// than two more observations than classes, or if the classes are collinear.
pub fn fit_demand(rates_per_s: &[Vec<f64>], uses: &[f64]) -> Option<DemandFit> {
    let finite = rates_per_s.iter().flatten().chain(uses).all(|value| value.is_finite());
    let classes = rates_per_s.first()?.len();
    if !finite || rates_per_s.iter().any(|row| row.len() != classes) || uses.len() < classes + 2 {
        return None;
    }
    let rows: Vec<Vec<f64>> =
        rates_per_s.iter().map(|rates| [1.0].iter().chain(rates).copied().collect()).collect();
    let solution = least_squares::line(&rows, uses)?;
    let residual_stderr = solution.residual_stderr()?;
    let t = student_t_quantile(0.5 + 0.5 * CONFIDENCE, solution.degrees as f64);
    let estimates: Vec<(Estimate, f64)> = (0..=classes)
        .map(|at| {
            let unit: Vec<f64> = (0..=classes).map(|i| f64::from(u8::from(i == at))).collect();
            let stderr = solution.stderr(&unit)?;
            let value = solution.parameters[at];
            Some((Estimate { value, low: value - t * stderr, high: value + t * stderr }, stderr))
        })
        .collect::<Option<_>>()?;
    let left_out = (0..uses.len()).filter_map(|out| {
        let others = |at: &usize| *at != out;
        let rest: Vec<Vec<f64>> = (0..uses.len()).filter(others).map(|at| rows[at].clone()).collect();
        let values: Vec<f64> = (0..uses.len()).filter(others).map(|at| uses[at]).collect();
        let fit = least_squares::line(&rest, &values)?;
        let predicted: f64 = fit.parameters.iter().zip(&rows[out]).map(|(p, x)| p * x).sum();
        (uses[out] != 0.0).then(|| (predicted / uses[out] - 1.0).abs())
    });
    let left_out_error = left_out.fold(0.0, f64::max);
    let (background, background_stderr) = *estimates.first()?;
    Some(DemandFit {
        demands: estimates[1..].iter().map(|(estimate, _)| *estimate).collect(),
        stderrs: estimates[1..].iter().map(|(_, stderr)| *stderr).collect(),
        background,
        background_stderr,
        residual_stderr,
        points: uses.len(),
        left_out_error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn laws_are_each_others_inverse() {
        assert_eq!(demand_s(utilization(50.0, 0.012), 50.0), 0.012);
        assert_eq!(response_s(concurrency(10.0, 0.5, 3.5), 10.0, 3.5), 0.5);
        assert_eq!((throughput_per_s(13_680, 3600.0), visits_per_s(3.8, 2.0)), (3.8, 7.6));
    }

    #[test]
    fn planted_demands_and_background_are_covered() {
        // 0.3 CPUs of background use, 5 ms and 20 ms of CPU time per operation of two classes; 300
        // regressions.
        let mut random = Random::new(17);
        let (mut covered, mut error) = ([0; 3], 0.0_f64);
        for _ in 0..300 {
            let rates: Vec<Vec<f64>> =
                (1..=8).map(|level| vec![10.0 * f64::from(level), 30.0 * random.unit()]).collect();
            let uses: Vec<f64> =
                rates.iter().map(|r| 0.3 + 0.005 * r[0] + 0.020 * r[1] + 0.01 * random.normal()).collect();
            let fit = fit_demand(&rates, &uses).unwrap();
            for (at, (estimate, truth)) in
                [(fit.background, 0.3), (fit.demands[0], 0.005), (fit.demands[1], 0.020)].iter().enumerate()
            {
                covered[at] += usize::from(estimate.low <= *truth && *truth <= estimate.high);
            }
            error = error.max(fit.left_out_error);
        }
        // 95 % of 300 is 285; three standard deviations are 11.
        assert!(covered.iter().all(|covered| (274..=296).contains(covered)), "{covered:?}");
        assert!(error < 0.3, "{error}");
    }

    #[test]
    fn a_demand_that_depends_on_the_load_is_seen() {
        let rates: Vec<Vec<f64>> = (1..=6).map(|level| vec![f64::from(level)]).collect();
        let straight: Vec<f64> = (1..=6).map(|level| 0.1 * f64::from(level)).collect();
        let growing: Vec<f64> = (1..=6).map(|level| 0.1 * f64::from(level).powi(3)).collect();
        assert!(fit_demand(&rates, &straight).unwrap().left_out_error < 1e-9);
        assert!(fit_demand(&rates, &growing).unwrap().left_out_error > 0.3);
        assert_eq!(fit_demand(&rates[..2], &straight[..2]), None);
        assert_eq!(fit_demand(&[vec![1.0], vec![1.0], vec![1.0]], &[1.0, 2.0, 3.0]), None);
        assert_eq!(fit_demand(&[], &[]), None);
    }
}
