//! Thresholds of counters that administrators know, as a second opinion. They decide nothing: they do not know the load, and
//! a disk that is read all the time is over most of them without being a limit.
//!
//! Source: PAL 2 (Performance Analysis of Logs), threshold file "Quick System Overview" 1.9, by C. Huffman. PAL compares
//! each of thirty parts of a log; here it is the mean over the measured time.

use std::collections::BTreeMap;

use model::result::{Severity, ThresholdResult};
use model::{ResultDocument, Study, Unit, metrics};

use crate::measured::Measured;
use crate::statistics::median;

/// What is compared with a threshold.
#[derive(Clone, Copy)]
enum Value {
    /// A metric.
    Of(&'static str),
    /// A metric divided by the number of CPUs.
    PerCpu(&'static str),
    /// A metric divided by another one.
    Ratio(&'static str, &'static str),
    /// What is left of a share.
    Rest(&'static str),
}

/// A threshold.
struct Threshold {
    /// The counter of Performance Monitor.
    counter: &'static str,
    value: Value,
    unit: Unit,
    /// Beyond it there is a warning.
    warning: f64,
    /// Beyond it the value is called critical; none if there is only a warning.
    critical: Option<f64>,
    /// Whether smaller values are worse.
    is_least: bool,
    /// A condition besides: this metric must be above this value.
    only_if: Option<(&'static str, f64)>,
}

const fn most(counter: &'static str, value: Value, unit: Unit, warning: f64, critical: f64) -> Threshold {
    Threshold { counter, value, unit, warning, critical: Some(critical), is_least: false, only_if: None }
}

const fn least(counter: &'static str, value: Value, unit: Unit, warning: f64, critical: f64) -> Threshold {
    Threshold { is_least: true, ..most(counter, value, unit, warning, critical) }
}

const fn warn(counter: &'static str, value: Value, unit: Unit, warning: f64) -> Threshold {
    Threshold { critical: None, ..most(counter, value, unit, warning, 0.0) }
}

static THRESHOLDS: &[Threshold] = &[
    most(r"Processor(*)\% Processor Time", Value::Of(metrics::CPU_BUSY_SHARE), Unit::Share, 0.5, 0.8),
    most(r"Processor(*)\% Privileged Time", Value::Of(metrics::CPU_SYSTEM_SHARE), Unit::Share, 0.2, 0.3),
    most(r"Processor(*)\% Interrupt Time", Value::Of(metrics::CPU_IRQ_SHARE), Unit::Share, 0.1, 0.2),
    most(
        r"System\Processor Queue Length, per processor",
        Value::PerCpu(metrics::CPU_RUN_QUEUE_LENGTH),
        Unit::Count,
        2.0,
        10.0,
    ),
    Threshold {
        // PAL also wants a share of privileged time.
        only_if: Some((metrics::CPU_BUSY_SHARE, 0.5)),
        ..most(
            r"System\Context Switches/sec, per processor",
            Value::PerCpu(metrics::CPU_CONTEXT_SWITCHES_PER_S),
            Unit::PerSecond,
            2_500.0,
            5_000.0,
        )
    },
    least(
        r"Memory\Available MBytes, of physical memory",
        Value::Ratio(metrics::MEMORY_AVAILABLE_BYTES, metrics::MEMORY_TOTAL_BYTES),
        Unit::Share,
        0.1,
        0.05,
    ),
    warn(r"Memory\Pages/sec", Value::Of(r"Memory\Pages/sec"), Unit::PerSecond, 1_000.0),
    warn(r"Memory\Pages/sec", Value::Of(metrics::MEMORY_MAJOR_FAULTS_PER_S), Unit::PerSecond, 1_000.0),
    most(r"Paging File(*)\% Usage", Value::Of(r"Paging File\% Usage"), Unit::Count, 70.0, 90.0),
    most(
        r"Memory\% Committed Bytes In Use",
        Value::Of(r"Memory\% Committed Bytes In Use"),
        Unit::Count,
        80.0,
        90.0,
    ),
    most(r"PhysicalDisk(*)\Avg. Disk sec/Read", Value::Of(metrics::DISK_READ_S), Unit::Seconds, 0.015, 0.025),
    most(
        r"PhysicalDisk(*)\Avg. Disk sec/Write",
        Value::Of(metrics::DISK_WRITE_S),
        Unit::Seconds,
        0.015,
        0.025,
    ),
    warn(r"PhysicalDisk(*)\Avg. Disk Queue Length", Value::Of(metrics::DISK_QUEUE_LENGTH), Unit::Count, 2.0),
    Threshold {
        critical: None,
        ..least(
            r"LogicalDisk(*)\% Idle Time",
            Value::Rest(metrics::DISK_UTILIZATION_SHARE),
            Unit::Share,
            0.1,
            0.0,
        )
    },
    least(
        r"LogicalDisk(*)\% Free Space",
        Value::Rest(metrics::FILESYSTEM_USED_SHARE),
        Unit::Share,
        0.1,
        0.05,
    ),
    most(
        r"Network Interface(*)\Output Queue Length",
        Value::Of(r"Network Interface\Output Queue Length"),
        Unit::Count,
        1.0,
        2.0,
    ),
    most(
        r"Network Interface(*)\Packets Outbound Errors",
        Value::Of(metrics::NETWORK_SEND_ERRORS_PER_S),
        Unit::PerSecond,
        0.0,
        0.0,
    ),
];

impl Threshold {
    /// How bad a value is.
    fn severity(&self, value: f64) -> Option<Severity> {
        let is_beyond = |threshold: f64| if self.is_least { value < threshold } else { value > threshold };
        match self.critical {
            Some(critical) if is_beyond(critical) => Some(Severity::Critical),
            _ => is_beyond(self.warning).then_some(Severity::Warning),
        }
    }

    /// The value of each instance in a trial.
    fn values(&self, measured: &Measured, cpus: f64) -> Vec<(String, f64)> {
        let of = |metric: &'static str| measured.instances(metric);
        let mean = |metric: &str, instance: &str| measured.mean(metric, instance);
        let name = match self.value {
            Value::Of(name) | Value::PerCpu(name) | Value::Ratio(name, _) | Value::Rest(name) => name,
        };
        let mut found = Vec::new();
        for instance in of(name) {
            let Some(value) = mean(name, instance) else { continue };
            let value = match self.value {
                Value::Of(_) => value,
                // Of another host the number may be unknown.
                Value::PerCpu(_) if cpus < 1.0 => continue,
                Value::PerCpu(_) => value / cpus,
                Value::Ratio(_, of) => match mean(of, instance) {
                    Some(whole) if whole > 0.0 => value / whole,
                    _ => continue,
                },
                Value::Rest(_) => 1.0 - value,
            };
            let is_meant = self
                .only_if
                .is_none_or(|(metric, least)| measured.host_mean(metric).is_none_or(|value| value > least));
            if is_meant && value.is_finite() {
                found.push((instance.to_string(), value));
            }
        }
        found
    }
}

/// Each threshold for which the counters were read in the baseline, with the worst instance: median over the trials.
pub(crate) fn results(study: &Study, document: &ResultDocument) -> Vec<ThresholdResult> {
    let Some(baseline) = document.configurations.first() else { return Vec::new() };
    let records = study.runs.iter().filter(|record| baseline.trials.contains(&record.run.trial.id()));
    let measured: Vec<Measured> = records.map(Measured::of).collect();
    let cpus = f64::from(study.host.cpus);
    let mut found: Vec<ThresholdResult> = Vec::new();
    for threshold in THRESHOLDS {
        let mut of_instance: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for measured in &measured {
            let others = measured.hosts().into_iter().map(|host| measured.on(host));
            for measured in std::iter::once(*measured).chain(others) {
                // How many CPUs another host has is not known.
                let cpus = if measured.host().is_empty() { cpus } else { 0.0 };
                for (instance, value) in threshold.values(&measured, cpus) {
                    of_instance.entry(measured.instance(&instance)).or_default().push(value);
                }
            }
        }
        let medians =
            of_instance.into_iter().filter_map(|(instance, values)| Some((instance, median(&values)?)));
        let worst = medians.reduce(|worst, other| {
            let is_worse = if threshold.is_least { other.1 < worst.1 } else { other.1 > worst.1 };
            if is_worse { other } else { worst }
        });
        let Some((instance, value)) = worst else { continue };
        // Two metrics may stand for one counter.
        if found.iter().any(|known| known.counter == threshold.counter) {
            continue;
        }
        found.push(ThresholdResult {
            counter: threshold.counter.into(),
            instance,
            unit: threshold.unit,
            value,
            warning: threshold.warning,
            critical: threshold.critical,
            is_least: threshold.is_least,
            severity: threshold.severity(value),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counter: &str) -> &'static Threshold {
        THRESHOLDS.iter().find(|threshold| threshold.counter == counter).unwrap()
    }

    #[test]
    fn values_beyond_are_warnings_or_critical() {
        for (counter, value, expected) in [
            (r"Processor(*)\% Processor Time", 0.5, None),
            (r"Processor(*)\% Processor Time", 0.51, Some(Severity::Warning)),
            (r"Processor(*)\% Processor Time", 0.81, Some(Severity::Critical)),
            (r"PhysicalDisk(*)\Avg. Disk sec/Read", 0.016, Some(Severity::Warning)),
            (r"PhysicalDisk(*)\Avg. Disk sec/Read", 0.026, Some(Severity::Critical)),
            (r"PhysicalDisk(*)\Avg. Disk Queue Length", 40.0, Some(Severity::Warning)),
            (r"LogicalDisk(*)\% Idle Time", 0.0, Some(Severity::Warning)),
            (r"LogicalDisk(*)\% Idle Time", 0.2, None),
            (r"Memory\Available MBytes, of physical memory", 0.07, Some(Severity::Warning)),
            (r"Memory\Available MBytes, of physical memory", 0.04, Some(Severity::Critical)),
            (r"Network Interface(*)\Packets Outbound Errors", 0.0, None),
            (r"Network Interface(*)\Packets Outbound Errors", 0.1, Some(Severity::Critical)),
        ] {
            assert_eq!(of(counter).severity(value), expected, "{counter} {value}");
        }
    }
}
