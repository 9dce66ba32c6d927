//! Watches what caches write after the load, until nothing of the load is left in memory and its devices rest.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::drain::{DrainEnd, DrainFacts, DrainHeld, DrainLevel, is_at_rest, is_writing};
use model::{MILLISECOND, Nanos, Readings, metrics};

use crate::clock::Clock;
use crate::sampler::Sampler;
use crate::workload::{Drain, Workload};

/// Length of the sample before the load.
const BEFORE: Nanos = 200 * MILLISECOND;
/// Consecutive samples at the level before the load after which a device rests: between two bursts of writes
/// it looks idle, too.
const SAMPLES_AT_REST: u32 = 2;

/// The level of a sample; none if the counters of memory or of a device were not read.
fn level(readings: &Readings, devices: &[String]) -> Option<DrainLevel> {
    let unwritten = readings.get(metrics::MEMORY_DIRTY_BYTES, "")?
        + readings.get(metrics::MEMORY_WRITEBACK_BYTES, "").unwrap_or(0.0);
    let mut written = 0.0;
    for device in devices {
        written += readings.get(metrics::DISK_WRITE_BYTES_PER_S, device)?;
    }
    Some(DrainLevel { unwritten_bytes: unwritten, written_bytes_per_s: written })
}

/// The drain of one trial, shared by the sampler and the collector.
#[derive(Debug)]
pub(crate) struct DrainWatch {
    pub(crate) wanted: Drain,
    /// None if the counters do not show it.
    before: Option<DrainLevel>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    last: Option<DrainLevel>,
    /// Latest samples in which the devices, and the whole host, were at the level before the load.
    devices_at_rest: u32,
    host_at_rest: u32,
    /// Bytes of the load's own files, if known: at the last look, and the most so far.
    own_bytes: Option<u64>,
    own_bytes_max: u64,
    /// At the end of the load.
    left_bytes: Option<u64>,
}

impl DrainWatch {
    /// Samples the level before the load, which takes a moment.
    pub(crate) fn begin(wanted: Drain, sampler: &mut Sampler, clock: Clock) -> DrainWatch {
        sampler.sample(clock);
        std::thread::sleep(Duration::from_nanos(BEFORE));
        sampler.sample(clock);
        let before = level(sampler.readings(), &wanted.devices);
        sampler.restart();
        DrainWatch { wanted, before, seen: Mutex::default() }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample of the counters.
    pub(crate) fn see(&self, readings: &Readings) {
        let last = level(readings, &self.wanted.devices);
        let both = last.zip(self.before);
        let devices = both
            .is_some_and(|(last, before)| !is_writing(last.written_bytes_per_s, before.written_bytes_per_s));
        let host = devices
            && both.is_some_and(|(last, before)| {
                is_at_rest(last.unwritten_bytes, before.unwritten_bytes, 0.0, 0.0)
            });
        let mut seen = self.seen();
        seen.last = last;
        seen.devices_at_rest = if devices { seen.devices_at_rest + 1 } else { 0 };
        seen.host_at_rest = if host { seen.host_at_rest + 1 } else { 0 };
    }

    /// Looks at the files of the load.
    pub(crate) fn look(&self, workload: &dyn Workload) {
        let bytes = workload.unwritten_bytes();
        let mut seen = self.seen();
        seen.own_bytes = bytes;
        seen.own_bytes_max = seen.own_bytes_max.max(bytes.unwrap_or(0));
    }

    /// Forgets the samples during the load: what counts is what comes after it.
    pub(crate) fn load_ended(&self, workload: &dyn Workload) {
        self.look(workload);
        let mut seen = self.seen();
        (seen.devices_at_rest, seen.host_at_rest) = (0, 0);
        seen.left_bytes = seen.own_bytes;
    }

    /// Whether the drain can be seen at all.
    pub(crate) fn is_visible(&self) -> bool {
        self.before.is_some() || self.seen().own_bytes.is_some()
    }

    /// Whether nothing is left: by the files of the load, or by all of the host where these are not known.
    /// What leaves memory may stay in a cache between the devices below.
    pub(crate) fn is_over(&self) -> bool {
        let seen = self.seen();
        match seen.own_bytes {
            Some(0) if !self.wanted.is_stacked || self.before.is_none() => true,
            Some(0) => seen.devices_at_rest >= SAMPLES_AT_REST,
            Some(_) => false,
            None => seen.host_at_rest >= SAMPLES_AT_REST,
        }
    }

    /// Bytes that are not written yet, and bytes per second that the devices write.
    pub(crate) fn last(&self) -> Option<(f64, f64)> {
        let seen = self.seen();
        let last = seen.last?;
        Some((seen.own_bytes.map_or(last.unwritten_bytes, |own| own as f64), last.written_bytes_per_s))
    }

    /// What the record has to know beside the counters.
    pub(crate) fn facts(&self, end: DrainEnd) -> DrainFacts {
        let seen = self.seen();
        let held = |left_bytes| DrainHeld { most_bytes: seen.own_bytes_max, left_bytes };
        DrainFacts {
            end,
            devices: self.wanted.devices.clone(),
            before: self.before,
            held: seen.left_bytes.map(held),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{MetricInfo, MetricKind, Unit};

    fn sample(unwritten: f64, written: f64) -> Readings {
        let mut readings = Readings::new();
        for (name, instance, unit, value) in [
            (metrics::MEMORY_DIRTY_BYTES, "", Unit::Bytes, unwritten),
            (metrics::DISK_WRITE_BYTES_PER_S, "vda", Unit::BytesPerSecond, written),
        ] {
            let column = readings.column(&MetricInfo::new(name, unit, MetricKind::Gauge, ""), instance);
            readings.set(column, value);
        }
        readings
    }

    fn watch(is_stacked: bool, own_bytes: Option<u64>) -> DrainWatch {
        let wanted = Drain { at_most: 1, devices: vec!["vda".into()], is_stacked };
        let before = Some(DrainLevel { unwritten_bytes: 5e6, written_bytes_per_s: 1e6 });
        DrainWatch { wanted, before, seen: Mutex::new(Seen { own_bytes, ..Seen::default() }) }
    }

    #[test]
    fn without_known_files_the_host_rests_after_two_samples_at_the_level_before() {
        let watch = watch(false, None);
        for (what, readings, rests) in [
            ("memory holds data", sample(1e9, 0.0), false),
            ("the device writes", sample(5e6, 2e8), false),
            ("one sample", sample(6e6, 0.5e6), false),
            ("two samples", sample(4e6, 0.0), true),
            ("a late burst", sample(5e6, 9e7), false),
            ("counters that were not read", Readings::new(), false),
        ] {
            watch.see(&readings);
            assert_eq!(watch.is_over(), rests, "{what}");
        }
        assert_eq!(watch.last(), None);
        let facts = watch.facts(DrainEnd::Rest);
        assert_eq!((facts.end, facts.before, facts.held), (DrainEnd::Rest, watch.before, None));
    }

    #[test]
    fn of_known_files_the_last_byte_counts_whatever_others_write() {
        let busy = sample(9e9, 3e8);
        for (stacked, own, over) in
            [(false, 0, true), (false, 4096, false), (true, 0, false), (true, 4096, false)]
        {
            let watch = watch(stacked, Some(own));
            watch.see(&busy);
            watch.see(&busy);
            assert_eq!(watch.is_over(), over, "{stacked} {own}");
        }
        // The devices below rest when they no longer move data between them.
        let stacked = watch(true, Some(0));
        stacked.see(&sample(9e9, 0.0));
        stacked.see(&sample(9e9, 0.0));
        assert!(stacked.is_over());
    }
}
