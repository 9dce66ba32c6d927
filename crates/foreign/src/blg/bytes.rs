//! Little-endian fields of a slice; none beyond its end.

/// The bytes of a field.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    field(bytes, at).map(i64::from_le_bytes)
}

/// A size or an offset.
pub(super) fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    u32_at(bytes, at).and_then(|size| usize::try_from(size).ok())
}

/// The bytes of UTF-16 text to its zero, or to the end.
pub(super) fn wide(bytes: &[u8]) -> &[u8] {
    let length = bytes.chunks_exact(2).take_while(|unit| *unit != [0, 0]).count();
    &bytes[..2 * length]
}

/// UTF-16 text.
pub(super) fn text(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
