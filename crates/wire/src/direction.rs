//! One direction of a TCP connection: puts segments into order, and counts what is wrong with them.

use crate::packet::{Segment, flag};
use crate::shared::Shared;

/// The most segments, and bytes, that are kept because an earlier one is missing.
const EARLY_MAX: usize = 64;
const EARLY_BYTES_MAX: usize = 256 << 10;

/// A jump of sequence numbers past this is another connection, not a gap.
const JUMP_MAX: u32 = 64 << 20;

/// A segment that fills a gap this long after a later one was retransmitted; before, packets only changed their order.
const REORDER_NS: u64 = 3_000_000;

/// A part of the stream, in order.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// Bytes that were not captured.
    Hole(u64),
}

/// A segment that came before one that precedes it.
#[derive(Debug)]
struct Early {
    sequence: u32,
    length: usize,
    payload: Box<[u8]>,
}

/// What is counted of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) retransmissions: u64,
    pub(crate) out_of_order: u64,
    pub(crate) zero_windows: u64,
    /// Segments, or rows of them, that were not captured.
    pub(crate) gaps: u64,
    pub(crate) gap_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// The sequence number of the next byte.
    next: u32,
    has_begun: bool,
    /// The highest number that the other side acknowledged.
    acknowledged: Option<u32>,
    early: Vec<Early>,
    early_bytes: usize,
    /// When the first segment after the current gap came.
    gap_since_ns: u64,
    pub(crate) trouble: Trouble,
    /// The sequence number of its FIN.
    fin: Option<u32>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Whether sequence number `a` is at or after `b`.
fn is_at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

impl Direction {
    /// The direction begins with a SYN of this number.
    pub(crate) fn begin(&mut self, sequence: u32) {
        self.next = sequence.wrapping_add(1);
        self.has_begun = true;
    }

    /// Whether all bytes before its FIN were passed on.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| is_at_or_after(self.next, fin))
    }

    /// Whether a SYN of this number is the one that the direction began with.
    pub(crate) fn begins_with(&self, sequence: u32) -> bool {
        self.has_begun && self.bytes == 0 && self.next == sequence.wrapping_add(1)
    }

    /// Takes a segment, and passes on what is then in order.
    pub(crate) fn accept(
        &mut self,
        segment: &Segment<'_>,
        shared: &mut Shared,
        take: &mut impl FnMut(Piece<'_>, &mut Shared),
    ) {
        self.packets += 1;
        let end_flags = flag::SYN | flag::FIN | flag::RST;
        if segment.window == 0 && segment.flags & end_flags == 0 {
            self.trouble.zero_windows += 1;
        }
        if segment.has(flag::RST) {
            return;
        }
        if !self.has_begun {
            self.next = segment.sequence;
            self.has_begun = true;
        }
        if segment.length > 0 {
            self.accept_data(segment, shared, take);
        }
        if segment.has(flag::FIN) {
            self.fin = Some(segment.sequence.wrapping_add(segment.length as u32));
        }
    }

    fn accept_data(
        &mut self,
        segment: &Segment<'_>,
        shared: &mut Shared,
        take: &mut impl FnMut(Piece<'_>, &mut Shared),
    ) {
        let length = segment.length as u32;
        let ahead = segment.sequence.wrapping_sub(self.next);
        if ahead == 0 {
            if !self.early.is_empty() {
                // It fills the gap.
                match shared.now_ns.saturating_sub(self.gap_since_ns) > REORDER_NS {
                    true => self.trouble.retransmissions += 1,
                    false => self.trouble.out_of_order += 1,
                }
            }
            self.pass(segment.payload, segment.length, 0, shared, take);
            return self.drain(shared, take);
        }
        if ahead as i32 > 0 {
            let is_acknowledged = self.acknowledged.is_some_and(|of| is_at_or_after(of, segment.sequence));
            let may_wait = !is_acknowledged
                && ahead <= JUMP_MAX
                && self.early.len() < EARLY_MAX
                && self.early_bytes + segment.payload.len() <= EARLY_BYTES_MAX
                && shared.reserve(segment.payload.len());
            if may_wait {
                return self.keep(segment, shared.now_ns);
            }
            // The receiver has the bytes between, or they will not come: they were not captured.
            self.give_up_gaps(segment.sequence, shared, take);
            self.pass_late_or_next(segment, shared, take);
            return self.drain(shared, take);
        }
        let old = ahead.wrapping_neg();
        if old > JUMP_MAX {
            // Numbers of another connection with the same addresses, whose SYN was not captured.
            self.trouble.gaps += 1;
            take(Piece::Hole(0), shared);
            self.next = segment.sequence;
            return self.pass(segment.payload, segment.length, 0, shared, take);
        }
        // Old bytes, with new ones behind them or not. A keep-alive probe repeats one byte.
        let is_probe = length == 1 && old == 1;
        if !is_probe {
            self.trouble.retransmissions += 1;
        }
        if length > old {
            self.pass(segment.payload, segment.length, old as usize, shared, take);
            self.drain(shared, take);
        }
    }

    /// Passes a segment on that begins at or before the next byte.
    fn pass_late_or_next(
        &mut self,
        segment: &Segment<'_>,
        shared: &mut Shared,
        take: &mut impl FnMut(Piece<'_>, &mut Shared),
    ) {
        let old = self.next.wrapping_sub(segment.sequence);
        if (old as usize) < segment.length {
            self.pass(segment.payload, segment.length, old as usize, shared, take);
        }
    }

    /// Passes a payload of `length` bytes on, without the first `old` ones.
    fn pass(
        &mut self,
        payload: &[u8],
        length: usize,
        old: usize,
        shared: &mut Shared,
        take: &mut impl FnMut(Piece<'_>, &mut Shared),
    ) {
        let new = length - old;
        self.next = self.next.wrapping_add(new as u32);
        self.bytes += new as u64;
        let there = payload.get(old..).unwrap_or_default();
        if !there.is_empty() {
            take(Piece::Bytes(there), shared);
        }
        if there.len() < new {
            take(Piece::Hole((new - there.len()) as u64), shared);
        }
    }

    fn keep(&mut self, segment: &Segment<'_>, now_ns: u64) {
        if self.early.is_empty() {
            self.gap_since_ns = now_ns;
        }
        let offset = |sequence: u32| sequence.wrapping_sub(self.next);
        let place = self.early.partition_point(|of| offset(of.sequence) < offset(segment.sequence));
        if self
            .early
            .get(place)
            .is_some_and(|of| of.sequence == segment.sequence && of.length >= segment.length)
        {
            self.trouble.retransmissions += 1;
        }
        if place < self.early.len() {
            self.trouble.out_of_order += u64::from(self.early[place].sequence != segment.sequence);
        }
        self.early_bytes += segment.payload.len();
        let early =
            Early { sequence: segment.sequence, length: segment.length, payload: segment.payload.into() };
        self.early.insert(place, early);
    }

    /// Passes early segments on that are now in order.
    fn drain(&mut self, shared: &mut Shared, take: &mut impl FnMut(Piece<'_>, &mut Shared)) {
        while self.early.first().is_some_and(|of| is_at_or_after(self.next, of.sequence)) {
            let early = self.early.remove(0);
            self.early_bytes -= early.payload.len();
            shared.release(early.payload.len());
            let old = self.next.wrapping_sub(early.sequence) as usize;
            if old < early.length {
                self.pass(&early.payload, early.length, old, shared, take);
            }
        }
        // The next gap is younger than the one before.
        self.gap_since_ns = shared.now_ns;
    }

    /// Everything before `sequence` will not come: passes early segments on, with holes between them.
    fn give_up_gaps(
        &mut self,
        sequence: u32,
        shared: &mut Shared,
        take: &mut impl FnMut(Piece<'_>, &mut Shared),
    ) {
        loop {
            let to = match self.early.first() {
                Some(of) if is_at_or_after(sequence, of.sequence) => of.sequence,
                _ => sequence,
            };
            let missing = to.wrapping_sub(self.next);
            if missing as i32 > 0 {
                let is_jump = missing > JUMP_MAX;
                self.trouble.gaps += 1;
                self.trouble.gap_bytes += if is_jump { 0 } else { u64::from(missing) };
                self.next = to;
                take(Piece::Hole(if is_jump { 0 } else { u64::from(missing) }), shared);
            }
            self.drain(shared, take);
            if to == sequence || is_at_or_after(self.next, sequence) {
                return;
            }
        }
    }

    /// The other side acknowledged all bytes before `number`. Those of them that were not captured will not come.
    pub(crate) fn acknowledge(
        &mut self,
        number: u32,
        shared: &mut Shared,
        take: &mut impl FnMut(Piece<'_>, &mut Shared),
    ) {
        if self.acknowledged.is_none_or(|before| is_at_or_after(number, before)) {
            self.acknowledged = Some(number);
        }
        let last = self.early.iter().rev().find(|of| is_at_or_after(number, of.sequence));
        if let Some(last) = last.map(|of| of.sequence) {
            self.give_up_gaps(last, shared, take);
        }
    }

    /// The connection has ended: what is missing will not come.
    pub(crate) fn end(&mut self, shared: &mut Shared, take: &mut impl FnMut(Piece<'_>, &mut Shared)) {
        if let Some(last) = self.early.last().map(|of| of.sequence) {
            self.give_up_gaps(last, shared, take);
        }
    }
}
