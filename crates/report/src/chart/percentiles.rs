//! Percentile curves.

use hdrhistogram::Histogram;

use super::WIDTH;
use super::axis::Axis;
use super::draw::{Anchor, Path, SOFT, Svg, escape};
use super::style::SeriesStyle;
use super::timeline::marked;
use crate::text::Quantity;

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentileCurve {
    /// Its name.
    pub name: String,
    /// Its style.
    pub look: SeriesStyle,
    /// (quantile, milliseconds) in order.
    pub points: Vec<(f64, f64)>,
}

/// A goal: a percentile and its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferencePoint {
    /// As written.
    pub text: String,
    /// 0 to 1.
    pub quantile: f64,
    /// Milliseconds.
    pub limit_ms: f64,
}

/// The percentiles on the axis.
const MARKS: [(f64, &str); 7] = [
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
    (0.99999, "p99.999"),
    (0.999_999, "p99.9999"),
];

/// Minimum number of samples above a percentile that is shown.
const SAMPLES_BEYOND: f64 = 10.0;

/// The points of the curve of a histogram of nanoseconds, evenly spaced in log 1/(1-q), up to the last
/// quantile with ten samples beyond it.
pub fn percentile_points(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let end = (histogram.len() as f64 / SAMPLES_BEYOND).log10();
    if end <= 0.0 {
        return Vec::new();
    }
    let steps = ((end * 24.0).ceil() as usize).clamp(2, 200);
    let mut quantiles: Vec<f64> =
        (0..=steps).map(|step| 1.0 - 10f64.powf(-end * step as f64 / steps as f64)).collect();
    // The named percentiles exactly, so that the curve agrees with the tables.
    quantiles.extend(MARKS.iter().map(|mark| mark.0).filter(|quantile| nines(*quantile) <= end));
    quantiles.sort_by(f64::total_cmp);
    quantiles
        .into_iter()
        .map(|quantile| (quantile, histogram.value_at_quantile(quantile) as f64 / 1e6))
        .collect()
}

fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-12).log10()
}

/// Draws percentile curves over one another: x is log 1/(1-q), y is logarithmic.
pub fn percentiles(label: &str, curves: &[PercentileCurve], goals: &[ReferencePoint]) -> String {
    let (left, right, top, bottom) = (64.0, WIDTH - 14.0, 20.0, 280.0);
    let times = || {
        curves
            .iter()
            .flat_map(|curve| curve.points.iter().map(|point| point.1))
            .chain(goals.iter().map(|goal| goal.limit_ms))
    };
    let rows = Axis::log(times(), bottom, top);
    let scale = Quantity::Milliseconds.scale(times());
    let furthest = curves
        .iter()
        .filter_map(|curve| curve.points.last())
        .map(|point| nines(point.0))
        .fold(1.0_f64, f64::max)
        .min(9.0);
    let columns = Axis::linear(0.0, furthest + 0.05, left, right);
    let mut svg = Svg::new(WIDTH, bottom + 24.0, label, "");
    rows.draw_rows(&mut svg, left, right, &scale);
    svg.soft_text(left - 6.0, top - 7.0, Anchor::End, scale.unit);
    for (quantile, name) in MARKS.into_iter().filter(|(quantile, _)| nines(*quantile) <= furthest + 0.05) {
        let x = columns.place(nines(quantile));
        svg.grid(x, top, x, bottom);
        svg.soft_text(x, bottom + 17.0, Anchor::Middle, name);
    }
    for goal in goals.iter().filter(|goal| nines(goal.quantile) <= furthest) {
        let (x, y) = (columns.place(nines(goal.quantile)), rows.place(goal.limit_ms));
        if !(x.is_finite() && y.is_finite()) {
            continue;
        }
        let [from, to, height] = [x - 40.0, x + 40.0, y].map(super::draw::coordinate);
        svg.raw(&format!(
            r#"<path class="s3" d="M{from} {height}H{to}M{} {height}l-5-7h10z" stroke="{SOFT}" fill="none" stroke-width="2"/>"#,
            super::draw::coordinate(x)
        ));
        // Curves rise, so the area below the line and to the right of its percentile is empty.
        svg.text(x + 10.0, y + 16.0, Anchor::Start, &goal.text);
    }
    for (at, curve) in curves.iter().enumerate() {
        let mut path = Path::default();
        let places: Vec<(f64, f64)> = curve
            .points
            .iter()
            .map(|(quantile, ms)| (columns.place(nines(*quantile)), rows.place(*ms)))
            .collect();
        for (x, y) in &places {
            path.line_to(*x, *y);
        }
        let markers: String = marked(&places, 8)
            .into_iter()
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .map(|(x, y)| curve.look.marker(x, y))
            .collect();
        svg.raw(&format!(
            r#"<g data-series="{at}" data-name="{name}"><path class="{class} line" d="{d}" fill="none" stroke="{color}" stroke-width="2" stroke-linejoin="round"{dash}/><path class="f {class}" d="{markers}" fill="{color}"/></g>"#,
            name = escape(&curve.name),
            class = curve.look.class(),
            color = curve.look.color(),
            d = path.finish(),
            dash = curve.look.dash_attribute(),
        ));
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_stops_where_samples_run_out() {
        let mut histogram = model::study::new_histogram();
        for at in 0..1000u64 {
            histogram.record(1_000_000 + at * 1000).unwrap();
        }
        let points = percentile_points(&histogram);
        let (quantile, _) = points.last().copied().unwrap();
        assert!((quantile - 0.99).abs() < 1e-9, "1000 samples, 10 beyond: {quantile}");
        assert!(percentile_points(&model::study::new_histogram()).is_empty());
    }
}
