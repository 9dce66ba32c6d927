//! The answer of `plimsoll size` from a record: its load levels, the use of each resource, and the words.

use std::collections::{BTreeMap, BTreeSet};

use model::cost::{CostKind, CostOwner, CostPart, OperationCost};
use model::goal::GoalMetric;
use model::result::{ProofAnswer, ProofRow, ResultDocument, TrialResult};
use model::sizing::{
    ExcludedLevel, HeldOutRow, PriceRow, SIZING_FORMAT, SizingAnswer, SizingLevel, SizingRow,
};
use model::{
    Detector, Doubt, DoubtKind, Ending, Estimate, Finding, FindingKind, HostResource, Interval, IoLimits,
    Nanos, Operation, Probe, Profile, RunRecord, SizeGoal, SizingDocument, SourceState, Study, Treatment,
    metrics,
};

use super::{Level, Limit, Need, PLANNED_UTILIZATION, Resource, Scale, Sizing, size};
use crate::curve::is_load;
use crate::facts::FAILED_SHARE;
use crate::facts::service::services;
use crate::law::predict::{FARTHEST, LEVELS_MIN, Refusal};
use crate::measured::Measured;
use crate::statistics::median;
use crate::words;

/// A level counts as unsaturated if the throughput per user is at least this share of the best one.
const UNSATURATED: f64 = 0.75;
/// The tolerance by which levels may exceed the requested one: the number in flight is a measured mean.
const SAME_LOAD: f64 = 1.02;
/// The statistic of the response time that is shown without a goal.
const SHOWN_PART: &str = "p95";

/// One replicate of a level.
struct Replicate {
    throughput_per_s: f64,
    concurrency: f64,
    response_ms: Option<f64>,
    found: BTreeMap<String, Found>,
    /// The first of its doubts that affects a sizing.
    doubt: Option<String>,
    /// Sources that could not be read.
    unread: Vec<String>,
}

/// A resource in the readings of a trial.
struct Found {
    resource: Resource,
    /// Whether its use follows the load only without queueing, as for threads, which are held while they
    /// wait.
    held: bool,
    used: f64,
}

/// The load levels of a study.
#[derive(Default)]
struct Sweep {
    resources: Vec<Resource>,
    levels: Vec<Level>,
    /// Trials that are not load levels but show the demand of an operation: those of a proof, and those with
    /// a reduced or increased resource.
    also: Vec<Level>,
    /// The published data of each level, in the same order.
    shown: Vec<SizingLevel>,
    left_out: Vec<ExcludedLevel>,
    warnings: Vec<String>,
}

/// Sizes the system of a study for a load. `up_to` excludes levels with more operations in flight, as if they
/// had not been measured.
pub fn sizing(
    study: &Study,
    document: &ResultDocument,
    goal: &SizeGoal,
    up_to: Option<f64>,
) -> SizingDocument {
    let sweep = sweep(study, document, goal, up_to);
    let mut answered = SizingDocument {
        format: SIZING_FORMAT.into(),
        run: document.run.clone(),
        experiment: document.experiment.clone(),
        goal: goal.clone(),
        answer: None,
        refusal: String::new(),
        verdict: String::new(),
        levels: sweep.shown,
        left_out: sweep.left_out,
        assumptions: Vec::new(),
        warnings: Vec::new(),
    };
    let need = Need {
        throughput_per_s: goal.throughput_per_s,
        response_ms: goal.response.as_ref().map(|goal| goal.limit),
    };
    match size(&sweep.resources, &sweep.levels, &sweep.also, need) {
        Ok(found) => fill(&mut answered, document, &sweep.resources, found, up_to.is_some()),
        Err(refusal) => answered.refusal = refused(&refusal, &sweep.levels),
    }
    answered.warnings.extend(sweep.warnings);
    answered
}

fn refused(refusal: &Refusal, levels: &[Level]) -> String {
    match refusal {
        Refusal::TooFewLevels(levels) => format!(
            "{} measured, and {LEVELS_MIN} are needed to see how it grows; vary the load, such as \
             \"load.closed\" = {{ levels = [1, 2, 4, 8, 16] }}",
            words::count(*levels, "load level")
        ),
        Refusal::NoLawFits(error) => format!(
            "no law describes how throughput follows the load: the best misses the measured levels by {}; measure \
             more replicates of each level, or look for what changed between them",
            words::percent(*error)
        ),
        Refusal::TooFar(_) => {
            let highest = levels.iter().map(|level| level.throughput_per_s).fold(0.0, f64::max);
            format!(
                "that is more than {FARTHEST} times the {} that were measured: no prediction goes so far; measure \
                 a larger load",
                words::per_s(highest)
            )
        }
    }
}

fn fill(
    answered: &mut SizingDocument,
    document: &ResultDocument,
    resources: &[Resource],
    found: Sizing,
    in_part: bool,
) {
    let name = |at: usize| resources.get(at).map_or("", |resource| resource.name.as_str());
    let limit = match found.limit {
        Limit::Resource(at) => name(at).to_string(),
        // The verdict is based on levels that are to be excluded.
        Limit::NotMeasured => match &document.verdict {
            verdict if !in_part && verdict.resource().is_some() => {
                verdict.resource().map(ToString::to_string).unwrap_or_default()
            }
            _ => "something that was not measured".into(),
        },
        Limit::NotReached(Some(at)) => format!("none was reached; {} would come first", name(at)),
        Limit::NotReached(None) => "none was reached".into(),
    };
    let gives = |at: usize| {
        let row = found.what_if.iter().find(|row| row.resource == at);
        row.map_or(1.0, |row| row.capacity_ratio)
    };
    let at_least = !found.carries_per_s.high.is_finite();
    let carries_per_s = Estimate {
        high: if at_least { found.carries_per_s.value } else { found.carries_per_s.high },
        ..found.carries_per_s
    };
    let rows = found.amounts.iter().filter_map(|amount| {
        let resource = resources.get(amount.resource)?;
        Some(SizingRow {
            resource: resource.name.clone(),
            unit: resource.unit.clone(),
            amount: resource.amount,
            demand: *amount.demand.demands.first()?,
            carries_per_s: amount.carries_per_s,
            needed: amount.needed,
            twice_gives: gives(amount.resource),
        })
    });
    answered.answer = Some(SizingAnswer {
        limit,
        carries_per_s,
        at_least,
        headroom: found.headroom.value,
        extrapolated: found.extrapolated,
        planned_share: PLANNED_UTILIZATION,
        resources: rows.collect(),
        price_list: price_list(document, answered.goal.throughput_per_s),
        held_out: found.held_out.map(|held_out| HeldOutRow {
            concurrency: held_out.concurrency,
            predicted_per_s: held_out.predicted_per_s,
            measured_per_s: held_out.measured_per_s,
        }),
    });
    answered.assumptions = found.assumptions;
    answered.warnings = found.warnings;
    answered.warnings.extend(not_proved(document, resources, found.limit));
}

/// The demands of one operation of the baseline times the load. Waits are excluded, because more of a
/// resource does not remove them in proportion.
fn price_list(document: &ResultDocument, rate_per_s: f64) -> Vec<PriceRow> {
    let is_bought = |kind: CostKind| {
        !kind.is_time() && kind < CostKind::Segments
            || matches!(kind, CostKind::UserCpu | CostKind::SystemCpu)
    };
    let costs = document.configurations.first().map_or(&[][..], |baseline| &baseline.costs);
    // The load is all operations of a mix together; each has its share.
    let whole = costs.iter().find(|cost| cost.operation == Operation::All).map(|whole| whole.rate_per_s);
    let share = |cost: &OperationCost| whole.map_or(1.0, |whole| cost.rate_per_s / whole);
    let row = |cost: &OperationCost, part: &CostPart| {
        let rate_per_s = rate_per_s * share(cost);
        let times = |factor: f64| Estimate {
            value: part.each.value * factor,
            low: part.each.low * factor,
            high: part.each.high * factor,
        };
        PriceRow {
            operation: cost.operation.clone(),
            kind: part.kind,
            of: part.of.clone(),
            each: part.each,
            for_load_per_s: times(rate_per_s),
            with_headroom_per_s: part.each.value * rate_per_s / PLANNED_UTILIZATION,
        }
    };
    let rows = costs.iter().flat_map(|cost| {
        let bought = cost.parts.iter().filter(|part| is_bought(part.kind) && part.of != CostOwner::Generator);
        bought.map(|part| row(cost, part))
    });
    rows.filter(|row| row.for_load_per_s.high.is_finite() && row.with_headroom_per_s.is_finite()).collect()
}

/// What the proof leaves open about the limit, or shows against it; none if it confirms it.
fn not_proved(document: &ResultDocument, resources: &[Resource], limit: Limit) -> Option<String> {
    let rows: Vec<&ProofRow> =
        document.proof.iter().flat_map(|proof| &proof.rows).filter(|row| row.rounds > 0).collect();
    if rows.is_empty() {
        return Some("what limits is not proved: run the experiment with --prove".into());
    }
    let at = match limit {
        Limit::Resource(at) => Some(at),
        Limit::NotMeasured => None,
        // A proof is about the limit at the measured loads, and there was none.
        Limit::NotReached(_) => return None,
    };
    let resource = at.and_then(|at| resources.get(at));
    let of_host = resource.and_then(|resource| resource.of_host);
    let name = resource.map_or("something that was not measured", |resource| resource.name.as_str());
    if let Some(row) = rows.iter().find(|row| row.answer == ProofAnswer::Confirmed) {
        return (Some(row.resource) != of_host).then(|| {
            format!(
                "the proof says that the {} limits, and not {name}: more of what is named here may not help",
                row.resource
            )
        });
    }
    let Some(row) = rows.iter().find(|row| Some(row.resource) == of_host) else {
        // No factor changes this resource: the proof supports it as far as it rules out the others.
        let open: Vec<&str> = rows
            .iter()
            .filter(|row| row.answer != ProofAnswer::Rejected)
            .map(|row| row.resource.words())
            .collect();
        return (!open.is_empty())
            .then(|| format!("the proof does not rule out that the {} limits", open.join(" or the ")));
    };
    match row.answer {
        ProofAnswer::Confirmed => None,
        ProofAnswer::Rejected => Some(format!(
            "the proof says that {name} does not limit: throughput did not follow when {} was cut",
            row.factor
        )),
        ProofAnswer::Contributing | ProofAnswer::Unclear => Some(format!(
            "the proof does not show that {name} alone limits; `plimsoll explain` has what it showed"
        )),
    }
}

/// Why a trial cannot be used for its load level; none if it can.
fn useless(record: &RunRecord, trial: &TrialResult, generator: &[&Finding]) -> Option<String> {
    if record.run.ending != Ending::Completed {
        return Some("it did not complete".into());
    }
    let Some(whole) = trial.whole().filter(|whole| whole.completed > 0) else {
        return Some("no operation completed".into());
    };
    if whole.fails_beyond(FAILED_SHARE) {
        let share = words::percent(whole.failed_share().map_or(0.0, |(least, _)| least));
        return Some(format!("{share} of its operations failed"));
    }
    if generator.iter().any(|finding| finding.trials.contains(&trial.trial)) {
        return Some("the load generator was its limit".into());
    }
    (!(whole.rate_per_s > 0.0 && whole.concurrency > 0.0))
        .then(|| "how many operations were in flight was not recorded".into())
}

/// Whether a doubt about a trial also affects a sizing.
fn weakens(doubt: &Doubt) -> bool {
    use DoubtKind::{Clock, CutShort, Damaged, LittlesLaw, Neighbour, NotInForce, Unsteady};
    matches!(doubt.kind, Clock | CutShort | Damaged | LittlesLaw | Neighbour | NotInForce | Unsteady)
}

/// The data of a whole trial for its level.
fn replicate(study: &Study, record: &RunRecord, trial: &TrialResult, goal: &SizeGoal) -> Option<Replicate> {
    let whole = trial.whole()?;
    let response_ms = match &goal.response {
        Some(goal) => crate::goal::value(goal, trial),
        None => whole.response_ms.bounded(SHOWN_PART).filter(|(_, is_bound)| !is_bound).map(|(ms, _)| ms),
    };
    let measured = Measured::of(record);
    let spans = [(measured.begin_s, measured.end_s)];
    let rates = (whole.rate_per_s, whole.concurrency);
    Some(of_spans(study, &measured, trial, &spans, rates, response_ms))
}

fn of_spans(
    study: &Study,
    measured: &Measured,
    trial: &TrialResult,
    spans: &[(f64, f64)],
    (throughput_per_s, concurrency): (f64, f64),
    response_ms: Option<f64>,
) -> Replicate {
    let weak = trial.doubts.iter().find(|doubt| weakens(doubt));
    let run = &measured.record.run;
    let sources = run.sources.iter().filter(|status| status.state != SourceState::Active);
    let found = found(study, measured, spans);
    Replicate {
        throughput_per_s,
        concurrency,
        response_ms,
        found: found.into_iter().map(|found| (found.resource.name.clone(), found)).collect(),
        doubt: weak.map(|doubt| format!("{}: {}", trial.trial, doubt.text)),
        unread: sources.map(|status| status.source.clone()).collect(),
    }
}

/// The steps of a load that increases within the trial, each as a separate level; none if it does not. The
/// response time of a step is the median over its intervals, because a run has only one histogram for all
/// steps.
fn steps(
    study: &Study,
    record: &RunRecord,
    trial: &TrialResult,
    goal: &SizeGoal,
) -> Vec<(String, Replicate)> {
    let rises =
        record.run.load.shape.as_ref().is_some_and(|shape| matches!(shape.profile(), Profile::Steps(_)));
    if !rises {
        return Vec::new();
    }
    let measured = Measured::of(record);
    let mut loads: Vec<f64> = measured.intervals().map(|interval| interval.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let part = match goal.response.as_ref().map(|goal| &goal.metric) {
        Some(GoalMetric::Response(part)) => part.as_str(),
        _ => SHOWN_PART,
    };
    let of_goal = |interval: &&Interval| {
        let wanted = goal.response.as_ref().and_then(|goal| goal.operation.as_ref());
        wanted.is_none_or(|operation| *operation == interval.operation)
    };
    let level = |load: &f64| {
        let mut intervals: Vec<&Interval> =
            measured.intervals().filter(|interval| interval.load == *load).collect();
        // The load change is in the first interval.
        let first_s = intervals.first()?.begin_s;
        if intervals.iter().any(|interval| interval.begin_s > first_s) {
            intervals.retain(|interval| interval.begin_s > first_s);
        }
        let spans: Vec<(f64, f64)> = intervals.iter().map(|one| (one.begin_s, one.end_s)).collect();
        let mut windows = spans.clone();
        windows.dedup();
        let length_s: f64 = windows.iter().map(|(begin_s, end_s)| end_s - begin_s).sum();
        let well: f64 = intervals.iter().map(|one| one.completed.saturating_sub(one.failed) as f64).sum();
        let in_flight: f64 = intervals.iter().map(|one| one.concurrency * one.length_s()).sum();
        let responses: Vec<f64> = intervals
            .iter()
            .filter(|one| one.completed > 0)
            .filter(|one| of_goal(one))
            .filter_map(|one| one.response.bounded(part))
            // Which step never ended operations belong to is not looked for here.
            .filter(|_| trial.whole().is_none_or(|whole| whole.censored == 0))
            .map(|(ms, _)| ms)
            .collect();
        let rates = (well / length_s, in_flight / length_s);
        let one = of_spans(study, &measured, trial, &windows, rates, median(&responses));
        (rates.0 > 0.0 && rates.1 > 0.0 && rates.0.is_finite() && rates.1.is_finite())
            .then(|| (format!("{load}"), one))
    };
    loads.iter().filter_map(level).collect()
}

/// The load of one trial of a search.
fn probe_label(probe: &Probe) -> String {
    Treatment::OneChange(probe.at.clone()).label()
}

/// The measured time of the longest completed trial at each load of a search.
fn longest_probes(study: &Study) -> BTreeMap<String, Nanos> {
    let mut longest = BTreeMap::new();
    for run in study.runs.iter().map(|record| &record.run).filter(|run| run.ending == Ending::Completed) {
        if let Treatment::Probe(probe) = &run.trial.treatment {
            let known = longest.entry(probe_label(probe)).or_insert(probe.measure);
            *known = probe.measure.max(*known);
        }
    }
    longest
}

/// The load levels of a study with combined replicates, and the resources with known use.
fn sweep(study: &Study, document: &ResultDocument, goal: &SizeGoal, up_to: Option<f64>) -> Sweep {
    let of_load = |treatment: &Treatment| match treatment {
        Treatment::Baseline => true,
        Treatment::OneChange(change) => is_load(&change.factor.0, &document.traits),
        // The loads of a search in the baseline.
        Treatment::Probe(probe) => {
            probe.configuration.is_empty() && is_load(&probe.at.factor.0, &document.traits)
        }
        _ => false,
    };
    let longest = longest_probes(study);
    let of_resource = |treatment: &Treatment| match treatment {
        Treatment::Proof(_) => true,
        Treatment::OneChange(change) => change.factor.area() == "host",
        _ => false,
    };
    let generator: Vec<&Finding> = document
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Limits && finding.detector == Detector::Generator)
        .collect();
    let mut sweep = Sweep::default();
    let mut groups: BTreeMap<String, Vec<Replicate>> = BTreeMap::new();
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut other: Vec<Replicate> = Vec::new();
    for (record, trial) in study.runs.iter().zip(&document.trials) {
        let treatment = &record.run.trial.treatment;
        if of_resource(treatment) && useless(record, trial, &generator).is_none() {
            other.extend(replicate(study, record, trial, goal));
        }
        if !of_load(treatment) {
            continue;
        }
        let label = match treatment {
            Treatment::Baseline if !trial.load.is_empty() => format!("baseline ({})", trial.load),
            Treatment::Probe(probe) => {
                let label = probe_label(probe);
                // A short trial counts only where there is no longer one at the same load.
                if longest.get(&label).is_some_and(|longest| probe.measure < *longest) {
                    continue;
                }
                label
            }
            treatment => treatment.label(),
        };
        if let Some(why) = useless(record, trial, &generator) {
            refused.entry(label).or_default().push(why);
            continue;
        }
        let steps = steps(study, record, trial, goal);
        if steps.is_empty() {
            groups.entry(label).or_default().extend(replicate(study, record, trial, goal));
        }
        for (load, step) in steps {
            groups.entry(format!("step {load}")).or_default().push(step);
        }
    }
    for (level, mut why) in refused {
        why.dedup();
        let why = why.join(", ");
        match groups.get(&level) {
            // A trial that was interrupted and repeated is no loss.
            Some(_) if why == "it did not complete" => {}
            Some(_) => sweep.warnings.push(format!("not all runs of {level} are used: {why}")),
            None => sweep.left_out.push(ExcludedLevel { level, why }),
        }
    }
    let mut resources: Vec<(Resource, bool)> = Vec::new();
    for found in groups.values().flatten().flat_map(|replicate| replicate.found.values()) {
        if resources.iter().all(|(resource, _)| resource.name != found.resource.name) {
            resources.push((found.resource.clone(), found.held));
        }
    }
    let mut levels: Vec<(Level, u32)> = Vec::new();
    let (mut doubted, mut unread) = (Vec::new(), BTreeSet::new());
    for (label, replicates) in &groups {
        let of = |value: &dyn Fn(&Replicate) -> Option<f64>| {
            replicates.iter().filter_map(value).collect::<Vec<f64>>()
        };
        let responses = of(&|replicate| replicate.response_ms);
        let uses = resources.iter().map(|(resource, _)| {
            median(&of(&|replicate| Some(replicate.found.get(&resource.name)?.used))).unwrap_or(f64::NAN)
        });
        let middle = median(&of(&|replicate| Some(replicate.throughput_per_s)))
            .zip(median(&of(&|replicate| Some(replicate.concurrency))));
        let Some((throughput_per_s, concurrency)) = middle else { continue };
        if let Some(most) = up_to.filter(|most| concurrency > most * SAME_LOAD) {
            let why = format!("more than {} in flight", words::things(most));
            sweep.left_out.push(ExcludedLevel { level: label.clone(), why });
            continue;
        }
        let level = Level {
            throughput_per_s,
            concurrency,
            response_ms: median(&responses).map(|value| Estimate {
                value,
                low: responses.iter().copied().fold(value, f64::min),
                high: responses.iter().copied().fold(value, f64::max),
            }),
            uses: uses.collect(),
        };
        levels.push((level, replicates.len() as u32));
        doubted.extend(replicates.iter().filter_map(|replicate| replicate.doubt.as_deref()));
        unread.extend(replicates.iter().flat_map(|replicate| &replicate.unread).map(String::as_str));
    }
    levels.sort_by(|(a, _), (b, _)| a.concurrency.total_cmp(&b.concurrency));
    let each = |level: &Level| level.throughput_per_s / level.concurrency;
    let best =
        levels.iter().map(|(level, _)| each(level)).filter(|each| each.is_finite()).fold(0.0, f64::max);
    for (level, _) in &mut levels {
        if each(level) < UNSATURATED * best {
            for (used, (_, held)) in level.uses.iter_mut().zip(&resources) {
                if *held {
                    *used = f64::NAN;
                }
            }
        }
    }
    let once = levels.iter().filter(|(_, runs)| *runs == 1).count();
    if once > 0 {
        let of = words::count(levels.len(), "level");
        sweep.warnings.push(format!(
            "{once} of {of} were measured once: how much runs of the same load differ is not known; set replicates = 3 \
             or more"
        ));
    }
    if let Some(first) = doubted.first() {
        let trials = words::count(doubted.len(), "trial");
        sweep.warnings.push(format!("{trials} have doubts; the first, {first}"));
    }
    if !unread.is_empty() {
        let sources = unread.into_iter().collect::<Vec<_>>().join(", ");
        sweep
            .warnings
            .push(format!("counters that could not be read: {sources}; what they count may limit too"));
    }
    if let Some(first) = study.damage.first() {
        sweep.warnings.push(format!(
            "the record is damaged in {}; the first: {first}",
            words::count(study.damage.len(), "place")
        ));
    }
    sweep.shown = levels
        .iter()
        .map(|(level, runs)| SizingLevel {
            concurrency: level.concurrency,
            throughput_per_s: level.throughput_per_s,
            response_ms: level.response_ms.map(|response| response.value),
            runs: *runs,
        })
        .collect();
    // Threads are held while they wait: their use in such a trial is not a demand.
    let uses = |replicate: &Replicate| {
        let used = |(resource, held): &(Resource, bool)| {
            let found = replicate.found.get(&resource.name).filter(|_| !held);
            found.map_or(f64::NAN, |found| found.used)
        };
        resources.iter().map(used).collect()
    };
    sweep.also = other
        .iter()
        .map(|replicate| Level {
            concurrency: replicate.concurrency,
            throughput_per_s: replicate.throughput_per_s,
            response_ms: None,
            uses: uses(replicate),
        })
        .collect();
    sweep.resources = resources.into_iter().map(|(resource, _)| resource).collect();
    sweep.levels = levels.into_iter().map(|(level, _)| level).collect();
    sweep
}

/// The resources whose amount and use are known in a trial.
fn found(study: &Study, measured: &Measured, spans: &[(f64, f64)]) -> Vec<Found> {
    let mut all = Vec::new();
    let mut add =
        |name: String, unit: &str, amount: Option<f64>, scale: Scale, held: bool, used: Option<f64>| {
            if let (Some(amount), Some(used)) = (amount.filter(|amount| *amount > 0.0), used) {
                let of_host = Some(if unit == "CPUs" { HostResource::Cpu } else { HostResource::Disk });
                let of_host = of_host.filter(|_| unit != "threads");
                let resource = Resource { name, of_host, unit: unit.into(), amount, scale };
                all.push(Found { resource, held, used });
            }
        };
    let run = &measured.record.run;
    let given = run.in_force.get("host.cpus").or_else(|| run.asked.get("host.cpus"));
    let cpus = given.and_then(model::Level::as_number).unwrap_or(f64::from(study.host.cpus));
    let services = services(measured);
    for service in &services {
        let mean = |metric: &str| measured.mean_over(metric, service, spans);
        let quota = mean(metrics::PROCESS_QUOTA_CPUS);
        let amount = quota.map_or(cpus, |quota| quota.min(cpus));
        // A quota makes several CPUs slower or faster as a whole: its amount need not be an integer.
        let scale = if quota.is_some() { Scale::Speed } else { Scale::Servers };
        add(
            format!("CPU of {service}"),
            "CPUs",
            Some(amount),
            scale,
            false,
            mean(metrics::PROCESS_BUSY_CPUS),
        );
        let idle = [
            metrics::PROCESS_ACCEPT_WAIT_THREADS,
            metrics::PROCESS_EVENT_WAIT_THREADS,
            metrics::PROCESS_CLIENT_WAIT_THREADS,
        ];
        let idle = idle.iter().filter_map(|metric| mean(metric)).reduce(|sum, more| sum + more);
        let threads = mean(metrics::PROCESS_THREADS);
        // Idle threads can be distinguished from those at work only in a service whose threads accept
        // connections from a queue.
        if mean(metrics::PROCESS_ACCEPT_QUEUE_CONNECTIONS).is_some() {
            let at_work = threads.zip(idle).map(|(threads, idle)| (threads - idle).max(0.0));
            add(format!("threads of {service}"), "threads", threads, Scale::Servers, true, at_work);
        }
    }
    if services.is_empty() {
        let busy = measured
            .mean_over(metrics::CPU_BUSY_SHARE, "", spans)
            .or_else(|| measured.host_mean(metrics::CPU_BUSY_SHARE));
        let busy = busy.map(|share| share * cpus);
        add("CPU".into(), "CPUs", Some(cpus), Scale::Servers, false, busy);
    }
    let limits = run.in_force.iter().filter(|(path, _)| path.contains("io_limit"));
    for limits in limits.filter_map(|(_, level)| IoLimits::from_level(level)) {
        let sum = |metric: &str| measured.sum_over(metric, measured.instances(metric), spans);
        let of_all = |metric: &str| measured.sum_over(metric, services.iter().copied(), spans);
        // The limit applies to the services' own groups; disks also serve others.
        for (name, unit, limit, of_services, of_disks) in [
            (
                "disk reads",
                "reads/s",
                limits.reads_per_s,
                metrics::PROCESS_DISK_READS_PER_S,
                metrics::DISK_READS_PER_S,
            ),
            (
                "disk writes",
                "writes/s",
                limits.writes_per_s,
                metrics::PROCESS_DISK_WRITES_PER_S,
                metrics::DISK_WRITES_PER_S,
            ),
            (
                "disk bytes read",
                "B/s",
                limits.read_bytes_per_s,
                metrics::PROCESS_READ_BYTES_PER_S,
                metrics::DISK_READ_BYTES_PER_S,
            ),
            ("disk bytes written", "B/s", limits.write_bytes_per_s, "", metrics::DISK_WRITE_BYTES_PER_S),
        ] {
            let used = of_all(of_services).or_else(|| sum(of_disks));
            add(name.into(), unit, limit, Scale::Speed, false, used);
        }
    }
    all
}
