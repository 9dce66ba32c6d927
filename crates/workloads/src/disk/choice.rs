//! Which back end drives a load: what a rule makes certain, else what a short comparison before the clock starts shows.
//!
//! Which one costs less depends on kernel and file system. For example io_uring hands buffered writes to kernel threads
//! where the file system cannot write without blocking (ext4), and completes them at once where it can (XFS).

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use engine::clock::Clock;
use engine::workload::{Admission, Completion, LoadError, Operation, Share, Worker};
use model::{Level, MILLISECOND, Nanos, Shape, quantity};
use rustix::fs::Advice;

use super::calls::CallWorker;
use super::nothing::NothingWorker;
use super::pattern::{Pattern, Place};
use super::prepare::Ready;
use super::ring::{self, RingFlags, RingWorker};
use super::settings::{Access, BackEndChoice, DiskPlan};
use super::stream::Kinds;

/// Most threads in place of operations in flight.
const THREADS_MAX: u64 = 256;

/// Threads of an open load with system calls at least, so that one slow operation does not hold up the next arrivals.
const OPEN_THREADS_MIN: u64 = 64;

/// The same of an open load that is one of several at the same time.
const JOB_THREADS_MIN: u64 = 4;

/// How often each back end is tried, in turn with the others.
const ROUNDS: usize = 5;

/// Back ends are compared only while each try ends after this time, or earlier after [`TRY_OPERATIONS`] or [`TRY_BYTES`].
const TRY_TIME: Nanos = 12 * MILLISECOND;
const TRY_OPERATIONS: u64 = 2048;
const TRY_BYTES: u64 = 8 << 20;

/// A device so slow that [`TRY_TIME`] sees less than one operation in each place of the queue is given this time.
const TRY_TIME_MAX: Nanos = 200 * MILLISECOND;

/// The numbers of operations from here on belong to the comparison; no run gets as far.
pub(super) const FIRST_NUMBER: u64 = 1 << 48;

/// Another back end is taken only when it is faster by this factor at the median.
const FACTOR_MIN: f64 = 1.1;

/// And in so many of the rounds.
const ROUNDS_WON_MIN: usize = 4;

/// How operations are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackEnd {
    IoUring(RingFlags),
    /// One thread for each operation in flight.
    SystemCalls,
    /// The threads of the plan, each of which carries out the operations of its queue one after another.
    SystemCallsInTurn,
    /// Nothing is issued.
    Nothing,
}

impl BackEnd {
    /// The name of the setting's choice.
    pub(super) fn name(self) -> &'static str {
        match self {
            BackEnd::IoUring(_) => "io_uring",
            BackEnd::SystemCalls | BackEnd::SystemCallsInTurn => "system-calls",
            BackEnd::Nothing => "none",
        }
    }

    fn words(self) -> &'static str {
        match self {
            BackEnd::IoUring(_) => "io_uring",
            BackEnd::SystemCalls => "system calls on one thread per operation",
            BackEnd::SystemCallsInTurn => "system calls one after another",
            BackEnd::Nothing => "nothing",
        }
    }

    fn fact(self) -> &'static str {
        match self {
            BackEnd::IoUring(_) => "back_end.io_uring.rate",
            BackEnd::SystemCalls => "back_end.system_calls.rate",
            BackEnd::SystemCallsInTurn => "back_end.system_calls_in_turn.rate",
            BackEnd::Nothing => "back_end.none.rate",
        }
    }

    /// Threads that drive a load of this shape.
    pub(super) fn workers(self, plan: &DiskPlan, shape: &Shape) -> u32 {
        let in_flight = u64::from(plan.threads) * u64::from(plan.outstanding);
        let (users, least) = match shape {
            Shape::Closed { .. } => (users(shape), 1),
            Shape::Open { .. } => {
                let least = if plan.is_job { JOB_THREADS_MIN } else { OPEN_THREADS_MIN };
                (in_flight.max(least), least)
            }
        };
        let threads = match self {
            BackEnd::IoUring(_) | BackEnd::Nothing => u64::from(plan.threads),
            BackEnd::SystemCalls => THREADS_MAX,
            BackEnd::SystemCallsInTurn => u64::from(plan.threads).max(least),
        };
        threads.min(users) as u32
    }

    /// One thread's worker.
    pub(super) fn worker<'a>(
        self,
        plan: &DiskPlan,
        ready: &'a Ready,
        share: &Share,
    ) -> Result<Box<dyn Worker + 'a>, LoadError> {
        Ok(match self {
            BackEnd::IoUring(_) => Box::new(RingWorker::new(plan, ready, share)?),
            BackEnd::SystemCalls => Box::new(CallWorker::new(plan, ready, share, false)?),
            BackEnd::SystemCallsInTurn => Box::new(CallWorker::new(plan, ready, share, true)?),
            BackEnd::Nothing => Box::new(NothingWorker::new(plan, ready, share)),
        })
    }
}

/// What a choice rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The experiment names it.
    Requested,
    /// The kernel refuses io_uring.
    Refused,
    /// It is certain without a comparison.
    Rule,
    /// The comparison.
    Compared,
}

impl Basis {
    fn word(self) -> &'static str {
        match self {
            Basis::Requested => "requested",
            Basis::Refused => "refused",
            Basis::Rule => "rule",
            Basis::Compared => "compared",
        }
    }
}

/// A back end, and why it was taken.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) back_end: BackEnd,
    basis: Basis,
    reason: String,
    /// Median operations per second of those that were compared.
    rates: Vec<(BackEnd, f64)>,
}

impl Choice {
    fn new(back_end: BackEnd, basis: Basis, reason: impl Into<String>) -> Self {
        Choice { back_end, basis, reason: reason.into(), rates: Vec::new() }
    }

    /// What the record says about it.
    pub(super) fn facts(&self) -> Vec<(&'static str, Level)> {
        let mut facts = vec![
            ("back_end", Level::Text(self.back_end.name().into())),
            ("back_end.basis", Level::Text(self.basis.word().into())),
            ("back_end.reason", Level::Text(self.reason.clone())),
        ];
        facts.extend(self.rates.iter().map(|(back_end, rate)| (back_end.fact(), Level::Rate(rate.round()))));
        facts
    }
}

/// Operations in flight at most of a closed load.
fn users(shape: &Shape) -> u64 {
    match shape {
        Shape::Closed { users, .. } => (users.largest().ceil() as u64).max(1),
        Shape::Open { .. } => 1,
    }
}

/// Choices of this process by plan and shape, so that all trials of a configuration have the same one.
static CHOICES: Mutex<BTreeMap<String, Choice>> = Mutex::new(BTreeMap::new());

/// Chooses for a load of this shape. Without files that are ready nothing is compared.
pub(super) fn choose(plan: &DiskPlan, ready: Option<&Ready>, shape: &Shape) -> Choice {
    if plan.back_end == BackEndChoice::SystemCalls {
        return Choice::new(BackEnd::SystemCalls, Basis::Requested, "the experiment requests it");
    }
    if plan.back_end == BackEndChoice::Nothing {
        return Choice::new(
            BackEnd::Nothing,
            Basis::Requested,
            "no I/O is issued, as the experiment requests",
        );
    }
    let ring = match ring::probe() {
        Ok(flags) => BackEnd::IoUring(flags),
        Err(error) => {
            let reason = format!("the kernel refuses io_uring ({error})");
            return Choice::new(BackEnd::SystemCalls, Basis::Refused, reason);
        }
    };
    if plan.back_end == BackEndChoice::IoUring {
        return Choice::new(ring, Basis::Requested, "the experiment requests it");
    }
    let threads = u64::from(plan.threads).min(users(shape)).max(1);
    let depth = users(shape).div_ceil(threads);
    let is_open = matches!(shape, Shape::Open { .. });
    if plan.has_memory() {
        return Choice::new(ring, Basis::Rule, "a try would change where the operations of the run go");
    }
    if plan.direct && is_open {
        let reason =
            "arrivals do not wait for completions, and a ring holds any number of operations in flight";
        return Choice::new(ring, Basis::Rule, reason);
    }
    if plan.is_job && is_open {
        let reason = "one thread holds any number of operations in flight, and other jobs need threads too";
        return Choice::new(ring, Basis::Rule, reason);
    }
    if !plan.direct && !is_open && depth == 1 {
        let reason = "with one operation in flight per thread through the page cache, a system call costs less than a ring";
        return Choice::new(BackEnd::SystemCalls, Basis::Rule, reason);
    }
    // The first is taken unless another is clearly faster.
    let mut candidates = vec![ring];
    if plan.direct || depth == 1 {
        candidates.push(BackEnd::SystemCalls);
    } else {
        candidates.extend([BackEnd::SystemCallsInTurn, BackEnd::SystemCalls]);
    }
    let usual = Choice::new(ring, Basis::Rule, "the usual choice; nothing was compared");
    let Some(ready) = ready else { return usual };
    let key = match plan.is_job {
        // Copies differ in their files and names only.
        true => {
            let (files, kinds) = (Vec::new(), Kinds::default());
            let alike = DiskPlan { files, kinds, offset: 0, is_copy: false, ..plan.clone() };
            format!("{alike:?} {}", users(shape))
        }
        false => format!("{plan:?} {} {is_open}", users(shape)),
    };
    let mut choices = CHOICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = choices.get(&key) {
        return known.clone();
    }
    let choice = match compare(plan, ready, &candidates, (threads, users(shape))) {
        Ok(rates) => judge(&candidates, &rates),
        Err(why) => Choice::new(ring, Basis::Rule, format!("the usual choice; nothing was compared: {why}")),
    };
    choices.insert(key, choice.clone());
    choice
}

/// The first candidate, unless another is clearly faster; of several such the fastest.
fn judge(candidates: &[BackEnd], rates: &[Vec<f64>]) -> Choice {
    let middle = |rates: &[f64]| {
        let mut sorted = rates.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    };
    let medians: Vec<f64> = rates.iter().map(|rates| middle(rates)).collect();
    let is_faster = |at: usize| {
        let won = rates[at].iter().zip(&rates[0]).filter(|(other, first)| other > first).count();
        won >= ROUNDS_WON_MIN && medians[at] >= FACTOR_MIN * medians[0]
    };
    let best =
        (1..candidates.len()).filter(|at| is_faster(*at)).max_by(|a, b| medians[*a].total_cmp(&medians[*b]));
    let taken = best.unwrap_or(0);
    let figures: Vec<String> = candidates
        .iter()
        .zip(&medians)
        .map(|(back_end, rate)| format!("{} {}", back_end.words(), quantity::rate(rate.round())))
        .collect();
    let verdict = match best {
        Some(_) => "it is the fastest here",
        None => "no other is clearly faster here",
    };
    Choice {
        back_end: candidates[taken],
        basis: Basis::Compared,
        reason: format!("{verdict}: {} in {ROUNDS} short tries before the clock started", figures.join(", ")),
        rates: candidates.iter().copied().zip(medians).collect(),
    }
}

/// Operations per second of each candidate in each round.
fn compare(
    plan: &DiskPlan,
    ready: &Ready,
    candidates: &[BackEnd],
    (threads, users): (u64, u64),
) -> Result<Vec<Vec<f64>>, String> {
    let mut rates = vec![Vec::with_capacity(ROUNDS); candidates.len()];
    let operations =
        (TRY_BYTES / plan.largest_block().max(1)).clamp(2 * users, TRY_OPERATIONS.max(2 * users));
    let mut first = FIRST_NUMBER;
    let mut restored = Vec::new();
    for round in 0..ROUNDS {
        for turn in 0..candidates.len() {
            let at = (round + turn) % candidates.len();
            let workers = match candidates[at] {
                BackEnd::SystemCalls => users.min(THREADS_MAX),
                _ => threads,
            };
            let uncached = Uncached::find(plan, ready, first, operations)?;
            let tried = Try { plan, ready, back_end: candidates[at], workers, users, first, operations };
            let rate = tried.rate().map_err(|error| error.in_line());
            uncached.restore(ready);
            restored.push(uncached);
            rates[at].push(rate?);
            // Each worker may begin one operation more than its share.
            first += operations + users;
        }
    }
    // Once more, as what the kernel was still reading ahead could not be dropped.
    restored.iter().for_each(|uncached| uncached.restore(ready));
    Ok(rates)
}

/// One try of one back end.
#[derive(Clone, Copy)]
struct Try<'a> {
    plan: &'a DiskPlan,
    ready: &'a Ready,
    back_end: BackEnd,
    workers: u64,
    users: u64,
    first: u64,
    operations: u64,
}

impl Try<'_> {
    fn rate(self) -> Result<f64, LoadError> {
        let clock = Clock::get();
        std::thread::scope(|scope| {
            let (tell, reported) = channel();
            let mut go = Vec::new();
            for index in 0..self.workers {
                let (start, started) = channel::<()>();
                let tell = tell.clone();
                let body = move || {
                    let share = Share {
                        lane: 0,
                        index: index as u32,
                        of: self.workers as u32,
                        in_flight_max: self.users.div_ceil(self.workers) as u32,
                        is_open: false,
                        seed: self.ready.seed,
                    };
                    // Whoever waits for an answer gets one in any case, and then the word to begin or none.
                    let worker = self.back_end.worker(self.plan, self.ready, &share);
                    let (worker, refused) = match worker {
                        Ok(worker) => (Some(worker), None),
                        Err(error) => (None, Some(error)),
                    };
                    let _ = tell.send(refused.map_or(Ok((0, 0)), Err));
                    if started.recv().is_ok()
                        && let Some(mut worker) = worker
                    {
                        let _ = tell.send(self.drive(worker.as_mut(), &share, clock));
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, body).map_err(|error| {
                    LoadError::new(format!("a thread could not be started: {error}"), "use fewer threads")
                })?;
                go.push(start);
            }
            drop(tell);
            for _ in 0..self.workers {
                reported.recv().unwrap_or(Ok((0, 0)))?;
            }
            let begun = clock.now();
            for start in &go {
                let _ = start.send(());
            }
            let (mut completed, mut end) = (0, begun);
            for result in reported {
                let (count, at) = result?;
                completed += count;
                end = end.max(at);
            }
            Ok(completed as f64 * 1e9 / end.saturating_sub(begun).max(1) as f64)
        })
    }

    /// Drives one worker; how many operations were completed, and when the last of them was.
    fn drive(self, worker: &mut dyn Worker, share: &Share, clock: Clock) -> Result<(u64, Nanos), LoadError> {
        let begun = clock.now();
        let (soon, late) = (begun + TRY_TIME, begun + TRY_TIME_MAX);
        let own = self.operations.div_ceil(self.workers);
        let mut free: Vec<u32> = (0..share.in_flight_max).collect();
        let mut done: Vec<Completion> = Vec::with_capacity(free.len());
        let (mut issued, mut completed) = (0, 0);
        let (mut now, mut last) = (begun, begun);
        loop {
            let in_time = now < soon || (completed < u64::from(share.in_flight_max) && now < late);
            while in_time
                && issued < own
                && let Some(&ticket) = free.last()
            {
                let number = self.first + u64::from(share.index) + issued * self.workers;
                match worker.submit(Operation::new(ticket, number)) {
                    Admission::Accepted => {
                        free.pop();
                        issued += 1;
                    }
                    Admission::Completed(_) => {
                        issued += 1;
                        completed += 1;
                        last = clock.now();
                        now = last;
                        if now >= soon {
                            break;
                        }
                    }
                    _ => break,
                }
            }
            let in_flight = share.in_flight_max as usize - free.len();
            if in_flight == 0 && (!in_time || issued == own || now >= late) {
                return Ok((completed, last));
            }
            worker.reap(clock.now() + TRY_TIME, &mut done)?;
            now = clock.now();
            if !done.is_empty() {
                last = now;
                completed += done.len() as u64;
                free.extend(done.drain(..).map(|completion| completion.ticket));
            }
        }
    }
}

/// Parts of the files that reads of a comparison bring into the page cache, and that were not in it before.
struct Uncached(Vec<(u32, u64, u64)>);

/// As far as the kernel reads ahead of a sequential stream, at the usual settings, and in which steps that is looked at.
const READ_AHEAD: u64 = 2 << 20;
const READ_AHEAD_STEP: u64 = 64 << 10;

impl Uncached {
    /// Those of the operations from `first` on.
    fn find(plan: &DiskPlan, ready: &Ready, first: u64, operations: u64) -> Result<Self, String> {
        if plan.direct || plan.read_share <= 0.0 {
            return Ok(Uncached(Vec::new()));
        }
        let resident = |file: u32, offset: u64, bytes: u64| {
            let file = ready.files.get(file as usize).ok_or("no such file")?;
            engine::page_cache::resident_bytes(&file.file, offset, bytes)
                .ok_or("this kernel does not say what is in the page cache")
        };
        let sizes: Vec<u64> = ready.files.iter().map(|file| file.bytes).collect();
        let mut parts = Vec::new();
        for (file, bytes) in sizes.iter().enumerate() {
            if resident(file as u32, plan.offset, *bytes)? == 0 {
                parts.push((file as u32, plan.offset, *bytes));
            }
        }
        if parts.len() == sizes.len() {
            return Ok(Uncached(parts));
        }
        let pattern = Pattern::new(plan, &sizes, ready.seed);
        let mut look = |file: u32, offset: u64, bytes: u64| {
            if resident(file, offset, bytes)? == 0 {
                parts.push((file, offset, bytes));
            }
            Ok::<(), String>(())
        };
        for number in first..first + operations {
            let Place { file, bytes, offset, .. } = pattern.place(number, 0);
            look(file, offset, u64::from(bytes))?;
            if plan.access == Access::Sequential && number + ready.files.len() as u64 >= first + operations {
                let end = offset + u64::from(bytes);
                for step in 0..READ_AHEAD / READ_AHEAD_STEP {
                    look(file, end + step * READ_AHEAD_STEP, READ_AHEAD_STEP)?;
                }
            }
        }
        // Neighbours as one, as the kernel drops only whole folios, which hold many pages where it read ahead.
        parts.sort_unstable();
        let mut merged: Vec<(u32, u64, u64)> = Vec::with_capacity(parts.len());
        for (file, offset, bytes) in parts {
            match merged.last_mut() {
                Some(last) if last.0 == file && last.1 + last.2 >= offset => {
                    last.2 = last.2.max(offset + bytes - last.1);
                }
                _ => merged.push((file, offset, bytes)),
            }
        }
        Ok(Uncached(merged))
    }

    /// Drops them from the page cache again. What was written stays until it is on the device.
    ///
    /// A block that the kernel still reads ahead cannot be dropped, so the advice is given again until it was read.
    fn restore(&self, ready: &Ready) {
        const ATTEMPTS: u32 = 20;
        let mut left: Vec<_> = self.0.iter().collect();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            left.retain(|(file, offset, bytes)| {
                let Some(file) = ready.files.get(*file as usize) else { return false };
                let length = std::num::NonZeroU64::new(*bytes);
                let _ = rustix::fs::fadvise(&file.file, *offset, length, Advice::DontNeed);
                engine::page_cache::resident_bytes(&file.file, *offset, *bytes) > Some(0)
            });
            if left.is_empty() {
                return;
            }
        }
    }
}
