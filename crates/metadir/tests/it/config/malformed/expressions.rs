//! Mistakes in expressions.

use super::{GROUPS, messages};

#[test]
fn expressions_that_never_work() {
    let shown = messages(
        GROUPS,
        &[
            ("a quote is missing", &[("'cn', mv.name)", "'cn, mv.name)")], 1),
            ("a bracket is missing", &[("rdn('cn', mv.name)", "rdn('cn', mv.name")], 1),
            ("an operator is missing", &[("mv.name) + ',ou", "mv.name) ',ou")], 1),
            ("a single equals sign", &[("cs.kind == 'group'", "cs.kind = 'group'")], 1),
            (
                "words instead of operators",
                &[("cs.kind == 'group'", "cs.kind == 'group' and has(cs.name)")],
                1,
            ),
            ("a text without quotes", &[("cs.kind == 'group'", "cs.kind == group")], 1),
            ("an attribute without its object", &[("cs.name.startsWith", "name.startsWith")], 1),
            ("the object of the other side", &[("cs.kind == 'group'", "mv.kind == 'group'")], 1),
            ("an unknown function", &[("cs.name.startsWith('Test')", "cs.name.toLower() == 'test'")], 1),
            ("a misspelt function", &[("cs.name.startsWith('Test')", "cs.name.startswith('Test')")], 1),
            ("an unknown global function", &[("rdn('cn', mv.name)", "concat('cn=', mv.name)")], 1),
            (
                "a function with a wrong argument",
                &[("cs.name.startsWith('Test')", "cs.name.startsWith(4)")],
                1,
            ),
            ("a text in place of a condition", &[("when = \"mv.active\"", "when = \"mv.status\"")], 1),
            (
                "a text after a logical operator",
                &[("when = \"mv.active\"", "when = \"mv.active && mv.status\"")],
                1,
            ),
            ("a constant text as a condition", &[("when = \"mv.active\"", "when = \"'active'\"")], 1),
            (
                "an inbound condition that is a text",
                &[("cs.name.startsWith('Test')", "cs.name + cs.kind")],
                1,
            ),
            ("a text compared with a number", &[("cs.name.startsWith('Test')", "cs.grade > 3")], 1),
            ("a name that is a truth value", &[("dn = \"mv.id\"", "dn = \"mv.active\"")], 1),
            ("an unknown attribute in an expression", &[("when = \"mv.active\"", "when = \"mv.activ\"")], 1),
            (
                "a name without a base",
                &[("rdn('cn', mv.name) + ',ou=groups,dc=plim,dc=example'", "rdn('cn', mv.name)")],
                1,
            ),
            (
                "a name outside the base",
                &[("mv.name) + ',ou=groups,dc=plim", "mv.name) + ',ou=groups,dc=plum")],
                1,
            ),
            ("a name without a comma", &[("mv.name) + ',ou=groups", "mv.name) + 'ou=groups")], 1),
            (
                "a name that is no distinguished name",
                &[("rdn('cn', mv.name) + ',ou=groups,dc=plim,dc=example'", "mv.name")],
                1,
            ),
            (
                "a counter in the first candidate",
                &[("dn = \"mv.id\"", "dn = { candidates = [\"mv.id + string(n)\", \"mv.id\"] }")],
                1,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}
