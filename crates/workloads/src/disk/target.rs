//! What a path names: a file or device, who made it, what it lies on, and what direct I/O asks of it. Only looks.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, XattrFlags, open, statx};

/// What kind of thing a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing yet.
    Missing,
    File,
    BlockDevice,
    /// A directory, a socket, a character device.
    Other,
}

/// Memory and offset alignment of direct I/O, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectAlignment {
    pub(super) memory: u32,
    pub(super) offset: u32,
}

/// What is known about a path before it is touched.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// Bytes; 0 when missing.
    pub(super) size: u64,
    /// Device number: of the device itself, or of what holds the file.
    pub(super) device: u64,
    /// Set when Plimsoll made it.
    pub(super) mark: Option<Mark>,
}

impl Target {
    /// Looks at `path`.
    pub(super) fn inspect(path: &Path) -> io::Result<Self> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let device = std::fs::metadata(parent(path))?.dev();
                return Ok(Target { path: path.into(), kind: Kind::Missing, size: 0, device, mark: None });
            }
            Err(error) => return Err(error),
        };
        let file_type = metadata.file_type();
        let (kind, size, device, mark) = if file_type.is_file() {
            (Kind::File, metadata.len(), metadata.dev(), Mark::read(path, &metadata))
        } else if file_type.is_block_device() {
            (Kind::BlockDevice, device_bytes(metadata.rdev()), metadata.rdev(), None)
        } else {
            (Kind::Other, 0, metadata.dev(), None)
        };
        Ok(Target { path: path.into(), kind, size, device, mark })
    }

    /// The block devices below it, whole disks rather than partitions; empty when there is none (tmpfs, network).
    pub(super) fn disks(&self) -> Vec<String> {
        let disk = disk_of(self.device).or_else(|| {
            // Btrfs and others number their files by a device of their own; the mount table names the real one.
            let source = mount_of(&self.path)?.source;
            disk_of(std::fs::metadata(source).ok()?.rdev())
        });
        disk.into_iter().collect()
    }

    /// The type of its file system, such as `ext4`.
    pub(super) fn file_system(&self) -> Option<String> {
        match self.kind {
            Kind::BlockDevice => None,
            _ => mount_of(&self.path).map(|mount| mount.file_system),
        }
    }

    /// Why writing to this device would harm something in use; none when it would not, or when it is no device.
    pub(super) fn in_use(&self) -> Option<String> {
        if self.kind != Kind::BlockDevice {
            return None;
        }
        let name = |device: u64| format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let folder = std::fs::canonicalize(format!("/sys/dev/block/{}", name(self.device))).ok()?;
        let mut numbers = vec![(String::new(), name(self.device))];
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().join("partition").exists()
                && let Ok(number) = std::fs::read_to_string(entry.path().join("dev"))
            {
                let partition = entry.file_name().to_string_lossy().into_owned();
                numbers.push((format!("its partition {partition} "), number.trim().to_string()));
            }
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for (which, number) in &numbers {
            if let Some(mount) = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number)) {
                return Some(format!("{which}is mounted on {}", mount.split(' ').nth(4).unwrap_or("?")));
            }
            let holders = format!("/sys/dev/block/{number}/holders");
            if let Some(Ok(holder)) = std::fs::read_dir(holders).ok().and_then(|mut all| all.next()) {
                return Some(format!("{which}is part of {}", holder.file_name().to_string_lossy()));
            }
        }
        let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        let swapping = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).any(|swap| {
            std::fs::metadata(swap).is_ok_and(|metadata| numbers.iter().any(|n| n.1 == name(metadata.rdev())))
        });
        swapping.then(|| "is used as swap space".to_string())
    }
}

/// The directory that holds `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn disk_of(device: u64) -> Option<String> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    let whole = if folder.join("partition").exists() { folder.parent()?.to_path_buf() } else { folder };
    Some(whole.file_name()?.to_string_lossy().into_owned())
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

struct Mount {
    file_system: String,
    source: String,
}

/// The mount a path lies on: the one with the longest mount point, the last of several at the same place.
fn mount_of(path: &Path) -> Option<Mount> {
    let path = std::fs::canonicalize(path).or_else(|_| std::fs::canonicalize(parent(path))).ok()?;
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    table
        .lines()
        .filter_map(|line| {
            let (front, back) = line.split_once(" - ")?;
            // Blanks in a mount point are written \040.
            let point = front.split(' ').nth(4)?.replace("\\040", " ");
            let mut back = back.split(' ');
            let mount = Mount { file_system: back.next()?.into(), source: back.next()?.into() };
            path.starts_with(&point).then_some((point.len(), mount))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, mount)| mount)
}

/// What direct I/O asks of an open file; none where the kernel or the file system does not say (before Linux 6.1; tmpfs).
pub(super) fn direct_alignment(file: impl AsFd) -> Option<DirectAlignment> {
    let status = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    (status.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && status.stx_dio_offset_align > 0)
        .then_some(DirectAlignment { memory: status.stx_dio_mem_align, offset: status.stx_dio_offset_align })
}

/// Opens what direct I/O can be asked about: the target itself, or for one that does not exist an unnamed file beside
/// where it will be, which leaves no trace. Says whether direct I/O is taken at all.
pub(super) fn probe_direct(target: &Target) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECT | OFlags::CLOEXEC;
    match target.kind {
        Kind::Missing => {
            Ok(open(parent(&target.path), flags | OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR)?)
        }
        _ => Ok(open(&target.path, flags | OFlags::RDONLY, Mode::empty())?),
    }
}

/// How a file that Plimsoll made is known again: by an extended attribute, or by a small file beside it where the file
/// system has none. It binds to the inode, so that a file put in its place later is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The headers in it are those of blocks of this size; 0 when blocks have none.
    pub(super) unit: u64,
    /// Made by a run that was not asked to keep it.
    pub(super) temporary: bool,
}

const ATTRIBUTE: &std::ffi::CStr = c"user.plimsoll";

impl Mark {
    fn text(self, inode: u64) -> String {
        let keep = if self.temporary { "temporary" } else { "keep" };
        format!("plimsoll.file/1 inode={inode} unit={} {keep}", self.unit)
    }

    fn parse(text: &str, inode: u64) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [format, owner, unit, keep] = words.as_slice() else { return None };
        let bound = owner.strip_prefix("inode=")?.parse() == Ok(inode);
        (*format == "plimsoll.file/1" && bound).then_some(Mark {
            unit: unit.strip_prefix("unit=")?.parse().ok()?,
            temporary: *keep == "temporary",
        })
    }

    fn read(path: &Path, metadata: &std::fs::Metadata) -> Option<Self> {
        let mut text = [0_u8; 256];
        if let Ok(length) = rustix::fs::getxattr(path, ATTRIBUTE, &mut text) {
            return Mark::parse(std::str::from_utf8(text.get(..length)?).ok()?, metadata.ino());
        }
        Mark::parse(&std::fs::read_to_string(sidecar(path)).ok()?, metadata.ino())
    }

    /// Puts the mark on an open file.
    pub(super) fn write(self, file: &File, path: &Path) -> io::Result<()> {
        let text = self.text(file.metadata()?.ino());
        match rustix::fs::fsetxattr(file, ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(_) => std::fs::write(sidecar(path), text),
        }
    }
}

/// Where the mark of `path` is when it cannot be in the file's attributes.
pub(super) fn sidecar(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.plimsoll"))
}

/// Bytes of a range of a file that are not backed by written data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unbacked {
    /// No extent at all: reads never reach a device.
    pub(super) hole_bytes: u64,
    /// Reserved but never written: the same.
    pub(super) unwritten_bytes: u64,
}

/// Asks the file system for the extents of a range (FIEMAP); none where it cannot tell.
pub(super) fn unbacked(file: &File, from: u64, length: u64) -> Option<Unbacked> {
    const EXTENTS: usize = 128;
    const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
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

/// True when some byte in a sample of the file can be read: what is checked of a file that is only read.
pub(super) fn readable(path: &Path) -> io::Result<()> {
    File::open(path)?.read_at(&mut [0; 1], 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_binds_to_its_inode() {
        let mark = Mark { unit: 4096, temporary: true };
        assert_eq!(Mark::parse(&mark.text(7), 7), Some(mark));
        assert_eq!(Mark::parse(&mark.text(7), 8), None);
        for wrong in ["", "plimsoll.file/2 inode=7 unit=0 keep", "plimsoll.file/1 inode=7 unit=x keep"] {
            assert_eq!(Mark::parse(wrong, 7), None, "{wrong}");
        }
    }

    #[test]
    fn a_sparse_file_is_all_hole_and_a_written_one_is_not() {
        let folder = super::super::tests::Scratch::new("extents");
        let path = folder.path("f");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        // A file system that cannot tell answers nothing; one that can must be right.
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
            let device = Target {
                path: format!("/dev/{disk}").into(),
                kind: Kind::BlockDevice,
                size: 0,
                device: root,
                mark: None,
            };
            assert!(device.in_use().is_some_and(|why| why.contains("mounted")), "{disk}");
        }
    }
}
