//! All exit codes, which are a public interface.

use model::limit::{LimitAnswer, LimitResult};
use model::result::{GoalResult, TrialResult};
use model::{DoubtKind, GateAnswer, GateResult, ResultDocument, Verdict};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Completed, and every goal is met.
    Good = 0,
    /// Failed to run: also when every operation failed, other data was read back than was written, or the output was lost.
    Failed = 1,
    /// Usage, or an invalid file.
    Usage = 2,
    /// The generator was the limit.
    GeneratorBound = 97,
    /// Inconclusive, but an answer was required.
    Inconclusive = 98,
    /// A goal or gate was missed.
    GoalMissed = 99,
    /// Interrupted; the record is kept.
    Interrupted = 130,
}

/// Every code with its meaning, for the manual.
pub(crate) const TABLE: [(Exit, &str); 7] = [
    (Exit::Good, "completed, and every goal is met"),
    (
        Exit::Failed,
        "failed to run, every operation failed, data read back differs from the data written, or the output could not be written",
    ),
    (Exit::Usage, "wrong usage or an invalid file; nothing ran"),
    (Exit::GeneratorBound, "the load generator was the bottleneck, not the system"),
    (
        Exit::Inconclusive,
        "inconclusive: too noisy, too short or too few trials to decide, or censored operations decide a goal; `audit`: reasons to doubt the result",
    ),
    (Exit::GoalMissed, "a goal or gate was missed; `audit`: figures contradict each other"),
    (Exit::Interrupted, "interrupted; the record is kept"),
];

impl Exit {
    /// The exit code of a completed experiment.
    pub(crate) fn of(document: &ResultDocument) -> Exit {
        let mut doubts = document.trials.iter().flat_map(|trial| &trial.doubts);
        if doubts.any(|doubt| doubt.kind == DoubtKind::Corrupted) {
            return Exit::Failed;
        }
        // A missed goal has priority.
        let all_failed =
            !document.trials.is_empty() && document.trials.iter().all(TrialResult::failed_wholly);
        if all_failed && !document.goal.as_ref().is_some_and(|goal| goal.stated) {
            return Exit::Failed;
        }
        if let Some(found) = &document.limit {
            return Exit::of_search(document, found);
        }
        if let Some(gate) = &document.gate {
            return Exit::of_gate(document, gate);
        }
        match (&document.goal, &document.verdict) {
            (_, Verdict::GeneratorBound { .. }) => Exit::GeneratorBound,
            (Some(goal), _) if goal.is_undecided() => Exit::Inconclusive,
            (Some(goal), _) if !goal.met => Exit::GoalMissed,
            // Met by what was answered: a closed load has few operations in flight when a system stops.
            (Some(_), verdict) if verdict.lacks_answers() => Exit::Inconclusive,
            (Some(goal), _) if goal.stated => Exit::Good,
            (_, Verdict::Inconclusive { .. }) if is_disturbed(document) => Exit::Inconclusive,
            _ => Exit::Good,
        }
    }
}

impl Exit {
    /// The exit code of a search for the limit.
    fn of_search(document: &ResultDocument, found: &LimitResult) -> Exit {
        let is_good = |answer: &LimitAnswer| match answer {
            LimitAnswer::Found => true,
            // The lowest level meets the goal: no level of the search is too low.
            LimitAnswer::NotReached => found.is_resource(),
            _ => false,
        };
        let mut answers = found.configurations.iter().flat_map(|of| &of.goals).map(|goal| &goal.answer);
        match &document.verdict {
            Verdict::GeneratorBound { .. } => Exit::GeneratorBound,
            _ if answers.clone().any(|answer| *answer == LimitAnswer::GeneratorBound) => Exit::GeneratorBound,
            _ if answers.clone().any(|answer| *answer == LimitAnswer::AlwaysMissed) => Exit::GoalMissed,
            _ if answers.clone().count() > 0 && answers.all(is_good) => Exit::Good,
            _ => Exit::Inconclusive,
        }
    }
}

impl Exit {
    /// The exit code of a gate.
    fn of_gate(document: &ResultDocument, gate: &GateResult) -> Exit {
        let is_missed = document.goal.as_ref().is_some_and(|goal| !goal.met && !goal.is_undecided());
        let is_undecided = document.goal.as_ref().is_some_and(GoalResult::is_undecided);
        // One of the versions never ran to its end.
        let is_broken = gate.metrics.iter().all(|line| line.pairs == 0);
        // Whoever waited for whom, CPU time is that of the system.
        let is_elapsed = gate.metrics.iter().any(|line| line.metric.is_elapsed());
        match gate.answer {
            _ if is_elapsed && matches!(document.verdict, Verdict::GeneratorBound { .. }) => {
                Exit::GeneratorBound
            }
            _ if is_missed => Exit::GoalMissed,
            _ if is_broken => Exit::Failed,
            GateAnswer::Slower => Exit::GoalMissed,
            GateAnswer::CantTell => Exit::Inconclusive,
            GateAnswer::Passed if is_undecided => Exit::Inconclusive,
            GateAnswer::Passed => Exit::Good,
        }
    }
}

/// Whether the trials were too noisy, too short or too damaged to find the limit. An undisturbed measurement without
/// a limit is a result.
fn is_disturbed(document: &ResultDocument) -> bool {
    use DoubtKind::{
        Backlog, Censored, CutShort, Damaged, LittlesLaw, Neighbour, NotIssued, Short, Unsteady,
    };
    let by_itself = document.traits.ends_by_itself;
    let disturbs = |kind| match kind {
        // Work that ends by itself is as long as it is, and nothing but itself drives it.
        Short | LittlesLaw | NotIssued | Censored | Backlog => !by_itself,
        kind => matches!(kind, CutShort | Damaged | Neighbour | Unsteady),
    };
    document.trials.iter().flat_map(|trial| &trial.doubts).any(|doubt| disturbs(doubt.kind))
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}
