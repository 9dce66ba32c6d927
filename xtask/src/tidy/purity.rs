//! Pure crates stay pure: no I/O, no clock, no environment outside their tests. A `clippy.toml` of the crate bans the
//! calls where it has one; this check reads the source, so it also sees what a list of banned methods forgot.

use crate::fault::Fault;
use crate::files::{Repository, line_of};

/// The crates whose answers depend on what they are given and on nothing else.
const PURE: [&str; 3] = ["model", "analysis", "report"];

/// Crates with a `clippy.toml` of their own. It replaces the root's, so it must repeat its lines.
const OWN_LINTS: [&str; 3] = ["analysis", "report", "counters"];

/// Modules that reach outside the program.
const OUTSIDE: [&str; 10] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "std::os::",
    "std::io::std",
    "time::Instant",
    "time::SystemTime",
    "rustix::",
];

/// Checks the pure crates of the repository.
pub(super) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    for name in PURE {
        let folder = format!("crates/{name}/src/");
        for path in repository.files()? {
            let file = repository.name(&path);
            if file.starts_with(&folder)
                && file.ends_with(".rs")
                && !is_test_file(&file)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                faults.extend(examine(name, &file, &text));
            }
        }
    }
    let root = repository.read("clippy.toml").unwrap_or_default();
    for name in OWN_LINTS {
        let file = format!("crates/{name}/clippy.toml");
        faults.extend(examine_lints(&file, repository.read(&file).ok().as_deref(), &root));
    }
    Ok(faults)
}

fn is_test_file(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.ends_with("_tests.rs") || name.contains("/tests/")
}

fn examine(crate_name: &str, file: &str, text: &str) -> Vec<Fault> {
    // Tests stand at the end of a module and may read files.
    let code = &text[..text.find("#[cfg(test)]").unwrap_or(text.len())];
    let mut faults = Vec::new();
    for outside in OUTSIDE {
        for (at, _) in code.match_indices(outside) {
            let line = code[code[..at].rfind('\n').map_or(0, |at| at + 1)..].trim_start();
            if !line.starts_with("//") {
                faults.push(Fault::new(
                    format!("{file}:{}", line_of(code, at)),
                    format!("uses {outside}, but {crate_name} is pure"),
                    "take what it gives as an argument: reading and waiting is the business of record, engine and cli",
                ));
            }
        }
    }
    faults
}

fn examine_lints(file: &str, text: Option<&str>, root: &str) -> Vec<Fault> {
    let Some(text) = text else {
        return vec![Fault::new(
            file,
            "is missing",
            "ban the calls this crate must not make, as crates/analysis/clippy.toml does",
        )];
    };
    root.lines()
        .filter(|line| {
            !line.trim().is_empty() && !line.starts_with('#') && !text.lines().any(|ours| ours == *line)
        })
        .map(|line| {
            Fault::new(
                file,
                format!("lacks `{line}` of the root's clippy.toml, which it replaces"),
                "add the line",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_reaches_outside_is_reported_and_tests_and_comments_are_not() {
        let text = "\
use std::fmt;
// std::fs is for others.
fn f() { std::fs::read(\"x\"); }
#[cfg(test)]
mod tests { use std::fs; }
";
        let faults = examine("analysis", "crates/analysis/src/a.rs", text);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].place, "crates/analysis/src/a.rs:3");
        assert_eq!(faults[0].what, "uses std::fs, but analysis is pure");
    }

    #[test]
    fn a_list_of_bans_repeats_what_it_replaces() {
        let root = "a = true\nb = true\n";
        assert_eq!(examine_lints("f", Some("b = true\nc = []\na = true\n"), root), []);
        assert_eq!(
            examine_lints("f", Some("a = true\n"), root)[0].what,
            "lacks `b = true` of the root's clippy.toml, which it replaces"
        );
        assert_eq!(examine_lints("f", None, root)[0].what, "is missing");
    }
}
