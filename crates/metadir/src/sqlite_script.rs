//! Creates a SQLite database from SQL statements. It provides test sources for agents on machines without the
//! program `sqlite3`.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// The length limit of a statement, bytes.
const STATEMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Executes the statements that are written to it. Statements are UTF-8 text, each ended by a semicolon, with
/// text in single quotes and without comments.
#[derive(Debug)]
pub struct SqliteScript {
    connection: Connection,
    /// The incomplete statement.
    statement: Vec<u8>,
    is_quoted: bool,
}

impl SqliteScript {
    /// Creates a database in a new file that only its owner may read. Writes are not flushed to the disk, so
    /// a damaged database must be created again.
    ///
    /// # Errors
    /// When the file exists already or cannot be created.
    pub fn create(path: &Path) -> io::Result<SqliteScript> {
        // SQLite itself would open an existing file.
        files::create_new(path, files::PRIVATE_FILE)?;
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| {
                connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
                Ok(connection)
            })
            .map_err(io::Error::other)?;
        Ok(SqliteScript { connection, statement: Vec::new(), is_quoted: false })
    }

    /// Ends the writing. An open transaction is an error, because uncommitted changes are lost.
    ///
    /// # Errors
    /// When the last statement is incomplete or the file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if !self.connection.is_autocommit() || !self.statement.trim_ascii().is_empty() {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "the last statement or transaction was not ended",
            ));
        }
        self.connection.close().map_err(|(_, error)| io::Error::other(error))
    }

    fn carry_out(&mut self) -> io::Result<()> {
        let text = std::str::from_utf8(&self.statement)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.connection.execute_batch(text).map_err(io::Error::other)?;
        self.statement.clear();
        Ok(())
    }
}

impl Write for SqliteScript {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut rest = text;
        while let Some(at) = memchr::memchr2(b'\'', b';', rest) {
            let (head, tail) = rest.split_at(at + 1);
            self.statement.extend_from_slice(head);
            rest = tail;
            match head.last() {
                // A doubled quote within a text closes and opens it again.
                Some(b'\'') => self.is_quoted = !self.is_quoted,
                _ if !self.is_quoted => self.carry_out()?,
                _ => {}
            }
        }
        self.statement.extend_from_slice(rest);
        if self.statement.len() > STATEMENT_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "a statement of more than 64 MiB"));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("plimsoll-script-{}-{name}.db", std::process::id()))
    }

    #[test]
    fn statements_arrive_whatever_the_pieces() {
        let text = "CREATE TABLE a (b text);\nINSERT INTO a VALUES ('it''s; one'), (NULL);\nINSERT INTO a VALUES ('ü');\n";
        for piece in [1, 2, 7, 1000] {
            let path = path(&format!("pieces-{piece}"));
            let mut script = SqliteScript::create(&path).unwrap();
            text.as_bytes().chunks(piece).for_each(|piece| script.write_all(piece).unwrap());
            script.finish().unwrap();
            let read = Connection::open(&path).unwrap();
            let values: Vec<Option<String>> = read
                .prepare("SELECT b FROM a ORDER BY rowid")
                .unwrap()
                .query_map([], |row| row.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(values, [Some("it's; one".into()), None, Some("ü".into())]);
            assert_eq!(SqliteScript::create(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_is_not_ended_is_reported() {
        for (text, name) in [("BEGIN; CREATE TABLE a (b text);", "open"), ("CREATE TABLE a (b text)", "half")]
        {
            let path = path(name);
            let mut script = SqliteScript::create(&path).unwrap();
            script.write_all(text.as_bytes()).unwrap();
            assert_eq!(script.finish().unwrap_err().kind(), ErrorKind::UnexpectedEof);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
