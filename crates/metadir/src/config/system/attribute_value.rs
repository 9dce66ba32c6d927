//! `type = "attribute-value"`.

use std::path::PathBuf;

use super::super::part::{Part, Reader};
use super::System;

/// A text file with a line `name: value` for each value and an empty line between objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeValue {
    /// The file.
    pub path: PathBuf,
    /// The attributes that are read; empty for all.
    pub attributes: Vec<String>,
}

pub(super) const KEYS: &[&str] = &["path", "attributes"];

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<System> {
    let path = reader.text(part, "path", true);
    let attributes = reader.texts(part, "attributes");
    Some(System::AttributeValue(AttributeValue { path: path?.into(), attributes }))
}
