//! The order of modules inside a crate: each uses only those before it, so that the crate can be read from the top.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::files::{Repository, line_of};

/// A crate and its modules in order. The root of the crate uses all of them.
struct Order {
    name: &'static str,
    modules: &'static [&'static str],
}

/// Crates whose modules have an order.
static ORDERS: &[Order] = &[
    Order {
        name: "analysis",
        modules: &[
            // What knows nothing of a record.
            "random",
            "statistics",
            "law",
            "words",
            "clock",
            // A trial in numbers, and what those show.
            "measured",
            "facts",
            "trial",
            // Trials taken together.
            "plan",
            "configuration",
            "comparison",
            "cost",
            "curve",
            "published",
            "beside",
            "goal",
            "sensitivity",
            "steps",
            "thresholds",
            "clean",
            "limit",
            // What is thought of them.
            "doubt",
            "detect",
            "verdict",
            "proof",
            // What to measure next; other questions.
            "rounds",
            "gate",
            "early",
            "design",
            "unfinished",
            "operation_io",
            "sizing",
            "compare",
            "audit",
        ],
    },
    Order {
        name: "metadir",
        modules: &[
            // Values, names and servers.
            "hologram",
            "index_key",
            "network",
            "naming",
            "comparison",
            "schema",
            "secret",
            "statistics",
            "sqlite_script",
            "postgresql",
            // Objects, and the two ports.
            "object",
            "trail",
            "agent",
            "password",
            "store",
            // What an administrator writes, and what the engine makes of it.
            "expression",
            "config",
            "schedule",
            "watch",
            "fingerprint",
            "rules",
            // The steps of a run.
            "observer",
            "existing",
            "write_only",
            "stage",
            "synchronize",
            "export",
            "preview",
            "metadirectory",
        ],
    },
];

/// Checks every crate that has an order.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    for order in ORDERS {
        let folder = format!("crates/{}/src/", order.name);
        let mut sources = BTreeMap::new();
        for path in repository.files()? {
            let file = repository.name(&path);
            if let Some(inside) = file.strip_prefix(&folder).and_then(|inside| inside.strip_suffix(".rs")) {
                sources.insert(inside.to_string(), repository.read(&file)?);
            }
        }
        faults.extend(examine(order.modules, &folder, &sources));
    }
    Ok(faults)
}

/// Every use of a module that comes later, and every circle between the files of a folder. `sources` are texts by their
/// path in the crate, without the extension.
fn examine(order: &[&str], folder: &str, sources: &BTreeMap<String, String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let place_of = |module: &str| order.iter().position(|known| *known == module);
    for (path, text) in sources {
        let module = path.split('/').next().unwrap_or_default();
        let is_test = path.split('/').any(|part| part == "tests") || module == "simulate";
        if module == "lib" || is_test {
            continue;
        }
        let file = format!("{folder}{path}.rs");
        let Some(own) = place_of(module) else {
            faults.push(Fault::new(
                file,
                format!("`{module}` has no place in the order of modules"),
                "give it one in xtask/src/modules.rs: after all that it uses",
            ));
            continue;
        };
        for (at, used) in uses(text, "crate::") {
            if let Some(place) = place_of(used)
                && place > own
            {
                faults.push(Fault::new(
                    format!("{file}:{}", line_of(text, at)),
                    format!("`{module}` uses `{used}`, which comes after it"),
                    "move what both need to a module before them; the order is in xtask/src/modules.rs",
                ));
            }
        }
    }
    faults.extend(circles(folder, sources));
    faults
}

/// The modules that the code of a file names after `prefix`, with their places. Tests stand at the end of a file.
fn uses<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let code = &text[..text.find("#[cfg(test)]").unwrap_or(text.len())];
    let is_code = |at: usize| {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        !code[line..].trim_start().starts_with("//")
    };
    let names = code.match_indices(prefix).filter(move |(at, _)| is_code(*at));
    names.flat_map(move |(at, _)| {
        let rest = &code[at + prefix.len()..];
        let several = rest.strip_prefix('{').and_then(|inside| inside.split('}').next());
        let list = several.unwrap_or(rest);
        let one = several.is_none();
        let parts = list.split(',').take(if one { 1 } else { usize::MAX });
        parts.map(move |part| {
            let part = part.trim_start();
            let end = part.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(part.len());
            (at, &part[..end])
        })
    })
}

/// Files of one folder that use each other, directly or round about.
fn circles(folder: &str, sources: &BTreeMap<String, String>) -> Vec<Fault> {
    let mut arrows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in sources {
        let Some((parent, name)) = path.rsplit_once('/').filter(|(_, name)| *name != "mod") else { continue };
        let siblings = uses(text, "super::").map(|(_, used)| format!("{parent}/{used}"));
        let siblings =
            siblings.filter(|used| sources.contains_key(used) && !used.ends_with(&format!("/{name}")));
        arrows.insert(path, siblings.collect());
    }
    let reaches_itself = |start: &str| {
        let mut seen: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = arrows.get(start).into_iter().flatten().map(String::as_str).collect();
        while let Some(next) = open.pop() {
            if next == start {
                return true;
            }
            if !seen.contains(&next) {
                seen.push(next);
                open.extend(arrows.get(next).into_iter().flatten().map(String::as_str));
            }
        }
        false
    };
    let found = arrows.keys().filter(|path| reaches_itself(path));
    found
        .map(|path| {
            Fault::new(
                format!("{folder}{path}.rs"),
                "it is part of a circle of files that use each other",
                "move what both need to a file of its own",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(sources: &[(&str, &str)]) -> Vec<String> {
        let sources = sources.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        let faults = examine(&["low", "middle", "high"], "src/", &sources);
        faults.into_iter().map(|fault| format!("{}: {}", fault.place, fault.what)).collect()
    }

    #[test]
    fn this_repository_keeps_the_order() {
        assert_eq!(check(&Repository::find().unwrap()).unwrap(), []);
    }

    #[test]
    fn what_comes_later_is_not_used() {
        let low = "use std::fmt;\n/// See [`crate::high`].\nuse crate::{low, high::Thing};\n#[cfg(test)]\nuse crate::middle;\n";
        assert_eq!(
            said(&[("low", low), ("middle/part", "fn f() { crate::low::f() }"), ("lib", "use crate::high;")]),
            ["src/low.rs:3: `low` uses `high`, which comes after it"]
        );
        assert_eq!(said(&[("new", "")]), ["src/new.rs: `new` has no place in the order of modules"]);
    }

    #[test]
    fn files_of_a_folder_are_in_no_circle() {
        let circle = [("low/a", "use super::b;"), ("low/b", "use super::c::X;"), ("low/c", "super::a::f()")];
        assert_eq!(said(&circle).len(), 3);
        assert_eq!(said(&circle[..2]), Vec::<String>::new());
        assert_eq!(
            said(&[("low/mod", "mod a; use a::A;"), ("low/a", "use super::Shared;")]),
            Vec::<String>::new()
        );
    }
}
