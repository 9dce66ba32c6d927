//! Was the load generator the limit? Then nothing can be said about the system.

use model::claim::{Lateness, Starvation};
use model::result::{OperationResult, ResultDocument, TrialResult};
use model::run::GeneratorRole;
use model::{Claim, Detector, Estimate, Finding, FindingKind, Resource, ResourceClass, Study};

use super::{Sign, gather};
use crate::facts::ISSUED_SHARE;
use crate::facts::generator::{RUN_WAIT_SHARE, Shares};
use crate::facts::service::THROTTLED_SHARE;
use crate::measured::Measured;

/// Share of the time a worker thread may be running or waiting to run; beyond it, it had no time left to wait for
/// the system.
const BUSY_SHARE: f64 = 0.9;
/// Share of the response time that may pass before an operation is even issued.
const LAG_SHARE: f64 = 0.5;
/// A lag below this is of no account, in milliseconds.
const LAG_MS: f64 = 1.0;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Generator, study, document, |measured, trial| {
        sign(measured, trial).into_iter().collect()
    })
}

fn sign(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    // The threads of a copy do the work that is measured, see the `cpu` detector; those of a command or of a
    // synchronization only start it, and what they do between launches is in no operation's time.
    if measured.record.run.traits.generator != GeneratorRole::Drives {
        return None;
    }
    let Shares { ran, waited } = Shares::of(measured.record)?;
    let whole = trial.whole()?;
    let busy = ran + waited;
    let note = |metric, observed, most| {
        measured.evidence(trial, metric, observed).threshold(Estimate { value: 0.0, low: 0.0, high: most })
    };
    let mut found = vec![
        note("generator.busy_share", ran, BUSY_SHARE),
        note("generator.run_wait_share", waited, RUN_WAIT_SHARE),
    ];
    let late = lateness(measured, whole);
    if late.is_some() {
        found.push(measured.evidence(trial, "lag_ms.p99", whole.lag_ms.p99));
    }
    let starved_by = starvation(measured, busy, waited);
    if let Some(Starvation::CpuQuota(share)) = starved_by {
        found.push(
            measured.evidence_of(trial, "process.throttled_share", "self", share).threshold(Estimate {
                value: 0.0,
                low: 0.0,
                high: THROTTLED_SHARE,
            }),
        );
    }
    let kind = match () {
        () if busy >= BUSY_SHARE || starved_by.is_some() => FindingKind::Limits,
        () if waited > RUN_WAIT_SHARE && late.is_some() => FindingKind::Limits,
        () if waited > RUN_WAIT_SHARE => FindingKind::Observation,
        () => FindingKind::RuledOut,
    };
    let claim = Claim::Generator {
        threads: measured.record.run.generator.threads,
        ran_share: ran,
        wait_share: waited,
        late: late.filter(|_| busy < BUSY_SHARE && waited > RUN_WAIT_SHARE),
        starved_by,
    };
    let about = Some(Resource::of_host(ResourceClass::LoadGenerator));
    Some(Sign::new(kind, about, claim, busy).with(found))
}

/// What kept the threads from running as much as they wanted; none where nothing did.
///
/// A thread that waits for a CPU waits for other processes or for the next period of its own quota: both are in its wait.
/// Where that is more than it ran, it was not the system that it waited for.
fn starvation(measured: &Measured, busy: f64, waited: f64) -> Option<Starvation> {
    let throttled = measured.mean("process.throttled_share", "self").unwrap_or(0.0);
    if throttled >= THROTTLED_SHARE {
        return Some(Starvation::CpuQuota(throttled));
    }
    (waited >= 0.5 * busy && waited >= STARVED_SHARE).then_some(Starvation::OtherProcesses(waited))
}

/// Share of the time that threads wait for a CPU from which they are starved.
const STARVED_SHARE: f64 = 0.25;

/// How an open loop fell behind its schedule; none when it kept it.
fn lateness(measured: &Measured, whole: &OperationResult) -> Option<Lateness> {
    if !measured.is_open() {
        return None;
    }
    let issued = whole.issued as f64 / whole.offered as f64;
    if issued < ISSUED_SHARE {
        return Some(Lateness::Issued(issued));
    }
    let (lag_p99_ms, response_p99_ms) = (whole.lag_ms.p99, whole.response_ms.p99);
    (lag_p99_ms > LAG_MS && lag_p99_ms > LAG_SHARE * response_p99_ms)
        .then_some(Lateness::Lag { lag_p99_ms, response_p99_ms })
}
