//! The order of the changes of an export.
//!
//! A name that one change frees and another takes decides their order: the object that has the name is renamed or
//! deleted before the other one gets it. If names go round in a circle, one object gets a temporary name first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use ldap::dn::Dn;

use super::selection::Selection;
use crate::index_key::IndexKey;
use crate::naming::{Moves, Naming};
use crate::object::{Change, CsId, CsObject, PendingExport, Phase, Rename};
use crate::rules::AgentRules;
use crate::stage::StepError;
use crate::store::{LookupKey, Population, Store};

/// The place of an object that is added or renamed in the order of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The depth in the hierarchy.
    depth: usize,
    /// The number of objects of this depth whose names must change before, one after the other.
    round: usize,
    /// Objects that are added come before those that are renamed to the same depth.
    pub(super) is_renaming: bool,
    /// The old depth, because a rename also renames the objects below.
    before: usize,
}

impl Position {
    fn of(depth: usize, is_renaming: bool, before: usize) -> Position {
        Position { depth, round: 0, is_renaming, before }
    }

    /// The depth in the hierarchy.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The place after an object that gives up a name.
    fn after(self, other: Position) -> Position {
        match self.depth > other.depth {
            true => self,
            false => Position { depth: other.depth, round: other.round + 1, ..self },
        }
    }
}

type Positions = BTreeMap<Position, Vec<CsId>>;

/// The changes to be sent, in their order.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) count_deletes: u64,
    /// Objects of which an undo holds something back.
    pub(super) held: HashSet<CsId>,
    /// Objects that get a temporary name first, by depth.
    pub(super) temporary: BTreeMap<usize, Vec<CsId>>,
    /// Objects to be deleted whose names others take, with all below them, the deepest first.
    pub(super) deleted_first: BTreeMap<Reverse<usize>, Vec<CsId>>,
    /// Objects to be added or renamed.
    pub(super) made: Positions,
    /// Keys of the names below which an object is added.
    pub(super) stands_above: HashSet<IndexKey>,
    pub(super) changed: Vec<CsId>,
    /// Objects that were renamed and are not yet stored under their new names.
    pub(super) moves: Moves,
    /// Objects to be deleted by depth, the deepest first.
    pub(super) deleted: BTreeMap<Reverse<usize>, Vec<CsId>>,
    /// Objects to be added or renamed after all deletions.
    pub(super) made_last: Positions,
    /// New objects, by the objects whose names they get.
    pub(super) heirs: HashMap<CsId, Vec<CsId>>,
    /// New objects whose names no change frees.
    pub(super) unnamed: Vec<CsId>,
    names: NameChanges,
}

/// The names that an export frees and those that it needs.
#[derive(Default)]
struct NameChanges {
    /// The objects that give up a name or an anchor, by its key.
    freed: HashMap<(LookupKey, IndexKey), CsId>,
    /// The objects that get a name or an anchor, with its key.
    taken: Vec<(CsId, (LookupKey, IndexKey))>,
    positions: HashMap<CsId, Position>,
    left: Vec<LeftName>,
}

/// The name of an object that is renamed or deleted.
struct LeftName {
    id: CsId,
    dn: String,
    /// The new name; none if it is deleted.
    new: Option<String>,
}

impl Plan {
    pub(super) fn new(
        store: &mut dyn Store,
        space: &AgentRules,
        selection: &Selection<'_>,
        batch_objects: usize,
        is_ordered: bool,
    ) -> Result<Plan, StepError> {
        let mut plan = Plan::default();
        let mut after = CsId(0);
        loop {
            let mut objects = store.cs_after(space.id, after, batch_objects, Population::Exporting)?;
            let Some(last) = objects.last() else { break };
            after = last.id;
            for object in &objects {
                // Renamed by an export that is not confirmed yet, perhaps one that was interrupted.
                if let Some(PendingExport {
                    rename: Some(Rename { dn, phase: Phase::Unconfirmed }), ..
                }) = &object.pending_export
                {
                    plan.moves.add(&object.dn, dn);
                }
                if object.is_temporarily_named()
                    && let Some(name) = space.naming.temporary(&object.dn, object.id.0, &object.dn)
                {
                    plan.moves.add(&object.dn, &name);
                }
            }
            // References that are left out are known when an object is sent.
            let parked = selection.part(store, space, &mut objects, &mut HashMap::new())?;
            if let Selection::NotHeld(_) = selection {
                plan.held.extend(parked.into_keys());
            }
            for object in &objects {
                if let Some(export) = object.pending_export.as_ref().filter(|export| export.is_unapplied()) {
                    plan.add(space, object, export, is_ordered);
                }
            }
        }
        plan.follow_containers(store, space)?;
        plan.order_names(space.naming);
        Ok(plan)
    }

    /// Adds the names that objects have after objects above them were renamed.
    fn follow_containers(&mut self, store: &mut dyn Store, space: &AgentRules) -> Result<(), StepError> {
        let names = &mut self.names;
        let mut moves = Moves::default();
        let mut has_containers = false;
        for LeftName { dn, new, .. } in &names.left {
            let Some(new) = new else { continue };
            if space.naming.hash(new).is_some_and(|key| self.stands_above.contains(&key)) {
                moves.add(dn, new);
                has_containers = true;
            }
        }
        if !has_containers {
            return Ok(());
        }
        let mut moved: Vec<IndexKey> = Vec::new();
        for LeftName { id, dn, .. } in &names.left {
            if let Some(key) = moves.name_after(dn).and_then(|dn| space.naming.hash(&dn)) {
                names.freed.insert((LookupKey::Name, key), *id);
                moved.push(key);
            }
        }
        // New objects that get these names: in the connector space nobody has them.
        let found = store.find(space.id, LookupKey::Name, &moved)?;
        let new = moved.into_iter().zip(found).filter_map(|(key, found)| Some((found?, key)));
        let taken: HashMap<CsId, IndexKey> =
            new.filter(|(found, _)| !found.is_made).map(|(found, key)| (found.id, key)).collect();
        let mut ids: Vec<CsId> = taken.keys().copied().collect();
        ids.sort_unstable();
        for object in store.cs(&ids)? {
            let position = Position::of(space.naming.depth(&object.dn), false, 0);
            if self.made.get(&position).is_some_and(|ids| ids.binary_search(&object.id).is_ok()) {
                names.taken.push((object.id, (LookupKey::Name, taken[&object.id])));
                names.positions.insert(object.id, position);
            }
        }
        Ok(())
    }

    /// Whether the order of names matters.
    pub(super) fn names_change_hands(&self) -> bool {
        !self.names.positions.is_empty() || !self.unnamed.is_empty()
    }

    fn add(&mut self, space: &AgentRules, object: &CsObject, export: &PendingExport, is_ordered: bool) {
        let naming = space.naming;
        let is_deleted = export.change == Change::Delete;
        self.count_deletes += u64::from(is_deleted);
        let rename = export.rename.as_ref().filter(|rename| rename.phase == Phase::Unapplied);
        let is_new = export.is_not_made();
        if is_deleted || rename.is_some() && !is_new {
            let freed = space.identifiers(object).filter(|(by, _)| is_deleted || *by == LookupKey::Name);
            self.names.freed.extend(freed.map(|key| (key, object.id)));
            if naming == Naming::Dn {
                let new = rename.filter(|_| !is_deleted).map(|rename| rename.dn.clone());
                self.names.left.push(LeftName { id: object.id, dn: object.dn.clone(), new });
            }
        }
        let position = match rename {
            _ if is_deleted => {
                if is_ordered {
                    let depth = Reverse(naming.depth(&object.dn));
                    self.deleted.entry(depth).or_default().push(object.id);
                }
                return;
            }
            None if !is_new => {
                if is_ordered {
                    self.changed.push(object.id);
                }
                return;
            }
            Some(rename) if !is_new => {
                let (depth, above) = naming.place(&rename.dn);
                self.stands_above.extend(above);
                Position::of(depth, true, naming.depth(&object.dn))
            }
            _ if is_ordered => {
                let (depth, above) = naming.place(&object.dn);
                self.stands_above.extend(above);
                Position::of(depth, false, 0)
            }
            _ => Position::of(0, false, 0),
        };
        if is_ordered {
            self.made.entry(position).or_default().push(object.id);
        }
        let before = self.names.taken.len();
        match rename {
            Some(rename) if !is_new => {
                let name = naming.hash(&rename.dn).map(|key| (object.id, (LookupKey::Name, key)));
                self.names.taken.extend(name);
            }
            _ => self.names.taken.extend(space.awaited(object).map(|key| (object.id, key))),
        }
        if self.names.taken.len() > before {
            self.names.positions.insert(object.id, position);
        }
    }

    /// Puts the objects that need the names of others after these.
    fn order_names(&mut self, naming: Naming) {
        let NameChanges { freed, taken, positions, left } = std::mem::take(&mut self.names);
        let mut waits: BTreeMap<CsId, CsId> = BTreeMap::new();
        // Objects that are renamed have a position; the others are deleted.
        let mut deleted: HashSet<CsId> = HashSet::new();
        for (id, key) in taken {
            let is_new = positions.get(&id).is_some_and(|position| !position.is_renaming);
            match freed.get(&key) {
                Some(holder) if *holder != id => {
                    if positions.contains_key(holder) {
                        waits.insert(id, *holder);
                    } else {
                        deleted.insert(*holder);
                        waits.entry(id).or_insert(*holder);
                    }
                    if is_new {
                        self.heirs.entry(*holder).or_default().push(id);
                    }
                }
                _ if is_new => self.unnamed.push(id),
                _ => {}
            }
        }
        if waits.is_empty() {
            return;
        }
        let last = self.delete_first(naming, deleted, &left);
        let placed = self.place(naming, waits, &positions, &left, &last);
        for ids in self.made.values_mut() {
            ids.retain(|id| !placed.contains_key(id));
        }
        for (id, (position, is_last)) in &placed {
            let made = if *is_last { &mut self.made_last } else { &mut self.made };
            made.entry(*position).or_default().push(*id);
        }
        for ids in self.made.values_mut().chain(self.made_last.values_mut()) {
            ids.sort_unstable();
        }
        self.made.retain(|_, ids| !ids.is_empty());
        self.names.positions = placed.into_iter().map(|(id, (position, _))| (id, position)).collect();
    }

    /// Moves the deletions of objects whose names others take, `first`, to the beginning, with those below them.
    /// Returns those that must wait because an object below them is renamed.
    fn delete_first(&mut self, naming: Naming, mut first: HashSet<CsId>, left: &[LeftName]) -> HashSet<CsId> {
        let parsed = || left.iter().filter_map(|of| Some((of.id, Dn::parse(&of.dn).ok()?, of.new.is_none())));
        let above: HashMap<Vec<u8>, CsId> =
            parsed().filter(|(id, ..)| first.contains(id)).map(|(id, dn, _)| (dn.key(), id)).collect();
        let mut last: HashSet<CsId> = HashSet::new();
        if !above.is_empty() {
            for (id, dn, is_deleted) in parsed() {
                for of in std::iter::successors(dn.parent(), Dn::parent) {
                    match above.get(&of.key()) {
                        Some(_) if is_deleted => drop(first.insert(id)),
                        Some(holder) => drop(last.insert(*holder)),
                        None => {}
                    }
                }
            }
        }
        first.retain(|id| !last.contains(id));
        for (depth, ids) in &mut self.deleted {
            let (early, late): (Vec<CsId>, Vec<CsId>) = ids.iter().partition(|id| first.contains(*id));
            *ids = late;
            if !early.is_empty() {
                self.deleted_first.insert(*depth, early);
            }
        }
        debug_assert!(naming == Naming::Dn || last.is_empty());
        last
    }

    /// The places of the objects that wait for names, and whether they are made after all deletions.
    fn place(
        &mut self,
        naming: Naming,
        mut waits: BTreeMap<CsId, CsId>,
        positions: &HashMap<CsId, Position>,
        left: &[LeftName],
        last: &HashSet<CsId>,
    ) -> HashMap<CsId, (Position, bool)> {
        let names: HashMap<CsId, &str> = left.iter().map(|of| (of.id, of.dn.as_str())).collect();
        let mut placed: HashMap<CsId, (Position, bool)> = HashMap::new();
        for id in waits.keys().copied().collect::<Vec<_>>() {
            let (mut chain, mut at) = (vec![id], id);
            let mut met = HashSet::from([id]);
            while let Some(holder) = waits.get(&at).copied() {
                if !met.insert(holder) {
                    // A circle: with a temporary name, the holder gives up its name at once.
                    let depth = names.get(&holder).map_or(0, |dn| naming.depth(dn));
                    self.temporary.entry(depth).or_default().push(holder);
                    waits.remove(&at);
                } else if placed.contains_key(&holder) || !waits.contains_key(&holder) {
                    break;
                } else {
                    chain.push(holder);
                    at = holder;
                }
            }
            for id in chain.into_iter().rev().filter(|id| !placed.contains_key(id)).collect::<Vec<_>>() {
                let own = positions.get(&id).copied().unwrap_or(Position::of(0, false, 0));
                let place = match waits.get(&id) {
                    None => (own, false),
                    Some(holder) if last.contains(holder) => (own, true),
                    Some(holder) => match placed.get(holder) {
                        Some((of_holder, is_last)) => (own.after(*of_holder), *is_last),
                        None => match positions.get(holder) {
                            Some(of_holder) => (own.after(*of_holder), false),
                            // It is deleted first.
                            None => (own, false),
                        },
                    },
                };
                placed.insert(id, place);
            }
        }
        placed
    }
}
