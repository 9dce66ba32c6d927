//! A delimited text file.

use std::path::PathBuf;
use std::sync::LazyLock;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| super::folder("delimited"));

const SETTINGS: &str = "type = \"delimited\"\nvalue_separator = \";\"";

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    super::text_file(&FOLDER, SETTINGS, bytes);
}
