//! A result as JSON: the document and its sentences.

use model::verdict::InconclusiveReason;
use model::{ResultDocument, Verdict};
use serde_json::{Value, json};

use crate::sentences;
use crate::text::is_hidden;

/// The same JSON, with terminal control characters escaped that `serde_json` does not escape.
pub fn escaped_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => out.push_str(&format!("\\u{:04x}", c as u32)),
            false => out.push(c),
        }
    }
    out
}

/// The complete document with all displayed sentences, pretty-printed. A number that is not finite is `null`.
pub fn json(document: &ResultDocument) -> String {
    // Every map of a document has text keys, so writing it cannot fail; an error would still be reported as JSON.
    let text = serde_json::to_value(document)
        .map(|mut value| {
            add_sentences(&mut value, document);
            value
        })
        .and_then(|value| serde_json::to_string_pretty(&value));
    match text {
        Ok(text) => escaped_json(&text) + "\n",
        Err(error) => format!("{}\n", json!({ "error": error.to_string() })),
    }
}

/// The verdict of a result with its sentences, as in the JSON of the result.
pub fn verdict_json(document: &ResultDocument) -> Value {
    let mut value = serde_json::to_value(&document.verdict).unwrap_or_default();
    add_verdict(&mut value, &document.verdict, document);
    value["text"] = sentences::verdict(document).into();
    if let (Verdict::Bottleneck { .. }, Some(proof)) = (&document.verdict, sentences::proof(document)) {
        value["proof"] = proof.into();
    }
    value
}

fn add_sentences(value: &mut Value, document: &ResultDocument) {
    let headline = sentences::headline(document);
    value["headline"] = json!({
        "answer": headline.answer,
        "details": headline.details,
        "why": headline.why,
        "limits": headline.limits,
        "next": sentences::next_command(document).map(|next| next.command),
    });
    for (finding, shown) in document.findings.iter().zip(items(value, "/findings")) {
        shown["resource"] = finding.about.as_ref().map_or(String::new(), ToString::to_string).into();
        shown["text"] = sentences::finding(finding).into();
        for (side, evidence) in [("/evidence", &finding.evidence), ("/against", &finding.against)] {
            for (evidence, shown) in evidence.iter().zip(items(shown, side)) {
                shown["text"] = sentences::evidence(evidence).into();
            }
        }
    }
    value["verdict"] = verdict_json(document);
    if let Some(observed) = document.proof.as_ref().and_then(|proof| proof.observed.as_ref()) {
        add_verdict(&mut value["proof"]["observed"], observed, document);
    }
    for (configuration, shown) in document.configurations.iter().zip(items(value, "/configurations")) {
        if let Some(verdict) = &configuration.verdict {
            add_verdict(&mut shown["verdict"], verdict, document);
            shown["verdict"]["text"] = sentences::verdict_of_configuration(configuration, document).into();
        }
        if let Some(next) = &configuration.next {
            shown["next"]["text"] = sentences::closest(next).into();
        }
        for (step, shown) in configuration.steps.iter().zip(items(shown, "/steps")) {
            add_verdict(&mut shown["verdict"], &step.verdict, document);
            shown["verdict"]["text"] = sentences::verdict_of_step(step, configuration, document).into();
            if let Some(next) = &step.next {
                shown["next"]["text"] = sentences::closest(next).into();
            }
        }
    }
}

/// The entries of a list in it; none without such a list.
fn items<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

fn add_verdict(value: &mut Value, verdict: &Verdict, document: &ResultDocument) {
    value["text"] = sentences::verdict_of(verdict, document).into();
    if let Some(resource) = sentences::limiting(verdict) {
        value["resource"] = resource.into();
    }
    if let Verdict::Inconclusive { reason, lacks } = verdict {
        value["missing"] = lacks.iter().map(|lack| sentences::missing(document, lack)).collect();
        if let InconclusiveReason::Sides { sides } = reason {
            for (side, shown) in sides.iter().zip(items(value, "/reason/sides/sides")) {
                add_verdict(&mut shown["verdict"], &side.verdict, document);
            }
        }
    }
}
