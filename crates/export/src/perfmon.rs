//! Readings as a log of Windows Performance Monitor in text form (PDH-CSV 4.0).
//!
//! The times are UTC. A trial begins with a row without values at the begin of its first sample, so that the window of each
//! value is the time since the row before.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::Offset;
use model::{Column, ReadingTable, Study};

/// A counter of Performance Monitor.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Its path without the host, such as `PhysicalDisk(vda)\Disk Reads/sec`.
    pub path: String,
    /// Added to the value that was multiplied with `factor`.
    pub constant: f64,
    /// From the unit of the record to that of the counter.
    pub factor: f64,
}

/// The name of the host where the record has none.
const NO_HOST: &str = "host";

/// Writes the readings of the trials, one after the other. `counter` gives the counter of a column. Returns the number of
/// rows; nothing is written if no trial has readings.
///
/// # Errors
/// Those of `out`.
pub fn perfmon(study: &Study, counter: impl Fn(&Column) -> Counter, out: &mut dyn Write) -> io::Result<u64> {
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut paths: HashSet<String> = HashSet::new();
    let mut counters: Vec<Counter> = Vec::new();
    for column in study.runs.iter().flat_map(|of| &of.readings.columns) {
        places.entry((&column.metric.name, &column.instance)).or_insert_with(|| {
            let mut found = counter(column);
            // Two columns cannot have one name.
            if !paths.insert(found.path.clone()) {
                found = own(column);
                paths.insert(found.path.clone());
            }
            counters.push(found);
            counters.len() - 1
        });
    }
    if counters.is_empty() {
        return Ok(0);
    }
    let host = if study.host.name.is_empty() { NO_HOST } else { &study.host.name };
    write!(out, "\"(PDH-CSV 4.0) (UTC)(0)\"")?;
    for counter in &counters {
        let path = format!(r"\\{host}\{}", counter.path).replace('"', "\"\"").replace(['\r', '\n'], " ");
        write!(out, ",\"{path}\"")?;
    }
    out.write_all(b"\r\n")?;
    let mut rows = 0;
    let mut values = vec![f64::NAN; counters.len()];
    for of in &study.runs {
        let ReadingTable { columns, begin_s, end_s, values: table } = &of.readings;
        let places: Vec<usize> =
            columns.iter().map(|of| places[&(&*of.metric.name, of.instance.as_str())]).collect();
        let mut before = f64::NAN;
        for (sample, (begin_s, end_s)) in begin_s.iter().zip(end_s).enumerate() {
            // Also after a gap.
            if (begin_s - before).abs() > GAP_S || before.is_nan() {
                values.fill(f64::NAN);
                rows += row(out, of.run.started_unix_ns, *begin_s, &values)?;
            }
            before = *end_s;
            values.fill(f64::NAN);
            for (place, column) in places.iter().zip(table) {
                let counter = &counters[*place];
                values[*place] = counter.constant + counter.factor * column[sample];
            }
            rows += row(out, of.run.started_unix_ns, *end_s, &values)?;
        }
    }
    Ok(rows)
}

/// Windows of samples that are not further apart follow each other.
const GAP_S: f64 = 0.002;

/// Writes a row, if its time can be written.
fn row(out: &mut dyn Write, started_unix_ns: u64, at_s: f64, values: &[f64]) -> io::Result<u64> {
    let ms = ((at_s * 1e3).round() as i128).saturating_add(i128::from(started_unix_ns / 1_000_000));
    let Some(time) = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()) else {
        return Ok(0);
    };
    let time = Offset::UTC.to_datetime(time);
    write!(
        out,
        "\"{:02}/{:02}/{:04} {:02}:{:02}:{:02}.{:03}\"",
        time.month(),
        time.day(),
        time.year(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )?;
    for value in values {
        match value.is_finite() {
            true => write!(out, ",\"{value}\"")?,
            false => out.write_all(b",\" \"")?,
        }
    }
    out.write_all(b"\r\n").map(|()| 1)
}

/// A counter of our own object, for a metric that Performance Monitor does not have.
impl Counter {
    /// The metric under its own name, in its own unit.
    pub fn own(column: &Column) -> Counter {
        own(column)
    }
}

fn own(column: &Column) -> Counter {
    let name = column.metric.name.as_ref();
    // A counter of another system has an object already.
    let (object, counter) = name.split_once('\\').unwrap_or(("Plimsoll", name));
    let path = match column.instance.as_str() {
        "" => format!(r"{object}\{counter}"),
        instance => format!(r"{object}({instance})\{counter}"),
    };
    Counter { path, constant: 0.0, factor: 1.0 }
}

#[cfg(test)]
mod tests {
    use model::{MetricInfo, MetricKind, Unit};

    use super::*;
    use crate::openmetrics::tests::stored;

    fn text(study: &Study) -> (u64, String) {
        let mut out = Vec::new();
        let shares = |column: &Column| match column.metric.unit {
            Unit::Share => {
                Counter { path: r"Processor(_Total)\% Idle".into(), constant: 100.0, factor: -100.0 }
            }
            _ => Counter::own(column),
        };
        let rows = perfmon(study, shares, &mut out).unwrap();
        (rows, String::from_utf8(out).unwrap())
    }

    #[test]
    fn rows_are_at_the_ends_of_windows_and_after_gaps_at_their_begin() {
        let mut study = stored("disk");
        study.host.name = "web \"1\"".into();
        study.runs[0].run.started_unix_ns = 1_794_700_799_500_000_000;
        let column = |name: &'static str, unit, instance: &str| Column {
            metric: MetricInfo::new(name, unit, MetricKind::Gauge, ""),
            instance: instance.into(),
        };
        study.runs[0].readings = ReadingTable {
            columns: vec![
                column("a.busy_share", Unit::Share, ""),
                // The same counter is there already.
                column("b.busy_share", Unit::Share, "x"),
                column(r"Web\Gets", Unit::Count, "_Total"),
            ]
            .into(),
            begin_s: vec![0.0, 1.0, 5.0],
            end_s: vec![1.0, 2.0, 6.0],
            values: vec![vec![0.25, f64::NAN, 1.0], vec![0.5, f64::INFINITY, 0.0], vec![7.0, 8.5, -1.0]],
        };
        let (rows, text) = text(&study);
        assert_eq!(rows, 5);
        let expected = [
            r#""(PDH-CSV 4.0) (UTC)(0)","\\web ""1""\Processor(_Total)\% Idle","\\web ""1""\Plimsoll(x)\b.busy_share","\\web ""1""\Web(_Total)\Gets""#,
            r#""11/14/2026 23:59:59.500"," "," "," ""#,
            r#""11/15/2026 00:00:00.500","75","0.5","7""#,
            r#""11/15/2026 00:00:01.500"," "," ","8.5""#,
            r#""11/15/2026 00:00:04.500"," "," "," ""#,
            r#""11/15/2026 00:00:05.500","0","0","-1""#,
        ];
        assert_eq!(text.split("\r\n").take(6).collect::<Vec<_>>(), expected);
        study.runs[0].readings = ReadingTable::default();
        assert_eq!(super::tests::text(&study), (0, String::new()));
    }
}
