//! Which columns the series of an exporter are: metrics of [`super::table`], or columns under their own name.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use foreign::{Series, SeriesKind};
use model::{Column, MetricInfo, MetricKind, Unit};

use super::table::{TABLE, is_left_out};

/// The most columns of one exporter. A record has at most 16,384 columns in all.
const COLUMNS_MAX: usize = 8192;
/// How often all series are mapped anew because one of the table appeared later.
const MAPPED_AGAIN_MAX: u32 = 1000;
/// The most bytes of the text of a series that has a column.
const TEXT_BYTES_MAX: usize = 1024;

/// A value of a series in an exposition.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its value; NaN if the exposition does not have it.
    pub value: f64,
    /// Its time, nanoseconds from any moment that is the same for all expositions.
    pub at_ns: i64,
}

impl Seen {
    /// A series that is not in an exposition.
    pub const NOT: Seen = Seen { value: f64::NAN, at_ns: i64::MIN };

    /// How much it increased per second. NaN after it decreased, as its exporter began anew, and without a new time.
    fn rate_since(self, before: Seen) -> f64 {
        let seconds = self.at_ns.checked_sub(before.at_ns).map_or(f64::NAN, |ns| ns as f64 / 1e9);
        let rate = (self.value - before.value) / seconds;
        if seconds > 0.0 && rate >= 0.0 { rate } else { f64::NAN }
    }
}

/// The value of a column.
struct Value {
    constant: f64,
    /// What is added up.
    above: Vec<Term>,
    /// What the sum is divided by; nothing if it is empty.
    below: Vec<Term>,
}

impl Value {
    /// Computes it; NaN where it is not known. `of` is the value of a series, or its rate; none for a series that the
    /// exporter does not have any more.
    fn compute(&self, of: &impl Fn(usize, bool) -> Option<f64>) -> f64 {
        let sum = |terms: &[Term], from: f64| terms.iter().fold(from, |sum, term| sum + term.compute(of));
        let above = sum(&self.above, self.constant);
        match self.below.is_empty() {
            true => above,
            false => above / sum(&self.below, 0.0),
        }
    }
}

/// A part of a sum.
struct Term {
    factor: f64,
    /// Whether it is the rate of the series, not the value.
    is_rate: bool,
    /// Indexes of the series that are added up.
    series: Vec<usize>,
}

impl Term {
    fn compute(&self, of: &impl Fn(usize, bool) -> Option<f64>) -> f64 {
        let known = self.series.iter().filter_map(|at| of(*at, self.is_rate));
        known.reduce(|sum, value| sum + value).map_or(f64::NAN, |sum| self.factor * sum)
    }
}

/// The columns of an exporter, and how their values are computed. Used for scrapes and for text that was kept in files.
#[derive(Default)]
pub struct Mapping {
    columns: Vec<Column>,
    places: HashMap<(String, String), usize>,
    /// The columns that the exporter has, with their values.
    values: Vec<(usize, Value)>,
    left_out: usize,
    /// How many series are mapped.
    mapped: usize,
    mapped_again: u32,
}

impl Mapping {
    /// All columns so far, each with its instance on the host; none is removed.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Series without a column: there are too many, or their names are too long.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Maps the series that were added to those of before. A file that adds a series of the table a thousand times has further
    /// ones under their own names.
    pub fn extend(&mut self, series: &[Series]) {
        let new = series.get(self.mapped..).unwrap_or_default();
        let is_of_table = |of: &Series| NAMES.contains(key(&of.name));
        if self.mapped_again < MAPPED_AGAIN_MAX && new.iter().any(is_of_table) {
            self.mapped_again += 1;
            return self.map(series);
        }
        let first = self.mapped;
        self.mapped = series.len();
        for (at, of) in new.iter().enumerate() {
            self.add_own(first + at, of);
        }
    }

    /// The values of all columns in an exposition; NaN where there is none. `now` and `before` are the values of each series
    /// in it, and those with which counters are compared.
    pub fn values(&self, now: &[Seen], before: &[Seen], out: &mut Vec<f64>) {
        out.clear();
        out.resize(self.columns.len(), f64::NAN);
        let of = |at: usize, is_rate: bool| {
            let now = now.get(at).filter(|now| !now.value.is_nan())?;
            Some(match is_rate {
                true => now.rate_since(before.get(at).copied().unwrap_or(Seen::NOT)),
                false => now.value,
            })
        };
        for (place, value) in &self.values {
            out[*place] = value.compute(&of);
        }
    }

    /// Maps all series anew.
    pub fn map(&mut self, series: &[Series]) {
        self.mapped = series.len();
        self.values.clear();
        self.left_out = 0;
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, of) in series.iter().enumerate() {
            by_name.entry(key(&of.name)).or_default().push(at);
        }
        let mut used = vec![false; series.len()];
        let mut found: HashSet<(&str, String)> = HashSet::new();
        for rule in RULES.iter() {
            for (instance, value) in rule.find(series, &by_name) {
                if is_left_out(&rule.metric.name, &instance)
                    || !found.insert((rule.metric.name.as_ref(), instance.clone()))
                {
                    continue;
                }
                let terms = value.above.iter().chain(&value.below);
                terms.flat_map(|term| &term.series).for_each(|at| used[*at] = true);
                self.add(rule.metric.clone(), instance, value);
            }
        }
        for (at, of) in series.iter().enumerate().filter(|(at, _)| !used[*at]) {
            self.add_own(at, of);
        }
    }

    /// Adds a series under its own name.
    fn add_own(&mut self, at: usize, of: &Series) {
        if of.path.len() > TEXT_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        let is_rate = is_counted(of);
        let labels = of.path.get(of.name.len()..).unwrap_or_default();
        let labels = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(labels);
        let term = Term { factor: 1.0, is_rate, series: vec![at] };
        let value = Value { constant: 0.0, above: vec![term], below: Vec::new() };
        self.add(own_metric(&of.name, is_rate), labels.to_string(), value);
    }

    fn add(&mut self, metric: MetricInfo, instance: String, value: Value) {
        let key = (metric.name.to_string(), instance);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.columns.len() == COLUMNS_MAX => {
                self.left_out += 1;
                return;
            }
            None => {
                self.columns.push(Column { metric, instance: key.1.clone() });
                self.places.insert(key, self.columns.len() - 1);
                self.columns.len() - 1
            }
        };
        self.values.push((place, value));
    }
}

/// Whether only the differences of a series say how much there was. Quantiles of a summary have the type of what is counted.
fn is_counted(series: &Series) -> bool {
    series.kind == SeriesKind::Counter && !series.path.contains("quantile=\"")
}

/// A series under its own name.
fn own_metric(name: &str, is_rate: bool) -> MetricInfo {
    let name_of_unit = name.strip_suffix("_total").unwrap_or(name);
    let unit = match (name_of_unit.rsplit('_').next(), is_rate) {
        (Some("bytes"), true) => Unit::BytesPerSecond,
        (Some("bytes"), false) => Unit::Bytes,
        (Some("seconds"), true) => Unit::Cpus,
        (Some("seconds"), false) => Unit::Seconds,
        (Some("ratio"), false) => Unit::Share,
        (_, true) => Unit::PerSecond,
        (_, false) => Unit::Count,
    };
    let (kind, about) = match is_rate {
        true => (MetricKind::Rate, "A counter of an exporter under its own name, per second."),
        false => (MetricKind::Gauge, "A value of an exporter under its own name."),
    };
    MetricInfo { name: Cow::Owned(name.to_string()), ..MetricInfo::new("", unit, kind, about) }
}

/// The name of a series that all versions of an exporter have.
fn key(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

/// A row of the table, parsed.
struct Rule {
    metric: &'static MetricInfo,
    label: &'static str,
    constant: f64,
    above: Vec<Part>,
    below: Vec<Part>,
}

/// Series of a name, added up.
struct Part {
    factor: f64,
    is_rate: bool,
    name: &'static str,
    /// The label that chooses among them, whether its value must be none of these, and these.
    only: Option<(&'static str, bool, Vec<&'static str>)>,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    TABLE
        .iter()
        .filter_map(|(metric, label, value)| {
            let metric = crate::all_metrics().find(|(_, known)| known.name == *metric)?.1;
            let (above, below) = value.split_once(" / ").unwrap_or((value, ""));
            let ((constant, above), (_, below)) = (parse_sum(above)?, parse_sum(below)?);
            Some(Rule { metric, label, constant, above, below })
        })
        .collect()
});

/// The names of all series in the table.
static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    RULES.iter().flat_map(|rule| rule.above.iter().chain(&rule.below)).map(|part| part.name).collect()
});

/// `1 - 1024 * rate(NAME{LABEL=A|B}) + NAME`. None for what is no sum, which a test rejects.
fn parse_sum(text: &'static str) -> Option<(f64, Vec<Part>)> {
    let (mut constant, mut parts) = (0.0, Vec::new());
    let (mut sign, mut factor) = (1.0, 1.0);
    for word in text.split_whitespace() {
        match word {
            "+" => sign = 1.0,
            "-" => sign = -1.0,
            // The number before it is no constant but a factor.
            "*" => (factor, constant) = (constant, 0.0),
            _ => match word.parse::<f64>() {
                Ok(number) => constant += sign * number,
                Err(_) => {
                    parts.push(parse_part(word, sign * factor)?);
                    (sign, factor) = (1.0, 1.0);
                }
            },
        }
    }
    Some((constant, parts))
}

fn parse_part(word: &'static str, factor: f64) -> Option<Part> {
    let rate = word.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
    let text = rate.unwrap_or(word);
    let (name, only) = match text.split_once('{') {
        None => (text, None),
        Some((name, rest)) => {
            let (label, values) = rest.strip_suffix('}')?.split_once('=')?;
            let is_none_of = label.ends_with('!');
            (name, Some((label.trim_end_matches('!'), is_none_of, values.split('|').collect())))
        }
    };
    Some(Part { factor, is_rate: rate.is_some(), name: key(name), only })
}

impl Rule {
    /// The instances of the metric among the series, each with its value.
    fn find(&self, series: &[Series], by_name: &HashMap<&str, Vec<usize>>) -> Vec<(String, Value)> {
        let parts = self.above.len();
        let all: Vec<&Part> = self.above.iter().chain(&self.below).collect();
        let mut instances: BTreeMap<&str, Vec<Vec<usize>>> = BTreeMap::new();
        for (at, part) in all.iter().enumerate() {
            let Some(named) = by_name.get(part.name) else { return Vec::new() };
            for index in named.iter().filter(|index| part.takes(&series[**index])) {
                let instance = match self.label {
                    "" => Some(""),
                    name => series[*index].label(name),
                };
                let Some(instance) = instance else { continue };
                instances.entry(instance).or_insert_with(|| vec![Vec::new(); all.len()])[at].push(*index);
            }
        }
        let complete = instances.into_iter().filter(|(_, found)| found.iter().all(|of| !of.is_empty()));
        complete
            .map(|(instance, found)| {
                let terms = all.iter().zip(found).map(|(part, series)| Term {
                    factor: part.factor,
                    is_rate: part.is_rate,
                    series,
                });
                let mut above: Vec<Term> = terms.collect();
                let below = above.split_off(parts);
                (own_instance(self.label, instance), Value { constant: self.constant, above, below })
            })
            .collect()
    }
}

/// The instance in our names. Windows has the group of a CPU before its number.
fn own_instance(label: &str, instance: &str) -> String {
    match label {
        "core" => instance.strip_prefix("0,").unwrap_or(instance).to_string(),
        _ => unescaped(instance),
    }
}

impl Part {
    fn takes(&self, series: &Series) -> bool {
        self.only.as_ref().is_none_or(|(name, is_none_of, values)| {
            series.label(name).is_some_and(|value| values.contains(&value) != *is_none_of)
        })
    }
}

/// A value of a label without its escapes.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push(' '),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_metric_and_a_sum() {
        assert_eq!(RULES.len(), TABLE.len());
        for ((name, _, value), rule) in TABLE.iter().zip(RULES.iter()) {
            assert!(!rule.above.is_empty(), "{name}: {value}");
            assert_eq!(value.contains(" / "), !rule.below.is_empty(), "{name}: {value}");
            // A rate counts per second; a value at a moment is a gauge. A share of both is neither.
            let rates = rule.above.iter().filter(|part| part.is_rate).count();
            let expected = match rule.metric.kind {
                MetricKind::Rate => rates == rule.above.len(),
                MetricKind::Gauge => rates == 0,
                MetricKind::Mean => true,
            };
            assert!(expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_sum_has_signs_factors_and_a_constant() {
        let (constant, parts) = parse_sum("1 - rate(a_total) + b{c!=d|e}").unwrap();
        assert_eq!((constant, parts.len()), (1.0, 2));
        assert_eq!((parts[0].factor, parts[0].is_rate, parts[0].name), (-1.0, true, "a"));
        assert_eq!(parts[1].only, Some(("c", true, vec!["d", "e"])));
        let (constant, parts) = parse_sum("1024 * rate(a)").unwrap();
        assert_eq!((constant, parts[0].factor), (0.0, 1024.0));
    }

    #[test]
    fn values_of_labels_have_no_escapes() {
        assert_eq!(unescaped(r#"C:\\d \"e\"\nf"#), "C:\\d \"e\" f");
    }

    #[test]
    fn series_that_are_added_are_mapped_as_if_all_were() {
        let series = |name: &str, labels: &str| Series {
            name: name.into(),
            path: format!("{name}{labels}"),
            ..Series::default()
        };
        let all = [
            series("node_load1", ""),
            series("app_queue", "{of=\"mail\"}"),
            series("node_disk_io_now", "{device=\"sda\"}"),
            series("app_queue", "{of=\"web\"}"),
        ];
        let now: Vec<Seen> =
            (1..).take(all.len()).map(|at| Seen { value: f64::from(at), at_ns: 0 }).collect();
        let titled = |mapping: &Mapping| {
            let mut values = Vec::new();
            mapping.values(&now, &[], &mut values);
            let titles = mapping.columns().iter().map(|column| column.title());
            let mut all: Vec<(String, f64)> = titles.zip(values).collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        let (mut once, mut added) = (Mapping::default(), Mapping::default());
        once.map(&all);
        (1..=all.len()).for_each(|count| added.extend(&all[..count]));
        assert_eq!(titled(&added), titled(&once));
        assert_eq!(titled(&once)[2], ("cpu.load_average".to_string(), 1.0));
        assert_eq!(titled(&once)[3], ("disk.in_flight_operations{sda}".to_string(), 3.0));
    }
}
