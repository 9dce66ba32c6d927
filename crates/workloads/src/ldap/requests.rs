//! What is sent: requests as templates, and their values for an operation.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use engine::workload::{LoadError, Operation};
use ldap::message::{self, Attribute, Change, DerefAliases, FilterBytes, List, Scope, SearchRequest, Value};
use ldap::template::{RequestWriter, SLOTS_MAX, Template, is_slot, slot};
use ldap::{Dn, Filter, ModifyOperation, TextError, ldif};
use model::Choice as _;
use model::random::{Random, mix};

use super::records::Records;
use super::settings::Kind;
use crate::template::data::DataSet;
use crate::template::{self, Names, Slot, TemplatePart, Values};

/// The largest LDIF file with a record.
pub(super) const LDIF_BYTES_MAX: u64 = 16 << 20;

/// Streams of random numbers of a seed, one for each purpose.
const TEMPLATE: u64 = 0x6c64_6170;
const DATA: u64 = 0x6461_7461;
const CHOICE: u64 = 0x6368_6f69;

/// A mistake in a text of a request: which text, the error and the advice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mistake {
    pub(super) of: &'static str,
    pub(super) what: String,
    pub(super) help: String,
}

impl Mistake {
    pub(super) fn new(of: &'static str, what: impl Into<String>, help: impl Into<String>) -> Mistake {
        Mistake { of, what: what.into(), help: help.into() }
    }
}

/// The texts of a search.
#[derive(Clone, Debug)]
pub(super) struct SearchText {
    pub(super) base: String,
    pub(super) scope: Scope,
    pub(super) filter: String,
    pub(super) attributes: Vec<String>,
    pub(super) size_limit: u32,
}

/// A request whose values differ.
pub(super) struct Request {
    pub(super) template: Template,
    /// The tag of the response that ends it.
    pub(super) response: u8,
}

/// What an operation does.
pub(super) struct Requests {
    /// Its name in the results.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// It is a search whose base is the server's.
    pub(super) has_no_base: bool,
    /// The requests of an operation, in order: two of a login.
    pub(super) steps: Vec<Request>,
    values: Vec<Slot>,
    data: Arc<Vec<DataSet>>,
    /// The data sets that are used.
    used: Vec<u32>,
    /// The file whose entries are added, each by one operation.
    pub(super) records: Option<PathBuf>,
}

impl Requests {
    /// Adds the entries of a file, which is known later.
    pub(super) fn of_records(name: &str, file: Option<PathBuf>) -> Requests {
        let empty = message::Operation::AddRequest { dn: "", attributes: List::from(&[]) };
        let response = empty.response_tag().unwrap_or(0);
        // For its response: what is sent is in the file.
        let steps = Template::new(&empty, &[]).map(|template| Request { template, response });
        Requests {
            name: name.into(),
            kind: Kind::Add,
            has_no_base: false,
            steps: steps.into_iter().collect(),
            values: Vec::new(),
            data: Arc::default(),
            used: Vec::new(),
            records: file,
        }
    }
}

/// The operations of a load.
pub(super) struct Mix {
    /// At least one.
    pub(super) all: Vec<Requests>,
    /// The sum of the weights up to each.
    weights_to: Vec<u64>,
    /// The file that they are from, without passwords.
    pub(super) text: Option<String>,
}

impl Mix {
    pub(super) fn single(requests: Requests) -> Mix {
        Mix { all: vec![requests], weights_to: vec![1], text: None }
    }

    pub(super) fn of_file(weighted: Vec<(u64, Requests)>, text: String) -> Mix {
        let mut sum = 0;
        let (weights_to, all) = weighted
            .into_iter()
            .map(|(weight, requests)| {
                sum += weight;
                (sum, requests)
            })
            .unzip();
        Mix { all, weights_to, text: Some(text) }
    }

    /// Whether there is an operation of such a kind.
    pub(super) fn has(&self, is_meant: impl Fn(Kind) -> bool) -> bool {
        self.all.iter().any(|requests| is_meant(requests.kind))
    }

    /// The operation with this number.
    fn choose(&self, seed: u64, number: u64) -> usize {
        let Some(sum) = self.weights_to.last().filter(|_| self.all.len() > 1) else { return 0 };
        let chosen = Random::stream(seed ^ CHOICE, number).below_u64((*sum).max(1));
        self.weights_to.partition_point(|weight_to| *weight_to <= chosen)
    }
}

/// Compiles the texts of an operation.
pub(super) struct Compiler {
    requests: Requests,
}

impl Compiler {
    pub(super) fn new(data: Arc<Vec<DataSet>>) -> Compiler {
        let (steps, values, used) = (Vec::new(), Vec::new(), Vec::new());
        let (name, kind) = (String::new(), Kind::default());
        Compiler {
            requests: Requests { name, kind, has_no_base: false, steps, values, data, used, records: None },
        }
    }

    pub(super) fn into_requests(mut self, has_no_base: bool) -> Requests {
        self.requests.has_no_base = has_no_base;
        let used: BTreeSet<u32> = self.requests.values.iter().filter_map(Slot::data_used).collect();
        self.requests.used = used.into_iter().collect();
        self.requests.name = self.requests.kind.word().to_string();
        self.requests
    }

    /// A text with slots for its values.
    fn text(&mut self, of: &'static str, text: &str) -> Result<String, Vec<Mistake>> {
        if text.chars().any(is_slot) {
            let help = "remove it, or write the text in base64 in an LDIF file";
            return Err(vec![Mistake::new(of, "there is a character of the private-use plane 15", help)]);
        }
        let mut find_secret = |_: model::Placeholder<'_>| {
            Err((
                "a secret is allowed in passwords only".to_string(),
                "write it in `password` or `dn_password`".to_string(),
            ))
        };
        let mut names = Names {
            data: &self.requests.data,
            variables: &[],
            faulty: &BTreeSet::new(),
            find_secret: &mut find_secret,
            only_secrets: false,
        };
        let compiled = template::Template::compile(text, &mut names).map_err(|mistakes| {
            let of = |mistake: template::TemplateMistake| {
                Mistake::new(of, format!("{}: {}", mistake.part, mistake.what), mistake.help)
            };
            mistakes.into_iter().map(of).collect::<Vec<_>>()
        })?;
        let mut out = String::with_capacity(text.len());
        for part in compiled.parts() {
            match part {
                TemplatePart::Literal(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
                TemplatePart::Slot(value) => {
                    out.push(slot(self.requests.values.len()));
                    self.requests.values.push(value);
                }
            }
        }
        if self.requests.values.len() > SLOTS_MAX {
            return Err(vec![Mistake::new(of, "there are more than 4096 values", "write fewer")]);
        }
        Ok(out)
    }

    /// A distinguished name. Values in it are escaped, except where one begins a relative name.
    fn dn(&mut self, of: &'static str, text: &str) -> Result<String, Vec<Mistake>> {
        let name = self.text(of, text)?;
        self.check_dn(of, &name)?;
        Ok(name)
    }

    fn check_dn(&mut self, of: &'static str, name: &str) -> Result<(), Vec<Mistake>> {
        let mut before = ',';
        // A whole name or relative name may be one value, which nothing can be known of: such a one stands for `a=`.
        let mut example = String::new();
        for character in name.chars() {
            match is_slot(character) {
                true if before == ',' => example.push_str("a=b"),
                true => {
                    example.push('b');
                    let number = character as usize - slot(0) as usize;
                    if let Some(value) = self.requests.values.get_mut(number) {
                        *value = value.in_dn();
                    }
                }
                false => example.push(character),
            }
            if character != ' ' {
                before = character;
            }
        }
        match Dn::parse(&example) {
            Ok(_) => Ok(()),
            Err(error) => Err(vec![Mistake::new(
                of,
                format!("`{}` is not a distinguished name: {}", shown(name), error.what),
                error.help,
            )]),
        }
    }

    fn push(&mut self, operation: &message::Operation<'_>) -> Result<(), Vec<Mistake>> {
        let template = Template::new(operation, &[])
            .map_err(|error| vec![Mistake::new("", error.to_string(), "write fewer values")])?;
        let response = operation.response_tag().unwrap_or(0);
        self.requests.steps.push(Request { template, response });
        Ok(())
    }

    pub(super) fn search(&mut self, search: &SearchText) -> Result<(), Vec<Mistake>> {
        self.requests.kind = Kind::Search;
        let (base, filter) = both(self.dn("base", &search.base), self.text("filter", &search.filter))?;
        let filter = Filter::parse(&filter).map_err(|error| vec![of_filter(&filter, &error)])?;
        let attributes: Vec<&str> = search.attributes.iter().map(String::as_str).collect();
        self.push(&message::Operation::SearchRequest(SearchRequest {
            base: &base,
            scope: search.scope,
            deref_aliases: DerefAliases::Never,
            size_limit: search.size_limit,
            time_limit_s: 0,
            types_only: false,
            filter: FilterBytes::from(&filter),
            attributes: List::from(&attributes),
        }))
    }

    pub(super) fn bind(&mut self, dn: &str, password: &str) -> Result<(), Vec<Mistake>> {
        self.requests.kind = Kind::Bind;
        let (dn, password) = both(self.dn("dn", dn), self.text("dn_password", password))?;
        self.push(&message::Operation::simple_bind(&dn, password.as_bytes()))
    }

    pub(super) fn login(
        &mut self,
        dn: &str,
        password: &str,
        search: &SearchText,
    ) -> Result<(), Vec<Mistake>> {
        both(self.bind(dn, password), self.search(search))?;
        self.requests.kind = Kind::Login;
        Ok(())
    }

    pub(super) fn delete(&mut self, dn: &str) -> Result<(), Vec<Mistake>> {
        self.requests.kind = Kind::Delete;
        let dn = self.dn("dn", dn)?;
        self.push(&message::Operation::DelRequest { dn: &dn })
    }

    pub(super) fn compare(&mut self, dn: &str, assertion: &str) -> Result<(), Vec<Mistake>> {
        self.requests.kind = Kind::Compare;
        let (dn, (name, value)) = both(self.dn("dn", dn), self.attribute("attribute", assertion))?;
        let value = Value(value.as_bytes());
        self.push(&message::Operation::CompareRequest { dn: &dn, attribute: &name, value })
    }

    pub(super) fn add(&mut self, dn: &str, attributes: &[String]) -> Result<(), Vec<Mistake>> {
        self.requests.kind = Kind::Add;
        let dn = self.dn("dn", dn);
        let read: Vec<_> = attributes.iter().map(|text| self.attribute("attribute", text)).collect();
        let (dn, read) = both(dn, all(read))?;
        let mut grouped: Vec<(&str, Vec<Value<'_>>)> = Vec::new();
        for (name, value) in &read {
            let value = Value(value.as_bytes());
            match grouped.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values.push(value),
                None => grouped.push((name, vec![value])),
            }
        }
        let attributes: Vec<Attribute<'_>> =
            grouped.iter().map(|(name, values)| Attribute { name, values: List::from(values) }).collect();
        self.push(&message::Operation::AddRequest { dn: &dn, attributes: List::from(&attributes) })
    }

    pub(super) fn modify(&mut self, dn: &str, changes: &[String]) -> Result<(), Vec<Mistake>> {
        self.requests.kind = Kind::Modify;
        let dn = self.dn("dn", dn);
        let read: Vec<_> = changes.iter().map(|text| self.change(text)).collect();
        let (dn, read) = both(dn, all(read))?;
        let mut grouped: Vec<(ModifyOperation, &str, Vec<Value<'_>>)> = Vec::new();
        for (operation, name, value) in &read {
            let value = value.as_ref().map(|value| Value(value.as_bytes()));
            let same = |(of, known, _): &&mut (ModifyOperation, &str, _)| {
                of == operation && known.eq_ignore_ascii_case(name)
            };
            match grouped.iter_mut().find(same) {
                Some((_, _, values)) => values.extend(value),
                None => grouped.push((*operation, name, value.into_iter().collect())),
            }
        }
        let changes: Vec<Change<'_>> = grouped
            .iter()
            .map(|(operation, name, values)| Change {
                operation: *operation,
                attribute: Attribute { name, values: List::from(values) },
            })
            .collect();
        self.push(&message::Operation::ModifyRequest { dn: &dn, changes: List::from(&changes) })
    }

    /// `replace description: text`, or without values `delete description`.
    fn change(&mut self, text: &str) -> Result<(ModifyOperation, String, Option<String>), Vec<Mistake>> {
        let help = "write \"replace NAME: VALUE\", or add, delete or increment";
        let wrong = || vec![Mistake::new("change", format!("`{text}` is not a change"), help)];
        let (word, rest) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
        let operation = ModifyOperation::named(word).ok_or_else(wrong)?;
        if rest.contains(':') {
            let (name, value) = self.attribute("change", rest)?;
            return Ok((operation, name, Some(value)));
        }
        match operation {
            // All values are meant.
            ModifyOperation::Delete | ModifyOperation::Replace if is_name(rest.trim()) => {
                Ok((operation, rest.trim().to_string(), None))
            }
            _ => Err(wrong()),
        }
    }

    /// `NAME: VALUE`.
    fn attribute(&mut self, of: &'static str, text: &str) -> Result<(String, String), Vec<Mistake>> {
        let help = "write \"NAME: VALUE\"";
        match text.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
            Some((name, value)) if is_name(name) => Ok((name.to_string(), self.text(of, value)?)),
            _ => Err(vec![Mistake::new(of, format!("`{text}` is not an attribute with a value"), help)]),
        }
    }

    /// The record in an LDIF file.
    pub(super) fn ldif(&mut self, text: &str, path: &str, kind: Kind) -> Result<(), Vec<Mistake>> {
        let text = self.text("ldif", text)?;
        let mistake = |line: u64, what: String, help: &str| {
            let place = if line > 0 { format!("{path}:{line}") } else { path.to_string() };
            vec![Mistake::new("ldif", format!("{place}: {what}"), help)]
        };
        let mut reader = ldif::Reader::new(text.as_bytes(), ldif::Options::default());
        let of_ldif = |error: ldif::LdifError| mistake(error.line, error.what, error.help);
        let (dn, line, compiled) = match reader.next().map_err(of_ldif)? {
            None => return Err(mistake(0, "there is no record".into(), "write one")),
            Some(record) => {
                let is_meant = match &record.body {
                    ldif::Body::Entry(_) | ldif::Body::Add(_) => kind == Kind::Add,
                    ldif::Body::Delete => kind == Kind::Delete,
                    ldif::Body::Modify(_) | ldif::Body::ModifyDn { .. } => kind == Kind::Modify,
                };
                if !is_meant {
                    let what = format!("the record is not for the operation {}", model::Choice::word(&kind));
                    return Err(mistake(record.line, what, "choose the operation that the record describes"));
                }
                let compiled = record.with_operation(|operation, controls| {
                    let response = operation.response_tag().unwrap_or(0);
                    Template::new(operation, controls).map(|template| Request { template, response })
                });
                (record.dn.to_string(), record.line, compiled)
            }
        };
        let request = compiled.map_err(|error| mistake(line, error.to_string(), "write fewer values"))?;
        if let Some(second) = reader.next().map_err(of_ldif)? {
            let what = "there is a second record".to_string();
            let help = "an operation repeats one: write it alone in a file; to add all entries, use `plimsoll ldap import`";
            return Err(mistake(second.line, what, help));
        }
        self.check_dn("ldif", &dn)?;
        self.requests.kind = kind;
        self.requests.steps.push(request);
        Ok(())
    }
}

/// Both results, or the mistakes of both.
fn both<A, B>(one: Result<A, Vec<Mistake>>, other: Result<B, Vec<Mistake>>) -> Result<(A, B), Vec<Mistake>> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (one, other) => Err(one.err().into_iter().chain(other.err()).flatten().collect()),
    }
}

/// All results, or the mistakes of all.
fn all<T>(results: Vec<Result<T, Vec<Mistake>>>) -> Result<Vec<T>, Vec<Mistake>> {
    let (mut values, mut mistakes) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(found) => mistakes.extend(found),
        }
    }
    if mistakes.is_empty() { Ok(values) } else { Err(mistakes) }
}

fn of_filter(filter: &str, error: &TextError) -> Mistake {
    let before: String = filter.get(..error.at).unwrap_or_default().chars().map(readable).collect();
    Mistake::new(
        "filter",
        format!("`{}` is not a filter: after `{before}`: {}", shown(filter), error.what),
        error.help,
    )
}

/// A text with slots, as people read it.
fn shown(text: &str) -> String {
    text.chars().map(readable).collect()
}

fn readable(character: char) -> char {
    if is_slot(character) { '…' } else { character }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.;_".contains(&byte))
}

/// Writes the requests of one worker's operations.
pub(super) struct Writer<'a> {
    mix: &'a Mix,
    /// The operation whose values are chosen.
    present: usize,
    seed: u64,
    /// The number of the worker among those of its lane, of which there are `of`.
    first: u64,
    of: u64,
    writer: RequestWriter,
    rows: Vec<u32>,
    /// The values of the operation, one after the other, and the end of each.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// The entries of a file, instead of values.
    records: Option<Records>,
}

/// Whether the request of an operation can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Ready,
    /// Not before the entry above it was added.
    Waits,
    /// The data has ended.
    Ended,
    /// The file is not as it should be.
    Faulty(LoadError),
}

impl<'a> Writer<'a> {
    pub(super) fn new(mix: &'a Mix, seed: u64, first: u32, of: u32) -> Result<Writer<'a>, LoadError> {
        let file = mix.all.first().and_then(|requests| requests.records.as_ref());
        Ok(Writer {
            records: file.map(|file| Records::open(file)).transpose()?,
            mix,
            present: 0,
            seed,
            first: u64::from(first),
            of: u64::from(of.max(1)),
            writer: RequestWriter::default(),
            rows: vec![0; mix.all.first().map_or(0, |requests| requests.data.len())],
            values: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Chooses an operation by weight: a function of the seed and its number. Returns its index.
    pub(super) fn choose(&mut self, number: u64) -> usize {
        self.present = self.chosen(number);
        self.present
    }

    /// The operation with this number.
    pub(super) fn chosen(&self, number: u64) -> usize {
        self.mix.choose(self.seed, number)
    }

    /// Chooses the values of the chosen operation: a function of the seed and its number.
    pub(super) fn begin(&mut self, operation: &Operation) -> Begin {
        if let Some(records) = &mut self.records {
            return records.begin(operation.ticket);
        }
        let Some(Requests { values: slots, data, used, .. }) = self.mix.all.get(self.present) else {
            return Begin::Ended;
        };
        self.values.clear();
        self.ends.clear();
        if slots.is_empty() {
            return Begin::Ready;
        }
        let user = self.first + u64::from(operation.user.unwrap_or(operation.ticket)) * self.of;
        for at in used {
            let Some(set) = data.get(*at as usize) else { continue };
            let seed = mix(self.seed ^ DATA).wrapping_add(u64::from(*at));
            let Some(row) = set.row(seed, operation.number, user) else { return Begin::Ended };
            if let Some(place) = self.rows.get_mut(*at as usize) {
                *place = row;
            }
        }
        let mut values = Values {
            number: operation.number,
            user,
            random: Random::stream(mix(self.seed ^ TEMPLATE), operation.number),
            data,
            rows: &self.rows,
            variables: &[],
        };
        for slot in slots {
            // Only a variable or a header field can fail, and there are none.
            let _ = slot.render(&mut values, &mut self.values);
            self.ends.push(self.values.len());
        }
        Begin::Ready
    }

    /// The operation has ended: entries below its entry can be added.
    pub(super) fn end(&mut self, ticket: u32) {
        if let Some(records) = &mut self.records {
            records.end(ticket);
        }
    }

    /// Appends a request with the values of [`Writer::begin`].
    pub(super) fn write(&mut self, request: &Request, id: u32, out: &mut Vec<u8>) {
        let Writer { values, ends, writer, records, .. } = self;
        let request = records.as_ref().and_then(Records::request).unwrap_or(request);
        let value = |slot: usize| {
            let end = ends.get(slot).copied().unwrap_or(0);
            let begin = if slot == 0 { 0 } else { ends.get(slot - 1).copied().unwrap_or(0) };
            values.get(begin..end).unwrap_or_default()
        };
        writer.write(&request.template, id, value, out);
    }
}
