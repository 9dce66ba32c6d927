//! `plimsoll size`: what a load needs, from a sweep that was measured.

use clap::{Arg, ArgMatches, Command};
use model::run::OperationUnit;
use model::{BytesGoal, EntriesGoal, ResultDocument, SizeGoal};

use super::{record, text};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Its arguments.
pub(crate) fn arguments(run: Arg, json: Arg) -> Command {
    Command::new("size")
        .about("What a load needs of the limiting resource, or how long a copy or an import of so much takes")
        .arg(run)
        .arg(Arg::new("for").long("for").value_name("GOAL").required(true).help(
            "\"2000/s\" or \"2000/s with response.p95 <= 1s\"; of a copy the bytes, such as 10TB or 500GiB; of an import the entries, such as \"7900000 entries\"",
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

/// How long a copy of so many bytes takes.
fn copy_time(matches: &ArgMatches, document: &ResultDocument, goal: &BytesGoal) -> Result<Exit, Failure> {
    if matches.contains_id("up-to") {
        return Err(Failure::usage(
            "error: --up-to is for a sweep over the load, and this run is a copy\n  leave it out".to_string(),
        ));
    }
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
    if matches.contains_id("up-to") {
        return Err(Failure::usage(
            "error: --up-to is for a sweep over the load, and this run is an import\n  leave it out"
                .to_string(),
        ));
    }
    let answer = analysis::sizing::import_time(document, &goal, memory_bytes);
    match matches.get_flag("json") {
        true => output::json(
            &serde_json::to_string_pretty(&report::import_time_json(&answer)).map_err(Failure::failed)?,
        ),
        false => output::page(report::import_time(&answer, output::terminal(false)).trim_end()),
    }
    Ok(if answer.configurations.is_empty() { Exit::Inconclusive } else { Exit::Good })
}
