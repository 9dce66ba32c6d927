//! What is said about a result, in sentences. Findings, evidence, proof and verdict come as data; here alone they become
//! text, which the terminal, the page, Markdown, JUnit and JSON show alike. No code reads a sentence.

mod audit;
mod copy;
mod dependencies;
mod evidence;
mod finding;
mod gate;
mod headline;
mod imports;
mod launches;
mod limit;
mod limits;
mod neighbour;
mod next_command;
mod proof;
mod service;
mod storage;
#[cfg(test)]
mod tests;
mod verdict;

pub use audit::{audit_finding, audit_question};
pub(crate) use dependencies::{basis, main_rows, operation_word, sensitivity, step_name, where_time_goes};
pub(crate) use evidence::value;
pub use evidence::{evidence, measure};
pub use finding::finding;
pub(crate) use gate::{gate_word, interval, signed};
pub(crate) use headline::is_swept;
pub use headline::{Headline, headline};
pub(crate) use limit::{goal_sentence, goal_value, is_rate, load_number, load_unit};
pub use limits::closest;
pub(crate) use limits::{claim_of, closest_words, limit_words, resource_words, use_words};
pub use next_command::{NextCommand, next_command};
pub use proof::{proof, proof_in_short};
pub(crate) use verdict::{findings_of, limiting, missing, run_with_proof};
pub use verdict::{limits_on, verdict, verdict_of, verdict_of_configuration, verdict_of_step};

use model::quantity;

/// `the cpu`, `the cpu and the disk`, `the cpu, the disk and the network`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The mean of several values with its ends: `250 ms (200 ms to 300 ms)`.
fn spread(spread: &model::claim::Spread, show: fn(f64) -> String) -> String {
    let [mean, min, max] = [spread.mean, spread.min, spread.max].map(show);
    if min == max { mean } else { format!("{mean} ({min} to {max})") }
}

/// ` (queue depth 8)`, or nothing for the only curve.
fn of_series(series: &str) -> String {
    if series.is_empty() { String::new() } else { format!(" ({})", crate::labels::series_text(series)) }
}

/// A ratio as `x 1.31`.
fn ratio(value: f64) -> String {
    format!("x {}", quantity::three_figures(value))
}
