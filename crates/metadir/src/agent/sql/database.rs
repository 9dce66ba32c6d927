//! What is asked of a database, and the forms that values have.
//!
//! A value is bytes, in one form whatever the database: text as it is; whole numbers and decimal fractions as their digits;
//! truth as `true` and `false`; moments as in RFC 3339, `2026-11-22T08:30:00Z` where the column knows its time zone and without
//! the `Z` where it does not, fractions of a second as far as they go; dates as `2026-11-22`; binary values as they are. NULL and
//! the empty text are no value.

use std::borrow::Cow;

use super::shape::{Column, Query};

/// What went wrong.
#[derive(Debug)]
pub(super) enum Fault {
    /// The database does not take an object as it is.
    Refused(String),
    /// It cannot go on.
    Failed(String),
}

impl Fault {
    pub(super) fn text(self) -> String {
        match self {
            Fault::Refused(text) | Fault::Failed(text) => text,
        }
    }
}

/// How the values of a column become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As their text.
    Text,
    /// As they are.
    Bytes,
    /// As `true` and `false`.
    Truth,
    /// As a moment of RFC 3339.
    Moment,
    /// Each of several.
    Several,
}

/// The values of a column in a row.
#[derive(Debug, PartialEq)]
pub(super) enum Cell<'a> {
    /// None.
    None,
    /// One.
    One(Cow<'a, [u8]>),
    /// Any number of them.
    Several(Vec<Cow<'a, [u8]>>),
    /// Text that is not UTF-8.
    NotUtf8,
}

impl Cell<'_> {
    /// Its value where it is one with a byte.
    pub(super) fn one(&self) -> Option<&[u8]> {
        match self {
            Cell::One(value) if !value.is_empty() => Some(value),
            _ => None,
        }
    }
}

/// A value for a statement.
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
    /// A table as it stands in a statement.
    fn quoted_table(&self, table: &str) -> String;

    /// The columns of a table, whose name is quoted, in its order.
    fn columns(&mut self, table: &str) -> Result<Vec<Column>, Fault>;

    /// Begins to read one state of the database.
    fn begin_reading(&mut self) -> Result<(), Fault>;

    /// The highest value of a column, in a form of the database's own.
    fn highest(&mut self, table: &str, column: &Column) -> Result<Option<String>, Fault>;

    /// Whether one such value is greater than another.
    fn is_greater(&mut self, column: &Column, one: &str, other: &str) -> Result<bool, Fault>;

    /// The condition that a column, `of` in the statement, is at or behind such a value, which is the first parameter, or as far
    /// before it as `overlap` says.
    fn since(&self, of: &str, column: &Column, overlap: Option<u64>) -> String;

    /// The last row of each key in a table `c`: its columns `k0`, `k1`, ... and `what`. Names are those of columns, with the table
    /// before them: the same name may be that of another column that is selected.
    fn latest(&self, table: &str, key: &[String], what: &str, order: &str, condition: &str) -> String;

    /// A column as it is selected: `of` is the column in the statement, the form that of `column`.
    fn selected(&self, of: &str, column: &Column) -> String;

    /// A value of the type of a column, from what may have another type.
    fn converted(&self, of: &str, column: &Column) -> String;

    /// The parameter of a number, from 1, of the type of a column.
    fn parameter(&self, column: &Column, number: usize) -> String;

    /// All values of a statement that selects one column, as one value; none where they are asked for row by row.
    fn gathered(&self, statement: &str) -> Option<String>;

    /// Reads the rows of a query until `take` says that it wants no more.
    fn rows(&mut self, query: &Query, take: &mut dyn FnMut(&[Cell<'_>]) -> bool) -> Result<(), Fault>;

    /// Begins to write.
    fn begin_writing(&mut self) -> Result<(), Fault>;

    /// Carries out a statement without parameters.
    fn run(&mut self, statement: &str) -> Result<(), Fault>;

    /// Carries out a statement; the number of rows it met.
    fn execute(&mut self, statement: &str, values: &[(&Column, Value<'_>)]) -> Result<u64, Fault>;

    /// The values of a statement that selects one column of a form.
    fn values(
        &mut self,
        statement: &str,
        form: Form,
        values: &[(&Column, Value<'_>)],
    ) -> Result<Vec<Vec<u8>>, Fault>;
}

/// A name in a statement, whatever letters it has.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A moment, `2026-11-22 08:30:00+00` as databases have it, as RFC 3339 has it. What looks otherwise stays.
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
