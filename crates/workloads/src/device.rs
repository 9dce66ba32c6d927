//! The block device and the mount of a path.

use std::fs;
use std::path::Path;

use engine::mounts::{self, Mount, mounts};
use engine::source::HostRoot;

/// The mount of a path, which need not exist.
pub(crate) fn mount_of(path: &Path) -> Option<Mount> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find_map(|path| fs::canonicalize(path).ok())?;
    mounts::mount_of(mounts(&HostRoot::live()).ok()?, &existing)
}

/// The kernel name of a device: the disk of a partition.
pub(crate) fn disk_of(device: u64) -> Option<String> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let folder = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    let whole = if folder.join("partition").exists() { folder.parent()?.to_path_buf() } else { folder };
    Some(whole.file_name()?.to_string_lossy().into_owned())
}

/// The devices below a device, at the bottom of device-mapper, md and bcache; none if it is a device of its own.
pub(crate) fn below(root: &HostRoot, disk: &str) -> Vec<String> {
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
            let whole =
                fs::canonicalize(folder.join(lower)).ok().filter(|path| path.join("partition").exists());
            let whole = whole.as_deref().and_then(Path::parent).and_then(Path::file_name);
            let lower = whole.map_or(lower.clone(), |name| name.to_string_lossy().into_owned());
            add(folder, &lower, depth - 1, found);
        }
    }
    let mut found = Vec::new();
    add(&root.join("sys/class/block"), disk, DEPTH_MAX, &mut found);
    found.retain(|lower| lower != disk);
    found
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
}
