//! The formats that are recognized by magic numbers.
//!
//! Places and numbers are those of libblkid (util-linux, `libblkid/src/superblocks` and `partitions`), and of the formats'
//! own headers where libblkid has none (images of virtual machines).

use super::checks;
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

/// A further condition, for magic numbers that alone could be chance.
#[derive(Clone, Copy)]
pub(super) struct Check {
    /// How many bytes before the magic number it begins.
    pub(super) before: u64,
    /// How many bytes it needs; it gets fewer at the end of a device.
    pub(super) bytes: usize,
    pub(super) is_met: fn(&[u8]) -> bool,
}

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

const fn checked(format: Format, before: u64, bytes: usize, is_met: fn(&[u8]) -> bool) -> Format {
    Format { check: Some(Check { before, bytes, is_met }), ..format }
}

/// Every format but ext2 to ext4, UFS, ZFS, external logs of XFS and most partition tables, which take more than one look.
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
    checked(
        format("vfat", "a file system (FAT)", &[(Start(510), b"\x55\xaa")]),
        510,
        512,
        checks::is_nameless_fat,
    ),
    format("exfat", "a file system (exFAT)", &[(Start(3), b"EXFAT   ")]),
    format("ntfs", "a file system (NTFS)", &[(Start(3), b"NTFS    ")]),
    format("ReFS", "a file system (ReFS)", &[(Start(0), b"\0\0\0ReFS\0")]),
    format(
        "BitLocker",
        "encrypted data (BitLocker)",
        &[
            (Start(3), b"-FVE-FS-"),
            (Start(424), b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01"),
        ],
    ),
    checked(
        format("cs_fvault2", "encrypted data (FileVault 2)", &[(Start(88), b"CS")]),
        88,
        94,
        checks::is_file_vault,
    ),
    labelled("crypto_LUKS", "encrypted data (LUKS)", &[(Start(0), b"LUKS\xba\xbe")], 24, 48),
    format(
        "crypto_LUKS",
        "a copy of a header of encrypted data (LUKS)",
        &[
            (Start(0x4000), b"SKUL\xba\xbe"),
            (Start(0x8000), b"SKUL\xba\xbe"),
            (Start(0x1_0000), b"SKUL\xba\xbe"),
            (Start(0x2_0000), b"SKUL\xba\xbe"),
            (Start(0x4_0000), b"SKUL\xba\xbe"),
            (Start(0x8_0000), b"SKUL\xba\xbe"),
            (Start(0x10_0000), b"SKUL\xba\xbe"),
            (Start(0x20_0000), b"SKUL\xba\xbe"),
            (Start(0x40_0000), b"SKUL\xba\xbe"),
        ],
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
            (Start(0x7ff6), b"SWAP-SPACE"),
            (Start(0xfff6), b"SWAP-SPACE"),
        ],
        1052,
        16,
    ),
    format(
        "swsuspend",
        "the memory of a suspended system",
        &[
            // TuxOnIce.
            (Start(0), b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
            (Start(0xff6), b"S1SUSPEND"),
            (Start(0xff6), b"S2SUSPEND"),
            (Start(0xff6), b"ULSUSPEND"),
            (Start(0xff6), b"LINHIB0001"),
            (Start(0x1ff6), b"S1SUSPEND"),
            (Start(0x1ff6), b"S2SUSPEND"),
            (Start(0x1ff6), b"ULSUSPEND"),
            (Start(0x1ff6), b"LINHIB0001"),
            (Start(0x3ff6), b"S1SUSPEND"),
            (Start(0x3ff6), b"S2SUSPEND"),
            (Start(0x3ff6), b"ULSUSPEND"),
            (Start(0x3ff6), b"LINHIB0001"),
            (Start(0x7ff6), b"S1SUSPEND"),
            (Start(0x7ff6), b"S2SUSPEND"),
            (Start(0x7ff6), b"ULSUSPEND"),
            (Start(0x7ff6), b"LINHIB0001"),
            (Start(0xfff6), b"S1SUSPEND"),
            (Start(0xfff6), b"S2SUSPEND"),
            (Start(0xfff6), b"ULSUSPEND"),
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
    format(
        "isw_raid_member",
        "a member of an Intel RAID",
        &[
            (End(1024, 512), b"Intel Raid ISM Cfg Sig. "),
            // Sectors of 4 KiB.
            (End(8192, 4096), b"Intel Raid ISM Cfg Sig. "),
        ],
    ),
    format(
        "ddf_raid_member",
        "a member of a DDF RAID",
        &[
            (End(512, 512), b"\xde\x11\xde\x11"),
            (End(257 * 512, 512), b"\xde\x11\xde\x11"),
            (End(512, 512), b"\x11\xde\x11\xde"),
            (End(257 * 512, 512), b"\x11\xde\x11\xde"),
        ],
    ),
    format("lsi_mega_raid_member", "a member of an LSI RAID", &[(End(512, 512), b"$XIDE$")]),
    checked(
        format("via_raid_member", "a member of a VIA RAID", &[(End(512, 512), b"\x55\xaa")]),
        0,
        51,
        checks::is_via,
    ),
    checked(
        format(
            "silicon_medley_raid_member",
            "a member of a Silicon Image RAID",
            &[(End(512 - 0x60, 512), b"\0\0\0\x2f")],
        ),
        0x60,
        0x140,
        checks::is_silicon,
    ),
    format("nvidia_raid_member", "a member of an NVIDIA RAID", &[(End(1024, 512), b"NVIDIA")]),
    format(
        "promise_fasttrack_raid_member",
        "a member of a Promise RAID",
        &[
            (End(16 * 512, 512), b"Promise Technology, Inc."),
            (End(63 * 512, 512), b"Promise Technology, Inc."),
            (End(255 * 512, 512), b"Promise Technology, Inc."),
            (End(256 * 512, 512), b"Promise Technology, Inc."),
            (End(399 * 512, 512), b"Promise Technology, Inc."),
            (End(591 * 512, 512), b"Promise Technology, Inc."),
            (End(675 * 512, 512), b"Promise Technology, Inc."),
            (End(735 * 512, 512), b"Promise Technology, Inc."),
            (End(911 * 512, 512), b"Promise Technology, Inc."),
            (End(951 * 512, 512), b"Promise Technology, Inc."),
            (End(974 * 512, 512), b"Promise Technology, Inc."),
            (End(991 * 512, 512), b"Promise Technology, Inc."),
            (End(3087 * 512, 512), b"Promise Technology, Inc."),
        ],
    ),
    // The second number marks an array that is broken.
    format(
        "hpt45x_raid_member",
        "a member of a HighPoint RAID",
        &[(End(11 * 512, 512), b"\xf3\x16\x78\x5a"), (End(11 * 512, 512), b"\xfd\x16\x78\x5a")],
    ),
    format(
        "hpt37x_raid_member",
        "a member of a HighPoint RAID",
        &[(Start(9 * 512 + 32), b"\xf0\x16\x78\x5a"), (Start(9 * 512 + 32), b"\xfd\x16\x78\x5a")],
    ),
    format("adaptec_raid_member", "a member of an Adaptec RAID", &[(End(512, 512), b"\x37\xfc\x4d\x1e")]),
    checked(
        format("jmicron_raid_member", "a member of a JMicron RAID", &[(End(512, 512), b"JM")]),
        0,
        128,
        checks::is_jmicron,
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
    format(
        "bcachefs",
        "a copy of the superblock of a file system (bcachefs)",
        &[
            (Start((2 << 20) + 24), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
            (End((1 << 20) - 24, 1), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
        ],
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
        &[
            (End(4096 - 60, 4096), b"\x83\x74\x02\x67"),
            // Versions 7 and 8, 8.4 while it is attached, and 9.
            (End(4096 - 60, 4096), b"\x83\x74\x02\x6a"),
            (End(4096 - 60, 4096), b"\x83\x74\x02\x6b"),
            (End(4096 - 60, 4096), b"\x83\x74\x02\x6c"),
            (End(4096 - 60, 4096), b"\x83\x74\x02\x6d"),
        ],
    ),
    format("drbdmanage_control_volume", "a control volume of DRBD Manage", &[(Start(0), b"$DRBDmgr=q")]),
    format("drbdproxy_datalog", "a log of DRBD Proxy", &[(Start(0), b"DRBDdlh*")]),
    format("VMFS_volume_member", "a member of a VMFS volume", &[(Start(0x10_0000), b"\x0d\xd0\x01\xc0")]),
    format("VMFS", "a file system (VMFS)", &[(Start(0x20_0000), b"\x5e\xf1\xab\x2f")]),
    labelled("iso9660", "a file system (ISO 9660)", &[(Start(0x8001), b"CD001")], 0x8028, 32),
    format("iso9660", "a file system (High Sierra)", &[(Start(0x8009), b"CDROM")]),
    format(
        "udf",
        "a file system (UDF)",
        &[
            (Start(0x8001), b"BEA01"),
            (Start(0x8001), b"BOOT2"),
            (Start(0x8001), b"CDW02"),
            (Start(0x8001), b"NSR02"),
            (Start(0x8001), b"NSR03"),
            (Start(0x8001), b"TEA01"),
            (Start(0x8801), b"NSR02"),
            (Start(0x8801), b"NSR03"),
        ],
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
            (Start(0x2014), b"ReIsErFs"),
        ],
        0x1_0064,
        16,
    ),
    format("reiser4", "a file system (Reiser4)", &[(Start(0x1_0000), b"ReIsEr4")]),
    format("ocfs", "a file system (OCFS)", &[(Start(8192), b"OracleCFS")]),
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
    checked(
        format("gfs", "a file system (GFS)", &[(Start(0x1_0000), b"\x01\x16\x19\x70")]),
        0,
        28,
        checks::is_gfs,
    ),
    checked(
        format("gfs2", "a file system (GFS2)", &[(Start(0x1_0000), b"\x01\x16\x19\x70")]),
        0,
        28,
        checks::is_gfs2,
    ),
    format("apfs", "a file system (APFS)", &[(Start(32), b"NXSB")]),
    format("hfsplus", "a file system (HFS+)", &[(Start(1024), b"H+\0\x04"), (Start(1024), b"HX\0\x05")]),
    checked(
        format("hfsplus", "a file system (HFS+)", &[(Start(1024), b"BD")]),
        0,
        128,
        checks::is_wrapped_hfsplus,
    ),
    checked(
        labelled("hfs", "a file system (HFS)", &[(Start(1024), b"BD")], 1024 + 37, 27),
        0,
        128,
        checks::is_hfs,
    ),
    checked(
        format("squashfs", "a file system (squashfs)", &[(Start(0), b"hsqs")]),
        0,
        30,
        checks::is_squashfs,
    ),
    checked(
        format("squashfs3", "a file system (squashfs 3)", &[(Start(0), b"hsqs")]),
        0,
        30,
        checks::is_squashfs3,
    ),
    format("squashfs3", "a file system (squashfs 3)", &[(Start(0), b"sqsh")]),
    labelled("erofs", "a file system (EROFS)", &[(Start(1024), b"\xe2\xe1\xf5\xe0")], 1024 + 64, 16),
    labelled(
        "cramfs",
        "a file system (cramfs)",
        &[(Start(0), b"\x45\x3d\xcd\x28"), (Start(0), b"\x28\xcd\x3d\x45")],
        48,
        16,
    ),
    format("romfs", "a file system (romfs)", &[(Start(0), b"-rom1fs-")]),
    format(
        "vxfs",
        "a file system (VxFS)",
        &[(Start(1024), b"\xf5\xfc\x01\xa5"), (Start(8192), b"\xa5\x01\xfc\xf5")],
    ),
    format(
        "befs",
        "a file system (BeFS)",
        &[(Start(512 + 32), b"1SFB"), (Start(32), b"1SFB"), (Start(512 + 32), b"BFS1"), (Start(32), b"BFS1")],
    ),
    format("bfs", "a file system (UnixWare BFS)", &[(Start(0), b"\xce\xfa\xad\x1b")]),
    labelled("zonefs", "a file system (zonefs)", &[(Start(0), b"SFOZ")], 8, 32),
    labelled("exfs", "a file system (EXFS)", &[(Start(0), b"EXFS")], 108, 12),
    format("hpfs", "a file system (HPFS)", &[(Start(8192), b"\x49\xe8\x95\xf9")]),
    format("nss", "a storage pool of NetWare", &[(Start(4096), b"SPB5")]),
    labelled("mpool", "a member of an mpool", &[(Start(0), b"mpoolDev")], 8, 32),
    format("scoutfs", "a file system (ScoutFS)", &[(Start(0x1_0004), b"\x8b\x42\x3c\x10")]),
    // Number and type of the superblock are at its end.
    format(
        "xenix",
        "a file system (Xenix)",
        &[(Start(1024 + 1016), b"\x44\x55\x2b\0"), (Start(1024 + 1016), b"\0\x2b\x55\x44")],
    ),
    format(
        "sysv",
        "a file system (System V)",
        &[
            (Start(1016), b"\x20\x7e\x18\xfd"),
            (Start(9 * 1024 + 1016), b"\x20\x7e\x18\xfd"),
            (Start(15 * 1024 + 1016), b"\x20\x7e\x18\xfd"),
            (Start(18 * 1024 + 1016), b"\x20\x7e\x18\xfd"),
            (Start(1016), b"\xfd\x18\x7e\x20"),
            (Start(9 * 1024 + 1016), b"\xfd\x18\x7e\x20"),
            (Start(15 * 1024 + 1016), b"\xfd\x18\x7e\x20"),
            (Start(18 * 1024 + 1016), b"\xfd\x18\x7e\x20"),
        ],
    ),
    format("ubi", "a UBI volume", &[(Start(0), b"UBI#")]),
    format("ubifs", "a file system (UBIFS)", &[(Start(0), b"\x31\x18\x10\x06")]),
    checked(
        labelled("nilfs2", "a file system (NILFS2)", &[(Start(1024 + 6), b"\x34\x34")], 1024 + 168, 80),
        6,
        24,
        checks::is_nilfs2,
    ),
    checked(
        format(
            "nilfs2",
            "a copy of the superblock of a file system (NILFS2)",
            &[(End(4096 - 6, 512), b"\x34\x34")],
        ),
        6,
        24,
        checks::is_nilfs2,
    ),
    checked(
        format(
            "minix",
            "a file system (Minix)",
            &[
                (Start(1024 + 16), b"\x7f\x13"),
                (Start(1024 + 16), b"\x8f\x13"),
                (Start(1024 + 16), b"\x68\x24"),
                (Start(1024 + 16), b"\x78\x24"),
                (Start(1024 + 16), b"\x13\x7f"),
                (Start(1024 + 16), b"\x13\x8f"),
                (Start(1024 + 16), b"\x24\x68"),
                (Start(1024 + 16), b"\x24\x78"),
            ],
        ),
        16,
        58,
        checks::is_minix,
    ),
    checked(
        format(
            "minix",
            "a file system (Minix 3)",
            &[(Start(1024 + 24), b"\x5a\x4d"), (Start(1024 + 24), b"\x4d\x5a")],
        ),
        24,
        58,
        checks::is_minix3,
    ),
    format("LDM", "a dynamic disk of Windows", &[(Start(0xc00), b"PRIVHEAD")]),
    checked(
        format(
            "mac",
            "a partition table (Apple)",
            &[(Start(512), b"PM\0\0"), (Start(512), b"TS\0\0"), (Start(0), b"ER")],
        ),
        0,
        4098,
        checks::is_mac,
    ),
    format("aix", "a partition table (AIX)", &[(Start(0), b"\xc9\xc2\xd4\xc1")]),
    format("sgi", "a partition table (SGI)", &[(Start(0), b"\x0b\xe5\xa9\x41")]),
    checked(format("sun", "a partition table (Sun)", &[(Start(508), b"\xda\xbe")]), 508, 512, checks::is_sun),
    format(
        "bsd",
        "a partition table (BSD)",
        &[
            (Start(512), b"\x57\x45\x56\x82"),
            (Start(64), b"\x57\x45\x56\x82"),
            (Start(128), b"\x57\x45\x56\x82"),
        ],
    ),
    format("solaris", "a partition table (Solaris)", &[(Start(512 + 12), b"\xee\xde\x0d\x60")]),
    format("unixware", "a partition table (UnixWare)", &[(Start(29 * 512 + 4), b"\x0d\x60\xe5\xca")]),
    format("ultrix", "a partition table (Ultrix)", &[(Start(16312), b"\x57\x29\x03\0\x01\0\0\0")]),
    // VOL1, LNX1 and CMS1 in EBCDIC, in the third block.
    format(
        "dasd",
        "a partition table (IBM DASD)",
        &[
            (Start(2 * 512 + 4), b"\xe5\xd6\xd3\xf1"),
            (Start(2 * 1024 + 4), b"\xe5\xd6\xd3\xf1"),
            (Start(2 * 2048 + 4), b"\xe5\xd6\xd3\xf1"),
            (Start(2 * 4096 + 4), b"\xe5\xd6\xd3\xf1"),
            (Start(2 * 512), b"\xd3\xd5\xe7\xf1"),
            (Start(2 * 1024), b"\xd3\xd5\xe7\xf1"),
            (Start(2 * 2048), b"\xd3\xd5\xe7\xf1"),
            (Start(2 * 4096), b"\xd3\xd5\xe7\xf1"),
            (Start(2 * 512), b"\xc3\xd4\xe2\xf1"),
            (Start(2 * 1024), b"\xc3\xd4\xe2\xf1"),
            (Start(2 * 2048), b"\xc3\xd4\xe2\xf1"),
            (Start(2 * 4096), b"\xc3\xd4\xe2\xf1"),
        ],
    ),
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
