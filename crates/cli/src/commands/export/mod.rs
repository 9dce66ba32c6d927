//! `plimsoll export`: a record in the formats of other programs.

mod counter;
mod output;
mod send;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use export::{Identity, Otlp, Times};
use model::{Level, Phase, RunRecord, Study};
use record::{LogOf, RecordError};

use self::output::{Filter, Output};
use super::{record::find, text};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output as printed;

/// What a format is made from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// The result of all trials, as it is shown.
    Result,
    /// The time series of the trials.
    Record,
}

/// A format of `--format`.
struct Format {
    name: &'static str,
    basis: Basis,
    /// For the help.
    about: &'static str,
}

const fn format(name: &'static str, basis: Basis, about: &'static str) -> Format {
    Format { name, basis, about }
}

/// Every format.
static FORMATS: &[Format] = &[
    format("csv", Basis::Result, "the numbers of each trial and operation"),
    format("json", Basis::Result, "the whole result"),
    format("markdown", Basis::Result, "the comparison, for a pull request"),
    format("junit", Basis::Result, "trials and goals as test cases"),
    format("steps", Basis::Result, "the steps of a request as CSV"),
    format("hyperfine-json", Basis::Result, "launches of commands"),
    format("hyperfine-markdown", Basis::Result, "launches of commands"),
    format("k6", Basis::Result, "k6 summary JSON of a trial of an HTTP load"),
    format("openmetrics", Basis::Record, "OpenMetrics text with times: intervals, histograms and counters"),
    format("otlp", Basis::Record, "metrics of OpenTelemetry (OTLP) as JSON lines, or sent with --export-to"),
    format("hdrhistogram", Basis::Record, "HdrHistogram log of response times, service times and lags"),
    format(
        "parquet",
        Basis::Record,
        "tables in a folder: operations, intervals and readings as Parquet files",
    ),
    format("perfmon-csv", Basis::Record, "the counters as a log of Windows Performance Monitor"),
];

/// Its arguments.
pub(crate) fn arguments(run: Arg) -> Command {
    let widest = FORMATS.iter().map(|of| of.name.len()).max().unwrap_or(0);
    let formats: Vec<String> =
        FORMATS.iter().map(|of| format!("{:<widest$}  {}", of.name, of.about)).collect();
    let command =
        Command::new("export")
            .about("Export the numbers of a run in the formats of other programs")
            .after_help(format!("Formats:\n  {}", formats.join("\n  ")))
            .arg(run)
            .arg(
                Arg::new("format")
                    .long("format")
                    .value_name("FORMAT")
                    .value_parser(FORMATS.iter().map(|of| of.name).collect::<Vec<_>>())
                    .hide_possible_values(true)
                    .default_value("csv")
                    .help("The format"),
            )
            .arg(Arg::new("trial").long("trial").value_name("TRIAL").help(
                "Only this trial, such as 002-block_size=64KiB.r1. For the formats of time series, and k6",
            ))
            .arg(
                Arg::new("output")
                    .long("output")
                    .short('o')
                    .value_name("FILE")
                    .conflicts_with("export-to")
                    .help("The file to write, for parquet the folder [default: standard output]"),
            );
    crate::export_to::flags(command, "With --format otlp: the URL to send the record to")
}

/// `plimsoll export`.
pub(crate) fn export(matches: &ArgMatches) -> Result<Exit, Failure> {
    let name = text(matches, "format");
    let Some(format) = FORMATS.iter().find(|of| of.name == name) else {
        return Err(Failure::usage(format!("error: there is no format `{name}`")));
    };
    let endpoint = crate::export_to::endpoint(matches)?;
    if endpoint.is_some() && name != "otlp" {
        return Err(Failure::usage("error: --export-to sends OTLP\n  add --format otlp"));
    }
    let path = find(text(matches, "run"))?;
    let mut study = record::read_every_sample(&path).map_err(Failure::failed)?;
    if let Some(trial) = matches.get_one::<String>("trial") {
        if format.basis == Basis::Result && name != "k6" {
            return Err(Failure::usage(format!(
                "error: {name} has all trials of the run\n  leave --trial out, or export a format of time series"
            )));
        }
        select(&mut study, trial)?;
    }
    if format.basis == Basis::Record
        && let Some(of) = study.runs.iter().find(|of| of.run.started_unix_ns == 0)
    {
        printed::say(&format!(
            "warning: the record does not say when {} ran: its times begin with 1970-01-01",
            of.run.trial.id()
        ));
    }
    if let Some(endpoint) = endpoint {
        send::send(&study, &endpoint)?;
        return Ok(Exit::Good);
    }
    let file = matches.get_one::<String>("output").map(PathBuf::from);
    match format.basis {
        Basis::Record if name == "parquet" => parquet(&study, file)?,
        Basis::Result => {
            let (written, filter) = of_result(name, &study)?;
            let mut out = Output::open(file, filter)?;
            out.write_all(written.as_bytes()).map_err(|error| out.failed(&error))?;
            out.finish()?;
        }
        Basis::Record => of_record(name, &study, file)?,
    }
    study.damage.iter().for_each(|what| printed::say(&format!("warning: {what}")));
    Ok(Exit::Good)
}

/// Keeps one trial.
fn select(study: &mut Study, trial: &str) -> Result<(), Failure> {
    let names: Vec<String> = study.runs.iter().map(|of| of.run.trial.id()).collect();
    if !names.iter().any(|name| name == trial) {
        let help = model::problem::did_you_mean(trial, names.iter().map(String::as_str));
        return Err(Failure::usage(format!("error: the run has no trial `{trial}`\n  {help}")));
    }
    study.runs.retain(|of| of.run.trial.id() == trial);
    Ok(())
}

/// A format that is made from the result.
fn of_result(name: &str, study: &Study) -> Result<(String, Filter), Failure> {
    let document = analysis::result(study);
    let of_launches = |text: Option<String>| {
        text.ok_or_else(|| {
            Failure::usage("error: this run did not launch commands\n  export it as csv, json or markdown")
        })
    };
    let of_requests = |text: Option<String>| {
        text.ok_or_else(|| {
            Failure::usage(
                "error: the steps of a request are not known in this run\n  name the address of the load and those of the other systems in [dependencies], and measure with one user",
            )
        })
    };
    Ok(match name {
        "hyperfine-json" => (of_launches(report::hyperfine_json(&document, study))?, Filter::Json),
        "hyperfine-markdown" => (of_launches(report::hyperfine_markdown(&document))?, Filter::Text),
        "json" => (report::json(&document), Filter::Json),
        "markdown" => (report::markdown(&document), Filter::Text),
        "steps" => (of_requests(report::steps_csv(&document))?, Filter::Text),
        "junit" => (report::junit(&document), Filter::Text),
        "k6" => {
            if let Some(other) = study.runs.iter().find(|of| of.run.workload != "http") {
                return Err(Failure::usage(format!(
                    "error: k6 summarizes HTTP requests, and this run has a load of the kind `{}`\n  export it as csv or json",
                    other.run.workload
                )));
            }
            let (trial, of) = match (document.trials.as_slice(), study.runs.as_slice()) {
                ([trial], [of]) => (trial, of),
                ([], _) | (_, []) => return Err(nothing("trial", "")),
                _ => return Err(several(study, "a summary of k6 is of one trial")),
            };
            let summary =
                export::k6(trial, &of.run).map_err(|why| Failure::usage(format!("error: {why}")))?;
            (serde_json::to_string_pretty(&summary).map_err(Failure::failed)?, Filter::Json)
        }
        _ => (report::csv(&document), Filter::Text),
    })
}

/// A format that is made from time series, written as it is made.
fn of_record(name: &str, study: &Study, file: Option<PathBuf>) -> Result<(), Failure> {
    if study.runs.is_empty() {
        return Err(nothing("trial", ""));
    }
    let filter = if name == "otlp" { Filter::Json } else { Filter::Text };
    let mut out = Output::open(file, filter)?;
    let written: io::Result<()> = match name {
        "otlp" => otlp(study, |resource_metrics| {
            let line = export::request([resource_metrics.as_str()]);
            writeln!(out, "{line}")
        }),
        "perfmon-csv" => match export::perfmon(study, counter::of, &mut out) {
            Ok(0) => return Err(nothing("reading of a counter", "")),
            written => written.map(|_| ()),
        },
        "hdrhistogram" => {
            let copied = record::copy_histogram_logs(study.directory.as_ref(), &logs(study), &mut out);
            let copied = copied.map_err(|error| match &error {
                RecordError::Io { action: "write", source, .. } => out.failed(source),
                _ => Failure::failed(error),
            })?;
            copied.damage.iter().for_each(|what| printed::say(&format!("warning: {what}")));
            if copied.lines == 0 {
                return Err(nothing("histogram of response times", &why_no_histogram(study)));
            }
            Ok(())
        }
        _ => export::openmetrics(study, &mut out),
    };
    written.map_err(|error| out.failed(&error))?;
    out.finish()
}

/// The tables, as files in a folder, which is made if it does not exist.
fn parquet(study: &Study, folder: Option<PathBuf>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Err(Failure::usage(
            "error: a Parquet file has one table, and a run has three\n  name a folder for them with --output",
        ));
    };
    let failed = |path: &Path, error: io::Error| {
        Failure::failed(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    let document = analysis::result(study);
    let mut lines = Vec::new();
    for table in ["operations", "intervals", "readings"] {
        let path = folder.join(format!("{table}.parquet"));
        let write = || {
            let mut output = files::Output::create(&path, files::SHARED_FILE)?;
            let mut out = io::BufWriter::new(output.file());
            let rows = match table {
                "operations" => export::operations_parquet(&document, &mut out),
                "intervals" => export::intervals_parquet(study, &mut out),
                _ => export::readings_parquet(study, &mut out),
            }?;
            out.flush()?;
            drop(out);
            output.finish()?;
            Ok(rows)
        };
        let rows = write().map_err(|error| failed(&path, error))?;
        lines.push(format!("{rows:>9} rows  {}", path.display()));
    }
    printed::result(&lines.join("\n"));
    Ok(())
}

/// The trials whose logs become one; the trial is in each tag if there are several.
fn logs(study: &Study) -> Vec<LogOf> {
    let one = |of: &RunRecord| {
        let trial = of.run.trial.id();
        let prefix = if study.runs.len() == 1 { String::new() } else { format!("{trial}:") };
        LogOf { trial, started_unix_ns: of.run.started_unix_ns, prefix }
    };
    study.runs.iter().map(one).collect()
}

/// The resource metrics of all trials in the order of time.
///
/// # Errors
/// Those of `take`.
fn otlp<E>(study: &Study, mut take: impl FnMut(String) -> Result<(), E>) -> Result<(), E> {
    for of in &study.runs {
        let mut otlp = Otlp::new(&Identity::of(study, &of.run), of.run.started_unix_ns);
        let is_derived = |name: &str| of.run.traits.derived.iter().any(|derived| derived == name);
        for rows in of.intervals.chunk_by(|a, b| a.begin_s == b.begin_s && a.end_s == b.end_s) {
            take(otlp.interval(rows, |at| is_derived(&rows[at].operation), &[]))?;
        }
        let table = &of.readings;
        for (at, end_s) in table.end_s.iter().enumerate() {
            if let Some(sample) = otlp.readings(*end_s, &table.columns, |column| table.values[column][at]) {
                take(sample)?;
            }
        }
        let times: Vec<Times<'_>> = of
            .histograms
            .iter()
            .map(|(operation, of)| Times {
                operation,
                response: &of.response,
                service: &of.service,
                lag: &of.lag,
                censored: of.censored.as_deref(),
            })
            .collect();
        let last = of.intervals.iter().rfind(|of| of.phase == Phase::Measure).map(|of| of.end_s);
        if let Some(measured) = last.and_then(|end_s| otlp.measured(end_s, &times, is_derived)) {
            take(measured)?;
        }
    }
    Ok(())
}

/// There is nothing to write.
fn nothing(what: &str, why: &str) -> Failure {
    let why = if why.is_empty() { String::new() } else { format!("\n  {why}") };
    Failure::usage(format!("error: this run has no {what}{why}"))
}

/// A format has one trial, and the run has several.
fn several(study: &Study, what: &str) -> Failure {
    let names: Vec<String> = study.runs.iter().map(|of| of.run.trial.id()).take(5).collect();
    let more = if study.runs.len() > names.len() { ", ..." } else { "" };
    Failure::usage(format!(
        "error: {what}, and this run has {}\n  name one with --trial: {}{more}",
        study.runs.len(),
        names.join(", ")
    ))
}

/// What an imported result has instead of histograms.
fn why_no_histogram(study: &Study) -> String {
    let tool = study.runs.iter().find_map(|of| match of.run.facts.get("imported.tool") {
        Some(Level::Text(tool)) => Some(tool.as_str()),
        _ => None,
    });
    match tool {
        Some(tool) => format!(
            "the report of {tool} has statistics of the times only: openmetrics, otlp and csv carry them"
        ),
        None if study.runs.iter().all(|of| of.readings.columns.is_empty()) => String::new(),
        None => "openmetrics, otlp and perfmon-csv carry its counters".into(),
    }
}
