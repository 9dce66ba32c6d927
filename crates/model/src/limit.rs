//! The search for the limit: the largest load that still meets a goal, and what was found. The smallest level of a
//! resource that still meets a goal is found by the same search.
//!
//! The terms are those of RFC 9971 (MLRsearch): a load that meets a goal is a lower bound, one that misses it
//! an upper bound. The relevant upper bound is the smallest one; the relevant lower bound is the largest one
//! below it.

mod axis;

pub use axis::Axis;

use serde::{Deserialize, Serialize};

use crate::goal::GoalMetric;
use crate::load::{CLOSED, LIMIT, LIMIT_MAX, LIMIT_MIN, LIMIT_WIDTH, OPEN, RAMP, STEPS};
use crate::problem::{Problem, Problems, near_word};
use crate::{
    Change, Experiment, Goal, Key, Level, MILLISECOND, Nanos, Probe, SECOND, SettingInfo, SettingPath,
    Settings, Shape, WarmUp, quantity,
};

/// Default of the largest number of users.
const USERS_MAX: f64 = 1024.0;
/// Default ratio of the first guess of a rate to the smallest, and of the largest to it.
const RATE_RANGE: f64 = 1000.0;
/// Bounds of the requested width.
const WIDTH: (f64, f64) = (0.005, 0.5);
/// A short trial is this part of a full-length one, within [`SHORT`], and at most half of it.
const SHORT_PART: Nanos = 10;
/// Bounds of the measured time of a short trial.
const SHORT: (Nanos, Nanos) = (SECOND, 10 * SECOND);
/// The default measured time of a full-length trial.
const FULL: Nanos = 30 * SECOND;

/// The search that an experiment asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The goals; each has its own bounds.
    pub goals: Vec<Goal>,
    /// What is varied.
    pub axis: Axis,
    /// The first position.
    pub first: f64,
    /// The first position of the axis: the smallest load, or the largest level.
    pub min: f64,
    /// The last position of the axis: the largest load, or the smallest level.
    pub max: f64,
    /// The requested width of the answer, as a share of its upper end; 0 where only neighbours end the search.
    pub width: f64,
    /// The measured time of a short trial.
    pub short: Nanos,
    /// The measured time of a full-length trial, which confirms a bound.
    pub full: Nanos,
    /// The warm-up of a short trial.
    pub short_warm_up: Nanos,
    /// Whether users think between their operations, so that fewer operations than users are in flight.
    pub has_think_time: bool,
}

impl Search {
    /// The search of an experiment; none if it states no limit, or not a valid range of loads or levels.
    pub fn of(experiment: &Experiment) -> Option<Search> {
        let load = crate::Load::read(&experiment.load).ok()?;
        let mut width = experiment.load.get(&LIMIT_WIDTH) / 100.0;
        let (goals, Bounds { axis, first, min, max }) = match &experiment.smallest {
            Some(factor) => {
                let axis = Axis::levels_of(experiment, factor)?;
                let (min, max) = axis.ends()?;
                // The levels are as close as the user wants them: the answer is two neighbours.
                width = 0.0;
                (&experiment.goals, Bounds { axis, first: min, min, max })
            }
            None => (&experiment.limit, Bounds::read(&experiment.load, &mut Problems::new())),
        };
        // A damaged record may contain anything.
        let is_usable = |load: f64| load > 0.0 && load.is_finite();
        let is_valid = [min, max, first].into_iter().all(is_usable) && min < max && width >= 0.0;
        if goals.is_empty() || !is_valid || !width.is_finite() {
            return None;
        }
        let full = load.measure.unwrap_or(FULL);
        let think = match load.shape {
            Some(Shape::Closed { think, .. }) => think,
            _ => 0,
        };
        // Every user issues several operations.
        let short = (full / SHORT_PART).clamp(SHORT.0, SHORT.1).max(2 * think).min(full / 2);
        let short_warm_up = match load.warm_up {
            WarmUp::For(length) => length.min(short),
            WarmUp::Auto => (short / 2).max(500 * MILLISECOND),
        };
        Some(Search {
            goals: goals.clone(),
            axis,
            first,
            min,
            max,
            width,
            short,
            full,
            short_warm_up,
            has_think_time: think > 0,
        })
    }

    /// One trial of a configuration at a position of the axis.
    pub fn probe(&self, configuration: &[Change], position: f64, is_full: bool) -> Probe {
        Probe {
            configuration: configuration.to_vec(),
            at: Change { factor: SettingPath(self.axis.setting().into()), level: self.axis.level(position) },
            measure: if is_full { self.full } else { self.short },
            warm_up: (!is_full).then_some(self.short_warm_up),
        }
    }

    /// The position of a trial; none for that of another search.
    pub fn position(&self, probe: &Probe) -> Option<f64> {
        let position = self.axis.position(&probe.at.level)?;
        (probe.at.factor.0 == self.axis.setting() && position > 0.0 && position.is_finite())
            .then_some(position)
    }

    /// A position as it is written: `32`, `2000/s`, `4GiB`.
    pub fn text(&self, position: f64) -> String {
        self.axis.text(position)
    }
}

/// What is searched, and between which positions.
struct Bounds {
    axis: Axis,
    first: f64,
    min: f64,
    max: f64,
}

impl Bounds {
    fn read(load: &Settings, problems: &mut Problems) -> Bounds {
        let open = load.get(&OPEN);
        let is_rate = open.is_some();
        let mut bound = |key: &'static Key<Option<String>>, default: f64| {
            let Some(text) = load.text(key) else { return default };
            let value = match is_rate {
                true => {
                    quantity::parse_rate(text).map_err(|error| (error.0, "write a rate, such as \"500/s\""))
                }
                false => match text.trim().parse::<u32>() {
                    Ok(users) if users > 0 => Ok(f64::from(users)),
                    _ => Err((
                        format!("`{text}` is not a number of users"),
                        "write a whole number from 1; for a rate also set `open`, the first guess",
                    )),
                },
            };
            value.unwrap_or_else(|(what, help)| {
                problems.add(&[key], what, help);
                default
            })
        };
        let guess = open.or_else(|| load.get(&CLOSED).map(|users| users as f64));
        let (min, max) = match guess {
            Some(rate) if is_rate => (rate / RATE_RANGE, rate * RATE_RANGE),
            guess => (1.0, USERS_MAX.max(guess.unwrap_or(1.0))),
        };
        let (min, max) = (bound(&LIMIT_MIN, min), bound(&LIMIT_MAX, max));
        if min >= max {
            problems.add(
                &[&LIMIT_MIN, &LIMIT_MAX],
                "the smallest load of the search is not below the largest",
                "lower `limit_min`, or raise `limit_max`",
            );
        }
        // `min` may be above `max` here, which `clamp` does not allow.
        let first = guess.unwrap_or(min).min(max).max(min);
        Bounds { axis: if is_rate { Axis::Rate } else { Axis::Users }, first, min, max }
    }
}

/// Reports the contradictions between the settings of a search and the others of the load.
pub(crate) fn check(load: &Settings, problems: &mut Problems) {
    if load.get(&LIMIT).is_empty() {
        let beside: [&SettingInfo; 3] = [&LIMIT_MIN, &LIMIT_MAX, &LIMIT_WIDTH];
        for setting in beside.into_iter().filter(|setting| load.given(setting)) {
            problems.add(
                &[setting, &LIMIT],
                format!("`{}` has no meaning without `limit`", setting.name),
                "remove it, or state a goal in `limit`, such as \"response.p95 <= 1s\"",
            );
        }
        return;
    }
    let varying: [&SettingInfo; 2] = [&RAMP, &STEPS];
    for setting in varying.into_iter().filter(|setting| load.has(setting)) {
        problems.add(
            &[&LIMIT, setting],
            format!("`limit` and `{}` both choose the load", setting.name),
            "keep one of them; a search needs only a first guess, `closed` or `open`",
        );
    }
    let width = load.get(&LIMIT_WIDTH) / 100.0;
    if !(WIDTH.0..=WIDTH.1).contains(&width) {
        problems.add(
            &[&LIMIT_WIDTH],
            format!("a width of {}% is out of range", width * 100.0),
            "write 0.5% to 50%",
        );
    }
    Bounds::read(load, problems);
}

/// The contradictions between a search and the rest of an experiment.
pub fn contradictions(experiment: &Experiment) -> Problems {
    let mut problems = Problems::new();
    let varied = experiment.vary.iter().map(|variation| &variation.factor);
    let of_load: Vec<&SettingPath> = varied.filter(|path| path.area() == "load").collect();
    for path in of_load.iter().filter(|path| path.name().starts_with(LIMIT.name)) {
        let what = format!("`{}` cannot be varied", path.0);
        problems.add(&[&LIMIT], what, "state each goal in `limit`: one search finds the limits of all");
    }
    if let Some(factor) = &experiment.smallest {
        problems.extend(contradictions_of_smallest(experiment, factor));
    }
    if experiment.limit.is_empty() {
        return problems;
    }
    let mut add = |what: &str, help: &str| problems.add(&[&LIMIT], what, help);
    if !experiment.goals.is_empty() {
        add(
            "`limit` and `goal` cannot be combined: many loads of a search miss a goal",
            "state it as another `limit`",
        );
    }
    if experiment.prove {
        add(
            "`limit` and `prove` cannot be combined",
            "search for the limit first, then prove what limits that load",
        );
    }
    if experiment.replicates > 1 {
        add(
            "`limit` and `replicates` cannot be combined: a search repeats trials where they are unclear",
            "remove `replicates`",
        );
    }
    let chooses =
        |path: &SettingPath| matches!(path.name(), "closed" | "open" | "ramp" | "steps" | "measure");
    for path in of_load.into_iter().filter(|path| chooses(path)) {
        add(&format!("`{}` cannot be varied in a search for the limit", path.0), "remove it from `vary`");
    }
    problems
}

/// The contradictions between the search for the smallest level of a factor and the rest of an experiment.
fn contradictions_of_smallest(experiment: &Experiment, factor: &SettingPath) -> Problems {
    let mut problems = Problems::new();
    let mut add = |what: String, help: &str| problems.push(Problem::new(what, help));
    let path = &factor.0;
    if experiment.vary.iter().all(|variation| variation.factor != *factor) {
        let known = experiment.vary.iter().map(|variation| variation.factor.0.as_str());
        let help = match near_word(path, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add `{path}` to [vary], such as \"{path}\" = {{ levels = \"1..16\" }}"),
        };
        add(format!("`smallest` names `{path}`, which is not varied"), &help);
    } else if factor.area() == "load" {
        add(format!("`{path}` is a load"), "search for the largest load with `limit` instead of `smallest`");
    } else if Axis::levels_of(experiment, factor).is_none() {
        add(
            format!("the search for the smallest `{path}` needs two levels or more, all of them numbers"),
            "write a range, such as levels = \"1..16\", or a list of numbers, sizes or times",
        );
    }
    if experiment.goals.is_empty() {
        add(
            "the search for the smallest level needs a goal".into(),
            "add goal = \"response.p95 <= 100ms\", or --goal",
        );
    }
    if !experiment.limit.is_empty() {
        add("`smallest` and `limit` cannot be combined".into(), "search for one of them in each experiment");
    }
    if experiment.prove {
        let help = "search for the smallest level first, then prove what limits it";
        add("`smallest` and `prove` cannot be combined".into(), help);
    }
    if experiment.replicates > 1 {
        let what =
            "`smallest` and `replicates` cannot be combined: a search repeats trials where they are unclear";
        add(what.into(), "remove `replicates`");
    }
    let varying: [&SettingInfo; 2] = [&RAMP, &STEPS];
    for setting in varying.into_iter().filter(|setting| experiment.load.has(setting)) {
        let what = format!("`smallest` needs a constant load, and `{}` changes it", setting.name);
        add(what, "state the load that must be carried with `closed` or `open`");
    }
    for goal in experiment.goals.iter().filter(|goal| !is_met_by_more(goal)) {
        let help = "write an upper limit of a time or of failures, or a lower limit of throughput";
        add(format!("`{}` has no smallest level that meets it", goal.text), help);
    }
    problems
}

/// Whether more of a resource meets the goal, if less of it does.
fn is_met_by_more(goal: &Goal) -> bool {
    match goal.metric {
        GoalMetric::Throughput | GoalMetric::BytesPerSecond => !goal.at_most,
        GoalMetric::Counter(_) | GoalMetric::CpuPerOperation => false,
        _ => goal.at_most,
    }
}

/// The goals of `limit`, each with its text if it cannot be used: the problem, and what to write instead.
/// `has_further` as in [`Goal::parse_among`].
pub fn goals(
    load: &Settings,
    operations: &[&str],
    has_further: bool,
) -> (Vec<Goal>, Vec<(String, String, String)>) {
    let mut goals = Vec::new();
    let mut problems = Vec::new();
    for text in load.get(&LIMIT) {
        match goal(&text, operations, has_further) {
            Ok(goal) => goals.push(goal),
            Err((what, help)) => problems.push((text, what, help)),
        }
    }
    (goals, problems)
}

/// The goal of a search, which larger loads miss.
///
/// # Errors
/// Why it cannot be searched for, and what to write instead.
pub fn goal(text: &str, operations: &[&str], has_further: bool) -> Result<Goal, (String, String)> {
    let goal = Goal::parse_among(text, operations, has_further).map_err(|what| (what, String::new()))?;
    let fits = matches!(
        goal.metric,
        GoalMetric::Response(_) | GoalMetric::Service(_) | GoalMetric::Lag(_) | GoalMetric::Failed
    );
    if fits && goal.at_most {
        return Ok(goal);
    }
    Err((
        format!("`{text}` has no largest load that meets it"),
        "write an upper limit of a time or of failures, such as \"response.p95 <= 1s\" or \"failed < 0.1%\""
            .into(),
    ))
}

/// Whether a load meets a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadClass {
    /// It does: the whole confidence interval meets the goal.
    Meets,
    /// It does not: the whole confidence interval misses the goal.
    Misses,
    /// The confidence interval contains the limit of the goal, also after the last extension.
    Unclear,
}

impl LoadClass {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            LoadClass::Meets => "meets",
            LoadClass::Misses => "misses",
            LoadClass::Unclear => "can't tell",
        }
    }
}

/// Why a load misses a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissReason {
    /// The metric of the goal is beyond its limit.
    Goal,
    /// More operations failed than `max_failures` allows.
    Failures,
    /// The offered operations of an open load did not complete at the offered rate: this share of them did.
    NotCarried(f64),
    /// The trial failed twice at this load, with the reason.
    TrialFailed(String),
}

/// How a search for one goal ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAnswer {
    /// Both bounds are confirmed, and as close as requested.
    Found,
    /// The largest load of the search still meets the goal.
    NotReached,
    /// The smallest load of the search misses the goal.
    AlwaysMissed,
    /// The loads between the bounds cannot be classified; or the search was not finished.
    Unclear,
    /// The load generator was the limit at the load that misses the goal: the limit of the system is not known.
    GeneratorBound,
}

/// The search for the limit in all configurations, or for the smallest level of a resource.
///
/// In a search for the smallest level, each `load` is a level as a number: in bytes, seconds, per second, or without a
/// unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitResult {
    /// The setting that was searched: `load.closed` (users), `load.open` (operations per second), or the factor of which
    /// the smallest level was searched for.
    pub setting: String,
    /// The requested width, as a share of the upper end; 0 for levels, which are searched to neighbours.
    pub width: f64,
    /// The smallest and the largest load of the search.
    pub range: [f64; 2],
    /// The levels of the factor of which the smallest level was searched for, in ascending order; empty for a load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// The measured time of a short trial, seconds.
    pub short_s: f64,
    /// The measured time of a full-length trial, seconds.
    pub full_s: f64,
    /// Whether users think between their operations, so that a closed load is a number of users, not of operations in
    /// flight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_think_time: bool,
    /// Each configuration, the baseline first.
    pub configurations: Vec<ConfigurationLimit>,
    /// The growth of the limit with a varied number, for each goal; empty if none is varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub laws: Vec<LimitLaw>,
    /// Published limits beside the measured ones; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedLimit>,
}

/// A published limit beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedLimit {
    /// The title of the publication.
    pub name: String,
    /// Its source.
    pub source: String,
    /// The goal as written.
    pub goal: String,
    /// The varied setting.
    pub factor: String,
    /// Its level, as written.
    pub level: String,
    /// The smallest published load; none where only an upper bound was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The largest published load.
    pub high: f64,
    /// The measured one: the largest load that meets the goal; none if this level was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meets: Option<f64>,
    /// The smallest load that misses the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<f64>,
}

/// The search in one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationLimit {
    /// Label of the treatment.
    pub configuration: String,
    /// The answer for each goal, in the order of the experiment.
    pub goals: Vec<GoalLimit>,
    /// The ids of the trials at the limit, which the verdict and the costs are about: the full-length trials at
    /// the smallest load that misses a goal, or at the largest one if none does.
    pub at_limit: Vec<String>,
    /// Each load in ascending order.
    pub points: Vec<LoadPoint>,
    /// Number of trials.
    pub trials: u32,
    /// The time under load of all trials, warm-ups included, seconds.
    pub search_s: f64,
    /// The time under load of one full-length trial, seconds; none if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_trial_s: Option<f64>,
}

/// The limit for one goal: between two loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalLimit {
    /// The goal as written.
    pub goal: String,
    /// Its metric.
    pub metric: GoalMetric,
    /// Its limit, in the unit of the metric: milliseconds, or a share.
    pub limit: f64,
    /// How the search ended.
    pub answer: LimitAnswer,
    /// The largest load that meets the goal below the smallest that misses it (relevant lower bound).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meets: Option<LimitBound>,
    /// The smallest load that misses the goal (relevant upper bound).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<LimitBound>,
    /// The difference between both, as a share of the larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<f64>,
    /// Loads between the bounds at which the goal is neither clearly met nor missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclear: Vec<f64>,
    /// The largest load above the upper bound that meets the goal (loss inversion).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inversion: Option<f64>,
}

/// One end of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitBound {
    /// Users, or operations per second.
    pub load: f64,
    /// Number of full-length trials at this load.
    pub trials: u32,
    /// The value of the goal's metric over these trials, in the unit of the goal: milliseconds, or a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Whether `value` is only a bound that the true value can only be worse than, because operations are censored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Successful operations per second.
    pub rate_per_s: f64,
    /// Why the load misses the goal; none for a load that meets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MissReason>,
}

/// All trials at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Users, or operations per second.
    pub load: f64,
    /// The ids of its trials.
    pub trials: Vec<String>,
    /// Whether the figures are those of full-length trials; otherwise of short ones.
    pub is_full: bool,
    /// Measured time of these trials, seconds.
    pub measured_s: f64,
    /// Successful operations per second: mean of the trials.
    pub rate_per_s: f64,
    /// Response times in milliseconds: median of the trials. NaN (`null`) where nothing was timed.
    #[serde(with = "crate::interval::absent")]
    pub mean_ms: f64,
    /// Median.
    #[serde(with = "crate::interval::absent")]
    pub p50_ms: f64,
    /// 90th percentile.
    #[serde(with = "crate::interval::absent")]
    pub p90_ms: f64,
    /// 95th percentile.
    #[serde(with = "crate::interval::absent")]
    pub p95_ms: f64,
    /// 99th percentile.
    #[serde(with = "crate::interval::absent")]
    pub p99_ms: f64,
    /// The times of which only a lower bound is known, because operations are censored.
    #[serde(default, skip_serializing_if = "crate::interval::Statistics::is_empty")]
    pub at_least: crate::interval::Statistics,
    /// Failed operations as a share of those that were due and are judged.
    pub failed: f64,
    /// The class for each goal, in the order of the experiment; that of short trials is provisional.
    pub classes: Vec<LoadClass>,
    /// The value of the metric of each goal, in its unit: milliseconds, or a share. None where nothing was measured for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Option<f64>>,
}

/// How the limit grows with a varied number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitLaw {
    /// The goal as written.
    pub goal: String,
    /// The varied setting.
    pub factor: String,
    /// Each level with its limit, the largest load that meets the goal.
    pub limits: Vec<[f64; 2]>,
    /// Contention of the universal scalability law, 0 to 1.
    pub contention: f64,
    /// Coherency of the universal scalability law.
    pub coherency: f64,
    /// The limit per unit of the factor without contention and coherency.
    pub per_unit: f64,
    /// Largest relative error of the fit at a measured level.
    pub error_max: f64,
    /// The next level and its predicted limit: an extrapolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<[f64; 2]>,
}

impl LimitResult {
    /// Whether the smallest level of a resource was searched for, instead of the largest load.
    pub fn is_resource(&self) -> bool {
        !self.levels.is_empty()
    }

    /// The level with this number, as it is written; none for a load.
    pub fn level_text(&self, number: f64) -> Option<String> {
        let found = self.levels.iter().find(|level| axis::number_of(level) == Some(number))?;
        Some(found.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LOAD_SETTINGS;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::defaults(LOAD_SETTINGS);
        for (name, text) in pairs {
            let info = LOAD_SETTINGS.iter().find(|info| info.name == *name).unwrap();
            settings.set(name, info.kind.parse(text).unwrap());
        }
        settings
    }

    #[test]
    fn contradictions_are_reported() {
        let goal = ("limit", "response.p95 <= 1s");
        for (pairs, expected) in [
            (&[("limit_max", "64")][..], "`limit_max` has no meaning without `limit`"),
            (&[goal, ("steps", "1,2")], "`limit` and `steps` both choose the load"),
            (&[goal, ("limit_width", "0.1%")], "a width of 0.1% is out of range"),
            (&[goal, ("limit_max", "500/s")], "`500/s` is not a number of users"),
            (&[goal, ("open", "10/s"), ("limit_max", "500")], "`500` is not a rate"),
            (&[goal, ("limit_min", "9"), ("limit_max", "9")], "the smallest load of the search is not below"),
        ] {
            let problems = crate::Load::read(&settings(pairs)).unwrap_err();
            assert!(problems.0[0].what.starts_with(expected), "{:?}", problems.0);
        }
        for pairs in
            [&[goal][..], &[goal, ("open", "100/s"), ("limit_max", "5000/s")], &[goal, ("limit_max", "64")]]
        {
            crate::Load::read(&settings(pairs)).unwrap();
        }
    }

    #[test]
    fn a_goal_that_a_larger_load_meets_is_refused() {
        for text in ["throughput >= 100/s", "response.p95 >= 1s", "bytes_per_s <= 1MB/s", "nonsense"] {
            assert!(goal(text, &[], false).is_err(), "{text}");
        }
        for text in ["response.p95 <= 1s", "failed < 0.1%", "get.p99 < 5ms", "service.mean <= 1ms"] {
            assert_eq!(goal(text, &["get"], false).unwrap().text, text);
        }
    }
}
