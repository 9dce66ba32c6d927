//! The `http` workload: repeats one request over HTTP/1.1 or HTTP/2.
//!
//! Each thread drives its connections from one epoll. Over HTTP/1.1 (`worker`) a connection carries one request at a
//! time, and responses are read by a reader without I/O (`response`). Over HTTP/2 (`http2`) it carries several, by the
//! crate `h2`. Bodies are counted, not kept.
//!
//! An operation ends when its response is complete. An unexpected status, an invalid response, a broken
//! connection and a timeout are failed operations of different kinds. A connection that broke while it was idle
//! is not a failure: the request is sent again over a new connection, as browsers do, and this is counted.

mod failure;
pub mod from;
mod http2;
mod load;
pub mod probe;
pub mod response;
pub mod scenario;
mod server_timing;
mod settings;
mod target;
mod url;
mod users;
mod worker;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine::allowed::Allowed;
use engine::inputs::Inputs;
use engine::workload::{Combined, LoadError, Share, Worker, Workload, WorkloadKind};
use model::experiment::WorkloadInfo;
use model::run::{OperationUnit, WorkloadTraits};
use model::{Level, Nanos, Problem, Problems, Settings, Shape};

use failure::Failure;
use http2::Http2Worker;
use load::Load;
use response::Answer;
use settings::HttpPlan;
use target::Servers;
use worker::HttpWorker;

use crate::network::addresses::{self, AddressCounts};
use crate::network::host;
use crate::network::tls::INSECURE;

/// The kind.
pub static HTTP: HttpKind = HttpKind;

/// Maximum number of operations in flight on one thread of an open load.
const OPEN_IN_FLIGHT: u32 = engine::lanes::OPEN_IN_FLIGHT_MAX;

/// The `http` workload's kind.
#[derive(Debug)]
pub struct HttpKind;

/// The TCP port of this host that the requests go to; none where they go elsewhere.
pub fn local_port(settings: &Settings) -> Option<u16> {
    let origin = HttpPlan::read(settings, &Inputs::host()).ok()?.origin;
    host::is_this_host(origin.host_name()).then_some(origin.port)
}

/// Its traits.
static TRAITS: WorkloadTraits = WorkloadTraits {
    unit: OperationUnit::Request,
    operations_from: &["from", "server_timing"],
    ..WorkloadTraits::NONE
};

/// The parts of the time of a request, which are operations of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPart {
    /// Until a new connection is open.
    Connect,
    /// The TLS handshake on it.
    Tls,
    /// From the request to the first byte of the response.
    FirstByte,
    /// From there to the last byte, of a response that came in several pieces.
    Download,
}

impl RequestPart {
    /// All parts, in the order of their operations.
    const ALL: [RequestPart; 4] =
        [RequestPart::Connect, RequestPart::Tls, RequestPart::FirstByte, RequestPart::Download];

    /// The name after that of the request.
    fn word(self) -> &'static str {
        match self {
            RequestPart::Connect => "connect",
            RequestPart::Tls => "tls",
            RequestPart::FirstByte => "first_byte",
            RequestPart::Download => "download",
        }
    }
}

impl WorkloadKind for HttpKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "http",
            about: "Repeats one request over persistent connections of HTTP/1.1 or HTTP/2, with or without TLS.",
            settings: settings::SETTINGS,
            operations: settings::OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        self.configure_with(settings, &Inputs::host())
    }

    fn configure_with(&self, settings: &Settings, inputs: &Inputs) -> Result<Box<dyn Workload>, Problems> {
        let plan = HttpPlan::read(settings, inputs)?;
        Ok(Box::new(Http { plan, servers: Servers::default(), seen: Observations::default() }))
    }
}

/// Whether a text is a name of a header field: a token (RFC 9110 section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// The observations of all workers of a load.
#[derive(Debug, Default)]
struct Observations {
    /// The `Server` header of the first response; empty without one.
    server: OnceLock<String>,
    opened: AtomicU64,
    /// TLS handshakes, and those of them that resumed a session.
    handshakes: AtomicU64,
    resumed: AtomicU64,
    /// Idle connections that were closed by the other end.
    lost_idle: AtomicU64,
    retried: AtomicU64,
    /// Responses, or other bytes, that came without a request.
    unsolicited: AtomicU64,
    /// Responses that ended with their connection, of which TLS did not say that they end there.
    without_notify: AtomicU64,
    /// Connections of HTTP/2 that the server ended with GOAWAY, and how many streams it allows; 0 if that is not known.
    go_away: AtomicU64,
    streams: AtomicU64,
    /// The word for a failure that the first body begins with.
    failure_word: OnceLock<&'static str>,
    tally: Mutex<Tally>,
    /// What went to each address of all servers.
    by_address: Mutex<Vec<AddressCounts>>,
}

impl Observations {
    /// Adds what a worker sent to each address.
    fn add_addresses(&self, counts: &[AddressCounts]) {
        let mut all = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let length = all.len().max(counts.len());
        all.resize(length, AddressCounts::default());
        all.iter_mut().zip(counts).for_each(|(all, counts)| all.add(counts));
    }

    /// Adds what a worker counted.
    fn add(&self, tally: &Tally) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).add(tally);
    }
}

/// Statuses and sizes of responses, warm-up included.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// How many had each status.
    statuses: Vec<(u16, u64)>,
    /// How many idle connections the server ended with a response of each status.
    idle_statuses: Vec<(u16, u64)>,
    /// The smallest and the largest body; none before the first response.
    body_bytes: Option<(u32, u32)>,
}

/// Adds to the count of a status.
fn add_status(counts: &mut Vec<(u16, u64)>, status: u16, times: u64) {
    match counts.iter_mut().find(|(known, _)| *known == status) {
        Some((_, count)) => *count += times,
        None => counts.push((status, times)),
    }
}

impl Tally {
    /// Counts a response.
    fn count(&mut self, answer: Answer) {
        add_status(&mut self.statuses, answer.status, 1);
        let (least, most) = self.body_bytes.unwrap_or((answer.body_bytes, answer.body_bytes));
        self.body_bytes = Some((least.min(answer.body_bytes), most.max(answer.body_bytes)));
    }

    fn add_idle_status(&mut self, status: u16, times: u64) {
        add_status(&mut self.idle_statuses, status, times);
    }

    fn add(&mut self, other: &Tally) {
        other.statuses.iter().for_each(|(status, times)| add_status(&mut self.statuses, *status, *times));
        other.idle_statuses.iter().for_each(|(status, times)| self.add_idle_status(*status, *times));
        let both = self.body_bytes.into_iter().chain(other.body_bytes);
        self.body_bytes = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }
}

/// A configured load.
struct Http {
    plan: HttpPlan,
    /// Set by `prepare`.
    servers: Servers,
    seen: Observations,
}

impl Http {
    /// The names of the parts of a request; of a scenario those of all requests together.
    fn parts(&self) -> impl Iterator<Item = String> {
        let of = self.plan.scenario.is_none().then_some(self.plan.operation);
        let of_server = self.plan.server_timing.iter().map(|name| format!("server:{name}"));
        let words = RequestPart::ALL.into_iter().map(|part| part.word().to_string());
        words.chain(of_server).map(move |word| match of {
            Some(operation) => format!("{operation}:{word}"),
            None => word,
        })
    }
}

impl Workload for Http {
    fn operations(&self) -> Vec<String> {
        let requests = match &self.plan.scenario {
            Some(read) => read.scenario.operations().to_vec(),
            None => vec![self.plan.operation.to_string()],
        };
        requests.into_iter().chain(self.parts()).collect()
    }

    fn describe_operations(&self, traits: &mut WorkloadTraits) {
        let wholes = self.plan.scenario.iter().flat_map(|read| read.scenario.wholes()).map(String::from);
        traits.derived.to_mut().extend(wholes.chain(self.parts()).map(Cow::Owned));
    }

    fn think(&self) -> Nanos {
        self.plan.scenario.as_ref().map_or(0, |read| read.scenario.think())
    }

    fn ends_by_itself(&self) -> bool {
        self.plan.operations.is_some()
    }

    fn default_shape(&self) -> Shape {
        Shape::closed(u64::from(self.plan.connections.unwrap_or(self.plan.threads)))
    }

    /// `threads`, but no more than there are users; in an open load as many more as `connections` need.
    fn workers(&self, shape: &Shape) -> u32 {
        match shape {
            Shape::Closed { users, .. } => self.plan.threads.min((users.largest().ceil() as u32).max(1)),
            Shape::Open { .. } => {
                self.plan.threads.max(self.plan.connections.unwrap_or(1).div_ceil(OPEN_IN_FLIGHT))
            }
        }
    }

    fn check(&self) -> Problems {
        Problems::new()
    }

    fn limit_to(&mut self, allowed: &Arc<Allowed>) -> Problems {
        self.plan.permission.limits = Some(Arc::clone(allowed));
        Problems::new()
    }

    fn reach(&self, notes: &mut Vec<String>) -> Problems {
        let mut problems = Problems::new();
        match target::find_all(&self.plan) {
            Ok(servers) => {
                let origins = self.plan.origins().iter().zip(&servers.all);
                notes.extend(
                    origins.map(|(origin, server)| server.addresses.reached(&origin.host_and_port())),
                );
            }
            Err(error) => {
                problems.push(Problem { line: self.plan.url_line, ..Problem::new(error.what, error.help) });
            }
        }
        problems
    }

    fn prepare(&mut self, _seed: u64, _say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        self.servers = target::find_all(&self.plan)?;
        self.seen = Observations::default();
        host::raise_file_limit();
        Ok(())
    }

    fn has_own_descriptors(&self) -> bool {
        true
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        let load = Load::new(&self.plan, &self.servers.all, &self.seen, share)?;
        Ok(match self.servers.is_http2 {
            true => Box::new(Http2Worker::new(load, share)?),
            false => Box::new(HttpWorker::new(load, share)?),
        })
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let mut facts = BTreeMap::new();
        let mut set = |name: &str, level: Level| facts.insert(name.to_string(), level);
        if let Some(server) = self.servers.all.first() {
            set("address", Level::Text(server.addresses.words()));
        }
        if let Some(server) = self.seen.server.get().filter(|server| !server.is_empty()) {
            set("server", Level::Text(server.clone()));
        }
        let count = |count: &AtomicU64| Level::Count(count.load(Ordering::Relaxed));
        set("connections.opened", count(&self.seen.opened));
        if !self.servers.all.is_empty() {
            let version = if self.servers.is_http2 { "2" } else { "1.1" };
            set("http.version", Level::Text(version.into()));
        }
        if self.servers.is_http2 {
            // What the server allows is known after the first connection.
            let allowed = self.seen.streams.load(Ordering::Relaxed);
            let streams = u64::from(self.plan.streams);
            set("http.streams", Level::Count(if allowed == 0 { streams } else { streams.min(allowed) }));
            set("connections.go_away", count(&self.seen.go_away));
        }
        if let Some(read) = self.plan.scenario.as_ref().filter(|read| !read.notes.is_empty()) {
            set("scenario.notes", Level::Count(read.notes.len() as u64));
        }
        if self.servers.all.iter().any(|server| server.tls.is_some()) {
            set("tls.handshakes", count(&self.seen.handshakes));
            set("tls.handshakes_resumed", count(&self.seen.resumed));
            if self.seen.without_notify.load(Ordering::Relaxed) > 0 {
                set("responses.without_close_notify", count(&self.seen.without_notify));
            }
            if self.plan.tls.is_insecure {
                set(INSECURE, Level::Flag(true));
            }
        }
        if self.seen.unsolicited.load(Ordering::Relaxed) > 0 {
            set("responses.unsolicited", count(&self.seen.unsolicited));
        }
        set("connections.lost_idle", count(&self.seen.lost_idle));
        set("requests.retried", count(&self.seen.retried));
        let tally = self.seen.tally.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, times) in &tally.statuses {
            set(&format!("responses.status.{status}"), Level::Count(*times));
        }
        for (status, times) in &tally.idle_statuses {
            set(&format!("connections.lost_idle.{status}"), Level::Count(*times));
        }
        if let Some((least, most)) = tally.body_bytes {
            set("responses.body_bytes_min", Level::Bytes(u64::from(least)));
            set("responses.body_bytes_max", Level::Bytes(u64::from(most)));
        }
        if let Some(word) = self.seen.failure_word.get() {
            set("responses.failure_word", Level::Text((*word).into()));
        }
        let by_address = self.seen.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = 0;
        for server in &self.servers.all {
            let counts = by_address.get(from..).unwrap_or_default();
            server.addresses.add_facts(counts, &mut facts);
            from += server.addresses.used.len();
        }
        facts
    }

    fn documents(&self) -> Vec<(&'static str, String)> {
        self.plan.scenario.iter().map(|read| ("scenario.toml", read.text.clone())).collect()
    }

    fn combined(&self, fact: &str) -> Combined {
        match fact {
            "connections.opened"
            | "connections.go_away"
            | "connections.lost_idle"
            | "requests.retried"
            | "responses.unsolicited"
            | "responses.without_close_notify"
            | "tls.handshakes"
            | "tls.handshakes_resumed" => Combined::Sum,
            "responses.body_bytes_min" => Combined::Min,
            "responses.body_bytes_max" => Combined::Max,
            _ if fact.starts_with("responses.status.") || fact.starts_with("connections.lost_idle.") => {
                Combined::Sum
            }
            _ => addresses::combined(fact).unwrap_or(Combined::Equal),
        }
    }

    fn describe_failure(&self, code: u32) -> String {
        if let (Some(code), Some(read)) = (Failure::of_scenario(code), &self.plan.scenario) {
            return read.scenario.describe_failure(code);
        }
        Failure::describe(code)
    }
}

#[cfg(test)]
mod tests;
