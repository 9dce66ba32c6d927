//! The largest load that a goal allows, and the knee of a curve.
//!
//! The strongest bend of a curve depends on the measured range, so [`kneedle`] is only an aid for charts. The
//! answer for users is [`limit`]: the largest load at which the goal is met.

use model::Estimate;

/// The shape of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveShape {
    /// Rises and flattens: throughput as a function of load.
    ConcaveRising,
    /// Falls slowly, then steeply.
    ConcaveFalling,
    /// Rises slowly, then steeply: response time as a function of load.
    ConvexRising,
    /// Falls steeply, then slowly.
    ConvexFalling,
}

/// The index of the knee: the first point with a maximum distance from the chord after which the curve falls
/// by `sensitivity` mean steps. Points must be in ascending order of x. None if there is no knee, or for a
/// flat line.
///
/// Satopaa, Albrecht, Irwin, Raghavan, "Finding a Kneedle in a Haystack" (ICDCS workshops 2011), without
/// smoothing.
pub fn kneedle(points: &[(f64, f64)], bend: CurveShape, sensitivity: f64) -> Option<usize> {
    let n = points.len();
    let range = |value: fn(&(f64, f64)) -> f64| {
        let low = points.iter().map(value).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
        (high > low && (high - low).is_finite()).then_some((low, high))
    };
    let ((x_low, x_high), (y_low, y_high)) = (range(|p| p.0)?, range(|p| p.1)?);
    let back_to_front = matches!(bend, CurveShape::ConcaveFalling | CurveShape::ConvexRising);
    let upside_down = matches!(bend, CurveShape::ConvexFalling | CurveShape::ConvexRising);
    // Transformed so that the curve rises and flattens from (0, 0) to (1, 1); then the distance above the
    // diagonal.
    let place = |at: usize| if back_to_front { n - 1 - at } else { at };
    let above: Vec<f64> = (0..n)
        .map(|at| {
            let (x, y) = points[place(at)];
            let (x, y) = ((x - x_low) / (x_high - x_low), (y - y_low) / (y_high - y_low));
            let (x, y) = (if back_to_front { 1.0 - x } else { x }, if upside_down { 1.0 - y } else { y });
            y - x
        })
        .collect();
    let mean_step = 1.0 / (n - 1) as f64;
    let mut candidate: Option<(usize, f64)> = None;
    for at in 1..n {
        if let Some((knee, threshold)) = candidate
            && above[at] < threshold
        {
            return Some(place(knee));
        }
        let next = above.get(at + 1).copied().unwrap_or(f64::NEG_INFINITY);
        if above[at] >= above[at - 1] && above[at] >= next && at + 1 < n {
            candidate = Some((at, above[at] - sensitivity * mean_step));
        } else if above[at] < above[at - 1] && above[at] < next {
            candidate = None;
        }
    }
    None
}

/// The monotonically increasing sequence closest to `values` (least squares, equal weights): decreasing
/// neighbours are pooled.
///
/// Barlow, Bartholomew, Bremner, Brunk, "Statistical Inference under Order Restrictions" (1972).
pub fn isotonic(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some((sum, count)) = pools.pop_if(|(sum, n)| *sum / *n as f64 > pool.0 / pool.1 as f64) {
            pool = (pool.0 + sum, pool.1 + count);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / count as f64, count)).collect()
}

/// The largest load at which a goal is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadLimit {
    /// Point estimate: where the response, interpolated as increasing, equals the goal. None if the goal is
    /// missed at the smallest load, or always met.
    pub load: Option<f64>,
    /// The largest measured load at which, and below which, the whole interval of the response meets the
    /// goal. None if there is none.
    pub holds_at: Option<f64>,
    /// The smallest measured load at which the whole interval misses the goal. None if there is none: then
    /// the limit has only a lower bound.
    pub missed_at: Option<f64>,
}

/// The largest load with a response of at most `goal`, from measured levels of (load, response with
/// interval). The only assumption between levels is that the response increases with the load. So the
/// interval extends from the last level that certainly meets the goal to the first one that certainly misses
/// it. None without levels.
pub fn limit(levels: &[(f64, Estimate)], goal: f64) -> Option<LoadLimit> {
    let finite = |(load, response): &&(f64, Estimate)| load.is_finite() && response.value.is_finite();
    let mut levels: Vec<(f64, Estimate)> = levels.iter().filter(finite).copied().collect();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    levels.last()?;
    let rising = |value: fn(&Estimate) -> f64| {
        isotonic(&levels.iter().map(|(_, response)| value(response)).collect::<Vec<_>>())
    };
    let (values, lows, highs) = (rising(|r| r.value), rising(|r| r.low), rising(|r| r.high));
    let over = values.iter().position(|value| *value > goal);
    let load = over.filter(|at| *at > 0).map(|at| {
        let ((below, here), (from, to)) = ((levels[at - 1].0, levels[at].0), (values[at - 1], values[at]));
        (below + (here - below) * (goal - from) / (to - from)).clamp(below, here)
    });
    Some(LoadLimit {
        load,
        holds_at: highs.iter().rposition(|high| *high <= goal).map(|at| levels[at].0),
        missed_at: lows.iter().position(|low| *low > goal).map(|at| levels[at].0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::queue::mm1;
    use crate::random::Random;
    use crate::statistics::t_interval;

    fn level(load: f64, value: f64, half: f64) -> (f64, Estimate) {
        (load, Estimate { value, low: value - half, high: value + half })
    }

    #[test]
    fn pools_that_fall_are_joined() {
        assert_eq!(isotonic(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(isotonic(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert!(isotonic(&[]).is_empty());
    }

    #[test]
    fn a_knee_moves_with_the_range_it_is_looked_for_in() {
        // Why a knee is not an answer: the same M/M/1 curve, measured over a larger range, has another knee.
        let knee_at = |to: f64| {
            let curve: Vec<(f64, f64)> = (0..=200)
                .map(|i| f64::from(i) / 200.0 * to)
                .map(|load| (load, mm1(load, 1.0).unwrap().response_s))
                .collect();
            curve[kneedle(&curve, CurveShape::ConvexRising, 1.0).unwrap()].0
        };
        for (to, knee) in [(0.8, 0.56), (0.9, 0.70), (0.95, 0.78), (0.99, 0.89)] {
            assert!((knee_at(to) - knee).abs() < 0.02, "{to}: {}", knee_at(to));
        }
        assert_eq!(kneedle(&[], CurveShape::ConcaveRising, 1.0), None);
        assert_eq!(kneedle(&[(1.0, f64::NAN), (2.0, 3.0)], CurveShape::ConcaveRising, 1.0), None);
    }

    #[test]
    fn limits_and_their_ends() {
        let levels =
            [level(10.0, 1.0, 0.1), level(20.0, 2.0, 0.2), level(30.0, 1.8, 0.5), level(40.0, 6.0, 1.0)];
        let found = limit(&levels, 3.0).unwrap();
        // Levels 20 and 30 are pooled at 1.9: 30 + 10 (3 - 1.9) / 4.1.
        assert!((found.load.unwrap() - (30.0 + 11.0 / 4.1)).abs() < 1e-9, "{found:?}");
        assert_eq!((found.holds_at, found.missed_at), (Some(30.0), Some(40.0)));
        // The goal is inside an interval: neither end is certain.
        let unsure = limit(&levels, 6.5).unwrap();
        assert_eq!((unsure.load, unsure.holds_at, unsure.missed_at), (None, Some(30.0), None));
        let never = limit(&levels, 0.5).unwrap();
        assert_eq!((never.load, never.holds_at, never.missed_at), (None, None, Some(10.0)));
        assert_eq!(limit(&[], 1.0), None);
    }

    #[test]
    fn the_interval_covers_the_true_limit() {
        // M/M/1 with a service time of 1 s and a goal of 5 s: the limit is a load of 0.8. Five noisy
        // replicates per level.
        let mut random = Random::new(3);
        let covered = (0..300)
            .filter(|_| {
                let levels: Vec<(f64, Estimate)> = (1..=19)
                    .map(|i| f64::from(i) * 0.05 + 0.01)
                    .map(|load| {
                        let mean = mm1(load, 1.0).unwrap().response_s;
                        let runs: Vec<f64> = (0..5).map(|_| mean * (1.0 + 0.15 * random.normal())).collect();
                        (load, t_interval(&runs, 0.95).unwrap())
                    })
                    .collect();
                let found = limit(&levels, 5.0).unwrap();
                found.holds_at.is_some_and(|low| low <= 0.8) && found.missed_at.is_none_or(|high| high >= 0.8)
            })
            .count();
        assert!(covered >= 279, "{covered} of 300");
    }
}
