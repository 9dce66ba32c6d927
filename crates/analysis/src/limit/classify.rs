//! Whether the trials at one load meet a goal.
//!
//! A percentile is compared through the share of operations beyond the limit: p95 <= 1 s is met if at most 5 %
//! of the operations take longer than 1 s. The share over all operations is exact. Consecutive operations are
//! correlated, so its interval comes from the means of batches, at most 1 s each; it is never narrower than
//! that of as many independent operations (Wilson, JASA 22, 1927).

use hdrhistogram::Histogram;
use model::goal::GoalMetric;
use model::limit::{LoadClass, MissReason};
use model::{Due, Estimate, Goal, Interval, LatencySummary, OperationHistograms, RunRecord};

use crate::measured::Measured;
use crate::statistics::{CONFIDENCE, steady_mean, t_interval};
use crate::trial;

/// Number of batches of a full-length trial, if they are not longer than a second.
const BATCHES: f64 = 10.0;
/// The longest batch, seconds.
const BATCH_S_MAX: f64 = 1.0;
/// The 97.5 % quantile of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_964;
/// Share of the offered operations that complete, below which an open load is not carried.
const CARRIED_SHARE: f64 = 0.95;

/// The class of a load, and why it misses the goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Classified {
    pub(crate) class: LoadClass,
    pub(crate) reason: Option<MissReason>,
    /// The class without regard to the confidence: of short trials, whether they meet the goal.
    pub(crate) meets: bool,
}

/// Classifies trials at the same load. None if nothing completed in them.
pub(crate) fn classify(records: &[&RunRecord], goal: &Goal, max_failures: Option<f64>) -> Classified {
    let misses = |reason| Classified { class: LoadClass::Misses, reason: Some(reason), meets: false };
    let measured: Vec<Measured> = records.iter().map(|record| Measured::of(record)).collect();
    if let Some(share) = not_carried(&measured) {
        return misses(MissReason::NotCarried(share));
    }
    // Parts of operations, and several of them together, count only where the goal names them.
    let own = measured.iter().flat_map(|of| of.intervals().filter(|one| !of.is_supporting(&one.operation)));
    let named = measured.iter().flat_map(|of| of.derived_intervals());
    let named = named.filter(|one| goal.operation.as_ref() == Some(&one.operation));
    let mut operations: Vec<&str> = Vec::new();
    for interval in own.chain(named) {
        if interval.completed > 0 && !operations.contains(&interval.operation.as_str()) {
            operations.push(&interval.operation);
        }
    }
    if operations.is_empty() {
        return misses(MissReason::NotCarried(0.0));
    }
    let failures = max_failures.map(Goal::few_failures);
    // A goal on an operation that was never measured is neither met nor missed.
    let mut all = match &goal.operation {
        Some(name) if !operations.contains(&name.as_str()) => {
            vec![((LoadClass::Unclear, false), MissReason::Goal)]
        }
        _ => Vec::new(),
    };
    for operation in operations {
        let compared = |goal: &Goal, reason| (compare(&measured, operation, goal), reason);
        if goal.operation.as_ref().is_none_or(|name| name == operation) {
            all.push(compared(goal, MissReason::Goal));
        }
        // Few operations cannot show that less than 1 % fail. The limit that nobody stated is not missed by that.
        let failed = failures.as_ref().map(|goal| compare(&measured, operation, goal));
        all.extend(failed.map(|(class, meets)| match (class, meets) {
            (LoadClass::Unclear, true) => ((LoadClass::Meets, true), MissReason::Failures),
            decided => (decided, MissReason::Failures),
        }));
    }
    let missed = all.iter().find(|((class, _), _)| *class == LoadClass::Misses);
    Classified {
        class: match missed {
            Some(_) => LoadClass::Misses,
            None if all.iter().all(|((class, _), _)| *class == LoadClass::Meets) => LoadClass::Meets,
            None => LoadClass::Unclear,
        },
        reason: missed.map(|(_, reason)| reason.clone()),
        meets: all.iter().all(|((_, meets), _)| *meets),
    }
}

/// The completed share of an open load that was not carried; none if it was.
fn not_carried(measured: &[Measured]) -> Option<f64> {
    let intervals = measured.iter().filter(|of| of.is_open()).flat_map(|of| of.intervals());
    let (offered, completed) = intervals.fold((0.0, 0.0), |sum, one| {
        (sum.0 + one.offered.unwrap_or(one.completed) as f64, sum.1 + one.completed as f64)
    });
    let share = completed / offered;
    // The operations in flight at both ends differ by chance.
    let is_chance = offered - completed <= EDGES * offered.sqrt();
    (share < CARRIED_SHARE && !is_chance).then_some(share)
}

/// Standard deviations of a Poisson count by which fewer operations may complete than were offered.
const EDGES: f64 = 3.0;

/// One batch: operations, and how many of them count (or the sum of their times).
#[derive(Clone, Copy, Default)]
struct Batch {
    operations: f64,
    sum: f64,
    length_s: f64,
}

/// The class of one operation for a goal, and whether the observed value meets it.
fn compare(measured: &[Measured], operation: &str, goal: &Goal) -> (LoadClass, bool) {
    let share_beyond = |tail: f64, of: Of| {
        let inclusive = goal.inclusive || tail > 0.0;
        let of_bound = |bound| {
            let (share, interval) = beyond(measured, operation, goal, of, bound);
            decide(share, interval, tail, inclusive)
        };
        match between(of_bound(Bound::Lower), of_bound(Bound::Upper)) {
            // Above the capacity a queue grows, and the response times with it: no interval of the whole trial is narrow. What
            // the second half misses is missed.
            (LoadClass::Unclear, false) => {
                let late = beyond_late(measured, operation, goal, of);
                let class = late.map(|late| decide(late.value, Some(late), tail, inclusive).0);
                (class.filter(|class| *class == LoadClass::Misses).unwrap_or(LoadClass::Unclear), false)
            }
            decided => decided,
        }
    };
    match &goal.metric {
        GoalMetric::Failed => {
            let of_bound = |bound| {
                let (share, interval) = failed(measured, operation, bound);
                decide(share, interval, goal.limit, goal.inclusive)
            };
            between(of_bound(Bound::Lower), of_bound(Bound::Upper))
        }
        GoalMetric::Response(part) => by_part(measured, operation, goal, part, Of::Response, share_beyond),
        GoalMetric::Service(part) => by_part(measured, operation, goal, part, Of::Service, share_beyond),
        GoalMetric::Lag(part) => by_part(measured, operation, goal, part, Of::Lag, share_beyond),
        GoalMetric::Throughput => {
            at_least(measured, operation, goal, |one| one.completed.saturating_sub(one.failed) as f64)
        }
        GoalMetric::BytesPerSecond => at_least(measured, operation, goal, |one| one.bytes as f64),
        // No search has such a goal.
        GoalMetric::Counter(_) | GoalMetric::CpuPerOperation => (LoadClass::Unclear, false),
    }
}

/// The class for a lower limit of a sum per second.
fn at_least(
    measured: &[Measured],
    operation: &str,
    goal: &Goal,
    sum: impl Fn(&Interval) -> f64,
) -> (LoadClass, bool) {
    // Work that ends by itself has a start and an end besides: only whole trials are comparable.
    let is_whole = measured.iter().all(Measured::ends_by_itself);
    let batches: Vec<Batch> = match is_whole {
        false => batches(measured, operation, |one| Some(sum(one))),
        true => measured.iter().filter_map(|one| whole(one, operation, &sum)).collect(),
    };
    let rates: Vec<f64> = batches.iter().map(|batch| batch.sum / batch.length_s).collect();
    let length_s: f64 = batches.iter().map(|batch| batch.length_s).sum();
    let value = batches.iter().map(|batch| batch.sum).sum::<f64>() / length_s;
    let mean = if is_whole { t_interval(&rates, CONFIDENCE) } else { steady_mean(&rates) };
    let interval = mean.filter(|mean| mean.low.is_finite() && mean.high.is_finite());
    // As an upper limit of the negative rate.
    let negative = interval.map(|mean| Estimate { value: -mean.value, low: -mean.high, high: -mean.low });
    decide(-value, negative, -goal.limit, goal.inclusive)
}

/// A trial as one batch.
fn whole(measured: &Measured, operation: &str, sum: impl Fn(&Interval) -> f64) -> Option<Batch> {
    let intervals = || measured.intervals().filter(|one| one.operation == operation);
    let length_s = measured.length_s();
    let batch = Batch {
        operations: intervals().map(|one| one.completed as f64).sum(),
        sum: intervals().map(&sum).sum(),
        length_s,
    };
    (length_s > 0.0).then_some(batch)
}

/// Which time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Response,
    Service,
    Lag,
}

impl Of {
    fn histogram(self, of: &OperationHistograms) -> &Histogram<u64> {
        match self {
            Of::Response => &of.response,
            Of::Service => &of.service,
            Of::Lag => &of.lag,
        }
    }

    /// The summary of an interval; none for the lag, which is recorded only as a whole.
    fn summary(self, interval: &Interval) -> Option<&LatencySummary> {
        match self {
            Of::Response => Some(&interval.response),
            Of::Service => Some(&interval.service),
            Of::Lag => None,
        }
    }
}

fn by_part(
    measured: &[Measured],
    operation: &str,
    goal: &Goal,
    part: &str,
    of: Of,
    share_beyond: impl Fn(f64, Of) -> (LoadClass, bool),
) -> (LoadClass, bool) {
    match part {
        "p50" => share_beyond(0.5, of),
        "p90" => share_beyond(0.1, of),
        "p95" => share_beyond(0.05, of),
        "p99" => share_beyond(0.01, of),
        "p999" => share_beyond(0.001, of),
        "mean" => {
            let mut whole = Batch::default();
            let censored = censored(measured, operation, of);
            for histogram in histograms(measured, operation, of).chain(censored) {
                whole.operations += histogram.len() as f64;
                whole.sum += histogram.mean() / 1e6 * histogram.len() as f64;
            }
            let value = whole.sum / whole.operations;
            let sum = |one: &Interval| match one.completed {
                0 => of.summary(one).map(|_| 0.0),
                completed => of.summary(one).map(|summary| summary.mean * completed as f64),
            };
            let interval = interval_of(value, &batches(measured, operation, sum));
            not_by_bounds(decide(value, interval, goal.limit, goal.inclusive), measured, operation, of)
        }
        // Extremes have no interval: what was observed counts.
        part => {
            let extremes = histograms(measured, operation, of)
                .filter_map(|histogram| LatencySummary::of(histogram).part(part));
            let extreme = if part == "min" { f64::min } else { f64::max };
            let decided = match extremes.reduce(extreme).map(|value| goal.met_by(value)) {
                Some(true) => (LoadClass::Meets, true),
                Some(false) => (LoadClass::Misses, false),
                None => (LoadClass::Unclear, false),
            };
            not_by_bounds(decided, measured, operation, of)
        }
    }
}

fn histograms<'a>(
    measured: &'a [Measured<'a>],
    operation: &'a str,
    of: Of,
) -> impl Iterator<Item = &'a Histogram<u64>> {
    let found = measured.iter().filter_map(move |one| one.record.histograms.get(operation));
    found.map(move |histograms| of.histogram(histograms)).filter(|histogram| !histogram.is_empty())
}

/// The histograms of the censored operations.
fn censored<'a>(
    measured: &'a [Measured<'a>],
    operation: &'a str,
    of: Of,
) -> impl Iterator<Item = &'a Histogram<u64>> {
    let found =
        measured.iter().filter_map(move |one| one.record.histograms.get(operation)?.censored.as_deref());
    let times = found.map(move |times| match of {
        Of::Response => &times.response,
        Of::Service => &times.service,
        Of::Lag => &times.lag,
    });
    times.filter(|histogram| !histogram.is_empty())
}

/// A goal that lower bounds meet is not met: the true values are larger.
fn not_by_bounds(
    decided: (LoadClass, bool),
    measured: &[Measured],
    operation: &str,
    of: Of,
) -> (LoadClass, bool) {
    match decided {
        (LoadClass::Misses, _) => decided,
        _ if censored(measured, operation, of).next().is_some() => (LoadClass::Unclear, false),
        _ => decided,
    }
}

/// What is assumed of a censored operation whose outcome is not known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// The best.
    Lower,
    /// The worst.
    Upper,
}

/// What is decided whatever became of the censored operations.
fn between(lower: (LoadClass, bool), upper: (LoadClass, bool)) -> (LoadClass, bool) {
    match (lower.0, upper.0) {
        (LoadClass::Misses, _) => lower,
        (_, LoadClass::Meets) => upper,
        _ => (LoadClass::Unclear, upper.1),
    }
}

/// The share of the operations beyond the limit, with its interval. A censored operation that was waited for longer is beyond it;
/// of another one it is not known.
fn beyond(
    measured: &[Measured],
    operation: &str,
    goal: &Goal,
    of: Of,
    bound: Bound,
) -> (f64, Option<Estimate>) {
    let limit_ns = (goal.limit * 1e6).round().max(0.0) as u64;
    let limit_ns = if goal.inclusive { limit_ns } else { limit_ns.saturating_sub(1) };
    let (mut operations, mut over) = (0_u64, 0_u64);
    for histogram in histograms(measured, operation, of) {
        operations = operations.saturating_add(histogram.len());
        over = over.saturating_add(histogram.len().saturating_sub(histogram.count_between(0, limit_ns)));
    }
    for histogram in censored(measured, operation, of) {
        operations = operations.saturating_add(histogram.len());
        let unknown = if bound == Bound::Upper { 0 } else { histogram.count_between(0, limit_ns) };
        over = over.saturating_add(histogram.len().saturating_sub(unknown));
    }
    let share = over as f64 / operations as f64;
    (share, of_share(share, operations as f64, &batches_beyond(measured, operation, goal, of)))
}

/// The same of the second half of each trial, from its batches alone.
fn beyond_late(measured: &[Measured], operation: &str, goal: &Goal, of: Of) -> Option<Estimate> {
    let second_half = |one: &Measured| {
        let mut batches = batches_beyond(std::slice::from_ref(one), operation, goal, of);
        batches.split_off(batches.len() / 2)
    };
    let late: Vec<Batch> = measured.iter().flat_map(second_half).collect();
    let (operations, over) = totals(&late);
    of_share(over / operations, operations, &late)
}

fn batches_beyond(measured: &[Measured], operation: &str, goal: &Goal, of: Of) -> Vec<Batch> {
    batches(measured, operation, |one| {
        of.summary(one).map(|summary| share_beyond(summary, goal.limit) * one.completed as f64)
    })
}

/// Operations and sums of all batches.
fn totals(batches: &[Batch]) -> (f64, f64) {
    batches.iter().fold((0.0, 0.0), |total, one| (total.0 + one.operations, total.1 + one.sum))
}

fn failed(measured: &[Measured], operation: &str, bound: Bound) -> (f64, Option<Estimate>) {
    let batches = batches(measured, operation, |one| Some(one.failed as f64));
    let operations: f64 = batches.iter().map(|batch| batch.operations).sum();
    let share = batches.iter().map(|batch| batch.sum).sum::<f64>() / operations;
    // Those that ended after the measured time count too. Censored operations may have failed.
    let of_due = measured.iter().map(|one| trial::due(one, &[operation])).collect::<Option<Vec<Due>>>();
    let share = of_due.map_or(share, |due| {
        let sum = |of: fn(&Due) -> u64| due.iter().map(|due| of(due) as f64).sum::<f64>();
        let judged = sum(|due| due.ended) + sum(|due| due.censored);
        let may_have_failed = if bound == Bound::Upper { sum(|due| due.censored) } else { 0.0 };
        if judged > 0.0 { (sum(|due| due.failed) + may_have_failed) / judged } else { share }
    });
    (share, of_share(share, operations, &batches))
}

/// The interval of a share: by batches, and not narrower than that of independent operations.
fn of_share(share: f64, operations: f64, batches: &[Batch]) -> Option<Estimate> {
    let by_batches = interval_of(share, batches)?;
    let square = NORMAL_QUANTILE * NORMAL_QUANTILE;
    let centre = (share + square / (2.0 * operations)) / (1.0 + square / operations);
    let half = NORMAL_QUANTILE / (1.0 + square / operations)
        * (share * (1.0 - share) / operations + square / (4.0 * operations * operations)).sqrt();
    Some(Estimate {
        value: share,
        low: by_batches.low.min(centre - half),
        high: by_batches.high.max(centre + half),
    })
}

/// The interval of a ratio of sums over batches: the batch means of the residuals, divided by the mean number
/// of operations. None for too few batches.
fn interval_of(value: f64, batches: &[Batch]) -> Option<Estimate> {
    let (operations, sum) = totals(batches);
    let ratio = sum / operations;
    let per_batch = operations / batches.len() as f64;
    let residuals: Vec<f64> =
        batches.iter().map(|batch| (batch.sum - ratio * batch.operations) / per_batch).collect();
    let mean = steady_mean(&residuals)?;
    let half = 0.5 * (mean.high - mean.low);
    (value.is_finite() && half.is_finite()).then_some(Estimate {
        value,
        low: value - half,
        high: value + half,
    })
}

/// The intervals of an operation, joined to batches. `sum` is what is summed up in one interval.
fn batches(measured: &[Measured], operation: &str, sum: impl Fn(&Interval) -> Option<f64>) -> Vec<Batch> {
    let mut batches = Vec::new();
    for of in measured {
        let batch_s = (of.length_s() / BATCHES).min(BATCH_S_MAX);
        let mut batch = Batch::default();
        let intervals = of.intervals().chain(of.derived_intervals());
        for interval in intervals.filter(|interval| interval.operation == operation) {
            let Some(sum) = sum(interval).filter(|sum| sum.is_finite()) else { return Vec::new() };
            batch.operations += interval.completed as f64;
            batch.sum += sum;
            batch.length_s += interval.length_s();
            // A little before its end, since intervals rarely end exactly with it.
            if batch.length_s >= 0.95 * batch_s {
                batches.push(std::mem::take(&mut batch));
            }
        }
    }
    batches
}

/// The share of the operations beyond a limit, from the percentiles of an interval: linear between them on a
/// logarithmic axis of time. It is exact where the limit is a percentile, which is where the decision is close.
fn share_beyond(summary: &LatencySummary, limit_ms: f64) -> f64 {
    let known = [
        (summary.min, 1.0),
        (summary.p50, 0.5),
        (summary.p90, 0.1),
        (summary.p95, 0.05),
        (summary.p99, 0.01),
        (summary.p999, 0.001),
        (summary.max, 0.0),
    ];
    if limit_ms < summary.min {
        return 1.0;
    }
    let above = known.iter().position(|(value, _)| *value > limit_ms);
    let Some(above) = above.filter(|above| *above > 0) else { return 0.0 };
    let ((low, share_low), (high, share_high)) = (known[above - 1], known[above]);
    let place = match low > 0.0 {
        true => (limit_ms / low).ln() / (high / low).ln(),
        false => limit_ms / high,
    };
    share_low + (share_high - share_low) * place.clamp(0.0, 1.0)
}

fn decide(value: f64, interval: Option<Estimate>, limit: f64, inclusive: bool) -> (LoadClass, bool) {
    let met = |value: f64| if inclusive { value <= limit } else { value < limit };
    let class = match interval {
        Some(interval) if met(interval.high) => LoadClass::Meets,
        Some(interval) if !met(interval.low) => LoadClass::Misses,
        _ => LoadClass::Unclear,
    };
    (class, met(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: LatencySummary = LatencySummary {
        min: 1.0,
        mean: 4.0,
        p50: 3.0,
        p90: 8.0,
        p95: 10.0,
        p99: 20.0,
        p999: 40.0,
        max: 50.0,
        at_least: model::Statistics::NONE,
    };

    #[test]
    fn the_share_is_exact_at_percentiles() {
        for (limit, expected) in [
            (0.5, 1.0),
            (1.0, 1.0),
            (3.0, 0.5),
            (8.0, 0.1),
            (10.0, 0.05),
            (20.0, 0.01),
            (40.0, 0.001),
            (50.0, 0.0),
            (60.0, 0.0),
        ] {
            assert!((share_beyond(&SUMMARY, limit) - expected).abs() < 1e-12, "{limit}");
        }
        // Half of the way between two percentiles on a logarithmic axis.
        assert!((share_beyond(&SUMMARY, 200f64.sqrt()) - 0.03).abs() < 1e-12);
        let same = LatencySummary {
            min: 5.0,
            mean: 5.0,
            p50: 5.0,
            p90: 5.0,
            p95: 5.0,
            p99: 5.0,
            p999: 5.0,
            max: 5.0,
            ..LatencySummary::default()
        };
        assert_eq!((share_beyond(&same, 5.0), share_beyond(&same, 4.9)), (0.0, 1.0));
        assert_eq!(share_beyond(&LatencySummary::default(), 1.0), 0.0);
    }

    #[test]
    fn few_operations_are_no_proof_of_a_small_share() {
        let batches =
            |operations: f64| vec![Batch { operations: operations / 10.0, sum: 0.0, length_s: 1.0 }; 10];
        // None of 50 is beyond the limit: the share may still be 7 %. Of 500, it is below 1 %.
        for (operations, expected) in [(50.0, LoadClass::Unclear), (500.0, LoadClass::Meets)] {
            let interval = of_share(0.0, operations, &batches(operations));
            assert_eq!(decide(0.0, interval, 0.01, true).0, expected, "{operations}");
        }
        // Batches that differ more than by chance decide less.
        let bursts: Vec<Batch> = (0..20)
            .map(|at| Batch { operations: 1000.0, sum: if at % 4 == 0 { 160.0 } else { 0.0 }, length_s: 1.0 })
            .collect();
        let interval = of_share(0.04, 20_000.0, &bursts);
        assert_eq!(decide(0.04, interval, 0.05, true).0, LoadClass::Unclear);
        assert_eq!(of_share(0.0, 500.0, &batches(500.0)[..5]), None);
    }
}
