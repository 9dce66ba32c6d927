//! Writes LDIF. Text is appended to a buffer that the caller writes and clears, so a file of any size needs
//! only the memory of one entry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Body, Record};
use crate::Control;

/// The maximum line length, without the line end (RFC 2849, note 2).
const COLUMNS: usize = 76;

/// Number of bytes encoded at a time: a multiple of three, so that pieces of base64 can be concatenated.
const PIECE_BYTES: usize = 3 * 1024;

/// Appends `version: 1` and a blank line at the start of a file. Not for `slapadd`: that of OpenLDAP 2.5
/// treats the line as an entry without a name and stops. Readers also accept a file without it.
pub fn write_version(out: &mut Vec<u8>) {
    out.extend_from_slice(b"version: 1\n\n");
}

/// Appends a comment. Each line of the text becomes one comment line.
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    for line in text.split(['\n', '\r']) {
        out.extend_from_slice(b"# ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
}

/// Appends the first line of a record.
pub fn write_dn(out: &mut Vec<u8>, dn: &str) {
    write_attribute(out, "dn", dn.as_bytes());
}

/// Appends one attribute value: as text if RFC 2849 allows it, otherwise in base64, folded at 76 columns.
/// `name` is an attribute description and is written unchanged.
pub fn write_attribute(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    // Most values fit into one line.
    if !value.is_empty() && name.len() + 2 + value.len() <= COLUMNS && is_safe(value) {
        out.reserve(COLUMNS + 1);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.push(b'\n');
        return;
    }
    out.extend_from_slice(name.as_bytes());
    write_value(out, name.len(), value);
}

/// Appends a record and the blank line after it.
pub fn write_record(out: &mut Vec<u8>, record: &Record<'_>) {
    write_dn(out, record.dn);
    for control in &record.controls {
        write_control(out, control);
    }
    match &record.body {
        Body::Entry(attributes) => write_attributes(out, attributes),
        Body::Add(attributes) => {
            out.extend_from_slice(b"changetype: add\n");
            write_attributes(out, attributes);
        }
        Body::Delete => out.extend_from_slice(b"changetype: delete\n"),
        Body::Modify(changes) => {
            out.extend_from_slice(b"changetype: modify\n");
            for change in changes {
                write_attribute(out, change.operation.name(), change.attribute.as_bytes());
                for value in &change.values {
                    write_attribute(out, change.attribute, value.0);
                }
                out.extend_from_slice(b"-\n");
            }
        }
        Body::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
            out.extend_from_slice(b"changetype: modrdn\n");
            write_attribute(out, "newrdn", new_rdn.as_bytes());
            write_attribute(out, "deleteoldrdn", if *delete_old_rdn { b"1" } else { b"0" });
            if let Some(superior) = new_superior {
                write_attribute(out, "newsuperior", superior.as_bytes());
            }
        }
    }
    out.push(b'\n');
}

fn write_attributes(out: &mut Vec<u8>, attributes: &[(&str, &[u8])]) {
    for (name, value) in attributes {
        write_attribute(out, name, value);
    }
}

fn write_control(out: &mut Vec<u8>, control: &Control<'_>) {
    let begin = out.len();
    out.extend_from_slice(b"control: ");
    out.extend_from_slice(control.oid.as_bytes());
    out.extend_from_slice(if control.critical { b" true" } else { b" false" });
    match control.value {
        Some(value) => write_value(out, out.len() - begin, value),
        None => out.push(b'\n'),
    }
}

/// Appends the value after a name that ends in `column`, and the line end.
fn write_value(out: &mut Vec<u8>, mut column: usize, value: &[u8]) {
    if is_safe(value) {
        out.push(b':');
        column += 1;
        if !value.is_empty() {
            out.push(b' ');
            write_folded(out, column + 1, value);
        }
    } else {
        out.extend_from_slice(b":: ");
        column += 3;
        let mut text = [0; PIECE_BYTES / 3 * 4];
        for piece in value.chunks(PIECE_BYTES) {
            // The buffer is always large enough: four characters for every three bytes or part of them.
            let length = STANDARD.encode_slice(piece, &mut text).unwrap_or(0);
            column = write_folded(out, column, &text[..length]);
        }
    }
    out.push(b'\n');
}

/// Appends text with folds at the maximum line length; returns the column at the end.
fn write_folded(out: &mut Vec<u8>, mut column: usize, mut text: &[u8]) -> usize {
    loop {
        let room = COLUMNS.saturating_sub(column);
        if text.len() <= room {
            out.extend_from_slice(text);
            return column + text.len();
        }
        out.extend_from_slice(&text[..room]);
        text = &text[room..];
        out.extend_from_slice(b"\n ");
        column = 1;
    }
}

/// Whether a value may be written as text: SAFE-STRING of RFC 2849, and no blank at the end (its note 8).
fn is_safe(value: &[u8]) -> bool {
    let (Some(first), Some(last)) = (value.first(), value.last()) else { return true };
    !matches!(first, b' ' | b':' | b'<') && *last != b' ' && has_safe_bytes(value)
}

/// Whether each byte is in US-ASCII and is neither zero nor ends a line; eight bytes at a time.
fn has_safe_bytes(value: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The high bits of `word` minus one in each byte: of zero, the only byte that borrows in a word without high bits.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let others = |word: u64| {
        let ends = zero(word ^ (ONES * u64::from(b'\n'))) | zero(word ^ (ONES * u64::from(b'\r')));
        (word | zero(word) | ends) & HIGH
    };
    match value.last_chunk::<8>() {
        Some(last) => {
            let (words, _) = value.as_chunks::<8>();
            let words = words.iter().chain([last]).map(|word| u64::from_ne_bytes(*word));
            words.fold(0, |found, word| found | others(word)) == 0
        }
        None => {
            let filled = value.iter().fold(ONES, |word, byte| (word << 8) | u64::from(*byte));
            others(filled) == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_safe_bytes;

    #[test]
    fn every_byte_at_every_place_is_judged_alike() {
        for length in 0..20 {
            for at in 0..length {
                for byte in 0..=255_u8 {
                    let mut value = vec![b'a'; length];
                    value[at] = byte;
                    // A byte that could borrow from the next one.
                    if at + 1 < length {
                        value[at + 1] = 1;
                    }
                    let expected = byte < 128 && !matches!(byte, 0 | b'\n' | b'\r');
                    assert_eq!(has_safe_bytes(&value), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }
}
