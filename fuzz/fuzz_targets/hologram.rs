//! What a store holds of an object: its image, where that comes from, and what is on its way to its system.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::hologram::run(bytes));
