//! `readings.csv.gz`: whatever it expands to, lines come one by one, and an end is reached.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::gzip::run(bytes));
