//! Write pointers: writes fill zones one after another from their start, as on a zoned device. Kept here, for a device or file
//! that has none of its own; the rules are those of fio's `zonemode=zbd` on such a device.

use std::sync::{Mutex, PoisonError};

use super::pattern::Place;
use super::settings::DiskPlan;

/// The zones of one file, which all jobs on it share.
#[derive(Debug)]
pub(super) struct Zones {
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes written in each zone from its start.
    written: Vec<u64>,
    /// Numbers of those that are partly written, in the order in which they were opened.
    open: Vec<usize>,
    /// Bytes in all zones.
    held: u64,
    /// Writes while too many bytes were held, since a zone was last emptied for that.
    since_emptied: u64,
}

/// How the writes of one job use the zones.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneUse {
    /// Where the job begins, and how many bytes it uses.
    base: u64,
    size: u64,
    /// Most zones that are partly written.
    open_max: usize,
    /// Share of the used bytes from which on zones are emptied before they are full, and in which number of writes one is.
    empty_above: f64,
    empty_every: u64,
}

impl ZoneUse {
    /// Of a job in a file with `size` usable bytes.
    pub(super) fn new(plan: &DiskPlan, size: u64) -> Self {
        ZoneUse {
            base: plan.offset,
            size,
            open_max: plan.open_zones.map_or(usize::MAX, |most| most as usize),
            empty_above: plan.empty_zones_above,
            empty_every: plan.empty_zone_every,
        }
    }
}

impl Zones {
    /// Empty zones of `bytes` each.
    pub(super) fn new(bytes: u64) -> Self {
        Zones { bytes: bytes.max(1), state: Mutex::default() }
    }

    /// Bytes of each.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where an operation goes whose place was drawn without regard to zones, if `claim` permits; none when it does not, or when
    /// there is no zone to discard.
    pub(super) fn place(
        &self,
        drawn: Place,
        of: &ZoneUse,
        claim: impl FnOnce(&Place) -> bool,
    ) -> Option<Place> {
        if !drawn.write {
            return claim(&drawn).then_some(drawn);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = ((of.base + of.size) / self.bytes).max(of.base / self.bytes + 1) as usize;
        if state.written.len() < end {
            state.written.resize(end, 0);
        }
        match drawn.trim {
            true => self.emptied(&mut state, drawn, ((of.base / self.bytes) as usize, end), claim),
            false => self.written(&mut state, drawn, of, (end, claim)),
        }
    }

    /// At the write pointer of the zone that was drawn, or where too many are open of one of these.
    fn written(
        &self,
        state: &mut State,
        drawn: Place,
        of: &ZoneUse,
        (end, claim): (usize, impl FnOnce(&Place) -> bool),
    ) -> Option<Place> {
        let wanted = ((drawn.offset / self.bytes) as usize).min(end - 1);
        let is_open = state.open.contains(&wanted);
        let zone = match state.open.as_slice() {
            open if !is_open && open.len() >= of.open_max => {
                let share =
                    u128::from(drawn.offset - of.base) * open.len() as u128 / u128::from(of.size.max(1));
                open.get(share as usize).or(open.last()).copied()?
            }
            _ => wanted,
        };
        let bytes = u64::from(drawn.bytes);
        let is_above = of.empty_every > 0 && state.held as f64 >= of.size as f64 * of.empty_above;
        let is_due = is_above && state.since_emptied + 1 >= of.empty_every;
        let before = if is_due || state.written[zone] + bytes > self.bytes { 0 } else { state.written[zone] };
        let place = Place { offset: zone as u64 * self.bytes + before, ..drawn };
        if !claim(&place) {
            return None;
        }
        state.since_emptied = if is_due { 0 } else { state.since_emptied + u64::from(is_above) };
        state.held = state.held - state.written[zone] + before + bytes;
        state.written[zone] = before + bytes;
        let is_full = before + 2 * bytes > self.bytes;
        match state.open.iter().position(|open| *open == zone) {
            Some(at) if is_full => drop(state.open.remove(at)),
            None if !is_full => state.open.push(zone),
            _ => {}
        }
        Some(place)
    }

    /// A whole zone that holds something: the one that was drawn, or the next.
    fn emptied(
        &self,
        state: &mut State,
        drawn: Place,
        (first, end): (usize, usize),
        claim: impl FnOnce(&Place) -> bool,
    ) -> Option<Place> {
        let wanted = ((drawn.offset / self.bytes) as usize).clamp(first, end - 1);
        let zone = (wanted..end).chain(first..wanted).find(|zone| state.written[*zone] > 0)?;
        let place = Place { offset: zone as u64 * self.bytes, ..drawn };
        if !claim(&place) {
            return None;
        }
        state.held -= state.written[zone];
        state.written[zone] = 0;
        state.open.retain(|open| *open != zone);
        Some(place)
    }
}
