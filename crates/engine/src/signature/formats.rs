//! The formats that are recognized by magic numbers.
//!
//! Places and numbers are those of libblkid (util-linux, `libblkid/src/superblocks` and `partitions`), and of the formats'
//! own headers where libblkid has none (images of virtual machines).

use super::le16;
use At::{End, Start};

/// Where a magic number is.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// Bytes from the start.
    Start(u64),
    /// Bytes before the end, after the end was rounded down to a multiple.
    End(u64, u64),
}

/// A label: how far behind the start it is, and how many bytes it has at most.
pub(super) type Label = Option<(u64, usize)>;

/// A further condition, for magic numbers of two bytes: it gets the 128 bytes from the magic number on.
type Check = fn(&[u8]) -> bool;

pub(super) struct Format {
    pub(super) kind: &'static str,
    pub(super) words: &'static str,
    pub(super) magics: &'static [(At, &'static [u8])],
    pub(super) label: Label,
    pub(super) check: Option<Check>,
}

const fn format(kind: &'static str, words: &'static str, magics: &'static [(At, &'static [u8])]) -> Format {
    Format { kind, words, magics, label: None, check: None }
}

const fn labelled(
    kind: &'static str,
    words: &'static str,
    magics: &'static [(At, &'static [u8])],
    place: u64,
    bytes: usize,
) -> Format {
    Format { kind, words, magics, label: Some((place, bytes)), check: None }
}

/// Every format but ext2 to ext4, partition tables and ZFS, which take more than one look.
pub(super) static FORMATS: &[Format] = &[
    labelled("xfs", "a file system (xfs)", &[(Start(0), b"XFSB")], 108, 12),
    labelled("btrfs", "a file system (btrfs)", &[(Start(0x1_0040), b"_BHRfS_M")], 0x1_012b, 256),
    labelled("vfat", "a file system (FAT)", &[(Start(0x52), b"FAT32   "), (Start(0x52), b"MSWIN")], 0x47, 11),
    labelled(
        "vfat",
        "a file system (FAT)",
        &[
            (Start(0x36), b"FAT16   "),
            (Start(0x36), b"FAT12   "),
            (Start(0x36), b"FAT     "),
            (Start(0x36), b"MSDOS"),
        ],
        0x2b,
        11,
    ),
    format("exfat", "a file system (exFAT)", &[(Start(3), b"EXFAT   ")]),
    format("ntfs", "a file system (NTFS)", &[(Start(3), b"NTFS    ")]),
    format("ReFS", "a file system (ReFS)", &[(Start(0), b"\0\0\0ReFS\0")]),
    format("BitLocker", "encrypted data (BitLocker)", &[(Start(3), b"-FVE-FS-")]),
    labelled(
        "crypto_LUKS",
        "encrypted data (LUKS)",
        &[
            (Start(0), b"LUKS\xba\xbe"),
            (Start(0x4000), b"SKUL\xba\xbe"),
            (Start(0x8000), b"SKUL\xba\xbe"),
            (Start(0x1_0000), b"SKUL\xba\xbe"),
        ],
        24,
        48,
    ),
    labelled(
        "swap",
        "swap space",
        &[
            (Start(0xff6), b"SWAPSPACE2"),
            (Start(0x1ff6), b"SWAPSPACE2"),
            (Start(0x3ff6), b"SWAPSPACE2"),
            (Start(0x7ff6), b"SWAPSPACE2"),
            (Start(0xfff6), b"SWAPSPACE2"),
            (Start(0xff6), b"SWAP-SPACE"),
            (Start(0x1ff6), b"SWAP-SPACE"),
            (Start(0x3ff6), b"SWAP-SPACE"),
            (Start(0xfff6), b"SWAP-SPACE"),
        ],
        1052,
        16,
    ),
    format(
        "swsuspend",
        "the memory of a suspended system",
        &[
            (Start(0xff6), b"S1SUSPEND"),
            (Start(0xff6), b"S2SUSPEND"),
            (Start(0xff6), b"ULSUSPEND"),
            (Start(0xff6), b"LINHIB0001"),
            (Start(0xff6), b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
            (Start(0xfff6), b"S1SUSPEND"),
            (Start(0xfff6), b"LINHIB0001"),
        ],
    ),
    format(
        "LVM2_member",
        "an LVM physical volume",
        &[
            (Start(0), b"LABELONE"),
            (Start(512), b"LABELONE"),
            (Start(1024), b"LABELONE"),
            (Start(1536), b"LABELONE"),
        ],
    ),
    format("LVM1_member", "an LVM physical volume", &[(Start(0), b"HM\x01\0"), (Start(0), b"HM\x02\0")]),
    labelled(
        "linux_raid_member",
        "a member of a Linux RAID (md 1.2)",
        &[(Start(4096), b"\xfc\x4e\x2b\xa9\x01\0\0\0")],
        4096 + 32,
        32,
    ),
    labelled(
        "linux_raid_member",
        "a member of a Linux RAID (md 1.1)",
        &[(Start(0), b"\xfc\x4e\x2b\xa9\x01\0\0\0")],
        32,
        32,
    ),
    format(
        "linux_raid_member",
        "a member of a Linux RAID (md 1.0)",
        &[(End(8192, 4096), b"\xfc\x4e\x2b\xa9\x01\0\0\0")],
    ),
    format(
        "linux_raid_member",
        "a member of a Linux RAID (md 0.90)",
        &[
            (End(0x1_0000, 0x1_0000), b"\xfc\x4e\x2b\xa9\0\0\0\0"),
            (End(0x1_0000, 0x1_0000), b"\xa9\x2b\x4e\xfc\0\0\0\0"),
        ],
    ),
    format("isw_raid_member", "a member of an Intel RAID", &[(End(1024, 512), b"Intel Raid ISM Cfg Sig. ")]),
    format(
        "ddf_raid_member",
        "a member of a DDF RAID",
        &[(End(512, 512), b"\xde\x11\xde\x11"), (End(257 * 512, 512), b"\xde\x11\xde\x11")],
    ),
    labelled(
        "bcache",
        "a bcache device, or bcachefs",
        &[(Start(4096 + 24), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81")],
        4096 + 72,
        32,
    ),
    labelled(
        "bcachefs",
        "a file system (bcachefs)",
        &[(Start(4096 + 24), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef")],
        4096 + 72,
        32,
    ),
    format("ceph_bluestore", "a Ceph object store (BlueStore)", &[(Start(0), b"bluestore block device")]),
    format(
        "stratis",
        "a Stratis block device",
        &[
            (Start(512 + 4), b"!Stra0tis\x86\xff\x02^\x41rh"),
            (Start(4608 + 4), b"!Stra0tis\x86\xff\x02^\x41rh"),
        ],
    ),
    format("vdo", "a VDO volume", &[(Start(0), b"dmvdo001")]),
    format("DM_verity_hash", "hashes of dm-verity", &[(Start(0), b"verity\0\0")]),
    format("DM_integrity", "a device of dm-integrity", &[(Start(0), b"integrt\0")]),
    format("DM_snapshot_cow", "a snapshot of device-mapper", &[(Start(0), b"SnAp")]),
    labelled("oracleasm", "a disk of Oracle ASM", &[(Start(32), b"ORCLDISK")], 40, 24),
    format(
        "drbd",
        "a DRBD volume",
        &[(End(4096 - 60, 4096), b"\x83\x74\x02\x67"), (End(4096 - 60, 4096), b"\x83\x74\x02\x6b")],
    ),
    format("VMFS_volume_member", "a member of a VMFS volume", &[(Start(0x10_0000), b"\x0d\xd0\x01\xc0")]),
    format("VMFS", "a file system (VMFS)", &[(Start(0x20_0000), b"\x5e\xf1\xab\x2f")]),
    labelled("iso9660", "a file system (ISO 9660)", &[(Start(0x8001), b"CD001")], 0x8028, 32),
    format(
        "udf",
        "a file system (UDF)",
        &[(Start(0x8001), b"BEA01"), (Start(0x8801), b"NSR02"), (Start(0x8801), b"NSR03")],
    ),
    format(
        "f2fs",
        "a file system (F2FS)",
        &[(Start(1024), b"\x10\x20\xf5\xf2"), (Start(5120), b"\x10\x20\xf5\xf2")],
    ),
    labelled("jfs", "a file system (JFS)", &[(Start(0x8000), b"JFS1")], 0x8000 + 152, 16),
    labelled(
        "reiserfs",
        "a file system (ReiserFS)",
        &[
            (Start(0x1_0034), b"ReIsErFs"),
            (Start(0x1_0034), b"ReIsEr2Fs"),
            (Start(0x1_0034), b"ReIsEr3Fs"),
            (Start(0x2034), b"ReIsErFs"),
        ],
        0x1_0064,
        16,
    ),
    format("reiser4", "a file system (Reiser4)", &[(Start(0x1_0000), b"ReIsEr4")]),
    format(
        "ocfs2",
        "a file system (OCFS2)",
        &[
            (Start(1024), b"OCFSV2"),
            (Start(2048), b"OCFSV2"),
            (Start(4096), b"OCFSV2"),
            (Start(8192), b"OCFSV2"),
        ],
    ),
    format("gfs2", "a file system (GFS2)", &[(Start(0x1_0000), b"\x01\x16\x19\x70")]),
    format("apfs", "a file system (APFS)", &[(Start(32), b"NXSB")]),
    format("hfsplus", "a file system (HFS+)", &[(Start(1024), b"H+\0\x04"), (Start(1024), b"HX\0\x05")]),
    Format {
        kind: "hfs",
        words: "a file system (HFS)",
        magics: &[(Start(1024), b"BD")],
        label: Some((1024 + 37, 27)),
        // The size of an allocation block, whole sectors.
        check: Some(|of| {
            let bytes = of.get(20..24).map_or(0, |of| u32::from_be_bytes([of[0], of[1], of[2], of[3]]));
            bytes > 0 && bytes.is_multiple_of(512)
        }),
    },
    format(
        "ufs",
        "a file system (UFS)",
        &[
            (Start(8192 + 1372), b"\x19\x01\x54\x19"),
            (Start(8192 + 1372), b"\x54\x19\x01\0"),
            (Start(8192 + 1372), b"\0\x01\x19\x54"),
            (Start(0x1_0000 + 1372), b"\x19\x01\x54\x19"),
        ],
    ),
    format("squashfs", "a file system (squashfs)", &[(Start(0), b"hsqs"), (Start(0), b"sqsh")]),
    labelled("erofs", "a file system (EROFS)", &[(Start(1024), b"\xe2\xe1\xf5\xe0")], 1024 + 64, 16),
    labelled(
        "cramfs",
        "a file system (cramfs)",
        &[(Start(0), b"\x45\x3d\xcd\x28"), (Start(0), b"\x28\xcd\x3d\x45")],
        48,
        16,
    ),
    format("romfs", "a file system (romfs)", &[(Start(0), b"-rom1fs-")]),
    format("vxfs", "a file system (VxFS)", &[(Start(1024), b"\xf5\xfc\x01\xa5")]),
    format("befs", "a file system (BeFS)", &[(Start(512 + 32), b"1SFB"), (Start(32), b"1SFB")]),
    format("ubi", "a UBI volume", &[(Start(0), b"UBI#")]),
    format("ubifs", "a file system (UBIFS)", &[(Start(0), b"\x31\x18\x10\x06")]),
    Format {
        kind: "nilfs2",
        words: "a file system (NILFS2)",
        magics: &[(Start(1024 + 6), b"\x34\x34")],
        label: Some((1024 + 152, 80)),
        // Bytes of the superblock that its checksum covers.
        check: Some(|of| (240..=1024).contains(&le16(of, 2))),
    },
    Format {
        kind: "minix",
        words: "a file system (Minix)",
        magics: &[
            (Start(1024 + 16), b"\x7f\x13"),
            (Start(1024 + 16), b"\x8f\x13"),
            (Start(1024 + 16), b"\x68\x24"),
            (Start(1024 + 16), b"\x78\x24"),
        ],
        label: None,
        // The state: valid, with errors, or both; and zones of one block are not looked at.
        check: Some(|of| (1..=3).contains(&le16(of, 2))),
    },
    format("LDM", "a dynamic disk of Windows", &[(Start(0xc00), b"PRIVHEAD")]),
    format("mac", "a partition table (Apple)", &[(Start(512), b"PM\0\0"), (Start(512), b"TS\0\0")]),
    format("qcow2", "an image of a virtual machine (qcow2)", &[(Start(0), b"QFI\xfb")]),
    format("vmdk", "an image of a virtual machine (VMDK)", &[(Start(0), b"KDMV")]),
    format("vhdx", "an image of a virtual machine (VHDX)", &[(Start(0), b"vhdxfile")]),
    format(
        "vhd",
        "an image of a virtual machine (VHD)",
        &[(End(512, 1), b"conectix"), (Start(0), b"conectix")],
    ),
    format("vdi", "an image of a virtual machine (VDI)", &[(Start(0x40), b"\x7f\x10\xda\xbe")]),
];
