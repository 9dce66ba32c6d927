//! What a system needs for a load: the question of `plimsoll size` and its answer.

use serde::{Deserialize, Serialize};

use crate::cost::{CostKind, Payer};
use crate::{Estimate, Goal, Operation, goal::GoalMetric, quantity};

/// The format word of a sizing document.
pub const SIZING_FORMAT: &str = "plimsoll.sizing/1";

/// What the system must carry: `2000 ops/s with response.p95 <= 1s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeGoal {
    /// As the user wrote it.
    pub text: String,
    /// Operations per second.
    pub throughput_per_s: f64,
    /// How long they may take; none when only throughput is asked.
    pub response: Option<Goal>,
}

impl SizeGoal {
    /// Reads a rate, and after `with` a goal on response times. `operations` are the names the workload has; the error
    /// says what to write.
    pub fn parse(text: &str, operations: &[&str]) -> Result<SizeGoal, String> {
        let (rate, goal) = match text.split_once(" with ") {
            Some((rate, goal)) => (rate, Some(goal)),
            None => (text, None),
        };
        // `2000 ops/s`, `2000 IOPS` and `2000/s` mean the same.
        let mut words = rate.split_whitespace();
        let amount = words.next().unwrap_or_default();
        let unit = words.next();
        let is_rate = match unit {
            Some(unit) => (unit.ends_with("/s") || unit == "IOPS") && words.next().is_none(),
            None => amount.ends_with("/s"),
        };
        let amount = amount.trim_end_matches("/s");
        let parsed = quantity::parse_rate(&format!("{amount}/s")).ok().filter(|_| is_rate);
        let throughput_per_s = parsed.ok_or_else(|| {
            format!("`{text}` does not say how much: write \"2000/s\" or \"2000/s with response.p95 <= 1s\"")
        })?;
        let response = goal.map(|goal| Goal::parse(goal, operations)).transpose()?;
        if let Some(goal) = &response
            && !(goal.at_most && matches!(goal.metric, GoalMetric::Response(_)))
        {
            return Err(format!(
                "`{}` is no limit on response times: write one such as response.p95 <= 1s",
                goal.text
            ));
        }
        Ok(SizeGoal { text: text.trim().into(), throughput_per_s, response })
    }
}

/// The answer of `plimsoll size`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingDocument {
    /// [`SIZING_FORMAT`].
    pub format: String,
    /// The run directory.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// What was asked.
    pub goal: SizeGoal,
    /// The answer; none when it is refused.
    pub answer: Option<SizingAnswer>,
    /// Why it is refused, and what to measure; empty when it is answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
    /// The verdict of the whole record in a sentence, the levels that are left out here included.
    pub verdict: String,
    /// The measured levels it rests on.
    pub levels: Vec<SizingLevel>,
    /// Levels that were measured and are not used, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
    /// What weakens the answer.
    pub warnings: Vec<String>,
}

/// One measured level of load, replicates taken together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingLevel {
    /// Operations in flight.
    pub concurrency: f64,
    /// Operations per second.
    pub throughput_per_s: f64,
    /// The response time of the goal, or the 95th percentile without one, in milliseconds.
    pub response_ms: Option<f64>,
    /// Runs it is the median of.
    pub runs: u32,
}

/// A level of load that is not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// As the experiment calls it: `load.closed=64`, `baseline (32 in flight)`.
    pub level: String,
    /// Why not, as the end of a sentence.
    pub why: String,
}

/// What today's system carries and what the load needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingAnswer {
    /// What limits today's system, in words.
    pub limit: String,
    /// What today's system carries, operations per second, with its 90 % interval.
    pub carries_per_s: Estimate,
    /// True when no limit was seen: it carries at least that much, and how much more is not known.
    pub at_least: bool,
    /// Room above what is asked: 0.2 is a fifth more, -0.5 half of what is needed.
    pub headroom: f64,
    /// Whether it lies further than was measured.
    pub extrapolated: bool,
    /// The share of a resource that a plan may use, from which the amounts needed follow.
    pub planned_share: f64,
    /// Each resource, the scarcest first.
    pub resources: Vec<SizingRow>,
    /// The check on a level that was left out; none when there are too few.
    pub held_out: Option<HeldOutRow>,
    /// What one operation takes, and what the load needs of it: what a storage team asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price_list: Vec<PriceRow>,
}

/// What one operation takes of something, and what the load needs of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceRow {
    /// Which operation; all that the load mixes where they do not follow one another.
    pub operation: Operation,
    /// What.
    pub kind: CostKind,
    /// Whose.
    pub of: Payer,
    /// For one operation, in [`CostKind::unit`].
    pub each: Estimate,
    /// For the load, per second: CPUs, reads, writes, flushes or bytes.
    pub for_load_per_s: Estimate,
    /// The same with the planned share of it used.
    pub with_headroom_per_s: f64,
}

/// One resource: what there is, what an operation takes of it, what the load needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingRow {
    /// `CPU`, `disk reads`, `worker threads`.
    pub resource: String,
    /// `CPUs`, `reads/s`, `threads`.
    pub unit: String,
    /// How much there is.
    pub amount: f64,
    /// What one operation takes, in the unit times seconds.
    pub demand: Estimate,
    /// Throughput at which it is used up.
    pub carries_per_s: Estimate,
    /// What the load needs of it, used to the planned share.
    pub needed: Estimate,
    /// Throughput the system would carry with twice of it, over that of now.
    pub twice_gives: f64,
}

/// A prediction held against a measurement that was not used for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRow {
    /// The level left out.
    pub concurrency: f64,
    /// Foretold from the others, with its 90 % interval.
    pub predicted_per_s: Estimate,
    /// Measured.
    pub measured_per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_rate_and_perhaps_a_limit() {
        for text in ["2000/s", "2000 ops/s", "2k/s", "2000 IOPS", " 2000 requests/s "] {
            let goal = SizeGoal::parse(text, &[]).unwrap();
            assert_eq!((goal.throughput_per_s, goal.response), (2000.0, None), "{text}");
        }
        let goal = SizeGoal::parse("60/s with get.response.p95 <= 1s", &["get"]).unwrap();
        assert_eq!(goal.response.unwrap().limit, 1000.0);
    }

    #[test]
    fn what_is_no_question_says_what_to_write() {
        for (text, expected) in [
            ("fast", "write \"2000/s\""),
            ("0/s", "write \"2000/s\""),
            ("2000", "write \"2000/s\""),
            ("-5/s", "write \"2000/s\""),
            ("10/s with response.p95 >= 1s", "no limit on response times"),
            ("10/s with throughput > 3/s", "no limit on response times"),
            ("10/s with respons.p95 <= 1s", "did you mean `response.p95`"),
        ] {
            let error = SizeGoal::parse(text, &[]).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
