//! Where there is no terminal: one row of the main counters per sample, as sar prints them, or one JSON document.

use model::metric::split_instance;
use model::{Column, Readings};

/// How the values of a column's instances become one.
#[derive(Clone, Copy)]
enum Over {
    /// The instance of the whole host.
    Host,
    /// Added up over the instances.
    Sum,
    /// The largest of the instances.
    Largest,
}

/// A column: its head, its width, what it shows and in which unit.
struct Cell {
    head: &'static str,
    width: usize,
    metric: &'static str,
    over: Over,
    factor: f64,
    decimals: usize,
}

const fn cell(
    head: &'static str,
    width: usize,
    metric: &'static str,
    over: Over,
    factor: f64,
    decimals: usize,
) -> Cell {
    Cell { head, width, metric, over, factor, decimals }
}

const MIB: f64 = 1.0 / 1_048_576.0;

static CELLS: [Cell; 14] = [
    cell("cpu%", 5, "cpu.busy_share", Over::Host, 100.0, 1),
    cell("steal%", 6, "cpu.steal_share", Over::Host, 100.0, 1),
    cell("runq", 4, "cpu.run_queue_length", Over::Host, 1.0, 1),
    cell("memMiB", 6, "memory.available_bytes", Over::Host, MIB, 0),
    cell("r/s", 6, "disk.reads_per_s", Over::Sum, 1.0, 0),
    cell("w/s", 6, "disk.writes_per_s", Over::Sum, 1.0, 0),
    cell("rMB/s", 6, "disk.read_bytes_per_s", Over::Sum, 1e-6, 1),
    cell("wMB/s", 6, "disk.write_bytes_per_s", Over::Sum, 1e-6, 1),
    cell("await", 5, "disk.transfer_s", Over::Largest, 1e3, 2),
    cell("disk%", 5, "disk.utilization_share", Over::Largest, 100.0, 0),
    cell("rxMB/s", 6, "network.received_bytes_per_s", Over::Sum, 1e-6, 1),
    cell("txMB/s", 6, "network.sent_bytes_per_s", Over::Sum, 1e-6, 1),
    cell("psiC%", 5, "pressure.cpu_some_share", Over::Host, 100.0, 0),
    cell("psiIO%", 6, "pressure.io_some_share", Over::Host, 100.0, 0),
];

/// What is shown of processes and groups, after the host or in its place.
static SELECTED: [Cell; 4] = [
    cell("CPUs", 5, "busy_cpus", Over::Sum, 1.0, 2),
    cell("MiB", 7, "", Over::Sum, MIB, 0),
    cell("rMB/s", 7, "read_bytes_per_s", Over::Sum, 1e-6, 1),
    cell("wMB/s", 7, "write_bytes_per_s", Over::Sum, 1e-6, 1),
];

/// A column that could be read in no sample so far has no value; so has the sample it was missing in.
fn value(readings: &Readings, host: &str, cell: &Cell) -> f64 {
    let all = readings.columns().iter().zip(readings.values());
    let of = all.filter(|(column, _)| column.metric.name == cell.metric && column.host() == host);
    fold(of.map(|(column, value)| (column, *value)), cell.over) * cell.factor
}

fn fold<'a>(values: impl Iterator<Item = (&'a Column, f64)>, over: Over) -> f64 {
    let counts =
        |column: &Column| !matches!(over, Over::Host) || split_instance(&column.instance).1.is_empty();
    let present = values.filter(|(column, value)| !value.is_nan() && counts(column));
    present.map(|(_, value)| value).fold(f64::NAN, |sum, value| match over {
        _ if sum.is_nan() => value,
        Over::Sum => sum + value,
        _ => sum.max(value),
    })
}

/// The host of the program, empty, if it is watched, then those of exporters.
fn hosts(readings: &Readings) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for column in readings.columns() {
        let shows_a_host = ["cpu.", "disk.", "memory.", "scrape."]
            .iter()
            .any(|source| column.metric.name.starts_with(source));
        if shows_a_host && !found.contains(&column.host()) {
            found.push(column.host());
        }
    }
    found
}

/// The hosts below one another, with their main counters; none if only that of the program is watched.
pub(crate) fn side_by_side(readings: &Readings) -> Option<Vec<String>> {
    let hosts = hosts(readings);
    hosts.iter().any(|host| !host.is_empty()).then(|| {
        let name = |host: &str| if host.is_empty() { "this host".to_string() } else { host.to_string() };
        let width = hosts.iter().map(|host| name(host).chars().count()).max().unwrap_or(0).clamp(8, 24);
        let mut head = " ".repeat(width);
        CELLS.iter().for_each(|cell| head += &format!(" {:>width$}", cell.head, width = cell.width));
        let row = |host: &&str| {
            let mut row = format!("{:<width$}", report::text::shortened(&name(host), width));
            CELLS.iter().for_each(|cell| row += &written(cell, value(readings, host, cell)));
            row
        };
        [head].into_iter().chain(hosts.iter().map(row)).collect()
    })
}

/// Processes and groups of this host that have columns, as their source and instance.
fn selected(readings: &Readings) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for column in readings.columns() {
        let Some((source @ ("process" | "cgroup"), "busy_cpus")) = column.metric.name.split_once('.') else {
            continue;
        };
        if column.host().is_empty() {
            found.push((source, &column.instance));
        }
    }
    found
}

fn selected_value(readings: &Readings, source: &str, instance: &str, cell: &Cell) -> f64 {
    let name = match (cell.metric, source) {
        ("", "process") => "process.resident_bytes".to_string(),
        ("", _) => "cgroup.memory_used_bytes".to_string(),
        (name, source) => format!("{source}.{name}"),
    };
    readings.get(&name, instance).map_or(f64::NAN, |value| value * cell.factor)
}

fn written(cell: &Cell, value: f64) -> String {
    match value.is_nan() {
        true => format!(" {:>width$}", "-", width = cell.width),
        false => format!(" {value:>width$.decimals$}", width = cell.width, decimals = cell.decimals),
    }
}

/// Rows of text, with their head now and then.
#[derive(Default)]
pub(crate) struct Rows {
    since_head: usize,
    columns: usize,
}

/// Rows between two heads.
const HEAD_EVERY: usize = 20;

impl Rows {
    /// The row of one sample, with the head above it when it is due. `time` is the time of day.
    pub(crate) fn row(&mut self, time: &str, readings: &Readings) -> String {
        if let Some(rows) = side_by_side(readings) {
            return self.rows_of_hosts(time, &rows);
        }
        let has =
            |source: &str| readings.columns().iter().any(|column| column.metric.name.starts_with(source));
        let host = has("cpu.") || has("disk.") || has("memory.");
        let cells = || CELLS.iter().filter(|_| host);
        let chosen = selected(readings);
        if !host && chosen.is_empty() {
            // A process or group may come later, or come back.
            return format!("{time}  nothing of what is watched is there");
        }
        let mut out = String::new();
        // A process that appears makes the row wider: the head is then written again.
        if self.since_head.is_multiple_of(HEAD_EVERY) || self.columns != chosen.len() {
            if !chosen.is_empty() {
                let width: usize = cells().map(|cell| cell.width + 1).sum();
                out += &" ".repeat(8 + width);
                for (source, instance) in &chosen {
                    let width = SELECTED.iter().map(|cell| cell.width + 1).sum::<usize>();
                    let name = report::text::shortened(&format!("{source} {instance}"), width - 2);
                    out += &format!("{name:>width$}");
                }
                out.push('\n');
            }
            out += "time    ";
            let heads = cells().chain(chosen.iter().flat_map(|_| &SELECTED));
            heads.for_each(|cell| out += &format!(" {:>width$}", cell.head, width = cell.width));
            out.push('\n');
            self.since_head = 0;
            self.columns = chosen.len();
        }
        self.since_head += 1;
        out += time;
        cells().for_each(|cell| out += &written(cell, value(readings, "", cell)));
        for (source, instance) in chosen {
            for cell in &SELECTED {
                out += &written(cell, selected_value(readings, source, instance, cell));
            }
        }
        out
    }

    /// One row for each host.
    fn rows_of_hosts(&mut self, time: &str, rows: &[String]) -> String {
        let is_due = self.since_head.is_multiple_of(HEAD_EVERY) || self.columns != rows.len();
        let (head, rows) = rows.split_at(1);
        let mut lines: Vec<String> = rows.iter().map(|row| format!("{time}  {row}")).collect();
        if is_due {
            lines.insert(0, format!("{:<width$}  {}", "time", head[0], width = time.chars().count()));
            (self.since_head, self.columns) = (0, rows.len() + 1);
        }
        self.since_head += 1;
        lines.join("\n")
    }
}

/// One sample as a JSON document: `null` is what could not be read.
pub(crate) fn json(time: &str, begin_s: f64, end_s: f64, readings: &Readings) -> String {
    let values: serde_json::Map<String, serde_json::Value> = readings
        .columns()
        .iter()
        .zip(readings.values())
        .map(|(column, value)| (column.title(), serde_json::Value::from(*value)))
        .collect();
    serde_json::json!({ "format": "plimsoll.sample/1", "time": time, "begin_s": begin_s, "end_s": end_s,
        "readings": values })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::watch::board::tests::{refill, sample};

    fn busy() -> Vec<(&'static str, &'static str, f64)> {
        vec![
            ("cpu.busy_share", "", 0.613),
            ("cpu.busy_share", "0", 0.99),
            ("cpu.steal_share", "", 0.0),
            ("memory.available_bytes", "", 12.0 * 1_073_741_824.0),
            ("disk.reads_per_s", "vda", 50_000.0),
            ("disk.reads_per_s", "vdb", 1.0),
            ("disk.read_bytes_per_s", "vda", 204.8e6),
            ("disk.transfer_s", "vda", 0.000_64),
            ("disk.transfer_s", "vdb", f64::NAN),
            ("disk.utilization_share", "vda", 0.998),
            ("network.received_bytes_per_s", "eth0", 1.5e6),
        ]
    }

    #[test]
    fn rows_as_sar_prints_them() {
        let mut rows = Rows::default();
        let mut readings = sample(&busy());
        let mut text = rows.row("19:30:01", &readings) + "\n";
        refill(&mut readings, &[("cpu.busy_share", "", 1.0), ("disk.reads_per_s", "vda", 2.0)]);
        text += &rows.row("19:30:02", &readings);
        insta::assert_snapshot!("rows_host", text);
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }

    #[test]
    fn a_process_that_appears_has_columns_and_a_new_head() {
        let mut rows = Rows::default();
        let mut readings =
            sample(&[("process.busy_cpus", "slapd", 1.5), ("process.resident_bytes", "slapd", 1e9)]);
        let mut text = rows.row("19:30:01", &readings) + "\n";
        refill(
            &mut readings,
            &[("process.busy_cpus", "slapd", 0.25), ("process.busy_cpus", "postgres", 0.5)],
        );
        text += &rows.row("19:30:02", &readings);
        insta::assert_snapshot!("rows_process", text);
    }

    #[test]
    fn hosts_are_side_by_side() {
        let mut rows = Rows::default();
        let mut all = busy();
        all.extend([
            ("cpu.busy_share", "//db1", 0.25),
            ("cpu.busy_share", "//db1/0", 0.5),
            ("disk.reads_per_s", "//db1/sda", 7.0),
            ("disk.reads_per_s", "//db1/sdb", 2.0),
            ("process.busy_cpus", "//win1:9182/w3wp", 2.0),
            ("scrape.age_s", "//win1:9182", 0.1),
        ]);
        let readings = sample(&all);
        let text = format!("{}\n{}", rows.row("19:30:01", &readings), rows.row("19:30:02", &readings));
        insta::assert_snapshot!("rows_hosts", text);
    }

    #[test]
    fn a_process_that_is_not_there_is_said() {
        assert_eq!(Rows::default().row("t", &Readings::new()), "t  nothing of what is watched is there");
    }

    #[test]
    fn the_head_comes_back() {
        let mut rows = Rows::default();
        let readings = sample(&busy());
        let heads = (0..41).filter(|_| rows.row("t", &readings).starts_with("time")).count();
        assert_eq!(heads, 3);
    }

    #[test]
    fn what_was_not_read_is_null() {
        let document: serde_json::Value =
            serde_json::from_str(&json("2026-11-21T19:30:01Z", 0.0, 1.0, &sample(&busy()))).unwrap();
        assert_eq!(document["readings"]["disk.transfer_s{vdb}"], serde_json::Value::Null);
        assert_eq!(document["readings"]["cpu.busy_share"], 0.613);
        assert_eq!(document["end_s"], 1.0);
    }
}
