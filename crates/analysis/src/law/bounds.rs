//! Asymptotic bounds: limits that no queueing system with these demands can exceed, for any distributions.
//!
//! Denning and Buzen, ACM Computing Surveys 10 (1978); Jain, "The Art of Computer Systems Performance
//! Analysis" (1991), chapter 33.

/// The service demands of one operation, and its time elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands {
    /// Seconds of each resource per operation. For a resource with several servers, divide by their number
    /// for [`Demands::throughput_max_per_s`] and similar functions.
    pub demands_s: Vec<f64>,
    /// Think time: seconds between a response and the next operation.
    pub think_s: f64,
}

impl Demands {
    /// Sum of the demands: the minimum response time.
    pub fn total_s(&self) -> f64 {
        self.demands_s.iter().sum()
    }

    /// The largest demand: that of the bottleneck.
    pub fn largest_s(&self) -> f64 {
        self.demands_s.iter().copied().fold(0.0, f64::max)
    }

    /// The index of the resource with the largest demand; none without resources.
    pub fn bottleneck(&self) -> Option<usize> {
        (0..self.demands_s.len()).max_by(|a, b| self.demands_s[*a].total_cmp(&self.demands_s[*b]))
    }

    /// The upper bound of throughput with a number of users: `min(1 / Dmax, N / (D + Z))`.
    pub fn throughput_max_per_s(&self, users: f64) -> f64 {
        (1.0 / self.largest_s()).min(users / (self.total_s() + self.think_s))
    }

    /// The lower bound of the mean response time with a number of users: `max(D, N Dmax - Z)`.
    pub fn response_min_s(&self, users: f64) -> f64 {
        self.total_s().max(users * self.largest_s() - self.think_s)
    }

    /// The number of users above which some must wait, where the two bounds of throughput meet: `N* = (D + Z)
    /// / Dmax`.
    pub fn saturation_users(&self) -> f64 {
        (self.total_s() + self.think_s) / self.largest_s()
    }
}

#[cfg(test)]
mod tests {
    use super::super::mva::{Network, Station, solve};
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_exact_solution_stays_inside(
            demands in proptest::collection::vec(0.001f64..1.0, 1..5),
            think_s in 0.0f64..5.0,
        ) {
            let bounds = Demands { demands_s: demands.clone(), think_s };
            let stations = demands.into_iter().map(|demand_s| Station { demand_s, servers: 1 }).collect();
            for solution in solve(&Network { stations, think_s }, 30).unwrap() {
                let users = f64::from(solution.users);
                let more = 1.0 + 1e-9;
                proptest::prop_assert!(solution.throughput_per_s <= bounds.throughput_max_per_s(users) * more);
                proptest::prop_assert!(solution.response_s * more >= bounds.response_min_s(users));
            }
        }
    }
}
