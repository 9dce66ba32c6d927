//! `type = "fixed-width"`.

use std::path::PathBuf;

use crate::anchor;
use metadir::agent::System;
use metadir::config::{Part, Reader, span_of};

/// A text file with a line for each object and attributes at fixed positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedWidth {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its columns in the order of their positions.
    pub(crate) columns: Vec<FixedColumn>,
    /// The separator of several values in a field.
    pub(crate) value_separator: Option<String>,
    /// Whether lines may be shorter than the columns.
    pub(crate) short_lines: bool,
}

/// A column of a fixed width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedColumn {
    /// The name of the attribute.
    pub(crate) name: String,
    /// The number of characters before it.
    pub(crate) before: usize,
    /// Its width in characters.
    pub(crate) width: usize,
}

impl FixedColumn {
    /// The position of its end, in characters.
    pub(crate) fn end(&self) -> usize {
        self.before + self.width
    }
}

pub(super) const KEYS: &[&str] = &["path", "columns", "value_separator", "short_lines"];
/// The length limit of a line, characters.
const CHARACTERS_MAX: u64 = 1 << 20;

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<Box<dyn System>> {
    let path = reader.text(part, "path", true);
    let value_separator = reader.text(part, "value_separator", false);
    let short_lines = reader.truth(part, "short_lines").unwrap_or(false);
    let mut columns: Vec<FixedColumn> = Vec::new();
    let listed = reader.list(part, "columns");
    let mut is_whole = !listed.is_empty();
    if listed.is_empty() && !matches!(part.get("columns"), Some(value) if !value.get_ref().is_array()) {
        let help =
            "write columns = [{ name = \"id\", start = 1, width = 8 }]; the first character of a line is 1";
        reader.wrong(span_of(part, "columns"), format!("{} has no `columns`", part.what), help);
    }
    for column in &listed {
        reader.keys(column, &["name", "start", "width"]);
        for key in ["start", "width"] {
            if column.lacks(key) {
                let help = "write { name = \"id\", start = 1, width = 8 }";
                reader.wrong(column.span.clone(), format!("a column has no `{key}`"), help);
            }
        }
        let name = reader.text(column, "name", true);
        let start = reader.number(column, "start", 1..=CHARACTERS_MAX);
        let width = reader.number(column, "width", 1..=CHARACTERS_MAX);
        let (Some(name), Some(start), Some(width)) = (name, start, width) else {
            is_whole = false;
            continue;
        };
        let column_read = FixedColumn { name, before: start as usize - 1, width: width as usize };
        let other = columns.iter().find(|other| {
            other.name == column_read.name
                || (other.before < column_read.end() && column_read.before < other.end())
        });
        if let Some(other) = other {
            let (what, help) = match other.name == column_read.name {
                true => (
                    format!("the column `{}` comes twice", other.name),
                    "give one of them another name".into(),
                ),
                false => (
                    format!("the columns `{}` and `{}` overlap", other.name, column_read.name),
                    format!("`{}` has the characters {} to {}", other.name, other.before + 1, other.end()),
                ),
            };
            reader.wrong(column.span.clone(), what, help);
            is_whole = false;
        }
        columns.push(column_read);
    }
    if is_whole {
        for name in anchor(part) {
            if columns.iter().all(|column| column.name != name) {
                let all: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                let what = format!("the column `{name}` of the anchor is not in `columns`");
                reader.wrong(span_of(part, "anchor"), what, format!("the columns are {}", all.join(", ")));
                is_whole = false;
            }
        }
    }
    columns.sort_by_key(|column| column.before);
    let path = path?.into();
    is_whole.then_some(Box::new(FixedWidth { path, columns, value_separator, short_lines }))
}
