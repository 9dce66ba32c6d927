//! Texts parts of which are secret: what they are for whoever needs them, and what stands of them everywhere else.
//!
//! A secret comes from a placeholder (`${env:NAME}`, `${file:PATH}`, `${prompt:WORDS}`), which is recorded as it is
//! written, so that the experiment can be run again. One that is written out stands as `***` in every record, report and
//! message.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands in place of a secret.
pub const HIDDEN: &str = "***";

/// A text parts of which are secret. Shown, compared and recorded without them.
#[derive(Clone, Default, Eq)]
pub struct Secret {
    shown: String,
    text: String,
}

impl Secret {
    /// A text as somebody wrote it.
    pub fn new(text: &str, parts: SecretParts) -> Secret {
        Secret { shown: parts.hide(text), text: text.into() }
    }

    /// The value of a variable: all of it when the variable's name tells that it is secret, else as in an address.
    pub fn of_variable(name: &str, value: &str) -> Secret {
        let parts = if is_telling(name) { SecretParts::Whole } else { SecretParts::Url };
        Secret::new(value, parts)
    }

    /// The text itself, for whoever sends it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Whether it was read from a record, where a secret that was written out is not kept.
    pub fn is_missing(&self) -> bool {
        self.shown == self.text && self.text.contains(HIDDEN)
    }

    /// Puts secrets in place of the placeholders; what is shown stays.
    ///
    /// # Errors
    /// What `find` says of a placeholder.
    pub fn resolve<E>(
        &mut self,
        mut find: impl FnMut(Placeholder<'_>) -> Result<String, E>,
    ) -> Result<(), E> {
        let mut out = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, placeholder, after)) = next_placeholder(rest) {
            out += before;
            out += &find(placeholder)?;
            rest = after;
        }
        out += rest;
        self.text = out;
        Ok(())
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
    /// By what is shown: one read from a record is the one that was written there.
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
        Ok(Secret { text: shown.clone(), shown })
    }
}

/// Where a secret is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder<'a> {
    /// `${env:NAME}`: an environment variable.
    Environment(&'a str),
    /// `${file:PATH}`: the content of a file, without the end of its last line.
    File(&'a str),
    /// `${prompt:WORDS}`: what the user types when asked with these words.
    Prompt(&'a str),
}

/// The first placeholder, with what is before and after it.
fn next_placeholder(text: &str) -> Option<(&str, Placeholder<'_>, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("${").map(|at| at + from) {
        let inside = &text[at + 2..];
        if let Some(end) = inside.find('}')
            && let Some((kind, name)) = inside[..end].split_once(':')
        {
            let placeholder = match kind {
                "env" => Some(Placeholder::Environment(name)),
                "file" => Some(Placeholder::File(name)),
                "prompt" => Some(Placeholder::Prompt(name)),
                _ => None,
            };
            if let Some(placeholder) = placeholder {
                return Some((&text[..at], placeholder, &inside[end + 1..]));
            }
        }
        from = at + 2;
    }
    None
}

/// Which parts of a text are secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretParts {
    /// An address: the user's name and password, and what parameters with a telling name carry.
    Url,
    /// A header field `NAME: VALUE`: the value of one that carries credentials.
    Header,
    /// Anything else: what follows a telling name, in a form, in JSON, in XML.
    Pairs,
    /// All of it.
    Whole,
}

impl SecretParts {
    /// The text without its secrets. A part with a placeholder in it stays: the secret is not in it.
    pub fn hide(self, text: &str) -> String {
        match self {
            SecretParts::Url => hide_in_url(text),
            SecretParts::Header => match text.split_once(':') {
                // No header, and what it was to be is not known.
                None if is_telling_header(text) => HIDDEN.into(),
                Some((name, _)) if name.trim().contains(' ') && is_telling_header(name) => HIDDEN.into(),
                Some((name, value)) if is_telling_header(name) => {
                    let value = value.trim();
                    format!("{name}: {}", if has_placeholder(value) { value } else { HIDDEN })
                }
                Some((name, value)) => format!("{name}:{}", hide_pairs(value)),
                None => hide_pairs(text),
            },
            SecretParts::Pairs => hide_pairs(text),
            SecretParts::Whole if has_placeholder(text) || text.is_empty() => text.into(),
            SecretParts::Whole => HIDDEN.into(),
        }
    }
}

fn has_placeholder(text: &str) -> bool {
    next_placeholder(text).is_some()
}

fn hide_in_url(text: &str) -> String {
    let from = text.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = text.split_at(from);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A placeholder may hold a slash of its own, as in a file's path.
    let end = if has_placeholder(rest) { rest.len() } else { end };
    match rest[..end].rfind('@') {
        Some(at) if has_placeholder(&rest[..at]) => {
            format!("{scheme}{}@{}", &rest[..at], hide_pairs(&rest[at + 1..]))
        }
        Some(at) => format!("{scheme}{HIDDEN}@{}", hide_pairs(&rest[at + 1..])),
        None => format!("{scheme}{}", hide_pairs(rest)),
    }
}

/// Whether what has this name is likely a secret, whatever its case and its hyphens.
fn is_telling(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    const PARTS: [&str; 13] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "apikey",
        "accesskey",
        "privatekey",
        "credential",
        "signature",
        "authorization",
        "sessionid",
        "sessid",
    ];
    const WHOLE: [&str; 9] = ["pwd", "pass", "key", "sig", "auth", "session", "sid", "jwt", "cookie"];
    WHOLE.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part))
}

fn is_telling_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_telling(name) || lower.contains("auth") || lower.contains("cookie")
}

/// Hides what follows each telling name: `token=...`, `"password": "..."`, `<pwd>...<`.
fn hide_pairs(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut out = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(is_name) {
        let name_end = rest[begin..].find(|c| !is_name(c)).map_or(rest.len(), |at| begin + at);
        let name = &rest[begin..name_end];
        let behind = &rest[name_end..];
        let value_at = is_telling(name).then(|| value_after(behind)).flatten();
        let Some((skip, length)) = value_at else {
            out += &rest[..name_end];
            rest = behind;
            continue;
        };
        let value = &behind[skip..skip + length];
        out += &rest[..name_end + skip];
        out += if value.is_empty() || has_placeholder(value) { value } else { HIDDEN };
        rest = &behind[skip + length..];
    }
    out + rest
}

/// Where the value behind a name begins and how long it is: after an optional quote, blanks, a separator, blanks and an
/// optional quote.
fn value_after(text: &str) -> Option<(usize, usize)> {
    let after_name = text.strip_prefix(['"', '\'']).unwrap_or(text).trim_start();
    let value = after_name.strip_prefix(['=', ':', '>'])?.trim_start_matches([' ', '\t']);
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let begin = text.len() - value.len() + usize::from(quote.is_some());
    let value = &text[begin..];
    let length = match quote {
        Some(quote) => {
            let mut escaped = false;
            let end = value.char_indices().find(|(_, c)| {
                let ends = *c == quote && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.map_or(value.len(), |(at, _)| at)
        }
        // A placeholder may hold what would end a value, such as blanks in the words of a prompt.
        None if value.starts_with("${") => value.find('}').map_or(value.len(), |at| at + 1),
        None => {
            let ends = |c: char| c.is_whitespace() || "&;,<>\"'})]#".contains(c);
            value.find(ends).unwrap_or(value.len())
        }
    };
    Some((begin, length))
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
            (Url, "http://me:${file:/a/b}@a/x", "http://me:${file:/a/b}@a/x"),
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
            (Pairs, "pwd='a b' --token xyz", "pwd='***' --token xyz"),
            (Pairs, "the key is = abc", "the key is = abc"),
            (Pairs, "password=${prompt:The password} x", "password=${prompt:The password} x"),
            (Pairs, "tokenizer: good, monkey: fine", "tokenizer: ***, monkey: fine"),
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
