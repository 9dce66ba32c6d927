//! Numbers with their units, written the same way in the terminal and on the page.
//!
//! Three significant figures, one unit down a column, the number and its unit apart by a space. A value that
//! is not a number is a dash, never a zero.

use std::borrow::Cow;

use model::run::{OperationUnit, WorkloadTraits};
use model::{LatencySummary, Statistics, Unit, quantity};

/// What kind of number is shown; decides the units it may be shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Operations per second; the word is `IOPS` for a disk and `ops/s` for everything else.
    Rate(&'static str),
    /// Bytes per second, shown in decimal kB/s, MB/s or GB/s.
    BytesPerSecond,
    /// Bytes per second, shown in MiB/s, which SQLIO and diskspd call MB/s, or in KiB/s.
    BinaryBytesPerSecond,
    /// A time kept in milliseconds, shown in ns, µs, ms or s.
    Milliseconds,
    /// A time kept in microseconds.
    Microseconds,
    /// A time kept in seconds.
    Seconds,
    /// A whole number of things.
    Count,
    /// Bytes, shown in binary KiB, MiB, GiB.
    Bytes,
    /// 0 to 1, shown in percent.
    Share,
    /// CPU seconds per second.
    Cpus,
    /// A number of no known unit.
    Plain,
}

impl Quantity {
    /// The quantity a counter's unit is.
    pub fn of(unit: Unit) -> Self {
        match unit {
            Unit::Count => Quantity::Plain,
            Unit::PerSecond => Quantity::Rate("/s"),
            Unit::Bytes => Quantity::Bytes,
            Unit::BytesPerSecond => Quantity::BytesPerSecond,
            Unit::Seconds => Quantity::Seconds,
            Unit::Share => Quantity::Share,
            Unit::Cpus => Quantity::Cpus,
        }
    }

    /// The units to choose from, smallest first: factor to the kept unit, what follows each number, name.
    fn units(self) -> Vec<Scale> {
        let scale = |divisor, suffix, unit| Scale { divisor, suffix, unit, whole: false };
        match self {
            Quantity::Rate(word) => {
                vec![scale(1.0, "", word), scale(1e3, " k", word), scale(1e6, " M", word)]
            }
            Quantity::BytesPerSecond => {
                vec![scale(1e3, "", "kB/s"), scale(1e6, "", "MB/s"), scale(1e9, "", "GB/s")]
            }
            Quantity::BinaryBytesPerSecond => {
                vec![scale(1024.0, "", "KiB/s"), scale(1_048_576.0, "", "MiB/s")]
            }
            Quantity::Milliseconds => time_units(1e6),
            Quantity::Microseconds => time_units(1e3),
            Quantity::Seconds => time_units(1e9),
            Quantity::Count => vec![Scale { whole: true, ..scale(1.0, "", "") }],
            Quantity::Bytes => vec![
                scale(1.0, "", "B"),
                scale(1024.0, "", "KiB"),
                scale(1_048_576.0, "", "MiB"),
                scale(1_073_741_824.0, "", "GiB"),
            ],
            Quantity::Share => vec![scale(0.01, " %", "%")],
            Quantity::Cpus => vec![scale(1.0, "", "CPUs")],
            Quantity::Plain => vec![scale(1.0, "", "")],
        }
    }

    /// The scale at which `values` have one to three digits before the point: the one that suits the middle,
    /// on a logarithmic scale, between the smallest and the largest of them.
    pub fn scale(self, values: impl IntoIterator<Item = f64>) -> Scale {
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().map(f64::abs).filter(|value| value.is_finite() && *value > 0.0) {
            smallest = smallest.min(value);
            largest = largest.max(value);
        }
        let units = self.units();
        if largest <= 0.0 {
            // Nothing to go by: the unit people expect to see.
            return match self {
                Quantity::Milliseconds | Quantity::Seconds | Quantity::Microseconds => units[2],
                Quantity::BytesPerSecond | Quantity::BinaryBytesPerSecond => units[1],
                _ => units[0],
            };
        }
        // The root of each, not of the product, which may overflow.
        let middle = smallest.sqrt() * largest.sqrt();
        // A number is still easy to read a little past the next unit: 9200/s rather than 9.2 k.
        let enough = match self {
            Quantity::Rate(_) => 10.0,
            Quantity::BytesPerSecond | Quantity::BinaryBytesPerSecond => 0.5,
            // 1020 KiB are 1.00 MiB.
            Quantity::Bytes => 0.995,
            _ => 1.0,
        };
        let fits = |scale: &&Scale| middle >= scale.divisor * enough;
        *units.iter().skip(1).rev().find(fits).unwrap_or(&units[0])
    }

    /// One number alone with its unit: `1.92 ms`, `71.2 k IOPS`.
    pub fn show(self, value: f64) -> String {
        self.scale([value]).with_unit(value)
    }
}

/// The units of time, for a time kept in units of `ns` nanoseconds.
fn time_units(ns: f64) -> Vec<Scale> {
    [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]
        .map(|(factor, unit)| Scale { divisor: factor / ns, suffix: "", unit, whole: false })
        .to_vec()
}

/// A unit chosen for a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// A kept value is divided by this.
    pub divisor: f64,
    /// What follows each number: ` k` or ` %`, else nothing.
    pub suffix: &'static str,
    /// The unit, for the head of the column; empty for a count.
    pub unit: &'static str,
    /// Whole numbers, thousands apart.
    whole: bool,
}

impl Scale {
    /// The number in this unit, without the unit: `71.2 k`, `0.410`, `61,234`.
    pub fn number(&self, value: f64) -> String {
        let scaled = value / self.divisor;
        match () {
            () if !scaled.is_finite() => "-".into(),
            () if self.whole => quantity::thousands(scaled),
            () if scaled.abs() >= 10_000.0 => {
                format!("{}{}", quantity::thousands(quantity::three_figures_of(scaled)), self.suffix)
            }
            () => format!("{}{}", quantity::three_figures(scaled), self.suffix),
        }
    }

    /// The spread of a number, with as many decimals as the number has: `0.1` beside `51.6`.
    pub fn spread_of(&self, value: f64, spread: f64) -> String {
        let number = self.number(value);
        let decimals =
            number.split_once('.').map_or(0, |(_, decimals)| decimals.trim_end_matches(self.suffix).len());
        let scaled = spread / self.divisor;
        // One digit of a spread that would show as zero.
        let digits = match scaled > 0.0 && scaled.is_finite() {
            true => (-scaled.log10().floor()).clamp(0.0, 9.0) as usize,
            false => 0,
        };
        match scaled.is_finite() {
            true => format!("{scaled:.0$}{1}", decimals.max(digits), self.suffix),
            false => "-".into(),
        }
    }

    /// The number with its unit: `1.92 ms`, `71.2 k IOPS`.
    pub fn with_unit(&self, value: f64) -> String {
        let number = self.number(value);
        match self.unit {
            "" | "%" => number,
            _ if number == "-" => number,
            "/s" => format!("{number}/s"),
            unit => format!("{number} {unit}"),
        }
    }

    /// A number for the tick of an axis: as short as it goes, `0.1`, `20`, `1 k`.
    pub fn tick(&self, value: f64) -> String {
        let scaled = value / self.divisor;
        let text = match scaled.abs() {
            0.0 => "0".to_string(),
            size if size >= 10_000.0 => quantity::thousands(scaled),
            size => {
                let decimals = (3 - size.log10().floor() as i32).clamp(0, 9) as usize;
                let text = format!("{scaled:.decimals$}");
                match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
                    false => text,
                }
            }
        };
        match text.as_str() {
            "0" => text,
            _ => format!("{text}{}", self.suffix),
        }
    }
}

/// A number of no known unit: `0.985`, `31.4`, `197,000,000`.
pub fn plain(value: f64) -> String {
    Quantity::Plain.show(value)
}

/// Seconds on a trial's clock: `5`, `31.5`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// A share of the whole in a sentence: `93 %`, `0.3 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        size if !size.is_finite() => "-".into(),
        size if !(1e-9..9.95).contains(&size) => format!("{:.0} %", value + 0.0),
        size if size < 0.05 => "under 0.1 %".into(),
        _ => format!("{value:.1} %"),
    }
}

/// A mean number of things in a sentence: `24` when it is nearly whole, else `2.31`.
pub fn things(mean: f64) -> String {
    let whole = mean.round() + 0.0;
    match (mean - whole).abs() < 0.05 && (whole != 0.0 || mean == 0.0) {
        true => quantity::thousands(whole),
        false => plain(mean),
    }
}

/// A number of CPUs in a sentence: `1 CPU`, `0.25 CPUs`.
pub fn cpus(mean: f64) -> String {
    let count = things(mean);
    format!("{count} {}", if count == "1" { "CPU" } else { "CPUs" })
}

/// A time in seconds in a sentence: `0.25 s`, `12.3 s`, `1.20 ms`.
pub fn time_s(value: f64) -> String {
    Quantity::Seconds.show(value)
}

/// A time in milliseconds in a sentence.
pub fn time_ms(value: f64) -> String {
    Quantity::Milliseconds.show(value)
}

/// A value, marked with `>=` if only a lower bound of it is known.
pub fn bounded(is_bound: bool, shown: String) -> String {
    match is_bound && shown != "-" {
        true => format!(">= {shown}"),
        false => shown,
    }
}

/// A time in milliseconds in a sentence, of which perhaps only a lower bound is known: `>= 16.1 s`.
pub fn time_ms_bounded(value: f64, is_bound: bool) -> String {
    bounded(is_bound, time_ms(value))
}

/// A statistic of times in a sentence: `3.00 ms`, `>= 16.1 s`, `-` if there is none. `part` is its name, as in
/// [`LatencySummary::PARTS`].
pub fn statistic(summary: &LatencySummary, part: &str) -> String {
    let (value, is_bound) = summary.bounded(part).unwrap_or((f64::NAN, false));
    time_ms_bounded(value, is_bound)
}

/// Mean and 99th percentile, as far as they are known: `mean 3.00 ms, p99 >= 9.10 ms`.
pub fn mean_and_p99(mean_ms: f64, p99_ms: f64, at_least: Statistics) -> String {
    let known = [("mean", mean_ms), ("p99", p99_ms)].into_iter().filter(|(_, value)| value.is_finite());
    let shown = known.map(|(name, value)| format!("{name} {}", time_ms_bounded(value, at_least.has(name))));
    shown.collect::<Vec<String>>().join(", ")
}

/// A number of things per second in a sentence: `399/s`, `61.2 k/s`.
pub fn per_s(value: f64) -> String {
    Quantity::Rate("/s").show(value)
}

/// How many times as much: `5.2 times`.
pub fn times(factor: f64) -> String {
    format!("{} times", quantity::three_figures(factor))
}

/// The word for operations per second.
pub fn rate_word(traits: &WorkloadTraits) -> &'static str {
    match traits.unit {
        OperationUnit::Io => "IOPS",
        OperationUnit::Object => "objects/s",
        OperationUnit::Entry => "entries/s",
        OperationUnit::Request => "requests/s",
        OperationUnit::Launch => "launches/s",
        OperationUnit::Operation => "ops/s",
    }
}

/// Decimals a change in percent earns: none when its interval is wider than ten points.
fn change_decimals(interval: Option<(f64, f64)>) -> usize {
    match interval {
        Some((low, high)) if (high - low) * 100.0 > 10.0 => 0,
        _ => 1,
    }
}

/// One ratio as a signed change in percent: 0.735 is `-26.5`.
fn signed_percent(ratio: f64, decimals: usize) -> String {
    if !ratio.is_finite() {
        return "-".into();
    }
    let percent = (ratio - 1.0) * 100.0;
    let text = format!("{percent:+.decimals$}");
    match text.trim_start_matches(['+', '-', '0', '.']).is_empty() {
        true => text.trim_start_matches(['+', '-']).to_string(),
        false => text,
    }
}

/// How ratios are shown: as changes in percent, or as factors when one of them is past a doubling or halving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatioStyle {
    /// `-26.5 %`.
    Percent,
    /// `x 3.42`.
    Factor,
}

impl RatioStyle {
    /// The style for a column of ratios.
    pub fn for_ratios(ratios: impl IntoIterator<Item = f64>) -> Self {
        match ratios.into_iter().any(|ratio| ratio.is_finite() && !(0.5..=2.0).contains(&ratio)) {
            true => RatioStyle::Factor,
            false => RatioStyle::Percent,
        }
    }

    /// A ratio: `-26.5 %` or `x 3.42`; its interval decides the decimals.
    pub fn show(self, ratio: f64, interval: Option<(f64, f64)>) -> String {
        match self {
            _ if !ratio.is_finite() => "-".into(),
            RatioStyle::Percent => format!("{} %", signed_percent(ratio, change_decimals(interval))),
            RatioStyle::Factor => format!("x {}", quantity::three_figures(ratio)),
        }
    }

    /// The ends of an interval of ratios.
    pub fn ends(self, low: f64, high: f64) -> (String, String) {
        let decimals = change_decimals(Some((low, high)));
        match self {
            RatioStyle::Percent => (signed_percent(low, decimals), signed_percent(high, decimals)),
            RatioStyle::Factor => (quantity::three_figures(low), quantity::three_figures(high)),
        }
    }
}

/// A share as `±0.9%`: the spread of replicates around their median.
pub fn spread(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if !percent.is_finite() => String::new(),
        percent if percent < 9.95 => format!("±{percent:.1}%"),
        percent => format!("±{percent:.0}%"),
    }
}

/// A moment as `2026-11-21 19:30 UTC`, from nanoseconds since 1970-01-01 UTC.
pub fn date(unix_ns: u64) -> String {
    if unix_ns == 0 {
        return String::new();
    }
    let seconds = i64::try_from(unix_ns / 1_000_000_000).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_second(seconds) {
        Ok(moment) => {
            let civil = jiff::tz::Offset::UTC.to_datetime(moment);
            civil.strftime("%Y-%m-%d %H:%M UTC").to_string()
        }
        Err(_) => "-".into(),
    }
}

/// `1 trial`, `3 trials`.
pub fn plural(count: usize, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

/// A text with its first letter in upper case.
pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// The same at the start of a sentence, where names of settings, counters and percentiles stay as they are: `commit_objects 10`,
/// `p99 3 ms`.
pub fn sentence_start(text: &str) -> String {
    let first = text.split([' ', ':', ',']).next().unwrap_or_default();
    match first.contains(|c: char| !c.is_alphabetic()) {
        true => text.to_string(),
        false => capitalized(text),
    }
}

/// A text of at most `width` characters, the rest replaced by an ellipsis.
pub fn shortened(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_string(),
    }
}

/// Whether a character would do something to a terminal, or to the order of the text around it, instead of being seen:
/// control characters, except the ends of lines and tabs, and those that set the direction of writing.
pub fn is_hidden(c: char) -> bool {
    let is_direction = matches!(c,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || is_direction
}

/// A text of others with its hidden characters visible: an escape as `␛`, others as `\u{9b}`. Names of a record, and what a
/// server or a system under test said, can then not move the cursor, change colours or rewrite what stands above them.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_hidden(c) => out.push(c),
            '\u{7f}' => out.push('\u{2421}'),
            // The pictures of the first 32 control characters are in their order.
            c if (c as u32) < 0x20 => out.extend(char::from_u32(0x2400 + c as u32)),
            c => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
        }
    }
    Cow::Owned(out)
}

/// The same for a line: what would end it, and a tab, is a space.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', '\t']) {
        true => Cow::Owned(visible(&text.replace(['\n', '\t'], " ")).into_owned()),
        false => visible(text),
    }
}

/// Breaks a text into lines of at most `width` characters, at spaces; a longer word has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// What a name may be broken after.
const JOINTS: [char; 4] = ['.', '_', ':', '-'];

/// The parts of a name, each with the punctuation after it: `network.`, `delay.` and `store`.
pub fn name_parts(name: &str) -> impl Iterator<Item = &str> {
    name.split_inclusive(JOINTS)
}

/// Breaks a text as [`wrap`] does, and a longer word between the parts of a name, or anywhere if a part is longer. Only a
/// word that is broken between two letters gets a hyphen.
pub fn wrap_names(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for line in wrap(text, width) {
        let mut rest = line.as_str();
        while rest.chars().count() > width {
            let bytes_of = |characters| rest.chars().take(characters).map(char::len_utf8).sum::<usize>();
            let is_word = width > 1 && rest.chars().take(width + 1).all(char::is_alphabetic);
            let (end, hyphen) = match rest[..bytes_of(width)].rfind(JOINTS) {
                Some(joint) => (joint + 1, ""),
                None if is_word => (bytes_of(width - 1), "-"),
                None => (bytes_of(width), ""),
            };
            lines.push(format!("{}{hyphen}", &rest[..end]));
            rest = &rest[end..];
        }
        lines.push(rest.to_string());
    }
    lines
}

/// Folds the lines of a text that are longer than `width`, for a terminal. What follows is indented by two more columns
/// than the line, and what is written below a place in a file (`    | ^^^ help`) stays below it. A line of that file is left
/// as it is.
pub fn fold(text: &str, width: usize) -> String {
    let mut out = Vec::new();
    for line in text.split('\n') {
        if line.chars().count() <= width {
            out.push(line.to_string());
            continue;
        }
        let (margin, rest) = match line.find(" | ").map(|at| line.split_at(at + 3)) {
            Some((margin, rest)) if margin.trim_start().starts_with('|') => (margin, rest),
            Some((margin, _)) if margin.trim_end_matches(" | ").trim().parse::<u32>().is_ok() => {
                out.push(line.to_string());
                continue;
            }
            _ => ("", line),
        };
        let indent = rest.len() - rest.trim_start().len();
        let deeper = if margin.is_empty() { indent + 2 } else { indent };
        let used = margin.chars().count();
        let pieces = wrap(rest, width.saturating_sub(used + deeper).max(20));
        for (at, piece) in pieces.iter().enumerate() {
            let indent = if at == 0 { indent } else { deeper };
            out.push(format!("{margin}{}{piece}", " ".repeat(indent)));
        }
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_and_lines_of_a_file_are_not() {
        for (text, expected) in [
            ("short\n", "short\n"),
            ("error: one two three four five six seven", "error: one two three\n  four five six seven"),
            ("  one of a, b, c, d, e, f, g, h", "  one of a, b, c, d,\n    e, f, g, h"),
            (
                " 12 | key = \"a value that is long\"\n    | ^^^ write another one",
                " 12 | key = \"a value that is long\"\n    | ^^^ write another\n    | one",
            ),
            ("a_word_that_is_longer_than_a_line", "a_word_that_is_longer_than_a_line"),
        ] {
            assert_eq!(fold(text, 24), expected);
        }
    }

    #[test]
    fn nothing_of_others_reaches_the_terminal_but_what_is_seen() {
        for (text, expected) in [
            ("plain, ü, 漢 and 😀\n\tare left", "plain, ü, 漢 and 😀\n\tare left"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("\u{9b}2J and \u{7f}", "\\u{9b}2J and ␡"),
            ("gnp.\u{202e}exe\u{2069}", "gnp.\\u{202e}exe\\u{2069}"),
            ("a\rb\u{8}\u{0}", "a␍b␈␀"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(visible_line("a\nb\tc\u{1b}"), "a b c␛");
    }

    #[test]
    fn a_number_and_its_unit() {
        for (quantity, value, expected) in [
            (Quantity::Rate("IOPS"), 71_234.0, "71.2 k IOPS"),
            (Quantity::Rate("IOPS"), 9_200.0, "9200 IOPS"),
            (Quantity::Rate("/s"), 12.0, "12.0/s"),
            (Quantity::BytesPerSecond, 291_700_000.0, "292 MB/s"),
            (Quantity::BytesPerSecond, 12_500.0, "12.5 kB/s"),
            (Quantity::BinaryBytesPerSecond, 104_857_600.0, "100 MiB/s"),
            (Quantity::Milliseconds, 0.41, "410 µs"),
            (Quantity::Milliseconds, 1.92, "1.92 ms"),
            (Quantity::Milliseconds, 12_300.0, "12.3 s"),
            (Quantity::Milliseconds, 0.000_082, "82.0 ns"),
            (Quantity::Microseconds, 6.1, "6.10 µs"),
            (Quantity::Share, 0.987, "98.7 %"),
            (Quantity::Bytes, 65536.0, "64.0 KiB"),
            (Quantity::Count, 1_234_567.0, "1,234,567"),
            (Quantity::Rate("IOPS"), f64::NAN, "-"),
            (Quantity::Milliseconds, f64::INFINITY, "-"),
            (Quantity::Milliseconds, 0.0, "0 ms"),
        ] {
            assert_eq!(quantity.show(value), expected, "{quantity:?} {value}");
        }
    }

    #[test]
    fn a_column_has_one_unit() {
        let scale = Quantity::Milliseconds.scale([0.031, 0.41, 1.92, 9.81, 412.0]);
        assert_eq!(scale.unit, "ms");
        assert_eq!(scale.number(0.031), "0.0310");
        let scale = Quantity::Rate("IOPS").scale([71_234.0, 9_000.0, 52_300.0]);
        assert_eq!([scale.number(71_234.0), scale.number(9_000.0)], ["71.2 k", "9.00 k"]);
    }

    #[test]
    fn ratios_in_words_people_use() {
        let style = RatioStyle::for_ratios([0.735, 1.073]);
        assert_eq!(style, RatioStyle::Percent);
        assert_eq!(style.show(0.735, Some((0.719, 0.751))), "-26.5 %");
        assert_eq!(style.ends(0.719, 0.751), ("-28.1".into(), "-24.9".into()));
        assert_eq!(style.show(0.622, Some((0.51, 0.76))), "-38 %");
        assert_eq!(style.show(1.0, None), "0.0 %");
        assert_eq!(style.show(f64::NAN, None), "-");
        let style = RatioStyle::for_ratios([3.42]);
        assert_eq!(style.show(3.42, None), "x 3.42");
    }

    #[test]
    fn numbers_in_sentences() {
        for (share, text) in [
            (0.14, "14 %"),
            (0.0031, "0.3 %"),
            (0.0001, "under 0.1 %"),
            (0.0, "0 %"),
            (0.0996, "10 %"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(percent(share), text);
        }
        for (mean, text) in
            [(23.98, "24"), (2.31, "2.31"), (1530.2, "1530"), (f64::NAN, "-"), (0.03, "0.0300"), (0.0, "0")]
        {
            assert_eq!(things(mean), text);
        }
        assert_eq!(
            (time_s(0.25), time_ms(1200.0), per_s(399.0)),
            ("250 ms".into(), "1.20 s".into(), "399/s".into())
        );
    }

    #[test]
    fn dates() {
        for (unix_s, expected) in [
            (0, ""),
            (60, "1970-01-01 00:01 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_289_400, "2026-11-21 19:30 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
        ] {
            assert_eq!(date(unix_s * 1_000_000_000), expected);
        }
    }

    #[test]
    fn ticks_are_short() {
        let scale = Quantity::Milliseconds.scale([1.0]);
        for (value, expected) in
            [(0.0, "0"), (0.1, "0.1"), (20.0, "20"), (0.025, "0.025"), (1e6, "1,000,000")]
        {
            assert_eq!(scale.tick(value), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn wrapped_lines_hold_every_word(text in "[a-z ]{0,200}", width in 1usize..40) {
            let lines = wrap(&text, width);
            proptest::prop_assert_eq!(lines.join(" "), text.split_whitespace().collect::<Vec<_>>().join(" "));
            for line in lines {
                proptest::prop_assert!(line.len() <= width || !line.contains(' '));
            }
        }
        #[test]
        fn no_character_of_a_name_is_lost(text in "[a-zü7._:]{1,60}", width in 1usize..30) {
            let lines = wrap_names(&text, width);
            proptest::prop_assert_eq!(lines.concat().replace('-', ""), text);
            proptest::prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
        }
        #[test]
        fn no_number_panics(value: f64) {
            for quantity in [Quantity::Rate("/s"), Quantity::BytesPerSecond, Quantity::Milliseconds, Quantity::Bytes,
                Quantity::Share, Quantity::Count, Quantity::Plain, Quantity::Seconds] {
                let _ = (quantity.show(value), quantity.scale([value]).tick(value));
            }
            let _ = (RatioStyle::Percent.show(value, Some((value, 1.0))), RatioStyle::Factor.ends(value, value), spread(value));
        }
        #[test]
        fn any_moment_has_a_date(unix_ns: u64) {
            proptest::prop_assert!(date(unix_ns).ends_with(" UTC"));
        }
    }
}
