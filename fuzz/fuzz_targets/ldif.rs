//! An LDIF file: the first byte says how large the pieces are in which it is read, the rest is the file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::ldif::run(bytes));
