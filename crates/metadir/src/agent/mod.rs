//! Management agents, which read and change connected systems. A new agent is a folder or file here and an
//! arm in [`open`].

mod attribute_value;
mod delimited;
mod file;
mod fixed_width;
mod ldap;
mod ldif;
pub mod scim;
mod sql;

pub(crate) use self::ldap::watch as watch_directory;
use crate::config::{AgentConfig, Password, System};
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::Change;
use crate::store::ObjectError;

/// Limit of the bytes of objects that are read at a time, whatever their number.
const BATCH_BYTES: usize = 16 << 20;

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
    pub(crate) fn system(what: impl Into<String>, why: impl ToString) -> AgentError {
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

impl DiscoveryError {
    /// The error as other errors of objects are: its object is the place.
    pub fn in_parts(&self) -> ObjectError {
        ObjectError {
            object: self.place.clone(),
            kind: self.kind.into(),
            attribute: None,
            text: self.text.clone(),
        }
    }
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

    /// All names with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, Attribute)> {
        self.by_name.iter().map(|(name, attribute)| (name.as_ref(), *attribute))
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Attribute)> {
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

/// The attributes of a system that its configuration does not name, so that they get numbers before it is
/// opened.
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

/// The agent of a configuration. `names` must contain every attribute of the system.
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
        System::Sql(settings) => Box::new(sql::Sql::new(settings, anchor, &config.write_only, names)),
        System::Scim(settings) => Box::new(scim::Scim::new(settings, anchor, &config.write_only, names)?),
        System::Given(given) => (given.open)(config, names)?,
        System::Ldap(settings) => Box::new(ldap::Ldap::new(settings, config, names)),
    })
}

/// Reads a password from its place, without the end of its line.
pub(crate) fn password(kept: &Password) -> Result<Vec<u8>, AgentError> {
    let (place, found) = match kept {
        Password::File(path) => (path.display().to_string(), files::secret::read_bytes(path)),
        Password::Environment(name) => {
            let found = std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec);
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "it is not set");
            (format!("${name}"), found.ok_or(missing))
        }
    };
    let failed = |why: &dyn ToString| {
        AgentError::system(format!("reading the password from {place}"), why.to_string())
    };
    let mut password = found.map_err(|error| failed(&error))?;
    // Editors end the last line with a line end.
    for end in [b'\n', b'\r'] {
        if password.last() == Some(&end) {
            password.pop();
        }
    }
    if password.is_empty() { Err(failed(&"there is none")) } else { Ok(password) }
}

/// Whether the object exists after the change that a word names; none if the word is unknown.
fn change_of(word: &[u8]) -> Option<bool> {
    match word {
        b"add" | b"insert" | b"modify" | b"update" => Some(true),
        b"delete" | b"remove" => Some(false),
        _ => None,
    }
}

/// The key of an anchor of one or several parts.
pub fn anchor_key<'a>(parts: impl Iterator<Item = &'a [u8]>) -> IndexKey {
    IndexKey::of_parts(parts)
}
