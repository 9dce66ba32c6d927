//! The kernel's files: a host that is a copy of a fixture, and one file of it that is not what it should be. The first
//! byte says which file; what follows is its content, up to a zero byte for the first reading and behind it for the next.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_fuzz::readers::counters::run(bytes));
