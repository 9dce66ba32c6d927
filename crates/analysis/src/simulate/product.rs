//! Looks up names and levels in the tables of the program: a test that simulates anything else panics.

use std::collections::BTreeMap;
use std::mem::discriminant;

use model::experiment::WorkloadInfo;
use model::load::LOAD_SETTINGS;
use model::{HostResource, Level, MetricInfo, SettingPath};

/// The facts of simulated workloads: workload, name, and a level of the same kind.
fn facts() -> [(&'static str, &'static str, Level); 25] {
    let text = || Level::Text(String::new());
    [
        ("disk", "cache", text()),
        ("disk", "devices", Level::List(Vec::new())),
        ("disk", "back_end", text()),
        ("disk", "back_end.basis", text()),
        ("disk", "back_end.reason", text()),
        ("disk", "write_cache", text()),
        ("disk", "compressible", Level::Percent(0.0)),
        ("disk", "extents.hole_bytes", Level::Bytes(0)),
        ("disk", "extents.unwritten_bytes", Level::Bytes(0)),
        ("disk", "first_touch.mean_ms", Level::Number(0.0)),
        ("disk", "second_touch.mean_ms", Level::Number(0.0)),
        ("disk", "resident_share.before", Level::Number(0.0)),
        ("copy", "cache", text()),
        ("copy", "back_end", text()),
        ("copy", "back_end.basis", text()),
        ("copy", "back_end.reason", text()),
        ("copy", "sync", text()),
        ("copy", "source.device", text()),
        ("copy", "destination.device", text()),
        ("copy", "destination.medium", text()),
        ("copy", "destination.mount", text()),
        ("command", "program", text()),
        ("sync", "path.data", text()),
        ("sync", "path.log", text()),
        ("sync", "path.shared.data.log", text()),
    ]
}

/// The workload with this name.
pub(super) fn workload(name: &str) -> WorkloadInfo {
    let mut infos = workloads::KINDS.iter().map(|kind| kind.info());
    infos.find(|info| info.name == name).unwrap_or_else(|| panic!("no workload is called {name}"))
}

/// The metric with this name, as described by its source.
pub(super) fn metric(name: &str) -> &'static MetricInfo {
    let found = counters::all_metrics().find(|(_, metric)| metric.name == name);
    found.unwrap_or_else(|| panic!("no source of counters has {name}")).1
}

pub(super) fn check_operation(of: &str, operation: &str) {
    assert!(workload(of).operations.contains(&operation), "{of} has no operation {operation}");
}

pub(super) fn check_fact(workload: &str, name: &str, level: &Level) {
    // What the machines of a load do not say alike.
    let of_machine = name.strip_prefix("machine.").and_then(|rest| rest.split_once('.'));
    let name = of_machine.map_or(name, |(_, name)| name);
    let is_of_proxy = |fact: &str| {
        let path = name.strip_suffix(fact).and_then(|path| path.strip_suffix('.'));
        path.is_some_and(|path| {
            factors::FACTORS.iter().any(|kind| kind.info.of_dependency && kind.info.covers(path))
        })
    };
    if let Some((_, of_its_kind)) =
        model::sensitivity::facts::ALL.into_iter().find(|(fact, _)| is_of_proxy(fact))
    {
        return assert_eq!(
            discriminant(&of_its_kind),
            discriminant(level),
            "a proxy records no {name} like {level:?}"
        );
    }
    if let Some(fact) = name.strip_prefix(model::neighbour::FACTOR).and_then(|rest| rest.strip_prefix('.')) {
        use model::neighbour::facts::{ACHIEVED, CPUS, DEVICE, ERROR, PROCESS, STATED};
        let is_known = match level {
            Level::Text(_) => [DEVICE, ERROR].contains(&fact),
            Level::Count(_) => fact == PROCESS,
            Level::Number(_) => [CPUS, &format!("cpu.{STATED}"), &format!("cpu.{ACHIEVED}")].contains(&fact),
            Level::BytesPerSecond(_) | Level::Rate(_) => fact.ends_with(STATED) || fact.ends_with(ACHIEVED),
            _ => false,
        };
        return assert!(is_known, "a neighbour records no {name} like {level:?}");
    }
    let fact = facts().into_iter().find(|(of, fact, _)| *of == workload && *fact == name);
    let (.., of_its_kind) = fact.unwrap_or_else(|| panic!("{workload} records no fact {name}"));
    assert_eq!(
        discriminant(&of_its_kind),
        discriminant(level),
        "{workload} records no {name} like {level:?}"
    );
}

/// Panics unless an experiment can set this level, as written.
pub(super) fn check_level(of: &str, path: &str, level: &Level) {
    let path = SettingPath(path.into());
    let setting = match path.area() {
        "workload" => {
            workload(of).settings.iter().find(|info| info.name == path.name()).map(|info| info.kind)
        }
        "load" => LOAD_SETTINGS.iter().find(|info| info.name == path.name()).map(|info| info.kind),
        _ => factors::FACTORS.iter().find(|kind| kind.info.covers(&path.0)).map(|kind| kind.info.kind),
    };
    let setting = setting.unwrap_or_else(|| panic!("{of} has no setting {path}"));
    let written = setting.parse(&level.to_string()).unwrap_or_else(|why| panic!("{path}: {why}"));
    let is_block_size = path.0 == "workload.block_size";
    assert!(
        discriminant(&written) == discriminant(level) || is_block_size,
        "{path} is {written:?} when it is written as {level:?} is"
    );
}

/// A block size of a single value, as in `workload.block_size`.
pub(crate) fn block_size(bytes: u64) -> Level {
    Level::Bytes(bytes)
}

/// The resource that each of these factors changes.
pub(super) fn factor_resources<'a>(
    paths: impl Iterator<Item = &'a String>,
) -> BTreeMap<String, HostResource> {
    let resource = |path: &String| {
        let factor = factors::FACTORS.iter().find(|kind| kind.info.path == path)?;
        Some((path.clone(), factor.info.resource?))
    };
    paths.filter_map(resource).collect()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use model::{Settings, Shape, Treatment, Trial};

    use super::*;
    use crate::simulate::Simulated;

    #[test]
    fn what_no_product_makes_cannot_be_simulated() {
        let run = || Simulated::of(Shape::closed(1), 100.0, 10.0);
        let record = |run: Simulated| {
            run.run(Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 });
        };
        let asked = |path: &str, level: Level| {
            let mut run = run();
            run.asked.insert(path.into(), level);
            record(run);
        };
        record(run().counter("disk.queue_length", "vda", &[1.0]).fact("cache", Level::Text("direct".into())));
        asked("workload.outstanding", Level::Count(4));
        asked("host.disk.io_limit", Level::Rate(500.0));
        let wrong: [(&str, &(dyn Fn() + std::panic::RefUnwindSafe)); 9] = [
            ("a metric", &|| drop(run().counter("disk.queue_lenght", "vda", &[1.0]))),
            ("a fact", &|| drop(run().fact("extents.holes", Level::Bytes(0)))),
            ("a fact of another kind", &|| drop(run().fact("resident_share.before", Level::Percent(98.0)))),
            ("a fact of another workload", &|| {
                drop(run().http().fact("cache", Level::Text("direct".into())))
            }),
            ("an operation", &|| record(Simulated { operation: "call", ..run() })),
            ("a workload", &|| record(Simulated { workload: "ldap", ..run() })),
            ("a setting", &|| asked("workload.users", Level::Count(4))),
            ("a level of another kind", &|| asked("host.disk.io_limit", Level::Number(500.0))),
            ("a factor", &|| asked("host.io_limit", Level::Rate(500.0))),
        ];
        for (what, simulate) in wrong {
            assert!(catch_unwind(simulate).is_err(), "{what}");
        }
    }

    /// The facts of a real preparation of a load.
    fn recorded(of: &str, chosen: &[(&str, &str)]) -> BTreeMap<String, Level> {
        let kind = workloads::KINDS.iter().find(|kind| kind.info().name == of).unwrap();
        let table = kind.info().settings;
        let mut settings = Settings::defaults(table);
        for (name, text) in chosen {
            let info = table.iter().find(|info| info.name == *name).unwrap();
            settings.set(name, info.kind.parse(text).unwrap());
        }
        let mut load = kind.configure(&settings).unwrap();
        load.prepare(1, &mut |_| true).unwrap();
        let _ = load.workers(&load.default_shape());
        let facts = load.facts();
        load.clean_up().unwrap();
        facts
    }

    #[test]
    fn the_facts_are_those_of_real_loads() {
        /// Recorded only if the file is on a disk, the touches only with direct I/O; a mount only without a disk.
        const OF_SOME_HOSTS: [&str; 5] = [
            "write_cache",
            "first_touch.mean_ms",
            "second_touch.mean_ms",
            "destination.medium",
            "destination.mount",
        ];
        let scratch = testkit::Scratch::new();
        let path = |name: &str| scratch.join(name).display().to_string();
        let disk = recorded("disk", &[("files", &path("file")), ("size", "64KiB"), ("cache", "page-cache")]);
        let copy = recorded("copy", &[("source", "generate:64KiB"), ("destination", &path("copy"))]);
        let command = recorded("command", &[("command", "true")]);
        let sync = [
            ("run", "full-import"),
            ("directory", &path("sync")),
            ("prepare", "true {data_path} {log_path}"),
            ("data_path", &path("data")),
            ("log_path", &path("log")),
        ];
        let sync = recorded("sync", &sync);
        for (workload, name, level) in facts() {
            let real = match workload {
                "sync" => sync.get(name),
                "disk" => disk.get(name),
                "copy" => copy.get(name),
                _ => command.get(name),
            };
            match real {
                Some(real) => assert_eq!(discriminant(real), discriminant(&level), "{workload} {name}"),
                None => assert!(OF_SOME_HOSTS.contains(&name), "{workload} records no {name}"),
            }
        }
        let cached = "page-cache, without what was cached of the source before";
        assert!([Level::Text("direct".into()), Level::Text(cached.into())].contains(&copy["cache"]));
    }
}
