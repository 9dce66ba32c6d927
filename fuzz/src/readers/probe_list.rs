//! A list of servers to probe.

use workloads::http::probe::read_list;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let _ = read_list(bytes, "list.csv");
}
