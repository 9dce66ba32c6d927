//! Who drives the load of a trial: the worker threads of this process, or other machines.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::Scope;
use std::time::Duration;

use model::run::GeneratorUse;
use model::{DoubtKind, Ending, Load, MILLISECOND, Nanos, WarmUp};

use crate::arrivals::{Arrivals, MeasuredTime};
use crate::border::Bordered;
use crate::clock::Clock;
use crate::cost::Costs;
use crate::drive::{Book, Numbers, Stop, drive, lock};
use crate::lanes::waits_for_arrivals;
use crate::pace::Pace;
use crate::sampler::WINDOW_MIN;
use crate::threads::{ThreadUse, ask_for_short_turns, current_thread, leave_shared_descriptors, thread_use};
use crate::workload::{Lane, LoadError, Share, Workload};

/// The interval at which a waiting collector checks for an interrupt. Each time, it may take the CPU from the load.
pub(crate) const LOOK_UP: Nanos = 250 * MILLISECOND;

/// Why the wait for the end of an interval ended.
#[derive(Debug)]
pub enum WakeReason {
    /// The interval is over, or a [`Waker`] was used.
    Time,
    /// A step of consecutive operations ended or begins, so the interval ends earlier.
    Border,
    /// There is no more work, and nothing is in flight.
    AllFinished,
    /// The load cannot go on.
    Failed(LoadError),
    /// The user wants to stop.
    Interrupted,
}

/// What ends the wait for an interval besides its time.
pub struct Watch<'a> {
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// How the system under test ended; none while it runs.
    pub target_ended: &'a dyn Fn() -> Option<String>,
    /// How often to look for that.
    pub look_up: Nanos,
}

impl Watch<'_> {
    /// Whether one of them ends the wait.
    pub fn look(&self) -> Option<WakeReason> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(WakeReason::Interrupted);
        }
        (self.target_ended)().map(|why| WakeReason::Failed(LoadError::new(why, "")))
    }
}

/// Drives the load of one trial, and counts it. All times are on the run's clock of this process.
pub trait Crew {
    /// Waits until everything is ready to begin.
    ///
    /// # Errors
    /// How the trial ended.
    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> Result<(), Ending>;

    /// Starts the load. Returns when: the zero of the trial's clock.
    fn start(&mut self) -> Nanos;

    /// Begins the measured phase as soon as possible after `now`, the end of an interval. Returns when it begins: at
    /// `now` or later. Called again with the time that it returned.
    fn begin_measured(&mut self, now: Nanos) -> Nanos;

    /// Waits until the interval that ends at `until` is over, or for an earlier event. Where intervals may end at a border
    /// of the work, they are at least `shortest` long; `begin` is when the interval began.
    fn wait(&mut self, begin: Nanos, until: Nanos, shortest: Nanos, watch: &Watch<'_>) -> WakeReason;

    /// Adds what was done since the last call to `book`. Returns the end of that time: `until`, or the present.
    fn take(&mut self, until: Nanos, book: &mut Book) -> Nanos;

    /// Describes the code of a failed operation, and names the doubt that follows.
    fn describe_failure(&self, kind: u16, code: u32) -> (String, DoubtKind);

    /// The cost of driving the load since the measured phase began, `wall_s` seconds ago.
    fn measured_use(&mut self, wall_s: f64) -> GeneratorUse;

    /// Ends the load: issues no more operations, but for those that were due in the measured phase, which ended at `at`.
    fn stop_issuing(&mut self, at: Nanos);

    /// Does not wait for operations in flight any more.
    fn stop_waiting(&mut self);

    /// Whether nothing runs any more.
    fn is_finished(&self) -> bool;

    /// Whether the trial cannot end before the load has: threads that wait in a system call end when that returns.
    fn must_finish(&self) -> bool;
}

/// Messages of the worker threads.
enum WorkerMessage {
    /// The worker of this thread is created.
    Ready(u32),
    /// A step of consecutive operations ended or begins.
    Border,
    /// A thread is about to end.
    Finished { thread: u32, used: Option<ThreadUse>, outcome: Result<(), LoadError> },
    /// Something else is to be looked at.
    Wake,
}

/// Ends the wait of a collector for its threads.
pub(crate) struct Waker(Weak<Sender<WorkerMessage>>);

impl Waker {
    pub(crate) fn wake(&self) {
        if let Some(send) = self.0.upgrade() {
            // The collector no longer receives only when it does not wait.
            let _ = send.send(WorkerMessage::Wake);
        }
    }
}

/// What the worker threads of one load share.
pub(crate) struct Common {
    clock: Clock,
    shares: Vec<Share>,
    lanes: Vec<Lane>,
    /// Users who come together begin within this time.
    spread: Nanos,
    may_spin: bool,
    /// The length of the warm-up, if that is known before.
    warm_up: Option<Nanos>,
    pub(crate) measured: MeasuredTime,
    stop: Stop,
    books: Vec<Mutex<Book>>,
    /// The largest delay of the first operation of a thread, of those that have ended.
    start_late: AtomicU64,
}

impl Common {
    pub(crate) fn new(
        shares: Vec<Share>,
        lanes: Vec<Lane>,
        operations: usize,
        (spread, may_spin): (Nanos, bool),
        load: &Load,
    ) -> Common {
        let measured = MeasuredTime::new(load.measure.unwrap_or(Nanos::MAX));
        let warm_up = match load.warm_up {
            WarmUp::For(length) => Some(length),
            WarmUp::Auto => None,
        };
        let clock = Clock::get();
        let books = shares.iter().map(|_| Mutex::new(Book::new(operations))).collect();
        let (stop, start_late) = (Stop::default(), AtomicU64::new(0));
        Common { clock, shares, lanes, spread, may_spin, warm_up, measured, stop, books, start_late }
    }
}

/// The worker threads of this process.
pub(crate) struct Threads<'a> {
    common: &'a Common,
    workload: &'a dyn Workload,
    messages: Receiver<WorkerMessage>,
    /// The other end belongs to the workers alone, because its end shows that all have ended.
    send: Weak<Sender<WorkerMessage>>,
    /// Empty books to exchange for full ones.
    spare: Vec<Book>,
    /// CPU time that the workers spent spinning so far.
    spun_ns: u64,
    go: Vec<Sender<Nanos>>,
    threads: Vec<u32>,
    running: usize,
    /// The final resource use of threads that ended.
    last_uses: HashMap<u32, ThreadUse>,
    before: Costs,
}

impl<'a> Threads<'a> {
    /// Starts a thread for each share, which makes its worker and waits for the start of the load.
    pub(crate) fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        workload: &'a dyn Workload,
        common: &'a Common,
    ) -> Threads<'a>
    where
        'a: 'scope,
    {
        let (send, messages) = channel::<WorkerMessage>();
        let send = Arc::new(send);
        let mut go: Vec<Sender<Nanos>> = Vec::new();
        let workers = common.shares.len();
        for (index, (share, book)) in common.shares.iter().zip(&common.books).enumerate() {
            let (start, started) = channel::<Nanos>();
            go.push(start);
            let send = send.clone();
            let report_failure = send.clone();
            let body = move || {
                let outcome = work(workload, common, share, book, &send, &started);
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
        let kinds = workload.operations().len();
        Threads {
            common,
            workload,
            messages,
            send: Arc::downgrade(&send),
            spare: (0..workers).map(|_| Book::new(kinds)).collect(),
            spun_ns: 0,
            go,
            threads: Vec::new(),
            running: workers,
            last_uses: HashMap::new(),
            before: Costs::default(),
        }
    }

    /// Starts the load at a time that may be later than now.
    pub(crate) fn start_at(&mut self, zero: Nanos) {
        // Known to the workers before their first operation.
        if let Some(length) = self.common.warm_up {
            self.common.measured.begin(zero.saturating_add(length));
        }
        for start in &self.go {
            let _ = start.send(zero);
        }
    }

    /// What ends a wait from another thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker(self.send.clone())
    }

    /// The largest delay of the first operation of a thread, of those that have ended.
    pub(crate) fn start_late(&self) -> Nanos {
        self.common.start_late.load(Ordering::Relaxed)
    }

    /// The measured phase begins at `at`, which is now or soon.
    pub(crate) fn measure_from(&mut self, at: Nanos) {
        if self.common.warm_up.is_none() {
            self.common.measured.begin(at);
        }
        self.before = Costs::now(&self.threads, &self.last_uses, self.spun_ns);
    }
}

impl Drop for Threads<'_> {
    /// Threads that still wait for the start end; others end when their work does.
    fn drop(&mut self) {
        self.common.stop.issuing.store(true, Ordering::Relaxed);
        self.go.clear();
    }
}

impl Crew for Threads<'_> {
    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> Result<(), Ending> {
        while self.threads.len() < self.running {
            match self.messages.recv_timeout(Duration::from_nanos(LOOK_UP)) {
                Ok(WorkerMessage::Ready(thread)) => self.threads.push(thread),
                Ok(WorkerMessage::Finished { outcome: Err(error), .. }) => {
                    return Err(Ending::Failed(error.in_line()));
                }
                Ok(WorkerMessage::Finished { .. }) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Ending::Failed("a worker thread ended before the load began".into()));
                }
                // No worker has started yet.
                Ok(WorkerMessage::Border | WorkerMessage::Wake) => {}
                Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                    return Err(Ending::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Nanos {
        let zero = self.common.clock.now();
        self.start_at(zero);
        zero
    }

    fn begin_measured(&mut self, now: Nanos) -> Nanos {
        self.measure_from(now);
        now
    }

    fn wait(&mut self, begin: Nanos, until: Nanos, shortest: Nanos, watch: &Watch<'_>) -> WakeReason {
        loop {
            if self.running == 0 {
                return WakeReason::AllFinished;
            }
            if let Some(reason) = watch.look() {
                return reason;
            }
            let now = self.common.clock.now();
            if now >= until {
                return WakeReason::Time;
            }
            match self.messages.recv_timeout(Duration::from_nanos((until - now).min(watch.look_up))) {
                Ok(WorkerMessage::Finished { thread, used, outcome }) => {
                    self.running -= 1;
                    self.last_uses.extend(used.map(|used| (thread, used)));
                    if let Err(error) = outcome {
                        return WakeReason::Failed(error);
                    }
                }
                // A minimum length, because short steps would fill the record of a long trial.
                Ok(WorkerMessage::Border) => {
                    if self.common.clock.now() - begin >= shortest.max(WINDOW_MIN) {
                        return WakeReason::Border;
                    }
                }
                Ok(WorkerMessage::Wake) => return WakeReason::Time,
                Ok(WorkerMessage::Ready(_)) | Err(RecvTimeoutError::Timeout) => {}
                // All senders are gone although not every worker reported: one panicked.
                Err(RecvTimeoutError::Disconnected) => {
                    self.running = 0;
                    return WakeReason::Failed(LoadError::new(
                        "a worker thread ended without an error message",
                        "please report this",
                    ));
                }
            }
        }
    }

    fn take(&mut self, _until: Nanos, total: &mut Book) -> Nanos {
        let end = self.common.clock.now();
        for (book, spare) in self.common.books.iter().zip(&mut self.spare) {
            {
                let mut book = lock(book);
                book.end_interval(end, spare);
                std::mem::swap(&mut *book, spare);
            }
            self.spun_ns += spare.spun_ns;
            total.add(spare);
            spare.reset();
        }
        end
    }

    fn describe_failure(&self, _kind: u16, code: u32) -> (String, DoubtKind) {
        (self.workload.describe_failure(code), self.workload.doubt_of_failure(code))
    }

    fn measured_use(&mut self, wall_s: f64) -> GeneratorUse {
        Costs::now(&self.threads, &self.last_uses, self.spun_ns).since(&self.before, wall_s)
    }

    fn stop_issuing(&mut self, at: Nanos) {
        self.common.measured.end(at);
        self.common.stop.issuing.store(true, Ordering::Relaxed);
    }

    fn stop_waiting(&mut self) {
        self.common.stop.waiting.store(true, Ordering::Relaxed);
    }

    fn is_finished(&self) -> bool {
        self.running == 0
    }

    fn must_finish(&self) -> bool {
        true
    }
}

/// The main function of a worker thread.
fn work(
    workload: &dyn Workload,
    common: &Common,
    share: &Share,
    book: &Mutex<Book>,
    send: &Arc<Sender<WorkerMessage>>,
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
    let lane = &common.lanes[share.lane as usize];
    let spins = common.may_spin && waits_for_arrivals(lane);
    if spins {
        ask_for_short_turns();
    }
    let _ = send.send(WorkerMessage::Ready(current_thread()));
    // Without a start signal, another worker could not be created.
    let Ok(zero) = started.recv() else { return Ok(()) };
    let begin = zero.saturating_add(lane.delay);
    // The Poisson arrivals of two lanes must differ.
    let seed = share.seed ^ u64::from(share.lane) << 32;
    let mut arrivals = Arrivals::new(&lane.shape, share.index, share.of, seed, begin, &common.measured)
        .spread_over(common.spread);
    let numbers = Numbers { first: u64::from(share.index), step: u64::from(share.of) };
    let mut pace = Pace::new(&common.clock, spins);
    let late =
        drive(&mut *worker, &mut arrivals, &mut pace, &common.stop, book, numbers, share.in_flight_max)?;
    common.start_late.fetch_max(late, Ordering::Relaxed);
    Ok(())
}
