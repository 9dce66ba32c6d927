//! Compares the cost of a host change in the journal with the least cost of a durable line: two lines
//! appended to a file and synced. Prints medians and their ratio.
//!
//! `cargo run --release -p plimsoll-record --example journal_cost` writes into the working directory.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for work on the journal")]

use std::io::Write;
use std::time::{Duration, Instant};

use model::experiment::WorkloadSpec;
use model::{DesignKind, Experiment, Settings};
use plimsoll_record::{Journal, state_folder};

const ROUNDS: usize = 300;

/// A typical undo step of a factor.
const STEP: &str = "write `max 100000` into /sys/fs/cgroup/system.slice/plimsoll-target-4711-0/cpu.max";

fn experiment() -> Experiment {
    Experiment {
        machines: Default::default(),
        name: "cost".into(),
        goals: Vec::new(),
        max_failures: model::experiment::MAX_FAILURES,
        watch: vec![model::Secret::plain("host")],
        sample_every: model::SECOND,
        replicates: 1,
        seed: 1,
        prove: false,
        folder: Default::default(),
        target: None,
        workload: WorkloadSpec { kind: "null".into(), settings: Settings::default() },
        load: Settings::default(),
        vary: Vec::new(),
        design: DesignKind::OneFactorAtATime,
        gate: None,
        show: Vec::new(),
        published: Vec::new(),
        limit: Vec::new(),
        smallest: None,
        dependencies: Vec::new(),
    }
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn main() {
    let folder = std::env::current_dir().unwrap().join(format!("journal-cost-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    println!("journals are in {}", state_folder().unwrap().display());
    let begun = Instant::now();
    let mut journal = Journal::begin(&folder, &experiment()).unwrap();
    let begin_us = begun.elapsed().as_secs_f64() * 1e6;
    let mut plain = std::fs::File::create(folder.join("plain")).unwrap();
    let (mut ours, mut least) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let id = journal.pending("host.cpu_quota", &[STEP]).unwrap();
        journal.cross_off(id).unwrap();
        ours.push(begun.elapsed());
        let begun = Instant::now();
        for line in [STEP, "undone"] {
            plain.write_all(format!("{line}\n").as_bytes()).unwrap();
            plain.sync_data().unwrap();
        }
        least.push(begun.elapsed());
    }
    let begun = Instant::now();
    journal.complete().unwrap();
    let end_us = begun.elapsed().as_secs_f64() * 1e6;
    let (ours, least) = (median_us(ours), median_us(least));
    println!("a change announced and undone: {ours:.0} us; two lines appended and synced: {least:.0} us");
    println!("ratio {:.2}; once a run: {begin_us:.0} us to begin, {end_us:.0} us to end", ours / least);
    std::fs::remove_dir_all(&folder).unwrap();
}
