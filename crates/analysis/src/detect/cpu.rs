//! Was a CPU the limit? The utilization of the whole host does not show whose work waited. So a limit is
//! claimed only for the system's own processes, or for the threads of a copy; the host's numbers are used
//! only to rule it out.

use model::result::{ResultDocument, TrialResult};
use model::run::GeneratorRole;
use model::{
    Claim, Detector, Estimate, Evidence, Finding, FindingKind, Level, Resource, ResourceClass, Study, metrics,
};

use super::{Sign, gather_steps};
use crate::facts::generator::Shares;
use crate::facts::presses;
use crate::measured::Measured;

const BUSY_CPUS: &str = metrics::PROCESS_BUSY_CPUS;
const BUSIEST_THREAD_CPUS: &str = metrics::PROCESS_BUSIEST_THREAD_CPUS;

/// Share of its process's CPU time from which a thread counts as the only busy one.
const ALONE_SHARE: f64 = 0.8;
/// Share of its CPUs from which a process counts as limited by them.
const FULL_SHARE: f64 = 0.9;
/// Utilization of the host's CPUs below which they are ruled out.
const IDLE_SHARE: f64 = 0.7;
/// Share of the time that some task waited for a CPU, below which the CPUs are ruled out.
const PRESSURE_SHARE: f64 = 0.1;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let host_cpus = f64::from(study.host.cpus);
    gather_steps(Detector::Cpu, study, document, |measured, trial| signs(measured, trial, host_cpus))
}

fn signs(measured: &Measured, trial: &TrialResult, host_cpus: f64) -> Vec<Sign> {
    let limits: Vec<Sign> =
        processes(measured, trial, host_cpus).into_iter().chain(copying(measured, trial)).collect();
    let own = if limits.is_empty() { host(measured, trial).into_iter().collect() } else { limits };
    let others = measured.hosts().into_iter().filter_map(|name| host(&measured.on(name), trial));
    own.into_iter().chain(others).collect()
}

fn sign(kind: FindingKind, claim: Claim, strength: f64) -> Sign {
    Sign::new(kind, Some(Resource::of_host(ResourceClass::Cpu)), claim, strength)
}

/// The system's processes that used all allowed CPUs, or whose single busy thread used one CPU.
fn processes(measured: &Measured, trial: &TrialResult, host_cpus: f64) -> Vec<Sign> {
    let run = &measured.record.run;
    let given = run.in_force.get("host.cpus").or_else(|| run.asked.get("host.cpus"));
    let cpus = given.and_then(Level::as_number).unwrap_or(host_cpus);
    if !(cpus > 0.0) {
        return Vec::new();
    }
    // If the thread states of a service are known, the `service` detector is more specific. The threads of
    // Plimsoll belong to the `generator` detector.
    let is_known = |instance: &str| measured.mean(metrics::PROCESS_LOCK_WAIT_THREADS, instance).is_some();
    let columns = measured
        .columns(BUSY_CPUS, "")
        .filter(|(_, column)| column.instance != "self" && !is_known(&column.instance));
    columns
        .filter_map(|(at, column)| {
            let used = measured.column(at)?;
            let process = column.instance.clone();
            let (claim, observed, line) = if used >= FULL_SHARE * cpus {
                let claim = Claim::CpusUsed { process, used_cpus: used, allowed_cpus: cpus };
                (claim, used, Estimate { value: cpus, low: FULL_SHARE * cpus, high: cpus })
            } else {
                // One thread is always busy while the others are nearly idle.
                let busiest = measured
                    .mean(BUSIEST_THREAD_CPUS, &column.instance)
                    .filter(|busiest| *busiest >= FULL_SHARE && *busiest >= ALONE_SHARE * used)?;
                let claim = Claim::OneThreadBusy { process, busiest_thread_cpus: busiest, used_cpus: used };
                (claim, busiest, Estimate { value: 1.0, low: FULL_SHARE, high: 1.0 })
            };
            let found = measured.evidence_of(trial, BUSY_CPUS, &column.instance, observed).threshold(line);
            let evidence = [found].into_iter().chain(pressure(measured, trial));
            Some(sign(FindingKind::Limits, claim, observed / line.value).with(evidence))
        })
        .collect()
}

/// A copy whose threads never waited for a disk.
fn copying(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let does_the_work = measured.record.run.traits.generator == GeneratorRole::DoesTheWork;
    let Shares { ran, waited, .. } = Shares::of(measured.record).filter(|_| does_the_work)?;
    (ran + waited >= FULL_SHARE).then(|| {
        let full = Estimate { value: 1.0, low: FULL_SHARE, high: 1.0 };
        let found = measured.evidence(trial, "generator.busy_share", ran + waited).threshold(full);
        let claim = Claim::CopyingInMemory { ran_share: ran, wait_share: waited };
        sign(FindingKind::Limits, claim, ran + waited).with([found])
    })
}

/// The CPUs of the host of the load, or of another one: that one does nothing but serve the load.
fn host(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let busy = measured.host_mean(metrics::CPU_BUSY_SHARE)?;
    let line = Estimate { value: 1.0, low: IDLE_SHARE, high: 1.0 };
    let found = measured.evidence(trial, metrics::CPU_BUSY_SHARE, busy).threshold(line);
    let waited = measured.host_mean(metrics::PRESSURE_CPU_SOME_SHARE);
    let (kind, strength) = match () {
        () if busy < IDLE_SHARE && waited.is_none_or(|waited| waited < PRESSURE_SHARE) => {
            (FindingKind::RuledOut, 1.0 - busy)
        }
        () if busy >= FULL_SHARE
            && !measured.host().is_empty()
            && presses(measured, trial)
            && waited.is_none_or(|waited| waited >= PRESSURE_SHARE) =>
        {
            (FindingKind::Limits, busy)
        }
        () if busy >= FULL_SHARE => (FindingKind::Observation, busy),
        () => return None,
    };
    let claim = Claim::HostCpus { busy_share: busy, waited_share: waited };
    let about = Resource::of_host(ResourceClass::Cpu).on(measured.host());
    let evidence = [found].into_iter().chain(pressure(measured, trial));
    Some(Sign::new(kind, Some(about), claim, strength).with(evidence))
}

fn pressure(measured: &Measured, trial: &TrialResult) -> Option<Evidence> {
    let waited = measured.host_mean(metrics::PRESSURE_CPU_SOME_SHARE)?;
    let line = Estimate { value: 0.0, low: 0.0, high: PRESSURE_SHARE };
    Some(measured.evidence(trial, metrics::PRESSURE_CPU_SOME_SHARE, waited).threshold(line))
}
