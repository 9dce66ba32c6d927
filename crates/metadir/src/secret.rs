//! Values that no view shows: passwords, and what is marked as a secret.

/// What is shown in place of a secret value.
pub(crate) const HIDDEN: &str = "(hidden)";
/// A shorter secret is hidden only where it is the whole text: it would match everywhere.
const SHORTEST_PART: usize = 4;

/// A value in readable form.
pub(crate) fn readable(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.chars().any(char::is_control) => text.escape_debug().to_string(),
        Ok(text) => text.into(),
        Err(_) => format!("({} bytes)", value.len()),
    }
}

/// A value of an attribute in readable form; hidden if the attribute is secret.
pub(crate) fn shown(is_secret: bool, value: &[u8]) -> String {
    if is_secret { HIDDEN.into() } else { readable(value) }
}

/// Secret values that may occur in other texts: in a name that is made of them, or in an error.
#[derive(Debug, Default)]
pub(crate) struct SecretValues(Vec<String>);

impl SecretValues {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let text = readable(value);
        if !text.is_empty() && !self.0.contains(&text) {
            // The longest first, so that no part of it remains.
            let at = self.0.partition_point(|known| known.len() >= text.len());
            self.0.insert(at, text);
        }
    }

    /// A text without the values.
    pub(crate) fn without(&self, text: &str) -> String {
        let mut text = text.to_string();
        for secret in &self.0 {
            if text == *secret {
                return HIDDEN.into();
            }
            if secret.len() >= SHORTEST_PART && text.contains(secret) {
                text = text.replace(secret, HIDDEN);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_values_are_hidden_wherever_they_occur() {
        let mut secrets = SecretValues::default();
        [&b"Secret"[..], b"Secret1234", b"1", b""].iter().for_each(|value| secrets.add(value));
        assert_eq!(secrets.without("cn=Secret1234,o=Secret"), "cn=(hidden),o=(hidden)");
        assert_eq!((secrets.without("1"), secrets.without("10")), (HIDDEN.into(), "10".into()));
        assert_eq!((shown(true, b"x"), shown(false, b"x")), (HIDDEN.into(), "x".into()));
    }

    #[test]
    fn values_are_shown_without_escapes_unless_they_have_control_characters() {
        assert_eq!(readable("O'Neil \"Bo\" \\ ü".as_bytes()), "O'Neil \"Bo\" \\ ü");
        assert_eq!(readable(b"a\nb\"c"), "a\\nb\\\"c");
        assert_eq!(readable(&[0xff, 0xfe]), "(2 bytes)");
    }
}
