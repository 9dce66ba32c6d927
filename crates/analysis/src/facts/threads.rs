//! The activity of single threads of a watched process. In a program whose threads pass work to each other,
//! the stage that is always busy sets the pace, and the others wait for it.

use model::claim::Stage;
use model::metrics;

use crate::measured::Measured;

/// Number of samples of a thread that a share of its time requires. In a process with many threads each one
/// is sampled rarely, and a thread with a single sample seems to have been in one state all the time.
const SAMPLES_MIN: usize = 10;

/// The activity of one thread, as shares of the time.
pub(crate) struct Thread {
    /// Running or ready to run.
    cpu: f64,
    /// CPU time only.
    pub(crate) ran: f64,
    flush: f64,
    transfer: f64,
    peer: f64,
}

impl Thread {
    /// Every thread of a process with enough samples for a share.
    pub(crate) fn all(measured: &Measured, process: &str, spans: &[(f64, f64)]) -> Vec<Thread> {
        let prefix = format!("{process} thread ");
        let threads = measured.instances(metrics::PROCESS_THREAD_CPUS);
        threads
            .filter(|thread| thread.starts_with(&prefix))
            .filter(|thread| {
                measured.samples_over(metrics::PROCESS_THREAD_CPUS, thread, spans) >= SAMPLES_MIN
            })
            .map(|thread| {
                let mean = |metric: &str| measured.mean_over(metric, thread, spans).unwrap_or(0.0);
                let ran = mean(metrics::PROCESS_THREAD_CPUS);
                Thread {
                    cpu: ran + mean(metrics::PROCESS_THREAD_READY_SHARE),
                    ran,
                    flush: mean(metrics::PROCESS_THREAD_FLUSH_WAIT_SHARE),
                    transfer: mean(metrics::PROCESS_THREAD_TRANSFER_WAIT_SHARE),
                    peer: mean(metrics::PROCESS_THREAD_PEER_WAIT_SHARE),
                }
            })
            .collect()
    }

    /// The share of the time in which it had work: it ran, or waited for a CPU, a file or another service.
    pub(crate) fn busy(&self) -> f64 {
        (self.cpu + self.flush + self.transfer + self.peer).min(1.0)
    }

    /// The share of the time in which it waited for another service.
    pub(crate) fn waited_elsewhere(&self) -> f64 {
        self.peer
    }

    /// The activity that took most of that time; the address of the other service is unknown for a thread.
    pub(crate) fn stage(&self, peer: impl Fn() -> String) -> (Stage, f64) {
        let kinds = [self.cpu, self.flush, self.transfer, self.peer];
        let most = (0..kinds.len()).max_by(|a, b| kinds[*a].total_cmp(&kinds[*b])).unwrap_or(0);
        let stage = match most {
            0 => Stage::Cpu,
            1 => Stage::Flushes,
            2 => Stage::Transfers,
            _ => Stage::Downstream(peer()),
        };
        (stage, kinds[most].min(1.0))
    }
}
