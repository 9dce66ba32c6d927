//! Reads a directory by consecutive searches. Each is a paged search or a content synchronization.

use std::collections::VecDeque;
use std::sync::Arc;

use ldap::ber::BerError;
use ldap::controls::{
    PAGED_RESULTS, PagedResults, SHOW_DELETED, SYNC_DONE, SYNC_INFO, SYNC_REQUEST, SYNC_STATE, SyncDone,
    SyncEntryState, SyncInfo, SyncRequest, SyncState, Uuid,
};
use ldap::filter::Assertion;
use ldap::message::{LdapResult, List, Operation, SearchRequest};
use ldap::session::{EMPTY_PAGES_MAX, ENDLESS, Outcome, Session};
use ldap::{Control, Filter, Message, ResultCode};

use super::entry::{Cut, Entries, Entry, PendingValues, anchor_of_uuid, range};
use super::renamed::{METADATA, Renamed};
use super::since::{Since, at_least, beyond, check_deleted, last_usn, newest};
use super::{Directory, connect, entry};
use crate::ldap::settings::Delta;
use metadir::agent::{AgentError, DiscoveryError, Import, Imported};

/// A search to be made.
struct Search {
    base: String,
    filter: Filter,
    what: SearchKind,
}

/// What a search finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchKind {
    /// Objects.
    Objects,
    /// Objects that were deleted.
    Deleted,
    /// The messages of a content synchronization.
    Synchronization,
    /// Objects that a content synchronization may have missed, or that refer to renamed ones.
    Newer,
    /// Containers, which may have been renamed.
    Containers,
    /// Objects below a renamed container.
    Below,
}

impl SearchKind {
    /// Converts an item to the kind that this search reports.
    fn shown(self, imported: Imported) -> Imported {
        match imported {
            Imported::Object(object) if matches!(self, SearchKind::Newer | SearchKind::Below) => {
                Imported::Newer(object)
            }
            other => other,
        }
    }
}

/// Reads objects.
pub(super) struct DirectoryReader {
    directory: Arc<Directory>,
    session: Session,
    /// The session for values that did not come with their entries.
    other: Option<Session>,
    entries: Entries,
    searches: VecDeque<Search>,
    /// The active search, and where its next page begins.
    open: Option<Search>,
    page: Vec<u8>,
    /// Items that were read but not returned yet.
    later: VecDeque<Imported>,
    /// Number of entries so far; and number before the current page.
    count: u64,
    page_begin: u64,
    /// Number of consecutive pages without an entry.
    empty_pages: u32,
    is_delta: bool,
    is_complete: bool,
    /// Referrals to other servers, which are not followed.
    referrals: u64,
    /// The watermark for the next delta import; for a synchronization, what is known so far.
    since: Option<Since>,
    /// Renamed objects, if the server does not show those that refer to them.
    renamed: Option<Renamed>,
}

/// What to do after a response.
enum Next {
    GoOn,
    /// Continues, after a response that ends only this kind of search.
    Answered,
    Complete(Cut),
    Page,
    End,
}

impl DirectoryReader {
    /// Begins to read all objects, or those that changed.
    pub(super) fn begin(
        directory: Arc<Directory>,
        entries: Entries,
        mut session: Session,
        since: Option<Since>,
    ) -> Result<DirectoryReader, AgentError> {
        let settings = &directory.settings;
        let of_bases = |filter: Filter, what: SearchKind| -> VecDeque<Search> {
            let of_base = |base: &ldap::Dn| Search { base: base.to_string(), filter: filter.clone(), what };
            settings.bases.iter().map(of_base).collect()
        };
        let all = settings.filter.clone();
        let (searches, next) = match (settings.delta, &since) {
            (None, _) => (of_bases(all, SearchKind::Objects), None),
            (Some(Delta::ContentSynchronization), _) => {
                (of_bases(all, SearchKind::Synchronization), since.clone())
            }
            (Some(Delta::ModifyTimestamp), Some(Since::Time(time))) => {
                let next = newest(&mut session, &directory, Some(time))?;
                (
                    of_bases(at_least(&all, "modifyTimestamp", time), SearchKind::Objects),
                    Some(Since::Time(next)),
                )
            }
            (Some(Delta::ModifyTimestamp), _) => {
                let next = newest(&mut session, &directory, None)?;
                (of_bases(all, SearchKind::Objects), Some(Since::Time(next)))
            }
            (Some(Delta::Usn), Some(Since::Usn { server, usn })) => {
                let (next, contexts) = last_usn(&mut session, &directory)?;
                if !matches!(&next, Since::Usn { server: now, .. } if now == server) {
                    let why = "another server responds than at the last import, or it was restored, and \
                    change numbers are specific to a server: name one server in `url`, and run a \
                    full-import";
                    return Err(AgentError::NotSupported(why.into()));
                }
                for context in &contexts {
                    check_deleted(&mut session, &directory, context)?;
                }
                let after = usn.saturating_add(1).to_string();
                let mut searches = of_bases(at_least(&all, USN_CHANGED, &after), SearchKind::Objects);
                let containers = at_least(&Renamed::containers(), USN_CHANGED, &after);
                searches.extend(of_bases(containers, SearchKind::Containers));
                let deleted =
                    Filter::Equal(Assertion { attribute: "isDeleted".into(), value: b"TRUE".into() });
                searches.extend(contexts.into_iter().map(|base| Search {
                    base,
                    filter: at_least(&deleted, USN_CHANGED, &after),
                    what: SearchKind::Deleted,
                }));
                (searches, Some(next))
            }
            (Some(Delta::Usn), _) => {
                let (next, _) = last_usn(&mut session, &directory)?;
                (of_bases(all, SearchKind::Objects), Some(next))
            }
        };
        Ok(DirectoryReader {
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
            referrals: 0,
            renamed: match since {
                Some(Since::Usn { usn, .. }) => Some(Renamed::since(usn)),
                _ => None,
            },
            since: next,
        })
    }

    /// The operation in error messages.
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

    /// Sends the request for the active search or its next page.
    fn send_request(&mut self) -> Result<(), AgentError> {
        let Some(search) = &self.open else { return Ok(()) };
        let directory = &self.directory;
        let mut names: Vec<&str> = match search.what {
            SearchKind::Deleted => directory.anchor.iter().map(|(name, _)| name.as_str()).collect(),
            SearchKind::Containers => Vec::new(),
            SearchKind::Objects | SearchKind::Newer | SearchKind::Below | SearchKind::Synchronization => {
                directory.wanted.iter().map(String::as_str).collect()
            }
        };
        let is_checked = matches!(search.what, SearchKind::Objects | SearchKind::Containers);
        if is_checked && self.renamed.is_some() {
            names.push(METADATA);
        }
        let request = SearchRequest {
            attributes: List::from(&names),
            ..SearchRequest::subtree(&search.base, &search.filter)
        };
        let mut value = Vec::new();
        let oid = match search.what {
            SearchKind::Synchronization => {
                let cookie = match &self.since {
                    Some(Since::Cookie(cookie)) => Some(cookie.as_slice()),
                    _ => None,
                };
                SyncRequest { persist: false, cookie, reload_hint: false }.encode(&mut value);
                SYNC_REQUEST
            }
            _ => {
                PagedResults { size: directory.settings.page_size, cookie: &self.page }.encode(&mut value);
                PAGED_RESULTS
            }
        };
        let mut controls = vec![Control { oid, critical: true, value: Some(&value) }];
        if search.what == SearchKind::Deleted {
            controls.push(Control::critical(SHOW_DELETED));
        }
        let asked = self.session.submit(&Operation::SearchRequest(request), &controls);
        asked.map(drop).map_err(|error| self.failed(error))
    }

    /// Processes the next response.
    fn take(&mut self) -> Result<(), AgentError> {
        let message = match self.session.next_response() {
            Ok(message) => message,
            Err(error) => {
                let why = error.to_string();
                return Err(self.failed(why));
            }
        };
        let Some(search) = &self.open else { return Ok(()) };
        let mut hand = ResponseContext {
            directory: &self.directory,
            entries: &mut self.entries,
            later: &mut self.later,
            page: &mut self.page,
            since: &mut self.since,
            is_delta: self.is_delta,
            is_complete: &mut self.is_complete,
            referrals: &mut self.referrals,
            count: &mut self.count,
            renamed: &mut self.renamed,
        };
        let next = hand.take(search, &message);
        match next {
            Err(ImportError::Ber(error)) => {
                Err(self.failed(format!("the response is not LDAP: {}", error.0)))
            }
            Err(ImportError::Refused(outcome)) => Err(self.failed(outcome)),
            Err(ImportError::Cookie(outcome)) => Err(AgentError::NotSupported(format!(
                "{}: {outcome}; the server does not continue from the end of the last import: run a full-import",
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
                self.send_request()
            }
            Ok(Next::End) => {
                match self.open.take() {
                    Some(search) if search.what == SearchKind::Synchronization => {
                        self.searches.extend(self.newer(search));
                    }
                    Some(_) => self.follow_renames(),
                    None => {}
                }
                Ok(())
            }
        }
    }

    /// The search for objects that a synchronization may have missed. OpenLDAP does not report changes that
    /// are newer than its cookie. The cookie lags behind for a while if changes end in another order than
    /// they began.
    fn newer(&self, search: Search) -> Option<Search> {
        let Some(Since::Cookie(cookie)) = &self.since else { return None };
        let least = oldest_csn(cookie)?;
        let filter = beyond(&search.filter, "entryCSN", least);
        Some(Search { filter, what: SearchKind::Newer, ..search })
    }

    /// Adds searches for objects below renamed containers, and for those that refer to renamed objects.
    fn follow_renames(&mut self) {
        let Some(renamed) = &mut self.renamed else { return };
        let settings = &self.directory.settings;
        for base in renamed.take_containers() {
            self.searches.push_back(Search {
                base,
                filter: settings.filter.clone(),
                what: SearchKind::Below,
            });
        }
        for filter in renamed.referring(&settings.filter, &self.directory.references) {
            let of_base = |base: &ldap::Dn| Search {
                base: base.to_string(),
                filter: filter.clone(),
                what: SearchKind::Newer,
            };
            self.searches.extend(settings.bases.iter().map(of_base));
        }
    }

    /// Requests the values of an entry that did not come with it.
    fn complete(&mut self, mut cut: Cut) -> Result<(), AgentError> {
        if self.other.is_none() {
            self.other = Some(connect(&self.directory.settings)?);
        }
        let mut bytes = 0;
        while let Some(PendingValues { name, attribute, from }) = cut.more.pop() {
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
                    Some(from) => cut.more.push(PendingValues { name: name.clone(), attribute, from }),
                    None => {}
                }
            }
        }
        match self.entries.completed(&self.directory, &cut) {
            Entry::Done(imported) => {
                let what = self.open.as_ref().map_or(SearchKind::Objects, |search| search.what);
                self.later.push_back(what.shown(imported));
            }
            Entry::Excluded(Some(anchor)) if self.is_delta => self.later.push_back(Imported::Gone(anchor)),
            Entry::Excluded(_) | Entry::Cut(_) => {}
        }
        Ok(())
    }
}

/// The oldest change number in a cookie of OpenLDAP, `rid=000,csn=NUMBER;NUMBER`; none for other servers.
fn oldest_csn(cookie: &[u8]) -> Option<&str> {
    let parts = std::str::from_utf8(cookie).ok()?.split(',');
    let numbers = parts.filter_map(|part| part.strip_prefix("csn=")).flat_map(|numbers| numbers.split(';'));
    numbers.filter(|number| !number.is_empty()).min()
}

/// Limit of the objects in one message of a synchronization: servers name some hundreds, and each needs
/// memory here.
const IDS_MAX: usize = 1_000_000;
/// Limit of the total bytes of the values of one object.
const VALUES_BYTES_MAX: usize = 256 << 20;

const USN_CHANGED: &str = "uSNChanged";

impl Import for DirectoryReader {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        while batch.len() < most {
            if let Some(imported) = self.later.pop_front() {
                batch.push(imported);
            } else if self.open.is_some() {
                self.take()?;
            } else if let Some(search) = self.searches.pop_front() {
                self.open = Some(search);
                self.page.clear();
                self.send_request()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn referrals(&self) -> u64 {
        self.referrals
    }

    fn watermark(&self) -> Option<String> {
        self.since.as_ref().map(|since| since.write(&self.directory))
    }
}

/// The state that a response changes, without the session that it came over.
struct ResponseContext<'w> {
    directory: &'w Directory,
    entries: &'w mut Entries,
    later: &'w mut VecDeque<Imported>,
    page: &'w mut Vec<u8>,
    since: &'w mut Option<Since>,
    is_delta: bool,
    is_complete: &'w mut bool,
    referrals: &'w mut u64,
    count: &'w mut u64,
    renamed: &'w mut Option<Renamed>,
}

/// Why a response ends an import.
enum ImportError {
    Ber(BerError),
    Refused(String),
    /// The server rejects the cookie of the last import.
    Cookie(String),
}

impl From<BerError> for ImportError {
    fn from(error: BerError) -> ImportError {
        ImportError::Ber(error)
    }
}

impl ResponseContext<'_> {
    fn take(&mut self, search: &Search, message: &Message<'_>) -> Result<Next, ImportError> {
        match message.operation {
            Operation::SearchResultEntry { dn, attributes } => {
                *self.count += 1;
                match search.what {
                    SearchKind::Objects => {
                        self.renamed.iter_mut().for_each(|renamed| renamed.add(dn, attributes));
                    }
                    SearchKind::Below => self.renamed.iter_mut().for_each(|renamed| renamed.add_below(dn)),
                    SearchKind::Containers => {
                        self.renamed.iter_mut().for_each(|renamed| renamed.add_container(dn, attributes));
                        return Ok(Next::GoOn);
                    }
                    SearchKind::Newer => {}
                    SearchKind::Deleted => {
                        let found = self.entries.anchor_of(self.directory, attributes);
                        self.later.push_back(match found {
                            Ok(anchor) => Imported::Gone(anchor),
                            Err((kind, text)) => {
                                Imported::Error(DiscoveryError { place: dn.into(), kind, text })
                            }
                        });
                        return Ok(Next::GoOn);
                    }
                    SearchKind::Synchronization => {
                        let value = message.control(SYNC_STATE).flatten();
                        let reported =
                            SyncState::decode(value.ok_or(BerError("an entry without its state"))?)?;
                        self.take_cookie(reported.cookie);
                        match reported.state {
                            SyncEntryState::Add | SyncEntryState::Modify => {}
                            SyncEntryState::Present => {
                                self.report(reported.uuid, false);
                                return Ok(Next::GoOn);
                            }
                            SyncEntryState::Delete => {
                                self.report(reported.uuid, true);
                                return Ok(Next::GoOn);
                            }
                        }
                    }
                }
                match self.entries.read(self.directory, dn, attributes) {
                    Entry::Done(imported) => self.later.push_back(search.what.shown(imported)),
                    // It may have been moved there from a place where it was an object.
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
                            self.report(uuid, refresh_deletes);
                        }
                        if self.later.len() > before {
                            return Ok(Next::Answered);
                        }
                    }
                }
            }
            Operation::SearchResultDone(result) => return self.end(search, &result, message),
            // Not followed, but counted: objects behind it are not imported. Other searches find the same ones, or those to
            // the server's other naming contexts.
            Operation::SearchResultReference(_)
                if matches!(search.what, SearchKind::Objects | SearchKind::Synchronization) =>
            {
                *self.referrals += 1;
            }
            _ => {}
        }
        Ok(Next::GoOn)
    }

    fn take_cookie(&mut self, cookie: Option<&[u8]>) {
        if let Some(cookie) = cookie {
            *self.since = Some(Since::Cookie(cookie.to_vec()));
        }
    }

    fn report(&mut self, uuid: Uuid, is_gone: bool) {
        let anchor = anchor_of_uuid(&uuid);
        self.later.push_back(if is_gone { Imported::Gone(anchor) } else { Imported::Present(anchor) });
    }

    /// Handles the end of a search or of a page.
    fn end(
        &mut self,
        search: &Search,
        result: &LdapResult<'_>,
        message: &Message<'_>,
    ) -> Result<Next, ImportError> {
        if result.code != ResultCode::Success {
            let request = SearchRequest::subtree(&search.base, &search.filter);
            let outcome = Outcome::new(&Operation::SearchRequest(request), result).to_string();
            // A server with other data than the one that issued the cookie answers in one of these ways.
            let is_of_cookie = matches!(
                result.code,
                ResultCode::SyncRefreshRequired | ResultCode::ProtocolError | ResultCode::UnwillingToPerform
            );
            return Err(match search.what == SearchKind::Synchronization && self.is_delta && is_of_cookie {
                true => ImportError::Cookie(outcome),
                false => ImportError::Refused(outcome),
            });
        }
        if search.what == SearchKind::Synchronization {
            if let Some(Some(value)) = message.control(SYNC_DONE) {
                let done = SyncDone::decode(value)?;
                self.take_cookie(done.cookie);
                // Deletions were not reported: every object that is neither new nor present was deleted.
                *self.is_complete |= self.is_delta && !done.refresh_deletes;
            }
            return Ok(Next::End);
        }
        self.page.clear();
        if let Some(Some(value)) = message.control(PAGED_RESULTS) {
            self.page.extend_from_slice(PagedResults::decode(value)?.cookie);
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
