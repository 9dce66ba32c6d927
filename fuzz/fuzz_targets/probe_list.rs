//! A list of servers to probe.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::probe_list::run(bytes));
