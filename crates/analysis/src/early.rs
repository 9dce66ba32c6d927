//! Whether a trial can end before its time, because nothing more can be learned from it: every operation fails from the
//! start, or a goal can no longer be met, whatever the rest of the time shows.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use model::goal::GoalMetric;
use model::study::new_histogram;
use model::{Goal, Interval, Nanos, Phase, Profile, SECOND, Shape};

/// The load runs at least this long.
const SHORTEST_S: f64 = 3.0;
/// As many operations must have failed, and none succeeded.
const FAILED_MIN: u64 = 100;
/// Or as many, if they took longer than this.
const FEW_FAILED_MIN: u64 = 5;
const FEW_FAILED_S: f64 = 10.0;
/// The rest of a closed load is taken to be at most this many times as fast as its fastest interval.
const FASTER: f64 = 4.0;

/// What a trial has shown so far.
#[derive(Debug)]
pub struct EarlyEnd {
    goals: Vec<Goal>,
    /// How many operations may become due in the measured time; none in a closed load.
    due_max: Option<f64>,
    measure_s: Option<f64>,
    operations: BTreeMap<String, Seen>,
    /// Seconds since the start of the load, and in the measured phase.
    elapsed_s: f64,
    measured_s: f64,
    /// Operations that ended and failed since the start of the load.
    ended: u64,
    failed: u64,
    /// Operations per second in the fastest interval.
    fastest_per_s: f64,
}

/// What one operation has shown in the measured phase.
#[derive(Debug)]
struct Seen {
    ended: u64,
    failed: u64,
    response: Histogram<u64>,
    service: Histogram<u64>,
}

impl EarlyEnd {
    /// Of a load of this shape that is measured for `measure`.
    pub fn new(goals: &[Goal], shape: Option<&Shape>, measure: Option<Nanos>) -> EarlyEnd {
        let measure_s = measure.map(|measure| measure as f64 / SECOND as f64);
        let due_max = match (shape, measure_s) {
            (Some(Shape::Open { rate_per_s: Profile::Constant(rate), .. }), Some(length_s)) => {
                let due = rate * length_s;
                // Random arrivals are more by chance.
                Some(due + 6.0 * due.sqrt() + 1.0)
            }
            _ => None,
        };
        EarlyEnd {
            goals: goals.to_vec(),
            due_max,
            measure_s,
            operations: BTreeMap::new(),
            elapsed_s: 0.0,
            measured_s: 0.0,
            ended: 0,
            failed: 0,
            fastest_per_s: 0.0,
        }
    }

    /// Adds an interval: a row of each operation that is not derived from others, with its response and service times.
    pub fn add<'a>(
        &mut self,
        rows: impl Iterator<Item = (&'a Interval, &'a Histogram<u64>, &'a Histogram<u64>)>,
    ) {
        let (mut ended, mut length_s) = (0, 0.0);
        for (row, response, service) in rows {
            self.elapsed_s = self.elapsed_s.max(row.end_s);
            self.ended += row.completed;
            self.failed += row.failed;
            if row.phase != Phase::Measure {
                continue;
            }
            length_s = row.length_s();
            ended += row.completed;
            let seen = self.operations.entry(row.operation.clone()).or_insert_with(|| Seen {
                ended: 0,
                failed: 0,
                response: new_histogram(),
                service: new_histogram(),
            });
            seen.ended += row.timed();
            seen.failed += row.due.map_or(row.failed, |due| due.failed);
            // Only a histogram with a fixed size can fail, and these grow.
            let added = seen.response.add(response).and_then(|()| seen.service.add(service));
            debug_assert!(added.is_ok());
        }
        if length_s > 0.0 {
            self.measured_s += length_s;
            self.fastest_per_s = self.fastest_per_s.max(ended as f64 / length_s);
        }
    }

    /// Why the trial can end now; none while it goes on.
    pub fn reason(&self) -> Option<String> {
        if self.elapsed_s < SHORTEST_S {
            return None;
        }
        let are_many =
            self.failed >= FAILED_MIN || self.failed >= FEW_FAILED_MIN && self.elapsed_s >= FEW_FAILED_S;
        if are_many && self.failed == self.ended {
            return Some("every operation failed from the start".into());
        }
        let all = self.most_operations()?;
        let missed = self.goals.iter().find(|goal| self.is_missed(goal, all))?;
        Some(format!("the goal `{}` can no longer be met", missed.text))
    }

    /// The most operations that the trial can have in the end.
    fn most_operations(&self) -> Option<f64> {
        let ended: u64 = self.operations.values().map(|seen| seen.ended).sum();
        let rest_s = (self.measure_s? - self.measured_s).max(0.0);
        let of_closed = ended as f64 + rest_s * FASTER * self.fastest_per_s;
        Some(self.due_max.unwrap_or(of_closed).max(ended as f64))
    }

    /// Whether one of at most `all` operations of each kind misses the goal, however fast those are that are still to come.
    fn is_missed(&self, goal: &Goal, all: f64) -> bool {
        if !goal.at_most {
            return false;
        }
        let of_goal =
            self.operations.iter().filter(|(name, _)| goal.operation.as_ref().is_none_or(|of| of == *name));
        of_goal.map(|(_, seen)| seen).any(|seen| match &goal.metric {
            GoalMetric::Response(part) => is_beyond(&seen.response, part, goal, all),
            GoalMetric::Service(part) => is_beyond(&seen.service, part, goal, all),
            GoalMetric::Failed => !goal.met_by(seen.failed as f64 / all),
            _ => false,
        })
    }
}

/// Whether a statistic of at most `all` times misses the goal, of which these are known and the others take no time.
fn is_beyond(times: &Histogram<u64>, part: &str, goal: &Goal, all: f64) -> bool {
    let limit_ns = (goal.limit * 1e6).max(0.0) as u64;
    let beyond = times.len().saturating_sub(times.count_between(0, limit_ns)) as f64;
    let share = |share: f64| beyond > (1.0 - share) * all;
    match part {
        "mean" => !goal.met_by(times.mean() * times.len() as f64 / all / 1e6),
        "max" => beyond > 0.0,
        _ => model::LatencySummary::SHARES.iter().any(|(name, below)| *name == part && share(*below)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{LatencySummary, Process};

    /// Seconds in which these operations ended, with how many failed and how long each took.
    fn seen(goals: &[&str], shape: &Shape, seconds: &[(u64, u64, f64)]) -> EarlyEnd {
        let goals: Vec<Goal> = goals.iter().map(|text| Goal::parse(text, &["get"]).unwrap()).collect();
        let mut early = EarlyEnd::new(&goals, Some(shape), Some(30 * SECOND));
        for (at, (completed, failed, response_ms)) in seconds.iter().enumerate() {
            let mut times = new_histogram();
            times.record_n((response_ms * 1e6) as u64, *completed).unwrap();
            let row = Interval {
                begin_s: at as f64,
                end_s: at as f64 + 1.0,
                phase: Phase::Measure,
                load: 1.0,
                operation: "get".into(),
                offered: None,
                issued: None,
                completed: *completed,
                late: None,
                failed: *failed,
                bytes: 0,
                concurrency: 1.0,
                response: LatencySummary::of(&times),
                service: LatencySummary::of(&times),
                due: None,
            };
            early.add([(&row, &times, &times)].into_iter());
        }
        early
    }

    #[test]
    fn a_trial_ends_when_nothing_more_can_be_learned() {
        let open = Shape::Open { rate_per_s: Profile::Constant(100.0), arrivals: Process::Constant };
        let closed = Shape::closed(1);
        let failing = Some("every operation failed from the start");
        let p95 = Some("the goal `response.p95 <= 100ms` can no longer be met");
        let few = Some("the goal `failed < 1%` can no longer be met");
        let goals = ["response.p95 <= 100ms", "failed < 1%"];
        for (shape, seconds, expected) in [
            (&open, vec![(100, 100, 1.0); 2], None),
            (&open, vec![(100, 100, 1.0); 3], failing),
            (&open, vec![(1, 1, 1.0); 9], None),
            (&open, vec![(1, 1, 1.0); 10], failing),
            // 5 % of 3,000 operations are 150; by chance, arrivals may be 329 more.
            (&open, vec![(100, 0, 1.0), (80, 0, 500.0), (80, 0, 500.0)], None),
            (&open, vec![(100, 0, 1.0), (90, 0, 500.0), (90, 0, 500.0)], p95),
            (&open, vec![(100, 0, 1.0), (100, 34, 1.0), (100, 0, 1.0)], few),
            (&open, vec![(100, 0, 1.0), (100, 30, 1.0), (100, 0, 1.0)], None),
            // A closed load may become faster.
            (&closed, vec![(100, 0, 500.0); 3], None),
            (&closed, vec![(100, 0, 500.0); 29], p95),
        ] {
            assert_eq!(seen(&goals, shape, &seconds).reason().as_deref(), expected, "{seconds:?}");
        }
        let max = Some("the goal `get.max <= 400ms` can no longer be met");
        assert_eq!(seen(&["get.max <= 400ms"], &closed, &[(1, 0, 500.0); 3]).reason().as_deref(), max);
        assert_eq!(seen(&["throughput >= 1000/s"], &closed, &[(1, 0, 500.0); 3]).reason(), None);
        let mean = Some("the goal `response.mean <= 1ms` can no longer be met");
        assert_eq!(seen(&["response.mean <= 1ms"], &open, &[(100, 0, 40.0); 3]).reason().as_deref(), mean);
    }
}
