//! What all connections share: the time of the packet, completed operations, counts of what was missed, and the limit of
//! the bytes that are kept.

use model::wire::MissedKind;

use crate::operation::{Kind, Operation};
use crate::packet::Endpoint;

/// The most bytes that are kept of requests, of messages that are incomplete and of segments that came early, over all
/// connections.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The most requests without a response yet, over all connections.
const OUTSTANDING_MAX: usize = 1 << 18;

/// Operations whose buffers are used again.
const POOL_MAX: usize = 64;

/// How often something was missed, and the bytes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// The state that all connections share.
#[derive(Debug, Default)]
#[expect(
    clippy::vec_box,
    reason = "an operation is moved several times, and its pointer is 25 times smaller"
)]
pub(crate) struct Shared {
    /// The time of the packet that is read, nanoseconds since 1970.
    pub(crate) now_ns: u64,
    /// The time of the first one.
    pub(crate) begin_ns: u64,
    /// Operations that ended in the packet that is read.
    pub(crate) done: Vec<Box<Operation>>,
    /// Requests of each kind that will have no response.
    pub(crate) unanswered: [u64; Kind::COUNT],
    missed: [Count; MissedKind::ALL.len()],
    kept_bytes: usize,
    outstanding: usize,
    pool: Vec<Box<Operation>>,
}

impl Shared {
    /// Counts what was missed.
    pub(crate) fn miss(&mut self, kind: MissedKind, bytes: u64) {
        let count = &mut self.missed[kind as usize];
        count.count += 1;
        count.bytes += bytes;
    }

    /// What was missed so far.
    pub(crate) fn missed(&self, kind: MissedKind) -> Count {
        self.missed[kind as usize]
    }

    /// Whether so many more bytes may be kept; they count until they are released.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let may = self.kept_bytes + bytes <= KEPT_BYTES_MAX;
        match may {
            true => self.kept_bytes += bytes,
            false => self.miss(MissedKind::MemoryLimit, bytes as u64),
        }
        may
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
    }

    /// A new operation, with the buffers of an earlier one.
    pub(crate) fn operation(
        &mut self,
        kind: Kind,
        connection: u64,
        ends: (Endpoint, Endpoint),
    ) -> Box<Operation> {
        match self.pool.pop() {
            None => Box::new(Operation::new(kind, connection, ends)),
            Some(mut operation) => {
                operation.reset(kind, connection, ends);
                operation
            }
        }
    }

    /// Takes an operation back whose content nobody needs.
    pub(crate) fn recycle(&mut self, operation: Box<Operation>) {
        if self.pool.len() < POOL_MAX {
            self.pool.push(operation);
        }
    }

    /// Whether one more request may wait for its response.
    pub(crate) fn begin_waiting(&mut self, operation: &mut Operation) -> bool {
        if self.outstanding >= OUTSTANDING_MAX {
            self.miss(MissedKind::OutstandingLimit, 0);
            return false;
        }
        let kept =
            operation.base.len() + operation.filter.len() + operation.path.len() + operation.method.len();
        if self.reserve(kept) {
            operation.kept_bytes = kept;
        } else {
            operation.base = String::new();
            operation.filter = Vec::new();
            operation.path = String::new();
        }
        self.outstanding += 1;
        true
    }

    /// A request no longer waits.
    fn end_waiting(&mut self, operation: &mut Operation) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.release(std::mem::take(&mut operation.kept_bytes));
    }

    /// An operation that waited has ended.
    pub(crate) fn complete(&mut self, mut operation: Box<Operation>) {
        self.end_waiting(&mut operation);
        self.done.push(operation);
    }

    /// A request that waited will have no response.
    pub(crate) fn give_up(&mut self, mut operation: Box<Operation>) {
        self.end_waiting(&mut operation);
        self.unanswered[operation.kind.index()] += 1;
        self.recycle(operation);
    }

    /// A request that waited was abandoned by its client.
    pub(crate) fn abandon(&mut self, mut operation: Box<Operation>) {
        self.end_waiting(&mut operation);
        self.miss(MissedKind::Abandoned, 0);
        self.recycle(operation);
    }
}
