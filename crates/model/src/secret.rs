//! Texts with secret parts: the full text for their use, and a text without secrets for everything else.
//!
//! A placeholder (`${env:NAME}`, `${file:PATH}`, `${prompt:WORDS}`) refers to a secret. It is recorded as
//! written, so that the experiment can be run again. `${dependency:NAME}` has the same form, and is no secret. A secret that is written directly appears as `***` in
//! every record, report and message.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod mask;
mod name;

pub(crate) use mask::mask_line;
pub use mask::{WhyHidden, mask, mask_written};
use name::{is_secret_variable, is_sensitive_header};

/// The replacement of a secret.
pub const HIDDEN: &str = "***";

/// A text with secret parts. It is shown, compared and recorded without them.
#[derive(Clone, Default, Eq)]
pub struct Secret {
    shown: String,
    text: String,
    why: Option<WhyHidden>,
}

impl Secret {
    /// A text with the given secret parts.
    pub fn new(text: &str, parts: SecretParts) -> Secret {
        let (shown, why) = parts.hide_why(text);
        Secret { shown, text: text.into(), why }
    }

    /// A text without secret parts.
    pub fn plain(text: &str) -> Secret {
        Secret { shown: text.into(), text: text.into(), why: None }
    }

    /// The value of a variable: completely secret if the name of the variable suggests it, otherwise treated
    /// like a URL.
    pub fn of_variable(name: &str, value: &str) -> Secret {
        let parts = if is_secret_variable(name, value) { SecretParts::Whole } else { SecretParts::Url };
        Secret::new(value, parts)
    }

    /// The full text, for its use.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Why a part of it is hidden; none if nothing is.
    pub fn why_hidden(&self) -> Option<WhyHidden> {
        self.why
    }

    /// Whether it was read from a record, which does not contain directly written secrets.
    pub fn is_missing(&self) -> bool {
        self.shown == self.text && self.text.contains(HIDDEN)
    }

    /// Replaces the placeholders by their secrets; the shown text does not change.
    ///
    /// # Errors
    /// The error of `find` for a placeholder.
    pub fn resolve<E>(
        &mut self,
        mut find: impl FnMut(Placeholder<'_>) -> Result<String, E>,
    ) -> Result<(), E> {
        self.text = replace_placeholders(&self.text, |placeholder| match placeholder {
            // Its address is known later, and is no secret.
            Placeholder::Dependency(_) => Ok(None),
            secret => find(secret).map(Some),
        })?;
        Ok(())
    }

    /// Changes the full text; the shown text does not change.
    pub fn change(&mut self, change: impl FnOnce(&str) -> String) {
        self.text = change(&self.text);
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl PartialEq for Secret {
    /// Compares the shown texts: a text from a record equals the original one.
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let shown = String::deserialize(deserializer)?;
        Ok(Secret { text: shown.clone(), shown, why: None })
    }
}

/// The source of a text that is not in the experiment, usually a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder<'a> {
    /// `${env:NAME}`: an environment variable.
    Environment(&'a str),
    /// `${file:PATH}`: the content of a file without its last line end.
    File(&'a str),
    /// `${prompt:WORDS}`: the user's input at a prompt with these words.
    Prompt(&'a str),
    /// `${dependency:NAME}`: where the proxy of a dependency listens; with `.host` or `.port`, a part of it. Not a secret.
    Dependency(&'a str),
}

impl<'a> Placeholder<'a> {
    /// Parses the text between the braces, such as `env:NAME`; none if it is not a placeholder.
    pub fn parse(text: &'a str) -> Option<Placeholder<'a>> {
        match text.split_once(':')? {
            ("env", name) => Some(Placeholder::Environment(name)),
            ("file", name) => Some(Placeholder::File(name)),
            ("prompt", name) => Some(Placeholder::Prompt(name)),
            ("dependency", name) => Some(Placeholder::Dependency(name)),
            _ => None,
        }
    }
}

/// The first placeholder, with the text before and after it.
fn next_placeholder(text: &str) -> Option<(&str, Placeholder<'_>, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("${").map(|at| at + from) {
        let inside = &text[at + 2..];
        if let Some(end) = inside.find('}')
            && let Some(placeholder) = Placeholder::parse(&inside[..end])
        {
            return Some((&text[..at], placeholder, &inside[end + 1..]));
        }
        from = at + 2;
    }
    None
}

/// A text whose placeholders are replaced; one for which `find` returns none stays.
///
/// # Errors
/// The error of `find` for a placeholder.
pub(crate) fn replace_placeholders<E>(
    text: &str,
    mut find: impl FnMut(Placeholder<'_>) -> Result<Option<String>, E>,
) -> Result<String, E> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, placeholder, after)) = next_placeholder(rest) {
        out += before;
        match find(placeholder)? {
            Some(found) => out += &found,
            None => out += &rest[before.len()..rest.len() - after.len()],
        }
        rest = after;
    }
    out += rest;
    Ok(out)
}

/// The parts of a text that are secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretParts {
    /// A URL: the user name, the password, and the values of parameters with suggestive names.
    Url,
    /// A header field `NAME: VALUE`: the value, if the name is one for credentials.
    Header,
    /// Any other text: the values after suggestive names, in a form, in JSON, in XML.
    Pairs,
    /// The whole text.
    Whole,
}

impl SecretParts {
    /// The text without its secrets. A part with a placeholder is kept, because it does not contain the
    /// secret.
    pub fn hide(self, text: &str) -> String {
        self.hide_why(text).0
    }

    /// The text without its secrets, and why the first of them is hidden; none if nothing is.
    fn hide_why(self, text: &str) -> (String, Option<WhyHidden>) {
        let whole = || (HIDDEN.to_string(), Some(WhyHidden::Name));
        match self {
            SecretParts::Url => hide_in_url(text),
            SecretParts::Header => match text.split_once(':') {
                // An invalid header, so the name is unknown.
                None if is_sensitive_header(text) => whole(),
                Some((name, _)) if name.trim().contains(' ') && is_sensitive_header(name) => whole(),
                Some((name, value)) if is_sensitive_header(name) => match value.trim() {
                    value if has_placeholder(value) => (format!("{name}: {value}"), None),
                    _ => (format!("{name}: {HIDDEN}"), Some(WhyHidden::Name)),
                },
                _ => hide_in_text(text),
            },
            SecretParts::Pairs => hide_in_text(text),
            SecretParts::Whole if has_placeholder(text) || text.is_empty() => (text.into(), None),
            SecretParts::Whole => whole(),
        }
    }
}

fn hide_in_text(text: &str) -> (String, Option<WhyHidden>) {
    let parts = mask::parts(text, mask::TextKind::Written);
    (mask::without(text, &parts), parts.first().map(|part| part.why))
}

/// Whether a text refers to a secret, so it does not contain the secret itself.
fn has_placeholder(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, placeholder, after)) = next_placeholder(rest) {
        if !matches!(placeholder, Placeholder::Dependency(_)) {
            return true;
        }
        rest = after;
    }
    false
}

fn hide_in_url(text: &str) -> (String, Option<WhyHidden>) {
    let from = text.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = text.split_at(from);
    let end = authority_bytes(rest, &['/', '?', '#']);
    let (user, rest) = rest.split_at(rest[..end].rfind('@').unwrap_or(0));
    let (shown, why) = hide_in_text(rest);
    match user {
        "" => hide_in_text(text),
        user if has_placeholder(user) => (format!("{scheme}{user}{shown}"), why),
        _ => (format!("{scheme}{HIDDEN}{shown}"), Some(WhyHidden::Address)),
    }
}

/// The length of the authority at the beginning of a text, which one of these characters ends. A placeholder in it may
/// contain a slash, for example in a file path.
pub(crate) fn authority_bytes(text: &str, ends: &[char]) -> usize {
    let mut at = 0;
    while let Some((before, _, after)) = next_placeholder(&text[at..]) {
        if let Some(end) = before.find(ends) {
            return at + end;
        }
        at = text.len() - after.len();
    }
    text[at..].find(ends).map_or(text.len(), |end| at + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_nothing_else() {
        use SecretParts::{Header, Pairs, Url, Whole};
        for (parts, text, shown) in [
            (Url, "http://a:80/x?y=1", "http://a:80/x?y=1"),
            (Url, "http://me:pw@a/x", "http://***@a/x"),
            (
                Url,
                "http://a/x?y=1&access_token=abc&z=2#token=d",
                "http://a/x?y=1&access_token=***&z=2#token=***",
            ),
            (Url, "http://a/x?token=${env:T}&key=k", "http://a/x?token=${env:T}&key=***"),
            (Url, "http://a/x?password=P&t=${env:T}&m=a@b", "http://a/x?password=***&t=${env:T}&m=a@b"),
            (Url, "http://u:${file:/a/b}@h/x?key=k", "http://u:${file:/a/b}@h/x?key=***"),
            (Url, "http://me:${file:/a/b}@a/x", "http://me:${file:/a/b}@a/x"),
            (Url, "http://me:pw@${dependency:a}/x", "http://***@${dependency:a}/x"),
            (Pairs, "password=p${dependency:a.host}", "password=***}"),
            (Url, "me:pw@a", "***@a"),
            (Header, "Accept: */*", "Accept: */*"),
            (Header, "Authorization: Bearer abc", "Authorization: ***"),
            (Header, "authorization:Bearer ${env:T}", "authorization: Bearer ${env:T}"),
            (Header, "Cookie: a=b; c=d", "Cookie: ***"),
            (Header, "X-Api-Key: 1", "X-Api-Key: ***"),
            (Header, "X-Auth: 1", "X-Auth: ***"),
            (Header, "Authorization Bearer abc", "***"),
            (Header, "Cookie a=b: c", "***"),
            (Header, "none of it", "none of it"),
            (Header, "Referer: http://a/?token=x", "Referer: http://a/?token=***"),
            (Pairs, "user=u&password=p&x=1", "user=u&password=***&x=1"),
            (
                Pairs,
                r#"{"user": "u", "password" : "p\"q", "n": 1}"#,
                r#"{"user": "u", "password" : "***", "n": 1}"#,
            ),
            (Pairs, "<login><Password>p</Password></login>", "<login><Password>***</Password></login>"),
            (Pairs, "pwd='a b' --token xyz", "pwd='***' --token ***"),
            (Pairs, "the key is = abc", "the key is = abc"),
            (Pairs, "password=${prompt:The password} x", "password=${prompt:The password} x"),
            (Pairs, "monkey: fine, tokenizer: good", "monkey: fine, tokenizer: ***"),
            (Pairs, "password=", "password="),
            (Whole, "abc", "***"),
            (Whole, "${env:A}", "${env:A}"),
        ] {
            assert_eq!(parts.hide(text), shown, "{text}");
            assert_eq!(parts.hide(shown), shown, "what is hidden stays as it is");
        }
    }

    #[test]
    fn a_variable_is_hidden_when_its_name_or_its_address_tells() {
        for (name, value, shown) in [
            ("PGPASSWORD", "abc", "***"),
            ("PGPASSWORD", "${env:PGPASSWORD}", "${env:PGPASSWORD}"),
            ("LEVEL", "one two", "one two"),
            ("DATABASE_URL", "postgres://me:pw@db/x", "postgres://***@db/x"),
            ("PATH", "/usr/bin:/bin", "/usr/bin:/bin"),
            ("TOKEN", "", ""),
        ] {
            assert_eq!(Secret::of_variable(name, value).to_string(), shown);
        }
    }

    #[test]
    fn a_secret_shows_in_nothing_but_its_own_text() {
        let mut secret =
            Secret::new("Authorization: Bearer ${env:A}${file:b}${other:c}", SecretParts::Header);
        let found = |placeholder: Placeholder<'_>| match placeholder {
            Placeholder::Environment("A") => Ok("one"),
            Placeholder::File("b") => Ok("two"),
            _ => Err(()),
        };
        secret.resolve(|placeholder| found(placeholder).map(str::to_string)).unwrap();
        assert_eq!(secret.reveal(), "Authorization: Bearer onetwo${other:c}");
        let json = serde_json::to_string(&secret).unwrap();
        for shown in [format!("{secret}"), format!("{secret:?}"), json.clone()] {
            assert!(!shown.contains("one") && shown.contains("${env:A}"), "{shown}");
        }
        let again: Secret = serde_json::from_str(&json).unwrap();
        assert!(again == secret && !again.is_missing());
        let literal = Secret::new("token=abc", SecretParts::Pairs);
        assert!(!literal.is_missing());
        let again: Secret = serde_json::from_str(&serde_json::to_string(&literal).unwrap()).unwrap();
        assert!(again == literal && again.is_missing());
    }

    proptest::proptest! {
        #[test]
        fn a_secret_survives_in_no_text(
            before in "(token|=|\"|'|:|/|[?&<>]|[a-z ]){0,20}",
            after in "(&|\"|;|<|\\PC){0,10}",
        ) {
            for (parts, name) in [
                (SecretParts::Url, "http://a/x?y=1&token="),
                (SecretParts::Url, "http://me:"),
                (SecretParts::Header, "Authorization: Bearer "),
                (SecretParts::Header, "Cookie: a="),
                (SecretParts::Pairs, "&password="),
            ] {
                let tail = if name == "http://me:" { "@a/" } else { "" };
                let text = match parts {
                    SecretParts::Pairs => format!("{before}{name}S3CRET{after}"),
                    _ => format!("{name}S3CRET{tail}{after}"),
                };
                proptest::prop_assert!(!parts.hide(&text).contains("S3CRET"), "{} -> {}", text, parts.hide(&text));
            }
        }

        #[test]
        fn no_text_panics(text in "(token|=|\"|'|\\$\\{env:|\\}|:|/|@|[a-z ]|\\PC){0,30}") {
            for parts in [SecretParts::Url, SecretParts::Header, SecretParts::Pairs, SecretParts::Whole] {
                let mut secret = Secret::new(&text, parts);
                let _ = secret.resolve(|_| Ok::<_, ()>("x".into()));
            }
        }
    }
}
