//! The measured phase of one run: its intervals and its counters. Missing data is represented as absent,
//! never as zero, and never causes a panic.

use std::collections::{BTreeMap, BTreeSet};

use model::drain::DrainFacts;
use model::metric::{instance_on, split_instance};
use model::result::TrialResult;
use model::{Evidence, Interval, Level, Operation, Phase, RunRecord, Shape, Unit, metrics};

/// The measured phase of a run, or the part of it in which one step was active.
#[derive(Clone, Copy)]
pub(crate) struct Measured<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    length_s: f64,
    readable: bool,
    /// The host whose counters it has; empty for that of the load.
    host: &'a str,
    /// None for the whole phase.
    step: Option<&'a Step>,
}

/// One of several consecutive operations.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    /// The spans of time in which it was active, in order.
    pub(crate) spans: Vec<(f64, f64)>,
}

impl Step {
    fn has(&self, interval: &Interval) -> bool {
        let middle_s = 0.5 * (interval.begin_s + interval.end_s);
        self.operation.is(&interval.operation)
            && self.spans.iter().any(|(begin_s, end_s)| (*begin_s..*end_s).contains(&middle_s))
    }
}

/// Limit of a plausible mean share. A mean between 1 and this is due to the resolution of the counter, a
/// higher one to damage.
const SHARE_MAX: f64 = 1.5;
/// Operations in flight below which no step is active.
const BETWEEN_STEPS: f64 = 0.5;
/// The tolerance for rounding between the time from begin to end and the sum of the intervals.
const ROUNDING: f64 = 1e-6;
/// Limit of the steps that are examined individually: a synchronization has up to five.
pub(crate) const STEPS_MAX: usize = 32;

impl<'a> Measured<'a> {
    /// The phase according to its intervals, or according to the record's phases without intervals.
    pub(crate) fn of(record: &'a RunRecord) -> Self {
        let intervals = record.intervals.iter().filter(|interval| is_measured(interval));
        let (mut begin_s, mut end_s) = intervals
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(begin, end), i| {
                (begin.min(i.begin_s), end.max(i.end_s))
            });
        if !(end_s > begin_s) {
            (begin_s, end_s) = match record.run.span(Phase::Measure) {
                Some(span) if span.end_s > span.begin_s && (span.end_s - span.begin_s).is_finite() => {
                    (span.begin_s, span.end_s)
                }
                _ => (0.0, 0.0),
            };
        }
        let length_s = end_s - begin_s;
        let mut measured =
            Measured { record, begin_s, end_s, length_s, readable: false, host: "", step: None };
        let covered_s: f64 = measured.windows().map(|(begin_s, end_s)| end_s - begin_s).sum();
        if covered_s > 0.0 && (covered_s - measured.length_s).abs() > ROUNDING * measured.length_s {
            measured.length_s = covered_s;
        }
        let table = &record.readings;
        let rows = table.end_s.len();
        measured.readable = table.begin_s.len() == rows
            && table.values.len() == table.columns.len()
            && table.values.iter().all(|column| column.len() == rows);
        measured
    }

    /// The active steps, if operations are consecutive, in the order of the workload. An interval without
    /// completions belongs to the next active step, unless nothing was in flight, as between two steps.
    pub(crate) fn steps(&self) -> Vec<Step> {
        if !self.record.run.operations_in_turn {
            return Vec::new();
        }
        let mut spans: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        let mut open: Option<f64> = None;
        let intervals: Vec<&Interval> = self.intervals().collect();
        // Operations of the same interval are adjacent.
        for here in intervals.chunk_by(|a, b| a.begin_s == b.begin_s) {
            let (begin_s, end_s) = (here[0].begin_s, here[0].end_s);
            let busiest = here.iter().filter(|one| one.completed > 0).max_by(|a, b| {
                let time = |one: &Interval| one.completed as f64 * one.service.mean;
                time(a).total_cmp(&time(b))
            });
            let Some(done) = busiest else {
                match here.iter().map(|one| one.concurrency).sum::<f64>() < BETWEEN_STEPS {
                    true => open = None,
                    false => _ = open.get_or_insert(begin_s),
                }
                continue;
            };
            let from_s = open.take().unwrap_or(begin_s);
            let of_step = spans.entry(done.operation.as_str()).or_default();
            match of_step.last_mut().filter(|last| (last.1 - from_s).abs() < 1e-6) {
                Some(last) => last.1 = end_s,
                None => of_step.push((from_s, end_s)),
            }
        }
        let operations = &self.record.run.operations;
        let place = |name: &str| operations.iter().position(|known| known == name);
        let mut steps: Vec<(&str, Vec<(f64, f64)>)> = spans.into_iter().take(STEPS_MAX).collect();
        steps.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        let step = |(name, spans): (&str, _)| Step { operation: name.to_string().into(), spans };
        steps.into_iter().map(step).collect()
    }

    /// The part of the phase in which a step was active: its intervals, and the counters in its spans.
    pub(crate) fn during<'b>(&self, step: &'b Step) -> Measured<'b>
    where
        'a: 'b,
    {
        let (first, last) = (step.spans.first(), step.spans.last());
        Measured {
            record: self.record,
            begin_s: first.map_or(self.begin_s, |span| span.0),
            end_s: last.map_or(self.end_s, |span| span.1),
            length_s: step.spans.iter().map(|(begin_s, end_s)| end_s - begin_s).sum(),
            readable: self.readable,
            host: self.host,
            step: Some(step),
        }
    }

    /// The step of a partial phase; none for the whole phase.
    pub(crate) fn step(&self) -> Option<&'a Step> {
        self.step
    }

    /// The spans of time of the phase.
    pub(crate) fn spans(&self) -> Vec<(f64, f64)> {
        self.step.map_or_else(|| vec![(self.begin_s, self.end_s)], |step| step.spans.clone())
    }

    /// False if the columns of the counters have different lengths, as after damage.
    pub(crate) fn readings_fit(&self) -> bool {
        self.readable
    }

    /// The total length of its intervals, seconds: less than from begin to end if some are missing.
    pub(crate) fn length_s(&self) -> f64 {
        self.length_s
    }

    /// Begin and end of each interval once, in the order of recording.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let mut last = f64::NAN;
        self.intervals().filter_map(move |interval| {
            // Operations of the same interval are adjacent.
            let is_new = interval.begin_s != last;
            last = interval.begin_s;
            is_new.then_some((interval.begin_s, interval.end_s))
        })
    }

    /// The intervals of all operations, or of the step. Operations that are derived from others are left out.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = &'a Interval> + use<'a> {
        let (step, derived) = (self.step, &self.record.run.traits.derived);
        let is_its_own = move |interval: &Interval| {
            step.is_none_or(|step| step.has(interval))
                && !derived.iter().any(|name| *name == interval.operation)
        };
        self.record.intervals.iter().filter(move |interval| is_measured(interval) && is_its_own(interval))
    }

    /// The intervals after the phase in which operations of the load ended that were due in it.
    pub(crate) fn later_intervals(&self) -> impl Iterator<Item = &'a Interval> + use<'a> {
        let traits = &self.record.run.traits;
        let is_of_load = move |name: &str| {
            !traits.derived.iter().any(|derived| derived == name)
                && !traits.supporting.iter().any(|supporting| supporting == name)
        };
        let later =
            self.record.intervals.iter().filter(|one| one.phase == Phase::CoolDown && one.due.is_some());
        later.filter(move |interval| is_of_load(&interval.operation))
    }

    /// The time that the operations in flight at the end of the phase were in flight until then, minus that of those in flight
    /// at its begin, seconds. None in records without it.
    pub(crate) fn in_flight_at_edges(&self) -> Option<f64> {
        let derived = &self.record.run.traits.derived;
        let own =
            || self.record.intervals.iter().filter(|of| !derived.iter().any(|name| *name == of.operation));
        let at_end_of = |end_s: f64, phase: Phase| -> Option<f64> {
            let ends = own().filter(|of| of.phase == phase && (of.end_s - end_s).abs() < 1e-6);
            ends.map(|of| of.due.map(|due| due.in_flight_s)).sum()
        };
        let at_end_s = at_end_of(self.end_s, Phase::Measure)?;
        Some(at_end_s - at_end_of(self.begin_s, Phase::WarmUp)?)
    }

    /// The intervals of operations that are derived from others: parts of them, or several of them together.
    pub(crate) fn derived_intervals(&self) -> impl Iterator<Item = &'a Interval> + use<'a> {
        let derived = &self.record.run.traits.derived;
        let is_derived = move |interval: &Interval| derived.iter().any(|name| *name == interval.operation);
        self.record.intervals.iter().filter(move |interval| is_measured(interval) && is_derived(interval))
    }

    /// Successful operations and bytes per interval, all operations together, in order of time. For work that
    /// ends by itself, the series ends with its last byte: the flush after it is not throughput.
    pub(crate) fn series(&self) -> Vec<Window> {
        let mut windows: Vec<Window> = Vec::new();
        for interval in self.intervals().filter(|interval| !self.is_supporting(&interval.operation)) {
            let (rate, bytes) = (interval.rate_per_s(), interval.bytes_per_s());
            // Operations of the same interval are adjacent.
            match windows.last_mut().filter(|last| (last.begin_s - interval.begin_s).abs() < 1e-6) {
                Some(window) => {
                    window.rate_per_s += rate;
                    window.bytes_per_s += bytes;
                    window.completed = window.completed.saturating_add(interval.completed);
                    window.in_flight += interval.concurrency;
                    window.longest_s = window.longest_s.max(interval.response.max / 1e3);
                }
                None => windows.push(Window {
                    begin_s: interval.begin_s,
                    end_s: interval.end_s,
                    rate_per_s: rate,
                    bytes_per_s: bytes,
                    completed: interval.completed,
                    in_flight: interval.concurrency,
                    // Nothing ended without a time.
                    longest_s: 0.0_f64.max(interval.response.max / 1e3),
                }),
            }
        }
        if self.record.run.load.measure.is_none()
            && let Some(last) = windows.iter().rposition(|window| window.bytes_per_s > 0.0)
        {
            windows.truncate(last + 1);
        }
        windows
    }

    /// Number of counter samples in the phase.
    pub(crate) fn samples(&self) -> usize {
        let table = &self.record.readings;
        let spans = self.spans();
        let inside = |(begin_s, end_s): (&f64, &f64)| {
            spans.iter().any(|span| *begin_s >= span.0 - 0.02 && *end_s <= span.1 + 0.02)
        };
        table.begin_s.iter().zip(&table.end_s).filter(|row| self.readable && inside(*row)).count()
    }

    /// The columns of the counters of all hosts with their indexes.
    pub(crate) fn all_columns(&self) -> impl Iterator<Item = (usize, &'a model::Column)> + use<'a> {
        let columns = if self.readable { self.record.readings.columns.as_slice() } else { &[] };
        columns.iter().enumerate()
    }

    /// Those of its host with this metric and instances that begin with a text, in the order of the columns.
    pub(crate) fn columns(
        &self,
        metric: &str,
        prefix: &str,
    ) -> impl Iterator<Item = (usize, &'a model::Column)> + use<'a> {
        let columns = &self.record.readings.columns;
        let places = match self.readable {
            true => columns.find_all(metric, &self.instance(prefix)),
            false => Vec::new(),
        };
        let host = self.host;
        places.into_iter().map(|at| (at, &columns[at])).filter(move |(_, column)| column.host() == host)
    }

    /// The other hosts that have counters. Machines that drive the load are of the load generator, unless the load is on their
    /// own disks.
    pub(crate) fn hosts(&self) -> BTreeSet<&'a str> {
        let generates = |host: &&str| !self.is_storage() && self.machines().any(|machine| machine == *host);
        let hosts = self.all_columns().map(|(_, column)| column.host()).filter(|host| !host.is_empty());
        hosts.filter(|host| !generates(host)).collect()
    }

    /// The machines that drove the load, by the names of their counters.
    pub(crate) fn machines(&self) -> impl Iterator<Item = &'a str> {
        let machines: &'a [model::run::MachineRun] = &self.record.run.machines;
        machines.iter().filter(|machine| machine.drives).map(|machine| machine.name.as_str())
    }

    /// The same phase with the counters of each host that has files of the load: the machines that drove it, otherwise the
    /// present one.
    pub(crate) fn of_files(&self) -> Vec<Measured<'a>> {
        match self.machines().next() {
            Some(_) if self.is_storage() => self.machines().map(|machine| self.on(machine)).collect(),
            _ => vec![*self],
        }
    }

    /// The share of the operations of the load that its host issued.
    pub(crate) fn share_of_load(&self) -> f64 {
        let machines = || self.record.run.machines.iter().filter(|machine| machine.drives);
        let all: u64 = machines().map(|machine| machine.completed).sum();
        match machines().find(|machine| machine.name == self.host) {
            Some(machine) if all > 0 => machine.completed as f64 / all as f64,
            _ => self.share_of_users(),
        }
    }

    /// The share of the load that its host was given: users are dealt out in turn, and a rate is divided evenly.
    pub(crate) fn share_of_users(&self) -> f64 {
        let Some(index) = self.machines().position(|machine| machine == self.host) else { return 1.0 };
        let machines = self.machines().count();
        match &self.record.run.load.shape {
            Some(Shape::Closed { users, .. }) if users.largest() >= 1.0 => {
                let users = users.largest().ceil() as usize;
                (users.saturating_add(machines - 1 - index) / machines) as f64 / users as f64
            }
            _ => 1.0 / machines as f64,
        }
    }

    /// The same phase with the counters of another host.
    pub(crate) fn on(&self, host: &'a str) -> Measured<'a> {
        Measured { host, ..*self }
    }

    /// The host whose counters it has; empty for that of the load.
    pub(crate) fn host(&self) -> &'a str {
        self.host
    }

    /// An instance as the columns have it.
    pub(crate) fn instance(&self, instance: &str) -> String {
        if self.host.is_empty() { instance.to_string() } else { instance_on(self.host, instance) }
    }

    /// The instances of a metric, such as disks or processes, in the order of the columns.
    pub(crate) fn instances(&self, metric: &str) -> impl Iterator<Item = &'a str> {
        self.columns(metric, "").map(|(_, column)| split_instance(&column.instance).1)
    }

    /// The mean of a column between two times.
    pub(crate) fn column_mean(&self, column: usize, begin_s: f64, end_s: f64) -> Option<f64> {
        let mean = self.record.readings.mean(column, begin_s, end_s)?;
        let is_share = self.record.readings.columns[column].metric.unit == Unit::Share;
        (mean.is_finite() && !(is_share && mean > SHARE_MAX)).then_some(mean)
    }

    /// The mean of a column over the whole phase.
    pub(crate) fn column(&self, column: usize) -> Option<f64> {
        match self.step {
            None => self.column_mean(column, self.begin_s, self.end_s),
            Some(step) => self.column_over(column, &step.spans),
        }
    }

    /// The mean of a column over several spans of time, weighted by length; none if no sample is within one.
    fn column_over(&self, column: usize, spans: &[(f64, f64)]) -> Option<f64> {
        let known = spans.iter().filter_map(|(begin_s, end_s)| {
            Some((self.column_mean(column, *begin_s, *end_s)?, end_s - begin_s))
        });
        let (sum, length_s) = known.fold((0.0, 0.0), |(sum, total), (mean, s)| (sum + mean * s, total + s));
        (length_s > 0.0).then(|| sum / length_s)
    }

    /// The index of the column of a metric and instance.
    fn find(&self, metric: &str, instance: &str) -> Option<usize> {
        self.readable.then(|| self.record.readings.find(metric, &self.instance(instance)))?
    }

    /// An impossible reading of a column in the phase, or an impossible mean.
    pub(crate) fn impossible(&self, column: usize) -> Option<f64> {
        let table = &self.record.readings;
        let mean = || {
            let is_share = table.columns[column].metric.unit == Unit::Share;
            is_share.then(|| table.mean(column, self.begin_s, self.end_s))?.filter(|mean| *mean > SHARE_MAX)
        };
        table.impossible(column, self.begin_s, self.end_s).or_else(mean)
    }

    /// The mean of a metric and instance over the phase; none if it was not read.
    pub(crate) fn mean(&self, metric: &str, instance: &str) -> Option<f64> {
        self.column(self.find(metric, instance)?)
    }

    /// The same between two times on the run's clock.
    pub(crate) fn mean_between(&self, metric: &str, instance: &str, begin_s: f64, end_s: f64) -> Option<f64> {
        self.column_mean(self.find(metric, instance)?, begin_s, end_s)
    }

    /// The mean over several spans of time, weighted by length; none if no sample is within one.
    pub(crate) fn mean_over(&self, metric: &str, instance: &str, spans: &[(f64, f64)]) -> Option<f64> {
        self.column_over(self.find(metric, instance)?, spans)
    }

    /// Number of samples of a metric and instance within spans of time.
    pub(crate) fn samples_over(&self, metric: &str, instance: &str, spans: &[(f64, f64)]) -> usize {
        let table = &self.record.readings;
        let found = self.find(metric, instance);
        let Some(values) = found.and_then(|at| table.values.get(at)) else { return 0 };
        let inside = |begin_s: f64, end_s: f64| {
            spans.iter().any(|span| begin_s >= span.0 - 0.02 && end_s <= span.1 + 0.02)
        };
        let rows = table.begin_s.iter().zip(&table.end_s).zip(values);
        rows.filter(|((begin_s, end_s), value)| value.is_finite() && inside(**begin_s, **end_s)).count()
    }

    /// The sum of such means over instances; none if none of them was read.
    pub(crate) fn sum_over<'i>(
        &self,
        metric: &str,
        instances: impl IntoIterator<Item = &'i str>,
        spans: &[(f64, f64)],
    ) -> Option<f64> {
        let means = instances.into_iter().filter_map(|instance| self.mean_over(metric, instance, spans));
        means.reduce(|sum, mean| sum + mean)
    }

    /// The sum of the means of a metric over instances; none if none of them was read.
    pub(crate) fn sum(&self, metric: &str, instances: &[&str]) -> Option<f64> {
        instances.iter().filter_map(|instance| self.mean(metric, instance)).reduce(|sum, mean| sum + mean)
    }

    /// The mean of a metric for the whole host: its column without an instance, otherwise the mean over its
    /// instances.
    pub(crate) fn host_mean(&self, metric: &str) -> Option<f64> {
        self.mean(metric, "").or_else(|| {
            let means: Vec<f64> = self.columns(metric, "").filter_map(|(at, _)| self.column(at)).collect();
            crate::statistics::mean(&means)
        })
    }

    /// A fact of the workload: that of its host, where machines differ.
    pub(crate) fn fact(&self, name: &str) -> Option<&'a Level> {
        let facts = &self.record.run.facts;
        let of_machine = || facts.get(&format!("machine.{}.{name}", self.host));
        facts.get(name).or_else(|| (!self.host.is_empty()).then(of_machine)?)
    }

    /// A fact with a text value.
    pub(crate) fn fact_text(&self, name: &str) -> Option<&'a str> {
        match self.fact(name)? {
            Level::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A fact with a numeric value, in its base unit.
    pub(crate) fn fact_number(&self, name: &str) -> Option<f64> {
        self.fact(name)?.as_number().filter(|value| value.is_finite())
    }

    /// A fact with a share: a percentage, or a number from 0 to 1.
    pub(crate) fn fact_share(&self, name: &str) -> Option<f64> {
        match self.fact(name)? {
            Level::Percent(percent) => Some(percent / 100.0),
            level => level.as_number(),
        }
        .filter(|share| share.is_finite())
    }

    /// The kernel names of the block devices of the files; for a copy, of its destination.
    pub(crate) fn devices(&self) -> Vec<&'a str> {
        match self.fact("devices").or_else(|| self.fact("destination.device")) {
            Some(Level::List(levels)) => levels
                .iter()
                .filter_map(|level| match level {
                    Level::Text(text) => Some(self.whole_disk(text)),
                    _ => None,
                })
                .collect(),
            Some(Level::Text(text)) if !text.is_empty() && text != "unknown" && !text.starts_with("none") => {
                vec![self.whole_disk(text)]
            }
            // Another tool does not say it: those with counters.
            _ if self.record.run.origin == model::run::Origin::Imported => {
                self.instances(metrics::DISK_QUEUE_LENGTH).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The disk with counters for a partition: `vda` for `vda1`, `nvme0n1` for `nvme0n1p2`. The device itself
    /// if it has counters, or if no disk does.
    pub(crate) fn whole_disk(&self, device: &'a str) -> &'a str {
        let disks: Vec<&str> = self.instances(metrics::DISK_QUEUE_LENGTH).collect();
        let is_partition_of = |disk: &str| {
            device.strip_prefix(disk).is_some_and(|rest| {
                let number = rest.strip_prefix('p').unwrap_or(rest);
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        match disks.contains(&device) {
            true => device,
            false => disks.into_iter().find(|disk| is_partition_of(disk)).unwrap_or(device),
        }
    }

    /// Whether the workload transfers bytes to or from files.
    pub(crate) fn is_storage(&self) -> bool {
        self.record.run.traits.storage || self.record.run.facts.contains_key("devices")
    }

    /// Whether the workload copies bytes and ends with the last one.
    pub(crate) fn is_copy(&self) -> bool {
        self.record.run.traits.storage && self.record.run.traits.ends_by_itself
    }

    /// Whether it was measured until its end.
    pub(crate) fn ends_by_itself(&self) -> bool {
        self.record.run.traits.ends_by_itself
    }

    /// What the trial knows about its drain; none if it was not watched.
    pub(crate) fn drain(&self) -> Option<DrainFacts> {
        DrainFacts::of(&self.record.run.facts)
    }

    /// Dirty and writeback memory of each sample in the whole record: (when it was taken, bytes).
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let table = &self.record.readings;
        let values = |metric| self.find(metric, "").and_then(|at| table.values.get(at));
        let (dirty, writeback) =
            (values(metrics::MEMORY_DIRTY_BYTES), values(metrics::MEMORY_WRITEBACK_BYTES));
        let sample = move |(row, at_s): (usize, &f64)| {
            let dirty = *dirty?.get(row)?;
            let writeback = writeback.and_then(|values| values.get(row)).copied().unwrap_or(0.0);
            dirty.is_finite().then(|| (*at_s, dirty + if writeback.is_finite() { writeback } else { 0.0 }))
        };
        table.end_s.iter().enumerate().filter_map(sample)
    }

    /// Bytes per second that devices wrote, of each sample in the whole record: (begin, end, rate).
    pub(crate) fn writes_of(&self, devices: &[&str]) -> Vec<(f64, f64, f64)> {
        let table = &self.record.readings;
        let columns: Vec<&Vec<f64>> = devices
            .iter()
            .filter_map(|device| table.values.get(self.find(metrics::DISK_WRITE_BYTES_PER_S, device)?))
            .collect();
        let row = |(row, (begin_s, end_s)): (usize, (&f64, &f64))| {
            let rates = columns.iter().filter_map(|column| column.get(row)).filter(|rate| rate.is_finite());
            let rate = rates.copied().reduce(|sum, rate| sum + rate)?;
            (end_s > begin_s).then_some((*begin_s, *end_s, rate))
        };
        table.begin_s.iter().zip(&table.end_s).enumerate().filter_map(row).collect()
    }

    /// How often the devices transfer each byte of the load: twice if a copy reads and writes on the same
    /// device.
    pub(crate) fn moves_of_a_byte(&self) -> f64 {
        let (from, to) = (self.fact_text("source.device"), self.fact_text("destination.device"));
        let same =
            from.is_some() && from.map(|from| self.whole_disk(from)) == to.map(|to| self.whole_disk(to));
        if same { 2.0 } else { 1.0 }
    }

    /// The observed value of a metric of the host or the load over the whole phase.
    pub(crate) fn evidence(&self, trial: &TrialResult, metric: &str, observed: f64) -> Evidence {
        self.evidence_of(trial, metric, "", observed)
    }

    /// The same for one instance; the names of several devices are joined.
    pub(crate) fn evidence_of(
        &self,
        trial: &TrialResult,
        metric: &str,
        instance: &str,
        observed: f64,
    ) -> Evidence {
        let instance = self.instance(instance);
        let title = match instance.is_empty() {
            true => metric.to_string(),
            false => format!("{metric}{{{instance}}}"),
        };
        Evidence::new(&trial.trial, title, self.unit(metric), (self.begin_s, self.end_s), observed)
    }

    /// The same for a value without a counter, with this unit.
    pub(crate) fn evidence_in(
        &self,
        trial: &TrialResult,
        metric: &str,
        instance: &str,
        unit: Unit,
        observed: f64,
    ) -> Evidence {
        let title = format!("{metric}{{{instance}}}");
        Evidence::new(&trial.trial, title, unit, (self.begin_s, self.end_s), observed)
    }

    /// The unit of a metric: as recorded, otherwise from the suffix of its name.
    fn unit(&self, metric: &str) -> Unit {
        if let Some((_, column)) = self.columns(metric, "").next() {
            return column.metric.unit;
        }
        let endings = [
            ("bytes_per_s", Unit::BytesPerSecond),
            ("_per_s", Unit::PerSecond),
            ("bytes", Unit::Bytes),
            ("bytes_per_transfer", Unit::Bytes),
            ("_share", Unit::Share),
            ("_cpus", Unit::Cpus),
            ("_s", Unit::Seconds),
        ];
        endings.iter().find(|(ending, _)| metric.ends_with(ending)).map_or(Unit::Count, |(_, unit)| *unit)
    }

    /// Whether operations bypassed the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.fact_text("cache") == Some("direct")
    }

    /// Whether an operation only serves others, for example a flush after some writes.
    pub(crate) fn is_supporting(&self, operation: &str) -> bool {
        self.record.run.traits.supporting.iter().any(|name| name == operation)
    }

    /// Whether throughput was meant to be constant: neither the load changes nor are operations consecutive.
    pub(crate) fn is_meant_steady(&self) -> bool {
        let run = &self.record.run;
        !run.operations_in_turn && run.load.shape.as_ref().is_none_or(|shape| shape.profile().is_constant())
    }

    /// Whether users wait for their responses and send the next request immediately.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.record.run.load.shape, Some(Shape::Closed { think: 0, .. }))
    }

    /// Whether operations arrive independently of earlier ones.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.record.run.load.shape, Some(Shape::Open { .. }))
    }
}

/// One interval with all operations combined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) rate_per_s: f64,
    pub(crate) bytes_per_s: f64,
    /// Completed operations, successful or failed.
    pub(crate) completed: u64,
    /// Mean number of operations in flight.
    pub(crate) in_flight: f64,
    /// The longest response time of the completed operations.
    pub(crate) longest_s: f64,
}

impl Window {
    pub(crate) fn length_s(&self) -> f64 {
        self.end_s - self.begin_s
    }
}

/// Whether an interval counts: it is in the measured phase and has a positive length.
fn is_measured(interval: &Interval) -> bool {
    interval.phase == Phase::Measure && interval.length_s() > 0.0 && interval.length_s().is_finite()
}
