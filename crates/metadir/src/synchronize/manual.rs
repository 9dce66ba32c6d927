//! Links that an administrator sets or removes. Synchronizations keep them.

use super::Task;
use super::failed::Failed;
use super::work::Work;
use crate::object::{CsId, MvId, State};
use crate::store::FailureKind;

impl Work<'_> {
    /// Carries out the task for an object. Returns false if something would be deleted and deletions are
    /// deferred.
    pub(super) fn carry_out(&mut self, id: CsId, may_leave: bool) -> Result<bool, Failed> {
        match self.task {
            Task::Synchronize | Task::SynchronizeAgain => self.object(id, may_leave),
            Task::Join(mv) => self.join_explicitly(id, mv),
            Task::Disconnect => self.disconnect_explicitly(id),
            Task::Release => self.release_explicit(id),
            Task::Recount(counted) => self.recount(id, counted, may_leave),
        }
    }

    fn join_explicitly(&mut self, id: CsId, mv: MvId) -> Result<bool, Failed> {
        let rules = self.rules;
        self.load_mv(&[mv])?;
        let object = self.css.get(&id).and_then(|cs| cs.object.clone());
        let Some((object, image)) = object.and_then(|object| Some((object.clone(), object.image()?.clone())))
        else {
            return refused("the object was deleted in its system");
        };
        let Some(at) = rules.inbound_for(object.agent, &image)? else {
            return refused("no [[inbound]] accepts the object: write one");
        };
        let inbound = &rules.inbound[at];
        let kind = self.mvs.get(&mv).and_then(|mv| rules.type_of(mv.object.as_ref()?.kind));
        if kind != Some(inbound.to) {
            return refused("the [[inbound]] of the object leads to another type of the metaverse");
        }
        match object.connected_to() {
            Some(before) if before == mv => {}
            Some(_) => self.disconnect(id, Some(State::Candidate))?,
            None => self.unlink(&object),
        }
        if object.connected_to() != Some(mv) {
            self.make_room(mv, object.agent, inbound)?;
        }
        self.connect(id, mv);
        self.settle(id, State::ExplicitConnector, Some(mv));
        if object.state == State::Deprovisioned {
            self.returned.insert(id);
        }
        self.counts.push("disconnector-joined");
        self.flow_in(mv, &rules.types[inbound.to], object.agent)?;
        self.provision(mv, true)
    }

    fn disconnect_explicitly(&mut self, id: CsId) -> Result<bool, Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(true) };
        if object.is_not_made() {
            return refused("the system does not have the object yet: nothing to disconnect");
        }
        match object.connected_to() {
            Some(_) => {
                self.counts.push("connector-disconnect");
                self.disconnect(id, Some(State::ExplicitDisconnector))?;
            }
            None => self.settle(id, State::ExplicitDisconnector, object.mv),
        }
        Ok(true)
    }

    fn release_explicit(&mut self, id: CsId) -> Result<bool, Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(true) };
        match object.state {
            State::ExplicitConnector => self.settle(id, State::Connected, object.mv),
            State::ExplicitDisconnector => {
                self.unlink(&object);
                self.settle(id, State::Candidate, None);
            }
            _ => return refused("an administrator neither joined nor disconnected the object"),
        }
        self.object(id, true)
    }
}

fn refused<T>(why: &str) -> Result<T, Failed> {
    Err(Failed::Object(FailureKind::Flow, why.into()))
}
