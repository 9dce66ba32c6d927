//! `plimsoll import`: results of other tools, and counters of other systems, as a run directory.

mod clock;
pub(crate) mod columns;
mod exporters;
mod hosts;
mod keep;

pub(super) use keep::study_of_loads;

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use foreign::{Checked, CheckedLog, Content, DateOrder, FORMATS, Fault, LoadRun, Options};

use self::hosts::Hosts;
use crate::carry_out::{self, Failure};
use crate::exit::Exit;
use crate::output;

/// Its arguments.
pub(crate) fn arguments(json: Arg) -> Command {
    Command::new("import")
        .about("Results of other tools, and logs of counters, as a run directory")
        .after_help(
            "A load with the counters of its server, joined by time:\n  \
             plimsoll import sqlio.txt server.csv\n\
             Counters of two hosts, of which one is not named in its file:\n  \
             plimsoll import k6.json web1.csv db1=node_exporter.txt\n\
             plimsoll import --formats lists what is read.",
        )
        .arg(Arg::new("file").value_name("FILE").num_args(1..).required_unless_present("formats").help(
            "The files of one experiment, as FILE or HOST=FILE. The format is recognized by the content",
        ))
        .arg(
            Arg::new("run-dir")
                .long("run-dir")
                .value_name("DIR")
                .help("Run directory [default: runs/DATE-FILE]"),
        )
        .arg(
            Arg::new("date-order")
                .long("date-order")
                .value_name("ORDER")
                .value_parser(["day-first", "month-first"])
                .help("The order of day and month in dates such as 1/2/2014 [default: that which fits]"),
        )
        .arg(
            Arg::new("utc-offset")
                .long("utc-offset")
                .value_name("TIME")
                .allow_hyphen_values(true)
                .help("Offset from UTC of times without a zone, such as +01:00 [default: +00:00]"),
        )
        .arg(
            Arg::new("clock-offset")
                .long("clock-offset")
                .value_name("FILE=SECONDS")
                .action(ArgAction::Append)
                .help(
                    "Seconds to add to the times of a file whose clock was wrong, such as server.csv=-3612",
                ),
        )
        .arg(Arg::new("begin").long("begin").value_name("TIME").help(
            "When the first run of the load began, such as 2026-11-26T14:00:00Z, if its file does not say",
        ))
        .arg(
            Arg::new("formats")
                .long("formats")
                .action(ArgAction::SetTrue)
                .conflicts_with("file")
                .help("List the formats"),
        )
        .arg(json)
}

/// One file, open.
struct Opened {
    name: String,
    host: Option<String>,
    format: &'static str,
    content: Content,
}

/// A log of counters with its file.
struct NamedLog {
    name: String,
    format: &'static str,
    /// The host that the user gave for it.
    host: Option<String>,
    /// What the user gave to be added to its times, nanoseconds.
    offset_ns: Option<i64>,
    log: CheckedLog,
}

/// Opens the log of a file again; none if it cannot be read twice.
type Opener<'a> = dyn Fn(&str) -> Option<CheckedLog> + 'a;

/// `plimsoll import`.
pub(crate) fn import(matches: &ArgMatches) -> Result<Exit, Failure> {
    if matches.get_flag("formats") {
        let widest = FORMATS.iter().map(|format| format.name.len()).max().unwrap_or(0);
        let lines = FORMATS.iter().map(|format| format!("{:<widest$}  {}", format.name, format.about));
        output::page(&lines.collect::<Vec<String>>().join("\n"));
        return Ok(Exit::Good);
    }
    let options = options(matches)?;
    let names: Vec<&String> = matches.get_many::<String>("file").into_iter().flatten().collect();
    let (mut opened, mut faults) = (Vec::new(), Vec::new());
    for name in &names {
        let (host, name) = named(name);
        match open(name, host, &options) {
            Ok(file) => opened.push(file),
            // fio makes each log, also of what its engine does not have.
            Err(_) if foreign::is_fio_log_name(name) && is_empty(name) => {
                output::say(&format!("{name}: the log is empty"));
            }
            Err(fault) => faults.push(shown(name, &fault)),
        }
    }
    if opened.is_empty() && faults.is_empty() {
        return Err(Failure::usage("error: all files are empty, nothing was imported"));
    }
    if !faults.is_empty() {
        let count = match faults.len() {
            1 => "1 mistake, nothing was imported".to_string(),
            count => format!("{count} mistakes, nothing was imported"),
        };
        return Err(Failure::usage(format!("{}\n\n{count}", faults.join("\n"))));
    }
    let (mut loads, mut logs): (Vec<(String, Checked<LoadRun>)>, Vec<NamedLog>) = (Vec::new(), Vec::new());
    let mut courses = Vec::new();
    for Opened { name, host, format, content } in opened {
        match content {
            Content::Load(runs) => loads.extend(runs.into_iter().map(|mut run| {
                if let Some(host) = &host {
                    run.set_host(host.clone());
                }
                (name.clone(), run)
            })),
            Content::Counters(log) => logs.push(NamedLog { name, format, host, offset_ns: None, log }),
            Content::FioLog(log) => courses.push((name, *log)),
            Content::Figures(_) => {
                return Err(Failure::usage(format!(
                    "error: {name}: figures of a report are no run that can be recorded\n  see whether they fit each other: plimsoll audit {name}"
                )));
            }
        }
    }
    foreign::join_fio_logs(courses, &mut loads)
        .map_err(|(name, fault)| Failure::usage(shown(&name, &fault)))?;
    set_begins(matches, &mut loads)?;
    let path = match matches.get_one::<String>("run-dir") {
        Some(path) => PathBuf::from(path),
        None => carry_out::new_run_path(&stem(names.first().map_or("import", |name| named(name).1))),
    };
    let again = |name: &str| {
        // A pipe is read once only.
        std::fs::metadata(name).ok().filter(std::fs::Metadata::is_file)?;
        match open(name, None, &options).ok()?.content {
            Content::Counters(log) => Some(log),
            _ => None,
        }
    };
    let offsets = clock::Offsets::parse(matches.get_many::<String>("clock-offset").into_iter().flatten())?;
    let mut notes = offsets.apply(&mut loads, &mut logs)?;
    notes.extend(clock::estimates(&loads, &logs, &again));
    let mut hosts = Hosts::of(&loads, &logs, &again)?;
    hosts.notes.append(&mut notes);
    let document = keep::write(&path, &loads, &mut logs, &hosts)?;
    output::prints_record(&document.run);
    carry_out::print(&document, matches.get_flag("json"), false);
    Ok(Exit::Good)
}

fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(|| "import".into(), |stem| stem.to_string_lossy().into_owned())
}

/// The host and the file of an argument: `HOST=FILE`, or `FILE`.
fn named(argument: &str) -> (Option<String>, &str) {
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '\\', '{', '}']);
    match argument.split_once('=').filter(|(host, _)| is_host(host) && !Path::new(argument).exists()) {
        Some((host, name)) => (Some(host.to_string()), name),
        None => (None, argument),
    }
}

fn is_empty(name: &str) -> bool {
    std::fs::metadata(name).is_ok_and(|data| data.is_file() && data.len() == 0)
}

fn open(name: &str, host: Option<String>, options: &Options) -> Result<Opened, Fault> {
    let failed = |error: std::io::Error| Fault { line: 0, what: error.to_string(), help: String::new() };
    let file = File::open(name).map_err(failed)?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(Fault { line: 0, what: "this is a folder".into(), help: "name the files in it".into() });
    }
    let (format, content) = foreign::open(Box::new(file), options)?;
    Ok(Opened { name: name.to_string(), host, format: format.name, content })
}

/// A fault of a file, as all errors are shown.
pub(crate) fn shown(name: &str, fault: &Fault) -> String {
    let place = match fault.line {
        0 => name.to_string(),
        line => format!("{name}:{line}"),
    };
    let help = if fault.help.is_empty() { String::new() } else { format!("\n  {}", fault.help) };
    format!("error: {place}: {}{help}", fault.what)
}

fn options(matches: &ArgMatches) -> Result<Options, Failure> {
    let date_order = matches.get_one::<String>("date-order").map(|order| match order.as_str() {
        "day-first" => DateOrder::DayFirst,
        _ => DateOrder::MonthFirst,
    });
    let utc_offset_s = match matches.get_one::<String>("utc-offset") {
        None => 0,
        Some(text) => -offset_s(text).ok_or_else(|| {
            Failure::usage(format!(
                "error: --utc-offset {text}: write hours and minutes, such as +01:00 or -05:30"
            ))
        })?,
    };
    Ok(Options { utc_offset_s, date_order })
}

/// Seconds of `+01:00`.
fn offset_s(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=14).contains(&hours) && (0..60).contains(&minutes)).then_some(sign * (3600 * hours + 60 * minutes))
}

/// Gives runs their begin if the user knows that of the first one: they follow each other.
fn set_begins(matches: &ArgMatches, loads: &mut [(String, Checked<LoadRun>)]) -> Result<(), Failure> {
    let Some(text) = matches.get_one::<String>("begin") else { return Ok(()) };
    let begin: jiff::Timestamp = text.parse().map_err(|error| {
        Failure::usage(format!(
            "error: --begin {text}: {error}\n  write a date with a zone, such as 2026-11-26T14:00:00Z"
        ))
    })?;
    let mut at = i64::try_from(begin.as_nanosecond()).unwrap_or(i64::MAX);
    for (_, run) in loads.iter_mut().filter(|(_, run)| run.began_unix_ns.is_none()) {
        run.set_begin(at).map_err(|fault| Failure::usage(format!("error: --begin {text}: {fault}")))?;
        at = at.saturating_add((run.seconds * 1e9) as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_may_name_the_host_of_its_file() {
        for (argument, host, name) in [
            ("db1=a.csv", Some("db1"), "a.csv"),
            ("db1=x/a=b.csv", Some("db1"), "x/a=b.csv"),
            ("x/a=b.csv", None, "x/a=b.csv"),
            ("=a.csv", None, "=a.csv"),
            ("a.csv", None, "a.csv"),
        ] {
            assert_eq!(named(argument), (host.map(str::to_string), name), "{argument}");
        }
    }

    #[test]
    fn offsets_are_hours_and_minutes() {
        for (text, expected) in [
            ("+01:00", Some(3600)),
            ("-05:30", Some(-19_800)),
            ("2", Some(7200)),
            ("+15:00", None),
            ("+01:60", None),
            ("x", None),
        ] {
            assert_eq!(offset_s(text), expected, "{text}");
        }
    }
}
