//! What the engine did with an object, rule by rule.
//!
//! The engine adds an event for each rule that it applies, if someone wants an explanation. So the explanation
//! cannot differ from what a run does.

use super::failed::Failed;
use crate::hologram::{Attribute, Builder, Hologram};
use crate::object::{AgentId, CsId, CsObject, Lineage, MvId, State};
use crate::rules::AttributeRules;

/// The values of an attribute.
pub type ValuesOf = Vec<Vec<u8>>;

/// A rule that was applied, with its result. Rules are indexes of the `[[inbound]]` and `[[outbound]]` of the
/// configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// The object was deleted in its system.
    Deleted {
        /// The metaverse object that it was connected to.
        mv: Option<MvId>,
    },
    /// The object is deprovisioned or was disconnected by an administrator: its import is accepted, and
    /// nothing flows from it.
    Rested(State),
    /// The system did not show the object yet.
    NotImported,
    /// The first rules that accept the object; none if no rules do.
    InboundChosen(Option<usize>),
    /// The result of the filter.
    FilterResult {
        /// The rules.
        inbound: usize,
        /// Whether it excludes the object; none for an object that an administrator joined.
        holds: Option<bool>,
    },
    /// A candidate whose join rules are evaluated.
    CandidateTried {
        /// The candidate.
        object: String,
    },
    /// A candidate that is not connected, and why.
    CandidateRefused {
        /// The candidate.
        object: String,
        /// The reason.
        why: String,
    },
    /// A join rule that was not tried.
    JoinSkipped {
        /// The rules.
        inbound: usize,
        /// The index of the join rule.
        rule: usize,
        /// Whether its condition is false; otherwise the object has no single value.
        by_condition: bool,
    },
    /// A join rule was tried.
    JoinTried {
        /// The rules.
        inbound: usize,
        /// The index of the join rule.
        rule: usize,
        /// The values of the object.
        values: ValuesOf,
        /// The metaverse objects with these values.
        found: Vec<MvId>,
    },
    /// No join rule matched: whether the object is projected.
    Projected {
        /// The rules.
        inbound: usize,
        /// Whether it is.
        projects: bool,
    },
    /// An object is connected to a metaverse object.
    Connected {
        /// The object.
        object: String,
        /// The metaverse object.
        mv: MvId,
        /// How it came to be.
        by: ConnectedBy,
    },
    /// A provisioned object that its system does not have gives way to an existing one.
    GaveWay {
        /// The provisioned object.
        object: String,
    },
    /// A connector was deleted in its system, and another connector of its agent takes its place.
    Replaced {
        /// The connector.
        cs: CsId,
    },
    /// The attributes of a metaverse object that an agent contributes to are computed. It begins a new image.
    FlowsIn {
        /// The metaverse object.
        mv: MvId,
        /// The agent.
        agent: AgentId,
    },
    /// An attribute that the agent does not contribute to keeps its values.
    Kept {
        /// The attribute.
        attribute: Attribute,
        /// The values.
        values: ValuesOf,
        /// The agent that contributed them.
        agent: Option<AgentId>,
    },
    /// An inbound flow.
    FlowIn {
        /// The attribute of the metaverse.
        attribute: Attribute,
        /// The rules.
        inbound: usize,
        /// The index of the flow.
        flow: usize,
        /// The connector space object.
        cs: CsId,
        /// Its precedence, from 1, if several flows contribute.
        precedence: Option<usize>,
        /// The values.
        values: ValuesOf,
        /// What became of them.
        outcome: FlowInOutcome,
    },
    /// The references of a metaverse object in an attribute.
    ReferencesIn {
        /// The metaverse object.
        mv: MvId,
        /// The attribute of the metaverse.
        attribute: Attribute,
        /// The agent that contributes them.
        agent: AgentId,
        /// The metaverse objects that they lead to.
        to: Vec<MvId>,
    },
    /// The outbound rules of a metaverse object were evaluated.
    OutboundCondition {
        /// The metaverse object.
        mv: MvId,
        /// The rules.
        outbound: usize,
        /// The result of the condition; none without one.
        holds: Option<bool>,
        /// What follows.
        effect: Effect,
    },
    /// The name of an object by the rules; none if it keeps its name.
    Named {
        /// The rules.
        outbound: usize,
        /// The name.
        dn: Option<String>,
    },
    /// An outbound flow.
    FlowOut {
        /// The attribute of the connector space.
        attribute: Attribute,
        /// The rules.
        outbound: usize,
        /// The index of the flow; of `flows`, or if `once`, of `initial`. None for a value of `disable` that is
        /// removed.
        flow: Option<usize>,
        /// Whether it flows only when the object is provisioned.
        once: bool,
        /// The connector space object; none if provisioning failed.
        cs: Option<CsId>,
        /// The values.
        values: ValuesOf,
        /// What became of them.
        outcome: FlowOutOutcome,
    },
    /// A value is to be sent that is never read.
    WriteOnly {
        /// The attribute of the connector space.
        attribute: Attribute,
        /// The rules.
        outbound: usize,
    },
    /// The references that an object is to have in an attribute.
    ReferencesOut {
        /// The rules.
        outbound: usize,
        /// The connector space object.
        cs: CsId,
        /// The attribute of the connector space.
        attribute: Attribute,
        /// The values.
        values: ValuesOf,
        /// The number of references whose target the system does not have.
        waiting: usize,
    },
    /// A connector is deprovisioned.
    Deprovisioned {
        /// The rules.
        outbound: usize,
        /// The object.
        object: String,
        /// Whether its system knows it: otherwise it is forgotten.
        was_sent: bool,
        /// Whether it has the values of `disable` already.
        is_disabled: bool,
    },
    /// A connector of a deleted metaverse object that was not provisioned: it may join again.
    Released {
        /// The object.
        object: String,
    },
    /// A metaverse object lost its last deciding connector and is deleted.
    MvDeleted(MvId),
    /// The rules failed: all changes of the object are discarded.
    Failed(String),
}

/// How an object was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectedBy {
    /// By its own join rules.
    Join,
    /// By projection: the metaverse object is new.
    Projection,
    /// It was connected before.
    Before,
    /// It was deprovisioned, and is wanted again.
    Return,
    /// The metaverse object found it by its join rules.
    Candidate,
}

/// What became of the values of an inbound flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowInOutcome {
    /// They are the values of the attribute.
    Taken,
    /// A flow with a higher precedence gave values.
    NotPrecedent,
    /// The flow gives no value.
    Nothing,
    /// It failed.
    Failed(String),
}

/// What became of the values of an outbound flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowOutOutcome {
    /// They are sent with the next export.
    Staged,
    /// The system has them.
    Same,
    /// They are pending already.
    Pending,
    /// A pending change is withdrawn, because the system has them.
    Withdrawn,
    /// The flow gives no value to a new object.
    Nothing,
    /// Another flow writes the attribute.
    NotPrecedent,
    /// It failed.
    Failed(String),
}

/// What outbound rules do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An object is provisioned.
    Provisions,
    /// Values flow to a connector.
    FlowsTo(String),
    /// Nothing is provisioned.
    Nothing,
    /// An administrator disconnected an object: none takes its place.
    KeptApart,
    /// The connectors are deprovisioned.
    Deprovisions,
}

impl TraceEvent {
    /// The metaverse object whose attributes are computed.
    pub(super) fn flows_into(&self) -> Option<MvId> {
        match self {
            TraceEvent::FlowsIn { mv, .. } => Some(*mv),
            _ => None,
        }
    }
}

/// An inbound flow that gives values, or would.
pub(super) struct Offer {
    inbound: usize,
    flow: usize,
    from: Lineage,
    precedence: Option<usize>,
}

impl Offer {
    /// The flow of a contributor of an attribute.
    pub(super) fn of(rules: &AttributeRules, rank: usize, from: Lineage) -> Offer {
        let (inbound, flow) = rules.contributors.get(rank).copied().unwrap_or_default();
        let precedence = (rules.contributors.len() > 1).then_some(rank + 1);
        Offer { inbound, flow, from, precedence }
    }

    /// The event for the result of the flow. `given` has the values, from a number of bytes on.
    pub(super) fn event(
        self,
        result: &Result<bool, Failed>,
        given: &Builder,
        begin: usize,
        is_taken: bool,
    ) -> TraceEvent {
        let attribute = self.from.attribute;
        let outcome = match result {
            Ok(true) if is_taken => FlowInOutcome::NotPrecedent,
            Ok(true) => FlowInOutcome::Taken,
            Ok(false) => FlowInOutcome::Nothing,
            Err(Failed::Object(_, why) | Failed::Taken(why) | Failed::Flow(_, why)) => {
                FlowInOutcome::Failed(why.clone())
            }
            Err(Failed::Store(error)) => FlowInOutcome::Failed(error.to_string()),
        };
        let bytes = given.as_bytes().get(begin..).unwrap_or_default();
        let image = Hologram::from_bytes(bytes).unwrap_or_default();
        let values = image.get(attribute).map(|values| values.to_vec()).unwrap_or_default();
        TraceEvent::FlowIn {
            attribute,
            inbound: self.inbound,
            flow: self.flow,
            cs: self.from.cs,
            precedence: self.precedence,
            values,
            outcome,
        }
    }
}

/// Whether a system knows an object, or may know it soon.
pub(super) fn was_sent(object: &CsObject) -> bool {
    object.synchronized.is_some()
        || object.pending_import.is_some()
        || object
            .pending_export
            .as_ref()
            .is_some_and(|export| export.phase == crate::object::Phase::Unconfirmed)
}
