//! References in rules: what a configuration may say.

use plimsoll_metadir::config::Deprovision;

const EXAMPLE: &str = r#"
[store]
sqlite = "metadirectory.db"
[metaverse]
person.attributes = { id = "text", boss = "reference" }
group.attributes = { id = "text", members = "reference[]" }
[agents.staff]
type = "delimited"
path = "staff.csv"
anchor = "id"
references = ["boss", "members"]
[agents.list]
type = "delimited"
path = "list.csv"
anchor = "key"
references = "boss"
[[inbound]]
agent = "staff"
to = "group"
objects = "cs.kind == 'group'"
flow = { id = "id", members = "members" }
[[inbound]]
agent = "staff"
to = "person"
join = [{ cs = "id", mv = "id" }]
flow = { id = "id", boss = "boss" }
[[outbound]]
agent = "list"
from = "person"
dn = "mv.id"
deprovision = { disable = { status = "left", room = "" } }
flow = { key = "id", boss = "boss" }
"#;

#[test]
fn references_flow_and_leavers_are_disabled() {
    let config = connectors::parse(EXAMPLE).unwrap();
    let left = [("room".to_string(), String::new()), ("status".into(), "left".into())];
    assert_eq!(config.outbound[0].deprovision, Deprovision::Disable(left.into()));
    assert!(config.inbound[0].objects.is_some() && config.inbound[1].objects.is_none());
    let texts = EXAMPLE.replace("{ disable = { status = \"left\", room = \"\" } }", "\"delete\"");
    assert_eq!(connectors::parse(&texts).unwrap().outbound[0].deprovision, Deprovision::Delete);
}

#[test]
fn what_is_wrong_with_references_is_reported() {
    for (from, to, line, what) in [
        ("anchor = \"id\"", "anchor = [\"id\", \"kind\"]", 11, "refer to others by the anchor"),
        (
            "members = \"members\" }",
            "members = \"names\" }",
            21,
            "`members` is a reference, but `names` is not one",
        ),
        ("{ id = \"id\", boss", "{ id = \"boss\", boss", 26, "flows into `id`, which is not a reference"),
        ("cs.kind == 'group'", "cs.boss == 'group'", 20, "reads `boss`, which refers to other objects"),
        ("{ cs = \"id\", mv = \"id\" }", "{ cs = \"boss\", mv = \"id\" }", 25, "a join compares values"),
        ("references = \"boss\"", "", 32, "`boss` gets references"),
        (
            "boss = \"boss\" }\n\n",
            "boss = \"id\" }\n\n",
            32,
            "`boss` refers to objects, and `id` is not a reference",
        ),
        ("flow = { key", "initial = { boss = \"boss\" }\nflow = { key", 32, "which does not flow once"),
        ("dn = \"mv.id\"", "dn = \"mv.boss\"", 30, "reads `boss`"),
        ("{ disable = { status = \"left\", room = \"\" } }", "{ }", 31, "names no value that disables"),
        (
            "{ disable = { status = \"left\", room = \"\" } }",
            "{ disabled = 1 }",
            31,
            "unknown key `disabled`",
        ),
        (
            "room = \"\" } }",
            "room = \"\" }, delete_after = \"3 months\" }",
            31,
            "`delete_after` cannot be \"3 months\"",
        ),
        ("{ disable = { status = \"left\", room = \"\" } }", "\"remove\"", 31, "cannot be \"remove\""),
        ("from = \"person\"", "from = \"group\"", 32, "has no attribute `boss`"),
        (
            "key = \"id\"",
            "key = { expression = \"string(connectors(mv.id))\" }",
            32,
            "`connectors(id)` counts objects, and `id` is not a reference",
        ),
        ("cs.kind == 'group'", "connectors(cs.boss) > 0", 20, "expression"),
        ("key = \"id\"", "key = { from = \"id\", empty = \"x\" }", 32, "`empty` of `key` is for references"),
        (
            "id = \"id\", boss",
            "id = { from = \"id\", empty = \"x\" }, boss",
            26,
            "`empty` is for flows of references",
        ),
    ] {
        let text = format!("{EXAMPLE}\n").replacen(from, to, 1);
        assert!(!EXAMPLE.contains("\n\n") && text != format!("{EXAMPLE}\n"), "{from}");
        let reported: Vec<(usize, String)> = connectors::parse(&text)
            .unwrap_err()
            .into_iter()
            .map(|mistake| (text[..mistake.span.start].matches('\n').count() + 1, mistake.what))
            .collect();
        assert!(reported.iter().any(|(at, said)| *at == line && said.contains(what)), "{what}: {reported:?}");
    }
}

#[test]
fn references_are_counted_and_have_a_placeholder() {
    let text = EXAMPLE
        .replace("cs.kind == 'group'", "count(cs.members) > 0")
        .replace("dn = \"mv.id\"", "dn = \"mv.id\"\nwhen = \"count(mv.boss) + connectors(mv.boss) > 0\"")
        .replace(
            "flow = { key = \"id\", boss = \"boss\" }",
            "flow = { key = \"id\", boss = { from = \"boss\", empty = \"0\" } }",
        );
    let config = connectors::parse(&text).unwrap();
    assert_eq!(config.outbound[0].when.as_ref().unwrap().uses(), ["boss", "boss"]);
    assert_eq!(config.outbound[0].flows.iter().find_map(|flow| flow.empty.as_deref()), Some("0"));
    // In a directory, it is a name.
    let list = "[agents.list]\ntype = \"delimited\"\npath = \"list.csv\"\nanchor = \"key\"";
    let directory =
        "[agents.list]\ntype = \"ldap\"\nurl = \"ldap://localhost\"\nbase = \"dc=x\"\nanchor = \"entryUUID\"";
    let mistakes = connectors::parse(&text.replace(list, directory)).unwrap_err();
    assert!(
        mistakes[0].what.contains("`empty` of `boss`, \"0\", is not the name of an object"),
        "{mistakes:?}"
    );
    assert!(connectors::parse(&text.replace(list, directory).replace("\"0\"", "\"cn=nobody\"")).is_ok());
}

#[test]
fn an_agent_provisions_a_type_once_and_takes_it_in_as_what_it_is() {
    let twice = EXAMPLE.to_string() + "[[outbound]]\nagent = \"list\"\nfrom = \"person\"\ndn = \"mv.id\"\n";
    let mistakes = connectors::parse(&twice).unwrap_err();
    assert!(mistakes[0].what.contains("two [[outbound]] provision `person` to list"), "{mistakes:?}");
    let as_other = EXAMPLE.to_string() + "[[inbound]]\nagent = \"list\"\nto = \"group\"\n";
    let mistakes = connectors::parse(&as_other).unwrap_err();
    assert!(mistakes[0].what.contains("would come in from there as `group`"), "{mistakes:?}");
    let with = as_other + "objects = \"cs.kind == 'group'\"\n";
    assert!(connectors::parse(&with).is_ok());
    // Earlier rules accept their objects; these rules accept the rest.
    let left = "[[inbound]]\nagent = \"list\"\nto = \"group\"\n";
    let own = "[[inbound]]\nagent = \"list\"\nto = \"person\"\nobjects = \"cs.kind == 'person'\"\n";
    assert!(connectors::parse(&format!("{EXAMPLE}{own}{left}")).is_ok());
    assert!(connectors::parse(&format!("{EXAMPLE}{left}{own}")).is_err());
}
