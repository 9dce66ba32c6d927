//! Shared code of the benchmarks of the metadirectory.

#![allow(dead_code, clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};

/// Settings of the database server; its defaults are for the smallest machine.
pub(crate) const SERVER: [&str; 2] = ["shared_buffers=1GB", "max_wal_size=8GB"];

/// A folder that is removed at the end. It is on the disk of the build, because `/tmp` may be in memory.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("metadir-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The median time to write 4 KiB and flush them, milliseconds.
    pub(crate) fn flush_ms(&self) -> f64 {
        let path = self.path("flush");
        let mut file = File::create(&path).unwrap();
        let mut times = Vec::new();
        for _ in 0..100 {
            file.seek(SeekFrom::Start(0)).unwrap();
            let begin = Instant::now();
            file.write_all(&[1; 4096]).unwrap();
            file.sync_data().unwrap();
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let _ = fs::remove_file(&path);
        median(&times)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A database for a store.
#[derive(Clone)]
pub(crate) enum Kind {
    Sqlite(PathBuf),
    Postgres(String),
}

const SCHEMA: &str = "measured";

impl Kind {
    /// The requested kinds, or all if none was requested.
    pub(crate) fn of(asked: &[String], folder: &Folder) -> Vec<Kind> {
        let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|store| store == name);
        let mut kinds = Vec::new();
        kinds.extend(is_asked("sqlite").then(|| Kind::Sqlite(folder.path("store.db"))));
        if is_asked("postgres") {
            match testkit::Postgres::start(&SERVER) {
                Some(server) => {
                    say(&format!(
                        "PostgreSQL with {}; all else as it was installed, it flushes",
                        SERVER.join(", ")
                    ));
                    kinds.push(Kind::Postgres(server.connection()));
                }
                None => say("without PostgreSQL: it is not installed"),
            }
        }
        kinds
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Sqlite(_) => "SQLite",
            Kind::Postgres(_) => "PostgreSQL",
        }
    }

    /// Deletes the database if it exists.
    pub(crate) fn forget(&self) {
        match self {
            Kind::Sqlite(path) => {
                for end in ["", "-wal", "-shm", ".lock"] {
                    let _ = fs::remove_file(format!("{}{end}", path.display()));
                }
            }
            Kind::Postgres(server) => {
                let mut client = postgres::Client::connect(server, postgres::NoTls).unwrap();
                client.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).unwrap();
            }
        }
    }

    /// The `[store]` section of a configuration.
    pub(crate) fn keys(&self, commit_objects: usize) -> String {
        let place = match self {
            Kind::Sqlite(path) => format!("sqlite = \"{}\"", path.display()),
            Kind::Postgres(server) => format!("postgres = \"{server}\"\nschema = \"{SCHEMA}\""),
        };
        format!("[store]\n{place}\ndurability = \"full\"\ncommit_objects = {commit_objects}\n")
    }
}

/// A metadirectory in a new store.
pub(crate) fn open(config: &str) -> Metadirectory {
    let config = connectors::parse(config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    Metadirectory::open(config).unwrap()
}

/// Runs a step that must succeed; returns its seconds and its outcome.
pub(crate) fn run(metadirectory: &mut Metadirectory, agent: usize, kind: StepKind) -> (f64, StepResult) {
    let begin = Instant::now();
    let done = metadirectory.run(Step { agent, kind }, &mut |_| true).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    assert!(done.discovery_errors.is_empty() && done.failures.is_empty(), "{done:?}");
    (seconds, done)
}

/// CPU time of a process, user and system, seconds.
pub(crate) fn cpu_s(process: impl std::fmt::Display) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The fields after the name, which may contain blanks. Ticks are hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// A line of `/proc/self/status`, MiB.
pub(crate) fn memory_mib(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|at| at.strip_prefix(line)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().unwrap() / 1024
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// A name with the median, lowest and highest of its values.
pub(crate) fn summary(name: &str, values: &[f64]) {
    let (low, high) =
        (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max));
    say(&format!("{name}: {:.2} (lowest {low:.2}, highest {high:.2})", median(values)));
}

#[allow(clippy::print_stdout)]
pub(crate) fn say(line: &str) {
    println!("{line}");
}
