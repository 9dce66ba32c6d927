//! Finds a value in a configuration file, and replaces it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use engine::source::Unavailable;
use regex::{Regex, RegexBuilder};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

/// The format of a file.
#[derive(Clone, Debug)]
pub(super) enum Format {
    Ini,
    Properties,
    Yaml,
    Json,
    Toml,
    /// Any format: the value is the first group of the regular expression, or its whole match.
    Pattern(Regex),
}

const NAMES: [(&str, Format); 5] = [
    ("ini", Format::Ini),
    ("properties", Format::Properties),
    ("yaml", Format::Yaml),
    ("json", Format::Json),
    ("toml", Format::Toml),
];

impl Format {
    /// The stated format, or the one that the file name extension implies.
    pub(super) fn of(stated: Option<&str>, file: &Path) -> Result<Format, Unavailable> {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let name = stated.unwrap_or(match ending {
            "cfg" | "cnf" => "ini",
            "yml" => "yaml",
            other => other,
        });
        let names = NAMES.map(|(name, _)| name).join(", ");
        let found = NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format);
        found.ok_or_else(|| {
            Unavailable(match stated {
                Some(stated) => format!("`{stated}` is not a format: use one of {names}"),
                None => format!(
                    "the format of {} is not known from its name: set `format`, one of {names}, or a `pattern`",
                    file.display()
                ),
            })
        })
    }

    /// A regular expression; `^` and `$` match at line ends.
    pub(super) fn pattern(pattern: &str) -> Result<Format, Unavailable> {
        RegexBuilder::new(pattern).multi_line(true).build().map(Format::Pattern).map_err(|error| {
            // The parser's message marks the position on separate lines.
            let words = error.to_string();
            let last = words.lines().last().unwrap_or("").trim_start_matches("error: ").to_string();
            Unavailable(format!("`{pattern}` is not a regular expression: {last}"))
        })
    }
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    span: Range<usize>,
    value: String,
    /// Its quotation mark.
    quote: Option<char>,
}

/// The value of a key.
pub(super) fn read(format: &Format, text: &str, key: &str) -> Result<String, String> {
    locate(format, text, key).map(|place| place.value)
}

/// A text in which one value is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// The new text.
    pub(super) text: String,
    /// The offset of the value in both texts.
    pub(super) at: usize,
    /// The old value, with its quotation marks.
    pub(super) before: String,
    /// The new value, as written.
    pub(super) written: String,
}

/// Replaces the value of a key. The new value is quoted like the old one if that preserves it, and quoted
/// otherwise.
pub(super) fn replace(format: &Format, text: &str, key: &str, value: &str) -> Result<Replaced, String> {
    let place = locate(format, text, key)?;
    let bare = value.to_string();
    let candidates = match (format, place.quote) {
        (Format::Pattern(_), _) => vec![bare],
        (Format::Properties, _) => vec![escaped_property(value)],
        (Format::Ini, Some(quote)) => vec![format!("{quote}{value}{quote}")],
        (Format::Ini, None) => vec![bare],
        (Format::Yaml, Some('\'')) => vec![format!("'{}'", value.replace('\'', "''")), quoted(value)],
        (Format::Toml, Some('\'')) => vec![format!("'{value}'"), quoted(value)],
        (_, Some(_)) => vec![quoted(value)],
        (_, None) => vec![bare, quoted(value)],
    };
    for candidate in candidates {
        let mut changed = text.to_string();
        changed.replace_range(place.span.clone(), &candidate);
        if let Ok(again) = locate(format, &changed, key)
            && again.value == value
            && again.span == (place.span.start..place.span.start + candidate.len())
        {
            let before = text[place.span.clone()].to_string();
            return Ok(Replaced { text: changed, at: place.span.start, before, written: candidate });
        }
    }
    Err(match format {
        Format::Pattern(pattern) => {
            format!("after writing `{value}`, `{pattern}` would no longer match the value")
        }
        _ => format!("`{value}` cannot be written as the value of `{key}`"),
    })
}

/// A double-quoted string with the same meaning in JSON, YAML and TOML.
fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn locate(format: &Format, text: &str, key: &str) -> Result<Place, String> {
    match format {
        Format::Ini => one(key, in_ini(text, key)),
        Format::Properties => one(key, in_properties(text, key)),
        Format::Yaml => in_yaml(text, key),
        Format::Json => in_json(text, key),
        Format::Toml => in_toml(text, key),
        Format::Pattern(pattern) => {
            let found: Vec<_> = pattern.captures_iter(text).take(100).collect();
            match found.as_slice() {
                [captures] => {
                    let group = captures.get(1).or_else(|| captures.get(0));
                    let group = group.ok_or_else(|| format!("`{pattern}` has no match"))?;
                    Ok(Place { span: group.range(), value: group.as_str().into(), quote: None })
                }
                [] => Err(format!("`{pattern}` has no match")),
                several => Err(format!("`{pattern}` matches {} times and must match once", several.len())),
            }
        }
    }
}

fn absent(key: &str) -> String {
    format!("has no `{key}`; add it first")
}

/// The only place of a key; an error if there is none or more than one.
fn one(key: &str, mut found: Vec<Place>) -> Result<Place, String> {
    match found.len() {
        0 => Err(absent(key)),
        1 => found.pop().ok_or_else(|| absent(key)),
        several => Err(format!("has `{key}` {several} times")),
    }
}

/// The lines without their line ends, with their offsets.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let begin = at;
        at += line.len();
        (begin, line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line)))
    })
}

/// `[section]` and `key = value` or `key: value`. Comments begin with `#` or `;`; after a value, a blank must
/// precede them.
fn in_ini(text: &str, key: &str) -> Vec<Place> {
    let mut section = String::new();
    let mut found = Vec::new();
    for (begin, line) in lines(text) {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name.trim().to_string();
            continue;
        }
        let Some(separator) = line.find(['=', ':']) else { continue };
        let name = line[..separator].trim();
        let path = if section.is_empty() { name.to_string() } else { format!("{section}.{name}") };
        if path != key {
            continue;
        }
        let rest = &line[separator + 1..];
        let from = separator + 1 + (rest.len() - rest.trim_start().len());
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let length = match quote.and_then(|quote| rest[1..].find(quote)) {
            Some(end) => end + 2,
            None => {
                let comment = rest.char_indices().find(|(at, c)| {
                    matches!(c, '#' | ';') && (*at == 0 || rest[..*at].ends_with(char::is_whitespace))
                });
                rest[..comment.map_or(rest.len(), |(at, _)| at)].trim_end().len()
            }
        };
        let written = &rest[..length];
        let quote = quote.filter(|quote| length >= 2 && written.ends_with(*quote));
        let value = if quote.is_some() { &written[1..length - 1] } else { written };
        found.push(Place { span: begin + from..begin + from + length, value: value.to_string(), quote });
    }
    found
}

/// Java properties: `key=value`, `key: value`, `key value`; a backslash escapes a character or continues a
/// line.
fn in_properties(text: &str, key: &str) -> Vec<Place> {
    let mut found = Vec::new();
    let mut lines = lines(text).peekable();
    while let Some((begin, line)) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with(['#', '!']) {
            continue;
        }
        let mut end = begin + line.len();
        let mut last = line;
        while ends_open(last)
            && let Some((next_begin, next)) = lines.next()
        {
            end = next_begin + next.len();
            last = next;
        }
        let logical = &text[begin..end];
        let start = logical.len() - logical.trim_start().len();
        let name_end = unescaped(logical, start, |c| matches!(c, '=' | ':') || c.is_whitespace());
        if unescape_property(&logical[start..name_end]) != key {
            continue;
        }
        // Blanks, one separator, blanks.
        let skip = |at: usize| {
            logical[at..].find(|c: char| c != ' ' && c != '\t').map_or(logical.len(), |by| at + by)
        };
        let mut from = skip(name_end);
        if logical[from..].starts_with(['=', ':']) {
            from = skip(from + 1);
        }
        let value = unescape_property(&logical[from..]);
        found.push(Place { span: begin + from..end, value, quote: None });
    }
    found
}

/// Whether the line continues in the next one: it ends with an odd number of backslashes.
fn ends_open(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// The offset of the first matching character from `from` on that is not escaped by a backslash.
fn unescaped(text: &str, from: usize, is_meant: impl Fn(char) -> bool) -> usize {
    let mut escaped = false;
    for (at, c) in text[from..].char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if is_meant(c) {
            return from + at;
        }
    }
    text.len()
}

fn unescape_property(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next() {
            // A line end, and the blanks at the start of the next line.
            Some(end @ ('\n' | '\r')) => {
                if end == '\r' {
                    characters.next_if_eq(&'\n');
                }
                while characters.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
            }
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let digits: String =
                    (0..4).map_while(|_| characters.next_if(char::is_ascii_hexdigit)).collect();
                out.extend(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

fn escaped_property(value: &str) -> String {
    let mut out = String::new();
    for (at, c) in value.char_indices() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // A leading blank would be taken for a part of the separator.
            ' ' if at == 0 => out.push_str("\\ "),
            c if at == 0 && c.is_whitespace() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// Splits `a.b.c` at the longest existing key, so that keys may contain dots.
fn longest<T>(key: &str, find: impl Fn(&str) -> Option<T>) -> Option<(T, &str)> {
    let ends = key.match_indices('.').map(|(at, _)| at).chain([key.len()]);
    let mut ends: Vec<usize> = ends.collect();
    ends.reverse();
    ends.into_iter().find_map(|end| {
        let found = find(&key[..end])?;
        Some((found, key[end..].strip_prefix('.').unwrap_or_default()))
    })
}

fn in_toml(text: &str, key: &str) -> Result<Place, String> {
    let document = DeTable::parse(text)
        .map_err(|error| format!("is not TOML: {}", error.message().replace('\n', ", ")))?;
    let Some((mut value, mut rest)) = longest(key, |name| document.get_ref().get(name)) else {
        return Err(absent(key));
    };
    while !rest.is_empty() {
        let next = match value.get_ref() {
            DeValue::Table(table) => longest(rest, |name| table.get(name)),
            DeValue::Array(items) => longest(rest, |name| items.get(name.parse::<usize>().ok()?)),
            _ => None,
        };
        (value, rest) = next.ok_or_else(|| absent(key))?;
    }
    let span = value.span();
    let written = text.get(span.clone()).ok_or_else(|| absent(key))?;
    match value.get_ref() {
        DeValue::Table(_) | DeValue::Array(_) => Err(format!("`{key}` is no value but holds others")),
        DeValue::String(_) if written.starts_with("\"\"\"") || written.starts_with("'''") => {
            Err(format!("`{key}` goes over several lines"))
        }
        DeValue::String(value) => Ok(Place { span, value: value.to_string(), quote: written.chars().next() }),
        _ => Ok(Place { value: written.to_string(), span, quote: None }),
    }
}

fn in_json(text: &str, key: &str) -> Result<Place, String> {
    let mut raw: &RawValue = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let mut rest = key;
    while !rest.is_empty() {
        let found = match serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) {
            Ok(table) => longest(rest, |name| table.get(name).copied()),
            Err(_) => serde_json::from_str::<Vec<&RawValue>>(raw.get())
                .ok()
                .and_then(|items| longest(rest, |name| items.get(name.parse::<usize>().ok()?).copied())),
        };
        (raw, rest) = found.ok_or_else(|| absent(key))?;
    }
    // `get` returns a part of the text itself.
    let begin = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let span = begin..begin + raw.get().len();
    match serde_json::from_str(raw.get()) {
        Ok(Value::String(value)) => Ok(Place { span, value, quote: Some('"') }),
        Ok(Value::Object(_) | Value::Array(_)) => Err(format!("`{key}` is no value but holds others")),
        _ => Ok(Place { span, value: raw.get().to_string(), quote: None }),
    }
}

/// A node of a YAML document.
enum Node {
    Scalar(String, ScalarStyle, Span),
    Mapping(Vec<(Node, Node)>),
    Sequence(Vec<Node>),
    Alias,
}

/// Limit of the nesting depth, because each level is a recursive call.
const DEPTH_MAX: usize = 100;

type Events<'t> = dyn Iterator<Item = Result<(Event<'t>, Span), saphyr_parser::ScanError>> + 't;

fn next<'t>(events: &mut Events<'t>) -> Result<(Event<'t>, Span), String> {
    match events.next() {
        Some(Ok(event)) => Ok(event),
        Some(Err(error)) => Err(not_yaml(&error)),
        None => Err("is not YAML: it ends too early".into()),
    }
}

/// The node that begins with this event.
fn node(event: (Event<'_>, Span), events: &mut Events<'_>, depth: usize) -> Result<Node, String> {
    if depth > DEPTH_MAX {
        return Err(format!("is nested more than {DEPTH_MAX} deep"));
    }
    match event {
        (Event::Scalar(text, style, ..), span) => Ok(Node::Scalar(text.into_owned(), style, span)),
        (Event::SequenceStart(..), _) => {
            let mut items = Vec::new();
            loop {
                match next(events)? {
                    (Event::SequenceEnd, _) => return Ok(Node::Sequence(items)),
                    event => items.push(node(event, events, depth + 1)?),
                }
            }
        }
        (Event::MappingStart(..), _) => {
            let mut entries = Vec::new();
            loop {
                match next(events)? {
                    (Event::MappingEnd, _) => return Ok(Node::Mapping(entries)),
                    event => {
                        let key = node(event, events, depth + 1)?;
                        let event = next(events)?;
                        entries.push((key, node(event, events, depth + 1)?));
                    }
                }
            }
        }
        _ => Ok(Node::Alias),
    }
}

fn not_yaml(error: &saphyr_parser::ScanError) -> String {
    format!("is not YAML: line {}: {}", error.marker().line(), error.info())
}

fn in_yaml(text: &str, key: &str) -> Result<Place, String> {
    let mut parser = Parser::new_from_str(text);
    let events: &mut Events<'_> = &mut parser;
    while let Some(event) = events.next() {
        match event.map_err(|error| not_yaml(&error))? {
            (Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (Event::Nothing, _) => {}
            event => {
                // Of several documents in a file, the first one with the key is used.
                let document = node(event, events, 0)?;
                if let Some(found) = find(&document, key) {
                    return place_in_yaml(text, key, found);
                }
            }
        }
    }
    Err(absent(key))
}

fn find<'n>(mut node: &'n Node, mut key: &str) -> Option<&'n Node> {
    while !key.is_empty() {
        (node, key) = match node {
            Node::Mapping(entries) => longest(key, |name| {
                entries
                    .iter()
                    .find(|(key, _)| matches!(key, Node::Scalar(text, ..) if text == name))
                    .map(|of| &of.1)
            })?,
            Node::Sequence(items) => longest(key, |name| items.get(name.parse::<usize>().ok()?))?,
            Node::Scalar(..) | Node::Alias => return None,
        };
    }
    Some(node)
}

fn place_in_yaml(text: &str, key: &str, node: &Node) -> Result<Place, String> {
    let (value, style, span) = match node {
        Node::Scalar(value, style, span) => (value, style, span),
        Node::Alias => return Err(format!("`{key}` is an alias: change what it stands for")),
        Node::Mapping(_) | Node::Sequence(_) => return Err(format!("`{key}` is no value but holds others")),
    };
    let byte = |index: usize| {
        text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index).unwrap_or(text.len())
    };
    let span = byte(span.start.index())..byte(span.end.index());
    let written = text.get(span.clone()).unwrap_or_default();
    let quote = match style {
        ScalarStyle::Plain if written == value && !value.is_empty() => None,
        ScalarStyle::SingleQuoted if is_quoted(written, '\'') => Some('\''),
        ScalarStyle::DoubleQuoted if is_quoted(written, '"') => Some('"'),
        ScalarStyle::Plain if written.is_empty() => return Err(format!("`{key}` has no value to replace")),
        _ => return Err(format!("`{key}` goes over several lines")),
    };
    Ok(Place { span, value: value.clone(), quote })
}

fn is_quoted(written: &str, quote: char) -> bool {
    written.len() >= 2 && written.starts_with(quote) && written.ends_with(quote)
}

#[cfg(test)]
mod tests;
