//! CSV as in RFC 4180, quoted only where it must be.

use super::{any, separated_by};
use crate::attributes::Record;

/// A person's line.
pub(super) fn record(record: &Record, out: &mut Vec<u8>) {
    // Most hold nothing special, and are copied in one piece: much faster than value by value.
    match any(record.text(), SPECIAL) {
        true => row(record.values().map(|of| of.1), out),
        false => separated_by(b',', record, out),
    }
}

/// A line of values.
pub(super) fn row<'a>(values: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        field(value, out);
    }
    out.push(b'\n');
}

/// What makes quotes needed.
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
