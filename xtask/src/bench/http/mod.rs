//! The HTTP engine against other load generators: the same nginx, the same page, interleaved rounds, medians of the ratios
//! of each round.

pub(super) mod server;
mod tools;

use std::time::{Duration, Instant};

use super::rounds::{self, middle};
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, cargo, median, plimsoll, target};
use server::{Log, Protocol, Server};
pub(super) use tools::generator_cpu;
use tools::{Load, Sample, Tool, Tools};

/// Seconds of each measurement.
const SECONDS: u32 = 3;
/// The rate of the open loop, its length, and when and for how long the server is stopped.
const STALL_RATE_PER_S: u32 = 2000;
const STALL_RUN_S: u32 = 10;
const STALL_AT: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(1);
/// Open connections of the largest load, where the limit of open files permits them.
const CONNECTIONS: u32 = 20_000;

/// A folder, the programs, and the tools that are here.
struct Bench {
    _folder: Folder,
    tools: Tools,
    present: Vec<Tool>,
    faults: Vec<Fault>,
}

impl Bench {
    fn new(repository: &Repository, wanted: &[Tool]) -> Result<Bench, String> {
        let plimsoll = plimsoll(repository)?;
        let folder = Folder::new(repository, "http")?;
        let tools = Tools { plimsoll, peers: tools::peers(&target(repository)), folder: folder.0.clone() };
        let present = tools.present(wanted);
        Ok(Bench { _folder: folder, tools, present, faults: Vec::new() })
    }

    /// Compares a figure with its bound.
    fn judge(&mut self, name: &str, value: f64, bound: f64, is_most: bool) {
        let met = if is_most { value <= bound } else { value >= bound };
        let word = if is_most { "at most" } else { "at least" };
        println!("  {name:<58} {value:>8.3}   {word} {bound}   {}", if met { "met" } else { "MISSED" });
        if !met {
            let promised = format!("{word} {bound} was promised");
            self.faults.push(Fault::new("make bench-http", format!("{name}: {value:.3}"), promised));
        }
    }

    /// Every tool in turn, in rounds whose order rotates, so that none is always first after a pause.
    fn rounds(&self, load: Load, server: &Server, count: usize) -> Result<Vec<Vec<(Tool, Sample)>>, String> {
        let mut rounds = Vec::new();
        for round in 0..count {
            let mut samples = Vec::new();
            for turn in 0..self.present.len() {
                let tool = self.present[(round + turn) % self.present.len()];
                match self.tools.run(tool, load, SECONDS, server) {
                    Ok(sample) => samples.push((tool, sample)),
                    // The others are measured all the same.
                    Err(why) if tool != Tool::Plimsoll => {
                        println!("  not measured: {}", why.lines().next().unwrap_or_default())
                    }
                    Err(why) => return Err(why),
                }
            }
            rounds.push(samples);
        }
        Ok(rounds)
    }

    /// The medians of each tool.
    fn table(&self, rounds: &[Vec<(Tool, Sample)>]) {
        println!(
            "  {:<10} {:>11} {:>9} {:>9} {:>12} {:>10} {:>17} {:>8}",
            "", "requests/s", "CPU, us", "user, us", "process, us", "server, us", "generator/server", "MB"
        );
        for tool in &self.present {
            let of = |value: fn(&Sample) -> f64| middle(rounds, *tool, value);
            println!(
                "  {:<10} {:>11.0} {:>9.2} {:>9.2} {:>12.2} {:>10.2} {:>17.3} {:>8.1}",
                tool.name(),
                of(|sample| sample.rate_per_s),
                of(|sample| sample.cpu_us),
                of(|sample| sample.user_us),
                of(|sample| sample.whole_cpu_us),
                of(|sample| sample.server_cpu_us),
                of(Sample::ratio),
                of(|sample| sample.peak_mb)
            );
        }
    }
}

/// The median over the rounds of the ratio of our figure to that of another tool.
fn ratio(rounds: &[Vec<(Tool, Sample)>], other: Tool, value: fn(&Sample) -> f64) -> f64 {
    rounds::ratio(rounds, Tool::Plimsoll, other, value)
}

/// CPU per request at 32 and at 256 connections, the server on one CPU and the generator on another.
pub(super) fn closed_loop(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "bare_loop"])?;
    let wanted = [Tool::Plimsoll, Tool::BareLoop, Tool::Wrk, Tool::Oha, Tool::Ab, Tool::Vegeta, Tool::K6];
    let mut bench = Bench::new(repository, &wanted)?;
    let server = Server::start(&bench.tools.folder, Protocol::Http, Log::Nothing)?;
    for connections in [32, 256] {
        println!("64-byte page, {connections} connections, one thread, {count} rounds of {SECONDS} s");
        let rounds = bench.rounds(Load::Closed { connections }, &server, count)?;
        bench.table(&rounds);
        let shown = |name: &str| format!("{name}, {connections} connections");
        println!(
            "  floor: a loop that only sends and receives has {:.3} of wrk's ratio, and {:.3} of its requests/s",
            rounds::ratio(&rounds, Tool::BareLoop, Tool::Wrk, Sample::ratio),
            rounds::ratio(&rounds, Tool::BareLoop, Tool::Wrk, |sample| sample.rate_per_s)
        );
        bench.judge(
            &shown("generator/server CPU of wrk's"),
            ratio(&rounds, Tool::Wrk, Sample::ratio),
            0.75,
            true,
        );
        let user = middle(&rounds, Tool::Plimsoll, |sample| sample.user_us);
        bench.judge(&shown("user CPU per request, us"), user, 3.0, true);
        let rate = ratio(&rounds, Tool::Wrk, |sample| sample.rate_per_s);
        bench.judge(&shown("requests/s of wrk's"), rate, 1.0, false);
    }
    Ok(bench.faults)
}

/// The same over TLS.
pub(super) fn tls(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    let mut bench = Bench::new(repository, &[Tool::Plimsoll, Tool::Wrk, Tool::Oha])?;
    let server = Server::start(&bench.tools.folder, Protocol::Https, Log::Nothing)?;
    println!("64-byte page over TLS, 32 connections, {count} rounds of {SECONDS} s");
    let rounds = bench.rounds(Load::Closed { connections: 32 }, &server, count)?;
    bench.table(&rounds);
    let value = ratio(&rounds, Tool::Wrk, |sample| sample.cpu_us);
    bench.judge("CPU per request of wrk's, TLS", value, 1.2, true);
    Ok(bench.faults)
}

/// HTTP/2 over TLS.
pub(super) fn http2(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    let mut bench = Bench::new(repository, &[Tool::Plimsoll, Tool::H2load])?;
    let server = Server::start(&bench.tools.folder, Protocol::Http2, Log::Nothing)?;
    println!("64-byte page over HTTP/2 and TLS, 32 connections of 8 streams, {count} rounds of {SECONDS} s");
    let rounds = bench.rounds(Load::Streams { connections: 32, streams: 8 }, &server, count)?;
    bench.table(&rounds);
    let value = ratio(&rounds, Tool::H2load, |sample| sample.cpu_us);
    bench.judge("CPU per request of h2load's", value, 1.0, true);
    Ok(bench.faults)
}

/// An open loop while the server is stopped for a second.
pub(super) fn stall(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    let mut bench = Bench::new(repository, &[Tool::Plimsoll, Tool::Oha, Tool::Vegeta, Tool::K6])?;
    let server = Server::start(&bench.tools.folder, Protocol::Http, Log::Nothing)?;
    let load = Load::Open { rate_per_s: STALL_RATE_PER_S };
    println!(
        "{STALL_RATE_PER_S}/s for {STALL_RUN_S} s; the server is stopped for {} s. p99 and maximum beside the truth computed from the stall",
        STALL.as_secs()
    );
    println!(
        "  {:<10} {:>9} {:>11} {:>11} {:>11} {:>11} {:>11}",
        "", "requests", "p50, ms", "unstalled", "p99, ms", "max, ms", "stall, ms"
    );
    let (mut p50, mut p99, mut max, mut missing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        for tool in bench.present.clone() {
            let unstalled = bench.tools.run(tool, load, STALL_RUN_S, &server)?;
            let (sample, stall_ms) = std::thread::scope(|scope| {
                let stalled = scope.spawn(|| stop_for_a_while(&server));
                let sample = bench.tools.run(tool, load, STALL_RUN_S, &server);
                (sample, stalled.join().unwrap_or_else(|_| Err("the server was not stopped".into())))
            });
            let (sample, stall_ms) = (sample?, stall_ms?);
            let [reported_p50, reported_p99, reported_max] = sample.reported_ms;
            println!(
                "  {:<10} {:>9} {:>11.3} {:>11.3} {:>11.1} {:>11.1} {:>11.1}",
                tool.name(),
                sample.requests,
                reported_p50,
                unstalled.reported_ms[0],
                reported_p99,
                reported_max,
                stall_ms
            );
            if tool == Tool::Plimsoll {
                let arrivals = f64::from(STALL_RATE_PER_S * STALL_RUN_S);
                // The slowest 1 % of all arrivals came in the first part of the stall.
                let truth_p99 = stall_ms - 0.01 * arrivals / f64::from(STALL_RATE_PER_S) * 1e3;
                missing.push((sample.requests / arrivals - 1.0).abs());
                p50.push((reported_p50 - unstalled.reported_ms[0]).abs());
                p99.push((reported_p99 / truth_p99 - 1.0).abs());
                max.push((reported_max / stall_ms - 1.0).abs());
            }
        }
    }
    bench.judge("share of the arrivals that are not accounted for", median(&missing), 0.0, true);
    bench.judge("p50 beside the unstalled one, ms", median(&p50), 0.1, true);
    bench.judge("p99 beside the truth, share", median(&p99), 0.02, true);
    bench.judge("maximum beside the truth, share", median(&max), 0.02, true);
    Ok(bench.faults)
}

/// Returns for how long the server was stopped, milliseconds.
fn stop_for_a_while(server: &Server) -> Result<f64, String> {
    std::thread::sleep(STALL_AT);
    server.signal("-STOP")?;
    let begin = Instant::now();
    std::thread::sleep(STALL);
    server.signal("-CONT")?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Connections that the hard limit of open files permits, with a hundred files for everything else.
fn connections_permitted() -> u32 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    let hard = files.and_then(|line| line.split_whitespace().nth(4)?.parse::<u32>().ok());
    hard.map_or(CONNECTIONS, |hard| CONNECTIONS.min(hard.saturating_sub(100)))
}

/// Memory of many open connections.
pub(super) fn connections(repository: &Repository, count: usize) -> Result<Vec<Fault>, String> {
    let mut bench = Bench::new(repository, &[Tool::Plimsoll, Tool::Wrk, Tool::Oha])?;
    let server = Server::start(&bench.tools.folder, Protocol::Http, Log::Nothing)?;
    let connections = connections_permitted();
    println!("{connections} open connections, {count} rounds of {SECONDS} s");
    let rounds = bench.rounds(Load::Closed { connections }, &server, count)?;
    bench.table(&rounds);
    let peak = middle(&rounds, Tool::Plimsoll, |sample| sample.peak_mb);
    bench.judge("largest resident memory, MB", peak, 450.0, true);
    Ok(bench.faults)
}
