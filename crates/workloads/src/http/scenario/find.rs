//! Values of a response, found by a regular expression, an XPath, a JSON path or a name.

use std::borrow::Cow;
use std::cell::OnceCell;

use regex::bytes::{Regex, RegexBuilder};

use super::cookies;
use super::json_path::JsonPath;
use super::session::Response;
use super::xpath::{self, XPath};

/// The most memory of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A compiled query.
#[derive(Clone, Debug)]
pub(super) enum Finder {
    Regex(Regex),
    XPath(XPath),
    JsonPath(JsonPath),
    Header(String, Option<Regex>),
    Cookie(String, Option<Regex>),
}

impl Finder {
    /// Whether it needs the body of a response.
    pub(super) fn needs_body(&self) -> bool {
        match self {
            Finder::Regex(_) | Finder::XPath(_) | Finder::JsonPath(_) => true,
            Finder::Header(..) | Finder::Cookie(..) => false,
        }
    }

    /// The value in a response; none if there is none.
    pub(super) fn find<'d>(&self, document: &'d Document<'_>) -> Option<Cow<'d, [u8]>> {
        let response = document.response;
        match self {
            Finder::Regex(regex) => group(regex, response.body),
            Finder::XPath(path) => path.find(document.xml()?).map(|text| text.into_bytes().into()),
            Finder::JsonPath(path) => match path.find(document.json()?)? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.as_bytes().into()),
                other => Some(other.to_string().into_bytes().into()),
            },
            Finder::Header(name, regex) => {
                let mut values = response.values_of(name);
                values.find_map(|value| part(regex.as_ref(), value))
            }
            Finder::Cookie(name, regex) => {
                let mut values =
                    response.values_of("set-cookie").filter_map(|field| cookies::value_in(field, name));
                values.find_map(|value| part(regex.as_ref(), value))
            }
        }
    }
}

/// The first group of a match, or the whole match.
fn group<'a>(regex: &Regex, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let captures = regex.captures(text)?;
    // A group that did not take part in the match is no value.
    let found = if regex.captures_len() > 1 { captures.get(1)? } else { captures.get(0)? };
    Some(found.as_bytes().into())
}

fn part<'a>(regex: Option<&Regex>, value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    match regex {
        Some(regex) => group(regex, value),
        None => Some(value.into()),
    }
}

/// A response whose body is parsed at most once as XML and once as JSON.
pub(super) struct Document<'a> {
    pub(super) response: &'a Response<'a>,
    xml: OnceCell<Option<roxmltree::Document<'a>>>,
    json: OnceCell<Option<serde_json::Value>>,
}

impl<'a> Document<'a> {
    pub(super) fn new(response: &'a Response<'a>) -> Document<'a> {
        Document { response, xml: OnceCell::new(), json: OnceCell::new() }
    }

    fn xml(&self) -> Option<&roxmltree::Document<'a>> {
        self.xml.get_or_init(|| xpath::document(self.response.body)).as_ref()
    }

    fn json(&self) -> Option<&serde_json::Value> {
        self.json.get_or_init(|| serde_json::from_slice(self.response.body).ok()).as_ref()
    }
}

/// Compiles a regular expression; otherwise what is wrong.
pub(super) fn regex(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it needs too much memory".to_string(),
        // The last line says what is wrong; the lines before show the place.
        error => {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(finder: &Finder, fields: &[(&str, &[u8])], body: &str) -> Option<String> {
        let response = Response { fields, body: body.as_bytes(), ..Response::default() };
        let document = Document::new(&response);
        finder.find(&document).map(|value| String::from_utf8(value.into_owned()).unwrap())
    }

    #[test]
    fn values_are_found() {
        let json = r#"{"a": [{"t": "x y", "n": 3.5}, {"t": null, "o": {"k": [1]}}], "ok": true}"#;
        for (path, expected) in [
            ("$.a[0].t", Some("x y")),
            ("$.a[0].n", Some("3.5")),
            ("$.a[1].t", None),
            ("$.a[1].o", Some(r#"{"k":[1]}"#)),
            ("$.a[?@.n > 3].t", Some("x y")),
            ("$.a[?match(@.t, 'x.*')].n", Some("3.5")),
            ("$..k[0]", Some("1")),
            ("$.ok", Some("true")),
            ("$.b", None),
        ] {
            let finder = Finder::JsonPath(JsonPath::parse(path).unwrap());
            assert_eq!(found(&finder, &[], json).as_deref(), expected, "{path}");
            assert_eq!(found(&finder, &[], "{"), None);
        }
        for (text, body, expected) in [
            ("id=(\\d+)", "a id=12 id=13", Some("12")),
            ("\\d+", "a 12", Some("12")),
            ("a(x)?", "a", None),
            ("b", "a", None),
        ] {
            assert_eq!(found(&Finder::Regex(regex(text).unwrap()), &[], body).as_deref(), expected, "{text}");
        }
        let fields: &[(&str, &[u8])] =
            &[("Set-Cookie", b"a=1; Path=/"), ("set-cookie", b"sid=s-42; Secure"), ("Location", b"/x?id=7")];
        let digits = || Some(regex("\\d+").unwrap());
        for (finder, expected) in [
            (Finder::Header("location".into(), None), Some("/x?id=7")),
            (Finder::Header("LOCATION".into(), digits()), Some("7")),
            (Finder::Header("etag".into(), None), None),
            (Finder::Cookie("sid".into(), None), Some("s-42")),
            (Finder::Cookie("sid".into(), digits()), Some("42")),
            (Finder::Cookie("Path".into(), None), None),
        ] {
            assert_eq!(found(&finder, fields, "").as_deref(), expected, "{finder:?}");
        }
        let xml = Finder::XPath(XPath::parse("//a/@b").unwrap());
        assert_eq!(found(&xml, &[], "<x><a b='c'/></x>").as_deref(), Some("c"));
        assert_eq!(found(&xml, &[], "<x><a b='c'/>"), None);
    }

    #[test]
    fn invalid_queries_say_why() {
        assert_eq!(regex("a(").unwrap_err(), "unclosed group");
        assert_eq!(regex("\\w{2000}{2000}").unwrap_err(), "it needs too much memory");
    }

    proptest::proptest! {
        #[test]
        fn no_query_panics(text in "(\\$|\\.|\\[|\\]|\\?|@|\\*|'|\\(|\\)|[a-c0-9:,!=<]|\\PC){0,16}") {
            if let Ok(regex) = regex(&text) {
                found(&Finder::Regex(regex), &[], "abc ");
            }
        }
    }
}
