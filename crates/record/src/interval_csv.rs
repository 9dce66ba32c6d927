//! `intervals.csv`: one row per interval and operation; times in seconds on the trial's clock, latencies in
//! milliseconds.

use std::collections::BTreeSet;

use model::{Due, Interval, LatencySummary, Phase};

use crate::limits::{Budget, INTERVAL_COST, OPERATIONS_MAX};
use crate::lines::Lines;
use crate::row::{self, Row, number};

pub(crate) const HEADER: &str = "begin_s,end_s,phase,load,operation,offered,issued,completed,late,failed,bytes,concurrency,\
response_min_ms,response_mean_ms,response_p50_ms,response_p90_ms,response_p95_ms,response_p99_ms,response_p999_ms,response_max_ms,\
service_min_ms,service_mean_ms,service_p50_ms,service_p90_ms,service_p95_ms,service_p99_ms,service_p999_ms,service_max_ms,\
due_ended,due_failed,censored,unsent,held,in_flight_s\n";

/// Appends one row.
pub(crate) fn write(out: &mut Vec<u8>, interval: &Interval) -> csv::Result<()> {
    let mut cells = vec![
        format!("{:.6}", interval.begin_s),
        format!("{:.6}", interval.end_s),
        interval.phase.word().to_string(),
        interval.load.to_string(),
        interval.operation.clone(),
    ];
    let counts = [
        interval.offered,
        interval.issued,
        Some(interval.completed),
        interval.late,
        Some(interval.failed),
        Some(interval.bytes),
    ];
    cells.extend(counts.map(|count| count.map_or_else(String::new, |count| count.to_string())));
    let known = |value: f64| value.is_finite();
    cells.push(
        Some(interval.concurrency).filter(|of| known(*of)).map_or_else(String::new, |of| format!("{of:.3}")),
    );
    for summary in [&interval.response, &interval.service] {
        // Nothing completed: there are no times to report, and zero would be a valid time.
        let is_known = interval.completed > 0;
        let part = |part| {
            summary.part(part).filter(|value| is_known && known(*value)).map(|value| format!("{value:.6}"))
        };
        cells.extend(LatencySummary::PARTS.map(|name| part(name).unwrap_or_default()));
    }
    match &interval.due {
        Some(Due { ended, failed, censored, unsent, held, in_flight_s }) => {
            cells.extend([ended, failed, censored, unsent, held].map(ToString::to_string));
            cells.push(format!("{in_flight_s:.6}"));
        }
        None => cells.extend([const { String::new() }; 6]),
    }
    row::write(out, cells)
}

/// Reads all valid rows; `lines` records damage of the file.
pub(crate) fn read(lines: &mut Lines, budget: &mut Budget) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut operations: BTreeSet<String> = BTreeSet::new();
    let mut row = Row::new();
    let titles = row.read(lines, budget);
    while titles && row.read(lines, budget) {
        let Some(interval) = interval_of(&row) else {
            lines.unreadable();
            continue;
        };
        if !operations.contains(&interval.operation) {
            if operations.len() == OPERATIONS_MAX {
                lines.note(&format!("it has more than {OPERATIONS_MAX} operations; the others are ignored"));
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

fn interval_of(row: &Row) -> Option<Interval> {
    let mut cells = row.cells();
    let mut seconds = || number::<f64>(cells.next()?);
    let (begin_s, end_s) = (seconds()?, seconds()?);
    let phase = Phase::from_word(std::str::from_utf8(cells.next()?).ok()?)?;
    let load = number(cells.next()?)?;
    let operation = String::from_utf8_lossy(cells.next()?).into_owned();
    // None for a cell that is no number, some none for an empty one.
    let mut count = || -> Option<Option<u64>> {
        let cell = cells.next()?;
        if cell.is_empty() { Some(None) } else { number::<u64>(cell).map(Some) }
    };
    let (offered, issued, completed) = (count()?, count()?, count()??);
    let (late, failed, bytes) = (count()?, count()??, count()??);
    let concurrency = cells.next()?;
    let concurrency = if concurrency.is_empty() { f64::NAN } else { number(concurrency)? };
    let mut summary = || {
        let mut values = [f64::NAN; 8];
        for value in &mut values {
            let cell = cells.next()?;
            *value = if cell.is_empty() { f64::NAN } else { number(cell)? };
        }
        let [min, mean, p50, p90, p95, p99, p999, max] = values;
        Some(LatencySummary { min, mean, p50, p90, p95, p99, p999, max, ..LatencySummary::default() })
    };
    let (response, service) = (summary()?, summary()?);
    // Records of older versions end here.
    let due = match cells.next() {
        None => None,
        Some(ended) => {
            let rest: [&[u8]; 5] = std::array::from_fn(|_| cells.next().unwrap_or_default());
            match ended.is_empty() {
                true => None,
                false => Some(Due {
                    ended: number(ended)?,
                    failed: number(rest[0])?,
                    censored: number(rest[1])?,
                    unsent: number(rest[2])?,
                    held: number(rest[3])?,
                    in_flight_s: number(rest[4])?,
                }),
            }
        }
    };
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
        due,
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
                ..LatencySummary::default()
            }
        };
        Interval {
            begin_s: 1.000001,
            end_s: 2.000003,
            phase: Phase::Measure,
            load: 32.0,
            operation: "read".into(),
            offered: Some(1000),
            issued: Some(999),
            completed,
            late: Some(3),
            failed: 1,
            bytes: 4_096_000,
            concurrency: 31.5,
            response: summary,
            service: summary,
            due: (completed > 0).then_some(Due {
                ended: 990,
                failed: 1,
                censored: 7,
                unsent: 2,
                held: 3,
                in_flight_s: 12.5,
            }),
        }
    }

    fn read(text: &[u8]) -> (Vec<Interval>, bool) {
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(text.to_vec())));
        let intervals = super::read(&mut lines, &mut Budget::new());
        (intervals, lines.damage().is_none())
    }

    #[test]
    fn more_operations_than_a_workload_has_are_left_out() {
        let mut text = HEADER.as_bytes().to_vec();
        for at in 0..=OPERATIONS_MAX {
            write(&mut text, &Interval { operation: format!("o{at}"), ..sample(1) }).unwrap();
        }
        let (intervals, whole) = read(&text);
        assert_eq!((intervals.len(), whole), (OPERATIONS_MAX, false));
    }

    #[test]
    fn reads_what_it_wrote_and_stops_at_a_cut() {
        let odd = Interval { operation: "read, \"cold\"\nthen warm".into(), ..sample(0) };
        let mut text = HEADER.as_bytes().to_vec();
        write(&mut text, &sample(998)).unwrap();
        let first = text.len();
        write(&mut text, &odd).unwrap();
        // As text: what is absent is NaN, which equals nothing.
        assert_eq!(format!("{:?}", read(&text)), format!("{:?}", (vec![sample(998), odd], true)));
        for cut in HEADER.len()..text.len() {
            let (intervals, whole) = read(&text[..cut]);
            assert!(intervals.len() < 2);
            assert_eq!(whole, cut == HEADER.len() || cut == first, "{cut}");
        }
    }

    #[test]
    fn the_header_names_every_cell() {
        let mut line = Vec::new();
        write(&mut line, &sample(5)).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(HEADER.matches(',').count(), line.matches(',').count());
    }
}
