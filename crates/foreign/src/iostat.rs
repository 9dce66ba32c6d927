//! What `iostat` of sysstat prints as text: `iostat -x 1`, `iostat -xt 1`, with `-c`, `-d`, `-s` and `--pretty` too; not JSON.
//!
//! A report has the CPUs and one or several tables of devices. The first report has averages since the boot and is left out;
//! `iostat -y` prints none, so its first report is left out too. With `-t`, each report has its time. Without it, the file has
//! no time of day: the first report is at 1970 and the others follow in the interval of the command (`$ iostat -x 5`) if the
//! file has it, or else of 1 s. Both are noted.
//!
//! A path is `COLUMN(DEVICE)`, such as `r_await(sda)`, or `%iowait` for the CPUs. Values are in the units of iostat.

use crate::counters::{Columns, CounterColumn, CounterFamily, CounterLog, Notes, Sample, ahead};
use crate::date::DateOrder;
use crate::input::{Line, Lines};
use crate::sysstat::{self, Banner, Clock, Course, NO_NUMBER, SECOND_NS, TOO_MANY, Timeline};
use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "iostat",
    about: "iostat as text: CPUs and devices; with -t also the time of each report",
    recognize: |head| recognize(head.text),
    open,
};

/// Lines of the head in which the first report must begin.
const HEAD_LINES: usize = 50;

/// The most columns and tables of a report.
const TITLES_MAX: usize = 256;
const TABLES_MAX: usize = 64;

fn recognize(head: &str) -> bool {
    let lines = head.lines().take(HEAD_LINES).map(sysstat::plain);
    lines.into_iter().any(|line| {
        let titles: Vec<&str> = line.split_whitespace().collect();
        titles.first() == Some(&"avg-cpu:") || device_at(&titles).is_some()
    })
}

/// Where the device is in a line with titles; none if it is another line.
fn device_at(titles: &[&str]) -> Option<usize> {
    let is_device = |title: &&str| matches!(*title, "Device" | "Device:");
    let at = titles.iter().position(is_device).filter(|at| *at == 0 || *at + 1 == titles.len())?;
    let is_column =
        |title: &&&str| title.contains('/') || matches!(**title, "tps" | "%util" | "await" | "r_await");
    titles.iter().any(|title| is_column(&title)).then_some(at)
}

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let reports = Reports { options: *options, ..Reports::default() };
    let log = IostatLog { lines: Lines::new(from), reports, is_at_end: false };
    ahead(log, |_| {
        let help = "run iostat with an interval: iostat -xt 1";
        Fault::at(0, "the file has no report after the first, which has averages since the boot", help)
    })
}

struct IostatLog {
    lines: Lines,
    reports: Reports,
    is_at_end: bool,
}

/// What is read now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Table {
    #[default]
    None,
    /// The values of the CPUs follow.
    Cpus,
    /// Devices, with their place in the columns.
    Devices(usize),
}

/// The report that is read.
#[derive(Default)]
struct Reports {
    options: Options,
    host: String,
    order: Option<DateOrder>,
    /// Seconds between two reports, if the file has the command.
    interval_s: Option<i64>,
    columns: Columns,
    notes: Notes,
    timeline: Timeline,
    /// The clock of old versions, which print no date.
    course: Course,
    offset_s: Option<i64>,
    /// The time of the next report, where they have none.
    next_ns: i64,
    /// Whether the report since the boot was read.
    has_first: bool,
    table: Table,
    titles: Vec<String>,
    /// The tables of this report, its time, its line and its values.
    tables: Vec<String>,
    time_ns: Option<i64>,
    line: u64,
    values: Vec<f64>,
}

impl Reports {
    /// Reads a line. True if it ends a report, whose sample is returned.
    fn read(&mut self, line: Line<'_>, sample: &mut Sample) -> bool {
        let (number, text) = (line.number, sysstat::plain(line.text));
        let text = text.trim_end();
        if text.trim().is_empty() {
            if self.table == Table::Cpus {
                self.table = Table::None;
            }
            return false;
        }
        if let Some(banner) = Banner::parse(text) {
            let is_whole = self.end(sample);
            self.begin_file(&banner);
            return is_whole;
        }
        let titles: Vec<&str> = text.split_whitespace().take(TITLES_MAX).collect();
        let device = device_at(&titles);
        if device.is_some() || titles[0] == "avg-cpu:" {
            let key = titles.join(" ");
            let is_next = self.tables.contains(&key) || self.tables.len() == TABLES_MAX;
            let is_whole = is_next && self.end(sample);
            if self.tables.is_empty() && self.line == 0 {
                self.line = number;
            }
            self.tables.push(key);
            self.titles = titles.iter().map(|title| title.to_string()).collect();
            self.table = device.map_or(Table::Cpus, Table::Devices);
            return is_whole;
        }
        if let Some(time_ns) = self.time(text, number) {
            let is_whole = self.end(sample);
            (self.time_ns, self.line) = (Some(time_ns), number);
            return is_whole;
        }
        match self.table {
            Table::None => match sysstat::interval_s(text, "iostat") {
                Some(interval_s) => self.interval_s = Some(interval_s),
                None => self.notes.add("a line is in no report and was left out", number, ""),
            },
            Table::Cpus => {
                self.table = Table::None;
                self.row("", &titles, 1, number);
            }
            Table::Devices(at) => self.devices(text, at, number),
        }
        false
    }

    fn devices(&mut self, text: &str, at: usize, line: u64) {
        let mut cells: Vec<&str> = text.split_whitespace().take(TITLES_MAX).collect();
        if at == 0 {
            let device = cells.remove(0);
            self.row(device, &cells, 1, line);
            return;
        }
        // A name at the end may have blanks.
        let mut rest = text.trim_start();
        for _ in 0..at {
            rest = rest.split_once(char::is_whitespace).map_or("", |(_, after)| after.trim_start());
        }
        cells.truncate(at);
        self.row(rest.trim(), &cells, 0, line);
    }

    /// Reads the values of a device, or of the CPUs. `skipped` titles come before theirs.
    fn row(&mut self, device: &str, cells: &[&str], skipped: usize, line: u64) {
        let end = if skipped == 0 { self.titles.len() - 1 } else { self.titles.len() };
        let is_cpus = self.titles[0] == "avg-cpu:";
        if cells.len() != end - skipped || (device.is_empty() && !is_cpus) {
            self.notes.add("a line has other values than its table has titles and was left out", line, "");
            return;
        }
        for (title, cell) in self.titles[skipped..end].iter().zip(cells) {
            let Some(value) = sysstat::number(cell) else {
                self.notes.add(NO_NUMBER, line, "run iostat without -h and --human");
                continue;
            };
            let named = |title: &str| if is_cpus { title.to_string() } else { format!("{title}({device})") };
            // The queue has its name of today.
            let (path, written) = match title.as_str() {
                "avgqu-sz" => (named("aqu-sz"), named("avgqu-sz")),
                title => (named(title), String::new()),
            };
            match self.columns.place(&self.host, path, written) {
                Some(place) => {
                    if self.values.len() <= place {
                        self.values.resize(place + 1, f64::NAN);
                    }
                    self.values[place] = value;
                }
                None => self.notes.add(TOO_MANY, line, ""),
            }
        }
    }

    fn begin_file(&mut self, banner: &Banner<'_>) {
        self.host = banner.host.to_string();
        self.has_first = false;
        self.timeline.begin();
        // Noted only if a time depends on it.
        let midnight = banner.midnight_ns(&self.options, 0, &mut Notes::default());
        self.course = Course { local_ns: midnight.map_or(0, |(ns, _)| ns), shifted_ns: 0 };
    }

    /// Nanoseconds since 1970 UTC of a line with a time: `06/01/20 12:53:20`, `2020-06-01T12:53:20+0200`, `Time: 12:53:20`.
    fn time(&mut self, text: &str, line: u64) -> Option<i64> {
        let offset_s = self.options.utc_offset_s;
        if let Some(time) = text.strip_prefix("Time: ") {
            let (clock, _) = sysstat::clock(time)?;
            self.course.go_to(clock);
            return self.course.ns().checked_add(offset_s.checked_mul(SECOND_NS)?);
        }
        if let Some((clock @ Clock::Unix(_), "")) = sysstat::clock(text) {
            self.course.go_to(clock);
            return Some(self.course.ns());
        }
        let (local, offset_s) = match zone(text) {
            Some((local, east_s)) => {
                self.offset_s = Some(-east_s);
                (local, -east_s)
            }
            None => (text, offset_s),
        };
        if !local.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let (ns, order) = sysstat::read_time(local, &self.options, line, &mut self.notes)?;
        self.order = Some(order);
        ns.checked_add(offset_s.checked_mul(SECOND_NS)?)
    }

    /// Ends the report. True if it is a sample.
    fn end(&mut self, sample: &mut Sample) -> bool {
        let (time_ns, line) = (self.time_ns.take(), std::mem::take(&mut self.line));
        let is_there = self.values.iter().any(|value| !value.is_nan());
        self.tables.clear();
        self.table = Table::None;
        if !is_there {
            return false;
        }
        sample.values.clear();
        sample.values.append(&mut self.values);
        sample.values.resize(self.columns.len(), f64::NAN);
        let end_ns = match time_ns {
            Some(time_ns) => time_ns,
            None => {
                let end_ns = self.next_ns;
                self.next_ns = end_ns.saturating_add(self.interval_s.unwrap_or(1) * SECOND_NS);
                end_ns
            }
        };
        let is_first = !std::mem::replace(&mut self.has_first, true);
        if time_ns.is_none() && !is_first {
            let what = match self.interval_s {
                Some(_) => "reports have no time: the first is at 1970",
                None => "reports have no time: the first is at 1970, and they are 1 s apart",
            };
            self.notes.add(what, line, "run iostat -t to have times");
        }
        // The report since the boot is where the next window begins.
        match self.timeline.window(end_ns, line, &mut self.notes) {
            Some(window) => (sample.begin_unix_ns, sample.end_unix_ns) = window,
            None => return false,
        }
        !is_first
    }
}

/// A time without its zone, and the seconds that this is east of UTC.
fn zone(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix('Z') {
        return Some((local, 0));
    }
    let at = text.len().checked_sub(5)?;
    let (local, zone) = (text.get(..at)?, text.get(at..)?);
    let sign = match zone.as_bytes()[0] {
        b'+' => 1,
        b'-' if local.contains(':') => -1,
        _ => return None,
    };
    let digits: i64 = zone[1..].parse::<u16>().ok()?.into();
    Some((local, sign * (digits / 100 * 3_600 + digits % 100 * 60)))
}

impl CounterLog for IostatLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::Iostat
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        while !self.is_at_end {
            match self.lines.next() {
                Ok(Some(line)) => {
                    if self.reports.read(line, sample) {
                        return Ok(true);
                    }
                }
                Ok(None) => {
                    self.is_at_end = true;
                    return Ok(self.reports.end(sample));
                }
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault);
                }
            }
        }
        Ok(false)
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.reports.columns.list()
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        (self.reports.order, self.reports.offset_s)
    }

    fn notes(&self) -> Vec<Fault> {
        self.reports.notes.list()
    }
}

#[cfg(test)]
mod tests;
