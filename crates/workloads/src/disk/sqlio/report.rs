//! SQLIO's own report, in its own layout.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{Expansion, SqlioAccess, SqlioBuffering, SqlioKind, SqlioRun};

/// Columns of the histogram: 0 to 23 ms, and everything above.
const HISTOGRAM_COLUMNS: usize = 25;

/// What SQLIO reports.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlioNumbers {
    /// Operations per second.
    pub ios_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Shortest, mean and longest operation in whole milliseconds, as SQLIO counts them: cut, not rounded.
    pub min_ms: u64,
    /// Mean.
    pub avg_ms: u64,
    /// Longest.
    pub max_ms: u64,
    /// Share of operations in percent that took 0, 1, ... 23 whole milliseconds, and 24 or more.
    pub histogram_percent: [u64; HISTOGRAM_COLUMNS],
}

impl SqlioNumbers {
    /// From latencies in nanoseconds, all operations of `seconds`, which moved `bytes`.
    pub fn from_histogram(latency_ns: &Histogram<u64>, seconds: f64, bytes: u64) -> Self {
        const MS: u64 = 1_000_000;
        let count = latency_ns.len();
        let mut columns = [0_u64; HISTOGRAM_COLUMNS];
        for value in latency_ns.iter_recorded() {
            // The lowest value a bin of the histogram stands for: at a border the reading belongs to the earlier column.
            let ms = latency_ns.lowest_equivalent(value.value_iterated_to()) / MS;
            columns[(ms as usize).min(HISTOGRAM_COLUMNS - 1)] += value.count_at_value();
        }
        let seconds = if seconds > 0.0 { seconds } else { f64::INFINITY };
        let share = |part: u64| (part as f64 * 100.0 / count.max(1) as f64).round() as u64;
        SqlioNumbers {
            ios_per_s: count as f64 / seconds,
            bytes_per_s: bytes as f64 / seconds,
            min_ms: if count == 0 { 0 } else { latency_ns.min() / MS },
            avg_ms: latency_ns.mean() as u64 / MS,
            max_ms: latency_ns.max() / MS,
            histogram_percent: columns.map(share),
        }
    }
}

/// The report SQLIO would print of this run, line by line. Files without a size of their own are looked at once more,
/// for SQLIO prints how large they are.
pub fn report(run: &SqlioRun, numbers: &SqlioNumbers) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(&mut out, run, numbers);
    out
}

fn write_report(out: &mut String, run: &SqlioRun, numbers: &SqlioNumbers) -> std::fmt::Result {
    writeln!(out, "sqlio v1.5.SG")?;
    if run.latency {
        // Latencies are taken in nanoseconds.
        writeln!(out, "using system counter for latency timings, 1000000000 counts per second")?;
    }
    if let Some(name) = &run.parameter_file {
        writeln!(out, "parameter file used: {name}")?;
        let mut first = 0;
        for file in &run.files {
            let threads = file.threads.unwrap_or(1);
            let last = (first + threads).saturating_sub(1);
            let (plural, mask) = (if threads == 1 { "" } else { "s" }, file.mask);
            let range = if threads == 1 { format!("({first})") } else { format!("({first}-{last})") };
            writeln!(
                out,
                "\tfile {} with {threads} thread{plural} {range} using mask 0x{mask:X} ({mask})",
                file.path
            )?;
            first += threads;
        }
    }
    let (verb, preposition) = match run.kind {
        SqlioKind::Read => ("reading", "from"),
        SqlioKind::Write => ("writing", "to"),
    };
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    writeln!(
        out,
        "{} thread{} {verb} for {} secs {preposition} file{} {}",
        run.threads,
        plural(run.threads),
        run.seconds,
        plural(run.files.len() as u64),
        file_names(run)
    )?;
    let order = match run.access {
        SqlioAccess::Random => "random IOs".to_string(),
        SqlioAccess::Sequential => "sequential IOs".to_string(),
        SqlioAccess::Stripe(blocks) => {
            let stripe_kib = blocks.saturating_mul(run.block_kib);
            format!("IOs over {stripe_kib}KB stripes with {} IOs per run", run.ios_per_run)
        }
    };
    writeln!(out, "\tusing {}KB {order}", run.block_kib)?;
    if let Some(outstanding) = run.outstanding {
        writeln!(out, "\tenabling multiple I/Os per thread with {outstanding} outstanding")?;
    }
    match run.buffering {
        SqlioBuffering::None => {}
        SqlioBuffering::Hardware => {
            writeln!(out, "\tbuffering set to use hardware disk cache (but not file cache)")?;
        }
        SqlioBuffering::Software => {
            writeln!(out, "\tbuffering set to use software file cache (but not hardware disk cache)")?;
        }
        SqlioBuffering::All => {
            writeln!(out, "\tbuffering set to use both file and disk caches")?;
        }
    }
    for file in &run.files {
        if let Some(Expansion { needed_bytes, present_bytes }) = file.expansion {
            writeln!(out, "size of file {} needs to be: {needed_bytes} bytes", file.path)?;
            writeln!(out, "current file size:\t{present_bytes} bytes")?;
            writeln!(out, "need to expand by:\t{} bytes", needed_bytes.saturating_sub(present_bytes))?;
            writeln!(out, "expanding {} ... done.", file.path)?;
        }
        match file.size_mb {
            Some(size) => writeln!(out, "using specified size: {size} MB for file: {}", file.path)?,
            None => {
                let bytes = std::fs::metadata(&file.path).map_or(0, |metadata| metadata.len());
                // Where the run made the file, nobody gave it this size and it had none before.
                let word = if file.made { "default" } else { "current" };
                writeln!(out, "using {word} size: {} MB for file: {}", bytes >> 20, file.path)?;
            }
        }
    }
    writeln!(out, "initialization done")?;
    writeln!(out, "CUMULATIVE DATA:")?;
    writeln!(out, "throughput metrics:")?;
    writeln!(out, "IOs/sec: {:9.2}", numbers.ios_per_s)?;
    writeln!(out, "MBs/sec: {:8.2}", numbers.bytes_per_s / f64::from(1 << 20))?;
    if run.latency {
        writeln!(out, "latency metrics:")?;
        writeln!(out, "Min_Latency(ms): {}", numbers.min_ms)?;
        writeln!(out, "Avg_Latency(ms): {}", numbers.avg_ms)?;
        writeln!(out, "Max_Latency(ms): {}", numbers.max_ms)?;
        writeln!(out, "histogram:")?;
        let columns: String = (1..HISTOGRAM_COLUMNS - 1).map(|ms| format!("{ms:3}")).collect();
        writeln!(out, "ms: 0{columns} 24+")?;
        let shares: String = numbers.histogram_percent.iter().map(|share| format!("{share:3}")).collect();
        writeln!(out, "%:{shares}")?;
    }
    Ok(())
}

fn file_names(run: &SqlioRun) -> String {
    let names: Vec<&str> = run.files.iter().map(|file| file.path.as_str()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_string(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
