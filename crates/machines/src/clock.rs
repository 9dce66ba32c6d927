//! How far the clock of another machine is from ours.

use std::collections::VecDeque;

use model::{Nanos, SECOND};

/// How many recent answers are kept.
const KEPT: usize = 64;

/// How long an answer counts: two clocks drift apart by up to some 50 us in each second.
const WINDOW: Nanos = 30 * SECOND;

/// One question and its answer.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    at: Nanos,
    offset: i64,
    round_trip: Nanos,
}

/// An estimate of the difference between two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Their time minus ours.
    pub offset: i64,
    /// The true offset differs by at most this, however the time of the round trip was divided between both ways.
    pub uncertainty: Nanos,
}

/// The exchanges with one machine. The time of an answer is between the times at which the question was sent and the answer
/// arrived, so the shortest round trip bounds the offset best (Cristian, Probabilistic clock synchronization, 1989).
#[derive(Clone, Debug, Default)]
pub struct Exchanges {
    recent: VecDeque<Exchange>,
    first: Option<Offset>,
    count: u64,
}

impl Exchanges {
    /// Adds an exchange: when it was sent and received on our clock, and what their clock showed in between. Returns whether
    /// it is the best of the recent ones.
    pub fn add(&mut self, sent: Nanos, theirs: Nanos, received: Nanos) -> bool {
        let round_trip = received.saturating_sub(sent);
        let middle = sent + round_trip / 2;
        let offset = theirs.cast_signed().wrapping_sub(middle.cast_signed());
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(Exchange { at: received, offset, round_trip });
        self.count += 1;
        self.offset().is_some_and(|best| best.uncertainty == round_trip.div_ceil(2))
    }

    /// Number of exchanges so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The best estimate; none before the first exchange.
    pub fn offset(&self) -> Option<Offset> {
        let newest = self.recent.back()?.at;
        let recent = self.recent.iter().filter(|of| newest - of.at <= WINDOW);
        let best = recent.min_by_key(|of| of.round_trip)?;
        Some(Offset { offset: best.offset, uncertainty: best.round_trip.div_ceil(2) })
    }

    /// Keeps the present estimate, to compare a later one with it.
    pub fn keep(&mut self) {
        self.first = self.offset();
    }

    /// The estimate that was kept.
    pub fn kept(&self) -> Option<Offset> {
        self.first
    }

    /// How much the offset has changed since [`Exchanges::keep`], as far as the uncertainties allow to say.
    pub fn drifted(&self) -> Option<i64> {
        let (before, now) = (self.first?, self.offset()?);
        let change = now.offset.saturating_sub(before.offset);
        let unsure = (before.uncertainty + now.uncertainty).cast_signed();
        Some(if change.abs() <= unsure { 0 } else { change })
    }
}

/// Our time on their clock; 0 for a time before it began.
pub fn theirs(ours: Nanos, offset: Offset) -> Nanos {
    ours.saturating_add_signed(offset.offset)
}

/// Their time on our clock; 0 for a time before it began.
pub fn ours(theirs: Nanos, offset: Offset) -> Nanos {
    theirs.saturating_add_signed(offset.offset.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_true_offset_is_within_the_uncertainty(
            offset in -1_000_000_000_i64..1_000_000_000,
            ways in proptest::collection::vec((1_u64..5_000_000, 1_u64..5_000_000), 1..80),
        ) {
            let mut exchanges = Exchanges::default();
            let mut now = 10 * SECOND;
            for (there, back) in ways {
                let theirs = (now + there).saturating_add_signed(offset);
                exchanges.add(now, theirs, now + there + back);
                now += 100_000_000;
            }
            let found = exchanges.offset().unwrap();
            let error = (found.offset - offset).unsigned_abs();
            proptest::prop_assert!(error <= found.uncertainty, "{error} of {found:?}");
            proptest::prop_assert_eq!(ours(theirs(now, found), found), now);
        }
    }

    #[test]
    fn a_drift_is_seen_when_it_is_larger_than_the_uncertainty() {
        let mut exchanges = Exchanges::default();
        exchanges.add(0, 1_000, 200);
        exchanges.keep();
        assert_eq!(exchanges.drifted(), Some(0));
        exchanges.add(40 * SECOND, 40 * SECOND + 5_000, 40 * SECOND + 200);
        assert_eq!(exchanges.drifted(), Some(4_000));
    }
}
