//! Bodies of requests, which are read up to a limit, and bodies of responses.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::service::Refusal;

/// The size limit of a request body.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;
/// The size limit of all bodies that are read or processed together.
const BODIES_BYTES_MAX: usize = 8 * BODY_BYTES_MAX;
/// The memory that is reserved for a body before its data arrives.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// Number of bytes of bodies in memory.
#[derive(Debug, Default)]
pub(super) struct Memory(AtomicUsize);

/// A body's share of the memory limit, released when it is dropped.
pub(super) struct Share<'a> {
    memory: &'a Memory,
    bytes: usize,
}

impl Share<'_> {
    pub(super) fn of(memory: &Memory) -> Share<'_> {
        Share { memory, bytes: 0 }
    }

    fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.memory.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= BODIES_BYTES_MAX
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads the body of a request.
pub(super) async fn read(mut incoming: Incoming, share: &mut Share<'_>) -> Result<Vec<u8>, Refusal> {
    let stated = incoming.size_hint().lower();
    if stated > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity((stated as usize).min(RESERVED_BYTES_MAX));
    while let Some(frame) = poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
        let frame = frame.map_err(|_| Refusal::plain(400, "the body ends before its Content-Length"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if body.len() + bytes.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        if !share.grow(bytes.len()) {
            return Err(Refusal::plain(503, "too many large requests at a time: send it again later"));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

fn too_large() -> Refusal {
    Refusal::plain(413, "the request is larger than maxPayloadSize")
}

/// The body of a response, in one piece.
pub(super) struct Content(Option<Bytes>);

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content((!text.is_empty()).then(|| text.into()))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_together_have_a_limit() {
        let memory = Memory::default();
        let mut first = Share::of(&memory);
        let mut second = Share::of(&memory);
        assert!(first.grow(BODIES_BYTES_MAX - 1) && second.grow(1));
        assert!(!second.grow(1));
        drop(first);
        assert!(second.grow(1));
        drop(second);
        assert_eq!(memory.0.into_inner(), 0);
    }
}
