//! Superblocks and tables that are made by hand, for formats that have no program here: valid enough for libblkid.

use super::*;

const KIB: u64 = 1 << 10;

/// Makes a magic number in a blank file into what the further conditions of its format require.
pub(super) fn complete(file: &File, kind: &str, magic: u64) {
    let write = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).unwrap();
    let read = |at: u64, count: usize| {
        let mut bytes = vec![0; count];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    };
    match kind {
        "hfs" => write(magic + 20, &512_u32.to_be_bytes()),
        "hfsplus" if read(magic, 2) == b"BD" => {
            write(magic + 20, &512_u32.to_be_bytes());
            write(magic + 124, b"H+");
        }
        "nilfs2" => nilfs2(file, magic - 6),
        "minix" => minix(file, &read(magic, 2)),
        "vfat" if magic == 510 => nameless_fat(file),
        "cs_fvault2" => {
            write(8, &[1, 0, 0x10, 0]);
            write(90, &[1, 0, 0, 0]);
        }
        "squashfs" => write(28, &4_u16.to_le_bytes()),
        "squashfs3" if read(0, 4) == b"hsqs" => write(28, &3_u16.to_le_bytes()),
        "gfs" => write(64 * KIB + 24, &[0, 0, 0x05, 0x1d, 0, 0, 0x05, 0x79]),
        "gfs2" => write(64 * KIB + 24, &[0, 0, 0x07, 0x09, 0, 0, 0x07, 0x6c]),
        "via_raid_member" => write(magic + 50, &[0x55_u8.wrapping_add(0xaa)]),
        "silicon_medley_raid_member" => {
            write(magic - 0x60 + 0x13e, &0_u16.wrapping_sub(0x2f00).to_le_bytes())
        }
        "jmicron_raid_member" => write(magic + 4, &0_u16.wrapping_sub(0x4d4a).to_le_bytes()),
        "sun" => write(510, &[0xda, 0xbe]),
        "mac" if magic == 0 => {
            write(2, &2048_u16.to_be_bytes());
            write(2048, b"PM");
        }
        _ => {}
    }
}

fn nilfs2(file: &File, start: u64) {
    let mut block = [0_u8; 1024];
    block[0] = 2;
    block[6..8].copy_from_slice(b"\x34\x34");
    block[8..10].copy_from_slice(&280_u16.to_le_bytes());
    block[20..24].copy_from_slice(&2_u32.to_le_bytes());
    let sum = crc(0xedb8_8320, 0, &block[..280]);
    block[16..20].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&block, start).unwrap();
}

/// A superblock with this number, in the byte order of the number.
fn minix(file: &File, magic: &[u8]) {
    let is_third = matches!(magic, b"\x5a\x4d" | b"\x4d\x5a");
    let is_little = matches!(magic, b"\x5a\x4d" | b"\x7f\x13" | b"\x8f\x13" | b"\x68\x24" | b"\x78\x24");
    let mut block = [0_u8; 64];
    let mut short = |at: usize, number: u16| {
        let bytes = if is_little { number.to_le_bytes() } else { number.to_be_bytes() };
        block[at..at + 2].copy_from_slice(&bytes);
    };
    if is_third {
        // The low half of the inodes.
        short(if is_little { 0 } else { 2 }, 320);
        for (at, number) in [(6, 1), (8, 1), (10, 14), (if is_little { 20 } else { 22 }, 1024), (28, 1024)] {
            short(at, number);
        }
        block[24..26].copy_from_slice(magic);
    } else {
        let zones = if is_little { 20 } else { 22 };
        for (at, number) in [(0, 320), (2, 1024), (4, 1), (6, 1), (8, 14), (18, 1), (zones, 1024)] {
            short(at, number);
        }
        block[16..18].copy_from_slice(magic);
    }
    file.write_all_at(&block, 1024).unwrap();
}

/// A file system with 16 MiB as systems before MS-DOS 4 wrote it.
fn nameless_fat(file: &File) {
    let mut sector = [0_u8; 64];
    sector[..3].copy_from_slice(b"\xeb\x3c\x90");
    sector[11..13].copy_from_slice(&512_u16.to_le_bytes());
    sector[13] = 4;
    sector[14] = 1;
    sector[16] = 2;
    sector[17..19].copy_from_slice(&512_u16.to_le_bytes());
    sector[19..21].copy_from_slice(&32_768_u16.to_le_bytes());
    sector[21] = 0xf8;
    sector[22..24].copy_from_slice(&32_u16.to_le_bytes());
    file.write_all_at(&sector, 0).unwrap();
}

/// A cyclic redundancy check without a last inversion.
fn crc(polynomial: u32, start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { polynomial } else { 0 })
    })
}

fn crc32c(bytes: &[u8]) -> u32 {
    !crc(0x82f6_3b78, !0, bytes)
}

/// Where it is, and its bytes.
type Piece = (u64, Vec<u8>);

fn file_with(folder: &Scratch, bytes: u64, pieces: &[(u64, &[u8])]) -> std::path::PathBuf {
    let path = blank(folder, 0);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(bytes).unwrap();
    for (at, piece) in pieces {
        file.write_all_at(piece, *at).unwrap();
    }
    path
}

/// Each in a file of 32 MiB: blkid finds it, and it is found under the same name.
#[test]
fn what_is_made_by_hand_is_found_as_blkid_finds_it() {
    const SIZE: u64 = 32 << 20;
    const SECTOR: u64 = 512;
    if testkit::lacks(Need::Program("blkid")) {
        return;
    }
    let folder = Scratch::new();
    let drbd = |version: u8| {
        let mut block = vec![0_u8; 4096];
        block[60..64].copy_from_slice(&[0x83, 0x74, 0x02, version]);
        block[80..84].copy_from_slice(&4096_u32.to_be_bytes());
        block[84..88].copy_from_slice(&4096_u32.to_be_bytes());
        (SIZE - 4096, block)
    };
    let mut images: Vec<(&str, Vec<Piece>)> = vec![
        ("drbd", vec![drbd(0x6b)]),
        ("drbd", vec![drbd(0x6c)]),
        ("drbd", vec![drbd(0x6d)]),
        (
            "drbdmanage_control_volume",
            vec![(0, b"$DRBDmgr=q".to_vec()), (11, vec![b'0'; 32]), (43, b"\n".to_vec())],
        ),
        ("drbdproxy_datalog", vec![(0, b"DRBDdlh*".to_vec())]),
        ("lsi_mega_raid_member", vec![(SIZE - SECTOR, b"$XIDE$".to_vec())]),
        ("nvidia_raid_member", vec![(SIZE - 2 * SECTOR, nvidia())]),
        ("isw_raid_member", vec![(SIZE - 2 * SECTOR, b"Intel Raid ISM Cfg Sig. 1.0.00".to_vec())]),
        ("hpt45x_raid_member", vec![(SIZE - 11 * SECTOR, b"\xf3\x16\x78\x5a".to_vec())]),
        ("hpt45x_raid_member", vec![(SIZE - 11 * SECTOR, b"\xfd\x16\x78\x5a".to_vec())]),
        ("hpt37x_raid_member", vec![(4640, b"\xf0\x16\x78\x5a".to_vec())]),
        ("hpt37x_raid_member", vec![(4640, b"\xfd\x16\x78\x5a".to_vec())]),
        (
            "adaptec_raid_member",
            vec![(SIZE - SECTOR, b"\x37\xfc\x4d\x1e".to_vec()), (SIZE - SECTOR + 256, b"DPTM".to_vec())],
        ),
        ("via_raid_member", vec![(SIZE - SECTOR, b"\x55\xaa".to_vec())]),
        ("silicon_medley_raid_member", vec![(SIZE - SECTOR + 0x60, b"\0\0\0\x2f".to_vec())]),
        ("jmicron_raid_member", vec![(SIZE - SECTOR, b"JM".to_vec())]),
        ("bfs", vec![(0, b"\xce\xfa\xad\x1b".to_vec())]),
        ("zonefs", vec![(0, zonefs())]),
        ("exfs", vec![(0, exfs())]),
        ("xfs_external_log", vec![(0, xfs_log())]),
        ("xfs_external_log", vec![(511 * SECTOR, xfs_log())]),
        ("hpfs", vec![(8192, b"\x49\xe8\x95\xf9".to_vec()), (8704, b"\x49\x18\x91\xf9".to_vec())]),
        ("gfs", vec![(64 * KIB, b"\x01\x16\x19\x70".to_vec())]),
        ("gfs2", vec![(64 * KIB, b"\x01\x16\x19\x70".to_vec())]),
        ("ocfs", vec![(8192 + 8, b"OracleCFS".to_vec()), (8192, b"OracleCFS".to_vec())]),
        ("nss", vec![(4096, b"SPB5".to_vec())]),
        ("mpool", vec![(0, mpool())]),
        ("vxfs", vec![(1024, b"\xf5\xfc\x01\xa5".to_vec())]),
        ("squashfs", vec![(0, b"hsqs".to_vec())]),
        ("squashfs3", vec![(0, b"hsqs".to_vec())]),
        ("squashfs3", vec![(0, b"sqsh".to_vec())]),
        ("swsuspend", vec![(0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c".to_vec())]),
        (
            "iso9660",
            vec![(32 * KIB, vec![1]), (32 * KIB + 9, b"CDROM".to_vec()), (34 * KIB + 9, b"CDROM".to_vec())],
        ),
        ("nilfs2", vec![(1024 + 6, b"\x34\x34".to_vec())]),
        ("nilfs2", vec![(SIZE - 4096 + 6, b"\x34\x34".to_vec())]),
        ("hfs", vec![(1024, b"BD".to_vec())]),
        ("vfat", vec![(510, b"\x55\xaa".to_vec())]),
    ];
    for at in [16, 63, 255, 256, 399, 591, 675, 735, 911, 951, 974, 991, 3087] {
        let place = SIZE - at * SECTOR;
        images.push(("promise_fasttrack_raid_member", vec![(place, b"Promise Technology, Inc.".to_vec())]));
    }
    for at in [1016, 9 * KIB + 1016, 15 * KIB + 1016, 18 * KIB + 1016] {
        for magic in [b"\x20\x7e\x18\xfd", b"\xfd\x18\x7e\x20"] {
            images.push(("sysv", vec![(at, magic.to_vec())]));
        }
    }
    for at in [0, 8 * KIB, 64 * KIB, 256 * KIB] {
        for magic in [0x0001_1954_u32, 0x1954_0119, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994] {
            images.push(("ufs", vec![(at + 1372, magic.to_le_bytes().to_vec())]));
            images.push(("ufs", vec![(at + 1372, magic.to_be_bytes().to_vec())]));
        }
    }
    for page in [4096, 8192, 16_384, 32_768, 65_536] {
        for magic in ["S1SUSPEND", "S2SUSPEND", "ULSUSPEND", "LINHIB0001"] {
            images.push(("swsuspend", vec![(page - 10, magic.into())]));
        }
        images.push(("swap", vec![(page - 10, b"SWAP-SPACE".to_vec())]));
    }
    for at in [16_u64, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
        let mut header = b"SKUL\xba\xbe\0\x02".to_vec();
        header.resize(256, 0);
        header.extend((at * KIB).to_be_bytes());
        images.push(("crypto_LUKS", vec![(at * KIB, header)]));
    }
    for magic in [
        b"\x7f\x13",
        b"\x8f\x13",
        b"\x68\x24",
        b"\x78\x24",
        b"\x13\x7f",
        b"\x13\x8f",
        b"\x24\x68",
        b"\x24\x78",
    ] {
        images.push(("minix", vec![(1040, magic.to_vec())]));
    }
    // blkid overlooks the big-endian number of Minix 3.
    images.push(("minix", vec![(1048, b"\x5a\x4d".to_vec())]));
    for (kind, pieces) in images {
        let first = pieces[0].0;
        let pieces: Vec<(u64, &[u8])> = pieces.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        let path = file_with(&folder, SIZE, &pieces);
        complete(&File::options().read(true).write(true).open(&path).unwrap(), kind, first);
        assert_eq!(blkid(&path, "TYPE"), kind, "blkid, at {first}");
        assert_eq!(kinds(&path), [kind], "at {first}");
    }
}

fn nvidia() -> Vec<u8> {
    let mut block = b"NVIDIA  ".to_vec();
    block.resize(120, 0);
    block[8..12].copy_from_slice(&30_u32.to_le_bytes());
    block
}

fn zonefs() -> Vec<u8> {
    let mut block = b"SFOZ".to_vec();
    block.resize(4096, 0);
    let sum = crc(0xedb8_8320, !0, &block);
    block[4..8].copy_from_slice(&sum.to_le_bytes());
    block
}

fn exfs() -> Vec<u8> {
    let mut block = b"EXFS".to_vec();
    block.resize(512, 0);
    block[4..8].copy_from_slice(&4096_u32.to_be_bytes());
    block[8..16].copy_from_slice(&4096_u64.to_be_bytes());
    block[80..84].copy_from_slice(&1_u32.to_be_bytes());
    block[84..88].copy_from_slice(&4096_u32.to_be_bytes());
    block[88..92].copy_from_slice(&1_u32.to_be_bytes());
    block[102..104].copy_from_slice(&512_u16.to_be_bytes());
    block[104..106].copy_from_slice(&256_u16.to_be_bytes());
    // Logarithms of block, sector, inode, and inodes per block.
    block[120..124].copy_from_slice(&[12, 9, 8, 4]);
    block
}

fn xfs_log() -> Vec<u8> {
    let mut header = b"\xfe\xed\xba\xbe".to_vec();
    header.resize(512, 0);
    (header[11], header[14], header[303]) = (2, 2, 1);
    header
}

fn mpool() -> Vec<u8> {
    let mut block = b"mpoolDev".to_vec();
    block.resize(62, 0);
    block.extend(crc32c(&block).to_le_bytes());
    block
}

/// What blkid names as the type of a partition table.
#[test]
fn partition_tables_are_found_as_blkid_finds_them() {
    let mut sgi = vec![0_u8; 512];
    sgi[..4].copy_from_slice(b"\x0b\xe5\xa9\x41");
    sgi[504..508].copy_from_slice(&0x0be5_a941_u32.wrapping_neg().to_be_bytes());
    let mut sun = vec![0_u8; 512];
    sun[508..].copy_from_slice(b"\xda\xbe\xda\xbe");
    let mut mac = vec![0_u8; 1024];
    mac[..4].copy_from_slice(b"ER\x02\0");
    mac[512..516].copy_from_slice(b"PM\0\0");
    mac[516..520].copy_from_slice(&1_u32.to_be_bytes());
    let mut atari = vec![0_u8; 512];
    atari[0x1c2..0x1c6].copy_from_slice(&32_768_u32.to_be_bytes());
    atari[0x1c6..0x1ca].copy_from_slice(b"\x01LNX");
    atari[0x1ca..0x1ce].copy_from_slice(&2_u32.to_be_bytes());
    atari[0x1ce..0x1d2].copy_from_slice(&1000_u32.to_be_bytes());
    let mut empty = vec![0_u8; 512];
    empty[510..].copy_from_slice(b"\x55\xaa");
    let mut bsd = vec![0_u8; 1024];
    let magic = b"\x57\x45\x56\x82";
    bsd[512..516].copy_from_slice(magic);
    bsd[512 + 132..512 + 136].copy_from_slice(magic);
    let mut ultrix = vec![0_u8; 16_384];
    ultrix[16_312..16_320].copy_from_slice(b"\x57\x29\x03\0\x01\0\0\0");
    ultrix[16_320] = 1;

    let has_blkid = !testkit::partly_lacks(Need::Program("blkid"));
    let folder = Scratch::new();
    for (kind, bytes) in [
        ("sgi", sgi),
        ("sun", sun),
        ("mac", mac),
        ("atari", atari),
        ("aix", b"\xc9\xc2\xd4\xc1".to_vec()),
        ("dos", empty),
        ("bsd", bsd),
        ("ultrix", ultrix),
    ] {
        let path = file_with(&folder, BYTES, &[(0, &bytes)]);
        assert_eq!(kinds(&path), [kind]);
        // blkid looks for that of BSD only in partitions.
        if has_blkid && kind != "bsd" {
            assert_eq!(blkid(&path, "PTTYPE"), kind);
        }
    }
}

/// A magic number of two bytes without the rest of its superblock.
#[test]
fn a_short_magic_number_alone_is_nothing() {
    let folder = Scratch::new();
    for format in FORMATS.iter().filter(|format| format.check.is_some()) {
        for (at, magic) in format.magics.iter().filter(|(_, magic)| magic.len() < 4) {
            let path = blank(&folder, BYTES);
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let place = Part { file: &file, start: 0, bytes: BYTES }.place(*at).unwrap();
            file.write_all_at(magic, place).unwrap();
            // Without a geometry these two bytes still end a boot sector.
            let expected: &[&str] = if place == 510 { &["dos"] } else { &[] };
            assert_eq!(kinds(&path), expected, "{} at {place}", format.kind);
        }
    }
}
