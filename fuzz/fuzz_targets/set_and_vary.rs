//! `--set` and `--vary` of the command line, a line each: set on an experiment of any workload, then written and read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::set_and_vary::run(bytes));
