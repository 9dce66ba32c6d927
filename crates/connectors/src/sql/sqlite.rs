//! A SQLite database file.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ToSql};

use super::database::{Cell, Database, Fault, Form, Value, moment, quoted};
use super::shape::{Column, Query};

/// Timeout of the wait for a lock of other writers.
const WAIT: Duration = Duration::from_secs(10);
/// Size of the cache of prepared statements.
const STATEMENTS: usize = 128;

pub(super) struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Sqlite, Fault> {
        // A missing file is not created: an empty database would look like a source without objects.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(Sqlite { connection })
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        let text = match &error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
            other => other.to_string(),
        };
        if let rusqlite::Error::SqliteFailure(code, _) = &error
            && matches!(
                code.extended_code,
                rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            )
        {
            return Fault::Taken(text);
        }
        let help = match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                return Fault::Refused(text);
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another program is writing to it: wait, and run it again"
            }
            Some(ErrorCode::CannotOpen) => "correct `sqlite`: the file is not there, or may not be opened",
            Some(ErrorCode::NotADatabase) => "correct `sqlite`: the file is of another kind",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                "let this user write to the file and to its folder"
            }
            Some(ErrorCode::DiskFull) => "free disk space, and run it again",
            Some(ErrorCode::DatabaseCorrupt) => "restore it from a backup",
            _ => return Fault::Failed(text),
        };
        Fault::Failed(format!("{text}; {help}"))
    }
}

/// A value with its storage class, because only values of one class are comparable.
fn kept(value: ValueRef<'_>) -> Option<String> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Integer(number) => format!("i{number}"),
        ValueRef::Real(number) => format!("r{number}"),
        ValueRef::Text(text) => format!("t{}", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => {
            "b".to_string() + &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        }
    })
}

fn from_kept(kept: &str) -> Owned {
    let rest = kept.get(1..).unwrap_or_default();
    let number = |at: usize| rest.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match kept.as_bytes().first() {
        Some(b'i') => rest.parse().map_or(Owned::Null, Owned::Integer),
        Some(b'r') => rest.parse().map_or(Owned::Null, Owned::Real),
        Some(b'b') => Owned::Blob((0..rest.len()).step_by(2).map_while(number).collect()),
        _ => Owned::Text(rest.into()),
    }
}

/// A number in the format of PostgreSQL: the fewest digits that identify it, with an exponent for many zeros.
pub(super) fn real(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..15).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => value.to_string(),
    }
}

fn cell(value: ValueRef<'_>, form: Form) -> Cell<'_> {
    let owned = |text: String| Cell::One(Cow::Owned(text.into_bytes()));
    match value {
        ValueRef::Null => Cell::None,
        ValueRef::Integer(number @ 0..=1) if form == Form::Truth => owned((number == 1).to_string()),
        ValueRef::Integer(number) => owned(number.to_string()),
        ValueRef::Real(number) => owned(real(number)),
        ValueRef::Blob(bytes) => Cell::One(bytes.into()),
        ValueRef::Text(text) if std::str::from_utf8(text).is_err() => Cell::NotUtf8,
        ValueRef::Text(text) if form == Form::Moment => Cell::One(moment(text)),
        ValueRef::Text(text) => Cell::One(text.into()),
    }
}

/// A parameter of a statement. Text becomes a number if the column type is numeric.
struct Parameter<'a>(&'a Column, Value<'a>);

impl Parameter<'_> {
    /// Checks that the value fits the column.
    fn check(&self) -> Result<(), Fault> {
        match self.1 {
            Value::One(bytes) if self.0.form != Form::Bytes && std::str::from_utf8(bytes).is_err() => {
                Err(Fault::Refused(format!("a value for the column `{}` is not UTF-8", self.0.name)))
            }
            _ => Ok(()),
        }
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match (self.1, self.0.form) {
            (Value::One(b"true"), Form::Truth) => ToSqlOutput::Owned(Owned::Integer(1)),
            (Value::One(b"false"), Form::Truth) => ToSqlOutput::Owned(Owned::Integer(0)),
            (Value::One(bytes), Form::Bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            (Value::One(bytes), _) => ToSqlOutput::Borrowed(ValueRef::Text(bytes)),
            // No column has an array form here.
            (Value::None | Value::Several(_), _) => ToSqlOutput::Owned(Owned::Null),
        })
    }
}

/// The name of a table in pragmas.
fn unquoted(table: &str) -> String {
    let name = table.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(table);
    name.replace("\"\"", "\"")
}

fn parameters<'a>(values: &[(&'a Column, Value<'a>)]) -> Result<Vec<Parameter<'a>>, Fault> {
    let all: Vec<Parameter<'a>> = values.iter().map(|(column, value)| Parameter(column, *value)).collect();
    all.iter().try_for_each(Parameter::check)?;
    Ok(all)
}

impl Database for Sqlite {
    fn quoted_table(&self, table: &str) -> String {
        quoted(table)
    }

    fn columns(&mut self, table: &str) -> Result<Vec<Column>, Fault> {
        // Hidden columns are parameters of virtual tables; generated columns are readable.
        let sql = "SELECT name, type FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([unquoted(table)])?;
        let mut columns = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: String = row.get::<_, Option<String>>(1)?.unwrap_or_default();
            let upper = kind.to_ascii_uppercase();
            let form = match () {
                () if upper.contains("BOOL") => Form::Truth,
                () if upper.contains("TIMESTAMP") || upper.contains("DATETIME") => Form::Moment,
                () if upper.contains("BLOB") => Form::Bytes,
                () => Form::Text,
            };
            columns.push(Column { name: row.get(0)?, form, kind });
        }
        if columns.is_empty() {
            return Err(Fault::Failed(format!(
                "there is no table or view {table}; correct its name, or make it"
            )));
        }
        Ok(columns)
    }

    fn begin_reading(&mut self) -> Result<(), Fault> {
        Ok(self.connection.execute_batch("PRAGMA query_only = ON; BEGIN")?)
    }

    fn highest(&mut self, table: &str, column: &Column) -> Result<Option<String>, Fault> {
        let name = format!("c.{}", quoted(&column.name));
        let sql =
            format!("SELECT {name} FROM {table} AS c WHERE {name} IS NOT NULL ORDER BY {name} DESC LIMIT 1");
        let found = self.connection.query_row(&sql, [], |row| Ok(kept(row.get_ref(0)?)));
        Ok(found.optional()?.flatten())
    }

    fn is_greater(&mut self, _column: &Column, one: &str, other: &str) -> Result<bool, Fault> {
        let values = [from_kept(one), from_kept(other)];
        Ok(self.connection.query_row("SELECT ?1 > ?2", values, |row| row.get(0))?)
    }

    fn since(&self, of: &str, _column: &Column, _overlap: Option<u64>) -> String {
        // Only one transaction writes at a time, so later changes always have greater values.
        format!("{of} >= ?1")
    }

    fn latest(&self, table: &str, key: &[String], what: &str, order: &str, condition: &str) -> String {
        let selected: Vec<String> = key.iter().enumerate().map(|(at, of)| format!("{of} AS k{at}")).collect();
        let (selected, key) = (selected.join(", "), key.join(", "));
        // With `max()`, SQLite takes the other columns from the row of the maximum.
        format!(
            "SELECT {selected}, {what} AS what, max({order}) AS n FROM {table} AS c {condition} GROUP BY {key}"
        )
    }

    fn unique_columns(&mut self, table: &str) -> Result<Vec<String>, Fault> {
        let sql = "SELECT DISTINCT c.name FROM pragma_index_list(?1) AS i, pragma_index_info(i.name) AS c \
                   WHERE i.\"unique\" AND c.name IS NOT NULL";
        let mut statement = self.connection.prepare(sql)?;
        let names = statement.query_map([unquoted(table)], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    fn selected(&self, of: &str, _column: &Column) -> String {
        of.into()
    }

    fn converted(&self, of: &str, _column: &Column) -> String {
        of.into()
    }

    fn parameter(&self, _column: &Column, number: usize) -> String {
        format!("?{number}")
    }

    fn gathered(&self, _statement: &str) -> Option<String> {
        None
    }

    fn rows(&mut self, query: &Query, take: &mut dyn FnMut(&[Cell<'_>]) -> bool) -> Result<(), Fault> {
        let mut statement = self.connection.prepare(&query.statement)?;
        let mut for_each = Vec::with_capacity(query.for_each.len());
        for each in &query.for_each {
            for_each.push((self.connection.prepare(&each.statement)?, each));
        }
        let since = query.since.as_deref().map(from_kept);
        let mut rows = statement.query(rusqlite::params_from_iter(since))?;
        while let Some(row) = rows.next()? {
            let mut cells = Vec::with_capacity(query.forms.len() + for_each.len());
            for (at, form) in query.forms.iter().enumerate() {
                cells.push(cell(row.get_ref(at)?, *form));
            }
            for (statement, each) in &mut for_each {
                let of_row = |at: &usize| row.get_ref(*at).map(ToSqlOutput::Borrowed);
                let parameters: Result<Vec<_>, _> = each.parameters.iter().map(of_row).collect();
                let (mut values, mut is_utf8) = (Vec::new(), true);
                let mut found = statement.query(rusqlite::params_from_iter(parameters?))?;
                while let Some(row) = found.next()? {
                    match cell(row.get_ref(0)?, each.form) {
                        Cell::One(value) => values.push(Cow::Owned(value.into_owned())),
                        Cell::NotUtf8 => is_utf8 = false,
                        Cell::None | Cell::Several(_) => {}
                    }
                }
                cells.push(if is_utf8 { Cell::Several(values) } else { Cell::NotUtf8 });
            }
            if !take(&cells) {
                break;
            }
        }
        Ok(())
    }

    fn begin_writing(&mut self) -> Result<(), Fault> {
        self.run("BEGIN IMMEDIATE")
    }

    fn run(&mut self, statement: &str) -> Result<(), Fault> {
        Ok(self.connection.execute_batch(statement)?)
    }

    fn execute(&mut self, statement: &str, values: &[(&Column, Value<'_>)]) -> Result<u64, Fault> {
        let mut statement = self.connection.prepare_cached(statement)?;
        Ok(statement.execute(rusqlite::params_from_iter(parameters(values)?))? as u64)
    }

    fn values(
        &mut self,
        statement: &str,
        form: Form,
        values: &[(&Column, Value<'_>)],
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let mut statement = self.connection.prepare_cached(statement)?;
        let mut rows = statement.query(rusqlite::params_from_iter(parameters(values)?))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            if let Cell::One(value) = cell(row.get_ref(0)?, form) {
                all.push(value.into_owned());
            }
        }
        Ok(all)
    }
}
