//! A condition on captured operations.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::condition::run(bytes));
