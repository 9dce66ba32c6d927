//! Join rules: what a configuration may say.

use plimsoll_metadir::config::JoinPart;

const EXAMPLE: &str = r#"
[store]
sqlite = "metadirectory.db"
[metaverse]
person.attributes = { id = "text", sn = "text", born = "text", room = "text" }
[agents.staff]
type = "delimited"
path = "staff.csv"
anchor = "id"
[agents.phones]
type = "delimited"
path = "phones.csv"
anchor = "key"
[[inbound]]
agent = "staff"
to = "person"
project = true
flow = { id = "id", sn = "sn", born = "born", room = { from = "room", precedence = 2 } }
[[inbound]]
agent = "phones"
to = "person"
join = [
  { cs = ["name", { expression = "cs.born" }], mv = ["sn", "born"], ignore_case = true },
  { cs = { expression = "'E' + cs.number" }, mv = "id" },
]
flow = { room = { from = "room", precedence = 1 } }
"#;

#[test]
fn a_join_compares_several_values_and_computed_ones() {
    let config = connectors::parse(EXAMPLE).unwrap();
    let joins = &config.inbound[1].joins;
    assert_eq!((joins[0].cs.len(), joins[0].mv.len(), joins[0].ignore_case), (2, 2, Some(true)));
    assert!(matches!(&joins[1].cs[..], [JoinPart::Expression(made)] if made.uses() == ["number"]));
    assert_eq!(config.only_read(0), ["born", "name", "number", "room"]);
}

#[test]
fn what_is_wrong_with_joins_and_precedences_is_reported_with_its_lines() {
    for (from, to, expected) in [
        ("mv = [\"sn\", \"born\"]", "mv = \"sn\"", &[(23, "a join compares 2 values with 1")][..]),
        ("mv = [\"sn\", \"born\"]", "mv = [\"sn\", \"bron\"]", &[(23, "has no attribute `bron`")]),
        ("mv = \"id\"", "mv = []", &[(24, "is a list of 0 values")]),
        ("mv = \"id\"", "mv = 3", &[(24, "is not an attribute")]),
        (", mv = \"id\"", "", &[(24, "has no `mv`")]),
        ("expression = \"'E' +", "expresion = \"'E' +", &[(24, "unknown key")]),
        (
            "room = { from = \"room\", precedence = 2 }",
            "room = \"room\"",
            &[(18, "has no precedence, but that of line 26 has 1")],
        ),
        ("precedence = 2", "precedence = 1", &[(26, "has precedence 1, and so has that of line 18")]),
    ] {
        let text = EXAMPLE.replacen(from, to, 1);
        assert_ne!(text, EXAMPLE, "{from}");
        let mistakes = connectors::parse(&text).unwrap_err();
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        assert_eq!(mistakes.len(), expected.len(), "{to}: {mistakes:?}");
        for (mistake, (at, what)) in mistakes.iter().zip(expected) {
            assert!(line(mistake.span.start) == *at && mistake.what.contains(what), "{to}: {mistake:?}");
        }
    }
}

#[test]
fn a_precedence_of_rules_is_that_of_their_flows() {
    let plain = EXAMPLE.replace(", precedence = 2", "").replace(", precedence = 1", "");
    let several = plain.replace("flow = { room = ", "flow = { sn = \"name\", id = \"number\", room = ");
    for (text, what) in [
        (&plain, "the flow into `room` has no precedence, and that of line 18 has none either"),
        (
            &several,
            "the flows into `id`, `room` and 1 more have no precedence, and those from line 18 have none either",
        ),
    ] {
        let mistakes = connectors::parse(text).unwrap_err();
        assert_eq!(mistakes.iter().map(|of| of.what.as_str()).collect::<Vec<_>>(), [what]);
        assert_eq!(text[..mistakes[0].span.start].matches('\n').count() + 1, 26);
    }
    let ranked = several
        .replace("project = true\n", "project = true\nprecedence = 2\n")
        .replace("agent = \"phones\"\n", "agent = \"phones\"\nprecedence = 1\n");
    let ranks = |text: &str| -> Vec<Vec<u32>> {
        let config = connectors::parse(text).unwrap();
        config.inbound.iter().map(|rules| rules.flows.iter().map(|flow| flow.precedence).collect()).collect()
    };
    assert_eq!(ranks(&ranked), [vec![2, 2, 2, 2], vec![1, 1, 1]]);
    // A flow may have its own.
    let own = ranked
        .replace("room = { from = \"room\" } }\n[[", "room = { from = \"room\", precedence = 7 } }\n[[");
    assert!(ranks(&own)[0].contains(&7), "{own}");
    let same = connectors::parse(&ranked.replace("precedence = 2", "precedence = 1")).unwrap_err();
    let what = "the flows into `id`, `room` and 1 more have precedence 1, and so have those from line 19";
    assert_eq!(same.iter().map(|of| of.what.as_str()).collect::<Vec<_>>(), [what]);
}
