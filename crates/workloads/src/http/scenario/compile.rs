//! Compiles a scenario file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use engine::inputs::Inputs;
use model::random::Random;
use model::{Problem, Problems};

use super::check::{Check, Condition, Expected};
use super::file::{
    self, BodyFile, CheckFile, Options, Query, RequestFile, ScenarioFile, Text, TransactionFile, hidden,
    is_name,
};
use super::find::{self, Finder};
use super::json_path::JsonPath;
use super::read::{Mistake, Reader};
use super::xpath::XPath;
use super::{Body, FILE_BYTES_MAX, Fault, OriginOf, REQUESTS_MAX, Request, Scenario, Transaction};
use crate::http::url::{self, Origin, Url};
use crate::template::data::{DATA_BYTES_MAX, DataSet};
use crate::template::{FindSecret, Names, Template, Use, Values, Variable, names_in};

/// Most servers of a scenario.
const ORIGINS_MAX: usize = 10_000;

/// The field User-Agent of requests without one.
const AGENT: &str = concat!("User-Agent: plimsoll/", env!("CARGO_PKG_VERSION"), "\r\n");

/// Reads and compiles a file.
pub(super) fn compile(
    text: &str,
    file: &str,
    (folder, inputs): (&Path, &Inputs),
    find_secret: &mut FindSecret<'_>,
) -> Result<Scenario, Problems> {
    let mut reader = Reader::default();
    let written = reader.file(text);
    let mut compiler = Compiler {
        reader,
        text,
        folder,
        inputs,
        find_secret,
        data: Vec::new(),
        variables: Vec::new(),
        unknown: BTreeSet::new(),
        origins: Vec::new(),
        known_origins: HashMap::new(),
        base: None,
        failures: Vec::new(),
        files: BTreeMap::new(),
    };
    let scenario = written.map(|written| compiler.scenario(&written));
    or_problems(scenario, compiler.reader, text, file)
}

impl ScenarioFile {
    /// Reads a scenario file without compiling it, for example to write it without secrets. `file` is its name in
    /// messages.
    ///
    /// # Errors
    /// All mistakes of its form, without secrets.
    pub fn parse(text: &str, file: &str) -> Result<ScenarioFile, Problems> {
        let mut reader = Reader::default();
        let written = reader.file(text);
        or_problems(written, reader, text, file)
    }
}

/// The value, or all mistakes.
fn or_problems<T>(value: Option<T>, reader: Reader, text: &str, file: &str) -> Result<T, Problems> {
    let mut problems = Problems::new();
    for Mistake { span, what, help } in reader.mistakes {
        problems.push(Problem::at_span(file, text, span, what, help));
    }
    problems.sort();
    match value {
        Some(value) => problems.or(value),
        None => Err(problems),
    }
}

struct Compiler<'a, 'b> {
    reader: Reader,
    text: &'a str,
    folder: &'a Path,
    /// Where its files are.
    inputs: &'a Inputs,
    find_secret: &'a mut FindSecret<'b>,
    data: Vec<DataSet>,
    variables: Vec<Variable>,
    /// Variables that have no value yet where the present request is.
    unknown: BTreeSet<String>,
    origins: Vec<Origin>,
    known_origins: HashMap<Origin, u32>,
    base: Option<Url>,
    failures: Vec<String>,
    /// Files of bodies, each read once.
    files: BTreeMap<String, Option<Arc<[u8]>>>,
}

impl Compiler<'_, '_> {
    fn wrong(&mut self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.reader.wrong(span, what, help);
    }

    fn scenario(&mut self, file: &ScenarioFile) -> Scenario {
        for (name, data) in &file.data {
            self.read_data(name, data);
        }
        self.read_variables(file);
        let base_is_faulty = file.base.is_some();
        self.base = file.base.as_ref().and_then(|base| self.server(base, "the base"));
        let base_is_faulty = base_is_faulty && self.base.is_none();
        let base = self.base.as_ref().map(|base| base.origin.clone());
        let base = base.map(|origin| self.intern(origin));
        for server in &file.servers {
            if let Some(url) = self.server(server, "a server") {
                self.intern(url.origin);
            }
        }
        self.check_names(file);
        let (mut transactions, mut operations, mut weight) = (Vec::new(), Vec::new(), 0);
        for (at, transaction) in file.transactions.iter().enumerate() {
            weight += u64::from(transaction.weight);
            self.unknown = unset_at_begin(file, at);
            let mut requests = Vec::new();
            for (number, request) in transaction.requests.iter().enumerate() {
                let is_last = number + 1 == transaction.requests.len();
                let name = operation_name(transaction, request);
                let context = Context { options: &file.options, base_is_faulty, is_last, name: &name };
                requests.extend(self.request(request, &context, operations.len() as u16));
                operations.push(name);
                for extraction in &request.extractions {
                    self.unknown.remove(&extraction.variable.text);
                }
            }
            let whole = (transaction.requests.len() > 1).then_some(operations.len() as u16);
            operations.extend(whole.map(|_| transaction.name.text.clone()));
            let data: BTreeSet<u32> = requests.iter().flat_map(data_used).collect();
            let data = data.into_iter().collect();
            transactions.push(Transaction {
                weight_to: weight,
                on_failure: transaction.on_failure,
                requests,
                whole,
                data,
            });
        }
        Scenario {
            transactions,
            weight,
            operations,
            failures: std::mem::take(&mut self.failures),
            origins: std::mem::take(&mut self.origins),
            base,
            data: std::mem::take(&mut self.data),
            variables: std::mem::take(&mut self.variables),
        }
    }

    fn read_data(&mut self, name: &str, data: &file::DataFile) {
        let path = self.folder.join(&data.file.text);
        let shown = &data.file.text;
        let read = match self.inputs.read(&path, DATA_BYTES_MAX) {
            Ok(content) => {
                DataSet::read(name, &content, data.order, data.at_end).map_err(|(line, what, help)| {
                    let place = if line == 0 { String::new() } else { format!(" line {line}:") };
                    (format!("`{}`{place} {what}", shown.escape_debug()), help)
                })
            }
            Err(error) => {
                let help = "write a path relative to the folder of this file";
                Err((format!("`{}` cannot be read: {error}", shown.escape_debug()), help.to_string()))
            }
        };
        match read {
            Ok(data) => self.data.push(data),
            Err((what, help)) => {
                self.wrong(data.file.span(), what, help);
                self.reader.faulty.insert(name.into());
            }
        }
    }

    fn read_variables(&mut self, file: &ScenarioFile) {
        let extracted: BTreeMap<&str, &Text> = file
            .transactions
            .iter()
            .flat_map(|transaction| &transaction.requests)
            .flat_map(|request| &request.extractions)
            .map(|extraction| (extraction.variable.text.as_str(), &extraction.variable))
            .collect();
        for (name, text) in &file.variables {
            let initial = self.secret_text(text);
            let is_extracted = extracted.contains_key(name.as_str());
            if initial.is_none() {
                self.reader.faulty.insert(name.clone());
            }
            self.variables.push(Variable { name: name.clone(), initial, is_extracted });
        }
        for name in extracted.keys().filter(|name| !file.variables.contains_key(**name)) {
            self.variables.push(Variable { name: (*name).into(), initial: None, is_extracted: true });
        }
        for (name, data) in &file.data {
            let variable = file.variables.get(name).or(extracted.get(name.as_str()).copied());
            if variable.is_some() {
                let what = format!("`{name}` is the name of a data set and of a variable");
                self.wrong(data.place.0.clone(), what, "rename one of them");
            }
        }
    }

    /// A text that contains no values but secrets.
    fn secret_text(&mut self, text: &Text) -> Option<Vec<u8>> {
        let template = self.template(&text.text, text.span(), true)?;
        template.as_literal().map(<[u8]>::to_vec)
    }

    /// `http://HOST:PORT` without a path.
    fn server(&mut self, text: &Text, noun: &str) -> Option<Url> {
        let url = String::from_utf8_lossy(&self.secret_text(text)?).into_owned();
        match Url::parse(&url) {
            Ok(url) if url.target == "/" => Some(url),
            Ok(_) => {
                let what = format!("{noun} has a path or a query");
                self.wrong(text.span(), what, "write only http://HOST:PORT, and the path in each URL");
                None
            }
            Err((what, help)) => {
                self.wrong(text.span(), what, help);
                None
            }
        }
    }

    /// Reports names that are missing, invalid or used twice.
    fn check_names(&mut self, file: &ScenarioFile) {
        let help = "use 1 to 40 letters, digits, `_` and `-`";
        let mut known = BTreeSet::new();
        let mut requests = 0;
        for transaction in &file.transactions {
            let name = &transaction.name;
            if !is_name(&name.text) {
                let what = format!("`{}` is not a valid name of a transaction", name.text.escape_debug());
                self.wrong(name.span(), what, help);
            } else if !known.insert(&name.text) {
                self.wrong(
                    name.span(),
                    format!("a second transaction `{}`", name.text),
                    "rename one of them",
                );
            }
            let mut of_requests = BTreeSet::new();
            for request in &transaction.requests {
                requests += 1;
                let name = &request.name;
                if name.text.is_empty() {
                    if transaction.requests.len() > 1 {
                        let what = "the request has no name";
                        self.wrong(
                            request.place.0.clone(),
                            what,
                            "in a transaction of several requests, write name = \"NAME\"",
                        );
                    }
                } else if !is_name(&name.text) {
                    let what = format!("`{}` is not a valid name of a request", name.text.escape_debug());
                    self.wrong(name.span(), what, help);
                } else if !of_requests.insert(&name.text) {
                    let what = format!(
                        "a second request `{}` of `{}`",
                        name.text,
                        transaction.name.text.escape_debug()
                    );
                    self.wrong(name.span(), what, "rename one of them");
                }
            }
        }
        if requests > REQUESTS_MAX {
            let what = format!("{requests} requests are too many: at most {REQUESTS_MAX}");
            self.wrong(0..0, what, "split the scenario");
        }
    }

    /// Compiles a text; reports its mistakes.
    fn template(&mut self, text: &str, span: Range<usize>, only_secrets: bool) -> Option<Template> {
        let mut names = Names {
            data: &self.data,
            variables: &self.variables,
            faulty: &self.reader.faulty,
            find_secret: &mut *self.find_secret,
            only_secrets,
        };
        let compiled = Template::compile(text, &mut names);
        for name in names_in(text).into_iter().filter(|name| self.unknown.contains(*name)) {
            let what = format!("the variable `{name}` is used before a request sets it");
            let help = format!("extract it in an earlier request, or write {name} = \"...\" in [variables]");
            let span = part_span(self.text, &span, name);
            self.reader.wrong(span, what, help);
        }
        match compiled {
            Ok(template) => Some(template),
            Err(mistakes) => {
                for mistake in mistakes {
                    let span = part_span(self.text, &span, &mistake.part);
                    self.wrong(span, mistake.what, mistake.help);
                }
                None
            }
        }
    }

    fn request(&mut self, request: &RequestFile, context: &Context<'_>, operation: u16) -> Option<Request> {
        let (own, common) = (&request.options, context.options);
        let failure = self.failures.len() as u32;
        self.failures.extend(Fault::ALL.map(|fault| format!("{}: {}", context.name, fault.words())));
        let cookies = own.cookies.or(common.cookies).unwrap_or(true);
        let url = self.url(request, context);
        let fields = self.fields(own, common, cookies);
        let body = self.body(&request.body);
        let mut checks = Vec::new();
        for check in &request.checks {
            self.failures.push(format!("{}: check {}", context.name, describe_check(check)));
            checks.extend(self.check(check));
        }
        let mut extractions = Vec::new();
        for extraction in &request.extractions {
            let name = &extraction.variable.text;
            let query = describe_query(&extraction.query);
            self.failures.push(format!("{}: no value for the variable `{name}` ({query})", context.name));
            let slot = self.variables.iter().position(|variable| variable.name == *name);
            let finder = self.finder(&extraction.query);
            extractions.extend(slot.map(|slot| slot as u32).zip(finder));
        }
        if context.is_last && own.think.is_some() {
            let what = "`think` of the last request of a transaction has no effect";
            self.wrong(
                request.place.0.clone(),
                what,
                "remove it; `think` of the load is the time between transactions",
            );
        }
        let needs_body =
            checks.iter().any(Check::needs_body) || extractions.iter().any(|(_, finder)| finder.needs_body());
        if needs_body {
            self.check_encoding(own, common);
        }
        let (origin, target) = url?;
        let (fields, has_host) = fields?;
        let literal_target = match origin {
            OriginOf::InTarget => None,
            _ => target.as_literal().map(|target| String::from_utf8_lossy(target).into_owned()),
        };
        let mut compiled = Request {
            operation,
            method: request.method.clone(),
            origin,
            target,
            literal_target,
            fields,
            has_host,
            body: body?,
            head: None,
            timeout: own.timeout.or(common.timeout),
            expect_status: own.expect_status.clone().or(common.expect_status.clone()).unwrap_or_default(),
            redirects_max: own.follow_redirects.or(common.follow_redirects).unwrap_or(0),
            think: own.think.or(common.think),
            cookies,
            max_time: request.max_time,
            checks,
            extractions,
            failure,
            wants_body: needs_body,
        };
        compiled.head = static_head(&compiled, &self.origins);
        Some(compiled)
    }

    /// Compressed bodies cannot be checked.
    fn check_encoding(&mut self, own: &Options, common: &Options) {
        let is_encoding = |field: &&Text| {
            let (name, value) = field.text.split_once(':').unwrap_or_default();
            name.trim().eq_ignore_ascii_case("accept-encoding") && value.trim() != "identity"
        };
        if let Some(field) = own.header.iter().chain(&common.header).find(is_encoding) {
            let what = "the server may compress responses, and checks and extractions read uncompressed text";
            self.wrong(field.span(), what, "remove Accept-Encoding from requests with checks or extractions");
        }
    }

    fn url(&mut self, request: &RequestFile, context: &Context<'_>) -> Option<(OriginOf, Template)> {
        let url = &request.url;
        if url.text.is_empty() {
            // Its absence is reported.
            if !url.span().is_empty() {
                self.wrong(url.span(), "the URL is empty", "url = \"/PATH\"");
            }
            return None;
        }
        let text = without_fragment(&url.text);
        let (origin, target) = match split_url(text) {
            Some((origin, rest)) => (Some(origin), rest),
            None => (None, text),
        };
        let slash = if target.starts_with('/') || origin.is_none() { "" } else { "/" };
        let target = self.template(&format!("{slash}{target}"), url.span(), false);
        let origin = match origin {
            Some(origin) => self.origin(origin, url)?,
            None if text.starts_with('/') || text.starts_with("${") => {
                let Some(base) = self.base.as_ref().map(|base| base.origin.clone()) else {
                    if !context.base_is_faulty {
                        let what = "the URL is relative, and there is no base";
                        self.wrong(
                            url.span(),
                            what,
                            "write base = \"http://HOST:PORT\" at the top of the file",
                        );
                    }
                    return None;
                };
                match text.starts_with('/') {
                    true => OriginOf::Known(self.intern(base)),
                    false => OriginOf::InTarget,
                }
            }
            None => {
                let what = "the URL does not begin with http://, https://, / or ${";
                self.wrong(url.span(), what, "such as url = \"/PATH\"");
                return None;
            }
        };
        let mut target = target?;
        target.encode_literals();
        Some((origin, target))
    }

    /// The origin of `SCHEME://AUTHORITY`, or those of the rows of a data set.
    fn origin(&mut self, text: &str, url: &Text) -> Option<OriginOf> {
        let template = self.template(text, url.span(), false)?;
        let parsed = |bytes: &[u8]| url::parse_origin(&String::from_utf8_lossy(bytes));
        if let Some(literal) = template.as_literal() {
            return match parsed(literal) {
                Ok(origin) => Some(OriginOf::Known(self.intern(origin))),
                Err((what, help)) => {
                    self.wrong(url.span(), what, help);
                    None
                }
            };
        }
        let used: BTreeSet<u32> = template.data_used().collect();
        let (true, Some(data), 1) = (template.is_of_data(), used.first().copied(), used.len()) else {
            let what = "host and port of a URL can be constants or values of one data set only";
            let help = "so that every server is known before the load; write the servers into a data file";
            self.wrong(url.span(), what, help);
            return None;
        };
        let mut found: Vec<u32> = Vec::new();
        let mut rows = vec![0; self.data.len()];
        let set = self.data.get(data as usize)?;
        let mut origins = Vec::new();
        for row in 0..set.rows() as u32 {
            rows[data as usize] = row;
            let mut values = Values {
                number: 0,
                user: 0,
                random: Random::new(0),
                data: &self.data,
                rows: &rows,
                variables: &[],
            };
            let mut bytes = Vec::new();
            let _ = template.render(&mut values, Use::Body, &mut bytes);
            origins.push(parsed(&bytes));
        }
        for (row, origin) in origins.into_iter().enumerate() {
            match origin {
                Ok(origin) => found.push(self.intern(origin)),
                Err((what, help)) => {
                    self.wrong(url.span(), format!("row {} of the data: {what}", row + 1), help);
                    return None;
                }
            }
            if self.origins.len() > ORIGINS_MAX {
                self.wrong(url.span(), format!("more than {ORIGINS_MAX} servers"), "use fewer servers");
                return None;
            }
        }
        Some(OriginOf::Row(data, found))
    }

    /// The index of an origin.
    fn intern(&mut self, origin: Origin) -> u32 {
        if let Some(known) = self.known_origins.get(&origin) {
            return *known;
        }
        let index = self.origins.len() as u32;
        self.known_origins.insert(origin.clone(), index);
        self.origins.push(origin);
        index
    }

    /// The lines of the header, and whether they have a Host.
    fn fields(&mut self, own: &Options, common: &Options, cookies: bool) -> Option<(Template, bool)> {
        let mut lines = Template::default();
        let mut names: Vec<String> = Vec::new();
        let mut is_valid = true;
        let own_names: Vec<&str> = own
            .header
            .iter()
            .filter_map(|field| field.text.split_once(':'))
            .map(|(name, _)| name.trim())
            .collect();
        let replaced = |field: &&Text| {
            let name = field.text.split(':').next().unwrap_or_default().trim();
            !own_names.iter().any(|own| own.eq_ignore_ascii_case(name))
        };
        for field in common.header.iter().filter(replaced).chain(&own.header) {
            let Some((name, value)) = self.field(field, cookies) else {
                is_valid = false;
                continue;
            };
            lines.push_literal(format!("{name}: ").as_bytes());
            lines.push(value);
            lines.push_literal(b"\r\n");
            names.push(name.to_ascii_lowercase());
        }
        let has = |name: &str| names.iter().any(|known| known == name);
        let mut defaults = String::new();
        if !has("user-agent") {
            defaults += AGENT;
        }
        if !has("accept") {
            defaults += "Accept: */*\r\n";
        }
        let mut fields = Template::literal(defaults);
        fields.push(lines);
        is_valid.then_some((fields, has("host")))
    }

    fn field<'t>(&mut self, field: &'t Text, cookies: bool) -> Option<(&'t str, Template)> {
        let Some((name, value)) = field.text.split_once(':') else {
            self.wrong(field.span(), "the header field has no colon", "write \"NAME: VALUE\"");
            return None;
        };
        let name = name.trim();
        if !crate::http::is_token(name) {
            self.wrong(
                field.span(),
                "the name of the header field is not valid",
                "a name has letters, digits and hyphens",
            );
            return None;
        }
        let ours = [
            ("connection", "it belongs to the connection"),
            ("keep-alive", "it belongs to the connection"),
            ("proxy-connection", "it belongs to the connection"),
            ("te", "it belongs to the connection"),
            ("content-length", "Plimsoll sets it from the body"),
            ("transfer-encoding", "Plimsoll sends the body with its length"),
            ("expect", "Plimsoll sends the body without waiting"),
            ("upgrade", "Plimsoll sends HTTP only"),
        ];
        if let Some((_, help)) = ours.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
            self.wrong(field.span(), format!("the header field {name} cannot be set"), *help);
            return None;
        }
        if cookies && name.eq_ignore_ascii_case("cookie") {
            let help = "remove it, or write cookies = false";
            self.wrong(field.span(), "the header field Cookie is set from the cookies of the user", help);
            return None;
        }
        let template = self.template(value.trim(), field.span(), false)?;
        if template.has_control() {
            self.wrong(
                field.span(),
                "the header field contains a control character",
                "write its value on one line",
            );
            return None;
        }
        Some((name, template))
    }

    fn body(&mut self, body: &BodyFile) -> Option<Body> {
        let template = match body {
            BodyFile::Empty => return Some(Body::Bytes(Arc::from([]))),
            BodyFile::Text(text) => self.template(&text.text, text.span(), false)?,
            BodyFile::Base64(text) => {
                let written: String = text.text.split_whitespace().collect();
                return match base64::engine::general_purpose::STANDARD.decode(written) {
                    Ok(bytes) => Some(Body::Bytes(bytes.into())),
                    Err(_) => {
                        self.wrong(text.span(), "`body_base64` is not Base64", "write text in `body`");
                        None
                    }
                };
            }
            BodyFile::File { path, is_template } => {
                let bytes = self.body_file(path)?;
                if !is_template {
                    return Some(Body::Bytes(bytes));
                }
                let Ok(text) = std::str::from_utf8(&bytes) else {
                    let what = format!("`{}` is not text in UTF-8", path.text.escape_debug());
                    self.wrong(path.span(), what, "remove `body_template`, or save the file as UTF-8");
                    return None;
                };
                self.template(text, path.span(), false)?
            }
        };
        Some(match template.as_literal() {
            Some(bytes) => Body::Bytes(bytes.into()),
            None => Body::Template(template),
        })
    }

    /// The content of a file.
    fn body_file(&mut self, path: &Text) -> Option<Arc<[u8]>> {
        if let Some(known) = self.files.get(&path.text) {
            return known.clone();
        }
        let content = match self.inputs.read(&self.folder.join(&path.text), FILE_BYTES_MAX) {
            Ok(content) => Some(content.as_slice().into()),
            Err(error) => {
                let what = format!("`{}` cannot be read: {error}", path.text.escape_debug());
                self.wrong(path.span(), what, "write a path relative to the folder of this file");
                None
            }
        };
        self.files.insert(path.text.clone(), content.clone());
        content
    }

    fn check(&mut self, check: &CheckFile) -> Option<Check> {
        let condition = match &check.condition {
            file::Condition::Status(statuses) => Condition::Status(statuses.clone()),
            file::Condition::Size(sizes) => Condition::Size(sizes.clone()),
            file::Condition::Contains(text) => Condition::Contains(self.expected(text)?),
            file::Condition::Value(query, expected) => {
                let finder = self.finder(query);
                let expected = match expected {
                    file::Expected::Anything => Expected::Anything,
                    file::Expected::Equals(text) => Expected::Equals(self.expected(text)?),
                    file::Expected::Contains(text) => Expected::Contains(self.expected(text)?),
                    file::Expected::Matches(text) => Expected::Matches(self.regex(text)?),
                };
                Condition::Value(finder?, expected)
            }
        };
        Some(Check { condition, is_absent: check.is_absent })
    }

    fn expected(&mut self, text: &Text) -> Option<Template> {
        self.template(&text.text, text.span(), false)
    }

    fn finder(&mut self, query: &Query) -> Option<Finder> {
        Some(match query {
            Query::Regex(text) => Finder::Regex(self.regex(text)?),
            Query::XPath(text) => Finder::XPath(self.query(text, "an XPath", XPath::parse)?),
            Query::JsonPath(text) => Finder::JsonPath(self.query(text, "a JSON path", JsonPath::parse)?),
            Query::Header(name, regex) => {
                Finder::Header(name.text.clone(), self.optional_regex(regex.as_ref())?)
            }
            Query::Cookie(name, regex) => {
                Finder::Cookie(name.text.clone(), self.optional_regex(regex.as_ref())?)
            }
        })
    }

    fn optional_regex(&mut self, text: Option<&Text>) -> Option<Option<regex::bytes::Regex>> {
        match text {
            None => Some(None),
            Some(text) => self.regex(text).map(Some),
        }
    }

    fn regex(&mut self, text: &Text) -> Option<regex::bytes::Regex> {
        self.query(text, "a regular expression", find::regex)
    }

    fn query<T>(&mut self, text: &Text, noun: &str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(&text.text) {
            Ok(query) => Some(query),
            Err(error) => {
                let what = format!("`{}` is not {noun}: {error}", hidden(&text.text).escape_debug());
                self.wrong(text.span(), what, "docs/formats/scenario.md has examples");
                None
            }
        }
    }
}

/// What a request gets from its surroundings.
struct Context<'a> {
    options: &'a Options,
    base_is_faulty: bool,
    is_last: bool,
    /// Its operation.
    name: &'a str,
}

fn operation_name(transaction: &TransactionFile, request: &RequestFile) -> String {
    match request.name.text.is_empty() {
        true => transaction.name.text.clone(),
        false => format!("{}:{}", transaction.name.text, request.name.text),
    }
}

/// The variables that certainly have no value when the first transaction of a user is the one at this index: those
/// without an initial value that no other transaction sets.
fn unset_at_begin(file: &ScenarioFile, at: usize) -> BTreeSet<String> {
    let extracted = |transaction: &TransactionFile| -> BTreeSet<String> {
        let extractions = transaction.requests.iter().flat_map(|request| &request.extractions);
        extractions.map(|extraction| extraction.variable.text.clone()).collect()
    };
    let mut own = file.transactions.get(at).map(extracted).unwrap_or_default();
    let others = file.transactions.iter().enumerate().filter(|(other, _)| *other != at);
    let elsewhere: BTreeSet<String> = others.flat_map(|(_, transaction)| extracted(transaction)).collect();
    own.retain(|name| !elsewhere.contains(name) && !file.variables.contains_key(name));
    own
}

/// The data sets that a request uses.
fn data_used(request: &Request) -> Vec<u32> {
    let mut used: Vec<u32> = request.target.data_used().chain(request.fields.data_used()).collect();
    if let Body::Template(template) = &request.body {
        used.extend(template.data_used());
    }
    if let OriginOf::Row(data, _) = request.origin {
        used.push(data);
    }
    for check in &request.checks {
        match &check.condition {
            Condition::Contains(template)
            | Condition::Value(_, Expected::Equals(template) | Expected::Contains(template)) => {
                used.extend(template.data_used());
            }
            _ => {}
        }
    }
    used
}

/// The head of a request without templates.
fn static_head(request: &Request, origins: &[Origin]) -> Option<Arc<[u8]>> {
    let OriginOf::Known(origin) = request.origin else { return None };
    let (target, fields) = (request.literal_target.as_ref()?, request.fields.as_literal()?);
    let Body::Bytes(body) = &request.body else { return None };
    let host = if request.has_host { None } else { origins.get(origin as usize) };
    let mut head = Vec::new();
    super::session::write_line(&mut head, &request.method, target.as_bytes(), host);
    head.extend_from_slice(fields);
    super::session::write_length(&mut head, &request.method, body.len());
    head.extend_from_slice(b"\r\n");
    Some(head.into())
}

/// The place of a part of a text, which may be written differently.
fn part_span(text: &str, span: &Range<usize>, part: &str) -> Range<usize> {
    match text.get(span.clone()).and_then(|written| written.find(part)) {
        Some(at) => span.start + at..span.start + at + part.len(),
        None => span.clone(),
    }
}

/// The length of a text up to the first of these characters outside of `${...}`.
fn outside(text: &str, ends: &[char]) -> usize {
    let mut is_inside = false;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '{' if before == '$' => is_inside = true,
            '}' => is_inside = false,
            c if !is_inside && ends.contains(&c) => return at,
            _ => {}
        }
        before = c;
    }
    text.len()
}

fn without_fragment(text: &str) -> &str {
    text.get(..outside(text, &['#'])).unwrap_or(text)
}

/// `SCHEME://AUTHORITY` and the rest of an absolute URL.
fn split_url(text: &str) -> Option<(&str, &str)> {
    if !url::has_scheme(text) {
        return None;
    }
    let authority = text.find("://").map_or(text.len(), |at| at + 3);
    let rest = text.get(authority..).unwrap_or_default();
    text.split_at_checked(authority + outside(rest, &['/', '?']))
}

/// A check in words, without secrets.
fn describe_check(check: &CheckFile) -> String {
    if !check.name.is_empty() {
        return format!("`{}`", hidden(&check.name).escape_debug());
    }
    let shown = |text: &Text| format!("`{}`", hidden(&text.text).escape_debug());
    let condition = match &check.condition {
        file::Condition::Status(statuses) => format!("status {statuses}"),
        file::Condition::Size(sizes) => format!("size {sizes}"),
        file::Condition::Contains(text) => format!("contains {}", shown(text)),
        file::Condition::Value(query, expected) => {
            let query = describe_query(query);
            match expected {
                file::Expected::Anything => query,
                file::Expected::Equals(text) => format!("{query} equals {}", shown(text)),
                file::Expected::Contains(text) => format!("{query} contains {}", shown(text)),
                file::Expected::Matches(text) => format!("{query} matches {}", shown(text)),
            }
        }
    };
    if check.is_absent { format!("absent: {condition}") } else { condition }
}

fn describe_query(query: &Query) -> String {
    let (word, text) = match query {
        Query::Regex(text) => ("regex", text),
        Query::XPath(text) => ("xpath", text),
        Query::JsonPath(text) => ("json_path", text),
        Query::Header(name, _) => ("header", name),
        Query::Cookie(name, _) => ("cookie", name),
    };
    format!("{word} `{}`", hidden(&text.text).escape_debug())
}
