//! The path of an attribute of a service that speaks SCIM.

use connectors::scim::Path;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(path) = Path::parse(text) {
        let again = Path::parse(path.text()).expect("what was read can be read again");
        assert_eq!(format!("{again:?}"), format!("{path:?}"));
    }
}
