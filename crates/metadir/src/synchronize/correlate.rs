//! Correlation: a metaverse object finds the objects that belong to it, before anything is provisioned.
//!
//! An object that joins nothing stays in its connector space as a candidate, with its join keys in the store.
//! A metaverse object with a new join key, or one that is to be provisioned, looks for candidates with its
//! keys. So the order in which systems are imported and synchronized has no effect on the result.
//!
//! A batch assumes that no candidates have the keys that it asks for, and checks this at its end with one
//! query, like the uniqueness of names. If there are some, the batch is processed again with them.

use super::failed::Failed;
use super::trace::{ConnectedBy, TraceEvent};
use super::work::Work;
use crate::hologram::Hologram;
use crate::object::{AgentId, CsId, MvId, State};
use crate::rules::InboundRules;
use crate::store::{FailureKind, Key, StoreError, Write};

/// Whether the join rules of a candidate lead to a metaverse object.
enum Match {
    No,
    Yes,
    Ambiguous(String),
}

impl Work<'_> {
    /// Records that an object of this batch may be found by its join keys.
    pub(super) fn note_candidate(&mut self, id: CsId) {
        let rules = self.rules;
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return };
        if !object.state.has_join_keys() {
            return;
        }
        for key in rules.join_keys(object.agent, object.image()) {
            self.candidates.entry(key).or_default().push(id);
        }
    }

    /// Connects the objects that belong to a metaverse object: those that were deprovisioned if they are
    /// wanted again, and candidates whose join rules lead to it.
    pub(super) fn gather(&mut self, id: MvId) -> Result<(), Failed> {
        let mut asks = std::mem::take(&mut self.has_new_keys);
        loop {
            let is_back = self.reconnect(id, &mut asks)?;
            let is_more = is_back || asks && self.correlate(id)?;
            if !is_more && !self.reject_taken(id)? {
                return Ok(());
            }
            asks |= std::mem::take(&mut self.has_new_keys);
        }
    }

    /// Connects the deprovisioned objects of the first agent whose outbound rules want them again. Returns
    /// whether there were any. `asks` is set if an object would be provisioned that may exist already.
    fn reconnect(&mut self, id: MvId, asks: &mut bool) -> Result<bool, Failed> {
        let rules = self.rules;
        // Mostly there is nothing to find out.
        if (*asks || !rules.is_correlated) && self.linked(id).all(|object| object.state.is_connected()) {
            return Ok(false);
        }
        let Some(object) = self.mvs.get(&id).and_then(|mv| mv.object.as_ref()) else { return Ok(false) };
        let kind = object.kind;
        for outbound in rules.outbound.iter().filter(|out| rules.types[out.from].kind == kind) {
            let agent = outbound.agent;
            if self.connected(id).any(|object| object.agent == agent) {
                continue;
            }
            let left = self.linked(id).filter(|object| object.agent == agent);
            let left = left.filter(|object| object.state == State::Deprovisioned);
            let left: Vec<CsId> = left.map(|object| object.id).collect();
            let may_exist = !*asks && rules.agent(agent).is_some_and(|agent| agent.is_correlated);
            if left.is_empty() && !may_exist {
                continue;
            }
            let image = self.mvs.get(&id).and_then(|mv| mv.object.as_ref()).map(|object| &object.image);
            let Some(image) = image else { return Ok(false) };
            if outbound.is_wanted(image)? != Some(true) {
                continue;
            }
            *asks |= left.is_empty();
            for connector in &left {
                self.connect(*connector, id);
                self.returned.insert(*connector);
                self.counts.push("provisioned-reconnect");
                self.trace_connected(*connector, id, ConnectedBy::Return);
            }
            if !left.is_empty() {
                self.flow_from(id, agent)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Recomputes the attributes of a metaverse object after it got a connector.
    fn flow_from(&mut self, id: MvId, agent: AgentId) -> Result<(), Failed> {
        let rules = self.rules;
        let kind = self.mvs.get(&id).and_then(|mv| rules.type_of(mv.object.as_ref()?.kind));
        match kind {
            Some(kind) => self.flow_in(id, &rules.types[kind], agent).map(drop),
            None => Ok(()),
        }
    }

    /// Connects candidates to a metaverse object. Returns whether there were any.
    fn correlate(&mut self, id: MvId) -> Result<bool, Failed> {
        let rules = self.rules;
        let Some(object) = self.mvs.get(&id).and_then(|mv| mv.object.as_ref()) else { return Ok(false) };
        let Some(kind) = rules.type_of(object.kind) else { return Ok(false) };
        let mut ids: Vec<CsId> = Vec::new();
        let is_join = |(rule, _): &&Key| !rules.types[kind].unique.contains(rule);
        let keys = match self.keys.take() {
            Some((of, keys)) if of == id => keys,
            _ => rules.types[kind].keys(&object.image),
        };
        for key in keys.iter().filter(is_join) {
            for found in [self.known.found.get(key), self.candidates.get(key)].into_iter().flatten() {
                ids.extend(found);
            }
            self.asked.push(*key);
        }
        if ids.is_empty() {
            return Ok(false);
        }
        let image = object.image.clone();
        ids.sort_unstable();
        ids.dedup();
        let mut connected: Vec<AgentId> = Vec::new();
        for candidate in ids {
            let Some(object) = self.css.get(&candidate).and_then(|cs| cs.object.as_ref()) else { continue };
            let (agent, state) = (object.agent, object.state);
            if !state.has_join_keys() || object.mv.is_some() {
                continue;
            }
            let of_object = object.image().and_then(|image| rules.correlation(agent, image));
            let Some(place) = of_object.filter(|at| rules.inbound[*at].to == kind) else { continue };
            let inbound = &rules.inbound[place];
            let is_wanted = self.wants(kind, &image, agent)?;
            // A disabled account is connected only where it is provisioned.
            if state == State::Deprovisioned && !is_wanted {
                continue;
            }
            let is_first = !connected.contains(&agent);
            if is_first && self.is_occupied(id, agent, inbound) {
                continue;
            }
            match self.matches(candidate, id, place)? {
                Match::No => {}
                Match::Ambiguous(why) if is_wanted => {
                    let Some(object) = self.css.get(&candidate).and_then(|cs| cs.object.as_ref()) else {
                        continue;
                    };
                    let why = format!("{} may belong to it, and is not joined: {why}", self.called(object));
                    return Err(Failed::Object(FailureKind::AmbiguousJoin, why));
                }
                Match::Ambiguous(_) => {}
                Match::Yes => match self.make_room(id, agent, inbound) {
                    Ok(()) => {
                        self.connect(candidate, id);
                        self.trace_connected(candidate, id, ConnectedBy::Candidate);
                        if state == State::Deprovisioned {
                            self.returned.insert(candidate);
                            self.counts.push("provisioned-reconnect");
                        } else {
                            self.counts.push("disconnector-joined");
                        }
                        connected.push(agent);
                    }
                    // The first one is connected, and this one is reported, as if it had come later.
                    Err(failed) => {
                        let why = Some(failed.kept()?);
                        self.counts.push("ambiguous-join");
                        self.trace_of(|work| {
                            let object = work.called_by(candidate);
                            let why = why.as_ref().map(|why| why.text.clone()).unwrap_or_default();
                            TraceEvent::CandidateRefused { object, why }
                        });
                        self.failures.push(Write::Failure { id: candidate, why });
                    }
                },
            }
        }
        for agent in &connected {
            self.flow_from(id, *agent)?;
        }
        Ok(!connected.is_empty())
    }

    /// Whether an outbound rule provisions a metaverse object to an agent.
    fn wants(&self, kind: usize, image: &Hologram, agent: AgentId) -> Result<bool, Failed> {
        for outbound in self.rules.outbound.iter().filter(|out| out.agent == agent && out.from == kind) {
            if outbound.is_wanted(image)? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a metaverse object has a connector of an agent, or a deprovisioned one, and gets no other.
    fn is_occupied(&self, id: MvId, agent: AgentId, rules: &InboundRules) -> bool {
        !rules.multiple_connectors
            && self.linked(id).any(|object| {
                let stays = object.state != State::ExplicitDisconnector && !object.is_not_made();
                stays && object.agent == agent
            })
    }

    /// Whether the join rules of a candidate lead to a metaverse object.
    fn matches(&mut self, candidate: CsId, id: MvId, inbound: usize) -> Result<Match, StoreError> {
        let image = self.css.get(&candidate).and_then(|cs| cs.object.as_ref()?.image().cloned());
        let Some(image) = image else { return Ok(Match::No) };
        self.trace_of(|work| TraceEvent::CandidateTried { object: work.called_by(candidate) });
        match self.join(&image, inbound) {
            Ok(Some(found)) if found == id => Ok(Match::Yes),
            Ok(_) | Err(Failed::Object(FailureKind::Flow, _) | Failed::Taken(_) | Failed::Flow(..)) => {
                Ok(Match::No)
            }
            Err(Failed::Object(_, why)) => Ok(Match::Ambiguous(why)),
            Err(Failed::Store(error)) => Err(error),
        }
    }
}
