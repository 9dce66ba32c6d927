//! The trail: every change that a connected system accepted.

use std::collections::HashMap;

use super::{Metadirectory, now_unix_s};
use crate::index_key::IndexKey;
use crate::object::{AgentId, Change, CsId};
use crate::stage::StepError;
use crate::store::trail::{ChangeBatch, ChangeFilter};
use crate::store::{NameKind, StoreError};
use crate::trail::{Changes, LoggedChange, ids};

/// Selects changes of the trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter<'a> {
    /// Those of a run.
    pub run: Option<u64>,
    /// Those of the agent with this index.
    pub agent: Option<usize>,
    /// Those of the objects with this name or anchor.
    pub object: Option<&'a str>,
    /// Those since a time, seconds since 1970.
    pub since_unix_s: u64,
}

/// A change of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedChange {
    /// The number of the run.
    pub run: u64,
    /// The start of the step, seconds since 1970.
    pub at_unix_s: u64,
    /// The agent.
    pub agent: String,
    /// The kind of change.
    pub change: Change,
    /// The name or anchor of the object before the change.
    pub object: String,
    /// Its new name, if it was renamed.
    pub renamed_to: Option<String>,
    /// The attributes that changed.
    pub attributes: Vec<AuditedAttribute>,
}

/// A changed attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedAttribute {
    /// Its name.
    pub name: String,
    /// The old values, or the references that were removed; none if the old values are unknown.
    pub old: Option<Vec<Vec<u8>>>,
    /// The new values, or the references that were added.
    pub new: Vec<Vec<u8>>,
    /// Whether the values are secret: then there are none here.
    pub is_secret: bool,
}

/// The object whose changes are wanted.
#[derive(Default)]
struct Wanted {
    /// The objects that are known now.
    ids: Vec<CsId>,
    /// The keys by which deleted objects are found.
    keys: Vec<IndexKey>,
}

impl Wanted {
    /// Whether a batch may have one of its changes.
    fn may_be_in(&self, batch: &ChangeBatch) -> bool {
        self.ids.is_empty() || ids(&batch.ids).any(|id| self.ids.contains(&id))
    }
}

impl Metadirectory {
    /// Calls `each` with the changes that connected systems accepted, the oldest first, until it returns
    /// false.
    ///
    /// # Errors
    /// When the store fails.
    pub fn audit(
        &mut self,
        filter: AuditFilter<'_>,
        each: &mut dyn FnMut(AuditedChange) -> bool,
    ) -> Result<(), StoreError> {
        let agent = filter.agent.map(|at| self.rules.agents[at].id);
        let wanted = filter.object.map(|key| self.wanted(filter.agent, key)).transpose()?;
        let of_store = ChangeFilter { run: filter.run, agent, since_unix_s: filter.since_unix_s };
        let agents: HashMap<u32, String> = self.store.names(NameKind::Agent)?.into_iter().collect();
        let mut after = 0;
        while let Some(batch) = self.store.trail().changes(of_store, after, false)? {
            after = batch.number;
            if wanted.as_ref().is_some_and(|wanted| !wanted.may_be_in(&batch)) {
                continue;
            }
            let agent = agents.get(&batch.agent.0).cloned().unwrap_or_default();
            for change in Changes::of(&batch.changes) {
                let damaged = |damage| StoreError::Damaged { id: batch.number as i64, damage };
                let change = change.map_err(damaged)?;
                if wanted.as_ref().is_some_and(|wanted| !self.is_wanted(wanted, batch.agent, &change)) {
                    continue;
                }
                if !each(self.audited(&batch, agent.clone(), change)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Ends a run: what is older than the configuration wants is deleted from the trail.
    ///
    /// # Errors
    /// When the store fails.
    pub fn end_run(&mut self) -> Result<(), StepError> {
        self.run = None;
        let Some(keep_s) = self.audit_keep_s else { return Ok(()) };
        self.store.trail().drop_changes(now_unix_s().saturating_sub(keep_s))?;
        Ok(self.store.commit()?)
    }

    fn wanted(&mut self, agent: Option<usize>, key: &str) -> Result<Wanted, StoreError> {
        let mut wanted = Wanted::default();
        wanted.keys.push(IndexKey::of_parts(key.split(" + ").map(str::as_bytes)));
        for at in self.chosen(agent) {
            wanted.keys.extend(self.rules.agents[at].naming.hash(key));
            wanted.ids.extend(self.object(at, key)?.map(|object| object.id));
        }
        Ok(wanted)
    }

    fn is_wanted(&self, wanted: &Wanted, agent: AgentId, change: &LoggedChange) -> bool {
        if !wanted.ids.is_empty() {
            return wanted.ids.contains(&change.id);
        }
        let naming = self.rules.agent(agent).map(|rules| rules.naming);
        let names = [Some(&change.dn), change.new_dn.as_ref()].into_iter().flatten();
        let mut keys = names.filter_map(|dn| naming?.hash(dn)).chain(change.anchor);
        keys.any(|key| wanted.keys.contains(&key))
    }

    fn audited(&self, batch: &ChangeBatch, agent: String, change: LoggedChange) -> AuditedChange {
        let name = |attribute| self.names.name(attribute).to_string();
        let values = change.attributes.into_iter().map(|of| AuditedAttribute {
            name: name(of.attribute),
            old: of.old.map(|old| old.values().to_vec()),
            new: of.new.values().to_vec(),
            is_secret: of.is_secret,
        });
        let references = change.references.into_iter().map(|of| AuditedAttribute {
            name: name(of.attribute),
            old: Some(of.removed),
            new: of.added,
            is_secret: false,
        });
        AuditedChange {
            run: batch.run,
            at_unix_s: batch.at_unix_s,
            agent,
            change: change.change,
            object: change.called,
            renamed_to: change.new_dn,
            attributes: values.chain(references).collect(),
        }
    }
}
