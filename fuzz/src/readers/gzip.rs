//! `readings.csv.gz`: whatever it expands to, lines come one by one, and an end is reached.

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let (lines, longest, damage) = record::readers::gzip(bytes);
    assert!(longest <= 2 << 20);
    assert!(lines <= 8 << 20 || damage.is_some());
}
