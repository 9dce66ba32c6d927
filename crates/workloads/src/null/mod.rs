//! The `null` workload: operations that do nothing, to measure the overhead of the measuring loop.
//!
//! With a service time it is the simplest possible system, a delay that operations pass in parallel, whose
//! throughput and response time are known in advance: N in flight and a service time of S give N/S operations per second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::allowed::Allowed;
use engine::clock::Clock;
use engine::workload::{
    Admission, Completion, Done, LoadError, Operation, Outcome, Share, Worker, Workload, WorkloadKind,
};
use model::experiment::WorkloadInfo;
use model::run::WorkloadTraits;
use model::{Key, Level, Nanos, Problem, Problems, SECOND, Settings, Shape};

/// The kind.
pub static NULL: NullKind = NullKind;

model::settings! {
    /// The settings.
    static SETTINGS;

    static COMPLETION: Key<Completing> = Key::choice(
        "completion",
        "When an operation completes: immediately on submission, like a blocking call, or later in batches, like a completion queue.",
    );

    static SERVICE: Key<Option<Nanos>> = Key::time(
        "service", "",
        "Simulated service time of each operation; without it, operations complete at once.",
    );

    static WORKERS: Key<u32> = Key::count("workers", 1..=256, "1", "Number of worker threads.");
}

model::choice! {
    /// Where an operation completes.
    enum Completing {
        /// Inside its submission.
        Immediate = "immediate",
        /// Afterwards, in batches.
        Queued = "queued",
    }
}

static OPERATIONS: &[&str] = &["nothing"];

/// Default number of operations in flight per worker if completions are queued.
const IN_FLIGHT: u64 = 32;

/// The longest service time: longer ones could not be interrupted when completion is immediate.
const SERVICE_MAX: Nanos = 10 * SECOND;

const DONE: Done = Done::new(0, Outcome::Well, 0);

/// The `null` workload's kind.
#[derive(Debug)]
pub struct NullKind;

/// Its traits.
static TRAITS: WorkloadTraits = WorkloadTraits::NONE;

impl WorkloadKind for NullKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "null",
            about: "Operations that do nothing, to measure the overhead of the measuring loop.",
            settings: SETTINGS,
            operations: OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        let mut problems = Problems::new();
        let service = settings.get(&SERVICE).unwrap_or(0);
        if service > SERVICE_MAX {
            problems.push(
                Problem::new(
                    format!("a service time of {} is too long", model::quantity::duration(service)),
                    "write at most 10s",
                )
                .about(&[&SERVICE]),
            );
        }
        problems.or(Box::new(Null {
            queued: settings.get(&COMPLETION) == Completing::Queued,
            service,
            workers: settings.get(&WORKERS),
        }))
    }
}

#[derive(Debug)]
struct Null {
    queued: bool,
    service: Nanos,
    workers: u32,
}

impl Workload for Null {
    fn operations(&self) -> Vec<String> {
        OPERATIONS.iter().map(ToString::to_string).collect()
    }

    fn default_shape(&self) -> Shape {
        let each = if self.queued { IN_FLIGHT } else { 1 };
        Shape::closed(u64::from(self.workers) * each)
    }

    fn workers(&self, _shape: &Shape) -> u32 {
        self.workers
    }

    fn check(&self) -> Problems {
        Problems::new()
    }

    fn limit_to(&mut self, _allowed: &Arc<Allowed>) -> Problems {
        Problems::new()
    }

    fn prepare(&mut self, _seed: u64, _say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        Ok(())
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        let clock = Clock::get();
        Ok(if self.queued {
            let room = share.in_flight_max.max(1) as usize;
            Box::new(Queued { clock, service: self.service, room, queue: VecDeque::with_capacity(room) })
        } else {
            Box::new(Immediate { clock, service: self.service })
        })
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let completion = if self.queued { "queued" } else { "immediate" };
        BTreeMap::from([
            ("completion".into(), Level::Text(completion.into())),
            ("service".into(), Level::Time(self.service)),
        ])
    }
}

/// Returns at `until`, or a little later.
fn sleep_until(clock: &Clock, until: Nanos) {
    let now = clock.now();
    if until > now {
        std::thread::sleep(Duration::from_nanos(until - now));
    }
}

/// Completes inside the submission, as a blocking call does.
struct Immediate {
    clock: Clock,
    service: Nanos,
}

impl Worker for Immediate {
    fn submit(&mut self, _operation: Operation) -> Admission {
        if self.service > 0 {
            sleep_until(&self.clock, self.clock.now() + self.service);
        }
        Admission::Completed(DONE)
    }

    fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
        Some(0)
    }

    fn reap(&mut self, _until: Nanos, _done: &mut Vec<Completion>) -> Result<(), LoadError> {
        Ok(())
    }
}

/// Completes in order of submission, everything that is due at once.
struct Queued {
    clock: Clock,
    service: Nanos,
    room: usize,
    /// Due time and ticket of each operation. The service time is constant, so the first one is due first.
    queue: VecDeque<(Nanos, u32)>,
}

impl Worker for Queued {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.queue.len() >= self.room {
            return Admission::Busy;
        }
        let due = if self.service == 0 { 0 } else { self.clock.now() + self.service };
        self.queue.push_back((due, operation.ticket));
        Admission::Accepted
    }

    fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
        Some(0)
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        let Some((first, _)) = self.queue.front() else { return Ok(()) };
        let now = if self.service == 0 {
            0
        } else {
            sleep_until(&self.clock, until.min(*first));
            self.clock.now()
        };
        while let Some((_, ticket)) = self.queue.pop_front_if(|(due, _)| *due <= now) {
            done.push(Completion::new(ticket, DONE));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(pairs: &[(&str, Level)]) -> Box<dyn Workload> {
        let mut settings = Settings::defaults(SETTINGS);
        for (name, level) in pairs {
            settings.set(name, level.clone());
        }
        NULL.configure(&settings).unwrap()
    }

    fn share(in_flight_max: u32) -> Share {
        Share { lane: 0, index: 0, of: 1, in_flight_max, is_open: false, seed: 0 }
    }

    fn operation(ticket: u32) -> Operation {
        Operation::new(ticket, u64::from(ticket))
    }

    #[test]
    fn an_immediate_operation_completes_inside() {
        let workload = workload(&[("service", Level::Time(1000))]);
        let mut worker = workload.worker(&share(1)).unwrap();
        let before = Clock::get().now();
        assert_eq!(worker.submit(operation(7)), Admission::Completed(DONE));
        assert!(Clock::get().now() >= before + 1000);
        let mut done = Vec::new();
        worker.reap(u64::MAX, &mut done).unwrap();
        assert!(done.is_empty());
    }

    #[test]
    fn queued_operations_come_back_in_one_batch() {
        let workload = workload(&[("completion", Level::Text("queued".into()))]);
        let mut worker = workload.worker(&share(3)).unwrap();
        let admissions: Vec<Admission> = (0..4).map(|ticket| worker.submit(operation(ticket))).collect();
        assert_eq!(admissions[2..], [Admission::Accepted, Admission::Busy]);
        let mut done = Vec::new();
        worker.reap(0, &mut done).unwrap();
        assert_eq!(done.iter().map(|completion| completion.ticket).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_reap_waits_neither_past_its_time_nor_past_the_first_completion() {
        let service = 5_000_000;
        let workload =
            workload(&[("completion", Level::Text("queued".into())), ("service", Level::Time(service))]);
        let mut worker = workload.worker(&share(2)).unwrap();
        let clock = Clock::get();
        let begin = clock.now();
        worker.submit(operation(0));
        let mut done = Vec::new();
        worker.reap(begin, &mut done).unwrap();
        // Nothing is due yet, unless this thread was delayed for the complete service time.
        assert!(done.is_empty() || clock.now() >= begin + service);
        worker.reap(u64::MAX, &mut done).unwrap();
        assert_eq!(done.len(), 1);
        assert!(clock.now() >= begin + service);
    }

    #[test]
    fn a_service_time_that_cannot_be_interrupted_is_refused() {
        let mut settings = Settings::defaults(SETTINGS);
        settings.set("service", Level::Time(11 * SECOND));
        let problems = NULL.configure(&settings).err().unwrap();
        assert_eq!(problems.0[0].what, "a service time of 11s is too long");
    }

    proptest::proptest! {
        #[test]
        fn every_accepted_operation_comes_back_once(room in 1u32..40, steps in proptest::collection::vec(0u8..2, 0..200)) {
            let workload = workload(&[("completion", Level::Text("queued".into()))]);
            let mut worker = workload.worker(&share(room)).unwrap();
            let (mut accepted, mut done) = (Vec::new(), Vec::new());
            for (ticket, step) in steps.into_iter().enumerate() {
                if step == 0 {
                    worker.reap(0, &mut done).unwrap();
                } else if worker.submit(operation(ticket as u32)) == Admission::Accepted {
                    accepted.push(ticket as u32);
                }
                proptest::prop_assert!(accepted.len() - done.len() <= room as usize);
            }
            worker.reap(0, &mut done).unwrap();
            proptest::prop_assert_eq!(accepted, done.iter().map(|completion| completion.ticket).collect::<Vec<_>>());
        }
    }
}
