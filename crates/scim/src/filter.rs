//! Filters (RFC 7644, section 3.4.2.2) and the paths of PATCH (section 3.5.2).

use serde_json::{Map, Value};

use super::service::Refusal;

/// Limit of the nesting depth.
const DEPTH_MAX: u32 = 32;
/// Limit of the comparisons in one filter.
const TERMS_MAX: u32 = 100;
/// Limit of the rejected text in an error message.
const SHOWN_CHARS_MAX: usize = 100;

/// The path of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// The URN of the extension schema.
    pub(super) schema: Option<String>,
    pub(super) attribute: String,
    pub(super) part: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    /// A flat list, so that the nesting depth does not grow with the number of terms.
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Present(Place),
    Compare(Place, Operator, Value),
    /// At least one value of a multi-valued attribute matches the filter.
    Inside(Place, Box<Filter>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Eq,
    Ne,
    Co,
    Sw,
    Ew,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Operator {
    const NAMES: [(&'static str, Operator); 9] = [
        ("eq", Operator::Eq),
        ("ne", Operator::Ne),
        ("co", Operator::Co),
        ("sw", Operator::Sw),
        ("ew", Operator::Ew),
        ("gt", Operator::Gt),
        ("ge", Operator::Ge),
        ("lt", Operator::Lt),
        ("le", Operator::Le),
    ];
}

/// The target of a PATCH operation: an attribute, optionally a filter for its values, and a sub-attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) place: Place,
    pub(super) filter: Option<Filter>,
}

pub(super) fn filter(text: &str) -> Result<Filter, Refusal> {
    let mut parser = Parser::new(text);
    let filter = parser.either().filter(|_| parser.rest.trim().is_empty());
    filter.ok_or_else(|| parser.refusal(text, "invalidFilter", "filter"))
}

pub(super) fn target(text: &str) -> Result<Target, Refusal> {
    let mut parser = Parser::new(text);
    parser.target().ok_or_else(|| parser.refusal(text, "invalidPath", "path"))
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
    terms: u32,
}

impl Parser<'_> {
    fn new(text: &str) -> Parser<'_> {
        Parser { rest: text, depth: 0, terms: 0 }
    }

    /// The error for the text that could not be parsed.
    fn refusal(&self, text: &str, scim_type: &'static str, what: &str) -> Refusal {
        let detail = if self.depth > DEPTH_MAX || self.terms > TERMS_MAX {
            format!("a {what} has at most {TERMS_MAX} comparisons and {DEPTH_MAX} levels of brackets")
        } else {
            format!("{:?} is no {what}", text.chars().take(SHOWN_CHARS_MAX).collect::<String>())
        };
        Refusal::of(400, scim_type, detail)
    }

    fn target(&mut self) -> Option<Target> {
        let mut place = self.place()?;
        let mut filter = None;
        if self.eat("[") {
            filter = Some(self.either().filter(|_| self.eat("]"))?);
            if let Some(part) = self.rest.strip_prefix('.') {
                if place.part.is_some() || !is_name(part) || !part.chars().all(is_in_place) {
                    return None;
                }
                place.part = Some(part.to_string());
                self.rest = "";
            }
        }
        self.rest.is_empty().then_some(Target { place, filter })
    }

    fn either(&mut self) -> Option<Filter> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut terms = vec![self.both()?];
        while self.word("or") {
            terms.push(self.both()?);
        }
        self.depth -= 1;
        Some(together(terms, Filter::Any))
    }

    fn both(&mut self) -> Option<Filter> {
        let mut terms = vec![self.one()?];
        while self.word("and") {
            terms.push(self.one()?);
        }
        Some(together(terms, Filter::All))
    }

    fn one(&mut self) -> Option<Filter> {
        let is_not = self.word("not");
        if self.eat("(") {
            let inner = self.either().filter(|_| self.eat(")"))?;
            return Some(if is_not { Filter::Not(Box::new(inner)) } else { inner });
        }
        if is_not {
            return None;
        }
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return None;
        }
        let place = self.place()?;
        if self.eat("[") {
            let inner = self.either().filter(|_| self.eat("]"))?;
            return Some(Filter::Inside(place, Box::new(inner)));
        }
        if self.word("pr") {
            return Some(Filter::Present(place));
        }
        let (_, operator) = *Operator::NAMES.iter().find(|(name, _)| self.word(name))?;
        Some(Filter::Compare(place, operator, self.value()?))
    }

    /// Accepts a complete word.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        let is_there = rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        let is_alone = !rest.get(word.len()..).is_some_and(|behind| behind.starts_with(is_in_place));
        if is_there && is_alone {
            self.rest = &rest[word.len()..];
        }
        is_there && is_alone
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(mark);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn place(&mut self) -> Option<Place> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c| !is_in_place(c)).unwrap_or(rest.len());
        let (text, rest) = rest.split_at(end);
        self.rest = rest;
        let (schema, names) = match text.rsplit_once(':') {
            Some((schema, names)) => (Some(schema.to_string()), names),
            None => (None, text),
        };
        let (attribute, part) = match names.split_once('.') {
            Some((attribute, part)) => (attribute, Some(part)),
            None => (names, None),
        };
        let are_names = is_name(attribute) && part.is_none_or(is_name);
        let schema = schema.filter(|schema| !schema.starts_with("urn:ietf:params:scim:schemas:core:"));
        are_names.then(|| Place { schema, attribute: attribute.into(), part: part.map(String::from) })
    }

    fn value(&mut self) -> Option<Value> {
        let mut read = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        let value = read.next()?.ok().filter(|value| !value.is_array() && !value.is_object())?;
        self.rest = &self.rest[read.byte_offset()..];
        Some(value)
    }
}

fn together(mut terms: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        last => {
            terms.extend(last);
            join(terms)
        }
    }
}

fn is_in_place(c: char) -> bool {
    c.is_ascii_alphanumeric() || "$_-.:".contains(c)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$') && !text.contains(['.', ':'])
}

impl Place {
    /// The values at this path, each element of a list separately.
    fn found<'a>(&self, resource: &'a Map<String, Value>) -> Vec<&'a Value> {
        let container = match &self.schema {
            Some(schema) => get(resource, schema).and_then(Value::as_object),
            None => Some(resource),
        };
        let found = container.and_then(|container| get(container, &self.attribute));
        let each = found.into_iter().flat_map(elements);
        match &self.part {
            None => each
                .map(|value| value.as_object().and_then(|map| get(map, "value")).unwrap_or(value))
                .collect(),
            Some(part) => each.filter_map(|value| get(value.as_object()?, part)).flat_map(elements).collect(),
        }
    }

    /// Whether the comparison is case-sensitive (RFC 7643, section 3.1).
    fn is_exact(&self) -> bool {
        ["id", "externalId", "meta"].iter().any(|name| self.attribute.eq_ignore_ascii_case(name))
    }
}

impl Filter {
    /// Whether the filter matches a resource, or one value of a multi-valued attribute.
    pub(super) fn holds(&self, resource: &Map<String, Value>) -> bool {
        match self {
            Filter::All(terms) => terms.iter().all(|term| term.holds(resource)),
            Filter::Any(terms) => terms.iter().any(|term| term.holds(resource)),
            Filter::Not(inner) => !inner.holds(resource),
            Filter::Present(place) => {
                place.found(resource).iter().any(|value| !value.is_null() && *value != "")
            }
            Filter::Compare(place, Operator::Ne, wanted) => {
                !Filter::Compare(place.clone(), Operator::Eq, wanted.clone()).holds(resource)
            }
            Filter::Compare(place, operator, wanted) => {
                place.found(resource).iter().any(|value| compare(value, *operator, wanted, place.is_exact()))
            }
            Filter::Inside(place, inner) => {
                let found = get(resource, &place.attribute).into_iter().flat_map(elements);
                found.filter_map(Value::as_object).any(|value| inner.holds(value))
            }
        }
    }
}

fn compare(value: &Value, operator: Operator, wanted: &Value, is_exact: bool) -> bool {
    let ordered = match (value, wanted) {
        (Value::String(value), Value::String(wanted)) => {
            let same = |text: &str| if is_exact { text.to_string() } else { text.to_lowercase() };
            let (value, wanted) = (same(value), same(wanted));
            match operator {
                Operator::Co => return value.contains(&wanted),
                Operator::Sw => return value.starts_with(&wanted),
                Operator::Ew => return value.ends_with(&wanted),
                _ => Some(value.cmp(&wanted)),
            }
        }
        (Value::Number(value), Value::Number(wanted)) => {
            value.as_f64().zip(wanted.as_f64()).and_then(|(value, wanted)| value.partial_cmp(&wanted))
        }
        _ => (value == wanted).then_some(std::cmp::Ordering::Equal),
    };
    ordered.is_some_and(|ordered| match operator {
        Operator::Eq => ordered.is_eq(),
        Operator::Gt => ordered.is_gt(),
        Operator::Ge => ordered.is_ge(),
        Operator::Lt => ordered.is_lt(),
        Operator::Le => ordered.is_le(),
        Operator::Ne | Operator::Co | Operator::Sw | Operator::Ew => false,
    })
}

/// A member of an object. Attribute names are case-insensitive.
pub(super) fn get<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).or_else(|| get_with_name(map, name).map(|(_, value)| value))
}

/// The same, with its name in the object.
pub(super) fn get_with_name<'a>(map: &'a Map<String, Value>, name: &str) -> Option<(&'a String, &'a Value)> {
    map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(all) => all,
        one => std::slice::from_ref(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_hold_for_what_they_say() {
        let ada = json!({
            "id": "Ab1", "userName": "Ada", "active": true, "name": {"familyName": "Byron"},
            "emails": [{"type": "work", "value": "ada@plim.example"}, {"type": "home", "value": "a@b.example"}],
            "meta": {"lastModified": "2026-11-22T08:00:00.000Z"},
            "urn:x:2.0:User": {"level": 3},
        });
        let ada = ada.as_object().unwrap();
        for (text, holds) in [
            ("userName eq \"ada\"", true),
            ("USERNAME EQ \"ADA\"", true),
            ("id eq \"ab1\"", false),
            ("active eq true", true),
            ("active ne true", false),
            ("name.familyName sw \"by\" and emails.value co \"b.ex\"", true),
            ("emails eq \"a@b.example\"", true),
            ("emails[type eq \"home\" and value ew \"plim.example\"]", false),
            ("title pr or not (userName eq \"x\")", true),
            ("meta.lastModified ge \"2026-11-22T08:00:00.000Z\"", true),
            ("meta.lastModified gt \"2026-11-22T08:00:00.000Z\"", false),
            ("urn:x:2.0:User:level ge 3 and urn:x:2.0:User:level lt 3.5", true),
        ] {
            assert_eq!(filter(text).unwrap().holds(ada), holds, "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let deep = "(".repeat(100);
        for text in [
            "",
            "userName",
            "userName eq",
            "userName is \"a\"",
            "a eq \"b",
            "(a pr",
            "a pr)",
            "a eq {}",
            &deep,
        ] {
            assert!(filter(text).is_err(), "{text}");
        }
        for text in ["", "a[", "a[b pr].", "a[b pr].c.d", "a.b.c", "a b"] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
