//! Shared code for distinguished names and filters: attribute names and hexadecimal digits.

use std::fmt;

/// Why a text is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The offset in bytes.
    pub at: usize,
    /// The error.
    pub what: &'static str,
    /// What to write instead; may be empty.
    pub help: &'static str,
}

impl fmt::Display for TextError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at byte {}: {}", self.at, self.what)?;
        match self.help {
            "" => Ok(()),
            help => write!(out, ": {help}"),
        }
    }
}

impl std::error::Error for TextError {}

/// Whether these bytes may be an attribute description: a name or an object identifier, with options after
/// semicolons. `_` is accepted because some servers allow it in names.
pub(crate) fn is_attribute_description(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_alphanumeric) && name.iter().all(is_description_byte)
}

/// Whether this byte may be in an attribute description.
pub(crate) fn is_description_byte(byte: &u8) -> bool {
    IS_DESCRIPTION_BYTE[usize::from(*byte)]
}

static IS_DESCRIPTION_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b';' | b'_');
        byte += 1;
    }
    table
};

/// The byte that two hexadecimal digits at the start encode.
pub(crate) fn hex_byte(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low, ..] = text else { return None };
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

/// Writes a value with escapes. `escaped` decides for a character by its byte offset and the length of the
/// value. Terminal control characters, and bytes that are not UTF-8, are written as `\` and two digits per
/// byte.
pub(crate) fn write_escaped(
    out: &mut impl fmt::Write,
    value: &[u8],
    mut escape: impl FnMut(char, usize) -> Escape,
) -> fmt::Result {
    let mut at = 0;
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match escape(character, at) {
                Escape::No if !character.is_control() => out.write_char(character)?,
                Escape::Backslash => write!(out, "\\{character}")?,
                _ => {
                    let mut bytes = [0; 4];
                    for byte in character.encode_utf8(&mut bytes).bytes() {
                        write!(out, "\\{byte:02X}")?;
                    }
                }
            }
            at += character.len_utf8();
        }
        for byte in chunk.invalid() {
            write!(out, "\\{byte:02X}")?;
        }
        at += chunk.invalid().len();
    }
    Ok(())
}

/// How a character is escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Not at all.
    No,
    /// With a backslash.
    Backslash,
    /// As its bytes in hexadecimal digits.
    Hex,
}
