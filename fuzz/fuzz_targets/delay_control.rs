//! A request to a running delay proxy, and the settings of its command line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::delay_control::run(bytes));
