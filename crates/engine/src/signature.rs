//! What a device holds, by the magic numbers of its superblocks and tables: what would be lost when it is overwritten.
//!
//! Places and numbers are those of libblkid (util-linux, `libblkid/src/superblocks` and `partitions`), and of the formats'
//! own headers where libblkid has none (images of virtual machines).

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Something that a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The type as `blkid` names it.
    pub kind: &'static str,
    /// What it is, in words.
    words: &'static str,
    label: Option<String>,
    /// Where it is, if not in the device as a whole.
    place: Option<String>,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.words)?;
        if let Some(label) = &self.label {
            write!(f, " \"{label}\"")?;
        }
        match &self.place {
            Some(place) => write!(f, " in {place}"),
            None => Ok(()),
        }
    }
}

/// Where a magic number is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Bytes from the start.
    Start(u64),
    /// Bytes before the end, after the end was rounded down to a multiple.
    End(u64, u64),
}

/// A label: how far behind the start it is, and how many bytes it has at most.
type Label = Option<(u64, usize)>;

/// A further condition, for magic numbers of two bytes: it gets the 128 bytes from the magic number on.
type Check = fn(&[u8]) -> bool;

struct Format {
    kind: &'static str,
    words: &'static str,
    magics: &'static [(At, &'static [u8])],
    label: Label,
    check: Option<Check>,
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

use At::{End, Start};

fn le16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |of| u16::from_le_bytes([of[0], of[1]]))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |of| u32::from_le_bytes([of[0], of[1], of[2], of[3]]))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// Every format but ext2 to ext4, partition tables and ZFS, which take more than one look.
static FORMATS: &[Format] = &[
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

/// A partition in words, its start and its bytes.
type Partition = (String, u64, u64);

/// Most partitions that are looked into.
const PARTITIONS_MAX: usize = 16;

/// A part of a device: where it begins and how many bytes it has.
struct Part<'a> {
    file: &'a File,
    start: u64,
    bytes: u64,
}

impl Part<'_> {
    /// Up to `count` bytes from a place on; fewer at the end.
    fn read(&self, at: u64, count: usize) -> io::Result<Vec<u8>> {
        let count = count.min(usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(count));
        let mut bytes = vec![0; count];
        let mut read = 0;
        while read < count {
            match self.file.read_at(&mut bytes[read..], self.start + at + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    fn place(&self, at: At) -> Option<u64> {
        match at {
            Start(at) => Some(at),
            End(before, multiple) => (self.bytes / multiple * multiple).checked_sub(before),
        }
    }

    fn has(&self, at: At, magic: &[u8]) -> io::Result<bool> {
        let Some(at) = self.place(at) else { return Ok(false) };
        Ok(self.read(at, magic.len())? == magic)
    }

    fn label(&self, (at, bytes): (u64, usize)) -> io::Result<Option<String>> {
        let bytes = self.read(at, bytes)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let text: String =
            String::from_utf8_lossy(&bytes[..end]).chars().filter(|of| !of.is_control()).collect();
        let text = text.trim();
        Ok((!text.is_empty() && text != "NO NAME").then(|| text.to_string()))
    }

    fn formats(&self) -> io::Result<Vec<Signature>> {
        let mut found: Vec<Signature> = self.ext()?.into_iter().chain(self.zfs()?).collect();
        for format in FORMATS {
            for (at, magic) in format.magics {
                if !self.has(*at, magic)? {
                    continue;
                }
                if let (Some(check), Some(at)) = (format.check, self.place(*at))
                    && !check(&self.read(at, 128)?)
                {
                    continue;
                }
                let label = format.label.map_or(Ok(None), |label| self.label(label))?;
                found.push(Signature { kind: format.kind, words: format.words, label, place: None });
                break;
            }
        }
        Ok(found)
    }

    /// ext2, ext3, ext4 and their journals: the magic number has two bytes, so others must be possible too.
    fn ext(&self) -> io::Result<Option<Signature>> {
        let block = self.read(1024, 264)?;
        let is_possible = le16(&block, 56) == 0xef53 && le32(&block, 24) <= 6 && le32(&block, 76) <= 1;
        if !is_possible {
            return Ok(None);
        }
        let (compatible, incompatible, read_only) = (le32(&block, 92), le32(&block, 96), le32(&block, 100));
        let (kind, words) = match () {
            () if incompatible & 0x8 != 0 => ("jbd", "a journal of a file system (ext4)"),
            // What ext3 does not know.
            () if incompatible & !0x1f != 0 || read_only & !0x7 != 0 => ("ext4", "a file system (ext4)"),
            () if compatible & 0x4 != 0 => ("ext3", "a file system (ext3)"),
            () => ("ext2", "a file system (ext2)"),
        };
        Ok(Some(Signature { kind, words, label: self.label((1024 + 120, 16))?, place: None }))
    }

    /// Uberblocks of ZFS, in the last halves of its four labels.
    fn zfs(&self) -> io::Result<Option<Signature>> {
        const LABEL: u64 = 256 << 10;
        const MAGICS: [&[u8]; 2] = [b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c"];
        let end = self.bytes / LABEL * LABEL;
        let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
        for label in labels.into_iter().flatten() {
            let ring = self.read(label + LABEL / 2, (LABEL / 2) as usize)?;
            if ring.chunks_exact(1024).any(|block| MAGICS.contains(&&block[..8])) {
                return Ok(Some(Signature {
                    kind: "zfs_member",
                    words: "a member of a ZFS pool",
                    label: None,
                    place: None,
                }));
            }
        }
        Ok(None)
    }

    /// The partition table, and where its partitions are.
    fn partitions(&self) -> io::Result<Option<(Signature, Vec<Partition>)>> {
        for sector in [512, 4096] {
            let header = self.read(sector, 92)?;
            if header.starts_with(b"EFI PART") {
                return Ok(Some((table("gpt", "a partition table (GPT)"), self.gpt(&header, sector)?)));
            }
            if let Some(last) = (self.bytes / sector).checked_sub(1)
                && self.read(last * sector, 8)? == b"EFI PART"
            {
                return Ok(Some((table("gpt", "a copy of a partition table (GPT) at its end"), Vec::new())));
            }
        }
        let boot = self.read(0, 512)?;
        let entries: Vec<&[u8]> = boot.get(446..510).unwrap_or_default().chunks_exact(16).collect();
        let is_used = |entry: &&&[u8]| entry[4] != 0 && le32(entry, 12) > 0;
        let is_table = boot.ends_with(&[0x55, 0xaa])
            && entries.iter().all(|entry| matches!(entry[0], 0 | 0x80))
            && entries.iter().any(|entry| is_used(&entry));
        if boot.len() < 512 || !is_table {
            return Ok(None);
        }
        let parts = entries.iter().enumerate().filter(|(_, entry)| is_used(entry)).map(|(index, entry)| {
            let (start, sectors) = (u64::from(le32(entry, 8)), u64::from(le32(entry, 12)));
            (format!("partition {}", index + 1), start * 512, sectors * 512)
        });
        Ok(Some((table("dos", "a partition table (MBR)"), parts.collect())))
    }

    fn gpt(&self, header: &[u8], sector: u64) -> io::Result<Vec<Partition>> {
        let (first, count, size) = (le64(header, 72), le32(header, 80), le32(header, 84) as usize);
        if !(128..=4096).contains(&size) {
            return Ok(Vec::new());
        }
        let Some(at) = first.checked_mul(sector) else { return Ok(Vec::new()) };
        let table = self.read(at, size * count.min(128) as usize)?;
        let entries = table.chunks_exact(size).enumerate().filter(|(_, entry)| entry[..16] != [0; 16]);
        let part = |(index, entry): (usize, &[u8])| {
            let (first, last) = (le64(entry, 32), le64(entry, 40));
            let units = entry[56..128].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            let name: String = char::decode_utf16(units.take_while(|unit| *unit != 0))
                .map(|letter| letter.unwrap_or('?'))
                .filter(|letter| !letter.is_control())
                .collect();
            let number = index + 1;
            let words = if name.is_empty() {
                format!("partition {number}")
            } else {
                format!("partition {number} \"{name}\"")
            };
            let bytes = last.checked_sub(first)?.checked_add(1)?.checked_mul(sector)?;
            Some((words, first.checked_mul(sector)?, bytes))
        };
        Ok(entries.filter_map(part).collect())
    }
}

fn table(kind: &'static str, words: &'static str) -> Signature {
    Signature { kind, words, label: None, place: None }
}

/// What a file or device of so many bytes holds, and what its partitions hold. Empty where nothing is recognized.
///
/// # Errors
/// When it cannot be read.
pub fn find(file: &File, bytes: u64) -> io::Result<Vec<Signature>> {
    let whole = Part { file, start: 0, bytes };
    let mut found = whole.formats()?;
    // The boot sector of a file system ends as a partition table does.
    let is_boot_sector =
        found.iter().any(|of| matches!(of.kind, "vfat" | "ntfs" | "exfat" | "BitLocker" | "ReFS"));
    if let Some((table, parts)) =
        whole.partitions()?.filter(|(table, _)| !is_boot_sector || table.kind == "gpt")
    {
        found.insert(0, table);
        for (words, start, length) in parts.into_iter().take(PARTITIONS_MAX) {
            let Some(bytes) = bytes.checked_sub(start).map(|left| left.min(length)).filter(|left| *left > 0)
            else {
                continue;
            };
            let inside = Part { file, start, bytes }.formats()?;
            found.extend(inside.into_iter().map(|of| Signature { place: Some(words.clone()), ..of }));
        }
    }
    Ok(found)
}

/// In one text: "a partition table (GPT), a file system (ext4) "DATA" in partition 1".
pub fn in_words(found: &[Signature]) -> String {
    found.iter().map(Signature::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
