//! A text file of attribute-value pairs.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| plimsoll_fuzz::folder("attribute_value"));

const SETTINGS: &str = "type = \"attribute-value\"";

fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::text_file(&FOLDER, SETTINGS, bytes));
