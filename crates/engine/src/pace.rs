//! Waiting for the next arrival. A thread that sleeps until an arrival is due wakes late, by tens of microseconds on an
//! idle machine, and every response time would hold that. So the sleep ends early, by as much as this machine has lately
//! overslept, and the rest of the time the thread spins.

use model::{MILLISECOND, Nanos};

use crate::clock::Time;
use crate::workload::{Completion, LoadError, Worker};

/// How many of the latest sleeps say how late this machine wakes.
const WINDOW: usize = 512;

/// After how many sleeps the lead is chosen anew.
const REVIEW: usize = 16;

/// The part of the sleeps that end before the arrival is due, without those that oversleep by more than [`LEAD_MAX`].
const PUNCTUAL: f64 = 0.995;

/// The longest lead. Who wakes later than this does so because others have the CPU, and spinning would take it from them.
const LEAD_MAX: Nanos = 400_000;

/// The lead before anything is known.
const LEAD_FIRST: Nanos = 100_000;

/// Of the time of a thread one in so many parts may be spent on spinning. A thread that has used it up leads by what its sleeps
/// usually take too long, and does not spin for an arrival for which it did not sleep.
const SPIN_PART: Nanos = 2;

/// Most time for spinning that is saved up.
const CREDIT_MAX: Nanos = 5 * MILLISECOND;

/// How often operations in flight are looked at while spinning, and the longest time a look is taken to last: what is longer was
/// an interruption.
const LOOK: Nanos = 1_000;
const LOOK_MAX: Nanos = 10_000;

/// The clock of a thread, and how it waits for arrivals.
pub struct Pace<'a, T: Time> {
    time: &'a T,
    spins: bool,
    /// Spinning that is allowed now, and up to when it was granted.
    credit: Nanos,
    granted_to: Nanos,
    /// Spinning that nobody has taken account of yet.
    spun: Nanos,
    oversleeps: Vec<Nanos>,
    sleeps: usize,
    /// Half of the sleeps take longer than this too long.
    lead_usual: Nanos,
    lead: Nanos,
    /// The arrival for which the thread has slept already.
    woken_for: Nanos,
}

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    SleepUntil(Nanos),
    Spin,
}

impl<'a, T: Time> Pace<'a, T> {
    /// Waits by sleeping, and by spinning too when `spins`.
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

    /// How long it has spun since this was last asked.
    pub(crate) fn take_spun(&mut self) -> Nanos {
        std::mem::take(&mut self.spun)
    }

    /// Waits for a completion of what is in flight, at most until `until`, as long as there is something in flight.
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

    /// Waits for the arrival that is due at `due`, at most until about `look_up`, or for a completion. It may return early.
    pub(crate) fn wait_for_arrival<W: Worker + ?Sized>(
        &mut self,
        due: Nanos,
        look_up: Nanos,
        worker: Option<&mut W>,
        done: &mut Vec<Completion>,
    ) -> Result<(), LoadError> {
        let now = self.time.now();
        match self.choose(due, now) {
            Wait::SleepUntil(until) => {
                let until = until.min(look_up);
                self.wait(until, worker, done)?;
                if self.spins && until > now && done.is_empty() {
                    self.learn(until, self.time.now());
                }
            }
            Wait::Spin => {
                let spun = self.spin(due, worker, done)?;
                self.spun += spun;
                self.credit = self.credit.saturating_sub(spun);
            }
        }
        Ok(())
    }

    fn choose(&mut self, due: Nanos, now: Nanos) -> Wait {
        if !self.spins || due <= now {
            return Wait::SleepUntil(due);
        }
        let granted = now.saturating_sub(self.granted_to) / SPIN_PART;
        self.credit = (self.credit + granted).min(CREDIT_MAX);
        self.granted_to = now;
        let is_affordable = self.credit >= self.lead;
        let lead = if is_affordable { self.lead } else { self.lead_usual };
        if now + lead < due {
            self.woken_for = due;
            Wait::SleepUntil(due - lead)
        } else if is_affordable || self.woken_for == due {
            Wait::Spin
        } else {
            Wait::SleepUntil(due)
        }
    }

    /// Keeps the CPU until `due` or until something is done. Returns how long.
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

    /// A sleep that was to end at `until` has ended now.
    fn learn(&mut self, until: Nanos, now: Nanos) {
        let Some(oversleep) = now.checked_sub(until) else { return };
        match self.oversleeps.get_mut(self.sleeps % WINDOW) {
            Some(place) => *place = oversleep,
            None => self.oversleeps.push(oversleep),
        }
        self.sleeps += 1;
        if self.sleeps.is_multiple_of(REVIEW) {
            // No lead makes up for the others.
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

/// Whether the worker threads of a load spin, and why, for the record. By default only where a CPU is left for the system under
/// test and the rest of Plimsoll when all of them do.
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
