//! Each reader of foreign data, with thousands of files that were damaged in the same way each time: none is a panic, none takes
//! a gibibyte, none takes 30 s.
//!
//! A few files for each reader in every run of the tests; more, and a table of what they took, with
//! `MUTATIONS=10000 cargo test -p plimsoll-cli --test it mutations -- --nocapture`. `MUTATIONS_OF` is a part of the names of readers,
//! and `MUTATIONS_FIRST` the number of the first file.
//! Each reader has a process of its own, whose memory is counted.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test by hand prints a table, and why a file is a fault"
)]

#[path = "../../../../fuzz/src/readers/mod.rs"]
#[allow(unreachable_pub, missing_docs, clippy::expect_used, reason = "shared with the fuzz targets")]
mod readers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Files for each reader where nothing else is said.
const COUNT: u64 = 30;

/// The bounds of SECURITY.md.
const MEMORY_MAX: u64 = 1 << 30;
const TIME_MAX: Duration = Duration::from_secs(30);

/// The longest file that a mutation makes of one.
const FILE_BYTES_MAX: usize = 256 << 10;

/// What readers may take for something else: numbers at the ends of their types, and signs that begin or end something.
const WORDS: [&[u8]; 34] = [
    b"0",
    b"-1",
    b"1e308",
    b"-1e308",
    b"1e-320",
    b"NaN",
    b"inf",
    b"9223372036854775808",
    b"18446744073709551615",
    b"4294967296",
    b"12345678901234567890123456",
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b",",
    b";",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b"</",
    b"=",
    b":",
    b"%",
    b"\\",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xf4\x8f\xbf\xbf",
    b"null",
];

/// Numbers that follow from a seed: the same on every host (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// The file with this number: a seed with one to eight changes. The seeds themselves are the first.
fn mutation(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut chance = Chance(number.wrapping_mul(0xa076_1d64_78bd_642f));
    if (number as usize) < seeds.len() {
        return seeds[number as usize].clone();
    }
    let mut file = seeds[chance.below(seeds.len())].clone();
    for _ in 0..=chance.below(8) {
        change(&mut file, seeds, &mut chance);
    }
    file.truncate(FILE_BYTES_MAX);
    file
}

fn change(file: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.below(file.len());
    let most = [4, 64, 4096][chance.below(3)];
    let length = 1 + chance.below(most);
    let end = (at + length).min(file.len());
    match chance.below(10) {
        _ if file.is_empty() => file.extend_from_slice(WORDS[chance.below(WORDS.len())]),
        0 => file[at] ^= 1 << chance.below(8),
        1 => file[at] = chance.next() as u8,
        2 => drop(file.drain(at..end)),
        3 => file.truncate(at),
        4 => {
            let part = file[at..end].to_vec();
            let times = 1 + chance.below(32);
            for _ in 0..times {
                let room = file.len() + part.len() <= FILE_BYTES_MAX;
                if room {
                    file.splice(at..at, part.iter().copied());
                }
            }
        }
        5 => {
            let other = &seeds[chance.below(seeds.len())];
            let from = chance.below(other.len());
            let to = (from + length).min(other.len());
            file.splice(at..at, other[from..to].iter().copied());
        }
        6 => drop(file.splice(at..at, WORDS[chance.below(WORDS.len())].iter().copied())),
        // A number becomes another one.
        7 | 8 => {
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let Some(begin) = file[at..].iter().position(is_digit).map(|skip| at + skip) else { return };
            let end =
                file[begin..].iter().position(|byte| !is_digit(byte)).map_or(file.len(), |skip| begin + skip);
            file.splice(begin..end, WORDS[chance.below(11)].iter().copied());
        }
        // A line moves.
        _ => {
            let line_end =
                |from: usize| file[from..].iter().position(|byte| *byte == b'\n').map(|skip| from + skip + 1);
            let (Some(begin), Some(to)) = (line_end(at), line_end(chance.below(file.len()))) else { return };
            let Some(end) = line_end(begin) else { return };
            let line: Vec<u8> = file.drain(begin..end).collect();
            let to = to.min(file.len());
            file.splice(to..to, line);
        }
    }
}

type Reader = fn(&[u8]);

/// All readers by their names, each with files to begin with. Each format of [`foreign::FORMATS`] is a reader.
fn all() -> BTreeMap<String, (Reader, Vec<Vec<u8>>)> {
    let top = readers::top();
    let read = |folder: PathBuf| -> Vec<(PathBuf, Vec<u8>)> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        // What a fuzzer found on this machine has no extension.
        paths.retain(|path| path.extension().is_some_and(|of| of != "md"));
        paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    };
    let mut found: BTreeMap<String, (Reader, Vec<Vec<u8>>)> = BTreeMap::new();
    for (name, reader) in readers::ALL {
        let mut seeds: Vec<Vec<u8>> =
            read(top.join("fuzz/corpus").join(name)).into_iter().map(|(_, file)| file).collect();
        if seeds.is_empty() {
            seeds.push(b"1,2\na,b\n".to_vec());
        }
        found.insert(name.to_string(), (*reader, seeds));
    }
    for (path, file) in read(top.join("crates/foreign/fixtures")) {
        let source: foreign::Source = Box::new(std::io::Cursor::new(file.clone()));
        let Ok((format, _)) = foreign::open(source, &foreign::Options::default()) else {
            panic!("{} is of no format", path.display());
        };
        // The options come first.
        let seed = [b"\0".to_vec(), file].concat();
        let entry = found.entry(format!("foreign {}", format.name));
        entry.or_insert((readers::foreign::run, Vec::new())).1.push(seed);
    }
    found
}

/// What a reader took.
struct Taken {
    count: u64,
    panics: u64,
    memory_bytes: u64,
    longest: Duration,
    /// The number of the file that took it.
    longest_at: u64,
}

/// Set in the processes of readers: the name of the reader.
const READER: &str = "PLIMSOLL_TEST_READER";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn count() -> u64 {
    number("MUTATIONS").unwrap_or(COUNT)
}

/// The number of the first file.
fn first() -> u64 {
    number("MUTATIONS_FIRST").unwrap_or(0)
}

#[test]
fn readers_survive_damaged_files() {
    let part = std::env::var("MUTATIONS_OF").unwrap_or_default();
    let names: Vec<String> = all().into_keys().filter(|name| name.contains(&part)).collect();
    let (mut table, mut failures) = (String::new(), Vec::new());
    for name in &names {
        match of_process(name) {
            Ok(taken) => {
                let mebibytes = taken.memory_bytes >> 20;
                let ms = taken.longest.as_millis();
                let Taken { count, panics, longest_at, .. } = taken;
                writeln!(table, "| {name} | {count} | {panics} | {mebibytes} | {ms} | {longest_at} |")
                    .unwrap();
                if taken.panics > 0 || taken.memory_bytes > MEMORY_MAX || taken.longest > TIME_MAX {
                    failures.push(format!("{name}: {} panics, {mebibytes} MiB, {ms} ms", taken.panics));
                }
            }
            Err(what) => failures.push(format!("{name}: {what}")),
        }
    }
    println!(
        "| reader | files | panics | memory, MiB | longest, ms | file |\n| --- | ---: | ---: | ---: | ---: | ---: |\n{table}"
    );
    assert!(!names.is_empty() && failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a reader in a process of its own.
fn of_process(name: &str) -> Result<Taken, String> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mutations::reader", "--nocapture", "--test-threads", "1"])
        .env(READER, name)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    for folder in [Path::new("/dev/shm"), &std::env::temp_dir()] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let of = entry.file_name().to_string_lossy().into_owned();
            if of.starts_with("plimsoll-fuzz-") && of.ends_with(&format!("-{id}")) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
    let out = String::from_utf8_lossy(&output.stdout);
    let failed = || format!("{}\n{}", output.status, tail(&String::from_utf8_lossy(&output.stderr)));
    let line = out.lines().find_map(|line| line.split_once("TAKEN ")).ok_or_else(failed)?.1;
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [count, panics, memory_bytes, longest_us, longest_at] = numbers[..] else { return Err(failed()) };
    if panics > 0 {
        eprintln!("{name}:\n{}", tail(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(Taken { count, panics, memory_bytes, longest: Duration::from_micros(longest_us), longest_at })
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// In a process of its own: reads all files of one reader.
#[test]
fn reader() {
    let Ok(name) = std::env::var(READER) else { return };
    let (reader, seeds) = all().remove(&name).unwrap();
    // Nanoseconds since `begin` at which the present file began.
    static SINCE_NS: AtomicU64 = AtomicU64::new(0);
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let begin = Instant::now();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let since = Duration::from_nanos(SINCE_NS.load(Ordering::Relaxed));
            let (number, memory_bytes) = (NUMBER.load(Ordering::Relaxed), memory_bytes("VmHWM:"));
            if begin.elapsed().saturating_sub(since) > TIME_MAX || memory_bytes > MEMORY_MAX {
                eprintln!("file {number}: {} MiB, more than 30 s or a gibibyte", memory_bytes >> 20);
                std::process::abort();
            }
        }
    });
    let (mut panics, mut longest) = (0_u64, (Duration::ZERO, 0));
    for number in first()..first().saturating_add(count()) {
        let file = mutation(&seeds, number);
        let before = begin.elapsed();
        NUMBER.store(number, Ordering::Relaxed);
        SINCE_NS.store(before.as_nanos() as u64, Ordering::Relaxed);
        if catch_unwind(AssertUnwindSafe(|| reader(&file))).is_err() {
            panics += 1;
            eprintln!("file {number} of {name} is a panic");
        }
        longest = longest.max((begin.elapsed() - before, number));
    }
    let (longest, at) = longest;
    println!("\nTAKEN {} {panics} {} {} {at}", count(), memory_bytes("VmHWM:"), longest.as_micros());
}

fn memory_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

#[test]
fn mutations_are_the_same_each_time_and_differ() {
    let seeds = vec![b"a = 1\nb = 22\nc = 333\n".to_vec()];
    let of = |numbers: std::ops::Range<u64>| -> Vec<Vec<u8>> {
        numbers.map(|number| mutation(&seeds, number)).collect()
    };
    assert_eq!(of(0..500), of(0..500));
    assert_eq!(of(0..1), seeds);
    let mut all = of(0..500);
    all.sort();
    all.dedup();
    assert!(all.len() > 400, "{}", all.len());
}
