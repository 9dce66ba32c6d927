//! Trials of the same treatment combined, and the metrics of their comparison.

use std::collections::{BTreeMap, BTreeSet};

use model::neighbour::NeighbourRate;
use model::result::{Configuration, PhaseTime, TreatmentResult, TrialResult};
use model::run::WorkloadTraits;
use model::{Change, Ending, Level, SettingPath, Study, Treatment};

use crate::plan::{plan_of, treatments};
use crate::statistics::median;

/// A configuration by the levels of what is varied, of the baseline too: `cache=direct`.
pub(crate) fn levels_label(treatment: &TreatmentResult) -> String {
    let levels = treatment.levels.iter().map(|of| format!("{}={}", of.factor.name(), of.level));
    match treatment.levels.is_empty() || treatment.is_side {
        true => treatment.label.clone(),
        false => levels.collect::<Vec<_>>().join(", "),
    }
}

/// Failed operations as a share of the completed ones. Compared by counts, see [`crate::comparison`].
pub(crate) const FAILED_SHARE: &str = "failed_share";

/// The compared metrics in the order of display, and whether a larger value is better.
pub const METRICS: &[(&str, bool)] = &[
    ("rate_per_s", true),
    ("bytes_per_s", true),
    ("elapsed_s", false),
    ("response_ms.p50", false),
    ("response_ms.p99", false),
    ("response_ms.p999", false),
    ("response_ms.mean", false),
    ("cpu_us_per_operation", false),
    (FAILED_SHARE, false),
    ("consumed_share", false),
    ("mount_s", false),
];

/// Number of operations beyond a percentile that are required to compare it.
pub(crate) const SAMPLES_BEYOND: f64 = 10.0;

/// The compared metrics of these trials, in the order of display. If operations are consecutive, each has its
/// own rate. Common percentiles are omitted, because they would describe a mixture that no step has.
pub fn metrics(trials: &[&TrialResult]) -> Vec<(String, bool)> {
    let operations = trials.iter().flat_map(|trial| &trial.operations);
    let mut in_turn: Vec<(String, bool)> = Vec::new();
    for operation in operations.filter(|operation| operation.busy_s.is_some()) {
        let name = format!("{}.rate_per_s", operation.name);
        if in_turn.iter().all(|(known, _)| *known != name) {
            in_turn.push((name, true));
        }
    }
    let fits = |name: &str| in_turn.is_empty() || !name.starts_with("response_ms.");
    let others =
        METRICS.iter().filter(|(name, _)| fits(name)).map(|(name, better)| (name.to_string(), *better));
    let others: Vec<(String, bool)> = others.collect();
    in_turn.into_iter().chain(others).collect()
}

/// Whether a metric of [`metrics`] is only a bound of the true value in a trial, because operations are censored.
pub(crate) fn is_bound(trial: &TrialResult, name: &str) -> bool {
    let Some(whole) = trial.whole() else { return false };
    match name.strip_prefix("response_ms.") {
        Some(part) => whole.response_ms.at_least.has(part),
        None => name == FAILED_SHARE && whole.censored > 0,
    }
}

/// One metric of [`metrics`] in a trial; none if the trial does not have it.
pub fn metric(trial: &TrialResult, name: &str) -> Option<f64> {
    if let Some(operation) = name.strip_suffix(".rate_per_s") {
        let of = trial.operations.iter().find(|of| of.name.is(operation) && of.busy_s.is_some());
        return of.map(|of| of.rate_per_s);
    }
    let whole = trial.whole().filter(|_| trial.measured_s > 0.0)?;
    if let Some(part) = name.strip_prefix("response_ms.") {
        let beyond = whole.judged() as f64 * 0.001;
        let enough = whole.judged() > 0 && (part != "p999" || beyond >= SAMPLES_BEYOND);
        return whole.response_ms.part(part).filter(|value| enough && value.is_finite());
    }
    match name {
        "rate_per_s" => Some(whole.rate_per_s),
        "bytes_per_s" => Some(whole.bytes_per_s).filter(|bytes| *bytes > 0.0),
        // How long a load takes that ends by itself.
        "elapsed_s" => trial.copy.as_ref().map(|_| trial.measured_s),
        "cpu_us_per_operation" => trial.cpu_us_per_operation,
        FAILED_SHARE => whole.failed_share().map(|(least, _)| least),
        "consumed_share" => consumed_share(trial),
        "mount_s" => match fact(trial, "mount_time")? {
            Level::Time(time) => Some(*time as f64 / model::SECOND as f64),
            _ => None,
        },
        _ => None,
    }
}

/// A fact of the factor that made a file system for the trial.
fn fact<'a>(trial: &'a TrialResult, name: &str) -> Option<&'a Level> {
    let factors = ["host.layout", "host.filesystem"];
    factors.into_iter().find_map(|factor| trial.facts.get(&format!("{factor}.{name}")))
}

/// The space that the files consume, on all devices where this is known, as a share of the sum of their sizes.
fn consumed_share(trial: &TrialResult) -> Option<f64> {
    let bytes = |name: &str| match fact(trial, name)? {
        Level::Bytes(bytes) => Some(*bytes as f64),
        _ => None,
    };
    let nominal = bytes("nominal_bytes").filter(|bytes| *bytes > 0.0)?;
    Some(bytes("device_bytes_used").or_else(|| bytes("consumed_bytes"))? / nominal)
}

/// Completed trials of one treatment in order of execution, as indexes of `study.runs` and of the document's
/// trials.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) treatment: Treatment,
    pub(crate) trials: Vec<usize>,
}

/// Every treatment of the plan and of the runs: the baseline first, then in the order of the plan.
pub(crate) fn groups(study: &Study) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let ran = |treatment: &Treatment| {
        study.runs.iter().any(|run| run.run.trial.treatment.configuration() == *treatment)
    };
    let planned = plan_of(study).map(treatments).unwrap_or_default();
    let recorded = study.runs.iter().map(|run| run.run.trial.treatment.configuration());
    // The measurements of a proof are reported by the proof.
    let recorded = recorded.filter(|treatment| !matches!(treatment, Treatment::Proof(_)));
    for treatment in std::iter::once(Treatment::Baseline).chain(planned).filter(ran).chain(recorded) {
        if !groups.iter().any(|group| group.treatment == treatment) {
            groups.push(Group { treatment, trials: Vec::new() });
        }
    }
    for (at, run) in study.runs.iter().enumerate().filter(|(_, run)| run.run.ending == Ending::Completed) {
        if let Some(group) =
            groups.iter_mut().find(|group| group.treatment == run.run.trial.treatment.configuration())
        {
            group.trials.push(at);
        }
    }
    groups
}

/// Whether a setting that defines the whole load differs between two groups.
pub(crate) fn are_distinct_loads(traits: &WorkloadTraits, one: &Group, other: &Group) -> bool {
    let changes = one.treatment.changes().iter().chain(other.treatment.changes());
    changes.into_iter().any(|change| {
        let name = change.factor.0.strip_prefix("workload.");
        name.is_some_and(|name| traits.distinct_loads.iter().any(|known| known == name))
    })
}

/// Every factor that differs between the groups, with its level in this one: its own change, or the requested
/// level of the trial.
pub(crate) fn levels(study: &Study, groups: &[Group], group: &Group) -> Vec<Change> {
    let mut factors: Vec<&SettingPath> = Vec::new();
    for change in groups.iter().flat_map(|group| group.treatment.changes()) {
        if !factors.contains(&&change.factor) {
            factors.push(&change.factor);
        }
    }
    let own = group.treatment.changes();
    let run = study.runs.iter().find(|record| record.run.trial.treatment.configuration() == group.treatment);
    let level = |factor: &SettingPath| {
        let changed = own.iter().find(|change| change.factor == *factor).map(|change| &change.level);
        let asked = || {
            let run = &run?.run;
            run.asked.get(&factor.0).or_else(|| run.in_force.get(&factor.0))
        };
        changed.or_else(asked).cloned()
    };
    let known = factors.into_iter();
    known.filter_map(|factor| Some(Change { factor: factor.clone(), level: level(factor)? })).collect()
}

/// The numbers of the trials of one configuration.
pub(crate) fn summary(treatment: TreatmentResult, members: &[&TrialResult]) -> Configuration {
    let mut medians = BTreeMap::new();
    let mut spreads = BTreeMap::new();
    let mut at_least = BTreeSet::new();
    for (name, _) in metrics(members) {
        let values: Vec<f64> = members.iter().filter_map(|trial| metric(trial, &name)).collect();
        let Some(median) = median(&values) else { continue };
        if members.iter().any(|trial| is_bound(trial, &name)) {
            at_least.insert(name.clone());
        }
        let highest = values.iter().copied().fold(f64::MIN, f64::max);
        let lowest = values.iter().copied().fold(f64::MAX, f64::min);
        let spread = if median > 0.0 { 0.5 * (highest - lowest) / median } else { 0.0 };
        medians.insert(name.clone(), median);
        spreads.insert(name, spread);
    }
    let derived = members.iter().flat_map(|trial| &trial.derived);
    let bounds = derived.filter(|of| of.response_ms.at_least.has("mean"));
    at_least.extend(bounds.map(|of| format!("derived_ms.{}", of.name)));
    Configuration {
        treatment,
        trials: members.iter().map(|trial| trial.trial.clone()).collect(),
        medians,
        at_least,
        spreads,
        derived_ms: derived_ms(members),
        phases: phases(members),
        passes: passes(members),
        neighbour: neighbour(members),
        ..Configuration::default()
    }
}

/// The loads of the neighbour of these trials, with the medians of the achieved rates.
fn neighbour(members: &[&TrialResult]) -> Vec<NeighbourRate> {
    let of_trials: Vec<Vec<NeighbourRate>> =
        members.iter().map(|trial| NeighbourRate::of_trial(&trial.facts)).collect();
    let mut rates = of_trials.first().cloned().unwrap_or_default();
    for rate in &mut rates {
        let same = of_trials.iter().flatten().filter(|other| other.load == rate.load);
        let achieved: Vec<f64> = same.filter_map(|other| other.achieved.as_ref()?.as_number()).collect();
        rate.achieved = median(&achieved).map(|achieved| match rate.stated {
            Level::BytesPerSecond(_) => Level::BytesPerSecond(achieved),
            Level::Rate(_) => Level::Rate(achieved),
            _ => Level::Number(achieved),
        });
    }
    rates
}

/// The phases of imports, in the order of their numbers: facts such as `phase.2.merging the passes`.
fn phases(members: &[&TrialResult]) -> Vec<PhaseTime> {
    let mut times: BTreeMap<(u32, &str), Vec<f64>> = BTreeMap::new();
    for (name, level) in members.iter().flat_map(|trial| &trial.facts) {
        let numbered = name.strip_prefix("phase.").and_then(|rest| rest.split_once('.'));
        let Some((number, name)) = numbered else { continue };
        if let (Ok(number), Level::Time(time)) = (number.parse(), level) {
            times.entry((number, name)).or_default().push(*time as f64 / model::SECOND as f64);
        }
    }
    let mut phases: Vec<PhaseTime> = Vec::new();
    let mut known: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((_, name), values) in times {
        if !known.contains_key(name) {
            phases.push(PhaseTime { name: name.into(), seconds: 0.0 });
        }
        known.entry(name).or_default().extend(values);
    }
    for phase in &mut phases {
        phase.seconds = known.get(phase.name.as_str()).and_then(|values| median(values)).unwrap_or(0.0);
    }
    phases
}

fn passes(members: &[&TrialResult]) -> Option<f64> {
    let passes = members.iter().filter_map(|trial| match trial.facts.get("passes") {
        Some(Level::Count(count)) => Some(*count as f64),
        _ => None,
    });
    median(&passes.collect::<Vec<f64>>())
}

/// The mean times of the parts of operations and of transactions.
fn derived_ms(members: &[&TrialResult]) -> BTreeMap<String, f64> {
    let mut means: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let derived = members.iter().flat_map(|trial| &trial.derived);
    for operation in derived.filter(|of| of.completed > 0 && of.response_ms.mean.is_finite()) {
        means.entry(operation.name.to_string()).or_default().push(operation.response_ms.mean);
    }
    means.into_iter().filter_map(|(name, values)| Some((name, median(&values)?))).collect()
}
