//! The result of a batch: its writes.

use std::collections::BTreeMap;

use foldhash::{HashSet, HashSetExt as _};

use super::exchange::Claim;
use super::exchange::{Outgoing, Worked, Written};
use super::work::{Cs, Work};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, MvObject};
use crate::rules::{AgentRules, Rules};
use crate::store::Write;

impl Work<'_> {
    /// The result of the batch.
    pub(super) fn finish(self, leaving: Vec<CsId>) -> Worked {
        let due = self.due();
        let (rules, is_full, now_unix_s) = (self.rules, self.settings.full, self.settings.now_unix_s);
        let targets = self.targets();
        let Work { mvs, css, writes: keys, failures, batch, claims, asked, done, .. } = self;
        let mut written =
            Written { batch: Vec::new(), cs: HashSet::new(), mvs: HashSet::new(), keys: Vec::new() };
        let mut writes = Vec::with_capacity(mvs.len() + css.len() + keys.len());
        // These come first, because other objects may take their names.
        writes.extend(
            css.all().filter(|(_, cs)| cs.object.is_none() && !cs.is_new).map(|(id, _)| Write::DeletedCs(id)),
        );
        for (id, mv) in mvs.into_all() {
            let object = mv.object.map(|object| MvObject { connectors: mv.connectors, ..object });
            let count = writes.len();
            match (object, mv.is_new) {
                (Some(object), true) => writes.push(Write::NewMv(object)),
                (Some(object), false) if mv.is_changed => writes.push(Write::Mv(object)),
                (None, false) => writes.push(Write::DeletedMv(id)),
                _ => {}
            }
            if writes.len() > count && !mv.is_new {
                written.mvs.insert(id);
            }
        }
        let failed: HashSet<CsId> = failures
            .iter()
            .filter_map(|write| match write {
                Write::Failure { id, .. } => Some(*id),
                _ => None,
            })
            // They are synchronized again, and keep their failures until then.
            .chain(done.waiting.iter().copied())
            .collect();
        let made = Made { rules, is_full, now_unix_s, batch: &batch, failed: &failed };
        for (id, cs) in css.into_all() {
            // New objects could not have been read, and the batch's own objects belong to no other batch.
            if !cs.is_new && batch.binary_search(&id).is_err() {
                written.cs.insert(id);
            }
            made.writes_of(id, cs, &mut writes);
        }
        written.keys.extend(keys.iter().filter_map(|write| match write {
            Write::NewKey(key, _) | Write::DeletedKey(key, _) => Some(*key),
            _ => None,
        }));
        writes.extend(keys);
        writes.extend(failures);
        let mut of_agents = BTreeMap::<AgentId, (Vec<IndexKey>, Vec<IndexKey>)>::new();
        for ((agent, claim), _) in claims {
            let (anchors, names) = of_agents.entry(agent).or_default();
            match claim {
                Claim::Anchor(anchor) => anchors.push(anchor),
                Claim::Name(name) => names.push(name),
            }
        }
        written.batch = batch;
        let outgoing = Outgoing { claims: of_agents, asked, writes, due, targets };
        let failed = written.batch.iter().copied().filter(|id| failed.contains(id)).collect();
        Worked { done, leaving, failed, written, outgoing }
    }
}

/// What the writes of a connector space object depend on.
struct Made<'a> {
    rules: &'a Rules,
    is_full: bool,
    now_unix_s: u64,
    /// The objects of the batch.
    batch: &'a [CsId],
    failed: &'a HashSet<CsId>,
}

impl Made<'_> {
    #[inline]
    fn writes_of(&self, id: CsId, cs: Cs, writes: &mut Vec<Write>) {
        let Some(mut object) = cs.object else { return };
        if cs.is_unwanted {
            writes.push(Write::UnwantedReferences(id));
        }
        if cs.refers_anew {
            writes.push(Write::SettledReferences(id));
        }
        if cs.is_new || cs.is_changed {
            object.pending_export.iter_mut().for_each(|export| export.stage(self.now_unix_s));
        }
        if cs.is_new {
            writes.push(Write::NewCs(object));
            return;
        }
        let is_own = self.batch.binary_search(&id).is_ok();
        let has_failed = self.failed.contains(&id);
        // A candidate that another object connected is well too.
        let is_well = object.has_failed
            && object.pending_import.is_none()
            && !has_failed
            && (is_own || cs.is_changed && object.state.is_connected());
        let is_found = object.state.has_join_keys()
            && object.mv.is_none()
            && !has_failed
            && (cs.is_changed || cs.is_synchronized || self.is_full && is_own);
        let keys = match is_found && self.rules.agent(object.agent).is_some_and(AgentRules::has_keys) {
            true => Some(self.rules.join_keys(object.agent, object.image())),
            false => None,
        };
        if cs.is_changed {
            writes.push(Write::Cs(object));
        } else if cs.is_synchronized {
            writes.push(Write::Synchronized { id, state: object.state, mv: object.mv });
        }
        writes.extend(keys.map(|keys| Write::JoinKeys { id, keys }));
        if is_well {
            writes.push(Write::Failure { id, why: None });
        }
    }
}
