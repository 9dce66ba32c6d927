//! Goals, sizes, durations, rates, shares: read, and written so that they read as the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::goal_and_quantities::run(bytes));
