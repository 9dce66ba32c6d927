//! The answer of `plimsoll size` as a terminal page: the answer first, then what it rests on.

use model::cost::CostKind;
use model::sizing::SizingAnswer;
use model::{Estimate, SizingDocument, Unit};

use crate::costs::{amount, kind_name, payer_name};
use crate::table::{Cell, Table};
use crate::terminal::{Page, Terminal};
use crate::text::{Quantity, percent, plain, things};

/// What a load needs of a system, and what the system carries.
pub fn sizing(document: &SizingDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&document.experiment, &[format!("sizing for {}", document.goal.text)]);
    if !document.levels.is_empty() {
        page.title("measured");
        page.table(&levels(document));
    }
    if let Some(answer) = &document.answer {
        if !answer.resources.is_empty() {
            page.title("demand of an operation, and total demand of the load");
            page.table(&resources(document));
        }
        if !answer.price_list.is_empty() {
            page.title("total demand of the load, by part");
            page.table(&price_list(answer));
        }
        if let Some(held_out) = &answer.held_out {
            page.gap();
            page.sentence(&format!(
                "Check: the other levels predict {} at {} in flight ({} to {}); {} were measured.",
                rate(held_out.predicted_per_s.value),
                in_flight(held_out.concurrency),
                rate(held_out.predicted_per_s.low),
                rate(held_out.predicted_per_s.high),
                rate(held_out.measured_per_s)
            ));
        }
    }
    page.gap();
    for (why, levels) in left_out(document) {
        page.labelled("LEFT OUT", &format!("{}: {why}", levels.join(", ")));
    }
    page.labelled("VERDICT", &verdict(document));
    for text in &document.assumptions {
        page.labelled("ASSUMED", text);
    }
    for text in &document.warnings {
        page.labelled("WARNING", text);
    }
    page.gap();
    page.strong_label("ANSWER", &answer(document));
    page.finish()
}

/// The levels left out for each reason.
fn left_out(document: &SizingDocument) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in &document.left_out {
        match reasons.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, levels)) => levels.push(&one.level),
            None => reasons.push((&one.why, vec![&one.level])),
        }
    }
    reasons
}

/// The verdict of the record, which knows levels that are left out here.
fn verdict(document: &SizingDocument) -> String {
    match document.left_out.is_empty() {
        true => document.verdict.clone(),
        false => format!("of the whole record: {}", document.verdict),
    }
}

/// The answer in sentences.
fn answer(document: &SizingDocument) -> String {
    let Some(answer) = &document.answer else { return format!("None: {}.", document.refusal) };
    let asked = rate(document.goal.throughput_per_s);
    let carries = match answer.at_least {
        true => format!("This system carries at least {}", rate(answer.carries_per_s.value)),
        false => format!(
            "This system carries {} ({} to {})",
            rate(answer.carries_per_s.value),
            rate(answer.carries_per_s.low),
            rate(answer.carries_per_s.high)
        ),
    };
    let headroom = match answer.headroom {
        share if share >= 1.0 => format!("{} times the {asked} requested", plain(1.0 + share)),
        share if share >= 0.0 => format!("{} more than the {asked} requested", percent(share)),
        share => format!("{} less than the {asked} requested", percent(-share)),
    };
    let mut text = format!("{carries}, {headroom}. Its limit: {}.", answer.limit);
    let short = answer.resources.iter().filter(|row| row.needed.value > row.amount);
    let needs: Vec<String> = short
        .map(|row| {
            format!(
                "{}: {} {} ({} to {}) instead of {}",
                row.resource,
                plain(row.needed.value),
                row.unit,
                plain(row.needed.low),
                plain(row.needed.high),
                plain(row.amount)
            )
        })
        .collect();
    if !needs.is_empty() {
        text.push_str(&format!(
            " To carry the requested load with each resource at most {:.0} % utilized, it needs {}.",
            100.0 * answer.planned_share,
            needs.join(", and ")
        ));
    }
    if answer.extrapolated {
        let most = document.levels.iter().map(|level| level.throughput_per_s).fold(0.0, f64::max);
        let what = match answer.carries_per_s.value > most {
            true => "This is extrapolated",
            false => "What the load needs is extrapolated",
        };
        text.push_str(&format!(" {what}: at most {} were measured.", rate(most)));
    }
    text
}

fn rate(value: f64) -> String {
    Quantity::Rate("/s").show(value)
}

/// A mean number in flight: whole users are not shown as 7.99.
fn in_flight(mean: f64) -> String {
    match (mean - mean.round()).abs() <= 0.02 * mean {
        true => model::quantity::thousands(mean.round()),
        false => plain(mean),
    }
}

fn levels(document: &SizingDocument) -> Table {
    let rates = Quantity::Rate("ops/s").scale(document.levels.iter().map(|level| level.throughput_per_s));
    let times = Quantity::Milliseconds.scale(document.levels.iter().filter_map(|level| level.response_ms));
    let part = document.goal.response.as_ref().map_or("p95", |goal| {
        goal.text.split(['<', ' ']).next().and_then(|name| name.rsplit('.').next()).unwrap_or("response")
    });
    let heads = [
        ">in flight".to_string(),
        format!(">{}", rates.unit),
        format!(">{part}, {}", times.unit),
        ">runs".to_string(),
    ];
    let mut table = Table::new("", &heads.each_ref().map(String::as_str));
    for level in &document.levels {
        table.row(vec![
            Cell::shown(level.concurrency, in_flight(level.concurrency)),
            Cell::number(level.throughput_per_s, &rates),
            level.response_ms.map_or_else(|| Cell::words("-"), |response| Cell::number(response, &times)),
            Cell::shown(f64::from(level.runs), level.runs.to_string()),
        ]);
    }
    table
}

fn resources(document: &SizingDocument) -> Table {
    let heads =
        ["resource", ">available", ">per operation", ">carries, /s", ">needed", ">if doubled", "unit"];
    let mut table = Table::new("", &heads);
    let shown = |value: f64| Cell::shown(value, plain(value));
    let estimate = |estimate: &Estimate| {
        shown(estimate.value)
            .then(Cell::words(" ["))
            .then(shown(estimate.low))
            .then(Cell::words(" to "))
            .then(shown(estimate.high))
            .then(Cell::words("]"))
    };
    for row in document.answer.iter().flat_map(|answer| &answer.resources) {
        table.row(vec![
            Cell::words(row.resource.clone()),
            shown(row.amount),
            shown(row.demand.value),
            shown(row.carries_per_s.value),
            estimate(&row.needed),
            Cell::shown(row.twice_gives, format!("x {:.2}", row.twice_gives)),
            Cell::words(row.unit.clone()),
        ]);
    }
    table
}

/// What one operation takes of each resource, and the load in all.
fn price_list(answer: &SizingAnswer) -> Table {
    let planned = format!(">at {:.0} % utilization", 100.0 * answer.planned_share);
    let heads = ["operation", "", "", ">per operation", ">for the load", &planned];
    let mut table = Table::new("", &heads);
    for row in &answer.price_list {
        // Seconds of CPU per second are CPUs; what else takes time is as many threads or requests at once.
        let per_s = |value: f64| match (row.kind, row.kind.unit()) {
            (CostKind::UserCpu | CostKind::SystemCpu, _) => Quantity::Cpus.show(value),
            (_, Unit::Seconds) => format!("{} at once", things(value)),
            (_, Unit::Bytes) => Quantity::BytesPerSecond.show(value),
            _ => rate(value),
        };
        let shown = |value: f64| Cell::shown(value, per_s(value));
        table.row(vec![
            Cell::words(row.operation.to_string()),
            Cell::words(payer_name(&row.of)),
            Cell::words(kind_name(row.kind)),
            Cell::shown(row.each.value, amount(row.kind, row.each.value)),
            shown(row.for_load_per_s.value),
            shown(row.with_headroom_per_s),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use model::SizeGoal;

    use super::*;
    use crate::recorded;

    /// What the program answers of a stored run.
    fn sized(run: &str, goal: &str) -> SizingDocument {
        let of = recorded::run(run);
        let goal = SizeGoal::parse(goal, &["get", "read"]).unwrap();
        let mut answer = analysis::sizing::sizing(&of.study, &of.document, &goal, None);
        answer.verdict = crate::sentences::verdict(&of.document);
        answer
    }

    #[test]
    fn the_answer_comes_last_with_what_it_rests_on() {
        let answer = sized("users", "300/s with get.response.p95 <= 100ms");
        insta::assert_snapshot!("sizing-users", sizing(&answer, Terminal::default()));
    }

    #[test]
    fn what_a_proof_turned_is_sized() {
        insta::assert_snapshot!("sizing-proof", sizing(&sized("proof", "150/s"), Terminal::default()));
    }

    #[test]
    fn a_refusal_says_why() {
        let page = sizing(&sized("queue-depth", "1000000/s"), Terminal::default());
        assert!(page.contains(" ANSWER    None: "), "{page}");
    }
}
