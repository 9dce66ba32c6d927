//! A neighbour that did not reach its rate, or ended early.

use model::neighbour::{FACTOR, NeighbourRate, facts};
use model::result::TrialResult;
use model::{Doubt, DoubtKind, Ending, Level};

use crate::words;

/// The loads of a neighbour whose rates were missed: the comparison is one with the achieved rate.
pub(super) fn missed(result: &TrialResult) -> Option<Doubt> {
    if let Some(why) = result.facts.get(&format!("{FACTOR}.{}", facts::ERROR)) {
        let text = format!("{FACTOR}: the neighbour ended before the trial did: {why}");
        return Some(Doubt::new(
            DoubtKind::NotInForce,
            text,
            "correct its level or its parameters, and measure again",
        ));
    }
    if result.ending != Ending::Completed {
        return None;
    }
    let rates = NeighbourRate::of_trial(&result.facts);
    let missed = rates.iter().filter(|rate| rate.is_missed()).filter_map(|rate| {
        let (share, achieved) = (rate.share()?, rate.achieved.as_ref()?);
        let [achieved, stated] = [achieved, &rate.stated].map(amount);
        Some(format!("{} achieved {achieved} of the stated {stated} ({})", rate.load, words::percent(share)))
    });
    let missed: Vec<String> = missed.collect();
    (!missed.is_empty()).then(|| {
        Doubt::new(
            DoubtKind::NotInForce,
            format!("{FACTOR}: {}", missed.join(", ")),
            "the result is for the achieved rate: where this is not the question, state a lower rate, or give the neighbour CPUs of its own with `cpus`",
        )
    })
}

fn amount(level: &Level) -> String {
    let number = level.as_number().unwrap_or(f64::NAN);
    match level {
        Level::BytesPerSecond(_) => format!("{} MB/s", words::number(number / 1e6)),
        Level::Rate(_) => words::per_s(number),
        _ => format!("{} CPUs", words::number(number)),
    }
}
