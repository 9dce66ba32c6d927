//! A simulated clock, and a queue with a number of servers that uses it.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;

use engine::clock::Time;
use engine::drive::Stop;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Then, Worker};
use model::Nanos;
use model::random::Random;

/// Time passes only during waits. A sleep may last too long, in a repeating pattern.
#[derive(Default)]
pub(crate) struct SimulatedClock {
    now: Cell<Nanos>,
    oversleeps: Vec<Nanos>,
    sleeps: Cell<usize>,
    spun: Cell<Nanos>,
}

impl SimulatedClock {
    /// A clock on which consecutive sleeps last too long by these times.
    pub(crate) fn oversleeping(oversleeps: &[Nanos]) -> Self {
        SimulatedClock { oversleeps: oversleeps.to_vec(), ..Self::default() }
    }

    /// Advances the time to `at`.
    fn pass(&self, at: Nanos) {
        self.now.set(self.now.get().max(at));
    }

    /// The total spinning time.
    pub(crate) fn spun(&self) -> Nanos {
        self.spun.get()
    }
}

impl Time for SimulatedClock {
    fn now(&self) -> Nanos {
        self.now.get()
    }

    fn sleep_until(&self, until: Nanos) {
        if until <= self.now() {
            return;
        }
        let late = self.oversleeps.get(self.sleeps.get() % self.oversleeps.len().max(1)).unwrap_or(&0);
        self.sleeps.set(self.sleeps.get() + 1);
        self.pass(until + late);
    }

    fn spin_until(&self, until: Nanos) -> Nanos {
        let spun = until.saturating_sub(self.now());
        self.spun.set(self.spun.get() + spun);
        self.pass(until);
        spun
    }
}

/// A clock that ends the load, and the wait for operations in flight, at set times.
pub(crate) struct EndingClock<'a> {
    pub(crate) clock: &'a SimulatedClock,
    pub(crate) stop: &'a Stop,
    pub(crate) load_until: Nanos,
    pub(crate) wait_until: Nanos,
}

impl Time for EndingClock<'_> {
    fn now(&self) -> Nanos {
        let now = self.clock.now();
        self.stop.issuing.fetch_or(now >= self.load_until, Ordering::Relaxed);
        self.stop.waiting.fetch_or(now >= self.wait_until, Ordering::Relaxed);
        now
    }

    fn sleep_until(&self, until: Nanos) {
        self.clock.sleep_until(until);
    }

    fn spin_until(&self, until: Nanos) -> Nanos {
        self.clock.spin_until(until)
    }
}

/// First come, first served; exponential service times. Accepts no more work after `end`.
pub(crate) struct SimulatedQueue<'a> {
    clock: &'a SimulatedClock,
    free: usize,
    service: f64,
    end: Nanos,
    waiting: VecDeque<u32>,
    in_service: BinaryHeap<Reverse<(Nanos, u32)>>,
    random: Random,
    /// When each operation was submitted.
    pub(crate) issued: Vec<Nanos>,
    /// The delay between the end of each operation and its reaping.
    pub(crate) seen_late: Vec<Nanos>,
    /// The steps of each operation, and the think time between them. Several steps are the kinds 0, 1, ...; then comes the
    /// kind of the whole.
    pub(crate) steps: (u32, Nanos),
    /// How long the first submission with a ticket takes, as if it opened a connection.
    pub(crate) opening: Nanos,
    opened: HashSet<u32>,
    /// The operation in flight with each ticket.
    operations: HashMap<u32, Operation>,
    /// The user of each operation in progress.
    users: HashMap<u64, Option<u32>>,
}

impl<'a> SimulatedQueue<'a> {
    pub(crate) fn new(clock: &'a SimulatedClock, servers: usize, service: Nanos, end: Nanos) -> Self {
        SimulatedQueue {
            clock,
            free: servers,
            service: service as f64,
            end,
            waiting: VecDeque::new(),
            in_service: BinaryHeap::new(),
            random: Random::stream(7, 7),
            issued: Vec::new(),
            seen_late: Vec::new(),
            steps: (1, 0),
            opening: 0,
            opened: HashSet::new(),
            operations: HashMap::new(),
            users: HashMap::new(),
        }
    }

    /// What follows the step of an operation.
    fn completion(&mut self, ticket: u32) -> Completion {
        let (steps, think) = self.steps;
        let operation = self.operations.remove(&ticket).unwrap();
        let then = match operation.step + 1 {
            next if next < steps => Then::Next(think),
            1 => Then::End,
            _ => Then::EndOf(steps as u16),
        };
        let done = Done { then, ..Done::new(operation.step as u16, Outcome::Well, 0) };
        Completion::new(ticket, done)
    }

    fn start(&mut self, ticket: u32, at: Nanos) {
        self.free -= 1;
        let length = -self.random.open_unit().ln() * self.service;
        self.in_service.push(Reverse((at + length as Nanos, ticket)));
    }
}

impl Worker for SimulatedQueue<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.clock.now() >= self.end && operation.step == 0 {
            return Admission::Exhausted;
        }
        assert!(self.operations.insert(operation.ticket, operation).is_none(), "a ticket is used twice");
        match operation.step {
            0 => drop(self.users.insert(operation.number, operation.user)),
            _ => assert_eq!(self.users.get(&operation.number), Some(&operation.user)),
        }
        self.issued.push(self.clock.now());
        if self.opened.insert(operation.ticket) {
            self.clock.pass(self.clock.now() + self.opening);
        }
        if self.free > 0 {
            self.start(operation.ticket, self.clock.now());
        } else {
            self.waiting.push_back(operation.ticket);
        }
        Admission::Accepted
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        Some(operation.step as u16)
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        match self.in_service.peek() {
            // What is done already is seen, whatever the time to wait.
            Some(&Reverse((at, ticket))) if at <= until.max(self.clock.now()) => {
                self.in_service.pop();
                self.clock.pass(at);
                self.seen_late.push(self.clock.now() - at);
                self.free += 1;
                if let Some(next) = self.waiting.pop_front() {
                    self.start(next, at);
                }
                let completion = self.completion(ticket);
                done.push(completion);
            }
            _ => self.clock.sleep_until(until),
        }
        Ok(())
    }
}

/// Executes batches one after the other: each takes a given time and completes a number of operations at
/// once.
pub(crate) struct Batches<'a> {
    clock: &'a SimulatedClock,
    batches: VecDeque<(Nanos, u32)>,
    ticket: Option<u32>,
}

impl<'a> Batches<'a> {
    pub(crate) fn new(clock: &'a SimulatedClock, batches: &[(Nanos, u32)]) -> Self {
        Batches { clock, batches: batches.iter().copied().collect(), ticket: None }
    }
}

impl Worker for Batches<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.batches.is_empty() {
            return Admission::Exhausted;
        }
        self.ticket = Some(operation.ticket);
        Admission::Accepted
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        Some(operation.step as u16)
    }

    fn reap(&mut self, _until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        if let (Some(ticket), Some((length, count))) = (self.ticket.take(), self.batches.pop_front()) {
            self.clock.pass(self.clock.now() + length);
            done.push(Completion::new(ticket, Done { count, ..Done::new(0, Outcome::Well, 0) }));
        }
        Ok(())
    }
}

/// Operations that are seen one after another, each 1 ms after the one before, and are reported together.
pub(crate) struct Together<'a> {
    clock: &'a SimulatedClock,
    rounds: u32,
    tickets: Vec<u32>,
}

impl<'a> Together<'a> {
    pub(crate) fn new(clock: &'a SimulatedClock, rounds: u32) -> Self {
        Together { clock, rounds, tickets: Vec::new() }
    }
}

impl Worker for Together<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.rounds == 0 {
            return Admission::Exhausted;
        }
        self.tickets.push(operation.ticket);
        Admission::Accepted
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        Some(operation.step as u16)
    }

    fn reap(&mut self, _until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        self.rounds -= 1;
        for ticket in self.tickets.drain(..) {
            self.clock.pass(self.clock.now() + 1_000_000);
            let at = self.clock.now();
            done.push(Completion { ticket, done: Done::new(0, Outcome::Well, 0), at });
        }
        Ok(())
    }
}
