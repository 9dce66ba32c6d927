//! The files of a run directory beside its trials.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::record_directory::run(bytes));
