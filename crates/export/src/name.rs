//! The names of metrics in OTLP and OpenMetrics.

use model::{MetricInfo, Unit};

/// The beginning of all names.
const PREFIX: &str = "plimsoll.";

/// Endings that OpenMetrics adds to names itself.
const RESERVED: [&str; 8] = ["_total", "_bucket", "_count", "_sum", "_info", "_created", "_gcount", "_gsum"];

/// A metric's name without its unit, and the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name in OTLP: `plimsoll.disk.read`.
    pub(crate) dotted: String,
    unit: Unit,
}

impl Name {
    /// The name of a metric of ours, which ends with its unit, or of another program's counter.
    pub(crate) fn of(metric: &MetricInfo) -> Name {
        let ending = match metric.unit {
            Unit::Count | Unit::Bytes | Unit::Cpus => "",
            // The bytes stay in the name: `disk.read_s` is another metric than `disk.read_bytes_per_s`.
            Unit::PerSecond | Unit::BytesPerSecond => "_per_s",
            Unit::Seconds => "_s",
            Unit::Share => "_share",
        };
        let name = metric.name.strip_suffix(ending).unwrap_or(&metric.name);
        Name { dotted: format!("{PREFIX}{name}"), unit: metric.unit }
    }

    pub(crate) fn new(dotted: &str, unit: Unit) -> Name {
        Name { dotted: format!("{PREFIX}{dotted}"), unit }
    }

    /// The unit in OTLP, as UCUM writes it.
    pub(crate) fn otlp_unit(&self) -> &'static str {
        match self.unit {
            // Prometheus calls a gauge of the unit 1 a ratio.
            Unit::Count => "{count}",
            Unit::PerSecond => "{count}/s",
            Unit::Bytes => "By",
            Unit::BytesPerSecond => "By/s",
            Unit::Seconds => "s",
            Unit::Share => "1",
            Unit::Cpus => "{cpu}",
        }
    }

    /// The name and the unit in OpenMetrics; the name ends with the unit. An empty unit is none.
    pub(crate) fn openmetrics(&self) -> (String, &'static str) {
        let name = underscored(&self.dotted);
        let (ending, unit) = match self.unit {
            Unit::Count | Unit::Cpus => ("", ""),
            Unit::PerSecond => ("_per_second", "per_second"),
            Unit::Bytes => ("_bytes", "bytes"),
            Unit::BytesPerSecond if name.ends_with("_bytes") => ("_per_second", "bytes_per_second"),
            Unit::BytesPerSecond => ("_bytes_per_second", "bytes_per_second"),
            Unit::Seconds => ("_seconds", "seconds"),
            Unit::Share => ("_ratio", "ratio"),
        };
        let mut name = if name.ends_with(ending) { name } else { name + ending };
        // The endings of counters, histograms and infos are not free for gauges.
        if RESERVED.iter().any(|reserved| name.ends_with(reserved)) {
            name.push_str("_value");
        }
        (name, unit)
    }
}

/// A name of letters, digits and underscores, without underscores at its end.
fn underscored(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c),
            '%' => out.push_str(if out.ends_with('_') { "percent_" } else { "_percent_" }),
            _ if out.ends_with('_') => {}
            _ => out.push('_'),
        }
    }
    out.truncate(out.trim_end_matches('_').len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::MetricKind;

    #[test]
    fn a_metric_has_one_name_in_both_formats() {
        for (name, unit, dotted, otlp, openmetrics, om_unit) in [
            ("disk.read_s", Unit::Seconds, "disk.read", "s", "disk_read_seconds", "seconds"),
            (
                "disk.read_bytes_per_s",
                Unit::BytesPerSecond,
                "disk.read_bytes",
                "By/s",
                "disk_read_bytes_per_second",
                "bytes_per_second",
            ),
            (
                "disk.reads_per_s",
                Unit::PerSecond,
                "disk.reads",
                "{count}/s",
                "disk_reads_per_second",
                "per_second",
            ),
            (
                "memory.available_bytes",
                Unit::Bytes,
                "memory.available_bytes",
                "By",
                "memory_available_bytes",
                "bytes",
            ),
            ("cpu.busy_share", Unit::Share, "cpu.busy", "1", "cpu_busy_ratio", "ratio"),
            ("process.busy_cpus", Unit::Cpus, "process.busy_cpus", "{cpu}", "process_busy_cpus", ""),
            ("cpu.load_average", Unit::Count, "cpu.load_average", "{count}", "cpu_load_average", ""),
            // Counters of other systems.
            (
                "cpu.processes_created_per_s",
                Unit::PerSecond,
                "cpu.processes_created",
                "{count}/s",
                "cpu_processes_created_per_second",
                "per_second",
            ),
            (
                r"Processor\% Idle Time",
                Unit::Count,
                r"Processor\% Idle Time",
                "{count}",
                "Processor_percent_Idle_Time",
                "",
            ),
            (
                "node_cpu_seconds_total",
                Unit::Count,
                "node_cpu_seconds_total",
                "{count}",
                "node_cpu_seconds_total_value",
                "",
            ),
            ("Größe (x)", Unit::Count, "Größe (x)", "{count}", "Gr_e_x", ""),
        ] {
            let info = MetricInfo {
                name: name.to_string().into(),
                ..MetricInfo::new("", unit, MetricKind::Gauge, "")
            };
            let found = Name::of(&info);
            assert_eq!(found.dotted, format!("plimsoll.{dotted}"));
            assert_eq!(found.otlp_unit(), otlp, "{name}");
            assert_eq!(found.openmetrics(), (format!("plimsoll_{openmetrics}"), om_unit), "{name}");
        }
    }
}
