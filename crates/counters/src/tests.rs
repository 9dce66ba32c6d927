//! What holds for every source: its table of metrics, this machine, and files that are not what they should be.

use std::collections::HashSet;

use model::{SECOND, Unit};

use crate::fixture::{Host, Probe};
use engine::source::EXPORTER;

use crate::{SOURCES, all_metrics};

/// The endings that name a unit; a longer one comes before its own ending.
const SUFFIXES: [(&str, Unit); 6] = [
    ("_bytes_per_s", Unit::BytesPerSecond),
    ("_per_s", Unit::PerSecond),
    ("_bytes", Unit::Bytes),
    ("_share", Unit::Share),
    ("_cpus", Unit::Cpus),
    ("_s", Unit::Seconds),
];

#[test]
fn every_metric_says_what_it_is() {
    let names: HashSet<_> = all_metrics().map(|(_, metric)| metric.name.as_ref()).collect();
    assert_eq!(names.len(), all_metrics().count(), "a name occurs twice");
    for (source, metric) in all_metrics() {
        let name = metric.name.as_ref();
        assert!(name.starts_with(&format!("{source}.")), "{name} is not of {source}");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'.' || b.is_ascii_digit()),
            "{name}"
        );
        let suffix = SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix));
        assert_eq!(suffix.map_or(Unit::Count, |(_, unit)| *unit), metric.unit, "{name}");
        assert!(metric.about.len() > 5 && metric.about.ends_with('.'), "{name}: {}", metric.about);
        assert!(metric.about.starts_with(|c: char| c.is_uppercase()), "{name}: {}", metric.about);
        let of_one = metric.unit == Unit::Share || name == "process.busiest_thread_cpus";
        assert!(metric.saturated_at == 0.0 || (of_one && metric.saturated_at == 1.0), "{name}");
        if !metric.weight.is_empty() {
            let of_source = SOURCES.iter().find(|kind| kind.name == source).unwrap().metrics;
            assert!(of_source.iter().any(|other| other.name == metric.weight), "{name} by {}", metric.weight);
        }
    }
}

#[test]
fn sources_are_named_once_and_described() {
    let names: HashSet<_> = SOURCES.iter().map(|source| source.name).collect();
    assert_eq!(names.len(), SOURCES.len());
    assert!(SOURCES.iter().all(|source| source.about.ends_with('.')));
}

/// On the machine the tests run on, whatever it is. Where the kernel lacks a source, it must say so.
#[test]
fn this_machine_can_be_read() {
    for kind in SOURCES.iter().filter(|kind| kind.selector != EXPORTER) {
        let selected: Vec<String> = match kind.selector {
            "process" => vec!["self".into()],
            "cgroup" => vec!["/".into()],
            // Nothing to trace here: slapd is in the tests of `cli`.
            "operation_io" => vec!["self".into()],
            _ => Vec::new(),
        };
        let root = engine::source::HostRoot::live();
        match (kind.open)(&root, &selected) {
            Ok(mut source) => {
                let mut readings = model::Readings::new();
                source.read(1, &mut readings).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(30));
                readings.clear();
                source.read(30_000_001, &mut readings).unwrap();
                let present = readings.values().iter().filter(|value| !value.is_nan()).count();
                // A machine may have no partitions.
                assert!(present > 0 || kind.name == "volume", "{} gave no value", kind.name);
            }
            Err(why) => {
                let may_be_missing = matches!(kind.name, "pressure" | "cgroup" | "operation_io");
                assert!(may_be_missing && why.0.len() > 20, "{}: {why}", kind.name);
            }
        }
    }
}

/// What is always true of a Linux machine that runs this test.
#[test]
fn this_machine_gives_plausible_values() {
    let mut cpu = Probe::live(&crate::cpu::KIND, &[]);
    let mut process = Probe::live(&crate::process::KIND, &["self"]);
    let mut memory = Probe::live(&crate::memory::KIND, &[]);
    for probe in [&mut cpu, &mut process, &mut memory] {
        probe.read_after(1);
        probe.read_after(100_000_000);
    }
    assert!(cpu.get("cpu.runnable_threads", "").unwrap() >= 1.0);
    assert!(process.get("process.resident_bytes", "self").unwrap() > 100_000.0);
    assert!(process.get("process.threads", "self").unwrap() >= 1.0);
    assert_eq!(process.get("process.processes", "self"), Some(1.0));
    let (available, total) = (memory.get("memory.available_bytes", ""), memory.get("memory.total_bytes", ""));
    assert!(available.unwrap() < total.unwrap());
}

/// Every file of every fixture in turn empty, cut off in the middle, full of noise, or gone while it is read.
#[test]
fn damaged_files_neither_panic_nor_invent() {
    let damages: [fn(&str) -> String; 5] = [
        |_| String::new(),
        |text| text.chars().take(text.chars().count() / 2).collect(),
        |text| text.replace(|c: char| c.is_ascii_digit(), "x"),
        |text| text.replace(' ', "\n"),
        |text| text.replace(|c: char| c.is_ascii_digit(), "99999999999"),
    ];
    for (name, group) in [("vm", "shop"), ("no-psi", "x"), ("metal", "system.slice/slapd.service")] {
        let host = Host::copy_of(name);
        for file in host.files() {
            let whole = host.text(&file);
            for damage in damages {
                let mut probes: Vec<Probe> = SOURCES
                    .iter()
                    .filter_map(|kind| {
                        let selected = match kind.selector {
                            "process" => vec!["slapd", "1"],
                            "cgroup" => vec![group],
                            _ => vec![],
                        };
                        host.try_open(kind, &selected).ok()
                    })
                    .collect();
                let mut now = 0;
                let mut read = || {
                    now += SECOND;
                    for probe in &mut probes {
                        probe.readings.clear();
                        let _ = probe.source.read(now, &mut probe.readings);
                        for (column, value) in probe.readings.columns().iter().zip(probe.readings.values()) {
                            assert!(value.is_nan() || *value >= 0.0, "{file}: {} is {value}", column.title());
                        }
                    }
                };
                read();
                host.write(&file, damage(&whole));
                read();
                host.write(&file, &whole);
                read();
            }
        }
    }
}

#[test]
fn every_metric_has_its_constant_in_model() {
    let read: std::collections::BTreeSet<&str> =
        crate::all_metrics().map(|(_, metric)| metric.name.as_ref()).collect();
    let named: std::collections::BTreeSet<&str> = model::metrics::ALL.iter().copied().collect();
    assert_eq!(read, named);
    assert_eq!(named.len(), model::metrics::ALL.len());
}
