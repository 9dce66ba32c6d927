//! What the threads of the load generator did.

use model::RunRecord;

/// Share of the wall-clock time that worker threads may wait for a CPU.
pub(crate) const RUN_WAIT_SHARE: f64 = 0.05;

/// The shares of the measured time that a worker thread ran, and that it was ready to run and waited for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) ran: f64,
    pub(crate) waited: f64,
}

impl Shares {
    /// None when they were not recorded.
    pub(crate) fn of(record: &RunRecord) -> Option<Shares> {
        let used = &record.run.generator;
        let available_s = f64::from(used.threads) * used.wall_s;
        let shares = Shares { ran: used.cpu_s / available_s, waited: used.run_wait_s / available_s };
        (available_s > 0.0 && shares.ran.is_finite() && shares.waited.is_finite()).then_some(shares)
    }
}
