//! Jobs that issue operations in the proportion of their weights, as with fio's `flow`: a job waits while its part of all
//! operations issued is larger than its part of all weights.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Jobs whose operations are in proportion.
#[derive(Debug, Default)]
pub(super) struct Flow {
    lanes: Mutex<BTreeMap<u32, Lane>>,
    changed: Condvar,
}

/// A stream of operations of one job.
#[derive(Clone, Copy, Debug)]
struct Lane {
    weight: u64,
    issued: u64,
    workers: u32,
}

/// One worker's place in a flow, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    flow: Arc<Flow>,
    lane: u32,
    left: bool,
}

impl Flow {
    fn lanes(&self) -> MutexGuard<'_, BTreeMap<u32, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a lane may issue its next operation.
fn is_due(lanes: &BTreeMap<u32, Lane>, lane: u32) -> bool {
    let Some(own) = lanes.get(&lane) else { return true };
    let issued: u64 = lanes.values().map(|lane| lane.issued).sum();
    let weights: u64 = lanes.values().map(|lane| lane.weight).sum();
    u128::from(own.issued) * u128::from(weights) <= u128::from(own.weight) * u128::from(issued)
}

impl Turn {
    /// Takes part with a weight; workers of the same lane have it together.
    pub(super) fn new(flow: &Arc<Flow>, lane: u32, weight: u64) -> Self {
        flow.lanes().entry(lane).or_insert(Lane { weight, issued: 0, workers: 0 }).workers += 1;
        Turn { flow: Arc::clone(flow), lane, left: false }
    }

    /// Counts an operation, if one may be issued.
    pub(super) fn take(&self) -> bool {
        let mut lanes = self.flow.lanes();
        let due = self.left || is_due(&lanes, self.lane);
        if let Some(own) = lanes.get_mut(&self.lane).filter(|_| due) {
            own.issued += 1;
            drop(lanes);
            self.flow.changed.notify_all();
        }
        due
    }

    /// Takes back one that could not be issued after all.
    pub(super) fn put_back(&self) {
        if let Some(own) = self.flow.lanes().get_mut(&self.lane) {
            own.issued -= 1;
        }
    }

    /// Waits until an operation may be issued, at most for a time.
    pub(super) fn wait(&self, at_most: Duration) {
        let lanes = self.flow.lanes();
        let held = |lanes: &mut BTreeMap<u32, Lane>| !is_due(lanes, self.lane);
        drop(self.flow.changed.wait_timeout_while(lanes, at_most, held));
    }

    /// Does not take part any more: the others go on without this worker.
    pub(super) fn leave(&mut self) {
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        let mut lanes = self.flow.lanes();
        if let Some(own) = lanes.get_mut(&self.lane) {
            own.workers -= 1;
            if own.workers == 0 {
                lanes.remove(&self.lane);
            }
        }
        drop(lanes);
        self.flow.changed.notify_all();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_in_the_proportion_of_the_weights() {
        let flow = Arc::new(Flow::default());
        let mut turns: Vec<(Turn, u64)> =
            [(0, 1), (1, 8)].map(|(lane, weight)| (Turn::new(&flow, lane, weight), 0)).into();
        for round in 0..9000 {
            // Whoever is asked first, and however often.
            let first = round % 2;
            for at in [first, 1 - first, first] {
                let (turn, count) = &mut turns[at];
                *count += u64::from(turn.take());
            }
        }
        let counts: Vec<u64> = turns.iter().map(|(_, count)| *count).collect();
        assert!(counts[0].abs_diff(counts[1] / 8) <= 1 && counts[0] > 500, "{counts:?}");
        // The one that is left alone is not held.
        turns[1].0.leave();
        assert!((0..100).all(|_| turns[0].0.take()));
    }

    #[test]
    fn a_held_job_goes_on_as_soon_as_the_other_has_issued() {
        let flow = Arc::new(Flow::default());
        let (one, other) = (Turn::new(&flow, 0, 1), Turn::new(&flow, 1, 1));
        assert!(one.take() && !one.take());
        one.put_back();
        assert!(one.take() && !one.take());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(other.take()));
            one.wait(Duration::from_secs(60));
        });
        assert!(one.take());
    }
}
