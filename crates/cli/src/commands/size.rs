//! `plimsoll size`: what a load needs, from a sweep that was measured.

use clap::{Arg, ArgMatches, Command};
use model::SizeGoal;

use super::{record, text};
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Its arguments.
pub(crate) fn arguments(run: Arg, json: Arg) -> Command {
    Command::new("size")
        .about("What a load needs of the limiting resource, and what today's system carries")
        .arg(run)
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("GOAL")
                .required(true)
                .help("\"2000/s\" or \"2000/s with response.p95 <= 1s\""),
        )
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
