//! The path of an attribute of a service that speaks SCIM.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::scim_path::run(bytes));
