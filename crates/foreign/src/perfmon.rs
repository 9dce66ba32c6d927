//! Logs of Windows Performance Monitor as text: `logman`, `relog -f CSV` and `TSV`, `typeperf`.
//!
//! The first row has `(PDH-CSV 4.0)`, with a zone and its minutes west of UTC in newer versions, and the path of each counter;
//! each further row the local time and a value for each. A value that was not collected is a blank.

mod names;

use std::collections::HashSet;

use crate::counters::{COLUMNS_MAX, CheckedLog, CounterColumn, CounterFamily, CounterLog, Notes, Sample};
use crate::date::{self, DateOrder};
use crate::input::{Text, peek};
use crate::number::decimal;
use crate::table::{Row, Rows};
use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "perfmon-csv",
    about: "Performance Monitor as CSV or TSV (relog, logman, typeperf): all counters",
    recognize: |head| recognize(head.text),
    open,
};

/// A clock that goes back by about an hour was set back at the end of summer time.
const SUMMER_NS: std::ops::RangeInclusive<i64> = 2_700_000_000_000..=4_500_000_000_000;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Whether the first row is that of such a log.
fn recognize(head: &str) -> bool {
    let Some(first) = head.trim_start().lines().next() else { return false };
    first.trim_start_matches('"').starts_with("(PDH-") || delimiter(first).is_some_and(|(_, paths)| paths > 0)
}

/// The delimiter of the first row, and how many of its cells are paths of counters.
fn delimiter(first: &str) -> Option<(u8, usize)> {
    [b',', b'\t', b';']
        .into_iter()
        .map(|delimiter| {
            let cells = first.split(char::from(delimiter)).skip(1);
            (delimiter, cells.filter(|cell| is_path(cell.trim_start_matches('"'))).count())
        })
        .max_by_key(|(_, paths)| *paths)
        .filter(|(_, paths)| *paths > 0)
}

/// Whether a cell begins as `\\HOST\` does.
fn is_path(cell: &str) -> bool {
    cell.strip_prefix(r"\\").is_some_and(|rest| rest.find('\\').is_some_and(|at| at > 0))
}

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let (head, whole) = peek(Text::new(from))?;
    let shown = String::from_utf8_lossy(&head).into_owned();
    let first = shown.trim_start().lines().next().unwrap_or_default();
    let Some((delimiter, _)) = delimiter(first) else {
        return Err(Fault::at(
            1,
            "the first row has no path of a counter, such as \\\\HOST\\System\\Threads",
            "",
        ));
    };
    // A number with a comma is in quotation marks, or the delimiter is another sign.
    let cells: Vec<&str> = shown.lines().skip(1).take(20).flat_map(|line| line.split('"')).collect();
    let is_decimal = |cell: &&&str| {
        let cell = cell.trim();
        cell.len() > 2
            && cell.contains(',')
            && cell.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'-' | b'E' | b'+'))
            && cell.bytes().next_back().is_some_and(|byte| byte.is_ascii_digit())
            && cell.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let has_comma = match delimiter {
        b',' => cells.iter().filter(is_decimal).count() > 0,
        _ => shown.lines().skip(1).take(20).any(|line| line.contains(',')),
    };
    let dates: Vec<&[u8]> = shown
        .lines()
        .skip(1)
        .filter_map(|line| line.split(char::from(delimiter)).next())
        .map(|cell| cell.trim_matches('"').as_bytes())
        .collect();
    let order = match (options.date_order, date::order_of(dates.into_iter())) {
        (Some(order), _) => order,
        (None, Some(order)) => order,
        (None, None) => {
            return Err(Fault::at(
                2,
                "the dates have neither the day nor the month first in every row",
                "these are several logs in one file: import each on its own",
            ));
        }
    };
    let mut log = PerfmonLog {
        rows: Rows::new(whole, delimiter),
        has_comma,
        order,
        options: *options,
        offset_s: None,
        columns: Vec::new(),
        places: Vec::new(),
        version: 0,
        before_ns: None,
        shifted_ns: 0,
        notes: Notes::default(),
        is_at_end: false,
    };
    let first = log.rows.next()?.map(|row| Titles::of(row));
    let Some(titles) = first else { return Err(Fault::at(1, "the file has no rows", "")) };
    log.begin(titles)?;
    Ok(Content::Counters(CheckedLog::of(log)))
}

/// The first row.
struct Titles {
    line: u64,
    cells: Vec<String>,
}

impl Titles {
    fn of(row: Row<'_>) -> Titles {
        Titles {
            line: row.line,
            cells: row.cells().map(|cell| String::from_utf8_lossy(cell).trim().to_string()).collect(),
        }
    }

    fn is_in(row: Row<'_>) -> bool {
        row.cell(1).is_some_and(|cell| cell.trim_ascii_start().starts_with(br"\\"))
            && row.cell(0).is_some_and(|cell| {
                date::unix_ns(cell, DateOrder::MonthFirst).is_none()
                    && date::unix_ns(cell, DateOrder::DayFirst).is_none()
            })
    }
}

struct PerfmonLog {
    rows: Rows<Source>,
    has_comma: bool,
    order: DateOrder,
    options: Options,
    /// Seconds to add to the times of the file so that they are UTC, as its first row has them.
    offset_s: Option<i64>,
    columns: Vec<CounterColumn>,
    /// The column of each cell after the first; none for one that is left out.
    places: Vec<Option<usize>>,
    version: usize,
    before_ns: Option<i64>,
    /// What was added since the clock was set back.
    shifted_ns: i64,
    notes: Notes,
    is_at_end: bool,
}

impl PerfmonLog {
    fn begin(&mut self, titles: Titles) -> Result<(), Fault> {
        let mut cells = titles.cells.into_iter();
        let first = cells.next().unwrap_or_default();
        if let Some(offset_s) = zone(&first) {
            self.offset_s = Some(offset_s);
        }
        self.columns.clear();
        self.places.clear();
        self.before_ns = None;
        let mut known = HashSet::new();
        for title in cells {
            if !title.starts_with('\\') {
                // Such as the notes that Performance Monitor adds as a last column.
                if !title.is_empty() {
                    self.notes.add("a column is no counter and was left out", titles.line, "");
                }
                self.places.push(None);
                continue;
            }
            if self.columns.len() == COLUMNS_MAX {
                return Err(Fault::at(
                    titles.line,
                    "the log has more than 65,536 counters",
                    "split it with relog -c",
                ));
            }
            let column = column(&title);
            if !known.insert((column.host.clone(), column.path.clone())) {
                self.notes.add("a counter is there twice: the second was left out", titles.line, "");
                self.places.push(None);
                continue;
            }
            self.places.push(Some(self.columns.len()));
            self.columns.push(column);
        }
        self.version += 1;
        match self.columns.is_empty() {
            true => Err(Fault::at(titles.line, "no column is a counter", "")),
            false => Ok(()),
        }
    }
}

/// The seconds to UTC of `(PDH-CSV 4.0) (W. Europe Standard Time)(-60)`.
fn zone(cell: &str) -> Option<i64> {
    let (_, minutes) = cell.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let minutes: i64 = minutes.trim().parse().ok()?;
    (-24 * 60..=24 * 60).contains(&minutes).then(|| 60 * minutes)
}

/// The column of a path with its host.
pub(crate) fn column(title: &str) -> CounterColumn {
    let (host, path) = match title.strip_prefix(r"\\").and_then(|rest| rest.split_once('\\')) {
        Some((host, path)) => (host, path),
        None => ("", title.trim_start_matches('\\')),
    };
    let english = names::english(path);
    let written = if english == path { String::new() } else { path.to_string() };
    CounterColumn { host: host.to_string(), path: english, written }
}

impl CounterLog for PerfmonLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::PerformanceMonitor
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        /// What a row is.
        enum Found {
            Sample(i64),
            Titles(Titles),
            Other(&'static str),
        }
        while !self.is_at_end {
            let (columns, order, has_comma) = (self.columns.len(), self.order, self.has_comma);
            let row = match self.rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // What was read before stays.
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault);
                }
            };
            let line = row.line;
            let found = match row.cell(0).and_then(|cell| date::unix_ns(cell, order)) {
                Some(time_ns) => Found::Sample(time_ns),
                None if Titles::is_in(row) => Found::Titles(Titles::of(row)),
                // What typeperf prints when it ends.
                None if row.len() == 1 || row.cell(0).is_some_and(|cell| cell.starts_with(b"Exiting")) => {
                    continue;
                }
                None => Found::Other("a row has no time and was left out"),
            };
            let mut wrong = None;
            if let Found::Sample(_) = found {
                sample.values.clear();
                sample.values.resize(columns, f64::NAN);
                for (at, place) in self.places.iter().enumerate() {
                    let (Some(place), Some(cell)) = (place, row.cell(at + 1)) else { continue };
                    if cell.trim_ascii().is_empty() {
                        continue;
                    }
                    match decimal(cell, has_comma) {
                        Some(value) => sample.values[*place] = value,
                        None => wrong = Some("a value is no number and was left out"),
                    }
                }
                if row.len() < self.places.len() + 1 {
                    wrong = Some("a row ends early: the values after it are absent");
                }
            }
            if let Some(what) = wrong {
                self.notes.add(what, line, "");
            }
            let local_ns = match found {
                Found::Sample(time_ns) => time_ns,
                Found::Titles(titles) => {
                    self.begin(titles)?;
                    continue;
                }
                Found::Other(what) => {
                    self.notes.add(what, line, "if day and month are exchanged, say so with --date-order");
                    continue;
                }
            };
            let offset_s = self.offset_s.unwrap_or(self.options.utc_offset_s);
            let mut end_ns = local_ns + 1_000_000_000 * offset_s + self.shifted_ns;
            let Some(before_ns) = self.before_ns else {
                self.before_ns = Some(end_ns);
                // Rates need two samples; the others are values at this time.
                (sample.begin_unix_ns, sample.end_unix_ns) = (end_ns, end_ns);
                return Ok(true);
            };
            if end_ns < before_ns && SUMMER_NS.contains(&(before_ns - end_ns)) {
                self.shifted_ns += HOUR_NS;
                end_ns += HOUR_NS;
                self.notes.add("the clock went back by an hour, as at the end of summer time: an hour is added from here on", line, "");
            }
            if end_ns <= before_ns {
                self.notes.add("a row is not later than the one before and was left out", line, "");
                continue;
            }
            self.before_ns = Some(end_ns);
            (sample.begin_unix_ns, sample.end_unix_ns) = (before_ns, end_ns);
            return Ok(true);
        }
        self.is_at_end = true;
        Ok(false)
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        (&self.columns, self.version)
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        (Some(self.order), self.offset_s)
    }

    fn notes(&self) -> Vec<Fault> {
        self.notes.list()
    }
}

#[cfg(test)]
mod tests;
