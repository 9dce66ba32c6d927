//! Tables in Apache Parquet files: flat, not compressed, texts as dictionaries.
//!
//! The format is that of `parquet.thrift` of the Parquet project, version 1 of data pages. Only what a flat table needs is
//! written (ADR 0043 has the reason).

use std::collections::HashMap;
use std::io::{self, Write};

use crate::thrift::Struct;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Real,
    Count,
    /// Microseconds since 1970 UTC.
    Time,
}

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Text(&'a str),
    /// A number that is not finite is absent.
    Real(f64),
    Count(u64),
    Time(i64),
    Absent,
}

impl From<Option<u64>> for Cell<'_> {
    fn from(count: Option<u64>) -> Self {
        count.map_or(Cell::Absent, Cell::Count)
    }
}

impl Kind {
    /// The physical type: INT64, DOUBLE or BYTE_ARRAY.
    fn physical(self) -> i32 {
        match self {
            Kind::Count | Kind::Time => 2,
            Kind::Real => 5,
            Kind::Text => 6,
        }
    }

    /// The converted type: UTF8, TIMESTAMP_MICROS, or none.
    fn converted(self) -> Option<i32> {
        match self {
            Kind::Text => Some(0),
            Kind::Time => Some(10),
            Kind::Real | Kind::Count => None,
        }
    }
}

const MAGIC: &[u8] = b"PAR1";

/// Values of the enumerations of the format.
const OPTIONAL: i32 = 1;
const PLAIN: i32 = 0;
const NOT_COMPRESSED: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// Rows of a row group, which is held in memory: about 30 MB.
const GROUP_ROWS: u64 = 500_000;

/// Equal numbers that follow one another, each with how many there are.
#[derive(Default)]
struct Runs(Vec<(u32, u64)>);

impl Runs {
    fn push(&mut self, value: u32) {
        match self.0.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => self.0.push((value, 1)),
        }
    }

    /// The hybrid encoding of the format, of which only the runs are used.
    fn encode(&self, bits: u32, out: &mut Vec<u8>) {
        for (value, count) in &self.0 {
            crate::thrift::unsigned(count << 1, out);
            out.extend(&value.to_le_bytes()[..bits.div_ceil(8) as usize]);
        }
    }
}

/// The values of a column of a row group.
#[derive(Default)]
struct Column {
    /// 1 for each value that is present, and 0 for each that is absent.
    present: Runs,
    /// Numbers, as they are written.
    plain: Vec<u8>,
    /// Texts: each once, and the places of the values in it.
    texts: Vec<String>,
    index: HashMap<String, u32>,
    places: Runs,
}

impl Column {
    fn place(&mut self, text: &str) -> u32 {
        let last = self.places.0.last().map(|(place, _)| *place);
        if let Some(last) = last.filter(|last| self.texts[*last as usize] == text) {
            return last;
        }
        if let Some(place) = self.index.get(text) {
            return *place;
        }
        let place = self.texts.len() as u32;
        self.texts.push(text.to_string());
        self.index.insert(text.to_string(), place);
        place
    }
}

/// A table that is being written.
pub(crate) struct Table<'a> {
    out: &'a mut dyn Write,
    titles: &'static [(&'static str, Kind)],
    columns: Vec<Column>,
    /// Rows of the group that is held, and of all groups.
    rows: u64,
    all_rows: u64,
    /// Bytes that were written.
    at: u64,
    groups: Vec<Struct>,
}

impl<'a> Table<'a> {
    pub(crate) fn begin(
        titles: &'static [(&'static str, Kind)],
        out: &'a mut dyn Write,
    ) -> io::Result<Table<'a>> {
        out.write_all(MAGIC)?;
        let columns = titles.iter().map(|_| Column::default()).collect();
        let at = MAGIC.len() as u64;
        Ok(Table { out, titles, columns, rows: 0, all_rows: 0, at, groups: Vec::new() })
    }

    /// Appends a row with a cell for each column. A cell of another type than its column is absent.
    pub(crate) fn push(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (at, (column, (_, kind))) in self.columns.iter_mut().zip(self.titles).enumerate() {
            let is_present = match (kind, cells.get(at).copied().unwrap_or(Cell::Absent)) {
                (Kind::Text, Cell::Text(text)) => {
                    let place = column.place(text);
                    column.places.push(place);
                    true
                }
                (Kind::Real, Cell::Real(value)) if value.is_finite() => {
                    column.plain.extend(value.to_le_bytes());
                    true
                }
                (Kind::Count, Cell::Count(value)) => {
                    column.plain.extend(i64::try_from(value).unwrap_or(i64::MAX).to_le_bytes());
                    true
                }
                (Kind::Time, Cell::Time(us)) => {
                    column.plain.extend(us.to_le_bytes());
                    true
                }
                _ => false,
            };
            column.present.push(u32::from(is_present));
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        let columns =
            std::mem::replace(&mut self.columns, self.titles.iter().map(|_| Column::default()).collect());
        let begin = self.at;
        let mut chunks = Vec::new();
        for (column, (name, kind)) in columns.into_iter().zip(self.titles) {
            chunks.push(self.chunk(&column, name, *kind)?);
        }
        let mut group = Struct::new();
        group.list(1, chunks).long(2, self.at - begin).long(3, self.rows);
        self.groups.push(group);
        self.all_rows += self.rows;
        self.rows = 0;
        Ok(())
    }

    /// Writes the values of a column in one page, and returns its description.
    fn chunk(&mut self, column: &Column, name: &str, kind: Kind) -> io::Result<Struct> {
        let begin = self.at;
        let mut page = Vec::new();
        column.present.encode(1, &mut page);
        let length = page.len() as u32;
        page.splice(0..0, length.to_le_bytes());
        let mut dictionary_at = None;
        let encoding = match kind {
            Kind::Text => {
                let mut dictionary = Vec::new();
                for text in &column.texts {
                    dictionary.extend((text.len() as u32).to_le_bytes());
                    dictionary.extend(text.as_bytes());
                }
                dictionary_at = Some(self.at);
                let mut described = Struct::new();
                described.small(1, column.texts.len() as i32).small(2, PLAIN);
                self.page(DICTIONARY_PAGE, 7, described, &dictionary)?;
                let bits = usize::BITS - column.texts.len().saturating_sub(1).leading_zeros();
                page.push(bits as u8);
                column.places.encode(bits, &mut page);
                RLE_DICTIONARY
            }
            Kind::Real | Kind::Count | Kind::Time => {
                page.extend(&column.plain);
                PLAIN
            }
        };
        let data_at = self.at;
        let mut described = Struct::new();
        described.small(1, self.rows as i32).small(2, encoding).small(3, RLE).small(4, RLE);
        self.page(DATA_PAGE, 5, described, &page)?;
        let bytes = self.at - begin;
        let mut data = Struct::new();
        data.small(1, kind.physical()).smalls(2, &[PLAIN, RLE, encoding]).texts(3, &[name]);
        data.small(4, NOT_COMPRESSED).long(5, self.rows).long(6, bytes).long(7, bytes).long(9, data_at);
        if let Some(at) = dictionary_at {
            data.long(11, at);
        }
        let mut chunk = Struct::new();
        chunk.long(2, begin).inner(3, data);
        Ok(chunk)
    }

    fn page(&mut self, kind: i32, field: i16, described: Struct, content: &[u8]) -> io::Result<()> {
        let size = i32::try_from(content.len()).map_err(io::Error::other)?;
        let mut head = Struct::new();
        head.small(1, kind).small(2, size).small(3, size).inner(field, described);
        self.write(&head.finish())?;
        self.write(content)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes the rest, and returns the number of rows.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        if self.rows > 0 {
            self.end_group()?;
        }
        let mut root = Struct::new();
        root.text(4, "plimsoll").small(5, self.titles.len() as i32);
        let mut schema = vec![root];
        for (name, kind) in self.titles {
            let mut element = Struct::new();
            element.small(1, kind.physical()).small(3, OPTIONAL).text(4, name);
            if let Some(converted) = kind.converted() {
                element.small(6, converted);
            }
            schema.push(element);
        }
        let mut footer = Struct::new();
        footer.small(1, 1).list(2, schema).long(3, self.all_rows).list(4, std::mem::take(&mut self.groups));
        footer.text(6, concat!("plimsoll version ", env!("CARGO_PKG_VERSION")));
        let footer = footer.finish();
        self.write(&footer)?;
        self.write(&(footer.len() as u32).to_le_bytes())?;
        self.write(MAGIC)?;
        Ok(self.all_rows)
    }
}
