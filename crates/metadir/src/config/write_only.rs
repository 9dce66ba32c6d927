//! `[outbound.write_only]`: values that are sent once and never read, such as initial passwords.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::part::{Part, Reader, names, span_in, span_of};
use super::{AgentConfig, Deprovision, ExportFlow, Mistake, Outbound, Source};
use crate::expression::Expression;
use crate::password::Password;

/// The password attribute of Active Directory, which accepts it only over TLS.
pub const UNICODE_PWD: &str = "unicodePwd";

/// An attribute that is sent when its object is made, and never read.
#[derive(Debug)]
pub struct WriteOnly {
    /// The attribute of the connector space.
    pub to: String,
    /// The source of the value.
    pub from: WriteOnlySource,
    /// Whether a value is sent again when a deprovisioned object is connected again.
    pub on_return: bool,
}

/// The source of a value that is never read.
#[derive(Debug)]
pub enum WriteOnlySource {
    /// An attribute of the metaverse or an expression, evaluated when the value is sent.
    Flow(Source),
    /// A file or an environment variable, read when the value is sent.
    Secret(Password),
    /// A generated password.
    Generated(Generator),
}

/// How passwords are generated and delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    /// Number of characters.
    pub length: usize,
    /// The characters of each class; a password has at least one of each.
    pub classes: Vec<Vec<char>>,
    /// Where each password is delivered.
    pub delivery: Delivery,
}

/// Where a generated password is delivered, as a JSON line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is appended to this file, which only its owner may read.
    File(PathBuf),
    /// This command with its arguments reads it from its standard input.
    Command(Vec<String>),
}

/// The classes of characters, and those characters among them that are easily mistaken for others.
const CLASSES: [(&str, &str); 4] = [
    ("lower", "abcdefghijklmnopqrstuvwxyz"),
    ("upper", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("digits", "0123456789"),
    ("symbols", "!#$%&()*+-./:;<=>?@[]^_{|}~"),
];
const LOOK_ALIKES: &str = "0O1Il|5S2Z8B.:;";

const LENGTH: u64 = 20;

impl WriteOnly {
    /// Resolves relative paths against a folder.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        match &mut self.from {
            WriteOnlySource::Secret(place) => place.relative_to(folder),
            WriteOnlySource::Generated(Generator { delivery: Delivery::File(path), .. }) => {
                *path = folder.join(&*path);
            }
            _ => {}
        }
    }
}

impl Reader {
    /// `ATTRIBUTE = { generate = { ... } }`, `{ value_file = "x" }`, `{ value_env = "X" }`, `"attribute"` or
    /// `{ expression = "..." }`. The tables may have `on_return`.
    pub(super) fn write_only(&mut self, part: &Part<'_>) -> Vec<WriteOnly> {
        let Some(listed) = self.part(part, "write_only") else { return Vec::new() };
        let mut all = Vec::new();
        for (name, value) in listed.entries() {
            let to = name.get_ref().to_string();
            let table = match value.get_ref() {
                DeValue::String(text) => {
                    let from = WriteOnlySource::Flow(Source::Direct(text.to_string()));
                    all.push(WriteOnly { to, from, on_return: false });
                    continue;
                }
                DeValue::Table(table) => table,
                _ => {
                    let help = "write { generate = { file = \"passwords.jsonl\" } }";
                    self.wrong(value.span(), format!("`{to}` is neither a text nor a table"), help);
                    continue;
                }
            };
            let flow = Part::new(table, format!("`{to}` in `write_only`"), value.span());
            if let Some(from) = self.write_only_source(&flow) {
                let on_return = self.truth(&flow, "on_return").unwrap_or(false);
                all.push(WriteOnly { to, from, on_return });
            }
        }
        all
    }

    fn write_only_source(&mut self, flow: &Part<'_>) -> Option<WriteOnlySource> {
        let ways = ["generate", "value_file", "value_env", "from", "expression"];
        let has = |key: &str| flow.has(key);
        if has("constant") {
            let what = "a constant would be a password in the configuration";
            self.wrong(span_of(flow, "constant"), what, "write { value_file = \"FILE\" }");
            return None;
        }
        self.keys(flow, &[&ways[..], &["on_return"]].concat());
        if ways.iter().filter(|way| has(way)).count() != 1 {
            let what =
                format!("{} needs one of {}", flow.what, ways.map(|way| format!("`{way}`")).join(", "));
            self.wrong(flow.span.clone(), what, "write { generate = { file = \"passwords.jsonl\" } }");
            return None;
        }
        if has("generate") {
            return self.generator(flow).map(WriteOnlySource::Generated);
        }
        let file = self.text(flow, "value_file", false).map(|path| Password::File(path.into()));
        let variable = self.text(flow, "value_env", false).map(Password::Environment);
        if let Some(place) = file.or(variable) {
            return Some(WriteOnlySource::Secret(place));
        }
        let from = self.text(flow, "from", false).map(Source::Direct);
        from.or_else(|| self.expression(flow, "expression", "mv").map(Source::Expression))
            .map(WriteOnlySource::Flow)
    }

    fn generator(&mut self, flow: &Part<'_>) -> Option<Generator> {
        let part = self.part(flow, "generate")?;
        self.keys(&part, &["length", "classes", "look_alikes", "file", "command"]);
        let length = self.number(&part, "length", 8..=128).unwrap_or(LENGTH) as usize;
        let look_alikes = self.truth(&part, "look_alikes").unwrap_or(false);
        let mut classes = Vec::new();
        let named = match part.get("classes") {
            None => vec!["lower".into(), "upper".into(), "digits".into()],
            Some(_) => self.texts(&part, "classes"),
        };
        for name in &named {
            match CLASSES.iter().find(|(known, _)| known == name) {
                Some((_, of_class)) => {
                    let is_used = |character: &char| look_alikes || !LOOK_ALIKES.contains(*character);
                    classes.push(of_class.chars().filter(is_used).collect());
                }
                None => self.wrong(
                    span_of(&part, "classes"),
                    format!("there is no class of characters {name:?}"),
                    format!("one of {}", names(&CLASSES)),
                ),
            }
        }
        if named.is_empty() {
            self.wrong(
                span_of(&part, "classes"),
                "`classes` is empty",
                format!("name some of {}", names(&CLASSES)),
            );
        }
        let file = self.text(&part, "file", false);
        let command = self.texts(&part, "command");
        let delivery = match (file, part.has("command")) {
            (Some(path), false) => Delivery::File(path.into()),
            (None, true) if command.first().is_some_and(|program| !program.is_empty()) => {
                Delivery::Command(command)
            }
            (None, true) => {
                self.wrong(
                    span_of(&part, "command"),
                    "`command` names no program",
                    "write [\"/path/of/program\", \"argument\"]",
                );
                return None;
            }
            (Some(_), true) => {
                self.wrong(
                    span_of(&part, "command"),
                    "a password is delivered by `file` or by `command`",
                    "remove one",
                );
                return None;
            }
            (None, false) => {
                let what = "generated passwords are delivered nowhere";
                let help = "write file = \"passwords.jsonl\", or command = [\"/path/of/program\"]";
                self.wrong(part.span.clone(), what, help);
                return None;
            }
        };
        Some(Generator { length, classes, delivery })
    }

    /// Checks the attributes that are never read.
    pub(super) fn write_only_is_well(&mut self, part: &Part<'_>, rules: &Outbound, agent: &AgentConfig) {
        let flows = |listed: &[ExportFlow], to: &str| listed.iter().any(|flow| flow.to == to);
        for write_only in &rules.write_only {
            let to = write_only.to.as_str();
            let is_disabled = matches!(&rules.deprovision, Deprovision::Disable(values) if values.iter().any(|(name, _)| name == to));
            let by = [
                (flows(&rules.flows, to), "flow"),
                (flows(&rules.initial, to), "initial"),
                (is_disabled, "deprovision"),
            ];
            for (_, key) in by.into_iter().filter(|(is_by, _)| *is_by) {
                let what = format!("`{to}` is in `write_only` and in `{key}`");
                self.wrong(
                    span_in(part, key, to),
                    what,
                    "a value that is never read is set in `write_only` alone",
                );
            }
            if agent.anchor.iter().chain(&agent.references).any(|name| name == to) {
                let what = format!("`{to}` identifies objects or refers to them, so it must be read");
                self.wrong(span_in(part, "write_only", to), what, "set it by `flow`");
            }
        }
        let Some(server) = agent.system.unencrypted() else { return };
        let mut written = rules.flows.iter().chain(&rules.initial).map(|flow| flow.to.as_str());
        let is_password = |name: &str| name.eq_ignore_ascii_case(UNICODE_PWD);
        let in_flow = written.any(is_password);
        let is_written = in_flow || rules.write_only.iter().any(|rule| is_password(&rule.to));
        if is_written {
            let what =
                format!("`{UNICODE_PWD}` would go to {server} without TLS, which Active Directory refuses");
            let help = "write ldaps:// or start_tls = true";
            self.wrong(span_of(part, if in_flow { "flow" } else { "write_only" }), what, help);
        }
    }

    /// The expressions and attributes of the metaverse that are read.
    pub(super) fn read_by(write_only: &[WriteOnly]) -> Vec<String> {
        let read = write_only.iter().flat_map(|rule| match &rule.from {
            WriteOnlySource::Flow(Source::Direct(name)) => vec![name.clone()],
            WriteOnlySource::Flow(Source::Expression(expression)) => Expression::uses(expression).to_vec(),
            _ => Vec::new(),
        });
        read.collect()
    }
}

/// Inbound rules do not read what is never read.
pub(super) fn not_read(
    inbound: &[super::Inbound],
    agents: &[AgentConfig],
    types: &[super::MetaverseType],
) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for rules in inbound {
        let agent = &agents[rules.agent];
        for flow in &rules.flows {
            let read: Vec<&str> = match &flow.from {
                Source::Direct(name) => vec![name],
                Source::Expression(expression) => expression.uses().iter().map(String::as_str).collect(),
                Source::Constant(_) => Vec::new(),
            };
            if let Some(name) =
                read.into_iter().find(|name| agent.write_only.iter().any(|known| known == name))
            {
                let to = &types[rules.to].attributes[flow.to].name;
                let what = format!(
                    "`{to}` reads `{name}`, which is in `write_only` of an [[outbound]] to {}",
                    agent.name
                );
                mistakes.push(Mistake { span: flow.span.clone(), what, help: "remove one of them".into() });
            }
        }
    }
    mistakes
}
