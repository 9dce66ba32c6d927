//! Conditions on operations, such as `filter contains "(mail=" and time > 1s`.

mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use crate::operation::{Operation, Outcome};

pub use parse::Mistake;

/// A condition on an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Text { field: &'static Field, is: Comparison, value: String },
    Number { field: &'static Field, is: Comparison, value: f64 },
}

/// How a property is compared. Texts are compared without regard to the case of ASCII letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// The type of a property, with what its values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Text,
    /// Seconds.
    Time,
    Bytes,
    Count,
    /// A result code by name or number.
    Code,
}

/// A property of an operation.
#[derive(Debug)]
struct Field {
    name: &'static str,
    about: &'static str,
    kind: Type,
    get: fn(&Operation, u64) -> Value<'_>,
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

enum Value<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    Code(Outcome),
    /// The operation has no such property.
    None,
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn seconds(ns: Option<u64>) -> Value<'static> {
    ns.map_or(Value::None, |ns| Value::Number(ns as f64 / 1e9))
}

static FIELDS: [Field; 18] = [
    Field {
        name: "protocol",
        about: "ldap or http",
        kind: Type::Text,
        get: |of, _| text(of.kind.protocol().name()),
    },
    Field {
        name: "kind",
        about: "search, bind, get ...",
        kind: Type::Text,
        get: |of, _| text(of.kind.name()),
    },
    Field { name: "time", about: "response time", kind: Type::Time, get: |of, _| seconds(of.time_ns()) },
    Field {
        name: "first",
        about: "time to the first entry, or to the header of the response",
        kind: Type::Time,
        get: |of, _| seconds(of.first_time_ns()),
    },
    Field {
        name: "at",
        about: "time of the request after the first packet",
        kind: Type::Time,
        get: |of, begin_ns| seconds(Some(of.request_ns.saturating_sub(begin_ns))),
    },
    Field {
        name: "code",
        about: "result code of LDAP, by name or number",
        kind: Type::Code,
        get: |of, _| match of.outcome {
            Some(code @ Outcome::Ldap(_)) => Value::Code(code),
            _ => Value::None,
        },
    },
    Field {
        name: "status",
        about: "status code of HTTP",
        kind: Type::Count,
        get: |of, _| match of.outcome {
            Some(Outcome::Http(status)) => Value::Number(f64::from(status)),
            _ => Value::None,
        },
    },
    Field {
        name: "base",
        about: "base of a search, entry of another operation",
        kind: Type::Text,
        get: |of, _| text(&of.base),
    },
    Field {
        name: "filter",
        about: "filter of a search",
        kind: Type::Text,
        get: |of, _| Value::Text(Cow::Owned(of.filter_text())),
    },
    Field {
        name: "shape",
        about: "filter without values",
        kind: Type::Text,
        get: |of, _| Value::Text(Cow::Owned(of.filter_shape())),
    },
    Field {
        name: "name",
        about: "name that the connection is bound as; of a bind, the name in it",
        kind: Type::Text,
        get: |of, _| text(&of.name),
    },
    Field {
        name: "entries",
        about: "entries of a search",
        kind: Type::Count,
        get: |of, _| Value::Number(of.entries as f64),
    },
    Field {
        name: "bytes",
        about: "bytes of the responses",
        kind: Type::Bytes,
        get: |of, _| Value::Number(of.response_bytes as f64),
    },
    Field {
        name: "client",
        about: "address and port of the client",
        kind: Type::Text,
        get: |of, _| Value::Text(Cow::Owned(of.client.to_string())),
    },
    Field {
        name: "server",
        about: "address and port of the server",
        kind: Type::Text,
        get: |of, _| Value::Text(Cow::Owned(of.server.to_string())),
    },
    Field {
        name: "connection",
        about: "number of the connection",
        kind: Type::Count,
        get: |of, _| Value::Number(of.connection as f64),
    },
    Field { name: "method", about: "method of HTTP", kind: Type::Text, get: |of, _| text(&of.method) },
    Field {
        name: "path",
        about: "path of HTTP, without a query",
        kind: Type::Text,
        get: |of, _| text(&of.path),
    },
];

/// The properties that a condition can name, each with a description.
pub fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIELDS.iter().map(|field| (field.name, field.about))
}

impl Condition {
    /// Reads a condition. All mistakes are reported, each with its column.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        parse::parse(text).map(|root| Condition { text: text.trim().to_string(), root })
    }

    /// Whether an operation of a capture that began at this time meets it. An operation without the property does not meet
    /// a comparison with it.
    pub fn is_met(&self, operation: &Operation, begin_ns: u64) -> bool {
        self.root.is_met(operation, begin_ns)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Node {
    fn is_met(&self, operation: &Operation, begin_ns: u64) -> bool {
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.is_met(operation, begin_ns)),
            Node::Any(nodes) => nodes.iter().any(|node| node.is_met(operation, begin_ns)),
            Node::Not(node) => !node.is_met(operation, begin_ns),
            Node::Text { field, is, value } => match (field.get)(operation, begin_ns) {
                Value::Text(text) => is.holds_for_text(&text, value),
                Value::Code(code) => is.holds_for_text(&code.name(), value),
                Value::Number(_) | Value::None => false,
            },
            Node::Number { field, is, value } => match (field.get)(operation, begin_ns) {
                Value::Number(number) => is.holds_for_number(number, *value),
                Value::Code(code) => is.holds_for_number(f64::from(code.number()), *value),
                Value::Text(_) | Value::None => false,
            },
        }
    }
}

impl Comparison {
    fn holds_for_number(self, number: f64, value: f64) -> bool {
        match self {
            Comparison::Equal => number == value,
            Comparison::NotEqual => number != value,
            Comparison::Less => number < value,
            Comparison::LessOrEqual => number <= value,
            Comparison::Greater => number > value,
            Comparison::GreaterOrEqual => number >= value,
            Comparison::Contains => false,
        }
    }

    /// `value` is in lower case.
    fn holds_for_text(self, text: &str, value: &str) -> bool {
        match self {
            Comparison::Equal => text.eq_ignore_ascii_case(value),
            Comparison::NotEqual => !text.eq_ignore_ascii_case(value),
            Comparison::Contains => text.to_ascii_lowercase().contains(value),
            _ => false,
        }
    }
}
