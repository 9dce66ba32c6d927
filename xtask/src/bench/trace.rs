//! The cost of a trace: one load on a saturated slapd, beside which the trace is started and ended in turn.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::ldap::{PASSWORD, ROOT, free_port, slapd};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, Folder, cpu_us, median, peak_mib, plimsoll};

/// Time that each half of a round is measured.
const HALF: Duration = Duration::from_millis(3500);

/// Time until the programs of a trace are attached, which is about 30 ms.
const ATTACHING: Duration = Duration::from_millis(500);

/// Without it, `plimsoll trace` reads counters instead of the kernel.
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/block";

/// Searches and modifications, as a directory with many writes has them.
const MODIFICATIONS: &str = "\
[[operation]]
weight = 70
base = \"dc=example,dc=com\"
filter = \"(uid=user.${random(0, 19999)})\"
[[operation]]
weight = 30
operation = \"modify\"
dn = \"uid=user.${random(0, 19999)},ou=people,dc=example,dc=com\"
change = [\"replace description: x${number}\"]
";

/// The same load without modifications.
const SEARCHES: &str = "\
[[operation]]
weight = 100
base = \"dc=example,dc=com\"
filter = \"(uid=user.${random(0, 19999)})\"
";

/// What one half of a round had.
#[derive(Clone, Copy, Debug)]
struct Half {
    operations_per_s: f64,
    cpu_us_per_operation: f64,
    /// Of the trace, if there is one.
    memory_mib: Option<f64>,
}

/// Rates and CPU times with a trace, relative to those without.
pub(super) fn cost(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    if !Path::new(TRACEPOINTS).exists() {
        return Err(format!(
            "{TRACEPOINTS} is not readable, so nothing would be traced: run `mount -t tracefs tracefs /sys/kernel/tracing` as root"
        ));
    }
    let program = plimsoll(repository)?;
    let mut faults = Vec::new();
    for (name, operations) in [("searches", SEARCHES), ("30 % modifications", MODIFICATIONS)] {
        let pairs = toggled(repository, &program, operations, rounds)?;
        let without: Vec<f64> = pairs.iter().map(|(without, _)| without.operations_per_s).collect();
        println!(
            "{name}: {:.0} operations/s without a trace, {rounds} rounds of {HALF:?} each",
            median(&without)
        );
        let change = |value: fn(&Half) -> f64| -> Vec<f64> {
            pairs.iter().map(|(without, traced)| 100.0 * (value(traced) / value(without)).ln()).collect()
        };
        let rates = change(|half| half.operations_per_s);
        for (what, changes) in
            [("operations/s", &rates), ("CPU per operation", &change(|half| half.cpu_us_per_operation))]
        {
            let (mean, half_width) = mean(changes);
            println!("  {what:<20} {mean:+.1} % +-{half_width:.1}, median {:+.1} %", median(changes));
        }
        let memory = pairs.iter().filter_map(|(_, traced)| traced.memory_mib).fold(0.0, f64::max);
        println!("  {:<20} {memory:.1} MiB", "memory of the trace");
        let mut judge = |is_met: bool, what: String, promised: &str| {
            if !is_met {
                faults.push(Fault::new("cargo xtask bench trace", format!("{name}: {what}"), promised));
            }
        };
        let (mean, _) = mean(&rates);
        judge(mean > -5.0, format!("{mean:.1} % operations/s"), "a loss of less than 5 % was promised");
        judge(memory < 10.0, format!("{memory:.1} MiB"), "less than 10 MiB was promised");
    }
    Ok(faults)
}

/// For each round, a half without and one with a trace, the order alternating.
fn toggled(
    repository: &Repository,
    program: &Path,
    operations: &str,
    rounds: usize,
) -> Result<Vec<(Half, Half)>, String> {
    let folder = Folder::new(repository, "trace")?;
    let port = free_port()?;
    let server = slapd(&folder.0, port)?;
    let process = server.0.id().to_string();
    let url = format!("ldap://127.0.0.1:{port}");
    std::fs::write(folder.0.join("operations.toml"), operations).map_err(|error| error.to_string())?;
    let round = 2 * (HALF + ATTACHING + Duration::from_millis(500));
    let duration = format!("{}s", (round * rounds as u32).as_secs() + 10);
    let mut load = Command::new("taskset");
    load.args(["-c", super::http::generator_cpu()]).arg(program).args(["ldap", "mixed", &url]);
    load.args(["--from", "operations.toml", "--bind-dn", ROOT, "--password", "${env:PLIMSOLL_PASSWORD}"]);
    load.args([
        "--concurrency",
        "8",
        "--warm-up",
        "1s",
        "--duration",
        &duration,
        "--quiet",
        "--run-dir",
        "run",
    ]);
    load.env("PLIMSOLL_PASSWORD", PASSWORD).current_dir(&folder.0).stdin(Stdio::null());
    let load = Ended(load.stdout(Stdio::null()).spawn().map_err(|error| format!("taskset: {error}"))?);
    std::thread::sleep(Duration::from_secs(3));
    let mut pairs = Vec::new();
    for number in 0..rounds {
        let mut pair = [None; 2];
        for is_traced in [number % 2 == 1, number % 2 == 0] {
            pair[usize::from(is_traced)] = Some(half(program, &url, &process, is_traced)?);
        }
        if let [Some(without), Some(traced)] = pair {
            pairs.push((without, traced));
        }
    }
    drop(load);
    Ok(pairs)
}

fn half(program: &Path, url: &str, process: &str, is_traced: bool) -> Result<Half, String> {
    let trace = match is_traced {
        false => None,
        true => {
            let mut trace = Command::new(program);
            trace.args(["trace", "--pid", process]).stdin(Stdio::null()).stdout(Stdio::null());
            Some(Ended(trace.spawn().map_err(|error| format!("plimsoll trace: {error}"))?))
        }
    };
    std::thread::sleep(ATTACHING);
    let (begin, operations, cpu) = (Instant::now(), completed(url)?, cpu_us(process, 13)?);
    std::thread::sleep(HALF);
    let (seconds, operations, cpu) =
        (begin.elapsed().as_secs_f64(), completed(url)? - operations, cpu_us(process, 13)? - cpu);
    let memory_mib = match &trace {
        Some(trace) => Some(
            peak_mib(&trace.0.id().to_string())
                .ok_or("plimsoll trace ended early; `plimsoll trace --pid` of a slapd shows why")?,
        ),
        None => None,
    };
    Ok(Half { operations_per_s: operations / seconds, cpu_us_per_operation: cpu / operations, memory_mib })
}

/// The operations that the server completed, by its own count.
fn completed(url: &str) -> Result<f64, String> {
    let output = Command::new("ldapsearch")
        .args(["-x", "-LLL", "-H", url, "-D", ROOT, "-w", PASSWORD, "-s", "base"])
        .args(["-b", "cn=Operations,cn=Monitor", "monitorOpCompleted"])
        .output()
        .map_err(|error| format!("ldapsearch: {error}; apt-get install ldap-utils"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = text.lines().find_map(|line| line.strip_prefix("monitorOpCompleted: ")?.parse().ok());
    count.ok_or_else(|| format!("ldapsearch has no count: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The mean, and half of its 95 % interval: 2.1 standard errors, which holds for some 20 values.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, 2.1 * (variance / count).sqrt())
}
