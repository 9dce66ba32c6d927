//! Secrets stay hidden: in a configuration that is displayed, and in the values of attributes.
//!
//! Passwords do not belong into a configuration. If there is one, an error says so without showing it. Constants
//! may be marked as secret.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Config, ExportFlow, ImportFlow, Source, WriteOnlySource};

/// Attributes that hold passwords wherever they occur.
const PASSWORDS: [&str; 3] = ["userPassword", "unicodePwd", "password"];

/// What is displayed in place of a secret value.
pub const HIDDEN: &str = crate::secret::HIDDEN;

/// The attributes whose values are never displayed: well-known passwords, those in `write_only`, those of flows
/// that are marked as secret, and all attributes to which their values flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The names in lower case, besides the well-known ones.
    names: BTreeSet<String>,
    /// Those of them that are never read.
    write_only: BTreeSet<String>,
}

impl Secrets {
    /// The secret attributes of a configuration.
    pub(super) fn of(config: &Config) -> Secrets {
        let mut secrets = Secrets::default();
        for rules in &config.outbound {
            for write_only in &rules.write_only {
                secrets.write_only.insert(write_only.to.to_lowercase());
                // Where it comes from is as secret.
                if let WriteOnlySource::Flow(Source::Direct(name)) = &write_only.from {
                    secrets.names.insert(name.to_lowercase());
                }
            }
        }
        let inbound = config.inbound.iter().flat_map(|rules| {
            let to = &config.types[rules.to].attributes;
            rules.flows.iter().map(move |ImportFlow { to: at, from, is_secret, .. }| {
                (to[*at].name.as_str(), from, *is_secret)
            })
        });
        let outbound = config.outbound.iter().flat_map(|rules| rules.flows.iter().chain(&rules.initial));
        let outbound = outbound.map(|ExportFlow { to, from, is_secret, .. }| (to.as_str(), from, *is_secret));
        let flows: Vec<(&str, &Source, bool)> = inbound.chain(outbound).collect();
        loop {
            let reads_secret = |from: &Source| match from {
                Source::Direct(name) => secrets.hides(name),
                Source::Expression(expression) => expression.uses().iter().any(|name| secrets.hides(name)),
                Source::Constant(_) => false,
            };
            let mut found = flows
                .iter()
                .filter(|(to, from, is_secret)| !secrets.hides(to) && (*is_secret || reads_secret(from)));
            let Some((to, ..)) = found.next() else { return secrets };
            secrets.names.insert(to.to_lowercase());
        }
    }

    /// Whether the values of an attribute are hidden.
    pub fn hides(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        is_password(name) || self.names.contains(&lower) || self.write_only.contains(&lower)
    }

    /// Whether no system shows an attribute.
    pub fn is_never_shown(&self, name: &str) -> bool {
        is_password(name) || self.write_only.contains(&name.to_lowercase())
    }

    /// A text without the secret values in it. Values of less than 4 bytes would hide ordinary words.
    pub(crate) fn without<'a>(text: &str, values: impl Iterator<Item = &'a [u8]>) -> String {
        let values = values.filter_map(|value| std::str::from_utf8(value).ok());
        values
            .filter(|value| value.len() >= 4)
            .fold(text.to_string(), |text, value| text.replace(value, HIDDEN))
    }
}

pub(super) fn is_password(name: &str) -> bool {
    PASSWORDS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Words that mark a key as a secret, unless the key names the place of the secret.
const SECRETS: [&str; 3] = ["pass", "token", "secret"];
const PLACES: [&str; 2] = ["file", "env"];
/// Words that contain one of them and name no secret: attributes of persons.
const ORDINARY: [&str; 3] = ["secretary", "passport", "passenger"];

/// The text with asterisks in place of possible secrets: the password in a URL, and the value of a key such
/// as `password`. Offsets do not change.
pub fn without_secrets(text: &str) -> String {
    let mut shown: String = text.split_inclusive('\n').map(line_without_secrets).collect();
    let mut spans = Vec::new();
    marked(DeTable::parse_recoverable(text).0.get_ref(), false, &mut spans);
    for span in spans.into_iter().filter(|span| text.get(span.clone()).is_some()) {
        hide(&mut shown, span.start, span.end);
    }
    shown
}

/// The places of values that are marked as secret: those in a table with `secret = true`, and those of passwords.
fn marked(table: &DeTable<'_>, is_of_secret: bool, spans: &mut Vec<Range<usize>>) {
    let is_marked = matches!(table.get("secret").map(toml::Spanned::get_ref), Some(DeValue::Boolean(true)));
    for (key, value) in table {
        let is_value = matches!(key.get_ref().as_ref(), "constant" | "expression");
        let is_secret = is_password(key.get_ref()) || is_value && (is_marked || is_of_secret);
        match value.get_ref() {
            DeValue::Table(table) => marked(table, is_secret, spans),
            DeValue::Array(listed) if !is_secret => {
                let tables = listed.iter().filter_map(|value| match value.get_ref() {
                    DeValue::Table(table) => Some(table),
                    _ => None,
                });
                tables.for_each(|table| marked(table, false, spans));
            }
            _ if is_value && is_secret => spans.push(value.span()),
            _ => {}
        }
    }
}

fn line_without_secrets(line: &str) -> String {
    let mut shown = line.to_string();
    let mut from = 0;
    while let Some(at) = shown[from..].find("://") {
        from += at + 3;
        let rest = &shown[from..];
        // A password may contain a quotation mark.
        let quoted = &rest[..rest.find(['"', '\'']).unwrap_or(rest.len())];
        let end = quoted.rfind('@').or(rest.rfind('@'));
        if let Some(end) = end
            && let Some(begin) = rest[..end].find(':')
        {
            hide(&mut shown, from + begin + 1, from + end);
        }
    }
    let is_of_name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    let lower = shown.to_ascii_lowercase();
    let mut names = lower.match_indices(is_of_name).map(|(at, _)| at).peekable();
    while let Some(begin) = names.next() {
        let name: &str = lower[begin..].split(|character| !is_of_name(character)).next().unwrap_or_default();
        let end = begin + name.len();
        while names.next_if(|at| *at < end).is_some() {}
        let behind = lower[end..].trim_start();
        let has_value = behind.starts_with('=') || (behind.len() < lower.len() - end && !behind.is_empty());
        let marking = ORDINARY.iter().fold(name.to_string(), |name, word| name.replace(word, ""));
        if has_value
            && SECRETS.iter().any(|secret| marking.contains(secret))
            && !PLACES.iter().any(|place| name.ends_with(place))
        {
            let length = shown.len();
            hide(&mut shown, end, length);
            break;
        }
    }
    shown
}

/// Replaces a range with asterisks, except the parts that mark where a value is.
fn hide(text: &mut String, begin: usize, end: usize) {
    let hidden: String = text[begin..end]
        .chars()
        .map(|character| match character {
            '=' | '"' | '\'' | ' ' | '\n' | '\r' => character.to_string(),
            _ => "*".repeat(character.len_utf8()),
        })
        .collect();
    text.replace_range(begin..end, &hidden);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_may_be_a_secret_is_hidden_in_its_place() {
        for (text, shown) in [
            ("a = \"postgres://me:geheim@db/x\"\n", "a = \"postgres://me:******@db/x\"\n"),
            ("a = 'postgres://me:ge\"heim@db/x'", "a = 'postgres://me:**\"****@db/x'"),
            ("a = \"ldap://me:g@h:ü@db\" # me@x", "a = \"ldap://me:******@db\" # me@x"),
            ("postgres = \"host=db password=geheim\"", "postgres = \"host=db password=******\""),
            ("postgres = \"host=db pass geheim\"", "postgres = \"host=db pass ******\""),
            ("postgres = host=db Passwort = 'geheim'", "postgres = host=db Passwort = '******'"),
            ("bind_password = \"geheim\"", "bind_password = \"******\""),
            ("token=\"geheim\"\nurl = 1", "token=\"******\"\nurl = 1"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
        for text in [
            "password_file = \"p\"\ntoken_env = \"T\"\npassfile = \"p\"",
            "url = \"ldap://host:389\"",
            "flow = { secretary = \"secretary\", passport = \"passportNumber\" }",
            "postgres = \"host=127.0.0.1 port=5432 user=metadir dbname=identity\"",
            "postgres = \"postgresql://me@db/identity\"",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }

    proptest! {
        #[test]
        fn every_byte_stays_in_its_place(text in "(.|pass|://|:|@|=|\"|\n){0,60}") {
            let shown = without_secrets(&text);
            prop_assert_eq!(shown.len(), text.len());
            let lines = |text: &str| text.match_indices('\n').map(|(at, _)| at).collect::<Vec<_>>();
            prop_assert_eq!(lines(&shown), lines(&text));
        }
    }
}
