//! The socket of a session with a PostgreSQL server, the timeouts of its operations, and size limits of
//! received data.
//!
//! The protocol is a state machine of `tokio-postgres` that reads and writes a [`Stream`] and never waits.
//! The caller waits for the socket with `poll(2)`, so one place checks the deadline and the interrupt. A
//! server that sends without end could keep the state machine from returning there, so each read checks them
//! too.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ldap::session::wait;
use rustix::event::PollFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Interrupt;

/// The size limit of a row.
const ROW_BYTES_MAX: u64 = 128 << 20;
/// The size limit of any other message.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// The size limit of a result that is kept in memory.
pub(super) const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// The size limit of the parameters that a server reports in a session, which are kept in memory.
const PARAMETERS_BYTES_MAX: u64 = 1 << 20;

/// A non-blocking socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

/// What counts as progress of an operation and restarts its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing; the timeout applies to the whole operation.
    None,
    /// A received row.
    Rows,
    /// Data that the server accepts.
    Sent,
}

/// To what the remaining time after an interrupt applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// To all operations of the session together.
    Session,
    /// To each operation: the remaining ones of a batch are few, and they commit it.
    Operation,
}

/// The timeout of an operation.
#[derive(Debug)]
struct Clock {
    since: Instant,
    timeout: Duration,
    progress: Progress,
    /// Number of received bytes, and its limit.
    bytes: u64,
    bytes_max: u64,
    /// Bytes of parameters in this session.
    parameters: u64,
    /// When an interrupt was seen in this operation.
    interrupted: Option<Instant>,
    /// Why the session was abandoned.
    given_up: Option<String>,
}

/// A socket with its timeout, shared by the streams that read and write it and by the waiting caller.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    wants_write: AtomicBool,
    clock: Mutex<Clock>,
    interrupt: Interrupt,
    grace: Grace,
}

impl Wire {
    pub(super) fn new(socket: Socket, interrupt: Interrupt, grace: Grace) -> Arc<Wire> {
        let clock = Clock {
            since: Instant::now(),
            timeout: Duration::ZERO,
            progress: Progress::None,
            bytes: 0,
            bytes_max: 0,
            parameters: 0,
            interrupted: None,
            given_up: None,
        };
        let (wants_write, clock) = (AtomicBool::new(false), Mutex::new(clock));
        Arc::new(Wire { socket, wants_write, clock, interrupt, grace })
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation.
    pub(super) fn begin(&self, progress: Progress, timeout: Duration, bytes_max: u64) {
        let mut clock = self.clock();
        (clock.since, clock.timeout, clock.progress) = (Instant::now(), timeout, progress);
        (clock.bytes, clock.bytes_max, clock.interrupted) = (0, bytes_max, None);
    }

    /// Why the session was abandoned.
    pub(super) fn given_up(&self) -> Option<String> {
        self.clock().given_up.clone()
    }

    /// Abandons the session: nothing is sent or received from now on.
    fn give_up(clock: &mut Clock, why: String) -> io::Error {
        io::Error::other(clock.given_up.get_or_insert(why).clone())
    }

    /// Checks the deadline and the interrupt, and returns the remaining time.
    fn check(&self) -> io::Result<Duration> {
        let mut clock = self.clock();
        if let Some(why) = &clock.given_up {
            return Err(io::Error::other(why.clone()));
        }
        let is_over = self.interrupt.is_set()
            && match self.grace {
                Grace::Session => self.interrupt.is_over(),
                Grace::Operation => {
                    clock.interrupted.get_or_insert_with(Instant::now).elapsed() >= wait::GRACE
                }
            };
        if is_over {
            return Err(Wire::give_up(&mut clock, "interrupted".into()));
        }
        let left = clock.timeout.saturating_sub(clock.since.elapsed());
        if left.is_zero() {
            // Another server may have used a part of the connection timeout.
            let seconds = clock.timeout.as_secs_f64();
            let waited = if seconds < 0.95 { format!("{seconds:.1}") } else { seconds.round().to_string() };
            let why = match clock.progress {
                Progress::None => format!("waited {waited} s for an answer"),
                _ => format!("waited {waited} s without progress"),
            };
            return Err(Wire::give_up(&mut clock, why));
        }
        Ok(left)
    }

    /// Waits until the socket is ready, for a limited time.
    pub(super) fn wait(&self) -> io::Result<()> {
        let left = self.check()?;
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.wants_write.load(Ordering::Relaxed));
        wait::ready(&self.socket, flags, left.min(wait::SLICE)).map(drop)
    }

    /// Counts received bytes, after decryption.
    fn receive(&self, frames: &mut Frames, bytes: &[u8]) -> io::Result<()> {
        let came = frames.feed(bytes);
        let mut clock = self.clock();
        clock.bytes += bytes.len() as u64;
        match came {
            Ok(came) => {
                clock.parameters += came.parameters;
                if came.has_row && clock.progress == Progress::Rows {
                    clock.since = Instant::now();
                }
                if clock.parameters > PARAMETERS_BYTES_MAX {
                    return Err(Wire::give_up(
                        &mut clock,
                        "the server reports parameters without end".into(),
                    ));
                }
            }
            Err(why) => return Err(Wire::give_up(&mut clock, why)),
        }
        if clock.bytes > clock.bytes_max {
            let why = format!("an answer of more than {} MiB", clock.bytes_max >> 20);
            return Err(Wire::give_up(&mut clock, why));
        }
        Ok(())
    }

    fn read(&self, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        let free = into.initialize_unfilled();
        let read = match &self.socket {
            Socket::Tcp(stream) => (&*stream).read(free),
            Socket::Unix(stream) => (&*stream).read(free),
        };
        match unblocked(read)? {
            None => Poll::Pending,
            Some(count) => {
                into.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = match &self.socket {
            Socket::Tcp(stream) => (&*stream).write(bytes),
            Socket::Unix(stream) => (&*stream).write(bytes),
        };
        let written = unblocked(written)?;
        self.wants_write.store(written.is_none(), Ordering::Relaxed);
        match written {
            None => Poll::Pending,
            Some(count) => {
                let mut clock = self.clock();
                if clock.progress == Progress::Sent {
                    clock.since = Instant::now();
                }
                Poll::Ready(Ok(count))
            }
        }
    }

    fn shut_down(&self) -> io::Result<()> {
        let how = std::net::Shutdown::Write;
        match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `None` for an operation that would block or was interrupted: both are tried again.
fn unblocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finds the messages in received data: their starts and lengths.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; 5],
    have: usize,
    /// Remaining bytes of the current message.
    left: u64,
}

/// Counts of received data.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    has_row: bool,
    parameters: u64,
}

impl Frames {
    fn feed(&mut self, mut bytes: &[u8]) -> Result<Received, String> {
        let mut came = Received::default();
        loop {
            let passed = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= passed as u64;
            bytes = &bytes[passed..];
            if bytes.is_empty() {
                return Ok(came);
            }
            let taken = bytes.len().min(5 - self.have);
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have < 5 {
                return Ok(came);
            }
            self.have = 0;
            let [kind, length @ ..] = self.header;
            let length = u64::from(u32::from_be_bytes(length));
            let most = if kind == b'D' { ROW_BYTES_MAX } else { MESSAGE_BYTES_MAX };
            if !(4..=most).contains(&length) {
                return Err(format!("a message of {} bytes, where at most {most} are taken", length + 1));
            }
            self.left = length - 4;
            match kind {
                b'D' => came.has_row = true,
                b'S' => came.parameters += length,
                _ => {}
            }
        }
    }
}

/// The socket as the protocol reads and writes it.
#[derive(Debug)]
pub(crate) struct Stream {
    wire: Arc<Wire>,
    /// None if TLS is above it.
    frames: Option<Frames>,
}

impl Stream {
    pub(super) fn new(wire: &Arc<Wire>, is_below_tls: bool) -> Stream {
        let frames = if is_below_tls { None } else { Some(Frames::default()) };
        Stream { wire: Arc::clone(wire), frames }
    }

    /// A counter of the messages above TLS.
    pub(crate) fn counter(&self) -> Counter {
        Counter { wire: Arc::clone(&self.wire), frames: Frames::default() }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Stream { wire, frames } = self.get_mut();
        let before = into.filled().len();
        let read = wire.read(into);
        if let Some(frames) = frames {
            wire.receive(frames, &into.filled()[before..])?;
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wire.write(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.wire.shut_down())
    }
}

/// Counts messages above TLS.
#[derive(Debug)]
pub(crate) struct Counter {
    wire: Arc<Wire>,
    frames: Frames,
}

impl Counter {
    /// Counts received bytes.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.receive(&mut self.frames, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_whatever_the_pieces() {
        let bytes = b"Z\0\0\0\x05IS\0\0\0\x08a\0b\0D\0\0\0\x06\0\0N\0\0\0\x05\0";
        for piece in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut all = Received::default();
            for part in bytes.chunks(piece) {
                let came = frames.feed(part).unwrap();
                all.has_row |= came.has_row;
                all.parameters += came.parameters;
            }
            assert_eq!(all, Received { has_row: true, parameters: 8 }, "{piece}");
            assert_eq!((frames.left, frames.have), (0, 0));
        }
        for (wrong, reported) in [
            (&b"D\x7f\xff\xff\xff"[..], "2147483648 bytes"),
            (b"T\x7f\xff\xff\xff", "2147483648 bytes"),
            (b"Z\0\0\0\x03", "4 bytes"),
            (b"D\xff\xff\xff\xff", "4294967296 bytes"),
        ] {
            assert!(Frames::default().feed(wrong).unwrap_err().contains(reported));
        }
        assert!(Frames::default().feed(b"D\x07\0\0\0").is_ok());
    }
}
