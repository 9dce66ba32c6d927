//! `docs/handbook/reference.md`, printed by the program itself from the tables that also make `--help`, the schema and
//! the reader of experiment files, so that it cannot say anything else than they do.

use std::process::Command;

use crate::fault::Fault;
use crate::files::Repository;

const PAGE: &str = "docs/handbook/reference.md";

/// Writes the page; with `--check` only compares it.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let fresh = print_manual(repository)?;
    let path = repository.join(PAGE);
    if arguments.iter().any(|argument| argument == "--check") {
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        return Ok(compare(&present, &fresh));
    }
    std::fs::write(&path, fresh).map_err(|error| format!("write {PAGE}: {error}"))?;
    println!("wrote {PAGE}");
    Ok(Vec::new())
}

fn print_manual(repository: &Repository) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", "plimsoll-cli", "--bin", "plimsoll", "--", "manual"])
        .current_dir(repository.root())
        .output()
        .map_err(|error| format!("cargo run could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || text.trim().is_empty() {
        return Err(format!(
            "`plimsoll manual` printed no manual ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(text)
}

fn compare(present: &str, fresh: &str) -> Vec<Fault> {
    if present == fresh {
        return Vec::new();
    }
    let line = present.lines().zip(fresh.lines()).take_while(|(old, new)| old == new).count() + 1;
    vec![Fault::new(
        format!("{PAGE}:{line}"),
        "is not what `plimsoll manual` prints",
        "run `cargo xtask manual` and commit the page",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(compare("a\nb\n", "a\nb\n"), []);
        assert_eq!(compare("a\nb\n", "a\nc\n")[0].place, "docs/handbook/reference.md:2");
        assert_eq!(compare("", "a\n")[0].place, "docs/handbook/reference.md:1");
    }
}
