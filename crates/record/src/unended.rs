//! The operations that were in flight when a record stopped.
//!
//! A trial that ends waits for the operations in flight, and counts those that do not end as censored. One that is killed, or that
//! lost a machine, does not: its operations in flight are nowhere but in the difference between what was due and what ended. Their
//! times are at least those of the youngest operations that may be in flight, since nothing says which ones are.

use std::collections::BTreeMap;

use model::{Ending, Interval, Phase, RunRecord};

/// Censors the operations of the measured phase that were in flight when the record stopped.
pub(crate) fn censor(record: &mut RunRecord) {
    let run = &record.run;
    let was_lost = run.machines.iter().any(|machine| machine.lost.is_some());
    if run.ending != Ending::Running && !was_lost {
        return;
    }
    let Some(end_s) = record.intervals.last().map(|last| last.end_s) else { return };
    let is_derived = |row: &Interval| run.traits.derived.iter().any(|name| *name == row.operation);
    let own: Vec<&Interval> = record.intervals.iter().filter(|row| !is_derived(row)).collect();
    let sum = |of: fn(&Interval) -> u64| own.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    let ended = sum(|row| row.completed.saturating_add(row.due.map_or(0, |due| due.censored)));
    let due = youngest(&own, sum(offered).saturating_sub(ended), offered, end_s);
    let sent = youngest(&own, sum(issued).saturating_sub(ended), issued, end_s);
    let (counts, counts_sent) = (by_operation(&due), by_operation(&sent));
    for (at, unended) in [due, sent].into_iter().enumerate() {
        for Unended { operation, age_ns, count } in unended {
            if !counts.contains_key(&operation) {
                continue;
            }
            let of = record.histograms.entry(operation).or_default();
            let [response, service, _] = of.censored.get_or_insert_default().each_mut();
            // The histograms grow, so that every time has a place.
            let added = (if at == 0 { response } else { service }).record_n(age_ns, count);
            debug_assert!(added.is_ok());
        }
    }
    for (operation, count) in counts {
        let last = record.intervals.iter_mut().rev().find(|row| row.operation == operation);
        if let Some(due) = last.and_then(|row| row.due.as_mut()) {
            due.censored = due.censored.saturating_add(count);
            let sent = counts_sent.get(&operation).copied().unwrap_or(0);
            due.unsent = due.unsent.saturating_add(count.saturating_sub(sent));
        }
    }
}

/// Operations that had not ended.
#[derive(Debug, PartialEq, Eq)]
struct Unended {
    operation: String,
    /// The least time that they had.
    age_ns: u64,
    count: u64,
}

fn by_operation(unended: &[Unended]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for one in unended {
        *counts.entry(one.operation.clone()).or_default() += one.count;
    }
    counts
}

fn offered(row: &Interval) -> u64 {
    row.offered.unwrap_or(0)
}

fn issued(row: &Interval) -> u64 {
    row.issued.unwrap_or(0)
}

/// As many operations as these, of the last intervals of the measured phase that had them.
fn youngest(rows: &[&Interval], mut count: u64, of: fn(&Interval) -> u64, end_s: f64) -> Vec<Unended> {
    let mut found = Vec::new();
    let measured = rows.iter().rev().filter(|row| row.phase == Phase::Measure && row.due.is_some());
    for row in measured {
        let here = of(row).min(count);
        if here > 0 {
            count -= here;
            let age_ns = ((end_s - row.end_s).clamp(0.0, AGE_S_MAX) * 1e9) as u64;
            found.push(Unended { operation: row.operation.clone(), age_ns, count: here });
        }
    }
    found
}

/// The largest time that is recorded, an hour above which nothing waits.
const AGE_S_MAX: f64 = 3600.0;

#[cfg(test)]
mod tests {
    use model::{Due, LatencySummary, Load, Run, Treatment, Trial};

    use super::*;

    /// An interval of a quarter of a second in which so many operations were due, were issued and ended.
    fn row(at: usize, phase: Phase, operation: &str, [offered, issued, completed]: [u64; 3]) -> Interval {
        Interval {
            begin_s: at as f64 / 4.0,
            end_s: (at + 1) as f64 / 4.0,
            phase,
            load: 1.0,
            operation: operation.into(),
            offered: Some(offered),
            issued: Some(issued),
            completed,
            late: Some(0),
            failed: 0,
            bytes: 0,
            concurrency: 1.0,
            response: LatencySummary::ABSENT,
            service: LatencySummary::ABSENT,
            due: Some(Due { ended: completed, ..Due::default() }),
        }
    }

    fn record(ending: Ending, intervals: Vec<Interval>) -> RunRecord {
        let trial = Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 };
        RunRecord {
            run: Run { ending, ..Run::begun(trial, "http", Load::of_workload(None), 0) },
            intervals,
            histograms: BTreeMap::new(),
            readings: Default::default(),
            events: Vec::new(),
            steps: None,
        }
    }

    /// The censored operations of the counts, and the times of the histograms in milliseconds.
    fn censored(record: &RunRecord, operation: &str) -> ([u64; 2], [Vec<(u64, u64)>; 2]) {
        let of = record.intervals.iter().filter(|row| row.operation == operation).filter_map(|row| row.due);
        let counts = of.fold([0, 0], |sum, due| [sum[0] + due.censored, sum[1] + due.unsent]);
        let times = record.histograms.get(operation).and_then(|of| of.censored.as_deref());
        let of = |at: usize| {
            let all = times.iter().flat_map(|times| times.each()[at].iter_recorded());
            all.map(|step| (step.value_iterated_to() / 1_000_000, step.count_at_value())).collect()
        };
        (counts, [of(0), of(1)])
    }

    #[test]
    fn the_youngest_operations_are_those_that_had_not_ended() {
        use Phase::{CoolDown, Measure, WarmUp};
        let stalled = || {
            vec![
                row(0, WarmUp, "get", [10, 10, 8]),
                row(1, Measure, "get", [10, 10, 12]),
                row(2, Measure, "get", [10, 10, 3]),
                row(3, Measure, "get", [10, 6, 0]),
            ]
        };
        let mut killed = record(Ending::Running, stalled());
        censor(&mut killed);
        // 17 of 40 had not ended, and 4 were not sent.
        assert_eq!(censored(&killed, "get"), ([17, 4], [vec![(0, 10), (250, 7)], vec![(0, 6), (250, 7)]]),);
        // The wait for answers is a part of the time that they had.
        let waited = (4..8).map(|at| row(at, CoolDown, "get", [0, 0, u64::from(at == 4)]));
        let mut killed = record(Ending::Running, stalled().into_iter().chain(waited).collect());
        censor(&mut killed);
        assert_eq!(censored(&killed, "get").0, [16, 4]);
        assert_eq!(censored(&killed, "get").1[0], [(1000, 10), (1250, 6)]);
        // Whatever ended the load otherwise counted them, but for those of a machine that is gone.
        for (ending, lost) in [(Ending::Completed, None), (Ending::Interrupted, None)] {
            let mut ended = record(ending, stalled());
            ended.run.machines = vec![model::run::MachineRun { lost, ..Default::default() }];
            censor(&mut ended);
            assert_eq!(censored(&ended, "get").0, [0, 0]);
        }
        let mut lost = record(Ending::Failed("gone".into()), stalled());
        lost.run.machines = vec![model::run::MachineRun { lost: Some("gone".into()), ..Default::default() }];
        censor(&mut lost);
        assert_eq!(censored(&lost, "get").0, [17, 4]);
    }

    #[test]
    fn all_operations_of_a_mix_together_are_as_many_as_were_in_flight() {
        let mix = vec![
            row(0, Phase::Measure, "get", [6, 6, 6]),
            row(0, Phase::Measure, "post", [4, 4, 2]),
            row(1, Phase::Measure, "get", [5, 5, 3]),
            row(1, Phase::Measure, "post", [5, 5, 6]),
            // A part of others was never due itself.
            row(1, Phase::Measure, "get:first_byte", [3, 3, 3]),
        ];
        let mut killed = record(Ending::Running, mix);
        killed.run.traits.derived = vec!["get:first_byte".into()].into();
        censor(&mut killed);
        let of = |name| censored(&killed, name).0[0];
        assert_eq!((of("get") + of("post"), of("get:first_byte")), (3, 0));
        // Nothing at all is no operation.
        let mut empty = record(Ending::Running, Vec::new());
        censor(&mut empty);
        assert!(empty.histograms.is_empty());
    }
}
