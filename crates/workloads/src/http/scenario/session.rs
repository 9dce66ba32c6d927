//! One virtual user: what it sends next, and what follows from a response.

use std::fmt;

use engine::workload::Then;
use model::Nanos;
use model::random::{Random, mix};

use super::cookies::Jar;
use super::file::OnFailure;
use super::find::Document;
use super::{Body, Fault, OriginOf, Request, Scenario, Transaction};
use crate::http::url::{Origin, Url};
use crate::template::{RenderError, Use, Values};

/// Streams of random numbers of a seed, one for each purpose.
const CHOICE: u64 = 0x6368_6f69;
const THINK: u64 = 0x7468_696e;
const TEMPLATE: u64 = 0x7465_6d70;
const DATA: u64 = 0x6461_7461;

/// One virtual user.
pub struct Session {
    seed: u64,
    user: u64,
    /// The present operation.
    number: u64,
    transaction: usize,
    step: u32,
    /// The row of each data set, for the present operation.
    rows: Vec<u32>,
    variables: Vec<Option<Vec<u8>>>,
    jar: Jar,
    /// The redirect to follow.
    redirect: Option<Redirect>,
    /// Redirects followed in this step.
    redirects: u32,
    /// The origin and target of the request that was planned last.
    origin: u32,
    target: String,
    head: Vec<u8>,
    body: Vec<u8>,
    scratch: Vec<u8>,
}

/// A redirect that was received.
struct Redirect {
    origin: u32,
    target: String,
    /// Whether the method becomes GET and the body is dropped.
    becomes_get: bool,
    /// Whether a server that did not get the credentials gets this request.
    leaves_origin: bool,
}

/// A request to send.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// Its settings.
    pub request: &'a Request,
    /// Index of its operation in [`Scenario::operations`].
    pub operation: u16,
    /// Index of its server in [`Scenario::origins`].
    pub origin: u32,
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Request line and header fields of HTTP/1.1, with the empty line.
    pub head: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Planned<'a> {
    /// The header fields, Host included, for HTTP/2: names as written, values without blanks around them.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let at = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..at], line[at + 1..].trim_ascii()))
        })
    }
}

/// Debug output has no texts of a request, because they can be secrets.
impl fmt::Debug for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplanned {
    /// A data set has no more rows: this user has no more operations.
    DataEnded,
    /// The request cannot be written: it has failed without being sent.
    Failed {
        /// Index of its operation in [`Scenario::operations`].
        operation: u16,
        /// The code of the failure, for [`Scenario::describe_failure`].
        code: u32,
        /// What follows.
        then: Then,
    },
}

/// A response.
#[derive(Clone, Copy, Default)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The header fields; not needed if [`Request::wants_fields`] is false.
    pub fields: &'a [(&'a str, &'a [u8])],
    /// The body, decoded from its transfer coding; not needed if [`Request::wants_body`] is false.
    pub body: &'a [u8],
    /// The size of the whole body.
    pub body_bytes: u64,
    /// Whether `body` is only the begin of the body.
    pub is_truncated: bool,
    /// The time from sending the request to the end of the response.
    pub time: Nanos,
    /// The time of day in seconds since 1970, for cookies.
    pub now_s: i64,
}

impl<'a> Response<'a> {
    /// The values of all fields with this name.
    pub(super) fn values_of(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let has_name = move |field: &&(&str, &[u8])| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(has_name).map(|(_, value)| *value)
    }
}

/// What a response means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the request failed; none if it is a success.
    pub failure: Option<Failure>,
    /// What follows.
    pub after: After,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A status that is not expected.
    Status(u16),
    /// A check or an extraction; the code is for [`Scenario::describe_failure`].
    Check(u32),
}

/// What follows a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The operation is not complete: [`Session::next`] with the same number and step plans the next request of it.
    Redirect,
    /// The operation is complete, and this follows.
    Then(Then),
}

impl Session {
    /// A user. `seed` is that of the lane, and `user` is unique in the lane.
    pub fn new(scenario: &Scenario, seed: u64, user: u64) -> Session {
        let mut session = Session {
            seed,
            user,
            number: 0,
            transaction: 0,
            step: 0,
            rows: Vec::with_capacity(scenario.data.len()),
            variables: Vec::with_capacity(scenario.variables.len()),
            jar: Jar::default(),
            redirect: None,
            redirects: 0,
            origin: 0,
            target: String::new(),
            head: Vec::new(),
            body: Vec::new(),
            scratch: Vec::new(),
        };
        session.reset(scenario, user);
        session
    }

    /// Becomes another user, without cookies and with initial variables. Reuses the memory.
    pub fn reset(&mut self, scenario: &Scenario, user: u64) {
        self.user = user;
        self.redirect = None;
        self.redirects = 0;
        self.jar.clear();
        self.variables.clear();
        self.variables.extend(scenario.variables.iter().map(|variable| variable.initial.clone()));
    }

    /// The request of a step of an operation, or the next one of a redirect. A step of 0 begins the operation with this
    /// number: its transaction and its rows of data are functions of the seed and the number. Can be repeated with the
    /// same result until the response is given to [`Session::took`]. Allocates nothing once the buffers
    /// have grown, except for redirects and for URLs that are values.
    ///
    /// # Errors
    /// If the data has ended, or a value is missing or cannot be sent.
    pub fn next<'a>(
        &'a mut self,
        scenario: &'a Scenario,
        number: u64,
        step: u32,
        now_s: i64,
    ) -> Result<Planned<'a>, Unplanned> {
        if step == 0 && self.redirect.is_none() {
            self.begin(scenario, number)?;
        }
        self.step = step;
        let Some(request) = self.request(scenario) else { return Err(Unplanned::DataEnded) };
        if let Err(fault) = self.render(scenario, request, now_s) {
            let then = self.follow(scenario, true);
            return Err(Unplanned::Failed { operation: request.operation, code: request.fault(fault), then });
        }
        let becomes_get = self.redirect.as_ref().is_some_and(|redirect| redirect.becomes_get);
        let body = match &request.body {
            _ if becomes_get => &[],
            Body::Bytes(bytes) => &**bytes,
            Body::Template(_) => &self.body,
        };
        let head = match &request.head {
            Some(head) if self.head.is_empty() => head,
            _ => self.head.as_slice(),
        };
        let method = if becomes_get { "GET" } else { &request.method };
        let target = self.present_target(request);
        Ok(Planned { request, operation: request.operation, origin: self.origin, method, target, head, body })
    }

    /// What a response means. Stores cookies and variables.
    pub fn took(&mut self, scenario: &Scenario, response: &Response<'_>) -> Outcome {
        let Some(request) = self.request(scenario) else {
            return Outcome { failure: None, after: After::Then(Then::End) };
        };
        if request.cookies
            && let Some(origin) = scenario.origins.get(self.origin as usize)
        {
            let target = match (&self.redirect, &request.literal_target) {
                (None, Some(target)) => target,
                _ => &self.target,
            };
            for field in response.values_of("set-cookie") {
                self.jar.store(field, origin, target, response.now_s);
            }
        }
        let failure = match self.redirected(scenario, request, response) {
            Ok(true) => return Outcome { failure: None, after: After::Redirect },
            Ok(false) => self.judge(scenario, request, response),
            Err(fault) => Some(Failure::Check(request.fault(fault))),
        };
        let then = self.follow(scenario, failure.is_some());
        Outcome { failure, after: After::Then(then) }
    }

    /// What follows a request without a complete response: a broken connection, a timeout.
    pub fn failed(&mut self, scenario: &Scenario) -> Then {
        self.follow(scenario, true)
    }

    /// Begins an operation.
    fn begin(&mut self, scenario: &Scenario, number: u64) -> Result<(), Unplanned> {
        self.number = number;
        self.redirects = 0;
        self.transaction = chosen(scenario, self.seed, number);
        self.rows.clear();
        self.rows.resize(scenario.data.len(), 0);
        let used =
            scenario.transactions.get(self.transaction).map_or(&[][..], |transaction| &transaction.data);
        for at in used {
            let Some(data) = scenario.data.get(*at as usize) else { continue };
            let seed = mix(self.seed ^ DATA).wrapping_add(u64::from(*at));
            let row = data.row(seed, number, self.user).ok_or(Unplanned::DataEnded)?;
            if let Some(place) = self.rows.get_mut(*at as usize) {
                *place = row;
            }
        }
        Ok(())
    }

    /// Index of the operation that a step of the present transaction is.
    pub fn operation_of(&self, scenario: &Scenario, step: u32) -> Option<u16> {
        Some(self.transaction(scenario)?.requests.get(step as usize)?.operation)
    }

    /// Index of the operation that the present transaction is as a whole; none if it has no operation of its own.
    pub fn whole(&self, scenario: &Scenario) -> Option<u16> {
        self.transaction(scenario)?.whole
    }

    /// Index of the operation that the one with this number begins with.
    pub fn first_operation(scenario: &Scenario, seed: u64, number: u64) -> Option<u16> {
        let transaction = scenario.transactions.get(chosen(scenario, seed, number))?;
        Some(transaction.requests.first()?.operation)
    }

    fn transaction<'a>(&self, scenario: &'a Scenario) -> Option<&'a Transaction> {
        scenario.transactions.get(self.transaction)
    }

    fn request<'a>(&self, scenario: &'a Scenario) -> Option<&'a Request> {
        self.transaction(scenario)?.requests.get(self.step as usize)
    }

    /// The random numbers of the present step.
    fn random(&self, purpose: u64) -> Random {
        Random::stream(mix(self.seed ^ purpose).wrapping_add(self.number), u64::from(self.step))
    }

    fn present_target<'a>(&'a self, request: &'a Request) -> &'a str {
        match (&self.redirect, &request.literal_target) {
            (None, Some(target)) => target,
            _ => &self.target,
        }
    }

    /// Writes the request into the buffers. `head` stays empty if the one of the scenario is sent as it is.
    fn render(&mut self, scenario: &Scenario, request: &Request, now_s: i64) -> Result<(), Fault> {
        self.head.clear();
        self.body.clear();
        let mut values = Values {
            number: self.number,
            user: self.user,
            random: self.random(TEMPLATE),
            data: &scenario.data,
            rows: &self.rows,
            variables: &self.variables,
        };
        let redirect = self.redirect.as_ref();
        if let Some(redirect) = redirect {
            self.origin = redirect.origin;
            self.target.clone_from(&redirect.target);
        } else {
            let rendered = &mut self.scratch;
            self.origin = origin_of(scenario, request, &mut values, rendered, &mut self.target)?;
        }
        let Some(origin) = scenario.origins.get(self.origin as usize) else { return Err(Fault::Url) };
        let target = match (redirect, &request.literal_target) {
            (None, Some(target)) => target,
            _ => &self.target,
        };
        self.scratch.clear();
        let has_cookies = request.cookies && self.jar.write(origin, target, now_s, &mut self.scratch);
        if let (Some(head), None) = (&request.head, redirect) {
            if has_cookies {
                // Without the empty line.
                self.head.extend_from_slice(head.get(..head.len().saturating_sub(2)).unwrap_or_default());
                write_cookies(&mut self.head, &self.scratch);
            }
            return Ok(());
        }
        let becomes_get = redirect.is_some_and(|redirect| redirect.becomes_get);
        let body_bytes = match &request.body {
            _ if becomes_get => 0,
            Body::Bytes(bytes) => bytes.len(),
            Body::Template(template) => {
                template.render(&mut values, Use::Body, &mut self.body)?;
                self.body.len()
            }
        };
        let method = if becomes_get { "GET" } else { &request.method };
        let leaves_origin = redirect.is_some_and(|redirect| redirect.leaves_origin);
        let host = (!request.has_host || leaves_origin).then_some(origin);
        write_line(&mut self.head, method, target.as_bytes(), host);
        let begin = self.head.len();
        request.fields.render(&mut values, Use::Field, &mut self.head)?;
        if becomes_get || leaves_origin {
            let fields = self.head.split_off(begin);
            keep_fields(&fields, becomes_get, leaves_origin, &mut self.head);
        }
        write_length(&mut self.head, method, body_bytes);
        if has_cookies {
            write_cookies(&mut self.head, &self.scratch);
        } else {
            self.head.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Whether a redirect is to be followed.
    fn redirected(
        &mut self,
        scenario: &Scenario,
        request: &Request,
        response: &Response<'_>,
    ) -> Result<bool, Fault> {
        if request.redirects_max == 0 || !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(false);
        }
        let Some(location) = response.values_of("location").next() else { return Ok(false) };
        if self.redirects >= request.redirects_max {
            return Err(Fault::Redirects);
        }
        let origin = scenario.origins.get(self.origin as usize).ok_or(Fault::Url)?;
        let present = Url { origin: origin.clone(), target: self.present_target(request).to_string() };
        let location = String::from_utf8_lossy(location);
        let url = present.join(&location).map_err(|_| Fault::Url)?;
        let Some(known) = scenario.origins.iter().position(|origin| *origin == url.origin) else {
            return Err(Fault::Foreign);
        };
        let before = self.redirect.as_ref();
        let method =
            if before.is_some_and(|redirect| redirect.becomes_get) { "GET" } else { &request.method };
        // RFC 9110 section 15.4: after 303, and by tradition after 301 and 302 of a POST.
        let becomes_get = match response.status {
            303 => method != "HEAD",
            301 | 302 => method == "POST",
            _ => false,
        };
        self.redirect = Some(Redirect {
            origin: known as u32,
            target: url.target,
            becomes_get: becomes_get || before.is_some_and(|redirect| redirect.becomes_get),
            leaves_origin: known as u32 != self.origin
                || before.is_some_and(|redirect| redirect.leaves_origin),
        });
        self.redirects += 1;
        Ok(true)
    }

    /// Checks a response and extracts values: the first failure, if there is one.
    fn judge(&mut self, scenario: &Scenario, request: &Request, response: &Response<'_>) -> Option<Failure> {
        if !request.expect_status.contains(response.status) {
            return Some(Failure::Status(response.status));
        }
        let mut failure = None;
        let mut fails = |code: u32| _ = failure.get_or_insert(Failure::Check(code));
        if request.max_time.is_some_and(|max| response.time > max) {
            fails(request.fault(Fault::Slow));
        }
        let document = Document::new(response);
        let mut values = Values {
            number: self.number,
            user: self.user,
            random: self.random(TEMPLATE),
            data: &scenario.data,
            rows: &self.rows,
            variables: &self.variables,
        };
        let mut code = request.failure + super::FAULTS as u32;
        for check in &request.checks {
            match check.passes(&document, &mut values, &mut self.scratch) {
                Ok(true) => {}
                Ok(false) => fails(code),
                Err(error) => fails(request.fault(error.into())),
            }
            code += 1;
        }
        for (slot, finder) in &request.extractions {
            let found = finder.find(&document);
            if found.is_none() {
                fails(code);
            }
            code += 1;
            let slot = *slot as usize;
            let Some(place) = self.variables.get_mut(slot) else { continue };
            match found {
                Some(value) => {
                    let memory = place.get_or_insert_default();
                    memory.clear();
                    memory.extend_from_slice(&value);
                }
                // A later request must not send the value of an earlier response.
                None => *place = scenario.variables.get(slot).and_then(|variable| variable.initial.clone()),
            }
        }
        failure
    }

    /// What follows the present step.
    fn follow(&mut self, scenario: &Scenario, failed: bool) -> Then {
        self.redirect = None;
        self.redirects = 0;
        let Some(transaction) = self.transaction(scenario) else { return Then::End };
        let is_last = self.step as usize + 1 >= transaction.requests.len();
        if is_last || (failed && transaction.on_failure == OnFailure::End) {
            return transaction.whole.map_or(Then::End, Then::EndOf);
        }
        let think = transaction.requests.get(self.step as usize).and_then(|request| request.think);
        Then::Next(think.map_or(0, |think| think.draw(&mut self.random(THINK))))
    }
}

/// The transaction of an operation.
fn chosen(scenario: &Scenario, seed: u64, number: u64) -> usize {
    let chosen = Random::stream(seed ^ CHOICE, number).below_u64(scenario.weight);
    scenario.transactions.partition_point(|transaction| transaction.weight_to <= chosen)
}

/// The origin of a request; renders its target, unless it is a literal.
fn origin_of(
    scenario: &Scenario,
    request: &Request,
    values: &mut Values<'_>,
    rendered: &mut Vec<u8>,
    target: &mut String,
) -> Result<u32, Fault> {
    rendered.clear();
    if request.literal_target.is_none() {
        request.target.render(values, Use::Url, rendered)?;
    }
    target.clear();
    target.push_str(&String::from_utf8_lossy(rendered));
    match &request.origin {
        OriginOf::Known(origin) => Ok(*origin),
        OriginOf::Row(data, origins) => {
            let row = values.rows.get(*data as usize).copied().unwrap_or(0);
            origins.get(row as usize).copied().ok_or(Fault::Url)
        }
        OriginOf::InTarget => {
            let base =
                scenario.base.and_then(|base| scenario.origins.get(base as usize)).ok_or(Fault::Url)?;
            let base = Url { origin: base.clone(), target: "/".into() };
            let url = base.join(target).map_err(|_| Fault::Url)?;
            *target = url.target;
            let known = scenario.origins.iter().position(|origin| *origin == url.origin);
            known.map(|origin| origin as u32).ok_or(Fault::Url)
        }
    }
}

impl From<RenderError> for Fault {
    fn from(error: RenderError) -> Fault {
        match error {
            RenderError::Unset => Fault::Unset,
            RenderError::Control => Fault::Control,
        }
    }
}

/// Writes the request line, and the field Host if there is an origin.
pub(super) fn write_line(out: &mut Vec<u8>, method: &str, target: &[u8], host: Option<&Origin>) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(host) = host {
        // Writing to memory cannot fail.
        let _ = std::io::Write::write_fmt(out, format_args!("Host: {host:#}\r\n"));
    }
}

/// Writes Content-Length. Methods that usually have content state it even if it is 0 (RFC 9110 section 8.6).
pub(super) fn write_length(out: &mut Vec<u8>, method: &str, bytes: usize) {
    if bytes > 0 || matches!(method, "POST" | "PUT" | "PATCH") {
        let _ = std::io::Write::write_fmt(out, format_args!("Content-Length: {bytes}\r\n"));
    }
}

/// Writes the field Cookie and the empty line.
fn write_cookies(out: &mut Vec<u8>, cookies: &[u8]) {
    out.extend_from_slice(b"Cookie: ");
    out.extend_from_slice(cookies);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Copies the lines of a header that a redirected request keeps: no description of a dropped body, and no credentials
/// and no Host for another server.
fn keep_fields(fields: &[u8], drops_body: bool, leaves_origin: bool, out: &mut Vec<u8>) {
    for line in fields.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let is = |known: &[&str]| known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let is_dropped = (drops_body && is(&["content-type", "content-encoding", "content-language"]))
            || (leaves_origin && is(&["authorization", "cookie", "proxy-authorization", "host", "origin"]));
        if !is_dropped {
            out.extend_from_slice(line);
        }
    }
}
