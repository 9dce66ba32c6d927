//! The part of a load that this process drives for a coordinator on another machine.

use std::sync::atomic::{AtomicBool, Ordering};

use model::run::{ClockInfo, GeneratorUse, SamplerCost};
use model::{Load, MILLISECOND, Nanos, Phase, Readings, SourceStatus, WarmUp};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::crew::{Common, Crew, Threads, WakeReason, Watch};
use crate::drive::Book;
use crate::lanes::{MachinePart, shares};
use crate::sampler::{SampleRequest, Sampler, Schedule};
use crate::trial::{COOL_DOWN_MAX, interval_end, spins, spread};
use crate::workload::{LoadError, Workload};

/// How long before the end of a window of the coordinator one of this host ends.
const SAMPLE_LEAD: Nanos = 100 * MILLISECOND;

/// The inputs of a part of a trial.
pub struct Part<'a> {
    /// The workload, which is prepared.
    pub workload: &'a dyn Workload,
    /// The load of all machines.
    pub load: &'a Load,
    /// Its shape, with the default of the workload filled in.
    pub shape: &'a model::Shape,
    /// The seed of the trial.
    pub seed: u64,
    /// Which part.
    pub part: MachinePart,
    /// The counters of this host.
    pub sampler: Sampler,
    /// How often they are read.
    pub sample_every: Nanos,
}

/// What was done in one interval.
#[derive(Debug)]
pub struct PartInterval<'a> {
    /// The phase.
    pub phase: Phase,
    /// When the interval ends, after the start of the load. Those of all machines end at the same times.
    pub end: Nanos,
    /// What was done.
    pub book: &'a mut Book,
}

/// The coordinator. All times are on the run's clock of this process.
pub trait Coordinator: Sync {
    /// Everything is ready. Waits for the start.
    ///
    /// # Errors
    /// When the trial does not take place.
    fn ready(&self) -> Result<Nanos, LoadError>;

    /// When the measured phase begins; none while that is not decided. At first only asked for an automatic warm-up.
    fn measured_from(&self) -> Option<Nanos>;

    /// Whether the load ends now, before its time.
    fn stops(&self) -> bool;

    /// Whether operations in flight are abandoned.
    fn abandons(&self) -> bool;

    /// `wake` is to be called when one of these answers has changed.
    fn wake_on_change(&self, wake: Box<dyn Fn() + Send + Sync>);

    /// An interval ended.
    fn interval(&self, interval: PartInterval<'_>);

    /// The counters of this host were read: the end of their window.
    fn readings(&self, end: Nanos, readings: &Readings);

    /// Something to be recorded.
    fn event(&self, text: String);
}

/// How a part of a trial ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartEnd {
    /// Why the load could not go on.
    pub failed: Option<LoadError>,
    /// The cost of driving the load in the measured phase; none if it did not begin.
    pub generator: Option<GeneratorUse>,
    /// The cost of reading the counters.
    pub sampler: SamplerCost,
    /// The sources of counters.
    pub sources: Vec<SourceStatus>,
    /// The clock.
    pub clock: ClockInfo,
    /// The latest that an interval was taken after its end, in the measured phase.
    pub late: Nanos,
    /// The largest delay of the first operation of a thread.
    pub start_late: Nanos,
    /// Facts about the load.
    pub facts: std::collections::BTreeMap<String, model::Level>,
}

/// Drives one part of a load. Intervals, phases and the end are at times that the start and the load determine, so that
/// they are the same on all machines; the coordinator decides only the end of an automatic warm-up.
pub fn drive_part(part: Part<'_>, coordinator: &dyn Coordinator) -> PartEnd {
    let Part { workload, load, shape, seed, part, sampler, sample_every } = part;
    let clock = Clock::get();
    let checkpoint = clock.checkpoint();
    let mut end = PartEnd::default();
    let lanes = workload.lanes(shape);
    let shares = shares(&lanes, seed, part);
    let may_spin = spins(load, &lanes, shares.len() as u32, &mut end.facts);
    let operations = workload.operations().len();
    let common = Common::new(shares, lanes, operations, (spread(load, workload), may_spin), load);
    let request = SampleRequest::default();
    let sampler = std::thread::scope(|scope| {
        let mut threads = Threads::begin(scope, workload, &common);
        let never = AtomicBool::new(false);
        if let Err(ending) = threads.wait_until_ready(&never) {
            end.failed = Some(LoadError::new(ending.to_string(), ""));
            return None;
        }
        let zero = match coordinator.ready() {
            Ok(zero) => zero,
            Err(error) => {
                end.failed = Some(error);
                return None;
            }
        };
        threads.start_at(zero);
        let sampling = std::thread::Builder::new().name("sampler".into()).spawn_scoped(scope, {
            let request = &request;
            move || sample(sampler, zero, sample_every, request, coordinator)
        });
        let wake = || {
            request.now.store(true, Ordering::Relaxed);
            if let Ok(sampling) = &sampling {
                sampling.thread().unpark();
            }
        };
        drive(&mut threads, load, zero, operations, coordinator, &wake, &mut end);
        end.start_late = threads.start_late();
        request.stop.store(true, Ordering::Relaxed);
        let sampling = sampling.ok()?;
        sampling.thread().unpark();
        sampling.join().ok()
    });
    if let Some(sampler) = sampler {
        end.sources = sampler.status();
        end.sampler = sampler.cost();
    }
    end.facts.extend(workload.facts());
    end.clock = clock.info(checkpoint);
    end
}

/// Reads the counters of this host, from the start of a trial until it is stopped.
pub fn watch_part(sampler: Sampler, sample_every: Nanos, coordinator: &dyn Coordinator) -> PartEnd {
    let clock = Clock::get();
    let checkpoint = clock.checkpoint();
    let mut end = PartEnd::default();
    let zero = match coordinator.ready() {
        Ok(zero) => zero,
        Err(error) => {
            end.failed = Some(error);
            return end;
        }
    };
    let request = SampleRequest::default();
    let sampler = std::thread::scope(|scope| {
        let request = &request;
        let sampling = scope.spawn(move || sample(sampler, zero, sample_every, request, coordinator));
        let this = std::thread::current();
        coordinator.wake_on_change(Box::new(move || this.unpark()));
        while !coordinator.stops() {
            std::thread::park();
        }
        request.stop.store(true, Ordering::Relaxed);
        sampling.thread().unpark();
        sampling.join().ok()
    });
    if let Some(sampler) = sampler {
        end.sources = sampler.status();
        end.sampler = sampler.cost();
    }
    end.clock = clock.info(checkpoint);
    end
}

/// Reads the counters until that is stopped. The windows end somewhat before those of the coordinator, so that the values are there
/// when it records its own, and not only for its next sample.
fn sample(
    mut sampler: Sampler,
    zero: Nanos,
    every: Nanos,
    request: &SampleRequest,
    coordinator: &dyn Coordinator,
) -> Sampler {
    let clock = Clock::get();
    let lead = (every / 4).min(SAMPLE_LEAD);
    // The first one is taken now, so that it is done when the load begins.
    let schedule = Schedule { beat: zero.saturating_sub(lead), every, lead };
    let mut keep = |_, end, readings: &Readings| coordinator.readings(end, readings);
    let mut tell = |_, _, text| coordinator.event(text);
    sampler.run(clock, schedule, request, &mut keep, &mut tell);
    sampler
}

/// From the start of the load to its end.
fn drive(
    threads: &mut Threads<'_>,
    load: &Load,
    zero: Nanos,
    operations: usize,
    coordinator: &dyn Coordinator,
    wake_sampler: &dyn Fn(),
    ended: &mut PartEnd,
) {
    let clock = Clock::get();
    let mut book = Book::new(operations);
    let mut phase = Phase::WarmUp;
    let mut measured_from = match load.warm_up {
        WarmUp::For(length) => Some(zero + length),
        WarmUp::Auto => None,
    };
    let mut begin = zero;
    let mut deadline = Nanos::MAX;
    let never = AtomicBool::new(false);
    let watch = Watch { interrupted: &never, target_ended: &|| None, look_up: Nanos::MAX };
    let waker = threads.waker();
    coordinator.wake_on_change(Box::new(move || waker.wake()));
    // It may have changed before that.
    threads.waker().wake();
    loop {
        if phase == Phase::WarmUp && measured_from == Some(begin) {
            phase = Phase::Measure;
            threads.measure_from(begin);
            wake_sampler();
        }
        let phase_end = phase_end(phase, measured_from, load);
        let until = interval_end(begin, phase_end, load.interval);
        let wait_end = if clock.now() < deadline { until.min(deadline) } else { until };
        let woke = threads.wait(begin, wait_end, Nanos::MAX, &watch);
        let now = clock.now();
        if phase != Phase::CoolDown && coordinator.stops() {
            end_measured(threads, phase, (measured_from, now), ended);
            threads.stop_issuing(now);
            (phase, deadline) = (Phase::CoolDown, now + COOL_DOWN_MAX);
        }
        if measured_from.is_none() {
            // Never in the past: it is announced in time, and the next end of an interval is taken otherwise.
            measured_from = coordinator.measured_from().map(|from| from.max(begin));
        }
        if now > deadline || coordinator.abandons() {
            threads.stop_waiting();
        }
        let is_over = now >= until;
        let is_finished = matches!(woke, WakeReason::AllFinished | WakeReason::Failed(_));
        if !is_over && !is_finished {
            continue;
        }
        let taken = threads.take(until, &mut book);
        let end = if is_over { until } else { taken };
        let late = taken.saturating_sub(end);
        if phase == Phase::Measure {
            ended.late = ended.late.max(late);
        }
        coordinator.interval(PartInterval { phase, end, book: &mut book });
        book.reset();
        let is_measured = phase == Phase::Measure && phase_end == Some(end);
        if is_measured || is_finished {
            end_measured(threads, phase, (measured_from, end), ended);
        }
        if is_measured {
            threads.stop_issuing(end);
            wake_sampler();
            (phase, deadline) = (Phase::CoolDown, now + COOL_DOWN_MAX);
        }
        begin = end;
        if let WakeReason::Failed(error) = woke {
            ended.failed = Some(error);
            return;
        }
        if is_finished {
            return;
        }
    }
}

/// When a phase ends, as far as that is known.
fn phase_end(phase: Phase, measured_from: Option<Nanos>, load: &Load) -> Option<Nanos> {
    match phase {
        Phase::WarmUp => measured_from,
        Phase::Measure => measured_from.zip(load.measure).map(|(from, length)| from + length),
        _ => None,
    }
}

/// The measured phase ends, if it is one.
fn end_measured(
    threads: &mut Threads<'_>,
    phase: Phase,
    (from, to): (Option<Nanos>, Nanos),
    end: &mut PartEnd,
) {
    if let (Phase::Measure, Some(from), None) = (phase, from, &end.generator) {
        end.generator = Some(threads.measured_use(to.saturating_sub(from) as f64 / 1e9));
    }
}
