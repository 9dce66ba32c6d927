//! What a number means: metric, unit, kind, instance; and one sample of many of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::{forget, replace};

use serde::{Deserialize, Serialize};

/// The unit a value is kept in. Shown scaled (MB/s, ms, %), kept in the base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things: threads, processes, operations waiting.
    Count,
    /// Things per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// A share of the whole, 0 to 1.
    Share,
    /// CPU seconds per second: 1.5 is one and a half CPUs busy.
    Cpus,
}

/// How a value relates to the sample's window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// True at the window's end.
    Gauge,
    /// How much happened in the window, per second of it.
    Rate,
    /// The mean over what happened in the window (seconds per read, mean queue length).
    Mean,
}

/// The description of one metric, the same for all its instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// Dotted name, unit last: `disk.read_bytes_per_s`.
    pub name: Cow<'static, str>,
    /// The unit values are kept in.
    pub unit: Unit,
    /// How a value relates to its window.
    pub kind: MetricKind,
    /// One sentence.
    pub about: Cow<'static, str>,
    /// The Windows Performance Monitor counter that shows the same, empty when there is none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub perfmon: Cow<'static, str>,
    /// The `sar` column that shows the same with its option, such as `-d await`; empty when there is none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub sar: Cow<'static, str>,
    /// For a [`MetricKind::Mean`]: the metric of the same source that says how much each window counts
    /// (seconds per read weigh by reads per second). Empty: windows count by their length.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub weight: Cow<'static, str>,
    /// The value at which the resource is full; 0 when the metric is no sign of saturation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub full_at: f64,
    /// The smallest step the underlying counter makes, in the metric's unit; 0 when it does not matter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quantum: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl MetricInfo {
    /// A metric by its four necessary parts.
    pub const fn new(name: &'static str, unit: Unit, kind: MetricKind, about: &'static str) -> Self {
        MetricInfo {
            name: Cow::Borrowed(name),
            unit,
            kind,
            about: Cow::Borrowed(about),
            perfmon: Cow::Borrowed(""),
            sar: Cow::Borrowed(""),
            weight: Cow::Borrowed(""),
            full_at: 0.0,
            quantum: 0.0,
        }
    }

    /// Whether a reading can be true: finite, and of what happened in a window not negative.
    pub fn can_be(&self, value: f64) -> bool {
        value.is_finite() && (value >= 0.0 || self.kind == MetricKind::Gauge)
    }

    // In a const function nothing may be dropped: what is replaced is a borrowed text, forgetting it loses nothing.

    /// With its Perfmon and sar names; empty for none.
    pub const fn known_as(mut self, perfmon: &'static str, sar: &'static str) -> Self {
        forget(replace(&mut self.perfmon, Cow::Borrowed(perfmon)));
        forget(replace(&mut self.sar, Cow::Borrowed(sar)));
        self
    }

    /// With the value at which the resource is full.
    pub const fn full_at(mut self, value: f64) -> Self {
        self.full_at = value;
        self
    }

    /// With the metric that weighs its windows.
    pub const fn weighed_by(mut self, metric: &'static str) -> Self {
        forget(replace(&mut self.weight, Cow::Borrowed(metric)));
        self
    }

    /// With the smallest step of the underlying counter.
    pub const fn quantum(mut self, value: f64) -> Self {
        self.quantum = value;
        self
    }
}

/// One metric of one instance (a device, a core, a process): one column of `readings.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What is measured.
    pub metric: MetricInfo,
    /// Of which one; empty when there is only one.
    pub instance: String,
}

impl Column {
    /// `disk.reads_per_s{vda}`, or `memory.available_bytes` without an instance.
    pub fn title(&self) -> String {
        match self.instance.is_empty() {
            true => self.metric.name.to_string(),
            false => format!("{}{{{}}}", self.metric.name, self.instance),
        }
    }
}

/// The place of a column in [`Readings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnId(usize);

/// One sample of every column. A value that could not be read is NaN and is recorded as absent, never as zero.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    columns: Vec<Column>,
    values: Vec<f64>,
    index: HashMap<String, usize>,
}

impl Readings {
    /// No columns yet.
    pub fn new() -> Self {
        Readings::default()
    }

    /// The column for this metric and instance, made when it does not exist yet. Columns are never removed;
    /// a source keeps the id and asks again only for a new instance.
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

    /// All columns in the order they appeared.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The values of this sample, one per column; NaN is absent.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The value of one column by metric and instance; none when absent.
    pub fn get(&self, metric: &str, instance: &str) -> Option<f64> {
        let title = match instance.is_empty() {
            true => metric.to_string(),
            false => format!("{metric}{{{instance}}}"),
        };
        self.index.get(&title).map(|&at| self.values[at]).filter(|value| !value.is_nan())
    }
}
