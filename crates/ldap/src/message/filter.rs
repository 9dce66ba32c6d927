//! The filter of a search request, and its conversion to and from a tree.

use std::fmt;

use crate::Filter;
use crate::ber::{self, BerError, Decoder, Encoder, OCTETS, SEQUENCE, context};
use crate::filter::{Assertion, DEPTH_MAX, Extensible, Substrings};

const AND: u8 = context(0, true);
const OR: u8 = context(1, true);
const NOT: u8 = context(2, true);
const EQUAL: u8 = context(3, true);
const SUBSTRINGS: u8 = context(4, true);
const GREATER_OR_EQUAL: u8 = context(5, true);
const LESS_OR_EQUAL: u8 = context(6, true);
const PRESENT: u8 = context(7, false);
const APPROXIMATE: u8 = context(8, true);
const EXTENSIBLE: u8 = context(9, true);

const INITIAL: u8 = context(0, false);
const ANY: u8 = context(1, false);
const LAST: u8 = context(2, false);

const RULE: u8 = context(1, false);
const ATTRIBUTE: u8 = context(2, false);
const VALUE: u8 = context(3, false);
const DN_ATTRIBUTES: u8 = context(4, false);

/// The filter of a search request: a tree to be sent, or received bytes.
#[derive(Clone, Copy)]
pub struct FilterBytes<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Tree(&'a Filter),
    /// One element, which was validated.
    Encoded(&'a [u8]),
}

impl<'a> From<&'a Filter> for FilterBytes<'a> {
    fn from(filter: &'a Filter) -> Self {
        FilterBytes(Source::Tree(filter))
    }
}

impl<'a> FilterBytes<'a> {
    pub(super) fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        let bytes = from.whole_element()?;
        // Parsing validates the bytes. Clients receive no requests, so this does not cost them anything.
        tree(&mut Decoder::new(bytes), 0)?;
        Ok(FilterBytes(Source::Encoded(bytes)))
    }

    pub(super) fn encode(&self, to: &mut Encoder<'_>) {
        match self.0 {
            Source::Tree(filter) => encode(filter, to),
            Source::Encoded(bytes) => to.raw(bytes),
        }
    }

    /// The filter as a tree.
    pub fn to_filter(&self) -> Filter {
        match self.0 {
            Source::Tree(filter) => filter.clone(),
            // It was validated before; an empty `Or` never matches.
            Source::Encoded(bytes) => tree(&mut Decoder::new(bytes), 0).unwrap_or(Filter::Or(Vec::new())),
        }
    }
}

/// The filter of these bytes of a request.
pub fn decode_filter(bytes: &[u8]) -> Result<Filter, BerError> {
    tree(&mut Decoder::new(bytes), 0)
}

/// Appends the shape of an encoded filter: its text with `?` for each value, attributes in lower case, and equal
/// neighbours once. Filters of one program that differ only in their values have the same shape. It does not allocate.
pub fn write_shape(bytes: &[u8], out: &mut String) -> Result<(), BerError> {
    let length = out.len();
    let result = shape(&mut Decoder::new(bytes), 0, out);
    if result.is_err() {
        out.truncate(length);
    }
    result
}

/// The placeholder of a value.
const VALUE_SHAPE: char = '?';

fn shape(from: &mut Decoder<'_>, depth: usize, out: &mut String) -> Result<(), BerError> {
    if depth >= DEPTH_MAX {
        return Err(BerError("a filter is nested deeper than 64 levels"));
    }
    let (tag, content) = from.element()?;
    let mut from = Decoder::new(content);
    out.push('(');
    match tag {
        AND | OR => {
            out.push(if tag == AND { '&' } else { '|' });
            let mut before = out.len()..out.len();
            let mut is_repeated = false;
            while !from.is_empty() {
                let begin = out.len();
                shape(&mut from, depth + 1, out)?;
                match !before.is_empty() && out[before.clone()] == out[begin..] {
                    true => {
                        out.truncate(begin);
                        is_repeated = true;
                    }
                    false => {
                        if std::mem::take(&mut is_repeated) {
                            out.insert_str(begin, "...");
                            before = begin + 3..out.len();
                        } else {
                            before = begin..out.len();
                        }
                    }
                }
            }
            if is_repeated {
                out.push_str("...");
            }
        }
        NOT => {
            out.push('!');
            shape(&mut from, depth + 1, out)?;
        }
        EQUAL | GREATER_OR_EQUAL | LESS_OR_EQUAL | APPROXIMATE => {
            push_lower(out, from.expect(OCTETS)?)?;
            from.expect(OCTETS)?;
            out.push_str(match tag {
                EQUAL => "=",
                GREATER_OR_EQUAL => ">=",
                LESS_OR_EQUAL => "<=",
                _ => "~=",
            });
            out.push(VALUE_SHAPE);
        }
        PRESENT => {
            push_lower(out, content)?;
            out.push_str("=*");
        }
        SUBSTRINGS => {
            push_lower(out, from.expect(OCTETS)?)?;
            out.push('=');
            let mut parts = from.constructed(SEQUENCE)?;
            if parts.optional(INITIAL)?.is_some() {
                out.push(VALUE_SHAPE);
            }
            out.push('*');
            while parts.optional(ANY)?.is_some() {
                out.push(VALUE_SHAPE);
                out.push('*');
            }
            if parts.optional(LAST)?.is_some() {
                out.push(VALUE_SHAPE);
            }
        }
        EXTENSIBLE => {
            let rule = from.optional(RULE)?;
            push_lower(out, from.optional(ATTRIBUTE)?.unwrap_or_default())?;
            from.expect(VALUE)?;
            if from.optional(DN_ATTRIBUTES)?.map(ber::as_boolean).transpose()? == Some(true) {
                out.push_str(":dn");
            }
            if let Some(rule) = rule {
                out.push(':');
                push_lower(out, rule)?;
            }
            out.push_str(":=");
            out.push(VALUE_SHAPE);
        }
        _ => return Err(BerError("a filter of an unknown kind")),
    }
    out.push(')');
    Ok(())
}

fn push_lower(out: &mut String, name: &[u8]) -> Result<(), BerError> {
    out.extend(ber::as_text(name)?.chars().map(|c| c.to_ascii_lowercase()));
    Ok(())
}

impl PartialEq for FilterBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_filter() == other.to_filter()
    }
}

impl fmt::Debug for FilterBytes<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_filter(), out)
    }
}

fn encode(filter: &Filter, to: &mut Encoder<'_>) {
    let assertion = |to: &mut Encoder<'_>, tag: u8, of: &Assertion| {
        to.constructed(tag, |to| {
            to.octets(OCTETS, of.attribute.as_bytes());
            to.octets(OCTETS, &of.value);
        });
    };
    match filter {
        Filter::And(filters) => {
            to.constructed(AND, |to| filters.iter().for_each(|filter| encode(filter, to)))
        }
        Filter::Or(filters) => to.constructed(OR, |to| filters.iter().for_each(|filter| encode(filter, to))),
        Filter::Not(filter) => to.constructed(NOT, |to| encode(filter, to)),
        Filter::Equal(of) => assertion(to, EQUAL, of),
        Filter::GreaterOrEqual(of) => assertion(to, GREATER_OR_EQUAL, of),
        Filter::LessOrEqual(of) => assertion(to, LESS_OR_EQUAL, of),
        Filter::Approximate(of) => assertion(to, APPROXIMATE, of),
        Filter::Present(attribute) => to.octets(PRESENT, attribute.as_bytes()),
        Filter::Substrings(of) => to.constructed(SUBSTRINGS, |to| {
            to.octets(OCTETS, of.attribute.as_bytes());
            to.constructed(SEQUENCE, |to| {
                of.initial.iter().for_each(|part| to.octets(INITIAL, part));
                of.any.iter().for_each(|part| to.octets(ANY, part));
                of.last.iter().for_each(|part| to.octets(LAST, part));
            });
        }),
        Filter::Extensible(of) => to.constructed(EXTENSIBLE, |to| {
            of.rule.iter().for_each(|rule| to.octets(RULE, rule.as_bytes()));
            of.attribute.iter().for_each(|attribute| to.octets(ATTRIBUTE, attribute.as_bytes()));
            to.octets(VALUE, &of.value);
            if of.dn_attributes {
                to.boolean(DN_ATTRIBUTES, true);
            }
        }),
    }
}

fn tree(from: &mut Decoder<'_>, depth: usize) -> Result<Filter, BerError> {
    if depth >= DEPTH_MAX {
        return Err(BerError("a filter is nested deeper than 64 levels"));
    }
    let (tag, content) = from.element()?;
    let mut from = Decoder::new(content);
    let mut all = || {
        let mut filters = Vec::new();
        while !from.is_empty() {
            filters.push(tree(&mut from, depth + 1)?);
        }
        Ok(filters)
    };
    Ok(match tag {
        AND => Filter::And(all()?),
        OR => Filter::Or(all()?),
        NOT => Filter::Not(Box::new(tree(&mut from, depth + 1)?)),
        EQUAL => Filter::Equal(assertion(from)?),
        GREATER_OR_EQUAL => Filter::GreaterOrEqual(assertion(from)?),
        LESS_OR_EQUAL => Filter::LessOrEqual(assertion(from)?),
        APPROXIMATE => Filter::Approximate(assertion(from)?),
        PRESENT => Filter::Present(ber::as_text(content)?.to_string()),
        SUBSTRINGS => Filter::Substrings(substrings(from)?),
        EXTENSIBLE => Filter::Extensible(Extensible {
            rule: from.optional(RULE)?.map(text).transpose()?,
            attribute: from.optional(ATTRIBUTE)?.map(text).transpose()?,
            value: from.expect(VALUE)?.to_vec(),
            dn_attributes: from.optional(DN_ATTRIBUTES)?.map(ber::as_boolean).transpose()?.unwrap_or(false),
        }),
        _ => return Err(BerError("a filter of an unknown kind")),
    })
}

fn text(bytes: &[u8]) -> Result<String, BerError> {
    ber::as_text(bytes).map(str::to_string)
}

fn assertion(mut from: Decoder<'_>) -> Result<Assertion, BerError> {
    Ok(Assertion { attribute: text(from.expect(OCTETS)?)?, value: from.expect(OCTETS)?.to_vec() })
}

fn substrings(mut from: Decoder<'_>) -> Result<Substrings, BerError> {
    let attribute = text(from.expect(OCTETS)?)?;
    let mut parts = from.constructed(SEQUENCE)?;
    let initial = parts.optional(INITIAL)?.map(<[u8]>::to_vec);
    let mut any = Vec::new();
    while let Some(part) = parts.optional(ANY)? {
        any.push(part.to_vec());
    }
    let last = parts.optional(LAST)?.map(<[u8]>::to_vec);
    if !parts.is_empty() || (&initial, &last, any.len()) == (&None, &None, 0) {
        return Err(BerError("the parts of a substring filter are missing or out of order"));
    }
    Ok(Substrings { attribute, initial, any, last })
}
