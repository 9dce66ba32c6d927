//! Reads a scenario file.

use std::collections::BTreeSet;
use std::ops::Range;

use model::problem::did_you_mean;
use model::{Choice, Nanos, quantity};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{
    AtEnd, BodyFile, CheckFile, Condition, DataFile, Expected, ExtractionFile, OnFailure, Options, Order,
    Place, Query, RequestFile, ScenarioFile, Sizes, Statuses, Text, Think, TransactionFile, is_name,
};
use crate::template::RESERVED;

/// A mistake at a place of the text.
#[derive(Debug, PartialEq)]
pub(super) struct Mistake {
    pub(super) span: Range<usize>,
    pub(super) what: String,
    pub(super) help: String,
}

/// The largest weight, so that sums of weights are counted in 64 bits.
pub(super) const WEIGHT_MAX: u32 = 1_000_000;

/// Most redirects of one request.
pub(super) const REDIRECTS_MAX: u32 = 20;

const OPTIONS: [&str; 6] = ["header", "timeout", "expect_status", "follow_redirects", "think", "cookies"];
const TOP: [&str; 5] = ["base", "servers", "variables", "data", "transaction"];
const TRANSACTION: [&str; 4] = ["name", "weight", "on_failure", "request"];
const REQUEST: [&str; 10] = [
    "name",
    "method",
    "url",
    "body",
    "body_file",
    "body_template",
    "body_base64",
    "max_time",
    "check",
    "extract",
];
const DATA: [&str; 3] = ["file", "order", "at_end"];
const CHECK: [&str; 4] = ["name", "status", "size", "absent"];
const QUERIES: [&str; 5] = ["regex", "xpath", "json_path", "header", "cookie"];
const EXPECTED: [&str; 3] = ["equals", "contains", "matches"];

/// All keys of a file.
#[cfg(test)]
pub(super) fn keys() -> Vec<&'static str> {
    let lists: [&[&str]; 8] = [&OPTIONS, &TOP, &TRANSACTION, &REQUEST, &DATA, &CHECK, &QUERIES, &EXPECTED];
    lists.concat()
}

type Value<'a> = Spanned<DeValue<'a>>;

/// A table, with its place and its description for messages.
#[derive(Clone)]
struct Part<'a> {
    table: &'a DeTable<'a>,
    what: String,
    span: Range<usize>,
}

impl<'a> Part<'a> {
    fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table.get(key)
    }
}

/// Reads values, and records mistakes.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) mistakes: Vec<Mistake>,
    /// Names of data sets and variables with a mistake, which templates may use.
    pub(super) faulty: BTreeSet<String>,
}

impl Reader {
    /// Records a mistake once: an option of all requests is read for each of them.
    pub(super) fn wrong(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        let mistake = Mistake { span, what: what.into(), help: help.into() };
        if !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    /// Reads a file; none after a syntax error.
    pub(super) fn file(&mut self, text: &str) -> Option<ScenarioFile> {
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            self.wrong(span, error.message().trim().replace('\n', ", "), "");
        }
        if !self.mistakes.is_empty() {
            // After a syntax error, further errors would be guesses.
            return None;
        }
        let top = Part { table: document.get_ref(), what: "the scenario".into(), span: 0..0 };
        self.unknown_keys(&top, &[&TOP, &OPTIONS]);
        let mut file = ScenarioFile {
            base: self.text(&top, "base"),
            servers: self.texts(&top, "servers", "[\"http://HOST:PORT\"]"),
            options: self.options(&top),
            ..ScenarioFile::default()
        };
        for (name, value, span) in self.named(&top, "variables") {
            match value.get_ref() {
                DeValue::String(text) => {
                    file.variables.insert(name, Text::at(text.as_ref(), value.span()));
                }
                _ => {
                    let help = format!("write {name} = \"...\"");
                    self.wrong(span, format!("the variable `{name}` is not a text"), help);
                    self.faulty.insert(name);
                }
            }
        }
        for (name, value, span) in self.named(&top, "data") {
            let what = format!("[data.{name}]");
            match self.table(value, what, span).and_then(|part| self.data(&part)) {
                Some(data) => {
                    file.data.insert(name, data);
                }
                None => {
                    self.faulty.insert(name);
                }
            }
        }
        for (number, part) in self.tables(&top, "transaction", "[[transaction]]").into_iter().enumerate() {
            let transaction = self.transaction(&part, number + 1);
            file.transactions.push(transaction);
        }
        if file.transactions.is_empty() && self.mistakes.is_empty() {
            let help = "write [[transaction]] with a name and [[transaction.request]] with a URL";
            self.wrong(0..0, "the scenario has no transaction", help);
        }
        Some(file)
    }

    fn unknown_keys(&mut self, part: &Part<'_>, known: &[&[&str]]) {
        let known: Vec<&str> = known.iter().flat_map(|keys| keys.iter().copied()).collect();
        for key in part.table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let help = did_you_mean(name, known.iter().copied());
                self.wrong(key.span(), format!("unknown key `{name}` in {}", part.what), help);
            }
        }
    }

    fn wrong_type(&mut self, value: &Value<'_>, part: &Part<'_>, key: &str, noun: &str, example: &str) {
        let what = format!("`{key}` of {} is not {noun}", part.what);
        self.wrong(value.span(), what, format!("write {key} = {example}"));
    }

    fn text(&mut self, part: &Part<'_>, key: &str) -> Option<Text> {
        let value = part.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Text::at(text.as_ref(), value.span())),
            _ => {
                self.wrong_type(value, part, key, "a text", "\"...\"");
                None
            }
        }
    }

    fn flag(&mut self, part: &Part<'_>, key: &str) -> Option<bool> {
        let value = part.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => {
                self.wrong_type(value, part, key, "true or false", "true");
                None
            }
        }
    }

    fn count(&mut self, part: &Part<'_>, key: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let value = part.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                let digits = number.as_str();
                (number.radix() == 10).then(|| digits.replace('_', "").parse().ok()).flatten()
            }
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let noun = format!("a number from {} to {}", range.start(), range.end());
            self.wrong_type(value, part, key, &noun, &range.start().max(&1).to_string());
        }
        number
    }

    fn parsed<T>(
        &mut self,
        part: &Part<'_>,
        key: &str,
        parse: impl Fn(&str) -> Option<T>,
        noun: &str,
        example: &str,
    ) -> Option<T> {
        let value = part.get(key)?;
        let parsed = match value.get_ref() {
            DeValue::String(text) => parse(text),
            _ => None,
        };
        if parsed.is_none() {
            self.wrong_type(value, part, key, noun, &format!("\"{example}\""));
        }
        parsed
    }

    fn choice<T: Choice + Copy + 'static>(&mut self, part: &Part<'_>, key: &str, all: &[T]) -> Option<T> {
        let text = self.text(part, key)?;
        let found = all.iter().find(|choice| choice.word() == text.text);
        if found.is_none() {
            let what = format!("`{}` is not a value of `{key}` of {}", text.text.escape_debug(), part.what);
            self.wrong(text.span(), what, did_you_mean(&text.text, T::WORDS.iter().copied()));
        }
        found.copied()
    }

    fn time(&mut self, part: &Part<'_>, key: &str) -> Option<Nanos> {
        let parse = |text: &str| quantity::parse_duration(text).ok().filter(|time| *time > 0);
        self.parsed(part, key, parse, "a duration above 0", "10s")
    }

    fn statuses(&mut self, part: &Part<'_>, key: &str) -> Option<Statuses> {
        let noun = "a list of status codes from 200 to 999";
        self.parsed(part, key, Statuses::parse, noun, "200..299,304")
    }

    fn table<'a>(&mut self, value: &'a Value<'a>, what: String, span: Range<usize>) -> Option<Part<'a>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Part { table, what, span }),
            _ => {
                self.wrong(value.span(), format!("{what} is not a table"), "");
                None
            }
        }
    }

    /// The entries of a table of names.
    fn named<'a>(&mut self, part: &Part<'a>, key: &str) -> Vec<(String, &'a Value<'a>, Range<usize>)> {
        let Some(value) = part.get(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(value, part, key, "a table", "{ NAME = ... }");
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (name, value) in table {
            let text = name.get_ref().as_ref();
            self.check_variable_name(text, name.span());
            entries.push((text.to_string(), value, name.span()));
        }
        entries
    }

    /// Reports a name that templates cannot use.
    fn check_variable_name(&mut self, name: &str, span: Range<usize>) {
        let help = "use 1 to 40 letters, digits, `_` and `-`";
        if !is_name(name) {
            self.wrong(span, format!("`{}` is not a valid name", name.escape_debug()), help);
            self.faulty.insert(name.into());
        } else if RESERVED.contains(&name) {
            let what = format!("`{name}` has a meaning of its own in templates");
            self.wrong(span, what, "choose another name");
            self.faulty.insert(name.into());
        }
    }

    /// The tables of an array of tables.
    fn tables<'a>(&mut self, part: &Part<'a>, key: &str, what: &str) -> Vec<Part<'a>> {
        let Some(value) = part.get(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong(
                value.span(),
                format!("`{key}` of {} is not a list of tables", part.what),
                format!("write {what}"),
            );
            return Vec::new();
        };
        array.iter().filter_map(|value| self.table(value, what.into(), value.span())).collect()
    }

    fn options(&mut self, part: &Part<'_>) -> Options {
        Options {
            header: self.texts(part, "header", "[\"NAME: VALUE\"]"),
            timeout: self.time(part, "timeout"),
            expect_status: self.statuses(part, "expect_status"),
            follow_redirects: self.count(part, "follow_redirects", 0..=REDIRECTS_MAX),
            think: self.parsed(part, "think", Think::parse, "a think time", "1s..3s"),
            cookies: self.flag(part, "cookies"),
        }
    }

    /// A text, or a list of texts.
    fn texts(&mut self, part: &Part<'_>, key: &str, example: &str) -> Vec<Text> {
        let mut texts = Vec::new();
        let Some(value) = part.get(key) else { return texts };
        match value.get_ref() {
            DeValue::String(text) => texts.push(Text::at(text.as_ref(), value.span())),
            DeValue::Array(array) => {
                for value in array {
                    match value.get_ref() {
                        DeValue::String(text) => texts.push(Text::at(text.as_ref(), value.span())),
                        _ => self.wrong_type(value, part, key, "a list of texts", example),
                    }
                }
            }
            _ => self.wrong_type(value, part, key, "a list of texts", example),
        }
        texts
    }

    fn data(&mut self, part: &Part<'_>) -> Option<DataFile> {
        self.unknown_keys(part, &[&DATA]);
        let order = self.choice(part, "order", &[Order::Sequential, Order::Random, Order::Unique]);
        let at_end = self.choice(part, "at_end", &[AtEnd::Repeat, AtEnd::Stop]);
        let order = order.unwrap_or_default();
        if order == Order::Random && part.get("at_end").is_some() {
            let what = format!("`at_end` of {} has no effect with a random order", part.what);
            self.wrong(part.get("at_end").map_or(0..0, Spanned::span), what, "remove it");
        }
        if part.get("file").is_none() {
            self.wrong(
                part.span.clone(),
                format!("`file` of {} is missing", part.what),
                "file = \"NAME.csv\"",
            );
        }
        let file = self.text(part, "file")?;
        Some(DataFile { file, order, at_end, place: Place(part.span.clone()) })
    }

    fn transaction(&mut self, part: &Part<'_>, number: usize) -> TransactionFile {
        self.unknown_keys(part, &[&TRANSACTION]);
        let name = self.text(part, "name");
        if part.get("name").is_none() {
            self.wrong(part.span.clone(), "the transaction has no name", "name = \"NAME\"");
        }
        let weight = self.count(part, "weight", 1..=WEIGHT_MAX).unwrap_or(1);
        let on_failure = self.choice(part, "on_failure", &[OnFailure::End, OnFailure::Continue]);
        let parts = self.tables(part, "request", "[[transaction.request]]");
        if part.get("request").is_none() || (parts.is_empty() && self.mistakes.is_empty()) {
            let shown = name.as_ref().map_or("the transaction".into(), |name| {
                format!("the transaction `{}`", name.text.escape_debug())
            });
            let help = "write [[transaction.request]] with url = \"...\" below it";
            self.wrong(part.span.clone(), format!("{shown} has no request"), help);
        }
        let requests = parts.iter().map(|part| self.request(part)).collect();
        TransactionFile {
            // A name that cannot be one stands for a missing one, which is reported.
            name: name.unwrap_or_else(|| Text::at(format!("transaction-{number}"), part.span.clone())),
            weight,
            on_failure: on_failure.unwrap_or_default(),
            requests,
        }
    }

    fn request(&mut self, part: &Part<'_>) -> RequestFile {
        self.unknown_keys(part, &[&REQUEST, &OPTIONS]);
        if part.get("url").is_none() {
            self.wrong(part.span.clone(), "the request has no URL", "url = \"/PATH\"");
        }
        let is_method = |text: &str| {
            let valid = (1..=20).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_".contains(&byte));
            (valid && text != "CONNECT").then(|| text.to_string())
        };
        let method = self.parsed(part, "method", is_method, "a method in capitals", "GET");
        let mut checks = Vec::new();
        for part in self.tables(part, "check", "check = [{ ... }]") {
            checks.extend(self.check(&part));
        }
        RequestFile {
            name: self.text(part, "name").unwrap_or_default(),
            method: method.unwrap_or_else(|| "GET".into()),
            url: self.text(part, "url").unwrap_or_default(),
            options: self.options(part),
            body: self.body(part),
            max_time: self.time(part, "max_time"),
            checks,
            extractions: self.extractions(part),
            place: Place(part.span.clone()),
        }
    }

    fn body(&mut self, part: &Part<'_>) -> BodyFile {
        let given: Vec<&str> =
            ["body", "body_file", "body_base64"].into_iter().filter(|key| part.get(key).is_some()).collect();
        if let [first, second, ..] = given.as_slice() {
            let span = part.get(second).map_or(0..0, Spanned::span);
            self.wrong(span, format!("`{first}` and `{second}` exclude each other"), "remove one of them");
        }
        let is_template = self.flag(part, "body_template");
        if is_template.is_some() && part.get("body_file").is_none() {
            let span = part.get("body_template").map_or(0..0, Spanned::span);
            self.wrong(span, "`body_template` has no effect without `body_file`", "remove it");
        }
        match given.first() {
            Some(&"body") => self.text(part, "body").map_or(BodyFile::Empty, BodyFile::Text),
            Some(&"body_base64") => self.text(part, "body_base64").map_or(BodyFile::Empty, BodyFile::Base64),
            Some(_) => self.text(part, "body_file").map_or(BodyFile::Empty, |path| BodyFile::File {
                path,
                is_template: is_template.unwrap_or(false),
            }),
            None => BodyFile::Empty,
        }
    }

    fn check(&mut self, part: &Part<'_>) -> Option<CheckFile> {
        let part = &Part { what: "the check".into(), ..part.clone() };
        self.unknown_keys(part, &[&CHECK, &QUERIES, &EXPECTED]);
        let name = self.text(part, "name").unwrap_or_default().text;
        let is_absent = self.flag(part, "absent").unwrap_or(false);
        let has = |key: &&&str| part.get(key).is_some();
        let of_value = QUERIES.iter().filter(has).count() > 0;
        let subjects = ["status", "size"].iter().filter(has).count() + usize::from(of_value);
        let expected = EXPECTED.iter().filter(has).count();
        let condition = match (subjects, expected) {
            (1, _) if part.get("status").is_some() => Condition::Status(self.statuses(part, "status")?),
            (1, _) if part.get("size").is_some() => {
                Condition::Size(self.parsed(part, "size", Sizes::parse, "a range of sizes", "1B..64KiB")?)
            }
            (1, 0 | 1) => Condition::Value(self.query(part)?, self.expected(part)?),
            (0, 1) if part.get("contains").is_some() => Condition::Contains(self.text(part, "contains")?),
            _ => {
                let help = "write one of status, size, contains, regex, xpath, json_path, header and cookie; with a value, also one of equals, contains and matches";
                let what = match (subjects, expected) {
                    (0, _) => "the check does not say what it checks",
                    (1, _) => "the check has more than one expectation",
                    _ => "the check has more than one condition",
                };
                self.wrong(part.span.clone(), what, help);
                return None;
            }
        };
        if matches!(condition, Condition::Status(_) | Condition::Size(_)) && expected > 0 {
            let what = "equals, contains and matches are for regex, xpath, json_path, header and cookie";
            self.wrong(part.span.clone(), what, "remove them");
        }
        Some(CheckFile { name, condition, is_absent, place: Place(part.span.clone()) })
    }

    fn expected(&mut self, part: &Part<'_>) -> Option<Expected> {
        Some(match EXPECTED.iter().find(|key| part.get(key).is_some()) {
            None => Expected::Anything,
            Some(&"equals") => Expected::Equals(self.text(part, "equals")?),
            Some(&"contains") => Expected::Contains(self.text(part, "contains")?),
            Some(_) => Expected::Matches(self.text(part, "matches")?),
        })
    }

    fn query(&mut self, part: &Part<'_>) -> Option<Query> {
        let given: Vec<&str> = QUERIES.into_iter().filter(|key| part.get(key).is_some()).collect();
        match given.as_slice() {
            ["regex"] => self.text(part, "regex").map(Query::Regex),
            ["xpath"] => self.text(part, "xpath").map(Query::XPath),
            ["json_path"] => self.text(part, "json_path").map(Query::JsonPath),
            ["header"] | ["regex", "header"] => {
                let regex = self.text(part, "regex");
                self.text(part, "header").map(|name| Query::Header(name, regex))
            }
            ["cookie"] | ["regex", "cookie"] => {
                let regex = self.text(part, "regex");
                self.text(part, "cookie").map(|name| Query::Cookie(name, regex))
            }
            _ => {
                let what = format!("{} needs one of {}", part.what, QUERIES.join(", "));
                self.wrong(part.span.clone(), what, "a regex can be combined with header or cookie");
                None
            }
        }
    }

    fn extractions(&mut self, part: &Part<'_>) -> Vec<ExtractionFile> {
        let mut extractions = Vec::new();
        for (name, value, span) in self.named(part, "extract") {
            let part = self.table(value, format!("the extraction of `{name}`"), span.clone());
            let query = part.and_then(|part| {
                self.unknown_keys(&part, &[&QUERIES]);
                self.query(&part)
            });
            match query {
                Some(query) => extractions.push(ExtractionFile { variable: Text::at(name, span), query }),
                None => {
                    self.faulty.insert(name);
                }
            }
        }
        extractions
    }
}
