//! The path of a counter of Performance Monitor, as in `--watch` and `watch --list`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::perfmon_path::run(bytes));
