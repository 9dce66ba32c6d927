//! What the superblock of a file system says: which one it is, and how it was made.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The file systems that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// ext4 (Documentation/filesystems/ext4 of Linux).
    Ext4,
    /// XFS (xfs_format.h of Linux).
    Xfs,
    /// Btrfs (btrfs_tree.h of Linux).
    Btrfs,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 3] = [Kind::Ext4, Kind::Xfs, Kind::Btrfs];

    /// Its name, as mount(8) and the kernel know it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
        }
    }
}

/// The part of a superblock that matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) kind: Kind,
    /// As it is written: `123e4567-e89b-12d3-a456-426614174000`.
    pub(crate) uuid: String,
    /// Bytes of a block.
    pub(crate) block_size: u64,
    /// ext4: bytes that are allocated at a time.
    pub(crate) cluster_size: u64,
    /// ext4: whether there is a journal.
    pub(crate) has_journal: bool,
    /// XFS: allocation groups.
    pub(crate) groups: u64,
    /// XFS: bytes of a stripe unit and of a whole stripe.
    pub(crate) stripe: (u64, u64),
    /// Btrfs: bytes of a node.
    pub(crate) node_size: u64,
}

/// Bytes from the start of a device that hold the superblock of each kind.
pub(crate) const BYTES: usize = (64 << 10) + 4096;

/// Reads the superblock of a device; none if there is none that is known.
pub(crate) fn read(device: &Path) -> io::Result<Option<Superblock>> {
    read_from(&File::open(device)?)
}

/// The same, of an open device.
pub(crate) fn read_from(device: &File) -> io::Result<Option<Superblock>> {
    let mut bytes = vec![0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        match device.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(parse(&bytes))
}

/// Finds the superblock in the first bytes of a device.
fn parse(bytes: &[u8]) -> Option<Superblock> {
    ext4(bytes).or_else(|| xfs(bytes)).or_else(|| btrfs(bytes))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn little(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(|word| u64::from(u32::from_le_bytes(word)))
}

fn big(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(|word| u64::from(u32::from_be_bytes(word)))
}

fn uuid(bytes: &[u8], at: usize) -> Option<String> {
    Some(written(array(bytes, at)?))
}

/// A UUID as text.
pub(crate) fn written(uuid: [u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in uuid.iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        text.push_str(&format!("{dash}{byte:02x}"));
    }
    text
}

fn ext4(bytes: &[u8]) -> Option<Superblock> {
    const START: usize = 1024;
    const HAS_JOURNAL: u64 = 4;
    if array(bytes, START + 0x38)? != [0x53, 0xef] {
        return None;
    }
    let size = |at: usize| 1024_u64.checked_shl(u32::try_from(little(bytes, START + at)?).ok()?.min(32));
    Some(Superblock {
        kind: Kind::Ext4,
        uuid: uuid(bytes, START + 0x68)?,
        block_size: size(0x18)?,
        cluster_size: size(0x1c)?,
        has_journal: little(bytes, START + 0x5c)? & HAS_JOURNAL != 0,
        groups: 0,
        stripe: (0, 0),
        node_size: 0,
    })
}

fn xfs(bytes: &[u8]) -> Option<Superblock> {
    if array(bytes, 0)? != *b"XFSB" {
        return None;
    }
    let block_size = big(bytes, 4)?;
    Some(Superblock {
        kind: Kind::Xfs,
        uuid: uuid(bytes, 32)?,
        block_size,
        cluster_size: block_size,
        has_journal: true,
        groups: big(bytes, 88)?,
        stripe: (big(bytes, 184)? * block_size, big(bytes, 188)? * block_size),
        node_size: 0,
    })
}

fn btrfs(bytes: &[u8]) -> Option<Superblock> {
    const START: usize = 64 << 10;
    if array(bytes, START + 64)? != *b"_BHRfS_M" {
        return None;
    }
    let block_size = little(bytes, START + 144)?;
    Some(Superblock {
        kind: Kind::Btrfs,
        uuid: uuid(bytes, START + 32)?,
        block_size,
        cluster_size: block_size,
        has_journal: false,
        groups: 0,
        stripe: (0, 0),
        node_size: little(bytes, START + 148)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;
    use testkit::{Need, Scratch};

    const UUID: &str = "8f14e45f-ceea-467f-ab5f-0d4bd1e2f3a4";

    /// Makes a file system in a file and reads it.
    fn made(program: &str, arguments: &[&str]) -> Option<Superblock> {
        if testkit::partly_lacks(Need::Program(program)) {
            return None;
        }
        let folder = Scratch::new();
        let path = folder.file("image", "");
        File::options().write(true).open(&path).unwrap().set_len(400 << 20).unwrap();
        let made = Command::new(testkit::need::program(program).unwrap()).args(arguments).arg(&path).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{made:?}");
        read(&path).unwrap()
    }

    #[test]
    fn what_mkfs_makes_is_read() {
        let empty = Superblock {
            kind: Kind::Ext4,
            uuid: UUID.into(),
            block_size: 4096,
            cluster_size: 65536,
            has_journal: false,
            groups: 0,
            stripe: (0, 0),
            node_size: 0,
        };
        let features = "^has_journal,bigalloc";
        let ext4 = ["-q", "-F", "-b", "4096", "-C", "65536", "-O", features, "-U", UUID];
        if let Some(found) = made("mkfs.ext4", &ext4) {
            assert_eq!(found, empty);
        }
        let options = format!("uuid={UUID}");
        let xfs = ["-q", "-b", "size=1024", "-d", "agcount=3,su=64k,sw=2", "-m", &options];
        if let Some(found) = made("mkfs.xfs", &xfs) {
            let stripe = (64 << 10, 128 << 10);
            let (block_size, cluster_size, has_journal) = (1024, 1024, true);
            let kind = Kind::Xfs;
            let wanted = Superblock {
                kind,
                block_size,
                cluster_size,
                has_journal,
                groups: 3,
                stripe,
                ..empty.clone()
            };
            assert_eq!(found, wanted);
        }
        if let Some(found) = made("mkfs.btrfs", &["-q", "-n", "32768", "-U", UUID]) {
            let kind = Kind::Btrfs;
            assert_eq!(found, Superblock { kind, cluster_size: 4096, node_size: 32768, ..empty });
        }
        let folder = Scratch::new();
        assert_eq!(read(&folder.file("zeros", vec![0; BYTES])).unwrap(), None);
        assert_eq!(read(&folder.file("short", "XFS")).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..BYTES), which in 0..3) {
            let (at, magic): (usize, &[u8]) =
                [(1080, &[0x53, 0xef][..]), (0, b"XFSB"), (65600, b"_BHRfS_M")][which as usize];
            if let Some(place) = bytes.get_mut(at..at + magic.len()) {
                place.copy_from_slice(magic);
            }
            let _ = parse(&bytes);
        }
    }
}
