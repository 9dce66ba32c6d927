//! Names that change hands in one export, and references to renamed entries, with slapd.

use std::sync::{Arc, Mutex};

use plimsoll_metadir::config::{Config, Step, StepKind};
use plimsoll_metadir::metadirectory::{AuditFilter, Metadirectory, StepResult, UndoOptions};
use plimsoll_metadir::preview::Difference;
use plimsoll_metadir::stage::StepError;

use super::*;
use crate::place::{Place, over_both_stores};

over_both_stores! {
    a_new_entry_takes_the_name_of_a_deleted_one,
    entries_take_each_others_names_along_a_chain,
    entries_exchange_their_names,
    a_container_is_renamed_while_entries_enter_and_leave_it,
    containers_exchange_their_names_with_all_that_is_below,
    a_name_that_somebody_else_keeps_is_refused,
    a_name_that_two_entries_get_goes_to_one_of_them,
    an_interrupted_exchange_is_finished_by_the_next_export,
    a_step_that_the_store_does_not_know_is_repeated,
    references_name_the_new_entry_at_the_end_of_the_export,
    a_server_that_maintains_references_accepts_the_same,
    a_preview_an_audit_and_an_undo_know_the_final_names,
}

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

/// Persons, units and groups from a file. The directory gives a value back, so that a temporary name would
/// become visible.
fn text(place: &Place, slapd: &Slapd) -> String {
    format!(
        r#"
[store]
{store}
durability = "off"

[metaverse]
person = {{ attributes = {{ id = "text", cn = "text", unit = "text", boss = "reference", seen = "text" }}, deleted_with = "staff" }}
group = {{ attributes = {{ id = "text", cn = "text", members = "reference[]" }}, deleted_with = "staff" }}
unit = {{ attributes = {{ id = "text", cn = "text" }}, deleted_with = "staff" }}

[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
value_separator = "|"
references = ["boss", "members"]

[agents.directory]
{keys}base = "ou=people,{SUFFIX}"
anchor = "entryUUID"
references = ["manager", "member"]

[[inbound]]
agent = "staff"
to = "group"
objects = "cs.kind == 'group'"
project = true
flow = {{ id = "id", cn = "cn", members = "members" }}

[[inbound]]
agent = "staff"
to = "unit"
objects = "cs.kind == 'unit'"
project = true
flow = {{ id = "id", cn = "cn" }}

[[inbound]]
agent = "staff"
to = "person"
project = true
flow = {{ id = "id", cn = "cn", unit = "unit", boss = "boss" }}

[[inbound]]
agent = "directory"
to = "person"
objects = "'inetOrgPerson' in cs.objectClass"
join = [{{ cs = "employeeNumber", mv = "id" }}]
flow = {{ seen = "cn" }}

[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('cn', mv.cn) + (has(mv.unit) ? ',' + rdn('ou', mv.unit) : '') + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
employeeNumber = "id"
cn = "cn"
sn = "id"
manager = "boss"
description = "seen"

[[outbound]]
agent = "directory"
from = "unit"
dn = "rdn('ou', mv.cn) + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "organizationalUnit"] }}
ou = "cn"
description = "id"

[[outbound]]
agent = "directory"
from = "group"
dn = "rdn('cn', mv.cn) + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "groupOfNames"] }}
cn = "cn"
description = "id"
member = "members"

[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 100, delete_share = 1.0 }}
export = {{ deletes = 100, delete_share = 1.0 }}
"#,
        store = place.keys(),
        staff = place.scratch.join("staff.csv").display(),
        keys = keys(slapd),
    )
}

/// A directory and a metadirectory that follows a staff file.
struct Firm {
    place: Place,
    slapd: Slapd,
}

impl Firm {
    fn new(place: Place) -> Option<Firm> {
        Firm::with(place, "")
    }

    fn with(place: Place, database: &str) -> Option<Firm> {
        let slapd = start(organization(""), database)?;
        Some(Firm { place, slapd })
    }

    fn config(&self) -> Config {
        let text = text(&self.place, &self.slapd);
        connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
    }

    fn open(&self) -> Metadirectory {
        Metadirectory::open(self.config()).unwrap()
    }

    /// Writes the staff file; the rows are `kind,id,cn,unit,boss,members`.
    fn staff(&self, rows: &[&str]) {
        self.place.scratch.file("staff.csv", format!("kind,id,cn,unit,boss,members\n{}\n", rows.join("\n")));
    }

    /// Writes a staff file of persons.
    fn persons(&self, persons: &[(u32, &str)]) {
        let rows: Vec<String> = persons.iter().map(|(id, cn)| format!("person,{id},{cn},,,")).collect();
        self.staff(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// The names below `ou=people`, with the values of an attribute.
    fn entries(&self, attribute: &str) -> Vec<String> {
        let ldif = self.slapd.export().replace("\n ", "");
        let mut lines = Vec::new();
        for entry in ldif.split("\n\n") {
            let Some(dn) = entry.lines().find_map(|line| line.strip_prefix("dn: ")) else { continue };
            let Some(dn) = dn.strip_suffix(&format!(",ou=people,{SUFFIX}")) else { continue };
            let begin = format!("{attribute}: ");
            let values = entry.lines().filter_map(|line| line.strip_prefix(&*begin));
            let mut values: Vec<String> =
                values.map(|value| value.replace(&format!(",ou=people,{SUFFIX}"), "")).collect();
            values.sort_unstable();
            lines.push(format!("{dn}: {}", values.join("|")));
        }
        lines.sort();
        lines
    }
}

fn run(metadirectory: &mut Metadirectory, agent: usize, kind: StepKind) -> StepResult {
    let result = metadirectory.run(Step { agent, kind }, &mut |_| true).unwrap();
    assert!(result.failures.is_empty() && result.discovery_errors.is_empty(), "{kind:?}: {result:?}");
    result
}

const DAY: [(usize, StepKind); 5] = [
    (STAFF, StepKind::FullImport),
    (STAFF, StepKind::DeltaSynchronization),
    (DIRECTORY, StepKind::Export),
    (DIRECTORY, StepKind::FullImport),
    (DIRECTORY, StepKind::DeltaSynchronization),
];

/// Synchronizes the staff file, exports and confirms.
fn day(metadirectory: &mut Metadirectory) -> Vec<StepResult> {
    DAY.map(|(agent, kind)| run(metadirectory, agent, kind)).into()
}

/// Days until nothing is to be sent: the value that the directory gives back is exported on the next day.
fn settle(metadirectory: &mut Metadirectory) {
    for _ in 0..2 {
        day(metadirectory);
    }
    let last = day(metadirectory);
    assert_eq!(last[2].statistics.iter().collect::<Vec<_>>(), []);
    assert_eq!(last[3].statistics.of("exported-change-not-reimported"), 0, "{last:?}");
}

/// A day whose export has no refusals and whose import confirms everything.
fn one_export(metadirectory: &mut Metadirectory) -> Vec<(&'static str, u64)> {
    let did = day(metadirectory);
    assert_eq!(did[3].statistics.of("exported-change-not-reimported"), 0, "{did:?}");
    did[2].statistics.iter().collect()
}

fn a_new_entry_takes_the_name_of_a_deleted_one(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    firm.persons(&[(1, "Ada"), (2, "Alan"), (3, "Grace")]);
    settle(&mut metadirectory);
    // Ada and Grace leave; others with their names come, one before and one after them in the file.
    firm.persons(&[(0, "Grace"), (2, "Alan"), (4, "Ada")]);
    assert_eq!(one_export(&mut metadirectory), [("export-add", 2), ("export-delete", 2)]);
    assert_eq!(firm.entries("employeeNumber"), ["cn=Ada: 4", "cn=Alan: 2", "cn=Grace: 0"]);
    settle(&mut metadirectory);
    assert_eq!(firm.entries("employeeNumber"), ["cn=Ada: 4", "cn=Alan: 2", "cn=Grace: 0"]);
}

fn entries_take_each_others_names_along_a_chain(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    let names = ["A", "B", "C", "D", "E", "F"];
    let chain = |shift: usize| -> Vec<(u32, &str)> {
        (0..5).map(|at| (u32::try_from(at).unwrap(), names[at + shift])).collect()
    };
    firm.persons(&chain(0));
    settle(&mut metadirectory);
    // Each takes the name of the next one, and a new person that of the first.
    let mut persons = chain(1);
    persons.push((9, "A"));
    firm.persons(&persons);
    assert_eq!(one_export(&mut metadirectory), [("export-add", 1), ("export-rename", 5)]);
    let now = ["cn=A: 9", "cn=B: 0", "cn=C: 1", "cn=D: 2", "cn=E: 3", "cn=F: 4"];
    assert_eq!(firm.entries("employeeNumber"), now);
    // The other direction: the first leaves, each takes the name of the one before.
    firm.persons(&chain(0));
    assert_eq!(one_export(&mut metadirectory), [("export-delete", 1), ("export-rename", 5)]);
    assert_eq!(firm.entries("employeeNumber"), ["cn=A: 0", "cn=B: 1", "cn=C: 2", "cn=D: 3", "cn=E: 4"]);
    settle(&mut metadirectory);
    assert_eq!(firm.entries("cn")[0], "cn=A: A");
}

fn entries_exchange_their_names(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    firm.persons(&[(1, "Ada"), (2, "Alan"), (3, "X"), (4, "Y"), (5, "Z"), (6, "other")]);
    settle(&mut metadirectory);
    firm.persons(&[(1, "Alan"), (2, "Ada"), (3, "Y"), (4, "Z"), (5, "X"), (6, "Other")]);
    let did = one_export(&mut metadirectory);
    // Another spelling of the same name is no rename.
    assert_eq!(did, [("export-rename", 5), ("export-temporary-name", 2), ("export-update", 1)]);
    let now = ["cn=Ada: 2", "cn=Alan: 1", "cn=X: 5", "cn=Y: 3", "cn=Z: 4", "cn=other: 6"];
    assert_eq!(firm.entries("employeeNumber"), now);
    settle(&mut metadirectory);
    let values = ["cn=Ada: Ada", "cn=Alan: Alan", "cn=X: X", "cn=Y: Y", "cn=Z: Z", "cn=other: Other"];
    assert_eq!(firm.entries("cn"), values);
    assert_eq!(firm.entries("description"), values);
}

fn a_container_is_renamed_while_entries_enter_and_leave_it(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    let before = [
        "unit,u1,Lab,,,",
        "unit,u2,Shop,,,",
        "person,1,Ada,Lab,,",
        "person,2,Alan,Lab,,",
        "person,3,Grace,Shop,,",
        "person,4,Edsger,,,",
    ];
    firm.staff(&before);
    settle(&mut metadirectory);
    // Lab becomes Works. Alan leaves it, Grace enters it and takes his name, Edsger takes hers in the shop.
    firm.staff(&[
        "unit,u1,Works,,,",
        "unit,u2,Shop,,,",
        "person,1,Ada,Works,,",
        "person,2,Alan,,,",
        "person,3,Alan,Works,,",
        "person,4,Grace,Shop,,",
    ]);
    one_export(&mut metadirectory);
    let now = ["cn=Ada,ou=Works: 1", "cn=Alan,ou=Works: 3", "cn=Alan: 2", "cn=Grace,ou=Shop: 4"];
    let persons = |firm: &Firm| {
        let mut entries = firm.entries("employeeNumber");
        entries.retain(|line| line.starts_with("cn="));
        entries
    };
    assert_eq!(persons(&firm), now);
    settle(&mut metadirectory);
    firm.staff(&before);
    one_export(&mut metadirectory);
    let now = ["cn=Ada,ou=Lab: 1", "cn=Alan,ou=Lab: 2", "cn=Edsger: 4", "cn=Grace,ou=Shop: 3"];
    assert_eq!(persons(&firm), now);
    settle(&mut metadirectory);
}

fn containers_exchange_their_names_with_all_that_is_below(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    let staff = |one: &str, other: &str| {
        firm.staff(&[
            &format!("unit,u1,{one},,,"),
            &format!("unit,u2,{other},,,"),
            &format!("person,1,Ada,{one},,"),
            &format!("person,2,Alan,{one},,"),
            &format!("person,3,Ada,{other},,"),
        ]);
    };
    staff("Lab", "Shop");
    settle(&mut metadirectory);
    staff("Shop", "Lab");
    one_export(&mut metadirectory);
    let now = ["cn=Ada,ou=Lab: 3", "cn=Ada,ou=Shop: 1", "cn=Alan,ou=Shop: 2", "ou=Lab: ", "ou=Shop: "];
    assert_eq!(firm.entries("employeeNumber"), now);
    settle(&mut metadirectory);
    // The first unit is dissolved with its persons, a new one takes its name and the persons of the other.
    firm.staff(&["unit,u3,Shop,,,", "person,3,Ada,Shop,,"]);
    one_export(&mut metadirectory);
    assert_eq!(firm.entries("employeeNumber"), ["cn=Ada,ou=Shop: 3", "ou=Shop: "]);
    settle(&mut metadirectory);
}

fn a_name_that_somebody_else_keeps_is_refused(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    firm.persons(&[(1, "Ada"), (2, "Alan")]);
    settle(&mut metadirectory);
    // Somebody adds an entry that no rule accepts, and another one deletes the right to a name.
    let people = format!("ou=people,{SUFFIX}");
    let mut session = root(&firm.slapd);
    add(
        &mut session,
        &format!("cn=Grace,{people}"),
        &[("objectClass", "person"), ("cn", "Grace"), ("sn", "x")],
    );
    firm.persons(&[(1, "Grace"), (2, "Ada"), (3, "Alan")]);
    let results = attempt(&mut metadirectory);
    let failures: Vec<(&str, &str)> =
        results[2].failures.iter().map(|of| (of.object.as_str(), of.text.as_str())).collect();
    // Who waits for a refused object is refused too.
    let words = [
        format!("another entry has the name cn=Grace,{people}"),
        format!("another entry has the name cn=Ada,{people}"),
        format!("another object has the name \"cn=Alan,{people}\" and keeps it: "),
    ];
    assert_eq!(failures.len(), words.len(), "{failures:?}");
    for ((_, text), words) in failures.iter().zip(&words) {
        assert!(text.starts_with(words), "{failures:?}");
    }
    assert_eq!(firm.entries("employeeNumber"), ["cn=Ada: 1", "cn=Alan: 2", "cn=Grace: "]);
}

fn a_name_that_two_entries_get_goes_to_one_of_them(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    firm.persons(&[(1, "Ada"), (2, "Alan"), (3, "Grace")]);
    settle(&mut metadirectory);
    drop(metadirectory);
    // Two are renamed to a name that becomes free, and a new one gets it too.
    firm.persons(&[(1, "Grace"), (2, "Grace"), (3, "Edsger"), (4, "Grace")]);
    // A preview knows no refusals.
    let mut preview = Metadirectory::preview(firm.config(), Box::new(|_| {})).unwrap();
    for (agent, kind) in &DAY[..3] {
        preview.run(Step { agent: *agent, kind: *kind }, &mut |_| true).unwrap();
    }
    drop(preview);
    let mut metadirectory = firm.open();
    let did = attempt(&mut metadirectory);
    assert_eq!(did[2].statistics.of("export-failure"), 2, "{did:?}");
    let entries = firm.entries("employeeNumber");
    assert_eq!((entries.len(), entries.iter().filter(|line| line.starts_with("cn=Grace")).count()), (4, 1));
    // When two of them get other names, all is right after one export.
    firm.persons(&[(1, "Ada"), (2, "Grace"), (3, "Edsger"), (4, "Zoe")]);
    day(&mut metadirectory);
    assert_eq!(firm.entries("employeeNumber"), ["cn=Ada: 1", "cn=Edsger: 3", "cn=Grace: 2", "cn=Zoe: 4"]);
    settle(&mut metadirectory);
}

/// A day that may have failures.
fn attempt(metadirectory: &mut Metadirectory) -> Vec<StepResult> {
    DAY.map(|(agent, kind)| metadirectory.run(Step { agent, kind }, &mut |_| true).unwrap()).into()
}

fn add(session: &mut Session, dn: &str, values: &[(&str, &str)]) {
    let listed: Vec<[ldap::message::Value<'_>; 1]> =
        values.iter().map(|(_, value)| [ldap::message::Value(value.as_bytes())]).collect();
    let attributes: Vec<ldap::message::Attribute<'_>> = values
        .iter()
        .zip(&listed)
        .map(|((name, _), values)| ldap::message::Attribute {
            name,
            values: ldap::message::List::from(values),
        })
        .collect();
    session.add(dn, &attributes).unwrap();
}

/// Exports until a number of commits is reached; returns whether the export was interrupted.
fn interrupted(metadirectory: &mut Metadirectory, commits: usize) -> bool {
    let mut count = 0;
    let step = Step { agent: DIRECTORY, kind: StepKind::Export };
    let ended = metadirectory.run(step, &mut |_| {
        count += 1;
        count < commits
    });
    match ended {
        Ok(result) => assert!(result.failures.is_empty(), "{result:?}"),
        Err(StepError::Interrupted) => {}
        Err(error) => panic!("{error}"),
    }
    count == commits
}

fn an_interrupted_exchange_is_finished_by_the_next_export(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    let before = [(1, "Ada"), (2, "Alan"), (3, "X"), (4, "Y"), (5, "Z"), (6, "Leaver")];
    let after = [(1, "Alan"), (2, "Ada"), (3, "Y"), (4, "Z"), (5, "X"), (7, "Leaver")];
    for with_import in [false, true] {
        let mut commits = 1;
        loop {
            firm.persons(&before);
            settle(&mut metadirectory);
            assert_eq!(firm.entries("employeeNumber").len(), 6);
            firm.persons(&after);
            run(&mut metadirectory, STAFF, StepKind::FullImport);
            run(&mut metadirectory, STAFF, StepKind::DeltaSynchronization);
            let is_interrupted = interrupted(&mut metadirectory, commits);
            drop(metadirectory);
            metadirectory = firm.open();
            if with_import {
                run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
                run(&mut metadirectory, DIRECTORY, StepKind::DeltaSynchronization);
                run(&mut metadirectory, DIRECTORY, StepKind::FullSynchronization);
            }
            run(&mut metadirectory, DIRECTORY, StepKind::Export);
            let now = ["cn=Ada: 2", "cn=Alan: 1", "cn=Leaver: 7", "cn=X: 5", "cn=Y: 3", "cn=Z: 4"];
            assert_eq!(firm.entries("employeeNumber"), now, "{with_import} {commits}");
            run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
            run(&mut metadirectory, DIRECTORY, StepKind::DeltaSynchronization);
            // The value that the directory gives back never was a temporary name.
            let seen = firm.entries("description").concat();
            assert!(!seen.contains("plimsoll"), "{seen}");
            settle(&mut metadirectory);
            assert_eq!(firm.entries("cn")[0], "cn=Ada: Ada");
            if !is_interrupted {
                assert!(commits > 4, "each step is committed: {commits}");
                break;
            }
            commits += 1;
        }
    }
}

/// The directory made the changes of a step, and the process was killed before the store had them.
fn a_step_that_the_store_does_not_know_is_repeated(place: Place) {
    // The state of the store before the step is a copy of its files.
    if place.is_server() {
        return;
    }
    let Some(firm) = Firm::new(place) else { return };
    let folder = firm.place.scratch.path();
    let files = |begin: &str| -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(begin)).collect()
    };
    let copy = |from: &str, to: &str| {
        files(to).iter().for_each(|path| std::fs::remove_file(path).unwrap());
        for path in files(from) {
            let name = path.file_name().unwrap().to_str().unwrap().replace(from, to);
            std::fs::copy(&path, folder.join(name)).unwrap();
        }
    };
    let before = [(1, "Ada"), (2, "Alan"), (3, "X"), (4, "Y"), (5, "Z"), (6, "Leaver"), (8, "Old")];
    let after =
        [(1, "Alan"), (2, "Ada"), (3, "Y"), (4, "Z"), (5, "X"), (7, "Leaver"), (8, "New"), (9, "Old")];
    for with_import in [false, true] {
        for commits in 1.. {
            let mut metadirectory = firm.open();
            firm.persons(&before);
            settle(&mut metadirectory);
            firm.persons(&after);
            run(&mut metadirectory, STAFF, StepKind::FullImport);
            run(&mut metadirectory, STAFF, StepKind::DeltaSynchronization);
            drop(metadirectory);
            copy("store.db", "copy.db");
            let mut metadirectory = firm.open();
            let mut count = 0;
            let ended = metadirectory.run(Step { agent: DIRECTORY, kind: StepKind::Export }, &mut |_| {
                count += 1;
                if count + 1 == commits {
                    copy("store.db", "copy.db");
                }
                count < commits
            });
            drop(metadirectory);
            copy("copy.db", "store.db");
            let mut metadirectory = firm.open();
            if with_import {
                run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
                run(&mut metadirectory, DIRECTORY, StepKind::DeltaSynchronization);
            }
            run(&mut metadirectory, DIRECTORY, StepKind::Export);
            let now = [
                "cn=Ada: 2",
                "cn=Alan: 1",
                "cn=Leaver: 7",
                "cn=New: 8",
                "cn=Old: 9",
                "cn=X: 5",
                "cn=Y: 3",
                "cn=Z: 4",
            ];
            assert_eq!(firm.entries("employeeNumber"), now, "{with_import} {commits}");
            run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
            run(&mut metadirectory, DIRECTORY, StepKind::DeltaSynchronization);
            let seen = firm.entries("description").concat();
            assert!(!seen.contains("plimsoll"), "{seen}");
            settle(&mut metadirectory);
            if ended.is_ok() {
                assert!(commits > 4, "each step is committed: {commits}");
                break;
            }
        }
    }
}

/// Persons with a boss, and a group of them. `names` are those of the boss, of an employee, and of another one.
fn team(firm: &Firm, names: [&str; 3]) {
    let [boss, employee, other] = names;
    firm.staff(&[
        &format!("person,1,{boss},,,"),
        &format!("person,2,{employee},,1,"),
        &format!("person,3,{other},,2,"),
        "group,g,Team,,,1|2",
        "group,h,Board,,,1",
    ]);
}

fn references_after_each_export(firm: &Firm) {
    let mut metadirectory = firm.open();
    let step = |metadirectory: &mut Metadirectory| {
        for (agent, kind) in [
            (STAFF, StepKind::FullImport),
            (STAFF, StepKind::DeltaSynchronization),
            (DIRECTORY, StepKind::Export),
        ] {
            run(metadirectory, agent, kind);
        }
    };
    team(firm, ["Ada", "Alan", "Grace"]);
    settle(&mut metadirectory);
    for names in [["Augusta", "Alan", "Grace"], ["Alan", "Augusta", "Zoe"], ["Zoe", "Alan", "Augusta"]] {
        team(firm, names);
        step(&mut metadirectory);
        let [boss, employee, other] = names;
        let expected = |firm: &Firm| {
            let mut managers = vec![
                "cn=Board: ".to_string(),
                "cn=Team: ".into(),
                format!("cn={boss}: "),
                format!("cn={employee}: cn={boss}"),
                format!("cn={other}: cn={employee}"),
            ];
            managers.sort();
            let mut members = [format!("cn={boss}"), format!("cn={employee}")];
            members.sort();
            let found = firm.entries("member");
            let of = |name: &str| found.iter().find(|line| line.starts_with(name)).unwrap().clone();
            (firm.entries("manager") == managers)
                && of("cn=Board") == format!("cn=Board: cn={boss}")
                && of("cn=Team") == format!("cn=Team: {}", members.join("|"))
        };
        assert!(expected(firm), "{names:?}: {:?} {:?}", firm.entries("manager"), firm.entries("member"));
        // A synchronization before the import that confirms it, and one after it, change nothing.
        for agent in [STAFF, DIRECTORY] {
            run(&mut metadirectory, agent, StepKind::FullSynchronization);
        }
        let did = run(&mut metadirectory, DIRECTORY, StepKind::Export);
        assert_eq!(did.statistics.iter().collect::<Vec<_>>(), [], "{names:?}");
        let did = run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
        assert_eq!(did.statistics.of("exported-change-not-reimported"), 0, "{names:?}: {did:?}");
        run(&mut metadirectory, DIRECTORY, StepKind::DeltaSynchronization);
        settle(&mut metadirectory);
        assert!(expected(firm), "{names:?}");
    }
}

fn references_name_the_new_entry_at_the_end_of_the_export(place: Place) {
    let Some(firm) = Firm::new(place.another()) else { return };
    references_after_each_export(&firm);
    // The only member leaves, and a new one gets the name: the group has the same value for another person.
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    firm.staff(&["person,1,Ada,,,", "person,2,Alan,,1,", "group,g,Team,,,1", "group,h,All,,,1|2"]);
    settle(&mut metadirectory);
    firm.staff(&["person,3,Ada,,,", "person,2,Alan,,3,", "group,g,Team,,,3", "group,h,All,,,2"]);
    let did = one_export(&mut metadirectory);
    assert_eq!(did, [("export-add", 1), ("export-delete", 1), ("export-update", 1)]);
    assert_eq!(firm.entries("manager")[1], "cn=Alan: cn=Ada");
    assert_eq!(firm.entries("member"), ["cn=Ada: ", "cn=Alan: ", "cn=All: cn=Alan", "cn=Team: cn=Ada"]);
    settle(&mut metadirectory);
    // One is renamed, and a new one gets the old name in the groups too.
    firm.staff(&[
        "person,3,Augusta,,,",
        "person,2,Alan,,4,",
        "person,4,Ada,,,",
        "group,g,Team,,,3|4",
        "group,h,All,,,4",
    ]);
    one_export(&mut metadirectory);
    let members =
        |line: &str| firm.entries("member").into_iter().find(|found| found.starts_with(line)).unwrap();
    for _ in 0..2 {
        assert_eq!(members("cn=Team"), "cn=Team: cn=Ada|cn=Augusta");
        assert_eq!(members("cn=All"), "cn=All: cn=Ada");
        assert_eq!(firm.entries("manager")[1], "cn=Alan: cn=Ada");
        settle(&mut metadirectory);
    }
}

/// The overlay changes references by itself, shortly after the rename. What it changed must not be an error.
fn a_server_that_maintains_references_accepts_the_same(place: Place) {
    let refint = "overlay refint\nrefint_attributes member manager\n";
    let Some(firm) = Firm::with(place, refint) else { return };
    let mut metadirectory = firm.open();
    team(&firm, ["Ada", "Alan", "Grace"]);
    settle(&mut metadirectory);
    team(&firm, ["Augusta", "Alan", "Zoe"]);
    one_export(&mut metadirectory);
    settle(&mut metadirectory);
    let managers = ["cn=Alan: cn=Augusta", "cn=Augusta: ", "cn=Board: ", "cn=Team: ", "cn=Zoe: cn=Alan"];
    assert_eq!(firm.entries("manager"), managers);
    assert_eq!(firm.entries("member")[2..4], ["cn=Board: cn=Augusta", "cn=Team: cn=Alan|cn=Augusta"]);
    // In an exchange the server's late change may undo that of the export, which the next day corrects.
    team(&firm, ["Alan", "Augusta", "Zoe"]);
    day(&mut metadirectory);
    day(&mut metadirectory);
    settle(&mut metadirectory);
    let managers = ["cn=Alan: ", "cn=Augusta: cn=Alan", "cn=Board: ", "cn=Team: ", "cn=Zoe: cn=Augusta"];
    assert_eq!(firm.entries("manager"), managers);
    assert_eq!(firm.entries("member")[2..4], ["cn=Board: cn=Alan", "cn=Team: cn=Alan|cn=Augusta"]);
    // A deleted entry leaves the groups by itself, and its name goes to another one.
    firm.staff(&["person,1,Alan,,,", "person,7,Augusta,,1,", "group,g,Team,,,1|7", "group,h,Board,,,1"]);
    day(&mut metadirectory);
    day(&mut metadirectory);
    settle(&mut metadirectory);
    assert_eq!(firm.entries("manager"), ["cn=Alan: ", "cn=Augusta: cn=Alan", "cn=Board: ", "cn=Team: "]);
    assert_eq!(firm.entries("member")[2..], ["cn=Board: cn=Alan", "cn=Team: cn=Alan|cn=Augusta"]);
}

fn a_preview_an_audit_and_an_undo_know_the_final_names(place: Place) {
    let Some(firm) = Firm::new(place) else { return };
    let mut metadirectory = firm.open();
    team(&firm, ["Ada", "Alan", "Grace"]);
    settle(&mut metadirectory);
    drop(metadirectory);
    let before = [firm.entries("employeeNumber"), firm.entries("manager"), firm.entries("member")];
    // Two exchange their names, a new one replaces the third.
    firm.staff(&[
        "person,1,Alan,,,",
        "person,2,Ada,,1,",
        "person,4,Grace,,2,",
        "group,g,Team,,,1|2",
        "group,h,Board,,,1",
    ]);
    let steps = |metadirectory: &mut Metadirectory| -> StepResult {
        run(metadirectory, STAFF, StepKind::FullImport);
        run(metadirectory, STAFF, StepKind::DeltaSynchronization);
        run(metadirectory, DIRECTORY, StepKind::Export)
    };
    let reported = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&reported);
    let report = Box::new(move |difference: Difference| into.lock().unwrap().push(difference.to_string()));
    let mut preview = Metadirectory::preview(firm.config(), report).unwrap();
    let predicted = steps(&mut preview).statistics;
    drop(preview);
    let mut exported: Vec<String> = reported.lock().unwrap().clone();
    exported.retain(|line| line.starts_with("export"));
    exported.sort();
    let begins = ["delete cn=Grace", "add cn=Grace", "update cn=Ada", "update cn=Alan", "update cn=Board"];
    for begin in begins {
        let lines = exported.iter().filter(|line| line.starts_with(&format!("export directory: {begin},")));
        assert!(lines.count() > 0, "{begin}: {exported:?}");
    }
    let board = exported.iter().find(|line| line.contains("cn=Board")).unwrap();
    assert!(board.contains("member: cn=Ada,") && board.contains("-> cn=Alan,"), "{board}");
    assert!(!exported.concat().contains("plimsoll"), "{exported:?}");
    assert_eq!([firm.entries("employeeNumber"), firm.entries("manager"), firm.entries("member")], before);

    let mut metadirectory = firm.open();
    let number = metadirectory.begin_run().unwrap();
    for (agent, kind) in &DAY[..3] {
        let did =
            metadirectory.run_recorded("swap", Step { agent: *agent, kind: *kind }, &mut |_| true).unwrap();
        if *kind == StepKind::Export {
            let predicted = predicted.iter().map(|(what, count)| (what.to_string(), count));
            assert_eq!(did.counters, predicted.collect::<Vec<_>>());
        }
    }
    metadirectory.end_run().unwrap();
    assert_eq!(firm.entries("manager")[1..3], ["cn=Alan: ", "cn=Board: "]);
    let mut names = Vec::new();
    let filter = AuditFilter { run: Some(number), agent: Some(DIRECTORY), ..AuditFilter::default() };
    let mut each = |change: plimsoll_metadir::metadirectory::AuditedChange| {
        names.push(format!("{} {:?}", change.object, change.renamed_to));
        true
    };
    metadirectory.audit(filter, &mut each).unwrap();
    assert!(names.iter().any(|line| line.starts_with("cn=Ada,") && line.contains("cn=Alan,")), "{names:?}");
    assert!(!names.concat().contains("plimsoll"), "{names:?}");
    for (agent, kind) in &DAY[3..] {
        run(&mut metadirectory, *agent, *kind);
    }
    metadirectory.begin_run().unwrap();
    let options = UndoOptions { imports: true, skips_conflicts: false };
    let undone = metadirectory.undo(number, None, options, &mut |_| true).unwrap();
    assert!(undone.steps.iter().all(|step| step.errors.is_empty()), "{undone:?}");
    let after = [firm.entries("employeeNumber"), firm.entries("manager"), firm.entries("member")];
    assert_eq!(after, before, "{undone:?}");
}
