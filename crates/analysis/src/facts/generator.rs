//! What the threads of the load generator did.

use model::RunRecord;

/// Share of the wall-clock time that worker threads may wait for a CPU.
pub(crate) const RUN_WAIT_SHARE: f64 = 0.05;
/// Waits of less than this in total may be one or two turns of other threads, which says nothing in a measured time as short as
/// they are.
const RUN_WAIT_MIN_S: f64 = 0.005;

/// The shares of the measured time that a worker thread ran, and that it was ready to run and waited for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) ran: f64,
    pub(crate) waited: f64,
    waited_s: f64,
}

impl Shares {
    /// None when they were not recorded.
    pub(crate) fn of(record: &RunRecord) -> Option<Shares> {
        let used = &record.run.generator;
        let available_s = f64::from(used.threads) * used.wall_s;
        let shares = Shares {
            ran: used.cpu_s / available_s,
            waited: used.run_wait_s / available_s,
            waited_s: used.run_wait_s,
        };
        (available_s > 0.0 && shares.ran.is_finite() && shares.waited.is_finite()).then_some(shares)
    }

    /// True where response times hold enough of the wait for a CPU to show in them.
    pub(crate) fn are_delayed(&self) -> bool {
        self.waited > RUN_WAIT_SHARE && self.waited_s >= RUN_WAIT_MIN_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_another_thread_is_no_delay() {
        // Waits in 30 launches of 1 ms, in as many beside other processes, and in a minute of a load that is on time.
        for (wall_s, waited_s, expected) in [(0.033, 0.003, false), (0.033, 0.015, true), (60.0, 0.6, false)]
        {
            let shares = Shares { ran: 0.5, waited: waited_s / wall_s, waited_s };
            assert_eq!(shares.are_delayed(), expected, "{waited_s} s of {wall_s} s");
        }
    }
}
