//! What keeps the data behind a path: a disk, memory, or nothing at all.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use engine::devices::{disk_of, mount_of};
use engine::mounts::MEMORY;

/// File systems whose files the kernel makes up: nothing that is written to them is kept, and what is read is computed.
const MADE_UP: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "proc",
    "pstore",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Devices below devices below devices: more than this is a loop in what the kernel says.
const DEPTH_MAX: u32 = 16;

/// Why a file in this folder would be no file on a disk; none when it may be one.
pub(super) fn made_up(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let mount = mount_of(&folder);
    let file_system = mount.as_ref().map_or("", |mount| mount.file_system.as_str());
    if MADE_UP.contains(&file_system) && file_system != "devtmpfs" {
        return Some(format!("{} is made up by the kernel ({file_system})", folder.display()));
    }
    // A container's /dev is a tmpfs. What is mounted below it, such as /dev/shm, is a place for files.
    let is_own = mount
        .as_ref()
        .is_some_and(|mount| mount.point != Path::new("/dev") && mount.point.starts_with("/dev"));
    (file_system == "devtmpfs" || (folder.starts_with("/dev") && !is_own))
        .then(|| format!("{} is in memory and holds device nodes", folder.display()))
}

/// Why what is behind a path is memory, or nothing; none when it is a disk, or not known.
pub(super) fn memory(path: &Path, disks: &[String]) -> Vec<String> {
    if disks.is_empty() {
        let mount = mount_of(path).filter(|mount| MEMORY.contains(&mount.file_system.as_str()));
        return mount
            .map(|mount| format!("{} is in memory ({})", path.display(), mount.file_system))
            .into_iter()
            .collect();
    }
    let mut found = BTreeSet::new();
    disks.iter().for_each(|disk| below(Path::new("/sys/block"), disk, DEPTH_MAX, &mut found));
    found.into_iter().collect()
}

/// Follows a block device down to what keeps its data.
fn below(root: &Path, disk: &str, depth: u32, found: &mut BTreeSet<String>) {
    let folder = root.join(disk);
    let numbered = |name: &str| {
        disk.strip_prefix(name)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if numbered("ram") {
        found.insert(format!("{disk} is a RAM disk"));
    } else if numbered("nullb") {
        found.insert(format!("{disk} keeps nothing (null_blk)"));
    } else if numbered("zram") {
        let backing = fs::read_to_string(folder.join("backing_dev")).unwrap_or_default();
        let more = if matches!(backing.trim(), "" | "none") { "" } else { ", and a device for what is idle" };
        found.insert(format!("{disk} is compressed memory{more}"));
    } else if let Ok(model) = fs::read_to_string(folder.join("device/model"))
        && model.trim() == "scsi_debug"
    {
        found.insert(format!("{disk} is memory (scsi_debug)"));
    } else if let Ok(image) = fs::read_to_string(folder.join("loop/backing_file")) {
        let image = PathBuf::from(image.trim_end_matches('\n'));
        let mount = mount_of(&image);
        match mount.filter(|mount| MEMORY.contains(&mount.file_system.as_str())) {
            Some(mount) => {
                let text = format!("{disk} is a file in memory: {} ({})", image.display(), mount.file_system);
                found.insert(text);
            }
            None => {
                let lower = fs::metadata(&image).ok().and_then(|data| disk_of(data.dev()));
                if let Some(lower) = lower.filter(|_| depth > 0) {
                    below(root, &lower, depth - 1, found);
                }
            }
        }
    } else if folder.join("dm").is_dir() {
        let lower: Vec<String> = fs::read_dir(folder.join("slaves"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        if lower.is_empty() {
            found.insert(format!("{disk} has no device below it (device-mapper target zero or error)"));
        }
        for lower in lower.iter().filter(|_| depth > 0) {
            below(root, lower, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scratch;
    use super::*;

    #[test]
    fn folders_that_hold_no_data_are_known() {
        for folder in ["/dev", "/proc", "/proc/self", "/sys", "/sys/kernel"] {
            assert!(made_up(Path::new(folder)).is_some(), "{folder}");
        }
        for folder in ["/", "/usr"] {
            assert_eq!(made_up(Path::new(folder)), None, "{folder}");
        }
        let has_own =
            mount_of(Path::new("/dev/shm")).is_some_and(|mount| mount.point == Path::new("/dev/shm"));
        assert_eq!(made_up(Path::new("/dev/shm")).is_none(), has_own);
    }

    #[test]
    fn memory_below_devices_is_found_as_deep_as_it_is() {
        let folder = Scratch::new("backing");
        let root = folder.path("");
        let file = |name: &str, content: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        file("vda/size", "1");
        file("ram0/size", "1");
        file("ramp/size", "1");
        file("nullb0/size", "1");
        file("zram0/backing_dev", "none\n");
        file("zram1/backing_dev", "/dev/vda\n");
        file("sda/device/model", "scsi_debug      \n");
        file("sdb/device/model", "QEMU HARDDISK\n");
        file("dm-0/dm/name", "zero\n");
        fs::create_dir_all(root.join("dm-0/slaves")).unwrap();
        file("dm-1/dm/name", "striped\n");
        file("dm-1/slaves/vda/size", "");
        file("dm-1/slaves/dm-0/size", "");
        file("dm-2/dm/name", "itself\n");
        file("dm-2/slaves/dm-2/size", "");
        file("loop0/loop/backing_file", "/proc/self/status\n");
        for (disk, expected) in [
            ("vda", None),
            ("ramp", None),
            ("sdb", None),
            ("dm-2", None),
            ("loop0", None),
            ("absent", None),
            ("ram0", Some("RAM disk")),
            ("nullb0", Some("keeps nothing")),
            ("zram0", Some("compressed memory")),
            ("zram1", Some("for what is idle")),
            ("sda", Some("scsi_debug")),
            ("dm-0", Some("no device below")),
            ("dm-1", Some("dm-0 has no device below")),
        ] {
            let mut found = BTreeSet::new();
            below(&root, disk, DEPTH_MAX, &mut found);
            match expected {
                Some(words) => assert!(found.iter().any(|text| text.contains(words)), "{disk}: {found:?}"),
                None => assert!(found.is_empty(), "{disk}: {found:?}"),
            }
        }
    }
}
