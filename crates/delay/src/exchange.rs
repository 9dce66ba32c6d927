//! Exchanges: bytes from the client, then bytes from the target, as the proxy sees them at its socket to the target.
//!
//! All times are taken there: requests when they are written to the target, replies when they are readable. So they show
//! the target and the network to it, without the delay that the proxy adds. A connection is always in one of four states,
//! and [`ExchangeStatistics`] has the total time of each.

use model::Nanos;

use crate::statistics::ExchangeStatistics;

/// A completed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// When the first request byte was written to the target.
    pub(crate) start_ns: Nanos,
    /// Bytes of the request.
    pub(crate) request_bytes: u64,
    /// From the last request byte to the first reply byte.
    pub(crate) first_byte_ns: Nanos,
    /// From the last request byte to the last reply byte.
    pub(crate) last_byte_ns: Nanos,
    /// Bytes of the reply.
    pub(crate) reply_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before the first request, or after a reply without a request.
    Idle {
        since_ns: Nanos,
    },
    Requesting {
        start_ns: Nanos,
        last_ns: Nanos,
        bytes: u64,
    },
    Replying {
        exchange: Exchange,
        last_ns: Nanos,
    },
}

/// The exchanges of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracker(State);

impl Tracker {
    /// A connection that was opened at a time.
    pub(crate) fn new(now_ns: Nanos) -> Tracker {
        Tracker(State::Idle { since_ns: now_ns })
    }

    /// Bytes were written to the target. Returns the exchange that they end.
    pub(crate) fn requested(
        &mut self,
        now_ns: Nanos,
        bytes: u64,
        statistics: &mut ExchangeStatistics,
    ) -> Option<Exchange> {
        let (since_ns, ended) = match &mut self.0 {
            State::Requesting { start_ns: _, last_ns, bytes: total } => {
                statistics.requesting_ns += now_ns.saturating_sub(*last_ns);
                (*last_ns, *total) = (now_ns, *total + bytes);
                return None;
            }
            State::Idle { since_ns } => (*since_ns, None),
            State::Replying { exchange, last_ns } => (*last_ns, Some(*exchange)),
        };
        statistics.idle_ns += now_ns.saturating_sub(since_ns.max(statistics.since_ns));
        if let Some(exchange) = &ended {
            statistics.completed(exchange);
        }
        self.0 = State::Requesting { start_ns: now_ns, last_ns: now_ns, bytes };
        ended
    }

    /// Bytes of the target became readable.
    pub(crate) fn replied(&mut self, now_ns: Nanos, bytes: u64, statistics: &mut ExchangeStatistics) {
        match &mut self.0 {
            State::Idle { .. } => statistics.unrequested_bytes += bytes,
            State::Requesting { start_ns, last_ns, bytes: request_bytes } => {
                let first_byte_ns = now_ns.saturating_sub(*last_ns);
                statistics.waiting_ns += first_byte_ns;
                let exchange = Exchange {
                    start_ns: *start_ns,
                    request_bytes: *request_bytes,
                    first_byte_ns,
                    last_byte_ns: first_byte_ns,
                    reply_bytes: bytes,
                };
                self.0 = State::Replying { exchange, last_ns: now_ns };
            }
            State::Replying { exchange, last_ns } => {
                let since_ns = now_ns.saturating_sub(*last_ns);
                statistics.receiving_ns += since_ns;
                exchange.last_byte_ns += since_ns;
                exchange.reply_bytes += bytes;
                *last_ns = now_ns;
            }
        }
    }

    /// The connection ends. Returns the exchange that ends with it; a request without a reply is counted.
    pub(crate) fn ended(&mut self, now_ns: Nanos, statistics: &mut ExchangeStatistics) -> Option<Exchange> {
        let state = std::mem::replace(&mut self.0, State::Idle { since_ns: now_ns });
        match state {
            State::Idle { .. } => None,
            State::Requesting { last_ns, .. } => {
                statistics.without_reply += 1;
                statistics.waiting_ns += now_ns.saturating_sub(last_ns);
                None
            }
            State::Replying { exchange, .. } => {
                statistics.completed(&exchange);
                Some(exchange)
            }
        }
    }
}

/// An exchange as the client sees it, with the delay that the proxy adds. Times of the monotonic clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenExchange {
    /// The position of its route.
    pub route: usize,
    /// When the first request byte was readable.
    pub begin_ns: Nanos,
    /// When the first reply byte was written to the client.
    pub first_byte_ns: Nanos,
    /// When the last reply byte was written to the client.
    pub end_ns: Nanos,
}

/// What the client of a connection sees.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum ClientView {
    #[default]
    Idle,
    Requesting {
        begin_ns: Nanos,
    },
    Replying(SeenExchange),
}

impl ClientView {
    /// Bytes of the client were readable. Returns the exchange that they end.
    pub(crate) fn requested(&mut self, at_ns: Nanos) -> Option<SeenExchange> {
        let ended = match self {
            ClientView::Requesting { .. } => return None,
            ClientView::Replying(seen) => Some(*seen),
            ClientView::Idle => None,
        };
        *self = ClientView::Requesting { begin_ns: at_ns };
        ended
    }

    /// Bytes were written to the client.
    pub(crate) fn replied(&mut self, at_ns: Nanos, route: usize) {
        match self {
            ClientView::Idle => {}
            ClientView::Requesting { begin_ns } => {
                let begin_ns = *begin_ns;
                *self = ClientView::Replying(SeenExchange {
                    route,
                    begin_ns,
                    first_byte_ns: at_ns,
                    end_ns: at_ns,
                });
            }
            ClientView::Replying(seen) => seen.end_ns = at_ns,
        }
    }

    /// The present exchange: its reply so far, or its end in the future.
    pub(crate) fn seen(&self, route: usize) -> Option<SeenExchange> {
        const LATER: Nanos = Nanos::MAX;
        match *self {
            ClientView::Idle => None,
            ClientView::Requesting { begin_ns } => {
                Some(SeenExchange { route, begin_ns, first_byte_ns: LATER, end_ns: LATER })
            }
            ClientView::Replying(seen) => Some(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_between_requests_has_its_state() {
        let (mut statistics, mut tracker) = (ExchangeStatistics::default(), Tracker::new(0));
        assert_eq!(tracker.requested(100, 10, &mut statistics), None);
        assert_eq!(tracker.requested(130, 5, &mut statistics), None);
        tracker.replied(200, 50, &mut statistics);
        tracker.replied(260, 50, &mut statistics);
        let first = Exchange {
            start_ns: 100,
            request_bytes: 15,
            first_byte_ns: 70,
            last_byte_ns: 130,
            reply_bytes: 100,
        };
        assert_eq!(tracker.requested(300, 1, &mut statistics), Some(first));
        tracker.replied(310, 2, &mut statistics);
        let second =
            Exchange { start_ns: 300, request_bytes: 1, first_byte_ns: 10, last_byte_ns: 10, reply_bytes: 2 };
        assert_eq!(tracker.ended(400, &mut statistics), Some(second));
        let times =
            [statistics.idle_ns, statistics.requesting_ns, statistics.waiting_ns, statistics.receiving_ns];
        assert_eq!(times, [100 + 40, 30, 70 + 10, 60]);
        assert_eq!((statistics.completed, statistics.request_bytes, statistics.reply_bytes), (2, 16, 102));
        assert_eq!(statistics.first_byte.len(), 2);
    }

    #[test]
    fn what_is_no_exchange_is_counted() {
        let (mut statistics, mut tracker) = (ExchangeStatistics::default(), Tracker::new(0));
        tracker.replied(5, 7, &mut statistics);
        assert_eq!(statistics.unrequested_bytes, 7);
        tracker.requested(10, 1, &mut statistics);
        assert_eq!(tracker.ended(25, &mut statistics), None);
        assert_eq!((statistics.without_reply, statistics.completed, statistics.waiting_ns), (1, 0, 15));
    }
}
