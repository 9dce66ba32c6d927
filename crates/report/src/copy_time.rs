//! The answer of `plimsoll size` for a copy: how long so many bytes take.

use model::copy_time::{CopyNote, CopyTime, CopyTimeDocument};
use model::quantity::long_time;
use serde_json::Value;

use crate::labels;
use crate::table::{Cell, Table};
use crate::terminal::{Page, Terminal};
use crate::text::{Quantity, plural, sentence_start};

/// The answer as a terminal page, after what it rests on.
pub fn copy_time(document: &CopyTimeDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&document.experiment, &[format!("time to copy {}", document.goal.text)]);
    if !document.configurations.is_empty() {
        page.title("measured");
        page.table(&measured(document));
    }
    page.gap();
    for (label, text) in notes(document) {
        page.labelled(label, &text);
    }
    page.gap();
    for (at, answer) in answers(document).iter().enumerate() {
        match at {
            0 => page.strong_label("ANSWER", answer),
            _ => page.continued(answer),
        }
    }
    page.finish()
}

/// The document with its sentences.
pub fn copy_time_json(document: &CopyTimeDocument) -> Value {
    let mut value = serde_json::to_value(document).unwrap_or_default();
    for (of, shown) in document.configurations.iter().zip(items(&mut value, "configurations")) {
        shown["text"] = answer(document, of).into();
        for (name, notes) in [("assumptions", &of.assumptions), ("warnings", &of.warnings)] {
            for (note, shown) in notes.iter().zip(items(shown, name)) {
                shown["text"] = sentence(*note).into();
            }
        }
    }
    value
}

fn items<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn bytes(value: f64) -> String {
    Quantity::Bytes.show(value)
}

fn rate(value: f64) -> String {
    Quantity::BytesPerSecond.show(value)
}

fn measured(document: &CopyTimeDocument) -> Table {
    let heads = [
        "configuration",
        ">copied",
        ">mean rate",
        ">into the cache",
        ">accepted",
        ">past it",
        ">drain",
        ">trials",
    ];
    let mut table = Table::new("", &heads);
    let shown = |value: f64, text: String| Cell::shown(value, text);
    let absent = || Cell::words("-");
    for of in &document.configurations {
        let copy = &of.based_on;
        let cache = copy.cache;
        let past = cache.and_then(|cache| cache.past_bytes_per_s).map(|past| past.value);
        let drained = copy.drain.and_then(|drain| drain.bytes_per_s);
        table.row(vec![
            Cell::words(name(document, of)),
            shown(copy.bytes, bytes(copy.bytes)),
            shown(copy.mean_bytes_per_s.value, rate(copy.mean_bytes_per_s.value)),
            cache.map_or_else(absent, |of| shown(of.into_bytes_per_s, rate(of.into_bytes_per_s))),
            cache.map_or_else(absent, |of| {
                let at_least = if of.past_bytes_per_s.is_none() { "at least " } else { "" };
                shown(of.accepted_bytes.value, format!("{at_least}{}", bytes(of.accepted_bytes.value)))
            }),
            past.map_or_else(absent, |past| shown(past, rate(past))),
            drained.map_or_else(absent, |drained| shown(drained, rate(drained))),
            shown(f64::from(of.trials), of.trials.to_string()),
        ]);
    }
    table
}

/// A configuration by its level; empty for the only one.
fn name(document: &CopyTimeDocument, of: &CopyTime) -> String {
    match document.configurations.len() {
        1 => String::new(),
        _ => labels::series_text(&of.configuration),
    }
}

/// What the answers rest on and what limits them, each once.
fn notes(document: &CopyTimeDocument) -> Vec<(&'static str, String)> {
    let mut notes: Vec<(&'static str, String)> = Vec::new();
    for of in &document.configurations {
        let all = [("ASSUMED", &of.assumptions), ("WARNING", &of.warnings)];
        for (label, note) in
            all.into_iter().flat_map(|(label, notes)| notes.iter().map(move |of| (label, of)))
        {
            let about = match (name(document, of), note) {
                (_, CopyNote::CacheEmpty | CopyNote::FewTrials { .. }) => String::new(),
                (name, _) if name.is_empty() => name,
                (name, _) => format!("{name}: "),
            };
            let line = (label, format!("{about}{}", sentence(*note)));
            if !notes.contains(&line) {
                notes.push(line);
            }
        }
    }
    notes.sort_by_key(|(label, _)| *label);
    notes
}

fn sentence(note: CopyNote) -> String {
    match note {
        CopyNote::RateHolds { past_bytes_per_s, copied_bytes } => format!(
            "the lower rate stays {} beyond the {} that were copied: there is no second cache, and the device does \
             not slow down as it fills",
            rate(past_bytes_per_s),
            bytes(copied_bytes)
        ),
        CopyNote::CacheEmpty => "the cache is empty at the start".into(),
        CopyNote::CauseNotShown => {
            "the counters do not show why the rate fell: it may be no cache, and rise again".into()
        }
        CopyNote::LargerCache { copied_bytes } => format!(
            "the rate did not fall within {}: a larger cache cannot be excluded, and past it the copy takes longer; copy more \
             than the cache holds",
            bytes(copied_bytes)
        ),
        CopyNote::DrainRate { bytes_per_s, seconds } => format!(
            "a part of the copy was still in the page cache at its end, and drained at {}: at this rate all bytes take {}",
            rate(bytes_per_s),
            long_time(seconds)
        ),
        CopyNote::FewTrials { trials } => format!(
            "{} measured: the interval shows the noise within a copy only, not how much copies differ; use --replicates 3 or \
             more",
            if trials == 1 { "one copy was".into() } else { format!("{trials} copies were") }
        ),
    }
}

fn answers(document: &CopyTimeDocument) -> Vec<String> {
    match document.configurations.as_slice() {
        [] => vec![format!("None: {}.", document.refusal)],
        all => all.iter().map(|of| answer(document, of)).collect(),
    }
}

fn answer(document: &CopyTimeDocument, of: &CopyTime) -> String {
    let name = name(document, of);
    let about = if name.is_empty() { String::new() } else { format!("{}: ", sentence_start(&name)) };
    let model::Estimate { value, low, high } = of.seconds;
    let trials = plural(of.trials as usize, "trial");
    let interval = match low < high {
        true => format!("95 % interval {} to {}, {trials}", long_time(low), long_time(high)),
        false => format!("{trials}, no interval"),
    };
    let copy = &of.based_on;
    let how = match copy.cache.and_then(|cache| Some((cache, cache.past_bytes_per_s?.value))) {
        Some((cache, past)) => format!(
            "the first {} at {}, the rest at {}",
            bytes(cache.accepted_bytes.value),
            rate(cache.into_bytes_per_s),
            rate(past)
        ),
        None => "at the mean rate of the copy, its final flush included".into(),
    };
    let extrapolated = match of.extrapolated {
        true => format!(" This is extrapolated: {} were copied.", bytes(copy.bytes)),
        false => String::new(),
    };
    format!("{about}{} take {} ({interval}): {how}.{extrapolated}", document.goal.text, long_time(value))
}
