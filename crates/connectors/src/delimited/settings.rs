//! `type = "delimited"`.

use std::path::PathBuf;

use metadir::agent::System;
use metadir::config::{Part, Reader, span_of};

/// A text file with a line for each object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delimited {
    /// The file.
    pub(crate) path: PathBuf,
    /// The character between fields.
    pub(crate) delimiter: u8,
    /// The separator of several values in a field.
    pub(crate) value_separator: Option<String>,
    /// The file of changes.
    pub(crate) delta: Option<DelimitedDelta>,
}

/// A text file with a line for each changed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DelimitedDelta {
    /// The file.
    pub(crate) path: PathBuf,
    /// The column with the kind of change.
    pub(crate) change_column: String,
}

pub(super) const KEYS: &[&str] = &["path", "delimiter", "value_separator", "delta", "change_column"];

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<Box<dyn System>> {
    let path = reader.text(part, "path", true);
    let delimiter = match reader.text(part, "delimiter", false) {
        None => Some(b','),
        Some(text) if text.len() == 1 => text.bytes().next(),
        Some(text) => {
            let what = format!("a delimiter is one character of ASCII, not {text:?}");
            reader.wrong(span_of(part, "delimiter"), what, "write \",\", \";\" or \"\\t\"");
            None
        }
    };
    let value_separator = reader.text(part, "value_separator", false);
    let delta = reader.text(part, "delta", false);
    let change_column = reader.text(part, "change_column", false);
    let delta = match (delta, change_column) {
        (Some(path), change_column) => Some(DelimitedDelta {
            path: path.into(),
            change_column: change_column.unwrap_or_else(|| "change".into()),
        }),
        (None, Some(_)) => {
            let help = "name the file of changes with `delta`, or remove it";
            reader.wrong(span_of(part, "change_column"), "`change_column` without `delta`", help);
            None
        }
        (None, None) => None,
    };
    Some(Box::new(Delimited { path: path?.into(), delimiter: delimiter?, value_separator, delta }))
}
