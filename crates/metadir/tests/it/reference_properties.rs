//! Property tests of references: invariants for all sources and all orders of reading them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::store::Sqlite;
use proptest::prelude::*;
use testkit::Scratch;

use crate::directory::Directory;
use crate::steps::{Did, run, table};

// Indexes of the agents, which are sorted by name.
const CLUB: usize = 0;
const DIRECTORY: usize = 1;
const LIST: usize = 2;
const STAFF: usize = 3;

/// A person of the staff file.
#[derive(Clone, Debug)]
struct Person {
    unit: u8,
    boss: Option<u8>,
    is_active: bool,
}

/// The sources of a day. People have a boss: anybody, including themselves, or nobody. Groups have members.
/// Clubs have members too, each of which is a person with a president, who is also a member. The president
/// takes precedence over the boss.
#[derive(Clone, Debug)]
struct Day {
    people: BTreeMap<u8, Person>,
    groups: BTreeMap<u8, Vec<u8>>,
    club: BTreeMap<u8, Option<u8>>,
}

fn day() -> impl Strategy<Value = Day> {
    let person = (0u8..3, proptest::option::of(0u8..8), proptest::bool::weighted(0.8));
    let person = person.prop_map(|(unit, boss, is_active)| Person { unit, boss, is_active });
    let people = proptest::collection::btree_map(0u8..8, person, 0..8);
    let groups = proptest::collection::btree_map(0u8..3, proptest::collection::vec(0u8..8, 0..6), 0..3);
    let club = proptest::collection::btree_map(0u8..8, proptest::option::of(0u8..8), 0..5);
    (people, groups, club).prop_map(|(people, groups, club)| Day { people, groups, club })
}

struct World {
    scratch: Scratch,
    metadirectory: Metadirectory,
    directory: Directory,
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
[metaverse]
person = {{ attributes = {{ id = "text", unit = "text", boss = "reference", active = "boolean" }}, deleted_with = "staff" }}
group = {{ attributes = {{ id = "text", members = "reference[]" }}, deleted_with = "staff" }}
unit = {{ attributes = {{ id = "text" }}, deleted_with = "staff" }}
[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
value_separator = "|"
references = ["boss", "members"]
[agents.club]
type = "delimited"
path = "{club}"
anchor = "number"
references = "president"
[agents.directory]
type = "delimited"
path = "unused"
anchor = "uuid"
references = ["boss", "members"]
[agents.list]
type = "delimited"
path = "{list}"
anchor = "key"
value_separator = "|"
references = ["boss", "members"]
[[inbound]]
agent = "staff"
to = "person"
objects = "cs.kind == 'person'"
join = [{{ cs = "id", mv = "id" }}]
project = true
flow = {{ id = "id", unit = "unit", active = "active", boss = {{ from = "boss", precedence = 2 }} }}
[[inbound]]
agent = "staff"
to = "group"
objects = "cs.kind == 'group'"
project = true
flow = {{ id = "id", members = "members" }}
[[inbound]]
agent = "staff"
to = "unit"
objects = "cs.kind == 'unit'"
project = true
flow = {{ id = "id" }}
[[inbound]]
agent = "club"
to = "person"
join = [{{ cs = "person", mv = "id" }}]
flow = {{ boss = {{ from = "president", precedence = 1 }} }}
[[outbound]]
agent = "directory"
from = "person"
when = "mv.active"
dn = "'cn=' + mv.id + ',ou=' + mv.unit + ',dc=plim'"
deprovision = "delete"
flow = {{ cn = "id", boss = "boss" }}
[[outbound]]
agent = "directory"
from = "group"
when = "connectors(mv.members) > 0"
dn = "'cn=' + mv.id + ',dc=plim'"
deprovision = "delete"
flow = {{ cn = "id", members = "members" }}
[[outbound]]
agent = "directory"
from = "unit"
dn = "'ou=' + mv.id + ',dc=plim'"
deprovision = "delete"
flow = {{ cn = "id" }}
[[outbound]]
agent = "list"
from = "person"
when = "mv.active"
dn = "mv.id"
deprovision = "delete"
flow = {{ key = "id", boss = "boss" }}
[[outbound]]
agent = "list"
from = "group"
dn = "mv.id"
deprovision = "delete"
flow = {{ key = "id", members = {{ from = "members", empty = "nobody" }} }}
[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 1000, delete_share = 1.0 }}
export = {{ deletes = 1000, delete_share = 1.0 }}
"#,
            staff = at("staff.csv"),
            club = at("club.csv"),
            list = at("list.csv"),
        );
        fs::write(scratch.path().join("list.csv"), "key\n").unwrap();
        let directory = Directory::default();
        directory.state().is_strict = true;
        let mut config = connectors::parse(&config).unwrap();
        config.agents[DIRECTORY].system = directory.system();
        let store = Box::new(Sqlite::in_memory().unwrap());
        World { scratch, metadirectory: Metadirectory::with(config, store).unwrap(), directory }
    }

    fn write(&self, day: &Day, backwards: bool) {
        let mut staff = Vec::new();
        for (id, Person { unit, boss, is_active }) in &day.people {
            let boss = boss.map_or(String::new(), |boss| format!("p{boss}"));
            staff.push(format!("person,p{id},u{unit},{is_active},{boss},"));
        }
        for (id, members) in &day.groups {
            let members: Vec<String> = members.iter().map(|id| format!("p{id}")).collect();
            staff.push(format!("group,g{id},,,,{}", members.join("|")));
        }
        staff.extend((0..3).map(|unit| format!("unit,u{unit},,,,")));
        if backwards {
            staff.reverse();
        }
        let mut club = "number,person,president\n".to_string();
        for (id, president) in &day.club {
            let president = president.map_or(String::new(), |president| format!("c{president}"));
            let _ = writeln!(club, "c{id},p{id},{president}");
        }
        let staff = format!("kind,id,unit,active,boss,members\n{}\n", staff.join("\n"));
        fs::write(self.scratch.path().join("staff.csv"), staff).unwrap();
        fs::write(self.scratch.path().join("club.csv"), club).unwrap();
    }

    /// Runs a step; returns its counters except those of unchanged objects.
    fn run(&mut self, agent: usize, kind: StepKind) -> Did {
        let did = run(&mut self.metadirectory, agent, kind);
        let quiet = [
            "stage-no-change",
            "connector-no-flow",
            "disconnector-remains",
            "disconnector-deprovisioned",
            "reference-waiting",
        ];
        did.into_iter().filter(|(name, _)| !quiet.contains(name)).collect()
    }

    fn in_and_out(&mut self, sources: [usize; 2], kind: StepKind) -> Did {
        let mut did = Vec::new();
        for agent in sources {
            did.extend(self.run(agent, StepKind::FullImport));
        }
        // A later join may change earlier objects.
        for agent in sources.into_iter().chain(sources) {
            did.extend(self.run(agent, kind));
        }
        for agent in [DIRECTORY, LIST] {
            did.extend(self.run(agent, StepKind::Export));
            did.extend(self.run(agent, StepKind::FullImport));
            did.extend(self.run(agent, StepKind::DeltaSynchronization));
        }
        did
    }

    /// Runs a day until nothing is pending: objects that are deleted and added again, or renamed, need
    /// another pass.
    fn pass(&mut self, sources: [usize; 2], kind: StepKind) {
        let passes = (0..5).find(|_| self.in_and_out(sources, kind).is_empty());
        assert!(passes.is_some(), "it does not come to an end: {:?}", self.directory.asked());
    }

    fn list(&self) -> Vec<String> {
        table(&self.scratch.join("list.csv"))
    }
}

/// The expected contents of directory and list according to the rules. A group is in the directory while it has
/// members there; in the list, it has a placeholder without members.
fn expected(day: &Day) -> (Vec<String>, Vec<String>) {
    let active = |id: &u8| day.people.get(id).filter(|person| person.is_active);
    // A president who exists counts, active or not: then the boss is ignored.
    let boss = |id: &u8| {
        let is_member = |id: &&u8| day.club.contains_key(*id) && day.people.contains_key(*id);
        let president = day.club.get(id).and_then(|president| president.as_ref()).filter(is_member);
        president.or(day.people.get(id)?.boss.as_ref()).filter(|boss| active(boss).is_some()).copied()
    };
    let dn = |id: &u8| active(id).map(|person| format!("cn=p{id},ou=u{},dc=plim", person.unit));
    let mut directory: Vec<String> = (0..3).map(|unit| format!("ou=u{unit},dc=plim cn=u{unit}")).collect();
    let mut list = Vec::new();
    for id in day.people.keys() {
        let Some(name) = dn(id) else { continue };
        let boss = boss(id);
        let boss_dn = boss.and_then(|boss| dn(&boss)).map_or(String::new(), |dn| format!(" boss={dn}"));
        directory.push(format!("{name}{boss_dn} cn=p{id}"));
        let boss = boss.map_or(String::new(), |boss| format!("boss=p{boss} "));
        list.push(format!("{boss}key=p{id}"));
    }
    for (id, members) in &day.groups {
        let mut there: Vec<u8> = members.iter().copied().filter(|id| active(id).is_some()).collect();
        there.sort_unstable();
        there.dedup();
        let said = |names: Vec<String>| format!(" members={}", names.join("|"));
        let mut names: Vec<String> = there.iter().filter_map(dn).collect();
        names.sort();
        if !names.is_empty() {
            directory.push(format!("cn=g{id},dc=plim cn=g{id}{}", said(names)));
        }
        let mut names: Vec<String> = there.iter().map(|id| format!("p{id}")).collect();
        if names.is_empty() {
            names.push("nobody".into());
        }
        list.push(format!("key=g{id}{}", said(names)));
    }
    directory.sort();
    list.sort();
    (directory, list)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn references_lead_where_the_sources_say(days in proptest::collection::vec(day(), 1..4), commit_objects in 1usize..6) {
        let mut delta = World::new(commit_objects);
        let mut full = World::new(1000);
        let mut turned = World::new(2);
        for day in &days {
            delta.write(day, false);
            full.write(day, false);
            turned.write(day, true);
            delta.pass([STAFF, CLUB], StepKind::DeltaSynchronization);
            full.pass([STAFF, CLUB], StepKind::FullSynchronization);
            turned.pass([CLUB, STAFF], StepKind::DeltaSynchronization);
            let (directory, list) = expected(day);
            for world in [&delta, &full, &turned] {
                prop_assert_eq!(world.directory.lines(), directory.clone());
                prop_assert_eq!(world.list(), list.clone());
            }
            // The directory refused nothing, and a full pass finds nothing that a delta run missed.
            for world in [&mut delta, &mut full, &mut turned] {
                let refused: Vec<String> =
                    world.directory.asked().into_iter().filter(|line| line.contains("REFUSED")).collect();
                prop_assert!(refused.is_empty(), "{:?}", refused);
                let did = world.in_and_out([STAFF, CLUB], StepKind::FullSynchronization);
                prop_assert!(did.is_empty(), "{:?}", did);
            }
        }
    }
}
