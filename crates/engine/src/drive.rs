//! The measuring loop: the only code that measures operations.
//!
//! Every operation has three instants: when it was *intended*, when it was *issued* and when it was seen
//! *done*. Lag is intended to issued, service time issued to done, response time intended to done; all three
//! are always recorded.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use model::launch::Usage;
use model::study::new_histogram;
use model::{MILLISECOND, Nanos};

use crate::arrivals::Arrivals;
use crate::clock::Time;
use crate::pace::Pace;
use crate::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};

/// An operation counts as late if it is issued later than this after its intended time.
pub const LATE: Nanos = MILLISECOND;

/// The interval at which a waiting worker checks whether it should stop.
const LOOK_UP: Nanos = 50 * MILLISECOND;

/// The work of one worker since the book was last taken. It belongs to its thread except during the exchange.
#[derive(Clone, Debug)]
pub struct Book {
    /// Arrivals that were due.
    pub offered: u64,
    /// Operations handed to the system.
    pub issued: u64,
    /// By index of the operation's name.
    pub kinds: Vec<KindBook>,
    /// Failures by kind and code.
    pub failures: Vec<(u8, u32, u64)>,
    /// Messages of the worker.
    pub remarks: Vec<String>,
    /// Completed launches of commands.
    pub launches: Vec<CompletedLaunch>,
    /// Time in flight, summed over operations, up to `counted_to`.
    pub in_flight_ns: u64,
    /// Operations in flight at `counted_to`.
    pub in_flight: u64,
    /// The time up to which time in flight is counted.
    pub counted_to: Nanos,
    /// CPU time spent spinning for arrivals.
    pub spun_ns: u64,
}

/// A completed launch of a command.
#[derive(Clone, Debug)]
pub struct CompletedLaunch {
    /// Index of its operation's name.
    pub kind: u8,
    /// When it was completed.
    pub at: Nanos,
    /// Its service time: issued to done.
    pub time: Nanos,
    /// Whether it failed.
    pub failed: bool,
    /// Its resource use.
    pub usage: Usage,
}

/// The results of one operation of a worker.
#[derive(Clone, Debug)]
pub struct KindBook {
    /// Completed operations, successful or failed.
    pub completed: u64,
    /// Operations issued late.
    pub late: u64,
    /// Failed operations.
    pub failed: u64,
    /// Bytes of successful operations.
    pub bytes: u64,
    /// Response times (intended to done), nanoseconds.
    pub response: Histogram<u64>,
    /// Service times (issued to done), nanoseconds.
    pub service: Histogram<u64>,
    /// Lags (intended to issued), nanoseconds.
    pub lag: Histogram<u64>,
}

impl Default for KindBook {
    fn default() -> Self {
        KindBook {
            completed: 0,
            late: 0,
            failed: 0,
            bytes: 0,
            response: new_histogram(),
            service: new_histogram(),
            lag: new_histogram(),
        }
    }
}

impl KindBook {
    /// Adds the results of another worker or an earlier interval.
    pub fn add(&mut self, other: &KindBook) {
        if other.completed == 0 {
            return;
        }
        self.completed += other.completed;
        self.late += other.late;
        self.failed += other.failed;
        self.bytes += other.bytes;
        for (ours, theirs) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.lag, &other.lag),
        ] {
            // Only a histogram with a fixed size can fail, and these grow.
            let added = ours.add(theirs);
            debug_assert!(added.is_ok());
        }
    }

    fn reset(&mut self) {
        // With many jobs, a worker executes only one: other operations cost nothing.
        if self.completed == 0 {
            return;
        }
        self.completed = 0;
        self.late = 0;
        self.failed = 0;
        self.bytes = 0;
        self.response.reset();
        self.service.reset();
        self.lag.reset();
    }
}

impl Book {
    /// An empty book for a number of operations.
    pub fn new(kinds: usize, now: Nanos) -> Self {
        Book {
            offered: 0,
            issued: 0,
            kinds: vec![KindBook::default(); kinds],
            failures: Vec::new(),
            remarks: Vec::new(),
            launches: Vec::new(),
            in_flight_ns: 0,
            in_flight: 0,
            counted_to: now,
            spun_ns: 0,
        }
    }

    /// Clears the book, except for operations in flight.
    pub fn reset(&mut self) {
        self.offered = 0;
        self.issued = 0;
        self.in_flight_ns = 0;
        self.spun_ns = 0;
        self.failures.clear();
        self.remarks.clear();
        self.launches.clear();
        self.kinds.iter_mut().for_each(KindBook::reset);
    }

    /// Counts the time in flight up to `now`.
    #[inline]
    pub fn count_to(&mut self, now: Nanos) {
        self.in_flight_ns += self.in_flight * now.saturating_sub(self.counted_to);
        self.counted_to = now.max(self.counted_to);
    }

    #[inline]
    fn record(&mut self, slot: &Slot, done: Done, at: Nanos) {
        let Some(kind) = self.kinds.get_mut(usize::from(done.kind)) else {
            debug_assert!(false, "the completion of an operation that the workload did not declare");
            return;
        };
        // One operation was issued; that it counts as several, or none, is known only now.
        let times = u64::from(done.count);
        let more = times.saturating_sub(1);
        self.offered += more;
        self.issued += more;
        if times == 0 {
            return;
        }
        kind.completed += times;
        let lag = slot.issued.saturating_sub(slot.intended);
        kind.late += if lag > LATE { times } else { 0 };
        count(&mut kind.response, at.saturating_sub(slot.intended), times);
        count(&mut kind.service, at.saturating_sub(slot.issued), times);
        count(&mut kind.lag, lag, times);
        match done.outcome {
            Outcome::Well => kind.bytes += u64::from(done.bytes),
            Outcome::Failed(code) => {
                kind.failed += times;
                match self.failures.iter_mut().find(|(kind, known, _)| (*kind, *known) == (done.kind, code)) {
                    Some((_, _, count)) => *count += times,
                    None => self.failures.push((done.kind, code, times)),
                }
            }
        }
    }
}

/// Counts a time that several operations shared. The histogram grows as needed, which fails only above 2^62
/// ns, a century.
#[inline]
fn count(histogram: &mut Histogram<u64>, value: Nanos, times: u64) {
    let counted = match times {
        1 => histogram.record(value),
        times => histogram.record_n(value / times, times),
    };
    debug_assert!(counted.is_ok());
}

/// When an operation in flight was intended and issued.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    intended: Nanos,
    issued: Nanos,
}

/// Requests to stop.
#[derive(Debug, Default)]
pub struct Stop {
    /// No new operations; wait for those in flight.
    pub issuing: AtomicBool,
    /// Do not wait for operations in flight.
    pub waiting: AtomicBool,
}

/// The numbers of a worker's operations: `first`, `first + step`, ...
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// The number of the worker's first operation.
    pub first: u64,
    /// Number of workers.
    pub step: u64,
}

/// Drives one worker until it is stopped or has no more work, and waits for operations in flight.
///
/// `in_flight_max` limits the operations in flight; the load itself may have a lower limit.
pub fn drive<W: Worker + ?Sized, T: Time>(
    worker: &mut W,
    arrivals: &mut Arrivals<'_>,
    pace: &mut Pace<'_, T>,
    stop: &Stop,
    book: &Mutex<Book>,
    numbers: Numbers,
    in_flight_max: u32,
) -> Result<(), LoadError> {
    let mut slots = vec![Slot::default(); in_flight_max as usize];
    let mut free: Vec<u32> = (0..in_flight_max).rev().collect();
    let mut done: Vec<Completion> = Vec::with_capacity(in_flight_max as usize);
    let mut number = numbers.first;
    let mut exhausted = false;
    // Whether the worker prepared for the operation that is due in a closed loop.
    let mut prepared = false;
    let mut remarks_due: Nanos = 0;
    let mut remarks: Vec<String> = Vec::new();
    let launches = worker.usages().is_some();
    let mut now = pace.now();
    loop {
        let stopping = exhausted || stop.issuing.load(Ordering::Relaxed);
        let mut issued = 0;
        // For the operations issued now: the latest instant, and the sum of all instants.
        let (mut issued_last, mut issued_sum) = (now, 0);
        let mut blocked = false;
        loop {
            if stopping {
                break;
            }
            let Some(&ticket) = free.last() else { break };
            let Some(intended) = arrivals.next(now).filter(|intended| *intended <= now) else { break };
            let mut slot = Slot { intended, issued: pace.now() };
            if std::mem::take(&mut prepared) {
                slot.intended = slot.issued;
            }
            match worker.submit(Operation { ticket, number }) {
                Admission::Accepted => {
                    free.pop();
                    slots[ticket as usize] = slot;
                    issued += 1;
                    issued_last = slot.issued;
                    issued_sum += slot.issued;
                }
                Admission::Completed(outcome) => {
                    now = pace.now();
                    arrivals.issued();
                    let mut book = lock(book);
                    book.issued += 1;
                    book.offered += arrivals.take_offered(now);
                    book.count_to(slot.issued);
                    book.in_flight_ns += book.counted_to - slot.issued;
                    book.in_flight += 1;
                    book.count_to(now);
                    book.in_flight -= 1;
                    book.record(&slot, outcome, now);
                    drop(book);
                    arrivals.done(now);
                    number += numbers.step;
                    if stop.issuing.load(Ordering::Relaxed) {
                        break;
                    }
                    continue;
                }
                Admission::Busy => {
                    blocked = true;
                    break;
                }
                Admission::Preparing => {
                    prepared = matches!(arrivals, Arrivals::Closed(_));
                    blocked = true;
                    break;
                }
                Admission::Exhausted => {
                    exhausted = true;
                    break;
                }
            }
            arrivals.issued();
            number += numbers.step;
        }
        let in_flight = in_flight_max as usize - free.len();
        if issued > 0 {
            let mut book = lock(book);
            book.count_to(issued_last);
            // Operations that were issued earlier are in flight since then, even if the collector counted up
            // to a later instant.
            book.in_flight_ns += issued * book.counted_to - issued_sum;
            book.issued += issued;
            book.in_flight = in_flight as u64;
        }
        if in_flight == 0 && (exhausted || stop.issuing.load(Ordering::Relaxed)) {
            break;
        }
        if stop.waiting.load(Ordering::Relaxed) {
            break;
        }
        // A worker with capacity wakes for the next arrival, one without for a completion.
        let look_up = now + LOOK_UP;
        let waited_for = if in_flight > 0 || blocked { Some(&mut *worker) } else { None };
        match arrivals.next(now) {
            Some(due) if !stopping && !blocked && !free.is_empty() => {
                pace.wait_for_arrival(due, look_up, waited_for, &mut done)?;
            }
            _ => pace.wait(look_up, waited_for, &mut done)?,
        }
        now = pace.now();
        if now >= remarks_due {
            worker.remarks(&mut remarks);
            remarks_due = now + 10 * LOOK_UP;
        }
        let mut book = lock(book);
        if !stopping && !exhausted {
            book.offered += arrivals.take_offered(now);
        }
        book.count_to(now);
        for completion in done.drain(..) {
            let slot = &slots[completion.ticket as usize];
            book.record(slot, completion.done, now);
            if launches && let Some(usage) = take_usage(worker, completion.ticket) {
                book.launches.push(CompletedLaunch {
                    kind: completion.done.kind,
                    at: now,
                    time: now.saturating_sub(slot.issued),
                    failed: completion.done.outcome != Outcome::Well,
                    usage,
                });
            }
            free.push(completion.ticket);
            arrivals.done(now);
        }
        book.in_flight = (in_flight_max as usize - free.len()) as u64;
        book.spun_ns += pace.take_spun();
        book.remarks.append(&mut remarks);
    }
    worker.remarks(&mut remarks);
    lock(book).remarks.append(&mut remarks);
    Ok(())
}

/// The resource use of the launch with a ticket.
fn take_usage<W: Worker + ?Sized>(worker: &mut W, ticket: u32) -> Option<Usage> {
    let usages = worker.usages()?;
    let at = usages.iter().position(|(of, _)| *of == ticket)?;
    Some(usages.swap_remove(at).1)
}

/// The book of a panicked worker is valid up to its last operation.
pub(crate) fn lock(book: &Mutex<Book>) -> std::sync::MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
