//! The choice of the next trial: pure functions of the experiment and the runs so far.
//!
//! Trials are executed in rounds, one per replicate. Each round has every treatment once, in an order
//! shuffled by the experiment's seed, so that drift affects all treatments alike. The first trial and the
//! last one are the baseline, which shows the drift.

use model::{Design, DesignKind, Experiment, Variation};

use crate::gate::GateRounds;
use crate::limit::LimitSearch;
use crate::plan::{compared, other_levels};
use crate::proof::Proving;
use crate::rounds::Rounds;

/// The design of an experiment.
pub fn design(experiment: &Experiment) -> Box<dyn Design> {
    if let Some(search) = LimitSearch::of(experiment) {
        return Box::new(search);
    }
    if let Some(gate) = &experiment.gate {
        return Box::new(GateRounds::new(experiment, gate));
    }
    let rounds = Box::new(Rounds::new(experiment, trial_count(experiment)));
    match experiment.prove {
        true => Box::new(Proving::new(experiment, rounds)),
        false => rounds,
    }
}

/// Number of trials of an experiment if all of them complete, without creating them. That of a search depends on the
/// measurements, and counts as one trial for each configuration; of a gate, it is the largest number.
pub fn trial_count(experiment: &Experiment) -> u64 {
    let rounds = experiment.gate.as_ref().map_or(experiment.replicates, |gate| gate.rounds_max);
    let replicates = u64::from(rounds.max(1));
    let configurations = configuration_count(experiment);
    let closing = u64::from(replicates == 1 && configurations > 1 && LimitSearch::of(experiment).is_none());
    configurations.saturating_mul(replicates).saturating_add(closing)
}

/// Number of configurations of an experiment, the baseline included, without creating them.
pub fn configuration_count(experiment: &Experiment) -> u64 {
    let levels = |variation: &Variation| other_levels(experiment, variation).len() as u64;
    let treatments = match experiment.design {
        DesignKind::OneFactorAtATime => compared(experiment).map(levels).fold(0, u64::saturating_add),
        DesignKind::Grid => {
            compared(experiment).fold(1_u64, |cells, v| cells.saturating_mul(levels(v) + 1)).saturating_sub(1)
        }
    };
    treatments.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use model::design::Next;
    use model::{Ending, Study, Treatment, Trial};

    use super::*;
    use crate::plan::{TREATMENTS_MAX, treatments};
    use crate::simulate::{Simulated, carry_out, experiment, planned, vary};

    fn labels(experiment: &Experiment) -> Vec<String> {
        let planned = design(experiment).planned().unwrap();
        planned.iter().map(|trial| format!("{} {}", trial.treatment.label(), trial.replicate)).collect()
    }

    fn reasons(study: &Study, experiment: &Experiment) -> String {
        match design(experiment).next(study) {
            Next::Trial(decision) => format!("{}: {}", decision.trial.id(), decision.reason),
            Next::Enough(text) => text,
        }
    }

    #[test]
    fn one_replicate_is_closed_by_the_baseline() {
        let one = experiment(vec![vary("workload.threads", Some(1), &[2])], DesignKind::OneFactorAtATime, 1);
        assert_eq!(labels(&one), ["baseline 1", "threads=2 1", "baseline 2"]);
        let nothing = experiment(Vec::new(), DesignKind::OneFactorAtATime, 3);
        assert_eq!(labels(&nothing), ["baseline 1", "baseline 2", "baseline 3"]);
    }

    #[test]
    fn a_grid_has_every_cell_and_repeats_no_level() {
        let axes = vec![vary("workload.threads", Some(1), &[1, 2, 2]), vary("host.cpus", None, &[1, 2])];
        let grid = experiment(axes, DesignKind::Grid, 1);
        let mut cells = labels(&grid);
        cells.sort();
        let expected = [
            "baseline 1",
            "baseline 2",
            "host.cpus=1 1",
            "host.cpus=2 1",
            "threads=2 1",
            "threads=2 host.cpus=1 1",
            "threads=2 host.cpus=2 1",
        ];
        assert_eq!(cells, expected);
        assert_eq!(trial_count(&grid), 7);
    }

    #[test]
    fn a_level_that_the_settings_already_have_is_the_baseline() {
        let mut one = experiment(vec![vary("workload.threads", None, &[4, 8])], DesignKind::Grid, 1);
        one.workload.settings.set("threads", model::Level::Count(4));
        assert_eq!(labels(&one), ["baseline 1", "threads=8 1", "baseline 2"]);
    }

    #[test]
    fn a_vast_grid_neither_hangs_nor_hides() {
        let levels: Vec<u64> = (1..=1000).collect();
        let axes: Vec<_> = (0..9).map(|axis| vary(&format!("host.f{axis}"), None, &levels)).collect();
        let grid = experiment(axes, DesignKind::Grid, 1);
        assert_eq!(trial_count(&grid), u64::MAX);
        let rounds = Rounds::new(&grid, trial_count(&grid));
        assert!(rounds.cut_short && rounds.planned.len() == TREATMENTS_MAX + 2);
    }

    #[test]
    fn reasons_are_words() {
        let two = experiment(vec![vary("workload.threads", Some(1), &[2])], DesignKind::OneFactorAtATime, 2);
        let mut study = planned(two.clone());
        let run = Simulated::closed_disk(1, 1.0, 0.0);
        let mut said = Vec::new();
        for ending in [
            Ending::Completed,
            Ending::Interrupted,
            Ending::Failed("no space left".into()),
            Ending::Failed("no space left".into()),
            Ending::Completed,
        ] {
            said.push(reasons(&study, &two));
            if let Next::Trial(decision) = design(&two).next(&study) {
                study.runs.push(Simulated { ending, ..run.clone() }.run(decision.trial));
            }
        }
        said.push(reasons(&study, &two));
        insta::assert_snapshot!(said.join("\n"), @r"
        001-baseline.r1: round 1 of 2: the baseline, which comes first
        002-threads=2.r1: round 1 of 2: threads=2, order shuffled by seed 42
        003-threads=2.r1: round 1 of 2: threads=2, order shuffled by seed 42; repeated, because it was interrupted
        004-threads=2.r1: round 1 of 2: threads=2, order shuffled by seed 42; repeated, because it failed: no space left
        005-baseline.r2: round 2 of 2: the baseline, which is repeated at the end to measure the drift; given up: threads=2 failed 2 times, last: no space left
        2 of 4 trials are done; given up: threads=2 failed 2 times, last: no space left
        ");
    }

    #[test]
    fn a_baseline_that_keeps_failing_ends_the_experiment() {
        let two = experiment(vec![vary("workload.threads", Some(1), &[2])], DesignKind::Grid, 2);
        let failing =
            Simulated { ending: Ending::Failed("refused".into()), ..Simulated::closed_disk(1, 1.0, 0.0) };
        let study = carry_out(two.clone(), |_| failing.clone());
        assert_eq!(study.runs.len(), 2);
        assert!(reasons(&study, &two).contains("without it no comparison is possible"));
    }

    fn any_experiment() -> impl Strategy<Value = Experiment> {
        const FACTORS: [&str; 3] = ["workload.threads", "workload.outstanding", "host.cpus"];
        let axis = (proptest::option::of(1u64..5), proptest::collection::vec(1u64..7, 0..4));
        (proptest::collection::vec(axis, 0..4), any::<bool>(), 0u32..5, any::<u64>()).prop_map(
            |(axes, grid, replicates, seed)| {
                let axes = FACTORS.iter().zip(&axes);
                let axes = axes.map(|(factor, (baseline, levels))| vary(factor, *baseline, levels));
                let design = if grid { DesignKind::Grid } else { DesignKind::OneFactorAtATime };
                Experiment { seed, ..experiment(axes.collect(), design, replicates) }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_treatment_appears_once_a_round(experiment in any_experiment()) {
            let planned = design(&experiment).planned().unwrap();
            let replicates = experiment.replicates.max(1);
            prop_assert_eq!(planned.len() as u64, trial_count(&experiment));
            prop_assert_eq!(&planned[0].treatment, &Treatment::Baseline);
            prop_assert_eq!(&planned[planned.len() - 1].treatment, &Treatment::Baseline);
            let closing = usize::from(replicates == 1 && !treatments(&experiment).is_empty());
            for treatment in treatments(&experiment).into_iter().chain([Treatment::Baseline]) {
                let rounds: Vec<u32> =
                    planned.iter().filter(|trial| trial.treatment == treatment).map(|t| t.replicate).collect();
                let extra = if treatment == Treatment::Baseline { closing } else { 0 };
                prop_assert_eq!(rounds.len(), replicates as usize + extra);
                prop_assert!(rounds.iter().zip(1..).all(|(round, expected)| *round == expected));
            }
            for (place, trial) in planned.iter().enumerate() {
                prop_assert_eq!(trial.number as usize, place + 1);
                match &trial.treatment {
                    Treatment::Combination(changes) => prop_assert!(changes.len() >= 2),
                    other => prop_assert!(other.changes().len() <= 1),
                }
            }
        }

        #[test]
        fn a_resumed_experiment_goes_on_as_planned(experiment in any_experiment(), share in 0.0f64..1.0) {
            let run = Simulated { rates: vec![10.0], ..Simulated::closed_disk(1, 100.0, 0.0) };
            let whole = carry_out(experiment.clone(), |_| run.clone());
            let planned = design(&experiment).planned().unwrap();
            let recorded: Vec<Trial> = whole.runs.iter().map(|record| record.run.trial.clone()).collect();
            prop_assert_eq!(&recorded, &planned);
            // If any run is killed, it is repeated under a new number, and the rest follows in order.
            let kept = (share * planned.len() as f64) as usize;
            let mut study = whole.clone();
            study.runs.truncate(kept + 1);
            study.runs[kept].run.ending = Ending::Running;
            let design = design(&experiment);
            for (place, expected) in planned.iter().enumerate().skip(kept) {
                let Next::Trial(decision) = design.next(&study) else {
                    return Err(TestCaseError::fail("ended early"));
                };
                prop_assert_eq!(&decision.trial.treatment, &expected.treatment);
                prop_assert_eq!(decision.trial.replicate, expected.replicate);
                prop_assert_eq!(decision.trial.number as usize, place + 2);
                study.runs.push(run.run(decision.trial));
            }
            prop_assert!(matches!(design.next(&study), Next::Enough(_)));
        }
    }
}
