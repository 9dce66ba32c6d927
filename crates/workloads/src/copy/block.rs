//! One block on its way: which transfer comes next, independent of the back end.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use engine::workload::LoadError;
use model::random::mix;

use super::failure::failed;
use super::settings::SECTOR;

/// A file that is being copied.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// Its place in the plan.
    pub(super) index: usize,
    pub(super) source: Option<(File, PathBuf)>,
    pub(super) destination: File,
    pub(super) destination_path: PathBuf,
    /// Blocks that are not copied yet.
    pub(super) blocks_left: AtomicU64,
}

/// A part of a file.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) file: Arc<OpenFile>,
    /// Which block of the whole copy this is.
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

/// Memory for one block, placed so that direct transfers take it.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// Memory for blocks of up to `bytes`, filled with bytes that do not compress. That also touches it, so that no page
    /// fault falls into a measurement.
    pub(super) fn new(bytes: u32, seed: u64) -> Self {
        let sector = SECTOR as usize;
        let bytes = (bytes as usize).next_multiple_of(sector);
        let mut memory = vec![0; bytes + sector];
        let start = memory.as_ptr().align_offset(sector).min(sector);
        let mut state = mix(!seed) | 1;
        for word in memory[start..start + bytes].chunks_exact_mut(8) {
            // xorshift64: its low quality does not matter, a compressor finds nothing in it.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        Buffer { memory, start, bytes }
    }

    pub(super) fn all(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }

    /// Makes the content of a generated block: random bytes that are the same for all, with a word in each 512 bytes that
    /// is its own, so that no two pieces are alike and a device that finds equal pieces finds none.
    pub(super) fn generate(&mut self, seed: u64, number: u64) {
        let key = mix(seed ^ mix(number));
        for (sector, bytes) in self.all().chunks_exact_mut(512).enumerate() {
            bytes[..8].copy_from_slice(&mix(key.wrapping_add(sector as u64)).to_le_bytes());
        }
    }
}

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    Write,
}

/// The transfer a block needs next.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) step: Step,
    pub(super) file: &'a File,
    /// Place in the file.
    pub(super) offset: u64,
    /// Part of the buffer.
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A block between its first read and its last write.
#[derive(Debug)]
pub(super) struct Transfer {
    block: Block,
    direct: bool,
    step: Step,
    /// Bytes of the present step that are done.
    moved: u32,
}

impl Transfer {
    /// Begins with the read, or with the write of a generated block, whose content is then made here.
    pub(super) fn begin(block: Block, direct: bool, buffer: &mut Buffer, seed: u64) -> Self {
        let step = if block.file.source.is_some() { Step::Read } else { Step::Write };
        if step == Step::Write {
            buffer.generate(seed, block.number);
        }
        let mut transfer = Transfer { block, direct, step, moved: 0 };
        transfer.pad(buffer);
        transfer
    }

    /// The block, when it is copied.
    pub(super) fn into_block(self) -> Block {
        self.block
    }

    /// How much is transferred: the last block of a file is filled up to whole sectors when the page cache is bypassed.
    /// The file is cut to its length when it is done.
    fn length(&self) -> u32 {
        if self.direct { self.block.bytes.next_multiple_of(SECTOR) } else { self.block.bytes }
    }

    /// Nothing of what the memory held before goes into a file.
    fn pad(&mut self, buffer: &mut Buffer) {
        if self.step == Step::Write {
            let (bytes, length) = (self.block.bytes as usize, self.length() as usize);
            buffer.all()[bytes..length].fill(0);
        }
    }

    /// What is to be done next; none for a block without bytes.
    pub(super) fn request(&self) -> Option<Request<'_>> {
        let file = match (&self.step, &self.block.file.source) {
            (Step::Read, Some((source, _))) => source,
            _ => &self.block.file.destination,
        };
        (self.block.bytes > 0).then(|| Request {
            step: self.step,
            file,
            offset: self.block.offset + u64::from(self.moved),
            from: self.moved as usize,
            to: self.length() as usize,
        })
    }

    /// Takes the result of the request: how many bytes were moved. True when the block is copied.
    ///
    /// # Errors
    /// The transfer's own, and a source that has become shorter.
    pub(super) fn advance(
        &mut self,
        result: io::Result<usize>,
        buffer: &mut Buffer,
    ) -> Result<bool, LoadError> {
        let moved = match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(failed(self.doing(), self.path(), &error)),
            Ok(moved) => moved,
        };
        let enough = match self.step {
            Step::Read => self.block.bytes,
            Step::Write => self.length(),
        };
        if moved == 0 {
            return Err(match self.step {
                Step::Read => LoadError::new(
                    format!(
                        "`{}` became shorter while it was copied: it ends before byte {}",
                        self.path().display(),
                        self.block.offset + u64::from(enough)
                    ),
                    "let nothing else write to it",
                ),
                Step::Write => failed("writing", self.path(), &io::ErrorKind::WriteZero.into()),
            });
        }
        self.moved = self.moved.saturating_add(u32::try_from(moved).unwrap_or(u32::MAX));
        if self.moved < enough {
            if self.direct {
                // The rest must begin at a sector, so a part may be transferred twice.
                self.moved -= self.moved % SECTOR;
            }
            return Ok(false);
        }
        if self.step == Step::Write {
            return Ok(true);
        }
        self.step = Step::Write;
        self.moved = 0;
        self.pad(buffer);
        Ok(false)
    }

    fn doing(&self) -> &'static str {
        match self.step {
            Step::Read => "reading",
            Step::Write => "writing",
        }
    }

    fn path(&self) -> &Path {
        match (&self.step, &self.block.file.source) {
            (Step::Read, Some((_, path))) => path,
            _ => &self.block.file.destination_path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use testkit::Scratch;

    #[test]
    fn a_buffer_is_placed_at_a_sector_and_no_two_pieces_are_alike() {
        let mut seen = HashSet::new();
        let mut pieces = 0;
        for slot in 0..2 {
            let mut buffer = Buffer::new(64 << 10, slot);
            assert_eq!(buffer.all().as_ptr().align_offset(SECTOR as usize), 0);
            for number in 0..4 {
                buffer.generate(1, slot * 4 + number);
                pieces += buffer.all().len() / 512;
                seen.extend(buffer.all().chunks(512).map(<[u8]>::to_vec));
            }
        }
        assert_eq!(seen.len(), pieces);
    }

    fn transfer(bytes: u32, direct: bool, buffer: &mut Buffer) -> Transfer {
        let folder = Scratch::new();
        let source = folder.file("source", "");
        let file = OpenFile {
            index: 0,
            source: Some((File::open(&source).unwrap(), source.clone())),
            destination: File::create(folder.join("destination")).unwrap(),
            destination_path: folder.join("destination"),
            blocks_left: AtomicU64::new(1),
        };
        let block = Block { file: Arc::new(file), number: 0, offset: 1 << 20, bytes };
        Transfer::begin(block, direct, buffer, 0)
    }

    proptest::proptest! {
        /// However the kernel splits the transfers, each ends, stays inside the block, and begins at a sector when direct.
        #[test]
        fn short_transfers_are_carried_on(bytes in 1u32..40_000, direct: bool, parts in proptest::collection::vec(1usize..9000, 1..20)) {
            let mut buffer = Buffer::new(40_000, 0);
            let mut transfer = transfer(bytes, direct, &mut buffer);
            let mut parts = parts.into_iter().cycle();
            let mut rounds = 0;
            loop {
                let request = transfer.request().unwrap();
                if direct {
                    proptest::prop_assert_eq!((request.from % 4096, request.to % 4096), (0, 0));
                }
                proptest::prop_assert_eq!(request.offset, (1 << 20) + request.from as u64);
                let end = match request.step { Step::Read => bytes as usize, Step::Write => request.to };
                proptest::prop_assert!(request.from < end && request.to <= buffer.all().len());
                // In direct mode at least a sector must be moved for there to be progress, as the kernel does.
                let part = parts.next().unwrap().max(if direct { 4096 } else { 1 });
                let moved = part.min(end - request.from);
                if transfer.advance(Ok(moved), &mut buffer).unwrap() {
                    break;
                }
                rounds += 1;
                proptest::prop_assert!(rounds < 200_000);
            }
            let tail = bytes as usize;
            let length = transfer.length() as usize;
            proptest::prop_assert!(buffer.all()[tail..length].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_source_that_became_shorter_is_an_error() {
        let mut buffer = Buffer::new(4096, 0);
        let mut transfer = transfer(4096, true, &mut buffer);
        assert_eq!(transfer.advance(Err(io::ErrorKind::Interrupted.into()), &mut buffer), Ok(false));
        let error = transfer.advance(Ok(0), &mut buffer).unwrap_err();
        assert!(error.what.contains("became shorter while it was copied"), "{error}");
    }
}
