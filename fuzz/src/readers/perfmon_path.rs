//! The path of a counter of Performance Monitor, as in `--watch` and `watch --list`.

use counters::perfmon::{Path, meant, watched};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(path) = Path::parse(text) else {
        assert!(watched(text).is_none());
        return;
    };
    assert!(!meant(&path).is_empty());
    match watched(text) {
        Some(Ok(watched)) => assert!(path.find().iter().any(|counter| counter.metric == watched.metric)),
        Some(Err((what, help))) => assert!(!what.is_empty() && !help.is_empty()),
        None => panic!("a path is watched or refused"),
    }
}
