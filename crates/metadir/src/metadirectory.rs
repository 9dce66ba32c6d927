//! A metadirectory: its configuration, its store, and the run steps.

mod audit;
mod changed;
mod comparisons;
mod errors;
mod links;
mod pending;
mod search;
mod show;
mod step_result;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Interrupt;
use crate::agent::{Agent, AgentError, Names};
use crate::config::{AgentConfig, Config, Database, Safety, Secrets, Step, StepKind};
use crate::export::selection::Selection;
use crate::export::{Exported, export};
use crate::fingerprint::Fingerprint;
use crate::hologram::Attribute;
use crate::object::{CsId, CsObject, MvId};
use crate::observer::Observer;
use crate::preview::{DifferenceSink, Explained, Explanation, Preview, Unsent};
use crate::rules::{FlowSource, Rules, resolve};
use crate::schedule::ScheduleState;
use crate::secret::readable;
use crate::stage::{Staged, StepError, guard, obsolete, stage};
use crate::statistics::Statistics;
use crate::store::trail::Origin;
use crate::store::{Activity, Gauges, NameKind, Postgres, Sqlite, StepRecord, Store, StoreError};
use crate::synchronize::{
    ReferenceValue, Settings, Synchronized, Task, TraceEvent, given, renew, synchronize, synchronize_one,
};

pub use self::audit::{AuditFilter, AuditedAttribute, AuditedChange};
pub use self::changed::ConfigurationChange;
pub use self::errors::{ErrorGroup, KnownError};
pub use self::links::{DueDeletion, Link, LinkError};
pub use self::pending::PendingChange;
pub use self::search::{Condition, Found, SearchEnd, SearchError, SearchScope, SearchSink};
pub use self::show::{NamedValues, ShownAttribute, ShownCs, ShownExport, ShownMv, ShownObject};
pub use self::step_result::StepResult;
pub use self::undo::{Conflict, UndoError, UndoOptions, Undone};

/// An open metadirectory.
pub struct Metadirectory {
    store: Box<dyn Store>,
    rules: Rules,
    names: Names,
    agents: Vec<AgentConfig>,
    /// For each agent, the rules that its objects are synchronized with.
    fingerprints: Vec<Fingerprint>,
    /// The names of the types of the metaverse.
    types: Vec<String>,
    /// For each agent, the attributes of its system that rules read and no rule writes.
    only_read: Vec<Vec<String>>,
    /// The attributes that the configuration names, of each agent.
    named: Vec<Vec<String>>,
    safety: Safety,
    /// How long the trail is kept, seconds; none for ever.
    audit_keep_s: Option<u64>,
    secrets: Secrets,
    batch_objects: usize,
    interrupt: Interrupt,
    /// In a preview: the agents to whose systems an export would have sent changes.
    unsent: Option<BTreeSet<usize>>,
    /// The file of the store; none on a server.
    store_path: Option<PathBuf>,
    /// The number of the current run; none before its first step.
    run: Option<u64>,
    /// The counters that the last step had reached.
    reached: Statistics,
    /// Receives what a step does.
    observer: Observer,
}

/// The note with the state of a schedule.
fn schedule_note(run: &str) -> String {
    format!("schedule {run}")
}

/// The note with the number of the last run.
const LAST_RUN: &str = "last run";

/// The user who runs this program: the name, otherwise the number.
fn user() -> String {
    use std::os::unix::fs::MetadataExt as _;
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let number = || std::fs::metadata("/proc/self").map(|of| format!("uid {}", of.uid())).ok();
    name.or_else(number).unwrap_or_default()
}

fn outcome_of(error: &StepError) -> &'static str {
    match error {
        StepError::Threshold(_) | StepError::Updates(_) => "stopped-threshold",
        StepError::RulesChanged(_) => "no-start-rules-changed",
        StepError::Conflicts(_) => "stopped-conflicts",
        StepError::Interrupted => "stopped-user",
        StepError::Agent(_) => "stopped-connectivity",
        StepError::Store(_) => "stopped-database",
    }
}

fn open_store(config: &Config) -> Result<Box<dyn Store>, StoreError> {
    Ok(match &config.store.database {
        Database::Sqlite { path, durability, cache_bytes } => {
            Box::new(Sqlite::open(path, *durability, *cache_bytes)?)
        }
        Database::Postgres { server, durability } => Box::new(Postgres::open(server, *durability)?),
    })
}

/// The store for reading; none if it must be made or upgraded first.
fn open_store_to_read(config: &Config) -> Result<Option<Box<dyn Store>>, StoreError> {
    Ok(match &config.store.database {
        Database::Sqlite { path, cache_bytes, .. } => {
            Sqlite::read(path, *cache_bytes)?.map(|store| Box::new(store) as Box<dyn Store>)
        }
        Database::Postgres { server, .. } => {
            Postgres::read(server)?.map(|store| Box::new(store) as Box<dyn Store>)
        }
    })
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Metadirectory {
    /// Opens the metadirectory of a configuration. The store is created if it does not exist.
    ///
    /// # Errors
    /// When the store cannot be opened or a connected system cannot be read.
    pub fn open(config: Config) -> Result<Metadirectory, StepError> {
        let interrupt = config.interrupt.clone();
        open_store(&config)
            .map_err(StepError::from)
            .and_then(|store| Metadirectory::with(config, store))
            .map_err(|error| judged(error, &interrupt))
    }

    /// Opens the metadirectory for reading, also while another process runs steps. All that is read is the state
    /// after one commit. A store that does not exist, or is of an earlier version, is created or upgraded.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read(config: Config) -> Result<Metadirectory, StepError> {
        let interrupt = config.interrupt.clone();
        open_store_to_read(&config)
            .and_then(|store| store.map_or_else(|| open_store(&config), Ok))
            .map_err(StepError::from)
            .and_then(|store| Metadirectory::with(config, store))
            .map_err(|error| judged(error, &interrupt))
    }

    /// The same without any change: none if there is no store of this version.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn look(config: Config) -> Result<Option<Metadirectory>, StepError> {
        let interrupt = config.interrupt.clone();
        let store = open_store_to_read(&config).map_err(|error| judged(error.into(), &interrupt))?;
        let directory = store.map(|store| Metadirectory::with(config, store)).transpose();
        directory.map_err(|error| judged(error, &interrupt))
    }

    /// Opens a metadirectory for a preview. Steps run as usual and each change is reported, but nothing is
    /// stored or sent. A system does not receive the preview's exports, so later imports from it are skipped.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn preview(config: Config, reported: DifferenceSink) -> Result<Metadirectory, StepError> {
        let interrupt = config.interrupt.clone();
        let opened = || {
            let store = Preview::new(open_store(&config)?, &config, reported)?;
            Metadirectory::with(config, Box::new(store))
        };
        let directory = opened().map_err(|error| judged(error, &interrupt))?;
        Ok(Metadirectory { unsent: Some(BTreeSet::new()), ..directory })
    }

    /// Whether a preview skips the step.
    pub fn is_left_out(&self, step: Step) -> bool {
        let is_import = matches!(step.kind, StepKind::FullImport | StepKind::DeltaImport);
        is_import && self.unsent.as_ref().is_some_and(|unsent| unsent.contains(&step.agent))
    }

    /// The metadirectory of a configuration, with a given store.
    ///
    /// # Errors
    /// When the store fails or a connected system cannot be read.
    pub fn with(mut config: Config, mut store: Box<dyn Store>) -> Result<Metadirectory, StepError> {
        let mut names = Names::default();
        for (number, name) in store.names(NameKind::Attribute)? {
            names.insert(&name, Attribute(number));
        }
        let batch_objects = config.store.commit_objects;
        let types = config.types.iter().map(|kind| kind.name.clone()).collect();
        let only_read = |agent| config.only_read(agent).into_iter().map(String::from).collect();
        let only_read = (0..config.agents.len()).map(only_read).collect();
        let named = |agent| config.named(agent).into_iter().map(String::from).collect();
        let named = (0..config.agents.len()).map(named).collect();
        let (safety, audit_keep_s) = (config.safety.clone(), config.audit_keep_s);
        let (secrets, interrupt) = (config.secrets.clone(), config.interrupt.clone());
        let store_path = match &config.store.database {
            Database::Sqlite { path, .. } => Some(path.clone()),
            Database::Postgres { .. } => None,
        };
        let mut fingerprints = changed::fingerprints(&config, store.as_mut())?;
        let agents = std::mem::take(&mut config.agents);
        let rules = resolve(config, &agents, store.as_mut(), &mut names)?;
        for (fingerprint, agent) in fingerprints.iter_mut().zip(&rules.agents) {
            fingerprint.set_comparisons(rules.compared_as(agent.id, &names));
        }
        store.commit()?;
        let unsent = None;
        Ok(Metadirectory {
            store,
            rules,
            names,
            agents,
            fingerprints,
            types,
            only_read,
            named,
            safety,
            audit_keep_s,
            secrets,
            batch_objects,
            interrupt,
            unsent,
            store_path,
            run: None,
            reached: Statistics::default(),
            observer: Observer::new(),
        })
    }

    /// Reports what steps do to an observer, from the next step on.
    pub fn observe(&mut self, observer: &Observer) {
        self.observer = observer.clone();
    }

    /// What is kept of the runs of a schedule.
    ///
    /// # Errors
    /// When the store fails.
    pub fn schedule_state(&mut self, run: &str) -> Result<ScheduleState, StoreError> {
        let note = self.store.note(&schedule_note(run))?;
        Ok(note.map(|text| ScheduleState::parse(&text)).unwrap_or_default())
    }

    /// Keeps it.
    ///
    /// # Errors
    /// When the store fails.
    pub fn keep_schedule_state(&mut self, run: &str, state: &ScheduleState) -> Result<(), StoreError> {
        self.store.set_note(&schedule_note(run), Some(&state.text()))?;
        self.store.commit()
    }

    /// Begins a run, whose steps share its number. The number is returned.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_run(&mut self) -> Result<u64, StepError> {
        let mut begin = || -> Result<u64, StoreError> {
            let last = self.store.note(LAST_RUN)?.and_then(|number| number.parse::<u64>().ok());
            let number = last.unwrap_or(0) + 1;
            self.store.set_note(LAST_RUN, Some(&number.to_string()))?;
            self.store.commit()?;
            Ok(number)
        };
        let number = begin().map_err(|error| judged(error.into(), &self.interrupt))?;
        self.run = Some(number);
        Ok(number)
    }

    /// The number of the current run, which begins with its first step.
    fn current_run(&mut self) -> Result<u64, StepError> {
        self.run.map_or_else(|| self.begin_run(), Ok)
    }

    /// Runs a step of the named run profile and records its result in the history.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_recorded(
        &mut self,
        run: &str,
        step: Step,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepRecord, StepError> {
        let agent = self.agents.get(step.agent).map_or_else(String::new, |agent| agent.name.clone());
        let mut announcer = self.store.announcer().unwrap_or_default();
        let mut activity = Activity {
            process: std::process::id(),
            run: run.into(),
            agent: agent.clone(),
            step: step.kind.name().into(),
            objects: 0,
            since_unix_s: now_unix_s(),
        };
        announcer.announce(&activity);
        let mut announced = |done| {
            activity.objects = done;
            announcer.progress(&activity);
            progress(done)
        };
        let record =
            self.recorded(run, agent, step.kind.name(), |directory| directory.run(step, &mut announced));
        announcer.announce(&Activity { process: std::process::id(), ..Activity::default() });
        record
    }

    /// Carries out a step and records its result in the history.
    fn recorded(
        &mut self,
        run: &str,
        agent: String,
        step: &str,
        carry_out: impl FnOnce(&mut Metadirectory) -> Result<StepResult, StepError>,
    ) -> Result<StepRecord, StepError> {
        let number = self.current_run()?;
        let (started, begin) = (now_unix_s(), Instant::now());
        let result = carry_out(self);
        let reached = std::mem::take(&mut self.reached);
        let (outcome, text, statistics, errors) = match &result {
            Ok(result) => (result.outcome(), result.reported(), result.statistics.clone(), result.errors()),
            Err(error) => (outcome_of(error), error.to_string(), reached, Vec::new()),
        };
        let record = StepRecord {
            number,
            run: run.into(),
            user: user(),
            agent,
            step: step.into(),
            started_unix_s: started,
            seconds: begin.elapsed().as_secs_f64(),
            outcome: outcome.into(),
            text,
            counters: statistics.iter().map(|(name, count)| (name.to_string(), count)).collect(),
            errors,
        };
        let kept = self.store.keep_step(&record).and_then(|()| self.store.commit());
        // The error of the step says more than the error of recording it.
        result?;
        kept.map_err(|error| judged(error.into(), &self.interrupt))?;
        Ok(record)
    }

    /// The last steps, newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError> {
        self.store.history(most)
    }

    /// The counts of each connector space by agent name, and the number of objects in the metaverse.
    ///
    /// # Errors
    /// When the store fails.
    pub fn status(&mut self) -> Result<(Vec<(String, Gauges)>, u64), StoreError> {
        let mut all = Vec::new();
        for (config, rules) in self.agents.iter().zip(&self.rules.agents) {
            all.push((config.name.clone(), self.store.gauges(rules.id)?));
        }
        Ok((all, self.store.count_mv()?))
    }

    /// What the process that runs steps is doing; none if no process does.
    ///
    /// # Errors
    /// When the store fails.
    pub fn activity(&mut self) -> Result<Option<Activity>, StoreError> {
        self.store.activity()
    }

    /// The references of a metaverse object, with the connector objects that contribute them.
    ///
    /// # Errors
    /// When the store fails.
    pub fn references(&mut self, of: MvId) -> Result<Vec<ReferenceValue>, StoreError> {
        given(self.store.as_mut(), &self.rules, of)
    }

    /// Synchronizes an object of a connector space alone, and explains it: each rule that was applied, with its
    /// result. A [preview](Self::preview) reports the changes and keeps none. `key` is the name of the object, or
    /// its anchor with ` + ` between parts. None if there is no such object.
    ///
    /// # Errors
    /// When the store fails.
    pub fn explain(&mut self, agent: usize, key: &str) -> Result<Option<Explanation>, StepError> {
        renew(self.store.as_mut(), &self.rules, &self.names, self.batch_objects)?;
        let Some(object) = self.object(agent, key)? else { return Ok(None) };
        let settings = Settings {
            batch_objects: self.batch_objects,
            full: true,
            deletes: self.safety.synchronization_deletes,
            now_unix_s: now_unix_s(),
            recalls_removed: false,
        };
        let mut events = Vec::new();
        let (store, task, before) = (self.store.as_mut(), Task::Synchronize, object.clone());
        synchronize_one(store, &self.rules, &self.names, settings, task, object, Some(&mut events))?;
        let targets = events.iter().filter_map(|event| match event {
            TraceEvent::ReferencesIn { to, .. } => Some(to),
            _ => None,
        });
        let targets: BTreeSet<MvId> = targets.flatten().copied().collect();
        let targets = self.mv_names(&targets.into_iter().collect::<Vec<_>>())?;
        Ok(Some(
            Explained { rules: &self.rules, names: &self.names, secrets: &self.secrets, targets }
                .explain(&before, events),
        ))
    }

    /// Metaverse objects by the names of their objects: the first name of a connector, otherwise the value of
    /// the first join key, otherwise the number.
    pub(super) fn mv_names(&mut self, ids: &[MvId]) -> Result<BTreeMap<MvId, String>, StoreError> {
        let mut names = BTreeMap::new();
        let objects = self.store.mv(ids)?;
        let linked: Vec<CsId> = objects.iter().flat_map(|object| object.connectors.iter().copied()).collect();
        let mut of_connectors = BTreeMap::new();
        for connector in self.store.cs(&linked)?.into_iter().filter(|connector| !connector.dn.is_empty()) {
            if let Some(mv) = connector.connected_to() {
                of_connectors.entry(mv).or_insert(connector.dn);
            }
        }
        for object in objects {
            let named = of_connectors.remove(&object.id);
            let kind = self.rules.type_of(object.kind).map(|at| &self.rules.types[at]);
            let key =
                kind.into_iter().flat_map(|kind| &kind.keys).find_map(|key| match key.parts.as_slice() {
                    [FlowSource::Direct(attribute)] => object.image.first(*attribute).map(readable),
                    _ => None,
                });
            let name = named.or(key).unwrap_or_else(|| format!("object {}", object.id.0));
            names.insert(object.id, name);
        }
        Ok(names)
    }

    /// The name of an attribute.
    pub fn attribute_name(&self, attribute: Attribute) -> &str {
        self.names.name(attribute)
    }

    /// Runs a step. `progress` receives the number of finished objects after each batch and returns whether
    /// to continue.
    ///
    /// # Errors
    /// When the step ends early. Committed work is kept, and the next run continues from there.
    pub fn run(
        &mut self,
        step: Step,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepResult, StepError> {
        let run = self.current_run()?;
        let agent = self.agents.get(step.agent).map_or("", |agent| agent.name.as_str());
        let origin = Origin { run, step: format!("{agent} {}", step.kind.name()), at_unix_s: now_unix_s() };
        self.store.trail().set_origin(origin);
        self.reached = Statistics::default();
        self.observer.begin();
        let result =
            self.step(step, progress).map_err(|error| self.with_path(judged(error, &self.interrupt)));
        if let Err(error) = &result {
            let undone = self.store.roll_back();
            // What made the store fail says more than that it fails again.
            if !matches!(error, StepError::Store(_)) {
                undone.map_err(|error| self.with_path(judged(error.into(), &self.interrupt)))?;
            }
        }
        result.map(|result| result.with_errors(self.observer.so_far()))
    }

    /// A full disk by the path of the store.
    fn with_path(&self, error: StepError) -> StepError {
        match (error, &self.store_path) {
            (StepError::Store(StoreError::Full(_)), Some(path)) => {
                StoreError::Full(path.display().to_string()).into()
            }
            (error, _) => error,
        }
    }

    fn step(&mut self, step: Step, progress: &mut dyn FnMut(u64) -> bool) -> Result<StepResult, StepError> {
        if self.rules.agents.get(step.agent).is_none() {
            return Ok(StepResult::default());
        }
        self.make_ready(step)?;
        match step.kind {
            StepKind::FullImport => self.import(step.agent, true, progress),
            StepKind::DeltaImport => self.import(step.agent, false, progress),
            StepKind::FullSynchronization => self.synchronize(step.agent, true, progress),
            StepKind::DeltaSynchronization => self.synchronize(step.agent, false, progress),
            StepKind::Export => self.export(step.agent, progress),
        }
    }

    fn import(
        &mut self,
        at: usize,
        is_full: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepResult, StepError> {
        let mut agent = self.open_agent(at, true)?;
        let notes = self.follow_comparisons(at)?;
        let note = changed::watermark_note(&self.agents[at].name);
        let mut import = if is_full {
            agent.full_import()?
        } else {
            let since = self.store.note(&note)?.ok_or_else(|| {
                let name = &self.agents[at].name;
                let why = format!("the watermark of {name} is not known: run a full-import first");
                AgentError::NotSupported(why)
            })?;
            agent.delta_import(&since)?
        };
        let (store, space) = (self.store.as_mut(), &self.rules.agents[at]);
        let before = if is_full { Some(guard::begin(store, space)?) } else { None };
        let mut staged = Staged::observed(self.observer.clone());
        let (rules, names, batch_objects) = (&self.rules, &self.names, self.batch_objects);
        let ended =
            stage(store, rules, names, space, import.as_mut(), is_full, batch_objects, &mut staged, progress);
        self.reached = staged.statistics.clone();
        ended?;
        let (is_complete, least) = (is_full || import.is_complete(), self.safety.import_least_share);
        if is_complete {
            store.trail().end_discovery(space.id, staged.discovery)?;
            store.commit()?;
        }
        if let Some(before) = before {
            guard::end(store, space, &staged, before, least, batch_objects)?;
        }
        staged.statistics.count_many("referral", import.referrals());
        // Objects that could not be read are not deleted, and are to be read again.
        if staged.errors.is_empty() {
            if is_complete {
                obsolete(store, space, &mut staged, least, batch_objects)?;
            }
            store.set_note(&note, import.watermark().as_deref())?;
            store.commit()?;
        }
        let Staged { statistics, errors, .. } = staged;
        Ok(StepResult { statistics, discovery_errors: errors, notes, ..StepResult::default() })
    }

    fn synchronize(
        &mut self,
        at: usize,
        is_full: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepResult, StepError> {
        let (store, rules, names) = (self.store.as_mut(), &self.rules, &self.names);
        let space = &rules.agents[at];
        guard::updates(store, rules, names, space, &self.safety, self.batch_objects)?;
        let settings = Settings {
            batch_objects: self.batch_objects,
            full: is_full,
            deletes: self.safety.synchronization_deletes,
            now_unix_s: now_unix_s(),
            recalls_removed: false,
        };
        let mut done = Synchronized { observer: self.observer.clone(), ..Synchronized::default() };
        let ended = synchronize(store, rules, names, space.id, settings, &mut done, progress);
        self.reached = done.statistics.clone();
        ended?;
        if is_full {
            self.note_rules(at)?;
        }
        let Synchronized { statistics, failures, .. } = done;
        Ok(StepResult { statistics, failures, ..StepResult::default() })
    }

    fn export(&mut self, at: usize, progress: &mut dyn FnMut(u64) -> bool) -> Result<StepResult, StepError> {
        let mut agent: Box<dyn Agent> = match &mut self.unsent {
            Some(unsent) => {
                unsent.insert(at);
                Box::new(Unsent)
            }
            None => self.open_agent(at, false)?,
        };
        let is_preview = self.unsent.is_some();
        let deletes = self.safety.export_deletes;
        let (store, space) = (self.store.as_mut(), &self.rules.agents[at]);
        let (names, most) = (&self.names, self.batch_objects);
        let (rules, agent, interrupt) = (&self.rules, agent.as_mut(), &self.interrupt);
        let mut done = Exported { observer: self.observer.clone(), ..Exported::default() };
        let selection = Selection::ordinary(store, space)?;
        let ended = export(
            store, rules, space, names, agent, is_preview, interrupt, most, deletes, &selection, &mut done,
            progress,
        );
        self.reached = done.statistics.clone();
        ended?;
        let Exported { statistics, refused, .. } = done;
        Ok(StepResult { statistics, failures: refused, ..StepResult::default() })
    }

    /// A key of an object that [`explain`](Self::explain) accepts: its name or its anchor.
    fn called_by(&self, object: &CsObject) -> String {
        self.rules.called(object)
    }

    /// Opens an agent and assigns a number to each of its attributes.
    fn open_agent(&mut self, at: usize, imports: bool) -> Result<Box<dyn Agent>, StepError> {
        let config = &self.agents[at];
        let attributes = config.attributes()?;
        if imports && config.system.has_columns() && !attributes.is_empty() {
            all_there(config, &self.only_read[at], &attributes)?;
        }
        for name in attributes {
            if self.names.attribute(&name).is_none() {
                let attribute = Attribute(self.store.name(NameKind::Attribute, &name)?);
                self.names.insert(&name, attribute);
            }
        }
        self.store.commit()?;
        let agent = match config.system.ignores_case_of_attributes() {
            true => config.open(&self.names.spelled_as(self.named[at].iter().map(String::as_str))),
            false => config.open(&self.names),
        };
        Ok(agent?)
    }
}

/// Converts an error during an interrupt: an interrupted wait fails with the error of the caller that waited.
fn judged(error: StepError, interrupt: &Interrupt) -> StepError {
    match error {
        StepError::Agent(_) | StepError::Store(_) if interrupt.is_set() => StepError::Interrupted,
        other => other,
    }
}

/// Checks that a system has the attributes that rules read. A renamed column would otherwise delete the
/// values of all objects, and a misspelled one would never give any.
fn all_there(config: &AgentConfig, read: &[String], attributes: &[String]) -> Result<(), AgentError> {
    let list = |names: &[&String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let missing: Vec<&String> = read.iter().filter(|name| !attributes.contains(name)).collect();
    let noun = match missing.as_slice() {
        [] => return Ok(()),
        [_] => "the attribute",
        _ => "the attributes",
    };
    let mut all: Vec<&String> = attributes.iter().collect();
    all.sort();
    let why = format!("the rules read {noun} {}; its system has only {}", list(&missing), list(&all));
    Err(AgentError::system(format!("importing `{}`", config.name), why))
}
