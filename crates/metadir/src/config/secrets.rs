//! A configuration for display. Passwords do not belong into a configuration; if there is one, an error says
//! so without showing it.

/// Words that mark a key as a secret, unless the key names the place of the secret.
const SECRETS: [&str; 3] = ["pass", "token", "secret"];
const PLACES: [&str; 2] = ["file", "env"];

/// The text with asterisks in place of possible secrets: the password in a URL, and the value of a key such
/// as `password`. Offsets do not change.
pub fn without_secrets(text: &str) -> String {
    text.split_inclusive('\n').map(line_without_secrets).collect()
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
        if has_value
            && SECRETS.iter().any(|secret| name.contains(secret))
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
