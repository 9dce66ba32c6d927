//! The tables of a search for the limit.

use model::ResultDocument;
use model::limit::{ConfigurationLimit, LimitAnswer, LimitBound, LimitResult};

use super::Metric;
use super::published::published_in;
use crate::labels;
use crate::sentences::{goal_value, is_rate, load_number, load_unit};
use crate::table::{Cell, Table};
use crate::text::{Quantity, percent};

/// The bounds for each goal and configuration; none without a search.
pub(crate) fn limit(document: &ResultDocument) -> Option<Table> {
    let found = document.limit.as_ref()?;
    let unit = match found.is_resource() {
        true => labels::setting(&found.setting),
        false => load_unit(found),
    };
    let title = if found.is_resource() { "Smallest level" } else { "Limit" };
    let heads =
        ["configuration", "goal", "answer", ">meets it", ">misses it", ">width", "?>value", "?>throughput"];
    let several = found.configurations.len() > 1;
    let heads = if several { &heads[..] } else { &heads[1..] };
    let mut table = Table::new(format!("{title} for each goal, {unit}"), heads);
    table.note = match found.is_resource() {
        true => "Value and throughput at the smallest level that meets the goal.".into(),
        false => "Value and throughput at the largest load that meets the goal.".into(),
    };
    for of in &found.configurations {
        for goal in &of.goals {
            let load = |bound: &Option<LimitBound>| {
                bound.as_ref().map_or(Cell::words("-"), |one| load(found, one.load))
            };
            let mut row = vec![
                Cell::words(goal.goal.clone()),
                Cell::words(match goal.answer {
                    LimitAnswer::Found => "found",
                    LimitAnswer::NotReached if found.is_resource() => "always met",
                    LimitAnswer::NotReached => "not reached",
                    LimitAnswer::AlwaysMissed => "always missed",
                    LimitAnswer::Unclear => "can't tell",
                    LimitAnswer::GeneratorBound => "generator bound",
                }),
                load(&goal.meets),
                load(&goal.misses),
                goal.width.map_or(Cell::words("-"), |width| Cell::shown(width, percent(width))),
            ];
            let there = goal.meets.as_ref();
            let value = there.and_then(|bound| bound.value);
            row.push(value.map_or(Cell::words("-"), |value| {
                let is_bound = there.is_some_and(|bound| bound.is_bound);
                Cell::shown(value, goal_value(&goal.metric, value)).bounded(is_bound)
            }));
            let rate = throughput(document).quantity;
            row.push(there.map_or(Cell::words("-"), |bound| {
                Cell::shown(bound.rate_per_s, rate.show(bound.rate_per_s))
            }));
            if several {
                row.insert(0, Cell::words(labels::row(document, &of.configuration)));
            }
            table.row(row);
        }
    }
    Some(table)
}

/// Published limits beside the measured ones; none without any.
pub(crate) fn published_limits(document: &ResultDocument) -> Option<Table> {
    let found = document.limit.as_ref().filter(|found| !found.published.is_empty())?;
    let factor = found.published.first().map_or("", |row| row.factor.as_str());
    let heads = [
        "goal",
        &format!(">{}", labels::setting(factor)),
        ">published",
        ">meets it",
        ">misses it",
        "published in",
    ];
    let mut table = Table::new(format!("Limits beside published ones, {}", load_unit(found)), &heads);
    for row in &found.published {
        let published = match row.low {
            Some(low) if low == row.high => load_number(found, low),
            Some(low) => format!("{} to {}", load_number(found, low), load_number(found, row.high)),
            None => format!("below {}", load_number(found, row.high)),
        };
        let measured = |bound: Option<f64>| bound.map_or(Cell::words("-"), |one| load(found, one));
        table.row(vec![
            Cell::words(row.goal.clone()),
            Cell::words(labels::level_text(&row.level)),
            Cell::shown(row.high, published),
            measured(row.meets),
            measured(row.misses),
            Cell::words(row.name.clone()),
        ]);
    }
    table.note = published_in(found.published.iter().map(|row| row.source.as_str()));
    Some(table)
}

/// Every load of one configuration: throughput, response times, and whether it meets each goal.
pub(crate) fn loads(document: &ResultDocument, found: &LimitResult, of: &ConfigurationLimit) -> Table {
    let what = if found.is_resource() { "level" } else { "load" };
    let title = match found.configurations.len() {
        1 => format!("Every {what}"),
        _ => format!("Every {what}: {}", labels::labelled(document, &of.configuration)),
    };
    let Metric { quantity, .. } = throughput(document);
    let rates = quantity.scale(of.points.iter().map(|point| point.rate_per_s));
    let rate_head = format!(">{}", rates.unit);
    let load_head = match found.is_resource() {
        true => format!(">{}", labels::setting(&found.setting)),
        false if is_rate(found) => ">offered/s".into(),
        false if found.has_think_time => ">users".into(),
        false => ">in flight".into(),
    };
    let mut heads =
        vec![load_head.as_str(), ">trials", "", &rate_head, "?>mean", "?>p50", ">p95", ">p99", "?>failed"];
    heads.extend(of.goals.iter().map(|goal| goal.goal.as_str()));
    let mut table = Table::new(title, &heads);
    if of.points.iter().any(|point| !point.is_full) {
        table.note = "Short trials only guide the search; full-length trials decide.".into();
    }
    for point in &of.points {
        let length = if point.is_full { "full" } else { "short" };
        let time = |part: &str, ms: f64| {
            Cell::shown(ms, Quantity::Milliseconds.show(ms)).bounded(point.at_least.has(part))
        };
        let mut row = vec![
            load(found, point.load),
            Cell::shown(point.trials.len() as f64, point.trials.len().to_string()),
            Cell::words(length),
            Cell::number(point.rate_per_s, &rates),
            time("mean", point.mean_ms),
            time("p50", point.p50_ms),
            time("p95", point.p95_ms),
            time("p99", point.p99_ms),
            Cell::shown(point.failed, percent(point.failed)),
        ];
        row.extend(
            (0..of.goals.len())
                .map(|at| Cell::words(point.classes.get(at).map_or("-", |class| class.word()))),
        );
        table.row(row);
    }
    table
}

fn throughput(document: &ResultDocument) -> Metric {
    super::metric("rate_per_s", &document.traits)
}

fn load(found: &LimitResult, load: f64) -> Cell {
    Cell::shown(load, load_number(found, load))
}
