//! The borders between consecutive steps of work.
//!
//! Each step of consecutive operations needs separate intervals and counter samples: a window across a border
//! belongs to no step. A worker indicates borders by preparing between steps.

use model::Nanos;
use model::launch::Usage;

use crate::workload::{Admission, Completion, LoadError, Operation, Part, Worker};

/// A worker that reports the start and the end of its preparation.
pub(crate) struct Bordered<'w, F> {
    worker: Box<dyn Worker + 'w>,
    tell: F,
    prepares: bool,
}

impl<'w, F: Fn()> Bordered<'w, F> {
    pub(crate) fn new(worker: Box<dyn Worker + 'w>, tell: F) -> Self {
        // It prepares before its first operation.
        Bordered { worker, tell, prepares: true }
    }
}

impl<F: Fn()> Worker for Bordered<'_, F> {
    fn submit(&mut self, operation: Operation) -> Admission {
        let admission = self.worker.submit(operation);
        let prepares = match admission {
            Admission::Preparing => true,
            Admission::Accepted | Admission::Completed(_) => false,
            Admission::Busy | Admission::Exhausted => self.prepares,
        };
        if prepares != self.prepares {
            self.prepares = prepares;
            (self.tell)();
        }
        admission
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        self.worker.reap(until, done)
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        self.worker.remarks(out);
    }

    fn usages(&mut self) -> Option<&mut Vec<(u32, Usage)>> {
        self.worker.usages()
    }

    fn parts(&mut self) -> Option<&mut Vec<Part>> {
        self.worker.parts()
    }

    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        self.worker.kind_of(operation, accepted)
    }

    fn leave(&mut self, operation: Operation, accepted: bool, due: Nanos) {
        self.worker.leave(operation, accepted, due);
    }

    fn whole_of(&self, operation: Operation) -> Option<u16> {
        self.worker.whole_of(operation)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::workload::{Done, Outcome};

    struct Script(Vec<Admission>);

    impl Worker for Script {
        fn submit(&mut self, _operation: Operation) -> Admission {
            self.0.remove(0)
        }

        fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
            None
        }

        fn reap(&mut self, _until: Nanos, _done: &mut Vec<Completion>) -> Result<(), LoadError> {
            Ok(())
        }
    }

    #[test]
    fn a_border_is_reported_once_as_preparing_begins_and_as_it_ends() {
        use Admission::{Accepted, Busy, Completed, Exhausted, Preparing};
        let done = Completed(Done::new(0, Outcome::Well, 0));
        let reported = Cell::new(0);
        let script =
            vec![Preparing, Accepted, Busy, Accepted, Preparing, Preparing, done, done, Preparing, Exhausted];
        let expected = [0, 1, 1, 1, 2, 2, 3, 3, 4, 4];
        let mut worker = Bordered::new(Box::new(Script(script)), || reported.set(reported.get() + 1));
        for (number, expected) in expected.into_iter().enumerate() {
            worker.submit(Operation::new(0, number as u64));
            assert_eq!(reported.get(), expected, "submission {number}");
        }
    }
}
