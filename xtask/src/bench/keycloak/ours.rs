//! The metadirectory's side, as a user runs it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::servers::Servers;
use super::{ATTRIBUTES, PEOPLE, Sample};
use crate::program::{cpu_us, json};

/// The two steps of an import.
#[derive(Clone, Copy)]
struct Steps {
    staging: Sample,
    synchronization: Sample,
}

/// Both imports of one database.
pub(super) struct Measured {
    into_empty: Steps,
    unchanged: Steps,
}

impl Measured {
    /// Staging and synchronization into an empty store.
    pub(super) fn first(&self) -> Sample {
        self.into_empty.staging.and(self.into_empty.synchronization)
    }

    /// The same with nothing changed.
    pub(super) fn second(&self) -> Sample {
        self.unchanged.staging.and(self.unchanged.synchronization)
    }

    pub(super) fn print(&self, how: &str) {
        self.first().print("plimsoll", &format!("first import{how}"));
        self.into_empty.staging.print("", "  of that full-import");
        self.into_empty.synchronization.print("", "  of that full-synchronization");
        self.second().print("plimsoll", "with nothing changed");
        self.unchanged.staging.print("", "  of that full-import");
        self.unchanged.synchronization.print("", "  of that full-synchronization");
    }
}

/// The people as LDIF.
pub(super) fn people(program: &Path, folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("people.ldif");
    let status = Command::new(program)
        .args(["generate", "people", "--count", &PEOPLE.to_string(), "--attributes", "25"])
        .args(["--format", "ldif", "--base", "dc=example,dc=com", "--quiet", "--output"])
        .arg(&path)
        .status();
    match status {
        Ok(status) if status.success() => Ok(path),
        Ok(status) => Err(format!("plimsoll generate people: {status}")),
        Err(error) => Err(format!("plimsoll generate people: {error}")),
    }
}

/// Takes everybody into a new database, twice; `commit_objects` together, or as many as when nothing is said.
pub(super) fn measure(
    program: &Path,
    folder: &Path,
    servers: &Servers,
    database: &str,
    commit_objects: Option<u32>,
) -> Result<Measured, String> {
    servers.make_database(database)?;
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("password", servers.get("directory-password"))?;
    write("metadirectory.toml", &configuration(servers, database, commit_objects))?;
    let step = |kind: &str, counter: &str| -> Result<Sample, String> {
        let arguments = ["metadir", "run", "directory", kind, "--json"].map(str::to_string);
        let (document, sample) =
            servers.timed(|| cpu_us("self", 15), || json(program, &arguments, folder))?;
        expect(&document, counter)?;
        Ok(sample)
    };
    let steps = |staged: &str, synchronized: &str| -> Result<Steps, String> {
        Ok(Steps {
            staging: step("full-import", staged)?,
            synchronization: step("full-synchronization", synchronized)?,
        })
    };
    let into_empty = steps("stage-add", "disconnector-projected")?;
    let unchanged = steps("stage-no-change", "connector-no-flow")?;
    Ok(Measured { into_empty, unchanged })
}

/// That a step did to everybody what it should.
fn expect(document: &Value, counter: &str) -> Result<(), String> {
    let counters = &document["steps"][0]["counters"];
    match counters[counter].as_u64() {
        Some(count) if count == u64::from(PEOPLE) => Ok(()),
        _ => Err(format!("a step should count {PEOPLE} {counter}, and it reports {document}")),
    }
}

/// A metadirectory that takes people from the directory, and finds them by their user names; all that need not be said is not.
fn configuration(servers: &Servers, database: &str, commit_objects: Option<u32>) -> String {
    let commit = commit_objects.map(|count| format!("commit_objects = {count}\n")).unwrap_or_default();
    let quoted: Vec<String> = ATTRIBUTES.iter().map(|name| format!("\"{name}\"")).collect();
    let mut text = format!(
        "[store]
postgres = \"host={} port={} user={} dbname={database}\"
{commit}
[agents.directory]
type = \"ldap\"
url = \"{}\"
bind_dn = \"{}\"
password_file = \"password\"
base = \"ou=people,{}\"
filter = \"(objectClass=inetOrgPerson)\"
attributes = [{}]
anchor = \"entryUUID\"

[[inbound]]
agent = \"directory\"
to = \"person\"
join = [{{ cs = \"uid\", mv = \"uid\" }}]
project = true

[inbound.flow]
",
        servers.get("database-host"),
        servers.get("database-port"),
        servers.get("database-user"),
        servers.get("directory-url"),
        servers.get("directory-dn"),
        servers.get("directory-base"),
        quoted.join(", ")
    );
    for (head, value) in [("", None), ("\n[metaverse.person.attributes]\n", Some("text"))] {
        text.push_str(head);
        for name in ATTRIBUTES {
            let _ = writeln!(text, "{name} = \"{}\"", value.unwrap_or(name));
        }
    }
    text
}
