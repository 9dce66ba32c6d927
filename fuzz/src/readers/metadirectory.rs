//! The configuration of a metadirectory.

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
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
}
