//! The schema of a directory: its attributes, and how their values are compared.

use std::collections::HashMap;

use ldap::session::Session;

use super::{Settings, entry};
use metadir::agent::AgentError;
use metadir::comparison::Comparison;

/// The descriptions of the attributes in the server's schema.
fn described(settings: &Settings, session: &mut Session, help: &str) -> Result<Vec<String>, AgentError> {
    let failed = |why: String| AgentError::system(format!("reading the schema of {}", settings.server), why);
    let read = |session: &mut Session, dn: &str, name: &str| {
        let entry = entry(session, dn, &[name]).map_err(|error| failed(format!("{error}; {help}")))?;
        let values = entry.and_then(|mut entry| entry.remove(&name.to_ascii_lowercase()));
        values.ok_or_else(|| failed(format!("{dn:?} shows no {name}; {help}")))
    };
    let place = read(session, "", "subschemaSubentry")?;
    let place = place.first().map(|place| String::from_utf8_lossy(place).into_owned()).unwrap_or_default();
    let described = read(session, &place, "attributeTypes")?;
    Ok(described.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
}

/// The user attributes in the server's schema, without operational ones.
pub(super) fn user_attributes(settings: &Settings, session: &mut Session) -> Result<Vec<String>, AgentError> {
    let described = described(settings, session, "or name the attributes to be read with `attributes`")?;
    Ok(described.iter().filter_map(|text| user_attribute(text)).collect())
}

/// How the server compares the values of attributes; none for an attribute that its schema does not describe.
pub(super) fn comparisons(
    settings: &Settings,
    session: &mut Session,
    attributes: &[&str],
) -> Result<Vec<Option<Comparison>>, AgentError> {
    let help = "`ignore_case` in the join rules makes the schema unnecessary";
    let described = described(settings, session, help)?;
    let types = by_name(described.iter().map(String::as_str));
    Ok(attributes.iter().map(|name| comparison(&types, name)).collect())
}

/// The attribute types by their names and numbers in lower case.
fn by_name<'t>(described: impl Iterator<Item = &'t str>) -> HashMap<String, AttributeType<'t>> {
    let mut types = HashMap::new();
    for of_type in described.filter_map(AttributeType::parse) {
        let names = of_type.names.iter().chain([&of_type.oid]).map(|name| name.to_ascii_lowercase());
        names.for_each(|name| drop(types.insert(name, of_type.clone())));
    }
    types
}

/// How values of an attribute are compared: by its matching rule for equality, or that of its supertype; without
/// one, as values of its syntax are usually compared.
fn comparison(types: &HashMap<String, AttributeType<'_>>, name: &str) -> Option<Comparison> {
    let named = |name: &str| types.get(&name.to_ascii_lowercase());
    let first = named(name).or_else(|| named(name.split(';').next()?))?;
    let mut syntax = None;
    let mut at = Some(first);
    // A cycle of supertypes ends too.
    for _ in 0..types.len() {
        let Some(of_type) = at else { break };
        if let Some(rule) = of_type.equality {
            return of_rule(rule);
        }
        syntax = syntax.or(of_type.syntax);
        at = of_type.supertype.and_then(named);
    }
    of_syntax(syntax?)
}

/// What a matching rule compares, by its name or its number; none if it is not supported.
fn of_rule(rule: &str) -> Option<Comparison> {
    Some(match rule.to_ascii_lowercase().as_str() {
        "caseexactmatch" | "caseexactia5match" | "2.5.13.5" | "1.3.6.1.4.1.1466.109.114.1" => {
            Comparison::Spaces
        }
        "caseignorematch" | "caseignoreia5match" | "caseignorelistmatch" => Comparison::CaseAndSpaces,
        "2.5.13.2" | "1.3.6.1.4.1.1466.109.114.2" | "2.5.13.11" => Comparison::CaseAndSpaces,
        "numericstringmatch" | "2.5.13.8" => Comparison::NumericString,
        "telephonenumbermatch" | "2.5.13.20" => Comparison::TelephoneNumber,
        "integermatch" | "2.5.13.14" => Comparison::Integer,
        "distinguishednamematch" | "uniquemembermatch" | "2.5.13.1" | "2.5.13.23" => {
            Comparison::DistinguishedName
        }
        "objectidentifiermatch" | "booleanmatch" | "uuidmatch" => Comparison::Case,
        "2.5.13.0" | "2.5.13.13" | "1.3.6.1.1.16.2" => Comparison::Case,
        "octetstringmatch" | "bitstringmatch" | "generalizedtimematch" => Comparison::Exact,
        "2.5.13.17" | "2.5.13.16" | "2.5.13.27" => Comparison::Exact,
        _ => return None,
    })
}

/// What is compared in values of a syntax, by its number. Active Directory shows no matching rules.
fn of_syntax(syntax: &str) -> Option<Comparison> {
    let number = syntax.split('{').next()?;
    Some(match number.strip_prefix("1.3.6.1.4.1.1466.115.121.1.").unwrap_or(number) {
        "15" | "11" | "26" | "41" | "44" | "1.2.840.113556.1.4.905" => Comparison::CaseAndSpaces,
        "1.2.840.113556.1.4.1362" => Comparison::Spaces,
        "36" => Comparison::NumericString,
        "50" => Comparison::TelephoneNumber,
        "27" | "1.2.840.113556.1.4.906" => Comparison::Integer,
        "12" | "34" => Comparison::DistinguishedName,
        "7" | "38" | "1.3.6.1.1.16.1" => Comparison::Case,
        "5" | "6" | "8" | "24" | "28" | "40" | "53" => Comparison::Exact,
        _ => return None,
    })
}

/// An attribute type description (RFC 4512, section 4.1.2).
#[derive(Clone)]
struct AttributeType<'t> {
    oid: &'t str,
    names: Vec<&'t str>,
    supertype: Option<&'t str>,
    equality: Option<&'t str>,
    syntax: Option<&'t str>,
    usage: Option<&'t str>,
}

impl<'t> AttributeType<'t> {
    fn parse(described: &'t str) -> Option<Self> {
        let mut words = Vec::new();
        let mut rest = described;
        let is_between = |of: char| of.is_whitespace() || matches!(of, '(' | ')');
        while let Some(at) = rest.find(|of: char| !is_between(of)) {
            rest = &rest[at..];
            let (word, after) = match rest.strip_prefix('\'') {
                Some(quoted) => quoted.split_once('\'')?,
                None => rest.split_at(rest.find(is_between).unwrap_or(rest.len())),
            };
            words.push((rest.starts_with('\''), word));
            rest = after;
        }
        let place = |keyword| words.iter().position(|(is_quoted, word)| !is_quoted && *word == keyword);
        let after = |keyword| Some(words.get(place(keyword)? + 1)?.1);
        let of_names = place("NAME").into_iter().flat_map(|at| &words[at + 1..]);
        Some(AttributeType {
            oid: words.first()?.1,
            names: of_names.take_while(|(is_quoted, _)| *is_quoted).map(|(_, name)| *name).collect(),
            supertype: after("SUP"),
            equality: after("EQUALITY"),
            syntax: after("SYNTAX"),
            usage: after("USAGE"),
        })
    }
}

/// The first name in an attribute type description; none if the attribute is operational.
pub(super) fn user_attribute(described: &str) -> Option<String> {
    let of_type = AttributeType::parse(described)?;
    match of_type.usage {
        None | Some("userApplications") => of_type.names.first().map(ToString::to_string),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_the_rule_the_supertype_or_the_syntax() {
        let described = [
            "( 2.5.4.41 NAME 'name' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15{32768} )",
            "( 2.5.4.3 NAME ( 'cn' 'commonName' ) DESC 'EQUALITY x' SUP name )",
            "( 1.1.1 NAME 'login' SUP 2.5.4.3 EQUALITY 2.5.13.5 )",
            "( 2.5.4.20 NAME 'telephoneNumber' EQUALITY telephoneNumberMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.50{32} )",
            // Active Directory.
            "( 1.2.840.113556.1.2.610 NAME 'employeeNumber' SYNTAX '1.3.6.1.4.1.1466.115.121.1.15' SINGLE-VALUE )",
            "( 2.5.4.31 NAME 'member' SYNTAX '1.3.6.1.4.1.1466.115.121.1.12' )",
            "( 1.1.2 NAME 'strange' EQUALITY strangeMatch )",
            "( 1.1.3 NAME 'one' SUP other )",
            "( 1.1.4 NAME 'other' SUP one )",
            "",
        ];
        let types = by_name(described.into_iter());
        for (name, expected) in [
            ("CommonName", Some(Comparison::CaseAndSpaces)),
            ("cn;lang-de", Some(Comparison::CaseAndSpaces)),
            ("login", Some(Comparison::Spaces)),
            ("telephonenumber", Some(Comparison::TelephoneNumber)),
            ("employeeNumber", Some(Comparison::CaseAndSpaces)),
            ("member", Some(Comparison::DistinguishedName)),
            ("strange", None),
            ("one", None),
            ("nothing", None),
        ] {
            assert_eq!(comparison(&types, name), expected, "{name}");
        }
    }
}
