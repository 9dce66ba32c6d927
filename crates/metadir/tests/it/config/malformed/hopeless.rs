//! Configurations that are well-formed and cannot do what they are for.

use super::{GROUPS, init, messages};

#[test]
fn rules_without_effect() {
    let shown = messages(
        &init(),
        &[
            ("no projection", &[("project = true\n", "")], 1),
            ("no inbound rules that project the type", &[("project = true", "project = false")], 1),
            (
                "one attribute in two spellings",
                &[("cn = \"displayName\"", "cn = \"displayName\"\nCN = \"displayName\"")],
                1,
            ),
            (
                "one attribute in two tables in two spellings",
                &[("[outbound.flow]", "initial = { CN = \"login\" }\n[outbound.flow]")],
                1,
            ),
            (
                "a join in another case than the flows",
                &[(
                    "agent = \"directory\"\nto = \"person\"\njoin = [{ cs = \"employeeNumber\"",
                    "agent = \"directory\"\nto = \"person\"\njoin = [{ cs = \"employeenumber\"",
                )],
                1,
            ),
            ("an attribute that nothing sets", &[("phone = \"extension\", ", "")], 1),
            (
                "a condition over an attribute that nothing sets",
                &[("displayName = { expression = \"cs.givenName + ' ' + cs.sn\" }", "")],
                1,
            ),
            (
                "a target without a flow into its anchor",
                &[(
                    "[[outbound]]",
                    "[[outbound]]\nagent = \"phones\"\nfrom = \"person\"\nwhen = \"has(mv.phone)\"\ndn = \"mv.employeeId\"\nflow = { extension = \"phone\" }\n\n[[outbound]]",
                )],
                1,
            ),
            (
                "no rules",
                &[(
                    "[[inbound]]\nagent = \"phones\"\nto = \"person\"\njoin = [{ cs = \"employee\", mv = \"employeeId\" }]\nflow = { phone = \"extension\", mobile = \"mobile\" }\n",
                    "",
                )],
                2,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn values_that_do_not_fit() {
    let shown = messages(
        GROUPS,
        &[
            (
                "several values flow into one",
                &[
                    (
                        "manager = \"manager\"\n\n[[inbound]]",
                        "manager = \"manager\"\n\n[[inbound]]\nagent = \"directory\"\nto = \"person\"\nobjects = \"has(cs.uid)\"\nflow = { status = \"mail\" }\n\n[[inbound]]",
                    ),
                    ("status = \"status\"\n", ""),
                ],
                1,
            ),
            (
                "two constants for one value",
                &[("status = \"status\"", "status = { constant = [\"a\", \"b\"] }")],
                1,
            ),
            (
                "a constant of another type",
                &[(
                    "active = { expression = \"cs.status == 'active'\" }",
                    "active = { constant = \"maybe\" }",
                )],
                1,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}
