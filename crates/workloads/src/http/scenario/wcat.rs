//! Reads scenario and settings files of WCAT, the Web Capacity Analysis Tool, versions 5 and 6.
//!
//! What cannot be carried over (DLLs, NTLM, old versions of SSL, branches) has a note with its line.

mod grammar;

use std::collections::BTreeSet;

use model::{MILLISECOND, Nanos, Problem, SECOND};

use super::file::{
    BodyFile, Import, NAME_LENGTH_MAX, Note, OnFailure, Options, RequestFile, ScenarioFile, Statuses, Text,
    Think, TransactionFile,
};
use super::read::WEIGHT_MAX;
use crate::template::escape;

use grammar::{Attribute, Element, Term};

/// Redirects that WCAT follows with `redirect = true`.
const REDIRECTS: u32 = 10;

/// HTTP/1.0 is WCAT's default.
const HTTP_10: &str = "requests of HTTP/1.0 are sent as HTTP/1.1";

/// What `wcctl` adds to a scenario file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WcatOptions {
    /// The servers of the settings file, or of `-s`. Each gets the same load.
    pub servers: Vec<String>,
    /// Number of client computers.
    pub clients: Option<u32>,
    /// Virtual clients of each client computer.
    pub virtual_clients: Option<u32>,
}

/// A scenario file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WcatScenario {
    /// The scenario, and what was not carried over.
    pub import: Import,
    /// The warm-up; none if the file has none.
    pub warm_up: Option<Nanos>,
    /// The measured time; none if the file has none.
    pub duration: Option<Nanos>,
}

/// A settings file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WcatSettings {
    /// The servers.
    pub servers: Vec<String>,
    /// Number of client computers.
    pub clients: Option<u32>,
    /// Virtual clients of each client computer. The number of users is the product of both.
    pub virtual_clients: Option<u32>,
    /// Performance counters: the host, if it is named, and the path.
    pub counters: Vec<(Option<String>, String)>,
    /// What was not carried over.
    pub notes: Vec<Note>,
}

/// The first element of a file, if it has this name.
fn root(text: &str, name: &str) -> Result<Element, Problem> {
    let element = grammar::parse(text).map_err(|error| {
        let help = "the grammar is that of WCAT 6; write \\\" for a quotation mark inside of a text";
        Problem { line: error.line, ..Problem::new(error.what, help) }
    })?;
    match element.name == name {
        true => Ok(element),
        false => {
            let what =
                format!("the file begins with `{}` and not with `{name}`", element.name.escape_debug());
            let help = "a scenario file has `scenario { ... }`, and a settings file has `settings { ... }`";
            Err(Problem { line: element.line, ..Problem::new(what, help) })
        }
    }
}

/// Reads a settings file.
///
/// # Errors
/// If it is not a settings file.
pub fn read_settings(text: &str) -> Result<WcatSettings, Problem> {
    let element = root(text, "settings")?;
    let mut settings = WcatSettings::default();
    for attribute in &element.attributes {
        let value = attribute.text().unwrap_or_default();
        match attribute.name.as_str() {
            "server" => {
                let servers = value.split(',').map(str::trim).filter(|server| !server.is_empty());
                settings.servers = servers.map(str::to_string).collect();
            }
            "clients" => settings.clients = value.parse().ok(),
            "virtualclients" => settings.virtual_clients = value.parse().ok(),
            "clientfile" | "loginterval" | "portscalability" => {}
            name => settings.notes.push(unknown(attribute.line, name)),
        }
    }
    for child in &element.children {
        match child.name.as_str() {
            "counters" => {
                let host = child.attribute("host").and_then(Attribute::text).map(str::to_string);
                let counters = child.attributes.iter().filter(|attribute| attribute.name == "counter");
                let paths =
                    counters.filter_map(|attribute| Some((host.clone(), attribute.text()?.to_string())));
                settings.counters.extend(paths);
            }
            "registry" => {
                let what = "`registry` is left out: values of a registry are not read";
                settings.notes.push(Note::new(child.line, what, ""));
            }
            name => settings.notes.push(unknown(child.line, name)),
        }
    }
    Ok(settings)
}

/// Reads a scenario file.
///
/// # Errors
/// If it is not a scenario file, or if it has no request that can be carried over.
pub fn read_scenario(text: &str, options: &WcatOptions) -> Result<WcatScenario, Problem> {
    let element = root(text, "scenario")?;
    let seconds = |name: &str| {
        let value = element.attribute(name).and_then(Attribute::text)?.parse::<u32>().ok()?;
        Some(u64::from(value) * SECOND)
    };
    let mut notes = Vec::new();
    let servers = match options.servers.as_slice() {
        [] => {
            let what = "the scenario file names no server: localhost is assumed";
            notes.push(Note::new(0, what, "change `base`, or read the settings file too"));
            &["localhost".to_string()]
        }
        servers => servers,
    };
    let mut converter = Converter { options, server: &servers[0], notes, noted: BTreeSet::new() };
    for attribute in &element.attributes {
        match attribute.name.as_str() {
            "name" | "warmup" | "duration" => {}
            "cooldown" => {
                let what = "`cooldown` is left out: no request starts after the measured time";
                converter.note(attribute.line, what, "");
            }
            "throttle" | "minbps" => {
                let what =
                    format!("`{}` is left out: the bandwidth of a user is not limited", attribute.name);
                converter.note(attribute.line, what, "");
            }
            name => converter.notes.push(unknown(attribute.line, name)),
        }
    }
    let mut defaults = Element::default();
    // Each with the defaults that stand before it.
    let mut elements: Vec<(&Element, Element)> = Vec::new();
    for child in &element.children {
        match child.name.as_str() {
            "default" => defaults = child.clone(),
            "transaction" => elements.push((child, defaults.clone())),
            "library" => {
                let dll = child.attribute("dll").and_then(Attribute::text).unwrap_or_default();
                let what = format!(
                    "the library `{}` is left out: code of a DLL is not executed",
                    dll.escape_debug()
                );
                converter.note(child.line, what, "write its values to a data file");
            }
            name => converter.notes.push(unknown(child.line, name)),
        }
    }
    let transactions = for_each_server(&mut converter, &elements, servers);
    if transactions.is_empty() {
        let what = "the file has no transaction with a request that can be carried over";
        return Err(Problem {
            line: element.line,
            ..Problem::new(what, "write `transaction { request { url = \"/\"; } }`")
        });
    }
    let mut notes = converter.notes;
    let file = ScenarioFile {
        base: Some(Text::new(format!("http://{}", servers[0]))),
        // WCAT expects 200 unless the file says otherwise.
        options: Options { expect_status: Statuses::parse("200"), ..Options::default() },
        transactions,
        ..ScenarioFile::default()
    };
    notes.sort_by_key(|note| note.number);
    let import = Import { file, notes };
    Ok(WcatScenario { import, warm_up: seconds("warmup"), duration: seconds("duration") })
}

/// The transactions once for each server; of several, with its name in theirs. The first server is the base of URLs.
fn for_each_server<'a>(
    converter: &mut Converter<'a>,
    elements: &[(&Element, Element)],
    servers: &'a [String],
) -> Vec<TransactionFile> {
    let mut all: Vec<TransactionFile> = Vec::new();
    let mut names = BTreeSet::new();
    for (at, server) in servers.iter().enumerate() {
        converter.server = server;
        // The notes are those of the first time.
        let notes = converter.notes.len();
        let mut own_names = BTreeSet::new();
        for (element, defaults) in elements {
            let Some(mut transaction) = converter.transaction(element, defaults, &mut own_names) else {
                continue;
            };
            if servers.len() > 1 {
                let name = format!("{}-{server}", transaction.name.text);
                transaction.name = Text::new(unique_name(&name, "transaction", &mut names));
            }
            let relative =
                transaction.requests.iter_mut().filter(|request| request.url.text.starts_with('/'));
            for request in relative.filter(|_| at > 0) {
                request.url = Text::new(format!("http://{server}{}", request.url.text));
            }
            all.push(transaction);
        }
        if at > 0 {
            converter.notes.truncate(notes);
        }
    }
    all
}

fn unknown(line: u32, name: &str) -> Note {
    Note::new(line, format!("`{}` is not known, and is left out", name.escape_debug()), "")
}

struct Converter<'a> {
    options: &'a WcatOptions,
    server: &'a str,
    notes: Vec<Note>,
    /// Notes that are made once for the whole file.
    noted: BTreeSet<&'static str>,
}

/// Why a value cannot be carried over.
type Unsupported = String;

impl Converter<'_> {
    fn note(&mut self, line: u32, what: impl Into<String>, help: &str) {
        self.notes.push(Note::new(line, what, help));
    }

    fn note_once(&mut self, line: u32, what: &'static str, help: &str) {
        if self.noted.insert(what) {
            self.note(line, what, help);
        }
    }

    fn transaction(
        &mut self,
        element: &Element,
        defaults: &Element,
        names: &mut BTreeSet<String>,
    ) -> Option<TransactionFile> {
        let id = element.attribute("id").and_then(Attribute::text).unwrap_or_default();
        let name = unique_name(id, "transaction", names);
        let weight =
            element.attribute("weight").and_then(Attribute::text).map_or(Some(1), |text| text.parse().ok());
        let weight = weight.unwrap_or_else(|| {
            self.note(element.line, "the weight is not a number: 1 is assumed", "");
            1
        });
        if weight == 0 {
            self.note(element.line, format!("the transaction `{name}` is left out: its weight is 0"), "");
            return None;
        }
        let mut of_requests = BTreeSet::new();
        let mut requests: Vec<RequestFile> = Vec::new();
        for child in &element.children {
            match child.name.as_str() {
                "request" => {
                    let with_defaults = merged(defaults, child);
                    match self.request(&with_defaults, &mut of_requests) {
                        Ok(request) => requests.push(request),
                        Err(why) => self.note(child.line, format!("the request is left out: {why}"), ""),
                    }
                }
                "sleep" => self.sleep(child, &mut requests),
                "close" => self.note(child.line, "`close` is left out: connections stay open", ""),
                "cookies" => {
                    let what = "`cookies` is left out: a user keeps its cookies";
                    self.note(child.line, what, "");
                }
                "branch" => {
                    let what = "`branch` is left out: the requests of a transaction follow one another";
                    self.note(child.line, what, "write a transaction with a weight for each way");
                }
                name => self.notes.push(unknown(child.line, name)),
            }
        }
        if let Some(last) = requests.last_mut()
            && last.options.think.take().is_some()
        {
            let what = format!("the last `sleep` of `{name}` is left out");
            self.note(element.line, what, "set `think` of the load: the time between transactions");
        }
        if requests.is_empty() {
            self.note(element.line, format!("the transaction `{name}` is left out: it has no request"), "");
            return None;
        }
        if let [only] = requests.as_mut_slice() {
            only.name = Text::default();
        }
        Some(TransactionFile {
            name: Text::new(name),
            weight: weight.min(WEIGHT_MAX),
            // A virtual client of WCAT continues after an error.
            on_failure: OnFailure::Continue,
            requests,
        })
    }

    /// A pause after the last request.
    fn sleep(&mut self, element: &Element, requests: &mut [RequestFile]) {
        let delay =
            element.attribute("delay").and_then(Attribute::text).and_then(|text| text.parse::<u32>().ok());
        match (delay, requests.last_mut()) {
            (Some(delay), Some(last)) => {
                let before = match last.options.think {
                    Some(Think::Constant(before)) => before,
                    _ => 0,
                };
                let think = before + u64::from(delay) * MILLISECOND;
                last.options.think = (think > 0).then_some(Think::Constant(think));
            }
            (Some(_), None) => {
                let what = "a `sleep` before the first request is left out";
                self.note(element.line, what, "set `think` of the load: the time between transactions");
            }
            (None, _) => self.note(element.line, "the delay of `sleep` is not a number of milliseconds", ""),
        }
    }

    fn request(
        &mut self,
        element: &Element,
        names: &mut BTreeSet<String>,
    ) -> Result<RequestFile, Unsupported> {
        let text = |name: &str| element.attribute(name).and_then(Attribute::text);
        let url = element.attribute("url").ok_or("it has no URL")?;
        let mut url = self.template(&url.value)?;
        if !url.starts_with('/') {
            url = format!("/{url}");
        }
        let method = text("verb").unwrap_or("GET").to_ascii_uppercase();
        let is_method =
            (1..=20).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_method || method == "CONNECT" {
            return Err(format!("`{}` is not a method", method.escape_debug()));
        }
        let url = self.with_origin(element, url)?;
        let body = match element.attribute("postdata") {
            None => BodyFile::Empty,
            Some(attribute) => match attribute.value.as_slice() {
                [Term::File(path)] => {
                    BodyFile::File { path: Text::new(path.replace('\\', "/")), is_template: false }
                }
                terms => BodyFile::Text(Text::new(self.template(terms)?)),
            },
        };
        let expect_status = match text("statuscode") {
            None | Some("200") => None,
            Some("0") => Statuses::parse("200..999"),
            Some(code) => {
                Some(Statuses::parse(code).ok_or(format!("`{}` is not a status code", code.escape_debug()))?)
            }
        };
        let header = self.header(element)?;
        self.note_attributes(element);
        let id = text("id").unwrap_or_default();
        Ok(RequestFile {
            name: Text::new(unique_name(id, "request", names)),
            method,
            url: Text::new(url),
            options: Options {
                header,
                expect_status,
                follow_redirects: is_true(text("redirect")).then_some(REDIRECTS),
                cookies: text("cookies").is_some_and(|text| !is_true(Some(text))).then_some(false),
                ..Options::default()
            },
            body,
            ..RequestFile::default()
        })
    }

    /// The URL of a request that goes to another scheme, server or port than the base.
    fn with_origin(&self, element: &Element, url: String) -> Result<String, Unsupported> {
        let text = |name: &str| element.attribute(name).and_then(Attribute::text);
        let is_secure = is_true(text("secure"));
        let server = text("server").filter(|server| !server.is_empty());
        let port = text("port")
            .map(|port| port.parse::<u16>().map_err(|_| "its port is not a number"))
            .transpose()?;
        if !is_secure && server.is_none() && port.is_none_or(|port| port == 80) {
            return Ok(url);
        }
        let default = self.server;
        let mut authority = escape(server.unwrap_or(default));
        if let Some(port) = port {
            // The server can have a port of its own.
            let host = authority
                .rsplit_once(':')
                .filter(|(_, port)| !port.contains(']'))
                .map_or(&*authority, |of| of.0);
            authority = format!("{host}:{port}");
        }
        let scheme = if is_secure { "https" } else { "http" };
        Ok(format!("{scheme}://{authority}{url}"))
    }

    fn header(&mut self, element: &Element) -> Result<Vec<Text>, Unsupported> {
        // Set from the server, the body, the jar and the connection.
        const DROPPED: [&str; 8] = [
            "host",
            "content-length",
            "cookie",
            "connection",
            "keep-alive",
            "expect",
            "te",
            "transfer-encoding",
        ];
        let mut fields: Vec<(String, String)> = Vec::new();
        for child in &element.children {
            if !matches!(child.name.as_str(), "setheader" | "addheader") {
                self.notes.push(unknown(child.line, &child.name));
                continue;
            }
            let name =
                child.attribute("name").and_then(Attribute::text).unwrap_or_default().trim().to_string();
            let value = match child.attribute("value") {
                Some(attribute) => self.template(&attribute.value)?,
                None => String::new(),
            };
            if DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped)) {
                continue;
            }
            let is_valid =
                crate::http::is_token(&name) && !value.contains(|c: char| c.is_control() && c != '\t');
            if !is_valid
                || name.eq_ignore_ascii_case("upgrade")
                || name.eq_ignore_ascii_case("proxy-connection")
            {
                self.note(child.line, "a header field that cannot be sent is left out", "");
                continue;
            }
            if child.name == "setheader" {
                fields.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            }
            fields.push((name, value));
        }
        let is_basic = |text: &str| text.eq_ignore_ascii_case("basic");
        if element.attribute("authentication").and_then(Attribute::text).is_some_and(is_basic) {
            let line = element.attribute("authentication").map_or(element.line, |attribute| attribute.line);
            self.note_once(
                line,
                "user name and password are replaced by ${env:WCAT_CREDENTIALS}",
                "export WCAT_CREDENTIALS=$(printf 'USER:PASSWORD' | base64)",
            );
            fields.push(("Authorization".into(), "Basic ${env:WCAT_CREDENTIALS}".into()));
        }
        Ok(fields.into_iter().map(|(name, value)| Text::new(format!("{name}: {value}"))).collect())
    }

    /// Notes on attributes of a request that are not carried over.
    fn note_attributes(&mut self, element: &Element) {
        if element.attribute("version").is_none() {
            self.note_once(element.line, HTTP_10, "");
        }
        for attribute in &element.attributes {
            let line = attribute.line;
            let value = attribute.text().unwrap_or_default().to_ascii_lowercase();
            match (attribute.name.as_str(), value.as_str()) {
                ("authentication", "basic") => {}
                ("authentication", _) => {
                    self.note(line, "NTLM is not supported: the request is sent without it", "")
                }
                ("protocol" | "algorithms" | "handshake", _) => self.note_once(
                    line,
                    "protocol, algorithms and handshake of TLS are not carried over: they are negotiated",
                    "",
                ),
                ("version", "http10") => {
                    self.note_once(line, HTTP_10, "");
                }
                ("close", "ka") => {}
                ("close", _) => self.note_once(line, "`close` is left out: connections stay open", ""),
                ("handler", _) => {
                    self.note(line, "`handler` is left out: code of a DLL is not executed", "write checks")
                }
                ("redirverb", "get") => {}
                ("redirverb", _) => {
                    self.note_once(line, "`redirverb` is left out: redirects follow RFC 9110", "")
                }
                (
                    "id" | "url" | "verb" | "postdata" | "statuscode" | "redirect" | "cookies" | "secure"
                    | "version" | "server" | "port" | "username" | "password",
                    _,
                ) => {}
                (name, _) => {
                    let note = unknown(line, name);
                    self.notes.push(note);
                }
            }
        }
    }

    /// A value as a template.
    fn template(&mut self, terms: &[Term]) -> Result<String, Unsupported> {
        let mut out = String::new();
        for term in terms {
            match term {
                Term::Text(text) | Term::Word(text) => out += &escape(text),
                Term::File(path) => {
                    return Err(format!("the file `{}` is only a part of a value", path.escape_debug()));
                }
                Term::Call(name, arguments) => out += &self.call(name, arguments)?,
            }
        }
        Ok(out)
    }

    fn call(&mut self, name: &str, arguments: &[Vec<Term>]) -> Result<String, Unsupported> {
        let count = |count: Option<u32>| count.unwrap_or(1).to_string();
        Ok(match name {
            "rand" => match self.numbers(arguments)?.as_slice() {
                [low, high] if low <= high => format!("${{random({low}, {high})}}"),
                _ => return Err("`rand` needs two numbers, the smaller one first".into()),
            },
            "add" | "subtract" | "multiply" | "divide" => match self.numbers(arguments)?.as_slice() {
                [a, b] => {
                    let result = match name {
                        "add" => a.checked_add(*b),
                        "subtract" => a.checked_sub(*b),
                        "multiply" => a.checked_mul(*b),
                        _ => a.checked_div(*b),
                    };
                    result.ok_or(format!("`{name}` has no result"))?.to_string()
                }
                _ => return Err(format!("`{name}` needs two numbers")),
            },
            "server" => escape(self.server),
            "clientcount" => count(self.options.clients),
            "vclientcount" => count(self.options.virtual_clients),
            // There is one client computer.
            "clientindex" => "0".into(),
            "clientname" => "plimsoll".into(),
            "vclientindex" => "${user}".into(),
            name => return Err(format!("the function `{}` is not supported", name.escape_debug())),
        })
    }

    /// Arguments that are constants.
    fn numbers(&mut self, arguments: &[Vec<Term>]) -> Result<Vec<i64>, Unsupported> {
        let mut numbers = Vec::new();
        for argument in arguments {
            let text = self.template(argument)?;
            numbers
                .push(text.trim().parse().map_err(|_| "an argument of a function is not a constant number")?);
        }
        Ok(numbers)
    }
}

fn is_true(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1")
}

/// A request with the attributes and header fields of the defaults that it does not set.
fn merged(defaults: &Element, request: &Element) -> Element {
    let mut element = request.clone();
    let missing = defaults.attributes.iter().filter(|attribute| request.attribute(&attribute.name).is_none());
    element.attributes.extend(missing.cloned());
    element.children = defaults.children.iter().chain(&request.children).cloned().collect();
    element
}

/// A valid name that no other has.
fn unique_name(id: &str, default: &str, names: &mut BTreeSet<String>) -> String {
    let mut name: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .take(NAME_LENGTH_MAX - 6)
        .collect();
    name = name.trim_matches('-').to_string();
    if name.is_empty() {
        name = default.into();
    }
    let mut unique = name.clone();
    let mut number = 1;
    while !names.insert(unique.clone()) {
        number += 1;
        unique = format!("{name}-{number}");
    }
    unique
}

#[cfg(test)]
mod tests;
