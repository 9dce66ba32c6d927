//! Waits for the next arrival. A thread that sleeps until an arrival is due wakes late, by tens of
//! microseconds on an idle machine, and every response time would include this. So the sleep ends early, by
//! the recent oversleep of this machine, and the thread spins for the remaining time.

use model::{MILLISECOND, Nanos};

use crate::clock::Time;
use crate::workload::{Completion, LoadError, Worker};

/// Number of recent sleeps that determine the oversleep.
const WINDOW: usize = 512;

/// Number of sleeps after which the lead is recomputed.
const REVIEW: usize = 16;

/// Share of the sleeps that must end before the arrival is due, without those that oversleep by more than
/// [`LEAD_MAX`].
const PUNCTUAL: f64 = 0.995;

/// Limit of the lead. A longer oversleep means that other threads use the CPU, and spinning would take it
/// from them.
const LEAD_MAX: Nanos = 400_000;

/// The initial lead.
const LEAD_FIRST: Nanos = 100_000;

/// A thread may spin for one part of its time in this many. A thread that has used this up takes the median
/// oversleep as its lead, and does not spin for an arrival without a sleep before it.
const SPIN_PART: Nanos = 2;

/// Limit of the accumulated spinning time.
const CREDIT_MAX: Nanos = 5 * MILLISECOND;

/// The interval at which a spinning thread checks operations in flight, and the limit of the duration that a
/// check counts with: a longer one was an interruption.
const LOOK: Nanos = 1_000;
const LOOK_MAX: Nanos = 10_000;

/// The clock of a thread, and how it waits for arrivals.
pub struct Pace<'a, T: Time> {
    time: &'a T,
    spins: bool,
    /// The spinning time that is available now, and when it was last granted.
    credit: Nanos,
    granted_to: Nanos,
    /// Spinning time that is not accounted yet.
    spun: Nanos,
    oversleeps: Vec<Nanos>,
    sleeps: usize,
    /// The median oversleep.
    lead_usual: Nanos,
    lead: Nanos,
    /// The arrival for which the thread has already slept.
    woken_for: Nanos,
}

/// The method of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitMethod {
    SleepUntil(Nanos),
    Spin,
}

impl<'a, T: Time> Pace<'a, T> {
    /// Waits by sleeping, and also by spinning if `spins` is set.
    pub fn new(time: &'a T, spins: bool) -> Self {
        Pace {
            time,
            spins,
            credit: CREDIT_MAX,
            granted_to: time.now(),
            spun: 0,
            oversleeps: Vec::with_capacity(WINDOW),
            sleeps: 0,
            lead_usual: LEAD_FIRST / 2,
            lead: LEAD_FIRST,
            woken_for: Nanos::MAX,
        }
    }

    /// Nanoseconds on the run's clock.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.time.now()
    }

    /// The spinning time since the last call.
    pub(crate) fn take_spun(&mut self) -> Nanos {
        std::mem::take(&mut self.spun)
    }

    /// Waits for a completion at most until `until`, if operations are in flight.
    pub(crate) fn wait<W: Worker + ?Sized>(
        &self,
        until: Nanos,
        worker: Option<&mut W>,
        done: &mut Vec<Completion>,
    ) -> Result<(), LoadError> {
        match worker {
            Some(worker) => worker.reap(until, done),
            None => {
                self.time.sleep_until(until);
                Ok(())
            }
        }
    }

    /// Waits for the arrival at `due` or for a completion, at most until about `look_up`. It may return
    /// early.
    pub(crate) fn wait_for_arrival<W: Worker + ?Sized>(
        &mut self,
        due: Nanos,
        look_up: Nanos,
        worker: Option<&mut W>,
        done: &mut Vec<Completion>,
    ) -> Result<(), LoadError> {
        let now = self.time.now();
        match self.choose(due, now) {
            WaitMethod::SleepUntil(until) => {
                let until = until.min(look_up);
                self.wait(until, worker, done)?;
                if self.spins && until > now && done.is_empty() {
                    self.learn(until, self.time.now());
                }
            }
            WaitMethod::Spin => {
                let spun = self.spin(due, worker, done)?;
                self.spun += spun;
                self.credit = self.credit.saturating_sub(spun);
            }
        }
        Ok(())
    }

    fn choose(&mut self, due: Nanos, now: Nanos) -> WaitMethod {
        if !self.spins || due <= now {
            return WaitMethod::SleepUntil(due);
        }
        let granted = now.saturating_sub(self.granted_to) / SPIN_PART;
        self.credit = (self.credit + granted).min(CREDIT_MAX);
        self.granted_to = now;
        let is_affordable = self.credit >= self.lead;
        let lead = if is_affordable { self.lead } else { self.lead_usual };
        if now + lead < due {
            self.woken_for = due;
            WaitMethod::SleepUntil(due - lead)
        } else if is_affordable || self.woken_for == due {
            WaitMethod::Spin
        } else {
            WaitMethod::SleepUntil(due)
        }
    }

    /// Spins until `due` or until an operation is done. Returns the duration.
    fn spin<W: Worker + ?Sized>(
        &self,
        due: Nanos,
        worker: Option<&mut W>,
        done: &mut Vec<Completion>,
    ) -> Result<Nanos, LoadError> {
        let Some(worker) = worker else { return Ok(self.time.spin_until(due)) };
        let (mut spun, mut now) = (0, self.time.now());
        while now < due {
            worker.reap(now, done)?;
            if !done.is_empty() {
                break;
            }
            spun += self.time.now().saturating_sub(now).min(LOOK_MAX);
            spun += self.time.spin_until(due.min(now + LOOK));
            now = self.time.now();
        }
        Ok(spun)
    }

    /// Records that a sleep until `until` ended now.
    fn learn(&mut self, until: Nanos, now: Nanos) {
        let Some(oversleep) = now.checked_sub(until) else { return };
        match self.oversleeps.get_mut(self.sleeps % WINDOW) {
            Some(place) => *place = oversleep,
            None => self.oversleeps.push(oversleep),
        }
        self.sleeps += 1;
        if self.sleeps.is_multiple_of(REVIEW) {
            // No lead compensates for longer ones.
            let mut sorted: Vec<Nanos> =
                self.oversleeps.iter().copied().filter(|oversleep| *oversleep <= LEAD_MAX).collect();
            sorted.sort_unstable();
            let quantile = |share: f64| {
                let place = (sorted.len() as f64 * share) as usize;
                sorted.get(place).copied().unwrap_or(0)
            };
            (self.lead_usual, self.lead) = (quantile(0.5), quantile(PUNCTUAL));
        }
    }
}

/// Whether the worker threads of a load spin, and why, for the record. By default they spin only if this
/// leaves a CPU for the system under test and the rest of Plimsoll.
pub(crate) fn choose_spinning(wish: Option<bool>, workers: u32, cpus: usize) -> (bool, String) {
    match wish {
        Some(true) => (true, "yes, as set".into()),
        Some(false) => (false, "no, as set".into()),
        None if cpus > workers as usize => (true, "yes".into()),
        None => {
            let why =
                format!("no: worker threads: {workers}, usable CPUs: {cpus}; by default one CPU stays free");
            (false, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_spin_where_a_cpu_stays_free() {
        for (wish, workers, cpus, expected) in [
            (None, 1, 1, (false, "no: worker threads: 1, usable CPUs: 1; by default one CPU stays free")),
            (None, 1, 2, (true, "yes")),
            (None, 2, 2, (false, "no: worker threads: 2, usable CPUs: 2; by default one CPU stays free")),
            (None, 3, 4, (true, "yes")),
            (Some(true), 4, 1, (true, "yes, as set")),
            (Some(false), 1, 8, (false, "no, as set")),
        ] {
            let (spins, why) = choose_spinning(wish, workers, cpus);
            assert_eq!((spins, why.as_str()), expected);
        }
    }
}
