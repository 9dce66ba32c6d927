//! Distributes the lanes of a load over worker threads.

use model::Shape;
use serde::{Deserialize, Serialize};

use crate::workload::{Lane, Share};

/// Limit of the operations in flight per worker in an open loop. Further arrivals wait, which shows as lag.
pub const OPEN_IN_FLIGHT_MAX: u32 = 256;

/// Limit of the operations in flight per worker in a closed loop.
const CLOSED_IN_FLIGHT_MAX: u64 = 65_536;

/// The part of a machine in a load that several machines drive together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePart {
    /// The index of the machine, from 0.
    pub index: u32,
    /// Number of machines.
    pub of: u32,
}

impl MachinePart {
    /// One machine that drives the whole load.
    pub const WHOLE: MachinePart = MachinePart { index: 0, of: 1 };
}

/// The shares of the workers of one machine, lane by lane. Each machine has as many workers, and the shares of all of them
/// make up the load.
pub(crate) fn shares(lanes: &[Lane], seed: u64, part: MachinePart) -> Vec<Share> {
    let mut shares = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        let workers = lane.workers.max(1);
        let of = workers.saturating_mul(part.of.max(1));
        let in_flight_max = match &lane.shape {
            Shape::Closed { users, .. } => {
                let users = (users.largest().ceil() as u64).div_ceil(u64::from(of));
                users.clamp(1, CLOSED_IN_FLIGHT_MAX) as u32
            }
            Shape::Open { .. } => OPEN_IN_FLIGHT_MAX,
        };
        let is_open = matches!(lane.shape, Shape::Open { .. });
        let lane = number as u32;
        // Machines take turns, so that each has its part of a load with fewer users than workers.
        let index = |worker: u32| worker.saturating_mul(part.of).saturating_add(part.index).min(of - 1);
        shares.extend((0..workers).map(|worker| Share {
            lane,
            index: index(worker),
            of,
            in_flight_max,
            is_open,
            seed,
        }));
    }
    shares
}

/// Whether the workers of a lane wait for arrivals; otherwise punctual waking is irrelevant.
pub(crate) fn waits_for_arrivals(lane: &Lane) -> bool {
    !matches!(lane.shape, Shape::Closed { think: 0, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_shares_of_its_own() {
        let lane = |shape, workers| Lane { shape, workers, delay: 0 };
        let open =
            Shape::Open { rate_per_s: model::Profile::Constant(10.0), arrivals: model::Process::Constant };
        let shares = shares(&[lane(Shape::closed(5), 2), lane(open, 1)], 7, MachinePart::WHOLE);
        let of = |at: usize| (shares[at].lane, shares[at].index, shares[at].of, shares[at].in_flight_max);
        assert_eq!(shares.len(), 3);
        assert_eq!((of(0), of(1)), ((0, 0, 2, 3), (0, 1, 2, 3)));
        assert_eq!(of(2), (1, 0, 1, OPEN_IN_FLIGHT_MAX));
    }
}
