//! Hues, dashes and markers. Every series has its own combination, so that colour is never the only difference.

/// The three hues and grey on a light background: blue, orange, green, grey.
pub const HUES: [&str; 4] = ["#1a5fb4", "#b34700", "#1b7340", "#5c6370"];
/// The same on a dark background.
pub const DARK_HUES: [&str; 4] = ["#78b0ff", "#ffa95c", "#74cf95", "#b3bac5"];
/// Levels of a heatmap on a light background, few to many.
pub const HEAT: [&str; 8] =
    ["#8fbbe8", "#73a6dd", "#5890cf", "#3f7abf", "#2a64ab", "#184e91", "#0b3974", "#04244f"];
/// The same on a dark background.
pub const DARK_HEAT: [&str; 8] =
    ["#2f5a8a", "#3c6ea6", "#4b83c0", "#5f99d6", "#7bafe6", "#9bc5f2", "#bfdbf9", "#e8f3ff"];

const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// The style of one series: a hue, a dash and a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesStyle {
    hue: usize,
    dash: usize,
}

impl SeriesStyle {
    /// The style of the series at this index. Sixteen are different; the first four differ in hue, dash and marker.
    pub fn of(at: usize) -> Self {
        SeriesStyle { hue: at % 4, dash: (at + at / 4) % 4 }
    }

    /// An explicit hue and dash, for charts with two dimensions: operation by hue, percentile by dash.
    pub fn pair(hue: usize, dash: usize) -> Self {
        SeriesStyle { hue: hue % 4, dash: dash % 4 }
    }

    /// The id of its swatch on a page.
    fn id(self) -> String {
        format!("look{}{}", self.hue, self.dash)
    }

    /// The class of its hue.
    pub fn class(self) -> &'static str {
        ["s0", "s1", "s2", "s3"][self.hue]
    }

    /// Its colour on a light background.
    pub fn color(self) -> &'static str {
        HUES[self.hue]
    }

    /// `stroke-dasharray="..."`, or nothing for a solid line.
    pub(crate) fn dash_attribute(self) -> String {
        match DASHES[self.dash] {
            "" => String::new(),
            dash => format!(r#" stroke-dasharray="{dash}""#),
        }
    }

    /// The outline of its marker around a point: circle, square, triangle or diamond.
    pub(crate) fn marker(self, x: f64, y: f64) -> String {
        let (x, y) = (super::draw::coordinate(x), super::draw::coordinate(y));
        match self.dash {
            0 => format!("M{x} {y}m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0"),
            1 => format!("M{x} {y}m-3-3h6v6h-6z"),
            2 => format!("M{x} {y}m0-4l4 7h-8z"),
            _ => format!("M{x} {y}m0-4l4 4l-4 4l-4-4z"),
        }
    }
}

/// The swatch of a style for a legend, line and marker: a reference to one of [`swatches`].
pub fn swatch(look: SeriesStyle) -> String {
    format!(r##"<svg class="swatch" width="30" height="10"><use href="#{}"/></svg>"##, look.id())
}

/// The definitions of the swatches of a page.
pub fn swatches(page: &str) -> String {
    let looks = (0..4).flat_map(|hue| (0..4).map(move |dash| SeriesStyle { hue, dash }));
    let used = looks.filter(|look| page.contains(&format!("#{}\"", look.id())));
    let symbols: String = used
        .map(|look| {
            format!(
                r#"<symbol id="{id}" viewBox="0 0 30 10"><path class="{class}" d="M1 5H29" fill="none" stroke="{color}" stroke-width="2"{dash}/><path class="f {class}" d="{marker}" fill="{color}"/></symbol>"#,
                id = look.id(),
                class = look.class(),
                color = look.color(),
                dash = look.dash_attribute(),
                marker = look.marker(15.0, 5.0),
            )
        })
        .collect();
    match symbols.is_empty() {
        true => String::new(),
        false => format!(r#"<svg class="swatch" width="0" height="0" aria-hidden="true">{symbols}</svg>"#),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::draw::{INK, SOFT};
    use super::*;

    /// Relative luminance and contrast as WCAG 2 defines them.
    fn contrast(first: &str, second: &str) -> f64 {
        let luminance = |color: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let (first, second) = (luminance(first) + 0.05, luminance(second) + 0.05);
        (first / second).max(second / first)
    }

    #[test]
    fn every_series_stands_out_from_its_ground() {
        let grounds = crate::html::GROUNDS;
        for (hues, ground) in [(HUES, grounds[0]), (DARK_HUES, grounds[1])] {
            for hue in hues {
                assert!(contrast(hue, ground) >= 4.5, "{hue} on {ground}: {}", contrast(hue, ground));
            }
        }
        for text in [INK, SOFT] {
            assert!(contrast(text, grounds[0]) >= 4.5);
        }
        for heat in [HEAT, DARK_HEAT] {
            for pair in heat.windows(2) {
                assert!(contrast(pair[0], pair[1]) > 1.1, "{pair:?}");
            }
        }
    }

    #[test]
    fn sixteen_looks_differ() {
        let looks: BTreeSet<(usize, usize)> =
            (0..16).map(SeriesStyle::of).map(|look| (look.hue, look.dash)).collect();
        assert_eq!(looks.len(), 16);
        let dashes: BTreeSet<usize> = (0..4).map(|at| SeriesStyle::of(at).dash).collect();
        assert_eq!(dashes.len(), 4);
    }
}
