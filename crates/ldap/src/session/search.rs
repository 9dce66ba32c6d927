//! Iterates over the results of a search.

use super::{Limit, Outcome, Session, SessionError};
use crate::controls::{PAGED_RESULTS, PagedResults};
use crate::message::{Attribute, List, Operation, SearchRequest};
use crate::{Control, ResultCode};

/// Limit of consecutive pages without an entry: a server may end a page at its own time limit.
pub const EMPTY_PAGES_MAX: u32 = 1000;

/// The error after more empty pages.
pub const ENDLESS: &str = "page after page has no entry and says that more will come";

/// The next search result. It borrows from the session, so it must be used or copied before the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchItem<'a> {
    /// An entry.
    Entry {
        /// Its distinguished name.
        dn: &'a str,
        /// The requested attributes that exist and are readable.
        attributes: List<'a, Attribute<'a>>,
        /// Its controls.
        controls: List<'a, Control<'a>>,
    },
    /// URLs of other servers for the search.
    Reference(List<'a, &'a str>),
}

/// A search in progress. If it is dropped before its end, the server is asked to abandon it.
#[derive(Debug)]
pub struct Search<'s, 'a> {
    session: &'s mut Session,
    request: SearchRequest<'a>,
    page_size: Option<u32>,
    /// The identifier of the request in flight; 0 after the end of the search.
    id: u32,
    cookie: Vec<u8>,
    /// The value of the paged results control of a request.
    value: Vec<u8>,
    /// Number of consecutive pages without an entry.
    empty_pages: u32,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn begin(
        session: &'s mut Session,
        request: SearchRequest<'a>,
        page_size: Option<u32>,
    ) -> Result<Self, SessionError> {
        if session.in_flight() > 0 {
            return Err(SessionError::Pipelined);
        }
        let mut search = Search {
            session,
            request,
            page_size,
            id: 0,
            cookie: Vec::new(),
            value: Vec::new(),
            empty_pages: 0,
        };
        search.send_request()?;
        Ok(search)
    }

    /// Requests all entries or the next page.
    fn send_request(&mut self) -> Result<(), SessionError> {
        let operation = Operation::SearchRequest(self.request);
        self.id = match self.page_size {
            Some(size) => {
                self.value.clear();
                PagedResults { size, cookie: &self.cookie }.encode(&mut self.value);
                let control = Control { oid: PAGED_RESULTS, critical: true, value: Some(&self.value) };
                self.session.submit(&operation, &[control])?
            }
            None => self.session.submit(&operation, &[])?,
        };
        Ok(())
    }

    /// The next result; `None` at the end. A search result code other than success is an error, even after
    /// entries were returned.
    #[expect(
        clippy::should_implement_trait,
        reason = "what was found borrows from the session, which an Iterator's item cannot"
    )]
    pub fn next(&mut self) -> Result<Option<SearchItem<'_>>, SessionError> {
        loop {
            if self.id == 0 {
                return Ok(None);
            }
            let Some(length) = self.session.take(Limit::Progress)? else {
                return Err(self.session.late("an entry or the end of a search"));
            };
            if self.session.in_flight() > 0 {
                let begin = self.session.seen;
                let bytes = &self.session.input[begin..begin + length];
                // Inspected before it is decoded, because the decoded message is borrowed until the caller is
                // done with it.
                let summary = crate::message::scan(bytes, length);
                if summary.is_ok_and(|summary| summary.is_some_and(|summary| summary.is_found)) {
                    self.empty_pages = 0;
                    break self.found(length);
                }
                self.session.seen += length;
                continue;
            }
            self.id = 0;
            self.end(length)?;
        }
    }

    fn found(&mut self, length: usize) -> Result<Option<SearchItem<'_>>, SessionError> {
        let message = self.session.taken(length)?;
        Ok(match message.operation {
            Operation::SearchResultEntry { dn, attributes } => {
                Some(SearchItem::Entry { dn, attributes, controls: message.controls })
            }
            Operation::SearchResultReference(urls) => Some(SearchItem::Reference(urls)),
            _ => None,
        })
    }

    /// Handles the end of the search or of a page: requests the next page if there is one.
    fn end(&mut self, length: usize) -> Result<(), SessionError> {
        let server = self.session.server.to_string();
        let message = self.session.taken(length)?;
        let broken = |error| SessionError::Protocol { server, error };
        let Operation::SearchResultDone(result) = message.operation else {
            return Err(broken(crate::ber::BerError("a response of another kind than the request")));
        };
        if result.code != ResultCode::Success {
            let outcome = Outcome::new(&Operation::SearchRequest(self.request), &result);
            return Err(SessionError::Failed(Box::new(outcome)));
        }
        self.cookie.clear();
        if self.page_size.is_some()
            && let Some(Some(value)) = message.control(PAGED_RESULTS)
        {
            self.cookie.extend_from_slice(PagedResults::decode(value).map_err(broken)?.cookie);
        }
        if self.cookie.is_empty() {
            return Ok(());
        }
        self.empty_pages += 1;
        if self.empty_pages > EMPTY_PAGES_MAX {
            let server = self.session.server.to_string();
            return Err(SessionError::Protocol { server, error: crate::ber::BerError(ENDLESS) });
        }
        self.send_request()
    }
}

impl Drop for Search<'_, '_> {
    fn drop(&mut self) {
        // If the session fails now, its next use reports it.
        let _ = self.session.abandon(self.id);
    }
}
