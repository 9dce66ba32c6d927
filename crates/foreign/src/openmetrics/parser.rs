//! Series of the text formats of Prometheus and OpenMetrics.
//!
//! [`SeriesParser`] keeps the series that it has seen, so that a further exposition of the same exporter is read without
//! memory of its own: the next line is first compared with the series that followed last time.

use std::collections::HashMap;

use crate::Fault;
use crate::counters::COLUMNS_MAX;

/// What the values of a series are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeriesKind {
    /// Not said.
    #[default]
    Unknown,
    /// A number that counts up, also each bucket, count and sum of a histogram or summary.
    Counter,
    /// A value that goes up and down.
    Gauge,
}

/// A series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Its name without labels: `node_cpu_seconds_total`.
    pub name: String,
    /// Its name and its labels in the order of their names: `node_cpu_seconds_total{cpu="0",mode="idle"}`. The values of
    /// labels have their escapes.
    pub path: String,
    /// As the exposition has it, where that differs.
    pub written: String,
    /// What its values are.
    pub kind: SeriesKind,
}

impl Series {
    /// Its labels in the order of their names, with their values, which have their escapes.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.path.get(self.name.len()..).and_then(|rest| rest.strip_prefix('{'));
        let mut rest = labels.unwrap_or_default();
        std::iter::from_fn(move || {
            let (name, after) = rest.split_once("=\"")?;
            let end = quote_end(after)?;
            let value = &after[..end];
            rest = after[end + 1..].strip_prefix(',').unwrap_or_default();
            Some((name, value))
        })
    }

    /// The value of a label, with its escapes.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels().find(|(label, _)| *label == name).map(|(_, value)| value)
    }

    /// Its path without some of its labels.
    pub(super) fn path_without(&self, names: &[&str]) -> String {
        let mut path = self.name.clone();
        for (label, value) in self.labels().filter(|(label, _)| !names.contains(label)) {
            path.push(if path.len() == self.name.len() { '{' } else { ',' });
            path.push_str(&format!("{label}=\"{value}\""));
        }
        if path.len() > self.name.len() {
            path.push('}');
        }
        path
    }
}

/// A value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The number of the series, an index of [`SeriesParser::series`].
    pub series: usize,
    /// Its value, which may be NaN or infinite.
    pub value: f64,
    /// Its time, nanoseconds since 1970 UTC; none if the line has none.
    pub unix_ns: Option<i64>,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParsedLine {
    /// A value.
    Point(Point),
    /// The end of an exposition: `# EOF`.
    End,
    /// A comment, a type or an empty line.
    Other,
    /// What cannot be read, and why.
    Wrong(&'static str),
}

/// The most bytes of the names of series, and of the text of one.
const NAME_BYTES_MAX: usize = 64 << 20;
const SERIES_BYTES_MAX: usize = 64 << 10;

/// The most types that are kept.
const TYPES_MAX: usize = 65_536;

/// Reads expositions, one after the other.
#[derive(Default)]
pub struct SeriesParser {
    series: Vec<Series>,
    /// The number of each series, and its text in the order in which they appeared.
    by_text: HashMap<Box<[u8]>, usize>,
    texts: Vec<Box<[u8]>>,
    types: HashMap<Box<[u8]>, SeriesKind>,
    /// The series that is expected in the next line.
    expected: usize,
    bytes: usize,
}

impl SeriesParser {
    /// A parser that knows no series.
    pub fn new() -> SeriesParser {
        SeriesParser::default()
    }

    /// All series so far. None is removed.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Reads the text of an exposition, and hands out its values. Returns what could not be read: the first line of it, with
    /// how many there are.
    pub fn read(&mut self, text: &[u8], mut take: impl FnMut(Point)) -> Option<Fault> {
        let mut wrong: Option<(u64, &'static str, u64)> = None;
        self.expected = 0;
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            match self.parse_line(line) {
                ParsedLine::Point(point) => take(point),
                ParsedLine::Wrong(what) => wrong.get_or_insert((number, what, 0)).2 += 1,
                ParsedLine::End => break,
                ParsedLine::Other => {}
            }
        }
        wrong.map(|(line, what, count)| Fault::at(line, format!("{what} ({count} lines cannot be read)"), ""))
    }

    /// Reads a line.
    pub fn parse_line(&mut self, line: &[u8]) -> ParsedLine {
        let line = line.trim_ascii();
        match line.first() {
            None => return ParsedLine::Other,
            Some(b'#') => return self.parse_comment(line),
            Some(_) => {}
        }
        // As in the exposition before.
        let expected = self.texts.get(self.expected).filter(|text| {
            line.strip_prefix(text.as_ref()).is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'\t')))
        });
        let (series, rest) = match expected {
            Some(text) => (self.expected, &line[text.len()..]),
            None => {
                let Some(end) = series_end(line) else { return ParsedLine::Wrong("a line has no series") };
                let (text, rest) = line.split_at(end);
                let text = text.trim_ascii_end();
                match self.by_text.get(text) {
                    Some(series) => (*series, rest),
                    None => match self.add(text) {
                        Ok(series) => (series, rest),
                        Err(what) => return ParsedLine::Wrong(what),
                    },
                }
            }
        };
        self.expected = series + 1;
        let mut words = rest.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let Some(value) = words.next().and_then(number) else {
            return ParsedLine::Wrong("a value is no number");
        };
        match words.next() {
            // An exemplar follows.
            None | Some([b'#', ..]) => ParsedLine::Point(Point { series, value, unix_ns: None }),
            Some(word) => match time(word) {
                Some(unix_ns) => ParsedLine::Point(Point { series, value, unix_ns: Some(unix_ns) }),
                None => ParsedLine::Wrong("a time is no number"),
            },
        }
    }

    fn parse_comment(&mut self, line: &[u8]) -> ParsedLine {
        if line == b"# EOF" {
            self.expected = 0;
            return ParsedLine::End;
        }
        let Some(rest) = line.strip_prefix(b"# TYPE ") else { return ParsedLine::Other };
        let Some(at) = rest.iter().position(|byte| matches!(byte, b' ' | b'\t')) else {
            return ParsedLine::Other;
        };
        let (name, kind) = (&rest[..at], rest[at..].trim_ascii());
        let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
        if self.types.contains_key(name) || self.types.len() == TYPES_MAX || name.len() > SERIES_BYTES_MAX {
            return ParsedLine::Other;
        }
        let kind = match kind {
            b"counter" | b"histogram" | b"summary" => SeriesKind::Counter,
            b"gauge" | b"gaugehistogram" | b"stateset" | b"info" => SeriesKind::Gauge,
            _ => SeriesKind::Unknown,
        };
        if self.bytes + name.len() <= NAME_BYTES_MAX {
            self.bytes += name.len();
            self.types.insert(name.into(), kind);
        }
        ParsedLine::Other
    }

    fn add(&mut self, text: &[u8]) -> Result<usize, &'static str> {
        let bytes = self.bytes + 4 * text.len();
        if self.series.len() == COLUMNS_MAX || bytes > NAME_BYTES_MAX || text.len() > SERIES_BYTES_MAX {
            return Err("there are more than 65,536 series, or the text of one is too long");
        }
        let mut series = parse_series(text).ok_or("a line has no series")?;
        series.kind = self.kind(&series.name);
        self.bytes = bytes;
        self.series.push(series);
        self.texts.push(text.into());
        self.by_text.insert(text.into(), self.series.len() - 1);
        Ok(self.series.len() - 1)
    }

    /// What a series of this name is, by the type of its family.
    fn kind(&self, name: &str) -> SeriesKind {
        let own = self.types.get(name.as_bytes());
        // The quantiles of a summary have its name; what is counted has another one.
        let is_counted = |suffix: &&str| name.ends_with(*suffix);
        if let Some(kind) = own {
            return *kind;
        }
        for suffix in ["_total", "_bucket", "_count", "_sum"] {
            let family = name.strip_suffix(suffix).and_then(|family| self.types.get(family.as_bytes()));
            if let Some(kind) = family {
                return *kind;
            }
        }
        match is_counted(&"_total") {
            true => SeriesKind::Counter,
            false => SeriesKind::Unknown,
        }
    }
}

/// Where the text of a series ends.
fn series_end(line: &[u8]) -> Option<usize> {
    let open = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t'))?;
    // A blank may be before the brace.
    let open = open + line[open..].iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    if line[open] != b'{' {
        return line.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in line.iter().enumerate().skip(open + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A series of its text: `name`, `name{label="value"}` or `{"name",label="value"}`.
fn parse_series(text: &[u8]) -> Option<Series> {
    let text = std::str::from_utf8(text).ok()?;
    let (name, labels) = match text.split_once('{') {
        None => (text, ""),
        Some((name, labels)) => (name.trim_end(), labels.strip_suffix('}')?),
    };
    let mut name = name.to_string();
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut rest = labels.trim();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quote_end(quoted)?;
            let after = quoted[end + 1..].trim_start();
            match after.strip_prefix('=') {
                Some(after) => {
                    let (value, after) = label_value(after)?;
                    found.push((&quoted[..end], value));
                    rest = after;
                }
                None if name.is_empty() => {
                    name = quoted[..end].to_string();
                    rest = after;
                }
                None => return None,
            }
        } else {
            let (label, after) = rest.split_once('=')?;
            let (value, after) = label_value(after)?;
            let label = label.trim();
            if label.is_empty() || label.contains(['"', ',', ' ']) {
                return None;
            }
            found.push((label, value));
            rest = after;
        }
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    let is_name =
        |name: &str| name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | ':'));
    if !is_name(&name) {
        return None;
    }
    found.sort_unstable();
    let mut path = name.clone();
    for (at, (label, value)) in found.iter().enumerate() {
        path.push(if at == 0 { '{' } else { ',' });
        path.push_str(&format!("{label}=\"{value}\""));
    }
    if !found.is_empty() {
        path.push('}');
    }
    let written = if path == text { String::new() } else { text.to_string() };
    Some(Series { name, path, written, kind: SeriesKind::Unknown })
}

/// The value of a label with its escapes, and what follows.
fn label_value(text: &str) -> Option<(&str, &str)> {
    let quoted = text.trim_start().strip_prefix('"')?;
    let end = quote_end(quoted)?;
    Some((&quoted[..end], quoted[end + 1..].trim_start()))
}

/// Where the quotation mark is that ends a text.
fn quote_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// A value; `+Inf`, `-Inf` and `NaN` are values too.
fn number(word: &[u8]) -> Option<f64> {
    // Most values are whole numbers.
    if word.len() < 16 && word.iter().all(u8::is_ascii_digit) {
        return Some(word.iter().fold(0_u64, |sum, digit| 10 * sum + u64::from(digit - b'0')) as f64);
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Milliseconds since 1970 as whole numbers (Prometheus), or seconds (OpenMetrics). Whole numbers below 10^11, the year 5138
/// in seconds, are seconds.
fn time(word: &[u8]) -> Option<i64> {
    const SECONDS_MAX: i64 = 100_000_000_000;
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(whole) = text.parse::<i64>() {
        let factor =
            if whole.unsigned_abs() < SECONDS_MAX.unsigned_abs() { 1_000_000_000 } else { 1_000_000 };
        return whole.checked_mul(factor);
    }
    // Exact to the nanosecond.
    let (whole, fraction) =
        text.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|byte| byte.is_ascii_digit()))?;
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanos: i64 = digits.parse().ok()?;
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    seconds.checked_mul(1_000_000_000)?.checked_add(sign * nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_whatever_their_values_have() {
        let series = parse_series(br#"a{b="x,c=\"y\"",c="C:\\d",e=""}"#).unwrap();
        assert_eq!(series.label("c"), Some(r"C:\\d"));
        assert_eq!((series.label("e"), series.label("f")), (Some(""), None));
        assert_eq!(series.path_without(&["b", "e"]), r#"a{c="C:\\d"}"#);
        assert_eq!(series.path_without(&["b", "c", "e"]), "a");
        assert_eq!(parse_series(b"a").unwrap().labels().count(), 0);
    }

    #[test]
    fn lines_are_values_of_series() {
        for (line, path, value, unix_ns) in [
            ("up 1", "up", 1.0, None),
            ("up -1.5e3 1395066363000", "up", -1500.0, Some(1_395_066_363_000_000_000)),
            ("up 1 1520879607.789", "up", 1.0, Some(1_520_879_607_789_000_000)),
            ("up 1 1520879607", "up", 1.0, Some(1_520_879_607_000_000_000)),
            ("x{b=\"2\",a=\"1\"} 3", "x{a=\"1\",b=\"2\"}", 3.0, None),
            ("x { a = \"1\" , } +Inf", "x{a=\"1\"}", f64::INFINITY, None),
            (r#"x{p="C:\\a\"}, b\n"}	2"#, r#"x{p="C:\\a\"}, b\n"}"#, 2.0, None),
            ("x{} 2", "x", 2.0, None),
            (r#"{"my.name","my.label"="v"} 2"#, r#"my.name{my.label="v"}"#, 2.0, None),
            ("b_bucket{le=\"1\"} 17 # {trace_id=\"a\"} 0.67", "b_bucket{le=\"1\"}", 17.0, None),
        ] {
            let mut parser = SeriesParser::new();
            let expected = ParsedLine::Point(Point { series: 0, value, unix_ns });
            for _ in 0..2 {
                assert_eq!(parser.parse_line(line.as_bytes()), expected, "{line}");
                parser.expected = 0;
            }
            assert_eq!(parser.series()[0].path, path);
            assert_eq!(parser.series().len(), 1);
        }
        for (line, expected) in [
            ("", ParsedLine::Other),
            ("# HELP up a", ParsedLine::Other),
            ("# EOF", ParsedLine::End),
            ("up", ParsedLine::Wrong("a line has no series")),
            ("up x", ParsedLine::Wrong("a value is no number")),
            ("up 1 x", ParsedLine::Wrong("a time is no number")),
            ("x{a=\"1} 1", ParsedLine::Wrong("a line has no series")),
            ("x{a=1} 1", ParsedLine::Wrong("a line has no series")),
            ("12:00:01 1", ParsedLine::Wrong("a line has no series")),
        ] {
            assert_eq!(SeriesParser::new().parse_line(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn an_exposition_is_read_again_with_the_same_series() {
        let text = "# TYPE a counter\na_total 1\n# TYPE g gauge\ng{x=\"1\"} 2\nh_total 3\nu 4\n# TYPE s summary\ns_sum 5\n# EOF\nq 1\n";
        let mut parser = SeriesParser::new();
        for _ in 0..2 {
            let mut values = Vec::new();
            assert_eq!(parser.read(text.as_bytes(), |point| values.push((point.series, point.value))), None);
            assert_eq!(values, [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0), (4, 5.0)]);
        }
        let kinds: Vec<SeriesKind> = parser.series().iter().map(|series| series.kind).collect();
        use SeriesKind::{Counter, Gauge, Unknown};
        assert_eq!(kinds, [Counter, Gauge, Counter, Unknown, Counter]);
        let fault = parser.read(b"a 1\nb\nc\n", |_| {}).unwrap();
        assert_eq!(fault.to_string(), "line 2: a line has no series (2 lines cannot be read)");
    }

    #[test]
    #[ignore = "measures: cargo test --release -- --ignored speed"]
    fn speed() {
        let mut text = String::new();
        for cpu in 0..64 {
            for mode in ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"] {
                text +=
                    &format!("node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {}.27\n", cpu * 1_000);
            }
        }
        let mut parser = SeriesParser::new();
        let begin = std::time::Instant::now();
        let (mut sum, rounds) = (0.0, 5_000);
        for _ in 0..rounds {
            parser.read(text.as_bytes(), |point| sum += point.value);
        }
        let mb = (rounds * text.len()) as f64 / 1e6;
        println!("{:.0} MB/s, sum {sum}", mb / begin.elapsed().as_secs_f64());
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_a_panic(lines in proptest::collection::vec("[ -~]{0,30}|# TYPE [a-z ]{0,9}|[a-z]{1,3}\\{[a-z\"=,\\\\{}]{0,12}\\} [0-9.]{1,25} ?[-0-9.]{0,22}", 0..20)) {
            let mut parser = SeriesParser::new();
            for line in &lines {
                if let ParsedLine::Point(point) = parser.parse_line(line.as_bytes()) {
                    proptest::prop_assert!(point.series < parser.series().len());
                }
            }
        }
    }
}
