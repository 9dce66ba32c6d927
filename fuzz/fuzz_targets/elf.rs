//! The file of a program or a library, in which a function is looked up.
#![no_main]

use counters::operation_io::probe_offset_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let _ = probe_offset_of(file, "do_search");
});
