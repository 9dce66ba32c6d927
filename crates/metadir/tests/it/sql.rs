//! Tests of the SQL agent with a real SQLite file and a real PostgreSQL server.

mod names;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ::postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};
use plimsoll_metadir::agent::{
    Agent, ChangedValues, ExportedObject, Import, Imported, ImportedObject, Names,
};
use plimsoll_metadir::config::{AgentConfig, Step, StepKind};
use plimsoll_metadir::hologram::{Attribute, Hologram};
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::object::Change;
use plimsoll_metadir::store::ObjectError;

use crate::place::{Place, over_both_stores};

over_both_stores! {
    values_have_one_form_whatever_the_database,
    people_go_from_table_to_table_and_back,
    a_column_that_rises_shows_what_changed,
    a_table_of_changes_shows_what_is_gone,
    a_change_made_twice_is_as_good_as_once,
    what_is_refused_costs_one_object,
    what_is_looked_at_when_the_transaction_ends_costs_one_object_too,
    values_of_a_table_beside_are_added_and_taken_away_one_by_one,
    many_rows_come_each_once_in_pieces_of_any_size,
    names_may_hold_any_letter,
    mistakes_are_reported_with_place_and_what_to_do,
}

/// A source or target database, in addition to the store.
pub(crate) struct Base {
    pub(crate) place: Place,
    schema: String,
}

impl Base {
    pub(crate) fn new(place: Place, statements: &str) -> Base {
        let schema = place.try_server().map_or_else(String::new, |server| format!("{}_base", server.schema));
        let base = Base { place, schema };
        if base.is_postgres() {
            let mut client = Client::connect(&base.place.server().connection, NoTls).unwrap();
            client.batch_execute(&format!("CREATE SCHEMA {}", base.schema)).unwrap();
        }
        base.run(statements);
        base
    }

    fn is_postgres(&self) -> bool {
        !self.schema.is_empty()
    }

    /// Selects the SQL text for SQLite or for PostgreSQL.
    fn of<'a>(&self, sqlite: &'a str, postgres: &'a str) -> &'a str {
        if self.is_postgres() { postgres } else { sqlite }
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(&self.place.server().connection, NoTls).unwrap();
        client.batch_execute(&format!("SET search_path = {}", self.schema)).unwrap();
        client
    }

    fn file(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.place.scratch.join("base.db")).unwrap()
    }

    pub(crate) fn run(&self, statements: &str) {
        if self.is_postgres() {
            self.client().batch_execute(statements).unwrap();
        } else {
            self.file().execute_batch(statements).unwrap();
        }
    }

    /// The rows of a query, their columns joined.
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        if self.is_postgres() {
            let rows = self.client().simple_query(query).unwrap();
            let text = |row: &SimpleQueryRow| {
                let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_string());
                columns.collect::<Vec<_>>().join("|")
            };
            let row = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => Some(text(row)),
                _ => None,
            };
            return rows.iter().filter_map(row).collect();
        }
        let file = self.file();
        let mut statement = file.prepare(query).unwrap();
        let count = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            let column = |at| match row.get::<_, rusqlite::types::Value>(at).unwrap() {
                rusqlite::types::Value::Null => "NULL".to_string(),
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Real(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Blob(bytes) => format!("{bytes:02x?}"),
            };
            Ok((0..count).map(column).collect::<Vec<_>>().join("|"))
        };
        statement.query_map([], text).unwrap().map(Result::unwrap).collect()
    }

    /// The database settings of a configuration.
    pub(crate) fn keys(&self) -> String {
        if self.is_postgres() {
            format!("postgres = \"{}\"\nschema = \"{}\"", self.place.server().connection, self.schema)
        } else {
            format!("sqlite = \"{}\"", self.place.scratch.join("base.db").display())
        }
    }

    /// An agent with additional keys.
    fn agent(&self, keys: &str) -> Open {
        let text = format!(
            "[store]\nsqlite = \"unused\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n\
             [agents.base]\ntype = \"sql\"\n{}\n{keys}\n",
            self.keys()
        );
        Open { config: connectors::parse(&text).unwrap().agents.remove(0), names: Names::default() }
    }
}

/// An agent and its names.
struct Open {
    config: AgentConfig,
    names: Names,
}

type Attributes = BTreeMap<String, Vec<String>>;

impl Open {
    fn try_open(&mut self) -> Result<Box<dyn Agent>, String> {
        for name in self.config.attributes().map_err(|error| error.to_string())? {
            if self.names.attribute(&name).is_none() {
                // Numbers that are not in column order.
                let number = 1000 - self.names.len() as u32;
                self.names.insert(&name, Attribute(number));
            }
        }
        self.config.open(&self.names).map_err(|error| error.to_string())
    }

    fn open(&mut self) -> Box<dyn Agent> {
        self.try_open().unwrap()
    }

    fn attributes(&self, image: &Hologram) -> Attributes {
        let text = |value: &[u8]| match std::str::from_utf8(value) {
            Ok(text) => text.to_string(),
            Err(_) => format!("{value:02x?}"),
        };
        image
            .iter()
            .map(|(attribute, values)| {
                (self.names.name(attribute).to_string(), values.iter().map(text).collect())
            })
            .collect()
    }

    /// Everything that an import returns: a line for each object, in order.
    fn lines(&self, import: &mut dyn Import, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = all(import, most)
            .iter()
            .map(|imported| match imported {
                Imported::Object(object) | Imported::Newer(object) => self.line(object),
                Imported::Gone(anchor) => format!("gone {anchor:?}"),
                Imported::Present(anchor) => format!("present {anchor:?}"),
                Imported::Error(error) => format!("{}: {}: {}", error.place, error.kind, error.text),
            })
            .collect();
        lines.sort();
        lines
    }

    fn line(&self, object: &ImportedObject) -> String {
        let mut line = String::new();
        for (name, values) in self.attributes(&object.image) {
            let _ = write!(line, "{name}={} ", values.join(","));
        }
        line.trim_end().into()
    }

    /// A change of an object with the anchor `id`.
    fn change(&mut self, change: Change, id: &str, attributes: &[(&str, &[&str])]) -> ExportedObject {
        self.open();
        let number = |name: &str| self.names.attribute(name).unwrap();
        let of_id = [id];
        let first = [("id", &of_id[..])];
        let of = |(name, values): &(&str, &[&str])| {
            (number(name), values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>())
        };
        let all = first.iter().chain(attributes).map(of);
        ExportedObject {
            change,
            anchor: Some(IndexKey::of_parts(std::iter::once(id.as_bytes()))),
            dn: id.into(),
            new_dn: None,
            changed_values: Vec::new(),
            adopts: true,
            written: Vec::new(),
            image: all.clone().collect(),
            attributes: if change == Change::Delete { Vec::new() } else { all.collect() },
        }
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Vec<Result<(), String>> {
        let answers = self.open().export(changes).unwrap();
        answers.into_iter().map(|answer| answer.map_err(|refused| refused.0)).collect()
    }
}

fn all(import: &mut dyn Import, most: usize) -> Vec<Imported> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        batch.clear();
        import.read(most, &mut batch).unwrap();
        assert!(batch.len() <= most);
        if batch.is_empty() {
            return all;
        }
        all.append(&mut batch);
    }
}

fn values_have_one_form_whatever_the_database(place: Place) {
    let base = Base::new(place, "");
    let columns = base.of(
        "id INTEGER PRIMARY KEY, truth BOOLEAN, bytes BLOB, zoned TIMESTAMP, moment DATETIME, day DATE, amount NUMERIC, \
         key UUID, fraction REAL, big BIGINT, name VARCHAR(20), empty TEXT, absent TEXT",
        "id integer PRIMARY KEY, truth boolean, bytes bytea, zoned timestamptz, moment timestamp, day date, amount numeric, \
         key uuid, fraction double precision, big bigint, name varchar(20), empty text, absent text",
    );
    base.run(&format!("CREATE TABLE one ({columns}); CREATE TABLE two ({columns})"));
    base.run(&format!(
        "INSERT INTO one VALUES (1, true, {}, '2026-11-22 08:30:00+00', '2026-11-22 08:30:00.25', '2026-11-22', 12.5, \
         '0189d5a0-1111-7000-8000-000000000001', 0.1, 9007199254740993, 'Jürgen \"J\"; --', '', NULL)",
        base.of("x'0001ff'", "'\\x0001ff'")
    ));
    let mut one = base.agent("table = \"one\"\nanchor = \"id\"");
    let mut import = one.open().full_import().unwrap();
    let expected = "amount=12.5 big=9007199254740993 bytes=[00, 01, ff] day=2026-11-22 fraction=0.1 id=1 \
                    key=0189d5a0-1111-7000-8000-000000000001 moment=2026-11-22T08:30:00.25 name=Jürgen \"J\"; -- truth=true \
                    zoned=2026-11-22T08:30:00Z";
    let imported = all(import.as_mut(), 10);
    let [Imported::Object(object)] = imported.as_slice() else { panic!("{imported:?}") };
    assert_eq!(one.line(object), expected);
    assert_eq!(object.anchor, IndexKey::of_parts(std::iter::once(&b"1"[..])));
    assert_eq!(import.watermark(), None);
    assert!(one.open().delta_import("").is_err());
    // Values that were read can be written, and then are read unchanged.
    let mut two = base.agent("table = \"two\"\nanchor = \"id\"");
    two.open();
    two.names = one.names.clone();
    let values = |(attribute, values): (Attribute, plimsoll_metadir::hologram::Values<'_>)| {
        (attribute, values.iter().map(<[u8]>::to_vec).collect())
    };
    let change = ExportedObject {
        change: Change::Add,
        anchor: Some(object.anchor),
        dn: "1".into(),
        new_dn: None,
        changed_values: Vec::new(),
        adopts: true,
        written: Vec::new(),
        attributes: object.image.iter().map(values).collect(),
        image: Hologram::default(),
    };
    // The change has no image, and the name is the anchor.
    assert_eq!(two.export(&[change]), [Ok(())]);
    let import = two.open().full_import();
    assert_eq!(two.lines(import.unwrap().as_mut(), 10), [expected]);
    // Some columns only; the anchor is always included.
    let mut some = base.agent("table = \"one\"\nanchor = \"id\"\ncolumns = [\"name\", \"truth\"]");
    let import = some.open().full_import();
    assert_eq!(some.lines(import.unwrap().as_mut(), 10), ["id=1 name=Jürgen \"J\"; -- truth=true"]);
}

const OFFICE: &str = "CREATE TABLE staff (id integer PRIMARY KEY, name text, mails text, kind char(4));
    CREATE TABLE staff_changes (n integer PRIMARY KEY, id integer, what text);
    CREATE TABLE phones (company varchar(10), number text, name varchar(20) NOT NULL CHECK (name <> 'Nobody'), room text,
        PRIMARY KEY (company, number));
    CREATE TABLE phone_mails (company varchar(10), number text, mail text, FOREIGN KEY (company, number) REFERENCES phones);
    INSERT INTO staff VALUES (1, 'Ada', 'ada@plim.example;lovelace@plim.example', 'a'), (2, 'Alan', NULL, 'b'),
        (3, 'Grace', 'grace@plim.example', 'c');";

// Indexes of the agents, which are sorted by name.
const PHONES: usize = 0;
const STAFF: usize = 1;

fn people_go_from_table_to_table_and_back(place: Place) {
    let base = Base::new(place, OFFICE);
    let (store, keys) = (base.place.keys(), base.keys());
    let config = format!(
        r#"
[store]
{store}
durability = "off"
[metaverse.person]
attributes = {{ employeeId = "text", name = "text", mail = "text[]" }}
deleted_with = "staff"
[agents.staff]
type = "sql"
{keys}
table = "staff"
anchor = "id"
value_separator = ";"
delta = {{ table = "staff_changes", order_column = "n", change_column = "what" }}
[agents.phones]
type = "sql"
{keys}
table = "phones"
anchor = ["company", "number"]
values = [{{ table = "phone_mails", key = ["company", "number"], column = "mail" }}]
[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "id", mv = "employeeId" }}]
project = true
flow = {{ employeeId = "id", name = "name", mail = "mails" }}
[[outbound]]
agent = "phones"
from = "person"
dn = "mv.employeeId"
deprovision = "delete"
flow = {{ company = {{ constant = "Plim" }}, number = "employeeId", name = "name", mail = "mail" }}
"#
    );
    let mut directory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    let mut run = |agent, kind| {
        let result = directory.run(Step { agent, kind }, &mut |_| true).unwrap();
        assert!(result.discovery_errors.is_empty(), "{result:?}");
        let did: Vec<(&str, u64)> = result.statistics.iter().collect();
        (did, result.failures)
    };
    assert_eq!(run(STAFF, StepKind::FullImport).0, [("stage-add", 3)]);
    run(STAFF, StepKind::DeltaSynchronization);
    assert_eq!(run(PHONES, StepKind::Export).0, [("export-add", 3)]);
    let phones = "SELECT * FROM phones ORDER BY number";
    let mails = "SELECT number, mail FROM phone_mails ORDER BY number, mail";
    assert_eq!(base.rows(phones), ["Plim|1|Ada|NULL", "Plim|2|Alan|NULL", "Plim|3|Grace|NULL"]);
    assert_eq!(base.rows(mails), ["1|ada@plim.example", "1|lovelace@plim.example", "3|grace@plim.example"]);
    assert_eq!(run(PHONES, StepKind::FullImport).0, [("confirmed", 3), ("stage-update", 3)]);
    run(PHONES, StepKind::DeltaSynchronization);
    assert_eq!(run(PHONES, StepKind::FullImport).0, [("stage-no-change", 3)]);
    assert_eq!(run(PHONES, StepKind::Export).0, []);
    // A day later: two changes of one person, one deleted, and one new whom the phone book refuses.
    base.run(
        "UPDATE staff SET name = 'Ada L.', mails = 'ada@plim.example;countess@plim.example' WHERE id = 1;
         DELETE FROM staff WHERE id = 3; INSERT INTO staff VALUES (4, 'Nobody', NULL, 'x');
         INSERT INTO staff_changes VALUES (1, 1, 'update'), (2, 3, 'DELETE'), (3, 4, 'add'), (4, 1, 'update'), (5, 9, 'add')",
    );
    let expected = [("stage-add", 1), ("stage-delete", 1), ("stage-update", 1)];
    assert_eq!(run(STAFF, StepKind::DeltaImport).0, expected);
    run(STAFF, StepKind::DeltaSynchronization);
    let (did, refused) = run(PHONES, StepKind::Export);
    assert_eq!(did, [("export-delete", 1), ("export-failure", 1), ("export-update", 1)]);
    let [ObjectError { object: who, text: why, .. }] = refused.as_slice() else { panic!("{refused:?}") };
    assert!(who == "4" && why.to_lowercase().contains("check constraint"), "{who}: {why}");
    assert_eq!(base.rows(phones), ["Plim|1|Ada L.|NULL", "Plim|2|Alan|NULL"]);
    assert_eq!(base.rows(mails), ["1|ada@plim.example", "1|countess@plim.example"]);
    // Changes are read once, except those whose transaction may have committed late.
    let (did, _) = run(STAFF, StepKind::DeltaImport);
    assert!(did.iter().all(|(what, _)| *what == "stage-no-change"), "{did:?}");
    base.run(
        "UPDATE staff SET name = 'Somebody' WHERE id = 4; INSERT INTO staff_changes VALUES (6, 4, 'update')",
    );
    let (did, _) = run(STAFF, StepKind::DeltaImport);
    assert!(did.contains(&("stage-update", 1)), "{did:?}");
    run(STAFF, StepKind::DeltaSynchronization);
    assert_eq!(run(PHONES, StepKind::Export).0, [("export-add", 1)]);
    assert_eq!(base.rows(phones)[2], "Plim|4|Somebody|NULL");
}

fn a_column_that_rises_shows_what_changed(place: Place) {
    let base = Base::new(
        place,
        "CREATE TABLE people (id integer PRIMARY KEY, name text, n bigint);
         INSERT INTO people VALUES (1, 'Ada', 10), (2, 'Alan', 2000), (3, 'Grace', 2000), (4, 'Edsger', NULL)",
    );
    let keys = "table = \"people\"\nanchor = \"id\"\ncolumns = [\"name\"]\n";
    let mut exact = base.agent(&format!("{keys}delta = {{ watermark = \"n\", overlap = 0 }}"));
    let mut import = exact.open().full_import().unwrap();
    assert_eq!(exact.lines(import.as_mut(), 3).len(), 4);
    let mark = import.watermark().unwrap();
    base.run("UPDATE people SET name = 'Ada L.', n = 2001 WHERE id = 1; DELETE FROM people WHERE id = 3");
    let mut import = exact.open().delta_import(&mark).unwrap();
    // Rows at the watermark come again: others may have got the same number since.
    assert_eq!(exact.lines(import.as_mut(), 3), ["id=1 name=Ada L.", "id=2 name=Alan"]);
    let mark = import.watermark().unwrap();
    let mut import = exact.open().delta_import(&mark).unwrap();
    assert_eq!(exact.lines(import.as_mut(), 3), ["id=1 name=Ada L."]);
    // The row with the highest value may be deleted: the watermark does not change.
    base.run("DELETE FROM people WHERE id = 1");
    let mut import = exact.open().delta_import(&mark).unwrap();
    assert_eq!((exact.lines(import.as_mut(), 3), import.watermark()), (Vec::new(), Some(mark.clone())));
    base.run("DELETE FROM people");
    let mut import = exact.open().delta_import(&mark).unwrap();
    assert_eq!((exact.lines(import.as_mut(), 3), import.watermark()), (Vec::new(), Some(mark)));
    // On a server, transactions commit in any order: by default it reads an overlap again.
    base.run("INSERT INTO people VALUES (1, 'Ada', 1000), (2, 'Alan', 2000), (3, 'Grace', 999)");
    let mut agent = base.agent(&format!("{keys}delta = {{ watermark = \"n\" }}"));
    let mark = agent.open().full_import().unwrap().watermark().unwrap();
    let mut import = agent.open().delta_import(&mark).unwrap();
    let again: &[&str] =
        if base.is_postgres() { &["id=1 name=Ada", "id=2 name=Alan"] } else { &["id=2 name=Alan"] };
    assert_eq!(agent.lines(import.as_mut(), 3), again);
    // A timestamp as the watermark.
    base.run(&format!(
        "CREATE TABLE events (id integer PRIMARY KEY, at {}); INSERT INTO events VALUES (1, '2026-11-22 08:30:00'), \
         (2, '2026-11-22 08:30:59'), (3, '2026-11-22 08:31:30')",
        base.of("TIMESTAMP", "timestamptz")
    ));
    let keys = "table = \"events\"\nanchor = \"id\"\ncolumns = [\"id\"]\n";
    let mut agent = base.agent(&format!("{keys}delta = {{ watermark = \"at\" }}"));
    let mark = agent.open().full_import().unwrap().watermark().unwrap();
    let mut import = agent.open().delta_import(&mark).unwrap();
    let again: &[&str] = if base.is_postgres() { &["id=2", "id=3"] } else { &["id=3"] };
    assert_eq!(agent.lines(import.as_mut(), 3), again);
}

fn a_table_of_changes_shows_what_is_gone(place: Place) {
    let base = Base::new(
        place,
        "CREATE TABLE people (id integer PRIMARY KEY, name text);
         CREATE TABLE changes (n integer, id text, what text);
         INSERT INTO people VALUES (1, 'Ada'), (2, 'Alan');
         CREATE TABLE named (k0 text, what integer, id integer);
         INSERT INTO named VALUES ('delete', 999, 1), ('add', 2000, 1), ('add', 7, 2)",
    );
    let keys = "table = \"people\"\nanchor = \"id\"\n";
    let gone = |id: &str| format!("gone {:?}", IndexKey::of_parts(std::iter::once(id.as_bytes())));
    let mut agent =
        base.agent(&format!("{keys}delta = {{ table = \"changes\", order_column = \"n\", overlap = 0 }}"));
    // Without changes there is still a watermark.
    let mark = agent.open().full_import().unwrap().watermark().unwrap();
    let mut import = agent.open().delta_import(&mark).unwrap();
    assert_eq!(agent.lines(import.as_mut(), 10), Vec::<String>::new());
    base.run(
        "DELETE FROM people WHERE id = 2; INSERT INTO people VALUES (3, 'Grace');
         INSERT INTO changes VALUES (7, '2', 'update'), (8, '3', 'x'), (9, NULL, 'add'), (9, '2', 'delete')",
    );
    let mut import = agent.open().delta_import(&mark).unwrap();
    let mut expected = vec!["id=3 name=Grace".to_string(), gone("2")];
    expected.sort();
    let (errors, rest): (Vec<String>, Vec<String>) =
        agent.lines(import.as_mut(), 10).into_iter().partition(|line| line.contains("missing-anchor"));
    assert_eq!((errors.len(), rest), (1, expected));
    // The change column decides, if it is configured; an invalid word is reported.
    base.run("DELETE FROM changes WHERE id IS NULL; UPDATE changes SET what = 'delete' WHERE n = 8");
    let delta =
        "delta = { table = \"changes\", order_column = \"n\", change_column = \"what\", overlap = 0 }";
    let mut agent = base.agent(&format!("{keys}{delta}"));
    let mut import = agent.open().delta_import(&mark).unwrap();
    let mut expected = vec![gone("3"), gone("2")];
    expected.sort();
    assert_eq!(agent.lines(import.as_mut(), 10), expected);
    let mark = import.watermark().unwrap();
    let of_changes = mark.clone();
    base.run("INSERT INTO changes VALUES (10, '1', 'moved')");
    let mut import = agent.open().delta_import(&mark).unwrap();
    let lines = agent.lines(import.as_mut(), 10);
    assert!(lines.iter().any(|line| line.contains("missing-change-type: \"moved\"")), "{lines:?}");
    // Columns may have the same names as identifiers in the statement.
    let delta = "delta = { table = \"named\", order_column = \"what\", change_column = \"k0\", overlap = 0 }";
    let mut named = base.agent(&format!("{keys}{delta}"));
    let mut import = named.open().delta_import("").unwrap();
    assert_eq!(named.lines(import.as_mut(), 10), [gone("2"), "id=1 name=Ada".into()]);
    let mark = import.watermark().unwrap();
    let mut import = named.open().delta_import(&mark).unwrap();
    assert_eq!(named.lines(import.as_mut(), 10), ["id=1 name=Ada"]);
    // A table that was created anew is not taken for one without changes.
    base.run("DELETE FROM changes; INSERT INTO changes VALUES (1, '1', 'update')");
    let reported = agent.open().delta_import(&of_changes).err().unwrap().to_string();
    assert!(reported.contains("was recreated; run a full-import"), "{reported}");
}

const GROUPS: &str =
    "CREATE TABLE groups (id varchar(5) PRIMARY KEY, name varchar(10) UNIQUE, size integer DEFAULT 7);
    CREATE TABLE members (id varchar(5), member text, PRIMARY KEY (id, member));";

fn groups(base: &Base) -> Open {
    base.agent(
        "table = \"groups\"\nanchor = \"id\"\n\
         values = [{ table = \"members\", key = \"id\", column = \"member\", attribute = \"people\" }]",
    )
}

fn a_change_made_twice_is_as_good_as_once(place: Place) {
    let base = Base::new(place, GROUPS);
    let mut agent = groups(&base);
    let add = [
        agent.change(Change::Add, "1", &[("name", &["one"]), ("people", &["a", "b"])]),
        agent.change(Change::Add, "2", &[("name", &["two"]), ("size", &["2"])]),
    ];
    let update =
        [agent.change(Change::Update, "2", &[("name", &["zwei"]), ("size", &[]), ("people", &["c"])])];
    let delete = [agent.change(Change::Delete, "1", &[]), agent.change(Change::Delete, "9", &[])];
    let (groups, members) = ("SELECT * FROM groups ORDER BY id", "SELECT * FROM members ORDER BY id, member");
    for _ in 0..2 {
        assert_eq!(agent.export(&add), [Ok(()), Ok(())]);
        assert_eq!(base.rows(groups), ["1|one|7", "2|two|2"]);
        assert_eq!(base.rows(members), ["1|a", "1|b"]);
    }
    for _ in 0..2 {
        assert_eq!(agent.export(&update), [Ok(())]);
        assert_eq!(base.rows(groups)[1], "2|zwei|NULL");
    }
    for _ in 0..2 {
        assert_eq!(agent.export(&delete), [Ok(()), Ok(())]);
        assert_eq!(base.rows(groups), ["2|zwei|NULL"]);
        assert_eq!(base.rows(members), ["2|c"]);
    }
}

fn what_is_refused_costs_one_object(place: Place) {
    let base = Base::new(place, GROUPS);
    base.run("CREATE TABLE checked (id varchar(5) PRIMARY KEY, size integer CHECK (size < 10))");
    let mut agent = groups(&base);
    let mut changes: Vec<ExportedObject> = (0..250)
        .map(|at| agent.change(Change::Add, &format!("i{at}"), &[("name", &[&format!("n{at}")])]))
        .collect();
    let wrong = [
        (3, agent.change(Change::Add, "x3", &[("name", &["n1"])]), "unique"),
        (120, agent.change(Change::Update, "x120", &[("name", &["n"])]), "no row"),
        (240, agent.change(Change::Add, "x240", &[("name", &["one", "two"])]), "`value_separator`"),
        (
            241,
            ExportedObject { anchor: None, ..agent.change(Change::Add, "x", &[]) },
            "no value for the anchor",
        ),
    ];
    for (at, change, _) in &wrong {
        changes[*at] = change.clone();
    }
    let answers = agent.export(&changes);
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), wrong.len(), "{answers:?}");
    for (at, _, reported) in &wrong {
        let why = answers[*at].clone().unwrap_err().to_lowercase();
        assert!(why.contains(reported), "{at}: {why}");
    }
    assert_eq!(base.rows("SELECT count(*) FROM groups"), ["246"]);
    // An anchor never changes and is not guessed.
    let mut renamed = agent.change(Change::Update, "i0", &[]);
    renamed.attributes[0].1 = vec![b"j0".to_vec()];
    let unknown = ExportedObject { image: Hologram::default(), dn: "x".into(), ..renamed.clone() };
    let answers = agent.export(&[renamed, unknown]);
    assert!(answers[0].clone().unwrap_err().contains("`id` would change"), "{answers:?}");
    assert!(answers[1].clone().unwrap_err().contains("full-import"), "{answers:?}");
    let mut checked = base.agent("table = \"checked\"\nanchor = \"id\"");
    let changes =
        ["1", "12", "2"].map(|size| checked.change(Change::Add, &format!("c{size}"), &[("size", &[size])]));
    let answers = checked.export(&changes);
    assert!(answers[1].clone().unwrap_err().to_lowercase().contains("check"), "{answers:?}");
    assert_eq!(base.rows("SELECT id FROM checked ORDER BY id"), ["c1", "c2"]);
}

fn what_is_looked_at_when_the_transaction_ends_costs_one_object_too(place: Place) {
    let base = Base::new(
        place,
        "CREATE TABLE people (id text PRIMARY KEY, manager text REFERENCES people DEFERRABLE INITIALLY DEFERRED)",
    );
    let mut agent = base.agent("table = \"people\"\nanchor = \"id\"");
    // Within a transaction, managers may come after their people.
    let changes = [("1", "2"), ("2", "2")]
        .map(|(id, manager)| agent.change(Change::Add, id, &[("manager", &[manager])]));
    assert_eq!(agent.export(&changes), [Ok(()), Ok(())]);
    let changes = [("3", "2"), ("4", "9"), ("5", "5")]
        .map(|(id, manager)| agent.change(Change::Add, id, &[("manager", &[manager])]));
    let answers = agent.export(&changes);
    assert!(answers[1].clone().unwrap_err().to_lowercase().contains("foreign key"), "{answers:?}");
    assert_eq!(base.rows("SELECT id FROM people ORDER BY id"), ["1", "2", "3", "5"]);
}

fn values_of_a_table_beside_are_added_and_taken_away_one_by_one(place: Place) {
    let base = Base::new(place, GROUPS);
    let mut agent = groups(&base);
    let members: Vec<String> = (0..2000).map(|at| format!("m{at:04}")).collect();
    let mut some: Vec<&str> = members.iter().map(String::as_str).collect();
    let change = with_members(&mut agent, &some);
    assert_eq!(agent.export(&[change]), [Ok(())]);
    let import = agent.open().full_import();
    let imported = all(import.unwrap().as_mut(), 10);
    let [Imported::Object(object)] = imported.as_slice() else { panic!() };
    assert_eq!(agent.attributes(&object.image)["people"], some);
    // Unchanged rows are not written.
    let place = base.of("rowid", "ctid");
    let places = format!("SELECT member, {place} FROM members ORDER BY member");
    let before = base.rows(&places);
    some.retain(|member| *member != "m0007");
    some.push("zz");
    let change = with_members(&mut agent, &some);
    assert_eq!(agent.export(&[change]), [Ok(())]);
    let after = base.rows(&places);
    assert_eq!(before.iter().filter(|row| !after.contains(row)).count(), 1);
    assert_eq!(after.iter().filter(|row| !before.contains(row)).count(), 1);
    assert!(after.last().unwrap().starts_with("zz|"));
    // Or only the changed values are given, also for a column.
    assert!(agent.open().takes_changed_values());
    let mut change = agent.change(Change::Update, "1", &[]);
    let values = |attribute, added: &[&str], removed: &[&str]| {
        let of = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect();
        ChangedValues { attribute, added: of(added), removed: of(removed) }
    };
    let number = |name: &str| agent.names.attribute(name).unwrap();
    change.changed_values = vec![
        values(number("people"), &["aa", "zz"], &["m0008", "nobody"]),
        values(number("name"), &["eins"], &["one"]),
        values(number("size"), &[], &["7"]),
    ];
    for _ in 0..2 {
        assert_eq!(agent.export(std::slice::from_ref(&change)), [Ok(())]);
        let now = base.rows("SELECT member FROM members ORDER BY member");
        assert_eq!((now.len(), now[0].as_str(), now.contains(&"m0008".to_string())), (2000, "aa", false));
        assert_eq!(base.rows("SELECT name, size FROM groups"), ["eins|NULL"]);
    }
}

fn with_members(agent: &mut Open, members: &[&str]) -> ExportedObject {
    agent.change(Change::Add, "1", &[("name", &["one"]), ("people", members)])
}

fn many_rows_come_each_once_in_pieces_of_any_size(place: Place) {
    let base = Base::new(place, "CREATE TABLE many (id integer, name text)");
    base.run(
        "INSERT INTO many WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000) \
         SELECT CASE WHEN n % 1000 = 0 THEN NULL ELSE n END, 'n' || n FROM n",
    );
    for most in [1, 333, 100_000] {
        let mut agent = base.agent("table = \"many\"\nanchor = \"id\"");
        let mut import = agent.open().full_import().unwrap();
        let lines = agent.lines(import.as_mut(), most);
        let (errors, objects): (Vec<String>, Vec<String>) =
            lines.into_iter().partition(|line| line.contains("missing-anchor"));
        let mut expected: Vec<String> =
            (1..=5000).filter(|n| n % 1000 != 0).map(|n| format!("id={n} name=n{n}")).collect();
        expected.sort();
        assert_eq!(objects, expected);
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert!(errors.iter().any(|error| error.starts_with("row 5000 of many: ")), "{errors:?}");
    }
    // A dropped import leaves no waiting thread.
    let mut agent = base.agent("table = \"many\"\nanchor = \"id\"");
    let mut import = agent.open().full_import().unwrap();
    import.read(10, &mut Vec::new()).unwrap();
    drop(import);
    base.run("DROP TABLE many");
}

fn names_may_hold_any_letter(place: Place) {
    let name = "a \\\"b\\\" ; -- c";
    let base = Base::new(
        place,
        "CREATE TABLE \"a \"\"b\"\" ; -- c\" (\"Id\" integer PRIMARY KEY, \"x \"\"y\"\"\" text, \"select\" text)",
    );
    let mut agent = base.agent(&format!("table = \"{name}\"\nanchor = \"Id\""));
    agent.open();
    let number = |name: &str| agent.names.attribute(name).unwrap();
    let value = |text: &str| vec![text.as_bytes().to_vec()];
    let attributes = vec![
        (number("Id"), value("1")),
        (number("x \"y\""), value("'; DROP")),
        (number("select"), value("\"\\")),
    ];
    let change = ExportedObject {
        change: Change::Add,
        anchor: Some(IndexKey::of_parts(std::iter::once(&b"1"[..]))),
        dn: "1".into(),
        new_dn: None,
        changed_values: Vec::new(),
        adopts: true,
        written: Vec::new(),
        image: attributes.clone().into_iter().collect(),
        attributes,
    };
    assert_eq!(agent.export(std::slice::from_ref(&change)), [Ok(())]);
    let import = agent.open().full_import();
    assert_eq!(agent.lines(import.unwrap().as_mut(), 10), ["Id=1 select=\"\\ x \"y\"='; DROP"]);
    let delete = ExportedObject { change: Change::Delete, attributes: Vec::new(), ..change };
    assert_eq!(agent.export(&[delete]), [Ok(())]);
    let import = agent.open().full_import();
    assert!(agent.lines(import.unwrap().as_mut(), 10).is_empty());
}

fn mistakes_are_reported_with_place_and_what_to_do(place: Place) {
    let base = Base::new(
        place,
        "CREATE TABLE people (id integer PRIMARY KEY, name text); CREATE TABLE other (id integer)",
    );
    let people = "table = \"people\"\nanchor = \"id\"\n";
    for (keys, reported) in [
        ("table = \"peeple\"\nanchor = \"id\"".to_string(), "peeple"),
        (
            "table = \"people\"\nanchor = \"uid\"".into(),
            "no column `uid`, which is a part of the anchor; it has id, name",
        ),
        (format!("{people}columns = [\"mail\"]"), "no column `mail`, which is in `columns`"),
        (format!("{people}delta = {{ watermark = \"at\" }}"), "no column `at`, which is the watermark"),
        (
            format!("{people}delta = {{ table = \"other\", order_column = \"n\" }}"),
            "no column `n`, which is the order column",
        ),
        (format!("{people}delta = {{ table = \"none\", order_column = \"n\" }}"), "none"),
        (
            format!("{people}values = [{{ table = \"other\", key = \"id\", column = \"v\" }}]"),
            "no column `v`",
        ),
        (
            format!(
                "{people}values = [{{ table = \"other\", key = \"id\", column = \"id\", attribute = \"name\" }}]"
            ),
            "`name` is a column and comes from",
        ),
    ] {
        let refused = base.agent(&keys).try_open().err().unwrap();
        assert!(refused.starts_with("reading ") && refused.contains(reported), "{keys}: {refused}");
    }
    // A flow into a missing column.
    let mut agent = base.agent(people);
    let mut change = agent.change(Change::Add, "1", &[]);
    agent.names.insert("mail", Attribute(1));
    change.attributes.push((Attribute(1), vec![b"x".to_vec()]));
    let refused = agent.open().export(&[change]).unwrap_err().to_string();
    assert!(refused.contains("a flow writes `mail`") && refused.contains("it has id, name"), "{refused}");
    // A missing database is not created.
    if !base.is_postgres() {
        let mut agent = base.agent(people);
        base.place.scratch.file("text.db", "no database ".repeat(100));
        for (file, reported) in [("none.db", "is not there"), ("text.db", "of another kind")] {
            let path = base.place.scratch.join(file);
            let system: &mut dyn std::any::Any = agent.config.system.as_mut();
            let settings = system.downcast_mut::<connectors::sql::settings::Sql>().unwrap();
            settings.database = connectors::sql::settings::SqlDatabase::Sqlite(path.clone());
            let refused = agent.try_open().err().unwrap();
            assert!(refused.contains(reported) && refused.contains(file), "{refused}");
            assert_eq!(path.exists(), file == "text.db");
        }
    }
}

#[test]
fn a_connection_that_is_lost_half_way_is_reported_and_no_end_of_the_source() {
    let Some(place) = Place::postgres() else { return };
    let base = Base::new(
        place,
        "CREATE TABLE many AS SELECT n AS id, repeat('x', 200) AS name FROM generate_series(1, 100000) AS n",
    );
    let mut agent = base.agent("table = \"many\"\nanchor = \"id\"");
    let mut import = agent.open().full_import().unwrap();
    let mut batch = Vec::new();
    import.read(10, &mut batch).unwrap();
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE query LIKE '%many%' AND query LIKE '%AS t' AND pid <> pg_backend_pid()";
    assert_eq!(base.rows(ended), ["1"]);
    let mut count = 10;
    let reported = loop {
        batch.clear();
        match import.read(1000, &mut batch) {
            Ok(()) if batch.is_empty() => panic!("the source ended after {count}"),
            Ok(()) => count += batch.len(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(reported.contains("reading many") && reported.contains("the log of the server"), "{reported}");
    assert!(count < 100_000, "{count}");
}

#[test]
fn arrays_of_postgresql_are_several_values() {
    let Some(place) = Place::postgres() else { return };
    let base = Base::new(
        place,
        "CREATE TABLE people (id integer PRIMARY KEY, mails text[], numbers integer[], keys bytea[])",
    );
    let mut agent = base.agent("table = \"people\"\nanchor = \"id\"");
    let change = agent.change(
        Change::Add,
        "1",
        &[("mails", &["a,b", "c \"d\""]), ("numbers", &["7", "8"]), ("keys", &["k1", "k2"])],
    );
    assert_eq!(agent.export(&[change]), [Ok(())]);
    assert_eq!(base.rows("SELECT mails[1], numbers[2], encode(keys[2], 'escape') FROM people"), ["a,b|8|k2"]);
    let import = agent.open().full_import();
    assert_eq!(agent.lines(import.unwrap().as_mut(), 10), ["id=1 keys=k1,k2 mails=a,b,c \"d\" numbers=7,8"]);
    let wrong = agent.change(Change::Update, "1", &[("numbers", &["seven"])]);
    let none = agent.change(Change::Update, "1", &[("mails", &[])]);
    let answers = agent.export(&[wrong, none]);
    assert!(answers[0].clone().unwrap_err().contains("integer") && answers[1].is_ok(), "{answers:?}");
    assert_eq!(base.rows("SELECT mails, numbers FROM people"), ["NULL|{7,8}"]);
}
