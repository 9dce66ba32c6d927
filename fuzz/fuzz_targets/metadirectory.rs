//! The configuration of a metadirectory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::metadirectory::run(bytes));
