//! The command to run after a result.

use model::result::TrialResult;
use model::run::{OperationUnit, Origin};
use model::verdict::InconclusiveReason;
use model::{Claim, Ending, GateAnswer, Missing, ResultDocument, Verdict};

use super::headline::is_swept;
use crate::tables;

/// The number of entries of an import, and the different ones that a prediction needs.
const ENTRIES: &str = "workload.entries";
const SIZES_MIN: usize = 3;

/// A command that leads on, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextCommand {
    /// As it is typed.
    pub command: String,
    /// What it shows, as the end of a sentence: `to confirm the bottleneck`.
    pub purpose: &'static str,
}

/// The command to run next; none where nothing leads on.
pub fn next_command(document: &ResultDocument) -> Option<NextCommand> {
    if document.trials.is_empty() || tables::of_several_runs(document) {
        return None;
    }
    let run = &document.run;
    let again = |more: &str| format!("plimsoll run {run}/experiment.toml {more}");
    let is_single_pair = !is_swept(document)
        && document
            .comparison
            .iter()
            .any(|row| row.low.is_none() && row.metric == tables::main_metric(document));
    let is_proved = document.proof.as_ref().is_some_and(|proof| !proof.rows.is_empty());
    let load_sweep = document.findings.iter().find_map(|finding| match &finding.claim {
        Claim::LoadSweep(sweep) => Some(sweep.peak.rate_per_s),
        _ => None,
    });
    let is_sized = document.traits.unit == OperationUnit::Entry
        && document.curves.iter().any(|curve| curve.factor == ENTRIES && curve.points.len() >= SIZES_MIN);
    let next = |command: String, purpose| Some(NextCommand { command, purpose });
    let is_past_a_cache = document.findings.iter().any(
        |finding| matches!(&finding.claim, Claim::WriteCache { cache, .. } if cache.full_at_s.is_some()),
    );
    // What was only watched has no trial to continue.
    let drives =
        !matches!(document.verdict, Verdict::Inconclusive { reason: InconclusiveReason::OnlyWatched, .. });
    // One that failed would fail again.
    let failed = |trial: &TrialResult| matches!(trial.ending, Ending::Failed(_));
    let is_interrupted = drives && document.unfinished.is_some() && !document.trials.iter().any(failed);
    if document.limit.is_some() && !is_interrupted {
        return next(format!("plimsoll explain {run}"), "to see the evidence at the limit");
    }
    if let Some(gate) = document.gate.as_ref().filter(|_| !is_interrupted) {
        let needed = gate.metrics.iter().filter_map(|line| line.rounds_needed).max();
        return match (gate.answer, needed) {
            (GateAnswer::CantTell, Some(_)) if gate.metrics.iter().all(|line| line.metric.is_elapsed()) => {
                next(
                    "plimsoll gate ... --metric cpu_per_operation".into(),
                    "CPU time has less noise than elapsed time",
                )
            }
            (GateAnswer::CantTell, Some(_)) => {
                next("plimsoll doctor".into(), "to see how noisy this machine is")
            }
            (GateAnswer::Passed, _) => None,
            _ => next(format!("plimsoll explain {run}"), "to see what each version spends its time on"),
        };
    }
    // What another tool measured cannot be run again here.
    if document.origin == Origin::Imported {
        let purpose = match &document.verdict {
            Verdict::Inconclusive { .. } => "to see what is missing",
            _ => "to see the evidence",
        };
        return next(format!("plimsoll explain {run}"), purpose);
    }
    match &document.verdict {
        _ if is_interrupted => {
            next(format!("plimsoll run --resume {run}"), "to continue where it was interrupted")
        }
        _ if is_past_a_cache => {
            next(format!("plimsoll size {run} --for 10TB"), "to see how long more data takes")
        }
        _ if is_sized => {
            next(format!("plimsoll size {run} --for '7900000 entries'"), "to see how long more entries take")
        }
        _ if is_single_pair => next(again("--set replicates=5"), "to tell differences from chance"),
        // Only resources of this host can be changed for a proof.
        of if of.resource().is_some_and(|resource| resource.host.is_some()) => {
            next(format!("plimsoll explain {run}"), "to see the evidence")
        }
        Verdict::Bottleneck { .. } if !is_proved => next(again("--prove"), "to confirm the bottleneck"),
        Verdict::Inconclusive { lacks, .. } if wants_proof(lacks) => {
            next(again("--prove"), "to find the limit")
        }
        Verdict::Bottleneck { .. } | Verdict::NotSaturated { .. } => match load_sweep {
            Some(peak) => {
                let goal = model::quantity::rate(round_up(2.0 * peak));
                next(format!("plimsoll size {run} --for {goal}"), "to see what twice the load needs")
            }
            None => next(format!("plimsoll explain {run}"), "to see the evidence"),
        },
        Verdict::GeneratorBound { .. } | Verdict::Inconclusive { .. } => {
            next(format!("plimsoll explain {run}"), "to see what is missing")
        }
    }
}

fn wants_proof(lacks: &[Missing]) -> bool {
    lacks.iter().any(|lack| matches!(lack, Missing::Proof | Missing::OneChangedAlone))
}

/// The next number of two digits.
fn round_up(value: f64) -> f64 {
    let step = 10f64.powf(value.max(1.0).log10().floor() - 1.0);
    (value / step).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn the_next_command_leads_on() {
        for (run, expected) in [
            ("disk", "plimsoll run fixtures/disk/experiment.toml --prove"),
            ("proof", "plimsoll run fixtures/proof/experiment.toml --set replicates=5"),
            ("users", "plimsoll run fixtures/users/experiment.toml --prove"),
            ("http", "plimsoll explain fixtures/http"),
            ("copy", "plimsoll explain fixtures/copy"),
        ] {
            let next = next_command(&recorded::run(run).document);
            assert_eq!(next.map(|next| next.command).as_deref(), Some(expected), "{run}");
        }
        // A sweep whose limit is confirmed is ready for sizing.
        let mut document = recorded::run("users").document;
        document.verdict = document.configurations[4].verdict.clone().unwrap();
        document.proof = recorded::run("proof").document.proof;
        let next = next_command(&document).unwrap().command;
        assert_eq!(next, "plimsoll size fixtures/users --for 790/s");
    }
}
