//! A body that is passed on while a copy is kept up to a limit.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// Bytes that all bodies together may still keep.
#[derive(Debug)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget(AtomicUsize::new(bytes))
    }

    /// Takes this many bytes, or none.
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What was kept of a body.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    /// All bytes that were passed on.
    pub(crate) total: u64,
    /// Whether a part was not kept.
    pub(crate) is_cut: bool,
    /// Whether the body was passed on to its end.
    pub(crate) has_ended: bool,
    /// Why it did not end.
    pub(crate) failure: String,
}

impl Kept {
    fn add(&mut self, data: &[u8], limit: usize, budget: &Budget) {
        self.total += data.len() as u64;
        if self.is_cut {
            return;
        }
        let part = data.len().min(limit.saturating_sub(self.bytes.len()));
        self.is_cut = part < data.len();
        if !budget.take(part) {
            self.is_cut = true;
            return;
        }
        self.bytes.extend_from_slice(data.get(..part).unwrap_or_default());
    }

    /// Gives up what was kept.
    pub(crate) fn discard(&mut self, budget: &Budget) {
        budget.give_back(self.bytes.len());
        self.bytes = Vec::new();
    }
}

/// What was kept of a body, while it is passed on.
pub(crate) type SharedKept = Arc<Mutex<Kept>>;

pub(crate) fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body that is passed on. `at_end` is called when it is dropped: at its end, or when a connection broke.
pub(crate) struct Tee {
    body: Incoming,
    kept: SharedKept,
    limit: usize,
    budget: Arc<Budget>,
    at_end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Tee {
    pub(crate) fn new(body: Incoming, kept: SharedKept, limit: usize, budget: Arc<Budget>) -> Tee {
        lock(&kept).has_ended = body.is_end_stream();
        Tee { body, kept, limit, budget, at_end: None }
    }

    pub(crate) fn at_end(mut self, call: impl FnOnce() + Send + Sync + 'static) -> Tee {
        self.at_end = Some(Box::new(call));
        self
    }
}

impl Body for Tee {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let has_ended = self.body.is_end_stream();
        let mut kept = lock(&self.kept);
        match &polled {
            Poll::Ready(None) => kept.has_ended = true,
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    kept.add(data, self.limit, &self.budget);
                }
                kept.has_ended |= has_ended;
            }
            Poll::Ready(Some(Err(error))) => kept.failure = error.to_string(),
            Poll::Pending => {}
        }
        drop(kept);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        if let Some(call) = self.at_end.take() {
            call();
        }
    }
}
