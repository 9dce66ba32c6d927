//! Frames as messages of a broker: pieces of a stream of bytes, numbered, so that loss and repetition are noticed.
//!
//! A piece is `KIND NUMBER BYTES`: a byte, a 64-bit little-endian number that counts the pieces of one direction of a session
//! from 0, and what it carries. See `docs/formats/machines.md`.

use std::collections::BTreeMap;

/// Most bytes that a piece carries. A server allows 1 MB by default; smaller pieces keep an answer to a ping from waiting behind a
/// large frame.
pub const PIECE_BYTES_MAX: usize = 128 << 10;

/// Bytes of a piece before what it carries.
pub const HEAD_BYTES: usize = 9;

/// Most pieces, and most bytes in them, that wait for an earlier one.
const WAITING_MAX: usize = 16 << 10;
const WAITING_BYTES_MAX: usize = 64 << 20;

const DATA: u8 = b'D';
const END: u8 = b'E';

/// What a piece carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The next bytes of the stream.
    Data(Vec<u8>),
    /// The other side has ended the session, with the reason; empty if it is over as planned.
    End(String),
}

/// The bytes of a piece.
pub fn encode(number: u64, piece: &Piece) -> Vec<u8> {
    let (kind, bytes) = match piece {
        Piece::Data(bytes) => (DATA, &bytes[..]),
        Piece::End(why) => (END, why.as_bytes()),
    };
    let mut out = Vec::with_capacity(HEAD_BYTES + bytes.len());
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// The number of a piece, and what it carries.
///
/// # Errors
/// Why it is none.
pub fn decode(bytes: &[u8]) -> Result<(u64, Piece), String> {
    let (kind, rest) = bytes.split_first().ok_or("an empty message")?;
    let (number, carried) = rest.split_first_chunk::<8>().ok_or("a message that is cut off")?;
    if carried.len() > PIECE_BYTES_MAX {
        return Err(format!("a message of {} bytes", carried.len()));
    }
    let piece = match *kind {
        DATA => Piece::Data(carried.to_vec()),
        END => Piece::End(String::from_utf8_lossy(carried).into_owned()),
        _ => return Err("a message of an unknown kind".into()),
    };
    Ok((u64::from_le_bytes(*number), piece))
}

/// Puts the pieces of a session in order.
#[derive(Debug, Default)]
pub struct Inbound {
    next: u64,
    waiting: BTreeMap<u64, Piece>,
    waiting_bytes: usize,
}

impl Inbound {
    /// Takes a message. Returns the pieces that are next, in order; those that were taken before are dropped.
    ///
    /// # Errors
    /// When it is no piece, or too many wait for a missing one.
    pub fn take(&mut self, message: &[u8]) -> Result<Vec<Piece>, String> {
        let (number, piece) = decode(message)?;
        if number < self.next || self.waiting.contains_key(&number) {
            return Ok(Vec::new());
        }
        self.waiting_bytes += message.len();
        self.waiting.insert(number, piece);
        let mut ready = Vec::new();
        while let Some(piece) = self.waiting.remove(&self.next) {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(length(&piece) + HEAD_BYTES);
            // A session has fewer pieces than there are numbers.
            self.next = self.next.saturating_add(1);
            ready.push(piece);
        }
        if self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX {
            return Err("too many messages arrived after one that is missing".into());
        }
        Ok(ready)
    }

    /// How many pieces are missing before one that has arrived.
    pub fn missing(&self) -> u64 {
        self.waiting.keys().next().map_or(0, |first| first - self.next)
    }
}

fn length(piece: &Piece) -> usize {
    match piece {
        Piece::Data(bytes) => bytes.len(),
        Piece::End(why) => why.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data(number: u64) -> Vec<u8> {
        encode(number, &Piece::Data(vec![number as u8; number as usize]))
    }

    #[test]
    fn a_piece_is_read_as_it_was_written() {
        for piece in [Piece::Data(vec![]), Piece::Data(vec![7; PIECE_BYTES_MAX]), Piece::End("over".into())] {
            assert_eq!(decode(&encode(u64::MAX, &piece)), Ok((u64::MAX, piece)));
        }
        for (bytes, why) in [
            (&b""[..], "empty"),
            (b"D", "cut off"),
            (b"D1234567", "cut off"),
            (b"X12345678", "unknown"),
            (&encode(0, &Piece::Data(vec![0; PIECE_BYTES_MAX + 1])), "131073 bytes"),
        ] {
            assert!(decode(bytes).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn a_missing_piece_is_noticed_and_what_follows_waits_for_it() {
        let mut inbound = Inbound::default();
        assert_eq!(inbound.take(&data(0)).unwrap().len(), 1);
        assert!(inbound.take(&data(2)).unwrap().is_empty());
        assert!(inbound.take(&data(5)).unwrap().is_empty());
        assert_eq!(inbound.missing(), 1);
        // It arrives, and again.
        assert_eq!(inbound.take(&data(1)).unwrap().len(), 2);
        assert!(inbound.take(&data(1)).unwrap().is_empty() && inbound.take(&data(5)).unwrap().is_empty());
        assert_eq!(inbound.missing(), 2);
        assert!(inbound.take(&data(4)).unwrap().is_empty());
        assert_eq!(inbound.take(&data(3)).unwrap().len(), 3);
        assert_eq!((inbound.missing(), inbound.waiting_bytes), (0, 0));
    }

    #[test]
    fn what_waits_is_limited() {
        let mut inbound = Inbound::default();
        let large = |number| encode(number, &Piece::Data(vec![0; PIECE_BYTES_MAX]));
        let refused = (1..).find(|number| inbound.take(&large(*number)).is_err()).unwrap();
        assert!(refused as usize <= WAITING_BYTES_MAX / PIECE_BYTES_MAX + 1);
        let mut inbound = Inbound::default();
        let refused = (1..).find(|number| inbound.take(&encode(*number, &Piece::Data(vec![]))).is_err());
        assert_eq!(refused, Some(WAITING_MAX as u64 + 1));
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_and_repeated_are_the_stream(
            order in Just((0..20u64).collect::<Vec<_>>()).prop_shuffle(),
            again in prop::collection::vec(0..20u64, 0..20),
        ) {
            let mut inbound = Inbound::default();
            let mut found = Vec::new();
            for number in again.iter().chain(&order).chain(&again) {
                found.extend(inbound.take(&data(*number)).unwrap());
            }
            let expected: Vec<Piece> = (0..20u64).map(|number| decode(&data(number)).unwrap().1).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
