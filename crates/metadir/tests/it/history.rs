//! The property of years: random histories of source changes, manual changes in the target, interrupted runs
//! and changed configurations end in the state that a new store reaches which takes over the same target.

use std::fmt::Write as _;
use std::fs;

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::stage::StepError;
use proptest::prelude::*;

use crate::place::Place;
use crate::steps::table;

/// People and their badges: person k has badge k.
const PEOPLE: u8 = 7;

/// A row of the staff file: person, name, room, whether active.
type Row = (u8, u8, Option<u8>, bool);

/// A row of the badges file: person, room. Of each second badge the owner is known by the mail only. That never
/// changes, because a link stays when its values change.
type Badge = (u8, Option<u8>);

/// The configuration, as far as it changes.
#[derive(Clone, Debug, PartialEq)]
struct Rules {
    /// The type of people, and its attribute for the room.
    kind: &'static str,
    room: &'static str,
    /// Which agents give the room, the first one with precedence.
    rooms: &'static [&'static str],
    /// Whether badges are joined by their mail as well. Links stay, so this is not taken back.
    joins_by_mail: bool,
    /// The join compares upper and lower case as equal.
    anchor: &'static str,
    filter: bool,
    only_active: bool,
    line: &'static str,
    mail: bool,
    badges: bool,
    book: bool,
}

const FIRST: Rules = Rules {
    kind: "person",
    room: "room",
    rooms: &["staff", "badges"],
    joins_by_mail: false,
    anchor: "id",
    filter: false,
    only_active: true,
    line: "mv.name",
    mail: true,
    badges: true,
    book: true,
};

/// A change of the configuration.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Kind,
    RoomName,
    Rooms(u8),
    JoinByMail,
    Anchor,
    Filter,
    Active,
    Line,
    Mail,
    Badges,
    Book,
}

impl Edit {
    fn apply(self, rules: &mut Rules) {
        let other =
            |now: &'static str, one: &'static str, two: &'static str| if now == one { two } else { one };
        match self {
            Edit::Kind => rules.kind = other(rules.kind, "person", "human"),
            Edit::RoomName => rules.room = other(rules.room, "room", "office"),
            Edit::Rooms(which) => {
                rules.rooms = [&["staff", "badges"][..], &["badges", "staff"], &["staff"], &["badges"]]
                    [usize::from(which) % 4];
            }
            Edit::JoinByMail => rules.joins_by_mail = true,
            Edit::Anchor => rules.anchor = other(rules.anchor, "id", "number"),
            Edit::Filter => rules.filter = !rules.filter,
            Edit::Active => rules.only_active = !rules.only_active,
            Edit::Line => rules.line = other(rules.line, "mv.name", "mv.name + '/' + mv.id"),
            Edit::Mail => rules.mail = !rules.mail,
            Edit::Badges => rules.badges = !rules.badges,
            Edit::Book => rules.book = !rules.book,
        }
    }
}

/// An event of a history.
#[derive(Clone, Debug)]
enum Event {
    Staff(Vec<Row>),
    Badges(Vec<Badge>),
    /// Somebody changes the book: removes the row of a person, writes another line into it, or adds one.
    Book(u8, u8),
    /// Steps that are run, each interrupted after a number of commits if it gets so far.
    Run(Vec<(u8, StepKind, u64)>),
    Round,
    Edit(Edit),
}

fn staff() -> impl Strategy<Value = Vec<Row>> {
    let row = (0u8..4, proptest::option::of(0u8..3), proptest::bool::weighted(0.8));
    proptest::collection::btree_map(0..PEOPLE, row, 0..usize::from(PEOPLE)).prop_map(|rows| {
        rows.into_iter().map(|(person, (name, room, active))| (person, name, room, active)).collect()
    })
}

fn badges() -> impl Strategy<Value = Vec<Badge>> {
    proptest::collection::btree_map(0..PEOPLE, proptest::option::of(0u8..3), 0..usize::from(PEOPLE))
        .prop_map(|rows| rows.into_iter().collect())
}

fn event() -> impl Strategy<Value = Event> {
    let kind = proptest::sample::select(StepKind::NAMES.map(|(_, kind)| kind).to_vec());
    let edit = prop_oneof![
        Just(Edit::Kind),
        Just(Edit::RoomName),
        (0u8..4).prop_map(Edit::Rooms),
        Just(Edit::JoinByMail),
        Just(Edit::Anchor),
        Just(Edit::Filter),
        Just(Edit::Active),
        Just(Edit::Line),
        Just(Edit::Mail),
        Just(Edit::Badges),
        Just(Edit::Book),
    ];
    prop_oneof![
        3 => staff().prop_map(Event::Staff),
        2 => badges().prop_map(Event::Badges),
        1 => (0..PEOPLE, 0u8..3).prop_map(|(person, what)| Event::Book(person, what)),
        4 => proptest::collection::vec((0u8..4, kind, 0u64..4), 1..12).prop_map(Event::Run),
        2 => Just(Event::Round),
        5 => edit.prop_map(Event::Edit),
    ]
}

/// A history: a first day on which everything was synchronized, and what came later.
fn history() -> impl Strategy<Value = Vec<Event>> {
    (staff(), badges(), proptest::collection::vec(event(), 1..9)).prop_map(|(staff, badges, later)| {
        let first = [Event::Staff(staff), Event::Badges(badges), Event::Round];
        first.into_iter().chain(later).collect()
    })
}

/// All steps of a complete run, without an interrupt.
fn round() -> Vec<(u8, StepKind, u64)> {
    let each = |kind| (0u8..4).map(move |agent| (agent, kind, u64::MAX));
    let kinds = [StepKind::FullImport, StepKind::FullSynchronization, StepKind::Export, StepKind::FullImport];
    kinds.into_iter().flat_map(each).chain(each(StepKind::DeltaSynchronization)).collect()
}

struct World {
    place: Place,
    commit_objects: usize,
    rules: Rules,
}

impl World {
    fn new(place: Place, commit_objects: usize) -> World {
        let world = World { place, commit_objects, rules: FIRST };
        world.write("staff.csv", "id,number,name,room,mail,active\n");
        world.write("badges.csv", "badge,owner,mail,room\n");
        world.write("book.csv", "key,line,room,mail,badge\n");
        world.write("mirror.csv", "key,name,room,mail,badge,active\n");
        world
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.place.scratch.join(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.place.scratch.join(file)).unwrap()
    }

    /// The names of the agents, in the order of their indexes.
    fn agents(&self) -> Vec<&'static str> {
        let all = [(self.rules.badges, "badges"), (true, "book"), (true, "mirror"), (true, "staff")];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    }

    fn config(&self) -> String {
        let Rules { kind, room, anchor, line, .. } = self.rules.clone();
        let mut text = format!(
            "[store]\n{}\ndurability = \"off\"\ncommit_objects = {}\n\
             [metaverse.{kind}]\nattributes = {{ id = \"text\", name = \"text\", {room} = \"text\", mail = \"text\", \
             badge = \"text\", active = \"boolean\" }}\ndeleted_with = \"staff\"\n\
             [safety]\nimport = {{ least_share = 0.0 }}\n\
             synchronization = {{ deletes = 1000, delete_share = 1.0 }}\n\
             export = {{ deletes = 1000, delete_share = 1.0 }}\n",
            self.place.keys(),
            self.commit_objects
        );
        for agent in self.agents() {
            let path = self.place.scratch.join(format!("{agent}.csv"));
            let anchor = match agent {
                "badges" => "badge",
                "staff" => anchor,
                _ => "key",
            };
            let _ = writeln!(
                text,
                "[agents.{agent}]\ntype = \"delimited\"\npath = \"{}\"\nanchor = \"{anchor}\"",
                path.display()
            );
        }
        let rooms: Vec<&str> =
            self.rules.rooms.iter().copied().filter(|of| self.agents().contains(of)).collect();
        let flow_of_room = |agent: &str| {
            let at = rooms.iter().position(|of| *of == agent);
            at.map_or_else(String::new, |at| {
                format!(", {room} = {{ from = \"room\", precedence = {} }}", at + 1)
            })
        };
        let filter = if self.rules.filter { "filter = \"cs.name == 'N3'\"\n" } else { "" };
        let _ = write!(
            text,
            "[[inbound]]\nagent = \"staff\"\nto = \"{kind}\"\njoin = [{{ cs = \"id\", mv = \"id\" }}]\nproject = true\n\
             {filter}flow = {{ id = \"id\", name = \"name\", mail = \"mail\", active = \"active\"{} }}\n",
            flow_of_room("staff")
        );
        if self.rules.badges {
            let by_mail = match self.rules.joins_by_mail {
                true => ", { cs = \"mail\", mv = \"mail\", ignore_case = true }",
                false => "",
            };
            let _ = write!(
                text,
                "[[inbound]]\nagent = \"badges\"\nto = \"{kind}\"\njoin = [{{ cs = \"owner\", mv = \"id\" }}{by_mail}]\n\
                 flow = {{ badge = \"badge\"{} }}\n",
                flow_of_room("badges")
            );
        }
        for agent in ["book", "mirror"] {
            let _ = write!(
                text,
                "[[inbound]]\nagent = \"{agent}\"\nto = \"{kind}\"\njoin = [{{ cs = \"key\", mv = \"id\" }}]\n"
            );
        }
        let room = if rooms.is_empty() { String::new() } else { format!(", room = \"{room}\"") };
        let badge = if self.rules.badges { ", badge = \"badge\"" } else { "" };
        if self.rules.book {
            let when = if self.rules.only_active { "when = \"mv.active\"\n" } else { "" };
            let mail = if self.rules.mail { ", mail = \"mail\"" } else { "" };
            let _ = write!(
                text,
                "[[outbound]]\nagent = \"book\"\nfrom = \"{kind}\"\n{when}dn = \"mv.id\"\ndeprovision = \"delete\"\n\
                 flow = {{ key = \"id\", line = {{ expression = \"{line}\" }}{room}{mail}{badge} }}\n"
            );
        }
        let _ = write!(
            text,
            "[[outbound]]\nagent = \"mirror\"\nfrom = \"{kind}\"\ndn = \"mv.id\"\ndeprovision = \"delete\"\n\
             flow = {{ key = \"id\", name = \"name\", mail = \"mail\", active = {{ expression = \"string(mv.active)\" }}{room}{badge} }}\n"
        );
        text
    }

    fn open(&self) -> Metadirectory {
        let config = self.config();
        Metadirectory::open(connectors::parse(&config).unwrap_or_else(|wrong| panic!("{wrong:?}\n{config}")))
            .unwrap()
    }

    /// Runs steps, each up to its interrupt, with the store opened anew after one. Agents that are not in the
    /// configuration have none.
    fn run(&self, steps: &[(u8, StepKind, u64)]) -> u64 {
        let all = ["badges", "book", "mirror", "staff"];
        let agents = self.agents();
        let mut directory = self.open();
        let mut exported = 0;
        for (agent, kind, commits) in steps {
            let Some(agent) = agents.iter().position(|name| *name == all[usize::from(*agent)]) else {
                continue;
            };
            let mut left = *commits;
            let mut go_on = |_| {
                left = left.saturating_sub(1);
                left > 0
            };
            match directory.run(Step { agent, kind: *kind }, &mut go_on) {
                Ok(result) => {
                    let changes = ["export-add", "export-update", "export-delete", "export-rename"];
                    exported += changes.iter().map(|what| result.statistics.of(what)).sum::<u64>();
                }
                Err(StepError::Interrupted) => directory = self.reopen(directory),
                // The rules changed, or nothing was imported that a delta import begins at.
                Err(StepError::RulesChanged(_) | StepError::Agent(_)) => {}
                Err(other) => panic!("{agent} {kind:?}: {other}"),
            }
        }
        exported
    }

    /// Runs everything as an administrator would who follows the messages: delta synchronizations, and full ones
    /// where the rules changed.
    fn catch_up(&self) -> u64 {
        let mut directory = self.open();
        let count = self.agents().len();
        let step =
            |directory: &mut Metadirectory, agent, kind| directory.run(Step { agent, kind }, &mut |_| true);
        for agent in 0..count {
            step(&mut directory, agent, StepKind::FullImport).unwrap();
        }
        for agent in 0..count {
            if let Err(error) = step(&mut directory, agent, StepKind::DeltaSynchronization) {
                assert!(matches!(error, StepError::RulesChanged(_)), "{error}");
                step(&mut directory, agent, StepKind::FullSynchronization).unwrap();
            }
        }
        let mut exported = 0;
        for (agent, name) in self.agents().iter().enumerate() {
            if ["book", "mirror"].contains(name) {
                let result = step(&mut directory, agent, StepKind::Export).unwrap();
                let changes = ["export-add", "export-update", "export-delete", "export-rename"];
                exported += changes.iter().map(|what| result.statistics.of(what)).sum::<u64>();
                step(&mut directory, agent, StepKind::FullImport).unwrap();
            }
        }
        for agent in 0..count {
            step(&mut directory, agent, StepKind::DeltaSynchronization).unwrap();
        }
        exported
    }

    fn reopen(&self, directory: Metadirectory) -> Metadirectory {
        drop(directory);
        self.open()
    }

    fn edit(&mut self, edit: Edit) {
        let (had_badges, kind) = (self.rules.badges, self.rules.kind);
        edit.apply(&mut self.rules);
        if self.rules.kind != kind {
            let config = connectors::parse(&self.config()).unwrap();
            match Metadirectory::rename_type(&config, kind, self.rules.kind) {
                // No step was run yet.
                Ok(()) | Err(StepError::RulesChanged(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        if had_badges && !self.rules.badges {
            // Interrupted once, then repeated.
            let _ = self.open().remove_agent("badges", false, &mut |_| false);
            let _ = self.open().remove_agent("badges", false, &mut |_| true);
        }
    }

    fn happen(&mut self, event: &Event) {
        let room = |room: &Option<u8>| room.map_or(String::new(), |room| format!("R{room}"));
        match event {
            Event::Staff(rows) => {
                let mut text = "id,number,name,room,mail,active\n".to_string();
                for (person, name, of, active) in rows {
                    let number = 100 - person;
                    let _ = writeln!(
                        text,
                        "p{person},{number},N{name},{},p{person}@Plim.example,{active}",
                        room(of)
                    );
                }
                self.write("staff.csv", &text);
            }
            Event::Badges(rows) => {
                let mut text = "badge,owner,mail,room\n".to_string();
                for (person, of) in rows {
                    let owner = if person % 2 == 1 { format!("p{person}") } else { String::new() };
                    let _ = writeln!(text, "B{person},{owner},P{person}@plim.example,{}", room(of));
                }
                self.write("badges.csv", &text);
            }
            Event::Book(person, what) => {
                let text = self.read("book.csv");
                let key = format!("p{person},");
                let mut lines: Vec<String> =
                    text.lines().filter(|line| !line.starts_with(&key)).map(String::from).collect();
                // A file that was exported has the columns in the same order.
                match what {
                    0 => {}
                    1 => lines.push(format!("p{person},somebody,R9,,")),
                    _ => lines.push(format!("x{person},stranger,,,")),
                }
                lines.dedup();
                let mut seen = std::collections::BTreeSet::new();
                lines.retain(|line| seen.insert(line.split(',').next().unwrap_or_default().to_string()));
                self.write("book.csv", &(lines.join("\n") + "\n"));
            }
            Event::Run(steps) => drop(self.run(steps)),
            Event::Round => drop(self.run(&round())),
            Event::Edit(edit) => self.edit(*edit),
        }
    }

    fn tables(&self) -> [Vec<String>; 2] {
        ["book.csv", "mirror.csv"].map(|file| table(&self.place.scratch.join(file)))
    }
}

/// The number of histories; more by hand with `PLIMSOLL_HISTORIES=10000`.
fn histories() -> u32 {
    std::env::var("PLIMSOLL_HISTORIES").ok().and_then(|number| number.parse().ok()).unwrap_or(48)
}

fn end_like_a_new_store(place: Place, events: &[Event], commit_objects: usize) -> Result<(), TestCaseError> {
    let another = place.another();
    let mut world = World::new(place, commit_objects);
    for event in events {
        world.happen(event);
    }
    // Delta synchronizations, and full ones only where the rules changed: that is enough.
    world.catch_up();
    world.catch_up();
    prop_assert_eq!(world.catch_up(), 0, "a round after the last change exports nothing");
    let new = World { place: another, commit_objects: 1000, rules: world.rules.clone() };
    for file in ["staff.csv", "badges.csv", "book.csv", "mirror.csv"] {
        new.write(file, &world.read(file));
    }
    let exported = new.run(&round());
    prop_assert_eq!(new.tables(), world.tables());
    prop_assert_eq!(exported, 0);
    // What the rules say of the people who are there.
    let active = |line: &&String| line.contains("active=true");
    let mirrored = world.tables()[1].iter().filter(active).count();
    let staff = world.read("staff.csv");
    let filtered = |line: &&str| world.rules.filter && line.contains(",N3,");
    let wanted = staff.lines().skip(1).filter(|line| line.ends_with("true") && !filtered(line)).count();
    prop_assert_eq!(mirrored, wanted);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(), ..ProptestConfig::default() })]

    #[test]
    fn a_history_ends_like_a_new_store(
        events in history(),
        commit_objects in 1usize..6,
    ) {
        end_like_a_new_store(Place::sqlite(), &events, commit_objects)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories() / 8, ..ProptestConfig::default() })]

    #[test]
    fn a_history_on_a_server_ends_like_a_new_store(
        events in history(),
        commit_objects in 1usize..6,
    ) {
        if let Some(place) = Place::postgres() {
            end_like_a_new_store(place, &events, commit_objects)?;
        }
    }
}
