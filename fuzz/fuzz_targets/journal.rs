//! `restore.jsonl`: what is read as pending was announced there.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use engine::factor::Undo;
use libfuzzer_sys::fuzz_target;
use record::Journal;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| plimsoll_fuzz::folder("journal"));

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(FOLDER.join("restore.jsonl"), bytes).expect("the scratch folder can be written");
    // Reads only: carrying out an undo is no business of a fuzzer.
    if let Ok(pending) = Journal::read_pending::<Vec<Undo>>(&FOLDER) {
        assert!(pending.len() <= bytes.split(|byte| *byte == b'\n').count());
    }
    let _ = Journal::read_pending::<serde_json::Value>(&FOLDER);
});
