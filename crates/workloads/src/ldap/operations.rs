//! A file of several operations with their weights.

use std::ops::Range;
use std::path::Path;

use engine::inputs::Inputs;
use model::problem::did_you_mean;
use model::{Level, Secret, SecretParts, SettingInfo, SettingKind, Settings};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{OF_OPERATIONS, SETTINGS};
use crate::template;

/// The largest file of operations, and the largest weight.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
const WEIGHT_MAX: u64 = 1_000_000;

/// An operation of a file.
pub(super) struct Written {
    /// Its line in the file.
    pub(super) line: u64,
    pub(super) weight: u64,
    pub(super) name: Option<String>,
    /// The settings that it has, and the defaults of all others.
    pub(super) settings: Settings,
}

/// A mistake: its line in the file, the error and the advice.
pub(super) type FileMistake = (u64, String, String);

/// The operations of a file, and its text without passwords.
pub(super) fn read(
    text: &str,
    folder: &Path,
    inputs: &Inputs,
) -> Result<(Vec<Written>, String), Vec<FileMistake>> {
    let mut reader = Reader { text, folder, inputs, mistakes: Vec::new(), secrets: Vec::new() };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let line = reader.line(error.span().unwrap_or_default());
            return Err(vec![(line, error.message().to_string(), String::new())]);
        }
    };
    let operations = reader.file(table.get_ref());
    if !reader.mistakes.is_empty() {
        return Err(reader.mistakes);
    }
    let mut shown = text.to_string();
    for (span, hidden) in reader.secrets.iter().rev() {
        shown.replace_range(span.clone(), &toml::Value::String(hidden.clone()).to_string());
    }
    Ok((operations, shown))
}

struct Reader<'a> {
    text: &'a str,
    folder: &'a Path,
    inputs: &'a Inputs,
    mistakes: Vec<FileMistake>,
    /// Where the file has texts with secret parts, in order, and the texts without them.
    secrets: Vec<(Range<usize>, String)>,
}

impl Reader<'_> {
    fn line(&self, span: Range<usize>) -> u64 {
        let before = self.text.get(..span.start).unwrap_or_default();
        before.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1
    }

    fn wrong(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.mistakes.push((self.line(span), what.into(), help.into()));
    }

    fn file(&mut self, table: &DeTable<'_>) -> Vec<Written> {
        const KEY: &str = "operation";
        for (key, _) in table.iter().filter(|(key, _)| key.get_ref() != KEY) {
            let what = format!("unknown key `{}`", key.get_ref());
            self.wrong(key.span(), what, "write each operation as a table [[operation]]");
        }
        let mut all = Vec::new();
        match table.get(KEY).map(|value| (value.span(), value.get_ref())) {
            Some((_, DeValue::Array(items))) if !items.is_empty() => {
                for item in items {
                    match item.get_ref() {
                        DeValue::Table(table) => all.push(self.operation(table, item.span())),
                        _ => self.wrong(item.span(), "an operation is not a table", "write [[operation]]"),
                    }
                }
            }
            Some((span, _)) => self.wrong(span, "`operation` is not a list of tables", "write [[operation]]"),
            None => {
                self.wrong(0..0, "there is no operation", "write [[operation]] and its settings below it")
            }
        }
        all
    }

    fn operation(&mut self, table: &DeTable<'_>, span: Range<usize>) -> Written {
        let mut written =
            Written { line: self.line(span), weight: 1, name: None, settings: Settings::defaults(SETTINGS) };
        // By place: the text is changed from its end.
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in keys {
            let name = key.get_ref().as_ref();
            match name {
                "weight" => match integer(value) {
                    Some(weight @ 1..=WEIGHT_MAX) => written.weight = weight,
                    _ => {
                        self.wrong(value.span(), "`weight` is not a number from 1 to 1000000", "weight = 10")
                    }
                },
                "name" => match value.get_ref() {
                    DeValue::String(text) if is_name(text) => written.name = Some(text.to_string()),
                    _ => {
                        let help = "write letters, digits, - and _, such as \"search-by-mail\"";
                        self.wrong(value.span(), "`name` is not the name of an operation", help);
                    }
                },
                _ => match OF_OPERATIONS.iter().copied().find(|info| info.name == name) {
                    Some(info) => {
                        if let Some(level) = self.level(info, value) {
                            written.settings.set(info.name, level);
                        }
                    }
                    None => {
                        let known = OF_OPERATIONS.iter().map(|info| info.name).chain(["weight", "name"]);
                        let what = format!("unknown key `{name}` in an operation");
                        self.wrong(key.span(), what, did_you_mean(name, known));
                    }
                },
            }
        }
        written
    }

    fn level(&mut self, info: &SettingInfo, value: &Spanned<DeValue<'_>>) -> Option<Level> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(_) => integer(value).map(|number| number.to_string()).unwrap_or_default(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Array(items) if let SettingKind::Secrets(parts) = info.kind => {
                let mut levels = Vec::new();
                for item in items {
                    match item.get_ref() {
                        DeValue::String(text) => levels.push(self.secret(parts, text, item.span())?),
                        _ => {
                            self.wrong(
                                value.span(),
                                format!("`{}` is not a list of texts", info.name),
                                "[\"...\"]",
                            );
                            return None;
                        }
                    }
                }
                return Some(Level::List(levels));
            }
            DeValue::Array(items) if info.kind.takes_several() => {
                let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                    DeValue::String(text) => Some(info.kind.element(text)),
                    _ => None,
                };
                let levels: Option<Vec<Level>> = items.iter().map(text).collect();
                if levels.is_none() {
                    self.wrong(value.span(), format!("`{}` is not a list of texts", info.name), "[\"...\"]");
                }
                return levels.map(Level::List);
            }
            _ => String::new(),
        };
        match info.kind {
            SettingKind::Secret(parts) => return self.secret(parts, &text, value.span()),
            SettingKind::Secrets(parts) => {
                return self.secret(parts, &text, value.span()).map(|level| Level::List(vec![level]));
            }
            _ => {}
        }
        if info.kind.takes_several() {
            return Some(Level::List(vec![info.kind.element(&text)]));
        }
        info.kind
            .parse(&text)
            .map_err(|what| {
                self.wrong(value.span(), format!("`{}`: {what}", info.name), info.kind.expectation())
            })
            .ok()
    }

    fn secret(&mut self, parts: SecretParts, text: &str, span: Range<usize>) -> Option<Level> {
        let mut secret = Secret::new(text, parts);
        // What a placeholder refers to is elsewhere.
        if secret.shown() != text {
            self.secrets.push((span.clone(), secret.shown().to_string()));
        }
        let (folder, inputs) = (self.folder, self.inputs);
        match secret.resolve(|placeholder| template::find_secret(&placeholder, folder, inputs)) {
            Ok(()) => Some(Level::Secret(secret)),
            Err((what, help)) => {
                self.wrong(span, what, help);
                None
            }
        }
    }
}

fn integer(value: &Spanned<DeValue<'_>>) -> Option<u64> {
    match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
