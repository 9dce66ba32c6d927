//! A capture: a byte that selects what is analysed, then the file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::capture::run(bytes));
