//! What one operation costs in I/O, from a trace, and what a load of such operations needs of the device.
//!
//! I/O in the thread of an operation is attributed directly. What belongs to no operation (flushes by threads of the
//! kernel, a thread of the server that commits for others) is divided between the operations by a stated rule. A
//! regression of all requests on the rates of the operations over the intervals is an independent check.

use std::collections::BTreeMap;

use model::operation_io::{
    CommitFinding, IoAmount, IoCounts, IoKind, IoPrice, MixGoal, OperationIo, OperationIoCost, PRICE_FORMAT,
    RowOrigin, ServerOperationIo, ShareRule, TraceDocument, TraceInterval, TraceRow, sum_of,
};
use model::quantity::three_figures;
use model::{Estimate, Phase, RunRecord, metrics};

use crate::law::PLANNED_UTILIZATION;
use crate::law::operational::fit_demand;
use crate::words::percent;

/// Operations that only read, by their names in LDAP.
const READERS: [&str; 3] = ["bind", "search", "compare"];
/// Fewer operations than this are no basis for a price.
const OPERATIONS_MIN: u64 = 100;
/// Rarer operations than this share of all are left out of regressions, and have no part of what belongs to none.
const RARE_SHARE: f64 = 0.01;
/// A load beyond this multiple of the measured one is extrapolated.
const EXTRAPOLATED: f64 = 1.25;
/// Requests of other processes above this share make the price uncertain.
const OTHERS_SHARE: f64 = 0.05;
/// A regression that differs by more than this from the attribution is reported.
const REGRESSION_DIFFERENCE: f64 = 0.2;

/// The totals and the costs of a trace from its intervals.
pub fn judge(intervals: &[TraceInterval]) -> OperationIo {
    let seconds = intervals.iter().map(|interval| interval.seconds).sum();
    let rows = totals(intervals);
    let operations: Vec<&TraceRow> =
        rows.iter().filter(|row| row.operations.is_some_and(|count| count > 0)).collect();
    let writers: u64 = total(operations.iter().filter(|row| may_write(row)).filter_map(|row| row.operations));
    let syncs = |origin: RowOrigin| {
        let rows = rows.iter().filter(|row| row.origin == origin);
        rows.filter_map(|row| row.io.get(&IoKind::Syncs)).copied().reduce(u64::saturating_add)
    };
    let (inside, outside) = (syncs(RowOrigin::Operation), syncs(RowOrigin::NoOperation));
    let commits = inside.filter(|_| writers > 0).map(|inside| {
        let outside = outside.unwrap_or(0);
        CommitFinding { writers, syncs: inside.saturating_add(outside), outside }
    });
    let all = total(operations.iter().filter_map(|row| row.operations));
    let is_main = |row: &&&TraceRow| row.operations.unwrap_or(0) as f64 >= RARE_SHARE * all as f64;
    let main: Vec<&TraceRow> = operations.iter().filter(is_main).copied().collect();
    let place = |row: &TraceRow| main.iter().position(|main| main.name == row.name);
    let requests = regressions(intervals, &main, &IoKind::REQUESTS);
    let is_attributed = operations.iter().any(|row| !row.io.is_empty());
    let (rule, shares) = shares(&main, is_attributed);
    let common = common_io(&rows);
    let by_kind: BTreeMap<IoKind, Vec<Option<Estimate>>> = match rule {
        ShareRule::Regression => IoKind::ALL
            .into_iter()
            .filter(|kind| kind.is_of_device() && common.contains_key(kind))
            .map(|kind| (kind, regressions(intervals, &main, &[kind])))
            .collect(),
        _ => BTreeMap::new(),
    };
    let cost = |row: &&TraceRow| {
        let at = place(row);
        let count = row.operations.unwrap_or(0);
        let each = |value: f64| value / count as f64;
        let direct: BTreeMap<IoKind, f64> =
            row.io.iter().map(|(kind, value)| (*kind, each(*value as f64))).collect();
        let mut with_share = direct.clone();
        match rule {
            ShareRule::Regression => with_share.extend(by_kind.iter().filter_map(|(kind, found)| {
                // A device does not take requests back: what is below zero is noise.
                Some((*kind, found.get(at?)?.as_ref()?.value.max(0.0)))
            })),
            _ => {
                for (kind, value) in &common {
                    *with_share.entry(*kind).or_default() +=
                        each(*value as f64 * at.and_then(|at| shares.get(at)).unwrap_or(&0.0));
                }
            }
        }
        OperationIoCost {
            operation: row.name.clone(),
            operations: count,
            rate_per_s: if seconds > 0.0 { count as f64 / seconds } else { 0.0 },
            direct,
            with_share,
            requests_by_regression: at.and_then(|at| requests.get(at).copied()).flatten(),
        }
    };
    let costs = operations.iter().map(cost).collect();
    let share_rule = (!operations.is_empty()).then_some(rule);
    OperationIo { seconds, costs, share_rule, commits, rows }
}

/// The I/O of the operations in the measured phase of these trials, as the counters of each traced server have it.
pub(crate) fn of_trials<'a>(records: impl Iterator<Item = &'a RunRecord>) -> Vec<ServerOperationIo> {
    let mut servers: BTreeMap<String, Vec<TraceInterval>> = BTreeMap::new();
    for record in records {
        for (server, intervals) in recorded(record) {
            servers.entry(server).or_default().extend(intervals);
        }
    }
    servers
        .into_iter()
        .map(|(server, intervals)| ServerOperationIo { server, io: judge(&intervals) })
        .collect()
}

/// The intervals of a trial for each traced server: counters `operation_io.*` with instances `SERVER ROW`.
fn recorded(record: &RunRecord) -> BTreeMap<String, Vec<TraceInterval>> {
    let table = &record.readings;
    let Some(span) = record.run.span(Phase::Measure) else { return BTreeMap::new() };
    let measured = table.measured(span.begin_s, span.end_s);
    let mut servers: BTreeMap<String, BTreeMap<usize, TraceInterval>> = BTreeMap::new();
    for (column, values) in table.columns.iter().zip(&table.values) {
        let metric: &str = &column.metric.name;
        let is_count = metric == metrics::OPERATION_IO_OPERATIONS_PER_S;
        let word = metric.strip_prefix("operation_io.").and_then(|rest| rest.strip_suffix("_per_s"));
        let kind = IoKind::ALL.into_iter().find(|kind| word == Some(kind.word()));
        let Some((server, name)) = column.instance.split_once(' ').filter(|_| is_count || kind.is_some())
        else {
            continue;
        };
        let intervals = servers.entry(server.to_string()).or_default();
        for at in measured.clone().filter(|at| values.get(*at).is_some_and(|rate| rate.is_finite())) {
            let (end_s, seconds) = (table.end_s[at], table.end_s[at] - table.begin_s[at]);
            let interval =
                intervals.entry(at).or_insert_with(|| TraceInterval { end_s, seconds, rows: Vec::new() });
            let place = interval.rows.iter().position(|row| row.name == name).unwrap_or(interval.rows.len());
            if place == interval.rows.len() {
                interval.rows.push(TraceRow::new(name, RowOrigin::of_row(name), None, IoCounts::new()));
            }
            let count = (values[at] * seconds).round() as u64;
            match kind {
                Some(kind) => _ = interval.rows[place].io.insert(kind, count),
                None => interval.rows[place].operations = Some(count),
            }
        }
    }
    servers.into_iter().map(|(server, intervals)| (server, intervals.into_values().collect())).collect()
}

/// The sum of each row over all intervals.
fn totals(intervals: &[TraceInterval]) -> Vec<TraceRow> {
    let mut sums: Vec<TraceRow> = Vec::new();
    for row in intervals.iter().flat_map(|interval| &interval.rows) {
        let Some(sum) = sums.iter_mut().find(|sum| sum.name == row.name && sum.origin == row.origin) else {
            sums.push(row.clone());
            continue;
        };
        if let Some(count) = row.operations {
            sum.operations = Some(sum.operations.unwrap_or(0).saturating_add(count));
        }
        for (kind, value) in &row.io {
            let sum = sum.io.entry(*kind).or_default();
            *sum = sum.saturating_add(*value);
        }
    }
    sums
}

fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn may_write(row: &TraceRow) -> bool {
    let wrote = [IoKind::WriteCalls, IoKind::Syncs, IoKind::DeviceWrites];
    row.origin == RowOrigin::Operation
        && !READERS.contains(&row.name.as_str())
        && (row.io.is_empty()
            || is_ldap_write(&row.name)
            || sum_of(&row.io, &wrote).is_some_and(|sum| sum > 0))
}

fn is_ldap_write(name: &str) -> bool {
    ["modify", "add", "delete", "modrdn"].contains(&name)
}

/// The I/O that belongs to no operation but to the process: all I/O of its own threads outside operations, and the
/// writes and flushes of threads of the kernel, or all of the device.
fn common_io(rows: &[TraceRow]) -> IoCounts {
    let mut common = IoCounts::new();
    for row in rows {
        if matches!(row.origin, RowOrigin::Operation | RowOrigin::Process) {
            continue;
        }
        for (kind, value) in row.io.iter().filter(|(kind, _)| row.is_for_process(**kind)) {
            let sum = common.entry(*kind).or_default();
            *sum = sum.saturating_add(*value);
        }
    }
    common
}

/// How the common I/O is divided, and the part of each operation.
fn shares(operations: &[&TraceRow], is_attributed: bool) -> (ShareRule, Vec<f64>) {
    let weigh = |weight: &dyn Fn(&TraceRow) -> f64| {
        let weights: Vec<f64> = operations.iter().map(|row| weight(row)).collect();
        let sum: f64 = weights.iter().sum();
        (sum > 0.0).then(|| weights.iter().map(|weight| weight / sum).collect::<Vec<f64>>())
    };
    let count = |kind: IoKind| move |row: &TraceRow| row.io.get(&kind).copied().unwrap_or(0) as f64;
    if operations.len() == 1 {
        return (ShareRule::OneOperation, vec![1.0]);
    }
    if !is_attributed {
        return (ShareRule::Regression, vec![0.0; operations.len()]);
    }
    for (rule, kind) in [(ShareRule::Syncs, IoKind::Syncs), (ShareRule::WriteCalls, IoKind::WriteCalls)] {
        if let Some(shares) = weigh(&count(kind)) {
            return (rule, shares);
        }
    }
    let writers = |row: &TraceRow| if may_write(row) { row.operations.unwrap_or(0) as f64 } else { 0.0 };
    match weigh(&writers) {
        Some(shares) => (ShareRule::Writers, shares),
        None => (ShareRule::None, vec![0.0; operations.len()]),
    }
}

/// These kinds per operation, by regression over the intervals; each none if the intervals do not show it.
fn regressions(
    intervals: &[TraceInterval],
    operations: &[&TraceRow],
    kinds: &[IoKind],
) -> Vec<Option<Estimate>> {
    let none = vec![None; operations.len()];
    let observed: Vec<&TraceInterval> = intervals.iter().filter(|interval| interval.seconds > 0.0).collect();
    let rates: Vec<Vec<f64>> = observed
        .iter()
        .map(|interval| {
            let rate = |wanted: &&TraceRow| {
                let row =
                    interval.rows.iter().find(|row| row.name == wanted.name && row.origin == wanted.origin);
                row.and_then(|row| row.operations).unwrap_or(0) as f64 / interval.seconds
            };
            operations.iter().map(rate).collect()
        })
        .collect();
    let uses: Vec<f64> = observed
        .iter()
        .map(|interval| {
            let rows = interval.rows.iter();
            total(rows.filter_map(|row| row.sum_for_process(kinds))) as f64 / interval.seconds
        })
        .collect();
    let Some(fit) = fit_demand(&rates, &uses) else { return none };
    // An interval around zero, or as wide as the value, says nothing.
    let shown = |demand: &Estimate| {
        (demand.low.is_finite() && demand.high.is_finite() && demand.high - demand.low <= demand.value.abs())
            .then_some(*demand)
    };
    fit.demands.iter().map(shown).collect()
}

/// What a load needs of the device, or why that is not known.
pub fn price(document: &TraceDocument, goal: &MixGoal) -> Result<IoPrice, String> {
    let cost = |name: &str| document.io.costs.iter().find(|cost| cost.operation == name);
    let mut amounts: BTreeMap<IoKind, f64> = BTreeMap::new();
    for (name, rate_per_s) in &goal.rates {
        let known = cost(name).ok_or_else(|| {
            let names: Vec<&str> = document.io.costs.iter().map(|cost| cost.operation.as_str()).collect();
            match names.is_empty() {
                true => "no operation was counted: trace the process under load".to_string(),
                false => format!("no operation `{name}` was counted: write one of {}", names.join(", ")),
            }
        })?;
        let of_device = || known.with_share.iter().filter(|(kind, _)| kind.is_of_device());
        if of_device().count() == 0 {
            return Err(format!(
                "the requests of `{name}` to the device are not known: trace one operation at a time, or as root"
            ));
        }
        for (kind, each) in of_device() {
            *amounts.entry(*kind).or_default() += each * rate_per_s;
        }
    }
    let amount = |kind: Option<IoKind>, for_load_per_s: f64| IoAmount {
        kind,
        for_load_per_s,
        with_headroom_per_s: for_load_per_s / PLANNED_UTILIZATION,
    };
    let sum = |kinds: &[IoKind]| amount(None, kinds.iter().filter_map(|kind| amounts.get(kind)).sum());
    Ok(IoPrice {
        format: PRICE_FORMAT.into(),
        goal: goal.clone(),
        devices: document.devices.clone(),
        planned_share: PLANNED_UTILIZATION,
        requests: sum(&IoKind::REQUESTS),
        bytes: sum(&IoKind::BYTES),
        amounts: amounts.iter().map(|(kind, value)| amount(Some(*kind), *value)).collect(),
        warnings: warnings(document, goal),
    })
}

/// What makes a price less certain.
fn warnings(document: &TraceDocument, goal: &MixGoal) -> Vec<String> {
    let mut warnings = doubts(&document.io, goal);
    if !document.methods.not_traced.is_empty() {
        warnings.push(
            "requests were not attributed to operations: all those of the device are in the price".into(),
        );
    }
    warnings
}

/// Why the costs of a trace may not be those of such a load.
pub(crate) fn doubts(io: &OperationIo, goal: &MixGoal) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, rate_per_s) in &goal.rates {
        let Some(cost) = io.costs.iter().find(|cost| cost.operation == *name) else { continue };
        if cost.operations < OPERATIONS_MIN {
            warnings.push(format!("only {} {name} operations were counted: trace longer", cost.operations));
        }
        if *rate_per_s > EXTRAPOLATED * cost.rate_per_s {
            warnings.push(format!(
                "{rate_per_s:.0} {name}/s is extrapolated: {:.0}/s were measured",
                cost.rate_per_s
            ));
        }
        let direct: f64 = IoKind::REQUESTS.iter().filter_map(|kind| cost.with_share.get(kind)).sum();
        if let Some(fitted) = cost.requests_by_regression
            && (fitted.value - direct).abs() > REGRESSION_DIFFERENCE * direct.max(fitted.value)
        {
            warnings.push(format!(
                "by regression {name} needs {} requests instead of {}: other processes may use the device",
                three_figures(fitted.value),
                three_figures(direct)
            ));
        }
    }
    if io.commits.is_some_and(|commits| commits.are_grouped()) {
        warnings.push("operations share syncs: with another load the cost of an operation differs".into());
    }
    let all = total(io.rows.iter().filter_map(|row| sum_of(&row.io, &IoKind::REQUESTS)));
    let others = io.rows.iter().filter(|row| row.origin == RowOrigin::OtherProcesses);
    let others = total(others.filter_map(|row| sum_of(&row.io, &IoKind::REQUESTS)));
    if all > 0 && others as f64 > OTHERS_SHARE * all as f64 {
        warnings.push(format!(
            "other processes issued {} of the requests to the device, and may have caused flushes too: trace an idle host",
            percent(others as f64 / all as f64)
        ));
    }
    warnings.extend(foreign_writes(io));
    warnings
}

/// Kernel threads write what any process left in the page cache. More than this process wrote and did not send to the
/// device itself belongs to others, beside the journal of the file system.
fn foreign_writes(io: &OperationIo) -> Option<String> {
    const JOURNAL_SHARE: f64 = 0.2;
    let sum = |origins: &[RowOrigin], kind: IoKind| {
        let rows = io.rows.iter().filter(|row| origins.contains(&row.origin));
        total(rows.filter_map(|row| row.io.get(&kind).copied())) as f64
    };
    let own = [RowOrigin::Operation, RowOrigin::NoOperation];
    let written = sum(&own, IoKind::WriteCallBytes);
    let explained = (written - sum(&own, IoKind::DeviceWriteBytes)).max(0.0) + JOURNAL_SHARE * written;
    let by_kernel = sum(&[RowOrigin::KernelThreads], IoKind::DeviceWriteBytes);
    (written > 0.0 && by_kernel > explained).then(|| {
        "kernel threads wrote more than this process left in the page cache: other processes wrote too, and the price \
         is too high; trace an idle host"
            .into()
    })
}

#[cfg(test)]
mod tests;
