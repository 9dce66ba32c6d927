//! How often a gate fails although nothing is slower, and how often it finds a slowdown of 2 %.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, median, plimsoll};

/// Works for some 25 ms in the CPU and its caches.
const PROGRAM: &str = "\
#include <stdint.h>
#include <stdio.h>
int main(void) {
    static uint32_t table[1 << 16];
    uint64_t x = 88172645463325252ULL;
    for (long at = 0; at < ROUNDS; at++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        table[x & 0xffff] += x >> 32;
    }
    printf(\"%u\\n\", table[5]);
    return 0;
}
";

/// Rounds of the program, and of one that is 2 % slower.
const ROUNDS: [u32; 2] = [15_000_000, 15_300_000];

/// A gate of one metric: of so many equal versions, one may fail.
const ALARMS_MAX: usize = 1;
const ALARMS_OF: usize = 200;
const FOUND_SHARE: f64 = 0.8;

/// What the gates of one case said.
#[derive(Default)]
struct Answers {
    slower: usize,
    passed: usize,
    unclear: usize,
    rounds: Vec<f64>,
    slowdowns: Vec<f64>,
}

impl Answers {
    fn all(&self) -> usize {
        self.slower + self.passed + self.unclear
    }
}

/// `rounds` gates of equal versions and a quarter of it with a slowdown, for CPU time and elapsed time.
pub(super) fn gates(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "gate")?;
    for (name, rounds) in [("base", ROUNDS[0]), ("same", ROUNDS[0]), ("slow", ROUNDS[1])] {
        compile(&folder.0.join(name), rounds)?;
    }
    let mut faults = Vec::new();
    println!("metric             versions    gates  slower  passed  can't tell  rounds  slowdown (median)");
    for metric in ["cpu_per_operation", "response.p50"] {
        for (head, what, gates) in [("same", "equal", rounds), ("slow", "2 % slower", rounds.div_ceil(4))] {
            let mut answers = Answers::default();
            for gate in 0..gates {
                answers.add(&one(&program, &folder.0, head, metric, gate)?)?;
            }
            println!(
                "{metric:<18} {what:<11} {:>5}  {:>6}  {:>6}  {:>10}  {:>6.0}  {:+.2} %",
                answers.all(),
                answers.slower,
                answers.passed,
                answers.unclear,
                median(&answers.rounds),
                100.0 * median(&answers.slowdowns)
            );
            let is_met = match head {
                "same" => answers.slower <= ALARMS_MAX.max(answers.all() * ALARMS_MAX / ALARMS_OF),
                // "Can't tell" is no answer: it needs a machine with less noise.
                _ => answers.slower as f64 >= FOUND_SHARE * (answers.slower + answers.passed) as f64,
            };
            if !is_met {
                let found =
                    format!("{metric}, {what}: {} of {} gates say slower", answers.slower, answers.all());
                let promised = "promised: at most 1 of 200 equal versions, and 4 of 5 that are 2 % slower";
                faults.push(Fault::new("gate", found, promised));
            }
        }
    }
    Ok(faults)
}

impl Answers {
    fn add(&mut self, gate: &Value) -> Result<(), String> {
        match gate["answer"].as_str() {
            Some("slower") => self.slower += 1,
            Some("passed") => self.passed += 1,
            Some("cant_tell") => self.unclear += 1,
            other => return Err(format!("a gate answered {other:?}")),
        }
        let of = |name: &str| gate["metrics"][0][name].as_f64().unwrap_or(f64::NAN);
        self.rounds.push(of("pairs"));
        self.slowdowns.push(of("slowdown"));
        Ok(())
    }
}

/// The answer of one gate.
fn one(program: &Path, folder: &Path, head: &str, metric: &str, gate: usize) -> Result<Value, String> {
    let run = folder.join("run");
    let _ = std::fs::remove_dir_all(&run);
    let output = Command::new(program)
        .args(["gate", "--base", "base", "--head", head, "--metric", metric, "--quiet", "--json"])
        // Other orders of the trials each time.
        .args(["--seed", &gate.to_string()])
        .arg("--run-dir")
        .arg(&run)
        .args(["--", "./program"])
        .current_dir(folder)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("the gate printed no JSON: {error}: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(document["gate"].clone())
}

fn compile(folder: &Path, rounds: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let source = folder.join("program.c");
    std::fs::write(&source, PROGRAM).map_err(failed)?;
    let built = Command::new("cc")
        .args(["-O2", &format!("-DROUNDS={rounds}"), "-o"])
        .arg(folder.join("program"))
        .arg(&source)
        .status()
        .map_err(|error| format!("cc: {error}"))?;
    if built.success() { Ok(()) } else { Err(format!("cc: {built}")) }
}
