//! A list of servers to probe.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workloads::http::probe::read_list;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_list(bytes, "list.csv");
});
