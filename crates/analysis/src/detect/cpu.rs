//! Did a CPU limit? How busy the whole host was says little about whose work waited, so a limit is claimed only of the
//! system's own processes, or of a copy's own threads; the host's numbers rule out.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Level, Study};

use super::{Claim, evidence, gather};
use crate::doubt::generator_shares;
use crate::measured::Measured;
use crate::words;

pub(super) const NAME: &str = "cpu";

const BUSY_CPUS: &str = "process.busy_cpus";
const BUSIEST_THREAD_CPUS: &str = "process.busiest_thread_cpus";

/// Share of its process's CPU time from which a thread counts as the only busy one.
const ALONE_SHARE: f64 = 0.8;
/// Share of its CPUs from which a process counts as limited by them.
const FULL_SHARE: f64 = 0.9;
/// Share of the host's CPUs below which they are ruled out.
const IDLE_SHARE: f64 = 0.7;
/// Share of the time that some task waited for a CPU, below which they are ruled out.
const PRESSURE_SHARE: f64 = 0.1;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let host_cpus = f64::from(study.host.cpus);
    gather(NAME, study, document, |measured, trial| claims(measured, trial, host_cpus))
}

fn claims(measured: &Measured, trial: &TrialResult, host_cpus: f64) -> Vec<Claim> {
    let limits: Vec<Claim> =
        processes(measured, trial, host_cpus).into_iter().chain(copying(measured, trial)).collect();
    if limits.is_empty() { host(measured, trial).into_iter().collect() } else { limits }
}

/// The system's processes that used the CPUs they may use, or whose one busy thread used one.
fn processes(measured: &Measured, trial: &TrialResult, host_cpus: f64) -> Vec<Claim> {
    let run = &measured.record.run;
    let given = run.in_force.get("host.cpus").or_else(|| run.asked.get("host.cpus"));
    let cpus = given.and_then(Level::as_number).unwrap_or(host_cpus);
    if !(cpus > 0.0) {
        return Vec::new();
    }
    // What is known of a service's threads tells more: see the `service` detector.
    let is_known = |instance: &str| measured.mean("process.lock_wait_threads", instance).is_some();
    let columns = measured.columns().filter(|(_, column)| {
        column.metric.name == BUSY_CPUS && (column.instance == "self" || !is_known(&column.instance))
    });
    columns
        .filter_map(|(at, column)| {
            let used = measured.column_mean(at, measured.begin_s, measured.end_s)?;
            let busiest = measured.mean(BUSIEST_THREAD_CPUS, &column.instance);
            let (text, observed, line) = if used >= FULL_SHARE * cpus {
                let text = format!(
                    "The CPUs limited {}: it used {} of the {} it may use.",
                    column.instance,
                    words::number(used),
                    words::number(cpus)
                );
                (text, used, Estimate { value: cpus, low: FULL_SHARE * cpus, high: cpus })
            } else {
                // One thread that never rests while the others nearly do.
                let busiest =
                    busiest.filter(|busiest| *busiest >= FULL_SHARE && *busiest >= ALONE_SHARE * used)?;
                let text = format!(
                    "One thread limited {}: it used {} of a CPU, the whole process {}.",
                    column.instance,
                    words::number(busiest),
                    words::number(used)
                );
                (text, busiest, Estimate { value: 1.0, low: FULL_SHARE, high: 1.0 })
            };
            let found = evidence(measured, trial, column.title(), observed, Some(line), text.clone());
            let mut evidence = vec![found];
            evidence.extend(pressure(measured, trial));
            Some(claim(FindingKind::Limits, text, observed / line.value, evidence))
        })
        .collect()
}

/// A copy whose threads never waited for a disk.
fn copying(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let (ran, waited) =
        generator_shares(measured.record).filter(|_| measured.record.run.workload == "copy")?;
    (ran + waited >= FULL_SHARE).then(|| {
        let text = format!(
            "The CPU limited the copy: its threads ran {} of the time and waited for a CPU {}, moving data in memory \
             and not waiting for a disk.",
            words::percent(ran),
            words::percent(waited)
        );
        let full = Some(Estimate { value: 1.0, low: FULL_SHARE, high: 1.0 });
        let found = evidence(measured, trial, "generator.busy_share", ran + waited, full, text.clone());
        claim(FindingKind::Limits, text, ran + waited, vec![found])
    })
}

fn host(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let busy = measured.host_mean("cpu.busy_share")?;
    let line = Some(Estimate { value: 1.0, low: IDLE_SHARE, high: 1.0 });
    let mut found = vec![evidence(
        measured,
        trial,
        "cpu.busy_share",
        busy,
        line,
        format!("the CPUs were {} busy", words::percent(busy)),
    )];
    found.extend(pressure(measured, trial));
    let waited = measured.host_mean("pressure.cpu_some_share");
    if busy < IDLE_SHARE && waited.is_none_or(|waited| waited < PRESSURE_SHARE) {
        let pressure = match waited {
            Some(waited) => {
                format!(", and in {} of the time some task waited for one", words::percent(waited))
            }
            None => String::new(),
        };
        let text = format!("The CPUs together were not the limit: {} busy{pressure}.", words::percent(busy));
        Some(claim(FindingKind::RuledOut, text, 1.0 - busy, found))
    } else if busy >= FULL_SHARE {
        let text = format!(
            "The CPUs were {} busy; whether with the measured system or with something else is not shown.",
            words::percent(busy)
        );
        Some(claim(FindingKind::Observation, text, busy, found))
    } else {
        None
    }
}

fn pressure(measured: &Measured, trial: &TrialResult) -> Option<Evidence> {
    let waited = measured.host_mean("pressure.cpu_some_share")?;
    let text = format!("in {} of the time some task waited for a CPU", words::percent(waited));
    let line = Some(Estimate { value: 0.0, low: 0.0, high: PRESSURE_SHARE });
    Some(evidence(measured, trial, "pressure.cpu_some_share", waited, line, text))
}

fn claim(kind: FindingKind, text: String, strength: f64, evidence: Vec<Evidence>) -> Claim {
    Claim { kind, resource: NAME.into(), text, strength, evidence, against: Vec::new() }
}
