//! Values over time.

use super::axis::{Axis, time_ticks};
use super::draw::{Anchor, Path, SOFT, Svg, escape, thin};
use super::style::SeriesStyle;
use super::{TIME_LEFT, TIME_RIGHT, WIDTH};
use crate::text::Quantity;

/// Letters of a unit that fit left of the axis.
const UNIT_LEFT_OF_AXIS: usize = 6;

/// A shaded time span behind the lines, such as the warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadedSpan {
    /// Its name, written at its top.
    pub name: String,
    /// Start in seconds.
    pub begin_s: f64,
    /// End in seconds.
    pub end_s: f64,
}

/// A moment, drawn as a vertical line with its name beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// When, in seconds.
    pub at_s: f64,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineSeries {
    /// Its name, for the legend and the readout.
    pub name: String,
    /// Its style.
    pub look: SeriesStyle,
    /// (seconds, value) in order of time; NaN is a gap.
    pub points: Vec<(f64, f64)>,
}

/// The data of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline<'a> {
    /// The sentence for screen readers.
    pub label: &'a str,
    /// Start and end of the time axis in seconds: the same for aligned charts.
    pub span_s: (f64, f64),
    /// The lines.
    pub series: &'a [TimelineSeries],
    /// The unit of the values.
    pub quantity: Quantity,
    /// Logarithmic for latencies, else from zero.
    pub log: bool,
    /// Phases other than the measured one.
    pub shades: &'a [ShadedSpan],
    /// Moments to mark.
    pub marks: &'a [Mark],
    /// Height of the plotting area.
    pub height: f64,
    /// Maximum number of points of a line.
    pub columns: usize,
}

/// The attributes that the script needs to draw a crosshair on a time chart.
pub(crate) fn time_attributes(span_s: (f64, f64)) -> String {
    format!(r#" tabindex="0" data-time="{} {} {TIME_LEFT} {TIME_RIGHT}""#, span_s.0, span_s.1)
}

/// Draws the shades and the time axis; returns the axis.
pub(crate) fn time_axis(
    svg: &mut Svg,
    span_s: (f64, f64),
    shades: &[ShadedSpan],
    top: f64,
    bottom: f64,
) -> Axis {
    let axis = Axis::linear(span_s.0, span_s.1, TIME_LEFT, TIME_RIGHT);
    for shade in shades {
        let from = axis.place(shade.begin_s).clamp(TIME_LEFT, TIME_RIGHT);
        let to = axis.place(shade.end_s).clamp(TIME_LEFT, TIME_RIGHT);
        if to <= from {
            continue;
        }
        let [x, y, width, height] = [from, top, to - from, bottom - top].map(super::draw::coordinate);
        svg.raw(&format!(
            r#"<rect class="shade" x="{x}" y="{y}" width="{width}" height="{height}" fill="{SOFT}" fill-opacity=".13"/>"#
        ));
        if !shade.name.is_empty() && to - from > 7.0 * shade.name.chars().count() as f64 {
            svg.soft_text(from + 4.0, top + 12.0, Anchor::Start, &shade.name);
        }
    }
    let ticks = time_ticks(span_s.0, span_s.1);
    for (value, text) in ticks {
        let x = axis.place(value);
        svg.grid(x, bottom, x, bottom + 5.0);
        // The last label would exceed the chart.
        let anchor = if x > TIME_RIGHT - 12.0 { Anchor::End } else { Anchor::Middle };
        svg.soft_text(if anchor == Anchor::End { WIDTH } else { x }, bottom + 17.0, anchor, &text);
    }
    axis
}

/// Draws lines over time.
pub fn timeline(data: &Timeline<'_>) -> String {
    let (top, bottom) = (20.0, 20.0 + data.height);
    let values = || data.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let rows = match data.log {
        true => Axis::log(values(), bottom, top),
        false => Axis::from_zero(values(), bottom, top),
    };
    let scale = data.quantity.scale(if data.log { values().collect() } else { vec![rows.to()] });
    let attributes = format!(
        r#"{} data-rows="{} {} {} {} {}""#,
        time_attributes(data.span_s),
        if data.log { "log" } else { "linear" },
        rows.from() / scale.divisor,
        rows.to() / scale.divisor,
        bottom,
        top
    );
    let mut svg = Svg::new(WIDTH, bottom + 24.0, data.label, &attributes);
    rows.draw_rows(&mut svg, TIME_LEFT, TIME_RIGHT, &scale);
    // A long word has no room left of the axis.
    let (place, anchor) = match scale.unit.len() > UNIT_LEFT_OF_AXIS {
        true => (0.0, Anchor::Start),
        false => (TIME_LEFT - 6.0, Anchor::End),
    };
    svg.soft_text(place, top - 7.0, anchor, scale.unit);
    let time = time_axis(&mut svg, data.span_s, data.shades, top, bottom);
    for mark in data.marks {
        let x = time.place(mark.at_s).clamp(TIME_LEFT, TIME_RIGHT).round();
        svg.raw(&format!(
            r#"<path class="shade" d="M{x} {top}V{bottom}" fill="none" stroke="{SOFT}" stroke-width="1.2" stroke-dasharray="5 3"/>"#
        ));
        let (place, anchor) = match x > (TIME_LEFT + TIME_RIGHT) / 2.0 {
            true => (x - 5.0, Anchor::End),
            false => (x + 5.0, Anchor::Start),
        };
        svg.soft_text(place, top + 24.0, anchor, &mark.name);
    }
    for (at, series) in data.series.iter().enumerate() {
        let mut path = Path::default();
        let mut alone = Path::default();
        let thinned = thin(&series.points, data.span_s.0, data.span_s.1, data.columns);
        let place = |(x, y): (f64, f64)| (time.place(x), rows.place(y));
        for &point in &thinned {
            let (x, y) = place(point);
            path.line_to(x.round(), y.round());
        }
        // A point between two gaps has no line: give it a short one.
        for (index, &point) in thinned.iter().enumerate() {
            let gap = |other: Option<&(f64, f64)>| other.is_none_or(|other| !other.1.is_finite());
            if gap(index.checked_sub(1).and_then(|before| thinned.get(before))) && gap(thinned.get(index + 1))
            {
                let (x, y) = place(point);
                alone.line_to(x - 1.5, y);
                alone.line_to(x + 1.5, y);
                alone.gap();
            }
        }
        let markers: String = marked(&thinned, 5)
            .into_iter()
            .map(place)
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .map(|(x, y)| series.look.marker(x.round(), y.round()))
            .collect();
        svg.raw(&format!(
            r#"<g data-series="{at}" data-name="{name}" data-unit="{unit}"><path class="{class} line" d="{d}{alone}" fill="none" stroke="{color}" stroke-width="1.6" stroke-linejoin="round"{dash}/><path class="f {class}" d="{markers}" fill="{color}"/></g>"#,
            name = escape(&series.name),
            unit = format_args!("{}{}", scale.suffix, if scale.unit == "%" { String::new() } else { format!(" {}", scale.unit) }),
            class = series.look.class(),
            d = path.finish(),
            alone = alone.finish(),
            color = series.look.color(),
            dash = series.look.dash_attribute(),
        ));
    }
    svg.finish()
}

/// About `count` of the points, spread evenly, to carry a marker.
pub(crate) fn marked(points: &[(f64, f64)], count: usize) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(count.max(1)).max(1);
    points.iter().copied().skip(step / 2).step_by(step).collect()
}
