//! Changes a directory, with several requests in flight over several connections. Each request is idempotent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ldap::dn::Value as NameValue;
use ldap::message::{
    Attribute, Change, LdapResult, List, NO_ATTRIBUTES, Operation, Scope, SearchRequest, Value,
};
use ldap::session::{Outcome, Session, SessionError};
use ldap::{Dn, Filter, ModifyOperation, ResultCode};

use super::super::{AgentError, ExportedObject, Names, Refused};
use super::connect;
use crate::config::Ldap as Settings;
use crate::{hologram, object};

/// Requests in flight on a connection. Servers close a connection with far more (1,000 with OpenLDAP), and
/// some process only a few.
const IN_FLIGHT: usize = 32;

/// When fewer requests are in flight, new ones are sent in one write. Single writes would cost both sides a
/// system call each.
const REFILL_BELOW: usize = IN_FLIGHT / 2;

/// The number of changes that justifies one more connection.
const CHANGES_PER_CONNECTION: usize = 64;

/// The number of changes per call: enough to overlap the end of one call with the beginning of the next.
pub(super) const PIECE_OBJECTS: usize = 2_000;

/// The attribute with the classes of an entry.
const OBJECT_CLASS: &str = "objectClass";

/// A change with its parsed name; none if the name is invalid, which the server then reports.
struct Job<'a> {
    change: &'a ExportedObject,
    dn: Option<Dn>,
}

/// The request for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeRequest {
    Add,
    /// Modifies an existing entry. If the entry was to be added, its classes are not changed. Value changes
    /// may be included or not.
    Modify {
        was_add: bool,
        with_values: bool,
    },
    /// Adds or removes one value, after the request for all values failed because some were already added or
    /// removed.
    Value(usize),
    Delete,
    Rename,
    /// Checks whether an entry that cannot be renamed has its new name already.
    IsRenamed,
}

/// What follows from an answer.
enum NextAction {
    Ask(ChangeRequest),
    Done(Result<(), Refused>),
}

/// Sends changes and returns an answer for each, in order.
pub(super) fn send(
    settings: &Settings,
    names: &Names,
    sessions: &mut Vec<Session>,
    changes: &[ExportedObject],
) -> Result<Vec<Result<(), Refused>>, AgentError> {
    let jobs: Vec<Job<'_>> =
        changes.iter().map(|change| Job { change, dn: Dn::parse(&change.dn).ok() }).collect();
    let connections = changes.len().div_ceil(CHANGES_PER_CONNECTION).min(settings.connections);
    while sessions.len() < connections {
        sessions.push(connect(settings)?);
    }
    let work = &Work { jobs, names, next: AtomicUsize::new(0), has_failed: AtomicBool::new(false) };
    let answered: Vec<Result<Answers, AgentError>> = match &mut sessions[..connections] {
        [session] => vec![work.take_part(session)],
        several => std::thread::scope(|scope| {
            let threads: Vec<_> =
                several.iter_mut().map(|session| scope.spawn(move || work.take_part(session))).collect();
            let panicked = |_| Err(AgentError::system("sending changes", "a thread panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        }),
    };
    let mut answers: Vec<Result<(), Refused>> = vec![Err(Refused("it was not sent".into())); changes.len()];
    for answered in answered {
        for (at, answer) in answered? {
            answers[at] = answer;
        }
    }
    Ok(answers)
}

/// Answers, each with the index of its change.
type Answers = Vec<(usize, Result<(), Refused>)>;

/// Changes that are sent over several sessions.
struct Work<'a> {
    jobs: Vec<Job<'a>>,
    names: &'a Names,
    /// The index of the next change.
    next: AtomicUsize,
    has_failed: AtomicBool,
}

impl Work<'_> {
    /// Sends changes over a session until there are none left.
    fn take_part(&self, session: &mut Session) -> Result<Answers, AgentError> {
        let mut answers = Vec::new();
        let sent = self.exchange(session, &mut answers);
        if let Err(error) = sent {
            self.has_failed.store(true, Ordering::Relaxed);
            return Err(AgentError::system("sending changes", error));
        }
        Ok(answers)
    }

    fn exchange(&self, session: &mut Session, answers: &mut Answers) -> Result<(), SessionError> {
        let mut open: HashMap<u32, (usize, ChangeRequest)> = HashMap::with_capacity(IN_FLIGHT);
        loop {
            let most = if open.len() <= REFILL_BELOW { IN_FLIGHT } else { 0 };
            while open.len() < most && !self.has_failed.load(Ordering::Relaxed) {
                let at = self.next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = self.jobs.get(at) else { break };
                match job.first() {
                    Some(asking) => {
                        open.insert(job.send_request(session, self.names, asking)?, (at, asking));
                    }
                    None => answers.push((at, Ok(()))),
                }
            }
            if open.is_empty() {
                return Ok(());
            }
            let message = session.next_response()?;
            // Search entries come before the search result.
            let Some(result) = message.operation.result() else { continue };
            let Some((at, asking)) = open.remove(&message.id) else { continue };
            let job = &self.jobs[at];
            if result.code == ResultCode::Unavailable {
                return Err(SessionError::Failed(Box::new(job.outcome(asking, result))));
            }
            match job.then(self.names, asking, result) {
                NextAction::Done(answer) => answers.push((at, answer)),
                NextAction::Ask(asking) => {
                    open.insert(job.send_request(session, self.names, asking)?, (at, asking));
                }
            }
        }
    }
}

impl Job<'_> {
    /// The first request; none if there is nothing to do.
    fn first(&self) -> Option<ChangeRequest> {
        match self.change.change {
            object::Change::Add => Some(ChangeRequest::Add),
            object::Change::Delete => Some(ChangeRequest::Delete),
            object::Change::Update if self.change.new_dn.is_some() => Some(ChangeRequest::Rename),
            object::Change::Update => self.modification(),
        }
    }

    /// The request for an existing entry under its name; none if nothing remains.
    fn modification(&self) -> Option<ChangeRequest> {
        let is_all = self.change.attributes.is_empty() && self.change.changed_values.is_empty();
        (!is_all).then_some(ChangeRequest::Modify { was_add: false, with_values: true })
    }

    /// The values to be added or removed, one by one.
    fn values(&self) -> impl Iterator<Item = (ModifyOperation, hologram::Attribute, &[u8])> {
        self.change.changed_values.iter().flat_map(|changed| {
            let added =
                changed.added.iter().map(|value| (ModifyOperation::Add, changed.attribute, value.as_slice()));
            let removed = changed
                .removed
                .iter()
                .map(|value| (ModifyOperation::Delete, changed.attribute, value.as_slice()));
            added.chain(removed)
        })
    }

    /// The name of the entry at the time of the request.
    fn dn(&self, asking: ChangeRequest) -> &str {
        match (asking, &self.change.new_dn) {
            (
                ChangeRequest::Modify { .. } | ChangeRequest::Value(_) | ChangeRequest::IsRenamed,
                Some(new),
            ) => new,
            _ => &self.change.dn,
        }
    }

    /// Sends a request.
    fn send_request(
        &self,
        session: &mut Session,
        names: &Names,
        asking: ChangeRequest,
    ) -> Result<u32, SessionError> {
        let dn = self.dn(asking);
        match asking {
            ChangeRequest::Add => {
                let listed = self.added(names);
                let attributes: Vec<Attribute<'_>> = listed
                    .iter()
                    .map(|(name, values)| Attribute { name, values: List::from(values) })
                    .collect();
                session.submit(&Operation::AddRequest { dn, attributes: List::from(&attributes) }, &[])
            }
            ChangeRequest::Modify { was_add, with_values } => {
                modify(session, dn, &self.modifications(names, was_add, with_values))
            }
            ChangeRequest::Value(at) => {
                let listed: Vec<Modified<'_>> = self
                    .values()
                    .skip(at)
                    .take(1)
                    .map(|(operation, attribute, value)| {
                        (operation, names.name(attribute), vec![Value(value)])
                    })
                    .collect();
                modify(session, dn, &listed)
            }
            ChangeRequest::Delete => session.submit(&Operation::DelRequest { dn }, &[]),
            ChangeRequest::Rename => {
                let new = self.change.new_dn.as_deref().unwrap_or_default();
                // An invalid name is sent unchanged, so that the server reports it.
                let (rdn, superior) = match Dn::parse(new) {
                    Ok(new) => {
                        let old = self.dn.as_ref().and_then(Dn::parent).unwrap_or_default();
                        let above = new.parent().filter(|above| !above.same(&old));
                        let rdn = new.rdn().map(ToString::to_string).unwrap_or_default();
                        (rdn, above.map(|above| above.to_string()))
                    }
                    Err(_) => (new.to_string(), None),
                };
                let new_superior = superior.as_deref();
                let request =
                    Operation::ModifyDnRequest { dn, new_rdn: &rdn, delete_old_rdn: true, new_superior };
                session.submit(&request, &[])
            }
            ChangeRequest::IsRenamed => {
                let filter = Filter::everything();
                let request = SearchRequest {
                    scope: Scope::Base,
                    attributes: List::from(&[NO_ATTRIBUTES]),
                    ..SearchRequest::subtree(dn, &filter)
                };
                session.submit(&Operation::SearchRequest(request), &[])
            }
        }
    }

    /// The attributes of a new entry with their values.
    fn added<'s>(&'s self, names: &'s Names) -> Vec<(&'s str, Vec<Value<'s>>)> {
        let mut listed: Vec<(&str, Vec<Value<'_>>)> = Vec::with_capacity(self.change.attributes.len() + 1);
        let whole = self.change.attributes.iter().map(|(attribute, values)| (*attribute, values));
        let changed = self.change.changed_values.iter().map(|changed| (changed.attribute, &changed.added));
        for (attribute, values) in whole.chain(changed).filter(|(_, values)| !values.is_empty()) {
            listed.push((names.name(attribute), values.iter().map(|value| Value(value)).collect()));
        }
        if let Some(rdn) = self.dn.as_ref().and_then(Dn::rdn) {
            // An entry must have the values of its RDN, which not every server adds itself.
            for part in rdn.parts() {
                if let NameValue::Bytes(value) = &part.value
                    && !listed.iter().any(|(name, _)| name.eq_ignore_ascii_case(&part.attribute))
                {
                    listed.push((&part.attribute, vec![Value(value)]));
                }
            }
        }
        listed
    }

    /// The modifications of an existing entry.
    fn modifications<'s>(&'s self, names: &'s Names, was_add: bool, with_values: bool) -> Vec<Modified<'s>> {
        let valued = |values: &'s [Vec<u8>]| values.iter().map(|value| Value(value)).collect::<Vec<_>>();
        let mut listed = Vec::with_capacity(self.change.attributes.len());
        for (attribute, values) in &self.change.attributes {
            let name = names.name(*attribute);
            // The classes of an existing entry are kept: the export did not request a change of them.
            if !(was_add && name.eq_ignore_ascii_case(OBJECT_CLASS)) {
                listed.push((ModifyOperation::Replace, name, valued(values)));
            }
        }
        for changed in self.change.changed_values.iter().filter(|_| with_values) {
            let name = names.name(changed.attribute);
            for (operation, values) in
                [(ModifyOperation::Add, &changed.added), (ModifyOperation::Delete, &changed.removed)]
            {
                if !values.is_empty() {
                    listed.push((operation, name, valued(values)));
                }
            }
        }
        listed
    }

    /// What follows from an answer.
    fn then(&self, names: &Names, asking: ChangeRequest, result: &LdapResult<'_>) -> NextAction {
        let or_done =
            |asking: Option<ChangeRequest>| asking.map_or(NextAction::Done(Ok(())), NextAction::Ask);
        let value = |at: usize| or_done((at < self.values().count()).then_some(ChangeRequest::Value(at)));
        let has_come_or_gone =
            matches!(result.code, ResultCode::AttributeOrValueExists | ResultCode::NoSuchAttribute);
        match (asking, result.code) {
            (ChangeRequest::Modify { with_values: false, .. }, ResultCode::Success) => value(0),
            (ChangeRequest::Value(at), ResultCode::Success) => value(at + 1),
            (ChangeRequest::Value(at), _) if has_come_or_gone => value(at + 1),
            (ChangeRequest::Rename | ChangeRequest::IsRenamed, ResultCode::Success) => {
                or_done(self.modification())
            }
            (_, ResultCode::Success) => NextAction::Done(Ok(())),
            (ChangeRequest::Modify { was_add, with_values: true }, _)
                if has_come_or_gone && !self.change.changed_values.is_empty() =>
            {
                match self.modifications(names, was_add, false).is_empty() {
                    true => value(0),
                    false => NextAction::Ask(ChangeRequest::Modify { was_add, with_values: false }),
                }
            }
            // It was added before, but the answer was lost.
            (ChangeRequest::Add, ResultCode::EntryAlreadyExists) => {
                let is_all = self.modifications(names, true, true).is_empty();
                or_done((!is_all).then_some(ChangeRequest::Modify { was_add: true, with_values: true }))
            }
            // It is already deleted.
            (ChangeRequest::Delete, ResultCode::NoSuchObject) => NextAction::Done(Ok(())),
            (ChangeRequest::Rename, ResultCode::NoSuchObject) => NextAction::Ask(ChangeRequest::IsRenamed),
            (
                ChangeRequest::Modify { .. } | ChangeRequest::Value(_) | ChangeRequest::IsRenamed,
                ResultCode::NoSuchObject,
            ) => {
                let dn = self.dn(asking);
                let why = format!("{dn} is not in the directory: the next import shows its new state");
                NextAction::Done(Err(Refused(why)))
            }
            _ => NextAction::Done(Err(Refused(self.outcome(asking, result).to_string()))),
        }
    }

    fn outcome(&self, asking: ChangeRequest, result: &LdapResult<'_>) -> Outcome {
        let dn = self.dn(asking);
        let filter = Filter::everything();
        let request = match asking {
            ChangeRequest::Add => Operation::AddRequest { dn, attributes: List::NONE },
            ChangeRequest::Modify { .. } | ChangeRequest::Value(_) => {
                Operation::ModifyRequest { dn, changes: List::NONE }
            }
            ChangeRequest::Delete => Operation::DelRequest { dn },
            ChangeRequest::Rename => {
                Operation::ModifyDnRequest { dn, new_rdn: "", delete_old_rdn: true, new_superior: None }
            }
            ChangeRequest::IsRenamed => Operation::SearchRequest(SearchRequest::subtree(dn, &filter)),
        };
        Outcome::new(&request, result)
    }
}

/// A modification: the operation, the attribute and the values.
type Modified<'a> = (ModifyOperation, &'a str, Vec<Value<'a>>);

fn modify(session: &mut Session, dn: &str, listed: &[Modified<'_>]) -> Result<u32, SessionError> {
    let changes: Vec<Change<'_>> = listed
        .iter()
        .map(|(operation, name, values)| Change {
            operation: *operation,
            attribute: Attribute { name, values: List::from(values) },
        })
        .collect();
    session.submit(&Operation::ModifyRequest { dn, changes: List::from(&changes) }, &[])
}
