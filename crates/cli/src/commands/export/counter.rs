//! The counter of Windows Performance Monitor for a column of a record: the inverse of what an import does.

use counters::perfmon::{self, Answer};
use export::Counter;
use model::Column;

use crate::commands::import::columns::{conversion, sums};

/// What Windows counts since the start of the system, and we per second: such a value under its name would be read wrongly.
const SINCE_START: &str = "Windows counts since";

/// The counter of a column. A metric without one has its own name, with the object `Plimsoll`.
pub(super) fn of(column: &Column) -> Counter {
    known(column).unwrap_or_else(|| Counter::own(column))
}

fn known(column: &Column) -> Option<Counter> {
    let metric = column.metric.name.as_ref();
    let is_same = |of: &perfmon::Counter| {
        of.answer == Answer::Same && of.metric == metric && !of.about.contains(SINCE_START)
    };
    let found = perfmon::counters().filter(is_same);
    // The one that the metric names itself, if there are several.
    let found = found.min_by_key(|of| of.path != column.metric.perfmon)?;
    let (object, counter) = found.path.split_once('\\')?;
    let instance = match (object, column.instance.as_str()) {
        ("Processor", "") => "(_Total)".to_string(),
        // A sum has another meaning there.
        ("PhysicalDisk" | "LogicalDisk" | "Network Interface" | "Process" | "Thread", "") => return None,
        (_, "") => String::new(),
        // A sum of Performance Monitor.
        (_, instance) if sums(instance) => return None,
        (_, instance) => format!("({instance})"),
    };
    let (constant, factor) = conversion(counter, column.metric.unit);
    let path = format!(r"{object}{instance}\{counter}");
    Some(Counter { path, constant: -constant / factor, factor: 1.0 / factor })
}

#[cfg(test)]
mod tests {
    use foreign::CounterColumn;

    use super::*;
    use crate::commands::import::columns::perfmon_target;

    #[test]
    fn every_metric_is_imported_as_it_was_exported() {
        let mut known = 0;
        for (_, metric) in counters::all_metrics() {
            for instance in ["", "3", "sda"] {
                let column = Column { metric: metric.clone(), instance: instance.into() };
                let counter = of(&column);
                let exported = counter.constant + counter.factor * 0.25;
                let path = counter.path.clone();
                let target =
                    perfmon_target(0, &CounterColumn { host: "h".into(), path, written: String::new() });
                match (counter.path.starts_with("Plimsoll"), target) {
                    (true, None) => assert_eq!(exported, 0.25),
                    (false, Some(target)) => {
                        known += 1;
                        let found = (&*target.metric.name, target.instance.as_str());
                        assert_eq!(found, (&*metric.name, instance), "{}", counter.path);
                        assert!((target.value(&[exported]) - 0.25).abs() < 1e-12, "{}", counter.path);
                    }
                    (_, target) => panic!("{}: {}", counter.path, target.is_some()),
                }
            }
        }
        assert!(known > 50, "{known}");
    }

    #[test]
    fn what_windows_counts_in_another_way_keeps_our_name() {
        for (name, instance, expected, constant, factor) in [
            ("cpu.busy_share", "", r"Processor(_Total)\% Processor Time", 0.0, 100.0),
            ("filesystem.used_share", "/", r"LogicalDisk(/)\% Free Space", 100.0, -100.0),
            ("process.busy_cpus", "web", r"Process(web)\% Processor Time", 0.0, 100.0),
            ("network.tcp_resets_per_s", "", r"Plimsoll\network.tcp_resets_per_s", 0.0, 1.0),
            ("cpu.iowait_share", "2", r"Plimsoll(2)\cpu.iowait_share", 0.0, 1.0),
        ] {
            let (_, metric) = counters::all_metrics().find(|(_, metric)| metric.name == name).unwrap();
            let found = of(&Column { metric: metric.clone(), instance: instance.into() });
            assert_eq!(found.path, expected);
            assert!(
                (found.constant - constant).abs() < 1e-9 && (found.factor - factor).abs() < 1e-9,
                "{found:?}"
            );
        }
    }
}
