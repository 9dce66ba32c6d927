//! A condition on captured operations.

use wire::Condition;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Condition::parse(text) {
        Ok(condition) => assert_eq!(Condition::parse(&condition.to_string()).as_ref(), Ok(&condition)),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let length = text.chars().count();
            assert!(mistakes.iter().all(|mistake| (1..=length + 1).contains(&mistake.column)));
        }
    }
}
