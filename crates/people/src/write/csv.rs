//! CSV as in RFC 4180, quoted only if necessary.

use super::{any, separated_by};
use crate::attributes::Record;

/// Writes the line of a person.
pub(super) fn record(record: &Record, out: &mut Vec<u8>) {
    // Most records have no special characters and are copied in one piece: much faster than value by value.
    match any(record.text(), SPECIAL) {
        true => row(record.values().map(|of| of.1), out),
        false => separated_by(b',', record, out),
    }
}

/// Writes a line of values.
pub(super) fn row<'a>(values: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        field(value, out);
    }
    out.push(b'\n');
}

/// Characters that require quotes.
const SPECIAL: [u8; 4] = *b",\"\n\r";

fn field(value: &str, out: &mut Vec<u8>) {
    if !any(value, SPECIAL) {
        return out.extend_from_slice(value.as_bytes());
    }
    out.push(b'"');
    for (at, part) in value.split('"').enumerate() {
        if at > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}
