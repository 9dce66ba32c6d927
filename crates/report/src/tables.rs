//! The tables a result is shown in.

mod addresses;
mod dependencies;
mod derived;
mod gate;
mod goals;
mod limit;
mod machines;
mod published;
mod thresholds;

use std::collections::BTreeSet;

use model::result::{
    Answer, ComparisonRow, Curve, Direction, KindCounts, Operation, OperationResult, PhaseTime, ProofResult,
    TrialResult,
};
use model::run::{OperationUnit, WorkloadTraits};
use model::verdict::Closest;
use model::{LatencySummary, Level, Missing, ResultDocument, Unit, Verdict};

pub(crate) use self::dependencies::{sensitivity, steps};
pub(crate) use self::derived::{derived, derived_means, server_part};
pub(crate) use self::gate::gate;
pub(crate) use self::goals::{goals, not_met, why_undecided};
pub(crate) use self::limit::{limit, loads, published_limits};
pub(crate) use self::machines::machines;
pub(crate) use self::published::{beside, published, published_changes, published_times};
pub(crate) use self::thresholds::thresholds;
use crate::labels;
use crate::sentences;
use crate::table::{Cell, Table};
use crate::text::{Quantity, RatioStyle, Scale, percent, rate_word, spread};

/// What a metric of the comparison is called and measured in.
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) quantity: Quantity,
}

/// The words and the quantity of a metric such as `response_ms.p99`.
pub(crate) fn metric(name: &str, traits: &WorkloadTraits) -> Metric {
    let percentile = |part: &str| match part {
        "p999" => "p99.9".to_string(),
        part => part.to_string(),
    };
    let (name, quantity) = match name.split_once('.') {
        Some(("response_ms", part)) => (percentile(part), Quantity::Milliseconds),
        Some(("service_ms", part)) => (format!("service {}", percentile(part)), Quantity::Milliseconds),
        Some(("lag_ms", part)) => (format!("lag {}", percentile(part)), Quantity::Milliseconds),
        Some((operation, "rate_per_s")) => (operation.into(), Quantity::Rate(rate_word(traits))),
        _ => match name {
            "rate_per_s" => ("throughput".into(), Quantity::Rate(rate_word(traits))),
            "bytes_per_s" => ("bandwidth".into(), Quantity::BytesPerSecond),
            "elapsed_s" => ("elapsed time".into(), Quantity::Seconds),
            "cpu_us_per_operation" => ("CPU per op".into(), Quantity::Microseconds),
            "consumed_share" => ("space / nominal size".into(), Quantity::Share),
            "mount_s" => ("mount time".into(), Quantity::Seconds),
            "failed" | "failed_share" => ("failed".into(), Quantity::Share),
            "concurrency" => ("in flight".into(), Quantity::Plain),
            other => (other.replace('_', " "), Quantity::Plain),
        },
    };
    Metric { name, quantity }
}

/// `A`, `B`, ... for the first 26 configurations; a number beyond.
pub(crate) fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at) if at < 26 => char::from(b'A' + at).to_string(),
        _ => format!("{}", at + 1),
    }
}

/// True for runs compared with each other.
pub(crate) fn of_several_runs(document: &ResultDocument) -> bool {
    document.configurations.iter().any(|each| each.treatment.is_side)
}

/// Configurations that fit side by side.
pub(crate) const SIDE_BY_SIDE: usize = 4;

/// Launches of a trial from which on their percentiles are compared: ten are slower than the median.
const LAUNCHES_OF_A_PERCENTILE: u64 = 20;

/// Whether the result is of copied files: their bytes and time count, not the blocks that moved them.
pub(crate) fn is_copy(document: &ResultDocument) -> bool {
    document.traits.storage && document.traits.ends_by_itself
}

/// The metric that ranks configurations, where one has to do.
pub(crate) fn main_metric(document: &ResultDocument) -> &'static str {
    if is_copy(document) { "bytes_per_s" } else { "rate_per_s" }
}

/// The metrics worth comparing, in the order they first appear: of a copy not the blocks per second, of launches only the
/// percentiles that a trial has launches for.
pub(crate) fn compared_metrics(document: &ResultDocument) -> Vec<&str> {
    let launches = document.trials.iter().filter_map(|trial| Some(trial.whole()?.completed)).max();
    let is_worth_it = |metric: &str| match metric {
        "rate_per_s" => !is_copy(document),
        // Of an import, bytes follow the entries.
        name if document.traits.grouped && (name == "bytes_per_s" || name.contains("response_ms")) => false,
        "response_ms.p50" | "response_ms.p99" | "response_ms.p999" if document.traits.operations_apart => {
            launches.is_some_and(|launches| launches >= LAUNCHES_OF_A_PERCENTILE)
        }
        _ => true,
    };
    let mut names: Vec<&str> = Vec::new();
    for row in document.comparison.iter().filter(|row| is_worth_it(&row.metric)) {
        if !names.contains(&row.metric.as_str()) {
            names.push(&row.metric);
        }
    }
    names
}

/// The operations worth a column or row of their own: the sum of first and later launches, or of objects staged and exported,
/// is of different things.
pub(crate) fn shown<'a>(trial: &'a TrialResult, traits: &WorkloadTraits) -> Vec<&'a OperationResult> {
    let in_turn = trial.operations.iter().any(|operation| operation.busy_s.is_some());
    let several = trial.operations.len() > 1 && (in_turn || traits.operations_apart);
    trial.operations.iter().filter(|operation| !(several && operation.name == Operation::All)).collect()
}

/// Operation by operation: how much was done.
pub(crate) fn amounts(trial: &TrialResult, traits: &WorkloadTraits) -> Table {
    let mut operations = shown(trial, traits);
    let moved = operations.iter().any(|operation| operation.bytes_per_s > 0.0);
    let is_copy = moved && traits.ends_by_itself && traits.storage;
    if is_copy {
        // The flush at the end moves nothing.
        operations.retain(|operation| operation.bytes_per_s > 0.0);
    }
    let mut heads = vec![""];
    let names: Vec<String> = operations.iter().map(|operation| format!(">{}", operation.name)).collect();
    heads.extend(names.iter().map(String::as_str));
    let mut table = Table::new("", &heads);
    let mut line = |name: &str, quantity: Quantity, value: fn(&OperationResult) -> f64| {
        let values: Vec<f64> = operations.iter().copied().map(value).collect();
        let scale = quantity.scale(values.iter().copied());
        let head = match quantity {
            Quantity::BytesPerSecond | Quantity::BinaryBytesPerSecond => scale.unit.to_string(),
            Quantity::Seconds => format!("{name}, {}", scale.unit),
            _ => name.to_string(),
        };
        let mut cells = vec![Cell::words(head)];
        cells.extend(values.iter().map(|value| Cell::number(*value, &scale)));
        table.row(cells);
    };
    if !is_copy {
        line(rate_word(traits), Quantity::Rate(rate_word(traits)), |operation| operation.rate_per_s);
    }
    if moved {
        line("", Quantity::BytesPerSecond, |operation| operation.bytes_per_s);
        line("", Quantity::BinaryBytesPerSecond, |operation| operation.bytes_per_s);
    }
    let in_turn = operations.iter().any(|operation| operation.busy_s.is_some());
    match in_turn {
        true => line("at work", Quantity::Seconds, |operation| operation.busy_s.unwrap_or(f64::NAN)),
        false if traits.grouped => {}
        // Not every other tool says it.
        false if operations.iter().all(|operation| operation.concurrency.is_nan()) => {}
        false => line("in flight", Quantity::Plain, |operation| operation.concurrency),
    }
    let done = if is_copy { "blocks" } else { "completed" };
    line(done, Quantity::Count, |operation| operation.completed as f64);
    line("failed", Quantity::Count, |operation| operation.failed as f64);
    // Those of the other rows ended in the measured time.
    if operations.iter().any(|operation| failed_later(operation) > 0) {
        line("failed later", Quantity::Count, |operation| failed_later(operation) as f64);
    }
    if operations.iter().any(|operation| operation.censored > 0) {
        line("censored", Quantity::Count, |operation| operation.censored as f64);
    }
    // Which step an object will be counted in is known only when it is done, and so is which launch is the first.
    let is_behind =
        |operation: &OperationResult| operation.late > Some(0) || operation.issued < operation.offered;
    let behind = match traits.operations_apart {
        true => trial.whole().is_some_and(is_behind),
        false => operations.iter().any(|operation| is_behind(operation)),
    };
    if !in_turn && !traits.grouped && behind {
        line("offered", Quantity::Count, |operation| known(operation.offered));
        line("issued", Quantity::Count, |operation| known(operation.issued));
        line("sent late", Quantity::Count, |operation| known(operation.late));
    }
    if is_copy || traits.unit == OperationUnit::Entry {
        let mut cells = vec![Cell::words("elapsed")];
        cells.extend(
            operations
                .iter()
                .map(|_| Cell::shown(trial.measured_s, Quantity::Seconds.show(trial.measured_s))),
        );
        table.row(cells);
    }
    table
}

/// Operations that were due in the measured time and failed after it.
fn failed_later(operation: &OperationResult) -> u64 {
    operation.due.map_or(0, |due| due.failed.saturating_sub(operation.failed))
}

/// The machines that took part, and what was seen of the system itself: phases of imports, counts of operations, and their
/// I/O.
pub(crate) fn of_the_system(document: &ResultDocument) -> impl Iterator<Item = Table> {
    let io = crate::operation_io::of_experiment(document);
    let of_servers = addresses::addresses(document).into_iter().chain(counts(document));
    machines(document).into_iter().chain(phases(document)).chain(of_servers).chain(io)
}

/// The operations of each trial as the client and others counted them; none where nobody else did.
fn counts(document: &ResultDocument) -> Option<Table> {
    let several = document.trials.len() > 1;
    let of_trial = |trial: &'_ TrialResult| several.then(|| trial.trial.clone());
    counts_of(
        document.trials.iter().flat_map(|trial| trial.counts.iter().map(move |of| (of_trial(trial), of))),
    )
}

/// A row for each kind of operation, after the name of its trial if there is one.
pub(crate) fn counts_of<'a>(rows: impl Iterator<Item = (Option<String>, &'a KindCounts)>) -> Option<Table> {
    let rows: Vec<(Option<String>, &KindCounts)> = rows.collect();
    let has_server = rows.iter().any(|(_, of)| of.server.is_some());
    let has_trace = rows.iter().any(|(_, of)| of.trace.is_some());
    let mut heads: Vec<&str> = rows.first()?.0.iter().map(|_| "trial").collect();
    heads.extend(["operation", ">client"]);
    heads.extend(has_server.then_some(">server"));
    heads.extend(has_trace.then_some(">trace"));
    let mut table = Table::new("counts of the operations", &heads);
    let scale = Quantity::Count.scale([0.0]);
    let count =
        |count: Option<u64>| count.map_or_else(Cell::default, |count| Cell::number(count as f64, &scale));
    for (trial, of) in rows {
        let mut cells: Vec<Cell> = trial.into_iter().map(Cell::words).collect();
        cells.extend([Cell::words(of.kind.clone()), count(Some(of.client))]);
        cells.extend(has_server.then(|| count(of.server)));
        cells.extend(has_trace.then(|| count(of.trace)));
        table.row(cells);
    }
    table.note = "Warm-up included.".into();
    Some(table)
}

/// The status codes of the responses of each trial; none where none were recorded.
pub(crate) fn statuses(document: &ResultDocument) -> Option<Table> {
    const STATUS: &str = "responses.status.";
    let codes = document.trials.iter().flat_map(|trial| trial.facts.keys());
    let codes: BTreeSet<&str> = codes.filter_map(|name| name.strip_prefix(STATUS)).collect();
    if codes.is_empty() {
        return None;
    }
    let mut heads = vec!["trial".to_string()];
    heads.extend(codes.iter().map(|code| format!(">{code}")));
    let mut table =
        Table::new("responses by status code", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for trial in &document.trials {
        let mut cells = vec![Cell::words(trial.trial.clone())];
        cells.extend(codes.iter().map(|code| match trial.facts.get(&format!("{STATUS}{code}")) {
            Some(Level::Count(count)) => Cell::number(*count as f64, &Quantity::Count.scale([0.0])),
            Some(other) => Cell::words(other.to_string()),
            None => Cell::default(),
        }));
        table.row(cells);
    }
    table.note = "Warm-up included.".into();
    Some(table)
}

/// How long each phase of the imports took; none where none were recorded.
fn phases(document: &ResultDocument) -> Option<Table> {
    // In the order of the configuration with the most of them.
    let mut lists: Vec<&Vec<PhaseTime>> = document.configurations.iter().map(|each| &each.phases).collect();
    lists.sort_by_key(|phases| std::cmp::Reverse(phases.len()));
    let mut heads: Vec<&str> = Vec::new();
    for phase in lists.into_iter().flatten() {
        if !heads.contains(&phase.name.as_str()) {
            heads.push(&phase.name);
        }
    }
    if heads.is_empty() {
        return None;
    }
    let has_passes = document.configurations.iter().any(|configuration| configuration.passes.is_some());
    let several = document.configurations.len() > 1;
    let mut columns = if several { vec!["configuration".to_string()] } else { Vec::new() };
    columns.extend(has_passes.then(|| ">passes".to_string()));
    columns.extend(heads.iter().map(|head| format!(">{head}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("phases of the import, s", &columns);
    let scale = Quantity::Seconds.scale([1.0]);
    for configuration in &document.configurations {
        let name = || Cell::words(labels::row(document, &configuration.treatment.label));
        let mut cells: Vec<Cell> = several.then(name).into_iter().collect();
        if has_passes {
            let passes = configuration.passes;
            cells
                .push(passes.map_or_else(Cell::default, |passes| {
                    Cell::number(passes, &Quantity::Count.scale([0.0]))
                }));
        }
        cells.extend(heads.iter().map(|head| {
            match configuration.phases.iter().find(|phase| phase.name == *head).map(|phase| phase.seconds) {
                Some(seconds) if seconds < LEAST_PHASE_S => Cell::shown(seconds, "0"),
                Some(seconds) => Cell::number(seconds, &scale),
                None => Cell::default(),
            }
        }));
        table.row(cells);
    }
    Some(table)
}

/// A shorter phase is shown as none, seconds.
const LEAST_PHASE_S: f64 = 0.001;

/// Response, service and, where there was any, lag of each operation.
pub(crate) fn latencies(trial: &TrialResult, traits: &WorkloadTraits, with_lag: bool) -> Table {
    let worth = |operation: &&OperationResult| operation.completed > 0 || operation.judged() > 0;
    let kinds = |operation: &OperationResult| {
        let mut kinds = vec![("response", operation.response_ms), ("service", operation.service_ms)];
        if with_lag || operation.lag_ms.p99 * 20.0 > operation.response_ms.p99.max(1e-9) {
            kinds.push(("lag", operation.lag_ms));
        }
        kinds
    };
    let all: Vec<(&str, &str, LatencySummary)> = shown(trial, traits)
        .into_iter()
        .filter(worth)
        .flat_map(|operation| {
            kinds(operation).into_iter().map(|(kind, summary)| (operation.name.as_str(), kind, summary))
        })
        .collect();
    let parts =
        |summary: &LatencySummary| LatencySummary::PARTS.map(|part| summary.part(part).unwrap_or(f64::NAN));
    let scale = Quantity::Milliseconds
        .scale(all.iter().filter(|(_, kind, _)| *kind != "lag").flat_map(|(_, _, summary)| parts(summary)));
    let unit = format!("latency, {}", scale.unit);
    let mut table =
        Table::new("", &[&unit, "", "?>min", ">mean", ">p50", ">p90", "?>p95", ">p99", ">p99.9", ">max"]);
    let mut last = "";
    for (name, kind, summary) in &all {
        // Mostly it is a thousandth of the others.
        let own = match *kind {
            "lag" => Quantity::Milliseconds.scale(parts(summary)),
            _ => scale,
        };
        let kind = if own.unit == scale.unit { kind.to_string() } else { format!("{kind}, {}", own.unit) };
        let mut cells = vec![Cell::words(if *name == last { "" } else { name }), Cell::words(kind)];
        cells.extend(LatencySummary::PARTS.map(|part| Cell::statistic(summary, part, &own)));
        table.row(cells);
        last = name;
    }
    table
}

/// A count that another tool may not have.
fn known(count: Option<u64>) -> f64 {
    count.map_or(f64::NAN, |count| count as f64)
}

/// What was used most, most saturated first; at most `most` rows. `with_names` adds the names that the record uses.
pub(crate) fn resources(trial: &TrialResult, most: usize, with_names: bool) -> Table {
    let heads = ["resource", ">mean", ">max", ">saturated at", "counter"];
    let mut table = Table::new("", &heads[..if with_names { 5 } else { 4 }]);
    for resource in trial.resources.iter().take(most) {
        let scale = Quantity::of(resource.unit).scale([resource.mean, resource.max, resource.saturated_at]);
        let shown = |value: f64| Cell::shown(value, scale.with_unit(value));
        let mut cells = vec![
            Cell::words(labels::counter(&resource.metric, &resource.instance)),
            shown(resource.mean),
            shown(resource.max),
            if resource.saturated_at > 0.0 { shown(resource.saturated_at) } else { Cell::default() },
        ];
        cells.extend(
            with_names.then(|| Cell::words(labels::counter_name(&resource.metric, &resource.instance))),
        );
        table.row(cells);
    }
    if trial.resources.len() > most {
        table.note = format!("and {} more", trial.resources.len() - most);
    }
    table
}

/// The mean of every resource in several trials, a column for each; those of the first trial first, most saturated first.
pub(crate) fn resources_of(document: &ResultDocument, trials: &[&TrialResult], most: usize) -> Table {
    let mut keys: Vec<(&str, &str, Unit)> = Vec::new();
    for resource in trials.iter().flat_map(|trial| &trial.resources) {
        let key = (resource.metric.as_str(), resource.instance.as_str(), resource.unit);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let of = |trial: &TrialResult, key: &(&str, &str, Unit)| {
        let found = trial.resources.iter().find(|one| one.metric == key.0 && one.instance == key.1);
        found.map(|resource| resource.mean)
    };
    let names = trials.iter().map(|trial| {
        let name = labels::labelled(document, &trial.treatment.label);
        format!(">{name}, replicate {}", trial.replicate)
    });
    let heads: Vec<String> =
        std::iter::once("resource, mean".to_string()).chain(names).chain(["counter".to_string()]).collect();
    let mut table = Table::new("", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for key in keys.iter().take(most) {
        let scale = Quantity::of(key.2).scale(trials.iter().filter_map(|trial| of(trial, key)));
        let mut cells = vec![Cell::words(labels::counter(key.0, key.1))];
        cells.extend(trials.iter().map(|trial| {
            of(trial, key).map_or_else(Cell::default, |value| Cell::shown(value, scale.with_unit(value)))
        }));
        cells.push(Cell::words(labels::counter_name(key.0, key.1)));
        table.row(cells);
    }
    if keys.len() > most {
        table.note = format!("and {} more", keys.len() - most);
    }
    table
}

/// The interval of a comparison as `-28.1 to -24.9`; empty when there is none.
fn interval(row: &ComparisonRow, style: RatioStyle) -> Cell {
    interval_of(row.low, row.high, style)
}

fn interval_of(low: Option<f64>, high: Option<f64>, style: RatioStyle) -> Cell {
    match (low, high) {
        (Some(low), Some(high)) => {
            let (low_text, high_text) = style.ends(low, high);
            Cell::shown(low, low_text).then(Cell::words(" to ")).then(Cell::shown(high, high_text))
        }
        _ => Cell::words("none: one pair"),
    }
}

/// How many replicates would settle what cannot be reported: the last column of a comparison, where any row has them.
fn replicates_needed(row: &ComparisonRow) -> Option<u32> {
    row.replicates_to_settle.filter(|_| row.answer == Answer::CantTell)
}

/// The answer in a word, and the replicates that would settle it where there is a column for them.
fn answer(row: &ComparisonRow, has_replicates: bool) -> Vec<Cell> {
    let mut cells = vec![Cell::words(row.answer.word())];
    cells.extend(has_replicates.then(|| {
        let needed = replicates_needed(row);
        needed.map_or_else(Cell::default, |count| Cell::shown(f64::from(count), format!("about {count}")))
    }));
    cells
}

fn ends(row: &ComparisonRow) -> Option<(f64, f64)> {
    row.low.zip(row.high)
}

fn ratio(row: &ComparisonRow, style: RatioStyle) -> Cell {
    Cell::shown(row.ratio, style.show(row.ratio, ends(row)))
}

fn median_with_spread(document: &ResultDocument, label: &str, metric: &str, scale: &Scale) -> Cell {
    let configuration = document.configurations.iter().find(|each| each.treatment.label == label);
    let value = configuration.and_then(|each| each.medians.get(metric)).copied().unwrap_or(f64::NAN);
    let is_bound = configuration.is_some_and(|each| each.at_least.contains(metric));
    let cell = Cell::number(value, scale).bounded(is_bound);
    match configuration.and_then(|each| each.spreads.get(metric)).copied() {
        Some(share) if share > 0.0 && value.is_finite() => {
            let text = spread(share);
            cell.then(Cell::words(" ")).then(Cell::shown(share, format!("{text:<5}")))
        }
        _ => cell,
    }
}

/// Two configurations side by side, metric by metric.
pub(crate) fn pair(document: &ResultDocument, label: &str) -> Table {
    let names = compared_metrics(document);
    let rows = document.comparison.iter().filter(|row| row.configuration == label);
    let rows: Vec<&ComparisonRow> = rows.filter(|row| names.contains(&row.metric.as_str())).collect();
    let at = document.configurations.iter().position(|each| each.treatment.label == label).unwrap_or(1);
    let style = RatioStyle::for_ratios(rows.iter().map(|row| row.ratio));
    let baseline = document.configurations.first().map_or("baseline", |each| each.treatment.label.as_str());
    let [first, second] = [0, at].map(|at| format!(">{}", labels::head(document, at)));
    let corner = labels::corner(document);
    let has_replicates = rows.iter().any(|row| replicates_needed(row).is_some());
    let mut heads = vec![corner, "", &first, &second, ">change", ">95 % interval", "answer"];
    heads.extend(has_replicates.then_some("?>replicates needed"));
    let mut table = Table::new("", &heads);
    for row in rows {
        let metric = metric(&row.metric, &document.traits);
        let scale = metric.quantity.scale([row.baseline, row.treatment]);
        let mut cells = vec![
            Cell::words(metric.name),
            Cell::words(scale.unit),
            median_with_spread(document, baseline, &row.metric, &scale),
            median_with_spread(document, label, &row.metric, &scale),
            ratio(row, style),
            interval(row, style),
        ];
        cells.extend(answer(row, has_replicates));
        table.row(cells);
    }
    table
}

/// The medians of several configurations, one column each.
pub(crate) fn medians(document: &ResultDocument) -> Table {
    let names: Vec<String> =
        (0..document.configurations.len()).map(|at| format!(">{}", labels::head(document, at))).collect();
    let mut heads = vec![labels::corner(document), ""];
    heads.extend(names.iter().map(String::as_str));
    let mut table = Table::new("", &heads);
    for name in compared_metrics(document) {
        let metric = metric(name, &document.traits);
        let values = document.configurations.iter().filter_map(|each| each.medians.get(name)).copied();
        let scale = metric.quantity.scale(values);
        let mut cells = vec![Cell::words(metric.name), Cell::words(scale.unit)];
        for configuration in &document.configurations {
            cells.push(median_with_spread(document, &configuration.treatment.label, name, &scale));
        }
        table.row(cells);
    }
    table
}

/// Throughput and response time of every configuration, one row each.
pub(crate) fn configurations(document: &ResultDocument) -> Table {
    let traits = &document.traits;
    let names: &[&str] = match is_copy(document) {
        true => &["elapsed_s", "bytes_per_s", "response_ms.mean", "response_ms.p99"],
        false => &["rate_per_s", "bytes_per_s", "response_ms.mean", "response_ms.p50", "response_ms.p99"],
    };
    let median = |at: usize, name: &str| document.configurations[at].medians.get(name).copied();
    let places = || 0..document.configurations.len();
    let names: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| *name != "bytes_per_s" || traits.storage)
        .filter(|name| places().any(|at| median(at, name).is_some()))
        .collect();
    let scales: Vec<Scale> = names
        .iter()
        .map(|name| metric(name, traits).quantity.scale(places().filter_map(|at| median(at, name))))
        .collect();
    let heads: Vec<String> = names
        .iter()
        .zip(&scales)
        .map(|(name, scale)| match *name {
            "rate_per_s" | "bytes_per_s" => format!(">{}", scale.unit),
            name => format!(">{}, {}", metric(name, traits).name, scale.unit),
        })
        .collect();
    let corner = match labels::corner(document) {
        "" => "configuration",
        corner => corner,
    };
    let heads: Vec<&str> = std::iter::once(corner).chain(heads.iter().map(String::as_str)).collect();
    let mut table = Table::new("", &heads);
    for at in places() {
        let mut cells = vec![Cell::words(labels::head(document, at))];
        if labels::by_letter(document) {
            cells = vec![Cell::words(labels::configuration(document, at))];
        }
        cells.extend(names.iter().zip(&scales).map(|(name, scale)| {
            let is_bound = document.configurations[at].at_least.contains(*name);
            median(at, name)
                .map_or_else(|| Cell::words("-"), |value| Cell::number(value, scale).bounded(is_bound))
        }));
        table.row(cells);
    }
    table
}

/// Each configuration against the baseline in one metric, one row each.
pub(crate) fn against_baseline(document: &ResultDocument, metric_name: &str) -> Table {
    let metric = metric(metric_name, &document.traits);
    let rows: Vec<&ComparisonRow> =
        document.comparison.iter().filter(|row| row.metric == metric_name).collect();
    let scale = metric.quantity.scale(rows.iter().flat_map(|row| [row.baseline, row.treatment]));
    let style = RatioStyle::for_ratios(rows.iter().map(|row| row.ratio));
    let head = match scale.unit {
        "" => format!(">{}", metric.name),
        unit => format!(">{}, {unit}", metric.name),
    };
    let has_replicates = rows.iter().any(|row| replicates_needed(row).is_some());
    let mut heads = vec!["configuration", &head, ">change", ">95 % interval", "answer"];
    heads.extend(has_replicates.then_some("?>replicates needed"));
    let mut table = Table::new("", &heads);
    if let Some(baseline) = document.configurations.first() {
        table.row(
            vec![
                Cell::words(labels::row(document, &baseline.treatment.label)),
                median_with_spread(document, &baseline.treatment.label, metric_name, &scale),
                Cell::default(),
                Cell::default(),
                Cell::default(),
            ]
            .into_iter()
            .chain(has_replicates.then(Cell::default))
            .collect(),
        );
    }
    for row in rows {
        let mut cells = vec![
            Cell::words(labels::row(document, &row.configuration)),
            median_with_spread(document, &row.configuration, metric_name, &scale),
            ratio(row, style),
            interval(row, style),
        ];
        cells.extend(answer(row, has_replicates));
        table.row(cells);
    }
    table
}

/// A sweep: level by level, the curves of one factor one below the other; with a bar of the throughput.
pub(crate) fn sweep(curves: &[&Curve], traits: &WorkloadTraits, bars: bool) -> Table {
    let factor = curves.first().map_or("", |curve| labels::setting(&curve.factor));
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let rate = Quantity::Rate(rate_word(traits)).scale(all().map(|point| point.rate_per_s[0]));
    let bytes = Quantity::BytesPerSecond.scale(all().map(|point| point.bytes_per_s[0]));
    let times = Quantity::Milliseconds.scale(all().flat_map(|point| [point.mean_ms[0], point.p99_ms[0]]));
    let several = curves.iter().any(|curve| !curve.series.is_empty());
    let mut heads = Vec::new();
    if several {
        heads.push("series".to_string());
    }
    heads.push(format!(">{factor}"));
    heads.push(format!(">{}", rate.unit));
    let moved = all().any(|point| point.bytes_per_s[0] > 0.0);
    if moved {
        heads.push(format!(">{}", bytes.unit));
    }
    if !traits.grouped {
        heads.extend([format!(">mean, {}", times.unit), format!(">p99, {}", times.unit)]);
    }
    if bars {
        heads.push(String::new());
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("", &heads);
    let largest =
        all().map(|point| point.rate_per_s[0]).filter(|rate| rate.is_finite()).fold(0.0_f64, f64::max);
    for curve in curves {
        for (at, point) in curve.points.iter().enumerate() {
            let mut cells = Vec::new();
            if several {
                cells.push(Cell::words(if at == 0 { labels::series(curve) } else { String::new() }));
            }
            cells.push(Cell::words(labels::level_text(&point.label)));
            cells.push(Cell::number(point.rate_per_s[0], &rate));
            if moved {
                cells.push(Cell::number(point.bytes_per_s[0], &bytes));
            }
            if !traits.grouped {
                cells.push(Cell::number(point.mean_ms[0], &times).bounded(point.at_least.has("mean")));
                cells.push(Cell::number(point.p99_ms[0], &times).bounded(point.at_least.has("p99")));
            }
            if bars {
                cells.push(Cell::words(crate::chart::bar(point.rate_per_s[0], largest, 20)));
            }
            table.row(cells);
        }
    }
    table
}

/// The curves of each factor together, in order of appearance.
pub(crate) fn curves_by_factor(document: &ResultDocument) -> Vec<Vec<&Curve>> {
    let mut groups: Vec<Vec<&Curve>> = Vec::new();
    for curve in &document.curves {
        match groups.iter_mut().find(|group| group[0].factor == curve.factor) {
            Some(group) => group.push(curve),
            None => groups.push(vec![curve]),
        }
    }
    groups
}

/// What limits each configuration, and each of its steps, how much of it is used and what comes next; none where one
/// configuration without steps was measured.
pub(crate) fn limits(document: &ResultDocument) -> Option<Table> {
    let several = document.configurations.len() > 1;
    let has_steps = document.configurations.iter().any(|each| !each.steps.is_empty());
    if !several && !has_steps {
        return None;
    }
    /// A row before its throughput has a unit.
    struct Row<'a> {
        configuration: String,
        step: &'a str,
        verdict: &'a Verdict,
        used: Option<f64>,
        next: Option<&'a Closest>,
        rate_per_s: f64,
    }
    let mut rows: Vec<Row> = Vec::new();
    for each in &document.configurations {
        let name = labels::row(document, &each.treatment.label);
        let rate = |metric: &str| each.medians.get(metric).copied().unwrap_or(f64::NAN);
        for (at, step) in each.steps.iter().enumerate() {
            rows.push(Row {
                configuration: if at == 0 { name.clone() } else { String::new() },
                step: step.operation.as_str(),
                verdict: &step.verdict,
                used: step.used,
                next: step.next.as_ref(),
                rate_per_s: rate(&format!("{}.rate_per_s", step.operation)),
            });
        }
        if let Some(verdict) = each.verdict.as_ref().filter(|_| each.steps.is_empty()) {
            let (used, next, rate_per_s) = (each.used, each.next.as_ref(), rate(main_metric(document)));
            rows.push(Row { configuration: name, step: "", verdict, used, next, rate_per_s });
        }
    }
    let rate = metric(main_metric(document), &document.traits).quantity;
    let rate = rate.scale(rows.iter().map(|row| row.rate_per_s));
    let rate_head = format!(">{}", rate.unit);
    let mut heads = vec![];
    heads.extend(several.then_some("configuration"));
    heads.extend(has_steps.then_some("step"));
    heads.extend(["limit", "utilization", "next", &rate_head]);
    let mut table = Table::new("what limits", &heads);
    for row in &rows {
        let used = row.used.zip(sentences::claim_of(row.verdict, document));
        let used = used
            .map_or_else(Cell::default, |(used, claim)| Cell::shown(used, sentences::use_words(claim, used)));
        let next = row.next.map_or_else(Cell::default, |next| {
            let name = Cell::words(format!("{} at ", sentences::closest_words(next)));
            name.then(Cell::shown(next.share, percent(next.share)))
        });
        let mut cells = Vec::new();
        cells.extend(several.then(|| Cell::words(row.configuration.clone())));
        cells.extend(has_steps.then(|| Cell::words(row.step)));
        cells.extend([Cell::words(sentences::limit_words(row.verdict, document)), used, next]);
        cells.push(Cell::number(row.rate_per_s, &rate));
        table.row(cells);
    }
    let mut lacks: Vec<&Missing> = Vec::new();
    for row in &rows {
        if let Verdict::Inconclusive { lacks: own, .. } = row.verdict {
            lacks.extend(own);
        }
    }
    lacks.sort();
    lacks.dedup();
    if !lacks.is_empty() {
        let lacks: Vec<String> = lacks.into_iter().map(|lack| sentences::missing(document, lack)).collect();
        table.note = format!("For configurations without a clear limit: {}", lacks.join(" "));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What taking a part of each resource, and giving more of it, did to throughput; none without a proof.
pub(crate) fn proof(document: &ResultDocument) -> Option<Table> {
    let proof = document.proof.as_ref().filter(|proof| !proof.rows.is_empty())?;
    let has_given = proof.rows.iter().any(|row| row.direction == Direction::Raised);
    let title = format!(
        "proof: throughput when a resource is reduced to {:.0} %{}",
        proof.share * 100.0,
        if has_given { ", and when it is increased" } else { "" }
    );
    let heads = ["resource", "", "in force", "set to", ">throughput", ">elasticity, 95 %", "answer"];
    let mut table = Table::new(&title, &heads);
    // Plus zero takes the sign off a zero.
    let two = |value: f64| Cell::shown(value, format!("{:.2}", (value * 100.0).round() / 100.0 + 0.0));
    let interval = |estimate: &model::Estimate| {
        let to = two(estimate.low).then(Cell::words(" to ")).then(two(estimate.high));
        two(estimate.value).then(Cell::words("  [")).then(to).then(Cell::words("]"))
    };
    for row in &proof.rows {
        table.row(vec![
            Cell::words(row.factor.clone()),
            Cell::words(if row.direction == Direction::Reduced { "reduced" } else { "raised" }),
            Cell::words(row.in_force.clone()),
            Cell::words(row.level.clone()),
            row.throughput_ratio.map_or_else(
                || Cell::words("-"),
                // Never as a factor: by how much the resource was changed is in percent too.
                |ratio| Cell::shown(ratio, RatioStyle::Percent.show(ratio, None)),
            ),
            row.elasticity.as_ref().map_or_else(|| Cell::words("-"), interval),
            Cell::words(row.answer.word()),
        ]);
    }
    if let Some(residual) = &proof.residual {
        table.row(vec![
            Cell::words("not changed"),
            Cell::words(""),
            Cell::words(""),
            Cell::words(""),
            Cell::words(""),
            interval(residual),
            Cell::words("remainder"),
        ]);
    }
    table.note = not_varied(proof);
    Some(table)
}

/// What could not be varied, and why.
fn not_varied(proof: &ProofResult) -> String {
    let each = proof.not_varied.iter();
    let each = each.map(|one| format!("{} could not be changed: {}.", one.factor, one.why));
    each.collect::<Vec<_>>().join(" ")
}

/// Why there is no proof although one was requested; none if it was not.
pub(crate) fn why_no_proof(document: &ResultDocument) -> Option<String> {
    let proof = document.proof.as_ref()?;
    Some(match proof.rows.is_empty() {
        true => not_varied(proof),
        false => "No round of the proof was completed.".into(),
    })
}

/// Every trial in order of execution.
pub(crate) fn trials(document: &ResultDocument) -> Table {
    let whole: Vec<Option<&OperationResult>> = document.trials.iter().map(TrialResult::whole).collect();
    let each =
        |value: fn(&OperationResult) -> f64| whole.iter().flatten().map(move |operation| value(operation));
    let rate = Quantity::Rate(rate_word(&document.traits)).scale(each(|operation| operation.rate_per_s));
    let times = Quantity::Milliseconds.scale(each(|operation| operation.response_ms.p99));
    let heads = [
        "trial".to_string(),
        format!(">{}", rate.unit),
        format!(">p50, {}", times.unit),
        format!(">p99, {}", times.unit),
        ">failed".into(),
        ">doubts".into(),
        "ended".into(),
    ];
    let mut table = Table::new("", &heads.each_ref().map(String::as_str));
    for (trial, whole) in document.trials.iter().zip(&whole) {
        let mut cells = vec![Cell::words(trial.trial.clone())];
        match whole {
            Some(operation) => cells.extend([
                Cell::number(operation.rate_per_s, &rate),
                Cell::statistic(&operation.response_ms, "p50", &times),
                Cell::statistic(&operation.response_ms, "p99", &times),
                Cell::number(operation.failed as f64, &Quantity::Count.scale([0.0])),
            ]),
            None => cells.extend([const { "-" }; 4].map(Cell::words)),
        }
        cells.push(Cell::words(match trial.doubts.len() {
            0 => String::new(),
            count => count.to_string(),
        }));
        cells.push(Cell::words(trial.ending.to_string()));
        table.row(cells);
    }
    table
}
