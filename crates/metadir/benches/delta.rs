//! Measures what a delta run costs compared with a full run, for two kinds of change: 1 % of the objects, and
//! one more member in a large group.
//!
//!     cargo bench -p plimsoll-metadir --bench delta -- run --objects 100000 --rounds 3
//!     cargo bench -p plimsoll-metadir --bench delta -- share --objects 100000 --rounds 3
//!     cargo bench -p plimsoll-metadir --bench delta -- group --members 50000
//!
//! `run` is what an administrator runs each day: import, synchronization, export to OpenLDAP, and the import
//! that confirms the export. `share` is its import and synchronization alone, without a directory to wait
//! for. Full runs are the first one, into an empty store, and one on the next day, which finds the same share
//! of changes as the delta run before it. Sources are a file with a file of changes, and a table with a table
//! of changes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/it/counted.rs"]
mod counted;
mod shared;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use counted::{Counted, Written};
use people::{ATTRIBUTES, Attribute, Population, Record, Shares};
use plimsoll_metadir::agent::{
    Agent, AgentError, Capabilities, ExportedObject, Import, Names, Objects, Refused, System,
};
use plimsoll_metadir::config::{Config, Database, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::naming::Naming;
use plimsoll_metadir::store::{Postgres, Sqlite, Store, Write};
use shared::{Folder, Kind, open, run, say, summary};
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, Slapd, SlapdOptions};

/// Number of attributes of a person.
const ATTRIBUTES_OF: usize = 25;
/// Number of objects that are committed together.
const BATCH: usize = 10_000;
/// Shares of the people of the day before: 1 % in all.
const CHANGES: Shares = Shares { changes: 0.006, leavers: 0.002, joiners: 0.002 };

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut objects, mut members, mut rounds) = (100_000, 50_000, 3);
    let (mut stores, mut chosen) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
        match word.as_str() {
            "--objects" => objects = number(),
            "--members" => members = number(),
            "--rounds" => rounds = number(),
            "--store" => stores.push(words.next().expect("--store sqlite|postgres")),
            "run" | "share" | "group" => chosen.push(word),
            other => {
                panic!(
                    "{other}: run, share, group, --objects N, --members N, --rounds R, --store sqlite|postgres"
                )
            }
        }
    }
    let folder = Folder::new("delta");
    let kinds = Kind::of(&stores, &folder);
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    if is_chosen("run") {
        runs(&folder, &kinds, objects, rounds);
    }
    if is_chosen("share") {
        share(&folder, &kinds, objects, rounds);
    }
    if is_chosen("group") {
        group(&folder, &kinds, members, rounds);
    }
}

/// The source of the people.
#[derive(Clone, Copy)]
enum Source {
    /// A file and a file of changes.
    Text,
    /// A table and a table of changes.
    Table,
}

fn share(folder: &Folder, kinds: &[Kind], objects: u64, rounds: u64) {
    say(&format!(
        "{objects} people of {ATTRIBUTES_OF} attributes, {BATCH} a commit; seconds of import + synchronization"
    ));
    say(
        "round  flush ms  store       source   first full       delta (changes)         nothing  full the day after   delta / first  / day after",
    );
    for kind in kinds {
        for (source, name) in [(Source::Text, "text"), (Source::Table, "table")] {
            let (mut of_first, mut of_after) = (Vec::new(), Vec::new());
            for round in 1..=rounds {
                let flush = folder.flush_ms();
                kind.forget();
                let days = Days { folder, objects, source };
                days.write(0);
                let mut metadirectory = open(&days.configuration(kind, None));
                let full = [StepKind::FullImport, StepKind::FullSynchronization];
                let delta = [StepKind::DeltaImport, StepKind::DeltaSynchronization];
                let mut both = |steps: [StepKind; 2]| steps.map(|step| run(&mut metadirectory, PEOPLE, step));
                let first = both(full);
                let changes = days.write(1);
                let then = both(delta);
                let staged = |name| then[0].1.statistics.of(name);
                let staged = staged("stage-add") + staged("stage-update") + staged("stage-delete");
                assert_eq!(staged, changes, "{:?}", then[0].1);
                // A second run without changes: the fixed cost of a delta run.
                let nothing = both(delta);
                // A table of changes may report its last changes again.
                let did = nothing.iter().flat_map(|(_, did)| did.statistics.iter());
                assert!(did.into_iter().all(|(name, _)| name == "stage-no-change"), "{nothing:?}");
                days.write(2);
                let after = both(full);
                let sum = |steps: &[(f64, _); 2]| steps[0].0 + steps[1].0;
                let of = |steps: &[(f64, _); 2]| format!("{:.2} + {:.2}", steps[0].0, steps[1].0);
                of_first.push(sum(&then) / sum(&first));
                of_after.push(sum(&then) / sum(&after));
                say(&format!(
                    "{round:>5}  {flush:>8.2}  {:<10}  {name:<5}  {:>12}  {:>13} ({changes:>5})  {:>13}  {:>18}  {:>13.1} %  {:>8.1} %",
                    kind.name(),
                    of(&first),
                    format!("{:.3} + {:.3}", then[0].0, then[1].0),
                    format!("{:.3} + {:.3}", nothing[0].0, nothing[1].0),
                    of(&after),
                    of_first[of_first.len() - 1] * 100.0,
                    of_after[of_after.len() - 1] * 100.0,
                ));
                drop(metadirectory);
                kind.forget();
            }
            summary(&format!("{} {name}: delta / first full run", kind.name()), &of_first);
            summary(&format!("{} {name}: delta / full run of the day after", kind.name()), &of_after);
        }
    }
}

/// Measures whole runs, with an export into a directory.
fn runs(folder: &Folder, kinds: &[Kind], objects: u64, rounds: u64) {
    use StepKind::{DeltaImport, DeltaSynchronization, Export, FullImport, FullSynchronization};
    const FULL: [(usize, StepKind); 5] = [
        (PEOPLE, FullImport),
        (PEOPLE, FullSynchronization),
        (DIRECTORY, Export),
        (DIRECTORY, FullImport),
        (DIRECTORY, DeltaSynchronization),
    ];
    const DELTA: [(usize, StepKind); 5] = [
        (PEOPLE, DeltaImport),
        (PEOPLE, DeltaSynchronization),
        (DIRECTORY, Export),
        (DIRECTORY, DeltaImport),
        (DIRECTORY, DeltaSynchronization),
    ];
    say(&format!(
        "{objects} people of {ATTRIBUTES_OF} attributes, {BATCH} a commit, from a file to slapd (mdb, which does not flush); seconds of \
         import, synchronization, export, import of the directory, its synchronization"
    ));
    for kind in kinds {
        let (mut of_first, mut of_after) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            let flush = folder.flush_ms();
            kind.forget();
            let slapd = directory();
            let days = Days { folder, objects, source: Source::Text };
            days.write(0);
            let mut metadirectory = open(&days.configuration(kind, Some(&slapd)));
            let mut all = |name: &str, steps: [(usize, StepKind); 5]| -> f64 {
                let steps = steps.map(|(agent, step)| run(&mut metadirectory, agent, step).0);
                let sum: f64 = steps.iter().sum();
                let each: Vec<String> = steps.iter().map(|seconds| format!("{seconds:.3}")).collect();
                say(&format!(
                    "{round:>5}  {flush:>8.2}  {:<10}  {name:<24}  {sum:>8.3} = {}",
                    kind.name(),
                    each.join(" + ")
                ));
                sum
            };
            let first = all("first full", FULL);
            let changes = days.write(1);
            let delta = all(&format!("delta ({changes} changes)"), DELTA);
            all("delta (nothing)", DELTA);
            days.write(2);
            let after = all("full the day after", FULL);
            of_first.push(delta / first * 100.0);
            of_after.push(delta / after * 100.0);
            drop(metadirectory);
            kind.forget();
        }
        summary(&format!("{}: delta run / first full run, %; below 3 wanted", kind.name()), &of_first);
        summary(&format!("{}: delta run / full run of the day after, %", kind.name()), &of_after);
    }
}

/// An empty server that reports changes (content synchronization).
fn directory() -> Slapd {
    let ldif = format!(
        "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n\
         dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n"
    );
    let database = "maxsize 34359738368\noverlay syncprov\nsyncprov-sessionlog 1000000\n".to_string();
    Slapd::start(&SlapdOptions { ldif, database, tls: None }).expect("slapd")
}

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const PEOPLE: usize = 1;

/// The people of consecutive days.
struct Days<'a> {
    folder: &'a Folder,
    objects: u64,
    source: Source,
}

impl Days<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Writes the source of a day and its changes since the day before; returns the number of changes.
    fn write(&self, day: u32) -> u64 {
        let on = |day| Population::new(1, self.objects).on_day(day, CHANGES).unwrap();
        let today = on(day);
        let before = (day > 0).then(|| on(day - 1));
        let (mut now, mut then) = (Record::new(ATTRIBUTES_OF), Record::new(ATTRIBUTES_OF));
        let mut target = match self.source {
            Source::Text => Target::text(self, day),
            Source::Table => Target::table(self, day),
        };
        let mut changes = 0;
        for number in 0..today.numbers_end() {
            let is = today.read(number, &mut now);
            let was = before.as_ref().is_some_and(|before| before.read(number, &mut then));
            let what = match (was, is) {
                (false, true) => "add",
                (true, false) => "delete",
                (true, true) if now.values().map(|(_, v)| v).ne(then.values().map(|(_, v)| v)) => "update",
                _ => "",
            };
            changes += u64::from(!what.is_empty() && day > 0);
            if is {
                target.put(&now);
            }
            if !what.is_empty() && day > 0 {
                target.change(if is { &now } else { &then }, what);
            }
        }
        target.finish();
        changes
    }

    /// Without a server, the directory is a file that is never written.
    fn configuration(&self, kind: &Kind, server: Option<&Slapd>) -> String {
        let names = columns();
        let listed = |each: &dyn Fn(&str) -> String| {
            let all: Vec<String> = names.iter().map(|name| each(name)).collect();
            all.join(", ")
        };
        let source = match self.source {
            Source::Text => format!(
                "type = \"delimited\"\npath = \"{}\"\ndelta = \"{}\"",
                self.path("people.csv").display(),
                self.path("changes.csv").display()
            ),
            Source::Table => format!(
                "type = \"sql\"\nsqlite = \"{}\"\ntable = \"people\"\n\
                 delta = {{ table = \"changes\", order_column = \"n\", change_column = \"what\" }}",
                self.path("people.db").display()
            ),
        };
        let target = match server {
            None => format!(
                "type = \"delimited\"\npath = \"{}\"\nanchor = \"employeeNumber\"",
                self.path("directory.csv").display()
            ),
            Some(server) => {
                files::replace(&self.path("password"), files::PRIVATE_FILE, ROOT_PASSWORD.as_bytes())
                    .unwrap();
                format!(
                    "type = \"ldap\"\nurl = \"{}\"\nbind_dn = \"{ROOT_DN}\"\npassword_file = \"{}\"\n\
                     base = \"ou=people,{SUFFIX}\"\nfilter = \"(objectClass=inetOrgPerson)\"\nanchor = \"entryUUID\"\n\
                     delta = \"content-synchronization\"\nconnections = 4",
                    server.url(),
                    self.path("password").display(),
                )
            }
        };
        // A manager is a number here, which a directory rejects.
        let outbound = |attribute: &Attribute| match attribute.name {
            "manager" => "cn = \"displayName\"".to_string(),
            name => format!("{} = \"{name}\"", attribute.ldap.unwrap_or(name)),
        };
        let outbound: Vec<String> = match server {
            None => names.iter().map(|name| format!("{name} = \"{name}\"")).collect(),
            Some(_) => ATTRIBUTES.iter().take(ATTRIBUTES_OF).map(outbound).chain([CLASSES.into()]).collect(),
        };
        let mut text = kind.keys(BATCH);
        let _ = write!(
            text,
            r#"
[metaverse.person]
attributes = {{ {types} }}
deleted_with = "people"

[agents.directory]
{target}

[agents.people]
{source}
anchor = "employeeNumber"

[[inbound]]
agent = "people"
to = "person"
join = [{{ cs = "employeeNumber", mv = "employeeNumber" }}]
project = true
flow = {{ {flows} }}

[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('uid', mv.uid) + ',ou=people,{suffix}'"
deprovision = "delete"
flow = {{ {outbound} }}
"#,
            suffix = SUFFIX,
            outbound = outbound.join(", "),
            types = listed(&|name| format!("{name} = \"text\"")),
            flows = listed(&|name| format!("{name} = \"{name}\"")),
        );
        text
    }
}

/// The object classes of a person in a directory.
const CLASSES: &str =
    "objectClass = { constant = [\"top\", \"person\", \"organizationalPerson\", \"inetOrgPerson\"] }";

/// The names of the attributes.
fn columns() -> Vec<&'static str> {
    ATTRIBUTES.iter().take(ATTRIBUTES_OF).map(|attribute| attribute.name).collect()
}

/// What is written for a day.
enum Target {
    Text { people: Box<csv::Writer<std::fs::File>>, changes: Box<csv::Writer<std::fs::File>> },
    Table { connection: rusqlite::Connection, is_first: bool },
}

impl Target {
    /// The files are written anew each day.
    fn text(days: &Days<'_>, _day: u32) -> Target {
        let mut people = csv::Writer::from_path(days.path("people.csv")).unwrap();
        people.write_record(columns()).unwrap();
        let mut changes = csv::Writer::from_path(days.path("changes.csv")).unwrap();
        changes.write_record(columns().into_iter().chain(["change"])).unwrap();
        Target::Text { people: Box::new(people), changes: Box::new(changes) }
    }

    /// The table is changed in place.
    fn table(days: &Days<'_>, day: u32) -> Target {
        let path = days.path("people.db");
        if day == 0 {
            let _ = std::fs::remove_file(&path);
        }
        let connection = rusqlite::Connection::open(&path).unwrap();
        if day == 0 {
            let columns: Vec<String> = columns().iter().map(|name| format!("\"{name}\" TEXT")).collect();
            let tables = format!(
                "CREATE TABLE people ({}, PRIMARY KEY (\"employeeNumber\"));
                 CREATE TABLE changes (n INTEGER PRIMARY KEY, \"employeeNumber\" TEXT, what TEXT)",
                columns.join(", ")
            );
            connection.execute_batch(&tables).unwrap();
        }
        connection.execute_batch("BEGIN").unwrap();
        Target::Table { connection, is_first: day == 0 }
    }

    /// Writes a person who exists.
    fn put(&mut self, person: &Record) {
        match self {
            Target::Text { people, .. } => {
                people.write_record(person.values().map(|(_, value)| value)).unwrap()
            }
            Target::Table { connection, is_first: true } => insert(connection, person),
            Target::Table { .. } => {}
        }
    }

    /// Writes a person who was added, changed or deleted.
    fn change(&mut self, person: &Record, what: &str) {
        match self {
            Target::Text { changes, .. } => {
                let values = person.values().map(|(_, value)| value);
                changes.write_record(values.chain([what])).unwrap();
            }
            Target::Table { connection, .. } => {
                let delete = "DELETE FROM people WHERE \"employeeNumber\" = ?1";
                connection.prepare_cached(delete).unwrap().execute([person.value(0)]).unwrap();
                if what != "delete" {
                    insert(connection, person);
                }
                let reported = "INSERT INTO changes (\"employeeNumber\", what) VALUES (?1, ?2)";
                connection.prepare_cached(reported).unwrap().execute([person.value(0), what]).unwrap();
            }
        }
    }

    fn finish(self) {
        match self {
            Target::Text { mut people, mut changes } => {
                people.flush().unwrap();
                changes.flush().unwrap();
            }
            Target::Table { connection, .. } => connection.execute_batch("COMMIT").unwrap(),
        }
    }
}

fn insert(connection: &rusqlite::Connection, person: &Record) {
    let places = vec!["?"; ATTRIBUTES_OF].join(", ");
    let mut insert = connection.prepare_cached(&format!("INSERT INTO people VALUES ({places})")).unwrap();
    insert.execute(rusqlite::params_from_iter(person.values().map(|(_, value)| value))).unwrap();
}

/// Adds one member to a group and reports the bytes written to the store, the values sent, and the time.
fn group(folder: &Folder, kinds: &[Kind], members: u64, rounds: u64) {
    say(&format!("a group of {members} wins a member; rows that refer, of all that is written; seconds"));
    say(
        "round  flush ms  store       delta import        synchronization     export              values sent",
    );
    for kind in kinds {
        kind.forget();
        let sent = Arc::new(Mutex::new(0));
        let config = configuration_of_group(folder, kind, &sent);
        let written = Written::default();
        let store =
            Box::new(Counted { store: store(&config), written: written.clone(), piece_objects: BATCH });
        let row = |number: u64| format!("E{number},person,u{number},\n");
        let group = |members: u64| {
            let members: Vec<String> = (0..members).map(|number| format!("E{number}")).collect();
            format!("G,group,all,{}", members.join("|"))
        };
        let people: String = (0..members + rounds).map(row).collect();
        let header = "number,kind,name,members";
        std::fs::write(folder.path("staff.csv"), format!("{header}\n{people}{}\n", group(members))).unwrap();
        std::fs::write(folder.path("changes.csv"), format!("{header},change\n")).unwrap();
        let mut metadirectory = Metadirectory::with(config, store).unwrap();
        const STAFF: usize = 1;
        for (agent, step) in [
            (STAFF, StepKind::FullImport),
            (STAFF, StepKind::FullSynchronization),
            (DIRECTORY, StepKind::Export),
        ] {
            run(&mut metadirectory, agent, step);
        }
        for round in 1..=rounds {
            let flush = folder.flush_ms();
            let change = format!("{header},change\n{},update\n", group(members + round));
            std::fs::write(folder.path("changes.csv"), change).unwrap();
            written.take();
            *sent.lock().unwrap() = 0;
            let mut line = format!("{round:>5}  {flush:>8.2}  {:<10}", kind.name());
            for (agent, step, rows) in [
                (STAFF, StepKind::DeltaImport, 1),
                // The change is synchronized there and pending for the directory.
                (STAFF, StepKind::DeltaSynchronization, 2),
                (DIRECTORY, StepKind::Export, 1),
            ] {
                let (seconds, _) = run(&mut metadirectory, agent, step);
                let all = written.take();
                let of_references = all
                    .iter()
                    .filter(|write| matches!(write, Write::Reference(_) | Write::SettledReferences(_)));
                let of_references = of_references.count();
                assert_eq!(of_references, rows, "{step:?}: {} in all", all.len());
                let _ = write!(line, "  {:<18}", format!("{of_references} of {}, {seconds:.3} s", all.len()));
            }
            let sent = *sent.lock().unwrap();
            assert_eq!(sent, 1);
            say(&format!("{line}  {sent}"));
        }
        drop(metadirectory);
        kind.forget();
    }
}

fn store(config: &Config) -> Box<dyn Store> {
    match &config.store.database {
        Database::Sqlite { path, durability, cache_bytes } => {
            Box::new(Sqlite::open(path, *durability, *cache_bytes).unwrap())
        }
        Database::Postgres { server, durability } => Box::new(Postgres::open(server, *durability).unwrap()),
    }
}

/// People and a group come from a file. They are exported to a directory that counts the values it receives.
fn configuration_of_group(folder: &Folder, kind: &Kind, sent: &Arc<Mutex<u64>>) -> Config {
    let text = format!(
        r#"
{store}
[metaverse]
person.attributes = {{ number = "text", name = "text" }}
group.attributes = {{ number = "text", name = "text", members = "reference[]" }}

[agents.directory]
type = "delimited"
path = "unused"
anchor = "uuid"
references = "member"

[agents.staff]
type = "delimited"
path = "{staff}"
delta = "{changes}"
anchor = "number"
value_separator = "|"
references = "members"

[[inbound]]
agent = "staff"
objects = "cs.kind == 'group'"
to = "group"
project = true
flow = {{ number = "number", name = "name", members = "members" }}

[[inbound]]
agent = "staff"
to = "person"
project = true
flow = {{ number = "number", name = "name" }}

[[outbound]]
agent = "directory"
from = "person"
dn = "'uid=' + mv.name + ',ou=people,dc=example,dc=com'"
flow = {{ uid = "name" }}

[[outbound]]
agent = "directory"
from = "group"
dn = "'cn=' + mv.name + ',ou=groups,dc=example,dc=com'"
flow = {{ cn = "name", member = "members" }}
"#,
        store = kind.keys(BATCH),
        staff = folder.path("staff.csv").display(),
        changes = folder.path("changes.csv").display(),
    );
    let mut config = connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let sent = sent.clone();
    config.agents[DIRECTORY].system = Box::new(Counting(sent.clone()));
    config
}

/// A directory that accepts every change and counts the values.
#[derive(Clone, Debug)]
struct Counting(Arc<Mutex<u64>>);

impl System for Counting {
    fn naming(&self) -> Naming {
        Naming::Dn
    }

    fn attributes(&self, _: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        Ok(Vec::new())
    }

    fn open(&self, _: &Objects<'_>, _: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(self.clone()))
    }
}

impl Agent for Counting {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: false, rename: true, confirm: false }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        Err(AgentError::NotSupported("it is not read".into()))
    }

    fn takes_changed_values(&self) -> bool {
        true
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        for change in changes {
            let whole = change.attributes.iter().map(|(_, values)| values.len());
            let changed =
                change.changed_values.iter().map(|changed| changed.added.len() + changed.removed.len());
            *self.0.lock().unwrap() += whole.chain(changed).sum::<usize>() as u64;
        }
        Ok(changes.iter().map(|_| Ok(())).collect())
    }
}
