//! Further conditions for magic numbers that alone could be chance. Each function gets the bytes that its format names.

use super::{le16, le32};

fn be16(bytes: &[u8], at: usize) -> u16 {
    le16(bytes, at).swap_bytes()
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    le32(bytes, at).swap_bytes()
}

/// HFS, from its magic number on: allocation blocks of whole sectors.
pub(super) fn is_hfs(block: &[u8]) -> bool {
    has_hfs_blocks(block) && !is_wrapper(block)
}

/// HFS+ in a wrapper of HFS.
pub(super) fn is_wrapped_hfsplus(block: &[u8]) -> bool {
    has_hfs_blocks(block) && is_wrapper(block)
}

fn has_hfs_blocks(block: &[u8]) -> bool {
    let bytes = be32(block, 20);
    bytes > 0 && bytes.is_multiple_of(512)
}

fn is_wrapper(block: &[u8]) -> bool {
    matches!(block.get(124..126), Some(b"H+" | b"HX"))
}

/// NILFS2, from its superblock on: its revision, the bytes that its checksum covers, and its block size.
pub(super) fn is_nilfs2(block: &[u8]) -> bool {
    (1..=2).contains(&le32(block, 0))
        && le16(block, 4) == 0
        && (240..=1024).contains(&le16(block, 8))
        && le32(block, 20) <= 6
}

/// Minix 1 and 2, from the superblock on.
pub(super) fn is_minix(block: &[u8]) -> bool {
    let magic = le16(block, 16);
    let is_little = matches!(magic, 0x137f | 0x138f | 0x2468 | 0x2478);
    let short = |at| if is_little { le16(block, at) } else { be16(block, at) };
    let long = |at| if is_little { le32(block, at) } else { be32(block, at) };
    let is_second = matches!(short(16), 0x2468 | 0x2478);
    let geometry = MinixGeometry {
        inodes: short(0).into(),
        inode_map: short(4).into(),
        zone_map: short(6).into(),
        first_zone: short(8).into(),
        zones: if is_second { long(20).into() } else { short(2).into() },
        block: 1024,
    };
    // The state has two flags: unmounted in order, and with errors. Zones have one block.
    short(18) <= 3 && short(10) == 0 && geometry.is_possible() && !is_of_others(block)
}

/// Minix 3, from the superblock on.
pub(super) fn is_minix3(block: &[u8]) -> bool {
    let is_little = le16(block, 24) == 0x4d5a;
    let short = |at| if is_little { le16(block, at) } else { be16(block, at) };
    let long = |at| if is_little { le32(block, at) } else { be32(block, at) };
    let geometry = MinixGeometry {
        inodes: long(0).into(),
        inode_map: short(6).into(),
        zone_map: short(8).into(),
        first_zone: short(10).into(),
        zones: long(20).into(),
        block: short(28).into(),
    };
    (1024..=0x8000).contains(&geometry.block)
        && short(12) == 0
        && geometry.is_possible()
        && !is_of_others(block)
}

struct MinixGeometry {
    inodes: u64,
    /// Blocks of the map of inodes.
    inode_map: u64,
    /// Blocks of the map of zones.
    zone_map: u64,
    first_zone: u64,
    zones: u64,
    /// Bytes.
    block: u64,
}

impl MinixGeometry {
    /// The maps have a bit for each inode and zone.
    fn is_possible(&self) -> bool {
        let bits = self.block * 8;
        self.inodes > 0
            && self.first_zone <= self.zones
            && self.inode_map * bits > self.inodes
            && self.zone_map * bits > self.zones - self.first_zone
    }
}

/// Superblocks of ext2 to ext4 and of EROFS begin in the same place.
fn is_of_others(block: &[u8]) -> bool {
    le16(block, 56) == 0xef53 || le32(block, 0) == 0xe0f5_e1e2
}

/// FAT without the name of its type, from the boot sector on: a jump, and a geometry.
pub(super) fn is_nameless_fat(sector: &[u8]) -> bool {
    let names: [(usize, &[u8]); 6] = [
        (0x36, b"FAT"),
        (0x36, b"MSDOS"),
        (0x36, b"JFS "),
        (0x36, b"HPFS"),
        (0x52, b"FAT32"),
        (0x52, b"MSWIN"),
    ];
    let is_named =
        names.iter().any(|(at, name)| sector.get(*at..).is_some_and(|rest| rest.starts_with(name)));
    let (bytes, cluster) = (le16(sector, 11), sector.get(13).copied().unwrap_or(0));
    let sectors = if le16(sector, 19) > 0 { le16(sector, 19).into() } else { le32(sector, 32) };
    let table = if le16(sector, 22) > 0 { le16(sector, 22).into() } else { le32(sector, 36) };
    !is_named
        && matches!(sector.first(), Some(0xeb | 0xe9))
        && bytes.is_power_of_two()
        && (512..=4096).contains(&bytes)
        && cluster.is_power_of_two()
        && le16(sector, 14) > 0
        && matches!(sector.get(16), Some(1 | 2))
        && matches!(sector.get(21), Some(0xf0 | 0xf8..))
        && sectors > 0
        && table > 0
}

/// Squashfs 4 and later, from the superblock on.
pub(super) fn is_squashfs(block: &[u8]) -> bool {
    le16(block, 28) >= 4
}

/// Squashfs before version 4 with little-endian numbers.
pub(super) fn is_squashfs3(block: &[u8]) -> bool {
    !is_squashfs(block)
}

/// The first GFS, from the superblock on: the number of its format.
pub(super) fn is_gfs(block: &[u8]) -> bool {
    be32(block, 24) == 1309
}

pub(super) fn is_gfs2(block: &[u8]) -> bool {
    !is_gfs(block)
}

/// A physical volume of Core Storage with the AES-XTS of FileVault 2, from its checksum on.
pub(super) fn is_file_vault(block: &[u8]) -> bool {
    le16(block, 8) == 1 && le16(block, 10) == 0x10 && le32(block, 90) == 1
}

/// VIA RAID: a version and the sum of the first 50 bytes.
pub(super) fn is_via(block: &[u8]) -> bool {
    let Some((summed, rest)) = block.split_at_checked(50) else { return false };
    let sum = summed.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    summed[2] <= 2 && rest.first() == Some(&sum)
}

/// Silicon Image Medley: the number of the disk, and words whose sum is 0.
pub(super) fn is_silicon(block: &[u8]) -> bool {
    block.len() >= 0x140 && block[0x116] < 8 && sum_of_words(&block[..0x140]) == 0
}

/// JMicron RAID: a level, and words whose sum is 0 or 1.
pub(super) fn is_jmicron(block: &[u8]) -> bool {
    block.len() >= 128 && block[0x30] <= 5 && sum_of_words(&block[..128]) <= 1
}

fn sum_of_words(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |sum: u16, word| sum.wrapping_add(le16(word, 0)))
}

/// A partition table of Sun: the exclusive or of all words is 0.
pub(super) fn is_sun(sector: &[u8]) -> bool {
    sector.len() == 512 && sector.chunks_exact(2).fold(0, |sum, word| sum ^ le16(word, 0)) == 0
}

/// A partition map of Apple: either the driver descriptor with the map one block behind it, or the map itself.
pub(super) fn is_mac(bytes: &[u8]) -> bool {
    let map = if bytes.starts_with(b"ER") { usize::from(be16(bytes, 2)) } else { 0 };
    matches!(bytes.get(map..map + 2), Some(b"PM" | b"TS"))
}

/// The list of partitions of Atari, from the boot sector of a device with so many sectors on: a size, and at least one
/// partition in it with a known name.
pub(super) fn is_atari(sector: &[u8], sectors: u64) -> bool {
    const NAMES: [&[u8]; 10] =
        [b"GEM", b"BGM", b"XGM", b"LNX", b"SWP", b"RAW", b"UNX", b"MIX", b"MAC", b"QWA"];
    if sector.len() < 512 {
        return false;
    }
    let size = be32(sector, 0x1c2);
    let is_inside = |at: usize| {
        let (start, count) = (be32(sector, at), be32(sector, at + 4));
        start > 0 && count > 0 && start.checked_add(count).is_some_and(|end| end <= size)
    };
    let has_bad_blocks = be32(sector, 0x1f6) > 0 || be32(sector, 0x1fa) > 0;
    size >= 2
        && u64::from(size) <= sectors
        && (!has_bad_blocks || is_inside(0x1f6))
        && (0x1c6..0x1f6)
            .step_by(12)
            .any(|at| sector[at] & 1 == 1 && NAMES.contains(&&sector[at + 1..at + 4]) && is_inside(at + 4))
}
