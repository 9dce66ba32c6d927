//! Closed queueing networks: each of N users thinks, sends a request, and waits for the response.
//!
//! Stations with one server are solved by exact mean value analysis: `R_k(N) = D_k (1 + Q_k(N - 1))` (Reiser
//! and Lavenberg, Journal of the ACM 27, 1980). Networks with multi-server stations are solved by Buzen's
//! convolution (Communications of the ACM 16, 1973) in logarithms: the same exact solution, without the
//! subtraction that makes load-dependent mean value analysis inaccurate with many servers.

/// A resource with a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Seconds of one server per operation, all visits together.
    pub demand_s: f64,
    /// Number of servers with a common queue: CPUs, threads of a pool, connections.
    pub servers: u32,
}

/// A closed network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Its stations.
    pub stations: Vec<Station>,
    /// Seconds of each round trip without queueing: think time and other fixed delays.
    pub think_s: f64,
}

impl Network {
    /// The same network with one server at each station, for numbers of users beyond the exact solution. A
    /// station of c servers is replaced by one that is c times as fast, and a delay of the remaining service
    /// time.
    ///
    /// Seidmann, Schweitzer, Shalev-Oren, Large Scale Systems 12 (1987).
    pub fn with_single_servers(&self) -> Network {
        let mut single = Network { stations: Vec::with_capacity(self.stations.len()), think_s: self.think_s };
        for station in &self.stations {
            let servers = f64::from(station.servers.max(1));
            single.stations.push(Station { demand_s: station.demand_s / servers, servers: 1 });
            single.think_s += station.demand_s * (servers - 1.0) / servers;
        }
        single
    }
}

/// The solution of the network for a number of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Number of users.
    pub users: u32,
    /// Operations per second.
    pub throughput_per_s: f64,
    /// Response time in seconds, without think time.
    pub response_s: f64,
    /// Mean number of operations at each station, including those in service.
    pub queues: Vec<f64>,
}

/// Limit of the number of users.
pub const USERS_MAX: u32 = 10_000;
/// The same limit if a station has several servers: the cost grows with the square.
pub const USERS_MAX_SEVERAL: u32 = 1_000;

/// The solutions for 1 to `users` users. None if a demand or the think time is invalid, a station has no
/// server, all times are zero, or there are more users than [`USERS_MAX`] ([`USERS_MAX_SEVERAL`] with several
/// servers).
pub fn solve(network: &Network, users: u32) -> Option<Vec<Solution>> {
    let time = |value: f64| value >= 0.0 && value.is_finite();
    let valid = network.stations.iter().all(|station| time(station.demand_s) && station.servers > 0);
    let total_s = network.think_s + network.stations.iter().map(|station| station.demand_s).sum::<f64>();
    let several = network.stations.iter().any(|station| station.servers > 1);
    let most = if several { USERS_MAX_SEVERAL } else { USERS_MAX };
    if !(valid && time(network.think_s) && total_s > 0.0) || users > most {
        return None;
    }
    Some(if several { by_convolution(network, users) } else { by_mean_values(network, users) })
}

fn by_mean_values(network: &Network, users: u32) -> Vec<Solution> {
    let mut queues = vec![0.0; network.stations.len()];
    (1..=users)
        .map(|n| {
            let residences: Vec<f64> =
                network.stations.iter().zip(&queues).map(|(s, queue)| s.demand_s * (1.0 + queue)).collect();
            let response_s: f64 = residences.iter().sum();
            let throughput_per_s = f64::from(n) / (response_s + network.think_s);
            queues = residences.iter().map(|residence_s| throughput_per_s * residence_s).collect();
            Solution { users: n, throughput_per_s, response_s, queues: queues.clone() }
        })
        .collect()
}

/// The logarithm of `e^a + e^b`.
fn add_logs(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// The logarithms of the weights of 0 to `users` at a station: `D^j / prod min(i, c)`.
fn weights(station: Station, users: u32) -> Vec<f64> {
    let step = |i: u32| station.demand_s.ln() - f64::from(i.min(station.servers)).ln();
    running_sums((1..=users).map(step))
}

fn running_sums(steps: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain(steps.map(|step| {
            sum += step;
            sum
        }))
        .collect()
}

fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len())
        .map(|n| {
            let terms = || (0..=n).map(|j| a[j] + b[n - j]);
            let highest = terms().fold(f64::NEG_INFINITY, f64::max);
            if highest == f64::NEG_INFINITY {
                return highest;
            }
            highest + terms().map(|term| (term - highest).exp()).sum::<f64>().ln()
        })
        .collect()
}

fn by_convolution(network: &Network, users: u32) -> Vec<Solution> {
    let thinking = running_sums((1..=users).map(|i| network.think_s.ln() - f64::from(i).ln()));
    // Normalization constants of the network, optionally without one station.
    let constants = |without: Option<usize>| {
        let mut g = thinking.clone();
        for (_, station) in network.stations.iter().enumerate().filter(|(at, _)| Some(*at) != without) {
            if station.servers == 1 {
                for n in 1..g.len() {
                    g[n] = add_logs(g[n], station.demand_s.ln() + g[n - 1]);
                }
            } else {
                g = convolve(&g, &weights(*station, users));
            }
        }
        g
    };
    let g = constants(None);
    let throughput = |n: usize| (g[n - 1] - g[n]).exp();
    // Mean numbers at each station for each number of users.
    let queues: Vec<Vec<f64>> = network
        .stations
        .iter()
        .enumerate()
        .map(|(at, station)| {
            let mut queue = 0.0;
            if station.servers == 1 {
                let step = |n: usize| {
                    queue = throughput(n) * station.demand_s * (1.0 + queue);
                    queue
                };
                return (1..g.len()).map(step).collect();
            }
            let (rest, own) = (constants(Some(at)), weights(*station, users));
            let mean = |n: usize| {
                let chance = |j: usize| (own[j] + rest[n - j] - g[n]).exp();
                (1..=n).map(|j| j as f64 * chance(j)).sum::<f64>()
            };
            (1..g.len()).map(mean).collect()
        })
        .collect();
    (1..=users)
        .map(|n| {
            let at = n as usize;
            let throughput_per_s = throughput(at);
            Solution {
                users: n,
                throughput_per_s,
                response_s: f64::from(n) / throughput_per_s - network.think_s,
                queues: queues.iter().map(|queue| queue[at - 1]).collect(),
            }
        })
        .collect()
}

/// The elasticities of throughput with respect to the rate of each part: `d ln X / d ln rate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Elasticities {
    /// For each station.
    pub stations: Vec<f64>,
    /// For the think time.
    pub think: f64,
}

/// The elasticities of throughput for a number of users: exactly `Q_k(N) - Q_k(N - 1)` in a product-form
/// network, so they add up to 1. If only some parts were changed, the difference of their sum from 1 is the
/// share of the others. None as in [`solve`], or without users.
pub fn elasticities(network: &Network, users: u32) -> Option<Elasticities> {
    let solutions = solve(network, users)?;
    let (last, before) = (solutions.last()?, solutions.iter().rev().nth(1));
    let stations = last
        .queues
        .iter()
        .enumerate()
        .map(|(at, queue)| queue - before.map_or(0.0, |before| before.queues[at]))
        .collect();
    let thinking = |solution: &Solution| network.think_s * solution.throughput_per_s;
    Some(Elasticities { stations, think: thinking(last) - before.map_or(0.0, thinking) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::queue::mmc;
    use super::*;

    fn network(demands: &[(f64, u32)], think_s: f64) -> Network {
        let station = |&(demand_s, servers): &(f64, u32)| Station { demand_s, servers };
        Network { stations: demands.iter().map(station).collect(), think_s }
    }

    #[test]
    fn elasticities_of_jains_system() {
        let jain = network(&[(2.0, 1), (3.0, 1), (1.0, 1)], 4.0);
        for (users, expected) in [
            (1, [0.200, 0.300, 0.100, 0.400]),
            (5, [0.210, 0.644, 0.049, 0.096]),
            (20, [0.004, 0.996, 0.000, 0.000]),
        ] {
            let found = elasticities(&jain, users).unwrap();
            let all: Vec<f64> = found.stations.iter().copied().chain([found.think]).collect();
            for (found, expected) in all.iter().zip(expected) {
                assert!((found - expected).abs() < 0.0006, "{users}: {all:?}");
            }
        }
    }

    #[test]
    fn many_users_who_think_long_are_an_open_queue() {
        // 600 users thinking 100 s offer about 6/s to 3 servers of 0.3 s.
        let closed = solve(&network(&[(0.3, 3)], 100.0), 600).unwrap();
        let last = closed.last().unwrap();
        let open = mmc(last.throughput_per_s, 0.3, 3).unwrap();
        assert!((last.response_s / open.response_s - 1.0).abs() < 0.01, "{last:?} {open:?}");
    }

    #[test]
    fn a_large_pool_keeps_its_digits() {
        // 200 threads of 20 ms, 400 users: 10,000/s, and a response time twice as long as with one user.
        let last = solve(&network(&[(0.02, 200), (1e-6, 1)], 0.0), 400).unwrap().pop().unwrap();
        assert!(
            (last.throughput_per_s / 10_000.0 - 1.0).abs() < 1e-6 && (last.response_s - 0.04).abs() < 1e-5
        );
        // As many servers as users: no one waits.
        let free = solve(&network(&[(0.02, 64)], 0.01), 64).unwrap().pop().unwrap();
        assert!((free.response_s - 0.02).abs() < 1e-12);
    }

    #[test]
    fn single_servers_come_close() {
        let exact = network(&[(0.2, 4), (0.03, 1)], 0.5);
        let close = exact.with_single_servers();
        assert_eq!((close.stations[0].demand_s, close.stations[1].demand_s), (0.05, 0.03));
        let (exact, close) = (solve(&exact, 80).unwrap(), solve(&close, 80).unwrap());
        for (exact, close) in exact.iter().zip(&close) {
            assert!(
                (close.throughput_per_s / exact.throughput_per_s - 1.0).abs() < 0.1,
                "{exact:?} {close:?}"
            );
        }
        // The ends are exact: a single user, and all users waiting for the slowest station.
        assert!((close[0].throughput_per_s / exact[0].throughput_per_s - 1.0).abs() < 1e-12);
        assert!((close[79].throughput_per_s / exact[79].throughput_per_s - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in [network(&[(f64::NAN, 1)], 0.0), network(&[(-1.0, 1)], 1.0), network(&[(1.0, 0)], 0.0)] {
            assert_eq!(solve(&bad, 3), None);
        }
        assert_eq!(solve(&network(&[], 0.0), 3), None);
        assert_eq!(solve(&network(&[(1.0, 2)], 0.0), USERS_MAX_SEVERAL + 1), None);
        assert_eq!(elasticities(&network(&[(1.0, 1)], 0.0), 0), None);
        assert_eq!(solve(&network(&[(0.0, 2), (1.0, 1)], 0.0), 2).unwrap()[1].throughput_per_s, 1.0);
    }

    proptest! {
        #[test]
        fn both_ways_agree(
            demands in proptest::collection::vec(0.01f64..2.0, 1..5),
            think_s in 0.0f64..4.0,
        ) {
            let single: Vec<(f64, u32)> = demands.iter().map(|demand| (*demand, 1)).collect();
            let network = network(&single, think_s);
            let (a, b) = (by_mean_values(&network, 25), by_convolution(&network, 25));
            for (a, b) in a.iter().zip(&b) {
                prop_assert!((a.throughput_per_s / b.throughput_per_s - 1.0).abs() < 1e-9);
                prop_assert!((a.response_s - b.response_s).abs() < 1e-8 * (1.0 + a.response_s + think_s));
            }
        }

        #[test]
        fn users_are_conserved_and_elasticities_add_up(
            demands in proptest::collection::vec((0.01f64..2.0, 1u32..6), 1..4),
            think_s in 0.0f64..4.0,
            users in 1u32..40,
        ) {
            let network = network(&demands, think_s);
            let last = solve(&network, users).unwrap().pop().unwrap();
            let everywhere = last.queues.iter().sum::<f64>() + last.throughput_per_s * think_s;
            prop_assert!((everywhere - f64::from(users)).abs() < 1e-7);
            let found = elasticities(&network, users).unwrap();
            let sum = found.stations.iter().sum::<f64>() + found.think;
            prop_assert!((sum - 1.0).abs() < 1e-7);
            // The first one by definition: this station slightly faster.
            let mut faster = network.clone();
            faster.stations[0].demand_s /= 1.0001;
            let gained = solve(&faster, users).unwrap().pop().unwrap().throughput_per_s;
            let slope = (gained / last.throughput_per_s).ln() / 1.0001_f64.ln();
            prop_assert!((slope - found.stations[0]).abs() < 1e-3, "{} {}", slope, found.stations[0]);
        }
    }
}
