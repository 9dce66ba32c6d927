//! Mistakes in the rules.

use super::{GROUPS, messages};

#[test]
fn names_and_keys_of_rules() {
    let shown = messages(
        GROUPS,
        &[
            ("an unknown type", &[("to = \"group\"", "to = \"groups\"")], 1),
            ("no agent", &[("agent = \"phones\"\n", "")], 1),
            ("an attribute that the type lacks", &[("cn = \"name\"\nsn", "cn = \"nam\"\nsn")], 1),
            (
                "~ an attribute without its declaration, used several times",
                &[("id = \"text\", name", "name")],
                1,
            ),
            ("a flow from right to left", &[("id = \"number\"", "number = \"id\"")], 1),
            (
                "a flow with two sources",
                &[("status = \"status\"", "status = { from = \"status\", constant = \"x\" }")],
                1,
            ),
            (
                "a flow with a misspelt source",
                &[("expression = \"cs.status ==", "expresion = \"cs.status ==")],
                1,
            ),
            ("a flow that is a number", &[("status = \"status\"", "status = 3")], 1),
            (
                "a key below the table of flows",
                &[
                    ("when = \"has(mv.name)\"\n", ""),
                    ("sn = \"name\"\n", "sn = \"name\"\nwhen = \"has(mv.name)\"\n"),
                ],
                1,
            ),
            ("an expression without its table", &[("id = \"number\"", "id = \"cs.site + cs.number\"")], 1),
            ("an outbound expression without its table", &[("sn = \"name\"", "sn = \"mv.name + '!'\"")], 1),
            ("a join with the object in front", &[("cs = \"number\"", "cs = \"cs.number\"")], 1),
            (
                "a join of a type of its own",
                &[("join = [{ cs = \"number\", mv = \"id\" }]", "join = \"number = id\"")],
                1,
            ),
            ("a join with one side", &[("{ cs = \"number\", mv = \"id\" }", "{ cs = \"number\" }")], 1),
            (
                "a join with an unknown attribute",
                &[("cs = \"number\", mv = \"id\"", "cs = \"number\", mv = \"ID\"")],
                1,
            ),
            ("a precedence beside none", &[("precedence = 2", "secret = false")], 1),
            ("the same precedence twice", &[("precedence = 2", "precedence = 1")], 1),
            (
                "a precedence in an outbound flow",
                &[("sn = \"name\"", "sn = { from = \"name\", precedence = 1 }")],
                1,
            ),
            ("no name", &[("dn = \"mv.id\"\n", "")], 1),
            ("a name that is a constant of TOML", &[("dn = \"mv.id\"", "dn = true")], 1),
            ("an unknown way to deprovision", &[("deprovision = \"delete\"", "deprovision = \"remove\"")], 1),
            (
                "no value that disables",
                &[("{ disable = { title = \"left\" }, delete_after = \"90d\" }", "{ disable = {} }")],
                1,
            ),
            ("a grace period in months", &[("\"90d\"", "\"3 months\"")], 1),
            (
                "a password as a constant",
                &[(
                    "userPassword = { generate = { file = \"passwords.jsonl\" } }",
                    "userPassword = { constant = \"geheim\" }",
                )],
                1,
            ),
            ("passwords that go nowhere", &[("{ file = \"passwords.jsonl\" }", "{ length = 12 }")], 1),
            (
                "a write-only value that flows too",
                &[("sn = \"name\"", "sn = \"name\"\nuserPassword = \"id\"")],
                1,
            ),
            (
                "~ the same [[outbound]] twice",
                &[("agent = \"cloud\"\nfrom", "agent = \"directory\"\nfrom")],
                1,
            ),
            (
                "several mistakes, each once",
                &[
                    ("to = \"group\"", "to = \"grop\""),
                    ("filter = \"cs.name", "fliter = \"cs.name"),
                    ("sn = \"name\"", "sn = \"nmae\""),
                    ("\"90d\"", "90"),
                    ("at = \"02:00\"", "at = \"2\""),
                ],
                5,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn references() {
    let shown = messages(
        GROUPS,
        &[
            ("a reference flows into a text", &[("status = \"status\"", "status = \"manager\"")], 1),
            (
                "a text flows into a reference",
                &[("manager = \"manager\"\n\n[[inbound]]", "manager = \"boss\"\n\n[[inbound]]")],
                1,
            ),
            (
                "an expression over a reference",
                &[("objects = \"cs.kind == 'group'\"", "objects = \"has(cs.members)\"")],
                1,
            ),
            (
                "a join by a reference",
                &[("cs = \"number\", mv = \"id\"", "cs = \"manager\", mv = \"id\"")],
                1,
            ),
            (
                "~ a target that does not know of references",
                &[("references = [\"manager\", \"member\"]", "references = [\"member\"]")],
                1,
            ),
            (
                "several references flow into one",
                &[
                    ("manager = \"reference\"", "manager = \"reference\", seconds = \"reference\""),
                    (
                        "manager = \"manager\"\n\n[[inbound]]",
                        "manager = \"manager\"\n\n[[inbound]]\nagent = \"directory\"\nto = \"person\"\nobjects = \"cs.objectClass == 'x'\"\nflow = { seconds = \"member\" }\n\n[[inbound]]",
                    ),
                ],
                1,
            ),
            (
                "references to members of another agent",
                &[
                    ("objects = \"cs.kind == 'group'\"", "objects = \"cs.kind == 'group'\""),
                    (
                        "[agents.payroll]",
                        "[agents.lists]\ntype = \"delimited\"\npath = \"lists.csv\"\nanchor = \"name\"\nvalue_separator = \"|\"\nreferences = \"members\"\n[agents.payroll]",
                    ),
                    (
                        "agent = \"staff\"\nto = \"group\"\nobjects = \"cs.kind == 'group'\"",
                        "agent = \"lists\"\nto = \"group\"",
                    ),
                ],
                1,
            ),
            (
                "~ an anchor of several attributes that references use",
                &[("anchor = \"number\"", "anchor = [\"number\", \"site\"]")],
                1,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}
