//! Changes a directory, with several requests in flight over several connections. Each request is idempotent.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ldap::dn::{Part, Value as NameValue};
use ldap::message::{Attribute, Change, LdapResult, List, Operation, Scope, SearchRequest, Value};
use ldap::session::{Outcome, Session, SessionError};
use ldap::{Dn, Filter, ModifyOperation, Rdn, ResultCode};

use super::entry::{Entries, Entry};
use super::{Directory, connect, refusal};
use metadir::agent::{AgentError, ExportedObject, Imported, ImportedObject, Names, Refused};
use metadir::config::UNICODE_PWD;
use metadir::hologram::Hologram;
use metadir::{hologram, object};

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

/// No attribute (RFC 4511, section 4.5.1.8).
const NO_ATTRIBUTES: &str = "1.1";

/// The value of Active Directory's `unicodePwd` for a password: in quotes, as UTF-16 with the low byte first.
pub(super) fn quoted_utf16(password: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(password);
    format!("\"{text}\"").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Changes whose passwords have the form that Active Directory requires.
pub(super) fn with_quoted_passwords<'a>(
    changes: &'a [ExportedObject],
    names: &Names,
) -> Cow<'a, [ExportedObject]> {
    let is_password = |(attribute, _): &(hologram::Attribute, Vec<Vec<u8>>)| {
        names.name(*attribute).eq_ignore_ascii_case(UNICODE_PWD)
    };
    if !changes.iter().any(|change| change.attributes.iter().any(is_password)) {
        return Cow::Borrowed(changes);
    }
    let mut changes = changes.to_vec();
    for attribute in changes.iter_mut().flat_map(|change| &mut change.attributes) {
        if is_password(attribute) {
            attribute.1.iter_mut().for_each(|value| *value = quoted_utf16(value));
        }
    }
    Cow::Owned(changes)
}

/// A change with its parsed name; none if the name is invalid, which the server then reports.
struct Job<'a> {
    change: &'a ExportedObject,
    dn: Option<Dn>,
    /// The naming values of a renamed entry that the rules do not want.
    unnamed: Unnamed<'a>,
}

/// What a rename does with the naming values of the old name.
#[derive(Default)]
struct Unnamed<'a> {
    /// Whether the rules want some of them: then the server keeps all.
    keeps: bool,
    /// Those that are to be removed, if the server keeps them.
    removed: Vec<(hologram::Attribute, Cow<'a, [u8]>)>,
}

/// The request for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeRequest {
    Add,
    /// Modifies an existing entry.
    Modify(Modification),
    /// Checks whether the entry exists, after a request with values found an entry missing. It may be another one, to
    /// which a value refers.
    Check(Modification),
    /// Changes the spelling of the entry's name. Active Directory does not modify the naming attribute.
    Respell(Modification),
    /// Adds or removes one value, after the request for all values failed because some were already added or
    /// removed, or refer to an entry that does not exist.
    Value(usize),
    /// Asks whether the entry still has a value that the server does not remove.
    Compare(usize),
    Delete,
    Rename,
    /// Reads the entry that has the name of an entry that cannot be added, or the new name of one that cannot
    /// be renamed.
    Existing,
}

/// What a modification of an existing entry includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modification {
    /// Whether the entry was to be added: then its classes are not changed.
    was_add: bool,
    /// Whether the values to be added or removed are included.
    with_values: bool,
    /// Whether the attribute that names the entry is included.
    with_naming: bool,
}

impl Modification {
    const ALL: Modification = Modification { was_add: false, with_values: true, with_naming: true };
    const OF_ADD: Modification = Modification { was_add: true, ..Modification::ALL };
}

/// What follows from an answer.
enum NextAction {
    Ask(ChangeRequest),
    Done(Result<(), Refused>),
    /// The entry that was to be added exists.
    Exists(Hologram),
}

/// Sends changes and returns an answer for each, in order.
pub(super) fn send(
    directory: &Directory,
    names: &Names,
    sessions: &mut Vec<Session>,
    changes: &[ExportedObject],
    existing: &mut Vec<(usize, Hologram)>,
) -> Result<Vec<Result<(), Refused>>, AgentError> {
    let settings = &directory.settings;
    let jobs: Vec<Job<'_>> = changes.iter().map(|change| Job::new(change, names)).collect();
    let connections = changes.len().div_ceil(CHANGES_PER_CONNECTION).min(settings.connections);
    while sessions.len() < connections {
        sessions.push(connect(settings)?);
    }
    let work =
        &Work { jobs, directory, names, next: AtomicUsize::new(0), has_failed: AtomicBool::new(false) };
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
        let answered = answered?;
        for (at, answer) in answered.answers {
            answers[at] = answer;
        }
        existing.extend(answered.existing);
    }
    Ok(answers)
}

/// Answers, and existing entries, each with the index of its change.
#[derive(Default)]
struct Answers {
    answers: Vec<(usize, Result<(), Refused>)>,
    existing: Vec<(usize, Hologram)>,
}

/// Changes that are sent over several sessions.
struct Work<'a> {
    jobs: Vec<Job<'a>>,
    directory: &'a Directory,
    names: &'a Names,
    /// The index of the next change.
    next: AtomicUsize,
    has_failed: AtomicBool,
}

impl Work<'_> {
    /// Sends changes over a session until there are none left.
    fn take_part(&self, session: &mut Session) -> Result<Answers, AgentError> {
        let mut answers = Answers::default();
        let sent = self.exchange(session, &mut answers);
        if let Err(error) = sent {
            self.has_failed.store(true, Ordering::Relaxed);
            return Err(AgentError::system("sending changes", error));
        }
        Ok(answers)
    }

    fn exchange(&self, session: &mut Session, answers: &mut Answers) -> Result<(), SessionError> {
        let mut open: HashMap<u32, (usize, ChangeRequest)> = HashMap::with_capacity(IN_FLIGHT);
        let mut found: HashMap<u32, ImportedObject> = HashMap::new();
        loop {
            let most = if open.len() <= REFILL_BELOW { IN_FLIGHT } else { 0 };
            while open.len() < most && !self.has_failed.load(Ordering::Relaxed) {
                let at = self.next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = self.jobs.get(at) else { break };
                match job.first() {
                    Some(asking) => {
                        open.insert(
                            job.send_request(session, self.names, self.directory, asking)?,
                            (at, asking),
                        );
                    }
                    None => answers.answers.push((at, Ok(()))),
                }
            }
            if open.is_empty() {
                return Ok(());
            }
            let message = session.next_response()?;
            // Search entries come before the search result.
            if let Operation::SearchResultEntry { dn, attributes } = message.operation
                && let Entry::Done(Imported::Object(object)) =
                    Entries::new(self.names).read(self.directory, dn, attributes)
            {
                found.insert(message.id, object);
            }
            let Some(result) = message.operation.result() else { continue };
            let Some((at, asking)) = open.remove(&message.id) else { continue };
            let job = &self.jobs[at];
            if result.code == ResultCode::Unavailable {
                return Err(SessionError::Failed(Box::new(job.outcome(asking, result))));
            }
            match job.then(self.names, asking, result, found.remove(&message.id)) {
                NextAction::Done(answer) => answers.answers.push((at, answer)),
                NextAction::Exists(image) => {
                    answers.answers.push((at, Err(Refused("it exists already".into()))));
                    answers.existing.push((at, image));
                }
                NextAction::Ask(asking) => {
                    open.insert(job.send_request(session, self.names, self.directory, asking)?, (at, asking));
                }
            }
        }
    }
}

impl<'a> Job<'a> {
    fn new(change: &'a ExportedObject, names: &Names) -> Job<'a> {
        let dn = Dn::parse(&change.dn).ok();
        let new = change.new_dn.as_deref().and_then(|new| Dn::parse(new).ok());
        let mut unnamed = Unnamed::default();
        for part in dn.iter().zip(&new).flat_map(|(old, _)| old.rdn()).flat_map(Rdn::parts) {
            let NameValue::Bytes(value) = &part.value else { continue };
            let is_same = |other: &&ldap::dn::Part| {
                other.attribute.eq_ignore_ascii_case(&part.attribute) && other.value == part.value
            };
            if new.iter().flat_map(|new| new.rdn()).flat_map(Rdn::parts).any(|other| is_same(&other)) {
                continue;
            }
            let of_part = |(attribute, _): &&(hologram::Attribute, Vec<Vec<u8>>)| {
                names.name(*attribute).eq_ignore_ascii_case(&part.attribute)
            };
            let written = change.written.iter().find(of_part);
            if written.is_some_and(|(_, values)| values.iter().any(|wanted| is_like(wanted, value))) {
                unnamed.keeps = true;
                continue;
            }
            // The new name may have another attribute. Between the rename and the new values, the entry must not be without
            // one that its classes require.
            let names_by = |new: &Dn| new.rdn().is_some_and(|rdn| has_part(rdn, &part.attribute));
            unnamed.keeps |=
                written.is_some_and(|(_, values)| !values.is_empty()) && !new.iter().any(names_by);
            let attribute = written.map(|(attribute, _)| *attribute);
            let attribute = attribute.or_else(|| names.attribute(&part.attribute));
            let is_replaced = change.attributes.iter().any(|(of, _)| Some(*of) == attribute);
            let is_removed = change
                .changed_values
                .iter()
                .any(|changed| Some(changed.attribute) == attribute && changed.removed.contains(value));
            let attribute = attribute.filter(|_| !is_replaced && !is_removed);
            unnamed.removed.extend(attribute.map(|of| (of, Cow::Owned(value.clone()))));
        }
        if !unnamed.keeps {
            unnamed.removed.clear();
        }
        Job { change, dn, unnamed }
    }

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
        let is_all = self.change.attributes.is_empty() && self.values().next().is_none();
        (!is_all).then_some(ChangeRequest::Modify(Modification::ALL))
    }

    /// The values to be added or removed, one by one. A group that must have a member gets the new ones first. Where an
    /// attribute can have one value only, that fails until the old one is removed: they are added once more.
    fn values(&self) -> impl Iterator<Item = (ModifyOperation, hologram::Attribute, &[u8])> {
        let changed = self.change.changed_values.iter().flat_map(|changed| {
            let one_by_one = |operation, values: &'a [Vec<u8>]| {
                values.iter().map(move |value| (operation, changed.attribute, value.as_slice()))
            };
            let again: &[Vec<u8>] = if changed.removed.is_empty() { &[] } else { &changed.added };
            one_by_one(ModifyOperation::Add, &changed.added)
                .chain(one_by_one(ModifyOperation::Delete, &changed.removed))
                .chain(one_by_one(ModifyOperation::Add, again))
        });
        let unnamed = self.unnamed.removed.iter();
        changed.chain(unnamed.map(|(of, value)| (ModifyOperation::Delete, *of, value.as_ref())))
    }

    /// The name of the entry at the time of the request.
    fn dn(&self, asking: ChangeRequest) -> &str {
        match (asking, &self.change.new_dn) {
            (ChangeRequest::Add | ChangeRequest::Delete | ChangeRequest::Rename, _) | (_, None) => {
                &self.change.dn
            }
            (_, Some(new)) => new,
        }
    }

    /// Sends a request.
    fn send_request(
        &self,
        session: &mut Session,
        names: &Names,
        directory: &Directory,
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
            ChangeRequest::Modify(part) => modify(session, dn, &self.modifications(names, part)),
            ChangeRequest::Respell(_) => {
                let rdn = self.naming(names).map(|(part, wanted)| Rdn::new(&part.attribute, wanted));
                let new_rdn = rdn.map(|rdn| rdn.to_string()).unwrap_or_default();
                let request = Operation::ModifyDnRequest {
                    dn,
                    new_rdn: &new_rdn,
                    delete_old_rdn: true,
                    new_superior: None,
                };
                session.submit(&request, &[])
            }
            ChangeRequest::Check(_) => search(session, dn, &[NO_ATTRIBUTES]),
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
            ChangeRequest::Compare(at) => {
                let (name, value) =
                    self.values().nth(at).map_or(("", &[][..]), |(_, of, value)| (names.name(of), value));
                let request = Operation::CompareRequest { dn, attribute: name, value: Value(value) };
                session.submit(&request, &[])
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
                let delete_old_rdn = !self.unnamed.keeps;
                let request = Operation::ModifyDnRequest { dn, new_rdn: &rdn, delete_old_rdn, new_superior };
                session.submit(&request, &[])
            }
            ChangeRequest::Existing => {
                let wanted: Vec<&str> = directory.wanted.iter().map(String::as_str).collect();
                search(session, dn, &wanted)
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

    /// The value in the name of the entry, and the one value that the naming attribute is to have. None if the name has
    /// several values, or the naming attribute is not set to one value.
    fn naming(&self, names: &Names) -> Option<(Part, &[u8])> {
        let dn = Dn::parse(self.dn(ChangeRequest::Modify(Modification::ALL))).ok()?;
        let [part] = dn.rdn()?.parts() else { return None };
        let written = self.change.attributes.iter().find(|(of, _)| is_name_of(names, *of, part))?;
        match written.1.as_slice() {
            [wanted] => Some((part.clone(), wanted)),
            _ => None,
        }
    }

    /// The modifications of an existing entry.
    fn modifications<'s>(&'s self, names: &'s Names, part: Modification) -> Vec<Modified<'s>> {
        let Modification { was_add, with_values, with_naming } = part;
        let naming = (!with_naming).then(|| self.naming(names)).flatten().map(|(part, _)| part);
        let valued = |values: &'s [Vec<u8>]| values.iter().map(|value| Value(value)).collect::<Vec<_>>();
        let mut listed = Vec::with_capacity(self.change.attributes.len());
        for (attribute, values) in &self.change.attributes {
            let name = names.name(*attribute);
            if naming.as_ref().is_some_and(|part| is_name_of(names, *attribute, part)) {
                continue;
            }
            // The classes of an existing entry are kept: the export did not request a change of them.
            if !(was_add && name.eq_ignore_ascii_case(OBJECT_CLASS)) {
                listed.push((ModifyOperation::Replace, name, valued(values)));
            }
        }
        for changed in self.change.changed_values.iter().filter(|_| with_values) {
            let name = names.name(changed.attribute);
            // An attribute that can have one value only must lose it first.
            for (operation, values) in
                [(ModifyOperation::Delete, &changed.removed), (ModifyOperation::Add, &changed.added)]
            {
                if !values.is_empty() {
                    listed.push((operation, name, valued(values)));
                }
            }
        }
        for (attribute, value) in self.unnamed.removed.iter().filter(|_| with_values) {
            listed.push((ModifyOperation::Delete, names.name(*attribute), vec![Value(value)]));
        }
        listed
    }

    /// What follows from an answer.
    fn then(
        &self,
        names: &Names,
        asking: ChangeRequest,
        result: &LdapResult<'_>,
        found: Option<ImportedObject>,
    ) -> NextAction {
        let or_done =
            |asking: Option<ChangeRequest>| asking.map_or(NextAction::Done(Ok(())), NextAction::Ask);
        match (asking, result.code) {
            (ChangeRequest::Value(at) | ChangeRequest::Compare(at), _) => {
                self.after_value(names, asking, at, result)
            }
            (ChangeRequest::Modify(part), _) => self.after_modify(names, part, result),
            (ChangeRequest::Check(part), ResultCode::Success) => self.by_value(names, part),
            (ChangeRequest::Respell(part), ResultCode::Success) => {
                self.modify(names, Modification { with_naming: false, ..part })
            }
            (ChangeRequest::Rename, ResultCode::Success) => or_done(self.modification()),
            (ChangeRequest::Existing, ResultCode::Success | ResultCode::NoSuchObject)
                if self.change.change == object::Change::Add =>
            {
                match found {
                    Some(found) => NextAction::Exists(found.image),
                    None => refuse(refusal::exists_unseen(&self.change.dn)),
                }
            }
            // It was renamed before, but the answer was lost. Or another entry has the name.
            (ChangeRequest::Existing, ResultCode::Success) => {
                match found.is_some_and(|found| self.is_it(&found)) {
                    true => or_done(self.modification()),
                    false => refuse(refusal::is_taken(self.dn(asking))),
                }
            }
            (ChangeRequest::Rename, ResultCode::EntryAlreadyExists) => {
                refuse(refusal::is_taken(self.change.new_dn.as_deref().unwrap_or_default()))
            }
            (_, ResultCode::Success) => NextAction::Done(Ok(())),
            (ChangeRequest::Add, ResultCode::EntryAlreadyExists) if !self.change.adopts => {
                NextAction::Ask(ChangeRequest::Existing)
            }
            (ChangeRequest::Add, ResultCode::EntryAlreadyExists) => self.modify(names, Modification::OF_ADD),
            // It is already deleted.
            (ChangeRequest::Delete, ResultCode::NoSuchObject) => NextAction::Done(Ok(())),
            (ChangeRequest::Rename, ResultCode::NoSuchObject) => NextAction::Ask(ChangeRequest::Existing),
            (
                ChangeRequest::Check(_) | ChangeRequest::Respell(_) | ChangeRequest::Existing,
                ResultCode::NoSuchObject,
            ) => refuse(refusal::is_missing(self.dn(asking))),
            _ => self.refused(asking, result),
        }
    }

    /// What follows from the answer to a modification.
    fn after_modify(&self, names: &Names, part: Modification, result: &LdapResult<'_>) -> NextAction {
        let has_values = part.with_values && self.values().next().is_some();
        let asking = ChangeRequest::Modify(part);
        match result.code {
            ResultCode::Success if part.with_values => NextAction::Done(Ok(())),
            ResultCode::Success => self.value(0),
            // Some values have come or gone. Active Directory answers with one of the last two codes.
            ResultCode::AttributeOrValueExists
            | ResultCode::NoSuchAttribute
            | ResultCode::EntryAlreadyExists
            | ResultCode::UnwillingToPerform
                if has_values =>
            {
                self.by_value(names, part)
            }
            // Active Directory answers so too if a value is the name of an entry that does not exist.
            ResultCode::NoSuchObject if has_values => NextAction::Ask(ChangeRequest::Check(part)),
            ResultCode::NoSuchObject => refuse(refusal::is_missing(self.dn(asking))),
            ResultCode::NotAllowedOnRdn if part.with_naming => match self.naming(names) {
                Some((Part { value: NameValue::Bytes(value), .. }, wanted)) if value == wanted => {
                    self.modify(names, Modification { with_naming: false, ..part })
                }
                Some((Part { value: NameValue::Bytes(value), .. }, wanted)) if is_like(&value, wanted) => {
                    NextAction::Ask(ChangeRequest::Respell(part))
                }
                _ => self.refused(asking, result),
            },
            _ => self.refused(asking, result),
        }
    }

    /// What follows from the answer to a request about one value.
    fn after_value(
        &self,
        names: &Names,
        asking: ChangeRequest,
        at: usize,
        result: &LdapResult<'_>,
    ) -> NextAction {
        let Some((operation, attribute, value)) = self.values().nth(at) else { return self.value(at) };
        let is_removed = operation == ModifyOperation::Delete;
        let (name, value) = (names.name(attribute), String::from_utf8_lossy(value));
        match (asking, result.code) {
            // It has come or gone.
            (_, ResultCode::Success | ResultCode::AttributeOrValueExists | ResultCode::NoSuchAttribute)
            | (ChangeRequest::Value(_), ResultCode::EntryAlreadyExists)
            | (_, ResultCode::CompareFalse) => self.value(at + 1),
            // What refers to an entry that does not exist is gone.
            (_, ResultCode::NoSuchObject) if is_removed => self.value(at + 1),
            (_, ResultCode::NoSuchObject) => refuse(refusal::has_no_target(name, &value)),
            // Active Directory answers so if it is gone, and if it must stay.
            (ChangeRequest::Value(_), ResultCode::UnwillingToPerform) if is_removed => {
                NextAction::Ask(ChangeRequest::Compare(at))
            }
            (_, ResultCode::CompareTrue) => refuse(refusal::keeps(name, &value)),
            _ => self.refused(asking, result),
        }
    }

    /// The request for a part of the changes of an existing entry, or what follows if there is none.
    fn modify(&self, names: &Names, part: Modification) -> NextAction {
        match self.modifications(names, part).is_empty() {
            true if part.with_values => NextAction::Done(Ok(())),
            true => self.value(0),
            false => NextAction::Ask(ChangeRequest::Modify(part)),
        }
    }

    /// The same change with one request for each value.
    fn by_value(&self, names: &Names, part: Modification) -> NextAction {
        self.modify(names, Modification { with_values: false, ..part })
    }

    /// The request for a value, or the end.
    fn value(&self, at: usize) -> NextAction {
        match at < self.values().count() {
            true => NextAction::Ask(ChangeRequest::Value(at)),
            false => NextAction::Done(Ok(())),
        }
    }

    fn refused(&self, asking: ChangeRequest, result: &LdapResult<'_>) -> NextAction {
        let is_modify = matches!(asking, ChangeRequest::Modify(_));
        refuse(refusal::of_server(&self.outcome(asking, result), is_modify))
    }

    /// Whether an entry is the one that is changed: it has its anchor. Before an import has shown the anchor,
    /// the values that the rules write are compared.
    fn is_it(&self, found: &ImportedObject) -> bool {
        match self.change.anchor {
            Some(anchor) => found.anchor == anchor,
            None => self.change.written.iter().all(|(attribute, values)| {
                found.image.get(*attribute).map_or(values.is_empty(), |of| of.to_vec() == *values)
            }),
        }
    }

    fn outcome(&self, asking: ChangeRequest, result: &LdapResult<'_>) -> Outcome {
        let dn = self.dn(asking);
        let filter = Filter::everything();
        let request = match asking {
            ChangeRequest::Add => Operation::AddRequest { dn, attributes: List::NONE },
            ChangeRequest::Modify(_) | ChangeRequest::Value(_) => {
                Operation::ModifyRequest { dn, changes: List::NONE }
            }
            ChangeRequest::Compare(_) => Operation::CompareRequest { dn, attribute: "", value: Value(b"") },
            ChangeRequest::Delete => Operation::DelRequest { dn },
            ChangeRequest::Rename | ChangeRequest::Respell(_) => {
                Operation::ModifyDnRequest { dn, new_rdn: "", delete_old_rdn: true, new_superior: None }
            }
            ChangeRequest::Check(_) | ChangeRequest::Existing => {
                Operation::SearchRequest(SearchRequest::subtree(dn, &filter))
            }
        };
        Outcome::new(&request, result)
    }
}

fn refuse(why: String) -> NextAction {
    NextAction::Done(Err(Refused(why)))
}

/// Whether a relative name has a value of an attribute.
fn has_part(rdn: &Rdn, attribute: &str) -> bool {
    rdn.parts().iter().any(|part| part.attribute.eq_ignore_ascii_case(attribute))
}

/// Whether an attribute is the one of a part of a name.
fn is_name_of(names: &Names, attribute: hologram::Attribute, part: &Part) -> bool {
    names.name(attribute).eq_ignore_ascii_case(&part.attribute)
}

/// Whether two naming values are the same for a directory: most naming attributes ignore case.
fn is_like(one: &[u8], other: &[u8]) -> bool {
    match (std::str::from_utf8(one), std::str::from_utf8(other)) {
        (Ok(one), Ok(other)) => one.to_lowercase() == other.to_lowercase(),
        _ => one == other,
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

/// Asks for an entry.
fn search(session: &mut Session, dn: &str, wanted: &[&str]) -> Result<u32, SessionError> {
    let filter = Filter::everything();
    let request = SearchRequest {
        scope: Scope::Base,
        attributes: List::from(wanted),
        ..SearchRequest::subtree(dn, &filter)
    };
    session.submit(&Operation::SearchRequest(request), &[])
}
