//! What the files hold that a load reads. Zeros, and what compresses, may be answered without being read: by thin volumes,
//! by file systems and by controllers that compress.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::allowed::Opener;
use rustix::fs::{Advice, OFlags};

use super::buffer::Buffers;
use super::prepare::ReadyFile;
use super::random::Draws;
use super::settings::DiskPlan;

/// Bytes looked at in one place.
const PIECE: u64 = 4096;

/// Places looked at, and the longest time for it.
const PIECES: u64 = 256;
const TIME: Duration = Duration::from_millis(500);

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Pieces that could be read.
    pub(super) pieces: u64,
    /// Share of them that are zeros throughout, 0 to 1.
    pub(super) zero_share: f64,
    /// Share of their bytes that repeat earlier ones of the same piece, 0 to 1: what a fast compressor saves at most.
    pub(super) repeated_share: f64,
}

/// Reads some pieces of the parts that are used. The page cache is left as it was; what cannot be read is left out, as the
/// load will meet it.
pub(super) fn sample(plan: &DiskPlan, files: &[ReadyFile], seed: u64) -> Option<Sample> {
    if plan.read_share <= 0.0 {
        return None;
    }
    let mut buffers = Buffers::new(1, PIECE as usize).ok()?;
    let direct: Vec<Option<File>> =
        files.iter().map(|file| file.target.open(OFlags::RDONLY | OFlags::DIRECT).ok()).collect();
    let mut found = Found::default();
    let begun = Instant::now();
    for number in 0..PIECES {
        if begun.elapsed() > TIME {
            break;
        }
        let mut draws = Draws::new(!seed, number, 1);
        let at = draws.below(files.len() as u64) as usize;
        let (Some(file), Some(direct)) = (files.get(at), direct.get(at)) else { break };
        // Aligned to what any device takes for direct I/O.
        let end = plan.offset + file.bytes;
        let offset = (plan.offset + draws.below(file.bytes.saturating_sub(PIECE) + 1)) / PIECE * PIECE;
        if offset + PIECE > end.next_multiple_of(PIECE) {
            continue;
        }
        let piece = buffers.block(0, PIECE as usize);
        let past = direct.as_ref().and_then(|direct| direct.read_at(piece, offset).ok());
        let Some(read) = past.or_else(|| through(file, piece, offset)).filter(|read| *read > 0) else {
            continue;
        };
        found.add(&piece[..read]);
    }
    found.sample()
}

/// What a file holds that is not part of the load. Fails where it is not a file with data that can be read.
pub(super) fn of_file(opener: &Opener, path: &Path) -> io::Result<Sample> {
    let file = opener.open_to_read(path)?;
    let bytes = match file.metadata()? {
        data if data.is_file() && data.len() > 0 => data.len(),
        data if data.is_file() => return Err(io::Error::other("it is empty")),
        _ => return Err(io::Error::other("it is not a file")),
    };
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
    let mut piece = [0; PIECE as usize];
    let mut found = Found::default();
    let begun = Instant::now();
    for number in 0..PIECES.min(bytes.div_ceil(PIECE)) {
        if begun.elapsed() > TIME && number > 0 {
            break;
        }
        let offset = Draws::new(0, number, 1).below(bytes.div_ceil(PIECE)) * PIECE;
        let read = file.read_at(&mut piece, offset)?;
        found.add(&piece[..read]);
    }
    found.sample().ok_or_else(|| io::Error::other("nothing could be read"))
}

/// Sums over pieces.
#[derive(Default)]
struct Found {
    matches: Matches,
    pieces: u64,
    zeros: u64,
    repeated: usize,
}

impl Found {
    fn add(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.pieces += 1;
        if piece.iter().all(|byte| *byte == 0) {
            self.zeros += 1;
            self.repeated += PIECE as usize;
        } else {
            self.repeated += self.matches.repeated(piece) * PIECE as usize / piece.len();
        }
    }

    fn sample(&self) -> Option<Sample> {
        (self.pieces > 0).then(|| Sample {
            pieces: self.pieces,
            zero_share: self.zeros as f64 / self.pieces as f64,
            repeated_share: self.repeated as f64 / (self.pieces * PIECE) as f64,
        })
    }
}

/// Reads a piece through the page cache, and drops it again when it was not there; not at all where the kernel does not say.
fn through(file: &ReadyFile, piece: &mut [u8], offset: u64) -> Option<usize> {
    let source = file.target.open(OFlags::RDONLY).ok()?;
    let was_there = engine::page_cache::resident_bytes(&source, offset, PIECE)? > 0;
    let _ = rustix::fs::fadvise(&source, 0, None, Advice::Random);
    let read = source.read_at(piece, offset).ok();
    if !was_there {
        let _ = rustix::fs::fadvise(&source, offset, std::num::NonZeroU64::new(PIECE), Advice::DontNeed);
    }
    read
}

/// Finds repetitions as LZ4 does: by a table of where each four bytes were last.
struct Matches(Box<[u16; TABLE]>);

const TABLE: usize = 4096;

impl Default for Matches {
    fn default() -> Self {
        Matches(Box::new([u16::MAX; TABLE]))
    }
}

impl Matches {
    /// Bytes of a piece that repeat earlier ones, four or more in a row.
    fn repeated(&mut self, piece: &[u8]) -> usize {
        self.0.fill(u16::MAX);
        let (mut at, mut repeated) = (0, 0);
        while let Some(word) =
            piece.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
        {
            let slot = &mut self.0[(word.wrapping_mul(0x9e37_79b1) >> 20) as usize % TABLE];
            let before = usize::from(std::mem::replace(slot, at as u16));
            let length = match before < at {
                true => {
                    piece[before..].iter().zip(&piece[at..]).take_while(|(one, other)| one == other).count()
                }
                false => 0,
            };
            if length >= 4 {
                repeated += length;
                at += length;
            } else {
                at += 1;
            }
        }
        repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_counted_as_a_compressor_finds_them() {
        let mut matches = Matches::default();
        let text = b"dn: uid=somebody,ou=people,dc=example,dc=com\n".repeat(91);
        assert!(matches.repeated(&text[..4095]) > 4000);
        let mut random = [0_u8; 4096];
        super::super::content::Filler::new(0.0).fill(&mut random, 7);
        assert_eq!(matches.repeated(&random), 0);
        random[2048..].fill(0);
        assert!((2030..=2048).contains(&matches.repeated(&random)));
        assert_eq!(matches.repeated(b"abc"), 0);
        assert_eq!(matches.repeated(b""), 0);
    }
}
