//! A journal: what is read as pending was announced there.

use engine::factor::Undo;
use record::parse_pending;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    // Reads only: carrying out an undo is no business of a fuzzer.
    if let Ok(pending) = parse_pending::<Vec<Undo>>(bytes) {
        assert!(pending.len() < bytes.split(|byte| *byte == b'\n').count());
        for step in pending.iter().flat_map(|line| &line.undo) {
            let _ = (step.to_string(), step.ends_with_the_boot());
        }
    }
    let _ = parse_pending::<serde_json::Value>(bytes);
}
