//! A configuration that changed while the store has objects: what this means, and what a step needs before it.
//!
//! The store notes the rules with which each agent was last synchronized in full, and how its objects are
//! identified. A delta synchronization and an export wait until the objects have the effect of the new rules.

use std::collections::HashMap;
use std::time::Instant;

use super::{Metadirectory, judged, now_unix_s, user};
use crate::config::{Config, Step, StepKind, Threshold};
use crate::fingerprint::Fingerprint;
use crate::hologram::Attribute;
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, PendingImport, Reference};
use crate::rules::{AgentRules, comparisons_note};
use crate::stage::StepError;
use crate::store::{NameKind, Population, StepRecord, Store, StoreError, Write};
use crate::synchronize::{Settings, Synchronized, called, renew, synchronize};

/// Limit of the changes that a message names.
const NAMED: usize = 3;

/// A change of the configuration that the store does not follow by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationChange {
    /// The rules of an agent changed: it needs a full synchronization.
    Rules {
        /// The agent.
        agent: String,
        /// What changed, as parts of a sentence.
        what: Vec<String>,
    },
    /// The store has objects of an agent that is not in the configuration.
    AgentGone {
        /// The agent.
        agent: String,
        /// Number of its objects.
        objects: u64,
    },
    /// The objects of an agent are identified by other attributes. The next step follows if it can.
    Anchor {
        /// The agent.
        agent: String,
        /// The attributes that identified its objects.
        before: String,
        /// The attributes that identify them now.
        now: String,
    },
}

fn rules_note(agent: AgentId) -> String {
    format!("rules of agent {}", agent.0)
}

fn anchor_note(agent: AgentId) -> String {
    format!("anchor of agent {}", agent.0)
}

fn references_note(agent: AgentId) -> String {
    format!("references of agent {}", agent.0)
}

pub(super) fn watermark_note(agent: &str) -> String {
    format!("watermark of {agent}")
}

/// The fingerprints of the agents of a configuration, in its order.
pub(super) fn fingerprints(config: &Config, store: &mut dyn Store) -> Result<Vec<Fingerprint>, StoreError> {
    let ids = config.agents.iter().map(|agent| Ok(AgentId(store.name(NameKind::Agent, &agent.name)?)));
    let ids: Vec<AgentId> = ids.collect::<Result<_, StoreError>>()?;
    Ok((0..ids.len()).map(|at| Fingerprint::of(config, at, |agent| ids[agent])).collect())
}

impl Metadirectory {
    /// The changes of the configuration that the store does not follow by itself.
    ///
    /// # Errors
    /// When the store fails.
    pub fn configuration_changes(&mut self) -> Result<Vec<ConfigurationChange>, StoreError> {
        let mut changes = Vec::new();
        for (agent, objects) in self.gone_agents()? {
            changes.push(ConfigurationChange::AgentGone { agent, objects });
        }
        for at in 0..self.agents.len() {
            let (agent, id) = (self.agents[at].name.clone(), self.rules.agents[at].id);
            let now = self.agents[at].anchor.join(" + ");
            let before = self.store.note(&anchor_note(id))?.filter(|before| *before != now);
            if let Some(before) = before {
                changes.push(ConfigurationChange::Anchor { agent: agent.clone(), before, now });
            }
            if let Some(what) = self.changed_rules(at)? {
                changes.push(ConfigurationChange::Rules { agent, what });
            }
        }
        Ok(changes)
    }

    /// What changed in the rules of an agent since its last full synchronization; none if nothing did.
    fn changed_rules(&mut self, at: usize) -> Result<Option<Vec<String>>, StoreError> {
        let Some(text) = self.store.note(&rules_note(self.rules.agents[at].id))? else { return Ok(None) };
        let now = &self.fingerprints[at];
        let before = Fingerprint::from_text(&text).unwrap_or_default();
        if !before.differs_from(now) {
            return Ok(None);
        }
        let names = self.store.names(NameKind::Agent)?;
        let name = |number: &str| {
            let found = names.iter().find(|(id, _)| id.to_string() == number);
            found.map_or_else(|| format!("agent {number}"), |(_, name)| name.clone())
        };
        Ok(Some(before.changes(now, &self.agents[at], name)))
    }

    /// Agents with objects in the store that are not in the configuration.
    fn gone_agents(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        let mut gone = Vec::new();
        for (number, name) in self.store.names(NameKind::Agent)? {
            let id = AgentId(number);
            if self.rules.agent(id).is_none() {
                let objects = self.store.gauges(id)?.objects;
                if objects > 0 {
                    gone.push((name, objects));
                }
            }
        }
        Ok(gone)
    }

    /// Prepares the store for a step with the rules of the configuration.
    ///
    /// # Errors
    /// When another step is necessary first, or the store fails.
    pub(super) fn make_ready(&mut self, step: Step) -> Result<(), StepError> {
        for at in 0..self.agents.len() {
            self.follow_anchor(at)?;
            self.follow_references(at)?;
        }
        if step.kind != StepKind::Export {
            renew(self.store.as_mut(), &self.rules, &self.names, self.batch_objects)?;
        }
        if matches!(step.kind, StepKind::FullImport | StepKind::DeltaImport) {
            return Ok(());
        }
        if let Some((name, objects)) = self.gone_agents()?.into_iter().next() {
            return Err(StepError::RulesChanged(format!(
                "the store has {objects} objects of agent {name}, which is not in the configuration: if it has \
                 another name now, run plimsoll metadir rename agent {name} NAME; if it is to go, \
                 plimsoll metadir remove-agent {name}"
            )));
        }
        let concerned: Vec<usize> = match step.kind {
            StepKind::DeltaSynchronization => vec![step.agent],
            StepKind::Export => (0..self.agents.len()).collect(),
            _ => Vec::new(),
        };
        let (mut agents, mut changes) = (Vec::new(), Vec::new());
        for at in concerned {
            if let Some(what) = self.changed_rules(at)? {
                agents.push(self.agents[at].name.clone());
                changes
                    .extend(what.into_iter().filter(|change| !changes.contains(change)).collect::<Vec<_>>());
            }
        }
        if !agents.is_empty() {
            return Err(StepError::RulesChanged(stale(&agents, &changes)));
        }
        if step.kind != StepKind::Export {
            self.mix_rules()?;
        }
        let note = rules_note(self.rules.agents[step.agent].id);
        if step.kind != StepKind::Export && self.store.note(&note)?.is_none() {
            self.store.set_note(&note, Some(&self.fingerprints[step.agent].to_text()))?;
            self.store.commit()?;
        }
        Ok(())
    }

    /// Notes that objects are synchronized with rules that other objects lack: if the configuration is changed
    /// back, it does not have their effect.
    pub(super) fn mix_rules(&mut self) -> Result<(), StoreError> {
        for at in 0..self.agents.len() {
            let note = rules_note(self.rules.agents[at].id);
            let Some(text) = self.store.note(&note)? else { continue };
            let mut before = Fingerprint::from_text(&text).unwrap_or_default();
            if before.differs_from(&self.fingerprints[at]) {
                before.mix();
                self.store.set_note(&note, Some(&before.to_text()))?;
            }
        }
        self.store.commit()
    }

    /// Notes that all objects of an agent have the effect of the rules.
    pub(super) fn note_rules(&mut self, at: usize) -> Result<(), StoreError> {
        let note = rules_note(self.rules.agents[at].id);
        self.store.set_note(&note, Some(&self.fingerprints[at].to_text()))?;
        self.store.commit()
    }

    /// Identifies the objects of an agent by its anchor, if the anchor changed.
    fn follow_anchor(&mut self, at: usize) -> Result<(), StepError> {
        let (config, space) = (&self.agents[at], &self.rules.agents[at]);
        let (note, now) = (anchor_note(space.id), config.anchor.join(" + "));
        match self.store.note(&note)? {
            Some(before) if before == now => return Ok(()),
            Some(before) => {
                let why = format!("the anchor of {} is now `{now}` instead of `{before}`", config.name);
                if !space.references.is_empty() && !space.naming.refers_by_name() {
                    return Err(StepError::RulesChanged(format!(
                        "{why}, but its objects refer to each other by the anchor: keep the anchor, or remove the \
                         agent with plimsoll metadir remove-agent and add it again"
                    )));
                }
                rekey(self.store.as_mut(), space, self.batch_objects, &why, &before)?;
            }
            None => {}
        }
        self.store.set_note(&note, Some(&now))?;
        Ok(self.store.commit()?)
    }

    /// Drops the references of attributes that are not references any more. New ones appear at the next full
    /// import, which becomes necessary.
    fn follow_references(&mut self, at: usize) -> Result<(), StoreError> {
        let (config, space) = (&self.agents[at], &self.rules.agents[at]);
        let (note, now) = (references_note(space.id), config.references.join(" "));
        let before = self.store.note(&note)?;
        if before.as_ref() == Some(&now) {
            return Ok(());
        }
        if before.is_some() {
            self.store.set_note(&watermark_note(&config.name), None)?;
            let mut after = CsId(0);
            loop {
                let ids = self.store.ids_after(space.id, after, self.batch_objects, Population::All)?;
                let Some(last) = ids.last() else { break };
                after = *last;
                let references = self.store.references(&ids)?.into_iter();
                let gone = references.filter(|reference| !space.references.contains(&reference.attribute));
                let dropped = gone.map(|reference| {
                    let none =
                        Reference { is_synchronized: false, is_imported: false, export: None, ..reference };
                    Write::Reference(none)
                });
                self.store.write(&dropped.collect::<Vec<_>>())?;
            }
        }
        self.store.set_note(&note, Some(&now))?;
        self.store.commit()
    }

    /// Removes the objects of an agent that is not in the configuration any more, as if they were deleted in
    /// its system; nothing is sent to it. Repeated after an interrupt, it continues. `keeps_values` keeps the
    /// values that they gave to the metaverse until other flows give some.
    ///
    /// # Errors
    /// When the agent is still in the configuration or has no objects, or the store fails.
    pub fn remove_agent(
        &mut self,
        name: &str,
        keeps_values: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepRecord, StepError> {
        if self.agents.iter().any(|agent| agent.name == name) {
            return Err(StepError::RulesChanged(format!(
                "{name} is in the configuration: remove [agents.{name}] and its rules first"
            )));
        }
        let known = self.store.names(NameKind::Agent)?;
        let id = known.into_iter().find(|(_, known)| known == name).map(|(number, _)| AgentId(number));
        let Some(id) = id else {
            return Err(StepError::RulesChanged(format!("the store has no agent {name}")));
        };
        let (started_unix_s, begin) = (now_unix_s(), Instant::now());
        renew(self.store.as_mut(), &self.rules, &self.names, self.batch_objects)?;
        self.mix_rules()?;
        let removed = self.remove_objects(id, keeps_values, progress);
        let statistics = match removed {
            Ok(done) => done,
            Err(error) => {
                self.store.roll_back()?;
                return Err(judged(error, &self.interrupt));
            }
        };
        let watermark = watermark_note(name);
        for note in [rules_note(id), anchor_note(id), references_note(id), comparisons_note(id), watermark] {
            self.store.set_note(&note, None)?;
        }
        let record = StepRecord {
            number: self.begin_run()?,
            user: user(),
            run: "remove-agent".into(),
            agent: name.into(),
            step: "remove-agent".into(),
            started_unix_s,
            seconds: begin.elapsed().as_secs_f64(),
            outcome: "success".into(),
            text: String::new(),
            counters: statistics,
            errors: Vec::new(),
        };
        self.store.keep_step(&record)?;
        self.store.commit()?;
        Ok(record)
    }

    fn remove_objects(
        &mut self,
        id: AgentId,
        keeps_values: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Vec<(String, u64)>, StepError> {
        let (mut after, mut count) = (CsId(0), 0);
        loop {
            let objects = self.store.cs_after(id, after, self.batch_objects, Population::All)?;
            let Some(last) = objects.last() else { break };
            after = last.id;
            count += objects.len() as u64;
            let writes = objects.into_iter().flat_map(|object| {
                let id = object.id;
                let pending_import = Some(PendingImport::Delete);
                let gone = CsObject { pending_import, pending_export: None, ..object };
                [Write::UnwantedReferences(id), Write::Cs(gone)]
            });
            self.store.write(&writes.collect::<Vec<_>>())?;
            self.store.commit()?;
        }
        let settings = Settings {
            batch_objects: self.batch_objects,
            full: false,
            // The administrator named the agent.
            deletes: Threshold { count: u64::MAX, share: f64::MAX },
            now_unix_s: now_unix_s(),
            recalls_removed: !keeps_values,
        };
        let mut done = Synchronized::default();
        let (store, rules, names) = (self.store.as_mut(), &self.rules, &self.names);
        synchronize(store, rules, names, id, settings, &mut done, progress)?;
        let counters = done.statistics.iter().map(|(name, count)| (name.to_string(), count));
        Ok(std::iter::once(("removed-objects".to_string(), count)).chain(counters).collect())
    }

    /// Gives the objects of an agent to an agent with another name, as which the configuration has it now.
    ///
    /// # Errors
    /// When one of the agents does not fit, or the store fails.
    pub fn rename_agent(config: &Config, from: &str, to: &str) -> Result<(), StepError> {
        let names: Vec<&str> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
        let mut store = super::open_store(config)?;
        let has_objects =
            |store: &mut dyn Store, id| Ok::<_, StoreError>(store.gauges(AgentId(id))?.objects > 0);
        rename(store.as_mut(), NameKind::Agent, "agent", &names, (from, to), has_objects)?;
        let watermark = store.note(&watermark_note(from))?;
        store.set_note(&watermark_note(from), None)?;
        store.set_note(&watermark_note(to), watermark.as_deref())?;
        Ok(store.commit()?)
    }

    /// Gives the metaverse objects of a type to a type with another name, as which the configuration has it
    /// now.
    ///
    /// # Errors
    /// When one of the types does not fit, or the store fails.
    pub fn rename_type(config: &Config, from: &str, to: &str) -> Result<(), StepError> {
        let names: Vec<&str> = config.types.iter().map(|kind| kind.name.as_str()).collect();
        let mut store = super::open_store(config)?;
        let batch_objects = config.store.commit_objects;
        let has_objects = |store: &mut dyn Store, id| {
            let mut after = MvId(0);
            loop {
                let objects = store.mv_after(after, batch_objects)?;
                let Some(last) = objects.last() else { return Ok(false) };
                after = last.id;
                if objects.iter().any(|object| object.kind == id) {
                    return Ok(true);
                }
            }
        };
        rename(store.as_mut(), NameKind::Type, "type", &names, (from, to), has_objects)?;
        Ok(store.commit()?)
    }
}

/// Renames an agent or a type in the store, as the configuration has renamed it already.
fn rename(
    store: &mut dyn Store,
    kind: NameKind,
    noun: &str,
    configured: &[&str],
    (from, to): (&str, &str),
    has_objects: impl FnOnce(&mut dyn Store, u32) -> Result<bool, StoreError>,
) -> Result<(), StepError> {
    let refused = |why: String| Err(StepError::RulesChanged(why));
    if configured.contains(&from) {
        return refused(format!("{noun} {from} is in the configuration: rename it there first"));
    }
    if !configured.contains(&to) {
        return refused(format!("the configuration has no {noun} {to}: rename {from} there first"));
    }
    let known = store.names(kind)?;
    let id = |name: &str| known.iter().find(|(_, known)| known == name).map(|(number, _)| *number);
    if id(from).is_none() {
        return refused(format!("the store has no {noun} {from}"));
    }
    if let Some(id) = id(to)
        && has_objects(store, id)?
    {
        return refused(format!("the store has objects of {noun} {to} already"));
    }
    Ok(store.rename(kind, from, to)?)
}

/// Why a step waits for full synchronizations.
fn stale(agents: &[String], changes: &[String]) -> String {
    let mut named: Vec<String> = changes.iter().take(NAMED).cloned().collect();
    if changes.len() > NAMED {
        named.push(format!("and {} more changes, see plimsoll metadir check", changes.len() - NAMED));
    }
    let steps: Vec<String> = agents.iter().map(|agent| format!("`{agent} full-synchronization`")).collect();
    let changed = if named.is_empty() { String::new() } else { format!(" ({})", named.join("; ")) };
    format!(
        "the rules of {} changed since the last full synchronization{changed}: run {} first",
        agents.join(", "),
        steps.join(" and ")
    )
}

/// The key of an object by other anchor attributes, if it has a value of each.
fn key_of(object: &CsObject, anchor: &[Attribute]) -> Option<IndexKey> {
    let image = object.image().or(object.synchronized.as_ref());
    let pending = object.pending_export.as_ref().map(|export| &export.attributes);
    let part = |attribute: &Attribute| -> Option<Vec<u8>> {
        match image {
            Some(image) => Some(image.first(*attribute)?.to_vec()),
            None => Some(pending?.get(*attribute)?.values.iter().next()?.to_vec()),
        }
    };
    let parts: Vec<Vec<u8>> = anchor.iter().map(part).collect::<Option<_>>()?;
    Some(IndexKey::of_parts(parts.iter().map(Vec::as_slice)))
}

/// Identifies the objects of a connector space by other attributes of their images, in one transaction.
fn rekey(
    store: &mut dyn Store,
    space: &AgentRules,
    batch_objects: usize,
    why: &str,
    before: &str,
) -> Result<(), StepError> {
    let each = |store: &mut dyn Store,
                with: &mut dyn FnMut(Vec<CsObject>) -> Result<Vec<Write>, StepError>|
     -> Result<(), StepError> {
        let mut after = CsId(0);
        loop {
            let objects = store.cs_after(space.id, after, batch_objects, Population::All)?;
            let Some(last) = objects.last() else { return Ok(()) };
            after = last.id;
            store.write(&with(objects)?)?;
        }
    };
    let mut keys: HashMap<IndexKey, String> = HashMap::new();
    // A new key may be the old one of another object, so all old ones go first.
    let passed = each(store, &mut |objects| {
        let mut writes = Vec::with_capacity(objects.len());
        for object in objects {
            let name = called(Some(space), &object);
            match key_of(&object, &space.anchor) {
                Some(key) => {
                    if let Some(other) = keys.insert(key, name.clone()) {
                        return Err(StepError::RulesChanged(format!(
                            "{why}, but two objects have the same value of it: {other} and {name}; correct them, \
                             import them with the anchor `{before}`, or choose another anchor"
                        )));
                    }
                }
                None if object.synchronized.is_none() && object.pending_import.is_none() => {}
                None => {
                    return Err(StepError::RulesChanged(format!(
                        "{why}, but the store does not know its value for all objects: {name} has none; run a \
                         full-import with the anchor `{before}` that shows the new attribute first"
                    )));
                }
            }
            writes.push(Write::Cs(CsObject { anchor: None, ..object }));
        }
        Ok(writes)
    });
    let keyed = passed.and_then(|()| {
        each(store, &mut |objects| {
            let rekeyed = objects.into_iter().map(|object| {
                let anchor = key_of(&object, &space.anchor);
                Write::Cs(CsObject { anchor, ..object })
            });
            Ok(rekeyed.collect())
        })
    });
    if keyed.is_err() {
        store.roll_back()?;
    }
    keyed
}
