//! Management agents: how connected systems are read and changed. A new one is a folder or file here and an arm in [`open`].

mod attribute_value;
mod delimited;
mod file;
mod fixed_width;
mod ldap;
mod ldif;
pub mod scim;
mod sql;

use crate::config::{AgentConfig, System};
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::Change;

/// Bytes of objects that are read at a time, whatever their number.
const BATCH_BYTES: usize = 16 << 20;

/// What an agent can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It can tell what changed since the last time.
    pub delta_import: bool,
    /// Objects can be renamed.
    pub rename: bool,
    /// What was exported can be seen by an import.
    pub confirm: bool,
}

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The system cannot be reached or refuses.
    #[error("{what}: {why}")]
    System {
        /// What was tried, with its place.
        what: String,
        /// What came of it.
        why: String,
    },
    /// It cannot do what is asked.
    #[error("{0}")]
    NotSupported(String),
}

impl AgentError {
    pub(crate) fn system(what: impl Into<String>, why: impl ToString) -> AgentError {
        AgentError::System { what: what.into(), why: why.to_string() }
    }
}

/// What an import found.
#[derive(Clone, Debug, PartialEq)]
pub enum Imported {
    /// An object.
    Object(ImportedObject),
    /// An object that may have come already in this import; then it stays as it came.
    Newer(ImportedObject),
    /// An object that is gone.
    Gone(IndexKey),
    /// An object that is as it was.
    Present(IndexKey),
    /// Something that is no object.
    Error(DiscoveryError),
}

/// An object of the connected system.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedObject {
    /// What stands for its anchor.
    pub anchor: IndexKey,
    /// Its name in its system; empty where the anchor is the name, as [`System::naming`] says.
    pub dn: String,
    /// What it is. Attributes that refer to other objects have their values here as all others.
    pub image: Hologram,
    /// The line that it begins on in the file it was read from.
    pub line: Option<LineNumber>,
}

/// The number of a line, from 1. Of files so long that it does not fit, the last lines have none.
pub type LineNumber = std::num::NonZeroU32;

/// An object that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryError {
    /// Where: a line, a name.
    pub place: String,
    /// What kind of error: `parse-error`, `missing-anchor`, `duplicate-object`, ...
    pub kind: &'static str,
    /// What is wrong.
    pub text: String,
}

/// Objects as they are read, on a thread of their own while those before are staged.
pub trait Import: Send {
    /// Reads at most so many more into `batch`, which was cleared before. Nothing more came when it stays empty.
    ///
    /// # Errors
    /// When the system cannot be read further.
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError>;

    /// Whether, once everything was read, each object that is there was told, so that others are gone. A full import always
    /// tells them all; a delta import does where the system does not know what was deleted.
    fn is_complete(&self) -> bool {
        false
    }

    /// Where the next delta import begins, known once everything was read; none when the system cannot tell what changed.
    fn watermark(&self) -> Option<String> {
        None
    }
}

/// A change to be made in the connected system.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedObject {
    /// What happens to the object.
    pub change: Change,
    /// What stands for its anchor, when it is known.
    pub anchor: Option<IndexKey>,
    /// Its name.
    pub dn: String,
    /// Its name from now on, where that is another.
    pub new_dn: Option<String>,
    /// The attributes that change, with all values they shall have; one without values is taken away.
    pub attributes: Vec<(Attribute, Vec<Vec<u8>>)>,
    /// Attributes of which only the values change that are named here; only for an agent that [takes](Agent::takes_changed_values)
    /// them.
    pub changed_values: Vec<ChangedValues>,
    /// What it was when it was last seen; of one that was not seen yet, what was sent of it. Empty for an agent that
    /// [wants](Agent::wants_image) none.
    pub image: Hologram,
}

/// Values that an attribute shall have beside the others, and such that it shall have no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedValues {
    /// The attribute.
    pub attribute: Attribute,
    /// Values to be added; one that is there already is well.
    pub added: Vec<Vec<u8>>,
    /// Values to be taken away; one that is not there is well.
    pub removed: Vec<Vec<u8>>,
}

/// Why the system did not make a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A connected system. An export speaks to it on a thread of its own, while the store is worked on.
pub trait Agent: Send {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Begins to read every object.
    ///
    /// # Errors
    /// When the system cannot be read.
    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError>;

    /// Begins to read what changed since a watermark that an import gave: objects whole as they are now, and those that are gone.
    ///
    /// # Errors
    /// When the system cannot be read, cannot tell what changed, or no longer knows the watermark: then a full import is needed.
    fn delta_import(&mut self, _since: &str) -> Result<Box<dyn Import>, AgentError> {
        Err(AgentError::NotSupported("it has no delta import: run a full-import".into()))
    }

    /// Whether it takes [`ExportedObject::changed_values`], so that a group that wins a member is not sent with all of them. Without
    /// it, attributes that refer to other objects come in `attributes`, with all their values.
    fn takes_changed_values(&self) -> bool {
        false
    }

    /// Whether [`ExportedObject::image`] is looked at; one is made for each new object.
    fn wants_image(&self) -> bool {
        true
    }

    /// How many changes a call is best given, where each call is not worth something by itself as a transaction is: what is to be
    /// committed together then comes in several calls.
    fn piece_objects(&self) -> usize {
        usize::MAX
    }

    /// Makes changes, and answers for each in order. No change of one call needs another one of it to be made first.
    ///
    /// After a crash the same changes come again, though they were made: an object that is there already is changed to what it shall
    /// be, one that has its new name already keeps it, one that is gone is well.
    ///
    /// # Errors
    /// When the system cannot be reached any more: then it is not known what became of the changes.
    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError>;
}

/// Numbers of attributes by name, and the other way round.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The number of a name that is known.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        self.by_name.get(name).copied()
    }

    /// The name of a number; empty when it is not known.
    pub fn name(&self, attribute: Attribute) -> &str {
        self.by_number.get(&attribute).map_or("", String::as_str)
    }
}

/// The attributes of a system that its configuration does not name, so that they get numbers before it is opened.
///
/// # Errors
/// When the system cannot be read.
pub fn attributes(config: &AgentConfig) -> Result<Vec<String>, AgentError> {
    match &config.system {
        System::Delimited(settings) => delimited::columns(settings),
        System::FixedWidth(settings) => Ok(fixed_width::columns(settings)),
        System::AttributeValue(settings) => attribute_value::attributes(settings, &config.anchor),
        System::Ldif(settings) => ldif::attributes(settings, &config.anchor),
        System::Sql(settings) => sql::attributes(settings, &config.anchor),
        System::Scim(settings) => Ok(scim::attributes(settings, &config.anchor)),
        System::Given(given) => Ok(given.attributes.clone()),
        System::Ldap(settings) => ldap::attributes(settings, config),
    }
}

/// The agent of a configuration. `names` knows every attribute of the system.
///
/// # Errors
/// When the configuration does not fit the system.
pub fn open(config: &AgentConfig, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
    let anchor = &config.anchor;
    Ok(match &config.system {
        System::Delimited(settings) => Box::new(delimited::Delimited::new(settings, anchor, names)),
        System::FixedWidth(settings) => Box::new(fixed_width::FixedWidth::new(settings, anchor, names)),
        System::AttributeValue(settings) => {
            Box::new(attribute_value::AttributeValue::new(settings, anchor, names))
        }
        System::Ldif(settings) => Box::new(ldif::Ldif::new(settings, anchor, names)),
        System::Sql(settings) => Box::new(sql::Sql::new(settings, anchor, names)),
        System::Scim(settings) => Box::new(scim::Scim::new(settings, anchor, names)?),
        System::Given(given) => (given.open)(config, names)?,
        System::Ldap(settings) => Box::new(ldap::Ldap::new(settings, config, names)),
    })
}

/// What a word for a change says of the object: whether it is there; none when it is no such word.
fn change_of(word: &[u8]) -> Option<bool> {
    match word {
        b"add" | b"insert" | b"modify" | b"update" => Some(true),
        b"delete" | b"remove" => Some(false),
        _ => None,
    }
}

/// What stands for an anchor of one or several parts.
pub fn anchor_key<'a>(parts: impl Iterator<Item = &'a [u8]>) -> IndexKey {
    IndexKey::of_parts(parts)
}
