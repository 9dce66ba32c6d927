//! The path of an attribute of a service that speaks SCIM.
#![no_main]

use libfuzzer_sys::fuzz_target;
use connectors::scim::Path;

fuzz_target!(|text: &str| {
    if let Ok(path) = Path::parse(text) {
        let again = Path::parse(path.text()).expect("what was read can be read again");
        assert_eq!(format!("{again:?}"), format!("{path:?}"));
    }
});
