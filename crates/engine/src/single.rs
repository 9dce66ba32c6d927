//! One operation at a time, outside of a load: for a probe that reports each of its requests.

use model::Nanos;

use crate::clock::Clock;
use crate::workload::{Admission, Done, LoadError, Operation, Worker};

/// Executes an operation of one step, and times it from its submission to its completion.
///
/// # Errors
/// When the worker cannot go on, or takes no operation.
pub fn time_operation(worker: &mut dyn Worker, number: u64) -> Result<(Nanos, Done), LoadError> {
    let clock = Clock::get();
    let mut done = Vec::new();
    loop {
        let begin = clock.now();
        match worker.submit(Operation::new(0, number)) {
            Admission::Completed(done) => return Ok((clock.now() - begin, done)),
            Admission::Accepted => {
                while done.is_empty() {
                    worker.reap(Nanos::MAX, &mut done)?;
                }
                let taken = clock.now() - begin;
                return match done.pop() {
                    Some(completion) => Ok((taken, completion.done)),
                    None => Err(LoadError::new("the operation did not complete", "")),
                };
            }
            Admission::Busy | Admission::Preparing => worker.reap(Nanos::MAX, &mut done)?,
            Admission::Exhausted => return Err(LoadError::new("the workload has no operation", "")),
        }
    }
}
