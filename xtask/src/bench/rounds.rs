//! Rounds in which several programs are measured in turn.

use crate::program::median;

/// For each round, the programs with what was measured of them.
pub(super) type Rounds<T, S> = [Vec<(T, S)>];

fn sample_of<T: PartialEq, S>(round: &[(T, S)], program: T) -> Option<&S> {
    round.iter().find(|(of, _)| *of == program).map(|(_, sample)| sample)
}

/// The median of a figure over the rounds.
pub(super) fn middle<T: Copy + PartialEq, S>(rounds: &Rounds<T, S>, program: T, value: fn(&S) -> f64) -> f64 {
    median(&rounds.iter().filter_map(|round| Some(value(sample_of(round, program)?))).collect::<Vec<_>>())
}

/// The median over the rounds of the ratio of a figure of one program to that of another.
pub(super) fn ratio<T: Copy + PartialEq, S>(
    rounds: &Rounds<T, S>,
    one: T,
    other: T,
    value: fn(&S) -> f64,
) -> f64 {
    let of = |round: &Vec<(T, S)>| Some(value(sample_of(round, one)?) / value(sample_of(round, other)?));
    median(&rounds.iter().filter_map(of).collect::<Vec<_>>())
}
