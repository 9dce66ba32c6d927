//! Throughput and latency as functions of a varied number: block size, queue depth, load.

use std::collections::BTreeMap;
use std::mem::discriminant;

use hdrhistogram::Histogram;
use model::finding::Levels;
use model::result::{Curve, CurvePoint, OperationResult, ResultDocument, TrialResult};
use model::run::WorkloadTraits;
use model::study::new_histogram;
use model::{
    Estimate, Evidence, Interval, Level, Profile, SettingPath, Shape, Statistics, Study, Unit, quantity,
};

use crate::configuration::Group;
use crate::facts::stopped::{never_answered, never_answered_in};
use crate::measured::Measured;
use crate::plan::{baseline_level, plan_of};
use crate::statistics::median;

/// The factor of a curve over the load steps within runs.
const STEPS: &str = "load";

/// Whether a factor defines the amount of load.
pub(crate) fn is_load(factor: &str, traits: &WorkloadTraits) -> bool {
    matches!(factor, STEPS | "load.closed" | "load.open" | "load.steps")
        || factor
            .strip_prefix("workload.")
            .is_some_and(|name| traits.load_settings.iter().any(|setting| setting == name))
}

/// The curves over the amount of load.
pub(crate) fn load_curves(document: &ResultDocument) -> impl Iterator<Item = &Curve> {
    document.curves.iter().filter(|curve| is_load(&curve.factor, &document.traits))
}

/// The elasticity of throughput with respect to load above which the system was not saturated.
const GREW: f64 = 0.2;

/// The effect of the last load increase on throughput.
pub(crate) struct Gain {
    pub(crate) evidence: Evidence,
    /// Whether throughput still grew (elasticity above 0.2), which excludes a saturated device.
    pub(crate) grew: bool,
}

/// The effect of the last load increase on throughput; none if the load did not increase.
pub(crate) fn gain(curve: &Curve) -> Option<Gain> {
    let [.., before, after] = curve.points.as_slice() else { return None };
    gain_between(curve, before, after)
}

/// The effect of the first load increase on throughput.
pub(crate) fn first_gain(curve: &Curve) -> Option<Gain> {
    let [before, after, ..] = curve.points.as_slice() else { return None };
    gain_between(curve, before, after)
}

/// The effect of a load increase on throughput.
pub(crate) fn gain_between(curve: &Curve, before: &CurvePoint, after: &CurvePoint) -> Option<Gain> {
    let more = after.level / before.level;
    let gained = after.rate_per_s[0] / before.rate_per_s[0];
    let elasticity = gained.ln() / more.ln();
    if !(more > 1.0 && elasticity.is_finite()) {
        return None;
    }
    let evidence = Evidence::new("", "elasticity of throughput to load", Unit::Count, (0.0, 0.0), elasticity)
        .threshold(Estimate { value: 0.0, low: 0.0, high: GREW });
    let between = Levels {
        factor: curve.factor.clone(),
        from: before.label.clone(),
        to: after.label.clone(),
        series: curve.series.clone(),
        throughput_ratio: gained,
    };
    Some(Gain { evidence: Evidence { between: Some(between), ..evidence }, grew: elasticity > GREW })
}

/// All curves: one for each factor with numeric levels and each setting of the other factors, and one over
/// the load for each configuration with load steps.
pub(crate) fn curves(study: &Study, groups: &[Group], trials: &[TrialResult]) -> Vec<Curve> {
    let mut curves: Vec<Curve> =
        factors(study, groups).iter().flat_map(|factor| sweep(study, groups, trials, factor)).collect();
    curves.extend(groups.iter().filter_map(|group| steps(study, group, groups.len() > 1)));
    curves
}

/// Every factor that a treatment changes, in the order of the plan.
fn factors(study: &Study, groups: &[Group]) -> Vec<SettingPath> {
    let planned = plan_of(study).into_iter().flat_map(|plan| &plan.vary).map(|vary| &vary.factor);
    let changed = groups.iter().flat_map(|group| group.treatment.changes()).map(|change| &change.factor);
    let mut factors: Vec<SettingPath> = Vec::new();
    for factor in planned.chain(changed) {
        if !factors.contains(factor) {
            factors.push(factor.clone());
        }
    }
    factors
}

/// The level of a factor in the baseline: as planned, otherwise as requested or effective in a run of it.
fn level_in_baseline(study: &Study, groups: &[Group], factor: &SettingPath) -> Option<Level> {
    let planned = plan_of(study).and_then(|plan| {
        let variation = plan.vary.iter().find(|variation| variation.factor == *factor)?;
        baseline_level(plan, variation).cloned()
    });
    planned.or_else(|| {
        let baseline = groups.iter().find(|group| group.treatment.changes().is_empty())?;
        let run = &study.runs.get(*baseline.trials.first()?)?.run;
        run.asked.get(&factor.0).or_else(|| run.in_force.get(&factor.0)).cloned()
    })
}

/// A level of the varied factor with its trials.
struct Place {
    label: String,
    number: f64,
    trials: Vec<usize>,
}

/// The curves of one factor.
fn sweep(study: &Study, groups: &[Group], trials: &[TrialResult], factor: &SettingPath) -> Vec<Curve> {
    let in_baseline = level_in_baseline(study, groups, factor);
    // The series by the other settings; each has its levels with their trials.
    let mut series: Vec<(String, Vec<Place>)> = Vec::new();
    let mut kind = None;
    for group in groups.iter().filter(|group| !group.trials.is_empty()) {
        let changes = group.treatment.changes();
        let changed = changes.iter().find(|change| change.factor == *factor).map(|change| &change.level);
        let Some(level) = changed.or(in_baseline.as_ref()) else { continue };
        let Some(number) = level.as_number().filter(|number| number.is_finite()) else { continue };
        // A limit of 500/s and one of 20MB/s have no common axis.
        if *kind.get_or_insert(discriminant(level)) != discriminant(level) {
            continue;
        }
        let others: Vec<String> = changes
            .iter()
            .filter(|change| change.factor != *factor)
            .map(|change| {
                let path = change.factor.0.as_str();
                format!("{}={}", path.strip_prefix("workload.").unwrap_or(path), change.level)
            })
            .collect();
        let name = others.join(" ");
        let at = series.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            series.push((name, Vec::new()));
            series.len() - 1
        });
        series[at].1.push(Place { label: level.to_string(), number, trials: group.trials.clone() });
    }
    series.retain(|(_, levels)| levels.len() > 1);
    let several = series.len() > 1;
    for (_, levels) in &mut series {
        levels.sort_by(|a, b| a.number.total_cmp(&b.number));
    }
    let others = factors(study, groups).into_iter().filter(|other| other != factor);
    let in_words = |path: &SettingPath| {
        let level = level_in_baseline(study, groups, path)?;
        Some(format!("{}={level}", path.0.strip_prefix("workload.").unwrap_or(&path.0)))
    };
    let baseline = match others.map(|other| in_words(&other)).collect::<Option<Vec<String>>>() {
        Some(levels) if !levels.is_empty() => levels.join(" "),
        _ => "baseline".into(),
    };
    let curve = |operation: Option<&str>, (name, levels): &(String, Vec<Place>)| {
        let of_levels = match (several, name.is_empty()) {
            (false, _) => "",
            (true, true) => baseline.as_str(),
            (true, false) => name.as_str(),
        };
        let name: Vec<&str> =
            operation.into_iter().chain([of_levels]).filter(|part| !part.is_empty()).collect();
        Curve {
            factor: factor.0.clone(),
            series: name.join(", "),
            operation: operation.map(str::to_string),
            points: levels.iter().filter_map(|place| point(study, place, trials, operation)).collect(),
        }
    };
    // Consecutive operations have separate curves: the sum of a staging and an export is meaningless.
    let mut in_turn: Vec<&str> = Vec::new();
    for trial in series.iter().flat_map(|(_, levels)| levels).flat_map(|place| &place.trials) {
        let operations = trials.get(*trial).map_or(&[][..], |trial| &trial.operations);
        for operation in operations.iter().filter(|operation| operation.busy_s.is_some()) {
            if !in_turn.contains(&operation.name.as_str()) {
                in_turn.push(operation.name.as_str());
            }
        }
    }
    match in_turn.is_empty() {
        true => series.iter().map(|each| curve(None, each)).collect(),
        false => in_turn
            .iter()
            .flat_map(|operation| series.iter().map(|each| curve(Some(operation), each)))
            .filter(|curve| curve.points.len() > 1)
            .collect(),
    }
}

/// The point of a level: all operations, or one of them; none if no trial executed it.
fn point(
    study: &Study,
    place: &Place,
    trials: &[TrialResult],
    operation: Option<&str>,
) -> Option<CurvePoint> {
    let records = place.trials.iter().filter_map(|at| study.runs.get(*at));
    let trials: Vec<&TrialResult> = place.trials.iter().filter_map(|at| trials.get(*at)).collect();
    let done: Vec<&OperationResult> = trials
        .iter()
        .filter_map(|trial| match operation {
            None => trial.whole(),
            Some(name) => trial.operations.iter().find(|operation| operation.name.is(name)),
        })
        .collect();
    if operation.is_some() && done.is_empty() {
        return None;
    }
    let of = |value: fn(&OperationResult) -> f64| {
        median_and_range(&done.iter().copied().map(value).collect::<Vec<_>>())
    };
    let at_least = done.iter().fold(Statistics::NONE, |sum, done| sum.or(done.response_ms.at_least));
    Some(CurvePoint {
        level: place.number,
        label: place.label.clone(),
        replicates: trials.len() as u32,
        rate_per_s: of(|done| done.rate_per_s),
        bytes_per_s: of(|done| done.bytes_per_s),
        mean_ms: of(|done| done.response_ms.mean),
        p99_ms: of(|done| done.response_ms.p99),
        at_least: bounds_of_point(|part| at_least.has(part)),
        is_unanswered: records.into_iter().any(|record| never_answered(&Measured::of(record)).is_some()),
    })
}

/// The bounds among the times that a point has.
fn bounds_of_point(is_bound: impl Fn(&str) -> bool) -> Statistics {
    let mut bounds = Statistics::NONE;
    ["mean", "p99"].into_iter().filter(|part| is_bound(part)).for_each(|part| bounds.add(part));
    bounds
}

/// Median, smallest, largest of the known values; NaN without any.
fn median_and_range(values: &[f64]) -> [f64; 3] {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    match median(&known) {
        Some(median) => [
            median,
            known.iter().copied().fold(f64::INFINITY, f64::min),
            known.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ],
        None => [f64::NAN; 3],
    }
}

/// The results of one run at one load step. Times are NaN where no operation of the step has one.
#[derive(Clone, Copy)]
struct Step {
    rate_per_s: f64,
    bytes_per_s: f64,
    mean_ms: f64,
    p99_ms: f64,
    /// Whether the times are only lower bounds.
    is_bound: bool,
    /// Whether operations that never ended were a large part of those in flight.
    is_unanswered: bool,
}

/// The curve over the load within the runs of one configuration; none without load steps.
fn steps(study: &Study, group: &Group, several: bool) -> Option<Curve> {
    let mut levels: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
    let mut open = false;
    for record in group.trials.iter().filter_map(|at| study.runs.get(*at)) {
        let shape = record.run.load.shape.as_ref()?;
        if !matches!(shape.profile(), Profile::Steps(_)) {
            continue;
        }
        open = matches!(shape, Shape::Open { .. });
        let mut by_load: BTreeMap<u64, Vec<&Interval>> = BTreeMap::new();
        // The bits of positive numbers have the same order as the numbers.
        let measured = Measured::of(record);
        let of_load = measured.intervals().filter(|one| !measured.is_supporting(&one.operation));
        for interval in of_load.filter(|i| i.load > 0.0 && i.load.is_finite()) {
            by_load.entry(interval.load.to_bits()).or_default().push(interval);
        }
        // What was due in the last step and ended after the measured time is among its times.
        let last = measured.intervals().max_by(|a, b| a.end_s.total_cmp(&b.end_s)).map(|i| i.load.to_bits());
        for (load, intervals) in by_load {
            let later = match last == Some(load) {
                true => measured.later_intervals().collect(),
                false => Vec::new(),
            };
            levels.entry(load).or_default().push(step(
                &intervals,
                &later,
                &unanswered(&measured, &intervals),
                never_answered_in(&measured, &intervals).is_some(),
            ));
        }
    }
    if levels.len() < 2 {
        return None;
    }
    let points = levels
        .into_iter()
        .map(|(load, steps)| {
            let of = |value: fn(&Step) -> f64| median_and_range(&steps.iter().map(value).collect::<Vec<_>>());
            let level = f64::from_bits(load);
            CurvePoint {
                level,
                label: if open { quantity::rate(level) } else { level.to_string() },
                replicates: steps.len() as u32,
                rate_per_s: of(|step| step.rate_per_s),
                bytes_per_s: of(|step| step.bytes_per_s),
                mean_ms: of(|step| step.mean_ms),
                p99_ms: of(|step| step.p99_ms),
                at_least: bounds_of_point(|_| steps.iter().any(|step| step.is_bound)),
                is_unanswered: steps.iter().any(|step| step.is_unanswered),
            }
        })
        .collect();
    let series = if several { group.treatment.label() } else { String::new() };
    Some(Curve { factor: STEPS.into(), series, operation: None, points })
}

/// The times that the operations had that were due in these intervals and never ended: nanoseconds. They were waited
/// for until the end of the record; those that were never sent only until the load ended.
fn unanswered(measured: &Measured, intervals: &[&Interval]) -> Histogram<u64> {
    let record = measured.record;
    let wait_end_s = record.intervals.iter().map(|interval| interval.end_s).fold(measured.end_s, f64::max);
    let is_due_here = |waited_ns: u64, until_s: f64| {
        let due_s = until_s - waited_ns as f64 / 1e9;
        intervals.iter().any(|one| {
            // Before the first interval there is only the start of the load.
            due_s < one.end_s && (due_s >= one.begin_s || one.begin_s <= measured.begin_s)
        })
    };
    let mut times = new_histogram();
    for (name, of) in &record.histograms {
        let is_of_load =
            !measured.is_supporting(name) && !record.run.traits.derived.iter().any(|derived| derived == name);
        let Some(censored) = of.censored.as_deref().filter(|_| is_of_load) else { continue };
        // Those that were sent have a service time, too. They were due before the others.
        let mut sent = censored.service.len();
        let values: Vec<(u64, u64)> = (censored.response.iter_recorded())
            .map(|of| (censored.response.lowest_equivalent(of.value_iterated_to()), of.count_at_value()))
            .collect();
        for (waited_ns, count) in values.into_iter().rev() {
            let of_sent = count.min(sent);
            sent -= of_sent;
            for (part, until_s) in [(of_sent, wait_end_s), (count - of_sent, measured.end_s)] {
                if is_due_here(waited_ns, until_s) {
                    // Only a histogram with a fixed size can fail, and this one grows.
                    let _ = times.record_n(waited_ns, part);
                }
            }
        }
    }
    times
}

/// One load step of a run. If it has at least three intervals, the first one is omitted from the rates, because it includes
/// the load change. The 99th percentile is the median over the intervals, because a run has only one histogram for all steps.
/// `later` are intervals after the measured time whose operations belong to the step, and `unanswered` the times that those
/// had that never ended: with them, the times are lower bounds.
fn step(
    intervals: &[&Interval],
    later: &[&Interval],
    unanswered: &Histogram<u64>,
    is_unanswered: bool,
) -> Step {
    let mut begins: Vec<f64> = intervals.iter().map(|interval| interval.begin_s).collect();
    begins.sort_by(f64::total_cmp);
    begins.dedup();
    let from = if begins.len() >= 3 { begins[1] } else { f64::NEG_INFINITY };
    let kept: Vec<&&Interval> = intervals.iter().filter(|interval| interval.begin_s >= from).collect();
    let length_s = begins.iter().filter(|begin| **begin >= from).fold(0.0, |sum, begin| {
        sum + kept.iter().find(|i| i.begin_s == *begin).map_or(0.0, |i| i.length_s())
    });
    let (mut rate_per_s, mut bytes_per_s) = (0.0, 0.0);
    for interval in &kept {
        rate_per_s += interval.completed.saturating_sub(interval.failed) as f64 / length_s;
        bytes_per_s += interval.bytes as f64 / length_s;
    }
    let timed =
        kept.iter().map(|one| (**one, one.completed)).chain(later.iter().map(|one| (*one, one.timed())));
    let timed: Vec<(&Interval, u64)> = timed.filter(|(_, count)| *count > 0).collect();
    let ended: f64 = timed.iter().map(|(_, count)| *count as f64).sum();
    let ended_ms: f64 = timed.iter().map(|(one, count)| one.response.mean * *count as f64).sum();
    let never = unanswered.len() as f64;
    let never_ms = if never > 0.0 { unanswered.mean() / 1e6 * never } else { 0.0 };
    let p99 = median(&timed.iter().map(|(one, _)| one.response.p99).collect::<Vec<f64>>());
    // One in a hundred of all took at least as long as this one.
    let beyond = (0.01 * (ended + never)).ceil();
    let slow = (never >= beyond && never > 0.0).then(|| {
        let at = unanswered.value_at_quantile((never - beyond + 1.0) / never);
        unanswered.lowest_equivalent(at) as f64 / 1e6
    });
    Step {
        rate_per_s,
        bytes_per_s,
        mean_ms: (ended_ms + never_ms) / (ended + never),
        p99_ms: slow.into_iter().chain(p99).fold(f64::NAN, f64::max),
        is_bound: !unanswered.is_empty(),
        is_unanswered,
    }
}
