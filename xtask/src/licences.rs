//! The licence of every package the workspace is built or tested with, compared with `[licenses] allow` in deny.toml.
//!
//! `cargo deny check licenses` does this and more; this check needs nothing installed, so it always runs.

use crate::fault::Fault;
use crate::files::Repository;
use crate::metadata::Metadata;

/// Checks the repository.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let allowed = allowed(&repository.read("deny.toml")?)?;
    Ok(examine(&Metadata::of(repository)?, &allowed))
}

/// The list of licences in a deny.toml.
fn allowed(text: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
    let list = table.get("licenses").and_then(|licences| licences.get("allow")?.as_array());
    let list = list.ok_or("deny.toml has no list `allow` in [licenses]")?;
    Ok(list.iter().filter_map(|licence| licence.as_str()).map(str::to_string).collect())
}

fn examine(metadata: &Metadata, allowed: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let place = format!("{} {}", package.name, package.version);
        let help = "look for another package, or, when the licence suits MIT OR Apache-2.0, add it to `allow` in deny.toml with the reason";
        match is_satisfied(&package.licence, allowed) {
            Ok(true) => {}
            Ok(false) => {
                faults.push(Fault::new(place, format!("its licence is {}", package.licence), help));
            }
            Err(why) => faults.push(Fault::new(place, why, help)),
        }
    }
    faults.sort();
    faults
}

/// Whether the allowed licences satisfy an SPDX expression. `/` is the way of old manifests to write OR.
fn is_satisfied(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if words.is_empty() {
        return Err("it names no licence".into());
    }
    let mut parser = Parser { words: &words, allowed };
    let satisfied = parser.any()?;
    match parser.words {
        [] => Ok(satisfied),
        [word, ..] => Err(format!("its licence `{expression}` cannot be read from `{word}` on")),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let next = self.words.first().is_some_and(|next| *next == word);
        if next {
            self.words = &self.words[1..];
        }
        next
    }

    /// Terms joined by OR.
    fn any(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all()?;
        while self.take("OR") {
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    /// Licences joined by AND, which binds more closely.
    fn all(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.take("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let satisfied = self.any()?;
            return if self.take(")") { Ok(satisfied) } else { Err("its licence lacks a `)`".into()) };
        }
        let Some((name, rest)) = self.words.split_first() else {
            return Err("its licence ends where a name is due".into());
        };
        if ["AND", "OR", "WITH", ")"].contains(name) {
            return Err(format!("its licence has `{name}` where a name is due"));
        }
        self.words = rest;
        let mut full = name.to_string();
        if self.take("WITH") {
            let Some((exception, rest)) = self.words.split_first() else {
                return Err("its licence ends where an exception is due".into());
            };
            full = format!("{name} WITH {exception}");
            self.words = rest;
        }
        // An exception only grants more, but which is a question for a person: it is listed by its full name.
        Ok(self.allowed.contains(&full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satisfied(expression: &str) -> Result<bool, String> {
        is_satisfied(expression, &["MIT".to_string(), "Zlib".to_string()])
    }

    #[test]
    fn reads_expressions() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("Apache-2.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("MIT AND Zlib", true),
            ("GPL-3.0 OR MIT AND Zlib", true),
            ("(GPL-3.0 OR MIT) AND Apache-2.0", false),
            ("(MIT OR Apache-2.0) AND Zlib", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("MIT WITH something-exception", false),
        ] {
            assert_eq!(satisfied(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_licence() {
        for expression in ["", "MIT OR", "(MIT", "MIT Zlib", "OR MIT", "MIT WITH"] {
            assert!(satisfied(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn the_list_is_read_from_deny_toml() {
        assert_eq!(
            allowed("[licenses]\nallow = [\"MIT\", \"Zlib\"]\n"),
            Ok(vec!["MIT".into(), "Zlib".into()])
        );
        assert!(allowed("[licenses]\n").is_err());
        assert!(allowed("= nonsense").is_err());
    }

    #[test]
    fn every_dependency_of_this_workspace_is_allowed() {
        let faults = check(&Repository::find().unwrap()).unwrap();
        assert!(faults.is_empty(), "{}", faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"));
    }
}
