//! Explanations of objects: what the engine did, rule by rule.

use std::collections::BTreeMap;
use std::fs;

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{Link, Metadirectory};
use plimsoll_metadir::object::MvId;
use plimsoll_metadir::synchronize::{FlowInOutcome, FlowOutOutcome, TraceEvent};
use proptest::prelude::*;

use crate::lifecycle::{ACCOUNTS, Company, HR, export, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    a_trace_shows_losers_and_what_is_kept,
    a_failure_is_explained,
    several_connectors_and_deprovisioned_ones_are_explained,
    secrets_are_hidden_in_an_explanation,
    references_are_shown_by_the_names_of_their_targets,
}

fn preview(config: &str) -> Metadirectory {
    let config = connectors::parse(config).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    Metadirectory::preview(config, Box::new(|_| {})).unwrap()
}

fn explain(config: &str, agent: usize, key: &str) -> String {
    preview(config).explain(agent, key).unwrap().unwrap().text
}

fn a_trace_shows_losers_and_what_is_kept(place: Place) {
    let company = Company::new(place)
        .with("name = \"name\"\nmail", "name = { from = \"name\", precedence = 1 }\nmail")
        .with("mv = \"id\" }]\n\n[[outbound]]", "mv = \"id\" }]\nflow = { name = { from = \"name\", precedence = 2 }, card = \"login\" }\n\n[[outbound]]");
    company.staff(&[(1, "Ada", "active")]);
    company.write("accounts.csv", "login,number,name,status,room,note\nx,1,Old,,,\n");
    let mut directory = company.open();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    import(&mut directory, StepKind::DeltaSynchronization);
    drop(directory);
    let of_person = explain(&company.config, HR, "1");
    let of_account = explain(&company.config, ACCOUNTS, "x");
    insta::assert_snapshot!("losers", format!("{of_person}---\n{of_account}"));
}

fn a_failure_is_explained(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Ada", "active")]);
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullImport);
    let reported = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    assert_eq!(reported.failures.len(), 1);
    drop(directory);
    let explained = preview(&company.config).explain(HR, "2").unwrap().unwrap();
    assert!(explained.failure.as_ref().is_some_and(|why| why.contains("is taken by")), "{explained:?}");
    insta::assert_snapshot!("failure", explained.text);
}

fn several_connectors_and_deprovisioned_ones_are_explained(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    let accounts = fs::read_to_string(company.path("accounts.csv")).unwrap();
    company.write("accounts.csv", &(accounts + "second,1,,,,\n"));
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    try_run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization).unwrap();
    drop(directory);
    let mut texts = vec![explain(&company.config, ACCOUNTS, "second")];
    let several = company.with(
        "mv = \"id\" }]\n\n[[outbound]]",
        "mv = \"id\" }]\nmultiple_connectors = true\nflow = { card = \"login\" }\n\n[[outbound]]",
    );
    texts.push(explain(&several.config, ACCOUNTS, "second"));
    let one = several.with("multiple_connectors = true\nflow = { card = \"login\" }\n", "");
    one.staff(&[(1, "Ada", "left"), (2, "Alan", "active")]);
    let mut directory = one.open();
    run(&mut directory, HR, StepKind::FullImport);
    drop(directory);
    texts.push(explain(&one.config, HR, "1"));
    let mut directory = one.open();
    try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    drop(directory);
    texts.push(explain(&one.config, ACCOUNTS, "Ada"));
    one.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = one.open();
    run(&mut directory, HR, StepKind::FullImport);
    directory.link(ACCOUNTS, "Alan", Link::Disconnect).unwrap();
    drop(directory);
    for (agent, key) in [(HR, "1"), (HR, "2"), (ACCOUNTS, "Alan")] {
        texts.push(explain(&one.config, agent, key));
    }
    insta::assert_snapshot!("connectors", texts.join("---\n"));
}

fn secrets_are_hidden_in_an_explanation(place: Place) {
    let company = Company::new(place)
        .with("status = { constant = \"on\" } }", "status = { constant = \"Top5ecret\" }, password = { constant = \"Top5ecret\" }, note = { expression = \"'is Top5ecret'\" } }")
        .with("dn = \"mv.name\"", "dn = \"mv.name + ' Top5ecret'\"")
        .with("flow]\nid", "flow]\ncard = \"password\"\nid");
    company.write("hr.csv", "id,name,mail,born,status,password\n1,Ada,,,active,Own5ecret\n");
    company.write("accounts.csv", "login,number,name,status,room,note,password\n");
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullImport);
    drop(directory);
    let text = explain(&company.config, HR, "1");
    assert!(!text.contains("5ecret"), "{text}");
    assert!(text.contains("password: (hidden) (constant (hidden))"), "{text}");
    assert!(text.contains("card: (hidden) from hr (password)"), "{text}");
}

fn references_are_shown_by_the_names_of_their_targets(place: Place) {
    let at = |file: &str| place.scratch.join(file).display().to_string();
    let config = format!(
        r#"
[store]
{store}
[metaverse.person]
attributes = {{ id = "text", name = "text", boss = "reference" }}
[agents.book]
type = "delimited"
path = "{book}"
anchor = "key"
references = ["boss"]
[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
references = ["manager"]
[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "id", mv = "id" }}]
project = true
flow = {{ id = "id", name = "name", boss = "manager" }}
[[outbound]]
agent = "book"
from = "person"
dn = "mv.id"
deprovision = "delete"
flow = {{ key = "id", name = "name", boss = "boss" }}
"#,
        store = place.keys(),
        book = at("book.csv"),
        staff = at("staff.csv"),
    );
    fs::write(at("book.csv"), "key,name,boss\n").unwrap();
    fs::write(at("staff.csv"), "id,name,manager\n1,\"Ada \"\"A\"\" L\",\n2,Alan,1\n3,Bob,9\n").unwrap();
    let mut directory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    run(&mut directory, 1, StepKind::FullImport);
    run(&mut directory, 1, StepKind::DeltaSynchronization);
    drop(directory);
    let texts = ["1", "2", "3"].map(|key| explain(&config, 1, key));
    insta::assert_snapshot!("references", texts.join("---\n"));
}

/// The sources of the property: people and badges of them, each with a room that may be absent.
type People = BTreeMap<u8, (u8, Option<u8>, bool)>;
type Badges = BTreeMap<u8, Option<u8>>;

/// A change of one object of a source.
#[derive(Clone, Debug)]
enum Edit {
    Person(u8, Option<(u8, Option<u8>, bool)>),
    Badge(u8, Option<Option<u8>>),
}

fn edit() -> impl Strategy<Value = Edit> {
    let room = || proptest::option::of(0u8..3);
    let person = (0u8..6, proptest::option::weighted(0.8, (0u8..3, room(), proptest::bool::weighted(0.7))));
    let badge = (0u8..9, proptest::option::weighted(0.7, room()));
    prop_oneof![
        person.prop_map(|(id, person)| Edit::Person(id, person)),
        badge.prop_map(|(id, badge)| Edit::Badge(id, badge)),
    ]
}

const BADGES: usize = 0;
const BOOK: usize = 1;
const STAFF: usize = 2;

struct World {
    place: Place,
    config: String,
    people: People,
    badges: Badges,
}

impl World {
    fn new(place: Place) -> World {
        let at = |file: &str| place.scratch.join(file).display().to_string();
        let config = format!(
            r#"
[store]
{store}
durability = "off"
[metaverse.person]
attributes = {{ id = "text", name = "text", room = "text", badge = "text", active = "boolean" }}
deleted_with = "staff"
[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
[agents.badges]
type = "delimited"
path = "{badges}"
anchor = "badge"
[agents.book]
type = "delimited"
path = "{book}"
anchor = "key"
[[inbound]]
agent = "staff"
to = "person"
filter = "default(cs.name, '') == 'N2' && default(cs.room, '') == 'R0'"
join = [{{ cs = "id", mv = "id" }}]
project = true
flow = {{ id = "id", name = "name", active = "active", room = {{ from = "room", precedence = 2 }} }}
[[inbound]]
agent = "badges"
to = "person"
join = [{{ cs = "owner", mv = "id" }}]
flow = {{ badge = "badge", room = {{ from = "room", precedence = 1 }} }}
[[outbound]]
agent = "book"
from = "person"
when = "mv.active"
dn = "mv.id"
deprovision = {{ disable = {{ line = "gone" }} }}
flow = {{ line = {{ expression = "mv.name + '/' + default(mv.room, '-')" }}, badge = "badge" }}
initial = {{ key = "id", note = "room" }}
[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 1000, delete_share = 1.0 }}
export = {{ deletes = 1000, delete_share = 1.0 }}
"#,
            store = place.keys(),
            staff = at("staff.csv"),
            badges = at("badges.csv"),
            book = at("book.csv"),
        );
        fs::write(at("book.csv"), "key,line,badge,note\n").unwrap();
        let world = World { place, config, people: People::new(), badges: Badges::new() };
        world.write();
        world
    }

    fn write(&self) {
        let room = |room: &Option<u8>| room.map_or(String::new(), |room| format!("R{room}"));
        let people = self
            .people
            .iter()
            .map(|(id, (name, of, active))| format!("p{id},N{name},{},{active}\n", room(of)));
        let badges = self.badges.iter().map(|(id, of)| format!("B{id},p{},{}\n", id % 7, room(of)));
        let write = |file: &str, text: String| fs::write(self.place.scratch.join(file), text).unwrap();
        write("staff.csv", format!("id,name,room,active\n{}", people.collect::<String>()));
        write("badges.csv", format!("badge,owner,room\n{}", badges.collect::<String>()));
    }

    fn open(&self) -> Metadirectory {
        Metadirectory::open(connectors::parse(&self.config).unwrap()).unwrap()
    }

    /// Brings everything to rest.
    fn settle(&self) {
        let mut directory = self.open();
        for _ in 0..2 {
            for agent in [STAFF, BADGES] {
                try_run(&mut directory, agent, StepKind::FullSynchronization).unwrap();
            }
        }
        for kind in [StepKind::Export, StepKind::FullImport, StepKind::DeltaSynchronization] {
            try_run(&mut directory, BOOK, kind).unwrap();
        }
    }
}

type Shown = BTreeMap<String, Vec<String>>;

/// What a trace says: the attributes of the metaverse object, and those that are to be sent to the book.
fn predicted(directory: &Metadirectory, events: &[TraceEvent]) -> (Option<MvId>, Shown, Shown, bool) {
    let (mut mv, mut image, mut sent, mut is_deleted) = (None, Shown::new(), Shown::new(), false);
    let text = |values: &[Vec<u8>]| -> Vec<String> {
        values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    };
    for event in events {
        match event {
            TraceEvent::FlowsIn { mv: id, .. } => {
                mv = Some(*id);
                image.clear();
            }
            TraceEvent::Kept { attribute, values, .. }
            | TraceEvent::FlowIn { attribute, values, outcome: FlowInOutcome::Taken, .. } => {
                image.insert(directory.attribute_name(*attribute).into(), text(values));
            }
            TraceEvent::FlowOut {
                attribute,
                values,
                outcome: FlowOutOutcome::Staged | FlowOutOutcome::Pending,
                ..
            } => {
                sent.insert(directory.attribute_name(*attribute).into(), text(values));
            }
            TraceEvent::Deprovisioned { is_disabled: false, .. } => {
                sent = Shown::from([("line".into(), vec!["gone".into()])]);
            }
            TraceEvent::MvDeleted(id) => (mv, is_deleted) = (Some(*id), true),
            _ => {}
        }
    }
    (mv, image, sent, is_deleted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn a_trace_says_what_a_run_does(edits in proptest::collection::vec(edit(), 1..10)) {
        let mut world = World::new(Place::sqlite());
        for edit in edits {
            let (agent, key) = match edit {
                Edit::Person(id, person) => {
                    match person {
                        Some(person) => world.people.insert(id, person),
                        None => world.people.remove(&id),
                    };
                    (STAFF, format!("p{id}"))
                }
                Edit::Badge(id, badge) => {
                    match badge {
                        Some(badge) => world.badges.insert(id, badge),
                        None => world.badges.remove(&id),
                    };
                    (BADGES, format!("B{id}"))
                }
            };
            world.write();
            let mut directory = world.open();
            try_run(&mut directory, agent, StepKind::FullImport).unwrap();
            drop(directory);
            let mut traced = preview(&world.config);
            let Some(explained) = traced.explain(agent, &key).unwrap() else { continue };
            let (mv, image, sent, is_deleted) = predicted(&traced, &explained.events);
            let before = mv.map(|mv| shows(&world, mv));
            let is_new = before.as_ref().is_some_and(|(image, _)| image.is_empty());
            drop(traced);
            // The run: only this object is pending.
            let mut directory = world.open();
            let result = try_run(&mut directory, agent, StepKind::DeltaSynchronization).unwrap();
            let failed = result.failures.iter().any(|failed| failed.object == key);
            prop_assert_eq!(failed, explained.failure.is_some(), "{} {:?}", explained.text, result);
            drop(directory);
            if let (Some(mv), Some(before)) = (mv, before) {
                // A batch that is processed again takes another number for a new object.
                let mv = if is_new { linked(&world, agent, &key).unwrap_or(mv) } else { mv };
                let (now_image, now_sent) = shows(&world, mv);
                match explained.failure {
                    Some(_) => prop_assert_eq!((now_image, now_sent), before, "{}", explained.text),
                    None => {
                        let image = if is_deleted { Shown::new() } else { image };
                        prop_assert_eq!(now_image, image, "{}", explained.text);
                        if !is_deleted {
                            prop_assert_eq!(now_sent, sent, "{}", explained.text);
                        }
                    }
                }
            }
            world.settle();
        }
    }
}

/// The attributes of a metaverse object, and those that are to be sent to the book.
fn shows(world: &World, mv: MvId) -> (Shown, Shown) {
    let mut directory = Metadirectory::read(connectors::parse(&world.config).unwrap()).unwrap();
    let Some(shown) = directory.show_mv(mv).unwrap() else { return Default::default() };
    let image = shown.metaverse.into_iter().flat_map(|mv| mv.attributes).map(|of| (of.name, of.values));
    let exports = shown.connectors.into_iter().filter_map(|cs| cs.pending_export);
    let sent = exports.flat_map(|export| export.attributes).map(|(name, values, _)| (name, values));
    (image.collect(), sent.collect())
}

/// The metaverse object of an object.
fn linked(world: &World, agent: usize, key: &str) -> Option<MvId> {
    let mut directory = Metadirectory::read(connectors::parse(&world.config).unwrap()).unwrap();
    let shown = directory.show(agent, key).unwrap()?;
    Some(MvId(shown.metaverse?.number))
}
