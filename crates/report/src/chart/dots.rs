//! Comparison chart: for each metric the ratio with its interval, and the band of negligible changes.

use super::WIDTH;
use super::axis::Axis;
use super::draw::{Anchor, INK, SOFT, Svg, coordinate, escape};
use super::style::SeriesStyle;

/// One ratio with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// The compared metric.
    pub name: String,
    /// The style of its configuration.
    pub look: SeriesStyle,
    /// The ratio to the baseline.
    pub ratio: f64,
    /// 95 % interval, if known.
    pub interval: Option<(f64, f64)>,
    /// The smallest change that matters, 0.03 for 3 %; none draws no band.
    pub smallest_change: Option<f64>,
    /// The answer and the ratio in words, to the right.
    pub answer: String,
}

const ROW: f64 = 26.0;

/// Draws ratios against 1 on a logarithmic axis, so that twice and half are equally far away.
pub fn dots(label: &str, rows: &[Dot]) -> String {
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(8) as f64 * 6.6;
    let left = (widest(&mut rows.iter().map(|row| row.name.chars().count())) + 24.0).clamp(90.0, 340.0);
    let right =
        WIDTH - (widest(&mut rows.iter().map(|row| row.answer.chars().count())) + 20.0).clamp(90.0, 300.0);
    let (top, bottom) = (22.0, 22.0 + ROW * rows.len().max(1) as f64);
    // Distant ends are clipped, so that one wide interval does not compress all others.
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
        let band = row.smallest_change.unwrap_or(0.0);
        [row.ratio, low.max(row.ratio / 2.0), high.min(row.ratio * 2.0), 1.0 + 1.6 * band]
    });
    let furthest = ends
        .filter(|value| value.is_finite() && *value > 0.0)
        .map(|value| value.ln().abs())
        .fold(0.03_f64, f64::max)
        .min(1e3_f64.ln())
        * 1.08;
    let axis = Axis::linear(-furthest, furthest, left, right);
    let place = |ratio: f64| axis.place(ratio.max(1e-9).ln()).clamp(left, right);
    let mut svg = Svg::new(WIDTH, bottom + 24.0, label, "");

    for (at, row) in rows.iter().enumerate() {
        let Some(band) = row.smallest_change.filter(|band| band.is_finite() && *band > 0.0 && *band < 1.0)
        else {
            continue;
        };
        let (from, to) = (place(1.0 / (1.0 + band)), place(1.0 + band));
        svg.raw(&format!(
            r#"<rect class="shade" x="{}" y="{}" width="{}" height="{ROW}" fill="{SOFT}" fill-opacity=".16"/>"#,
            coordinate(from),
            coordinate(top + ROW * at as f64),
            coordinate(to - from)
        ));
    }
    for (value, text) in ratio_ticks(furthest) {
        let x = place(value);
        svg.grid(x, top, x, bottom);
        svg.soft_text(x, bottom + 17.0, Anchor::Middle, &text);
    }
    let one = coordinate(place(1.0));
    svg.raw(&format!(
        r#"<path class="rule" d="M{one} {top}V{bottom}" stroke="{INK}" stroke-width="1.2" fill="none"/>"#
    ));
    svg.soft_text(place(1.0), top - 8.0, Anchor::Middle, "as the baseline");
    for (at, row) in rows.iter().enumerate() {
        let y = top + ROW * (at as f64 + 0.5);
        svg.text(left - 12.0, y + 4.0, Anchor::End, &row.name);
        svg.text(right + 12.0, y + 4.0, Anchor::Start, &row.answer);
        if !(row.ratio.is_finite() && row.ratio > 0.0) {
            continue;
        }
        let (class, color) = (row.look.class(), row.look.color());
        if let Some((low, high)) = row.interval {
            let y = coordinate(y);
            // An end outside the chart is drawn as an arrow.
            let outside = |ratio: f64| ratio.max(1e-9).ln().abs() > furthest;
            let from = if outside(low) { "m6-5l-6 5l6 5" } else { "m0-5v10" };
            let to = if outside(high) { "m-6-5l6 5l-6 5" } else { "m0-5v10" };
            svg.raw(&format!(
                r#"<path class="{class}" d="M{0} {y}H{1}M{0} {y}{from}M{1} {y}{to}" stroke="{color}" stroke-width="2" fill="none"/>"#,
                coordinate(place(low)),
                coordinate(place(high)),
            ));
        }
        let marker = row.look.marker(place(row.ratio), y);
        svg.raw(&format!(
            r#"<path class="f {class}" d="{marker}" fill="{color}" stroke="{color}" stroke-width="2"><title>{}</title></path>"#,
            escape(&row.answer)
        ));
    }
    svg.finish()
}

/// Round ratios on both sides of 1: percentages for small changes, factors for large ones.
fn ratio_ticks(furthest: f64) -> Vec<(f64, String)> {
    let reach = furthest.exp();
    if reach < 2.0 {
        let step = super::axis::nice_step(2.0 * (reach - 1.0), 6);
        return (-20..=20)
            .map(|at| f64::from(at) * step)
            .filter(|change| (1.0 + change) < reach && (1.0 + change) > 1.0 / reach)
            .map(|change| {
                let percent = format!("{:+.1}", change * 100.0);
                let percent = percent.trim_end_matches(".0");
                (1.0 + change, format!("{} %", if change == 0.0 { "0" } else { percent }))
            })
            .collect();
    }
    let factors: &[f64] =
        if reach < 12.0 { &[1.5, 2.0, 3.0, 5.0, 10.0] } else { &[2.0, 10.0, 100.0, 1000.0] };
    let up = factors.iter().filter(|factor| **factor < reach);
    let mut ticks = vec![(1.0, "x 1".to_string())];
    for factor in up {
        ticks.push((*factor, format!("x {factor}")));
        ticks.push((1.0 / factor, format!("x {}", format!("{:.3}", 1.0 / factor).trim_end_matches('0'))));
    }
    ticks
}
