//! A scenario as it is written: the content of a scenario file, before its templates are compiled.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};

use model::random::Random;
use model::{Nanos, SecretParts, quantity};

pub use crate::template::data::{AtEnd, Order};

/// A place in the text of a scenario file, as a range of bytes; empty if the scenario was not read from one. Two
/// places are always equal, so that scenarios compare by their content.
#[derive(Clone, Debug, Default)]
pub struct Place(pub Range<usize>);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

/// A text of a scenario file with its place. Debug output does not show it, because it can be a secret.
#[derive(Clone, Default, PartialEq)]
pub struct Text {
    /// The text as written.
    pub text: String,
    /// Its place.
    pub place: Place,
}

impl Text {
    /// A text without a place.
    pub fn new(text: impl Into<String>) -> Text {
        Text { text: text.into(), place: Place::default() }
    }

    /// A text at a place.
    pub(super) fn at(text: impl Into<String>, span: Range<usize>) -> Text {
        Text { text: text.into(), place: Place(span) }
    }

    /// Its place.
    pub(super) fn span(&self) -> Range<usize> {
        self.place.0.clone()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.text.len())
    }
}

/// A text without its secrets, if it is not a header field or a URL with a user name.
pub(super) fn hidden(text: &str) -> String {
    // What is before an `@` is perhaps more than a user name.
    SecretParts::Pairs.hide(&SecretParts::Url.hide(text))
}

/// The content of a scenario file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScenarioFile {
    /// The URL that relative URLs refer to.
    pub base: Option<Text>,
    /// Further servers, which redirects and values of responses may lead to.
    pub servers: Vec<Text>,
    /// Options of all requests.
    pub options: Options,
    /// Initial values of variables, by name.
    pub variables: BTreeMap<String, Text>,
    /// Data sets, by name.
    pub data: BTreeMap<String, DataFile>,
    /// The transactions.
    pub transactions: Vec<TransactionFile>,
}

/// Options of a request, or of all requests. None: as in the options of all requests, then the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Header fields, `NAME: VALUE` each.
    pub header: Vec<Text>,
    /// The time limit of a response.
    pub timeout: Option<Nanos>,
    /// Statuses that are successes.
    pub expect_status: Option<Statuses>,
    /// Number of redirects to follow.
    pub follow_redirects: Option<u32>,
    /// Think time between this request and the next one of the transaction.
    pub think: Option<Think>,
    /// Whether cookies are stored and sent.
    pub cookies: Option<bool>,
}

/// A file with data: one row per line, with the names of the columns on the first line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataFile {
    /// Its path, relative to the folder of the scenario file.
    pub file: Text,
    /// The order of its rows.
    pub order: Order,
    /// What follows the last row; none for the default of the order.
    pub at_end: Option<AtEnd>,
    /// Its place.
    pub place: Place,
}

model::choice! {
    /// What follows a failed request of a transaction.
    pub enum OnFailure {
        /// The transaction ends.
        End = "end",
        /// The next request follows.
        Continue = "continue",
    }
}

/// Requests that one user sends one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionFile {
    /// Its name, with its place.
    pub name: Text,
    /// How often it is chosen, relative to the other transactions.
    pub weight: u32,
    /// What follows a failed request.
    pub on_failure: OnFailure,
    /// Its requests.
    pub requests: Vec<RequestFile>,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFile {
    /// Its name; empty in a transaction of one request.
    pub name: Text,
    /// The method in capitals.
    pub method: String,
    /// A template of an absolute URL, or of one relative to the base.
    pub url: Text,
    /// Its own options.
    pub options: Options,
    /// The body.
    pub body: BodyFile,
    /// A response that takes longer is a failure.
    pub max_time: Option<Nanos>,
    /// What is checked.
    pub checks: Vec<CheckFile>,
    /// The variables that are set from the response.
    pub extractions: Vec<ExtractionFile>,
    /// Its place.
    pub place: Place,
}

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum BodyFile {
    /// No body.
    #[default]
    Empty,
    /// A template.
    Text(Text),
    /// The content of a file: a template, or raw.
    File {
        /// Its path, relative to the folder of the scenario file.
        path: Text,
        /// Whether it is a template.
        is_template: bool,
    },
    /// Raw bytes in Base64.
    Base64(Text),
}

/// A check of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckFile {
    /// Its name; empty for a description of what it checks.
    pub name: String,
    /// What it checks.
    pub condition: Condition,
    /// Whether the condition must not hold.
    pub is_absent: bool,
    /// Its place.
    pub place: Place,
}

/// The condition of a check.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The status is one of these.
    Status(Statuses),
    /// The size of the body is in this range.
    Size(Sizes),
    /// The body contains the text of a template.
    Contains(Text),
    /// A value is found, and is as expected.
    Value(Query, Expected),
}

/// Where a value of a response is.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// A regular expression in the body: its first group, or the whole match.
    Regex(Text),
    /// A location path in an XML body.
    XPath(Text),
    /// A path in a JSON body.
    JsonPath(Text),
    /// A header field, or the first group of a regular expression in it.
    Header(Text, Option<Text>),
    /// A cookie that the response sets, or the first group of a regular expression in it.
    Cookie(Text, Option<Text>),
}

/// What a value must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Expected {
    /// Anything.
    #[default]
    Anything,
    /// The text of a template.
    Equals(Text),
    /// It contains the text of a template.
    Contains(Text),
    /// It matches a regular expression.
    Matches(Text),
}

/// A variable that is set from a response.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractionFile {
    /// The variable.
    pub variable: Text,
    /// Where its value is.
    pub query: Query,
}

/// Ranges of status codes: `200..299,304`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Parses them; none if they are not status codes from 200 to 999.
    pub fn parse(text: &str) -> Option<Statuses> {
        let status = |text: &str| text.trim().parse().ok().filter(|status| (200..=999).contains(status));
        let range = |text: &str| match text.split_once("..") {
            Some((low, high)) => Some(status(low)?..=status(high)?).filter(|range| !range.is_empty()),
            None => status(text).map(|only| only..=only),
        };
        text.split(',').map(range).collect::<Option<Vec<_>>>().map(Statuses)
    }

    /// Whether a status is among them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl Default for Statuses {
    fn default() -> Statuses {
        Statuses(vec![200..=399])
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}..{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

/// A range of sizes in bytes: `100B`, `1KiB..2MiB`, `1B..`, `..1MiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub RangeInclusive<u64>);

impl Sizes {
    /// Parses a range.
    pub(super) fn parse(text: &str) -> Option<Sizes> {
        let bytes = |text: &str| quantity::parse_bytes(text).ok();
        let range = match text.split_once("..") {
            Some((low, high)) => {
                let low = if low.trim().is_empty() { 0 } else { bytes(low)? };
                let high = if high.trim().is_empty() { u64::MAX } else { bytes(high)? };
                low..=high
            }
            None => bytes(text)?..=bytes(text)?,
        };
        (!range.is_empty()).then_some(Sizes(range))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (quantity::bytes(*self.0.start()), quantity::bytes(*self.0.end()));
        match (*self.0.start(), *self.0.end()) {
            (_, u64::MAX) => write!(f, "{low}.."),
            (0, 1..) => write!(f, "..{high}"),
            (start, end) if start == end => f.write_str(&low),
            _ => write!(f, "{low}..{high}"),
        }
    }
}

/// The think time between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// Always the same.
    Constant(Nanos),
    /// Uniform between two limits.
    Uniform(Nanos, Nanos),
    /// Exponential with this mean.
    Exponential(Nanos),
}

/// The longest think time.
const THINK_MAX: Nanos = 86_400 * model::SECOND;

impl Think {
    /// Parses `2s`, `1s..3s` or `exponential 2s`.
    pub(super) fn parse(text: &str) -> Option<Think> {
        let time =
            |text: &str| quantity::parse_duration(text).ok().filter(|nanos: &Nanos| *nanos <= THINK_MAX);
        if let Some(mean) = text.trim().strip_prefix("exponential ") {
            return Some(Think::Exponential(time(mean)?));
        }
        match text.split_once("..") {
            Some((low, high)) => {
                let (low, high) = (time(low)?, time(high)?);
                (low <= high).then_some(Think::Uniform(low, high))
            }
            None => Some(Think::Constant(time(text)?)),
        }
    }

    /// Its mean.
    pub(super) fn mean(self) -> Nanos {
        match self {
            Think::Constant(time) | Think::Exponential(time) => time,
            Think::Uniform(low, high) => low + (high - low) / 2,
        }
    }

    /// A think time in nanoseconds.
    pub(super) fn draw(self, random: &mut Random) -> Nanos {
        match self {
            Think::Constant(time) => time,
            Think::Uniform(low, high) => low + random.below_u64(high - low + 1),
            Think::Exponential(mean) => (-random.open_unit().ln() * mean as f64) as Nanos,
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Think::Constant(time) => f.write_str(&quantity::duration(*time)),
            Think::Uniform(low, high) => {
                write!(f, "{}..{}", quantity::duration(*low), quantity::duration(*high))
            }
            Think::Exponential(mean) => write!(f, "exponential {}", quantity::duration(*mean)),
        }
    }
}

/// A part of a request or of a response that cannot be carried over from another format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its line in the file, or the number of the entry, from 1; 0 if it has none.
    pub number: u32,
    /// What is not carried over, without secrets.
    pub what: String,
    /// What to do; empty if there is nothing to do.
    pub help: String,
}

impl Note {
    /// A note on a line or an entry.
    pub(in crate::http) fn new(number: u32, what: impl Into<String>, help: impl Into<String>) -> Note {
        Note { number, what: what.into(), help: help.into() }
    }
}

/// A scenario that was read from another format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Import {
    /// The scenario.
    pub file: ScenarioFile,
    /// What was not carried over.
    pub notes: Vec<Note>,
}

impl Import {
    /// Replaces credentials by environment variables whose names begin with `prefix`, with a note on each: a file that is written
    /// has none.
    pub fn without_credentials(mut self, prefix: &'static str) -> Import {
        let mut redaction = super::redaction::Redaction::new(prefix);
        redaction.redact(&mut self.file);
        self.notes.append(&mut redaction.notes);
        self
    }
}

/// Whether a text can be the name of a transaction, a request, a data set or a variable: letters, digits, `_` and `-`.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_LENGTH_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// The longest name, because names are columns of tables.
pub(super) const NAME_LENGTH_MAX: usize = 40;
