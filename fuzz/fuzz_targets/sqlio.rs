//! SQLIO's flags on the first line, cut at blanks; the parameter file on the rest.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::sqlio::run(bytes));
