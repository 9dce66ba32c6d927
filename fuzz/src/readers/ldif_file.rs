//! An LDIF file that the metadirectory reads, and writes anew.

use std::path::PathBuf;
use std::sync::LazyLock;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| super::folder("ldif_file"));

const SETTINGS: &str = "type = \"ldif\"\nattributes = [\"name\", \"mail\"]";

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    super::text_file(&FOLDER, SETTINGS, bytes);
}
