//! The state of each connector space object: its agent, its metaverse object, and its pending work.
//!
//! The state changes with every step; the image mostly does not. So the state is stored separately, in cells
//! of a few bytes. The cells of objects with consecutive numbers share one row, a page. Linking a batch of
//! new objects to the metaverse therefore writes few rows, and none of the large ones. Pending work is found
//! by a scan of the pages, in the order of the objects, so no step must maintain an index for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{FailureKind, Gauges, Population, StoreError, Write};
use crate::hologram::Damaged;
use crate::object::{AgentId, CsId, CsObject, MvId, PendingImport, State};

/// Number of cells per page.
const CELLS: i64 = 128;
/// Bytes of a cell: its facts, its agent, its metaverse object.
const CELL_BYTES: usize = 14;
/// Bytes of a page; small enough that a database stores them in the row.
const PAGE_BYTES: usize = CELLS as usize * CELL_BYTES;
/// Number of pages that are cached between transactions.
const PAGES_KEPT: usize = 2048;
/// Number of pages that a scan reads together.
pub(super) const PAGES_AT_ONCE: usize = 64;

const CHANGE: u16 = 0b111;
const SYNCHRONIZED: u16 = 1 << 3;
const EXPORTING: u16 = 1 << 4;
/// The two lower bits of the state; the third one is `STATE_HIGH`.
const STATE: u16 = 0b11 << 5;
const THERE: u16 = 1 << 7;
const FAILED: u16 = 1 << 8;
const RETRIED: u16 = 1 << 9;
const STATE_HIGH: u16 = 1 << 10;
/// Its join keys are stored.
const KEYED: u16 = 1 << 11;

/// The time of its deletion is stored.
const TIMED: u16 = 1 << 12;

/// The bits of a state.
fn state_bits(state: State) -> u16 {
    let number = state as u16;
    (number & 0b11) << 5 | (number >> 2) << 10
}

/// The state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    facts: u16,
    agent: u32,
    mv: i64,
}

impl Cell {
    /// The state of an object that is written whole; a failure in the previous state is kept.
    fn of(object: &CsObject, before: Cell) -> Cell {
        let change = object.pending_import.as_ref().map_or(0, PendingImport::number) as u16;
        let mut facts = THERE | change | state_bits(object.state) | before.facts & (FAILED | RETRIED);
        if object.state.has_join_keys() {
            facts |= before.facts & KEYED;
        }
        if object.state == State::Deprovisioned {
            facts |= before.facts & TIMED;
        }
        if object.synchronized.is_some() {
            facts |= SYNCHRONIZED;
        }
        if object.pending_export.is_some() {
            facts |= EXPORTING;
        }
        Cell { facts, agent: object.agent.0, mv: object.mv.map_or(0, |mv| mv.0) }
    }

    fn has(self, fact: u16) -> bool {
        self.facts & fact != 0
    }

    /// Whether the object exists.
    pub(super) fn is_there(self) -> bool {
        self.has(THERE)
    }

    pub(super) fn agent(self) -> AgentId {
        AgentId(self.agent)
    }

    pub(super) fn mv(self) -> Option<MvId> {
        (self.mv != 0).then_some(MvId(self.mv))
    }

    /// The metaverse object that the object is connected to.
    pub(super) fn connected_to(self) -> Option<MvId> {
        self.mv().filter(|_| self.is_connected())
    }

    pub(super) fn is_connected(self) -> bool {
        self.state().is_some_and(State::is_connected)
    }

    /// The number of the pending import; 0 is none.
    pub(super) fn change(self) -> i64 {
        i64::from(self.facts & CHANGE)
    }

    pub(super) fn state(self) -> Option<State> {
        State::of(i64::from((self.facts & STATE) >> 5 | (self.facts & STATE_HIGH) >> 8))
    }

    pub(super) fn has_join_keys(self) -> bool {
        self.state().is_some_and(State::has_join_keys)
    }

    pub(super) fn is_synchronized(self) -> bool {
        self.has(SYNCHRONIZED)
    }

    pub(super) fn is_exporting(self) -> bool {
        self.has(EXPORTING)
    }

    pub(super) fn has_failed(self) -> bool {
        self.has(FAILED)
    }

    /// Whether the pending import has an image: then it is in the object's row.
    pub(super) fn is_imported(self) -> bool {
        matches!(self.change(), 1 | 2 | 4)
    }

    /// Whether the synchronized image differs from the one in the object's row.
    pub(super) fn has_before(self) -> bool {
        self.is_synchronized() && self.is_imported()
    }

    /// Whether the object's row has an image.
    pub(super) fn has_image(self) -> bool {
        self.is_synchronized() || self.is_imported()
    }

    /// Whether an import has shown the object, and no pending import deletes it.
    pub(super) fn counts_as_imported(self) -> bool {
        self.is_there() && self.has_image()
    }

    pub(super) fn is_of(self, agent: AgentId, population: Population) -> bool {
        self.is_there()
            && self.agent == agent.0
            && match population {
                Population::All => true,
                Population::Pending => self.facts & (CHANGE | RETRIED) != 0,
                Population::Exporting => self.is_exporting(),
                Population::Keyed => self.has_join_keys(),
            }
    }

    fn with_change(self, pending: Option<&PendingImport>) -> Cell {
        let change = pending.map_or(0, PendingImport::number) as u16;
        Cell { facts: self.facts & !CHANGE | change, ..self }
    }

    fn count(self, gauges: &mut Gauges) {
        gauges.objects += 1;
        match self.state() {
            Some(State::Connected) => gauges.connectors += 1,
            Some(State::ExplicitConnector) => {
                gauges.connectors += 1;
                gauges.explicit_connectors += 1;
            }
            Some(State::Filtered) => gauges.filtered += 1,
            Some(State::Deprovisioned) => gauges.deprovisioned += 1,
            Some(State::ExplicitDisconnector) => gauges.explicit_disconnectors += 1,
            Some(State::Candidate) | None => gauges.disconnectors += 1,
        }
        match self.change() {
            1 => gauges.pending_imports[0] += 1,
            2 | 4 => gauges.pending_imports[1] += 1,
            3 => gauges.pending_imports[2] += 1,
            _ => {}
        }
        gauges.pending_exports += u64::from(self.is_exporting());
        gauges.failures += u64::from(self.has_failed());
    }

    fn read(bytes: &[u8]) -> Cell {
        let mut cell = Cell::default();
        if let [f0, f1, a0, a1, a2, a3, mv @ ..] = bytes
            && let Ok(mv) = mv.try_into()
        {
            cell = Cell {
                facts: u16::from_le_bytes([*f0, *f1]),
                agent: u32::from_le_bytes([*a0, *a1, *a2, *a3]),
                mv: i64::from_le_bytes(mv),
            };
        }
        cell
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.facts.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.agent.to_le_bytes());
        bytes[6..CELL_BYTES].copy_from_slice(&self.mv.to_le_bytes());
    }
}

/// The change to the image in an object's row and to the separately stored synchronized image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageChange {
    /// Both remain.
    Same,
    /// The row gets another image; its previous one is stored separately.
    Kept,
    /// The row gets another image.
    Replaced,
    /// The separately stored image returns to the row.
    Restored,
    /// The image is deleted.
    Cleared,
    /// The separately stored image is deleted.
    Settled,
}

/// The effects of a change beyond the cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    /// The change to its image.
    pub(super) image: ImageChange,
    /// Whether a failure was stored.
    pub(super) had_failed: bool,
    /// Whether the stored join keys are to be deleted.
    pub(super) drops_keys: bool,
    /// Whether the stored time of its deletion is to be dropped.
    pub(super) drops_time: bool,
    /// Whether the object exists.
    pub(super) is_there: bool,
}

#[derive(Debug)]
struct Page {
    cells: Box<[u8; PAGE_BYTES]>,
    is_changed: bool,
}

/// The pages in memory.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: HashMap<i64, Page>,
}

/// The page of an object.
pub(super) fn page_of(id: CsId) -> i64 {
    id.0.div_euclid(CELLS)
}

/// The number of pages for so many consecutive objects.
pub(super) fn pages_for(objects: usize) -> usize {
    objects / CELLS as usize + 2
}

fn cell_at(id: CsId) -> usize {
    id.0.rem_euclid(CELLS) as usize * CELL_BYTES
}

impl Pages {
    /// The pages of these objects that are not in memory, each once, in ascending order.
    pub(super) fn missing(&self, ids: impl IntoIterator<Item = CsId>) -> Vec<i64> {
        let mut missing = Vec::new();
        for number in ids.into_iter().map(page_of) {
            if missing.last() != Some(&number) && !self.pages.contains_key(&number) {
                missing.push(number);
            }
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Loads pages into memory: the requested ones, of which the store returned some; the others are empty.
    ///
    /// # Errors
    /// When one is damaged.
    pub(super) fn take(&mut self, asked: &[i64], had: &[(i64, Vec<u8>)]) -> Result<(), StoreError> {
        for (number, bytes) in had {
            self.put(*number, bytes)?;
        }
        for number in asked {
            let empty = || Page { cells: Box::new([0; PAGE_BYTES]), is_changed: false };
            self.pages.entry(*number).or_insert_with(empty);
        }
        Ok(())
    }

    fn put(&mut self, number: i64, bytes: &[u8]) -> Result<(), StoreError> {
        if let Entry::Vacant(place) = self.pages.entry(number) {
            let cells: [u8; PAGE_BYTES] = bytes
                .try_into()
                .map_err(|_| StoreError::Damaged { id: number * CELLS, damage: Damaged(bytes.len()) })?;
            place.insert(Page { cells: Box::new(cells), is_changed: false });
        }
        Ok(())
    }

    /// The state of an object whose page is in memory.
    pub(super) fn of(&self, id: CsId) -> Cell {
        let page = self.pages.get(&page_of(id));
        page.map_or(Cell::default(), |page| Cell::read(&page.cells[cell_at(id)..][..CELL_BYTES]))
    }

    fn set(&mut self, id: CsId, cell: Cell) {
        if let Some(page) = self.pages.get_mut(&page_of(id)) {
            cell.write(&mut page.cells[cell_at(id)..][..CELL_BYTES]);
            page.is_changed = true;
        }
    }

    /// The pages that changed since the last call, to be written, in ascending order.
    pub(super) fn changed(&mut self) -> Vec<(i64, &[u8])> {
        let changed = self.pages.iter_mut().filter(|(_, page)| page.is_changed);
        let mut changed: Vec<(i64, &[u8])> = changed
            .map(|(number, page)| {
                page.is_changed = false;
                (*number, page.cells.as_slice())
            })
            .collect();
        changed.sort_unstable_by_key(|(number, _)| *number);
        changed
    }

    /// Marks a transaction as committed: the pages in memory equal the stored ones.
    pub(super) fn committed(&mut self) {
        if self.pages.len() > PAGES_KEPT {
            self.pages.clear();
        }
    }

    /// Discards the pages after a rollback.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
    }

    /// The object whose state a change affects.
    pub(super) fn touched(change: &Write) -> Option<CsId> {
        match change {
            Write::NewCs(object) | Write::Cs(object) => Some(object.id),
            Write::Staged { id, .. }
            | Write::Synchronized { id, .. }
            | Write::DeletedCs(id)
            | Write::JoinKeys { id, .. }
            | Write::DeleteAt { id, .. }
            | Write::Failure { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// Applies a change to the cell of its object, whose page is in memory.
    pub(super) fn change(&mut self, change: &Write) -> Effect {
        let Some(id) = Pages::touched(change) else {
            let image = ImageChange::Same;
            return Effect {
                image,
                had_failed: false,
                drops_keys: false,
                drops_time: false,
                is_there: false,
            };
        };
        let before = self.of(id);
        let had = |fact: bool, then: ImageChange| if fact { then } else { ImageChange::Same };
        let (after, image) = match change {
            Write::NewCs(object) => {
                let after = Cell::of(object, Cell::default());
                (after, if after.has_before() { ImageChange::Kept } else { ImageChange::Replaced })
            }
            Write::Cs(object) if before.is_there() => {
                let after = Cell::of(object, before);
                let image = match (after.has_before(), before.has_before()) {
                    (true, _) => ImageChange::Kept,
                    (false, true) => ImageChange::Settled,
                    (false, false) => ImageChange::Replaced,
                };
                (after, image)
            }
            Write::Staged { pending, .. } if before.is_there() => {
                let after = before.with_change(pending.as_ref());
                let image = match (after.is_imported(), before.is_imported(), before.is_synchronized()) {
                    (true, false, true) => ImageChange::Kept,
                    (true, ..) => ImageChange::Replaced,
                    (false, true, true) => ImageChange::Restored,
                    (false, true, false) => ImageChange::Cleared,
                    (false, false, _) => ImageChange::Same,
                };
                (after, image)
            }
            Write::Synchronized { state, mv, .. } if before.is_there() => {
                let keyed = if state.has_join_keys() { KEYED } else { 0 };
                let timed = if *state == State::Deprovisioned { TIMED } else { 0 };
                let kept = before.facts & (THERE | EXPORTING | keyed | timed);
                let is_synchronized = before.has_image();
                let facts = kept | state_bits(*state) | if is_synchronized { SYNCHRONIZED } else { 0 };
                let after = Cell { facts, mv: mv.map_or(0, |mv| mv.0), ..before };
                (after, had(before.has_before(), ImageChange::Settled))
            }
            Write::DeletedCs(_) => (Cell::default(), had(before.has_before(), ImageChange::Settled)),
            Write::Failure { why, .. } if before.is_there() => {
                let facts = match why {
                    None => 0,
                    Some(why) if matches!(why.kind, FailureKind::Flow | FailureKind::AmbiguousJoin) => {
                        FAILED | RETRIED
                    }
                    Some(_) => FAILED,
                };
                (Cell { facts: before.facts & !(FAILED | RETRIED) | facts, ..before }, ImageChange::Same)
            }
            Write::JoinKeys { keys, .. } if before.is_there() => {
                let keyed = if keys.is_empty() { 0 } else { KEYED };
                (Cell { facts: before.facts & !KEYED | keyed, ..before }, ImageChange::Same)
            }
            Write::DeleteAt { at_unix_s, .. } if before.is_there() => {
                let timed = if at_unix_s.is_some() { TIMED } else { 0 };
                (Cell { facts: before.facts & !TIMED | timed, ..before }, ImageChange::Same)
            }
            _ => (before, ImageChange::Same),
        };
        if after != before {
            self.set(id, after);
        }
        let is_rekeyed = matches!(change, Write::JoinKeys { .. }) || !after.has(KEYED);
        let drops_keys = before.has(KEYED) && is_rekeyed;
        let drops_time = before.has(TIMED) && !after.has(TIMED);
        let (had_failed, is_there) = (before.has_failed(), after.is_there());
        Effect { image, had_failed, drops_keys, drops_time, is_there }
    }

    /// Visits all pages from a number on, until `visit` ends it. The first read has a given number of pages.
    /// `read` returns the next pages from a number on, up to a limit. Pages without pending writes are
    /// dropped from memory.
    pub(super) fn each_page(
        &mut self,
        from: i64,
        at_once: usize,
        is_clean: bool,
        mut read: impl FnMut(i64, usize) -> Result<Vec<(i64, Vec<u8>)>, StoreError>,
        mut each: impl FnMut(&Pages, i64) -> bool,
    ) -> Result<(), StoreError> {
        let (mut next, mut at_once) = (from, at_once.clamp(1, PAGES_AT_ONCE));
        loop {
            let pages = read(next, at_once)?;
            let Some((last, _)) = pages.last() else { return Ok(()) };
            next = last + 1;
            at_once = (2 * at_once).min(PAGES_AT_ONCE);
            self.take(&[], &pages)?;
            for (number, _) in &pages {
                if !each(self, *number) {
                    return Ok(());
                }
            }
            if is_clean {
                self.committed();
            }
        }
    }

    /// The objects of a page that come after a number and belong to a population, in ascending order.
    pub(super) fn among(
        &self,
        number: i64,
        after: CsId,
        agent: AgentId,
        population: Population,
    ) -> impl Iterator<Item = CsId> {
        let page = self.pages.get(&number);
        let cells = page.into_iter().flat_map(|page| page.cells.chunks_exact(CELL_BYTES));
        let ids = (number * CELLS..).map(CsId);
        let is_of = move |cell: &[u8]| Cell::read(cell).is_of(agent, population);
        ids.zip(cells).filter(move |(id, cell)| *id > after && is_of(cell)).map(|(id, _)| id)
    }

    /// The facts of the objects of a connector space in a page.
    fn cells(&self, number: i64, agent: AgentId) -> impl Iterator<Item = Cell> {
        let page = self.pages.get(&number);
        let cells = page.into_iter().flat_map(|page| page.cells.chunks_exact(CELL_BYTES)).map(Cell::read);
        cells.filter(move |cell| cell.is_of(agent, Population::All))
    }

    /// Counts the objects of a connector space in a page.
    pub(super) fn gauge(&self, number: i64, agent: AgentId, gauges: &mut Gauges) {
        self.cells(number, agent).for_each(|cell| cell.count(gauges));
    }

    /// Counts the imported objects of a connector space in a page.
    pub(super) fn count_imported(&self, number: i64, agent: AgentId) -> u64 {
        self.cells(number, agent).filter(|cell| cell.counts_as_imported()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_as_it_was_written() {
        let mut bytes = [0; CELL_BYTES];
        let cell = Cell { facts: 0xfa5, agent: 70_000, mv: 1 << 50 };
        cell.write(&mut bytes);
        assert_eq!(Cell::read(&bytes), cell);
        assert_eq!(Cell::read(&[0; CELL_BYTES]), Cell::default());
        for state in (0..).map_while(State::of) {
            let facts = THERE | KEYED | RETRIED | state_bits(state);
            assert_eq!(Cell { facts, ..Cell::default() }.state(), Some(state));
        }
    }

    #[test]
    fn pages_are_asked_for_once_and_written_when_they_changed() {
        let mut standing = Pages::default();
        let ids = [300, 1, 2, 301, 129].map(CsId);
        assert_eq!(standing.missing(ids), [0, 1, 2]);
        standing.take(&[0, 1, 2], &[]).unwrap();
        assert_eq!(standing.missing(ids), [0; 0]);
        assert!(standing.changed().is_empty());
        standing.set(CsId(129), Cell { facts: THERE, agent: 1, mv: 5 });
        assert_eq!(standing.changed().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
        assert!(standing.changed().is_empty());
        assert_eq!(standing.of(CsId(129)).mv(), Some(MvId(5)));
        assert!(Pages::default().take(&[0], &[(0, vec![0; 3])]).is_err());
    }
}
