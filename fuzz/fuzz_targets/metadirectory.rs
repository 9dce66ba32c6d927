//! The configuration of a metadirectory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metadir::config::Config;

fuzz_target!(|text: &str| {
    match connectors::parse(text) {
        Ok(mut config) => config.relative_to(std::path::Path::new("/folder")),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
                assert!(!mistake.what.is_empty(), "{mistake:?}");
            }
        }
    }
});
