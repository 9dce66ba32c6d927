//! What is written: blocks that neither compress nor repeat, and the header that lets them be verified.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::random::mix;

/// Compressible and incompressible parts alternate with this period.
const GRANULE: usize = 4096;

/// Random bytes every block is made from, small enough to stay in the second-level cache.
const POOL_WORDS: usize = 8192;

fn pool() -> &'static [u64] {
    static POOL: OnceLock<Vec<u64>> = OnceLock::new();
    POOL.get_or_init(|| {
        (0..POOL_WORDS as u64).map(|word| mix(word.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    })
}

/// Fills blocks: a random pool, exclusive-or a word that belongs to the block. Every block differs from every other in
/// every byte pattern, so that neither deduplication nor a compressor with a long memory finds anything, at the price
/// of one pass over the pool.
#[derive(Clone, Copy)]
pub(super) struct Filler {
    pool: &'static [u64],
    /// Zero bytes at the end of each granule.
    zeros: usize,
}

impl Filler {
    /// `compressible_percent` of each 4 KiB (or of the block, when it is smaller) is zeros.
    pub(super) fn new(compressible_percent: f64) -> Self {
        let zeros = (GRANULE as f64 * compressible_percent.clamp(0.0, 100.0) / 100.0).round() as usize;
        Filler { pool: pool(), zeros: zeros / 8 * 8 }
    }

    /// Fills `block`, a multiple of 8 bytes. Different keys give different contents.
    #[inline]
    pub(super) fn fill(&self, block: &mut [u8], key: u64) {
        for (index, tile) in block.chunks_mut(POOL_WORDS * 8).enumerate() {
            let mask = mix(key.wrapping_add(index as u64));
            for (bytes, word) in tile.chunks_exact_mut(8).zip(self.pool) {
                bytes.copy_from_slice(&(word ^ mask).to_le_bytes());
            }
        }
        if self.zeros > 0 {
            for granule in block.chunks_mut(GRANULE) {
                let zeros = self.zeros * granule.len() / GRANULE;
                let from = granule.len() - zeros;
                granule[from..].fill(0);
            }
        }
    }
}

/// Exclusive-or of each word of the pool with the next: what two neighbours in a block differ by, whatever the block.
fn differences() -> &'static HashSet<u64> {
    static DIFFERENCES: OnceLock<HashSet<u64>> = OnceLock::new();
    DIFFERENCES.get_or_init(|| pool().windows(2).map(|pair| pair[0] ^ pair[1]).collect())
}

/// Whether bytes that begin at a multiple of 8 in their file were written by a [`Filler`], in whatever blocks. Headers
/// and borders of blocks are few among its words, and zeros are not counted. Bytes of any other origin have no such
/// neighbours at all. Fewer than two words prove nothing and hold nothing to lose.
pub(super) fn is_own(bytes: &[u8]) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    let (mut own, mut foreign) = (0, 0);
    for pair in words.windows(2) {
        let (one, next) = (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1]));
        if one == 0 || next == 0 {
            continue;
        }
        if differences().contains(&(one ^ next)) {
            own += 1;
        } else {
            foreign += 1;
        }
    }
    words.len() < 2 || (own > 0 && own >= foreign)
}

const MAGIC: u32 = u32::from_le_bytes(*b"Plim");

/// Fills `block` with `bytes` again and again.
pub(super) fn repeat(bytes: &[u8], block: &mut [u8]) {
    block.chunks_mut(bytes.len().max(1)).for_each(|part| part.copy_from_slice(&bytes[..part.len()]));
}

/// Whether `block` is `bytes` again and again.
pub(super) fn is_repeated(bytes: &[u8], block: &[u8]) -> bool {
    block.chunks(bytes.len().max(1)).all(|part| part == &bytes[..part.len()])
}

/// What is wrong with a block that was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// No header.
    Foreign,
    /// The checksum does not fit the data: damaged, or pieces of two writes.
    Checksum,
    /// A whole block that belongs elsewhere.
    Misplaced,
    /// A whole block, older than what was written last: a lost write.
    Stale,
    /// Not what `expect` says.
    Unexpected,
}

impl Damage {
    /// Every kind; the place plus one is its failure code.
    pub(super) const ALL: [Damage; 5] =
        [Damage::Foreign, Damage::Checksum, Damage::Misplaced, Damage::Stale, Damage::Unexpected];

    /// Its failure code.
    pub(super) fn code(self) -> u32 {
        self as u32 + 1
    }

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Damage::Foreign => {
                "the block read back has no Plimsoll header: it was overwritten or never written"
            }
            Damage::Checksum => "the block read back does not match its checksum: damaged or torn",
            Damage::Misplaced => "the block read back belongs to another place: a misdirected read or write",
            Damage::Unexpected => "the block read back holds other bytes than `expect` says",
            Damage::Stale => "the block read back is older than what was written: a lost write",
        }
    }
}

/// Which write a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Seed of the trial.
    pub(super) seed: u64,
    /// How often the block was written in it.
    pub(super) generation: u32,
}

/// Puts the header of 32 bytes on a filled block: magic, CRC-32C of what follows, offset in the file, seed, generation, length.
pub(super) fn seal(block: &mut [u8], offset: u64, stamp: Stamp) {
    let length = block.len() as u32;
    block[8..16].copy_from_slice(&offset.to_le_bytes());
    block[16..24].copy_from_slice(&stamp.seed.to_le_bytes());
    block[24..28].copy_from_slice(&stamp.generation.to_le_bytes());
    block[28..32].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c(&block[8..]);
    block[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    block[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Checks a block read from `offset`; which write it comes from when it is whole and in its place.
pub(super) fn open(block: &[u8], offset: u64) -> Result<Stamp, Damage> {
    let word =
        |at: usize| block.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if word(0) != MAGIC || word(28) != block.len() as u32 {
        return Err(Damage::Foreign);
    }
    if crc32c(&block[8..]) != word(4) {
        return Err(Damage::Checksum);
    }
    if long(8) != offset {
        return Err(Damage::Misplaced);
    }
    Ok(Stamp { seed: long(16), generation: word(24) })
}

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4), by the processor's instruction where there is one.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the instruction was just found to exist.
        return unsafe { crc32c_sse42(data) };
    }
    crc32c_table(data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_sse42(data: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = data.as_chunks::<8>();
    let sum =
        words.iter().fold(u64::from(u32::MAX), |sum, word| _mm_crc32_u64(sum, u64::from_le_bytes(*word)));
    !rest.iter().fold(sum as u32, |sum, byte| _mm_crc32_u8(sum, *byte))
}

fn crc32c_table(data: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    static TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut sum = index as u32;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
                bit += 1;
            }
            table[index] = sum;
            index += 1;
        }
        table
    };
    !data.iter().fold(u32::MAX, |sum, byte| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_matches_the_standard() {
        // RFC 3720, B.4; and the usual check value.
        for (data, expected) in [
            (&[0_u8; 32][..], 0x8a91_36aa),
            (&[0xff; 32][..], 0x62a8_ab43),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c_table(data), expected);
            assert_eq!(crc32c(data), expected);
        }
    }

    /// With zeros and without, in blocks of many sizes: nothing that a later run would take for a file system.
    #[test]
    fn what_is_written_has_no_signature() {
        let folder = testkit::Scratch::new();
        let path = folder.file("written", "");
        for (run, percent) in [0.0, 10.0, 50.0, 90.0, 100.0].into_iter().cycle().take(40).enumerate() {
            let filler = Filler::new(percent);
            let mut bytes = vec![0; 2 << 20];
            let unit = 512 << (run % 9);
            for (index, block) in bytes.chunks_mut(unit).enumerate() {
                let offset = (index * unit) as u64;
                filler.fill(block, mix(offset) ^ run as u64);
                if run % 2 == 1 {
                    seal(block, offset, Stamp { seed: run as u64, generation: 1 });
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            let found = engine::signature::find(&std::fs::File::open(&path).unwrap(), 2 << 20).unwrap();
            assert!(found.is_empty(), "run {run}: {}", engine::signature::in_words(&found));
        }
    }

    fn sealed(offset: u64, generation: u32) -> Vec<u8> {
        let mut block = vec![0; 4096];
        Filler::new(0.0).fill(&mut block, mix(offset) ^ u64::from(generation));
        seal(&mut block, offset, Stamp { seed: 9, generation });
        block
    }

    #[test]
    fn every_damage_is_distinguished() {
        let block = sealed(8192, 3);
        assert_eq!(open(&block, 8192), Ok(Stamp { seed: 9, generation: 3 }));
        assert_eq!(open(&block, 4096), Err(Damage::Misplaced));
        assert_eq!(open(&[0; 4096], 8192), Err(Damage::Foreign));
        assert_eq!(open(&[], 0), Err(Damage::Foreign));
        let mut torn = block.clone();
        torn[2048..].copy_from_slice(&sealed(8192, 4)[2048..]);
        assert_eq!(open(&torn, 8192), Err(Damage::Checksum));
        for at in [8, 31, 32, 4095] {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert!(open(&damaged, 8192).is_err(), "byte {at}");
        }
        for (index, damage) in Damage::ALL.into_iter().enumerate() {
            assert_eq!(damage.code() as usize, index + 1);
        }
    }

    #[test]
    fn what_a_filler_writes_is_recognized_and_nothing_else_is() {
        for (percent, block_bytes) in [
            (0.0, 64),
            (0.0, 512),
            (0.0, 4096),
            (0.0, 12288),
            (0.0, 1 << 20),
            (50.0, 512),
            (90.0, 4096),
            (90.0, 65536),
        ] {
            let mut data = vec![0; 1 << 20];
            for (number, block) in data.chunks_mut(block_bytes).enumerate() {
                Filler::new(percent).fill(block, mix(number as u64 ^ 0x77));
                if block_bytes >= 512 {
                    seal(block, number as u64 * 512, Stamp { seed: 3, generation: number as u32 });
                }
            }
            for (at, part) in data.chunks(4096).enumerate() {
                assert!(is_own(part), "{percent} % of {block_bytes}: {at}");
            }
        }
        let text = b"dn: uid=somebody,ou=people,dc=example,dc=com\n".repeat(100);
        let counted: Vec<u8> = (0..512_u64).flat_map(u64::to_le_bytes).collect();
        let random: Vec<u8> = (0..512_u64).flat_map(|at| mix(at ^ 0xabcd).to_le_bytes()).collect();
        for foreign in [&[0; 4096][..], &[0xff; 4096], &text[..4096], &counted, &random] {
            assert!(!is_own(foreign));
        }
    }

    #[test]
    fn the_compressible_share_is_zeros_and_the_rest_is_not() {
        for (percent, bytes) in [(0.0, 8192), (25.0, 8192), (50.0, 512), (100.0, 4096)] {
            let mut block = vec![1; bytes];
            Filler::new(percent).fill(&mut block, 5);
            let zeros = block.iter().filter(|byte| **byte == 0).count() as f64 / bytes as f64;
            // One random byte in 256 is zero as well.
            assert!((zeros - percent / 100.0).abs() < 0.03, "{percent}: {zeros}");
        }
    }

    /// Deflate finds nothing in many blocks in a row, and no two 512-byte sectors are the same.
    #[test]
    fn blocks_neither_compress_nor_repeat() {
        let filler = Filler::new(0.0);
        let mut data = vec![0; 1 << 20];
        for (number, block) in data.chunks_mut(4096).enumerate() {
            filler.fill(block, mix(number as u64));
        }
        let sectors: std::collections::HashSet<&[u8]> = data.chunks(512).collect();
        assert_eq!(sectors.len(), data.len() / 512);
        // Order-0 entropy and repeated 8-byte words: what dictionary and entropy coders live on.
        let mut counts = [0_f64; 256];
        data.iter().for_each(|byte| counts[usize::from(*byte)] += 1.0);
        let total = data.len() as f64;
        let bits: f64 = counts.iter().map(|count| -(count / total) * (count / total).log2()).sum();
        assert!(bits > 7.99, "{bits}");
        let words: std::collections::HashSet<&[u8]> = data.chunks(8).collect();
        assert!(words.len() > data.len() / 8 - 4, "{}", words.len());
    }
}
