//! Does the service pause? Garbage collection, a checkpoint, a flush or a scheduled job stops every operation
//! at once. Means hide this, and percentiles show only that something was slow. The evidence is that no
//! request is answered for a while although operations are in flight; see [`crate::facts::pauses`].

use model::claim::{Meanwhile, PausedPercentiles, PausesClaim, Spread};
use model::result::{ResultDocument, TrialResult};
use model::study::new_histogram;
use model::{
    Claim, Detector, Estimate, Evidence, Finding, FindingKind, Resource, ResourceClass, Study, Unit, metrics,
};

use super::{Sign, gather_steps, note_gains};
use crate::facts::ISSUED_SHARE;
use crate::facts::generator::Shares;
use crate::facts::pauses::{IN_FLIGHT_MIN, PAUSES_MIN, Pauses, TOLD_SHARE};
use crate::facts::service::services;
use crate::facts::stopped::Stopped;
use crate::measured::{Measured, Window};
use crate::statistics::{mean, median, variance};

/// Share of the time from which pauses are the limit: they then take more time than everything else together.
const MOST: f64 = 0.5;
/// Number of used CPUs, and utilization of a device, from which something was active during a pause.
const WORKED: f64 = 0.5;
/// The same, below which nothing was active.
const RESTED: f64 = 0.1;
/// Share of the pauses in which the sampler was stopped too, from which the whole machine paused.
const MACHINE_SHARE: f64 = 0.5;
/// How much longer than usual the slowest operation of an interval must take to suggest a pause within the
/// interval.
const LONGER: f64 = 3.0;
/// Length of an interval from which a shorter one can be recommended.
const COARSE_S: f64 = 0.15;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let mut findings = gather_steps(Detector::Pauses, study, document, |measured, trial| {
        sign(measured, trial).into_iter().collect()
    });
    note_gains(&mut findings, document);
    findings
}

/// Whether the pauses of a trial are its limit.
pub(super) fn limit(measured: &Measured, trial: &TrialResult) -> bool {
    sign(measured, trial).is_some_and(|sign| sign.kind == FindingKind::Limits)
}

fn spread(values: &[f64]) -> Spread {
    Spread {
        mean: mean(values).unwrap_or_default(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(0.0, f64::max),
    }
}

fn sign(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let Some(pauses) = Pauses::of(measured) else {
        return inside_intervals(measured, trial);
    };
    let services = services(measured);
    let whole = trial.whole()?;
    let kept_up = whole.offered.is_none_or(|offered| whole.completed as f64 >= ISSUED_SHARE * offered as f64);
    let pressing = measured.is_closed() || (measured.is_open() && !kept_up);
    let mut evidence = evidence_of(measured, trial, &pauses);
    let meanwhile = meanwhile(measured, trial, &pauses, &services, &mut evidence);
    let process = match services.as_slice() {
        [only] => Some(only.to_string()),
        _ => None,
    };
    let limits = pressing && pauses.lost_share >= MOST && is_own(&meanwhile) && !services.is_empty();
    let kind = if limits { FindingKind::Limits } else { FindingKind::Observation };
    let about = match &process {
        Some(name) => Resource::of_process(ResourceClass::Pause, name),
        None => Resource::of_host(ResourceClass::Pause),
    };
    let claim = Claim::Pauses(PausesClaim {
        process,
        count: pauses.lengths_s.len(),
        length_s: spread(&pauses.lengths_s),
        period_s: spread(&pauses.periods_s()),
        regular: pauses.are_regular(),
        lost_share: pauses.lost_share,
        in_flight: pauses.in_flight,
        between_per_s: pauses.between_per_s,
        all_per_s: whole.rate_per_s,
        percentiles: percentiles(measured, &pauses),
        meanwhile,
    });
    Some(Sign::new(kind, Some(about), claim, pauses.lost_share).with(evidence))
}

/// Whether the service itself paused, and not the machine, the load generator or another service.
fn is_own(meanwhile: &Meanwhile) -> bool {
    match meanwhile {
        Meanwhile::GeneratorWaited(_)
        | Meanwhile::MachineStopped
        | Meanwhile::Steal(_)
        | Meanwhile::Downstream { .. }
        | Meanwhile::NoCpu { .. } => false,
        Meanwhile::OwnWork { .. }
        | Meanwhile::Disk { .. }
        | Meanwhile::NothingBusy
        | Meanwhile::NotWatched
        | Meanwhile::NotShown
        | Meanwhile::SampledTooSeldom => true,
    }
}

/// Each pause with its time, and the throughput between pauses.
fn evidence_of(measured: &Measured, trial: &TrialResult, pauses: &Pauses) -> Vec<Evidence> {
    let rate = |(begin_s, end_s): &(f64, f64)| {
        let per_s = Evidence::new(&trial.trial, "rate_per_s", Unit::PerSecond, (*begin_s, *end_s), 0.0);
        per_s.other_times(Some(pauses.between_per_s))
    };
    let whole = pauses.still.iter().take(pauses.lengths_s.len());
    whole.filter(|_| measured.length_s() > 0.0).map(rate).collect()
}

/// The effect of pauses on the percentiles. None if other operations take as long.
fn percentiles(measured: &Measured, pauses: &Pauses) -> Option<PausedPercentiles> {
    let mut all = new_histogram();
    let mut responses = measured.record.histograms.values().map(|histograms| &histograms.response);
    responses.try_for_each(|response| all.add(response)).ok()?;
    if all.is_empty() {
        return None;
    }
    let whole = &pauses.still[..pauses.lengths_s.len()];
    let shortest_s = whole.iter().map(|(begin, end)| end - begin).fold(f64::INFINITY, f64::min);
    let mut others = new_histogram();
    for value in all.iter_recorded() {
        let at = value.value_iterated_to();
        if (at as f64) < shortest_s * 1e9 {
            others.record_n(at, value.count_at_value()).ok()?;
        }
    }
    let p99_ms = |histogram: &hdrhistogram::Histogram<u64>| histogram.value_at_quantile(0.99) as f64 / 1e6;
    let caught_share = 1.0 - others.len() as f64 / all.len() as f64;
    // If more than half were delayed, there are too few others for a comparison.
    let tells = !others.is_empty() && caught_share < 0.5 && p99_ms(&others) <= 0.8e3 * shortest_s;
    tells.then(|| PausedPercentiles {
        caught_share,
        max_ms: all.max() as f64 / 1e6,
        p99_ms: p99_ms(&all),
        p99_others_ms: p99_ms(&others),
    })
}

/// What the counters show during the pauses.
fn meanwhile(
    measured: &Measured,
    trial: &TrialResult,
    pauses: &Pauses,
    services: &[&str],
    evidence: &mut Vec<Evidence>,
) -> Meanwhile {
    let mut both = |metric: &str, instance: &str| {
        let during = measured.mean_over(metric, instance, &pauses.still)?;
        let between = measured.mean_over(metric, instance, &pauses.between);
        evidence.push(measured.evidence_of(trial, metric, instance, during).other_times(between));
        Some((during, between))
    };
    let waited = Shares::of(measured.record).map_or(0.0, |shares| shares.waited);
    if waited >= pauses.lost_share {
        return Meanwhile::GeneratorWaited(waited);
    }
    if stopped_too(measured, &pauses.still) >= MACHINE_SHARE {
        return Meanwhile::MachineStopped;
    }
    if let Some((stolen, _)) = both(metrics::CPU_STEAL_SHARE, "").filter(|(stolen, _)| *stolen >= WORKED) {
        return Meanwhile::Steal(stolen);
    }
    for service in services {
        let Some((threads, _)) = both(metrics::PROCESS_PEER_WAIT_THREADS, service) else { continue };
        if threads >= 0.5 * pauses.in_flight {
            return Meanwhile::Downstream { process: service.to_string(), threads };
        }
    }
    let mut rested = !services.is_empty();
    for service in services {
        let Some((cpus, cpus_between)) = both(metrics::PROCESS_BUSY_CPUS, service) else {
            rested = false;
            continue;
        };
        // A single active thread gets less CPU time than it wants if others use the CPUs too.
        let threads = both(metrics::PROCESS_RUN_QUEUE_LENGTH, service).map_or(0.0, |(waited, _)| waited);
        if threads >= 0.5 * pauses.in_flight {
            return Meanwhile::NoCpu { process: service.to_string(), threads };
        }
        if cpus >= WORKED || (cpus >= RESTED && cpus + threads.min(1.0) >= WORKED) {
            return Meanwhile::OwnWork { process: service.to_string(), cpus, cpus_between };
        }
        rested &= cpus < RESTED;
    }
    for disk in measured.instances(metrics::DISK_UTILIZATION_SHARE) {
        let Some((busy_share, busy_share_between)) = both(metrics::DISK_UTILIZATION_SHARE, disk) else {
            rested = false;
            continue;
        };
        if busy_share >= WORKED && busy_share_between.is_some_and(|between| between < 0.5 * busy_share) {
            return Meanwhile::Disk { device: disk.into(), busy_share, busy_share_between };
        }
        rested &= busy_share < RESTED;
    }
    if rested {
        return Meanwhile::NothingBusy;
    }
    let sampled =
        |service: &&str| measured.mean_over(metrics::PROCESS_THREADS, service, &pauses.still).is_some();
    match services {
        [] => Meanwhile::NotWatched,
        services if services.iter().any(sampled) => Meanwhile::NotShown,
        _ => Meanwhile::SampledTooSeldom,
    }
}

/// The share of the spans in which a sample of the counters was late by half of their length. Then the
/// sampler, a thread of another process than the measured one, did not run either.
fn stopped_too(measured: &Measured, spans: &[(f64, f64)]) -> f64 {
    let table = &measured.record.readings;
    if !measured.readings_fit() {
        return 0.0;
    }
    let rows: Vec<(f64, f64)> = table.begin_s.iter().copied().zip(table.end_s.iter().copied()).collect();
    let lengths: Vec<f64> = rows.iter().map(|(begin, end)| end - begin).collect();
    let Some(usual_s) = median(&lengths) else { return 0.0 };
    let late = spans.iter().filter(|(begin_s, end_s)| {
        let over = rows.iter().filter(|(begin, end)| begin < end_s && end > begin_s);
        let longest_s = over.map(|(begin, end)| end - begin).fold(0.0, f64::max);
        longest_s >= usual_s + 0.5 * (end_s - begin_s)
    });
    late.count() as f64 / spans.len() as f64
}

/// Pauses shorter than the intervals of the record: some intervals have an operation far slower than the
/// others, and their throughput is lower in proportion to its duration. Never a limit.
fn inside_intervals(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    // The timeouts of a system that stopped answering are no pauses of it.
    if !measured.is_meant_steady() || Stopped::of(measured).is_some() {
        return None;
    }
    let windows = measured.series();
    windows.first().filter(|window| window.length_s() >= COARSE_S)?;
    let usual_s = median(&windows.iter().map(|window| window.longest_s).collect::<Vec<f64>>())?;
    let is_hit = |window: &Window| {
        let over_s = window.longest_s - usual_s;
        let in_flight = window.in_flight >= IN_FLIGHT_MIN;
        in_flight && window.longest_s >= LONGER * usual_s && over_s >= 0.1 * window.length_s()
    };
    let hits: Vec<&Window> = windows.iter().filter(|window| is_hit(window)).collect();
    // A pause across the end of an interval is answered in the next one, and costs time in both.
    let is_clear = |at: &usize| !is_hit(&windows[*at]) && !windows.get(at + 1).is_some_and(is_hit);
    let clear: Vec<&Window> = (0..windows.len()).filter(is_clear).map(|at| &windows[at]).collect();
    if hits.len() < PAUSES_MIN || clear.len() < 2 * PAUSES_MIN {
        return None;
    }
    let rates: Vec<f64> = clear.iter().map(|window| window.rate_per_s).collect();
    let (rate, noise) = (mean(&rates)?, variance(&rates)?.sqrt());
    let touched = (0..windows.len()).filter(|at| !is_clear(at)).map(|at| &windows[at]);
    let (mut lost_s, mut noise_s) = (0.0, 0.0_f64);
    for window in touched {
        lost_s += window.length_s() * (1.0 - window.rate_per_s / rate);
        noise_s = noise_s.hypot(window.length_s() * noise / rate);
    }
    let waited_s: f64 = hits.iter().map(|window| window.longest_s - usual_s).sum();
    let lost_share = lost_s / measured.length_s();
    let agrees = lost_s >= 0.5 * waited_s && lost_s <= 1.5 * waited_s && lost_s >= 3.0 * noise_s;
    // A generator that does not run delays every response.
    let waited = Shares::of(measured.record).map_or(0.0, |shares| shares.waited);
    if !agrees || lost_share < TOLD_SHARE.max(waited) {
        return None;
    }
    let longest: Vec<f64> = hits.iter().map(|window| window.longest_s).collect();
    let longest_s = spread(&longest);
    let usual = Estimate::exact(usual_s);
    let span_s = (measured.begin_s, measured.end_s);
    let found = Evidence::new(&trial.trial, "response_ms.max", Unit::Seconds, span_s, longest_s.mean)
        .other_times(Some(usual.value));
    let claim = Claim::SuspectedPauses {
        intervals: hits.len(),
        of_intervals: windows.len(),
        longest_s,
        usual_s,
        lost_share,
        interval_s: windows[0].length_s(),
    };
    let about = Some(Resource::of_host(ResourceClass::Pause));
    Some(Sign::new(FindingKind::Observation, about, claim, lost_share).with([found]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result;
    use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};
    use crate::tests::read::{limit, rests_on, shown};
    use model::{DesignKind, Shape};

    /// Pauses of `length_s` every `every_s`.
    fn regular(length_s: f64, every_s: f64, seconds: f64) -> Vec<(f64, f64)> {
        let count = (seconds / every_s) as usize;
        (0..count).map(|at| 0.37 + at as f64 * every_s).map(|begin| (begin, begin + length_s)).collect()
    }

    fn found(run: &Simulated) -> Option<Finding> {
        result(&single(run)).findings.into_iter().find(|finding| finding.detector == Detector::Pauses)
    }

    fn pauses(run: &Simulated) -> PausesClaim {
        match found(run).map(|finding| finding.claim) {
            Some(Claim::Pauses(claim)) => claim,
            other => panic!("{other:?}"),
        }
    }

    /// A counter with the value `during` in the intervals within a pause, and `between` elsewhere.
    fn counter(
        run: Simulated,
        metric: &'static str,
        instance: &'static str,
        still: &[(f64, f64)],
        (during, between): (f64, f64),
    ) -> Simulated {
        let values: Vec<f64> = (0..run.rates.len())
            .map(|at| {
                let middle = (at as f64 + 0.5) * run.interval_s;
                let inside = still.iter().any(|(from, to)| (*from..*to).contains(&middle));
                if inside { during } else { between }
            })
            .collect();
        run.counter(metric, instance, &values)
    }

    /// A service with given CPU use in pauses and between them.
    fn service(still: &[(f64, f64)], interval_s: f64, seconds: f64, cpus: (f64, f64)) -> Simulated {
        let run = Simulated::pausing((64, 128), 80.0, still, interval_s, seconds)
            .counter("process.threads", "svc", &[129.0])
            .counter("process.lock_wait_threads", "svc", &[1.0])
            .counter("process.accept_wait_threads", "svc", &[64.0])
            .counter("disk.utilization_share", "vda", &[0.01]);
        counter(run, "process.busy_cpus", "svc", still, cpus)
    }

    #[test]
    fn pauses_are_reported_with_what_they_cost_and_what_worked_meanwhile() {
        let still = regular(0.25, 1.0, 10.0);
        let collecting = service(&still, 0.05, 10.0, (1.0, 0.06));
        insta::assert_snapshot!(shown(&found(&collecting).unwrap().claim), @r#"{"all_per_s":636.0,"between_per_s":848.0,"count":10,"in_flight":64.0,"length_s":{"max":0.25,"mean":0.25,"min":0.25},"lost_share":0.25,"meanwhile":{"own_work":{"cpus":1.0,"cpus_between":0.06,"process":"svc"}},"percentiles":{"caught_share":0.101,"max_ms":368.0,"p99_ms":336.0,"p99_others_ms":119.0},"period_s":{"max":1.0,"mean":1.0,"min":1.0},"process":"svc","regular":true,"sign":"pauses"}"#);
        let waiting = service(&still, 0.05, 10.0, (0.0, 0.06));
        let flushing = counter(waiting.clone(), "disk.utilization_share", "vda", &still, (0.97, 0.02));
        let behind = counter(waiting.clone(), "process.peer_wait_threads", "svc", &still, (60.0, 20.0));
        let stolen = counter(waiting.clone(), "cpu.steal_share", "", &still, (0.9, 0.01));
        let starved = Simulated { generator: (0.1, 0.3), ..waiting.clone() };
        let mut unwatched = waiting.clone();
        unwatched.counters.retain(|(metric, _, _)| !metric.starts_with("process."));
        let own = Meanwhile::OwnWork { process: "svc".into(), cpus: 1.0, cpus_between: Some(0.06) };
        let disk = Meanwhile::Disk { device: "vda".into(), busy_share: 0.97, busy_share_between: Some(0.02) };
        for (run, meanwhile) in [
            (collecting, own),
            (waiting, Meanwhile::NothingBusy),
            (flushing, disk),
            (behind, Meanwhile::Downstream { process: "svc".into(), threads: 60.0 }),
            (stolen, Meanwhile::Steal(0.9)),
            (starved, Meanwhile::GeneratorWaited(0.3)),
            (unwatched, Meanwhile::NotWatched),
        ] {
            assert_eq!(shown(&pauses(&run).meanwhile), shown(&meanwhile));
            let finding = found(&run).unwrap();
            assert_eq!((finding.kind, finding.evidence.len() >= 10), (FindingKind::Observation, true));
        }
    }

    #[test]
    fn pauses_at_no_fixed_time_are_said_to_be_so() {
        let still = [(0.52, 0.72), (1.13, 1.53), (3.91, 4.11), (4.64, 4.94), (8.22, 8.52)];
        let claim = pauses(&service(&still, 0.05, 10.0, (1.0, 0.06)));
        assert_eq!((claim.count, claim.regular), (5, false), "{claim:?}");
        let near = |spread: Spread, mean: f64, min: f64, max: f64| {
            let pairs = [(spread.mean, mean), (spread.min, min), (spread.max, max)];
            pairs.iter().all(|(found, expected)| (found - expected).abs() <= 0.06)
        };
        assert!(near(claim.length_s, 0.28, 0.2, 0.4), "{claim:?}");
        assert!(near(claim.period_s, 1.94, 0.71, 3.58), "{claim:?}");
    }

    /// Pauses are the limit only if more time is lost than remains; then the waits of threads are not taken
    /// for the cause.
    #[test]
    fn pauses_limit_when_they_take_most_of_the_time() {
        for (length_s, limits) in [(0.65, true), (0.35, false)] {
            let still = regular(length_s, 1.0, 10.0);
            let run = service(&still, 0.05, 10.0, (1.0, 0.06))
                .counter("process.same_lock_wait_threads", "svc", &[64.0 * length_s])
                .counter("process.accept_queue_connections", "svc", &[0.0]);
            assert_eq!(limit(&result(&single(&run))), if limits { "pause of svc" } else { "" });
        }
        // If more users still increase throughput, this is reported too.
        let swept = experiment(vec![vary("load.closed", Some(64), &[32])], DesignKind::OneFactorAtATime, 1);
        let document = result(&carry_out(swept, |treatment| {
            let users = level(treatment, "load.closed", 64.0) as u32;
            let still = regular(0.65, 1.0, 10.0);
            let run = Simulated::pausing((users, 128), 80.0, &still, 0.05, 10.0);
            run.counter("process.threads", "svc", &[129.0]).counter(
                "process.lock_wait_threads",
                "svc",
                &[1.0],
            )
        }));
        let [gain] = rests_on(&document).against.as_slice() else { panic!("{document:?}") };
        let between = gain.between.as_ref().unwrap();
        let levels = (between.factor.as_str(), between.from.as_str(), between.to.as_str());
        assert_eq!(levels, ("load.closed", "32", "64"));
        assert!((between.throughput_ratio - 1.99).abs() < 0.01, "{between:?}");
        // An open load that is completed as offered is not limited.
        let still = regular(0.65, 1.0, 10.0);
        let mut open = service(&still, 0.05, 10.0, (1.0, 0.06));
        let rate = open.ends.len() as f64 / 10.0;
        open.shape =
            Shape::Open { rate_per_s: model::Profile::Constant(rate), arrivals: model::Process::Poisson };
        assert_eq!(found(&open).unwrap().kind, FindingKind::Observation);
    }

    /// A quota whose periods look like pauses remains the verdict, and a pool is detected despite pauses,
    /// with samples between them or not.
    #[test]
    fn what_limits_is_seen_through_the_pauses() {
        let still = regular(0.25, 1.0, 10.0);
        let throttled = service(&still, 0.05, 10.0, (0.3, 0.3)).counter("process.quota_cpus", "svc", &[0.3]);
        let throttled = counter(throttled, "process.throttled_share", "svc", &still, (1.0, 0.4));
        let pool = |sample_s: f64| {
            let mut run = Simulated::pausing((64, 8), 40.0, &still, 0.05, 10.0)
                .counter("process.threads", "svc", &[8.0])
                .counter("process.lock_wait_threads", "svc", &[0.0])
                .counter("process.accept_queue_connections", "svc", &[56.0]);
            run = counter(run, "process.same_lock_wait_threads", "svc", &still, (8.0, 0.0));
            run = counter(run, "process.timer_wait_threads", "svc", &still, (0.0, 8.0));
            let mut study = single(&run);
            let table = &mut study.runs[0].readings;
            let each = (sample_s / 0.05).round() as usize;
            let begin_s: Vec<f64> = table.begin_s.chunks(each).map(|rows| rows[0]).collect();
            table.end_s = table.end_s.chunks(each).map(|rows| rows[rows.len() - 1]).collect();
            table.begin_s = begin_s;
            for column in &mut table.values {
                *column = column.chunks(each).filter_map(mean).collect();
            }
            result(&study)
        };
        for (document, resource) in [
            (result(&single(&throttled)), "cpu quota of svc"),
            (pool(0.05), "worker pool of svc"),
            (pool(1.0), "worker pool of svc"),
        ] {
            assert_eq!(limit(&document), resource, "{:?}", document.verdict);
        }
    }

    /// Similar patterns that are not pauses: synchronized users, a slow pool, a quota, a few users with a
    /// slow one, a single hiccup.
    #[test]
    fn what_is_no_pause() {
        let quota: Vec<(f64, f64)> = regular(0.07, 0.1, 10.0);
        let throttled = service(&regular(0.25, 1.0, 10.0), 0.05, 10.0, (0.3, 0.3))
            .counter("process.throttled_share", "svc", &[0.9])
            .counter("process.quota_cpus", "svc", &[0.3]);
        let mut in_step = Simulated::pausing((64, 64), 400.0, &[], 0.05, 10.0);
        // All begin together and take the same time.
        for (at, end) in in_step.ends.iter_mut().enumerate() {
            *end = (0.4 * (at / 64 + 1) as f64, 400.0);
        }
        in_step.ends.retain(|(end, _)| *end < 10.0);
        in_step.rates = (0..200).map(|at| if at % 8 == 0 && at > 0 { 64.0 / 0.05 } else { 0.0 }).collect();
        let cases = [
            ("nothing", Simulated::pausing((64, 128), 80.0, &[], 0.05, 10.0)),
            ("slow answers", Simulated::pausing((64, 128), 400.0, &[], 0.05, 10.0)),
            ("a pool", Simulated::pausing((64, 6), 60.0, &[], 0.05, 10.0)),
            ("a small pool", Simulated::pausing((64, 3), 150.0, &[], 0.05, 10.0)),
            ("one user", Simulated::pausing((1, 1), 300.0, &[], 0.05, 10.0)),
            ("periods of a quota", Simulated::pausing((64, 128), 20.0, &quota, 0.05, 10.0)),
            ("a quota", throttled),
            ("users in step", in_step),
            ("two hiccups", Simulated::pausing((64, 128), 80.0, &[(2.0, 2.3), (7.0, 7.3)], 0.05, 10.0)),
            ("coarse", Simulated::pausing((64, 128), 80.0, &regular(0.25, 1.0, 20.0), 1.0, 20.0)),
        ];
        for (name, run) in cases {
            assert_eq!(found(&run), None, "{name}");
        }
    }

    #[test]
    fn pauses_inside_intervals_are_suspected() {
        let still = regular(0.4, 5.3, 40.0);
        let run = Simulated::pausing((64, 128), 80.0, &still, 1.0, 40.0);
        insta::assert_snapshot!(shown(&found(&run).unwrap().claim), @r#"{"interval_s":1.0,"intervals":7,"longest_s":{"max":0.514,"mean":0.507,"min":0.49},"lost_share":0.0624,"of_intervals":40,"sign":"suspected_pauses","usual_s":0.12}"#);
        // Slow operations that delay no others cost no throughput.
        let mut slow = Simulated::pausing((64, 128), 80.0, &[], 1.0, 40.0);
        for at in (0..40).step_by(5) {
            let first = slow.ends.iter().position(|(end, _)| *end > f64::from(at)).unwrap();
            slow.ends[first].1 = 480.0;
        }
        assert_eq!(found(&slow), None);
        // A generator that waits for a CPU as long looks the same.
        let starved = Simulated { generator: (0.1, 0.08), ..run };
        assert_eq!(found(&starved), None);
    }
}
