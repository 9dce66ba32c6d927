//! A journal: what is read as pending was announced there.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::journal::run(bytes));
