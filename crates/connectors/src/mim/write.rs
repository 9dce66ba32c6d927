//! Parts of TOML.

use toml_writer::ToTomlValue as _;

/// A text as a basic string.
pub(super) fn string(text: &str) -> String {
    toml_writer::TomlStringBuilder::new(text).as_basic().to_toml_value()
}

/// A key, in quotes where it has to be.
pub(super) fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_string(),
        false => string(name),
    }
}

/// Texts as an array.
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| string(text)).collect();
    format!("[{}]", texts.join(", "))
}
