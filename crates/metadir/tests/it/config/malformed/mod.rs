//! Malformed configurations: each has a mistake that an administrator makes. The snapshots hold the messages.
//!
//! Each mistake is an edit of a valid configuration. A message must point at a line that the edit changed, and there
//! must be as many messages as mistakes.

mod agents;
mod expressions;
mod files;
mod hopeless;
mod rules;
mod syntax;
mod unattended;

use std::fmt::Write;
use std::ops::Range;

use plimsoll_metadir::config::Mistake;

/// A configuration with types that refer to each other, tables, services and schedules.
const GROUPS: &str = include_str!("groups.toml");

/// The configuration that `metadir init` writes.
fn init() -> String {
    let main = include_str!("../../../../../cli/templates/metadirectory/metadirectory.toml");
    let directory = include_str!("../../../../../cli/templates/metadirectory/ldap.toml");
    main.replace("DIRECTORY\n", directory).replace("STAFF", "200")
}

/// What an administrator wrote: the title, the replaced and the new texts, and the number of mistakes. With a `~` in
/// front of the title, the mistake could be at another line as well.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], usize);

/// The longest line of a message, besides its prefix.
const COLUMNS: usize = 111;

/// The messages of all cases.
fn messages(base: &str, cases: &[Case<'_>]) -> String {
    let valid = connectors::parse(base).unwrap_or_else(|mistakes| panic!("without the edits: {mistakes:?}"));
    let known = valid.warnings.len();
    let (mut all, mut faults) = (String::new(), String::new());
    for (title, edits, expected) in cases {
        let (text, edited) = edit(base, edits);
        let (word, mistakes) = match connectors::parse(&text) {
            Err(mistakes) => ("error", mistakes),
            Ok(config) => ("warning", config.warnings),
        };
        let count = mistakes.len().saturating_sub(if word == "warning" { known } else { 0 });
        if count != *expected {
            writeln!(faults, "{title}: {count} messages for {expected} mistakes").unwrap();
        }
        writeln!(all, "# {title}").unwrap();
        for mistake in &mistakes {
            all.push_str(&shown(word, &text, mistake));
            let Mistake { span, what, help } = mistake;
            let line = lines(&text, span);
            // What is missing is missing in its table.
            let is_missing = ["has no", "has neither"].iter().any(|words| what.contains(words));
            let is_edited = is_missing
                || title.starts_with('~')
                || edited.iter().any(|edited| edited.start <= line.end && line.start <= edited.end);
            for (is_fault, fault) in [
                (word == "error" && !is_edited, "points at another line"),
                (what.chars().count() > COLUMNS, "is too long"),
                (help.is_empty(), "does not say what to do"),
                (format!("{what}{help}").contains("geheim"), "shows a password"),
            ] {
                if is_fault {
                    writeln!(faults, "{title}: {fault}: {what}").unwrap();
                }
            }
        }
        all.push('\n');
    }
    assert!(faults.is_empty(), "{faults}\n{all}");
    all
}

/// The edited text, and the edited lines.
fn edit(base: &str, edits: &[(&str, &str)]) -> (String, Vec<Range<usize>>) {
    let mut text = base.to_string();
    let mut edited: Vec<Range<usize>> = Vec::new();
    for (from, to) in edits {
        let at = text.find(from).unwrap_or_else(|| panic!("{from:?} is not in the configuration"));
        text.replace_range(at..at + from.len(), to);
        for before in &mut edited {
            if before.start > at {
                let moved = |place: usize| place + to.len() - from.len();
                *before = moved(before.start)..moved(before.end);
            }
        }
        edited.push(at..at + to.len());
    }
    let lines = edited.iter().map(|span| lines(&text, span)).collect();
    (text, lines)
}

/// The numbers of the lines of a range.
fn lines(text: &str, span: &Range<usize>) -> Range<usize> {
    let number =
        |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    number(span.start)..number(span.end)
}

fn shown(word: &str, text: &str, Mistake { span, what, help }: &Mistake) -> String {
    let line = lines(text, span).start;
    let start = text[..span.start.min(text.len())].rfind('\n').map_or(0, |at| at + 1);
    let marked = text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
    let written = text[start..].lines().next().unwrap_or_default();
    let before = written.get(..span.start - start).unwrap_or_default();
    let after = written.get(span.start - start + marked.len()..).unwrap_or_default();
    let cut = |part: &str| part.chars().take(30).collect::<String>();
    let before: String = before.chars().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{word}: {what}\n  {line} | {before}«{}»{}\n  {help}\n", cut(marked), cut(after))
}
