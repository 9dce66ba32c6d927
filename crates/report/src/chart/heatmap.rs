//! Heatmap of response times over time.

use std::collections::BTreeMap;

use model::HeatColumn;
use model::study::{HEAT_ROWS_PER_OCTAVE, heat_row_ns};

use super::draw::{Anchor, Svg};
use super::style::HEAT;
use super::timeline::{ShadedSpan, time_attributes, time_axis};
use super::{TIME_LEFT, TIME_RIGHT, WIDTH};
use crate::text::Quantity;

/// The data of a heatmap.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapData<'a> {
    /// The sentence for screen readers.
    pub label: &'a str,
    /// Start and end of the time axis in seconds.
    pub span_s: (f64, f64),
    /// Counts by time span and row of response time.
    pub columns: &'a [HeatColumn],
    /// Phases other than the measured one.
    pub shades: &'a [ShadedSpan],
    /// Maximum number of columns; more are merged.
    pub most_columns: usize,
}

/// Draws response times over time: four rows per factor of two, the colour is the logarithm of the count.
///
/// Cells are thick lines with integer ends that neighbours share, so that there are no visible seams; the cells of
/// one colour are one path.
pub fn heatmap(data: &HeatmapData<'_>) -> String {
    let used = || data.columns.iter().flat_map(|column| column.cells.iter()).filter(|cell| cell.1 > 0);
    let first = used().map(|cell| cell.0).min().unwrap_or(0);
    let last = used().map(|cell| cell.0).max().unwrap_or(first + 15);
    let rows = f64::from(last - first + 1);
    let row_height = (240.0 / rows).floor().clamp(3.0, 10.0);
    let (top, bottom) = (24.0, 24.0 + rows * row_height);
    let y = |row: u16| bottom - f64::from(row.saturating_sub(first)) * row_height;

    let mut svg = Svg::new(WIDTH, bottom + 24.0, data.label, &time_attributes(data.span_s));
    let time = time_axis(&mut svg, data.span_s, data.shades, top, bottom);
    let x = |at_s: f64| time.place(at_s).clamp(TIME_LEFT, TIME_RIGHT).round() as i64;

    // Columns on the same pixels are merged.
    let width = ((TIME_RIGHT - TIME_LEFT) / data.most_columns.max(1) as f64).max(1.0);
    let mut merged: Vec<(i64, i64, BTreeMap<u16, u64>)> = Vec::new();
    for column in data.columns.iter().filter(|column| column.end_s > column.begin_s) {
        let (begin, end) = (x(column.begin_s), x(column.end_s));
        let open = merged.last_mut().filter(|(from, to, _)| ((end - *from) as f64) <= width && begin <= *to);
        let cells = match open {
            Some((_, to, cells)) => {
                *to = end;
                cells
            }
            None => {
                merged.push((begin, end.max(begin + 1), BTreeMap::new()));
                match merged.last_mut() {
                    Some((_, _, cells)) => cells,
                    None => continue,
                }
            }
        };
        for (row, count) in column.cells.iter().filter(|cell| cell.1 > 0) {
            *cells.entry(*row).or_default() += count;
        }
    }

    let largest = merged.iter().flat_map(|(_, _, cells)| cells.values()).max().copied().unwrap_or(1);
    let level = |count: u64| level_of(count, largest);
    // Neighbours of the same colour in a row are one rectangle.
    let mut runs: BTreeMap<(usize, u16), Vec<(i64, i64)>> = BTreeMap::new();
    for (from, to, cells) in &merged {
        for (row, count) in cells {
            let spans = runs.entry((level(*count), *row)).or_default();
            match spans.last_mut() {
                Some(span) if span.1 >= *from => span.1 = *to,
                _ => spans.push((*from, *to)),
            }
        }
    }
    let mut paths = vec![String::new(); HEAT.len()];
    for ((level, row), spans) in &runs {
        for (from, to) in spans {
            paths[*level].push_str(&format!("M{from} {}h{}", y(row + 1) + row_height / 2.0, to - from));
        }
    }
    for (level, d) in paths.iter().enumerate() {
        let sample = sample(level, top, row_height);
        svg.raw(&format!(
            r#"<path class="h{level} cells" d="{sample}{d}" stroke="{}" stroke-width="{row_height}" shape-rendering="crispEdges"/>"#,
            HEAT[level]
        ));
    }

    let (low_ns, high_ns) = (heat_row_ns(first), heat_row_ns(last + 1));
    let scale = Quantity::Milliseconds.scale([(low_ns * high_ns).sqrt() / 1e6]);
    let octaves = rows / HEAT_ROWS_PER_OCTAVE;
    let mut last_label = f64::INFINITY;
    for value in ticks(low_ns / 1e6, high_ns / 1e6, octaves) {
        let share = (value * 1e6 / low_ns).log2() / octaves;
        let place = bottom - share * (bottom - top);
        if last_label - place < 15.0 {
            continue;
        }
        last_label = place;
        svg.grid(TIME_LEFT - 4.0, place, TIME_LEFT, place);
        svg.soft_text(TIME_LEFT - 6.0, place + 4.0, Anchor::End, &scale.tick(value));
    }
    svg.soft_text(TIME_LEFT - 6.0, top - 9.0, Anchor::End, scale.unit);
    legend(&mut svg, largest, top);
    svg.finish()
}

/// The colour of a count, of eight: equal steps of its logarithm, from one operation to the maximum.
fn level_of(count: u64, largest: u64) -> usize {
    if largest <= 1 {
        return HEAT.len() - 1;
    }
    let share = (count.max(1) as f64).ln() / (largest as f64).ln();
    ((share * HEAT.len() as f64) as usize).min(HEAT.len() - 1)
}

/// 1, 2, 5 times powers of ten, or only the powers if there would be too many.
fn ticks(from: f64, to: f64, octaves: f64) -> Vec<f64> {
    let steps: &[f64] = if octaves < 9.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    (low..=high)
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .filter(|value| *value >= from * 0.999 && *value <= to * 1.001)
        .collect()
}

/// Left edge of the colour scale.
const SCALE_LEFT: f64 = TIME_RIGHT - 8.0 * 14.0 - 70.0;

/// A sample of a colour in the scale above the chart, drawn with lines as thick as the cells.
fn sample(level: usize, top: f64, thick: f64) -> String {
    let (x, lines) = (SCALE_LEFT + 14.0 * level as f64, (10.0 / thick).round().max(1.0) as usize);
    let first = top - 18.0 + thick / 2.0;
    let more: String = (1..lines).map(|_| format!("m-14 {thick}h14")).collect();
    format!("M{x} {first}h14{more}")
}

/// The legend of the colours: the smallest and the largest count.
fn legend(svg: &mut Svg, largest: u64, top: f64) {
    svg.soft_text(SCALE_LEFT - 6.0, top - 9.0, Anchor::End, "operations in a cell: 1");
    let text = Quantity::Count.show(largest as f64);
    svg.soft_text(SCALE_LEFT + 8.0 * 14.0 + 6.0, top - 9.0, Anchor::Start, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_share_their_edges_and_colours_are_few() {
        let columns: Vec<HeatColumn> = (0..60)
            .map(|second| HeatColumn {
                begin_s: f64::from(second),
                end_s: f64::from(second + 1),
                cells: (30..50).map(|row| (row, u64::from(row) * u64::from(second as u16 + 1))).collect(),
            })
            .collect();
        let data = HeatmapData {
            label: "x",
            span_s: (0.0, 60.0),
            columns: &columns,
            shades: &[],
            most_columns: 400,
        };
        let svg = heatmap(&data);
        assert!(svg.matches("crispEdges").count() <= 8);
        let corners: Vec<i64> = svg
            .split(['M'])
            .skip(1)
            .filter(|part| part.contains('h') && !part.contains('v'))
            .filter_map(|part| part.split(' ').next()?.parse().ok())
            .collect();
        assert!(!corners.is_empty(), "cells start at whole numbers");
        // 922 pixels for 60 seconds: every edge is one of 61 places.
        assert!(corners.iter().collect::<std::collections::BTreeSet<_>>().len() <= 60);
    }

    #[test]
    fn the_colour_grows_with_the_count() {
        let levels: Vec<usize> = [1, 2, 10, 100, 5000, 10_000].map(|count| level_of(count, 10_000)).to_vec();
        assert_eq!((levels[0], levels[5]), (0, 7));
        assert!(levels.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(level_of(1, 1), 7);
    }
}
