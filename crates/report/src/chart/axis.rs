//! Axes: from values to pixels, and the ticks between.

use super::draw::{Anchor, Svg};
use crate::text::Scale;

/// Approximate number of horizontal grid lines of a chart.
const ROW_TICKS: usize = 4;

/// Levels that span more than this factor get a logarithmic axis.
const LOG_FACTOR: f64 = 20.0;

/// A mapping from values to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    from: f64,
    to: f64,
    log: bool,
    /// Position of `from`.
    start: f64,
    /// Position of `to`.
    end: f64,
}

impl Axis {
    /// A linear axis over exactly these values.
    pub fn linear(from: f64, to: f64, start: f64, end: f64) -> Self {
        let (from, to) = match (from.is_finite() && to.is_finite(), to > from) {
            (true, true) => (from, to),
            (true, false) => (from, from + 1.0),
            (false, _) => (0.0, 1.0),
        };
        Axis { from, to, log: false, start, end }
    }

    /// A linear axis from zero to a round number past the largest of `values`.
    pub fn from_zero(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let largest = values.into_iter().filter(|value| *value < 1e300).fold(0.0_f64, f64::max);
        let step = nice_step(largest, ROW_TICKS);
        Axis::linear(0.0, if largest > 0.0 { (largest / step - 1e-9).ceil() * step } else { 1.0 }, start, end)
    }

    /// A logarithmic axis around the values above zero, a little wider than they are.
    pub fn log(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let (mut from, mut to) = (f64::INFINITY, 0.0_f64);
        // Outside these bounds the next decade is not a finite number.
        for value in values.into_iter().filter(|value| (1e-300..1e300).contains(value)) {
            from = from.min(value);
            to = to.max(value);
        }
        if to <= 0.0 {
            (from, to) = (1.0, 10.0);
        }
        // Down and up to the next of 1, 2, 5, 10, so that both ends have a label; at least half a decade.
        let floor = |value: f64| {
            let decade = 10f64.powf(value.log10().floor());
            [5.0, 2.0, 1.0]
                .into_iter()
                .map(|step| step * decade)
                .find(|edge| *edge <= value * 1.0001)
                .unwrap_or(decade)
        };
        let ceiling = |value: f64| {
            let decade = 10f64.powf(value.log10().floor());
            [1.0, 2.0, 5.0, 10.0]
                .into_iter()
                .map(|step| step * decade)
                .find(|edge| *edge >= value * 0.9999)
                .unwrap_or(decade * 10.0)
        };
        let (from, mut to) = (floor(from), ceiling(to));
        if to / from < 3.9 {
            to = from * 5.0;
        }
        Axis { from, to, log: true, start, end }
    }

    /// An axis over exactly these levels, with a margin on both sides: logarithmic, if it may be, where they span more than a
    /// factor of 20, as block sizes and queue depths usually do.
    pub fn levels(values: &[f64], may_be_log: bool, start: f64, end: f64) -> Self {
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if may_be_log && smallest > 0.0 && largest.is_finite() && largest > LOG_FACTOR * smallest {
            let room = (largest / smallest).powf(0.04);
            Axis { from: smallest / room, to: largest * room, log: true, start, end }
        } else {
            let room = 0.04 * (largest - smallest);
            Axis::linear(smallest - room, largest + room, start, end)
        }
    }

    /// The position of a value; NaN if the axis cannot show it.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + share * (self.end - self.start)
    }

    /// The value at the start.
    pub fn from(&self) -> f64 {
        self.from
    }

    /// The value at the end.
    pub fn to(&self) -> f64 {
        self.to
    }

    /// Whether it is logarithmic.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Round values along it, about `count`, in units of `unit`.
    pub fn ticks(&self, count: usize, unit: f64) -> Vec<f64> {
        let unit = if unit.is_finite() && unit > 0.0 { unit } else { 1.0 };
        let (from, to) = (self.from / unit, self.to / unit);
        if !self.log {
            let step = nice_step(to - from, count);
            let first = (from / step - 1e-9).ceil();
            return (0..50)
                .map(|at| (first + f64::from(at)) * step)
                .take_while(|value| *value <= to + step * 1e-9)
                .map(|value| value * unit)
                .collect();
        }
        let (low, high) = (from.log10().floor().max(-330.0) as i32, to.log10().ceil().min(330.0) as i32);
        let decades = (to / from).log10();
        let inside = |value: &f64| *value >= from * 0.999 && *value <= to * 1.001;
        let steps: &[f64] = match decades {
            d if d < 2.2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = ((decades / count.max(1) as f64).ceil() as i32).max(1);
        (low..=high)
            .filter(|decade| decade.rem_euclid(every) == 0 || steps.len() > 1)
            .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
            .filter(inside)
            .map(|value| value * unit)
            .collect()
    }

    /// Draws the horizontal grid lines of a vertical axis with their labels to the left.
    pub(crate) fn draw_rows(&self, svg: &mut Svg, left: f64, right: f64, scale: &Scale) {
        for value in self.ticks(ROW_TICKS, scale.divisor) {
            let y = self.place(value);
            svg.grid(left, y, right, y);
            svg.soft_text(left - 6.0, y + 4.0, Anchor::End, &scale.tick(value));
        }
    }
}

/// The step, 1, 2 or 5 times a power of ten, for about `count` ticks over `range`.
pub(crate) fn nice_step(range: f64, count: usize) -> f64 {
    if !range.is_finite() || range <= 0.0 {
        return 1.0;
    }
    let raw = range / count.max(1) as f64;
    let decade = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(decade * 10.0)
}

/// Ticks of a time axis in seconds with readable steps: `0 ms`, `0 s`, `30 s`, `10 min`.
pub(crate) fn time_ticks(from_s: f64, to_s: f64) -> Vec<(f64, String)> {
    let range = to_s - from_s;
    if !range.is_finite() || range <= 0.0 {
        return vec![(from_s, "0 s".into())];
    }
    const STEPS: [f64; 23] = [
        0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0,
        300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0,
    ];
    let step = STEPS
        .into_iter()
        .find(|step| range / step <= 8.0)
        .unwrap_or_else(|| (range / 8.0 / 86_400.0).ceil() * 86_400.0);
    let unit = match step {
        step if step >= 3600.0 => (3600.0, "h"),
        step if step >= 60.0 => (60.0, "min"),
        step if step < 0.1 => (0.001, "ms"),
        _ => (1.0, "s"),
    };
    let first = (from_s / step - 1e-9).ceil();
    (0..50)
        .map(|at| (first + f64::from(at)) * step)
        .take_while(|value| *value <= to_s + step * 1e-6)
        .map(|value| {
            let number = format!("{:.1}", value / unit.0);
            (value, format!("{} {}", number.trim_end_matches(".0"), unit.1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let axis = Axis::from_zero([0.0, 71_234.0], 200.0, 0.0);
        assert_eq!(axis.to(), 80_000.0);
        assert_eq!(axis.ticks(ROW_TICKS, 1000.0), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]);
        assert_eq!(axis.place(40_000.0), 100.0);
        let axis = Axis::log([0.031, 98.0], 200.0, 0.0);
        assert_eq!((axis.from(), axis.to()), (0.02, 100.0));
        assert_eq!(axis.ticks(5, 1.0), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(Axis::log([1.0, 1.0], 0.0, 1.0).ticks(5, 1.0), [1.0, 2.0, 5.0]);
        assert_eq!(time_ticks(0.0, 60.0).last().unwrap(), &(60.0, "60 s".to_string()));
        assert_eq!(time_ticks(0.0, 3600.0)[1].1, "10 min");
        assert_eq!(time_ticks(0.0, 0.047)[1].1, "10 ms");
    }

    #[test]
    fn levels_far_apart_stand_on_a_logarithmic_axis() {
        for (levels, is_log) in [
            (vec![1.0, 2.0, 4.0, 8.0, 16.0], false),
            (vec![1.0, 20.0], false),
            (vec![1.0, 4.0, 32.0], true),
            (vec![4096.0, 1_048_576.0], true),
            (vec![0.0, 100.0], false),
            (vec![7.0], false),
        ] {
            let axis = Axis::levels(&levels, true, 0.0, 100.0);
            assert_eq!(axis.is_log(), is_log, "{levels:?}");
            for level in levels {
                assert!((0.0..=100.0).contains(&axis.place(level)), "{level} at {}", axis.place(level));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_values_have_an_axis(values in proptest::collection::vec(proptest::num::f64::ANY, 0..20)) {
            for axis in [Axis::log(values.iter().copied(), 0.0, 100.0), Axis::from_zero(values.iter().copied(), 0.0, 100.0)] {
                proptest::prop_assert!(axis.to() > axis.from());
                proptest::prop_assert!(axis.ticks(5, 1.0).len() < 60);
                for value in values.iter().filter(|value| value.is_finite() && **value > 1e-300 && **value < 1e299) {
                    let place = axis.place(*value);
                    proptest::prop_assert!((-1.0..=101.0).contains(&place), "{} at {} on {:?}", value, place, axis);
                }
            }
            let _ = Axis::levels(&values, true, 0.0, 1.0).ticks(5, 1.0);
            let _ = time_ticks(values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0)).len();
        }
    }
}
