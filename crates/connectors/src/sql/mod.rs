//! A table or view of a database with a row for each object. Its columns are attributes; further tables have
//! multi-valued attributes.
//!
//! An import reads one snapshot of the database, however long it takes: a thread reads ahead in one
//! transaction. An export uses one transaction per batch, in which only the objects that the database refuses
//! are rolled back.

mod database;
mod export;
mod notify;
mod postgres;
mod reading;
pub mod settings;
mod shape;
mod sqlite;

use self::database::{Database, Fault};
use self::notify::Channel;
use self::reading::{Rows, begin};
use self::shape::{Query, Shape};
use crate::sql::settings::{Sql as Settings, SqlDatabase, SqlDelta};
use metadir::Interrupt;
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Names, Objects, Refused, System,
};
use metadir::config::SystemKind;
use metadir::hologram::Hologram;
use metadir::naming::Naming;
use std::path::Path;

/// `type = "sql"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "sql", keys: settings::KEYS, anchor: None, read: settings::read };

impl System for Settings {
    fn naming(&self) -> Naming {
        Naming::Anchor
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn has_delta_import(&self) -> Result<(), &'static str> {
        self.delta
            .as_ref()
            .map(drop)
            .ok_or("write full-import, or how changes are found in `delta` of the agent")
    }

    fn file(&self) -> Option<(&'static str, &Path)> {
        match &self.database {
            SqlDatabase::Sqlite(path) => Some(("sqlite", path)),
            SqlDatabase::Postgres(_) => None,
        }
    }

    fn relative_to(&mut self, folder: &Path) {
        match &mut self.database {
            SqlDatabase::Sqlite(path) => *path = folder.join(&*path),
            SqlDatabase::Postgres(server) => server.relative_to(folder),
        }
    }

    fn interrupt_by(&mut self, interrupt: &Interrupt) {
        if let SqlDatabase::Postgres(server) = &mut self.database {
            server.interrupt = interrupt.clone();
        }
    }

    fn changes(&self) -> Changes {
        match (&self.database, &self.notify) {
            (SqlDatabase::Sqlite(path), _) => {
                let mut log = path.clone().into_os_string();
                log.push("-wal");
                Changes::Files(vec![path.clone(), log.into()])
            }
            (SqlDatabase::Postgres(server), Some(channel)) => {
                Changes::Reported(Box::new(Channel { server: server.clone(), name: channel.clone() }))
            }
            (SqlDatabase::Postgres(_), None) => Changes::Unknown(
                "has no `notify`, so its changes are not known at once",
                "write notify = \"CHANNEL\" in its agent, and let a trigger of the table call pg_notify; or use `every`",
            ),
        }
    }

    fn attributes(&self, objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        attributes(self, objects.anchor)
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Sql::new(self, objects.anchor, objects.write_only, names)))
    }
}

pub(super) struct Sql {
    settings: Settings,
    anchor: Vec<String>,
    /// The columns that are written and never read.
    write_only: Vec<String>,
    names: Names,
    /// Existing rows that adds of the last export met.
    existing: Vec<(usize, Hologram)>,
}

/// The attributes of the table.
pub(super) fn attributes(settings: &Settings, anchor: &[String]) -> Result<Vec<String>, AgentError> {
    let mut database = connect(settings)?;
    let shape = Shape::read(settings, anchor, (&[], false), database.as_mut())
        .map_err(|fault| reading(settings, fault))?;
    Ok(shape.attributes().map(String::from).collect())
}

fn connect(settings: &Settings) -> Result<Box<dyn Database>, AgentError> {
    let connected: Result<Box<dyn Database>, Fault> = match &settings.database {
        SqlDatabase::Sqlite(path) => {
            sqlite::Sqlite::open(path).map(|database| Box::new(database) as Box<dyn Database>)
        }
        SqlDatabase::Postgres(server) => {
            postgres::Postgres::open(server).map(|database| Box::new(database) as Box<dyn Database>)
        }
    };
    connected.map_err(|fault| AgentError::system(format!("opening {}", place(settings)), fault.text()))
}

/// The database in error messages.
fn place(settings: &Settings) -> String {
    match &settings.database {
        SqlDatabase::Sqlite(path) => path.display().to_string(),
        SqlDatabase::Postgres(_) => "the PostgreSQL database".into(),
    }
}

fn reading(settings: &Settings, fault: Fault) -> AgentError {
    AgentError::system(format!("reading {} in {}", settings.table, place(settings)), fault.text())
}

fn writing(settings: &Settings, fault: Fault) -> AgentError {
    AgentError::system(format!("writing {} in {}", settings.table, place(settings)), fault.text())
}

impl Sql {
    pub(super) fn new(settings: &Settings, anchor: &[String], write_only: &[String], names: &Names) -> Sql {
        Sql {
            settings: settings.clone(),
            anchor: anchor.to_vec(),
            write_only: write_only.to_vec(),
            names: names.clone(),
            existing: Vec::new(),
        }
    }

    /// Begins to read: everything, or the changes since a watermark.
    fn import(&self, since: Option<&str>) -> Result<Box<dyn Import>, AgentError> {
        let settings = self.settings.clone();
        let failed = |fault| reading(&settings, fault);
        let mut database = connect(&settings)?;
        let shape = Shape::read(&settings, &self.anchor, (&self.write_only, false), database.as_mut())
            .map_err(failed)?;
        // The watermark belongs to the snapshot that is read.
        database.begin_reading().map_err(failed)?;
        let mut watermark = None;
        if let Some(delta) = &shape.delta {
            let highest = database.highest(&delta.table, &delta.order).map_err(failed)?;
            watermark = Some(match (since.filter(|since| !since.is_empty()), highest) {
                (None, highest) => highest.unwrap_or_default(),
                (Some(since), None) => since.into(),
                (Some(since), Some(highest)) => {
                    let is_behind = database.is_greater(&delta.order, since, &highest).map_err(failed)?;
                    if is_behind && matches!(settings.delta, Some(SqlDelta::Table { .. })) {
                        let why = format!(
                            "{} has fewer changes than at the last import: it was recreated; run a full-import",
                            delta.table
                        );
                        return Err(AgentError::NotSupported(why));
                    }
                    if is_behind { since.into() } else { highest }
                }
            });
        }
        let query = match since {
            Some(since) => Query::changes(&shape, database.as_ref(), since),
            None => Query::everything(&shape, database.as_ref()),
        };
        let separator = settings.value_separator.as_ref().map(|text| text.as_bytes().to_vec());
        let rows = Rows::new(&shape, &query, &self.names, separator, &settings.table);
        let failed = move |fault| reading(&settings, fault);
        begin(database, query, rows, watermark, failed)
    }
}

impl Agent for Sql {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: self.settings.delta.is_some(), rename: false, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        self.import(None)
    }

    fn delta_import(&mut self, since: &str) -> Result<Box<dyn Import>, AgentError> {
        if self.settings.delta.is_none() {
            return Err(AgentError::NotSupported("it has no `delta`: run a full-import".into()));
        }
        self.import(Some(since))
    }

    fn takes_changed_values(&self) -> bool {
        !self.settings.values.is_empty()
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let failed = |fault| writing(&self.settings, fault);
        let mut database = connect(&self.settings)?;
        let shape = Shape::read(&self.settings, &self.anchor, (&self.write_only, true), database.as_mut())
            .map_err(failed)?;
        let separator = self.settings.value_separator.as_deref().map(str::as_bytes);
        self.existing.clear();
        let existing = &mut self.existing;
        export::export(database.as_mut(), &shape, &self.names, separator, changes, existing).map_err(failed)
    }

    fn existing(&mut self) -> Vec<(usize, Hologram)> {
        std::mem::take(&mut self.existing)
    }
}

#[cfg(test)]
mod tests;
