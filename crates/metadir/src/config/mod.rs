//! What an administrator writes: one TOML file for a metadirectory.
//!
//! The file is checked whole: everything that is wrong in it is told at once, each with its place.

mod exposure;
mod part;
mod read;
mod references;
mod secrets;
mod system;
mod warnings;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(crate) use exposure::is_this_host;
pub use secrets::without_secrets;
pub(crate) use system::is_attribute_name;
pub use system::{
    AttributeValue, Bind, Delimited, DelimitedDelta, Delta, FixedColumn, FixedWidth, Given, Ldap, Ldif, Open,
    Password, Resource, Scim, Sql, SqlDatabase, SqlDelta, System, Token, Update, ValuesTable,
};

use crate::Interrupt;
use crate::expression::Expression;
use crate::schema::Type;
use crate::store::Server;

/// A metadirectory.
#[derive(Debug)]
pub struct Config {
    /// Where its state is kept.
    pub store: StoreConfig,
    /// The types of objects of the metaverse.
    pub types: Vec<MetaverseType>,
    /// The management agents.
    pub agents: Vec<AgentConfig>,
    /// How objects of connector spaces become or join objects of the metaverse.
    pub inbound: Vec<Inbound>,
    /// How objects of the metaverse are provisioned to connector spaces.
    pub outbound: Vec<Outbound>,
    /// What stops a run before it does harm.
    pub safety: Safety,
    /// Lists of steps with a name.
    pub runs: Vec<RunProfile>,
    /// What is allowed and most likely not meant.
    pub warnings: Vec<Mistake>,
    /// What ends every wait for a server.
    pub interrupt: Interrupt,
}

/// Where the state of a metadirectory is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The database.
    pub database: Database,
    /// Objects that are committed together: 1 lets each wait for the disk, 10,000 hides it.
    pub commit_objects: usize,
}

/// A database that holds a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// A file.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// When a commit is safe.
        durability: Durability,
        /// Memory for its pages, bytes.
        cache_bytes: u64,
    },
    /// A schema of a PostgreSQL database.
    Postgres {
        /// Where it is.
        server: Server,
        /// When a commit is safe.
        durability: Durability,
    },
}

/// When a commit is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At once, from the loss of power too.
    Full,
    /// At once from the end of the process; the loss of power may take the last commits back.
    Normal,
    /// When the kernel writes it.
    Off,
}

/// A type of objects of the metaverse.
#[derive(Debug)]
pub struct MetaverseType {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: Vec<MetaverseAttribute>,
    /// Agents of which the loss of the last connector deletes the object; none for the loss of the last of all.
    pub deleted_with: Vec<usize>,
    /// Where it was written.
    pub span: Range<usize>,
}

/// An attribute of the metaverse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaverseAttribute {
    /// Its name.
    pub name: String,
    /// What sort of values it has.
    pub kind: Type,
    /// Whether it may have several.
    pub several: bool,
}

/// A management agent: a connected system and its connector space.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub system: System,
    /// Attributes that together are the key of an object and never change.
    pub anchor: Vec<String>,
    /// Attributes that refer to other objects of this connector space, by their names where they have such, else by their anchor.
    pub references: Vec<String>,
    /// Where it was written.
    pub span: Range<usize>,
}

/// How objects of a connector space become or join objects of the metaverse.
#[derive(Debug)]
pub struct Inbound {
    /// The agent, by its place.
    pub agent: usize,
    /// The type of the metaverse, by its place.
    pub to: usize,
    /// The objects that these rules are for; without it, all that no rules of the agent before these took.
    pub objects: Option<Expression>,
    /// Objects for which this holds are left alone.
    pub filter: Option<Expression>,
    /// Rules to find the object of the metaverse, in order.
    pub joins: Vec<Join>,
    /// Whether an object that finds none becomes one; with a condition only when it holds.
    pub project: Projection,
    /// Where values go.
    pub flows: Vec<ImportFlow>,
}

/// Whether an object of a connector space becomes one of the metaverse.
#[derive(Debug)]
pub enum Projection {
    /// It never does.
    No,
    /// It always does.
    Always,
    /// It does when this holds.
    When(Expression),
}

/// A join rule: equal values.
#[derive(Debug)]
pub struct Join {
    /// The attribute of the connector space.
    pub cs: String,
    /// The attribute of the metaverse.
    pub mv: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// It is tried only when this holds.
    pub when: Option<Expression>,
}

/// Where a value comes from.
#[derive(Debug)]
pub enum Source {
    /// The values of an attribute as they are.
    Direct(String),
    /// Always these.
    Constant(Vec<String>),
    /// What an expression gives.
    Expression(Expression),
}

/// A flow into the metaverse.
#[derive(Debug)]
pub struct ImportFlow {
    /// The attribute of the metaverse, by its place in its type.
    pub to: usize,
    /// Where the value comes from.
    pub from: Source,
    /// Its rank among the flows into the same attribute: 1 wins over 2.
    pub precedence: u32,
}

/// How objects of the metaverse are provisioned to a connector space.
#[derive(Debug)]
pub struct Outbound {
    /// The agent, by its place.
    pub agent: usize,
    /// The type of the metaverse, by its place.
    pub from: usize,
    /// An object is provisioned while this holds; without it, always.
    pub when: Option<Expression>,
    /// The name of the object in its system.
    pub dn: Expression,
    /// What becomes of the object when it is provisioned no longer.
    pub deprovision: Deprovision,
    /// Where values go, always.
    pub flows: Vec<ExportFlow>,
    /// Where values go when the object is made, and never again.
    pub initial: Vec<ExportFlow>,
}

/// What becomes of an object that is provisioned no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deprovision {
    /// It stays in its system and is no connector any more.
    Disconnect,
    /// It is deleted in its system.
    Delete,
    /// It is given these values once, stays in its system, and is no connector any more. An empty value takes the attribute away.
    Disable(Vec<(String, String)>),
}

/// A flow out of the metaverse.
#[derive(Debug)]
pub struct ExportFlow {
    /// The attribute of the connector space.
    pub to: String,
    /// Where the value comes from.
    pub from: Source,
}

/// What stops a run before it does harm: each as a number of objects and as a share of those there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Safety {
    /// Share of the objects that a full import must find again.
    pub import_least_share: f64,
    /// Objects of the metaverse that a synchronization may delete.
    pub synchronization_deletes: Threshold,
    /// Objects that an export may delete.
    pub export_deletes: Threshold,
}

/// A number of objects, and a share of those there are: the smaller of the two holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Objects.
    pub count: u64,
    /// Share, 0 to 1.
    pub share: f64,
}

impl Threshold {
    /// The most objects of `all`; at least one, so that a small directory can be worked with.
    pub fn most(&self, all: u64) -> u64 {
        self.count.min((self.share * all as f64).floor().max(1.0) as u64)
    }
}

/// A list of steps with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProfile {
    /// Its name.
    pub name: String,
    /// What is done, one after the other.
    pub steps: Vec<Step>,
    /// Outcomes of a completed step after which no further one is carried out.
    pub stop_after: Vec<&'static str>,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The agent, by its place.
    pub agent: usize,
    /// What is done.
    pub kind: StepKind,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Stages every object of the source.
    FullImport,
    /// Stages what changed since the last import.
    DeltaImport,
    /// Synchronizes every object of the connector space.
    FullSynchronization,
    /// Synchronizes what is staged, and what failed before.
    DeltaSynchronization,
    /// Sends what is pending.
    Export,
}

impl StepKind {
    /// All of them, by name.
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

/// Something wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where, as bytes of the text.
    pub span: Range<usize>,
    /// What is wrong, as a part of a sentence.
    pub what: String,
    /// What to do instead; may be empty.
    pub help: String,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All that is wrong in it, in the order of the text.
    pub fn parse(text: &str) -> Result<Config, Vec<Mistake>> {
        read::read(text)
    }

    /// The attributes of an agent's system that rules read and none writes, in the order of their names.
    pub fn only_read(&self, agent: usize) -> Vec<&str> {
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for rules in self.inbound.iter().filter(|rules| rules.agent == agent) {
            let project = match &rules.project {
                Projection::When(when) => Some(when),
                Projection::No | Projection::Always => None,
            };
            named.extend(rules.joins.iter().map(|join| join.cs.as_str()));
            let mut expressions: Vec<&Expression> =
                [rules.objects.as_ref(), rules.filter.as_ref(), project].into_iter().flatten().collect();
            expressions.extend(rules.joins.iter().filter_map(|join| join.when.as_ref()));
            for flow in &rules.flows {
                match &flow.from {
                    Source::Direct(name) => named.extend([name.as_str()]),
                    Source::Expression(expression) => expressions.push(expression),
                    Source::Constant(_) => {}
                }
            }
            named.extend(expressions.iter().flat_map(|expression| expression.uses()).map(String::as_str));
        }
        // An export may be the first to write a column into a file.
        let to = self.outbound.iter().filter(|rules| rules.agent == agent);
        let written: BTreeSet<&str> =
            to.flat_map(|rules| &rules.flows).map(|flow| flow.to.as_str()).collect();
        named.difference(&written).copied().collect()
    }

    /// Lets this interruption end every wait for a server.
    pub fn interrupt_by(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
        if let Database::Postgres { server, .. } = &mut self.store.database {
            server.interrupt = interrupt.clone();
        }
        for agent in &mut self.agents {
            agent.system.interrupt_by(interrupt);
        }
    }

    /// Takes relative paths as beginning in a folder.
    pub fn relative_to(&mut self, folder: &Path) {
        match &mut self.store.database {
            Database::Sqlite { path, .. } => *path = folder.join(&*path),
            Database::Postgres { server, .. } => server.relative_to(folder),
        }
        for agent in &mut self.agents {
            agent.system.relative_to(folder);
        }
    }
}
