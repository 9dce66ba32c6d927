//! Finds the block device of a path, a device name or a file.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use engine::devices::mount_of;
use engine::mounts::mounts;
use engine::source::{HostRoot, Unavailable};

/// A whole block device, which is what the kernel limits; a partition is limited by the limit of its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// The kernel's name, for example `vda`.
    pub name: String,
}

impl fmt::Display for Device {
    /// The number in cgroup files: `254:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Device {
    /// The device of a factor: the one in `on`, otherwise the common one of all `files`. Without known files,
    /// as for a target, the only disk of the host.
    pub fn find(
        root: &HostRoot,
        on: Option<&str>,
        files: &[impl AsRef<Path>],
    ) -> Result<Device, Unavailable> {
        if let Some(on) = on {
            return Device::named(root, on);
        }
        let mut found: Option<(Device, &Path)> = None;
        for file in files {
            let file = file.as_ref();
            let device = Device::of_path(root, file)?;
            match &found {
                Some((first, of)) if *first != device => {
                    return Err(Unavailable(format!(
                        "{} is on {} and {} on {}: name one device with on = \"/dev/{}\"",
                        of.display(),
                        first.name,
                        file.display(),
                        device.name,
                        first.name
                    )));
                }
                Some(_) => {}
                None => found = Some((device, file)),
            }
        }
        match found {
            Some((device, _)) => Ok(device),
            None => Device::only_disk(root),
        }
    }

    /// The disk of a host with exactly one. Other devices, such as loop devices and RAM disks, have no
    /// hardware.
    fn only_disk(root: &HostRoot) -> Result<Device, Unavailable> {
        let folder = root.join("sys/class/block");
        let text =
            |name: &str, file: &str| fs::read_to_string(folder.join(name).join(file)).unwrap_or_default();
        let is_disk = |name: &String| {
            folder.join(name).join("device").exists()
                && !folder.join(name).join("partition").exists()
                // A drive without a medium, for example a CD drive.
                && text(name, "size").trim().parse().is_ok_and(|sectors: u64| sectors > 0)
                && text(name, "removable").trim() != "1"
        };
        let disks: Vec<String> = names(root).into_iter().filter(is_disk).collect();
        match disks.as_slice() {
            [disk] => Device::named(root, disk),
            [] => Err(Unavailable("the device is not known: name it, such as on = \"/dev/vda\"".into())),
            [first, ..] => Err(Unavailable(format!(
                "there are several disks: {}; name one, such as on = \"/dev/{first}\"",
                disks.join(", ")
            ))),
        }
    }

    /// A device by its path, its kernel name, or a file on it.
    fn named(root: &HostRoot, on: &str) -> Result<Device, Unavailable> {
        if !on.contains('/') {
            if let Ok(numbers) = fs::read_to_string(root.join(format!("sys/class/block/{on}/dev")))
                && let Some((major, minor)) = parse_numbers(&numbers)
            {
                return Device::whole(root, major, minor);
            }
            let known = names(root).join(", ");
            return Err(Unavailable(format!(
                "there is no block device `{on}`; the devices here are {known}"
            )));
        }
        Device::of_path(root, Path::new(on))
    }

    /// The device of a path: the path itself (`/dev/vda`) or its file system. For a missing file, the nearest
    /// existing parent counts.
    pub(crate) fn of_path(root: &HostRoot, path: &Path) -> Result<Device, Unavailable> {
        let absolute =
            std::path::absolute(path).map_err(|error| Unavailable(format!("{}: {error}", path.display())))?;
        let mut at = absolute.as_path();
        loop {
            let inside = root.join(at.strip_prefix("/").unwrap_or(at));
            match fs::metadata(&inside) {
                Ok(data) if data.file_type().is_block_device() => {
                    return Device::whole(
                        root,
                        rustix::fs::major(data.rdev()),
                        rustix::fs::minor(data.rdev()),
                    );
                }
                Ok(data) => {
                    let (major, minor) = (rustix::fs::major(data.dev()), rustix::fs::minor(data.dev()));
                    if major != 0 {
                        return Device::whole(root, major, minor);
                    }
                    return Device::behind_mount(root, path, major, minor);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !at.starts_with("/dev") => {
                    match at.parent() {
                        Some(parent) => at = parent,
                        None => return Err(Unavailable(format!("{}: {error}", path.display()))),
                    }
                }
                Err(error) => return Err(Unavailable(format!("{}: {error}", path.display()))),
            }
        }
    }

    /// The device of a file system that reports its own number, as btrfs does: the mounted source.
    fn behind_mount(root: &HostRoot, path: &Path, major: u32, minor: u32) -> Result<Device, Unavailable> {
        let mounts = mounts(root).unwrap_or_default();
        let numbered = mounts.iter().find(|mount| mount.device == format!("{major}:{minor}")).cloned();
        // The number of a subvolume of Btrfs is not that of its mount.
        let mount = numbered.or_else(|| mount_of(path).filter(|_| root.is_live()));
        let (kind, source) = mount.as_ref().map_or(("an unknown file system", ""), |mount| {
            (mount.file_system.as_str(), mount.source.as_str())
        });
        if source.starts_with("/dev/") {
            return Device::named(root, source);
        }
        Err(Unavailable(format!(
            "{} is on {kind}, which has no block device of its own: name the device with on = \"/dev/vda\"",
            path.display()
        )))
    }

    /// The disk of a partition, or the device itself.
    fn whole(root: &HostRoot, major: u32, minor: u32) -> Result<Device, Unavailable> {
        let link = root.join(format!("sys/dev/block/{major}:{minor}"));
        let unknown = |error: std::io::Error| {
            Unavailable(format!("block device {major}:{minor}: {}: {error}", link.display()))
        };
        let mut folder = fs::canonicalize(&link).map_err(unknown)?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let numbers = fs::read_to_string(folder.join("dev")).map_err(unknown)?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match parse_numbers(&numbers) {
            Some((major, minor)) => Ok(Device { major, minor, name }),
            None => Err(Unavailable(format!("{}: not a device number", folder.join("dev").display()))),
        }
    }
}

fn parse_numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn names(root: &HostRoot) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join("sys/class/block")) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    fn host() -> (Scratch, HostRoot) {
        let host = Scratch::new();
        host.file("sys/devices/pci/block/vda/dev", "254:0\n");
        host.file("sys/devices/pci/block/vda/vda1/dev", "254:1\n");
        host.file("sys/devices/pci/block/vda/vda1/partition", "1\n");
        for (number, folder) in [("254:0", "vda"), ("254:1", "vda/vda1")] {
            host.link(&format!("sys/dev/block/{number}"), &format!("../../devices/pci/block/{folder}"));
            let name = folder.rsplit('/').next().unwrap();
            host.link(&format!("sys/class/block/{name}"), &format!("../../devices/pci/block/{folder}"));
        }
        let root = HostRoot::at(host.path());
        (host, root)
    }

    #[test]
    fn a_partition_is_limited_by_its_disk() {
        let (_host, root) = host();
        let disk = Device { major: 254, minor: 0, name: "vda".into() };
        for on in ["vda", "vda1"] {
            assert_eq!(Device::find(&root, Some(on), &[] as &[&Path]), Ok(disk.clone()));
        }
        assert_eq!(disk.to_string(), "254:0");
    }

    #[test]
    fn what_is_missing_is_named() {
        let (_host, root) = host();
        let error = |on: Option<&str>| Device::find(&root, on, &[] as &[&Path]).unwrap_err().0;
        assert_eq!(error(Some("sda")), "there is no block device `sda`; the devices here are vda, vda1");
        assert_eq!(error(None), "the device is not known: name it, such as on = \"/dev/vda\"");
        assert!(error(Some("/dev/none")).starts_with("/dev/none: "));
    }

    #[test]
    fn of_a_target_the_only_disk_is_meant() {
        let (host, root) = host();
        let add = |name: &str, number: &str, files: &[(&str, &str)]| {
            host.file(&format!("sys/devices/pci/block/{name}/dev"), format!("{number}\n"));
            for (file, content) in files {
                host.file(&format!("sys/devices/pci/block/{name}/{file}"), content);
            }
            host.link(&format!("sys/dev/block/{number}"), &format!("../../devices/pci/block/{name}"));
            host.link(&format!("sys/class/block/{name}"), &format!("../../devices/pci/block/{name}"));
        };
        let find = || Device::find(&root, None, &[] as &[&Path]);
        let disk = [("size", "41943040\n"), ("removable", "0\n"), ("device/vendor", "0x1af4\n")];
        for (file, content) in disk {
            host.file(&format!("sys/devices/pci/block/vda/{file}"), content);
        }
        // None of these is a disk: without hardware, without medium, removable.
        add("loop0", "7:0", &[("size", "2048\n"), ("removable", "0\n")]);
        add("sr0", "11:0", &[("size", "2097151\n"), ("removable", "1\n"), ("device/vendor", "QEMU\n")]);
        add("nbd0", "43:0", &[("size", "0\n"), ("removable", "0\n"), ("device/vendor", "\n")]);
        assert_eq!(find(), Ok(Device { major: 254, minor: 0, name: "vda".into() }));
        add("vdb", "254:16", &disk);
        let error = find().unwrap_err().0;
        assert_eq!(error, "there are several disks: vda, vdb; name one, such as on = \"/dev/vda\"");
    }

    #[test]
    fn a_file_system_without_a_device_says_so() {
        let root = HostRoot::live();
        let error = Device::find(&root, Some("/proc/self/stat"), &[] as &[&Path]).unwrap_err().0;
        assert!(error.contains("is on proc, which has no block device of its own"), "{error}");
    }

    #[test]
    fn a_file_yet_to_be_made_is_on_the_device_of_its_folder() {
        let root = HostRoot::live();
        let folder = Scratch::new();
        // The root of a container may have no block device; both must then fail.
        let here = Device::find(&root, None, &[folder.path()]);
        let there = Device::find(&root, None, &[folder.join("a/b/c")]);
        match (here, there) {
            (Ok(here), Ok(there)) => assert_eq!(here, there),
            (here, there) => assert!(here.is_err() && there.is_err()),
        }
    }
}
