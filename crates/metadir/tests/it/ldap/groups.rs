//! Tests of groups that must have a member, in a directory whose schema says so: they come and go with their
//! members, or have a placeholder.

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{Link, Metadirectory};
use plimsoll_metadir::stage::StepError;

use super::*;
use crate::place::{Place, over_both_stores};
use crate::steps::{Did, run, try_run};

over_both_stores! {
    a_group_comes_and_goes_with_its_members,
    a_group_without_members_has_a_placeholder,
    a_filled_directory_keeps_its_groups,
    groups_that_lose_all_members_stop_at_the_threshold,
    a_condition_that_is_false_because_of_its_effect_is_reported,
    members_count_in_the_metaverse_or_in_the_system,
    a_group_that_loses_its_last_member_is_explained,
}

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

const NOBODY: &str = "cn=nobody,ou=people,dc=example,dc=com";
/// Groups exist while the directory has a member of them.
const WHILE_FILLED: (&str, &str) = ("when = \"connectors(mv.members) > 0\"\n", "\"members\"");
/// Groups without members have a placeholder.
const PLACEHOLDER: (&str, &str) =
    ("", "{ from = \"members\", empty = \"CN=Nobody, ou=people, dc=example, dc=com\" }");

fn config(place: &Place, slapd: &Slapd, (when, member): (&str, &str)) -> String {
    format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 3

[metaverse]
person = {{ attributes = {{ id = "text", name = "text", active = "boolean" }}, deleted_with = "staff" }}
group = {{ attributes = {{ id = "text", name = "text", members = "reference[]", seen = "reference[]" }}, deleted_with = "staff" }}

[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
value_separator = "|"
references = ["members"]

[agents.directory]
{keys}base = "{SUFFIX}"
filter = "(|(objectClass=inetOrgPerson)(objectClass=groupOfNames))"
attributes = ["objectClass", "cn", "sn", "employeeNumber", "description"]
anchor = "entryUUID"
references = ["member"]
delta = "content-synchronization"

[[inbound]]
agent = "staff"
to = "group"
objects = "cs.kind == 'group'"
project = true
flow = {{ id = "id", name = "name", members = "members" }}

[[inbound]]
agent = "staff"
to = "person"
project = true
flow = {{ id = "id", name = "name", active = {{ expression = "cs.kind != 'left'" }} }}

[[inbound]]
agent = "directory"
to = "group"
objects = "'groupOfNames' in cs.objectClass"
join = [{{ cs = "cn", mv = "name" }}]
flow = {{ seen = "member" }}

[[inbound]]
agent = "directory"
to = "person"
join = [{{ cs = "employeeNumber", mv = "id" }}]

[[outbound]]
agent = "directory"
from = "person"
when = "mv.active"
dn = "rdn('cn', mv.name) + ',ou=people,{SUFFIX}'"
deprovision = "delete"
flow = {{ objectClass = {{ constant = ["inetOrgPerson"] }}, cn = "name", sn = "name", employeeNumber = "id" }}

[[outbound]]
agent = "directory"
from = "group"
{when}dn = "rdn('cn', mv.name) + ',{SUFFIX}'"
deprovision = "delete"
flow = {{ objectClass = {{ constant = ["groupOfNames"] }}, cn = "name", member = {member} }}

[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ lost = 100, lost_share = 1.0, deletes = 20, delete_share = 1.0 }}
export = {{ deletes = 100, delete_share = 1.0 }}
"#,
        store = place.keys(),
        staff = place.scratch.join("staff.csv").display(),
        keys = keys(slapd),
    )
}

struct Firm {
    place: Place,
    slapd: Slapd,
    directory: Metadirectory,
}

fn opened(text: &str) -> Metadirectory {
    Metadirectory::open(connectors::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

impl Firm {
    fn new(place: Place, rules: (&str, &str), ldif: &str) -> Option<Firm> {
        let slapd = start(organization("") + ldif, "overlay syncprov\n")?;
        let directory = opened(&config(&place, &slapd, rules));
        Some(Firm { place, slapd, directory })
    }

    fn write(&self, rows: &[&str]) {
        self.place.scratch.file("staff.csv", format!("kind,id,name,members\n{}\n", rows.join("\n")));
    }

    /// Everything that a day has; returns what the export did.
    fn day(&mut self, rows: &[&str], is_full: bool) -> Did {
        self.write(rows);
        let synchronization =
            if is_full { StepKind::FullSynchronization } else { StepKind::DeltaSynchronization };
        run(&mut self.directory, STAFF, StepKind::FullImport);
        run(&mut self.directory, STAFF, synchronization);
        let did = run(&mut self.directory, DIRECTORY, StepKind::Export);
        let import = if is_full { StepKind::FullImport } else { StepKind::DeltaImport };
        let confirmed = run(&mut self.directory, DIRECTORY, import);
        assert!(confirmed.iter().all(|(what, _)| *what != "exported-change-not-reimported"), "{confirmed:?}");
        run(&mut self.directory, DIRECTORY, synchronization);
        // Nothing is left to do.
        assert_eq!(run(&mut self.directory, DIRECTORY, StepKind::Export), []);
        let again = run(&mut self.directory, DIRECTORY, StepKind::FullImport);
        assert!(again.iter().all(|(what, _)| *what == "stage-no-change"), "{again:?}");
        did
    }

    /// The groups of the directory with the names of their members.
    fn groups(&self) -> Vec<String> {
        let ldif = self.slapd.export().replace("\n ", "");
        let entries = ldif.split("\n\n").filter(|entry| entry.contains("objectClass: groupOfNames"));
        let group = |entry: &str| {
            let name = |dn: &str| dn.split([',', '=']).nth(1).unwrap().to_lowercase();
            let mut members: Vec<String> =
                entry.lines().filter_map(|line| Some(name(line.strip_prefix("member: ")?))).collect();
            members.sort();
            let of = entry.lines().find_map(|line| line.strip_prefix("dn: ")).unwrap();
            format!("{}: {}", name(of), members.join(" "))
        };
        let mut groups: Vec<String> = entries.map(group).collect();
        groups.sort();
        groups
    }
}

fn count(did: &Did, what: &str) -> u64 {
    did.iter().find(|(of, _)| *of == what).map_or(0, |(_, count)| *count)
}

fn a_group_comes_and_goes_with_its_members(place: Place) {
    for is_full in [false, true] {
        let Some(mut firm) = Firm::new(place.another(), WHILE_FILLED, "") else { return };
        run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
        let people = ["person,1,ada,", "person,2,alan,", "left,3,grace,"];
        let day = |groups: &[&'static str]| [&people[..], groups].concat();
        // Without members, with members that the directory has, with one that it does not have, and a group in a
        // group.
        firm.day(
            &day(&["group,e,empty,", "group,f,full,1|2", "group,l,left,3", "group,n,nested,f"]),
            is_full,
        );
        assert_eq!(firm.groups(), ["full: ada alan", "nested: full"]);
        // One member goes, then the last one; the group in which it was goes too.
        firm.day(&day(&["group,e,empty,", "group,f,full,2", "group,l,left,3", "group,n,nested,f"]), is_full);
        assert_eq!(firm.groups(), ["full: alan", "nested: full"]);
        let did = firm
            .day(&day(&["group,e,empty,", "group,f,full,", "group,l,left,3", "group,n,nested,f"]), is_full);
        assert_eq!((firm.groups(), count(&did, "export-delete")), (Vec::new(), 2));
        // Members come back, also one in a group that never had one.
        firm.day(&day(&["group,e,empty,1", "group,f,full,1", "group,l,left,3", "group,n,nested,f"]), is_full);
        assert_eq!(firm.groups(), ["empty: ada", "full: ada", "nested: full"]);
        // The member leaves the firm: nothing changes in the rows of the groups.
        let rows = ["left,1,ada,", "person,2,alan,", "person,3,grace,", "group,e,empty,1", "group,f,full,1"];
        firm.day(&[&rows[..], &["group,l,left,3", "group,n,nested,f"]].concat(), is_full);
        assert_eq!(firm.groups(), ["left: grace"]);
        // It is not in the source any more, and comes back.
        firm.day(&["person,2,alan,", "group,e,empty,1", "group,l,left,3|2"], is_full);
        assert_eq!(firm.groups(), ["left: alan"]);
        firm.day(&["person,2,alan,", "person,1,ada,", "group,e,empty,1", "group,l,left,3|2"], is_full);
        assert_eq!(firm.groups(), ["empty: ada", "left: alan"]);
    }
}

fn a_group_without_members_has_a_placeholder(place: Place) {
    for (is_full, is_person) in [(false, true), (true, true), (false, false)] {
        // The placeholder is a person of the directory, who is never a member; or it does not exist.
        let nobody = format!(
            "dn: {NOBODY}\nobjectClass: inetOrgPerson\ncn: nobody\nsn: nobody\nemployeeNumber: 9\n\n"
        );
        let ldif = if is_person { &*nobody } else { "" };
        let Some(mut firm) = Firm::new(place.another(), PLACEHOLDER, ldif) else { return };
        run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
        let day = |group: &'static str| {
            let nobody = if is_person { "person,9,nobody," } else { "left,9,nobody," };
            ["person,1,ada,", "person,2,alan,", nobody, "group,o,other,2", group]
        };
        firm.day(&day("group,g,group,"), is_full);
        assert_eq!(firm.groups(), ["group: nobody", "other: alan"]);
        let seen = |firm: &mut Firm, object: &str| {
            let shown = firm.directory.show(DIRECTORY, object).unwrap().unwrap().metaverse.unwrap();
            let seen = shown.attributes.iter().find(|attribute| attribute.name == "seen");
            seen.map_or(0, |attribute| attribute.values.len())
        };
        assert_eq!(seen(&mut firm, "cn=group,dc=example,dc=com"), 0);
        assert_eq!(seen(&mut firm, "cn=other,dc=example,dc=com"), 1);
        for members in ["group,g,group,1|2", "group,g,group,", "group,g,group,2", "group,g,group,"] {
            let did = firm.day(&day(members), is_full);
            assert_eq!(did, [("export-update", 1)], "{members}");
            let expected = match members.rsplit(',').next() {
                Some("1|2") => "group: ada alan",
                Some("2") => "group: alan",
                _ => "group: nobody",
            };
            assert_eq!(firm.groups(), [expected, "other: alan"], "{members}");
        }
        // The last member leaves the firm.
        let nobody = day("")[2];
        firm.day(&day("group,g,group,1"), is_full);
        firm.day(&["person,2,alan,", nobody, "group,g,group,1"], is_full);
        assert_eq!(firm.groups(), ["group: nobody"]);
        // Somebody removes the placeholder: it is restored like a member.
        let mut session = root(&firm.slapd);
        let alan = format!("cn=alan,ou=people,{SUFFIX}");
        let value = [ldap::message::Value(alan.as_bytes())];
        let attribute =
            ldap::message::Attribute { name: "member", values: ldap::message::List::from(&value) };
        let change = ldap::message::Change { operation: ldap::ModifyOperation::Replace, attribute };
        session.modify(&format!("cn=group,{SUFFIX}"), &[change]).unwrap();
        assert_eq!(firm.groups(), ["group: alan"]);
        run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport);
        run(&mut firm.directory, DIRECTORY, StepKind::DeltaSynchronization);
        firm.day(&["person,2,alan,", nobody, "group,g,group,1"], is_full);
        assert_eq!(firm.groups(), ["group: nobody"]);
    }
}

fn a_filled_directory_keeps_its_groups(place: Place) {
    let ldif = format!(
        "dn: cn=ada,ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: ada\nsn: ada\nemployeeNumber: 1\n\n\
         dn: cn=group,{SUFFIX}\nobjectClass: groupOfNames\ncn: group\nmember: cn=ada,ou=people,{SUFFIX}\n\n"
    );
    for is_directory_first in [true, false] {
        let Some(mut firm) = Firm::new(place.another(), WHILE_FILLED, &ldif) else { return };
        firm.write(&["person,1,ada,", "group,g,group,1"]);
        let mut order = [DIRECTORY, STAFF];
        if !is_directory_first {
            order.reverse();
        }
        for kind in [StepKind::FullImport, StepKind::DeltaSynchronization] {
            order.iter().for_each(|agent| drop(run(&mut firm.directory, *agent, kind)));
        }
        // The group is neither deleted nor made again before its members are known.
        assert_eq!(run(&mut firm.directory, DIRECTORY, StepKind::Export), [], "{is_directory_first}");
        assert_eq!(firm.groups(), ["group: ada"]);
    }
}

fn groups_that_lose_all_members_stop_at_the_threshold(place: Place) {
    let Some(mut firm) = Firm::new(place, WHILE_FILLED, "") else { return };
    let few = config(&firm.place, &firm.slapd, WHILE_FILLED).replace("deletes = 20", "deletes = 3");
    drop(firm.directory);
    firm.directory = opened(&few);
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let groups: Vec<String> = (0..4).map(|at| format!("group,g{at},group{at},1")).collect();
    let rows: Vec<&str> =
        groups.iter().map(String::as_str).chain(["person,1,ada,", "left,3,grace,"]).collect();
    firm.day(&rows, false);
    assert_eq!(firm.groups().len(), 4);
    let emptied: Vec<String> = groups.iter().map(|row| row.replace(",1", ",")).collect();
    let emptied: Vec<&str> =
        emptied.iter().map(String::as_str).chain(["person,1,ada,", "left,3,grace,"]).collect();
    firm.write(&emptied);
    run(&mut firm.directory, STAFF, StepKind::FullImport);
    // It stops as often as it is repeated, and also when the source did not change since.
    for _ in 0..2 {
        let stopped = try_run(&mut firm.directory, STAFF, StepKind::DeltaSynchronization).unwrap_err();
        assert!(matches!(&stopped, StepError::Threshold(why) if why.starts_with("4 objects")), "{stopped}");
        run(&mut firm.directory, STAFF, StepKind::FullImport);
    }
    // A command for another object does not make the removals either.
    let grace = "3";
    firm.directory.link(STAFF, grace, Link::Disconnect).unwrap();
    let did = try_run(&mut firm.directory, DIRECTORY, StepKind::Export).unwrap();
    assert_eq!((did.statistics.of("export-delete"), firm.groups().len()), (0, 4), "{did:?}");
    firm.directory.link(STAFF, grace, Link::Release).unwrap();
    drop(firm.directory);
    let config = config(&firm.place, &firm.slapd, WHILE_FILLED).replace("deletes = 20", "deletes = 4");
    firm.directory = opened(&config);
    firm.day(&emptied, false);
    assert_eq!(firm.groups().len(), 0);
}

fn a_condition_that_is_false_because_of_its_effect_is_reported(place: Place) {
    let rules = ("when = \"connectors(mv.members) < 2\"\n", "\"members\"");
    let Some(mut firm) = Firm::new(place, rules, "") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    // With itself the group has two members, without itself one.
    firm.write(&["person,1,ada,", "group,g,group,1|g", "group,h,other,1"]);
    run(&mut firm.directory, STAFF, StepKind::FullImport);
    let did = try_run(&mut firm.directory, STAFF, StepKind::DeltaSynchronization).unwrap();
    assert_eq!(did.statistics.of("flow-failure"), 1, "{did:?}");
    assert!(did.failures[0].text.contains("correct the condition"), "{did:?}");
    run(&mut firm.directory, DIRECTORY, StepKind::Export);
    assert!(firm.groups().contains(&"other: ada".to_string()), "{:?}", firm.groups());
}

fn members_count_in_the_metaverse_or_in_the_system(place: Place) {
    let rules = ("when = \"count(mv.members) > 1 && connectors(mv.members) > 0\"\n", "\"members\"");
    let Some(mut firm) = Firm::new(place, rules, "") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let people = ["person,1,ada,", "person,2,alan,", "left,3,grace,", "left,4,joan,"];
    let groups = [
        // One that does not exist does not count.
        "group,a,one,1|9",
        "group,b,one and another,1|3",
        "group,c,two,1|2",
        "group,d,two others,3|4",
    ];
    firm.day(&[&people[..], &groups].concat(), false);
    assert_eq!(firm.groups(), ["one and another: ada", "two: ada alan"]);
    let counts = |firm: &mut Firm, key: &str| {
        let shown = firm.directory.show(STAFF, key).unwrap().unwrap().metaverse.unwrap();
        let of = |name: &str| {
            let found = shown.attributes.iter().find(|attribute| attribute.name.starts_with(name));
            found.map(|attribute| attribute.values.join(" ")).unwrap_or_default()
        };
        (of("count(members)"), of("connectors(members)"))
    };
    assert_eq!(counts(&mut firm, "b"), ("2".into(), "1".into()));
    assert_eq!(counts(&mut firm, "d"), ("2".into(), "0".into()));
    // A source may be filtered by the number of its references.
    drop(firm.directory);
    let filtered = config(&firm.place, &firm.slapd, rules).replace(
        "objects = \"cs.kind == 'group'\"\n",
        "objects = \"cs.kind == 'group'\"\nfilter = \"count(cs.members) == 0\"\n",
    );
    firm.directory = opened(&filtered);
    firm.write(&[&people[..], &["group,a,one,", "group,c,two,1|2"]].concat());
    run(&mut firm.directory, STAFF, StepKind::FullImport);
    let did = run(&mut firm.directory, STAFF, StepKind::FullSynchronization);
    assert_eq!(count(&did, "connector-filtered"), 1, "{did:?}");
}

fn a_group_that_loses_its_last_member_is_explained(place: Place) {
    let Some(mut firm) = Firm::new(place, WHILE_FILLED, "") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    firm.day(&["person,1,ada,", "group,g,group,1"], false);
    firm.write(&["person,1,ada,", "group,g,group,"]);
    run(&mut firm.directory, STAFF, StepKind::FullImport);
    drop(firm.directory);
    let config = connectors::parse(&config(&firm.place, &firm.slapd, WHILE_FILLED)).unwrap();
    let mut preview = Metadirectory::preview(config, Box::new(|_| {})).unwrap();
    let text = preview.explain(STAFF, "g").unwrap().unwrap().text;
    let because = "out to directory: deprovisioned, because connectors(mv.members) > 0 is false";
    assert_eq!(text.matches("out to directory: ").count(), 2, "{text}");
    assert!(text.contains(because) && !text.contains("connectors(members)"), "{text}");
}
