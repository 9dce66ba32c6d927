//! How two values of an attribute are compared: as the matching rules of directories (RFC 4517) say, or exactly.

use std::borrow::Cow;

use crate::index_key::IndexKey;
use crate::naming::dn_key;

/// How two values of an attribute are compared. If systems disagree about an attribute, the last one in this order
/// applies: it finds an object in every case in which the others do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// Byte by byte.
    #[default]
    Exact,
    /// Spaces at the ends have no effect, and consecutive spaces are one: caseExactMatch.
    Spaces,
    /// Upper and lower case are the same.
    Case,
    /// Neither case nor additional spaces have an effect: caseIgnoreMatch.
    CaseAndSpaces,
    /// No space has an effect: numericStringMatch.
    NumericString,
    /// Neither spaces nor hyphens have an effect: telephoneNumberMatch.
    TelephoneNumber,
    /// By the number: integerMatch.
    Integer,
    /// By the distinguished name, however it is written: distinguishedNameMatch.
    DistinguishedName,
}

impl Comparison {
    const NAMES: [(Comparison, &'static str); 8] = [
        (Comparison::Exact, "exactly"),
        (Comparison::Spaces, "without additional spaces"),
        (Comparison::Case, "without case"),
        (Comparison::CaseAndSpaces, "without case and additional spaces"),
        (Comparison::NumericString, "without spaces"),
        (Comparison::TelephoneNumber, "as a telephone number"),
        (Comparison::Integer, "as a number"),
        (Comparison::DistinguishedName, "as a distinguished name"),
    ];

    /// Its name, after "compared".
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(comparison, _)| *comparison == self).map_or("", |(_, name)| name)
    }

    /// The comparison with a name.
    pub fn named(name: &str) -> Option<Comparison> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(comparison, _)| *comparison)
    }

    /// Whether all values that differ only in case are the same.
    pub(crate) fn ignores_case(self) -> bool {
        matches!(self, Comparison::Case | Comparison::CaseAndSpaces | Comparison::TelephoneNumber)
    }

    /// The form of a value that is the same for all values that are equal to it. A value that does not have the
    /// syntax of the comparison is only equal to itself.
    pub fn normalized(self, value: &[u8]) -> Cow<'_, [u8]> {
        let text = match self {
            Comparison::Exact => None,
            _ => std::str::from_utf8(value).ok(),
        };
        let Some(text) = text else { return value.into() };
        let normalized = match self {
            Comparison::Exact => None,
            Comparison::Spaces => Some(single_spaces(text)),
            Comparison::Case => Some(text.to_lowercase()),
            Comparison::CaseAndSpaces => Some(single_spaces(&text.to_lowercase())),
            Comparison::NumericString => Some(text.replace(char::is_whitespace, "")),
            Comparison::TelephoneNumber => {
                let is_left_out = |of: char| of.is_whitespace() || is_hyphen(of);
                Some(text.replace(is_left_out, "").to_lowercase())
            }
            Comparison::Integer => integer(text),
            Comparison::DistinguishedName => return dn_key(text).into(),
        };
        match normalized.filter(|normalized| !normalized.is_empty()) {
            Some(normalized) => normalized.into_bytes().into(),
            None => value.into(),
        }
    }

    /// The key of a value: the same for all values that are equal to it.
    pub fn key(self, value: &[u8]) -> IndexKey {
        IndexKey::of(&self.normalized(value))
    }

    /// Whether two values are equal.
    pub(crate) fn is_same(self, one: &[u8], other: &[u8]) -> bool {
        one == other || self != Comparison::Exact && self.normalized(one) == self.normalized(other)
    }
}

fn single_spaces(text: &str) -> String {
    let mut single = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !single.is_empty() {
            single.push(' ');
        }
        single.push_str(word);
    }
    single
}

/// The hyphens of RFC 4518, section 2.6.3.
fn is_hyphen(of: char) -> bool {
    matches!(of, '-' | '\u{58a}' | '\u{2010}' | '\u{2011}' | '\u{2212}' | '\u{fe63}' | '\u{ff0d}' | '\u{ad}')
}

/// A whole number without leading zeros.
fn integer(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { "0".into() } else { format!("{sign}{digits}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_as_their_matching_rules_say() {
        use Comparison::{
            Case, CaseAndSpaces, DistinguishedName, Exact, Integer, NumericString, Spaces, TelephoneNumber,
        };
        let cases: &[(Comparison, &str, &str, bool)] = &[
            (Exact, "Ada", "ada", false),
            (Exact, "Ada", "Ada", true),
            (Spaces, " Ada  Byron ", "Ada Byron", true),
            (Spaces, "ada", "Ada", false),
            (Case, "ÄDA@x", "äda@X", true),
            (Case, "Ada  B", "ada b", false),
            (CaseAndSpaces, " Ada\tByron", "ada  BYRON", true),
            (CaseAndSpaces, "adabyron", "ada byron", false),
            (NumericString, "15 079 672 281", "15079672281", true),
            (TelephoneNumber, "+47 22-33 44", "+47223344", true),
            (TelephoneNumber, "+47 1", "+47 2", false),
            // A value of hyphens only is a value.
            (TelephoneNumber, "-", " - -", false),
            (Integer, " 007", "7", true),
            (Integer, "-0", "0", true),
            (Integer, "-7", "7", false),
            (Integer, "seven", "Seven", false),
            (DistinguishedName, "CN=Ada Byron, DC=plim", "cn=ada byron,dc=plim", true),
            (DistinguishedName, "cn=ada,dc=plim", "cn=alan,dc=plim", false),
            (DistinguishedName, "no name", "No name", false),
        ];
        for (comparison, one, other, is_same) in cases {
            let (one, other) = (one.as_bytes(), other.as_bytes());
            assert_eq!(comparison.is_same(one, other), *is_same, "{comparison:?} {one:?} {other:?}");
            assert_eq!(comparison.key(one) == comparison.key(other), *is_same, "{comparison:?}");
        }
        for (comparison, name) in Comparison::NAMES {
            assert_eq!((Comparison::named(name), comparison.name()), (Some(comparison), name));
            // Bytes that are no text are only equal to themselves.
            assert!(comparison.is_same(b"\xff", b"\xff") && !comparison.is_same(b"\xff", b"\xfe"));
        }
    }
}
