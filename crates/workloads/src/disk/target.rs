//! What a path names: a file or device, who made it, what it lies on, and what direct I/O asks of it. Only looks.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use engine::allowed::Opener;
use engine::devices::{disk_of, disks_of_mount, mount_of};
use engine::in_use::{self, Storage};
use engine::signature;
use engine::source::HostRoot;
use files::{Directory, Identity, Named};
use model::Problem;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, openat, statx};

use super::claim;
use super::mark::{self, Beside, Mark};
use super::own;

/// What kind of thing a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing yet.
    Missing,
    File,
    BlockDevice,
    Other(Other),
}

/// What is neither a file nor a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    Directory,
    /// Such as `/dev/null`.
    CharacterDevice,
    /// A pipe or a socket.
    PipeOrSocket,
}

impl Other {
    /// None for a file or a block device.
    pub(super) fn of(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile | FileType::BlockDevice => None,
            FileType::Directory => Some(Other::Directory),
            FileType::CharacterDevice => Some(Other::CharacterDevice),
            _ => Some(Other::PipeOrSocket),
        }
    }

    /// Why what has this name cannot be read and written.
    pub(super) fn problem(self, name: &str) -> Problem {
        let (kind, help) = match self {
            Other::Directory => ("a folder", "name a file inside it, such as plimsoll.dat"),
            Other::CharacterDevice => (
                "a character device",
                "name a file on a disk or a block device (`lsblk` lists them); the cost of the load generator alone is shown without I/O",
            ),
            Other::PipeOrSocket => {
                ("a pipe or a socket", "name a file on a disk, or a block device (`lsblk` lists them)")
            }
        };
        Problem::new(format!("`{name}` is {kind}, and no storage"), help)
    }
}

/// Memory and offset alignment of direct I/O, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectAlignment {
    pub(super) memory: u32,
    pub(super) offset: u32,
}

/// What is known about a path before it is touched. It stands for the file or device that was looked at: what it opens
/// later is that, whatever has the name then.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// As the user wrote it.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// Bytes; 0 when missing.
    pub(super) size: u64,
    /// Device number: of the device itself, or of what holds the file.
    pub(super) device: u64,
    /// What Plimsoll wrote about a file when it made it; see [`Target::is_own`].
    pub(super) mark: Option<Mark>,
    /// The folder that holds it, and its name there.
    pub(super) place: Arc<Place>,
    /// What has the name, opened only to be named; none when it is missing.
    found: Option<Arc<OwnedFd>>,
    is_own: OnceLock<bool>,
}

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: Directory,
    pub(super) name: OsString,
}

impl Place {
    /// Whether both are one name in one folder.
    pub(super) fn is_same(&self, other: &Place) -> bool {
        let folder = |place: &Place| place.directory.identity().ok();
        self.name == other.name && folder(self).is_some() && folder(self) == folder(other)
    }

    /// Where the mark is when it cannot be in the file.
    pub(super) fn beside(&self) -> Beside<'_> {
        Beside::new(&self.directory, &self.name)
    }
}

impl Target {
    /// Looks at `path`.
    pub(super) fn inspect(opener: &Opener, path: &Path) -> io::Result<Self> {
        let Named { directory, name, found } = opener.locate(path)?;
        let place = Arc::new(Place { directory, name });
        let missing = |device: u64| Target {
            path: path.into(),
            kind: Kind::Missing,
            size: 0,
            device,
            mark: None,
            place: Arc::clone(&place),
            found: None,
            is_own: OnceLock::new(),
        };
        let Some(found) = found else {
            return Ok(missing(place.directory.identity()?.device));
        };
        let status = rustix::fs::fstat(&found)?;
        let (kind, size, device) = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => (Kind::File, u64::try_from(status.st_size).unwrap_or(0), status.st_dev),
            FileType::BlockDevice => (Kind::BlockDevice, device_bytes(status.st_rdev), status.st_rdev),
            other => {
                let other = Other::of(other).unwrap_or(Other::PipeOrSocket);
                (Kind::Other(other), 0, status.st_dev)
            }
        };
        // One that may not be read has no mark that is known; that it may not be read is reported elsewhere.
        let mark = (kind == Kind::File)
            .then(|| files::reopen(&found, OFlags::RDONLY).ok())
            .flatten()
            .and_then(|file| Mark::read(&file, &place.beside()));
        Ok(Target { kind, size, mark, found: Some(Arc::new(found)), ..missing(device) })
    }

    /// A file in `folder` that does not exist, and whose name nobody asks for.
    pub(super) fn in_folder(folder: &Path) -> io::Result<Self> {
        let Named { directory, .. } = files::locate(&folder.join("new"))?;
        let device = directory.identity()?.device;
        Ok(Target {
            path: folder.join("new"),
            kind: Kind::Missing,
            size: 0,
            device,
            mark: None,
            place: Arc::new(Place { directory, name: "new".into() }),
            found: None,
            is_own: OnceLock::new(),
        })
    }

    /// Opens what was looked at.
    ///
    /// # Errors
    /// When there was nothing, or it may not be opened so.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        match (&self.found, self.kind) {
            (Some(found), Kind::File | Kind::BlockDevice) => files::reopen(found, flags),
            (Some(_), _) => Err(io::ErrorKind::InvalidInput.into()),
            (None, _) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether Plimsoll may write it as its own: made by this process or by an earlier one, and not changed since.
    pub(super) fn is_own(&self) -> bool {
        *self.is_own.get_or_init(|| {
            let Ok(file) = self.open(OFlags::RDONLY) else { return false };
            match Identity::of(&file).ok().and_then(own::find) {
                Some(own) if !own.is_recognizable() => true,
                Some(_) => mark::is_recognized(&file, self.size).unwrap_or(false),
                None => self.mark.is_some_and(|mark| mark.proves(&file)),
            }
        })
    }

    /// What distinguishes it from every other target.
    pub(super) fn key(&self) -> Option<(bool, Identity)> {
        match self.kind {
            // A device is the same under each of its nodes.
            Kind::BlockDevice => Some((true, Identity { device: self.device, inode: 0 })),
            _ => Some((false, Identity::of(self.found.as_deref()?).ok()?)),
        }
    }

    /// Claims the block device; held as long as the result.
    pub(super) fn claim(&self) -> io::Result<Arc<File>> {
        let found = self.found.as_deref().ok_or(io::ErrorKind::NotFound)?;
        claim::claim(found, self.device)
    }

    /// The same, of an open file that has just been made or written.
    pub(super) fn with_open(self, file: &File) -> io::Result<Self> {
        if self.kind == Kind::BlockDevice {
            return Ok(self);
        }
        let status = rustix::fs::fstat(file)?;
        let size = u64::try_from(status.st_size).unwrap_or(0);
        Ok(Target { kind: Kind::File, size, device: status.st_dev, ..self })
    }

    /// The block devices below it, whole disks rather than partitions; empty when there is none (tmpfs, network).
    pub(super) fn disks(&self) -> Vec<String> {
        match disk_of(self.device) {
            Some(disk) => vec![disk],
            // Btrfs and others number their files by a device of their own; the mount table names the real one.
            None => mount_of(&self.path)
                .map(|mount| disks_of_mount(&HostRoot::live(), &mount))
                .unwrap_or_default(),
        }
    }

    /// The type of its file system, such as `ext4`.
    pub(super) fn file_system(&self) -> Option<String> {
        match self.kind {
            Kind::BlockDevice => None,
            _ => mount_of(&self.path).map(|mount| mount.file_system),
        }
    }

    /// Whether it is a device that takes writes at write pointers only.
    pub(super) fn is_zoned(&self) -> bool {
        let model = |disk: &String| queue_attribute(disk, "zoned");
        self.kind == Kind::BlockDevice
            && self.disks().iter().filter_map(model).any(|model| model == "host-managed")
    }

    /// Why writing to this file or device would harm something in use; none when it would not.
    pub(super) fn in_use(&self) -> Option<String> {
        // The mount table is that of this process, and a container has one of its own: only the kernel knows all users.
        let is_claimed = || {
            let found = self.found.as_deref().filter(|_| self.kind == Kind::BlockDevice)?;
            claim::is_claimed_elsewhere(found, self.device)
                .then(|| "is mounted in another mount namespace, or claimed by another program".to_string())
        };
        self.known_use().or_else(is_claimed)
    }

    /// What this process can see of its use, in words. What it cannot see of a device, [`Target::claim`] finds out.
    pub(super) fn known_use(&self) -> Option<String> {
        in_use::by_kernel(&HostRoot::live(), self.storage()?)
    }

    /// Which other process may write it at this moment, in words. Processes of Plimsoll do not count.
    pub(super) fn writer(&self) -> Option<String> {
        in_use::by_process(self.found.as_deref()?, self.storage()?, &self.path)
    }

    fn storage(&self) -> Option<Storage> {
        match self.kind {
            Kind::BlockDevice => Some(Storage::Device(self.device)),
            Kind::File => Some(Storage::File(Identity::of(self.found.as_deref()?).ok()?)),
            _ => None,
        }
    }

    /// What it holds that is recognized, in words; none where nothing is, or all of it is Plimsoll's.
    pub(super) fn holds(&self) -> Option<String> {
        let file = self.open(OFlags::RDONLY).ok()?;
        let found = signature::find(&file, self.size).ok().filter(|found| !found.is_empty())?;
        let is_of_plimsoll = mark::is_recognized(&file, self.size).unwrap_or(false);
        (!is_of_plimsoll).then(|| signature::in_words(&found))
    }

    /// Why it may not be overwritten as `overwrite` permits; none where it may.
    pub(super) fn refuse_overwriting(&self, is_signature_permitted: bool) -> Option<Refusal> {
        if let Some(why) = self.writer() {
            return Some(Refusal::InUse(why));
        }
        self.holds().filter(|_| !is_signature_permitted).map(Refusal::Holds)
    }
}

/// Why something is not overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What uses it.
    InUse(String),
    /// What it holds.
    Holds(String),
}

/// The directory that holds `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn device_bytes(device: u64) -> u64 {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{number}/size")).unwrap_or_default();
    sectors.trim().parse::<u64>().unwrap_or(0) * 512
}

/// A queue attribute of a disk, such as `rotational`.
pub(super) fn queue_attribute(disk: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/sys/block/{disk}/queue/{name}")).ok()?;
    Some(text.trim().to_string())
}

/// What direct I/O asks of an open file; none where the kernel or the file system does not say (before Linux 6.1; tmpfs).
pub(super) fn direct_alignment(file: impl AsFd) -> Option<DirectAlignment> {
    let status = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    (status.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && status.stx_dio_offset_align > 0)
        .then_some(DirectAlignment { memory: status.stx_dio_mem_align, offset: status.stx_dio_offset_align })
}

/// Least and most bytes of a write that is stored whole or not at all; none where there is no such write, or the kernel does not
/// say (before Linux 6.11).
pub(super) fn atomic_limits(file: &File) -> Option<(u32, u32)> {
    // STATX_WRITE_ATOMIC, and two fields of `struct statx` in linux/stat.h.
    const WRITE_ATOMIC: libc::c_uint = 0x0001_0000;
    const LEAST: usize = 0xa8;
    const MOST: usize = 0xac;
    let mut status = [0_u8; 256];
    // SAFETY: the path is a text that ends with 0, and the kernel writes `struct statx` of 256 bytes, which fits.
    let result = unsafe {
        libc::syscall(
            libc::SYS_statx,
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            WRITE_ATOMIC,
            status.as_mut_ptr(),
        )
    };
    let word = |at: usize| u32::from_ne_bytes([status[at], status[at + 1], status[at + 2], status[at + 3]]);
    (result == 0 && word(0) & WRITE_ATOMIC != 0 && word(MOST) > 0).then(|| (word(LEAST), word(MOST)))
}

/// Opens what direct I/O can be asked about: the target itself, or for one that does not exist an unnamed file beside
/// where it will be, which leaves no trace. Says whether direct I/O is taken at all.
pub(super) fn probe_direct(target: &Target) -> io::Result<OwnedFd> {
    match target.kind {
        Kind::Missing => {
            let flags = OFlags::DIRECT | OFlags::CLOEXEC | OFlags::TMPFILE | OFlags::RDWR;
            Ok(openat(&target.place.directory, ".", flags, Mode::RUSR | Mode::WUSR)?)
        }
        _ => Ok(target.open(OFlags::DIRECT | OFlags::RDONLY)?.into()),
    }
}

/// Bytes of a range of a file that are not backed by written data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unbacked {
    /// No extent at all: reads never reach a device.
    pub(super) hole_bytes: u64,
    /// Reserved but never written: the same.
    pub(super) unwritten_bytes: u64,
}

/// The extents of a range, from the file system (FIEMAP); none where it does not report them.
pub(super) fn unbacked(file: &File, from: u64, length: u64) -> Option<Unbacked> {
    const EXTENTS: usize = 128;
    // C libraries differ in its type.
    const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
    const FIEMAP_FLAG_SYNC: u32 = 1;
    const LAST: u32 = 1;
    const UNWRITTEN: u32 = 0x800;

    // `struct fiemap_extent` and `struct fiemap` of linux/fiemap.h.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Extent {
        logical: u64,
        physical: u64,
        length: u64,
        reserved64: [u64; 2],
        flags: u32,
        reserved: [u32; 3],
    }
    #[repr(C)]
    struct Request {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        count: u32,
        reserved: u32,
        extents: [Extent; EXTENTS],
    }

    let end = from + length;
    let mut at = from;
    let mut found = Unbacked { hole_bytes: length, unwritten_bytes: 0 };
    while at < end {
        let mut request = Request {
            start: at,
            length: end - at,
            flags: FIEMAP_FLAG_SYNC,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: the request is what FS_IOC_FIEMAP reads and writes, with room for `count` extents after its header.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) };
        if result != 0 {
            return None;
        }
        let extents = &request.extents[..(request.mapped as usize).min(EXTENTS)];
        for extent in extents {
            let begin = extent.logical.max(from);
            let covered = extent.logical.saturating_add(extent.length).min(end).saturating_sub(begin);
            found.hole_bytes = found.hole_bytes.saturating_sub(covered);
            if extent.flags & UNWRITTEN != 0 {
                found.unwritten_bytes += covered;
            }
        }
        match extents.last() {
            Some(last) if last.flags & LAST == 0 && last.logical + last.length > at => {
                at = last.logical + last.length;
            }
            _ => break,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn a_sparse_file_is_all_hole_and_a_written_one_is_not() {
        let folder = super::super::tests::Scratch::new("extents");
        let path = folder.path("f");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        // A file system without this report answers nothing; one with it must be right.
        if let Some(found) = unbacked(&file, 0, 1 << 20) {
            assert_eq!(found, Unbacked { hole_bytes: 1 << 20, unwritten_bytes: 0 });
            file.write_all_at(&[1; 65536], 65536).unwrap();
            file.sync_all().unwrap();
            let found = unbacked(&file, 0, 1 << 20).unwrap();
            assert_eq!(found.hole_bytes + found.unwritten_bytes, (1 << 20) - 65536);
            assert_eq!(unbacked(&file, 65536, 65536), Some(Unbacked::default()));
        }
    }

    #[test]
    fn a_written_file_is_resident() {
        let folder = super::super::tests::Scratch::new("resident");
        let file = File::create(folder.path("f")).unwrap();
        file.write_all_at(&[1; 1 << 16], 0).unwrap();
        if let Some(bytes) = engine::page_cache::resident_bytes(&file, 0, 1 << 16) {
            assert_eq!(bytes, 1 << 16);
        }
    }

    #[test]
    fn the_root_disk_is_in_use() {
        let root = std::fs::metadata("/").unwrap().dev();
        if let Some(disk) = disk_of(root) {
            let here = Target::in_folder(Path::new("/")).unwrap();
            let device =
                Target { path: format!("/dev/{disk}").into(), kind: Kind::BlockDevice, device: root, ..here };
            assert!(device.in_use().is_some_and(|why| why.contains("mounted")), "{disk}");
        }
    }
}
