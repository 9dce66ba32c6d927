//! A file of another tool: a byte with the options, then the file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::foreign::run(bytes));
