//! The file of a program or a library, in which a function is looked up.

use counters::operation_io::probe_offset_of;

/// Reads an input; panics on a fault of the reader.
pub fn run(file: &[u8]) {
    let _ = probe_offset_of(file, "do_search");
}
