//! Waterfall: the parts of a request as bars over its time, one below the other.

use super::axis::Axis;
use super::draw::{Anchor, Svg, coordinate, escape};
use super::style::SeriesStyle;
use super::{TIME_RIGHT, WIDTH};
use crate::text::{Quantity, shortened};

/// One part.
#[derive(Clone, Debug, PartialEq)]
pub struct WaterfallBar {
    /// Its name.
    pub name: String,
    /// Its style; none for the time of the system itself.
    pub look: Option<SeriesStyle>,
    /// When it begins, milliseconds from the start.
    pub begin_ms: f64,
    /// How long it takes.
    pub takes_ms: f64,
}

const ROW: f64 = 22.0;
const LEFT: f64 = 210.0;
/// Space for the time behind the longest bar.
const TIME_WIDTH: f64 = 76.0;

/// Draws the parts in their order. `label` is the sentence for screen readers.
pub fn waterfall(label: &str, bars: &[WaterfallBar]) -> String {
    let bottom = 8.0 + ROW * bars.len().max(1) as f64;
    let mut svg = Svg::new(WIDTH, bottom + 40.0, label, "");
    let ends = || bars.iter().map(|bar| bar.begin_ms + bar.takes_ms);
    let columns = Axis::from_zero(ends(), LEFT, TIME_RIGHT - TIME_WIDTH);
    let scale = Quantity::Milliseconds.scale(ends());
    for value in columns.ticks(6, scale.divisor) {
        let x = columns.place(value);
        svg.grid(x, 8.0, x, bottom);
        svg.soft_text(x, bottom + 16.0, Anchor::Middle, &scale.tick(value));
    }
    let unit = if scale.unit.is_empty() { String::new() } else { format!(", {}", scale.unit) };
    svg.soft_text(
        (LEFT + TIME_RIGHT) / 2.0,
        bottom + 34.0,
        Anchor::Middle,
        &format!("time since the request arrived{unit}"),
    );
    for (at, bar) in bars.iter().enumerate() {
        let middle = 8.0 + ROW * (at as f64 + 0.5);
        let [from, to] = [bar.begin_ms, bar.begin_ms + bar.takes_ms].map(|ms| columns.place(ms));
        let name = shortened(&bar.name, 32);
        match bar.look {
            Some(_) => svg.text(LEFT - 8.0, middle + 4.0, Anchor::End, &name),
            None => svg.soft_text(LEFT - 8.0, middle + 4.0, Anchor::End, &name),
        }
        if !(from.is_finite() && to.is_finite()) {
            continue;
        }
        let (half, style) = match bar.look {
            Some(look) => (7.0, look),
            None => (3.0, SeriesStyle::pair(3, 0)),
        };
        svg.raw(&format!(
            r#"<path class="f {}" d="M{} {}h{}v{}h-{}z" fill="{}"><title>{}</title></path>"#,
            style.class(),
            coordinate(from),
            coordinate(middle - half),
            coordinate((to - from).max(1.0)),
            coordinate(2.0 * half),
            coordinate((to - from).max(1.0)),
            style.color(),
            escape(&bar.name)
        ));
        let time = Quantity::Milliseconds.show(bar.takes_ms);
        svg.soft_text(to.max(from + 1.0) + 6.0, middle + 4.0, Anchor::Start, &time);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_a_bar_and_nothing_is_not_a_number() {
        let bar = |name: &str, look, begin_ms, takes_ms| WaterfallBar {
            name: name.into(),
            look,
            begin_ms,
            takes_ms,
        };
        let look = Some(SeriesStyle::of(0));
        let bars =
            [bar("own time", None, 0.0, 5.0), bar("a <1>", look, 5.0, 10.0), bar("b", look, f64::NAN, 1.0)];
        let chart = waterfall("x", &bars);
        assert_eq!(chart.matches("<title>").count(), 2);
        assert!(chart.contains("a &lt;1&gt;") && !chart.contains("NaN"), "{chart}");
        assert!(!waterfall("x", &[]).contains("NaN"));
    }
}
