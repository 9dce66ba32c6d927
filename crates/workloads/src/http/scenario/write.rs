//! Writes a scenario file.

use std::fmt::Write as _;

use model::{Choice, SecretParts, quantity};
use toml_writer::{ToTomlKey as _, ToTomlValue as _};

use super::file::{
    BodyFile, CheckFile, Condition, Expected, OnFailure, Options, Order, Query, RequestFile, ScenarioFile,
    Text, TransactionFile, hidden,
};

impl ScenarioFile {
    /// The text of this scenario; reading it gives the same scenario. It contains secrets that are written directly.
    pub fn write(&self) -> String {
        Writer { hides: false, out: String::new() }.file(self)
    }

    /// The text of this scenario for a record: secrets that are written directly are `***`.
    pub fn write_without_secrets(&self) -> String {
        Writer { hides: true, out: String::new() }.file(self)
    }
}

struct Writer {
    hides: bool,
    out: String,
}

impl Writer {
    /// Writes `KEY = VALUE` on a line. Writing to memory cannot fail.
    fn line(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.out, "{} = {value}", toml_key(key));
    }

    fn text(&self, text: &Text) -> String {
        match self.hides {
            true => quoted(&hidden(&text.text)),
            false => quoted(&text.text),
        }
    }

    fn field(&self, text: &Text) -> String {
        match self.hides {
            true => quoted(&SecretParts::Header.hide(&text.text)),
            false => quoted(&text.text),
        }
    }

    /// A value whose name can suggest that it is a secret.
    fn named_text(&self, name: &str, text: &Text) -> String {
        match self.hides {
            true => quoted(&model::Secret::of_variable(name, &hidden(&text.text)).to_string()),
            false => quoted(&text.text),
        }
    }

    fn file(mut self, file: &ScenarioFile) -> String {
        if let Some(base) = &file.base {
            let base = self.text(base);
            self.line("base", &base);
        }
        if !file.servers.is_empty() {
            let servers: Vec<String> = file.servers.iter().map(|server| self.text(server)).collect();
            self.line("servers", &format!("[{}]", servers.join(", ")));
        }
        self.options(&file.options);
        if !file.variables.is_empty() {
            self.out += "\n[variables]\n";
            for (name, text) in &file.variables {
                let value = self.named_text(name, text);
                self.line(name, &value);
            }
        }
        for (name, data) in &file.data {
            let _ = writeln!(self.out, "\n[data.{}]", toml_key(name));
            let path = self.text(&data.file);
            self.line("file", &path);
            if data.order != Order::default() {
                self.line("order", &quoted(data.order.word()));
            }
            if let Some(at_end) = data.at_end {
                self.line("at_end", &quoted(at_end.word()));
            }
        }
        for transaction in &file.transactions {
            self.transaction(transaction);
        }
        self.out
    }

    fn options(&mut self, options: &Options) {
        match options.header.as_slice() {
            [] => {}
            [field] => {
                let field = self.field(field);
                self.line("header", &format!("[{field}]"));
            }
            fields => {
                self.out += "header = [\n";
                for field in fields {
                    let field = self.field(field);
                    let _ = writeln!(self.out, "  {field},");
                }
                self.out += "]\n";
            }
        }
        if let Some(timeout) = options.timeout {
            self.line("timeout", &quoted(&quantity::duration(timeout)));
        }
        if let Some(statuses) = &options.expect_status {
            self.line("expect_status", &quoted(&statuses.to_string()));
        }
        if let Some(redirects) = options.follow_redirects {
            self.line("follow_redirects", &redirects.to_string());
        }
        if let Some(think) = options.think {
            self.line("think", &quoted(&think.to_string()));
        }
        if let Some(cookies) = options.cookies {
            self.line("cookies", &cookies.to_string());
        }
    }

    fn transaction(&mut self, transaction: &TransactionFile) {
        self.out += "\n[[transaction]]\n";
        self.line("name", &quoted(&transaction.name.text));
        if transaction.weight != 1 {
            self.line("weight", &transaction.weight.to_string());
        }
        if transaction.on_failure != OnFailure::default() {
            self.line("on_failure", &quoted(transaction.on_failure.word()));
        }
        for request in &transaction.requests {
            self.request(request);
        }
    }

    fn request(&mut self, request: &RequestFile) {
        self.out += "\n[[transaction.request]]\n";
        if !request.name.text.is_empty() {
            self.line("name", &quoted(&request.name.text));
        }
        if request.method != "GET" {
            self.line("method", &quoted(&request.method));
        }
        let url = self.text(&request.url);
        self.line("url", &url);
        self.options(&request.options);
        match &request.body {
            BodyFile::Empty => {}
            BodyFile::Text(text) => {
                let text = self.text(text);
                self.line("body", &text);
            }
            BodyFile::Base64(text) => {
                // Its secrets cannot be recognized.
                let text = if self.hides { quoted(model::secret::HIDDEN) } else { quoted(&text.text) };
                self.line("body_base64", &text);
            }
            BodyFile::File { path, is_template } => {
                let path = self.text(path);
                self.line("body_file", &path);
                if *is_template {
                    self.line("body_template", "true");
                }
            }
        }
        if let Some(time) = request.max_time {
            self.line("max_time", &quoted(&quantity::duration(time)));
        }
        if !request.checks.is_empty() {
            self.out += "check = [\n";
            for check in &request.checks {
                let check = self.check(check);
                let _ = writeln!(self.out, "  {{ {check} }},");
            }
            self.out += "]\n";
        }
        for extraction in &request.extractions {
            let query = self.query(&extraction.query);
            let name = toml_key(&extraction.variable.text);
            let _ = writeln!(self.out, "extract.{name} = {{ {query} }}");
        }
    }

    fn check(&self, check: &CheckFile) -> String {
        let mut entries = Vec::new();
        if !check.name.is_empty() {
            entries.push(format!("name = {}", quoted(&check.name)));
        }
        match &check.condition {
            Condition::Status(statuses) => {
                entries.push(format!("status = {}", quoted(&statuses.to_string())))
            }
            Condition::Size(sizes) => entries.push(format!("size = {}", quoted(&sizes.to_string()))),
            Condition::Contains(text) => entries.push(format!("contains = {}", self.text(text))),
            Condition::Value(query, expected) => {
                entries.push(self.query(query));
                match expected {
                    Expected::Anything => {}
                    Expected::Equals(text) => entries.push(format!("equals = {}", self.text(text))),
                    Expected::Contains(text) => entries.push(format!("contains = {}", self.text(text))),
                    Expected::Matches(text) => entries.push(format!("matches = {}", self.text(text))),
                }
            }
        }
        if check.is_absent {
            entries.push("absent = true".into());
        }
        entries.join(", ")
    }

    fn query(&self, query: &Query) -> String {
        let with_regex = |key: &str, name: &Text, regex: &Option<Text>| {
            let regex =
                regex.as_ref().map_or(String::new(), |regex| format!(", regex = {}", self.text(regex)));
            format!("{key} = {}{regex}", quoted(&name.text))
        };
        match query {
            Query::Regex(text) => format!("regex = {}", self.text(text)),
            Query::XPath(text) => format!("xpath = {}", self.text(text)),
            Query::JsonPath(text) => format!("json_path = {}", self.text(text)),
            Query::Header(name, regex) => with_regex("header", name, regex),
            Query::Cookie(name, regex) => with_regex("cookie", name, regex),
        }
    }
}

fn quoted(text: &str) -> String {
    text.to_toml_value()
}

fn toml_key(text: &str) -> String {
    text.to_toml_key()
}
