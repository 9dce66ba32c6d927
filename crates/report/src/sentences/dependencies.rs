//! What is said about dependencies: the sensitivity to their delays, and where the time of a request goes.

use model::ResultDocument;
use model::quantity::three_figures;
use model::result::ConfigurationSteps;
use model::run::{OperationUnit, WorkloadTraits};
use model::sensitivity::{NEGLIGIBLE, Sensitivity, SensitivityAnswer, TimeMeasure};
use model::steps::Step;

use super::listed;
use crate::text::{percent, plural, things, time_ms};

/// Counted round trips beyond the interval of those that are waited for, from which it is said.
const MORE: f64 = 0.5;

/// One operation of the load: `request`.
pub(crate) fn operation_word(traits: &WorkloadTraits) -> &'static str {
    match traits.unit {
        OperationUnit::Request => "request",
        OperationUnit::Object => "object",
        OperationUnit::Entry => "entry",
        OperationUnit::Launch => "launch",
        OperationUnit::Io | OperationUnit::Operation => "operation",
    }
}

/// Whether only delays of dependencies were varied, so that the sensitivity is the answer.
pub(crate) fn is_of_delays(document: &ResultDocument) -> bool {
    let is_delay = |factor: &str| document.sensitivity.iter().any(|row| row.factor == factor);
    let changes = document.configurations.iter().flat_map(|of| &of.treatment.changes);
    let is_known = document.sensitivity.iter().any(|row| row.round_trips.is_some());
    document.limit.is_none() && is_known && changes.into_iter().all(|change| is_delay(&change.factor.0))
}

/// The rows of the operation that stands for all: `all`, the only one, or the most sensitive one of several steps.
pub(crate) fn main_rows(document: &ResultDocument) -> Vec<&Sensitivity> {
    let whole = document.trials.iter().find_map(|trial| trial.whole()).map(|whole| &whole.name);
    let rows = &document.sensitivity;
    let largest =
        rows.iter().max_by(|a, b| a.round_trips.unwrap_or(0.0).total_cmp(&b.round_trips.unwrap_or(0.0)));
    let of_whole = rows.iter().any(|row| Some(&row.operation) == whole);
    let operation = if of_whole { whole } else { largest.map(|row| &row.operation) };
    rows.iter().filter(|row| Some(&row.operation) == operation).collect()
}

/// Round trips with their interval: `2.03 round trips per request (1.98 to 2.09)`.
fn round_trips(row: &Sensitivity, word: Option<&str>) -> String {
    let value = row.round_trips.unwrap_or(0.0);
    let interval = row
        .low
        .zip(row.high)
        .map_or(String::new(), |(low, high)| format!(" ({} to {})", three_figures(low), three_figures(high)));
    let noun = word.map_or(String::new(), |word| format!(" round trips per {word}"));
    format!("{}{noun}{interval}", three_figures(value))
}

/// The answer and its details: which dependency matters most, the others, and what each row needs to be understood.
pub(crate) fn sensitivity(document: &ResultDocument) -> (Option<String>, Vec<String>) {
    let rows = main_rows(document);
    let word = operation_word(&document.traits);
    let Some(first) = rows.first() else { return (None, Vec::new()) };
    let what = match first.measure {
        TimeMeasure::Response => "Response time".to_string(),
        TimeMeasure::Elapsed => format!("The time per {word} of {}", first.operation),
    };
    let of = |row: &&Sensitivity| {
        let words = match row.answer {
            SensitivityAnswer::Depends => round_trips(row, None),
            SensitivityAnswer::None => "none".into(),
            SensitivityAnswer::Unclear => format!("can't tell, {}", round_trips(row, None)),
            SensitivityAnswer::NotLinear => "not a straight line".into(),
            SensitivityAnswer::NoTraffic => "no traffic".into(),
        };
        format!("`{}`: {words}", row.dependency)
    };
    let most = rows.iter().position(|row| row.answer == SensitivityAnswer::Depends);
    let others = |skipped: Option<usize>| {
        let others = rows.iter().enumerate().filter(|(at, _)| Some(*at) != skipped);
        others.map(|(_, row)| of(row)).collect::<Vec<_>>().join("; ")
    };
    let answer = match most {
        Some(at) => {
            let is_only = rows.len() == 1;
            let head = format!(
                "{what} depends {}on `{}`: {}",
                if is_only { "" } else { "most " },
                rows[at].dependency,
                round_trips(rows[at], Some(word))
            );
            if is_only { format!("{head}.") } else { format!("{head}; {}.", others(most)) }
        }
        None if rows.iter().all(|row| row.answer == SensitivityAnswer::None) => {
            let names: Vec<String> = rows.iter().map(|row| format!("`{}`", row.dependency)).collect();
            format!("{what} does not depend on the delay of {}.", listed(&names))
        }
        None => format!("{what}, round trips per {word}: {}.", others(None)),
    };
    (Some(answer), rows.iter().filter_map(|row| remark(row, word)).collect())
}

/// What a row needs to be understood; none if its number says it all.
fn remark(row: &Sensitivity, word: &str) -> Option<String> {
    let name = &row.dependency;
    let counted = row.exchanges.map(|exchanges| exchanges + row.connections.unwrap_or(0.0));
    match row.answer {
        // A warning says it.
        SensitivityAnswer::NoTraffic => None,
        SensitivityAnswer::NotLinear => {
            let levels: Vec<String> = row
                .levels
                .iter()
                .map(|level| format!("{} at {} of added delay", time_ms(level.time_ms), time_ms(level.added_ms)))
                .collect();
            Some(format!(
                "`{name}`: the time is not on a straight line over the delay: {}. A timeout, a cache or a full pool changes it.",
                listed(&levels)
            ))
        }
        SensitivityAnswer::None => counted.filter(|counted| *counted > NEGLIGIBLE).map(|counted| {
            format!(
                "`{name}`: {} exchanges per {word} were counted, and no {word} waits for them: they run beside it, or a queue hides them.",
                things(counted)
            )
        }),
        SensitivityAnswer::Depends => {
            let high = row.high.or(row.round_trips)?;
            let counted = counted.filter(|counted| *counted > high + MORE)?;
            Some(format!(
                "`{name}`: {} exchanges per {word} were counted, more than those that follow one another: the others run at the same time or beside the {word}.",
                things(counted)
            ))
        }
        SensitivityAnswer::Unclear if row.low.is_none() => {
            Some(format!("`{name}`: too few trials for an interval. Set replicates = 3 or more."))
        }
        SensitivityAnswer::Unclear => {
            Some(format!("`{name}`: the trials scatter too much. Set larger levels, or more replicates."))
        }
    }
}

/// The name of a step: `directory #2`, or `database #3 to #52` for several exchanges.
pub(crate) fn step_name(step: &Step) -> String {
    let last = step.number.saturating_add(step.exchanges.saturating_sub(1));
    match step.exchanges {
        0 | 1 => format!("{} #{}", step.dependency, step.number),
        _ => format!("{} #{} to #{last}", step.dependency, step.number),
    }
}

/// Where the time of a request goes: the share of each dependency and of the system itself.
pub(crate) fn where_time_goes(of: &ConfigurationSteps) -> Option<String> {
    let request = &of.request;
    if !of.is_ordered {
        return None;
    }
    let total_ms = request.total_ms.mean;
    let mut parts: Vec<(String, f64)> = Vec::new();
    for step in &request.steps {
        let name = format!("in `{}`", step.dependency);
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += step.adds_ms,
            None => parts.push((name, step.adds_ms)),
        }
    }
    let own: f64 = request.steps.iter().map(|step| step.own_before_ms.mean).sum();
    parts.push(("in the system itself".into(), own + request.own_after_ms.mean));
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> = parts.iter().map(|(name, ms)| format!("{} {name}", time_ms(*ms))).collect();
    Some(format!("A request takes {}: {}.", time_ms(total_ms), listed(&parts)))
}

/// On which requests the steps rest, and what is missing where they have no order.
pub(crate) fn basis(of: &ConfigurationSteps) -> String {
    let request = &of.request;
    let share = |part: u64, whole: u64| percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 });
    let count = plural(usize::try_from(request.requests).unwrap_or(usize::MAX), "request");
    if of.is_ordered {
        return format!(
            "Of {count}, {} can be separated from others, and {} of those have this order. Means add up.",
            share(request.usable, request.requests),
            share(request.same_order, request.usable)
        );
    }
    let exchanges = of.per_operation.filter(|each| request.requests > 0 && !(0.8..1.25).contains(each));
    match exchanges {
        Some(each) => format!(
            "The order of the exchanges is not known: the proxy of `{}` saw {} exchanges per operation, because operations share or open connections. Use HTTP/1.1 with kept connections.",
            request.front,
            things(each)
        ),
        None => format!(
            "The order of the exchanges is not known: {} of {count} can be separated from others. Measure with one user: closed = 1 in [load].",
            share(request.usable, request.requests)
        ),
    }
}
