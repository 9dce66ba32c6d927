//! Attribute-value pairs: a line for each attribute. No value of ours holds a line break, so none is written in
//! another way.

use crate::attributes::Record;

/// A person's lines, and the blank one behind them. What the person does not have is left out.
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
