//! Results of other tools and counters of other systems, read into one form.
//!
//! A file is recognized by its content ([`FORMATS`]). It has either runs of a load ([`LoadRun`]) or counters over time
//! ([`CounterLog`]), which are read one sample after another in constant memory. What a tool does not report is absent,
//! never zero. Files are those of others: every reader expects damaged, truncated and foreign ones, and says where and what.
#![forbid(unsafe_code)]

mod blg;
mod counters;
mod date;
mod input;
mod iostat;
mod load;
mod number;
mod openmetrics;
mod perfmon;
#[allow(dead_code, reason = "more readers follow")]
mod requests;
mod sar;
mod sqlio;
mod sysstat;
mod table;
mod vmstat;

use std::fmt;
use std::io::{self, Read};

pub use counters::{CounterColumn, CounterFamily, CounterLog, Sample};
pub use date::DateOrder;
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
    /// Runs of a load.
    Load(Vec<LoadRun>),
    /// Counters.
    Counters(Box<dyn CounterLog>),
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
    // Servers.
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
