//! Mounts a file system at a directory and unmounts it, and makes this directory if it is missing.
//!
//! The file system is mounted where nobody sees it and then attached to the directory in one step. So after a kill it is
//! mounted as a whole, or not at all.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::factor::Undo;
use engine::mounts::{Mount, mounts};
use engine::source::{HostRoot, Unavailable};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};

use super::level::MountOption;
use super::superblock::{self, Kind};
use crate::process;

/// How long to wait for the last users of a mount or device: io_uring closes files in the background.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Options of the mount, not of the file system.
const ATTRIBUTES: &[(&str, MountAttrFlags)] = &[
    ("noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
    ("relatime", MountAttrFlags::MOUNT_ATTR_RELATIME),
    ("strictatime", MountAttrFlags::MOUNT_ATTR_STRICTATIME),
    ("nodiratime", MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ("nosuid", MountAttrFlags::MOUNT_ATTR_NOSUID),
    ("nodev", MountAttrFlags::MOUNT_ATTR_NODEV),
    ("noexec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
];

/// A file system that is about to be mounted.
pub(super) struct Context {
    kind: Kind,
    context: OwnedFd,
    attributes: MountAttrFlags,
}

impl Context {
    /// Begins the mount of a file system with these options. Changes nothing: it says whether the kernel has the file system
    /// and accepts the options.
    pub(super) fn open(kind: Kind, options: &[MountOption]) -> Result<Context, Unavailable> {
        let name = kind.name();
        let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|error| {
            Unavailable(match error {
                Errno::NODEV => format!("this kernel has no {name} (see /proc/filesystems): choose another"),
                Errno::PERM => "mounting needs root (CAP_SYS_ADMIN)".into(),
                Errno::NOSYS => "mounting needs Linux 5.2 or newer".into(),
                error => format!("{name} cannot be mounted: {error}"),
            })
        })?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mut context = Context { kind, context, attributes };
        for MountOption { name, value } in options {
            match ATTRIBUTES.iter().find(|(attribute, _)| attribute == name && value.is_none()) {
                Some((_, flag)) => context.attributes |= *flag,
                None => context.set(name, value.as_deref())?,
            }
        }
        Ok(context)
    }

    fn set(&self, name: &str, value: Option<&str>) -> Result<(), Unavailable> {
        match value {
            Some(value) => fsconfig_set_string(&self.context, name, value),
            None => fsconfig_set_flag(&self.context, name),
        }
        .map_err(|error| {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            self.failed(&format!("does not accept the mount option `{name}{value}`"), error)
        })
    }

    /// Mounts the devices, of which the first is the source, at a directory. The root of the file system gets the owner and
    /// the mode of this directory, so that the same users can write there.
    pub(super) fn mount(self, devices: &[&Path], point: &Path) -> Result<(), Unavailable> {
        for (at, device) in devices.iter().enumerate() {
            let key = if at == 0 { "source" } else { "device" };
            fsconfig_set_string(&self.context, key, *device)
                .map_err(|error| self.failed(&format!("cannot use {}", device.display()), error))?;
        }
        let refused = |error: Errno| self.failed("cannot be mounted as it was made", error);
        fsconfig_create(&self.context).map_err(refused)?;
        let mount =
            fsmount(&self.context, FsMountFlags::FSMOUNT_CLOEXEC, self.attributes).map_err(refused)?;
        // The directory itself, whatever has its name now.
        let directory =
            files::locate_exactly(point).and_then(|named| named.found.ok_or(io::ErrorKind::NotFound.into()));
        let directory = directory.map_err(|error| wrong(point, error))?;
        take_owner(&mount, &directory).map_err(|error| self.failed("has no owner", error))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&mount, "", &directory, "", flags)
            .map_err(|error| self.failed(&format!("cannot be mounted at {}", point.display()), error))
    }

    /// An error with what the kernel says about it.
    fn failed(&self, what: &str, error: Errno) -> Unavailable {
        let mut said = String::new();
        let mut line = [0_u8; 1024];
        // Each message is read once; the first letter is its severity.
        while let Ok(bytes @ 1..) = rustix::io::read(&self.context, &mut line) {
            let text = String::from_utf8_lossy(&line[..bytes]);
            let text = text.trim();
            said.push_str("; the kernel says: ");
            said.push_str(text.get(2..).unwrap_or(text));
        }
        Unavailable(format!("{} {what}: {error}{said}", self.kind.name()))
    }
}

/// Gives the root of a file system the owner and the mode of a directory.
fn take_owner(mount: &OwnedFd, directory: &OwnedFd) -> Result<(), Errno> {
    let status = rustix::fs::fstat(directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(mount, ".", flags, Mode::empty())?;
    rustix::fs::fchown(&root, Some(Uid::from_raw(status.st_uid)), Some(Gid::from_raw(status.st_gid)))?;
    rustix::fs::fchmod(&root, Mode::from_raw_mode(status.st_mode & 0o7777))
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("{}: {error}", path.display()))
}

/// Whether a directory can become a mount point: it is missing and can be made, or it is empty.
pub(super) fn check_point(point: &Path) -> Result<(), Unavailable> {
    let wrong = |what: &str| Err(Unavailable(format!("{} {what}", point.display())));
    match fs::symlink_metadata(point) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match point.parent().map(|parent| rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)) {
                Some(Ok(())) => Ok(()),
                Some(Err(error)) => wrong(&format!("cannot be made: {error}")),
                None => wrong("has no parent directory"),
            }
        }
        Err(error) => wrong(&format!("cannot be a mount point: {error}")),
        Ok(found) if !found.is_dir() => wrong("is not a directory, so nothing can be mounted there"),
        Ok(_) => {
            let at = mounts(&HostRoot::live())?;
            if let Some(mount) = at.iter().rev().find(|mount| mount.point == point) {
                return wrong(&format!(
                    "is a mount point already, of {} on {}: unmount it, or choose another directory",
                    mount.file_system, mount.source
                ));
            }
            let mut entries =
                fs::read_dir(point).map_err(|error| Unavailable(format!("{}: {error}", point.display())))?;
            match entries.next() {
                None => Ok(()),
                Some(_) => wrong("is not empty, and a mount hides its files: choose an empty directory"),
            }
        }
    }
}

/// A directory that will be made: it is recognized by its time of modification, which is set before it gets its name.
pub(super) struct NewFolder {
    path: PathBuf,
    made_as: PathBuf,
    modified_unix_s: i64,
}

impl NewFolder {
    /// Plans a directory at a path where there is none. `number` is random.
    pub(super) fn plan(path: &Path, number: u64) -> NewFolder {
        // A time since 1980 with even seconds, which every file system stores.
        let modified_unix_s = 320_000_000 + (number % 1_400_000_000).cast_signed() / 2 * 2;
        let made_as = path.with_file_name(format!(".plimsoll-{number:016x}"));
        NewFolder { path: path.into(), made_as, modified_unix_s }
    }

    pub(super) fn undo(&self) -> Undo {
        Undo::RemoveFolder {
            path: self.path.clone(),
            made_as: self.made_as.clone(),
            modified_unix_s: self.modified_unix_s,
        }
    }

    pub(super) fn make(&self) -> Result<(), Unavailable> {
        let named = files::locate_exactly(&self.path).map_err(|error| wrong(&self.path, error))?;
        let folder = &named.directory;
        let made_as = self.made_as.file_name().unwrap_or_default();
        let time = Timespec { tv_sec: self.modified_unix_s, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::mkdirat(folder, made_as, Mode::from_raw_mode(0o755))
            .and_then(|()| rustix::fs::utimensat(folder, made_as, &times, AtFlags::SYMLINK_NOFOLLOW))
            .and_then(|()| {
                rustix::fs::renameat_with(folder, made_as, folder, &named.name, RenameFlags::NOREPLACE)
            })
            .map_err(|error| Unavailable(format!("{} cannot be made: {error}", self.path.display())))
    }
}

/// Removes a directory that was made with this time of modification and was not used since.
pub(crate) fn remove_folder(path: &Path, made_as: &Path, modified_unix_s: i64) -> Result<(), Unavailable> {
    for path in folders_as_made(path, made_as, modified_unix_s) {
        rustix::fs::rmdir(path)
            .map_err(|error| Unavailable(format!("{} cannot be removed: {error}", path.display())))?;
    }
    Ok(())
}

/// Whether [`remove_folder`] has something to remove.
pub(crate) fn has_folder(path: &Path, made_as: &Path, modified_unix_s: i64) -> bool {
    folders_as_made(path, made_as, modified_unix_s).next().is_some()
}

/// The directory under its name and under that until it was complete, as far as it is as it was made.
fn folders_as_made<'a>(
    path: &'a Path,
    made_as: &'a Path,
    modified_unix_s: i64,
) -> impl Iterator<Item = &'a Path> {
    // Without its own time it has a name that nothing else has, and is empty.
    [(path, true), (made_as, false)].into_iter().filter_map(move |(path, is_complete)| {
        let found = fs::symlink_metadata(path).ok()?;
        let is_as_made = found.mtime() == modified_unix_s && found.mtime_nsec() == 0;
        (found.is_dir() && (is_as_made || !is_complete)).then_some(path)
    })
}

/// Whether the file system with this UUID is mounted at a directory, as far as that is known.
pub(crate) fn is_mounted(point: &Path, uuid: &str) -> bool {
    let is_it = |mount: Mount| mount.point == point && has_uuid(&mount, uuid).unwrap_or(true);
    mounts(&HostRoot::live()).map_or(true, |all| all.into_iter().any(is_it))
}

/// Unmounts the file system with this UUID from a directory. Another file system there stays.
pub(crate) fn remove(point: &Path, uuid: &str) -> Result<(), Unavailable> {
    let begin = Instant::now();
    loop {
        let here: Vec<Mount> =
            mounts(&HostRoot::live())?.into_iter().filter(|mount| mount.point == point).collect();
        let Some((top, below)) = here.split_last() else { return Ok(()) };
        if !has_uuid(top, uuid)? {
            for mount in below {
                if has_uuid(mount, uuid)? {
                    return Err(Unavailable(format!(
                        "{} was mounted at {} over the file system that Plimsoll made: unmount it, then run `plimsoll restore`",
                        top.source,
                        point.display()
                    )));
                }
            }
            return Ok(());
        }
        match unmount(point, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::BUSY) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::BUSY) => return Err(in_use(point)),
            Err(error) => {
                let advice = if error == Errno::PERM { "; run as root" } else { "" };
                return Err(Unavailable(format!("{} cannot be unmounted: {error}{advice}", point.display())));
            }
        }
    }
}

/// Whether a mount is that of the file system with this UUID.
fn has_uuid(mount: &Mount, uuid: &str) -> Result<bool, Unavailable> {
    // Others are not made by Plimsoll, and may have a source that is not a device.
    if Kind::ALL.iter().all(|kind| kind.name() != mount.file_system) {
        return Ok(false);
    }
    let found = superblock::read(Path::new(&mount.source)).map_err(|error| {
        let point = mount.point.display();
        Unavailable(format!(
            "which file system is mounted at {point} is not known: {}: {error}",
            mount.source
        ))
    })?;
    Ok(found.is_some_and(|found| found.uuid == uuid))
}

/// Names some of the processes that use a mount.
fn in_use(point: &Path) -> Unavailable {
    const NAMED_MAX: usize = 3;
    let root = HostRoot::live();
    let uses = |process: &u32| {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        let fixed = ["cwd", "root", "exe"].map(|link| folder.join(link));
        open.chain(fixed).any(|link| fs::read_link(link).is_ok_and(|path| path.starts_with(point)))
    };
    let named: Vec<String> = process::all(&root)
        .into_iter()
        .filter(uses)
        .take(NAMED_MAX)
        .map(|process| {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            format!("{process} ({})", name.trim())
        })
        .collect();
    let by = match named.is_empty() {
        true => "; a mount below it or a process in another namespace uses it".into(),
        false => format!(" by process {}", named.join(", ")),
    };
    Unavailable(format!(
        "{} cannot be unmounted, because it is in use{by}: end this use, then run `plimsoll restore`",
        point.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    #[test]
    fn a_folder_is_removed_only_as_it_was_made() {
        let scratch = Scratch::new();
        let path = scratch.join("point");
        let folder = || NewFolder::plan(&path, 0x1234_5678_9abc_def1);
        let undo = || {
            let Undo::RemoveFolder { path, made_as, modified_unix_s } = folder().undo() else { panic!() };
            remove_folder(&path, &made_as, modified_unix_s)
        };
        undo().unwrap();
        folder().make().unwrap();
        assert!(folder().make().is_err(), "an existing directory is not replaced");
        undo().unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "the second attempt left its name");
        // One of somebody else, one that was used, and a file.
        fs::create_dir(&path).unwrap();
        undo().unwrap();
        assert!(path.exists());
        fs::remove_dir(&path).unwrap();
        folder().make().unwrap();
        scratch.file("point/file", "kept");
        undo().unwrap();
        assert_eq!(scratch.text("point/file"), "kept");
    }

    #[test]
    fn what_cannot_be_a_mount_point_is_named() {
        let scratch = Scratch::new();
        scratch.file("full/file", "");
        fs::create_dir(scratch.join("empty")).unwrap();
        check_point(&scratch.join("empty")).unwrap();
        check_point(&scratch.join("new")).unwrap();
        for (path, error) in [
            (scratch.join("full"), "is not empty, and a mount hides its files"),
            (scratch.join("full/file"), "is not a directory"),
            (scratch.join("none/new"), "cannot be made: No such file or directory"),
            ("/proc".into(), "is a mount point already, of proc"),
        ] {
            let why = check_point(&path).unwrap_err().0;
            assert!(why.contains(error), "{why}");
        }
    }
}
