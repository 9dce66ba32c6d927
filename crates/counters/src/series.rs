//! Common parts of all sources: the window, the increase since the previous read,
//! the columns, the instances.

use std::marker::PhantomData;

use model::{ColumnId, MetricInfo, Nanos, Readings};

/// The metrics of one source, numbered in the order of its table. Made by the `metrics!` macro.
pub(crate) trait MetricSet: Copy + 'static {
    /// The table.
    const TABLE: &'static [MetricInfo];

    /// The place in the table.
    fn index(self) -> usize;
}

/// Declares the metrics of a source: the enumeration `Metric`, which columns are set by, and the table `METRICS`.
macro_rules! metrics {
    ($($name:ident => $info:expr,)+) => {
        #[derive(Clone, Copy)]
        enum Metric { $($name),+ }

        static METRICS: &[model::MetricInfo] = &[$($info),+];

        impl crate::series::MetricSet for Metric {
            const TABLE: &'static [model::MetricInfo] = METRICS;

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use metrics;

/// Turns the times of reads into windows.
#[derive(Default)]
pub(crate) struct Clock {
    pub(crate) previous: Option<Nanos>,
}

impl Clock {
    /// The window that ends now.
    pub(crate) fn tick(&mut self, now: Nanos) -> Tick {
        let previous = self.previous.replace(now);
        let seconds = match previous {
            Some(previous) if previous < now => (now - previous) as f64 / 1e9,
            _ => f64::NAN,
        };
        Tick { now, previous, seconds }
    }
}

/// One read of a source, and the window it ends.
#[derive(Clone, Copy)]
pub(crate) struct Tick {
    /// The time of this read.
    pub(crate) now: Nanos,
    pub(crate) previous: Option<Nanos>,
    /// The length of the window; NaN at the first read, which makes every rate absent.
    pub(crate) seconds: f64,
}

/// A group of counters that are read together, as they were at the last read that found them.
pub(crate) struct Counters<const N: usize> {
    values: [Option<u64>; N],
    read_at: Option<Nanos>,
}

impl<const N: usize> Counters<N> {
    pub(crate) fn new() -> Self {
        Counters { values: [None; N], read_at: None }
    }

    /// The increases over the window. NaN, which becomes absent, for a counter that is missing, went backwards, or
    /// was not there at the previous read.
    pub(crate) fn advance(&mut self, tick: &Tick, values: [Option<u64>; N]) -> [f64; N] {
        let comparable = self.read_at.is_some() && self.read_at == tick.previous;
        let before = std::mem::replace(&mut self.values, values);
        self.read_at = Some(tick.now);
        std::array::from_fn(|index| match (comparable, before[index], values[index]) {
            (true, Some(before), Some(value)) if value >= before => (value - before) as f64,
            _ => f64::NAN,
        })
    }
}

/// The columns of one instance, each made when it first has a value.
pub(crate) struct Columns<M> {
    instance: String,
    ids: Vec<Option<ColumnId>>,
    metrics: PhantomData<M>,
}

impl<M: MetricSet> Columns<M> {
    pub(crate) fn new(instance: &str) -> Self {
        Columns { instance: instance.into(), ids: vec![None; M::TABLE.len()], metrics: PhantomData }
    }

    /// Sets a value of this sample. NaN and infinity are left absent.
    pub(crate) fn set(&mut self, out: &mut Readings, metric: M, value: f64) {
        if !value.is_finite() {
            return;
        }
        let index = metric.index();
        let id = *self.ids[index].get_or_insert_with(|| out.column(&M::TABLE[index], &self.instance));
        out.set(id, value);
    }

    /// Sets a value of this sample when there is one.
    pub(crate) fn set_count(&mut self, out: &mut Readings, metric: M, value: Option<u64>) {
        if let Some(value) = value {
            self.set(out, metric, value as f64);
        }
    }

    /// What these columns are of.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }
}

/// Instances by name (cores, disks, interfaces) that come and go. The kernel lists them in the same order each
/// time, so the requested one is nearly always the next.
pub(crate) struct Roster<T> {
    entries: Vec<(Box<[u8]>, T)>,
    next: usize,
    refused: bool,
}

/// A host where containers come and go makes interfaces without end, and a column once made stays.
const MOST_INSTANCES: usize = 1024;

impl<T> Roster<T> {
    pub(crate) fn new() -> Self {
        Roster { entries: Vec::new(), next: 0, refused: false }
    }

    /// To be called before each pass over the kernel's list.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }

    /// True when an instance of this name has been seen.
    pub(crate) fn knows(&self, name: &[u8]) -> bool {
        self.entries.iter().any(|(known, _)| **known == *name)
    }

    /// The instance of this name, made when it is new; nothing when there are too many already.
    pub(crate) fn entry(&mut self, name: &[u8], make: impl FnOnce(&str) -> T) -> Option<&mut T> {
        let is_next = self.entries.get(self.next).is_some_and(|(known, _)| **known == *name);
        let found = match is_next {
            true => Some(self.next),
            false => self.entries.iter().position(|(known, _)| **known == *name),
        };
        let at = match found {
            Some(at) => at,
            None if self.entries.len() >= MOST_INSTANCES => {
                self.refused = true;
                return None;
            }
            None => {
                self.entries.push((name.into(), make(&String::from_utf8_lossy(name))));
                self.entries.len() - 1
            }
        };
        self.next = at + 1;
        Some(&mut self.entries[at].1)
    }

    /// The omitted instances, for [`engine::source::Source::limits`].
    pub(crate) fn limits(&self, things: &str) -> String {
        match self.refused {
            true => format!("only the first {MOST_INSTANCES} {things} are read"),
            false => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::SECOND;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_read_and_a_clock_that_stands_still_have_no_window() {
        let mut clock = Clock::default();
        assert!(clock.tick(5).seconds.is_nan());
        assert!(clock.tick(5).seconds.is_nan());
        assert_eq!(clock.tick(5 + 2 * SECOND).seconds, 2.0);
        assert!(clock.tick(3).seconds.is_nan());
    }

    #[test]
    fn a_counter_that_was_away_starts_anew() {
        let (mut clock, mut counters) = (Clock::default(), Counters::<1>::new());
        let mut at = |second: u64| clock.tick(second * SECOND);
        assert!(counters.advance(&at(1), [Some(10)])[0].is_nan());
        assert_eq!(counters.advance(&at(2), [Some(15)])[0], 5.0);
        at(3);
        assert!(counters.advance(&at(4), [Some(30)])[0].is_nan(), "not read at second 3");
        assert_eq!(counters.advance(&at(5), [Some(31)])[0], 1.0);
        assert!(counters.advance(&at(6), [Some(7)])[0].is_nan(), "backwards");
        assert!(counters.advance(&at(7), [None])[0].is_nan(), "missing");
        assert!(counters.advance(&at(8), [Some(9)])[0].is_nan(), "missing before");
    }

    #[test]
    fn a_roster_finds_in_any_order_and_stays_bounded() {
        let mut roster = Roster::new();
        for (name, expected) in [("a", 0), ("b", 1), ("c", 2)] {
            assert_eq!(roster.entry(name.as_bytes(), |_| expected), Some(&mut { expected }));
        }
        roster.rewind();
        for (name, expected) in [("c", 2), ("a", 0), ("b", 1), ("b", 1)] {
            assert_eq!(roster.entry(name.as_bytes(), |_| 9), Some(&mut { expected }));
        }
        for index in 0..2 * MOST_INSTANCES {
            roster.entry(format!("veth{index}").as_bytes(), |_| 0);
        }
        assert_eq!(roster.entries.len(), MOST_INSTANCES);
        assert!(!roster.limits("interfaces").is_empty());
    }

    proptest! {
        #[test]
        fn increases_are_never_negative(values: Vec<u64>) {
            let (mut clock, mut counters) = (Clock::default(), Counters::<1>::new());
            for (second, value) in (1..).zip(values) {
                let [increase] = counters.advance(&clock.tick(second * SECOND), [Some(value)]);
                prop_assert!(increase.is_nan() || increase >= 0.0);
            }
        }
    }
}
