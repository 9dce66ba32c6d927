//! Objects of connector spaces and of the metaverse, as a store keeps them.
//!
//! Of the images that an object of a connector space goes through, three are kept: what is synchronized (S), what is imported and
//! not yet synchronized (pending import), and what the metaverse wants changed in the system (pending export).

use crate::hologram::{Attribute, Damaged, Hologram, ValueList, Values, read_number, write_number};
use crate::index_key::IndexKey;

/// An object of a connector space, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CsId(pub i64);

/// An object of the metaverse, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MvId(pub i64);

/// A management agent, by the number that the store gives to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub u32);

/// How an object of a connector space stands to the metaverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is looked at again by each synchronization.
    Disconnected = 0,
    /// It belongs to an object of the metaverse.
    Connected = 1,
    /// The filter of its agent keeps it out.
    Filtered = 2,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Add = 1,
    /// Some of its attributes change.
    Update = 2,
    /// It ends.
    Delete = 3,
}

impl State {
    /// A state that was kept as a number.
    pub fn of(number: i64) -> Option<State> {
        [State::Disconnected, State::Connected, State::Filtered]
            .into_iter()
            .find(|state| *state as i64 == number)
    }
}

impl Change {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Change::Add => "add",
            Change::Update => "update",
            Change::Delete => "delete",
        }
    }

    /// A change that was kept as a number; 0 is none.
    pub fn of(number: i64) -> Option<Change> {
        [Change::Add, Change::Update, Change::Delete].into_iter().find(|change| *change as i64 == number)
    }
}

/// An object of a connector space.
#[derive(Clone, Debug, PartialEq)]
pub struct CsObject {
    /// Its number.
    pub id: CsId,
    /// Whose it is.
    pub agent: AgentId,
    /// What stands for its anchor; none while it is provisioned and its system has not shown it.
    pub anchor: Option<IndexKey>,
    /// Its name in its system; empty where the anchor is the name.
    pub dn: String,
    /// What stands for its name; none where objects have none, and while another object bears it.
    pub name: Option<IndexKey>,
    /// How it stands to the metaverse.
    pub state: State,
    /// The object of the metaverse it belongs to.
    pub mv: Option<MvId>,
    /// What is synchronized; none before the first time.
    pub synchronized: Option<Hologram>,
    /// What is imported and not yet synchronized.
    pub pending_import: Option<PendingImport>,
    /// What is to be changed in its system.
    pub pending_export: Option<PendingExport>,
    /// Whether the last thing that was tried with it failed.
    pub has_failed: bool,
}

/// What was imported and is not yet synchronized.
#[derive(Clone, Debug, PartialEq)]
pub enum PendingImport {
    /// The object came.
    Add(Hologram),
    /// It is now this.
    Update(Hologram),
    /// It is now this, and has another name.
    Renamed(Hologram),
    /// It is gone.
    Delete,
}

impl PendingImport {
    /// What sort of change it is.
    pub fn change(&self) -> Change {
        match self {
            PendingImport::Add(_) => Change::Add,
            PendingImport::Update(_) | PendingImport::Renamed(_) => Change::Update,
            PendingImport::Delete => Change::Delete,
        }
    }

    /// The number under which it is kept; 0 is none.
    pub fn number(&self) -> i64 {
        match self {
            PendingImport::Add(_) => 1,
            PendingImport::Update(_) => 2,
            PendingImport::Delete => 3,
            PendingImport::Renamed(_) => 4,
        }
    }

    /// What was kept under a number with an image, but for 0; none when there is no such number or the image is missing.
    pub fn of(number: i64, image: Option<Hologram>) -> Option<PendingImport> {
        match (number, image) {
            (1, Some(image)) => Some(PendingImport::Add(image)),
            (2, Some(image)) => Some(PendingImport::Update(image)),
            (3, _) => Some(PendingImport::Delete),
            (4, Some(image)) => Some(PendingImport::Renamed(image)),
            _ => None,
        }
    }

    /// What the object is now; none when it is gone.
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
    /// The image that counts as imported: what is pending, else what is synchronized; none when it is gone or never came.
    pub fn image(&self) -> Option<&Hologram> {
        match &self.pending_import {
            Some(pending) => pending.image(),
            None => self.synchronized.as_ref(),
        }
    }
}

/// Where a change is on its way to the connected system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is to be sent.
    Unapplied = 0,
    /// It was accepted, and no import has shown it yet.
    Unconfirmed = 1,
}

/// What is to be changed in the connected system.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingExport {
    /// What happens to the object.
    pub change: Change,
    /// Where the coming or going of the object is on its way.
    pub phase: Phase,
    /// The name it shall have, and where that is on its way.
    pub rename: Option<Rename>,
    /// Where changes of what it refers to are on their way, which are kept as [`Reference`]s: to be sent when one of them is.
    pub references: Option<Phase>,
    /// The attributes that change.
    pub attributes: PendingAttributes,
}

impl Phase {
    fn of(number: u8) -> Option<Phase> {
        [Phase::Unapplied, Phase::Unconfirmed].into_iter().find(|phase| *phase as u8 == number)
    }
}

/// Another name for an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Rename {
    /// The name.
    pub dn: String,
    /// Where it is on its way.
    pub phase: Phase,
}

/// That an object of a connector space refers to another: a row for each, so that a group that wins a member costs one.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The object that refers.
    pub cs: CsId,
    /// Whose it is.
    pub agent: AgentId,
    /// By which attribute.
    pub attribute: Attribute,
    /// What stands for the other in this connector space, which may not have it yet: its name or its anchor.
    pub target: IndexKey,
    /// The value that says so in the system.
    pub value: Vec<u8>,
    /// Whether it is synchronized.
    pub is_synchronized: bool,
    /// Whether the last import showed it.
    pub is_imported: bool,
    /// What is to be changed in the system.
    pub export: Option<(Wanted, Phase)>,
}

/// What a connected system shall do with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It shall be there.
    There,
    /// It shall not.
    Gone,
}

impl Reference {
    /// What is known of it as a number; 0 is nothing, and such a one is not kept.
    pub fn state(&self) -> i64 {
        let export = match self.export {
            None => 0,
            Some((Wanted::There, Phase::Unapplied)) => 1,
            Some((Wanted::There, Phase::Unconfirmed)) => 2,
            Some((Wanted::Gone, Phase::Unapplied)) => 3,
            Some((Wanted::Gone, Phase::Unconfirmed)) => 4,
        };
        i64::from(self.is_synchronized) | i64::from(self.is_imported) << 1 | export << 2
    }

    /// Takes what is known of it from a number.
    #[must_use]
    pub fn with_state(self, state: i64) -> Reference {
        let export = match state >> 2 {
            1 => Some((Wanted::There, Phase::Unapplied)),
            2 => Some((Wanted::There, Phase::Unconfirmed)),
            3 => Some((Wanted::Gone, Phase::Unapplied)),
            4 => Some((Wanted::Gone, Phase::Unconfirmed)),
            _ => None,
        };
        Reference { is_synchronized: state & 1 != 0, is_imported: state & 2 != 0, export, ..self }
    }

    /// Whether the system has it, or will once all that is pending is done.
    pub fn will_be_there(&self) -> bool {
        self.export.map_or(self.is_imported, |(wanted, _)| wanted == Wanted::There)
    }

    /// Whether a change of it is to be sent.
    pub fn is_unapplied(&self) -> bool {
        matches!(self.export, Some((_, Phase::Unapplied)))
    }
}

/// Where the changes of several references are on their way: to be sent when one is; none when nothing changes.
pub fn phase_of<'a>(references: impl IntoIterator<Item = &'a Reference>) -> Option<Phase> {
    let phases = references.into_iter().filter_map(|reference| reference.export.map(|(_, phase)| phase));
    phases.min_by_key(|phase| *phase as u8)
}

/// An attribute that is to be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendingAttribute<'a> {
    /// Which one.
    pub attribute: Attribute,
    /// Where the change is on its way.
    pub phase: Phase,
    /// What it shall have; none takes all values away.
    pub values: Values<'a>,
}

/// Attributes that are to be changed, in rising order, as compact bytes: for each its number, where its change is on its way, and its
/// values as they stand in a hologram.
#[derive(Clone, Default, PartialEq)]
pub struct PendingAttributes(Vec<u8>);

impl PendingAttributes {
    /// With room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> PendingAttributes {
        PendingAttributes(Vec::with_capacity(bytes))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = PendingAttribute<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || PendingAttributes::read(&self.0, &mut at))
    }

    /// One of them.
    pub fn get(&self, attribute: Attribute) -> Option<PendingAttribute<'_>> {
        self.iter().find(|pending| pending.attribute == attribute)
    }

    /// Adds one behind the others.
    pub(crate) fn push(&mut self, attribute: Attribute, phase: Phase, values: Values<'_>) {
        write_number(&mut self.0, u64::from(attribute.0));
        self.0.push(phase as u8);
        self.0.extend_from_slice(values.as_bytes());
    }

    /// Where the change of each is on its way from now on; one for which that is none is dropped.
    pub(crate) fn retain(&mut self, mut phase: impl FnMut(PendingAttribute<'_>) -> Option<Phase>) {
        let mut kept = PendingAttributes::with_capacity(self.0.len());
        for pending in self.iter() {
            if let Some(phase) = phase(pending) {
                kept.push(pending.attribute, phase, pending.values);
            }
        }
        *self = kept;
    }

    /// Puts one in its place, of which nothing is to be sent yet; none takes it away.
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
    /// Of attributes in any order, each of which comes once.
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

/// Phase or none in two bits.
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

impl PendingExport {
    /// A change of which nothing is said yet.
    pub fn new(change: Change) -> PendingExport {
        PendingExport {
            change,
            phase: Phase::Unapplied,
            rename: None,
            references: None,
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
    /// Of the first three bytes of one: whether the system has the object, and where another name for it is on its way.
    pub(crate) fn beginning(bytes: &[u8]) -> (bool, Option<Phase>) {
        let is_made = bytes.get(..2) != Some(&[Change::Add as u8, Phase::Unapplied as u8]);
        let rename = bytes.get(2).and_then(|flags| phase_of_bits(flags >> 2).ok()?);
        (is_made, rename)
    }

    /// Whether the system does not have the object yet.
    pub fn is_not_made(&self) -> bool {
        self.change == Change::Add && self.phase == Phase::Unapplied
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rename = self.rename.as_ref();
        let flags = phase_bits(self.references) | phase_bits(rename.map(|rename| rename.phase)) << 2;
        let mut bytes = Vec::with_capacity(3 + self.attributes.0.len());
        bytes.extend_from_slice(&[self.change as u8, self.phase as u8, flags]);
        if let Some(rename) = rename {
            write_number(&mut bytes, rename.dn.len() as u64);
            bytes.extend_from_slice(rename.dn.as_bytes());
        }
        bytes.extend_from_slice(&self.attributes.0);
        bytes
    }

    /// From the bytes of one.
    ///
    /// # Errors
    /// When they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<PendingExport, Damaged> {
        let change = bytes.first().and_then(|byte| Change::of(i64::from(*byte))).ok_or(Damaged(0))?;
        let of_object = bytes.get(1).and_then(|byte| Phase::of(*byte)).ok_or(Damaged(1))?;
        let flags = *bytes.get(2).ok_or(Damaged(2))?;
        let references = phase_of_bits(flags & 3)?;
        let mut at = 3;
        let rename = match phase_of_bits(flags >> 2)? {
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
        Ok(PendingExport { change, phase: of_object, rename, references, attributes })
    }
}

impl PendingAttribute<'_> {
    /// Whether these are the values that the attribute shall have.
    pub fn is_in(&self, values: Option<Values<'_>>) -> bool {
        self.values == values.unwrap_or(Values::NONE)
    }
}

/// An object of the metaverse.
#[derive(Clone, Debug, PartialEq)]
pub struct MvObject {
    /// Its number.
    pub id: MvId,
    /// Its type, by the number that the store gives to its name.
    pub kind: u32,
    /// Its attributes.
    pub image: Hologram,
    /// Where the value of each attribute comes from.
    pub lineage: Lineages,
    /// The objects of connector spaces that belong to it, in the order in which they came.
    pub connectors: Vec<CsId>,
}

/// Where the value of an attribute of the metaverse comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The attribute.
    pub attribute: Attribute,
    /// The agent that contributed it.
    pub agent: AgentId,
    /// The object that it came from.
    pub cs: CsId,
    /// When, seconds since 1970.
    pub at_unix_s: u64,
}

/// Where the values of an object come from, in rising order of attribute, as compact bytes: of attributes one after the other that come
/// from the same object at the same time, that is said once, with their number before them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Lineages(Vec<u8>);

impl Lineages {
    /// From the bytes of some.
    ///
    /// # Errors
    /// When they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Lineages, Damaged> {
        let mut at = 0;
        while at < bytes.len() {
            let begin = at;
            let mut number = |most: u64| {
                read_number(bytes, &mut at).filter(|number| *number <= most).ok_or(Damaged(begin))
            };
            let count = number(u64::MAX)?;
            // The agent, the object, the time.
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

    /// One after the other.
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
    /// In rising order of attribute.
    fn from_iter<I: IntoIterator<Item = Lineage>>(lines: I) -> Lineages {
        let mut builder = LineageBuilder::default();
        lines.into_iter().for_each(|line| builder.push(line));
        builder.finish()
    }
}

/// Makes lineages one after the other, without allocating for each.
#[derive(Debug, Default)]
pub(crate) struct LineageBuilder {
    bytes: Vec<u8>,
    /// The last line, how many are like it, and their attributes.
    last: Option<Lineage>,
    count: u64,
    attributes: Vec<u8>,
}

impl LineageBuilder {
    /// Adds a line; they come in rising order of attribute.
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

    /// What was added, and begins another.
    pub(crate) fn finish(&mut self) -> Lineages {
        self.end();
        let lines = Lineages(self.bytes.as_slice().into());
        self.bytes.clear();
        lines
    }

    /// Begins another.
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
        ) {
            let phase = |sent| if sent { Phase::Unconfirmed } else { Phase::Unapplied };
            let pending = PendingExport {
                change: Change::of(change).unwrap(),
                phase: phase(phase_of_object),
                rename: rename.map(|(dn, sent)| Rename { dn, phase: phase(sent) }),
                references: references.map(phase),
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
