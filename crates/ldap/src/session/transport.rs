//! The socket, with or without TLS. Only [`Transport::wait`] blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::net::SendFlags;
use rustls::ClientConnection;

use super::wait::ready;

/// Number of bytes that are read from the socket at a time.
const READ_BYTES: usize = 64 << 10;

/// A non-blocking socket, of TCP or local.
pub(super) struct Socket(pub(super) OwnedFd);

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, into)?)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A socket with or without TLS.
pub(super) enum Transport {
    Plain(Socket),
    Tls(Box<ClientConnection>, Socket),
    /// Temporary, during the change to TLS.
    Changing,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Bytes,
    Nothing,
    End,
}

impl Transport {
    /// Switches to TLS for all further data.
    pub(super) fn begin_tls(&mut self, connection: ClientConnection) {
        *self = match std::mem::replace(self, Transport::Changing) {
            Transport::Plain(stream) => Transport::Tls(Box::new(connection), stream),
            other => other,
        };
    }

    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Transport::Tls(connection, _) if connection.is_handshaking())
    }

    /// Whether TLS has something to send.
    pub(super) fn has_pending(&self) -> bool {
        matches!(self, Transport::Tls(connection, _) if connection.wants_write())
    }

    /// Sends pending TLS data, as far as the network accepts it.
    pub(super) fn send_pending(&mut self) -> io::Result<()> {
        if let Transport::Tls(connection, stream) = self {
            while connection.wants_write() {
                match unblocked(connection.write_tls(stream))? {
                    Some(0) => return Err(ErrorKind::WriteZero.into()),
                    Some(_) => {}
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Sends some of these bytes; returns 0 if none are accepted now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => match unblocked(stream.write(bytes))? {
                Some(0) if !bytes.is_empty() => Err(ErrorKind::WriteZero.into()),
                Some(written) => Ok(written),
                None => Ok(0),
            },
            Transport::Tls(connection, _) => {
                // TLS buffers data up to its limit until it can be sent.
                let taken = connection.writer().write(bytes)?;
                self.send_pending()?;
                Ok(taken)
            }
            Transport::Changing => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Appends received data.
    pub(super) fn read(&mut self, input: &mut Vec<u8>) -> io::Result<ReadOutcome> {
        let before = input.len();
        match self {
            Transport::Plain(stream) => {
                input.reserve(READ_BYTES);
                let read = rustix::io::read(&stream.0, spare_capacity(input)).map_err(io::Error::from);
                Ok(match unblocked(read)? {
                    None => ReadOutcome::Nothing,
                    Some(0) => ReadOutcome::End,
                    Some(_) => ReadOutcome::Bytes,
                })
            }
            Transport::Tls(connection, stream) => {
                let read = unblocked(connection.read_tls(stream))?;
                let state = connection.process_new_packets().map_err(|error| {
                    // Tells the server the TLS alert; whether it arrives does not matter.
                    let _ = connection.write_tls(stream);
                    io::Error::new(ErrorKind::InvalidData, error)
                })?;
                let coming = state.plaintext_bytes_to_read();
                input.resize(before + coming, 0);
                connection.reader().read_exact(&mut input[before..])?;
                Ok(if coming > 0 {
                    ReadOutcome::Bytes
                } else if state.peer_has_closed() || read == Some(0) {
                    ReadOutcome::End
                } else {
                    // A part of a record or of the handshake.
                    ReadOutcome::Nothing
                })
            }
            Transport::Changing => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Waits until data can be sent or received, or the time is over.
    pub(super) fn wait(&self, write: bool, read: bool, time: Duration) -> io::Result<()> {
        let (Transport::Plain(stream) | Transport::Tls(_, stream)) = self else { return Ok(()) };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, read);
        flags.set(PollFlags::OUT, write);
        ready(stream, flags, time).map(drop)
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
