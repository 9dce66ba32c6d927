//! Reads the server configuration export of Microsoft Identity Manager (MIM 2016) and its predecessors (FIM, ILM, MIIS), and
//! writes a configuration of the metadirectory.
//!
//! What is declared is converted: object types, attributes, joins, projections, filters, flows with their precedence, functions
//! of synchronization rules, run profiles. Rules extensions are programs; they are listed, each with its place. The export has
//! no passwords, and those in constants are not carried over.
//!
//! Source of the format: the exports that these products write, and the documentation of their rules (`MMS_ID`).

mod convert;
mod export;
mod filters;
mod flows;
mod function;
mod inbound;
mod outbound;
mod profiles;
mod systems;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;

/// A place in the export.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What an administrator has to do with something in the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It is not in the configuration.
    NotConverted,
    /// It is in the configuration, and has to be completed or compared.
    Review,
}

/// Something in the export that the configuration does not carry over as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it is.
    pub place: Place,
    /// Whether it is missing in the configuration.
    pub kind: Kind,
    /// What it is, and why, in a sentence.
    pub what: String,
    /// What to do; may be empty.
    pub help: String,
}

/// How many parts of one sort were converted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// In the configuration.
    pub converted: usize,
    /// In the export.
    pub all: usize,
}

impl Count {
    fn add(&mut self, is_converted: bool) {
        self.all += 1;
        self.converted += usize::from(is_converted);
    }
}

/// How much was converted. Functions of rules extensions count apart: they are programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Management agents whose system is supported.
    pub agents: Count,
    /// Declared flows into the metaverse.
    pub import_flows: Count,
    /// Declared flows out of the metaverse.
    pub export_flows: Count,
    /// Declared join rules.
    pub joins: Count,
    /// Declared projection rules.
    pub projections: Count,
    /// Declared filters.
    pub filters: Count,
    /// Run profiles.
    pub profiles: Count,
    /// Functions of rules extensions.
    pub scripts: Count,
}

/// A converted export.
#[derive(Clone, Debug)]
pub struct MimImport {
    /// The configuration, in TOML.
    pub configuration: String,
    /// What it does not carry over, in the order of the files.
    pub notes: Vec<Note>,
    /// How much it carries over.
    pub counts: Counts,
}

/// An export that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MimError {
    /// A file that is not XML.
    #[error("{file} is not valid XML: {why}")]
    Xml {
        /// The name of the file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// No file describes the metaverse.
    #[error("no file describes the metaverse: MV.XML is missing")]
    NoMetaverse,
    /// No file describes a management agent.
    #[error("no file describes a management agent: MA-{{...}}.XML is missing")]
    NoAgent,
}

/// Converts an export, given as the names and contents of its XML files.
///
/// # Errors
/// A file that is not XML, or an export without a metaverse or without agents.
pub fn import(files: &[(String, Vec<u8>)]) -> Result<MimImport, MimError> {
    let mut export = export::ServerExport::default();
    for (name, bytes) in files {
        export::read_file(&mut export, name, bytes)?;
    }
    if export.metaverse.place == Place::default() {
        return Err(MimError::NoMetaverse);
    }
    if export.agents.is_empty() {
        return Err(MimError::NoAgent);
    }
    Ok(convert::convert(&export))
}
