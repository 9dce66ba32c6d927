//! Measures the objects per second that the metadirectory stages and synchronizes. Each rate is a ratio to
//! the rate at which the database accepts the same rows in the same run.
//!
//!     cargo bench -p plimsoll-metadir -- ratios --objects 100000 --rounds 3
//!     cargo bench -p plimsoll-metadir -- flatness --objects 1000000
//!
//! Every rate is reported with the time of a disk flush, because the flush time determines the rate of small
//! commits.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod shared;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use people::{ATTRIBUTES, Population};
use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::hologram::{Attribute, Builder, Hash};
use shared::{Folder, Kind, SERVER, cpu_s, median, memory_mib, open};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of attributes of a person.
const ATTRIBUTES_OF: usize = 25;
/// Rows that are committed together, by the metadirectory and by the peers.
const BATCH: usize = 10_000;
/// The directory size that others are compared with.
const SMALL: u64 = 10_000;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut objects, mut rounds, mut stores, mut chosen) = (100_000_u64, 3, Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--objects" => objects = words.next().and_then(|n| n.parse().ok()).expect("--objects N"),
            "--rounds" => rounds = words.next().and_then(|n| n.parse().ok()).expect("--rounds N"),
            "--store" => stores.push(words.next().expect("--store sqlite|postgres")),
            "ratios" | "flatness" => chosen.push(word),
            other => panic!("{other}: ratios, flatness, --objects N, --rounds N, --store sqlite|postgres"),
        }
    }
    let folder = Folder::new("rates");
    println!("PostgreSQL with {}; all else as it was installed, it flushes", SERVER.join(", "));
    let server = testkit::Postgres::start(&SERVER);
    let is_requested = |name: &str| stores.is_empty() || stores.iter().any(|store| store == name);
    let mut kinds = Vec::new();
    kinds.extend(is_requested("sqlite").then(|| Kind::Sqlite(folder.path("store.db"))));
    kinds.extend(
        server
            .as_ref()
            .filter(|_| is_requested("postgres"))
            .map(|server| Kind::Postgres(server.connection())),
    );
    let bench = Bench { folder, kinds, server: server.map(|server| server.connection()) };
    if chosen.is_empty() || chosen.iter().any(|name| name == "ratios") {
        bench.ratios(objects, rounds);
    }
    if chosen.is_empty() || chosen.iter().any(|name| name == "flatness") {
        bench.flatness(objects, rounds);
    }
    println!("memory at its highest: {} MiB, with SQLite within", memory_mib("VmHWM"));
}

/// The columns that a bare insert writes into its table.
#[derive(Clone, Copy)]
enum Form {
    /// A column for each attribute, without an index.
    Columns,
    /// The same columns, with the anchor as the primary key.
    Keyed,
    /// The anchor as the primary key, one image of all attributes, and its hash: the least that staging must
    /// store.
    Image,
}

impl Form {
    const ALL: [(Form, &'static str); 3] = [
        (Form::Columns, "SQLite insert of columns"),
        (Form::Keyed, "SQLite insert of columns with a key"),
        (Form::Image, "SQLite insert of images with a key"),
    ];
}

/// Objects per second of each step, and the CPU time of this program per object, microseconds.
#[derive(Clone, Copy, Debug)]
struct Rates {
    staging: f64,
    synchronization: f64,
    unchanged: f64,
    staging_cpu_us: f64,
    synchronization_cpu_us: f64,
}

struct Bench {
    folder: Folder,
    kinds: Vec<Kind>,
    server: Option<String>,
}

impl Bench {
    /// Reports the rates as ratios to COPY and to bare inserts.
    fn ratios(&self, objects: u64, rounds: usize) {
        let source = self.source(objects, false);
        println!(
            "{objects} people of {ATTRIBUTES_OF} attributes, {BATCH} a commit, {rounds} rounds; objects/s"
        );
        println!(
            "round  flush ms      COPY   columns  with key    images  store       staging  (CPU us)  synchronization  (CPU us)  unchanged"
        );
        let mut ratios: Vec<(String, f64, Vec<f64>)> = Vec::new();
        let mut keep =
            |name: String, wanted, ratio| match ratios.iter_mut().find(|(known, ..)| *known == name) {
                Some((.., all)) => all.push(ratio),
                None => ratios.push((name, wanted, vec![ratio])),
            };
        for round in 1..=rounds {
            let flush = self.folder.flush_ms();
            let copy = self.server.as_ref().map(|server| self.copy(server, &source, objects));
            let bare = Form::ALL.map(|(form, _)| self.bare_sqlite(&source, objects, form));
            let [columns, keyed, images] = bare;
            for kind in &self.kinds {
                let rates = self.rates(kind, &source, objects);
                println!(
                    "{round:>5}  {flush:>8.2}  {:>8.0}  {columns:>8.0}  {keyed:>8.0}  {images:>8.0}  {:<10}  {:>8.0}  {:>8.1}  {:>15.0}  {:>8.1}  {:>9.0}",
                    copy.unwrap_or(f64::NAN),
                    kind.name(),
                    rates.staging,
                    rates.staging_cpu_us,
                    rates.synchronization,
                    rates.synchronization_cpu_us,
                    rates.unchanged
                );
                let of = |what: &str, peer: &str| format!("{what} into {} / {peer}", kind.name());
                if let Some(copy) = copy {
                    keep(of("staging", "COPY"), 0.3, rates.staging / copy);
                    keep(of("synchronization", "COPY"), 0.12, rates.synchronization / copy);
                    keep(of("unchanged", "COPY"), 0.3, rates.unchanged / copy);
                }
                if matches!(kind, Kind::Sqlite(_)) {
                    for ((_, peer), rate) in Form::ALL.into_iter().zip(bare) {
                        keep(of("staging", peer), 0.9, rates.staging / rate);
                        keep(of("synchronization", peer), 0.5, rates.synchronization / rate);
                    }
                }
            }
        }
        for (name, wanted, all) in ratios {
            println!(
                "{name}: {:.2} (lowest {:.2}, highest {:.2}; at least {wanted} wanted)",
                median(&all),
                lowest(&all),
                highest(&all)
            );
        }
    }

    /// Reports how much slower a large directory is than a small one.
    fn flatness(&self, objects: u64, rounds: usize) {
        for (is_random, order, wanted) in [(false, "in order", 0.9), (true, "at random", 0.6)] {
            let large = self.source(objects, is_random);
            let small = self.source(SMALL, is_random);
            for kind in &self.kinds {
                let mut all = Vec::new();
                for _ in 0..rounds {
                    // The small directory is measured before and after, because the background load drifts;
                    // several times, because a run is short.
                    let mut smalls: Vec<Rates> = (0..3).map(|_| self.rates(kind, &small, SMALL)).collect();
                    let flush = self.folder.flush_ms();
                    let of_large = self.rates(kind, &large, objects);
                    smalls.extend((0..3).map(|_| self.rates(kind, &small, SMALL)));
                    let of = |rate: fn(&Rates) -> f64| median(&smalls.iter().map(rate).collect::<Vec<_>>());
                    let of_small = Rates {
                        staging: of(|rates| rates.staging),
                        synchronization: of(|rates| rates.synchronization),
                        unchanged: of(|rates| rates.unchanged),
                        staging_cpu_us: of(|rates| rates.staging_cpu_us),
                        synchronization_cpu_us: of(|rates| rates.synchronization_cpu_us),
                    };
                    println!(
                        "{}, anchors {order}, flush {flush:.2} ms: {SMALL}: {of_small:.0?}; {objects}: {of_large:.0?}",
                        kind.name()
                    );
                    all.push((of_large, of_small));
                }
                let ratio = |rate: fn(&Rates) -> f64| {
                    median(&all.iter().map(|(large, small)| rate(large) / rate(small)).collect::<Vec<_>>())
                };
                println!(
                    "{}, anchors {order}, {objects} / {SMALL}: staging {:.2}, synchronization {:.2}, unchanged {:.2}; at least {wanted} wanted",
                    kind.name(),
                    ratio(|rates| rates.staging),
                    ratio(|rates| rates.synchronization),
                    ratio(|rates| rates.unchanged)
                );
            }
        }
    }

    /// A file of people. Their anchor is their number or a value in random order.
    fn source(&self, objects: u64, is_random: bool) -> PathBuf {
        let path =
            self.folder.path(&format!("people-{objects}{}.csv", if is_random { "-random" } else { "" }));
        if path.exists() {
            return path;
        }
        let people = Population::new(1, objects);
        let mut records = people.records(ATTRIBUTES_OF);
        let mut writer = csv::Writer::from_writer(BufWriter::new(File::create(&path).unwrap()));
        writer.write_record(columns()).unwrap();
        while let Some(person) = records.next() {
            let mut fields: Vec<String> = person.values().map(|(_, value)| value.to_string()).collect();
            if is_random {
                fields[0] = format!("{:?}", Hash::of(fields[0].as_bytes()));
            }
            writer.write_record(&fields).unwrap();
        }
        writer.flush().unwrap();
        path
    }

    fn rates(&self, kind: &Kind, source: &Path, objects: u64) -> Rates {
        kind.forget();
        let config = configuration(&kind.keys(BATCH), source, &self.folder.path("directory.csv"));
        let mut directory = open(&config);
        let people = 1;
        let mut rate = |kind| {
            let (begin, cpu) = (Instant::now(), cpu_s("self"));
            let done = directory.run(Step { agent: people, kind }, &mut |_| true).unwrap();
            assert!(done.discovery_errors.is_empty() && done.failures.is_empty(), "{done:?}");
            let rate = objects as f64 / begin.elapsed().as_secs_f64();
            (rate, (cpu_s("self") - cpu) / objects as f64 * 1e6, done.statistics)
        };
        let (staging, staging_cpu_us, added) = rate(StepKind::FullImport);
        assert_eq!(added.of("stage-add"), objects);
        let (synchronization, synchronization_cpu_us, made) = rate(StepKind::DeltaSynchronization);
        assert_eq!(made.of("provisioned-add"), objects);
        let (unchanged, _, same) = rate(StepKind::FullImport);
        assert_eq!(same.of("stage-no-change"), objects);
        drop(directory);
        kind.forget();
        Rates { staging, synchronization, unchanged, staging_cpu_us, synchronization_cpu_us }
    }

    /// Rows per second of COPY into a table without an index.
    fn copy(&self, server: &str, source: &Path, objects: u64) -> f64 {
        let mut client = postgres::Client::connect(server, postgres::NoTls).unwrap();
        let columns: Vec<String> = columns().iter().map(|name| format!("\"{name}\" text")).collect();
        client
            .batch_execute(&format!("DROP TABLE IF EXISTS bare; CREATE TABLE bare ({})", columns.join(", ")))
            .unwrap();
        let begin = Instant::now();
        let mut writer = client.copy_in("COPY bare FROM STDIN (FORMAT csv, HEADER)").unwrap();
        let mut file = File::open(source).unwrap();
        let mut piece = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut piece).unwrap();
            if read == 0 {
                break;
            }
            writer.write_all(&piece[..read]).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), objects);
        let rate = objects as f64 / begin.elapsed().as_secs_f64();
        client.batch_execute("DROP TABLE bare").unwrap();
        rate
    }

    /// Rows per second of a prepared insert, in one of the forms.
    fn bare_sqlite(&self, source: &Path, objects: u64, form: Form) -> f64 {
        let path = self.folder.path("bare.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        let columns: Vec<String> = columns().iter().map(|name| format!("\"{name}\" TEXT")).collect();
        let (table, places) = match form {
            Form::Columns => (columns.join(", "), ATTRIBUTES_OF),
            Form::Keyed => {
                (format!("{}, PRIMARY KEY (\"employeeNumber\")", columns.join(", ")), ATTRIBUTES_OF)
            }
            Form::Image => ("anchor BLOB PRIMARY KEY, hash BLOB, image BLOB".into(), 3),
        };
        connection.execute_batch(&format!("CREATE TABLE bare ({table})")).unwrap();
        let places = vec!["?"; places].join(", ");
        let begin = Instant::now();
        let mut reader = csv::Reader::from_path(source).unwrap();
        let mut record = csv::StringRecord::new();
        let mut insert = connection.prepare(&format!("INSERT INTO bare VALUES ({places})")).unwrap();
        let (mut builder, mut count) = (Builder::default(), 0);
        while reader.read_record(&mut record).unwrap() {
            if count % BATCH == 0 {
                connection.execute_batch(if count == 0 { "BEGIN" } else { "COMMIT; BEGIN" }).unwrap();
            }
            if let Form::Image = form {
                for (at, value) in record.iter().enumerate() {
                    builder.push(Attribute(at as u32 + 1), value.as_bytes());
                }
                let image = builder.finish();
                insert
                    .execute(rusqlite::params![record[0].as_bytes(), image.hash().0, image.as_bytes()])
                    .unwrap();
            } else {
                insert.execute(rusqlite::params_from_iter(record.iter())).unwrap();
            }
            count += 1;
        }
        connection.execute_batch("COMMIT").unwrap();
        assert_eq!(count as u64, objects);
        let rate = objects as f64 / begin.elapsed().as_secs_f64();
        drop(insert);
        drop(connection);
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{end}", path.display()));
        }
        rate
    }
}

/// The names of the attributes.
fn columns() -> Vec<&'static str> {
    ATTRIBUTES.iter().take(ATTRIBUTES_OF).map(|attribute| attribute.name).collect()
}

/// People are imported by 25 flows, joined by their number, and projected. They are provisioned to a
/// directory, with a name from an expression.
fn configuration(store: &str, source: &Path, target: &Path) -> String {
    let names = columns();
    let listed = |each: &dyn Fn(&str) -> String| {
        let all: Vec<String> = names.iter().map(|name| each(name)).collect();
        all.join(", ")
    };
    let mut text = String::new();
    let _ = write!(
        text,
        r#"
{store}
[metaverse.person]
attributes = {{ {types} }}

[agents.directory]
type = "delimited"
path = "{target}"
anchor = "employeeNumber"

[agents.people]
type = "delimited"
path = "{source}"
anchor = "employeeNumber"

[[inbound]]
agent = "people"
to = "person"
join = [{{ cs = "employeeNumber", mv = "employeeNumber" }}]
project = true
flow = {{ {flows} }}

[[outbound]]
agent = "directory"
from = "person"
dn = "'uid=' + mv.uid + ',ou=people,dc=example,dc=com'"
flow = {{ {flows} }}
"#,
        types = listed(&|name| format!("{name} = \"text\"")),
        flows = listed(&|name| format!("{name} = \"{name}\"")),
        source = source.display(),
        target = target.display(),
    );
    text
}

fn lowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
