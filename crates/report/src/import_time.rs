//! The answer of `plimsoll size` for an import: how long so many entries take.

use model::import_time::{ImportTime, ImportTimeDocument};
use model::quantity::long_time;
use serde_json::Value;

use crate::labels;
use crate::table::{Cell, Table};
use crate::terminal::{Page, Terminal};
use crate::text::{Quantity, percent, sentence_start};

/// Beyond this multiple of the largest import, the answer is called an extrapolation.
const EXTRAPOLATED: f64 = 1.25;

/// The answer as a terminal page, after what it rests on.
pub fn import_time(document: &ImportTimeDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&document.experiment, &[format!("time to import {}", document.goal.in_words())]);
    if !document.configurations.is_empty() {
        page.title("measured");
        page.table(&measured(document));
        page.title("laws");
        page.table(&laws(document));
    }
    page.gap();
    for of in &document.configurations {
        for (label, text) in notes(document, of) {
            page.labelled(label, &text);
        }
    }
    page.gap();
    if document.configurations.is_empty() {
        page.strong_label("ANSWER", &format!("None: {}.", document.refusal));
    }
    for (at, of) in document.configurations.iter().enumerate() {
        match at {
            0 => page.strong_label("ANSWER", &answer(document, of)),
            _ => page.continued(&answer(document, of)),
        }
    }
    page.finish()
}

/// The document with its sentences.
pub fn import_time_json(document: &ImportTimeDocument) -> Value {
    let mut value = serde_json::to_value(document).unwrap_or_default();
    let shown = value.get_mut("configurations").and_then(Value::as_array_mut).into_iter().flatten();
    for (of, shown) in document.configurations.iter().zip(shown) {
        shown["text"] = answer(document, of).into();
        let notes: Vec<String> = notes(document, of).into_iter().map(|(_, text)| text).collect();
        shown["notes"] = notes.into();
    }
    value
}

/// A configuration by its levels; empty for the only one.
fn name(document: &ImportTimeDocument, of: &ImportTime) -> String {
    match document.configurations.len() {
        1 => String::new(),
        _ if of.configuration.is_empty() => "baseline".into(),
        _ => labels::series_text(&of.configuration),
    }
}

fn measured(document: &ImportTimeDocument) -> Table {
    let mut table = Table::new("", &["configuration", ">entries", ">time", ">entries/s", ">trials"]);
    for of in &document.configurations {
        for (at, size) in of.sizes.iter().enumerate() {
            let rate = size.entries / size.seconds;
            table.row(vec![
                Cell::words(if at == 0 { name(document, of) } else { String::new() }),
                Cell::shown(size.entries, Quantity::Count.show(size.entries)),
                Cell::shown(size.seconds, Quantity::Seconds.show(size.seconds)),
                Cell::shown(rate, Quantity::Count.show(rate.round())),
                Cell::shown(f64::from(size.trials), size.trials.to_string()),
            ]);
        }
    }
    table
}

fn laws(document: &ImportTimeDocument) -> Table {
    let mut table = Table::new("", &["configuration", "time of n entries", ">weight", ">prediction"]);
    for of in &document.configurations {
        for (at, law) in of.laws.iter().enumerate() {
            table.row(vec![
                Cell::words(if at == 0 { name(document, of) } else { String::new() }),
                Cell::words(law.formula.clone()),
                Cell::shown(law.weight, percent(law.weight)),
                Cell::shown(law.seconds, long_time(law.seconds)),
            ]);
        }
    }
    table
}

fn notes(document: &ImportTimeDocument, of: &ImportTime) -> Vec<(&'static str, String)> {
    let name = name(document, of);
    let about = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let mut notes = Vec::new();
    match &of.held_out {
        Some(held) => {
            let inside = (held.predicted_s.low..=held.predicted_s.high).contains(&held.measured_s);
            notes.push((
                "CHECK",
                format!(
                    "{about}the {} entries predicted from the smaller imports: {} (interval {} to {}); measured {}, so the \
                     prediction is {} {}{}",
                    Quantity::Count.show(held.entries),
                    long_time(held.predicted_s.value),
                    long_time(held.predicted_s.low),
                    long_time(held.predicted_s.high),
                    long_time(held.measured_s),
                    percent(held.error.abs()),
                    if held.error < 0.0 { "too short" } else { "too long" },
                    if inside { "" } else { ", outside of its interval" },
                ),
            ));
        }
        None => notes.push((
            "WARNING",
            format!(
                "{about}with fewer than four numbers of entries, the prediction is not checked on one of them"
            ),
        )),
    }
    if let (Some(database), Some(memory)) = (of.database_bytes, of.memory_bytes) {
        let shown = Quantity::Bytes.show(database);
        match database > memory {
            true => notes.push((
                "WARNING",
                format!(
                    "{about}the database would have {shown}, more than the memory of this host ({}): past its memory an \
                     import reads from the disk and is slower than predicted; measure one that is larger than the memory",
                    Quantity::Bytes.show(memory)
                ),
            )),
            false => notes.push((
                "ASSUMED",
                format!(
                    "{about}the database of {shown} stays in memory, as those that were measured ({} on this host)",
                    Quantity::Bytes.show(memory)
                ),
            )),
        }
    }
    notes
}

fn answer(document: &ImportTimeDocument, of: &ImportTime) -> String {
    let name = name(document, of);
    let about = if name.is_empty() { String::new() } else { format!("{}: ", sentence_start(&name)) };
    let model::Estimate { value, low, high } = of.seconds;
    let extrapolated = match of.distance > EXTRAPOLATED {
        true => {
            format!(" This is extrapolated: {} times the largest import.", Quantity::Plain.show(of.distance))
        }
        false => String::new(),
    };
    format!(
        "{about}{} take {} (90 % interval {} to {}).{extrapolated}",
        document.goal.in_words(),
        long_time(value),
        long_time(low),
        long_time(high)
    )
}
