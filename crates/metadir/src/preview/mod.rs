//! Previews a run: executes the same steps on a store that keeps nothing, and reports and explains each
//! change.

mod explanation;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

pub(crate) use explanation::Explained;
pub use explanation::Explanation;

use crate::agent::{Agent, AgentError, Capabilities, ExportedObject, Import, Refused};
use crate::config::{Config, HIDDEN, JoinPart, Secrets};
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::{
    AgentId, Change, CsId, CsObject, MvId, MvObject, PendingExport, Phase, Reference, ReferenceChange,
};
use crate::secret::readable;
use crate::store::{
    Gauges, Head, Key, Link, LookupKey, NameKind, Numbers, Population, ReferenceTarget, StepRecord, Store,
    StoreError, Trail, Write,
};

/// The place of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the connector space of this agent, by an import.
    Staged(String),
    /// In the metaverse: the type of the object.
    Metaverse(String),
    /// In the system of this agent, by an export.
    Exported(String),
}

/// A change that a run would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The place.
    pub place: Place,
    /// What happens to the object.
    pub change: Change,
    /// Its name, anchor or number.
    pub object: String,
    /// Attributes with their old and new values.
    pub attributes: Vec<(String, Vec<String>, Vec<String>)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = self.change.name();
        match &self.place {
            Place::Staged(agent) => write!(f, "import {agent}: {change} {}", self.object)?,
            Place::Metaverse(kind) => write!(f, "metaverse {kind}: {change} {}", self.object)?,
            Place::Exported(agent) => write!(f, "export {agent}: {change} {}", self.object)?,
        }
        for (name, old, new) in &self.attributes {
            write!(f, "\n    {name}: ")?;
            match (old.is_empty(), new.is_empty()) {
                (true, _) => write!(f, "{}", new.join(", "))?,
                (false, true) => write!(f, "{} -> nothing", old.join(", "))?,
                (false, false) => write!(f, "{} -> {}", old.join(", "), new.join(", "))?,
            }
        }
        Ok(())
    }
}

/// The reported attribute name of an object's name.
pub(crate) const NAME: &str = "(name)";

/// Receives each change.
pub type DifferenceSink = Box<dyn FnMut(Difference) + Send>;

/// A store that reports each change and never commits: all changes are discarded at the end.
pub(crate) struct Preview {
    inner: Box<dyn Store>,
    sink: DifferenceSink,
    agents: HashMap<AgentId, Known>,
    attributes: HashMap<u32, String>,
    /// The metaverse types, each with the attribute that identifies its objects for users.
    types: HashMap<u32, (String, Option<Attribute>)>,
    secrets: Secrets,
}

/// Data about an agent.
struct Known {
    name: String,
    anchor: Vec<Attribute>,
    /// Attributes that are sent and never read.
    write_only: Vec<String>,
    /// Reference attributes, whose values are not in images and are reported separately.
    references: Vec<Attribute>,
}

/// Stored objects by their numbers.
type Stored = (HashMap<CsId, CsObject>, HashMap<MvId, MvObject>);

/// Changed references by object and attribute: the removed values and the added values.
type Referred = BTreeMap<CsId, BTreeMap<Attribute, (Vec<String>, Vec<String>)>>;

/// Attributes with their old and new values.
type Attributes = Vec<(String, Vec<String>, Vec<String>)>;

impl Preview {
    pub(crate) fn new(
        mut inner: Box<dyn Store>,
        config: &Config,
        sink: DifferenceSink,
    ) -> Result<Preview, StoreError> {
        let mut agents = HashMap::new();
        for agent in &config.agents {
            let id = AgentId(inner.name(NameKind::Agent, &agent.name)?);
            let mut attributes = |names: &[String]| -> Result<Vec<Attribute>, StoreError> {
                names.iter().map(|name| inner.name(NameKind::Attribute, name).map(Attribute)).collect()
            };
            let (anchor, references) = (attributes(&agent.anchor)?, attributes(&agent.references)?);
            let (name, write_only) = (agent.name.clone(), agent.write_only.clone());
            agents.insert(id, Known { name, anchor, write_only, references });
        }
        let mut types = HashMap::new();
        for (at, kind) in config.types.iter().enumerate() {
            let mut joins =
                config.inbound.iter().filter(|rules| rules.to == at).flat_map(|rules| &rules.joins);
            let key = joins.find_map(|join| match join.mv.as_slice() {
                [JoinPart::Attribute(name)] => Some(name),
                _ => None,
            });
            let key = key.map(|name| inner.name(NameKind::Attribute, name)).transpose()?;
            types.insert(inner.name(NameKind::Type, &kind.name)?, (kind.name.clone(), key.map(Attribute)));
        }
        let secrets = config.secrets.clone();
        Ok(Preview { inner, sink, agents, attributes: HashMap::new(), types, secrets })
    }

    fn attribute(&mut self, attribute: Attribute) -> Result<String, StoreError> {
        if !self.attributes.contains_key(&attribute.0) {
            self.attributes = self.inner.names(NameKind::Attribute)?.into_iter().collect();
        }
        Ok(self.attributes.get(&attribute.0).cloned().unwrap_or_default())
    }

    fn agent(&self, agent: AgentId) -> String {
        self.agents.get(&agent).map_or_else(String::new, |known| known.name.clone())
    }

    /// The display name of a connector space object: its name, otherwise its anchor.
    fn called(&self, object: &CsObject) -> String {
        let image = object.image().or(object.synchronized.as_ref());
        let parts = self.agents.get(&object.agent).zip(image).map(|(known, image)| {
            let parts = known.anchor.iter().filter_map(|part| image.first(*part)).map(readable);
            parts.collect::<Vec<_>>()
        });
        match parts {
            _ if !object.dn.is_empty() => object.dn.clone(),
            Some(parts) if !parts.is_empty() => parts.join(" + "),
            _ => format!("object {}", object.id.0),
        }
    }

    /// The attributes in which two images differ.
    fn differences(
        &mut self,
        old: Option<&Hologram>,
        new: Option<&Hologram>,
    ) -> Result<Attributes, StoreError> {
        let mut attributes: Vec<Attribute> = [old, new]
            .into_iter()
            .flatten()
            .flat_map(|image| image.iter().map(|(attribute, _)| attribute))
            .collect();
        attributes.sort_unstable();
        attributes.dedup();
        let mut differences = Vec::new();
        for attribute in attributes {
            let before = old.and_then(|image| image.get(attribute));
            let after = new.and_then(|image| image.get(attribute));
            if before != after {
                let name = self.attribute(attribute)?;
                let all = |values: Option<crate::hologram::Values<'_>>| {
                    values
                        .map(|values| {
                            values.iter().map(|value| shown_of(&self.secrets, &name, value)).collect()
                        })
                        .unwrap_or_default()
                };
                let (before, after) = (all(before), all(after));
                differences.push((name, before, after));
            }
        }
        Ok(differences)
    }

    fn report_import(
        &mut self,
        old: Option<&CsObject>,
        new: Option<&Hologram>,
        of: &CsObject,
        mut others: Attributes,
    ) -> Result<(), StoreError> {
        let before = old.and_then(CsObject::image);
        let change = match (before, new) {
            (None, None) => return Ok(()),
            (None, Some(_)) => Change::Add,
            (Some(_), None) => Change::Delete,
            (Some(before), Some(after)) if before == after && others.is_empty() => return Ok(()),
            (Some(_), Some(_)) => Change::Update,
        };
        // For a deleted object, the old values are reported.
        let attributes = if change == Change::Delete {
            Vec::new()
        } else {
            let referring =
                self.agents.get(&of.agent).map_or_else(Vec::new, |known| known.references.clone());
            let referring: Result<Vec<String>, StoreError> =
                referring.into_iter().map(|attribute| self.attribute(attribute)).collect();
            let referring = referring?;
            let mut attributes = self.differences(before, new)?;
            attributes.retain(|(name, ..)| !referring.contains(name));
            attributes.append(&mut others);
            attributes
        };
        let object = self.called(of);
        let place = Place::Staged(self.agent(of.agent));
        (self.sink)(Difference { place, change, object, attributes });
        Ok(())
    }

    fn report_export(
        &mut self,
        old: Option<&CsObject>,
        new: &CsObject,
        mut others: Attributes,
    ) -> Result<(), StoreError> {
        let Some(export) = &new.pending_export else { return Ok(()) };
        let before = old.and_then(|old| old.pending_export.as_ref());
        let is_new = |export: &PendingExport, change| {
            export.change == change
                && export.phase == Phase::Unapplied
                && before.is_none_or(|before| before.change != change)
        };
        let mut attributes = Vec::new();
        for pending in export.attributes.iter() {
            let was = before.and_then(|before| before.attributes.get(pending.attribute));
            if pending.phase != Phase::Unapplied || was.is_some_and(|was| was.values == pending.values) {
                continue;
            }
            let name = self.attribute(pending.attribute)?;
            let image = new.image().or(new.synchronized.as_ref());
            let has = image.and_then(|image| image.get(pending.attribute));
            let has = has
                .map(|values| values.iter().map(|value| shown_of(&self.secrets, &name, value)).collect())
                .unwrap_or_default();
            let will: Vec<String> =
                pending.values.iter().map(|value| shown_of(&self.secrets, &name, value)).collect();
            let will = match (self.agents.get(&new.agent), will.is_empty()) {
                (Some(known), true) if known.write_only.contains(&name) => vec![HIDDEN.into()],
                _ => will,
            };
            attributes.push((name, has, will));
        }
        let rename = export.rename.as_ref().filter(|rename| rename.phase == Phase::Unapplied);
        if let Some(rename) = rename
            && before.and_then(|before| before.rename.as_ref()).map(|rename| &rename.dn) != Some(&rename.dn)
        {
            attributes.push((NAME.into(), vec![new.dn.clone()], vec![rename.dn.clone()]));
        }
        attributes.append(&mut others);
        let change = match export.change {
            Change::Add if is_new(export, Change::Add) => Change::Add,
            Change::Delete if is_new(export, Change::Delete) => Change::Delete,
            _ if attributes.is_empty() => return Ok(()),
            _ => Change::Update,
        };
        let object = self.called(new);
        let place = Place::Exported(self.agent(new.agent));
        (self.sink)(Difference { place, change, object, attributes });
        Ok(())
    }

    fn report_mv(&mut self, old: Option<&MvObject>, new: Option<&MvObject>) -> Result<(), StoreError> {
        let Some(of) = new.or(old) else { return Ok(()) };
        let change = match (old, new) {
            (None, _) => Change::Add,
            (Some(_), None) => Change::Delete,
            (Some(_), Some(_)) => Change::Update,
        };
        let (kind, key) = self.types.get(&of.kind).cloned().unwrap_or_default();
        let called = key.and_then(|key| of.image.first(key)).map(readable);
        let object = called.unwrap_or_else(|| format!("object {}", of.id.0));
        let attributes = match change {
            Change::Delete => Vec::new(),
            _ => self.differences(old.map(|object| &object.image), new.map(|object| &object.image))?,
        };
        // The origin of a value may change without the value.
        if change == Change::Update && attributes.is_empty() {
            return Ok(());
        }
        (self.sink)(Difference { place: Place::Metaverse(kind), change, object, attributes });
        Ok(())
    }

    /// The changed references of objects: those that an import shows, and those that an export would make.
    fn referred(&mut self, changes: &[Write]) -> Result<(Referred, Referred), StoreError> {
        let (mut imported, mut exported) = (Referred::new(), Referred::new());
        let written: Vec<&Reference> = changes
            .iter()
            .filter_map(|change| match change {
                Write::Reference(reference) => Some(reference),
                _ => None,
            })
            .collect();
        let ids: HashSet<CsId> = written.iter().map(|reference| reference.cs).collect();
        let ids: Vec<CsId> = ids.into_iter().collect();
        let before = self.inner.references(&ids)?.into_iter();
        let before: HashMap<(CsId, Attribute, IndexKey), Reference> =
            before.map(|of| ((of.cs, of.attribute, of.target), of)).collect();
        for new in written {
            let old = before.get(&(new.cs, new.attribute, new.target));
            let was_there = old.is_some_and(|old| old.is_imported);
            let value = readable(&new.value);
            if was_there != new.is_imported {
                let (gone, come) = imported.entry(new.cs).or_default().entry(new.attribute).or_default();
                if new.is_imported { come } else { gone }.push(value.clone());
            }
            let pending = old.and_then(|old| old.export);
            if let Some((wanted, Phase::Unapplied)) = new.export
                && pending != new.export
            {
                let (gone, come) = exported.entry(new.cs).or_default().entry(new.attribute).or_default();
                if wanted == ReferenceChange::There { come } else { gone }.push(value);
            }
        }
        Ok((imported, exported))
    }

    fn attributes_of(&mut self, referred: &mut Referred, id: CsId) -> Result<Attributes, StoreError> {
        let all = referred.remove(&id).unwrap_or_default();
        all.into_iter()
            .map(|(attribute, (mut gone, mut come))| {
                gone.sort_unstable();
                come.sort_unstable();
                Ok((self.attribute(attribute)?, gone, come))
            })
            .collect()
    }

    fn report(&mut self, changes: &[Write]) -> Result<(), StoreError> {
        let (mut imported, mut exported) = self.referred(changes)?;
        let (cs, mv) = self.stored(changes, imported.keys().chain(exported.keys()))?;
        for change in changes {
            match change {
                Write::NewCs(object) => self.report_cs(None, object, &mut imported, &mut exported)?,
                Write::Cs(object) => {
                    self.report_cs(cs.get(&object.id), object, &mut imported, &mut exported)?;
                }
                Write::Staged { id, pending } => {
                    if let Some(old) = cs.get(id) {
                        let new = match pending {
                            Some(pending) => pending.image(),
                            None => old.synchronized.as_ref(),
                        };
                        let came = self.attributes_of(&mut imported, *id)?;
                        self.report_import(Some(old), new, old, came)?;
                    }
                }
                Write::Renamed { id, dn, .. } => {
                    if let Some(old) = cs.get(id) {
                        let renamed = vec![(NAME.into(), vec![old.dn.clone()], vec![dn.clone()])];
                        self.report_import(Some(old), old.image(), old, renamed)?;
                    }
                }
                Write::NewMv(object) => self.report_mv(None, Some(object))?,
                Write::Mv(object) => self.report_mv(mv.get(&object.id), Some(object))?,
                Write::DeletedMv(id) => self.report_mv(mv.get(id), None)?,
                // These writes follow from the others.
                Write::Synchronized { .. }
                | Write::DeletedCs(_)
                | Write::Failure { .. }
                | Write::NewKey(..)
                | Write::DeletedKey(..)
                | Write::NewSearch(..)
                | Write::DeletedSearch(..)
                | Write::JoinKeys { .. }
                | Write::DeleteAt { .. }
                | Write::Unnamed(_)
                | Write::Reference(_)
                | Write::SettledReferences(_)
                | Write::UnwantedReferences(_)
                | Write::Due(_)
                | Write::Done(_) => {}
            }
        }
        // Objects for which only references are written.
        for (mut referred, of) in
            [(imported, Place::Staged as fn(String) -> Place), (exported, Place::Exported)]
        {
            for id in referred.keys().copied().collect::<Vec<_>>() {
                let attributes = self.attributes_of(&mut referred, id)?;
                let Some(object) = cs.get(&id) else { continue };
                let (place, object) = (of(self.agent(object.agent)), self.called(object));
                (self.sink)(Difference { place, change: Change::Update, object, attributes });
            }
        }
        Ok(())
    }

    /// The stored objects that these changes affect.
    fn stored<'b>(
        &mut self,
        changes: &[Write],
        referring: impl Iterator<Item = &'b CsId>,
    ) -> Result<Stored, StoreError> {
        let (mut cs, mut mv): (Vec<CsId>, Vec<MvId>) = (referring.copied().collect(), Vec::new());
        for change in changes {
            match change {
                Write::Cs(object) => cs.push(object.id),
                Write::Staged { id, .. } | Write::Renamed { id, .. } => cs.push(*id),
                Write::Mv(object) => mv.push(object.id),
                Write::DeletedMv(id) => mv.push(*id),
                _ => {}
            }
        }
        let cs = self.inner.cs(&cs)?.into_iter().map(|object| (object.id, object)).collect();
        let mv = self.inner.mv(&mv)?.into_iter().map(|object| (object.id, object)).collect();
        Ok((cs, mv))
    }

    fn report_cs(
        &mut self,
        old: Option<&CsObject>,
        object: &CsObject,
        imported: &mut Referred,
        exported: &mut Referred,
    ) -> Result<(), StoreError> {
        let mut came = self.attributes_of(imported, object.id)?;
        let goes = self.attributes_of(exported, object.id)?;
        if let Some(old) =
            old.filter(|old| old.name.is_some() && old.name != object.name && old.dn != object.dn)
        {
            came.push((NAME.into(), vec![old.dn.clone()], vec![object.dn.clone()]));
        }
        self.report_import(old, object.image(), object, came)?;
        self.report_export(old, object, goes)
    }
}

/// A value in readable form: text, or the number of its bytes.
pub fn shown(value: &[u8]) -> String {
    readable(value)
}

/// The same for a value of an attribute, hidden if it is secret.
pub(crate) fn shown_of(secrets: &Secrets, name: &str, value: &[u8]) -> String {
    crate::secret::shown(secrets.hides(name), value)
}

impl Store for Preview {
    fn trail(&mut self) -> &mut dyn Trail {
        self.inner.trail()
    }

    fn write(&mut self, changes: &[Write]) -> Result<(), StoreError> {
        self.report(changes)?;
        self.inner.write(changes)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        self.inner.roll_back()
    }

    fn name(&mut self, kind: NameKind, name: &str) -> Result<u32, StoreError> {
        self.inner.name(kind, name)
    }

    fn names(&mut self, kind: NameKind) -> Result<Vec<(u32, String)>, StoreError> {
        self.inner.names(kind)
    }

    fn rename(&mut self, kind: NameKind, from: &str, to: &str) -> Result<(), StoreError> {
        self.inner.rename(kind, from, to)
    }

    fn ids(&self) -> Arc<Numbers> {
        self.inner.ids()
    }

    fn heads(&mut self, agent: AgentId, anchors: &[IndexKey]) -> Result<Vec<Option<Head>>, StoreError> {
        self.inner.heads(agent, anchors)
    }

    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError> {
        self.inner.cs(ids)
    }

    fn ids_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
        population: Population,
    ) -> Result<Vec<CsId>, StoreError> {
        self.inner.ids_after(agent, after, most, population)
    }

    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError> {
        self.inner.mv(ids)
    }

    fn mv_after(&mut self, after: MvId, most: usize) -> Result<Vec<MvObject>, StoreError> {
        self.inner.mv_after(after, most)
    }

    fn drop_keys(&mut self, rule: u32) -> Result<(), StoreError> {
        self.inner.drop_keys(rule)
    }

    fn search(
        &mut self,
        attribute: Attribute,
        after: (&[u8], MvId),
        before: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, MvId)>, StoreError> {
        self.inner.search(attribute, after, before, most)
    }

    fn clear_search(&mut self) -> Result<(), StoreError> {
        self.inner.clear_search()
    }

    fn failure(&mut self, id: CsId) -> Result<Option<String>, StoreError> {
        self.inner.failure(id)
    }

    fn mv_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError> {
        self.inner.mv_with(keys)
    }

    fn cs_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<CsId>>, StoreError> {
        self.inner.cs_with(keys)
    }

    fn deletions(&mut self, until_unix_s: u64, most: usize) -> Result<Vec<(CsId, u64)>, StoreError> {
        self.inner.deletions(until_unix_s, most)
    }

    fn has_join_keys(&mut self) -> Result<bool, StoreError> {
        self.inner.has_join_keys()
    }

    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        hashes: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError> {
        self.inner.find(agent, by, hashes)
    }

    fn links(&mut self, of: &[MvId]) -> Result<Vec<Link>, StoreError> {
        self.inner.links(of)
    }

    fn references(&mut self, of: &[CsId]) -> Result<Vec<Reference>, StoreError> {
        self.inner.references(of)
    }

    fn count_references(&mut self, of: &[CsId]) -> Result<Vec<u64>, StoreError> {
        self.inner.count_references(of)
    }

    fn referring(&mut self, agent: AgentId, targets: &[IndexKey]) -> Result<Vec<CsId>, StoreError> {
        self.inner.referring(agent, targets)
    }

    fn due(&mut self, most: usize) -> Result<Vec<CsId>, StoreError> {
        self.inner.due(most)
    }

    fn count_imported(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        self.inner.count_imported(agent)
    }

    fn count_mv(&mut self) -> Result<u64, StoreError> {
        self.inner.count_mv()
    }

    fn note(&mut self, name: &str) -> Result<Option<String>, StoreError> {
        self.inner.note(name)
    }

    fn set_note(&mut self, name: &str, text: Option<&str>) -> Result<(), StoreError> {
        self.inner.set_note(name, text)
    }

    fn keep_step(&mut self, step: &StepRecord) -> Result<(), StoreError> {
        self.inner.keep_step(step)
    }

    fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError> {
        self.inner.history(most)
    }

    fn gauges(&mut self, agent: AgentId) -> Result<Gauges, StoreError> {
        self.inner.gauges(agent)
    }
}

/// An agent that accepts every change and sends nothing.
pub(crate) struct Unsent;

impl Agent for Unsent {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: false, rename: true, confirm: false }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        Err(AgentError::NotSupported("a preview does not export, so nothing can be read".into()))
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        Ok(changes.iter().map(|_| Ok(())).collect())
    }
}
