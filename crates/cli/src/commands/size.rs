//! `plimsoll size`: what a load needs, from a sweep that was measured.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use model::operation_io::{MixGoal, TRACE_FORMAT, TraceDocument};
use model::run::OperationUnit;
use model::{BytesGoal, EntriesGoal, ResultDocument, SizeGoal};

use super::{record, text};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// A trace of a day in intervals of a second is smaller.
const TRACE_BYTES_MAX: u64 = 256 << 20;

/// Its arguments.
pub(crate) fn arguments(run: Arg, json: Arg) -> Command {
    Command::new("size")
        .about("What a load needs of the limiting resource, or how long a copy or an import of so much takes")
        .arg(run)
        .arg(Arg::new("for").long("for").value_name("GOAL").required(true).help(
            "\"2000/s\" or \"2000/s with response.p95 <= 1s\"; of a copy the bytes, such as 10TB or 500GiB; of an import the entries, such as \"7900000 entries\"; of a trace or a run of several operations \"2000 modify/s, 10000 search/s\"",
        ))
        .arg(
            Arg::new("up-to")
                .long("up-to")
                .value_name("N")
                .value_parser(clap::value_parser!(f64))
                .help("Use only levels with at most N in flight, as if no more had been measured"),
        )
        .arg(json)
}

/// Judges a record for a load.
pub(crate) fn size(matches: &ArgMatches) -> Result<Exit, Failure> {
    let run = text(matches, "run");
    if Path::new(run).is_file() {
        return price(matches, run);
    }
    let (_, study, document) = record::load(text(matches, "run"))?;
    let (asked, traits) = (text(matches, "for"), &document.traits);
    let is_copy = traits.storage && traits.ends_by_itself;
    if traits.unit == OperationUnit::Entry {
        let memory_bytes = study.host.memory_bytes;
        return import_time(matches, &document, memory_bytes);
    }
    match BytesGoal::parse(asked) {
        Some(goal) if is_copy => return copy_time(matches, &document, &goal),
        Some(_) => {
            let what = match document.workload.as_str() {
                "" => "no copy".to_string(),
                workload => format!("a run of `{workload}`, no copy"),
            };
            return Err(Failure::usage(format!(
                "error: `{asked}` is an amount to copy, and {} is {what}\n  write a rate, such as --for 2000/s; for the time \
                 of a copy, measure one: plimsoll copy SOURCE DESTINATION",
                document.run
            )));
        }
        None if is_copy => {
            return Err(Failure::usage(format!(
                "error: {} is a copy, and `{asked}` is no amount to copy\n  write bytes with a unit, such as --for 10TB or \
                 --for 500GiB",
                document.run
            )));
        }
        None => {}
    }
    if let Ok(goal) = MixGoal::parse(asked) {
        return mix_price(matches, &document, &goal);
    }
    let names: Vec<&str> = study
        .runs
        .first()
        .map(|record| record.run.operations.iter().map(String::as_str).collect())
        .unwrap_or_default();
    let goal = SizeGoal::parse(text(matches, "for"), &names)
        .map_err(|why| Failure::usage(format!("error: {why}")))?;
    let up_to = matches.get_one::<f64>("up-to").copied();
    let mut answer = analysis::sizing::sizing(&study, &document, &goal, up_to);
    answer.verdict = report::sentences::verdict(&document);
    match matches.get_flag("json") {
        true => output::json(&serde_json::to_string_pretty(&answer).map_err(Failure::failed)?),
        false => output::page(report::sizing(&answer, output::terminal(false)).trim_end()),
    }
    Ok(match &answer.answer {
        None => Exit::Inconclusive,
        Some(found) if found.headroom < 0.0 => Exit::GoalMissed,
        Some(_) => Exit::Good,
    })
}

/// Refuses `--up-to` where it has no meaning.
fn refuse_up_to(matches: &ArgMatches, meant_for: &str, help: &str) -> Result<(), Failure> {
    match matches.contains_id("up-to") {
        true => Err(Failure::usage(format!("error: --up-to is for {meant_for}\n  {help}"))),
        false => Ok(()),
    }
}

/// What a load needs of the disk, from a trace of the operations.
fn price(matches: &ArgMatches, path: &str) -> Result<Exit, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "error: {path}: {error}\n  write a run directory, or a file of plimsoll trace --pid PID --json > FILE"
        ))
    };
    refuse_up_to(matches, "a sweep over the load", "leave it out")?;
    let file = files::read_named_text(Path::new(path), TRACE_BYTES_MAX).map_err(|error| wrong(&error))?;
    let document: TraceDocument = serde_json::from_str(&file).map_err(|error| wrong(&error))?;
    if document.format != TRACE_FORMAT {
        return Err(wrong(&format!("its format is `{}` and not `{TRACE_FORMAT}`", document.format)));
    }
    let goal = MixGoal::parse(text(matches, "for"));
    let goal = goal.map_err(|error| Failure::usage(format!("error: --for: {error}")))?;
    let price = match analysis::operation_io::price(&document, &goal) {
        Ok(price) => price,
        Err(error) => {
            output::say(&format!("no price: {error}"));
            return Ok(Exit::Inconclusive);
        }
    };
    match matches.get_flag("json") {
        true => {
            let mut value = serde_json::to_value(&price).map_err(Failure::failed)?;
            value["answer"] = report::price_answer(&price).into();
            output::json(&serde_json::to_string_pretty(&value).map_err(Failure::failed)?);
        }
        false => output::page(report::io_price(&price, output::terminal(false)).trim_end()),
    }
    Ok(Exit::Good)
}

/// How long a copy of so many bytes takes.
fn copy_time(matches: &ArgMatches, document: &ResultDocument, goal: &BytesGoal) -> Result<Exit, Failure> {
    refuse_up_to(matches, "a sweep over the load, and this run is a copy", "leave it out")?;
    let answer = analysis::sizing::copy_time(document, goal);
    match matches.get_flag("json") {
        true => output::json(
            &serde_json::to_string_pretty(&report::copy_time_json(&answer)).map_err(Failure::failed)?,
        ),
        false => output::page(report::copy_time(&answer, output::terminal(false)).trim_end()),
    }
    Ok(if answer.configurations.is_empty() { Exit::Inconclusive } else { Exit::Good })
}

/// How long an import of so many entries takes.
fn import_time(matches: &ArgMatches, document: &ResultDocument, memory_bytes: u64) -> Result<Exit, Failure> {
    let asked = text(matches, "for");
    let Some(goal) = EntriesGoal::parse(asked) else {
        return Err(Failure::usage(format!(
            "error: {} is an import, and `{asked}` is no number of entries\n  write it with its unit, such as --for \"7900000 \
             entries\"",
            document.run
        )));
    };
    refuse_up_to(matches, "a sweep over the load, and this run is an import", "leave it out")?;
    let answer = analysis::sizing::import_time(document, &goal, memory_bytes);
    match matches.get_flag("json") {
        true => output::json(
            &serde_json::to_string_pretty(&report::import_time_json(&answer)).map_err(Failure::failed)?,
        ),
        false => output::page(report::import_time(&answer, output::terminal(false)).trim_end()),
    }
    Ok(if answer.configurations.is_empty() { Exit::Inconclusive } else { Exit::Good })
}

/// What a mix of operations needs, each of which was measured alone.
fn mix_price(matches: &ArgMatches, document: &ResultDocument, goal: &MixGoal) -> Result<Exit, Failure> {
    refuse_up_to(matches, "a sweep over the load", "leave it out, or write one rate such as --for 2000/s")?;
    let price = analysis::sizing::mix_price(document, goal);
    match matches.get_flag("json") {
        true => output::json(
            &serde_json::to_string_pretty(&report::mix_price_json(&price)).map_err(Failure::failed)?,
        ),
        false => output::page(report::mix_price(&price, output::terminal(false)).trim_end()),
    }
    Ok(if price.refusal.is_empty() { Exit::Good } else { Exit::Inconclusive })
}
