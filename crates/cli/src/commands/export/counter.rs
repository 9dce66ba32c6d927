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
    let is_same =
        |of: &perfmon::Counter| of.answer == Answer::Same && of.metric == metric && !of.about.contains(SINCE_START);
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
