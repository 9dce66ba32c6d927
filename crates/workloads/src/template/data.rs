//! Data sets: the rows of a CSV file, read once and shared by all users and threads.

use model::random::Random;

model::choice! {
    /// Which row an operation gets.
    pub enum Order {
        /// Row n for operation n.
        Sequential = "sequential",
        /// A random row for each transaction.
        Random = "random",
        /// Row n for user n, in all of its transactions.
        Unique = "unique",
    }
}

model::choice! {
    /// What follows the last row of a data set.
    pub enum AtEnd {
        /// The first row again.
        Repeat = "repeat",
        /// No more operations.
        Stop = "stop",
    }
}

/// The largest data file.
pub(crate) const DATA_BYTES_MAX: u64 = 1 << 30;

/// The rows of a data file.
pub(crate) struct DataSet {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    order: Order,
    at_end: AtEnd,
    /// All values one after the other, row by row.
    values: Vec<u8>,
    /// The end of each value.
    ends: Vec<u32>,
}

/// An error in a data file: its line, or 0, the error and the advice.
pub(crate) type DataError = (u64, String, String);

impl DataSet {
    /// Reads the content of a file.
    pub(crate) fn read(
        name: &str,
        content: &[u8],
        order: Order,
        at_end: Option<AtEnd>,
    ) -> Result<DataSet, DataError> {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        if let Err(error) = std::str::from_utf8(content) {
            let line = content[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err((line as u64, "is not text in UTF-8".into(), "save the file as UTF-8".into()));
        }
        let mut reader = csv::ReaderBuilder::new().from_reader(content);
        let failed = |error: csv::Error| {
            let line = error.position().map_or(0, csv::Position::line);
            match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => (
                    line,
                    format!("the number of values is {len}, and the number of columns is {expected_len}"),
                    "quote a value that contains a comma".into(),
                ),
                _ => (line, error.to_string(), String::new()),
            }
        };
        let columns: Vec<String> =
            reader.headers().map_err(failed)?.iter().map(|name| name.trim().to_string()).collect();
        for (at, column) in columns.iter().enumerate() {
            if column.is_empty() || column.contains(['}', '\n']) || columns[..at].contains(column) {
                let what = format!("`{}` is not a valid name of a column", column.escape_debug());
                return Err((1, what, "the first line has a different name for each column".into()));
            }
        }
        let (mut values, mut ends) = (Vec::with_capacity(content.len()), Vec::new());
        let mut record = csv::ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(failed)? {
            for value in &record {
                values.extend_from_slice(value);
                ends.push(values.len() as u32);
            }
        }
        if ends.is_empty() {
            let help = "write the names of the columns on the first line and one row per line below it";
            return Err((0, "has no rows".into(), help.into()));
        }
        values.shrink_to_fit();
        ends.shrink_to_fit();
        let default = match order {
            Order::Unique => AtEnd::Stop,
            Order::Sequential | Order::Random => AtEnd::Repeat,
        };
        Ok(DataSet { name: name.into(), columns, order, at_end: at_end.unwrap_or(default), values, ends })
    }

    /// The number of rows, at least 1.
    pub(crate) fn rows(&self) -> u64 {
        (self.ends.len() / self.columns.len().max(1)) as u64
    }

    /// The row of an operation; none after the end of the data. `seed` belongs to this data set.
    pub(crate) fn row(&self, seed: u64, number: u64, user: u64) -> Option<u32> {
        let rows = self.rows();
        let row = match self.order {
            Order::Sequential => number,
            Order::Random => Random::stream(seed, number).below_u64(rows),
            Order::Unique => user,
        };
        match self.at_end {
            AtEnd::Stop if row >= rows => None,
            _ => Some((row % rows) as u32),
        }
    }

    /// The most users that this data set is enough for; none if there is no limit.
    pub(crate) fn users_max(&self) -> Option<u64> {
        (self.order == Order::Unique && self.at_end == AtEnd::Stop).then(|| self.rows())
    }

    /// A value.
    pub(crate) fn value(&self, row: u32, column: u32) -> &[u8] {
        let at = row as usize * self.columns.len() + column as usize;
        let end = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        let begin = if at == 0 { 0 } else { end(at - 1) };
        self.values.get(begin..end(at)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(content: &str, order: Order, at_end: Option<AtEnd>) -> DataSet {
        DataSet::read("users", content.as_bytes(), order, at_end).ok().unwrap()
    }

    #[test]
    fn values_are_read_as_written() {
        let data = set("\u{feff}name, mail\r\nAnn,\"a,\"\"b\"\"\"\r\n,x\r\n", Order::Sequential, None);
        assert_eq!(data.columns, ["name", "mail"]);
        let rows: Vec<Vec<&[u8]>> =
            (0..2).map(|row| (0..2).map(|column| data.value(row, column)).collect()).collect();
        assert_eq!(rows, [[b"Ann".as_slice(), b"a,\"b\""], [b"", b"x"]]);
    }

    #[test]
    fn rows_follow_the_order() {
        let content = "n\n0\n1\n2\n";
        let rows = |order, at_end| {
            let data = set(content, order, at_end);
            (0..6).map(|number| data.row(7, number, 1 + number / 3)).collect::<Vec<_>>()
        };
        let stop = Some(AtEnd::Stop);
        assert_eq!(rows(Order::Sequential, None), [0, 1, 2, 0, 1, 2].map(Some));
        assert_eq!(rows(Order::Sequential, stop), [Some(0), Some(1), Some(2), None, None, None]);
        assert_eq!(rows(Order::Unique, None), [1, 1, 1, 2, 2, 2].map(Some));
        assert_eq!(set(content, Order::Unique, None).row(7, 0, 3), None);
        assert_eq!(set(content, Order::Unique, Some(AtEnd::Repeat)).row(7, 0, 4), Some(1));
        let random = rows(Order::Random, None);
        assert_eq!(random, rows(Order::Random, None), "the same for the same seed and number");
        assert!(random.iter().any(|row| *row != random[0]), "{random:?}");
    }

    #[test]
    fn errors_have_their_line() {
        for (content, line, what) in [
            ("", 0, "has no rows"),
            ("a,b\n", 0, "has no rows"),
            ("a,b\n1,2\n3\n", 3, "the number of values is 1, and the number of columns is 2"),
            ("a,a\n1,2\n", 1, "`a` is not a valid name of a column"),
            ("a,\n1,2\n", 1, "`` is not a valid name of a column"),
        ] {
            let error = DataSet::read("d", content.as_bytes(), Order::Random, None).err().unwrap();
            assert_eq!((error.0, error.1.as_str()), (line, what), "{content:?}");
        }
        let error = DataSet::read("d", b"a\nx\n\xff\n", Order::Random, None).err().unwrap();
        assert_eq!((error.0, error.1.as_str()), (3, "is not text in UTF-8"));
    }
}
