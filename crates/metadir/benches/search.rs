//! Measures searches among many objects: by the index, by a join key, and by reading everything. Each query
//! opens the store for reading, as the command does.
//!
//!     cargo bench -p plimsoll-metadir --bench search -- --objects 1000000 --queries 20 --store sqlite

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod shared;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::Instant;

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{Condition, Found, Metadirectory, SearchScope, SearchSink};
use shared::{Folder, Kind, open, run, say, summary};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Objects that are shown.
const MOST: usize = 100;

struct Count(usize);

impl SearchSink for Count {
    fn found(&mut self, _: Found) -> bool {
        self.0 += 1;
        self.0 < MOST
    }

    fn read(&mut self, _: u64) -> bool {
        true
    }
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut objects, mut queries, mut stores) = (1_000_000_u64, 20_u64, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--objects" => objects = words.next().and_then(|n| n.parse().ok()).expect("--objects N"),
            "--queries" => queries = words.next().and_then(|n| n.parse().ok()).expect("--queries N"),
            "--store" => stores.push(words.next().expect("--store sqlite|postgres")),
            other => panic!("{other}: --objects N, --queries N, --store sqlite|postgres"),
        }
    }
    let folder = Folder::new("search");
    let source = folder.path("people.csv");
    let mut file = BufWriter::new(File::create(&source).unwrap());
    writeln!(file, "id,name,mail,title,city").unwrap();
    for at in 0..objects {
        let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        writeln!(file, "E{at:08},Person {mixed},P{mixed:06}.{at}@plim.example,Engineer,City {}", at % 1000)
            .unwrap();
    }
    file.flush().unwrap();
    for kind in Kind::of(&stores, &folder) {
        kind.forget();
        let config = format!(
            "{}[metaverse.person]\nattributes = {{ id = \"text\", name = \"text\", mail = \"text\", title = \"text\", city = \"text\" }}\n\
             search = [\"mail\"]\n[agents.people]\ntype = \"delimited\"\npath = \"{}\"\nanchor = \"id\"\n[[inbound]]\nagent = \"people\"\n\
             to = \"person\"\njoin = [{{ cs = \"id\", mv = \"id\" }}]\nproject = true\n\
             flow = {{ id = \"id\", name = \"name\", mail = \"mail\", title = \"title\", city = \"city\" }}\n",
            kind.keys(10_000),
            source.display()
        );
        let mut directory = open(&config);
        run(&mut directory, 0, StepKind::FullImport);
        let (seconds, _) = run(&mut directory, 0, StepKind::FullSynchronization);
        drop(directory);
        say(&format!(
            "{}: {objects} objects, synchronized in {seconds:.1} s; milliseconds of a query",
            kind.name()
        ));
        let mixed = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let of = |at: u64| at * (objects / queries.max(1)) + 17;
        let kinds: [(&str, &dyn Fn(u64) -> String); 4] = [
            ("index, exact", &|at| format!("mail=P{:06}.{}@plim.example", mixed(of(at)), of(at))),
            ("index, beginning", &|at| format!("mail=p{:06}*", mixed(of(at)))),
            ("index, 100 found", &|at| format!("mail=p1{}*", at % 10)),
            ("join key", &|at| format!("id=E{:08}", of(at))),
        ];
        for (name, text) in kinds {
            let times: Vec<f64> = (0..queries).map(|at| query(&config, &text(at))).collect();
            summary(name, &times);
        }
        let times: Vec<f64> = (0..2).map(|at| query(&config, &format!("mail=*.{}@*", of(at)))).collect();
        summary("everything is read", &times);
        kind.forget();
    }
}

/// Opens the store and searches; milliseconds.
fn query(config: &str, text: &str) -> f64 {
    let config = connectors::parse(config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let conditions = Condition::parse(text).unwrap();
    let begin = Instant::now();
    let mut directory = Metadirectory::read(config).unwrap();
    let mut count = Count(0);
    directory.search(&conditions, &SearchScope::Metaverse, &mut count).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    assert!(count.0 > 0, "{text}");
    seconds * 1e3
}
