//! Utilization chart: one row per resource over the time axis of the other charts.

use super::draw::{Anchor, GRID, Path, Svg, coordinate, thin};
use super::style::HUES;
use super::timeline::{ShadedSpan, time_attributes, time_axis};
use super::{TIME_LEFT, TIME_RIGHT, WIDTH};

/// One resource.
#[derive(Clone, Debug, PartialEq)]
pub struct StripRow {
    /// Its name, such as `utilization of vda`.
    pub name: String,
    /// Its summary: `mean 98.7 %, max 100 %`.
    pub numbers: String,
    /// (seconds, value) in order of time; NaN is a gap.
    pub points: Vec<(f64, f64)>,
    /// The value at the top of the row; 0 takes the largest value.
    pub saturated_at: f64,
    /// The label of that value beside the line: `100 %`.
    pub full_text: String,
}

const ROW: f64 = 50.0;

/// Draws resources one below the other, each from zero to saturation. A dashed line marks saturation if it is known
/// and values go beyond.
pub fn strip(
    label: &str,
    span_s: (f64, f64),
    rows: &[StripRow],
    shades: &[ShadedSpan],
    columns: usize,
) -> String {
    let bottom = 8.0 + ROW * rows.len().max(1) as f64;
    let mut svg = Svg::new(WIDTH, bottom + 24.0, label, &time_attributes(span_s));
    let unnamed: Vec<ShadedSpan> =
        shades.iter().map(|shade| ShadedSpan { name: String::new(), ..shade.clone() }).collect();
    let time = time_axis(&mut svg, span_s, &unnamed, 8.0, bottom);
    let (mut dashes, mut areas) = (String::new(), String::new());
    for (at, row) in rows.iter().enumerate() {
        let base = 8.0 + ROW * (at + 1) as f64;
        let height = ROW - 22.0;
        let largest =
            row.points.iter().map(|point| point.1).filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
        let top_value = match (row.saturated_at > 0.0, largest > 0.0) {
            (true, _) => row.saturated_at.max(largest),
            (false, true) => largest,
            (false, false) => 1.0,
        };
        let y = |value: f64| base - (value / top_value).clamp(0.0, 1.0) * height;
        svg.grid(TIME_LEFT, base, TIME_RIGHT, base);
        svg.text(TIME_LEFT + 4.0, base - height - 6.0, Anchor::Start, &row.name);
        svg.soft_text(TIME_RIGHT, base - height - 6.0, Anchor::End, &row.numbers);
        if row.saturated_at > 0.0 {
            let full = y(row.saturated_at);
            dashes.push_str(&format!("M{TIME_LEFT} {}H{TIME_RIGHT}", coordinate(full)));
            svg.soft_text(TIME_LEFT - 6.0, full + 4.0, Anchor::End, &row.full_text);
        }
        svg.soft_text(TIME_LEFT - 6.0, base + 1.0, Anchor::End, "0");
        let mut area = Path::default();
        let mut last_x = None;
        for (at_s, value) in thin(&row.points, span_s.0, span_s.1, columns) {
            let (x, height) = (time.place(at_s).clamp(TIME_LEFT, TIME_RIGHT), y(value));
            if value.is_finite() {
                if last_x.is_none() {
                    area.line_to(x.round(), base);
                }
                area.line_to(x.round(), height.round());
                last_x = Some(x);
            } else if let Some(x) = last_x.take() {
                area.line_to(x.round(), base);
                area.close();
            }
        }
        if let Some(x) = last_x {
            area.line_to(x.round(), base);
            area.close();
        }
        areas.push_str(&area.finish());
    }
    let color = HUES[0];
    svg.raw(&format!(
        r#"<path class="s0 area" d="{areas}" fill="{color}" fill-opacity=".2" stroke="{color}" stroke-width="1.2"/>"#
    ));
    if !dashes.is_empty() {
        svg.raw(&format!(
            r#"<path class="grid" d="{dashes}" stroke="{GRID}" stroke-dasharray="2 3" fill="none"/>"#
        ));
    }
    svg.finish()
}
