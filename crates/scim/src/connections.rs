//! The open connections. A client that keeps the service waiting loses its connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::lock;

/// Represents the state in which the client waits for the service.
const WORKING: u64 = u64::MAX;

/// Since when a client keeps the service waiting.
#[derive(Debug)]
pub(super) struct WaitTimer {
    start: Instant,
    /// Nanoseconds since `start`, or [`WORKING`].
    since_ns: AtomicU64,
}

impl WaitTimer {
    fn new(start: Instant) -> WaitTimer {
        let turn = WaitTimer { start, since_ns: AtomicU64::new(0) };
        turn.to_client();
        turn
    }

    /// The client is now expected to send or receive data.
    pub(super) fn to_client(&self) {
        self.since_ns.store(nanoseconds(self.start.elapsed()), Ordering::Relaxed);
    }

    /// The service now processes a request.
    pub(super) fn to_service(&self) {
        self.since_ns.store(WORKING, Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(WORKING - 1)
}

/// The connections of a service.
pub(super) struct Connections {
    start: Instant,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// A connection is closed by dropping its sender.
    open: HashMap<u64, (Arc<WaitTimer>, oneshot::Sender<()>)>,
}

impl Connections {
    pub(super) fn new() -> Connections {
        Connections { start: Instant::now(), table: Mutex::default() }
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.table).open.len()
    }

    /// Registers a connection. Returns its place, and a receiver that becomes ready when the connection is to
    /// be closed.
    pub(super) fn place(self: &Arc<Self>) -> (Place, oneshot::Receiver<()>) {
        let turn = Arc::new(WaitTimer::new(self.start));
        let (closing, closed) = oneshot::channel();
        let mut table = lock(&self.table);
        let number = table.next;
        table.next += 1;
        table.open.insert(number, (turn.clone(), closing));
        (Place { connections: self.clone(), number, turn }, closed)
    }

    /// Closes the connection whose client has kept the service waiting longest; returns false if none does.
    pub(super) fn close_longest_waiting(&self) -> bool {
        let mut table = lock(&self.table);
        let since = |turn: &WaitTimer| turn.since_ns.load(Ordering::Relaxed);
        let longest = table.open.iter().map(|(number, (turn, _))| (since(turn), *number)).min();
        let Some((_, number)) = longest.filter(|(since, _)| *since != WORKING) else { return false };
        table.open.remove(&number).is_some()
    }

    /// Closes the connections whose clients have kept the service waiting for at least `wait`.
    pub(super) fn close_waiting(&self, wait: Duration) {
        let now = nanoseconds(self.start.elapsed());
        let latest = now.saturating_sub(nanoseconds(wait));
        lock(&self.table).open.retain(|_, (turn, _)| turn.since_ns.load(Ordering::Relaxed) >= latest);
    }

    pub(super) fn close_all(&self) {
        lock(&self.table).open.clear();
    }
}

/// The place of a connection, released when it is dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    number: u64,
    pub(super) turn: Arc<WaitTimer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.connections.table).open.remove(&self.number);
    }
}
