//! Mistakes in runs and schedules.

use super::{GROUPS, messages};

#[test]
fn runs_and_schedules() {
    let shown = messages(
        GROUPS,
        &[
            (
                "an unknown step",
                &[("delta = { steps = [\"staff full-import\"", "delta = { steps = [\"staff import\"")],
                1,
            ),
            (
                "a misspelt step",
                &[("delta = { steps = [\"staff full-import\"", "delta = { steps = [\"staff full-inport\"")],
                1,
            ),
            (
                "a step and an agent in the wrong order",
                &[("delta = { steps = [\"staff full-import\"", "delta = { steps = [\"full-import staff\"")],
                1,
            ),
            (
                "a step without an agent",
                &[("delta = { steps = [\"staff full-import\"", "delta = { steps = [\"full-import\"")],
                1,
            ),
            ("an unknown agent", &[("\"cloud export\"", "\"clod export\"")], 1),
            (
                "no steps",
                &[(
                    "steps = [\"staff full-import\", \"staff delta-synchronization\", \"directory export\"], ",
                    "",
                )],
                1,
            ),
            ("an empty run", &[("[runs]\n", "[runs]\nnightly = []\n")], 1),
            (
                "an unknown outcome",
                &[("stop_after = \"completed-discovery-errors\"", "stop_after = \"errors\"")],
                1,
            ),
            (
                "a delta import of a system without one",
                &[("delta = { steps = [\"staff full-import\"", "delta = { steps = [\"staff delta-import\"")],
                1,
            ),
            (
                "an export of an agent without outbound rules",
                &[("\"cloud export\"", "\"payroll export\"")],
                1,
            ),
            (
                "the synchronization before the import",
                &[(
                    "[\"staff full-import\", \"staff delta-synchronization\", \"directory export\"]",
                    "[\"staff delta-synchronization\", \"staff full-import\", \"directory export\"]",
                )],
                1,
            ),
            (
                "the export before the synchronization",
                &[(
                    "[\"staff full-import\", \"staff delta-synchronization\", \"directory export\"]",
                    "[\"directory export\", \"staff full-import\", \"staff delta-synchronization\"]",
                )],
                1,
            ),
            ("an unknown run", &[("run = \"delta\"", "run = \"detla\"")], 1),
            ("~ a run with two schedules", &[("run = \"delta\"", "run = \"full\"")], 1),
            ("no time", &[("every = \"5 min\"\n", "")], 1),
            ("an unknown unit of time", &[("\"5 min\"", "\"5 minutes\"")], 1),
            ("a time without a unit", &[("\"5 min\"", "\"5\"")], 1),
            ("a number as a time", &[("\"5 min\"", "5")], 1),
            ("a time of day of other countries", &[("\"02:00\"", "\"2 am\"")], 1),
            ("a time of day without quotes", &[("\"02:00\"", "02:00")], 1),
            ("a day in full", &[("\"mon\"", "\"Monday\"")], 1),
            ("a time zone that is none", &[("\"UTC\"", "\"CEST\"")], 1),
            ("an address that others reach", &[("127.0.0.1:9464", "0.0.0.0:9464")], 1),
            ("a port alone", &[("\"127.0.0.1:9464\"", "9464")], 1),
            (
                "a system that does not report changes",
                &[("every = \"5 min\"", "every = \"5 min\"\non_change = \"cloud\"")],
                1,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}
