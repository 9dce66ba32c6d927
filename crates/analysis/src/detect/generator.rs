//! Was the load generator the limit? Then nothing can be said about the system.

use model::result::{OperationResult, ResultDocument, TrialResult};
use model::{Estimate, Finding, FindingKind, Study};

use super::{Claim, evidence, gather};
use crate::doubt::{ISSUED_SHARE, RUN_WAIT_SHARE, generator_shares};
use crate::measured::Measured;
use crate::words;

pub(super) const NAME: &str = "generator";

/// Share of the time a worker thread may be running or waiting to run; beyond it, it had no time left to wait for
/// the system.
const BUSY_SHARE: f64 = 0.9;
/// Share of the response time that may pass before an operation is even issued.
const LAG_SHARE: f64 = 0.5;
/// A lag below this is of no account, in milliseconds.
const LAG_MS: f64 = 1.0;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, |measured, trial| claim(measured, trial).into_iter().collect())
}

fn claim(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    // The threads of a copy do the work that is measured, see the `cpu` detector; those of a command or of a
    // synchronization only start it, and what they do between launches is in no operation's time.
    if matches!(measured.record.run.workload.as_str(), "copy" | "command" | "sync") {
        return None;
    }
    let (ran, waited) = generator_shares(measured.record)?;
    let whole = trial.whole()?;
    let busy = ran + waited;
    let threads = words::count(measured.record.run.generator.threads as usize, "thread");
    let mut found = vec![
        evidence(
            measured,
            trial,
            "generator.busy_share",
            ran,
            Some(Estimate { value: 0.0, low: 0.0, high: BUSY_SHARE }),
            format!("{threads} of the load generator ran {} of the time", words::percent(ran)),
        ),
        evidence(
            measured,
            trial,
            "generator.run_wait_share",
            waited,
            Some(Estimate { value: 0.0, low: 0.0, high: RUN_WAIT_SHARE }),
            format!("and waited for a CPU {} of it", words::percent(waited)),
        ),
    ];
    let late = lateness(measured, whole);
    if let Some(text) = &late {
        found.push(evidence(measured, trial, "lag_ms.p99", whole.lag_ms.p99, None, text.clone()));
    }
    let (kind, text) = if busy >= BUSY_SHARE {
        let text = format!(
            "The load generator was the limit: its {threads} ran {} of the time, system calls included, and \
             waited for a CPU {}, so {} of the time at most was left to wait for the system.",
            words::percent(ran),
            words::percent(waited),
            words::percent((1.0 - busy).max(0.0))
        );
        (FindingKind::Limits, text)
    } else if let Some(late) = late.filter(|_| waited > RUN_WAIT_SHARE) {
        let text = format!(
            "The load generator was the limit: its {threads} waited for a CPU {} of the time, and {late}.",
            words::percent(waited)
        );
        (FindingKind::Limits, text)
    } else if waited > RUN_WAIT_SHARE {
        let text = format!(
            "The load generator was short of CPU: its {threads} ran {} of the time and waited for a CPU {}; whether that \
             was the limit is not shown.",
            words::percent(ran),
            words::percent(waited)
        );
        (FindingKind::Observation, text)
    } else {
        let text = format!(
            "The load generator was not the limit: its {threads} ran {} of the time and waited for a CPU {}.",
            words::percent(ran),
            words::percent(waited)
        );
        (FindingKind::RuledOut, text)
    };
    let resource = "load generator".to_string();
    Some(Claim { kind, resource, text, strength: busy, evidence: found, against: Vec::new() })
}

/// How an open loop fell behind its schedule, in words; none when it kept it.
fn lateness(measured: &Measured, whole: &OperationResult) -> Option<String> {
    if !measured.is_open() {
        return None;
    }
    let issued = whole.issued as f64 / whole.offered as f64;
    if issued < ISSUED_SHARE {
        return Some(format!("only {} of the operations that were due were issued", words::percent(issued)));
    }
    let lag = whole.lag_ms.p99;
    (lag > LAG_MS && lag > LAG_SHARE * whole.response_ms.p99).then(|| {
        format!(
            "1 % of the operations were issued {} late or more, of a response time of {}",
            words::ms(lag),
            words::ms(whole.response_ms.p99)
        )
    })
}
