//! What no file may hold: notes to oneself, paths of one machine, and in Markdown tabs and trailing blanks. And no
//! source file may grow past what a person reads in one sitting.

use crate::fault::Fault;
use crate::files::{Repository, line_of};

/// Lines a source file may have.
const LINES_MAX: usize = 900;

/// Notes to oneself: what is not done belongs in an issue. Put together so that this file does not hold them.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Paths that exist on one machine only: where this repository, its build and its owner's files are.
pub(super) fn machine_paths(repository: &Repository) -> Vec<String> {
    let mut paths: Vec<String> = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")]
        .iter()
        .map(ToString::to_string)
        .collect();
    paths.push(repository.root().display().to_string());
    for variable in ["CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME"] {
        paths.extend(std::env::var(variable).ok());
    }
    // `/src` would be found everywhere.
    paths.retain(|path| path.len() > 5);
    paths
}

/// Checks one file.
pub(super) fn check(name: &str, text: &str, machine_paths: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let place = |at: usize| format!("{name}:{}", line_of(text, at));
    for note in NOTES {
        for (at, _) in text.match_indices(note).filter(|(at, _)| stands_alone(text, *at, note.len())) {
            faults.push(Fault::new(
                place(at),
                format!("says {note}"),
                "do it now, or open an issue and remove the note",
            ));
        }
    }
    // A fixture is a copy of another machine and keeps its paths.
    if !name.contains("fixtures/") {
        for path in machine_paths {
            for (at, _) in text.match_indices(path.as_str()) {
                faults.push(Fault::new(
                    place(at),
                    format!("names `{path}`, a path of one machine"),
                    "write a path that means something to a reader, such as /data",
                ));
            }
        }
    }
    if name.ends_with(".md") {
        for (at, line) in text.lines().enumerate() {
            if line.ends_with(' ') || line.contains('\t') {
                faults.push(Fault::new(
                    format!("{name}:{}", at + 1),
                    "has a tab, or blanks at the end of the line",
                    "use blanks, and none at the end",
                ));
            }
        }
    }
    let lines = text.lines().count();
    if name.starts_with("crates/") && name.ends_with(".rs") && lines > LINES_MAX {
        faults.push(Fault::new(
            name,
            format!("has {lines} lines, more than {LINES_MAX}"),
            "look for the seam and make it two modules",
        ));
    }
    faults
}

/// True for a word that is not part of a longer one.
fn stands_alone(text: &str, at: usize, length: usize) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    !text[..at].chars().next_back().is_some_and(word) && !text[at + length..].chars().next().is_some_and(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, text: &str) -> Vec<String> {
        check(name, text, &["/srv/build/here".to_string()])
            .into_iter()
            .map(|fault| format!("{} {}", fault.place, fault.what))
            .collect()
    }

    #[test]
    fn notes_to_oneself_are_reported_and_like_words_are_not() {
        let note = NOTES[0];
        assert_eq!(said("a.rs", &format!("\n// {note}: later\n")), [format!("a.rs:2 says {note}")]);
        assert_eq!(said("a.rs", &format!("let MY{note} = {note}S; // to do")), [""; 0]);
    }

    #[test]
    fn machine_paths_are_reported_except_in_fixtures() {
        let text = "see /srv/build/here/file";
        assert_eq!(said("docs/a.md", text), ["docs/a.md:1 names `/srv/build/here`, a path of one machine"]);
        assert_eq!(said("crates/x/fixtures/proc/cmdline", text), [""; 0]);
    }

    #[test]
    fn blanks_at_the_end_matter_in_markdown() {
        assert_eq!(said("a.md", "ok\nend \na\tb\n").len(), 2);
        assert_eq!(said("a.txt", "end \na\tb\n"), [""; 0]);
    }

    #[test]
    fn long_sources_are_reported() {
        let text = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(said("crates/a/src/b.rs", &text), ["crates/a/src/b.rs has 901 lines, more than 900"]);
        assert_eq!(said("crates/a/data.csv", &text), [""; 0]);
    }
}
