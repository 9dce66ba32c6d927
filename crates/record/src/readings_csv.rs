//! `readings.csv`: one row per sample, one column per metric and instance. When a device or process appears
//! during a run, a new title line follows, and the rows after it have the new columns too. An empty cell
//! means not measured.

use std::collections::HashMap;
use std::io::Write as _;

use model::{Column, MetricInfo, ReadingTable, Readings};

use crate::limits::{Budget, COLUMNS_MAX, READING_COST};
use crate::lines::Lines;
use crate::row::{self, Row, number, reading};

/// Writes the title row.
pub(crate) fn write_titles(out: &mut Vec<u8>, columns: &[Column]) -> csv::Result<()> {
    let times = ["begin_s", "end_s"].map(str::to_string);
    row::write(out, times.into_iter().chain(columns.iter().map(Column::title)))
}

/// Writes samples: only numbers, so no cell is quoted. Integers are written exactly, other numbers with six significant digits.
///
/// Most counters of a large host have the value of the sample before, whose text is copied.
#[derive(Debug, Default)]
pub(crate) struct SampleText {
    text: Vec<u8>,
    before: Vec<u8>,
    /// Where the times end in `text`.
    times_end: usize,
    values: Vec<Written>,
}

/// A value that was written.
#[derive(Debug)]
struct Written {
    value: f64,
    /// What is read where it was written.
    recorded: f64,
    /// Where it ends in the text of its sample.
    end: usize,
}

impl SampleText {
    /// The row of a sample.
    pub(crate) fn row(&mut self, begin_s: f64, end_s: f64, readings: &Readings) -> &[u8] {
        std::mem::swap(&mut self.text, &mut self.before);
        let text = &mut self.text;
        text.clear();
        let _ = write!(text, "{begin_s:.3},{end_s:.3}");
        let mut before_end = std::mem::replace(&mut self.times_end, text.len());
        self.values.truncate(readings.values().len());
        for (at, value) in readings.values().iter().copied().enumerate() {
            text.push(b',');
            match self.values.get_mut(at) {
                Some(last) if last.value.to_bits() == value.to_bits() => {
                    text.extend_from_slice(&self.before[before_end + 1..last.end]);
                    before_end = std::mem::replace(&mut last.end, text.len());
                }
                Some(last) => {
                    before_end = last.end;
                    *last = Written { value, recorded: write_value(text, value), end: text.len() };
                }
                None => {
                    let recorded = write_value(text, value);
                    self.values.push(Written { value, recorded, end: text.len() });
                }
            }
        }
        text.push(b'\n');
        text
    }

    /// The values of the last row as reading them back gives them; NaN for those that are absent.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = f64> {
        self.values.iter().map(|written| written.recorded)
    }
}

/// Powers of ten, up to which a number with its digits is below 2^53.
const POWERS: [f64; 16] =
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Writes digits of which so many are after the point, without zeros at its end. There are thousands of numbers in each sample, so
/// that the general way is too slow.
fn write_digits(out: &mut Vec<u8>, is_negative: bool, mut digits: u64, mut places: usize) {
    while places > 0 && digits.is_multiple_of(10) {
        digits /= 10;
        places -= 1;
    }
    let mut text = [b'0'; 40];
    let mut begin = text.len();
    let mut put = |sign: u8| {
        begin -= 1;
        text[begin] = sign;
    };
    for _ in 0..places {
        put(b'0' + (digits % 10) as u8);
        digits /= 10;
    }
    if places > 0 {
        put(b'.');
    }
    loop {
        put(b'0' + (digits % 10) as u8);
        digits /= 10;
        if digits == 0 {
            break;
        }
    }
    if is_negative {
        put(b'-');
    }
    out.extend_from_slice(&text[begin..]);
}

/// The digits after the point with which six digits of a number are significant; none for a very large or small one.
fn decimals(size: f64) -> Option<usize> {
    let decimals = match size {
        _ if size >= 1e5 => 0,
        _ if size >= 1e4 => 1,
        _ if size >= 1e3 => 2,
        _ if size >= 1e2 => 3,
        _ if size >= 1e1 => 4,
        _ if size >= 1.0 => 5,
        _ => 5 + POWERS.iter().skip(1).take(10).filter(|power| size * **power < 1.0).count() + 1,
    };
    (size < 1e15 && decimals < POWERS.len() && size >= 1e-10).then_some(decimals)
}

/// Whether a value is written exactly.
fn is_exact(value: f64) -> bool {
    // Without a call of the library, which is what its fraction is.
    value.abs() < 9e15 && (value as i64) as f64 == value
}

/// The closest integer to a number of at most six digits and some more.
fn closest(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// Writes a value, nothing if it is absent, and returns what is read where it was written.
fn write_value(out: &mut Vec<u8>, value: f64) -> f64 {
    if !value.is_finite() {
        return f64::NAN;
    }
    let (is_negative, size) = (value < 0.0, value.abs());
    if is_exact(value) {
        write_digits(out, is_negative, size as u64, 0);
        // Zero has no sign.
        return value + 0.0;
    }
    let read = match decimals(size) {
        Some(decimals) => {
            let digits = closest(size * POWERS[decimals]);
            write_digits(out, is_negative, digits, decimals);
            // Both numbers are exact, so their quotient is the number that is closest to the text.
            digits as f64 / POWERS[decimals]
        }
        None => {
            let decimals = (5 - size.log10().floor() as i32).clamp(0, 15) as usize;
            let text = format!("{size:.decimals$}");
            let text = match decimals {
                0 => &text,
                _ => text.trim_end_matches('0').trim_end_matches('.'),
            };
            let _ = write!(out, "{}{text}", if is_negative { "-" } else { "" });
            reading(text.as_bytes()).unwrap_or(f64::NAN)
        }
    };
    if is_negative { -read } else { read }
}

/// The time that is read where this one was written.
pub(crate) fn recorded_time(seconds: f64) -> f64 {
    format!("{seconds:.3}").parse().unwrap_or(seconds)
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) table: ReadingTable,
    /// How many samples of the file each row is made of, but the last, which may have fewer.
    pub(crate) samples: usize,
}

/// Combines samples as they are read, so that there are never more than a number of readings. The budget counts all that
/// are read: a small file may not expand without end.
pub(crate) struct Combining {
    readings_max: usize,
    /// How many samples a row is made of: a power of two.
    pub(crate) samples: usize,
    /// Rows that are made of so many; those after them are single samples.
    complete: usize,
    weights: Vec<Option<usize>>,
}

impl Combining {
    pub(crate) fn new(readings_max: usize) -> Combining {
        Combining { readings_max, samples: 1, complete: 0, weights: Vec::new() }
    }

    /// After a sample was added.
    pub(crate) fn added(&mut self, table: &mut ReadingTable) {
        if table.end_s.len() - self.complete < self.samples {
            return;
        }
        self.end(table);
        let is_full = table.end_s.len().saturating_mul(table.columns.len()) > self.readings_max;
        if is_full && table.end_s.len().is_multiple_of(2) {
            self.weigh(table);
            table.halve(0, &self.weights);
            self.samples *= 2;
            self.complete = table.end_s.len();
            table.values.iter_mut().for_each(Vec::shrink_to_fit);
        }
    }

    /// Combines the single samples.
    pub(crate) fn end(&mut self, table: &mut ReadingTable) {
        while table.end_s.len() > self.complete + 1 && self.samples > 1 {
            self.weigh(table);
            table.halve(self.complete, &self.weights);
        }
        self.complete = table.end_s.len();
    }

    /// There may be new columns.
    fn weigh(&mut self, table: &ReadingTable) {
        if self.weights.len() != table.columns.len() {
            self.weights = table.weights();
        }
    }
}

/// Reads the table as far as it is valid; `lines` records damage of the file. A column without a metric
/// description is kept with its name and without a meaning. Of more than `readings_max` readings, neighbouring samples are
/// combined.
pub(crate) fn read(
    lines: &mut Lines,
    metrics: &[MetricInfo],
    budget: &mut Budget,
    readings_max: usize,
) -> Read {
    let mut combining = Combining::new(readings_max);
    let mut table = read_samples(lines, metrics, budget, &mut combining);
    combining.end(&mut table);
    Read { table, samples: combining.samples }
}

fn read_samples(
    lines: &mut Lines,
    metrics: &[MetricInfo],
    budget: &mut Budget,
    combining: &mut Combining,
) -> ReadingTable {
    let described: HashMap<&str, &MetricInfo> =
        metrics.iter().map(|metric| (&*metric.name, metric)).collect();
    let mut table = ReadingTable::default();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    // For each cell of a row, the index of its column in the table; none for an omitted column.
    let mut places: Vec<Option<usize>> = Vec::new();
    let mut row = Row::new();
    let mut values = Vec::new();
    while row.read(lines, budget) {
        if row.cells().next() == Some(b"begin_s") {
            places.clear();
            for title in row.cells().skip(2) {
                let title = String::from_utf8_lossy(title).into_owned();
                let key = match title.split_once('{') {
                    Some((name, rest)) => {
                        (name.to_string(), rest.strip_suffix('}').unwrap_or(rest).to_string())
                    }
                    None => (title, String::new()),
                };
                if let Some(place) = known.get(&key) {
                    places.push(Some(*place));
                    continue;
                }
                if known.len() == COLUMNS_MAX {
                    lines.note(&format!("it has more than {COLUMNS_MAX} columns; the others are ignored"));
                    places.push(None);
                    continue;
                }
                let rows = table.end_s.len();
                let described_by = size_of::<Column>() + 2 * (key.0.len() + key.1.len());
                if !budget.take(described_by as u64 + READING_COST * rows as u64) {
                    lines.full();
                    return table;
                }
                let metric =
                    described.get(key.0.as_str()).map_or_else(|| unknown(&key.0), |metric| (*metric).clone());
                table.columns.push(Column { metric, instance: key.1.clone() });
                table.values.push(vec![f64::NAN; rows]);
                let place = known.len();
                known.insert(key, place);
                places.push(Some(place));
            }
            continue;
        }
        if !read_row(&row, &places, &mut table, &mut values, budget, lines) {
            break;
        }
        combining.added(&mut table);
    }
    table
}

/// Adds one sample; returns false if the memory limit is reached.
fn read_row(
    row: &Row,
    places: &[Option<usize>],
    table: &mut ReadingTable,
    values: &mut Vec<f64>,
    budget: &mut Budget,
    lines: &mut Lines,
) -> bool {
    let mut cells = row.cells();
    let mut time = || number::<f64>(cells.next()?);
    let times = time().zip(time());
    // A sample has a cell for each column: a shorter row was truncated.
    let (Some((begin_s, end_s)), true) = (times, row.len() == places.len() + 2) else {
        lines.unreadable();
        return true;
    };
    if !budget.take(READING_COST * (table.columns.len() as u64 + 2)) {
        lines.full();
        return false;
    }
    push(&mut table.begin_s, begin_s);
    push(&mut table.end_s, end_s);
    values.clear();
    values.resize(table.columns.len(), f64::NAN);
    for (place, cell) in places.iter().zip(cells) {
        let Some(place) = place else { continue };
        if !cell.is_empty() {
            match reading(cell) {
                Some(value) => values[*place] = value,
                None => lines.note("a value is not a number and was ignored"),
            }
        }
    }
    for (column, value) in table.values.iter_mut().zip(values) {
        push(column, *value);
    }
    true
}

/// Grows by a quarter instead of doubling: with thousands of columns, half of the memory would be unused.
pub(crate) fn push(values: &mut Vec<f64>, value: f64) {
    if values.len() == values.capacity() {
        values.reserve_exact(values.len() / 4 + 16);
    }
    values.push(value);
}

fn unknown(name: &str) -> MetricInfo {
    MetricInfo {
        name: name.to_string().into(),
        ..MetricInfo::new("", model::Unit::Count, model::MetricKind::Gauge, "Not described in metrics.json.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{MetricKind, Unit};

    fn read(text: impl AsRef<[u8]>, metrics: &[MetricInfo]) -> (ReadingTable, bool) {
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(text.as_ref().to_vec())));
        let table = super::read(&mut lines, metrics, &mut Budget::new(), usize::MAX).table;
        (table, lines.damage().is_none())
    }

    fn add(text: &mut Vec<u8>, titles: bool, begin_s: f64, readings: &Readings) {
        if titles {
            write_titles(text, readings.columns()).unwrap();
        }
        text.extend_from_slice(SampleText::default().row(begin_s, begin_s + 1.0, readings));
    }

    #[test]
    fn neighbouring_samples_of_a_long_log_are_combined() {
        let metric = MetricInfo::new("cpu.busy_share", Unit::Share, MetricKind::Rate, "");
        let metrics = [metric];
        for rows in [1, 2, 99, 100, 101, 250, 1001, 4096] {
            let mut text = String::from("begin_s,end_s,cpu.busy_share{0},cpu.busy_share{1}\n");
            for at in 0..rows {
                let second = if at % 3 == 0 { String::new() } else { at.to_string() };
                text.push_str(&format!("{at},{},{at},{second}\n", at + 1));
            }
            let read = |readings_max| {
                let mut lines = Lines::new(Box::new(std::io::Cursor::new(text.clone().into_bytes())));
                let read = super::read(&mut lines, &metrics, &mut Budget::new(), readings_max);
                assert_eq!(lines.damage(), None);
                read
            };
            let (whole, few) = (read(usize::MAX), read(200));
            assert_eq!((whole.samples, whole.table.end_s.len()), (1, rows));
            let table = &few.table;
            assert!(
                table.end_s.len() <= 102 && table.end_s.len() >= rows.min(50),
                "{rows}: {}",
                table.end_s.len()
            );
            // The windows follow each other, and all but the last have the same length.
            let lengths: Vec<f64> =
                table.begin_s.iter().zip(&table.end_s).map(|(begin, end)| end - begin).collect();
            let end = rows as f64;
            assert_eq!(lengths.iter().sum::<f64>(), end, "{rows}");
            assert!(
                lengths[..lengths.len() - 1].iter().all(|length| *length == few.samples as f64),
                "{lengths:?}"
            );
            let means = [&whole.table, table].map(|table| table.mean(0, 0.0, end).unwrap());
            assert!((means[0] - means[1]).abs() < 1e-9, "{rows}: {means:?}");
        }
    }

    #[test]
    fn more_columns_than_a_host_has_are_left_out() {
        let titles: Vec<String> = (0..=COLUMNS_MAX).map(|at| format!("c{at}")).collect();
        let row: Vec<String> = (0..=COLUMNS_MAX).map(|at| at.to_string()).collect();
        let text = format!("begin_s,end_s,{}\n0,1,{}\n", titles.join(","), row.join(","));
        let (table, whole) = read(&text, &[]);
        assert_eq!((table.columns.len(), whole), (COLUMNS_MAX, false));
        assert_eq!(table.values[COLUMNS_MAX - 1], [(COLUMNS_MAX - 1) as f64]);
    }

    #[test]
    fn a_row_without_its_cells_takes_no_memory() {
        let titles: Vec<String> = (0..1000).map(|at| format!("c{at}")).collect();
        let text = format!("begin_s,end_s,{}\n{}", titles.join(","), "0,1\n".repeat(5000));
        let (table, whole) = read(&text, &[]);
        assert_eq!((table.end_s.len(), whole), (0, false));
    }

    #[test]
    fn a_new_device_gets_its_column_and_absence_stays_absence() {
        let reads = MetricInfo::new("disk.reads_per_s", Unit::PerSecond, MetricKind::Rate, "Reads.");
        let mut readings = Readings::new();
        let vda = readings.column(&reads, "vda");
        let mut text = Vec::new();
        add(&mut text, true, 0.0, &readings);
        readings.set(vda, 1_234.567_89);
        add(&mut text, false, 1.0, &readings);
        let odd = readings.column(&reads, "odd, \"name\"\n}");
        readings.set(odd, 0.000_012_345_678);
        add(&mut text, true, 2.0, &readings);
        let (table, whole) = read(&text, std::slice::from_ref(&reads));
        assert!(whole);
        assert_eq!(table.columns.len(), 2);
        assert_eq!(table.columns[0].metric, reads);
        assert_eq!(table.columns[1].instance, "odd, \"name\"\n}");
        assert!(table.values[0][0].is_nan());
        assert_eq!(&table.values[0][1..], &[1234.57, 1234.57]);
        assert!(table.values[1][0].is_nan() && table.values[1][1].is_nan());
        assert_eq!(table.values[1][2], 0.000_012_345_7);
        let (table, whole) = read(&text[..text.len() - 3], &[]);
        assert!(!whole);
        assert_eq!(table.end_s.len(), 2);
    }

    #[test]
    fn numbers_have_six_digits_and_no_zeros_behind_them() {
        for (value, expected) in [
            (0.5, "0.5"),
            (12.345_678, "12.3457"),
            (1_234.5, "1234.5"),
            (123_456.7, "123457"),
            (99_999.96, "100000"),
            (9.999_999_7, "10"),
            (0.000_012_345_678, "0.0000123457"),
            (0.100_000_04, "0.1"),
            (-2.25, "-2.25"),
            (0.999_999_9, "1"),
            (3.2e-12, "0.0000000000032"),
            (-0.000_000_04, "-0.00000004"),
            (1.5e14 + 0.5, "150000000000001"),
        ] {
            assert_eq!(written(value), expected);
        }
    }

    fn written(value: f64) -> String {
        let mut text = Vec::new();
        write_value(&mut text, value);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn integers_are_exact() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (-1.0, "-1"),
            (8_999_999_999_999_999.0, "8999999999999999"),
            (-1e15, "-1000000000000000"),
            (1e21, "1000000000000000000000"),
            (f64::NAN, ""),
            (f64::INFINITY, ""),
        ] {
            assert_eq!(written(value), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn small_numbers_survive(value in -1.0f64..1.0) {
            let text = written(value);
            let read: f64 = text.parse().unwrap();
            proptest::prop_assert!((read - value).abs() <= value.abs() * 1e-5 + 1e-15, "{} {}", text, value);
        }

        #[test]
        fn six_digits_survive(value in -1e12f64..1e12) {
            let metric = MetricInfo::new("x", Unit::Count, MetricKind::Gauge, "");
            let mut readings = Readings::new();
            let id = readings.column(&metric, "");
            readings.set(id, value);
            let mut text = Vec::new();
            add(&mut text, true, 0.0, &readings);
            let (table, _) = read(&text, &[]);
            proptest::prop_assert!((table.values[0][0] - value).abs() <= value.abs() * 1e-5);
        }
    }
}
