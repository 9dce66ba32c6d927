//! The port of management agents, which read and change connected systems. The crate `connectors` implements it.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::Interrupt;
use crate::comparison::Comparison;
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::Change;

/// The settings of a connected system, which open its agent.
pub trait System: Any + fmt::Debug + Send + Sync {
    /// How its objects are named and how they refer to each other.
    fn naming(&self) -> Naming;

    /// Whether all objects have the same attributes, so that an attribute outside this list never has a
    /// value.
    fn has_columns(&self) -> bool {
        false
    }

    /// Whether two attribute names that differ in case are one attribute.
    fn ignores_case_of_attributes(&self) -> bool {
        false
    }

    /// How the values of an attribute are compared if the system does not say it by [`Self::comparisons`].
    fn comparison(&self) -> Comparison {
        Comparison::Exact
    }

    /// How the system compares the values of these attributes, in their order; none for an attribute that it does
    /// not know. It is read before each import.
    ///
    /// # Errors
    /// When the system cannot be read. What it said before then applies.
    fn comparisons(&self, attributes: &[&str]) -> Result<Vec<Option<Comparison>>, AgentError> {
        Ok(vec![Some(self.comparison()); attributes.len()])
    }

    /// The names below which its objects are; empty if it has no such limits.
    fn bases(&self) -> &[ldap::Dn] {
        &[]
    }

    /// Whether it can report what changed since the last import.
    ///
    /// # Errors
    /// What to do instead.
    fn has_delta_import(&self) -> Result<(), &'static str> {
        Err("write full-import: this type of system has no other")
    }

    /// Its file, with the key that names it; none if it is not a file.
    fn file(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// The address to which changes go unencrypted; none if they are protected, or stay on this host in files.
    fn unencrypted(&self) -> Option<String> {
        None
    }

    /// Resolves relative paths against a folder.
    fn relative_to(&mut self, _folder: &Path) {}

    /// Connects an interrupt to every wait for the system.
    fn interrupt_by(&mut self, _interrupt: &Interrupt) {}

    /// How its changes become known at once.
    fn changes(&self) -> Changes {
        Changes::Unknown("does not report changes", "use `every`")
    }

    /// The attributes that the configuration does not name, so that they get numbers before the system is
    /// opened.
    ///
    /// # Errors
    /// When the system cannot be read.
    fn attributes(&self, objects: &Objects<'_>) -> Result<Vec<String>, AgentError>;

    /// The agent. `names` contains every attribute of the system.
    ///
    /// # Errors
    /// When the configuration does not fit the system.
    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError>;
}

/// How changes of a system become known at once.
pub enum Changes {
    /// These files change.
    Files(Vec<PathBuf>),
    /// The system reports them over a connection.
    Reported(Box<dyn Listener>),
    /// They do not: why, after the name of the agent, and what to use instead.
    Unknown(&'static str, &'static str),
}

/// Receives the reports of a system that something changed.
pub trait Listener: Send {
    /// Listens until `is_over`, or until the connection is lost. `begun` is called when all changes from now on are
    /// reported, and `changed` for each report.
    ///
    /// # Errors
    /// When the system cannot be reached, or cannot report changes.
    fn listen(
        &mut self,
        is_over: &dyn Fn() -> bool,
        begun: &mut dyn FnMut(),
        changed: &mut dyn FnMut(),
    ) -> Result<(), AgentError>;
}

/// What the configuration says about the objects of any system.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// The attributes that together identify an object and never change.
    pub anchor: &'a [String],
    /// Reference attributes.
    pub references: &'a [String],
    /// The attributes that are sent and never read.
    pub write_only: &'a [String],
}

/// The capabilities of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It can report what changed since the last import.
    pub delta_import: bool,
    /// Objects can be renamed.
    pub rename: bool,
    /// An import can confirm what was exported.
    pub confirm: bool,
}

/// Why an agent fails.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The system cannot be reached or refuses.
    #[error("{what}: {why}")]
    System {
        /// The operation and its place.
        what: String,
        /// The reason.
        why: String,
    },
    /// The agent does not support the request.
    #[error("{0}")]
    NotSupported(String),
}

impl AgentError {
    /// An error of a system: the operation with its place, and the reason.
    pub fn system(what: impl Into<String>, why: impl ToString) -> AgentError {
        AgentError::System { what: what.into(), why: why.to_string() }
    }
}

/// An item of an import.
#[derive(Clone, Debug, PartialEq)]
pub enum Imported {
    /// An object.
    Object(ImportedObject),
    /// An object that may have come already in this import; in that case the first one counts.
    Newer(ImportedObject),
    /// An object that was deleted.
    Gone(IndexKey),
    /// An object that is unchanged.
    Present(IndexKey),
    /// An item that is not a valid object.
    Error(DiscoveryError),
}

/// An object of the connected system.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedObject {
    /// The key of its anchor.
    pub anchor: IndexKey,
    /// Its name in its system; empty if the anchor is the name, see [`System::naming`].
    pub dn: String,
    /// Its attributes. Reference attributes have their values here like all others.
    pub image: Hologram,
    /// The number of its first line in the source file.
    pub line: Option<LineNumber>,
}

/// The number of a line, from 1. If a file is so long that the number does not fit, its last lines have none.
pub type LineNumber = std::num::NonZeroU32;

/// An object that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryError {
    /// The place: a line or a name.
    pub place: String,
    /// What kind of error: `parse-error`, `missing-anchor`, `duplicate-object`, ...
    pub kind: &'static str,
    /// A description of the error.
    pub text: String,
}

/// Reads objects, on a separate thread while the previous ones are staged.
pub trait Import: Send {
    /// Reads at most `most` items into `batch`, which is empty. If it is empty afterwards, the import is
    /// complete.
    ///
    /// # Errors
    /// When the system cannot be read further.
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError>;

    /// Whether, at the end, every existing object was reported, so that all others are deleted. This is
    /// always true for a full import. It is true for a delta import if the system does not report deletions.
    fn is_complete(&self) -> bool {
        false
    }

    /// Number of referrals to other servers, which were not followed.
    fn referrals(&self) -> u64 {
        0
    }

    /// The watermark at which the next delta import begins, known at the end; none if the system cannot
    /// report changes.
    fn watermark(&self) -> Option<String> {
        None
    }
}

/// A change to be made in the connected system.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedObject {
    /// The kind of change.
    pub change: Change,
    /// The key of its anchor, if it is known.
    pub anchor: Option<IndexKey>,
    /// Its name.
    pub dn: String,
    /// Its new name, if it is renamed.
    pub new_dn: Option<String>,
    /// The attributes that change, with all their new values; an attribute without values is removed.
    pub attributes: Vec<(Attribute, Vec<Vec<u8>>)>,
    /// Attributes of which only the named values change; only for an agent that
    /// [supports](Agent::takes_changed_values) them.
    pub changed_values: Vec<ChangedValues>,
    /// For an add: whether an object that exists already is changed to the new state. Otherwise it is reported
    /// by [`Agent::existing`].
    pub adopts: bool,
    /// For a renamed object: the attributes that rules write, with the values that they are to have. A naming
    /// value among them is kept.
    pub written: Vec<(Attribute, Vec<Vec<u8>>)>,
    /// The last known image; for an object that no import has shown yet, the image that was sent. Empty for
    /// an agent that [wants](Agent::wants_image) none.
    pub image: Hologram,
}

/// Values to be added to an attribute, and values to be removed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedValues {
    /// The attribute.
    pub attribute: Attribute,
    /// Values to be added; a value that already exists is not an error.
    pub added: Vec<Vec<u8>>,
    /// Values to be removed; a value that does not exist is not an error.
    pub removed: Vec<Vec<u8>>,
}

/// Why the system refused a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A connected system. An export uses it on a separate thread, in parallel with the store.
pub trait Agent: Send {
    /// The capabilities of the agent.
    fn capabilities(&self) -> Capabilities;

    /// Begins to read all objects.
    ///
    /// # Errors
    /// When the system cannot be read.
    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError>;

    /// Begins to read the changes since the watermark of an earlier import: complete current objects, and
    /// deletions.
    ///
    /// # Errors
    /// When the system cannot be read, cannot report changes, or does not know the watermark any more. A full
    /// import is then necessary.
    fn delta_import(&mut self, _since: &str) -> Result<Box<dyn Import>, AgentError> {
        Err(AgentError::NotSupported("it has no delta import: run a full-import".into()))
    }

    /// Whether it supports [`ExportedObject::changed_values`], so that one more member of a group does not
    /// send all members. Without this, reference attributes come in `attributes`, with all their values.
    fn takes_changed_values(&self) -> bool {
        false
    }

    /// Whether it uses [`ExportedObject::image`], which is computed for each new object.
    fn wants_image(&self) -> bool {
        true
    }

    /// The preferred number of changes per call, for an agent without transactions. One commit is then
    /// divided into several calls.
    fn piece_objects(&self) -> usize {
        usize::MAX
    }

    /// Makes changes and returns an answer for each, in order. No change of a call depends on another change
    /// of the same call.
    ///
    /// After a crash the same changes come again, although they were made. So a repeated rename succeeds, and
    /// the deletion of a missing object succeeds. An add of an existing object is refused, and
    /// [`Self::existing`] returns the object; with [`ExportedObject::adopts`], the object is changed.
    ///
    /// # Errors
    /// When the system cannot be reached any more: then the results of the changes are unknown.
    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError>;

    /// The existing objects that adds of the last export met, with the indexes of these changes. An agent
    /// whose objects are recognized by their anchor alone has none: it changes an existing object.
    fn existing(&mut self) -> Vec<(usize, Hologram)> {
        Vec::new()
    }

    /// The indexes, in ascending order, of the changes of the last export that were refused because another object
    /// has a value that must be unique. They are sent again, together, when all other changes are made: these may
    /// free the values. An agent that can also exchanges such values among the changes of a call.
    fn conflicts(&mut self) -> Vec<usize> {
        Vec::new()
    }
}

/// A two-way map of attribute names and numbers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    by_name: std::collections::HashMap<String, Attribute>,
    by_number: std::collections::HashMap<Attribute, String>,
}

impl Names {
    /// Adds a name.
    pub fn insert(&mut self, name: &str, attribute: Attribute) {
        self.by_name.insert(name.into(), attribute);
        self.by_number.insert(attribute, name.into());
    }

    /// The names for a system that ignores the case of attributes: every spelling of an attribute that rules name
    /// has the number of the spelling in the rules.
    #[must_use]
    pub fn spelled_as<'a>(&self, named: impl Iterator<Item = &'a str>) -> Names {
        let of_rules: std::collections::HashMap<String, Attribute> =
            named.filter_map(|name| Some((name.to_ascii_lowercase(), self.attribute(name)?))).collect();
        let mut names = self.clone();
        for (name, attribute) in &mut names.by_name {
            if let Some(of_rule) = of_rules.get(&name.to_ascii_lowercase()) {
                *attribute = *of_rule;
            }
        }
        names
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All names with their numbers, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Attribute)> {
        self.by_name.iter().map(|(name, attribute)| (name.as_str(), *attribute))
    }

    /// The number of a name; none if the name is unknown.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        self.by_name.get(name).copied()
    }

    /// The name of a number; empty if the number is unknown.
    pub fn name(&self, attribute: Attribute) -> &str {
        self.by_number.get(&attribute).map_or("", String::as_str)
    }
}
