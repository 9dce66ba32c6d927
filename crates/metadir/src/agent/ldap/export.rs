//! Changing a directory: requests in flight over several connections, in an order in which they can succeed. Each is so that
//! twice is as good as once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ldap::dn::Value as NameValue;
use ldap::message::{Attribute, Change, LdapResult, List, NO_ATTRIBUTES, Operation, Scope, SearchRequest, Value};
use ldap::session::{Outcome, Session, SessionError};
use ldap::{Dn, Filter, ModifyOperation, ResultCode};

use super::super::{AgentError, ExportedObject, Names, Refused};
use super::connect;
use crate::config::Ldap as Settings;
use crate::object;

/// Requests in flight on a connection. Servers close one that has far more (1,000 with OpenLDAP), and some work on few of them.
const IN_FLIGHT: usize = 32;

/// Another connection is worth its making for so many changes.
const CHANGES_PER_CONNECTION: usize = 64;

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
    /// The attributes of an entry that is there; of one that was to be added without its classes.
    Modify {
        was_add: bool,
    },
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
    let mut answers: Vec<Result<(), Refused>> =
        vec![Err(Refused("it was not sent".into())); changes.len()];
    for wave in waves(&jobs) {
        let connections = wave.len().div_ceil(CHANGES_PER_CONNECTION).min(settings.connections);
        while sessions.len() < connections {
            sessions.push(connect(settings)?);
        }
        let wave = Wave { jobs: &jobs, names, of: &wave, next: AtomicUsize::new(0), has_failed: AtomicBool::new(false) };
        let answered: Vec<Result<Vec<(usize, Result<(), Refused>)>, AgentError>> =
            match &mut sessions[..connections] {
                [session] => vec![wave.work(session)],
                several => std::thread::scope(|scope| {
                    let threads: Vec<_> =
                        several.iter_mut().map(|session| scope.spawn(|| wave.work(session))).collect();
                    let panicked = |_| Err(AgentError::system("sending changes", "a thread panicked"));
                    threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
                }),
            };
        for answered in answered {
            for (at, answer) in answered? {
                answers[at] = answer;
            }
        }
    }
    Ok(answers)
}

/// The changes in an order in which they can succeed, those that do not depend on each other together: a name that another
/// takes is given up first, what is above comes before what is below it and goes after it.
fn waves(jobs: &[Job<'_>]) -> Vec<Vec<usize>> {
    let keys: Vec<Option<Vec<u8>>> = jobs.iter().map(|job| job.dn.as_ref().map(Dn::key)).collect();
    let mut taken: HashSet<Vec<u8>> = HashSet::new();
    let (mut added, mut deleted): (HashSet<&[u8]>, HashSet<&[u8]>) = Default::default();
    for (job, key) in jobs.iter().zip(&keys) {
        let Some(key) = key else { continue };
        match job.change.change {
            object::Change::Add => {
                added.insert(key);
                taken.insert(key.clone());
            }
            object::Change::Delete => {
                deleted.insert(key);
            }
            object::Change::Update => {}
        }
        let new = job.change.new_dn.as_ref().and_then(|name| Dn::parse(name).ok());
        taken.extend(new.map(|name| name.key()));
    }
    // The keys of an entry and of those above it are the parts of its key up to each end of a name.
    let lineage = |key: &[u8]| -> Vec<usize> {
        key.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1).collect()
    };
    let mut ranks: BTreeMap<(u8, i64), Vec<usize>> = BTreeMap::new();
    for (at, (job, key)) in jobs.iter().zip(&keys).enumerate() {
        let key = key.as_deref().unwrap_or_default();
        let above = |set: &HashSet<&[u8]>| {
            lineage(key).into_iter().filter(|end| set.contains(&key[..*end])).count() as i64
        };
        let rank = match job.change.change {
            object::Change::Delete => {
                let frees = lineage(key).into_iter().any(|end| taken.contains(&key[..end]) && deleted.contains(&key[..end]));
                (if frees { 0 } else { 4 }, -above(&deleted))
            }
            object::Change::Add => (1, above(&added)),
            // Before what is above is renamed.
            object::Change::Update if job.change.new_dn.is_none() => (2, 0),
            object::Change::Update => (3, 0),
        };
        ranks.entry(rank).or_default().push(at);
    }
    ranks.into_values().collect()
}

/// Changes that do not depend on each other, worked on over several sessions.
struct Wave<'a> {
    jobs: &'a [Job<'a>],
    names: &'a Names,
    of: &'a [usize],
    /// The place of the next in `of`.
    next: AtomicUsize,
    has_failed: AtomicBool,
}

impl Wave<'_> {
    /// Sends changes over a session until there are none left.
    fn work(&self, session: &mut Session) -> Result<Vec<(usize, Result<(), Refused>)>, AgentError> {
        let mut answers = Vec::new();
        let sent = self.exchange(session, &mut answers);
        if let Err(error) = sent {
            self.has_failed.store(true, Ordering::Relaxed);
            return Err(AgentError::system("sending changes", error));
        }
        Ok(answers)
    }

    fn exchange(
        &self,
        session: &mut Session,
        answers: &mut Vec<(usize, Result<(), Refused>)>,
    ) -> Result<(), SessionError> {
        let mut open: HashMap<u32, (usize, Asking)> = HashMap::with_capacity(IN_FLIGHT);
        loop {
            while open.len() < IN_FLIGHT && !self.has_failed.load(Ordering::Relaxed) {
                let Some(at) = self.of.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
                let job = &self.jobs[*at];
                match job.first() {
                    Some(asking) => {
                        open.insert(job.ask(session, self.names, asking)?, (*at, asking));
                    }
                    None => answers.push((*at, Ok(()))),
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
            object::Change::Update if self.change.attributes.is_empty() => None,
            object::Change::Update => Some(Asking::Modify { was_add: false }),
        }
    }

    /// The name that the entry has when this is asked.
    fn dn(&self, asking: Asking) -> &str {
        match (asking, &self.change.new_dn) {
            (Asking::Modify { .. } | Asking::IsRenamed, Some(new)) => new,
            _ => &self.change.dn,
        }
    }

    /// Puts a request on its way.
    fn ask(&self, session: &mut Session, names: &Names, asking: Asking) -> Result<u32, SessionError> {
        let dn = self.dn(asking);
        let listed: Vec<(&str, Vec<Value<'_>>)> = match asking {
            Asking::Add | Asking::Modify { .. } => self.attributes(names, asking),
            _ => Vec::new(),
        };
        let attributes =
            listed.iter().map(|(name, values)| Attribute { name, values: List::from(values) });
        match asking {
            Asking::Add => {
                let attributes: Vec<Attribute<'_>> = attributes.collect();
                session.submit(&Operation::AddRequest { dn, attributes: List::from(&attributes) }, &[])
            }
            Asking::Modify { .. } => {
                let replace = |attribute| Change { operation: ModifyOperation::Replace, attribute };
                let changes: Vec<Change<'_>> = attributes.map(replace).collect();
                session.submit(&Operation::ModifyRequest { dn, changes: List::from(&changes) }, &[])
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

    /// The attributes of a request with their values.
    fn attributes<'s>(&'s self, names: &'s Names, asking: Asking) -> Vec<(&'s str, Vec<Value<'s>>)> {
        let is_add = asking == Asking::Add;
        let mut listed: Vec<(&str, Vec<Value<'_>>)> = Vec::with_capacity(self.change.attributes.len() + 1);
        for (attribute, values) in &self.change.attributes {
            let name = names.name(*attribute);
            // The classes of an entry that is there stay: to change them is more than was asked.
            let is_left_out = asking == (Asking::Modify { was_add: true }) && name.eq_ignore_ascii_case(OBJECT_CLASS);
            if !is_left_out && !(is_add && values.is_empty()) {
                listed.push((name, values.iter().map(|value| Value(value)).collect()));
            }
        }
        if is_add && let Some(rdn) = self.dn.as_ref().and_then(Dn::rdn) {
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

    /// What follows from an answer.
    fn then(&self, names: &Names, asking: Asking, result: &LdapResult<'_>) -> Then {
        let is_modified = || match self.change.attributes.is_empty() {
            true => Then::Done(Ok(())),
            false => Then::Ask(Asking::Modify { was_add: false }),
        };
        match (asking, result.code) {
            (Asking::Add | Asking::Modify { .. } | Asking::Delete, ResultCode::Success) => Then::Done(Ok(())),
            (Asking::Rename | Asking::IsRenamed, ResultCode::Success) => is_modified(),
            // It was added before, and nobody was told.
            (Asking::Add, ResultCode::EntryAlreadyExists) => {
                let asking = Asking::Modify { was_add: true };
                match self.attributes(names, asking).is_empty() {
                    true => Then::Done(Ok(())),
                    false => Then::Ask(asking),
                }
            }
            // It is gone already.
            (Asking::Delete, ResultCode::NoSuchObject) => Then::Done(Ok(())),
            (Asking::Rename, ResultCode::NoSuchObject) => Then::Ask(Asking::IsRenamed),
            _ => {
                let mut why = self.outcome(asking, result).to_string();
                if matches!(asking, Asking::Modify { .. } | Asking::IsRenamed)
                    && result.code == ResultCode::NoSuchObject
                {
                    why = format!("{} is not in the directory: an import tells what became of it", self.dn(asking));
                }
                Then::Done(Err(Refused(why)))
            }
        }
    }

    fn outcome(&self, asking: Asking, result: &LdapResult<'_>) -> Outcome {
        let dn = self.dn(asking);
        let filter = Filter::everything();
        let request = match asking {
            Asking::Add => Operation::AddRequest { dn, attributes: List::NONE },
            Asking::Modify { .. } => Operation::ModifyRequest { dn, changes: List::NONE },
            Asking::Delete => Operation::DelRequest { dn },
            Asking::Rename => {
                Operation::ModifyDnRequest { dn, new_rdn: "", delete_old_rdn: true, new_superior: None }
            }
            Asking::IsRenamed => Operation::SearchRequest(SearchRequest::subtree(dn, &filter)),
        };
        Outcome::new(&request, result)
    }
}
