//! Sweep chart: a measurement against block size, queue depth or load.

use super::axis::Axis;
use super::draw::{Anchor, Path, Svg, coordinate, escape};
use super::style::SeriesStyle;
use crate::text::{Quantity, shortened};

/// A point: a level and the median, smallest and largest of its replicates.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// The level as a number.
    pub level: f64,
    /// The level as written.
    pub label: String,
    /// Median, smallest, largest.
    pub value: [f64; 3],
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepSeries {
    /// Its name.
    pub name: String,
    /// Its style.
    pub look: SeriesStyle,
    /// In order of the level.
    pub points: Vec<SweepPoint>,
}

/// Values that span more than this factor get a logarithmic axis, if that is allowed.
pub(crate) const LOG_RANGE: f64 = 20.0;

/// The ratio of the largest to the smallest positive value; 1 without positive values.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> f64 {
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite() && *value > 0.0) {
        smallest = smallest.min(value);
        largest = largest.max(value);
    }
    if largest > 0.0 { largest / smallest } else { 1.0 }
}

/// Which axes may be logarithmic, where they span more than a factor of 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepScales {
    /// That of the levels. A line that is straight must look straight where its slope is the answer.
    pub log_levels: bool,
    /// That of the values. Otherwise it begins at zero, so that a curve that no longer grows looks flat.
    pub log_values: bool,
}

/// Draws lines over levels, half the width of the page so that two fit side by side.
pub fn sweep(
    label: &str,
    title: &str,
    factor: &str,
    series: &[SweepSeries],
    quantity: Quantity,
    scales: SweepScales,
) -> String {
    let (width, left, right, top, bottom) = (490.0, 58.0, 480.0, 26.0, 236.0);
    let points = || series.iter().flat_map(|line| &line.points);
    let mut levels: Vec<(f64, &str)> = points()
        .filter(|point| point.level.is_finite())
        .map(|point| (point.level, point.label.as_str()))
        .collect();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    levels.dedup_by(|a, b| a.0 == b.0);
    let numbers: Vec<f64> = levels.iter().map(|level| level.0).collect();
    let columns = Axis::levels(&numbers, scales.log_levels, left, right);
    let values = || points().flat_map(|point| point.value);
    let rows = match scales.log_values && range(values()) > LOG_RANGE {
        true => Axis::log(values(), bottom, top),
        false => Axis::from_zero(values(), bottom, top),
    };
    let scale = quantity.scale(values());
    let mut svg = Svg::new(width, bottom + 40.0, label, "");
    rows.draw_rows(&mut svg, left, right, &scale);
    let unit = if scale.unit.is_empty() { String::new() } else { format!(", {}", scale.unit) };
    svg.text(8.0, 12.0, Anchor::Start, &format!("{title}{unit}"));
    let mut free_from = f64::NEG_INFINITY;
    for (level, name) in &levels {
        let (x, name) = (columns.place(*level), shortened(name, 12));
        let half = name.chars().count() as f64 * 3.4;
        svg.grid(x, bottom, x, bottom + 4.0);
        if x - half > free_from {
            svg.soft_text(x, bottom + 17.0, Anchor::Middle, &name);
            free_from = x + half + 6.0;
        }
    }
    svg.soft_text((left + right) / 2.0, bottom + 34.0, Anchor::Middle, factor);
    for (at, line) in series.iter().enumerate() {
        let (mut path, mut bars, mut markers) = (Path::default(), String::new(), String::new());
        for point in &line.points {
            let [middle, low, high] = point.value.map(|value| rows.place(value));
            let x = columns.place(point.level);
            path.line_to(x, middle);
            if !(x.is_finite() && middle.is_finite()) {
                continue;
            }
            markers.push_str(&line.look.marker(x, middle));
            if low.is_finite() && high.is_finite() && (low - high).abs() > 2.0 {
                let [x, low, high] = [x, low, high].map(coordinate);
                bars.push_str(&format!("M{x} {low}V{high}M{x} {low}m-3 0h6M{x} {high}m-3 0h6"));
            }
        }
        // A line without a name is the only one and needs no button.
        let series = match line.name.as_str() {
            "" => String::new(),
            name => format!(r#" data-series="{at}" data-name="{}""#, escape(name)),
        };
        svg.raw(&format!(
            r#"<g{series}><path class="{class} line" d="{d}" fill="none" stroke="{color}" stroke-width="1.8" stroke-linejoin="round"{dash}/><path class="{class}" d="{bars}" fill="none" stroke="{color}"/><path class="f {class}" d="{markers}" fill="{color}"/></g>"#,
            class = line.look.class(),
            color = line.look.color(),
            d = path.finish(),
            dash = line.look.dash_attribute(),
        ));
    }
    svg.finish()
}
