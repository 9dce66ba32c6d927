//! Secrets that are known by their form.

use std::ops::Range;

use super::mask::{Part, WhyHidden, is_name, is_shown};
use super::name::is_of_something_public;

/// Schemes of authentication, each with whether any word that follows is a secret.
const SCHEMES: [(&str, bool); 8] = [
    ("bearer", true),
    ("dpop", true),
    ("negotiate", true),
    ("ntlm", true),
    ("basic", false),
    ("digest", false),
    ("apikey", false),
    ("token", false),
];

/// Words that follow the name of a scheme in sentences.
const WORDS: [&str; 12] = [
    "token",
    "tokens",
    "auth",
    "authentication",
    "authorization",
    "scheme",
    "is",
    "and",
    "or",
    "credentials",
    "header",
    "of",
];

/// Addresses that are secret from here on.
const HOOKS: [&str; 3] = ["hooks.slack.com/services/", "/api/webhooks/", "webhook.office.com/webhookb2/"];

/// The beginnings of tokens of well-known services, each with the characters that it has at least.
const BEGINNINGS: [(&str, usize); 33] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("gldt-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("xoxe-", 10),
    ("xapp-", 10),
    ("sk_live_", 12),
    ("sk_test_", 12),
    ("rk_live_", 12),
    ("sk-ant-", 12),
    ("sk-proj-", 12),
    ("sk-", 32),
    ("ya29.", 20),
    ("npm_", 30),
    ("pypi-", 30),
    ("hvs.", 20),
    ("dop_v1_", 30),
    ("shpat_", 20),
    ("SG.", 30),
    ("dckr_pat_", 16),
    ("eyJ", 17),
];

/// Tokens and keys that are known by their form.
pub(super) fn in_forms(text: &str, is_message: bool, offset: usize, found: &mut Vec<Part>) {
    let mut hide = |range: Range<usize>, why| {
        if !is_shown(&text[range.clone()]) {
            found.push(Part { range: offset + range.start..offset + range.end, why });
        }
    };
    let mut at = 0;
    while let Some(begin) = text[at..].find("-----BEGIN ").map(|begin| at + begin) {
        let label = text[begin..].lines().next().unwrap_or_default();
        let end = text[begin..].find("-----END ").map_or(text.len(), |end| begin + end);
        let body = begin + label.find("KEY-----").map_or(label.len(), |end| end + "KEY-----".len());
        if label.contains("PRIVATE KEY") && body < end {
            hide(body..end, WhyHidden::Form);
        }
        at = end.max(begin + 1);
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "_-.~+/=".contains(c);
    for (begin, hook) in HOOKS.iter().flat_map(|hook| text.match_indices(hook)) {
        let begin = begin + hook.len();
        hide(
            begin..text[begin..].find(|c| !is_token(c)).map_or(text.len(), |end| begin + end),
            WhyHidden::Form,
        );
    }
    let mut at = 0;
    while let Some(begin) = text[at..].find(|c: char| c.is_ascii_alphanumeric()).map(|begin| at + begin) {
        let end = text[begin..].find(|c| !is_token(c)).map_or(text.len(), |end| begin + end);
        let word_end =
            begin + text[begin..end].find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(end - begin);
        let word = &text[begin..end];
        at = word_end.max(begin + 1);
        if let Some((_, least)) = BEGINNINGS.iter().find(|(beginning, _)| word.starts_with(beginning)) {
            let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
            if word.len() >= *least && has_digit {
                hide(begin..end, WhyHidden::Form);
                at = end;
                continue;
            }
        }
        let scheme = &text[begin..word_end];
        let Some((_, always)) = SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)) else {
            continue;
        };
        let rest = &text[word_end..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let blanks = if rest.starts_with("%20") { 3 } else { blanks };
        // `bearer = "..."` is a name and its value.
        if blanks == 0 || rest[blanks..].starts_with("${") || rest[blanks..].starts_with("= ") {
            continue;
        }
        let first = word_end + blanks;
        let is_end = |c: char| c.is_whitespace() || "\"'`,;&<>)]}\\".contains(c);
        let last = text[first..].find(is_end).map_or(text.len(), |end| first + end);
        let value = &text[first..last];
        let is_ordinary = value.chars().skip(1).all(|c| c.is_ascii_lowercase() || ".:!?".contains(c));
        let is_word = WORDS.iter().any(|word| value.trim_end_matches(['.', ':']).eq_ignore_ascii_case(word));
        if first < last && !is_word && (!is_ordinary || *always && !is_message) {
            hide(first..last, WhyHidden::Scheme);
            at = last;
        }
    }
}

/// Characters from which a random value is a secret.
const RANDOM_MIN: usize = 24;

/// Long values that look random.
pub(super) fn random(text: &str, offset: usize, found: &mut Vec<Part>) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "_-+/=".contains(c);
    let mut at = 0;
    while let Some(begin) = text[at..].find(|c: char| c.is_ascii_alphanumeric()).map(|begin| at + begin) {
        let end = text[begin..].find(|c| !is_token(c)).map_or(text.len(), |end| begin + end);
        at = end;
        // The name of a pair is not its value.
        let begin = text[begin..end].trim_end_matches('=').rfind('=').map_or(begin, |at| begin + at + 1);
        let value = &text[begin..end];
        let follows = text[..begin].ends_with(['=', ':', '"', '\'', ' ', '\t', '`']);
        if value.len() < RANDOM_MIN || !follows || !is_random(value) {
            continue;
        }
        let name = text[..begin].trim_end_matches(|c: char| !is_name(c));
        let name = &name[name.len() - name.chars().rev().take_while(|c| is_name(*c)).count()..];
        if !is_of_something_public(name) {
            found.push(Part { range: offset + begin..offset + end, why: WhyHidden::Random });
        }
    }
}

/// Whether the characters of a text change between letters, digits and cases as only random ones do.
fn is_random(text: &str) -> bool {
    let text = text.trim_end_matches('=');
    let is_uuid = text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let class = |byte: u8| match byte {
        b'a'..=b'z' => 1_u8,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 4,
        _ => 0,
    };
    let classes = text.bytes().fold(0, |all, byte| all | class(byte));
    let is_hexadecimal = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_uuid || classes & 4 == 0 || classes != 7 && !is_hexadecimal {
        return false;
    }
    let (mut runs, mut before) = (0, 0);
    for of in text.bytes().map(class) {
        // A word may begin with a capital letter.
        runs += usize::from(of != before && !(before == 2 && of == 1));
        before = of;
    }
    text.len() < 3 * runs
}
