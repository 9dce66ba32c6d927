//! What an experiment planned and its record does not have.

use model::design::Next;
use model::result::Unfinished;
use model::run::Origin;
use model::{Ending, Study};

/// The planned trials that did not run, and those whose record is gone; none if the experiment is finished.
pub(crate) fn of(study: &Study) -> Option<Unfinished> {
    let plan = study.plan.as_ref()?;
    if study.runs.iter().any(|record| record.run.origin != Origin::Driven) {
        return None;
    }
    let runs = || study.runs.iter().map(|record| &record.run);
    let decided = || plan.decisions.iter().map(|decision| &decision.trial);
    let is_recorded = |id: &str| runs().any(|run| run.trial.id() == id);
    let lost: Vec<String> = decided().map(model::Trial::id).filter(|id| !is_recorded(id)).collect();
    // Where the plan does not say that it is complete, the last trial may have been.
    let design = crate::design(&plan.experiment);
    let goes_on = plan.enough.is_none() && matches!(design.next(study), Next::Trial(_));
    if lost.is_empty() && !goes_on {
        return None;
    }
    let planned = design.planned();
    let begun = |trial: &&model::Trial| {
        runs()
            .map(|run| &run.trial)
            .chain(decided())
            .any(|other| other.treatment == trial.treatment && other.replicate == trial.replicate)
    };
    let not_run = planned.iter().flatten().filter(|trial| goes_on && !begun(trial)).map(model::Trial::id);
    Some(Unfinished {
        completed: runs().filter(|run| run.ending == Ending::Completed).count() as u64,
        planned: planned.as_ref().map(|planned| planned.len() as u64),
        not_run: not_run.collect(),
        lost,
    })
}
