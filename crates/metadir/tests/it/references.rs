//! Tests of several object types in one agent, names, renames and references, from a staff file to a
//! directory and a list.

use std::fs;
use std::sync::{Arc, Mutex};

use plimsoll_metadir::config::{Config, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::object::MvId;
use plimsoll_metadir::preview::Difference;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::ObjectError;
use plimsoll_metadir::synchronize::ReferenceValue;

use crate::directory::Directory;
use crate::place::{Place, over_both_stores};
use crate::steps::{Did, run, table, try_run};

over_both_stores! {
    people_groups_and_units_reach_the_directory_and_the_list,
    a_member_more_is_one_value_more,
    what_a_reference_leads_to_comes_and_goes,
    a_name_that_changes_is_a_rename_and_references_follow,
    what_somebody_else_renames_is_reported,
    names_change_places,
    an_object_that_was_made_before_it_was_known_is_matched_by_its_name,
    an_object_that_only_has_the_name_stays_another_one,
    members_that_somebody_else_changes_are_put_right,
    leavers_are_disabled_once_and_left_alone,
    an_object_that_becomes_another_type_is_looked_at_anew,
    a_system_that_dies_is_asked_again_and_nothing_is_there_twice,
    what_is_refused_does_not_keep_others_from_being_sent,
    a_preview_shows_names_and_references,
    a_directory_as_a_source_refers_by_names,
}

// Indexes of the agents, which are sorted by name.
pub(crate) const DIRECTORY: usize = 0;
pub(crate) const LIST: usize = 1;
pub(crate) const STAFF: usize = 2;

pub(crate) struct Company {
    pub(crate) place: Place,
    pub(crate) directory: Directory,
    config: String,
}

impl Company {
    pub(crate) fn new(place: Place) -> Company {
        let at = |file: &str| place.scratch.path().join(file).display().to_string();
        let config = format!(
            r#"
[store]
{store}
durability = "off"
commit_objects = 3

[metaverse]
person = {{ attributes = {{ id = "text", name = "text", unit = "text", boss = "reference", active = "boolean" }}, deleted_with = "staff" }}
group = {{ attributes = {{ id = "text", name = "text", members = "reference[]" }}, deleted_with = "staff" }}
unit = {{ attributes = {{ id = "text", name = "text" }}, deleted_with = "staff" }}

[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
value_separator = "|"
references = ["boss", "members"]

[agents.directory]
type = "delimited"
path = "unused"
anchor = "uuid"
references = ["boss", "members"]

[agents.list]
type = "delimited"
path = "{list}"
anchor = "key"
value_separator = "|"
references = ["boss", "members"]

[[inbound]]
agent = "staff"
to = "group"
objects = "cs.kind == 'group'"
project = true
flow = {{ id = "id", name = "name", members = "members" }}

[[inbound]]
agent = "staff"
to = "unit"
objects = "'unit' in cs.kind"
project = true
flow = {{ id = "id", name = "name" }}

[[inbound]]
agent = "staff"
to = "person"
project = true
flow = {{ id = "id", name = "name", unit = "unit", boss = "boss", active = {{ expression = "cs.kind != 'left'" }} }}

[[outbound]]
agent = "directory"
from = "person"
when = "mv.active"
dn = "'cn=' + mv.name + ',ou=' + mv.unit + ',dc=plim'"
deprovision = "delete"
flow = {{ cn = "name", boss = "boss" }}

[[outbound]]
agent = "directory"
from = "group"
dn = "'cn=' + mv.name + ',dc=plim'"
deprovision = "delete"
flow = {{ cn = "name", members = "members" }}

[[outbound]]
agent = "directory"
from = "unit"
dn = "'ou=' + mv.name + ',dc=plim'"
deprovision = "delete"
flow = {{ cn = "name" }}

[[outbound]]
agent = "list"
from = "person"
when = "mv.active"
dn = "mv.id"
deprovision = {{ disable = {{ status = "left", unit = "" }} }}
flow = {{ key = "id", name = "name", unit = "unit", boss = "boss" }}

[[outbound]]
agent = "list"
from = "group"
dn = "mv.id"
deprovision = "delete"
flow = {{ key = "id", name = "name", members = "members" }}

[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 100, delete_share = 1.0 }}
export = {{ deletes = 100, delete_share = 1.0 }}
"#,
            store = place.keys(),
            staff = at("staff.csv"),
            list = at("list.csv"),
        );
        let directory = Directory::default();
        directory.state().is_strict = true;
        fs::write(place.scratch.path().join("list.csv"), "key\n").unwrap();
        Company { place, directory, config }
    }

    /// Writes the staff file: `kind,id,name,unit,boss,members`.
    pub(crate) fn write(&self, rows: &[&str]) {
        let text = format!("kind,id,name,unit,boss,members\n{}\n", rows.join("\n"));
        fs::write(self.place.scratch.path().join("staff.csv"), text).unwrap();
    }

    pub(crate) fn open(&self) -> Metadirectory {
        self.open_with(3)
    }

    fn open_with(&self, commit_objects: usize) -> Metadirectory {
        Metadirectory::open(self.config(commit_objects)).unwrap()
    }

    pub(crate) fn config(&self, commit_objects: usize) -> Config {
        let mut config = connectors::parse(&self.config).unwrap();
        config.store.commit_objects = commit_objects;
        config.agents[DIRECTORY].system = self.directory.system();
        config
    }

    /// The lines of the list: attributes with a value, sorted by name.
    fn list(&self) -> Vec<String> {
        table(&self.place.scratch.join("list.csv"))
    }
}

fn in_from_staff(directory: &mut Metadirectory) -> Did {
    let mut did = run(directory, STAFF, StepKind::FullImport);
    did.extend(run(directory, STAFF, StepKind::DeltaSynchronization));
    did
}

fn out_to(directory: &mut Metadirectory, agent: usize) -> Did {
    let mut did = run(directory, agent, StepKind::Export);
    did.extend(run(directory, agent, StepKind::FullImport));
    did.extend(run(directory, agent, StepKind::DeltaSynchronization));
    did
}

/// Runs a whole day: import, export, confirmation. It runs twice, because references follow renames only
/// after an import showed them.
pub(crate) fn day(directory: &mut Metadirectory) {
    in_from_staff(directory);
    for agent in [DIRECTORY, LIST, DIRECTORY] {
        out_to(directory, agent);
    }
}

/// Checks that a second pass changes nothing.
pub(crate) fn nothing_is_left(directory: &mut Metadirectory) {
    let quiet = [
        "stage-no-change",
        "connector-no-flow",
        "disconnector-remains",
        "disconnector-deprovisioned",
        "reference-waiting",
    ];
    for agent in [STAFF, DIRECTORY, LIST] {
        for kind in [StepKind::FullImport, StepKind::FullSynchronization, StepKind::Export] {
            let did = run(directory, agent, kind);
            assert!(did.iter().all(|(what, _)| quiet.contains(what)), "{agent} {kind:?}: {did:?}");
        }
    }
}

fn count(did: &Did, what: &str) -> u64 {
    did.iter().filter(|(name, _)| *name == what).map(|(_, count)| count).sum()
}

// The group and the people come before their reference targets; Ada and Alan are each other's boss.
const PEOPLE: [&str; 6] = [
    "group,g1,All,,,3|1|2|9",
    "person,1,Ada,Lab,2,",
    "person,2,Alan,Lab,1,",
    "person,3,Grace,Navy,1,",
    "unit,u1,Lab,,,",
    "unit,u2,Navy,,,",
];

fn people_groups_and_units_reach_the_directory_and_the_list(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    let did = in_from_staff(&mut directory);
    assert_eq!((count(&did, "stage-add"), count(&did, "disconnector-projected")), (6, 6), "{did:?}");
    // Person 9 does not exist.
    assert!(count(&did, "reference-waiting") > 0, "{did:?}");
    run(&mut directory, DIRECTORY, StepKind::Export);
    let asked = company.directory.asked();
    assert!(asked.iter().all(|line| !line.contains("REFUSED")), "{asked:?}");
    let place_of = |begin: &str| asked.iter().position(|line| line.starts_with(begin)).unwrap();
    assert!(place_of("add ou=Lab") < place_of("add cn=Ada,"), "{asked:?}");
    assert!(place_of("add ou=Navy") < place_of("add cn=Grace,"), "{asked:?}");
    // Two people who are each other's boss are added before one of them refers to the other.
    assert!(
        asked.iter().any(|line| line == "change cn=Ada,ou=Lab,dc=plim boss+cn=Alan,ou=Lab,dc=plim boss-"),
        "{asked:?}"
    );
    let expected = [
        "cn=Ada,ou=Lab,dc=plim boss=cn=Alan,ou=Lab,dc=plim cn=Ada",
        "cn=Alan,ou=Lab,dc=plim boss=cn=Ada,ou=Lab,dc=plim cn=Alan",
        "cn=All,dc=plim cn=All members=cn=Ada,ou=Lab,dc=plim|cn=Alan,ou=Lab,dc=plim|cn=Grace,ou=Navy,dc=plim",
        "cn=Grace,ou=Navy,dc=plim boss=cn=Ada,ou=Lab,dc=plim cn=Grace",
        "ou=Lab,dc=plim cn=Lab",
        "ou=Navy,dc=plim cn=Navy",
    ];
    assert_eq!(company.directory.lines(), expected);
    // The confirming import provides the anchor; the object is not new.
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("confirmed", 6), ("stage-update", 6)]);
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    out_to(&mut directory, LIST);
    assert_eq!(
        company.list(),
        [
            "boss=1 key=2 name=Alan unit=Lab",
            "boss=1 key=3 name=Grace unit=Navy",
            "boss=2 key=1 name=Ada unit=Lab",
            "key=g1 members=1|2|3 name=All",
        ]
    );
    nothing_is_left(&mut directory);
    // The references in the metaverse, with their sources.
    let given: Vec<ReferenceValue> =
        (1..100).flat_map(|id| directory.references(MvId(id)).unwrap()).collect();
    let named =
        |name: &str| given.iter().filter(|given| directory.attribute_name(given.attribute) == name).count();
    assert_eq!((given.len(), named("boss"), named("members")), (6, 3, 3), "{given:?}");
    assert!(given.iter().all(|of| of.agent == given[0].agent), "{given:?}");
    drop(directory);
    nothing_is_left(&mut company.open());
    assert_eq!(company.directory.lines(), expected);
}

fn a_member_more_is_one_value_more(place: Place) {
    let company = Company::new(place);
    let person = |id: usize| format!("person,{id},N{id},Lab,,");
    let people: Vec<String> = (1..=40).map(person).collect();
    let with = |members: std::ops::RangeInclusive<usize>| {
        let members: Vec<String> = members.map(|id| id.to_string()).collect();
        let group = format!("group,g,All,,,{}", members.join("|"));
        let all: Vec<&str> = people.iter().map(String::as_str).chain(["unit,u,Lab,,,", &group]).collect();
        company.write(&all);
    };
    with(1..=39);
    let mut directory = company.open();
    day(&mut directory);
    company.directory.asked();
    with(1..=40);
    let did = in_from_staff(&mut directory);
    assert_eq!(count(&did, "stage-update"), 1);
    assert_eq!(count(&did, "outbound-references"), 2, "{did:?}");
    assert_eq!(run(&mut directory, DIRECTORY, StepKind::Export), [("export-update", 1)]);
    assert_eq!(company.directory.asked(), ["change cn=All,dc=plim members+cn=N40,ou=Lab,dc=plim members-"]);
    with(2..=40);
    in_from_staff(&mut directory);
    out_to(&mut directory, DIRECTORY);
    assert_eq!(company.directory.asked(), ["change cn=All,dc=plim members+ members-cn=N1,ou=Lab,dc=plim"]);
    out_to(&mut directory, LIST);
    let list = company.list();
    let group = list.iter().find(|line| line.contains("key=g ")).unwrap();
    assert_eq!(group.matches('|').count(), 38, "{group}");
    nothing_is_left(&mut directory);
}

/// One more member of a large group writes one row in the source's connector space and one in each target's.
#[test]
fn a_member_more_is_one_row_more() {
    let company = Company::new(Place::sqlite());
    let people: Vec<String> = (0..300).map(|id| format!("person,{id},N{id},Lab,,")).collect();
    let write = |count: usize| {
        let members: Vec<String> = (0..count).map(|id| id.to_string()).collect();
        let group = format!("group,g,All,,,{}", members.join("|"));
        company
            .write(&people.iter().map(String::as_str).chain(["unit,u,Lab,,,", &group]).collect::<Vec<_>>());
    };
    write(299);
    let mut directory = company.open_with(1000);
    day(&mut directory);
    drop(directory);
    let store = rusqlite::Connection::open(company.place.scratch.join("store.db")).unwrap();
    let log = ["INSERT", "UPDATE", "DELETE"].map(|what| {
        format!("CREATE TRIGGER log_{what} AFTER {what} ON ref BEGIN INSERT INTO log VALUES ('{what}'); END;")
    });
    store.execute_batch(&format!("CREATE TABLE log (what TEXT); {}", log.concat())).unwrap();
    drop(store);
    let written = || -> u64 {
        let store = rusqlite::Connection::open(company.place.scratch.join("store.db")).unwrap();
        let count = store.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0)).unwrap();
        store.execute("DELETE FROM log", []).unwrap();
        count as u64
    };
    write(300);
    let step = |agent, kind| {
        run(&mut company.open_with(1000), agent, kind);
        written()
    };
    assert_eq!(step(STAFF, StepKind::FullImport), 1);
    // The change is synchronized there, and pending for directory and list.
    assert_eq!(step(STAFF, StepKind::DeltaSynchronization), 3);
    for agent in [DIRECTORY, LIST] {
        // Exported, imported, synchronized.
        assert_eq!(step(agent, StepKind::Export), 1);
        assert_eq!(step(agent, StepKind::FullImport), 1);
        assert_eq!(step(agent, StepKind::DeltaSynchronization), 1);
    }
    assert_eq!(step(STAFF, StepKind::FullSynchronization), 0);
}

fn what_a_reference_leads_to_comes_and_goes(place: Place) {
    let company = Company::new(place);
    // The boss is missing, then exists without being provisioned, then is provisioned, then deleted.
    let base = ["group,g,All,,,2|1", "person,1,Ada,Lab,2,", "unit,u,Lab,,,"];
    let days = [
        (None, "members=cn=Ada,ou=Lab,dc=plim", "key=1"),
        (Some("left,2,Alan,Lab,,"), "members=cn=Ada,ou=Lab,dc=plim", "key=1"),
        (Some("person,2,Alan,Lab,,"), "members=cn=Ada,ou=Lab,dc=plim|cn=Alan,ou=Lab,dc=plim", "boss=2 key=1"),
        (Some("left,2,Alan,Lab,,"), "members=cn=Ada,ou=Lab,dc=plim", "key=1"),
    ];
    let mut directory = company.open();
    for (boss, members, in_list) in days {
        company.write(&base.iter().copied().chain(boss).collect::<Vec<_>>());
        day(&mut directory);
        let lines = company.directory.lines();
        assert!(lines.iter().any(|line| line.ends_with(members)), "{boss:?} {lines:?}");
        let list = company.list();
        assert!(list.iter().any(|line| *line == format!("{in_list} name=Ada unit=Lab")), "{boss:?} {list:?}");
        nothing_is_left(&mut directory);
    }
    company.write(&base);
    day(&mut directory);
    nothing_is_left(&mut directory);
    assert_eq!(company.directory.lines().len(), 3);
}

fn a_name_that_changes_is_a_rename_and_references_follow(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    day(&mut directory);
    let uuid = |dn: &str| {
        let state = company.directory.state();
        state.entries.iter().find(|entry| entry.dn == dn).map(|entry| entry.uuid.clone())
    };
    let (ada, alan) = (uuid("cn=Ada,ou=Lab,dc=plim"), uuid("cn=Alan,ou=Lab,dc=plim"));
    company.directory.asked();
    // Ada marries and moves; Alan's unit gets another name, which renames him too.
    let rows: Vec<String> = PEOPLE
        .iter()
        .map(|row| {
            row.replace("Ada,Lab", "Ada King,Navy")
                .replace("Alan,Lab", "Alan,Works")
                .replace("u1,Lab", "u1,Works")
        })
        .collect();
    company.write(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let did = in_from_staff(&mut directory);
    assert_eq!(count(&did, "provisioned-rename"), 3, "{did:?}");
    let did = run(&mut directory, DIRECTORY, StepKind::Export);
    assert_eq!(count(&did, "export-failure"), 0, "{:?}", company.directory.asked());
    // Alan is renamed with his unit.
    assert_eq!(count(&did, "export-rename"), 2, "{did:?}");
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(
        (count(&did, "stage-rename"), count(&did, "exported-change-not-reimported")),
        (3, 0),
        "{did:?}"
    );
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(uuid("cn=Ada King,ou=Navy,dc=plim"), ada);
    assert_eq!(uuid("cn=Alan,ou=Works,dc=plim"), alan);
    // The directory keeps the old names in references; they are corrected.
    out_to(&mut directory, DIRECTORY);
    let lines = company.directory.lines();
    assert!(lines.contains(
        &"cn=All,dc=plim cn=All members=cn=Ada King,ou=Navy,dc=plim|cn=Alan,ou=Works,dc=plim|cn=Grace,ou=Navy,dc=plim"
            .to_string()
    ), "{lines:?}");
    assert!(
        lines.contains(&"cn=Grace,ou=Navy,dc=plim boss=cn=Ada King,ou=Navy,dc=plim cn=Grace".to_string()),
        "{lines:?}"
    );
    out_to(&mut directory, LIST);
    nothing_is_left(&mut directory);
    // A rename that the import does not show is reported and sent again.
    company.write(
        &rows
            .iter()
            .map(|row| row.replace("Ada King", "Ada Byron"))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    in_from_staff(&mut directory);
    run(&mut directory, DIRECTORY, StepKind::Export);
    company.directory.state().rename("cn=Ada Byron,ou=Navy,dc=plim", "cn=Somebody,ou=Navy,dc=plim");
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(count(&did, "exported-change-not-reimported"), 1, "{did:?}");
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    for _ in 0..2 {
        out_to(&mut directory, DIRECTORY);
    }
    assert_eq!(uuid("cn=Ada Byron,ou=Navy,dc=plim"), ada);
    out_to(&mut directory, LIST);
    nothing_is_left(&mut directory);
}

fn what_somebody_else_renames_is_reported(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    day(&mut directory);
    company.directory.state().rename("cn=Grace,ou=Navy,dc=plim", "cn=Amazing,ou=Lab,dc=plim");
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("stage-no-change", 5), ("stage-rename", 1)]);
    // The second import stages nothing new.
    assert_eq!(run(&mut directory, DIRECTORY, StepKind::FullImport), [("stage-no-change", 6)]);
    // The rules restore its name.
    let did = run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(count(&did, "provisioned-rename"), 1, "{did:?}");
    for _ in 0..2 {
        out_to(&mut directory, DIRECTORY);
    }
    assert_eq!(company.directory.lines()[3], "cn=Grace,ou=Navy,dc=plim boss=cn=Ada,ou=Lab,dc=plim cn=Grace");
    nothing_is_left(&mut directory);
}

fn names_change_places(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    day(&mut directory);
    {
        let mut state = company.directory.state();
        state.rename("cn=Ada,ou=Lab,dc=plim", "cn=x,dc=plim");
        state.rename("cn=Alan,ou=Lab,dc=plim", "cn=Ada,ou=Lab,dc=plim");
        state.rename("cn=x,dc=plim", "cn=Alan,ou=Lab,dc=plim");
    }
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("stage-no-change", 4), ("stage-rename", 2)]);
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    // One person leaves, and a new one takes the name.
    {
        let mut state = company.directory.state();
        let at = state.entries.iter().position(|entry| entry.dn.starts_with("cn=Grace")).unwrap();
        let old = state.entries.remove(at);
        state.add(&old.dn).attributes = old.attributes;
    }
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("stage-add", 1), ("stage-delete", 1), ("stage-no-change", 5)]);
    let result = try_run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization).unwrap();
    let [ObjectError { text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
    assert!(why.contains("which belongs to nobody; no [[inbound]] of directory accepts it"), "{why}");
}

fn an_object_that_was_made_before_it_was_known_is_matched_by_its_name(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    in_from_staff(&mut directory);
    // Somebody else added it first, and spells names differently.
    let attributes = &mut company.directory.state().add("OU=lab, DC=plim").attributes.clone();
    attributes.insert("cn".into(), ["Lab".to_string()].into());
    company.directory.state().entries[0].attributes = attributes.clone();
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("stage-update", 1)]);
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    for _ in 0..2 {
        out_to(&mut directory, DIRECTORY);
    }
    let lines = company.directory.lines();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(lines.contains(&"OU=lab, DC=plim cn=Lab".to_string()), "{lines:?}");
    out_to(&mut directory, LIST);
    nothing_is_left(&mut directory);
}

fn an_object_that_only_has_the_name_stays_another_one(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    in_from_staff(&mut directory);
    company.directory.state().add("OU=lab, DC=plim");
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("stage-add", 1)]);
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    let result = try_run(&mut directory, STAFF, StepKind::FullSynchronization).unwrap();
    let [ObjectError { object: who, text: why, .. }] = result.failures.as_slice() else {
        panic!("{result:?}")
    };
    assert!(
        who == "u1" && why.contains("is taken by directory \"OU=lab, DC=plim\", which belongs to nobody"),
        "{who}: {why}"
    );
    assert_eq!(company.directory.lines(), ["OU=lab, DC=plim"]);
}

fn members_that_somebody_else_changes_are_put_right(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    day(&mut directory);
    let before = company.directory.lines();
    let spoil = || {
        let mut state = company.directory.state();
        let group = state.entries.iter_mut().find(|entry| entry.dn.starts_with("cn=All")).unwrap();
        let members = group.attributes.get_mut("members").unwrap();
        assert!(members.remove("cn=Ada,ou=Lab,dc=plim"));
        // A member that the metadirectory does not know.
        members.insert("cn=Stranger,dc=else".into());
    };
    spoil();
    for _ in 0..2 {
        run(&mut directory, DIRECTORY, StepKind::FullImport);
        run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
        run(&mut directory, DIRECTORY, StepKind::Export);
    }
    assert_eq!(company.directory.lines(), before);
    // A change between an export and its confirmation.
    let rows: Vec<&str> = PEOPLE.iter().copied().chain(["person,9,Edsger,Navy,,"]).collect();
    company.write(&rows);
    in_from_staff(&mut directory);
    run(&mut directory, DIRECTORY, StepKind::Export);
    {
        let mut state = company.directory.state();
        let group = state.entries.iter_mut().find(|entry| entry.dn.starts_with("cn=All")).unwrap();
        assert!(group.attributes.get_mut("members").unwrap().remove("cn=Edsger,ou=Navy,dc=plim"));
    }
    let did = run(&mut directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(count(&did, "exported-change-not-reimported"), 1, "{did:?}");
    run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    out_to(&mut directory, DIRECTORY);
    let lines = company.directory.lines();
    assert!(lines.iter().any(|line| line.starts_with("cn=All") && line.contains("cn=Edsger")), "{lines:?}");
    out_to(&mut directory, LIST);
    nothing_is_left(&mut directory);
}

fn leavers_are_disabled_once_and_left_alone(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    day(&mut directory);
    let rows: Vec<String> = PEOPLE.iter().map(|row| row.replace("person,3", "left,3")).collect();
    company.write(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let did = in_from_staff(&mut directory);
    assert_eq!((count(&did, "provisioned-disable"), count(&did, "provisioned-delete")), (1, 1), "{did:?}");
    out_to(&mut directory, LIST);
    let grace = || company.list().into_iter().find(|line| line.contains("key=3")).unwrap();
    assert_eq!(grace(), "boss=1 key=3 name=Grace status=left");
    // From now on it has no owner.
    let path = company.place.scratch.path().join("list.csv");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("Grace", "Amazing")).unwrap();
    for _ in 0..2 {
        day(&mut directory);
    }
    assert_eq!(grace(), "boss=1 key=3 name=Amazing status=left");
    nothing_is_left(&mut directory);
}

fn an_object_that_becomes_another_type_is_looked_at_anew(place: Place) {
    let company = Company::new(place);
    let with = |row: &'static str| {
        let all: Vec<String> = PEOPLE.iter().map(|row| row.replace("2|9", "2|u3")).collect();
        company.write(&all.iter().map(String::as_str).chain([row]).collect::<Vec<_>>());
    };
    with("unit,u3,Spare,,,");
    let mut directory = company.open();
    day(&mut directory);
    let is_member = |name: &str| {
        let lines = company.directory.lines();
        lines.iter().any(|line| line.starts_with("cn=All") && line.contains(name))
    };
    assert!(is_member("ou=Spare"));
    with("group,u3,Spare,,,1");
    let did = in_from_staff(&mut directory);
    for (what, expected) in
        [("connector-delete-add", 1), ("metaverse-delete", 1), ("disconnector-projected", 1)]
    {
        assert_eq!(count(&did, what), expected, "{what}: {did:?}");
    }
    for agent in [DIRECTORY, LIST, DIRECTORY] {
        out_to(&mut directory, agent);
    }
    let lines = company.directory.lines();
    assert!(
        lines.contains(&"cn=Spare,dc=plim cn=Spare members=cn=Ada,ou=Lab,dc=plim".to_string()),
        "{lines:?}"
    );
    assert!(is_member("cn=Spare") && !is_member("ou=Spare"), "{lines:?}");
    assert!(company.list().contains(&"key=u3 members=1 name=Spare".to_string()), "{:?}", company.list());
    nothing_is_left(&mut directory);
}

fn a_system_that_dies_is_asked_again_and_nothing_is_there_twice(place: Place) {
    // Wherever it is interrupted, the end result is the same.
    let mut whole = None;
    for dies_after in (0..8).map(Some).chain([None]).rev() {
        let other = if place.is_server() { Place::postgres() } else { Some(Place::sqlite()) };
        let company = Company::new(other.unwrap());
        company.write(&PEOPLE);
        let mut directory = company.open();
        let mut died = 0;
        let mut out = |directory: &mut Metadirectory| {
            while let Err(error) = try_run(directory, DIRECTORY, StepKind::Export) {
                assert!(matches!(error, StepError::Agent(_)), "{error}");
                died += 1;
            }
            run(directory, DIRECTORY, StepKind::FullImport);
            run(directory, DIRECTORY, StepKind::DeltaSynchronization);
        };
        in_from_staff(&mut directory);
        company.directory.state().dies_after = dies_after;
        (0..2).for_each(|_| out(&mut directory));
        // The same with renames.
        let rows: Vec<String> =
            PEOPLE.iter().map(|row| row.replace("Ada,Lab", "Ada King,Navy").replace("3|1", "1")).collect();
        company.write(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        in_from_staff(&mut directory);
        company.directory.state().dies_after = dies_after.map(|calls| calls % 3);
        (0..3).for_each(|_| out(&mut directory));
        let lines = company.directory.lines();
        assert_eq!(whole.get_or_insert(lines.clone()), &lines, "{dies_after:?}");
        assert!(died > 0 || dies_after.is_none_or(|calls| calls > 2), "{dies_after:?}");
        out_to(&mut directory, LIST);
        nothing_is_left(&mut directory);
    }
}

fn what_is_refused_does_not_keep_others_from_being_sent(place: Place) {
    let company = Company::new(place);
    // Grace's unit is missing, so she is refused; she is Ada's boss and a member of the group.
    company.write(&["group,g,All,,,1|3", "person,1,Ada,Lab,3,", "person,3,Grace,Navy,1,", "unit,u,Lab,,,"]);
    let mut directory = company.open();
    in_from_staff(&mut directory);
    let result = try_run(&mut directory, DIRECTORY, StepKind::Export).unwrap();
    assert_eq!(result.failures.len(), 1, "{result:?}");
    assert!(result.failures[0].text.contains("no such object above"), "{result:?}");
    let lines = company.directory.lines();
    assert_eq!(
        lines,
        [
            "cn=Ada,ou=Lab,dc=plim cn=Ada",
            "cn=All,dc=plim cn=All members=cn=Ada,ou=Lab,dc=plim",
            "ou=Lab,dc=plim cn=Lab"
        ]
    );
    company.directory.state().add("ou=Navy,dc=plim");
    out_to(&mut directory, DIRECTORY);
    let lines = company.directory.lines();
    assert_eq!(lines[0], "cn=Ada,ou=Lab,dc=plim boss=cn=Grace,ou=Navy,dc=plim cn=Ada");
    assert!(lines[1].ends_with("members=cn=Ada,ou=Lab,dc=plim|cn=Grace,ou=Navy,dc=plim"), "{lines:?}");
}

fn a_preview_shows_names_and_references(place: Place) {
    let company = Company::new(place);
    company.write(&PEOPLE);
    let mut directory = company.open();
    day(&mut directory);
    drop(directory);
    let rows: Vec<String> =
        PEOPLE.iter().map(|row| row.replace("Ada,Lab", "Ada King,Lab").replace("3|1|2|9", "1|2")).collect();
    company.write(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    company.directory.asked();
    let before = company.directory.lines();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let say = reported.clone();
    let tell = Box::new(move |difference: Difference| say.lock().unwrap().push(difference.to_string()));
    let mut preview = Metadirectory::preview(company.config(100), tell).unwrap();
    in_from_staff(&mut preview);
    run(&mut preview, DIRECTORY, StepKind::Export);
    drop(preview);
    let mut reported = std::mem::take(&mut *reported.lock().unwrap());
    reported.sort();
    let (ada, king) = ("cn=Ada,ou=Lab,dc=plim", "cn=Ada King,ou=Lab,dc=plim");
    assert_eq!(
        reported,
        [
            format!("export directory: update {ada}\n    cn: Ada -> Ada King\n    (name): {ada} -> {king}"),
            // References follow the rename in the same export.
            format!("export directory: update cn=Alan,ou=Lab,dc=plim\n    boss: {ada} -> {king}"),
            format!("export directory: update cn=All,dc=plim\n    members: {ada} -> {king}"),
            "export directory: update cn=All,dc=plim\n    members: cn=Grace,ou=Navy,dc=plim -> nothing"
                .into(),
            format!("export directory: update cn=Grace,ou=Navy,dc=plim\n    boss: {ada} -> {king}"),
            "export list: update 1\n    name: Ada -> Ada King".into(),
            "export list: update g1\n    members: 3 -> nothing".into(),
            "import staff: update 1\n    name: Ada -> Ada King".into(),
            "import staff: update g1\n    members: 3, 9 -> nothing".into(),
            "metaverse person: update object 7\n    name: Ada -> Ada King".into(),
        ]
    );
    assert_eq!((company.directory.asked(), company.directory.lines()), (Vec::new(), before));
}

/// Objects of a source exchange names; references use names.
fn a_directory_as_a_source_refers_by_names(place: Place) {
    let company = Company::new(place);
    let list = company.place.scratch.path().join("list.csv");
    let config = format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 2
[metaverse]
person = {{ attributes = {{ name = "text", boss = "reference" }}, deleted_with = "directory" }}
group = {{ attributes = {{ name = "text", members = "reference[]" }}, deleted_with = "directory" }}
[agents.directory]
type = "delimited"
path = "unused"
anchor = "uuid"
references = ["boss", "members"]
[agents.list]
type = "delimited"
path = "{list}"
anchor = "key"
value_separator = "|"
references = ["boss", "members"]
[[inbound]]
agent = "directory"
to = "group"
objects = "'group' in cs.status"
project = true
flow = {{ name = "cn", members = "members" }}
[[inbound]]
agent = "directory"
to = "person"
project = true
flow = {{ name = "cn", boss = "boss" }}
[[outbound]]
agent = "list"
from = "person"
dn = "mv.name"
deprovision = "delete"
flow = {{ key = "name", boss = "boss" }}
[[outbound]]
agent = "list"
from = "group"
dn = "mv.name"
deprovision = "delete"
flow = {{ key = "name", members = "members" }}
[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 100, delete_share = 1.0 }}
export = {{ deletes = 100, delete_share = 1.0 }}
"#,
        store = company.place.keys(),
        list = list.display(),
    );
    let mut config = connectors::parse(&config).unwrap();
    config.agents[0].system = company.directory.system();
    let mut directory = Metadirectory::open(config).unwrap();
    let entry = |name: &str, attributes: &[(&str, &str)]| {
        let mut state = company.directory.state();
        let entry = state.add(&format!("cn={name},dc=plim"));
        for (attribute, values) in [("cn", name)].iter().chain(attributes) {
            let values = values.split('|').map(String::from).collect();
            entry.attributes.insert((*attribute).into(), values);
        }
    };
    let rename = |from: &str, to: &str| {
        company.directory.state().rename(&format!("cn={from},dc=plim"), &format!("cn={to},dc=plim"));
    };
    let refers_to = |name: &str, boss: &str| {
        let mut state = company.directory.state();
        let entry = state.entries.iter_mut().find(|entry| entry.attributes["cn"].contains(name)).unwrap();
        entry.attributes.insert("boss".into(), [format!("CN={boss}, DC=plim")].into());
    };
    entry("all", &[("status", "group"), ("members", "cn=a,dc=plim|cn=b,dc=plim|cn=x,dc=plim")]);
    entry("a", &[("boss", "CN=B,DC=plim")]);
    entry("b", &[]);
    let steps: [(&dyn Fn(), &[&str]); 6] = [
        (&|| (), &["boss=b key=a", "key=all members=a|b", "key=b"]),
        // A boss is renamed, and the references still have the old name.
        (&|| rename("b", "y"), &["key=a", "key=all members=a", "key=b"]),
        (&|| refers_to("a", "y"), &["boss=b key=a", "key=all members=a", "key=b"]),
        // Two objects exchange names, so the values lead to the other one.
        (
            &|| {
                rename("a", "tmp");
                rename("y", "a");
                rename("tmp", "y");
            },
            &["boss=a key=a", "key=all members=b", "key=b"],
        ),
        // An object takes a name that another one releases.
        (
            &|| {
                rename("a", "gone");
                entry("c", &[]);
                rename("c", "a");
            },
            &["boss=a key=a", "key=all members=c", "key=b", "key=c"],
        ),
        (
            &|| company.directory.state().entries.retain(|entry| !entry.attributes["cn"].contains("a")),
            &["key=all members=c", "key=b", "key=c"],
        ),
    ];
    for (at, (change, expected)) in steps.into_iter().enumerate() {
        change();
        run(&mut directory, 0, StepKind::FullImport);
        run(&mut directory, 0, StepKind::DeltaSynchronization);
        out_to(&mut directory, 1);
        assert_eq!(company.list(), expected, "step {at}");
        let did = run(&mut directory, 0, StepKind::FullSynchronization);
        let quiet = ["connector-no-flow", "reference-waiting"];
        assert!(did.iter().all(|(what, _)| quiet.contains(what)), "step {at}: {did:?}");
        assert_eq!(run(&mut directory, 1, StepKind::Export), [], "step {at}");
    }
}
