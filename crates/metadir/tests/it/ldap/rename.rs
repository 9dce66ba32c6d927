//! Entries that exist already and entries that are renamed, with slapd.

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};

use super::*;
use crate::place::{Place, over_both_stores};

over_both_stores! {
    an_entry_that_exists_under_another_name_is_joined_and_renamed,
    a_leaver_is_disabled_and_comes_back,
    another_naming_attribute_keeps_what_the_rules_want,
    another_naming_attribute_replaces_the_old_value,
    an_entry_that_was_made_meanwhile_is_not_taken_over,
    a_new_user_binds_with_the_delivered_password,
}

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

/// The template of `plimsoll metadir init` in short: a staff file, and a directory that follows it.
fn text(place: &Place, slapd: &Slapd, dn: &str) -> String {
    format!(
        r#"
[store]
{store}
durability = "off"

[metaverse.person]
attributes = {{ id = "text", given = "text", sn = "text", active = "boolean" }}

[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"

[agents.directory]
{keys}base = "ou=people,{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
anchor = "entryUUID"

[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "id", mv = "id" }}]
project = true
flow = {{ id = "id", given = "given", sn = "sn", active = {{ expression = "cs.status == 'active'" }} }}

[[inbound]]
agent = "directory"
to = "person"
join = [{{ cs = "employeeNumber", mv = "id" }}]

[[outbound]]
agent = "directory"
from = "person"
when = "mv.active"
dn = "{dn} + ',ou=people,{SUFFIX}'"
deprovision = {{ disable = {{ employeeType = "left", description = "" }} }}
[outbound.flow]
objectClass = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
employeeNumber = "id"
cn = {{ expression = "mv.given + ' ' + mv.sn" }}
uid = "id"
sn = "sn"

[safety]
synchronization = {{ deletes = 100, delete_share = 1.0 }}
"#,
        store = place.keys(),
        staff = place.scratch.join("staff.csv").display(),
        keys = keys(slapd),
    )
}

fn open_with(text: &str) -> Metadirectory {
    Metadirectory::open(connectors::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

fn run(metadirectory: &mut Metadirectory, agent: usize, kind: StepKind) -> StepResult {
    let result = metadirectory.run(Step { agent, kind }, &mut |_| true).unwrap();
    assert!(result.failures.is_empty() && result.discovery_errors.is_empty(), "{kind:?}: {result:?}");
    result
}

fn staff(place: &Place, people: &[(u32, &str, &str, &str)]) {
    let mut text = "id,given,sn,status\n".to_string();
    for (id, given, sn, status) in people {
        text += &format!("{id},{given},{sn},{status}\n");
    }
    place.scratch.file("staff.csv", text);
}

/// Synchronizes the staff file, exports and confirms.
fn day(metadirectory: &mut Metadirectory) -> Vec<StepResult> {
    [
        (STAFF, StepKind::FullImport),
        (STAFF, StepKind::DeltaSynchronization),
        (DIRECTORY, StepKind::Export),
        (DIRECTORY, StepKind::FullImport),
        (DIRECTORY, StepKind::DeltaSynchronization),
    ]
    .map(|(agent, kind)| run(metadirectory, agent, kind))
    .into()
}

/// The names of the entries below `ou=people`, and the values of an attribute of each.
fn entries(slapd: &Slapd, attribute: &str) -> Vec<String> {
    let ldif = slapd.export().replace("\n ", "");
    let mut lines = Vec::new();
    for entry in ldif.split("\n\n") {
        let Some(dn) = entry.lines().find_map(|line| line.strip_prefix("dn: ")) else { continue };
        let Some(dn) = dn.strip_suffix(&format!(",ou=people,{SUFFIX}")) else { continue };
        let begin = format!("{attribute}: ");
        let mut values: Vec<&str> = entry.lines().filter_map(|line| line.strip_prefix(&*begin)).collect();
        values.sort_unstable();
        lines.push(format!("{dn}: {}", values.join("|")));
    }
    lines.sort();
    lines
}

fn filled() -> Option<Slapd> {
    let person = |rdn: &str, id: u32| {
        format!(
            "dn: {rdn},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\n{}\nsn: Old\nemployeeNumber: {id}\ndescription: kept\n\n",
            rdn.replace('=', ": ")
        )
    };
    let ada = person("cn=O'Neil\\2C Ada", 2).replace("cn: O'Neil\\2C Ada", "cn: O'Neil, Ada");
    let people = [person("cn=Tatyana", 1), ada];
    start(format!("{}\n{}", organization(""), people.concat()), "")
}

const CN: &str = "rdn('cn', mv.given + ' ' + mv.sn)";

fn an_entry_that_exists_under_another_name_is_joined_and_renamed(place: Place) {
    let steps = [
        (STAFF, StepKind::FullImport),
        (STAFF, StepKind::DeltaSynchronization),
        (DIRECTORY, StepKind::FullImport),
        (DIRECTORY, StepKind::DeltaSynchronization),
    ];
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [2, 3, 0, 1]] {
        let Some(slapd) = filled() else { return };
        let place = place.another();
        staff(
            &place,
            &[
                (1, "Tatyana", "Larina", "active"),
                (2, "Ada", "O'Neil", "active"),
                (3, "New", "One", "active"),
            ],
        );
        let mut metadirectory = open_with(&text(&place, &slapd, CN));
        for (agent, kind) in order.map(|at| steps[at]) {
            run(&mut metadirectory, agent, kind);
        }
        for _ in 0..2 {
            day(&mut metadirectory);
        }
        let now = ["cn=Ada O'Neil: 2", "cn=New One: 3", "cn=Tatyana Larina: 1"];
        assert_eq!(entries(&slapd, "employeeNumber"), now, "{order:?}");
        assert_eq!(entries(&slapd, "cn")[2], "cn=Tatyana Larina: Tatyana Larina");
        assert_eq!(entries(&slapd, "description")[0], "cn=Ada O'Neil: kept");
        let last = day(&mut metadirectory);
        assert_eq!(last[2].statistics.iter().collect::<Vec<_>>(), []);
    }
}

fn a_leaver_is_disabled_and_comes_back(place: Place) {
    let Some(slapd) = filled() else { return };
    let person = |status| [(1, "Tatyana", "Larina", status), (2, "Ada", "O'Neil", "active")];
    let mut metadirectory = open_with(&text(&place, &slapd, CN));
    run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
    for _ in 0..2 {
        staff(&place, &person("active"));
        day(&mut metadirectory);
        assert_eq!(entries(&slapd, "employeeType"), ["cn=Ada O'Neil: ", "cn=Tatyana Larina: "]);
        staff(&place, &person("left"));
        day(&mut metadirectory);
        assert_eq!(entries(&slapd, "employeeType"), ["cn=Ada O'Neil: ", "cn=Tatyana Larina: left"]);
        // Full synchronizations of both do not disable it again.
        for agent in [STAFF, DIRECTORY] {
            let did = run(&mut metadirectory, agent, StepKind::FullSynchronization);
            assert_eq!(did.statistics.of("provisioned-disable"), 0, "{did:?}");
        }
        // The person is gone altogether, and returns with another name.
        staff(&place, &person("left")[1..]);
        day(&mut metadirectory);
        staff(&place, &[(1, "Tatyana", "Gremina", "active"), (2, "Ada", "O'Neil", "active")]);
        let did = day(&mut metadirectory);
        assert_eq!(did[1].statistics.of("provisioned-reconnect"), 1, "{did:?}");
        assert_eq!(entries(&slapd, "employeeType"), ["cn=Ada O'Neil: ", "cn=Tatyana Gremina: "]);
        assert_eq!(entries(&slapd, "employeeNumber").len(), 2);
    }
}

fn another_naming_attribute_keeps_what_the_rules_want(place: Place) {
    let Some(slapd) = start(organization(""), "") else { return };
    staff(&place, &[(1, "Tatyana", "Larina", "active"), (2, "Ada", "O'Neil", "active")]);
    let mut metadirectory = open_with(&text(&place, &slapd, CN));
    day(&mut metadirectory);
    for dn in [
        "rdn('uid', mv.id)",
        "rdn('employeeNumber', mv.id)",
        CN,
        "rdn('cn', mv.given + ' ' + mv.sn) + '+' + rdn('uid', mv.id)",
    ] {
        drop(metadirectory);
        metadirectory = open_with(&text(&place, &slapd, dn));
        run(&mut metadirectory, STAFF, StepKind::FullSynchronization);
        let did = day(&mut metadirectory);
        assert_eq!(did[2].statistics.iter().collect::<Vec<_>>(), [("export-rename", 2)], "{dn}");
        assert_eq!(did[3].statistics.of("exported-change-not-reimported"), 0, "{dn}: {did:?}");
        for attribute in ["cn", "uid", "employeeNumber"] {
            let values: Vec<String> = entries(&slapd, attribute)
                .iter()
                .filter_map(|line| Some(line.rsplit_once(": ")?.1.to_string()))
                .collect();
            let mut values = values;
            values.sort();
            let expected = if attribute == "cn" { ["Ada O'Neil", "Tatyana Larina"] } else { ["1", "2"] };
            assert_eq!(values, expected, "{dn} {attribute}");
        }
        assert_eq!(day(&mut metadirectory)[2].statistics.iter().collect::<Vec<_>>(), [], "{dn}");
    }
}

/// An entry is named by `cn`, which its class requires; the rules name it by `uid` and write another `cn`.
fn another_naming_attribute_replaces_the_old_value(place: Place) {
    let Some(slapd) = filled() else { return };
    staff(&place, &[(1, "Tatyana", "Larina", "active"), (2, "Ada", "O'Neil", "active")]);
    let mut metadirectory = open_with(&text(&place, &slapd, "rdn('uid', mv.id)"));
    run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
    let did = day(&mut metadirectory);
    assert_eq!(did[2].statistics.of("export-rename"), 2, "{did:?}");
    assert_eq!(did[3].statistics.of("exported-change-not-reimported"), 0, "{did:?}");
    assert_eq!(entries(&slapd, "cn"), ["uid=1: Tatyana Larina", "uid=2: Ada O'Neil"]);
    assert_eq!(entries(&slapd, "description"), ["uid=1: kept", "uid=2: kept"]);
    assert_eq!(day(&mut metadirectory)[2].statistics.iter().collect::<Vec<_>>(), []);
}

fn an_entry_that_was_made_meanwhile_is_not_taken_over(place: Place) {
    for (existing, number, outcome) in [
        ("", "1", "completed-export-errors"),
        ("existing = \"report\"\n", "1", "completed-warnings"),
        ("existing = \"adopt\"\n", "1", "success"),
        ("existing = \"adopt\"\n", "9", "completed-export-errors"),
    ] {
        let Some(slapd) = start(organization(""), "") else { return };
        let place = place.another();
        staff(&place, &[(1, "Tatyana", "Larina", "active"), (2, "Ada", "O'Neil", "active")]);
        let config = text(&place, &slapd, CN)
            .replace("anchor = \"entryUUID\"", &format!("anchor = \"entryUUID\"\n{existing}"));
        let mut metadirectory = open_with(&config);
        run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
        for kind in [StepKind::FullImport, StepKind::DeltaSynchronization] {
            run(&mut metadirectory, STAFF, kind);
        }
        // Somebody adds an entry with the name; another add was made, and its answer was lost.
        let mut session = root(&slapd);
        let mut add = |cn: &str, sn: &str, number: &str, uid: &str| {
            let values = [
                ("objectClass", "inetOrgPerson"),
                ("cn", cn),
                ("sn", sn),
                ("employeeNumber", number),
                ("uid", uid),
            ];
            let values: Vec<[ldap::message::Value<'_>; 1]> =
                values.iter().map(|(_, value)| [ldap::message::Value(value.as_bytes())]).collect();
            let names = ["objectClass", "cn", "sn", "employeeNumber", "uid"];
            let attributes: Vec<ldap::message::Attribute<'_>> = names
                .iter()
                .zip(&values)
                .map(|(name, values)| ldap::message::Attribute {
                    name,
                    values: ldap::message::List::from(values),
                })
                .collect();
            session.add(&format!("cn={cn},ou=people,{SUFFIX}"), &attributes).unwrap();
        };
        add("Tatyana Larina", "Foreign", number, "x");
        let step = Step { agent: DIRECTORY, kind: StepKind::Export };
        let result = metadirectory.run(step, &mut |_| true).unwrap();
        assert_eq!(
            (result.outcome(), result.statistics.of("export-add")),
            (outcome, if outcome == "success" { 2 } else { 1 }),
            "{result:?}"
        );
        let expected =
            if outcome == "success" { "cn=Tatyana Larina: Larina" } else { "cn=Tatyana Larina: Foreign" };
        assert_eq!(entries(&slapd, "sn")[1], expected);
        let again = metadirectory.run(step, &mut |_| true).unwrap();
        assert_eq!(again.failures.len(), usize::from(outcome != "success"), "{again:?}");
        // An import lets the join rule decide.
        if number == "1" {
            for kind in [StepKind::FullImport, StepKind::DeltaSynchronization] {
                run(&mut metadirectory, DIRECTORY, kind);
            }
            for _ in 0..2 {
                day(&mut metadirectory);
            }
            assert_eq!(entries(&slapd, "sn"), ["cn=Ada O'Neil: O'Neil", "cn=Tatyana Larina: Larina"]);
        } else {
            let why = &again.failures[0].text;
            assert!(
                why.contains("no join rule of directory says that it is the same: it is not adopted"),
                "{why}"
            );
        }
    }
}

/// The administrator of the directory reads the hash of `userPassword`, which is neither stored nor compared.
fn a_new_user_binds_with_the_delivered_password(place: Place) {
    let Some(slapd) = start(organization(""), "") else { return };
    staff(&place, &[(1, "Tatyana", "Larina", "active"), (2, "Ada", "O'Neil", "active")]);
    let passwords = place.scratch.join("passwords");
    let rule = format!(
        "[outbound.write_only]\nuserPassword = {{ generate = {{ file = \"{}\" }} }}\n[safety]",
        passwords.display()
    );
    let mut metadirectory = open_with(&text(&place, &slapd, CN).replace("[safety]", &rule));
    let did = day(&mut metadirectory);
    assert_eq!(did[2].statistics.of("export-add"), 2, "{did:?}");
    assert_eq!(did[3].statistics.of("exported-change-not-reimported"), 0, "{did:?}");
    let text = std::fs::read_to_string(&passwords).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for line in &lines {
        let server: Server = slapd.url().parse().unwrap();
        let mut session = Session::connect(&server, &Options::default()).unwrap();
        let (dn, value) = (line["object"].as_str().unwrap(), line["value"].as_str().unwrap());
        session.bind(dn, value.as_bytes()).unwrap_or_else(|error| panic!("{dn}: {error}"));
    }
    // A user chooses another password, a name changes: nothing is sent again.
    staff(&place, &[(1, "Tatyana", "Gremina", "active"), (2, "Ada", "O'Neil", "active")]);
    let before = entries(&slapd, "userPassword:");
    let did = day(&mut metadirectory);
    assert_eq!(did[2].statistics.iter().collect::<Vec<_>>(), [("export-rename", 1)]);
    let hashes = |entries: Vec<String>| {
        let mut hashes: Vec<String> =
            entries.iter().filter_map(|line| Some(line.split_once(": ")?.1.to_string())).collect();
        hashes.sort();
        hashes
    };
    assert_eq!(hashes(entries(&slapd, "userPassword:")), hashes(before));
    assert_eq!(std::fs::read_to_string(&passwords).unwrap(), text);
    for agent in [STAFF, DIRECTORY] {
        run(&mut metadirectory, agent, StepKind::FullSynchronization);
    }
    assert_eq!(day(&mut metadirectory)[2].statistics.iter().collect::<Vec<_>>(), []);
}
