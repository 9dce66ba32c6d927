//! Limit chart: a measurement against the load, with each load marked by whether it meets a goal.

use super::axis::Axis;
use super::draw::{Anchor, Path, Svg, coordinate, escape};
use super::style::SeriesStyle;
use crate::text::{Quantity, shortened};

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitCurvePoint {
    /// The load as a number.
    pub load: f64,
    /// The load as written.
    pub label: String,
    /// The measured value.
    pub value: f64,
    /// The style of its mark: one for each class.
    pub look: SeriesStyle,
    /// Whether the mark is filled: a full-length trial. That of a short trial is an outline.
    pub is_full: bool,
}

/// What a chart of loads shows besides the measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitLines {
    /// The limit of the goal: a horizontal line.
    pub goal: Option<f64>,
    /// The bounds of the answer: the loads between them are shaded.
    pub bounds: Option<(f64, f64)>,
}

/// Draws a line over loads in ascending order, half the width of the page so that two fit side by side. `classes` are
/// the names and styles of the marks, in the order of the legend.
pub fn limit_curve(
    label: &str,
    title: &str,
    factor: &str,
    (points, quantity): (&[LimitCurvePoint], Quantity),
    classes: &[(String, SeriesStyle)],
    lines: LimitLines,
) -> String {
    let LimitLines { goal, bounds } = lines;
    let (width, left, right, top, bottom) = (490.0, 58.0, 480.0, 26.0, 236.0);
    let loads: Vec<f64> = points.iter().map(|point| point.load).filter(|load| load.is_finite()).collect();
    let columns = Axis::levels(&loads, true, left, right);
    let values = || points.iter().map(|point| point.value).chain(goal);
    let is_log = goal.is_some() && super::sweep::range(values()) > super::sweep::LOG_RANGE;
    let rows = if is_log { Axis::log(values(), bottom, top) } else { Axis::from_zero(values(), bottom, top) };
    let scale = quantity.scale(values());
    let mut svg = Svg::new(width, bottom + 40.0, label, "");
    if let Some((from, to)) = bounds {
        let (from, to) = (columns.place(from), columns.place(to));
        if from.is_finite() && to.is_finite() {
            let (x, wide) = (coordinate(from), coordinate((to - from).max(2.0)));
            let high = coordinate(bottom - top);
            svg.raw(&format!(
                r##"<path class="area" d="M{x} {top}h{wide}v{high}h-{wide}z" fill="#d9dde3" fill-opacity=".6"/>"##
            ));
        }
    }
    rows.draw_rows(&mut svg, left, right, &scale);
    let unit = if scale.unit.is_empty() { String::new() } else { format!(", {}", scale.unit) };
    svg.text(8.0, 12.0, Anchor::Start, &format!("{title}{unit}"));
    let mut free_from = f64::NEG_INFINITY;
    for point in points.iter().filter(|point| point.load.is_finite()) {
        let (x, name) = (columns.place(point.load), shortened(&point.label, 12));
        let half = name.chars().count() as f64 * 3.4;
        svg.grid(x, bottom, x, bottom + 4.0);
        if x - half > free_from {
            svg.soft_text(x, bottom + 17.0, Anchor::Middle, &name);
            free_from = x + half + 6.0;
        }
    }
    svg.soft_text((left + right) / 2.0, bottom + 34.0, Anchor::Middle, factor);
    if let Some(y) = goal.map(|goal| rows.place(goal)).filter(|y| y.is_finite()) {
        let y_text = coordinate(y);
        let grey = SeriesStyle::pair(3, 1);
        svg.raw(&format!(
            r#"<path class="{} line" d="M{} {y_text}H{}" fill="none" stroke="{}" stroke-width="1.4"{}/>"#,
            grey.class(),
            coordinate(left),
            coordinate(right),
            grey.color(),
            grey.dash_attribute()
        ));
        svg.soft_text(right, y - 5.0, Anchor::End, "goal");
    }
    let mut path = Path::default();
    points.iter().for_each(|point| path.line_to(columns.place(point.load), rows.place(point.value)));
    let line = SeriesStyle::pair(3, 0);
    svg.raw(&format!(
        r#"<path class="{} line" d="{}" fill="none" stroke="{}" stroke-width="1"/>"#,
        line.class(),
        path.finish(),
        line.color()
    ));
    for (at, (name, look)) in classes.iter().enumerate() {
        let (class, color) = (look.class(), look.color());
        let marks: String = points
            .iter()
            .filter(|point| point.look == *look)
            .map(|point| (columns.place(point.load), rows.place(point.value), point.is_full))
            .filter(|(x, y, _)| x.is_finite() && y.is_finite())
            .map(|(x, y, is_full)| match is_full {
                true => format!(r#"<path class="f {class}" d="{}" fill="{color}"/>"#, look.marker(x, y)),
                false => format!(
                    r#"<path class="{class}" d="{}" fill="none" stroke="{color}"/>"#,
                    look.marker(x, y)
                ),
            })
            .collect();
        svg.raw(&format!(r#"<g data-series="{at}" data-name="{}">{marks}</g>"#, escape(name)));
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_is_marked_and_nothing_is_not_a_number() {
        let point = |load: f64, value: f64, hue, is_full| LimitCurvePoint {
            load,
            label: load.to_string(),
            value,
            look: SeriesStyle::pair(hue, hue),
            is_full,
        };
        let points = [point(1.0, 2.0, 0, false), point(8.0, 9.0, 0, true), point(9.0, 11.0, 1, true)];
        let draw = |points: &[LimitCurvePoint], goal| {
            let classes = [0, 1].map(|hue| ("class".to_string(), SeriesStyle::pair(hue, hue)));
            let lines = LimitLines { goal, bounds: Some((8.0, 9.0)) };
            limit_curve("x", "p95", "in flight", (points, Quantity::Milliseconds), &classes, lines)
        };
        let chart = draw(&points, Some(10.0));
        assert!(chart.contains(">goal</text>") && chart.contains("class=\"area\""), "{chart}");
        assert_eq!(
            (chart.matches("class=\"f s0\"").count(), chart.matches("class=\"f s1\"").count()),
            (1, 1)
        );
        assert!(!draw(&points, None).contains(">goal</text>"));
        assert!(!draw(&[point(f64::NAN, f64::NAN, 0, true)], Some(f64::NAN)).contains("NaN"));
        assert!(!draw(&[], None).contains("NaN"));
    }
}
