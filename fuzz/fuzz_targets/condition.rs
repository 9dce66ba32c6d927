//! A condition on captured operations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Condition;

fuzz_target!(|text: &str| {
    match Condition::parse(text) {
        Ok(condition) => assert_eq!(Condition::parse(&condition.to_string()).as_ref(), Ok(&condition)),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let length = text.chars().count();
            assert!(mistakes.iter().all(|mistake| (1..=length + 1).contains(&mistake.column)));
        }
    }
});
