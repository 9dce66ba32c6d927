//! A file of a server configuration export of MIM, with a metaverse and an agent in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::mim::run(bytes));
