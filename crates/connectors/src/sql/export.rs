//! Converts changes to statements: one transaction per batch, in which only refused changes are rolled back.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::database::{Database, Fault, Form, Value, quoted};
use super::shape::{Column, Related, Shape};
use crate::file::split;
use metadir::agent::{ChangedValues, ExportedObject, Names, Refused};
use metadir::hologram::{Attribute, Hologram};
use metadir::index_key::IndexKey;
use metadir::object::Change;

mod exchange;

/// Number of objects per savepoint. If the database refuses one of them, they are written one by one.
const TOGETHER: usize = 100;

type Answers = Vec<Result<(), Refusal>>;

/// Why the database refuses a change.
#[derive(Clone)]
enum Refusal {
    /// Another row has a value that must be unique.
    Taken(String),
    Other(String),
}

impl Refusal {
    /// The refusal in a fault; other faults are errors.
    fn of(fault: Fault) -> Result<Refusal, Fault> {
        match fault {
            Fault::Taken(why) => Ok(Refusal::Taken(why)),
            Fault::Refused(why) => Ok(Refusal::Other(why)),
            Fault::Failed(_) => Err(fault),
        }
    }
}

/// The result of an export.
pub(super) struct Exported {
    pub(super) answers: Vec<Result<(), Refused>>,
    /// Existing rows that adds met, by the indexes of the changes.
    pub(super) existing: Vec<(usize, Hologram)>,
    /// Changes that were refused because another row has a unique value.
    pub(super) conflicts: Vec<usize>,
}

/// The destination of an attribute.
#[derive(Clone, Copy)]
enum Place {
    Column(usize),
    Related(usize),
}

struct Writer<'a> {
    database: &'a mut dyn Database,
    shape: &'a Shape,
    places: HashMap<Attribute, Place>,
    /// The attributes of the anchor.
    anchor: Vec<Option<Attribute>>,
    separator: Option<&'a [u8]>,
    /// Existing rows that adds met, by the key of their anchor.
    existing: HashMap<IndexKey, Hologram>,
}

/// Makes changes and returns an answer for each.
pub(super) fn export(
    database: &mut dyn Database,
    shape: &Shape,
    names: &Names,
    separator: Option<&[u8]>,
    changes: &[ExportedObject],
) -> Result<Exported, Fault> {
    let columns = shape.columns.iter().enumerate();
    let columns = columns.filter_map(|(at, of)| Some((names.attribute(&of.name)?, Place::Column(at))));
    let related = shape.related.iter().enumerate();
    let related = related.filter_map(|(at, of)| Some((names.attribute(&of.attribute)?, Place::Related(at))));
    let places: HashMap<Attribute, Place> = columns.chain(related).collect();
    let attributes = |change: &ExportedObject| {
        let whole = change.attributes.iter().map(|(attribute, _)| *attribute);
        whole.chain(change.changed_values.iter().map(|changed| changed.attribute)).collect::<Vec<_>>()
    };
    let mut all = changes.iter().flat_map(attributes);
    if let Some(attribute) = all.find(|attribute| !places.contains_key(attribute)) {
        let (name, table) = (names.name(attribute), &shape.table);
        let known: Vec<&str> = shape.attributes().collect();
        let known = known.join(", ");
        let what = format!("a flow writes `{name}`, which is not a column of {table}; it has {known}");
        return Err(Fault::Failed(what));
    }
    let anchor = shape.anchor().map(|column| names.attribute(&column.name)).collect();
    let mut writer = Writer { database, shape, places, anchor, separator, existing: HashMap::new() };
    let written = writer.transaction(changes);
    if written.is_err() {
        // Closing the connection also rolls back what remains.
        let _ = writer.database.run("ROLLBACK");
    }
    let answers: Answers = match written {
        // Deferred constraints fail only at the commit. Separate transactions then show which object it was.
        Err(Fault::Refused(_) | Fault::Taken(_)) => {
            changes.iter().map(|change| writer.alone(change)).collect::<Result<_, _>>()?
        }
        other => other?,
    };
    let mut existing = Vec::new();
    for (at, change) in changes.iter().enumerate().filter(|(_, change)| change.change == Change::Add) {
        existing.extend(change.anchor.and_then(|anchor| Some((at, writer.existing.remove(&anchor)?))));
    }
    let is_taken = |at: &usize| matches!(answers[*at], Err(Refusal::Taken(_)));
    let conflicts = (0..answers.len()).filter(is_taken).collect();
    let refused = |refusal| match refusal {
        Refusal::Taken(why) | Refusal::Other(why) => Refused(why),
    };
    let answers = answers.into_iter().map(|answer| answer.map_err(refused)).collect();
    Ok(Exported { answers, existing, conflicts })
}

impl Writer<'_> {
    /// Writes changes in one transaction.
    fn transaction(&mut self, changes: &[ExportedObject]) -> Result<Answers, Fault> {
        let mut answers = Vec::with_capacity(changes.len());
        self.database.begin_writing()?;
        for some in changes.chunks(TOGETHER) {
            match self.savepoint(some)? {
                Ok(()) => answers.extend(some.iter().map(|_| Ok(()))),
                Err(_) => {
                    for change in some {
                        answers.push(self.savepoint(std::slice::from_ref(change))?);
                    }
                }
            }
        }
        self.settle_taken(changes, &mut answers)?;
        self.database.run("COMMIT")?;
        Ok(answers)
    }

    /// Writes all changes, or none of them.
    fn savepoint(&mut self, changes: &[ExportedObject]) -> Result<Result<(), Refusal>, Fault> {
        self.kept_or_undone("objects", |writer| changes.iter().try_for_each(|change| writer.write(change)))
    }

    /// Executes statements, whose effect is undone if one of them is refused. `name` is that of the savepoint.
    fn kept_or_undone(
        &mut self,
        name: &str,
        statements: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<Result<(), Refusal>, Fault> {
        self.database.run(&format!("SAVEPOINT {name}"))?;
        let outcome = statements(self).map_or_else(|fault| Refusal::of(fault).map(Err), |()| Ok(Ok(())))?;
        if outcome.is_err() {
            self.database.run(&format!("ROLLBACK TO {name}"))?;
        }
        self.database.run(&format!("RELEASE {name}"))?;
        Ok(outcome)
    }

    /// Writes a change in its own transaction.
    fn alone(&mut self, change: &ExportedObject) -> Result<Result<(), Refusal>, Fault> {
        self.database.begin_writing()?;
        match self.write(change).and_then(|()| self.database.run("COMMIT")) {
            Ok(()) => Ok(Ok(())),
            Err(fault) => {
                let _ = self.database.run("ROLLBACK");
                Refusal::of(fault).map(Err)
            }
        }
    }

    /// The values of the anchor.
    fn key(&self, change: &ExportedObject) -> Result<Vec<Vec<u8>>, Fault> {
        let Some(anchor) = change.anchor else {
            return Err(Fault::Refused("it has no value for the anchor".into()));
        };
        let of_image = |attribute: &Option<Attribute>| change.image.first((*attribute)?).map(<[u8]>::to_vec);
        let key: Option<Vec<Vec<u8>>> = self.anchor.iter().map(of_image).collect();
        // For an object that no import has shown, only the name may be known.
        let key = key.unwrap_or_else(|| vec![change.dn.clone().into_bytes()]);
        if key.len() != self.anchor.len() || IndexKey::of_parts(key.iter().map(Vec::as_slice)) != anchor {
            let why = "the values of its anchor are not known; run a full-import, and export again";
            return Err(Fault::Refused(why.into()));
        }
        Ok(key)
    }

    fn write(&mut self, change: &ExportedObject) -> Result<(), Fault> {
        let key = self.key(change)?;
        let key: Vec<(&Column, Value<'_>)> =
            self.shape.anchor().zip(&key).map(|(column, value)| (column, Value::One(value))).collect();
        if change.change == Change::Delete {
            return self.delete(&key);
        }
        let mut changed: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        let mut joined: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut columns: Vec<(usize, &[Vec<u8>])> = Vec::new();
        let mut related: Vec<(usize, &[Vec<u8>])> = Vec::new();
        for values in &change.changed_values {
            if let Some(Place::Column(at)) = self.places.get(&values.attribute) {
                changed.push((*at, self.with_changes(&self.shape.columns[*at], &key, values)?));
            }
        }
        columns.extend(changed.iter().map(|(at, values)| (*at, values.as_slice())));
        for (attribute, values) in &change.attributes {
            match self.places.get(attribute) {
                Some(Place::Column(at)) => columns.push((*at, values)),
                Some(Place::Related(at)) => related.push((*at, values)),
                None => {}
            }
        }
        for (at, values) in &columns {
            let column = &self.shape.columns[*at];
            if values.len() > 1 && column.form != Form::Several {
                let Some(separator) = self.separator else {
                    let name = &column.name;
                    let why = format!("the column `{name}` holds one value, not {}", values.len());
                    let help = "set `value_separator`, or name a table for them in `values`";
                    return Err(Fault::Refused(format!("{why}; {help}")));
                };
                joined.insert(*at, values.join(separator));
            }
        }
        let mut set: Vec<(&Column, Value<'_>)> = Vec::new();
        for (at, values) in &columns {
            let column = &self.shape.columns[*at];
            if let Some(part) = self.shape.anchor.iter().position(|of_anchor| of_anchor == at) {
                let Value::One(known) = key[part].1 else { continue };
                if values.len() != 1 || values[0] != known {
                    return Err(Fault::Refused(format!(
                        "its anchor `{}` would change, which is not allowed",
                        column.name
                    )));
                }
                continue;
            }
            let value = match (joined.get(at), *values) {
                (Some(joined), _) => Value::One(joined),
                (None, []) => Value::None,
                (None, values) if column.form == Form::Several => Value::Several(values),
                (None, [value, ..]) => Value::One(value),
            };
            set.push((column, value));
        }
        let is_new = change.change == Change::Add && self.insert(&key, &set)?;
        if change.change == Change::Add && !is_new && !change.adopts {
            return self.exists(change, &key);
        }
        if !is_new {
            self.update(&key, &set)?;
        }
        for (at, values) in related {
            self.relate(&self.shape.related[at], &key, values)?;
        }
        for values in &change.changed_values {
            if let Some(Place::Related(at)) = self.places.get(&values.attribute) {
                self.relate_changes(&self.shape.related[*at], &key, &values.added, &values.removed)?;
            }
        }
        Ok(())
    }

    /// Refuses an add, and keeps the values of the existing row.
    fn exists(&mut self, change: &ExportedObject, key: &[(&Column, Value<'_>)]) -> Result<(), Fault> {
        let mut image: Vec<(Attribute, Vec<Vec<u8>>)> = Vec::with_capacity(change.attributes.len());
        for (attribute, _) in &change.attributes {
            let (table, column, condition) = match self.places.get(attribute) {
                Some(Place::Column(at)) => (&self.shape.table, &self.shape.columns[*at], self.is_key(key, 1)),
                Some(Place::Related(at)) => {
                    let related = &self.shape.related[*at];
                    (&related.table, &related.value, self.same(&related.key, key, 1))
                }
                None => continue,
            };
            let selected = self.database.selected(&quoted(&column.name), column);
            let statement = format!("SELECT {selected} FROM {table} WHERE {condition}");
            let mut values = self.database.values(&statement, column.form, key)?;
            values.retain(|value| !value.is_empty());
            image.push((*attribute, values));
        }
        if let Some(anchor) = change.anchor {
            self.existing.insert(anchor, image.into_iter().collect());
        }
        Err(Fault::Refused("a row with this anchor exists already".into()))
    }

    /// The values of a column after some are added and others removed.
    fn with_changes(
        &mut self,
        column: &Column,
        key: &[(&Column, Value<'_>)],
        changed: &ChangedValues,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let selected = self.database.selected(&quoted(&column.name), column);
        let statement = format!("SELECT {selected} FROM {} WHERE {}", self.shape.table, self.is_key(key, 1));
        let there = self.database.values(&statement, column.form, key)?;
        let mut wanted: Vec<Vec<u8>> = match self.separator {
            Some(separator) if column.form != Form::Several => {
                there.iter().flat_map(|value| split(value, separator)).map(<[u8]>::to_vec).collect()
            }
            _ => there,
        };
        wanted.retain(|value| !changed.removed.contains(value) && !changed.added.contains(value));
        wanted.extend(changed.added.iter().cloned());
        Ok(wanted)
    }

    /// `"a" = parameter AND ...`, with parameters from number `first` on.
    fn same(&self, columns: &[Column], key: &[(&Column, Value<'_>)], first: usize) -> String {
        let same = |(at, column): (usize, &Column)| {
            format!("{} = {}", quoted(&column.name), self.database.parameter(key[at].0, first + at))
        };
        columns.iter().enumerate().map(same).collect::<Vec<_>>().join(" AND ")
    }

    fn is_key(&self, key: &[(&Column, Value<'_>)], first: usize) -> String {
        let columns: Vec<Column> = self.shape.anchor().cloned().collect();
        self.same(&columns, key, first)
    }

    /// Inserts a row if it does not exist; returns whether it was inserted.
    fn insert(&mut self, key: &[(&Column, Value<'_>)], set: &[(&Column, Value<'_>)]) -> Result<bool, Fault> {
        // Columns without a value get their default.
        let set = set.iter().filter(|(_, value)| !matches!(value, Value::None));
        let all: Vec<(&Column, Value<'_>)> = key.iter().chain(set).copied().collect();
        let names: Vec<String> = all.iter().map(|(column, _)| quoted(&column.name)).collect();
        let parameter =
            |(at, (column, _)): (usize, &(&Column, Value<'_>))| self.database.parameter(column, at + 1);
        let parameters: Vec<String> = all.iter().enumerate().map(parameter).collect();
        let table = &self.shape.table;
        let statement = format!(
            "INSERT INTO {table} ({}) SELECT {} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {})",
            names.join(", "),
            parameters.join(", "),
            self.is_key(key, 1)
        );
        Ok(self.database.execute(&statement, &all)? > 0)
    }

    fn update(&mut self, key: &[(&Column, Value<'_>)], set: &[(&Column, Value<'_>)]) -> Result<(), Fault> {
        let table = &self.shape.table;
        let condition = self.is_key(key, 1);
        let is_there = if set.is_empty() {
            let statement = format!("SELECT '1' FROM {table} WHERE {condition}");
            !self.database.values(&statement, Form::Text, key)?.is_empty()
        } else {
            let assignment = |(at, (column, _)): (usize, &(&Column, Value<'_>))| {
                format!("{} = {}", quoted(&column.name), self.database.parameter(column, key.len() + 1 + at))
            };
            let assignments: Vec<String> = set.iter().enumerate().map(assignment).collect();
            let statement = format!("UPDATE {table} SET {} WHERE {condition}", assignments.join(", "));
            let all: Vec<(&Column, Value<'_>)> = key.iter().chain(set).copied().collect();
            self.database.execute(&statement, &all)? > 0
        };
        match is_there {
            true => Ok(()),
            false => Err(Fault::Refused(format!("no row of {table} has this anchor"))),
        }
    }

    /// Deletes a row; a missing row is not an error.
    fn delete(&mut self, key: &[(&Column, Value<'_>)]) -> Result<(), Fault> {
        let mut statements: Vec<String> = Vec::new();
        for related in &self.shape.related {
            statements.push(format!(
                "DELETE FROM {} WHERE {}",
                related.table,
                self.same(&related.key, key, 1)
            ));
        }
        statements.push(format!("DELETE FROM {} WHERE {}", self.shape.table, self.is_key(key, 1)));
        statements.iter().try_for_each(|statement| self.database.execute(statement, key).map(drop))
    }

    /// Makes the rows of a values table equal to the given values.
    fn relate(
        &mut self,
        related: &Related,
        key: &[(&Column, Value<'_>)],
        wanted: &[Vec<u8>],
    ) -> Result<(), Fault> {
        let Related { table, value, .. } = related;
        let selected = self.database.selected(&quoted(&value.name), value);
        let condition = self.same(&related.key, key, 1);
        let statement = format!("SELECT {selected} FROM {table} WHERE {condition}");
        let there: HashSet<Vec<u8>> =
            self.database.values(&statement, value.form, key)?.into_iter().collect();
        let of_wanted: HashSet<&Vec<u8>> = wanted.iter().collect();
        let removed: Vec<Vec<u8>> = there.iter().filter(|old| !of_wanted.contains(old)).cloned().collect();
        let added: Vec<Vec<u8>> = wanted.iter().filter(|new| !there.contains(*new)).cloned().collect();
        self.relate_changes(related, key, &added, &removed)
    }

    /// Adds and removes rows of a values table. Rows that exist, or are missing, already are not an error.
    fn relate_changes(
        &mut self,
        related: &Related,
        key: &[(&Column, Value<'_>)],
        added: &[Vec<u8>],
        removed: &[Vec<u8>],
    ) -> Result<(), Fault> {
        let Related { table, value, .. } = related;
        let parameter = self.database.parameter(value, key.len() + 1);
        let is_it = format!("{} AND {} = {parameter}", self.same(&related.key, key, 1), quoted(&value.name));
        let mut names: Vec<String> = related.key.iter().map(|column| quoted(&column.name)).collect();
        names.push(quoted(&value.name));
        let mut parameters: Vec<String> =
            key.iter().enumerate().map(|(at, (of, _))| self.database.parameter(of, at + 1)).collect();
        parameters.push(parameter);
        let delete = format!("DELETE FROM {table} WHERE {is_it}");
        let insert = format!(
            "INSERT INTO {table} ({}) SELECT {} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {is_it})",
            names.join(", "),
            parameters.join(", ")
        );
        let of_delete = removed.iter().map(|old| (&delete, old));
        for (statement, of) in of_delete.chain(added.iter().map(|new| (&insert, new))) {
            let all: Vec<(&Column, Value<'_>)> =
                key.iter().copied().chain([(value, Value::One(of))]).collect();
            self.database.execute(statement, &all)?;
        }
        Ok(())
    }
}
