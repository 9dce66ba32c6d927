//! `plimsoll disk --diskspd ...`: diskspd's command line in, diskspd's report out.

use model::{Experiment, Phase, RunRecord, Study};
use workloads::disk::diskspd::{
    CpuUse, DiskspdNumbers, DiskspdRun, StreamNumbers, Transfers, parse, profile, report,
};

use super::other_tool::{self, Tool};
use crate::carry_out::{Failure, Options};
use crate::exit::Exit;
use crate::one_off::plain_experiment;
use crate::output;

static TOOL: Tool = Tool {
    flag: "--diskspd",
    flags: &[
        ("size", "-c"),
        ("block_size", "-b"),
        ("outstanding", "-o"),
        ("threads", "-t"),
        ("stride", "-s"),
        ("align", "-r"),
        ("offset", "-B"),
        ("cache", "-S"),
    ],
    page_cache: "-Sb",
};

/// Carries out a command line of diskspd. `put` adds what diskspd has no key for.
pub(crate) fn run(
    flags: &[String],
    put: impl Fn(&mut Experiment) -> Result<(), Failure>,
    options: &Options,
) -> Result<Exit, Failure> {
    let diskspd = parse(flags, &|file| super::fio::size_of(file.as_ref())).map_err(Failure::usage)?;
    for note in &diskspd.notes {
        output::say(&format!("note: {note}"));
    }
    if diskspd.profile_only {
        output::verbatim(&profile(&diskspd));
        return Ok(Exit::Good);
    }
    let mut experiment = plain_experiment("diskspd", "disk", diskspd.settings(), diskspd.load());
    experiment.seed = diskspd.seed;
    put(&mut experiment)?;
    other_tool::run(&experiment, options, (&TOOL, diskspd.pauses), |study| {
        report(&diskspd, &numbers(&diskspd, study))
    })
}

/// The numbers of the only run.
fn numbers(diskspd: &DiskspdRun, study: &Study) -> DiskspdNumbers {
    let mut numbers = DiskspdNumbers {
        host: study.host.name.clone(),
        cpu_count: study.host.cpus,
        streams: vec![StreamNumbers::default(); diskspd.streams().len()],
        ..DiskspdNumbers::default()
    };
    let Some(record) = study.runs.first() else { return numbers };
    let started = i64::try_from(record.run.started_unix_ns / 1_000_000_000).unwrap_or(0);
    numbers.start = jiff::Timestamp::from_second(started)
        .map_or_else(|_| String::new(), |start| start.strftime("%Y/%m/%d %H:%M:%S UTC").to_string());
    let Some(span) = record.run.span(Phase::Measure) else { return numbers };
    numbers.seconds = span.end_s - span.begin_s;
    numbers.cpus = cpus(record, span.begin_s, span.end_s);
    numbers.streams = diskspd
        .streams()
        .into_iter()
        .map(|stream| {
            let job = diskspd.job_name(stream);
            let of = |operation| transfers(record, &format!("{job}:{operation}"));
            StreamNumbers { read: of("read"), write: of("write") }
        })
        .collect();
    numbers
}

/// What one operation did in the measured time.
fn transfers(record: &RunRecord, operation: &str) -> Transfers {
    let mut transfers = Transfers::default();
    for row in record.measured(operation) {
        transfers.operations += row.completed.saturating_sub(row.failed);
        transfers.bytes += row.bytes;
        transfers.rates_per_s.push(row.rate_per_s());
    }
    if let Some(histograms) = record.histograms.get(operation) {
        // diskspd counts from the moment at which an operation is issued.
        transfers.latency_ns = histograms.service.clone();
    }
    transfers
}

/// How each CPU spent the time.
fn cpus(record: &RunRecord, begin_s: f64, end_s: f64) -> Vec<CpuUse> {
    let readings = &record.readings;
    let mut numbers: Vec<u32> = readings
        .columns
        .iter()
        .filter(|column| column.metric.name == "cpu.busy_share")
        .filter_map(|column| column.instance.parse().ok())
        .collect();
    numbers.sort_unstable();
    let use_of = |number: u32| {
        let percent = |metric: &str| {
            let column = readings.find(metric, &number.to_string());
            column
                .and_then(|column| readings.mean(column, begin_s, end_s))
                .map_or(f64::NAN, |share| share * 100.0)
        };
        CpuUse {
            number,
            user: percent("cpu.user_share"),
            kernel: percent("cpu.system_share") + percent("cpu.irq_share"),
            idle: 100.0 - percent("cpu.busy_share"),
        }
    };
    numbers.into_iter().map(use_of).collect()
}
