//! `type = "attribute-value"`.

use std::path::PathBuf;

use metadir::agent::System;
use metadir::config::{Part, Reader};

/// A text file with a line `name: value` for each value and an empty line between objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttributeValue {
    /// The file.
    pub(crate) path: PathBuf,
    /// The attributes that are read; empty for all.
    pub(crate) attributes: Vec<String>,
}

pub(super) const KEYS: &[&str] = &["path", "attributes"];

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<Box<dyn System>> {
    let path = reader.text(part, "path", true);
    let attributes = reader.texts(part, "attributes");
    Some(Box::new(AttributeValue { path: path?.into(), attributes }))
}
