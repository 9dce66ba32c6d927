//! What an audit found, and what to ask whoever published it.

use model::audit::{AuditFinding, AuditKind};

use super::listed;

/// What does not fit, with its numbers.
pub fn audit_finding(found: &AuditFinding) -> String {
    let text = |at: usize| found.figures.get(at).map_or("", |figure| figure.text.as_str());
    let name = |at: usize| found.figures.get(at).map_or("", |figure| figure.name.as_str());
    let last = || found.figures.last().map_or("", |figure| figure.text.as_str());
    let follows = &found.follows_text;
    // `p50 of 4 ms, p99 of 9 ms and a longest time of 20 ms`, without the last of them.
    let others = || {
        let named = found.figures.iter().map(|figure| {
            // `a think time of unknown length`
            let text = figure.text.strip_prefix("of ").unwrap_or(&figure.text);
            match is_percentile(&figure.name) {
                true => format!("{} of {text}", figure.name),
                false => format!("a {} of {text}", figure.name),
            }
        });
        let mut named: Vec<String> = named.collect();
        named.pop();
        listed(&named)
    };
    match &found.kind {
        AuditKind::Count => {
            format!(
                "A rate of {} for {} gives a count of {follows}, and not the stated {}.",
                text(0),
                text(1),
                text(2)
            )
        }
        AuditKind::Throughput => {
            format!(
                "A rate of {} with {} each gives {follows}, and not the stated {}.",
                text(0),
                text(1),
                text(2)
            )
        }
        AuditKind::Data => {
            format!("{} for {} give {follows}, and not the stated {}.", text(0), text(1), text(2))
        }
        AuditKind::MoreInFlight => {
            format!("Little's law: {} keep {follows} in flight, but the load has {} only.", others(), last())
        }
        AuditKind::LessInFlight => format!(
            "Little's law: {} keep {follows} in flight, of the {} that the load has: for the rest of the time nothing waited for the system.",
            others(),
            last()
        ),
        AuditKind::Order => {
            format!("{} is {}, but {} is only {}.", initial(&the(name(0))), text(0), the(name(1)), text(1))
        }
        AuditKind::Mean => {
            format!("With {} the mean time is {follows}, and not the stated {}.", others(), last())
        }
        AuditKind::Deviation => format!(
            "Times from {} to {} with a mean of {} have a standard deviation of at most {}, and not the stated {}.",
            text(1),
            text(2),
            text(0),
            follows.rsplit(" to ").next().unwrap_or(follows),
            text(3)
        ),
        AuditKind::HalfRange => format!(
            "The deviation of {} is half of the range from {} to {}. Then the mean is its middle, {follows}, and not the stated {}.",
            text(3),
            text(1),
            text(2),
            text(0)
        ),
        AuditKind::Differs => {
            let texts: Vec<String> = found.figures.iter().map(|figure| figure.text.clone()).collect();
            format!("The {} is stated as {}.", name(0), listed(&texts))
        }
        AuditKind::Shares => {
            format!("The shares of the histogram add up to {follows}, which rounding does not explain.")
        }
        AuditKind::HistogramMean => {
            format!("The mean of the histogram is {follows}, and not the stated {}.", text(0))
        }
        AuditKind::Failed => format!("{} of {} operations failed.", text(0), text(1)),
        AuditKind::TimesFaster => format!(
            "It is said to be {} times as fast, but for {} there are {} and {}: a factor of {follows}.",
            last(),
            the(name(0)),
            text(0),
            text(1)
        ),
        AuditKind::PercentSlower => format!(
            "It is said to be {} slower, but {} after {} is {follows} slower.",
            with_percent(last()),
            text(1),
            text(0)
        ),
        AuditKind::RatioOfTimes => format!(
            "For the same count, the times {} and {} are a factor of {follows} apart, but the rates {} and {} are not.",
            text(2),
            text(3),
            text(0),
            text(1)
        ),
        AuditKind::EqualInFlight => format!(
            "Little's law: with a rate of {} of the base and as many in flight, the time is {follows} of the base, and not the stated {}.",
            with_percent(text(0)),
            with_percent(text(1))
        ),
        AuditKind::Ceiling | AuditKind::Limit => {
            let which = if found.kind == AuditKind::Ceiling { "the stated ceiling" } else { "the limit" };
            match follows.is_empty() {
                true => format!("{} is above {which} of {}.", text(0), last()),
                false => {
                    format!("{} in {} is {follows}, which is above {which} of {}.", text(0), text(1), last())
                }
            }
        }
        AuditKind::Identical => {
            format!("All its measured figures are those of {follows}, to the last digit.")
        }
        AuditKind::FewSamples => format!(
            "{} of {} operations is the time of the slowest few: {follows} are needed.",
            name(0),
            text(1)
        ),
        AuditKind::Short => format!("It was measured for {}, which shows no steady state.", text(0)),
        AuditKind::WarmUp => format!(
            "The first {} have {}, the rest {}: the warm-up is part of the measurement.",
            text(0),
            text(1),
            text(2)
        ),
        AuditKind::Stall => {
            format!("Nothing was completed for {}, {} after the begin.", text(0), text(1))
        }
        AuditKind::HiddenWaiting => format!(
            "In a stall of {} this load issued nothing. Had its operations come at a rate, {} would be {follows}, and not {}.",
            text(0),
            name(1),
            text(1)
        ),
        AuditKind::FirstTrial => {
            format!(
                "The first trial has {}, those after it {follows}: something was filled or started in it.",
                text(0)
            )
        }
        AuditKind::Doubt { text, .. } => sentence(text),
    }
}

/// What to ask the author, or what to do.
pub fn audit_question(found: &AuditFinding) -> String {
    match &found.kind {
        AuditKind::Count => "Over which time was the rate taken, and was it a mean or the rate at some moment?",
        AuditKind::Throughput => "Was the block size fixed, and does the throughput count the same operations?",
        AuditKind::Data => "Which of size, rate and time was measured, and in which units?",
        AuditKind::MoreInFlight => "How many operations were in flight, and is the time that of the same operations?",
        AuditKind::LessInFlight => {
            "What else did the load do: think time, pauses, work of its own? Had it enough processors?"
        }
        AuditKind::Order | AuditKind::Mean => "Are mean and percentiles of the same operations, and of the whole run?",
        AuditKind::Deviation | AuditKind::HalfRange => {
            "What is the number after the sign of plus and minus, and over how many runs?"
        }
        AuditKind::Differs => "Which of them was measured?",
        AuditKind::Shares | AuditKind::HistogramMean => "Is the histogram complete, and of the same run?",
        AuditKind::Failed => "Which operations does each number count?",
        AuditKind::TimesFaster | AuditKind::PercentSlower | AuditKind::RatioOfTimes => {
            "What was compared with what: the rate or the time, and which is the base?"
        }
        AuditKind::EqualInFlight => "How many operations were in flight on each side, and which side is the base?",
        AuditKind::Ceiling => "Under which conditions does the ceiling hold?",
        AuditKind::Limit => "Was it answered by a cache, or compressed, or measured over another path?",
        AuditKind::Identical => "Was one of them copied, or measured once and reported twice?",
        AuditKind::FewSamples => "What are the percentiles of a longer run?",
        AuditKind::Short => "What does a longer run show? Measure for a minute or more.",
        AuditKind::WarmUp => "What is the result without the begin?",
        AuditKind::Stall => "What stopped: the system, the network or the load generator?",
        AuditKind::HiddenWaiting => {
            "What does a load with arrivals at a rate show? Do not compare these percentiles with those of an open load."
        }
        AuditKind::FirstTrial => "Which state does the result speak for: the first use, or the later ones?",
        AuditKind::Doubt { help, .. } => return sentence(help),
    }
    .to_string()
}

/// A text with a capital at its begin.
fn initial(text: &str) -> String {
    if is_percentile(text) { text.to_string() } else { crate::text::sentence_start(text) }
}

/// A percentile by its name, other figures with an article.
fn the(name: &str) -> String {
    if is_percentile(name) { name.to_string() } else { format!("the {name}") }
}

fn is_percentile(name: &str) -> bool {
    name.strip_prefix('p').is_some_and(|rest| rest.starts_with(|of: char| of.is_ascii_digit()))
}

/// A text as a sentence; empty if it is.
fn sentence(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with(['.', '?']) => crate::text::sentence_start(text),
        text => format!("{}.", crate::text::sentence_start(text)),
    }
}

fn with_percent(text: &str) -> String {
    let ends = text.trim_end();
    if ends.ends_with('%') || ends.ends_with("percent") { ends.to_string() } else { format!("{ends} %") }
}

#[cfg(test)]
mod tests {
    use model::audit::{NamedFigure, Severity};

    use super::*;

    #[test]
    fn a_figure_that_is_not_known_is_called_so() {
        let named = |name: &str, text: &str| NamedFigure { name: name.into(), text: text.into() };
        let found = AuditFinding {
            kind: AuditKind::MoreInFlight,
            severity: Severity::Contradiction,
            of: "all".into(),
            line: 0,
            figures: vec![
                named("rate", "100/s"),
                named("think time", "of unknown length"),
                named("p99", "4 ms"),
                named("in flight", "2"),
            ],
            follows: None,
            follows_text: "3".into(),
        };
        assert_eq!(
            audit_finding(&found),
            "Little's law: a rate of 100/s, a think time of unknown length and p99 of 4 ms keep 3 in flight, but the load has 2 only."
        );
    }
}
