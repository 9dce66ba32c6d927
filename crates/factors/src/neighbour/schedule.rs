//! When the operations of a neighbour are due.

/// A load that lags by more than this does not make up for the rest, so that a stall is not followed by a long burst.
const BACKLOG_MAX_S: f64 = 1.0;

/// An open loop: operations at a fixed interval, however long each takes.
pub(super) struct Schedule {
    interval_s: f64,
    next_s: f64,
}

impl Schedule {
    /// One of `of` workers that together have an operation every `interval_s` seconds.
    pub(super) fn share(interval_s: f64, index: usize, of: usize) -> Self {
        Schedule { interval_s: interval_s * of as f64, next_s: interval_s * index as f64 }
    }

    /// When the next operation is due, which may be in the past.
    pub(super) fn next(&mut self, now_s: f64) -> f64 {
        let due_s = self.next_s.max(now_s - BACKLOG_MAX_S);
        self.next_s = due_s + self.interval_s;
        due_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_operations_and_a_stall_is_made_up_in_part() {
        let mut workers = [0, 1].map(|index| Schedule::share(0.25, index, 2));
        let mut due = |now_s| workers.each_mut().map(|worker| worker.next(now_s));
        assert_eq!(due(0.0), [0.0, 0.25]);
        assert_eq!(due(0.3), [0.5, 0.75]);
        // After a short stall every operation is due as if there had been none.
        assert_eq!(due(1.9), [1.0, 1.25]);
        assert_eq!(due(1.9), [1.5, 1.75]);
        // After a long one only those of the last second.
        assert_eq!(due(10.0), [9.0, 9.0]);
        assert_eq!(due(10.0), [9.5, 9.5]);
    }
}
