//! A gate: does one change make the system slower? Its settings, and its result.
//!
//! The baseline and one other configuration are measured in turns until a slowdown of the stated size would be found, or
//! until the stated number of rounds. `plimsoll-analysis` decides; here is what is asked and answered.

use serde::{Deserialize, Serialize};

use crate::experiment::WorkloadInfo;
use crate::goal::GoalMetric;
use crate::load::{OPEN, RAMP};
use crate::result::OperationResult;
use crate::run::OperationUnit;
use crate::{Experiment, Key, Load, Problem, Problems, Settings, Shape};

crate::settings! {
    /// The keys of `[gate]`.
    pub static GATE_SETTINGS;

    pub(crate) static METRIC: Key<Vec<String>> = Key::texts(
        "metric",
        "What is compared: \"throughput\", \"bytes_per_s\", \"response.p95\", \"OPERATION.response.mean\", \"service.p50\", \"cpu_per_operation\", or a counter such as \"process.busy_cpus{target}\". Several are judged together. Default: throughput; response.p50 of commands and of open loads.",
    );

    pub(crate) static SLOWDOWN: Key<f64> = Key::percent(
        "slowdown", "2%",
        "The smallest slowdown that matters: it is found four times in five. Slower means more time per operation.",
    );

    pub(crate) static ROUNDS_MAX: Key<u32> = Key::count(
        "rounds_max", ROUNDS_MIN as u64..=1000, "100",
        "Most rounds, each with one trial of both configurations. With more noise than these can average out, the answer is \"can't tell\".",
    );
}

/// Fewest rounds: with fewer, no interval of signed ranks excludes a slowdown with the required confidence.
pub const ROUNDS_MIN: u32 = 12;

/// The probability that a gate fails although nothing is slower: 1 in 1000, over all of its metrics.
pub const FALSE_ALARM: f64 = 0.001;

/// The probability that a slowdown of the stated size is found.
pub const POWER: f64 = 0.8;

/// Most metrics: the probability of a false alarm is divided among them, and [`ROUNDS_MIN`] rounds can exclude no smaller one.
const METRICS_MAX: usize = 4;

/// Bounds of the smallest slowdown that matters.
const SLOWDOWN_RANGE: (f64, f64) = (0.001, 1.0);

/// What a gate compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateMetric {
    /// As written.
    pub text: String,
    /// The operation; none for all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The metric.
    pub metric: GoalMetric,
}

impl GateMetric {
    /// Parses a metric. `operations` and `has_further` as in [`crate::Goal::parse_among`].
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str, operations: &[&str], has_further: bool) -> Result<GateMetric, String> {
        let (operation, metric) = GoalMetric::parse_among(text, operations, has_further)?;
        match metric {
            GoalMetric::Failed => Err(
                "a gate compares no failures, which have no ratio: state a goal, such as \"failed < 0.1%\""
                    .into(),
            ),
            GoalMetric::Lag(_) => {
                Err("a gate compares no lag, which is that of the load generator: write response".into())
            }
            metric => Ok(GateMetric { text: text.trim().into(), operation, metric }),
        }
    }

    /// Whether it counts time in which others may keep the system from running.
    pub fn is_elapsed(&self) -> bool {
        !matches!(self.metric, GoalMetric::CpuPerOperation | GoalMetric::Counter(_))
    }

    /// Whether a larger value is better.
    pub fn higher_is_better(&self) -> bool {
        matches!(self.metric, GoalMetric::Throughput | GoalMetric::BytesPerSecond)
    }

    /// The value of an operation, in the unit of the metric; none for a counter, or if no operation completed.
    pub fn value(&self, operation: &OperationResult) -> Option<f64> {
        self.metric.value(operation)
    }
}

/// The gate that an experiment states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What is compared, one or more.
    pub metrics: Vec<GateMetric>,
    /// The smallest slowdown that matters, as a share of the time per operation: 0.02 is 2 %.
    pub slowdown: f64,
    /// Most rounds.
    pub rounds_max: u32,
}

impl Gate {
    /// Reads the settings of the table. Each problem has its key and the text that it is about, and what to write.
    pub fn read(
        settings: &Settings,
        load: &Settings,
        info: Option<WorkloadInfo>,
        has_further: bool,
    ) -> (Gate, Vec<(&'static str, String, String, String)>) {
        let mut problems = Vec::new();
        let operations = info.map_or(&[][..], |info| info.operations);
        let mut metrics: Vec<GateMetric> = Vec::new();
        for text in settings.get(&METRIC) {
            match GateMetric::parse(&text, operations, has_further) {
                Ok(metric) => metrics.push(metric),
                Err(what) => problems.push((METRIC.name, text, what, String::new())),
            }
        }
        if metrics.is_empty() {
            let has_time =
                load.has(&OPEN) || info.is_some_and(|info| info.traits.unit == OperationUnit::Launch);
            let (text, metric) = match has_time {
                true => ("response.p50", GoalMetric::Response("p50".into())),
                false => ("throughput", GoalMetric::Throughput),
            };
            metrics.push(GateMetric { text: text.into(), operation: None, metric });
        }
        let slowdown = settings.get(&SLOWDOWN) / 100.0;
        let gate = Gate { metrics, slowdown, rounds_max: settings.get(&ROUNDS_MAX) };
        let of_all = gate
            .problems()
            .into_iter()
            .map(|(what, help)| (METRIC.name, String::new(), what, help.to_string()));
        problems.extend(of_all);
        (gate, problems)
    }

    /// What is wrong with it: each problem, and what to write.
    pub fn problems(&self) -> Vec<(String, &'static str)> {
        let mut problems = Vec::new();
        let is_twice = |at: usize| self.metrics[..at].contains(&self.metrics[at]);
        if let Some(at) = (0..self.metrics.len()).find(|at| is_twice(*at)) {
            problems.push((format!("the metric {} is listed twice", self.metrics[at].text), "remove one"));
        }
        if self.metrics.len() > METRICS_MAX {
            let what = format!("a gate compares at most {METRICS_MAX} metrics");
            problems.push((
                what,
                "each makes false alarms more likely, and needs more rounds: keep those that matter",
            ));
        }
        if !(SLOWDOWN_RANGE.0..=SLOWDOWN_RANGE.1).contains(&self.slowdown) {
            let what = format!("a slowdown of {}% is out of range", self.slowdown * 100.0);
            problems.push((what, "write 0.1% to 100%"));
        }
        problems
    }
}

/// The contradictions between a gate and the rest of its experiment.
pub fn contradictions(experiment: &Experiment) -> Problems {
    let mut problems = Problems::new();
    let Some(gate) = &experiment.gate else { return problems };
    let mut add = |what: String, help: &str| problems.push(Problem::new(what, help));
    match experiment.vary.as_slice() {
        [one] if one.levels.len() == 1 => {}
        [] => add(
            "a gate compares the baseline with one change, and nothing is varied".into(),
            "add [vary], such as \"target.directory\" = { baseline = \"base\", levels = [\"head\"] }, or give --base and --head",
        ),
        _ => add(
            "a gate compares the baseline with one change, and several levels are varied".into(),
            "keep one factor with one level; compare several without [gate]",
        ),
    }
    if experiment.replicates > 1 {
        let help = "remove `replicates`; `rounds_max` of [gate] bounds the rounds";
        add(
            "`replicates` and [gate] cannot be combined: the noise decides how many rounds there are".into(),
            help,
        );
    }
    if !experiment.limit.is_empty() || experiment.smallest.is_some() {
        add("a search and [gate] cannot be combined".into(), "state the load instead of searching for it");
    }
    if experiment.prove {
        add(
            "`prove` and [gate] cannot be combined".into(),
            "prove the bottleneck in an experiment of its own",
        );
    }
    let shape = Load::read(&experiment.load).ok().and_then(|load| load.shape);
    let offers = matches!(shape, Some(Shape::Open { .. }));
    if offers
        && !experiment.load.has(&RAMP)
        && gate.metrics.iter().any(|of| of.metric == GoalMetric::Throughput)
    {
        let help =
            "compare response.p95, or a counter such as process.busy_cpus{target}; or use a closed load";
        add(
            "the throughput of an open load is what it offers, whatever the system needs for it".into(),
            help,
        );
    }
    problems
}

/// What a gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAnswer {
    /// Slower: the interval excludes "not slower", and the slowdown is at least half of the stated one.
    Slower,
    /// A slowdown of the stated size is not there: it would have been found, or the interval excludes it.
    Passed,
    /// Too much noise, or too few rounds, to find a slowdown of the stated size.
    CantTell,
}

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// The answer: slower if one metric is; otherwise "can't tell" if one metric cannot.
    pub answer: GateAnswer,
    /// The smallest slowdown that matters.
    pub slowdown: f64,
    /// The probability of a false alarm, over all metrics.
    pub false_alarm: f64,
    /// Label of the configuration that is compared with the baseline.
    pub configuration: String,
    /// Each metric.
    pub metrics: Vec<GateLine>,
    /// Most rounds.
    pub rounds_max: u32,
}

/// One metric of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateLine {
    /// What is compared.
    #[serde(flatten)]
    pub metric: GateMetric,
    /// Whether a larger value is better.
    pub higher_is_better: bool,
    /// Median of the baseline, in the unit of the metric: milliseconds, per second, or that of a counter.
    pub base: f64,
    /// Median of the other configuration.
    pub head: f64,
    /// By how much the other configuration is slower, from pairs of the same round: 0.02 needs 2 % more time per
    /// operation, negative is faster. For throughput: baseline divided by the other, minus one.
    pub slowdown: f64,
    /// Lower end of its interval: above zero in 1 of 1000 runs if nothing is slower. None for too few pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// A larger slowdown is excluded with a confidence of 95 %; none for too few pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The slowdown that these pairs find four times in five; none for too few pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finds: Option<f64>,
    /// Number of pairs.
    pub pairs: u32,
    /// About how many rounds find a slowdown of the stated size; none if these do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_needed: Option<u32>,
    /// Whether a value is only a bound, because operations are censored: it decides nothing then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// The answer for this metric.
    pub answer: GateAnswer,
}
