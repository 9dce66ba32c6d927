//! Writes people and groups as text, one after the other, in a reused buffer.

mod avp;
mod blocks;
mod csv;
mod ldif;
mod sql;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::attributes::{ATTRIBUTES, Record, SEPARATOR, employee_number};
use crate::groups::Group;
use crate::population::Population;

pub use ldif::Base;

/// Size of the buffer of groups at which it is written.
const FULL_BYTES: usize = 256 * 1024;

/// The output format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header line (RFC 4180, lines ended by a line feed); values are quoted if
    /// necessary.
    Csv,
    /// Entries of class inetOrgPerson below a base, after the entries above them.
    Ldif(Base),
    /// SQL statements for tables and their rows, in one transaction each.
    Sql(Dialect),
    /// A line `name: value` for each attribute of a person, and a blank line after each person.
    Avp,
}

/// The SQL dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `COPY FROM stdin` in its text format, as psql reads it.
    Postgres,
    /// `INSERT` with a hundred rows each.
    Sqlite,
}

/// The destination of the text, with a progress callback.
pub struct Sink<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    /// Number of bytes written.
    bytes: u64,
    /// Called after each write with the records and bytes so far; false ends the writing.
    go_on: &'a mut dyn FnMut(u64, u64) -> bool,
}

impl<'a> Sink<'a> {
    /// Text is written to `out` in large pieces. After each piece, `go_on` receives the number of people or
    /// groups done in the current call, and the total number of bytes. If it returns false, the writing ends
    /// after a complete person.
    pub fn new(out: &'a mut dyn Write, go_on: &'a mut dyn FnMut(u64, u64) -> bool) -> Sink<'a> {
        Sink { out, buffer: Vec::with_capacity(FULL_BYTES + 64 * 1024), bytes: 0, go_on }
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a full buffer; returns false if the writing is to end.
    fn pass(&mut self, records: u64) -> io::Result<bool> {
        if self.buffer.len() < FULL_BYTES {
            return Ok(true);
        }
        self.flush()?;
        Ok((self.go_on)(records, self.bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn hand_on(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.write_all(text)?;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

impl std::fmt::Debug for Sink<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Sink").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The result of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of people or groups.
    pub records: u64,
    /// Whether all were written; false if the writing was ended early.
    pub whole: bool,
}

/// Writes everybody with the first `attributes` of [`crate::ATTRIBUTES`]. Fails with the error of the writer,
/// or if no thread can be started.
pub fn write_people(
    people: &Population,
    attributes: usize,
    format: &Format,
    sink: &mut Sink<'_>,
) -> io::Result<Written> {
    begin_people(format, &names(attributes), &mut sink.buffer);
    let mut records = 0;
    let whole = blocks::for_each(people, attributes, format, |block| {
        sink.flush()?;
        sink.hand_on(&block.text)?;
        records += block.records;
        Ok((sink.go_on)(records, sink.bytes))
    })?;
    if whole && let Format::Sql(dialect) = format {
        sql::end_rows(*dialect, &mut sink.buffer);
        sql::commit(&mut sink.buffer);
    }
    // A truncated transaction is not committed, and so changes nothing.
    sink.flush()?;
    Ok(Written { records, whole })
}

/// Writes the first `count` groups with their members, after [`write_people`]. In CSV they are a separate
/// table with one row per membership. Fails with the error of the writer.
pub fn write_groups(
    people: &Population,
    count: u64,
    format: &Format,
    sink: &mut Sink<'_>,
) -> io::Result<Written> {
    match format {
        Format::Csv => csv::row(["group", "member"].into_iter(), &mut sink.buffer),
        Format::Ldif(base) => base.write_above_groups(&mut sink.buffer),
        Format::Sql(dialect) => {
            sql::begin(&mut sink.buffer);
            sql::GROUPS.create(true, &mut sink.buffer);
            sql::MEMBERS.create(false, &mut sink.buffer);
            // COPY requires one table after the other.
            sql::GROUPS.begin_rows(*dialect, &mut sink.buffer);
            let mut rows = sql::Rows::new(*dialect, sql::GROUPS);
            for group in (0..count).map(|number| people.group(number)) {
                rows.row([group.name.as_str(), &group.description].into_iter(), &mut sink.buffer);
                if !sink.pass(0)? {
                    return Ok(Written { records: 0, whole: false });
                }
            }
            rows.end_block(&mut sink.buffer);
            sql::end_rows(*dialect, &mut sink.buffer);
            sql::MEMBERS.begin_rows(*dialect, &mut sink.buffer);
        }
        Format::Avp => {}
    }
    let mut form = Form::new(format, sql::MEMBERS);
    let mut text = String::new();
    for number in 0..count {
        let group = people.group(number);
        form.group(&group, &mut sink.buffer);
        for member in people.members(&group) {
            text.clear();
            form.member(people, &group, member, &mut text, &mut sink.buffer);
            if !sink.pass(number)? {
                return Ok(Written { records: number, whole: false });
            }
        }
        form.end_group(&mut sink.buffer);
    }
    form.end_block(&mut sink.buffer);
    if let Format::Sql(dialect) = format {
        sql::end_rows(*dialect, &mut sink.buffer);
        sql::commit(&mut sink.buffer);
    }
    sink.flush()?;
    Ok(Written { records: count, whole: true })
}

fn names(attributes: usize) -> Vec<&'static str> {
    ATTRIBUTES[..attributes.clamp(1, ATTRIBUTES.len())].iter().map(|of| of.name).collect()
}

fn people_table<'a>(columns: &'a [&'static str]) -> sql::Table<'a> {
    sql::Table { name: "people", columns }
}

/// Writes the text before the first person.
fn begin_people(format: &Format, names: &[&'static str], out: &mut Vec<u8>) {
    match format {
        Format::Csv => csv::row(names.iter().copied(), out),
        Format::Ldif(base) => base.write_above_people(out),
        Format::Sql(dialect) => {
            sql::begin(out);
            people_table(names).create(true, out);
            people_table(names).begin_rows(*dialect, out);
        }
        Format::Avp => {}
    }
}

/// Whether a text contains any of four bytes. The loop has no branches and works on bytes, so that the
/// compiler can vectorize it.
fn any(text: &str, of: [u8; 4]) -> bool {
    let found = |byte: u8| of.iter().fold(0, |found, special| found | u8::from(byte == *special));
    text.bytes().fold(0, |any, byte| any | found(byte)) > 0
}

/// Writes a line of all values, unescaped.
fn separated_by(separator: u8, record: &Record, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(record.text().as_bytes());
    for byte in &mut out[begin..] {
        *byte = if *byte == SEPARATOR as u8 { separator } else { *byte };
    }
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}

/// A format with its state between records.
enum Form<'a> {
    Csv,
    Ldif(ldif::Entries<'a>),
    Sql(sql::Rows),
    Avp,
}

impl<'a> Form<'a> {
    /// The state for records; in SQL, for rows of a table.
    fn new(format: &'a Format, table: sql::Table<'_>) -> Form<'a> {
        match format {
            Format::Csv => Form::Csv,
            Format::Ldif(base) => Form::Ldif(ldif::Entries::new(base)),
            Format::Sql(dialect) => Form::Sql(sql::Rows::new(*dialect, table)),
            Format::Avp => Form::Avp,
        }
    }

    fn person(&mut self, people: &Population, record: &Record, out: &mut Vec<u8>) {
        match self {
            Form::Csv => csv::record(record, out),
            Form::Ldif(entries) => entries.person(people, record, out),
            Form::Sql(rows) => rows.record(record, out),
            Form::Avp => avp::person(record, out),
        }
    }

    /// Writes the text before a group's members.
    fn group(&mut self, group: &Group, out: &mut Vec<u8>) {
        match self {
            Form::Csv | Form::Sql(_) => {}
            Form::Ldif(entries) => entries.group(group, out),
            Form::Avp => {
                avp::line("group", &group.name, out);
                avp::line("description", &group.description, out);
            }
        }
    }

    /// Writes one membership. `text` is an empty buffer of the caller, to avoid an allocation.
    fn member(
        &mut self,
        people: &Population,
        group: &Group,
        member: u64,
        text: &mut String,
        out: &mut Vec<u8>,
    ) {
        if let Form::Ldif(entries) = self {
            return entries.member(people, member, out);
        }
        employee_number(member, text);
        match self {
            Form::Csv => csv::row([group.name.as_str(), text].into_iter(), out),
            Form::Sql(rows) => rows.row([group.name.as_str(), text].into_iter(), out),
            Form::Avp => avp::line("member", text, out),
            Form::Ldif(_) => {}
        }
    }

    fn end_group(&self, out: &mut Vec<u8>) {
        if matches!(self, Form::Ldif(_) | Form::Avp) {
            out.push(b'\n');
        }
    }

    /// Ends a statement that spans several records.
    fn end_block(&mut self, out: &mut Vec<u8>) {
        if let Form::Sql(rows) = self {
            rows.end_block(out);
        }
    }
}
