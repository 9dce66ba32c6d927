//! Attributes of LDIF files and directories that rules spell in another way, as real data does.

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;

use super::{SUFFIX, keys, organization, start};
use crate::place::{Place, over_both_stores};
use crate::steps::{Did, run};

over_both_stores! {
    values_flow_whatever_the_spelling,
}

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const FILE: usize = 1;
const OLD: usize = 2;

/// Two spellings in one file, and another one in the rules.
const PEOPLE: &str = "dn: uid=ada,o=old
objectclass: top
objectclass: inetOrgPerson
uid: ada
cn: Ada Byron
SN: Byron
givenname: Ada
telephonenumber: 1
MAIL: ada@x.example
MAIL: byron@x.example

dn: uid=alan,o=old
objectClass: top
objectClass: inetOrgPerson
uid: alan
cn: Alan Turing
sn: Turing
givenName: Alan
telephoneNumber: 2

dn: ou=looms,o=old
objectclass: organizationalUnit
ou: looms
";

fn values_flow_whatever_the_spelling(place: Place) {
    let Some(slapd) = start(organization(""), "") else { return };
    place.scratch.file("people.ldif", PEOPLE);
    // The old directory is the same server, read with other names.
    let config = format!(
        r#"
[store]
{store}
durability = "off"
[metaverse.person]
attributes = {{ uid = "text", cn = "text", sn = "text", given = "text", phone = "text", mail = "text[]", seen = "text" }}
deleted_with = "file"
[agents.file]
type = "ldif"
path = "{path}"
anchor = "DN"
[agents.directory]
{keys}base = "ou=people,{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
anchor = "entryUUID"
[agents.old]
{keys}base = "ou=people,{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
anchor = "entryUUID"
attributes = ["uid", "SN", "initials"]
[[inbound]]
agent = "file"
objects = "cs.ObjectClass.exists(class, class == 'inetOrgPerson')"
to = "person"
join = [{{ cs = "UID", mv = "uid" }}]
project = true
flow = {{ uid = "UID", cn = "CN", sn = "sn", given = "givenName", phone = "TelephoneNumber", mail = "mail" }}
[[inbound]]
agent = "directory"
to = "person"
join = [{{ cs = "UID", mv = "uid" }}]
[[inbound]]
agent = "old"
to = "person"
join = [{{ cs = "Uid", mv = "uid" }}]
flow = {{ seen = {{ expression = "cs.sn" }} }}
[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('UID', mv.uid) + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
OBJECTCLASS = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
UID = "uid"
CN = "cn"
SN = "sn"
GIVENNAME = "given"
telephonenumber = "phone"
Mail = "mail"
initials = "seen"
"#,
        store = place.keys(),
        path = place.scratch.join("people.ldif").display(),
        keys = keys(&slapd),
    );
    let mut metadirectory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    let mut step = |agent, kind| run(&mut metadirectory, agent, kind);
    let bring = |step: &mut dyn FnMut(usize, StepKind) -> Did| {
        let did = step(FILE, StepKind::FullImport);
        step(FILE, StepKind::DeltaSynchronization);
        did
    };
    assert_eq!(bring(&mut step), [("stage-add", 3)]);
    assert_eq!(step(DIRECTORY, StepKind::Export), [("export-add", 2)]);
    // What comes back under the spelling of the server confirms what was sent.
    assert_eq!(step(DIRECTORY, StepKind::FullImport), [("confirmed", 2), ("stage-update", 2)]);
    step(DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(step(OLD, StepKind::FullImport), [("stage-add", 2)]);
    step(OLD, StepKind::DeltaSynchronization);
    assert_eq!(step(DIRECTORY, StepKind::Export), [("export-update", 2)]);
    let entries = slapd.export();
    for line in [
        "dn: uid=ada,ou=people,dc=example,dc=com",
        "cn: Ada Byron",
        "sn: Byron",
        "givenName: Ada",
        "telephoneNumber: 1",
        "mail: ada@x.example",
        "mail: byron@x.example",
        "initials: Byron",
        "givenName: Alan",
        "telephoneNumber: 2",
    ] {
        let has = entries.lines().any(|of| of.eq_ignore_ascii_case(line));
        assert!(has, "{line}: {entries}");
    }
    // The file changes its spelling, and nothing else changes.
    place.scratch.file("people.ldif", PEOPLE.replace("givenname", "GivenName").replace("SN:", "sn:"));
    assert_eq!(bring(&mut step), [("stage-no-change", 3)]);
    assert_eq!(step(DIRECTORY, StepKind::FullImport), [("confirmed", 2), ("stage-update", 2)]);
    step(DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(step(DIRECTORY, StepKind::Export), []);
    // A value is removed, and another one changes.
    place.scratch.file("people.ldif", PEOPLE.replace("telephonenumber: 1\n", "").replace(": 2", ": 3"));
    bring(&mut step);
    assert_eq!(step(DIRECTORY, StepKind::Export), [("export-update", 2)]);
    let entries = slapd.export();
    assert!(!entries.contains("Number: 1") && entries.contains("telephoneNumber: 3"), "{entries}");
}
