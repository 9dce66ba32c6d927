//! Property tests: invariants for all sources and all orders of reading them.

use std::fmt::Write as _;
use std::fs;

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::store::Sqlite;
use proptest::prelude::*;
use testkit::Scratch;

use crate::steps::{Did, table, try_run};

// Indexes of the agents, which are sorted by name.
const BADGES: usize = 0;
const BOOK: usize = 1;
const STAFF: usize = 2;

/// The sources of a day: people with a name, a room and whether they are active; badges with an owner and a
/// room. A room may be absent.
#[derive(Clone, Debug)]
struct Day {
    staff: Vec<(u8, u8, Option<u8>, bool)>,
    badges: Vec<(u8, u8, Option<u8>)>,
}

fn day() -> impl Strategy<Value = Day> {
    let room = || proptest::option::of(0u8..4);
    let staff =
        proptest::collection::btree_map(0u8..12, (0u8..4, room(), proptest::bool::weighted(0.8)), 0..12);
    let badges = proptest::collection::btree_map(0u8..16, room(), 0..8);
    (staff, badges).prop_map(|(staff, badges)| Day {
        staff: staff.into_iter().map(|(id, (name, room, active))| (id, name, room, active)).collect(),
        // A join remains even if its key value changes, so owners do not change.
        badges: badges.into_iter().map(|(badge, room)| (badge, badge % 13, room)).collect(),
    })
}

struct World {
    scratch: Scratch,
    directory: Metadirectory,
}

impl World {
    fn new(commit_objects: usize) -> World {
        let scratch = Scratch::new();
        let at = |file: &str| scratch.path().join(file).display().to_string();
        let config = format!(
            r#"
[store]
sqlite = "unused"
commit_objects = {commit_objects}
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
deprovision = "delete"
flow = {{ key = "id", line = {{ expression = "mv.name + '/' + default(mv.room, '-')" }}, badge = "badge" }}
[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 1000, delete_share = 1.0 }}
export = {{ deletes = 1000, delete_share = 1.0 }}
"#,
            staff = at("staff.csv"),
            badges = at("badges.csv"),
            book = at("book.csv"),
        );
        fs::write(scratch.path().join("book.csv"), "key\n").unwrap();
        let store = Box::new(Sqlite::in_memory().unwrap());
        let directory = Metadirectory::with(connectors::parse(&config).unwrap(), store).unwrap();
        World { scratch, directory }
    }

    /// Sources are sorted by anchor: of two badges of one owner the first counts, and a batch keeps this
    /// order.
    fn write(&self, day: &Day) {
        let room = |room: &Option<u8>| room.map_or(String::new(), |room| format!("R{room}"));
        let mut staff = "id,name,room,active\n".to_string();
        for (id, name, of, active) in &day.staff {
            let _ = writeln!(staff, "p{id},N{name},{},{active}", room(of));
        }
        let mut badges = "badge,owner,room\n".to_string();
        for (badge, owner, of) in &day.badges {
            let _ = writeln!(badges, "B{badge:02},p{owner},{}", room(of));
        }
        fs::write(self.scratch.path().join("staff.csv"), staff).unwrap();
        fs::write(self.scratch.path().join("badges.csv"), badges).unwrap();
    }

    /// Runs a step; returns its counters except those of unchanged objects.
    fn run(&mut self, agent: usize, kind: StepKind) -> Did {
        let result = try_run(&mut self.directory, agent, kind).unwrap();
        assert!(result.discovery_errors.is_empty(), "{result:?}");
        let quiet = [
            "stage-no-change",
            "connector-no-flow",
            "disconnector-remains",
            "disconnector-filtered",
            // Two badges of one owner are reported each time.
            "ambiguous-join",
        ];
        result.statistics.iter().filter(|(name, _)| !quiet.contains(name)).collect()
    }

    fn pass(&mut self, sources: [usize; 2], kind: StepKind) -> Did {
        let mut did = Vec::new();
        for agent in sources {
            did.extend(self.run(agent, StepKind::FullImport));
        }
        // A later join may change earlier objects.
        for agent in sources.into_iter().chain(sources) {
            did.extend(self.run(agent, kind));
        }
        did.extend(self.run(BOOK, StepKind::Export));
        did.extend(self.run(BOOK, StepKind::FullImport));
        did.extend(self.run(BOOK, StepKind::DeltaSynchronization));
        did
    }

    fn book(&self) -> Vec<String> {
        table(&self.scratch.join("book.csv"))
    }
}

/// The expected phone book according to the rules; none if two badges of one owner make it ambiguous.
fn expected(day: &Day) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for (id, name, room, active) in &day.staff {
        let badges: Vec<_> = day.badges.iter().filter(|(_, owner, _)| owner == id).collect();
        if badges.len() > 1 {
            return None;
        }
        if !active {
            continue;
        }
        let room = badges.first().and_then(|(_, _, room)| *room).or(*room);
        let room = room.map_or("-".into(), |room| format!("R{room}"));
        let badge = badges.first().map(|(badge, _, _)| format!("badge=B{badge:02} ")).unwrap_or_default();
        lines.push(format!("{badge}key=p{id} line=N{name}/{room}"));
    }
    lines.sort();
    Some(lines)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_target_says_what_the_sources_say(days in proptest::collection::vec(day(), 1..4), commit_objects in 1usize..6) {
        let mut delta = World::new(commit_objects);
        let mut full = World::new(1000);
        let mut turned = World::new(2);
        for day in &days {
            for world in [&delta, &full, &turned] {
                world.write(day);
            }
            delta.pass([STAFF, BADGES], StepKind::DeltaSynchronization);
            full.pass([STAFF, BADGES], StepKind::FullSynchronization);
            turned.pass([BADGES, STAFF], StepKind::FullSynchronization);
            // The order of reading the sources and the batch size have no effect.
            prop_assert_eq!(full.book(), turned.book());
            if let Some(expected) = expected(day) {
                prop_assert_eq!(full.book(), expected);
            }
            // A second pass changes nothing.
            let did = full.pass([STAFF, BADGES], StepKind::FullSynchronization);
            prop_assert!(did.is_empty(), "{:?}", did);
        }
        // Delta runs have the same result as full runs; but of two badges of one owner, the one that was
        // joined first stays joined.
        delta.pass([STAFF, BADGES], StepKind::FullSynchronization);
        if days.last().is_some_and(|day| expected(day).is_some()) {
            prop_assert_eq!(delta.book(), full.book());
        }
    }
}
