//! Elasticity chart: the elasticity of throughput with its interval for each changed resource.

use super::WIDTH;
use super::axis::Axis;
use super::draw::{Anchor, INK, Svg, coordinate, escape};
use super::style::SeriesStyle;

/// One change of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// The change: `host.cpu_quota reduced`.
    pub name: String,
    /// The style of reductions or of increases.
    pub look: SeriesStyle,
    /// Elasticity; none with fewer than two rounds.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// The answer in words, to the right.
    pub answer: String,
}

const ROW: f64 = 28.0;
/// Ends of the axis, unless an elasticity is outside.
const ENDS: [f64; 2] = [-0.25, 1.25];

/// Draws elasticities: at 0 throughput does not depend on the resource, at 1 it is proportional to it.
pub fn forest(label: &str, rows: &[ForestRow]) -> String {
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(8) as f64 * 6.6;
    let left = (widest(&mut rows.iter().map(|row| row.name.chars().count())) + 24.0).clamp(90.0, 340.0);
    let right =
        WIDTH - (widest(&mut rows.iter().map(|row| row.answer.chars().count())) + 20.0).clamp(90.0, 340.0);
    let (top, bottom) = (34.0, 34.0 + ROW * rows.len().max(1) as f64);
    let values = || rows.iter().filter_map(|row| row.value).filter(|value| value.is_finite());
    let from = values().fold(ENDS[0], |least, value| least.min(value.max(-3.0) - 0.1));
    let to = values().fold(ENDS[1], |most, value| most.max(value.min(3.0) + 0.1));
    let axis = Axis::linear(from, to, left, right);
    let place = |value: f64| axis.place(value.clamp(from, to));
    let mut svg = Svg::new(WIDTH, bottom + 24.0, label, "");
    for value in axis.ticks(6, 1.0) {
        svg.grid(place(value), top, place(value), bottom);
        let text = format!("{:.2}", value + 0.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        svg.soft_text(place(value), bottom + 17.0, Anchor::Middle, if text == "-0" { "0" } else { text });
    }
    for (value, text) in [(0.0, "no effect"), (1.0, "follows fully")] {
        let x = coordinate(place(value));
        svg.raw(&format!(
            r#"<path class="rule" d="M{x} {top}V{bottom}" stroke="{INK}" stroke-width="1.2" fill="none"/>"#
        ));
        svg.soft_text(place(value), top - 10.0, Anchor::Middle, text);
    }
    for (at, row) in rows.iter().enumerate() {
        let y = top + ROW * (at as f64 + 0.5);
        svg.text(left - 12.0, y + 4.0, Anchor::End, &row.name);
        svg.text(right + 12.0, y + 4.0, Anchor::Start, &row.answer);
        let (class, color) = (row.look.class(), row.look.color());
        if let Some((low, high)) = row.interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
            let y = coordinate(y);
            let cap = |is_outside: bool, arrow| if is_outside { arrow } else { "m0-5v10" };
            svg.raw(&format!(
                r#"<path class="{class}" d="M{0} {y}H{1}M{0} {y}{2}M{1} {y}{3}" stroke="{color}" stroke-width="2" fill="none"/>"#,
                coordinate(place(low)),
                coordinate(place(high)),
                cap(low < from, "m6-5l-6 5l6 5"),
                cap(high > to, "m-6-5l6 5l-6 5"),
            ));
        }
        if let Some(value) = row.value.filter(|value| value.is_finite()) {
            svg.raw(&format!(
                r#"<path class="f {class}" d="{}" fill="{color}" stroke="{color}" stroke-width="2"><title>{}</title></path>"#,
                row.look.marker(place(value), y),
                escape(&row.answer)
            ));
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_past_the_axis_are_arrows() {
        let row = |value, interval| ForestRow {
            name: "host.cpus reduced".into(),
            look: SeriesStyle::of(0),
            value,
            interval,
            answer: "confirmed".into(),
        };
        let chart =
            forest("x", &[row(Some(0.9), Some((0.8, 9.0))), row(None, None), row(Some(f64::NAN), None)]);
        assert_eq!(chart.matches("m-6-5l6 5l-6 5").count(), 1);
        assert_eq!(chart.matches("<title>").count(), 1);
        assert!(!chart.contains("NaN"), "{chart}");
        // Values outside the ends extend the axis.
        assert!(forest("x", &[row(Some(2.0), None)]).contains(">2</text>"));
    }
}
