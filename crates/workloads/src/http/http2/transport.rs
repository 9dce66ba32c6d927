//! The bytes of a connection of HTTP/2: a socket that never blocks, with or without TLS, as `h2` reads and writes it.

use std::cell::RefCell;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::failure::{Failure, Http2Fault};
use crate::http::target::HTTP2;
use crate::network::tls;

/// Bytes that wait to be sent, so that the frames of several streams leave in one call.
const OUT_BYTES: usize = 64 << 10;

/// Encrypted bytes received at a time: a record of TLS.
const CIPHER_BYTES: usize = 17 << 10;

/// How often a connection receives before the others continue.
const RECEIVES_MAX: u32 = 64;

/// A socket, and what waits in front of it.
#[derive(Debug)]
pub(super) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// Received bytes that were not decrypted yet: those from `cipher_taken` to `cipher_end`.
    cipher: Box<[u8]>,
    cipher_taken: usize,
    cipher_end: usize,
    /// Bytes of clear text to send, from `out_sent` on.
    out: Vec<u8>,
    out_sent: usize,
    /// Whether there may be bytes to receive. epoll reports only when there are new ones.
    is_readable: bool,
    /// Whether the other end has closed: then every byte up to the end is received.
    ends: bool,
    /// How often this turn may still receive.
    receives_left: u32,
    /// How often bytes were received.
    received: u64,
    /// The frames that were sent.
    resets: Resets,
    /// Why the transport failed; errors of `h2` have lost it.
    fault: Option<Failure>,
}

impl Transport {
    pub(super) fn new(socket: OwnedFd, tls: Option<ClientConnection>) -> Transport {
        Transport {
            socket,
            cipher: vec![0; if tls.is_some() { CIPHER_BYTES } else { 0 }].into(),
            tls: tls.map(Box::new),
            cipher_taken: 0,
            cipher_end: 0,
            out: Vec::new(),
            out_sent: 0,
            is_readable: false,
            ends: false,
            receives_left: RECEIVES_MAX,
            received: 0,
            resets: Resets::default(),
            fault: None,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// epoll has reported that there are bytes, or the end.
    pub(super) fn readable(&mut self, ends: bool) {
        self.is_readable = true;
        self.ends |= ends;
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.receives_left = RECEIVES_MAX;
    }

    /// Whether the last turn ended before all bytes were received.
    pub(super) fn has_more(&self) -> bool {
        self.is_readable && self.receives_left == 0
    }

    /// How often bytes were received.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// How many frames of responses came since the last call on streams whose response was complete.
    pub(super) fn take_unsolicited(&mut self) -> u32 {
        std::mem::take(&mut self.resets.unsolicited)
    }

    /// Why it failed, if it did.
    pub(super) fn fault(&self) -> Option<Failure> {
        self.fault
    }

    /// Whether TLS resumed a session.
    pub(super) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls::is_resumed(tls))
    }

    /// Continues the handshake of TLS. Returns whether it is complete.
    pub(super) fn shake_hands(&mut self) -> Result<bool, Failure> {
        loop {
            let Some(tls) = &mut self.tls else { return Ok(true) };
            tls::flush(tls, &self.socket).map_err(Failure::Broken)?;
            if !tls.is_handshaking() {
                return match tls.alpn_protocol() {
                    Some(HTTP2) => Ok(true),
                    _ => Err(Failure::Http2(Http2Fault::NotChosen)),
                };
            }
            match self.decrypt() {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Err(Failure::Unanswered),
                Poll::Ready(Err(_)) => return Err(self.fault.unwrap_or(Failure::Unanswered)),
            }
        }
    }

    /// Receives encrypted bytes, unless there are some, and takes in what fits. False at the end of the connection.
    fn decrypt(&mut self) -> Poll<io::Result<bool>> {
        if self.cipher_taken == self.cipher_end {
            let mut cipher = std::mem::take(&mut self.cipher);
            let received = self.receive(
                |socket| rustix::net::recv(socket, &mut *cipher, RecvFlags::empty()).map(|(_, bytes)| bytes),
                CIPHER_BYTES,
            );
            self.cipher = cipher;
            (self.cipher_taken, self.cipher_end) = (0, ready!(received)?);
            if self.cipher_end == 0 {
                return Poll::Ready(Ok(false));
            }
        }
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(false)) };
        let mut rest = self.cipher.get(self.cipher_taken..self.cipher_end).unwrap_or_default();
        let taken_in = tls::take_in(tls, &mut rest);
        self.cipher_taken = self.cipher_end - rest.len();
        Poll::Ready(match taken_in {
            Ok(()) => Ok(true),
            Err(fault) => {
                // The alert for the server.
                let _ = tls::flush(tls, &self.socket);
                self.fault.get_or_insert(Failure::Tls(fault));
                Err(io::ErrorKind::InvalidData.into())
            }
        })
    }

    /// Receives by a call, if there may be bytes; 0 at the end of the connection. `room` is what it receives at most.
    fn receive(
        &mut self,
        mut receive: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        while self.is_readable && self.receives_left > 0 {
            match receive(&self.socket) {
                Ok(0) => return Poll::Ready(Ok(0)),
                Ok(bytes) => {
                    self.receives_left -= 1;
                    self.received += 1;
                    // The room was not filled: there are no more bytes, and epoll reports new ones.
                    self.is_readable = bytes == room || self.ends;
                    return Poll::Ready(Ok(bytes));
                }
                Err(Errno::AGAIN) => self.is_readable = false,
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(self.broken(errno))),
            }
        }
        Poll::Pending
    }

    fn broken(&mut self, errno: Errno) -> io::Error {
        self.fault.get_or_insert(Failure::Broken(errno));
        errno.into()
    }

    /// Decrypted bytes; 0 at the end of the connection.
    fn read_plain(&mut self, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(0)) };
            match tls.reader().read(into) {
                Ok(bytes) => return Poll::Ready(Ok(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Ok(0)),
            }
            if !ready!(self.decrypt())? {
                return Poll::Ready(Ok(0));
            }
        }
    }

    /// Accepts bytes to send; not all of them, if many are waiting.
    fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        for _ in 0..2 {
            let taken = match &mut self.tls {
                Some(tls) => tls::write(tls, bytes),
                None => {
                    let taken = bytes.len().min(OUT_BYTES.saturating_sub(self.out.len()));
                    self.out.extend_from_slice(&bytes[..taken]);
                    taken
                }
            };
            if taken > 0 || bytes.is_empty() {
                self.resets.sent(bytes.get(..taken).unwrap_or_default());
                return Poll::Ready(Ok(taken));
            }
            ready!(self.flush())?;
        }
        Poll::Pending
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            return match tls::flush(tls, &self.socket) {
                Ok(true) => Poll::Ready(Ok(())),
                Ok(false) => Poll::Pending,
                Err(errno) => Poll::Ready(Err(self.broken(errno))),
            };
        }
        while self.out_sent < self.out.len() {
            let rest = self.out.get(self.out_sent..).unwrap_or_default();
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(bytes) => self.out_sent += bytes,
                Err(Errno::AGAIN) => return Poll::Pending,
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(self.broken(errno))),
            }
        }
        self.out.clear();
        self.out_sent = 0;
        Poll::Ready(Ok(()))
    }
}

/// Follows the frames that are sent (RFC 9113, section 4.1). `h2` discards a frame on a stream whose response is complete, and
/// resets that stream: nothing else shows that a second response came.
#[derive(Debug, Default)]
struct Resets {
    /// The head of the frame that is being sent, with the code of a reset.
    head: [u8; RESET_BYTES],
    /// How many bytes of it are known.
    known: usize,
    /// How many bytes follow before the next frame.
    skipped: usize,
    /// Whether the preface was sent.
    has_begun: bool,
    /// Whether a stream was given up here. The server may still send on it.
    has_given_up: bool,
    unsolicited: u32,
}

/// Bytes of the preface, of the head of a frame, and of a frame that resets a stream.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const RESET_BYTES: usize = HEAD_BYTES + 4;

impl Resets {
    fn sent(&mut self, mut bytes: &[u8]) {
        const RST_STREAM: u8 = 3;
        const STREAM_CLOSED: [u8; 4] = [0, 0, 0, 5];
        if !self.has_begun && !bytes.is_empty() {
            self.has_begun = true;
            self.skipped = PREFACE_BYTES;
        }
        while !bytes.is_empty() {
            let skipped = self.skipped.min(bytes.len());
            self.skipped -= skipped;
            bytes = &bytes[skipped..];
            let is_reset = self.known >= HEAD_BYTES;
            let wanted = if is_reset { RESET_BYTES } else { HEAD_BYTES };
            let taken = bytes.len().min(wanted - self.known);
            self.head[self.known..self.known + taken].copy_from_slice(&bytes[..taken]);
            self.known += taken;
            bytes = &bytes[taken..];
            if self.known < wanted {
                continue;
            }
            let [a, b, c, kind, ..] = self.head;
            match (is_reset, kind) {
                (false, RST_STREAM) => {}
                (false, _) => {
                    self.skipped = u32::from_be_bytes([0, a, b, c]) as usize;
                    self.known = 0;
                }
                (true, _) => {
                    self.known = 0;
                    let is_closed = self.head[HEAD_BYTES..] == STREAM_CLOSED;
                    self.has_given_up |= !is_closed;
                    self.unsolicited += u32::from(is_closed && !self.has_given_up);
                }
            }
        }
    }
}

/// A transport as `h2` uses it, while the worker keeps it too. No waker is registered: the worker polls the connection
/// when epoll reports its socket.
#[derive(Clone, Debug)]
pub(super) struct Stream(pub(super) Rc<RefCell<Transport>>);

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut transport = self.0.borrow_mut();
        let room = into.remaining();
        if transport.tls.is_some() {
            let bytes = ready!(transport.read_plain(into.initialize_unfilled()))?;
            into.advance(bytes);
            return Poll::Ready(Ok(()));
        }
        // SAFETY: nothing is de-initialized: the kernel writes bytes.
        let unfilled = unsafe { into.unfilled_mut() };
        let received = transport.receive(
            |socket| rustix::net::recv(socket, &mut *unfilled, RecvFlags::empty()).map(|(_, bytes)| bytes),
            room,
        );
        let bytes = ready!(received)?;
        // SAFETY: the kernel has written so many bytes from the begin.
        unsafe { into.assume_init(bytes) };
        into.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().flush()
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_of_closed_streams_are_seen_wherever_the_frames_are_cut() {
        let frame = |kind: u8, payload: &[u8]| {
            [&(payload.len() as u32).to_be_bytes()[1..], &[kind, 0, 0, 0, 0, 3], payload].concat()
        };
        let (closed, cancelled) = (frame(3, &[0, 0, 0, 5]), frame(3, &[0, 0, 0, 8]));
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let begin = [preface, frame(4, &[]), frame(1, &[3; 300])].concat();
        let all = [&begin[..], &closed, &frame(0, b"body"), &closed, &cancelled, &closed].concat();
        for step in 1..all.len() {
            let mut resets = Resets::default();
            all.chunks(step).for_each(|piece| resets.sent(piece));
            // After a stream was given up, the server may still send on it.
            assert_eq!((resets.unsolicited, resets.known), (2, 0), "{step}");
        }
    }
}
