//! Executes one trial: prepares, warms up, measures, cools down, and records each interval.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Thread;
use std::time::Duration;

use model::drain::DrainEnd;
use model::steady::{Excursion, STEADY_RANGE, STEADY_ROUNDS_MAX, STEADY_SLOPE};
use model::{
    Doubt, DoubtKind, Ending, ErrorCount, EventKind, Interval, LatencySummary, Launch, Level, Load,
    MILLISECOND, Nanos, Phase, PhaseSpan, Run, SECOND, Shape, WarmUp, quantity,
};
use record::OperationIntervals;

use crate::arrivals::{Arrivals, MeasuredTime};
use crate::border::Bordered;
use crate::clock::{Clock, unix_ns};
use crate::cost::Costs;
use crate::drain::DrainWatch;
use crate::drive::{Book, CompletedLaunch, KindBook, Numbers, Stop, drive, lock};
use crate::lanes::{shares, waits_for_arrivals};
use crate::pace::{Pace, choose_spinning};
use crate::sampler::{SampleRequest, Sampler, WINDOW_MIN};
use crate::stream::Stream;
use crate::threads::{ThreadUse, ask_for_short_turns, current_thread, leave_shared_descriptors, thread_use};
use crate::workload::{Lane, LoadError, Share, Workload};

/// Timeout of the operations in flight at the end of the load.
const COOL_DOWN_MAX: Nanos = 30 * SECOND;

/// The interval at which the waiting collector checks for an interrupt.
const LOOK_UP: Nanos = 100 * MILLISECOND;

/// Limit of a workload's messages that are recorded as events; more would hide other events.
const REMARKS_MAX: usize = 500;

/// Limit of the launches that are recorded individually: the record of many short ones would take too long to
/// read.
const LAUNCHES_MAX: usize = 10_000;

/// The inputs of a trial besides its run.
pub(crate) struct Measurement<'a> {
    pub(crate) workload: &'a dyn Workload,
    pub(crate) load: &'a Load,
    pub(crate) shape: &'a Shape,
    pub(crate) seed: u64,
    pub(crate) sampler: Sampler,
    pub(crate) sample_every: Nanos,
    pub(crate) stream: &'a Stream<'a>,
    pub(crate) interrupted: &'a AtomicBool,
    /// How the system under test ended; if it did, the trial ends too.
    pub(crate) target_ended: &'a dyn Fn() -> Option<String>,
    /// Called with true when the measured time begins, and with false when it ends.
    pub(crate) on_measured: &'a dyn Fn(bool),
}

/// Messages of the worker threads to the collector.
enum WorkerMessage {
    /// The worker of this thread is created.
    Ready(u32),
    /// A step of consecutive operations ended or begins.
    Border,
    /// A thread is about to end.
    Finished { thread: u32, used: Option<ThreadUse>, outcome: Result<(), LoadError> },
}

/// Warms up, measures and cools down, and records the run. The workload is already prepared.
pub(crate) fn measure(measurement: Measurement<'_>, run: &mut Run) {
    let Measurement {
        workload,
        load,
        shape,
        seed,
        mut sampler,
        sample_every,
        stream,
        interrupted,
        target_ended,
        on_measured,
    } = measurement;
    let clock = Clock::get();
    let checkpoint = clock.checkpoint();
    let lanes = workload.lanes(shape);
    let shares = shares(&lanes, seed);
    let workers = shares.len() as u32;
    let operations = workload.operations();
    let measured = MeasuredTime::new(load.measure.unwrap_or(Nanos::MAX));
    let spread = match load.warm_up {
        WarmUp::For(length) => workload.think().min(length),
        WarmUp::Auto => workload.think(),
    };
    let stop = Stop::default();
    let books: Vec<Mutex<Book>> =
        (0..workers).map(|_| Mutex::new(Book::new(operations.len(), clock.now()))).collect();
    let request = SampleRequest::default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (may_spin, why) = choose_spinning(load.spin, workers, cpus);
    if lanes.iter().any(waits_for_arrivals) {
        run.facts.insert("generator.spin".into(), Level::Text(why));
    }

    let drain = workload.drain().map(|wanted| DrainWatch::begin(wanted, &mut sampler, clock));
    let drain = drain.as_ref();

    let sampler = std::thread::scope(|scope| {
        let (send, messages) = channel::<WorkerMessage>();
        let mut go: Vec<Sender<Nanos>> = Vec::new();
        for (index, (share, book)) in shares.iter().zip(&books).enumerate() {
            let (start, started) = channel::<Nanos>();
            go.push(start);
            let send = send.clone();
            let (stop, measured) = (&stop, &measured);
            let lane = &lanes[share.lane as usize];
            let spins = may_spin && waits_for_arrivals(lane);
            let report_failure = send.clone();
            let body = move || {
                let outcome = work(
                    workload,
                    share,
                    (lane, spread),
                    measured,
                    stop,
                    book,
                    (clock, spins),
                    &send,
                    &started,
                );
                let thread = current_thread();
                // The collector no longer receives only when it does not need the message.
                let _ = send.send(WorkerMessage::Finished { thread, used: thread_use(thread), outcome });
            };
            let spawned = std::thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, body);
            if let Err(error) = spawned {
                let what = format!("worker thread {index} of {workers} could not be started: {error}");
                let outcome = Err(LoadError::new(what, "use fewer threads"));
                let _ = report_failure.send(WorkerMessage::Finished { thread: 0, used: None, outcome });
            }
        }
        drop(send);

        let mut collector = Collector {
            clock,
            load,
            shape,
            derived: operations
                .iter()
                .map(|name| run.traits.derived.iter().any(|derived| derived == name))
                .collect(),
            operations: &operations,
            books: &books,
            spun_ns: 0,
            spare: (0..workers).map(|_| Book::new(operations.len(), 0)).collect(),
            total: vec![KindBook::default(); operations.len()],
            measured: &measured,
            stop: &stop,
            stream,
            zero: 0,
            begin: 0,
            remarks: 0,
            launches: 0,
            errors: BTreeMap::new(),
            last_uses: HashMap::new(),
            sampler: None,
            target_ended,
            on_measured,
            workload,
        };
        let threads = match collector.wait_until_ready(&messages, workers, interrupted) {
            Ok(threads) => threads,
            Err(ending) => {
                run.ending = ending;
                stop.issuing.store(true, Ordering::Relaxed);
                drop(go);
                return None;
            }
        };
        collector.zero = clock.now();
        collector.begin = collector.zero;
        run.started_unix_ns = unix_ns();
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
                sampler.run(clock, sample_every, request, &mut keep, &mut send);
                sampler
            }
        });
        for start in &go {
            let _ = start.send(collector.zero);
        }
        if let Ok(sampling) = &sampling {
            collector.sampler = Some((&request, sampling.thread().clone()));
        }
        collector.carry_through(run, &messages, &threads, drain, interrupted);
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
    run.facts.extend(workload.facts());
    run.clock = clock.info(checkpoint);
}

/// The main function of a worker thread.
#[allow(clippy::too_many_arguments, reason = "one call site; a struct would only repeat the names")]
fn work(
    workload: &dyn Workload,
    share: &Share,
    (lane, spread): (&Lane, Nanos),
    measured: &MeasuredTime,
    stop: &Stop,
    book: &Mutex<Book>,
    (clock, spins): (Clock, bool),
    send: &Sender<WorkerMessage>,
    started: &Receiver<Nanos>,
) -> Result<(), LoadError> {
    if workload.has_own_descriptors() {
        leave_shared_descriptors();
    }
    let mut worker = workload.worker(share)?;
    if workload.operations_in_turn() {
        let send = send.clone();
        worker = Box::new(Bordered::new(worker, move || {
            // The collector no longer receives only when it does not need the message.
            let _ = send.send(WorkerMessage::Border);
        }));
    }
    // Otherwise the kernel may round every timed wait up by 50 us, which would show as lag.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if spins {
        ask_for_short_turns();
    }
    let _ = send.send(WorkerMessage::Ready(current_thread()));
    // Without a start signal, another worker could not be created.
    let Ok(zero) = started.recv() else { return Ok(()) };
    let begin = zero.saturating_add(lane.delay);
    // The Poisson arrivals of two lanes must differ.
    let seed = share.seed ^ u64::from(share.lane) << 32;
    let mut arrivals =
        Arrivals::new(&lane.shape, share.index, share.of, seed, begin, measured).spread_over(spread);
    lock(book).counted_to = zero;
    let numbers = Numbers { first: u64::from(share.index), step: u64::from(share.of) };
    let mut pace = Pace::new(&clock, spins);
    drive(&mut *worker, &mut arrivals, &mut pace, stop, book, numbers, share.in_flight_max)
}

/// Takes the books of all workers at the end of each interval, and decides when a phase ends.
struct Collector<'a> {
    clock: Clock,
    load: &'a Load,
    shape: &'a Shape,
    operations: &'a [String],
    /// Whether each operation is a part of others, or consists of others.
    derived: Vec<bool>,
    books: &'a [Mutex<Book>],
    spare: Vec<Book>,
    /// CPU time that the workers spent spinning so far.
    spun_ns: u64,
    total: Vec<KindBook>,
    measured: &'a MeasuredTime,
    stop: &'a Stop,
    stream: &'a Stream<'a>,
    /// The zero of the trial's clock, on the run's clock.
    zero: Nanos,
    /// Start of the current interval.
    begin: Nanos,
    remarks: usize,
    launches: usize,
    errors: BTreeMap<(u16, u32), ErrorCount>,
    /// The final resource use of threads that ended.
    last_uses: HashMap<u32, ThreadUse>,
    /// The sampling thread, which is woken when a phase begins.
    sampler: Option<(&'a SampleRequest, Thread)>,
    target_ended: &'a dyn Fn() -> Option<String>,
    on_measured: &'a dyn Fn(bool),
    workload: &'a dyn Workload,
}

/// Why the wait for the end of an interval ended.
enum WakeReason {
    Time,
    AllFinished,
    Failed(LoadError),
    Interrupted,
}

impl Collector<'_> {
    fn seconds(&self, at: Nanos) -> f64 {
        (at as f64 - self.zero as f64) / 1e9
    }

    /// Waits until every worker is created; returns their thread ids, or how the trial ended.
    fn wait_until_ready(
        &mut self,
        messages: &Receiver<WorkerMessage>,
        workers: u32,
        interrupted: &AtomicBool,
    ) -> Result<Vec<u32>, Ending> {
        let mut threads = Vec::new();
        while threads.len() < workers as usize {
            match messages.recv_timeout(Duration::from_nanos(LOOK_UP)) {
                Ok(WorkerMessage::Ready(thread)) => threads.push(thread),
                Ok(WorkerMessage::Finished { outcome: Err(error), .. }) => {
                    return Err(Ending::Failed(error.in_line()));
                }
                Ok(WorkerMessage::Finished { .. }) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Ending::Failed("a worker thread ended before the load began".into()));
                }
                // No worker has started yet.
                Ok(WorkerMessage::Border) => {}
                Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                    return Err(Ending::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(threads)
    }

    /// Executes all phases from warm-up to cool-down.
    fn carry_through(
        &mut self,
        run: &mut Run,
        messages: &Receiver<WorkerMessage>,
        threads: &[u32],
        drain: Option<&DrainWatch>,
        interrupted: &AtomicBool,
    ) {
        let mut running = threads.len();
        let mut phase = match self.load.warm_up {
            WarmUp::For(0) => Phase::Measure,
            _ => Phase::WarmUp,
        };
        let mut before = Costs::default();
        let mut warm_up = crate::warm_up::WarmUpRates::new(self.load.warm_up_round);
        self.enter(run, phase, self.zero);
        if phase == Phase::Measure {
            self.measured.begin(self.zero);
            (self.on_measured)(true);
            before = Costs::now(threads, &self.last_uses, self.spun_ns);
        }
        run.ending = loop {
            let phase_begin = self.zero + (run.phases.last().map_or(0.0, |span| span.begin_s) * 1e9) as Nanos;
            let phase_end = match (phase, self.load.warm_up, self.load.measure) {
                (Phase::WarmUp, WarmUp::For(length), _) => Some(phase_begin + length),
                (Phase::Measure, _, Some(length)) => Some(phase_begin + length),
                _ => None,
            };
            let interval_end = self.begin + self.load.interval;
            // A short remainder is added to the last interval of a phase.
            let until = match phase_end {
                Some(end) if end <= interval_end + self.load.interval / 4 => end,
                _ => interval_end,
            };
            let woke = self.wait(until, messages, &mut running, interrupted);
            let now = self.clock.now();
            let (completed, length_s) = self.collect(phase, now);
            if let Some(drain) = drain {
                drain.look(self.workload);
            }
            match woke {
                WakeReason::Failed(error) => break Ending::Failed(error.in_line()),
                WakeReason::Interrupted => break Ending::Interrupted,
                WakeReason::AllFinished => break Ending::Completed,
                WakeReason::Time if self.stream.failed() => {
                    break Ending::Failed("the record could not be written".into());
                }
                WakeReason::Time => {}
            }
            match phase {
                Phase::WarmUp => {
                    warm_up.add(completed, length_s);
                    let over = match self.load.warm_up {
                        WarmUp::For(_) => phase_end.is_some_and(|end| now >= end),
                        WarmUp::Auto => self.ends_warm_up(run, &warm_up.rates, now),
                    };
                    if over {
                        phase = Phase::Measure;
                        self.measured.begin(now);
                        (self.on_measured)(true);
                        before = Costs::now(threads, &self.last_uses, self.spun_ns);
                        self.enter(run, phase, now);
                    }
                }
                _ => {
                    if phase_end.is_some_and(|end| now >= end) {
                        break Ending::Completed;
                    }
                }
            }
        };
        let now = self.begin;
        if phase == Phase::Measure {
            (self.on_measured)(false);
            let begin_s = run.phases.last().map_or(0.0, |span| span.begin_s);
            run.generator = Costs::now(threads, &self.last_uses, self.spun_ns)
                .since(&before, self.seconds(now) - begin_s);
        }
        self.stop.issuing.store(true, Ordering::Relaxed);
        self.enter(run, Phase::CoolDown, now);
        self.cool_down(messages, &mut running);
        if let Some(drain) = drain.filter(|_| run.ending == Ending::Completed) {
            let end = self.drain(drain, interrupted);
            run.facts.extend(drain.facts(end).to_facts());
        }
        if let Some(span) = run.phases.last_mut() {
            span.end_s = self.seconds(self.begin);
        }
        // With the operations that were in flight at the end.
        self.sample_now();
    }

    /// Whether an automatic warm-up is over: throughput is steady, or all rounds are used up.
    fn ends_warm_up(&self, run: &mut Run, rates: &[f64], now: Nanos) -> bool {
        let excursion = Excursion::of_last(rates);
        let is_steady = excursion.is_some_and(Excursion::is_steady);
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
        let rounds = format!("{} rounds of {}", rates.len(), quantity::duration(self.load.warm_up_round));
        let text = match is_steady {
            true => format!("throughput is steady after {rounds}{found}"),
            false => format!("throughput was not steady after {rounds} of warm-up{found}"),
        };
        self.stream.event(self.seconds(now), EventKind::Steadiness, text.clone());
        if !is_steady {
            let help = "set a longer round with `warm_up_round`, measure longer, or set a warm-up time";
            run.doubts.push(Doubt::new(DoubtKind::Unsteady, text, help));
        }
        true
    }

    fn cool_down(&mut self, messages: &Receiver<WorkerMessage>, running: &mut usize) {
        let deadline = self.clock.now() + COOL_DOWN_MAX;
        let never = AtomicBool::new(false);
        while *running > 0 {
            let until = (self.begin + self.load.interval).min(deadline);
            let woke = self.wait(until, messages, running, &never);
            let now = self.clock.now();
            self.collect(Phase::CoolDown, now);
            if now >= deadline {
                self.stop.waiting.store(true, Ordering::Relaxed);
                let text =
                    format!("operations still in flight were abandoned after {} s", COOL_DOWN_MAX / SECOND);
                self.stream.event(self.seconds(now), EventKind::Ended, text);
                break;
            }
            if matches!(woke, WakeReason::AllFinished) {
                break;
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
            std::thread::sleep(Duration::from_nanos(LOOK_UP.min(at_most - since)));
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

    /// Waits until a time, or for an earlier event.
    fn wait(
        &mut self,
        until: Nanos,
        messages: &Receiver<WorkerMessage>,
        running: &mut usize,
        interrupted: &AtomicBool,
    ) -> WakeReason {
        loop {
            if *running == 0 {
                return WakeReason::AllFinished;
            }
            if interrupted.load(Ordering::Relaxed) {
                return WakeReason::Interrupted;
            }
            if let Some(why) = (self.target_ended)() {
                return WakeReason::Failed(LoadError::new(why, ""));
            }
            let now = self.clock.now();
            if now >= until {
                return WakeReason::Time;
            }
            match messages.recv_timeout(Duration::from_nanos((until - now).min(LOOK_UP))) {
                Ok(WorkerMessage::Finished { thread, used, outcome }) => {
                    *running -= 1;
                    self.last_uses.extend(used.map(|used| (thread, used)));
                    if let Err(error) = outcome {
                        return WakeReason::Failed(error);
                    }
                }
                // An interval lasts at least a tenth of the configured length; otherwise short steps would
                // fill the record of a long trial.
                Ok(WorkerMessage::Border) => {
                    let shortest = (self.load.interval / 10).max(WINDOW_MIN);
                    if self.clock.now() - self.begin >= shortest {
                        self.sample_now();
                        return WakeReason::Time;
                    }
                }
                Ok(WorkerMessage::Ready(_)) | Err(RecvTimeoutError::Timeout) => {}
                // All senders are gone although not every worker reported: one panicked.
                Err(RecvTimeoutError::Disconnected) => {
                    *running = 0;
                    return WakeReason::Failed(LoadError::new(
                        "a worker thread ended without an error message",
                        "please report this",
                    ));
                }
            }
        }
    }

    /// Takes every book and publishes the interval. Returns the number of completed operations and the length
    /// of the interval.
    fn collect(&mut self, phase: Phase, now: Nanos) -> (u64, f64) {
        let (begin, end) = (self.begin, now.max(self.begin + 1));
        let length_ns = (end - begin) as f64;
        let (mut offered, mut issued, mut in_flight_ns) = (0, 0, 0);
        let (mut failures, mut remarks, mut launches) = (Vec::new(), Vec::new(), Vec::new());
        for (book, spare) in self.books.iter().zip(&mut self.spare) {
            {
                let mut book = lock(book);
                book.count_to(end);
                (spare.in_flight, spare.counted_to) = (book.in_flight, book.counted_to);
                std::mem::swap(&mut *book, spare);
            }
            offered += spare.offered;
            issued += spare.issued;
            in_flight_ns += spare.in_flight_ns;
            self.spun_ns += spare.spun_ns;
            for (total, kind) in self.total.iter_mut().zip(&spare.kinds) {
                total.add(kind);
            }
            failures.append(&mut spare.failures);
            remarks.append(&mut spare.remarks);
            launches.append(&mut spare.launches);
            spare.reset();
        }
        let at_s = self.seconds(end);
        let share = self.measured.share(end.saturating_sub(1));
        // Parts and wholes of other operations were neither offered nor issued themselves.
        let own = |at: usize, count: u64| if self.derived[at] { 0 } else { count };
        let completed: Vec<u64> =
            self.total.iter().enumerate().map(|(at, kind)| own(at, kind.completed)).collect();
        let busy: Vec<f64> = self
            .total
            .iter()
            .zip(&completed)
            .map(|(kind, completed)| kind.service.mean() * *completed as f64)
            .collect();
        let busy_sum: f64 = busy.iter().sum();
        let (offered, issued) = (apportion(offered, &completed), apportion(issued, &completed));
        let known = |at: usize, counts: &[u64], kind: &KindBook| match self.derived[at] {
            true => kind.completed,
            false => counts[at],
        };
        let rows: Vec<Interval> = self
            .total
            .iter()
            .enumerate()
            .map(|(at, kind)| Interval {
                begin_s: self.seconds(begin),
                end_s: at_s,
                phase,
                load: self.shape.profile().at(share),
                operation: self.operations[at].clone(),
                offered: Some(known(at, &offered, kind)),
                issued: Some(known(at, &issued, kind)),
                completed: kind.completed,
                late: Some(kind.late),
                failed: kind.failed,
                bytes: kind.bytes,
                concurrency: in_flight_ns as f64 / length_ns
                    * if busy_sum > 0.0 { busy[at] / busy_sum } else { f64::from(u8::from(at == 0)) },
                response: LatencySummary::of(&kind.response),
                service: LatencySummary::of(&kind.service),
            })
            .collect();
        let histograms: Vec<OperationIntervals<'_>> = self
            .total
            .iter()
            .zip(self.operations)
            .map(|(kind, operation)| OperationIntervals {
                operation,
                response: &kind.response,
                service: &kind.service,
                lag: &kind.lag,
            })
            .collect();
        self.stream.interval(&rows, &self.derived, &histograms);
        for (kind, code, count) in failures {
            let operation = self.operations.get(usize::from(kind)).cloned().unwrap_or_default();
            match self.errors.get_mut(&(kind, code)) {
                Some(known) => known.count += count,
                None => {
                    let text = self.workload.describe_failure(code);
                    let kind_of_doubt = self.workload.doubt_of_failure(code);
                    self.stream.event(at_s, EventKind::Error, format!("first failed {operation}: {text}"));
                    self.errors
                        .insert((kind, code), ErrorCount { operation, text, count, kind: kind_of_doubt });
                }
            }
        }
        for remark in remarks {
            self.remarks += 1;
            if self.remarks <= REMARKS_MAX {
                self.stream.event(at_s, EventKind::Workload, remark);
            } else if self.remarks == REMARKS_MAX + 1 {
                self.stream.event(at_s, EventKind::Workload, "further remarks are not shown");
            }
        }
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
        self.total.iter_mut().for_each(|kind| *kind = KindBook::default());
        self.begin = end;
        (completed.iter().sum(), length_ns / 1e9)
    }
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
