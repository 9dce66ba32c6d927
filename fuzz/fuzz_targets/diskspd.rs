//! diskspd's command line, cut at blanks. A name that begins with `n` does not exist; others have a size that follows from
//! their length.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::diskspd::run(bytes));
