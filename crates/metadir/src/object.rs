//! Objects of connector spaces and of the metaverse, as a store has them.
//!
//! Three images of a connector space object are stored: the synchronized one (S), the imported and not yet
//! synchronized one (pending import), and the changes that the metaverse wants in the system (pending
//! export).

use crate::hologram::{Attribute, Damaged, Hologram, ValueList, Values, read_number, write_number};
use crate::index_key::IndexKey;
use crate::naming::temporary_key;

/// The number of a connector space object. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CsId(pub i64);

/// The number of a metaverse object. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MvId(pub i64);

/// A management agent: the number that the store assigns to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub u32);

/// The relation of a connector space object to the metaverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no metaverse object. Each synchronization evaluates it again, and a metaverse object that
    /// matches one of its join rules connects it.
    Candidate = 0,
    /// It is joined to a metaverse object.
    Connected = 1,
    /// The filter of its agent excludes it.
    Filtered = 2,
    /// It was deprovisioned. It keeps the link to its metaverse object while that exists. It does not join by
    /// itself; provisioning connects it again.
    Deprovisioned = 3,
    /// An administrator disconnected it. No synchronization connects it again.
    ExplicitDisconnector = 4,
    /// An administrator joined it. The filter does not apply to it.
    ExplicitConnector = 5,
}

/// The kind of change to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new.
    Add = 1,
    /// Some of its attributes change.
    Update = 2,
    /// The object is deleted.
    Delete = 3,
}

impl State {
    /// The column of `metadir status` that counts objects in this state.
    pub fn column(self) -> &'static str {
        match self {
            State::Connected | State::ExplicitConnector => "connector",
            State::Candidate | State::ExplicitDisconnector => "disconnector",
            State::Deprovisioned => "deprovisioned",
            State::Filtered => "filtered",
        }
    }

    /// The state with a stored number.
    pub fn of(number: i64) -> Option<State> {
        [
            State::Candidate,
            State::Connected,
            State::Filtered,
            State::Deprovisioned,
            State::ExplicitDisconnector,
            State::ExplicitConnector,
        ]
        .into_iter()
        .find(|state| *state as i64 == number)
    }

    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            State::Candidate => "disconnector",
            State::Connected => "connector",
            State::Filtered => "filtered",
            State::Deprovisioned => "deprovisioned",
            State::ExplicitDisconnector => "explicit disconnector",
            State::ExplicitConnector => "explicit connector",
        }
    }

    /// Whether values flow between the object and its metaverse object.
    pub fn is_connected(self) -> bool {
        matches!(self, State::Connected | State::ExplicitConnector)
    }

    /// Whether a metaverse object finds the object by its join keys.
    pub fn has_join_keys(self) -> bool {
        matches!(self, State::Candidate | State::Deprovisioned)
    }
}

impl Change {
    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Change::Add => "add",
            Change::Update => "update",
            Change::Delete => "delete",
        }
    }

    /// The change with a stored number; 0 is none.
    pub fn of(number: i64) -> Option<Change> {
        [Change::Add, Change::Update, Change::Delete].into_iter().find(|change| *change as i64 == number)
    }
}

/// An object of a connector space.
#[derive(Clone, Debug, PartialEq)]
pub struct CsObject {
    /// Its number.
    pub id: CsId,
    /// Its agent.
    pub agent: AgentId,
    /// The key of its anchor; none if it is provisioned and its system has not shown it yet.
    pub anchor: Option<IndexKey>,
    /// Its name in its system; empty if the anchor is the name.
    pub dn: String,
    /// The key of its name; none if objects have no names, or if another object has the name. From the export of a
    /// new name on, the key of that name, while `dn` is the old name until an import shows the new one.
    pub name: Option<IndexKey>,
    /// Its relation to the metaverse.
    pub state: State,
    /// The metaverse object that it is joined to, or was joined to when it was deprovisioned.
    pub mv: Option<MvId>,
    /// The synchronized image; none before the first synchronization.
    pub synchronized: Option<Hologram>,
    /// The imported change that is not yet synchronized.
    pub pending_import: Option<PendingImport>,
    /// The changes for its system.
    pub pending_export: Option<PendingExport>,
    /// Whether the last attempt to synchronize or export it failed.
    pub has_failed: bool,
}

/// An imported change that is not yet synchronized.
#[derive(Clone, Debug, PartialEq)]
pub enum PendingImport {
    /// The object is new and has this image.
    Add(Hologram),
    /// The object has this image now.
    Update(Hologram),
    /// The object has this image and another name now.
    Renamed(Hologram),
    /// The object was deleted.
    Delete,
}

impl PendingImport {
    /// The kind of change.
    pub fn change(&self) -> Change {
        match self {
            PendingImport::Add(_) => Change::Add,
            PendingImport::Update(_) | PendingImport::Renamed(_) => Change::Update,
            PendingImport::Delete => Change::Delete,
        }
    }

    /// The number under which it is stored; 0 is none.
    pub fn number(&self) -> i64 {
        match self {
            PendingImport::Add(_) => 1,
            PendingImport::Update(_) => 2,
            PendingImport::Delete => 3,
            PendingImport::Renamed(_) => 4,
        }
    }

    /// The pending import with a stored number and image; none if the number is 0 or invalid, or the image is
    /// missing.
    pub fn of(number: i64, image: Option<Hologram>) -> Option<PendingImport> {
        match (number, image) {
            (1, Some(image)) => Some(PendingImport::Add(image)),
            (2, Some(image)) => Some(PendingImport::Update(image)),
            (3, _) => Some(PendingImport::Delete),
            (4, Some(image)) => Some(PendingImport::Renamed(image)),
            _ => None,
        }
    }

    /// The current image of the object; none if it was deleted.
    pub fn image(&self) -> Option<&Hologram> {
        match self {
            PendingImport::Add(image) | PendingImport::Update(image) | PendingImport::Renamed(image) => {
                Some(image)
            }
            PendingImport::Delete => None,
        }
    }
}

impl CsObject {
    /// The imported image: the pending one, otherwise the synchronized one. None if the object was deleted or
    /// never imported.
    pub fn image(&self) -> Option<&Hologram> {
        match &self.pending_import {
            Some(pending) => pending.image(),
            None => self.synchronized.as_ref(),
        }
    }

    /// The metaverse object that it is connected to.
    pub fn connected_to(&self) -> Option<MvId> {
        self.mv.filter(|_| self.state.is_connected())
    }

    /// Whether an export gave it a temporary name, and its new name is still to be sent.
    pub(crate) fn is_temporarily_named(&self) -> bool {
        self.name == Some(temporary_key(self.id.0))
    }

    /// Whether it is a connector whose system does not have it yet.
    pub fn is_not_made(&self) -> bool {
        self.synchronized.is_none()
            && self.pending_import.is_none()
            && self.pending_export.as_ref().is_some_and(PendingExport::is_not_made)
    }
}

/// The progress of a change on its way to the connected system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is to be sent.
    Unapplied = 0,
    /// The system accepted it, and no import has confirmed it yet.
    Unconfirmed = 1,
}

/// The changes for the connected system.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingExport {
    /// The kind of change to the object.
    pub change: Change,
    /// The phase of adding or deleting the object.
    pub phase: Phase,
    /// The new name and its phase.
    pub rename: Option<Rename>,
    /// The phase of its reference changes, which are stored as [`Reference`]s: to be sent if one of them is.
    pub references: Option<Phase>,
    /// Since when something is to be sent, seconds since 1970; none if it is not known.
    pub since_unix_s: Option<u64>,
    /// The attributes that change.
    pub attributes: PendingAttributes,
}

impl Phase {
    fn of(number: u8) -> Option<Phase> {
        [Phase::Unapplied, Phase::Unconfirmed].into_iter().find(|phase| *phase as u8 == number)
    }
}

/// A new name for an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Rename {
    /// The name.
    pub dn: String,
    /// The phase of the rename.
    pub phase: Phase,
}

/// A reference from one connector space object to another. Each one is a row, so one more member of a group
/// costs one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The object that has the reference.
    pub cs: CsId,
    /// Its agent.
    pub agent: AgentId,
    /// The reference attribute.
    pub attribute: Attribute,
    /// The key of the target in this connector space, where it may not exist yet: its name or its anchor.
    pub target: IndexKey,
    /// The value of the reference in the system.
    pub value: Vec<u8>,
    /// Whether it is part of the synchronized image.
    pub is_synchronized: bool,
    /// Whether the last import showed it.
    pub is_imported: bool,
    /// The pending change in the system.
    pub export: Option<(ReferenceChange, Phase)>,
}

/// What a connected system is to do with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceChange {
    /// The reference is to be added.
    There,
    /// The reference is to be removed.
    Gone,
}

impl Reference {
    /// The state as a number. 0 means that nothing is known; such a reference is not stored.
    pub fn state(&self) -> i64 {
        let export = match self.export {
            None => 0,
            Some((ReferenceChange::There, Phase::Unapplied)) => 1,
            Some((ReferenceChange::There, Phase::Unconfirmed)) => 2,
            Some((ReferenceChange::Gone, Phase::Unapplied)) => 3,
            Some((ReferenceChange::Gone, Phase::Unconfirmed)) => 4,
        };
        i64::from(self.is_synchronized) | i64::from(self.is_imported) << 1 | export << 2
    }

    /// Sets the state from a number.
    #[must_use]
    pub fn with_state(self, state: i64) -> Reference {
        let export = match state >> 2 {
            1 => Some((ReferenceChange::There, Phase::Unapplied)),
            2 => Some((ReferenceChange::There, Phase::Unconfirmed)),
            3 => Some((ReferenceChange::Gone, Phase::Unapplied)),
            4 => Some((ReferenceChange::Gone, Phase::Unconfirmed)),
            _ => None,
        };
        Reference { is_synchronized: state & 1 != 0, is_imported: state & 2 != 0, export, ..self }
    }

    /// Whether the system will have the reference once all pending changes are made.
    pub fn will_be_there(&self) -> bool {
        self.export.map_or(self.is_imported, |(wanted, _)| wanted == ReferenceChange::There)
    }

    /// Whether a change of it is to be sent.
    pub fn is_unapplied(&self) -> bool {
        matches!(self.export, Some((_, Phase::Unapplied)))
    }
}

/// The common phase of several references: to be sent if one of them is. None if nothing changes.
pub fn phase_of<'a>(references: impl IntoIterator<Item = &'a Reference>) -> Option<Phase> {
    let phases = references.into_iter().filter_map(|reference| reference.export.map(|(_, phase)| phase));
    phases.min_by_key(|phase| *phase as u8)
}

/// An attribute to be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendingAttribute<'a> {
    /// The attribute.
    pub attribute: Attribute,
    /// The phase of the change.
    pub phase: Phase,
    /// The new values; none removes all values.
    pub values: Values<'a>,
}

/// Attributes to be changed, in ascending order, as compact bytes. Each has its number, the phase of its
/// change, and its values as in a hologram.
#[derive(Clone, Default, PartialEq)]
pub struct PendingAttributes(Vec<u8>);

impl PendingAttributes {
    /// Creates an empty list with a capacity in bytes.
    pub(crate) fn with_capacity(bytes: usize) -> PendingAttributes {
        PendingAttributes(Vec::with_capacity(bytes))
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the attributes.
    pub fn iter(&self) -> impl Iterator<Item = PendingAttribute<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || PendingAttributes::read(&self.0, &mut at))
    }

    /// The pending change of an attribute.
    pub fn get(&self, attribute: Attribute) -> Option<PendingAttribute<'_>> {
        self.iter().find(|pending| pending.attribute == attribute)
    }

    /// Appends an attribute.
    pub(crate) fn push(&mut self, attribute: Attribute, phase: Phase, values: Values<'_>) {
        write_number(&mut self.0, u64::from(attribute.0));
        self.0.push(phase as u8);
        self.0.extend_from_slice(values.as_bytes());
    }

    /// Sets the phase of each attribute; an attribute for which `phase` returns none is removed.
    pub(crate) fn retain(&mut self, mut phase: impl FnMut(PendingAttribute<'_>) -> Option<Phase>) {
        let mut kept = PendingAttributes::with_capacity(self.0.len());
        for pending in self.iter() {
            if let Some(phase) = phase(pending) {
                kept.push(pending.attribute, phase, pending.values);
            }
        }
        *self = kept;
    }

    /// Inserts or replaces the change of an attribute, as not yet sent; none removes it.
    pub(crate) fn set(&mut self, attribute: Attribute, values: Option<Values<'_>>) {
        let mut all = PendingAttributes::with_capacity(self.0.len() + 64);
        let mut values = values;
        for pending in self.iter() {
            if pending.attribute >= attribute
                && let Some(values) = values.take()
            {
                all.push(attribute, Phase::Unapplied, values);
            }
            if pending.attribute != attribute {
                all.push(pending.attribute, pending.phase, pending.values);
            }
        }
        if let Some(values) = values {
            all.push(attribute, Phase::Unapplied, values);
        }
        *self = all;
    }

    fn read<'a>(bytes: &'a [u8], at: &mut usize) -> Option<PendingAttribute<'a>> {
        let attribute = Attribute(u32::try_from(read_number(bytes, at)?).ok()?);
        let phase = Phase::of(*bytes.get(*at)?)?;
        *at += 1;
        Some(PendingAttribute { attribute, phase, values: Values::read(bytes, at)? })
    }
}

impl std::fmt::Debug for PendingAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<(Attribute, Phase, Vec<Vec<u8>>)> for PendingAttributes {
    /// A list from attributes in any order, each of which comes once.
    fn from_iter<I: IntoIterator<Item = (Attribute, Phase, Vec<Vec<u8>>)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable_by_key(|(attribute, ..)| *attribute);
        let mut all = PendingAttributes::default();
        for (attribute, phase, values) in &entries {
            all.push(*attribute, *phase, ValueList::of(values).values());
        }
        all
    }
}

/// An optional phase in two bits.
fn phase_bits(phase: Option<Phase>) -> u8 {
    phase.map_or(0, |phase| phase as u8 + 1)
}

fn phase_of_bits(bits: u8) -> Result<Option<Phase>, Damaged> {
    match bits {
        0 => Ok(None),
        1 => Ok(Some(Phase::Unapplied)),
        2 => Ok(Some(Phase::Unconfirmed)),
        _ => Err(Damaged(2)),
    }
}

/// The bit of a pending export that says since when something is to be sent.
const SINCE: u8 = 1 << 4;

impl PendingExport {
    /// An empty change of a kind.
    pub fn new(change: Change) -> PendingExport {
        PendingExport {
            change,
            phase: Phase::Unapplied,
            rename: None,
            references: None,
            since_unix_s: None,
            attributes: PendingAttributes::default(),
        }
    }

    /// Whether nothing is to be sent or confirmed.
    pub fn is_empty(&self) -> bool {
        self.change == Change::Update
            && self.rename.is_none()
            && self.references.is_none()
            && self.attributes.is_empty()
    }

    /// Whether something is to be sent.
    pub fn is_unapplied(&self) -> bool {
        let of_object = self.change != Change::Update && self.phase == Phase::Unapplied;
        of_object
            || self.rename.as_ref().is_some_and(|rename| rename.phase == Phase::Unapplied)
            || self.references == Some(Phase::Unapplied)
            || self.attributes.iter().any(|attribute| attribute.phase == Phase::Unapplied)
    }

    /// Sets since when something is to be sent, unless it is known.
    pub(crate) fn stage(&mut self, now_unix_s: u64) {
        if self.since_unix_s.is_none() && self.is_unapplied() {
            self.since_unix_s = Some(now_unix_s);
        }
    }

    /// Decodes the first three bytes: whether the system has the object, and the phase of its rename.
    pub(crate) fn beginning(bytes: &[u8]) -> (bool, Option<Phase>) {
        let is_made = bytes.get(..2) != Some(&[Change::Add as u8, Phase::Unapplied as u8]);
        let rename = bytes.get(2).and_then(|flags| phase_of_bits(flags >> 2 & 3).ok()?);
        (is_made, rename)
    }

    /// Whether the system does not have the object yet.
    pub fn is_not_made(&self) -> bool {
        self.change == Change::Add && self.phase == Phase::Unapplied
    }

    /// Encodes the pending export.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rename = self.rename.as_ref();
        let flags = phase_bits(self.references) | phase_bits(rename.map(|rename| rename.phase)) << 2;
        let flags = flags | if self.since_unix_s.is_some() { SINCE } else { 0 };
        let mut bytes = Vec::with_capacity(8 + self.attributes.0.len());
        bytes.extend_from_slice(&[self.change as u8, self.phase as u8, flags]);
        if let Some(since) = self.since_unix_s {
            write_number(&mut bytes, since);
        }
        if let Some(rename) = rename {
            write_number(&mut bytes, rename.dn.len() as u64);
            bytes.extend_from_slice(rename.dn.as_bytes());
        }
        bytes.extend_from_slice(&self.attributes.0);
        bytes
    }

    /// Decodes a pending export.
    ///
    /// # Errors
    /// When the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<PendingExport, Damaged> {
        let change = bytes.first().and_then(|byte| Change::of(i64::from(*byte))).ok_or(Damaged(0))?;
        let of_object = bytes.get(1).and_then(|byte| Phase::of(*byte)).ok_or(Damaged(1))?;
        let flags = *bytes.get(2).ok_or(Damaged(2))?;
        let references = phase_of_bits(flags & 3)?;
        let mut at = 3;
        let since_unix_s = match flags & SINCE {
            0 => None,
            _ => Some(read_number(bytes, &mut at).ok_or(Damaged(3))?),
        };
        let rename = match phase_of_bits(flags >> 2 & 3)? {
            None => None,
            Some(phase) => {
                let read = |at: &mut usize| -> Option<String> {
                    let length = usize::try_from(read_number(bytes, at)?).ok()?;
                    let end = at.checked_add(length)?;
                    let dn = std::str::from_utf8(bytes.get(*at..end)?).ok()?.to_string();
                    *at = end;
                    Some(dn)
                };
                Some(Rename { dn: read(&mut at).ok_or(Damaged(3))?, phase })
            }
        };
        let attributes = PendingAttributes(bytes[at..].to_vec());
        while at < bytes.len() {
            let begin = at;
            PendingAttributes::read(bytes, &mut at).ok_or(Damaged(begin))?;
        }
        Ok(PendingExport { change, phase: of_object, rename, references, since_unix_s, attributes })
    }
}

impl PendingAttribute<'_> {
    /// Whether the given values are the new values of the attribute.
    pub fn is_in(&self, values: Option<Values<'_>>) -> bool {
        self.values == values.unwrap_or(Values::NONE)
    }
}

/// An object of the metaverse.
#[derive(Clone, Debug, PartialEq)]
pub struct MvObject {
    /// Its number.
    pub id: MvId,
    /// Its type: the number that the store assigns to the name.
    pub kind: u32,
    /// Its attributes.
    pub image: Hologram,
    /// The origin of the value of each attribute.
    pub lineage: Lineages,
    /// The connector space objects that are joined to it, in the order of joining.
    pub connectors: Vec<CsId>,
}

/// The origin of the value of a metaverse attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The attribute.
    pub attribute: Attribute,
    /// The agent that contributed it.
    pub agent: AgentId,
    /// The connector space object that it came from.
    pub cs: CsId,
    /// The time of the change, seconds since 1970.
    pub at_unix_s: u64,
}

/// The origins of the values of an object, in ascending order of attribute, as compact bytes. Consecutive
/// attributes with the same object and time share one entry, which begins with their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Lineages(Vec<u8>);

impl Lineages {
    /// Decodes the origins.
    ///
    /// # Errors
    /// When the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Lineages, Damaged> {
        let mut at = 0;
        while at < bytes.len() {
            let begin = at;
            let mut number = |most: u64| {
                read_number(bytes, &mut at).filter(|number| *number <= most).ok_or(Damaged(begin))
            };
            let count = number(u64::MAX)?;
            // The maxima of the agent, the object and the time.
            for most in [u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
                number(most)?;
            }
            for _ in 0..count {
                number(u64::from(u32::MAX))?;
            }
        }
        Ok(Lineages(bytes.to_vec()))
    }

    /// As bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Iterates over the origins.
    pub fn iter(&self) -> impl Iterator<Item = Lineage> {
        let (mut at, mut rest, mut of) = (0, 0, None);
        std::iter::from_fn(move || {
            let mut number = || read_number(&self.0, &mut at);
            while rest == 0 {
                rest = number()?;
                of = Some((AgentId(number()? as u32), CsId(number()? as i64), number()?));
            }
            rest -= 1;
            let (agent, cs, at_unix_s) = of?;
            Some(Lineage { attribute: Attribute(number()? as u32), agent, cs, at_unix_s })
        })
    }
}

impl std::fmt::Debug for Lineages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<Lineage> for Lineages {
    /// The lines must be in ascending order of attribute.
    fn from_iter<I: IntoIterator<Item = Lineage>>(lines: I) -> Lineages {
        let mut builder = LineageBuilder::default();
        lines.into_iter().for_each(|line| builder.push(line));
        builder.finish()
    }
}

/// Builds lineages one after the other, without an allocation for each.
#[derive(Debug, Default)]
pub(crate) struct LineageBuilder {
    bytes: Vec<u8>,
    /// The last line, the number of lines with the same origin, and their attributes.
    last: Option<Lineage>,
    count: u64,
    attributes: Vec<u8>,
}

impl LineageBuilder {
    /// Adds a line; lines must be in ascending order of attribute.
    pub(crate) fn push(&mut self, line: Lineage) {
        let is_same = |last: Lineage| Lineage { attribute: line.attribute, ..last } == line;
        if !self.last.is_some_and(is_same) {
            self.end();
        }
        self.last = Some(line);
        self.count += 1;
        write_number(&mut self.attributes, u64::from(line.attribute.0));
    }

    fn end(&mut self) {
        if let Some(last) = self.last.take() {
            write_number(&mut self.bytes, self.count);
            write_number(&mut self.bytes, u64::from(last.agent.0));
            write_number(&mut self.bytes, last.cs.0.max(0) as u64);
            write_number(&mut self.bytes, last.at_unix_s);
            self.bytes.append(&mut self.attributes);
            self.count = 0;
        }
    }

    /// Returns the lineages so far and begins others.
    pub(crate) fn finish(&mut self) -> Lineages {
        self.end();
        let lines = Lineages(self.bytes.as_slice().into());
        self.bytes.clear();
        lines
    }

    /// Begins other lineages.
    pub(crate) fn clear(&mut self) {
        self.end();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_pending_is_read_as_it_was_written(
            attributes in proptest::collection::btree_map(
                0u32..1000,
                (any::<bool>(), proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 0..3)),
                0..5,
            ),
            change in 1i64..4,
            phase_of_object in any::<bool>(),
            rename in proptest::option::of((".{0,9}", any::<bool>())),
            references in proptest::option::of(any::<bool>()),
            since_unix_s in proptest::option::of(0u64..1 << 40),
        ) {
            let phase = |sent| if sent { Phase::Unconfirmed } else { Phase::Unapplied };
            let pending = PendingExport {
                change: Change::of(change).unwrap(),
                phase: phase(phase_of_object),
                rename: rename.map(|(dn, sent)| Rename { dn, phase: phase(sent) }),
                references: references.map(phase),
                since_unix_s,
                attributes: attributes.into_iter().map(|(attribute, (sent, values))| {
                    (Attribute(attribute), phase(sent), values)
                }).collect(),
            };
            let bytes = pending.to_bytes();
            let rename = pending.rename.as_ref().map(|rename| rename.phase);
            prop_assert_eq!(PendingExport::beginning(&bytes[..3]), (!pending.is_not_made(), rename));
            prop_assert_eq!(PendingExport::from_bytes(&bytes), Ok(pending));
        }

        #[test]
        fn what_is_known_of_a_reference_is_a_number(state in 0i64..20) {
            let nothing = Reference {
                cs: CsId(1), agent: AgentId(1), attribute: Attribute(1), target: IndexKey::of(b"x"), value: vec![],
                is_synchronized: false, is_imported: false, export: None,
            };
            prop_assert_eq!(nothing.clone().with_state(state).state(), state);
            prop_assert_eq!(nothing.state(), 0);
        }

        #[test]
        fn a_lineage_is_read_as_it_was_made(sources in proptest::collection::vec((0u32..2, 0i64..3, 0u64..2), 0..20)) {
            let lines: Vec<Lineage> = (3..).zip(sources).map(|(attribute, (agent, cs, at_unix_s))| {
                Lineage { attribute: Attribute(attribute), agent: AgentId(agent), cs: CsId(cs), at_unix_s }
            }).collect();
            let made: Lineages = lines.iter().copied().collect();
            prop_assert_eq!(made.iter().collect::<Vec<_>>(), lines);
            prop_assert_eq!(Lineages::from_bytes(made.as_bytes()), Ok(made));
        }

        #[test]
        fn any_bytes_are_something_pending_or_damaged(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = PendingExport::from_bytes(&bytes);
            if let Ok(lines) = Lineages::from_bytes(&bytes) {
                lines.iter().for_each(drop);
            }
        }
    }
}
