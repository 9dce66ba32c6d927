//! A delimited text file.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| plimsoll_fuzz::folder("delimited"));

const SETTINGS: &str = "type = \"delimited\"\nvalue_separator = \";\"";

fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::text_file(&FOLDER, SETTINGS, bytes));
