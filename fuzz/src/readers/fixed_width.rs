//! A text file with columns of a fixed width.

use std::path::PathBuf;
use std::sync::LazyLock;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| super::folder("fixed_width"));

const SETTINGS: &str = "type = \"fixed-width\"\nshort_lines = true\n\
     columns = [{ name = \"id\", start = 1, width = 4 }, { name = \"name\", start = 6, width = 8 }]";

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    super::text_file(&FOLDER, SETTINGS, bytes);
}
