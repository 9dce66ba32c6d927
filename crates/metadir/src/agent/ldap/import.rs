//! Reading a directory: searches one after the other, each in pages or as a content synchronization.

use std::collections::VecDeque;
use std::sync::Arc;

use ldap::ber::BerError;
use ldap::controls::{
    PAGED_RESULTS, Paged, SHOW_DELETED, SYNC_DONE, SYNC_INFO, SYNC_REQUEST, SYNC_STATE, SyncDone,
    SyncEntryState, SyncInfo, SyncRequest, SyncState, Uuid,
};
use ldap::filter::Assertion;
use ldap::message::{LdapResult, List, Operation, SearchRequest};
use ldap::session::{EMPTY_PAGES_MAX, ENDLESS, Outcome, Session};
use ldap::{Control, Filter, Message, ResultCode};

use super::super::{AgentError, DiscoveryError, Import, Imported};
use super::entry::{Cut, Entries, Entry, More, anchor_of_uuid, range};
use super::since::{Since, at_least, beyond, last_usn, newest};
use super::{Directory, connect, entry};
use crate::config::Delta;

/// A search that is to be made.
struct Search {
    base: String,
    filter: Filter,
    what: What,
}

/// What a search finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Objects.
    Objects,
    /// Objects that were deleted.
    Deleted,
    /// What a content synchronization tells.
    Synchronization,
    /// Objects that a content synchronization may have left out.
    Newer,
}

impl What {
    /// What is found, as it counts.
    fn shown(self, imported: Imported) -> Imported {
        match imported {
            Imported::Object(object) if self == What::Newer => Imported::Newer(object),
            other => other,
        }
    }
}

/// Objects as they are read.
pub(super) struct Walk {
    directory: Arc<Directory>,
    session: Session,
    /// Over which values are asked for that did not come with their entries.
    other: Option<Session>,
    entries: Entries,
    searches: VecDeque<Search>,
    /// The one that goes on, and where its next page begins.
    open: Option<Search>,
    page: Vec<u8>,
    /// Read and not yet asked for.
    later: VecDeque<Imported>,
    /// Entries so far; and before the page that is read.
    count: u64,
    page_begin: u64,
    /// Pages without an entry, one after the other.
    empty_pages: u32,
    is_delta: bool,
    is_complete: bool,
    /// Where the next delta import begins; of a synchronization what is known so far.
    since: Option<Since>,
}

/// What is to be done after a response.
enum Next {
    GoOn,
    /// The same after an answer that only this search knows to be one.
    Answered,
    Complete(Cut),
    Page,
    End,
}

impl Walk {
    /// Begins to read all objects, or those that changed.
    pub(super) fn begin(
        directory: Arc<Directory>,
        entries: Entries,
        mut session: Session,
        since: Option<Since>,
    ) -> Result<Walk, AgentError> {
        let settings = &directory.settings;
        let of_bases = |filter: Filter, what: What| -> VecDeque<Search> {
            let of_base = |base: &ldap::Dn| Search { base: base.to_string(), filter: filter.clone(), what };
            settings.bases.iter().map(of_base).collect()
        };
        let all = settings.filter.clone();
        let (searches, next) = match (settings.delta, &since) {
            (None, _) => (of_bases(all, What::Objects), None),
            (Some(Delta::ContentSynchronization), _) => (of_bases(all, What::Synchronization), since.clone()),
            (Some(Delta::ModifyTimestamp), Some(Since::Time(time))) => {
                let next = newest(&mut session, &directory, Some(time))?;
                (of_bases(at_least(&all, "modifyTimestamp", time), What::Objects), Some(Since::Time(next)))
            }
            (Some(Delta::ModifyTimestamp), _) => {
                let next = newest(&mut session, &directory, None)?;
                (of_bases(all, What::Objects), Some(Since::Time(next)))
            }
            (Some(Delta::Usn), Some(Since::Usn { server, usn })) => {
                let (next, contexts) = last_usn(&mut session, &directory)?;
                if !matches!(&next, Since::Usn { server: now, .. } if now == server) {
                    let why = "another server answers than the one that was read, or it was restored, and each counts its \
                               changes for itself: name one server in `url`, and run a full-import";
                    return Err(AgentError::NotSupported(why.into()));
                }
                let after = usn.saturating_add(1).to_string();
                let mut searches = of_bases(at_least(&all, USN_CHANGED, &after), What::Objects);
                let deleted =
                    Filter::Equal(Assertion { attribute: "isDeleted".into(), value: b"TRUE".into() });
                searches.extend(contexts.into_iter().map(|base| Search {
                    base,
                    filter: at_least(&deleted, USN_CHANGED, &after),
                    what: What::Deleted,
                }));
                (searches, Some(next))
            }
            (Some(Delta::Usn), _) => {
                let (next, _) = last_usn(&mut session, &directory)?;
                (of_bases(all, What::Objects), Some(next))
            }
        };
        Ok(Walk {
            directory: directory.clone(),
            session,
            other: None,
            entries,
            searches,
            open: None,
            page: Vec::new(),
            later: VecDeque::new(),
            count: 0,
            page_begin: 0,
            empty_pages: 0,
            is_delta: since.is_some(),
            is_complete: false,
            since: next,
        })
    }

    /// What is done, for errors.
    fn reading(&self) -> String {
        let server = &self.directory.settings.server;
        match &self.open {
            Some(search) => format!("reading {} from {server}, after {} entries", search.base, self.count),
            None => format!("reading from {server}"),
        }
    }

    fn failed(&self, why: impl ToString) -> AgentError {
        AgentError::system(self.reading(), why)
    }

    /// Asks for what the open search finds, or its next page.
    fn ask(&mut self) -> Result<(), AgentError> {
        let Some(search) = &self.open else { return Ok(()) };
        let directory = &self.directory;
        let names: Vec<&str> = match search.what {
            What::Deleted => directory.anchor.iter().map(|(name, _)| name.as_str()).collect(),
            What::Objects | What::Newer | What::Synchronization => {
                directory.wanted.iter().map(String::as_str).collect()
            }
        };
        let request = SearchRequest {
            attributes: List::from(&names),
            ..SearchRequest::subtree(&search.base, &search.filter)
        };
        let mut value = Vec::new();
        let oid = match search.what {
            What::Synchronization => {
                let cookie = match &self.since {
                    Some(Since::Cookie(cookie)) => Some(cookie.as_slice()),
                    _ => None,
                };
                SyncRequest { persist: false, cookie, reload_hint: false }.encode(&mut value);
                SYNC_REQUEST
            }
            What::Objects | What::Deleted | What::Newer => {
                Paged { size: directory.settings.page_size, cookie: &self.page }.encode(&mut value);
                PAGED_RESULTS
            }
        };
        let mut controls = vec![Control { oid, critical: true, value: Some(&value) }];
        if search.what == What::Deleted {
            controls.push(Control::critical(SHOW_DELETED));
        }
        let asked = self.session.submit(&Operation::SearchRequest(request), &controls);
        asked.map(drop).map_err(|error| self.failed(error))
    }

    /// Takes the next response.
    fn take(&mut self) -> Result<(), AgentError> {
        let message = match self.session.next_response() {
            Ok(message) => message,
            Err(error) => {
                let why = error.to_string();
                return Err(self.failed(why));
            }
        };
        let Some(search) = &self.open else { return Ok(()) };
        let mut hand = Hand {
            directory: &self.directory,
            entries: &mut self.entries,
            later: &mut self.later,
            page: &mut self.page,
            since: &mut self.since,
            is_delta: self.is_delta,
            is_complete: &mut self.is_complete,
            count: &mut self.count,
        };
        let next = hand.take(search, &message);
        match next {
            Err(Wrong::Ber(error)) => Err(self.failed(format!("what came is no LDAP: {}", error.0))),
            Err(Wrong::Refused(outcome)) => Err(self.failed(outcome)),
            Err(Wrong::Cookie(outcome)) => Err(AgentError::NotSupported(format!(
                "{}: {outcome}; the server does not go on from where the last import ended: run a full-import",
                self.reading()
            ))),
            Ok(Next::GoOn) => Ok(()),
            Ok(Next::Answered) => {
                self.session.count_progress();
                Ok(())
            }
            Ok(Next::Complete(cut)) => self.complete(cut),
            Ok(Next::Page) => {
                self.empty_pages = if self.count == self.page_begin { self.empty_pages + 1 } else { 0 };
                self.page_begin = self.count;
                if self.empty_pages > EMPTY_PAGES_MAX {
                    return Err(self.failed(ENDLESS));
                }
                self.ask()
            }
            Ok(Next::End) => {
                let ended = self.open.take();
                if let Some(search) = ended.filter(|search| search.what == What::Synchronization) {
                    self.searches.extend(self.newer(search));
                }
                Ok(())
            }
        }
    }

    /// The search for objects that a synchronization may have left out. OpenLDAP shows nothing that is newer than its cookie, and that
    /// is behind for a while when changes ended in another order than they began.
    fn newer(&self, search: Search) -> Option<Search> {
        let Some(Since::Cookie(cookie)) = &self.since else { return None };
        let least = oldest_csn(cookie)?;
        let filter = beyond(&search.filter, "entryCSN", least);
        Some(Search { filter, what: What::Newer, ..search })
    }

    /// Asks for the values of an entry that did not come with it.
    fn complete(&mut self, mut cut: Cut) -> Result<(), AgentError> {
        if self.other.is_none() {
            self.other = Some(connect(&self.directory.settings)?);
        }
        let mut bytes = 0;
        while let Some(More { name, attribute, from }) = cut.more.pop() {
            let Some(other) = &mut self.other else { return Ok(()) };
            let wanted = format!("{name};range={from}-*");
            let found = entry(other, &cut.dn, &[&wanted]);
            let found = found.map_err(|error| self.failed(format!("{wanted} of {}: {error}", cut.dn)))?;
            // It was deleted meanwhile.
            let Some(found) = found else { return Ok(()) };
            for (described, values) in found {
                let Some((part, next)) = range(&described) else { continue };
                if !part.eq_ignore_ascii_case(&name) {
                    continue;
                }
                bytes += values.iter().map(|value| value.len() + size_of_val(value)).sum::<usize>();
                if bytes > VALUES_BYTES_MAX {
                    let why = format!("{} has more than {} MiB of values", cut.dn, VALUES_BYTES_MAX >> 20);
                    return Err(self.failed(why));
                }
                cut.values.extend(values.into_iter().map(|value| (attribute, value)));
                match next {
                    Some(next) if next <= from => {
                        let why = format!("{wanted} of {} was answered with {described}", cut.dn);
                        return Err(self.failed(why));
                    }
                    Some(from) => cut.more.push(More { name: name.clone(), attribute, from }),
                    None => {}
                }
            }
        }
        match self.entries.completed(&self.directory, &cut) {
            Entry::Done(imported) => {
                let what = self.open.as_ref().map_or(What::Objects, |search| search.what);
                self.later.push_back(what.shown(imported));
            }
            Entry::Excluded(Some(anchor)) if self.is_delta => self.later.push_back(Imported::Gone(anchor)),
            Entry::Excluded(_) | Entry::Cut(_) => {}
        }
        Ok(())
    }
}

/// The oldest change number of a cookie of OpenLDAP, `rid=000,csn=NUMBER;NUMBER`; none when it is another server's.
fn oldest_csn(cookie: &[u8]) -> Option<&str> {
    let parts = std::str::from_utf8(cookie).ok()?.split(',');
    let numbers = parts.filter_map(|part| part.strip_prefix("csn=")).flat_map(|numbers| numbers.split(';'));
    numbers.filter(|number| !number.is_empty()).min()
}

/// The most objects that one message of a synchronization may name: servers name some hundreds, and each takes memory here.
const IDS_MAX: usize = 1_000_000;
/// The most bytes that the values of one object may have together.
const VALUES_BYTES_MAX: usize = 256 << 20;

const USN_CHANGED: &str = "uSNChanged";

impl Import for Walk {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        while batch.len() < most {
            if let Some(imported) = self.later.pop_front() {
                batch.push(imported);
            } else if self.open.is_some() {
                self.take()?;
            } else if let Some(search) = self.searches.pop_front() {
                self.open = Some(search);
                self.page.clear();
                self.ask()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn watermark(&self) -> Option<String> {
        self.since.as_ref().map(|since| since.write(&self.directory))
    }
}

/// What a response changes, apart from the session it came over.
struct Hand<'w> {
    directory: &'w Directory,
    entries: &'w mut Entries,
    later: &'w mut VecDeque<Imported>,
    page: &'w mut Vec<u8>,
    since: &'w mut Option<Since>,
    is_delta: bool,
    is_complete: &'w mut bool,
    count: &'w mut u64,
}

/// Why a response ends an import.
enum Wrong {
    Ber(BerError),
    Refused(String),
    /// The server does not take the cookie of the last time.
    Cookie(String),
}

impl From<BerError> for Wrong {
    fn from(error: BerError) -> Wrong {
        Wrong::Ber(error)
    }
}

impl Hand<'_> {
    fn take(&mut self, search: &Search, message: &Message<'_>) -> Result<Next, Wrong> {
        match message.operation {
            Operation::SearchResultEntry { dn, attributes } => {
                *self.count += 1;
                match search.what {
                    What::Objects | What::Newer => {}
                    What::Deleted => {
                        let found = self.entries.anchor_of(self.directory, attributes);
                        self.later.push_back(match found {
                            Ok(anchor) => Imported::Gone(anchor),
                            Err((kind, text)) => {
                                Imported::Error(DiscoveryError { place: dn.into(), kind, text })
                            }
                        });
                        return Ok(Next::GoOn);
                    }
                    What::Synchronization => {
                        let value = message.control(SYNC_STATE).flatten();
                        let told = SyncState::decode(value.ok_or(BerError("an entry without its state"))?)?;
                        self.take_cookie(told.cookie);
                        match told.state {
                            SyncEntryState::Add | SyncEntryState::Modify => {}
                            SyncEntryState::Present => {
                                self.tell(told.uuid, false);
                                return Ok(Next::GoOn);
                            }
                            SyncEntryState::Delete => {
                                self.tell(told.uuid, true);
                                return Ok(Next::GoOn);
                            }
                        }
                    }
                }
                match self.entries.read(self.directory, dn, attributes) {
                    Entry::Done(imported) => self.later.push_back(search.what.shown(imported)),
                    // It may have been moved there from where it was an object.
                    Entry::Excluded(Some(anchor)) if self.is_delta => {
                        self.later.push_back(Imported::Gone(anchor));
                    }
                    Entry::Excluded(_) => {}
                    Entry::Cut(cut) => return Ok(Next::Complete(cut)),
                }
            }
            Operation::IntermediateResponse { oid: Some(SYNC_INFO), value } => {
                match SyncInfo::decode(
                    value.ok_or(BerError("a message of a synchronization without content"))?,
                )? {
                    SyncInfo::NewCookie(cookie) => self.take_cookie(Some(cookie)),
                    SyncInfo::RefreshDelete { cookie, .. } => self.take_cookie(cookie),
                    SyncInfo::RefreshPresent { cookie, .. } => {
                        self.take_cookie(cookie);
                        *self.is_complete |= self.is_delta;
                    }
                    SyncInfo::IdSet { cookie, refresh_deletes, uuids } => {
                        self.take_cookie(cookie);
                        let before = self.later.len();
                        for uuid in uuids.iter() {
                            if self.later.len() - before == IDS_MAX {
                                return Err(
                                    BerError("a message of a synchronization with too many objects").into()
                                );
                            }
                            self.tell(uuid, refresh_deletes);
                        }
                        if self.later.len() > before {
                            return Ok(Next::Answered);
                        }
                    }
                }
            }
            Operation::SearchResultDone(result) => return self.end(search, &result, message),
            // References to other servers are not followed.
            _ => {}
        }
        Ok(Next::GoOn)
    }

    fn take_cookie(&mut self, cookie: Option<&[u8]>) {
        if let Some(cookie) = cookie {
            *self.since = Some(Since::Cookie(cookie.to_vec()));
        }
    }

    fn tell(&mut self, uuid: Uuid, is_gone: bool) {
        let anchor = anchor_of_uuid(&uuid);
        self.later.push_back(if is_gone { Imported::Gone(anchor) } else { Imported::Present(anchor) });
    }

    /// The end of a search or of a page.
    fn end(
        &mut self,
        search: &Search,
        result: &LdapResult<'_>,
        message: &Message<'_>,
    ) -> Result<Next, Wrong> {
        if result.code != ResultCode::Success {
            let request = SearchRequest::subtree(&search.base, &search.filter);
            let outcome = Outcome::new(&Operation::SearchRequest(request), result).to_string();
            // A server that has other data than the one that gave the cookie says so in one of these ways.
            let is_of_cookie = matches!(
                result.code,
                ResultCode::SyncRefreshRequired | ResultCode::ProtocolError | ResultCode::UnwillingToPerform
            );
            return Err(match search.what == What::Synchronization && self.is_delta && is_of_cookie {
                true => Wrong::Cookie(outcome),
                false => Wrong::Refused(outcome),
            });
        }
        if search.what == What::Synchronization {
            if let Some(Some(value)) = message.control(SYNC_DONE) {
                let done = SyncDone::decode(value)?;
                self.take_cookie(done.cookie);
                // Deletions were not told: what is neither new nor present is gone.
                *self.is_complete |= self.is_delta && !done.refresh_deletes;
            }
            return Ok(Next::End);
        }
        self.page.clear();
        if let Some(Some(value)) = message.control(PAGED_RESULTS) {
            self.page.extend_from_slice(Paged::decode(value)?.cookie);
        }
        Ok(if self.page.is_empty() { Next::End } else { Next::Page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_number_of_a_cookie_is_found() {
        let one = "20261122113603.109265Z#000000#001#000000";
        let other = "20261122113603.109265Z#000000#002#000000";
        let cookie = format!("rid=000,sid=001,csn={other};{one}");
        assert_eq!(oldest_csn(cookie.as_bytes()), Some(one));
        for none in [&b""[..], b"rid=000", b"rid=000,csn=", b"ldap:389#cn=x:dc=y#12", b"\xff"] {
            assert_eq!(oldest_csn(none), None);
        }
    }
}
