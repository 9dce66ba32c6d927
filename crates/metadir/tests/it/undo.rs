//! Takes back runs that exported to databases and to a SCIM service, and compares their contents.

use std::fs;

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{Conflict, Metadirectory, UndoError, UndoOptions};
use serde_json::Value;

use crate::place::{Place, over_both_stores};
use crate::scim::{Office, STAFF};
use crate::sql::Base;
use crate::trail::{run_of, undo};

over_both_stores! {
    rows_and_their_members_are_restored,
    rows_that_others_changed_are_a_conflict,
    what_no_import_has_shown_is_restored,
}

// Indexes of the agents, which are sorted by name.
const HR: usize = 0;
const PEOPLE: usize = 1;

const TABLES: &str = "CREATE TABLE people (id varchar(9) PRIMARY KEY, name varchar(20) UNIQUE, size integer,
        manager varchar(9), note varchar(9));
    CREATE TABLE mails (id varchar(9), mail varchar(20), PRIMARY KEY (id, mail));
    CREATE TABLE deputies (id varchar(9), deputy varchar(9), PRIMARY KEY (id, deputy));";

/// What others write into the tables, where no rule writes.
const OF_OTHERS: &str = "UPDATE people SET note = 'desk ' || id;";

const HEAD: &str = "id,name,size,mails,manager,deputies\n";
const BEFORE: &str = "1,Ada,7,a@x;b@x,,2;3\n2,Alan,8,,1,1\n3,Grace,,g@x,1,\n4,Edsger,4,e@x,3,\n";
/// Values and references changed, removed and added, one person gone and another one new.
const WRONG: &str = "1,Augusta,,b@x;c@x,2,4\n2,Alan,9,z@x,,1;5\n4,Edsger,4,,5,1\n5,Tim,1,t@x,1,4\n";

struct Company {
    base: Base,
}

impl Company {
    fn new(place: Place) -> Company {
        Company { base: Base::new(place, TABLES) }
    }

    fn staff(&self, lines: &str) {
        fs::write(self.base.place.scratch.join("hr.csv"), format!("{HEAD}{lines}")).unwrap();
    }

    fn open(&self) -> Metadirectory {
        let config = format!(
            r#"
[store]
{store}
durability = "off"
commit_objects = 3
[metaverse.person]
attributes = {{ id = "text", name = "text", size = "text", mails = "text[]", manager = "reference", deputies = "reference[]" }}
deleted_with = "hr"
[agents.hr]
type = "delimited"
path = "{hr}"
anchor = "id"
value_separator = ";"
references = ["manager", "deputies"]
[agents.people]
type = "sql"
{keys}
table = "people"
anchor = "id"
values = [
    {{ table = "mails", key = "id", column = "mail" }},
    {{ table = "deputies", key = "id", column = "deputy" }},
]
references = ["manager", "deputy"]
[[inbound]]
agent = "hr"
to = "person"
project = true
flow = {{ id = "id", name = "name", size = "size", mails = "mails", manager = "manager", deputies = "deputies" }}
[[inbound]]
agent = "people"
to = "person"
join = [{{ cs = "id", mv = "id" }}]
[[outbound]]
agent = "people"
from = "person"
dn = "mv.id"
deprovision = "delete"
flow = {{ id = "id", name = "name", size = "size", mail = "mails", manager = "manager", deputy = "deputies" }}
"#,
            store = self.base.place.keys(),
            keys = self.base.keys(),
            hr = self.base.place.scratch.join("hr.csv").display(),
        );
        Metadirectory::open(connectors::parse(&config).unwrap()).unwrap()
    }

    fn contents(&self) -> Vec<String> {
        let queries = [
            "SELECT 'person', people.* FROM people ORDER BY id",
            "SELECT 'mail', mails.* FROM mails ORDER BY id, mail",
            "SELECT 'deputy', deputies.* FROM deputies ORDER BY id, deputy",
        ];
        queries.iter().flat_map(|query| self.base.rows(query)).collect()
    }

    /// Exports the first state, to which others add values, and then a wrong one. Returns the contents before the wrong
    /// run, and its number.
    fn wrong_run(&self, directory: &mut Metadirectory) -> (Vec<String>, u64) {
        self.staff(BEFORE);
        run_of(directory, &DAY);
        run_of(directory, &CONFIRM);
        self.base.run(OF_OTHERS);
        run_of(directory, &CONFIRM);
        let before = self.contents();
        assert_eq!(before.len(), 4 + 4 + 3, "{before:?}");
        self.staff(WRONG);
        let wrong = run_of(directory, &DAY);
        assert!(self.contents().contains(&"person|5|Tim|1|1|NULL".to_string()), "{:?}", self.contents());
        (before, wrong)
    }
}

const DAY: [(usize, StepKind); 3] =
    [(HR, StepKind::FullImport), (HR, StepKind::DeltaSynchronization), (PEOPLE, StepKind::Export)];
const CONFIRM: [(usize, StepKind); 2] =
    [(PEOPLE, StepKind::FullImport), (PEOPLE, StepKind::DeltaSynchronization)];

fn rows_and_their_members_are_restored(place: Place) {
    let company = Company::new(place);
    let mut directory = company.open();
    let (before, wrong) = company.wrong_run(&mut directory);
    let after = company.contents();
    let undone = undo(&mut directory, wrong);
    assert_eq!(undone.conflicts, []);
    assert_eq!(company.contents(), before);
    // The rules want the wrong values still: nothing is sent again, after any synchronization.
    for kind in [StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
        run_of(&mut directory, &CONFIRM);
        run_of(&mut directory, &[(HR, kind), (PEOPLE, kind), (PEOPLE, StepKind::Export)]);
        assert_eq!(company.contents(), before);
    }
    // Released, it is sent again. Grace left, so no rule decides about her row: she stays.
    let of_grace = |row: &&String| row.split('|').nth(1) == Some("3");
    let mut expected: Vec<String> = before.iter().filter(of_grace).cloned().chain(after).collect();
    expected.sort();
    directory.release_undo(wrong).unwrap();
    run_of(&mut directory, &[(PEOPLE, StepKind::Export)]);
    let mut contents = company.contents();
    contents.sort();
    assert_eq!(contents, expected);
    // With the right source, the first state is left.
    company.staff(BEFORE);
    run_of(&mut directory, &CONFIRM);
    run_of(&mut directory, &DAY);
    assert_eq!(company.contents(), before);
}

fn rows_that_others_changed_are_a_conflict(place: Place) {
    let company = Company::new(place);
    let mut directory = company.open();
    let (before, wrong) = company.wrong_run(&mut directory);
    company.base.run("UPDATE people SET size = 70 WHERE id = '2'; INSERT INTO deputies VALUES ('5', '2');");
    let options = |skips_conflicts| UndoOptions { imports: true, skips_conflicts };
    directory.begin_run().unwrap();
    let changed = company.contents();
    let error = directory.undo(wrong, None, options(false), &mut |_| true).unwrap_err();
    let UndoError::Conflicts(conflicts) = error else { panic!("{error}") };
    let shown = |of: &Conflict| format!("{} {:?}", of.object, of.attribute.as_deref());
    let mut all: Vec<String> = conflicts.iter().map(shown).collect();
    all.sort();
    assert_eq!(all, ["2 Some(\"size\")", "5 Some(\"deputy\")"], "{conflicts:?}");
    assert_eq!(company.contents(), changed);
    directory.undo(wrong, None, options(true), &mut |_| true).unwrap();
    // What others changed is left, and so is the person who was added and then changed.
    let mut expected: Vec<String> =
        before.into_iter().map(|row| row.replace("person|2|Alan|8|", "person|2|Alan|70|")).collect();
    expected.extend(changed.into_iter().filter(|row| row.split('|').nth(1) == Some("5")));
    expected.sort();
    let mut contents = company.contents();
    contents.sort();
    assert_eq!(contents, expected);
}

fn what_no_import_has_shown_is_restored(place: Place) {
    let company = Company::new(place);
    let mut directory = company.open();
    company.staff(BEFORE);
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    // The last import shows values that two runs change since: Ada and Alan get other values, Grace is deleted with what
    // the first run sent, Tim is added by it and changed by the second one.
    company.staff(
        "1,Augusta,9,a@x;b@x,2,2;3\n2,Alan,,z@x,1,\n3,Hopper,3,g@x,2,1;2\n4,Edsger,4,e@x,3,\n5,Tim,1,t@x,1,4\n",
    );
    run_of(&mut directory, &DAY);
    let before = company.contents();
    company.staff("1,Ada L.,,c@x,,3\n2,Alan,10,,4,1\n4,Edsger,4,e@x,,\n5,Tim Lee,,u@x,2,1\n");
    let second = run_of(&mut directory, &DAY);
    assert_ne!(company.contents(), before);
    assert_eq!(undo(&mut directory, second).conflicts, []);
    assert_eq!(company.contents(), before);
}

/// The users of a service without what it assigns itself.
fn users(office: &Office) -> Vec<Value> {
    let mut users = office.users();
    for user in &mut users {
        for own in ["id", "meta"] {
            user.as_object_mut().unwrap().remove(own).unwrap();
        }
    }
    users
}

#[test]
fn users_of_a_service_are_restored() {
    for settings in ["", "update = \"put\"", "bulk = 3", "anchor = \"userName\""] {
        let office = Office::new(settings);
        let mut directory = office.open();
        let (hr, service) = (crate::scim::HR, crate::scim::SERVICE);
        let day =
            [(hr, StepKind::FullImport), (hr, StepKind::DeltaSynchronization), (service, StepKind::Export)];
        let confirm = [(service, StepKind::FullImport), (service, StepKind::DeltaSynchronization)];
        run_of(&mut directory, &day);
        run_of(&mut directory, &confirm);
        let before = users(&office);
        assert_eq!(before.len(), 5);
        // Values changed, removed and added, one user gone, another one new, and another login.
        let login = if settings.contains("userName") { "alan" } else { "turing" };
        office.staff(
            &STAFF
                .replace("2,alan,Alan,Turing,alan@plim.example,,", &format!("2,{login},Al,Turing,,Reader,"))
                .replace("ada@plim.example,Countess", "x@plim.example,")
                .replace(
                    "3,grace,Grace,Hopper,grace@plim.example,Admiral,Compilers,active\n",
                    "6,tim,Tim,Lee,tim@plim.example,,Webs,active\n",
                ),
        );
        let wrong = run_of(&mut directory, &day);
        let names: Vec<Value> = office.users().iter().map(|user| user["userName"].clone()).collect();
        assert_eq!(names.len(), 5, "{settings}: {names:?}");
        assert!(names.contains(&login.into()) && names.contains(&"tim".into()), "{settings}: {names:?}");
        let undone = undo(&mut directory, wrong);
        assert_eq!(undone.conflicts, [], "{settings}");
        assert_eq!(users(&office), before, "{settings}");
        // Nothing is sent again.
        run_of(&mut directory, &confirm);
        run_of(&mut directory, &day);
        assert_eq!(users(&office), before, "{settings}");
    }
}
