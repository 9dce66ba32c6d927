//! A text file of attribute-value pairs.

use std::path::PathBuf;
use std::sync::LazyLock;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| super::folder("attribute_value"));

const SETTINGS: &str = "type = \"attribute-value\"";

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    super::text_file(&FOLDER, SETTINGS, bytes);
}
