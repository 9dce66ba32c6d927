//! Tests of join rules that compare as the schema of a directory does: nobody gets a second entry because of a
//! capital letter or a space.

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};

use super::*;
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    a_person_has_one_entry_however_a_value_is_written,
    sources_that_write_a_value_differently_meet_in_any_order,
    a_rule_of_its_own_decides_against_the_schema,
    a_schema_that_is_not_readable_is_reported_with_what_applies,
    an_attribute_that_the_schema_does_not_describe_is_reported_with_what_applies,
}

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

/// Three people whose values have each its own spelling, here and in the staff file.
const ENTRIES: [(&str, &str, &str, &str); 3] = [
    ("Ada", "Ada.Byron@Example.com", "+47 22 33 44", "cn=Alan,  OU=People,dc=example, dc=com"),
    ("Alan", "alan@example.com", "+47-11-22-33", "cn=Grace,ou=people,dc=example,dc=com"),
    ("Grace", "GRACE@example.com", "+47 999", "CN=Ada,ou=people,DC=example,DC=com"),
];
const STAFF_FILE: &str = "id;mail;phone;see\n\
    1;ada.byron@example.com;+47223344;cn=alan,ou=people,dc=example,dc=com\n\
    2;Alan@Example.COM;+47 112233;cn=grace, ou=people, dc=example, dc=com\n\
    3;grace@example.com;+47-9 9 9;cn=ada,ou=people,dc=example,dc=com\n";

fn entry(name: &str, mail: &str, phone: &str, see: &str) -> String {
    format!(
        "dn: cn={name},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: {name}\nsn: {name}\nmail: {mail}\n\
         telephoneNumber: {phone}\nseeAlso: {see}\n\n"
    )
}

fn ldif() -> String {
    let entries = ENTRIES.iter().map(|(name, mail, phone, see)| entry(name, mail, phone, see));
    organization("") + &entries.collect::<String>()
}

/// A staff file and a directory, whose people are joined by one attribute. `more` is added to the join rule of the
/// directory, `project` is whether the directory is a source too.
fn config(place: &Place, slapd: &Slapd, join: &str, more: &str, project: bool) -> String {
    format!(
        r#"
[store]
{store}
durability = "off"
commit_objects = 2

[metaverse.person]
attributes = {{ id = "text", mail = "text", phone = "text", see = "text" }}

[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
delimiter = ";"

[agents.directory]
{keys}base = "ou=people,{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
attributes = ["objectClass", "cn", "sn", "mail", "telephoneNumber", "seeAlso", "title"]
anchor = "entryUUID"
delta = "modifyTimestamp"

[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "{join}", mv = "{join}" }}]
project = true
flow = {{ id = "id", mail = {{ from = "mail", precedence = 1 }}, phone = {{ from = "phone", precedence = 1 }}, see = {{ from = "see", precedence = 1 }} }}

[[inbound]]
agent = "directory"
to = "person"
project = {project}
join = [{{ cs = "{cs}", mv = "{join}"{more} }}]
flow = {{ mail = {{ from = "mail", precedence = 2 }}, phone = {{ from = "telephoneNumber", precedence = 2 }}, see = {{ from = "seeAlso", precedence = 2 }} }}

[[outbound]]
agent = "directory"
from = "person"
dn = "'cn=new' + mv.id + ',ou=people,{SUFFIX}'"
flow = {{ objectClass = {{ constant = ["inetOrgPerson"] }}, title = "id", sn = "id" }}

[safety]
import = {{ least_share = 0.0 }}
"#,
        store = place.keys(),
        staff = place.scratch.join("staff.csv").display(),
        keys = keys(slapd),
        cs = match join {
            "phone" => "telephoneNumber",
            "see" => "seeAlso",
            same => same,
        },
    )
}

fn opened(config: &str) -> Metadirectory {
    Metadirectory::open(connectors::parse(config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

fn result(directory: &mut Metadirectory, agent: usize, kind: StepKind) -> StepResult {
    try_run(directory, agent, kind).unwrap()
}

fn entries(slapd: &Slapd) -> usize {
    slapd.export().matches("\nobjectClass: inetOrgPerson\n").count()
}

fn a_person_has_one_entry_however_a_value_is_written(place: Place) {
    for join in ["mail", "phone", "see"] {
        // Whether the staff file is synchronized before the schema is known.
        for is_early in [false, true] {
            let place = place.another();
            let Some(slapd) = start(ldif(), "") else { return };
            place.scratch.file("staff.csv", STAFF_FILE);
            let mut directory = opened(&config(&place, &slapd, join, "", false));
            if !is_early {
                run(&mut directory, DIRECTORY, StepKind::FullImport);
            }
            run(&mut directory, STAFF, StepKind::FullImport);
            run(&mut directory, STAFF, StepKind::DeltaSynchronization);
            if is_early {
                run(&mut directory, DIRECTORY, StepKind::FullImport);
            }
            run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
            let did = run(&mut directory, DIRECTORY, StepKind::Export);
            let changed = |of: &str| did.iter().find(|(what, _)| *what == of).map_or(0, |(_, count)| *count);
            assert_eq!((changed("export-add"), entries(&slapd)), (0, 3), "{join} {is_early} {did:?}");
            assert_eq!(directory.status().unwrap().1, 3, "{join} {is_early}");
            // Each person has the title of the own entry.
            let ldif = slapd.export().replace("\n ", "");
            for id in 1..=3 {
                assert_eq!(ldif.matches(&format!("\ntitle: {id}\n")).count(), 1, "{join} {ldif}");
            }

            // Somebody comes whose entry comes first, and one whose entry comes later; in delta runs.
            drop(directory);
            let mut directory = opened(&config(&place, &slapd, join, "", false));
            let mut session = root(&slapd);
            let other =
                |at: usize| ["Joan@Example.com", "+47 1-2", "CN=x, dc=example,DC=com"][at].to_string();
            add(&mut session, "Joan", &other(0), &other(1), &other(2));
            run(&mut directory, DIRECTORY, StepKind::DeltaImport);
            run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization);
            let file = format!("{STAFF_FILE}4;joan@example.COM;+4712;cn=X,dc=example,dc=com\n");
            place.scratch.file("staff.csv", file);
            run(&mut directory, STAFF, StepKind::FullImport);
            run(&mut directory, STAFF, StepKind::DeltaSynchronization);
            run(&mut directory, DIRECTORY, StepKind::Export);
            assert_eq!((directory.status().unwrap().1, entries(&slapd)), (4, 4), "{join} {is_early}");
            assert_eq!(slapd.export().matches("\ntitle: 4\n").count(), 1);
        }
    }
}

fn add(session: &mut Session, name: &str, mail: &str, phone: &str, see: &str) {
    use ldap::message::{Attribute, List, Value};
    let values = [("objectClass", "inetOrgPerson"), ("cn", name), ("sn", name), ("mail", mail)];
    let values = values.into_iter().chain([("telephoneNumber", phone), ("seeAlso", see)]);
    let values: Vec<(&str, [Value<'_>; 1])> =
        values.map(|(of, value)| (of, [Value(value.as_bytes())])).collect();
    let attributes: Vec<Attribute<'_>> =
        values.iter().map(|(name, values)| Attribute { name, values: List::from(values) }).collect();
    session.add(&format!("cn={name},ou=people,{SUFFIX}"), &attributes).unwrap();
}

fn sources_that_write_a_value_differently_meet_in_any_order(place: Place) {
    for order in [[DIRECTORY, STAFF], [STAFF, DIRECTORY]] {
        let place = place.another();
        let Some(slapd) = start(ldif(), "") else { return };
        place.scratch.file("staff.csv", STAFF_FILE);
        let mut directory = opened(&config(&place, &slapd, "mail", "", true));
        for agent in order {
            run(&mut directory, agent, StepKind::FullImport);
            run(&mut directory, agent, StepKind::DeltaSynchronization);
        }
        assert_eq!(directory.status().unwrap().1, 3, "{order:?}");
        // The address is written in another way.
        place.scratch.file("staff.csv", STAFF_FILE.replace("Alan@Example.COM", "ALAN@example.com"));
        for kind in [StepKind::FullImport, StepKind::DeltaSynchronization] {
            run(&mut directory, STAFF, kind);
        }
        run(&mut directory, DIRECTORY, StepKind::Export);
        assert_eq!((directory.status().unwrap().1, entries(&slapd)), (3, 3), "{order:?}");
    }
}

fn a_rule_of_its_own_decides_against_the_schema(place: Place) {
    let Some(slapd) = start(ldif(), "") else { return };
    place.scratch.file("staff.csv", STAFF_FILE);
    let mut directory = opened(&config(&place, &slapd, "mail", ", ignore_case = false", false));
    for (agent, kind) in [
        (DIRECTORY, StepKind::FullImport),
        (DIRECTORY, StepKind::DeltaSynchronization),
        (STAFF, StepKind::FullImport),
        (STAFF, StepKind::DeltaSynchronization),
    ] {
        run(&mut directory, agent, kind);
    }
    // Nobody is found: three new entries would be made.
    assert_eq!(directory.status().unwrap().0[DIRECTORY].1.pending_exports, 3);
    drop(directory);
    // Without it the schema decides. The rules changed, and their keys are built again.
    let mut directory = opened(&config(&place, &slapd, "mail", "", false));
    let refused = try_run(&mut directory, DIRECTORY, StepKind::DeltaSynchronization).unwrap_err();
    let why = "join rules compare `mail` of directory without case and additional spaces";
    assert!(refused.to_string().contains(why), "{refused}");
    run(&mut directory, DIRECTORY, StepKind::FullImport);
    run(&mut directory, DIRECTORY, StepKind::FullSynchronization);
    run(&mut directory, STAFF, StepKind::FullSynchronization);
    run(&mut directory, DIRECTORY, StepKind::Export);
    assert_eq!(entries(&slapd), 3);
}

fn a_schema_that_is_not_readable_is_reported_with_what_applies(place: Place) {
    let closed = "database frontend\naccess to dn.base=\"cn=Subschema\" by * none\naccess to * by * read\n";
    let Some(slapd) = start(ldif(), closed) else { return };
    place.scratch.file("staff.csv", STAFF_FILE);
    let mut directory = opened(&config(&place, &slapd, "mail", "", false));
    let did = result(&mut directory, DIRECTORY, StepKind::FullImport);
    let reported = did.reported();
    assert!(reported.contains("reading the schema of ldap://127.0.0.1"), "{reported}");
    assert!(reported.contains("join rules compare `mail` without case and additional spaces"), "{reported}");
    assert!(reported.contains("`ignore_case`"), "{reported}");
    assert_eq!(did.outcome(), "success");
    run(&mut directory, STAFF, StepKind::FullImport);
    run(&mut directory, STAFF, StepKind::DeltaSynchronization);
    run(&mut directory, DIRECTORY, StepKind::Export);
    assert_eq!(entries(&slapd), 3);
    // A rule that decides by itself does not read the schema.
    drop(directory);
    let mut directory = opened(&config(&place, &slapd, "mail", ", ignore_case = true", false));
    assert_eq!(result(&mut directory, DIRECTORY, StepKind::FullImport).reported(), "");
}

fn an_attribute_that_the_schema_does_not_describe_is_reported_with_what_applies(place: Place) {
    let Some(slapd) = start(ldif(), "") else { return };
    let text = config(&place, &slapd, "mail", "", false);
    let own =
        "join = [{ cs = \"mail\", mv = \"mail\" }]\nflow = { mail = { from = \"mail\", precedence = 2 }";
    assert!(text.contains(own));
    let text = text.replace(own, &own.replacen("cs = \"mail\"", "cs = \"employeeType;x-none\"", 1));
    let mut directory = opened(&text);
    assert_eq!(result(&mut directory, DIRECTORY, StepKind::FullImport).reported(), "");
    drop(directory);
    let mut directory = opened(&text.replace("employeeType;x-none", "badgeColour"));
    let reported = result(&mut directory, DIRECTORY, StepKind::FullImport).reported();
    let why = "the schema of directory does not say how `badgeColour` is compared: join rules compare it without case \
               and additional spaces; write `ignore_case`";
    assert!(reported.contains(why), "{reported}");
}
