//! The configuration that an administrator writes: one TOML file per metadirectory.
//!
//! The whole file is checked: all errors are reported together, each with its place.

mod exposure;
mod files;
mod flows;
mod joins;
mod naming;
mod part;
mod read;
mod references;
mod runs;
mod safety;
mod schedule;
mod secrets;
mod store;
mod suggestion;
mod syntax;
mod warnings;
mod write_only;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use exposure::Exposure;
pub use part::{Part, Reader, SystemKind, names, span_of};
pub use schedule::{Schedule, Serve};
pub use secrets::{HIDDEN, Secrets, without_secrets};

pub use write_only::{Delivery, Generator, UNICODE_PWD, WriteOnly, WriteOnlySource};

use crate::Interrupt;
use crate::agent::{Agent, AgentError, Names, Objects, System};
use crate::expression::Expression;
use crate::postgresql::Server;
use crate::schema::Type;
use crate::store::inspection::Inspection;
use crate::store::{Durability, Postgres, Sqlite, StoreError};

/// The configuration of a metadirectory.
#[derive(Debug)]
pub struct Config {
    /// The store of its state.
    pub store: StoreConfig,
    /// The object types of the metaverse.
    pub types: Vec<MetaverseType>,
    /// The management agents.
    pub agents: Vec<AgentConfig>,
    /// Inbound rules: how connector space objects are projected or joined to metaverse objects.
    pub inbound: Vec<Inbound>,
    /// Outbound rules: how metaverse objects are provisioned to connector spaces.
    pub outbound: Vec<Outbound>,
    /// The limits that stop a run before it does damage.
    pub safety: Safety,
    /// How long the trail of changes is kept, seconds; none for ever.
    pub audit_keep_s: Option<u64>,
    /// Named lists of steps.
    pub runs: Vec<RunProfile>,
    /// What runs unattended.
    pub serve: Serve,
    /// The attributes whose values are never displayed.
    pub secrets: Secrets,
    /// Settings that are allowed but probably unintended.
    pub warnings: Vec<Mistake>,
    /// Interrupts every wait for a server.
    pub interrupt: Interrupt,
}

/// The store of the state of a metadirectory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The database.
    pub database: Database,
    /// Number of objects per commit: with 1, each object waits for a disk flush; with 10,000 the flush costs
    /// almost nothing.
    pub commit_objects: usize,
}

/// The database of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file.
    Sqlite {
        /// The path.
        path: PathBuf,
        /// When a commit is durable.
        durability: Durability,
        /// Size of the page cache, bytes.
        cache_bytes: u64,
    },
    /// A schema of a PostgreSQL database.
    Postgres {
        /// The server.
        server: Server,
        /// When a commit is durable.
        durability: Durability,
    },
}

/// An object type of the metaverse.
#[derive(Debug)]
pub struct MetaverseType {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: Vec<MetaverseAttribute>,
    /// Indexes of the agents whose last disconnection deletes the object. If empty, the loss of the last
    /// connector deletes it.
    pub deleted_with: Vec<usize>,
    /// Indexes of the attributes by whose values objects are searched at once.
    pub search: Vec<usize>,
    /// Its place in the file.
    pub span: Range<usize>,
}

impl MetaverseType {
    /// The index of an attribute.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|attribute| attribute.name == name)
    }
}

/// An attribute of the metaverse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaverseAttribute {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: Type,
    /// Whether it is multi-valued.
    pub several: bool,
}

/// A management agent: a connected system and its connector space.
#[derive(Debug)]
pub struct AgentConfig {
    /// Its name.
    pub name: String,
    /// The connected system.
    pub system: Box<dyn System>,
    /// The attributes that together identify an object and never change.
    pub anchor: Vec<String>,
    /// Reference attributes: they refer to other objects of this connector space by name, or by anchor if
    /// there are no names.
    pub references: Vec<String>,
    /// What an export does when an object that it would add exists already.
    pub existing: Existing,
    /// Whether the metaverse loses the values that an object gave when the object is disconnected or the flow
    /// is removed from the rules. Otherwise they stay until another flow gives a value.
    pub recall: bool,
    /// The attributes that are sent to it and never read.
    pub write_only: Vec<String>,
    /// Its place in the file.
    pub span: Range<usize>,
    /// The place of its file or its type.
    pub source_span: Range<usize>,
    /// The place of its anchor.
    pub anchor_span: Range<usize>,
}

impl AgentConfig {
    fn objects(&self) -> Objects<'_> {
        Objects { anchor: &self.anchor, references: &self.references, write_only: &self.write_only }
    }

    /// The attributes of the system that the configuration does not name.
    ///
    /// # Errors
    /// When the system cannot be read.
    pub fn attributes(&self) -> Result<Vec<String>, AgentError> {
        self.system.attributes(&self.objects())
    }

    /// Opens the agent. `names` must contain every attribute of the system.
    ///
    /// # Errors
    /// When the configuration does not fit the system.
    pub fn open(&self, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        self.system.open(&self.objects(), names)
    }
}

/// What an export does when an object that it would add exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It fails, and the object stays as it is.
    #[default]
    Refuse,
    /// It changes the object if a join rule says that it is the same identity, otherwise it fails.
    Adopt,
    /// The object stays as it is, and is reported as a warning.
    Report,
}

/// Inbound rules: how connector space objects are projected or joined to metaverse objects.
#[derive(Debug)]
pub struct Inbound {
    /// The index of the agent.
    pub agent: usize,
    /// The index of the metaverse type.
    pub to: usize,
    /// The objects that these rules accept. Without a condition, all objects that no earlier rules of the
    /// agent accept.
    pub objects: Option<Expression>,
    /// Objects for which this condition is true are ignored.
    pub filter: Option<Expression>,
    /// The join rules, in order.
    pub joins: Vec<Join>,
    /// Whether several objects of the agent may be connected to one metaverse object.
    pub multiple_connectors: bool,
    /// Whether an object without a join is projected, possibly with a condition.
    pub project: Projection,
    /// The attribute flows.
    pub flows: Vec<ImportFlow>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// Whether a connector space object is projected into the metaverse.
#[derive(Debug)]
pub enum Projection {
    /// Never.
    No,
    /// Always.
    Always,
    /// If the condition is true.
    When(Expression),
}

/// A join rule: equal values.
#[derive(Debug)]
pub struct Join {
    /// The values of the connector space object.
    pub cs: Vec<JoinPart>,
    /// The values of the metaverse object that they are compared with, in the same order.
    pub mv: Vec<JoinPart>,
    /// Whether the comparison ignores case. If it is not said, the systems decide.
    pub ignore_case: Option<bool>,
    /// The rule is used only if this condition is true.
    pub when: Option<Expression>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// A value that a join rule compares.
#[derive(Debug)]
pub enum JoinPart {
    /// The value of an attribute.
    Attribute(String),
    /// The result of an expression.
    Expression(Expression),
}

/// The source of a value.
#[derive(Debug)]
pub enum Source {
    /// The values of an attribute, unchanged.
    Direct(String),
    /// Constant values.
    Constant(Vec<String>),
    /// The result of an expression.
    Expression(Expression),
}

/// An inbound attribute flow.
#[derive(Debug)]
pub struct ImportFlow {
    /// The index of the metaverse attribute in its type.
    pub to: usize,
    /// The source of the value.
    pub from: Source,
    /// Its precedence among the flows into the same attribute: 1 precedes 2; 0 is none.
    pub precedence: u32,
    /// Whether its values are hidden.
    pub is_secret: bool,
    /// If the value must be unique in the metaverse: what is tried after the first candidate.
    pub candidates: Option<Candidates>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// Candidates for a unique value, in order. The first is the expression of the flow or name.
#[derive(Debug)]
pub struct Candidates {
    /// The further expressions. The last one may name the counter `n`: 2, 3, ...
    pub others: Vec<Expression>,
    /// The largest value of the counter.
    pub most: u64,
}

/// Outbound rules: how metaverse objects are provisioned to a connector space.
#[derive(Debug)]
pub struct Outbound {
    /// The index of the agent.
    pub agent: usize,
    /// The index of the metaverse type.
    pub from: usize,
    /// An object is provisioned while this condition is true; without one, always.
    pub when: Option<Expression>,
    /// The name of the object in its system.
    pub dn: Expression,
    /// What is tried if another object has that name.
    pub dn_candidates: Option<Candidates>,
    /// What happens when an object is deprovisioned.
    pub deprovision: Deprovision,
    /// After how many seconds a deprovisioned object is deleted, unless it is provisioned again before.
    pub delete_after_s: Option<u64>,
    /// The attribute flows.
    pub flows: Vec<ExportFlow>,
    /// The attribute flows that apply only when the object is created.
    pub initial: Vec<ExportFlow>,
    /// Values that are sent once and never read.
    pub write_only: Vec<WriteOnly>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// What happens when an object is deprovisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deprovision {
    /// It is disconnected and kept in its system.
    Disconnect,
    /// It is deleted in its system.
    Delete,
    /// It receives these values once, is disconnected, and is kept in its system. An empty value removes the
    /// attribute.
    Disable(Vec<(String, String)>),
}

/// An outbound attribute flow.
#[derive(Debug)]
pub struct ExportFlow {
    /// The attribute of the connector space.
    pub to: String,
    /// The source of the value.
    pub from: Source,
    /// For a flow of references: the reference that is sent while there is none.
    pub empty: Option<String>,
    /// Whether its values are hidden.
    pub is_secret: bool,
}

/// The limits that stop a run before it does damage, each as a number and as a share of the objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Safety {
    /// The least share of the known objects that a full import must find.
    pub import_least_share: f64,
    /// Limit of the metaverse objects that a synchronization may delete.
    pub synchronization_deletes: Threshold,
    /// Limit of the changed objects of an agent that a synchronization applies.
    pub synchronization_updates: Threshold,
    /// For each attribute that rules read: limit of the objects that lose their value of it.
    pub lost_values: Threshold,
    /// For some attributes by name: limit of the objects in which they change.
    pub attribute_updates: BTreeMap<String, u64>,
    /// Limit of the objects that an export may delete.
    pub export_deletes: Threshold,
}

/// Lost values of an attribute that are always allowed, so that small directories are usable.
const LOST_VALUES_LEAST: u64 = 10;

impl Safety {
    /// Number of objects that may lose their value of an attribute, of `all` objects.
    pub(crate) fn lost_most(&self, all: u64) -> u64 {
        self.lost_values.most(all).max(LOST_VALUES_LEAST.min(self.lost_values.count))
    }

    /// Allows this number of updated objects, and of changed and lost values of each attribute.
    pub fn allow_updates(&mut self, count: u64) {
        let once = Threshold { count, share: 1.0 };
        (self.synchronization_updates, self.lost_values) = (once, once);
        self.attribute_updates.clear();
    }
}

/// A limit as a number of objects and as a share of the existing ones: the smaller one applies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Number of objects.
    pub count: u64,
    /// Share of the objects, 0 to 1.
    pub share: f64,
}

impl Threshold {
    /// The limit for a total of `all` objects; at least one, so that small directories are usable.
    pub fn most(&self, all: u64) -> u64 {
        self.count.min((self.share * all as f64).floor().max(1.0) as u64)
    }
}

/// A run profile: a named list of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProfile {
    /// Its name.
    pub name: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Outcomes of a completed step that end the run.
    pub stop_after: Vec<&'static str>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The index of the agent.
    pub agent: usize,
    /// The kind of step.
    pub kind: StepKind,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Stages every object of the source.
    FullImport,
    /// Stages the changes since the last import.
    DeltaImport,
    /// Synchronizes every object of the connector space.
    FullSynchronization,
    /// Synchronizes the staged objects and those that failed before.
    DeltaSynchronization,
    /// Sends the pending exports.
    Export,
}

impl StepKind {
    /// All kinds with their names.
    pub const NAMES: [(&'static str, StepKind); 5] = [
        ("full-import", StepKind::FullImport),
        ("delta-import", StepKind::DeltaImport),
        ("full-synchronization", StepKind::FullSynchronization),
        ("delta-synchronization", StepKind::DeltaSynchronization),
        ("export", StepKind::Export),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// An error or warning in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its byte range in the text.
    pub span: Range<usize>,
    /// The problem, as a part of a sentence.
    pub what: String,
    /// What to do instead; may be empty.
    pub help: String,
}

impl Config {
    /// Parses a configuration whose agents are of these kinds.
    ///
    /// # Errors
    /// All errors, in the order of the text.
    pub fn parse(text: &str, kinds: &'static [SystemKind]) -> Result<Config, Vec<Mistake>> {
        read::read(text, kinds)
    }

    /// The attributes of an agent's system that rules read and no rule writes, sorted by name.
    pub fn only_read(&self, agent: usize) -> Vec<&str> {
        // An export may create a column of a file.
        let written = self.written(agent);
        self.read(agent).into_iter().filter(|name| !written.contains(name)).collect()
    }

    /// The attributes of an agent's system that the configuration names, sorted by name.
    pub fn named(&self, agent: usize) -> Vec<&str> {
        let mut named = self.read(agent);
        named.extend(self.written(agent));
        if let Some(of) = self.agents.get(agent) {
            named.extend(of.anchor.iter().chain(&of.references).map(String::as_str));
        }
        named.into_iter().collect()
    }

    fn written(&self, agent: usize) -> BTreeSet<&str> {
        let to = self.outbound.iter().filter(|rules| rules.agent == agent);
        to.flat_map(|rules| rules.flows.iter().chain(&rules.initial)).map(|flow| flow.to.as_str()).collect()
    }

    fn read(&self, agent: usize) -> BTreeSet<&str> {
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for rules in self.inbound.iter().filter(|rules| rules.agent == agent) {
            let project = match &rules.project {
                Projection::When(when) => Some(when),
                Projection::No | Projection::Always => None,
            };
            let joined = rules.joins.iter().flat_map(|join| &join.cs);
            named.extend(joined.flat_map(JoinPart::uses).map(String::as_str));
            let mut expressions: Vec<&Expression> =
                [rules.objects.as_ref(), rules.filter.as_ref(), project].into_iter().flatten().collect();
            expressions.extend(rules.joins.iter().filter_map(|join| join.when.as_ref()));
            for flow in &rules.flows {
                expressions.extend(flow.candidates.iter().flat_map(|candidates| &candidates.others));
                match &flow.from {
                    Source::Direct(name) => named.extend([name.as_str()]),
                    Source::Expression(expression) => expressions.push(expression),
                    Source::Constant(_) => {}
                }
            }
            named.extend(expressions.iter().flat_map(|expression| expression.uses()).map(String::as_str));
        }
        named
    }

    /// The state of the store.
    ///
    /// # Errors
    /// When the file cannot be opened, or the server cannot be reached or reports an error.
    pub fn inspect_store(&self) -> Result<Inspection, StoreError> {
        Ok(match &self.store.database {
            Database::Sqlite { path, durability, cache_bytes } => {
                Inspection::Sqlite(Box::new(Sqlite::inspect(path, *durability, *cache_bytes)?))
            }
            Database::Postgres { server, durability } => {
                Inspection::Postgres(Box::new(Postgres::inspect(server, *durability)?))
            }
        })
    }

    /// Connects an interrupt to every wait for a server.
    pub fn interrupt_by(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
        if let Database::Postgres { server, .. } = &mut self.store.database {
            server.interrupt = interrupt.clone();
        }
        for agent in &mut self.agents {
            agent.system.interrupt_by(interrupt);
        }
    }

    /// Resolves relative paths against a folder.
    pub fn relative_to(&mut self, folder: &Path) {
        match &mut self.store.database {
            Database::Sqlite { path, .. } => *path = folder.join(&*path),
            Database::Postgres { server, .. } => server.relative_to(folder),
        }
        for agent in &mut self.agents {
            agent.system.relative_to(folder);
        }
        for write_only in self.outbound.iter_mut().flat_map(|rules| &mut rules.write_only) {
            write_only.relative_to(folder);
        }
    }
}
