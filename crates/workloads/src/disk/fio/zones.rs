//! `zonemode`, and the jobs of a device with write pointers.

use model::{Level, quantity};

use super::super::settings::{self};
use super::sections::{Options, Reader};
use super::translate::{Draft, Order};
use super::value::{self, Size};

/// Bytes of a zone where the job leaves that to the device.
pub(super) const ZONE_BYTES: u64 = 256 << 20;

const OF_ZONES: [&str; 9] = [
    "zonesize",
    "zonerange",
    "zoneskip",
    "zonecapacity",
    "max_open_zones",
    "job_max_open_zones",
    "read_beyond_wp",
    "zone_reset_threshold",
    "zone_reset_frequency",
];

impl Reader<'_> {
    /// Bytes of a zone, as the job states them or as usual.
    pub(super) fn zone_bytes(&mut self, options: &Options) -> u64 {
        self.value(options, "zonesize", value::block, "write bytes, such as 256m").unwrap_or(ZONE_BYTES)
    }

    /// A number of bytes or zones.
    fn of_zones(&mut self, options: &Options, name: &str) -> Option<u64> {
        let zone = self.zone_bytes(options);
        match self.value(options, name, value::size, "write bytes, such as 256m, or zones, such as 2z")? {
            Size::Bytes(bytes) => Some(bytes),
            Size::Zones(zones) => zones.checked_mul(zone),
            Size::Percent(_) => None,
        }
    }

    pub(super) fn zones(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let mode = options.get("zonemode").map_or("none", |written| written.value.as_str());
        let at = options.get("zonemode").map(|written| written.at).unwrap_or_default();
        match mode {
            "none" => {
                for name in OF_ZONES {
                    self.has_no_effect(options, name, "without zonemode");
                }
            }
            "strided" => self.strided(options, order, draft),
            "zbd" => self.write_pointers(options, order, draft),
            mode => {
                self.problem(at, format!("zonemode={mode} is not supported"), "one of none, strided, zbd")
            }
        }
    }

    /// Zones with what is left out behind each.
    fn strided(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let at = options.get("zonemode").map(|written| written.at).unwrap_or_default();
        let zone = self.value(options, "zonesize", value::block, "write bytes, such as 256m");
        let range = self.value(options, "zonerange", value::block, "write bytes, such as 256m");
        let skip = self.of_zones(options, "zoneskip").unwrap_or(0);
        if order.is_random {
            self.problem(
                at,
                "zonemode=strided with random offsets is not supported",
                "write rw=read or rw=write",
            );
        }
        let Some(zone) = zone else {
            self.problem(at, "zonemode=strided without zonesize", "write zonesize");
            return;
        };
        if range.is_some_and(|range| range != zone) {
            let at = options.get("zonerange").map(|written| written.at).unwrap_or_default();
            self.problem(
                at,
                "a zonerange other than zonesize is not supported",
                "write the same, or remove it",
            );
        }
        draft.set(settings::ZONE_SIZE.name, Level::Bytes(zone));
        if skip > 0 {
            draft.set(settings::ZONE_SKIP.name, Level::Bytes(skip));
        }
    }

    /// A device with write pointers, whose rules are kept on any device.
    fn write_pointers(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let zone = self.zone_bytes(options);
        let (most, own_most) = (
            self.count(options, "max_open_zones", 1_000_000),
            self.count(options, "job_max_open_zones", 1_000_000),
        );
        let share = |text: &str| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        let above = self.value(options, "zone_reset_threshold", share, "write a share from 0 to 1");
        let often = self.value(options, "zone_reset_frequency", share, "write a share from 0 to 1");
        let _ = self.flag(options, "read_beyond_wp");
        for name in ["zonecapacity", "zoneskip", "zonerange"] {
            if let Some(written) = options.get(name) {
                self.problem(written.at, format!("`{name}` with zonemode=zbd is not supported"), "remove it");
            }
        }
        if order.reads_only() {
            self.note("zonemode: zones are read as if all were full; the write pointers of a zoned device are not looked at");
            return;
        }
        if order.reads > 0.0 {
            self.note("zonemode: reads go to any block, whether or not its zone was written in this run");
        }
        self.note("zonemode: the rules for write pointers are kept on a device without zones, which are empty when a step begins; a zoned device is not written");
        if !options.contains_key("zonesize") {
            self.note_unless(
                format!(
                    "zonesize: {} is used, as the size of a zoned device's zones is not requested; --zone-size sets another",
                    quantity::bytes(zone)
                ),
                Some(settings::ZONE_SIZE.name),
            );
        }
        if order.trims {
            self.note("zonemode: a trim resets a zone that contains data");
        }
        draft.set(settings::WRITE_POINTERS.name, Level::Flag(true));
        draft.set(settings::ZONE_SIZE.name, Level::Bytes(zone));
        if let Some(most) = most.into_iter().chain(own_most).min() {
            draft.set(settings::OPEN_ZONES.name, Level::Count(most));
        }
        if let Some(often) = often.filter(|often| *often > 0.0) {
            draft.set(settings::EMPTY_ZONE_EVERY.name, Level::Count((1.0 / often).min(1e9) as u64));
            draft.set(settings::EMPTY_ZONES_ABOVE.name, Level::Percent(above.unwrap_or(0.0) * 100.0));
        }
    }
}
