//! The grammar of WCAT's scenario and settings files.
//!
//! ```text
//! file    = element                    ; the rest of the file is ignored
//! element = name "{" { attribute | element } "}"
//! attribute = name "=" value (";" | line end)
//! value   = term { "+" term }
//! term    = "text" | 'raw text' | <file> | word | name "(" [ value { "," value } ] ")"
//! comment = "//" to the end of the line
//! ```
//!
//! Names are compared without case.

use std::iter::Peekable;
use std::str::CharIndices;

/// The deepest nesting of elements and of calls.
const DEPTH_MAX: usize = 32;

/// An element.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Element {
    /// In lower case.
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) attributes: Vec<Attribute>,
    /// The elements in it, in order.
    pub(super) children: Vec<Element>,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute {
    /// In lower case.
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) value: Vec<Term>,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    /// A text in quotation marks.
    Text(String),
    /// A number or a keyword.
    Word(String),
    /// The path of a file.
    File(String),
    /// A call of a function, with its name in lower case.
    Call(String, Vec<Vec<Term>>),
}

impl Element {
    /// The last attribute with this name.
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().rev().find(|attribute| attribute.name == name)
    }
}

impl Attribute {
    /// The value, if it is a constant.
    pub(super) fn text(&self) -> Option<&str> {
        match self.value.as_slice() {
            [Term::Text(text) | Term::Word(text)] => Some(text),
            _ => None,
        }
    }
}

/// A syntax error: its line, and what is expected.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub(super) line: u32,
    pub(super) what: String,
}

/// Parses the first element of a file.
pub(super) fn parse(text: &str) -> Result<Element, SyntaxError> {
    let mut parser = Parser { text, characters: text.char_indices().peekable(), line: 1, depth: 0 };
    parser.skip();
    let name = parser.word();
    if name.is_empty() {
        return Err(parser.error("`scenario {` or `settings {` is expected"));
    }
    parser.element(&name)
}

struct Parser<'a> {
    text: &'a str,
    characters: Peekable<CharIndices<'a>>,
    line: u32,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError { line: self.line, what: what.into() }
    }

    fn peek(&mut self) -> Option<char> {
        self.characters.peek().map(|(_, c)| *c)
    }

    fn rest(&mut self) -> &'a str {
        let at = self.characters.peek().map_or(self.text.len(), |(at, _)| *at);
        self.text.get(at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<char> {
        let (_, c) = self.characters.next()?;
        self.line += u32::from(c == '\n');
        Some(c)
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        self.skip_in_line();
        while self.peek() == Some('\n') {
            self.next();
            self.skip_in_line();
        }
    }

    /// Skips blanks and comments up to the end of the line.
    fn skip_in_line(&mut self) {
        loop {
            if self.rest().starts_with("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            }
            match self.peek() {
                Some(c) if c != '\n' && (c.is_whitespace() || c == '\u{feff}') => self.next(),
                _ => return,
            };
        }
    }

    fn takes(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.next();
        }
        found
    }

    /// A name, a number or a keyword; empty if there is none.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_alphanumeric() || "_-.:/%".contains(*c)) {
            if c == '/' && self.rest().starts_with("//") {
                break;
            }
            word.push(c);
            self.next();
        }
        word
    }

    /// An element, after its name.
    fn element(&mut self, name: &str) -> Result<Element, SyntaxError> {
        let mut element = Element { name: name.to_lowercase(), line: self.line, ..Element::default() };
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("elements are nested too deep"));
        }
        self.skip();
        if !self.takes('{') {
            return Err(self.error(format!("`{{` is expected after `{name}`")));
        }
        loop {
            self.skip();
            if self.takes('}') {
                break;
            }
            if self.takes(';') {
                continue;
            }
            if self.peek().is_none() {
                let what = format!("`}}` of `{name}` in line {} is missing", element.line);
                return Err(self.error(what));
            }
            let word = self.word();
            if word.is_empty() {
                let found: String = self.rest().chars().take(1).collect();
                return Err(self.error(format!("a name is expected before `{}`", found.escape_debug())));
            }
            self.skip();
            match self.peek() {
                Some('=') => {
                    let line = self.line;
                    self.next();
                    let value = self.value()?;
                    self.skip_in_line();
                    if !matches!(self.peek(), Some(';' | '\n' | '}') | None) {
                        return Err(self.error(format!("`;` is expected after the value of `{word}`")));
                    }
                    self.takes(';');
                    element.attributes.push(Attribute { name: word.to_lowercase(), line, value });
                }
                Some('{') => element.children.push(self.element(&word)?),
                _ => return Err(self.error(format!("`=` or `{{` is expected after `{word}`"))),
            }
        }
        self.depth -= 1;
        Ok(element)
    }

    fn value(&mut self) -> Result<Vec<Term>, SyntaxError> {
        let mut terms = Vec::new();
        loop {
            self.skip();
            terms.push(self.term()?);
            self.skip_in_line();
            // The next line can begin with `+`.
            let rest = self.rest().trim_start();
            if !rest.starts_with('+') {
                return Ok(terms);
            }
            self.skip();
            self.takes('+');
        }
    }

    fn term(&mut self) -> Result<Term, SyntaxError> {
        match self.peek() {
            Some('"') => self.quoted().map(Term::Text),
            Some('\'') => self.until('\'').map(Term::Text),
            Some('<') => self.until('>').map(Term::File),
            _ => {
                let word = self.word();
                if word.is_empty() {
                    return Err(self.error("a value is expected"));
                }
                self.skip_in_line();
                match self.takes('(') {
                    true => Ok(Term::Call(word.to_lowercase(), self.arguments()?)),
                    false => Ok(Term::Word(word)),
                }
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Vec<Term>>, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("calls are nested too deep"));
        }
        let mut arguments = Vec::new();
        self.skip();
        while !self.takes(')') {
            arguments.push(self.value()?);
            self.skip();
            if !self.takes(',') && self.peek() != Some(')') {
                return Err(self.error("`,` or `)` is expected"));
            }
            self.skip();
        }
        self.depth -= 1;
        Ok(arguments)
    }

    /// A text in double quotation marks. An unknown escape keeps its backslash.
    fn quoted(&mut self) -> Result<String, SyntaxError> {
        let begin = self.line;
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(SyntaxError { line: begin, what: "the text has no closing `\"`".into() }),
                Some('"') => return Ok(text),
                Some('\\') => match self.peek() {
                    Some(c @ ('t' | 'n' | 'r' | '\\' | '"')) => {
                        self.next();
                        text.push(match c {
                            't' => '\t',
                            'n' => '\n',
                            'r' => '\r',
                            other => other,
                        });
                    }
                    _ => text.push('\\'),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn until(&mut self, end: char) -> Result<String, SyntaxError> {
        let begin = self.line;
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => {
                    return Err(SyntaxError {
                        line: begin,
                        what: format!("the text has no closing `{end}`"),
                    });
                }
                Some(c) if c == end => return Ok(text),
                Some(c) => text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(text: &str) -> Vec<Term> {
        let element = parse(&format!("x {{ a = {text}\n }}")).unwrap();
        element.attributes.into_iter().next().unwrap().value
    }

    #[test]
    fn values_are_read() {
        let text = |text: &str| Term::Text(text.into());
        for (written, expected) in [
            ("\"a\\tb\\\"\\\\\\%\";", vec![text("a\tb\"\\\\%")]),
            ("'a\\t\"';", vec![text("a\\t\"")]),
            ("\"a\nb\"", vec![text("a\nb")]),
            ("\"http://x\" // c", vec![text("http://x")]),
            ("<dir\\f.txt>;", vec![Term::File("dir\\f.txt".into())]),
            (
                "\"a\"\n + rand(\"1\", '9');",
                vec![text("a"), Term::Call("rand".into(), vec![vec![text("1")], vec![text("9")]])],
            ),
            ("Server()", vec![Term::Call("server".into(), vec![])]),
            ("-12;", vec![Term::Word("-12".into())]),
        ] {
            assert_eq!(value_of(written), expected, "{written}");
        }
    }

    #[test]
    fn what_tools_write_is_read() {
        // An extra brace after the root, no semicolon, names in capitals.
        let text = "// c\nScenario\n{\n  name = \"x\";\n  Transaction { ID = 1\n secure = true\n request { }; } }\n}\n garbage";
        let element = parse(text).unwrap();
        assert_eq!((element.name.as_str(), element.line), ("scenario", 2));
        let transaction = &element.children[0];
        assert_eq!(transaction.attribute("id").and_then(Attribute::text), Some("1"));
        assert_eq!(transaction.attribute("secure").map(|attribute| attribute.line), Some(6));
        assert_eq!(transaction.children[0].name, "request");
    }

    #[test]
    fn errors_have_their_line() {
        for (text, line, what) in [
            ("", 1, "`scenario {` or `settings {` is expected"),
            ("scenario", 1, "`{` is expected after `scenario`"),
            ("scenario {\n a = 1;\n", 3, "`}` of `scenario` in line 1 is missing"),
            ("scenario {\n a 1;\n}", 2, "`=` or `{` is expected after `a`"),
            ("scenario {\n a = ;\n}", 2, "a value is expected"),
            ("scenario {\n a = \"b;\n}", 2, "the text has no closing `\"`"),
            ("scenario {\n a = \"b\" \"c\";\n}", 2, "`;` is expected after the value of `a`"),
            ("scenario { a = f(1 2); }", 1, "`,` or `)` is expected"),
            ("scenario { ! }", 1, "a name is expected before `!`"),
        ] {
            assert_eq!(parse(text).unwrap_err(), SyntaxError { line, what: what.into() }, "{text}");
        }
        assert!(parse(&"a{".repeat(100_000)).is_err());
        assert!(parse(&format!("a {{ b = {}", "f(".repeat(100_000))).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(scenario|request|\\{|\\}|=|;|\"|'|<|>|\\(|\\)|,|\\+|//|\n|\\\\|[a-z0-9 ]|\\PC){0,24}") {
            let _ = parse(&text);
        }
    }
}
