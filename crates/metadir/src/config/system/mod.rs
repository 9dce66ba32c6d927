//! Connected systems, as `[agents.NAME]` says how each is reached. A new one is a file here, a variant, and a line in
//! [`SYSTEMS`].

mod delimited;
mod given;
mod scim;

use std::path::Path;

pub use delimited::Delimited;
pub use given::{Given, Open};
pub use scim::{Resource, Scim, Token, Update};

use super::part::{Part, Reader};
use crate::naming::Naming;

/// A connected system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// A text file with a line for each object.
    Delimited(Delimited),
    /// A service that speaks SCIM 2.0.
    Scim(Scim),
    /// One that the program brings along which opens the metadirectory.
    Given(Given),
}

impl System {
    /// Takes relative paths as beginning in a folder.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        match self {
            System::Delimited(system) => system.path = folder.join(&system.path),
            System::Scim(system) => system.relative_to(folder),
            System::Given(_) => {}
        }
    }

    /// How its objects are named, and by what they refer to each other.
    pub fn naming(&self) -> Naming {
        match self {
            System::Delimited(_) => Naming::Anchor,
            System::Scim(system) => system.resource.naming(),
            System::Given(system) => system.naming,
        }
    }
}

/// How the settings of a system are read.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Keys beside those that every agent has.
    pub(super) keys: &'static [&'static str],
    /// Reads them; none when one is missing or wrong, which the reader then knows.
    pub(super) read: fn(&mut Reader, &Part<'_>) -> Option<System>,
}

/// All systems by the name of their `type`.
pub(super) const SYSTEMS: &[(&str, Kind)] = &[
    ("delimited", Kind { keys: delimited::KEYS, read: delimited::read }),
    ("scim", Kind { keys: scim::KEYS, read: scim::read }),
];

/// The anchor of systems that have one of their own, where none is named.
pub(super) const ANCHORS: &[(&str, &str)] = &[("scim", "id")];
