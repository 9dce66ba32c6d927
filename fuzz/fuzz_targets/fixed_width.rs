//! A text file with columns of a fixed width.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| plimsoll_fuzz::folder("fixed_width"));

const SETTINGS: &str = "type = \"fixed-width\"\nshort_lines = true\n\
     columns = [{ name = \"id\", start = 1, width = 4 }, { name = \"name\", start = 6, width = 8 }]";

fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::text_file(&FOLDER, SETTINGS, bytes));
