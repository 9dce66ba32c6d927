//! The file of a program or a library, in which a function is looked up.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::elf::run(bytes));
