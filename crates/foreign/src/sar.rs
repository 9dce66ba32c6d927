//! The text that `sar` of sysstat prints, with all its tables; and mpstat, which prints the same CPU table.
//!
//! The first line has the system, the host and the date. A table has a line with its titles, which may be repeated, and a line
//! for each time or, if it has instances (CPU, DEV, IFACE), for each time and instance. The first time of a table is that of
//! its titles. Averages are left out. After `LINUX RESTART`, a window begins anew.
//!
//! sar prints one table after the other over the whole time. The rows of one time are joined to one sample: the values of
//! 128 MiB are held for this. If a file has more, the first samples are returned, and rows of a later table for these times
//! are left out and noted. A live log (`sar -A 1 100`) has all tables of a time together: its samples are returned at once.
//!
//! A path is `OPTION COLUMN(INSTANCE)`, such as `-d await(sda)`, `-n DEV rxkB/s(eth0)`, `-u %iowait(all)`, `-r kbavail`.
//! The option is known by the columns of the table. Values are in the units of sar.

mod names;
mod sadc;
mod sadf;

use std::collections::HashMap;

use self::names::Title;
use crate::counters::{CounterColumn, CounterFamily, CounterLog, Joined, Sample, ahead};
use crate::date::DateOrder;
use crate::input::{Line, Lines};
use crate::sysstat::{self, Banner, Clock, Course, NO_NUMBER, SECOND_NS, SUMMER, TOO_MANY};
use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "sar",
    about: "sar as text: all tables, joined by their times; also mpstat",
    recognize: |head| recognize(head.text),
    open,
};

pub(crate) use sadc::FORMAT as SADC;
pub(crate) use sadf::FORMAT as SADF;

/// The most tables of a file.
const TABLES_MAX: usize = 256;

/// The longest line with titles.
const TITLE_BYTES_MAX: usize = 64 << 10;

/// Lines of the head in which a table must begin.
const HEAD_LINES: usize = 200;

fn recognize(head: &str) -> bool {
    let mut lines = head.lines().filter(|line| !line.trim().is_empty());
    let has_banner = |line: &str| Banner::parse(line).is_some();
    lines.next().is_some_and(has_banner)
        && lines.take(HEAD_LINES).any(|line| {
            sysstat::clock(&sysstat::plain(line)).is_some_and(|(_, rest)| {
                is_restart(rest) || Titles::parse(rest).is_some_and(|titles| !titles.option.is_empty())
            })
        })
}

fn is_restart(rest: &str) -> bool {
    rest.contains("LINUX RESTART") || rest.contains("LINUX-RESTART")
}

/// Whether a line has no number, so that it may have titles.
fn is_text(rest: &str) -> bool {
    !rest.split_whitespace().any(|cell| cell.starts_with(|first: char| first.is_ascii_digit()))
}

/// The titles of a table.
struct Titles<'a> {
    option: &'static str,
    columns: Vec<&'a str>,
    /// Whether each time has its zone, as with `-t`.
    has_zone: bool,
}

impl<'a> Titles<'a> {
    /// The titles in a line, after its time; none if it has none.
    fn parse(rest: &'a str) -> Option<Titles<'a>> {
        let mut columns: Vec<&str> = rest.split_whitespace().collect();
        if columns.is_empty() || columns.iter().any(|cell| sysstat::number(cell).is_some()) {
            return None;
        }
        let first = columns[0];
        let is_upper = first.len() > 1 && first.bytes().all(|byte| byte.is_ascii_uppercase());
        let has_zone = is_upper && columns.len() > 1 && names::title(first) == Title::Value;
        if has_zone {
            columns.remove(0);
        }
        if let Some(option) = names::option(columns.iter().copied()) {
            return Some(Titles { option, columns, has_zone });
        }
        // A table that is not known has at least instances, rates or shares.
        let is_title = |cell: &&&str| {
            names::title(cell) == Title::Instance
                || cell.ends_with("/s")
                || (cell.len() > 1 && cell.starts_with('%'))
        };
        (columns.iter().filter(is_title).count() > 1).then_some(Titles { option: "", columns, has_zone })
    }
}

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let log = SarLog {
        lines: Lines::new(from),
        tables: Tables { options: *options, ..Tables::default() },
        is_at_end: false,
    };
    ahead(log, |log| no_sample(&log.tables.joined))
}

/// A file without a sample, with what was noted last.
fn no_sample(joined: &Joined) -> Fault {
    let help = joined.notes.list().last().map_or_else(
        || "sar was stopped too early, or it has no data of this time".to_string(),
        |note| format!("{note}; {}", note.help),
    );
    Fault::at(0, "the file has no sample", help)
}

struct SarLog {
    lines: Lines,
    tables: Tables,
    is_at_end: bool,
}

/// A table.
struct Table {
    option: &'static str,
    columns: Vec<String>,
    titles: Vec<Title>,
    has_zone: bool,
    /// The places of the values of each instance in a sample.
    places: HashMap<String, Vec<Option<usize>>>,
    /// The part of the file in which it was last.
    part: usize,
    course: Course,
    /// The begin of the window whose end `course` is.
    begin_ns: i64,
}

/// What was read, and the samples that are not complete.
#[derive(Default)]
struct Tables {
    options: Options,
    joined: Joined,
    host: String,
    order: Option<DateOrder>,
    /// The number of the part of the file between two restarts.
    part: usize,
    /// The time from which it is.
    begin: Course,
    /// The latest time of the file.
    latest: Course,
    list: Vec<Table>,
    by_titles: HashMap<String, usize>,
    current: Option<usize>,
}

impl Tables {
    fn read(&mut self, line: Line<'_>) -> Result<(), Fault> {
        let (number, text) = (line.number, sysstat::plain(line.text));
        let text = text.as_ref();
        if line.is_cut {
            self.joined.notes.add("a line is longer than 1 MiB and was left out", number, "");
            return Ok(());
        }
        if let Some(banner) = Banner::parse(text) {
            return self.begin_file(&banner, number);
        }
        let Some((clock, rest)) = sysstat::clock(text) else {
            // `Average:`, `Summary:`, `Moyenne :`.
            let mut words = text.split_whitespace();
            if let Some(first) = words.next().filter(|first| !first.ends_with(':'))
                && words.next() != Some(":")
                && first != "Average"
            {
                self.joined.notes.add("a line is no row of a table and was left out", number, "");
            }
            return Ok(());
        };
        let clock = match clock {
            // That is UTC already.
            Clock::Unix(seconds) => Clock::Unix(seconds.saturating_sub(self.options.utc_offset_s)),
            day => day,
        };
        if is_restart(rest) {
            let mut begin = self.latest;
            begin.go_to(clock);
            self.begin_part(begin);
        } else if rest.starts_with("COM ") {
            // A comment.
        } else if let Some(titles) = Titles::parse(rest) {
            self.begin_table(clock, &titles, number);
        } else if is_text(rest) {
            self.current = None;
            self.joined.notes.add("a line is no row of a table: what follows it was left out", number, "");
        } else {
            self.read_row(clock, rest, number);
        }
        Ok(())
    }

    fn begin_file(&mut self, banner: &Banner<'_>, line: u64) -> Result<(), Fault> {
        let Some((midnight_ns, order)) = banner.midnight_ns(&self.options, line, &mut self.joined.notes)
        else {
            let help = "write the log with S_TIME_FORMAT=ISO, or give --date-order";
            return Err(Fault::at(line, "the date of the first line cannot be read", help));
        };
        self.host = banner.host.to_string();
        self.order = Some(order);
        for table in &mut self.list {
            // Another host may follow.
            table.places.clear();
        }
        self.begin_part(Course { local_ns: midnight_ns, shifted_ns: 0 });
        Ok(())
    }

    /// What follows is later than all before.
    fn begin_part(&mut self, begin: Course) {
        self.joined.complete_all();
        self.part += 1;
        (self.begin, self.latest, self.current) = (begin, begin, None);
    }

    fn begin_table(&mut self, clock: Clock, titles: &Titles<'_>, line: u64) {
        let key = titles.columns.join(" ");
        let at = match self.by_titles.get(&key) {
            Some(at) => *at,
            None if self.list.len() == TABLES_MAX || key.len() > TITLE_BYTES_MAX => {
                self.joined.notes.add(
                    "the file has more than 256 tables: a further one was left out",
                    line,
                    "",
                );
                self.current = None;
                return;
            }
            None => {
                if titles.option.is_empty() {
                    let help = "its columns have names without an option";
                    self.joined.notes.add("the option of a table is not known", line, help);
                }
                self.list.push(Table {
                    option: titles.option,
                    columns: titles.columns.iter().map(|column| column.to_string()).collect(),
                    titles: titles.columns.iter().map(|column| names::title(column)).collect(),
                    has_zone: titles.has_zone,
                    places: HashMap::new(),
                    part: 0,
                    course: self.begin,
                    begin_ns: self.begin.ns(),
                });
                self.by_titles.insert(key, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        let table = &mut self.list[at];
        if table.part != self.part {
            (table.part, table.course) = (self.part, self.begin);
        } else if self.current != Some(at) {
            // The tables alternate, so all rows of the times before are there.
            self.joined.complete_to(utc_ns(table.course, &self.options));
        }
        if table.course.go_to(clock) {
            self.joined.notes.add(SUMMER, line, "");
        }
        table.begin_ns = table.course.ns();
        self.current = Some(at);
    }

    fn read_row(&mut self, clock: Clock, rest: &str, line: u64) {
        let Some(table) = self.current.and_then(|at| self.list.get_mut(at)) else {
            self.joined.notes.add("a row is in no table and was left out", line, "");
            return;
        };
        let before_ns = table.course.ns();
        if table.course.go_to(clock) {
            self.joined.notes.add(SUMMER, line, "");
        }
        if table.course.ns() != before_ns {
            table.begin_ns = before_ns;
        }
        if table.course.ns() > self.latest.ns() {
            self.latest = table.course;
        }
        if table.option == "-m USB" {
            // Devices, not counters.
            return;
        }
        let rest = match rest.split_once(char::is_whitespace) {
            Some((_, after)) if table.has_zone => after.trim_start(),
            _ => rest,
        };
        let Some((instance, cells)) = table.split(rest) else {
            let what = "a row has other values than its table has titles and was left out";
            self.joined.notes.add(what, line, "");
            return;
        };
        let offset_ns = utc_ns(table.course, &self.options).saturating_sub(table.course.ns());
        let end_ns = table.course.ns().saturating_add(offset_ns);
        if !self.joined.begin(table.begin_ns.saturating_add(offset_ns), end_ns, line) {
            return;
        }
        if !table.places.contains_key(instance) {
            let places = add_columns(&mut self.joined, &self.host, table, instance, line);
            if places.iter().all(Option::is_none) {
                return;
            }
            table.places.insert(instance.to_string(), places);
        }
        let Some(places) = table.places.get(instance) else { return };
        for (place, cell) in places.iter().zip(cells) {
            let Some(place) = place else { continue };
            match sysstat::number(cell) {
                Some(value) => self.joined.set(end_ns, *place, value),
                None => self.joined.notes.add(NO_NUMBER, line, "write the log without --human"),
            }
        }
    }
}

impl Table {
    /// The instance of a row, and its cells; none if they do not fit the titles.
    fn split<'a>(&self, rest: &'a str) -> Option<(&'a str, Vec<&'a str>)> {
        let count = self.titles.len();
        let mut cells = Vec::with_capacity(count);
        let mut rest = rest.trim();
        while cells.len() < count && !rest.is_empty() {
            // The last one may have blanks if it is a name.
            let is_rest = cells.len() + 1 == count && self.titles[count - 1] != Title::Value;
            let end = if is_rest { None } else { rest.find(char::is_whitespace) };
            let (cell, after) = rest.split_at(end.unwrap_or(rest.len()));
            cells.push(cell);
            rest = after.trim_start();
        }
        // A text at the end may be missing.
        let is_short = cells.len() + 1 == count && self.titles[count - 1] == Title::Text;
        if !rest.is_empty() || (cells.len() < count && !is_short) {
            return None;
        }
        let at = self.titles.iter().position(|title| *title == Title::Instance);
        Some((at.map_or("", |at| cells[at]), cells))
    }
}

/// The places of the cells of an instance, whose columns are added.
fn add_columns(
    joined: &mut Joined,
    host: &str,
    table: &Table,
    instance: &str,
    line: u64,
) -> Vec<Option<usize>> {
    if table.option == "-d" && names::is_device_number(instance) {
        let help = "write the log with sar -p, so that they have names";
        joined.notes.add("a disk has its numbers (dev8-0) instead of a name", line, help);
    }
    let mut places = Vec::with_capacity(table.titles.len());
    for (column, title) in table.columns.iter().zip(&table.titles) {
        places.push(match title {
            Title::Value => {
                let (path, written) = names::path(table.option, column, instance);
                let place = joined.columns.place(host, path, written);
                if place.is_none() {
                    joined.notes.add(TOO_MANY, line, "write fewer instances, or split the log");
                }
                place
            }
            _ => None,
        });
    }
    places
}

/// Nanoseconds since 1970 UTC. The options have what is between local time and UTC.
fn utc_ns(course: Course, options: &Options) -> i64 {
    course.ns().saturating_add(SECOND_NS.saturating_mul(options.utc_offset_s))
}

impl CounterLog for SarLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::Sar
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        loop {
            if self.tables.joined.take(sample) {
                return Ok(true);
            }
            if self.is_at_end {
                return Ok(false);
            }
            match self.lines.next() {
                Ok(Some(line)) => self.tables.read(line)?,
                Ok(None) => {
                    self.is_at_end = true;
                    self.tables.joined.complete_all();
                }
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault);
                }
            }
        }
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.tables.joined.columns.list()
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        (self.tables.order, None)
    }

    fn notes(&self) -> Vec<Fault> {
        self.tables.joined.notes.list()
    }
}

#[cfg(test)]
mod tests;
