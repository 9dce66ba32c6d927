//! The arrival times of operations. Only this module knows whether the load is open or closed, constant or
//! changing; the measuring loop does not.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Nanos, Process, Profile, Shape};

use model::random::Random;

/// The measured time, which all workers know after the warm-up. Before it, the load keeps its initial size.
#[derive(Debug)]
pub struct MeasuredTime {
    begin: AtomicU64,
    length: Nanos,
    /// When it is over, or was ended before.
    over: AtomicU64,
}

impl MeasuredTime {
    /// A measured time that has not begun. The profile of the load spans `length`.
    pub fn new(length: Nanos) -> Self {
        let (begin, over) = (AtomicU64::new(Nanos::MAX), AtomicU64::new(Nanos::MAX));
        MeasuredTime { begin, length: length.max(1), over }
    }

    /// The measured phase begins.
    pub fn begin(&self, at: Nanos) {
        self.over.store(at.saturating_add(self.length), Ordering::Relaxed);
        self.begin.store(at, Ordering::Relaxed);
    }

    /// The measured phase ends at `at`, if not earlier.
    pub fn end(&self, at: Nanos) {
        self.over.fetch_min(at, Ordering::Relaxed);
    }

    /// Whether an operation that was due at `at` was due in the measured time, as far as that has begun.
    #[inline]
    pub fn has(&self, at: Nanos) -> bool {
        at >= self.begin.load(Ordering::Relaxed) && at < self.over_at()
    }

    /// When it is or was over; the largest time while it has not begun, or has no end yet.
    #[inline]
    pub fn over_at(&self) -> Nanos {
        self.over.load(Ordering::Relaxed)
    }

    /// When it was over, for a load that has ended; none if it did not begin.
    pub(crate) fn over(&self) -> Option<Nanos> {
        let over = self.over_at();
        (over != Nanos::MAX && over > self.begin.load(Ordering::Relaxed)).then_some(over)
    }

    /// The elapsed share of the measured time at `at`, 0 to 1.
    pub fn share(&self, at: Nanos) -> f64 {
        let begin = self.begin.load(Ordering::Relaxed);
        if at <= begin { 0.0 } else { ((at - begin) as f64 / self.length as f64).min(1.0) }
    }
}

/// The arrivals of one worker's share of the load.
pub enum Arrivals<'a> {
    /// Users who issue the next operation when the previous one is done.
    Closed(Users<'a>),
    /// Operations that arrive independently of earlier ones.
    Open {
        /// The next operation to issue.
        next: Stream<'a>,
        /// The same stream, advanced to the present to count due operations.
        due: Stream<'a>,
    },
}

impl<'a> Arrivals<'a> {
    /// The arrivals of share `index` of `of`. `begin` is the start of the load.
    pub fn new(
        shape: &Shape,
        index: u32,
        of: u32,
        seed: u64,
        begin: Nanos,
        measured: &'a MeasuredTime,
    ) -> Self {
        match shape {
            Shape::Closed { users, think } => Arrivals::Closed(Users {
                profile: users.clone(),
                index,
                of,
                think: *think,
                spread: *think,
                ready: VecDeque::new(),
                present: 0,
                absent: Vec::new(),
                measured,
                offered: 0,
                begin,
            }),
            Shape::Open { rate_per_s, arrivals } => {
                let stream = Stream::new(rate_per_s.clone(), *arrivals, index, of, seed, begin, measured);
                Arrivals::Open { next: stream.clone(), due: stream }
            }
        }
    }

    /// Spreads the begin of users who come together over this time, unless their think time is longer.
    #[must_use]
    pub fn spread_over(mut self, time: Nanos) -> Self {
        if let Arrivals::Closed(users) = &mut self {
            users.spread = users.think.max(time);
        }
        self
    }

    /// The measured time that the arrivals follow.
    pub(crate) fn measured(&self) -> &'a MeasuredTime {
        match self {
            Arrivals::Closed(users) => users.measured,
            Arrivals::Open { next, .. } => next.measured,
        }
    }

    /// When the next operation is due; `None` while every user waits for a response. An open loop always has
    /// a next one.
    #[inline]
    pub fn next(&mut self, now: Nanos) -> Option<Nanos> {
        match self {
            Arrivals::Closed(users) => users.next(now),
            Arrivals::Open { next, .. } => Some(next.at),
        }
    }

    /// The user of the next operation, counted from 0 in this share; none in an open loop.
    #[inline]
    pub fn user(&self) -> Option<u32> {
        match self {
            Arrivals::Closed(users) => users.ready.front().map(|(_, user)| *user),
            Arrivals::Open { .. } => None,
        }
    }

    /// Records that the next operation was issued.
    #[inline]
    pub fn issued(&mut self) {
        match self {
            Arrivals::Closed(users) => {
                users.ready.pop_front();
                users.offered += 1;
            }
            Arrivals::Open { next, .. } => next.advance(),
        }
    }

    /// Records that the operation of a user is done; in a closed loop the user is free again.
    #[inline]
    pub fn done(&mut self, at: Nanos, user: Option<u32>) {
        if let (Arrivals::Closed(users), Some(user)) = (self, user) {
            users.wait(at + users.think, user);
        }
    }

    /// Whether an operation was due before `over` and is not issued.
    pub(crate) fn has_due_before(&mut self, over: Nanos) -> bool {
        match self {
            Arrivals::Closed(users) => users.ready.front().is_some_and(|(at, _)| *at < over),
            Arrivals::Open { next, .. } => next.at < over,
        }
    }

    /// Takes an operation that was due before `over` and is not issued: when it was due.
    pub(crate) fn take_due_before(&mut self, over: Nanos) -> Option<Nanos> {
        self.has_due_before(over).then_some(())?;
        match self {
            Arrivals::Closed(users) => users.ready.pop_front().map(|(at, _)| at),
            Arrivals::Open { next, .. } => {
                let at = next.at;
                next.advance();
                Some(at)
            }
        }
    }

    /// Number of operations that became due since the last call, issued or not: those of a rate as long as the measured time is
    /// not over.
    pub fn take_offered(&mut self, now: Nanos) -> u64 {
        match self {
            Arrivals::Closed(users) => std::mem::take(&mut users.offered),
            Arrivals::Open { due, .. } => {
                let mut count = 0;
                let over = due.measured.over_at();
                while due.at <= now && due.at < over {
                    due.advance();
                    count += 1;
                }
                count
            }
        }
    }
}

/// The users of a closed loop.
pub struct Users<'a> {
    profile: Profile,
    index: u32,
    of: u32,
    think: Nanos,
    /// Users who come together begin within this time.
    spread: Nanos,
    /// When each waiting user issues the next operation; sorted.
    ready: VecDeque<(Nanos, u32)>,
    /// Number of active users: waiting ones and those with an operation in flight.
    present: u64,
    /// Users who went, and may come again.
    absent: Vec<u32>,
    measured: &'a MeasuredTime,
    offered: u64,
    begin: Nanos,
}

impl Users<'_> {
    #[inline]
    fn next(&mut self, now: Nanos) -> Option<Nanos> {
        if self.present == 0 || !self.profile.is_constant() {
            if now < self.begin {
                return Some(self.begin);
            }
            self.come_and_go(now);
        }
        self.ready.front().map(|(at, _)| *at)
    }

    /// The user issues the next operation then: after all others, unless some have not begun yet.
    #[inline]
    fn wait(&mut self, at: Nanos, user: u32) {
        if self.ready.back().is_none_or(|(last, _)| *last <= at) {
            self.ready.push_back((at, user));
        } else {
            let place = self.ready.partition_point(|(ready, _)| *ready <= at);
            self.ready.insert(place, (at, user));
        }
    }

    /// Adjusts the number of users to the profile. A surplus user is removed when its operation is done.
    fn come_and_go(&mut self, now: Nanos) {
        let total = self.profile.at(self.measured.share(now)).round() as u64;
        // Users are distributed round robin, so that the shares add up to the total.
        let target = (total + u64::from(self.of - 1 - self.index)) / u64::from(self.of);
        // Users who come together begin at different times. Otherwise they would issue at the same moment, and again after each
        // think time.
        let coming = target.saturating_sub(self.present);
        let from = if self.present == 0 { self.begin.min(now) } else { now };
        for nth in 0..coming {
            let user = self.absent.pop().unwrap_or(self.present as u32);
            let part = (nth as f64 + f64::from(self.index) / f64::from(self.of)) / coming as f64;
            let at = from + (self.spread as f64 * part) as Nanos;
            self.wait(at, user);
            self.present += 1;
        }
        while self.present > target
            && let Some((_, user)) = self.ready.pop_back()
        {
            self.absent.push(user);
            self.present -= 1;
        }
    }
}

/// The arrival times of an open loop.
#[derive(Clone)]
pub struct Stream<'a> {
    profile: Profile,
    process: Process,
    of: u32,
    at: Nanos,
    /// The exact time of the next arrival: rounding each gap to nanoseconds would change the rate.
    at_exact: f64,
    random: Random,
    measured: &'a MeasuredTime,
}

impl<'a> Stream<'a> {
    fn new(
        profile: Profile,
        process: Process,
        index: u32,
        of: u32,
        seed: u64,
        begin: Nanos,
        measured: &'a MeasuredTime,
    ) -> Self {
        let mut stream = Stream {
            profile,
            process,
            of,
            at: begin,
            at_exact: begin as f64,
            random: Random::stream(seed, u64::from(index)),
            measured,
        };
        match process {
            // Shares are interleaved: the first arrival of share i is i gaps of the whole load after the
            // start.
            Process::Constant => stream.step(f64::from(index) / f64::from(of)),
            Process::Poisson => stream.advance(),
        }
        stream
    }

    #[inline]
    fn advance(&mut self) {
        let gaps = match self.process {
            Process::Constant => 1.0,
            Process::Poisson => -self.random.open_unit().ln(),
        };
        self.step(gaps);
    }

    /// Advances by a number of mean gaps of this share, following the changing rate.
    fn step(&mut self, mut gaps: f64) {
        /// The time step for a changing rate.
        const SLICE_S: f64 = 0.01;
        loop {
            let rate = self.profile.at(self.measured.share(self.at_exact as Nanos)) / f64::from(self.of);
            let rate = rate.max(1e-9);
            let seconds = gaps / rate;
            if self.profile.is_constant() || seconds <= SLICE_S {
                self.at_exact += seconds * 1e9;
                self.at = self.at_exact as Nanos;
                return;
            }
            gaps -= SLICE_S * rate;
            self.at_exact += SLICE_S * 1e9;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SECOND;

    fn open(rate: Profile, arrivals: Process) -> Shape {
        Shape::Open { rate_per_s: rate, arrivals }
    }

    fn count(shape: &Shape, of: u32, measured: &MeasuredTime, until: Nanos) -> u64 {
        (0..of).map(|index| Arrivals::new(shape, index, of, 7, 0, measured).take_offered(until)).sum()
    }

    #[test]
    fn arrivals_conserve_rate_times_time() {
        let measured = MeasuredTime::new(10 * SECOND);
        measured.begin(0);
        for of in [1, 3, 8] {
            let constant = open(Profile::Constant(1000.0), Process::Constant);
            assert!((9_999..=10_001).contains(&count(&constant, of, &measured, 10 * SECOND)));
            let poisson =
                count(&open(Profile::Constant(1000.0), Process::Poisson), of, &measured, 10 * SECOND);
            assert!((9_600..=10_400).contains(&poisson), "{poisson}");
            let ramp =
                count(&open(Profile::Ramp(100.0, 300.0), Process::Constant), of, &measured, 10 * SECOND);
            assert!((1_980..=2_020).contains(&ramp), "{ramp}");
        }
    }

    #[test]
    fn what_is_due_is_what_is_issued_later() {
        let measured = MeasuredTime::new(SECOND);
        let mut arrivals =
            Arrivals::new(&open(Profile::Constant(5000.0), Process::Poisson), 0, 1, 3, 0, &measured);
        let offered = arrivals.take_offered(SECOND);
        let mut issued = 0;
        while arrivals.next(SECOND).is_some_and(|at| at <= SECOND) {
            arrivals.issued();
            issued += 1;
        }
        assert_eq!(offered, issued);
    }

    #[test]
    fn users_with_a_think_time_begin_one_after_another() {
        let measured = MeasuredTime::new(SECOND);
        let shape = Shape::Closed { users: Profile::Constant(4.0), think: 100 };
        let begins: Vec<Vec<Nanos>> = (0..2)
            .map(|index| {
                let mut arrivals = Arrivals::new(&shape, index, 2, 0, 1000, &measured);
                let mut due = Vec::new();
                while let Some(at) = arrivals.next(1000) {
                    due.push(at);
                    arrivals.issued();
                }
                due
            })
            .collect();
        assert_eq!(begins, [[1000, 1050], [1025, 1075]]);
    }

    #[test]
    fn users_who_think_within_an_operation_begin_one_after_another() {
        let measured = MeasuredTime::new(SECOND);
        let shape = Shape::Closed { users: Profile::Constant(4.0), think: 0 };
        let mut arrivals = Arrivals::new(&shape, 0, 1, 0, 1000, &measured).spread_over(100);
        let mut issued = Vec::new();
        while let Some(at) = arrivals.next(1000).filter(|at| *at < 1050) {
            issued.push((at, arrivals.user()));
            arrivals.issued();
        }
        assert_eq!(issued, [(1000, Some(0)), (1025, Some(1))]);
        // Whose operation is done is next, before those who have not begun.
        arrivals.done(1040, Some(1));
        assert_eq!((arrivals.next(1050), arrivals.user()), (Some(1040), Some(1)));
        arrivals.issued();
        assert_eq!((arrivals.next(1050), arrivals.user()), (Some(1050), Some(2)));
    }

    #[test]
    fn users_come_and_go_with_the_profile() {
        let measured = MeasuredTime::new(4 * SECOND);
        let shape = Shape::Closed { users: Profile::Steps(vec![1.0, 5.0, 2.0, 0.0]), think: 0 };
        let mut shares: Vec<Arrivals> =
            (0..2).map(|index| Arrivals::new(&shape, index, 2, 0, 0, &measured)).collect();
        let waiting = |shares: &mut Vec<Arrivals>, now| -> usize {
            shares
                .iter_mut()
                .map(|share| {
                    share.next(now);
                    match share {
                        Arrivals::Closed(users) => users.ready.len(),
                        Arrivals::Open { .. } => 0,
                    }
                })
                .sum()
        };
        assert_eq!(waiting(&mut shares, 0), 1);
        measured.begin(SECOND);
        for (now, expected) in [(SECOND, 1), (2 * SECOND + 1, 5), (3 * SECOND + 1, 2), (4 * SECOND + 1, 0)] {
            assert_eq!(waiting(&mut shares, now), expected);
        }
    }

    #[test]
    fn every_present_user_has_another_number() {
        let measured = MeasuredTime::new(4 * SECOND);
        let shape = Shape::Closed { users: Profile::Steps(vec![3.0, 1.0, 4.0, 4.0]), think: 0 };
        let mut arrivals = Arrivals::new(&shape, 0, 1, 0, 0, &measured);
        measured.begin(0);
        for (now, expected) in [(1, 3), (SECOND + 1, 1), (2 * SECOND + 1, 4), (3 * SECOND + 1, 4)] {
            let mut users = Vec::new();
            while arrivals.next(now).is_some() {
                users.extend(arrivals.user());
                arrivals.issued();
            }
            users.sort_unstable();
            let count = users.len();
            users.dedup();
            assert_eq!((users.len(), count), (expected, expected), "{users:?}");
            assert!(users.iter().all(|user| *user < 4), "{users:?}");
            users.into_iter().for_each(|user| arrivals.done(now, Some(user)));
        }
    }

    #[test]
    fn users_that_begin_later_are_due_then() {
        let measured = MeasuredTime::new(SECOND);
        let shape = Shape::closed(2);
        let mut arrivals = Arrivals::new(&shape, 0, 1, 0, 500, &measured);
        assert_eq!(arrivals.next(10), Some(500));
        assert_eq!(arrivals.next(499), Some(500));
        assert_eq!(arrivals.take_offered(499), 0);
        assert!(arrivals.next(510).is_some_and(|at| at <= 510));
        arrivals.issued();
        assert!(arrivals.next(511).is_some_and(|at| at <= 511));
    }

    #[test]
    fn a_user_thinks_between_operations() {
        let measured = MeasuredTime::new(SECOND);
        let shape = Shape::Closed { users: Profile::Constant(1.0), think: 500 };
        let mut arrivals = Arrivals::new(&shape, 0, 1, 0, 0, &measured);
        assert_eq!(arrivals.next(0), Some(0));
        arrivals.issued();
        assert_eq!(arrivals.next(10), None);
        arrivals.done(100, Some(0));
        assert_eq!(arrivals.next(100), Some(600));
        assert_eq!(arrivals.take_offered(100), 1);
    }
}
