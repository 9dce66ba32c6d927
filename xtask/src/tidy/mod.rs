//! What a reader may rely on and no compiler checks: everything is registered and in the handbook, links lead
//! somewhere, files stay short, pure crates stay pure, and nothing that is copied and pasted works in a shared folder.

mod markdown;
mod purity;
mod registry;
mod shared;
mod skips;
mod text;
mod unsafety;
mod words;

use crate::fault::Fault;
use crate::files::Repository;
use crate::metadata::Metadata;

/// Every check, in one list of faults.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let mut faults = registry::check(repository)?;
    faults.extend(manifests(&Metadata::of(repository)?));
    faults.extend(purity::check(repository)?);
    faults.extend(unsafety::check(repository)?);
    for path in repository.files()? {
        let name = repository.name(&path);
        if name.ends_with(".snap.new") || name.ends_with(".pending-snap") {
            let help = "look at it, then accept it with `cargo insta review` or remove it";
            faults.push(Fault::new(&name, "is a snapshot nobody has judged", help));
        }
        faults.extend(top_folder(&name));
        // What is not text is nobody's prose.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        faults.extend(shared::check(&name, &text));
        faults.extend(skips::check(&name, &text));
        faults.extend(words::check(&name, &text));
        faults.extend(text::check(&name, &text, &text::machine_paths(repository)));
        if name.ends_with(".md") {
            faults.extend(markdown::check(repository, &path, &text));
        }
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !repository.join(name).is_file() {
            faults.push(Fault::new(name, "is missing", "every manifest promises it: add the full text"));
        }
    }
    faults.sort();
    Ok(faults)
}

/// What the top folder has. Commands that are tried there leave files, which are easily committed with the others.
const TOP_FOLDER: [&str; 23] = [
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "action.yml",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "examples",
    "fuzz",
    "packaging",
    "rustfmt.toml",
    "xtask",
];

fn top_folder(name: &str) -> Option<Fault> {
    let first = name.split('/').next().unwrap_or_default();
    let is_known = TOP_FOLDER.contains(&first);
    let help = "remove it, or add it to the list in xtask/src/tidy/mod.rs";
    (!is_known).then(|| Fault::new(name, "is in the top folder, where it does not belong", help))
}

/// The licence each of our manifests must state.
const LICENCE: &str = "MIT OR Apache-2.0";

fn manifests(metadata: &Metadata) -> Vec<Fault> {
    metadata
        .ours()
        .filter(|package| package.licence != LICENCE)
        .map(|package| {
            Fault::new(
                format!("{}/Cargo.toml", package.short()),
                format!("states the licence `{}`", package.licence),
                "write license.workspace = true",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_that_was_left_in_the_top_folder_is_reported() {
        for (name, is_left) in
            [("Cargo.toml", false), ("crates/a/page.html", false), ("page.html", true), ("run/a", true)]
        {
            assert_eq!(top_folder(name).is_some(), is_left, "{name}");
        }
    }

    #[test]
    fn a_manifest_without_the_licence_is_reported() {
        let package = |name: &str, licence: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0", "license": licence, "dependencies": []});
        let metadata = Metadata::read(&json!({
            "workspace_members": ["plimsoll-a", "plimsoll-b"],
            "packages": [package("plimsoll-a", Some(LICENCE)), package("plimsoll-b", None), package("other", None)],
            "resolve": {"nodes": []},
        }))
        .unwrap();
        let places: Vec<String> = manifests(&metadata).into_iter().map(|fault| fault.place).collect();
        assert_eq!(places, ["b/Cargo.toml"]);
    }
}
