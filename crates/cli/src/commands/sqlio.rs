//! `plimsoll disk --sqlio ...`: SQLIO's flags in, SQLIO's report out. What is carried out and kept is an experiment like
//! any other.

use model::{Experiment, Phase, Study};
use workloads::disk::sqlio::{SqlioNumbers, SqlioRun, parse, report};

use super::other_tool::{self, Tool};
use crate::carry_out::{Failure, Options};
use crate::exit::Exit;
use crate::one_off::plain_experiment;
use crate::output;

static TOOL: Tool = Tool {
    flag: "--sqlio",
    flags: &[
        ("size", "the size in the parameter file"),
        ("block_size", "-b"),
        ("outstanding", "-o"),
        ("threads", "-t"),
        ("stride", "-f"),
        ("offset", "-S"),
        ("cache", "-B"),
    ],
    page_cache: "-BY",
};

/// Carries out SQLIO's flags. `put` adds what SQLIO has no flag for.
pub(crate) fn run(
    flags: &[String],
    put: impl Fn(&mut Experiment) -> Result<(), Failure>,
    options: &Options,
) -> Result<Exit, Failure> {
    let read = |file: &str| files::read_named_text(file.as_ref(), super::NAMED_TEXT_BYTES_MAX);
    let mut sqlio = parse(flags, &read).map_err(Failure::usage)?;
    sqlio.find_sizes(|file| super::fio::size_of(file.as_ref())).map_err(Failure::usage)?;
    for note in &sqlio.notes {
        output::say(&format!("note: {note}"));
    }
    let mut experiment = plain_experiment("sqlio", "disk", sqlio.settings(), sqlio.load());
    put(&mut experiment)?;
    other_tool::run(&experiment, options, (&TOOL, sqlio.pauses), |study| {
        report(&sqlio, &numbers(&sqlio, study))
    })
}

/// SQLIO counts every operation of its run together.
fn numbers(sqlio: &SqlioRun, study: &Study) -> SqlioNumbers {
    let mut latency = model::study::new_histogram();
    let (mut bytes, mut seconds) = (0, 0.0);
    for record in &study.runs {
        for of in record.histograms.values() {
            // A histogram that grows takes any other.
            let added = latency.add(&of.service);
            debug_assert!(added.is_ok());
        }
        bytes += record
            .intervals
            .iter()
            .filter(|row| row.phase == Phase::Measure)
            .map(|row| row.bytes)
            .sum::<u64>();
        seconds += record.run.span(Phase::Measure).map_or(0.0, |span| span.end_s - span.begin_s);
    }
    if seconds <= 0.0 {
        seconds = sqlio.seconds as f64;
    }
    SqlioNumbers::from_histogram(&latency, seconds, bytes)
}
