//! A text file of attribute-value pairs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::attribute_value::run(bytes));
