//! LDIF, the LDAP Data Interchange Format (RFC 2849, with the increments of RFC 4525), read and written as a
//! stream.
//!
//! The reader accepts common deviations that lose no data: a missing `version: 1`, a byte order mark, bytes
//! above 127 that should have been base64, base64 without padding, a missing `-` at the end of a
//! modification. The writer conforms strictly.

use std::fmt;

use crate::text::{is_attribute_description, is_description_byte};
use crate::{Control, Modification};

mod operation;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Options, Reader};
pub use writer::{write_attribute, write_comment, write_dn, write_record, write_version};

/// One record. It borrows from the reader, so it must be copied or used before the next one is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of its first line, from 1.
    pub line: u64,
    /// The distinguished name of its entry, as written. Empty for the root DSE.
    pub dn: &'a str,
    /// Controls to send with a change.
    pub controls: Vec<Control<'a>>,
    /// The entry or the change.
    pub body: Body<'a>,
}

/// The content of a record: an entry or a change.
#[derive(Clone, PartialEq, Eq)]
pub enum Body<'a> {
    /// The entry itself: attribute descriptions and values, in the order of the file.
    Entry(Vec<(&'a str, &'a [u8])>),
    /// Adds the entry.
    Add(Vec<(&'a str, &'a [u8])>),
    /// Deletes the entry.
    Delete,
    /// Modifies the entry.
    Modify(Vec<Modification<'a>>),
    /// Renames or moves the entry (`modrdn` or `moddn`, which are synonyms).
    ModifyDn {
        /// Its new relative distinguished name.
        new_rdn: &'a str,
        /// Whether the values of the old relative name are removed from the entry.
        delete_old_rdn: bool,
        /// The new parent entry; `None` for the same parent.
        new_superior: Option<&'a str>,
    },
}

/// Omits the values, which may include a password.
impl fmt::Debug for Body<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Entry(attributes) => write!(out, "Entry({} values)", attributes.len()),
            Body::Add(attributes) => write!(out, "Add({} values)", attributes.len()),
            Body::Delete => out.write_str("Delete"),
            Body::Modify(changes) => out.debug_tuple("Modify").field(changes).finish(),
            Body::ModifyDn { new_rdn, delete_old_rdn, new_superior } => out
                .debug_struct("ModifyDn")
                .field("new_rdn", new_rdn)
                .field("delete_old_rdn", delete_old_rdn)
                .field("new_superior", new_superior)
                .finish(),
        }
    }
}

/// An error in a file. It never contains a value, which may be a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdifError {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
    /// What to do about it; may be empty.
    pub help: &'static str,
    /// Whether reading cannot continue. Otherwise the next call reads the record after the invalid one.
    pub last: bool,
}

impl fmt::Display for LdifError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.what)?;
        match self.help {
            "" => Ok(()),
            help => write!(out, ": {help}"),
        }
    }
}

impl std::error::Error for LdifError {}

/// Whether these bytes may be the name of an attribute in a file.
fn is_attribute(name: &[u8]) -> bool {
    // `=` occurs in the range options of large attributes: `member;range=0-1499`.
    let (word, options) = name.split_at(name.iter().position(|byte| *byte == b';').unwrap_or(name.len()));
    is_attribute_description(word) && options.iter().all(|byte| is_description_byte(byte) || *byte == b'=')
}
