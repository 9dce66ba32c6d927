//! The licences of everything that is linked into the executable, with their copyright notices, in one text.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Package, files_below, write};
use crate::fault::Fault;

use super::materials::{Crate, crates};

/// How deep in a package licences are: `c_src/mimalloc/v3/LICENSE`.
const DEPTH_MAX: usize = 3;

/// Writes the text. A licence that several packages share is in it once.
pub(super) fn write_text(package: &Package, path: &Path) -> Result<Vec<Fault>, String> {
    let crates: Vec<Crate> =
        crates(package)?.into_iter().filter(|of| of.is_foreign && of.is_linked).collect();
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut faults = Vec::new();
    for of in &crates {
        let texts = texts(&of.folder)?;
        if texts.is_empty()
            && !of.licence.split_whitespace().any(|word| word == "Apache-2.0" || word == "MIT")
        {
            faults.push(Fault::new(
                format!("{} {}", of.name, of.version),
                format!("has no file with its licence, {}", of.licence),
                "add the text to packaging/licences",
            ));
        }
        for text in texts {
            by_text.entry(text).or_default().push(format!("{} {}", of.name, of.version));
        }
    }
    let mut out = String::from("Third-party software in the executable plimsoll, with its licences.\n\n");
    for of in &crates {
        out += &format!("{} {}: {}\n", of.name, of.version, of.licence);
    }
    for file in ["rust.txt", "musl.txt"] {
        out += &format!("\n{LINE}\n\n{}", package.template(&format!("licences/{file}"))?);
    }
    let mut sorted: Vec<(String, Vec<String>)> = by_text.into_iter().collect();
    sorted.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    for (text, packages) in sorted {
        out += &format!("\n{LINE}\n{}\n\n{text}\n", packages.join(", "));
    }
    write(path, out)?;
    Ok(faults)
}

const LINE: &str = "--------------------------------------------------------------------------------";

/// The texts of all licences in a folder, each once.
fn texts(folder: &Path) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for file in files_below(folder)? {
        let (parent, name) = file.rsplit_once('/').unwrap_or(("", &file));
        let depth = if parent.is_empty() { 0 } else { parent.split('/').count() };
        if depth > DEPTH_MAX || !is_licence(name) {
            continue;
        }
        // What is not text is no licence.
        let Ok(text) = std::fs::read_to_string(folder.join(&file)) else { continue };
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let text = lines.join("\n").trim_matches('\n').to_string();
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(texts)
}

fn is_licence(name: &str) -> bool {
    let upper = name.to_uppercase();
    let is_source = [".RS", ".C", ".H", ".TOML", ".JSON", ".HTML"].iter().any(|end| upper.ends_with(end));
    !is_source
        && ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|begin| upper.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Sample;

    #[test]
    fn licences_are_found_by_their_names() {
        for (name, expected) in [
            ("LICENSE-MIT", true),
            ("LICENSE.txt", true),
            ("license", true),
            ("COPYING", true),
            ("licence.rs", false),
            ("README.md", false),
            ("MIT-LICENSE", false),
        ] {
            assert_eq!(is_licence(name), expected, "{name}");
        }
    }

    #[test]
    fn each_text_of_a_package_is_taken_once() {
        let files = [
            ("LICENSE-MIT", "MIT \n\n"),
            ("LICENSE", "MIT\n"),
            ("c/LICENSE", "C\n"),
            ("a/b/c/d/LICENSE", "deep\n"),
            ("src/lib.rs", "x"),
        ];
        let sample = Sample::new("licence-texts", &files);
        assert_eq!(texts(sample.repository.root()).unwrap(), ["MIT", "C"]);
    }
}
