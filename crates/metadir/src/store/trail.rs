//! What a store keeps beside the objects: their failures, the changes that connected systems accepted, and
//! the values that exports hold back after an undo.

use super::{FailureKind, StoreError};
use crate::agent::DiscoveryError;
use crate::hologram::{Attribute, Hash};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId};

/// What executes now. Failures and changes are stored with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the run.
    pub run: u64,
    /// The step: `hr full-import`.
    pub step: String,
    /// Its start, seconds since 1970.
    pub at_unix_s: u64,
}

/// Why an object failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The attribute, if it is known.
    pub attribute: Option<Attribute>,
    /// What went wrong.
    pub text: String,
}

impl Failure {
    /// A failure of no particular attribute.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Failure {
        Failure { kind, attribute: None, text: text.into() }
    }
}

/// The stored failure of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFailure {
    /// The object.
    pub cs: CsId,
    /// Its last failure.
    pub failure: Failure,
    /// When it failed like this, without a success in between.
    pub times: Times,
}

/// How often something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The first time, seconds since 1970; 0 if an earlier version stored it.
    pub first_unix_s: u64,
    /// The last time, seconds since 1970.
    pub last_unix_s: u64,
    /// How often.
    pub count: u64,
    /// The number of the last run in which it happened.
    pub run: u64,
    /// The last step in which it happened.
    pub step: String,
}

/// A stored discovery error of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDiscovery {
    /// Its number, for the next page.
    pub number: i64,
    /// The place: a line or a name.
    pub place: String,
    /// The kind of error.
    pub kind: String,
    /// A description.
    pub text: String,
    /// When it happened.
    pub times: Times,
}

/// The changes of a batch of an export that a connected system accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    /// Its number, in the order of acceptance.
    pub number: u64,
    /// The number of the run.
    pub run: u64,
    /// The agent.
    pub agent: AgentId,
    /// The start of the step, seconds since 1970.
    pub at_unix_s: u64,
    /// The changed objects, see [`crate::trail::ids`].
    pub ids: Vec<u8>,
    /// The changes, see [`crate::trail::Changes`].
    pub changes: Vec<u8>,
}

/// Selects changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeFilter {
    /// Those of a run.
    pub run: Option<u64>,
    /// Those of an agent.
    pub agent: Option<AgentId>,
    /// Those since a time, seconds since 1970.
    pub since_unix_s: u64,
}

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldPart {
    /// The object is not added.
    Add,
    /// The object is not deleted.
    Delete,
    /// It is not renamed to a name.
    Rename,
    /// An attribute does not get values, or a reference.
    Attribute(Attribute),
}

impl HeldPart {
    /// The number under which it is stored.
    pub(super) fn number(self) -> i64 {
        match self {
            HeldPart::Add => -1,
            HeldPart::Delete => -2,
            HeldPart::Rename => -3,
            HeldPart::Attribute(attribute) => i64::from(attribute.0),
        }
    }

    /// The part with a stored number.
    pub(super) fn of(number: i64) -> HeldPart {
        match number {
            -1 => HeldPart::Add,
            -2 => HeldPart::Delete,
            -3 => HeldPart::Rename,
            number => HeldPart::Attribute(Attribute(number.max(0) as u32)),
        }
    }
}

/// A change that an undo took back. An export does not send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The agent.
    pub agent: AgentId,
    /// The key of the anchor or of the name of the object.
    pub object: IndexKey,
    /// What is held.
    pub part: HeldPart,
    /// The hash of the value.
    pub hash: Hash,
    /// The number of the run that was undone.
    pub run: u64,
    /// The number of the last export that held it back; 0 if none did.
    pub met: u64,
}

/// What a store keeps beside the objects.
pub trait Trail {
    /// Sets what executes from now on.
    fn set_origin(&mut self, origin: Origin);

    /// The stored failures of an agent after an object, in ascending order of object, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn failures_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
    ) -> Result<Vec<KeptFailure>, StoreError>;

    /// The stored failures of these objects.
    ///
    /// # Errors
    /// When the store fails.
    fn failures(&mut self, of: &[CsId]) -> Result<Vec<KeptFailure>, StoreError>;

    /// The number of stored failures and discovery errors of an agent.
    ///
    /// # Errors
    /// When the store fails.
    fn count_failures(&mut self, agent: AgentId) -> Result<u64, StoreError>;

    /// The number of a new import of an agent.
    ///
    /// # Errors
    /// When the store fails.
    fn next_discovery(&mut self, agent: AgentId) -> Result<u64, StoreError>;

    /// Stores the discovery errors of an import.
    ///
    /// # Errors
    /// When the store fails.
    fn discovered(
        &mut self,
        agent: AgentId,
        import: u64,
        errors: &[DiscoveryError],
    ) -> Result<(), StoreError>;

    /// Deletes the discovery errors that a complete import did not repeat.
    ///
    /// # Errors
    /// When the store fails.
    fn end_discovery(&mut self, agent: AgentId, import: u64) -> Result<(), StoreError>;

    /// The stored discovery errors of an agent after a number, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn discovery_errors(
        &mut self,
        agent: AgentId,
        after: i64,
        most: usize,
    ) -> Result<Vec<KeptDiscovery>, StoreError>;

    /// Stores the changes of a batch of an export, with the run and the time of the [origin](Self::set_origin).
    ///
    /// # Errors
    /// When the store fails.
    fn keep_changes(&mut self, agent: AgentId, ids: &[u8], changes: &[u8]) -> Result<(), StoreError>;

    /// The first batch of changes after a number, or the last one before it.
    ///
    /// # Errors
    /// When the store fails.
    fn changes(
        &mut self,
        filter: ChangeFilter,
        from: u64,
        is_backward: bool,
    ) -> Result<Option<ChangeBatch>, StoreError>;

    /// The agents to which a run exported changes.
    ///
    /// # Errors
    /// When the store fails.
    fn changed_agents(&mut self, run: u64) -> Result<Vec<AgentId>, StoreError>;

    /// Deletes the changes before a time, seconds since 1970. Returns the number of batches.
    ///
    /// # Errors
    /// When the store fails.
    fn drop_changes(&mut self, before_unix_s: u64) -> Result<u64, StoreError>;

    /// The number of changes of an agent that are held.
    ///
    /// # Errors
    /// When the store fails.
    fn count_holds(&mut self, agent: AgentId) -> Result<u64, StoreError>;

    /// What is held for objects with these keys.
    ///
    /// # Errors
    /// When the store fails.
    fn holds(&mut self, agent: AgentId, objects: &[IndexKey]) -> Result<Vec<Hold>, StoreError>;

    /// Stores what is held.
    ///
    /// # Errors
    /// When the store fails.
    fn keep_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError>;

    /// Deletes what is no longer held.
    ///
    /// # Errors
    /// When the store fails.
    fn drop_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError>;

    /// Deletes what an export held, but no export since a number did.
    ///
    /// # Errors
    /// When the store fails.
    fn drop_unmet_holds(&mut self, agent: AgentId, since: u64) -> Result<(), StoreError>;

    /// The number of the next export that may hold something back.
    ///
    /// # Errors
    /// When the store fails.
    fn next_meeting(&mut self, agent: AgentId) -> Result<u64, StoreError>;

    /// Deletes what is held because a run was undone. Returns the number of changes.
    ///
    /// # Errors
    /// When the store fails.
    fn release_holds(&mut self, run: u64) -> Result<u64, StoreError>;
}
