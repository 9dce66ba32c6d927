//! Load curve: response time against throughput, one point per load.

use super::axis::Axis;
use super::draw::{Anchor, Path, Svg, escape};
use super::style::SeriesStyle;
use super::sweep::LOG_RANGE;
use crate::text::{Quantity, shortened};

/// A level of the load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCurvePoint {
    /// The level as written: `16`.
    pub label: String,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Response time in milliseconds.
    pub response_ms: f64,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCurveSeries {
    /// Its name.
    pub name: String,
    /// Its style.
    pub look: SeriesStyle,
    /// Whether its points are labelled with their level: one of several lines with the same levels is enough.
    pub has_labels: bool,
    /// In order of the level.
    pub points: Vec<LoadCurvePoint>,
}

/// Draws response time against throughput, as wide as two small charts.
pub fn load_curve(label: &str, title: &str, rate: Quantity, series: &[LoadCurveSeries]) -> String {
    let (width, left, right, top, bottom) = (1000.0, 58.0, 980.0, 30.0, 290.0);
    let points = || series.iter().flat_map(|line| &line.points);
    let times = || points().map(|point| point.response_ms);
    let columns = Axis::from_zero(points().map(|point| point.rate_per_s), left, right);
    let is_log = super::sweep::range(times()) > LOG_RANGE;
    let rows = if is_log { Axis::log(times(), bottom, top) } else { Axis::from_zero(times(), bottom, top) };
    let (rate_scale, time_scale) = (rate.scale([columns.to()]), Quantity::Milliseconds.scale(times()));
    let mut svg = Svg::new(width, bottom + 40.0, label, "");
    rows.draw_rows(&mut svg, left, right, &time_scale);
    svg.text(8.0, 12.0, Anchor::Start, &format!("{title}, {}", time_scale.unit));
    for value in columns.ticks(8, rate_scale.divisor) {
        let x = columns.place(value);
        svg.grid(x, bottom, x, bottom + 4.0);
        svg.soft_text(x, bottom + 17.0, Anchor::Middle, &rate_scale.tick(value));
    }
    svg.soft_text(
        (left + right) / 2.0,
        bottom + 34.0,
        Anchor::Middle,
        &format!("throughput, {}", rate_scale.unit),
    );
    // Overlapping labels are omitted; the table has every level.
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (at, line) in series.iter().enumerate() {
        let (mut path, mut markers) = (Path::default(), String::new());
        for point in &line.points {
            let (x, y) = (columns.place(point.rate_per_s), rows.place(point.response_ms));
            path.line_to(x, y);
            if x.is_finite() && y.is_finite() {
                markers.push_str(&line.look.marker(x, y));
            }
        }
        svg.raw(&format!(
            r#"<g data-series="{at}" data-name="{name}"><path class="{class} line" d="{d}" fill="none" stroke="{color}" stroke-width="1.8" stroke-linejoin="round"{dash}/><path class="f {class}" d="{markers}" fill="{color}"/></g>"#,
            name = escape(&line.name),
            class = line.look.class(),
            color = line.look.color(),
            d = path.finish(),
            dash = line.look.dash_attribute(),
        ));
        for point in line.points.iter().filter(|_| line.has_labels) {
            let (x, y) = (columns.place(point.rate_per_s), rows.place(point.response_ms));
            let text = shortened(&point.label, 12);
            let is_free = taken.iter().all(|(other_x, other_y)| {
                (x - other_x).abs() > 8.0 * text.chars().count() as f64 || (y - other_y).abs() > 14.0
            });
            if x.is_finite() && y.is_finite() && is_free {
                taken.push((x, y));
                svg.soft_text(x - 7.0, y - 7.0, Anchor::End, &text);
            }
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_stands_along_the_line() {
        let line = |look, has_labels, scale: f64| LoadCurveSeries {
            name: "mean".into(),
            look: SeriesStyle::of(look),
            has_labels,
            points: [(1, 100.0, 1.0), (2, 190.0, 1.1), (4, 210.0, 2.0), (8, 211.0, 4.0), (16, 212.0, 30.0)]
                .map(|(level, rate_per_s, ms)| LoadCurvePoint {
                    label: level.to_string(),
                    rate_per_s,
                    response_ms: ms * scale,
                })
                .to_vec(),
        };
        let draw =
            |lines: &[LoadCurveSeries]| load_curve("x", "Response time", Quantity::Rate("IOPS"), lines);
        let chart = draw(&[line(0, true, 1.0), line(1, false, 1.5)]);
        assert!(chart.contains(">16</text>") && chart.contains("throughput, IOPS"), "{chart}");
        assert_eq!(chart.matches(" line\"").count(), 2);
        // From 1 to 45 ms: the axis of time has powers of ten.
        assert!(
            chart.contains(">1</text>") && chart.contains(">10</text>") && chart.contains(">50</text>"),
            "{chart}"
        );
        assert!(!draw(&[line(0, true, f64::NAN)]).contains("NaN"));
    }
}
