//! A test that cannot run on a machine says so through `testkit::lacks`, which finds out whether that is so and records it. One
//! that prints a line and returns counts as passed.

use crate::fault::Fault;

/// The one place that prints it.
const HOME: &str = "crates/testkit/src/need.rs";

/// Checks one file of ours.
pub(super) fn check(name: &str, text: &str) -> Vec<Fault> {
    if !name.starts_with("crates/") || !name.ends_with(".rs") || name == HOME {
        return Vec::new();
    }
    let is_skip = |line: &str| line.contains("println!(\"") && line.contains("skipped");
    let lines = text.lines().enumerate().filter(|(_, line)| is_skip(line));
    lines
        .map(|(at, _)| {
            Fault::new(
                format!("{name}:{}", at + 1),
                "prints that a test is skipped, which then counts as passed",
                "write `if testkit::lacks(Need::...) { return; }`; crates/testkit/src/need.rs has the needs",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_that_is_only_printed_is_found() {
        for (name, text, faults) in [
            ("crates/a/src/b.rs", "x();\n    return println!(\"skipped: {reason}\");\n", 1),
            ("crates/a/tests/it/b.rs", "println!(\"devices: skipped, needs root\");\n", 1),
            ("crates/a/tests/it/b.rs", "let skipped = 3;\nif testkit::lacks(Need::Root) {\n", 0),
            (HOME, "println!(\"skipped: needs {need}\");\n", 0),
            ("docs/a.md", "println!(\"skipped\");\n", 0),
        ] {
            assert_eq!(check(name, text).len(), faults, "{name}: {text}");
        }
    }
}
