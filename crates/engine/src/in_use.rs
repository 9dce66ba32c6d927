//! What uses a file or a block device now, so that writing to it would harm it: a mount, a device over it, swap space, or
//! another process.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use files::Identity;
use rustix::fs::OFlags;

use crate::mounts::{mount_of, mounts, unescape};
use crate::source::HostRoot;

/// A file, or a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// By its inode.
    File(Identity),
    /// By its number.
    Device(u64),
}

/// A loop device, and what it keeps its data in.
struct Loop {
    name: String,
    /// Of the device itself.
    number: Option<u64>,
    /// A file by its inode, whatever its names are now; or a device.
    backing: Storage,
}

/// `MAJOR:MINOR`, as sysfs and the mount table write it.
fn text(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// A number from that.
fn number(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// What the kernel says is in use of this storage, in words; none when it says nothing.
pub fn by_kernel(root: &HostRoot, storage: Storage) -> Option<String> {
    match storage {
        Storage::Device(device) => of_device(root, device),
        Storage::File(_) => {
            let of_loop = over(root, storage).map(|of| {
                let use_of_it = of.number.and_then(|number| of_device(root, number));
                let more = use_of_it.map(|what| format!(", which {what}")).unwrap_or_default();
                format!("is the backing file of {}{more}", of.name)
            });
            of_loop.or_else(|| swaps(root, storage).then(|| "is used as swap space".to_string()))
        }
    }
}

/// A device, its partitions or the disk that it is a partition of, and the partitions beside it: each in words with its number.
fn family(root: &HostRoot, device: u64) -> Vec<(String, u64)> {
    let folder = |number: u64| fs::canonicalize(root.join(format!("sys/dev/block/{}", text(number)))).ok();
    let Some(own) = folder(device) else { return vec![(String::new(), device)] };
    let name = |folder: &Path| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let dev = |folder: &Path| number(&fs::read_to_string(folder.join("dev")).ok()?);
    let is_partition = |folder: &Path| folder.join("partition").exists();
    let partitions = |disk: &Path| {
        let entries = fs::read_dir(disk).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = entries.filter(|path| is_partition(path)).collect();
        found.sort();
        found
    };
    let mut found = vec![(String::new(), device)];
    let mut add = |words: String, folder: &Path| found.extend(dev(folder).map(|number| (words, number)));
    match own.parent().filter(|_| is_partition(&own)) {
        Some(disk) => {
            add(format!("its disk {} ", name(disk)), disk);
            for beside in partitions(disk).iter().filter(|beside| **beside != own) {
                add(format!("{}, a partition of the same disk, ", name(beside)), beside);
            }
        }
        None => partitions(&own).iter().for_each(|of| add(format!("its partition {} ", name(of)), of)),
    }
    found
}

fn of_device(root: &HostRoot, device: u64) -> Option<String> {
    let mounts = mounts(root).unwrap_or_default();
    for (which, number) in family(root, device) {
        let text = text(number);
        if let Some(mount) = mounts.iter().find(|mount| mount.device == text) {
            return Some(format!("{which}is mounted on {}", mount.point.display()));
        }
        let holders = fs::read_dir(root.join(format!("sys/dev/block/{text}/holders")));
        if let Some(Ok(holder)) = holders.ok().and_then(|mut all| all.next()) {
            return Some(format!("{which}is part of {}", holder.file_name().to_string_lossy()));
        }
        if let Some(of) = over(root, Storage::Device(number)) {
            return Some(format!("{which}is the backing device of {}", of.name));
        }
        if swaps(root, Storage::Device(number)) {
            return Some(format!("{which}is used as swap space"));
        }
    }
    None
}

/// Whether it is in use as swap space.
fn swaps(root: &HostRoot, storage: Storage) -> bool {
    let table = fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    let mut paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths.any(|path| {
        let path = unescape(path.as_bytes());
        let path = path.strip_suffix("\\040(deleted)").unwrap_or(&path);
        fs::metadata(path).is_ok_and(|metadata| Storage::of(&metadata) == Some(storage))
    })
}

impl Storage {
    fn of(metadata: &fs::Metadata) -> Option<Storage> {
        match () {
            () if metadata.file_type().is_block_device() => Some(Storage::Device(metadata.rdev())),
            () if metadata.is_file() => Some(Storage::File(Identity::of_metadata(metadata))),
            () => None,
        }
    }
}

/// The loop device over a file or device.
fn over(root: &HostRoot, storage: Storage) -> Option<Loop> {
    let blocks = fs::read_dir(root.join("sys/block")).ok()?.flatten();
    let mut loops = blocks.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let image = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let device = root.join(format!("dev/{name}"));
        let by_name = || Storage::of(&fs::metadata(image.trim_end_matches('\n')).ok()?);
        let backing = backing(&device).or_else(by_name)?;
        let number = fs::read_to_string(entry.path().join("dev")).ok().and_then(|text| number(&text));
        Some(Loop { name, number, backing })
    });
    loops.find(|of| of.backing == storage)
}

/// What is below a loop device, from the kernel: its inode is known under every name, and also without one.
fn backing(device: &Path) -> Option<Storage> {
    // LOOP_GET_STATUS64 and `struct loop_info64` of linux/loop.h: three numbers, and more that is not needed.
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(device).ok()?;
    let mut info = [0_u64; 32];
    // SAFETY: the kernel writes 232 bytes, which fit.
    if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) } != 0 {
        return None;
    }
    // As `new_encode_dev` in linux/kdev_t.h writes a number.
    let decoded = |encoded: u64| {
        let (major, minor) = ((encoded >> 8) & 0xfff, (encoded & 0xff) | ((encoded >> 12) & 0xf_ff00));
        rustix::fs::makedev(major as u32, minor as u32)
    };
    let [holder, inode, device, ..] = info;
    Some(match device {
        0 => Storage::File(Identity { device: decoded(holder), inode }),
        device => Storage::Device(decoded(device)),
    })
}

/// The process that has it open for writing, in words: a virtual machine, for example. Other processes of this program do not
/// count: whatever they write is Plimsoll's.
pub fn by_process(found: &OwnedFd, storage: Storage, path: &Path) -> Option<String> {
    let numbers: Vec<Storage> = match storage {
        Storage::Device(device) => {
            family(&HostRoot::live(), device).into_iter().map(|(_, number)| Storage::Device(number)).collect()
        }
        Storage::File(_) => vec![storage],
    };
    let mut is_of_plimsoll = false;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !process.file_name().to_string_lossy().bytes().all(|digit| digit.is_ascii_digit()) {
            continue;
        }
        let folder = process.path();
        let writes = |entry: &fs::DirEntry| {
            let is_it = || {
                let metadata = fs::metadata(entry.path()).ok()?;
                Storage::of(&metadata).filter(|of| numbers.contains(of))
            };
            is_it().is_some() && is_open_for_writing(&folder.join("fdinfo").join(entry.file_name()))
        };
        let open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        if open.into_iter().any(|entry| writes(&entry)) {
            if is_this_program(&folder) {
                is_of_plimsoll = true;
                continue;
            }
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let number = process.file_name().to_string_lossy().into_owned();
            return Some(format!("is open for writing by process {number} ({})", name.trim()));
        }
    }
    // What this user may not see, or is in another namespace, or in the kernel.
    let is_local = || {
        let mounts = mounts(&HostRoot::live()).unwrap_or_default();
        let path = std::path::absolute(path).ok().and_then(|path| mount_of(mounts, &path));
        path.is_some_and(|mount| mount.medium().is_none())
    };
    (!is_of_plimsoll && matches!(storage, Storage::File(_)) && is_local() && has_writer(found))
        .then(|| "is open for writing by another process, which this user cannot see".to_string())
}

/// Whether `fdinfo` says that a descriptor may write.
fn is_open_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    // One opened only to be named neither reads nor writes.
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0)
}

/// Whether a process runs the same program as this one.
fn is_this_program(folder: &Path) -> bool {
    let program = |folder: &Path| fs::metadata(folder.join("exe")).ok().map(|of| Identity::of_metadata(&of));
    program(folder).is_some_and(|of| program(Path::new("/proc/self")) == Some(of))
}

/// Whether anything has a file open for writing: the kernel then grants no read lease (fcntl(2)).
fn has_writer(found: &OwnedFd) -> bool {
    let Ok(file) = files::reopen(found, OFlags::RDONLY) else { return false };
    // F_SETSIG of asm-generic/fcntl.h.
    const SET_SIGNAL: libc::c_int = 10;
    let lease = |file: &File, kind: libc::c_int| {
        // SAFETY: both calls take numbers only.
        unsafe {
            // A process that opens it at this moment must not end this one: SIGURG is ignored, SIGIO is not.
            libc::fcntl(file.as_raw_fd(), SET_SIGNAL, libc::SIGURG) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
        }
    };
    if lease(&file, libc::F_RDLCK) {
        lease(&file, libc::F_UNLCK);
        return false;
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    /// A host with a disk `sda` (8:0) of two partitions (8:1, 8:2).
    fn host() -> Scratch {
        let host = Scratch::new();
        let disk = "sys/devices/pci/block/sda";
        for (folder, dev) in
            [(disk.to_string(), "8:0"), (format!("{disk}/sda1"), "8:1"), (format!("{disk}/sda2"), "8:2")]
        {
            host.file(&format!("{folder}/dev"), format!("{dev}\n"));
            fs::create_dir_all(host.join(format!("{folder}/holders"))).unwrap();
            fs::create_dir_all(host.join("sys/dev/block")).unwrap();
            std::os::unix::fs::symlink(host.join(&folder), host.join(format!("sys/dev/block/{dev}")))
                .unwrap();
        }
        for partition in ["sda1", "sda2"] {
            host.file(&format!("{disk}/{partition}/partition"), "1\n");
        }
        host.file("proc/self/mountinfo", "1 0 0:20 / /proc rw - proc proc rw\n");
        host.file("proc/swaps", "Filename Type Size Used Priority\n");
        host
    }

    fn of(host: &Scratch, minor: u32) -> Option<String> {
        by_kernel(&HostRoot::at(host.path()), Storage::Device(rustix::fs::makedev(8, minor)))
    }

    #[test]
    fn a_disk_and_all_its_partitions_are_in_use_where_one_is() {
        let host = host();
        assert_eq!([of(&host, 0), of(&host, 1), of(&host, 2), of(&host, 9)], [None, None, None, None]);
        host.file("proc/self/mountinfo", "1 0 8:2 / /srv rw - ext4 /dev/sda2 rw\n");
        assert_eq!(of(&host, 2).unwrap(), "is mounted on /srv");
        assert_eq!(of(&host, 0).unwrap(), "its partition sda2 is mounted on /srv");
        assert_eq!(of(&host, 1).unwrap(), "sda2, a partition of the same disk, is mounted on /srv");
    }

    #[test]
    fn a_member_of_an_array_or_a_volume_is_in_use() {
        for holder in ["md0", "dm-3"] {
            let host = host();
            fs::create_dir(host.join(format!("sys/devices/pci/block/sda/sda1/holders/{holder}"))).unwrap();
            assert_eq!(of(&host, 1).unwrap(), format!("is part of {holder}"));
            assert_eq!(of(&host, 0).unwrap(), format!("its partition sda1 is part of {holder}"));
            let whole = host_of_whole(holder);
            assert_eq!(of(&whole, 0).unwrap(), format!("is part of {holder}"));
            assert_eq!(of(&whole, 2).unwrap(), format!("its disk sda is part of {holder}"));
        }
    }

    fn host_of_whole(holder: &str) -> Scratch {
        let host = host();
        fs::create_dir(host.join(format!("sys/devices/pci/block/sda/holders/{holder}"))).unwrap();
        host
    }

    #[test]
    fn swap_space_is_in_use() {
        let host = host();
        let swap = host.file("swap file", "");
        let name = swap.display().to_string().replace(' ', "\\040");
        host.file("proc/swaps", format!("Filename Type Size Used Priority\n{name} file 1 0 -2\n"));
        let identity = Identity::of_metadata(&fs::metadata(&swap).unwrap());
        let found = by_kernel(&HostRoot::at(host.path()), Storage::File(identity));
        assert_eq!(found.unwrap(), "is used as swap space");
    }

    #[test]
    fn a_file_that_somebody_may_write_is_in_use_and_one_that_is_read_is_not() {
        let folder = Scratch::new();
        let path = folder.file("image", vec![1; 4096]);
        let found = |path: &Path| -> OwnedFd { files::locate(path).unwrap().found.unwrap() };
        assert!(!has_writer(&found(&path)));
        let reader = File::open(&path).unwrap();
        assert!(!has_writer(&found(&path)));
        let writer = File::options().append(true).open(&path).unwrap();
        let link = folder.join("link");
        fs::hard_link(&path, &link).unwrap();
        // A file system without leases cannot say.
        let fresh = found(&link);
        drop(reader);
        assert!(has_writer(&fresh) || rustix::fs::fstatfs(&writer).is_ok_and(|of| of.f_type != 0xef53));
    }
}
