//! What `sadf` of sysstat writes: CSV with semicolons (`sadf -d`, `sadf -d -h`) and JSON (`sadf -j`).
//!
//! Both have the interval of each sample, so that each window has its own begin. CSV has one table after the other: the rows
//! of one time are joined as those of `sar`. With `-h`, a line has all tables of a time; more than one list of instances in it
//! is refused, because the lists have no ends. JSON has an object for each time, which is read on its own.
//!
//! Paths are those of `sar`. CPU `-1` of CSV is `all`.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use super::{names, no_sample};
use crate::counters::{CounterColumn, CounterFamily, CounterLog, Joined, Sample, ahead};
use crate::date::{self, DateOrder};
use crate::input::{Lines, Text, peek};
use crate::sysstat::{NO_NUMBER, SECOND_NS, TOO_MANY};
use crate::{Content, Fault, Format, HEAD_BYTES, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "sadf",
    about: "sadf -d as CSV and sadf -j as JSON: all tables, joined by their times",
    recognize: |head| is_csv(head.text) || is_json(head.text),
    open,
};

/// The first columns of CSV.
const FIRST: &str = "# hostname;interval;timestamp";

/// The longest object of one time in JSON.
const OBJECT_BYTES_MAX: usize = 16 << 20;

/// The longest name of a member of JSON that is kept.
const NAME_BYTES_MAX: usize = 1_024;

fn is_csv(head: &str) -> bool {
    head.lines().take(8).any(|line| line.starts_with(FIRST))
}

fn is_json(head: &str) -> bool {
    head.trim_start().starts_with('{') && head.contains("\"sysstat\"") && head.contains("\"file-date\"")
}

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let (head, whole) = peek(Text::new(from))?;
    let is_csv = is_csv(&String::from_utf8_lossy(&head));
    let reader = match is_csv {
        true => Reader::Csv(Csv { lines: Lines::new(whole), groups: Vec::new() }),
        false => Reader::Json(Json::new(whole)),
    };
    let state = State { options: *options, joined: Joined::default() };
    let log = SadfLog { reader, state, is_at_end: false };
    ahead(log, |log| no_sample(&log.state.joined))
}

struct SadfLog {
    reader: Reader,
    state: State,
    is_at_end: bool,
}

enum Reader {
    Csv(Csv),
    Json(Json),
}

/// The samples that are not complete.
struct State {
    options: Options,
    joined: Joined,
}

impl State {
    /// The window of a time and its interval in seconds; none if there is no time.
    fn begin(&mut self, time: &str, interval_s: Option<i64>, line: u64) -> Option<i64> {
        let Some(end_ns) = self.time(time, line) else {
            self.joined.notes.add("a row has no time and was left out", line, "");
            return None;
        };
        let interval_ns = interval_s.unwrap_or(0).max(0).saturating_mul(SECOND_NS);
        self.joined.begin(end_ns.saturating_sub(interval_ns), end_ns, line).then_some(end_ns)
    }

    /// Nanoseconds since 1970 UTC of `2020-10-12 00:10:01 UTC`, a local time, or seconds since 1970.
    fn time(&mut self, text: &str, line: u64) -> Option<i64> {
        let text = text.trim();
        if text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse::<i64>().ok()?.checked_mul(SECOND_NS);
        }
        let (local, zone) = match text.rsplit_once(' ') {
            Some((local, zone)) if zone.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                (local, zone)
            }
            _ => (text, ""),
        };
        let ns = date::unix_ns(local.as_bytes(), DateOrder::MonthFirst)?;
        if zone == "UTC" || zone == "GMT" {
            return Some(ns);
        }
        if self.options.utc_offset_s == 0 {
            let help = "give --utc-offset if this is wrong, or write the log without -t and -T";
            self.joined.notes.add("times are local, and were taken as UTC", line, help);
        }
        ns.checked_add(self.options.utc_offset_s.checked_mul(SECOND_NS)?)
    }

    fn set(&mut self, end_ns: i64, host: &str, name: (&str, &str, &str), value: f64, line: u64) {
        let (option, column, instance) = name;
        let (path, written) = names::path(option, column, instance);
        match self.joined.columns.place(host, path, written) {
            Some(place) => self.joined.set(end_ns, place, value),
            None => self.joined.notes.add(TOO_MANY, line, "write fewer instances, or split the log"),
        }
    }
}

/// CSV.
struct Csv {
    lines: Lines,
    groups: Vec<Group>,
}

/// Columns of one table in a line.
struct Group {
    option: &'static str,
    columns: Vec<String>,
    /// The column with the instance.
    instance: Option<usize>,
    /// Whether the columns are repeated for each instance, as with `-h`.
    is_repeated: bool,
    /// Whether they are left out.
    is_left_out: bool,
}

impl Csv {
    /// Reads a line; false at the end.
    fn read(&mut self, state: &mut State) -> Result<bool, Fault> {
        let Some(line) = self.lines.next()? else { return Ok(false) };
        let text = line.text.trim_end();
        if line.is_cut {
            state.joined.notes.add("a line is longer than 1 MiB and was left out", line.number, "");
        } else if let Some(rest) = text.strip_prefix(FIRST) {
            self.groups = groups(rest, line.number, &mut state.joined)?;
        } else if !text.is_empty() && !text.starts_with('#') {
            read_row(text, &self.groups, line.number, state);
        }
        Ok(true)
    }
}

/// The groups of the columns after the first three.
fn groups(rest: &str, line: u64, joined: &mut Joined) -> Result<Vec<Group>, Fault> {
    let mut groups: Vec<Group> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    let end = |columns: &mut Vec<String>, is_repeated: bool| {
        let instance = columns.iter().position(|column| names::title(column) == names::Title::Instance);
        let option = names::option(columns.iter().map(String::as_str));
        Group {
            option: option.unwrap_or_default(),
            is_left_out: columns.iter().any(|column| column == "CPU*" || column == "BUS"),
            columns: std::mem::take(columns),
            instance,
            is_repeated,
        }
    };
    for column in rest.split(';').skip(1) {
        let is_last = column.ends_with("[...]");
        let column = column.strip_suffix("[...]").unwrap_or(column);
        // A table with instances begins with them, except that of USB devices.
        let is_begin = names::title(column) == names::Title::Instance || column == "manufact";
        let is_usb = column == "BUS" && columns.first().is_some_and(|first| first == "manufact");
        if is_begin && !is_usb && !columns.is_empty() {
            groups.extend(split(std::mem::take(&mut columns)).map(|mut part| end(&mut part, false)));
        }
        columns.push(column.to_string());
        if is_last {
            groups.push(end(&mut columns, true));
        }
    }
    groups.extend(split(columns).map(|mut part| end(&mut part, false)));
    if groups.iter().filter(|group| group.is_repeated).count() > 1 {
        let what = "a line has several lists of instances without their ends";
        return Err(Fault::at(line, what, "write the log with sadf -d, without -h"));
    }
    if groups.iter().any(|group| group.columns.iter().any(|column| column == "CPU*")) {
        let help = "write the log with sadf -j, which names the CPUs";
        joined.notes.add("the interrupts of CPUs have no column titles and were left out", line, help);
    }
    if groups.iter().any(|group| group.option.is_empty() && !group.is_left_out) {
        let help = "its columns have names without an option";
        joined.notes.add("the option of a table is not known", line, help);
    }
    Ok(groups)
}

/// Columns without instances, split into tables.
fn split(columns: Vec<String>) -> impl Iterator<Item = Vec<String>> {
    let mut tables: Vec<Vec<String>> = Vec::new();
    let has_instance = columns.iter().any(|column| names::title(column) == names::Title::Instance);
    for column in columns {
        let is_begin = !has_instance && names::begins_table(&column);
        match tables.last_mut() {
            Some(table) if !is_begin => table.push(column),
            _ => tables.push(vec![column]),
        }
    }
    tables.into_iter()
}

fn read_row(text: &str, groups: &[Group], line: u64, state: &mut State) {
    let cells: Vec<&str> = text.split(';').collect();
    let &[host, interval, time, ..] = cells.as_slice() else {
        state.joined.notes.add("a line is no row and was left out", line, "");
        return;
    };
    let values = &cells[3..];
    if let &[only] = values
        && (super::is_restart(only) || only.starts_with("COM "))
    {
        if super::is_restart(only) {
            state.joined.complete_all();
        }
        return;
    }
    if groups.is_empty() {
        state.joined.notes.add("a row is in no table and was left out", line, "");
        return;
    }
    if groups.iter().all(|group| group.is_left_out) {
        return;
    }
    let fixed: usize =
        groups.iter().filter(|group| !group.is_repeated).map(|group| group.columns.len()).sum();
    let width: usize = groups.iter().filter(|group| group.is_repeated).map(|group| group.columns.len()).sum();
    let over = values.len().checked_sub(fixed);
    let repeats = match over {
        Some(0) => 0,
        Some(over) if width > 0 && over % width == 0 => over / width,
        _ => {
            let what = "a row has other values than its table has titles and was left out";
            state.joined.notes.add(what, line, "");
            return;
        }
    };
    let Some(end_ns) = state.begin(time, interval.parse().ok(), line) else { return };
    let mut rest = values;
    for group in groups {
        for _ in 0..if group.is_repeated { repeats } else { 1 } {
            let (own, after) = rest.split_at(group.columns.len().min(rest.len()));
            rest = after;
            if group.is_left_out {
                continue;
            }
            let instance =
                match group.instance.and_then(|at| Some((group.columns.get(at)?.as_str(), *own.get(at)?))) {
                    Some(("CPU", "-1")) => "all",
                    Some(("INTR", "-1")) => "sum",
                    Some((_, instance)) => instance,
                    None => "",
                };
            for (column, cell) in group.columns.iter().zip(own) {
                if names::title(column) != names::Title::Value || cell.is_empty() {
                    continue;
                }
                match crate::sysstat::number(cell) {
                    Some(value) => state.set(end_ns, host, (group.option, column, instance), value, line),
                    None => state.joined.notes.add(NO_NUMBER, line, ""),
                }
            }
        }
    }
}

/// JSON, of which one object at a time is in memory.
struct Json {
    from: BufReader<Source>,
    scan: Scan,
}

/// Where the reader is in JSON.
#[derive(Default)]
struct Scan {
    line: u64,
    host: String,
    /// The last string, and the name of the member that is read.
    string: Vec<u8>,
    name: Vec<u8>,
    is_in_string: bool,
    is_escaped: bool,
    /// The depth of the list of samples, if it is being read.
    list: Option<usize>,
    depth: usize,
    /// The object of a sample, as far as it was read.
    object: Vec<u8>,
}

impl Json {
    fn new(from: Source) -> Json {
        Json { from: BufReader::with_capacity(HEAD_BYTES, from), scan: Scan { line: 1, ..Scan::default() } }
    }

    /// Reads to the end of the next object; false at the end of the file.
    fn read(&mut self, state: &mut State) -> Result<bool, Fault> {
        loop {
            let there = self.from.fill_buf().map_err(|error| Fault::of_file(&error))?;
            if there.is_empty() {
                if self.scan.depth > 0 {
                    state.joined.notes.add("the file ends within an object: it is cut", self.scan.line, "");
                }
                return Ok(false);
            }
            let scan = &mut self.scan;
            let (mut used, mut is_whole) = (0, false);
            for byte in there {
                used += 1;
                is_whole = scan.take(*byte);
                if is_whole || scan.object.len() > OBJECT_BYTES_MAX {
                    break;
                }
            }
            self.from.consume(used);
            if scan.object.len() > OBJECT_BYTES_MAX {
                return Err(Fault::at(
                    scan.line,
                    "an object is longer than 16 MiB",
                    "write fewer tables with sadf",
                ));
            }
            if is_whole {
                match serde_json::from_slice::<Value>(&scan.object) {
                    Ok(value) => read_object(&value, &scan.host, scan.line, state),
                    Err(_) => {
                        state.joined.notes.add("an object cannot be read and was left out", scan.line, "")
                    }
                }
                scan.object.clear();
                return Ok(true);
            }
        }
    }
}

impl Scan {
    /// Takes a byte. True if the object of a sample is complete with it.
    fn take(&mut self, byte: u8) -> bool {
        self.line += u64::from(byte == b'\n');
        let is_in_object = self.list.is_some_and(|list| self.depth > list);
        if is_in_object {
            self.object.push(byte);
        }
        if self.is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.is_in_string = false;
                    if !is_in_object && self.name == b"nodename" {
                        self.host = String::from_utf8_lossy(&self.string).into_owned();
                        self.name.clear();
                    }
                    return false;
                }
                _ => {}
            }
            if !is_in_object && self.string.len() < NAME_BYTES_MAX {
                self.string.push(byte);
            }
            return false;
        }
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.string.clear();
            }
            b':' if !is_in_object => std::mem::swap(&mut self.name, &mut self.string),
            b'{' | b'[' => {
                self.depth += 1;
                if byte == b'[' && self.list.is_none() && self.name == b"statistics" {
                    self.list = Some(self.depth);
                } else if self.list.is_some_and(|list| self.depth == list + 1) {
                    self.object.clear();
                    self.object.push(byte);
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                match self.list {
                    Some(list) if self.depth == list => return is_in_object,
                    Some(list) if self.depth < list => {
                        self.list = None;
                        self.name.clear();
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        false
    }
}

/// Adds the object of a sample.
fn read_object(value: &Value, host: &str, line: u64, state: &mut State) {
    let stamp = &value["timestamp"];
    let text = |name: &str| stamp[name].as_str().unwrap_or_default();
    let is_utc = stamp["utc"].as_i64() == Some(1) || stamp["utc"].as_bool() == Some(true);
    let zone = if is_utc { "UTC" } else { text("tz") };
    let time = match text("date") {
        "" => text("time").to_string(),
        date => format!("{date} {} {zone}", text("time")),
    };
    let Some(end_ns) = state.begin(&time, stamp["interval"].as_i64(), line) else { return };
    let Some(members) = value.as_object() else { return };
    for (name, value) in members.iter().filter(|(name, _)| *name != "timestamp") {
        read_member(name, value, host, (end_ns, line), state);
    }
    state.joined.complete_to(end_ns);
}

/// Adds a table, or the tables in a list or in an object such as `network`.
fn read_member(name: &str, value: &Value, host: &str, at: (i64, u64), state: &mut State) {
    match value {
        Value::Array(list) => {
            for value in list {
                read_member(name, value, host, at, state);
            }
        }
        Value::Object(members) => {
            let Some((option, key)) = names::object(name) else {
                for (name, value) in members.iter().filter(|(_, value)| value.is_object() || value.is_array())
                {
                    read_member(name, value, host, at, state);
                }
                return;
            };
            let option = if option == "-u" && members.contains_key("usr") { "-u ALL" } else { option };
            let instance = match members.get(key) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            // Members for readers of old versions.
            let is_old = |member: &str| {
                members.contains_key("areq-sz")
                    && matches!(member, "rd_sec" | "wr_sec" | "dc_sec" | "avgrq-sz" | "avgqu-sz")
            };
            for (member, value) in members.iter().filter(|(member, _)| *member != key && !is_old(member)) {
                match value {
                    Value::Number(number) => {
                        let value = number.as_f64().unwrap_or(f64::NAN);
                        let column = names::column(option, member);
                        state.set(at.0, host, (option, &column, &instance), value, at.1);
                    }
                    Value::Object(_) => read_member(member, value, host, at, state),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

impl CounterLog for SadfLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::Sar
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        loop {
            if self.state.joined.take(sample) {
                return Ok(true);
            }
            if self.is_at_end {
                return Ok(false);
            }
            let more = match &mut self.reader {
                Reader::Csv(csv) => csv.read(&mut self.state),
                Reader::Json(json) => json.read(&mut self.state),
            };
            match more {
                Ok(true) => {}
                Ok(false) => {
                    self.is_at_end = true;
                    self.state.joined.complete_all();
                }
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault);
                }
            }
        }
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.state.joined.columns.list()
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        (None, None)
    }

    fn notes(&self) -> Vec<Fault> {
        self.state.joined.notes.list()
    }
}

#[cfg(test)]
mod tests;
