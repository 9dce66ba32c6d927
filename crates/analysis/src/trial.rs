//! The numbers of one trial in the measured phase.

use std::borrow::Cow;
use std::collections::BTreeSet;

use hdrhistogram::Histogram;
use model::figure::PERCENTILE_MS;
use model::result::{KindCounts, OperationResult, ResourceUse, TreatmentResult, TrialResult};
use model::run::{GeneratorRole, Origin};
use model::study::new_histogram;
use model::{
    Due, Interval, LatencySummary, Level, Operation, OperationHistograms, Phase, Run, RunRecord, Statistics,
    Times, Treatment, metrics,
};

use crate::facts::ISSUED_SHARE;
use crate::measured::Measured;

/// Metrics that are always shown, although they do not indicate saturation or have no saturation value.
const ALWAYS_SHOWN: &[&str] = &[
    metrics::CPU_BUSY_SHARE,
    metrics::CPU_SYSTEM_SHARE,
    metrics::CPU_IOWAIT_SHARE,
    metrics::CPU_STEAL_SHARE,
    metrics::PROCESS_BUSY_CPUS,
    metrics::MEMORY_AVAILABLE_BYTES,
    metrics::MEMORY_DIRTY_BYTES,
    metrics::MEMORY_WRITEBACK_BYTES,
    metrics::DISK_READS_PER_S,
    metrics::DISK_WRITES_PER_S,
    metrics::DISK_READ_BYTES_PER_S,
    metrics::DISK_WRITE_BYTES_PER_S,
    metrics::DISK_TRANSFER_S,
    metrics::DISK_QUEUE_LENGTH,
    metrics::DISK_UTILIZATION_SHARE,
];

/// Standard deviations by which the operations in flight at the edges of a phase may differ from their mean.
const EDGES: f64 = 3.0;

/// A treatment, as label and as data.
pub(crate) fn treatment(treatment: &Treatment) -> TreatmentResult {
    TreatmentResult {
        label: treatment.label(),
        changes: treatment.changes().to_vec(),
        ..TreatmentResult::default()
    }
}

/// The numbers of one run. [`crate::doubt`] adds its doubts.
pub(crate) fn summarize(record: &RunRecord, host_cpus: u32) -> TrialResult {
    let measured = Measured::of(record);
    let run = &record.run;
    let operations = operations(&measured);
    // As in `TrialResult::whole`: operations that only serve others, such as the flush after a copy, are
    // excluded.
    let all = operations.iter().find(|operation| operation.name == Operation::All);
    let completed = all.or(operations.first()).map_or(0, |whole| whole.completed);
    let cpu_us = run.generator.cpu_s * 1e6 / completed as f64;
    // For commands and engines, the generator's threads do no work of the operations: they only start and clean up.
    let has_cost = completed > 0
        && run.traits.generator != GeneratorRole::Starts
        && run.generator.threads > 0
        && cpu_us.is_finite();
    let mut trial = TrialResult {
        trial: run.trial.id(),
        treatment: treatment(&run.trial.treatment),
        replicate: run.trial.replicate,
        started_unix_ns: run.started_unix_ns,
        measured_s: measured.length_s(),
        load: run.load.shape.as_ref().map(|shape| shape.describe()).unwrap_or_default(),
        operations,
        derived: derived(&measured),
        cpu_us_per_operation: has_cost.then_some(cpu_us),
        generator_max_per_s: (has_cost && cpu_us > 0.0)
            .then(|| f64::from(generator_cpus(run, host_cpus)) * 1e6 / cpu_us),
        machines: run.machines.clone(),
        resources: resources(&measured),
        copy: crate::facts::write_cache::of(&measured),
        facts: run.facts.clone(),
        offered_s: offered_s(&measured),
        counts: counts(record),
        doubts: Vec::new(),
        ending: run.ending.clone(),
        is_carried: false,
    };
    trial.is_carried = measured.is_open() && trial.whole().is_some_and(completed_as_offered);
    trial
}

/// The time in which an open load had arrivals, if they ended long before the measured time did.
fn offered_s(measured: &Measured) -> Option<f64> {
    let due = measured.intervals().filter(|interval| interval.offered.is_some_and(|count| count > 0));
    let last_s = due.map(|interval| interval.end_s).reduce(f64::max)?;
    let offered_s = last_s - measured.begin_s;
    let is_shorter = measured.is_open() && offered_s < OFFERED_SHARE * (measured.end_s - measured.begin_s);
    (is_shorter && measured.is_meant_steady()).then_some(offered_s)
}

/// Share of the measured time in which an open load must have had arrivals: the last interval may have none by chance.
const OFFERED_SHARE: f64 = 0.9;

/// CPUs that the threads of the load generator can use at once, on all machines that drove the load.
fn generator_cpus(run: &Run, host_cpus: u32) -> u32 {
    let of_machines = run
        .machines
        .iter()
        .filter_map(|machine| Some(machine.generator.as_ref()?.threads.min(machine.cpus.max(1))));
    match of_machines.sum() {
        0 => run.generator.threads.min(host_cpus.max(1)),
        cpus => cpus,
    }
}

/// The operations by kind, where others than the client counted them too.
fn counts(record: &RunRecord) -> Vec<KindCounts> {
    let fact = |name: String| match record.run.facts.get(&name) {
        Some(Level::Count(count)) => Some(*count),
        _ => None,
    };
    let kinds = record.run.facts.keys().filter_map(|name| name.strip_prefix("client."));
    let of_kind = |kind: &str| {
        let client = fact(format!("client.{kind}"))?;
        let (server, trace) = (fact(format!("server.{kind}")), traced(record, kind));
        let is_known = server.is_some() || trace.is_some();
        is_known.then(|| KindCounts { kind: kind.into(), client, server, trace })
    };
    kinds.filter_map(of_kind).collect()
}

/// The operations of a kind that the trace of the watched servers counted; none without a trace.
fn traced(record: &RunRecord, kind: &str) -> Option<u64> {
    let table = &record.readings;
    let is_of_kind = |column: &model::Column| {
        column.metric.name == metrics::OPERATION_IO_OPERATIONS_PER_S
            && column.instance.rsplit_once(' ').is_some_and(|(_, name)| name == kind)
    };
    let columns = table.columns.iter().enumerate().filter(|(_, column)| is_of_kind(column));
    let count = columns.filter_map(|(at, _)| table.values.get(at)).map(|values| {
        let rows = table.begin_s.iter().zip(&table.end_s).zip(values).filter(|(_, rate)| rate.is_finite());
        rows.map(|((begin_s, end_s), rate)| rate * (end_s - begin_s)).sum::<f64>()
    });
    count.reduce(|sum, count| sum + count).map(|count| count.round() as u64)
}

/// Whether the offered operations were issued and completed.
fn completed_as_offered(whole: &OperationResult) -> bool {
    // Operations in flight at the beginning and the end of the phase are counted on one side only. For a
    // completed load, their number varies randomly around the mean; otherwise the backlog is far larger.
    let edges = EDGES * whole.concurrency.max(0.0).sqrt() + 2.0;
    let enough = |part: u64, of: u64| part as f64 >= (ISSUED_SHARE * of as f64).min(of as f64 - edges);
    let Some((offered, issued)) = whole.offered.zip(whole.issued) else { return false };
    offered > 0 && enough(issued, offered) && enough(whole.completed.saturating_sub(whole.failed), offered)
}

/// Each operation that was executed, `all` last if there are several that do not only serve others. If
/// nothing was executed, all operations of the workload.
fn operations(measured: &Measured) -> Vec<OperationResult> {
    let run = &measured.record.run;
    let is_derived = |name: &&str| run.traits.derived.iter().any(|derived| derived == name);
    let mut names: Vec<&str> =
        run.operations.iter().map(String::as_str).filter(|name| !is_derived(name)).collect();
    for interval in measured.intervals() {
        if !names.contains(&interval.operation.as_str()) {
            names.push(&interval.operation);
        }
    }
    let mut operations: Vec<OperationResult> =
        names.iter().map(|name| operation(measured, Operation::from(name.to_string()), &[name])).collect();
    // The offered operations are divided between consecutive operations, so the count says nothing about a
    // single one.
    let in_turn = run.operations_in_turn;
    let idle = |operation: &OperationResult| {
        (in_turn || operation.offered.unwrap_or(0) == 0)
            && operation.completed == 0
            && operation.judged() == 0
    };
    if !operations.iter().all(idle) {
        operations.retain(|operation| !idle(operation));
    }
    // Operations that only serve others come last, and are not part of the sum.
    operations.sort_by_key(|operation| measured.is_supporting(operation.name.as_str()));
    let of_load = |operation: &&OperationResult| !measured.is_supporting(operation.name.as_str());
    let names: Vec<&str> =
        operations.iter().filter(of_load).map(|operation| operation.name.as_str()).collect();
    if names.len() > 1 {
        let all = operation(measured, Operation::All, &names);
        operations.push(all);
    }
    operations
}

/// Each operation that is derived from others and was completed.
fn derived(measured: &Measured) -> Vec<OperationResult> {
    let names = measured.record.run.traits.derived.iter();
    let of_name = |name: &Cow<'static, str>| {
        let intervals: Vec<&Interval> =
            measured.derived_intervals().filter(|interval| interval.operation == *name).collect();
        sum(measured, Operation::from(name.to_string()), &[name], &intervals)
    };
    names.map(of_name).filter(|operation| operation.completed > 0 || operation.judged() > 0).collect()
}

/// The numbers of a trial for one step, over the time in which it was active.
pub(crate) fn of_step(trial: &TrialResult, during: &Measured) -> TrialResult {
    let mut own = trial.clone();
    if let Some(step) = during.step() {
        own.operations.retain(|operation| operation.name == step.operation);
        for operation in &mut own.operations {
            let busy_s = operation.busy_s.unwrap_or(0.0);
            operation.concurrency = busy_s / during.length_s().max(busy_s);
        }
    }
    own
}

/// The combined numbers of the operations `names`, under one name.
fn operation(measured: &Measured, name: Operation, names: &[&str]) -> OperationResult {
    let intervals: Vec<&Interval> =
        measured.intervals().filter(|interval| names.contains(&interval.operation.as_str())).collect();
    sum(measured, name, names, &intervals)
}

/// The same of these intervals.
fn sum(measured: &Measured, name: Operation, names: &[&str], intervals: &[&Interval]) -> OperationResult {
    let mut sum = OperationResult { name, ..OperationResult::default() };
    let mut bytes = 0_u64;
    let mut user_seconds = 0.0;
    for interval in intervals {
        sum.offered = both(sum.offered, interval.offered);
        sum.issued = both(sum.issued, interval.issued);
        sum.completed = sum.completed.saturating_add(interval.completed);
        sum.late = both(sum.late, interval.late);
        sum.failed = sum.failed.saturating_add(interval.failed);
        bytes = bytes.saturating_add(interval.bytes);
        user_seconds += interval.concurrency * interval.length_s();
    }
    let length_s = measured.length_s();
    if length_s > 0.0 {
        sum.rate_per_s = sum.completed.saturating_sub(sum.failed) as f64 / length_s;
        sum.bytes_per_s = bytes as f64 / length_s;
        sum.concurrency = user_seconds / length_s;
    }
    if measured.record.run.operations_in_turn && sum.name != Operation::All {
        // Computed from the exact times, not from the operations in flight: in an interval without
        // completions, these are known only in total.
        let done = intervals.iter().filter(|interval| interval.completed > 0);
        let busy_s: f64 = done.map(|i| i.service.mean / 1e3 * i.completed as f64).sum();
        if busy_s > 0.0 && busy_s.is_finite() {
            sum.busy_s = Some(busy_s);
            sum.rate_per_s = sum.completed.saturating_sub(sum.failed) as f64 / busy_s;
            sum.bytes_per_s = bytes as f64 / busy_s;
            sum.concurrency = busy_s / length_s.max(busy_s);
        }
    }
    let histograms: Vec<_> = names.iter().filter_map(|name| measured.record.histograms.get(*name)).collect();
    let without = |of: fn(&Interval) -> &LatencySummary| match measured.record.run.origin {
        Origin::Imported => of_tool(measured, sum.name.as_str(), intervals, of),
        _ => bound(intervals, of),
    };
    sum.due = due(measured, names);
    sum.censored = sum.due.map_or(0, |due| due.censored);
    // The operation of an arrival is known when it ends or is given up. In the intervals, arrivals are divided between the
    // operations as these were completed.
    if let Some(due) = sum.due.filter(|_| measured.is_open() && measured.step().is_none())
        && sum.offered.is_some()
        && measured.record.run.origin != Origin::Imported
    {
        let offered = due.ended.saturating_add(due.censored);
        sum.offered = Some(offered);
        sum.issued = sum.issued.map(|_| offered.saturating_sub(due.unsent.min(due.censored)));
    }
    let of_times = |own: fn(&OperationHistograms) -> &Histogram<u64>,
                    censored: fn(&Times) -> &Histogram<u64>| {
        merged(histograms.iter().map(|of| (own(of), of.censored.as_deref().map(censored))))
    };
    // Where no operation was due in the measured time, those that completed in it have no time of it.
    let unknown = |summary: LatencySummary| match sum.due {
        Some(due) if due.ended == 0 && sum.completed > 0 => LatencySummary::ABSENT,
        _ => summary,
    };
    sum.response_ms = of_times(|of| &of.response, |of| &of.response)
        .unwrap_or_else(|| unknown(without(|interval| &interval.response)));
    sum.service_ms = of_times(|of| &of.service, |of| &of.service)
        .unwrap_or_else(|| unknown(without(|interval| &interval.service)));
    sum.lag_ms = of_times(|of| &of.lag, |of| &of.lag).unwrap_or_default();
    sum
}

/// What became of the operations `names` that were due in the measured phase, in it and after it. None in records without
/// these counts.
pub(crate) fn due(measured: &Measured, names: &[&str]) -> Option<Due> {
    let record = measured.record;
    let is_of_it = |interval: &&Interval| {
        matches!(interval.phase, Phase::Measure | Phase::CoolDown)
            && names.contains(&interval.operation.as_str())
    };
    let mut sum: Option<Due> = None;
    for due in record.intervals.iter().filter(is_of_it).filter_map(|interval| interval.due) {
        sum.get_or_insert_default().add(&Due { in_flight_s: 0.0, ..due });
    }
    sum
}

/// The sum of what is known.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).reduce(u64::saturating_add)
}

/// The combined summary of several histograms, each with that of its censored operations; none if they are empty.
fn merged<'a>(
    histograms: impl Iterator<Item = (&'a Histogram<u64>, Option<&'a Histogram<u64>>)>,
) -> Option<LatencySummary> {
    let filled = |histogram: &&Histogram<u64>| !histogram.is_empty();
    let (ended, censored): (Vec<_>, Vec<_>) = histograms.unzip();
    let ended: Vec<&Histogram<u64>> = ended.into_iter().filter(filled).collect();
    let censored: Vec<&Histogram<u64>> = censored.into_iter().flatten().filter(filled).collect();
    let sum = |all: &[&Histogram<u64>]| {
        let mut sum = new_histogram();
        all.iter().try_for_each(|histogram| sum.add(*histogram)).ok().map(|()| sum)
    };
    match (ended.as_slice(), censored.is_empty()) {
        ([], true) => None,
        ([only], true) => Some(LatencySummary::of(only)),
        (_, true) => Some(LatencySummary::of(&sum(&ended)?)),
        _ => Some(LatencySummary::of_censored(&sum(&ended)?, &sum(&censored)?)),
    }
}

/// A summary from the intervals alone, if the histograms are lost. The smallest, the mean and the largest
/// value are exact. A percentile is the largest one of the intervals, an upper bound of the true one. Where an interval does
/// not have a statistic, the sum does not have it either.
fn bound(intervals: &[&Interval], of: impl Fn(&Interval) -> &LatencySummary) -> LatencySummary {
    let largest = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    let mut sum = LatencySummary {
        min: f64::INFINITY,
        mean: 0.0,
        p50: 0.0,
        p90: 0.0,
        p95: 0.0,
        p99: 0.0,
        p999: 0.0,
        max: 0.0,
        at_least: Statistics::NONE,
    };
    let mut completed = 0.0;
    for interval in intervals.iter().filter(|interval| interval.completed > 0) {
        let (part, weight) = (of(interval), interval.completed as f64);
        completed += weight;
        sum.mean += part.mean * weight;
        sum.min = -largest(-sum.min, -part.min);
        sum.p50 = largest(sum.p50, part.p50);
        sum.p90 = largest(sum.p90, part.p90);
        sum.p95 = largest(sum.p95, part.p95);
        sum.p99 = largest(sum.p99, part.p99);
        sum.p999 = largest(sum.p999, part.p999);
        sum.max = largest(sum.max, part.max);
    }
    if completed == 0.0 {
        return LatencySummary::ABSENT;
    }
    sum.mean /= completed;
    sum
}

/// A summary of what another tool reports without histograms. The percentiles of several parts are those that the tool
/// computed of the whole, and are absent if it did not.
fn of_tool(
    measured: &Measured,
    operation: &str,
    intervals: &[&Interval],
    of: fn(&Interval) -> &LatencySummary,
) -> LatencySummary {
    let mut sum = bound(intervals, of);
    let is_one = intervals.iter().filter(|interval| interval.completed > 0).count() < 2;
    for (name, ms) in sum.percentiles_mut() {
        match measured.record.run.facts.get(&format!("{PERCENTILE_MS}{operation}.{name}")) {
            Some(Level::Number(of_tool)) => *ms = *of_tool,
            _ if is_one => {}
            _ => *ms = f64::NAN,
        }
    }
    sum
}

/// Whether percentiles had to be taken from the intervals.
pub(crate) fn lacks_histograms(record: &RunRecord) -> bool {
    Measured::of(record).intervals().any(|interval| {
        interval.timed() > 0
            && record
                .histograms
                .get(&interval.operation)
                .is_none_or(|of| of.response.is_empty() || of.service.is_empty())
    })
}

/// Resource use over the measured phase, most saturated first.
fn resources(measured: &Measured) -> Vec<ResourceUse> {
    let of_files = measured.of_files();
    let devices: BTreeSet<String> = of_files
        .iter()
        .flat_map(|measured| measured.devices().into_iter().map(|disk| measured.instance(disk)))
        .collect();
    let table = &measured.record.readings;
    let mut uses: Vec<ResourceUse> = measured
        .all_columns()
        .filter(|(_, column)| {
            column.metric.saturated_at > 0.0 || ALWAYS_SHOWN.contains(&column.metric.name.as_ref())
        })
        .filter_map(|(at, column)| {
            let mean = measured.column(at)?;
            let max = table.max(at, measured.begin_s, measured.end_s).filter(|max| max.is_finite())?;
            Some(ResourceUse {
                metric: column.metric.name.to_string(),
                instance: column.instance.clone(),
                unit: column.metric.unit,
                mean,
                max,
                saturated_at: column.metric.saturated_at,
            })
        })
        // A host may have many disks, most of them idle, which give no information.
        .filter(|used| {
            !used.metric.starts_with("disk.") || devices.contains(&used.instance) || used.max > 0.0
        })
        .collect();
    let saturation = |used: &ResourceUse| match used.saturated_at > 0.0 {
        true => used.mean / used.saturated_at,
        false => -1.0,
    };
    uses.sort_by(|a, b| saturation(b).total_cmp(&saturation(a)));
    uses
}
