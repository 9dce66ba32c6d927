//! Tests of directories in a metadirectory: as a target of a staff file, and as a source.

use plimsoll_metadir::config::{Config, Step, StepKind};
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};
use plimsoll_metadir::stage::StepError;

use super::*;
use plimsoll_metadir::store::ObjectError;

use crate::place::Place;

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

fn run(metadirectory: &mut Metadirectory, agent: usize, kind: StepKind) -> StepResult {
    metadirectory.run(Step { agent, kind }, &mut |_| true).unwrap()
}

fn counts(result: &StepResult) -> Vec<(&'static str, u64)> {
    result.statistics.iter().collect()
}

/// A staff file that is exported to `ou=people`, whose objects have this anchor.
fn filling(place: &Place, slapd: &Slapd, anchor: &str) -> Config {
    let text = format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 40

[metaverse.person]
attributes = {{ id = "text", given = "text", sn = "text", name = "text", mail = "text[]", title = "text", place = "text", manager = "reference" }}
deleted_with = "staff"

[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
value_separator = "|"
references = "manager"

[agents.directory]
{keys}base = "ou=people,{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
anchor = "{anchor}"
references = "manager"

[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "id", mv = "id" }}]
project = true
flow = {{ id = "id", given = "given", sn = "sn", mail = "mail", title = "title", place = "place", manager = "manager", name = {{ expression = "cs.sn + ', ' + cs.given" }} }}

[[inbound]]
agent = "directory"
to = "person"
join = [{{ cs = "employeeNumber", mv = "id" }}]

[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('cn', mv.name) + '+' + rdn('employeeNumber', mv.id) + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
employeeNumber = "id"
cn = "name"
sn = "sn"
givenName = "given"
mail = "mail"
title = "title"
l = "place"
manager = "manager"

[safety]
export = {{ deletes = 10 }}
synchronization = {{ deletes = 10 }}
"#,
        store = place.keys(),
        staff = place.scratch.join("staff.csv").display(),
        keys = keys(slapd),
    );
    connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// People with names that need escapes.
fn staff(place: &Place, people: &[(usize, &str)]) {
    let surnames = [
        "Byron",
        "O'Neil + Söhne",
        "Östergård",
        "van der Berg",
        "#1 <Smith>",
        "\"\"Quoted\"\"",
        "Back\\slash",
        "日本",
    ];
    let mut text = "id,given,sn,mail,title,place,manager\n".to_string();
    for (id, title) in people {
        let sn = surnames[id % surnames.len()];
        text += &format!(
            "{id},Given {id},\"{sn}\",m{id}@plim.example|x{id}@plim.example,{title},Oslo,{}\n",
            (id + 1) % 100
        );
    }
    place.scratch.file("staff.csv", text);
}

fn everything(metadirectory: &mut Metadirectory) -> Vec<StepResult> {
    [
        (STAFF, StepKind::FullImport),
        (STAFF, StepKind::DeltaSynchronization),
        (DIRECTORY, StepKind::Export),
        (DIRECTORY, StepKind::FullImport),
        (DIRECTORY, StepKind::DeltaSynchronization),
    ]
    .map(|(agent, kind)| run(metadirectory, agent, kind))
    .into()
}

#[test]
fn a_directory_is_filled_confirmed_and_kept() {
    // An anchor that the metadirectory sets, and one that the directory assigns, before which the object is
    // found by its name.
    for anchor in ["employeeNumber", "entryUUID"] {
        let Some(slapd) = start(organization(""), "") else { return };
        fill_and_keep(&Place::sqlite(), &slapd, anchor);
    }
}

fn fill_and_keep(place: &Place, slapd: &Slapd, anchor: &str) {
    let mut people: Vec<(usize, &str)> = (0..200).map(|id| (id, "Engineer")).collect();
    staff(place, &people);
    let mut metadirectory = Metadirectory::open(filling(place, slapd, anchor)).unwrap();
    assert_eq!(counts(&run(&mut metadirectory, DIRECTORY, StepKind::FullImport)), []);
    let did = everything(&mut metadirectory);
    // The managers form a cycle: references to later managers are added afterwards.
    assert_eq!((did[2].statistics.of("export-add"), did[2].failures.len()), (200, 0), "{:?}", did[2]);
    assert_eq!(did[3].statistics.of("confirmed"), 200, "{:?}", did[3]);
    assert_eq!(did[3].statistics.of("exported-change-not-reimported"), 0, "{:?}", did[3]);
    let ldif = slapd.export();
    assert_eq!(ldif.matches("\nobjectClass: inetOrgPerson\n").count(), 200);
    assert!(ldif.contains("\nmail: m17@plim.example\n") && ldif.contains("\nmail: x17@plim.example\n"));

    // A second pass changes nothing.
    let did = everything(&mut metadirectory);
    assert_eq!(counts(&did[2]), []);
    assert_eq!(counts(&did[3]), [("stage-no-change", 200)]);

    // Promotions, leavers and joiners; one value that the schema refuses, which affects nobody else.
    people.iter_mut().take(20).for_each(|person| person.1 = "Director");
    people.truncate(195);
    people.push((900, "Engineer"));
    staff(place, &people);
    let text = place.scratch.text("staff.csv").replace("m30@plim.example", "mÜ30@plim.example");
    place.scratch.file("staff.csv", text);
    let did = everything(&mut metadirectory);
    let expected = [("export-add", 1), ("export-delete", 5), ("export-failure", 1), ("export-update", 20)];
    assert_eq!(counts(&did[2]), expected, "{:?}", did[2]);
    let [ObjectError { object: dn, text: why, .. }] = did[2].failures.as_slice() else {
        panic!("{:?}", did[2])
    };
    assert!(dn.contains("Given 30") && why.contains("invalidAttributeSyntax (21)"), "{dn}: {why}");
    assert_eq!(did[2].outcome(), "completed-export-errors");
    let ldif = slapd.export();
    assert_eq!(ldif.matches("\ntitle: Director\n").count(), 20);
    assert_eq!(ldif.matches("\nobjectClass: inetOrgPerson\n").count(), 196);

    // After the correction, it is sent.
    let text = place.scratch.text("staff.csv").replace("mÜ30@plim.example", "m30@new.example");
    place.scratch.file("staff.csv", text);
    let did = everything(&mut metadirectory);
    assert_eq!(counts(&did[2]), [("export-update", 1)], "{:?}", did[2]);
    assert!(slapd.export().contains("\nmail: m30@new.example\n"));

    // Somebody marries: the entry is renamed, and the references to this manager follow.
    let of = |ldif: &str, text: &str| ldif.replace("\n ", "").matches(text).count();
    let (before, after) = ("cn=Byron\\2C Given 16+", "cn=Lovelace\\2C Given 16+");
    assert_eq!(of(&slapd.export(), &format!("\nmanager: {before}")), 2);
    let text = place.scratch.text("staff.csv");
    let married = text.replace("\n16,Given 16,\"Byron\"", "\n16,Given 16,\"Lovelace\"");
    assert_ne!(text, married);
    place.scratch.file("staff.csv", married);
    let did = everything(&mut metadirectory);
    assert_eq!(did[2].statistics.of("export-rename"), 1, "{:?}", did[2]);
    assert!(
        did[2].failures.is_empty() && did[3].statistics.of("exported-change-not-reimported") == 0,
        "{did:?}"
    );
    everything(&mut metadirectory);
    let ldif = slapd.export();
    assert_eq!((of(&ldif, before), of(&ldif, &format!("\ndn: {after}"))), (0, 1));
    assert_eq!(of(&ldif, &format!("\nmanager: {after}")), 2);
    let did = everything(&mut metadirectory);
    assert_eq!(counts(&did[2]), [], "{:?}", did[2]);
    assert_eq!(counts(&did[3]), [("stage-no-change", 196)]);
}

#[test]
fn a_server_that_goes_half_way_deletes_nothing() {
    let place = Place::sqlite();
    let Some(slapd) = start(people(400), "") else { return };
    let mut metadirectory = following(&place, &slapd, "page_size = 10\n");
    assert_eq!(counts(&run(&mut metadirectory, 0, StepKind::FullImport)), [("stage-add", 400)]);
    run(&mut metadirectory, 0, StepKind::FullSynchronization);
    let mut slapd = Some(slapd);
    let stopped = metadirectory.run(Step { agent: 0, kind: StepKind::FullImport }, &mut |_| {
        drop(slapd.take());
        true
    });
    let error = stopped.unwrap_err();
    assert!(
        matches!(error, StepError::Agent(_)) && error.to_string().contains("reading dc=example"),
        "{error}"
    );
    let (status, people) = metadirectory.status().unwrap();
    assert_eq!((status[0].1.connectors, status[0].1.pending_imports, people), (400, [0; 3], 400));
}

/// A metadirectory with a directory as its only source.
fn following(place: &Place, slapd: &Slapd, settings: &str) -> Metadirectory {
    let text = format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 10

[metaverse.person]
attributes = {{ uid = "text", title = "text" }}

[agents.directory]
{keys}base = "{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
anchor = "entryUUID"
{settings}

[[inbound]]
agent = "directory"
to = "person"
project = true
flow = {{ uid = "uid", title = "title" }}
"#,
        store = place.keys(),
        keys = keys(slapd),
    );
    Metadirectory::open(connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

#[test]
fn a_delta_import_does_what_a_full_one_would() {
    // With a session log of deletions, and without.
    for overlay in ["overlay syncprov\nsyncprov-sessionlog 100\n", "overlay syncprov\n"] {
        let place = Place::sqlite();
        let Some(slapd) = start(people(100), overlay) else { return };
        let mut metadirectory = following(&place, &slapd, "delta = \"content-synchronization\"\n");
        let first = metadirectory.run(Step { agent: 0, kind: StepKind::DeltaImport }, &mut |_| true);
        assert!(first.unwrap_err().to_string().contains("run a full-import first"));
        run(&mut metadirectory, 0, StepKind::FullImport);
        run(&mut metadirectory, 0, StepKind::FullSynchronization);

        let mut session = root(&slapd);
        let uids: Vec<String> = slapd
            .export()
            .lines()
            .filter_map(|line| line.strip_prefix("dn: uid=").map(String::from))
            .collect();
        assert_eq!(uids.len(), 100);
        let delete = |session: &mut Session, at: usize| session.delete(&format!("uid={}", uids[at])).unwrap();
        delete(&mut session, 3);
        delete(&mut session, 4);
        let title = [ldap::message::Value("Künstlerin".as_bytes())];
        let attribute = ldap::message::Attribute { name: "title", values: ldap::message::List::from(&title) };
        let change = ldap::message::Change { operation: ldap::ModifyOperation::Replace, attribute };
        session.modify(&format!("uid={}", uids[5]), &[change]).unwrap();

        let did = run(&mut metadirectory, 0, StepKind::DeltaImport);
        assert_eq!((did.statistics.of("stage-delete"), did.statistics.of("stage-update")), (2, 1), "{did:?}");
        run(&mut metadirectory, 0, StepKind::DeltaSynchronization);
        let (status, people) = metadirectory.status().unwrap();
        assert_eq!((status[0].1.objects, people), (98, 98));
        // Neither a full import nor another delta import finds further changes.
        for kind in [StepKind::DeltaImport, StepKind::FullImport, StepKind::DeltaImport] {
            let did = run(&mut metadirectory, 0, kind);
            assert!(did.statistics.iter().all(|(what, _)| what == "stage-no-change"), "{kind:?}: {did:?}");
        }
    }
}
