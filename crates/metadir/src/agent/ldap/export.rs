//! Changing a directory: requests in flight over several connections. Each is so that twice is as good as once.

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

/// Requests in flight on a connection. Servers close one that has far more (1,000 with OpenLDAP), and some work on few of them.
const IN_FLIGHT: usize = 32;

/// Requests are sent together: when so few are in flight that as many fit in. One by one each costs both sides a turn.
const REFILL_BELOW: usize = IN_FLIGHT / 2;

/// Another connection is worth its making for so many changes.
const CHANGES_PER_CONNECTION: usize = 64;

/// Changes that come in one call: long enough to hide the end of one and the beginning of the next.
pub(super) const PIECE_OBJECTS: usize = 2_000;

/// What an entry is.
const OBJECT_CLASS: &str = "objectClass";

/// A change with its name read; none when it is no name, which the server then says.
struct Job<'a> {
    change: &'a ExportedObject,
    dn: Option<Dn>,
}

/// What is asked for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    Add,
    /// The attributes of an entry that is there; of one that was to be added, without its classes. With the values that come or
    /// go, or without.
    Modify {
        was_add: bool,
        with_values: bool,
    },
    /// One of the values that come or go, after all of them together did not succeed because some had come or gone before.
    Value(usize),
    Delete,
    Rename,
    /// Whether an entry that cannot be renamed has its new name already.
    IsRenamed,
}

/// What follows from an answer.
enum Then {
    Ask(Asking),
    Done(Result<(), Refused>),
}

/// Sends changes; answers for each in order.
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

/// Answers, each with the place of its change.
type Answers = Vec<(usize, Result<(), Refused>)>;

/// Changes that are worked on over several sessions.
struct Work<'a> {
    jobs: Vec<Job<'a>>,
    names: &'a Names,
    /// The place of the next.
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
        let mut open: HashMap<u32, (usize, Asking)> = HashMap::with_capacity(IN_FLIGHT);
        loop {
            let most = if open.len() <= REFILL_BELOW { IN_FLIGHT } else { 0 };
            while open.len() < most && !self.has_failed.load(Ordering::Relaxed) {
                let at = self.next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = self.jobs.get(at) else { break };
                match job.first() {
                    Some(asking) => {
                        open.insert(job.ask(session, self.names, asking)?, (at, asking));
                    }
                    None => answers.push((at, Ok(()))),
                }
            }
            if open.is_empty() {
                return Ok(());
            }
            let message = session.next_response()?;
            // What a search finds comes before its end.
            let Some(result) = message.operation.result() else { continue };
            let Some((at, asking)) = open.remove(&message.id) else { continue };
            let job = &self.jobs[at];
            if result.code == ResultCode::Unavailable {
                return Err(SessionError::Failed(Box::new(job.outcome(asking, result))));
            }
            match job.then(self.names, asking, result) {
                Then::Done(answer) => answers.push((at, answer)),
                Then::Ask(asking) => {
                    open.insert(job.ask(session, self.names, asking)?, (at, asking));
                }
            }
        }
    }
}

impl Job<'_> {
    /// What is asked first; none when there is nothing to be done.
    fn first(&self) -> Option<Asking> {
        match self.change.change {
            object::Change::Add => Some(Asking::Add),
            object::Change::Delete => Some(Asking::Delete),
            object::Change::Update if self.change.new_dn.is_some() => Some(Asking::Rename),
            object::Change::Update => self.modification(),
        }
    }

    /// What is asked of an entry that is there under its name; none when that is all.
    fn modification(&self) -> Option<Asking> {
        let is_all = self.change.attributes.is_empty() && self.change.changed_values.is_empty();
        (!is_all).then_some(Asking::Modify { was_add: false, with_values: true })
    }

    /// The values that come and go, one by one.
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

    /// The name that the entry has when this is asked.
    fn dn(&self, asking: Asking) -> &str {
        match (asking, &self.change.new_dn) {
            (Asking::Modify { .. } | Asking::Value(_) | Asking::IsRenamed, Some(new)) => new,
            _ => &self.change.dn,
        }
    }

    /// Puts a request on its way.
    fn ask(&self, session: &mut Session, names: &Names, asking: Asking) -> Result<u32, SessionError> {
        let dn = self.dn(asking);
        match asking {
            Asking::Add => {
                let listed = self.added(names);
                let attributes: Vec<Attribute<'_>> = listed
                    .iter()
                    .map(|(name, values)| Attribute { name, values: List::from(values) })
                    .collect();
                session.submit(&Operation::AddRequest { dn, attributes: List::from(&attributes) }, &[])
            }
            Asking::Modify { was_add, with_values } => {
                modify(session, dn, &self.modifications(names, was_add, with_values))
            }
            Asking::Value(at) => {
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
            Asking::Delete => session.submit(&Operation::DelRequest { dn }, &[]),
            Asking::Rename => {
                let new = self.change.new_dn.as_deref().unwrap_or_default();
                // What is no name is sent as it is, so that the server says so.
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
            Asking::IsRenamed => {
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
            // An entry has the values of its name, which not every server adds itself.
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

    /// What changes of an entry that is there.
    fn modifications<'s>(&'s self, names: &'s Names, was_add: bool, with_values: bool) -> Vec<Modified<'s>> {
        let valued = |values: &'s [Vec<u8>]| values.iter().map(|value| Value(value)).collect::<Vec<_>>();
        let mut listed = Vec::with_capacity(self.change.attributes.len());
        for (attribute, values) in &self.change.attributes {
            let name = names.name(*attribute);
            // The classes of an entry that is there stay: to change them is more than was asked.
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
    fn then(&self, names: &Names, asking: Asking, result: &LdapResult<'_>) -> Then {
        let or_done = |asking: Option<Asking>| asking.map_or(Then::Done(Ok(())), Then::Ask);
        let value = |at: usize| or_done((at < self.values().count()).then_some(Asking::Value(at)));
        let has_come_or_gone =
            matches!(result.code, ResultCode::AttributeOrValueExists | ResultCode::NoSuchAttribute);
        match (asking, result.code) {
            (Asking::Modify { with_values: false, .. }, ResultCode::Success) => value(0),
            (Asking::Value(at), ResultCode::Success) => value(at + 1),
            (Asking::Value(at), _) if has_come_or_gone => value(at + 1),
            (Asking::Rename | Asking::IsRenamed, ResultCode::Success) => or_done(self.modification()),
            (_, ResultCode::Success) => Then::Done(Ok(())),
            (Asking::Modify { was_add, with_values: true }, _)
                if has_come_or_gone && !self.change.changed_values.is_empty() =>
            {
                match self.modifications(names, was_add, false).is_empty() {
                    true => value(0),
                    false => Then::Ask(Asking::Modify { was_add, with_values: false }),
                }
            }
            // It was added before, and nobody was told.
            (Asking::Add, ResultCode::EntryAlreadyExists) => {
                let is_all = self.modifications(names, true, true).is_empty();
                or_done((!is_all).then_some(Asking::Modify { was_add: true, with_values: true }))
            }
            // It is gone already.
            (Asking::Delete, ResultCode::NoSuchObject) => Then::Done(Ok(())),
            (Asking::Rename, ResultCode::NoSuchObject) => Then::Ask(Asking::IsRenamed),
            (Asking::Modify { .. } | Asking::Value(_) | Asking::IsRenamed, ResultCode::NoSuchObject) => {
                let dn = self.dn(asking);
                let why = format!("{dn} is not in the directory: the next import shows its new state");
                Then::Done(Err(Refused(why)))
            }
            _ => Then::Done(Err(Refused(self.outcome(asking, result).to_string()))),
        }
    }

    fn outcome(&self, asking: Asking, result: &LdapResult<'_>) -> Outcome {
        let dn = self.dn(asking);
        let filter = Filter::everything();
        let request = match asking {
            Asking::Add => Operation::AddRequest { dn, attributes: List::NONE },
            Asking::Modify { .. } | Asking::Value(_) => Operation::ModifyRequest { dn, changes: List::NONE },
            Asking::Delete => Operation::DelRequest { dn },
            Asking::Rename => {
                Operation::ModifyDnRequest { dn, new_rdn: "", delete_old_rdn: true, new_superior: None }
            }
            Asking::IsRenamed => Operation::SearchRequest(SearchRequest::subtree(dn, &filter)),
        };
        Outcome::new(&request, result)
    }
}

/// What is done with an attribute, and with which values.
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
