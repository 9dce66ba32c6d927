//! A scenario file or a settings file of WCAT.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::wcat::run(bytes));
