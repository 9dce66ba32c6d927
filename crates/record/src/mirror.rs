//! The counters of a trial as reading them back would give, built while they are written: a long log is not read twice.

use std::collections::HashMap;

use model::{Column, MetricInfo, ReadingTable};

use crate::limits::{Budget, COLUMNS_MAX, READING_COST, READINGS_MAX};
use crate::readings_csv::{Combining, Read, push, recorded_time};

/// The counters of a trial that were written.
#[derive(Debug)]
pub struct WrittenReadings(pub(crate) Read);

/// Samples that are added to the table together: a thousand columns are as many places in memory.
const TOGETHER: usize = 16;

/// A table that grows with each sample.
pub(crate) struct Mirror {
    readings_max: usize,
    table: ReadingTable,
    combining: Combining,
    /// Values of samples that are not in the table yet, one sample after the other.
    waiting: Vec<f64>,
    samples_waiting: usize,
    /// The description that `metrics.json` has of each metric: that of its first column.
    metrics: HashMap<String, MetricInfo>,
    budget: Budget,
    /// Whether a limit was met that the reader reports.
    is_full: bool,
}

impl Mirror {
    pub(crate) fn new() -> Mirror {
        Mirror::up_to(READINGS_MAX)
    }

    /// Combines neighbouring samples of more readings.
    fn up_to(readings_max: usize) -> Mirror {
        Mirror {
            readings_max,
            table: ReadingTable::default(),
            combining: Combining::new(readings_max),
            waiting: Vec::new(),
            samples_waiting: 0,
            metrics: HashMap::new(),
            budget: Budget::new(),
            is_full: false,
        }
    }

    /// Adds a sample with the values that were recorded. `bytes` is its size in the file: more of them allow more memory.
    pub(crate) fn sample(
        &mut self,
        (begin_s, end_s): (f64, f64),
        bytes: u64,
        columns: &[Column],
        recorded: impl Iterator<Item = f64>,
    ) {
        self.budget.open(bytes);
        let known = self.table.columns.len();
        if columns.len() != known {
            self.add_waiting();
        }
        let rows = self.table.end_s.len();
        let cost = READING_COST * (columns.len() as u64 + 2 + (rows * (columns.len() - known)) as u64);
        if self.is_full || columns.len() > COLUMNS_MAX || !self.budget.take(cost) {
            self.is_full = true;
            return;
        }
        for column in &columns[known..] {
            let metric =
                self.metrics.entry(column.metric.name.to_string()).or_insert_with(|| column.metric.clone());
            self.table.columns.push(Column { metric: metric.clone(), instance: column.instance.clone() });
            self.table.values.push(vec![f64::NAN; rows]);
        }
        push(&mut self.table.begin_s, recorded_time(begin_s));
        push(&mut self.table.end_s, recorded_time(end_s));
        self.waiting.extend(recorded);
        self.samples_waiting += 1;
        let is_long = self.table.end_s.len() * columns.len() > self.readings_max;
        if self.samples_waiting == TOGETHER || is_long || self.combining.samples > 1 {
            self.add_waiting();
        }
    }

    /// Adds the waiting samples to the table. While samples are combined, there is one.
    fn add_waiting(&mut self) {
        if self.samples_waiting == 0 {
            return;
        }
        let width = self.table.columns.len();
        for (at, column) in self.table.values.iter_mut().enumerate() {
            for sample in self.waiting.chunks_exact(width) {
                push(column, sample[at]);
            }
        }
        self.waiting.clear();
        self.samples_waiting = 0;
        self.combining.added(&mut self.table);
    }

    /// The table; none if a limit was met, so that the file must be read.
    pub(crate) fn finish(mut self) -> Option<WrittenReadings> {
        self.add_waiting();
        self.combining.end(&mut self.table);
        let samples = self.combining.samples;
        (!self.is_full).then_some(WrittenReadings(Read { table: self.table, samples }))
    }
}

#[cfg(test)]
mod tests {
    use model::{MetricKind, Readings, Unit};
    use proptest::prelude::*;

    use super::*;
    use crate::lines::Lines;
    use crate::readings_csv;

    /// Values as counters have them, and others.
    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(f64::NAN),
            Just(0.0),
            Just(1234.5678),
            any::<u32>().prop_map(f64::from),
            (0.0..100.0),
            (-1e7..1e7),
            any::<f64>(),
            (1e-14..1e-4),
            (0u32..2_000_000_000).prop_map(|value| f64::from(value) / 1e4),
        ]
    }

    proptest! {
        #[test]
        fn the_table_is_that_of_the_file(
            readings_max in 20..200_usize,
            rows in proptest::collection::vec((0.0..1e5, proptest::collection::vec(value(), 1..6)), 1..120),
        ) {
            let metrics = [
                MetricInfo::new("cpu.busy_share", Unit::Share, MetricKind::Rate, ""),
                MetricInfo::new("disk.reads_per_s", Unit::PerSecond, MetricKind::Rate, ""),
            ];
            let mut readings = Readings::new();
            let (mut mirror, mut written) = (Mirror::up_to(readings_max), readings_csv::SampleText::default());
            let (mut text, mut titled, mut width) = (Vec::new(), 0, 0);
            for (begin_s, values) in rows {
                readings.clear();
                // Columns appear later, and stay.
                width = width.max(values.len());
                for (at, value) in values.into_iter().enumerate() {
                    let id = readings.column(&metrics[at % 2], &format!("a{{\"{at},"));
                    readings.set(id, value);
                }
                if titled != width {
                    readings_csv::write_titles(&mut text, readings.columns()).unwrap();
                    titled = width;
                }
                let window = (begin_s, begin_s + 1.1);
                let row = written.row(window.0, window.1, &readings);
                text.extend_from_slice(row);
                let bytes = row.len() as u64;
                mirror.sample(window, bytes, readings.columns(), written.recorded());
            }
            let mut lines = Lines::new(Box::new(std::io::Cursor::new(text)));
            let read = readings_csv::read(&mut lines, &metrics, &mut Budget::new(), readings_max);
            prop_assert_eq!(lines.damage(), None);
            let WrittenReadings(written) = mirror.finish().unwrap();
            // NaN is not equal to itself.
            prop_assert_eq!(format!("{:?}", written.table), format!("{:?}", read.table));
            prop_assert_eq!(written.samples, read.samples);
        }
    }
}
