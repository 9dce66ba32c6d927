//! The limits on disk operations and bytes that apply to the processes of a group.
//!
//! Version 2 applies the limits of a group to all groups below it. Version 1 applies them to the group's own processes
//! only: a child of a limited group is not limited.

use std::path::Path;

use model::{Nanos, SECOND};

use super::hierarchy::{Hierarchies, Place};
use crate::reader::{Buffer, KernelFile, fields, lines, number};

/// Reads, writes, bytes read and bytes written per second; nothing without a limit.
pub(crate) type IoRates = [Option<u64>; 4];

/// The files of version 1 and the keys in `io.max` of version 2, in the order of [`IoRates`].
const V1_FILES: [&str; 4] = [
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];
const V2_KEYS: [&[u8]; 4] = [b"riops=", b"wiops=", b"rbps=", b"wbps="];

/// Limits change rarely and are several files.
const PAUSE: Nanos = 2 * SECOND;
/// Maximum depth of nested groups.
const DEPTH_MAX: usize = 32;

/// The I/O limits of one group, read again at intervals.
pub(super) struct IoLimits {
    v1: Vec<(usize, KernelFile)>,
    v2: Vec<KernelFile>,
    rates: IoRates,
    read_at: Option<Nanos>,
}

impl IoLimits {
    pub(super) fn new(hierarchies: &Hierarchies, place: Place<'_>) -> Self {
        let v1 = V1_FILES.iter().enumerate();
        let ancestors = place.under(None).into_iter().flat_map(|path| Path::new(path).ancestors());
        IoLimits {
            v1: v1
                .filter_map(|(index, name)| Some((index, hierarchies.file(place, Some("blkio"), name)?)))
                .collect(),
            v2: ancestors
                .take(DEPTH_MAX)
                .filter_map(|path| hierarchies.file(Place::Everywhere(path.to_str()?), None, "io.max"))
                .collect(),
            rates: IoRates::default(),
            read_at: None,
        }
    }

    /// The limits as of the last time they were read.
    pub(super) fn read(&mut self, now: Nanos, buffer: &mut Buffer) -> IoRates {
        if self.read_at.is_some_and(|at| now.saturating_sub(at) < PAUSE) {
            return self.rates;
        }
        (self.rates, self.read_at) = (IoRates::default(), Some(now));
        for (index, file) in &mut self.v1 {
            for fields in file.read(buffer).into_iter().flat_map(devices) {
                tighten(&mut self.rates[*index], fields.last());
            }
        }
        for file in &mut self.v2 {
            for field in file.read(buffer).into_iter().flat_map(devices).flatten() {
                for (rate, key) in self.rates.iter_mut().zip(V2_KEYS) {
                    tighten(rate, field.strip_prefix(key));
                }
            }
        }
        self.rates
    }
}

/// What follows the number of the device in each line: `254:0 500` in version 1, `254:0 rbps=max ... riops=500` in version 2.
/// A last line without its end is cut off, and its number may be too.
fn devices(text: &[u8]) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    lines(&text[..whole]).map(|line| fields(line).skip(1))
}

/// Takes the smaller limit. "max" is no number, and no device is limited to nothing.
fn tighten(rate: &mut Option<u64>, field: Option<&[u8]>) {
    if let Some(limit) = field.and_then(number).filter(|&limit| limit > 0) {
        *rate = Some(rate.map_or(limit, |rate| rate.min(limit)));
    }
}
