//! `kill -9` in the middle of a run of the metadirectory, over both stores and with text and a directory as targets: run again, it
//! ends as if nothing had been. More by hand: `PLIMSOLL_KILLS=100`.

#![expect(clippy::print_stdout, reason = "who runs the tests must learn how often it was killed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::slapd::{self, ROOT_DN, ROOT_PASSWORD, SUFFIX, Slapd, SlapdOptions};

use crate::metadir::{phone_book, staff, staff_and_phones};
use crate::program::{Finished, Place, command, run};

/// Where the store is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    /// What a configuration says of it; `None` where it is not installed, which is recorded as a skip. One for each name.
    fn keys(self, name: &str) -> Option<String> {
        if self == Store::Sqlite {
            return Some("sqlite = \"metadirectory.db\"".into());
        }
        let connection = testkit::Postgres::of_process()?.connection();
        let schema = name.replace('-', "_");
        Some(format!("postgres = \"{connection}\"\nschema = \"{schema}\""))
    }

    fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
        }
    }
}

/// How often it is killed.
pub(crate) fn kills(few: u32) -> u32 {
    std::env::var("PLIMSOLL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(few)
}

/// A fixed sequence, so that a failure can be met again.
struct Random(u64);

impl Random {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.share() * end as f64) as usize).min(end.saturating_sub(1))
    }
}

/// Runs it; what a killed one still held is let go by a server a moment after that is dead.
fn again(place: &Place, arguments: &[&str]) -> Finished {
    let begin = Instant::now();
    loop {
        let done = run(place, arguments);
        if !done.err.contains("another process uses") || begin.elapsed() > Duration::from_secs(60) {
            return done;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs everything; what it did, but for what it found as it was.
fn full(place: &Place) -> Vec<String> {
    let done = again(place, &["metadir", "run", "full", "--json"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let done: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let counters = done["steps"].as_array().unwrap().iter().flat_map(|step| {
        step["counters"].as_object().unwrap().iter().map(|(name, count)| format!("{name}: {count}"))
    });
    counters.filter(|counter| !counter.starts_with("stage-no-change: ")).collect()
}

/// Ended at any moment and run again: the phone book is the one of an undisturbed run, each person in it once.
fn a_phone_book(store: Store) {
    let days: [String; 2] =
        [staff(400, |_| "Oslo"), staff(390, |at| if at % 5 == 0 { "Bergen" } else { "Oslo" })];
    let prepare = |name: &str| {
        let name = format!("killed-{}-{name}", store.name());
        let keys = store.keys(&name)?;
        let place = Place::new(&name);
        staff_and_phones(&place);
        let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
        let changed = text.replace("sqlite = \"metadirectory.db\"", &keys);
        let changed =
            changed.replace("commit_objects = 10000", "commit_objects = 20").replace("\"full\"", "\"off\"");
        std::fs::write(place.path("metadirectory.toml"), changed).unwrap();
        Some(place)
    };
    let Some(quiet) = prepare("undisturbed") else { return };
    let mut expected = Vec::new();
    let mut longest = Duration::ZERO;
    for day in &days {
        std::fs::write(quiet.path("staff.csv"), day).unwrap();
        let begin = Instant::now();
        full(&quiet);
        longest = longest.max(begin.elapsed());
        expected.push((phone_book(&quiet), run(&quiet, &["metadir", "status"]).out));
    }
    assert_eq!(expected[1].0.len(), 391);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut round, mut killed) = (0, 0);
    while killed < kills(6) {
        let place = prepare(&round.to_string()).unwrap();
        round += 1;
        for (day, expected) in days.iter().zip(&expected) {
            std::fs::write(place.path("staff.csv"), day).unwrap();
            // Killed up to three times, then left to end.
            for _ in 0..3 {
                let mut command = command(&place, &["metadir", "run", "full"]);
                let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(longest.mul_f64(random.share()));
                killed += u32::from(child.try_wait().unwrap().is_none());
                let _ = child.kill();
                child.wait().unwrap();
            }
            full(&place);
            assert_eq!(
                (&phone_book(&place), &run(&place, &["metadir", "status"]).out),
                (&expected.0, &expected.1)
            );
            // Nothing is left over.
            assert_eq!(full(&place), Vec::<String>::new());
        }
    }
}

#[test]
fn a_phone_book_over_sqlite_is_that_of_an_undisturbed_run() {
    a_phone_book(Store::Sqlite);
}

#[test]
fn a_phone_book_over_postgresql_is_that_of_an_undisturbed_run() {
    a_phone_book(Store::Postgres);
}

/// People with managers, and groups of people. On the second day some leave, some come, some marry and have another name, some
/// have another title, and the groups have other members.
fn organization(day: usize) -> String {
    let mut text = "number,kind,given,sn,title,manager,members,name\n".to_string();
    let people = if day == 0 { 0..300 } else { 6..310 };
    for at in people.clone() {
        let sn = if day == 1 && at % 29 == 7 { "Married" } else { "Sur" };
        let title = if day == 1 && at % 8 == 3 { "Director" } else { "Clerk" };
        let manager = if at / 5 >= people.start && at > people.start {
            format!("E{:04}", at / 5)
        } else {
            String::new()
        };
        let _ = writeln!(text, "E{at:04},person,Given{at},{sn}{at},{title},{manager},,");
    }
    for group in 0..6 {
        let members = people.clone().filter(|at| (at + day) % 7 == group);
        let members: Vec<String> = members.map(|at| format!("E{at:04}")).collect();
        let _ = writeln!(text, "G{group},group,,,,,{},Group {group}", members.join("|"));
    }
    text
}

fn configuration(store: &str, slapd: &Slapd) -> String {
    format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 20

[metaverse]
person.attributes = {{ number = "text", given = "text", sn = "text", title = "text", manager = "reference" }}
group.attributes = {{ number = "text", name = "text", members = "reference[]" }}
person.deleted_with = "staff"
group.deleted_with = "staff"

[agents.staff]
type = "delimited"
path = "staff.csv"
anchor = "number"
value_separator = "|"
references = ["manager", "members"]

[agents.directory]
type = "ldap"
url = "{url}"
bind_dn = "{ROOT_DN}"
password_file = "password"
base = "{SUFFIX}"
filter = "(|(objectClass=inetOrgPerson)(objectClass=groupOfNames))"
anchor = "entryUUID"
references = ["manager", "member"]
connections = 2

[[inbound]]
agent = "staff"
objects = "cs.kind == 'group'"
to = "group"
join = [{{ cs = "number", mv = "number" }}]
project = true
flow = {{ number = "number", name = "name", members = "members" }}

[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "number", mv = "number" }}]
project = true
flow = {{ number = "number", given = "given", sn = "sn", title = "title", manager = "manager" }}

[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('cn', mv.given + ' ' + mv.sn) + ',ou=people,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
employeeNumber = "number"
cn = {{ expression = "mv.given + ' ' + mv.sn" }}
givenName = "given"
sn = "sn"
title = "title"
manager = "manager"

[[outbound]]
agent = "directory"
from = "group"
dn = "rdn('cn', mv.name) + ',ou=groups,{SUFFIX}'"
deprovision = "delete"
[outbound.flow]
objectClass = {{ constant = ["top", "groupOfNames"] }}
cn = "name"
member = "members"

[runs]
full = [
  "staff full-import",
  "staff delta-synchronization",
  "directory export",
  "directory full-import",
  "directory delta-synchronization",
]
"#,
        url = slapd.url(),
    )
}

/// A directory to be filled, and the metadirectory that fills it.
struct Filled {
    place: Place,
    slapd: Slapd,
}

impl Filled {
    fn new(store: Store, name: &str) -> Option<Filled> {
        let name = format!("killed-ldap-{}-{name}", store.name());
        let keys = store.keys(&name)?;
        let ldif = slapd::organization(&["people", "groups"]);
        let slapd = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() })?;
        let place = Place::new(&name);
        files::replace(&place.path("password"), files::PRIVATE_FILE, ROOT_PASSWORD.as_bytes()).unwrap();
        std::fs::write(place.path("metadirectory.toml"), configuration(&keys, &slapd)).unwrap();
        Some(Filled { place, slapd })
    }

    /// A day's file.
    fn day(&self, day: usize) {
        std::fs::write(self.place.path("staff.csv"), organization(day)).unwrap();
    }

    /// Runs everything until there is nothing more to do: the values that refer to a new name come with the pass after it.
    fn finish(&self) {
        let mut did = Vec::new();
        for _ in 0..4 {
            did = full(&self.place);
            if did.is_empty() {
                return;
            }
        }
        panic!("it does not come to an end: {did:?}");
    }

    /// The lines of each entry but for what the server keeps of its making, in rising order; and how each connector space stands.
    fn state(&self) -> (Vec<String>, String) {
        let kept_by_server = |line: &&str| {
            let operational =
                ["entryUUID", "entryCSN", "create", "creatorsName", "modif", "structuralObjectClass"];
            !operational.iter().any(|name| line.starts_with(name))
        };
        let mut entries = Vec::new();
        for entry in entries_of(&self.slapd.export()) {
            let mut lines: Vec<&str> = entry.iter().map(String::as_str).filter(kept_by_server).collect();
            lines.sort_unstable();
            entries.push(lines.join("\n"));
        }
        entries.sort();
        (entries, run(&self.place, &["metadir", "status"]).out)
    }

    /// What the directory gave each person when the entry was made.
    fn identifiers(&self) -> BTreeMap<String, String> {
        let value = |entry: &[String], name: &str| {
            entry.iter().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_string()))
        };
        let entries = entries_of(&self.slapd.export());
        entries
            .iter()
            .filter_map(|entry| Some((value(entry, "employeeNumber")?, value(entry, "entryUUID")?)))
            .collect()
    }
}

/// Entries of LDIF as lines that are whole.
fn entries_of(ldif: &str) -> Vec<Vec<String>> {
    let whole = ldif.replace("\n ", "");
    let entries = whole.split("\n\n").map(|entry| entry.lines().map(String::from).collect::<Vec<_>>());
    entries.filter(|entry| !entry.is_empty()).collect()
}

/// Lines of progress that a run writes.
fn lines(place: &Place) -> Vec<String> {
    let done = run(place, &["metadir", "run", "full", "--progress"]);
    assert_eq!(done.code, 0, "{}", done.err);
    done.err.lines().filter(|line| line.starts_with("progress ")).map(String::from).collect()
}

/// Runs everything and kills it a moment after the line of this number that begins so. Whether it was still there.
fn kill_at(place: &Place, begin: &str, number: usize, then: Duration) -> bool {
    let mut command = command(place, &["metadir", "run", "full", "--progress"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reported = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let is_there = reported.by_ref().filter(|line| line.starts_with(begin)).nth(number).is_some();
    if is_there {
        std::thread::sleep(then);
    }
    let was_running = is_there && child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    was_running
}

/// Killed between any two commits and in them, the directory becomes what it is without, no entry is made a second time, and
/// when all is done nothing is touched any more.
fn a_directory(store: Store) {
    let Some(quiet) = Filled::new(store, "undisturbed") else { return };
    let mut expected = Vec::new();
    for day in 0..2 {
        quiet.day(day);
        let reported = lines(&quiet.place);
        let of_export = reported.iter().filter(|line| line.starts_with("progress directory export ")).count();
        quiet.finish();
        expected.push((quiet.state(), reported.len(), of_export));
    }
    assert!(expected[0].0.0.iter().any(|entry| entry.contains("\nmember: ")), "{:?}", expected[0].0);
    assert_ne!(expected[0].0.0, expected[1].0.0);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut round, mut killed, mut of_export) = (0, 0, 0);
    while killed < kills(6) {
        let filled = Filled::new(store, &round.to_string()).unwrap();
        round += 1;
        let mut before = BTreeMap::new();
        for (day, (expected, all, exports)) in expected.iter().enumerate() {
            filled.day(day);
            for _ in 0..3 {
                // Half of them in the export.
                let (begin, number) = match random.below(2) {
                    0 => ("progress directory export ", random.below(*exports)),
                    _ => ("progress ", random.below(*all)),
                };
                let then = Duration::from_micros(random.below(20_000) as u64);
                if kill_at(&filled.place, begin, number, then) {
                    killed += 1;
                    of_export += u32::from(begin != "progress ");
                }
            }
            filled.finish();
            assert_eq!(&filled.state(), expected, "round {round}, day {day}");
            let after = filled.identifiers();
            for (number, identifier) in &before {
                assert!(after.get(number).is_none_or(|now| now == identifier), "{number} was made twice");
            }
            before = after;
            // Each accepted change is in the trail once.
            let audit = again(&filled.place, &["metadir", "audit", "--json"]).out;
            let changes = audit.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let added = changes.filter(|change| change["change"] == "add");
            let added: Vec<String> = added.map(|change| change["object"].to_string()).collect();
            let names: BTreeSet<&String> = added.iter().collect();
            // 300 people and 6 groups, and 10 more people on the second day.
            assert_eq!((added.len(), names.len()), (306 + 10 * day, 306 + 10 * day), "{added:?}");
            // To the last timestamp.
            let all = filled.slapd.export();
            assert_eq!(full(&filled.place), Vec::<String>::new());
            assert_eq!(filled.slapd.export(), all);
        }
    }
    println!("{}: {killed} kills, {of_export} of them in an export", store.name());
}

#[test]
fn a_directory_over_sqlite_is_that_of_an_undisturbed_run() {
    a_directory(Store::Sqlite);
}

#[test]
fn a_directory_over_postgresql_is_that_of_an_undisturbed_run() {
    a_directory(Store::Postgres);
}

/// Shows only the lines that differ.
fn assert_same(now: &[String], before: &[String]) {
    let lines = |all: &[String]| -> Vec<String> {
        all.iter()
            .flat_map(|entry| {
                let dn = entry.lines().find(|line| line.starts_with("dn: ")).unwrap_or_default();
                entry.lines().map(move |line| format!("{dn} | {line}"))
            })
            .collect()
    };
    let (now, before): (BTreeSet<_>, BTreeSet<_>) =
        (lines(now).into_iter().collect(), lines(before).into_iter().collect());
    let differing = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
        one.difference(other).cloned().collect()
    };
    assert_eq!(differing(&now, &before), differing(&before, &now));
}

/// The numbers of the runs after a number that exported something, the newest first.
fn exporting_runs(place: &Place, after: u64) -> Vec<u64> {
    let done = again(place, &["metadir", "history", "--json"]);
    let history: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let steps = history["steps"].as_array().unwrap().iter();
    let exported = steps.filter(|step| step["step"] == "export" && step["outcome"] != "completed-no-objects");
    exported.map(|step| step["number"].as_u64().unwrap()).filter(|number| *number > after).collect()
}

/// Runs with adds, deletions, renames, other values and other members are taken back, the newest first; each undo is killed at
/// any moment and run again. The directory is the one before the runs, entry by entry, also after everything was synchronized
/// again; once they are released, the directory becomes what the source says.
fn an_undo(store: Store) {
    let Some(quiet) = Filled::new(store, "undo-undisturbed") else { return };
    quiet.day(0);
    quiet.finish();
    let before = quiet.state().0;
    let first = exporting_runs(&quiet.place, 0)[0];
    quiet.day(1);
    quiet.finish();
    let after = quiet.state().0;
    assert!(before.iter().filter(|entry| !after.contains(entry)).count() > 50);
    // Without --apply nothing is sent.
    let all = quiet.slapd.export();
    let runs = exporting_runs(&quiet.place, first);
    for run_of_day in &runs {
        let preview = again(&quiet.place, &["metadir", "undo", &run_of_day.to_string()]);
        assert_eq!(preview.code, 0, "{}{}", preview.out, preview.err);
        assert!(preview.out.contains("; nothing was sent, --apply sends it"), "{}", preview.out);
    }
    assert_eq!(quiet.slapd.export(), all);
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut round, mut killed, mut longest) = (0, 0, Duration::ZERO);
    let mut filled = quiet;
    loop {
        let runs = exporting_runs(&filled.place, first);
        for run_of_day in &runs {
            let number = run_of_day.to_string();
            let undo = ["metadir", "undo", &number, "--apply"];
            for _ in 0..if round == 0 { 0 } else { 2 } {
                let mut command = command(&filled.place, &undo);
                let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(longest.mul_f64(random.share()));
                killed += u32::from(child.try_wait().unwrap().is_none());
                let _ = child.kill();
                child.wait().unwrap();
            }
            let begin = Instant::now();
            let done = again(&filled.place, &undo);
            longest = longest.max(begin.elapsed());
            assert_eq!(done.code, 0, "{}{}", done.out, done.err);
        }
        assert_same(&filled.state().0, &before);
        for step in ["directory full-import", "directory delta-synchronization"] {
            assert_eq!(again(&filled.place, &["metadir", "run", step]).code, 0);
        }
        // The rules want it otherwise: it is held back.
        for _ in 0..2 {
            let did = full(&filled.place);
            assert!(did.iter().any(|counter| counter.starts_with("export-held: ")), "{did:?}");
            assert_same(&filled.state().0, &before);
        }
        let waiting = again(&filled.place, &["metadir", "pending", "directory"]);
        assert!(waiting.out.contains("release-undo"), "{}", waiting.out);
        for run_of_day in &runs {
            assert_eq!(again(&filled.place, &["metadir", "release-undo", &run_of_day.to_string()]).code, 0);
        }
        filled.finish();
        // The persons who left are in no source any more: their entries stay, and belong to nobody.
        let is_leaver =
            |entry: &String| (0..6).any(|at| entry.contains(&format!("employeeNumber: E000{at}")));
        let now: Vec<String> = filled.state().0.into_iter().filter(|entry| !is_leaver(entry)).collect();
        assert_same(&now, &after);
        if killed >= kills(4) {
            break;
        }
        filled = Filled::new(store, &format!("undo-{round}")).unwrap();
        round += 1;
        for day in 0..2 {
            filled.day(day);
            filled.finish();
        }
    }
    println!("{}: {killed} kills in an undo", store.name());
}

#[test]
fn an_undo_over_sqlite_restores_the_directory() {
    an_undo(Store::Sqlite);
}

#[test]
fn an_undo_over_postgresql_restores_the_directory() {
    an_undo(Store::Postgres);
}
