//! `intervals.csv`: one line per interval and operation, times in seconds on the trial's clock, latencies in milliseconds.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use model::{Interval, LatencySummary, Phase};

use crate::limits::{Budget, INTERVAL_COST, OPERATIONS_MAX};
use crate::lines::Lines;

pub(crate) const HEADER: &str = "begin_s,end_s,phase,load,operation,offered,issued,completed,late,failed,bytes,concurrency,\
response_min_ms,response_mean_ms,response_p50_ms,response_p90_ms,response_p95_ms,response_p99_ms,response_p999_ms,response_max_ms,\
service_min_ms,service_mean_ms,service_p50_ms,service_p90_ms,service_p95_ms,service_p99_ms,service_p999_ms,service_max_ms\n";

/// Appends one line.
pub(crate) fn write(out: &mut String, interval: &Interval) {
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{:.6},{:.6},{},{},{},{},{},{},{},{},{},{:.3}",
        interval.begin_s,
        interval.end_s,
        interval.phase.word(),
        interval.load,
        interval.operation,
        interval.offered,
        interval.issued,
        interval.completed,
        interval.late,
        interval.failed,
        interval.bytes,
        interval.concurrency,
    );
    for summary in [&interval.response, &interval.service] {
        if interval.completed == 0 {
            // Nothing completed: there is no time to tell, and zero would be one.
            out.push_str(",,,,,,,,");
        } else {
            for part in LatencySummary::PARTS {
                let _ = write!(out, ",{:.6}", summary.part(part).unwrap_or(0.0));
            }
        }
    }
    out.push('\n');
}

/// Every line that can be read; what is wrong with the file, `lines` knows.
pub(crate) fn read(lines: &mut Lines, budget: &mut Budget) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut operations: BTreeSet<String> = BTreeSet::new();
    let titles = lines.next(budget).is_some();
    while titles && let Some(line) = lines.next_text(budget) {
        let Some(interval) = read_line(&line) else {
            lines.unreadable();
            continue;
        };
        if !operations.contains(&interval.operation) {
            if operations.len() == OPERATIONS_MAX {
                lines.note(&format!(
                    "it has more than {OPERATIONS_MAX} operations, and the others are left out"
                ));
                continue;
            }
            operations.insert(interval.operation.clone());
        }
        if !budget.take(INTERVAL_COST + interval.operation.len() as u64) {
            lines.full();
            break;
        }
        intervals.push(interval);
    }
    intervals
}

fn read_line(line: &str) -> Option<Interval> {
    let mut cells = line.split(',');
    let number = |cells: &mut std::str::Split<'_, char>| cells.next()?.parse::<f64>().ok();
    let begin_s = number(&mut cells)?;
    let end_s = number(&mut cells)?;
    let phase = Phase::from_word(cells.next()?)?;
    let load = number(&mut cells)?;
    let operation = cells.next()?.to_string();
    let mut count = || cells.next()?.parse::<u64>().ok();
    let (offered, issued, completed) = (count()?, count()?, count()?);
    let (late, failed, bytes) = (count()?, count()?, count()?);
    let concurrency = cells.next()?.parse().ok()?;
    let mut summary = || {
        let mut values = [0.0; 8];
        for value in &mut values {
            let cell = cells.next()?;
            *value = if cell.is_empty() { 0.0 } else { cell.parse().ok()? };
        }
        let [min, mean, p50, p90, p95, p99, p999, max] = values;
        Some(LatencySummary { min, mean, p50, p90, p95, p99, p999, max })
    };
    let (response, service) = (summary()?, summary()?);
    Some(Interval {
        begin_s,
        end_s,
        phase,
        load,
        operation,
        offered,
        issued,
        completed,
        late,
        failed,
        bytes,
        concurrency,
        response,
        service,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(completed: u64) -> Interval {
        let summary = if completed == 0 {
            LatencySummary::default()
        } else {
            LatencySummary {
                min: 0.05,
                mean: 0.5,
                p50: 0.4,
                p90: 0.9,
                p95: 1.0,
                p99: 2.5,
                p999: 9.0,
                max: 12.25,
            }
        };
        Interval {
            begin_s: 1.000001,
            end_s: 2.000003,
            phase: Phase::Measure,
            load: 32.0,
            operation: "read".into(),
            offered: 1000,
            issued: 999,
            completed,
            late: 3,
            failed: 1,
            bytes: 4_096_000,
            concurrency: 31.5,
            response: summary,
            service: summary,
        }
    }

    fn read(text: &str) -> (Vec<Interval>, bool) {
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(text.as_bytes().to_vec())));
        let intervals = super::read(&mut lines, &mut Budget::new());
        (intervals, lines.damage().is_none())
    }

    #[test]
    fn more_operations_than_a_workload_has_are_left_out() {
        let mut text = HEADER.to_string();
        for at in 0..=OPERATIONS_MAX {
            write(&mut text, &Interval { operation: format!("o{at}"), ..sample(1) });
        }
        let (intervals, whole) = read(&text);
        assert_eq!((intervals.len(), whole), (OPERATIONS_MAX, false));
    }

    #[test]
    fn reads_what_it_wrote_and_stops_at_a_cut() {
        let mut text = HEADER.to_string();
        write(&mut text, &sample(998));
        write(&mut text, &sample(0));
        assert_eq!(read(&text), (vec![sample(998), sample(0)], true));
        for cut in HEADER.len()..text.len() {
            let (intervals, whole) = read(&text[..cut]);
            assert!(intervals.len() < 2);
            assert_eq!(whole, text[..cut].ends_with('\n'));
        }
    }

    #[test]
    fn the_header_names_every_cell() {
        let mut line = String::new();
        write(&mut line, &sample(5));
        assert_eq!(HEADER.matches(',').count(), line.matches(',').count());
    }
}
