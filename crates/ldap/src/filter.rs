//! Search filters as text (RFC 4515) and as a tree for search requests.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::text::{Escape, TextError, hex_byte, is_attribute_description, write_escaped};

#[cfg(test)]
pub(crate) mod tests;

/// Limit of the nesting depth of filters, as text and in messages.
pub const DEPTH_MAX: usize = 64;

/// A search filter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// All of these match. An empty list always matches (RFC 4526).
    And(Vec<Filter>),
    /// At least one of these matches. An empty list never matches (RFC 4526).
    Or(Vec<Filter>),
    /// This does not match.
    Not(Box<Filter>),
    /// The attribute has this value.
    Equal(Assertion),
    /// The attribute has a value that consists of these parts.
    Substrings(Substrings),
    /// The attribute has this value or a greater one.
    GreaterOrEqual(Assertion),
    /// The attribute has this value or a smaller one.
    LessOrEqual(Assertion),
    /// The attribute has some value; contains the attribute description.
    Present(String),
    /// The attribute has a value similar to this one.
    Approximate(Assertion),
    /// The given matching rule, or the attribute's own rule, matches.
    Extensible(Extensible),
}

/// An attribute and a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assertion {
    /// The attribute description.
    pub attribute: String,
    /// The value.
    pub value: Vec<u8>,
}

/// Substrings of a value, at least one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Substrings {
    /// The attribute description.
    pub attribute: String,
    /// The start of the value.
    pub initial: Option<Vec<u8>>,
    /// Parts between start and end, in this order.
    pub any: Vec<Vec<u8>>,
    /// The end of the value.
    pub last: Option<Vec<u8>>,
}

/// A matching rule and a value, with an attribute, a rule, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extensible {
    /// The attribute description; `None` for every attribute that the rule supports.
    pub attribute: Option<String>,
    /// Whether the attributes in the entry's name are also compared.
    pub dn_attributes: bool,
    /// The matching rule; `None` for the equality rule of the attribute.
    pub rule: Option<String>,
    /// The value.
    pub value: Vec<u8>,
}

impl Filter {
    /// Matches every entry: `(objectClass=*)`.
    pub fn everything() -> Self {
        Filter::Present("objectClass".into())
    }

    /// The attribute has this unescaped value.
    pub fn equal(attribute: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Filter::Equal(Assertion { attribute: attribute.into(), value: value.into() })
    }

    /// Parses a filter. The outermost parentheses are optional, and blanks and line ends are allowed between
    /// parts.
    pub fn parse(text: &str) -> Result<Filter, TextError> {
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        parser.skip_blanks();
        let filter = match parser.peek() {
            Some(b'(') => parser.filter(0)?,
            Some(_) => parser.item()?,
            None => return Err(parser.error("a filter is missing", "write (objectClass=*) for every entry")),
        };
        parser.skip_blanks();
        match parser.peek() {
            None => Ok(filter),
            Some(_) => Err(parser.error("the filter ends before this", "join several with (&...) or (|...)")),
        }
    }
}

/// Appends an escaped value, so that it is parsed as one value whatever it contains.
pub fn escape_value(out: &mut String, value: &[u8]) {
    // Writing to a string cannot fail.
    let _ = write_value(out, value);
}

fn write_value(out: &mut impl fmt::Write, value: &[u8]) -> fmt::Result {
    write_escaped(out, value, |character, _| match character {
        '*' | '(' | ')' | '\\' => Escape::Hex,
        _ => Escape::No,
    })
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |out: &mut fmt::Formatter<'_>, sign: char, filters: &[Filter]| {
            write!(out, "({sign}")?;
            filters.iter().try_for_each(|filter| write!(out, "{filter}"))?;
            out.write_char(')')
        };
        let item = |out: &mut fmt::Formatter<'_>, of: &Assertion, sign: &str| {
            write!(out, "({}{sign}", of.attribute)?;
            write_value(out, &of.value)?;
            out.write_char(')')
        };
        match self {
            Filter::And(filters) => all(out, '&', filters),
            Filter::Or(filters) => all(out, '|', filters),
            Filter::Not(filter) => write!(out, "(!{filter})"),
            Filter::Equal(of) => item(out, of, "="),
            Filter::GreaterOrEqual(of) => item(out, of, ">="),
            Filter::LessOrEqual(of) => item(out, of, "<="),
            Filter::Approximate(of) => item(out, of, "~="),
            Filter::Present(attribute) => write!(out, "({attribute}=*)"),
            Filter::Substrings(of) => {
                write!(out, "({}=", of.attribute)?;
                write_value(out, of.initial.as_deref().unwrap_or_default())?;
                out.write_char('*')?;
                for part in &of.any {
                    write_value(out, part)?;
                    out.write_char('*')?;
                }
                write_value(out, of.last.as_deref().unwrap_or_default())?;
                out.write_char(')')
            }
            Filter::Extensible(of) => {
                write!(out, "({}", of.attribute.as_deref().unwrap_or_default())?;
                if of.dn_attributes {
                    out.write_str(":dn")?;
                }
                if let Some(rule) = &of.rule {
                    write!(out, ":{rule}")?;
                }
                out.write_str(":=")?;
                write_value(out, &of.value)?;
                out.write_char(')')
            }
        }
    }
}

impl FromStr for Filter {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Filter::parse(text)
    }
}

/// A position in a text.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn error(&self, what: &'static str, help: &'static str) -> TextError {
        self.error_at(self.at, what, help)
    }

    fn error_at(&self, at: usize, what: &'static str, help: &'static str) -> TextError {
        TextError { at, what, help }
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Parses a filter, which begins with a parenthesis.
    fn filter(&mut self, depth: usize) -> Result<Filter, TextError> {
        if depth >= DEPTH_MAX {
            return Err(self.error("the filter is nested too deep", "64 levels are read"));
        }
        self.at += 1;
        self.skip_blanks();
        let sign = self.peek();
        let filter = match sign {
            Some(b'&' | b'|') => {
                self.at += 1;
                let mut filters = Vec::new();
                loop {
                    self.skip_blanks();
                    match self.peek() {
                        Some(b'(') => filters.push(self.filter(depth + 1)?),
                        _ => break,
                    }
                }
                if sign == Some(b'&') { Filter::And(filters) } else { Filter::Or(filters) }
            }
            Some(b'!') => {
                self.at += 1;
                self.skip_blanks();
                match self.peek() {
                    Some(b'(') => Filter::Not(Box::new(self.filter(depth + 1)?)),
                    _ => return Err(self.error("`(` is missing here", "write (!(attribute=value))")),
                }
            }
            _ => self.item()?,
        };
        self.skip_blanks();
        match self.peek() {
            Some(b')') => {
                self.at += 1;
                Ok(filter)
            }
            _ => Err(self.error("`)` is missing here", "write a parenthesis in a value as \\28 or \\29")),
        }
    }

    /// Parses an attribute, an operator and a value, up to a parenthesis or the end.
    fn item(&mut self) -> Result<Filter, TextError> {
        let begin = self.at;
        let length = self.text[begin..].iter().position(|byte| matches!(byte, b'=' | b'(' | b')'));
        let Some(sign) = length.map(|length| begin + length).filter(|sign| self.text[*sign] == b'=') else {
            return Err(self.error("`=` is missing here", "write (attribute=value)"));
        };
        let (end, kind) = match self.text[begin..sign].last() {
            Some(kind @ (b'~' | b'>' | b'<' | b':')) => (sign - 1, *kind),
            _ => (sign, b'='),
        };
        self.at = sign + 1;
        if kind == b':' {
            return self.extensible(begin, end);
        }
        let attribute = self.attribute(begin, end)?;
        if kind == b'=' {
            return self.parts(attribute);
        }
        let value = self.value()?;
        if self.peek() == Some(b'*') {
            return Err(self.error("`*` means nothing here", "write it as \\2a"));
        }
        let assertion = Assertion { attribute, value };
        Ok(match kind {
            b'~' => Filter::Approximate(assertion),
            b'>' => Filter::GreaterOrEqual(assertion),
            _ => Filter::LessOrEqual(assertion),
        })
    }

    fn attribute(&self, begin: usize, end: usize) -> Result<String, TextError> {
        let name = self.text[begin..end].trim_ascii();
        if !is_attribute_description(name) {
            return Err(self.error_at(
                begin,
                "this is not a name of an attribute",
                "write (attribute=value)",
            ));
        }
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// Parses the value of an equality, or the parts between asterisks.
    fn parts(&mut self, attribute: String) -> Result<Filter, TextError> {
        let begin = self.at;
        let initial = self.value()?;
        if self.peek() != Some(b'*') {
            return Ok(Filter::Equal(Assertion { attribute, value: initial }));
        }
        let mut parts = Vec::new();
        while self.peek() == Some(b'*') {
            self.at += 1;
            parts.push(self.value()?);
        }
        let last = parts.pop().unwrap_or_default();
        if initial.is_empty() && last.is_empty() && parts.is_empty() {
            return Ok(Filter::Present(attribute));
        }
        if parts.iter().any(Vec::is_empty) {
            return Err(self.error_at(begin, "there are two asterisks in a row", "one has the same meaning"));
        }
        let some = |part: Vec<u8>| if part.is_empty() { None } else { Some(part) };
        Ok(Filter::Substrings(Substrings { attribute, initial: some(initial), any: parts, last: some(last) }))
    }

    /// Parses `attribute:dn:rule:=value`, where `:dn` and either the attribute or the rule are optional.
    fn extensible(&mut self, begin: usize, end: usize) -> Result<Filter, TextError> {
        let help = "write (attribute:rule:=value), the rule as a name or an object identifier";
        let mut words = self.text[begin..end].split(|byte| *byte == b':');
        let first = words.next().unwrap_or_default().trim_ascii();
        let mut rest: Vec<&[u8]> = words.collect();
        let dn_attributes = rest.first().is_some_and(|word| word.eq_ignore_ascii_case(b"dn"));
        if dn_attributes {
            rest.remove(0);
        }
        let rule = match rest.as_slice() {
            [] => None,
            [rule] => Some(*rule),
            _ => return Err(self.error_at(begin, "there are too many colons here", help)),
        };
        let attribute = if first.is_empty() { None } else { Some(first) };
        let named = |name: &[u8]| is_attribute_description(name) && !name.eq_ignore_ascii_case(b"dn");
        if (attribute, rule) == (None, None)
            || !rule.is_none_or(named)
            || !attribute.is_none_or(is_attribute_description)
        {
            return Err(self.error_at(begin, "an attribute or a matching rule is missing here", help));
        }
        let value = self.value()?;
        if self.peek() == Some(b'*') {
            return Err(self.error("`*` means nothing here", "write it as \\2a"));
        }
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        Ok(Filter::Extensible(Extensible {
            attribute: attribute.map(text),
            dn_attributes,
            rule: rule.map(text),
            value,
        }))
    }

    /// Parses a value up to an asterisk, a parenthesis or the end.
    fn value(&mut self) -> Result<Vec<u8>, TextError> {
        let mut value = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'*' | b')' => break,
                b'\\' => match hex_byte(&self.text[self.at + 1..]) {
                    Some(byte) => {
                        value.push(byte);
                        self.at += 3;
                    }
                    None => {
                        let help = "write \\5c for a backslash";
                        return Err(
                            self.error("two hexadecimal digits are missing after this backslash", help)
                        );
                    }
                },
                b'(' => return Err(self.error("`(` is not allowed in a value", "write it as \\28")),
                0 => return Err(self.error("a zero byte is not allowed in a value", "write it as \\00")),
                _ => {
                    value.push(byte);
                    self.at += 1;
                }
            }
        }
        Ok(value)
    }
}
