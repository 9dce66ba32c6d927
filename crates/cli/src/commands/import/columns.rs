//! Which of our metrics a foreign counter is.

use std::borrow::Cow;

use counters::perfmon::{self, Answer};
use foreign::{CounterColumn, CounterFamily};
use model::{MetricInfo, MetricKind, Unit};

/// A column of the record: its metric and instance, and the factor of its values.
pub(super) struct Mapped {
    pub(super) metric: MetricInfo,
    pub(super) instance: String,
    pub(super) factor: f64,
}

/// Maps a counter. `is_judged` for those of the system under test: those of another one keep their names, so that both are not
/// taken for one.
pub(super) fn mapped(family: CounterFamily, column: &CounterColumn, is_judged: bool) -> Mapped {
    let CounterFamily::PerformanceMonitor = family;
    let same = perfmon::Path::parse(&column.path).filter(|_| is_judged).and_then(|path| {
        let instance = instance(&path, &column.path)?;
        let counter = path.find().into_iter().find(|counter| counter.answer == Answer::Same)?;
        let (_, metric) = counters::all_metrics().find(|(_, metric)| metric.name == counter.metric)?;
        Some(Mapped { factor: factor(&path.counter, metric.unit), metric: metric.clone(), instance })
    });
    same.unwrap_or_else(|| as_written(column, is_judged))
}

/// The instance in our names; none for one that has none there.
fn instance(path: &perfmon::Path, written: &str) -> Option<String> {
    let is_total = path.instance.is_empty() && written.contains('(');
    match path.object.as_str() {
        // The sum of all processes is none of them.
        "Process" | "Thread"
            if is_total || matches!(path.instance.to_lowercase().as_str(), "idle" | "system") =>
        {
            None
        }
        // A sum over disks or interfaces is no disk and no interface.
        "PhysicalDisk" | "LogicalDisk" | "Network Interface" if is_total => None,
        "Processor Information" => match path.instance.split_once(',') {
            Some((_, "_Total")) => None,
            Some((group, cpu)) if group.trim() == "0" => Some(cpu.trim().to_string()),
            Some(_) => None,
            None => Some(path.instance.clone()),
        },
        _ => Some(path.instance.clone()),
    }
}

/// What a value is multiplied with to be in the unit of the metric.
fn factor(counter: &str, unit: Unit) -> f64 {
    let counter = counter.to_lowercase();
    match unit {
        Unit::Share | Unit::Cpus if counter.starts_with('%') => 0.01,
        Unit::Bytes if counter.contains("mbytes") || counter.contains("megabytes") => 1_048_576.0,
        Unit::Bytes if counter.contains("kbytes") || counter.contains("kilobytes") => 1024.0,
        // Bits per second.
        Unit::BytesPerSecond if counter.contains("bandwidth") => 0.125,
        _ => 1.0,
    }
}

/// A counter under its own name.
fn as_written(column: &CounterColumn, is_judged: bool) -> Mapped {
    // The record has the instance in braces.
    let name = column.path.replace('{', "[").replace('}', "]");
    let (object, instance, counter) = match (name.find('('), name.rfind(r")\")) {
        (Some(open), Some(close)) if open < close && name.find('\\').is_some_and(|at| open < at) => {
            (&name[..open], &name[open + 1..close], &name[close + 2..])
        }
        _ => match name.split_once('\\') {
            Some((object, counter)) => (object, "", counter),
            None => ("", "", name.as_str()),
        },
    };
    let metric = MetricInfo {
        name: Cow::Owned(format!("{object}\\{counter}")),
        perfmon: Cow::Owned(format!("{object}\\{counter}")),
        ..MetricInfo::new(
            "",
            Unit::Count,
            MetricKind::Gauge,
            "A counter of Performance Monitor, as it was logged.",
        )
    };
    let instance = match (is_judged, instance.is_empty()) {
        (true, _) => instance.to_string(),
        (false, true) => column.host.clone(),
        (false, false) => format!("{} {instance}", column.host),
    };
    Mapped { metric, instance, factor: 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_our_metrics_where_they_say_the_same() {
        for (path, name, instance, factor) in [
            (r"Processor(_Total)\% Processor Time", "cpu.busy_share", "", 0.01),
            (r"Processor(3)\% Processor Time", "cpu.busy_share", "3", 0.01),
            (r"Processor Information(0,3)\% Processor Time", "cpu.busy_share", "3", 0.01),
            (
                r"Processor Information(0,_Total)\% Processor Time",
                r"Processor Information\% Processor Time",
                "0,_Total",
                1.0,
            ),
            (r"Memory\Available MBytes", "memory.available_bytes", "", 1_048_576.0),
            (r"PhysicalDisk(0 C:)\Avg. Disk sec/Read", "disk.read_s", "0 C:", 1.0),
            (r"PhysicalDisk(_Total)\Disk Reads/sec", r"PhysicalDisk\Disk Reads/sec", "_Total", 1.0),
            (r"Process(w3wp#1)\% Processor Time", "process.busy_cpus", "w3wp#1", 0.01),
            (r"Process(_Total)\% Processor Time", r"Process\% Processor Time", "_Total", 1.0),
            (r"MSExchangeIS\RPC Requests", r"MSExchangeIS\RPC Requests", "", 1.0),
        ] {
            let column = CounterColumn { host: "DB1".into(), path: path.into(), written: String::new() };
            let found = mapped(CounterFamily::PerformanceMonitor, &column, true);
            assert_eq!(
                (&*found.metric.name, found.instance.as_str(), found.factor),
                (name, instance, factor),
                "{path}"
            );
        }
        let column = CounterColumn {
            host: "DB2".into(),
            path: r"Processor(_Total)\% Processor Time".into(),
            written: String::new(),
        };
        let other = mapped(CounterFamily::PerformanceMonitor, &column, false);
        assert_eq!(
            (&*other.metric.name, other.instance.as_str()),
            (r"Processor\% Processor Time", "DB2 _Total")
        );
    }
}
