mod made;

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::{Need, Scratch};

use super::*;

const BYTES: u64 = 16 << 20;

fn kinds(path: &Path) -> Vec<&'static str> {
    let file = File::open(path).unwrap();
    let bytes = file.metadata().unwrap().len();
    find(&file, bytes).unwrap().iter().map(|of| of.kind).collect()
}

fn blank(folder: &Scratch, bytes: u64) -> std::path::PathBuf {
    let path = folder.file("image", "");
    File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
    path
}

/// The type that `blkid` finds; empty for none.
fn blkid(path: &Path, tag: &str) -> String {
    let program = testkit::need::program("blkid").unwrap();
    let found = Command::new(program).args(["-p", "-o", "value", "-s", tag]).arg(path).output().unwrap();
    String::from_utf8_lossy(&found.stdout).trim().to_string()
}

#[test]
fn what_is_blank_or_random_holds_nothing() {
    let folder = Scratch::new();
    let path = blank(&folder, BYTES);
    assert!(kinds(&path).is_empty());
    for seed in 1..=8 {
        let mut state: u64 = seed;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        fs::write(&path, random.take(2 << 20).collect::<Vec<u8>>()).unwrap();
        assert!(kinds(&path).is_empty(), "{seed}");
    }
    for byte in 0..=255 {
        fs::write(&path, vec![byte; 600 << 10]).unwrap();
        assert!(kinds(&path).is_empty(), "{byte}");
    }
    for bytes in [0, 1, 511, 512, 4096, 70_000] {
        fs::write(&path, vec![0; bytes]).unwrap();
        assert!(kinds(&path).is_empty(), "{bytes}");
    }
}

/// Each magic number alone in a blank file is found under its name, and where blkid finds something in it, under the same.
#[test]
fn every_magic_number_is_found_where_it_is() {
    let has_blkid = !testkit::partly_lacks(Need::Program("blkid"));
    let folder = Scratch::new();
    for format in FORMATS {
        for (at, magic) in format.magics {
            let path = blank(&folder, BYTES);
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let place = Part { file: &file, start: 0, bytes: BYTES }.place(*at).unwrap();
            file.write_all_at(magic, place).unwrap();
            made::complete(&file, format.kind, place);
            let found = kinds(&path);
            assert!(found.contains(&format.kind), "{} {at:?}: {found:?}", format.kind);
            let theirs = if has_blkid { blkid(&path, "TYPE") } else { String::new() };
            if !theirs.is_empty() {
                // blkid tells apart what lies in one place.
                let alike = [("LVM2_member", "LVM1_member"), ("bcache", "bcachefs"), ("bcachefs", "bcache")];
                let is_same = found.iter().any(|kind| *kind == theirs || alike.contains(&(kind, &theirs)));
                assert!(is_same, "{} {at:?}: blkid finds {theirs}, and {found:?} is found", format.kind);
            }
        }
    }
}

#[test]
fn file_systems_are_found_as_blkid_finds_them() {
    if testkit::lacks(Need::Program("blkid")) {
        return;
    }
    let folder = Scratch::new();
    for (program, arguments, bytes, kind, label) in [
        ("mkfs.ext4", &["-qF", "-L", "PAYROLL"][..], 16 << 20, "ext4", "PAYROLL"),
        ("mkfs.ext3", &["-qF", "-L", "PAYROLL"], 16 << 20, "ext3", "PAYROLL"),
        ("mkfs.ext2", &["-qF", "-L", "PAYROLL"], 16 << 20, "ext2", "PAYROLL"),
        ("mkfs.xfs", &["-qf", "-L", "PAYROLL"], 320 << 20, "xfs", "PAYROLL"),
        ("mkfs.btrfs", &["-qf", "-L", "PAYROLL"], 128 << 20, "btrfs", "PAYROLL"),
        ("mkswap", &["-qL", "PAYROLL"], 16 << 20, "swap", "PAYROLL"),
        ("mkswap", &["-qp", "65536"], 16 << 20, "swap", ""),
        ("mkfs.vfat", &["-n", "PAYROLL"], 16 << 20, "vfat", "PAYROLL"),
        ("mkfs.vfat", &["-F32", "-n", "PAYROLL"], 64 << 20, "vfat", "PAYROLL"),
        ("mkfs.ext4", &["-qFE", "test_fs"], 16 << 20, "ext4dev", ""),
        ("mkfs.ext4", &["-qF", "-O", "journal_dev"], 16 << 20, "jbd", ""),
        ("mkfs.minix", &["-1"], 1 << 20, "minix", ""),
        ("mkfs.minix", &["-1", "-n14"], 32 << 20, "minix", ""),
        ("mkfs.minix", &["-2"], 1 << 20, "minix", ""),
        ("mkfs.minix", &["-2", "-n14"], 256 << 20, "minix", ""),
        ("mkfs.minix", &["-3"], 1 << 20, "minix", ""),
        ("mkfs.minix", &["-3", "-i", "90000"], 512 << 20, "minix", ""),
        ("mkfs.bfs", &[], 1 << 20, "bfs", ""),
        ("mkfs.ntfs", &["-QFq"], 16 << 20, "ntfs", ""),
        ("mkfs.f2fs", &["-q"], 64 << 20, "f2fs", ""),
        ("mkfs.exfat", &[], 16 << 20, "exfat", ""),
        ("mkfs.jfs", &["-qL", "PAYROLL"], 32 << 20, "jfs", "PAYROLL"),
        ("mkfs.reiserfs", &["-qffl", "PAYROLL"], 64 << 20, "reiserfs", "PAYROLL"),
        ("mkfs.nilfs2", &["-qL", "PAYROLL"], 160 << 20, "nilfs2", "PAYROLL"),
        ("mkudffs", &[], 64 << 20, "udf", ""),
        ("make-bcache", &["-B"], 64 << 20, "bcache", ""),
    ] {
        if testkit::partly_lacks(Need::Package(program)) {
            continue;
        }
        let path = blank(&folder, bytes);
        let made = Command::new(testkit::need::program(program).unwrap())
            .args(arguments)
            .arg(&path)
            .output()
            .unwrap();
        assert!(made.status.success(), "{program}: {made:?}");
        let file = File::open(&path).unwrap();
        let found = find(&file, bytes).unwrap();
        assert_eq!(found.iter().map(|of| of.kind).collect::<Vec<_>>(), [kind], "{program}");
        assert_eq!(found[0].label.as_deref().unwrap_or_default(), label, "{program}");
        assert_eq!(blkid(&path, "TYPE"), kind, "{program}");
        fs::remove_file(&path).unwrap();
    }
}

/// Tools that make an image of a directory.
#[test]
fn images_of_directories_are_found_as_blkid_finds_them() {
    if testkit::lacks(Need::Program("blkid")) {
        return;
    }
    let folder = Scratch::new();
    folder.file("content/greeting", "hello");
    let (content, image) = (folder.join("content"), folder.join("image"));
    let (content, path) = (content.as_os_str(), image.as_os_str());
    for (program, arguments, kind) in [
        ("mkfs.cramfs", &["-n".as_ref(), "PAYROLL".as_ref(), content, path][..], "cramfs"),
        ("mkfs.cramfs", &["-N".as_ref(), "big".as_ref(), content, path], "cramfs"),
        ("mksquashfs", &[content, path, "-quiet".as_ref()], "squashfs"),
        ("mkfs.erofs", &[path, content], "erofs"),
        ("genisoimage", &["-quiet".as_ref(), "-o".as_ref(), path, content], "iso9660"),
    ] {
        if testkit::partly_lacks(Need::Package(program)) {
            continue;
        }
        let made = Command::new(testkit::need::program(program).unwrap()).args(arguments).output().unwrap();
        assert!(made.status.success(), "{program}: {made:?}");
        assert_eq!(kinds(&image), [kind], "{program}");
        assert_eq!(blkid(&image, "TYPE"), kind, "{program}");
        fs::remove_file(&image).unwrap();
    }
}

/// A partition table with a file system in a partition: both are said.
#[test]
fn what_partitions_hold_is_found_too() {
    let folder = Scratch::new();
    let path = blank(&folder, BYTES);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut entry = [0_u8; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    entry[12..16].copy_from_slice(&8192_u32.to_le_bytes());
    file.write_all_at(&entry, 446).unwrap();
    file.write_all_at(&[0x55, 0xaa], 510).unwrap();
    file.write_all_at(b"XFSB", 2048 * 512).unwrap();
    file.write_all_at(b"LOGS", 2048 * 512 + 108).unwrap();
    let words = in_words(&find(&file, BYTES).unwrap());
    assert_eq!(words, "a partition table (MBR), a file system (xfs) \"LOGS\" in partition 1");
    if !testkit::partly_lacks(Need::Program("blkid")) {
        assert_eq!(blkid(&path, "PTTYPE"), "dos");
    }

    let path = blank(&folder, BYTES);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut header = [0_u8; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    file.write_all_at(&header, 512).unwrap();
    let mut entry = [0_u8; 128];
    entry[..16].fill(7);
    entry[32..40].copy_from_slice(&2048_u64.to_le_bytes());
    entry[40..48].copy_from_slice(&4095_u64.to_le_bytes());
    entry[56..64].copy_from_slice(&[b'd', 0, b'a', 0, b't', 0, b'a', 0]);
    file.write_all_at(&entry, 1024).unwrap();
    file.write_all_at(b"LUKS\xba\xbe", 2048 * 512).unwrap();
    let words = in_words(&find(&file, BYTES).unwrap());
    assert_eq!(words, "a partition table (GPT), encrypted data (LUKS) in partition 1 \"data\"");
}

#[test]
fn members_of_a_pool_are_found_in_any_of_their_labels() {
    let folder = Scratch::new();
    for label in [0, 256 << 10, BYTES - (512 << 10), BYTES - (256 << 10)] {
        let path = blank(&folder, BYTES);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        for at in 0..8 {
            let place = label + (128 << 10) + at * 1024;
            file.write_all_at(&0x00ba_b10c_u64.to_le_bytes(), place).unwrap();
        }
        assert_eq!(kinds(&path), ["zfs_member"], "{label}");
    }
}
