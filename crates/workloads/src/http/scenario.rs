//! Scenarios: what one virtual user requests, and what it does with the responses. Without I/O on sockets.
//!
//! A scenario file ([`ScenarioFile`], docs/formats/scenario.md) is compiled to a [`Scenario`], which all threads share:
//! templates, checks and data files are read once, and a request without templates is one block of bytes. A
//! [`Session`] is one virtual user with its cookies and variables. It plans requests and judges responses; the
//! worker, which has the connections, sends the one and reads the other:
//!
//! ```text
//! operation (number, step) -> Session::next -> Planned: origin, head, body
//! response                 -> Session::took -> Outcome: success or failure, then redirect, next step or end
//! ```
//!
//! [`har`] and [`wcat`] read scenarios from the formats of other programs, and [`recording`] makes one of a recorded
//! session.

mod check;
mod compile;
mod cookies;
mod date;
mod file;
mod find;
pub mod har;
mod json_path;
mod read;
pub mod recording;
mod redaction;
mod session;
pub mod wcat;
mod write;
mod xpath;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use engine::inputs::Inputs;
use model::{Nanos, Problems};

pub use super::url::Origin;

pub use crate::template::{FindSecret, escape};
pub use file::{
    AtEnd, BodyFile, CheckFile, Condition, DataFile, Expected, ExtractionFile, Import, Note, OnFailure,
    Options, Order, Place, Query, RequestFile, ScenarioFile, Sizes, Statuses, Text, Think, TransactionFile,
};
pub use session::{After, Failure, Outcome, Planned, Response, Session, Unplanned};

use crate::template::data::DataSet;
use crate::template::{Template, Variable};
use check::Check;
use find::Finder;

/// Most requests of a scenario: each is an operation with histograms of its own.
pub const REQUESTS_MAX: usize = 1000;

/// Most bytes of a body to keep for checks and extractions; the rest is counted only.
pub const BODY_KEPT_BYTES_MAX: usize = 8 << 20;

/// The largest file of a scenario, and the largest body of a request.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Failures of a request besides its checks and extractions, in the order of their codes.
const FAULTS: usize = 6;

/// Why a request failed, besides its status, its checks and its extractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Unset,
    Control,
    Url,
    Redirects,
    Foreign,
    Slow,
}

/// A compiled scenario, shared by all users.
pub struct Scenario {
    transactions: Vec<Transaction>,
    weight: u64,
    operations: Vec<String>,
    /// A description of each failure code.
    failures: Vec<String>,
    origins: Vec<Origin>,
    /// The origin that relative URLs refer to.
    base: Option<u32>,
    data: Vec<DataSet>,
    variables: Vec<Variable>,
}

/// A compiled transaction.
struct Transaction {
    /// The sum of the weights up to this one.
    weight_to: u64,
    on_failure: OnFailure,
    requests: Vec<Request>,
    /// Its operation as a whole; none for a transaction of one request.
    whole: Option<u16>,
    /// The data sets that it uses.
    data: Vec<u32>,
}

/// A compiled request.
pub struct Request {
    operation: u16,
    method: String,
    origin: OriginOf,
    target: Template,
    /// The target of a request whose target is a literal.
    literal_target: Option<String>,
    /// Lines of the header besides Host, Content-Length and the cookies of the jar.
    fields: Template,
    /// Whether `fields` has a Host.
    has_host: bool,
    body: Body,
    /// The complete head of a request without templates.
    head: Option<Arc<[u8]>>,
    timeout: Option<Nanos>,
    expect_status: Statuses,
    redirects_max: u32,
    think: Option<Think>,
    cookies: bool,
    max_time: Option<Nanos>,
    checks: Vec<Check>,
    /// The variables that are set, each with the place of its value.
    extractions: Vec<(u32, Finder)>,
    /// The code of its first failure.
    failure: u32,
    wants_body: bool,
}

/// The origin of a request.
enum OriginOf {
    Known(u32),
    /// The origin for each row of a data set.
    Row(u32, Vec<u32>),
    /// The target is a whole URL, or relative to the base.
    InTarget,
}

/// The body of a request.
enum Body {
    Bytes(Arc<[u8]>),
    Template(Template),
}

impl Scenario {
    /// Reads and compiles a scenario file. `file` is its name in messages; paths in it are relative to `folder`.
    /// `find_secret` gets the placeholders (`${env:NAME}`).
    ///
    /// # Errors
    /// All mistakes, each with its line and what to write instead. They contain no secrets.
    pub fn parse(
        text: &str,
        file: &str,
        folder: &Path,
        find_secret: &mut FindSecret<'_>,
    ) -> Result<Scenario, Problems> {
        Scenario::parse_with(text, file, folder, find_secret, &Inputs::host())
    }

    /// The same, with the files that it names from `inputs`.
    pub(super) fn parse_with(
        text: &str,
        file: &str,
        folder: &Path,
        find_secret: &mut FindSecret<'_>,
        inputs: &Inputs,
    ) -> Result<Scenario, Problems> {
        compile::compile(text, file, (folder, inputs), find_secret)
    }

    /// The names of its operations: `TRANSACTION:REQUEST` for each request, and `TRANSACTION` for a transaction as a
    /// whole. A transaction of one request without a name has only its own name.
    pub fn operations(&self) -> &[String] {
        &self.operations
    }

    /// The names of the operations that are transactions as a whole.
    pub fn wholes(&self) -> impl Iterator<Item = &str> {
        let places = self.transactions.iter().filter_map(|transaction| transaction.whole);
        places.filter_map(|place| self.operations.get(usize::from(place)).map(String::as_str))
    }

    /// All servers that requests can go to.
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// The most virtual users that its data is enough for; none if there is no limit.
    pub fn users_max(&self) -> Option<u64> {
        self.data.iter().filter_map(DataSet::users_max).min()
    }

    /// A description of the code of a failure, without secrets.
    pub fn describe_failure(&self, code: u32) -> String {
        let known = self.failures.get(code as usize);
        known.cloned().unwrap_or_else(|| format!("failure {code} of a scenario"))
    }

    /// The mean sum of the think times of a transaction.
    pub fn think(&self) -> Nanos {
        let mut before = 0;
        let mut weighted = 0.0;
        for transaction in &self.transactions {
            // That of the last request has no effect.
            let last = transaction.requests.len().saturating_sub(1);
            let thinks = transaction.requests.iter().take(last).filter_map(|request| request.think);
            let weight = transaction.weight_to - before;
            weighted += weight as f64 * thinks.map(Think::mean).sum::<Nanos>() as f64;
            before = transaction.weight_to;
        }
        (weighted / self.weight.max(1) as f64) as Nanos
    }

    /// Whether any request uses cookies, checks or redirects, so that the fields of responses are needed.
    pub fn wants_fields(&self) -> bool {
        self.transactions.iter().flat_map(|transaction| &transaction.requests).any(Request::wants_fields)
    }
}

impl Request {
    /// Its time limit; none if the scenario sets none.
    pub fn timeout(&self) -> Option<Nanos> {
        self.timeout
    }

    /// Whether the body of the response is needed, up to [`BODY_KEPT_BYTES_MAX`]. Otherwise its size is enough.
    pub fn wants_body(&self) -> bool {
        self.wants_body
    }

    /// Whether the header fields of the response are needed.
    pub fn wants_fields(&self) -> bool {
        let finders = self.extractions.iter().map(|(_, finder)| finder);
        let of_checks = self.checks.iter().filter_map(|check| match &check.condition {
            check::Condition::Value(finder, _) => Some(finder),
            _ => None,
        });
        self.cookies || self.redirects_max > 0 || finders.chain(of_checks).any(|finder| !finder.needs_body())
    }

    fn fault(&self, fault: Fault) -> u32 {
        self.failure + fault as u32
    }
}

/// Debug output has no texts of a scenario, because they can be secrets.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("operations", &self.operations).finish_non_exhaustive()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl Fault {
    const ALL: [Fault; FAULTS] =
        [Fault::Unset, Fault::Control, Fault::Url, Fault::Redirects, Fault::Foreign, Fault::Slow];

    fn words(self) -> &'static str {
        match self {
            Fault::Unset => "a variable has no value yet",
            Fault::Control => "a value in a header field contains a control character",
            Fault::Url => "the URL is not valid or its server is not one of the scenario",
            Fault::Redirects => "more redirects than `follow_redirects`",
            Fault::Foreign => "a redirect to a server that no URL and no entry of `servers` names",
            Fault::Slow => "the response took longer than `max_time`",
        }
    }
}

#[cfg(test)]
mod tests;
