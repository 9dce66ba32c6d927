//! Capacity laws: each is a small module of pure functions, checked with published examples
//! (`tests/it/datasets.rs`). A fit always reports its goodness of fit and the fitted range.

pub mod bounds;
pub(crate) mod growth;
pub mod knee;
mod least_squares;
pub mod mva;
pub mod operational;
pub mod predict;
pub mod queue;
pub mod scalability;

pub(crate) use least_squares::line;

/// The planned utilization of a resource: above it, waits increase rapidly.
pub const PLANNED_UTILIZATION: f64 = 0.7;

/// The measurement at one level of closed load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Users, or operations in flight.
    pub concurrency: f64,
    /// Operations per second.
    pub throughput_per_s: f64,
}

/// The goodness of fit of a law, and the fitted range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// Number of fitted points.
    pub points: usize,
    /// Smallest load among them.
    pub low: f64,
    /// Largest load among them.
    pub high: f64,
    /// Residual standard error in the unit of the values; none if there are as many parameters as points.
    pub residual_stderr: Option<f64>,
    /// Root mean square of the relative residuals: 0.02 means a deviation of 2 %.
    pub relative_error: f64,
}

impl Fitted {
    fn new(points: &[Point], law: impl Fn(f64) -> f64, residual_stderr: Option<f64>) -> Self {
        let squares: f64 =
            points.iter().map(|point| (law(point.concurrency) / point.throughput_per_s - 1.0).powi(2)).sum();
        let loads = points.iter().map(|point| point.concurrency);
        Fitted {
            points: points.len(),
            low: loads.clone().fold(f64::INFINITY, f64::min),
            high: loads.fold(0.0, f64::max),
            residual_stderr,
            relative_error: (squares / points.len() as f64).sqrt(),
        }
    }

    /// Whether the load is within the fitted range.
    pub fn covers(&self, load: f64) -> bool {
        load >= self.low && load <= self.high
    }
}

/// The points with valid loads and throughputs, in ascending order of load.
pub(crate) fn checked(points: &[Point]) -> Vec<Point> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let mut points: Vec<Point> =
        points.iter().copied().filter(|p| positive(p.concurrency) && positive(p.throughput_per_s)).collect();
    points.sort_by(|a, b| a.concurrency.total_cmp(&b.concurrency));
    points
}

/// Number of different loads among points in ascending order.
fn levels(points: &[Point]) -> usize {
    1 + points.windows(2).filter(|pair| pair[0].concurrency < pair[1].concurrency).count()
        - usize::from(points.is_empty())
}
