//! What a web server sends: the first byte says how large the pieces are and whether a HEAD was asked, the rest is what comes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::http_response::run(bytes));
