//! One server loaded by one, two, ten and fifty agents: what it served beside what was counted, and how late the agents began.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{TASK, agents_on, own};
use crate::bench::http::server::{Log, Protocol, Server};
use crate::fault::Fault;

const AGENTS: [usize; 4] = [1, 2, 10, 50];

/// Runs with each number of agents. A start may vary, the counts may not.
const RUNS: usize = 3;

/// All begin within this time, besides the uncertainty of their clocks.
const START_LATE_MAX_MS: f64 = 2.0;

/// 2,000 requests per second, of which the server logs each.
pub(super) fn counts(program: &Path, folder: &Path) -> Result<Vec<Fault>, String> {
    let folder = own(folder, "counts")?;
    let server = Server::start(&folder, Protocol::Http, Log::Requests)?;
    let mut faults = Vec::new();
    println!("nginx at 2,000 requests/s, {RUNS} runs each");
    println!("  agents   served  counted   p99 ms  start late ms  clocks known to ms");
    for agents in AGENTS {
        for run in 0..RUNS {
            server.clear_log()?;
            let run_dir = folder.join(format!("run-{agents}-{run}"));
            let output = Command::new(program)
                .args(["http", &server.url, "--on", &agents_on(program, agents), "--rate", "2000/s"])
                .args(["--warm-up", "1s", "--duration", "4s", "--run-dir"])
                .arg(&run_dir)
                .env("PLIMSOLL_STATE_DIR", folder.join("state"))
                .output()
                .map_err(|error| format!("{}: {error}", program.display()))?;
            let trial = run_dir.join("trials/001-baseline.r1");
            let ran = read(&trial.join("run.json"))
                .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
            let result = read(&run_dir.join("result.json"))?;
            let counted = counted(&trial.join("intervals.csv"))?;
            let served = server.logged()?;
            let p99 = result["trials"][0]["operations"][0]["response_ms"]["p99"].as_f64();
            let largest = |name: &str| {
                let of = ran["machines"].as_array().into_iter().flatten();
                1e3 * of.filter_map(|machine| machine[name].as_f64()).fold(0.0, f64::max)
            };
            let (late, clocks) = (largest("start_late_s"), largest("clock_uncertainty_s"));
            println!(
                "  {agents:>6} {served:>8} {counted:>8} {:>8.3} {late:>14.3} {clocks:>19.3}",
                p99.unwrap_or(f64::NAN)
            );
            if served != counted {
                let what = format!("{agents} agents: {served} served, {counted} counted");
                faults.push(Fault::new(TASK, what, "both are to be equal"));
            }
            if late > START_LATE_MAX_MS {
                let what = format!("{agents} agents: one began {late:.1} ms late");
                faults.push(Fault::new(TASK, what, "at most 2 ms was promised"));
            }
        }
    }
    Ok(faults)
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The operations of all intervals.
fn counted(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let column = |name: &str| head.iter().position(|column| *column == name);
    let (Some(operation), Some(completed)) = (column("operation"), column("completed")) else {
        return Err(format!("{} lacks columns", path.display()));
    };
    Ok(lines
        .filter(|fields| fields.get(operation) == Some(&"get"))
        .filter_map(|fields| fields.get(completed)?.parse::<u64>().ok())
        .sum())
}
