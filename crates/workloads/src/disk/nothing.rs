//! Operations that are complete as soon as they are issued: the places of a load without its I/O. What is measured is the cost of
//! the load generator, never of a disk.

use engine::clock::Clock;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Share, Worker};
use model::Nanos;

use super::prepare::Ready;
use super::settings::DiskPlan;
use super::stream::{Step, Stream};

/// One thread that issues nothing.
pub(super) struct NothingWorker<'a> {
    stream: Stream<'a>,
}

impl<'a> NothingWorker<'a> {
    pub(super) fn new(plan: &DiskPlan, ready: &'a Ready, share: &Share) -> Self {
        NothingWorker { stream: Stream::new(plan, ready, share) }
    }
}

impl Worker for NothingWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        match self.stream.next(operation.number) {
            Step::Transfer(place) => Admission::Completed(self.stream.settle(&place, &[])),
            Step::Sync(_) => Admission::Completed(Done::new(self.stream.kinds.sync, Outcome::Well, 0)),
            Step::Taken => Admission::Busy,
            Step::Held => Admission::Preparing,
            Step::Over => Admission::Exhausted,
        }
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        Some(self.stream.kind_of(operation.number))
    }

    fn reap(&mut self, until: Nanos, _done: &mut Vec<Completion>) -> Result<(), LoadError> {
        self.stream.wait_for_turn(until, Clock::get().now());
        Ok(())
    }
}
