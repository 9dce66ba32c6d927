//! Where one step of work ends and the next begins.
//!
//! Of operations that follow one another each step is to have intervals and samples of counters of its own: a window that lies
//! across a border belongs to neither. A worker shows the borders by itself, as it prepares between steps.

use model::Nanos;
use model::launch::Usage;

use crate::workload::{Admission, Completion, LoadError, Operation, Worker};

/// A worker that tells when it begins to prepare, and when it is done with that.
pub(crate) struct Bordered<'w, F> {
    worker: Box<dyn Worker + 'w>,
    tell: F,
    prepares: bool,
}

impl<'w, F: Fn()> Bordered<'w, F> {
    pub(crate) fn new(worker: Box<dyn Worker + 'w>, tell: F) -> Self {
        // Before its first operation it prepares.
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

        fn reap(&mut self, _until: Nanos, _done: &mut Vec<Completion>) -> Result<(), LoadError> {
            Ok(())
        }
    }

    #[test]
    fn a_border_is_told_once_as_preparing_begins_and_as_it_ends() {
        use Admission::{Accepted, Busy, Completed, Exhausted, Preparing};
        let done = Completed(Done { kind: 0, outcome: Outcome::Well, bytes: 0, count: 1 });
        let told = Cell::new(0);
        let script =
            vec![Preparing, Accepted, Busy, Accepted, Preparing, Preparing, done, done, Preparing, Exhausted];
        let expected = [0, 1, 1, 1, 2, 2, 3, 3, 4, 4];
        let mut worker = Bordered::new(Box::new(Script(script)), || told.set(told.get() + 1));
        for (number, expected) in expected.into_iter().enumerate() {
            worker.submit(Operation { ticket: 0, number: number as u64 });
            assert_eq!(told.get(), expected, "submission {number}");
        }
    }
}
