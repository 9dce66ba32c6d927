//! TOML that is not well-formed, and values of the wrong type.

use super::{GROUPS, init, messages};

#[test]
fn quotes_brackets_and_duplicate_tables() {
    let shown = messages(
        &init(),
        &[
            ("a text without quotes", &[("path = \"staff.csv\"", "path = staff.csv")], 1),
            ("a quote is missing at the end", &[("path = \"staff.csv\"", "path = \"staff.csv")], 1),
            ("a quote is missing at the beginning", &[("path = \"staff.csv\"", "path = staff.csv\"")], 1),
            (
                "a Windows path in double quotes",
                &[("path = \"staff.csv\"", "path = \"C:\\Users\\hr\\staff.csv\"")],
                1,
            ),
            ("typographic quotes", &[("path = \"staff.csv\"", "path = “staff.csv”")], 1),
            (
                "double quotes inside double quotes",
                &[("\"has(mv.displayName)\"", "\"mv.displayName != \"\"\"")],
                1,
            ),
            ("a colon instead of an equals sign", &[("path = \"staff.csv\"", "path: \"staff.csv\"")], 1),
            ("a key without a value", &[("path = \"staff.csv\"", "path =")], 1),
            ("a table twice", &[("[agents.phones]", "[agents.staff]")], 1),
            ("a key twice", &[("path = \"staff.csv\"", "path = \"staff.csv\"\npath = \"people.csv\"")], 1),
            ("a bracket of a table is not closed", &[("[agents.staff]", "[agents.staff")], 1),
            (
                "a list is not closed",
                &[("\"completed-discovery-errors\"]", "\"completed-discovery-errors\"")],
                1,
            ),
            ("a name with a blank", &[("[agents.staff]", "[agents.staff members]")], 1),
            ("a comment with slashes", &[("[agents.staff]", "// staff\n[agents.staff]")], 1),
            ("a comment with a semicolon", &[("[agents.staff]", "; staff\n[agents.staff]")], 1),
        ],
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn values_of_the_wrong_type() {
    let shown = messages(
        GROUPS,
        &[
            ("a number instead of a text", &[("\"metadirectory.db\"", "17")], 1),
            ("a list instead of a text", &[("\"staff.csv\"", "[\"staff.csv\"]")], 1),
            (
                "a truth value in quotes",
                &[("project = true", "project = true\nmultiple_connectors = \"yes\"")],
                1,
            ),
            (
                "a number in quotes",
                &[("sqlite = \"metadirectory.db\"", "sqlite = \"m.db\"\ncommit_objects = \"1000\"")],
                1,
            ),
            (
                "a number out of range",
                &[("sqlite = \"metadirectory.db\"", "sqlite = \"m.db\"\ncommit_objects = 50_000")],
                1,
            ),
            ("a time with a unit", &[("[agents.cloud]", "timeout_s = \"60s\"\n[agents.cloud]")], 1),
            ("more than all", &[("\"10%\"", "\"150%\"")], 1),
            ("a percentage without its sign", &[("\"10%\"", "10")], 1),
            ("a share that is a word", &[("\"10%\"", "\"ten\"")], 1),
            ("an unknown unit", &[("keep = \"365d\"", "keep = \"1 year\"")], 1),
            (
                "single brackets",
                &[(
                    "[[schedule]]\nrun = \"delta\"\nevery = \"5 min\"\n\n[[schedule]]\nrun = \"full\"\nat = \"02:00\"\ndays = [\"mon\", \"fri\"]",
                    "[schedule]\nrun = \"delta\"\nevery = \"5 min\"",
                )],
                1,
            ),
            ("double brackets", &[("[agents.payroll]", "[[agents.payroll]]")], 1),
            (
                "a text instead of a table",
                &[("flow = { \"name.familyName\" = \"name\" }", "flow = \"name\"")],
                1,
            ),
            (
                "a setting instead of a table",
                &[("[agents.payroll]", "[agents]\ncsv = \"x.csv\"\n[agents.payroll]")],
                1,
            ),
            ("a run that is one step", &[("[runs]\n", "[runs]\nimport = \"staff full-import\"\n")], 1),
        ],
    );
    insta::assert_snapshot!(shown);
}
