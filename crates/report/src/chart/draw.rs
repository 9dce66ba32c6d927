//! Writing SVG: coordinates, paths, text.

use crate::text::is_hidden;

/// Text on a light background.
pub(crate) const INK: &str = "#1c2127";
/// Secondary text on a light background.
pub(crate) const SOFT: &str = "#5c6370";
/// Grid lines on a light background.
pub(crate) const GRID: &str = "#d9dde3";

/// A text for an attribute or an element.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Characters that XML forbids even escaped, and characters that change the text direction.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if is_hidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most one decimal. NaN becomes zero: a wrong point is better than a
/// chart that cannot be displayed.
pub(crate) fn coordinate(value: f64) -> String {
    match value.is_finite() {
        true => tenths((value.clamp(-1e5, 1e5) * 10.0).round() as i64),
        false => "0".into(),
    }
}

fn tenths(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let value = value.abs();
    match value % 10 {
        0 => format!("{sign}{}", value / 10),
        tenth if value < 10 => format!("{sign}.{tenth}"),
        tenth => format!("{sign}{}.{tenth}", value / 10),
    }
}

/// The `d` attribute of a path in relative coordinates, computed in tenths so that rounding errors do not add up.
#[derive(Default)]
pub(crate) struct Path {
    d: String,
    at: (i64, i64),
    drawing: bool,
}

impl Path {
    fn round(value: f64) -> i64 {
        (value.clamp(-1e5, 1e5) * 10.0).round() as i64
    }

    /// A line to a point, or the start of one after a gap.
    pub(crate) fn line_to(&mut self, x: f64, y: f64) {
        if !x.is_finite() || !y.is_finite() {
            return self.gap();
        }
        let (x, y) = (Path::round(x), Path::round(y));
        if self.drawing {
            let (dx, dy) = (x - self.at.0, y - self.at.1);
            match (dx, dy) {
                (0, 0) => {}
                (_, 0) => self.d.push_str(&format!("h{}", tenths(dx))),
                (0, _) => self.d.push_str(&format!("v{}", tenths(dy))),
                _ => {
                    let dy = tenths(dy);
                    let space = if dy.starts_with('-') { "" } else { " " };
                    self.d.push_str(&format!("l{}{space}{dy}", tenths(dx)));
                }
            }
        } else {
            self.d.push_str(&format!("M{} {}", tenths(x), tenths(y)));
            self.drawing = true;
        }
        self.at = (x, y);
    }

    /// Ends the line.
    pub(crate) fn gap(&mut self) {
        self.drawing = false;
    }

    /// Closes the line to its start.
    pub(crate) fn close(&mut self) {
        if self.drawing {
            self.d.push('z');
        }
        self.gap();
    }

    /// The finished text.
    pub(crate) fn finish(self) -> String {
        self.d
    }
}

/// The alignment of a text at its point.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An `<svg>` under construction. Grid lines and secondary texts are collected and written first, so that their
/// style is written once.
pub(crate) struct Svg {
    opening: String,
    /// Lines of the grid, as one path.
    grid: String,
    /// Secondary texts by alignment: start, middle, end.
    soft: [String; 3],
    /// Primary texts by alignment; they are drawn last.
    ink: [String; 3],
    body: String,
}

impl Svg {
    /// Begins a chart. `label` is the sentence for screen readers; `attributes` may be empty.
    pub(crate) fn new(width: f64, height: f64, label: &str, attributes: &str) -> Self {
        Svg {
            opening: format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img" aria-label="{}" font-family="system-ui,sans-serif" font-size="12"{attributes}>"#,
                coordinate(width),
                coordinate(height),
                escape(label),
            ),
            grid: String::new(),
            soft: Default::default(),
            ink: Default::default(),
            body: String::new(),
        }
    }

    /// Adds finished markup.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
    }

    /// A grid line.
    pub(crate) fn grid(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(coordinate);
        let to = match (x1 == x2, y1 == y2) {
            (true, _) => format!("V{y2}"),
            (_, true) => format!("H{x2}"),
            _ => format!("L{x2} {y2}"),
        };
        self.grid.push_str(&format!("M{x1} {y1}{to}"));
    }

    /// A primary text.
    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.ink[anchor as usize].push_str(&text_at(x, y, text));
    }

    /// A secondary text.
    pub(crate) fn soft_text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.soft[anchor as usize].push_str(&text_at(x, y, text));
    }

    /// The finished element.
    pub(crate) fn finish(self) -> String {
        let mut out = self.opening;
        if !self.grid.is_empty() {
            out.push_str(&format!(r#"<path class="grid" d="{}" stroke="{GRID}" fill="none"/>"#, self.grid));
        }
        out.push_str(&groups("soft", SOFT, &self.soft));
        out.push_str(&self.body);
        out.push_str(&groups("ink", INK, &self.ink));
        out.push_str("</svg>");
        out
    }
}

fn text_at(x: f64, y: f64, text: &str) -> String {
    format!(r#"<text x="{}" y="{}">{}</text>"#, coordinate(x), coordinate(y), escape(text))
}

/// Texts of one colour, by alignment.
fn groups(class: &str, fill: &str, texts: &[String; 3]) -> String {
    let anchors = ["", r#" text-anchor="middle""#, r#" text-anchor="end""#];
    let filled = texts.iter().zip(anchors).filter(|(texts, _)| !texts.is_empty());
    filled.map(|(texts, anchor)| format!(r#"<g class="{class}"{anchor} fill="{fill}">{texts}</g>"#)).collect()
}

/// Keeps the smallest and the largest value of each column of pixels, in order of time, so that a stall of
/// one second stays visible in an hour. Points within a column are joined; gaps (NaN) between columns stay.
pub(crate) fn thin(points: &[(f64, f64)], from: f64, to: f64, columns: usize) -> Vec<(f64, f64)> {
    let columns = columns.max(1);
    if points.len() <= columns * 2 || to <= from {
        return points.to_vec();
    }
    let column = |x: f64| (((x - from) / (to - from) * columns as f64) as usize).min(columns - 1);
    let mut out = Vec::with_capacity(columns * 2);
    let mut rest = points;
    while let Some(&(first_x, _)) = rest.first() {
        let here = column(first_x);
        let length = rest.iter().take_while(|(x, _)| column(*x) == here).count().max(1);
        let (group, after) = rest.split_at(length);
        rest = after;
        let values = || group.iter().filter(|(_, y)| y.is_finite());
        let low = values().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = values().max_by(|a, b| a.1.total_cmp(&b.1));
        match (low, high) {
            (Some(low), Some(high)) if low.1 == high.1 => out.push(*low),
            (Some(low), Some(high)) if low.0 <= high.0 => out.extend([*low, *high]),
            (Some(low), Some(high)) => out.extend([*high, *low]),
            _ => out.push((first_x, f64::NAN)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_short_and_keeps_its_gaps() {
        let mut path = Path::default();
        for (x, y) in [(0.0, 10.0), (1.0, 10.0), (2.0, 9.5), (f64::NAN, 0.0), (4.0, 5.0), (4.0, 6.0)] {
            path.line_to(x, y);
        }
        assert_eq!(path.finish(), "M0 10h1l1-.5M4 5v1");
    }

    proptest::proptest! {
        #[test]
        fn thinning_keeps_the_extremes(values in proptest::collection::vec(0.0f64..1e6, 1..2000), columns in 1usize..100) {
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(at, y)| (at as f64, *y)).collect();
            let thinned = thin(&points, 0.0, points.len() as f64, columns);
            let largest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(f64::MIN, f64::max);
            let smallest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(f64::MAX, f64::min);
            proptest::prop_assert_eq!(largest(&thinned), largest(&points));
            proptest::prop_assert_eq!(smallest(&thinned), smallest(&points));
            proptest::prop_assert!(thinned.len() <= columns * 2);
            proptest::prop_assert!(thinned.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
        #[test]
        fn no_coordinate_breaks_the_markup(x: f64, y: f64) {
            let mut path = Path::default();
            path.line_to(x, y);
            path.line_to(y, x);
            path.close();
            let text = format!("{}{}", path.finish(), coordinate(x));
            proptest::prop_assert!(text.chars().all(|c| "MhvlzL0123456789.- ".contains(c)), "{}", text);
        }
    }
}
