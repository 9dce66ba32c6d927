//! Which of our metrics foreign counters are.

use std::borrow::Cow;
use std::collections::HashMap;

use counters::perfmon::{self, Answer};
use foreign::{CounterColumn, CounterFamily, CounterLog};
use model::{MetricInfo, MetricKind, Unit};

/// A column of the record, computed from those of a log.
pub(crate) struct Target {
    pub(crate) metric: MetricInfo,
    /// The host that its log names; may be empty.
    pub(super) host: String,
    pub(crate) instance: String,
    pub(super) constant: f64,
    /// Columns of the log with their factors.
    pub(super) terms: Vec<(usize, f64)>,
}

impl Target {
    /// The value of a sample; NaN if one of its columns has none.
    pub(crate) fn value(&self, values: &[f64]) -> f64 {
        let sum = |sum: f64, (at, factor): &(usize, f64)| {
            sum + factor * values.get(*at).copied().unwrap_or(f64::NAN)
        };
        self.terms.iter().fold(self.constant, sum)
    }
}

/// The columns of the record for those of a log. Instances are those on the host.
pub(super) fn targets(log: &dyn CounterLog) -> Vec<Target> {
    let (columns, _) = log.columns();
    let rules: Vec<Rule> = match log.family() {
        CounterFamily::PerformanceMonitor => {
            let each = |(at, column): (usize, &CounterColumn)| {
                perfmon_target(at, column).unwrap_or_else(|| as_written(at, column))
            };
            return columns.iter().enumerate().map(each).collect();
        }
        CounterFamily::Sar => sar_rules(),
        CounterFamily::Iostat => rules_of(IOSTAT),
        CounterFamily::Vmstat => rules_of(VMSTAT),
        // Those have a table of expressions: [`super::exporters`].
        CounterFamily::OpenMetrics => Vec::new(),
    };
    let mut places: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for (at, column) in columns.iter().enumerate() {
        let (name, instance) = split(&column.path);
        places.insert((name, &column.host, instance), at);
    }
    let mut found = Vec::new();
    let mut used = vec![false; columns.len()];
    let mut instances: Vec<(&str, &str)> =
        places.keys().map(|(_, host, instance)| (*host, *instance)).collect();
    instances.sort_unstable();
    instances.dedup();
    for rule in &rules {
        for (host, instance) in &instances {
            let term = |(column, factor): &(String, f64)| {
                Some((*places.get(&(column.as_str(), *host, *instance))?, *factor))
            };
            let Some(terms) = rule.terms.iter().map(term).collect::<Option<Vec<(usize, f64)>>>() else {
                continue;
            };
            terms.iter().for_each(|(at, _)| used[*at] = true);
            // The sum over all CPUs has no instance.
            let instance = if matches!(*instance, "all" | "-1") { "" } else { instance };
            found.push(Target {
                metric: rule.metric.clone(),
                host: host.to_string(),
                instance: instance.into(),
                constant: rule.constant,
                terms,
            });
        }
    }
    let rest = columns.iter().enumerate().filter(|(at, _)| !used[*at]);
    found.extend(rest.map(|(at, column)| as_written(at, column)));
    found
}

/// A metric as a sum of columns of one instance.
struct Rule {
    metric: &'static MetricInfo,
    constant: f64,
    terms: Vec<(String, f64)>,
}

/// The columns of iostat: a metric, and what it is computed from.
const IOSTAT: &[(&str, &str)] = &[
    ("disk.reads_per_s", "r/s"),
    ("disk.writes_per_s", "w/s"),
    ("disk.flushes_per_s", "f/s"),
    ("disk.transfers_per_s", "tps"),
    ("disk.read_bytes_per_s", "rkB/s"),
    ("disk.read_bytes_per_s", "rMB/s"),
    ("disk.write_bytes_per_s", "wkB/s"),
    ("disk.write_bytes_per_s", "wMB/s"),
    ("disk.read_s", "r_await"),
    ("disk.write_s", "w_await"),
    ("disk.flush_s", "f_await"),
    ("disk.transfer_s", "await"),
    ("disk.queue_length", "aqu-sz"),
    ("disk.utilization_share", "%util"),
    ("cpu.busy_share", "100-%idle-%iowait"),
    ("cpu.user_share", "%user+%nice"),
    ("cpu.system_share", "%system"),
    ("cpu.iowait_share", "%iowait"),
    ("cpu.steal_share", "%steal"),
];

/// Those of vmstat. The unit of its memory is not in its report.
const VMSTAT: &[(&str, &str)] = &[
    ("cpu.runnable_threads", "r"),
    ("cpu.blocked_threads", "b"),
    ("cpu.interrupts_per_s", "in"),
    ("cpu.context_switches_per_s", "cs"),
    ("cpu.busy_share", "100-id-wa"),
    ("cpu.user_share", "us"),
    ("cpu.system_share", "sy"),
    ("cpu.iowait_share", "wa"),
    ("cpu.steal_share", "st"),
];

fn rules_of(table: &'static [(&str, &str)]) -> Vec<Rule> {
    let rule = |(name, expression): &(&str, &str)| {
        let (_, metric) = counters::all_metrics().find(|(_, metric)| metric.name == *name)?;
        Some(rule(metric, "", expression))
    };
    table.iter().filter_map(rule).collect()
}

/// Those of sar, which the metrics name: `-d await`, `-u 100-%idle-%iowait`.
fn sar_rules() -> Vec<Rule> {
    let named = counters::all_metrics().filter(|(_, metric)| !metric.sar.is_empty());
    named
        .filter_map(|(_, metric)| {
            let (option, expression) = metric.sar.rsplit_once(' ')?;
            Some(rule(metric, option, expression))
        })
        .collect()
}

/// `100-%idle-%iowait` and `%user+%nice` are sums; any other expression is a column, which may have a hyphen.
fn rule(metric: &'static MetricInfo, option: &str, expression: &str) -> Rule {
    let (whole, signs) = match expression.strip_prefix("100-") {
        Some(rest) => (100.0, rest.split('-').map(|column| (column, -1.0)).collect()),
        None if expression.contains('+') => {
            (0.0, expression.split('+').map(|column| (column, 1.0)).collect())
        }
        None => (0.0, vec![(expression, 1.0)]),
    };
    let signs: Vec<(&str, f64)> = signs;
    let term = |(column, sign): (&str, f64)| {
        let name = if option.is_empty() { column.to_string() } else { format!("{option} {column}") };
        (name, sign * factor(column, metric.unit))
    };
    let constant = whole * signs.first().map_or(1.0, |(column, _)| factor(column, metric.unit));
    Rule { metric, constant, terms: signs.into_iter().map(term).collect() }
}

/// The path without its instance, and the instance.
fn split(path: &str) -> (&str, &str) {
    match path.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        Some((name, instance)) => (name, instance),
        None => (path, ""),
    }
}

/// What a value is multiplied with to be in the unit of the metric.
fn factor(counter: &str, unit: Unit) -> f64 {
    let counter = counter.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| counter.contains(word));
    match unit {
        Unit::Share | Unit::Cpus if counter.starts_with('%') || counter.len() == 2 => 0.01,
        Unit::Bytes | Unit::BytesPerSecond if has(&["mbytes", "megabytes", "mbfs", "mb/s"]) => 1_048_576.0,
        Unit::Bytes | Unit::BytesPerSecond if has(&["kbytes", "kilobytes", "kb", "pgpgin", "pgpgout"]) => {
            1024.0
        }
        // Bits per second.
        Unit::BytesPerSecond if has(&["bandwidth"]) => 0.125,
        // Of the tools of Linux; those of Performance Monitor are seconds.
        Unit::Seconds if has(&["await"]) => 0.001,
        _ => 1.0,
    }
}

/// A counter of Performance Monitor that says the same as a metric.
pub(crate) fn perfmon_target(at: usize, column: &CounterColumn) -> Option<Target> {
    let path = perfmon::Path::parse(&column.path)?;
    let instance = instance(&path, &column.path)?;
    let counter = path.find().into_iter().find(|counter| counter.answer == Answer::Same)?;
    let (_, metric) = counters::all_metrics().find(|(_, metric)| metric.name == counter.metric)?;
    let (constant, factor) = conversion(&path.counter, metric.unit);
    let (metric, host) = (metric.clone(), column.host.clone());
    Some(Target { metric, host, instance, constant, terms: vec![(at, factor)] })
}

/// A constant, and what a value is multiplied with, to be in the unit of the metric that says the same.
pub(crate) fn conversion(counter: &str, unit: Unit) -> (f64, f64) {
    match counter.eq_ignore_ascii_case("% Free Space") {
        // Our metric is the share in use.
        true => (1.0, -0.01),
        false => (0.0, factor(counter, unit)),
    }
}

/// Whether an instance of Performance Monitor is the sum of the others, or is read as such.
pub(crate) fn sums(instance: &str) -> bool {
    matches!(
        instance.trim().to_lowercase().as_str(),
        "*" | "_total" | "_global_" | "__total__" | "idle" | "system"
    )
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

/// A counter under its own name.
fn as_written(at: usize, column: &CounterColumn) -> Target {
    // The record has the instance in braces.
    let name = column.path.replace('{', "[").replace('}', "]");
    let parts = match (name.find('('), name.rfind(r")\")) {
        (Some(open), Some(close)) if open < close && name.find('\\').is_some_and(|at| open < at) => {
            Some((format!("{}{}", &name[..open], &name[close + 1..]), name[open + 1..close].to_string()))
        }
        _ => None,
    };
    let (name, instance) = parts.unwrap_or_else(|| {
        let (name, instance) = split(&name);
        (name.to_string(), instance.to_string())
    });
    let metric = MetricInfo {
        name: Cow::Owned(name),
        ..MetricInfo::new(
            "",
            Unit::Count,
            MetricKind::Gauge,
            "A counter of another system, as it was logged.",
        )
    };
    Target { metric, host: column.host.clone(), instance, constant: 0.0, terms: vec![(at, 1.0)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a log with these columns becomes.
    fn of(family: CounterFamily, paths: &[&str]) -> Vec<Target> {
        struct Log(CounterFamily, Vec<CounterColumn>);
        impl CounterLog for Log {
            fn family(&self) -> CounterFamily {
                self.0
            }
            fn next(&mut self, _: &mut foreign::Sample) -> Result<bool, foreign::Fault> {
                Ok(false)
            }
            fn columns(&self) -> (&[CounterColumn], usize) {
                (&self.1, 1)
            }
            fn clock(&self) -> (Option<foreign::DateOrder>, Option<i64>) {
                (None, None)
            }
            fn notes(&self) -> Vec<foreign::Fault> {
                Vec::new()
            }
        }
        let column =
            |path: &&str| CounterColumn { host: "DB1".into(), path: (*path).into(), written: String::new() };
        targets(&Log(family, paths.iter().map(column).collect()))
    }

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
            (r"LogicalDisk(C:)\% Free Space", "filesystem.used_share", "C:", -0.01),
            (r"PhysicalDisk(0 C:)\Avg. Disk sec/Read", "disk.read_s", "0 C:", 1.0),
            (r"PhysicalDisk(_Total)\Disk Reads/sec", r"PhysicalDisk\Disk Reads/sec", "_Total", 1.0),
            (r"Process(w3wp#1)\% Processor Time", "process.busy_cpus", "w3wp#1", 0.01),
            (r"Process(_Total)\% Processor Time", r"Process\% Processor Time", "_Total", 1.0),
            (r"MSExchangeIS\RPC Requests", r"MSExchangeIS\RPC Requests", "", 1.0),
        ] {
            let found = of(CounterFamily::PerformanceMonitor, &[path]);
            let found = &found[0];
            assert_eq!((&*found.metric.name, found.instance.as_str()), (name, instance), "{path}");
            assert_eq!(found.terms, [(0, factor)], "{path}");
        }
    }

    #[test]
    fn columns_of_linux_tools_are_our_metrics_in_our_units() {
        let sar = of(
            CounterFamily::Sar,
            &[
                "-u %idle(all)",
                "-u %iowait(all)",
                "-d await(sda)",
                "-d rkB/s(sda)",
                "-q ldavg-1",
                "-r kbavail",
                "-x odd(1)",
            ],
        );
        let values = [90.0, 4.0, 12.0, 8.0, 1.5, 2.0, 7.0];
        let value = |name: &str, instance: &str| {
            let found = sar.iter().find(|of| of.metric.name == name && of.instance == instance);
            found.unwrap_or_else(|| panic!("{name}")).value(&values)
        };
        assert!((value("cpu.busy_share", "") - 0.06).abs() < 1e-9);
        assert!((value("cpu.iowait_share", "") - 0.04).abs() < 1e-9);
        assert!((value("disk.transfer_s", "sda") - 0.012).abs() < 1e-9);
        assert_eq!(value("disk.read_bytes_per_s", "sda"), 8192.0);
        assert_eq!(value("cpu.load_average", ""), 1.5);
        assert_eq!(value("memory.available_bytes", ""), 2048.0);
        assert_eq!(value("-x odd", "1"), 7.0);
        let iostat = of(CounterFamily::Iostat, &["r/s(sda)", "r_await(sda)", "%util(sda)"]);
        let all: Vec<(&str, f64)> =
            iostat.iter().map(|of| (&*of.metric.name, of.value(&[5.0, 2.0, 50.0]))).collect();
        assert_eq!(all, [("disk.reads_per_s", 5.0), ("disk.read_s", 0.002), ("disk.utilization_share", 0.5)]);
        let vmstat = of(CounterFamily::Vmstat, &["r", "id", "wa"]);
        let busy = vmstat.iter().find(|of| of.metric.name == "cpu.busy_share").unwrap();
        assert!((busy.value(&[1.0, 80.0, 5.0]) - 0.15).abs() < 1e-9);
        assert!(busy.value(&[1.0, f64::NAN, 5.0]).is_nan());
    }
}
