//! I/O limits of the experiment that were reached.

use model::claim::ReachedLimit;
use model::result::TrialResult;
use model::{Estimate, Evidence, IoLimits, Level, metrics};

use super::device::{SHARED_FACTOR, in_direction, moved_factor};
use crate::measured::Measured;

/// Share of an I/O limit from which it counts as reached.
pub(crate) const LIMIT_REACHED: f64 = 0.95;
/// Share of an I/O limit from which something else must have used the device.
const LIMIT_PASSED: f64 = 1.2;

/// An I/O limit that is reached: the one that was used or exceeded most.
pub(crate) struct Reached<'a> {
    pub(crate) path: &'a str,
    level: &'a Level,
    metric: &'static str,
    limit: f64,
    moved: f64,
}

impl<'a> Reached<'a> {
    /// Compares the limits of the experiment with the rates, which `moved` returns for a disk metric.
    fn of(measured: &Measured<'a>, moved: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        let run = &measured.record.run;
        let set =
            run.in_force.iter().chain(run.asked.iter().filter(|(path, _)| !run.in_force.contains_key(*path)));
        let limits = set
            .filter(|(path, _)| path.contains("io_limit"))
            .filter_map(|(path, level)| Some((path.as_str(), level, IoLimits::from_level(level)?)));
        let each = limits.flat_map(|(path, level, limits)| {
            [
                (metrics::DISK_READS_PER_S, limits.reads_per_s),
                (metrics::DISK_WRITES_PER_S, limits.writes_per_s),
                (metrics::DISK_READ_BYTES_PER_S, limits.read_bytes_per_s),
                (metrics::DISK_WRITE_BYTES_PER_S, limits.write_bytes_per_s),
            ]
            .map(|(metric, limit)| (path, level, metric, limit))
        });
        let reached = each.filter_map(|(path, level, metric, limit)| {
            let limit = limit.filter(|limit| *limit > 0.0)?;
            let moved = moved(metric)
                .filter(|moved| (LIMIT_REACHED * limit..LIMIT_PASSED * limit).contains(moved))?;
            Some(Reached { path, level, metric, limit, moved })
        });
        reached.max_by(|a, b| a.used_share().total_cmp(&b.used_share()))
    }

    /// Whether the experiment set an I/O limit.
    pub(crate) fn is_set(measured: &Measured) -> bool {
        let run = &measured.record.run;
        run.in_force.keys().chain(run.asked.keys()).any(|path| path.contains("io_limit"))
    }

    /// Reached by the load itself: counted by the load if it bypasses the page cache, otherwise by the
    /// devices. The device's queue cannot show a limit, because delayed requests do not reach it.
    pub(crate) fn by_load(measured: &Measured<'a>, trial: &TrialResult) -> Option<Self> {
        let devices = measured.devices();
        // The limit does not apply to others; the page cache answers without it.
        let alone = moved_factor(measured, trial).is_none_or(|factor| factor < SHARED_FACTOR);
        let of_load = |metric: &str| {
            let operations = in_direction(trial, metric.contains("write"));
            let bytes = metric.contains("bytes");
            Some(operations.map(|of| if bytes { of.bytes_per_s } else { of.rate_per_s }).sum())
                .filter(|_| measured.is_direct())
        };
        Reached::of(measured, |metric| {
            let by_device = measured.sum(metric, &devices).filter(|_| alone);
            by_device.into_iter().chain(of_load(metric)).reduce(f64::max)
        })
    }

    /// Reached by a service, according to its own counters.
    pub(crate) fn by_service(measured: &Measured<'a>, service: &str) -> Option<Self> {
        Reached::of(measured, |metric| measured.mean(of_process(metric), service))
    }

    /// Reached by a service; without a separate group, only the disk counts its operations, including those
    /// of others.
    pub(crate) fn behind_service(measured: &Measured<'a>, service: &str) -> Option<Self> {
        Reached::of(measured, |metric| {
            measured.mean(of_process(metric), service).or_else(|| {
                let disks = measured.instances(metric);
                disks.filter_map(|disk| measured.mean(metric, disk)).reduce(f64::max)
            })
        })
    }

    /// The rate as a share of the limit.
    pub(crate) fn used_share(&self) -> f64 {
        self.moved / self.limit
    }

    /// The data of a claim.
    pub(crate) fn claim(&self) -> ReachedLimit {
        ReachedLimit {
            setting: self.path.into(),
            level: self.level.clone(),
            metric: self.metric.into(),
            limit: self.limit,
            observed: self.moved,
        }
    }

    pub(crate) fn evidence(&self, measured: &Measured, trial: &TrialResult) -> Evidence {
        let line = Estimate { value: self.limit, low: LIMIT_REACHED * self.limit, high: self.limit };
        measured.evidence(trial, self.metric, self.moved).threshold(line)
    }
}

/// The metric of a process that corresponds to a disk metric.
fn of_process(of_disk: &str) -> &'static str {
    match of_disk {
        metrics::DISK_READS_PER_S => metrics::PROCESS_DISK_READS_PER_S,
        metrics::DISK_WRITES_PER_S => metrics::PROCESS_DISK_WRITES_PER_S,
        metrics::DISK_READ_BYTES_PER_S => metrics::PROCESS_READ_BYTES_PER_S,
        _ => metrics::PROCESS_WRITE_BYTES_PER_S,
    }
}
