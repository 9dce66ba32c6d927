//! What a directory server or a client sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::ldap_message::run(bytes));
