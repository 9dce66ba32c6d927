//! Reads values of a TOML document by key and type. A value of another type is recorded as an error.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;
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
pub struct Reader {
    pub(super) kinds: &'static [SystemKind],
    pub(super) mistakes: Vec<Mistake>,
    /// Settings that are allowed but worth a warning.
    pub(super) warnings: Vec<Mistake>,
}

/// A table, with its description for messages and its place.
#[derive(Clone)]
pub struct Part<'a> {
    /// The table.
    pub table: &'a DeTable<'a>,
    /// Its description in messages.
    pub what: String,
    /// Its place in the text.
    pub span: Range<usize>,
}

impl Reader {
    /// Records an error.
    pub fn wrong(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.mistakes.push(Mistake { span, what: what.into(), help: help.into() });
    }

    /// Records a warning.
    pub fn warn(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.warnings.push(Mistake { span, what: what.into(), help: help.into() });
    }

    /// The table of a key; none if there is none, or a value of another type.
    pub fn part<'a>(&mut self, of: &Part<'a>, key: &str) -> Option<Part<'a>> {
        let value = of.table.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => {
                let span = of.table.get_key_value(key).map_or(value.span(), |(key, _)| key.span());
                Some(Part { table, what: format!("`{key}` of {}", of.what), span })
            }
            _ => {
                self.wrong(value.span(), format!("`{key}` of {} is not a table", of.what), "");
                None
            }
        }
    }

    /// The subtables of a table, by name.
    pub fn parts<'a>(&mut self, of: &Part<'a>, key: &str) -> Vec<(String, Part<'a>)> {
        let Some(part) = self.part(of, key) else { return Vec::new() };
        let mut parts = Vec::new();
        for (name, value) in part.table {
            match value.get_ref() {
                DeValue::Table(table) => {
                    let what = format!("[{key}.{}]", name.get_ref());
                    parts.push((name.get_ref().to_string(), Part { table, what, span: name.span() }));
                }
                _ => self.wrong(value.span(), format!("`{}` of [{key}] is not a table", name.get_ref()), ""),
            }
        }
        parts
    }

    /// The tables of an array.
    pub fn list<'a>(&mut self, of: &Part<'a>, key: &str) -> Vec<Part<'a>> {
        let Some(value) = of.table.get(key) else { return Vec::new() };
        let DeValue::Array(listed) = value.get_ref() else {
            self.wrong(value.span(), format!("`{key}` of {} is not a list of tables", of.what), "");
            return Vec::new();
        };
        let mut parts = Vec::new();
        for value in listed.iter() {
            match value.get_ref() {
                DeValue::Table(table) => {
                    parts.push(Part { table, what: format!("this [[{key}]]"), span: value.span() });
                }
                _ => self.wrong(value.span(), format!("this `{key}` is not a table"), ""),
            }
        }
        parts
    }

    /// Reports every key of a table that is not known.
    pub fn keys(&mut self, part: &Part<'_>, known: &[&str]) {
        for (key, _) in part.table {
            if !known.contains(&key.get_ref().as_ref()) {
                let what = format!("unknown key `{}` in {}", key.get_ref(), part.what);
                self.wrong(key.span(), what, format!("it may have {}", known.join(", ")));
            }
        }
    }

    /// The string of a key.
    pub fn text(&mut self, part: &Part<'_>, key: &str, is_needed: bool) -> Option<String> {
        match part.table.get(key) {
            Some(value) => self.as_text(value, key),
            None => {
                if is_needed {
                    self.wrong(part.span.clone(), format!("{} has no `{key}`", part.what), "");
                }
                None
            }
        }
    }

    /// A string; another value is an error that names the key.
    pub fn as_text(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.wrong(value.span(), format!("`{key}` is not a text"), "write it in quotes");
                None
            }
        }
    }

    /// A string or an array of strings.
    pub fn texts(&mut self, part: &Part<'_>, key: &str) -> Vec<String> {
        match part.table.get(key).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(listed))) => {
                listed.iter().filter_map(|value| self.as_text(value, key)).collect()
            }
            Some((value, _)) => self.as_text(value, key).into_iter().collect(),
        }
    }

    /// The boolean of a key.
    pub fn truth(&mut self, part: &Part<'_>, key: &str) -> Option<bool> {
        let value = part.table.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(truth) => Some(*truth),
            _ => {
                self.wrong(value.span(), format!("`{key}` is neither true nor false"), "");
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
        let value = part.table.get(key)?;
        let found = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let found = found.filter(|number| range.contains(number));
        if found.is_none() {
            let what = format!("`{key}` is a number from {} to {}", range.start(), range.end());
            self.wrong(value.span(), what, "");
        }
        found
    }

    /// A share from 0 to 1, or a string with a percent sign.
    pub fn share(&mut self, part: &Part<'_>, key: &str) -> Option<f64> {
        let value = part.table.get(key)?;
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
            self.wrong(value.span(), format!("`{key}` is a share"), "write 0.1 or \"10%\"");
        }
        found
    }

    /// A number of days or hours, such as `"90d"` or `"12h"`, in seconds.
    pub fn duration_s(&mut self, part: &Part<'_>, key: &str) -> Option<u64> {
        let value = part.table.get(key)?;
        let text = self.as_text(value, key)?;
        let units = [('d', 24 * 60 * 60), ('h', 60 * 60)];
        let seconds = units.iter().find_map(|(unit, seconds)| {
            let count: u64 = text.strip_suffix(*unit)?.trim().parse().ok()?;
            (1..=36_500).contains(&count).then_some(count * seconds)
        });
        if seconds.is_none() {
            self.wrong(
                value.span(),
                format!("`{key}` is not {text:?}"),
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
            let what = format!("`{key}` of {} is not {text:?}", part.what);
            self.wrong(span_of(part, key), what, format!("one of {}", names(choices)));
        }
        found.map(|(_, choice)| *choice)
    }
}

/// All names of choices, in quotes.
pub fn names<T>(choices: &[(&str, T)]) -> String {
    let all: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
    all.join(", ")
}

/// The place of the value of a key; that of the table if there is none.
pub fn span_of(part: &Part<'_>, key: &str) -> Range<usize> {
    part.table.get(key).map_or(part.span.clone(), Spanned::span)
}
