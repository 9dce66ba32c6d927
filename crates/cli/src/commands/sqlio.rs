//! `plimsoll disk --sqlio ...`: SQLIO's flags in, SQLIO's report out. What is carried out and kept is an experiment like
//! any other.

use model::{Experiment, Phase, Study};
use workloads::disk::sqlio::{SqlioNumbers, SqlioRun, parse, report};

use crate::carry_out::{Failure, Options, Words, carry_out, exit_of, show};
use crate::exit::Exit;
use crate::one_off::plain_experiment;
use crate::output;
use crate::registry::REGISTRY;

/// Carries out SQLIO's flags. `put` adds what SQLIO has no flag for.
pub(crate) fn run(
    flags: &[String],
    put: impl Fn(&mut Experiment) -> Result<(), Failure>,
    options: &Options,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let read = |file: &str| files::read_named_text(file.as_ref(), super::NAMED_TEXT_BYTES_MAX);
    let mut sqlio = parse(flags, &read).map_err(Failure::usage)?;
    sqlio.find_missing(|file| std::path::Path::new(file).exists());
    for note in &sqlio.notes {
        output::say(&format!("note: {note}"));
    }
    let mut experiment = plain_experiment("sqlio", "disk", sqlio.settings(), sqlio.load());
    put(&mut experiment)?;
    let text = model::experiment::write(&experiment, &REGISTRY.vocabulary());
    let (document, study, ended) = carry_out(&experiment, &text, options, None, words)?;
    match options.json {
        true => show(&document, true, false),
        false => {
            output::result(&report(&sqlio, &numbers(&sqlio, &study)));
            // SQLIO has no word for what weakens a number; Plimsoll does not keep it to itself.
            for doubt in document.trials.iter().flat_map(|trial| &trial.doubts) {
                output::say(&format!("doubt: {}", doubt.text));
            }
            if Exit::of(&document) != Exit::Good {
                output::say(&format!("verdict: {}", report::sentences::verdict(&document)));
            }
            output::say(&format!("record: {}", document.run));
        }
    }
    Ok(exit_of(&document, &ended))
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
