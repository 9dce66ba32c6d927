//! A subset of XPath 1.0: location paths, for values of XML responses.
//!
//! ```text
//! query     = path | "count(" path ")" | "string(" path ")"
//! path      = ["/" | "//"] step { ("/" | "//") step }
//! step      = (name | "*" | prefix ":" name | "text()") { predicate } | "@" name | "@*" | "." | ".."
//! predicate = "[" position | "last()" | path [("=" | "!=") literal] | "contains(" path "," literal ")" "]"
//! ```
//!
//! A name without a prefix matches elements and attributes of every namespace, because the answers of services
//! rarely have none. A prefix is one that the document declares.

use roxmltree::{Document, Node, NodeType};

/// The longest query, and the deepest nesting of predicates.
const QUERY_BYTES_MAX: usize = 1000;
const DEPTH_MAX: usize = 8;

/// A compiled query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct XPath {
    path: Path,
    is_count: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Path {
    is_absolute: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// Whether descendants are searched, not only children.
    is_deep: bool,
    test: Test,
    predicates: Vec<Predicate>,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Element(Option<Name>),
    Attribute(Option<Name>),
    Text,
    Itself,
    Parent,
}

#[derive(Clone, Debug, PartialEq)]
struct Name {
    prefix: Option<String>,
    local: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Predicate {
    /// From 1.
    Position(usize),
    Last,
    Exists(Path),
    Equals(Path, String),
    Differs(Path, String),
    Contains(Path, String),
}

/// A found element, text or attribute.
#[derive(Clone, Copy, Debug)]
enum Found<'a, 'i> {
    Node(Node<'a, 'i>),
    Attribute(Node<'a, 'i>, &'a str),
}

impl XPath {
    /// Parses a query; otherwise what is wrong.
    pub(super) fn parse(text: &str) -> Result<XPath, String> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(format!("it is longer than {QUERY_BYTES_MAX} bytes"));
        }
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let is_count = parser.takes("count(");
        let is_function = is_count || parser.takes("string(");
        let path = parser.path()?;
        if is_function && !parser.takes(")") {
            return Err(parser.unexpected("`)`"));
        }
        match parser.rest.is_empty() {
            true => Ok(XPath { path, is_count }),
            false => Err(parser.unexpected("the end")),
        }
    }

    /// The value of the first node, or the number of nodes; none if there is no node.
    pub(super) fn find(&self, document: &Document<'_>) -> Option<String> {
        let found = self.path.nodes(document.root());
        if self.is_count {
            return Some(found.len().to_string());
        }
        found.first().map(|node| text_of(*node))
    }
}

/// The string value of a node (XPath 1.0 section 5).
fn text_of(found: Found<'_, '_>) -> String {
    match found {
        Found::Attribute(_, value) => value.to_string(),
        Found::Node(node) => {
            node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
        }
    }
}

impl Path {
    /// The nodes that the path leads to from `context`, in the order of the document.
    fn nodes<'a, 'i>(&self, context: Node<'a, 'i>) -> Vec<Found<'a, 'i>> {
        let begin = if self.is_absolute { context.document().root() } else { context };
        let mut nodes = vec![begin];
        for (at, step) in self.steps.iter().enumerate() {
            let found = step.apply(&nodes);
            if at + 1 == self.steps.len() {
                return found;
            }
            nodes = found
                .into_iter()
                .filter_map(|found| match found {
                    Found::Node(node) => Some(node),
                    Found::Attribute(..) => None,
                })
                .collect();
        }
        nodes.into_iter().map(Found::Node).collect()
    }
}

impl Step {
    fn apply<'a, 'i>(&self, context: &[Node<'a, 'i>]) -> Vec<Found<'a, 'i>> {
        let mut found = Vec::new();
        let mut add = |node: Node<'a, 'i>| {
            let mut candidates = self.test.candidates(node);
            for predicate in &self.predicates {
                candidates = predicate.filter(candidates);
            }
            found.extend(candidates);
        };
        if self.is_deep {
            // Nodes are in the order of the document, so the descendants of one are a range of ids. A node whose
            // ancestor was searched is not searched again.
            let mut searched_to = None;
            for node in context {
                if searched_to.is_some_and(|id| node.id().get() <= id) {
                    continue;
                }
                for descendant in node.descendants() {
                    searched_to = Some(descendant.id().get());
                    add(descendant);
                }
            }
        } else {
            context.iter().copied().for_each(&mut add);
        }
        // Attributes are found once; nodes perhaps by several ways, for example by `..`.
        let id = |found: &Found<'_, '_>| match found {
            Found::Node(node) | Found::Attribute(node, _) => node.id().get(),
        };
        found.sort_by_key(id);
        found.dedup_by(|a, b| matches!((&a, &b), (Found::Node(a), Found::Node(b)) if a.id() == b.id()));
        found
    }
}

impl Test {
    /// The nodes that this test selects from a node.
    fn candidates<'a, 'i>(&self, node: Node<'a, 'i>) -> Vec<Found<'a, 'i>> {
        match self {
            Test::Element(name) => {
                let is_it = |child: &Node<'_, '_>| {
                    let of = child.tag_name();
                    child.is_element()
                        && name.as_ref().is_none_or(|name| name.is(*child, of.namespace(), of.name()))
                };
                node.children().filter(is_it).map(Found::Node).collect()
            }
            Test::Attribute(name) => node
                .attributes()
                .filter(|of| name.as_ref().is_none_or(|name| name.is(node, of.namespace(), of.name())))
                .map(|attribute| Found::Attribute(node, attribute.value()))
                .collect(),
            Test::Text => node.children().filter(Node::is_text).map(Found::Node).collect(),
            Test::Itself => vec![Found::Node(node)],
            Test::Parent => node.parent().map(Found::Node).into_iter().collect(),
        }
    }
}

impl Name {
    fn is(&self, scope: Node<'_, '_>, namespace: Option<&str>, local: &str) -> bool {
        self.local == local
            && match &self.prefix {
                None => true,
                Some(prefix) => namespace.is_some() && scope.lookup_namespace_uri(Some(prefix)) == namespace,
            }
    }
}

impl Predicate {
    fn filter<'a, 'i>(&self, candidates: Vec<Found<'a, 'i>>) -> Vec<Found<'a, 'i>> {
        let holds = |found: &Found<'a, 'i>, path: &Path, is_it: &dyn Fn(&str) -> bool| match found {
            Found::Node(node) => path.nodes(*node).into_iter().any(|found| is_it(&text_of(found))),
            Found::Attribute(..) => false,
        };
        let mut candidates = candidates;
        match self {
            Predicate::Position(position) => {
                return candidates.into_iter().skip(position - 1).take(1).collect();
            }
            Predicate::Last => return candidates.pop().into_iter().collect(),
            Predicate::Exists(path) => candidates.retain(|found| holds(found, path, &|_| true)),
            Predicate::Equals(path, text) => {
                candidates.retain(|found| holds(found, path, &|value| value == text));
            }
            Predicate::Differs(path, text) => {
                candidates.retain(|found| holds(found, path, &|value| value != text));
            }
            Predicate::Contains(path, text) => {
                candidates.retain(|found| holds(found, path, &|value| value.contains(text.as_str())));
            }
        }
        candidates
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a token if it comes next.
    fn takes(&mut self, token: &str) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn unexpected(&self, expected: &str) -> String {
        match self.rest.chars().next() {
            Some(_) => {
                let found: String = self.rest.chars().take(12).collect();
                format!("{expected} is expected before `{}`", found.escape_debug())
            }
            None => format!("{expected} is missing at the end"),
        }
    }

    fn path(&mut self) -> Result<Path, String> {
        let mut is_deep = self.takes("//");
        let is_absolute = is_deep || self.takes("/");
        let mut steps = Vec::new();
        loop {
            steps.push(self.step(is_deep)?);
            is_deep = self.takes("//");
            if !(is_deep || self.takes("/")) {
                return Ok(Path { is_absolute, steps });
            }
        }
    }

    fn step(&mut self, is_deep: bool) -> Result<Step, String> {
        let test = if self.takes("..") {
            Test::Parent
        } else if self.takes(".") {
            Test::Itself
        } else if self.takes("text()") {
            Test::Text
        } else if self.takes("@") {
            Test::Attribute(self.name_test()?)
        } else {
            Test::Element(self.name_test()?)
        };
        let mut predicates = Vec::new();
        while self.takes("[") {
            if !matches!(test, Test::Element(_) | Test::Text) {
                return Err("only elements and text() can have a condition in brackets".into());
            }
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(format!("conditions are nested more than {DEPTH_MAX} deep"));
            }
            predicates.push(self.predicate()?);
            self.depth -= 1;
            if !self.takes("]") {
                return Err(self.unexpected("`]`"));
            }
        }
        Ok(Step { is_deep, test, predicates })
    }

    /// None for `*`.
    fn name_test(&mut self) -> Result<Option<Name>, String> {
        if self.takes("*") {
            return Ok(None);
        }
        let first = self.name()?;
        let is_prefix = self.rest.starts_with(':') && !self.rest.starts_with("::");
        if !is_prefix {
            let next = self.rest.chars().next();
            return match next {
                Some('(') => Err(format!("the function {first}() is not in the subset")),
                Some(':') => Err(format!("the axis {first}:: is not in the subset")),
                _ => Ok(Some(Name { prefix: None, local: first.into() })),
            };
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        Ok(Some(Name { prefix: Some(first.into()), local: self.name()?.into() }))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return Err(self.unexpected("a name"));
        }
        self.rest = rest;
        Ok(name)
    }

    fn predicate(&mut self) -> Result<Predicate, String> {
        self.skip_blanks();
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let (number, rest) = self.rest.split_at(digits);
            self.rest = rest;
            return match number.parse() {
                Ok(position) if position > 0 => Ok(Predicate::Position(position)),
                _ => Err("positions are counted from 1".into()),
            };
        }
        if self.takes("last()") {
            return Ok(Predicate::Last);
        }
        if self.takes("contains(") {
            let path = self.path()?;
            if !self.takes(",") {
                return Err(self.unexpected("`,`"));
            }
            let text = self.literal()?;
            return match self.takes(")") {
                true => Ok(Predicate::Contains(path, text)),
                false => Err(self.unexpected("`)`")),
            };
        }
        let path = self.path()?;
        if self.takes("!=") {
            return Ok(Predicate::Differs(path, self.literal()?));
        }
        if self.takes("=") {
            return Ok(Predicate::Equals(path, self.literal()?));
        }
        Ok(Predicate::Exists(path))
    }

    fn literal(&mut self) -> Result<String, String> {
        self.skip_blanks();
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Err(self.unexpected("a text in quotation marks"));
        };
        match self.rest.get(1..).and_then(|rest| rest.split_once(quote)) {
            Some((text, rest)) => {
                self.rest = rest;
                Ok(text.to_string())
            }
            None => Err("a quotation mark is missing".into()),
        }
    }
}

/// Reads an XML body; none if it is not XML.
pub(super) fn document(body: &[u8]) -> Option<Document<'_>> {
    let text = std::str::from_utf8(body).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Pages have a document type. Entities are limited by the reader itself.
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .ok()
        .filter(|document| document.root().node_type() == NodeType::Root)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = r#"<?xml version="1.0"?>
<s:Envelope xmlns:s="urn:soap" xmlns="urn:shop"><s:Body>
  <orders total="3"><order id="a1"><item>pen</item><item>ink</item></order>
  <order id="a2" s:state="open"><item>cap &amp; nib</item></order><order/></orders>
</s:Body></s:Envelope>"#;

    fn found(query: &str) -> Option<String> {
        let document = document(ORDERS.as_bytes()).unwrap();
        XPath::parse(query).unwrap_or_else(|error| panic!("{query}: {error}")).find(&document)
    }

    #[test]
    fn values_are_found() {
        for (query, expected) in [
            ("/Envelope/Body/orders/@total", Some("3")),
            ("/s:Envelope/s:Body/orders/order[1]/item", Some("pen")),
            ("/s:orders", None),
            ("//item[2]", Some("ink")),
            ("//item[last()]", Some("ink")),
            ("//order[2]/item", Some("cap & nib")),
            ("//order[@id='a2']/item/text()", Some("cap & nib")),
            ("//order[@id!='a1']/@id", Some("a2")),
            ("//order[item='ink']/@id", Some("a1")),
            ("//order[contains(item, 'nib')]/@s:state", Some("open")),
            ("//order[item][2]/@id", Some("a2")),
            ("//item[.='ink']", Some("ink")),
            ("//item/../@id", Some("a1")),
            ("//item/./..//item[2]", Some("ink")),
            ("count(//order)", Some("3")),
            ("count( //item/.. )", Some("2")),
            ("count(//@*)", Some("4")),
            ("count(//nothing)", Some("0")),
            ("string(//order[3])", Some("")),
            ("//order//item", Some("pen")),
            ("//*[@id]/item", Some("pen")),
            ("//nothing", None),
            ("/Envelope/order", None),
        ] {
            assert_eq!(found(query).as_deref(), expected, "{query}");
        }
    }

    #[test]
    fn what_is_not_in_the_subset_is_refused() {
        for (query, expected) in [
            ("", "a name is missing at the end"),
            ("/", "a name is missing at the end"),
            ("//a[", "a name is missing at the end"),
            ("//a[1", "`]` is missing at the end"),
            ("//a[0]", "positions are counted from 1"),
            ("//a[x=1]", "a text in quotation marks is expected before `1]`"),
            ("//a[x='1]", "a quotation mark is missing"),
            ("//a | //b", "the end is expected before `| //b`"),
            ("position()", "the function position() is not in the subset"),
            ("child::a", "the axis child:: is not in the subset"),
            ("//@a[1]", "only elements and text() can have a condition in brackets"),
            ("count(//a", "`)` is missing at the end"),
        ] {
            assert_eq!(XPath::parse(query).unwrap_err(), expected, "{query}");
        }
        assert!(XPath::parse(&format!("{}a{}", "a[".repeat(100), "]".repeat(100))).is_err());
    }

    #[test]
    fn a_deep_document_is_read() {
        let text = format!("{}x{}", "<a>".repeat(5000), "</a>".repeat(5000));
        match document(text.as_bytes()) {
            Some(document) => {
                assert_eq!(XPath::parse("count(//a//a)").unwrap().find(&document).as_deref(), Some("4999"));
            }
            None => panic!("it is XML"),
        }
    }

    proptest::proptest! {
        #[test]
        fn no_query_panics(text in "(/|//|\\[|\\]|@|text\\(\\)|\\.\\.|count\\(|\\)|'|=|[a-c1*]|\\PC){0,12}") {
            if let Ok(query) = XPath::parse(&text) {
                query.find(&document(ORDERS.as_bytes()).unwrap());
            }
        }
    }
}
