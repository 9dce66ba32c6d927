//! Measurements against peers: each compares a figure of ours with another tool's, in interleaved pairs.
//!
//! A benchmark is one line in [`BENCHMARKS`] and a function that prints its ratios with the command and version of the
//! peer, and returns a fault for each promise that does not hold.

mod disk;
mod http;
mod own;

use crate::fault::Fault;
use crate::files::Repository;

/// One comparison.
pub(crate) struct Benchmark {
    /// What selects it.
    pub(crate) name: &'static str,
    /// One sentence.
    pub(crate) about: &'static str,
    /// Measures, prints, and tells what missed its mark.
    pub(crate) run: fn(&Repository) -> Result<Vec<Fault>, String>,
}

/// Every comparison, in the order they run.
static BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "null", about: "the loop's own cost, timing and recording included", run: own::null },
    Benchmark {
        name: "disk-cache",
        about: "the disk engine against fio on a file in the page cache",
        run: disk::page_cache,
    },
    Benchmark {
        name: "disk-direct",
        about: "the disk engine against fio past the page cache",
        run: disk::direct,
    },
    Benchmark { name: "http", about: "the HTTP engine against wrk, on nginx", run: http::against_wrk },
    Benchmark { name: "counters", about: "what reading every counter costs", run: own::counters },
    Benchmark {
        name: "record",
        about: "an hour of 900 counters: size, time to report and to explain it, memory",
        run: own::record,
    },
];

/// Runs the benchmarks whose names contain one of the arguments; all of them without arguments.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let chosen: Vec<&Benchmark> = BENCHMARKS
        .iter()
        .filter(|benchmark| {
            arguments.is_empty() || arguments.iter().any(|word| benchmark.name.contains(word.as_str()))
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        return Err(format!(
            "no benchmark was chosen; registered in xtask/src/bench.rs: [{}]",
            names.join(", ")
        ));
    }
    let mut faults = Vec::new();
    for benchmark in chosen {
        println!("== {}: {}", benchmark.name, benchmark.about);
        faults.extend((benchmark.run)(repository)?);
    }
    Ok(faults)
}
