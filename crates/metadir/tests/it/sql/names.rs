//! Keys and unique values that change hands in one export, with SQLite and PostgreSQL.

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};

use super::Base;
use crate::place::{Place, over_both_stores};

over_both_stores! {
    a_new_row_takes_the_key_of_a_deleted_one,
    unique_values_of_deleted_rows_are_given_to_new_ones,
    unique_values_move_along_a_chain_and_in_circles,
    a_unique_value_that_somebody_else_keeps_is_refused,
}

const ACCOUNTS: usize = 0;
const STAFF: usize = 1;

/// A table whose key is the login, or the number of the person.
fn open(base: &Base, anchor: &str, columns: &str) -> Metadirectory {
    base.run(&format!("CREATE TABLE accounts ({columns})"));
    let config = format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 2
[metaverse.person]
attributes = {{ id = "text", login = "text", room = "text" }}
deleted_with = "staff"
[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
[agents.accounts]
type = "sql"
{keys}
table = "accounts"
anchor = "{anchor}"
[[inbound]]
agent = "staff"
to = "person"
project = true
flow = {{ id = "id", login = "login", room = "room" }}
[[outbound]]
agent = "accounts"
from = "person"
dn = "mv.{anchor}"
deprovision = "delete"
flow = {{ id = "id", login = "login", room = "room" }}
[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 100, delete_share = 1.0 }}
export = {{ deletes = 100, delete_share = 1.0 }}
"#,
        store = base.place.keys(),
        keys = base.keys(),
        staff = base.place.scratch.join("staff.csv").display(),
    );
    Metadirectory::open(connectors::parse(&config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

/// Brings a staff file to the table and back; the rows are `id,login,room`.
fn attempt(base: &Base, metadirectory: &mut Metadirectory, rows: &[&str]) -> Vec<StepResult> {
    base.place.scratch.file("staff.csv", format!("id,login,room\n{}\n", rows.join("\n")));
    [
        (STAFF, StepKind::FullImport),
        (STAFF, StepKind::DeltaSynchronization),
        (ACCOUNTS, StepKind::Export),
        (ACCOUNTS, StepKind::FullImport),
        (ACCOUNTS, StepKind::DeltaSynchronization),
    ]
    .map(|(agent, kind)| metadirectory.run(Step { agent, kind }, &mut |_| true).unwrap())
    .into()
}

/// The same without failures; afterwards nothing is to be sent.
fn day(base: &Base, metadirectory: &mut Metadirectory, rows: &[&str]) {
    let did = attempt(base, metadirectory, rows);
    assert!(did.iter().all(|step| step.failures.is_empty()), "{did:?}");
    assert_eq!(did[3].statistics.of("exported-change-not-reimported"), 0, "{did:?}");
    let now = base.rows("SELECT id, login, room FROM accounts ORDER BY id");
    let expected: Vec<String> = rows.iter().map(|row| row.replace(',', "|")).collect();
    assert_eq!(now, expected);
    let did = attempt(base, metadirectory, rows);
    assert_eq!(did[2].statistics.iter().collect::<Vec<_>>(), [], "{did:?}");
}

fn a_new_row_takes_the_key_of_a_deleted_one(place: Place) {
    let base = Base::new(place, "");
    let mut metadirectory =
        open(&base, "login", "login varchar(9) PRIMARY KEY, id text NOT NULL, room text UNIQUE");
    day(&base, &mut metadirectory, &["1,ada,r1", "2,alan,r2", "3,grace,r3", "4,edsger,r4"]);
    day(&base, &mut metadirectory, &["0,grace,r9", "2,alan,r2", "5,ada,r3"]);
    // The row stays, its key and its room go to different ones.
    day(&base, &mut metadirectory, &["0,grace,r2", "5,ada,r9", "6,alan,r3"]);
}

const UNIQUE: [&str; 3] = [
    "id text PRIMARY KEY, login varchar(9) NOT NULL UNIQUE, room text UNIQUE",
    "id integer PRIMARY KEY, login varchar(9) NOT NULL UNIQUE CHECK (length(login) > 2), room integer NOT NULL UNIQUE",
    "id integer PRIMARY KEY, login char(5) NOT NULL, room integer NOT NULL, UNIQUE (login, room), UNIQUE (room)",
];

fn unique_values_of_deleted_rows_are_given_to_new_ones(place: Place) {
    for columns in UNIQUE {
        let base = Base::new(place.another(), "");
        let mut metadirectory = open(&base, "id", columns);
        day(&base, &mut metadirectory, &["1,ada01,11", "2,alan1,12", "3,grace,13", "4,edsge,14"]);
        day(&base, &mut metadirectory, &["2,alan1,12", "5,grace,13", "6,ada01,11", "7,edsge,14"]);
        // One leaves, another one gets the login.
        day(&base, &mut metadirectory, &["2,ada01,12", "5,grace,11", "7,edsge,14"]);
    }
}

fn unique_values_move_along_a_chain_and_in_circles(place: Place) {
    for columns in UNIQUE {
        let base = Base::new(place.another(), "");
        let mut metadirectory = open(&base, "id", columns);
        day(
            &base,
            &mut metadirectory,
            &["1,aaaaa,11", "2,bbbbb,12", "3,ccccc,13", "4,ddddd,14", "5,eeeee,15"],
        );
        // Two exchange theirs, three pass theirs round, a new one gets what is free.
        day(
            &base,
            &mut metadirectory,
            &["1,eeeee,15", "2,ccccc,13", "3,ddddd,14", "4,bbbbb,12", "5,aaaaa,11"],
        );
        day(
            &base,
            &mut metadirectory,
            &["1,fffff,16", "2,eeeee,15", "3,ccccc,13", "4,ddddd,14", "5,bbbbb,12", "6,aaaaa,11"],
        );
        day(
            &base,
            &mut metadirectory,
            &["1,aaaaa,11", "2,bbbbb,12", "3,ccccc,14", "4,ddddd,13", "5,eeeee,15", "6,fffff,16"],
        );
    }
}

fn a_unique_value_that_somebody_else_keeps_is_refused(place: Place) {
    let base = Base::new(place, "");
    let mut metadirectory = open(&base, "id", UNIQUE[0]);
    day(&base, &mut metadirectory, &["1,aaaaa,11", "2,bbbbb,12", "3,ccccc,13", "4,ddddd,14"]);
    base.run("INSERT INTO accounts VALUES ('9', 'taken', '19')");
    // Two exchange theirs, one wants a value that is not given up.
    let did = attempt(&base, &mut metadirectory, &["1,bbbbb,12", "2,aaaaa,11", "3,taken,13", "4,ccccc,14"]);
    let failures: Vec<&str> = did[2].failures.iter().map(|of| of.text.as_str()).collect();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures.iter().all(|why| why.to_lowercase().contains("unique")), "{failures:?}");
    assert_eq!(did[2].statistics.of("export-failure"), 2);
    let now = base.rows("SELECT id, login, room FROM accounts ORDER BY id");
    assert_eq!(now, ["1|bbbbb|12", "2|aaaaa|11", "3|ccccc|13", "4|ddddd|14", "9|taken|19"]);
}
