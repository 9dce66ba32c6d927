//! What a record takes in memory once it was read, in bytes.

use hdrhistogram::Histogram;
use model::study::HeatColumn;
use model::{Column, Event, Interval, ReadingTable, RunRecord};

/// The memory of a block of the allocator beside its content.
const BLOCK: usize = 16;

/// The texts of the description of a column, each in a block of its own.
const METRIC_TEXTS: usize = 160;

fn bytes(count: usize, of_one: usize) -> u64 {
    count.saturating_mul(of_one) as u64
}

/// Rows of intervals.
pub(crate) fn of_intervals(intervals: &[Interval]) -> u64 {
    let names: usize = intervals.iter().map(|interval| interval.operation.len() + BLOCK).sum();
    bytes(intervals.len(), size_of::<Interval>()) + names as u64
}

/// Counters.
pub(crate) fn of_readings(table: &ReadingTable) -> u64 {
    let values: usize = table.values.iter().map(Vec::capacity).sum();
    let names: usize = table.columns.iter().map(|column| column.instance.len() + METRIC_TEXTS + BLOCK).sum();
    bytes(table.columns.len(), size_of::<Column>() + size_of::<Vec<f64>>() + BLOCK)
        + bytes(values + 2 * table.end_s.capacity(), size_of::<f64>())
        + names as u64
}

/// The columns of a heatmap.
pub(crate) fn of_heat(columns: &[HeatColumn]) -> u64 {
    let cells: usize = columns.iter().map(|column| column.cells.len()).sum();
    bytes(columns.len(), size_of::<HeatColumn>()) + bytes(cells, size_of::<(u16, u64)>())
}

fn of_histogram(histogram: &Histogram<u64>) -> u64 {
    bytes(histogram.distinct_values(), size_of::<u64>())
}

/// The histograms of all operations.
pub(crate) fn of_histograms(record: &RunRecord) -> u64 {
    let of = record.histograms.values().flat_map(|of| [&of.response, &of.service, &of.lag]);
    of.map(of_histogram).sum()
}

/// All of a trial. Facts, phases and the like are as large as their events and rows, or smaller.
pub(crate) fn of_trial(record: &RunRecord) -> u64 {
    let heat: u64 = record.histograms.values().map(|of| of_heat(&of.heat)).sum();
    let events: usize = record.events.iter().map(|event| size_of::<Event>() + 2 * event.text.len()).sum();
    let run = &record.run;
    let lists = run.phases.len() + run.sources.len() + run.errors.len() + run.doubts.len() + run.facts.len();
    of_intervals(&record.intervals)
        + of_readings(&record.readings)
        + of_histograms(record)
        + heat
        + events as u64
        + bytes(64 + lists, 128)
}

/// Replaces the histograms by those with two significant digits, an eighth as large.
pub(crate) fn coarsen(record: &mut RunRecord) {
    for of in record.histograms.values_mut() {
        for histogram in [&mut of.response, &mut of.service, &mut of.lag] {
            let Ok(mut coarse) = Histogram::new(2) else { continue };
            // It grows as needed.
            if coarse.add(&*histogram).is_ok() {
                *histogram = coarse;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_histogram_is_small_and_has_all_operations() {
        let mut times = model::study::new_histogram();
        for ms in 1..=1000_u64 {
            times.record_n(ms * 1_000_000, ms).unwrap();
        }
        let before = (of_histogram(&times), times.len(), times.value_at_quantile(0.99) as f64);
        let mut coarse = Histogram::new(2).unwrap();
        coarse.add(&times).unwrap();
        assert!(of_histogram(&coarse) * 6 < before.0, "{} {}", of_histogram(&coarse), before.0);
        assert_eq!(coarse.len(), before.1);
        let ratio = coarse.value_at_quantile(0.99) as f64 / before.2;
        assert!((1.0..1.01).contains(&ratio), "{ratio}");
    }
}
