//! Tests of the measuring loop with queues of known closed-form behaviour, on a simulated clock: no real time
//! passes, and every value is exact except for the randomness of the arrivals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

extern crate plimsoll_engine as engine;

mod queue;
mod tails;

use std::sync::Mutex;

use engine::arrivals::{Arrivals, MeasuredTime};
use engine::clock::Time;
use engine::drive::{Book, KindBook, Numbers, Stop, drive};
use engine::pace::Pace;
use model::{Nanos, Process, Profile, SECOND, Shape};
use queue::{Batches, EndingClock, SimulatedClock, SimulatedQueue, Together};

/// Drives a simulated queue with a number of `servers`. Each operation takes an exponentially distributed
/// time with the mean `service`.
fn simulate(shape: &Shape, servers: usize, service: Nanos, length: Nanos, in_flight_max: u32) -> Book {
    simulate_steps(shape, servers, service, length, in_flight_max, (1, 0))
}

/// The same with operations of several steps, and a think time between them.
fn simulate_steps(
    shape: &Shape,
    servers: usize,
    service: Nanos,
    length: Nanos,
    in_flight_max: u32,
    steps: (u32, Nanos),
) -> Book {
    let clock = SimulatedClock::default();
    let measured = MeasuredTime::new(length);
    measured.begin(0);
    let mut queue = SimulatedQueue::new(&clock, servers, service, length);
    queue.steps = steps;
    let mut arrivals = Arrivals::new(shape, 0, 1, 42, 0, &measured);
    let book = Mutex::new(Book::new(steps.0 as usize + 1));
    let numbers = Numbers { first: 0, step: 1 };
    let stop = Stop::default();
    // Users go on until the queue takes no more.
    let load_until = if matches!(shape, Shape::Open { .. }) { length } else { Nanos::MAX };
    let ending = EndingClock { clock: &clock, stop: &stop, load_until, wait_until: Nanos::MAX };
    let mut pace = Pace::new(&ending, false);
    drive(&mut queue, &mut arrivals, &mut pace, &stop, &book, numbers, in_flight_max).unwrap();
    let mut book = book.into_inner().unwrap();
    end(&mut book, clock.now());
    book
}

/// Ends the interval, and returns the time in flight of all kinds together.
fn end(book: &mut Book, now: Nanos) -> u64 {
    book.end_interval(now, &mut Book::new(book.kinds.len()));
    in_flight_ns(book)
}

fn in_flight_ns(book: &Book) -> u64 {
    book.flights.iter().map(|flight| flight.time_ns).sum()
}

fn only(book: &Book) -> &KindBook {
    &book.kinds[0]
}

fn close(seen: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((seen / expected - 1.0).abs() <= tolerance, "{what}: {seen} where {expected} is expected");
}

#[test]
fn an_open_queue_answers_as_theory_says() {
    // M/M/1: R = S / (1 - rho).
    for rho in [0.5, 0.8] {
        let shape = Shape::Open { rate_per_s: Profile::Constant(1000.0 * rho), arrivals: Process::Poisson };
        let book = simulate(&shape, 1, 1_000_000, 400 * SECOND, 4096);
        let kind = only(&book);
        close(kind.completed as f64, 400_000.0 * rho, 0.02, "throughput");
        close(kind.times().response.mean(), 1e6 / (1.0 - rho), 0.06, "response time");
        // Nothing delayed the arrivals, so response and service time are equal and nothing was late.
        close(kind.times().service.mean(), kind.times().response.mean(), 0.001, "service time");
        assert_eq!(kind.late, 0);
        // All operations except those due at the end of the work.
        assert!(book.offered.abs_diff(book.issued) <= 1);
    }
}

#[test]
fn several_servers_wait_as_erlang_says() {
    // M/M/4 at a = 3: Erlang C = 0.5094, R = S + C S / (c - a).
    let shape = Shape::Open { rate_per_s: Profile::Constant(3000.0), arrivals: Process::Poisson };
    let book = simulate(&shape, 4, 1_000_000, 200 * SECOND, 4096);
    close(only(&book).times().response.mean(), 1e6 * (1.0 + 0.509_4 / (4.0 - 3.0)), 0.06, "response time");
}

#[test]
fn a_closed_loop_obeys_littles_law() {
    let shape = Shape::Closed { users: Profile::Constant(4.0), think: 0 };
    let book = simulate(&shape, 1, 1_000_000, 100 * SECOND, 4);
    let kind = only(&book);
    close(kind.completed as f64, 100_000.0, 0.02, "throughput");
    close(kind.times().response.mean(), 4e6, 0.02, "response time");
    // The concurrency from summed time in flight, compared with X times S.
    let length = 100.0 * SECOND as f64;
    let in_flight = in_flight_ns(&book) as f64 / length;
    close(kind.completed as f64 / length * kind.times().service.mean(), in_flight, 0.005, "concurrency");
    // An operation is due when it is issued.
    assert_eq!(book.offered, book.issued);
}

#[test]
fn think_time_is_no_response_time() {
    // Interactive response time law: X = N / (R + Z).
    let shape = Shape::Closed { users: Profile::Constant(10.0), think: 20_000_000 };
    let book = simulate(&shape, 1, 1_000_000, 100 * SECOND, 10);
    let kind = only(&book);
    let x = kind.completed as f64 / (100.0 * SECOND as f64);
    close(10.0 / x, kind.times().response.mean() + 20e6, 0.02, "R + Z");
}

#[test]
fn an_operation_of_several_steps_is_measured_step_by_step_and_as_a_whole() {
    // Ten users, each with three requests and two think times between them: X = N / (3 R + 2 Z).
    let (users, think) = (10.0, 20_000_000);
    let shape = Shape::closed(users as u64);
    let length = 100 * SECOND;
    let book = simulate_steps(&shape, 1, 1_000_000, length, 10, (3, think));
    let whole = &book.kinds[3];
    let steps = &book.kinds[..3];
    let response: f64 = steps.iter().map(|kind| kind.times().response.mean()).sum();
    close(users / (whole.completed as f64 / length as f64), response + 2.0 * think as f64, 0.02, "3 R + 2 Z");
    close(
        whole.times().response.mean(),
        response,
        0.01,
        "the whole is the sum of its steps without think times",
    );
    let service: f64 = steps.iter().map(|kind| kind.times().service.mean()).sum();
    close(whole.times().service.mean(), service, 0.01, "service time of the whole");
    // Every operation that began was completed, also after the end of the work.
    for kind in steps {
        assert_eq!(kind.completed, whole.completed);
    }
    assert_eq!(book.issued, 3 * whole.completed);
    assert!(book.offered.abs_diff(book.issued) <= users as u64);
    // Users who think are not in flight.
    let requests = steps.iter().map(|kind| kind.completed).sum::<u64>() as f64;
    close(
        requests / length as f64 * service / 3.0,
        in_flight_ns(&book) as f64 / length as f64,
        0.005,
        "N = X S",
    );
}

#[test]
fn a_step_that_follows_at_once_is_due_when_the_step_before_is_done() {
    // Arrivals of whole operations at half of the capacity for their steps.
    let shape = Shape::Open { rate_per_s: Profile::Constant(250.0), arrivals: Process::Poisson };
    let book = simulate_steps(&shape, 1, 1_000_000, 400 * SECOND, 4096, (2, 0));
    let whole = &book.kinds[2];
    close(whole.completed as f64, 100_000.0, 0.02, "throughput of whole operations");
    let steps = book.kinds[0].times().response.mean() + book.kinds[1].times().response.mean();
    close(whole.times().response.mean(), steps, 0.005, "the whole and its steps");
    // A step joins the queue again when the step before ends: each request sees the M/M/1 queue of all
    // requests, R = S / (1 - rho).
    close(steps / 2.0, 1e6 / (1.0 - 0.5), 0.06, "response time of a step");
    assert_eq!(book.kinds[1].late, 0);
}

#[test]
fn an_overloaded_open_loop_confesses() {
    // Twice the capacity of the server, with at most 8 in flight: half is never issued, and the issued
    // operations are late.
    let shape = Shape::Open { rate_per_s: Profile::Constant(2000.0), arrivals: Process::Constant };
    let book = simulate(&shape, 1, 1_000_000, 20 * SECOND, 8);
    let kind = only(&book);
    close(book.offered as f64, 40_000.0, 0.01, "offered");
    close(book.issued as f64, 20_000.0, 0.03, "issued");
    assert!(kind.late > kind.completed * 9 / 10);
    // Response time counts from the intended start: the mean arrival waited for half of the backlog.
    assert!(kind.times().response.mean() > 4e9, "{}", kind.times().response.mean());
    close(kind.times().service.mean(), 8e6, 0.05, "service time");
    close(
        kind.times().lag.mean() + kind.times().service.mean(),
        kind.times().response.mean(),
        0.01,
        "lag and service make response",
    );
}

#[test]
fn how_late_the_first_operation_of_a_later_load_was() {
    let begin = SECOND;
    let arrivals = Shape::Open { rate_per_s: Profile::Constant(100.0), arrivals: Process::Constant };
    // The arrivals of the third worker of ten begin 20 ms after those of the first.
    for (shape, first) in [(Shape::closed(3), begin), (arrivals, begin + 20_000_000)] {
        for late in [0, 70_000] {
            let clock = SimulatedClock::oversleeping(&[late]);
            let measured = MeasuredTime::new(2 * SECOND);
            let mut queue = SimulatedQueue::new(&clock, 3, 2_000_000, 2 * SECOND);
            let mut arrivals = Arrivals::new(&shape, 2, 10, 42, begin, &measured);
            let book = Mutex::new(Book::new(2));
            let numbers = Numbers { first: 2, step: 10 };
            let mut pace = Pace::new(&clock, false);
            let seen = drive(&mut queue, &mut arrivals, &mut pace, &Stop::default(), &book, numbers, 3);
            assert_eq!(seen.unwrap(), late, "{shape:?}");
            assert_eq!(queue.issued.first(), Some(&(first + late)), "{shape:?}");
        }
    }
}

#[test]
fn opening_connections_does_not_delay_completions() {
    let clock = SimulatedClock::default();
    let measured = MeasuredTime::new(SECOND);
    measured.begin(0);
    // 1,000 connections that take 0.25 ms each, and operations of 2 ms.
    let (users, opening) = (1000, 250_000);
    let mut queue = SimulatedQueue::new(&clock, users, 2_000_000, SECOND);
    queue.opening = opening;
    let mut arrivals = Arrivals::new(&Shape::closed(users as u64), 0, 1, 42, 0, &measured);
    let book = Mutex::new(Book::new(2));
    let numbers = Numbers { first: 0, step: 1 };
    let mut pace = Pace::new(&clock, false);
    drive(&mut queue, &mut arrivals, &mut pace, &Stop::default(), &book, numbers, users as u32).unwrap();
    let late = queue.seen_late.iter().max().copied().unwrap();
    assert!(late <= 3 * opening, "{late} ns");
    assert_eq!(queue.issued.len(), queue.seen_late.len());
}

#[test]
fn steps_and_ramps_follow_the_measured_time() {
    let ramp = Shape::Open { rate_per_s: Profile::Ramp(0.001, 1000.0), arrivals: Process::Constant };
    close(
        only(&simulate(&ramp, 64, 1_000_000, 20 * SECOND, 256)).completed as f64,
        10_000.0,
        0.02,
        "a ramp's arrivals",
    );
    let steps = Shape::Closed { users: Profile::Steps(vec![1.0, 3.0]), think: 0 };
    // With a server for each user: one user completes 1000/s, three complete 3000/s, each for ten seconds.
    close(only(&simulate(&steps, 3, 1_000_000, 20 * SECOND, 3)).completed as f64, 40_000.0, 0.03, "steps");
}

#[test]
fn operations_that_complete_together_share_the_time() {
    let clock = SimulatedClock::default();
    let measured = MeasuredTime::new(SECOND);
    measured.begin(0);
    // The third batch has nothing to do.
    let mut batches =
        Batches::new(&clock, &[(4_000_000, 1000), (2_000_000, 1), (5_000_000, 0), (3_000_000, 3)]);
    let mut arrivals = Arrivals::new(&Shape::closed(1), 0, 1, 42, 0, &measured);
    let book = Mutex::new(Book::new(1));
    let numbers = Numbers { first: 0, step: 1 };
    let mut pace = Pace::new(&clock, true);
    drive(&mut batches, &mut arrivals, &mut pace, &Stop::default(), &book, numbers, 1).unwrap();
    let mut book = book.into_inner().unwrap();
    assert_eq!(end(&mut book, clock.now()), 14_000_000);
    let kind = only(&book);
    assert_eq!((kind.completed, kind.failed, kind.late), (1004, 0, 0));
    // The empty batch still counts as offered and issued.
    assert_eq!((book.offered, book.issued), (1005, 1005));
    let total = kind.times().service.mean() * kind.completed as f64;
    close(total, 9_000_000.0, 0.001, "the time of all together");
    assert_eq!(kind.times().response.count_between(3_900, 4_100), 1000);
}

#[test]
fn operations_that_are_reported_together_have_times_of_their_own() {
    let clock = SimulatedClock::default();
    let measured = MeasuredTime::new(SECOND);
    measured.begin(0);
    let mut worker = Together::new(&clock, 10);
    let mut arrivals = Arrivals::new(&Shape::closed(3), 0, 1, 42, 0, &measured);
    let book = Mutex::new(Book::new(1));
    let mut pace = Pace::new(&clock, false);
    let numbers = Numbers { first: 0, step: 1 };
    drive(&mut worker, &mut arrivals, &mut pace, &Stop::default(), &book, numbers, 3).unwrap();
    let mut book = book.into_inner().unwrap();
    assert_eq!((book.in_flight(), end(&mut book, clock.now())), (0, 60_000_000));
    let service = &only(&book).times().service;
    assert_eq!(only(&book).completed, 30);
    for after in [1_000_000, 2_000_000, 3_000_000] {
        assert_eq!(service.count_between(after * 99 / 100, after * 101 / 100), 10, "{after} ns");
    }
}

/// The results of evenly spaced arrivals, sometimes two at once, on a clock that oversleeps.
struct Paced {
    book: Book,
    /// The lag of each operation (intended to issued).
    lags: Vec<Nanos>,
    /// The delay from completion to its detection, of each operation.
    completions: Vec<Nanos>,
    spun: Nanos,
    length: Nanos,
}

fn pace(gap: Nanos, oversleeps: &[Nanos], spins: bool) -> Paced {
    let length = 2 * SECOND;
    let rate = SECOND as f64 / gap as f64;
    let shape = Shape::Open { rate_per_s: Profile::Constant(rate), arrivals: Process::Constant };
    let clock = SimulatedClock::oversleeping(oversleeps);
    let measured = MeasuredTime::new(length);
    measured.begin(0);
    let mut queue = SimulatedQueue::new(&clock, 64, gap / 2, length);
    let mut arrivals = Arrivals::new(&shape, 0, 1, 42, 0, &measured);
    let book = Mutex::new(Book::new(1));
    let numbers = Numbers { first: 0, step: 1 };
    let stop = Stop::default();
    let ending = EndingClock { clock: &clock, stop: &stop, load_until: length, wait_until: Nanos::MAX };
    let mut pace = Pace::new(&ending, spins);
    drive(&mut queue, &mut arrivals, &mut pace, &stop, &book, numbers, 4096).unwrap();
    let issued = std::mem::take(&mut queue.issued);
    // Fails for an operation before its time. Intended times are whole nanoseconds, rounded down.
    let lag = |(at, number): (&Nanos, Nanos)| (at + 1).checked_sub(number * gap).unwrap();
    let lags = issued.iter().zip(0..).map(lag).collect();
    let completions = std::mem::take(&mut queue.seen_late);
    Paced { book: book.into_inner().unwrap(), lags, completions, spun: clock.spun(), length }
}

#[test]
fn a_machine_that_wakes_late_is_woken_earlier() {
    // 20 to 90 us too late, as on an idle machine, and sometimes 2 ms.
    let mut oversleeps: Vec<Nanos> = (0..199).map(|i| 20_000 + (i * 7919) % 70_000).collect();
    oversleeps.push(2_000_000);
    let late = pace(2_000_000, &oversleeps, false);
    let on_time = pace(2_000_000, &oversleeps, true);
    let share = |paced: &Paced, lag: Nanos| {
        paced.lags.iter().filter(|seen| **seen <= lag).count() as f64 / paced.lags.len() as f64
    };
    assert!(share(&late, 10_000) < 0.1, "{}", share(&late, 10_000));
    assert_eq!(late.spun, 0);
    assert!(share(&on_time, 1) > 0.96, "{}", share(&on_time, 1));
    assert_eq!(on_time.lags.len(), 1000);
    // On average it spins for the difference between lead and oversleep, about 35 us in 2 ms.
    let spun = on_time.spun as f64 / on_time.length as f64;
    assert!(spun < 0.03, "{spun}");
    assert_eq!(on_time.book.spun_ns, on_time.spun);
}

#[test]
fn a_busy_machine_is_not_kept_busier() {
    // One sleep in three ends only when another program gives up the CPU: no lead compensates for this.
    let oversleeps: Vec<Nanos> =
        (0..300).map(|i| if i % 3 == 0 { 3_000_000 } else { 20_000 + i * 200 }).collect();
    let paced = pace(2_000_000, &oversleeps, true);
    let spun = paced.spun as f64 / paced.length as f64;
    assert!((0.005..0.03).contains(&spun), "{spun}");
}

#[test]
fn spinning_leaves_half_of_the_cpu() {
    // Arrivals at shorter distances than a sleep: only spinning would be punctual.
    let paced = pace(40_000, &[60_000, 70_000], true);
    let spun = paced.spun as f64 / paced.length as f64;
    assert!((0.3..=0.51).contains(&spun), "{spun}");
    // Arrivals with just enough distance for a sleep.
    let paced = pace(120_000, &[60_000, 70_000], true);
    assert!(paced.lags.iter().filter(|lag| **lag <= 1).count() > paced.lags.len() / 2);
    let spun = paced.spun as f64 / paced.length as f64;
    assert!(spun < 0.51, "{spun}");
}

#[test]
fn completions_are_seen_while_the_thread_spins() {
    // One sleep in 20 takes too long, so the thread spins for 100 us before the other arrivals, and
    // operations in flight end meanwhile.
    let mut oversleeps = vec![0; 19];
    oversleeps.push(100_000);
    let paced = pace(400_000, &oversleeps, true);
    let kind = only(&paced.book);
    let spun = paced.spun as f64 / paced.length as f64;
    assert!((0.15..0.26).contains(&spun), "{spun}");
    close(kind.times().service.mean(), 200_000.0, 0.05, "service time");
    assert_eq!(kind.times().lag.value_at_quantile(0.98), 0);
    let late = paced.completions.iter().filter(|late| **late > 1_000).count() as f64;
    assert!(late / (paced.completions.len() as f64) < 0.06, "{late}");
}
