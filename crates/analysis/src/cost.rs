//! The cost of one operation in each configuration, and why a configuration is faster than the baseline.

use std::collections::{BTreeMap, BTreeSet};

use model::cost::{CostKind, CostOwner, CostPart, Difference, DifferencePart, OperationCost};
use model::result::{OperationResult, TrialResult};
use model::run::Transfer;
use model::{Estimate, Operation, RunRecord, Study, metrics};

use crate::configuration::Group;
use crate::facts::launches::{Launches, Spent};
use crate::facts::service::{Service, called, is_a_whole, services};
use crate::measured::Measured;
use crate::statistics::{CONFIDENCE, mean, median, t_interval};

/// Parts below this share of an operation's time are omitted from a difference.
const TIME_SHARE: f64 = 0.005;
/// The smallest reported difference of a count, as a share of the larger one.
const COUNT_SHARE: f64 = 0.1;

/// The cost of one operation in one trial.
pub(crate) struct Sample {
    rate_per_s: f64,
    time_s: f64,
    parts: BTreeMap<(CostKind, CostOwner), f64>,
}

/// The operations of a configuration with their trials, by replicate.
pub(crate) type Samples = BTreeMap<Operation, Vec<(u32, Sample)>>;

/// The cost of each operation of a configuration.
pub(crate) fn costs(samples: &Samples) -> Vec<OperationCost> {
    samples
        .iter()
        .filter_map(|(operation, samples)| {
            let of = |value: &dyn Fn(&Sample) -> Option<f64>| -> Option<Estimate> {
                estimate(&samples.iter().filter_map(|(_, sample)| value(sample)).collect::<Vec<f64>>())
            };
            let part = |key: &(CostKind, CostOwner)| {
                let each = of(&|sample| sample.parts.get(key).copied())?;
                // An unused resource is not a cost.
                (each.value > 0.0).then(|| CostPart { kind: key.0, of: key.1.clone(), each })
            };
            let parts = kinds(samples).into_iter().filter_map(part).collect();
            Some(OperationCost {
                rate_per_s: median(&samples.iter().map(|(_, one)| one.rate_per_s).collect::<Vec<f64>>())?,
                time_s: of(&|sample| Some(sample.time_s))?,
                trials: samples.len(),
                operation: operation.clone(),
                parts,
            })
        })
        .collect()
}

/// The kinds of costs in these trials, with their owners.
fn kinds<'a>(samples: impl IntoIterator<Item = &'a (u32, Sample)>) -> BTreeSet<&'a (CostKind, CostOwner)> {
    samples.into_iter().flat_map(|(_, sample)| sample.parts.keys()).collect()
}

/// The mean of several replicates with its interval; a single value has no uncertainty.
fn estimate(values: &[f64]) -> Option<Estimate> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    t_interval(&finite, CONFIDENCE).or_else(|| mean(&finite).map(Estimate::exact))
}

/// The cost of the operations of a configuration in each of its trials.
pub(crate) fn samples(study: &Study, group: &Group, trials: &[TrialResult]) -> Samples {
    let mut all = Samples::new();
    for at in &group.trials {
        let (Some(record), Some(trial)) = (study.runs.get(*at), trials.get(*at)) else { continue };
        for (operation, sample) in of_trial(&Measured::of(record), trial) {
            all.entry(operation).or_default().push((trial.replicate, sample));
        }
    }
    all
}

fn of_trial(measured: &Measured, trial: &TrialResult) -> Vec<(Operation, Sample)> {
    let run = &measured.record.run;
    let of_launches = of_launches(measured, trial);
    if !of_launches.is_empty() {
        return of_launches;
    }
    if !run.operations_in_turn {
        let Some(whole) = trial.whole().filter(|whole| whole.rate_per_s > 0.0) else { return Vec::new() };
        let spans = [(measured.begin_s, measured.end_s)];
        let mut parts = of_spans(measured, &spans, whole.rate_per_s, Some(whole.concurrency));
        let used = &run.generator;
        let completed = whole.completed.saturating_sub(whole.failed) as f64;
        let generator = |kind, seconds: f64| ((kind, CostOwner::Generator), seconds / completed);
        // User and system time are counted in ticks: only their ratio is used, to divide the exact CPU time.
        let known = used.user_s.zip(used.system_s).filter(|(user, system)| user + system > 0.0);
        let user_share = known.map_or(1.0, |(user, system)| user / (user + system));
        parts.extend([
            generator(CostKind::UserCpu, user_share * used.cpu_s),
            generator(CostKind::SystemCpu, (1.0 - user_share) * used.cpu_s),
            generator(CostKind::Ready, used.run_wait_s),
        ]);
        parts.retain(|_, each| each.is_finite());
        // Where other machines drive a load, and no process here serves it, the disks of this host have no part in it.
        let is_elsewhere =
            measured.machines().next().is_some() && services(measured).is_empty() && !measured.is_storage();
        parts.retain(|(_, owner), _| !is_elsewhere || !matches!(owner, CostOwner::Device(_)));
        let sample = Sample { rate_per_s: whole.rate_per_s, time_s: whole.response_ms.mean / 1e3, parts };
        let mut samples = vec![(Operation::All, sample)];
        if !is_elsewhere {
            samples.extend(of_mix(measured, trial, &spans));
        }
        return samples;
    }
    let known = measured.steps();
    let steps = trial.operations.iter().filter(|operation| operation.busy_s.is_some_and(|busy| busy > 0.0));
    let steps = steps.filter(|step| step.rate_per_s > 0.0 && step.name != Operation::All);
    steps
        .map(|step| {
            let spans = known.iter().find(|known| known.operation == step.name);
            let spans = spans.map_or(&[][..], |known| &known.spans);
            let parts = of_spans(measured, spans, step.rate_per_s, None);
            let sample = Sample { rate_per_s: step.rate_per_s, time_s: 1.0 / step.rate_per_s, parts };
            (step.name.clone(), sample)
        })
        .collect()
}

/// CPU seconds of the system under test per operation in a trial; none without counters of it. Without an operation, that of
/// all together, or of the launches after the first one.
pub(crate) fn cpu_s(record: &RunRecord, trial: &TrialResult, operation: Option<&str>) -> Option<f64> {
    let samples = of_trial(&Measured::of(record), trial);
    let (_, sample) = match operation {
        Some(name) => samples.iter().find(|(of, _)| of.is(name)),
        None => samples.iter().find(|(of, _)| *of == Operation::All).or(samples.last()),
    }?;
    let is_cpu = |kind: CostKind, of: &CostOwner| {
        matches!(kind, CostKind::UserCpu | CostKind::SystemCpu) && *of != CostOwner::Generator
    };
    let parts = sample.parts.iter().filter(|((kind, of), _)| is_cpu(*kind, of));
    parts.map(|(_, each)| *each).reduce(|sum, each| sum + each)
}

/// The device requests of each operation in a mix, if its kind of request is known. Its CPU time is unknown,
/// because all operations run in the same threads.
fn of_mix(measured: &Measured, trial: &TrialResult, spans: &[(f64, f64)]) -> Vec<(Operation, Sample)> {
    let transfers = &measured.record.run.traits.transfers;
    let transfer = |operation: &OperationResult| {
        let known = transfers.iter().find(|known| operation.name.is(&known.operation));
        known.filter(|_| operation.rate_per_s > 0.0 && operation.busy_s.is_none()).map(|known| known.transfer)
    };
    let known: Vec<(&OperationResult, Transfer)> =
        trial.operations.iter().filter_map(|operation| Some((operation, transfer(operation)?))).collect();
    if known.len() < 2 {
        return Vec::new();
    }
    let of = |(operation, transfer): (&OperationResult, Transfer)| {
        let (each_s, counts): (&str, &[(CostKind, &str)]) = match transfer {
            Transfer::Read => (
                metrics::DISK_READ_S,
                &[
                    (CostKind::Reads, metrics::DISK_READS_PER_S),
                    (CostKind::ReadBytes, metrics::DISK_READ_BYTES_PER_S),
                ],
            ),
            Transfer::Write => (
                metrics::DISK_WRITE_S,
                &[
                    (CostKind::Writes, metrics::DISK_WRITES_PER_S),
                    (CostKind::WrittenBytes, metrics::DISK_WRITE_BYTES_PER_S),
                ],
            ),
            Transfer::Flush => (metrics::DISK_FLUSH_S, &[(CostKind::Flushes, metrics::DISK_FLUSHES_PER_S)]),
        };
        let mut parts = BTreeMap::new();
        let disks = measured
            .of_files()
            .into_iter()
            .flat_map(|of| of.devices().into_iter().map(move |disk| (of, disk)));
        for (measured, disk) in disks {
            let device = || CostOwner::Device(measured.instance(disk));
            let mean = |metric: &str| measured.mean_over(metric, disk, spans);
            for (kind, metric) in counts {
                if let Some(per_s) = mean(metric) {
                    parts.insert((*kind, device()), per_s / operation.rate_per_s);
                }
            }
            if let Some((each_s, per_s)) = mean(each_s).zip(mean(counts[0].1)) {
                let at_device = (CostKind::AtDevice, device());
                parts.insert(at_device, each_s * per_s / operation.rate_per_s);
            }
        }
        parts.retain(|_, each| each.is_finite());
        let time_s = operation.response_ms.mean / 1e3;
        (operation.name.clone(), Sample { rate_per_s: operation.rate_per_s, time_s, parts })
    };
    known.into_iter().map(of).collect()
}

/// The resource use of launched commands according to the kernel; empty if no command was launched.
fn of_launches(measured: &Measured, trial: &TrialResult) -> Vec<(Operation, Sample)> {
    let Some(launches) = Launches::of(measured) else { return Vec::new() };
    let operations = trial.operations.iter().filter(|of| of.name != Operation::All && of.rate_per_s > 0.0);
    operations
        .filter_map(|operation| {
            let spent = Spent::of(&launches.of_operation(operation.name.as_str()))?;
            let payer = || CostOwner::Process(launches.command.to_string());
            let parts = spent.used.iter().map(|(kind, each)| ((*kind, payer()), *each)).collect();
            let sample = Sample { rate_per_s: operation.rate_per_s, time_s: spent.time_s, parts };
            Some((operation.name.clone(), sample))
        })
        .collect()
}

/// The resource use in these spans of time per operation, for `rate_per_s` operations per second. `in_flight` is the number of
/// operations in flight; none if an engine has an unknown number of them.
fn of_spans<'a>(
    measured: &Measured<'a>,
    spans: &[(f64, f64)],
    rate_per_s: f64,
    in_flight: Option<f64>,
) -> BTreeMap<(CostKind, CostOwner), f64> {
    let mut parts = BTreeMap::new();
    let mut add = |kind: CostKind, of: CostOwner, per_s: Option<f64>| {
        if let Some(each) = per_s.map(|per_s| per_s / rate_per_s).filter(|each| each.is_finite()) {
            parts.insert((kind, of), each);
        }
    };
    for name in services(measured) {
        let process = || CostOwner::Process(name.to_string());
        let mean = |metric: &str| measured.mean_over(metric, name, spans);
        let (busy, system) = (mean(metrics::PROCESS_BUSY_CPUS), mean(metrics::PROCESS_SYSTEM_CPUS));
        match busy.zip(system) {
            Some((busy, system)) => {
                add(CostKind::UserCpu, process(), Some((busy - system).max(0.0)));
                add(CostKind::SystemCpu, process(), Some(system));
            }
            None => add(CostKind::UserCpu, process(), busy),
        }
        // The I/O of its own control group; device counters would include other processes.
        for (kind, metric) in [
            (CostKind::Reads, metrics::PROCESS_DISK_READS_PER_S),
            (CostKind::Writes, metrics::PROCESS_DISK_WRITES_PER_S),
            (CostKind::ReadBytes, metrics::PROCESS_READ_BYTES_PER_S),
            (CostKind::WrittenBytes, metrics::PROCESS_WRITE_BYTES_PER_S),
        ] {
            add(kind, process(), mean(metric));
        }
        add(CostKind::Ready, process(), mean(metrics::PROCESS_RUN_QUEUE_LENGTH));
        let Some(service) = Service::of(measured, name, spans) else { continue };
        let in_flight = called(measured, name, spans).or(in_flight).filter(|_| in_flight.is_some());
        // Which of the threads of several programs are idle is not known.
        if is_a_whole(measured, name) {
            continue;
        }
        // Idle threads wait for no lock.
        let parked = in_flight.map_or(0.0, |operations| service.parked(operations));
        for (kind, threads) in [
            (CostKind::Transfers, service.disk),
            (CostKind::PageFaults, service.faulting),
            (CostKind::FlushWait, service.flush),
            (CostKind::Lock, (service.lock - parked).max(0.0)),
            (CostKind::Downstream, service.peer),
            (CostKind::Asleep, service.timer),
        ] {
            add(kind, process(), Some(threads));
        }
    }
    let on_host = |of: Measured<'a>| -> Vec<(Measured<'a>, &'a str)> {
        of.instances(metrics::DISK_QUEUE_LENGTH).map(|disk| (of, disk)).collect()
    };
    for (measured, disk) in measured.of_files().into_iter().flat_map(on_host) {
        let mean = |metric: &str| measured.mean_over(metric, disk, spans);
        let device = || CostOwner::Device(measured.instance(disk));
        let moved = mean(metrics::DISK_TRANSFERS_PER_S).unwrap_or(0.0)
            + mean(metrics::DISK_FLUSHES_PER_S).unwrap_or(0.0);
        if !(moved > 0.0) {
            continue;
        }
        add(CostKind::AtDevice, device(), mean(metrics::DISK_QUEUE_LENGTH));
        for (kind, metric) in [
            (CostKind::Reads, metrics::DISK_READS_PER_S),
            (CostKind::Writes, metrics::DISK_WRITES_PER_S),
            (CostKind::Flushes, metrics::DISK_FLUSHES_PER_S),
            (CostKind::ReadBytes, metrics::DISK_READ_BYTES_PER_S),
            (CostKind::WrittenBytes, metrics::DISK_WRITE_BYTES_PER_S),
        ] {
            add(kind, device(), mean(metric));
        }
    }
    if !measured.is_storage() {
        let sum = |metric: &str| measured.sum_over(metric, measured.instances(metric), spans);
        add(CostKind::ReceivedBytes, CostOwner::Host, sum(metrics::NETWORK_RECEIVED_BYTES_PER_S));
        add(CostKind::SentBytes, CostOwner::Host, sum(metrics::NETWORK_SENT_BYTES_PER_S));
        add(CostKind::Segments, CostOwner::Host, sum(metrics::NETWORK_TCP_SENT_SEGMENTS_PER_S));
    }
    parts
}

/// Why a configuration differs from the baseline, operation by operation.
pub(crate) fn differences(label: &str, base: &Samples, treated: &Samples) -> Vec<Difference> {
    let of = treated
        .iter()
        .filter_map(|(operation, treated)| difference(label, operation, base.get(operation)?, treated));
    of.collect()
}

fn difference(
    label: &str,
    operation: &Operation,
    base: &[(u32, Sample)],
    treated: &[(u32, Sample)],
) -> Option<Difference> {
    // Trials of the same round have the same neighbours, so their differences vary less than the trials. A
    // single pair has no variance: then all trials are used. The shown values of both sides are from the same
    // trials as the difference.
    let pairs: Vec<(&Sample, &Sample)> = treated
        .iter()
        .filter_map(|(round, sample)| Some((&base.iter().find(|(of, _)| of == round)?.1, sample)))
        .collect();
    let is_paired = pairs.len() > 1;
    let (before, after): (Vec<&Sample>, Vec<&Sample>) = match is_paired {
        true => pairs.into_iter().unzip(),
        false => (base.iter().map(|(_, of)| of).collect(), treated.iter().map(|(_, of)| of).collect()),
    };
    let all = |samples: &[&Sample], value: &dyn Fn(&Sample) -> f64| {
        let known = samples.iter().map(|sample| value(sample)).filter(|value| value.is_finite());
        mean(&known.collect::<Vec<f64>>())
    };
    let change = |value: &dyn Fn(&Sample) -> f64| -> Option<Estimate> {
        if !is_paired {
            return Some(Estimate::exact(all(&after, value)? - all(&before, value)?));
        }
        let differences = before.iter().zip(&after).map(|(before, after)| value(after) - value(before));
        estimate(&differences.filter(|difference: &f64| difference.is_finite()).collect::<Vec<f64>>())
    };
    let time = |sample: &Sample| sample.time_s;
    let time_s = change(&time)?;
    let (before_s, after_s) = (all(&before, &time)?, all(&after, &time)?);
    let part = |key: &(CostKind, CostOwner)| {
        // A value that was not read in a trial is unknown, not zero.
        let has =
            |samples: &[(u32, Sample)]| samples.iter().any(|(_, sample)| sample.parts.contains_key(key));
        if !(has(base) && has(treated)) {
            return None;
        }
        let value = |sample: &Sample| sample.parts.get(key).copied().unwrap_or(f64::NAN);
        let (baseline, treatment) = (all(&before, &value)?, all(&after, &value)?);
        // A value that is zero in both gives no information.
        if baseline == 0.0 && treatment == 0.0 {
            return None;
        }
        Some(DifferencePart { kind: key.0, of: key.1.clone(), baseline, treatment, change: change(&value)? })
    };
    let parts: Vec<DifferencePart> = kinds(base.iter().chain(treated)).into_iter().filter_map(part).collect();
    let size = |part: &DifferencePart| part.change.value.abs();
    let larger_s = before_s.max(after_s);
    // Time at a device is also the time in which threads wait for files: if the latter is known, it is
    // counted once.
    let of_threads = parts.iter().any(|part| matches!(part.kind, CostKind::Transfers | CostKind::FlushWait));
    let is_time = |part: &DifferencePart| {
        part.kind.is_time()
            && part.of != CostOwner::Generator
            && !(of_threads && part.kind == CostKind::AtDevice)
            && size(part) >= TIME_SHARE * larger_s
    };
    let mut times: Vec<DifferencePart> = parts.iter().filter(|part| is_time(part)).cloned().collect();
    let is_count = |part: &DifferencePart| {
        !part.kind.is_time() && size(part) >= COUNT_SHARE * part.baseline.max(part.treatment)
    };
    let mut counts: Vec<DifferencePart> = parts.iter().filter(|part| is_count(part)).cloned().collect();
    times.sort_by(|a, b| size(b).total_cmp(&size(a)));
    counts.sort_by_key(|part| part.kind);
    let explained_s: f64 = times.iter().map(|part| part.change.value).sum();
    let rate = |sample: &Sample| sample.rate_per_s;
    let rate_ratio = all(&after, &rate)? / all(&before, &rate)?;
    rate_ratio.is_finite().then(|| Difference {
        configuration: label.into(),
        operation: operation.clone(),
        rate_ratio,
        unexplained_s: time_s.value - explained_s,
        time_s,
        times,
        counts,
    })
}
