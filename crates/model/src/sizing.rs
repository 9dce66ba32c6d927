//! The resources that a load requires: the question and the answer of `plimsoll size`.

use serde::{Deserialize, Serialize};

use crate::cost::{CostKind, CostOwner};
use crate::{Estimate, Goal, Operation, goal::GoalMetric, quantity};

/// The format identifier of a sizing document.
pub const SIZING_FORMAT: &str = "plimsoll.sizing/1";

/// The required load: `2000 ops/s with response.p95 <= 1s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeGoal {
    /// As the user wrote it.
    pub text: String,
    /// Operations per second.
    pub throughput_per_s: f64,
    /// The response time goal; none if only throughput is required.
    pub response: Option<Goal>,
}

impl SizeGoal {
    /// Parses a rate, and after `with` a response time goal. `operations` are the names of the workload's
    /// operations; the error says what to write.
    pub fn parse(text: &str, operations: &[&str]) -> Result<SizeGoal, String> {
        let (rate, goal) = match text.split_once(" with ") {
            Some((rate, goal)) => (rate, Some(goal)),
            None => (text, None),
        };
        // `2000 ops/s`, `2000 IOPS` and `2000/s` are synonyms.
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
            format!("`{text}` is not a load: write \"2000/s\" or \"2000/s with response.p95 <= 1s\"")
        })?;
        let response = goal.map(|goal| Goal::parse(goal, operations)).transpose()?;
        if let Some(goal) = &response
            && !(goal.at_most && matches!(goal.metric, GoalMetric::Response(_)))
        {
            return Err(format!(
                "`{}` is not a limit on response times: write one such as response.p95 <= 1s",
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
    /// The required load.
    pub goal: SizeGoal,
    /// The answer; none if it is refused.
    pub answer: Option<SizingAnswer>,
    /// Why it is refused, and what to measure; empty if there is an answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
    /// The verdict of the whole record in a sentence, including the levels that are not used here.
    pub verdict: String,
    /// The measured levels that the answer is based on.
    pub levels: Vec<SizingLevel>,
    /// Measured levels that are not used, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ExcludedLevel>,
    /// Assumptions.
    pub assumptions: Vec<String>,
    /// Warnings that limit the answer.
    pub warnings: Vec<String>,
}

/// One measured level of load, with its replicates combined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingLevel {
    /// Operations in flight.
    pub concurrency: f64,
    /// Operations per second.
    pub throughput_per_s: f64,
    /// The response time of the goal, or the 95th percentile without one, in milliseconds.
    pub response_ms: Option<f64>,
    /// Number of runs of which it is the median.
    pub runs: u32,
}

/// A level of load that is not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExcludedLevel {
    /// Its name in the experiment: `load.closed=64`, `baseline (32 in flight)`.
    pub level: String,
    /// The reason, as the end of a sentence.
    pub why: String,
}

/// The capacity of the present system, and the requirements of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingAnswer {
    /// The limit of the present system, in words.
    pub limit: String,
    /// The capacity of the present system, operations per second, with its 90 % interval.
    pub carries_per_s: Estimate,
    /// Whether no limit was seen: the true capacity is at least this value.
    pub at_least: bool,
    /// Headroom relative to the required load: 0.2 is 20 % more, -0.5 means half of the requirement.
    pub headroom: f64,
    /// Whether the required load is beyond the measured range.
    pub extrapolated: bool,
    /// The planned utilization of a resource, which determines the required amounts.
    pub planned_share: f64,
    /// Each resource, the scarcest first.
    pub resources: Vec<SizingRow>,
    /// The cross-validation on a level that was not used; none if there are too few levels.
    pub held_out: Option<HeldOutRow>,
    /// The cost of one operation and the requirement of the load, for example for a storage team.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price_list: Vec<PriceRow>,
}

/// The cost of one operation in a resource, and the requirement of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceRow {
    /// The operation; all operations of a mix.
    pub operation: Operation,
    /// The kind of cost.
    pub kind: CostKind,
    /// The owner.
    pub of: CostOwner,
    /// Cost per operation, in [`CostKind::unit`].
    pub each: Estimate,
    /// For the load, per second: CPUs, reads, writes, flushes or bytes.
    pub for_load_per_s: Estimate,
    /// The same at the planned utilization.
    pub with_headroom_per_s: f64,
}

/// One resource: its amount, the demand of an operation, and the requirement of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingRow {
    /// `CPU`, `disk reads`, `worker threads`.
    pub resource: String,
    /// `CPUs`, `reads/s`, `threads`.
    pub unit: String,
    /// The available amount.
    pub amount: f64,
    /// The service demand of one operation, in the unit times seconds.
    pub demand: Estimate,
    /// The throughput at which it is saturated.
    pub carries_per_s: Estimate,
    /// The amount that the load requires at the planned utilization.
    pub needed: Estimate,
    /// The throughput with twice the amount divided by the present throughput.
    pub twice_gives: f64,
}

/// A prediction compared with a measurement that was not used for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRow {
    /// The level that was not used.
    pub concurrency: f64,
    /// The predicted throughput, with its 90 % interval.
    pub predicted_per_s: Estimate,
    /// The measured throughput.
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
            ("10/s with response.p95 >= 1s", "not a limit on response times"),
            ("10/s with throughput > 3/s", "not a limit on response times"),
            ("10/s with respons.p95 <= 1s", "did you mean `response.p95`"),
        ] {
            let error = SizeGoal::parse(text, &[]).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
