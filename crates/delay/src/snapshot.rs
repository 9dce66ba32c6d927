//! What a proxy did, as numbers for a report or a program.

use serde::Serialize;

use crate::event_loop::RouteState;
use crate::proxy::RouteOptions;
use crate::settings::RouteSettings;
use crate::statistics::{
    ConnectionCounts, ExchangeStatistics, PathStatistics, RouteStatistics, Times, TimesSummary,
};

/// All routes of a proxy.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// The version of this document.
    pub format: &'static str,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Each route.
    pub routes: Vec<RouteSnapshot>,
    /// The log of exchanges, if there is one.
    pub exchange_log: Option<LogSnapshot>,
}

impl Snapshot {
    /// The version of the document. Fields may be added to it, and none is renamed.
    pub const FORMAT: &'static str = "plimsoll.delay/1";
}

/// One route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteSnapshot {
    /// Its name.
    pub name: String,
    /// The address that it listens on.
    pub listen: String,
    /// The target as the user named it.
    pub target: String,
    /// The settings in force that differ from the default, such as `up.latency=20ms`.
    pub settings: Vec<String>,
    /// Time since its statistics began, seconds.
    pub observed_s: f64,
    /// Its connections.
    pub connections: ConnectionCounts,
    /// From the client to the target.
    pub up: PathSnapshot,
    /// From the target to the client.
    pub down: PathSnapshot,
    /// Its exchanges.
    pub exchanges: ExchangeSnapshot,
    /// The last error; empty if there was none.
    pub last_error: String,
}

/// One direction of a route.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PathSnapshot {
    /// Bytes that were passed on.
    pub bytes: u64,
    /// Reads from the sender.
    pub arrivals: u64,
    /// Lost transmissions of segments.
    pub losses: u64,
    /// The delay that was added: from readable at one side to written to the other side.
    pub delay_ms: TimesSummary,
    /// The difference between the delay that was added and the delay that was set, where the receiver was ready.
    pub error_ms: TimesSummary,
    /// Pieces that were late because the receiver did not read.
    pub waited_for_receiver: u64,
}

/// The exchanges of a route, as seen at the socket to the target.
#[derive(Clone, Debug, Serialize)]
pub struct ExchangeSnapshot {
    /// Exchanges that ended: by the next request or with the connection.
    pub completed: u64,
    /// Requests whose connection ended without a reply.
    pub without_reply: u64,
    /// Bytes of the requests.
    pub request_bytes: u64,
    /// Bytes of the replies.
    pub reply_bytes: u64,
    /// Bytes of targets that speak first.
    pub unrequested_bytes: u64,
    /// From the last request byte to the first reply byte.
    pub first_byte_ms: TimesSummary,
    /// From the last request byte to the last reply byte.
    pub last_byte_ms: TimesSummary,
    /// Time of all connections before requests, seconds.
    pub idle_s: f64,
    /// Time of all connections between the bytes of requests, seconds.
    pub requesting_s: f64,
    /// Time of all connections from the last request byte to the first reply byte, seconds.
    pub waiting_s: f64,
    /// Time of all connections between the bytes of replies, seconds.
    pub receiving_s: f64,
    /// Each time to the first reply byte in nanoseconds, rounded up by less than 1 %, with its count.
    pub first_byte_buckets: Vec<(u64, u64)>,
}

/// The log of exchanges.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LogSnapshot {
    /// Exchanges in the file.
    pub written: u64,
    /// Exchanges that are not in the file, because the disk was too slow or full.
    pub lost: u64,
}

impl RouteSnapshot {
    pub(crate) fn new(route: &RouteOptions, state: &RouteState) -> RouteSnapshot {
        let RouteState { settings, statistics, observed_ns } = state;
        let RouteStatistics { connections, up, down, exchanges, last_error } = statistics;
        RouteSnapshot {
            name: route.name.clone(),
            listen: route.listen.to_string(),
            target: route.target.clone(),
            settings: RouteSettings::words(settings),
            observed_s: *observed_ns as f64 / 1e9,
            connections: *connections,
            up: path(up),
            down: path(down),
            exchanges: exchange(exchanges),
            last_error: last_error.clone(),
        }
    }
}

fn path(statistics: &PathStatistics) -> PathSnapshot {
    PathSnapshot {
        bytes: statistics.bytes,
        arrivals: statistics.arrivals,
        losses: statistics.losses,
        delay_ms: statistics.delay.summary(),
        error_ms: statistics.error.summary(),
        waited_for_receiver: statistics.waited_for_receiver,
    }
}

fn exchange(statistics: &ExchangeStatistics) -> ExchangeSnapshot {
    let seconds = |ns: u64| ns as f64 / 1e9;
    ExchangeSnapshot {
        completed: statistics.completed,
        without_reply: statistics.without_reply,
        request_bytes: statistics.request_bytes,
        reply_bytes: statistics.reply_bytes,
        unrequested_bytes: statistics.unrequested_bytes,
        first_byte_ms: statistics.first_byte.summary(),
        last_byte_ms: statistics.last_byte.summary(),
        idle_s: seconds(statistics.idle_ns),
        requesting_s: seconds(statistics.requesting_ns),
        waiting_s: seconds(statistics.waiting_ns),
        receiving_s: seconds(statistics.receiving_ns),
        first_byte_buckets: Times::buckets(&statistics.first_byte),
    }
}
