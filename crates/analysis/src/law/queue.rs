//! Open queues: operations that arrive independently of earlier ones.
//!
//! Every function returns None if there is no steady state (arrivals exceed the capacity), or if an argument
//! is not a valid rate, time or number of servers.

/// The steady state of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Utilization of a server.
    pub utilization: f64,
    /// Mean time before service begins, seconds.
    pub wait_s: f64,
    /// Mean time from arrival to departure, seconds.
    pub response_s: f64,
    /// Mean number of waiting operations.
    pub waiting: f64,
    /// Mean number of operations in the system, including those in service.
    pub present: f64,
}

impl Queue {
    /// Derived from the mean wait by Little's law.
    fn of(rate_per_s: f64, service_s: f64, servers: u32, wait_s: f64) -> Option<Self> {
        let response_s = wait_s + service_s;
        (wait_s >= 0.0 && wait_s.is_finite()).then_some(Queue {
            utilization: rate_per_s * service_s / f64::from(servers),
            wait_s,
            response_s,
            waiting: rate_per_s * wait_s,
            present: rate_per_s * response_s,
        })
    }
}

/// The offered load in erlangs, if `servers` servers have a steady state.
fn offered(rate_per_s: f64, service_s: f64, servers: u32) -> Option<f64> {
    let offered = rate_per_s * service_s;
    (rate_per_s >= 0.0 && service_s > 0.0 && offered < f64::from(servers)).then_some(offered)
}

/// Poisson arrivals, exponential service, one server: `R = S / (1 - rho)`.
pub fn mm1(rate_per_s: f64, service_s: f64) -> Option<Queue> {
    mmc(rate_per_s, service_s, 1)
}

/// The probability that an arrival has to wait in M/M/c (Erlang's C formula), for `offered` erlangs (rate
/// times service time). The recursion of Erlang's B avoids overflow and cancellation.
pub fn erlang_c(offered: f64, servers: u32) -> Option<f64> {
    let c = f64::from(servers);
    if !(offered >= 0.0 && offered < c) {
        return None;
    }
    let blocked = (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    Some(c * blocked / (c - offered * (1.0 - blocked)))
}

/// Poisson arrivals, exponential service, `servers` servers: `Wq = C S / (c - a)`.
///
/// Gross and Harris, "Fundamentals of Queueing Theory" (1998), section 2.3.
pub fn mmc(rate_per_s: f64, service_s: f64, servers: u32) -> Option<Queue> {
    let offered = offered(rate_per_s, service_s, servers)?;
    let wait_s = erlang_c(offered, servers)? * service_s / (f64::from(servers) - offered);
    Queue::of(rate_per_s, service_s, servers, wait_s)
}

/// The probability that an operation takes longer than `time_s` in M/M/c, first come first served.
pub fn mmc_response_exceeds(rate_per_s: f64, service_s: f64, servers: u32, time_s: f64) -> Option<f64> {
    let offered = offered(rate_per_s, service_s, servers)?;
    let wait = erlang_c(offered, servers)?;
    let t = time_s.max(0.0) / service_s;
    // The wait decays at c - a, the service at 1, both in units of the service rate.
    let apart = f64::from(servers) - 1.0 - offered;
    let convolved = match apart.abs() < 1e-7 {
        true => t * (-t).exp(),
        false => ((-t).exp() - (-t * (1.0 + apart)).exp()) / apart,
    };
    Some((-t).exp() + wait * convolved)
}

/// The response time quantile `quantile` in M/M/c, seconds; by bisection.
pub fn mmc_response_quantile_s(rate_per_s: f64, service_s: f64, servers: u32, quantile: f64) -> Option<f64> {
    let queue = mmc(rate_per_s, service_s, servers)?;
    if !(0.0..1.0).contains(&quantile) {
        return None;
    }
    let exceeds = |time_s: f64| mmc_response_exceeds(rate_per_s, service_s, servers, time_s);
    let (mut low, mut high) = (0.0, queue.response_s);
    while exceeds(high)? > 1.0 - quantile {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if exceeds(middle)? > 1.0 - quantile { low = middle } else { high = middle }
    }
    Some(0.5 * (low + high))
}

/// Poisson arrivals, any service time distribution with the coefficient of variation `service_cv`, one
/// server: `Wq = lambda E[S^2] / (2 (1 - rho))` (Pollaczek and Khinchine).
pub fn mg1(rate_per_s: f64, service_s: f64, service_cv: f64) -> Option<Queue> {
    let busy = offered(rate_per_s, service_s, 1)?;
    let second_moment = service_s * service_s * (1.0 + service_cv * service_cv);
    Queue::of(rate_per_s, service_s, 1, rate_per_s * second_moment / (2.0 * (1.0 - busy)))
}

/// Any arrivals and any service with given coefficients of variation, one server. This is Kingman's
/// approximation `Wq = rho / (1 - rho) (ca^2 + cs^2) / 2 S`, which is accurate if the utilization exceeds one
/// half.
///
/// Kingman, Mathematical Proceedings of the Cambridge Philosophical Society 57 (1961).
pub fn kingman(rate_per_s: f64, service_s: f64, arrival_cv: f64, service_cv: f64) -> Option<Queue> {
    let busy = offered(rate_per_s, service_s, 1)?;
    let variability = 0.5 * (arrival_cv * arrival_cv + service_cv * service_cv);
    Queue::of(rate_per_s, service_s, 1, busy / (1.0 - busy) * variability * service_s)
}

/// The solution of an open network with several classes of operations, by [`open_classes`].
#[derive(Clone, Debug, PartialEq)]
pub struct OpenClasses {
    /// Utilization of each resource.
    pub utilizations: Vec<f64>,
    /// For each class, the time at each resource, seconds per operation, all visits together.
    pub residences_s: Vec<Vec<f64>>,
    /// For each class, the response time, seconds.
    pub responses_s: Vec<f64>,
}

/// Classes of operations with rates and demands (seconds) for each resource. Each resource has one server
/// with processor sharing: `R = D / (1 - U)`. `demands_s` has one row of the same length for each class.
///
/// Lazowska, Zahorjan, Graham, Sevcik, "Quantitative System Performance" (1984), section 7.3.
pub fn open_classes(rates_per_s: &[f64], demands_s: &[Vec<f64>]) -> Option<OpenClasses> {
    let resources = demands_s.first()?.len();
    if rates_per_s.len() != demands_s.len() || demands_s.iter().any(|row| row.len() != resources) {
        return None;
    }
    let classes = || rates_per_s.iter().zip(demands_s);
    let utilizations: Vec<f64> =
        (0..resources).map(|at| classes().map(|(rate, row)| rate * row[at]).sum()).collect();
    if !utilizations.iter().all(|busy| (0.0..1.0).contains(busy)) {
        return None;
    }
    let residences_s: Vec<Vec<f64>> = demands_s
        .iter()
        .map(|row| row.iter().zip(&utilizations).map(|(demand_s, busy)| demand_s / (1.0 - busy)).collect())
        .collect();
    let responses_s = residences_s.iter().map(|row| row.iter().sum()).collect();
    Some(OpenClasses { utilizations, residences_s, responses_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (a.abs() + b.abs())
    }

    #[test]
    fn queues_agree_where_they_are_the_same() {
        let exponential = mm1(8.0, 0.1).unwrap();
        assert!(close(exponential.response_s, 0.5) && close(exponential.present, 4.0));
        assert!(close(mg1(8.0, 0.1, 1.0).unwrap().wait_s, exponential.wait_s));
        assert!(close(kingman(8.0, 0.1, 1.0, 1.0).unwrap().wait_s, exponential.wait_s));
        // Deterministic service halves the wait.
        assert!(close(mg1(8.0, 0.1, 0.0).unwrap().wait_s, 0.5 * exponential.wait_s));
        // The response time of M/M/1 is exponential with mean S / (1 - rho).
        let p95 = mmc_response_quantile_s(8.0, 0.1, 1, 0.95).unwrap();
        assert!(close(p95, 0.5 * 20.0_f64.ln()), "{p95}");
        // Without load, the response time is the service time.
        assert!(close(mmc_response_quantile_s(0.0, 0.1, 4, 0.5).unwrap(), 0.1 * 2.0_f64.ln()));
    }

    #[test]
    fn the_tail_of_the_response_has_the_right_mean() {
        for (rate, servers) in [(2.0, 3), (2.9, 3), (1.0, 2), (30.0, 40)] {
            let mean = mmc(rate, 1.0, servers).unwrap().response_s;
            let step = 0.01;
            let integral: f64 = (0..200_000)
                .map(|i| {
                    step * mmc_response_exceeds(rate, 1.0, servers, (f64::from(i) + 0.5) * step).unwrap()
                })
                .sum();
            assert!((integral / mean - 1.0).abs() < 1e-4, "{rate} {servers}: {integral} {mean}");
        }
    }

    #[test]
    fn no_steady_state_no_answer() {
        assert_eq!(mm1(10.0, 0.1), None);
        assert_eq!(mmc(31.0, 0.1, 3), None);
        assert_eq!((mm1(f64::NAN, 0.1), mm1(-1.0, 0.1), mm1(1.0, 0.0)), (None, None, None));
        assert_eq!((erlang_c(1.0, 0), mg1(10.0, 0.2, 0.5), kingman(5.0, 0.2, 1.0, 1.0)), (None, None, None));
        assert_eq!(open_classes(&[1.0, 1.0], &[vec![0.5], vec![0.5]]), None);
        assert_eq!(open_classes(&[1.0], &[]), None);
        assert_eq!(mmc_response_quantile_s(1.0, 0.1, 1, 1.0), None);
        // Thousands of servers cause neither overflow nor loss of accuracy.
        assert!((erlang_c(9_900.0, 10_000).unwrap() - 0.22).abs() < 0.03);
    }
}
