//! The `ldap` workload: repeats one LDAP operation with values that differ.
//!
//! Each thread drives its connections from one epoll (`worker`). Requests are encoded once and written with the values of
//! an operation (`requests`); of responses only the headers are read. Entries are counted, not kept.
//!
//! An operation ends with its result. A result code that is not expected, a broken connection and a timeout are failed
//! operations of different kinds. Referrals are counted, not followed.

mod failure;
mod import;
mod operations;
mod records;
mod requests;
mod server;
mod server_counts;
mod settings;
#[cfg(test)]
mod tests;
mod worker;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::allowed::{Allowed, Opener, refusals};
use engine::inputs::Inputs;
use engine::workload::{Combined, LoadError, Share, Worker, Workload, WorkloadKind};
use ldap::ResultCode;
use ldap::session::{Security, Server};
use model::experiment::WorkloadInfo;
use model::run::{OperationUnit, WorkloadTraits};
use model::{Level, Problem, Problems, Settings, Shape};

use crate::network::addresses::{self, AddressCounts, Addresses, Turn};
use crate::network::host::{self, PATIENCE};
use crate::network::socket::Address;
use crate::network::tls::{INSECURE, TlsClient};
use failure::Failure;
use requests::Mix;
use server_counts::ServerCounts;
use settings::{Kind, LdapPlan};
use worker::LdapWorker;

pub use import::{LDAP_IMPORT, import_process};

/// The kind.
pub static LDAP: LdapKind = LdapKind;

/// Connections of an open load, over all threads.
const OPEN_CONNECTIONS: u32 = 16;

/// Operations in flight on a connection of an open load.
const OPEN_DEPTH: u32 = 64;

/// The longest diagnostic message of a server that is kept.
const DIAGNOSTIC_LENGTH_MAX: usize = 200;

/// The `ldap` workload's kind.
#[derive(Debug)]
pub struct LdapKind;

/// The TCP port of this host that the requests go to; none where they go elsewhere.
pub fn local_port(settings: &Settings) -> Option<u16> {
    // Without the other settings, which may be large files.
    let server: Server = settings.get(&settings::URL)?.parse().ok()?;
    (host::is_this_host(&server.host) && server.socket.is_none()).then_some(server.port)
}

/// Its traits.
static TRAITS: WorkloadTraits = WorkloadTraits {
    unit: OperationUnit::Operation,
    operations_from: &["from"],
    // Other operations are another load: which is faster is no question.
    distinct_loads: Cow::Borrowed(&[Cow::Borrowed("from"), Cow::Borrowed("operation")]),
    ..WorkloadTraits::NONE
};

/// The parts of the time of an operation, which are operations of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPart {
    /// Until a new connection is open.
    Connect,
    /// The TLS handshake on it.
    Tls,
    /// Its bind.
    Bind,
    /// From the request to the first entry of a search.
    FirstEntry,
}

impl RequestPart {
    /// The names of all parts after that of the operation; and where several operations have them together, of which one may
    /// be called `bind`.
    const WORDS: [&str; 4] = ["connect", "tls", "bind", "first_entry"];
    const NAMES: [&str; 4] = ["connect", "tls", "connection_bind", "first_entry"];

    /// The parts that operations of a kind have, in the order of their names.
    fn all(kind: Kind) -> &'static [RequestPart] {
        use RequestPart::{Bind, Connect, FirstEntry, Tls};
        match kind {
            Kind::Search | Kind::Login | Kind::Mixed => &[Connect, Tls, Bind, FirstEntry],
            Kind::Bind => &[Connect, Tls],
            _ => &[Connect, Tls, Bind],
        }
    }

    /// The name after that of the operation.
    fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl Mix {
    /// The parts of the operations: of several together.
    fn parts(&self) -> &'static [RequestPart] {
        match self.all.as_slice() {
            [only] if self.text.is_none() => RequestPart::all(only.kind),
            _ => RequestPart::all(Kind::Mixed),
        }
    }

    /// The index of a part among the operations.
    fn part(&self, part: RequestPart) -> Option<u16> {
        let at = self.parts().iter().position(|of| *of == part)?;
        Some((self.all.len() + at) as u16)
    }
}

impl WorkloadKind for LdapKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "ldap",
            about: "Repeats one LDAP operation, with values that differ, over connections with one or more operations in flight.",
            settings: settings::SETTINGS,
            operations: settings::OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        self.configure_with(settings, &Inputs::host())
    }

    fn configure_with(&self, settings: &Settings, inputs: &Inputs) -> Result<Box<dyn Workload>, Problems> {
        let plan = LdapPlan::read(settings, "", inputs)?;
        let has_no_base = plan.mix.all.iter().any(|requests| requests.has_no_base);
        let without_base = has_no_base.then(|| (settings.clone(), inputs.clone()));
        Ok(Box::new(LdapLoad { without_base, ..LdapLoad::new(plan) }))
    }
}

/// A resolved server.
#[derive(Debug, Default)]
struct Target {
    /// Its addresses.
    addresses: Addresses,
    /// Its socket, if it is reached over a socket of this host.
    socket: Option<(Opener, PathBuf)>,
    /// What TLS with it needs, if it is reached over TLS.
    tls: Option<TlsClient>,
}

impl Target {
    /// The next address of a connection that was tried at `tried` ones before, with its index.
    fn next(&self, turn: &mut Turn, tried: usize) -> Option<(usize, Address)> {
        if let Some((opener, path)) = &self.socket {
            return (tried == 0).then(|| (0, Address::Local(opener.clone(), path.clone())));
        }
        let at = self.addresses.next(turn, tried)?;
        self.addresses.used.get(at).map(|address| (at, Address::Tcp(*address)))
    }
}

/// What all workers of a load observed.
#[derive(Debug, Default)]
struct Observations {
    tally: Mutex<Tally>,
    /// What went to each address.
    by_address: Mutex<Vec<AddressCounts>>,
    /// What the server said about the first failure of each code.
    diagnostics: Mutex<BTreeMap<u32, String>>,
}

impl Observations {
    /// Adds what a worker counted.
    fn add(&self, tally: &Tally) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).add(tally);
    }

    /// Adds what a worker sent to each address.
    fn add_addresses(&self, counts: &[AddressCounts]) {
        let mut all = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let length = all.len().max(counts.len());
        all.resize(length, AddressCounts::default());
        all.iter_mut().zip(counts).for_each(|(all, counts)| all.add(counts));
    }

    /// Keeps what the server says about a failure, if it is the first of its code.
    fn note(&self, code: u32, diagnostic: &str) {
        if diagnostic.is_empty() {
            return;
        }
        let mut diagnostics = self.diagnostics.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = diagnostic.chars().take(DIAGNOSTIC_LENGTH_MAX).collect();
        diagnostics.entry(code).or_insert(kept);
    }
}

/// What a worker counts, warm-up included.
#[derive(Clone, Debug, Default)]
struct Tally {
    opened: u64,
    handshakes: u64,
    /// Connections that ended during the load, and those of them without an operation in flight.
    lost: u64,
    lost_idle: u64,
    /// Responses to no operation in flight.
    unexpected: u64,
    /// Responses to operations that had been given up.
    late: u64,
    /// Connections whose end the server announced.
    notices: u64,
    references: u64,
    /// How many operations had each result code, and of each kind.
    results: Vec<(u32, u64)>,
    kinds: Vec<(Kind, u64)>,
    /// The sum, the smallest and the largest number of entries of a search; none before the first.
    entries: u64,
    entries_of_one: Option<(u32, u32)>,
    /// Searches that succeeded, and those of them that found no entry.
    searches: u64,
    without_entries: u64,
    /// Failures whose diagnostic message is known.
    known: Vec<u32>,
}

impl Tally {
    /// Counts a result.
    fn count(&mut self, code: u32, entries: &u32, kind: Kind) {
        self.add_result(code, 1);
        self.add_kind(kind, 1);
        if matches!(kind, Kind::Search | Kind::Login) {
            self.entries += u64::from(*entries);
            let (least, most) = self.entries_of_one.unwrap_or((*entries, *entries));
            self.entries_of_one = Some((least.min(*entries), most.max(*entries)));
        }
        if kind == Kind::Search && code == 0 {
            self.searches += 1;
            self.without_entries += u64::from(*entries == 0);
        }
    }

    /// Whether this is not the first failure of its code.
    fn is_known(&mut self, code: u32) -> bool {
        let is_known = self.known.contains(&code);
        if !is_known {
            self.known.push(code);
        }
        is_known
    }

    fn add_result(&mut self, code: u32, times: u64) {
        match self.results.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += times,
            None => self.results.push((code, times)),
        }
    }

    fn add_kind(&mut self, kind: Kind, times: u64) {
        match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += times,
            None => self.kinds.push((kind, times)),
        }
    }

    fn add(&mut self, other: &Tally) {
        self.opened += other.opened;
        self.handshakes += other.handshakes;
        self.lost += other.lost;
        self.lost_idle += other.lost_idle;
        self.unexpected += other.unexpected;
        self.late += other.late;
        self.notices += other.notices;
        self.references += other.references;
        self.entries += other.entries;
        self.searches += other.searches;
        self.without_entries += other.without_entries;
        other.results.iter().for_each(|(code, times)| self.add_result(*code, *times));
        other.kinds.iter().for_each(|(kind, times)| self.add_kind(*kind, *times));
        let both = self.entries_of_one.into_iter().chain(other.entries_of_one);
        self.entries_of_one = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }
}

/// A configured load.
struct LdapLoad {
    plan: LdapPlan,
    /// The settings, if a search has no base: then it is that of the server.
    without_base: Option<(Settings, Inputs)>,
    /// That base.
    base: Option<String>,
    /// Set by `prepare`.
    target: Target,
    seen: Observations,
    /// The server's own counts, where it has any that the load may read.
    server: Mutex<Option<ServerCounts>>,
}

/// Connections of the same use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    /// Of all operations that can be in flight together.
    Shared,
    /// Of binds, one at a time.
    Bind,
    /// Of logins, each with a connection of its own.
    Login,
}

impl Pool {
    const ALL: [Pool; 3] = [Pool::Shared, Pool::Bind, Pool::Login];

    fn of(kind: Kind) -> Pool {
        match kind {
            Kind::Bind => Pool::Bind,
            Kind::Login => Pool::Login,
            _ => Pool::Shared,
        }
    }
}

impl LdapPlan {
    /// The connections of a pool in a share of the load, and the most operations in flight on each.
    fn places(&self, pool: Pool, share: &Share) -> (u32, u32) {
        if !self.mix.has(|kind| Pool::of(kind) == pool) {
            return (0, 1);
        }
        let depth = match self.depth {
            _ if pool != Pool::Shared => 1,
            Some(depth) => depth,
            None if share.is_open => OPEN_DEPTH,
            None => 1,
        };
        let of = share.of.max(1);
        let part = |all: u32| (all / of + u32::from(share.index < all % of)).max(1);
        let connections = match self.connections {
            Some(all) => part(all),
            None if share.is_open && pool == Pool::Shared => part(OPEN_CONNECTIONS.max(of)),
            None => share.in_flight_max.div_ceil(depth).max(1),
        };
        // More would never be used.
        let connections = connections.min(share.in_flight_max.max(1));
        (connections, depth.min(share.in_flight_max.max(1)))
    }
}

/// Resolves the server, and tries a connection and a TLS handshake.
fn find(plan: &LdapPlan) -> Result<Target, LoadError> {
    let server = &plan.server;
    let patience = Duration::from_nanos(plan.timeout).min(PATIENCE);
    if let Some(path) = &server.socket {
        let opener = plan.permission.opener();
        let connected = opener.use_socket(path, |path| std::os::unix::net::UnixStream::connect(path));
        if let Err(error) = connected.and_then(|connected| connected) {
            return Err(LoadError::new(
                format!("nothing accepts a connection at {} ({error})", path.display()),
                "check that the server is running and listens on this socket",
            ));
        }
        return Ok(Target { socket: Some((opener, path.clone())), ..Target::default() });
    }
    let authority = match server.host.contains(':') {
        true => format!("[{}]:{}", server.host, server.port),
        false => format!("{}:{}", server.host, server.port),
    };
    let tls = match server.security {
        Security::None => None,
        Security::StartTls | Security::Tls => Some(TlsClient::new(&server.host, &plan.tls, &[])?),
    };
    let (addresses, _) =
        Addresses::find(plan.addresses, &authority, &server.host, &plan.permission, patience)?;
    if let (Security::Tls, Some(tls)) = (server.security, &tls) {
        for address in addresses.connected() {
            tls.try_handshake(address, patience)?;
        }
    }
    Ok(Target { addresses, socket: None, tls })
}

impl LdapLoad {
    fn new(plan: LdapPlan) -> LdapLoad {
        LdapLoad {
            plan,
            without_base: None,
            base: None,
            target: Target::default(),
            seen: Observations::default(),
            server: Mutex::default(),
        }
    }
}

impl Workload for LdapLoad {
    fn operations(&self) -> Vec<String> {
        let mix = &self.plan.mix;
        let names = mix.all.iter().map(|requests| requests.name.clone());
        let parts = mix.parts().iter().map(|part| match (&mix.text, mix.all.as_slice()) {
            (None, [only]) => format!("{}:{}", only.name, part.word()),
            _ => RequestPart::NAMES[*part as usize].to_string(),
        });
        names.chain(parts).collect()
    }

    fn describe_operations(&self, traits: &mut WorkloadTraits) {
        traits
            .derived
            .to_mut()
            .extend(self.operations().into_iter().skip(self.plan.mix.all.len()).map(Cow::Owned));
    }

    fn ends_by_itself(&self) -> bool {
        self.plan.operations.is_some()
    }

    fn default_shape(&self) -> Shape {
        let connections = self.plan.connections.unwrap_or(self.plan.threads);
        Shape::closed(u64::from(connections) * u64::from(self.plan.depth.unwrap_or(1)))
    }

    fn workers(&self, shape: &Shape) -> u32 {
        match shape {
            Shape::Closed { users, .. } => self.plan.threads.min((users.largest().ceil() as u32).max(1)),
            Shape::Open { .. } => self.plan.threads,
        }
    }

    fn check(&self) -> Problems {
        Problems::new()
    }

    fn limit_to(&mut self, allowed: &Arc<Allowed>) -> Problems {
        self.plan.permission.limits = Some(Arc::clone(allowed));
        // A socket of this host is a file.
        refusals(self.plan.server.socket.iter().map(|path| allowed.file(path)))
    }

    fn reach(&self, notes: &mut Vec<String>) -> Problems {
        let mut problems = Problems::new();
        match find(&self.plan) {
            Ok(target) if target.socket.is_none() => {
                notes.push(target.addresses.reached(&self.plan.server.to_string()));
            }
            Ok(_) => {}
            Err(error) => {
                problems.push(Problem { line: self.plan.url_line, ..Problem::new(error.what, error.help) });
            }
        }
        problems
    }

    fn prepare(&mut self, _seed: u64, _say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        self.target = find(&self.plan)?;
        if let Some((settings, inputs)) = &self.without_base {
            let base = server::naming_context(&self.plan)?;
            let read = LdapPlan::read(settings, &base, inputs).map_err(|problems| {
                let first = problems.0.into_iter().next().unwrap_or_default();
                LoadError::new(first.what, first.help)
            })?;
            self.plan = LdapPlan { permission: self.plan.permission.clone(), ..read };
            self.base = Some(base);
        }
        self.seen = Observations::default();
        host::raise_file_limit();
        // Each server counts its own.
        let counts = if self.target.addresses.are_shared() { None } else { ServerCounts::begin(&self.plan) };
        self.server = Mutex::new(counts);
        Ok(())
    }

    fn has_own_descriptors(&self) -> bool {
        true
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        Ok(Box::new(LdapWorker::new(&self.plan, &self.target, &self.seen, share)?))
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let mut facts = BTreeMap::new();
        let mut set = |name: &str, level: Level| facts.insert(name.to_string(), level);
        match &self.target.socket {
            Some((_, path)) => _ = set("address", Level::Text(path.display().to_string())),
            None if self.target.addresses.used.is_empty() => {}
            None => _ = set("address", Level::Text(self.target.addresses.words())),
        }
        if let Some(base) = &self.base {
            set("search.base", Level::Text(base.clone()));
        }
        let tally = self.seen.tally.lock().unwrap_or_else(PoisonError::into_inner);
        set("connections.opened", Level::Count(tally.opened));
        set("connections.lost", Level::Count(tally.lost));
        set("connections.lost_idle", Level::Count(tally.lost_idle));
        if self.target.tls.is_some() {
            set("tls.handshakes", Level::Count(tally.handshakes));
            if self.plan.tls.is_insecure {
                set(INSECURE, Level::Flag(true));
            }
        }
        for (code, times) in &tally.results {
            let code = ResultCode::from_number(*code);
            let name = match code {
                ResultCode::Other(number) => number.to_string(),
                code => code.name().to_string(),
            };
            set(&format!("results.{name}"), Level::Count(*times));
        }
        let requests = server_counts::requests(&tally.kinds, &self.plan);
        for (kind, count) in &requests {
            set(&format!("client.{kind}"), Level::Count(*count));
        }
        if !requests.is_empty()
            && let Some(server) = &mut *self.server.lock().unwrap_or_else(PoisonError::into_inner)
        {
            for (kind, count) in server.since(&requests) {
                set(&format!("server.{kind}"), Level::Count(count));
            }
        }
        if let Some((least, most)) = tally.entries_of_one {
            set("search.entries", Level::Count(tally.entries));
            set("search.entries_min", Level::Count(u64::from(least)));
            set("search.entries_max", Level::Count(u64::from(most)));
        }
        if tally.searches > 0 {
            set("search.succeeded", Level::Count(tally.searches));
            set("search.without_entries", Level::Count(tally.without_entries));
        }
        for (name, count) in [
            ("search.references", tally.references),
            ("responses.unexpected", tally.unexpected),
            ("responses.late", tally.late),
            ("connections.disconnect_notices", tally.notices),
        ] {
            if count > 0 {
                set(name, Level::Count(count));
            }
        }
        let by_address = self.seen.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        self.target.addresses.add_facts(&by_address, &mut facts);
        facts
    }

    fn documents(&self) -> Vec<(&'static str, String)> {
        self.plan.mix.text.iter().map(|text| ("operations.toml", text.clone())).collect()
    }

    fn combined(&self, fact: &str) -> Combined {
        match fact {
            "search.entries_min" => Combined::Min,
            "search.entries_max" => Combined::Max,
            "search.entries"
            | "search.references"
            | "search.succeeded"
            | "search.without_entries"
            | "responses.unexpected"
            | "responses.late"
            | "tls.handshakes" => Combined::Sum,
            _ => match fact.split_once('.') {
                Some(("connections" | "results" | "client", _)) => Combined::Sum,
                // The server counts the operations of all machines; the last one to ask has them all.
                Some(("server", _)) => Combined::Max,
                _ => addresses::combined(fact).unwrap_or(Combined::Equal),
            },
        }
    }

    fn describe_failure(&self, code: u32) -> String {
        let diagnostics = self.seen.diagnostics.lock().unwrap_or_else(PoisonError::into_inner);
        // slapd's `conn_max_pending` is 100 for anonymous connections.
        let is_deep = self.plan.depth.is_some_and(|depth| depth >= 100);
        match diagnostics.get(&code) {
            None if is_deep && code == Failure::Closed.code() => format!(
                "{}: perhaps it allows fewer requests in flight on one (lower `depth`)",
                Failure::describe(code)
            ),
            Some(words) => format!("{}: {words}", Failure::describe(code)),
            None => match failure::advice(code) {
                "" => Failure::describe(code),
                advice => format!("{}: {advice}", Failure::describe(code)),
            },
        }
    }
}
