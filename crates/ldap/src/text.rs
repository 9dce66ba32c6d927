//! What distinguished names and filters have in common: names of attributes and hexadecimal digits.

use std::fmt;

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Where, in bytes from the start.
    pub at: usize,
    /// What is wrong.
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

/// Whether these bytes may be an attribute description: a word or an object identifier, with options after semicolons.
/// `_` stands in names that some servers allow.
pub(crate) fn is_attribute_description(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_alphanumeric) && name.iter().all(is_description_byte)
}

/// Whether this byte may be in an attribute description.
pub(crate) fn is_description_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b';' | b'_')
}

/// The byte that two hexadecimal digits at the start stand for.
pub(crate) fn hex_byte(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low, ..] = text else { return None };
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

/// Writes a value: what is UTF-8 as it is, but for characters that `escaped` tells by their place in bytes (and the length
/// of the value), those that control a terminal, and bytes that are no UTF-8: these as `\` and two digits for each byte.
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

/// How a character is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As it is.
    No,
    /// Behind a backslash.
    Backslash,
    /// As its bytes in hexadecimal digits.
    Hex,
}
