//! A whole life cycle with real servers: a staff file and a phone book in PostgreSQL are exported to an
//! OpenLDAP directory. Over several days people change, join and leave, units are renamed and moved, and
//! servers fail. At the end, the directory is compared with the expected contents that the persons define.

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
use plimsoll_metadir::store::ObjectError;

use crate::place::{Place, over_both_stores};
use crate::steps::try_run;

over_both_stores! {
    days_go_by_and_the_directory_holds_what_the_persons_say,
}

// Indexes of the agents, which are sorted by name.
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
    /// The contents of the phone book.
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
        // A name that no other test uses.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("phones_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        phones
            .batch_execute(&format!("CREATE SCHEMA {schema}; SET search_path = {schema};{PHONE_BOOK}"))
            .unwrap();
        let config = config(&place, &target, &server, &schema);
        // No changes yet.
        place.scratch.file("changes.csv", format!("change,{}\n", COLUMNS.join(",")));
        Some(Company { place, target, phones, schema, book: Phones::new(), config })
    }

    fn config(&self) -> Config {
        connectors::parse(&self.config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
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

    /// Updates the phone book; returns the number of added, changed and deleted rows.
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

    /// Checks that the directory has the expected contents of a day.
    fn assert_is(&self, day: &Day) {
        self.assert_is_but(day, &[]);
    }

    /// The same, except for the entries with these employee numbers and the entries that refer to them.
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
        let mut reported = String::new();
        for dn in expected.keys().chain(found.keys()) {
            let (expected, found) = (expected.get(dn), found.get(dn));
            if expected != found {
                let _ = writeln!(reported, "{dn}\n    expected {expected:?}\n    found    {found:?}");
            }
        }
        assert_eq!(reported, "");
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

/// The counters of a step.
type Did = BTreeMap<&'static str, u64>;

fn counts(result: &StepResult) -> Did {
    result.statistics.iter().collect()
}

/// Runs a step that must succeed.
fn run(directory: &mut Metadirectory, agent: usize, kind: StepKind) -> Did {
    crate::steps::run(directory, agent, kind).into_iter().collect()
}

fn did<const N: usize>(counters: [(&'static str, u64); N]) -> Did {
    counters.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn of(did: &Did, what: &str) -> u64 {
    did.get(what).copied().unwrap_or(0)
}

/// The number of added, changed, unchanged and deleted objects between two states of a source.
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

/// Everything is imported and exported once, but not confirmed yet.
const IN_AND_OUT: [(usize, StepKind); 6] = [
    (STAFF, StepKind::FullImport),
    (PHONES, StepKind::FullImport),
    (DIRECTORY, StepKind::FullImport),
    (STAFF, StepKind::DeltaSynchronization),
    (PHONES, StepKind::DeltaSynchronization),
    (DIRECTORY, StepKind::Export),
];

/// The counters that a preview predicts for each step, and the number of changes that it reports.
fn preview(company: &Company, steps: &[(usize, StepKind)]) -> (Vec<Did>, usize) {
    let reported = Arc::new(AtomicUsize::new(0));
    let count = reported.clone();
    let before = company.target.export();
    let mut directory = Metadirectory::preview(
        company.config(),
        Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }),
    )
    .unwrap();
    let predicted =
        steps.iter().map(|(agent, kind)| counts(&try_run(&mut directory, *agent, *kind).unwrap()));
    let predicted = predicted.collect();
    assert_eq!(company.target.export(), before, "a preview sends nothing");
    (predicted, reported.load(Ordering::Relaxed))
}

/// Exports, confirms and synchronizes until nothing is pending: references follow renames once an import has
/// shown them. Returns the result of each export.
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

/// Checks that a second pass over everything changes nothing, for all kinds of steps.
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

    let (predicted, reported) = preview(company, &IN_AND_OUT);
    let mut directory = company.open();
    let done: Vec<Did> = IN_AND_OUT.iter().map(|(agent, kind)| run(&mut directory, *agent, *kind)).collect();
    assert_eq!(predicted, done);
    assert_eq!(done[..3], [did([("stage-add", all)]), did([("stage-add", listed)]), Did::new()]);
    let managers = rows.values().filter(|row| !row[11].is_empty()).count();
    let groups = rows.values().filter(|row| !row[15].is_empty()).count();
    let referring = (managers + groups) as u64;
    assert_eq!(
        done[3],
        did([("disconnector-projected", all), ("provisioned-add", all), ("outbound-references", referring),])
    );
    assert_eq!(done[4], did([("disconnector-joined", listed), ("outbound-flow", listed)]));
    // All at once, although groups are above their members and people above their managers.
    assert_eq!(done[5], did([("export-add", all)]));
    // The imported objects, the metaverse objects and the exported objects.
    assert!(reported as u64 >= 3 * all, "{reported}");
    // Everything remains pending until an import confirms it.
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

/// The error of a step that ends early.
fn stopped(directory: &mut Metadirectory, agent: usize, kind: StepKind) -> StepError {
    try_run(directory, agent, kind).unwrap_err()
}

fn sources_and_thresholds_that_stop(company: &mut Company, monday: &Day) {
    let rows = monday.rows();
    let mut directory = company.open();
    // A staff file without people, then half a file, then none: nobody is deleted.
    company.write("staff.csv", &Rows::new());
    let why = stopped(&mut directory, STAFF, StepKind::FullImport);
    assert!(matches!(&why, StepError::Threshold(reported) if reported.contains("found 0 of the")), "{why}");
    company.write("staff.csv", &rows);
    let whole = company.place.scratch.text("staff.csv");
    company.place.scratch.file("staff.csv", &whole[..whole.len() / 2]);
    match try_run(&mut directory, STAFF, StepKind::FullImport) {
        Err(why) => assert!(matches!(why, StepError::Threshold(_)), "{why}"),
        // Half a line is reported with its place.
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
    // A phone book that lost its rows, or is missing.
    company.phones.batch_execute("ALTER TABLE subscriber RENAME TO kept").unwrap();
    let why = stopped(&mut directory, PHONES, StepKind::FullImport);
    assert!(matches!(why, StepError::Agent(_)) && why.to_string().contains("subscriber"), "{why}");
    company.phones.batch_execute("CREATE TABLE subscriber (LIKE kept)").unwrap();
    let why = stopped(&mut directory, PHONES, StepKind::FullImport);
    assert!(matches!(why, StepError::Threshold(_)), "{why}");
    company.phones.batch_execute("DROP TABLE subscriber; ALTER TABLE kept RENAME TO subscriber").unwrap();
    // A delta that reports all entries as deleted: the deletions are staged, and the step stops before the
    // first one.
    let listed = company.telephone(Phones::new())[2];
    assert_eq!(run(&mut directory, PHONES, StepKind::DeltaImport), did([("stage-delete", listed)]));
    let why = stopped(&mut directory, PHONES, StepKind::DeltaSynchronization);
    assert!(
        matches!(&why, StepError::Threshold(reported) if reported.contains(&format!("{listed} objects"))),
        "{why}"
    );
    company.telephone(monday.phones());
    assert_eq!(run(&mut directory, PHONES, StepKind::DeltaImport), did([("stage-update", listed)]));
    nothing_is_left(&mut directory);
    company.assert_is(monday);
}

/// Changes the mail address of a row to one that the directory schema refuses.
fn spoil(row: &mut Row) {
    row[6] = row[6].replace('@', "ü@");
}

/// One added person, and one changed person who was not moved: the directory is made to refuse both.
fn to_be_refused(monday: &Day, tuesday: &Day) -> [String; 2] {
    let (before, after) = (monday.rows(), tuesday.rows());
    let is_person = |row: &Row| row[0] == "person";
    let mut came = after.iter().filter(|(id, row)| is_person(row) && !before.contains_key(*id));
    let stayed = after.iter().filter(|(id, row)| is_person(row) && before.get(*id) == Some(row));
    // A person who manages others, and the last added one.
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

    let (predicted, _) = preview(company, &IN_AND_OUT);
    // Few deletions are allowed: the synchronization stops before the first.
    let mut config = company.config();
    config.safety.synchronization_deletes.count = 2;
    let mut directory = Metadirectory::open(config).unwrap();
    assert_eq!(run(&mut directory, STAFF, StepKind::FullImport), staged_rows);
    assert_eq!(predicted[0], staged_rows);
    let phones = run(&mut directory, PHONES, StepKind::DeltaImport);
    // A delta has exactly the changes.
    let without_others: Did =
        staged_phones.clone().into_iter().filter(|(what, _)| *what != "stage-no-change").collect();
    assert_eq!((phones, &predicted[1]), (without_others, &staged_phones));
    for _ in 0..2 {
        let why = stopped(&mut directory, STAFF, StepKind::DeltaSynchronization);
        assert!(
            matches!(&why, StepError::Threshold(reported) if reported.contains(&format!("{gone} objects"))),
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
    // Few deletions are allowed: nothing is sent.
    let untouched = company.target.export();
    let why = stopped(&mut directory, DIRECTORY, StepKind::Export);
    assert!(
        matches!(&why, StepError::Threshold(reported) if reported.contains(&format!("{gone} objects"))),
        "{why}"
    );
    assert_eq!(company.target.export(), untouched);
    drop(directory);

    // The server stops answering; then it fails after the first batch.
    let impatient = company.config.replace("timeout_s = 60", "timeout_s = 1");
    let mut directory = Metadirectory::open(connectors::parse(&impatient).unwrap()).unwrap();
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
    // An unreachable directory is not an empty one.
    let why = stopped(&mut directory, DIRECTORY, StepKind::FullImport);
    assert!(matches!(why, StepError::Agent(_)), "{why}");
    company.target.slapd().start_again();
    // The metadirectory was closed in between.
    drop(directory);
    let mut directory = company.open();
    let reported = try_run(&mut directory, DIRECTORY, StepKind::Export).unwrap();
    assert_eq!(reported.outcome(), "completed-export-errors");
    assert_refused(&reported, &refused, &rows);
    assert_eq!(of(&counts(&reported), "export-delete"), gone, "{reported:?}");
    refused
}

/// Checks that exactly the refused changes are reported, with the name of the entry and the server's message.
fn assert_refused(reported: &StepResult, refused: &[String], rows: &Rows) {
    assert_eq!(
        (reported.failures.len(), reported.statistics.of("export-failure")),
        (refused.len(), 2),
        "{reported:?}"
    );
    for id in refused {
        let uid = format!("uid={},", rows[id][2]);
        let of_it = |ObjectError { object, text: why, .. }: &&ObjectError| {
            object.starts_with(&uid) && why.contains("mail") && why.contains("invalidAttributeSyntax (21)")
        };
        assert_eq!(reported.failures.iter().filter(of_it).count(), 1, "{uid} {reported:?}");
    }
}

fn put_right(company: &Company, tuesday: &Day, refused: &[String; 2]) {
    let mut rows = tuesday.rows();
    let mut directory = company.open();
    // Everything except the refused entries arrives, even if it refers to them; the same two are reported
    // each time.
    for id in refused {
        spoil(rows.get_mut(id).unwrap());
    }
    for _ in 0..3 {
        run(&mut directory, DIRECTORY, StepKind::DeltaImport);
        run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
        let reported = try_run(&mut directory, DIRECTORY, StepKind::Export).unwrap();
        assert_refused(&reported, refused, &rows);
    }
    let names: Vec<&str> = refused.iter().map(String::as_str).collect();
    company.assert_is_but(tuesday, &names);
    let (status, _) = directory.status().unwrap();
    assert_eq!(status[DIRECTORY].1.failures, 2);
    // With corrected values they arrive, and the references to them.
    company.write("staff.csv", &tuesday.rows());
    let done = run(&mut directory, STAFF, StepKind::FullImport);
    assert_eq!(of(&done, "stage-update"), 2, "{done:?}");
    run(&mut directory, STAFF, StepKind::DeltaSynchronization);
    settle(company, &mut directory);
    company.assert_is(tuesday);
    nothing_is_left(&mut directory);
    assert_eq!(directory.status().unwrap().0[DIRECTORY].1.failures, 0);
}

/// Only delta runs: a file of changes, a table of changes, a content synchronization.
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
    // A metadirectory that lost its store: the entries to be added already exist, and nothing is sent.
    let place = company.place.another();
    let config = company.config.replace(&company.place.keys(), &place.keys());
    assert_ne!(config, company.config);
    let mut directory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    for agent in [STAFF, PHONES, DIRECTORY] {
        run(&mut directory, agent, StepKind::FullImport);
        run(&mut directory, agent, StepKind::FullSynchronization);
    }
    assert_eq!(run(&mut directory, DIRECTORY, StepKind::Export), Did::new());
    nothing_is_left(&mut directory);
    drop(directory);
    // An empty directory that is filled in one run has the same contents as this one after days of changes.
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
