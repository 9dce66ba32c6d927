//! JSON paths (RFC 9535), for values of JSON responses.
//!
//! ```text
//! path     = "$" { segment }
//! segment  = "." name | ".*" | ".." name | "..*" | [".."] "[" selector { "," selector } "]"
//! selector = quoted name | "*" | index | [start] ":" [end] [":" step] | "?" condition
//! ```
//!
//! A condition has comparisons, `&&`, `||`, `!`, brackets, and the functions length, count, value, match and search.

use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

/// The longest path, and the deepest nesting of conditions: the parser is recursive.
const PATH_BYTES_MAX: usize = 1000;
const DEPTH_MAX: usize = 16;

/// Most nodes that are looked at; descendants of descendants can be more than a document has nodes.
const NODES_MAX: usize = 1_000_000;

/// A compiled path.
#[derive(Clone, Debug)]
pub(super) struct JsonPath(Vec<Segment>);

#[derive(Clone, Debug)]
struct Segment {
    /// Whether it applies to all descendants.
    is_deep: bool,
    selectors: Vec<Selector>,
}

#[derive(Clone, Debug)]
enum Selector {
    Name(String),
    All,
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
    Filter(Condition),
}

#[derive(Clone, Debug)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    Exists(Query),
    Compare(Operand, Comparison, Operand),
    Matches(Operand, Pattern),
}

/// A path from the root (`$`) or from the present node (`@`).
#[derive(Clone, Debug)]
struct Query {
    is_absolute: bool,
    path: JsonPath,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug)]
enum Operand {
    Literal(Value),
    Value(Query),
    Length(Box<Operand>),
    Count(Query),
}

/// The regular expression of `match`, which is anchored, or of `search`.
#[derive(Clone, Debug)]
struct Pattern(Regex);

impl JsonPath {
    /// Parses a path; otherwise what is wrong.
    pub(super) fn parse(text: &str) -> Result<JsonPath, String> {
        if text.len() > PATH_BYTES_MAX {
            return Err(format!("it is longer than {PATH_BYTES_MAX} bytes"));
        }
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        if !parser.takes("$") {
            return Err("it does not begin with `$`".into());
        }
        let path = parser.path()?;
        match parser.rest.trim_start().is_empty() {
            true => Ok(path),
            false => Err(parser.unexpected("`.` or `[`")),
        }
    }

    /// The first value that the path leads to; none if there is none.
    pub(super) fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.nodes(document, document).first().copied()
    }

    /// All values that the path leads to from a node.
    fn nodes<'a>(&self, root: &'a Value, from: &'a Value) -> Vec<&'a Value> {
        let mut nodes = vec![from];
        for segment in &self.0 {
            let mut found = Vec::new();
            for node in nodes {
                segment.apply(root, node, &mut found);
            }
            nodes = found;
        }
        nodes
    }

    /// Whether it leads to one value at most.
    fn is_singular(&self) -> bool {
        let is_single = |selector: &Selector| matches!(selector, Selector::Name(_) | Selector::Index(_));
        self.0.iter().all(|segment| {
            !segment.is_deep && segment.selectors.len() == 1 && segment.selectors.iter().all(is_single)
        })
    }
}

impl Segment {
    fn apply<'a>(&self, root: &'a Value, node: &'a Value, found: &mut Vec<&'a Value>) {
        if found.len() >= NODES_MAX {
            return;
        }
        for selector in &self.selectors {
            selector.apply(root, node, found);
        }
        if self.is_deep {
            // The depth of a document is limited by its reader.
            children(node).for_each(|child| self.apply(root, child, found));
        }
    }
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    let entries = node.as_array().into_iter().flatten();
    entries.chain(node.as_object().into_iter().flat_map(|object| object.values()))
}

impl Selector {
    fn apply<'a>(&self, root: &'a Value, node: &'a Value, found: &mut Vec<&'a Value>) {
        match (self, node) {
            (Selector::Name(name), Value::Object(entries)) => found.extend(entries.get(name)),
            (Selector::All, _) => found.extend(children(node)),
            (Selector::Index(index), Value::Array(entries)) => {
                found.extend(place(*index, entries.len()).and_then(|at| entries.get(at)));
            }
            (Selector::Slice(start, end, step), Value::Array(entries)) => {
                slice(entries, *start, *end, *step, found);
            }
            (Selector::Filter(condition), _) => {
                found.extend(children(node).filter(|child| condition.holds(root, child)));
            }
            _ => {}
        }
    }
}

/// The place of an index, which counts from the end if it is negative.
fn place(index: i64, length: usize) -> Option<usize> {
    let from_end = || (length as i64).checked_add(index);
    let at = if index < 0 { from_end()? } else { index };
    usize::try_from(at).ok()
}

/// The entries of a slice (section 2.3.4.2.2).
fn slice<'a>(
    entries: &'a [Value],
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
    found: &mut Vec<&'a Value>,
) {
    let length = entries.len() as i64;
    let normal = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let at = |at: i64| usize::try_from(at).ok().and_then(|at| entries.get(at));
    if step > 0 {
        let from = normal(start.unwrap_or(0)).clamp(0, length);
        let to = normal(end.unwrap_or(length)).clamp(0, length);
        let mut next = from;
        while next < to {
            found.extend(at(next));
            next = next.saturating_add(step);
        }
    } else if step < 0 {
        let from = start.map_or(length - 1, normal).clamp(-1, length - 1);
        let to = end.map_or(-1, normal).clamp(-1, length - 1);
        let mut next = from;
        while next > to {
            found.extend(at(next));
            next = next.saturating_add(step);
        }
    }
}

impl Query {
    fn nodes<'a>(&self, root: &'a Value, node: &'a Value) -> Vec<&'a Value> {
        self.path.nodes(root, if self.is_absolute { root } else { node })
    }
}

impl Condition {
    fn holds(&self, root: &Value, node: &Value) -> bool {
        match self {
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.holds(root, node)),
            Condition::All(conditions) => conditions.iter().all(|condition| condition.holds(root, node)),
            Condition::Not(condition) => !condition.holds(root, node),
            Condition::Exists(query) => !query.nodes(root, node).is_empty(),
            Condition::Compare(left, comparison, right) => {
                compare(left.value(root, node).as_ref(), *comparison, right.value(root, node).as_ref())
            }
            Condition::Matches(operand, pattern) => match operand.value(root, node) {
                Some(Value::String(text)) => pattern.0.is_match(&text),
                _ => false,
            },
        }
    }
}

impl Operand {
    /// The value; none for nothing.
    fn value(&self, root: &Value, node: &Value) -> Option<Value> {
        match self {
            Operand::Literal(value) => Some(value.clone()),
            Operand::Value(query) => match query.nodes(root, node).as_slice() {
                [only] => Some((*only).clone()),
                _ => None,
            },
            Operand::Count(query) => Some(query.nodes(root, node).len().into()),
            Operand::Length(operand) => Some(match operand.value(root, node)? {
                Value::String(text) => text.chars().count().into(),
                Value::Array(entries) => entries.len().into(),
                Value::Object(entries) => entries.len().into(),
                _ => return None,
            }),
        }
    }
}

/// Compares two values or nothing (section 2.3.5.2.2).
fn compare(left: Option<&Value>, comparison: Comparison, right: Option<&Value>) -> bool {
    let equal = match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => are_equal(left, right),
        _ => false,
    };
    let order = || match (left?, right?) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    };
    match comparison {
        Comparison::Equal => equal,
        Comparison::NotEqual => !equal,
        Comparison::Less => order() == Some(Ordering::Less),
        Comparison::LessOrEqual => equal || order() == Some(Ordering::Less),
        Comparison::Greater => order() == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => equal || order() == Some(Ordering::Greater),
    }
}

/// Whether two values are equal; 1 and 1.0 are.
fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| are_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| are_equal(left, right)))
        }
        _ => left == right,
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    /// Takes a token if it comes next, after blanks.
    fn takes(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.takes(token) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{token}`"))),
        }
    }

    fn unexpected(&self, expected: &str) -> String {
        let found: String = self.rest.trim_start().chars().take(12).collect();
        match found.is_empty() {
            true => format!("{expected} is missing at the end"),
            false => format!("{expected} is expected before `{}`", found.escape_debug()),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.trim_start().chars().next()
    }

    /// Segments, after `$` or `@`.
    fn path(&mut self) -> Result<JsonPath, String> {
        let mut segments = Vec::new();
        loop {
            let is_deep = self.takes("..");
            let selectors = if self.takes("[") {
                self.selectors()?
            } else if is_deep || self.takes(".") {
                match self.takes("*") {
                    true => vec![Selector::All],
                    false => vec![Selector::Name(self.name()?)],
                }
            } else {
                return Ok(JsonPath(segments));
            };
            segments.push(Segment { is_deep, selectors });
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.unexpected("a name"));
        }
        self.rest = rest;
        Ok(name.into())
    }

    /// Selectors, after `[`.
    fn selectors(&mut self) -> Result<Vec<Selector>, String> {
        let mut selectors = Vec::new();
        loop {
            selectors.push(self.selector()?);
            if self.takes("]") {
                return Ok(selectors);
            }
            if !self.takes(",") {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, String> {
        match self.peek() {
            Some('"' | '\'') => return self.quoted().map(Selector::Name),
            Some('*') => {
                self.takes("*");
                return Ok(Selector::All);
            }
            Some('?') => {
                self.takes("?");
                return self.nested(Parser::any).map(Selector::Filter);
            }
            _ => {}
        }
        let start = self.integer()?;
        if !self.takes(":") {
            return start
                .map(Selector::Index)
                .ok_or_else(|| self.unexpected("a name in quotation marks, a number, `*` or `?`"));
        }
        let end = self.integer()?;
        let step = if self.takes(":") { self.integer()?.unwrap_or(1) } else { 1 };
        Ok(Selector::Slice(start, end, step))
    }

    /// An integer, if there is one.
    fn integer(&mut self) -> Result<Option<i64>, String> {
        let text = self.rest.trim_start();
        let sign = usize::from(text.starts_with('-'));
        let digits = text.get(sign..).unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 && sign == 0 {
            return Ok(None);
        }
        let (number, rest) = text.split_at(sign + digits);
        self.rest = rest;
        number.parse().map(Some).map_err(|_| format!("`{number}` is not an index"))
    }

    /// A text in quotation marks of either kind, with the escapes of JSON.
    fn quoted(&mut self) -> Result<String, String> {
        let text = self.rest.trim_start();
        let quote = text.chars().next().unwrap_or('"');
        let mut is_escaped = false;
        for (at, c) in text.char_indices().skip(1) {
            if c == quote && !is_escaped {
                self.rest = &text[at + 1..];
                let inside = &text[1..at];
                let json = match quote {
                    '\'' => inside.replace("\\'", "'").replace('"', "\\\""),
                    _ => inside.into(),
                };
                return serde_json::from_str(&format!("\"{json}\""))
                    .map_err(|_| "a text has an invalid escape".to_string());
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        Err("a quotation mark is missing".into())
    }

    fn nested<T>(&mut self, parse: fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("conditions are nested more than {DEPTH_MAX} deep"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut conditions = vec![self.all()?];
        while self.takes("||") {
            conditions.push(self.all()?);
        }
        Ok(Condition::Any(conditions))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut conditions = vec![self.nested(Parser::condition)?];
        while self.takes("&&") {
            conditions.push(self.nested(Parser::condition)?);
        }
        Ok(Condition::All(conditions))
    }

    fn condition(&mut self) -> Result<Condition, String> {
        if self.takes("!") {
            return self.nested(Parser::condition).map(|condition| Condition::Not(Box::new(condition)));
        }
        if self.takes("(") {
            let condition = self.nested(Parser::any)?;
            self.expect(")")?;
            return Ok(condition);
        }
        for (function, is_whole) in [("match(", true), ("search(", false)] {
            if self.takes(function) {
                return self.pattern(is_whole);
            }
        }
        let left = match self.query()? {
            Some(query) => match self.comparison() {
                None => return Ok(Condition::Exists(query)),
                Some(comparison) => {
                    let left = singular(query)?;
                    return Ok(Condition::Compare(left, comparison, self.operand()?));
                }
            },
            None => self.operand()?,
        };
        match self.comparison() {
            Some(comparison) => Ok(Condition::Compare(left, comparison, self.operand()?)),
            None => Err(self.unexpected("a comparison")),
        }
    }

    /// The arguments of `match` or `search`.
    fn pattern(&mut self, is_whole: bool) -> Result<Condition, String> {
        let operand = self.operand()?;
        self.expect(",")?;
        if !matches!(self.peek(), Some('"' | '\'')) {
            return Err(self.unexpected("a regular expression in quotation marks"));
        }
        let text = self.quoted()?;
        self.expect(")")?;
        let text = if is_whole { format!("^(?:{text})$") } else { text };
        let regex = Regex::new(&text).map_err(|_| "a regular expression in it is not valid".to_string())?;
        Ok(Condition::Matches(operand, Pattern(regex)))
    }

    /// A path, if there is one.
    fn query(&mut self) -> Result<Option<Query>, String> {
        let is_absolute = self.takes("$");
        if !is_absolute && !self.takes("@") {
            return Ok(None);
        }
        let path = self.nested(Parser::path)?;
        Ok(Some(Query { is_absolute, path }))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        // The longer ones first.
        const ALL: [(&str, Comparison); 6] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        ALL.iter().find(|(token, _)| self.takes(token)).map(|(_, comparison)| *comparison)
    }

    fn operand(&mut self) -> Result<Operand, String> {
        if let Some(query) = self.query()? {
            return singular(query);
        }
        if self.takes("length(") {
            let operand = self.nested(Parser::operand)?;
            self.expect(")")?;
            return Ok(Operand::Length(Box::new(operand)));
        }
        for function in ["count(", "value("] {
            if self.takes(function) {
                let query = self.query()?.ok_or_else(|| self.unexpected("`@` or `$`"))?;
                self.expect(")")?;
                return Ok(if function == "count(" { Operand::Count(query) } else { Operand::Value(query) });
            }
        }
        if matches!(self.peek(), Some('"' | '\'')) {
            return self.quoted().map(|text| Operand::Literal(Value::String(text)));
        }
        let text = self.rest.trim_start();
        let end =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        match serde_json::from_str::<Value>(word) {
            Ok(value) => {
                self.rest = rest;
                Ok(Operand::Literal(value))
            }
            Err(_) => Err(self.unexpected("a value")),
        }
    }
}

/// A path that can be compared.
fn singular(query: Query) -> Result<Operand, String> {
    match query.path.is_singular() {
        true => Ok(Operand::Value(query)),
        false => Err("only a path to one value can be compared; use count() or value()".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all(path: &str, document: &Value) -> Value {
        let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        path.nodes(document, document).into_iter().cloned().collect()
    }

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 9535 section 1.5.
        let store = json!({ "store": { "book": [
            { "category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95 },
            { "category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99 },
            { "category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99 },
            { "category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings", "isbn": "0-395-19395-8", "price": 22.99 }
        ], "bicycle": { "color": "red", "price": 399 } } });
        let books = &store["store"]["book"];
        for (path, expected) in [
            (
                "$.store.book[*].author",
                json!(["Nigel Rees", "Evelyn Waugh", "Herman Melville", "J. R. R. Tolkien"]),
            ),
            ("$..author", json!(["Nigel Rees", "Evelyn Waugh", "Herman Melville", "J. R. R. Tolkien"])),
            ("$..book[2]", json!([books[2]])),
            ("$..book[2].publisher", json!([])),
            ("$..book[-1]", json!([books[3]])),
            ("$..book[0,1]", json!([books[0], books[1]])),
            ("$..book[:2]", json!([books[0], books[1]])),
            ("$..book[?@.isbn].title", json!(["Moby Dick", "The Lord of the Rings"])),
            ("$..book[?@.price<10].title", json!(["Sayings of the Century", "Moby Dick"])),
            ("$..book[?match(@.author, '.*T.*')].price", json!([22.99])),
            ("$.store.bicycle[?search(@, 'e')]", json!(["red"])),
            ("$..[?length(@.title) == 9].author", json!(["Herman Melville"])),
            ("$.store[?count(@[*]) == 4][0].title", json!(["Sayings of the Century"])),
            ("$.store.book[?@.price == $.store.book[1].price].title", json!(["Sword of Honour"])),
        ] {
            assert_eq!(all(path, &store), expected, "{path}");
        }
        assert_eq!(all("$..*", &store).as_array().map(Vec::len), Some(27));
    }

    #[test]
    fn selectors_follow_the_standard() {
        let list = json!(["a", "b", "c", "d", "e", "f", "g"]);
        for (path, expected) in [
            ("$[1:3]", json!(["b", "c"])),
            ("$[5:]", json!(["f", "g"])),
            ("$[1:5:2]", json!(["b", "d"])),
            ("$[5:1:-2]", json!(["f", "d"])),
            ("$[::-1]", json!(["g", "f", "e", "d", "c", "b", "a"])),
            ("$[::0]", json!([])),
            ("$[-9223372036854775808:9223372036854775807]", list.clone()),
            ("$[-2]", json!(["f"])),
            ("$[9]", json!([])),
            ("$[?@ > 'e']", json!(["f", "g"])),
            ("$[?@ >= 'f']", json!(["f", "g"])),
            ("$[?@ <= 'b']", json!(["a", "b"])),
            ("$[?@ < 'b']", json!(["a"])),
        ] {
            assert_eq!(all(path, &list), expected, "{path}");
        }
        // Section 2.3.1.3 and 2.3.5.3.
        let object = json!({ "o": { "j j": { "k.k": 3 } }, "'": { "@": 2 }, "a": [3, 5, 1, 2, 4, 6, { "b": "j" }, { "b": "k" }, { "b": {} }, { "b": "kilo" }], "e": "f" });
        for (path, expected) in [
            ("$.o['j j']['k.k']", json!([3])),
            ("$.o[\"j j\"][\"k.k\"]", json!([3])),
            ("$[\"'\"][\"@\"]", json!([2])),
            ("$['\\'']['@']", json!([2])),
            ("$.a[?@.b == 'kilo']", json!([{ "b": "kilo" }])),
            ("$.a[?(@.b == 'kilo')]", json!([{ "b": "kilo" }])),
            ("$.a[?@>3.5]", json!([5, 4, 6])),
            ("$.a[?@.b]", json!([{ "b": "j" }, { "b": "k" }, { "b": {} }, { "b": "kilo" }])),
            ("$.a[?@<2 || @.b == \"k\"]", json!([1, { "b": "k" }])),
            ("$.a[?@.b && !(@.b == 'j' || @.b == 'k')]", json!([{ "b": {} }, { "b": "kilo" }])),
            ("$.a[?@.b == $.x].b", json!([])),
            ("$.a[?@.c == $.x]", object["a"].clone()),
            ("$.a[?@ == 3.0]", json!([3])),
            ("$[?@ == 'f' && true != false]", json!(["f"])),
        ] {
            assert_eq!(all(path, &object), expected, "{path}");
        }
    }

    #[test]
    fn invalid_paths_say_why() {
        for (path, expected) in [
            ("", "it does not begin with `$`"),
            ("a", "it does not begin with `$`"),
            ("$a", "`.` or `[` is expected before `a`"),
            ("$.", "a name is missing at the end"),
            ("$.1", "a name is expected before `1`"),
            ("$[", "a name in quotation marks, a number, `*` or `?` is missing at the end"),
            ("$['a", "a quotation mark is missing"),
            ("$['\\x']", "a text has an invalid escape"),
            ("$[1 2]", "`,` or `]` is expected before `2]`"),
            ("$[99999999999999999999]", "`99999999999999999999` is not an index"),
            ("$[-]", "`-` is not an index"),
            ("$[?1]", "a comparison is expected before `]`"),
            ("$[?@.* == 1]", "only a path to one value can be compared; use count() or value()"),
            ("$[?match(@, '(')]", "a regular expression in it is not valid"),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap_err(), expected, "{path}");
        }
        for deep in ["[?(", "[?!", "(", "[", "[?@[?", "[?length("] {
            assert!(JsonPath::parse(&format!("${}", deep.repeat(160))).is_err());
            assert!(JsonPath::parse(&format!("${}", deep.repeat(9000))).is_err());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(text in "\\$(\\.|\\[|\\]|\\?|@|\\*|'|\"|\\(|\\)|length|count|\\$|&&|==|[a-c0-9:,!<-]|\\\\|\\PC){0,16}") {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&json!({ "a": [1, { "b": [[2]] }] }));
            }
        }
    }
}
