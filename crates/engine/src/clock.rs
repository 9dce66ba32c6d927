//! The run's clock: nanoseconds since its first use in the process, cheap enough to be read around every
//! operation.
//!
//! If the CPU's time-stamp counter is constant and the kernel uses it, reading it costs a third of a
//! `clock_gettime`. Its rate is calibrated against `CLOCK_MONOTONIC` at the start and checked after every
//! trial; `run.json` has the drift.

use std::sync::OnceLock;
use std::time::Duration;

use model::Nanos;
use model::run::ClockInfo;
use rustix::time::{ClockId, clock_gettime};

/// Reads the clock and waits. The measuring loop uses this trait, so that tests can use a simulated clock.
pub trait Time {
    /// Nanoseconds on the run's clock.
    fn now(&self) -> Nanos;
    /// Sleeps until `until`, or somewhat longer.
    fn sleep_until(&self, until: Nanos);
    /// Spins until `until` without giving up the CPU. Returns the CPU time used.
    fn spin_until(&self, until: Nanos) -> Nanos;
}

/// The clock of this process. Copies show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    counter_zero: u64,
    /// Nanoseconds per tick as a 32.32 fixed-point number; 0 means that the counter is not used.
    ns_per_tick: u64,
    monotonic_zero: Nanos,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// Duration of the initial calibration: a reading is accurate to about 50 ns, so to 2 or 3 parts per million.
const CALIBRATION: Duration = Duration::from_millis(20);

/// A longer time between two readings of a spinning thread means that another thread used the CPU.
const INTERRUPTION: Nanos = 5_000;

impl Clock {
    /// The clock of the process; the first call takes 20 ms for the calibration.
    pub fn get() -> Clock {
        *CLOCK.get_or_init(|| {
            let clock = Clock { counter_zero: counter(), ns_per_tick: 0, monotonic_zero: monotonic() };
            if !counter_is_trusted() {
                return clock;
            }
            let (counter_begin, begin) = paired_reading();
            std::thread::sleep(CALIBRATION);
            let (counter_end, end) = paired_reading();
            let ticks = counter_end.wrapping_sub(counter_begin);
            if ticks == 0 {
                return clock;
            }
            let ns_per_tick = ((u128::from(end - begin) << 32) / u128::from(ticks)) as u64;
            Clock { counter_zero: counter_begin, ns_per_tick, monotonic_zero: begin }
        })
    }

    /// Nanoseconds since the creation of the clock.
    #[inline]
    pub fn now(&self) -> Nanos {
        if self.ns_per_tick == 0 {
            return monotonic() - self.monotonic_zero;
        }
        let ticks = counter().wrapping_sub(self.counter_zero);
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as Nanos
    }

    /// The source of the clock, the cost of a reading, and its drift from the kernel's clock since `since`, a
    /// reading of [`Clock::checkpoint`].
    pub fn info(&self, since: Checkpoint) -> ClockInfo {
        let readings = 1000;
        let begin = self.now();
        for _ in 0..readings {
            std::hint::black_box(self.now());
        }
        let read_ns = (self.now() - begin) as f64 / f64::from(readings);
        let now = self.checkpoint();
        let elapsed = now.monotonic.saturating_sub(since.monotonic) as f64;
        let ours = now.ours.saturating_sub(since.ours) as f64;
        let drift_ppm = if elapsed > 0.0 { (ours - elapsed) / elapsed * 1e6 } else { 0.0 };
        let source = if self.ns_per_tick == 0 { "monotonic" } else { "tsc" };
        ClockInfo { source: source.into(), read_ns, drift_ppm }
    }

    /// Reads both clocks at one instant: the closest of several attempts, so that an interruption between the
    /// readings does not count as drift.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut best = (u64::MAX, Checkpoint { ours: 0, monotonic: 0 });
        for _ in 0..16 {
            let before = self.now();
            let monotonic = monotonic();
            let width = self.now() - before;
            if width < best.0 {
                best = (width, Checkpoint { ours: before + width / 2, monotonic });
            }
        }
        best.1
    }
}

/// The run's clock and the kernel's clock at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    ours: Nanos,
    monotonic: Nanos,
}

impl Time for Clock {
    #[inline]
    fn now(&self) -> Nanos {
        Clock::now(self)
    }

    fn sleep_until(&self, until: Nanos) {
        let now = self.now();
        if until > now {
            std::thread::sleep(Duration::from_nanos(until - now));
        }
    }

    fn spin_until(&self, until: Nanos) -> Nanos {
        let (mut spun, mut last) = (0, self.now());
        while last < until {
            std::hint::spin_loop();
            let now = self.now();
            let step = now.saturating_sub(last);
            spun += if step < INTERRUPTION { step } else { 0 };
            last = now;
        }
        spun
    }
}

/// Nanoseconds since 1970-01-01 UTC, for the date of a record; never used for measurements.
pub fn unix_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec as u64 * model::SECOND + time.tv_nsec as u64
}

/// The kernel's monotonic clock.
fn monotonic() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * model::SECOND + time.tv_nsec as u64
}

/// The counter and the kernel's clock at nearly the same instant: the closest of several attempts.
fn paired_reading() -> (u64, Nanos) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = counter();
        let time = monotonic();
        let after = counter();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), time);
        }
    }
    (best.1, best.2)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: reading the time-stamp counter has no precondition on x86-64.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

/// The kernel uses the time-stamp counter as its own clock only after it tested that it is constant,
/// continues in sleep states and agrees between CPUs. So its choice is the best evidence.
fn counter_is_trusted() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_forward_and_with_the_kernel() {
        let clock = Clock::get();
        let checkpoint = clock.checkpoint();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        std::thread::sleep(Duration::from_millis(50));
        let info = clock.info(checkpoint);
        assert!(info.drift_ppm.abs() < 1000.0, "{info:?}");
    }
}
