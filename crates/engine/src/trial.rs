//! Executes one trial: prepares, warms up, measures, cools down, and records each interval.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use model::drain::DrainEnd;
use model::run::ENDED_EARLY;
use model::steady::{Excursion, STEADY_RANGE, STEADY_ROUNDS_MAX, STEADY_SLOPE, differ_by_chance};
use model::{
    Doubt, DoubtKind, Due, Ending, ErrorCount, EventKind, Interval, LatencySummary, Launch, Level, Load,
    Nanos, Phase, PhaseSpan, Run, SECOND, Shape, Times, WarmUp, quantity,
};
use record::OperationIntervals;

use crate::answer_wait::AnswerWait;
use crate::arrivals::MeasuredTime;
use crate::clock::{Clock, unix_ns};
use crate::crew::{Common, Crew, LOOK_UP, Threads, WakeReason, Watch};
use crate::drain::DrainWatch;
use crate::drive::{Book, CompletedLaunch, KindBook};
use crate::lanes::{MachinePart, shares, waits_for_arrivals};
use crate::pace::choose_spinning;
use crate::sampler::{SampleRequest, Sampler, Schedule};
use crate::stream::Stream;
use crate::warm_up::WarmUpRates;
use crate::workload::{Lane, Workload};

/// The interval at which it is checked whether caches are drained.
const DRAIN_LOOK: Nanos = SECOND / 10;

/// Timeout of the operations in flight at the end of the load.
pub(crate) const COOL_DOWN_MAX: Nanos = 30 * SECOND;

/// The shortest measured time of a trial that ends early.
const ENDS_EARLY_AFTER: Nanos = SECOND;

/// How long workers that do not wait any more may take to end.
const ABANDON_MAX: Nanos = 10 * SECOND;

static NEVER: AtomicBool = AtomicBool::new(false);

/// What is said while nothing but the wait for operations in flight goes on.
fn waiting_for(in_flight: u64, is_interrupted: bool) -> String {
    let operations = if in_flight == 1 { "operation" } else { "operations" };
    let again = if is_interrupted { "Ctrl-C again" } else { "Ctrl-C twice" };
    let most_s = COOL_DOWN_MAX / SECOND;
    format!(
        "waiting for {in_flight} {operations} in flight, at most {most_s} s: {again} ends the wait, with the result"
    )
}

/// Limit of a workload's messages that are recorded as events; more would hide other events.
const REMARKS_MAX: usize = 500;

/// Limit of the launches that are recorded individually: the record of many short ones would take too long to
/// read.
const LAUNCHES_MAX: usize = 10_000;

/// The inputs of a trial besides its run.
pub(crate) struct Measurement<'a> {
    pub(crate) workload: &'a dyn Workload,
    /// The machines that drive the load; none if this process does.
    pub(crate) machines: Option<&'a mut dyn Crew>,
    pub(crate) load: &'a Load,
    pub(crate) shape: &'a Shape,
    pub(crate) seed: u64,
    pub(crate) sampler: Sampler,
    pub(crate) sample_every: Nanos,
    pub(crate) stream: &'a Stream<'a>,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) answers: &'a AnswerWait,
    /// How the system under test ended; if it did, the trial ends too.
    pub(crate) target_ended: &'a dyn Fn() -> Option<String>,
    /// Called with true when the measured time begins, and with false when it ends.
    pub(crate) on_measured: &'a dyn Fn(bool),
}

/// Warms up, measures and cools down, and records the run. The workload is already prepared.
pub(crate) fn measure(measurement: Measurement<'_>, run: &mut Run) {
    let Measurement {
        workload,
        machines,
        load,
        shape,
        seed,
        mut sampler,
        sample_every,
        stream,
        interrupted,
        answers,
        target_ended,
        on_measured,
    } = measurement;
    let clock = Clock::get();
    let checkpoint = clock.checkpoint();
    let operations = workload.operations();
    let lanes = workload.lanes(shape);
    let shares = if machines.is_some() { Vec::new() } else { shares(&lanes, seed, MachinePart::WHOLE) };
    let may_spin = spins(load, &lanes, shares.len() as u32, &mut run.facts);
    let spread = spread(load, workload);
    let common = Common::new(shares, lanes, operations.len(), (spread, may_spin), load);
    let request = SampleRequest::default();

    let drain = workload.drain().filter(|_| machines.is_none());
    let drain = drain.map(|wanted| DrainWatch::begin(wanted, &mut sampler, clock));
    let drain = drain.as_ref();
    let are_of_machines = machines.is_some();

    let sampler = std::thread::scope(|scope| {
        let mut threads;
        let crew: &mut dyn Crew = match machines {
            Some(machines) => machines,
            None => {
                threads = Threads::begin(scope, workload, &common);
                &mut threads
            }
        };
        let mut collector = Collector {
            clock,
            load,
            shape,
            derived: operations
                .iter()
                .map(|name| run.traits.derived.iter().any(|derived| derived == name))
                .collect(),
            operations: &operations,
            crew,
            total: Book::new(operations.len()),
            measured: MeasuredTime::new(load.measure.unwrap_or(Nanos::MAX)),
            early: Vec::new(),
            weights: vec![0; operations.len()],
            in_flight: vec![0; operations.len()],
            stream,
            zero: 0,
            begin: 0,
            remarks: 0,
            launches: 0,
            errors: BTreeMap::new(),
            sampler: None,
            target_ended,
            on_measured,
            workload,
            answers,
        };
        if let Err(ending) = collector.crew.wait_until_ready(interrupted) {
            run.ending = ending;
            return None;
        }
        run.started_unix_ns = unix_ns();
        let before = clock.now();
        collector.zero = collector.crew.start();
        collector.begin = collector.zero;
        run.started_unix_ns += collector.zero.saturating_sub(before);
        stream.start(run.started_unix_ns);
        let zero = collector.zero;
        let sampling = std::thread::Builder::new().name("sampler".into()).spawn_scoped(scope, {
            let request = &request;
            move || {
                let seconds = |at: Nanos| (at as f64 - zero as f64) / 1e9;
                let mut keep = |begin, end, readings: &model::Readings| {
                    stream.readings(seconds(begin), seconds(end), readings);
                    if let Some(drain) = drain {
                        drain.see(readings);
                    }
                };
                let mut send = |at, kind, text| stream.event(seconds(at), kind, text);
                let schedule = Schedule { beat: clock.now(), every: sample_every, lead: 0 };
                sampler.run(clock, schedule, request, &mut keep, &mut send);
                sampler
            }
        });
        if let Ok(sampling) = &sampling {
            collector.sampler = Some((&request, sampling.thread().clone()));
        }
        collector.carry_through(run, drain, interrupted);
        request.stop.store(true, Ordering::Relaxed);
        let sampler = match sampling {
            Ok(sampling) => {
                sampling.thread().unpark();
                sampling.join().ok()
            }
            Err(_) => None,
        };
        run.errors = collector.errors.into_values().collect();
        sampler
    });
    if let Some(sampler) = sampler {
        run.sources = sampler.status();
        run.sampler = sampler.cost();
        let limits = sampler.limits();
        if !limits.is_empty() {
            run.facts.insert("sampler.limits".into(), Level::Text(limits.join(" ")));
        }
    }
    if !are_of_machines {
        run.facts.extend(workload.facts());
    }
    run.clock = clock.info(checkpoint);
}

/// The time within which users who come together begin.
pub(crate) fn spread(load: &Load, workload: &dyn Workload) -> Nanos {
    match load.warm_up {
        WarmUp::For(length) => workload.think().min(length),
        WarmUp::Auto => workload.think(),
    }
}

/// Whether the workers may spin, with the reason as a fact.
pub(crate) fn spins(load: &Load, lanes: &[Lane], workers: u32, facts: &mut BTreeMap<String, Level>) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (may_spin, why) = choose_spinning(load.spin, workers, cpus);
    if workers > 0 && lanes.iter().any(waits_for_arrivals) {
        facts.insert("generator.spin".into(), Level::Text(why));
    }
    may_spin
}

/// Takes what the crew did at the end of each interval, and decides when a phase ends.
struct Collector<'a> {
    clock: Clock,
    load: &'a Load,
    shape: &'a Shape,
    operations: &'a [String],
    /// Whether each operation is a part of others, or consists of others.
    derived: Vec<bool>,
    crew: &'a mut dyn Crew,
    total: Book,
    measured: MeasuredTime,
    /// The operations of an interval of the warm-up that were due in the measured phase, by kind: they are of the next one.
    early: Vec<(usize, KindBook)>,
    /// Of the last interval in which something was completed: the completed operations by kind, and their time in service.
    weights: Vec<u64>,
    /// Operations in flight at the end of the last interval.
    in_flight: Vec<u64>,
    stream: &'a Stream<'a>,
    /// The zero of the trial's clock, on the run's clock.
    zero: Nanos,
    /// Start of the current interval.
    begin: Nanos,
    remarks: usize,
    launches: usize,
    errors: BTreeMap<(u16, u32), ErrorCount>,
    /// The sampling thread, which is woken when a phase begins.
    sampler: Option<(&'a SampleRequest, Thread)>,
    target_ended: &'a dyn Fn() -> Option<String>,
    on_measured: &'a dyn Fn(bool),
    workload: &'a dyn Workload,
    answers: &'a AnswerWait,
}

impl Collector<'_> {
    fn seconds(&self, at: Nanos) -> f64 {
        (at as f64 - self.zero as f64) / 1e9
    }

    /// Executes all phases from warm-up to cool-down.
    fn carry_through(&mut self, run: &mut Run, drain: Option<&DrainWatch>, interrupted: &AtomicBool) {
        let mut phase = match self.load.warm_up {
            WarmUp::For(0) => Phase::Measure,
            _ => Phase::WarmUp,
        };
        let mut phase_begin = self.zero;
        // When the automatic warm-up ends, once that is decided.
        let mut warm_up_end = None;
        let mut warm_up = WarmUpRates::new(self.load.warm_up_round);
        self.enter(run, phase, self.zero);
        if phase == Phase::Measure {
            self.begin_measured(self.zero);
        }
        let ending = loop {
            let phase_end = match (phase, self.load.warm_up, self.load.measure) {
                (Phase::WarmUp, WarmUp::For(length), _) => Some(phase_begin + length),
                (Phase::WarmUp, WarmUp::Auto, _) => warm_up_end,
                (Phase::Measure, _, Some(length)) => Some(phase_begin + length),
                _ => None,
            };
            let until = interval_end(self.begin, phase_end, self.load.interval);
            let woke = self.wait(until, interrupted, self.target_ended);
            let (completed, length_s) = self.collect(phase, until);
            let now = self.begin;
            if let Some(drain) = drain {
                drain.look(self.workload);
            }
            match woke {
                WakeReason::Failed(error) => break Ending::Failed(error.in_line()),
                WakeReason::Interrupted => break Ending::Interrupted,
                WakeReason::AllFinished => break Ending::Completed,
                WakeReason::Time | WakeReason::Border if self.stream.failed() => {
                    break Ending::Failed("the record could not be written".into());
                }
                WakeReason::Time | WakeReason::Border => {}
            }
            let ends = if self.load.end_early { self.stream.ends() } else { None };
            match phase {
                Phase::WarmUp => {
                    warm_up.add(completed, length_s);
                    let over = match phase_end {
                        Some(end) => now >= end,
                        // What ends the trial is to be in the measured time.
                        None if ends.is_some() && warm_up_end.is_none() => true,
                        None => self.ends_warm_up(run, &warm_up, now),
                    };
                    if over {
                        let begins = self.begin_measured(now);
                        if begins <= now {
                            (phase, phase_begin) = (Phase::Measure, now);
                            self.enter(run, phase, now);
                        }
                        warm_up_end = Some(begins);
                    }
                }
                _ => {
                    if phase_end.is_some_and(|end| now >= end) {
                        break Ending::Completed;
                    }
                    if let Some(why) = ends.filter(|_| now - phase_begin >= ENDS_EARLY_AFTER) {
                        self.stream.event(self.seconds(now), EventKind::Ended, format!("ended early: {why}"));
                        run.facts.insert(ENDED_EARLY.into(), Level::Text(why));
                        break Ending::Completed;
                    }
                }
            }
        };
        let now = self.begin;
        if phase == Phase::Measure {
            (self.on_measured)(false);
            run.generator = self.crew.measured_use((now - phase_begin) as f64 / 1e9);
        }
        self.crew.stop_issuing(now);
        self.enter(run, Phase::CoolDown, now);
        self.answers.waits.store(true, Ordering::Relaxed);
        self.cool_down(interrupted);
        self.answers.waits.store(false, Ordering::Relaxed);
        if let Some(drain) = drain.filter(|_| ending == Ending::Completed) {
            let end = self.drain(drain, interrupted);
            run.facts.extend(drain.facts(end).to_facts());
        }
        if let Some(span) = run.phases.last_mut() {
            span.end_s = self.seconds(self.begin);
        }
        // With the operations that were in flight at the end.
        self.sample_now();
        // Only now: a trial that is killed while it waits for operations in flight has not ended.
        run.ending = ending;
    }

    /// Whether an automatic warm-up is over: throughput is steady, or all rounds are used up.
    fn ends_warm_up(
        &self,
        run: &mut Run,
        WarmUpRates { rates, counts, .. }: &WarmUpRates,
        now: Nanos,
    ) -> bool {
        let excursion = Excursion::of_last(rates);
        let is_in_range = excursion.is_some_and(Excursion::is_steady);
        let is_steady = is_in_range || differ_by_chance(counts);
        let is_last = now - self.zero >= Nanos::from(STEADY_ROUNDS_MAX) * self.load.warm_up_round;
        if !is_steady && !is_last {
            return false;
        }
        let found = excursion.map_or_else(String::new, |excursion| {
            format!(
                ": range {:.1} % of the mean (limit {:.0} %), slope {:.1} % (limit {:.0} %)",
                excursion.range * 100.0,
                STEADY_RANGE * 100.0,
                excursion.slope * 100.0,
                STEADY_SLOPE * 100.0
            )
        });
        let chance = match is_steady && !is_in_range {
            true => "; so few operations in a round differ as much by chance",
            false => "",
        };
        let rounds = format!("{} rounds of {}", rates.len(), quantity::duration(self.load.warm_up_round));
        let text = match is_steady {
            true => format!("throughput is steady after {rounds}{found}{chance}"),
            false => format!("throughput was not steady after {rounds} of warm-up{found}"),
        };
        self.stream.event(self.seconds(now), EventKind::Steadiness, text.clone());
        if !is_steady {
            let help = "set a longer round with `warm_up_round`, measure longer, or set a warm-up time";
            run.doubts.push(Doubt::new(DoubtKind::Unsteady, text, help));
        }
        true
    }

    /// Begins the measured phase at `now` or soon after it. Returns when.
    fn begin_measured(&mut self, now: Nanos) -> Nanos {
        let begins = self.crew.begin_measured(now);
        if begins <= now {
            self.measured.begin(now);
            (self.on_measured)(true);
        }
        begins
    }

    /// Waits for the operations in flight, until the limit of that wait or until the user wants no more of it.
    fn cool_down(&mut self, interrupted: &AtomicBool) {
        let begin = self.clock.now();
        let mut deadline = begin + COOL_DOWN_MAX;
        let mut is_abandoned = false;
        let mut is_said = false;
        while !self.crew.is_finished() {
            let until = (self.begin + self.load.interval).min(deadline);
            // The end of the target ends nothing here: its connections end, or are waited for.
            let interrupted_by = if is_abandoned { &NEVER } else { &self.answers.ended };
            let woke = self.wait(until, interrupted_by, &|| None);
            self.collect(Phase::CoolDown, until);
            let now = self.clock.now();
            let waited_s = now.saturating_sub(begin) / SECOND;
            let was_abandoned = is_abandoned;
            match woke {
                WakeReason::AllFinished => break,
                _ if is_abandoned && now >= deadline && !self.crew.must_finish() => break,
                _ if is_abandoned && now >= deadline => {
                    let text =
                        "a system call of an operation in flight does not return: its end is waited for";
                    self.stream.note(text);
                    deadline = Nanos::MAX;
                }
                _ if is_abandoned => {}
                WakeReason::Interrupted => {
                    is_abandoned = true;
                    let text = format!("the user ended the wait for operations in flight after {waited_s} s");
                    self.stream.event(self.seconds(now), EventKind::Ended, text);
                }
                _ if now >= deadline => {
                    is_abandoned = true;
                    let text = format!("operations still in flight were abandoned after {waited_s} s");
                    self.stream.event(self.seconds(now), EventKind::Ended, text);
                }
                _ if !is_said && self.in_flight.iter().any(|count| *count > 0) => {
                    is_said = true;
                    let in_flight = self.in_flight.iter().sum();
                    self.stream.note(&waiting_for(in_flight, interrupted.load(Ordering::Relaxed)));
                }
                _ => {}
            }
            if is_abandoned && !was_abandoned {
                self.crew.stop_waiting();
                deadline = now + ABANDON_MAX;
            }
        }
    }

    /// Waits until the caches are drained. The load is over: whatever ends this wait, its record is complete.
    fn drain(&mut self, drain: &DrainWatch, interrupted: &AtomicBool) -> DrainEnd {
        drain.load_ended(self.workload);
        if !drain.is_visible() {
            return DrainEnd::NoCounters;
        }
        let begin = self.clock.now();
        let at_most = drain.wanted.at_most;
        loop {
            let now = self.clock.now();
            let since = now.saturating_sub(begin);
            let end = match () {
                () if drain.is_over() => Some(DrainEnd::Rest),
                () if interrupted.load(Ordering::Relaxed) || self.stream.failed() => {
                    Some(DrainEnd::Interrupted)
                }
                () if since >= at_most => Some(DrainEnd::TimeLimit),
                () => None,
            };
            if end.is_some() || now >= self.begin + self.load.interval {
                self.collect(Phase::CoolDown, now);
                self.stream.draining(since as f64 / 1e9, at_most as f64 / 1e9, drain.last());
            }
            if let Some(end) = end {
                self.sample_now();
                self.stream.event(self.seconds(now), EventKind::Phase, end.sentence());
                return end;
            }
            std::thread::sleep(Duration::from_nanos(DRAIN_LOOK.min(at_most - since)));
            drain.look(self.workload);
        }
    }

    /// Ends the current phase and begins another.
    fn enter(&self, run: &mut Run, phase: Phase, at: Nanos) {
        self.sample_now();
        let at_s = self.seconds(at);
        if let Some(span) = run.phases.last_mut() {
            span.end_s = at_s;
        }
        run.phases.push(PhaseSpan { phase, begin_s: at_s, end_s: at_s });
        let length = match (phase, self.load.warm_up) {
            (Phase::WarmUp, WarmUp::For(length)) => Some(length),
            (Phase::Measure, _) => self.load.measure,
            _ => None,
        };
        self.stream.phase(phase, at_s, length.map(|length| length as f64 / 1e9));
        self.stream.run(run);
    }

    /// Requests a sample of the counters now.
    fn sample_now(&self) {
        if let Some((request, thread)) = &self.sampler {
            request.now.store(true, Ordering::Relaxed);
            thread.unpark();
        }
    }

    /// Waits until the interval that ends at `until` is over, or for an earlier event.
    fn wait(
        &mut self,
        until: Nanos,
        interrupted: &AtomicBool,
        target_ended: &dyn Fn() -> Option<String>,
    ) -> WakeReason {
        let watch = Watch { interrupted, target_ended, look_up: LOOK_UP };
        let shortest = self.load.interval / 10;
        let woke = self.crew.wait(self.begin, until, shortest, &watch);
        if matches!(woke, WakeReason::Border) {
            self.sample_now();
        }
        woke
    }

    /// Takes what was done and publishes the interval. Returns the number of completed operations and the length of the
    /// interval.
    fn collect(&mut self, phase: Phase, until: Nanos) -> (u64, f64) {
        let begin = self.begin;
        let end = self.crew.take(until, &mut self.total).max(begin + 1);
        let length_ns = (end - begin) as f64;
        let at_s = self.seconds(end);
        let measured_share = self.measured.share(end.saturating_sub(1));
        // Parts and wholes of other operations were neither offered nor issued themselves.
        let own = |at: usize, count: u64| if self.derived[at] { 0 } else { count };
        let completed: Vec<u64> =
            self.total.kinds.iter().enumerate().map(|(at, kind)| own(at, kind.completed)).collect();
        for (at, early) in self.early.drain(..) {
            self.total.kinds[at].add(&early);
        }
        // The measured phase begins at its time, and an interval of the warm-up may end somewhat later.
        if phase == Phase::WarmUp {
            let early = self.total.kinds.iter_mut().enumerate().filter_map(|(at, kind)| {
                let early = kind.take_due();
                early.map(|early| (at, early))
            });
            self.early = early.collect();
        }
        let all: Vec<Cow<'_, Times>> = self.total.kinds.iter().map(KindBook::times).collect();
        // What was issued was completed, or is in flight in addition.
        let in_flight: Vec<u64> = self.total.flights.iter().map(|flight| flight.count).collect();
        let began = completed.iter().zip(&in_flight).zip(&self.in_flight);
        let began: Vec<u64> =
            began.map(|((completed, now), before)| (completed + now).saturating_sub(*before)).collect();
        self.in_flight = in_flight;
        // Where nothing is issued, the operations are as many of each kind as they were.
        if began.iter().any(|began| *began > 0) {
            self.weights = began;
        }
        let [offered, issued, held] = [self.total.offered, self.total.issued, self.total.held]
            .map(|count| apportion(count, &self.weights));
        let known = |at: usize, counts: &[u64], kind: &KindBook| match self.derived[at] {
            true => kind.completed,
            false => counts[at],
        };
        let rows: Vec<Interval> = self
            .total
            .kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| Interval {
                begin_s: self.seconds(begin),
                end_s: at_s,
                phase,
                load: self.shape.profile().at(measured_share),
                operation: self.operations[at].clone(),
                offered: Some(known(at, &offered, kind)),
                issued: Some(known(at, &issued, kind)),
                completed: kind.completed,
                late: Some(kind.late),
                failed: kind.failed,
                bytes: kind.bytes,
                concurrency: self.total.flights[at].time_ns as f64 / length_ns,
                response: LatencySummary::of(&all[at].response),
                service: LatencySummary::of(&all[at].service),
                due: Some(Due {
                    ended: kind.due.response.len(),
                    failed: kind.due_failed,
                    censored: kind.censored.as_ref().map_or(0, |censored| censored.response.len()),
                    unsent: own(at, kind.unsent),
                    held: own(at, held[at]),
                    in_flight_s: self.total.flights[at].age_ns as f64 / 1e9,
                }),
            })
            .collect();
        let histograms: Vec<OperationIntervals<'_>> = self
            .total
            .kinds
            .iter()
            .zip(self.operations)
            .zip(&all)
            .map(|((kind, operation), all)| {
                let Times { response, service, lag } = if phase == Phase::WarmUp { all } else { &kind.due };
                OperationIntervals { operation, response, service, lag, censored: kind.censored.as_deref() }
            })
            .collect();
        self.stream.interval(&rows, &self.derived, &histograms);
        for (kind, code, count) in std::mem::take(&mut self.total.failures) {
            let operation = self.operations.get(usize::from(kind)).cloned().unwrap_or_default();
            match self.errors.get_mut(&(kind, code)) {
                Some(known) => known.count += count,
                None => {
                    let (text, kind_of_doubt) = self.crew.describe_failure(kind, code);
                    self.stream.event(at_s, EventKind::Error, format!("first failed {operation}: {text}"));
                    self.errors
                        .insert((kind, code), ErrorCount { operation, text, count, kind: kind_of_doubt });
                }
            }
        }
        for remark in std::mem::take(&mut self.total.remarks) {
            self.remarks += 1;
            if self.remarks <= REMARKS_MAX {
                self.stream.event(at_s, EventKind::Workload, remark);
            } else if self.remarks == REMARKS_MAX + 1 {
                self.stream.event(at_s, EventKind::Workload, "further remarks are not shown");
            }
        }
        let mut launches = std::mem::take(&mut self.total.launches);
        launches.sort_by_key(|launch| launch.at);
        for CompletedLaunch { kind, at, time, failed, usage } in launches {
            self.launches += 1;
            if self.launches <= LAUNCHES_MAX {
                let operation = self.operations.get(usize::from(kind)).cloned().unwrap_or_default();
                let launch = Launch { operation, time, failed, usage };
                self.stream.keep_event(&launch.event(self.seconds(at)));
            } else if self.launches == LAUNCHES_MAX + 1 {
                let text = format!("only the first {LAUNCHES_MAX} launches are recorded individually");
                self.stream.event(at_s, EventKind::Workload, text);
            }
        }
        self.total.reset();
        self.begin = end;
        (completed.iter().sum(), length_ns / 1e9)
    }
}

/// The end of the interval that begins at `begin`: a short remainder is added to the last interval of a phase.
pub(crate) fn interval_end(begin: Nanos, phase_end: Option<Nanos>, interval: Nanos) -> Nanos {
    let end = begin + interval;
    phase_end.filter(|phase_end| *phase_end <= end + interval / 4).unwrap_or(end)
}

/// Divides a count in proportion to the weights, with an exact sum (largest remainders). The operation of an
/// arrival is known only when it is done. So the offered and issued counts are exact in total, and divided
/// between the operations of a mix.
fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u64 = weights.iter().sum();
    if sum == 0 {
        let mut parts = vec![0; weights.len()];
        if let Some(first) = parts.first_mut() {
            *first = total;
        }
        return parts;
    }
    let share = |weight: u64| u128::from(total) * u128::from(weight);
    let mut parts: Vec<u64> =
        weights.iter().map(|weight| (share(*weight) / u128::from(sum)) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(share(weights[*at]) % u128::from(sum)));
    let rest = total - parts.iter().sum::<u64>();
    for at in order.into_iter().cycle().take(rest as usize) {
        parts[at] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn parts_sum_to_the_whole(total in 0u64..1_000_000, weights in proptest::collection::vec(0u64..1000, 1..6)) {
            let parts = apportion(total, &weights);
            proptest::prop_assert_eq!(parts.iter().sum::<u64>(), total);
        }
    }

    #[test]
    fn parts_follow_the_weights() {
        assert_eq!(apportion(100, &[70, 30]), [70, 30]);
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(5, &[0, 0]), [5, 0]);
    }
}
