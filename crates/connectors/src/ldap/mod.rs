//! Directories that support LDAP: OpenLDAP, 389 Directory Server, Active Directory and others. Settings
//! describe the differences: the anchor, and how the server reports changes.

mod entry;
mod export;
mod import;
mod refusal;
mod renamed;
mod schema;
mod settings;
mod since;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ldap::Filter;
use ldap::message::{Attribute as LdapAttribute, List, Scope, SearchRequest};
use ldap::session::{self, Options, Security, Session, SessionError, Trust};

use self::settings::Delta;
use self::watch::Watch;
use crate::ldap::settings::Ldap as Settings;
use entry::Entries;
use metadir::Interrupt;
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Names, Objects, Refused, System,
};
use metadir::comparison::Comparison;
use metadir::config::SystemKind;
use metadir::hologram::{Attribute, Hologram};
use metadir::naming::Naming;
use since::Since;

/// `type = "ldap"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "ldap", keys: settings::KEYS, anchor: None, read: settings::read };

impl System for Settings {
    fn naming(&self) -> Naming {
        Naming::Dn
    }

    fn ignores_case_of_attributes(&self) -> bool {
        true
    }

    /// That of most attributes.
    fn comparison(&self) -> Comparison {
        Comparison::CaseAndSpaces
    }

    fn comparisons(&self, attributes: &[&str]) -> Result<Vec<Option<Comparison>>, AgentError> {
        schema::comparisons(self, &mut connect(self)?, attributes)
    }

    fn bases(&self) -> &[ldap::Dn] {
        &self.bases
    }

    fn has_delta_import(&self) -> Result<(), &'static str> {
        self.delta
            .as_ref()
            .map(drop)
            .ok_or("write full-import, or how changes are found in `delta` of the agent")
    }

    fn unencrypted(&self) -> Option<String> {
        (self.server.security == Security::None).then(|| self.server.to_string())
    }

    fn relative_to(&mut self, folder: &Path) {
        if let Some(path) = &mut self.ca_file {
            *path = folder.join(&*path);
        }
        if let Some(bind) = &mut self.bind {
            bind.password.relative_to(folder);
        }
    }

    fn interrupt_by(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    fn changes(&self) -> Changes {
        if self.delta == Some(Delta::ContentSynchronization) {
            return Changes::Reported(Box::new(Watch { settings: self.clone(), cookie: None }));
        }
        Changes::Unknown(
            "does not report changes at once",
            "write delta = \"content-synchronization\" in its agent if the server supports it; or use `every`",
        )
    }

    fn attributes(&self, objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        attributes(self, objects)
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Ldap::new(self, objects, names)))
    }
}

/// Timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(10);

/// Every user attribute.
const ALL_USER_ATTRIBUTES: &str = "*";

/// A directory.
pub(super) struct Ldap {
    directory: Arc<Directory>,
    names: Names,
    /// Sessions of earlier exports, kept for the next ones.
    sessions: Vec<Session>,
    /// Existing entries that adds of the last export met.
    existing: Vec<(usize, Hologram)>,
}

/// The data that the parts of the agent share.
struct Directory {
    settings: Settings,
    /// The requested attributes.
    wanted: Vec<String>,
    /// Those of them that refer to other objects.
    references: Vec<String>,
    /// The anchor attributes of an object.
    anchor: Vec<(String, Attribute)>,
}

/// The attributes that a directory has.
pub(super) fn attributes(settings: &Settings, objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
    let mut names = requested_attributes(settings, objects);
    if settings.attributes.is_empty() {
        names.retain(|name| name != ALL_USER_ATTRIBUTES);
        names.extend(schema::user_attributes(settings, &mut connect(settings)?)?);
    }
    let mut known = std::collections::HashSet::new();
    names.retain(|name| known.insert(name.to_ascii_lowercase()));
    Ok(names)
}

/// The requested attributes.
fn requested_attributes(settings: &Settings, objects: &Objects<'_>) -> Vec<String> {
    let mut wanted = [objects.anchor, objects.references, &settings.attributes].concat();
    if settings.attributes.is_empty() {
        wanted.push(ALL_USER_ATTRIBUTES.into());
    }
    wanted
}

impl Ldap {
    pub(super) fn new(settings: &Settings, objects: &Objects<'_>, names: &Names) -> Ldap {
        let anchor = objects.anchor.iter().filter_map(|name| Some((name.clone(), names.attribute(name)?)));
        let directory = Directory {
            settings: settings.clone(),
            wanted: requested_attributes(settings, objects),
            references: objects.references.to_vec(),
            anchor: anchor.collect(),
        };
        Ldap {
            directory: Arc::new(directory),
            names: names.clone(),
            sessions: Vec::new(),
            existing: Vec::new(),
        }
    }
}

impl Agent for Ldap {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: self.directory.settings.delta.is_some(), rename: true, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let session = connect(&self.directory.settings)?;
        Ok(Box::new(import::DirectoryReader::begin(
            self.directory.clone(),
            Entries::new(&self.names),
            session,
            None,
        )?))
    }

    fn delta_import(&mut self, since: &str) -> Result<Box<dyn Import>, AgentError> {
        let since = Since::parse(since, &self.directory)?;
        let session = connect(&self.directory.settings)?;
        let entries = Entries::new(&self.names);
        Ok(Box::new(import::DirectoryReader::begin(self.directory.clone(), entries, session, Some(since))?))
    }

    fn takes_changed_values(&self) -> bool {
        true
    }

    fn wants_image(&self) -> bool {
        false
    }

    fn piece_objects(&self) -> usize {
        export::PIECE_OBJECTS
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        self.existing.clear();
        let Ldap { directory, names, sessions, existing } = self;
        let changes = &export::with_quoted_passwords(changes, names);
        let answers = export::send(directory, names, sessions, changes, existing);
        if answers.is_err() {
            // Requests that are still in flight on the sessions are abandoned.
            self.sessions.clear();
        }
        answers
    }

    fn existing(&mut self) -> Vec<(usize, Hologram)> {
        std::mem::take(&mut self.existing)
    }
}

/// Connects and binds as the settings say.
fn connect(settings: &Settings) -> Result<Session, AgentError> {
    let failed = |error: SessionError| AgentError::system("connecting to the directory", error);
    let options = Options {
        connect_timeout: CONNECT.min(settings.timeout),
        response_timeout: settings.timeout,
        interrupt: settings.interrupt.clone(),
        trust: settings.ca_file.clone().map_or(Trust::System, Trust::File),
        ..Options::default()
    };
    let mut session = Session::connect(&settings.server, &options).map_err(failed)?;
    if let Some(bind) = &settings.bind {
        session.bind(&bind.dn, &bind.password.read("password")?).map_err(failed)?;
    }
    Ok(session)
}

/// Limit of the values of an entry that is read by name: more than a range of a large group or a schema has.
const SHOWN_MAX: usize = 1_000_000;

/// The values of an entry's attributes, by lower-case names.
type Shown = HashMap<String, Vec<Vec<u8>>>;

/// Reads an entry by its name. None if it does not exist.
fn entry(session: &mut Session, dn: &str, attributes: &[&str]) -> Result<Option<Shown>, SessionError> {
    let filter = Filter::everything();
    let request = SearchRequest {
        scope: Scope::Base,
        attributes: List::from(attributes),
        ..SearchRequest::subtree(dn, &filter)
    };
    let mut search = session.search(request, None)?;
    let mut found = None;
    loop {
        match search.next() {
            Ok(Some(session::SearchItem::Entry { attributes, .. })) => {
                let mut room = SHOWN_MAX;
                let owned = |found: LdapAttribute<'_>| {
                    let values: Vec<_> =
                        found.values.iter().take(room).map(|value| value.0.to_vec()).collect();
                    room -= values.len();
                    (found.name.to_ascii_lowercase(), values)
                };
                found = Some(attributes.iter().map(owned).collect());
            }
            Ok(Some(session::SearchItem::Reference(_))) => {}
            Ok(None) => return Ok(found),
            Err(error) if error.code() == Some(ldap::ResultCode::NoSuchObject) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The first value of an attribute, as text.
fn text_of(entry: &Shown, name: &str) -> Option<String> {
    String::from_utf8(entry.get(&name.to_ascii_lowercase())?.first()?.clone()).ok()
}
