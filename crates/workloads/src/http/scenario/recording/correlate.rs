//! Values of requests that an earlier response contained: session ids, anti-forgery tokens, ids of new objects.
//!
//! A value of at least eight characters that looks generated is extracted from the latest response that contained it,
//! if the request was the first to use it. Where the place in the response is not unambiguous, there is a note.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use memchr::memmem;
use regex::Regex;
use serde_json::Value;

use super::{Received, RecordedBody, Step};
use crate::http::scenario::file::{NAME_LENGTH_MAX, Note, Query, Text};
use crate::template::{RESERVED, escape};

/// Places of a request: its target, its body, and its fields from here on.
pub(super) const URL: usize = 0;
pub(super) const BODY: usize = 1;
pub(super) const FIELDS: usize = 2;

/// The shortest and the longest value.
const VALUE_BYTES_MIN: usize = 8;
const VALUE_BYTES_MAX: usize = 4096;

/// Characters before a value that identify its place.
const CONTEXT_LENGTH: usize = 30;

/// Most bytes of responses that are searched, so that no recording takes minutes.
const WORK_MAX: u64 = 20_000_000_000;

/// A value of a request.
struct Candidate {
    place: usize,
    range: Range<usize>,
    /// Percent-decoded where the place is encoded.
    value: String,
    /// The name of the parameter, for the variable; may be empty.
    name: String,
    /// The function of templates that encodes it; empty for none.
    function: &'static str,
}

/// A range of a text, and the template in its place.
type Replacement = (Range<usize>, String);

/// What is replaced in requests, and extracted from responses.
#[derive(Default)]
pub(super) struct Correlation {
    /// By request and place: the ranges with their templates, in order.
    replaced: BTreeMap<(usize, usize), Vec<Replacement>>,
    /// By request and variable.
    extractions: BTreeMap<usize, BTreeMap<String, Query>>,
}

impl Correlation {
    /// A text of a request as a template.
    pub(super) fn template(&self, request: usize, place: usize, raw: &str) -> String {
        let mut out = String::new();
        let mut from = 0;
        for (range, template) in self.replaced.get(&(request, place)).map_or(&[][..], Vec::as_slice) {
            out += &escape(raw.get(from..range.start).unwrap_or_default());
            out += template;
            from = range.end;
        }
        out + &escape(raw.get(from..).unwrap_or_default())
    }

    /// The variables that are set after a request, in the order of their names.
    pub(super) fn extractions(&self, request: usize) -> impl Iterator<Item = (&String, &Query)> {
        self.extractions.get(&request).into_iter().flatten()
    }
}

/// Finds the values that must be extracted.
pub(super) fn find(steps: &[Step], notes: &mut Vec<Note>) -> Correlation {
    let mut correlation = Correlation::default();
    let mut variables: HashMap<String, String> = HashMap::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    // Values that the client had before any response contained them, or that cannot be extracted.
    let mut settled: BTreeSet<String> = BTreeSet::new();
    let mut work = 0;
    for (at, step) in steps.iter().enumerate() {
        let candidates = candidates(step);
        for candidate in &candidates {
            let value = &candidate.value;
            if settled.contains(value) || variables.contains_key(value) {
                continue;
            }
            match source(steps, at, value, &mut work) {
                Some(from) => match locate(&steps[from].entry.response, value) {
                    Some(query) => {
                        let variable = variable_name(&candidate.name, &mut names);
                        correlation.extractions.entry(from).or_default().insert(variable.clone(), query);
                        variables.insert(value.clone(), variable);
                    }
                    None => {
                        let name = if candidate.name.is_empty() { "a value" } else { &candidate.name };
                        let what = format!(
                            "`{}` comes from the response of entry {}, where its place is ambiguous",
                            name.escape_debug(),
                            steps[from].entry.number
                        );
                        let help = "add an extraction to that request, and use its variable here";
                        notes.push(Note::new(step.entry.number, what, help));
                        settled.insert(value.clone());
                    }
                },
                None => {
                    settled.insert(value.clone());
                }
            }
        }
        for candidate in candidates {
            let Some(variable) = variables.get(&candidate.value) else { continue };
            let template = match candidate.function {
                "" => format!("${{{variable}}}"),
                function => format!("${{{function}({variable})}}"),
            };
            let replaced = correlation.replaced.entry((at, candidate.place)).or_default();
            if replaced.last().is_none_or(|(range, _)| range.end <= candidate.range.start) {
                replaced.push((candidate.range, template));
            }
        }
    }
    if work > WORK_MAX {
        let what = "the recording is too large to search all responses for values";
        notes.push(Note::new(0, what, "record a shorter journey, or add extractions by hand"));
    }
    correlation
}

/// The latest response before a request that contains a value.
fn source(steps: &[Step], before: usize, value: &str, work: &mut u64) -> Option<usize> {
    let finder = memmem::Finder::new(value.as_bytes());
    (0..before).rev().find(|at| {
        let response = &steps[*at].entry.response;
        *work += response.text.len() as u64;
        *work <= WORK_MAX
            && (finder.find(response.text.as_bytes()).is_some()
                || response.fields.iter().any(|(_, field)| field.contains(value)))
    })
}

/// Whether a value looks generated, and not like a word or a constant.
pub(super) fn looks_generated(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    let (digit, lower, upper) =
        (has(u8::is_ascii_digit), has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && (digit || (lower && upper && value.len() >= 20))
}

/// The values of a request, in the order of their places.
fn candidates(step: &Step) -> Vec<Candidate> {
    let entry = &step.entry;
    let mut found = Vec::new();
    let (path, query) =
        entry.url.target.split_at(entry.url.target.find('?').unwrap_or(entry.url.target.len()));
    let mut at = 0;
    for segment in path.split('/') {
        push_encoded(&mut found, URL, at, segment, "id");
        at += segment.len() + 1;
    }
    if !query.is_empty() {
        push_pairs(&mut found, URL, path.len() + 1, query.get(1..).unwrap_or_default());
    }
    if let RecordedBody::Text(body) = &entry.body {
        let is_form = body.contains('=')
            && !body.starts_with("--")
            && !body.contains(|c: char| c.is_whitespace() || "{}<>\"".contains(c));
        match is_form {
            true => push_pairs(&mut found, BODY, 0, body),
            false => push_texts(&mut found, body),
        }
    }
    for (place, (name, value)) in entry.fields.iter().enumerate() {
        const CONSTANT: [&str; 12] = [
            "user-agent",
            "accept",
            "accept-language",
            "content-type",
            "referer",
            "origin",
            "dnt",
            "cache-control",
            "pragma",
            "priority",
            "range",
            "x-requested-with",
        ];
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("sec-") || CONSTANT.contains(&lower.as_str()) {
            continue;
        }
        let begin = value.rfind(' ').map_or(0, |at| at + 1);
        push(&mut found, FIELDS + place, begin..value.len(), &value[begin..], name, "");
    }
    found
}

fn push(
    found: &mut Vec<Candidate>,
    place: usize,
    range: Range<usize>,
    value: &str,
    name: &str,
    function: &'static str,
) {
    if looks_generated(value) {
        found.push(Candidate { place, range, value: value.into(), name: name.into(), function });
    }
}

fn push_encoded(found: &mut Vec<Candidate>, place: usize, at: usize, raw: &str, name: &str) {
    let value = decoded(raw);
    push(found, place, at..at + raw.len(), &value, name, "url");
}

/// `a=b&c=d` from this position on.
fn push_pairs(found: &mut Vec<Candidate>, place: usize, from: usize, text: &str) {
    let mut at = from;
    for pair in text.split('&') {
        let (name, raw) = pair.split_once('=').unwrap_or((pair, ""));
        push_encoded(found, place, at + pair.len() - raw.len(), raw, &decoded(name));
        at += pair.len() + 1;
    }
}

/// Texts in quotation marks, between tags, and on lines of their own.
fn push_texts(found: &mut Vec<Candidate>, body: &str) {
    let mut name = String::new();
    let is_json = body.trim_start().starts_with(['{', '[']);
    let delimiters = |c: char| "\"<>\r\n".contains(c);
    let mut at = 0;
    for part in body.split(delimiters) {
        let (begin, end) = (at, at + part.len());
        at = end + 1;
        let before = begin.checked_sub(1).and_then(|before| body.as_bytes().get(before).copied());
        let after = body.as_bytes().get(end).copied();
        let is_value = match (before, after) {
            (Some(b'"'), Some(b'"')) => true,
            (Some(b'>'), Some(b'<')) => true,
            (Some(b'\n') | None, Some(b'\r' | b'\n') | None) => !part.starts_with("--"),
            _ => false,
        };
        if is_value && !part.contains('\\') {
            let function = if is_json { "json" } else { "" };
            push(found, BODY, begin..end, part, &name, function);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let word = part.trim_matches(|c| !is_word(c));
        if !word.is_empty() && word.len() <= NAME_LENGTH_MAX && word.chars().all(is_word) {
            name = word.to_string();
        }
    }
}

/// Percent-decodes a text; as it is if the result is not text.
fn decoded(raw: &str) -> String {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let digits = raw.get(at + 1..at + 3).filter(|_| byte == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                bytes.nth(1);
            }
            None => out.push(byte),
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| raw.to_string())
}

/// A name for a variable.
fn variable_name(name: &str, names: &mut BTreeSet<String>) -> String {
    let mut base: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .take(NAME_LENGTH_MAX - 6)
        .collect();
    base = base.trim_matches('_').to_string();
    if base.is_empty() || RESERVED.contains(&base.as_str()) {
        base = format!("{base}value");
    }
    let mut variable = base.clone();
    let mut number = 1;
    while !names.insert(variable.clone()) {
        number += 1;
        variable = format!("{base}_{number}");
    }
    variable
}

/// Where a value is in a response, if that is unambiguous.
fn locate(response: &Received, value: &str) -> Option<Query> {
    if let Ok(json) = serde_json::from_str::<Value>(&response.text) {
        let mut paths = Vec::new();
        paths_to(&json, value, &mut String::from("$"), false, &mut paths);
        if let Some((path, is_of_many)) = paths.into_iter().next() {
            return (!is_of_many).then(|| Query::JsonPath(Text::new(path)));
        }
    }
    if response.text.contains(value) {
        return pattern(&response.text, value).map(|pattern| Query::Regex(Text::new(pattern)));
    }
    for (name, field) in &response.fields {
        if name.eq_ignore_ascii_case("set-cookie") {
            let pair = field.split(';').next().unwrap_or_default();
            if let Some((cookie, of_cookie)) = pair.split_once('=')
                && of_cookie.trim() == value
            {
                return Some(Query::Cookie(Text::new(cookie.trim()), None));
            }
        } else if field == value {
            return Some(Query::Header(Text::new(name.clone()), None));
        } else if field.contains(value) {
            return pattern(field, value)
                .map(|pattern| Query::Header(Text::new(name.clone()), Some(Text::new(pattern))));
        }
    }
    None
}

/// The paths to a text in JSON, each with whether it leads through a list of several entries.
fn paths_to(json: &Value, value: &str, path: &mut String, is_of_many: bool, paths: &mut Vec<(String, bool)>) {
    let length = path.len();
    match json {
        Value::String(text) if text == value => paths.push((path.clone(), is_of_many)),
        Value::Number(number) if number.to_string() == value => paths.push((path.clone(), is_of_many)),
        Value::Array(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                *path += &format!("[{at}]");
                paths_to(entry, value, path, is_of_many || entries.len() > 1, paths);
                path.truncate(length);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                let is_simple = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !key.starts_with(|c: char| c.is_ascii_digit())
                    && !key.is_empty();
                match is_simple {
                    true => *path += &format!(".{key}"),
                    false => *path += &format!("[{}]", Value::String(key.clone())),
                }
                paths_to(entry, value, path, is_of_many, paths);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// A regular expression whose only value in a text is this one: the characters before it, the value, and the character
/// after it.
fn pattern(text: &str, value: &str) -> Option<String> {
    let begin = text.find(value)?;
    let line = text[..begin].rsplit(['\n', '\r']).next().unwrap_or_default();
    let from = line.char_indices().rev().nth(CONTEXT_LENGTH - 1).map_or(0, |(at, _)| at);
    let mut context = line.get(from..)?.trim_start();
    // Digits before the value can differ the next time.
    let mut digits = 0;
    for (at, byte) in context.bytes().enumerate() {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        if digits >= 4 {
            return pattern_after(text, value, context.get(at + 1..)?, begin);
        }
    }
    // A whole tag is easier to read than a part of the one before.
    if let Some(tag) = context.rfind('<') {
        context = context.get(tag..)?;
    }
    pattern_after(text, value, context, begin)
}

fn pattern_after(text: &str, value: &str, context: &str, begin: usize) -> Option<String> {
    if context.len() < 3 || !context.contains(|c: char| c.is_alphabetic()) {
        return None;
    }
    let (end_class, end) = match text[begin + value.len()..].chars().next() {
        Some(c) if !c.is_control() && !value.contains(c) => {
            (regex::escape(&c.to_string()), regex::escape(&c.to_string()))
        }
        Some('\n' | '\r') | None => (String::new(), String::new()),
        Some(_) => return None,
    };
    let pattern = format!("{}([^\\s{end_class}]+){end}", regex::escape(context));
    let compiled = Regex::new(&pattern).ok()?;
    let mut values =
        compiled.captures_iter(text).filter_map(|captures| captures.get(1)).map(|found| found.as_str());
    let is_only = values.next() == Some(value) && values.all(|other| other == value);
    is_only.then_some(pattern)
}
