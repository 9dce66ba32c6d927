//! Links that an administrator sets or removes.

use std::time::Instant;

use super::{Metadirectory, now_unix_s, user};
use crate::index_key::IndexKey;
use crate::object::CsObject;
use crate::stage::StepError;
use crate::store::{LookupKey, StepRecord, StoreError};
use crate::synchronize::{Settings, Task, called, renew, synchronize_one};

/// A link that an administrator sets or removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link<'a> {
    /// The object is joined to the metaverse object of another object.
    Join {
        /// The index of the agent of the other object.
        agent: usize,
        /// The name or anchor of the other object.
        key: &'a str,
    },
    /// The object is disconnected until it is joined or released.
    Disconnect,
    /// The rules apply to the object again.
    Release,
}

impl Link<'_> {
    /// The name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Link::Join { .. } => "join",
            Link::Disconnect => "disconnect",
            Link::Release => "release",
        }
    }
}

/// Why a link was not set or removed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no such object.
    #[error("{agent} has no object {key:?}: give its name or anchor, as preview --object shows it")]
    Missing {
        /// The agent.
        agent: String,
        /// The key.
        key: String,
    },
    /// The object cannot be linked.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// A deprovisioned object that is deleted at the end of its grace period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDeletion {
    /// The agent.
    pub agent: String,
    /// The name or anchor of the object.
    pub object: String,
    /// The time, seconds since 1970.
    pub at_unix_s: u64,
}

impl Metadirectory {
    /// The deprovisioned objects that are to be deleted, the earliest first, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    pub fn due(&mut self, most: usize) -> Result<Vec<DueDeletion>, StoreError> {
        let due = self.store.deletions(u64::MAX, most)?;
        let ids: Vec<_> = due.iter().map(|(id, _)| *id).collect();
        let objects = self.store.cs(&ids)?;
        let shown = due.into_iter().filter_map(|(id, at_unix_s)| {
            let object = objects.iter().find(|object| object.id == id)?;
            let rules = self.rules.agent(object.agent);
            let agent = rules.map_or_else(String::new, |rules| rules.name.clone());
            Some(DueDeletion { agent, object: called(rules, object), at_unix_s })
        });
        Ok(shown.collect())
    }

    /// The object of a connector space with a name, or an anchor with ` + ` between parts.
    pub(super) fn object(&mut self, agent: usize, key: &str) -> Result<Option<CsObject>, StoreError> {
        let (store, space) = (self.store.as_mut(), &self.rules.agents[agent]);
        let anchor = IndexKey::of_parts(key.split(" + ").map(str::as_bytes));
        let mut found = store.find(space.id, LookupKey::Anchor, &[anchor])?.pop().flatten();
        if let (None, Some(name)) = (&found, space.naming.hash(key)) {
            found = store.find(space.id, LookupKey::Name, &[name])?.pop().flatten();
        }
        let Some(found) = found else { return Ok(None) };
        Ok(store.cs(&[found.id])?.pop())
    }

    /// Sets or removes a link by hand, and records it in the history. Keys are as for
    /// [`explain`](Self::explain).
    ///
    /// # Errors
    /// When an object does not exist or cannot be linked, or the store fails.
    pub fn link(&mut self, agent: usize, key: &str, link: Link<'_>) -> Result<StepRecord, LinkError> {
        renew(self.store.as_mut(), &self.rules, &self.names, self.batch_objects).map_err(StepError::from)?;
        let missing = |agent: &str, key: &str| LinkError::Missing { agent: agent.into(), key: key.into() };
        let name = self.agents[agent].name.clone();
        let object = self.object(agent, key).map_err(StepError::from)?.ok_or_else(|| missing(&name, key))?;
        let mut text = key.to_string();
        let task = match link {
            Link::Join { agent: other, key: of } => {
                let other_name = self.agents[other].name.clone();
                let found = self.object(other, of).map_err(StepError::from)?;
                let found = found.ok_or_else(|| missing(&other_name, of))?;
                text.push_str(&format!(" to {other_name} {of}"));
                let refused = format!("{other_name} {of} is not connected to an object of the metaverse");
                Task::Join(found.connected_to().ok_or(LinkError::Refused(refused))?)
            }
            Link::Disconnect => Task::Disconnect,
            Link::Release => Task::Release,
        };
        let settings = Settings {
            batch_objects: self.batch_objects,
            full: true,
            deletes: self.safety.synchronization_deletes,
            now_unix_s: now_unix_s(),
            recalls_removed: false,
        };
        self.mix_rules().map_err(StepError::from)?;
        let begin = Instant::now();
        let (rules, names) = (&self.rules, &self.names);
        let done = synchronize_one(self.store.as_mut(), rules, names, settings, task, object, None)?;
        if let Some(why) = done.failures.into_iter().next() {
            return Err(LinkError::Refused(why.text));
        }
        let record = StepRecord {
            number: self.begin_run()?,
            user: user(),
            run: link.name().into(),
            agent: name,
            step: link.name().into(),
            started_unix_s: settings.now_unix_s,
            seconds: begin.elapsed().as_secs_f64(),
            outcome: "success".into(),
            text,
            counters: done.statistics.iter().map(|(name, count)| (name.to_string(), count)).collect(),
            errors: Vec::new(),
        };
        let kept = self.store.keep_step(&record).and_then(|()| self.store.commit());
        kept.map_err(StepError::from)?;
        Ok(record)
    }
}
