//! What `plimsoll http` has besides its load: recorded sessions, conversions, and the load of a WCAT scenario.

mod convert;
mod record;
mod scenario_file;

use std::path::Path;

use clap::{ArgMatches, Command};
use model::experiment::WorkloadInfo;
use model::load::{CLOSED, MEASURE, WARM_UP};
use model::{Experiment, Level, Problem};
use workloads::http::from::{self, Format};

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Adds the commands below `plimsoll http`.
pub(crate) fn arguments(command: Command, info: &WorkloadInfo) -> Command {
    command
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(record::arguments(info))
        .subcommand(convert::arguments(info))
}

/// Carries out a command below `plimsoll http`; none if there is none.
pub(crate) fn run(info: &WorkloadInfo, matches: &ArgMatches) -> Option<Result<Exit, Failure>> {
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
        output::say(&format!("{file}: {notes} notes on what was changed or left out: plimsoll http convert {file}"));
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
