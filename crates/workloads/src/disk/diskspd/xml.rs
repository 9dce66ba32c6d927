//! diskspd's report in XML (`-Rxml`), with the elements of its version 2.2. What only Windows has, such as processor groups
//! and power schemes, is left out.

use std::fmt::{Display, Write as _};

use super::numbers::{DiskspdNumbers, StreamNumbers, Transfers, means};
use super::{
    DiskspdAccess, DiskspdBuffer, DiskspdDistribution, DiskspdRate, DiskspdRun, DiskspdTarget, DiskspdThreads,
};

/// Percentiles between 0 and 100, with the digits they are written with.
const NINES: [&str; 7] = ["99.9", "99.99", "99.999", "99.9999", "99.99999", "99.999999", "99.9999999"];

/// A document that is written element by element.
#[derive(Default)]
struct Xml {
    text: String,
    open: Vec<&'static str>,
}

impl Xml {
    /// `inside` writes what is in the element.
    fn element(&mut self, name: &'static str, attributes: &str, inside: impl FnOnce(&mut Xml)) {
        let indent = self.indent();
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{indent}<{name}{attributes}>");
        self.open.push(name);
        inside(self);
        self.open.pop();
        let _ = writeln!(self.text, "{indent}</{name}>");
    }

    fn value(&mut self, name: &str, value: impl Display) {
        let (indent, value) = (self.indent(), escaped(&value.to_string()));
        let _ = writeln!(self.text, "{indent}<{name}>{value}</{name}>");
    }

    fn indent(&self) -> String {
        "  ".repeat(self.open.len())
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML has no way to write most of them.
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// What the command line states.
pub(super) fn profile(run: &DiskspdRun) -> String {
    let mut xml = Xml::default();
    write_profile(&mut xml, run);
    xml.text
}

/// The report of a run.
pub(super) fn report(run: &DiskspdRun, numbers: &DiskspdNumbers) -> String {
    let mut xml = Xml::default();
    xml.element("Results", "", |xml| {
        xml.element("System", "", |xml| {
            xml.value("ComputerName", &numbers.host);
            xml.element("Tool", "", |xml| {
                xml.value("Version", concat!("Plimsoll ", env!("CARGO_PKG_VERSION")));
            });
            xml.value("RunTime", &numbers.start);
        });
        write_profile(xml, run);
        xml.element("TimeSpan", "", |xml| match numbers.seconds > 0.0 {
            true => write_results(xml, run, numbers),
            false => xml.value("Error", "the run ended before it began to measure"),
        });
    });
    xml.text
}

fn write_profile(xml: &mut Xml, run: &DiskspdRun) {
    xml.element("Profile", "", |xml| {
        xml.value("Progress", 0);
        xml.value("ResultFormat", "xml");
        xml.value("Verbose", run.verbose);
        xml.element("TimeSpans", "", |xml| {
            xml.element("TimeSpan", "", |xml| {
                xml.value("CompletionRoutines", false);
                xml.value("MeasureLatency", run.latency);
                xml.value("CalculateIopsStdDev", run.iops_every_ms.is_some());
                xml.value("DisableAffinity", true);
                xml.value("Duration", run.seconds);
                xml.value("Warmup", run.warm_up_s);
                xml.value("Cooldown", run.cool_down_s);
                xml.value("ThreadCount", pool_threads(run));
                xml.value("RequestCount", pool_depth(run));
                xml.value("IoBucketDuration", run.iops_every_ms.unwrap_or(1000));
                xml.value("RandSeed", run.seed);
                xml.element("Targets", "", |xml| {
                    for target in &run.targets {
                        xml.element("Target", "", |xml| write_target(xml, run, target));
                    }
                });
            });
        });
    });
}

/// `-F`, 0 without it.
fn pool_threads(run: &DiskspdRun) -> u64 {
    if let DiskspdThreads::InAll(count) = run.threads { count } else { 0 }
}

/// `-O`, 0 without it.
fn pool_depth(run: &DiskspdRun) -> u64 {
    if run.is_pool { run.outstanding } else { 0 }
}

fn write_target(xml: &mut Xml, run: &DiskspdRun, target: &DiskspdTarget) {
    xml.value("Path", &target.path);
    xml.value("BlockSize", run.block_bytes);
    xml.value("BaseFileOffset", run.base);
    for hint in ["SequentialScan", "RandomAccess", "TemporaryFile", "UseLargePages"] {
        xml.value(hint, false);
    }
    if run.unbuffered {
        xml.value("DisableOSCache", true);
    }
    if run.write_through {
        xml.value("WriteThrough", true);
    }
    xml.element("WriteBufferContent", "", |xml| match run.buffer {
        DiskspdBuffer::Zeros => xml.value("Pattern", "zero"),
        DiskspdBuffer::Source(bytes) => {
            xml.value("Pattern", "random");
            xml.element("RandomDataSource", "", |xml| xml.value("SizeInBytes", bytes));
        }
        DiskspdBuffer::Default | DiskspdBuffer::Random => xml.value("Pattern", "random"),
    });
    xml.value("ParallelAsyncIO", false);
    if run.think_ms > 0 {
        xml.value("BurstSize", 1);
        xml.value("ThinkTime", run.think_ms);
    }
    if let Some(bytes) = run.create {
        xml.value("FileSize", bytes);
    }
    match run.access {
        DiskspdAccess::Random { align } => xml.value("Random", align),
        DiskspdAccess::Sequential { stride, interlocked } => {
            xml.value("StrideSize", stride);
            xml.value("InterlockedSequential", interlocked);
        }
    }
    if let Some(distribution) = &run.distribution {
        let (kind, ranges) = match distribution {
            DiskspdDistribution::Percent(ranges) => ("Percent", ranges),
            DiskspdDistribution::Absolute(ranges) => ("Absolute", ranges),
        };
        xml.element("Distribution", "", |xml| {
            xml.element(kind, "", |xml| {
                for (share, length) in ranges {
                    let indent = xml.indent();
                    let _ = writeln!(xml.text, "{indent}<Range IO=\"{share}\">{length}</Range>");
                }
            });
        });
    }
    xml.value("ThreadStride", run.thread_stride);
    xml.value("MaxFileSize", run.end.unwrap_or(0));
    xml.value("RequestCount", run.outstanding);
    xml.value("WriteRatio", run.write_percent);
    match run.rate {
        Some(DiskspdRate::Iops(rate)) => {
            let indent = xml.indent();
            let _ = writeln!(xml.text, "{indent}<Throughput unit=\"IOPS\">{rate}</Throughput>");
        }
        Some(DiskspdRate::BytesPerMs(rate)) => xml.value("Throughput", rate),
        None => xml.value("Throughput", 0),
    }
    let threads = if let DiskspdThreads::PerTarget(count) = run.threads { count } else { 1 };
    xml.value("ThreadsPerFile", threads);
    xml.value("IOPriority", 3);
    xml.value("Weight", 1);
}

fn write_results(xml: &mut Xml, run: &DiskspdRun, numbers: &DiskspdNumbers) {
    xml.value("TestTimeSeconds", format!("{:.2}", numbers.seconds));
    xml.value("ThreadCount", run.thread_count());
    xml.value("RequestCount", pool_depth(run));
    xml.value("ProcCount", numbers.cpu_count);
    xml.element("CpuUtilization", "", |xml| {
        for cpu in &numbers.cpus {
            xml.element("CPU", "", |xml| {
                xml.value("Id", cpu.number);
                write_cpu(xml, [cpu.user, cpu.kernel, cpu.idle]);
            });
        }
        xml.element("Average", "", |xml| write_cpu(xml, means(&numbers.cpus)));
    });
    let sum = StreamNumbers::sum(&numbers.streams);
    if run.latency {
        write_latencies(xml, &sum);
    }
    if let Some(every_ms) = run.iops_every_ms {
        write_rates(xml, &sum, every_ms);
    }
    let streams = run.streams();
    let pairs: Vec<_> = streams.iter().zip(&numbers.streams).collect();
    for of_thread in pairs.chunk_by(|(one, _), (other, _)| one.thread == other.thread) {
        xml.element("Thread", "", |xml| {
            xml.value("Id", of_thread.first().map_or(0, |(stream, _)| stream.thread));
            for (stream, measured) in of_thread {
                let Some(target) = run.targets.get(stream.target) else { continue };
                xml.element("Target", "", |xml| write_stream(xml, run, target, measured));
            }
        });
    }
}

fn write_cpu(xml: &mut Xml, [user, kernel, idle]: [f64; 3]) {
    let parts = [
        ("UsagePercent", user + kernel),
        ("UserPercent", user),
        ("KernelPercent", kernel),
        ("IdlePercent", idle),
    ];
    for (name, percent) in parts {
        xml.value(name, format!("{percent:.2}"));
    }
}

fn write_stream(xml: &mut Xml, run: &DiskspdRun, target: &DiskspdTarget, measured: &StreamNumbers) {
    let (read, write, total) = (&measured.read, &measured.write, measured.total());
    xml.value("Path", &target.path);
    xml.value("BytesCount", total.bytes);
    xml.value("FileSize", target.bytes);
    xml.value("IOCount", total.operations);
    xml.value("ReadBytes", read.bytes);
    xml.value("ReadCount", read.operations);
    xml.value("WriteBytes", write.bytes);
    xml.value("WriteCount", write.operations);
    if run.latency {
        let means = [
            "AverageReadLatencyMilliseconds",
            "AverageWriteLatencyMilliseconds",
            "AverageLatencyMilliseconds",
        ];
        write_means(xml, measured, means);
    }
    if let Some(every_ms) = run.iops_every_ms {
        write_rates(xml, measured, every_ms);
    }
}

/// Mean and standard deviation of reads, writes and both, where there are any.
fn write_means(xml: &mut Xml, measured: &StreamNumbers, names: [&str; 3]) {
    let total = measured.total();
    let deviations = ["ReadLatencyStdev", "WriteLatencyStdev", "LatencyStdev"];
    for (of, (mean, deviation)) in
        [&measured.read, &measured.write, &total].into_iter().zip(names.into_iter().zip(deviations))
    {
        if let Some(ms) = of.deviation_ms() {
            xml.value(mean, format!("{:.3}", of.mean_ms()));
            xml.value(deviation, format!("{ms:.3}"));
        }
    }
}

fn write_latencies(xml: &mut Xml, sum: &StreamNumbers) {
    let total = sum.total();
    let cells = |of: &Transfers| of.latency_ns.iter_recorded().count();
    let attributes = format!(
        " ReadHistoBuckets=\"{}\" WriteHistoBuckets=\"{}\" TotalHistoBuckets=\"{}\"",
        cells(&sum.read),
        cells(&sum.write),
        cells(&total)
    );
    xml.element("Latency", &attributes, |xml| {
        let means = ["AverageReadMilliseconds", "AverageWriteMilliseconds", "AverageTotalMilliseconds"];
        write_means(xml, sum, means);
        let mut bucket = |percentile: &str, value: &dyn Fn(&Transfers) -> u64| {
            xml.element("Bucket", "", |xml| {
                xml.value("Percentile", percentile);
                let parts = [("ReadMilliseconds", &sum.read), ("WriteMilliseconds", &sum.write)];
                for (name, of) in parts.into_iter().chain([("TotalMilliseconds", &total)]) {
                    if !of.latency_ns.is_empty() {
                        xml.value(name, format!("{:.3}", value(of) as f64 / 1e6));
                    }
                }
            });
        };
        bucket("0", &|of| of.latency_ns.min());
        let percentiles = (1..100).map(|percent| percent.to_string());
        for percentile in percentiles.chain(NINES.map(String::from)) {
            let share = percentile.parse::<f64>().unwrap_or(100.0) / 100.0;
            bucket(&percentile, &|of| of.latency_ns.value_at_quantile(share));
        }
        bucket("100", &|of| of.latency_ns.max());
    });
}

/// Operations per second over time.
fn write_rates(xml: &mut Xml, measured: &StreamNumbers, every_ms: u64) {
    xml.element("Iops", "", |xml| {
        let (read, write, total) = (&measured.read, &measured.write, measured.total());
        for (name, of) in [("ReadIopsStdDev", read), ("WriteIopsStdDev", write), ("IopsStdDev", &total)] {
            if !of.rates_per_s.is_empty() {
                xml.value(name, format!("{:.3}", of.rate_deviation()));
            }
        }
        let at = |of: &Transfers, index: usize| of.rates_per_s.get(index).copied().unwrap_or(0.0);
        for (index, rate) in total.rates_per_s.iter().enumerate() {
            let indent = xml.indent();
            let _ = writeln!(
                xml.text,
                "{indent}<Bucket SampleMillisecond=\"{}\" Read=\"{:.0}\" Write=\"{:.0}\" Total=\"{rate:.0}\"/>",
                every_ms.saturating_mul(index as u64 + 1),
                at(read, index),
                at(write, index),
            );
        }
    });
}
