//! The exchanges of a period, kept in memory up to a limit.

use model::Nanos;

use crate::exchange::SeenExchange;
use crate::route::Route;

/// What happened on all routes of a proxy in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// When it began, on the monotonic clock of the kernel.
    pub from_ns: Nanos,
    /// Until when all exchanges are in it: its end, or the moment when there were too many.
    pub to_ns: Nanos,
    /// Its exchanges, in the order in which they ended. One that is still open ends at [`Nanos::MAX`].
    pub exchanges: Vec<SeenExchange>,
    /// Exchanges that are not among them, because they began after there were too many.
    pub lost: u64,
    /// For each route, the exchanges that completed and the connections that were accepted.
    pub counts: Vec<(u64, u64)>,
}

/// A recording at work.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    exchanges_max: usize,
}

/// Adds an exchange to a recording, if there is one.
pub(crate) fn add(recorder: &mut Option<Recorder>, seen: Option<SeenExchange>) {
    if let (Some(recorder), Some(seen)) = (recorder, seen) {
        recorder.add(seen);
    }
}

fn counts(routes: &[Route]) -> Vec<(u64, u64)> {
    let of = |route: &Route| (route.statistics.exchanges.completed, route.statistics.connections.accepted);
    routes.iter().map(of).collect()
}

impl Recorder {
    pub(crate) fn begin(routes: &[Route], exchanges_max: usize, now_ns: Nanos) -> Recorder {
        let recording =
            Recording { from_ns: now_ns, to_ns: Nanos::MAX, counts: counts(routes), ..Recording::default() };
        Recorder { recording, exchanges_max }
    }

    /// Adds an exchange that ended in the period. The limit ends the period for exchanges that begin later; those that
    /// began before are kept.
    fn add(&mut self, seen: SeenExchange) {
        let Recording { from_ns, to_ns, exchanges, lost, .. } = &mut self.recording;
        if seen.end_ns < *from_ns {
            return;
        }
        if exchanges.len() == self.exchanges_max {
            let ends =
                |seen: &SeenExchange| if seen.end_ns == Nanos::MAX { seen.begin_ns } else { seen.end_ns };
            *to_ns = (*to_ns).min(ends(&seen));
        }
        match seen.begin_ns < *to_ns {
            true => exchanges.push(seen),
            false => *lost += 1,
        }
    }

    pub(crate) fn end(mut self, routes: &[Route], now_ns: Nanos) -> Recording {
        self.recording.to_ns = self.recording.to_ns.min(now_ns);
        for (count, now) in self.recording.counts.iter_mut().zip(counts(routes)) {
            // Statistics that were restarted meanwhile count from then on.
            *count = (now.0.saturating_sub(count.0), now.1.saturating_sub(count.1));
        }
        self.recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_complete_up_to_its_end() {
        let mut recorder = Recorder::begin(&[], 2, 100);
        let seen = |begin_ns, end_ns| SeenExchange { route: 0, begin_ns, first_byte_ns: end_ns, end_ns };
        // The first one ended before it began; the last two come after the limit, and one of them began before it.
        for (begin_ns, end_ns) in [(10, 90), (80, 110), (120, 130), (140, 150), (125, 160), (150, 170)] {
            recorder.add(seen(begin_ns, end_ns));
        }
        let recording = recorder.end(&[], 200);
        let begins: Vec<u64> = recording.exchanges.iter().map(|seen| seen.begin_ns).collect();
        assert_eq!((begins, recording.to_ns, recording.lost), (vec![80, 120, 140, 125], 150, 1));
    }
}
