//! A scenario file, and after a zero byte the body of every response.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::scenario::run(bytes));
