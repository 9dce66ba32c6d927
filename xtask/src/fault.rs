//! What a check found wrong, where, and what to do about it.

use std::fmt;

/// One thing that must not stay as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Where: a file with its line, a package, a folder.
    pub(crate) place: String,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) help: String,
}

impl Fault {
    /// A fault at a place.
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>, help: impl Into<String>) -> Self {
        Fault { place: place.into(), what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}: {}\n  {}", self.place, self.what, self.help)
    }
}
