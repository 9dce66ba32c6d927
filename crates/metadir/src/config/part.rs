//! Reads values of a TOML document by key and type. A value of another type is recorded as an error.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;
use super::suggestion::{near, one_of, other_name};
use crate::agent::System;

type Value<'a> = Spanned<DeValue<'a>>;

/// A kind of connected system: a value of `type`.
#[derive(Debug)]
pub struct SystemKind {
    /// The value of `type`.
    pub name: &'static str,
    /// The keys in addition to those of every agent.
    pub keys: &'static [&'static str],
    /// The anchor, if the configuration names none.
    pub anchor: Option<&'static str>,
    /// Reads the settings; none if one is missing or wrong, which the reader records.
    pub read: fn(&mut Reader, &Part<'_>) -> Option<Box<dyn System>>,
}

/// Reads values by key and type, and records errors.
#[derive(Default)]
pub struct Reader {
    pub(super) kinds: &'static [SystemKind],
    pub(super) mistakes: Vec<Mistake>,
    /// Settings that are allowed but worth a warning.
    pub(super) warnings: Vec<Mistake>,
    /// The offsets of line ends.
    line_ends: Vec<usize>,
    /// The further places of mistakes that are reported once, by the problem.
    repeated: BTreeMap<String, Vec<Range<usize>>>,
    /// Agents with mistakes that prevent their use. Rules and runs may name them.
    pub(super) faulty_agents: BTreeSet<String>,
    /// Attributes of the metaverse whose type is not known, as `TYPE.ATTRIBUTE`.
    pub(super) untyped: BTreeSet<String>,
    /// Attributes of connected systems in rules: the agent, the name, whether it is exported, and the place.
    pub(super) spelled: Vec<(usize, String, bool, Range<usize>)>,
    /// Attributes of the metaverse that rules read: the type, the name and the place.
    pub(super) read: Vec<(usize, String, Range<usize>)>,
}

/// A table, with its description for messages and its place.
#[derive(Clone)]
pub struct Part<'a> {
    /// The table.
    table: &'a DeTable<'a>,
    /// Its description in messages.
    pub what: String,
    /// Its place in the text.
    pub span: Range<usize>,
    /// Keys that are written under another name, which is reported: with the value if it can be used.
    renamed: RefCell<Vec<(String, Option<&'a Value<'a>>)>>,
}

impl<'a> Part<'a> {
    /// A table with its description and place.
    pub fn new(table: &'a DeTable<'a>, what: impl Into<String>, span: Range<usize>) -> Part<'a> {
        Part { table, what: what.into(), span, renamed: RefCell::default() }
    }

    /// All keys with their values.
    pub fn entries(
        &self,
    ) -> impl Iterator<Item = (&'a Spanned<toml::de::DeString<'a>>, &'a Value<'a>)> + use<'a> {
        self.table.iter()
    }

    /// The value of a key, also if a similar key is written in its place.
    pub fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        let renamed =
            || self.renamed.borrow().iter().find(|(name, _)| name == key).and_then(|(_, value)| *value);
        self.table.get(key).or_else(renamed)
    }

    /// All values of a key: one, and those under similar names.
    fn all(&self, key: &str) -> Vec<&'a Value<'a>> {
        let renamed = self.renamed.borrow();
        let renamed = renamed.iter().filter(|(name, _)| name == key).filter_map(|(_, value)| *value);
        self.table.get(key).into_iter().chain(renamed).collect()
    }

    /// Whether a key is written.
    pub fn has(&self, key: &str) -> bool {
        !self.lacks(key)
    }

    /// Whether a key is missing. A key under a wrong name, which is reported, is not missing.
    pub fn lacks(&self, key: &str) -> bool {
        self.get(key).is_none() && !self.renamed.borrow().iter().any(|(name, _)| name == key)
    }
}

impl Reader {
    /// A reader of a text.
    pub(super) fn new(text: &str, kinds: &'static [SystemKind]) -> Reader {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Reader { kinds, line_ends, ..Reader::default() }
    }

    /// The number of a line, from 1.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        self.line_ends.partition_point(|end| *end < span.start) + 1
    }

    /// Records an error.
    pub fn wrong(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.mistakes.push(Mistake { span, what: what.into(), help: help.into() });
    }

    /// Records an error that may occur at several places: the first is reported, with the lines of the others.
    pub(super) fn wrong_once(&mut self, span: Range<usize>, what: String, help: impl Into<String>) {
        match self.mistakes.iter_mut().find(|mistake| mistake.what == what) {
            Some(mistake) => {
                let (first, other) = match span.start < mistake.span.start {
                    true => (span.clone(), mistake.span.clone()),
                    false => (mistake.span.clone(), span),
                };
                mistake.span = first;
                self.repeated.entry(what).or_default().push(other);
            }
            None => self.wrong(span, what, help),
        }
    }

    /// All errors in the order of the text.
    pub(super) fn all_mistakes(mut self) -> Vec<Mistake> {
        for (what, spans) in std::mem::take(&mut self.repeated) {
            let lines: BTreeSet<usize> = spans.iter().map(|span| self.line(span)).collect();
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let noun = if lines.len() == 1 { "line" } else { "lines" };
            if let Some(mistake) = self.mistakes.iter_mut().find(|mistake| mistake.what == what) {
                let joint = if mistake.help.ends_with('?') { " Also" } else { "; also" };
                mistake.help += &format!("{joint} in {noun} {}", lines.join(", "));
            }
        }
        self.mistakes.sort_by_key(|mistake| (mistake.span.start, mistake.span.end));
        self.mistakes
    }

    /// Records a warning.
    pub fn warn(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.warnings.push(Mistake { span, what: what.into(), help: help.into() });
    }

    /// The table of a key; none if there is none, or a value of another type.
    pub fn part<'a>(&mut self, of: &Part<'a>, key: &str) -> Option<Part<'a>> {
        let value = of.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => {
                let span = of.table.get_key_value(key).map_or(value.span(), |(key, _)| key.span());
                let what = match of.span.is_empty() {
                    true => format!("[{key}]"),
                    false => format!("`{key}` of {}", of.what),
                };
                Some(Part::new(table, what, span))
            }
            _ => {
                let what = format!("`{key}` of {} is not a table", of.what);
                self.wrong(value.span(), what, format!("write {key} = {{ {} }}", example(key)));
                None
            }
        }
    }

    /// The subtables of a table, by name.
    pub fn parts<'a>(&mut self, of: &Part<'a>, key: &str) -> Vec<(String, Part<'a>)> {
        let mut parts = Vec::new();
        let mut tables = Vec::new();
        for value in of.all(key) {
            match value.get_ref() {
                DeValue::Table(table) => tables.extend(table),
                _ => {
                    let what = format!("`{key}` of {} is not a table", of.what);
                    self.wrong(value.span(), what, format!("write [{key}.NAME]"));
                }
            }
        }
        for (name, value) in tables {
            let (what, span) = (format!("[{key}.{}]", name.get_ref()), name.span());
            match value.get_ref() {
                DeValue::Table(table) => {
                    parts.push((name.get_ref().to_string(), Part::new(table, what, span)));
                }
                other => {
                    let (what, help) = match other {
                        DeValue::Array(_) => (
                            format!("[{what}] has double brackets"),
                            format!("write {what}: the name is used once"),
                        ),
                        _ => (
                            format!("`{}` of [{key}] is not a table", name.get_ref()),
                            format!("settings are in a table with a name: [{key}.NAME]"),
                        ),
                    };
                    self.wrong(span, what, help);
                    self.faulty_agents.insert(name.get_ref().to_string());
                }
            }
        }
        parts
    }

    /// The tables of an array.
    pub fn list<'a>(&mut self, of: &Part<'a>, key: &str) -> Vec<Part<'a>> {
        // Tables of the file are written below each other, others in braces.
        let is_of_file = of.span.is_empty();
        let name = if is_of_file { format!("this [[{key}]]") } else { format!("an item of `{key}`") };
        let mut parts = Vec::new();
        for value in of.all(key) {
            let listed = match value.get_ref() {
                DeValue::Array(listed) => listed,
                DeValue::Table(table) if is_of_file => {
                    let span = of.table.get_key_value(key).map_or(value.span(), |(key, _)| key.span());
                    let help = format!("write [[{key}]]: there may be several");
                    self.wrong(span.clone(), format!("[{key}] has single brackets"), help);
                    parts.push(Part::new(table, name.clone(), span));
                    continue;
                }
                _ => {
                    let what = format!("`{key}` of {} is not a list of tables", of.what);
                    self.wrong(value.span(), what, format!("write {key} = [{{ {} }}]", example(key)));
                    continue;
                }
            };
            for value in listed.iter() {
                match value.get_ref() {
                    DeValue::Table(table) => parts.push(Part::new(table, name.clone(), value.span())),
                    _ => {
                        let help = format!("write {key} = [{{ {} }}]", example(key));
                        self.wrong(value.span(), format!("{name} is not a table"), help);
                    }
                }
            }
        }
        parts
    }

    /// Reports every key of a table that is not known. The value of a key that is only misspelt is used, so that it
    /// causes no further error.
    pub fn keys(&mut self, part: &Part<'_>, known: &[&str]) {
        for (key, value) in part.table {
            let written = key.get_ref().as_ref();
            if known.contains(&written) {
                continue;
            }
            let (help, renamed) = match other_name(written, known) {
                Some((name, help)) => (help, Some((name, None))),
                None => match near(written, known.iter().copied()) {
                    Some(name) => (format!("did you mean `{name}`?"), Some((name, Some(value)))),
                    None => (one_of(written, known), None),
                },
            };
            if let Some((name, value)) = renamed {
                part.renamed.borrow_mut().push((name.into(), value));
            }
            self.wrong(key.span(), format!("unknown key `{written}` in {}", part.what), help);
        }
    }

    /// The string of a key.
    pub fn text(&mut self, part: &Part<'_>, key: &str, is_needed: bool) -> Option<String> {
        if is_needed && part.lacks(key) {
            let help = format!("write {key} = {:?}", example(key));
            self.wrong(part.span.clone(), format!("{} has no `{key}`", part.what), help);
        }
        let text = self.as_text(part.get(key)?, key)?;
        if is_needed && text.trim().is_empty() {
            let help = format!("write {key} = {:?}", example(key));
            self.wrong(span_of(part, key), format!("`{key}` is empty"), help);
            return None;
        }
        Some(text)
    }

    /// A string; another value is an error that names the key.
    pub fn as_text(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                let help = match value.get_ref() {
                    DeValue::Array(_) => {
                        format!("write one text in quotes, without brackets: {key} = {:?}", example(key))
                    }
                    _ => format!("write it in quotes: {key} = {:?}", example(key)),
                };
                self.wrong(value.span(), format!("`{key}` is not a text"), help);
                None
            }
        }
    }

    /// A string or an array of strings.
    pub fn texts(&mut self, part: &Part<'_>, key: &str) -> Vec<String> {
        match part.get(key).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(listed))) => {
                listed.iter().filter_map(|value| self.as_text(value, key)).collect()
            }
            Some((value, _)) => self.as_text(value, key).into_iter().collect(),
        }
    }

    /// The boolean of a key.
    pub fn truth(&mut self, part: &Part<'_>, key: &str) -> Option<bool> {
        let value = part.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(truth) => Some(*truth),
            _ => {
                let help = format!("write {key} = true or {key} = false, without quotes");
                self.wrong(value.span(), format!("`{key}` is neither true nor false"), help);
                None
            }
        }
    }

    /// The whole number of a key, within a range.
    pub fn number(
        &mut self,
        part: &Part<'_>,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = part.get(key)?;
        let found = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let found = found.filter(|number| range.contains(number));
        if found.is_none() {
            let what = format!("`{key}` is a number from {} to {}", range.start(), range.end());
            let help = match value.get_ref() {
                DeValue::String(_) => "write the number without quotes and without a unit",
                _ => "write a whole number in this range",
            };
            self.wrong(value.span(), what, help);
        }
        found
    }

    /// A share from 0 to 1, or a string with a percent sign.
    pub fn share(&mut self, part: &Part<'_>, key: &str) -> Option<f64> {
        let value = part.get(key)?;
        let found = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::String(text) => text
                .strip_suffix('%')
                .and_then(|percent| percent.trim().parse::<f64>().ok())
                .map(|p| p / 100.0),
            _ => None,
        };
        let found = found.filter(|share| (0.0..=1.0).contains(share));
        if found.is_none() {
            let what = format!("`{key}` is not a share from 0 to 100 %");
            self.wrong(value.span(), what, format!("write {key} = \"10%\" or {key} = 0.1"));
        }
        found
    }

    /// A number of days or hours, such as `"90d"` or `"12h"`, in seconds.
    pub fn duration_s(&mut self, part: &Part<'_>, key: &str) -> Option<u64> {
        let value = part.get(key)?;
        let text = self.as_text(value, key)?;
        let units = [('d', 24 * 60 * 60), ('h', 60 * 60)];
        let seconds = units.iter().find_map(|(unit, seconds)| {
            let count: u64 = text.strip_suffix(*unit)?.trim().parse().ok()?;
            (1..=36_500).contains(&count).then_some(count * seconds)
        });
        if seconds.is_none() {
            self.wrong(
                value.span(),
                format!("`{key}` cannot be {text:?}"),
                "write a number of days or hours: \"90d\", \"12h\"",
            );
        }
        seconds
    }

    /// The choice that the string of a key names.
    pub fn choice<T: Copy>(&mut self, part: &Part<'_>, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(part, key, false)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let what = format!("`{key}` of {} cannot be {text:?}", part.what);
            let all: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(span_of(part, key), what, one_of(&text, &all));
        }
        found.map(|(_, choice)| *choice)
    }
}

/// An example of the value of a key.
fn example(key: &str) -> &'static str {
    match key {
        "agent" => "AGENT",
        "to" | "from" => "TYPE",
        "run" => "RUN",
        "path" | "sqlite" => "FILE",
        "table" => "TABLE",
        "anchor" | "cs" | "mv" => "ATTRIBUTE",
        "dn" => "rdn('cn', mv.name) + ',ou=people,dc=example,dc=com'",
        "url" => "ldaps://HOST",
        "postgres" => "host=... user=... dbname=...",
        "step" => "AGENT full-import",
        "every" => "5 min",
        "quiet" => "5 s",
        "at" => "02:00",
        "keep" | "delete_after" => "90d",
        "listen" => "127.0.0.1:9464",
        "join" => "cs = \"ATTRIBUTE\", mv = \"ATTRIBUTE\"",
        "flow" | "initial" => "ATTRIBUTE = \"ATTRIBUTE\"",
        "attributes" => "ATTRIBUTE = \"text\"",
        "columns" => "name = \"id\", start = 1, width = 8",
        _ => "...",
    }
}

/// All names of choices, in quotes.
pub fn names<T>(choices: &[(&str, T)]) -> String {
    let all: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
    all.join(", ")
}

/// The place of the value of a key; that of the table if there is none.
pub fn span_of(part: &Part<'_>, key: &str) -> Range<usize> {
    part.get(key).map_or(part.span.clone(), Spanned::span)
}

/// The place of an item: of the name of a key in a table, or of a text in a list; that of the key if there is none.
pub(super) fn span_in(part: &Part<'_>, key: &str, item: &str) -> Range<usize> {
    let found = match part.get(key).map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => table.get_key_value(item).map(|(name, _)| name.span()),
        Some(DeValue::Array(listed)) => {
            let is_item =
                |value: &&Value<'_>| matches!(value.get_ref(), DeValue::String(text) if text == item);
            listed.iter().find(is_item).map(Spanned::span)
        }
        _ => None,
    };
    found.unwrap_or_else(|| span_of(part, key))
}
