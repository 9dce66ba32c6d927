//! Doubts, derived from the record: each is shown with the number it weakens, and says what to try next.

mod back_ends;
mod dependencies;
mod neighbour;
mod network;
mod paths;
mod proof;
mod storage;
mod time;

pub(crate) use back_ends::back_ends;
use model::result::{KindCounts, ResultDocument, TrialResult, Unfinished};
use model::run::{ENDED_EARLY, Origin};
use model::steady::{STEADY_WINDOWS, steady};
use model::{
    Doubt, DoubtKind, Due, Ending, Event, EventKind, Level, Operation, Run, RunRecord, SourceState, Study,
    Treatment, metrics,
};

use crate::comparison::SMALLEST_CHANGE;
use crate::configuration::SAMPLES_BEYOND;
use crate::facts::generator::Shares;
use crate::facts::launches::{are_a_series, used_cpus};
use crate::facts::service::services;
use crate::facts::{ISSUED_SHARE, all_issued};
use crate::measured::{Measured, Window};
use crate::statistics::{mean, mean_ratio};
use crate::{trial, words};

/// Limit of the difference between measured concurrency and throughput times service time.
const LITTLES_LAW_GAP: f64 = 0.05;
/// The resolution of a recorded concurrency: for 500 operations of 1 us per second it is 0.001 or zero.
const CONCURRENCY_STEP: f64 = 0.001;
/// Share of CPU time taken by other virtual machines (steal) from which it is reported.
const STEAL_SHARE: f64 = 0.05;
/// Limit of the clock's drift relative to the kernel's clock, parts per million.
const CLOCK_DRIFT_PPM: f64 = 50.0;
/// Limit of the windows of a run; longer series are averaged before their noise is judged.
const DRIFT_WINDOWS_MAX: usize = 300;
/// Number of intervals, and of samples of the counters, that a judgement requires.
pub(crate) const INTERVALS_MIN: usize = 10;
/// Limit of the generator's own lag as a share of a percentile.
const OWN_LAG_SHARE: f64 = 0.01;

/// Doubts about one trial: those of the engine, then those from its numbers. A kind that the engine reported
/// is not repeated.
pub(crate) fn of_trial(record: &RunRecord, result: &TrialResult, study_cpus: f64) -> Vec<Doubt> {
    let measured = Measured::of(record);
    let mut doubts = record.run.doubts.clone();
    let mut found = Vec::new();
    if record.run.origin == Origin::Imported {
        // Of another tool neither its pace nor its threads are known, nor how it waits.
        found.extend(impossible(&measured));
        found.extend(failures(record, result));
        found.extend(few_samples(record, result));
        doubts.extend(found);
        return doubts;
    }
    found.extend(ended_early(&measured, result));
    found.extend(damaged(&measured));
    found.extend(impossible(&measured));
    found.extend(time::gaps(&measured));
    found.extend(time::jumps(&measured));
    found.extend(short(&measured));
    found.extend(not_issued(result));
    found.extend(censored(&record.run, result));
    found.extend(backlog(&measured, result));
    found.extend(own_lag(&measured, result));
    found.extend(generator(record, study_cpus));
    found.extend(littles_law(&measured, result));
    // A cache that was full explains why: the result has both rates.
    if result.copy.as_ref().and_then(|copy| copy.shown_cache()?.full_at_s).is_none() {
        found.extend(unsteady(&measured));
    }
    found.extend(failures(record, result));
    found.extend(counts_differ(result));
    found.extend(few_samples(record, result));
    storage::doubts(&measured, result, &mut found);
    found.extend(paths::shared(&measured));
    found.extend(dependencies::without_traffic(result));
    network::doubts(&measured, &mut found);
    found.extend(neighbour::missed(result));
    found.extend(steal(&measured));
    found.extend(other_processes(&measured, study_cpus));
    found.extend(clock(record));
    missing_sources(record, &mut found);
    not_in_force(record, &mut found);
    for doubt in found {
        // The engine's doubt about steadiness is about the warm-up; this one is about the measured time.
        let named = record.run.doubts.iter().any(|named| named.kind == doubt.kind);
        if !named || doubt.kind == DoubtKind::Unsteady {
            doubts.push(doubt);
        }
    }
    doubts
}

/// Doubts about the whole experiment.
pub(crate) fn of_study(study: &Study, document: &ResultDocument) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = study
        .damage
        .iter()
        .map(|damage| {
            Doubt::new(DoubtKind::Damaged, damage.clone(), "the result contains only the readable part")
        })
        .collect();
    if study.plan.is_none() && !study.runs.is_empty() {
        doubts.push(Doubt::new(
            DoubtKind::Damaged,
            "the plan is missing: the intended trials are not known",
            "the result contains only the recorded trials",
        ));
    }
    doubts.extend(document.unfinished.iter().flat_map(unfinished));
    doubts.extend(replication(document));
    doubts.extend(back_ends(document));
    doubts.extend(proof::doubts(study, document));
    doubts.extend(drift(study, document));
    doubts
}

/// An experiment of which trials are missing.
pub(crate) fn unfinished(unfinished: &Unfinished) -> Vec<Doubt> {
    let Unfinished { completed, planned, not_run, lost } = unfinished;
    let mut doubts = Vec::new();
    if !lost.is_empty() {
        let more = match lost.len() {
            1 => String::new(),
            more => format!(" and of {}", words::count(more - 1, "other trial")),
        };
        let text = format!("the record of trial {}{more} is gone", lost[0]);
        doubts.push(Doubt::new(DoubtKind::Damaged, text, "the result contains only the recorded trials"));
    }
    let text = match planned {
        Some(planned) if !not_run.is_empty() => {
            Some(format!("{completed} of {} completed", words::count(*planned as usize, "planned trial")))
        }
        None if lost.is_empty() => Some(format!(
            "the experiment is not finished: {} completed",
            words::count(*completed as usize, "trial")
        )),
        _ => None,
    };
    let go_on = "resume the experiment with `--resume`";
    doubts.extend(text.map(|text| Doubt::new(DoubtKind::CutShort, text, go_on)));
    doubts
}

fn ended_early(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let run = &measured.record.run;
    let measured_for = format!("{} were measured", words::seconds(result.measured_s));
    // A record without load has no trial to resume.
    let go_on = if run.origin == Origin::Watched { "" } else { "resume the experiment with `--resume`" };
    let (text, help) = match &run.ending {
        Ending::Completed => {
            let asked_s = run.load.measure? as f64 / 1e9;
            let by_itself = run.traits.ends_by_itself;
            if by_itself || result.measured_s >= 0.9 * asked_s {
                return None;
            }
            let why = match run.facts.get(ENDED_EARLY) {
                Some(Level::Text(why)) => format!(": {why}"),
                _ => all_issued(measured.record)
                    .map(|count| {
                        format!(": all {} operations had been issued (`--operations`)", words::whole(count))
                    })
                    .unwrap_or_default(),
            };
            (format!("{measured_for} of the {} requested{why}", words::seconds(asked_s)), "")
        }
        Ending::Running => (format!("the run was killed: {measured_for}"), go_on),
        Ending::Interrupted => (format!("the run was interrupted: {measured_for}"), go_on),
        Ending::Failed(why) => (format!("the run failed: {why}"), ""),
    };
    Some(Doubt::new(DoubtKind::CutShort, text, help))
}

fn damaged(measured: &Measured) -> Option<Doubt> {
    let text = if !measured.readings_fit() {
        "the counters are damaged: their columns do not match, so all are ignored"
    } else if trial::lacks_histograms(measured.record) {
        "the histograms are missing: each percentile is the largest of any interval, an upper bound"
    } else {
        return None;
    };
    Some(Doubt::new(DoubtKind::Damaged, text, ""))
}

/// Impossible readings, as after a counter was reset, or after damage.
fn impossible(measured: &Measured) -> Option<Doubt> {
    let mut found =
        measured.all_columns().filter_map(|(at, column)| Some((column, measured.impossible(at)?)));
    let (column, value) = found.next()?;
    let instance = match column.instance.as_str() {
        "" => String::new(),
        instance => format!("{{{instance}}}"),
    };
    let more = match found.count() {
        0 => String::new(),
        more => format!(", and {}", words::count(more, "more column")),
    };
    let text = format!(
        "counters have impossible values: {}{instance} is {}{more}; these readings are ignored",
        column.metric.name,
        words::number(value)
    );
    Some(Doubt::new(DoubtKind::Damaged, text, ""))
}

/// How to measure more: the advice of the workload, or `otherwise`.
fn for_more<'a>(run: &'a Run, otherwise: &'static str) -> &'a str {
    match run.traits.for_more_operations.as_ref() {
        "" => otherwise,
        help => help,
    }
}

/// Too few intervals to judge steadiness, or too few samples of the counters to find the limit.
fn short(measured: &Measured) -> Option<Doubt> {
    let run = &measured.record.run;
    // Launches of a command are judged individually.
    if run.origin == Origin::Watched || run.traits.operations_apart || !(measured.length_s() > 0.0) {
        return None;
    }
    let intervals = measured.windows().count();
    let samples = measured.samples();
    let what = match () {
        () if intervals < INTERVALS_MIN => words::count(intervals, "interval"),
        () if samples < INTERVALS_MIN && !run.sources.is_empty() => words::count(samples, "sample"),
        () => return None,
    };
    let text = format!(
        "the measurement of {} has {what}: at least {INTERVALS_MIN} are needed to check for steady throughput and to find the limit",
        words::seconds(measured.length_s())
    );
    let help = for_more(run, "measure longer, or set a shorter `interval` and `sample_every`");
    Some(Doubt::new(DoubtKind::Short, text, help))
}

/// Response times of an open load that include the load generator's own delay. An operation that waits for
/// one in flight waits for the system: this share equals the share of the time that a worker is busy.
fn own_lag(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole().filter(|whole| measured.is_open() && whole.completed > 0)?;
    if whole.due.is_some_and(|due| due.held > 0) || whole.censored > 0 {
        return None;
    }
    let busy_share = whole.concurrency / f64::from(measured.record.run.generator.threads.max(1));
    let parts = [("p50", 0.5), ("p90", 0.1), ("p99", 0.01), ("p999", 0.001)];
    let moved = parts.iter().find_map(|(part, beyond)| {
        let (response, service) = (whole.response_ms.part(part)?, whole.service_ms.part(part)?);
        let enough = whole.completed as f64 * beyond >= SAMPLES_BEYOND;
        let is_ours = enough && *beyond > 2.0 * busy_share;
        (is_ours && response > (1.0 + OWN_LAG_SHARE) * service).then_some((*part, response, service))
    });
    let (part, response, service) = moved?;
    let part = if part == "p999" { "p99.9" } else { part };
    let text = format!(
        "the load generator issued operations late: {part} of the response time is {}, {part} of the service time is {}",
        words::ms(response),
        words::ms(service)
    );
    let help = match measured.record.run.load.spin {
        Some(false) => "use the service times, reserve a CPU for the load generator, or remove `--no-spin`",
        _ => "use the service times, or reserve a CPU for the load generator",
    };
    Some(Doubt::new(DoubtKind::OwnLag, text, help))
}

fn not_issued(result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole()?;
    let (offered, issued) = (whole.offered.filter(|offered| *offered > 0)?, whole.issued?);
    let share = issued as f64 / offered as f64;
    let held = result.operations.iter().filter(|of| of.name != Operation::All);
    let held = held.filter_map(|of| of.due).fold(0_u64, |sum, due| sum.saturating_add(due.held));
    if share < ISSUED_SHARE && issued.saturating_add(held) as f64 >= ISSUED_SHARE * offered as f64 {
        let text = format!(
            "{} of {} due operations were not sent in time: as many operations as may be in flight were waiting for the system",
            words::whole(offered - issued.min(offered)),
            words::whole(offered)
        );
        let help = "the system did not answer fast enough for this rate: lower the rate, or find what limits the system";
        return Some(Doubt::new(DoubtKind::NotIssued, text, help));
    }
    (share < ISSUED_SHARE).then(|| {
        let text = format!(
            "the load generator issued only {} of {} due operations ({})",
            words::whole(issued),
            words::whole(offered),
            words::percent(share)
        );
        Doubt::new(DoubtKind::NotIssued, text, "lower the rate, or allow more operations in flight")
    })
}

fn generator(record: &RunRecord, cpus: f64) -> Option<Doubt> {
    let shares = Shares::of(record)?;
    // A thread that only follows what was launched delays nothing.
    (shares.are_delayed() && !record.run.traits.grouped).then(|| {
        let text = format!(
            "the threads of the load generator waited for a CPU {} of the time: response times include this wait",
            words::percent(shares.waited)
        );
        let help = match f64::from(record.run.generator.threads) >= cpus && cpus > 0.0 {
            true => "use fewer threads (`--threads`) with more operations in flight each",
            false => "stop other programs, or reserve a CPU for the load generator",
        };
        Doubt::new(DoubtKind::Generator, text, help)
    })
}

/// Operations that were due in the measured time and never ended.
fn censored(run: &Run, result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole().filter(|whole| whole.censored > 0)?;
    // Whatever kills a load finds operations in flight.
    let was_killed = run.ending == Ending::Running;
    if was_killed && !is_more_than_usual(whole.censored, result) {
        return None;
    }
    let when = match was_killed {
        true => "the record stopped",
        false => "the wait for them was over",
    };
    let unsent = match whole.due.map_or(0, |due| due.unsent) {
        0 => String::new(),
        unsent => format!(", and {} of them could not be sent", words::whole(unsent)),
    };
    let text = format!(
        "{} of {} operations that were due in the measured time had not ended when {when}{unsent}: \
        times with >= are lower bounds",
        words::whole(whole.censored),
        words::whole(whole.judged())
    );
    let help = "look at the system at the end of the measured time; measure longer, or with a lower load";
    Some(Doubt::new(DoubtKind::Censored, text, help))
}

/// Operations that ended after the measured time. As many as are in flight on average do so in any load.
fn backlog(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole().filter(|whole| whole.due.is_some() && whole.censored == 0)?;
    let names: Vec<&str> = result.operations.iter().map(|of| of.name.as_str()).collect();
    let later = |interval: &&model::Interval| {
        interval.phase == model::Phase::CoolDown && names.contains(&interval.operation.as_str())
    };
    let later = measured.record.intervals.iter().filter(later).filter_map(|interval| interval.due);
    let mut sum = Due::default();
    later.for_each(|due| sum.add(&due));
    let Due { ended, failed, .. } = sum;
    (is_more_than_usual(ended, result) && ended as f64 > BACKLOG_SHARE * whole.judged() as f64).then(|| {
        let failures = match failed {
            0 => String::new(),
            failed => format!(" ({} failed)", words::whole(failed)),
        };
        let text = format!(
            "{} of {} operations that were due in the measured time ended after it{failures}: they are in the response \
            times, but not in the throughput",
            words::whole(ended),
            words::whole(whole.judged())
        );
        let help = "the system fell behind at the end: look at it there, and measure longer";
        Doubt::new(DoubtKind::Backlog, text, help)
    })
}

/// Whether more operations than are in flight on average had not ended at the end of the measured time.
fn is_more_than_usual(operations: u64, result: &TrialResult) -> bool {
    let usual = result.in_flight().max(0.0);
    operations as f64 > 2.0 * usual + 3.0 * usual.sqrt() + 2.0
}

/// Share of the operations that must end after the measured time to be reported.
const BACKLOG_SHARE: f64 = 0.01;

/// Concurrency equals throughput times service time, for any distributions (Little, Operations Research 9,
/// 1961). Over a window it is exact if the time counts that the operations in flight at its begin and its end
/// were in flight then; records of older versions do not have it, which causes an error of about one service
/// time divided by the length of the window.
fn littles_law(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole().filter(|whole| whole.concurrency > 0.0)?;
    let intervals = || measured.intervals().filter(|interval| !interval.concurrency.is_nan());
    let done = intervals().filter(|interval| interval.completed > 0);
    let (completed, busy_s) = done.fold((0.0, 0.0), |(count, time), interval| {
        let completed = interval.completed as f64;
        (count + completed, time + completed * interval.service.mean / 1e3)
    });
    let edges_s = measured.in_flight_at_edges();
    if completed == 0.0 && edges_s.is_none() {
        return None;
    }
    let in_flight = result.in_flight();
    let product = (busy_s + edges_s.unwrap_or(0.0)) / result.measured_s;
    let gap = (product - in_flight).abs() / in_flight;
    let edges = if edges_s.is_some() { 0.0 } else { whole.service_ms.max / 1e3 / result.measured_s };
    let is_recorded = (product - in_flight).abs() > CONCURRENCY_STEP;
    (busy_s + edges_s.unwrap_or(0.0) > 0.0 && gap > LITTLES_LAW_GAP + edges && is_recorded).then(|| {
        let text = format!(
            "{} operations were in flight, but {} times {} is {} (Little's law)",
            words::number(in_flight),
            words::per_s(completed / result.measured_s),
            words::ms(product * result.measured_s / completed.max(1.0) * 1e3),
            words::number(product)
        );
        Doubt::new(
            DoubtKind::LittlesLaw,
            text,
            "Plimsoll did not measure some operations: please report this bug",
        )
    })
}

/// The measured time in five equal parts, for the steady-state rule; none if the load was meant to change or
/// the time was too short.
pub(crate) fn fifths(measured: &Measured) -> Option<Vec<f64>> {
    let series = measured.series();
    if !measured.is_meant_steady() || series.len() < STEADY_WINDOWS {
        return None;
    }
    let part_s = (measured.end_s - measured.begin_s) / 5.0;
    let fifths: Vec<f64> = (0..5)
        .filter_map(|fifth| {
            let begin_s = measured.begin_s + f64::from(fifth) * part_s;
            let inside = |window: &&Window| {
                let middle = 0.5 * (window.begin_s + window.end_s);
                middle >= begin_s && middle < begin_s + part_s
            };
            mean(&series.iter().filter(inside).map(|window| window.rate_per_s).collect::<Vec<_>>())
        })
        .collect();
    (fifths.len() == 5).then_some(fifths)
}

fn unsteady(measured: &Measured) -> Option<Doubt> {
    let fifths = fifths(measured)?;
    // The phases of an import differ.
    if steady(&fifths, measured.length_s() / 5.0)?
        || are_a_series(measured)
        || measured.record.run.traits.grouped
    {
        return None;
    }
    let parts: Vec<String> = fifths.iter().map(|rate| words::number(*rate)).collect();
    let text = format!(
        "throughput was not steady: {} per second in consecutive fifths of the time",
        parts.join(", ")
    );
    // Work that ends by itself has no warm-up.
    let help = for_more(&measured.record.run, "warm up longer, or measure longer");
    Some(Doubt::new(DoubtKind::Unsteady, text, help))
}

/// The share by which two counts of the same operations may differ, and operations in flight at the end.
const COUNTS_GAP: f64 = 0.01;
const COUNTS_LEFT: u64 = 256;

/// Others counted other operations than the load.
fn counts_differ(result: &TrialResult) -> Option<Doubt> {
    let differ = |client: u64, other: u64| {
        let gap = client.abs_diff(other);
        gap > COUNTS_LEFT && gap as f64 > COUNTS_GAP * client as f64
    };
    let doubt = |of: &KindCounts, who: &str, other: u64, less: &str| {
        let text = format!(
            "{who} counted {} of {}, and the load {}, warm-up included",
            words::whole(other),
            of.kind,
            words::whole(of.client)
        );
        let help = match other > of.client {
            true => "other clients use the server: measure without them",
            false => less,
        };
        Doubt::new(DoubtKind::CountsDiffer, text, help)
    };
    result.counts.iter().find_map(|of| {
        let server = of.server.filter(|server| differ(of.client, *server));
        let trace = of.trace.filter(|trace| differ(of.client, *trace));
        let elsewhere = "responses came from elsewhere, or the statistics are those of another server";
        let lost = "the trace is of another process, or its counters were not read all the time";
        let server = server.map(|count| doubt(of, "the server", count, elsewhere));
        server.or_else(|| trace.map(|count| doubt(of, "the trace of the server", count, lost)))
    })
}

fn failures(record: &RunRecord, result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole()?;
    // Those that failed while they were waited for count too. Without any, those are left that were due before.
    let (failed, of) = match whole.due {
        Some(due) if due.failed > 0 => (due.failed, whole.judged()),
        _ => (whole.failed, whole.completed),
    };
    if failed == 0 {
        return None;
    }
    let share = failed as f64 / of.max(1) as f64;
    let most = record.run.errors.iter().max_by_key(|error| error.count);
    let why = most.map(|error| format!(", most often: {}", error.text)).unwrap_or_default();
    let text = format!(
        "{} of {} operations failed ({}){why}",
        words::whole(failed),
        words::whole(of),
        words::percent(share)
    );
    // One damaged block counts more than any number of other failures.
    if let Some(damage) = record.run.errors.iter().find(|error| error.kind == DoubtKind::Corrupted) {
        let reported =
            |event: &&Event| event.kind == EventKind::Workload && event.text.ends_with(&damage.text);
        let first = record.events.iter().find(reported).map(|event| format!("; the first: {}", event.text));
        return Some(Doubt::new(
            DoubtKind::Corrupted,
            format!("THE DATA READ BACK DIFFERS FROM THE DATA WRITTEN: {text}{}", first.unwrap_or_default()),
            "do not trust data on this device until the cause is known; `events.jsonl` lists every position",
        ));
    }
    let text = format!("{text}; percentiles include their times, the throughput does not count them");
    Some(Doubt::new(DoubtKind::Failures, text, ""))
}

fn few_samples(record: &RunRecord, result: &TrialResult) -> Option<Doubt> {
    let whole = result.whole()?;
    let count = whole.completed.max(whole.judged());
    // One launch has one time, which is no percentile of anything.
    if count == 1 && record.run.traits.operations_apart {
        return None;
    }
    // Without response times there are no percentiles.
    if count > 0 && record.run.traits.grouped {
        return None;
    }
    // The number of launches is fixed, however long they take.
    let help = match count {
        0 if all_issued(record).is_some() => {
            "set more operations (`--operations`), or a shorter warm-up (`--warm-up 0s`)"
        }
        0 => "",
        _ => for_more(&record.run, "measure longer"),
    };
    let beyond = |share: f64| count as f64 * share;
    let weakest = [("p50", 0.5), ("p90", 0.1), ("p95", 0.05), ("p99", 0.01), ("p99.9", 0.001)]
        .into_iter()
        .find(|(_, share)| beyond(*share) < SAMPLES_BEYOND)?;
    let text = match count {
        0 => match all_issued(record) {
            Some(most) => {
                format!("all {} operations were issued before the measured time", words::whole(most))
            }
            None if result.in_flight() >= 0.5 => format!(
                "no operation completed: {} waited for an answer until the end",
                words::count(result.in_flight().round() as usize, "operation")
            ),
            None => "no operation completed".to_string(),
        },
        count => format!(
            "{}: too few samples for {} and above",
            words::count(count as usize, "operation"),
            weakest.0
        ),
    };
    Some(Doubt::new(DoubtKind::FewSamples, text, help))
}

fn steal(measured: &Measured) -> Option<Doubt> {
    let steal = measured.host_mean(metrics::CPU_STEAL_SHARE).filter(|steal| *steal > STEAL_SHARE)?;
    let text = format!("other virtual machines took {} of the CPU time (steal)", words::percent(steal));
    Some(Doubt::new(
        DoubtKind::Neighbour,
        text,
        "measure again when the other virtual machines are idle, or with more replicates",
    ))
}

/// Processes that are neither the load generator nor watched nor a stated neighbour, and used so much CPU time that others
/// waited.
fn other_processes(measured: &Measured, cpus: f64) -> Option<Doubt> {
    let busy = measured.host_mean(metrics::CPU_BUSY_SHARE)? * cpus;
    let waited = measured.host_mean(metrics::PRESSURE_CPU_SOME_SHARE)?;
    let known: f64 =
        measured.columns(metrics::PROCESS_BUSY_CPUS, "").filter_map(|(at, _)| measured.column(at)).sum();
    let launched = used_cpus(measured);
    let neighbour =
        measured.fact_number(&format!("{}.{}", model::neighbour::FACTOR, model::neighbour::facts::CPUS));
    let others = busy - known - launched.unwrap_or(0.0) - neighbour.unwrap_or(0.0);
    // If only Plimsoll is watched, the rest may be the system under test.
    let is_watched = !services(measured).is_empty() || measured.is_storage() || launched.is_some();
    (is_watched && others >= OTHERS_SHARE * cpus && waited >= OTHERS_SHARE).then(|| {
        let text = format!(
            "other processes used {} of the {} CPUs, and some task waited for a CPU {} of the time",
            words::number(others),
            words::number(cpus),
            words::percent(waited)
        );
        Doubt::new(DoubtKind::Neighbour, text, "stop other programs and measure again")
    })
}

/// Limits of the CPU share of other processes, and of the share of the time in which tasks may then wait for
/// a CPU.
const OTHERS_SHARE: f64 = 0.5;

fn clock(record: &RunRecord) -> Option<Doubt> {
    let drift = record.run.clock.drift_ppm;
    (drift.abs() > CLOCK_DRIFT_PPM).then(|| {
        let pace = if drift > 0.0 { "fast" } else { "slow" };
        let text = format!(
            "the clock of this run was {0} ppm {pace} compared with the kernel's clock: each millisecond of latency has an error of {0} ns",
            words::number(drift.abs())
        );
        let help = "ignore smaller differences between this run and others; `plimsoll doctor` tests the clock";
        Doubt::new(DoubtKind::Clock, text, help)
    })
}

fn missing_sources(record: &RunRecord, found: &mut Vec<Doubt>) {
    for status in &record.run.sources {
        let text = match &status.state {
            SourceState::Active => continue,
            SourceState::Unavailable(why) => format!("{} could not be read: {why}", status.source),
            SourceState::Failing { samples, why } => format!(
                "{} could not be read in {}: {why}",
                status.source,
                words::count(*samples as usize, "sample")
            ),
        };
        let help = match status.source.starts_with("scrape ") {
            true => {
                "its counters are absent in these samples: request its URL from this host, for example with curl"
            }
            false => "`plimsoll doctor` shows what this host permits",
        };
        found.push(Doubt::new(DoubtKind::MissingSource, text, help));
    }
}

fn not_in_force(record: &RunRecord, found: &mut Vec<Doubt>) {
    for (path, in_force) in &record.run.in_force {
        let Some(asked) = record.run.asked.get(path).filter(|asked| !same_level(asked, in_force)) else {
            continue;
        };
        let text = format!("{path}: requested {asked}, in force {in_force}");
        found.push(Doubt::new(DoubtKind::NotInForce, text, ""));
    }
}

/// Whether two levels are equivalent: `50` and `50%` are.
fn same_level(asked: &Level, in_force: &Level) -> bool {
    match (asked.as_number(), in_force.as_number()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-3 * a.abs().max(b.abs()),
        _ => asked == in_force,
    }
}

/// Reported once for the experiment: how many treatments have a single run.
fn replication(document: &ResultDocument) -> Option<Doubt> {
    let treated: Vec<_> =
        document.configurations.iter().filter(|c| !c.treatment.changes.is_empty()).collect();
    let pairs = document.comparison.iter().map(|row| row.pairs).min()?;
    (!treated.is_empty() && pairs < 2).then(|| {
        let text = "each comparison has only one pair of trials: the variation between trials is not known";
        let help = match document.origin {
            Origin::Imported => "import several runs of each configuration",
            _ => "repeat with `--replicates 5` or more",
        };
        Doubt::new(DoubtKind::Replication, text, help)
    })
}

/// The last run of the baseline compared with its first one, relative to the noise within the two.
fn drift(study: &Study, document: &ResultDocument) -> Option<Doubt> {
    let baseline: Vec<usize> = (0..study.runs.len())
        .filter(|at| {
            let run = &study.runs[*at].run;
            run.trial.treatment == Treatment::Baseline && run.ending == Ending::Completed
        })
        .collect();
    let (first, last) = (*baseline.first()?, *baseline.last()?);
    let rates = |at: usize| -> Vec<f64> {
        let series = Measured::of(&study.runs[at]).series();
        let chunks = series.chunks(series.len().div_ceil(DRIFT_WINDOWS_MAX).max(1));
        let rates = chunks.map(|chunk| chunk.iter().map(|window| window.rate_per_s).collect::<Vec<_>>());
        rates.filter_map(|rates| mean(&rates)).collect()
    };
    let ratio = mean_ratio(&rates(first), &rates(last)).filter(|_| first != last)?;
    let matters = SMALLEST_CHANGE.ln_1p();
    let beyond_noise = ratio.low > 1.0 || ratio.high < 1.0;
    (beyond_noise && ratio.value.ln().abs() > matters).then(|| {
        let rate = |at: usize| document.trials.get(at).and_then(|t| t.whole()).map_or(0.0, |w| w.rate_per_s);
        let text = format!(
            "the baseline drifted: {} in its first trial, {} in its last ({:+.1} %)",
            words::per_s(rate(first)),
            words::per_s(rate(last)),
            (ratio.value - 1.0) * 100.0
        );
        let help =
            "comparisons pair trials of the same round, which cancels most of the drift; use more replicates";
        Doubt::new(DoubtKind::Drift, text, help)
    })
}
