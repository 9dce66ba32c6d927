//! Errors of TOML in the words of an administrator.

use std::ops::Range;

use toml::de::Error;

use super::Mistake;

/// The mistakes behind the errors of a parser, which finds further errors behind most of them.
pub(super) fn mistakes(text: &str, errors: &[Error]) -> Vec<Mistake> {
    let mut mistakes: Vec<Mistake> = Vec::new();
    let mut is_in_double_table = false;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let message = error.message();
        let line = Line::at(text, span.start);
        if mistakes.iter().any(|before| Line::at(text, before.span.start).start == line.start) {
            continue;
        }
        let is_header = line.text.trim_start().starts_with('[');
        if message.starts_with("duplicate key") && is_in_double_table && !is_header {
            continue;
        }
        is_in_double_table = is_header && message.starts_with("duplicate key");
        let is_list = message.contains("array");
        mistakes.push(mistake(text, &line, span, message));
        // An unclosed list takes in all that follows.
        if is_list {
            break;
        }
    }
    mistakes
}

/// A line of a text.
struct Line<'a> {
    start: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn at(text: &'a str, mut at: usize) -> Line<'a> {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[start..].find('\n').map_or(text.len(), |end| start + end);
        Line { start, text: text[start..end].trim_end() }
    }

    /// The key of a setting.
    fn key(&self) -> &'a str {
        // More than a word may be a value.
        let key = self.text.split(['=', ':']).next().unwrap_or_default().trim();
        let is_in_place =
            |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '"');
        if !key.is_empty() && key.chars().all(is_in_place) { key } else { "NAME" }
    }

    /// The range of its text.
    fn span(&self) -> Range<usize> {
        let indent = self.text.len() - self.text.trim_start().len();
        self.start + indent..self.start + self.text.len()
    }
}

fn mistake(text: &str, line: &Line<'_>, span: Range<usize>, message: &str) -> Mistake {
    let made = |span: Range<usize>, what: &str, help: String| Mistake { span, what: what.into(), help };
    let key = line.key();
    let quoted = format!("write it between double quotes: {key} = \"...\"");
    let trimmed = line.text.trim_start();
    let has = |part: &str| message.contains(part);
    match () {
        () if line.text.contains(['“', '”', '„', '‘', '’']) && !has("duplicate") => {
            made(line.span(), "these quotes are typographic", format!("write straight ones: {key} = \"...\""))
        }
        () if trimmed.starts_with("//") || trimmed.starts_with(';') || trimmed.starts_with("--") => {
            made(line.span(), "this is not a setting", "a comment begins with #".into())
        }
        () if has("array") => of_list(text, line, span, message),
        () if has("string values must be quoted") => match text.get(span.clone()) {
            Some("") | None => {
                made(line.span(), &format!("`{key}` has no value"), format!("write {key} = \"...\""))
            }
            Some(_) => made(span, &format!("the value of `{key}` is not in quotes"), quoted),
        },
        () if has("missing opening quote") => made(line.span(), "a text has no opening quote", quoted),
        () if message.starts_with("invalid") && has("string") => {
            made(line.span(), "a text has no closing quote", quoted)
        }
        () if has("unicode") || has("escape") => made(
            line.span(),
            "a backslash in double quotes begins an escape sequence",
            format!("write single quotes: {key} = '...', or each backslash twice"),
        ),
        () if has("unexpected key or value") && line.text.matches('"').count() > 2 => made(
            line.span(),
            "a text in double quotes has double quotes inside",
            format!("write single quotes inside, or around it: {key} = '...'"),
        ),
        () if has("unexpected key or value") => {
            made(span, "there is more than one value", "end the line here, or begin a comment with #".into())
        }
        () if has("unquoted key") && line.text.contains(':') && !line.text.contains('=') => {
            made(line.span(), "`:` does not set a value", format!("write {key} = ..."))
        }
        () if has("unquoted key") => made(
            line.span(),
            "a name has a character that is not a letter, a digit, `-` or `_`",
            "write the name in quotes: \"given name\" = ...".into(),
        ),
        () if has("key with no value") => {
            made(line.span(), "a setting has no `=`", format!("write {key} = ..."))
        }
        () if has("unclosed table") && trimmed.contains(']') => made(
            line.span(),
            "the name of a table has a blank",
            "write _ or - instead, or the name in quotes: [agents.\"the name\"]".into(),
        ),
        () if has("unclosed table") => {
            made(line.span(), "the name of a table is not closed", format!("write {trimmed}]"))
        }
        () if has("duplicate key") => duplicate(text, line, span),
        () => made(span, message.trim(), "the format of the file is TOML: https://toml.io".into()),
    }
    .flattened()
}

/// A list without its end, or without a comma.
fn of_list(text: &str, line: &Line<'_>, span: Range<usize>, message: &str) -> Mistake {
    let begins_other = line.text.contains('=') || line.text.trim_start().starts_with('[');
    let is_unclosed = message.contains("unclosed") || begins_other;
    // The last line before that has more than a comment.
    let mut last = Line::at(text, span.start);
    while is_unclosed && last.start > 0 {
        last = Line::at(text, last.start - 1);
        let content = last.text.trim();
        if !content.is_empty() && !content.starts_with('#') {
            break;
        }
    }
    match is_unclosed {
        true => Mistake {
            span: last.span(),
            what: "a list is not closed".into(),
            help: "write ] at its end".into(),
        },
        false => Mistake {
            span: line.span(),
            what: "a list has no comma between two values".into(),
            help: "write [\"one\", \"two\"]".into(),
        },
    }
}

/// A table or a key that occurs twice.
fn duplicate(text: &str, line: &Line<'_>, span: Range<usize>) -> Mistake {
    let trimmed = line.text.trim_start();
    let number = |at: usize| text[..at].matches('\n').count() + 1;
    let before = text[..line.start].lines().enumerate();
    if trimmed.starts_with('[') {
        let name = trimmed.split(']').next().unwrap_or_default();
        let first = before.filter(|(_, other)| other.trim_start().starts_with(&format!("{name}]"))).last();
        let first = first.map_or(String::new(), |(at, _)| format!(": first in line {}", at + 1));
        let what = format!("the table {name}] occurs twice{first}");
        return Mistake {
            span: line.span(),
            what,
            help: "give one of them another name, or remove it".into(),
        };
    }
    let key = text.get(span.clone()).unwrap_or_else(|| line.key());
    let is_same = |other: &str| other.split('=').next().unwrap_or_default().trim() == key;
    let first = before.filter(|(_, other)| is_same(other)).last();
    let here = number(line.start);
    let first = first.filter(|(at, _)| at + 1 < here);
    let first = first.map_or(String::new(), |(at, _)| format!(": first in line {}", at + 1));
    Mistake { span, what: format!("`{key}` occurs twice in its table{first}"), help: "remove one".into() }
}

impl Mistake {
    /// The same on one line.
    fn flattened(mut self) -> Mistake {
        self.what = self.what.replace('\n', ", ");
        self
    }
}
