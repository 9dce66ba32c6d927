//! A recorded session as a scenario of one transaction: the recordings of browsers ([`super::har`]) and of the recording
//! proxy.
//!
//! The requests are in the order of their start, with the pauses of the person as think times. Redirects are one
//! request. Cookies are left to the jar of the user. Values that an earlier response contained are extracted from it
//! (`correlate`). Credentials are replaced by environment variables. Each entry that is left out has a note.

mod correlate;
mod exchange;

use std::collections::BTreeSet;

use base64::Engine as _;
use model::{MILLISECOND, Nanos, Problem, SECOND, SecretParts};

use super::REQUESTS_MAX;
use super::file::{
    BodyFile, ExtractionFile, Import, Note, Options, Place, RequestFile, ScenarioFile, Statuses, Text, Think,
    TransactionFile,
};
use super::redaction::Redaction;
use crate::http::url::{Origin, Url};
use crate::template::escape;

use correlate::Correlation;

pub use exchange::{Exchange, of_exchanges};

/// A pause that is longer is think time, also within a page.
const PAUSE_MS: i64 = 1000;

/// The longest think time, unless the options say otherwise.
const THINK_MAX: Nanos = 3_600 * SECOND;

/// How a recording becomes a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordingOptions {
    /// Whether requests to other sites than that of the first request are kept.
    pub third_party: bool,
    /// Factor of the think times: 1 as recorded, 0 for none.
    pub think_scale: f64,
    /// The longest think time, after scaling.
    pub think_max: Nanos,
}

impl Default for RecordingOptions {
    fn default() -> RecordingOptions {
        RecordingOptions { third_party: false, think_scale: 1.0, think_max: THINK_MAX }
    }
}

/// A request with its response.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its place in the recording, from 1.
    pub(super) number: u32,
    pub(super) start_ms: Option<i64>,
    /// How long it took.
    pub(super) time_ms: i64,
    /// Its page; empty if the recording has no pages.
    pub(super) page: String,
    pub(super) method: String,
    pub(super) url: Url,
    /// The fields to send.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: RecordedBody,
    pub(super) status: u16,
    pub(super) response: Received,
}

/// The body of a recorded request.
#[derive(Debug)]
pub(super) enum RecordedBody {
    Empty,
    Text(String),
    /// Bytes that are not text.
    Bytes(Vec<u8>),
}

impl RecordedBody {
    /// A body of these bytes.
    pub(super) fn of(bytes: Vec<u8>) -> RecordedBody {
        match String::from_utf8(bytes) {
            Ok(text) if text.is_empty() => RecordedBody::Empty,
            Ok(text) => RecordedBody::Text(text),
            Err(error) => RecordedBody::Bytes(error.into_bytes()),
        }
    }
}

/// What a response contained.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) fields: Vec<(String, String)>,
    pub(super) text: String,
}

impl Entry {
    fn end_ms(&self) -> Option<i64> {
        Some(self.start_ms?.saturating_add(self.time_ms))
    }

    /// The URL that its response redirects to.
    fn redirect(&self) -> Option<Url> {
        if !matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let location = self.response.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"))?;
        self.url.join(&location.1).ok()
    }
}

/// The fields of a request that are sent again; the others are of the connection, of the body, of the jar, and of the
/// cache of the browser, which a user does not have.
pub(super) fn sent_fields(
    all: Vec<(String, String)>,
    number: u32,
    notes: &mut Vec<Note>,
) -> Vec<(String, String)> {
    const DROPPED: [&str; 15] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
        "expect",
        "host",
        "content-length",
        "cookie",
        "accept-encoding",
        "if-none-match",
        "if-modified-since",
        "upgrade-insecure-requests",
        "trailer",
    ];
    let mut fields = Vec::new();
    for (name, value) in all {
        let name = name.trim().to_string();
        // `:authority` and the like are fields of HTTP/2 only.
        if name.starts_with(':') || DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped)) {
            continue;
        }
        let is_valid = crate::http::is_token(&name)
            && !value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f);
        match is_valid {
            true => fields.push((name, value.trim().to_string())),
            false => notes.push(Note::new(number, "a header field that cannot be sent is left out", "")),
        }
    }
    fields
}

/// Whether a method can be sent again.
pub(super) fn is_method(method: &str) -> bool {
    (1..=20).contains(&method.len())
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_".contains(&byte))
        && method != "CONNECT"
}

/// Makes a scenario of entries. `secret_prefix` begins the names of the environment variables for credentials.
///
/// # Errors
/// If there is no request to repeat.
pub(super) fn scenario_of(
    mut kept: Vec<Entry>,
    mut notes: Vec<Note>,
    options: &RecordingOptions,
    secret_prefix: &'static str,
) -> Result<Import, Problem> {
    if kept.iter().any(|entry| entry.start_ms.is_none()) {
        notes.push(Note::new(
            0,
            "some entries have no start: the order of the file is kept, without think times",
            "",
        ));
    } else {
        // Browsers write entries in the order in which they ended.
        kept.sort_by_key(|entry| entry.start_ms);
    }
    leave_out_third_parties(&mut kept, options, &mut notes);
    let mut steps = join_redirects(kept, &mut notes);
    if steps.len() > REQUESTS_MAX {
        let what = format!("only the first {REQUESTS_MAX} of {} requests are kept", steps.len());
        notes.push(Note::new(0, what, "record a shorter journey"));
        steps.truncate(REQUESTS_MAX);
    }
    let Some(first) = steps.first() else {
        let help = "record requests to a web server again";
        return Err(Problem::new("the recording contains no request that can be repeated", help));
    };
    let base = first.entry.url.origin.clone();
    let correlations = correlate::find(&steps, &mut notes);
    let mut writer = Writer { notes, redaction: Redaction::new(secret_prefix), base: base.clone() };
    let mut requests = writer.requests(&steps, &correlations, options);
    writer.summarize(&steps);
    notes = writer.notes;
    notes.append(&mut writer.redaction.notes);
    let header = take_common_fields(&mut requests);
    let named: BTreeSet<&Origin> = steps.iter().map(|step| &step.entry.url.origin).collect();
    let others: BTreeSet<&Origin> = steps.iter().flat_map(|step| &step.redirected_to).collect();
    let servers = others.difference(&named).map(|origin| Text::new(origin.to_string())).collect();
    if let [only] = requests.as_mut_slice() {
        only.name = Text::default();
    }
    let transaction =
        TransactionFile { name: Text::new("recording"), weight: 1, requests, ..TransactionFile::default() };
    let file = ScenarioFile {
        base: Some(Text::new(base.to_string())),
        servers,
        options: Options { header, ..Options::default() },
        transactions: vec![transaction],
        ..ScenarioFile::default()
    };
    notes.sort_by_key(|note| note.number);
    Ok(Import { file, notes })
}

/// An entry, with the redirects that it led to.
#[derive(Debug)]
struct Step {
    entry: Entry,
    /// Number of redirects that followed.
    redirects: u32,
    /// The servers that they led to.
    redirected_to: Vec<Origin>,
    /// The last response.
    status: u16,
    end_ms: Option<i64>,
}

/// Leaves out entries of other sites than that of the first.
fn leave_out_third_parties(entries: &mut Vec<Entry>, options: &RecordingOptions, notes: &mut Vec<Note>) {
    let Some(first) = entries.first() else { return };
    let host = first.url.origin.host.clone();
    let site = host.strip_prefix("www.").unwrap_or(&host).to_string();
    if options.third_party {
        return;
    }
    entries.retain(|entry| {
        let host = &entry.url.origin.host;
        let is_own = *host == site || host.strip_suffix(&site).is_some_and(|front| front.ends_with('.'));
        if !is_own {
            let what = format!("left out: {host} is another site than {site}");
            notes.push(Note::new(
                entry.number,
                what,
                "set `third_party` only if you may put load on that site",
            ));
        }
        is_own
    });
}

/// Joins each redirect with the request that followed it.
fn join_redirects(entries: Vec<Entry>, notes: &mut Vec<Note>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // The URL that the last response of each step redirects to.
    let mut expected: Vec<Option<Url>> = Vec::new();
    for entry in entries {
        let follows = expected
            .iter()
            .rposition(|url| url.as_ref() == Some(&entry.url))
            .filter(|_| matches!(entry.method.as_str(), "GET" | "HEAD"));
        let target = entry.redirect();
        match follows.and_then(|at| Some((at, steps.get_mut(at)?))) {
            Some((at, step)) if step.redirects < super::read::REDIRECTS_MAX => {
                step.redirects += 1;
                step.redirected_to.push(entry.url.origin.clone());
                step.status = entry.status;
                step.end_ms = step.end_ms.max(entry.end_ms());
                notes.push(Note::new(
                    entry.number,
                    format!("joined with entry {}, which redirected to it", step.entry.number),
                    "",
                ));
                // Values are extracted from the last response.
                step.entry.response = entry.response;
                if let Some(place) = expected.get_mut(at) {
                    *place = target;
                }
            }
            _ => {
                expected.push(target);
                steps.push(Step {
                    redirects: 0,
                    redirected_to: Vec::new(),
                    status: entry.status,
                    end_ms: entry.end_ms(),
                    entry,
                });
            }
        }
    }
    steps
}

/// Makes requests of steps.
struct Writer {
    notes: Vec<Note>,
    redaction: Redaction,
    base: Origin,
}

impl Writer {
    fn requests(
        &mut self,
        steps: &[Step],
        correlation: &Correlation,
        options: &RecordingOptions,
    ) -> Vec<RequestFile> {
        let mut names = BTreeSet::new();
        let mut requests: Vec<RequestFile> = Vec::new();
        let mut end_ms = None;
        let mut page = None;
        for (at, step) in steps.iter().enumerate() {
            let entry = &step.entry;
            let pause_ms =
                entry.start_ms.zip(end_ms).map_or(0, |(start, end): (i64, i64)| start.saturating_sub(end));
            let is_new_page = page.is_some() && page != Some(&entry.page);
            if let Some(last) = requests.last_mut()
                && (pause_ms > PAUSE_MS || (is_new_page && pause_ms > 0))
            {
                let scaled = (pause_ms as f64 * options.think_scale.max(0.0)).round() as u64;
                let think = scaled.saturating_mul(MILLISECOND).min(options.think_max);
                last.options.think = (think > 0).then_some(Think::Constant(think));
            }
            page = Some(&entry.page);
            end_ms = end_ms.max(step.end_ms);
            requests.push(self.request(at, step, correlation, &mut names));
        }
        requests
    }

    fn request(
        &mut self,
        at: usize,
        step: &Step,
        correlation: &Correlation,
        names: &mut BTreeSet<String>,
    ) -> RequestFile {
        let entry = &step.entry;
        let number = entry.number;
        let target = self.redaction.redacted(
            &correlation.template(at, correlate::URL, &entry.url.target),
            SecretParts::Pairs,
            number,
        );
        let url = match entry.url.origin == self.base {
            true => target,
            false => format!("{}{target}", entry.url.origin),
        };
        let mut header = Vec::new();
        for (place, (name, value)) in entry.fields.iter().enumerate() {
            let template = correlation.template(at, correlate::FIELDS + place, value);
            let is_extracted = template != escape(value);
            header.push(Text::new(self.redaction.redacted_field(name, &template, is_extracted, number)));
        }
        let body = match &entry.body {
            RecordedBody::Empty => BodyFile::Empty,
            RecordedBody::Bytes(bytes) => {
                let what = "the body is not text: credentials in it are not recognized";
                self.notes.push(Note::new(number, what, "see whether `body_base64` contains a credential"));
                BodyFile::Base64(Text::new(base64::engine::general_purpose::STANDARD.encode(bytes)))
            }
            RecordedBody::Text(text) => {
                let template = correlation.template(at, correlate::BODY, text);
                let template = self.redaction.redacted_parts(&template, number);
                BodyFile::Text(Text::new(self.redaction.redacted(&template, SecretParts::Pairs, number)))
            }
        };
        let expect_status = (!Statuses::default().contains(step.status))
            .then(|| Statuses::parse(&step.status.to_string()))
            .flatten();
        if expect_status.is_some() {
            let what = format!("the recorded status {} is expected", step.status);
            self.notes.push(Note::new(
                number,
                what,
                "remove the request, or `expect_status`, if it was a failure",
            ));
        }
        let extractions = correlation.extractions(at);
        RequestFile {
            name: Text::new(unique_name(&entry.url.target, names)),
            method: entry.method.clone(),
            url: Text::new(url),
            options: Options {
                header,
                expect_status,
                follow_redirects: (step.redirects > 0).then_some(step.redirects),
                ..Options::default()
            },
            body,
            extractions: extractions
                .map(|(variable, query)| ExtractionFile {
                    variable: Text::new(variable),
                    query: query.clone(),
                })
                .collect(),
            place: Place::default(),
            ..RequestFile::default()
        }
    }

    /// Notes on all requests.
    fn summarize(&mut self, steps: &[Step]) {
        let overlaps = |pair: &[Step]| match pair {
            [first, second] => {
                second.entry.start_ms.zip(first.end_ms).is_some_and(|(start, end)| start < end)
            }
            _ => false,
        };
        let parallel = steps.windows(2).filter(|pair| overlaps(pair)).count();
        if parallel > 0 {
            let what = format!(
                "{parallel} requests began before an earlier one had ended; a user sends them one after the other"
            );
            self.notes.push(Note::new(0, what, ""));
        }
    }
}

/// Moves header fields that all requests have to the options of the scenario.
fn take_common_fields(requests: &mut [RequestFile]) -> Vec<Text> {
    let Some((first, others)) = requests.split_first() else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let name_of = |field: &Text| field.text.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_single = |fields: &[Text], field: &Text| {
        fields.iter().filter(|other| name_of(other) == name_of(field)).count() == 1
    };
    let mut common = first.options.header.clone();
    common.retain(|field| {
        !field.text.contains("${")
            && is_single(&first.options.header, field)
            && others.iter().all(|request| {
                request.options.header.contains(field) && is_single(&request.options.header, field)
            })
    });
    for request in requests {
        request.options.header.retain(|field| !common.contains(field));
    }
    common
}

/// A short name for a request: the end of its path.
fn unique_name(target: &str, names: &mut BTreeSet<String>) -> String {
    let path = target.split('?').next().unwrap_or_default();
    // A session id is no name.
    let last = path.rsplit('/').find(|segment| !segment.is_empty() && !correlate::looks_generated(segment));
    let last = last.unwrap_or_default();
    let mut slug: String =
        last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(24).collect();
    slug = slug.trim_matches('-').to_string();
    if slug.is_empty() {
        slug = if path == "/" { "home".into() } else { "request".into() };
    }
    let mut name = slug.clone();
    let mut number = 1;
    while !names.insert(name.clone()) {
        number += 1;
        name = format!("{slug}-{number}");
    }
    name
}
