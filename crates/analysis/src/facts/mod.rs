//! The facts of a trial in numbers: the activity of the generator, the services and the devices, pauses,
//! reached limits. Doubts, detectors and the proof use them; this module judges nothing.

pub(crate) mod changes;
pub(crate) mod device;
pub(crate) mod generator;
pub(crate) mod headroom;
pub(crate) mod io_limit;
pub(crate) mod launches;
pub(crate) mod pauses;
pub(crate) mod service;
pub(crate) mod stopped;
pub(crate) mod threads;
pub(crate) mod write_cache;

use model::result::{OperationResult, TrialResult};
use model::{Level, RunRecord};

use crate::measured::Measured;

/// Share of the arrivals that must be issued and completed if an open load counts as completed.
pub(crate) const ISSUED_SHARE: f64 = 0.99;

/// Share of failed operations above which a trial says nothing about limits.
pub(crate) const FAILED_SHARE: f64 = 0.01;

/// Whether the load asks for as much as the system can do: users wait for their responses, work ends by itself, or arrivals
/// are not completed as offered.
pub(crate) fn presses(measured: &Measured, trial: &TrialResult) -> bool {
    let falls_behind = |whole: &OperationResult| {
        whole.offered.is_some_and(|offered| (whole.completed as f64) < ISSUED_SHARE * offered as f64)
    };
    !measured.is_open() || trial.whole().is_some_and(falls_behind)
}

/// The largest number of operations, if as many were issued.
pub(crate) fn all_issued(record: &RunRecord) -> Option<u64> {
    let run = &record.run;
    let Some(Level::Count(most)) = run.asked.get("workload.operations") else { return None };
    let is_derived = |name: &str| run.traits.derived.iter().any(|derived| derived == name);
    let own = record.intervals.iter().filter(|interval| !is_derived(&interval.operation));
    (own.filter_map(|interval| interval.issued).sum::<u64>() >= *most).then_some(*most)
}
