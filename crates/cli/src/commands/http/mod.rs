//! What `plimsoll http` has besides its load: recorded sessions, conversions, and the load of a WCAT scenario.

mod convert;
mod probe;
mod record;
mod scenario_file;

use std::path::Path;

use clap::{ArgMatches, Command};
use model::experiment::WorkloadInfo;
use model::load::{CLOSED, MEASURE, WARM_UP};
use model::{Experiment, Level, Problem, Problems, Secret, SecretParts, Settings};
use workloads::http::from::{self, Format};
use workloads::http::scenario;

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Adds the commands below `plimsoll http`.
pub(crate) fn arguments(command: Command, info: &WorkloadInfo) -> Command {
    probe::arguments(command)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(record::arguments(info))
        .subcommand(convert::arguments(info))
}

/// Carries out a command below `plimsoll http`, or a probe; none if there is none of both.
pub(crate) fn run(info: &WorkloadInfo, matches: &ArgMatches) -> Option<Result<Exit, Failure>> {
    if let Some(list) = matches.get_one::<String>("probe") {
        return Some(probe::run(info, matches, list));
    }
    match matches.subcommand()? {
        ("record", matches) => Some(record::run(info, matches)),
        ("convert", matches) => Some(convert::run(info, matches)),
        (name, _) => Some(Err(Failure::usage(format!("error: there is no command `http {name}`")))),
    }
}

/// Sets the load of `wcctl` for a WCAT scenario, as far as no flag sets it.
pub(crate) fn set_load_of_wcat(matches: &ArgMatches, experiment: &mut Experiment) {
    let settings = &experiment.workload.settings;
    // The mistakes of the files are reported where the workload is configured.
    let Ok(Some(load)) = from::load_of(settings) else { return };
    let given = |setting: &str| matches.contains_id(&format!("load.{setting}"));
    let has_own_shape = ["closed", "open", "ramp", "steps", "limit"].into_iter().any(given);
    if let Some(users) = load.users.filter(|_| !has_own_shape) {
        experiment.load.set(CLOSED.name, Level::Count(users));
    }
    if let Some(warm_up) = load.warm_up.filter(|_| !given(WARM_UP.name)) {
        experiment.load.set(WARM_UP.name, Level::Time(warm_up));
    }
    if let Some(duration) = load.duration.filter(|_| !given(MEASURE.name)) {
        experiment.load.set(MEASURE.name, Level::Time(duration));
    }
}

/// Says how many parts of a file of another program are not in the scenario.
pub(crate) fn say_notes(experiment: &Experiment) {
    let settings = &experiment.workload.settings;
    let Some(Level::Text(file)) = settings.level("from") else { return };
    if Format::of(Path::new(file)) == Format::Scenario {
        return;
    }
    // The mistakes of the file are reported where the workload is configured.
    let notes = from::import(settings).map_or(0, |imported| imported.import.notes.len());
    if notes > 0 {
        output::say(&format!(
            "{file}: {notes} notes on what was changed or left out; list them: plimsoll http convert {file}"
        ));
    }
}

/// Replaces `@FILE` as the body by the content of the file, and `@@` at its begin by `@`.
pub(crate) fn read_body(settings: &mut Settings, problems: &mut Problems) {
    let Some(Level::Secret(body)) = settings.level("body") else { return };
    let Some(file) = body.reveal().strip_prefix('@') else { return };
    let text = match file.strip_prefix('@') {
        Some(_) => Ok(file.to_string()),
        None => files::read_text(Path::new(file), scenario::FILE_BYTES_MAX),
    };
    match text {
        Ok(text) => settings.set("body", Level::Secret(Secret::new(&text, SecretParts::Pairs))),
        Err(error) => {
            let help = "write @@ for a body that begins with @";
            problems.push(Problem::new(format!("--body: {file} cannot be read: {error}"), help));
        }
    }
}

/// A problem in terms of flags; the file of the scenario is `FILE`.
fn in_flags(problem: Problem) -> Problem {
    let flag = |setting: &str| match setting {
        "from" => "FILE".to_string(),
        other => format!("--{}", other.replace('_', "-")),
    };
    problem.in_words(flag, |_, _| None)
}
