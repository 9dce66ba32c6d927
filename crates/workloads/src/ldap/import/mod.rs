//! The `ldap_import` workload: imports the entries of an LDIF file into a new database, and counts them.
//!
//! An operation is one entry. A tool of a stopped server (`slapadd`, `ldif2db`) is run as a command, and its progress is how
//! far it has read the file. Add requests to a running server (`ldapadd`) go through the connections of the LDAP load.

mod dirsrv;
mod ldif;
mod openldap;
mod phases;
mod settings;
mod tool;
mod worker;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::inputs::Inputs;
use engine::workload::{
    Announce, Combined, LoadError, Made, Remains, Share, Unannounced, Worker, Workload, WorkloadKind,
};
use files::PRIVATE_FILE;
use files::private::OwnFolder;
use model::experiment::WorkloadInfo;
use model::run::{GeneratorRole, OperationUnit, WorkloadTraits};
use model::{Level, Nanos, Problems, Settings, Shape};

use super::LdapLoad;
use super::requests::{Mix, Requests};
use super::settings::LdapPlan;
use crate::own_folder::remains;
use ldif::LdifFile;
use settings::{ImportPlan, OfflinePlan, Tool, Way};
use tool::Import;
use worker::OfflineWorker;

/// The kind.
pub static LDAP_IMPORT: ImportKind = ImportKind;

/// The `ldap_import` workload's kind.
#[derive(Debug)]
pub struct ImportKind;

/// The name of the process that imports; none if it is not known, or another workload.
pub fn import_process(workload: &str, settings: &Settings) -> Option<&'static str> {
    match settings::tool(settings) {
        _ if workload != NAME => None,
        Tool::Slapadd => Some("slapadd"),
        Tool::Ldif2db => Some("ns-slapd"),
        Tool::Ldapadd | Tool::Command => None,
    }
}

/// The marker for users who find the folder of a killed run. It grants no permission.
const MARK: &str = ".plimsoll-import";
const MARK_TEXT: &[u8] =
    b"Created by plimsoll ldap import. If plimsoll is no longer running, it was killed: `plimsoll restore --remove-files`.\n";

/// The begin of the name of a trial's folder.
const FOLDER: &str = "ldap-import";

const NAME: &str = "ldap_import";

static OPERATIONS: &[&str] = &["entry", "entry:connect", "entry:tls", "entry:bind"];

/// Its traits.
static TRAITS: WorkloadTraits = WorkloadTraits {
    ends_by_itself: true,
    grouped: true,
    unit: OperationUnit::Entry,
    generator: GeneratorRole::Starts,
    for_more_operations: Cow::Borrowed("import more entries"),
    ..WorkloadTraits::NONE
};

impl WorkloadKind for ImportKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: NAME,
            about: "Imports an LDIF file into a new database of a directory server, and counts entries: slapadd, ldif2db, add requests, or another tool.",
            settings: settings::SETTINGS,
            operations: OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        self.configure_with(settings, &Inputs::host())
    }

    fn configure_with(&self, settings: &Settings, inputs: &Inputs) -> Result<Box<dyn Workload>, Problems> {
        let plan = ImportPlan::read(settings, inputs)?;
        let (online, way) = match plan.way {
            Way::Online(ref online) => {
                let plan = LdapPlan::clone(online);
                (Some(LdapLoad::new(plan)), None)
            }
            Way::Offline(ref offline) => (None, Some(offline.clone())),
        };
        Ok(Box::new(ImportLoad {
            plan,
            online,
            offline: way,
            announcements: Arc::new(Unannounced),
            folder: None,
            prepared: None,
            progress: Mutex::default(),
        }))
    }

    fn remains(&self, made: &Made, remove: bool) -> Remains {
        remains(made, remove, MARK, MARK_TEXT)
    }
}

/// What a trial has done so far.
#[derive(Debug, Default)]
struct Progress {
    /// The phases that are over, in the order in which they began first; their times in all passes.
    phases: Vec<(&'static str, Nanos)>,
    /// The present pass; 0 without a message about one.
    passes: u32,
    cache_bytes: Option<u64>,
    /// Entries that the tool left out.
    left_out: u64,
    seconds: f64,
    database_bytes: Option<u64>,
}

/// A configured import.
struct ImportLoad {
    plan: ImportPlan,
    /// The load of `ldapadd`, or how another tool is run.
    online: Option<LdapLoad>,
    offline: Option<OfflinePlan>,
    announcements: Arc<dyn Announce>,
    /// The folder of the trial.
    folder: Option<OwnFolder>,
    /// Set by `prepare`: the file, and the tool that is run.
    prepared: Option<(LdifFile, Option<Import>)>,
    progress: Mutex<Progress>,
}

impl ImportLoad {
    /// Creates the folder of the trial, marked and announced.
    fn make_folder(&self) -> Result<OwnFolder, LoadError> {
        let failed = |error: std::io::Error| {
            LoadError::new(
                format!("a folder in {} cannot be created: {error}", self.plan.directory.display()),
                "",
            )
        };
        let folder = OwnFolder::new(&self.plan.directory, FOLDER).map_err(failed)?;
        let directory = folder.open().map_err(failed)?;
        self.announcements.announce(&Made::new(folder.path(), &directory, 0, false).map_err(failed)?)?;
        let mut mark = directory.create_new(MARK, PRIVATE_FILE).map_err(failed)?;
        mark.write_all(MARK_TEXT).map_err(failed)?;
        Ok(folder)
    }
}

impl Workload for ImportLoad {
    fn operations(&self) -> Vec<String> {
        match &self.online {
            Some(online) => online.operations(),
            None => vec![OPERATIONS[0].to_string()],
        }
    }

    fn describe_operations(&self, traits: &mut WorkloadTraits) {
        if let Some(online) = &self.online {
            online.describe_operations(traits);
            traits.generator = GeneratorRole::Drives;
            traits.grouped = false;
        }
    }

    fn default_shape(&self) -> Shape {
        self.online.as_ref().map_or(Shape::closed(1), Workload::default_shape)
    }

    fn workers(&self, _shape: &Shape) -> u32 {
        1
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        self.offline.iter().map(|_| self.plan.directory.clone()).collect()
    }

    fn check(&self) -> Problems {
        self.plan.check()
    }

    fn reach(&self, notes: &mut Vec<String>) -> Problems {
        self.online.as_ref().map_or_else(Problems::new, |online| online.reach(notes))
    }

    fn announce_to(&mut self, announcements: &Arc<dyn Announce>) {
        self.announcements = Arc::clone(announcements);
    }

    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Progress::default();
        let folder = self.make_folder()?;
        let path = folder.path().to_path_buf();
        let ldif = LdifFile::prepare(&self.plan.entries, &path, say)?;
        if let Some(script) = &self.plan.prepare {
            say("preparing");
            tool::run_script(script.reveal(), &path, Duration::from_nanos(self.plan.timeout))?;
        }
        let import = match &self.offline {
            None => None,
            Some(plan) => Some(match plan.tool {
                Tool::Slapadd => openldap::prepare(plan, &path, &ldif)?,
                Tool::Ldif2db => dirsrv::prepare(plan, &path, &ldif, say)?,
                Tool::Ldapadd | Tool::Command => tool::of_command(&plan.command, &path, &ldif),
            }),
        };
        if let Some(online) = &mut self.online {
            online.plan.mix =
                Arc::new(Mix::single(Requests::of_records(OPERATIONS[0], Some(ldif.path.clone()))));
            online.prepare(seed, say)?;
        }
        self.prepared = Some((ldif, import));
        self.folder = Some(folder);
        Ok(())
    }

    fn has_own_descriptors(&self) -> bool {
        false
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        match (&self.online, &self.prepared) {
            (Some(online), _) => online.worker(share),
            (None, Some((ldif, Some(import)))) => {
                let ImportPlan { timeout, stop, .. } = self.plan;
                Ok(Box::new(OfflineWorker::new(import, ldif, timeout, stop, &self.progress)?))
            }
            _ => Err(LoadError::new("the import is not prepared", "")),
        }
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let mut facts = self.online.as_ref().map_or_else(BTreeMap::new, Workload::facts);
        let mut set = |name: &str, level: Level| facts.insert(name.to_string(), level);
        let Some((ldif, import)) = &self.prepared else { return facts };
        set("ldif.bytes", Level::Bytes(ldif.bytes));
        set("ldif.entries", Level::Count(ldif.entries));
        if let Some(import) = import {
            set("command", Level::Text(import.command_line()));
        }
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, (name, time)) in progress.phases.iter().enumerate() {
            set(&format!("phase.{}.{name}", at + 1), Level::Time(*time));
        }
        if progress.seconds > 0.0 && self.offline.as_ref().is_some_and(|plan| plan.tool == Tool::Ldif2db) {
            set("passes", Level::Count(u64::from(progress.passes.max(1))));
        }
        if let Some(bytes) = progress.cache_bytes {
            set("import_cache", Level::Bytes(bytes));
        }
        if let Some(bytes) = progress.database_bytes {
            set("database.bytes", Level::Bytes(bytes));
        }
        if progress.left_out > 0 {
            set("entries.left_out", Level::Count(progress.left_out));
        }
        facts
    }

    fn combined(&self, fact: &str) -> Combined {
        self.online.as_ref().map_or(Combined::Equal, |online| online.combined(fact))
    }

    fn describe_failure(&self, code: u32) -> String {
        match &self.online {
            Some(online) => online.describe_failure(code),
            None => {
                let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
                let left_out = progress.left_out;
                format!("the tool left out {left_out} entries, as the log of the server says")
            }
        }
    }

    fn release(&mut self) {
        self.prepared = None;
        // A database may be large: it is removed after each trial.
        if let Some(folder) = self.folder.take() {
            let _ = folder.remove();
        }
    }

    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.prepared = None;
        self.folder.take().map_or(Ok(()), |folder| {
            let path = folder.path().to_path_buf();
            folder.remove().map_err(|error| {
                LoadError::new(
                    format!("the folder {} cannot be removed: {error}", path.display()),
                    "remove it by hand",
                )
            })
        })
    }
}

#[cfg(test)]
mod tests;
