//! Calibration: systems whose limit is known, driven by real load, and how often the verdict about them is right.
//!
//! [`planted`] knows the limit because it planted it. [`engine`] takes the supposed cause away and sees what the rate does.

mod engine;
mod host;
mod planted;
mod predict;
mod score;

use std::path::PathBuf;

use serde_json::Value;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, plimsoll};

/// The arguments of the command line.
struct Options {
    seeds: std::ops::Range<u64>,
    keep: bool,
    /// A folder of records to judge once more.
    from: Option<PathBuf>,
    /// The program to calibrate; none for that of the repository, which is built first.
    program: Option<PathBuf>,
    /// Names of cases; all of them when empty.
    chosen: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let (mut seeds, mut first_seed) = (5, 0);
        let mut options = Options { seeds: 0..0, keep: false, from: None, program: None, chosen: Vec::new() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seeds" | "--first-seed" => {
                    let number = words.next().and_then(|n| n.parse().ok());
                    let number: u64 = number.ok_or_else(|| format!("{word} wants a number"))?;
                    *(if word == "--seeds" { &mut seeds } else { &mut first_seed }) = number;
                }
                "--keep" => options.keep = true,
                "--from" => {
                    options.from = Some(words.next().ok_or("--from wants a folder of records")?.into());
                }
                "--program" => {
                    let file = words.next().ok_or("--program wants a file")?;
                    let path = std::fs::canonicalize(file).map_err(|error| format!("{file}: {error}"))?;
                    options.program = Some(path);
                }
                name => options.chosen.push(name.into()),
            }
        }
        options.seeds = first_seed..first_seed + seeds;
        Ok(options)
    }

    fn wants(&self, case: &str) -> bool {
        self.chosen.is_empty() || self.chosen.iter().any(|name| name == case)
    }
}

/// Runs the cases. `--seeds N`, `--first-seed K` and names of cases choose; `--keep` leaves the records, and `--from FOLDER`
/// judges records that were left once more, as the program now does, without driving any load. `--program FILE` takes another
/// program than that of the repository.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let options = Options::parse(arguments)?;
    let names: Vec<&str> = planted::names().chain(engine::names()).collect();
    if let Some(unknown) = options.chosen.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no case `{unknown}`; there are {}", names.join(", ")));
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => plimsoll(repository)?,
    };
    let folder = Folder::new(repository, "calibrate")?;
    let mut faults = planted::run(repository, &program, &folder.0, &options)?;
    faults.extend(engine::run(&program, &folder.0, &options));
    if options.keep {
        println!("the records are in {}", folder.0.display());
        std::mem::forget(folder);
    }
    Ok(faults)
}

/// Parameters of a case, drawn from a seed.
struct Draw(u64);

impl Draw {
    fn new(seed: u64, case: usize) -> Self {
        Draw(
            (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ (case as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9),
        )
    }

    /// A whole number from `low` to `high`, by splitmix64.
    fn whole(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (mixed ^ (mixed >> 31)) % (high - low + 1)
    }
}

/// The label of a verdict that names nothing.
const REFUSED: &str = "-";

/// The verdict in the words of the cases, by its typed form; `-` when none is given.
pub(crate) fn label(verdict: &Value) -> String {
    let limit = &verdict["limit"];
    let class = limit["one"]["resource"]["class"].as_str();
    let of_class = match class {
        Some("cpu" | "cpu_quota") => "cpu",
        Some("disk" | "io_limit") => "disk",
        Some("single_thread") => "single-thread",
        Some("memory") => "memory",
        Some("lock") => "lock",
        Some("worker_pool") => "worker-pool",
        Some("connection_pool") => "connection-pool",
        Some("downstream") => "downstream",
        Some("network") => "network",
        Some("pause") => "pause",
        Some(_) => "?",
        None => "mixed",
    };
    match verdict["kind"].as_str() {
        Some("generator_bound") => "load-generator",
        Some("not_saturated") if !verdict["carried"]["all_that_users_asked"].is_null() => "load-generator",
        Some("not_saturated") => "none",
        Some("bottleneck") => of_class,
        _ => REFUSED,
    }
    .to_string()
}
