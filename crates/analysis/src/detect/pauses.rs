//! Does the service stand still now and then? A collection of garbage, a checkpoint, a flush or a job on a timetable stops
//! every operation at once. Means hide it, and percentiles show that something was slow, not what. What tells is that for a
//! while nothing is answered although operations are in flight, and that what is answered then had waited that long.
//!
//! A stretch in which nothing ends is no pause by itself: users who began together end together, and a quota holds a
//! service back in each of its periods.

use model::result::{ResultDocument, TrialResult};
use model::study::new_histogram;
use model::{Estimate, Evidence, Finding, FindingKind, Study};

use super::{Claim, evidence, gather, note_gains, service};
use crate::doubt::{ISSUED_SHARE, generator_shares};
use crate::measured::{Measured, Window};
use crate::statistics::{mean, median, variance};
use crate::words;

pub(super) const NAME: &str = "pauses";

/// Share of the mean rate below which an interval answered as good as nothing.
const QUIET: f64 = 0.1;
/// Quiet intervals in a row that make a pause: one alone may be a period of a quota, of 100 ms mostly.
const INTERVALS_MIN: usize = 2;
/// Operations that the mean rate would have answered meanwhile: of ten that come at random none is missing by chance.
const MISSING_MIN: f64 = 10.0;
/// Operations in flight that must all stand still: with fewer, a pause looks like some slow operations.
const IN_FLIGHT_MIN: f64 = 4.0;
/// Pauses that make "now and then".
const PAUSES_MIN: usize = 3;
/// Share of the time from which pauses are worth a word.
const TOLD_SHARE: f64 = 0.01;
/// Share of the time from which pauses limit: they then take more of it than all else together.
const MOST: f64 = 0.5;
/// Share of the time from which pauses blur what threads do on average.
const BLURRED_SHARE: f64 = 0.3;
/// Standard deviation of the times from pause to pause, as a share of their mean, up to which they are regular.
const REGULAR: f64 = 0.2;
/// Processors used, and share of the time a device was busy, from which something worked during a pause.
const WORKED: f64 = 0.5;
/// The same, below which nothing did.
const RESTED: f64 = 0.1;
/// Share of the pauses in which the sampler stood still too, from which it was the machine.
const MACHINE_SHARE: f64 = 0.5;
/// How much longer the slowest operation of an interval must take than usual to suggest a pause inside the interval.
const LONGER: f64 = 3.0;
/// Length of an interval from which a shorter one can be asked for.
const COARSE_S: f64 = 0.15;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let mut findings =
        gather(NAME, study, document, |measured, trial| claim(measured, trial).into_iter().collect());
    note_gains(&mut findings, document);
    findings
}

/// Whether the pauses of a trial are its limit.
pub(super) fn limit(measured: &Measured, trial: &TrialResult) -> bool {
    claim(measured, trial).is_some_and(|claim| claim.kind == FindingKind::Limits)
}

/// The pauses of the measured time.
pub(super) struct Pauses {
    /// The stretches in which surely all stood still, one cut off by the end of the measured time included.
    still: Vec<(f64, f64)>,
    /// Those between them, in which surely not.
    between: Vec<(f64, f64)>,
    /// How long the whole pauses took, in seconds: more than was surely still, by half an interval on average each side.
    lengths_s: Vec<f64>,
    lost_share: f64,
    in_flight: f64,
    /// Answers per second between them.
    between_per_s: f64,
}

impl Pauses {
    /// The pauses of a run whose load is meant to stay the same.
    pub(super) fn of(measured: &Measured) -> Option<Pauses> {
        let pauses = Pauses::find(&measured.series()).filter(|_| measured.is_meant_steady())?;
        // A service that its quota holds back stands still too; the quota is the reason then.
        let held_back = |service: &&str| {
            let metric = "process.throttled_share";
            let throttled = measured.mean_over(metric, service, &pauses.still);
            let throttled = throttled.or_else(|| measured.mean(metric, service));
            throttled.is_some_and(|share| share >= service::THROTTLED_SHARE)
        };
        (pauses.lost_share >= TOLD_SHARE && !service::services(measured).iter().any(held_back))
            .then_some(pauses)
    }

    /// Whether they take so much of the time that a mean over it says little, and between them users go in step.
    pub(super) fn blur(&self) -> bool {
        self.lost_share >= BLURRED_SHARE
    }

    /// The stretches in which the threads of a service show what limits it: those between the pauses. Where no sample lies
    /// between them it is the whole time, if the pauses are too short a part of it to blur that.
    pub(super) fn clear(&self, measured: &Measured, service: &str) -> Vec<(f64, f64)> {
        let known = measured.mean_over("process.threads", service, &self.between).is_some();
        match known || self.blur() {
            true => self.between.clone(),
            false => vec![(measured.begin_s, measured.end_s)],
        }
    }

    /// Whether a window lies in a pause or touches one, and so shows it in part.
    pub(super) fn touch(&self, window: &Window) -> bool {
        let touches =
            |(begin_s, end_s): &(f64, f64)| window.end_s >= begin_s - 1e-6 && window.begin_s <= end_s + 1e-6;
        self.still.iter().any(touches)
    }

    fn find(windows: &[Window]) -> Option<Pauses> {
        let length_s: f64 = windows.iter().map(Window::length_s).sum();
        let completed: f64 = windows.iter().map(|window| window.completed as f64).sum();
        let rate = completed / length_s;
        let is_quiet = |window: &Window| (window.completed as f64) < QUIET * rate * window.length_s();
        let stretches: Vec<&[Window]> =
            windows.chunk_by(|left, right| is_quiet(left) == is_quiet(right)).collect();
        // What usually is the slowest of an interval, but of those that follow a quiet one.
        let usual = stretches.iter().filter(|stretch| !is_quiet(&stretch[0]));
        let usual: Vec<f64> =
            usual.flat_map(|stretch| &stretch[1..]).map(|window| window.longest_s).collect();
        let usual_s = median(&usual)?;
        let mut pauses = Pauses {
            still: Vec::new(),
            between: Vec::new(),
            lengths_s: Vec::new(),
            lost_share: 0.0,
            in_flight: 0.0,
            between_per_s: 0.0,
        };
        for (at, stretch) in stretches.iter().enumerate() {
            let (first, last) = (&stretch[0], &stretch[stretch.len() - 1]);
            let still_s = last.end_s - first.begin_s;
            let in_flight = stretch.iter().map(|window| window.in_flight).fold(f64::INFINITY, f64::min);
            let stood = is_quiet(first)
                && stretch.len() >= INTERVALS_MIN
                && rate * still_s >= MISSING_MIN
                && in_flight >= IN_FLIGHT_MIN;
            match stretches.get(at + 1).map(|after| after[0].longest_s) {
                Some(waited_s) if stood && waited_s >= usual_s + 0.5 * still_s => {
                    pauses.still.push((first.begin_s, last.end_s));
                    pauses.lengths_s.push(still_s + first.length_s());
                    pauses.in_flight += in_flight;
                }
                // How long those in flight waited is not seen; after several like it there is little doubt.
                None if stood && pauses.still.len() >= PAUSES_MIN => {
                    pauses.still.push((first.begin_s, last.end_s));
                }
                _ => {}
            }
        }
        let count = pauses.lengths_s.len();
        if count < PAUSES_MIN {
            return None;
        }
        let between = windows.chunk_by(|left, right| pauses.touch(left) == pauses.touch(right));
        let between = between.filter(|stretch| !pauses.touch(&stretch[0]));
        pauses.between =
            between.map(|stretch| (stretch[0].begin_s, stretch[stretch.len() - 1].end_s)).collect();
        let cut_s = pauses.still.get(count).map_or(0.0, |(begin_s, end_s)| end_s - begin_s);
        let lost_s = pauses.lengths_s.iter().sum::<f64>() + cut_s;
        pauses.in_flight /= count as f64;
        pauses.lost_share = lost_s / length_s;
        let outside = windows.iter().filter(|window| !is_quiet(window));
        let answered: f64 = outside.map(|window| window.completed as f64).sum();
        pauses.between_per_s = answered / (length_s - lost_s);
        (pauses.lost_share < 1.0).then_some(pauses)
    }

    /// The times from the middle of a pause to that of the next, in seconds.
    fn periods_s(&self) -> Vec<f64> {
        let middle = |(begin_s, end_s): &(f64, f64)| 0.5 * (begin_s + end_s);
        self.still[..self.lengths_s.len()]
            .windows(2)
            .map(|pair| middle(&pair[1]) - middle(&pair[0]))
            .collect()
    }

    /// "5 times for 0.25 s (0.20 s to 0.30 s), every 1.00 s (0.95 s to 1.05 s), 25 % of the time".
    fn words(&self) -> String {
        let periods = self.periods_s();
        let period = mean(&periods).unwrap_or_default();
        let spread = variance(&periods).map_or(f64::INFINITY, f64::sqrt);
        let when = match spread <= REGULAR * period {
            true => format!("every {}", spread_words(&periods)),
            false => format!("{} apart", spread_words(&periods)),
        };
        format!(
            "{} times for {}, {when}, {} of the time",
            self.lengths_s.len(),
            spread_words(&self.lengths_s),
            words::percent(self.lost_share)
        )
    }
}

/// The mean of some times and how far they lie apart.
fn spread_words(times_s: &[f64]) -> String {
    let mean = words::seconds(mean(times_s).unwrap_or_default());
    let least = words::seconds(times_s.iter().copied().fold(f64::INFINITY, f64::min));
    let most = words::seconds(times_s.iter().copied().fold(0.0, f64::max));
    if least == most { mean } else { format!("{mean} ({least} to {most})") }
}

fn claim(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let Some(pauses) = Pauses::of(measured) else {
        return inside_intervals(measured, trial);
    };
    let services = service::services(measured);
    let whole = trial.whole()?;
    let kept_up = whole.completed as f64 >= ISSUED_SHARE * whole.offered as f64;
    let pressing = measured.is_closed() || (measured.is_open() && !kept_up);
    let mut evidence = evidence_of(measured, trial, &pauses);
    let meanwhile = meanwhile(measured, trial, &pauses, &services, &mut evidence);
    let name = match services.as_slice() {
        [only] => *only,
        _ => "The system",
    };
    let limits = pressing && pauses.lost_share >= MOST && meanwhile.own && !services.is_empty();
    let text = format!(
        "{name} stood still {}: nothing was answered while {} operations were in flight. Between the pauses it answered {}, \
         {} in all.{}{}",
        pauses.words(),
        words::things(pauses.in_flight),
        words::per_s(pauses.between_per_s),
        words::per_s(whole.completed as f64 / measured.length_s()),
        percentiles(measured, &pauses),
        meanwhile.text
    );
    let (kind, text) = match limits {
        true => (FindingKind::Limits, format!("Pauses were the limit: {text}")),
        false => (FindingKind::Observation, text),
    };
    let resource = if services.len() == 1 { format!("pause of {name}") } else { "pause".into() };
    Some(Claim { kind, resource, text, strength: pauses.lost_share, evidence, against: Vec::new() })
}

/// Each pause with its place in time, and what throughput was between them.
fn evidence_of(measured: &Measured, trial: &TrialResult, pauses: &Pauses) -> Vec<Evidence> {
    let expected = Some(Estimate::exact(pauses.between_per_s));
    let each = pauses.still.iter().zip(&pauses.lengths_s).map(|((begin_s, end_s), length_s)| Evidence {
        run: trial.trial.clone(),
        metric: "rate_per_s".into(),
        begin_s: *begin_s,
        end_s: *end_s,
        observed: Estimate::exact(0.0),
        expected,
        text: format!(
            "nothing was answered for {} from {} on",
            words::seconds(*length_s),
            words::seconds(begin_s - measured.begin_s)
        ),
    });
    each.collect()
}

/// What of the percentiles is the pauses' doing. Nothing when other operations take as long.
fn percentiles(measured: &Measured, pauses: &Pauses) -> String {
    let mut all = new_histogram();
    let responses = measured.record.histograms.values().map(|histograms| &histograms.response);
    if responses.into_iter().try_for_each(|response| all.add(response)).is_err() || all.is_empty() {
        return String::new();
    }
    let whole = &pauses.still[..pauses.lengths_s.len()];
    let shortest_s = whole.iter().map(|(begin, end)| end - begin).fold(f64::INFINITY, f64::min);
    let mut others = new_histogram();
    for value in all.iter_recorded() {
        let at = value.value_iterated_to();
        if (at as f64) < shortest_s * 1e9 && others.record_n(at, value.count_at_value()).is_err() {
            return String::new();
        }
    }
    let p99_ms = |histogram: &hdrhistogram::Histogram<u64>| histogram.value_at_quantile(0.99) as f64 / 1e6;
    let caught = 1.0 - others.len() as f64 / all.len() as f64;
    // More than half were caught: then there are no others to speak of.
    if others.is_empty() || caught >= 0.5 || p99_ms(&others) > 0.8e3 * shortest_s {
        return String::new();
    }
    format!(
        " {} of the operations took longer than the shortest pause, up to {}: 99 % of all took up to {}, of the others up to {}.",
        words::percent(caught),
        words::ms(all.max() as f64 / 1e6),
        words::ms(p99_ms(&all)),
        words::ms(p99_ms(&others))
    )
}

/// What the counters say of the pauses.
struct Meanwhile {
    /// Sentences, each after a space.
    text: String,
    /// Whether it is the service that stands still, and not the machine or something behind it.
    own: bool,
}

fn meanwhile(
    measured: &Measured,
    trial: &TrialResult,
    pauses: &Pauses,
    services: &[&str],
    evidence: &mut Vec<Evidence>,
) -> Meanwhile {
    let says = |text: String, own: bool| Meanwhile { text: format!(" {text}"), own };
    let mut both = |metric: &str, instance: &str| {
        let during = measured.mean_over(metric, instance, &pauses.still)?;
        let between = measured.mean_over(metric, instance, &pauses.between);
        let title = if instance.is_empty() { metric.into() } else { format!("{metric}{{{instance}}}") };
        let text =
            format!("{title} was {} in the pauses{}", words::number(during), beside(between, words::number));
        evidence.push(self::evidence(measured, trial, title, during, between.map(Estimate::exact), text));
        Some((during, between))
    };
    let waited = generator_shares(measured.record).map_or(0.0, |(_, waited)| waited);
    if waited >= pauses.lost_share {
        let text = format!(
            "But the load generator waited for a CPU {} of the time: the pauses may be its own.",
            words::percent(waited)
        );
        return says(text, false);
    }
    if stood_still_too(measured, &pauses.still) >= MACHINE_SHARE {
        let text = "Plimsoll's own counters were not read meanwhile: the whole machine stood still.";
        return says(text.into(), false);
    }
    if let Some((stolen, _)) = both("cpu.steal_share", "").filter(|(stolen, _)| *stolen >= WORKED) {
        let text = format!(
            "Neighbours of this virtual machine took {} of its processors meanwhile.",
            words::percent(stolen)
        );
        return says(text, false);
    }
    for service in services {
        let Some((waiting, _)) = both("process.peer_wait_threads", service) else { continue };
        if waiting >= 0.5 * pauses.in_flight {
            let text = format!(
                "{} threads of {service} waited for the answer of another service meanwhile: that one stood still.",
                words::things(waiting)
            );
            return says(text, false);
        }
    }
    let mut rested = !services.is_empty();
    for service in services {
        let Some((used, before)) = both("process.busy_cpus", service) else {
            rested = false;
            continue;
        };
        // A single thread that works gets less than it wants where others use the processors too.
        let waited = both("process.run_queue_length", service).map_or(0.0, |(waited, _)| waited);
        if waited >= 0.5 * pauses.in_flight {
            let text = format!(
                "{} threads of {service} were ready meanwhile and waited for a CPU: something else had them.",
                words::things(waited)
            );
            return says(text, false);
        }
        if used >= WORKED || (used >= RESTED && used + waited.min(1.0) >= WORKED) {
            let text = format!(
                "Meanwhile {service} used {} CPUs{}: it worked on something of its own, such as a collection \
                 of garbage or a checkpoint.",
                words::number(used),
                beside(before, words::number)
            );
            return says(text, true);
        }
        rested &= used < RESTED;
    }
    let disks = measured.columns().filter(|(_, column)| column.metric.name == "disk.utilization_share");
    for disk in disks.map(|(_, column)| column.instance.as_str()) {
        let Some((busy, before)) = both("disk.utilization_share", disk) else {
            rested = false;
            continue;
        };
        if busy >= WORKED && before.is_some_and(|before| before < 0.5 * busy) {
            let text = format!(
                "Meanwhile {disk} was {} busy{}: it stood still for the disk, as for a flush or a checkpoint.",
                words::percent(busy),
                beside(before, words::percent)
            );
            return says(text, true);
        }
        rested &= busy < RESTED;
    }
    if rested {
        let text = "Meanwhile neither it nor a disk was busy: it waited, for a lock, a timer or something not watched.";
        return says(text.into(), true);
    }
    let sampled = |service: &&str| measured.mean_over("process.threads", service, &pauses.still).is_some();
    let text = match services {
        [] => "What did so is not shown: watch the service (`watch = [\"process:NAME\"]`).",
        services if services.iter().any(sampled) => "The counters do not show what it did meanwhile.",
        _ => "What it did meanwhile is not shown; `sample_every` of a third of a pause or less shows more.",
    };
    says(text.into(), true)
}

/// " (0.06 between them)", or nothing when that is not known.
fn beside(between: Option<f64>, words: fn(f64) -> String) -> String {
    between.map(|between| format!(" ({} between them)", words(between))).unwrap_or_default()
}

/// The share of the stretches over which a sample of the counters came late by half of their length: then the sampler, which
/// is another process' thread than what is measured, did not get to run either.
fn stood_still_too(measured: &Measured, spans: &[(f64, f64)]) -> f64 {
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

/// Pauses shorter than the intervals of the record: some intervals have an operation far slower than the others have,
/// and answer less by as much time as it took. Told with what would show it, and never a limit.
fn inside_intervals(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    if !measured.is_meant_steady() {
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
    // A pause that crosses the end of an interval is answered in the next one, and time is lost in both.
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
    // A generator that does not get to run makes every answer late.
    let waited = generator_shares(measured.record).map_or(0.0, |(_, waited)| waited);
    if !agrees || lost_share < TOLD_SHARE.max(waited) {
        return None;
    }
    let longest: Vec<f64> = hits.iter().map(|window| window.longest_s).collect();
    let text = format!(
        "In {} of {} intervals the slowest operation took {}, {} usually, and they answered less by about as much time, {} \
         of it in all: as if everything stood still now and then. Intervals of {} are too long to see it; a shorter \
         `load.interval` shows it.",
        hits.len(),
        windows.len(),
        spread_words(&longest),
        words::seconds(usual_s),
        words::percent(lost_share),
        words::seconds(windows[0].length_s()),
    );
    let expected = Some(Estimate::exact(usual_s * 1e3));
    let observed = mean(&longest)? * 1e3;
    let found = evidence(measured, trial, "response_ms.max", observed, expected, text.clone());
    Some(Claim {
        kind: FindingKind::Observation,
        resource: "pause".into(),
        text,
        strength: lost_share,
        evidence: vec![found],
        against: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result;
    use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};
    use model::{DesignKind, Shape, Verdict};

    /// Pauses of `length_s` with `every_s` from one to the next.
    fn regular(length_s: f64, every_s: f64, seconds: f64) -> Vec<(f64, f64)> {
        let count = (seconds / every_s) as usize;
        (0..count).map(|at| 0.37 + at as f64 * every_s).map(|begin| (begin, begin + length_s)).collect()
    }

    fn told(run: &Simulated) -> Option<Finding> {
        result(&single(run)).findings.into_iter().find(|finding| finding.detector == NAME)
    }

    /// A counter that is `during` in the intervals that lie within a pause, and `between` elsewhere.
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

    /// A service whose processors are as busy as said, in pauses and between them.
    fn service(still: &[(f64, f64)], interval_s: f64, seconds: f64, cpus: (f64, f64)) -> Simulated {
        let run = Simulated::pausing((64, 128), 80.0, still, interval_s, seconds)
            .counter("process.threads", "svc", &[129.0])
            .counter("process.lock_wait_threads", "svc", &[1.0])
            .counter("process.accept_wait_threads", "svc", &[64.0])
            .counter("disk.utilization_share", "vda", &[0.01]);
        counter(run, "process.busy_cpus", "svc", still, cpus)
    }

    #[test]
    fn pauses_are_told_with_what_they_cost_and_what_worked_meanwhile() {
        let still = regular(0.25, 1.0, 10.0);
        let collecting = service(&still, 0.05, 10.0, (1.0, 0.06));
        insta::assert_snapshot!(told(&collecting).unwrap().text);
        let waiting = service(&still, 0.05, 10.0, (0.0, 0.06));
        let flushing = counter(waiting.clone(), "disk.utilization_share", "vda", &still, (0.97, 0.02));
        let behind = counter(waiting.clone(), "process.peer_wait_threads", "svc", &still, (60.0, 20.0));
        let stolen = counter(waiting.clone(), "cpu.steal_share", "", &still, (0.9, 0.01));
        let starved = Simulated { generator: (0.1, 0.3), ..waiting.clone() };
        let mut unwatched = waiting.clone();
        unwatched.counters.retain(|(metric, _, _)| !metric.starts_with("process."));
        for (run, ends_with) in [
            (waiting, "it waited, for a lock, a timer or something not watched."),
            (
                flushing,
                "Meanwhile vda was 97 % busy (2.0 % between them): it stood still for the disk, as for a flush or a checkpoint.",
            ),
            (behind, "waited for the answer of another service meanwhile: that one stood still."),
            (stolen, "Neighbours of this virtual machine took 90 % of its processors meanwhile."),
            (starved, "But the load generator waited for a CPU 30 % of the time: the pauses may be its own."),
            (unwatched, "What did so is not shown: watch the service (`watch = [\"process:NAME\"]`)."),
        ] {
            let finding = told(&run).unwrap();
            assert!(finding.text.ends_with(ends_with), "{}", finding.text);
            assert_eq!((finding.kind, finding.evidence.len() >= 10), (FindingKind::Observation, true));
        }
    }

    #[test]
    fn pauses_at_no_fixed_time_are_said_to_be_so() {
        let still = [(0.52, 0.72), (1.13, 1.53), (3.91, 4.11), (4.64, 4.94), (8.22, 8.52)];
        let text = told(&service(&still, 0.05, 10.0, (1.0, 0.06))).unwrap().text;
        assert!(text.starts_with("svc stood still 5 times for 0.2"), "{text}");
        assert!(text.contains(" apart, 1"), "{text}");
    }

    /// Only where more of the time is lost than left, and then what threads wait for is not taken for the reason.
    #[test]
    fn pauses_limit_when_they_take_most_of_the_time() {
        for (length_s, limits) in [(0.65, true), (0.35, false)] {
            let still = regular(length_s, 1.0, 10.0);
            let run = service(&still, 0.05, 10.0, (1.0, 0.06))
                .counter("process.same_lock_wait_threads", "svc", &[64.0 * length_s])
                .counter("process.accept_queue_connections", "svc", &[0.0]);
            let document = result(&single(&run));
            match document.verdict {
                Verdict::Bottleneck { resource, text, .. } => {
                    assert!(limits && resource == "pause of svc", "{resource}: {text}");
                }
                verdict => assert!(!limits, "{verdict:?}"),
            }
        }
        // More users that still get more are told with it.
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
        let text = document.verdict.text();
        assert!(
            text.ends_with("But load.closed from 32 to 64: throughput x1.99, so more load still gives more."),
            "{text}"
        );
        // An open load that is carried all the same is not limited.
        let still = regular(0.65, 1.0, 10.0);
        let mut open = service(&still, 0.05, 10.0, (1.0, 0.06));
        let rate = open.ends.len() as f64 / 10.0;
        open.shape =
            Shape::Open { rate_per_s: model::Profile::Constant(rate), arrivals: model::Process::Poisson };
        assert_eq!(told(&open).unwrap().kind, FindingKind::Observation);
    }

    /// A quota whose periods show as pauses stays the verdict, and a pool is seen through pauses, with samples between or not.
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
            let Verdict::Bottleneck { resource: named, text, .. } = document.verdict else {
                panic!("{resource}")
            };
            assert_eq!(named, resource, "{text}");
        }
    }

    /// What looks alike: users in step, a slow pool, a quota, a few users of which one is slow, one hiccup.
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
            let found = told(&run);
            assert!(found.is_none(), "{name}: {}", found.unwrap().text);
        }
    }

    #[test]
    fn pauses_inside_intervals_are_suspected() {
        let still = regular(0.4, 5.3, 40.0);
        let run = Simulated::pausing((64, 128), 80.0, &still, 1.0, 40.0);
        insta::assert_snapshot!(told(&run).unwrap().text);
        // Slow operations that hold up no others lose no throughput.
        let mut slow = Simulated::pausing((64, 128), 80.0, &[], 1.0, 40.0);
        for at in (0..40).step_by(5) {
            let first = slow.ends.iter().position(|(end, _)| *end > f64::from(at)).unwrap();
            slow.ends[first].1 = 480.0;
        }
        assert_eq!(told(&slow).map(|finding| finding.text), None);
        // A generator that waits for a CPU as long makes the same picture.
        let starved = Simulated { generator: (0.1, 0.08), ..run };
        assert_eq!(told(&starved).map(|finding| finding.text), None);
    }
}
