//! Results of JMeter (JTL): CSV with or without a header, and XML.
//!
//! A transaction controller writes a sample of its own beside those of its requests, or instead of them. Requests are counted,
//! and the sample of a controller only where its requests are not in the file. A page counts once: its redirects and embedded
//! resources, which XML nests in it, do not count again.

mod xml;

use model::{Level, Shape};

use crate::date::{self, DateOrder};
use crate::input::{Text, peek};
use crate::lines::{Unread, counted};
use crate::requests::{Request, Requests};
use crate::table::{Row, Rows};
use crate::{Content, Fault, Format, LoadRun, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "jtl",
    about: "JMeter JTL as CSV or XML: each request, by its label",
    recognize: |head| recognize(head),
    open,
};

/// How the response message of a transaction controller begins. The number of its samples follows.
const TRANSACTION: &str = "Number of samples in transaction : ";

/// Columns of all versions without a header.
const DEFAULT: [&str; 8] =
    ["timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success"];

fn recognize(head: &str) -> bool {
    xml::recognize(head) || layout(head).is_some()
}

/// The delimiter, and the columns if there is a header.
fn layout(head: &str) -> Option<(u8, Option<Columns>)> {
    let head = head.trim_start();
    for delimiter in delimiters(head.lines().next()?) {
        let mut rows = Rows::new(head.as_bytes(), delimiter);
        let Ok(Some(row)) = rows.next() else { continue };
        if let Some(columns) = Columns::named(row) {
            return Some((delimiter, Some(columns)));
        }
        if Columns::without_header(row).is_some() {
            return Some((delimiter, None));
        }
    }
    None
}

/// The signs that may be the delimiter: those that are usual, and all others of the first line.
fn delimiters(first: &str) -> Vec<u8> {
    let mut signs = vec![b',', b'\t', b';', b'|'];
    for sign in first.bytes().take(4096) {
        let is_other = sign.is_ascii_alphanumeric() || !sign.is_ascii() || matches!(sign, b'"' | b'_');
        if !is_other && !signs.contains(&sign) {
            signs.push(sign);
        }
    }
    signs
}

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let (head, whole) = peek(Text::new(from))?;
    let shown = String::from_utf8_lossy(&head).into_owned();
    let samples = match xml::recognize(&shown) {
        true => xml::read(whole, options)?,
        false => {
            let Some((delimiter, columns)) = layout(&shown) else {
                let help = "write the result with jmeter.save.saveservice.print_field_names=true";
                return Err(Fault::at(1, "the columns of JMeter are not recognized", help));
            };
            csv(Rows::new(whole, delimiter), columns, order(&shown, delimiter, options)?, options)?
        }
    };
    samples.finish().and_then(|run| Content::load(vec![run]))
}

/// The order of day and month in the first rows.
fn order(head: &str, delimiter: u8, options: &Options) -> Result<DateOrder, Fault> {
    let mut dates = Vec::new();
    let mut rows = Rows::new(head.as_bytes(), delimiter);
    let mut at = 0;
    while let Ok(Some(row)) = rows.next() {
        match Columns::named(row) {
            Some(columns) => at = columns.time,
            None => dates.extend(row.cell(at).map(<[u8]>::to_vec)),
        }
    }
    options.date_order.or_else(|| date::order_of(dates.iter().map(Vec::as_slice))).ok_or_else(|| {
        let help = "these are several results in one file: import each on its own";
        Fault::at(2, "the dates have neither the day nor the month first in every row", help)
    })
}

/// Where the columns are that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    time: usize,
    elapsed: usize,
    label: Option<usize>,
    code: Option<usize>,
    message: Option<usize>,
    success: Option<usize>,
    bytes: Option<usize>,
    threads: Option<usize>,
    samples: Option<usize>,
}

impl Columns {
    /// Those of a header.
    fn named(row: Row<'_>) -> Option<Columns> {
        let at = |name: &str| row.cells().position(|cell| cell.trim_ascii() == name.as_bytes());
        Some(Columns {
            time: at("timeStamp")?,
            elapsed: at("elapsed")?,
            label: at("label"),
            code: at("responseCode"),
            message: at("responseMessage"),
            success: at("success"),
            bytes: at("bytes"),
            threads: at("allThreads"),
            samples: at("SampleCount"),
        })
    }

    /// Those that JMeter writes if it is not configured. Before the bytes there is the failure message since 3.0; after them the
    /// sent bytes since 3.1, and the numbers of threads since 2.9.
    fn without_header(row: Row<'_>) -> Option<Columns> {
        let digits = |at: usize| {
            row.cell(at).is_some_and(|cell| !cell.is_empty() && cell.iter().all(u8::is_ascii_digit))
        };
        let is_flag = row.cell(7).is_some_and(|cell| matches!(cell, b"true" | b"false"));
        let is_time = row.cell(0).is_some_and(|cell| time(cell, DateOrder::MonthFirst, 0).is_some())
            || row.cell(0).is_some_and(|cell| time(cell, DateOrder::DayFirst, 0).is_some());
        if row.len() < DEFAULT.len() + 1 || !is_flag || !is_time || !digits(1) {
            return None;
        }
        // A failure message is no number.
        let bytes = if digits(8) { 8 } else { 9 };
        let threads = match (bytes, row.len()) {
            (_, ..=10) => None,
            (9, 15..) => Some(bytes + 3),
            _ => Some(bytes + 2),
        };
        Some(Columns {
            time: 0,
            elapsed: 1,
            label: Some(2),
            code: Some(3),
            message: Some(4),
            success: Some(7),
            bytes: Some(bytes),
            threads,
            samples: None,
        })
    }
}

/// Nanoseconds since 1970 of milliseconds, or of a date without a zone.
fn time(cell: &[u8], order: DateOrder, offset_s: i64) -> Option<i64> {
    let cell = cell.trim_ascii();
    if (9..=15).contains(&cell.len()) && cell.iter().all(u8::is_ascii_digit) {
        let ms: i64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
        return ms.checked_mul(1_000_000);
    }
    date::unix_ns(cell, order)?.checked_add(offset_s.checked_mul(1_000_000_000)?)
}

fn csv<R: std::io::Read>(
    mut rows: Rows<R>,
    columns: Option<Columns>,
    order: DateOrder,
    options: &Options,
) -> Result<Samples, Fault> {
    let mut samples = Samples::default();
    if columns.is_none() {
        samples.notes.push("the file has no header: the default columns of JMeter are assumed".into());
    }
    let mut columns = columns;
    loop {
        // A damaged end is no reason to lose what is before.
        let row = match rows.next() {
            Ok(None) => break,
            Ok(Some(row)) => row,
            Err(fault) if samples.count > 0 => {
                samples.notes.push(format!("{fault}; what follows was left out"));
                break;
            }
            Err(fault) => return Err(fault),
        };
        // Results that were appended have a header each.
        if let Some(named) = Columns::named(row) {
            columns = Some(named);
            continue;
        }
        let Some(of) = columns.or_else(|| Columns::without_header(row)) else {
            samples.unread.add(row.line);
            continue;
        };
        let text = |at: Option<usize>| at.and_then(|at| row.cell(at)).map(String::from_utf8_lossy);
        let number = |at: Option<usize>| text(at)?.trim().parse::<u64>().ok();
        let begin_unix_ns = row.cell(of.time).and_then(|cell| time(cell, order, options.utc_offset_s));
        let elapsed_ms = number(Some(of.elapsed));
        let success = text(of.success);
        let code = text(of.code);
        let has_failed = match (success.as_deref(), code.as_deref()) {
            (Some(word), _) if word.eq_ignore_ascii_case("true") => Some(false),
            (Some(word), _) if word.eq_ignore_ascii_case("false") => Some(true),
            (None, code) if of.success.is_none() => {
                samples.has_no_success = true;
                Some(!code.is_none_or(is_good))
            }
            _ => None,
        };
        let is_text = row.cell(of.time).is_some_and(|cell| !cell.iter().all(u8::is_ascii_digit));
        let (Some(begin_unix_ns), Some(elapsed_ms), Some(has_failed)) =
            (begin_unix_ns, elapsed_ms, has_failed)
        else {
            samples.unread.add(row.line);
            continue;
        };
        samples.has_dates |= is_text;
        samples.has_no_message |= of.message.is_none();
        samples.add(&Sample {
            label: text(of.label).as_deref().unwrap_or("request"),
            begin_unix_ns,
            elapsed_ms,
            has_failed,
            bytes: number(of.bytes),
            threads: number(of.threads),
            samples: number(of.samples),
            transaction: transaction(text(of.message).as_deref()),
        });
    }
    Ok(samples)
}

/// Whether a response code is one of success.
fn is_good(code: &str) -> bool {
    code.trim().parse().is_ok_and(|code: u16| (200..400).contains(&code))
}

/// The number of samples of a transaction controller, by its response message.
fn transaction(message: Option<&str>) -> Option<u64> {
    let count = message?.trim_start().strip_prefix(TRANSACTION)?;
    Some(count.split(',').next()?.trim().parse().unwrap_or(0))
}

/// A sample.
struct Sample<'a> {
    label: &'a str,
    begin_unix_ns: i64,
    elapsed_ms: u64,
    has_failed: bool,
    bytes: Option<u64>,
    threads: Option<u64>,
    /// How many samples it is.
    samples: Option<u64>,
    /// Samples of a transaction controller.
    transaction: Option<u64>,
}

/// All samples of a file.
#[derive(Default)]
struct Samples {
    requests: Requests,
    count: u64,
    /// Samples of transaction controllers.
    controllers: Requests,
    transactions: u64,
    /// Samples in transaction controllers, as they say.
    inner: u64,
    /// Transaction controllers whose samples are in them.
    opened: u64,
    /// Redirects and embedded resources.
    nested: u64,
    /// Samples that are sums of several.
    sums: u64,
    threads_max: u64,
    has_bytes: bool,
    has_dates: bool,
    has_no_success: bool,
    has_no_message: bool,
    unread: Unread,
    notes: Vec<String>,
}

impl Samples {
    fn add(&mut self, sample: &Sample<'_>) {
        if sample.samples.is_some_and(|samples| samples != 1) {
            self.sums += 1;
            return;
        }
        let request = Request {
            operation: if sample.label.is_empty() { "request" } else { sample.label },
            begin_unix_ns: sample.begin_unix_ns,
            took_ns: sample.elapsed_ms.saturating_mul(1_000_000),
            has_failed: sample.has_failed,
            bytes: if sample.has_failed { 0 } else { sample.bytes.unwrap_or(0) },
        };
        self.has_bytes |= sample.bytes.is_some();
        self.threads_max = self.threads_max.max(sample.threads.unwrap_or(0));
        match sample.transaction {
            Some(inner) => {
                self.transactions += 1;
                self.inner = self.inner.saturating_add(inner);
                self.controllers.add(&request);
            }
            None => {
                self.count += 1;
                self.requests.add(&request);
            }
        }
    }

    fn finish(self) -> Result<LoadRun, Fault> {
        // Their requests are in the file if there are about as many.
        let are_inside = self.transactions > 0 && self.count > 0 && self.count >= self.inner / 2;
        let mut requests = self.requests;
        if !are_inside {
            requests.merge(self.controllers);
        }
        let Some(mut run) = requests.finish("jmeter", "http")? else {
            let line = self.unread.first_line;
            return Err(match (self.sums, self.unread.count) {
                (1.., _) => Fault::at(
                    0,
                    "the samples are sums of several requests",
                    "set mode=Standard in jmeter.properties and repeat the test",
                ),
                (0, 0) => Fault::at(0, "the file has no samples", "was the test stopped too early?"),
                (0, _) => Fault::at(
                    line,
                    "the row has no time, duration or success",
                    "set jmeter.save.saveservice.timestamp_format=ms and save time and success",
                ),
            });
        };
        run.notes.extend(self.notes);
        self.unread.note(&mut run.notes);
        let mut note = |is: bool, text: String| {
            if is {
                run.notes.push(text);
            }
        };
        let controllers = counted(self.transactions, "sample");
        note(
            are_inside,
            format!("left out: {controllers} of transaction controllers, whose requests are counted"),
        );
        note(
            self.transactions > 0 && !are_inside,
            format!("counted: {controllers} of transaction controllers, whose requests are not in the file"),
        );
        let opened = counted(self.opened, "transaction controller");
        note(self.opened > 0, format!("left out: {opened}, whose requests are counted"));
        let nested = counted(self.nested, "sample");
        note(
            self.nested > 0,
            format!("left out: {nested} in a page, such as redirects and embedded resources"),
        );
        note(
            self.sums > 0,
            format!("left out: {} with the sum of several samples", counted(self.sums, "row")),
        );
        note(
            self.has_no_success,
            "the file does not say which requests failed: response codes decide".into(),
        );
        note(
            self.has_no_message,
            "the file has no response messages: transaction controllers, if any, are counted too".into(),
        );
        note(self.has_dates, "times have no zone: they count as UTC unless an offset is given".into());
        note(!self.has_bytes, "the file has no bytes of responses".into());
        if self.threads_max > 0 {
            run.shape = Some(Shape::closed(self.threads_max));
            run.facts.insert("jmeter.threads_max".into(), Level::Count(self.threads_max));
            run.notes.push("users are the largest number of threads; timers are not in the file".into());
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests;
