//! Was the load generator the limit? If so, nothing can be said about the system.

use model::claim::{Lateness, Starvation};
use model::result::{OperationResult, ResultDocument, TrialResult};
use model::run::{GeneratorRole, GeneratorUse, MachineRun};
use model::{Claim, Detector, Estimate, Finding, FindingKind, Resource, ResourceClass, Study, metrics};

use super::{Sign, gather};
use crate::facts::ISSUED_SHARE;
use crate::facts::generator::{RUN_WAIT_SHARE, Shares};
use crate::facts::io_limit::{LIMIT_REACHED, Reached};
use crate::facts::service::THROTTLED_SHARE;
use crate::measured::Measured;

/// Share of the time that a worker thread may run or wait to run; above it, the thread had no time to wait
/// for the system.
const BUSY_SHARE: f64 = 0.9;
/// Share of the response time that may pass before an operation is issued.
const LAG_SHARE: f64 = 0.5;
/// A smaller lag is ignored, in milliseconds.
const LAG_MS: f64 = 1.0;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Generator, study, document, |measured, trial| {
        let run = &measured.record.run;
        let of_machine = |machine: &MachineRun| {
            // The counters of a machine have its name.
            let host = measured.machines().find(|host| *host == machine.name)?;
            sign(&measured.on(host), machine.generator.as_ref()?, trial)
        };
        let of_machines: Vec<Sign> = run.machines.iter().filter_map(of_machine).collect();
        match run.machines.iter().any(|machine| machine.drives) {
            true => of_machines,
            false => sign(measured, &run.generator, trial).into_iter().collect(),
        }
    })
}

/// The sign of the machine whose counters these are.
fn sign(measured: &Measured, used: &GeneratorUse, trial: &TrialResult) -> Option<Sign> {
    // The threads of a copy do the measured work, see the `cpu` detector. Those of a command or of a
    // synchronization only start it, and their time between launches is not part of any operation. Started
    // processes are in the control group of Plimsoll, and limited with it.
    let drives = measured.record.run.traits.generator == GeneratorRole::Drives;
    let shares = Shares::used(used)?;
    let Shares { ran, waited, .. } = shares;
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
    let of_group = group_limit(measured, used);
    if !drives && of_group.is_none() {
        return None;
    }
    let starved_by = of_group.or_else(|| by_other_processes(busy, waited));
    if let Some(Starvation::CpuQuota(share)) = starved_by {
        found.push(
            measured
                .evidence_of(trial, metrics::PROCESS_THROTTLED_SHARE, "self", share)
                .threshold(Estimate { value: 0.0, low: 0.0, high: THROTTLED_SHARE }),
        );
    }
    // Other processes took nothing of a rate that was issued in time.
    let is_in_time = drives && measured.is_open() && late.is_none();
    let kind = match () {
        () if is_in_time && matches!(starved_by, Some(Starvation::OtherProcesses(_))) => {
            FindingKind::Observation
        }
        () if starved_by.is_some() || (drives && busy >= BUSY_SHARE) => FindingKind::Limits,
        () if shares.are_delayed() && late.is_some() => FindingKind::Limits,
        () if shares.are_delayed() => FindingKind::Observation,
        () => FindingKind::RuledOut,
    };
    let claim = Claim::Generator {
        threads: used.threads,
        ran_share: ran,
        wait_share: waited,
        late: late.filter(|_| busy < BUSY_SHARE && shares.are_delayed()),
        starved_by,
    };
    let about = Some(Resource::of_host(ResourceClass::LoadGenerator).on(measured.host()));
    Some(Sign::new(kind, about, claim, busy).with(found))
}

/// A limit of Plimsoll's own control group that was reached; none if there is none, or if the experiment set
/// it.
fn group_limit(measured: &Measured, used: &GeneratorUse) -> Option<Starvation> {
    let by_time = used.throttled_s.filter(|_| used.wall_s > 0.0).map_or(0.0, |s| s / used.wall_s).min(1.0);
    let throttled = measured.mean(metrics::PROCESS_THROTTLED_SHARE, "self").unwrap_or(0.0).max(by_time);
    if throttled >= THROTTLED_SHARE {
        return Some(Starvation::CpuQuota(throttled));
    }
    if Reached::is_set(measured) {
        return None;
    }
    let limits = [
        (metrics::PROCESS_READ_LIMIT_PER_S, metrics::PROCESS_DISK_READS_PER_S, false, false),
        (metrics::PROCESS_WRITE_LIMIT_PER_S, metrics::PROCESS_DISK_WRITES_PER_S, false, true),
        (metrics::PROCESS_READ_LIMIT_BYTES_PER_S, metrics::PROCESS_READ_BYTES_PER_S, true, false),
        (metrics::PROCESS_WRITE_LIMIT_BYTES_PER_S, metrics::PROCESS_WRITE_BYTES_PER_S, true, true),
    ];
    limits.into_iter().find_map(|(limit, used, bytes, writes)| {
        let limit_per_s = measured.mean(limit, "self").filter(|limit| *limit > 0.0)?;
        let observed_per_s = measured.mean(used, "self")?;
        let reached = observed_per_s >= LIMIT_REACHED * limit_per_s;
        reached.then_some(Starvation::IoLimit { limit_per_s, observed_per_s, bytes, writes })
    })
}

/// A thread that is ready to run for longer than it runs waits for other processes, not for the system.
fn by_other_processes(busy: f64, waited: f64) -> Option<Starvation> {
    (waited >= 0.5 * busy && waited >= STARVED_SHARE).then_some(Starvation::OtherProcesses(waited))
}

/// Share of the time that threads wait for a CPU from which they are starved.
const STARVED_SHARE: f64 = 0.25;

/// How an open loop fell behind its schedule; none if it did not.
fn lateness(measured: &Measured, whole: &OperationResult) -> Option<Lateness> {
    if !measured.is_open() {
        return None;
    }
    // What waited for operations in flight waited for the system: no answer is not a short generator.
    let held = whole.due.map_or(0, |due| due.held);
    let (issued, offered) = (whole.issued?, whole.offered?);
    let share = issued.saturating_add(held) as f64 / offered as f64;
    if share < ISSUED_SHARE {
        return Some(Lateness::Issued(issued as f64 / offered as f64));
    }
    if held as f64 > (1.0 - ISSUED_SHARE) * whole.judged() as f64 {
        return None;
    }
    let (lag_p99_ms, response_p99_ms) = (whole.lag_ms.p99, whole.response_ms.p99);
    (lag_p99_ms > LAG_MS && lag_p99_ms > LAG_SHARE * response_p99_ms)
        .then_some(Lateness::Lag { lag_p99_ms, response_p99_ms })
}
