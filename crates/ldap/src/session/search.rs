//! Walking what a search found.

use super::{Limit, Outcome, Session, SessionError};
use crate::controls::{PAGED_RESULTS, Paged};
use crate::message::{Attribute, List, Operation, SearchRequest};
use crate::{Control, ResultCode};

/// The most pages without an entry that may follow each other: a server may end a page when its own time is over.
pub const EMPTY_PAGES_MAX: u32 = 1000;

/// That there were more.
pub const ENDLESS: &str = "page after page has no entry and says that more will come";

/// What a search found next. It borrows from the session, so it is used or copied before the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found<'a> {
    /// An entry.
    Entry {
        /// Its distinguished name.
        dn: &'a str,
        /// The attributes asked for that it has and that may be seen.
        attributes: List<'a, Attribute<'a>>,
        /// Controls that came with it.
        controls: List<'a, Control<'a>>,
    },
    /// Other servers to ask, as URLs.
    Reference(List<'a, &'a str>),
}

/// A search that is going on. When it is dropped before its end, the server is told to forget it.
#[derive(Debug)]
pub struct Search<'s, 'a> {
    session: &'s mut Session,
    request: SearchRequest<'a>,
    page_size: Option<u32>,
    /// The request in flight; 0 when the search ended.
    id: u32,
    cookie: Vec<u8>,
    /// The value of the paged results control of a request.
    value: Vec<u8>,
    /// Pages without an entry, one after the other.
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
        search.ask()?;
        Ok(search)
    }

    /// Asks for everything or for the next page.
    fn ask(&mut self) -> Result<(), SessionError> {
        let operation = Operation::SearchRequest(self.request);
        self.id = match self.page_size {
            Some(size) => {
                self.value.clear();
                Paged { size, cookie: &self.cookie }.encode(&mut self.value);
                let control = Control { oid: PAGED_RESULTS, critical: true, value: Some(&self.value) };
                self.session.submit(&operation, &[control])?
            }
            None => self.session.submit(&operation, &[])?,
        };
        Ok(())
    }

    /// What was found next; `None` at the end. A result that is no success is an error, also behind entries that were found.
    #[expect(
        clippy::should_implement_trait,
        reason = "what was found borrows from the session, which an Iterator's item cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Found<'_>>, SessionError> {
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
                // Looked at before it is taken, as what is taken is borrowed until the caller is done with it.
                let glance = crate::message::glance(bytes);
                if glance.is_ok_and(|glance| glance.is_found) {
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

    fn found(&mut self, length: usize) -> Result<Option<Found<'_>>, SessionError> {
        let message = self.session.taken(length)?;
        Ok(match message.operation {
            Operation::SearchResultEntry { dn, attributes } => {
                Some(Found::Entry { dn, attributes, controls: message.controls })
            }
            Operation::SearchResultReference(urls) => Some(Found::Reference(urls)),
            _ => None,
        })
    }

    /// The end of the search or of a page: asks for the next one where there is.
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
            self.cookie.extend_from_slice(Paged::decode(value).map_err(broken)?.cookie);
        }
        if self.cookie.is_empty() {
            return Ok(());
        }
        self.empty_pages += 1;
        if self.empty_pages > EMPTY_PAGES_MAX {
            let server = self.session.server.to_string();
            return Err(SessionError::Protocol { server, error: crate::ber::BerError(ENDLESS) });
        }
        self.ask()
    }
}

impl Drop for Search<'_, '_> {
    fn drop(&mut self) {
        // Nothing can be done about a session that fails now; the next use of it tells.
        let _ = self.session.abandon(self.id);
    }
}
