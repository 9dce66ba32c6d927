//! A whole run directory in memory, for the analysis and the reports.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use hdrhistogram::Histogram;

use crate::steps::RequestSteps;
use crate::{Column, Event, Host, Interval, Phase, Plan, Run};

/// All runs of an experiment, in the order of execution.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The run directory as the user named it.
    pub directory: String,
    /// The host.
    pub host: Host,
    /// The experiment and the decisions; none if they are damaged.
    pub plan: Option<Plan>,
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// The damage of the record, in words.
    pub damage: Vec<String>,
}

/// One run: its facts and its time series.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// The facts.
    pub run: Run,
    /// Every interval of every operation, in order of time.
    pub intervals: Vec<Interval>,
    /// The histograms by operation.
    pub histograms: BTreeMap<String, OperationHistograms>,
    /// The counters.
    pub readings: ReadingTable,
    /// The events.
    pub events: Vec<Event>,
    /// The steps of a request; none unless the load and the system have dependencies.
    pub steps: Option<RequestSteps>,
}

impl RunRecord {
    /// The intervals of the measured phase of one operation.
    pub fn measured<'a>(&'a self, operation: &'a str) -> impl Iterator<Item = &'a Interval> {
        self.intervals
            .iter()
            .filter(move |interval| interval.phase == Phase::Measure && interval.operation == operation)
    }
}

/// Response times, service times and lags of operations, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Times {
    /// Response times: from the intended start to completion.
    pub response: Histogram<u64>,
    /// Service times: from the actual start to completion.
    pub service: Histogram<u64>,
    /// Lags: from the intended to the actual start.
    pub lag: Histogram<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Times { response: new_histogram(), service: new_histogram(), lag: new_histogram() }
    }
}

impl Times {
    /// The three of them: response, service, lag.
    pub fn each(&self) -> [&Histogram<u64>; 3] {
        [&self.response, &self.service, &self.lag]
    }

    /// The same, to change.
    pub fn each_mut(&mut self) -> [&mut Histogram<u64>; 3] {
        [&mut self.response, &mut self.service, &mut self.lag]
    }

    /// Whether they have no time.
    pub fn is_empty(&self) -> bool {
        self.each().iter().all(|histogram| histogram.is_empty())
    }

    /// Removes all times.
    pub fn reset(&mut self) {
        self.each_mut().into_iter().for_each(Histogram::reset);
    }

    /// Adds those of others.
    pub fn add(&mut self, others: &Times) {
        for (ours, theirs) in self.each_mut().into_iter().zip(others.each()) {
            // Only a histogram with a fixed size can fail, and these grow.
            let added = ours.add(theirs);
            debug_assert!(added.is_ok());
        }
    }
}

/// The latency histograms of one operation, in nanoseconds: of the operations that were due in the measured phase, or that
/// completed in it in records of older versions.
#[derive(Clone, Debug)]
pub struct OperationHistograms {
    /// Response time: from the intended start to completion.
    pub response: Histogram<u64>,
    /// Service time: from the actual start to completion.
    pub service: Histogram<u64>,
    /// Lag: from the intended to the actual start.
    pub lag: Histogram<u64>,
    /// The times that censored operations had until the wait for them was over; those of operations that were never handed
    /// to the system have no service time. None without censored operations.
    pub censored: Option<Box<Times>>,
    /// Response times over time, including the warm-up: for the heatmap.
    pub heat: Vec<HeatColumn>,
}

impl Default for OperationHistograms {
    fn default() -> Self {
        OperationHistograms {
            response: new_histogram(),
            service: new_histogram(),
            lag: new_histogram(),
            censored: None,
            heat: Vec::new(),
        }
    }
}

/// An empty histogram of nanoseconds with three significant digits that grows as needed.
///
/// Only the number of digits can be refused, and three is allowed, so this does not fail.
pub fn new_histogram() -> Histogram<u64> {
    #[allow(clippy::expect_used, reason = "three significant digits are within the 0 to 5 that new() takes")]
    Histogram::new(3).expect("three significant digits are allowed")
}

/// The distribution of response times in one period.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatColumn {
    /// Start, seconds on the trial's clock.
    pub begin_s: f64,
    /// End.
    pub end_s: f64,
    /// Cells with at least one operation, in order of rows: (`heat_row`, count).
    pub cells: Vec<(u16, u64)>,
}

/// Number of heatmap rows per factor of two in response time.
pub const HEAT_ROWS_PER_OCTAVE: f64 = 4.0;

/// The heatmap row of a response time: four rows per factor of two; row 0 begins at 1 us.
pub fn heat_row(response_ns: u64) -> u16 {
    ((response_ns.max(1) as f64 / 1000.0).log2() * HEAT_ROWS_PER_OCTAVE).floor().clamp(0.0, 1000.0) as u16
}

/// The lower edge of a heatmap row, in nanoseconds.
pub fn heat_row_ns(row: u16) -> f64 {
    1000.0 * (f64::from(row) / HEAT_ROWS_PER_OCTAVE).exp2()
}

/// The tolerance at the edges of a period for the window of a sample: a sample is taken when a phase begins,
/// which takes a moment.
const WINDOW_SLACK_S: f64 = 0.02;

/// The descriptions of columns, which are found by metric and instance in the time of a binary search: a host with thousands of
/// devices has as many columns, and each is looked up with each of the others that belong to it.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    list: Vec<Column>,
    /// The places of the columns in the order of their names; made when a column is looked up first.
    by_name: OnceLock<Vec<u32>>,
}

impl Columns {
    /// Adds a column.
    pub fn push(&mut self, column: Column) {
        self.by_name.take();
        self.list.push(column);
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Column] {
        &self.list
    }

    /// The first column of a metric and instance.
    fn find(&self, metric: &str, instance: &str) -> Option<usize> {
        let place = *self.starting_at(metric, instance).first()?;
        (self.key(place) == (metric, instance)).then_some(place as usize)
    }

    /// The places of the columns of a metric whose instances begin with a text, in the order of the columns.
    pub fn find_all(&self, metric: &str, prefix: &str) -> Vec<usize> {
        let is_one = |place: &u32| {
            let (name, instance) = self.key(*place);
            name == metric && instance.starts_with(prefix)
        };
        let from = self.starting_at(metric, prefix);
        let mut places: Vec<usize> =
            from[..from.partition_point(is_one)].iter().map(|place| *place as usize).collect();
        places.sort_unstable();
        places
    }

    /// The places of the columns from this name on, in the order of their names.
    fn starting_at(&self, metric: &str, instance: &str) -> &[u32] {
        let by_name = self.by_name.get_or_init(|| {
            let mut places: Vec<u32> = (0..u32::try_from(self.list.len()).unwrap_or(u32::MAX)).collect();
            // Stable, so that the first of several is found.
            places.sort_by(|one, other| self.key(*one).cmp(&self.key(*other)));
            places
        });
        &by_name[by_name.partition_point(|place| self.key(*place) < (metric, instance))..]
    }

    /// What the columns are sorted by.
    fn key(&self, place: u32) -> (&str, &str) {
        #[cfg(test)]
        tests::COMPARED.with(|count| count.set(count.get() + 1));
        let column = &self.list[place as usize];
        (&column.metric.name, &column.instance)
    }
}

impl Deref for Columns {
    type Target = [Column];

    fn deref(&self) -> &[Column] {
        &self.list
    }
}

impl DerefMut for Columns {
    fn deref_mut(&mut self) -> &mut [Column] {
        self.by_name.take();
        &mut self.list
    }
}

impl From<Vec<Column>> for Columns {
    fn from(list: Vec<Column>) -> Columns {
        Columns { list, by_name: OnceLock::new() }
    }
}

impl FromIterator<Column> for Columns {
    fn from_iter<I: IntoIterator<Item = Column>>(columns: I) -> Columns {
        Columns::from(columns.into_iter().collect::<Vec<Column>>())
    }
}

impl<'a> IntoIterator for &'a Columns {
    type Item = &'a Column;
    type IntoIter = std::slice::Iter<'a, Column>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// Counters over time, stored by columns. NaN means absent.
#[derive(Clone, Debug, Default)]
pub struct ReadingTable {
    /// The description of each column.
    pub columns: Columns,
    /// Start of each sample's window, seconds on the trial's clock.
    pub begin_s: Vec<f64>,
    /// End of each sample's window.
    pub end_s: Vec<f64>,
    /// Values: one vector per column, as long as `end_s`.
    pub values: Vec<Vec<f64>>,
}

impl ReadingTable {
    /// The index of a column.
    pub fn find(&self, metric: &str, instance: &str) -> Option<usize> {
        self.columns.find(metric, instance)
    }

    /// The mean of a column between two times, weighted as its metric requires; none if every value is
    /// absent.
    pub fn mean(&self, column: usize, begin_s: f64, end_s: f64) -> Option<f64> {
        let weight_metric = &self.columns[column].metric.weight;
        let weight_column = match weight_metric.is_empty() {
            true => None,
            false => self.find(weight_metric, &self.columns[column].instance),
        };
        let (mut sum, mut weight_sum) = (0.0, 0.0);
        for (at, value) in self.values[column].iter().enumerate() {
            if !self.columns[column].metric.can_be(*value) || !self.within(at, begin_s, end_s) {
                continue;
            }
            let mut weight = self.end_s[at] - self.begin_s[at];
            if let Some(other) = weight_column {
                weight *= self.values[other][at];
            }
            // If the clock went backwards, the window has no length; an absent weight counts as none.
            if !(weight > 0.0 && weight.is_finite()) {
                continue;
            }
            sum += value * weight;
            weight_sum += weight;
        }
        (weight_sum > 0.0).then(|| sum / weight_sum)
    }

    /// The first reading of a column between two times that is present but impossible.
    pub fn impossible(&self, column: usize, begin_s: f64, end_s: f64) -> Option<f64> {
        let metric = &self.columns[column].metric;
        let values = self.values[column].iter().enumerate();
        values
            .filter(|(at, value)| !value.is_nan() && self.within(*at, begin_s, end_s))
            .map(|(_, value)| *value)
            .find(|value| !metric.can_be(*value))
    }

    /// For each column, the one by which its values are weighted; none if there is none.
    pub fn weights(&self) -> Vec<Option<usize>> {
        let of = |column: &Column| match column.metric.weight.is_empty() {
            true => None,
            false => self.find(&column.metric.weight, &column.instance),
        };
        self.columns.iter().map(of).collect()
    }

    /// Combines each two neighbouring samples from `from` on into one: its window is both windows, each value the mean,
    /// weighted as [`ReadingTable::weights`] says. A value that one of them lacks is that of the other; an impossible one stays as it is.
    pub fn halve(&mut self, from: usize, weights: &[Option<usize>]) {
        let rows = self.end_s.len().saturating_sub(from);
        let halves = rows.div_ceil(2);
        let lengths: Vec<f64> =
            (from..self.end_s.len()).map(|at| self.end_s[at] - self.begin_s[at]).collect();
        // Those that weigh others come last, as these need their single values.
        for is_weighted in [true, false] {
            for (column, weighed_by) in
                weights.iter().enumerate().filter(|(_, of)| of.is_some() == is_weighted)
            {
                let mut values = std::mem::take(&mut self.values[column]);
                let metric = &self.columns[column].metric;
                let weight = |at: usize| {
                    let weight = lengths[at] * weighed_by.map_or(1.0, |other| self.values[other][from + at]);
                    if weight > 0.0 && weight.is_finite() { weight } else { 0.0 }
                };
                for to in 0..halves {
                    let (a, b) = (2 * to, 2 * to + 1);
                    let one = values[from + a];
                    let two = values.get(from + b).copied().unwrap_or(f64::NAN);
                    values[from + to] = match (one.is_nan(), two.is_nan()) {
                        (_, true) => one,
                        (true, _) => two,
                        _ if !metric.can_be(one) => one,
                        _ if !metric.can_be(two) => two,
                        _ => match (weight(a), weight(b)) {
                            (0.0, 0.0) => one,
                            (left, right) => (one * left + two * right) / (left + right),
                        },
                    };
                }
                values.truncate(from + halves);
                self.values[column] = values;
            }
        }
        for to in 0..halves {
            self.begin_s[from + to] = self.begin_s[from + 2 * to];
            self.end_s[from + to] = self.end_s[from + (2 * to + 1).min(rows - 1)];
        }
        self.begin_s.truncate(from + halves);
        self.end_s.truncate(from + halves);
    }

    /// The samples whose windows are between two times and have a length.
    pub fn measured(&self, begin_s: f64, end_s: f64) -> impl Iterator<Item = usize> + Clone {
        (0..self.end_s.len())
            .filter(move |at| self.within(*at, begin_s, end_s) && self.end_s[*at] > self.begin_s[*at])
    }

    /// Whether the window of a sample is between two times.
    fn within(&self, at: usize, begin_s: f64, end_s: f64) -> bool {
        self.begin_s[at] >= begin_s - WINDOW_SLACK_S && self.end_s[at] <= end_s + WINDOW_SLACK_S
    }

    /// The largest value of a column between two times.
    pub fn max(&self, column: usize, begin_s: f64, end_s: f64) -> Option<f64> {
        self.values[column]
            .iter()
            .enumerate()
            .filter(|(at, value)| {
                self.columns[column].metric.can_be(**value) && self.within(*at, begin_s, end_s)
            })
            .map(|(_, value)| *value)
            .reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MetricInfo, MetricKind, Unit};

    /// Reads per second, and their mean time.
    fn weighed() -> Vec<Column> {
        let rate = MetricInfo::new("disk.reads_per_s", Unit::PerSecond, MetricKind::Rate, "");
        let wait = MetricInfo::new("disk.read_s", Unit::Seconds, MetricKind::Mean, "")
            .weighed_by("disk.reads_per_s");
        [rate, wait].map(|metric| Column { metric, instance: "vda".into() }).to_vec()
    }

    thread_local! {
        /// Names of columns that were compared while columns were looked up.
        pub(super) static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    #[test]
    fn looking_up_every_column_is_not_quadratic_in_their_number() {
        let names = ["disk.reads_per_s", "disk.read_s", "disk.queue_length"];
        let mut compared = Vec::new();
        for count in [1_000, 4_000, 16_000] {
            let column = |at: usize| Column {
                metric: MetricInfo::new(names[at % 3], Unit::Count, MetricKind::Gauge, ""),
                instance: format!("vd{}", at / 3),
            };
            let table = ReadingTable { columns: (0..count).map(column).collect(), ..Default::default() };
            COMPARED.with(|compared| compared.set(0));
            for (at, column) in table.columns.iter().enumerate() {
                assert_eq!(table.find(&column.metric.name, &column.instance), Some(at));
            }
            assert_eq!(table.find("disk.reads_per_s", "vda"), None);
            compared.push(COMPARED.with(std::cell::Cell::get) / count as u64);
        }
        assert!(compared.iter().all(|of_each| *of_each < 100), "{compared:?}");
    }

    #[test]
    fn the_first_of_several_columns_of_a_name_is_found_also_after_one_was_added() {
        let column = |instance: &str| Column {
            metric: MetricInfo::new("disk.read_s", Unit::Seconds, MetricKind::Mean, ""),
            instance: instance.into(),
        };
        let mut table = ReadingTable {
            columns: vec![column("b"), column("a"), column("a")].into(),
            ..Default::default()
        };
        assert_eq!((table.find("disk.read_s", "a"), table.find("disk.read_s", "c")), (Some(1), None));
        table.columns.push(column("c"));
        assert_eq!(table.find("disk.read_s", "c"), Some(3));
        let all = |table: &ReadingTable, prefix: &str| table.columns.find_all("disk.read_s", prefix);
        assert_eq!((all(&table, ""), all(&table, "a")), (vec![0, 1, 2, 3], vec![1, 2]));
        assert_eq!((all(&table, "ab"), table.columns.find_all("disk.read", "")), (vec![], vec![]));
        table.columns[3].instance = "d".into();
        assert_eq!((table.find("disk.read_s", "c"), table.find("disk.read_s", "d")), (None, Some(3)));
    }

    #[test]
    fn a_mean_weighs_by_the_metric_it_names() {
        let table = ReadingTable {
            columns: weighed().into(),
            begin_s: vec![0.0, 1.0, 2.0],
            end_s: vec![1.0, 2.0, 3.0],
            values: vec![vec![100.0, 0.0, 300.0], vec![0.001, f64::NAN, 0.005]],
        };
        assert!((table.mean(1, 0.0, 3.0).unwrap() - 0.004).abs() < 1e-12);
        assert_eq!(table.mean(1, 1.0, 2.0), None);
        assert_eq!(table.max(0, 0.0, 2.0), Some(100.0));
    }

    #[test]
    fn halves_have_the_means_and_the_windows_of_both() {
        let table = ReadingTable {
            // In the order in which the weight would be combined first.
            columns: weighed().into(),
            begin_s: vec![0.0, 1.0, 2.0, 3.0, 5.0],
            end_s: vec![1.0, 2.0, 3.0, 5.0, 6.0],
            values: vec![
                vec![100.0, 300.0, f64::NAN, 20.0, 7.0],
                vec![0.001, 0.005, f64::INFINITY, f64::NAN, 0.003],
            ],
        };
        let mut half = table.clone();
        half.halve(0, &table.weights());
        assert_eq!((&half.begin_s[..], &half.end_s[..]), (&[0.0, 2.0, 5.0][..], &[2.0, 5.0, 6.0][..]));
        assert_eq!(half.values[0], [200.0, 20.0, 7.0]);
        assert_eq!(half.values[1], [0.004, f64::INFINITY, 0.003]);
        assert_eq!(half.impossible(1, 0.0, 6.0), table.impossible(1, 0.0, 6.0));
        // Where every value is there, the mean of the whole is the same.
        for column in [0, 1] {
            let both = [&table, &half].map(|table| table.mean(column, 0.0, 2.0).unwrap());
            assert!((both[0] / both[1] - 1.0).abs() < 1e-12, "{both:?}");
        }
        let mut end = table.clone();
        end.halve(3, &table.weights());
        assert_eq!((end.end_s.len(), end.begin_s[3], end.end_s[3]), (4, 3.0, 6.0));
        assert_eq!(
            end.values[0][2..].iter().map(|value| value.to_string()).collect::<Vec<_>>(),
            ["NaN", "15.666666666666666"]
        );
        let mut none = ReadingTable::default();
        none.halve(0, &[]);
        assert!(none.end_s.is_empty());
    }

    #[test]
    fn what_cannot_be_counts_as_absent() {
        let metric = |kind| MetricInfo::new("cpu.busy_share", Unit::Share, kind, "");
        let column = |kind| Column { metric: metric(kind), instance: String::new() };
        let values = vec![0.5, -3.0, f64::INFINITY, 0.7];
        let table = ReadingTable {
            columns: vec![column(MetricKind::Mean), column(MetricKind::Gauge)].into(),
            // The last window ends before it begins.
            begin_s: vec![0.0, 1.0, 2.0, 3.0],
            end_s: vec![1.0, 2.0, 3.0, 2.5],
            values: vec![values.clone(), values],
        };
        assert_eq!(table.mean(0, 0.0, 4.0), Some(0.5));
        assert_eq!(table.max(0, 0.0, 4.0), Some(0.7));
        assert_eq!(table.impossible(0, 0.0, 4.0), Some(-3.0));
        assert_eq!(table.impossible(0, 3.0, 4.0), None);
        // A temperature may be below zero.
        assert_eq!(table.mean(1, 0.0, 4.0), Some(-1.25));
        assert_eq!(table.impossible(1, 0.0, 4.0), Some(f64::INFINITY));
    }

    #[test]
    fn heat_rows_are_a_quarter_octave() {
        for row in [0u16, 1, 17, 40, 90] {
            assert_eq!(heat_row((heat_row_ns(row) * 1.01) as u64), row);
        }
        assert_eq!(heat_row(0), 0);
        assert_eq!(heat_row(u64::MAX) as f64, ((u64::MAX as f64 / 1000.0).log2() * 4.0).floor());
    }
}
