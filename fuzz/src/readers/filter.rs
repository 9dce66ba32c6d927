//! A search filter as text.

use ldap::Filter;
use ldap::message::{Message, Operation, SearchRequest};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Filter::parse(text) {
        Ok(filter) => {
            let written = filter.to_string();
            assert_eq!(Filter::parse(&written).as_ref(), Ok(&filter), "{written}");
            let message = Message::new(1, Operation::SearchRequest(SearchRequest::subtree("", &filter)));
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Ok(message));
        }
        Err(error) => assert!(error.at <= text.len() && !error.what.is_empty()),
    }
}
