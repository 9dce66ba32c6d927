//! Text of exporters as columns of the record, by the table of scrapes.

use std::collections::HashMap;

use counters::scrape::{Mapping, Seen};
use foreign::{CounterLog, Sample, Series, SeriesKind};
use model::MetricInfo;

/// The exporters of a log, one for each host.
#[derive(Default)]
pub(super) struct Exporters {
    hosts: Vec<Exporter>,
    by_host: HashMap<String, usize>,
    /// How many columns of the log are known.
    known: usize,
    /// All columns so far: their exporter, and their place there.
    columns: Vec<(usize, usize)>,
}

/// The series of a host.
#[derive(Default)]
struct Exporter {
    host: String,
    series: Vec<Series>,
    /// Their columns in the log.
    places: Vec<usize>,
    mapping: Mapping,
    /// The values of this sample, and the last ones of before.
    now: Vec<Seen>,
    before: Vec<Seen>,
    values: Vec<f64>,
    /// How many of its columns are in those of all exporters.
    added: usize,
}

impl Exporters {
    /// Reads a sample. A counter becomes its rate since its last value.
    pub(super) fn read(&mut self, log: &dyn CounterLog, sample: &Sample) {
        let (columns, _) = log.columns();
        for (at, column) in columns.iter().enumerate().skip(self.known) {
            let host = match self.by_host.get(&column.host) {
                Some(host) => *host,
                None => {
                    self.by_host.insert(column.host.clone(), self.hosts.len());
                    self.hosts.push(Exporter { host: column.host.clone(), ..Exporter::default() });
                    self.hosts.len() - 1
                }
            };
            let name = column.path.split('{').next().unwrap_or_default();
            let kind = if log.is_cumulative(at) { SeriesKind::Counter } else { SeriesKind::Unknown };
            let (name, path) = (name.to_string(), column.path.clone());
            self.hosts[host].series.push(Series { name, path, written: String::new(), kind });
            self.hosts[host].places.push(at);
        }
        self.known = columns.len();
        for (at, host) in self.hosts.iter_mut().enumerate() {
            host.read(sample);
            let all = host.mapping.columns().len();
            self.columns.extend((host.added..all).map(|place| (at, place)));
            host.added = all;
        }
    }

    /// All columns so far, each with its host and its instance there; none is removed.
    pub(super) fn columns(&self) -> impl ExactSizeIterator<Item = (&MetricInfo, &str, &str)> {
        self.columns.iter().map(|(host, place)| {
            let host = &self.hosts[*host];
            let column = &host.mapping.columns()[*place];
            (&column.metric, host.host.as_str(), column.instance.as_str())
        })
    }

    /// The values of the columns in the last sample; NaN where there is none.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        (0..self.columns.len()).map(|at| self.value(at))
    }

    /// That of one column.
    pub(super) fn value(&self, at: usize) -> f64 {
        let value = self.columns.get(at).and_then(|(host, place)| self.hosts[*host].values.get(*place));
        value.copied().unwrap_or(f64::NAN)
    }

    /// Series that have no column.
    pub(super) fn left_out(&self) -> usize {
        self.hosts.iter().map(|host| host.mapping.left_out()).sum()
    }
}

impl Exporter {
    fn read(&mut self, sample: &Sample) {
        if self.mapping.columns().is_empty() || self.now.len() < self.series.len() {
            self.mapping.extend(&self.series);
            self.now.resize(self.series.len(), Seen::NOT);
            self.before.resize(self.series.len(), Seen::NOT);
        }
        let mut is_there = false;
        for ((place, now), before) in self.places.iter().zip(&mut self.now).zip(&mut self.before) {
            if !now.value.is_nan() {
                *before = *now;
            }
            let value = sample.values.get(*place).copied().unwrap_or(f64::NAN);
            *now = Seen { value, at_ns: sample.end_unix_ns };
            is_there |= !value.is_nan();
        }
        self.values.clear();
        if is_there {
            self.mapping.values(&self.now, &self.before, &mut self.values);
        }
    }
}
