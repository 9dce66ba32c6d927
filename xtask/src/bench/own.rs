//! What Plimsoll itself costs: the loop, the counters, a long record.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, cargo, json, median, plimsoll, printed};

/// The null workload: what timing and recording an operation costs.
pub(super) fn null(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    const BOUND_NS: f64 = 150.0;
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "null")?;
    let mut costs = Vec::new();
    for round in 0..rounds {
        let cost = null_cost_ns(&program, &folder.0)?;
        println!("  round {}: {cost:.0} ns of CPU per operation", round + 1);
        costs.push(cost);
    }
    let cost = median(&costs);
    println!("  null workload, timing and recording included: {cost:.0} ns   at most {BOUND_NS}");
    Ok(match cost <= BOUND_NS {
        true => Vec::new(),
        false => vec![Fault::new(
            "make bench",
            format!("the loop costs {cost:.0} ns an operation"),
            format!("at most {BOUND_NS} was promised"),
        )],
    })
}

/// CPU time of one operation that does nothing.
pub(super) fn null_cost_ns(program: &Path, folder: &Path) -> Result<f64, String> {
    let _ = std::fs::remove_dir_all(folder.join("null"));
    let arguments =
        ["null", "--duration", "2s", "--warm-up", "500ms", "--run-dir", "null", "--json", "--quiet"]
            .map(str::to_string);
    let document = json(program, &arguments, folder)?;
    let cost = document["trials"][0]["cpu_us_per_operation"].as_f64();
    Ok(cost.ok_or("no cost in the result")? * 1e3)
}

/// The counters, with a process of 500 threads among what is watched.
pub(super) fn counters(repository: &Repository, _: usize) -> Result<Vec<Fault>, String> {
    let text = printed(
        repository,
        &["run", "--release", "--locked", "-q", "-p", "plimsoll-counters", "--example", "cost"],
    )?;
    print!("{text}");
    // Under the head of each rate stands a line for all sources together.
    let mut faults = Vec::new();
    for (head, bound) in [("at 10 Hz", 1.0), ("at 1 Hz", 0.2)] {
        let cost = text
            .lines()
            .skip_while(|line| !line.starts_with(head))
            .find_map(|line| line.strip_prefix("all")?.split_whitespace().next()?.parse::<f64>().ok())
            .ok_or_else(|| format!("no cost {head} was printed"))?;
        println!(
            "  {head}: {cost} % of one CPU   at most {bound}   {}",
            if cost <= bound { "met" } else { "MISSED" }
        );
        if cost > bound {
            let what = format!("{head} the counters cost {cost} % of one CPU");
            faults.push(Fault::new("make bench", what, format!("at most {bound} was promised")));
        }
    }
    Ok(faults)
}

/// An hour of 900 counters: its size, the time and memory to report it, and the time to explain it.
pub(super) fn record(repository: &Repository, _: usize) -> Result<Vec<Fault>, String> {
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "record")?;
    let run = hour(repository, &folder.0)?;
    let record_bytes = size(&run);
    let [(report_s, memory_kib), (explain_s, _)] =
        [timed(&program, "report", &run)?, timed(&program, "explain", &run)?];
    let page_bytes = std::fs::metadata(run.join("report.html")).map_or(0, |meta| meta.len());
    let rows = [
        ("record, MB", record_bytes as f64 / 1e6, 3.0),
        ("report made in, s", report_s, 2.0),
        ("explained in, s", explain_s, 1.0),
        ("memory, MB", memory_kib as f64 * 1024.0 / 1e6, 300.0),
        ("report.html, kB", page_bytes as f64 / 1e3, 300.0),
    ];
    let mut faults = Vec::new();
    for (name, value, bound) in rows {
        println!(
            "  {name:<20} {value:>8.2}   at most {bound}   {}",
            if value <= bound { "met" } else { "MISSED" }
        );
        if value > bound {
            faults.push(Fault::new(
                "make bench",
                format!("{name}: {value:.2}"),
                format!("at most {bound} was promised"),
            ));
        }
    }
    Ok(faults)
}

/// Makes the record of an hour in a folder.
pub(super) fn hour(repository: &Repository, folder: &Path) -> Result<PathBuf, String> {
    let run = folder.join("hour");
    let path = run.display().to_string();
    cargo(
        repository,
        &["run", "--release", "--locked", "-q", "-p", "plimsoll-record", "--example", "hour", "--", &path],
    )?;
    Ok(run)
}

/// The median time of a command on a run in five rounds, in seconds, and the most memory it held, in KiB.
pub(super) fn timed(program: &Path, command: &str, run: &Path) -> Result<(f64, u64), String> {
    let mut times = Vec::new();
    let mut memory_kib = 0;
    for _ in 0..5 {
        let begin = Instant::now();
        let child = Command::new(program).arg(command).arg(run).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| error.to_string())?;
        memory_kib = memory_kib.max(peak_memory_kib(child)?);
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok((median(&times), memory_kib))
}

/// The most memory a child held, from its status while it runs; it is reaped here.
fn peak_memory_kib(mut child: std::process::Child) -> Result<u64, String> {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Ok(text) = std::fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let value = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            peak = peak.max(value.unwrap_or(0));
        }
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(peak),
            Ok(Some(status)) => return Err(format!("the program ended with {status}")),
            Ok(None) => std::thread::sleep(std::time::Duration::from_millis(2)),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
