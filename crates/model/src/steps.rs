//! The steps of one request through a system with dependencies: which exchanges with them it consists of, in which order,
//! and how long the system itself works between them. Everything is seen from the proxies before the load and before the
//! dependencies, so the system needs no instrumentation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// The format identifier of `steps.json`.
pub const STEPS_FORMAT: &str = "plimsoll.steps/1.0";

/// An exchange of request and reply as the client of a proxy sees it. All proxies use one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the first request byte arrived at the proxy.
    pub begin_ns: Nanos,
    /// When the first reply byte was sent to the client.
    pub first_byte_ns: Nanos,
    /// When the last reply byte was sent to the client; [`Nanos::MAX`] for an exchange that is still open.
    pub end_ns: Nanos,
}

/// What a proxy saw in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeTrace {
    /// The start of the measured time.
    pub from_ns: Nanos,
    /// The end of the measured time, or the moment when there were too many exchanges to keep.
    pub to_ns: Nanos,
    /// The exchanges that overlap with this time, in any order.
    pub exchanges: Vec<Exchange>,
    /// Exchanges that completed, also those that were not kept.
    pub completed: u64,
    /// Connections that were opened.
    pub connections: u64,
}

/// Requests with more exchanges than this have a step for all exchanges with one dependency that follow one another.
const SINGLE_MAX: usize = 40;

/// Requests with more steps than this have no order.
pub const STEPS_MAX: usize = 200;

/// `steps.json`: the steps of a request in one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialSteps {
    /// [`STEPS_FORMAT`].
    pub format: String,
    /// The steps.
    #[serde(flatten)]
    pub request: RequestSteps,
}

/// The steps of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestSteps {
    /// The dependency that the load connects to: its exchanges are the requests.
    pub front: String,
    /// The part of the measured time whose exchanges were kept, seconds.
    pub observed_s: f64,
    /// Requests that began and ended in this time.
    pub requests: u64,
    /// Requests of which every exchange with a dependency is known: no exchange began while several requests were open.
    pub usable: u64,
    /// Usable requests with the most frequent order of exchanges, which `steps` has.
    pub same_order: u64,
    /// The time of these requests.
    pub total_ms: Times,
    /// The exchanges with dependencies, in the order in which they begin.
    pub steps: Vec<Step>,
    /// The time of the system itself after the last exchange.
    pub own_after_ms: Times,
    /// The exchanges with each dependency, over all requests.
    pub dependencies: Vec<DependencyUse>,
}

/// One exchange with a dependency in a request, or several that follow one another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The dependency.
    pub dependency: String,
    /// Its number among the exchanges with this dependency, from 1.
    pub number: u32,
    /// How many exchanges it consists of: more than one only in requests with many exchanges.
    pub exchanges: u32,
    /// The time before it in which no exchange was open: the system itself worked or waited.
    pub own_before_ms: Times,
    /// Mean time from the beginning of the request to its beginning.
    pub begin_ms: f64,
    /// From its first request byte to its last reply byte, or to the end of the request if that is earlier.
    pub takes_ms: Times,
    /// Mean time from its first request byte to its first reply byte.
    pub first_byte_ms: f64,
    /// Mean time that no earlier exchange covers: what it adds to the request. Own times and these add up to the total.
    pub adds_ms: f64,
}

/// The exchanges with a dependency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DependencyUse {
    /// The dependency.
    pub name: String,
    /// Exchanges that were observed.
    pub exchanges: u64,
    /// Exchanges for each request of the load.
    pub per_request: f64,
    /// Mean time of one.
    pub mean_ms: f64,
    /// Exchanges that began while no request was open.
    pub outside: u64,
}

/// A summary of times, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the statistics")]
pub struct Times {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

impl Times {
    fn of(mut all_ns: Vec<Nanos>) -> Times {
        all_ns.sort_unstable();
        let ms = |ns: Nanos| ns as f64 / 1e6;
        let Some(max) = all_ns.last().copied() else { return Times::default() };
        // The nearest rank.
        let quantile = |share: f64| {
            let rank = (share * all_ns.len() as f64).ceil().max(1.0) as usize - 1;
            ms(all_ns.get(rank).copied().unwrap_or(max))
        };
        let mean = all_ns.iter().map(|ns| ms(*ns)).sum::<f64>() / all_ns.len() as f64;
        Times { mean, p50: quantile(0.5), p95: quantile(0.95), max: ms(max) }
    }
}

/// An exchange with the position of its dependency.
type Call = (usize, Exchange);

impl RequestSteps {
    /// The steps of the requests to `front`, from the traces of all proxies. `dependencies` does not contain the front.
    pub fn find(
        front: &str,
        requests: &ExchangeTrace,
        dependencies: &[(String, &ExchangeTrace)],
    ) -> RequestSteps {
        let traces = || dependencies.iter().map(|(_, trace)| *trace).chain([requests]);
        let from_ns = traces().map(|trace| trace.from_ns).max().unwrap_or(0);
        let to_ns = traces().map(|trace| trace.to_ns).min().unwrap_or(0);
        let mut fronts = requests.exchanges.clone();
        fronts.sort_unstable_by_key(|front| (front.begin_ns, front.end_ns));
        let calls = dependencies.iter().enumerate();
        let mut calls: Vec<Call> =
            calls.flat_map(|(at, (_, trace))| trace.exchanges.iter().map(move |one| (at, *one))).collect();
        calls.retain(|(_, call)| call.begin_ns >= from_ns && call.begin_ns <= to_ns);
        calls.sort_unstable_by_key(|(_, call)| call.begin_ns);

        let assigned = assign(&fronts, &calls);
        let is_whole = |front: &Exchange| front.begin_ns >= from_ns && front.end_ns <= to_ns;
        let whole: Vec<usize> = (0..fronts.len()).filter(|at| is_whole(&fronts[*at])).collect();
        let usable: Vec<usize> = whole.iter().copied().filter(|at| !assigned.ambiguous[*at]).collect();
        let mut orders: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for at in &usable {
            let order = assigned.calls[*at].iter().map(|call| calls[*call].0).collect();
            orders.entry(order).or_default().push(*at);
        }
        let most = orders.iter().max_by_key(|(order, requests)| (requests.len(), order.len()));
        let (order, alike) =
            most.map(|(order, requests)| (order.as_slice(), requests.as_slice())).unwrap_or_default();
        let requests_alike: Vec<(Exchange, Vec<Exchange>)> = alike
            .iter()
            .map(|at| (fronts[*at], assigned.calls[*at].iter().map(|call| calls[*call].1).collect()))
            .collect();
        let name = |at: usize| dependencies.get(at).map_or("", |(name, _)| name.as_str());
        let mut found = RequestSteps {
            front: front.into(),
            observed_s: to_ns.saturating_sub(from_ns) as f64 / 1e9,
            requests: whole.len() as u64,
            usable: usable.len() as u64,
            same_order: alike.len() as u64,
            dependencies: (0..dependencies.len())
                .map(|at| uses(name(at), at, &calls, &assigned.outside, whole.len()))
                .collect(),
            ..RequestSteps::default()
        };
        let groups = match order.len() > SINGLE_MAX {
            true => order.chunk_by(|a, b| a == b).map(<[usize]>::len).collect(),
            false => vec![1; order.len()],
        };
        if groups.len() <= STEPS_MAX {
            found.add_steps(&order.iter().map(|at| name(*at)).collect::<Vec<_>>(), &groups, &requests_alike);
        }
        found
    }

    /// Summarizes requests whose exchanges have the same order. `groups` are the numbers of exchanges in each step.
    fn add_steps(&mut self, order: &[&str], groups: &[usize], requests: &[(Exchange, Vec<Exchange>)]) {
        let mut own = vec![Vec::with_capacity(requests.len()); groups.len() + 1];
        let [mut begins, mut first_bytes, mut adds] = [(); 3].map(|()| vec![0.0; groups.len()]);
        let mut takes = vec![Vec::with_capacity(requests.len()); groups.len()];
        let mut totals = Vec::with_capacity(requests.len());
        let share_ms = |ns: Nanos| ns as f64 / 1e6 / requests.len() as f64;
        for (request, calls) in requests {
            totals.push(request.end_ns.saturating_sub(request.begin_ns));
            let mut covered_ns = request.begin_ns;
            for (at, call) in grouped(calls, groups).enumerate() {
                let end_ns = call.end_ns.min(request.end_ns).max(call.begin_ns);
                own[at].push(call.begin_ns.saturating_sub(covered_ns));
                takes[at].push(end_ns - call.begin_ns);
                begins[at] += share_ms(call.begin_ns - request.begin_ns);
                first_bytes[at] += share_ms(call.first_byte_ns.min(end_ns).saturating_sub(call.begin_ns));
                adds[at] += share_ms(end_ns.saturating_sub(covered_ns.max(call.begin_ns)));
                covered_ns = covered_ns.max(end_ns);
            }
            own[groups.len()].push(request.end_ns.saturating_sub(covered_ns));
        }
        self.total_ms = Times::of(totals);
        self.own_after_ms = own.pop().map(Times::of).unwrap_or_default();
        let mut first = 0;
        for (at, (own, takes)) in own.into_iter().zip(takes).enumerate() {
            let dependency = order[first];
            self.steps.push(Step {
                dependency: dependency.into(),
                number: order[..=first].iter().filter(|name| **name == dependency).count() as u32,
                exchanges: groups[at] as u32,
                own_before_ms: Times::of(own),
                begin_ms: begins[at],
                takes_ms: Times::of(takes),
                first_byte_ms: first_bytes[at],
                adds_ms: adds[at],
            });
            first += groups[at];
        }
    }
}

/// Exchanges that are taken together: from the beginning of the first to the end of all.
fn grouped<'a>(calls: &'a [Exchange], groups: &'a [usize]) -> impl Iterator<Item = Exchange> + 'a {
    let mut rest = calls;
    groups.iter().filter_map(move |length| {
        let (group, others) = rest.split_at_checked(*length)?;
        rest = others;
        let end_ns = group.iter().map(|call| call.end_ns).max()?;
        Some(Exchange { end_ns, ..*group.first()? })
    })
}

/// Which exchanges with dependencies belong to which request.
struct Assigned {
    /// For each request, the positions of its exchanges.
    calls: Vec<Vec<usize>>,
    /// For each request, whether an exchange began while it and another one were open.
    ambiguous: Vec<bool>,
    /// The exchanges that began while no request was open.
    outside: Vec<usize>,
}

/// Assigns each exchange to the only request that is open when it begins. Both lists are sorted by their beginnings.
fn assign(fronts: &[Exchange], calls: &[Call]) -> Assigned {
    let mut assigned = Assigned {
        calls: vec![Vec::new(); fronts.len()],
        ambiguous: vec![false; fronts.len()],
        outside: Vec::new(),
    };
    // Requests that are open, the first to end on top.
    let mut open: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    // Those that opened since the last ambiguous exchange.
    let mut fresh: Vec<usize> = Vec::new();
    let mut next = 0;
    for (at, (_, call)) in calls.iter().enumerate() {
        while let Some(front) = fronts.get(next).filter(|front| front.begin_ns <= call.begin_ns) {
            open.push(Reverse((front.end_ns, next)));
            fresh.push(next);
            next += 1;
        }
        while open.peek().is_some_and(|Reverse((end_ns, _))| *end_ns < call.begin_ns) {
            open.pop();
        }
        match (open.len(), open.peek()) {
            (1, Some(Reverse((_, front)))) => assigned.calls[*front].push(at),
            (0, _) => assigned.outside.push(at),
            _ => {
                let still_open = fresh.drain(..).filter(|front| fronts[*front].end_ns >= call.begin_ns);
                still_open.for_each(|front| assigned.ambiguous[front] = true);
            }
        }
    }
    assigned
}

fn uses(name: &str, dependency: usize, calls: &[Call], outside: &[usize], requests: usize) -> DependencyUse {
    let own = || calls.iter().filter(|(of, _)| *of == dependency).map(|(_, call)| call);
    let ended: Vec<f64> = own()
        .filter(|call| call.end_ns != Nanos::MAX)
        .map(|call| call.end_ns.saturating_sub(call.begin_ns) as f64 / 1e6)
        .collect();
    let exchanges = own().count();
    DependencyUse {
        name: name.into(),
        exchanges: exchanges as u64,
        per_request: if requests == 0 { 0.0 } else { exchanges as f64 / requests as f64 },
        mean_ms: if ended.is_empty() { 0.0 } else { ended.iter().sum::<f64>() / ended.len() as f64 },
        outside: outside.iter().filter(|at| calls[**at].0 == dependency).count() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in milliseconds.
    fn exchange((begin, end): (u64, u64)) -> Exchange {
        let ns = |ms: u64| ms * 1_000_000;
        Exchange { begin_ns: ns(begin), first_byte_ns: ns(end), end_ns: ns(end) }
    }

    fn trace(exchanges: &[(u64, u64)]) -> ExchangeTrace {
        let exchanges: Vec<Exchange> = exchanges.iter().copied().map(exchange).collect();
        ExchangeTrace {
            to_ns: 10_000 * 1_000_000,
            completed: exchanges.len() as u64,
            exchanges,
            ..Default::default()
        }
    }

    #[test]
    fn the_parts_of_a_request_add_up_to_its_time() {
        // Two calls to a after each other, two calls to b at the same time, one of which outlives the request.
        let front = trace(&[(100, 150), (200, 250), (300, 310)]);
        let a = trace(&[(105, 115), (117, 127), (205, 215), (217, 227), (400, 401)]);
        let b = trace(&[(130, 140), (131, 145), (230, 240), (231, 260)]);
        let found = RequestSteps::find("front", &front, &[("a".into(), &a), ("b".into(), &b)]);
        assert_eq!((found.requests, found.usable, found.same_order), (3, 3, 2));
        let steps: Vec<(&str, u32)> =
            found.steps.iter().map(|step| (step.dependency.as_str(), step.number)).collect();
        assert_eq!(steps, [("a", 1), ("a", 2), ("b", 1), ("b", 2)]);
        let own: Vec<f64> = found.steps.iter().map(|step| step.own_before_ms.mean).collect();
        assert_eq!(own, [5.0, 2.0, 3.0, 0.0]);
        let adds: Vec<f64> = found.steps.iter().map(|step| step.adds_ms).collect();
        assert_eq!(adds, [10.0, 10.0, 10.0, 7.5]);
        assert_eq!((found.steps[3].takes_ms.mean, found.steps[3].begin_ms), (16.5, 31.0));
        let sum = own.iter().chain(&adds).sum::<f64>() + found.own_after_ms.mean;
        assert!((sum - found.total_ms.mean).abs() < 1e-9 && found.total_ms.mean == 50.0);
        let uses: Vec<(u64, u64)> =
            found.dependencies.iter().map(|one| (one.exchanges, one.outside)).collect();
        assert_eq!(uses, [(5, 1), (4, 0)]);
    }

    #[test]
    fn an_exchange_while_several_requests_are_open_belongs_to_none() {
        let a = trace(&[(12, 14), (22, 24), (42, 44), (62, 64)]);
        // The first two overlap while an exchange begins, the next two overlap at another time; one is open at the end.
        let open = (60, u64::MAX / 1_000_000);
        let front = trace(&[(10, 30), (20, 35), (40, 50), (48, 55), open]);
        let found = RequestSteps::find("front", &front, &[("a".into(), &a)]);
        assert_eq!((found.requests, found.usable, found.same_order), (4, 2, 1));
        let nothing = RequestSteps::find("front", &trace(&[]), &[("a".into(), &a)]);
        assert_eq!((nothing.requests, nothing.steps.len(), nothing.dependencies[0].outside), (0, 0, 4));
    }

    #[test]
    fn many_exchanges_that_follow_one_another_are_one_step() {
        let calls: Vec<(u64, u64)> = (0..50).map(|at| (10 + 2 * at, 11 + 2 * at)).collect();
        let (front, a, b) = (trace(&[(0, 200)]), trace(&calls), trace(&[(150, 160)]));
        let found = RequestSteps::find("front", &front, &[("a".into(), &a), ("b".into(), &b)]);
        let steps: Vec<(u32, u32, f64)> =
            found.steps.iter().map(|step| (step.number, step.exchanges, step.takes_ms.mean)).collect();
        assert_eq!(steps, [(1, 50, 99.0), (1, 1, 10.0)]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_proxies_see_gives_finite_parts_that_add_up(
            fronts in proptest::collection::vec((0u64..200, 0u64..40), 0..12),
            calls in proptest::collection::vec((0u64..200, 0u64..40), 0..30),
            ends in (0u64..200, 0u64..200),
        ) {
            let spans = |all: &[(u64, u64)]| all.iter().map(|(begin, length)| (*begin, begin + length)).collect::<Vec<_>>();
            let (mut front, call) = (trace(&spans(&fronts)), trace(&spans(&calls)));
            (front.from_ns, front.to_ns) = (ends.0 * 1_000_000, ends.1 * 1_000_000);
            let found = RequestSteps::find("front", &front, &[("a".into(), &call)]);
            let parts = found.steps.iter().map(|step| step.own_before_ms.mean + step.adds_ms).sum::<f64>();
            let total = parts + found.own_after_ms.mean;
            proptest::prop_assert!((total - found.total_ms.mean).abs() < 1e-6, "{} {:?}", total, found);
            proptest::prop_assert!(found.same_order <= found.usable && found.usable <= found.requests);
        }
    }
}
