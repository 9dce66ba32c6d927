//! What one operation costs in each configuration, and why one configuration is faster than the baseline.

use std::collections::{BTreeMap, BTreeSet};

use model::cost::{CostKind, CostPart, Difference, DifferencePart, OperationCost, Payer};
use model::result::{OperationResult, TrialResult};
use model::run::Transfer;
use model::{Estimate, Operation, Study, metrics};

use crate::configuration::Group;
use crate::facts::launches::{Launches, Spent};
use crate::facts::service::{Service, services};
use crate::measured::Measured;
use crate::statistics::{CONFIDENCE, mean, median, t_interval};

/// Parts below this share of the time of an operation are left out of a difference.
const TIME_SHARE: f64 = 0.005;
/// Smallest difference of a count that is reported, as a share of the larger.
const COUNT_SHARE: f64 = 0.1;

/// What one operation of one trial costs.
pub(crate) struct Sample {
    rate_per_s: f64,
    time_s: f64,
    parts: BTreeMap<(CostKind, Payer), f64>,
}

/// Each operation of a configuration with its trials, by their replicate.
pub(crate) type Samples = BTreeMap<Operation, Vec<(u32, Sample)>>;

/// What each operation of a configuration costs.
pub(crate) fn costs(samples: &Samples) -> Vec<OperationCost> {
    samples
        .iter()
        .filter_map(|(operation, samples)| {
            let of = |value: &dyn Fn(&Sample) -> Option<f64>| -> Option<Estimate> {
                estimate(&samples.iter().filter_map(|(_, sample)| value(sample)).collect::<Vec<f64>>())
            };
            let part = |key: &(CostKind, Payer)| {
                let each = of(&|sample| sample.parts.get(key).copied())?;
                // What nothing was used of is no cost.
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

/// Of what is used in these trials, by whom.
fn kinds<'a>(samples: impl IntoIterator<Item = &'a (u32, Sample)>) -> BTreeSet<&'a (CostKind, Payer)> {
    samples.into_iter().flat_map(|(_, sample)| sample.parts.keys()).collect()
}

/// The mean of several replicates with its interval; one value is as exact as it is.
fn estimate(values: &[f64]) -> Option<Estimate> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    t_interval(&finite, CONFIDENCE).or_else(|| mean(&finite).map(Estimate::exact))
}

/// What the operations of a configuration took in each of its trials.
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
        let mut parts = of_spans(measured, &spans, whole.rate_per_s);
        let used = &run.generator;
        let completed = whole.completed.saturating_sub(whole.failed) as f64;
        let generator = |kind, seconds: f64| ((kind, Payer::Generator), seconds / completed);
        // User and system time are counted in ticks: their ratio divides the CPU time, which is exact.
        let known = used.user_s.zip(used.system_s).filter(|(user, system)| user + system > 0.0);
        let user_share = known.map_or(1.0, |(user, system)| user / (user + system));
        parts.extend([
            generator(CostKind::UserCpu, user_share * used.cpu_s),
            generator(CostKind::SystemCpu, (1.0 - user_share) * used.cpu_s),
            generator(CostKind::Ready, used.run_wait_s),
        ]);
        parts.retain(|_, each| each.is_finite());
        let sample = Sample { rate_per_s: whole.rate_per_s, time_s: whole.response_ms.mean / 1e3, parts };
        let mut samples = vec![(Operation::All, sample)];
        samples.extend(of_mix(measured, trial, &spans));
        return samples;
    }
    let known = measured.steps();
    let steps = trial.operations.iter().filter(|operation| operation.busy_s.is_some_and(|busy| busy > 0.0));
    let steps = steps.filter(|step| step.rate_per_s > 0.0 && step.name != Operation::All);
    steps
        .map(|step| {
            let spans = known.iter().find(|known| known.operation == step.name);
            let spans = spans.map_or(&[][..], |known| &known.spans);
            let parts = of_spans(measured, spans, step.rate_per_s);
            let sample = Sample { rate_per_s: step.rate_per_s, time_s: 1.0 / step.rate_per_s, parts };
            (step.name.clone(), sample)
        })
        .collect()
}

/// What each operation of a mix takes of the devices, where it is known what it asks of them: which of the CPU time each takes
/// is not, as they run in the same threads.
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
        for disk in measured.devices() {
            let mean = |metric: &str| measured.mean_over(metric, disk, spans);
            for (kind, metric) in counts {
                if let Some(per_s) = mean(metric) {
                    parts.insert((*kind, Payer::Device(disk.to_string())), per_s / operation.rate_per_s);
                }
            }
            if let Some((each_s, per_s)) = mean(each_s).zip(mean(counts[0].1)) {
                let at_device = (CostKind::AtDevice, Payer::Device(disk.to_string()));
                parts.insert(at_device, each_s * per_s / operation.rate_per_s);
            }
        }
        parts.retain(|_, each| each.is_finite());
        let time_s = operation.response_ms.mean / 1e3;
        (operation.name.clone(), Sample { rate_per_s: operation.rate_per_s, time_s, parts })
    };
    known.into_iter().map(of).collect()
}

/// What launched commands used, by the kernel's account of each; empty where no command was launched.
fn of_launches(measured: &Measured, trial: &TrialResult) -> Vec<(Operation, Sample)> {
    let Some(launches) = Launches::of(measured) else { return Vec::new() };
    let operations = trial.operations.iter().filter(|of| of.name != Operation::All && of.rate_per_s > 0.0);
    operations
        .filter_map(|operation| {
            let spent = Spent::of(&launches.of_operation(operation.name.as_str()))?;
            let payer = || Payer::Process(launches.command.to_string());
            let parts = spent.used.iter().map(|(kind, each)| ((*kind, payer()), *each)).collect();
            let sample = Sample { rate_per_s: operation.rate_per_s, time_s: spent.time_s, parts };
            Some((operation.name.clone(), sample))
        })
        .collect()
}

/// What was used over these spans of time, for each of `rate_per_s` operations a second.
fn of_spans(measured: &Measured, spans: &[(f64, f64)], rate_per_s: f64) -> BTreeMap<(CostKind, Payer), f64> {
    let mut parts = BTreeMap::new();
    let mut add = |kind: CostKind, of: Payer, per_s: Option<f64>| {
        if let Some(each) = per_s.map(|per_s| per_s / rate_per_s).filter(|each| each.is_finite()) {
            parts.insert((kind, of), each);
        }
    };
    for name in services(measured) {
        let process = || Payer::Process(name.to_string());
        let mean = |metric: &str| measured.mean_over(metric, name, spans);
        let (busy, system) = (mean(metrics::PROCESS_BUSY_CPUS), mean(metrics::PROCESS_SYSTEM_CPUS));
        match busy.zip(system) {
            Some((busy, system)) => {
                add(CostKind::UserCpu, process(), Some((busy - system).max(0.0)));
                add(CostKind::SystemCpu, process(), Some(system));
            }
            None => add(CostKind::UserCpu, process(), busy),
        }
        // What its own group did; the devices count what others did too.
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
        for (kind, threads) in [
            (CostKind::Transfers, service.disk),
            (CostKind::PageFaults, service.faulting),
            (CostKind::FlushWait, service.flush),
            (CostKind::Lock, service.lock),
            (CostKind::Downstream, service.peer),
            (CostKind::Asleep, service.timer),
        ] {
            add(kind, process(), Some(threads));
        }
    }
    for disk in measured.instances(metrics::DISK_QUEUE_LENGTH) {
        let mean = |metric: &str| measured.mean_over(metric, disk, spans);
        let device = || Payer::Device(disk.to_string());
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
        add(CostKind::ReceivedBytes, Payer::Host, sum(metrics::NETWORK_RECEIVED_BYTES_PER_S));
        add(CostKind::SentBytes, Payer::Host, sum(metrics::NETWORK_SENT_BYTES_PER_S));
        add(CostKind::Segments, Payer::Host, sum(metrics::NETWORK_TCP_SENT_SEGMENTS_PER_S));
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
    // Trials of the same round meet the same neighbours; their differences scatter less than the trials. One pair has no
    // scatter: then all trials say more than it does. What is shown of either side is of the same trials as the difference.
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
    let part = |key: &(CostKind, Payer)| {
        // What was not read in a trial is not known of it, and is no zero.
        let has =
            |samples: &[(u32, Sample)]| samples.iter().any(|(_, sample)| sample.parts.contains_key(key));
        if !(has(base) && has(treated)) {
            return None;
        }
        let value = |sample: &Sample| sample.parts.get(key).copied().unwrap_or(f64::NAN);
        let (baseline, treatment) = (all(&before, &value)?, all(&after, &value)?);
        // What is nothing in both says nothing.
        if baseline == 0.0 && treatment == 0.0 {
            return None;
        }
        Some(DifferencePart { kind: key.0, of: key.1.clone(), baseline, treatment, change: change(&value)? })
    };
    let parts: Vec<DifferencePart> = kinds(base.iter().chain(treated)).into_iter().filter_map(part).collect();
    let size = |part: &DifferencePart| part.change.value.abs();
    let larger_s = before_s.max(after_s);
    // The time at a device is time that threads wait for files, seen from the other side: where those are known, once.
    let of_threads = parts.iter().any(|part| matches!(part.kind, CostKind::Transfers | CostKind::FlushWait));
    let is_time = |part: &DifferencePart| {
        part.kind.is_time()
            && part.of != Payer::Generator
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
