//! What a device holds, by the magic numbers of its superblocks and tables: what would be lost when it is overwritten.

mod checks;
mod formats;
mod tables;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use formats::{At, FORMATS};

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

fn le16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |of| u16::from_le_bytes([of[0], of[1]]))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |of| u32::from_le_bytes([of[0], of[1], of[2], of[3]]))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

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
            At::Start(at) => Some(at),
            At::End(before, multiple) => (self.bytes / multiple * multiple).checked_sub(before),
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
        let mut found: Vec<Signature> =
            [self.ext()?, self.ufs()?, self.xfs_log()?, self.zfs()?].into_iter().flatten().collect();
        for format in FORMATS {
            // Copies of a superblock, and a second form of a format.
            if found.iter().any(|signature| signature.kind == format.kind) {
                continue;
            }
            for (at, magic) in format.magics {
                if !self.has(*at, magic)? {
                    continue;
                }
                if let Some(check) = format.check {
                    let start = self.place(*at).and_then(|at| at.checked_sub(check.before));
                    let Some(start) = start else { continue };
                    if !(check.is_met)(&self.read(start, check.bytes)?) {
                        continue;
                    }
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
        let block = self.read(1024, 356)?;
        let is_possible = le16(&block, 56) == 0xef53 && le32(&block, 24) <= 6 && le32(&block, 76) <= 1;
        if !is_possible {
            return Ok(None);
        }
        let (compatible, incompatible, read_only) = (le32(&block, 92), le32(&block, 96), le32(&block, 100));
        let (kind, words) = match () {
            () if incompatible & 0x8 != 0 => ("jbd", "a journal of a file system (ext4)"),
            () if le32(&block, 352) & 0x4 != 0 => ("ext4dev", "a file system (ext4, for tests)"),
            // What ext3 does not know.
            () if incompatible & !0x1f != 0 || read_only & !0x7 != 0 => ("ext4", "a file system (ext4)"),
            () if compatible & 0x4 != 0 => ("ext3", "a file system (ext3)"),
            () => ("ext2", "a file system (ext2)"),
        };
        Ok(Some(Signature { kind, words, label: self.label((1024 + 120, 16))?, place: None }))
    }

    /// UFS of any system: in four places, with six numbers, in both byte orders.
    fn ufs(&self) -> io::Result<Option<Signature>> {
        const MAGICS: [u32; 6] =
            [0x0001_1954, 0x1954_0119, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994];
        for start in [0, 8 << 10, 64 << 10, 256 << 10] {
            let magic = le32(&self.read(start + 1372, 4)?, 0);
            if MAGICS.contains(&magic) || MAGICS.contains(&magic.swap_bytes()) {
                return Ok(Some(recognized("ufs", "a file system (UFS)")));
            }
        }
        Ok(None)
    }

    /// A log of XFS on a device of its own: the header of a record in one of the first 512 sectors. A file system that
    /// begins there has its log elsewhere.
    fn xfs_log(&self) -> io::Result<Option<Signature>> {
        let sectors = self.read(0, 512 * 512)?;
        for sector in sectors.chunks_exact(512) {
            if sector.starts_with(b"XFSB") {
                break;
            }
            let number = |at| le32(sector, at).swap_bytes();
            let is_header = sector.starts_with(b"\xfe\xed\xba\xbe")
                && (1..=3).contains(&number(8))
                && (1..=i32::MAX as u32).contains(&number(12))
                && (1..=3).contains(&number(300));
            if is_header {
                return Ok(Some(recognized("xfs_external_log", "a log of a file system (xfs)")));
            }
        }
        Ok(None)
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
                return Ok(Some(recognized("zfs_member", "a member of a ZFS pool")));
            }
        }
        Ok(None)
    }
}

fn recognized(kind: &'static str, words: &'static str) -> Signature {
    Signature { kind, words, label: None, place: None }
}

/// What a file or device of so many bytes holds, and what its partitions hold. Empty where nothing is recognized.
///
/// # Errors
/// When it cannot be read.
pub fn find(file: &File, bytes: u64) -> io::Result<Vec<Signature>> {
    let whole = Part { file, start: 0, bytes };
    let mut found = whole.formats()?;
    // The boot sector of a file system ends as a partition table does, and boot loaders leave tables without partitions.
    let is_boot_sector =
        found.iter().any(|of| matches!(of.kind, "vfat" | "ntfs" | "exfat" | "BitLocker" | "ReFS"));
    let is_beside = |table: &Signature, parts: &[_]| match table.kind {
        "dos" | "PMBR" => !is_boot_sector && !parts.is_empty(),
        _ => true,
    };
    if let Some((table, parts)) =
        whole.partitions()?.filter(|(table, parts)| found.is_empty() || is_beside(table, parts))
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
