//! The table of what came of the cases, and its totals.

use super::REFUSED;
use super::planted::{Case, Setup};
use crate::program::median;

/// What came of one case.
pub(super) struct Outcome {
    pub(super) proved: String,
    pub(super) observed: String,
    pub(super) thumb: String,
    pub(super) proof: bool,
    pub(super) measured: f64,
    /// What was predicted from loads up to 0.7 of the knee, with its interval; none when that is refused.
    pub(super) predicted: Option<(f64, f64, f64)>,
    /// What the universal scalability law says of the same loads, whatever it fits and however far that is.
    pub(super) law_only: Option<f64>,
    /// What twice of the resource was predicted to give, and what it gave.
    pub(super) what_if: Option<(f64, f64)>,
    /// By how much each known cost of a request was missed, as a share of it.
    pub(super) costs: Vec<f64>,
    pub(super) seconds: f64,
    pub(super) text: String,
}

pub(super) fn print_row(case: &Case, seed: u64, setup: &Setup, outcome: &Outcome) {
    let mark = |said: &str, is_right: bool| if is_right { said.to_string() } else { format!("{said} !") };
    let rate = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let proof = if outcome.proof { "" } else { "(not proved)" };
    println!(
        "{:<14} {:>4}  {:<16} {:<16} {:<16} {:<16} {:>8} {:>8.1} {:>9} {:>15} {:>9} {:>9} {:>5.0}  {} {proof}",
        case.name,
        seed,
        case.planted,
        mark(&outcome.proved, case.is_right(&outcome.proved)),
        mark(&outcome.observed, case.is_partly_right(&outcome.observed)),
        mark(&outcome.thumb, case.is_partly_right(&outcome.thumb)),
        rate(setup.capacity),
        outcome.measured,
        rate(outcome.predicted.map(|(value, _, _)| value)),
        outcome.predicted.map_or_else(|| "-".into(), |(_, low, high)| format!("{low:.1}-{high:.1}")),
        rate(outcome.law_only),
        outcome.what_if.map_or_else(|| "-".into(), |(said, gave)| format!("{said:.2}/{gave:.2}")),
        outcome.seconds,
        setup.drawn
    );
    if !case.is_right(&outcome.proved) || !case.is_partly_right(&outcome.observed) {
        println!("               {}", outcome.text);
    }
}

/// The totals of the table.
#[derive(Default)]
pub(super) struct Score {
    cases: usize,
    /// Right verdicts: with proof, observed only, by rules of thumb.
    right: [usize; 3],
    wrong_with_proof: usize,
    /// A bottleneck named where there is none.
    false_bottlenecks: usize,
    longest_s: f64,
    measured: Vec<f64>,
    predicted: Vec<f64>,
    covered: usize,
    refused: usize,
    law_only: Vec<f64>,
    what_ifs: Vec<f64>,
    costs: Vec<f64>,
}

impl Score {
    pub(super) fn count(&mut self, case: &Case, setup: &Setup, outcome: &Outcome) {
        self.cases += 1;
        let is_right = case.is_right(&outcome.proved);
        let verdicts =
            [is_right, case.is_partly_right(&outcome.observed), case.is_partly_right(&outcome.thumb)];
        for (total, is_right) in self.right.iter_mut().zip(verdicts) {
            *total += usize::from(is_right);
        }
        self.wrong_with_proof += usize::from(outcome.proof && !is_right && outcome.proved != REFUSED);
        let nothing = ["none", "load-generator"];
        self.false_bottlenecks += usize::from(
            nothing.contains(&case.planted)
                && outcome.proved != REFUSED
                && !nothing.contains(&outcome.proved.as_str()),
        );
        self.longest_s = self.longest_s.max(outcome.seconds);
        if let Some(capacity) = setup.capacity {
            let error = |value: f64| (value / capacity - 1.0).abs();
            self.measured.push(error(outcome.measured));
            match outcome.predicted {
                Some((value, low, high)) => {
                    self.predicted.push(error(value));
                    self.covered += usize::from((low..=high).contains(&capacity));
                }
                None => self.refused += 1,
            }
            self.law_only.extend(outcome.law_only.map(error));
        }
        self.costs.extend(outcome.costs.iter().map(|share| share.abs()));
        self.what_ifs.extend(outcome.what_if.map(|(said, gave)| (said / gave - 1.0).abs()));
    }

    pub(super) fn print(&self) {
        let share =
            |right: usize| format!("{right} ({:.0} %)", 100.0 * right as f64 / self.cases.max(1) as f64);
        let [proved, observed, thumb] = self.right.map(share);
        println!(
            "{} cases: right with proof {proved}, observed only {observed}, rules of thumb {thumb}; wrong with a proof {}, \
             a bottleneck where there is none {}; the longest case took {:.0} s",
            self.cases, self.wrong_with_proof, self.false_bottlenecks, self.longest_s
        );
        println!("measured against planted capacity: {}", spread(&self.measured));
        println!(
            "capacity predicted from loads up to 0.7 of the knee: {} refused; {}; in the 90 % interval {}",
            self.refused,
            spread(&self.predicted),
            self.covered
        );
        println!("the scalability law on the same loads, without refusal: {}", spread(&self.law_only));
        println!("a resource doubled: {}", spread(&self.what_ifs));
        println!("cost of a request against what is planted: {}", spread(&self.costs));
    }
}

/// Errors in a phrase.
fn spread(errors: &[f64]) -> String {
    if errors.is_empty() {
        return "0 answered".into();
    }
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place.saturating_sub(1)).map_or(f64::NAN, |error| 100.0 * error);
    format!(
        "{} answered, median error {:.1} %, 90th percentile {:.1} %, largest {:.1} %",
        sorted.len(),
        100.0 * median(errors),
        at((sorted.len() * 9).div_ceil(10)),
        at(sorted.len())
    )
}
