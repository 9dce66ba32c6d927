//! What identifies a trial in another program.

use model::{Run, Study};

/// Names that go with every figure of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The host that was measured; empty if it is not known.
    pub host: String,
    /// The experiment; empty if the plan is damaged.
    pub experiment: String,
    /// The kind of the workload.
    pub workload: String,
    /// The id of the trial.
    pub trial: String,
    /// The treatment in words, such as `block_size=64KiB`.
    pub treatment: String,
    /// The number of the replicate, from 1.
    pub replicate: u32,
}

impl Identity {
    /// The identity of a recorded trial.
    pub fn of(study: &Study, run: &Run) -> Identity {
        let experiment = study.plan.as_ref().map(|plan| plan.experiment.name.clone());
        Identity {
            host: study.host.name.clone(),
            experiment: experiment.unwrap_or_default(),
            workload: run.workload.clone(),
            trial: run.trial.id(),
            treatment: run.trial.treatment.label(),
            replicate: run.trial.replicate,
        }
    }

    /// The names that distinguish a trial, without those that are empty.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, String)> {
        let replicate = if self.replicate == 0 { String::new() } else { self.replicate.to_string() };
        let names = [
            ("experiment", self.experiment.clone()),
            ("workload", self.workload.clone()),
            ("trial", self.trial.clone()),
            ("treatment", self.treatment.clone()),
            ("replicate", replicate),
        ];
        names.into_iter().filter(|(_, value)| !value.is_empty())
    }
}
