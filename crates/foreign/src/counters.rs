//! Counters over time, as another system logged them.

use std::collections::{BTreeMap, HashMap};

use crate::checked::{BEGIN_UNIX_NS, COUNTER_MAX, COUNTER_MIN, RUN_NS_MAX};
use crate::lines::counted;
use crate::{Content, DateOrder, Fault};

/// Whose names the counters have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterFamily {
    /// Windows Performance Monitor, in English.
    PerformanceMonitor,
    /// sar and sadf of sysstat.
    Sar,
    /// vmstat of procps.
    Vmstat,
    /// iostat of sysstat.
    Iostat,
    /// An exporter of Prometheus or OpenMetrics.
    OpenMetrics,
}

/// One counter of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterColumn {
    /// The system that has it; empty where the file does not say.
    pub host: String,
    /// Its name in the names of its family, in English.
    ///
    /// - Performance Monitor: object, instance and counter: `Processor(_Total)\% Processor Time`.
    /// - sar: option, column and instance: `-d await(sda)`, `-u %iowait(all)`, `-r kbavail`.
    /// - vmstat and iostat: column and instance: `wa`, `r_await(sda)`.
    /// - OpenMetrics: name and labels in the order of their names: `node_disk_io_now{device="sda"}`.
    pub path: String,
    /// As the file has it, where that differs.
    pub written: String,
}

/// A sample: all counters at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The begin of its window, nanoseconds since 1970 UTC: the time of the sample before.
    pub begin_unix_ns: i64,
    /// Its end.
    pub end_unix_ns: i64,
    /// A value for each column; NaN where there is none.
    pub values: Vec<f64>,
}

/// A log of counters, read one sample after another.
pub trait CounterLog {
    /// Whose names the counters have.
    fn family(&self) -> CounterFamily;

    /// Reads the next sample; false at the end. What cannot be read is noted and left out.
    ///
    /// # Errors
    /// If nothing more can be read.
    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault>;

    /// The columns of the last sample, and a number that changes with them.
    fn columns(&self) -> (&[CounterColumn], usize);

    /// Whether a column counts up from the start of the system, so that only its differences say how much there was.
    fn is_cumulative(&self, column: usize) -> bool {
        let _ = column;
        false
    }

    /// The order of day and month, and the seconds between local time and UTC, as far as the file has them.
    fn clock(&self) -> (Option<DateOrder>, Option<i64>);

    /// What was left out so far, each kind once with its first line and how often.
    fn notes(&self) -> Vec<Fault>;
}

/// A log whose values were checked: each is a number that a counter can have, or absent.
///
/// A reader makes one by [`CheckedLog::of`] or [`ahead`]; there is no other way to [`Content::Counters`].
pub struct CheckedLog {
    log: Box<dyn CounterLog>,
    /// The first sample, if it was read so that its columns are known.
    first: Option<Sample>,
    /// The end of the first sample, nanoseconds since 1970.
    begin_unix_ns: Option<i64>,
    /// Values that were left out, and samples.
    impossible: u64,
    out_of_time: u64,
}

impl CheckedLog {
    pub(crate) fn of(log: impl CounterLog + 'static) -> CheckedLog {
        CheckedLog { log: Box::new(log), first: None, begin_unix_ns: None, impossible: 0, out_of_time: 0 }
    }
}

/// Reads the first sample of a log. `none` says why it has none.
pub(crate) fn ahead<L: CounterLog + 'static>(
    mut log: L,
    none: impl FnOnce(&L) -> Fault,
) -> Result<Content, Fault> {
    let mut first = Sample::default();
    match log.next(&mut first)? {
        true => Ok(Content::Counters(CheckedLog { first: Some(first), ..CheckedLog::of(log) })),
        false => Err(none(&log)),
    }
}

impl CounterLog for CheckedLog {
    fn family(&self) -> CounterFamily {
        self.log.family()
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        loop {
            match self.first.take() {
                Some(first) => *sample = first,
                None if !self.log.next(sample)? => return Ok(false),
                None => {}
            }
            let end_ns = sample.end_unix_ns;
            let since_ns = end_ns.saturating_sub(*self.begin_unix_ns.get_or_insert(end_ns));
            if BEGIN_UNIX_NS.contains(&end_ns) && since_ns <= RUN_NS_MAX {
                break;
            }
            self.out_of_time += 1;
        }
        sample.begin_unix_ns = sample.begin_unix_ns.max(0);
        for value in sample.values.iter_mut().filter(|value| !is_absent_or_possible(**value)) {
            *value = f64::NAN;
            self.impossible += 1;
        }
        Ok(true)
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.log.columns()
    }

    fn is_cumulative(&self, column: usize) -> bool {
        self.log.is_cumulative(column)
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        self.log.clock()
    }

    fn notes(&self) -> Vec<Fault> {
        let mut notes = self.log.notes();
        if self.impossible > 0 {
            let values = counted(self.impossible, "value");
            notes.push(Fault::at(
                0,
                format!("left out: {values} not in {COUNTER_MIN:e} to {COUNTER_MAX:e}"),
                "",
            ));
        }
        if self.out_of_time > 0 {
            let samples = counted(self.out_of_time, "sample");
            let what =
                format!("left out: {samples} not in 1970 to 2200, or more than ten years after the first");
            notes.push(Fault::at(0, what, "check the times of the log"));
        }
        notes
    }
}

fn is_absent_or_possible(value: f64) -> bool {
    value.is_nan() || (COUNTER_MIN..=COUNTER_MAX).contains(&value)
}

/// The most columns of a log.
pub(crate) const COLUMNS_MAX: usize = 65_536;

/// Kinds of notes that are kept.
const NOTES_MAX: usize = 64;

/// What was left out, each kind once.
#[derive(Default)]
pub(crate) struct Notes {
    kinds: Vec<(String, u64, u64, &'static str)>,
}

impl Notes {
    /// Notes a kind with its line, and what to do.
    pub(crate) fn add(&mut self, what: &str, line: u64, help: &'static str) {
        if let Some((_, _, count, _)) = self.kinds.iter_mut().find(|(known, ..)| known == what) {
            *count += 1;
        } else if self.kinds.len() < NOTES_MAX {
            self.kinds.push((what.to_string(), line, 1, help));
        }
    }

    /// All kinds, each with its first line and how often.
    pub(crate) fn list(&self) -> Vec<Fault> {
        let words = |(what, line, count, help): &(String, u64, u64, &'static str)| {
            let times = if *count > 1 { format!(" ({count} times, first here)") } else { String::new() };
            Fault::at(*line, format!("{what}{times}"), *help)
        };
        self.kinds.iter().map(words).collect()
    }
}

/// Columns that appear while a log is read. None is removed.
#[derive(Default)]
pub(crate) struct Columns {
    list: Vec<CounterColumn>,
    index: HashMap<(String, String), usize>,
    /// The bytes of their names.
    bytes: usize,
}

/// The most bytes of the names of columns.
const NAME_BYTES_MAX: usize = 64 << 20;

impl Columns {
    /// The place of a column, which is added if it is new; none if there are too many.
    pub(crate) fn place(&mut self, host: &str, path: String, written: String) -> Option<usize> {
        let key = (host.to_string(), path);
        if let Some(place) = self.index.get(&key) {
            return Some(*place);
        }
        let place = self.list.len();
        let bytes = self.bytes + host.len() + key.1.len() + written.len();
        if place == COLUMNS_MAX || bytes > NAME_BYTES_MAX {
            return None;
        }
        self.bytes = bytes;
        self.list.push(CounterColumn { host: key.0.clone(), path: key.1.clone(), written });
        self.index.insert(key, place);
        Some(place)
    }

    /// Gives the columns without a host one.
    pub(crate) fn set_host(&mut self, host: &str) {
        for (place, column) in self.list.iter_mut().enumerate().filter(|(_, column)| column.host.is_empty()) {
            self.index.remove(&(String::new(), column.path.clone()));
            column.host = host.to_string();
            self.index.insert((column.host.clone(), column.path.clone()), place);
        }
    }

    /// The columns so far, and how many they are.
    pub(crate) fn list(&self) -> (&[CounterColumn], usize) {
        (&self.list, self.list.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

/// Values that are held until their time is complete: 128 MiB.
const HELD_MAX: usize = 16 << 20;

/// Samples that several tables of a file fill, one table after the other.
#[derive(Default)]
pub(crate) struct Joined {
    pub(crate) columns: Columns,
    pub(crate) notes: Notes,
    rows: BTreeMap<i64, Held>,
    held: usize,
    /// Samples to this time are complete.
    complete_ns: Option<i64>,
    /// The end of the last sample that was taken.
    taken_ns: Option<i64>,
}

/// A sample that is not complete.
struct Held {
    begin_ns: i64,
    values: Vec<f64>,
}

/// The begin of a window that is the end of the sample before.
pub(crate) const AFTER_LAST: i64 = i64::MIN;

/// The bytes of a held sample beside its values, in values.
const HELD_EXTRA: usize = 16;

impl Joined {
    /// Whether a sample was taken already.
    pub(crate) fn has_taken(&self) -> bool {
        self.taken_ns.is_some()
    }

    /// The sample of a window; false if it was taken already. A begin of [`AFTER_LAST`] is the end of the sample before.
    pub(crate) fn begin(&mut self, begin_ns: i64, end_ns: i64, line: u64) -> bool {
        if self.taken_ns.is_some_and(|taken_ns| end_ns <= taken_ns) {
            self.notes.add(
                "a row is not later than a sample that is complete and was left out",
                line,
                "write each table to a file of its own",
            );
            return false;
        }
        let held = &mut self.held;
        self.rows.entry(end_ns).or_insert_with(|| {
            *held += HELD_EXTRA;
            Held { begin_ns: begin_ns.min(end_ns), values: Vec::new() }
        });
        true
    }

    /// Sets a value of a sample that was begun.
    pub(crate) fn set(&mut self, end_ns: i64, place: usize, value: f64) {
        let Some(row) = self.rows.get_mut(&end_ns) else { return };
        if row.values.len() <= place {
            self.held += place + 1 - row.values.len();
            row.values.resize(place + 1, f64::NAN);
        }
        row.values[place] = value;
    }

    /// Samples to this time are complete.
    pub(crate) fn complete_to(&mut self, end_ns: i64) {
        self.complete_ns = self.complete_ns.max(Some(end_ns));
    }

    /// All samples so far are complete.
    pub(crate) fn complete_all(&mut self) {
        if let Some((end_ns, _)) = self.rows.last_key_value() {
            self.complete_ns = self.complete_ns.max(Some(*end_ns));
        }
    }

    /// Takes the first sample if it is complete, or if no more can be held.
    pub(crate) fn take(&mut self, sample: &mut Sample) -> bool {
        let Some((end_ns, _)) = self.rows.first_key_value() else { return false };
        if self.complete_ns.is_none_or(|complete_ns| *end_ns > complete_ns) && self.held < HELD_MAX {
            return false;
        }
        let Some((end_ns, row)) = self.rows.pop_first() else { return false };
        self.held = self.held.saturating_sub(HELD_EXTRA + row.values.len());
        sample.begin_unix_ns = match self.taken_ns.unwrap_or(AFTER_LAST).max(row.begin_ns) {
            AFTER_LAST => end_ns,
            begin_ns => begin_ns.min(end_ns),
        };
        sample.end_unix_ns = end_ns;
        sample.values.clear();
        sample.values.extend_from_slice(&row.values);
        sample.values.resize(self.columns.len(), f64::NAN);
        self.taken_ns = Some(end_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_one_after_the_other_are_joined() {
        let mut joined = Joined::default();
        let place =
            |joined: &mut Joined, path: &str| joined.columns.place("", path.into(), String::new()).unwrap();
        let (a, b) = (place(&mut joined, "a"), place(&mut joined, "b"));
        assert_eq!(place(&mut joined, "a"), a);
        for (end, value) in [(10, 1.0), (20, 2.0)] {
            assert!(joined.begin(end - 10, end, 1));
            joined.set(end, a, value);
        }
        let mut sample = Sample::default();
        assert!(!joined.take(&mut sample));
        assert!(joined.begin(10, 20, 1));
        joined.set(20, b, 3.0);
        joined.complete_to(10);
        assert!(joined.take(&mut sample));
        assert_eq!((sample.begin_unix_ns, sample.end_unix_ns, sample.values[0]), (0, 10, 1.0));
        assert!(sample.values[1].is_nan());
        assert!(!joined.begin(0, 10, 7));
        assert_eq!(joined.notes.list()[0].line, 7);
        assert!(!joined.take(&mut sample));
        joined.complete_all();
        assert!(joined.take(&mut sample));
        assert_eq!(sample.values, [2.0, 3.0]);
        assert!(!joined.take(&mut sample));
        assert_eq!(joined.held, 0);
    }

    #[test]
    fn what_is_held_has_a_limit() {
        let mut joined = Joined::default();
        let mut sample = Sample::default();
        let places = 60_000;
        let rows = (HELD_MAX / places) as i64;
        for end in 0..=rows {
            assert!(joined.begin(end - 1, end, 1));
            joined.set(end, places, 1.0);
        }
        assert!(joined.take(&mut sample));
        assert_eq!(sample.end_unix_ns, 0);
        assert!(!joined.take(&mut sample));
        assert!(!joined.begin(0, 0, 2));
    }
}
