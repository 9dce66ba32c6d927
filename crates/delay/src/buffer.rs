//! The bytes of one direction that are not written yet: in blocks of a pool, with the times at which they are due.

use std::collections::VecDeque;
use std::io::IoSlice;

use model::Nanos;

/// Size of a block.
pub(crate) const BLOCK_BYTES: usize = 65_536;

/// Free blocks that are kept for reuse: 64 MiB.
const FREE_BLOCKS_MAX: usize = 1024;

/// Most slices of one write.
pub(crate) const SLICES_MAX: usize = 16;

/// Most pieces of one direction: small pieces need more memory for their times than for their bytes.
pub(crate) const MARKS_MAX: usize = 1 << 18;

/// A part of a stream.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

/// The blocks of all connections.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Box<[u8]>>,
    used: usize,
    used_max: usize,
}

impl Pool {
    /// Blocks for this many bytes.
    pub(crate) fn new(bytes_max: u64) -> Pool {
        let used_max = (bytes_max / BLOCK_BYTES as u64).max(1) as usize;
        Pool { free: Vec::new(), used: 0, used_max }
    }

    /// Whether no block is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used >= self.used_max
    }

    fn take(&mut self) -> Block {
        self.used += 1;
        let bytes = self.free.pop().unwrap_or_else(|| vec![0; BLOCK_BYTES].into_boxed_slice());
        Block { bytes, begin: 0, end: 0 }
    }

    fn give(&mut self, block: Block) {
        self.used -= 1;
        if self.free.len() < FREE_BLOCKS_MAX {
            self.free.push(block.bytes);
        }
    }
}

/// Bytes with one due time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) bytes: usize,
    pub(crate) arrival_ns: Nanos,
    pub(crate) due_ns: Nanos,
}

/// A queue of bytes with their due times, in order.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    blocks: VecDeque<Block>,
    marks: VecDeque<Mark>,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes in it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has_room_for_marks(&self) -> bool {
        self.marks.len() < MARKS_MAX
    }

    /// When its first bytes are due.
    pub(crate) fn due_ns(&self) -> Option<Nanos> {
        self.marks.front().map(|mark| mark.due_ns)
    }

    /// Free space at its end to read into; [`Buffer::filled`] follows.
    pub(crate) fn space(&mut self, pool: &mut Pool) -> &mut [u8] {
        if self.blocks.back().is_none_or(|block| block.end == block.bytes.len()) {
            self.blocks.push_back(pool.take());
        }
        match self.blocks.back_mut() {
            Some(block) => &mut block.bytes[block.end..],
            None => &mut [],
        }
    }

    /// So many bytes were read into the space. [`Buffer::mark`] gives them their times.
    pub(crate) fn filled(&mut self, bytes: usize, pool: &mut Pool) {
        if let Some(block) = self.blocks.back_mut() {
            block.end += bytes;
            if block.begin == block.end
                && let Some(block) = self.blocks.pop_back()
            {
                pool.give(block);
            }
        }
        self.bytes += bytes;
    }

    /// The next bytes without times are due at a time.
    pub(crate) fn mark(&mut self, mark: Mark) {
        match self.marks.back_mut() {
            Some(last) if (last.due_ns, last.arrival_ns) == (mark.due_ns, mark.arrival_ns) => {
                last.bytes += mark.bytes;
            }
            _ if mark.bytes > 0 => self.marks.push_back(mark),
            _ => {}
        }
    }

    /// Removes bytes at the end that have no times.
    pub(crate) fn truncate(&mut self, mut bytes: usize, pool: &mut Pool) {
        self.bytes -= bytes;
        while bytes > 0
            && let Some(block) = self.blocks.back_mut()
        {
            let cut = bytes.min(block.end - block.begin);
            block.end -= cut;
            bytes -= cut;
            if block.begin == block.end
                && let Some(block) = self.blocks.pop_back()
            {
                pool.give(block);
            }
        }
    }

    /// Copies bytes to its end.
    pub(crate) fn append(&mut self, mut bytes: &[u8], pool: &mut Pool) {
        while !bytes.is_empty() {
            let space = self.space(pool);
            let length = space.len().min(bytes.len());
            space[..length].copy_from_slice(&bytes[..length]);
            self.filled(length, pool);
            bytes = &bytes[length..];
        }
    }

    /// Bytes that are due, and their slices: as many as one write may have.
    pub(crate) fn due(&self, now_ns: Nanos) -> Vec<IoSlice<'_>> {
        let mut left = 0;
        for mark in self.marks.iter().take_while(|mark| mark.due_ns <= now_ns) {
            left += mark.bytes;
            if left >= SLICES_MAX * BLOCK_BYTES {
                break;
            }
        }
        let mut slices = Vec::with_capacity(self.blocks.len().min(SLICES_MAX));
        for block in self.blocks.iter().take(SLICES_MAX) {
            let bytes = &block.bytes[block.begin..block.end];
            let part = &bytes[..bytes.len().min(left)];
            left -= part.len();
            if part.is_empty() {
                break;
            }
            slices.push(IoSlice::new(part));
        }
        slices
    }

    /// So many bytes were written. Reports each mark whose last byte is among them.
    pub(crate) fn written(&mut self, bytes: usize, pool: &mut Pool, mut done: impl FnMut(&Mark)) {
        self.bytes -= bytes;
        let mut left = bytes;
        while left > 0
            && let Some(block) = self.blocks.front_mut()
        {
            let part = left.min(block.end - block.begin);
            block.begin += part;
            left -= part;
            if block.begin == block.end
                && let Some(block) = self.blocks.pop_front()
            {
                pool.give(block);
            }
        }
        left = bytes;
        while left > 0
            && let Some(mark) = self.marks.front_mut()
        {
            let part = left.min(mark.bytes);
            mark.bytes -= part;
            left -= part;
            if mark.bytes == 0 {
                done(mark);
                self.marks.pop_front();
            }
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.blocks.drain(..).for_each(|block| pool.give(block));
        self.marks.clear();
        self.bytes = 0;
    }
}
