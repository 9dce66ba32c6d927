//! An experiment file: an experiment or problems, and what is understood can be written, read again, configured and
//! planned.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::experiment::run(bytes));
