//! An LDIF file that the metadirectory reads, and writes anew.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::ldif_file::run(bytes));
