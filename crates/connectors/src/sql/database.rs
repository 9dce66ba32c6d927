//! The interface of a database, and the canonical form of values.
//!
//! A value is bytes, in the same form for every database:
//! - text: as it is
//! - integers and decimal fractions: their digits
//! - Booleans: `true` and `false`
//! - timestamps: as in RFC 3339, `2026-11-22T08:30:00Z` if the column has a time zone, otherwise without the
//!   `Z`, with fractions of a second if there are any
//! - dates: `2026-11-22`
//! - binary values: as they are
//!
//! NULL and the empty text are no value.

use std::borrow::Cow;

use super::shape::{Column, Query};

/// An error.
#[derive(Debug)]
pub(super) enum Fault {
    /// The database refuses an object.
    Refused(String),
    /// Another row has a value that must be unique.
    Taken(String),
    /// The database connection fails.
    Failed(String),
}

impl Fault {
    pub(super) fn text(self) -> String {
        match self {
            Fault::Refused(text) | Fault::Taken(text) | Fault::Failed(text) => text,
        }
    }
}

/// The form in which the values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Their text.
    Text,
    /// Their bytes.
    Bytes,
    /// `true` and `false`.
    Truth,
    /// A timestamp as in RFC 3339.
    Moment,
    /// Each element of an array.
    Several,
}

/// The values of a column in a row.
#[derive(Debug, PartialEq)]
pub(super) enum Cell<'a> {
    /// No value.
    None,
    /// One value.
    One(Cow<'a, [u8]>),
    /// Several values.
    Several(Vec<Cow<'a, [u8]>>),
    /// Text that is not UTF-8.
    NotUtf8,
}

impl Cell<'_> {
    /// The value, if there is exactly one and it is not empty.
    pub(super) fn one(&self) -> Option<&[u8]> {
        match self {
            Cell::One(value) if !value.is_empty() => Some(value),
            _ => None,
        }
    }
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// NULL.
    None,
    /// One value, in the form of its column.
    One(&'a [u8]),
    /// The values of an array.
    Several(&'a [Vec<u8>]),
}

/// A connection to a database.
pub(super) trait Database: Send {
    /// The name of a table, quoted for a statement.
    fn quoted_table(&self, table: &str) -> String;

    /// The columns of a table, in order. Its name is quoted.
    fn columns(&mut self, table: &str) -> Result<Vec<Column>, Fault>;

    /// Begins a read transaction with a consistent snapshot.
    fn begin_reading(&mut self) -> Result<(), Fault>;

    /// The highest value of a column, in a form that only this database needs to understand.
    fn highest(&mut self, table: &str, column: &Column) -> Result<Option<String>, Fault>;

    /// Whether the first such value is greater than the second.
    fn is_greater(&mut self, column: &Column, one: &str, other: &str) -> Result<bool, Fault>;

    /// The condition that a column, `of` in the statement, is at least such a value, minus `overlap`. The
    /// value is the first parameter.
    fn since(&self, of: &str, column: &Column, overlap: Option<u64>) -> String;

    /// The last row of each key in a table `c`: its columns `k0`, `k1`, ... and `what`. Names are column
    /// names with a table prefix, because a selected column may have the same name.
    fn latest(&self, table: &str, key: &[String], what: &str, order: &str, condition: &str) -> String;

    /// The columns of a table whose values, alone or together with others, must be unique.
    fn unique_columns(&mut self, table: &str) -> Result<Vec<String>, Fault>;

    /// The expression that selects a column: `of` is the column in the statement, with the form of `column`.
    fn selected(&self, of: &str, column: &Column) -> String;

    /// Converts an expression of any type to the type of a column.
    fn converted(&self, of: &str, column: &Column) -> String;

    /// The parameter with a number, from 1, and the type of a column.
    fn parameter(&self, column: &Column, number: usize) -> String;

    /// All values of a statement with one column, aggregated to one value; none if they are queried row by
    /// row.
    fn gathered(&self, statement: &str) -> Option<String>;

    /// Reads the rows of a query until `take` returns false.
    fn rows(&mut self, query: &Query, take: &mut dyn FnMut(&[Cell<'_>]) -> bool) -> Result<(), Fault>;

    /// Begins a write transaction.
    fn begin_writing(&mut self) -> Result<(), Fault>;

    /// Executes a statement without parameters.
    fn run(&mut self, statement: &str) -> Result<(), Fault>;

    /// Executes a statement and returns the number of affected rows.
    fn execute(&mut self, statement: &str, values: &[(&Column, Value<'_>)]) -> Result<u64, Fault>;

    /// The values of a statement that selects one column of a form.
    fn values(
        &mut self,
        statement: &str,
        form: Form,
        values: &[(&Column, Value<'_>)],
    ) -> Result<Vec<Vec<u8>>, Fault>;
}

/// A quoted identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Converts a timestamp in a database's format, `2026-11-22 08:30:00+00`, to RFC 3339. Other texts are
/// unchanged.
pub(super) fn moment(text: &[u8]) -> Cow<'_, [u8]> {
    let is_moment = text.len() >= 19
        && [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')]
            .iter()
            .all(|(at, byte)| text[*at] == *byte)
        && text[..19].iter().filter(|byte| byte.is_ascii_digit()).count() == 14;
    if !is_moment {
        return text.into();
    }
    let zone = [&b"+00:00"[..], b"+00", b"Z"].into_iter().find(|zone| text.ends_with(zone));
    let mut whole = text[..text.len() - zone.map_or(0, <[u8]>::len)].to_vec();
    whole[10] = b'T';
    if zone.is_some() {
        whole.push(b'Z');
    }
    whole.into()
}
