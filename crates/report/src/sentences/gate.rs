//! Whether a change makes the system slower, in sentences.

use model::ResultDocument;
use model::gate::{GateAnswer, GateLine, GateResult};

use super::goal_value;
use crate::labels;
use crate::text::{percent, plural, sentence_start};

/// The answer of a gate, and a sentence for each further metric.
pub(super) fn gate_sentences(document: &ResultDocument, gate: &GateResult) -> (Option<String>, Vec<String>) {
    let name = labels::labelled(document, &gate.configuration);
    // First what decides.
    let mut lines: Vec<&GateLine> = gate.metrics.iter().collect();
    lines.sort_by_key(|line| line.answer != gate.answer);
    let mut sentences = lines.into_iter().map(|line| line_sentence(gate, line, &name));
    (sentences.next(), sentences.collect())
}

fn line_sentence(gate: &GateResult, line: &GateLine, name: &str) -> String {
    let Some((low, high)) = line.low.zip(line.high) else {
        return format!(
            "Can't tell whether {name} is slower in {}: {} for an interval.",
            line.metric.text,
            match line.pairs {
                0 => "no round has it in both configurations".into(),
                pairs => format!("{} are too few", plural(pairs as usize, "round")),
            }
        );
    };
    let values = format!(
        "{} to {}",
        goal_value(&line.metric.metric, line.base),
        goal_value(&line.metric.metric, line.head)
    );
    let interval = interval(low, high);
    let rounds = plural(line.pairs as usize, "round");
    let finds = line.finds.map_or(String::new(), percent);
    match line.answer {
        GateAnswer::Slower => format!(
            "{} is slower: {} needs {} time per operation ({interval}), {values}, in {rounds}.",
            sentence_start(name),
            line.metric.text,
            more(line.slowdown)
        ),
        GateAnswer::Passed => {
            let power = match line.finds.is_some_and(|finds| finds <= gate.slowdown) {
                true => format!("{rounds} find one of {finds} four times in five"),
                false => format!("{rounds}; the interval excludes it"),
            };
            format!(
                "{} is not slower by {} or more: {} {} ({interval}), {values}; {power}.",
                sentence_start(name),
                percent(gate.slowdown),
                line.metric.text,
                signed(line.slowdown),
            )
        }
        GateAnswer::CantTell => {
            let needed = line.rounds_needed.map_or(String::new(), |rounds| {
                format!("; {} needs about {}", percent(gate.slowdown), plural(rounds as usize, "round"))
            });
            format!(
                "Can't tell whether {name} is slower: {} {} ({interval}); {rounds} find only {finds} or more{needed}.",
                line.metric.text,
                signed(line.slowdown),
            )
        }
    }
}

/// `2.1 % more`.
fn more(slowdown: f64) -> String {
    format!("{} {}", percent(slowdown.abs()), if slowdown < 0.0 { "less" } else { "more" })
}

/// `+2.1 %`: positive is slower.
pub(crate) fn signed(slowdown: f64) -> String {
    let text = format!("{:+.1}", slowdown * 100.0);
    match text.as_str() {
        "+0.0" | "-0.0" => "0.0 %".into(),
        _ => format!("{text} %"),
    }
}

/// `+0.2 to +2.1 %`.
pub(crate) fn interval(low: f64, high: f64) -> String {
    format!("{} to {}", signed(low).trim_end_matches(" %"), signed(high))
}

/// The word of an answer.
pub(crate) fn gate_word(answer: GateAnswer) -> &'static str {
    match answer {
        GateAnswer::Slower => "slower",
        GateAnswer::Passed => "passed",
        GateAnswer::CantTell => "can't tell",
    }
}
