//! A whole life with real servers: a staff file and a phone book in PostgreSQL fill a directory of OpenLDAP, and days go by in which
//! people change, come and go, units are renamed and moved, and servers fail. In the end the directory is compared with what the
//! persons themselves say that it should hold.

mod days;
mod target;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use ::postgres::{Client, NoTls};
use plimsoll_metadir::config::{Config, Step, StepKind};
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};
use plimsoll_metadir::stage::StepError;
use testkit::slapd::SUFFIX;

use self::days::{COLUMNS, Day, PEOPLE, Phones, Row};
use self::target::Target;
use crate::place::{Place, over_both_stores};
use crate::steps::try_run;

over_both_stores! {
    days_go_by_and_the_directory_holds_what_the_persons_say,
}

// Agents in the order of their names.
const DIRECTORY: usize = 0;
const PHONES: usize = 1;
const STAFF: usize = 2;

type Rows = BTreeMap<String, Row>;

/// The sources, the directory and the metadirectory between them.
struct Company {
    place: Place,
    target: Target,
    phones: Client,
    schema: String,
    /// What the phone book holds.
    book: Phones,
    config: String,
}

const PHONE_BOOK: &str = "
    CREATE TABLE subscriber (employee text PRIMARY KEY, number text NOT NULL, room text);
    CREATE TABLE subscriber_change (n bigserial PRIMARY KEY, employee text, what text);
    CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO subscriber_change (employee, what) VALUES (COALESCE(NEW.employee, OLD.employee), lower(TG_OP));
        RETURN NULL; END $$;
    CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON subscriber FOR EACH ROW EXECUTE FUNCTION changed();";

impl Company {
    fn new(place: Place, target: Target) -> Option<Company> {
        let server = testkit::Postgres::of_process()?.connection();
        let mut phones = Client::connect(&server, NoTls).unwrap();
        // A name that no other test has.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("phones_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        phones
            .batch_execute(&format!("CREATE SCHEMA {schema}; SET search_path = {schema};{PHONE_BOOK}"))
            .unwrap();
        let config = config(&place, &target, &server, &schema);
        // No change yet.
        place.scratch.file("changes.csv", format!("change,{}\n", COLUMNS.join(",")));
        Some(Company { place, target, phones, schema, book: Phones::new(), config })
    }

    fn config(&self) -> Config {
        Config::parse(&self.config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
    }

    fn open(&self) -> Metadirectory {
        Metadirectory::open(self.config()).unwrap()
    }

    fn write(&self, file: &str, rows: &Rows) {
        let mut writer = csv::Writer::from_path(self.place.scratch.join(file)).unwrap();
        writer.write_record(COLUMNS).unwrap();
        rows.values().for_each(|row| writer.write_record(row).unwrap());
        writer.flush().unwrap();
    }

    /// Brings the phone book to what it shall be: how many rows came, changed and went.
    fn telephone(&mut self, wanted: Phones) -> [u64; 3] {
        let mut did = [0; 3];
        let mut transaction = self.phones.transaction().unwrap();
        for (employee, (number, room)) in &wanted {
            let (at, statement) = match self.book.get(employee) {
                None => (0, "INSERT INTO subscriber VALUES ($1, $2, $3)"),
                Some(known) if *known != (number.clone(), room.clone()) => {
                    (1, "UPDATE subscriber SET number = $2, room = $3 WHERE employee = $1")
                }
                Some(_) => continue,
            };
            did[at] += transaction.execute(statement, &[employee, number, room]).unwrap();
        }
        for employee in self.book.keys().filter(|employee| !wanted.contains_key(*employee)) {
            did[2] += transaction.execute("DELETE FROM subscriber WHERE employee = $1", &[employee]).unwrap();
        }
        transaction.commit().unwrap();
        self.book = wanted;
        did
    }

    /// The directory holds what the persons of a day say.
    fn assert_is(&self, day: &Day) {
        self.assert_is_but(day, &[]);
    }

    /// The same but for the entries with these numbers of employees, and who refers to them.
    fn assert_is_but(&self, day: &Day, but: &[&str]) {
        let (mut expected, mut found) = (day.entries(), self.target.entries());
        let names: Vec<String> = expected
            .iter()
            .filter(|(_, entry)| {
                entry.get("employeenumber").is_some_and(|of| but.iter().any(|number| of.contains(*number)))
            })
            .map(|(dn, _)| dn.clone())
            .collect();
        for entries in [&mut expected, &mut found] {
            for name in &names {
                entries.remove(name);
            }
            for entry in entries.values_mut() {
                for attribute in ["manager", "member"] {
                    let left = entry.get_mut(attribute).map(|values| {
                        values.retain(|value| !names.contains(value));
                        values.len()
                    });
                    if left == Some(0) {
                        entry.remove(attribute);
                    }
                }
            }
        }
        let mut told = String::new();
        for dn in expected.keys().chain(found.keys()) {
            let (expected, found) = (expected.get(dn), found.get(dn));
            if expected != found {
                let _ = writeln!(told, "{dn}\n    expected {expected:?}\n    found    {found:?}");
            }
        }
        assert_eq!(told, "");
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        let _ = self.phones.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema));
    }
}

fn config(place: &Place, target: &Target, server: &str, schema: &str) -> String {
    format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 50

[metaverse]
unit = {{ attributes = {{ id = "text", name = "text", above = "text" }}, deleted_with = "staff" }}
group = {{ attributes = {{ id = "text", name = "text", description = "text", members = "reference[]" }}, deleted_with = "staff" }}

[metaverse.person]
deleted_with = "staff"
[metaverse.person.attributes]
id = "text"
uid = "text"
given = "text"
sn = "text"
display = "text"
mail = "text"
title = "text"
department = "text"
division = "text"
city = "text"
telephone = "text"
room = "text"
manager = "reference"

[agents.staff]
type = "delimited"
path = "{staff}"
delta = "{changes}"
anchor = "id"
value_separator = "|"
references = ["manager", "members"]

[agents.phones]
type = "sql"
postgres = "{server}"
schema = "{schema}"
table = "subscriber"
anchor = "employee"
delta = {{ table = "subscriber_change", order_column = "n", overlap = 0 }}

[agents.directory]
type = "ldap"
{target}
base = "{SUFFIX}"
filter = "(|(objectClass=inetOrgPerson)(objectClass=groupOfNames)(businessCategory=unit))"
references = ["manager", "member"]
timeout_s = 60

[[inbound]]
agent = "staff"
objects = "cs.kind == 'unit'"
to = "unit"
project = true
flow = {{ id = "id", name = "name", above = "division" }}

[[inbound]]
agent = "staff"
objects = "cs.kind == 'group'"
to = "group"
project = true
flow = {{ id = "id", name = "name", description = "description", members = "members" }}

[[inbound]]
agent = "staff"
to = "person"
project = true
[inbound.flow]
id = "id"
uid = "uid"
given = "given"
sn = "sn"
display = "display"
mail = "mail"
title = "title"
department = "department"
division = "division"
city = "city"
manager = "manager"
telephone = {{ from = "switchboard", precedence = 2 }}

[[inbound]]
agent = "phones"
to = "person"
join = [{{ cs = "employee", mv = "id" }}]
flow = {{ telephone = {{ from = "number", precedence = 1 }}, room = "room" }}

[[inbound]]
agent = "directory"
objects = "'groupOfNames' in cs.objectClass"
to = "group"
join = [{{ cs = "cn", mv = "name" }}]

[[inbound]]
agent = "directory"
objects = "'organizationalUnit' in cs.objectClass"
to = "unit"
join = [{{ cs = "description", mv = "id" }}]

[[inbound]]
agent = "directory"
to = "person"
join = [{{ cs = "employeeNumber", mv = "id" }}]

[[outbound]]
agent = "directory"
from = "unit"
dn = "rdn('ou', mv.name) + (has(mv.above) ? ',' + rdn('ou', mv.above) : '') + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "organizationalUnit"] }}
businessCategory = {{ constant = "unit" }}
ou = "name"
description = "id"

[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('uid', mv.uid) + ',' + rdn('ou', mv.department) + (has(mv.division) ? ',' + rdn('ou', mv.division) : '') + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
uid = "uid"
cn = "display"
sn = "sn"
givenName = "given"
mail = "mail"
title = "title"
l = "city"
employeeNumber = "id"
telephoneNumber = "telephone"
roomNumber = "room"
manager = "manager"

[[outbound]]
agent = "directory"
from = "group"
dn = "rdn('cn', mv.name) + ',ou=groups,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "groupOfNames"] }}
cn = "name"
description = "description"
member = "members"

[safety]
import = {{ least_share = 0.9 }}
synchronization = {{ deletes = 30 }}
export = {{ deletes = 30 }}
"#,
        store = place.keys(),
        staff = place.scratch.join("staff.csv").display(),
        changes = place.scratch.join("changes.csv").display(),
        target = target.keys(),
    )
}

/// What a step did, by counter.
type Did = BTreeMap<&'static str, u64>;

fn counts(result: &StepResult) -> Did {
    result.statistics.iter().collect()
}

/// Runs a step in which nothing goes wrong.
fn run(directory: &mut Metadirectory, agent: usize, kind: StepKind) -> Did {
    crate::steps::run(directory, agent, kind).into_iter().collect()
}

fn did<const N: usize>(counters: [(&'static str, u64); N]) -> Did {
    counters.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn of(did: &Did, what: &str) -> u64 {
    did.get(what).copied().unwrap_or(0)
}

/// How many objects come, change, stay as they are and go from one state of a source to the next.
fn staged<T: PartialEq>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>) -> Did {
    let in_both = || after.iter().filter_map(|(key, value)| Some((before.get(key)?, value)));
    let changed = in_both().filter(|(before, after)| before != after).count();
    let added = after.keys().filter(|key| !before.contains_key(*key)).count();
    let deleted = before.keys().filter(|key| !after.contains_key(*key)).count();
    did([
        ("stage-add", added as u64),
        ("stage-update", changed as u64),
        ("stage-no-change", (in_both().count() - changed) as u64),
        ("stage-delete", deleted as u64),
    ])
}

/// Everything comes in and goes out once, but is not confirmed yet.
const IN_AND_OUT: [(usize, StepKind); 6] = [
    (STAFF, StepKind::FullImport),
    (PHONES, StepKind::FullImport),
    (DIRECTORY, StepKind::FullImport),
    (STAFF, StepKind::DeltaSynchronization),
    (PHONES, StepKind::DeltaSynchronization),
    (DIRECTORY, StepKind::Export),
];

/// What a preview foretells of each step, and how many changes it tells.
fn preview(company: &Company, steps: &[(usize, StepKind)]) -> (Vec<Did>, usize) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let before = company.target.export();
    let mut directory = Metadirectory::preview(
        company.config(),
        Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }),
    )
    .unwrap();
    let foretold = steps.iter().map(|(agent, kind)| counts(&try_run(&mut directory, *agent, *kind).unwrap()));
    let foretold = foretold.collect();
    assert_eq!(company.target.export(), before, "a preview sends nothing");
    (foretold, told.load(Ordering::Relaxed))
}

/// Sends, confirms and synchronizes until nothing is left to be sent: names that changed are followed by what refers to them once an
/// import has shown them. What each export did.
fn settle(company: &Company, directory: &mut Metadirectory) -> Vec<Did> {
    let mut exports = Vec::new();
    loop {
        let sent = run(directory, DIRECTORY, StepKind::Export);
        if sent.is_empty() {
            return exports;
        }
        exports.push(sent);
        assert!(exports.len() < 5, "{exports:?}");
        let shown = run(directory, DIRECTORY, company.target.confirming());
        assert_eq!(of(&shown, "exported-change-not-reimported"), 0, "{shown:?}");
        run(directory, DIRECTORY, StepKind::DeltaSynchronization);
    }
}

/// A second pass over everything changes nothing, whatever the kind of its steps.
fn nothing_is_left(directory: &mut Metadirectory) {
    let quiet = ["stage-no-change", "connector-no-flow", "disconnector-remains"];
    for (import, synchronization) in [
        (StepKind::FullImport, StepKind::FullSynchronization),
        (StepKind::DeltaImport, StepKind::DeltaSynchronization),
    ] {
        for agent in [STAFF, PHONES, DIRECTORY] {
            for kind in [import, synchronization, StepKind::Export] {
                if kind != StepKind::Export || agent == DIRECTORY {
                    let did = run(directory, agent, kind);
                    assert!(did.keys().all(|what| quiet.contains(what)), "{agent} {kind:?}: {did:?}");
                }
            }
        }
    }
}

fn days_go_by_and_the_directory_holds_what_the_persons_say(place: Place) {
    let Some(target) = Target::open_ldap() else { return };
    let Some(mut company) = Company::new(place, target) else { return };
    let monday = Day::new(0);
    first_load(&mut company, &monday);
    sources_and_thresholds_that_stop(&mut company, &monday);
    let tuesday = Day::new(1);
    let refused = a_target_that_fails(&mut company, &monday, &tuesday);
    put_right(&company, &tuesday, &refused);
    let wednesday = Day::new(2);
    a_day_of_deltas(&mut company, &tuesday, &wednesday);
    delta_equals_full_from_scratch(&mut company, &wednesday);
}

/// The same days with 389 Directory Server, without the failures.
#[test]
fn days_go_by_with_389_directory_server() {
    let Some(target) = Target::dirsrv() else { return };
    let Some(mut company) = Company::new(Place::sqlite(), target) else { return };
    let days = [0, 1, 2].map(Day::new);
    first_load(&mut company, &days[0]);
    for day in &days[1..] {
        company.write("staff.csv", &day.rows());
        company.telephone(day.phones());
        let mut directory = company.open();
        for (agent, kind) in &IN_AND_OUT[..5] {
            run(&mut directory, *agent, *kind);
        }
        settle(&company, &mut directory);
        company.assert_is(day);
        nothing_is_left(&mut directory);
    }
}

fn first_load(company: &mut Company, monday: &Day) {
    let rows = monday.rows();
    company.write("staff.csv", &rows);
    let [listed, ..] = company.telephone(monday.phones());
    let all = rows.len() as u64;
    assert!(monday.entries().len() as u64 == all && listed < PEOPLE);

    let (foretold, told) = preview(company, &IN_AND_OUT);
    let mut directory = company.open();
    let done: Vec<Did> = IN_AND_OUT.iter().map(|(agent, kind)| run(&mut directory, *agent, *kind)).collect();
    assert_eq!(foretold, done);
    assert_eq!(done[..3], [did([("stage-add", all)]), did([("stage-add", listed)]), Did::new()]);
    let managers = rows.values().filter(|row| !row[11].is_empty()).count();
    let groups = rows.values().filter(|row| !row[15].is_empty()).count();
    let referring = (managers + groups) as u64;
    assert_eq!(
        done[3],
        did([("disconnector-projected", all), ("provisioned-add", all), ("outbound-references", referring),])
    );
    assert_eq!(done[4], did([("disconnector-joined", listed), ("outbound-flow", listed)]));
    // Whole at once, though groups stand above their members and people above those who lead them.
    assert_eq!(done[5], did([("export-add", all)]));
    // What comes in, what the metaverse wins and what goes out.
    assert!(told as u64 >= 3 * all, "{told}");
    // Nothing is taken for granted before an import shows it.
    assert_eq!(directory.status().unwrap().0[DIRECTORY].1.pending_exports, all);
    let shown = run(&mut directory, DIRECTORY, StepKind::DeltaImport);
    assert_eq!(shown, did([("confirmed", all), ("stage-update", all)]));
    let taken = run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(taken, did([("connector-no-flow", all)]));
    assert_eq!(settle(company, &mut directory), Vec::<Did>::new());
    company.assert_is(monday);
    nothing_is_left(&mut directory);
    company.assert_is(monday);
}

/// A step that ends before its work is done, and why.
fn stopped(directory: &mut Metadirectory, agent: usize, kind: StepKind) -> StepError {
    try_run(directory, agent, kind).unwrap_err()
}

fn sources_and_thresholds_that_stop(company: &mut Company, monday: &Day) {
    let rows = monday.rows();
    let mut directory = company.open();
    // A staff file without people, then half a file, then none: nobody goes.
    company.write("staff.csv", &Rows::new());
    let why = stopped(&mut directory, STAFF, StepKind::FullImport);
    assert!(matches!(&why, StepError::Threshold(told) if told.contains("0 objects")), "{why}");
    company.write("staff.csv", &rows);
    let whole = company.place.scratch.text("staff.csv");
    company.place.scratch.file("staff.csv", &whole[..whole.len() / 2]);
    match try_run(&mut directory, STAFF, StepKind::FullImport) {
        Err(why) => assert!(matches!(why, StepError::Threshold(_)), "{why}"),
        // Half a line is told with its place.
        Ok(result) => {
            let [error] = result.discovery_errors.as_slice() else { panic!("{result:?}") };
            assert!(error.place.starts_with("line ") && error.kind == "parse-error", "{error:?}");
            assert_eq!(result.outcome(), "completed-discovery-errors");
        }
    }
    std::fs::remove_file(company.place.scratch.join("staff.csv")).unwrap();
    let why = stopped(&mut directory, STAFF, StepKind::FullImport);
    assert!(why.to_string().contains("staff.csv"), "{why}");
    company.write("staff.csv", &rows);
    // A phone book that lost its rows, or is not there.
    company.phones.batch_execute("ALTER TABLE subscriber RENAME TO kept").unwrap();
    let why = stopped(&mut directory, PHONES, StepKind::FullImport);
    assert!(matches!(why, StepError::Agent(_)) && why.to_string().contains("subscriber"), "{why}");
    company.phones.batch_execute("CREATE TABLE subscriber (LIKE kept)").unwrap();
    let why = stopped(&mut directory, PHONES, StepKind::FullImport);
    assert!(matches!(why, StepError::Threshold(_)), "{why}");
    company.phones.batch_execute("DROP TABLE subscriber; ALTER TABLE kept RENAME TO subscriber").unwrap();
    // A delta that says that everybody is gone: it is known, and stops before it takes anything away.
    let listed = company.telephone(Phones::new())[2];
    assert_eq!(run(&mut directory, PHONES, StepKind::DeltaImport), did([("stage-delete", listed)]));
    let why = stopped(&mut directory, PHONES, StepKind::DeltaSynchronization);
    assert!(
        matches!(&why, StepError::Threshold(told) if told.contains(&format!("{listed} objects"))),
        "{why}"
    );
    company.telephone(monday.phones());
    assert_eq!(run(&mut directory, PHONES, StepKind::DeltaImport), did([("stage-update", listed)]));
    nothing_is_left(&mut directory);
    company.assert_is(monday);
}

/// The cell of a row with a mail address that the schema of the directory refuses.
fn spoil(row: &mut Row) {
    row[6] = row[6].replace('@', "ü@");
}

/// Those who came, and those who changed and stayed where they are, one of each: the directory is made to refuse them.
fn to_be_refused(monday: &Day, tuesday: &Day) -> [String; 2] {
    let (before, after) = (monday.rows(), tuesday.rows());
    let is_person = |row: &Row| row[0] == "person";
    let mut came = after.iter().filter(|(id, row)| is_person(row) && !before.contains_key(*id));
    let stayed = after.iter().filter(|(id, row)| is_person(row) && before.get(*id) == Some(row));
    // One who leads others, and one who came last.
    let leads = |id: &str| after.values().any(|row| row[11] == id);
    let leader = stayed.map(|(id, _)| id).find(|id| leads(id)).unwrap();
    [came.next_back().unwrap().0.clone(), leader.clone()]
}

fn a_target_that_fails(company: &mut Company, monday: &Day, tuesday: &Day) -> [String; 2] {
    let refused = to_be_refused(monday, tuesday);
    let (before, mut rows) = (monday.rows(), tuesday.rows());
    for id in &refused {
        spoil(rows.get_mut(id).unwrap());
    }
    company.write("staff.csv", &rows);
    let book = company.book.clone();
    let telephoned = company.telephone(tuesday.phones());
    let staged_phones = staged(&book, &company.book);
    assert_eq!(
        telephoned,
        ["stage-add", "stage-update", "stage-delete"].map(|what| of(&staged_phones, what))
    );
    let staged_rows = staged(&before, &rows);
    let [came, gone] = ["stage-add", "stage-delete"].map(|what| of(&staged_rows, what));
    assert!(came > 3 && gone > 3 && of(&staged_rows, "stage-update") > 20, "{staged_rows:?}");

    let (foretold, _) = preview(company, &IN_AND_OUT);
    // Few may go: the synchronization stops before the first.
    let mut config = company.config();
    config.safety.synchronization_deletes.count = 2;
    let mut directory = Metadirectory::open(config).unwrap();
    assert_eq!(run(&mut directory, STAFF, StepKind::FullImport), staged_rows);
    assert_eq!(foretold[0], staged_rows);
    let phones = run(&mut directory, PHONES, StepKind::DeltaImport);
    // A delta names what changed and nothing else.
    let without_others: Did =
        staged_phones.clone().into_iter().filter(|(what, _)| *what != "stage-no-change").collect();
    assert_eq!((phones, &foretold[1]), (without_others, &staged_phones));
    for _ in 0..2 {
        let why = stopped(&mut directory, STAFF, StepKind::DeltaSynchronization);
        assert!(
            matches!(&why, StepError::Threshold(told) if told.contains(&format!("{gone} objects"))),
            "{why}"
        );
    }
    drop(directory);
    let mut config = company.config();
    config.safety.export_deletes.count = 2;
    let mut directory = Metadirectory::open(config).unwrap();
    let done = run(&mut directory, STAFF, StepKind::DeltaSynchronization);
    let [deleted, provisioned] = ["metaverse-delete", "provisioned-delete"].map(|what| of(&done, what));
    assert_eq!((deleted, provisioned), (gone, gone), "{done:?}");
    run(&mut directory, PHONES, StepKind::DeltaSynchronization);
    // Few may be deleted: nothing at all is sent.
    let untouched = company.target.export();
    let why = stopped(&mut directory, DIRECTORY, StepKind::Export);
    assert!(matches!(&why, StepError::Threshold(told) if told.contains(&format!("{gone} objects"))), "{why}");
    assert_eq!(company.target.export(), untouched);
    drop(directory);

    // The server answers nothing any more; then it is gone after the first batch.
    let impatient = company.config.replace("timeout_s = 60", "timeout_s = 1");
    let mut directory = Metadirectory::open(Config::parse(&impatient).unwrap()).unwrap();
    company.target.slapd().pause();
    let why = stopped(&mut directory, DIRECTORY, StepKind::Export);
    assert!(matches!(why, StepError::Agent(_)) && why.to_string().contains("127.0.0.1"), "{why}");
    company.target.slapd().resume();
    drop(directory);
    let mut directory = company.open();
    let slapd = company.target.slapd();
    let mut batches = 0;
    let why = directory
        .run(Step { agent: DIRECTORY, kind: StepKind::Export }, &mut |_| {
            batches += 1;
            if batches == 1 {
                slapd.kill();
            }
            true
        })
        .unwrap_err();
    assert!(matches!(why, StepError::Agent(_)), "{why}");
    assert!(batches < 5, "{batches}");
    // What cannot be reached is no empty directory.
    let why = stopped(&mut directory, DIRECTORY, StepKind::FullImport);
    assert!(matches!(why, StepError::Agent(_)), "{why}");
    company.target.slapd().start_again();
    // The metadirectory was closed in between.
    drop(directory);
    let mut directory = company.open();
    let told = try_run(&mut directory, DIRECTORY, StepKind::Export).unwrap();
    assert_eq!(told.outcome(), "completed-export-errors");
    assert_refused(&told, &refused, &rows);
    assert_eq!(of(&counts(&told), "export-delete"), gone, "{told:?}");
    refused
}

/// What was refused, and nothing else, is told with the name of the entry and the words of the server.
fn assert_refused(told: &StepResult, refused: &[String], rows: &Rows) {
    assert_eq!((told.failures.len(), told.statistics.of("export-failure")), (refused.len(), 2), "{told:?}");
    for id in refused {
        let uid = format!("uid={},", rows[id][2]);
        let of_it = |(dn, why): &&(String, String)| {
            dn.starts_with(&uid) && why.contains("mail") && why.contains("invalidAttributeSyntax (21)")
        };
        assert_eq!(told.failures.iter().filter(of_it).count(), 1, "{uid} {told:?}");
    }
}

fn put_right(company: &Company, tuesday: &Day, refused: &[String; 2]) {
    let mut rows = tuesday.rows();
    let mut directory = company.open();
    // Everything but what was refused arrives, whatever waits for it; each time the same two are told.
    for id in refused {
        spoil(rows.get_mut(id).unwrap());
    }
    for _ in 0..3 {
        run(&mut directory, DIRECTORY, StepKind::DeltaImport);
        run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
        let told = try_run(&mut directory, DIRECTORY, StepKind::Export).unwrap();
        assert_refused(&told, refused, &rows);
    }
    let names: Vec<&str> = refused.iter().map(String::as_str).collect();
    company.assert_is_but(tuesday, &names);
    let (status, _) = directory.status().unwrap();
    assert_eq!(status[DIRECTORY].1.failures, 2);
    // With their values put right they arrive, and with them what referred to them.
    company.write("staff.csv", &tuesday.rows());
    let done = run(&mut directory, STAFF, StepKind::FullImport);
    assert_eq!(of(&done, "stage-update"), 2, "{done:?}");
    run(&mut directory, STAFF, StepKind::DeltaSynchronization);
    settle(company, &mut directory);
    company.assert_is(tuesday);
    nothing_is_left(&mut directory);
    assert_eq!(directory.status().unwrap().0[DIRECTORY].1.failures, 0);
}

/// Only deltas: a file of changes, a table of changes, a content synchronization.
fn a_day_of_deltas(company: &mut Company, tuesday: &Day, wednesday: &Day) {
    let (before, after) = (tuesday.rows(), wednesday.rows());
    company.write("staff.csv", &after);
    let mut writer = csv::Writer::from_path(company.place.scratch.join("changes.csv")).unwrap();
    writer.write_record(["change"].iter().chain(&COLUMNS)).unwrap();
    for (id, row) in &after {
        if before.get(id) != Some(row) {
            let change = if before.contains_key(id) { "update" } else { "add" };
            writer.write_record(std::iter::once(change).chain(row.iter().map(String::as_str))).unwrap();
        }
    }
    for (_, row) in before.iter().filter(|(id, _)| !after.contains_key(*id)) {
        writer.write_record(std::iter::once("delete").chain(row.iter().map(String::as_str))).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let book = company.book.clone();
    company.telephone(wednesday.phones());
    let changed = |mut staged: Did| {
        staged.remove("stage-no-change");
        staged
    };
    let staff = changed(staged(&before, &after));
    let mut directory = company.open();
    assert_eq!(run(&mut directory, STAFF, StepKind::DeltaImport), staff);
    assert_eq!(run(&mut directory, PHONES, StepKind::DeltaImport), changed(staged(&book, &company.book)));
    for agent in [STAFF, PHONES] {
        run(&mut directory, agent, StepKind::DeltaSynchronization);
    }
    let exports = settle(company, &mut directory);
    let sent = |what| exports.iter().map(|sent| of(sent, what)).sum::<u64>();
    assert_eq!(
        (sent("export-add"), sent("export-delete")),
        (of(&staff, "stage-add"), of(&staff, "stage-delete")),
        "{exports:?}"
    );
    company.assert_is(wednesday);
    nothing_is_left(&mut directory);
    company.assert_is(wednesday);
    let history = directory.history(1000).unwrap();
    assert!(history.is_empty(), "only recorded runs are kept: {}", history.len());
}

fn delta_equals_full_from_scratch(company: &mut Company, wednesday: &Day) {
    // A metadirectory whose store was lost: what it would make is there already, and nothing is sent.
    let place = company.place.another();
    let config = company.config.replace(&company.place.keys(), &place.keys());
    assert_ne!(config, company.config);
    let mut directory = Metadirectory::open(Config::parse(&config).unwrap()).unwrap();
    for agent in [STAFF, PHONES, DIRECTORY] {
        run(&mut directory, agent, StepKind::FullImport);
        run(&mut directory, agent, StepKind::FullSynchronization);
    }
    assert_eq!(run(&mut directory, DIRECTORY, StepKind::Export), Did::new());
    nothing_is_left(&mut directory);
    drop(directory);
    // And an empty directory, filled at once, holds what days of changes have made of this one.
    let fresh = Target::open_ldap().and_then(|target| Company::new(company.place.another(), target));
    let Some(mut fresh) = fresh else { return };
    fresh.write("staff.csv", &wednesday.rows());
    fresh.telephone(wednesday.phones());
    let mut directory = fresh.open();
    for (agent, kind) in IN_AND_OUT {
        run(&mut directory, agent, kind);
    }
    assert_eq!(fresh.target.entries(), company.target.entries());
    fresh.assert_is(wednesday);
}
