//! A distinguished name.

use ldap::Dn;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Dn::parse(text) {
        Ok(name) => {
            let written = name.to_string();
            assert_eq!(Dn::parse(&written).as_ref(), Ok(&name), "{written}");
            let normalized = Dn::parse(&name.normalized()).expect("a normalized name is a name");
            assert!(normalized.same(&name) && normalized.key() == name.key());
            if let Some(parent) = name.parent() {
                assert!(name.is_within(&parent) && name.key().starts_with(&parent.key()));
                assert_eq!(name.moved(&parent, &parent), Some(name));
            }
        }
        Err(error) => assert!(error.at <= text.len() && !error.what.is_empty()),
    }
}
