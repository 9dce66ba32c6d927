//! The measuring loop: the only code that measures operations.
//!
//! Every operation has three instants: when it was *intended*, when it was *issued* and when it was seen
//! *done*. Lag is intended to issued, service time issued to done, response time intended to done; all three
//! are always recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use model::launch::Usage;
use model::study::new_histogram;
use model::{MILLISECOND, Nanos};

use crate::arrivals::Arrivals;
use crate::clock::Time;
use crate::pace::Pace;
use crate::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Then, Worker};

/// An operation counts as late if it is issued later than this after its intended time.
pub const LATE: Nanos = MILLISECOND;

/// The interval at which a waiting worker checks whether it should stop.
const LOOK_UP: Nanos = 50 * MILLISECOND;

/// How long a worker may issue before it takes completions, for as long or until there are none: opening thousands of
/// connections takes seconds, and must not delay the operations that are done meanwhile.
const ISSUE_TURN: Nanos = MILLISECOND / 10;

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
    pub failures: Vec<(u16, u32, u64)>,
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
    pub kind: u16,
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

    /// Adds what another worker or machine did, and takes its messages and launches. Operations in flight stay with it.
    pub fn add(&mut self, other: &mut Book) {
        self.offered += other.offered;
        self.issued += other.issued;
        self.in_flight_ns += other.in_flight_ns;
        self.spun_ns += other.spun_ns;
        for (ours, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            ours.add(theirs);
        }
        for (kind, code, count) in other.failures.drain(..) {
            self.failed(kind, code, count);
        }
        self.remarks.append(&mut other.remarks);
        self.launches.append(&mut other.launches);
    }

    fn failed(&mut self, kind: u16, code: u32, times: u64) {
        match self.failures.iter_mut().find(|(known, of, _)| (*known, *of) == (kind, code)) {
            Some((_, _, count)) => *count += times,
            None => self.failures.push((kind, code, times)),
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

    /// An operation in flight was completed then; perhaps the collector has counted up to a later instant.
    #[inline]
    fn completed(&mut self, at: Nanos) {
        self.count_to(at);
        self.in_flight_ns = self.in_flight_ns.saturating_sub(self.counted_to - at);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    #[inline]
    fn record(&mut self, slot: &Slot, done: Done, at: Nanos) {
        if let Then::EndOf(whole) = done.then {
            self.record_whole(slot, whole, done.outcome, at);
        }
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
                self.failed(done.kind, code, times);
            }
        }
    }
}

impl Book {
    /// Records an operation whose last step is done.
    fn record_whole(&mut self, slot: &Slot, kind: u16, outcome: Outcome, at: Nanos) {
        let Some(kind) = self.kinds.get_mut(usize::from(kind)) else {
            debug_assert!(false, "the end of an operation that the workload did not declare");
            return;
        };
        let response = slot.response_before + at.saturating_sub(slot.intended);
        let service = slot.service_before + at.saturating_sub(slot.issued);
        kind.completed += 1;
        kind.failed += u64::from(outcome != Outcome::Well);
        count(&mut kind.response, response, 1);
        count(&mut kind.service, service, 1);
        count(&mut kind.lag, response.saturating_sub(service), 1);
    }

    /// Records the parts of the operations that were completed last.
    fn take_parts<W: Worker + ?Sized>(&mut self, worker: &mut W) {
        for part in worker.parts().into_iter().flat_map(|parts| parts.drain(..)) {
            let Some(kind) = self.kinds.get_mut(usize::from(part.kind)) else {
                debug_assert!(false, "a part that the workload did not declare");
                continue;
            };
            // It has no intended time of its own, so its time is not divided.
            kind.completed += 1;
            count(&mut kind.response, part.end.saturating_sub(part.begin), 1);
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

/// The times of an operation in flight, or of one that continues later.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// When this step was intended and issued.
    intended: Nanos,
    issued: Nanos,
    number: u64,
    step: u32,
    user: Option<u32>,
    /// The response and the service time of the steps before.
    response_before: Nanos,
    service_before: Nanos,
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

/// Drives one worker until it is stopped or has no more work, and waits for operations in flight. Returns how late it was with its
/// first operation. The load may begin later than now: what the loop needs exists then.
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
) -> Result<Nanos, LoadError> {
    let launches = worker.usages().is_some();
    let has_parts = worker.parts().is_some();
    let now = pace.now();
    let mut driver = Driver {
        worker,
        arrivals,
        pace,
        stop,
        book,
        numbers,
        slots: vec![Slot::default(); in_flight_max as usize],
        free: (0..in_flight_max).rev().collect(),
        continuing: BinaryHeap::new(),
        number: numbers.first,
        exhausted: false,
        first_late: None,
        issue_from: 0,
        prepared: false,
        launches,
        has_parts,
        now,
    };
    let mut done: Vec<Completion> = Vec::with_capacity(in_flight_max as usize);
    let mut remarks_due: Nanos = 0;
    let mut remarks: Vec<String> = Vec::new();
    loop {
        let stopping = stop.issuing.load(Ordering::Relaxed);
        if stopping {
            driver.abandon();
        }
        let blocked = !stopping && driver.issue();
        let in_flight = driver.in_flight();
        let continues = in_flight > 0 || !driver.continuing.is_empty();
        if !continues && driver.exhausted || in_flight == 0 && stop.issuing.load(Ordering::Relaxed) {
            break;
        }
        if stop.waiting.load(Ordering::Relaxed) {
            break;
        }
        // A worker with capacity wakes for the next arrival, one without for a completion.
        let look_up = driver.now + LOOK_UP;
        let due = if stopping || blocked { None } else { driver.next() };
        let waited_for = if in_flight > 0 || blocked { Some(&mut *driver.worker) } else { None };
        match due {
            Some(due) => driver.pace.wait_for_arrival(due, look_up, waited_for, &mut done)?,
            None => driver.pace.wait(look_up, waited_for, &mut done)?,
        }
        driver.now = driver.pace.now();
        if done.is_empty() {
            driver.issue_from = 0;
        }
        if driver.now >= remarks_due {
            driver.worker.remarks(&mut remarks);
            remarks_due = driver.now + 10 * LOOK_UP;
        }
        driver.record(&mut done, stopping, &mut remarks);
    }
    driver.worker.remarks(&mut remarks);
    lock(book).remarks.append(&mut remarks);
    Ok(driver.first_late.unwrap_or(0))
}

/// The state of a driven worker.
struct Driver<'d, 'a, 'p, W: Worker + ?Sized, T: Time> {
    worker: &'d mut W,
    arrivals: &'d mut Arrivals<'a>,
    pace: &'d mut Pace<'p, T>,
    stop: &'d Stop,
    book: &'d Mutex<Book>,
    numbers: Numbers,
    /// By ticket.
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The tickets of operations that continue, by the intended time of their next steps.
    continuing: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// The number of the next new operation.
    number: u64,
    exhausted: bool,
    /// How late it was with the first operation.
    first_late: Option<Nanos>,
    /// After a long turn of issuing, completions come first until then.
    issue_from: Nanos,
    /// Whether the worker prepared for the operation that is due in a closed loop.
    prepared: bool,
    /// Whether the worker launches commands, and whether it reports parts of operations.
    launches: bool,
    has_parts: bool,
    now: Nanos,
}

impl<W: Worker + ?Sized, T: Time> Driver<'_, '_, '_, W, T> {
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() - self.continuing.len()
    }

    /// When the next step or new operation is due, as far as a ticket is free for it.
    fn next(&mut self) -> Option<Nanos> {
        let step = self.continuing.peek().map(|Reverse((due, _))| *due);
        let takes_new = !self.exhausted && !self.free.is_empty();
        let new = if takes_new { self.arrivals.next(self.now) } else { None };
        step.into_iter().chain(new).min()
    }

    /// The next operation or step that is due, with its times up to now.
    #[inline]
    fn due(&mut self) -> Option<(u32, Slot)> {
        if let Some(Reverse((due, ticket))) = self.continuing.peek().copied()
            && due <= self.now
        {
            let before = self.slots[ticket as usize];
            return Some((ticket, Slot { intended: due, issued: self.pace.now(), ..before }));
        }
        if self.exhausted {
            return None;
        }
        let ticket = *self.free.last()?;
        let intended = self.arrivals.next(self.now).filter(|intended| *intended <= self.now)?;
        let (number, user, issued) = (self.number, self.arrivals.user(), self.pace.now());
        let mut slot = Slot { intended, issued, number, user, ..Slot::default() };
        if std::mem::take(&mut self.prepared) {
            slot.intended = slot.issued;
        }
        Some((ticket, slot))
    }

    /// The worker took an operation or a step.
    #[inline]
    fn taken(&mut self, slot: &Slot) {
        if slot.step == 0 {
            self.free.pop();
            self.arrivals.issued();
            self.number += self.numbers.step;
        } else {
            self.continuing.pop();
        }
    }

    /// Submits what is due, for one turn. Returns whether the worker has no capacity for more.
    fn issue(&mut self) -> bool {
        if self.now < self.issue_from {
            return false;
        }
        if self.first_late.is_none() {
            self.first_late = self.next().and_then(|due| self.now.checked_sub(due));
        }
        let turn = self.now;
        let turn_end = turn.saturating_add(ISSUE_TURN);
        let mut issued = 0;
        // Of these, the steps that are not new operations.
        let mut steps = 0;
        // For the operations issued now: the latest instant, and the sum of all instants.
        let (mut issued_last, mut issued_sum) = (self.now, 0);
        let mut blocked = false;
        while let Some((ticket, slot)) = self.due() {
            let operation = Operation { ticket, number: slot.number, step: slot.step, user: slot.user };
            match self.worker.submit(operation) {
                Admission::Accepted => {
                    self.taken(&slot);
                    self.slots[ticket as usize] = slot;
                    issued += 1;
                    steps += u64::from(slot.step > 0);
                    issued_last = slot.issued;
                    issued_sum += slot.issued;
                    if slot.issued > turn_end {
                        let now = self.pace.now();
                        self.issue_from = now.saturating_add(now.saturating_sub(turn));
                        break;
                    }
                }
                Admission::Completed(done) => {
                    self.now = self.pace.now();
                    self.taken(&slot);
                    self.completed_at_once(ticket, slot, done);
                    if self.now > turn_end || self.stop.issuing.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Admission::Busy => {
                    blocked = true;
                    break;
                }
                Admission::Preparing => {
                    self.prepared = slot.step == 0 && matches!(self.arrivals, Arrivals::Closed(_));
                    blocked = true;
                    break;
                }
                Admission::Exhausted => {
                    self.exhausted = true;
                    if slot.step > 0 {
                        self.continuing.pop();
                        self.free.push(ticket);
                    }
                }
            }
        }
        if issued > 0 {
            let in_flight = self.in_flight() as u64;
            // In the interval in which they are issued, not in that in which they are done.
            let offered = steps + self.arrivals.take_offered(issued_last);
            let mut book = lock(self.book);
            book.count_to(issued_last);
            // Operations that were issued earlier are in flight since then, even if the collector counted up
            // to a later instant.
            book.in_flight_ns += issued * book.counted_to - issued_sum;
            book.issued += issued;
            book.offered += offered;
            book.in_flight = in_flight;
        }
        blocked
    }

    /// Records an operation that was completed inside its submission.
    fn completed_at_once(&mut self, ticket: u32, slot: Slot, done: Done) {
        let now = self.now;
        let mut book = lock(self.book);
        book.issued += 1;
        book.offered += self.arrivals.take_offered(now) + u64::from(slot.step > 0);
        book.count_to(slot.issued);
        book.in_flight_ns += book.counted_to - slot.issued;
        book.in_flight += 1;
        book.count_to(now);
        book.in_flight -= 1;
        book.record(&slot, done, now);
        if self.has_parts {
            book.take_parts(self.worker);
        }
        drop(book);
        self.slots[ticket as usize] = slot;
        self.follow(ticket, done.then);
    }

    /// Frees the ticket of a completed operation, or waits for its next step.
    #[inline]
    fn follow(&mut self, ticket: u32, then: Then) {
        let slot = &mut self.slots[ticket as usize];
        match then {
            Then::End | Then::EndOf(_) => {
                self.free.push(ticket);
                self.arrivals.done(self.now, slot.user);
            }
            Then::Next(think) => {
                slot.step += 1;
                slot.response_before += self.now.saturating_sub(slot.intended);
                slot.service_before += self.now.saturating_sub(slot.issued);
                self.continuing.push(Reverse((self.now.saturating_add(think), ticket)));
            }
        }
    }

    /// Gives up the operations whose next steps were not issued yet.
    fn abandon(&mut self) {
        let tickets = self.continuing.drain().map(|Reverse((_, ticket))| ticket);
        self.free.extend(tickets);
    }

    /// Records completions.
    fn record(&mut self, done: &mut Vec<Completion>, stopping: bool, remarks: &mut Vec<String>) {
        let now = self.now;
        let mut book = lock(self.book);
        if !stopping && !self.exhausted {
            book.offered += self.arrivals.take_offered(now);
        }
        for completion in &*done {
            let at = if completion.at == 0 { now } else { completion.at.min(now) };
            book.completed(at);
            let slot = &self.slots[completion.ticket as usize];
            book.record(slot, completion.done, at);
            if self.launches
                && let Some(usage) = take_usage(self.worker, completion.ticket)
            {
                book.launches.push(CompletedLaunch {
                    kind: completion.done.kind,
                    at,
                    time: at.saturating_sub(slot.issued),
                    failed: completion.done.outcome != Outcome::Well,
                    usage,
                });
            }
        }
        if self.has_parts {
            book.take_parts(self.worker);
        }
        book.count_to(now);
        book.in_flight = (self.in_flight() - done.len()) as u64;
        book.spun_ns += self.pace.take_spun();
        book.remarks.append(remarks);
        drop(book);
        for completion in done.drain(..) {
            self.follow(completion.ticket, completion.done.then);
        }
    }
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
