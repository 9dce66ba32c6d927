//! Measures LDIF: reading it, writing the same records, and writing people, each beside `cat` of the same file to a pipe in the
//! same round; and writing people beside MakeLDIF of OpenDJ, where it is installed (.ci/ldap-peers).
//!
//!     cargo bench -p plimsoll-people --bench ldif -- --people 100000 --rounds 5

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs::File;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Instant;

use ldap::ldif::{Body, Options, Reader, Record, write_record};
use plimsoll_people::{Base, Format, Population, Sink, write_people};

/// Number of attributes of a person, without the object classes.
const ATTRIBUTES_OF: usize = 25;
/// Size of the pieces that are read from and written to a pipe.
const PIECE_BYTES: usize = 256 << 10;
/// Records that are read before they are written: few, so that they are in the cache, as those of a program that writes each when it
/// has it. With 256, half of the time was that of reading them from memory.
const BATCH: usize = 48;
/// The promised ratios: to `cat`, and to MakeLDIF.
const OF_CAT: f64 = 0.2;
const OF_MAKE_LDIF: f64 = 20.0;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut people, mut rounds) = (100_000, 5);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse().ok());
        match (word.as_str(), value) {
            ("--people", Some(value)) => people = value,
            ("--rounds", Some(value)) => rounds = value,
            _ => panic!("--people N --rounds N"),
        }
    }
    let folder = std::env::temp_dir().join(format!("plimsoll-bench-ldif-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("people.ldif");
    write(people, &mut File::create(&path).unwrap());
    let mb = path.metadata().unwrap().len() as f64 / 1e6;
    let peer = Peer::find();
    println!("{people} people, {mb:.1} MB, {rounds} rounds, MB/s");
    if peer.is_none() {
        println!("MakeLDIF is missing: .ci/ldap-peers");
    }

    let mut samples: Vec<[f64; 6]> = Vec::new();
    for _ in 0..rounds {
        samples.push([
            mb / time(|| cat(&path)),
            mb / time(|| read(&path)),
            mb / to_pipe(|out| write_records(&path, out)),
            mb / to_pipe(|out| time(|| write(people, out))),
            mb / time(|| write(people, &mut File::create(folder.join("ours.ldif")).unwrap())),
            peer.as_ref().map_or(f64::NAN, |peer| peer.mb_per_s(people, &folder.join("theirs.ldif"))),
        ]);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let median = |value: &dyn Fn(&[f64; 6]) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let say = |name: &str, at: usize, to: usize, promised: f64| {
        let ratio = median(&|sample| sample[at] / sample[to]);
        let met = match ratio {
            ratio if ratio.is_nan() => "not measured".into(),
            ratio if ratio >= promised => format!("at least {promised}: met"),
            _ => format!("at least {promised}: MISSED"),
        };
        println!("  {name:<34} {:>8.0}   {ratio:>6.3}   {met}", median(&|sample| sample[at]));
    };
    println!("  {:<34} {:>8.0}", "cat to a pipe", median(&|sample| sample[0]));
    say("read", 1, 0, OF_CAT);
    say("records written to a pipe", 2, 0, OF_CAT);
    say("people written to a pipe", 3, 0, OF_CAT);
    println!("  {:<34} {:>8.1}", "MakeLDIF to a file", median(&|sample| sample[5]));
    say("people written to a file", 4, 5, OF_MAKE_LDIF);
}

fn time(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Reads what `cat` writes to a pipe.
fn cat(path: &Path) {
    let mut child = Command::new("cat").arg(path).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut piece = vec![0; PIECE_BYTES];
    while output.read(&mut piece).unwrap() > 0 {}
    assert!(child.wait().unwrap().success());
}

/// Writes to a pipe from which `cat` reads; returns the seconds that it took.
fn to_pipe(work: impl FnOnce(&mut ChildStdin) -> f64) -> f64 {
    let null = File::create("/dev/null").unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(null).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let seconds = work(&mut input);
    drop(input);
    assert!(child.wait().unwrap().success());
    seconds
}

fn read(path: &Path) {
    let mut reader = Reader::open(path, Options::default()).unwrap();
    let mut bytes = 0;
    while let Some(record) = reader.next().unwrap() {
        bytes += record.dn.len();
    }
    assert!(bytes > 0);
}

/// A record with its own texts.
struct Owned {
    dn: String,
    attributes: Vec<(String, Vec<u8>)>,
}

/// Writes the records of a file to a pipe; returns the time of writing, without that of reading them.
fn write_records(path: &Path, out: &mut ChildStdin) -> f64 {
    let mut reader = Reader::open(path, Options::default()).unwrap();
    let mut buffer = Vec::with_capacity(2 * PIECE_BYTES);
    let (mut seconds, mut ended) = (0.0, false);
    while !ended {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Some(record) = reader.next().unwrap() else {
                ended = true;
                break;
            };
            let Body::Entry(attributes) = record.body else { panic!("not an entry") };
            let attributes = attributes.iter().map(|(name, value)| (name.to_string(), value.to_vec()));
            batch.push(Owned { dn: record.dn.into(), attributes: attributes.collect() });
        }
        let records: Vec<Record<'_>> = batch.iter().map(Owned::record).collect();
        seconds += time(|| {
            records.iter().for_each(|record| write_record(&mut buffer, record));
            out.write_all(&buffer).unwrap();
            buffer.clear();
        });
    }
    seconds
}

impl Owned {
    fn record(&self) -> Record<'_> {
        let attributes = self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        Record { line: 1, dn: &self.dn, controls: Vec::new(), body: Body::Entry(attributes.collect()) }
    }
}

fn write(people: u64, out: &mut dyn Write) {
    let format = Format::Ldif(Base::parse("dc=example,dc=com").unwrap());
    let mut go_on = |_, _| true;
    let mut sink = Sink::new(out, &mut go_on);
    write_people(&Population::new(1, people), ATTRIBUTES_OF, &format, &mut sink).unwrap();
}

/// MakeLDIF of OpenDJ, with its own template.
struct Peer {
    /// The class path.
    jars: PathBuf,
}

impl Peer {
    fn find() -> Option<Peer> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
        let jars = target.join("ldap-peers/opendj");
        jars.is_dir().then_some(Peer { jars })
    }

    fn mb_per_s(&self, people: u64, file: &Path) -> f64 {
        let seconds = time(|| {
            let status = Command::new("java")
                .arg("-cp")
                .arg(self.jars.join("*"))
                .args(["com.forgerock.opendj.ldap.tools.MakeLDIF", "-c"])
                .arg(format!("numusers={people}"))
                .arg("-o")
                .arg(file)
                .arg("example.template")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            assert!(status.unwrap().success());
        });
        file.metadata().unwrap().len() as f64 / 1e6 / seconds
    }
}
