//! The user in the directory: who it is, whether the password is right, and its groups.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use ldap::message::{List, SearchRequest};
use ldap::session::{Options, SearchItem, Server, SessionError};
use ldap::{Filter, ResultCode, Session};

/// Where the directory is, and who searches it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) server: Server,
    pub(crate) base: String,
    pub(crate) bind_dn: String,
    pub(crate) bind_password: String,
}

/// The two sessions of one worker: a bind as a user would change the identity of the searches.
pub(crate) struct Directory {
    place: Place,
    searching: Option<Session>,
    checking: Option<Session>,
}

/// Why a user gets no applications.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The user or the password is wrong.
    Credentials,
    /// The directory does not answer, or not as expected.
    Directory(SessionError),
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Refusal::Directory(error)
    }
}

impl Directory {
    pub(crate) fn new(place: Place) -> Directory {
        Directory { place, searching: None, checking: None }
    }

    /// The distinguished name of a user with this password, and the names of its groups and of theirs.
    pub(crate) fn user(&mut self, user: &str, password: &str) -> Result<(String, BTreeSet<String>), Refusal> {
        let found = self.user_once(user, password);
        if let Err(Refusal::Directory(_)) = &found {
            // The next request connects again.
            (self.searching, self.checking) = (None, None);
        }
        found
    }

    fn user_once(&mut self, user: &str, password: &str) -> Result<(String, BTreeSet<String>), Refusal> {
        let names = self.names(&Filter::equal("uid", user))?;
        let dn = names.into_iter().next().ok_or(Refusal::Credentials)?;
        let checking = match &mut self.checking {
            Some(session) => session,
            none => none.insert(Session::connect(&self.place.server, &Options::default())?),
        };
        match checking.bind(&dn, password.as_bytes()) {
            Ok(()) => {}
            Err(SessionError::EmptyPassword) => return Err(Refusal::Credentials),
            Err(error) if error.code() == Some(ResultCode::InvalidCredentials) => {
                return Err(Refusal::Credentials);
            }
            Err(error) => return Err(error.into()),
        }
        let groups = self.groups(&dn)?;
        Ok((dn, groups))
    }

    /// The groups of an entry, the groups of these groups, and so on: one search for each level.
    fn groups(&mut self, dn: &str) -> Result<BTreeSet<String>, Refusal> {
        let mut all = BTreeSet::new();
        let mut level = vec![dn.to_string()];
        while !level.is_empty() {
            let members = level.iter().map(|dn| Filter::equal("member", dn.as_str()));
            let found = self.names(&Filter::Or(members.collect()))?;
            level = found.into_iter().filter(|group| all.insert(group.clone())).collect();
        }
        Ok(all)
    }

    /// The names of the entries that match.
    fn names(&mut self, filter: &Filter) -> Result<Vec<String>, Refusal> {
        let Place { server, base, bind_dn, bind_password } = &self.place;
        let session = match &mut self.searching {
            Some(session) => session,
            none => {
                let mut session = Session::connect(server, &Options::default())?;
                session.bind(bind_dn, bind_password.as_bytes())?;
                none.insert(session)
            }
        };
        let no_attributes = ["1.1"];
        let request =
            SearchRequest { attributes: List::from(&no_attributes), ..SearchRequest::subtree(base, filter) };
        let mut search = session.search(request, None)?;
        let mut names = Vec::new();
        while let Some(found) = search.next()? {
            if let SearchItem::Entry { dn, .. } = found {
                names.push(dn.to_string());
            }
        }
        Ok(names)
    }
}
