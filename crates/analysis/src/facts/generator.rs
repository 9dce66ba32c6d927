//! The activity of the load generator's threads.

use model::RunRecord;
use model::run::GeneratorUse;

/// Limit of the share of the wall-clock time in which worker threads wait for a CPU.
pub(crate) const RUN_WAIT_SHARE: f64 = 0.05;
/// Shorter total waits may be one or two time slices of other threads, which is no information in a short
/// measured time.
const RUN_WAIT_MIN_S: f64 = 0.005;

/// The shares of the measured time in which a worker thread ran, and in which it was ready to run but waited
/// for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) ran: f64,
    pub(crate) waited: f64,
    waited_s: f64,
}

impl Shares {
    /// Those of the busiest machine, if several drove the load; none if they were not recorded.
    pub(crate) fn of(record: &RunRecord) -> Option<Shares> {
        let of_machines =
            record.run.machines.iter().filter_map(|machine| Shares::used(machine.generator.as_ref()?));
        let busiest = of_machines.max_by(|a, b| (a.ran + a.waited).total_cmp(&(b.ran + b.waited)));
        busiest.or_else(|| Shares::used(&record.run.generator))
    }

    /// Those of one machine.
    pub(crate) fn used(used: &GeneratorUse) -> Option<Shares> {
        let available_s = f64::from(used.threads) * used.wall_s;
        let shares = Shares {
            ran: used.cpu_s / available_s,
            waited: used.run_wait_s / available_s,
            waited_s: used.run_wait_s,
        };
        (available_s > 0.0 && shares.ran.is_finite() && shares.waited.is_finite()).then_some(shares)
    }

    /// Whether the wait for a CPU is a visible part of response times.
    pub(crate) fn are_delayed(&self) -> bool {
        self.waited > RUN_WAIT_SHARE && self.waited_s >= RUN_WAIT_MIN_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_another_thread_is_no_delay() {
        // Waits in 30 launches of 1 ms, in as many next to other processes, and in a minute of a punctual
        // load.
        for (wall_s, waited_s, expected) in [(0.033, 0.003, false), (0.033, 0.015, true), (60.0, 0.6, false)]
        {
            let shares = Shares { ran: 0.5, waited: waited_s / wall_s, waited_s };
            assert_eq!(shares.are_delayed(), expected, "{waited_s} s of {wall_s} s");
        }
    }
}
