//! Metrics with unit, kind and instance, and samples of many metrics.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::{forget, replace};

use serde::{Deserialize, Serialize};

/// The unit in which a value is stored. It is shown with a prefix (MB/s, ms, %).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of things: threads, processes, waiting operations.
    Count,
    /// Things per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// A share, 0 to 1.
    Share,
    /// CPU seconds per second: 1.5 means one and a half busy CPUs.
    Cpus,
}

/// How a value relates to the time window of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// The value at the end of the window.
    Gauge,
    /// The number of events in the window, per second.
    Rate,
    /// The mean over the events in the window (seconds per read, mean queue length).
    Mean,
}

/// The largest reading.
const READING_MAX: f64 = 1e21;

/// The description of one metric, the same for all its instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// Dotted name with the unit at the end: `disk.read_bytes_per_s`.
    pub name: Cow<'static, str>,
    /// The unit of the stored values.
    pub unit: Unit,
    /// How a value relates to its window.
    pub kind: MetricKind,
    /// One sentence.
    pub about: Cow<'static, str>,
    /// The corresponding Windows Performance Monitor counter; empty if there is none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub perfmon: Cow<'static, str>,
    /// The corresponding `sar` option and column, for example `-d await`; empty if there is none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub sar: Cow<'static, str>,
    /// For a [`MetricKind::Mean`]: the metric of the same source that is the weight of each window (seconds
    /// per read are weighted by reads per second). If empty, the weight is the length of the window.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub weight: Cow<'static, str>,
    /// The value at which the resource is saturated; 0 if the metric does not indicate saturation.
    #[serde(alias = "full_at", default, skip_serializing_if = "is_zero")]
    pub saturated_at: f64,
    /// The resolution of the underlying counter, in the metric's unit; 0 if it is irrelevant.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quantum: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl MetricInfo {
    /// A metric with its four required properties.
    pub const fn new(name: &'static str, unit: Unit, kind: MetricKind, about: &'static str) -> Self {
        MetricInfo {
            name: Cow::Borrowed(name),
            unit,
            kind,
            about: Cow::Borrowed(about),
            perfmon: Cow::Borrowed(""),
            sar: Cow::Borrowed(""),
            weight: Cow::Borrowed(""),
            saturated_at: 0.0,
            quantum: 0.0,
        }
    }

    /// Whether a reading is possible: at most 10^21, which is 2^64 in any unit with some room, and not negative unless it is a
    /// gauge.
    pub fn can_be(&self, value: f64) -> bool {
        value.abs() <= READING_MAX && (value >= 0.0 || self.kind == MetricKind::Gauge)
    }

    // A const function cannot drop values. The replaced value is a borrowed text, so forgetting it leaks
    // nothing.

    /// Adds its Perfmon and sar names; empty for none.
    pub const fn known_as(mut self, perfmon: &'static str, sar: &'static str) -> Self {
        forget(replace(&mut self.perfmon, Cow::Borrowed(perfmon)));
        forget(replace(&mut self.sar, Cow::Borrowed(sar)));
        self
    }

    /// Adds the value at which the resource is saturated.
    pub const fn saturated_at(mut self, value: f64) -> Self {
        self.saturated_at = value;
        self
    }

    /// Adds the metric that is the weight of its windows.
    pub const fn weighed_by(mut self, metric: &'static str) -> Self {
        forget(replace(&mut self.weight, Cow::Borrowed(metric)));
        self
    }

    /// Adds the resolution of the underlying counter.
    pub const fn quantum(mut self, value: f64) -> Self {
        self.quantum = value;
        self
    }
}

/// One metric of one instance (a device, a core, a process): one column of `readings.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The metric.
    pub metric: MetricInfo,
    /// The instance; empty if there is only one. That of another host begins with it, see [`instance_on`].
    pub instance: String,
}

/// What an instance of another host begins with.
const OF_HOST: &str = "//";

/// The instance of a column of another host: `//db1/sda`, or `//db1` where the host has only one.
pub fn instance_on(host: &str, instance: &str) -> String {
    match instance.is_empty() {
        true => format!("{OF_HOST}{host}"),
        false => format!("{OF_HOST}{host}/{instance}"),
    }
}

/// The host of an instance, empty for the host of the load, and its name there.
pub fn split_instance(instance: &str) -> (&str, &str) {
    match instance.strip_prefix(OF_HOST) {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        None => ("", instance),
    }
}

impl Column {
    /// The host that it is of; empty for the host of the load.
    pub fn host(&self) -> &str {
        split_instance(&self.instance).0
    }

    /// `disk.reads_per_s{vda}`, or `memory.available_bytes` without an instance.
    pub fn title(&self) -> String {
        match self.instance.is_empty() {
            true => self.metric.name.to_string(),
            false => format!("{}{{{}}}", self.metric.name, self.instance),
        }
    }
}

/// The index of a column in [`Readings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnId(usize);

/// One sample of every column. An unreadable value is NaN and is recorded as absent, never as zero.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    columns: Vec<Column>,
    values: Vec<f64>,
    index: HashMap<String, usize>,
}

impl Readings {
    /// Creates readings without columns.
    pub fn new() -> Self {
        Readings::default()
    }

    /// The column of this metric and instance, which is created if it does not exist. Columns are never
    /// removed; a source stores the id and calls this again only for a new instance.
    pub fn column(&mut self, metric: &MetricInfo, instance: &str) -> ColumnId {
        let column = Column { metric: metric.clone(), instance: instance.to_string() };
        let title = column.title();
        if let Some(&at) = self.index.get(&title) {
            return ColumnId(at);
        }
        self.index.insert(title, self.columns.len());
        self.columns.push(column);
        self.values.push(f64::NAN);
        ColumnId(self.columns.len() - 1)
    }

    /// Sets the value of this sample.
    pub fn set(&mut self, id: ColumnId, value: f64) {
        self.values[id.0] = value;
    }

    /// Makes every value absent, before the next sample.
    pub fn clear(&mut self) {
        self.values.fill(f64::NAN);
    }

    /// All columns in the order of their creation.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The values of this sample, one per column; NaN means absent.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The value of one column by metric and instance; none if absent.
    pub fn get(&self, metric: &str, instance: &str) -> Option<f64> {
        let title = match instance.is_empty() {
            true => metric.to_string(),
            false => format!("{metric}{{{instance}}}"),
        };
        self.index.get(&title).map(|&at| self.values[at]).filter(|value| !value.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_of_another_host_begins_with_it() {
        for (host, instance, text) in [
            ("db1", "sda", "//db1/sda"),
            ("db1:9100", "", "//db1:9100"),
            ("db1", "/mnt/a", "//db1//mnt/a"),
            ("[::1]:9100", "device=\"a/b\"", "//[::1]:9100/device=\"a/b\""),
        ] {
            assert_eq!(instance_on(host, instance), text);
            assert_eq!(split_instance(text), (host, instance));
        }
        for text in ["", "sda", "/system.slice/a.service", "/"] {
            assert_eq!(split_instance(text), ("", text));
        }
    }
}
