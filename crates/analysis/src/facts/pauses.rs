//! Spans of the measured time in which the service answered nothing although operations were in flight.
//!
//! A span without completions is not necessarily a pause: users who began together end together, and a quota
//! throttles a service in each of its periods. It is a pause if the operations completed afterwards had
//! waited that long.

use model::metrics;

use super::service;
use crate::measured::{Measured, Window};
use crate::statistics::{mean, median, variance};

/// Share of the mean rate below which an interval counts as quiet.
const QUIET: f64 = 0.1;
/// Number of consecutive quiet intervals in a pause: a single one may be a period of a quota, mostly of 100
/// ms.
const INTERVALS_MIN: usize = 2;
/// Number of operations that the mean rate would have completed meanwhile: with random arrivals, ten are
/// never missing by chance.
const MISSING_MIN: f64 = 10.0;
/// Number of operations in flight that must all be delayed: with fewer, a pause looks like some slow
/// operations.
pub(crate) const IN_FLIGHT_MIN: f64 = 4.0;
/// Number of pauses from which they count as repeated.
pub(crate) const PAUSES_MIN: usize = 3;
/// How much longer than the earlier ones the last pause may be: one that does not end is none.
const LONGER: f64 = 2.0;
/// Share of the time from which pauses are reported.
pub(crate) const TOLD_SHARE: f64 = 0.01;
/// Share of the time from which pauses distort the mean thread states.
const BLURRED_SHARE: f64 = 0.3;
/// Standard deviation of the times from pause to pause, as a share of their mean, up to which they are
/// regular.
const REGULAR: f64 = 0.2;

/// The pauses of the measured time.
pub(crate) struct Pauses {
    /// The spans of time that are certainly within a pause, including one that the end of the measured time
    /// truncates.
    pub(crate) still: Vec<(f64, f64)>,
    /// The spans of time that are certainly between pauses.
    pub(crate) between: Vec<(f64, f64)>,
    /// The durations of the complete pauses, seconds: longer than `still`, by half an interval on average on
    /// each side.
    pub(crate) lengths_s: Vec<f64>,
    pub(crate) lost_share: f64,
    pub(crate) in_flight: f64,
    /// Responses per second between them.
    pub(crate) between_per_s: f64,
}

impl Pauses {
    /// The pauses of a run with a constant load.
    pub(crate) fn of(measured: &Measured) -> Option<Pauses> {
        let pauses = Pauses::find(&measured.series()).filter(|_| measured.is_meant_steady())?;
        // A service throttled by its quota pauses too; the quota is then the cause.
        let held_back = |service: &&str| {
            let metric = metrics::PROCESS_THROTTLED_SHARE;
            let throttled = measured.mean_over(metric, service, &pauses.still);
            let throttled = throttled.or_else(|| measured.mean(metric, service));
            throttled.is_some_and(|share| share >= service::THROTTLED_SHARE)
        };
        (pauses.lost_share >= TOLD_SHARE && !service::services(measured).iter().any(held_back))
            .then_some(pauses)
    }

    /// Whether they take so much of the time that a mean over it says little, and users are synchronized
    /// between them.
    pub(crate) fn blur(&self) -> bool {
        self.lost_share >= BLURRED_SHARE
    }

    /// The spans of time in which the threads of a service show its limit: those between the pauses. Without
    /// samples between them it is the whole time, if the pauses are too short to distort it.
    pub(crate) fn clear(&self, measured: &Measured, service: &str) -> Vec<(f64, f64)> {
        let known = measured.mean_over(metrics::PROCESS_THREADS, service, &self.between).is_some();
        match known || self.blur() {
            true => self.between.clone(),
            false => measured.spans(),
        }
    }

    /// Whether a window is in a pause or overlaps one, and so partly shows it.
    pub(crate) fn touch(&self, window: &Window) -> bool {
        let touches =
            |(begin_s, end_s): &(f64, f64)| window.end_s >= begin_s - 1e-6 && window.begin_s <= end_s + 1e-6;
        self.still.iter().any(touches)
    }

    fn find(windows: &[Window]) -> Option<Pauses> {
        let length_s: f64 = windows.iter().map(Window::length_s).sum();
        // A failure is no answer: where only timeouts of the client end, nothing came back.
        let answered = |window: &Window| window.rate_per_s * window.length_s();
        let rate = windows.iter().map(answered).sum::<f64>() / length_s;
        let is_quiet = |window: &Window| window.rate_per_s < QUIET * rate;
        let stretches: Vec<&[Window]> =
            windows.chunk_by(|left, right| is_quiet(left) == is_quiet(right)).collect();
        // The usual slowest operation of an interval, without intervals after a quiet one.
        let usual = stretches.iter().filter(|stretch| !is_quiet(&stretch[0]));
        let usual: Vec<f64> =
            usual.flat_map(|stretch| &stretch[1..]).map(|window| window.longest_s).collect();
        let usual_s = median(&usual)?;
        let mut pauses = Pauses {
            still: Vec::new(),
            between: Vec::new(),
            lengths_s: Vec::new(),
            lost_share: 0.0,
            in_flight: 0.0,
            between_per_s: 0.0,
        };
        for (at, stretch) in stretches.iter().enumerate() {
            let (first, last) = (&stretch[0], &stretch[stretch.len() - 1]);
            let still_s = last.end_s - first.begin_s;
            let in_flight = stretch.iter().map(|window| window.in_flight).fold(f64::INFINITY, f64::min);
            let stood = is_quiet(first)
                && stretch.len() >= INTERVALS_MIN
                && rate * still_s >= MISSING_MIN
                && in_flight >= IN_FLIGHT_MIN;
            match stretches.get(at + 1).map(|after| after[0].longest_s) {
                Some(waited_s) if stood && waited_s >= usual_s + 0.5 * still_s => {
                    pauses.still.push((first.begin_s, last.end_s));
                    pauses.lengths_s.push(still_s + first.length_s());
                    pauses.in_flight += in_flight;
                }
                // The waiting time of operations in flight is unknown; after several similar pauses there is
                // little doubt.
                None if stood
                    && pauses.still.len() >= PAUSES_MIN
                    && still_s <= LONGER * pauses.lengths_s.iter().copied().fold(0.0, f64::max) =>
                {
                    pauses.still.push((first.begin_s, last.end_s));
                }
                _ => {}
            }
        }
        let count = pauses.lengths_s.len();
        if count < PAUSES_MIN {
            return None;
        }
        let between = windows.chunk_by(|left, right| pauses.touch(left) == pauses.touch(right));
        let between = between.filter(|stretch| !pauses.touch(&stretch[0]));
        pauses.between =
            between.map(|stretch| (stretch[0].begin_s, stretch[stretch.len() - 1].end_s)).collect();
        let cut_s = pauses.still.get(count).map_or(0.0, |(begin_s, end_s)| end_s - begin_s);
        let lost_s = pauses.lengths_s.iter().sum::<f64>() + cut_s;
        pauses.in_flight /= count as f64;
        pauses.lost_share = lost_s / length_s;
        let outside = windows.iter().filter(|window| !is_quiet(window));
        pauses.between_per_s = outside.map(answered).sum::<f64>() / (length_s - lost_s);
        (pauses.lost_share < 1.0).then_some(pauses)
    }

    /// The times from the middle of a pause to that of the next, in seconds.
    pub(crate) fn periods_s(&self) -> Vec<f64> {
        let middle = |(begin_s, end_s): &(f64, f64)| 0.5 * (begin_s + end_s);
        self.still[..self.lengths_s.len()]
            .windows(2)
            .map(|pair| middle(&pair[1]) - middle(&pair[0]))
            .collect()
    }

    /// Whether they occur at regular intervals.
    pub(crate) fn are_regular(&self) -> bool {
        let periods = self.periods_s();
        let spread = variance(&periods).map_or(f64::INFINITY, f64::sqrt);
        spread <= REGULAR * mean(&periods).unwrap_or_default()
    }
}
