//! A text file with columns of a fixed width.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::fixed_width::run(bytes));
