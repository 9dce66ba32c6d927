//! Open loads whose operations have known times: what is reported about those that were due in the measured time, although
//! the load ends and not all of them are waited for.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;

use engine::arrivals::{Arrivals, MeasuredTime};
use engine::clock::Time;
use engine::drive::{Book, KindBook, Numbers, Stop, drive};
use engine::pace::Pace;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};
use model::random::Random;
use model::{LatencySummary, MILLISECOND, Nanos, Process, Profile, SECOND, Shape, Times};

use crate::queue::{EndingClock, SimulatedClock};

/// How long an operation takes, whatever else is in flight.
#[derive(Clone, Copy, Debug)]
enum Tail {
    Constant,
    Exponential,
    /// With the shape 1.2: the mean is five times the median.
    Pareto,
    /// Nothing is answered between these times.
    Stall(Nanos, Nanos),
}

/// A system in which no operation waits for another.
struct Delays<'a> {
    clock: &'a SimulatedClock,
    tail: Tail,
    seed: u64,
    in_flight: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// What is submitted, by ticket.
    operations: RefCell<Vec<(u32, Operation)>>,
}

/// The kind of an operation: each third one is of the second kind.
fn kind_of(number: u64) -> u16 {
    u16::from(number % 3 == 2)
}

impl Delays<'_> {
    fn time(&self, number: u64) -> Nanos {
        let mut random = Random::stream(self.seed, number);
        let usual = 10.0 * MILLISECOND as f64;
        (match self.tail {
            Tail::Constant | Tail::Stall(..) => usual,
            Tail::Exponential => -random.open_unit().ln() * 4.0 * usual,
            Tail::Pareto => usual * random.open_unit().powf(-1.0 / 1.2),
        }) as Nanos
    }
}

impl Worker for Delays<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        let mut done = self.clock.now() + self.time(operation.number);
        if let Tail::Stall(from, to) = self.tail
            && (from..to).contains(&done)
        {
            done = to;
        }
        self.in_flight.push(Reverse((done, operation.ticket)));
        self.operations.get_mut().push((operation.ticket, operation));
        Admission::Accepted
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        match self.in_flight.peek() {
            Some(Reverse((at, _))) if *at <= until.max(self.clock.now()) => {
                self.clock.sleep_until(*at);
                let now = self.clock.now();
                while let Some(Reverse((at, ticket))) =
                    self.in_flight.peek().copied().filter(|first| first.0.0 <= now)
                {
                    self.in_flight.pop();
                    let operations = self.operations.get_mut();
                    let place = operations.iter().position(|(of, _)| *of == ticket).unwrap();
                    let (_, operation) = operations.swap_remove(place);
                    let outcome = if operation.number % 10 == 9 { Outcome::Failed(1) } else { Outcome::Well };
                    let completion =
                        Completion::new(ticket, Done::new(kind_of(operation.number), outcome, 0));
                    done.push(Completion { at, ..completion });
                }
            }
            _ => self.clock.sleep_until(until),
        }
        Ok(())
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        Some(kind_of(operation.number))
    }
}

/// A measured time of two seconds after a warm-up.
struct Load {
    tail: Tail,
    process: Process,
    seed: u64,
    warm_up: Nanos,
    in_flight_max: u32,
    wait: Nanos,
}

const MEASURED: Nanos = 2 * SECOND;
const RATE_PER_S: f64 = 200.0;

impl Load {
    fn drive(&self) -> Book {
        let clock = SimulatedClock::default();
        let stop = Stop::default();
        let measured = MeasuredTime::new(MEASURED);
        measured.begin(self.warm_up);
        // The end is noticed a moment later.
        let load_until = self.warm_up + MEASURED + 12 * MILLISECOND;
        let ending =
            EndingClock { clock: &clock, stop: &stop, load_until, wait_until: load_until + self.wait };
        let mut system = Delays {
            clock: &clock,
            tail: self.tail,
            seed: self.seed,
            in_flight: BinaryHeap::new(),
            operations: RefCell::default(),
        };
        let shape = Shape::Open { rate_per_s: Profile::Constant(RATE_PER_S), arrivals: self.process };
        let mut arrivals = Arrivals::new(&shape, 0, 1, self.seed, 0, &measured);
        let book = Mutex::new(Book::new(2));
        let numbers = Numbers { first: 0, step: 1 };
        let mut pace = Pace::new(&ending, false);
        drive(&mut system, &mut arrivals, &mut pace, &stop, &book, numbers, self.in_flight_max).unwrap();
        book.into_inner().unwrap()
    }
}

fn summary(kind: &KindBook) -> LatencySummary {
    let none = Times::default();
    LatencySummary::of_censored(&kind.due.response, &kind.censored.as_deref().unwrap_or(&none).response)
}

fn judged(kind: &KindBook) -> u64 {
    kind.due.response.len() + kind.censored.as_ref().map_or(0, |censored| censored.response.len())
}

#[test]
fn no_reported_time_is_better_than_that_of_the_load_run_to_completion() {
    let (mut exact, mut bounds, mut held) = (0, 0, 0);
    for seed in 0..1000 {
        let end = |warm_up: Nanos| warm_up + MEASURED;
        let warm_up = if seed % 2 == 0 { 0 } else { SECOND };
        let tail = match seed % 5 {
            0 => Tail::Constant,
            1 => Tail::Exponential,
            2 => Tail::Pareto,
            3 => Tail::Stall(end(warm_up) - 700 * MILLISECOND, end(warm_up) + 900 * MILLISECOND),
            // Until after the wait.
            _ => Tail::Stall(end(warm_up) - 200 * MILLISECOND, end(warm_up) + 5 * SECOND),
        };
        let load = Load {
            tail,
            process: if seed % 3 == 0 { Process::Constant } else { Process::Poisson },
            seed,
            warm_up,
            // While nothing is answered, the limit holds back what would not be answered either.
            in_flight_max: if matches!(tail, Tail::Stall(..)) && seed % 7 < 3 { 16 } else { 4096 },
            wait: SECOND,
        };
        let book = load.drive();
        let complete = Load { in_flight_max: 4096, wait: 100_000 * SECOND, ..load }.drive();
        assert!(complete.kinds.iter().all(|kind| kind.censored.is_none()), "{seed}");
        for (kind, complete) in book.kinds.iter().zip(&complete.kinds) {
            // Every operation that was due in the measured time is there, and no other.
            assert_eq!(judged(kind), judged(complete), "{seed} {tail:?}");
            assert!(kind.due_failed <= complete.due_failed, "{seed}");
            let (seen, truth) = (summary(kind), summary(complete));
            for part in LatencySummary::PARTS {
                let (seen_ms, true_ms) = (seen.part(part).unwrap(), truth.part(part).unwrap());
                let is_equal = (seen_ms / true_ms - 1.0).abs() <= 0.002;
                match seen.at_least.has(part) {
                    true => {
                        assert!(seen_ms <= true_ms * 1.002, "{seed} {tail:?} {part}: {seen_ms} {true_ms}")
                    }
                    false => assert!(is_equal, "{seed} {tail:?} {part}: {seen_ms} {true_ms}"),
                }
                match seen.at_least.has(part) {
                    true => bounds += 1,
                    false => exact += 1,
                }
            }
        }
        held += book.held;
        assert_eq!(complete.held, 0);
    }
    // Both sides of the rule were tested.
    assert!(exact > 3000 && bounds > 1000 && held > 1000, "{exact} {bounds} {held}");
}

#[test]
fn a_backlog_is_in_the_times_and_not_in_the_throughput() {
    // Nothing is answered in the last second of two.
    let load = Load {
        tail: Tail::Stall(SECOND, 3 * SECOND),
        process: Process::Constant,
        seed: 7,
        warm_up: 0,
        in_flight_max: 4096,
        wait: 30 * SECOND,
    };
    let book = load.drive();
    let due: u64 = book.kinds.iter().map(|kind| kind.due.response.len()).sum();
    // What is due at the end of the measured time is not in it.
    assert_eq!((due, book.offered, book.issued), (400, 400, 400));
    let all = book.kinds.iter().fold(Times::default(), |mut all, kind| {
        all.add(&kind.due);
        all
    });
    // Half of them waited for the end of the stall, 1 to 2 s.
    assert!(
        (198..=204)
            .contains(&all.response.count_between(SECOND - 20 * MILLISECOND, 2 * SECOND + MILLISECOND))
    );
    let failed: u64 = book.kinds.iter().map(|kind| kind.due_failed).sum();
    assert_eq!(failed, 40);
}

#[test]
fn a_frozen_system_is_no_slow_load_generator() {
    // 16 operations may be in flight, and none is answered.
    let load = Load {
        tail: Tail::Stall(0, 100 * SECOND),
        process: Process::Constant,
        seed: 7,
        warm_up: 0,
        in_flight_max: 16,
        wait: SECOND,
    };
    let book = load.drive();
    let censored: u64 = book.kinds.iter().map(judged).sum();
    let unsent: u64 = book.kinds.iter().map(|kind| kind.unsent).sum();
    assert_eq!((censored, unsent, book.held), (400, 384, 384));
    assert_eq!(book.kinds.iter().map(|kind| kind.completed).sum::<u64>(), 0);
    // The first operation had three seconds; those that were never sent had until the end of the load.
    let [most, unsent] = [
        book.kinds.iter().map(|kind| kind.censored.as_ref().unwrap().response.max()).max().unwrap(),
        book.kinds.iter().map(|kind| kind.censored.as_ref().unwrap().lag.max()).max().unwrap(),
    ];
    assert!(most.abs_diff(3 * SECOND) < 60 * MILLISECOND, "{most}");
    assert!(unsent.abs_diff(MEASURED - 16 * 5 * MILLISECOND) < 60 * MILLISECOND, "{unsent}");
    // Of each kind, those in flight are known as its own.
    assert_eq!(book.flights.iter().map(|flight| flight.count).collect::<Vec<_>>(), [11, 5]);
    // Two thirds are of the first kind.
    assert_eq!(judged(&book.kinds[0]), 267);
}
