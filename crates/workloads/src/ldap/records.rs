//! The entries of an LDIF file, one after the other, as add requests.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use engine::workload::LoadError;
use ldap::Dn;
use ldap::ldif::{Body, LdifError, Options, Reader};
use ldap::template::Template;

use super::requests::{Begin, Request};

/// The entries of a file, in its order. An entry is not sent before the answer to that above it.
pub(super) struct Records {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// The entry that is sent next.
    next: Option<Next>,
    /// The request of the operation that has begun last.
    begun: Option<Request>,
    /// The tickets of entries in flight and the keys of their names.
    in_flight: Vec<(u32, Vec<u8>)>,
}

/// An entry as a request, and the keys of its name and of the name above it.
struct Next {
    request: Request,
    key: Vec<u8>,
    above: Option<Vec<u8>>,
}

impl Records {
    pub(super) fn open(path: &Path) -> Result<Records, LoadError> {
        let reader = Reader::open(path, Options::default())
            .map_err(|error| LoadError::new(format!("{}: {error}", path.display()), ""))?;
        Ok(Records { path: path.to_path_buf(), reader, next: None, begun: None, in_flight: Vec::new() })
    }

    /// Begins an operation with the next entry.
    pub(super) fn begin(&mut self, ticket: u32) -> Begin {
        let next = match self.next.take().map_or_else(|| self.read(), |next| Ok(Some(next))) {
            Err(error) => return Begin::Faulty(error),
            Ok(None) => return Begin::Ended,
            Ok(Some(next)) => next,
        };
        let is_waited_for = |above: &Vec<u8>| self.in_flight.iter().any(|(_, key)| key == above);
        if next.above.as_ref().is_some_and(is_waited_for) {
            self.next = Some(next);
            return Begin::Waits;
        }
        self.begun = Some(next.request);
        self.in_flight.push((ticket, next.key));
        Begin::Ready
    }

    /// The request of the operation that has begun last.
    pub(super) fn request(&self) -> Option<&Request> {
        self.begun.as_ref()
    }

    pub(super) fn end(&mut self, ticket: u32) {
        self.in_flight.retain(|(of, _)| *of != ticket);
    }

    /// Reads the next entry.
    fn read(&mut self) -> Result<Option<Next>, LoadError> {
        let failed = |line: u64, what: &str, help: &str| {
            LoadError::new(format!("{}:{line}: {what}", self.path.display()), help)
        };
        let of_ldif = |error: LdifError| failed(error.line, &error.what, error.help);
        let Some(record) = self.reader.next().map_err(of_ldif)? else { return Ok(None) };
        if !matches!(record.body, Body::Entry(_) | Body::Add(_)) {
            return Err(failed(record.line, "this is a change, not an entry", "import a file of entries"));
        }
        let dn = Dn::parse(record.dn).map_err(|error| {
            let what = format!("`{}` is not a distinguished name: {}", record.dn, error.what);
            failed(record.line, &what, error.help)
        })?;
        let made = record.with_operation(|operation, controls| {
            let response = operation.response_tag().unwrap_or(0);
            Template::new(operation, controls).map(|template| Request { template, response })
        });
        let request = made.map_err(|error| failed(record.line, &error.to_string(), "write fewer values"))?;
        Ok(Some(Next { request, key: dn.key(), above: dn.parent().map(|above| above.key()) }))
    }
}
