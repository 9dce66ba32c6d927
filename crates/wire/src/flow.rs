//! The messages of one direction: found in the bytes of the stream, whatever the segments, with bytes missing.

use model::wire::MissedKind;

use crate::direction::Piece;
use crate::shared::Shared;

/// The most bytes of a message that are kept until it is complete. Of a longer one, only these are read.
pub(crate) const KEPT_MAX: usize = 64 << 10;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// What the bytes at a position are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// More of them are needed.
    More,
    /// A message, or a part of one, of this length. It was noted, and ends later.
    Take {
        length: u64,
        /// Whether the message ends with it.
        ends: bool,
    },
    /// No message begins here.
    Lost,
    /// From here on, the bytes are not analysed.
    Stop,
}

/// The messages of both directions of a connection.
pub(crate) trait Conversation {
    /// Reads the start of `bytes`. `is_all`: no more of them will be there.
    fn parse(&mut self, side: Side, bytes: &[u8], is_all: bool, shared: &mut Shared) -> Parsed;
    /// The message that was read last has ended, after so many bytes.
    fn ended(&mut self, side: Side, bytes: u64, shared: &mut Shared);
    /// Where a message seems to begin, after the position in the stream was lost.
    fn find(&self, side: Side, bytes: &[u8]) -> Option<usize>;
    /// The position in the stream was lost.
    fn lost(&mut self, side: Side, shared: &mut Shared);
    /// Whether the connection is not analysed any more.
    fn has_stopped(&self) -> bool;
}

/// The position in the messages of one direction.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// The start of an incomplete message.
    pub(crate) buffer: Vec<u8>,
    /// Bytes of the current message that are passed over.
    skip: u64,
    /// Whether the message ends after these.
    ends: bool,
    /// Bytes of the current message so far.
    message_bytes: u64,
    /// The position is lost until a message is found.
    pub(crate) is_lost: bool,
}

impl Flow {
    /// Takes the next part of the stream.
    pub(crate) fn take(
        &mut self,
        side: Side,
        piece: Piece<'_>,
        of: &mut impl Conversation,
        shared: &mut Shared,
    ) {
        match piece {
            Piece::Bytes(bytes) => self.bytes(side, bytes, of, shared),
            Piece::Hole(length) => self.hole(side, length, of, shared),
        }
    }

    fn bytes(&mut self, side: Side, mut bytes: &[u8], of: &mut impl Conversation, shared: &mut Shared) {
        loop {
            if self.skip > 0 {
                let step = self.skip.min(bytes.len() as u64);
                self.pass(side, step, of, shared);
                bytes = &bytes[step as usize..];
            }
            if bytes.is_empty() || of.has_stopped() {
                return;
            }
            if self.is_lost {
                let found = of.find(side, bytes);
                self.skipped(found.unwrap_or(bytes.len()), shared);
                let Some(at) = found else { return };
                self.is_lost = false;
                bytes = &bytes[at..];
            }
            if self.buffer.is_empty() {
                match of.parse(side, bytes, bytes.len() >= KEPT_MAX, shared) {
                    Parsed::Take { length, ends } => self.begin(length, ends),
                    Parsed::More => return self.keep(side, bytes, of, shared),
                    Parsed::Stop => return,
                    Parsed::Lost => {
                        of.lost(side, shared);
                        self.is_lost = true;
                        // A message may begin at any later byte.
                        self.skipped(1, shared);
                        bytes = &bytes[1..];
                    }
                }
                continue;
            }
            let room = KEPT_MAX.saturating_sub(self.buffer.len()).min(bytes.len());
            let before = self.buffer.len();
            if !shared.reserve(room) {
                self.clear(shared);
                self.lose(side, of, shared);
                continue;
            }
            self.buffer.extend_from_slice(&bytes[..room]);
            match of.parse(side, &self.buffer, self.buffer.len() >= KEPT_MAX, shared) {
                Parsed::Take { length, ends } => {
                    // It ends in the new bytes, or after them.
                    let new = (length as usize).saturating_sub(before).min(room);
                    self.clear(shared);
                    self.begin(length, ends);
                    self.pass(side, (before + new) as u64, of, shared);
                    bytes = &bytes[new..];
                }
                Parsed::More => {
                    bytes = &bytes[room..];
                    if room == 0 {
                        // More than is kept: no such message is known.
                        self.clear(shared);
                        self.lose(side, of, shared);
                    }
                }
                Parsed::Stop => return self.clear(shared),
                Parsed::Lost => {
                    let kept = before as u64;
                    self.clear(shared);
                    self.skipped(kept as usize, shared);
                    self.lose(side, of, shared);
                }
            }
        }
    }

    /// Bytes were not captured; 0 after a jump to another position, of which nothing is known.
    fn hole(&mut self, side: Side, mut length: u64, of: &mut impl Conversation, shared: &mut Shared) {
        if !self.buffer.is_empty() {
            // Its header may be there, and so its length.
            let parsed = of.parse(side, &self.buffer, true, shared);
            let kept = self.buffer.len();
            self.clear(shared);
            match parsed {
                Parsed::Take { length, ends } => {
                    self.begin(length, ends);
                    self.pass(side, kept as u64, of, shared);
                }
                _ => self.skipped(kept, shared),
            }
        }
        let step = self.skip.min(length);
        if step > 0 {
            self.pass(side, step, of, shared);
            length -= step;
            if length == 0 {
                return;
            }
        }
        if !of.has_stopped() {
            if !self.is_lost {
                self.lose(side, of, shared);
            }
            self.skipped(length as usize, shared);
        }
    }

    /// The connection has ended.
    pub(crate) fn end(&mut self, side: Side, of: &mut impl Conversation, shared: &mut Shared) {
        self.clear(shared);
        // The body of a response may end with the connection.
        if self.skip > u64::MAX / 2 {
            self.skip = 0;
            of.ended(side, std::mem::take(&mut self.message_bytes), shared);
        }
    }

    fn begin(&mut self, length: u64, ends: bool) {
        self.skip = length;
        self.ends = ends;
    }

    /// Passes over bytes of the current message.
    fn pass(&mut self, side: Side, bytes: u64, of: &mut impl Conversation, shared: &mut Shared) {
        let step = self.skip.min(bytes);
        self.skip -= step;
        self.message_bytes += step;
        if self.skip == 0 && self.ends {
            self.ends = false;
            of.ended(side, std::mem::take(&mut self.message_bytes), shared);
        }
    }

    fn keep(&mut self, side: Side, bytes: &[u8], of: &mut impl Conversation, shared: &mut Shared) {
        match shared.reserve(bytes.len()) {
            true => self.buffer.extend_from_slice(bytes),
            false => self.lose(side, of, shared),
        }
    }

    fn lose(&mut self, side: Side, of: &mut impl Conversation, shared: &mut Shared) {
        of.lost(side, shared);
        self.is_lost = true;
        self.skip = 0;
        self.ends = false;
        self.message_bytes = 0;
    }

    fn skipped(&mut self, bytes: usize, shared: &mut Shared) {
        self.message_bytes = 0;
        if bytes > 0 {
            shared.miss(MissedKind::SkippedBytes, bytes as u64);
        }
    }

    /// Forgets the start of a message, and frees its memory.
    pub(crate) fn clear(&mut self, shared: &mut Shared) {
        shared.release(self.buffer.len());
        self.buffer = Vec::new();
    }
}
