//! How a file that Plimsoll made is known again.
//!
//! The mark is an extended attribute of the file, or a small file beside it where the file system has none. It says which
//! inode it belongs to, and the size and time of the last write. That alone would not do: `cp` onto a file keeps its
//! inode and attributes, `touch` sets any time, and a killed run leaves size and time behind. What decides is the
//! content: all that Plimsoll writes is made from one pool of random words (`content`), so that it is recognized whichever
//! run wrote it and however far that run came. A mark therefore proves nothing about a file with any other content in
//! the sampled places.
//!
//! It does not hold the device number: that of NFS and Btrfs changes with each mount.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use files::{Directory, Identity};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;

use super::buffer::Buffers;
use super::content;

const ATTRIBUTE: &std::ffi::CStr = c"user.plimsoll";

/// More than any mark has.
const TEXT_BYTES_MAX: usize = 512;

/// Places at which the content is looked at, besides the first and the last.
const SAMPLES: u64 = 126;

/// Bytes looked at in each place: what direct I/O can read from any disk.
const SAMPLE_BYTES: u64 = 4096;

/// What a file that Plimsoll made says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The headers in it are those of blocks of this size; 0 when blocks have none.
    pub(super) unit: u64,
    /// Made by a run that was not asked to keep it.
    pub(super) temporary: bool,
    /// Size in bytes and time of the last write, in seconds and nanoseconds; none while a run writes it.
    whole: Option<(u64, i64, i64)>,
}

impl Mark {
    /// Of a file that is being written from now on.
    pub(super) fn writing(unit: u64, temporary: bool) -> Self {
        Mark { unit, temporary, whole: None }
    }

    /// The same, of a file that nobody writes any more.
    fn finished(self, metadata: &std::fs::Metadata) -> Self {
        Mark { whole: Some(state(metadata)), ..self }
    }

    fn text(self, inode: u64) -> String {
        let keep = if self.temporary { "temporary" } else { "keep" };
        let state = match self.whole {
            Some((size, s, ns)) => format!("size={size} modified={s}.{ns:09}"),
            None => "writing".into(),
        };
        format!("plimsoll.file/2 inode={inode} unit={} {keep} {state}", self.unit)
    }

    fn parse(text: &str, inode: u64) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["plimsoll.file/2", owner, unit, keep, state @ ..] = words.as_slice() else { return None };
        if owner.strip_prefix("inode=")?.parse() != Ok(inode) {
            return None;
        }
        let whole = match state {
            ["writing"] => None,
            [size, modified] => {
                let (s, ns) = modified.strip_prefix("modified=")?.split_once('.')?;
                Some((size.strip_prefix("size=")?.parse().ok()?, s.parse().ok()?, ns.parse().ok()?))
            }
            _ => return None,
        };
        Some(Mark { unit: unit.strip_prefix("unit=")?.parse().ok()?, temporary: *keep == "temporary", whole })
    }

    /// The mark of an open file, if it has one. It describes the file; whether it is true is asked of [`Mark::proves`].
    pub(super) fn read(file: &File, beside: &Beside<'_>) -> Option<Self> {
        let inode = file.metadata().ok()?.ino();
        let mut text = [0_u8; TEXT_BYTES_MAX];
        let text = match rustix::fs::fgetxattr(file, ATTRIBUTE, &mut text) {
            Ok(length) => text.get(..length)?.to_vec(),
            Err(Errno::NOTSUP) => beside.read()?.0,
            Err(_) => return None,
        };
        Mark::parse(std::str::from_utf8(&text).ok()?, inode)
    }

    /// Puts the mark on an open file.
    ///
    /// # Errors
    /// When it can be neither in an attribute nor beside the file.
    pub(super) fn write(self, file: &File, beside: &Beside<'_>) -> io::Result<()> {
        let text = self.text(file.metadata()?.ino());
        match rustix::fs::fsetxattr(file, ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
            Err(Errno::NOTSUP) => beside.write(&text),
            other => Ok(other?),
        }
    }

    /// Says of a file that was being written that it is no more, with what the mark said otherwise.
    ///
    /// # Errors
    /// As [`Mark::write`].
    pub(super) fn finish(file: &File, beside: &Beside<'_>) -> io::Result<()> {
        match Mark::read(file, beside) {
            Some(mark) => mark.finished(&file.metadata()?).write(file, beside),
            None => Ok(()),
        }
    }

    /// Takes the mark from a file that is not Plimsoll's.
    pub(super) fn remove(file: &File, beside: &Beside<'_>) {
        // One that stays says nothing true about the content.
        if let Err(Errno::NOTSUP) = rustix::fs::fremovexattr(file, ATTRIBUTE) {
            beside.remove();
        }
    }

    /// Whether the file is as Plimsoll left it: of this user, not writable by others, with one name, unchanged since the
    /// last run or being written when its run was killed, and with Plimsoll's content.
    pub(super) fn proves(self, file: &File) -> bool {
        let Ok(metadata) = file.metadata() else { return false };
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode() & 0o022 == 0
            && metadata.nlink() == 1;
        let is_unchanged = self.whole.is_none_or(|whole| whole == state(&metadata));
        is_own && is_unchanged && is_recognized(file, metadata.len()).unwrap_or(false)
    }
}

fn state(metadata: &std::fs::Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Whether what Plimsoll writes is in all sampled places of a file.
///
/// # Errors
/// When it cannot be read.
pub(super) fn is_recognized(file: &File, size: u64) -> io::Result<bool> {
    let mut buffers = Buffers::new(1, SAMPLE_BYTES as usize)?;
    // Past the page cache, which is not to hold what no load has read.
    let direct = files::reopen(file, OFlags::RDONLY | OFlags::DIRECT).ok();
    // One at a random place in each part of the file, so that no regular layout is missed; of a small file every piece.
    let pieces = size.div_ceil(SAMPLE_BYTES);
    let mut sampled = BTreeSet::from([0, pieces.saturating_sub(1)]);
    for part in 0..SAMPLES {
        let (from, to) = (pieces * part / SAMPLES, pieces * (part + 1) / SAMPLES);
        if to > from {
            sampled.insert(from + random_below(to - from)?);
        }
    }
    for place in sampled.into_iter().map(|piece| piece * SAMPLE_BYTES) {
        let expected = SAMPLE_BYTES.min(size - place) as usize;
        let block = buffers.block(0, SAMPLE_BYTES as usize);
        let read = match direct.as_ref().map(|direct| direct.read_at(block, place)) {
            Some(Ok(read)) => read,
            _ => file.read_at(block, place)?,
        };
        // A hole, as a discard leaves it, holds nothing to lose.
        if read < expected || !(content::is_own(&block[..expected]) || is_hole(file, place, expected as u64))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether nothing is stored in a part of a file.
fn is_hole(file: &File, place: u64, bytes: u64) -> bool {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(place)) {
        Ok(data) => data >= place + bytes,
        Err(error) => error == rustix::io::Errno::NXIO,
    }
}

/// A number from 0 to `below - 1` that nobody can predict.
fn random_below(below: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes) % below.max(1))
}

/// Where the mark is when the file system has no attributes: a file beside the marked one. It counts only when it is a
/// regular file of this user's that nobody else can write.
pub(super) struct Beside<'a> {
    directory: &'a Directory,
    name: OsString,
}

impl<'a> Beside<'a> {
    /// Beside the file `name`.
    pub(super) fn new(directory: &'a Directory, name: &std::ffi::OsStr) -> Self {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".plimsoll");
        Beside { directory, name: hidden }
    }

    /// Its text, if it counts.
    fn read(&self) -> Option<(Vec<u8>, Identity)> {
        let file = self.directory.open_file(&self.name).ok()?;
        let metadata = file.metadata().ok()?;
        let counts = metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode() & 0o022 == 0
            && metadata.nlink() == 1
            && metadata.len() <= TEXT_BYTES_MAX as u64;
        let mut text = vec![0; metadata.len() as usize];
        file.read_exact_at(&mut text, 0).ok()?;
        let is_mark = text.starts_with(b"plimsoll.file/");
        (counts && is_mark).then_some((text, Identity::of_metadata(&metadata)))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if self.directory.identity_of(&self.name).is_ok() && self.read().is_none() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} is in the way and is no mark of this user's", self.name.to_string_lossy()),
            ));
        }
        self.directory.replace(&self.name, files::PRIVATE_FILE, text.as_bytes())
    }

    /// Removes it, if it counts.
    pub(super) fn remove(&self) {
        if let Some((_, identity)) = self.read() {
            let _ = self.directory.remove_if(&self.name, identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::Filler;
    use super::*;
    use testkit::Scratch;

    fn filled(folder: &Scratch, name: &str, bytes: usize) -> File {
        let mut content = vec![0; bytes];
        Filler::new(0.0).fill(&mut content, 7);
        let path = folder.file(name, content);
        File::options().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn a_mark_binds_to_its_inode() {
        for mark in [
            Mark::writing(4096, true),
            Mark { unit: 0, temporary: false, whole: Some((1 << 40, 1_700_000_000, 7)) },
        ] {
            assert_eq!(Mark::parse(&mark.text(7), 7), Some(mark));
            assert_eq!(Mark::parse(&mark.text(7), 8), None);
        }
        for wrong in [
            "",
            "plimsoll.file/1 inode=7 unit=0 keep",
            "plimsoll.file/2 inode=7 unit=0 keep",
            "plimsoll.file/2 inode=7 unit=x keep writing",
            "plimsoll.file/2 inode=7 unit=0 keep size=1 modified=1",
            "plimsoll.file/2 inode=7 unit=0 keep size=1 modified=1.0 writing",
        ] {
            assert_eq!(Mark::parse(wrong, 7), None, "{wrong}");
        }
    }

    #[test]
    fn content_is_recognized_at_every_size_and_foreign_content_is_found() {
        let folder = Scratch::new();
        for bytes in [0, 16, 512, 4096, 5000, 126 * 4096, 127 * 4096, 128 * 4096, 1 << 21] {
            let file = filled(&folder, "f", bytes);
            assert!(is_recognized(&file, bytes as u64).unwrap(), "{bytes}");
            if bytes < 4096 {
                continue;
            }
            // The first piece, the last piece, and a twentieth anywhere.
            let foreign = b"what a user cannot lose ".repeat(bytes / 24 + 1);
            for (from, to) in
                [(0, 4096), (bytes - bytes % 4096 - 4096, bytes), (bytes / 2, bytes / 2 + bytes / 20)]
            {
                if to - from < 4096 {
                    continue;
                }
                let file = filled(&folder, "f", bytes);
                file.write_all_at(&foreign[from..to], from as u64).unwrap();
                assert!(!is_recognized(&file, bytes as u64).unwrap(), "{bytes}: {from} to {to}");
            }
        }
    }

    /// ramfs has no extended attributes.
    #[test]
    fn a_mark_beside_a_file_counts_only_where_there_are_no_attributes_and_it_is_this_users() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        if testkit::lacks(testkit::Need::Mount) {
            return;
        }
        let folder = Scratch::new();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "ramfs", "ramfs"])
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(mounted.success());
        let _unmount = Unmount(&folder);
        let file = filled(&folder, "f", 1 << 16);
        let directory = Directory::open(folder.path()).unwrap();
        let beside = Beside::new(&directory, "f".as_ref());
        let mark = Mark::writing(512, false);
        mark.write(&file, &beside).unwrap();
        let path = folder.join(".f.plimsoll");
        assert_eq!(Mark::read(&file, &beside), Some(mark));
        assert!(mark.proves(&file));
        let text = std::fs::read(&path).unwrap();
        let spoil: [fn(&std::path::Path); 4] = [
            |path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o620)).unwrap(),
            |path| chown(path, Some(65534), None).unwrap(),
            |path| std::fs::hard_link(path, path.with_extension("second")).unwrap(),
            |path| {
                std::fs::rename(path, path.with_extension("moved")).unwrap();
                symlink(path.with_extension("moved"), path).unwrap();
            },
        ];
        for (at, spoil) in spoil.into_iter().enumerate() {
            spoil(&path);
            assert_eq!(Mark::read(&file, &beside), None, "{at}");
            // What is no mark is not written over either.
            assert!(mark.write(&file, &beside).is_err(), "{at}");
            for name in [".f.plimsoll", ".f.second", ".f.moved"] {
                let _ = std::fs::remove_file(folder.join(name));
            }
            std::fs::write(&path, &text).unwrap();
            assert_eq!(Mark::read(&file, &beside), Some(mark), "{at}");
        }
        Mark::remove(&file, &beside);
        assert!(!path.exists());
    }

    struct Unmount<'a>(&'a Scratch);

    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }
}
