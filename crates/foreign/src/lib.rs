//! Results of other tools and counters of other systems, read into one form.
//!
//! A file is recognized by its content ([`FORMATS`]). It has either runs of a load ([`LoadRun`]) or counters over time
//! ([`CounterLog`]), which are read one sample after another in constant memory. What a tool does not report is absent,
//! never zero. Files are those of others: every reader expects damaged, truncated and foreign ones, and says where and what.
//!
//! A number of a file becomes an integer through [`number`] only, and a run reaches others only as a [`Checked`] one.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_sign_loss))]

mod blg;
mod checked;
mod counters;
mod date;
mod diskspd;
#[cfg(test)]
mod extremes;
mod figures;
mod fio;
mod gatling;
mod h2load;
mod input;
mod iometer;
mod iostat;
mod json;
mod jtl;
mod k6;
mod lines;
mod load;
mod number;
mod oha;
mod openmetrics;
mod perfmon;
mod requests;
mod sar;
mod sqlio;
mod sysstat;
mod table;
mod tags;
#[cfg(test)]
mod testing;
mod vegeta;
mod vmstat;
mod wcat;
mod wrk;

use std::fmt;
use std::io::{self, Read};

use model::figure::Figures;

pub use checked::Checked;
pub use counters::{CheckedLog, CounterColumn, CounterFamily, CounterLog, Sample};
pub use date::DateOrder;
pub use fio::{FioLog, is_fio_log_name, join_fio_logs};
pub use load::LoadRun;
pub use openmetrics::{ParsedLine, Point, Series, SeriesKind, SeriesParser};

/// Bytes of a file by which its format is recognized.
pub const HEAD_BYTES: usize = 64 << 10;

/// What is wrong with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; 0 where there is none.
    pub line: u64,
    /// What is wrong.
    pub what: String,
    /// What to do; may be empty.
    pub help: String,
}

impl Fault {
    /// A fault in a line.
    pub fn at(line: u64, what: impl Into<String>, help: impl Into<String>) -> Fault {
        Fault { line, what: what.into(), help: help.into() }
    }

    /// A file that cannot be read.
    fn of_file(error: &io::Error) -> Fault {
        Fault::at(0, format!("cannot be read: {error}"), "")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => out.write_str(&self.what),
            line => write!(out, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for Fault {}

/// How files are read where they do not say it themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Seconds to add to times without a zone so that they are UTC.
    pub utc_offset_s: i64,
    /// The order of day and month; none for that which fits.
    pub date_order: Option<DateOrder>,
}

/// What a file has.
pub enum Content {
    /// Runs of a load, by [`Content::load`].
    Load(Vec<Checked<LoadRun>>),
    /// Counters.
    Counters(CheckedLog),
    /// The course of a load that fio logged: [`join_fio_logs`].
    FioLog(Box<FioLog>),
    /// Figures that a report states, without a run to record.
    Figures(Vec<Figures>),
}

/// A file to read.
pub type Source = Box<dyn Read>;

/// The begin of a file, by which its format is recognized.
struct Head<'a> {
    /// As text.
    text: &'a str,
    /// As it is.
    bytes: &'a [u8],
}

#[cfg(test)]
impl<'a> Head<'a> {
    /// That of a text.
    fn of(text: &'a str) -> Head<'a> {
        Head { text, bytes: text.as_bytes() }
    }
}

impl std::ops::Deref for Head<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.text
    }
}

/// A foreign format.
pub struct Format {
    /// Its name, as in messages.
    pub name: &'static str,
    /// What is read of it.
    pub about: &'static str,
    /// Whether a file is of this format.
    recognize: fn(&Head<'_>) -> bool,
    open: fn(Source, &Options) -> Result<Content, Fault>,
}

/// All of them, in the order in which they are tried.
pub static FORMATS: &[&Format] = &[
    // Counters.
    &perfmon::FORMAT,
    &blg::FORMAT,
    &sar::FORMAT,
    &sar::SADF,
    &sar::SADC,
    &iostat::FORMAT,
    &vmstat::FORMAT,
    &openmetrics::FORMAT,
    // Disks.
    &sqlio::FORMAT,
    &diskspd::FORMAT,
    &iometer::FORMAT,
    &fio::FORMAT,
    &fio::LOGS,
    &fio::OTHERS,
    // Servers.
    &gatling::FORMAT,
    &h2load::FORMAT,
    &jtl::FORMAT,
    &k6::FORMAT,
    &oha::FORMAT,
    &vegeta::FORMAT,
    &wcat::FORMAT,
    &wrk::FORMAT,
    // Reports. Many tables have such columns, so that these are the last.
    &figures::FILE,
    &figures::TABLE,
];

/// The format of a file and what it has.
///
/// # Errors
/// If no format is recognized, or if the file is damaged before anything of it can be used.
pub fn open(mut from: Source, options: &Options) -> Result<(&'static Format, Content), Fault> {
    let mut head = vec![0; HEAD_BYTES];
    let mut length = 0;
    while length < head.len() {
        match from.read(&mut head[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::of_file(&error)),
        }
    }
    head.truncate(length);
    if head.is_empty() {
        return Err(Fault::at(0, "the file is empty", "write the result again"));
    }
    let text = input::decoded(&head);
    let begin = Head { text: &text, bytes: &head };
    let Some(format) = FORMATS.iter().copied().find(|format| (format.recognize)(&begin)) else {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        return Err(Fault::at(0, "the format is not known", format!("the formats are {}", names.join(", "))));
    };
    let whole: Source = Box::new(io::Cursor::new(head).chain(from));
    (format.open)(whole, options).map(|content| (format, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How files of each format begin.
    const HEADS: [(&str, &str); 18] = [
        ("perfmon-csv", "\"(PDH-CSV 4.0)\",\"\\\\HOST\\System\\Threads\"\r\n"),
        ("sqlio", "C:\\>sqlio -kW\r\nsqlio v1.5.SG\r\n"),
        ("gatling", "RUN\ta.Sim\tsim\t1500000000000\t \t3.9.5\n"),
        ("gatling", "\0\0\0\0\u{6}3.13.5\0\0\0\0\u{5}a.Sim\0"),
        ("h2load", "starting benchmark...\nspawning thread #0: 2 total client(s). 50 total requests\n"),
        ("jtl", "timeStamp,elapsed,label,responseCode\n"),
        ("jtl", "1500000000000,7,A,200,OK,T 1-1,text,true,,300,100,1,1,5,0,0\n"),
        ("jtl", "<?xml version=\"1.0\"?>\n<testResults version=\"1.2\">\n"),
        ("k6", "metric_name,timestamp,metric_value,check\n"),
        ("k6", "{\"type\":\"Metric\",\"data\":{\"name\":\"http_reqs\"},\"metric\":\"http_reqs\"}\n"),
        ("k6", "{\"root_group\":{},\"options\":{},\"state\":{},\"metrics\":{\"http_reqs\":{}}}"),
        ("k6", "{\"metrics\":{\"http_reqs\":{\"count\":1}},\"root_group\":{}}"),
        ("k6", "{\"config\":{},\"metadata\":{\"k6_version\":\"1.8.1\"},\"results\":{}}"),
        ("oha", "{\"summary\":{\"successRate\":1,\"slowest\":1,\"requestsPerSec\":1},\"metrics\":{}}"),
        ("vegeta", "{\"latencies\":{},\"bytes_in\":{},\"bytes_out\":{}}"),
        ("vegeta", "Bucket         #   %       Histogram\n[0s,    1ms]   13  26.00%  ###\n"),
        ("wcat", "<report><section name=\"summary\"><table name=\"summarydata\"/></section></report>"),
        ("wrk", "Running 1s test @ http://127.0.0.1/\n  1 threads and 2 connections\n"),
    ];

    #[test]
    fn each_file_is_of_one_format() {
        for (expected, head) in HEADS {
            let found: Vec<&str> = FORMATS
                .iter()
                .filter(|format| (format.recognize)(&Head::of(head)))
                .map(|format| format.name)
                .collect();
            assert_eq!(found, [expected], "{head}");
        }
    }

    #[test]
    fn other_files_are_of_none() {
        for head in
            ["a,b\n1,2\n", "{\"a\": 1}", "<html></html>", "# a\n\ntext\n", "\u{7f}ELF\0\0", "[]", "\0\0\0\0"]
        {
            assert!(FORMATS.iter().all(|format| !(format.recognize)(&Head::of(head))), "{head}");
        }
    }
}
