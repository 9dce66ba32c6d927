//! diskspd's own report, in the layout of its version 2.2. `proc count` is in the results of earlier versions, and scripts
//! read it there.

use std::fmt::{Result, Write};

use super::numbers::{DiskspdNumbers, StreamNumbers, Transfers, means};
use super::{
    DiskspdAccess, DiskspdBuffer, DiskspdDistribution, DiskspdRate, DiskspdRun, DiskspdTarget, DiskspdThreads,
};

/// Rows of the table of latencies between minimum and maximum.
const PERCENTILES: [(f64, &str); 13] = [
    (0.25, "25th"),
    (0.5, "50th"),
    (0.75, "75th"),
    (0.9, "90th"),
    (0.95, "95th"),
    (0.99, "99th"),
    (0.999, "3-nines"),
    (0.9999, "4-nines"),
    (0.999_99, "5-nines"),
    (0.999_999, "6-nines"),
    (0.999_999_9, "7-nines"),
    (0.999_999_99, "8-nines"),
    (0.999_999_999, "9-nines"),
];

const STARS: &str = "*******************************************************************************";

/// What the command line states, as diskspd prints it.
pub(super) fn profile(run: &DiskspdRun) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_profile(&mut out, run);
    out
}

/// The report diskspd would print of this run.
pub(super) fn report(run: &DiskspdRun, numbers: &DiskspdNumbers) -> String {
    let mut out = profile(run);
    let _ = write_results(&mut out, run, numbers);
    out
}

fn write_profile(out: &mut String, run: &DiskspdRun) -> Result {
    writeln!(out, "\nCommand Line: plimsoll disk --diskspd {}\n", run.command_line)?;
    writeln!(out, "Input parameters:\n")?;
    if run.verbose {
        writeln!(out, "\tusing verbose mode")?;
    }
    writeln!(out, "\ttimespan:   1\n\t-------------")?;
    writeln!(out, "\tduration: {}s", run.seconds)?;
    writeln!(out, "\twarm up time: {}s", run.warm_up_s)?;
    writeln!(out, "\tcool down time: {}s", run.cool_down_s)?;
    writeln!(out, "\taffinity disabled")?;
    if run.latency {
        writeln!(out, "\tmeasuring latency")?;
    }
    if let Some(every) = run.iops_every_ms {
        writeln!(out, "\tgathering IOPS at intervals of {every}ms")?;
    }
    writeln!(out, "\trandom seed: {}", run.seed)?;
    if let DiskspdThreads::InAll(count) = run.threads {
        writeln!(out, "\tthread pool with {count} threads")?;
        let depth = if run.is_pool { run.outstanding } else { 0 };
        writeln!(out, "\tnumber of outstanding I/O operations per thread: {depth}")?;
    }
    if run.buffer == DiskspdBuffer::Random {
        writeln!(out, "\tgenerating random data for each write IO")?;
    }
    for target in &run.targets {
        write_target(out, run, target)?;
    }
    writeln!(out)
}

fn write_target(out: &mut String, run: &DiskspdRun, target: &DiskspdTarget) -> Result {
    writeln!(out, "\tpath: '{}'", target.path)?;
    let mut line = |text: &str| writeln!(out, "\t\t{text}");
    line(&format!("think time: {}ms", run.think_ms))?;
    line(&format!("burst size: {}", u8::from(run.think_ms > 0)))?;
    line(if run.unbuffered { "software cache disabled" } else { "using software cache" })?;
    line(match (run.write_through, run.unbuffered) {
        (true, true) => "hardware write cache disabled, writethrough on",
        (true, false) => "hardware and software write caches disabled, writethrough on",
        (false, _) => "using hardware write cache, writethrough off",
    })?;
    match run.buffer {
        DiskspdBuffer::Zeros => line("zeroing write buffers")?,
        DiskspdBuffer::Source(bytes) => {
            line(&format!("write buffer size: {}", size(bytes)))?;
            line("write buffer source: random fill")?;
        }
        DiskspdBuffer::Default | DiskspdBuffer::Random => {}
    }
    line(&match run.write_percent {
        0 => "performing read test".to_string(),
        100 => "performing write test".to_string(),
        percent => format!("performing mix test (read/write ratio: {}/{percent})", 100 - percent),
    })?;
    line(&format!("block size: {}", size(run.block_bytes)))?;
    line(&match run.access {
        DiskspdAccess::Random { align } => format!("using random I/O (alignment: {})", size(align)),
        DiskspdAccess::Sequential { stride, interlocked } => {
            let shared = if interlocked { " interlocked" } else { "" };
            format!("using{shared} sequential I/O (stride: {})", size(stride))
        }
    })?;
    line(&match run.is_pool {
        true => "relative IO weight in thread pool: 1".to_string(),
        false => format!("number of outstanding I/O operations per thread: {}", run.outstanding),
    })?;
    let sizes = [
        ("base file offset", run.base),
        ("max file size", run.end.unwrap_or(0)),
        ("thread stride size", run.thread_stride),
    ];
    for (name, bytes) in sizes.into_iter().filter(|(_, bytes)| *bytes > 0) {
        line(&format!("{name}: {}", size(bytes)))?;
    }
    if let DiskspdThreads::PerTarget(count) = run.threads {
        line(&format!("threads per file: {count}"))?;
    }
    line("IO priority: normal")?;
    match run.rate {
        Some(DiskspdRate::Iops(rate)) => line(&format!("throughput rate-limited to {rate} IOPS"))?,
        Some(DiskspdRate::BytesPerMs(rate)) => line(&format!("throughput rate-limited to {rate} B/ms"))?,
        None => {}
    }
    if let Some(distribution) = &run.distribution {
        line("IO Distribution:")?;
        write_distribution(out, distribution)?;
    }
    Ok(())
}

fn write_distribution(out: &mut String, distribution: &DiskspdDistribution) -> Result {
    let (ranges, is_percent) = match distribution {
        DiskspdDistribution::Percent(ranges) => (ranges, true),
        DiskspdDistribution::Absolute(ranges) => (ranges, false),
    };
    let mut first = 0_u64;
    for (share, length) in ranges {
        let end = first.saturating_add(*length);
        write!(out, "\t\t   {share:3}% of IO => [")?;
        match (is_percent, length) {
            (true, _) => writeln!(out, "{first:2}% - {end:3}%) of target")?,
            (false, 0) => writeln!(out, "{:>9} -       end)", size(first))?,
            (false, _) => writeln!(out, "{:>9} - {:>9})", size(first), size(end))?,
        }
        first = end;
    }
    Ok(())
}

fn write_results(out: &mut String, run: &DiskspdRun, numbers: &DiskspdNumbers) -> Result {
    writeln!(out, "System information:\n")?;
    writeln!(out, "\tcomputer name: {}", numbers.host)?;
    writeln!(out, "\tstart time: {}\n", numbers.start)?;
    writeln!(out, "\tcpu count:\t\t{}", numbers.cpu_count)?;
    writeln!(out, "\nResults for timespan 1:\n{STARS}\n")?;
    if numbers.seconds <= 0.0 {
        return writeln!(out, "No results: the run ended before it began to measure.");
    }
    writeln!(out, "actual test time:\t{:.2}s", numbers.seconds)?;
    writeln!(out, "thread count:\t\t{}", run.thread_count())?;
    if run.is_pool {
        writeln!(out, "request count:\t\t{}", run.outstanding)?;
    }
    writeln!(out, "proc count:\t\t{}", numbers.cpu_count)?;
    write_cpus(out, numbers)?;
    for (title, part) in [("Total IO", Part::Total), ("Read IO", Part::Read), ("Write IO", Part::Write)] {
        writeln!(out, "\n{title}")?;
        write_section(out, run, numbers, part)?;
    }
    if run.latency {
        write_latencies(out, run, numbers)?;
    }
    Ok(())
}

fn write_cpus(out: &mut String, numbers: &DiskspdNumbers) -> Result {
    const BORDER: &str = "----------------------------------------";
    writeln!(out, "\nCPU |  Usage |  User  | Kernel |  Idle\n{BORDER}")?;
    let row = |name: &str, [user, kernel, idle]: [f64; 3]| {
        let used = user + kernel;
        format!("{name}| {used:6.2}%| {user:6.2}%| {kernel:6.2}%| {idle:6.2}%")
    };
    for cpu in &numbers.cpus {
        let parts = [cpu.user, cpu.kernel, cpu.idle];
        writeln!(out, "{}", row(&format!("{:4}", cpu.number), parts))?;
    }
    writeln!(out, "{BORDER}\n{}", row("avg.", means(&numbers.cpus)))
}

/// Which operations a table shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Total,
    Read,
    Write,
}

impl Part {
    fn of(self, stream: &StreamNumbers) -> Transfers {
        match self {
            Part::Read => stream.read.clone(),
            Part::Write => stream.write.clone(),
            Part::Total => stream.total(),
        }
    }
}

fn write_section(out: &mut String, run: &DiskspdRun, numbers: &DiskspdNumbers, part: Part) -> Result {
    let when = |is: bool, text: &'static str| if is { text } else { "" };
    let has_deviation = run.iops_every_ms.is_some();
    writeln!(
        out,
        "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s {}{}{}|  file",
        when(run.latency, "|  AvgLat  "),
        when(has_deviation, "| IopsStdDev "),
        when(run.latency, "| LatStdDev ")
    )?;
    let width = 78 + 23 * usize::from(run.latency) + 13 * usize::from(has_deviation);
    let border = "-".repeat(width);
    writeln!(out, "{border}")?;
    let columns = |transfers: &Transfers| {
        let mut text = format!(
            "{:15} | {:12} | {:10.2} | {:10.2}",
            transfers.bytes,
            transfers.operations,
            transfers.bytes as f64 / f64::from(1 << 20) / numbers.seconds,
            transfers.operations as f64 / numbers.seconds
        );
        if run.latency {
            let _ = write!(text, " | {:8.3}", transfers.mean_ms());
        }
        if has_deviation {
            let _ = write!(text, " | {:10.2}", transfers.rate_deviation());
        }
        if run.latency {
            let deviation = transfers.deviation_ms().map_or("N/A".into(), |ms| format!("{ms:.3}"));
            let _ = write!(text, " | {deviation:>9}");
        }
        text
    };
    let mut total = Transfers::default();
    for (stream, measured) in run.streams().iter().zip(&numbers.streams) {
        let transfers = part.of(measured);
        let Some(target) = run.targets.get(stream.target) else { continue };
        let file = format!("{} ({})", target.path, size(target.bytes));
        writeln!(out, "{:6} | {} | {file}", stream.thread, columns(&transfers))?;
        total.add(&transfers);
    }
    writeln!(out, "{border}\ntotal:   {}", columns(&total))
}

fn write_latencies(out: &mut String, run: &DiskspdRun, numbers: &DiskspdNumbers) -> Result {
    let streams = run.streams();
    let of_target = |target: usize| {
        let streams = streams.iter().zip(&numbers.streams);
        StreamNumbers::sum(
            streams.filter(|(stream, _)| stream.target == target).map(|(_, measured)| measured),
        )
    };
    if run.targets.len() > 1 {
        for (number, target) in run.targets.iter().enumerate() {
            writeln!(out, "\nLatency distribution: {}", target.path)?;
            write_chart(out, &of_target(number))?;
        }
    }
    writeln!(out, "\nTotal latency distribution:")?;
    write_chart(out, &StreamNumbers::sum(&numbers.streams))
}

fn write_chart(out: &mut String, sum: &StreamNumbers) -> Result {
    writeln!(out, "  %-ile |  Read (ms) | Write (ms) | Total (ms)")?;
    writeln!(out, "----------------------------------------------")?;
    let total = sum.total();
    let mut row = |name: &str, value: &dyn Fn(&Transfers) -> u64| {
        let cell = |transfers: &Transfers| match transfers.latency_ns.is_empty() {
            true => "N/A".to_string(),
            false => format!("{:.3}", value(transfers) as f64 / 1e6),
        };
        let (read, write) = (cell(&sum.read), cell(&sum.write));
        writeln!(out, "{name:>7} | {read:>10} | {write:>10} | {:10.3}", value(&total) as f64 / 1e6)
    };
    let least = |of: &Transfers| if of.latency_ns.is_empty() { 0 } else { of.latency_ns.min() };
    row("min", &least)?;
    for (share, name) in PERCENTILES {
        row(name, &|of| of.latency_ns.value_at_quantile(share))?;
    }
    row("max", &|of| of.latency_ns.max())
}

/// `64KiB`, `1.50GiB`, or bytes below one KiB.
fn size(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let one = 1_u64 << shift;
        if bytes >= one {
            return match bytes.is_multiple_of(one) {
                true => format!("{}{unit}", bytes >> shift),
                false => format!("{:.2}{unit}", bytes as f64 / one as f64),
            };
        }
    }
    bytes.to_string()
}
