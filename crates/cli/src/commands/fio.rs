//! `plimsoll disk --fio FILE`: the common options of a fio job file.

use model::Experiment;

use crate::carry_out::{Failure, Options, Words};
use crate::exit::Exit;
use crate::one_off::{plain_experiment, run_experiment};
use crate::output;

/// Carries out a fio job file. `put` changes it by what the flags beside it say.
pub(crate) fn run(
    file: &str,
    put: impl Fn(&mut Experiment) -> Result<(), Failure>,
    options: &Options,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let text = files::read_named_text(file.as_ref(), super::NAMED_TEXT_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("error: {file} cannot be read: {error}")))?;
    let jobs = workloads::disk::fio::parse(&text, file).map_err(Failure::usage)?;
    for note in &jobs.notes {
        output::say(&format!("note: {note}"));
    }
    let mut experiment = plain_experiment(&jobs.name, "disk", jobs.workload, jobs.load);
    put(&mut experiment)?;
    run_experiment(&experiment, options, words)
}
