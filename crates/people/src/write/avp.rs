//! Attribute-value pairs: one line per attribute. No generated value contains a line break, so no escape is
//! needed.

use crate::attributes::Record;

/// Writes the lines of a person and a blank line. Absent attributes are omitted.
pub(super) fn person(record: &Record, out: &mut Vec<u8>) {
    for (attribute, value) in record.values().filter(|of| !of.1.is_empty()) {
        line(attribute.name, value, out);
    }
    out.push(b'\n');
}

pub(super) fn line(name: &str, value: &str, out: &mut Vec<u8>) {
    for part in [name, ": ", value, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
