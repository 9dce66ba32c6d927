//! What a route really did: counts, and histograms of delays and of exchanges.

use hdrhistogram::Histogram;
use model::{Nanos, SECOND};

use crate::exchange::Exchange;
use crate::settings::Direction;

/// The longest time of a histogram; longer ones count as this.
const NS_MAX: u64 = 100_000 * SECOND;

/// A histogram of times in nanoseconds with an error below 1 %.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are valid; without a histogram, the smallest one stands in.
        let histogram = Histogram::new_with_bounds(1, NS_MAX, 2).or_else(|_| Histogram::new(1));
        Times(histogram.unwrap_or_else(|_| unreachable!("one significant digit is valid")))
    }
}

impl Times {
    /// Adds a time.
    pub(crate) fn add(&mut self, ns: Nanos) {
        self.0.saturating_record(ns);
    }

    /// How many times there are.
    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of a report.
    pub(crate) fn summary(&self) -> TimesSummary {
        let ms = |ns: u64| ns as f64 / 1e6;
        let quantile = |share: f64| if self.is_empty() { 0.0 } else { ms(self.0.value_at_quantile(share)) };
        TimesSummary {
            count: self.len(),
            mean: if self.is_empty() { 0.0 } else { self.0.mean() / 1e6 },
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: if self.is_empty() { 0.0 } else { ms(self.0.max()) },
        }
    }

    /// Each value that occurs, in nanoseconds, with its count.
    pub(crate) fn buckets(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }
}

/// Percentiles of times, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "the names are those of the percentiles")]
pub struct TimesSummary {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// One direction of a route.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathStatistics {
    /// Bytes that were written to the receiver.
    pub(crate) bytes: u64,
    /// Arrivals: reads from the sender.
    pub(crate) arrivals: u64,
    /// Lost transmissions of segments.
    pub(crate) losses: u64,
    /// From the moment bytes were readable to the moment they were written, for each piece.
    pub(crate) delay: Times,
    /// How much later than due a piece was written, if the receiver was ready.
    pub(crate) error: Times,
    /// Pieces that were late because the receiver did not read.
    pub(crate) waited_for_receiver: u64,
}

/// The exchanges of a route.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExchangeStatistics {
    /// When they begin; earlier idle time does not count.
    pub(crate) since_ns: Nanos,
    /// Exchanges that ended: by the next request or with the connection.
    pub(crate) completed: u64,
    /// Requests whose connection ended without a reply.
    pub(crate) without_reply: u64,
    /// Bytes of completed exchanges.
    pub(crate) request_bytes: u64,
    /// Bytes of completed exchanges.
    pub(crate) reply_bytes: u64,
    /// Bytes of targets that speak first.
    pub(crate) unrequested_bytes: u64,
    /// From the last request byte to the first reply byte.
    pub(crate) first_byte: Times,
    /// From the last request byte to the last reply byte.
    pub(crate) last_byte: Times,
    /// Time before requests: since the connection was opened or the last reply byte.
    pub(crate) idle_ns: Nanos,
    /// Time between the bytes of requests.
    pub(crate) requesting_ns: Nanos,
    /// Time from the last request byte to the first reply byte.
    pub(crate) waiting_ns: Nanos,
    /// Time between the bytes of replies.
    pub(crate) receiving_ns: Nanos,
}

impl ExchangeStatistics {
    pub(crate) fn completed(&mut self, exchange: &Exchange) {
        self.completed += 1;
        self.request_bytes += exchange.request_bytes;
        self.reply_bytes += exchange.reply_bytes;
        self.first_byte.add(exchange.first_byte_ns);
        self.last_byte.add(exchange.last_byte_ns);
    }
}

/// Connections of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConnectionCounts {
    /// Accepted connections, also refused ones.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Refused by the setting `refuse` after they were accepted. Without a listener there is nothing to count.
    pub refused: u64,
    /// Refused because the target could not be reached.
    pub unreachable: u64,
    /// Reset by the client.
    pub reset_by_client: u64,
    /// Reset by the target.
    pub reset_by_target: u64,
    /// Reset by an impairment.
    pub reset_by_impairment: u64,
    /// Directions that were closed by an impairment.
    pub closed_by_impairment: u64,
    /// Times that a connection could not be accepted, for example because no descriptor was free.
    pub accept_errors: u64,
}

/// A route.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteStatistics {
    /// Its connections.
    pub(crate) connections: ConnectionCounts,
    /// From the client to the target.
    pub(crate) up: PathStatistics,
    /// From the target to the client.
    pub(crate) down: PathStatistics,
    /// Its exchanges.
    pub(crate) exchanges: ExchangeStatistics,
    /// The last error of the target or of the listener; empty if there was none.
    pub(crate) last_error: String,
}

impl RouteStatistics {
    pub(crate) fn path(&mut self, direction: Direction) -> &mut PathStatistics {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Statistics from a time on, without what was before: only the number of open connections continues.
    pub(crate) fn restarted(&self, now_ns: Nanos) -> RouteStatistics {
        let connections = ConnectionCounts { open: self.connections.open, ..ConnectionCounts::default() };
        let exchanges = ExchangeStatistics { since_ns: now_ns, ..ExchangeStatistics::default() };
        RouteStatistics { connections, exchanges, ..RouteStatistics::default() }
    }
}
