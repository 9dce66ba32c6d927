//! The arrows: which crate may use which, and which third-party packages are fenced into which crate.
//!
//! The two tables here *are* the architecture as far as dependencies go; ARCHITECTURE.md explains them. A new arrow
//! is a decision: it gets an ADR and a line here, in the same commit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fault::Fault;
use crate::files::Repository;
use crate::metadata::{Kind, Metadata, Package};
use crate::program::printed;

/// What a crate of ours may use.
struct Row {
    name: &'static str,
    may_use: &'static [&'static str],
}

/// Which of our crates may use which.
static ARROWS: &[Row] = &[
    Row { name: "model", may_use: &[] },
    Row { name: "files", may_use: &[] },
    Row { name: "record", may_use: &["model", "files"] },
    Row { name: "engine", may_use: &["model", "record", "files"] },
    Row { name: "machines", may_use: &["model", "record", "engine", "files", "tls"] },
    Row { name: "workloads", may_use: &["model", "engine", "files", "tls", "ldap", "people"] },
    Row { name: "counters", may_use: &["model", "engine", "foreign", "tls", "https"] },
    Row { name: "factors", may_use: &["model", "engine", "files", "delay"] },
    Row { name: "analysis", may_use: &["model"] },
    Row { name: "report", may_use: &["model"] },
    Row { name: "delay", may_use: &["model", "files"] },
    Row { name: "metadir", may_use: &["ldap", "files", "tls"] },
    Row { name: "connectors", may_use: &["metadir", "ldap", "files", "tls", "https"] },
    Row {
        name: "cli",
        may_use: &[
            "model",
            "record",
            "engine",
            "workloads",
            "counters",
            "factors",
            "machines",
            "analysis",
            "report",
            "metadir",
            "connectors",
            "people",
            "scim",
            "monitor",
            "recorder",
            "delay",
            "wire",
            "foreign",
            "export",
            "files",
            "ldap",
        ],
    },
    Row { name: "wire", may_use: &["model", "ldap"] },
    Row { name: "foreign", may_use: &["model"] },
    Row { name: "export", may_use: &["model", "tls", "https"] },
    Row { name: "ldap", may_use: &["tls"] },
    Row { name: "people", may_use: &["ldap"] },
    Row { name: "scim", may_use: &["files"] },
    Row { name: "monitor", may_use: &[] },
    Row { name: "recorder", may_use: &["tls"] },
    Row { name: "tls", may_use: &[] },
    Row { name: "https", may_use: &["tls"] },
    // A system under test.
    Row { name: "broker", may_use: &["ldap"] },
    Row { name: "testkit", may_use: &["model", "ldap"] },
    Row { name: "xtask", may_use: &[] },
];

/// Crates that only tests may use.
const ONLY_IN_TESTS: [&str; 1] = ["testkit"];

/// Arrows of tests and benchmarks: who uses whom.
const ALSO_IN_TESTS: [(&str, &str); 10] = [
    ("metadir", "people"),
    // Rules are tested with real systems.
    ("metadir", "connectors"),
    ("metadir", "scim"),
    // Simulated records hold what these make, by their tables.
    ("analysis", "workloads"),
    ("analysis", "counters"),
    ("analysis", "factors"),
    // What is shown in tests is what the analysis makes of stored records.
    ("report", "record"),
    ("report", "analysis"),
    ("report", "wire"),
    ("export", "record"),
];

/// A third-party package and the crates it is kept in.
struct Fence {
    package: &'static str,
    /// Crates of ours that may name it; none at all means nobody may.
    crates: &'static [&'static str],
    /// Whether it may also not arrive through another third-party package.
    deep: bool,
}

const fn fence(package: &'static str, crates: &'static [&'static str]) -> Fence {
    Fence { package, crates, deep: false }
}

const fn deep_fence(package: &'static str, crates: &'static [&'static str]) -> Fence {
    Fence { package, crates, deep: true }
}

const MEASURED: &[&str] = &[
    "model",
    "record",
    "engine",
    "machines",
    "analysis",
    "report",
    "workloads",
    "delay",
    "wire",
    "foreign",
    "export",
];

/// The fences. What is not named here is unfenced.
static FENCES: &[Fence] = &[
    // What is driven.
    deep_fence("io-uring", &["workloads"]),
    deep_fence("hyper", &["workloads", "scim", "monitor", "recorder"]),
    deep_fence("hyper-util", &["scim", "monitor", "recorder"]),
    // HTTP/2, without a runtime.
    deep_fence("h2", &["workloads"]),
    // By name only: a later HTTP crate may depend on it.
    fence("httparse", &["workloads", "wire"]),
    deep_fence("ureq", &["https", "connectors", "counters", "export"]),
    // Windows of a desktop.
    deep_fence("x11rb", &["workloads"]),
    // TLS.
    deep_fence(
        "rustls",
        &[
            "tls",
            "https",
            "ldap",
            "metadir",
            "connectors",
            "workloads",
            "counters",
            "broker",
            "recorder",
            "export",
            "machines",
        ],
    ),
    // Also for the certificates of test servers.
    deep_fence(
        "ring",
        &[
            "tls",
            "https",
            "ldap",
            "metadir",
            "connectors",
            "workloads",
            "counters",
            "broker",
            "testkit",
            "recorder",
            "export",
            "machines",
        ],
    ),
    // Agents on a NATS server.
    deep_fence("async-nats", &["machines"]),
    // The terminal, its arguments and its signals.
    deep_fence("ratatui", &["cli"]),
    deep_fence("crossterm", &["cli"]),
    deep_fence("clap", &["cli"]),
    deep_fence("clap_complete", &["cli"]),
    deep_fence("clap_mangen", &["cli"]),
    deep_fence("signal-hook", &["cli"]),
    deep_fence("jiff", &["report", "metadir", "connectors", "cli", "foreign", "export"]),
    // Formats. hdrhistogram brings flate2 and base64 along for its own payloads, so these are fenced by name only.
    fence("toml", &["model", "foreign", "workloads", "factors", "metadir", "connectors", "cli", "xtask"]),
    deep_fence("saphyr-parser", &["factors"]),
    // Queries of responses, and exports of MIM.
    fence("roxmltree", &["workloads", "connectors", "broker", "foreign"]),
    fence("csv", &["record", "workloads", "connectors"]),
    fence("flate2", &["record"]),
    fence("base64", &["record", "ldap", "workloads", "counters", "report", "testkit"]),
    fence("hdrhistogram", MEASURED),
    // The metadirectory: its store, its expressions, its hashes.
    deep_fence("rusqlite", &["metadir", "connectors", "scim"]),
    deep_fence("postgres", &["metadir", "connectors", "broker"]),
    // Of the workloads only the traits of streams, for h2.
    deep_fence(
        "tokio",
        &["metadir", "connectors", "scim", "monitor", "workloads", "broker", "recorder", "machines"],
    ),
    // Metrics of a long-lived process.
    deep_fence("prometheus-client", &["monitor"]),
    deep_fence("cel", &["metadir"]),
    deep_fence("blake3", &["factors", "metadir", "connectors"]),
    // Tests of the container's profile.
    deep_fence("seccompiler", &["testkit"]),
    // Weighed and left out: each costs minutes to compile on two cores; Parquet is written without them (ADR 0043).
    deep_fence("sqlx", &[]),
    deep_fence("reqwest", &[]),
    deep_fence("arrow", &[]),
    deep_fence("parquet", &[]),
    deep_fence("duckdb", &[]),
];

/// The most third-party packages the program may be built from.
const PACKAGES_MAX: usize = 270;

/// Checks the repository.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let mut faults = examine(&Metadata::of(repository)?);
    let tree =
        ["tree", "--locked", "--package", "plimsoll-cli", "--edges", "normal,build", "--prefix", "none"];
    faults.extend(examine_budget(&printed(repository, &tree)?));
    Ok(faults)
}

/// Every arrow that is not in the tables.
fn examine(metadata: &Metadata) -> Vec<Fault> {
    let ours: BTreeSet<&str> = metadata.ours().map(|package| package.name.as_str()).collect();
    let mut faults = Vec::new();
    for package in metadata.ours() {
        match ARROWS.iter().find(|row| row.name == package.short()) {
            Some(row) => faults.extend(examine_arrows(package, row, &ours)),
            None => faults.push(Fault::new(
                package.short(),
                "this crate is not in the table of arrows",
                "say what it may use in ARROWS (xtask/src/arrows.rs) and in ARCHITECTURE.md, and why in an ADR",
            )),
        }
        faults.extend(examine_fences(package, metadata));
    }
    faults.sort();
    faults.dedup();
    faults
}

fn examine_arrows(package: &Package, row: &Row, ours: &BTreeSet<&str>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for dependency in package.dependencies.iter().filter(|of| ours.contains(of.name.as_str())) {
        let used = dependency.name.strip_prefix("plimsoll-").unwrap_or(&dependency.name);
        if ONLY_IN_TESTS.contains(&used) {
            if dependency.kind != Kind::Dev {
                faults.push(Fault::new(
                    package.short(),
                    format!("uses {used} outside tests"),
                    format!("move {used} to [dev-dependencies] in crates/{}/Cargo.toml", package.short()),
                ));
            }
        } else if dependency.kind == Kind::Dev && ALSO_IN_TESTS.contains(&(row.name, used)) {
        } else if !row.may_use.contains(&used) {
            let allowed = match row.may_use {
                [] => "none of ours".to_string(),
                some => some.join(", "),
            };
            faults.push(Fault::new(
                package.short(),
                format!("uses {used}, which is no arrow of the architecture"),
                format!(
                    "{} may use {allowed}: move what is shared into one of those (a noun belongs in model), or argue for the new arrow in an ADR and add it to ARROWS in xtask/src/arrows.rs",
                    package.short()
                ),
            ));
        }
    }
    faults
}

fn examine_fences(package: &Package, metadata: &Metadata) -> Vec<Fault> {
    let fenced_out = |name: &str, deep: bool| {
        FENCES.iter().find(|fence| {
            fence.package == name && (fence.deep || !deep) && !fence.crates.contains(&package.short())
        })
    };
    let mut faults = Vec::new();
    for dependency in package.dependencies.iter().filter(|of| of.kind != Kind::Dev) {
        if let Some(fence) = fenced_out(&dependency.name, false) {
            faults.push(Fault::new(
                package.short(),
                format!("uses the package {}", dependency.name),
                keep_inside(fence),
            ));
        }
    }
    for (name, path) in reached(package, metadata) {
        if path.len() > 1
            && let Some(fence) = fenced_out(&name, true)
        {
            faults.push(Fault::new(
                package.short(),
                format!("gets the package {name} through {}", path[..path.len() - 1].join(" and ")),
                keep_inside(fence),
            ));
        }
    }
    faults
}

fn keep_inside(fence: &Fence) -> String {
    match fence.crates {
        [] => format!(
            "{} is left out of the default build: argue for it in an ADR and change FENCES in xtask/src/arrows.rs",
            fence.package
        ),
        crates => format!(
            "{} stays inside {}: put what needs it there, behind that crate's own types, or change FENCES in xtask/src/arrows.rs with an ADR",
            fence.package,
            crates.join(", ")
        ),
    }
}

/// Third-party packages that one of our crates brings in by itself, not through another of ours, each with the
/// packages it came through.
fn reached(package: &Package, metadata: &Metadata) -> BTreeMap<String, Vec<String>> {
    let mut seen: BTreeSet<&str> = BTreeSet::from([package.id.as_str()]);
    let mut queue: VecDeque<(&str, Vec<String>)> = VecDeque::from([(package.id.as_str(), Vec::new())]);
    let mut found = BTreeMap::new();
    while let Some((id, path)) = queue.pop_front() {
        for (used, kind) in metadata.used.get(id).into_iter().flatten() {
            let Some(next) = metadata.package(used) else { continue };
            if *kind == Kind::Dev || next.ours || !seen.insert(used) {
                continue;
            }
            let mut longer = path.clone();
            longer.push(next.name.clone());
            found.insert(next.name.clone(), longer.clone());
            queue.push_back((used, longer));
        }
    }
    found
}

/// What is compiled for the program on this platform. The metadata would also count what optional features of dependencies
/// could bring.
fn examine_budget(tree: &str) -> Option<Fault> {
    // Ours have a path; what was listed before has an asterisk: "plimsoll-cli v0.1.0 (PATH)", "syn v2.0.1 (*)".
    let third = tree.lines().filter(|line| !line.is_empty() && !line.contains("(/"));
    let all: BTreeSet<&str> = third.map(|line| line.split(" (").next().unwrap_or(line)).collect();
    (all.len() > PACKAGES_MAX).then(|| {
        Fault::new(
            "the default build",
            format!("is made from {} third-party packages, more than {PACKAGES_MAX}", all.len()),
            "look for the dependency that brought them (`cargo tree --edges normal --duplicates`), or put it behind a feature that is off",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A workspace of the packages named in `ours`; an edge is (who, whom, kind).
    fn metadata(ours: &[&str], third: &[&str], edges: &[(&str, &str, &str)]) -> Metadata {
        let kind = |kind: &str| match kind {
            "normal" => Value::Null,
            other => json!(other),
        };
        let of = |name: &str| edges.iter().filter(move |edge| edge.0 == name).collect::<Vec<_>>();
        let packages: Vec<Value> = ours
            .iter()
            .chain(third)
            .map(|name| {
                let dependencies: Vec<Value> = of(name)
                    .into_iter()
                    .map(|edge| json!({"name": edge.1, "kind": kind(edge.2)}))
                    .collect();
                json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "dependencies": dependencies})
            })
            .collect();
        let nodes: Vec<Value> = ours
            .iter()
            .chain(third)
            .map(|name| {
                let deps: Vec<Value> = of(name)
                    .into_iter()
                    .map(|edge| json!({"pkg": edge.1, "dep_kinds": [{"kind": kind(edge.2)}]}))
                    .collect();
                json!({"id": name, "deps": deps})
            })
            .collect();
        Metadata::read(&json!({"workspace_members": ours, "packages": packages, "resolve": {"nodes": nodes}}))
            .unwrap()
    }

    fn said(metadata: &Metadata) -> Vec<String> {
        examine(metadata).into_iter().map(|fault| format!("{}: {}", fault.place, fault.what)).collect()
    }

    #[test]
    fn this_workspace_has_no_arrow_outside_the_table() {
        let repository = Repository::find().unwrap();
        let faults = check(&repository).unwrap();
        assert!(faults.is_empty(), "{}", faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn every_row_names_crates_of_the_table() {
        let names: Vec<&str> = ARROWS.iter().map(|row| row.name).collect();
        for row in ARROWS {
            assert!(row.may_use.iter().all(|used| names.contains(used) && used != &row.name), "{}", row.name);
        }
        for fence in FENCES {
            assert!(fence.crates.iter().all(|name| names.contains(name)), "{}", fence.package);
        }
    }

    #[test]
    fn the_table_has_no_circle() {
        // Taking away crates that use nothing any more must take away all of them.
        let mut left: Vec<&Row> = ARROWS.iter().collect();
        while !left.is_empty() {
            let names: Vec<&str> = left.iter().map(|row| row.name).collect();
            let before = left.len();
            left.retain(|row| row.may_use.iter().any(|used| names.contains(used)));
            assert!(left.len() < before, "a circle among {names:?}");
        }
    }

    #[test]
    fn an_arrow_outside_the_table_is_reported() {
        let ours = ["plimsoll-model", "plimsoll-engine", "plimsoll-analysis", "plimsoll-workloads"];
        let good = metadata(
            &ours,
            &[],
            &[
                ("plimsoll-analysis", "plimsoll-model", "normal"),
                ("plimsoll-workloads", "plimsoll-engine", "normal"),
            ],
        );
        assert_eq!(said(&good), [""; 0]);
        // A test may not jump over the architecture either.
        for kind in ["normal", "dev", "build"] {
            let bad = metadata(&ours, &[], &[("plimsoll-analysis", "plimsoll-engine", kind)]);
            assert_eq!(said(&bad), ["analysis: uses engine, which is no arrow of the architecture"]);
        }
    }

    #[test]
    fn testkit_is_for_tests() {
        let ours = ["plimsoll-cli", "plimsoll-testkit"];
        let in_tests = metadata(&ours, &[], &[("plimsoll-cli", "plimsoll-testkit", "dev")]);
        assert_eq!(said(&in_tests), [""; 0]);
        let built_in = metadata(&ours, &[], &[("plimsoll-cli", "plimsoll-testkit", "normal")]);
        assert_eq!(said(&built_in), ["cli: uses testkit outside tests"]);
    }

    #[test]
    fn a_crate_nobody_placed_is_reported() {
        assert_eq!(
            said(&metadata(&["plimsoll-novelty"], &[], &[])),
            ["novelty: this crate is not in the table of arrows"]
        );
    }

    #[test]
    fn a_fenced_package_stays_where_it_belongs() {
        let ours = ["plimsoll-report", "plimsoll-workloads", "plimsoll-model"];
        let third = ["io-uring", "csv", "wrapper"];
        let good = metadata(
            &ours,
            &third,
            &[("plimsoll-workloads", "io-uring", "normal"), ("plimsoll-report", "csv", "dev")],
        );
        assert_eq!(said(&good), [""; 0]);
        let direct = metadata(&ours, &third, &[("plimsoll-report", "csv", "normal")]);
        assert_eq!(said(&direct), ["report: uses the package csv"]);
        let through = metadata(
            &ours,
            &third,
            &[("plimsoll-model", "wrapper", "normal"), ("wrapper", "io-uring", "normal")],
        );
        assert_eq!(said(&through), ["model: gets the package io-uring through wrapper"]);
        // Fenced by name only: it may come along with something else.
        let along =
            metadata(&ours, &third, &[("plimsoll-model", "wrapper", "normal"), ("wrapper", "csv", "normal")]);
        assert_eq!(said(&along), [""; 0]);
    }

    #[test]
    fn what_is_left_out_stays_out() {
        let direct = metadata(&["plimsoll-cli"], &["reqwest"], &[("plimsoll-cli", "reqwest", "normal")]);
        assert_eq!(said(&direct), ["cli: uses the package reqwest"]);
    }

    #[test]
    fn the_budget_counts_each_version_once_and_none_of_ours() {
        let third = |count: usize| -> String { (0..count).map(|at| format!("p{at} v1.0.0\n")).collect() };
        let ours =
            "plimsoll-cli v0.1.0 (/data/plimsoll/crates/cli)\n\np0 v1.0.0 (*)\np1 v1.0.0 (proc-macro) (*)\n";
        assert!(examine_budget(&(third(PACKAGES_MAX) + ours)).is_none());
        let fault = examine_budget(&(third(PACKAGES_MAX) + ours + "p0 v2.0.0\n")).map(|fault| fault.what);
        let over = PACKAGES_MAX + 1;
        let expected = format!("is made from {over} third-party packages, more than {PACKAGES_MAX}");
        assert_eq!(fault.unwrap_or_default(), expected);
    }
}
