//! `demo`: the main job on this machine's own disk. One factor at a time, replicated and interleaved, ending in a
//! comparison, the findings and a report.

use std::path::PathBuf;

use clap::ArgMatches;
use model::Experiment;

use crate::carry_out::{Failure, carry_out_and_show};
use crate::exit::Exit;
use crate::one_off::options;
use crate::output;
use crate::registry::REGISTRY;

/// The experiment; `FILE` is replaced by the test file.
static EXPERIMENT: &str = include_str!("../../templates/demo.toml");

/// `plimsoll demo`.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let options = options(matches);
    let folder = matches.get_one::<String>("on").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let file = folder.join("plimsoll-demo.bin");
    let text =
        EXPERIMENT.replace("FILE", &file.display().to_string().replace('\\', "\\\\").replace('"', "\\\""));
    let experiment = Experiment::parse(&text, "the demo", &REGISTRY.vocabulary()).map_err(Failure::usage)?;
    if !options.quiet {
        output::say(&format!(
            "Random reads of {} (512 MiB, removed afterwards): one at a time, eight at a time, and in larger blocks.\n\
             15 trials of 3 s in shuffled rounds, so that a passing disturbance meets them all.\n",
            file.display()
        ));
    }
    carry_out_and_show(&experiment, &text, &options, None, &|problem| problem)
}
