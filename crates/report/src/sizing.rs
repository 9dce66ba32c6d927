//! The answer of `plimsoll size` as a terminal page: the answer first, then what it rests on.

use model::{Estimate, SizingDocument};

use crate::table::{Cell, Table};
use crate::terminal::{Page, Terminal};
use crate::text::{Quantity, plain};

/// What a load needs of a system, and what the system carries.
pub fn sizing(document: &SizingDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&document.experiment, &format!("sizing for {}", document.goal.text));
    if !document.levels.is_empty() {
        page.title("measured");
        page.table(&levels(document));
    }
    if let Some(answer) = &document.answer {
        if !answer.resources.is_empty() {
            page.title("what an operation takes, and what the load needs");
            page.table(&resources(document));
        }
        if let Some(held_out) = &answer.held_out {
            page.gap();
            page.sentence(&format!(
                "Checked: from the other levels {} were foretold at {} in flight ({} to {}), {} were measured.",
                rate(held_out.predicted_per_s.value),
                plain(held_out.concurrency),
                rate(held_out.predicted_per_s.low),
                rate(held_out.predicted_per_s.high),
                rate(held_out.measured_per_s)
            ));
        }
    }
    page.gap();
    page.labelled("VERDICT", &document.verdict);
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
    let room = match answer.headroom {
        room if room >= 0.0 => format!("{} more than the {asked} asked", percent(room)),
        room => format!("{} less than the {asked} asked", percent(-room)),
    };
    let mut text = format!("{carries}, {room}; its limit: {}.", answer.limit);
    if answer.headroom < 0.0 || answer.resources.iter().any(|row| row.needed.value > row.amount) {
        let short = answer.resources.iter().filter(|row| row.needed.value > row.amount);
        let needs: Vec<String> = short
            .map(|row| {
                format!(
                    "{}: {} {} ({} to {}) where there are {}",
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
            text.push_str(&format!(" It would need more of {}.", needs.join(", and of ")));
        }
    }
    if answer.extrapolated {
        text.push_str(" This lies beyond what was measured.");
    }
    text
}

fn rate(value: f64) -> String {
    Quantity::Rate("/s").show(value)
}

fn percent(share: f64) -> String {
    Quantity::Share.show(share)
}

fn levels(document: &SizingDocument) -> Table {
    let rates = Quantity::Rate("ops/s").scale(document.levels.iter().map(|level| level.throughput_per_s));
    let times = Quantity::Milliseconds.scale(document.levels.iter().filter_map(|level| level.response_ms));
    let part = document.goal.response.as_ref().map_or("p95", |goal| {
        goal.text.split(['<', ' ']).next().and_then(|name| name.rsplit('.').next()).unwrap_or("response")
    });
    let heads = [">in flight".to_string(), format!(">{}", rates.unit), format!(">{part}, {}", times.unit)];
    let mut table = Table::new("", &heads.each_ref().map(String::as_str));
    for level in &document.levels {
        table.row(vec![
            Cell::shown(level.concurrency, plain(level.concurrency)),
            Cell::number(level.throughput_per_s, &rates),
            level.response_ms.map_or_else(|| Cell::words("-"), |response| Cell::number(response, &times)),
        ]);
    }
    table
}

fn resources(document: &SizingDocument) -> Table {
    let heads =
        ["resource", ">there is", ">for one op", ">carries, /s", ">needed", ">twice of it gives", "unit"];
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
            Cell::shown(row.twice_gives, format!("x{:.2}", row.twice_gives)),
            Cell::words(row.unit.clone()),
        ]);
    }
    table
}
