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
        let why = match line.pairs {
            _ if line.is_bound => "a value is only a bound, because operations never ended".into(),
            0 => "no round has it in both configurations".into(),
            pairs => format!("{} are too few for an interval", plural(pairs as usize, "round")),
        };
        return format!("Can't tell whether {name} is slower in {}: {why}.", line.metric.text);
    };
    let values = format!(
        "{} to {}",
        goal_value(&line.metric.metric, line.base),
        goal_value(&line.metric.metric, line.head)
    );
    let (by, interval) = (signed(line.slowdown), interval(low, high));
    let what = match line.higher_is_better {
        true => format!("time per operation, by {},", line.metric.text),
        false => line.metric.text.clone(),
    };
    let rounds = plural(line.pairs as usize, "round");
    let finds = line.finds.map_or(String::new(), percent);
    match line.answer {
        GateAnswer::Slower => {
            format!("{} is slower: {what} {by} ({interval}), {values}, in {rounds}.", sentence_start(name))
        }
        GateAnswer::Passed => {
            let power = match line.finds.is_some_and(|finds| finds <= gate.slowdown) {
                true => format!("{rounds} find one of {finds} four times in five"),
                false => format!(
                    "in {rounds}, at most {} with a confidence of 95 %",
                    line.at_most.map_or(String::new(), signed)
                ),
            };
            format!(
                "{} is not slower by {} or more: {what} {by} ({interval}), {values}; {power}.",
                sentence_start(name),
                percent(gate.slowdown),
            )
        }
        GateAnswer::CantTell => {
            let needed = line.rounds_needed.map_or(String::new(), |rounds| {
                format!("; {} needs about {}", percent(gate.slowdown), plural(rounds as usize, "round"))
            });
            format!(
                "Can't tell whether {name} is slower: {what} {by} ({interval}); {rounds} find only {finds} or more{needed}."
            )
        }
    }
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

#[cfg(test)]
mod tests {
    use model::gate::GateMetric;

    use super::*;
    use crate::recorded;

    fn line(
        answer: GateAnswer,
        [slowdown, low, high]: [f64; 3],
        finds: f64,
        needed: Option<u32>,
    ) -> GateLine {
        GateLine {
            metric: GateMetric::parse("response.p95", &[], false).unwrap(),
            higher_is_better: false,
            base: 52.0,
            head: 52.0 * (1.0 + slowdown),
            slowdown,
            low: Some(low),
            high: Some(high),
            at_most: Some(0.8 * high),
            finds: Some(finds),
            pairs: 24,
            rounds_needed: needed,
            is_bound: false,
            answer,
        }
    }

    #[test]
    fn each_answer_says_what_was_found_and_what_would_have_been() {
        let slower = line(GateAnswer::Slower, [0.031, 0.012, 0.05], 0.018, None);
        let passed = line(GateAnswer::Passed, [0.003, -0.009, 0.015], 0.018, None);
        let excluded = line(GateAnswer::Passed, [-0.02, -0.1, 0.024], 0.04, Some(100));
        let unclear = line(GateAnswer::CantTell, [0.0, -0.03, 0.03], 0.041, Some(100));
        let none =
            GateLine { low: None, high: None, at_most: None, finds: None, pairs: 0, ..unclear.clone() };
        let mut document = recorded::run("queue-depth").document;
        document.gate = Some(GateResult {
            answer: GateAnswer::Slower,
            slowdown: 0.02,
            false_alarm: 0.001,
            configuration: document.configurations[1].treatment.label.clone(),
            metrics: vec![unclear, passed, slower, excluded, none],
            rounds_max: 100,
        });
        let (answer, others) = gate_sentences(&document, document.gate.as_ref().unwrap());
        let all: Vec<String> = answer.into_iter().chain(others).collect();
        insta::assert_snapshot!(all.join("\n"));
        insta::assert_snapshot!(
            "gate-summary",
            crate::gate_summary(&document).split("<details>").next().unwrap()
        );
    }
}
