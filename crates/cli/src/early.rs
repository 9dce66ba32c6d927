//! Ends a trial from which nothing more can be learned, where the experiment wants it.

use std::sync::{Mutex, PoisonError};

use analysis::EarlyEnd;
use engine::stream::{RunEvent, Subscriber};
use model::{Experiment, Goal, Load};

/// Watches the intervals of each trial.
pub(crate) struct Early {
    /// None where trials take their time.
    load: Option<Load>,
    goals: Vec<Goal>,
    trial: Mutex<Option<EarlyEnd>>,
}

impl Early {
    /// As the experiment wants it.
    pub(crate) fn of(experiment: &Experiment) -> Early {
        let load = Load::read(&experiment.load).ok().filter(|load| load.end_early);
        let is_about_failures = |goal: &Goal| goal.metric == model::goal::GoalMetric::Failed;
        let mut goals = experiment.goals.clone();
        if !goals.iter().any(is_about_failures) {
            goals.push(Goal::few_failures(experiment.max_failures));
        }
        Early { load, goals, trial: Mutex::default() }
    }
}

impl Subscriber for Early {
    fn happens(&self, happening: &RunEvent<'_>) {
        let Some(load) = &self.load else { return };
        let mut trial = self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        match happening {
            RunEvent::Trial { .. } => {
                *trial = Some(EarlyEnd::new(&self.goals, load.shape.as_ref(), load.measure));
            }
            RunEvent::Interval { rows, derived, histograms } => {
                let own = rows.iter().zip(*histograms).zip(*derived).filter(|(_, derived)| !**derived);
                if let Some(trial) = trial.as_mut() {
                    trial.add(own.map(|((row, times), _)| (row, times.response, times.service)));
                }
            }
            _ => {}
        }
    }

    fn ends(&self) -> Option<String> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.reason()
    }
}
