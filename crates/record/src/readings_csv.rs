//! `readings.csv`: one row per sample, one column per metric and instance. When a device or process appears during a
//! run, a new line of titles follows, and the rows after it have the new columns too. An empty cell was not measured.

use std::collections::HashMap;
use std::fmt::Write as _;

use model::{Column, MetricInfo, ReadingTable, Readings};

/// The line of titles.
pub(crate) fn write_titles(out: &mut String, columns: &[Column]) {
    out.push_str("begin_s,end_s");
    for column in columns {
        out.push(',');
        let title = column.title();
        if title.contains([',', '"', '\n']) {
            let _ = write!(out, "\"{}\"", title.replace('"', "\"\"").replace('\n', " "));
        } else {
            out.push_str(&title);
        }
    }
    out.push('\n');
}

/// One sample. Whole numbers are written exactly, others with six significant digits.
pub(crate) fn write_sample(out: &mut String, begin_s: f64, end_s: f64, readings: &Readings) {
    let _ = write!(out, "{begin_s:.3},{end_s:.3}");
    for value in readings.values() {
        out.push(',');
        if !value.is_finite() {
            continue;
        }
        if value.fract() == 0.0 && value.abs() < 9e15 {
            let _ = write!(out, "{}", *value as i64);
        } else {
            let magnitude = value.abs().log10().floor() as i32;
            let decimals = (5 - magnitude).clamp(0, 15) as usize;
            let _ = write!(out, "{value:.decimals$}");
            if decimals > 0 {
                out.truncate(out.trim_end_matches('0').trim_end_matches('.').len());
            }
        }
    }
    out.push('\n');
}

/// The table as far as it can be read, and whether that was all. A column whose metric is not described gets the
/// name it has and no meaning, rather than being lost.
pub(crate) fn read(text: &str, metrics: &[MetricInfo]) -> (ReadingTable, bool) {
    let described: HashMap<&str, &MetricInfo> =
        metrics.iter().map(|metric| (&*metric.name, metric)).collect();
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    let mut whole = end == text.len();
    let mut table = ReadingTable::default();
    // For each cell of a row: the place of its column in the table.
    let mut places: Vec<usize> = Vec::new();
    for line in text[..end].lines() {
        if line.starts_with("begin_s") {
            places.clear();
            for title in split_titles(line).into_iter().skip(2) {
                let (name, instance) = match title.split_once('{') {
                    Some((name, rest)) => (name.to_string(), rest.trim_end_matches('}').to_string()),
                    None => (title, String::new()),
                };
                let place = table.find(&name, &instance).unwrap_or_else(|| {
                    let metric = described
                        .get(name.as_str())
                        .map_or_else(|| unknown(&name), |metric| (*metric).clone());
                    table.columns.push(Column { metric, instance });
                    table.values.push(vec![f64::NAN; table.end_s.len()]);
                    table.columns.len() - 1
                });
                places.push(place);
            }
            continue;
        }
        let mut cells = line.split(',');
        let times = (|| Some((cells.next()?.parse::<f64>().ok()?, cells.next()?.parse::<f64>().ok()?)))();
        let Some((begin_s, end_s)) = times else {
            whole = false;
            continue;
        };
        let row = table.end_s.len();
        table.begin_s.push(begin_s);
        table.end_s.push(end_s);
        for column in &mut table.values {
            column.push(f64::NAN);
        }
        for (place, cell) in places.iter().zip(cells) {
            if !cell.is_empty() {
                match cell.parse() {
                    Ok(value) => table.values[*place][row] = value,
                    Err(_) => whole = false,
                }
            }
        }
    }
    (table, whole)
}

fn unknown(name: &str) -> MetricInfo {
    MetricInfo {
        name: name.to_string().into(),
        ..MetricInfo::new("", model::Unit::Count, model::MetricKind::Gauge, "Not described in metrics.json.")
    }
}

/// Titles may be quoted, as an instance is whatever a process calls itself.
fn split_titles(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
    match reader.records().next() {
        Some(Ok(record)) => record.iter().map(str::to_string).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{MetricKind, Unit};

    #[test]
    fn a_new_device_gets_its_column_and_absence_stays_absence() {
        let reads = MetricInfo::new("disk.reads_per_s", Unit::PerSecond, MetricKind::Rate, "Reads.");
        let mut readings = Readings::new();
        let vda = readings.column(&reads, "vda");
        let mut text = String::new();
        write_titles(&mut text, readings.columns());
        write_sample(&mut text, 0.0, 1.0, &readings);
        readings.set(vda, 1_234.567_89);
        write_sample(&mut text, 1.0, 2.0, &readings);
        let odd = readings.column(&reads, "odd, \"name\"");
        readings.set(odd, 0.000_012_345_678);
        write_titles(&mut text, readings.columns());
        write_sample(&mut text, 2.0, 3.0, &readings);
        let (table, whole) = read(&text, std::slice::from_ref(&reads));
        assert!(whole);
        assert_eq!(table.columns.len(), 2);
        assert_eq!(table.columns[0].metric, reads);
        assert_eq!(table.columns[1].instance, "odd, \"name\"");
        assert!(table.values[0][0].is_nan());
        assert_eq!(&table.values[0][1..], &[1234.57, 1234.57]);
        assert!(table.values[1][0].is_nan() && table.values[1][1].is_nan());
        assert_eq!(table.values[1][2], 0.000_012_345_7);
        let (table, whole) = read(&text[..text.len() - 3], &[]);
        assert!(!whole);
        assert_eq!(table.end_s.len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn six_digits_survive(value in -1e12f64..1e12) {
            let metric = MetricInfo::new("x", Unit::Count, MetricKind::Gauge, "");
            let mut readings = Readings::new();
            let id = readings.column(&metric, "");
            readings.set(id, value);
            let mut text = String::new();
            write_titles(&mut text, readings.columns());
            write_sample(&mut text, 0.0, 1.0, &readings);
            let (table, _) = read(&text, &[]);
            proptest::prop_assert!((table.values[0][0] - value).abs() <= value.abs() * 1e-5);
        }
    }
}
