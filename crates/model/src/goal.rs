//! Goals: `response.p95 <= 20ms`, `failed < 0.1%`, `read.throughput > 60k/s`.

use serde::{Deserialize, Serialize};

use crate::experiment::FigureName;
use crate::metric::split_instance;
use crate::problem::{Place, did_you_mean};
use crate::result::OperationResult;
use crate::{LatencySummary, quantity};

/// The metric of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalMetric {
    /// A statistic of the response time, in milliseconds.
    Response(String),
    /// A statistic of the service time, in milliseconds.
    Service(String),
    /// A statistic of the lag, in milliseconds.
    Lag(String),
    /// Successful operations per second.
    Throughput,
    /// Bytes per second.
    BytesPerSecond,
    /// CPU time of the system under test per operation, in milliseconds: of a launch, or of the target's processes.
    CpuPerOperation,
    /// Failed operations as a share of the completed ones, 0 to 1.
    Failed,
    /// The mean of a counter over the measured time, in its unit.
    Counter(FigureName),
}

/// A condition that a run must meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// As the user wrote it.
    pub text: String,
    /// Only this operation; none means every one.
    pub operation: Option<String>,
    /// The metric.
    pub metric: GoalMetric,
    /// True for `<` and `<=`, false for `>` and `>=`.
    pub at_most: bool,
    /// Whether a value equal to the limit meets the goal.
    pub inclusive: bool,
    /// The limit, in the metric's unit: milliseconds, per second, a share, or that of a counter.
    pub limit: f64,
    /// Its place in the experiment file; unknown when it came from a flag.
    #[serde(default, skip)]
    pub place: Place,
}

const METRICS: [&str; 7] =
    ["response.p95", "service.mean", "lag.max", "throughput", "bytes_per_s", "cpu_per_operation", "failed"];

/// The first words of metrics.
pub const METRIC_WORDS: [&str; 7] =
    ["response", "service", "lag", "throughput", "bytes_per_s", "cpu_per_operation", "failed"];

/// Whether these words are a metric of all operations, perhaps with an unknown statistic.
fn is_metric(words: &[&str]) -> bool {
    match words {
        ["response" | "service" | "lag", _] => true,
        [only] => METRIC_WORDS[3..].contains(only) || LatencySummary::PARTS.contains(only),
        _ => false,
    }
}

/// Whether a text can be the name of an operation, which has no dots.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-:".contains(c))
}

/// The counter that a name is: one of the metrics, or one of an exporter, which has the instance of another host.
fn counter(text: &str) -> Option<FigureName> {
    let name = FigureName::from(text.to_string());
    let is_of_exporter = name.instance.as_ref().is_some_and(|of| !split_instance(of).0.is_empty());
    (is_of_exporter || crate::metrics::ALL.contains(&name.metric.as_str())).then_some(name)
}

impl GoalMetric {
    /// Parses a metric with the operation that may precede it. `operations` and `has_further` as in [`Goal::parse_among`].
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse_among(
        text: &str,
        operations: &[&str],
        has_further: bool,
    ) -> Result<(Option<String>, GoalMetric), String> {
        if let Some(name) = counter(text.trim()) {
            return Ok((None, GoalMetric::Counter(name)));
        }
        let mut words: Vec<&str> = text.trim().split('.').map(str::trim).collect();
        let is_further = |first: &str| has_further && words.len() > 1 && is_name(first) && !is_metric(&words);
        let operation = match words.first() {
            Some(first) if operations.contains(first) || is_further(first) => {
                Some(words.remove(0).to_string())
            }
            _ => None,
        };
        let latency = |part: &str| {
            if LatencySummary::PARTS.contains(&part) {
                Ok(part.to_string())
            } else {
                Err(format!("unknown part `{part}`: {}", did_you_mean(part, LatencySummary::PARTS)))
            }
        };
        let metric = match words.as_slice() {
            ["response", part] => GoalMetric::Response(latency(part)?),
            // `read.p99` means the response time, which is what users experience.
            [part] if LatencySummary::PARTS.contains(part) => GoalMetric::Response((*part).to_string()),
            ["service", part] => GoalMetric::Service(latency(part)?),
            ["lag", part] => GoalMetric::Lag(latency(part)?),
            ["throughput"] => GoalMetric::Throughput,
            ["bytes_per_s"] => GoalMetric::BytesPerSecond,
            ["cpu_per_operation"] => GoalMetric::CpuPerOperation,
            ["failed"] => GoalMetric::Failed,
            other => {
                let name = other.join(".");
                // After the name of an operation, only a metric can follow.
                let operations = if operation.is_some() { &[] } else { operations };
                let known = METRICS.iter().copied().chain(operations.iter().copied());
                return Err(format!("unknown metric `{name}`: {}", did_you_mean(&name, known)));
            }
        };
        Ok((operation, metric))
    }

    /// The value of an operation, in the unit of the metric: milliseconds, per second, or a share. None for what the
    /// counters have, or if no operation completed.
    pub fn value(&self, operation: &OperationResult) -> Option<f64> {
        self.range(operation).map(|range| range.0)
    }

    /// The smallest and the largest value that an operation may have: they differ where censored operations leave it open.
    pub fn range(&self, operation: &OperationResult) -> Option<(f64, f64)> {
        let of_times = |times: &LatencySummary, part: &str| {
            let (value, is_bound) = times.bounded(part).filter(|_| operation.judged() > 0)?;
            Some((value, if is_bound { f64::INFINITY } else { value }))
        };
        let of_rate = |rate: f64| (operation.completed > 0 || operation.judged() > 0).then_some((rate, rate));
        match self {
            GoalMetric::Response(part) => of_times(&operation.response_ms, part),
            GoalMetric::Service(part) => of_times(&operation.service_ms, part),
            GoalMetric::Lag(part) => of_times(&operation.lag_ms, part),
            GoalMetric::Throughput => of_rate(operation.rate_per_s),
            GoalMetric::BytesPerSecond => of_rate(operation.bytes_per_s),
            GoalMetric::Failed => operation.failed_share(),
            GoalMetric::Counter(_) | GoalMetric::CpuPerOperation => None,
        }
    }
}

impl Goal {
    /// The goal that nobody stated: at most this share of the operations fails (`max_failures`).
    pub fn few_failures(share: f64) -> Goal {
        Goal {
            text: format!("failed <= {}% (max_failures)", share * 100.0),
            operation: None,
            metric: GoalMetric::Failed,
            at_most: true,
            inclusive: true,
            limit: share,
            place: Place::default(),
        }
    }

    /// Parses a goal. `operations` are the names of the workload's operations.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str, operations: &[&str]) -> Result<Goal, String> {
        Goal::parse_among(text, operations, false)
    }

    /// As [`Goal::parse`]; with `has_further`, the workload has further operations whose names are not known here. What
    /// is before the first dot is then the name of an operation if the text is not a metric of all operations. Whether
    /// there is such an operation is checked before a run.
    ///
    /// # Errors
    /// As [`Goal::parse`].
    pub fn parse_among(text: &str, operations: &[&str], has_further: bool) -> Result<Goal, String> {
        let at = text.find(['<', '>']).ok_or_else(|| {
            format!("`{text}` is not a goal: write a metric, `<=` or `>=`, and a limit, such as \"response.p95 <= 20ms\"")
        })?;
        let at_most = text[at..].starts_with('<');
        let inclusive = text[at + 1..].starts_with('=');
        let limit_text = text[at + 1 + usize::from(inclusive)..].trim();
        let (operation, metric) = GoalMetric::parse_among(&text[..at], operations, has_further)?;
        let words = |error: quantity::QuantityError| error.0;
        let limit = match &metric {
            GoalMetric::Response(_)
            | GoalMetric::Service(_)
            | GoalMetric::Lag(_)
            | GoalMetric::CpuPerOperation => {
                quantity::parse_duration(limit_text).map(|ns| ns as f64 / 1e6).map_err(words)
            }
            GoalMetric::Counter(name) => name.value(limit_text),
            GoalMetric::Throughput => quantity::parse_rate(limit_text).map_err(words),
            GoalMetric::BytesPerSecond => quantity::parse_bytes_per_s(limit_text).map_err(words),
            GoalMetric::Failed => {
                quantity::parse_percent(limit_text).map(|percent| percent / 100.0).map_err(words)
            }
        }?;
        let text = text.trim().to_string();
        Ok(Goal { text, operation, metric, at_most, inclusive, limit, place: Place::default() })
    }

    /// The value of the metric, in the unit of the limit; none for another operation, or if no operation
    /// completed.
    pub fn value(&self, operation: &OperationResult) -> Option<f64> {
        match self.operation.as_ref().is_some_and(|name| !operation.name.is(name)) {
            true => None,
            false => self.metric.value(operation),
        }
    }

    /// The smallest and the largest value of the metric that an operation may have, as in [`GoalMetric::range`]; none for
    /// another operation.
    pub fn range(&self, operation: &OperationResult) -> Option<(f64, f64)> {
        match self.operation.as_ref().is_some_and(|name| !operation.name.is(name)) {
            true => None,
            false => self.metric.range(operation),
        }
    }

    /// Whether a value meets the goal.
    pub fn met_by(&self, value: f64) -> bool {
        match (self.at_most, self.inclusive) {
            (true, true) => value <= self.limit,
            (true, false) => value < self.limit,
            (false, true) => value >= self.limit,
            (false, false) => value > self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_goals() {
        let goal = Goal::parse("response.p95 <= 1s", &["read"]).unwrap();
        assert_eq!(
            (goal.metric.clone(), goal.limit, goal.at_most),
            (GoalMetric::Response("p95".into()), 1000.0, true)
        );
        assert!(goal.met_by(1000.0) && !goal.met_by(1000.1));
        let goal = Goal::parse("read.throughput > 60k/s", &["read"]).unwrap();
        assert_eq!((goal.operation.as_deref(), goal.limit), (Some("read"), 60_000.0));
        assert_eq!(Goal::parse("failed < 0.1%", &[]).unwrap().limit, 0.001);
        let goal = Goal::parse("read.p99 <= 5ms", &["read"]).unwrap();
        assert_eq!(
            (goal.operation.as_deref(), goal.metric),
            (Some("read"), GoalMetric::Response("p99".into()))
        );
    }

    #[test]
    fn a_counter_can_have_a_goal() {
        for (text, metric, limit) in [
            ("cpu.busy_share <= 80%", "cpu.busy_share", 0.8),
            ("cpu.busy_share{//db1} <= 80%", "cpu.busy_share{//db1}", 0.8),
            ("disk.transfer_s{//db1/sda} < 20ms", "disk.transfer_s{//db1/sda}", 0.02),
            ("jvm_threads_current{//app1:8080} < 200", "jvm_threads_current{//app1:8080}", 200.0),
        ] {
            let goal = Goal::parse(text, &["read"]).unwrap();
            let GoalMetric::Counter(name) = &goal.metric else { panic!("{text}") };
            assert_eq!((name.to_string().as_str(), goal.limit), (metric, limit));
        }
        let error = Goal::parse("cpu.busy_share <= 80", &[]).unwrap_err();
        assert!(error.contains("80"), "{error}");
        assert!(Goal::parse("cpu.buzy_share <= 80%", &[]).is_err());
    }

    #[test]
    fn operations_that_are_not_known_yet_are_accepted() {
        for (text, operation, metric) in [
            ("buy:login.response.p95 <= 1s", Some("buy:login"), GoalMetric::Response("p95".into())),
            ("buy.p95 <= 1s", Some("buy"), GoalMetric::Response("p95".into())),
            ("buy:log_in-2.failed < 1%", Some("buy:log_in-2"), GoalMetric::Failed),
            // What is a metric of all operations remains one.
            ("lag.max <= 1ms", None, GoalMetric::Lag("max".into())),
            ("response.p95 <= 1s", None, GoalMetric::Response("p95".into())),
            ("failed < 1%", None, GoalMetric::Failed),
            // Operations with such names.
            ("lag.response.max <= 1ms", Some("lag"), GoalMetric::Response("max".into())),
        ] {
            let goal = Goal::parse_among(text, &["get"], true).unwrap();
            assert_eq!((goal.operation.as_deref(), goal.metric), (operation, metric), "{text}");
        }
        for (text, expected) in [
            ("buy:login.respnse.p95 <= 1s", "unknown metric `respnse.p95`"),
            ("response.p98 <= 1s", "unknown part `p98`"),
            ("buy login.p95 <= 1s", "unknown metric `buy login.p95`"),
            ("throughpt > 60/s", "unknown metric `throughpt`"),
        ] {
            let error = Goal::parse_among(text, &[], true).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(Goal::parse(text, &[]).is_err());
        }
    }

    #[test]
    fn an_unknown_metric_is_an_error() {
        for (text, expected) in [
            ("respnse.p95 <= 1s", "unknown metric `respnse.p95`: did you mean `response.p95`?"),
            ("response.p98 <= 1s", "unknown part `p98`: did you mean `p90`?"),
            ("throughput > 60", "`60` is not a rate"),
            ("fast", "`fast` is not a goal"),
        ] {
            let error = Goal::parse(text, &["read"]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
