//! The costliest values of a property, in constant memory.

use std::collections::HashMap;

use model::wire::{WireRankedBy, WireRanking, WireRankingRow};

use crate::operation::Operation;

/// The most values that are counted at a time. When there are more, the half with the least total time is dropped.
const VALUES_MAX: usize = 8192;

/// Bytes of a value, so that all of them fit into memory.
const VALUE_BYTES_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Cost {
    operations: u64,
    failed: u64,
    total_ns: u64,
    max_ns: u64,
    slow: u64,
    entries: u64,
    response_bytes: u64,
    example: Vec<u8>,
}

/// A value and its cost.
struct Entry {
    value: Box<str>,
    cost: Cost,
}

/// Values that were used last: most operations have one of a few.
const RECENT: usize = 4;

pub(crate) struct Ranking {
    by: WireRankedBy,
    places: HashMap<Box<str>, usize>,
    entries: Vec<Entry>,
    recent: [usize; RECENT],
    operations: u64,
    total_ns: u64,
    dropped: u64,
}

impl Ranking {
    pub(crate) fn new(by: WireRankedBy) -> Self {
        Ranking {
            by,
            places: HashMap::new(),
            entries: Vec::new(),
            recent: [0; RECENT],
            operations: 0,
            total_ns: 0,
            dropped: 0,
        }
    }

    /// Adds an operation with this value of the property.
    pub(crate) fn add(&mut self, value: &str, operation: &Operation, slow_ns: Option<u64>) {
        let time_ns = operation.time_ns().unwrap_or(0);
        self.operations += 1;
        self.total_ns = self.total_ns.saturating_add(time_ns);
        let place = self.place(start(value));
        let cost = &mut self.entries[place].cost;
        let is_slowest = cost.operations == 0 || time_ns > cost.max_ns;
        cost.operations += 1;
        cost.failed += u64::from(operation.outcome.is_some_and(|outcome| !outcome.is_success()));
        cost.total_ns = cost.total_ns.saturating_add(time_ns);
        cost.max_ns = cost.max_ns.max(time_ns);
        cost.slow += u64::from(slow_ns.is_some_and(|slow_ns| time_ns > slow_ns));
        cost.entries += operation.entries;
        cost.response_bytes += operation.response_bytes;
        if self.by == WireRankedBy::Filter && is_slowest {
            cost.example.clear();
            cost.example.extend_from_slice(&operation.filter);
        }
    }

    /// The place of a value in the table.
    fn place(&mut self, value: &str) -> usize {
        let is_here = |place: &usize| self.entries.get(*place).is_some_and(|entry| *entry.value == *value);
        if let Some(at) = self.recent.iter().position(is_here) {
            self.recent[..=at].rotate_right(1);
            return self.recent[0];
        }
        let place = match self.places.get(value) {
            Some(place) => *place,
            None => {
                if self.entries.len() >= VALUES_MAX {
                    self.drop_cheapest();
                }
                self.entries.push(Entry { value: value.into(), cost: Cost::default() });
                self.places.insert(value.into(), self.entries.len() - 1);
                self.entries.len() - 1
            }
        };
        self.recent.rotate_right(1);
        self.recent[0] = place;
        place
    }

    fn drop_cheapest(&mut self) {
        let middle = self.entries.len() / 2;
        // By name where costs are equal, so that the rest does not depend on the order.
        self.entries.sort_unstable_by(|a, b| (b.cost.total_ns, &a.value).cmp(&(a.cost.total_ns, &b.value)));
        self.dropped += (self.entries.len() - middle) as u64;
        self.entries.truncate(middle);
        self.places.clear();
        for (place, entry) in self.entries.iter().enumerate() {
            self.places.insert(entry.value.clone(), place);
        }
        self.recent = [0; RECENT];
    }

    /// The rows with the largest total time, and those with the slowest operation.
    pub(crate) fn finish(mut self, top: usize, has_limit: bool) -> Option<WireRanking> {
        if self.operations == 0 {
            return None;
        }
        let values = self.entries.len() as u64;
        let by_total = |a: &Entry, b: &Entry| (b.cost.total_ns, &a.value).cmp(&(a.cost.total_ns, &b.value));
        self.entries.sort_unstable_by(by_total);
        let mut rest = self.entries.split_off(top.min(self.entries.len()));
        rest.sort_unstable_by(|a, b| (b.cost.max_ns, &a.value).cmp(&(a.cost.max_ns, &b.value)));
        // Of those with a slow operation that cost little in total, a few.
        rest.truncate(top.div_ceil(3));
        rest.sort_unstable_by(by_total);
        let rows = self.entries.into_iter().chain(rest).map(|entry| row(entry, has_limit)).collect();
        let total_s = self.total_ns as f64 / 1e9;
        Some(WireRanking {
            by: self.by,
            rows,
            operations: self.operations,
            total_s,
            values: values + self.dropped,
            dropped: self.dropped,
        })
    }
}

/// The start of a value, as much of it as is kept.
fn start(value: &str) -> &str {
    let mut end = value.len().min(VALUE_BYTES_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

fn row(Entry { value, cost }: Entry, has_limit: bool) -> WireRankingRow {
    let example = match cost.example.is_empty() {
        true => String::new(),
        false => ldap::message::decode_filter(&cost.example)
            .map(|filter| crate::secret::masked(filter).to_string())
            .unwrap_or_default(),
    };
    WireRankingRow {
        value: value.into_string(),
        example,
        operations: cost.operations,
        failed: cost.failed,
        total_s: cost.total_ns as f64 / 1e9,
        mean_ms: cost.total_ns as f64 / cost.operations.max(1) as f64 / 1e6,
        max_ms: cost.max_ns as f64 / 1e6,
        slow: has_limit.then_some(cost.slow),
        entries: cost.entries,
        response_bytes: cost.response_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Kind, Outcome};
    use crate::packet::Endpoint;

    /// A search that takes so long.
    fn operation(time_ns: u64) -> Operation {
        let end = Endpoint::default();
        let mut operation = Operation::new(Kind::SEARCH, 1, (end, end));
        operation.outcome = Some(Outcome::Ldap(0));
        operation.end_ns = time_ns;
        operation
    }

    #[test]
    fn the_costliest_values_stay_however_many_there_are() {
        let mut ranking = Ranking::new(WireRankedBy::Base);
        for number in 0..50_000_u64 {
            ranking.add("often", &operation(10), None);
            ranking.add(&format!("once {number}"), &operation(5), None);
            if number % 1000 == 0 {
                ranking.add("seldom and slow", &operation(90_000), Some(50_000));
            }
            assert!(ranking.entries.len() <= VALUES_MAX && ranking.places.len() == ranking.entries.len());
        }
        let ranking = ranking.finish(2, true).unwrap();
        assert_eq!(ranking.operations, 100_050);
        assert!(ranking.dropped > 40_000);
        let rows: Vec<_> =
            ranking.rows.iter().take(2).map(|row| (row.value.as_str(), row.operations, row.slow)).collect();
        assert_eq!(rows, [("seldom and slow", 50, Some(50)), ("often", 50_000, Some(0))]);
    }

    #[test]
    fn a_slow_value_that_costs_little_is_a_row_too() {
        let mut ranking = Ranking::new(WireRankedBy::Path);
        for (value, count, time_ns) in [("a", 100, 10), ("b", 90, 10), ("c", 80, 10), ("slow", 1, 700)] {
            (0..count).for_each(|_| ranking.add(value, &operation(time_ns), None));
        }
        let rows = ranking.finish(2, false).unwrap().rows;
        assert_eq!(rows.iter().map(|row| row.value.as_str()).collect::<Vec<_>>(), ["a", "b", "slow"]);
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let long = "ä".repeat(VALUE_BYTES_MAX);
        assert_eq!(start(&long).len(), VALUE_BYTES_MAX);
        assert_eq!(start(&long[2..]), &long[..VALUE_BYTES_MAX]);
        assert_eq!(start(&format!("x{long}")).len(), VALUE_BYTES_MAX - 1);
    }
}
