//! An LDIF file that the metadirectory reads, and writes anew.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| plimsoll_fuzz::folder("ldif_file"));

const SETTINGS: &str = "type = \"ldif\"\nattributes = [\"name\", \"mail\"]";

fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::text_file(&FOLDER, SETTINGS, bytes));
