//! A database of a PostgreSQL server.

use std::borrow::Cow;
use std::collections::HashMap;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Kind, ToSql, Type};
use tokio_postgres::{Row, Statement};

use super::database::{Cell, Database, Fault, Form, Value, moment, quoted};
use super::shape::{Column, Query};
use metadir::postgresql::{Client, Error, Failure, Grace, Server, chain, cut, help_of};

/// Size of the cache of prepared statements.
const STATEMENTS: usize = 128;
/// The default overlap of delta imports: a transaction may commit, and so become visible, after one that
/// began later.
const OVERLAP_SECONDS: u64 = 60;
const OVERLAP_NUMBERS: u64 = 1000;

/// The output formats. Reads have no timeout, because they may wait for the store.
const SETTINGS: &str = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; \
    SET extra_float_digits = 1; SET jit = off; SET client_min_messages = 'warning'; SET statement_timeout = 0; \
    SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '30s'";

pub(super) struct Postgres {
    client: Client,
    /// Empty if the search path finds the tables.
    schema: String,
    statements: HashMap<String, Statement>,
}

impl Postgres {
    pub(super) fn open(server: &Server) -> Result<Postgres, Fault> {
        // Each server has its own password: a password file for this server takes precedence over the
        // environment.
        let of_environment = if server.passfile.is_some() { None } else { std::env::var("PGPASSWORD").ok() };
        let failed = |failure: Failure| Fault::Failed(failure.to_string());
        let mut client = server.connect(of_environment, Grace::Session).map_err(failed)?;
        client.batch_execute(SETTINGS)?;
        Ok(Postgres { client, schema: server.schema.clone(), statements: HashMap::new() })
    }

    fn statement(&mut self, text: &str) -> Result<Statement, Fault> {
        if let Some(known) = self.statements.get(text) {
            return Ok(known.clone());
        }
        if self.statements.len() >= STATEMENTS {
            self.statements.clear();
        }
        let statement = self.client.prepare(text)?;
        self.statements.insert(text.into(), statement.clone());
        Ok(statement)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        const GO_ON: &str =
            "see the log of the server; completed changes are kept, and the next run continues from there";
        let Some(db) = error.as_db_error() else {
            return Fault::Failed(format!("the connection was lost: {}; {GO_ON}", chain(&error)));
        };
        // Without the detail, which may show a whole row.
        let text = cut(db.message());
        let code = db.code();
        let help = match code.code() {
            _ if *code == SqlState::UNIQUE_VIOLATION || *code == SqlState::EXCLUSION_VIOLATION => {
                return Fault::Taken(text);
            }
            // Invalid values, constraints, views with a check, triggers that raise an error, deadlocks.
            class if ["22", "23", "44", "P0", "40"].iter().any(|of| class.starts_with(of)) => {
                return Fault::Refused(text);
            }
            _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME => {
                "correct its name: capital letters count; a table outside the search path needs `schema`"
            }
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => "allow it with GRANT",
            _ if *code == SqlState::DISK_FULL => "free space on the disk of the server, and run it again",
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                "it is a standby: name the primary in `postgres`"
            }
            _ if *code == SqlState::LOCK_NOT_AVAILABLE => {
                "another session has locked it: wait, and run it again"
            }
            class if class.starts_with("57P") => GO_ON,
            _ => return Fault::Failed(text),
        };
        Fault::Failed(format!("{text}; {help}"))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Server(error) => error.into(),
            Error::Connect(_) => Fault::Failed(format!("the connection was lost: {error}")),
            Error::GivenUp(why) => Fault::Failed(match help_of(&why) {
                "" => why,
                help => format!("{why}; {help}"),
            }),
        }
    }
}

/// The form of a type.
fn form(of: &Type) -> Form {
    match of.kind() {
        Kind::Array(_) => Form::Several,
        _ if *of == Type::BYTEA => Form::Bytes,
        _ if *of == Type::TIMESTAMP || *of == Type::TIMESTAMPTZ => Form::Moment,
        _ => Form::Text,
    }
}

fn cells<'a>(row: &'a Row, forms: &[Form]) -> Result<Vec<Cell<'a>>, tokio_postgres::Error> {
    let bytes = |text: &'a str| Cow::Borrowed(text.as_bytes());
    let mut cells = Vec::with_capacity(forms.len());
    for (at, form) in forms.iter().enumerate() {
        cells.push(match form {
            Form::Bytes => {
                row.try_get::<_, Option<&[u8]>>(at)?.map_or(Cell::None, |value| Cell::One(value.into()))
            }
            Form::Several if *row.columns()[at].type_() == Type::BYTEA_ARRAY => {
                let values: Option<Vec<Option<&[u8]>>> = row.try_get(at)?;
                Cell::Several(values.into_iter().flatten().flatten().map(Cow::Borrowed).collect())
            }
            Form::Several => {
                let values: Option<Vec<Option<&str>>> = row.try_get(at)?;
                Cell::Several(values.into_iter().flatten().flatten().map(bytes).collect())
            }
            Form::Moment => {
                let value: Option<&str> = row.try_get(at)?;
                value.map_or(Cell::None, |value| Cell::One(moment(value.as_bytes())))
            }
            Form::Text | Form::Truth => {
                row.try_get::<_, Option<&str>>(at)?.map_or(Cell::None, |value| Cell::One(bytes(value)))
            }
        });
    }
    Ok(cells)
}

fn text<'a>(bytes: &'a [u8], column: &Column) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes)
        .map_err(|_| Fault::Refused(format!("a value for the column `{}` is not UTF-8", column.name)))
}

/// The parameters of a statement: binary values as they are, all others as text that the statement casts to
/// the column type.
fn parameters<'a>(values: &[(&Column, Value<'a>)]) -> Result<Vec<Box<dyn ToSql + Sync + 'a>>, Fault> {
    let of_bytes = |column: &Column| column.kind == "bytea" || column.kind == "bytea[]";
    let one = |(column, value): &(&Column, Value<'a>)| -> Result<Box<dyn ToSql + Sync + 'a>, Fault> {
        let is_binary = of_bytes(column);
        Ok(match (*value, column.form == Form::Several) {
            (Value::None, false) if is_binary => Box::new(None::<&[u8]>),
            (Value::None, false) => Box::new(None::<&str>),
            (Value::None, true) if is_binary => Box::new(None::<Vec<&[u8]>>),
            (Value::None, true) => Box::new(None::<Vec<&str>>),
            (Value::One(value), false) if is_binary => Box::new(value),
            (Value::One(value), false) => Box::new(text(value, column)?),
            (Value::One(value), true) if is_binary => Box::new(vec![value]),
            (Value::One(value), true) => Box::new(vec![text(value, column)?]),
            (Value::Several(values), _) if is_binary => {
                Box::new(values.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>())
            }
            (Value::Several(values), _) => {
                let values: Result<Vec<&str>, Fault> =
                    values.iter().map(|value| text(value, column)).collect();
                Box::new(values?)
            }
        })
    };
    values.iter().map(one).collect()
}

impl Database for Postgres {
    fn quoted_table(&self, table: &str) -> String {
        match self.schema.as_str() {
            "" => quoted(table),
            schema => format!("{}.{}", quoted(schema), quoted(table)),
        }
    }

    fn columns(&mut self, table: &str) -> Result<Vec<Column>, Fault> {
        let statement = self.client.prepare(&format!("SELECT * FROM {table} LIMIT 0"))?;
        let oids: Vec<u32> = statement.columns().iter().map(|column| column.type_().oid()).collect();
        let sql =
            "SELECT format_type(oid, -1) FROM unnest($1::oid[]) WITH ORDINALITY AS of (oid, n) ORDER BY n";
        let kinds = self.client.query(sql, &[&oids])?;
        let mut columns = Vec::new();
        for (column, kind) in statement.columns().iter().zip(&kinds) {
            let name = column.name().to_string();
            columns.push(Column { name, form: form(column.type_()), kind: kind.try_get(0)? });
        }
        Ok(columns)
    }

    fn begin_reading(&mut self) -> Result<(), Fault> {
        Ok(self.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?)
    }

    fn highest(&mut self, table: &str, column: &Column) -> Result<Option<String>, Fault> {
        // Without the table prefix, the name would mean the selected text, which sorts differently.
        let name = format!("c.{}", quoted(&column.name));
        let sql = format!(
            "SELECT {name}::text FROM {table} AS c WHERE {name} IS NOT NULL ORDER BY {name} DESC LIMIT 1"
        );
        let found = self.client.query_opt(&sql, &[])?;
        Ok(found.map(|row| row.try_get(0)).transpose()?)
    }

    fn is_greater(&mut self, column: &Column, one: &str, other: &str) -> Result<bool, Fault> {
        let kind = &column.kind;
        let sql = format!("SELECT CAST($1::text AS {kind}) > CAST($2::text AS {kind})");
        Ok(self.client.query_one(&sql, &[&one, &other])?.try_get(0)?)
    }

    fn since(&self, of: &str, column: &Column, overlap: Option<u64>) -> String {
        let kind = &column.kind;
        let begin = format!("CAST($1::text AS {kind})");
        let begin = match kind.as_str() {
            "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision" => {
                format!("{begin} - {}", overlap.unwrap_or(OVERLAP_NUMBERS))
            }
            kind if kind.starts_with("timestamp") => {
                format!("{begin} - make_interval(secs => {})", overlap.unwrap_or(OVERLAP_SECONDS))
            }
            _ => begin,
        };
        format!("{of} >= {begin}")
    }

    fn latest(&self, table: &str, key: &[String], what: &str, order: &str, condition: &str) -> String {
        let selected: Vec<String> = key.iter().enumerate().map(|(at, of)| format!("{of} AS k{at}")).collect();
        let (selected, key) = (selected.join(", "), key.join(", "));
        format!(
            "SELECT DISTINCT ON ({key}) {selected}, {what} AS what FROM {table} AS c {condition} ORDER BY {key}, {order} DESC"
        )
    }

    fn unique_columns(&mut self, table: &str) -> Result<Vec<String>, Fault> {
        let sql = "SELECT DISTINCT a.attname::text FROM pg_index AS i JOIN pg_attribute AS a \
                   ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
                   WHERE i.indrelid = CAST($1::text AS regclass) AND (i.indisunique OR i.indisexclusion)";
        let rows = self.client.query(sql, &[&table])?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    fn selected(&self, of: &str, column: &Column) -> String {
        match (column.form, column.kind.as_str()) {
            (Form::Bytes, _) | (_, "bytea[]") => of.into(),
            (Form::Several, _) => format!("{of}::text[]"),
            _ => format!("{of}::text"),
        }
    }

    fn converted(&self, of: &str, column: &Column) -> String {
        format!("CAST({of} AS {})", column.kind)
    }

    fn parameter(&self, column: &Column, number: usize) -> String {
        match (column.kind.as_str(), column.form) {
            (kind @ ("bytea" | "bytea[]"), _) => format!("${number}::{kind}"),
            (kind, Form::Several) => format!("CAST(${number}::text[] AS {kind})"),
            (kind, _) => format!("CAST(${number}::text AS {kind})"),
        }
    }

    fn gathered(&self, statement: &str) -> Option<String> {
        Some(format!("ARRAY({statement})"))
    }

    fn rows(&mut self, query: &Query, take: &mut dyn FnMut(&[Cell<'_>]) -> bool) -> Result<(), Fault> {
        let statement = self.client.prepare(&query.statement)?;
        let since: Vec<&str> = query.since.as_deref().into_iter().collect();
        // Rows are streamed: unread rows remain in the server.
        let mut rows = self.client.rows(&statement, since)?;
        while let Some(row) = rows.next_row()? {
            if !take(&cells(&row, &query.forms)?) {
                drop(rows);
                // Otherwise the rest of the result would be read before the connection ends.
                self.client.cancel();
                break;
            }
        }
        Ok(())
    }

    fn begin_writing(&mut self) -> Result<(), Fault> {
        self.run("BEGIN")
    }

    fn run(&mut self, statement: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(statement)?)
    }

    fn execute(&mut self, statement: &str, values: &[(&Column, Value<'_>)]) -> Result<u64, Fault> {
        let parameters = parameters(values)?;
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|of| of.as_ref() as _).collect();
        let statement = self.statement(statement)?;
        Ok(self.client.execute(&statement, &parameters)?)
    }

    fn values(
        &mut self,
        statement: &str,
        form: Form,
        values: &[(&Column, Value<'_>)],
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let parameters = parameters(values)?;
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|of| of.as_ref() as _).collect();
        let statement = self.statement(statement)?;
        let mut all = Vec::new();
        for row in self.client.query(&statement, &parameters)? {
            match cells(&row, &[form])?.pop() {
                Some(Cell::One(value)) => all.push(value.into_owned()),
                Some(Cell::Several(values)) => all.extend(values.into_iter().map(Cow::into_owned)),
                Some(Cell::None | Cell::NotUtf8) | None => {}
            }
        }
        Ok(all)
    }
}
