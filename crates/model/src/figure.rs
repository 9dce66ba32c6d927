//! Figures as a report states them: a number, and what its digits and its unit leave open.
//!
//! `225.80/s` is any rate from 225.795 to 225.805. `1 MB` is 1,000,000 or 1,048,576 bytes, because reports mean both. Two
//! figures contradict each other only if no values inside these ranges fit.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::{long_time, thousands, three_figures};

/// How much more than its digits a figure behind `about` allows, as a share of it.
const ABOUT_SHARE: f64 = 0.03;

/// The largest figure in its base unit. Products and quotients of smaller ones are finite.
const FIGURE_MAX: f64 = 1e21;

/// The begin of the names of facts with figures that another tool printed: `stated.rate`.
pub const STATED: &str = "stated.";
/// The fact with the step of the times of another tool, milliseconds, if it is coarse.
pub const TIME_STEP_MS: &str = "imported.time_step_ms";
/// The fact of a load of another tool whose users may think between operations, for an unknown time.
pub const SCRIPTED: &str = "imported.scripted";
/// The fact of response times to which the tool added those of operations that it did not send.
pub const CORRECTED: &str = "imported.corrected";
/// The begin of the names of facts with the shares of a histogram: `histogram.3 ms`.
pub const HISTOGRAM: &str = "histogram.";

/// The begin of the names of facts with percentiles over the whole run as another tool computed them, milliseconds:
/// `imported.ms.all.p99`. From percentiles of parts alone, those of the sum cannot be computed.
pub const PERCENTILE_MS: &str = "imported.ms.";

/// What a figure says.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Quantity {
    /// Number of operations.
    Count,
    /// Number of failed operations.
    Failed,
    /// Length of the measurement, seconds.
    Elapsed,
    /// Operations per second.
    Rate,
    /// Amount of data, bytes.
    Data,
    /// Bytes per second.
    Throughput,
    /// Bytes of an operation.
    BlockSize,
    /// Operations that the load keeps in flight: threads, users or connections times their queue depth.
    InFlight,
    /// Time between a response and the next operation of the same user, seconds.
    ThinkTime,
    /// Mean response time, seconds.
    Mean,
    /// Shortest response time, seconds.
    Min,
    /// A percentile of the response time, seconds: 99.9.
    Percentile(f64),
    /// Longest response time, seconds.
    Max,
    /// The number after the sign of plus and minus behind a mean, seconds: a standard deviation, or half of the range.
    Deviation,
    /// The most operations per second that the system is said to reach.
    Ceiling,
    /// How many times faster than the base it is said to be.
    TimesFaster,
    /// By how many percent its rate is said to be lower than that of the base.
    PercentSlower,
    /// Its rate in percent of that of the base.
    RatePercent,
    /// Its response time in percent of that of the base.
    TimePercent,
}

/// The kind of number that a quantity has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A number of things.
    Number,
    /// Seconds.
    Time,
    /// Things per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Throughput,
    /// Percent.
    Percent,
}

impl Quantity {
    /// Those with a fixed name, which is the key in a file of figures.
    pub const NAMED: [(&'static str, Quantity); 18] = [
        ("count", Quantity::Count),
        ("failed", Quantity::Failed),
        ("elapsed", Quantity::Elapsed),
        ("rate", Quantity::Rate),
        ("data", Quantity::Data),
        ("throughput", Quantity::Throughput),
        ("block_size", Quantity::BlockSize),
        ("in_flight", Quantity::InFlight),
        ("think_time", Quantity::ThinkTime),
        ("mean", Quantity::Mean),
        ("min", Quantity::Min),
        ("max", Quantity::Max),
        ("deviation", Quantity::Deviation),
        ("ceiling", Quantity::Ceiling),
        ("times_faster", Quantity::TimesFaster),
        ("percent_slower", Quantity::PercentSlower),
        ("rate_percent", Quantity::RatePercent),
        ("time_percent", Quantity::TimePercent),
    ];

    /// The quantity with a name; `p99.9` and `p999` are percentiles.
    pub fn of_name(name: &str) -> Option<Quantity> {
        if let Some((_, quantity)) = Quantity::NAMED.iter().find(|(own, _)| *own == name) {
            return Some(*quantity);
        }
        let digits = name.strip_prefix('p')?;
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let mut percent: f64 = digits.parse().ok().filter(|_| is_plain)?;
        // `p999` is 99.9.
        while percent > 100.0 && !digits.contains('.') && digits.starts_with('9') {
            percent /= 10.0;
        }
        (percent > 0.0 && percent < 100.0).then_some(Quantity::Percentile(percent))
    }

    /// The kind of its number.
    pub fn dimension(self) -> Dimension {
        match self {
            Quantity::Count | Quantity::Failed | Quantity::InFlight | Quantity::TimesFaster => {
                Dimension::Number
            }
            Quantity::Elapsed
            | Quantity::ThinkTime
            | Quantity::Mean
            | Quantity::Min
            | Quantity::Max
            | Quantity::Percentile(_)
            | Quantity::Deviation => Dimension::Time,
            Quantity::Rate | Quantity::Ceiling => Dimension::Rate,
            Quantity::Data | Quantity::BlockSize => Dimension::Bytes,
            Quantity::Throughput => Dimension::Throughput,
            Quantity::PercentSlower | Quantity::RatePercent | Quantity::TimePercent => Dimension::Percent,
        }
    }

    /// Whether the user sets it, so that a round number is exact.
    fn is_setting(self) -> bool {
        matches!(
            self,
            Quantity::BlockSize
                | Quantity::InFlight
                | Quantity::ThinkTime
                | Quantity::Count
                | Quantity::Failed
        )
    }

    /// A value of it, with three digits and its unit.
    pub fn show(self, value: f64) -> String {
        let number = |value: f64| match value.abs() >= 1000.0 {
            true => thousands(value),
            false => three_figures(value),
        };
        let bytes = |value: f64| {
            const UNITS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
            let (size, unit) = UNITS.iter().find(|(size, _)| value >= *size).copied().unwrap_or((1.0, "B"));
            format!("{} {unit}", three_figures(value / size))
        };
        match self.dimension() {
            Dimension::Number => number(value),
            Dimension::Time if value < 1.0 => format!("{} ms", three_figures(value * 1e3)),
            Dimension::Time => long_time(value),
            Dimension::Rate => format!("{}/s", number(value)),
            Dimension::Bytes => bytes(value),
            Dimension::Throughput => format!("{}/s", bytes(value)),
            Dimension::Percent => format!("{} %", three_figures(value)),
        }
    }
}

impl fmt::Display for Quantity {
    /// Its name in a sentence: `mean time`, `p99.9`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Quantity::Percentile(percent) => return write!(out, "p{percent}"),
            Quantity::Count => "count",
            Quantity::Failed => "failed operations",
            Quantity::Elapsed => "elapsed time",
            Quantity::Rate => "rate",
            Quantity::Data => "data",
            Quantity::Throughput => "throughput",
            Quantity::BlockSize => "block size",
            Quantity::InFlight => "in flight",
            Quantity::ThinkTime => "think time",
            Quantity::Mean => "mean time",
            Quantity::Min => "shortest time",
            Quantity::Max => "longest time",
            Quantity::Deviation => "deviation",
            Quantity::Ceiling => "ceiling",
            Quantity::TimesFaster => "times faster",
            Quantity::PercentSlower => "percent slower",
            Quantity::RatePercent => "rate in percent",
            Quantity::TimePercent => "time in percent",
        })
    }
}

/// Values that a figure allows, in the base unit of its quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The smallest.
    pub low: f64,
    /// The upper end, which itself is not allowed.
    pub high: f64,
}

impl Span {
    /// Values from `low` to `high`.
    pub fn new(low: f64, high: f64) -> Span {
        Span { low, high }
    }

    /// Whether they have a value in common. Ends that are equal but for the rounding of the arithmetic do not.
    pub fn meets(self, other: Span) -> bool {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        low < high - 1e-12 * high.abs()
    }

    /// The product of values.
    pub fn times(self, other: Span) -> Span {
        Span { low: self.low * other.low, high: self.high * other.high }
    }

    /// The quotient of values; up to infinity if the other may be zero.
    pub fn over(self, other: Span) -> Span {
        let by = |value: f64, by: f64| if by > 0.0 { value / by } else { f64::INFINITY };
        Span { low: by(self.low, other.high), high: by(self.high, other.low) }
    }

    /// The sum of values.
    pub fn plus(self, other: Span) -> Span {
        Span { low: self.low + other.low, high: self.high + other.high }
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is of.
    pub quantity: Quantity,
    /// As stated: `225.80/s`.
    pub text: String,
    /// The stated value in the base unit; the smaller one if the unit has two meanings.
    pub value: f64,
    /// What it allows.
    pub span: Span,
    /// Its unit as stated, and what it allows with the smaller meaning of that unit. Two figures of one report with the same
    /// unit mean the same by it.
    unit: String,
    of_unit: Span,
}

/// Units of a dimension: the smallest and the largest meaning in the base unit.
fn unit(dimension: Dimension, unit: &str) -> Option<(f64, f64)> {
    let exact = |value: f64| Some((value, value));
    let lower = unit.to_lowercase();
    let time = |unit: &str| {
        Some(match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" | "msec" | "milliseconds" => 1e-3,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return None,
        })
    };
    let bytes = |unit: &str| {
        if let Some(bits) = unit.strip_suffix("bit").or_else(|| unit.strip_suffix('b')) {
            let power = ["", "k", "m", "g", "t"].iter().position(|of| *of == bits.to_lowercase())?;
            return exact(1000f64.powi(power as i32) / 8.0);
        }
        let of = unit.to_lowercase();
        let of = of
            .strip_suffix("bytes")
            .or_else(|| of.strip_suffix("byte"))
            .or_else(|| of.strip_suffix('b'))
            .unwrap_or(&of);
        let power = |of: &str| ["", "k", "m", "g", "t"].iter().position(|known| *known == of);
        if let Some(binary) = of.strip_suffix('i') {
            return exact(1024f64.powi(power(binary)? as i32));
        }
        let power = power(of)? as i32;
        Some((1000f64.powi(power), 1024f64.powi(power)))
    };
    match dimension {
        Dimension::Number => exact(1.0),
        Dimension::Time => exact(time(&lower)?),
        Dimension::Bytes => bytes(unit).filter(|_| !unit.is_empty()),
        Dimension::Throughput => {
            let (amount, per) =
                unit.rsplit_once('/').or_else(|| unit.split_once("ps").map(|(of, _)| (of, "s")))?;
            let (low, high) = bytes(amount.trim()).filter(|_| !amount.trim().is_empty())?;
            let per = time(per)?;
            Some((low / per, high / per))
        }
        Dimension::Rate => match lower.rsplit_once('/') {
            Some((_, per)) => exact(1.0 / time(per)?),
            None if ["", "iops", "tps", "qps", "rps"].contains(&lower.as_str()) => exact(1.0),
            None => None,
        },
        Dimension::Percent => exact(1.0),
    }
}

impl Figure {
    /// Reads a figure: `0.684 objects/s`, `214 min`, `11,251`, `8 KB`, `about 46 MB/s`.
    ///
    /// A whole number of milliseconds, seconds or minutes may have been cut off and not rounded, and a mean of such times is
    /// up to two lower than the true one. After `about` or `~`, three percent more are allowed at each end.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(quantity: Quantity, text: &str) -> Result<Figure, String> {
        let text = text.trim();
        let exact = text.trim_start_matches(['~', '≈']).trim_start();
        let exact =
            ["about ", "around ", "circa "].iter().find_map(|word| exact.strip_prefix(word)).unwrap_or(exact);
        let is_about = exact.len() != text.len();
        let end =
            exact.find(|of: char| !(of.is_ascii_digit() || of == '.' || of == ',')).unwrap_or(exact.len());
        let (digits, name) = exact.split_at(end);
        let wrong = |what: &str| format!("`{text}` is not a {}: {what}", quantity);
        let digits = digits.trim_end_matches([',', '.']);
        let plain: String = match is_grouped(digits) {
            true => digits.chars().filter(|of| *of != ',').collect(),
            false => digits.replace(',', "."),
        };
        let value: f64 = plain.parse().map_err(|_| wrong("it does not begin with a number"))?;
        let name = name.trim();
        let dimension = quantity.dimension();
        let Some((small, large)) = unit(dimension, name) else {
            let known = match dimension {
                Dimension::Time => "ns, us, ms, s, min, h or days",
                Dimension::Bytes => "B, KB, KiB, MB, MiB, GB, GiB, TB or TiB",
                Dimension::Throughput => "such as MB/s, MiB/s or Mbit/s",
                _ => "such as /s, objects/s or IOPS",
            };
            return Err(wrong(&format!("its unit is {known}")));
        };
        let decimals = plain.split_once('.').map_or(0, |(_, after)| after.len());
        let step = 10f64.powi(-(decimals.min(300) as i32));
        // A block of `8 KB` is one of 8,192 bytes.
        let (small, large) = if quantity == Quantity::BlockSize { (large, large) } else { (small, large) };
        let about = if is_about { ABOUT_SHARE * value } else { 0.0 };
        let (below, above) = match quantity {
            // Never a single value, which has nothing in common with any other.
            _ if quantity.is_setting() => {
                let near = (1e-9 * value).max(1e-6) / step;
                (near, near)
            }
            Quantity::Mean if decimals == 0 => (0.5, 2.0),
            _ if decimals == 0 && dimension == Dimension::Time => (0.5, 1.0),
            _ => (0.5, 0.5),
        };
        let digits = Span::new((value - below * step - about).max(0.0), value + above * step + about);
        let span = Span::new(digits.low * small, digits.high * large);
        let of_unit = Span::new(digits.low * small, digits.high * small);
        if span.high.is_nan() || span.high > FIGURE_MAX {
            return Err(wrong("it is too large"));
        }
        let unit = name.to_lowercase();
        Ok(Figure { quantity, text: text.to_string(), value: value * small, span, unit, of_unit })
    }

    /// A figure of a measurement of ours, with the share that it may be off.
    pub fn measured(quantity: Quantity, value: f64, share: f64) -> Figure {
        // Never a single value, which has nothing in common with any other.
        let off = (value * share.max(1e-9)).abs().max(1e-12);
        Figure::within(quantity, value, Span::new((value - off).max(0.0), value + off))
    }
}

impl Figure {
    /// A figure that was worked out: a value, and what it may be.
    pub fn within(quantity: Quantity, value: f64, span: Span) -> Figure {
        Figure { quantity, text: quantity.show(value), value, span, unit: String::new(), of_unit: span }
    }

    /// The same figure with another text.
    pub fn with_text(self, text: impl Into<String>) -> Figure {
        Figure { text: text.into(), ..self }
    }

    /// What both allow, in a unit that has one meaning for both if it is the same.
    pub fn beside(&self, other: &Figure) -> (Span, Span) {
        if self.unit == other.unit { (self.of_unit, other.of_unit) } else { (self.span, other.span) }
    }
}

/// Whether commas group the digits by thousands: `11,251` but not `3,5`.
fn is_grouped(digits: &str) -> bool {
    let whole = digits.split('.').next().unwrap_or(digits);
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or("");
    let mut rest = groups.peekable();
    (1..=3).contains(&first.len()) && rest.peek().is_some() && rest.all(|group| group.len() == 3)
}

/// What a report states of one result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The name of the result.
    pub name: String,
    /// The line where it is, from 1; 0 where there is none.
    pub line: u64,
    /// The name of the result that it is compared with.
    pub base: Option<String>,
    /// The figures. A quantity may be stated several times.
    pub figures: Vec<Figure>,
    /// The lower ends of the columns of a histogram of response times, seconds, with the share in each in percent.
    pub histogram: Vec<(f64, Figure)>,
}

impl Figures {
    /// The first figure of a quantity.
    pub fn get(&self, quantity: Quantity) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.quantity == quantity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_and_the_unit_say_what_a_figure_allows() {
        for (quantity, text, low, high) in [
            (Quantity::Rate, "0.684 objects/s", 0.6835, 0.6845),
            (Quantity::Rate, "225.80", 225.795, 225.805),
            (Quantity::Rate, "2803 IOPS", 2802.5, 2803.5),
            (Quantity::Rate, "90/min", 89.5 / 60.0, 90.5 / 60.0),
            (Quantity::Elapsed, "214 min", 213.5 * 60.0, 215.0 * 60.0),
            (Quantity::Elapsed, "11.37 hours", 11.365 * 3600.0, 11.375 * 3600.0),
            (Quantity::Mean, "3 ms", 0.0025, 0.005),
            (Quantity::Mean, "3.0 ms", 0.00295, 0.00305),
            (Quantity::Max, "111 ms", 0.1105, 0.112),
            (Quantity::Throughput, "1.76 MB/s", 1.755e6, 1.765 * 1_048_576.0),
            (Quantity::Throughput, "348 Mbit/s", 347.5e6 / 8.0, 348.5e6 / 8.0),
            (Quantity::Throughput, "348 Mb/s", 347.5e6 / 8.0, 348.5e6 / 8.0),
            (Quantity::Throughput, "about 46 MiB/s", 44.12 * 1_048_576.0, 47.88 * 1_048_576.0),
            (Quantity::Data, "10 TB", 9.5e12, 10.5 * 1_099_511_627_776.0),
            (Quantity::PercentSlower, "50 %", 49.5, 50.5),
        ] {
            let figure = Figure::parse(quantity, text).unwrap();
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs();
            assert!(near(figure.span.low, low) && near(figure.span.high, high), "{text}: {:?}", figure.span);
        }
        let block = Figure::parse(Quantity::BlockSize, "8 KB").unwrap().span;
        assert!(block.low < 8192.0 && block.high > 8192.0 && block.high - block.low < 1.0, "{block:?}");
        let count = Figure::parse(Quantity::Count, "11,251 objects").unwrap().span;
        assert!(count.low < 11_251.0 && count.high > 11_251.0 && count.high < 11_252.0, "{count:?}");
    }

    #[test]
    fn what_is_not_a_figure_is_an_error() {
        for (quantity, text) in [
            (Quantity::Rate, "fast"),
            (Quantity::Mean, "3"),
            (Quantity::Mean, "3 parsecs"),
            (Quantity::Throughput, "3 MB"),
            (Quantity::Data, "3 X"),
            (Quantity::Count, ""),
            (Quantity::Count, "-3"),
            (Quantity::Count, "1.2.3"),
        ] {
            assert!(Figure::parse(quantity, text).is_err(), "{text}");
        }
        assert!(Figure::parse(Quantity::Elapsed, &format!("{} days", "9".repeat(400))).is_err());
    }

    #[test]
    fn names_of_percentiles() {
        for (name, percent) in
            [("p50", 50.0), ("p99", 99.0), ("p999", 99.9), ("p99.9", 99.9), ("p9999", 99.99)]
        {
            let Some(Quantity::Percentile(found)) = Quantity::of_name(name) else { panic!("{name}") };
            assert!((found - percent).abs() < 1e-9, "{name}: {found}");
        }
        for name in ["p", "p100", "p0", "pending", "p1e1", "p500"] {
            assert_eq!(Quantity::of_name(name), None, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}", number in "[0-9.,]{0,8} ?[a-zA-Z/%]{0,6}") {
            for (_, quantity) in Quantity::NAMED {
                let _ = Figure::parse(quantity, &text);
                if let Ok(figure) = Figure::parse(quantity, &number) {
                    proptest::prop_assert!(figure.span.low < figure.span.high && figure.span.low >= 0.0, "{:?}", figure);
                }
            }
        }
    }
}
