//! Distinguished names as text (RFC 4514): parses, writes, compares and splits them.

use std::fmt;
use std::str::FromStr;

use crate::text::{Escape, TextError, hex_byte, write_escaped};

#[cfg(test)]
mod tests;

/// A distinguished name: the relative names from the entry itself up to the root. The root has an empty name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dn {
    rdns: Vec<Rdn>,
}

/// A relative distinguished name: one attribute value, or several in any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rdn {
    /// The parts, at least one.
    parts: Vec<Part>,
}

/// An attribute type and its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The attribute type as written: a short name or an object identifier.
    pub attribute: String,
    /// The value.
    pub value: Value,
}

/// An attribute value in a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// The bytes that LDAP transfers, mostly UTF-8.
    Bytes(Vec<u8>),
    /// The BER encoding, written as `#` and hexadecimal digits.
    Ber(Vec<u8>),
}

/// Short names of attribute types and their object identifiers (RFC 4514, section 3).
const SHORT_NAMES: [(&str, &str); 9] = [
    ("2.5.4.3", "cn"),
    ("2.5.4.7", "l"),
    ("2.5.4.8", "st"),
    ("2.5.4.10", "o"),
    ("2.5.4.11", "ou"),
    ("2.5.4.6", "c"),
    ("2.5.4.9", "street"),
    ("0.9.2342.19200300.100.1.25", "dc"),
    ("0.9.2342.19200300.100.1.1", "uid"),
];

impl Dn {
    /// The name of the root.
    pub const ROOT: Dn = Dn { rdns: Vec::new() };

    /// Parses a name. Blanks around `,`, `+` and `=` are allowed, as in older files.
    pub fn parse(text: &str) -> Result<Dn, TextError> {
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        parser.skip_blanks();
        let mut rdns = Vec::new();
        if parser.peek().is_none() {
            return Ok(Dn { rdns });
        }
        loop {
            rdns.push(parser.rdn()?);
            match parser.peek() {
                None => return Ok(Dn { rdns }),
                // A relative name ends at a comma or at the end of the text.
                Some(_) => parser.at += 1,
            }
        }
    }

    /// A name from its relative names, from the entry itself up to the root.
    pub fn new(rdns: Vec<Rdn>) -> Self {
        Dn { rdns }
    }

    /// The relative names, from the entry itself up to the root.
    pub fn rdns(&self) -> &[Rdn] {
        &self.rdns
    }

    /// The relative name of the entry itself; `None` for the root.
    pub fn rdn(&self) -> Option<&Rdn> {
        self.rdns.first()
    }

    /// Whether it is the name of the root.
    pub fn is_root(&self) -> bool {
        self.rdns.is_empty()
    }

    /// The name of the parent entry; `None` for the root.
    pub fn parent(&self) -> Option<Dn> {
        self.rdns.get(1..).map(|above| Dn { rdns: above.to_vec() })
    }

    /// The name of a child entry.
    pub fn child(&self, rdn: Rdn) -> Dn {
        let mut rdns = Vec::with_capacity(self.rdns.len() + 1);
        rdns.push(rdn);
        rdns.extend_from_slice(&self.rdns);
        Dn { rdns }
    }

    /// The name after a rename, optionally below another entry. The root cannot be renamed.
    pub fn renamed(&self, rdn: Rdn, superior: Option<&Dn>) -> Dn {
        match (superior, self.parent()) {
            (Some(superior), _) => superior.child(rdn),
            (None, Some(parent)) => parent.child(rdn),
            (None, None) => self.clone(),
        }
    }

    /// The name of an entry after `from`, the entry itself or one above it, was renamed to `to`. `None` if
    /// `from` is neither.
    pub fn moved(&self, from: &Dn, to: &Dn) -> Option<Dn> {
        if !self.is_within(from) {
            return None;
        }
        let below = self.rdns.len() - from.rdns.len();
        let rdns = self.rdns[..below].iter().chain(&to.rdns).cloned().collect();
        Some(Dn { rdns })
    }

    /// Whether this name equals `above` or is below it, compared as in [`same`](Dn::same).
    pub fn is_within(&self, above: &Dn) -> bool {
        let Some(begin) = self.rdns.len().checked_sub(above.rdns.len()) else { return false };
        self.rdns[begin..].iter().zip(&above.rdns).all(|(one, other)| one.normalized() == other.normalized())
    }

    /// Whether two names denote the same entry, as far as this is decidable without the server's schema.
    /// Types and values ignore case, multiple blanks count as one, and the parts of a relative name may have
    /// any order.
    pub fn same(&self, other: &Dn) -> bool {
        self.rdns.len() == other.rdns.len() && self.is_within(other)
    }

    /// The canonical form: two names are the [`same`](Dn::same) exactly if their canonical forms are equal.
    pub fn normalized(&self) -> String {
        let parts: Vec<String> = self.rdns.iter().map(Rdn::normalized).collect();
        parts.join(",")
    }

    /// A sort key: equal for names that are the [`same`](Dn::same). The key of an entry is a prefix of the
    /// keys of exactly the entries below it, and sorts directly before them.
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        for rdn in self.rdns.iter().rev() {
            key.extend_from_slice(rdn.normalized().as_bytes());
            // Less than every byte of a normalized name, because control characters are escaped there.
            key.push(0);
        }
        key
    }
}

impl Rdn {
    /// A relative name of one part with a text value.
    pub fn new(attribute: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Rdn { parts: vec![Part { attribute: attribute.into(), value: Value::Bytes(value.into()) }] }
    }

    /// Parses one relative name.
    pub fn parse(text: &str) -> Result<Rdn, TextError> {
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        parser.skip_blanks();
        let rdn = parser.rdn()?;
        match parser.peek() {
            None => Ok(rdn),
            Some(_) => {
                Err(parser.error("this is more than one relative name", "write a comma in a value as `\\,`"))
            }
        }
    }

    /// Its parts, at least one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The canonical form.
    fn normalized(&self) -> String {
        let mut parts: Vec<String> = self.parts.iter().map(Part::normalized).collect();
        parts.sort_unstable();
        parts.join("+")
    }
}

impl Part {
    fn normalized(&self) -> String {
        let lower = self.attribute.to_ascii_lowercase();
        let short = SHORT_NAMES.iter().find(|(oid, _)| *oid == lower).map(|(_, name)| *name);
        let mut text = format!("{}=", short.unwrap_or(&lower));
        // Writing to a string cannot fail.
        let _ = match &self.value {
            // Stores have keys made of this form.
            Value::Bytes(value) => write_value(&mut text, &folded(value), Escape::No),
            Value::Ber(value) => write_ber(&mut text, value),
        };
        text
    }
}

/// A value in lower case, without blanks at both ends, and with single blanks between words.
fn folded(value: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(value) else { return value.to_vec() };
    let mut folded = String::with_capacity(text.len());
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().flat_map(char::to_lowercase));
    }
    folded.into_bytes()
}

/// Appends an escaped value, so that it is parsed as one value whatever it contains.
pub fn escape_value(out: &mut impl fmt::Write, value: &[u8]) {
    // Writing to memory cannot fail.
    let _ = write_value(out, value, Escape::Backslash);
}

/// Writes an escaped value. Active Directory requires that an equals sign is escaped too, other servers allow it.
fn write_value(out: &mut impl fmt::Write, value: &[u8], equals: Escape) -> fmt::Result {
    let last = value.len().saturating_sub(1);
    write_escaped(out, value, |character, at| match character {
        '=' => equals,
        '"' | '+' | ',' | ';' | '<' | '>' | '\\' => Escape::Backslash,
        '#' if at == 0 => Escape::Backslash,
        ' ' if at == 0 || at == last => Escape::Backslash,
        _ => Escape::No,
    })
}

fn write_ber(out: &mut impl fmt::Write, value: &[u8]) -> fmt::Result {
    out.write_char('#')?;
    value.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

impl fmt::Display for Dn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, rdn) in self.rdns.iter().enumerate() {
            write!(out, "{}{rdn}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Rdn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            write!(out, "{}{}=", if at == 0 { "" } else { "+" }, part.attribute)?;
            match &part.value {
                Value::Bytes(value) => write_value(out, value, Escape::Backslash)?,
                Value::Ber(value) => write_ber(out, value)?,
            }
        }
        Ok(())
    }
}

impl FromStr for Dn {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Dn::parse(text)
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
        TextError { at: self.at, what, help }
    }

    fn skip_blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Parses one relative name, up to a comma or the end.
    fn rdn(&mut self) -> Result<Rdn, TextError> {
        let mut parts = vec![self.part()?];
        while self.peek() == Some(b'+') {
            self.at += 1;
            parts.push(self.part()?);
        }
        Ok(Rdn { parts })
    }

    fn part(&mut self) -> Result<Part, TextError> {
        self.skip_blanks();
        let begin = self.at;
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        {
            self.at += 1;
        }
        let attribute = String::from_utf8_lossy(&self.text[begin..self.at]).into_owned();
        if !attribute.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            self.at = begin;
            return Err(self.error(
                "an attribute is missing here",
                "write attribute=value, and a comma in a value as `\\,`",
            ));
        }
        self.skip_blanks();
        if self.peek() != Some(b'=') {
            return Err(
                self.error("`=` is missing here", "write attribute=value, and a comma in a value as `\\,`")
            );
        }
        self.at += 1;
        self.skip_blanks();
        let value = match self.peek() {
            Some(b'#') => Value::Ber(self.ber()?),
            _ => Value::Bytes(self.value()?),
        };
        Ok(Part { attribute, value })
    }

    fn value(&mut self) -> Result<Vec<u8>, TextError> {
        let mut value = Vec::new();
        // The length of the value without trailing blanks, which do not belong to it unless they are escaped.
        let mut kept = 0;
        while let Some(byte) = self.peek() {
            match byte {
                b',' | b'+' => break,
                b'\\' => {
                    let after = &self.text[self.at + 1..];
                    if let Some(byte) = hex_byte(after) {
                        value.push(byte);
                        self.at += 3;
                    } else if let Some(
                        byte @ (b' ' | b'"' | b'#' | b'+' | b',' | b';' | b'<' | b'=' | b'>' | b'\\'),
                    ) = after.first()
                    {
                        value.push(*byte);
                        self.at += 2;
                    } else {
                        let help = "write `\\\\` for a backslash, or two hexadecimal digits behind it";
                        return Err(self.error("nothing that can be escaped follows this backslash", help));
                    }
                    kept = value.len();
                }
                b'"' | b';' | b'<' | b'>' | 0 => {
                    return Err(self.error("this character must be escaped", "write a backslash before it"));
                }
                _ => {
                    value.push(byte);
                    self.at += 1;
                    if byte != b' ' {
                        kept = value.len();
                    }
                }
            }
        }
        value.truncate(kept);
        Ok(value)
    }

    fn ber(&mut self) -> Result<Vec<u8>, TextError> {
        self.at += 1;
        let mut value = Vec::new();
        while let Some(byte) = hex_byte(&self.text[self.at..]) {
            value.push(byte);
            self.at += 2;
        }
        self.skip_blanks();
        match self.peek() {
            None | Some(b',' | b'+') if !value.is_empty() => Ok(value),
            _ => Err(self.error(
                "`#` is followed by pairs of hexadecimal digits",
                "write `\\#` where the value begins so",
            )),
        }
    }
}
