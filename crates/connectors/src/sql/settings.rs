//! `type = "sql"`.

use std::path::PathBuf;

use crate::anchor;
use metadir::agent::System;
use metadir::config::{Part, Reader, span_of};
use metadir::postgresql::Server;

/// A table or view of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sql {
    /// The database.
    pub database: SqlDatabase,
    /// The table or view with a row for each object.
    pub table: String,
    /// The columns that are attributes; empty for all.
    pub columns: Vec<String>,
    /// The separator of several values in a column.
    pub value_separator: Option<String>,
    /// Tables with a row for each value.
    pub values: Vec<ValuesTable>,
    /// How the database reports changes.
    pub delta: Option<SqlDelta>,
    /// The PostgreSQL channel on which the database reports that something changed.
    pub notify: Option<String>,
}

/// The database of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlDatabase {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server; the schema is empty if the search path finds the tables.
    Postgres(Server),
}

/// A table with a row for each value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesTable {
    /// The table.
    pub table: String,
    /// Its columns with the anchor, in the order of the anchor.
    pub key: Vec<String>,
    /// Its column with the value.
    pub column: String,
    /// The attribute.
    pub attribute: String,
}

/// How the database reports changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlDelta {
    /// A table or view has a row for each change, with the columns of the anchor.
    Table {
        /// The table.
        table: String,
        /// Its column that increases with each change.
        order_column: String,
        /// Its column with the kind of change.
        change_column: Option<String>,
        /// The overlap that is read again; none for the default of the column type.
        overlap: Option<u64>,
    },
    /// A column of the table itself increases with each change.
    Watermark {
        /// The column.
        column: String,
        /// The overlap that is read again; none for the default of the column type.
        overlap: Option<u64>,
    },
}

pub(super) const KEYS: &[&str] = &[
    "existing",
    "sqlite",
    "postgres",
    "schema",
    "passfile",
    "insecure",
    "timeout_s",
    "table",
    "columns",
    "value_separator",
    "values",
    "delta",
    "notify",
];

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<Box<dyn System>> {
    let database = database(reader, part);
    let table = reader.text(part, "table", true);
    if let Some(table) = &table {
        let words = table.trim().to_lowercase();
        if words.starts_with("select ") || words.starts_with("with ") {
            let help = "create a view for the query, and write its name into `table`";
            reader.wrong(span_of(part, "table"), "`table` is a statement, not the name of a table", help);
        } else if table.contains('.') && !part.has("schema") && part.has("postgres") {
            let help = "write schema = \"SCHEMA\" and table = \"TABLE\", unless the name has this dot";
            reader.warn(
                span_of(part, "table"),
                format!("there may be no table {table:?}: a name has no schema"),
                help,
            );
        }
    }
    let columns = reader.texts(part, "columns");
    let value_separator = reader.text(part, "value_separator", false);
    if value_separator.as_deref() == Some("") {
        reader.wrong(span_of(part, "value_separator"), "`value_separator` is empty", "remove it");
    }
    let of_anchor = anchor(part).len();
    let values = reader.list(part, "values");
    let values = values.iter().filter_map(|part| values_table(reader, part, of_anchor)).collect();
    let delta = delta(reader, part);
    let notify = notify(reader, part);
    Some(Box::new(Sql {
        database: database?,
        table: table?,
        columns,
        value_separator,
        values,
        delta,
        notify,
    }))
}

fn database(reader: &mut Reader, part: &Part<'_>) -> Option<SqlDatabase> {
    let has = |key: &str| part.has(key);
    match (has("sqlite"), has("postgres")) {
        (true, false) => {
            for key in ["schema", "passfile", "insecure", "timeout_s"].into_iter().filter(|key| has(key)) {
                let what = format!("`{key}` has no effect on a table in SQLite");
                reader.wrong(span_of(part, key), what, "remove it");
            }
            Some(SqlDatabase::Sqlite(reader.text(part, "sqlite", true)?.into()))
        }
        (false, true) => {
            let schema = reader.text(part, "schema", false).unwrap_or_default();
            Some(SqlDatabase::Postgres(reader.server(part, schema)?))
        }
        (true, true) => {
            let what = format!("`sqlite` and `postgres` in {}: a table is in one of them", part.what);
            reader.wrong(span_of(part, "postgres"), what, "remove one");
            None
        }
        (false, false) => {
            let help = "write sqlite = \"file.db\", or postgres = \"host=... user=... dbname=...\"";
            let what = format!("{} has neither `sqlite` nor `postgres`", part.what);
            reader.wrong(part.span.clone(), what, help);
            None
        }
    }
}

/// The channel of notifications.
fn notify(reader: &mut Reader, part: &Part<'_>) -> Option<String> {
    let channel = reader.text(part, "notify", false)?;
    // PostgreSQL truncates longer names, and notifications then go to another channel.
    if channel.is_empty() || channel.len() > 63 || channel.contains('\0') {
        let help = "write the name that NOTIFY or pg_notify uses, of at most 63 bytes";
        reader.wrong(span_of(part, "notify"), "`notify` is not the name of a channel", help);
        return None;
    }
    if part.has("sqlite") {
        let what = "`notify` has no effect on a table in SQLite, whose file is watched";
        reader.wrong(span_of(part, "notify"), what, "remove it");
    }
    Some(channel)
}

fn values_table(reader: &mut Reader, part: &Part<'_>, of_anchor: usize) -> Option<ValuesTable> {
    reader.keys(part, &["table", "key", "column", "attribute"]);
    let table = reader.text(part, "table", true);
    let column = reader.text(part, "column", true);
    let attribute = reader.text(part, "attribute", false);
    let key = reader.texts(part, "key");
    if key.len() != of_anchor {
        let what = format!("`key` of {} has {} columns, the anchor has {of_anchor}", part.what, key.len());
        let help = "name the columns that hold the anchor, in its order";
        reader.wrong(span_of(part, "key"), what, help);
        return None;
    }
    let column = column?;
    Some(ValuesTable { table: table?, key, attribute: attribute.unwrap_or_else(|| column.clone()), column })
}

fn delta(reader: &mut Reader, part: &Part<'_>) -> Option<SqlDelta> {
    let part = reader.part(part, "delta")?;
    reader.keys(&part, &["table", "order_column", "change_column", "watermark", "overlap"]);
    let table = reader.text(&part, "table", false);
    let watermark = reader.text(&part, "watermark", false);
    let overlap = reader.number(&part, "overlap", 0..=1 << 31);
    match (table, watermark) {
        (Some(table), None) => {
            let change_column = reader.text(&part, "change_column", false);
            let order_column = reader.text(&part, "order_column", true)?;
            Some(SqlDelta::Table { table, order_column, change_column, overlap })
        }
        (None, Some(column)) => {
            for key in ["order_column", "change_column"] {
                if part.has(key) {
                    let what = format!("`{key}` belongs to a table of changes, not to a `watermark`");
                    reader.wrong(span_of(&part, key), what, "remove it");
                }
            }
            Some(SqlDelta::Watermark { column, overlap })
        }
        _ => {
            let help =
                "write { table = \"changes\", order_column = \"number\" }, or { watermark = \"updated_at\" }";
            let what = format!("{} needs one of `table` and `watermark`", part.what);
            reader.wrong(part.span.clone(), what, help);
            None
        }
    }
}
