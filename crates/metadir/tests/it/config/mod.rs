//! What a configuration may say, and the errors in it.

mod joins;
mod malformed;
mod references;
mod schedule;
mod write_only;

use std::time::Duration;

use plimsoll_metadir::config::{Database, Source, Step, StepKind};
use plimsoll_metadir::store::Durability;

const EXAMPLE: &str = r#"
[store]
sqlite = "metadirectory.db"

[metaverse.person]
attributes = { employeeId = "text", displayName = "text", mail = "text[]", active = "boolean" }
deleted_with = "hr"

[agents.hr]
type = "delimited"
path = "people.csv"
anchor = "employee_number"

[agents.phones]
type = "delimited"
path = "phones.csv"
delimiter = ";"
anchor = ["number"]

[[inbound]]
agent = "hr"
to = "person"
filter = "cs.kind == 'test'"
join = [{ cs = "employee_number", mv = "employeeId" }]
project = true
[inbound.flow]
employeeId = "employee_number"
displayName = { expression = "cs.given + ' ' + cs.sn" }
active = { constant = "true" }

[[outbound]]
agent = "phones"
from = "person"
when = "mv.active"
dn = "mv.employeeId"
deprovision = "delete"
flow = { name = "displayName" }

[safety]
export = { deletes = 10, delete_share = "5%" }

[runs]
full = ["hr full-import", "hr full-synchronization", "phones export"]

[audit]
keep = "365d"
"#;

#[test]
fn a_whole_file_is_read() {
    let config = connectors::parse(EXAMPLE).unwrap();
    assert_eq!(config.agents.len(), 2);
    assert_eq!(config.types[0].deleted_with, [0]);
    assert!(config.types[0].attributes[3].several);
    assert_eq!(config.inbound[0].flows.len(), 3);
    assert_eq!(config.runs[0].steps[2], Step { agent: 1, kind: StepKind::Export });
    assert_eq!(config.audit_keep_s, Some(365 * 24 * 60 * 60));
    assert_eq!(config.safety.export_deletes, plimsoll_metadir::config::Threshold { count: 10, share: 0.05 });
    assert_eq!(config.safety.export_deletes.most(100), 5);
}

#[test]
fn everything_wrong_is_reported_at_once_with_its_place() {
    let cases = [
        ("sqlite = \"metadirectory.db\"", "sqlite = 3\ncommit_objects = 0"),
        ("mail = \"text[]\"", "mail = \"string\""),
        ("anchor = [\"number\"]", "anchors = [\"number\"]"),
        ("cs.given + ' ' +", "cs.given + ' ' + +* "),
        ("mv.active\"", "mv.activ\""),
        ("hr full-import", "hrs full-imports"),
    ];
    let mut text = EXAMPLE.to_string();
    for (from, to) in cases {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let mistakes = connectors::parse(&text).unwrap_err();
    let reported: Vec<String> = mistakes
        .iter()
        .map(|mistake| {
            let line = text[..mistake.span.start].matches('\n').count() + 1;
            format!("{line}: {}", mistake.what.split(':').next().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        reported,
        [
            "3: `sqlite` is not a text",
            "4: `commit_objects` is a number from 1 to 10000",
            "7: there is no type \"string\"",
            "19: unknown key `anchors` in [agents.phones]",
            "29: `expression` is not an expression",
            "35: `person` has no attribute `activ`",
            "44: there is no agent \"hrs\"",
            "44: there is no step \"full-imports\"",
        ]
    );
}

#[test]
fn a_constant_is_a_text_or_a_list_of_them() {
    let flow = "flow = { name = \"displayName\" }";
    let classes = "flow = { name = \"displayName\", objectClass = { constant = [\"top\", \"person\"] } }";
    let config = connectors::parse(&EXAMPLE.replace(flow, classes)).unwrap();
    let Source::Constant(values) = &config.outbound[0].flows[1].from else { panic!("{config:?}") };
    assert_eq!(values, &["top", "person"]);
    for (from, to, what) in [
        (flow, "flow = { name = { constant = [\"top\", 3] } }", "`constant` is not a text"),
        ("{ constant = \"true\" }", "{ constant = [\"true\", \"false\"] }", "`active` takes one value"),
    ] {
        let mistakes = connectors::parse(&EXAMPLE.replace(from, to)).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].what.starts_with(what), "{mistakes:?}");
    }
}

#[test]
fn a_store_is_in_one_database_and_says_nothing_to_the_other() {
    let with = |store: &str| EXAMPLE.replace("sqlite = \"metadirectory.db\"", store);
    let postgres = "postgres = \"host=/run/postgresql user=me dbname=identity\"";
    let read = connectors::parse(&with(&format!(
        "{postgres}\npassfile = \"p\"\ntimeout_s = 7\ndurability = \"off\""
    )))
    .unwrap();
    let Database::Postgres { server, durability } = &read.store.database else { panic!("{:?}", read.store) };
    assert_eq!((server.schema.as_str(), *durability), ("metadirectory", Durability::Off));
    assert_eq!(server.timeout, Duration::from_secs(7));
    assert_eq!(server.passfile.as_deref(), Some(std::path::Path::new("p")));
    for (store, line, what) in [
        ("", 2, "[store] has neither `sqlite` nor `postgres`".to_string()),
        (&*format!("sqlite = \"x\"\n{postgres}"), 4, "a store is in one of them".into()),
        ("postgres = 3", 3, "`postgres` is not a text".into()),
        ("postgres = \"host=db password=geheim\"", 3, "`postgres` holds a password".into()),
        (&*format!("{postgres}\nschema = \"a b\""), 4, "`schema` of [store] is not \"a b\"".into()),
        (&*format!("{postgres}\nschema = \"pg_x\""), 4, "`schema` of [store] is not \"pg_x\"".into()),
        (&*format!("{postgres}\ncache_bytes = 2000000"), 4, "`cache_bytes` has no effect".into()),
        ("sqlite = \"x\"\nschema = \"x\"", 4, "`schema` has no effect on a store in SQLite".into()),
        ("sqlite = \"x\"\npassfile = \"x\"", 4, "`passfile` has no effect on a store in SQLite".into()),
    ] {
        let text = with(store);
        let mistakes = connectors::parse(&text).unwrap_err();
        let [mistake] = mistakes.as_slice() else { panic!("{store}: {mistakes:?}") };
        assert_eq!(text[..mistake.span.start].matches('\n').count() + 1, line, "{store}");
        assert!(mistake.what.contains(&what), "{store}: {}", mistake.what);
        assert!(!format!("{mistake:?}").contains("geheim"));
    }
}
