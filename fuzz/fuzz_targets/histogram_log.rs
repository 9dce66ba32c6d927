//! `response.hlog`: what is decoded is a histogram of nanoseconds as the product writes them, and can be added up. An input
//! that begins with a zero byte is one histogram without the compression and the text around it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::histogram_log::run(bytes));
