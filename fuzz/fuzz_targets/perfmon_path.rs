//! The path of a counter of Performance Monitor, as in `--watch` and `watch --list`.
#![no_main]

use counters::perfmon::{Path, meant, watched};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
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
});
