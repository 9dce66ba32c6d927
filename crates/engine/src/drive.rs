//! The measuring loop: the only code that measures operations.
//!
//! Every operation has three instants: when it was *intended*, when it was *issued* and when it was seen
//! *done*. Lag is intended to issued, service time issued to done, response time intended to done; all three
//! are always recorded.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use model::launch::Usage;
use model::{MILLISECOND, Nanos, Times};

use crate::arrivals::{Arrivals, MeasuredTime};
use crate::clock::Time;
use crate::flight::InFlight;
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
    /// Operations in flight, by index of their names.
    pub flights: Vec<InFlight>,
    /// Operations that were due in the measured time while as many as may be in flight were.
    pub held: u64,
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
#[derive(Clone, Debug, Default)]
pub struct KindBook {
    /// Completed operations, successful or failed.
    pub completed: u64,
    /// Operations issued late.
    pub late: u64,
    /// Failed operations.
    pub failed: u64,
    /// Bytes of successful operations.
    pub bytes: u64,
    /// Those of the failed operations that were due in the measured time.
    pub due_failed: u64,
    /// The times of the completed operations that were due in the measured time.
    pub due: Times,
    /// The times of the other completed operations.
    pub other: Option<Box<Times>>,
    /// The operations that were due in the measured time and were given up: the time that each had, and the service time as
    /// far as it was handed to the system. They are not among the completed ones.
    pub censored: Option<Box<Times>>,
    /// Those of them that were never handed to the system.
    pub unsent: u64,
}

impl KindBook {
    /// Adds the results of another worker or an earlier interval.
    pub fn add(&mut self, other: &KindBook) {
        if other.is_empty() {
            return;
        }
        if let Some(censored) = other.censored.as_deref() {
            self.censored.get_or_insert_default().add(censored);
        }
        self.unsent += other.unsent;
        self.completed += other.completed;
        self.late += other.late;
        self.failed += other.failed;
        self.bytes += other.bytes;
        self.due_failed += other.due_failed;
        // An empty histogram is not searched for what it has.
        if !other.due.is_empty() {
            self.due.add(&other.due);
        }
        if let Some(times) = other.other.as_deref().filter(|times| !times.is_empty()) {
            self.other.get_or_insert_default().add(times);
        }
    }

    /// Takes the operations that were due in the measured time, as those of a later interval: here, they only completed. None
    /// if there are none.
    pub(crate) fn take_due(&mut self) -> Option<KindBook> {
        if self.due.is_empty() {
            return None;
        }
        let early = KindBook {
            due: self.due.clone(),
            due_failed: std::mem::take(&mut self.due_failed),
            ..KindBook::default()
        };
        self.times_of(false).add(&early.due);
        self.due.reset();
        Some(early)
    }

    /// The times of all completed operations.
    pub fn times(&self) -> Cow<'_, Times> {
        match self.other.as_deref().filter(|times| !times.is_empty()) {
            None => Cow::Borrowed(&self.due),
            Some(other) if self.due.is_empty() => Cow::Borrowed(other),
            Some(other) => {
                let mut all = other.clone();
                all.add(&self.due);
                Cow::Owned(all)
            }
        }
    }

    /// The times of the operations that were due in the measured time, or of the others.
    #[inline]
    fn times_of(&mut self, is_due: bool) -> &mut Times {
        if is_due { &mut self.due } else { self.other.get_or_insert_default() }
    }

    /// Whether no operation of this kind ended or was given up. With many jobs, a worker executes only one: other operations
    /// cost nothing.
    pub fn is_empty(&self) -> bool {
        self.completed == 0 && self.censored.is_none() && self.due.is_empty()
    }

    fn reset(&mut self) {
        if self.is_empty() {
            return;
        }
        self.censored = None;
        self.unsent = 0;
        self.completed = 0;
        self.late = 0;
        self.failed = 0;
        self.bytes = 0;
        self.due_failed = 0;
        self.due.reset();
        if let Some(other) = &mut self.other {
            other.reset();
        }
    }
}

impl Book {
    /// An empty book for a number of operations.
    pub fn new(kinds: usize) -> Self {
        Book {
            offered: 0,
            issued: 0,
            kinds: vec![KindBook::default(); kinds],
            failures: Vec::new(),
            remarks: Vec::new(),
            launches: Vec::new(),
            flights: vec![InFlight::default(); kinds],
            held: 0,
            spun_ns: 0,
        }
    }

    /// Adds what another worker or machine did, and takes its messages and launches. It goes on with its operations in flight.
    pub fn add(&mut self, other: &mut Book) {
        self.offered += other.offered;
        self.issued += other.issued;
        self.held += other.held;
        for (ours, theirs) in self.flights.iter_mut().zip(&other.flights) {
            ours.add(theirs);
        }
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

    /// Clears the book.
    pub fn reset(&mut self) {
        self.flights.fill(InFlight::default());
        self.offered = 0;
        self.issued = 0;
        self.held = 0;
        self.spun_ns = 0;
        self.failures.clear();
        self.remarks.clear();
        self.launches.clear();
        self.kinds.iter_mut().for_each(KindBook::reset);
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> u64 {
        self.flights.iter().map(|flight| flight.count).sum()
    }

    /// Ends the interval of the operations in flight, which are carried on in another book.
    pub fn end_interval(&mut self, now: Nanos, next: &mut Book) {
        for (flight, next) in self.flights.iter_mut().zip(&mut next.flights) {
            *next = flight.end(now);
        }
    }

    #[inline]
    fn issue(&mut self, kind: u16, at: Nanos) {
        match self.flights.get_mut(usize::from(kind)) {
            Some(flight) => flight.issue(at),
            None => debug_assert!(false, "an operation that the workload did not declare"),
        }
    }

    /// An operation in flight was completed then, as this kind; perhaps in an interval that has ended.
    #[inline]
    fn complete(&mut self, slot: &Slot, kind: u16, at: Nanos) {
        let [first, kind] = [slot.kind, kind].map(usize::from);
        if first == kind {
            if let Some(flight) = self.flights.get_mut(first) {
                flight.complete(slot.issued, at);
            }
        } else if let Ok([flight, other]) = self.flights.get_disjoint_mut([first, kind]) {
            flight.complete_as(other, slot.issued, at);
        }
    }

    #[inline]
    fn record(&mut self, slot: &Slot, before: &Before, done: Done, at: Nanos, measured: &MeasuredTime) {
        if let Then::EndOf(whole) = done.then {
            self.record_whole(slot, before, whole, done.outcome, at, measured);
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
        let is_due = measured.has(slot.intended);
        let lag = slot.issued.saturating_sub(slot.intended);
        kind.late += if lag > LATE { times } else { 0 };
        let of = kind.times_of(is_due);
        count(&mut of.response, at.saturating_sub(slot.intended), times);
        count(&mut of.service, at.saturating_sub(slot.issued), times);
        count(&mut of.lag, lag, times);
        match done.outcome {
            Outcome::Well => kind.bytes += u64::from(done.bytes),
            Outcome::Failed(code) => {
                kind.failed += times;
                kind.due_failed += if is_due { times } else { 0 };
                self.failed(done.kind, code, times);
            }
        }
    }
}

impl Book {
    /// Records an operation whose last step is done. It was due when its first step was.
    fn record_whole(
        &mut self,
        slot: &Slot,
        before: &Before,
        kind: u16,
        outcome: Outcome,
        at: Nanos,
        measured: &MeasuredTime,
    ) {
        let Some(kind) = self.kinds.get_mut(usize::from(kind)) else {
            debug_assert!(false, "the end of an operation that the workload did not declare");
            return;
        };
        let before = slot.before(before);
        let response = before.response + at.saturating_sub(slot.intended);
        let service = before.service + at.saturating_sub(slot.issued);
        let is_due = measured.has(before.begin);
        kind.completed += 1;
        kind.failed += u64::from(outcome != Outcome::Well);
        kind.due_failed += u64::from(is_due && outcome != Outcome::Well);
        let of = kind.times_of(is_due);
        count(&mut of.response, response, 1);
        count(&mut of.service, service, 1);
        count(&mut of.lag, response.saturating_sub(service), 1);
    }

    /// Records an operation that was due in the measured time and is given up: when it was issued, if it was, and when it is
    /// given up. Its true times are at least these.
    fn censor(&mut self, kind: Option<u16>, intended: Nanos, issued: Option<Nanos>, at: Nanos) {
        // A worker that does not know the kind has only one, or the first one stands for all.
        let Some(kind) = self.kinds.get_mut(usize::from(kind.unwrap_or(0))) else {
            debug_assert!(false, "an operation in flight that the workload did not declare");
            return;
        };
        let of = kind.censored.get_or_insert_default();
        kind.unsent += u64::from(issued.is_none());
        count(&mut of.response, at.saturating_sub(intended), 1);
        match issued {
            Some(issued) => {
                count(&mut of.service, at.saturating_sub(issued), 1);
                // Its lag is known.
                count(&mut kind.due.lag, issued.saturating_sub(intended), 1);
            }
            None => count(&mut of.lag, at.saturating_sub(intended), 1),
        }
    }

    /// The same of an operation of several steps that began in the measured time.
    fn censor_whole(&mut self, kind: u16, response: Nanos, service: Nanos) {
        if let Some(kind) = self.kinds.get_mut(usize::from(kind)) {
            let of = kind.censored.get_or_insert_default();
            count(&mut of.response, response, 1);
            count(&mut of.service, service, 1);
        }
    }

    /// Records the parts of the operations that were completed last.
    fn take_parts<W: Worker + ?Sized>(&mut self, worker: &mut W, measured: &MeasuredTime) {
        for part in worker.parts().into_iter().flat_map(|parts| parts.drain(..)) {
            let Some(kind) = self.kinds.get_mut(usize::from(part.kind)) else {
                debug_assert!(false, "a part that the workload did not declare");
                continue;
            };
            let is_due = measured.has(part.begin);
            let time = part.end.saturating_sub(part.begin);
            match part.ended {
                // It has no intended time of its own, so its time is not divided.
                true => {
                    kind.completed += 1;
                    count(&mut kind.times_of(is_due).response, time, 1);
                }
                false if is_due => count(&mut kind.censored.get_or_insert_default().response, time, 1),
                false => {}
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

/// The times of an operation in flight, or of one that continues later.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// When this step was intended and issued.
    intended: Nanos,
    issued: Nanos,
    number: u64,
    step: u32,
    user: Option<u32>,
    /// Its kind, as far as it was known when it was issued.
    kind: u16,
}

/// The steps of an operation before the present one.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// When the operation was intended, whatever its present step.
    begin: Nanos,
    /// The response and the service time of the steps.
    response: Nanos,
    service: Nanos,
}

impl Slot {
    /// The steps before this one, of the `last` operation of several steps that had the ticket.
    fn before(&self, last: &Before) -> Before {
        if self.step == 0 { Before { begin: self.intended, ..Before::default() } } else { *last }
    }

    /// The operation, or its present step.
    fn operation(&self, ticket: u32) -> Operation {
        Operation { ticket, number: self.number, step: self.step, user: self.user }
    }
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
    let measured = arrivals.measured();
    let mut driver = Driver {
        worker,
        measured,
        is_open: matches!(arrivals, Arrivals::Open { .. }),
        arrivals,
        pace,
        stop,
        book,
        numbers,
        slots: vec![Slot::default(); in_flight_max as usize],
        before: vec![Before::default(); in_flight_max as usize],
        free: (0..in_flight_max).rev().collect(),
        turn: Vec::with_capacity(in_flight_max as usize),
        continuing: BinaryHeap::new(),
        number: numbers.first,
        exhausted: false,
        first_late: None,
        issue_from: 0,
        full_until: None,
        prepared: false,
        launches,
        has_parts,
        end: None,
        now,
    };
    let outcome = driver.drive();
    driver.give_up();
    outcome?;
    Ok(driver.first_late.unwrap_or(0))
}

/// The end of the load, for one worker.
struct End {
    /// When the measured time was over; 0 if it did not begin. What was due earlier is issued as far as the worker takes it.
    over: Nanos,
    /// How long that goes on.
    issue_until: Nanos,
    /// When the rest was given up; none while it is not.
    given_up: Option<Nanos>,
}

/// The state of a driven worker.
struct Driver<'d, 'a, 'p, W: Worker + ?Sized, T: Time> {
    worker: &'d mut W,
    measured: &'a MeasuredTime,
    is_open: bool,
    arrivals: &'d mut Arrivals<'a>,
    pace: &'d mut Pace<'p, T>,
    stop: &'d Stop,
    book: &'d Mutex<Book>,
    numbers: Numbers,
    /// By ticket.
    slots: Vec<Slot>,
    before: Vec<Before>,
    free: Vec<u32>,
    /// The kinds of the operations that are issued in this turn, and when.
    turn: Vec<(u16, Nanos)>,
    /// The tickets of operations that continue, by the intended time of their next steps.
    continuing: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// The number of the next new operation.
    number: u64,
    exhausted: bool,
    /// How late it was with the first operation.
    first_late: Option<Nanos>,
    /// After a long turn of issuing, completions come first until then.
    issue_from: Nanos,
    /// When it had no capacity for another operation, the last time.
    full_until: Option<Nanos>,
    /// Whether the worker prepared for the operation that is due in a closed loop.
    prepared: bool,
    /// Whether the worker launches commands, and whether it reports parts of operations.
    launches: bool,
    has_parts: bool,
    /// None while the load goes on.
    end: Option<End>,
    now: Nanos,
}

impl<W: Worker + ?Sized, T: Time> Driver<'_, '_, '_, W, T> {
    /// The loop, until there is nothing to wait for, or nobody waits any more.
    fn drive(&mut self) -> Result<(), LoadError> {
        let mut done: Vec<Completion> = Vec::with_capacity(self.slots.len());
        let mut remarks_due: Nanos = 0;
        let mut remarks: Vec<String> = Vec::new();
        loop {
            if self.end.is_none() && self.stop.issuing.load(Ordering::Relaxed) {
                self.end();
            }
            // It may have been asked while a system call did not return.
            if self.stop.waiting.load(Ordering::Relaxed) {
                break;
            }
            let blocked = self.issue();
            let in_flight = self.in_flight();
            let issues_no_more = self.issues_no_more(blocked);
            if in_flight == 0 && self.continuing.is_empty() && (self.exhausted || issues_no_more) {
                break;
            }
            // A worker with capacity wakes for the next arrival, one without for a completion.
            let look_up = self.now + LOOK_UP;
            let due = if blocked { None } else { self.next() };
            let waited_for = if in_flight > 0 || blocked { Some(&mut *self.worker) } else { None };
            match due {
                Some(due) => self.pace.wait_for_arrival(due, look_up, waited_for, &mut done)?,
                None => self.pace.wait(look_up, waited_for, &mut done)?,
            }
            self.now = self.pace.now();
            if done.is_empty() {
                self.issue_from = 0;
            }
            if self.now >= remarks_due {
                self.worker.remarks(&mut remarks);
                remarks_due = self.now + 10 * LOOK_UP;
            }
            self.record(&mut done, &mut remarks);
        }
        self.worker.remarks(&mut remarks);
        lock(self.book).remarks.append(&mut remarks);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() - self.continuing.len()
    }

    /// The load ends. Operations whose steps belong to a whole that began in the measured time go on, those of others do not.
    fn end(&mut self) {
        let over = self.measured.over().unwrap_or(0);
        self.end = Some(End { over, issue_until: self.now + LOOK_UP, given_up: None });
        let going_on = std::mem::take(&mut self.continuing);
        for Reverse((due, ticket)) in going_on {
            let slot = self.slots[ticket as usize];
            let before = slot.before(&self.before[ticket as usize]);
            let goes_on =
                self.measured.has(before.begin) && self.worker.whole_of(slot.operation(ticket)).is_some();
            match goes_on || due < over {
                true => self.continuing.push(Reverse((due, ticket))),
                false => self.free.push(ticket),
            }
        }
    }

    /// Whether the load has ended and no operation that was due before is left to be issued. A worker that is `blocked` takes no
    /// more of them.
    fn issues_no_more(&mut self, blocked: bool) -> bool {
        let Some(end) = &mut self.end else { return false };
        let is_full = blocked || self.free.is_empty();
        if end.given_up.is_none()
            && (is_full || self.now >= end.issue_until || !self.arrivals.has_due_before(end.over))
        {
            end.given_up = Some(self.now);
        }
        end.given_up.is_some()
    }

    /// Gives up what is in flight or was not issued: its time is not known.
    fn give_up(&mut self) {
        // While the load goes on, a worker that ends has no more work, or failed.
        let now = self.pace.now();
        let over = self.end.as_ref().map_or(0, |end| end.over);
        let unsent_at = self.end.as_ref().and_then(|end| end.given_up).unwrap_or(now);
        let mut is_free = vec![false; self.slots.len()];
        self.free.iter().for_each(|ticket| is_free[*ticket as usize] = true);
        let waiting: HashMap<u32, Nanos> =
            self.continuing.drain().map(|Reverse((due, ticket))| (ticket, due)).collect();
        let mut book = lock(self.book);
        for (ticket, (slot, before)) in (0..).zip(self.slots.iter().zip(&self.before)) {
            if is_free[ticket as usize] {
                continue;
            }
            let before = slot.before(before);
            let due = waiting.get(&ticket).copied();
            let operation = slot.operation(ticket);
            let (intended, issued) = match due {
                Some(due) => (due, None),
                None => (slot.intended, Some(slot.issued)),
            };
            let at = if issued.is_some() { now } else { unsent_at.max(intended) };
            if self.measured.has(intended) && intended < now {
                book.censor(self.worker.kind_of(operation, issued.is_some()), intended, issued, at);
                self.worker.leave(operation, issued.is_some(), intended);
            }
            let whole = self.worker.whole_of(operation).filter(|_| self.measured.has(before.begin));
            if let Some(whole) = whole {
                let since = |begin: Nanos| if issued.is_some() { now.saturating_sub(begin) } else { 0 };
                book.censor_whole(
                    whole,
                    before.response + since(slot.intended),
                    before.service + since(slot.issued),
                );
            }
        }
        if over > 0 && !self.exhausted {
            while let Some(intended) = self.arrivals.take_due_before(over) {
                let operation = Operation { ticket: u32::MAX, number: self.number, step: 0, user: None };
                if self.measured.has(intended) {
                    book.held += u64::from(self.is_open && self.full_until >= Some(intended));
                    book.censor(self.worker.kind_of(operation, false), intended, None, unsent_at);
                    self.worker.leave(operation, false, intended);
                }
                self.number += self.numbers.step;
            }
        }
        book.take_parts(self.worker, self.measured);
    }

    /// When the next step or new operation is due, as far as a ticket is free for it.
    fn next(&mut self) -> Option<Nanos> {
        let step = self.continuing.peek().map(|Reverse((due, _))| *due);
        let takes_new = !self.exhausted && !self.free.is_empty();
        let new = if takes_new { self.arrivals.next(self.now) } else { None };
        let new = new.filter(|due| self.takes(*due));
        step.into_iter().chain(new).min()
    }

    /// Whether an operation that is or was due then is issued: always, until the load ends, but nothing of a rate that is due
    /// after the measured time. Users go on until they are stopped, because the throughput counts up to then.
    #[inline]
    fn takes(&self, due: Nanos) -> bool {
        match &self.end {
            None => !self.is_open || due < self.measured.over_at(),
            Some(end) => due < end.over && end.given_up.is_none(),
        }
    }

    /// The next operation or step that is due, with its times up to now.
    #[inline]
    fn due(&mut self) -> Option<(u32, Slot)> {
        if let Some(Reverse((due, ticket))) = self.continuing.peek().copied()
            && due <= self.now
        {
            let last = self.slots[ticket as usize];
            return Some((ticket, Slot { intended: due, issued: self.pace.now(), ..last }));
        }
        if self.exhausted {
            return None;
        }
        let Some(ticket) = self.free.last().copied() else {
            self.full_until = Some(self.now);
            return None;
        };
        let intended = self.arrivals.next(self.now).filter(|intended| *intended <= self.now)?;
        if !self.takes(intended) {
            return None;
        }
        let (number, user, issued) = (self.number, self.arrivals.user(), self.pace.now());
        let mut slot = Slot { intended, issued, number, step: 0, user, kind: 0 };
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
        // Of the operations that are issued, the steps that are not new operations.
        let mut steps = 0;
        let mut issued_last = self.now;
        // Of the new operations, those that had to wait for capacity.
        let mut held = 0;
        let mut blocked = false;
        while let Some((ticket, mut slot)) = self.due() {
            let operation = slot.operation(ticket);
            match self.worker.submit(operation) {
                Admission::Accepted => {
                    slot.kind = self.worker.kind_of(operation, true).unwrap_or(0);
                    self.taken(&slot);
                    self.slots[ticket as usize] = slot;
                    self.turn.push((slot.kind, slot.issued));
                    steps += u64::from(slot.step > 0);
                    held += u64::from(self.is_held(&slot));
                    issued_last = slot.issued;
                    if slot.issued > turn_end {
                        let now = self.pace.now();
                        self.issue_from = now.saturating_add(now.saturating_sub(turn));
                        break;
                    }
                }
                Admission::Completed(done) => {
                    self.now = self.pace.now();
                    self.taken(&slot);
                    self.completed_at_once(ticket, &slot, done);
                    if self.now > turn_end || self.stop.issuing.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Admission::Busy => {
                    self.full_until = Some(self.now);
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
        if !self.turn.is_empty() {
            // In the interval in which they are issued, not in that in which they are done.
            let offered = steps + self.arrivals.take_offered(issued_last);
            let mut book = lock(self.book);
            book.issued += self.turn.len() as u64;
            book.offered += offered;
            book.held += held;
            // In flight since it was issued, even if an interval has ended since.
            self.turn.drain(..).for_each(|(kind, at)| book.issue(kind, at));
        }
        blocked
    }

    /// Whether a new operation of an open loop waited for others in flight before it was issued.
    #[inline]
    fn is_held(&self, slot: &Slot) -> bool {
        self.is_open
            && slot.step == 0
            && self.full_until >= Some(slot.intended)
            && self.measured.has(slot.intended)
    }

    /// Records an operation that was completed inside its submission.
    fn completed_at_once(&mut self, ticket: u32, slot: &Slot, done: Done) {
        let now = self.now;
        let mut book = lock(self.book);
        book.issued += 1;
        book.held += u64::from(self.is_held(slot));
        book.offered += self.arrivals.take_offered(now) + u64::from(slot.step > 0);
        if let Some(flight) = book.flights.get_mut(usize::from(done.kind)) {
            flight.pass(slot.issued, now);
        }
        book.record(slot, &self.before[ticket as usize], done, now, self.measured);
        if self.has_parts {
            book.take_parts(self.worker, self.measured);
        }
        drop(book);
        self.follow(ticket, slot, done.then);
    }

    /// Frees the ticket of a completed operation, or waits for its next step.
    #[inline]
    fn follow(&mut self, ticket: u32, slot: &Slot, then: Then) {
        match then {
            Then::End | Then::EndOf(_) => {
                self.free.push(ticket);
                self.arrivals.done(self.now, slot.user);
            }
            Then::Next(think) => {
                let last = &mut self.before[ticket as usize];
                let mut before = slot.before(last);
                before.response += self.now.saturating_sub(slot.intended);
                before.service += self.now.saturating_sub(slot.issued);
                *last = before;
                self.slots[ticket as usize] = Slot { step: slot.step + 1, ..*slot };
                self.continuing.push(Reverse((self.now.saturating_add(think), ticket)));
            }
        }
    }

    /// Records completions.
    fn record(&mut self, done: &mut Vec<Completion>, remarks: &mut Vec<String>) {
        let now = self.now;
        let mut book = lock(self.book);
        if self.end.is_none() && !self.exhausted {
            book.offered += self.arrivals.take_offered(now);
        }
        for completion in &*done {
            let at = if completion.at == 0 { now } else { completion.at.min(now) };
            let ticket = completion.ticket as usize;
            let (slot, before) = (&self.slots[ticket], &self.before[ticket]);
            book.complete(slot, completion.done.kind, at);
            book.record(slot, before, completion.done, at, self.measured);
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
            book.take_parts(self.worker, self.measured);
        }
        book.spun_ns += self.pace.take_spun();
        book.remarks.append(remarks);
        drop(book);
        for completion in done.drain(..) {
            let slot = self.slots[completion.ticket as usize];
            self.follow(completion.ticket, &slot, completion.done.then);
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
