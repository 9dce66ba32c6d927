//! What `vmstat` of procps prints on Linux: `vmstat 1`, `vmstat -t 1`, with `-a` and `-w` too. Not `-d`, `-m` and `-s`.
//!
//! With `-t`, each line has its time. Without it, the file has no time: the first line is at 1970 and the others follow in
//! the interval of the command (`$ vmstat 5`) if the file has it, or else of 1 s. Both are noted.
//!
//! The first line has rates since the boot: only `r`, `b` and the columns of memory are read of it. Columns of memory are KiB,
//! or other units with `-S`, which the file does not say. A path is the title of the column: `wa`.

use crate::counters::{Columns, CounterColumn, CounterFamily, CounterLog, Notes, Sample, ahead};
use crate::date::DateOrder;
use crate::input::{Line, Lines};
use crate::sysstat::{self, NO_NUMBER, SECOND_NS, TOO_MANY, Timeline};
use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "vmstat",
    about: "vmstat as text (Linux): all columns; with -t also the time of each line",
    recognize: |head| head.text.lines().take(HEAD_LINES).any(|line| titles(line).is_some()),
    open,
};

/// Lines of the head in which the titles must be.
const HEAD_LINES: usize = 50;

/// The most columns.
const TITLES_MAX: usize = 64;

/// The columns that are values at the time of the line, not rates.
const INSTANT: &[&str] = &["r", "b", "swpd", "free", "buff", "cache", "inact", "active"];

/// The columns of a line with titles.
fn titles(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().take(TITLES_MAX).collect();
    (words.starts_with(&["r", "b", "swpd", "free"]) && words.len() > 4).then_some(words)
}

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let table = Table { options: *options, ..Table::default() };
    let log = VmstatLog { lines: Lines::new(from), table, is_at_end: false };
    ahead(log, |_| Fault::at(0, "the file has no sample", "run vmstat with an interval: vmstat -t 1"))
}

struct VmstatLog {
    lines: Lines,
    table: Table,
    is_at_end: bool,
}

/// What was read.
#[derive(Default)]
struct Table {
    options: Options,
    /// Seconds between two lines, if the file has the command.
    interval_s: Option<i64>,
    columns: Columns,
    /// The places of the cells of a line.
    places: Vec<Option<usize>>,
    /// The zone of the times; none without -t.
    zone: Option<String>,
    order: Option<DateOrder>,
    /// Whether a report was read.
    has_report: bool,
    timeline: Timeline,
    /// The time of the next line, where lines have none.
    next_ns: i64,
    notes: Notes,
}

impl Table {
    /// Reads a line. True if it has a sample.
    fn read(&mut self, line: Line<'_>, sample: &mut Sample) -> bool {
        let (number, text) = (line.number, line.text);
        if let Some(titles) = titles(text) {
            self.begin(&titles, number);
            return false;
        }
        if let Some(interval_s) = sysstat::interval_s(text, "vmstat") {
            self.interval_s = Some(interval_s);
        }
        let mut words = text.split_whitespace();
        let is_value = words.next().is_some_and(|first| sysstat::number(first).is_some());
        if self.places.is_empty() || !is_value {
            if !self.places.is_empty() && !text.trim().is_empty() && !text.trim_start().starts_with("procs") {
                self.notes.add("a line has no values and was left out", number, "");
            }
            return false;
        }
        let cells: Vec<&str> = text.split_whitespace().take(TITLES_MAX + 2).collect();
        let count = self.places.len();
        let has_time = self.zone.is_some();
        if cells.len() != count + if has_time { 2 } else { 0 } {
            self.notes.add("a line has other values than there are titles and was left out", number, "");
            return false;
        }
        sample.values.clear();
        sample.values.resize(self.columns.len(), f64::NAN);
        for (place, cell) in self.places.iter().zip(&cells) {
            let Some(place) = *place else { continue };
            match sysstat::number(cell) {
                Some(value) => sample.values[place] = value,
                None => self.notes.add(NO_NUMBER, number, ""),
            }
        }
        if !self.has_report {
            self.has_report = true;
            for (column, value) in self.columns.list().0.iter().zip(&mut sample.values) {
                if !INSTANT.contains(&column.path.as_str()) {
                    *value = f64::NAN;
                }
            }
        }
        let end_ns = match has_time {
            true => self.time(&format!("{} {}", cells[count], cells[count + 1]), number),
            false => Some(self.untimed(number)),
        };
        let window = end_ns.and_then(|end_ns| self.timeline.window(end_ns, number, &mut self.notes));
        let Some(window) = window else { return false };
        (sample.begin_unix_ns, sample.end_unix_ns) = window;
        true
    }

    fn begin(&mut self, titles: &[&str], line: u64) {
        // The title of the times is their zone.
        let (titles, zone) = match titles.split_last() {
            Some((last, rest)) if !last.starts_with(|first: char| first.is_ascii_lowercase()) => {
                (rest, Some(*last))
            }
            _ => (titles, None),
        };
        self.zone = zone.map(str::to_string);
        self.places.clear();
        for title in titles {
            let place = self.columns.place("", title.to_string(), String::new());
            if place.is_none() {
                self.notes.add(TOO_MANY, line, "");
            }
            self.places.push(place);
        }
    }

    /// Nanoseconds since 1970 UTC of the time of a line.
    fn time(&mut self, text: &str, line: u64) -> Option<i64> {
        let Some((ns, order)) = sysstat::read_time(text, &self.options, line, &mut self.notes) else {
            self.notes.add("a line has no time and was left out", line, "");
            return None;
        };
        self.order = Some(order);
        let offset_s = if self.is_utc() { 0 } else { self.options.utc_offset_s };
        ns.checked_add(offset_s.checked_mul(SECOND_NS)?)
    }

    fn is_utc(&self) -> bool {
        matches!(self.zone.as_deref(), Some("UTC" | "GMT"))
    }

    fn untimed(&mut self, line: u64) -> i64 {
        let help = "run vmstat -t to have times";
        match self.interval_s {
            Some(_) => self.notes.add("lines have no time: the first is at 1970", line, help),
            None => {
                self.notes.add("lines have no time: the first is at 1970, and they are 1 s apart", line, help)
            }
        }
        let end_ns = self.next_ns;
        self.next_ns = end_ns.saturating_add(self.interval_s.unwrap_or(1) * SECOND_NS);
        end_ns
    }
}

impl CounterLog for VmstatLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::Vmstat
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        while !self.is_at_end {
            match self.lines.next() {
                Ok(Some(line)) => {
                    if self.table.read(line, sample) {
                        return Ok(true);
                    }
                }
                Ok(None) => self.is_at_end = true,
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault);
                }
            }
        }
        Ok(false)
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.table.columns.list()
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        (self.table.order, self.table.is_utc().then_some(0))
    }

    fn notes(&self) -> Vec<Fault> {
        self.table.notes.list()
    }
}

#[cfg(test)]
mod tests;
