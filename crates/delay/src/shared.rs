//! What the connections of a proxy share: routes, memory, timers, the clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::buffer::Pool;
use crate::exchange::Exchange;
use crate::log::{ExchangeLog, Logged};
use crate::recording::Recorder;
use crate::route::Route;

/// Bytes of one read that is passed on at once.
const SCRATCH_BYTES: usize = 256 << 10;

/// The shared state of the event loop.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) routes: Vec<Route>,
    pub(crate) pool: Pool,
    pub(crate) scratch: Box<[u8]>,
    /// Due times with the connections that they are for.
    pub(crate) timers: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// When the loop woke up: what the kernel then reported as readable was readable at this time.
    pub(crate) woken_ns: Nanos,
    /// The present, as of the last [`Shared::tick`].
    pub(crate) now_ns: Nanos,
    pub(crate) seed: u64,
    pub(crate) exchange_log: Option<ExchangeLog>,
    /// Keeps exchanges in memory while it is there.
    pub(crate) recorder: Option<Recorder>,
}

impl Shared {
    pub(crate) fn new(
        routes: Vec<Route>,
        memory_bytes_max: u64,
        seed: u64,
        exchange_log: Option<ExchangeLog>,
    ) -> Shared {
        let now_ns = clock_ns();
        Shared {
            routes,
            pool: Pool::new(memory_bytes_max),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            timers: BinaryHeap::new(),
            woken_ns: now_ns,
            now_ns,
            seed,
            exchange_log,
            recorder: None,
        }
    }

    /// Reads the clock.
    pub(crate) fn tick(&mut self) {
        self.now_ns = clock_ns();
    }

    /// Wakes a connection at a time.
    pub(crate) fn arm(&mut self, due_ns: Nanos, token: u64) {
        self.timers.push(Reverse((due_ns, token)));
    }

    /// Writes an exchange to the log, if there is one.
    pub(crate) fn log(&mut self, route: usize, connection: u64, exchange: Exchange) {
        if let Some(log) = &mut self.exchange_log {
            log.add(Logged { route, connection, exchange });
        }
    }
}

/// The monotonic clock.
pub(crate) fn clock_ns() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
