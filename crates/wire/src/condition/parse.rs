//! The grammar of conditions:
//!
//! ```text
//! any  = all ("or" all)*
//! all  = one ("and" one)*
//! one  = "not" one | "(" any ")" | FIELD COMPARISON VALUE
//! ```
//!
//! A mistake in a field or value does not end the reading, so that all of them are reported at once.

use std::fmt;

use model::problem::did_you_mean;
use model::quantity::{parse_bytes, parse_duration};

use super::{Comparison, FIELDS, Field, Node, Type};
use ldap::ResultCode;

/// The deepest nesting.
const DEPTH_MAX: usize = 64;

/// A mistake in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub help: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "column {}: {}: {}", self.column, self.what, self.help)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    /// A word or a number with its unit.
    Word(&'a str),
    /// A text in quotes, without them.
    Quoted(String),
    Sign(&'static str),
    End,
}

/// The signs, of which no later one begins with an earlier one.
const SIGNS: [&str; 12] = ["==", "!=", "<=", ">=", "&&", "||", "=", "<", ">", "!", "(", ")"];

struct Parser<'a> {
    text: &'a str,
    /// Offset of the next byte.
    at: usize,
    token: Token<'a>,
    /// Offset of the token.
    token_at: usize,
    mistakes: Vec<Mistake>,
}

/// A mistake after which the rest cannot be read; it was noted.
struct Ends;

pub(super) fn parse(text: &str) -> Result<Node, Vec<Mistake>> {
    let mut parser = Parser { text, at: 0, token: Token::End, token_at: 0, mistakes: Vec::new() };
    let node = parser.advance().and_then(|()| parser.any(0)).and_then(|node| {
        if parser.token == Token::End {
            return Ok(node);
        }
        let what = format!("{} is not expected here", parser.shown());
        Err(parser.fail(what, "join conditions with `and` or `or`"))
    });
    match (node, parser.mistakes.is_empty()) {
        (Ok(node), true) => Ok(node),
        _ => Err(parser.mistakes),
    }
}

impl<'a> Parser<'a> {
    fn note(&mut self, at: usize, what: impl Into<String>, help: impl Into<String>) {
        let column = self.text.get(..at).map_or(0, |before| before.chars().count()) + 1;
        self.mistakes.push(Mistake { column, what: what.into(), help: help.into() });
    }

    fn fail(&mut self, what: impl Into<String>, help: impl Into<String>) -> Ends {
        self.note(self.token_at, what, help);
        Ends
    }

    /// The token as a mistake names it.
    fn shown(&self) -> String {
        match &self.token {
            Token::Word(word) => format!("`{word}`"),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".into(),
        }
    }

    fn advance(&mut self) -> Result<(), Ends> {
        let rest = &self.text[self.at..];
        let begin = self.text.len() - rest.trim_start().len();
        let rest = &self.text[begin..];
        self.token_at = begin;
        self.at = begin;
        let Some(first) = rest.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        if first == '"' || first == '\'' {
            return self.quoted(first);
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            self.token = Token::Sign(sign);
            return Ok(());
        }
        let is_word =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '/' | '*' | ',' | 'µ' | '%');
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.fail(format!("`{first}` is not expected here"), "put texts in quotes"));
        }
        self.at += length;
        self.token = Token::Word(&rest[..length]);
        Ok(())
    }

    /// A text in quotes. A backslash stands before a quote or another backslash; before anything else, as in filters, it is
    /// itself.
    fn quoted(&mut self, quote: char) -> Result<(), Ends> {
        let mut text = String::new();
        let mut characters = self.text[self.at..].char_indices().skip(1).peekable();
        while let Some((offset, c)) = characters.next() {
            match c {
                _ if c == quote => {
                    self.at += offset + c.len_utf8();
                    self.token = Token::Quoted(text);
                    return Ok(());
                }
                '\\' if characters.peek().is_some_and(|(_, next)| *next == quote || *next == '\\') => {
                    text.extend(characters.next().map(|(_, next)| next));
                }
                _ => text.push(c),
            }
        }
        Err(self.fail("a text has no end", format!("close it with {quote}")))
    }

    fn is_word(&self, word: &str, sign: &str) -> bool {
        match &self.token {
            Token::Word(found) => found.eq_ignore_ascii_case(word),
            Token::Sign(found) => *found == sign,
            _ => false,
        }
    }

    fn any(&mut self, depth: usize) -> Result<Node, Ends> {
        let mut nodes = vec![self.all(depth)?];
        while self.is_word("or", "||") {
            self.advance()?;
            nodes.push(self.all(depth)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self, depth: usize) -> Result<Node, Ends> {
        let mut nodes = vec![self.one(depth)?];
        while self.is_word("and", "&&") {
            self.advance()?;
            nodes.push(self.one(depth)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self, depth: usize) -> Result<Node, Ends> {
        if depth >= DEPTH_MAX {
            return Err(self.fail("the condition is nested too deep", "64 levels are read"));
        }
        if self.is_word("not", "!") {
            self.advance()?;
            return Ok(Node::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.token == Token::Sign("(") {
            self.advance()?;
            let node = self.any(depth + 1)?;
            if self.token != Token::Sign(")") {
                let what = format!("`)` is missing before {}", self.shown());
                return Err(self.fail(what, "join conditions with `and` or `or`"));
            }
            self.advance()?;
            return Ok(node);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node, Ends> {
        let names = || FIELDS.iter().map(|field| field.name);
        let field_at = self.token_at;
        let field = match self.token {
            Token::Word(word) => {
                let found = FIELDS.iter().find(|field| field.name.eq_ignore_ascii_case(word));
                if found.is_none() {
                    let help = did_you_mean(word, names());
                    self.note(field_at, format!("an operation has no property `{word}`"), help);
                }
                found
            }
            _ => {
                let what = format!("a property is missing before {}", self.shown());
                let all = names().collect::<Vec<_>>().join(", ");
                return Err(self.fail(what, format!("write one of {all}")));
            }
        };
        self.advance()?;
        let is_at = self.token_at;
        let is = match &self.token {
            Token::Sign("=" | "==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::NotEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessOrEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterOrEqual,
            Token::Word(word) if word.eq_ignore_ascii_case("contains") => Comparison::Contains,
            _ => {
                let what = format!("a comparison is missing before {}", self.shown());
                return Err(self.fail(what, "write =, !=, <, <=, >, >= or contains"));
            }
        };
        self.advance()?;
        let value_at = self.token_at;
        let value = match &self.token {
            Token::Word(word) => word.to_string(),
            Token::Quoted(text) => text.clone(),
            _ => {
                let what = format!("a value is missing before {}", self.shown());
                return Err(self.fail(what, "write a number with its unit, or a text in quotes"));
            }
        };
        self.advance()?;
        // With an unknown property, the rest is still checked.
        let Some(field) = field else { return Ok(Node::All(Vec::new())) };
        Ok(self.checked(field, (is, is_at), (value, value_at)))
    }

    /// A comparison of a property with a value of its type.
    fn checked(
        &mut self,
        field: &'static Field,
        (is, is_at): (Comparison, usize),
        (value, value_at): (String, usize),
    ) -> Node {
        let is_equality = matches!(is, Comparison::Equal | Comparison::NotEqual);
        let number = match field.kind {
            Type::Text => {
                if !is_equality && is != Comparison::Contains {
                    self.note(
                        is_at,
                        format!("`{}` is a text", field.name),
                        "compare it with =, != or contains",
                    );
                }
                return Node::Text { field, is, value: value.to_ascii_lowercase() };
            }
            Type::Code => match value.parse::<f64>() {
                Ok(number) => Ok(number),
                Err(_) => {
                    let known = ResultCode::NAMED.iter().map(|code| code.name());
                    if is == Comparison::Contains
                        || known.clone().any(|name| name.eq_ignore_ascii_case(&value))
                    {
                        if !is_equality && is != Comparison::Contains {
                            self.note(
                                is_at,
                                "the name of a result code has no order",
                                "compare it with = or !=",
                            );
                        }
                        return Node::Text { field, is, value: value.to_ascii_lowercase() };
                    }
                    Err((format!("there is no result code `{value}`"), did_you_mean(&value, known)))
                }
            },
            Type::Time => parse_duration(&value)
                .map(|ns| ns as f64 / 1e9)
                .map_err(|error| (error.0, "for example 1s or 50ms".to_string())),
            Type::Bytes => match value.parse::<f64>() {
                Ok(bytes) => Ok(bytes),
                Err(_) => parse_bytes(&value)
                    .map(|bytes| bytes as f64)
                    .map_err(|error| (error.0, "for example 4KiB".to_string())),
            },
            Type::Count => value
                .parse::<f64>()
                .map_err(|_| (format!("`{value}` is not a number"), format!("`{}` is a number", field.name))),
        };
        if is == Comparison::Contains {
            self.note(
                is_at,
                format!("`{}` is not a text", field.name),
                "compare it with =, !=, <, <=, > or >=",
            );
        }
        match number {
            Ok(value) => Node::Number { field, is, value },
            Err((what, help)) => {
                self.note(value_at, what, help);
                Node::All(Vec::new())
            }
        }
    }
}
