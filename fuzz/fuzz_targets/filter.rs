//! A search filter as text.
#![no_main]

use ldap::Filter;
use ldap::message::{Message, Operation, SearchRequest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
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
});
