//! The run's clock: nanoseconds since the clock was made, cheap enough to read around every operation.

use model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The process-wide clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(());

impl Clock {
    /// The clock.
    pub fn get() -> Self {
        Clock(())
    }

    /// Nanoseconds on it.
    pub fn now(self) -> Nanos {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as u64 * model::SECOND + now.tv_nsec as u64
    }
}
