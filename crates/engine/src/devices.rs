//! The mount, the block device and the whole disks of a path.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::mounts::{self, MEMORY, Medium, Mount, mounts};
use crate::source::{HostRoot, Unavailable};

/// The mount of a path, which need not exist.
pub fn mount_of(path: &Path) -> Option<Mount> {
    let existing = nearest_existing(path).ok()??;
    mounts::mount_of(mounts(&HostRoot::live()).ok()?, &existing)
}

/// A path without links, or its nearest parent that exists; none if no parent can be read.
fn nearest_existing(path: &Path) -> io::Result<Option<PathBuf>> {
    let absolute = std::path::absolute(path)?;
    Ok(absolute.ancestors().find_map(|path| fs::canonicalize(path).ok()))
}

/// The kernel name of a device: the disk of a partition.
pub fn disk_of(device: u64) -> Option<String> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    whole_disk(Path::new(&format!("/sys/dev/block/{number}")))
}

/// The kernel name of the device of a folder of the kernel; of a partition, that of its disk.
fn whole_disk(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let whole = if folder.join("partition").exists() { folder.parent()? } else { &folder };
    Some(whole.file_name()?.to_string_lossy().into_owned())
}

/// The devices below a device, at the bottom of device-mapper, md and bcache; none if it is a device of its own.
pub fn below(root: &HostRoot, disk: &str) -> Vec<String> {
    /// More levels than this are a loop in what the kernel says.
    const DEPTH_MAX: u32 = 16;
    fn add(folder: &Path, disk: &str, depth: u32, found: &mut Vec<String>) {
        let slaves = fs::read_dir(folder.join(disk).join("slaves")).into_iter().flatten().flatten();
        let mut slaves: Vec<String> =
            slaves.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        slaves.sort();
        if slaves.is_empty() && !found.iter().any(|known| known == disk) {
            found.push(disk.to_string());
        }
        for lower in slaves.iter().filter(|_| depth > 0) {
            // A partition is counted on its disk.
            let lower = whole_disk(&folder.join(lower)).unwrap_or_else(|| lower.clone());
            add(folder, &lower, depth - 1, found);
        }
    }
    let mut found = Vec::new();
    add(&root.join("sys/class/block"), disk, DEPTH_MAX, &mut found);
    found.retain(|lower| lower != disk);
    found
}

/// The kernel names of the disks of a mount whose file system numbers its files by a device of its own, as Btrfs does: that of
/// its source, or those of all its devices. Empty if there is none.
pub fn disks_of_mount(root: &HostRoot, mount: &Mount) -> Vec<String> {
    let Some(source) = fs::metadata(&mount.source).ok().and_then(|source| disk_of(source.rdev())) else {
        return Vec::new();
    };
    members(root, Path::new(&mount.source)).unwrap_or_else(|| vec![source])
}

/// The disks of the Btrfs file system that a device belongs to, sorted; none if it belongs to none.
fn members(root: &HostRoot, device: &Path) -> Option<Vec<String>> {
    let name = fs::canonicalize(device).ok()?.file_name()?.to_owned();
    let all =
        fs::read_dir(root.join("sys/fs/btrfs")).ok()?.flatten().map(|entry| entry.path().join("devices"));
    let devices = all.into_iter().find(|devices| devices.join(&name).exists())?;
    let disk = |entry: fs::DirEntry| {
        let whole = whole_disk(&root.join("sys/class/block").join(entry.file_name()));
        whole.unwrap_or_else(|| entry.file_name().to_string_lossy().into_owned())
    };
    let mut disks: Vec<String> = fs::read_dir(devices).ok()?.flatten().map(disk).collect();
    disks.sort();
    disks.dedup();
    Some(disks)
}

/// What keeps the files of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The mount of the path.
    pub mount: Mount,
    /// What keeps the files if it is no block device of this host.
    pub medium: Option<Medium>,
    /// The whole disks below partitions, device-mapper, md and loop devices, sorted. Empty if there is none, or
    /// if the kernel does not name it.
    pub disks: Vec<String>,
}

/// What keeps the files of a path. For a path that does not exist, its nearest existing parent counts.
///
/// # Errors
/// When no parent can be read, or the mount table cannot be read.
pub fn storage_of(path: &Path) -> Result<Storage, Unavailable> {
    storage(path, LOOPS_MAX)
}

/// File systems in files on file systems: more levels than this are not followed.
const LOOPS_MAX: u32 = 8;

fn storage(path: &Path, loops: u32) -> Result<Storage, Unavailable> {
    let unknown = |why: String| Unavailable(format!("{}: {why}", path.display()));
    let existing = nearest_existing(path).map_err(|error| unknown(error.to_string()))?;
    let existing = existing.ok_or_else(|| unknown("no parent folder can be read".into()))?;
    let data = fs::metadata(&existing).map_err(|error| unknown(error.to_string()))?;
    let mount = mounts::mount_of(mounts(&HostRoot::live())?, &existing);
    let mount = mount.ok_or_else(|| unknown("the mount table does not have its file system".into()))?;
    let medium = mount.medium();
    // Btrfs and others number their files by a device of their own; the mount table names the real one.
    let top = match (medium, disk_of(data.dev())) {
        (Some(_), _) => Vec::new(),
        (None, Some(disk)) => vec![disk],
        (None, None) => disks_of_mount(&HostRoot::live(), &mount),
    };
    let mut disks = Vec::new();
    let mut medium_below = None;
    for disk in top.iter().flat_map(|top| {
        let below = below(&HostRoot::live(), top);
        if below.is_empty() { vec![top.clone()] } else { below }
    }) {
        let image = fs::read_to_string(format!("/sys/class/block/{disk}/loop/backing_file"));
        match image.ok().filter(|_| loops > 0).map(|image| storage(Path::new(image.trim_end()), loops - 1)) {
            // The image may lie outside of what this process sees; then the loop device is all that is known.
            Some(Ok(image)) if !image.disks.is_empty() || image.medium.is_some() => {
                medium_below = medium_below.or(image.medium);
                disks.extend(image.disks);
            }
            _ => disks.push(disk),
        }
    }
    disks.sort();
    disks.dedup();
    Ok(Storage { mount, medium: medium.or(medium_below), disks })
}

impl Storage {
    /// What both have in common, for people: `disk vda`, `the memory of this host`, `the file system at /data`. None
    /// if they are on different devices, as far as the kernel shows it.
    pub fn shared_with(&self, other: &Storage) -> Option<String> {
        let disks: Vec<&str> =
            self.disks.iter().filter(|disk| other.disks.contains(disk)).map(String::as_str).collect();
        if !disks.is_empty() {
            let word = if disks.len() == 1 { "disk" } else { "disks" };
            return Some(format!("{word} {}", disks.join(" and ")));
        }
        match (self.medium, other.medium) {
            (Some(Medium::Memory), Some(Medium::Memory)) => Some("the memory of this host".into()),
            (Some(one), Some(another)) if one == another && self.mount.source == other.mount.source => {
                Some(self.mount.source.clone())
            }
            _ if self.pool().is_some() && self.pool() == other.pool() => {
                Some(format!("the pool {}", self.pool().unwrap_or_default()))
            }
            _ if self.disks.is_empty() && self.mount.device == other.mount.device => {
                Some(format!("the file system at {}", self.mount.point.display()))
            }
            _ => None,
        }
    }

    /// The ZFS pool, whose disks the kernel does not show.
    fn pool(&self) -> Option<&str> {
        let source = self.mount.source.as_str();
        (self.mount.file_system == "zfs").then(|| source.split_once('/').map_or(source, |(pool, _)| pool))
    }

    /// What keeps the files, for people: `ext4 on disk vda`, `tmpfs, which is memory`.
    pub fn describe(&self) -> String {
        let kind = &self.mount.file_system;
        match (self.medium, self.disks.as_slice()) {
            (Some(Medium::Memory), _) if MEMORY.contains(&kind.as_str()) => {
                format!("{kind}, which is memory")
            }
            (Some(Medium::Memory), _) => format!("{kind} in a file in memory"),
            (Some(Medium::Network), _) => format!("{kind}, a network file system ({})", self.mount.source),
            (Some(Medium::Program), _) => format!("{kind}, which a program provides"),
            (None, []) => format!("{kind}; its disk is not known"),
            (None, [disk]) => format!("{kind} on disk {disk}"),
            (None, disks) => format!("{kind} on disks {}", disks.join(" and ")),
        }
    }

    /// The path of the mount point.
    pub fn point(&self) -> &PathBuf {
        &self.mount.point
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    #[test]
    fn devices_below_are_found_down_to_the_disks() {
        let host = Scratch::new();
        for folder in ["pci/sda/slaves", "pci/nvme0n1/slaves", "virtual/dm-3/slaves", "virtual/md0/slaves"] {
            host.file(&format!("sys/devices/{folder}/.keep"), "");
            std::fs::remove_file(host.join(format!("sys/devices/{folder}/.keep"))).unwrap();
        }
        host.file("sys/devices/pci/sda/sda2/partition", "2\n");
        for (name, folder) in [
            ("sda", "pci/sda"),
            ("sda2", "pci/sda/sda2"),
            ("nvme0n1", "pci/nvme0n1"),
            ("dm-3", "virtual/dm-3"),
            ("md0", "virtual/md0"),
        ] {
            host.link(&format!("sys/class/block/{name}"), &format!("../../devices/{folder}"));
        }
        // An LVM cache of an array on a partition, and a fast disk.
        host.link("sys/devices/virtual/dm-3/slaves/md0", "../../md0");
        host.link("sys/devices/virtual/dm-3/slaves/nvme0n1", "../../../pci/nvme0n1");
        host.link("sys/devices/virtual/md0/slaves/sda2", "../../../pci/sda/sda2");
        let root = HostRoot::at(host.path());
        assert_eq!(below(&root, "dm-3"), ["sda", "nvme0n1"]);
        assert_eq!(below(&root, "sda"), [] as [&str; 0]);
        assert_eq!(below(&root, "no-such-disk"), [] as [&str; 0]);
    }

    fn storage(device: &str, file_system: &str, source: &str, disks: &[&str]) -> Storage {
        let mount = Mount {
            device: device.into(),
            part: "/".into(),
            point: format!("/{device}").into(),
            file_system: file_system.into(),
            source: source.into(),
            options: String::new(),
        };
        let medium = mount.medium();
        Storage { mount, medium, disks: disks.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn a_file_system_of_several_devices_has_all_of_them() {
        let host = Scratch::new();
        for (device, folder) in [("vdb", "vdb"), ("vdc1", "vdc/vdc1")] {
            host.file(&format!("sys/devices/{folder}/size"), "");
            host.link(&format!("sys/class/block/{device}"), &format!("../../devices/{folder}"));
            host.link(
                &format!("sys/fs/btrfs/8f14/devices/{device}"),
                &format!("../../../../devices/{folder}"),
            );
        }
        host.file("sys/devices/vdc/vdc1/partition", "1\n");
        host.file("sys/fs/btrfs/features/raid56", "0\n");
        let device = host.file("dev/vdb", "");
        let root = HostRoot::at(host.path());
        assert_eq!(members(&root, &device), Some(vec!["vdb".into(), "vdc".into()]));
        assert_eq!(members(&root, &host.file("dev/vdd", "")), None);
    }

    #[test]
    fn what_two_paths_share_is_named() {
        let root = storage("254:0", "ext4", "/dev/vda", &["vda"]);
        let volume = storage("253:1", "xfs", "/dev/mapper/vg-data", &["vda", "vdb"]);
        let array = storage("9:0", "xfs", "/dev/md0", &["vda", "vdb"]);
        let other = storage("254:16", "ext4", "/dev/vdb", &["vdb"]);
        let memory = [storage("0:25", "tmpfs", "a", &[]), storage("0:26", "ramfs", "b", &[])];
        let share = storage("0:40", "nfs4", "db:/export", &[]);
        let same_share = storage("0:41", "nfs4", "db:/export", &[]);
        let pool = storage("0:50", "zfs", "tank/data", &[]);
        let overlay = storage("0:60", "overlay", "overlay", &[]);
        let pool_log = storage("0:51", "zfs", "tank/log", &[]);
        for (one, another, shared) in [
            (&root, &root, Some("disk vda")),
            (&root, &volume, Some("disk vda")),
            (&volume, &array, Some("disks vda and vdb")),
            (&root, &other, None),
            (&memory[0], &memory[1], Some("the memory of this host")),
            (&memory[0], &root, None),
            (&share, &same_share, Some("db:/export")),
            (&pool, &pool_log, Some("the pool tank")),
            (&overlay, &overlay, Some("the file system at /0:60")),
            (&overlay, &pool, None),
        ] {
            assert_eq!(one.shared_with(another).as_deref(), shared, "{one:?} {another:?}");
            assert_eq!(another.shared_with(one).as_deref(), shared);
        }
        let described = [&root, &volume, &memory[0], &share, &pool].map(Storage::describe);
        assert_eq!(
            described,
            [
                "ext4 on disk vda",
                "xfs on disks vda and vdb",
                "tmpfs, which is memory",
                "nfs4, a network file system (db:/export)",
                "zfs; its disk is not known",
            ]
        );
    }

    #[test]
    fn a_path_that_does_not_exist_is_kept_where_its_folder_is() {
        let folder = Scratch::new();
        let there = storage_of(&folder.join("a/b/c")).unwrap();
        assert_eq!(there, storage_of(folder.path()).unwrap());
        let memory = storage_of(Path::new("/dev/shm/plimsoll-none")).unwrap();
        assert_eq!((memory.medium, memory.disks.len()), (Some(Medium::Memory), 0));
    }
}
