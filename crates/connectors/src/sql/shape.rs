//! The structure of the tables in the database, and the statements that read them.

use super::database::{Database, Fault, Form, quoted};
use crate::sql::settings::{Sql as Settings, SqlDelta};

/// A column of a table.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) form: Form,
    /// Its type as the database names it.
    pub(super) kind: String,
}

/// A table with a row for each value of an attribute.
#[derive(Debug)]
pub(super) struct Related {
    /// The table, quoted.
    pub(super) table: String,
    /// Its columns with the anchor.
    pub(super) key: Vec<Column>,
    pub(super) value: Column,
    pub(super) attribute: String,
}

/// How the database reports changes.
#[derive(Debug)]
pub(super) struct Delta {
    /// The table that shows changes, quoted: a table of changes or the table of objects.
    pub(super) table: String,
    /// The column that increases with each change.
    pub(super) order: Column,
    overlap: Option<u64>,
    /// For a table of changes: the columns with the anchor, and the column with the kind of change.
    changes: Option<(Vec<Column>, Option<Column>)>,
}

/// The structure of the tables.
#[derive(Debug)]
pub(super) struct Shape {
    /// The table with a row for each object, quoted.
    pub(super) table: String,
    /// Its columns that are attributes.
    pub(super) columns: Vec<Column>,
    /// The indexes of the anchor columns.
    pub(super) anchor: Vec<usize>,
    pub(super) related: Vec<Related>,
    pub(super) delta: Option<Delta>,
}

/// Finds a column; the error lists the existing ones.
fn find<'a>(columns: &'a [Column], name: &str, table: &str, what: &str) -> Result<&'a Column, Fault> {
    columns.iter().find(|column| column.name == name).ok_or_else(|| {
        let all: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let all = all.join(", ");
        Fault::Failed(format!("{table} has no column `{name}`, which is {what}; it has {all}"))
    })
}

impl Shape {
    /// `write_only` has columns that are written and never read, and `writes` is whether they are written now.
    pub(super) fn read(
        settings: &Settings,
        anchor: &[String],
        (write_only, writes): (&[String], bool),
        database: &mut dyn Database,
    ) -> Result<Shape, Fault> {
        let table = database.quoted_table(&settings.table);
        let all = database.columns(&table)?;
        for name in anchor {
            find(&all, name, &table, "a part of the anchor")?;
        }
        for name in &settings.columns {
            find(&all, name, &table, "in `columns`")?;
        }
        let is_wanted = |name: &String| match write_only.contains(name) {
            true => writes,
            false => settings.columns.is_empty() || settings.columns.contains(name) || anchor.contains(name),
        };
        let columns: Vec<Column> = all.iter().filter(|column| is_wanted(&column.name)).cloned().collect();
        let of_anchor =
            anchor.iter().filter_map(|name| columns.iter().position(|column| column.name == *name)).collect();
        let mut related = Vec::new();
        for values in &settings.values {
            let table = database.quoted_table(&values.table);
            let of_values = database.columns(&table)?;
            let key: Result<Vec<Column>, Fault> = values
                .key
                .iter()
                .map(|name| find(&of_values, name, &table, "a part of the key").cloned())
                .collect();
            let value = find(&of_values, &values.column, &table, "the one with the values")?.clone();
            let attribute = values.attribute.clone();
            if columns.iter().any(|column| column.name == attribute) {
                let what = format!("the attribute `{attribute}` is a column and comes from {table} too");
                return Err(Fault::Failed(format!("{what}; give it another name with `attribute`")));
            }
            related.push(Related { table, key: key?, value, attribute });
        }
        let delta = match &settings.delta {
            None => None,
            Some(SqlDelta::Watermark { column, overlap }) => {
                let order = find(&all, column, &table, "the watermark")?.clone();
                Some(Delta { table: table.clone(), order, overlap: *overlap, changes: None })
            }
            Some(SqlDelta::Table { table, order_column, change_column, overlap }) => {
                let table = database.quoted_table(table);
                let of_changes = database.columns(&table)?;
                let key: Result<Vec<Column>, Fault> = anchor
                    .iter()
                    .map(|name| find(&of_changes, name, &table, "a part of the anchor").cloned())
                    .collect();
                let change = match change_column {
                    Some(name) => Some(find(&of_changes, name, &table, "the change column")?.clone()),
                    None => None,
                };
                let order = find(&of_changes, order_column, &table, "the order column")?.clone();
                Some(Delta { table, order, overlap: *overlap, changes: Some((key?, change)) })
            }
        };
        Ok(Shape { table, columns, anchor: of_anchor, related, delta })
    }

    /// The attributes, in the column order of a query.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().map(|column| column.name.as_str());
        columns.chain(self.related.iter().map(|related| related.attribute.as_str()))
    }

    /// The columns of the anchor.
    pub(super) fn anchor(&self) -> impl Iterator<Item = &Column> {
        self.anchor.iter().map(|at| &self.columns[*at])
    }
}

/// A statement that reads objects.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) statement: String,
    /// Its only parameter: the start of the range of a column.
    pub(super) since: Option<String>,
    /// The forms of its columns.
    pub(super) forms: Vec<Form>,
    /// Number of columns before those of the object: the anchor of a change and its kind.
    pub(super) before: usize,
    /// Queries for each row, if the database cannot return several values in one.
    pub(super) for_each: Vec<ForEach>,
}

/// A query that is executed for each row.
#[derive(Debug)]
pub(super) struct ForEach {
    pub(super) statement: String,
    pub(super) form: Form,
    /// The columns of the row that are its parameters.
    pub(super) parameters: Vec<usize>,
}

impl Query {
    /// The query for all objects.
    pub(super) fn everything(shape: &Shape, database: &dyn Database) -> Query {
        let (selected, forms, for_each) = objects(shape, database, 0);
        let statement = format!("SELECT {} FROM {} AS t", selected.join(", "), shape.table);
        Query { statement, since: None, forms, before: 0, for_each }
    }

    /// The query for changes since a watermark; all changes if it is empty.
    pub(super) fn changes(shape: &Shape, database: &dyn Database, since: &str) -> Query {
        let Some(delta) = &shape.delta else { return Query::everything(shape, database) };
        let since = (!since.is_empty()).then(|| since.to_string());
        let condition = |table: &str| match since {
            Some(_) => {
                let of = format!("{table}.{}", quoted(&delta.order.name));
                format!("WHERE {}", database.since(&of, &delta.order, delta.overlap))
            }
            None => String::new(),
        };
        let Some((key, change)) = &delta.changes else {
            let query = Query::everything(shape, database);
            return Query { statement: format!("{} {}", query.statement, condition("t")), since, ..query };
        };
        // The current values come from the table of objects: an object that is missing there was deleted.
        let before = key.len() + 1;
        let (of_objects, of_forms, for_each) = objects(shape, database, before);
        let mut selected = Vec::new();
        let mut forms = Vec::new();
        let mut same = Vec::new();
        for (at, column) in shape.anchor().enumerate() {
            let of_change = database.converted(&format!("d.k{at}"), column);
            same.push(format!("t.{} = {of_change}", quoted(&column.name)));
            selected.push(database.selected(&of_change, column));
            forms.push(column.form);
        }
        match change {
            Some(change) => {
                selected.push(database.selected("d.what", change));
                forms.push(change.form);
            }
            None => {
                selected.push("NULL".into());
                forms.push(Form::Text);
            }
        }
        selected.extend(of_objects);
        forms.extend(of_forms);
        let of_change = |column: &Column| format!("c.{}", quoted(&column.name));
        let key: Vec<String> = key.iter().map(of_change).collect();
        let what = change.as_ref().map_or_else(|| "NULL".into(), of_change);
        let latest = database.latest(&delta.table, &key, &what, &of_change(&delta.order), &condition("c"));
        let statement = format!(
            "SELECT {} FROM ({latest}) AS d LEFT JOIN {} AS t ON {}",
            selected.join(", "),
            shape.table,
            same.join(" AND ")
        );
        Query { statement, since, forms, before, for_each }
    }
}

/// The selected expressions of an object and their forms, after a number of other columns.
fn objects(shape: &Shape, database: &dyn Database, before: usize) -> (Vec<String>, Vec<Form>, Vec<ForEach>) {
    let of = |column: &Column| database.selected(&format!("t.{}", quoted(&column.name)), column);
    let mut selected: Vec<String> = shape.columns.iter().map(of).collect();
    let mut forms: Vec<Form> = shape.columns.iter().map(|column| column.form).collect();
    let mut for_each = Vec::new();
    for related in &shape.related {
        let value = database.selected(&format!("v.{}", quoted(&related.value.name)), &related.value);
        let statement = |to: &dyn Fn(usize) -> String| {
            let same = |(at, column): (usize, &Column)| format!("v.{} = {}", quoted(&column.name), to(at));
            let same: Vec<String> = related.key.iter().enumerate().map(same).collect();
            format!("SELECT {value} FROM {} AS v WHERE {}", related.table, same.join(" AND "))
        };
        let of_object = |at: usize| format!("t.{}", quoted(&shape.columns[shape.anchor[at]].name));
        match database.gathered(&statement(&of_object)) {
            Some(gathered) => {
                selected.push(gathered);
                forms.push(Form::Several);
            }
            None => for_each.push(ForEach {
                statement: statement(&|at| format!("?{}", at + 1)),
                form: related.value.form,
                parameters: shape.anchor.iter().map(|at| before + at).collect(),
            }),
        }
    }
    (selected, forms, for_each)
}
