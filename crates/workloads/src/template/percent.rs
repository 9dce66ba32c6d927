//! Percent-encoding of parts of URLs (RFC 3986 section 2.1).

/// Appends bytes, percent-encoding those that a URL cannot contain; reserved characters and `%` are kept.
pub(crate) fn encode_invalid(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(byte) {
            true => out.push(*byte),
            false => push_encoded(*byte, out),
        }
    }
}

/// Appends bytes, percent-encoding all but unreserved characters (RFC 3986 section 2.3).
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            true => out.push(*byte),
            false => push_encoded(*byte, out),
        }
    }
}

fn push_encoded(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}
