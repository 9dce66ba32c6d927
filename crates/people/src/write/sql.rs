//! SQL: tables of text columns and their rows. Names are written without quotes, so queries may write them in
//! any case.

use super::{Dialect, any, separated_by};
use crate::attributes::Record;

/// Number of rows per INSERT.
const ROWS: u64 = 100;

/// A table and its columns.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) name: &'static str,
    pub(super) columns: &'a [&'static str],
}

/// Groups.
pub(super) const GROUPS: Table<'_> = Table { name: "people_groups", columns: &["name", "description"] };
/// The memberships.
pub(super) const MEMBERS: Table<'_> =
    Table { name: "people_group_members", columns: &["group_name", "member"] };

impl Table<'_> {
    /// Writes the statement that creates it; the first column is the primary key if `keyed`.
    pub(super) fn create(&self, keyed: bool, out: &mut Vec<u8>) {
        let columns: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                format!("  {column} text{}", if keyed && at == 0 { " PRIMARY KEY" } else { "" })
            })
            .collect();
        let text = format!("CREATE TABLE {} (\n{}\n);\n", self.name, columns.join(",\n"));
        out.extend_from_slice(text.as_bytes());
    }

    /// Writes the text before the rows.
    pub(super) fn begin_rows(&self, dialect: Dialect, out: &mut Vec<u8>) {
        if dialect == Dialect::Postgres {
            let text = format!("COPY {} ({}) FROM stdin;\n", self.name, self.columns.join(", "));
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Writes the text after the rows of a table.
pub(super) fn end_rows(dialect: Dialect, out: &mut Vec<u8>) {
    if dialect == Dialect::Postgres {
        out.extend_from_slice(b"\\.\n");
    }
}

pub(super) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(b"BEGIN;\n");
}

pub(super) fn commit(out: &mut Vec<u8>) {
    out.extend_from_slice(b"COMMIT;\n");
}

/// Writes the rows of one table.
pub(super) struct Rows {
    dialect: Dialect,
    insert: String,
    /// Number of rows since the end of the last block.
    written: u64,
}

impl Rows {
    pub(super) fn new(dialect: Dialect, table: Table<'_>) -> Rows {
        let insert = format!("INSERT INTO {} ({}) VALUES\n", table.name, table.columns.join(", "));
        Rows { dialect, insert, written: 0 }
    }

    /// Writes the row of a person.
    pub(super) fn record(&mut self, record: &Record, out: &mut Vec<u8>) {
        // Most records have no special characters and are copied in one piece: much faster than value by
        // value.
        let plain = self.dialect == Dialect::Postgres
            && record.all_present()
            && !any(record.text(), SPECIAL_IN_RECORD);
        match plain {
            true => separated_by(b'\t', record, out),
            false => self.row(record.values().map(|of| of.1), out),
        }
    }

    /// Writes one row; an empty value is NULL.
    pub(super) fn row<'a>(&mut self, values: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Postgres => self.line(values, copied, out),
            Dialect::Sqlite => self.line(values, quoted, out),
        }
    }

    fn line<'a>(
        &mut self,
        values: impl Iterator<Item = &'a str>,
        write: impl Fn(&str, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let (before, between, after): (&[u8], _, _) = match self.dialect {
            Dialect::Postgres => (b"", b'\t', b'\n'),
            Dialect::Sqlite if !self.written.is_multiple_of(ROWS) => (b",\n(", b',', b')'),
            Dialect::Sqlite => {
                out.extend_from_slice(if self.written > 0 { b";\n" } else { b"" });
                out.extend_from_slice(self.insert.as_bytes());
                (b"(", b',', b')')
            }
        };
        out.extend_from_slice(before);
        for (at, value) in values.enumerate() {
            if at > 0 {
                out.push(between);
            }
            write(value, out);
        }
        out.push(after);
        self.written += 1;
    }

    /// Ends the statement of the last rows, so that independent rows may follow.
    pub(super) fn end_block(&mut self, out: &mut Vec<u8>) {
        if self.dialect == Dialect::Sqlite && self.written > 0 {
            out.extend_from_slice(b";\n");
        }
        self.written = 0;
    }
}

/// Characters that COPY's text format escapes.
const SPECIAL: [u8; 4] = *b"\\\n\r\t";
/// The same without the tab, which separates values.
const SPECIAL_IN_RECORD: [u8; 4] = *b"\\\n\r\r";

/// A value in COPY's text format.
fn copied(value: &str, out: &mut Vec<u8>) {
    if value.is_empty() {
        return out.extend_from_slice(b"\\N");
    }
    if !any(value, SPECIAL) {
        return out.extend_from_slice(value.as_bytes());
    }
    for byte in value.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            other => out.push(other),
        }
    }
}

/// A string literal of standard SQL.
fn quoted(value: &str, out: &mut Vec<u8>) {
    if value.is_empty() {
        return out.extend_from_slice(b"NULL");
    }
    out.push(b'\'');
    if any(value, [b'\''; 4]) {
        out.extend_from_slice(value.replace('\'', "''").as_bytes());
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'\'');
}
