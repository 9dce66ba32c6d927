//! CSV as in RFC 4180, quoted only where it must be.

use super::any;
use crate::attributes::Record;

/// A person's line.
pub(super) fn record(record: &Record, out: &mut Vec<u8>) {
    // Most hold nothing special: one look at all of them is much faster than one at each.
    match any(record.text(), SPECIAL) {
        true => line(record.values().map(|of| of.1), field, out),
        false => {
            line(record.values().map(|of| of.1), |value, out| out.extend_from_slice(value.as_bytes()), out)
        }
    }
}

/// A line of values.
pub(super) fn row<'a>(values: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    line(values, field, out);
}

fn line<'a>(values: impl Iterator<Item = &'a str>, write: impl Fn(&str, &mut Vec<u8>), out: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(value, out);
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
