//! The answer of `plimsoll size` from a record: its levels of load, the use of each resource at them, and words.

use std::collections::BTreeMap;

use model::result::ResultDocument;
use model::sizing::{HeldOutRow, SIZING_FORMAT, SizingAnswer, SizingLevel, SizingRow};
use model::{Ending, Estimate, IoLimits, SizeGoal, SizingDocument, Study, Treatment, Verdict};

use super::{Level, Limit, Need, Resource, Scale, Sizing, size};
use crate::detect::{is_load, services};
use crate::law::predict::{FARTHEST, LEVELS_MIN, Refusal};
use crate::measured::Measured;
use crate::statistics::median;
use crate::words;

/// A level counts as not yet saturated while a user gets at least this share of what a user got at best.
const UNSATURATED: f64 = 0.75;
/// The part of the response time that is shown without a goal.
const SHOWN_PART: &str = "p95";

/// What one replicate of a level says.
struct Replicate {
    throughput_per_s: f64,
    concurrency: f64,
    response_ms: Option<f64>,
    found: BTreeMap<String, Found>,
}

/// A resource as it is found in the readings of a trial.
struct Found {
    resource: Resource,
    /// Whether its use follows the load only while nothing queues, as that of threads does: they are held while they wait.
    held: bool,
    used: f64,
}

/// Sizes the system of a study for a load. `up_to` leaves out levels with more in flight, as if they had not been
/// measured.
pub fn sizing(
    study: &Study,
    document: &ResultDocument,
    goal: &SizeGoal,
    up_to: Option<f64>,
) -> SizingDocument {
    let (resources, mut levels) = levels(study, document, goal);
    if let Some(most) = up_to {
        levels.retain(|level| level.concurrency <= most * 1.02);
    }
    let shown = levels.iter().map(|level| SizingLevel {
        concurrency: level.concurrency,
        throughput_per_s: level.throughput_per_s,
        response_ms: level.response_ms.map(|response| response.value),
    });
    let mut answered = SizingDocument {
        format: SIZING_FORMAT.into(),
        run: document.run.clone(),
        experiment: document.experiment.clone(),
        goal: goal.clone(),
        answer: None,
        refusal: String::new(),
        verdict: document.verdict.text().to_string(),
        levels: shown.collect(),
        assumptions: Vec::new(),
        warnings: Vec::new(),
    };
    let need = Need {
        throughput_per_s: goal.throughput_per_s,
        response_ms: goal.response.as_ref().map(|goal| goal.limit),
    };
    match size(&resources, &levels, need) {
        Ok(found) => fill(&mut answered, document, &resources, found),
        Err(refusal) => answered.refusal = refused(&refusal, &levels),
    }
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
                "that is more than {FARTHEST} times the {} that were measured: nothing is foretold so far out; measure \
                 a larger load",
                words::per_s(highest)
            )
        }
    }
}

fn fill(answered: &mut SizingDocument, document: &ResultDocument, resources: &[Resource], found: Sizing) {
    let name = |at: usize| resources.get(at).map_or("", |resource| resource.name.as_str());
    let limit = match found.limit {
        Limit::Resource(at) => name(at).to_string(),
        Limit::NotMeasured => match &document.verdict {
            Verdict::Bottleneck { resource, .. } => resource.clone(),
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
        resources: rows.collect(),
        held_out: found.held_out.map(|held_out| HeldOutRow {
            concurrency: held_out.concurrency,
            predicted_per_s: held_out.predicted_per_s,
            measured_per_s: held_out.measured_per_s,
        }),
    });
    answered.assumptions = found.assumptions;
    answered.warnings = found.warnings;
    if !matches!(&document.verdict, Verdict::Bottleneck { proof: Some(_), .. }) {
        answered.warnings.push("what limits is not proved: run the experiment with --prove".into());
    }
}

/// The levels of load of a study, replicates taken together, and the resources whose use is known at them.
fn levels(study: &Study, document: &ResultDocument, goal: &SizeGoal) -> (Vec<Resource>, Vec<Level>) {
    let of_load = |treatment: &Treatment| match treatment {
        Treatment::Baseline => true,
        Treatment::OneChange(change) => is_load(&change.factor.0),
        _ => false,
    };
    let mut groups: BTreeMap<String, Vec<Replicate>> = BTreeMap::new();
    for (record, trial) in study.runs.iter().zip(&document.trials) {
        let treatment = &record.run.trial.treatment;
        if record.run.ending != Ending::Completed || !of_load(treatment) {
            continue;
        }
        let Some(whole) = trial.whole().filter(|whole| whole.completed > 0) else { continue };
        let response = match &goal.response {
            Some(goal) => trial.operations.iter().find_map(|operation| goal.value(operation)),
            None => whole.response_ms.part(SHOWN_PART),
        };
        let found = found(study, &Measured::of(record));
        let found = found.into_iter().map(|found| (found.resource.name.clone(), found)).collect();
        groups.entry(treatment.label()).or_default().push(Replicate {
            throughput_per_s: whole.rate_per_s,
            concurrency: whole.concurrency,
            response_ms: response,
            found,
        });
    }
    let mut resources: Vec<(Resource, bool)> = Vec::new();
    for found in groups.values().flatten().flat_map(|replicate| replicate.found.values()) {
        if resources.iter().all(|(resource, _)| resource.name != found.resource.name) {
            resources.push((found.resource.clone(), found.held));
        }
    }
    let mut levels: Vec<Level> = groups
        .values()
        .filter_map(|replicates| {
            let of = |value: &dyn Fn(&Replicate) -> Option<f64>| {
                replicates.iter().filter_map(value).collect::<Vec<f64>>()
            };
            let responses = of(&|replicate| replicate.response_ms);
            let uses = resources.iter().map(|(resource, _)| {
                median(&of(&|replicate| Some(replicate.found.get(&resource.name)?.used))).unwrap_or(f64::NAN)
            });
            Some(Level {
                throughput_per_s: median(&of(&|replicate| Some(replicate.throughput_per_s)))?,
                concurrency: median(&of(&|replicate| Some(replicate.concurrency)))?,
                response_ms: median(&responses).map(|value| Estimate {
                    value,
                    low: responses.iter().copied().fold(value, f64::min),
                    high: responses.iter().copied().fold(value, f64::max),
                }),
                uses: uses.collect(),
            })
        })
        .collect();
    levels.sort_by(|a, b| a.concurrency.total_cmp(&b.concurrency));
    let each = |level: &Level| level.throughput_per_s / level.concurrency;
    let best = levels.iter().map(each).filter(|each| each.is_finite()).fold(0.0, f64::max);
    for level in &mut levels {
        if each(level) < UNSATURATED * best {
            for (used, (_, held)) in level.uses.iter_mut().zip(&resources) {
                if *held {
                    *used = f64::NAN;
                }
            }
        }
    }
    (resources.into_iter().map(|(resource, _)| resource).collect(), levels)
}

/// The resources whose amount and use a trial tells.
fn found(study: &Study, measured: &Measured) -> Vec<Found> {
    let mut all = Vec::new();
    let mut add =
        |name: String, unit: &str, amount: Option<f64>, scale: Scale, held: bool, used: Option<f64>| {
            if let (Some(amount), Some(used)) = (amount.filter(|amount| *amount > 0.0), used) {
                let resource = Resource { name, unit: unit.into(), amount, scale };
                all.push(Found { resource, held, used });
            }
        };
    let run = &measured.record.run;
    let given = run.in_force.get("host.cpus").or_else(|| run.asked.get("host.cpus"));
    let cpus = given.and_then(model::Level::as_number).unwrap_or(f64::from(study.host.cpus));
    let services = services(measured);
    for service in &services {
        let mean = |metric: &str| measured.mean(&format!("process.{metric}"), service);
        let quota = mean("quota_cpus");
        let amount = quota.map_or(cpus, |quota| quota.min(cpus));
        // A quota makes of several CPUs one that is slower or faster: its share need not be whole.
        let scale = if quota.is_some() { Scale::Speed } else { Scale::Servers };
        add(format!("CPU of {service}"), "CPUs", Some(amount), scale, false, mean("busy_cpus"));
        let idle = ["accept_wait_threads", "event_wait_threads", "client_wait_threads"];
        let idle = idle.iter().filter_map(|metric| mean(metric)).reduce(|sum, more| sum + more);
        let threads = mean("threads");
        // Only of a service whose threads take connections from a queue is an idle thread told from one at work.
        if mean("accept_queue_connections").is_some() {
            let at_work = threads.zip(idle).map(|(threads, idle)| (threads - idle).max(0.0));
            add(format!("threads of {service}"), "threads", threads, Scale::Servers, true, at_work);
        }
    }
    if services.is_empty() {
        let busy = measured.host_mean("cpu.busy_share").map(|share| share * cpus);
        add("CPU".into(), "CPUs", Some(cpus), Scale::Servers, false, busy);
    }
    let limits = run.in_force.iter().filter(|(path, _)| path.contains("io_limit"));
    for limits in limits.filter_map(|(_, level)| IoLimits::from_level(level)) {
        let sum = |metric: &str| {
            let disks = measured.columns().filter(|(_, column)| column.metric.name == metric);
            let means =
                disks.filter_map(|(at, _)| measured.column_mean(at, measured.begin_s, measured.end_s));
            means.reduce(|sum, mean| sum + mean)
        };
        // What the services' own groups did is what the limit counts; the disks serve others too.
        for (name, unit, limit, of_services, of_disks) in [
            ("disk reads", "reads/s", limits.reads_per_s, "process.disk_reads_per_s", "disk.reads_per_s"),
            (
                "disk writes",
                "writes/s",
                limits.writes_per_s,
                "process.disk_writes_per_s",
                "disk.writes_per_s",
            ),
            (
                "disk bytes read",
                "B/s",
                limits.read_bytes_per_s,
                "process.read_bytes_per_s",
                "disk.read_bytes_per_s",
            ),
            ("disk bytes written", "B/s", limits.write_bytes_per_s, "", "disk.write_bytes_per_s"),
        ] {
            let used = measured.sum(of_services, &services).or_else(|| sum(of_disks));
            add(name.into(), unit, limit, Scale::Speed, false, used);
        }
    }
    all
}
