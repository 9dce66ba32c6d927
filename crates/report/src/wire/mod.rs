//! The answer of `plimsoll wire`: operations on the wire as a terminal page, an HTML page and JSON.

mod html;
mod operations;
mod sentences;
mod tables;
#[cfg(test)]
mod tests;

use model::wire::WireDocument;
use serde_json::Value;

use crate::chart::sparkline;
use crate::json::escaped_json;
use crate::terminal::{Page, Terminal};

pub use html::wire_html;
pub use operations::{
    wire_operation_csv, wire_operation_csv_head, wire_operation_head, wire_operation_json,
    wire_operation_text,
};

/// The document as a terminal page.
pub fn wire(document: &WireDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&document.source, &sentences::facts(document));
    for sentence in sentences::summary(document) {
        page.sentence(&sentence);
    }
    for table in tables::of_operations(document).into_iter().chain(tables::rankings(document, false)) {
        page.title(&table.title);
        page.table(&table);
    }
    if let Some(slowest) = tables::slowest(document) {
        page.title(&slowest.title);
        page.table(&slowest);
    }
    over_time(&mut page, document);
    page.title("connections");
    for sentence in sentences::connections(document) {
        page.sentence(&sentence);
    }
    if let Some(connections) = tables::connections(document) {
        page.table(&connections);
    }
    if let Some(against) = &document.against {
        page.title("compared with the client");
        for table in tables::against(against) {
            if !table.title.is_empty() {
                page.gap();
                page.line(&format!(" {}", table.title));
            }
            page.table(&table);
        }
        page.gap();
        for finding in sentences::against(against) {
            page.labelled("FINDING", &finding);
        }
    }
    let missed = sentences::missed(document);
    if !missed.is_empty() {
        page.gap();
        for (at, sentence) in missed.iter().enumerate() {
            page.labelled(if at == 0 { "MISSED" } else { "" }, sentence);
        }
    }
    page.finish()
}

/// A line of blocks for each kind.
fn over_time(page: &mut Page, document: &WireDocument) {
    let timeline = &document.timeline;
    let length = timeline.series.first().map_or(0, |series| series.operations.len());
    if length < 2 {
        return;
    }
    page.title(&format!("operations per second, intervals of {}", crate::text::time_s(timeline.interval_s)));
    let names: Vec<String> = timeline
        .series
        .iter()
        .map(|series| tables::kind_name(document, &series.protocol, &series.kind))
        .collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (series, name) in timeline.series.iter().zip(names) {
        let rates: Vec<f64> =
            series.operations.iter().map(|count| *count as f64 / timeline.interval_s).collect();
        let largest = rates.iter().copied().fold(0.0, f64::max);
        let room = page.width().saturating_sub(width + 22).max(10);
        page.line(&format!(
            " {name:<width$}  {}  up to {}",
            sparkline(&rates, room),
            crate::text::per_s(largest)
        ));
    }
}

/// What the analysis missed, a sentence each.
pub fn wire_missed(document: &WireDocument) -> Vec<String> {
    sentences::missed(document)
}

/// The document with its sentences, as JSON.
pub fn wire_json(document: &WireDocument) -> String {
    // Every map of a document has text keys, so writing it cannot fail.
    let mut value = serde_json::to_value(document).unwrap_or_default();
    value["summary"] = sentences::summary(document).into();
    let missed = sentences::missed_each(document);
    for (text, shown) in missed.into_iter().zip(items(&mut value, "missed")) {
        shown["text"] = text.into();
    }
    if let Some(against) = &document.against {
        value["against"]["findings"] = sentences::against(against).into();
    }
    escaped_json(&serde_json::to_string_pretty(&value).unwrap_or_default()) + "\n"
}

fn items<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}
