//! Messages as bytes: a length, a head in JSON, and a body of numbers.
//!
//! A frame is `LENGTH HEAD-LENGTH HEAD BODY`: two 32-bit little-endian numbers, of which the first counts everything after
//! itself. See `docs/formats/machines.md`.

use std::io::{Read, Write};

use serde::Serialize;

use crate::message::Message;

/// Limit of the length of a frame: the counters of the largest host and the histograms of the largest mix are far below.
pub const FRAME_BYTES_MAX: usize = 32 << 20;

/// A message and its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame<M> {
    /// The message.
    pub head: M,
    /// Histograms or readings; empty for most messages.
    pub body: Vec<u8>,
}

impl<M> From<M> for Frame<M> {
    fn from(head: M) -> Self {
        Frame { head, body: Vec::new() }
    }
}

/// Why a frame could not be read.
#[derive(Debug)]
pub enum FrameError {
    /// The other side closed the connection between two frames.
    Closed,
    /// It could not be read or written.
    Io(std::io::Error),
    /// It is no frame of this version.
    Malformed(String),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::Closed => f.write_str("the connection was closed"),
            FrameError::Io(error) => write!(f, "the connection failed: {error}"),
            FrameError::Malformed(what) => write!(f, "a message could not be understood: {what}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The bytes of a frame.
///
/// # Errors
/// When it is too long.
pub fn encode<M: Serialize>(frame: &Frame<M>) -> Result<Vec<u8>, FrameError> {
    let mut out = vec![0; 8];
    serde_json::to_writer(&mut out, &frame.head).map_err(|error| FrameError::Malformed(error.to_string()))?;
    let head = out.len() - 8;
    out.extend_from_slice(&frame.body);
    let length = out.len() - 4;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Malformed(format!("{length} bytes are more than {FRAME_BYTES_MAX}")));
    }
    out[..4].copy_from_slice(&(length as u32).to_le_bytes());
    out[4..8].copy_from_slice(&(head as u32).to_le_bytes());
    Ok(out)
}

/// The frame in these bytes, which follow its length.
///
/// # Errors
/// When it is no frame, or has a number that is not possible.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<Frame<M>, FrameError> {
    let malformed = |what: &str| FrameError::Malformed(what.into());
    let (head, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| malformed("it is too short"))?;
    let head = u32::from_le_bytes(*head) as usize;
    let (head, body) = rest.split_at_checked(head).ok_or_else(|| malformed("its head is cut off"))?;
    let head: M = serde_json::from_slice(head).map_err(|error| FrameError::Malformed(error.to_string()))?;
    head.check().map_err(FrameError::Malformed)?;
    Ok(Frame { head, body: body.to_vec() })
}

/// Writes a frame.
///
/// # Errors
/// When it is too long or cannot be written.
pub fn write<M: Serialize>(to: &mut impl Write, frame: &Frame<M>) -> Result<(), FrameError> {
    to.write_all(&encode(frame)?).and_then(|()| to.flush()).map_err(FrameError::Io)
}

/// Reads a frame.
///
/// # Errors
/// When the connection ends or fails, or when what arrives is no frame.
pub fn read<M: Message>(from: &mut impl Read) -> Result<Frame<M>, FrameError> {
    let mut length = [0; 4];
    match from.read(&mut length[..1]).map_err(FrameError::Io)? {
        0 => return Err(FrameError::Closed),
        _ => from.read_exact(&mut length[1..]).map_err(FrameError::Io)?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Malformed(format!("{length} bytes are more than {FRAME_BYTES_MAX}")));
    }
    // Grows with what arrives, so that a stated length alone takes no memory.
    let mut bytes = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut bytes).map_err(FrameError::Io)?;
    if read < length {
        return Err(FrameError::Malformed("it is cut off".into()));
    }
    decode(&bytes)
}

/// Frames of a stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct Pieces {
    bytes: Vec<u8>,
    /// Bytes of frames that were taken.
    taken: usize,
}

impl Pieces {
    /// Adds what arrived.
    pub fn add(&mut self, piece: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(piece);
    }

    /// Whether nothing waits for its rest.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Takes the next frame, if it has arrived whole.
    ///
    /// # Errors
    /// When it is no frame.
    pub fn take<M: Message>(&mut self) -> Result<Option<Frame<M>>, FrameError> {
        let Some((length, rest)) = self.bytes[self.taken..].split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::Malformed(format!("{length} bytes are more than {FRAME_BYTES_MAX}")));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let frame = decode(frame)?;
        self.taken += 4 + length;
        if self.is_empty() {
            // Hundreds of machines keep no memory for their largest frame.
            *self = Pieces::default();
        }
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToAgent;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut stream = Vec::new();
        for number in [0, 7, u64::MAX] {
            write(
                &mut stream,
                &Frame { head: ToAgent::Ping { number }, body: vec![1; number.min(9) as usize] },
            )
            .unwrap();
        }
        let mut rest = &stream[..];
        for number in [0, 7, u64::MAX] {
            let frame: Frame<ToAgent> = read(&mut rest).unwrap();
            assert!(matches!(frame.head, ToAgent::Ping { number: found } if found == number));
            assert_eq!(frame.body.len() as u64, number.min(9));
        }
        assert!(matches!(read::<ToAgent>(&mut rest), Err(FrameError::Closed)));
        // Cut anywhere but between frames, a stream is malformed, and nothing is read of the frame.
        let first = encode(&Frame::from(ToAgent::Ping { number: 0 })).unwrap().len();
        for cut in 1..first {
            let mut rest = &stream[..cut];
            assert!(
                matches!(read::<ToAgent>(&mut rest), Err(FrameError::Malformed(_) | FrameError::Io(_))),
                "{cut}"
            );
        }
    }

    #[test]
    fn pieces_of_a_stream_are_the_frames_that_were_written() {
        let mut stream = Vec::new();
        let frame = |number| Frame { head: ToAgent::Ping { number }, body: vec![7; number as usize % 5] };
        for number in 0..9 {
            write(&mut stream, &frame(number)).unwrap();
        }
        for size in 1..stream.len() {
            let (mut pieces, mut found) = (Pieces::default(), Vec::new());
            for piece in stream.chunks(size) {
                pieces.add(piece);
                while let Some(frame) = pieces.take::<ToAgent>().unwrap() {
                    let ToAgent::Ping { number } = frame.head else { panic!("{frame:?}") };
                    found.push((number, frame.body.len() as u64));
                }
            }
            assert_eq!(found, (0..9).map(|number| (number, number % 5)).collect::<Vec<_>>(), "{size}");
            assert!(pieces.is_empty());
        }
    }

    #[test]
    fn what_is_no_frame_takes_no_memory_and_is_refused() {
        let long = (FRAME_BYTES_MAX as u32 + 1).to_le_bytes();
        let claims = [&(FRAME_BYTES_MAX as u32).to_le_bytes()[..], b"short"].concat();
        let head = [&20_u32.to_le_bytes()[..], &99_u32.to_le_bytes(), b"{}"].concat();
        let unknown = [&17_u32.to_le_bytes()[..], &13_u32.to_le_bytes(), b"{\"message\":1}"].concat();
        for bytes in [&long[..], &claims, &head, &unknown, b"hello, world"] {
            let mut rest = bytes;
            assert!(matches!(read::<ToAgent>(&mut rest), Err(FrameError::Malformed(_))), "{bytes:?}");
            let mut pieces = Pieces::default();
            pieces.add(bytes);
            let found = pieces.take::<ToAgent>();
            assert!(matches!(found, Err(FrameError::Malformed(_)) | Ok(None)), "{bytes:?}");
            assert!(!pieces.is_empty(), "{bytes:?}");
        }
    }
}
