//! A service that supports SCIM 2.0 (RFC 7643, RFC 7644).
//!
//! An object is identified by its `id`, which the service assigns. It is one of the imported attributes, so a
//! change needs no search. The name of a user is its `userName`.

mod client;
mod export;
mod import;
mod path;
pub mod settings;
mod time;
mod transport;

use std::sync::Arc;

use serde_json::Value;
use ureq::http::Method;

pub use path::{Kind, Path};

use self::client::Client;
use self::import::Pages;
use self::path::get;
use crate::scim::settings::{Resource, Scim as Settings, Update};
use metadir::Interrupt;
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Names, Objects, Refused, System,
};
use metadir::config::SystemKind;
use metadir::hologram::{Attribute, Hologram};
use metadir::index_key::IndexKey;
use metadir::naming::Naming;

/// `type = "scim"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "scim", keys: settings::KEYS, anchor: Some("id"), read: settings::read };

impl System for Settings {
    fn has_delta_import(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn naming(&self) -> Naming {
        self.resource.naming()
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn relative_to(&mut self, folder: &std::path::Path) {
        if let Some(path) = &mut self.ca_file {
            *path = folder.join(&*path);
        }
        if let Some(token) = &mut self.token {
            token.relative_to(folder);
        }
    }

    fn interrupt_by(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    fn changes(&self) -> Changes {
        Changes::Unknown("is a SCIM service, which does not report changes", "use `every`")
    }

    fn attributes(&self, objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        Ok(attributes(self, objects.anchor))
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Scim::new(self, objects.anchor, objects.write_only, names)?))
    }
}

const ID: &str = "id";
const USER_NAME: &str = "userName";

pub(super) struct Scim {
    shared: Arc<Shared>,
    /// Existing resources that adds of the last export met.
    existing: Vec<(usize, Hologram)>,
}

/// A resource that exists although it was to be created, with the anchor and name of the change.
type MetResource = ((Option<IndexKey>, String), Hologram);

/// The data that import and export share.
struct Shared {
    client: Client,
    resource: Resource,
    page_size: u64,
    connections: usize,
    bulk: usize,
    update: Update,
    /// Resources that exist although they were to be created, with the anchor and name of the change.
    existing: std::sync::Mutex<Vec<MetResource>>,
    /// The attributes that are read and written, each with its number.
    paths: Vec<(Attribute, Path)>,
    id: Attribute,
    anchor: Vec<Path>,
    /// The name, which must be unique.
    name: Option<Path>,
}

/// The attributes that are read: the configured ones and those of the anchor and the name.
pub(super) fn attributes(settings: &Settings, anchor: &[String]) -> Vec<String> {
    let mut names: Vec<String> = settings.attributes.iter().map(|path| path.text().to_string()).collect();
    let name = (settings.resource == Resource::Users).then(|| USER_NAME.to_string());
    for more in anchor.iter().cloned().chain(name).chain([ID.to_string()]) {
        if !names.contains(&more) {
            names.push(more);
        }
    }
    names
}

impl Scim {
    /// `write_only` has the attributes that are written and never read.
    pub(super) fn new(
        settings: &Settings,
        anchor: &[String],
        write_only: &[String],
        names: &Names,
    ) -> Result<Scim, AgentError> {
        let path = |text: &str| match settings.attributes.iter().find(|path| path.text() == text) {
            Some(path) => Ok(path.clone()),
            None => Path::parse(text)
                .map_err(|why| AgentError::NotSupported(format!("{text:?} is not a valid path: {why}"))),
        };
        let mut paths = Vec::new();
        let read = attributes(settings, anchor);
        let written = write_only.iter().filter(|text| !read.contains(text)).cloned();
        for text in read.iter().cloned().chain(written) {
            if let Some(attribute) = names.attribute(&text) {
                paths.push((attribute, path(&text)?));
            }
        }
        paths.sort_by_key(|(attribute, _)| *attribute);
        let id = names.attribute(ID);
        Ok(Scim {
            existing: Vec::new(),
            shared: Arc::new(Shared {
                existing: std::sync::Mutex::default(),
                client: Client::new(settings)?,
                resource: settings.resource,
                page_size: settings.page_size,
                connections: settings.connections,
                bulk: settings.bulk,
                update: settings.update,
                paths,
                id: id.ok_or_else(|| AgentError::NotSupported("the attribute `id` has no number".into()))?,
                anchor: anchor.iter().map(|text| path(text)).collect::<Result<_, _>>()?,
                name: (settings.resource == Resource::Users).then(|| path(USER_NAME)).transpose()?,
            }),
        })
    }
}

impl Agent for Scim {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: true, rename: self.shared.name.is_some(), confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        Ok(Box::new(Pages::new(self.shared.clone(), None)))
    }

    /// A service does not report deletions.
    fn delta_import(&mut self, since: &str) -> Result<Box<dyn Import>, AgentError> {
        let answer = self.shared.client.send(&Method::GET, "/ServiceProviderConfig", None)?;
        let can_filter = get(&answer.body, "filter").and_then(|filter| get(filter, "supported"));
        if can_filter != Some(&Value::Bool(true)) {
            let why =
                "this service does not say that it can filter, and so not what changed: run a full-import";
            return Err(AgentError::NotSupported(why.into()));
        }
        Ok(Box::new(Pages::new(self.shared.clone(), Some(format!("meta.lastModified ge \"{since}\"")))))
    }

    fn takes_changed_values(&self) -> bool {
        true
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let answers = self.shared.export(changes);
        self.existing = self.shared.met(changes);
        answers
    }

    fn existing(&mut self) -> Vec<(usize, Hologram)> {
        std::mem::take(&mut self.existing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadir::agent::Imported;
    use proptest::prelude::*;
    use std::time::Duration;

    fn shared() -> Arc<Shared> {
        let paths = ["userName", "name.familyName", "emails[type eq \"work\"].value", "roles"];
        let settings = Settings {
            url: "http://127.0.0.1:1".into(),
            token: None,
            ca_file: None,
            resource: Resource::Users,
            attributes: paths.iter().map(|text| Path::parse(text).unwrap()).collect(),
            page_size: 10,
            timeout: Duration::from_secs(1),
            interrupt: metadir::Interrupt::default(),
            connections: 1,
            bulk: 0,
            update: Update::Patch,
        };
        let mut names = Names::default();
        for (at, name) in attributes(&settings, &["id".into()]).iter().enumerate() {
            names.insert(name, Attribute(at as u32 * 3));
        }
        Scim::new(&settings, &["id".into()], &[], &names).unwrap().shared
    }

    proptest! {
        #[test]
        fn any_json_is_an_object_or_an_error(resource in path::tests::anything()) {
            thread_local!(static SHARED: Arc<Shared> = shared());
            let imported = SHARED.with(|shared| shared.imported(&resource, 1));
            if let Imported::Object(object) = imported {
                prop_assert!(get(&resource, "id").is_some_and(Value::is_string));
                prop_assert!(!object.image.is_empty());
            }
        }
    }
}
