//! The life cycle of people: staged, synchronized, exported, confirmed, changed, deleted.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::ObjectError;

use crate::place::{Place, over_both_stores};
use crate::steps::{Did, run, try_run};

over_both_stores! {
    people_are_staged_synchronized_exported_and_confirmed,
    changes_flow_and_leavers_go_within_the_thresholds,
    a_threshold_stops_before_the_first_deletion,
    bad_rows_are_reported_with_their_line_and_nothing_is_lost,
    what_somebody_else_changes_in_the_target_is_reported_and_put_right,
    an_object_that_is_there_and_not_joined_is_not_made_again,
    a_source_whose_anchors_all_changed_is_stopped_at_the_import,
}

/// A metadirectory with a staff file, a phone book that it provisions, and a badge file that contributes an
/// attribute.
struct Office {
    place: Place,
    config: String,
}

impl Office {
    fn new(place: Place) -> Office {
        let at = |file: &str| place.scratch.path().join(file).display().to_string();
        let config = format!(
            r#"
[store]
{store}
durability = "off"
commit_objects = 3

[metaverse.person]
attributes = {{ employeeId = "text", name = "text", mail = "text", room = "text", badge = "text", active = "boolean" }}

[agents.hr]
type = "delimited"
path = "{hr}"
anchor = "id"

[agents.badges]
type = "delimited"
path = "{badges}"
anchor = "badge"

[agents.phones]
type = "delimited"
path = "{phones}"
anchor = "key"

[[inbound]]
agent = "hr"
to = "person"
filter = "cs.kind == 'test'"
join = [{{ cs = "id", mv = "employeeId" }}]
project = true
[inbound.flow]
employeeId = "id"
name = {{ expression = "cs.given + ' ' + cs.sn" }}
mail = "mail"
room = {{ from = "room", precedence = 2 }}
active = {{ expression = "default(cs.status, 'active') == 'active'" }}

[[inbound]]
agent = "badges"
to = "person"
join = [{{ cs = "owner", mv = "mail", ignore_case = true }}]
[inbound.flow]
badge = "badge"
room = {{ from = "room", precedence = 1 }}

[[outbound]]
agent = "phones"
from = "person"
when = "mv.active"
dn = "mv.employeeId"
deprovision = "delete"
flow = {{ key = "employeeId", name = "name", room = "room", badge = "badge", company = {{ constant = "Plim" }} }}

[safety]
synchronization = {{ deletes = 2 }}
export = {{ deletes = 2 }}
"#,
            store = place.keys(),
            hr = at("hr.csv"),
            badges = at("badges.csv"),
            phones = at("phones.csv"),
        );
        let office = Office { place, config };
        office.write("badges.csv", "badge,owner,room\n");
        office
    }

    fn path(&self, file: &str) -> PathBuf {
        self.place.scratch.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn open(&self) -> Metadirectory {
        Metadirectory::open(connectors::parse(&self.config).unwrap()).unwrap()
    }

    /// The lines of the phone book without the header, sorted.
    fn phone_book(&self) -> Vec<String> {
        lines(&self.path("phones.csv"))
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().skip(1).map(String::from).collect();
    lines.sort();
    lines
}

// Indexes of the agents, which are sorted by name.
const BADGES: usize = 0;
const HR: usize = 1;
const PHONES: usize = 2;

/// Imports, synchronizes, exports and confirms everything; returns the result of each step that did
/// something.
fn everything(directory: &mut Metadirectory, kind: StepKind) -> Did {
    let mut all = Vec::new();
    for (agent, kind) in [
        (HR, StepKind::FullImport),
        (BADGES, StepKind::FullImport),
        (HR, kind),
        (BADGES, kind),
        (PHONES, StepKind::Export),
        (PHONES, StepKind::FullImport),
        (PHONES, StepKind::DeltaSynchronization),
    ] {
        all.extend(try_run(directory, agent, kind).unwrap().statistics.iter());
    }
    all
}

const STAFF: &str = "id,given,sn,mail,room,status,kind\n\
                     1,Ada,Byron,ada@plim.example,A1,active,\n\
                     2,Alan,Turing,alan@plim.example,A2,active,\n\
                     3,Grace,Hopper,grace@plim.example,A3,active,\n\
                     4,Test,User,test@plim.example,T0,active,test\n\
                     5,Edsger,Dijkstra,edsger@plim.example,A5,left,\n";

fn people_are_staged_synchronized_exported_and_confirmed(place: Place) {
    let office = Office::new(place);
    office.write("hr.csv", STAFF);
    office.write("badges.csv", "badge,owner,room\nB7,ADA@plim.example,Z9\nB8,nobody@plim.example,\n");
    let mut directory = office.open();
    assert_eq!(run(&mut directory, HR, StepKind::FullImport), [("stage-add", 5)]);
    assert_eq!(
        run(&mut directory, HR, StepKind::DeltaSynchronization),
        [("disconnector-filtered", 1), ("disconnector-projected", 4), ("provisioned-add", 3)]
    );
    assert_eq!(run(&mut directory, BADGES, StepKind::FullImport), [("stage-add", 2)]);
    // The badge file precedes the staff file for the room, and joins by mail address.
    assert_eq!(
        run(&mut directory, BADGES, StepKind::FullSynchronization),
        [("disconnector-joined", 1), ("disconnector-remains", 1), ("outbound-flow", 1)]
    );
    assert_eq!(run(&mut directory, PHONES, StepKind::Export), [("export-add", 3)]);
    let mut expected: Vec<String> =
        ["Plim,1,Ada Byron,Z9,B7", "Plim,2,Alan Turing,A2,", "Plim,3,Grace Hopper,A3,"]
            .map(as_in(&office))
            .into();
    expected.sort();
    assert_eq!(office.phone_book(), expected);
    assert_eq!(run(&mut directory, PHONES, StepKind::FullImport), [("confirmed", 3), ("stage-update", 3)]);
    run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    // A second pass changes nothing, even after the store was closed.
    drop(directory);
    let mut directory = office.open();
    for kind in [StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
        let did = everything(&mut directory, kind);
        let quiet = ["stage-no-change", "connector-no-flow", "disconnector-filtered", "disconnector-remains"];
        assert!(did.iter().all(|(what, _)| quiet.contains(what)), "{kind:?}: {did:?}");
    }
}

/// The configuration warns exactly about objects that outlive their sources.
#[test]
fn what_outlives_its_source_is_warned_of() {
    let back = |more: &str| {
        let join = "join = [{ cs = \"key\", mv = \"employeeId\" }]";
        format!("[[inbound]]\nagent = \"phones\"\nto = \"person\"\n{join}\n{more}\n[[outbound]]")
    };
    let [when, person, outbound] = ["when = \"mv.active\"\n", "[metaverse.person]\n", "[[outbound]]"];
    let deprovision = "deprovision = \"delete\"";
    let when_is = |condition: &str| (when, format!("when = \"{condition}\"\n"));
    let always = || (when, String::new());
    for (edits, is_warned, ends) in [
        (vec![], false, true),
        (vec![always()], true, false),
        (vec![always(), (deprovision, "deprovision = { disable = { room = \"\" } }".into())], true, false),
        (vec![always(), (deprovision, String::new())], true, false),
        (vec![always(), (person, format!("{person}deleted_with = \"hr\"\n"))], false, true),
        (vec![when_is("has(mv.mail)")], false, true),
        (vec![when_is("default(mv.active, true)")], true, false),
        (vec![when_is("!has(mv.badge)")], true, false),
        // No values flow back from the phone book.
        (vec![always(), (outbound, back(""))], true, false),
        // It may contribute a badge, or not.
        (
            vec![
                when_is("!has(mv.badge)"),
                ("badge = \"badge\"\n", "badge = { from = \"badge\", precedence = 2 }\n".into()),
                (outbound, back("flow = { badge = { from = \"badge\", precedence = 1 } }")),
            ],
            false,
            false,
        ),
        // Every object in it is a person, staff or not.
        (vec![always(), (outbound, back("project = true"))], false, false),
    ] {
        let mut office = Office::new(Place::sqlite());
        for (from, to) in &edits {
            assert!(office.config.contains(from), "{from}");
            office.config = office.config.replacen(from, to, 1);
        }
        office.write("hr.csv", STAFF);
        let config = connectors::parse(&office.config).unwrap();
        assert_eq!(config.warnings.len(), usize::from(is_warned), "{edits:?}: {:?}", config.warnings);
        let mut directory = Metadirectory::open(config).unwrap();
        everything(&mut directory, StepKind::DeltaSynchronization);
        let (_, before) = directory.status().unwrap();
        office.write("hr.csv", &STAFF.replace("1,Ada,Byron,ada@plim.example,A1,active,\n", ""));
        for _ in 0..2 {
            everything(&mut directory, StepKind::DeltaSynchronization);
        }
        let (_, after) = directory.status().unwrap();
        assert_eq!(before - after, u64::from(ends), "{edits:?}");
    }
}

/// The columns in the file's order: `company, key, name, room, badge` as in the header.
fn as_in(office: &Office) -> impl Fn(&str) -> String {
    let text = fs::read_to_string(office.path("phones.csv")).unwrap();
    let header: Vec<String> = text.lines().next().unwrap().split(',').map(String::from).collect();
    move |line: &str| {
        let values: Vec<&str> = line.split(',').collect();
        let names = ["company", "key", "name", "room", "badge"];
        let value = |column: &String| values[names.iter().position(|name| name == column).unwrap()];
        header.iter().map(value).collect::<Vec<_>>().join(",")
    }
}

fn changes_flow_and_leavers_go_within_the_thresholds(place: Place) {
    let office = Office::new(place);
    office.write("hr.csv", STAFF);
    let mut directory = office.open();
    everything(&mut directory, StepKind::DeltaSynchronization);
    // A move, a new name, a returning and a leaving person.
    let changed = STAFF
        .replace("ada@plim.example,A1", "ada@plim.example,B1")
        .replace("Alan,Turing", "Alan,Türing")
        .replace("A5,left", "A5,active")
        .replace("3,Grace,Hopper,grace@plim.example,A3,active,\n", "");
    office.write("hr.csv", &changed);
    let did = everything(&mut directory, StepKind::DeltaSynchronization);
    for (what, count) in [
        ("stage-update", 3),
        ("stage-delete", 1),
        ("metaverse-delete", 1),
        ("provisioned-delete", 1),
        ("export-update", 2),
        ("export-add", 1),
        ("export-delete", 1),
    ] {
        assert_eq!(did.iter().find(|(name, _)| *name == what), Some(&(what, count)), "{did:?}");
    }
    let names: Vec<String> = office.phone_book();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(
        names.iter().any(|line| line.contains("Türing")) && names.iter().any(|line| line.contains("Edsger"))
    );
    // An empty source, or half of one, deletes nothing.
    for short in ["id,given,sn,mail,room,status,kind\n", &changed[..changed.len() / 3]] {
        office.write("hr.csv", short);
        let before = office.phone_book();
        match try_run(&mut directory, HR, StepKind::FullImport) {
            Err(StepError::Threshold(_)) => {}
            Ok(result) => assert!(!result.discovery_errors.is_empty(), "{result:?}"),
            Err(other) => panic!("{other}"),
        }
        let did = run(&mut directory, HR, StepKind::FullSynchronization);
        assert!(did.iter().all(|(what, _)| !what.contains("delete")), "{did:?}");
        run(&mut directory, PHONES, StepKind::Export);
        assert_eq!(office.phone_book(), before);
    }
}

fn a_threshold_stops_before_the_first_deletion(place: Place) {
    let office = Office::new(place);
    let staff = |count: usize| {
        let line = |at: usize| format!("{at},N{at},S,m{at}@plim.example,R,active,\n");
        "id,given,sn,mail,room,status,kind\n".to_string() + &(1..=count).map(line).collect::<String>()
    };
    office.write("hr.csv", &staff(40));
    let mut directory = office.open();
    everything(&mut directory, StepKind::DeltaSynchronization);
    assert_eq!(office.phone_book().len(), 40);
    office.write("hr.csv", &staff(35));
    assert_eq!(run(&mut directory, HR, StepKind::FullImport), [("stage-delete", 5), ("stage-no-change", 35)]);
    for _ in 0..2 {
        let stopped = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap_err();
        assert!(matches!(&stopped, StepError::Threshold(why) if why.contains("5 objects")), "{stopped}");
    }
    assert_eq!(run(&mut directory, PHONES, StepKind::Export), []);
    assert_eq!(office.phone_book().len(), 40);
    // Two deletions are allowed.
    office.write("hr.csv", &staff(38));
    assert_eq!(run(&mut directory, HR, StepKind::FullImport), [("stage-no-change", 35), ("stage-update", 3)],);
    assert_eq!(
        run(&mut directory, HR, StepKind::DeltaSynchronization),
        [("connector-delete", 2), ("metaverse-delete", 2), ("provisioned-delete", 2)]
    );
    assert_eq!(run(&mut directory, PHONES, StepKind::Export), [("export-delete", 2)]);
    assert_eq!(office.phone_book().len(), 38);
}

fn bad_rows_are_reported_with_their_line_and_nothing_is_lost(place: Place) {
    let office = Office::new(place);
    office.write("hr.csv", STAFF);
    let mut directory = office.open();
    everything(&mut directory, StepKind::DeltaSynchronization);
    let mut bytes = STAFF.replace("2,Alan", "2,Alan,Mathison").replace("\n3,", "\n,").into_bytes();
    bytes.extend(b"6,\xff\xfe,S,m,R,active,\n1,Ada,Again,x@plim.example,A1,active,\n");
    fs::write(office.path("hr.csv"), bytes).unwrap();
    let result = try_run(&mut directory, HR, StepKind::FullImport).unwrap();
    let reported: Vec<(String, &str)> =
        result.discovery_errors.iter().map(|error| (error.place.clone(), error.kind)).collect();
    assert_eq!(
        reported[..3],
        [
            ("line 3".to_string(), "parse-error"),
            ("line 4".to_string(), "missing-anchor"),
            ("line 7".to_string(), "invalid-attribute-value"),
        ]
    );
    assert_eq!(reported[3..], [("line 8".to_string(), "duplicate-object")]);
    assert_eq!(result.statistics.of("stage-delete"), 0, "{result:?}");
}

fn what_somebody_else_changes_in_the_target_is_reported_and_put_right(place: Place) {
    let office = Office::new(place);
    office.write("hr.csv", STAFF);
    let mut directory = office.open();
    for (agent, kind) in
        [(HR, StepKind::FullImport), (HR, StepKind::DeltaSynchronization), (PHONES, StepKind::Export)]
    {
        run(&mut directory, agent, kind);
    }
    // Between export and confirmation, somebody changes a room and deletes a line.
    let book = fs::read_to_string(office.path("phones.csv")).unwrap();
    let spoilt: Vec<&str> = book.lines().filter(|line| !line.contains("Grace")).collect();
    office.write("phones.csv", &(spoilt.join("\n").replace("A1", "XX") + "\n"));
    let did = run(&mut directory, PHONES, StepKind::FullImport);
    assert!(did.contains(&("exported-change-not-reimported", 2)), "{did:?}");
    run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    assert_eq!(run(&mut directory, PHONES, StepKind::Export), [("export-add", 1), ("export-update", 1)]);
    let book = fs::read_to_string(office.path("phones.csv")).unwrap();
    assert!(book.contains("A1") && book.contains("Grace") && !book.contains("XX"), "{book}");
    run(&mut directory, PHONES, StepKind::FullImport);
    run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    // The same with a confirmed export. The person to be added again has a name that the deleted person had.
    let whole = office.phone_book();
    office.write("phones.csv", &(spoilt.join("\n").replace("A1", "XX") + "\n"));
    let did = run(&mut directory, PHONES, StepKind::FullImport);
    assert!(did.contains(&("stage-update", 1)) && did.contains(&("stage-delete", 1)), "{did:?}");
    let did = run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    assert!(did.contains(&("provisioned-add", 1)) && did.contains(&("outbound-flow", 1)), "{did:?}");
    assert_eq!(run(&mut directory, PHONES, StepKind::Export), [("export-add", 1), ("export-update", 1)]);
    assert_eq!(office.phone_book(), whole);
    run(&mut directory, PHONES, StepKind::FullImport);
    let did = run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    assert!(!did.iter().any(|(what, _)| what.starts_with("provisioned")), "{did:?}");
    assert_eq!(run(&mut directory, PHONES, StepKind::Export), []);
}

fn an_object_that_is_there_and_not_joined_is_not_made_again(place: Place) {
    let office = Office::new(place);
    office.write("hr.csv", STAFF);
    office.write("phones.csv", "key,name,room,badge,company\n2,Somebody,A9,,Plim\n");
    let mut directory = office.open();
    run(&mut directory, PHONES, StepKind::FullImport);
    run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    run(&mut directory, HR, StepKind::FullImport);
    // Alan is reported as an error, and nobody else is affected.
    for time in 0..2 {
        let result = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
        let [ObjectError { text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
        assert!(why.contains("the name \"2\" is taken by phones \"2\", which belongs to nobody"), "{why}");
        assert_eq!(result.statistics.of("flow-failure"), 1);
        assert_eq!(result.statistics.of("provisioned-add"), if time == 0 { 2 } else { 0 }, "{result:?}");
    }
    // After Alan's line is deleted from the phone book, his object is added.
    office.write("phones.csv", "key,name,room,badge,company\n");
    let mut config = connectors::parse(&office.config).unwrap();
    config.safety.import_least_share = 0.0;
    drop(directory);
    let mut directory = Metadirectory::open(config).unwrap();
    run(&mut directory, PHONES, StepKind::FullImport);
    run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    assert_eq!(
        run(&mut directory, HR, StepKind::DeltaSynchronization),
        [("disconnector-projected", 1), ("provisioned-add", 1)]
    );
}

fn a_source_whose_anchors_all_changed_is_stopped_at_the_import(place: Place) {
    let office = Office::new(place);
    office.write("hr.csv", STAFF);
    let mut directory = office.open();
    everything(&mut directory, StepKind::DeltaSynchronization);
    let (book, before) = (office.phone_book(), directory.status().unwrap());
    // Every number gets a prefix, and one person is new.
    let (header, lines) = STAFF.split_once('\n').unwrap();
    let renumbered: String = lines.lines().map(|line| format!("X{line}\n")).collect();
    office.write("hr.csv", &format!("{header}\n{renumbered}9,New,One,n@plim.example,A9,active,\n"));
    for _ in 0..2 {
        let stopped = try_run(&mut directory, HR, StepKind::FullImport).unwrap_err();
        let why = stopped.to_string();
        assert!(why.contains("the import found 0 of the 5 known objects, and 6 new ones"), "{why}");
        // Nothing is left of it, so nothing follows from it.
        assert_eq!(directory.status().unwrap(), before);
        let did = run(&mut directory, HR, StepKind::DeltaSynchronization);
        assert_eq!(did, []);
    }
    run(&mut directory, PHONES, StepKind::Export);
    assert_eq!(office.phone_book(), book);
    // A new person among known ones is an ordinary change, also after an interruption.
    office.write("hr.csv", &format!("{STAFF}9,New,One,n@plim.example,A9,active,\n"));
    let mut count = 0;
    let interrupted = directory.run(Step { agent: HR, kind: StepKind::FullImport }, &mut |_| {
        count += 1;
        count < 1
    });
    assert!(matches!(interrupted, Err(StepError::Interrupted)), "{interrupted:?}");
    run(&mut directory, HR, StepKind::FullImport);
    let did = run(&mut directory, HR, StepKind::DeltaSynchronization);
    assert!(did.contains(&("disconnector-projected", 1)), "{did:?}");
}
