//! Whatever plugs in is a module, one line in its crate's table, and a name in the handbook.

use std::path::Path;

use crate::fault::Fault;
use crate::files::Repository;

/// A crate whose folders plug in through a table.
struct Registry {
    /// The crate's folder.
    folder: &'static str,
    /// Its table.
    table: &'static str,
    /// What one entry is called.
    noun: &'static str,
    /// Folders with what several of them share.
    shared: &'static [&'static str],
    /// What the source of a module writes before the name that people use; none when that is the module's name.
    named_after: Option<&'static str>,
}

static REGISTRIES: &[Registry] = &[
    Registry {
        folder: "crates/workloads",
        table: "KINDS",
        noun: "workload",
        shared: &["network", "template"],
        named_after: None,
    },
    Registry { folder: "crates/counters", table: "SOURCES", noun: "source", shared: &[], named_after: None },
    Registry {
        folder: "crates/factors",
        table: "FACTORS",
        noun: "factor",
        shared: &[],
        named_after: Some("path: \""),
    },
];

const HANDBOOK: &str = "docs/handbook";

/// Checks every registry.
pub(super) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let mut handbook = String::new();
    for path in repository.files()?.iter().filter(|path| repository.name(path).starts_with(HANDBOOK)) {
        if let Ok(text) = std::fs::read_to_string(path) {
            handbook.push_str(&text);
        }
    }
    let mut faults = Vec::new();
    for registry in REGISTRIES {
        faults.extend(check_one(repository, registry, &handbook)?);
    }
    Ok(faults)
}

fn check_one(repository: &Repository, registry: &Registry, handbook: &str) -> Result<Vec<Fault>, String> {
    let lib_name = format!("{}/src/lib.rs", registry.folder);
    if !repository.join(&lib_name).is_file() {
        return Ok(Vec::new());
    }
    let lib = repository.read(&lib_name)?;
    let entries = entries(&lib, registry.table);
    let mut faults = Vec::new();
    if entries.is_none() {
        faults.push(Fault::new(
            &lib_name,
            format!("has no table `{}`", registry.table),
            format!("declare it: pub static {}: &[...] = &[...];", registry.table),
        ));
    }
    let entries = entries.unwrap_or_default();
    for folder in repository.folders(&format!("{}/src", registry.folder)) {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        if !folder.join("mod.rs").is_file() || registry.shared.contains(&name) {
            continue;
        }
        if !has_module(&lib, name) {
            faults.push(Fault::new(
                &lib_name,
                format!("has no module `{name}`, although there is a folder of that name"),
                format!("add `pub mod {name};`, or remove the folder"),
            ));
        } else if !entries.iter().any(|entry| entry == name) {
            faults.push(Fault::new(
                &lib_name,
                format!("the {} `{name}` is not in {}", registry.noun, registry.table),
                format!("add one line to {} that starts with `{name}::`", registry.table),
            ));
        }
    }
    for entry in &entries {
        match spoken_name(repository, registry, entry) {
            Ok(name) if handbook.contains(&format!("`{name}`")) => {}
            Ok(name) => faults.push(Fault::new(
                HANDBOOK,
                format!("no page mentions the {} `{name}`", registry.noun),
                format!("describe it for its users on the page where they look for it, and write its name as `{name}` in backticks"),
            )),
            Err(fault) => faults.push(fault),
        }
    }
    Ok(faults)
}

/// The modules whose values a table lists, in order: `a` and `b` of `&[a::KIND, &b::KIND]`.
fn entries(lib: &str, table: &str) -> Option<Vec<String>> {
    let declared = lib.find(&format!("static {table}:"))?;
    // The type may hold brackets too: what counts starts at the equals sign.
    let start = declared + lib[declared..].find('=')?;
    let end = start + lib[start..].find("];")?;
    let code: String = lib[start..end].lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let first = |part: &str| -> Option<String> {
        let (module, _) = part.split_once("::")?;
        Some(module.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_')).to_string())
    };
    Some(code.split(',').filter_map(first).collect())
}

fn has_module(lib: &str, name: &str) -> bool {
    lib.lines().any(|line| {
        let line = line.trim();
        line.strip_prefix("pub ").unwrap_or(line) == format!("mod {name};")
    })
}

/// What people call the entry: its module's name, or what its source writes.
fn spoken_name(repository: &Repository, registry: &Registry, module: &str) -> Result<String, Fault> {
    let base = format!("{}/src/{module}", registry.folder);
    let path = [format!("{base}/mod.rs"), format!("{base}.rs")];
    let Some(path) = path.iter().find(|path| repository.join(Path::new(path)).is_file()) else {
        return Err(Fault::new(
            format!("{}/src/lib.rs", registry.folder),
            format!("{} lists `{module}`, which is no module of this crate", registry.table),
            "correct the line",
        ));
    };
    let source = repository.read(path).unwrap_or_default();
    match registry.named_after {
        None if source.contains(&format!("name: \"{module}\"")) => Ok(module.to_string()),
        None => Err(Fault::new(
            path,
            format!("the {} in the folder `{module}` is not called `{module}`", registry.noun),
            format!("write name: \"{module}\", or rename the folder"),
        )),
        Some(before) => match source.split_once(before).and_then(|(_, rest)| rest.split_once('"')) {
            Some((name, _)) => Ok(name.to_string()),
            None => Err(Fault::new(
                path,
                format!("the {} says no name after `{before}`", registry.noun),
                format!("write {before}...\" as the other ones do"),
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Sample;

    const LIB: &str = "\
pub mod disk;
pub mod null;

/// Every kind.
pub static KINDS: &[&dyn WorkloadKind] = &[
    &disk::DISK, // the main one
    &null::NULL,
];
";

    fn said(files: &[(&str, &str)], name: &str) -> Vec<String> {
        let sample = Sample::new(name, files);
        check(&sample.repository).unwrap().into_iter().map(|fault| fault.what).collect()
    }

    #[test]
    fn reads_a_table() {
        assert_eq!(entries(LIB, "KINDS"), Some(vec!["disk".into(), "null".into()]));
        assert_eq!(entries("pub static KINDS: &[&dyn W] = &[];", "KINDS"), Some(vec![]));
        assert_eq!(entries("", "KINDS"), None);
    }

    #[test]
    fn all_is_well_when_registered_and_described() {
        let files = [
            ("crates/workloads/src/lib.rs", LIB),
            ("crates/workloads/src/disk/mod.rs", "name: \"disk\""),
            ("crates/workloads/src/null/mod.rs", "name: \"null\""),
            ("docs/handbook/all.md", "`disk` and `null`"),
        ];
        assert_eq!(said(&files, "registered"), [""; 0]);
    }

    #[test]
    fn what_is_forgotten_is_reported() {
        let files = [
            (
                "crates/workloads/src/lib.rs",
                "pub mod disk;\npub mod tape;\nstatic KINDS: &[W] = &[&disk::DISK];\n",
            ),
            ("crates/workloads/src/disk/mod.rs", "name: \"disc\""),
            ("crates/workloads/src/tape/mod.rs", "name: \"tape\""),
            ("crates/workloads/src/film/mod.rs", "name: \"film\""),
            ("crates/factors/src/lib.rs", "static FACTORS: &[F] = &[cpus::CPUS, gone::GONE];\n"),
            ("crates/factors/src/cpus.rs", "path: \"host.cpus\","),
        ];
        assert_eq!(
            said(&files, "forgotten"),
            [
                "has no module `film`, although there is a folder of that name",
                "the workload `tape` is not in KINDS",
                "the workload in the folder `disk` is not called `disk`",
                "no page mentions the factor `host.cpus`",
                "FACTORS lists `gone`, which is no module of this crate",
            ]
        );
    }
}
