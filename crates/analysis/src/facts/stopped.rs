//! Did the system stop answering? From some moment until the end of the measured time nothing succeeds, although operations
//! are in flight. This is no pause, because it does not end; and what was measured before says nothing about the load.

use model::Interval;

use super::all_issued;
use crate::measured::{Measured, Window};

/// Number of operations that the earlier rate would have completed meanwhile: with random arrivals, ten are never missing by
/// chance.
const MISSING_MIN: f64 = 10.0;
/// How many times as long as the longest earlier operation nothing must succeed: users who began together end together.
const LONGER: f64 = 3.0;
/// Number of operations in flight below which nothing waits for an answer.
const IN_FLIGHT_MIN: f64 = 0.5;
/// Share of the measured time from which a stop is its answer, whatever else was found.
const MOST: f64 = 0.2;
/// Share of the time in flight from which operations that never ended forbid a judgement of the others.
const UNANSWERED_SHARE: f64 = 0.1;

/// From when on nothing succeeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stopped {
    /// Seconds since the start of the measured time.
    pub(crate) at_s: f64,
    /// The measured time, seconds.
    pub(crate) measured_s: f64,
    /// Mean number of operations in flight from then on.
    pub(crate) in_flight: f64,
    /// Whether it answered some of them after the measured time.
    pub(crate) answered_later: bool,
}

impl Stopped {
    /// When the system stopped answering; none if it answered until the end.
    pub(crate) fn of(measured: &Measured) -> Option<Stopped> {
        let run = &measured.record.run;
        // Where all operations of a limited number were issued, the last ones may take their time.
        let is_over = all_issued(measured.record).is_some();
        if run.operations_in_turn || run.traits.grouped || measured.ends_by_itself() || is_over {
            return None;
        }
        let windows = measured.series();
        let (before, after) =
            windows.split_at(windows.iter().rposition(|window| window.rate_per_s > 0.0)? + 1);
        let length_s = |windows: &[Window]| windows.iter().map(Window::length_s).sum::<f64>();
        let (before_s, after_s) = (length_s(before), length_s(after));
        let succeeded: f64 = before.iter().map(|window| window.rate_per_s * window.length_s()).sum();
        let longest_s = before.iter().map(|window| window.longest_s).fold(0.0, f64::max);
        let in_flight = after.iter().map(|window| window.in_flight).fold(f64::INFINITY, f64::min);
        let is_stop = succeeded / before_s * after_s >= MISSING_MIN
            && after_s >= LONGER * longest_s
            && in_flight >= IN_FLIGHT_MIN;
        let waited: f64 = after.iter().map(|window| window.in_flight * window.length_s()).sum();
        // An imported result may not have the number in flight.
        let is_answer = |due: &model::Due| due.ended > due.failed;
        let stopped = Stopped {
            at_s: before_s,
            measured_s: before_s + after_s,
            in_flight: waited / after_s,
            answered_later: measured.later_intervals().any(|one| one.due.as_ref().is_some_and(is_answer)),
        };
        Some(stopped).filter(|of| is_stop && of.in_flight.is_finite() && of.measured_s.is_finite())
    }

    /// Whether it took so much of the time that no mean over it describes the system.
    pub(crate) fn takes_most(&self) -> bool {
        self.measured_s - self.at_s >= MOST * self.measured_s
    }
}

/// The operations that never ended, and their share of the time that operations were in flight, if it is so large that Little's
/// law does not hold for those that ended.
pub(crate) fn never_answered(measured: &Measured) -> Option<(u64, f64)> {
    never_answered_in(measured, &measured.intervals().collect::<Vec<_>>())
}

/// The same in consecutive intervals, for example of a load step. The number is that of all operations that never ended.
pub(crate) fn never_answered_in(measured: &Measured, intervals: &[&Interval]) -> Option<(u64, f64)> {
    let record = measured.record;
    let derived = &record.run.traits.derived;
    let wait_end_s = record.intervals.iter().map(|interval| interval.end_s).fold(measured.end_s, f64::max);
    let begin_s = intervals.iter().map(|one| one.begin_s).fold(f64::INFINITY, f64::min);
    let end_s = intervals.iter().map(|one| one.end_s).fold(f64::NEG_INFINITY, f64::max);
    let (mut operations, mut unanswered_s) = (0_u64, 0.0);
    for (_, of) in record.histograms.iter().filter(|(name, _)| !derived.iter().any(|other| other == *name)) {
        let Some(censored) = of.censored.as_deref() else { continue };
        operations = operations.saturating_add(censored.response.len());
        // Those that were never sent were not in flight.
        for value in censored.service.iter_recorded() {
            let sent_s = wait_end_s - value.value_iterated_to() as f64 / 1e9;
            unanswered_s += (end_s - sent_s.max(begin_s)).max(0.0) * value.count_at_value() as f64;
        }
    }
    let in_flight_s: f64 = intervals.iter().map(|of| of.concurrency * of.length_s()).sum();
    let share = (unanswered_s / in_flight_s).min(1.0);
    (operations > 0 && share >= UNANSWERED_SHARE).then_some((operations, share))
}
