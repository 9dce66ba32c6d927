//! Tests with LDAP directories as connected systems, with OpenLDAP's slapd.

mod active_directory;
mod delta;
mod engine;
mod export;
mod groups;
mod import;
mod joins;
mod names;
mod rename;
mod spelling;

use ldap::session::{Options, Server, Session};
use people::{Base, Format, Population, Sink, write_people};
use plimsoll_metadir::agent::{Agent, AgentError, Import, Imported, ImportedObject, Names};
use plimsoll_metadir::config::AgentConfig;
use plimsoll_metadir::hologram::Attribute;
use plimsoll_metadir::index_key::IndexKey;
use testkit::Scratch;
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, Slapd, SlapdOptions};

/// Number of attributes that every person has and that a directory accepts.
const ATTRIBUTES: usize = 25;

/// `dc=example,dc=com` and `ou=people` below it, each with these additional lines.
fn organization(lines: &str) -> String {
    format!(
        "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n{lines}\n\
         dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n{lines}\n"
    )
}

/// The same with a number of people.
fn people(count: u64) -> String {
    let mut ldif = Vec::new();
    let format = Format::Ldif(Base::parse(SUFFIX).unwrap());
    let mut go_on = |_, _| true;
    write_people(&Population::new(5, count), ATTRIBUTES, &format, &mut Sink::new(&mut ldif, &mut go_on))
        .unwrap();
    String::from_utf8(ldif).unwrap()
}

fn start(ldif: String, database: &str) -> Option<Slapd> {
    Slapd::start(&SlapdOptions { ldif, database: database.into(), tls: None })
}

/// The keys for a connection as administrator, with the password in a file.
fn keys(slapd: &Slapd) -> String {
    let password = slapd.folder().secret("password", format!("{ROOT_PASSWORD}\n"));
    format!(
        "type = \"ldap\"\nurl = \"{}\"\nbind_dn = \"{ROOT_DN}\"\npassword_file = \"{}\"\n",
        slapd.url(),
        password.display()
    )
}

fn config(keys: &str) -> AgentConfig {
    let text = format!(
        "[store]\nsqlite = \"x\"\n[metaverse.person]\nattributes = {{ a = \"text\" }}\n[agents.directory]\n{keys}"
    );
    connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}")).agents.remove(0)
}

/// An agent and the names of all attributes.
struct Open {
    agent: Box<dyn Agent>,
    names: Names,
}

fn try_open(keys: &str, others: &[&str]) -> Result<Open, AgentError> {
    let config = config(keys);
    let mut names = Names::default();
    let of_system = config.attributes()?;
    for (number, name) in (1..).zip(of_system.iter().map(String::as_str).chain(others.iter().copied())) {
        if names.attribute(name).is_none() {
            names.insert(name, Attribute(number));
        }
    }
    Ok(Open { agent: config.open(&names)?, names })
}

fn open(keys: &str) -> Open {
    try_open(keys, &[]).unwrap()
}

impl Open {
    fn full(&mut self) -> (Vec<Imported>, Box<dyn Import>) {
        let mut import = self.agent.full_import().unwrap();
        (read(import.as_mut()).unwrap(), import)
    }

    /// The values of an attribute.
    fn values(&self, object: &ImportedObject, name: &str) -> Vec<Vec<u8>> {
        let attribute = self.names.attribute(name).unwrap_or_else(|| panic!("{name}"));
        object.image.get(attribute).map(|v| v.iter().map(<[u8]>::to_vec).collect()).unwrap_or_default()
    }

    fn texts(&self, object: &ImportedObject, name: &str) -> Vec<String> {
        self.values(object, name).into_iter().map(|value| String::from_utf8(value).unwrap()).collect()
    }
}

/// The rest of an import, in batches of an odd size.
fn read(import: &mut dyn Import) -> Result<Vec<Imported>, AgentError> {
    let mut all = Vec::new();
    loop {
        let mut batch = Vec::new();
        import.read(7, &mut batch)?;
        assert!(batch.len() <= 7);
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

fn objects(imported: &[Imported]) -> Vec<&ImportedObject> {
    imported
        .iter()
        .filter_map(|imported| match imported {
            Imported::Object(object) | Imported::Newer(object) => Some(object),
            _ => None,
        })
        .collect()
}

fn named<'a>(imported: &'a [Imported], rdn: &str) -> &'a ImportedObject {
    let begin = format!("{rdn},");
    let found: Vec<&ImportedObject> =
        objects(imported).into_iter().filter(|object| object.dn.starts_with(&begin)).collect();
    assert_eq!(found.len(), 1, "{rdn}: {found:?}");
    found[0]
}

fn gone(imported: &[Imported]) -> Vec<IndexKey> {
    imported
        .iter()
        .filter_map(|imported| match imported {
            Imported::Gone(anchor) => Some(*anchor),
            _ => None,
        })
        .collect()
}

/// A separate session as administrator.
fn root(slapd: &Slapd) -> Session {
    let server: Server = slapd.url().parse().unwrap();
    let mut session = Session::connect(&server, &Options::default()).unwrap();
    session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();
    session
}

/// A folder for one test only.
fn scratch() -> Scratch {
    Scratch::new()
}
