//! Mounted file systems: space and inodes in use.
//!
//! Only file systems on block devices of this machine are queried: a file server that does not respond would delay
//! every other reading.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::Gauge;
use model::{MetricInfo, Nanos, Readings, SECOND, Unit};

use crate::mounts::{self, Mount};
use crate::reader::{Buffer, KernelFile};
use crate::series::{Columns, Roster, metrics};

#[cfg(test)]
mod tests;

metrics! {
    Used => MetricInfo::new("filesystem.used_bytes", Unit::Bytes, Gauge, "Space in use.")
        .known_as("", "-F MBfsused"),
    Free => MetricInfo::new("filesystem.free_bytes", Unit::Bytes, Gauge,
        "Free space for users other than root.")
        .known_as(r"LogicalDisk\Free Megabytes", "-F MBfsfree"),
    UsedShare => MetricInfo::new("filesystem.used_share", Unit::Share, Gauge,
        "Share of the space that is in use, as `df` shows it; the space reserved for root is left out.")
        .known_as(r"LogicalDisk\% Free Space", "-F %fsused").saturated_at(1.0),
    InodesShare => MetricInfo::new("filesystem.inodes_used_share", Unit::Share, Gauge,
        "Share of the inodes that are in use; absent if the file system allocates inodes as needed.")
        .known_as("", "-F %Iused").saturated_at(1.0),
}

/// The source `filesystem`.
pub const KIND: SourceKind = SourceKind {
    name: "filesystem",
    about: "Space and inodes in use on this machine's file systems.",
    metrics: METRICS,
    selector: "",
    open,
};

/// File systems are mounted rarely; the list is read again at this interval.
const MOUNTS_EVERY: Nanos = 10 * SECOND;

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    if !root.is_live() {
        return Err(Unavailable("file systems can only be asked on the machine itself".into()));
    }
    let mut filesystems = FileSystems {
        buffer: Buffer::new(),
        mounts: KernelFile::new(root, "proc/mounts"),
        listed_at: None,
        real: Vec::new(),
        columns: Roster::new(),
    };
    match filesystems.mounts.read(&mut filesystems.buffer) {
        Some(_) => Ok(Box::new(filesystems)),
        None => Err(Unavailable("/proc/mounts cannot be read; is /proc mounted?".into())),
    }
}

struct FileSystems {
    buffer: Buffer,
    mounts: KernelFile,
    listed_at: Option<Nanos>,
    real: Vec<String>,
    columns: Roster<Columns<Metric>>,
}

impl Source for FileSystems {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        if self.listed_at.is_none_or(|at| now.saturating_sub(at) >= MOUNTS_EVERY) {
            self.listed_at = Some(now);
            let Some(text) = self.mounts.read(&mut self.buffer) else {
                return Err(Unavailable("/proc/mounts can no longer be read".into()));
            };
            self.real = real(&mounts::parse(text));
        }
        self.columns.rewind();
        for folder in &self.real {
            let Ok(space) = rustix::fs::statvfs(folder.as_str()) else { continue };
            let Some(columns) = self.columns.entry(folder.as_bytes(), Columns::new) else { continue };
            let block = space.f_frsize as f64;
            let used = space.f_blocks.saturating_sub(space.f_bfree) as f64 * block;
            let free = space.f_bavail as f64 * block;
            columns.set(out, Metric::Used, used);
            columns.set(out, Metric::Free, free);
            columns.set(out, Metric::UsedShare, used / (used + free));
            // 0/0 on file systems without a fixed number of inodes, which is absent.
            let inodes = space.f_files as f64;
            columns.set(out, Metric::InodesShare, (inodes - space.f_ffree as f64) / inodes);
        }
        Ok(())
    }

    fn limits(&self) -> String {
        self.columns.limits("file systems")
    }
}

/// The folders of the file systems on block devices of this machine, each device once, where it was mounted first.
fn real(mounts: &[Mount]) -> Vec<String> {
    let mut devices: Vec<&str> = Vec::new();
    let mut folders = Vec::new();
    for mount in mounts {
        let is_disk = mount.device.starts_with("/dev/") && !mount.kind.starts_with("fuse");
        // Pools have a name in place of a device; the root of a container is laid over a disk.
        let is_pool = matches!(mount.kind.as_str(), "zfs" | "bcachefs");
        let is_container = mount.kind == "overlay" && mount.folder == "/";
        // Images are full from the day they are made.
        let is_image = matches!(mount.kind.as_str(), "squashfs" | "iso9660" | "erofs" | "udf");
        if !(is_disk || is_pool || is_container) || is_image || devices.contains(&mount.device.as_str()) {
            continue;
        }
        devices.push(&mount.device);
        folders.push(mount.folder.clone());
    }
    folders
}
