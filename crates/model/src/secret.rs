//! Texts with secret parts: the full text for their use, and a text without secrets for everything else.
//!
//! A placeholder (`${env:NAME}`, `${file:PATH}`, `${prompt:WORDS}`) refers to a secret. It is recorded as
//! written, so that the experiment can be run again. `${dependency:NAME}` has the same form, and is no secret. A secret that is written directly appears as `***` in
//! every record, report and message.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod command;
mod form;
mod mask;
mod multipart;
mod name;
mod quoted;

pub(crate) use mask::mask_line;
pub use mask::{WhyHidden, mask, mask_written};
use name::{is_secret_attribute, is_secret_variable, is_sensitive_header};

/// The replacement of a secret.
pub const HIDDEN: &str = "***";

/// A text with secret parts. It is shown, compared and recorded without them.
#[derive(Clone, Default, Eq)]
pub struct Secret {
    shown: String,
    text: String,
    why: Option<WhyHidden>,
    /// Whether asterisks in it stand for themselves.
    is_literal: bool,
}

impl Secret {
    /// A text with the given secret parts.
    pub fn new(text: &str, parts: SecretParts) -> Secret {
        let (shown, why) = parts.hide_why(text);
        let is_literal = parts == SecretParts::Command && command::has_literal_asterisks(&[text]);
        Secret { shown, text: text.into(), why, is_literal }
    }

    /// The texts of a list. The words of a command are looked at together: a flag and its value are two of them.
    pub fn list(texts: &[&str], parts: SecretParts) -> Vec<Secret> {
        match (parts, texts) {
            (SecretParts::Command, [_, _, ..]) => {
                let is_literal = command::has_literal_asterisks(texts);
                let hidden = command::hide_words(texts).into_iter();
                let of = |(text, (shown, why)): (&&str, _)| Secret {
                    shown,
                    text: (*text).into(),
                    why,
                    is_literal,
                };
                texts.iter().zip(hidden).map(of).collect()
            }
            _ => texts.iter().map(|text| Secret::new(text, parts)).collect(),
        }
    }

    /// A command line with values that are secret by the name of what they are put in place of: `shown` is the line with `***`
    /// instead of them.
    pub fn command(text: &str, shown: &str) -> Secret {
        let (hidden, why) = SecretParts::Command.hide_why(shown);
        let why = why.or((shown != text).then_some(WhyHidden::Name));
        let is_literal = shown == text && command::has_literal_asterisks(&[text]);
        Secret { shown: hidden, text: text.into(), why, is_literal }
    }

    /// A text with a value in place of a name, which is shown as given.
    pub fn filled(text: &Secret, place: &str, value: &str, shown: &str) -> Secret {
        text.replaced(|text| text.replace(place, shown), |text| text.replace(place, value))
    }

    /// Another text made of this one, such as one word of a command line. What is shown is made in the same way.
    pub fn map(&self, change: impl Fn(&str) -> String) -> Secret {
        self.replaced(&change, &change)
    }

    fn replaced(&self, shown: impl Fn(&str) -> String, text: impl Fn(&str) -> String) -> Secret {
        Secret { shown: shown(&self.shown), text: text(&self.text), ..self.clone() }
    }

    /// Numbers what is hidden in the same way in several texts, so that they stay distinct.
    pub fn distinguish(secrets: &mut [&mut Secret]) {
        for at in 1..secrets.len() {
            let (before, [this, ..]) = secrets.split_at_mut(at) else { return };
            let same = |other: &&&mut Secret| other.shown == this.shown && other.text != this.text;
            if this.why.is_some() && before.iter().any(|other| same(&other)) {
                this.shown = this.shown.replacen(HIDDEN, &format!("{HIDDEN}{}", at + 1), 1);
            }
        }
    }

    /// A text without secret parts.
    pub fn plain(text: &str) -> Secret {
        Secret { shown: text.into(), text: text.into(), why: None, is_literal: false }
    }

    /// The value of a variable: completely secret if the name of the variable suggests it, otherwise treated
    /// like a URL.
    pub fn of_variable(name: &str, value: &str) -> Secret {
        if is_secret_variable(name, value) {
            return Secret::new(value, SecretParts::Whole);
        }
        let of_url = Secret::new(value, SecretParts::Url);
        match of_url.why {
            Some(_) => of_url,
            // The arguments of a program, such as CURL_OPTS.
            None => {
                let program = name.to_ascii_lowercase();
                let ends = ["_opts", "_options", "_args", "_flags", "_opt"];
                let program = ends.iter().find_map(|end| program.strip_suffix(end)).unwrap_or(&program);
                let (shown, why) = SecretParts::Command.hide_why(&format!("{program} {value}"));
                let shown = shown[program.len() + 1..].to_string();
                Secret { shown, text: value.into(), why, is_literal: false }
            }
        }
    }

    /// The level of a factor with this name, if the name is that of a secret. Numbers and Booleans say how something about it is
    /// set.
    pub fn of_level(name: &str, level: &str) -> Option<Secret> {
        let is_plain = level.parse::<bool>().is_ok() || level.len() < 4 && level.parse::<u32>().is_ok();
        let is_secret = !is_plain && is_secret_variable(name, level);
        is_secret.then(|| Secret::new(level, SecretParts::Whole))
    }

    /// The full text, for its use.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The text without its secret parts.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Why a part of it is hidden; none if nothing is.
    pub fn why_hidden(&self) -> Option<WhyHidden> {
        self.why
    }

    /// Whether it was read from a record, which does not contain directly written secrets.
    pub fn is_missing(&self) -> bool {
        !self.is_literal && self.shown == self.text && self.text.contains(HIDDEN)
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
        Ok(Secret { text: shown.clone(), shown, why: None, is_literal: false })
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
    /// Any other text: the values after suggestive names, in a form, in JSON, in XML, in a filter of LDAP.
    Pairs,
    /// A value of an attribute of a directory: `NAME: VALUE`, with or without a word of what is done with it before: all of the
    /// value, if the name is one of a secret.
    Attribute,
    /// A command line: as any other text, and the values of the flags that programs have for credentials.
    Command,
    /// The name and address of a machine. It may have a command line: `NAME=exec:COMMAND`.
    Machine,
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
                Some((name, value)) if is_login(name, value.trim()) => {
                    (format!("{name}: {HIDDEN}"), Some(WhyHidden::Address))
                }
                _ => hide_in_text(text),
            },
            SecretParts::Pairs => hide_in_text(text),
            SecretParts::Attribute => match text.split_once(':') {
                Some((before, value)) if is_secret_attribute(before) && !has_placeholder(value) => {
                    (format!("{before}: {HIDDEN}"), Some(WhyHidden::Name))
                }
                Some((before, _)) if is_secret_attribute(before) => (text.into(), None),
                _ => hide_in_text(text),
            },
            SecretParts::Command => command::hide(text),
            SecretParts::Machine => match text.find("exec:") {
                Some(at) => {
                    let (name, line) = text.split_at(at + "exec:".len());
                    let (shown, why) = command::hide(line);
                    (format!("{name}{shown}"), why)
                }
                None => hide_in_url(text),
            },
            SecretParts::Whole if has_placeholder(text) || text.is_empty() => (text.into(), None),
            SecretParts::Whole => whole(),
        }
    }
}

/// Whether a header field has a user and a password: `X-User: USER:PASSWORD`.
fn is_login(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let names_user =
        ["user", "login", "account"].iter().any(|word| name.contains(word)) && !name.contains("agent");
    let is_pair =
        value.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty());
    names_user && is_pair && !value.contains([' ', '/']) && !has_placeholder(value)
}

/// The part of a text that is replaced in what is shown of it.
fn changed_range(text: &str, shown: &str) -> Option<std::ops::Range<usize>> {
    let begin = shown.find(HIDDEN)?;
    let end = text.len().checked_sub(shown.len() - begin - HIDDEN.len())?;
    (text.get(..begin)? == &shown[..begin] && begin < end && text.is_char_boundary(end)).then_some(begin..end)
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
        use SecretParts::{Attribute, Header, Pairs, Url, Whole};
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
            (Attribute, "userPassword: a b", "userPassword: ***"),
            (Attribute, "replace userPassword: p${number}", "replace userPassword: ***"),
            (Attribute, "add unicodePwd;binary:: QQ==", "add unicodePwd;binary: ***"),
            (Attribute, "replace userPassword: ${env:P}", "replace userPassword: ${env:P}"),
            (Attribute, "replace description: a: b", "replace description: a: b"),
            (Attribute, "pwdMaxAge: 7", "pwdMaxAge: 7"),
            (Attribute, "delete userPassword", "delete userPassword"),
            (Pairs, "(&(uid=a)(userPassword=pw))", "(&(uid=a)(userPassword=***))"),
            (Header, "Accept: */*", "Accept: */*"),
            (Header, "Authorization: Bearer abc", "Authorization: ***"),
            (Header, "authorization:Bearer ${env:T}", "authorization: Bearer ${env:T}"),
            (Header, "Cookie: a=b; c=d", "Cookie: ***"),
            (Header, "X-Api-Key: 1", "X-Api-Key: ***"),
            (Header, "X-Auth: 1", "X-Auth: ***"),
            (Header, "X-Pin: 1234", "X-Pin: ***"),
            (Header, "Otp: 123456", "Otp: ***"),
            (Header, "X-Session: a", "X-Session: ***"),
            (Header, "X-CSRF: a", "X-CSRF: ***"),
            (Header, "X-User: bob:pw", "X-User: ***"),
            (Header, "X-User: bob", "X-User: bob"),
            (Header, "User-Agent: a:b", "User-Agent: a:b"),
            (Header, "X-Author: jane", "X-Author: jane"),
            (Header, "X-Tokenizer: bpe", "X-Tokenizer: bpe"),
            (Header, "Surrogate-Key: a b", "Surrogate-Key: a b"),
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
            (Pairs, "monkey: fine, tokenizer: good, tokens: x", "monkey: fine, tokenizer: good, tokens: ***"),
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
            ("CREDS", "a", "***"),
            ("OTP_SEED", "a", "***"),
            ("USERPASS", "a", "***"),
            ("SQLPLUS", "u/p@db", "***@db"),
            ("CURL_OPTS", "-s -u b:p", "-s -u ***"),
            ("MYSQL_OPTS", "-pX -P 3306", "-p*** -P 3306"),
            ("JAVA_OPTS", "-Dx.password=X -Xmx1g", "-Dx.password=*** -Xmx1g"),
            ("RUSTFLAGS", "-C target-cpu=native", "-C target-cpu=native"),
            ("BYPASS", "yes", "yes"),
        ] {
            assert_eq!(Secret::of_variable(name, value).to_string(), shown);
        }
        for name in [
            "ROOTPW",
            "ADMINPW",
            "LDAP_BINDPW",
            "BIND_PW",
            "ACCOUNTKEY",
            "APPKEY",
            "MY_APPKEY",
            "APIKEY",
            "AUTHKEY",
            "STORAGEKEY",
            "MASTERKEY",
            "WEBHOOK_URL",
            "SLACK_WEBHOOK_URL",
            "SLACK_WEBHOOK",
            "SAS",
            "AZURE_SAS",
            "MFA",
            "PIN",
            "OTP",
            "TOTP",
            "CVV",
            "DEVICE_CODE",
            "X_JWT",
            "HSM_PIN",
        ] {
            assert_eq!(Secret::of_variable(name, "S3CRET1").to_string(), "***", "{name}");
        }
        for name in [
            "MONKEY",
            "HOTKEY",
            "PUBLICKEY",
            "PUBLIC_KEY",
            "KEYBOARD",
            "TURKEY",
            "PRIMARYKEY",
            "PRIMARY_KEY",
            "KEYMAP",
            "SASL_MECHANISM",
            "SASS",
            "CODE",
            "TICKET",
            "JIRA_TICKET",
            "STATUS_CODE",
            "PINNED",
            "GPIO_PIN",
            "ORACLE_SID",
            "PASSWORD_FILE",
            "BASE_URL",
            "LICENSE",
            "WHISKEY",
            "JOCKEY",
            "MFA_METHOD",
        ] {
            assert_eq!(Secret::of_variable(name, "a17").to_string(), "a17", "{name}");
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
